"""ClusterState: mutators and their counters, queries, look-ups.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import (
    ArgumentError,
    Assignment,
    ClusterState,
    PartitionState,
    RowError,
)
from tests.support.states import QUIET, assert_reads, read_state


def counters(state):
    """Offline partitions, and partitions that their preferred replica does not lead."""
    return state.offline_partition_count, state.preferred_imbalance_count


def recounted(state):
    """The same, counted afresh."""
    again = state.copy()
    again.recount()
    return counters(again)


# --- section 1.6 --------------------------------------------------------------------------------


def test_the_offline_count_follows_partition_states():
    """Section 1.6, `put_partition_state`; Kafka 3.9, `ControllerContext`."""
    state = read_state(QUIET)
    for new, wanted in (
        (PartitionState.OFFLINE, 1), (PartitionState.OFFLINE, 1), (PartitionState.ONLINE, 0),
        (PartitionState.OFFLINE, 1), (PartitionState.NON_EXISTENT, 0), (PartitionState.NEW, 0),
    ):
        state.set_partition_state(0, new)
        assert state.offline_partition_count == wanted
        assert counters(state) == recounted(state)
    waiting = state.list_marked(state.pending).tolist()
    assert waiting == [0]


def test_the_imbalance_count_follows_leadership():
    """Section 1.6, `put_leadership`: leader -1 is another than the first."""
    state = read_state(QUIET)
    for leader, wanted in ((2, 1), (3, 1), (-1, 1), (1, 0)):
        state.set_leadership(0, leader=leader, isr=[1, 2, 3], leader_epoch=8)
        assert state.preferred_imbalance_count == wanted
        assert counters(state) == recounted(state)
    assert state.leadership(0).controller_epoch == state.controller_epoch


def test_joining_the_isr_is_what_makes_a_preferred_replica_in_adding_imbalanced():
    """Section 1.6, note; Kafka 3.9, `ControllerContext.hasPreferredLeader`."""
    state = read_state(QUIET)
    state.set_assignment(0, [4, 1, 2, 3], adding=[4], removing=[3])
    assert state.preferred_imbalance_count == 0
    state.set_leadership(0, leader=1, isr=[1, 2, 3, 4], leader_epoch=8)
    assert state.preferred_imbalance_count == 1
    state.set_leadership(0, leader=4, isr=[1, 2, 3, 4], leader_epoch=9)
    assert state.preferred_imbalance_count == 1
    assert counters(state) == recounted(state)
    state.set_assignment(0, [4, 1, 2])
    assert state.preferred_imbalance_count == 0
    state.set_assignment(0, [4, 1, 2], removing=[2])
    assert state.preferred_imbalance_count == 0


def test_queueing_a_topic_takes_its_imbalance_out_once():
    """Section 1.6: re-queueing never subtracts twice."""
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        1,2  1,2  2       7
        t-1        1,2  1,2  2       7
        u-0        1,2  1,2  2       7
    """)
    assert state.preferred_imbalance_count == 3
    for _ in range(2):
        state.queue_topic_deletion(["t"])
        assert state.preferred_imbalance_count == 1
    state.set_leadership(0, leader=1, isr=[1, 2])
    state.set_assignment(1, [2, 1])
    assert counters(state) == recounted(state) == (0, 1)
    assert state.topic_queued_for_deletion.tolist() == [True, False]
    state.mark_topics_ineligible(np.array([0, 1]))
    assert state.topic_ineligible.tolist() == [True, False]


def test_live_brokers_come_and_go():
    """Sections 1.5 and 1.6: registered, shutting down, and who is online."""
    state = read_state(QUIET)
    state.set_shutting_down([1])
    assert not state.is_replica_online(1, 0)
    assert state.is_replica_online(1, 0, include_shutting_down=True)
    assert state.list_marked(state.leader_offline).tolist() == [0]
    state.remove_live_brokers([1, 3])
    assert not state.is_replica_online(1, 0, include_shutting_down=True)
    assert state.list_marked(state.leader_offline).tolist() == [0, 2]
    assert state.shutting_down.tolist() == [True, False, False]
    state.set_shutting_down([1], False)
    state.add_live_brokers({1: 40, 3: 41, 5: 42})
    assert state.broker_epoch.tolist() == [40, 0, 41, 42]
    assert state.list_marked(state.leader_offline).size == 0
    assert [state.is_replica_online(b, 0) for b in (-1, 5, 6)] == [False, True, False]


def test_an_offline_directory_is_one_partition_of_one_broker():
    """Section 1.5: the broker is up, the replica is not online."""
    state = read_state(QUIET)
    state.set_offline_dir(1, np.array([0], np.int32))
    assert [state.is_replica_online(1, row) for row in range(3)] == [False, True, True]
    assert state.list_marked(state.leader_offline).tolist() == [0]
    state.set_offline_dir(1, np.array([0], np.int32), offline=False)
    assert state.is_replica_online(1, 0)
    state.set_offline_dir(2, np.array([0, 1], np.int32))
    state.clear_offline_dir(state.find_brokers([2]))
    assert not state.records["offline_dir"].any()
    assert state.list_marked(state.leader_offline).size == 0


def test_set_assignment_keeps_what_else_is_known():
    """States, ISR, leader and offline directories of brokers that leave the assignment."""
    state = read_state(QUIET)
    state.set_offline_dir(3, np.array([0], np.int32))
    state.set_assignment(0, [5, 2], adding=[5], removing=[9])
    assert_reads(state, """
        partition  ar     isr    leader  epoch  adding  removing  offline_dir  replicas
        t-0        5,2    1,2,3  1       7      5       9         3      1:ONLINE,2:ONLINE,3:ONLINE
        t-1        2,3,1  2,3    2       5      -       -         -      1:ONLINE,2:ONLINE,3:ONLINE
        u-0        3,1    3      3       1      -       -         -      1:ONLINE,3:ONLINE
    """)
    with pytest.raises(ArgumentError, match=r"\[2, 2\] names a broker twice; nothing was changed"):
        state.set_assignment(0, [2, 2])


def test_hand_made_lists_keep_their_order():
    """Section 1.3: adding and removing are lists."""
    state = read_state(QUIET)
    state.set_assignment(0, [1, 2, 3, 4], adding=[4, 2], removing=[3, 1])
    assert state.assignment(0) == Assignment((1, 2, 3, 4), (4, 2), (3, 1))
    state.set_assignment(0, [1, 2, 3, 4], adding=[2, 4])
    assert state.assignment(0) == Assignment((1, 2, 3, 4), (2, 4))
    assert not state.list_orders


def test_assignments_reassign_as_kafkas_do():
    """Section 1.3; Kafka 3.9, `ReplicaAssignment.reassignTo`."""
    begun = Assignment((1, 2, 3)).reassign_to([3, 4, 5])
    assert begun == Assignment((3, 4, 5, 1, 2), (4, 5), (1, 2))
    assert (begun.origin, begun.target) == ((3, 1, 2), (3, 4, 5))
    assert begun.reassign_to(begun.target) == begun
    assert not begun.reassign_to(begun.origin).being_reassigned
    assert begun.reassign_to([1, 6]) == Assignment((1, 6, 3, 2), (6,), (3, 2))
    assert begun.remove(4) == Assignment((3, 5, 1, 2), (5,), (1, 2))


def test_stop_epochs_have_markers():
    """Section 1.5, `leader_epoch`: -2 of a queued topic, -1 without leadership."""
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        1,2  1,2  2       7
        t-1        1,2  -    -       -
        u-0        1,2  1,2  2       7
        u-1        1,2  -    -       -
    """, queued=["u"])
    assert state.stop_epochs(np.arange(4, dtype=np.int32)).tolist() == [7, -1, -2, -2]


# --- rows and look-ups --------------------------------------------------------------------------


def test_partitions_and_topics_are_added_once():
    """`add_partitions`: unknown ones get a row without an assignment, known ones keep theirs."""
    state = read_state(QUIET, default_unclean_leader_election=True)
    rows = state.add_partitions(["u", "t", "w", "w", "u"], [1, 0, 3, 0, 1])
    assert rows.tolist() == [3, 0, 5, 4, 3]
    assert state.topic.to_pylist() == ["t", "u", "w"]
    assert state.n_partitions == 6
    assert state.assignment(5) == Assignment()
    assert state.topic_partitions("w").size == 0
    assert state.find_partitions([("w", 3), ("t", 1)]).tolist() == [5, 1]
    assert state.difference(ClusterState.from_tables(*vars(state.to_tables()).values())) is None


def test_replicas_are_found_by_partition_by_broker_and_by_name():
    """`replicas_of`, `replicas_on_brokers`, `find_replicas`."""
    state = read_state(QUIET)
    everyone = state.replicas_of([2, 0])
    assert (everyone.rows.tolist(), everyone.slots.tolist()) == ([0, 2], [0b111, 0b11])
    hosted = state.replicas_on_brokers([1, 2])
    assert (hosted.rows.tolist(), hosted.slots.tolist()) == ([0, 1, 2], [0b011, 0b101, 0b10])
    found = state.find_replicas([("u", 0, 7), ("t", 0, 3), ("u", 0, 3), ("t", 0, 3)])
    assert (found.rows.tolist(), found.slots.tolist()) == ([0, 2], [0b100, 0b101])
    assert state.assignment(2) == Assignment((3, 1))
    assert len(found) == 2


WRONG_NAMES = (
    (lambda s: s.find_partitions([("t", 0), ("t", 9)]), "partition t-9 is unknown"),
    (lambda s: s.find_partitions([("x", 0)]), "partition x-0 is unknown"),
    (lambda s: s.find_replicas([("x", 0, 1)]), "partition x-0 is unknown"),
    (lambda s: s.find_replicas([("t", 0, -1)]), r"broker_ids has -1 .* from 0 to 2147483647 is"),
    (lambda s: s.find_brokers([1, 8]), "broker 8 is unknown; the cluster has brokers 1, 2, 3"),
    (lambda s: s.replicas_on_brokers([8]), "broker 8 is unknown"),
    (lambda s: s.remove_live_brokers([8]), "broker 8 is unknown"),
    (lambda s: s.queue_topic_deletion(["t", "x"]), "topic 'x' is unknown"),
    (lambda s: s.set_unclean_leader_election(True, ["x"]), "topic 'x' is unknown"),
)


def test_a_copy_does_not_see_what_is_tracked_elsewhere():
    """The index is shared as long as nobody appends to it, and only hints that are ours count."""
    state = read_state(QUIET)
    assert len(state.replicas_on_brokers([3])) == 3
    other = state.copy()
    rows = other.add_partitions(["v"] * 100, range(100))
    for row in rows.tolist():
        other.set_assignment(row, [3])
    assert len(state.replicas_on_brokers([3])) == 3
    assert len(other.replicas_on_brokers([3])) == 103
    assert len(other.copy().replicas_on_brokers([3])) == 103


def test_a_copy_over_a_spent_one_is_that_of_a_new_one():
    """Its memory is used where it fits; nothing of what was in it is seen."""
    state = read_state(QUIET)
    spent = state.copy()
    spent.records["leader"] = 0
    records = spent.records
    copied = state.copy_over(spent)
    assert copied.records is records
    assert copied.digest() == state.digest()
    larger = state.copy()
    larger.add_partitions(["v"] * 100, range(100))
    assert state.copy_over(larger).digest() == state.digest()
    copied.records["leader"] = -1
    assert state.copy().digest() == state.digest() != copied.digest()


@pytest.mark.parametrize(("call", "message"), WRONG_NAMES)
def test_unknown_names_are_refused_by_name(call, message):
    """A caller's mistake: raised before anything changes."""
    state = read_state(QUIET)
    before = state.copy()
    with pytest.raises(ArgumentError, match=message):
        call(state)
    assert state.difference(before) is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 3], r"partition row 3 \(item 2 of 2\) is outside 0..2; nothing was changed"),
        ([-1], r"partition row -1 \(item 1 of 1\) is outside 0..2"),
        ([2, 0, 2], "partition row 2 is listed twice; nothing was changed"),
    ],
)
def test_wrong_rows_are_refused(rows, message):
    """`RowError` is an `IndexError`."""
    with pytest.raises(RowError, match=message) as raised:
        read_state(QUIET).check_rows(rows)
    assert isinstance(raised.value, IndexError)
