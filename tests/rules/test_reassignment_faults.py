"""Reassignments that meet a store that fails, conflicts or has another controller.

Source: docs/controller.md, sections 6.6 and 6.7.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

from kfast import Code, Controller, ReplicaState, Store
from kfast.testing import invariants
from tests.rules.test_reassignment import HALF_WAY, ONE, is_being_reassigned
from tests.support.readings import answers, moves, refused, sent
from tests.support.states import assert_reads, read_state

FAILED = ["UNKNOWN_SERVER_ERROR"]
IN_SYNC = HALF_WAY.replace("1,2,3  1  ", "1,2,3,4,5  3  ")
TWO = """
    partition  ar       adding  removing  isr  leader  epoch  state   replicas
    t-0        3,1,2    3       1         1,2  1       7      ONLINE  1:ONLINE,2:ONLINE,3:NEW
    t-1        3,1,2    3       1         1,2  2       7      ONLINE  1:ONLINE,2:ONLINE,3:NEW
"""


def run(text, **options):
    """A controller with a store, and a full journal."""
    state = read_state(text, **options)
    return Controller(state, store=Store(state), journal="full")


def reassign(controller, *brokers, partition=("t", 0)):
    """Ask for one partition to move."""
    return controller.alter_partition_reassignments({partition: list(brokers)})


@contextmanager
def failing_call(store, operation, number):
    """Let one of the next calls of an operation fail, counted from 1."""
    plain, seen = getattr(store, operation), []

    def counted(*arguments, **options):
        seen.append(operation)
        if len(seen) == number:
            store.fail(operation, "NOAUTH")
        return plain(*arguments, **options)

    setattr(store, operation, counted)
    yield
    delattr(store, operation)
    assert len(seen) >= number


def begun(fault_of, fault, **options):
    """Begin the example while an operation of the store fails."""
    controller = run(ONE, brokers=[4, 5])
    controller.store.fail(fault_of, fault, **options)
    return controller, reassign(controller, 3, 4, 5)


# --- phases U and A -----------------------------------------------------------------------------


def test_without_its_first_write_nothing_begins():
    """Section 6.7, phase U: the topic node comes before the cache."""
    controller, outcome = begun("write_assignments", "throw")
    assert answers(outcome) == FAILED
    assert controller.state.difference(read_state(ONE, brokers=[4, 5])) is None
    assert outcome.actions == ()
    assert not is_being_reassigned(controller.state)
    assert answers(reassign(controller, 3, 4, 5)) == ["STARTED"]


@pytest.mark.parametrize("fault", ["throw", "CONNECTIONLOSS"])
def test_a_record_that_cannot_be_read_stops_it_after_the_first_write(fault):
    """Section 6.7, step 3: the assignment is set and p is being reassigned; nothing was sent."""
    controller, outcome = begun("read_states", fault)
    assert (answers(outcome), outcome.actions) == (FAILED, ())
    assert_reads(controller.state, """
        partition  ar         adding  removing  epoch  replicas
        t-0        3,4,5,1,2  4,5     1,2       7      1:ONLINE,2:ONLINE,3:ONLINE
    """)
    assert is_being_reassigned(controller.state)
    assert controller.on_partition_reassignment([0]).error is None
    assert controller.state.leadership(0).leader_epoch == 8


def test_a_conflict_at_the_touch_is_read_again():
    """Section 6.6, step 1: conflict, repeat; one epoch only."""
    controller, outcome = begun("update_states", "BADVERSION", times=2)
    assert answers(outcome) == ["STARTED"]
    calls = [call for call, _ in controller.store.calls]
    assert calls == ["assign", "read", "read", "update", "read", "update", "read", "update"]
    assert controller.state.leadership(0).leader_epoch == 8


def test_the_touch_writes_what_is_stored():
    """Section 6.6: the record is read; the leader may have changed the ISR since."""
    controller = run(ONE, brokers=[4])
    controller.store.put("t", 0, leader=1, isr=[1, 3], leader_epoch=7, version=12)
    outcome = reassign(controller, 4, 1)
    record = controller.state.leadership(0)
    assert (record.isr, record.leader_epoch, record.version) == ((1, 3), 8, 13)
    assert "A1 LeaderAndIsr(new) to 4: t-0, leader 1, epoch 8, ISR 1,3" in sent(outcome)


@pytest.mark.parametrize("fault", ["throw", "NOAUTH"])
def test_a_touch_that_fails_starts_no_replica(fault):
    """Sections 6.6 and 6.7: other error, raise; what was done so far stays."""
    controller, outcome = begun("update_states", fault)
    assert (answers(outcome), outcome.actions) == (FAILED, ())
    assert controller.state.assignment(0).adding == (4, 5)
    assert controller.state.replica_states_of(0) == dict.fromkeys((1, 2, 3), ReplicaState.ONLINE)
    assert controller.store.get("t", 0).leader_epoch == 7


@pytest.mark.parametrize("damage", ["delete", "put_garbage"])
def test_a_missing_record_is_not_complete_and_cannot_be_touched(damage):
    """Sections 6.7, step 3, and 6.6: complete iff it exists; missing, IllegalState."""
    controller = run(ONE, brokers=[4])
    getattr(controller.store, damage)("t", 0)
    assert answers(reassign(controller, 4)) == FAILED
    assert controller.on_partition_reassignment([0]).error == "IllegalState"
    assert is_being_reassigned(controller.state)


@pytest.mark.parametrize("with_store", [False, True])
def test_a_record_of_a_newer_controller_is_left_alone(with_store):
    """Section 6.6: StateChangeFailed; neither store nor cache changes (9, rule 9)."""
    state = read_state(ONE + "", brokers=[4])
    state.set_leadership(
        0, leader=1, isr=[1, 2, 3], leader_epoch=7, version=7, controller_epoch=9
    )
    store = Store(state) if with_store else None
    controller = Controller(state, store=store)
    record = state.leadership(0)
    assert answers(reassign(controller, 4)) == FAILED
    assert controller.on_partition_reassignment([0]).error == "StateChangeFailed"
    assert state.leadership(0) == record


@pytest.mark.parametrize("with_store", [False, True])
def test_a_partition_that_never_had_a_leader_cannot_begin(with_store):
    """Sections 6.6 and 6.7: IllegalState; the next start of a broker initialises it with all."""
    state = read_state("""
        partition  ar  isr  leader  epoch  state
        t-0        5   -    -       -      NEW
    """, brokers=[1], down=[5])
    controller = Controller(state, store=Store(state) if with_store else None)
    assert answers(reassign(controller, 1)) == FAILED
    assert (state.assignment(0).replicas, is_being_reassigned(state)) == ((1, 5), True)
    controller.on_broker_startup([5])
    assert (state.leadership(0).leader, state.leadership(0).isr) == (1, (1, 5))
    assert controller.on_partition_reassignment([0]).error is None
    assert state.assignment(0).replicas == (1,)


def test_a_partition_without_leadership_cannot_be_reordered():
    """Section 6.7: complete at once, but B3 asks for the leader that is not there."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        5,6  -    -       -      NEW
    """, down=[5, 6])
    controller = Controller(state)
    assert answers(reassign(controller, 6, 5)) == FAILED
    assert state.assignment(0).replicas == (6, 5)
    assert controller.on_partition_reassignment([0]).error == "NoSuchElement"


def test_a_dropped_replica_whose_shrink_fails_stays_behind():
    """Sections 2.5 and 6.7, phase U: the error is logged, and the new plan begins all the same."""
    controller = run(HALF_WAY.replace("1,2,3  1  ", "1,2,4  1  "))
    controller.store.fail("update_states", "NOAUTH")
    outcome = reassign(controller, 5, 1, 2)
    assert answers(outcome) == ["STARTED"]
    assert refused(outcome)[0] == "U t-0/4 NewReplica to OfflineReplica: StoreError"
    assert_reads(controller.state, """
        partition  ar       adding  removing  isr    leader  epoch  replicas
        t-0        5,1,2,3  5       3         1,2,4  1       9      {}
    """.format("1:ONLINE,2:ONLINE,3:ONLINE,4:NEW,5:NEW"))
    invariants.check(controller.state)


# --- phase B ------------------------------------------------------------------------------------


def test_a_touch_that_fails_at_the_end_leaves_the_targets_in_memory_only():
    """Section 6.7, B2 and B3: a new controller reads the stored assignment, and completes it."""
    controller = run(IN_SYNC)
    controller.store.fail("update_states", "throw")
    outcome = controller.on_partition_reassignment([0])
    assert outcome.error == "StoreError"
    assert controller.state.assignment(0).replicas == (3, 4, 5)
    assert is_being_reassigned(controller.state)
    invariants.check(controller.state)
    assert controller.on_controller_failover().error is None
    assert_reads(controller.state, """
        partition  ar     adding  removing  isr    leader  epoch  replicas
        t-0        3,4,5  -       -         3,4,5  3       11     3:ONLINE,4:ONLINE,5:ONLINE
    """)
    invariants.check(controller.state)


def test_a_conflict_at_the_election_is_read_again():
    """Section 3.6 for B3: only conflicts are retried."""
    controller = run(IN_SYNC.replace("4,5  3  ", "4,5  1  "))
    controller.store.fail("update_states", "BADVERSION")
    assert controller.on_partition_reassignment([0]).error is None
    assert controller.store.get("t", 0).leader == controller.state.leadership(0).leader == 3


def test_a_shrink_that_fails_leaves_its_replica_behind():
    """Sections 2.5 and 6.7, B4: the error is logged, the four calls go on, B6 and B7 as well.

    Replica 1 stays Online and in the ISR; it is told to stop, but not to delete.
    """
    controller = run(IN_SYNC)
    with failing_call(controller.store, "update_states", 2):
        outcome = controller.on_partition_reassignment([0])
    assert outcome.error is None
    states = controller.state.replica_states_of(0)
    assert (states[1], 2 in states) == (ReplicaState.ONLINE, False)
    assert controller.state.leadership(0).isr == (3, 4, 5, 1)
    assert controller.state.assignment(0).replicas == (3, 4, 5)
    assert not is_being_reassigned(controller.state)
    assert refused(outcome) == [
        "B4 t-0/1 OnlineReplica to OfflineReplica: StoreError",
        "B4 t-0/1 OnlineReplica to ReplicaDeletionStarted: IllegalState",
        "B4 t-0/1 OnlineReplica to ReplicaDeletionSuccessful: IllegalState",
        "B4 t-0/1 OnlineReplica to NonExistentReplica: IllegalState",
    ]
    stops = [line.split(":")[0] for line in sent(outcome) if "Stop" in line]
    assert stops == ["B4 StopReplica to 1,2", "B4 StopReplica(delete) to 2"]
    invariants.check(controller.state)


def last_write_failed(text=ONE):
    """A shrinking reassignment whose last write (B6) failed."""
    controller = run(text)
    with failing_call(controller.store, "write_assignments", 2):
        outcome = reassign(controller, 2, 3)
    assert answers(outcome) == FAILED
    assert "B8: announce the assignment" not in outcome.actions
    return controller


def test_without_its_last_write_p_is_still_being_reassigned():
    """Section 6.7, B6 and B7: memory says {TRS}; a new controller reads the union, and goes on."""
    controller = last_write_failed()
    state = controller.state
    assert (state.assignment(0).replicas, is_being_reassigned(state)) == ((2, 3), True)
    assert {row: a.removing for row, a in state.unwritten_assignments.items()} == {0: (1,)}
    outcome = controller.on_controller_failover()
    assert outcome.error is None
    assert "B6" not in "".join(outcome.actions)
    assert (state.assignment(0).replicas, is_being_reassigned(state)) == ((2, 3), False)
    assert 1 not in state.replica_states_of(0)
    assert not state.unwritten_assignments
    invariants.check(state)


def test_what_memory_says_decides_whether_there_is_something_to_cancel():
    """Sections 1.3 and 6.7: {TRS} has nothing adding or removing."""
    controller = last_write_failed()
    outcome = controller.alter_partition_reassignments({("t", 0): None})
    assert answers(outcome) == ["NO_REASSIGNMENT_IN_PROGRESS"]
    assert controller.list_partition_reassignments().num_rows == 0


def test_the_next_write_of_the_topic_writes_all_of_it():
    """Section 6.7, phase U: the whole topic is rewritten; then nothing is left to restore."""
    controller = last_write_failed()
    assert answers(reassign(controller, 3, 2)) == ["STARTED"]
    assert not controller.state.unwritten_assignments
    controller.on_controller_failover()
    assert controller.state.assignment(0).replicas == (3, 2)


def test_going_on_after_the_last_write_failed_ends_it():
    """Section 6.7: complete, so B1 to B8 again; the store gets {TRS}."""
    controller = last_write_failed()
    outcome = controller.on_partition_reassignment([0])
    assert (outcome.error, is_being_reassigned(controller.state)) == (None, False)
    assert moves(outcome) == []
    assert not controller.state.unwritten_assignments


# --- several partitions -------------------------------------------------------------------------


def test_each_partition_of_a_request_fails_by_itself():
    """Section 6.7: any other exception while working is that partition's error."""
    controller = run(TWO)
    controller.store.fail("update_states", "throw", [("t", 0)])
    outcome = controller.alter_partition_reassignments({("t", 1): [3, 1], ("t", 0): [3, 1]})
    assert answers(outcome) == ["STARTED", "UNKNOWN_SERVER_ERROR"]
    assert [controller.state.leadership(row).leader_epoch for row in (0, 1)] == [7, 8]


@pytest.mark.parametrize("start", ["broker", "controller", "rows"])
def test_one_that_cannot_go_on_ends_the_event(start):
    """Section 6.0: what a handler raises ends it; partitions behind it are not looked at."""
    controller = run(TWO, down=[3] if start == "broker" else [])
    controller.store.fail("update_states", "throw", [("t", 0)])
    outcome = {
        "broker": lambda: controller.on_broker_startup([3]),
        "controller": controller.on_controller_failover,
        "rows": lambda: controller.on_partition_reassignment(np.array([1, 0])),
    }[start]()
    assert outcome.error == "StoreError"
    assert controller.active == (start != "controller")
    assert [controller.state.leadership(row).leader_epoch for row in (0, 1)] == [7, 7]


@pytest.mark.parametrize("operation", ["write_assignments", "update_states"])
def test_another_controller_ends_it(operation):
    """Sections 6.0 and 6.7: ControllerMoved is rethrown, and this controller resigns."""
    controller, outcome = begun(operation, "controller_moved")
    assert (outcome.failure, controller.active) == (Code.CONTROLLER_MOVED, False)
    assert controller.store.get("t", 0).leader_epoch == 7


def test_another_controller_is_met_at_the_shrink():
    """Section 2.6: it propagates out of `handle`, and out of phase B."""
    controller = run(IN_SYNC.replace("4,5  3  ", "4,5  1  "))
    controller.store.fail("update_states", "BADVERSION")
    controller.store.elect_controller()
    outcome = controller.on_partition_reassignment([0])
    assert (outcome.failure, controller.active) == (Code.CONTROLLER_MOVED, False)


def test_a_partition_that_fails_in_the_node_fails_the_new_controller():
    """Section 6.1, step 9: p is being reassigned by then and not handled, so it is resumed."""
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        5,6  -    -       -
        t-1        1,2  1,2  1       7
    """, down=[5, 6])
    controller = Controller(state)
    asked = {("t", 0): [6, 5], ("t", 1): [2, 1]}
    outcome = controller.on_controller_failover(reassignments=asked)
    assert (outcome.error, controller.active) == ("NoSuchElement", False)
    assert state.assignment(1).replicas == (2, 1)
