"""In every state that four replicas allow, each transition is that of the plain Python twin.

Each test is one cluster with one partition per state and one call of a machine. It is made in both
layouts, with one and two threads, at every journal level, with and without a store.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import pytest

from kfast.schema import PartitionState, ReplicaState, Strategy
from tests.support.every_state import (
    every_group,
    every_new_partition,
    every_partition,
    every_replica,
)
from tests.support.twin_machines import run_partitions, run_replicas

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
