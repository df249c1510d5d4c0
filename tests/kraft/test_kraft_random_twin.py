"""Random sequences on the twin: what must hold after every event, and that a seed gives one answer.

Source: docs/kraft.md, section 13.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.kraft_cases import run_case
from tests.support.kraft_random import random_case


def assert_invariants(partition, before, changes):
    """Section 13; `before` is None for a new partition, `changes` are the event's records of it."""
    isr, elr, leader = partition["isr"], partition.get("elr", []), partition["leader"]
    assert len({*isr, *elr}) == len(isr) + len(elr)
    assert len(partition.get("last_known_elr", [])) <= 1
    assert set(isr) <= set(partition["replicas"])
    assert leader == -1 or leader in partition["replicas"]
    if before is not None:
        grown = partition["partition_epoch"] - before["partition_epoch"]
        assert grown >= len(changes)
        assert 0 <= partition["leader_epoch"] - before["leader_epoch"] <= grown
    if changes and changes[-1].get("leader", -1) >= 0:
        assert leader in isr
    if "recovery" in partition and (before is None or "recovery" not in before):
        assert isr == [leader]


@pytest.mark.parametrize("profile", ["kraft-4.0", "kraft-4.1", "kraft-4.3"])
def test_invariants_hold_after_every_event(profile):
    """Of 40 sequences; every kind of event and of record is among them."""
    ops, kinds = Counter(), Counter()
    for seed in range(40):
        case = random_case(seed, profile)
        assert not run_case(case)[1]
        partitions = dict(case["start"]["partitions"])
        for step in case["events"]:
            ops[step["event"]["op"]] += 1
            records = step["expect"]["records"]
            kinds.update(record["type"] for record in records)
            for name, partition in step["expect"].get("partitions", {}).items():
                before = partitions.pop(name, None)
                if partition is not None:
                    changes = [r for r in records if r["type"] == "PARTITION_CHANGE_RECORD"
                               and f"{r['topic']}-{r['partitionId']}" == name]
                    assert_invariants(partition, before, changes)
                    partitions[name] = partition
    assert len(ops) == 17
    assert len(kinds) == 10
