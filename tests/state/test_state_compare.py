"""ClusterState: copies, comparison, digest, and the two layouts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from kfast import ArgumentError, PartitionState, ReplicaState, generate
from kfast.schema import NARROW_BROKERS
from tests.support.states import QUIET, assert_reads, read_state

# --- copies and comparison ----------------------------------------------------------------------


def test_a_copy_is_independent():
    """Nothing that is done to the copy shows in the original."""
    state = read_state(QUIET)
    state.set_assignment(1, [2, 3, 1], adding=[1, 3])
    digest, other = state.digest(), state.copy()
    assert other == state
    other.set_assignment(1, [9], adding=[9])
    other.set_assignment(0, [1, 2], adding=[2, 1])
    other.set_leadership(0, leader=2, isr=[2])
    other.set_partition_state(2, PartitionState.OFFLINE)
    other.set_replica_state(2, 3, ReplicaState.OFFLINE)
    other.add_live_brokers({8: 1})
    other.set_shutting_down([1])
    other.queue_topic_deletion(["u"])
    other.set_unclean_leader_election(True, ["t"])
    other.add_partitions(["new"], [0])
    assert state.digest() == digest
    assert state.assignment(1).adding == (1, 3)
    assert other != state


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.set_leadership(2, leader=1, isr=[1, 3], leader_epoch=1, version=1),
         r"partitions row 2 \(u-0\), column leader: 3 against 1"),
        (lambda s: s.set_leadership(1, leader=2, isr=[2], leader_epoch=5, version=5),
         r"partitions row 1 \(t-1\), column isr: \[2, 3\] against \[2\]"),
        (lambda s: s.set_replica_state(0, 2, ReplicaState.OFFLINE),
         r"partitions row 0 \(t-0\), column replica_states: \[2, 2, 2\] against \[2, 3, 2\]"),
        (lambda s: s.set_shutting_down([2]),
         r"brokers row 1 \(2\), column shutting_down: False against True"),
        (lambda s: s.queue_topic_deletion(["u"]),
         r"topics row 1 \(u\), column queued_for_deletion: False against True"),
        (lambda s: setattr(s, "controller_epoch", 9),
         r"cluster row 0 \(0\), column controller_epoch: 3 against 9"),
        (lambda s: s.add_partitions(["t"], [2]), "partitions: 3 rows against 4"),
    ],
)
def test_a_difference_names_the_first_row_and_column(change, message):
    """`difference`, and equality that follows it."""
    state, other = read_state(QUIET), read_state(QUIET)
    assert state == other
    change(other)
    assert state != other
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(state.difference(other))


def test_the_order_of_sets_makes_no_difference():
    """An ISR is a set; an assignment is a list."""
    one = read_state(QUIET)
    other = read_state(QUIET.replace("1,2,3  1,2,3", "1,2,3  3,1,2"))
    assert one == other
    assert one.digest() == other.digest()
    assert one != read_state(QUIET.replace("1,2,3  1,2,3", "1,3,2  1,2,3"))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.set_shutting_down([2]), lambda s: s.remove_live_brokers([3]),
        lambda s: s.add_live_brokers({3: 9}), lambda s: s.queue_topic_deletion(["u"]),
        lambda s: s.set_unclean_leader_election(True, ["u"]),
        lambda s: s.set_unclean_leader_election(True),
        lambda s: setattr(s, "controller_epoch", 9), lambda s: setattr(s, "unclean_elections", 1),
        lambda s: s.set_offline_dir(2, np.array([0], np.int32)),
    ],
)
def test_the_digest_sees_the_whole_cluster(change):
    """Brokers, topics, counters: not only partitions."""
    state = read_state(QUIET)
    before = state.digest()
    change(state)
    assert state.digest() != before


# --- layouts ------------------------------------------------------------------------------------


def test_a_ninth_slot_widens_the_layout():
    """Masks of eight bits become masks of 64; nothing else changes."""
    state = read_state(QUIET)
    other = read_state(QUIET, layout="wide")
    assert (state.layout, other.layout) == ("narrow", "wide")
    assert state == other
    assert state.digest() == other.digest()
    for one in (state, other):
        one.set_assignment(0, [1, 2, 3, 4, 5, 6, 7, 8])
    assert state.layout == "narrow"
    for one in (state, other):
        one.find_replicas([("t", 0, 9)])
        one.set_leadership(2, leader=3, isr=[3, 9])
    assert (state.layout, state.n_slots) == ("wide", 9)
    assert state == other
    assert state.digest() == other.digest()
    assert state.to_tables().partitions.equals(other.to_tables().partitions)


def test_a_partition_has_at_most_64_slots():
    """More than a mask can name is refused, and says how many are allowed."""
    state = read_state(QUIET)
    state.set_assignment(0, range(64))
    assert len(state.assignment(0).replicas) == 64
    assert state.replicas_of([0]).slots.tolist() == [2**64 - 1]
    with pytest.raises(ArgumentError, match="would name 65 brokers; at most 64 are allowed"):
        state.find_replicas([("t", 0, 64)])
    with pytest.raises(ArgumentError, match="would name 66 brokers; at most 64 are allowed"):
        state.set_assignment(1, range(66))


def test_the_65535th_broker_widens_the_layout():
    """Broker rows of 16 bits have one null."""
    state = read_state(QUIET)
    known = dict.fromkeys(range(1, NARROW_BROKERS), 0)
    state.add_live_brokers(known)
    assert (state.n_brokers, state.layout) == (NARROW_BROKERS - 1, "narrow")
    before = state.digest()
    state.set_replica_state(0, NARROW_BROKERS, ReplicaState.NO_ENTRY)
    assert (state.n_brokers, state.layout) == (NARROW_BROKERS, "wide")
    assert state.digest() == before
    assert state.replicas[0].tolist() == [0, 1, 2, NARROW_BROKERS - 1]
    assert state.replicas[1].tolist() == [1, 2, 0, -1]


@pytest.mark.parametrize("layout", ["narrow", "wide"])
def test_a_broker_in_the_middle_of_the_ids_moves_the_rows_of_others(layout):
    """Broker rows are in the order of ids; what is said of a broker goes with it."""
    text = """
        partition  ar     isr  leader  epoch  adding  offline_dir  replicas
        t-0        10,30  30   30      7      30      10           10:ONLINE,30:OFFLINE
        t-1        30     30   -       7      -       -            30:NEW
    """
    state = read_state(text, epochs={10: 4, 30: 6}, shutting_down=[30], layout=layout)
    state.add_live_brokers({20: 5, 40: 7, 5: 3})
    assert state.broker_id.tolist() == [5, 10, 20, 30, 40]
    assert state.broker_epoch.tolist() == [3, 4, 5, 6, 7]
    assert state.shutting_down.tolist() == [False, False, False, True, False]
    assert_reads(state, text)
    assert state.replicas_on_brokers([30]).rows.tolist() == [0, 1]
    assert state.replicas_on_brokers([20]).rows.size == 0


def test_racks_go_with_their_brokers():
    """Arrow columns move like the others."""
    state = generate(brokers=3, partitions=2, racks=3, seed=1)
    racks = state.rack.to_pylist()
    state.add_live_brokers({99: 0})
    assert state.rack.to_pylist() == [*racks, None]
    assert isinstance(state.rack, pa.StringArray)
