"""The stand-in for ZooKeeper, and the machines' read-decide-write-retry loops with it.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import (
    UNDECODABLE,
    ArgumentError,
    Code,
    Controller,
    Leadership,
    PartitionState,
    PartitionStateMachine,
    ReplicaState,
    ReplicaStateMachine,
    Store,
    Strategy,
)
from kfast.controllers.zk.faults import ControllerMoved
from kfast.controllers.zk.store import CallFailed, StoreAnswer
from tests.support.states import QUIET, assert_reads, read_state

OFFLINE = """
    partition  ar     isr  leader  epoch  version  state
    t-0        1,2,3  1    -       7      4        OFFLINE
    t-1        2,3    2,3  2       7      4        ONLINE
"""


def elect(state, store, names, strategy=Strategy.OFFLINE):
    """Bring partitions Online."""
    machine = PartitionStateMachine(state, store)
    rows = state.find_partitions(names)
    return machine.handle_state_changes(rows, PartitionState.ONLINE, strategy)


def take_offline(state, store, brokers):
    """Replicas of some brokers to OfflineReplica."""
    machine = ReplicaStateMachine(state, store)
    return machine.handle_state_changes(state.replicas_on_brokers(brokers), ReplicaState.OFFLINE)


def codes(outcome):
    """Codes of an outcome."""
    return [Code(code).name for code in outcome.codes]


def errors(outcome):
    """(partition, broker, error class, to state) of the error log."""
    return [
        (r["partition"], r["broker_id"], r["error"], r["to_state"])
        for r in outcome.refusals.to_pylist()
    ]


# --- the store by itself ------------------------------------------------------------------------


def test_a_store_begins_with_what_is_cached():
    """Or empty, if it is told so; ids, not slots, are stored."""
    state = read_state(QUIET)
    store = Store(state)
    assert store.records()["t", 1] == Leadership(2, 5, (2, 3), 0, 5, 3)
    assert len(store.records()) == 3
    assert Store(state, empty=True).records() == {}
    state.set_leadership(1, leader=3, isr=[3])
    assert store.get("t", 1).leader == 2


def test_records_are_put_garbled_and_deleted():
    """What somebody else may do to the store; unknown partitions get a row."""
    state = read_state(QUIET)
    store = Store(state)
    store.put("n", 4, leader=7, isr=[9, 7], leader_epoch=1, version=2, recovery=1)
    assert store.get("n", 4) == Leadership(7, 1, (9, 7), 1, 2, 0)
    store.put_garbage("t", 0)
    assert repr(store.get("t", 0)) == repr(UNDECODABLE) == "UNDECODABLE"
    store.delete("t", 1)
    assert store.get("t", 1) is None
    assert set(store.records()) == {("t", 0), ("u", 0), ("n", 4)}


def test_reads_creates_and_writes_are_answered_row_by_row():
    """Section 1.7: versions, compare-and-set, missing and garbled records."""
    state = read_state(QUIET)
    store = Store(state)
    rows = np.arange(3, dtype=np.int32)
    store.put_garbage("t", 0)
    store.delete("t", 1)
    answers, stored = store.read_states(rows)
    assert answers.tolist() == [StoreAnswer.UNDECODABLE, StoreAnswer.NO_NODE, StoreAnswer.OK]
    assert stored["version"][2] == 1
    answers = store.create_states(rows, stored)
    assert answers.tolist() == [StoreAnswer.NODE_EXISTS, StoreAnswer.OK, StoreAnswer.NODE_EXISTS]
    assert store.get("t", 1).version == 0
    stored["version"] = [0, 5, 1]
    answers, versions = store.update_states(rows[1:], stored[1:])
    assert answers.tolist() == [StoreAnswer.CONFLICT, StoreAnswer.OK]
    assert versions[1] == store.get("u", 0).version == 2
    store.delete("u", 0)
    answers, _ = store.update_states(rows[2:], stored[2:])
    assert answers.tolist() == [StoreAnswer.NO_NODE]


def test_the_next_version_can_be_chosen():
    """For one successful write."""
    state = read_state(OFFLINE)
    store = Store(state)
    store.next_version = 100
    elect(state, store, [("t", 1)])
    assert state.leadership(1).version == store.get("t", 1).version == 100
    elect(state, store, [("t", 1)])
    assert state.leadership(1).version == 101


def test_writes_are_guarded_and_reads_are_not():
    """Section 1.7: a later controller epoch raises ControllerMoved."""
    state = read_state(QUIET)
    store = Store(state)
    store.controller_epoch += 1
    rows = np.array([0], np.int32)
    _, stored = store.read_states(rows)
    with pytest.raises(ControllerMoved, match="the store knows controller epoch 4"):
        store.update_states(rows, stored)
    with pytest.raises(ControllerMoved):
        store.create_states(rows, stored)
    answers, _ = store.update_states(rows[:0], stored[:0])
    assert answers.size == 0


def test_faults_are_used_up_by_the_calls_that_contain_them():
    """One with partitions by each call that has the partition, one without by the next call."""
    state = read_state(QUIET)
    store = Store(state)
    store.fail("read_states", "NOAUTH", [("t", 1)], times=2)
    rows = [np.array(listed, np.int32) for listed in ([0], [0, 1], [1, 2], [1])]
    seen = [store.read_states(listed)[0].tolist() for listed in rows]
    assert seen == [[0], [0, StoreAnswer.ERROR], [StoreAnswer.ERROR, 0], [0]]
    store.fail("read_states", "throw")
    assert store.read_states(rows[0][:0])[0].size == 0
    with pytest.raises(CallFailed):
        store.read_states(rows[0])
    store.fail("update_states", "controller_moved")
    store.heal()
    assert store.read_states(rows[0])[0].tolist() == [0]
    with pytest.raises(ArgumentError, match="operation 'write' is unknown; allowed: read_states"):
        store.fail("write", "throw")


# --- elections (section 3.6) --------------------------------------------------------------------


def test_an_election_decides_on_the_stored_record():
    """Section 3.6, step 1: the cache is not consulted; brokers become known."""
    state = read_state(OFFLINE)
    store = Store(state)
    store.put("t", 0, leader=-1, isr=[3, 77, 2], leader_epoch=20, version=9, recovery=1)
    elect(state, store, [("t", 0)])
    assert_reads(state, """
        partition  ar     isr  leader  epoch  version  controller  recovery  state
        t-0        1,2,3  2,3  2       21     10       3           1         ONLINE
        t-1        2,3    2,3  2       7      4        3           0         ONLINE
    """)
    assert store.get("t", 0) == state.leadership(0)


def test_a_conflict_is_read_again():
    """Section 3.6: only conflicts are retried."""
    state = read_state(OFFLINE)
    store = Store(state)
    store.fail("update_states", "BADVERSION", [("t", 0)], times=3)
    outcome = elect(state, store, [("t", 0), ("t", 1)])
    assert codes(outcome) == ["ELECTED", "ELECTED"]
    assert [(op, len(names)) for op, names in store.calls] == [
        ("read", 2), ("update", 2), *[("read", 1), ("update", 1)] * 3,
    ]
    assert state.leadership(0).leader_epoch == 8


def test_a_retried_unclean_election_is_marked_twice():
    """Section 4.2, note: before the write, so a conflict marks again."""
    state = read_state(OFFLINE, down=[1])
    store = Store(state)
    store.fail("update_states", "BADVERSION", [("t", 0)])
    outcome = elect(state, store, [("t", 0)], Strategy.OFFLINE_ALLOW_UNCLEAN)
    assert (state.leadership(0).leader, state.leadership(0).leader_epoch) == (2, 8)
    assert state.unclean_elections == outcome.counts.unclean_elections == 2
    assert outcome.elections.column("unclean").to_pylist() == [True]


@pytest.mark.parametrize(
    ("harm", "code", "error"),
    [
        (lambda s: s.put("t", 0, leader=1, isr=[1], controller_epoch=9), "NEWER_CONTROLLER",
         "StateChangeFailed"),
        (lambda s: s.put_garbage("t", 0), "NO_RECORD", "StateChangeFailed"),
        (lambda s: s.delete("t", 0), "NO_RECORD", "StateChangeFailed"),
        (lambda s: s.fail("read_states", "NOAUTH", [("t", 0)]), "STORE_ERROR", "StoreError"),
        (lambda s: s.fail("update_states", "NOAUTH", [("t", 0)]), "STORE_ERROR", "StoreError"),
    ],
)
def test_what_the_store_answers_is_final_but_for_conflicts(harm, code, error):
    """Section 3.6, the table; the other partition is elected."""
    state = read_state(OFFLINE)
    store = Store(state)
    harm(store)
    outcome = elect(state, store, [("t", 0), ("t", 1)])
    assert codes(outcome) == [code, "ELECTED"]
    assert errors(outcome) == [(0, None, error, "OnlinePartition")]
    assert outcome.in_result.tolist() == [True, True]
    assert (state.leadership(0).leader_epoch, state.leadership(1).leader_epoch) == (7, 8)
    assert state.partition_state(0) == PartitionState.OFFLINE


def test_a_configuration_that_cannot_be_read_fails_only_who_needs_it():
    """Section 4.2: one log for the look-up, then the ordinary failure."""
    state = read_state(OFFLINE, down=[1], unclean={"t": True})
    store = Store(state)
    store.fail("topic_config", "CONFIG_READ_FAILED", topics=["t"])
    outcome = elect(state, store, [("t", 0), ("t", 1)])
    assert codes(outcome) == ["CONFIG_LOOKUP_FAILED", "ELECTED"]
    assert [error for _, _, error, _ in errors(outcome)] == ["StoreError", "StateChangeFailed"]
    store.heal()
    assert codes(elect(state, store, [("t", 0)])) == ["ELECTED"]


def test_a_create_call_that_fails_names_new_partition_as_target():
    """Section 3.5, step 4."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  -    -       -      NEW
        t-1        3    -    -       -      NEW
    """, down=[3])
    store = Store(state)
    store.fail("create_states", "throw")
    outcome = elect(state, store, [("t", 0), ("t", 1)])
    assert codes(outcome) == ["CREATE_CALL_FAILED", "NO_LIVE_REPLICA"]
    assert errors(outcome) == [
        (0, None, "StoreError", "NewPartition"), (1, None, "StateChangeFailed", "OnlinePartition"),
    ]
    assert store.calls == [("create", [("t", 0)])]


# --- shrinking (section 2.6) --------------------------------------------------------------------


def test_a_shrink_writes_only_where_the_broker_is_in_the_isr():
    """Section 2.6: elsewhere the record is cached as read, under our epoch."""
    state = read_state(QUIET)
    store = Store(state)
    store.put("t", 1, leader=3, isr=[3], leader_epoch=30, version=8, controller_epoch=1)
    take_offline(state, store, [1])
    assert_reads(state, """
        partition  ar     isr  leader  epoch  version  controller
        t-0        1,2,3  2,3  -       8      8        3
        t-1        2,3,1  3    3       30     8        3
        u-0        3,1    3    3       1      1        3
    """)
    assert store.get("t", 1).controller_epoch == 1
    assert store.calls[-1] == ("update", [("t", 0)])


def test_a_failed_shrink_keeps_the_state_but_the_broker_is_stopped():
    """Section 2.5, step 4."""
    state = read_state(QUIET)
    store = Store(state)
    store.fail("update_states", "NOAUTH", [("t", 0)])
    outcome = take_offline(state, store, [1])
    assert errors(outcome) == [(0, 1, "StoreError", "OfflineReplica")]
    assert state.replica_states_of(0)[1] == ReplicaState.ONLINE
    stopped = [
        (r["topic"], r["partition"]) for r in outcome.requests.to_pylist()
        if r["kind"] == "StopReplica"
    ]
    assert stopped == [("t", 0), ("t", 1), ("u", 0)]


def test_failover_loads_what_is_stored():
    """Section 6.1, steps 1 and 4: the epoch rises, the cache is replaced."""
    state = read_state(QUIET)
    store = Store(state)
    store.put("t", 0, leader=3, isr=[3, 2], leader_epoch=40, version=41, controller_epoch=2)
    store.delete("t", 1)
    Controller(state, store=store).on_controller_failover()
    assert (state.controller_epoch, store.controller_epoch) == (4, 4)
    assert (state.epoch_store_version, store.epoch_version) == (4, 4)
    assert_reads(state, """
        partition  ar     isr    leader  epoch  version  controller  state
        t-0        1,2,3  2,3    3       40     41       2           ONLINE
        t-1        2,3,1  1,2,3  2       0      0        4           ONLINE
        u-0        3,1    3      3       1      1        3           ONLINE
    """)
