"""What brokers answer to a deletion, what is tried again, and a store that takes part.

Source: docs/controller.md, section 6.12.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import ArgumentError, Controller, ReplicaState, RowError, Store
from kfast.testing import invariants
from tests.rules.test_deletion import TOPICS, run, started, states
from tests.support.readings import announced, lines, moves, refused, sent
from tests.support.states import read_state

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


def test_an_error_of_the_whole_answer_fails_all():
    """Section 6.12, StopReplica response: top-level error, and nothing is left to complete."""
    outcome = started().on_stop_replica_response(2, [0, 1], error=True)
    assert outcome.actions == ("replicas to ReplicaDeletionIneligible",)
    assert len(moves(outcome)) == 2


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


def test_an_answer_of_a_broker_without_the_replica_is_refused():
    """Section 2.4: its entry becomes NonExistentReplica; the topic goes all the same."""
    controller = started()
    outcome = controller.on_stop_replica_response(3, [0])
    assert refused(outcome) == [
        "t-0/3 NonExistentReplica to ReplicaDeletionSuccessful: IllegalState",
    ]
    controller.acknowledge_deletions()
    assert controller.state.topic_exists.tolist() == [False, True]
    invariants.check(controller.state)


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


def test_brokers_that_are_down_do_not_answer():
    """`acknowledge_deletions`: registered brokers, in ascending id, for what was started."""
    controller = run(down=[3])
    controller.delete_topics(["t", "u"])
    outcome = controller.acknowledge_deletions()
    told = [t["broker_id"] for t in outcome.transitions.to_pylist()
            if t["to_state"] == "ReplicaDeletionSuccessful"]
    assert told == [1, 1, 2, 2]


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


def test_the_last_failure_resets_all_in_one_call():
    """Section 6.12: one `handle` for all DelIneligible replicas of all retried topics."""
    controller = started()
    for broker, rows in ((1, [0]), (2, [0, 1])):
        controller.on_stop_replica_response(broker, rows, error=True)
    outcome = controller.on_stop_replica_response(3, [1], error=True)
    assert outcome.actions == (
        "replicas to ReplicaDeletionIneligible", "replicas to OfflineReplica",
    )
    assert {s for row in (0, 1) for s in controller.state.replica_states_of(row).values()} == {
        ReplicaState.OFFLINE
    }


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


def test_any_hint_gives_the_same_end():
    """Whoever answers first, and however often it is asked: the same state in the end."""
    ends = set()
    for order in ((1, 2, 3), (3, 2, 1), (2, 3, 1)):
        controller = started()
        for broker in order:
            controller.acknowledge_deletions([broker])
            controller.delete_topics(["t"])
            invariants.check(controller.state)
        ends.add(controller.state.digest() if not controller.state.any_queued else None)
    assert len(ends) == 1
    assert None not in ends


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


def test_a_replica_without_a_record_keeps_its_state():
    """Section 2.6, note: neither success nor failure; so it cannot be deleted (section 2.1)."""
    state = read_state(TOPICS)
    store = Store(state)
    store.delete("t", 0)
    controller = Controller(state, store=store, journal="full")
    outcome = controller.delete_topics(["t"])
    assert refused(outcome) == [
        f"t-0/{b} OnlineReplica to ReplicaDeletionStarted: IllegalState" for b in (1, 2)
    ]
    assert states(state, 0) == "1:ONLINE,2:ONLINE"
    controller.acknowledge_deletions()
    assert state.topic_exists.all()


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


@pytest.mark.parametrize("level", ["off", "counts", "full"])
@pytest.mark.parametrize(("threads", "with_store"), [(1, False), (5, False), (1, True)])
def test_neither_threads_nor_the_journal_nor_a_store_show(level, threads, with_store):
    """Design: the same state and counts as with one thread, a full journal and no store."""
    seen = []
    for options in ({"journal": "full"}, {"journal": level, "threads": threads}):
        state = read_state(TOPICS, brokers=[4], down=[4])
        store = Store(state) if with_store and seen else None
        controller = Controller(state, store=store, **options)
        outcomes = [
            controller.on_topic_change({"n": {0: [4, 1], 1: [3, 2, 1]}}),
            controller.delete_topics(["n", "t"]), controller.acknowledge_deletions([1]),
            controller.on_stop_replica_response(2, state.topic_partitions("t"), error=True),
            controller.acknowledge_deletions(), controller.on_broker_startup([2 + 2]),
            controller.on_broker_change(bounced=[2]), controller.acknowledge_deletions(),
        ]
        assert state.topic_exists.tolist() == [False, True, False]
        invariants.check(state)
        seen.append((state.digest(), [outcome.counts for outcome in outcomes]))
    assert seen[0][0] == seen[1][0]
    if level != "off":
        assert seen[0][1] == seen[1][1]
