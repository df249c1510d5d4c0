"""A store beside the cache changes nothing but controller epochs that were adopted.

A replica outside the ISR goes offline: the cache takes the controller's epoch, the stored record
keeps the old one (docs/controller.md, section 2.6). A leader that writes an ISR itself keeps it too
(section 8.1, before 2.7): it writes the epoch of the request that made it the leader, and has
passed over later requests that did not raise the leader epoch. So whatever is read again has the
old epoch. Without a store the cache is the store, and an adopted epoch stays (docs/deviations.md).
Here the same random events happen to both; nothing else may differ, and controller epochs only
where one was adopted.

    python -m tests.rules.test_adopted_epochs zk-2.4 3 60

repeats one comparison.

Source: Kafka 2.4, `ReplicaManager.becomeLeaderOrFollower` and `Partition.makeLeader`.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kfast import Leadership
from tests.support.event import Event
from tests.support.kfast_run import KfastRun, RowOrder, Setting
from tests.support.random_clusters import random_context, store_like
from tests.support.random_events import Generator
from tests.support.reference_profiles import PROFILES
from tests.support.twin_run import TwinRun

pytestmark = pytest.mark.kernels

EVENTS = 60
SEEDS = (0, 5, 8)
NOT_BEFORE_2_4 = frozenset({
    "reassign_partitions", "alter_partition_reassignments", "on_partition_reassignment",
})
"""Before 2.4 the epoch that these bump is stored and not cached: the other deviation."""


class Comparison:
    """One random cluster with a store and without, and a twin that says what may happen next."""

    def __init__(self, profile: str, seed: int) -> None:
        random = Random(seed)
        ctx = random_context(random, PROFILES[profile])
        self.with_store = KfastRun(ctx, store_like(ctx), Setting())
        self.alone = KfastRun(ctx, None, Setting("wide"))
        state = self.alone.state
        ctx.racks = dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))
        self.twin = TwinRun(ctx, None)
        self.source = Generator(random, ctx, None, self.twin.controller)
        self.adopted: set[int] = set()
        self.read_again = 0
        self.log: list[str] = []

    def run(self, events: int) -> Comparison:
        """The controller starts, and events happen; both are compared after each."""
        self.step(self.source.failover())
        for _ in range(events):
            event = self.source.next()
            cached = self.twin.ctx.profile.epoch_bump_is_cached
            if cached or event.name not in NOT_BEFORE_2_4:
                self.step(event)
        return self

    def step(self, event: Event) -> None:
        """One event, to all."""
        self.log.append(str(event))
        self.twin.controller.rank = RowOrder(self.alone)
        self.twin.apply(event)
        outcomes = [run.apply(event) for run in (self.with_store, self.alone)]
        self.compare()
        events = "\n".join(self.log[-3:])
        assert answers(self.with_store, outcomes[0]) == answers(self.alone, outcomes[1]), events

    def compare(self) -> None:
        """Digests are equal once the adopted epochs are put aside."""
        ours, theirs = self.with_store.state, self.alone.state
        names = list(zip(ours.topic_row.tolist(), ours.partition.tolist(), strict=True))
        stored = self.with_store.store.records()
        copy = ours.copy()
        for row in range(ours.n_partitions):
            mine, other = ours.leadership(row), theirs.leadership(row)
            if mine is None or other is None:
                self.adopted.discard(row)
                continue
            record = stored.get((ours.topic[names[row][0]].as_py(), names[row][1]))
            assert isinstance(record, Leadership), self.log[-1]
            same = replace(record, controller_epoch=mine.controller_epoch)
            assert frozenset(same.isr) == frozenset(mine.isr), self.log[-1]
            assert replace(same, isr=mine.isr) == mine, self.log[-1]
            if record.controller_epoch != mine.controller_epoch:
                self.adopted.add(row)
            if mine.controller_epoch != other.controller_epoch:
                assert row in self.adopted, (names[row], self.log[-1], mine, other)
                assert mine.controller_epoch == record.controller_epoch < other.controller_epoch
                copy.records["controller_epoch"][row] = other.controller_epoch
                self.read_again += 1
            elif record.controller_epoch == mine.controller_epoch:
                self.adopted.discard(row)
        assert copy.digest() == theirs.digest(), (copy.difference(theirs), self.log[-1])


def answers(run: KfastRun, outcome: Any) -> list[Any]:
    """What an event answers."""
    found: list[Any] = [run.controller.gauges()]
    if outcome is not None:
        found += [outcome.error, outcome.failure, sorted(outcome.remaining.tolist()),
                  outcome.alter_codes.tolist(), outcome.reassignment_codes.tolist()]
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_only_adopted_epochs_differ(profile):
    """Random events with a store and without; and adopted epochs are read again."""
    runs = [Comparison(profile, seed).run(EVENTS) for seed in SEEDS]
    assert sum(run.read_again for run in runs) > 0


def main(arguments: list[str]) -> int:
    """Repeat one comparison: profile, seed, events."""
    profile, seed, events = arguments[0], *map(int, arguments[1:])
    comparison = Comparison(profile, seed)
    try:
        comparison.run(events)
    finally:
        print("\n".join(comparison.log))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
