"""Log directories fail while their brokers are up.

Source: docs/controller.md, section 6.9.
"""

from __future__ import annotations

import numpy as np

from kfast import Controller, ReplicaState
from tests.support.states import QUIET, assert_reads, read_state


def rows(*numbers):
    """Partition rows."""
    return np.array(numbers, np.int32)


def test_a_failed_log_directory_moves_its_leaders_only():
    """Section 6.9: the broker is up, its replicas of these partitions are not."""
    state = read_state(QUIET)
    controller = Controller(state, journal="full")
    outcome = controller.on_log_dir_failure(1, rows(0))
    assert_reads(state, """
        partition  ar     isr  leader  epoch  offline_dir  state   replicas
        t-0        1,2,3  2,3  2       8      1            ONLINE  1:OFFLINE,2:ONLINE,3:ONLINE
        t-1        2,3,1  2,3  2       5      -            ONLINE  1:ONLINE,2:ONLINE,3:ONLINE
        u-0        3,1    3    3       1      -            ONLINE  1:ONLINE,3:ONLINE
    """)
    probed = [r for r in outcome.requests.to_pylist() if r["step"] == 0]
    assert {(r["broker_id"], r["kind"], r["is_new"]) for r in probed} == {
        (1, "LeaderAndIsr", False),
    }
    assert len(probed) == 3


def test_recovery_of_a_log_directory_only_edits_the_set():
    """Section 6.9, step 2, note: nothing is elected or moved back Online."""
    state = read_state(QUIET)
    controller = Controller(state, journal="full")
    controller.on_log_dir_failure(1, rows(0))
    before = state.copy()
    outcome = controller.on_leader_and_isr_response(1, online=rows(0, 1))
    assert outcome.steps.num_rows == 0
    assert not state.records["offline_dir"].any()
    before.set_offline_dir(1, rows(0), offline=False)
    assert state == before
    assert state.replica_states_of(0)[1].name == "OFFLINE"


def test_a_directory_that_is_known_to_be_offline_is_no_news():
    """Section 6.9, step 2: only what is newly offline is acted on."""
    state = read_state(QUIET)
    controller = Controller(state, journal="full")
    controller.on_leader_and_isr_response(1, offline=rows(0))
    before = state.copy()
    outcome = controller.on_leader_and_isr_response(1, offline=rows(0))
    assert outcome.steps.num_rows == 0
    assert state == before


def test_a_probe_changes_nothing():
    """Section 6.9, step 1: LeaderAndIsr again, purely to ask."""
    state = read_state(QUIET, queued=["u"])
    before = state.copy()
    outcome = Controller(state, journal="full").on_broker_log_dir_failure([1, 2])
    assert state == before
    told = {(r["broker_id"], r["topic"]) for r in outcome.requests.to_pylist()}
    assert told == {(1, "t"), (2, "t"), (1, "u")}


def test_queued_topics_and_log_directories():
    """Section 6.9 by sections 6.2 and 6.12: their replicas are ineligible, nobody is elected.

    As nothing else of the topic is being deleted they are reset to Offline at once.
    """
    state = read_state("""
        partition  ar   isr  leader  epoch  state   replicas
        q-0        1,2  1,2  1       4      ONLINE  1:DELETION_STARTED,2:ONLINE
    """, queued=["q"])
    outcome = Controller(state, journal="full").on_leader_and_isr_response(1, offline=rows(0))
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state   offline_dir  replicas
        q-0        1,2  2    -       5      ONLINE  1            1:OFFLINE,2:ONLINE
    """)
    assert state.topic_ineligible.tolist() == [True]
    assert outcome.elections.num_rows == 0
    moved = [t["to_state"] for t in outcome.transitions.to_pylist()]
    assert moved == ["ReplicaDeletionIneligible", "OfflineReplica"]


def test_a_directory_that_fails_while_others_are_deleted_is_not_retried():
    """Section 6.12, note: while any replica is DelStarted, nothing is."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state         replicas
        q-0        1,2  1,2  1       4      NON_EXISTENT  1:DELETION_STARTED,2:DELETION_STARTED
    """, started=["q"])
    Controller(state).on_leader_and_isr_response(1, offline=rows(0))
    assert state.replica_states_of(0) == {
        1: ReplicaState.DELETION_INELIGIBLE, 2: ReplicaState.DELETION_STARTED,
    }
    assert state.leadership(0).isr == (1, 2)


def test_offline_directories_are_forgotten_when_the_broker_restarts():
    """Section 1.4: dropped when a broker starts or fails."""
    state = read_state(QUIET)
    controller = Controller(state)
    controller.on_log_dir_failure(1, rows(0))
    controller.on_broker_failure([1])
    assert not state.records["offline_dir"].any()
    controller.on_broker_startup([1])
    assert state.is_replica_online(1, 0)
