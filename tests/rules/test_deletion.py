"""Topics are deleted: the way from the marker to the end, answers, and whatever meets it.

Random events (`tests/rules/test_random_events.py`) compare it with the twin at every stage, and
with it the kernels of `kfast.kernels.deletion`: `deletion_status`, `slots_in_state`,
`count_by_broker`, `list_by_broker`, `forget_partitions` and `free_partitions`.

Source: docs/controller.md, section 6.12.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import ArgumentError, Controller, RowError, Store, generate
from kfast.schema import TOPIC_INELIGIBLE
from kfast.state.lookup import NameLookup
from kfast.testing import invariants
from tests.rules.test_reassignment import HALF_WAY, is_being_reassigned
from tests.support.readings import announced, answers, lines, moves, refused, sent
from tests.support.states import assert_reads, read_state

TOPICS = """
    partition  ar   isr  leader  epoch  state
    t-0        1,2  1,2  1       7      ONLINE
    t-1        2,3  2,3  2       5      ONLINE
    u-0        1,3  1,3  1       4      ONLINE
"""


def run(text=TOPICS, **options):
    """A controller of the cluster that a text describes, with a full journal."""
    return Controller(read_state(text, **options), journal="full")


def started():
    """The deletion of t is under way."""
    controller = run()
    controller.delete_topics(["t"])
    return controller


def states(state, row):
    """States of a partition's replicas, as a text has them."""
    return ",".join(f"{b}:{s.name}" for b, s in sorted(state.replica_states_of(row).items()))


# --- the whole of it ----------------------------------------------------------------------------


def test_a_deletion_takes_partitions_then_replicas():
    """Section 6.12, `enqueue` and `start`: the order of the steps."""
    controller = run()
    outcome = controller.delete_topics(["t"])
    assert outcome.actions == (
        "partitions to OfflinePartition", "partitions to NonExistentPartition",
        "announce the deletion", "replicas to OfflineReplica", "replicas to ReplicaDeletionStarted",
    )
    assert_reads(controller.state, """
        partition  ar   isr  leader  epoch  state         replicas
        t-0        1,2  2    -       9      NON_EXISTENT  1:DELETION_STARTED,2:DELETION_STARTED
        t-1        2,3  3    -       7      NON_EXISTENT  2:DELETION_STARTED,3:DELETION_STARTED
        u-0        1,3  1,3  1       4      ONLINE        1:ONLINE,3:ONLINE
    """)
    state = controller.state
    assert state.topic_queued_for_deletion.tolist() == [True, False]
    assert state.topic_deletion_started.tolist() == [True, False]
    assert not state.topic_ineligible.any()
    invariants.check(state)


def test_brokers_hear_of_a_deletion_by_two_markers():
    """Sections 5.2 and 6.12: leader -2, epoch 0 in UpdateMetadata; StopReplica says epoch -2.

    Nobody is told LeaderAndIsr; stopping and deleting are two batches.
    """
    outcome = run().delete_topics(["t"])
    assert announced(outcome) == lines("""
        announce the deletion to 1,2,3: t-0, leader -2, epoch 0, ISR 1,2
        announce the deletion to 1,2,3: t-1, leader -2, epoch 0, ISR 2,3
    """)
    assert sent(outcome) == lines("""
        StopReplica to 1,2: t-0, epoch -2
        StopReplica to 2,3: t-1, epoch -2
        StopReplica(delete) to 1,2: t-0, epoch -2
        StopReplica(delete) to 2,3: t-1, epoch -2
    """)
    assert outcome.counts.requests == {"LeaderAndIsr": 0, "UpdateMetadata": 3, "StopReplica": 6}


def test_a_topic_is_gone_when_every_replica_is_deleted():
    """Section 6.12, `complete_replicas` and `finish`, and rule 26 of section 9."""
    controller = run()
    controller.delete_topics(["t"])
    first = controller.acknowledge_deletions([2, 1])
    assert moves(first) == lines("""
        t-0/1 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        t-0/2 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        t-1/2 ReplicaDeletionStarted to ReplicaDeletionSuccessful
    """)
    assert controller.state.topic_exists.all()
    last = controller.acknowledge_deletions()
    assert moves(last) == lines("""
        t-1/3 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        t-0/1 ReplicaDeletionSuccessful to NonExistentReplica
        t-0/2 ReplicaDeletionSuccessful to NonExistentReplica
        t-1/2 ReplicaDeletionSuccessful to NonExistentReplica
        t-1/3 ReplicaDeletionSuccessful to NonExistentReplica
    """)
    assert last.counts.requests == {"LeaderAndIsr": 0, "UpdateMetadata": 0, "StopReplica": 0}
    assert_reads(controller.state, """
        partition  ar   isr  leader  epoch
        u-0        1,3  1,3  1       4
    """)
    assert controller.acknowledge_deletions().actions == ()
    invariants.check(controller.state)


def test_the_gauges_follow_a_deletion():
    """Section 1.6, exported gauges, at every stage.

    The broker that comes back finds others being deleted; its replica waits for them
    (section 6.12).
    """
    controller = run()

    def counts():
        gauges = controller.gauges()
        return [gauges[name] for name in (
            "TopicsToDeleteCount", "ReplicasToDeleteCount", "ReplicasIneligibleToDeleteCount",
            "GlobalTopicCount", "GlobalPartitionCount", "OfflinePartitionsCount",
        )]

    assert counts() == [0, 0, 0, 2, 3, 0]
    controller.delete_topics(["t"])
    assert counts() == [1, 4, 0, 2, 3, 0]
    controller.acknowledge_deletions([2])
    assert counts() == [1, 2, 0, 2, 3, 0]
    controller.on_stop_replica_response(1, [0], failed=[0])
    assert counts() == [1, 2, 1, 2, 3, 0]
    controller.on_broker_change(bounced=[1])
    assert counts() == [1, 2, 0, 2, 3, 0]
    controller.acknowledge_deletions()
    assert counts() == [1, 1, 0, 2, 3, 0]
    controller.acknowledge_deletions()
    assert counts() == [0, 0, 0, 1, 1, 0]


def test_unknown_topics_are_warned_about():
    """Section 6.12, deletion marker: the others are queued; a gone topic is unknown too."""
    controller = run()
    controller.on_topic_change(gone=["u"])
    outcome = controller.delete_topics(["n", "t", "u", "n"])
    assert outcome.notes == ("topic 'n' is unknown", "topic 'u' is unknown")
    assert controller.state.topic_deletion_started.tolist() == [True, False]
    assert controller.delete_topics(["n"]).actions == ()


# --- deletion is disabled -----------------------------------------------------------------------


def test_without_topic_deletion_nothing_is_queued():
    """Section 6.12: delete.topic.enable is false; the marker is removed."""
    controller = run(delete_topic_enabled=False)
    before = controller.state.copy()
    outcome = controller.delete_topics(["t", "n"])
    assert outcome.notes == (
        "topic 'n' is unknown", "topic deletion is disabled: nothing was queued",
    )
    assert (outcome.actions, controller.state.difference(before)) == ((), None)


def test_without_topic_deletion_a_new_controller_removes_the_markers():
    """Section 6.12, `init`: the topics are as any other, and count again."""
    controller = run("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1,2  2       7      ONLINE
    """, started=["t"], ineligible=["t"], delete_topic_enabled=False)
    assert controller.on_controller_failover().error is None
    state = controller.state
    assert not (state.topic_queued_for_deletion | state.topic_deletion_started).any()
    assert not state.topic_ineligible.any()
    assert (state.preferred_imbalance_count, states(state, 0)) == (1, "1:ONLINE,2:ONLINE")
    invariants.check(state)


def test_what_is_gone_is_not_found_and_what_is_left_is():
    """Freeing keeps the sorted keys; a copy made before still finds everything."""
    state = generate(brokers=6, partitions=60, topics=6)
    controller = Controller(state)
    controller.on_controller_failover()
    names = state.topic.to_pylist()
    all_rows = [state.topic_partitions(name).tolist() for name in names]
    before = state.copy()
    for name in (names[1], names[4]):
        controller.delete_topics([name])
        controller.acknowledge_deletions()
    fresh = NameLookup(state.topic, state.topic_row, state.partition)
    for topic, name in enumerate(names):
        deleted = name in (names[1], names[4])
        assert state.lookup.rows_of_topic(topic).tolist() == ([] if deleted else all_rows[topic])
        assert fresh.rows_of_topic(topic).tolist() == state.lookup.rows_of_topic(topic).tolist()
        assert before.topic_partitions(name).tolist() == all_rows[topic]
        keys = np.full(11, topic, np.int32), np.arange(11, dtype=np.int32)
        assert state.lookup.rows(*keys).tolist() == fresh.rows(*keys).tolist()


def test_rows_that_moved_are_no_hints():
    """A state that is compacted without its controller: topics are looked at afresh."""
    controller = run("""
        partition  ar   isr  leader  epoch  state
        u-0        2    2    2       1      ONLINE
        a-0        1    1    1       1      ONLINE
        u-1        3    3    3       1      ONLINE
    """)
    controller.delete_topics(["a", "u"])
    controller.acknowledge_deletions([1])
    assert controller.state.compact().tolist() == [0, 2]
    controller.acknowledge_deletions([2, 3])
    assert not controller.state.any_queued
    invariants.check(controller.state)


# --- what brokers answer ------------------------------------------------------------------------


def test_an_answer_may_fail_some_and_delete_others():
    """Section 6.12, StopReplica response: failed ones first; they wait while others go on."""
    controller = started()
    outcome = controller.on_stop_replica_response(2, [1, 0], failed=[1])
    assert moves(outcome) == lines("""
        t-1/2 ReplicaDeletionStarted to ReplicaDeletionIneligible
        t-0/2 ReplicaDeletionStarted to ReplicaDeletionSuccessful
    """)
    assert controller.state.topic_ineligible.tolist() == [True, False]


def test_only_started_topics_are_answered_for():
    """Section 5.4: checked when the response arrives; there is no event without one."""
    controller = run(queued=["u"])
    before = controller.state.copy()
    outcome = controller.on_stop_replica_response(1, [0, 2], failed=[2])
    assert (outcome.actions, controller.state.difference(before)) == ((), None)
    assert controller.on_stop_replica_response(2, [2, 0]).actions == ()
    assert controller.state.records["n_slots"].tolist() == [2, 2, 2]
    controller.delete_topics(["t"])
    outcome = controller.on_stop_replica_response(1, [0, 2])
    assert moves(outcome)[0] == "t-0/1 ReplicaDeletionStarted to ReplicaDeletionSuccessful"


def test_a_late_answer_is_refused():
    """Section 2.1: successful twice, or successful after it failed, is illegal."""
    controller = started()
    controller.on_stop_replica_response(1, [0], failed=[0])
    late = controller.on_stop_replica_response(1, [0])
    assert refused(late) == [
        "t-0/1 ReplicaDeletionIneligible to ReplicaDeletionSuccessful: IllegalState",
    ]
    controller.on_stop_replica_response(2, [0])
    again = controller.on_stop_replica_response(2, [0], error=True)
    assert refused(again) == [
        "t-0/2 ReplicaDeletionSuccessful to ReplicaDeletionIneligible: IllegalState",
    ]
    assert states(controller.state, 0) == "1:DELETION_INELIGIBLE,2:DELETION_SUCCESSFUL"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((9, [0]), ArgumentError, "broker 9 is unknown"),
        ((1, [0, 0]), RowError, "partition row 0 is listed twice"),
        ((1, [3]), RowError, "partition row 3 "),
        ((1, [0], [-1]), RowError, "partition row -1 "),
        ((1, [0], [1]), ArgumentError, "failed row 1"),
    ],
)
def test_an_answer_that_cannot_be_is_refused(arguments, error, message):
    """A caller's mistake: raised before anything changes."""
    controller = started()
    before = controller.state.copy()
    with pytest.raises(error, match=message):
        controller.on_stop_replica_response(*arguments)
    with pytest.raises(ArgumentError, match="broker 9 is unknown"):
        controller.acknowledge_deletions([9])
    assert controller.state == before


# --- failing and trying again -------------------------------------------------------------------


def test_what_failed_is_reset_when_nothing_else_is_under_way():
    """Section 6.12, `resume_deletions`, note: Offline again, with StopReplica and ISR shrink.

    It is not started: the topic is ineligible until a broker starts or a reassignment ends.
    """
    controller = started()
    controller.on_stop_replica_response(1, [0], failed=[0])
    assert states(controller.state, 0) == "1:DELETION_INELIGIBLE,2:DELETION_STARTED"
    controller.on_stop_replica_response(2, [0, 1])
    outcome = controller.on_stop_replica_response(3, [1])
    assert moves(outcome) == lines("""
        t-1/3 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        t-0/1 ReplicaDeletionIneligible to OfflineReplica
    """)
    assert sent(outcome) == ["StopReplica to 1: t-0, epoch -2"]
    assert controller.state.topic_ineligible.tolist() == [True, False]
    assert controller.acknowledge_deletions().actions == ()
    invariants.check(controller.state)


def test_a_broker_that_starts_makes_the_topic_eligible_again():
    """Section 6.12, `resume_deletion_for`: started again; partitions stay NonExistent.

    Only what is not deleted yet is stopped and deleted; the markers go out again.
    """
    controller = started()
    controller.on_stop_replica_response(1, [0], failed=[0])
    controller.acknowledge_deletions()
    outcome = controller.on_broker_change(bounced=[1])
    assert "partitions to NonExistentPartition" not in outcome.actions
    assert states(controller.state, 0) == "1:DELETION_STARTED,2:DELETION_SUCCESSFUL"
    assert not controller.state.topic_ineligible.any()
    assert announced(outcome)[-2:] == lines("""
        announce the deletion to 1,2,3: t-0, leader -2, epoch 0, ISR 2
        announce the deletion to 1,2,3: t-1, leader -2, epoch 0, ISR 3
    """)
    assert sent(outcome)[-2:] == lines("""
        StopReplica to 1: t-0, epoch -2
        StopReplica(delete) to 1: t-0, epoch -2
    """)
    controller.acknowledge_deletions()
    assert controller.state.topic_exists.tolist() == [False, True]


# --- a store ------------------------------------------------------------------------------------


def test_the_records_go_with_their_topic():
    """Section 6.12, `finish`: the topic node is deleted; until then its records shrink."""
    state = read_state(TOPICS)
    store = Store(state)
    controller = Controller(state, store=store)
    controller.delete_topics(["t"])
    assert (store.get("t", 0).leader, store.get("t", 0).isr) == (-1, (2,))
    controller.acknowledge_deletions()
    assert set(store.records()) == {("u", 0)}


def test_another_controller_ends_the_deletion():
    """Section 6.0: ControllerMoved at the shrink; what was queued stays queued."""
    state = read_state(TOPICS)
    store = Store(state)
    controller = Controller(state, store=store)
    store.elect_controller()
    assert controller.delete_topics(["t"]).failure is not None
    assert not controller.active
    assert state.topic_queued_for_deletion.tolist() == [True, False]
    assert controller.on_controller_failover().error is None
    controller.acknowledge_deletions()
    assert np.flatnonzero(state.topic_exists).tolist() == [1]


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
    election = controller.elect_leaders([("t", 0), ("u", 0)])
    assert [r["error"] for r in election.replies.to_pylist()] == [
        "INVALID_TOPIC_EXCEPTION", "ELECTION_NOT_NEEDED",
    ]
    controller.rebalance_leaders()
    assert controller.state.difference(before) is None
    outcome = controller.controlled_shutdown(3)
    assert {t["topic"] for t in outcome.transitions.to_pylist()} == {"u"}


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


def test_a_new_controller_begins_the_deletion_again():
    """Sections 6.1, 2.2 and 6.12: states are made anew, nothing is started, then all of it is.

    Every replica is Online at startup, whatever it had answered.
    """
    controller = started()
    state = controller.state
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


def test_a_later_marker_is_read_together_with_those_of_queued_topics():
    """Section 6.12: a broker made the topic eligible again; the marker of another one does not."""
    controller = run(HALF_WAY, queued=["t"])
    controller.on_controller_failover()
    controller.on_topic_change({"u": {0: [1]}})
    controller.state.topic_flags[:] &= 255 - TOPIC_INELIGIBLE
    controller.delete_topics(["u"])
    assert [
        name for name, held in zip(
            controller.state.topic.to_pylist(), controller.state.topic_ineligible.tolist(),
            strict=True,
        ) if held
    ] == ["t"]
    invariants.check(controller.state)


def test_a_marker_of_an_unknown_topic_resumes_the_others():
    """Section 6.12: the event reads every marker, and goes on with what is queued."""
    controller = run(HALF_WAY, queued=["t"])
    controller.on_controller_failover()
    controller.state.topic_flags[:] &= 255 - TOPIC_INELIGIBLE
    outcome = controller.delete_topics(["nowhere"])
    assert controller.state.topic_ineligible.tolist() == [True]
    assert "unknown" in outcome.notes[0]


def test_replicas_without_a_state_end_the_event():
    """Section 1.5, `replicas_in_state`, raises: a reassignment failed before it started them."""
    controller = run("""
        partition  ar  isr  leader  epoch  state
        t-0        5   -    -       -      NEW
        u-0        1   1    1       4      ONLINE
    """, down=[5])
    request = controller.alter_partition_reassignments({("t", 0): [1]})
    assert answers(request) == ["UNKNOWN_SERVER_ERROR"]
    outcome = controller.delete_topics(["t", "u"])
    assert outcome.error == "NoSuchElement"
    assert controller.state.topic_queued_for_deletion.all()
    assert controller.active
