"""Every state that up to four replicas allow, one partition for each, in one cluster.

Brokers come in kinds: for every slot there is one that is up, one that is shutting down and one
that is dead; a replica on a broker that is up may have its log directory offline. In every other
partition the ids run against the slots, so that no rule can mistake id order for slot order.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from kfast import ClusterState, PartitionStateMachine, ReplicaStateMachine, Store
from kfast.schema import Code, PartitionState, ReplicaState, Strategy
from tests.support.event_compare import TwinView, full_journals_differ, journals_differ
from tests.support.reference import Assignment, CacheStore, Context, Journal, Partition, Record
from tests.support.reference import PartitionStateMachine as TwinPartitions
from tests.support.reference import ReplicaStateMachine as TwinReplicas
from tests.support.twin_state import state_of, tables_of

KINDS = ("up", "shutting down", "dead", "directory offline")
MOST = 4
EXTRA_UP, EXTRA_DEAD = 90, 91
"""Brokers that are in some ISRs, but in no assignment."""

EPOCH = 7


def broker(slot: int, kind: int, backwards: bool) -> int:
    """Id of the broker of a kind for a slot."""
    place = MOST - 1 - slot if backwards else slot
    return 10 * place + (0 if kind == 3 else kind)


def empty_context() -> Context:
    """A context with brokers of every kind, and no partitions."""
    ctx = Context(controller_id=0, epoch=EPOCH)
    for slot in range(MOST):
        for kind in (0, 1):
            ctx.live_broker_epochs[10 * slot + kind] = 100 + slot
        ctx.shutting_down.add(10 * slot + 1)
        ctx.offline_dir_replicas[10 * slot] = set()
    ctx.live_broker_epochs[EXTRA_UP] = 7
    ctx.topic_unclean["unclean"] = True
    ctx.topics_to_delete = {"queued", "started"}
    ctx.topics_deletion_started = {"started"}
    ctx.all_topics = {"clean", "unclean", "queued", "started"}
    return ctx


class Builder:
    """Adds partitions one by one."""

    def __init__(self) -> None:
        self.ctx = empty_context()
        self.count = 0

    def add(
        self, kinds: Sequence[int], topic: str, state: PartitionState = PartitionState.NO_ENTRY
    ) -> tuple[Partition, tuple[int, ...]]:
        """A partition with one replica of each kind given; its name and its replicas."""
        p = (topic, self.count)
        self.count += 1
        replicas = tuple(broker(s, kind, self.count % 2 == 0) for s, kind in enumerate(kinds))
        self.ctx.assignments[p] = Assignment(replicas)
        for b, kind in zip(replicas, kinds, strict=True):
            if KINDS[kind] == "directory offline":
                self.ctx.offline_dir_replicas[b].add(p)
        if state != PartitionState.NO_ENTRY:
            self.ctx.partition_states[p] = state
        return p, replicas

    def lead(
        self, p: Partition, leader: int, isr: Sequence[int], newer: bool = False
    ) -> None:
        """Cache leadership of a partition."""
        epoch = EPOCH + 2 if newer else EPOCH - self.count % 3
        self.ctx.leadership[p] = Record(
            leader, self.count % 50, tuple(isr), self.count % 2, self.count % 40, epoch
        )

    def finish(self) -> Context:
        """The context, with the imbalance count that its partitions have."""
        ctx = self.ctx
        ctx.preferred_imbalance_count = sum(
            ctx.is_imbalanced(p) for p in ctx.leadership if not ctx.is_queued(p)
        )
        ctx.offline_partition_count = sum(
            state == PartitionState.OFFLINE and p[0] not in ctx.topics_deletion_started
            for p, state in ctx.partition_states.items()
        )
        return ctx


def subsets(members: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every subset, in slot order."""
    for chosen in product((False, True), repeat=len(members)):
        yield tuple(m for m, c in zip(members, chosen, strict=True) if c)


def every_election(sizes: Sequence[int]) -> Context:
    """Liveness of every replica x ISR x leader x unclean election allowed or not.

    For up to three replicas also with an ISR member that is not assigned, up or dead.
    """
    build = Builder()
    for n in sizes:
        extras = ((), (EXTRA_UP,), (EXTRA_DEAD,)) if n < MOST else ((),)
        for kinds in product(range(len(KINDS)), repeat=n):
            for isr_slots in subsets(range(n)):
                for leader, topic, extra in product(
                    range(-1, n), ("clean", "unclean"), extras
                ):
                    p, replicas = build.add(kinds, topic, PartitionState.OFFLINE)
                    isr = tuple(replicas[s] for s in isr_slots) + extra
                    build.lead(p, replicas[leader] if leader >= 0 else -1, isr)
    return build.finish()


def every_reassignment() -> Context:
    """Role of every replica in a reassignment x ISR x leader; one liveness for each."""
    build = Builder()
    for n in range(1, MOST + 1):
        for roles in product(("kept", "adding", "removing"), repeat=n):
            for isr_slots, leader in product(subsets(range(n)), range(-1, n)):
                kinds = [(build.count * (s + 1) // 3) % len(KINDS) for s in range(n)]
                p, replicas = build.add(kinds, "clean", PartitionState.OFFLINE)
                named = {
                    role: tuple(b for b, r in zip(replicas, roles, strict=True) if r == role)
                    for role in ("adding", "removing")
                }
                build.ctx.assignments[p] = Assignment(replicas, **named)
                isr = [replicas[s] for s in isr_slots]
                build.lead(p, replicas[leader] if leader >= 0 else -1, isr)
    ctx = build.finish()
    ctx.being_reassigned = {p for p, a in ctx.assignments.items() if a.being_reassigned}
    return ctx


def every_new_partition() -> Context:
    """Liveness of every replica of a new partition; some have leadership cached already."""
    build = Builder()
    for n in range(MOST + 1):
        for kinds in product(range(len(KINDS)), repeat=n):
            for led, topic in product((False, True), ("clean", "unclean", "queued", "started")):
                p, replicas = build.add(kinds, topic, PartitionState.NEW)
                if led and replicas:
                    build.lead(p, replicas[0], replicas[:1])
    return build.finish()


def every_partition() -> Context:
    """State x leadership (none, online, offline, -1, newer) x topic."""
    build = Builder()
    for state, topic in product(PartitionState, ("clean", "unclean", "queued", "started")):
        for kinds, led, newer in product(
            product(range(len(KINDS)), repeat=2), (None, -1, 0, 1), (False, True)
        ):
            p, replicas = build.add(kinds, topic, state)
            if led is not None:
                build.lead(p, replicas[led] if led >= 0 else -1, replicas, newer)
    return build.finish()


def every_replica(target: ReplicaState) -> tuple[Context, list[tuple[Partition, int]]]:
    """State x leadership x ISR x topic, for each replica of a partition by itself.

    One more broker, which is not assigned but may be in the ISR, is asked to move as well. The
    last replica of a partition that has leadership is not asked to leave (section 1.6 makes it an
    error).
    """
    build, moved = Builder(), []
    for n in range(1, MOST + 1):
        for slot, state, topic in product(range(n + 1), ReplicaState, ("clean", "queued")):
            leads = range(-1, n + 1)
            for isr_slots, leader in ((None, -1), *product(subsets(range(n + 1)), leads)):
                if n == MOST and (leader + build.count) % 3:
                    build.count += 1
                    continue
                if target == ReplicaState.NON_EXISTENT and n == 1 and isr_slots is not None:
                    continue
                kinds = [(build.count + s) % len(KINDS) for s in range(n)]
                p, replicas = build.add(kinds, topic)
                brokers = (*replicas, EXTRA_UP)
                if isr_slots is not None:
                    isr = [brokers[s] for s in isr_slots]
                    newer = build.count % 5 == 0
                    build.lead(p, brokers[leader] if leader >= 0 else -1, isr, newer)
                if state != ReplicaState.NO_ENTRY:
                    build.ctx.replica_states[p, brokers[slot]] = state
                moved.append((p, brokers[slot]))
    return build.finish(), moved


def every_group(target: ReplicaState) -> tuple[Context, list[tuple[Partition, int]]]:
    """Several replicas of one partition in one call: subset x ISR x leader, all states alike."""
    build, moved = Builder(), []
    previous = ReplicaState.NEW if target == ReplicaState.ONLINE else ReplicaState.ONLINE
    for n in range(2, MOST + 1):
        for some, isr_slots in product(subsets(range(n)), subsets(range(n))):
            for leader, topic in product(range(-1, n), ("clean", "queued")):
                kinds = [(build.count + s) % len(KINDS) for s in range(n)]
                p, replicas = build.add(kinds, topic)
                isr = [replicas[s] for s in isr_slots]
                build.lead(p, replicas[leader] if leader >= 0 else -1, isr)
                for slot in some:
                    build.ctx.replica_states[p, replicas[slot]] = previous
                    moved.append((p, replicas[slot]))
    return build.finish(), moved


RUNS = (
    ("narrow", 1, "full", False), ("wide", 2, "counts", False), ("narrow", 2, "off", False),
    ("wide", 1, "full", True),
)
"""Layout, threads, journal level, with a store."""


def run_partitions(
    start: Context, target: PartitionState, strategy: Strategy | None,
    tables: list[pa.Table] | None = None, journal: bool = True,
) -> None:
    """Move every partition of a cluster, and compare; `tables` are the start's, if at hand."""
    names = sorted(start.assignments)
    after = start.copy()
    happened = Journal()
    machine = TwinPartitions(after, CacheStore(after), happened)
    machine.handle(names, target, strategy)
    failed = "IllegalArgument" in happened.batch_failures
    codes = [Code.ILLEGAL_ARGUMENT] * len(names) if failed else list(machine.codes.values())
    wanted, tables = state_of(after), tables or tables_of(start)
    rows, first = wanted.find_partitions(names), None
    for layout, threads, level, with_store in RUNS:
        state = ClusterState.from_tables(*tables, layout=layout)
        store = Store(state) if with_store else None
        options = {"journal": level, "threads": threads}
        ours = PartitionStateMachine(state, store, **options)
        outcome = ours.handle_state_changes(rows, target, strategy)
        compare(wanted, after, state, codes, outcome)
        if level == "full" and journal:
            first = compare_journals(happened, outcome, first)


def run_replicas(
    start: Context, moved: list[tuple[Partition, int]], target: ReplicaState
) -> None:
    """Move some replicas of a cluster in one call, and compare."""
    after = start.copy()
    happened = Journal()
    machine = TwinReplicas(after, CacheStore(after), happened)
    machine.handle(moved, target)
    codes = [code for _, code in sorted(machine.codes.items())]
    wanted, tables, first = state_of(after), tables_of(start), None
    for layout, threads, level, with_store in RUNS:
        state = ClusterState.from_tables(*tables, layout=layout)
        store = Store(state) if with_store else None
        ours = ReplicaStateMachine(state, store, journal=level, threads=threads)
        replicas = state.find_replicas([(*p, b) for p, b in moved])
        outcome = ours.handle_state_changes(replicas, target)
        compare(wanted, after, state, codes, outcome)
        if level == "full":
            first = compare_journals(happened, outcome, first)


def compare_journals(happened: Journal, outcome: Any, first: Any) -> Any:
    """A full journal is the twin's, or to the letter one that is; returns the latter."""
    if first is None or full_journals_differ(outcome, first) is not None:
        assert journals_differ(TwinView(happened), outcome) is None
    return outcome if first is None else first


def compare(
    expected_state: ClusterState, after: Context, state: ClusterState, codes: list[Code],
    outcome: Any,
) -> None:
    """The state and the codes are the twin's."""
    actual, expected = outcome.codes, np.array(codes, np.uint8)
    differ = np.flatnonzero(actual != expected)[:1]
    assert not differ.size, f"target {differ}: {Code(actual[differ[0]])}, not {codes[differ[0]]}"
    assert expected_state.difference(state) is None
    assert expected_state.digest() == state.digest()
    assert state.offline_partition_count == after.offline_partition_count
    assert state.preferred_imbalance_count == after.preferred_imbalance_count
