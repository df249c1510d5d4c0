"""In every state that four replicas allow, each election is that of the plain Python twin.

Each test is one cluster with one partition per state and one call of the partition machine. It is
made in both layouts, with one and two threads, at every journal level, with and without a store.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import pytest

from kfast.schema import PartitionState, Strategy
from tests.support.every_state import every_election, every_reassignment
from tests.support.twin_machines import run_partitions
from tests.support.twin_state import tables_of

pytestmark = pytest.mark.kernels


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
