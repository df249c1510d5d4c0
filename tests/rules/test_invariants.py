"""The rules of section 9 can fail: each is broken on purpose once, and says so.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from kfast import ClusterState, Controller, PartitionState, PartitionStateMachine, Strategy
from kfast.errors import InvariantError
from kfast.schema import TOPIC_STARTED
from kfast.testing import invariants


def small_state() -> ClusterState:
    """Three brokers, one topic with two partitions, the controller started."""
    brokers = pa.table({"broker_id": [1, 2, 3]})
    topics = pa.table({"topic": ["t"]})
    partitions = pa.table({
        "topic": ["t", "t"], "partition": pa.array([0, 1], pa.int32()),
        "replicas": pa.array([[1, 2, 3], [2, 3, 1]], pa.list_(pa.int32())),
    })
    state = ClusterState.from_tables(brokers, topics, partitions)
    Controller(state).on_controller_failover()
    return state


@dataclass
class Told:
    """An outcome whose tables a test has changed."""

    outcome: object
    changed: dict[str, pa.Table] = field(default_factory=dict)

    def __getattr__(self, name):
        return self.changed[name] if name in self.changed else getattr(self.outcome, name)


def with_row(table: pa.Table, at: int, **values) -> pa.Table:
    """A table in which some values of one row are others."""
    rows = table.to_pylist()
    rows[at] |= values
    return pa.Table.from_pylist(rows, table.schema)


def failure():
    """Broker 1 fails: the state before, the state after, and the full journal."""
    state = small_state()
    before = state.copy()
    outcome = Controller(state, journal="full").on_broker_failure([1])
    return before, state, outcome


def test_nothing_is_broken_by_a_failure():
    before, after, outcome = failure()
    invariants.check(after)
    invariants.check_step(before, after, outcome)


@pytest.mark.parametrize(("number", "values"), [
    (5, {"isr": [2, 3, 9], "isr_before": [1, 2, 3]}),
    (6, {"unclean": True, "leader": 9, "isr": [9], "recovery": 0}),
    (6, {"unclean": True, "isr": [2, 3]}),
    (7, {"leader": 9, "isr": [9]}),
    (10, {"code": "NO_ELIGIBLE_LEADER"}),
])
def test_an_election_that_breaks_a_rule_is_named(number, values):
    before, after, outcome = failure()
    told = Told(outcome, {"elections": with_row(outcome.elections, 0, **values)})
    with pytest.raises(InvariantError, match=f"invariant {number}"):
        invariants.check_step(before, after, told)


def test_an_election_of_a_queued_topic_is_named():
    before, after, outcome = failure()
    for state in (before, after):
        state.queue_topic_deletion(["t"])
    with pytest.raises(InvariantError, match="invariant 14"):
        invariants.check_step(before, after, outcome)


def test_a_request_to_a_broker_that_is_gone_is_named():
    before, after, outcome = failure()
    told = Told(outcome, {"requests": with_row(outcome.requests, 0, broker_epoch=99)})
    with pytest.raises(InvariantError, match="invariant 15"):
        invariants.check_step(before, after, told)


def test_a_change_to_what_a_newer_controller_wrote_is_named():
    before, after, outcome = failure()
    for state in (before, after):
        state.records["controller_epoch"][:] = 5
    with pytest.raises(InvariantError, match="invariant 9"):
        invariants.check_step(before, after, outcome)


@pytest.mark.parametrize(("number", "column", "value"), [
    (2, "leader_epoch", -1), (4, "isr", 0), (3, "leader", 0),
])
def test_a_record_that_breaks_a_rule_is_named(number, column, value):
    before, after, outcome = failure()
    if number == 4:
        after.records["leader"][0] = -1
    after.records[column][0] = value
    with pytest.raises(InvariantError, match=f"invariant {number}"):
        invariants.check_step(before, after, outcome)


@pytest.mark.parametrize(("number", "counter"), [
    (11, "offline_partition_count"), (12, "preferred_imbalance_count"),
])
def test_a_counter_that_does_not_count_is_named(number, counter):
    state = small_state()
    setattr(state, counter, 7)
    with pytest.raises(InvariantError, match=f"invariant {number}"):
        invariants.check(state)
    if number == 11:
        invariants.check(state, offline=False)


def test_a_started_topic_that_is_not_queued_is_named():
    state = small_state()
    state.topic_flags |= np.uint8(TOPIC_STARTED)
    with pytest.raises(InvariantError, match="invariant 13"):
        invariants.check(state, offline=False)


def brought_online(strategy=Strategy.OFFLINE):
    """One partition is New, one Online: both are brought Online."""
    state = small_state()
    state.set_partition_state(0, PartitionState.NEW)
    before, rows = state.copy(), np.array([1, 0], np.int32)
    outcome = PartitionStateMachine(state).handle_state_changes(
        rows, PartitionState.ONLINE, strategy
    )
    return before, rows, outcome


def test_a_result_map_with_a_wrong_partition_is_named():
    """Rule 22; a call that failed as a whole has its own map."""
    before, rows, outcome = brought_online()
    assert outcome.in_result.tolist() == [True, False]
    invariants.check_call(before, rows, outcome)
    invariants.check_call(before, rows, brought_online(None)[2])
    outcome.in_result = ~outcome.in_result
    with pytest.raises(InvariantError, match="invariant 22"):
        invariants.check_call(before, rows, outcome)


@pytest.mark.parametrize("column", ["leader_epoch", "version", "partition_state"])
def test_a_trigger_that_writes_what_is_online_is_named(column):
    """Rule 23: the second time it has nothing to do."""
    state = small_state()
    Controller(state).on_broker_failure([1, 2])
    before = state.copy()
    for _ in range(2):
        outcome = PartitionStateMachine(state).trigger_online_partition_state_change()
        invariants.check_step(before, state, outcome)
        assert state == before
    state.records[column][0] += 1
    with pytest.raises(InvariantError, match="invariant 23"):
        invariants.check_step(before, state, outcome)
