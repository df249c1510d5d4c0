"""Sessions expire in the order of Java's ConcurrentHashMap: its answers are those of a JVM.

`tests/support/data/ConcurrentOrders.java` made the sequences, and tells how.
"""

from __future__ import annotations

import gzip
import json
import random
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


def test_the_order_of_a_table_does_not_depend_on_when_it_is_asked_for():
    """Its places are made when they are asked for, of all that was put and removed until then."""
    chance = random.Random(8)
    asked, waiting = (ConcurrentTable(lambda key: key * 977 % 64) for _ in range(2))
    for step in range(25_000):
        key = chance.randrange(200)
        if key in asked.times and chance.random() < 0.4:
            asked.remove(key)
            waiting.remove(key)
        else:
            asked.put(key, step)
            waiting.put(key, step)
        if step % 50 == 0:
            assert sorted(asked) == sorted(asked.times)
    assert list(asked) == list(waiting)
    assert asked.times == waiting.times
