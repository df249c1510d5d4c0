"""In every state that four replicas allow, the kernels do what the plain Python twin does.

Each test is one cluster with one partition per state and one call of a machine. It is made in both
layouts, with one and two threads, at every journal level, with and without a store.
"""

from __future__ import annotations

from typing import Any

import pytest

from kfast import ClusterState, PartitionStateMachine, ReplicaStateMachine, Store
from kfast.schema import Code, PartitionState, ReplicaState, Strategy

from . import every_state
from .event_compare import journals_differ
from .reference import CacheStore, Context, Journal, Partition
from .reference import PartitionStateMachine as TwinPartitions
from .reference import ReplicaStateMachine as TwinReplicas
from .twin_state import state_of, tables_of

pytestmark = pytest.mark.kernels
RUNS = (
    ("narrow", 1, "full", False), ("wide", 2, "counts", False), ("narrow", 2, "off", False),
    ("wide", 1, "full", True),
)
"""Layout, threads, journal level, with a store."""

TARGETS = [s for s in ReplicaState if s != ReplicaState.NO_ENTRY]
PARTITION_TARGETS = [s for s in PartitionState if s != PartitionState.NO_ENTRY]


def run_partitions(
    start: Context, target: PartitionState, strategy: Strategy | None, journal: bool = True
) -> None:
    """Move every partition of a cluster, and compare."""
    names = sorted(start.assignments)
    after = start.copy()
    happened = Journal()
    machine = TwinPartitions(after, CacheStore(after), happened)
    machine.handle(names, target, strategy)
    failed = "IllegalArgument" in happened.batch_failures
    codes = [Code.ILLEGAL_ARGUMENT] * len(names) if failed else list(machine.codes.values())
    wanted, tables = state_of(after), tables_of(start)
    for layout, threads, level, with_store in RUNS:
        state = ClusterState.from_tables(*tables, layout=layout)
        store = Store(state) if with_store else None
        options = {"journal": level, "threads": threads}
        ours = PartitionStateMachine(state, store, **options)
        outcome = ours.handle_state_changes(state.find_partitions(names), target, strategy)
        compare(wanted, after, state, codes, outcome)
        if level == "full" and journal:
            assert journals_differ(happened, outcome) is None


def run_replicas(
    start: Context, moved: list[tuple[Partition, int]], target: ReplicaState
) -> None:
    """Move some replicas of a cluster in one call, and compare."""
    after = start.copy()
    happened = Journal()
    machine = TwinReplicas(after, CacheStore(after), happened)
    machine.handle(moved, target)
    codes = [code for _, code in sorted(machine.codes.items())]
    wanted, tables = state_of(after), tables_of(start)
    for layout, threads, level, with_store in RUNS:
        state = ClusterState.from_tables(*tables, layout=layout)
        store = Store(state) if with_store else None
        ours = ReplicaStateMachine(state, store, journal=level, threads=threads)
        replicas = state.find_replicas([(*p, b) for p, b in moved])
        outcome = ours.handle_state_changes(replicas, target)
        compare(wanted, after, state, codes, outcome)
        if level == "full":
            assert journals_differ(happened, outcome) is None


def compare(
    wanted: ClusterState, after: Context, state: ClusterState, codes: list[Code], outcome: Any
) -> None:
    """The state and the codes are the twin's."""
    assert [Code(code) for code in outcome.codes.tolist()] == codes
    if wanted.digest() != state.digest():
        assert wanted.difference(state) is None
    assert wanted.digest() == state.digest()
    assert state.offline_partition_count == after.offline_partition_count
    assert state.preferred_imbalance_count == after.preferred_imbalance_count


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_election_of_up_to_three_replicas(strategy):
    """Section 4: liveness x ISR x leader x unclean, ISR members that are not assigned included."""
    run_partitions(every_state.every_election([1, 2, 3]), PartitionState.ONLINE, strategy)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_election_of_four_replicas(strategy):
    """Section 4: 4 kinds of replica in 4 slots x 16 ISRs x 5 leaders x unclean or not."""
    start = every_state.every_election([4])
    run_partitions(start, PartitionState.ONLINE, strategy, journal=False)


def test_every_new_partition_gets_its_first_leader():
    """Section 3.5."""
    run_partitions(every_state.every_new_partition(), PartitionState.ONLINE, Strategy.OFFLINE)


@pytest.mark.parametrize("strategy", [*Strategy, None])
def test_every_partition_to_online(strategy):
    """Sections 3.1 and 3.4: every state and every topic, by every strategy or none."""
    run_partitions(every_state.every_partition(), PartitionState.ONLINE, strategy)


@pytest.mark.parametrize("target", PARTITION_TARGETS)
def test_every_partition_transition(target):
    """Sections 3.1 and 3.4: every cell of the matrix."""
    if target != PartitionState.ONLINE:
        run_partitions(every_state.every_partition(), target, None)


@pytest.mark.parametrize("target", TARGETS)
def test_every_replica_transition(target):
    """Sections 2.1, 2.4 and 2.5: every cell of the matrix, with every ISR and leader."""
    run_replicas(*every_state.every_replica(target), target)


@pytest.mark.parametrize("target", [ReplicaState.OFFLINE, ReplicaState.ONLINE])
def test_every_group_of_replicas(target):
    """Section 2.3: several brokers of one partition in one call, in ascending id."""
    run_replicas(*every_state.every_group(target), target)
