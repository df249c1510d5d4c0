"""Log directories fail while their brokers are up.

Source: docs/controller.md, section 6.9.
"""

from __future__ import annotations

import numpy as np

from kfast import Controller
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
