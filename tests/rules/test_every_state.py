"""In every state that four replicas allow, transitions and elections are the plain Python twin's.

Each test is one cluster with one partition per state and one call of a machine. It is made in both
layouts, with one and two threads, at every journal level, with and without a store. The kernels
are `change_replicas` and `count_targets`, `change_partitions`, `bring_online`, and with a store
`choose`, `propose_initial`, `adopt` and `shrink`.

Source: docs/controller.md, sections 2, 3 and 4.
"""

from __future__ import annotations

import pytest

from kfast.schema import PartitionState, ReplicaState, Strategy
from tests.support.every_state import (
    every_election,
    every_group,
    every_new_partition,
    every_partition,
    every_reassignment,
    every_replica,
    run_partitions,
    run_replicas,
)
from tests.support.twin_state import tables_of

pytestmark = pytest.mark.kernels
TARGETS = [s for s in ReplicaState if s != ReplicaState.NO_ENTRY]
PARTITION_TARGETS = [
    s for s in PartitionState if s not in (PartitionState.NO_ENTRY, PartitionState.ONLINE)
]


def test_every_new_partition_gets_its_first_leader():
    """Section 3.5."""
    run_partitions(every_new_partition(), PartitionState.ONLINE, Strategy.OFFLINE)


@pytest.mark.parametrize("strategy", [*Strategy, None])
def test_every_partition_to_online(strategy):
    """Sections 3.1 and 3.4: every state and every topic, by every strategy or none."""
    run_partitions(every_partition(), PartitionState.ONLINE, strategy)


@pytest.mark.parametrize("target", PARTITION_TARGETS)
def test_every_partition_transition(target):
    """Sections 3.1 and 3.4: every cell of the matrix."""
    run_partitions(every_partition(), target, None)


@pytest.mark.parametrize("target", TARGETS)
def test_every_replica_transition(target):
    """Sections 2.1, 2.4 and 2.5: every cell of the matrix, with every ISR and leader."""
    run_replicas(*every_replica(target), target)


@pytest.mark.parametrize("target", [ReplicaState.OFFLINE, ReplicaState.ONLINE])
def test_every_group_of_replicas(target):
    """Section 2.3: several brokers of one partition in one call, in ascending id."""
    run_replicas(*every_group(target), target)


@pytest.fixture(scope="module")
def few_replicas():
    """Every state of one to three replicas, and its tables."""
    start = every_election([1, 2, 3])
    return start, tables_of(start)


@pytest.fixture(scope="module")
def four_replicas():
    """Every state of four replicas, and its tables."""
    start = every_election([4])
    return start, tables_of(start)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_election_of_up_to_three_replicas(strategy, few_replicas):
    """Section 4: liveness x ISR x leader x unclean, ISR members that are not assigned included."""
    start, tables = few_replicas
    run_partitions(start, PartitionState.ONLINE, strategy, tables)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_election_of_four_replicas(strategy, four_replicas):
    """Section 4: 4 kinds of replica in 4 slots x 16 ISRs x 5 leaders x unclean or not."""
    start, tables = four_replicas
    run_partitions(start, PartitionState.ONLINE, strategy, tables, journal=False)


@pytest.fixture(scope="module")
def reassignments():
    """Every role of up to four replicas in a reassignment, and its tables."""
    start = every_reassignment()
    return start, tables_of(start)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_election_during_a_reassignment(strategy, reassignments):
    """Sections 1.6 and 4: the target leads; a first replica that is being added counts apart."""
    start, tables = reassignments
    run_partitions(start, PartitionState.ONLINE, strategy, tables)
