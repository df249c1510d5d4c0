"""Deletion and everything else: brokers, new controllers, reassignments, other handlers.

Source: docs/controller.md, section 6.12.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import Controller, PartitionState, ReplicaState, Store
from kfast.schema import FLAG_BEING_REASSIGNED
from kfast.testing import invariants
from tests.rules.test_deletion import TOPICS, run, started, states
from tests.rules.test_reassignment import HALF_WAY, is_being_reassigned
from tests.support.readings import announced, answers, lines, moves, refused, sent
from tests.support.states import assert_reads, read_state

DEAD = """
    partition  ar   isr  leader  epoch  state
    t-0        1,2  1    1       7      ONLINE
    t-1        2,3  3    3       5      ONLINE
"""


# --- brokers that are dead, die, and come back --------------------------------------------------


def test_dead_replicas_make_their_topic_ineligible():
    """Section 6.12, `start`: dead ones first, to DelIneligible; the others are deleted."""
    controller = run(DEAD, down=[2])
    outcome = controller.delete_topics(["t"])
    assert moves(outcome)[4:] == lines("""
        t-0/2 OfflineReplica to ReplicaDeletionIneligible
        t-1/2 OfflineReplica to ReplicaDeletionIneligible
        t-0/1 OnlineReplica to OfflineReplica
        t-1/3 OnlineReplica to OfflineReplica
        t-0/1 OfflineReplica to ReplicaDeletionStarted
        t-1/3 OfflineReplica to ReplicaDeletionStarted
    """)
    assert controller.state.topic_ineligible.tolist() == [True]
    assert announced(outcome)[0] == "announce the deletion to 1,3: t-0, leader -2, epoch 0, ISR 1"
    invariants.check(controller.state)


def test_the_topic_waits_until_the_dead_broker_starts():
    """Section 6.12, life of one replica: Offline, DelIneligible, Offline, Online, and deleted."""
    controller = run(DEAD, down=[2])
    controller.delete_topics(["t"])
    outcome = controller.acknowledge_deletions()
    assert moves(outcome)[2:] == lines("""
        t-0/2 ReplicaDeletionIneligible to OfflineReplica
        t-1/2 ReplicaDeletionIneligible to OfflineReplica
    """)
    outcome = controller.on_broker_startup([2])
    assert moves(outcome) == lines("""
        t-0/2 OfflineReplica to OnlineReplica
        t-1/2 OfflineReplica to OnlineReplica
        t-0/2 OnlineReplica to OfflineReplica
        t-1/2 OnlineReplica to OfflineReplica
        t-0/2 OfflineReplica to ReplicaDeletionStarted
        t-1/2 OfflineReplica to ReplicaDeletionStarted
    """)
    assert "LeaderAndIsr to 2: t-0, leader -, epoch 8, ISR 1" in sent(outcome)
    assert not controller.state.topic_ineligible.any()
    controller.acknowledge_deletions()
    assert not controller.state.topic_exists.any()


def test_a_topic_of_dead_brokers_only_waits():
    """Section 6.12, `start`: alive is an empty list; nobody is asked to delete."""
    controller = run("""
        partition  ar   isr  leader  epoch  state
        t-0        2,3  2    -       5      OFFLINE
    """, down=[2, 3], brokers=[1])
    outcome = controller.delete_topics(["t"])
    assert (sent(outcome), controller.state.offline_partition_count) == ([], 0)
    assert states(controller.state, 0) == "2:DELETION_INELIGIBLE,3:DELETION_INELIGIBLE"
    assert controller.state.partition_state(0) == PartitionState.NON_EXISTENT
    controller.on_broker_startup([2])
    assert states(controller.state, 0) == "2:DELETION_STARTED,3:DELETION_INELIGIBLE"
    controller.on_broker_startup([3])
    controller.acknowledge_deletions()
    controller.acknowledge_deletions()
    assert not controller.state.topic_exists.any()


def test_a_broker_that_dies_in_the_middle_fails_its_replicas():
    """Sections 6.2 and 6.12: DelStarted to DelIneligible; nothing is retried while others go on."""
    controller = started()
    outcome = controller.on_broker_failure([2])
    assert moves(outcome) == lines("""
        t-0/2 ReplicaDeletionStarted to ReplicaDeletionIneligible
        t-1/2 ReplicaDeletionStarted to ReplicaDeletionIneligible
    """)
    assert announced(outcome) == ["announce the live brokers to 1,3: nothing"]
    controller.acknowledge_deletions()
    assert states(controller.state, 0) == "1:DELETION_SUCCESSFUL,2:OFFLINE"
    controller.on_broker_startup([2])
    controller.acknowledge_deletions()
    assert controller.state.topic_exists.tolist() == [False, True]
    invariants.check(controller.state)


def test_a_broker_that_is_back_waits_for_those_that_are_being_deleted():
    """Section 6.12, note: nothing is retried while any replica is DelStarted."""
    controller = started()
    controller.on_broker_failure([2])
    outcome = controller.on_broker_startup([2])
    assert "replicas to ReplicaDeletionStarted" not in outcome.actions
    assert states(controller.state, 0) == "1:DELETION_STARTED,2:ONLINE"
    assert not controller.state.topic_ineligible.any()
    outcome = controller.acknowledge_deletions()
    assert moves(outcome)[-2:] == lines("""
        t-0/2 OfflineReplica to ReplicaDeletionStarted
        t-1/2 OfflineReplica to ReplicaDeletionStarted
    """)


def test_deleted_and_started_replicas_do_not_come_online():
    """Section 6.2, step 4: their broker starts, both are refused with a log entry."""
    controller = run("""
        partition  ar   isr  leader  epoch  state         replicas
        q-0        1,2  1    -       4      NON_EXISTENT  1:DELETION_STARTED,2:DELETION_SUCCESSFUL
        q-1        2,1  1    -       4      NON_EXISTENT  1:DELETION_STARTED,2:DELETION_STARTED
    """, started=["q"], down=[2])
    outcome = controller.on_broker_startup([2])
    assert refused(outcome) == lines("""
        q-0/2 ReplicaDeletionSuccessful to OnlineReplica: IllegalState
        q-1/2 ReplicaDeletionStarted to OnlineReplica: IllegalState
    """)


def test_a_failed_log_directory_fails_the_deletion():
    """Section 6.9 by 6.12: the broker lives, so it is told to stop what is reset."""
    controller = started()
    controller.acknowledge_deletions([2, 3])
    outcome = controller.on_leader_and_isr_response(1, offline=np.array([0], np.int32))
    assert moves(outcome) == lines("""
        t-0/1 ReplicaDeletionStarted to ReplicaDeletionIneligible
        t-0/1 ReplicaDeletionIneligible to OfflineReplica
    """)
    assert sent(outcome) == ["StopReplica to 1: t-0, epoch -2"]
    assert controller.state.topic_ineligible.tolist() == [True, False]


# --- other handlers and queued topics -----------------------------------------------------------


def test_queued_topics_are_out_of_reach_of_elections():
    """Sections 6.8, 6.3 and 9, rule 14: not elected, not reported, not shut down, not balanced."""
    controller = run(TOPICS.replace("1,2  1 ", "1,2  2 "))
    controller.delete_topics(["t"])
    before = controller.state.copy()
    asked = controller.elect_leaders([("t", 0), ("u", 0)])
    assert [r["error"] for r in asked.replies.to_pylist()] == [
        "INVALID_TOPIC_EXCEPTION", "ELECTION_NOT_NEEDED",
    ]
    controller.rebalance_leaders()
    assert controller.state.difference(before) is None
    outcome = controller.controlled_shutdown(3)
    assert {t["topic"] for t in outcome.transitions.to_pylist()} == {"u"}


def test_partitions_of_a_queued_topic_are_not_added():
    """Section 6.4: ignored; and the deletion ends as if nothing had been asked."""
    controller = started()
    assert controller.on_partition_modifications("t", {2: [1]}).actions == ()
    controller.acknowledge_deletions()
    assert controller.state.topic_exists.tolist() == [False, True]


def test_a_topic_that_vanishes_in_the_middle_is_forgotten():
    """Sections 1.6 and 6.4: `remove_topic`; the states stay, and answers find nothing started."""
    controller = started()
    controller.on_topic_change(gone=["t"])
    state = controller.state
    assert not (state.topic_queued_for_deletion | state.topic_deletion_started).any()
    assert states(state, 0) == "1:DELETION_STARTED,2:DELETION_STARTED"
    assert controller.on_stop_replica_response(1, [0]).actions == ()
    assert controller.acknowledge_deletions().actions == ()
    invariants.check(state)


# --- a new controller ---------------------------------------------------------------------------


@pytest.mark.parametrize("with_store", [False, True])
def test_a_new_controller_begins_the_deletion_again(with_store):
    """Sections 6.1, 2.2 and 6.12: states are made anew, nothing is started, then all of it is.

    Every replica is Online at startup, whatever it had answered.
    """
    state = read_state(TOPICS)
    controller = Controller(state, store=Store(state) if with_store else None, journal="full")
    controller.delete_topics(["t"])
    controller.acknowledge_deletions([1])
    outcome = controller.on_controller_failover()
    assert outcome.actions[-5:] == (
        "partitions to OfflinePartition", "partitions to NonExistentPartition",
        "announce the deletion", "replicas to OfflineReplica", "replicas to ReplicaDeletionStarted",
    )
    assert state.topic_deletion_started.tolist() == [True, False]
    assert states(state, 0) == "1:DELETION_STARTED,2:DELETION_STARTED"
    invariants.check(state)
    controller.acknowledge_deletions()
    assert state.topic_exists.tolist() == [False, True]


def test_a_new_controller_holds_back_topics_with_dead_replicas():
    """Section 6.1, step 5: ineligible where a replica is not online; started when it is."""
    controller = run(DEAD, down=[2], queued=["t"])
    controller.on_controller_failover()
    assert controller.state.topic_ineligible.tolist() == [True]
    assert states(controller.state, 0) == "1:ONLINE,2:OFFLINE"
    assert not controller.state.topic_deletion_started.any()
    controller.on_broker_startup([2])
    assert states(controller.state, 0) == "1:DELETION_STARTED,2:DELETION_STARTED"


# --- reassignment and deletion ------------------------------------------------------------------


def test_a_first_deletion_does_not_wait_for_a_reassignment():
    """Section 6.12, note: the topic was not queued yet, so marking it ineligible does nothing."""
    controller = run(HALF_WAY)
    outcome = controller.delete_topics(["t"])
    assert states(controller.state, 0) == ",".join(f"{b}:DELETION_STARTED" for b in range(1, 6))
    assert "StopReplica(delete) to 1,2,3,4,5: t-0, epoch -2" in sent(outcome)
    assert not controller.state.topic_ineligible.any()
    assert is_being_reassigned(controller.state)
    invariants.check(controller.state)


def test_a_topic_that_was_queued_before_waits_for_its_reassignment():
    """Sections 6.1, 6.7 and 6.12: held back by `init` and by the marker; B8 makes it eligible."""
    controller = run(HALF_WAY, queued=["t"])
    controller.on_controller_failover()
    assert controller.state.topic_ineligible.tolist() == [True]
    controller.delete_topics(["t"])
    assert states(controller.state, 0) == ",".join(f"{b}:ONLINE" for b in range(1, 6))
    outcome = controller.catch_up([4, 5])
    assert states(controller.state, 0) == ",".join(f"{b}:DELETION_STARTED" for b in (3, 4, 5))
    assert outcome.actions.index("B8: announce the assignment") < outcome.actions.index(
        "partitions to NonExistentPartition"
    )
    controller.acknowledge_deletions()
    assert not controller.state.topic_exists.any()
    invariants.check(controller.state)


def test_a_reassignment_of_a_queued_topic_shrinks_in_silence():
    """Sections 2.5 and 5.2: touch and election tell the leaders, B4 does not; the markers stand."""
    controller = run(HALF_WAY.replace("1,2,3  1  ", "1,2,3,4,5  1  "), queued=["t"],
                     ineligible=["t"])
    outcome = controller.on_partition_reassignment([0])
    begun = outcome.actions.index("partitions to OfflinePartition")
    told = [line for line in sent(outcome) if line.startswith("B")]
    assert told == lines("""
        B3 LeaderAndIsr to 3,4,5: t-0, leader 3, epoch 9, ISR 1,2,3,4,5
        B4 StopReplica to 1,2: t-0, epoch -2
        B4 StopReplica(delete) to 1,2: t-0, epoch -2
    """)
    assert "B8 to 1,2,3,4,5: t-0, leader -2, epoch 0, ISR 3,4,5" in announced(outcome)
    assert begun == outcome.actions.index("B8: announce the assignment") + 1
    invariants.check(controller.state)


def test_a_reassignment_that_ends_after_its_topic_is_being_deleted():
    """Sections 2.1 and 6.7: what deletion has is refused; what is removed is taken as deleted."""
    controller = run(HALF_WAY.replace("1,2,3  1  ", "1,2,3,4,5  1  "))
    controller.delete_topics(["t"])
    state = controller.state
    state.set_leadership(0, leader=-1, isr=[3, 4, 5], leader_epoch=20, version=20)
    outcome = controller.on_partition_reassignment([0])
    assert "B3 t-0 NonExistentPartition to OnlinePartition: IllegalState" in refused(outcome)
    assert moves(outcome) == lines("""
        B4 t-0/1 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        B4 t-0/2 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        B4 t-0/1 ReplicaDeletionSuccessful to NonExistentReplica
        B4 t-0/2 ReplicaDeletionSuccessful to NonExistentReplica
    """)
    assert states(state, 0) == ",".join(f"{b}:DELETION_STARTED" for b in (3, 4, 5))
    assert not state.topic_ineligible.any()
    controller.acknowledge_deletions()
    assert not state.topic_exists.any()
    invariants.check(state)


def test_a_topic_that_is_deleted_is_not_reassigned():
    """Section 6.7: queued, UNKNOWN_TOPIC_OR_PARTITION; afterwards there is no assignment."""
    controller = started()
    asked = {("t", 0): [3], ("u", 0): [1]}
    assert answers(controller.alter_partition_reassignments(asked)) == [
        "UNKNOWN_TOPIC_OR_PARTITION", "STARTED",
    ]
    controller.acknowledge_deletions()
    assert answers(controller.alter_partition_reassignments({("t", 0): [3]})) == [
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


def test_replicas_without_a_state_end_the_event():
    """Section 1.5, `replicas_in_state`, raises: a reassignment failed before it started them."""
    controller = run("""
        partition  ar  isr  leader  epoch  state
        t-0        5   -    -       -      NEW
        u-0        1   1    1       4      ONLINE
    """, down=[5])
    asked = controller.alter_partition_reassignments({("t", 0): [1]})
    assert answers(asked) == ["UNKNOWN_SERVER_ERROR"]
    outcome = controller.delete_topics(["t", "u"])
    assert outcome.error == "NoSuchElement"
    assert controller.state.topic_queued_for_deletion.all()
    assert controller.active


def test_a_stale_mark_of_reassignment_outlives_its_topic():
    """Section 1.6, `remove_topic`, note: only assignments and leadership are dropped."""
    controller = run(HALF_WAY)
    controller.delete_topics(["t"])
    outcome = controller.on_partition_reassignment([0])
    assert refused(outcome)[0] == "A2 t-0/4 ReplicaDeletionStarted to NewReplica: IllegalState"
    assert controller.state.topic_ineligible.tolist() == [True]
    controller.acknowledge_deletions()
    state = controller.state
    assert not state.topic_exists.any()
    assert state.records["flags"].tolist() == [FLAG_BEING_REASSIGNED]
    assert controller.gauges()["TopicsIneligibleToDeleteCount"] == 1
    assert controller.list_partition_reassignments().num_rows == 0
    controller.on_topic_change({"t": {0: [1, 2]}})
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state   replicas
        t-0        1,2  1,2  1       0      ONLINE  1:ONLINE,2:ONLINE
    """)
    assert ReplicaState.NEW not in state.replica_states_of(0).values()
    assert controller.delete_topics(["t"]).actions == ()
    invariants.check(state)
