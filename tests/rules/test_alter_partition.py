"""Leaders change ISRs: AlterPartition requests, catching up, and notifications.

Source: docs/controller.md, section 6.10.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import AlterCode, ArgumentError, Controller, RowError, Store
from tests.support.states import read_state

LED = """
    partition  ar         isr  leader  epoch  version  recovery  state
    t-0        1,2,3,4,5  1,2  1       7      4        0         ONLINE
    t-1        1,2        -    -       -      0        0         NEW
    t-2        1,2,3      1    1       7      4        1         ONLINE
"""


def rows(*numbers):
    """Partition rows."""
    return np.array(numbers, np.int32)


def led(**options):
    """Broker 4 is down, broker 5 shuts down, broker 1 has epoch 6."""
    return read_state(LED, down=[4], shutting_down=[5], epochs={1: 6, 3: 8}, **options)


# --- AlterPartition (section 6.10) --------------------------------------------------------------

A = AlterCode
TABLE = (
    ("1", 1, {}, A.UNKNOWN_TOPIC_OR_PARTITION),
    ("2", 0, {"version": 5}, A.NOT_CONTROLLER),
    ("2", 0, {"leader_epoch": 8}, A.NOT_CONTROLLER),
    ("3", 0, {"leader_epoch": 6}, A.FENCED_LEADER_EPOCH),
    ("4", 0, {}, A.UNCHANGED),
    ("4, stale version", 0, {"version": 2}, A.UNCHANGED),
    ("4, as a set", 0, {"isr": [[2, 1]]}, A.UNCHANGED),
    ("5", 0, {"version": 3, "isr": [[1]]}, A.INVALID_UPDATE_VERSION),
    ("6", 2, {"isr": [[1, 2]], "recovery": 1}, A.INVALID_REQUEST),
    ("7", 0, {"isr": [[1]], "recovery": 1}, A.INVALID_REQUEST),
    ("8, dead", 0, {"isr": [[1, 4]]}, A.INELIGIBLE_REPLICA),
    ("8, shutting down", 0, {"isr": [[1, 5]]}, A.INELIGIBLE_REPLICA),
    ("8, unknown", 0, {"isr": [[1, 77]]}, A.INELIGIBLE_REPLICA),
    ("9", 0, {"isr": [[1, 2, 3]]}, A.WRITTEN),
    ("9, recovered", 2, {"isr": [[1, 2]]}, A.WRITTEN),
    ("9, empty", 0, {"isr": [[]]}, A.WRITTEN),
)


@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize(("line", "row", "asked", "answer"), TABLE)
def test_every_row_of_the_table(line, row, asked, answer, with_store):
    """Section 6.10: version rises by 1, the leader epoch never."""
    state = led()
    controller = Controller(state, store=Store(state) if with_store else None)
    before = [state.leadership(r) for r in range(3)]
    proposal = {"leader_epoch": 7, "isr": [[1, 2]], "version": 4, "recovery": 0, **asked}
    outcome = controller.alter_partition(1, 6, rows(row), **proposal)
    assert outcome.alterations() == [answer]
    after = state.leadership(row)
    if answer == AlterCode.WRITTEN:
        assert set(after.isr) == set(proposal["isr"][0])
        assert (after.leader, after.leader_epoch, after.version) == (1, 7, 5)
        assert after.recovery == proposal["recovery"]
    else:
        assert after == before[row]
    assert [state.leadership(r) for r in range(3) if r != row] == [
        before[r] for r in range(3) if r != row
    ]


def test_the_sender_becomes_the_leader():
    """Section 6.10, note: equality of the leader epoch is trusted."""
    state = led()
    outcome = Controller(state).alter_partition(3, 8, rows(0), 7, [[1, 2]], 4)
    assert outcome.alterations() == [AlterCode.WRITTEN]
    assert state.leadership(0).leader == 3


@pytest.mark.parametrize(("broker", "epoch"), [(1, 5), (1, 7), (4, 0), (99, 0)])
def test_a_sender_needs_its_own_epoch(broker, epoch):
    """Section 6.10, whole-request checks."""
    state = led()
    before = state.copy()
    outcome = Controller(state).alter_partition(broker, epoch, rows(0), 7, [[1]], 4)
    assert outcome.error == "STALE_BROKER_EPOCH"
    assert state == before


def test_all_requested_known_partitions_are_announced():
    """Section 6.10, after the writes: also those that were refused."""
    state = led()
    outcome = Controller(state, journal="full").alter_partition(
        1, 6, rows(2, 0, 1), [7, 7, 7], [[1, 2], [1, 4], [1]], [4, 4, 0], [0, 0, 0]
    )
    assert outcome.alterations() == [
        AlterCode.WRITTEN, AlterCode.INELIGIBLE_REPLICA, AlterCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert outcome.update_metadata.column("partition").to_pylist() == [0, 2]
    assert outcome.update_metadata_brokers.column("broker_id").to_pylist() == [1, 2, 3, 5]


def test_a_conflict_in_the_store_is_an_invalid_version():
    """Section 6.10, row 9; any other error of one partition is mapped."""
    for fault, answer in (
        ("BADVERSION", AlterCode.INVALID_UPDATE_VERSION), ("NONODE", AlterCode.STORE_ERROR),
        ("throw", AlterCode.STORE_ERROR),
    ):
        state = led()
        store = Store(state)
        store.fail("update_states", fault)
        controller = Controller(state, store=store)
        outcome = controller.alter_partition(1, 6, rows(0), 7, [[1]], 4)
        assert outcome.alterations() == [answer]
        assert state.leadership(0).isr == store.get("t", 0).isr == (1, 2)


def test_any_exception_is_an_unknown_server_error():
    """Section 6.10: for the whole request; the controller stays active."""
    state = led()
    store = Store(state)
    store.elect_controller()
    controller = Controller(state, store=store)
    outcome = controller.alter_partition(1, 6, rows(0), 7, [[1]], 4)
    assert (outcome.error, controller.active) == ("UNKNOWN_SERVER_ERROR", True)


def test_wrong_arguments_are_refused():
    """A caller's mistake: raised before anything changes."""
    state = led()
    with pytest.raises(ArgumentError, match="isr has 2 lists for 1 partitions"):
        Controller(state).alter_partition(1, 6, rows(0), 7, [[1], [2]], 4)
    with pytest.raises(RowError):
        Controller(state).alter_partition(1, 6, rows(3), 7, [[1]], 4)


def test_a_queued_topic_may_alter_its_isr():
    """Section 6.10 knows no deletion; the marker goes out (section 5.2)."""
    state = led(queued=["t"])
    outcome = Controller(state, journal="full").alter_partition(1, 6, rows(0), 7, [[1]], 4)
    assert outcome.alterations() == [AlterCode.WRITTEN]
    entry = outcome.update_metadata.to_pylist()[0]
    assert (entry["leader"], entry["leader_epoch"], entry["isr"]) == (-2, 0, [1])


# --- catching up --------------------------------------------------------------------------------


def test_notified_isr_changes_are_read_from_the_store():
    """Section 6.10, legacy path: reload, then announce those partitions."""
    state = led()
    store = Store(state)
    store.put("t", 0, leader=1, leader_epoch=7, isr=[1], version=5, controller_epoch=3)
    outcome = Controller(state, store=store, journal="full").on_isr_change_notification(rows(0))
    assert (state.leadership(0).isr, state.leadership(0).version) == ((1,), 5)
    assert outcome.update_metadata.column("isr").to_pylist() == [[1]]
