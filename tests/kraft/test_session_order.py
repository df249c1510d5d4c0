"""Sessions expire in the order of Java's ConcurrentHashMap: its answers are those of a JVM.

`tests/support/data/ConcurrentOrders.java` made the sequences, and tells how.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from kfast.controllers.kraft.hash_orders import ConcurrentTable

ANSWERS = Path(__file__).parents[1] / "support" / "data" / "concurrent_orders.jsonl.gz"


def test_keys_come_in_the_order_of_a_jvm():
    """Random puts and removals; buckets become trees, and lists again by the shape of the tree."""
    n_trees = n_lists_again = 0
    with gzip.open(ANSWERS, "rt") as lines:
        for number, line in enumerate(lines):
            table = ConcurrentTable(lambda key: key)
            for step, (key, puts, order) in enumerate(json.loads(line)):
                before = sum(bucket.tree is not None for bucket in table.buckets)
                if puts:
                    table.put(key, step)
                elif key in table.times:
                    table.remove(key)
                after = sum(bucket.tree is not None for bucket in table.buckets)
                n_trees += after > before
                n_lists_again += after < before
                assert order is None or list(table) == order, (number, step)
    assert n_trees > 50
    assert n_lists_again > 10
