"""Reassignment before Kafka 2.4: targets kept apart, no cancelling, no lists of added replicas.

The controller of those versions knows where a partition is to go from the reassignment node alone;
an assignment is one list. Partitions go one by one, each step as the version before took it.

Source: docs/controller.md, section 8.1; Kafka 2.0,
`KafkaController.maybeTriggerPartitionReassignment` and `onPartitionReassignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.controllers.zk import topic_deletion
from kfast.controllers.zk.reassignment_steps import (
    move,
    move_leaders,
    name_of,
    read_records,
    stop_removed,
    touch,
    write_assignment,
)
from kfast.controllers.zk.results import EventFailed
from kfast.kernels import reassign
from kfast.schema import ReassignmentCode, ReplicaState
from kfast.state import mutators
from kfast.state.records import Rows, Slots

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.state import ClusterState


def start_legacy(
    controller: Controller, rows: Rows, lists: list[list[int]], codes: npt.NDArray[np.uint8]
) -> None:
    """Take partitions from the node and start them, in order; `codes` says what became of each.

    Rows of -1 are unknown partitions.
    """
    state = controller.state
    for row, targets in zip(rows.tolist(), lists, strict=True):
        if row >= 0:
            _keep(state, row, targets)
    for at, row in enumerate(rows.tolist()):
        codes[at] = _start(controller, row)
        if row >= 0 and codes[at] != ReassignmentCode.STARTED:
            _drop(state, row)


def load_node(state: ClusterState, rows: Rows, lists: list[list[int]]) -> None:
    """Take targets from the node into the context, beside those that were under way."""
    for row, targets in zip(rows.tolist(), lists, strict=True):
        if row >= 0:
            state.reassignment_targets[row] = tuple(targets)


def mark_waiting(state: ClusterState) -> None:
    """Mark the partitions whose targets the context has."""
    for row, targets in list(state.reassignment_targets.items()):
        _keep(state, row, list(targets))


def resume_legacy(controller: Controller) -> None:
    """Go on with everything that the node holds (section 6.1, step 9)."""
    waiting = controller.state.reassignment_targets
    rows = np.asarray(sorted(waiting), np.int32)
    codes = np.zeros(rows.size, np.uint8)
    start_legacy(controller, rows, [list(waiting[row]) for row in rows.tolist()], codes)


def _start(controller: Controller, row: int) -> ReassignmentCode:
    state = controller.state
    if row < 0 or state.topic_queued_for_deletion[state.topic_row[row]]:
        return ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    assigned = state.assignment(row).replicas
    if not assigned:
        return ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    if assigned == state.reassignment_targets[row]:
        return ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS
    state.mark_topics_ineligible(state.topic_row[row : row + 1])
    try:
        reassign_legacy(controller, row)
    except EventFailed:
        return ReassignmentCode.UNKNOWN_SERVER_ERROR
    return ReassignmentCode.STARTED


def _keep(state: ClusterState, row: int, targets: list[int]) -> None:
    state.reassignment_targets[row] = tuple(targets)
    state.records["flags"][row] |= schema.FLAG_BEING_REASSIGNED
    state.n_reassigned = len(state.reassignment_targets)


def _drop(state: ClusterState, row: int) -> None:
    state.reassignment_targets.pop(row, None)
    state.records["flags"][row] &= 255 - schema.FLAG_BEING_REASSIGNED
    state.n_reassigned = len(state.reassignment_targets)


def reassign_legacy(controller: Controller, row: int) -> None:
    """Begin or complete one reassignment; what Kafka's handler would raise, this raises."""
    controller.state.forget_survey()
    if row not in controller.state.reassignment_targets:
        raise EventFailed("NoSuchElement")
    try:
        if is_complete_legacy(controller, row):
            _complete(controller, row)
        else:
            _begin(controller, row)
    finally:
        controller.journal.prefix = ""


def is_complete_legacy(controller: Controller, row: int) -> bool:
    """Whether all targets are in the ISR of the stored record."""
    state = controller.state
    at = np.asarray([row], np.int32)
    targets = _slots(state, row, state.reassignment_targets[row])
    known, isr = read_records(controller, at)
    return bool(known[0]) and not int(targets[0]) & ~int(isr[0])


def _slots(state: ClusterState, row: int, broker_ids: tuple[int, ...]) -> Slots:
    """Slots of some brokers in a row, as one mask; who has none gets one."""
    brokers = mutators.add_brokers(state, broker_ids)
    slots = mutators.track(state, np.full(brokers.size, row, np.int32), brokers)
    return np.asarray([sum(1 << int(slot) for slot in slots)], np.uint64)


def _assign(controller: Controller, row: int, replicas: tuple[int, ...]) -> None:
    """Set an assignment in memory, and then write it."""
    state = controller.state
    state.unwritten_assignments.setdefault(row, state.assignment(row))
    state.set_assignment(row, replicas)
    write_assignment(controller, row)


def _begin(controller: Controller, row: int) -> None:
    """Assign old and new replicas, bump the epoch, start the new replicas."""
    state, at = controller.state, np.asarray([row], np.int32)
    assigned, targets = state.assignment(row).replicas, state.reassignment_targets[row]
    _assign(controller, row, tuple(dict.fromkeys((*targets, *assigned))))
    touch(controller, "A1", at)
    for broker in targets:
        if broker not in assigned:
            move(controller, "A2", ReplicaState.NEW, at, _slots(state, row, (broker,)))


def _complete(controller: Controller, row: int) -> None:
    """The targets take over, and the others go."""
    state, at = controller.state, np.asarray([row], np.int32)
    targets = state.reassignment_targets[row]
    for broker in targets:
        move(controller, "B1", ReplicaState.ONLINE, at, _slots(state, row, (broker,)))
    others = _assign_targets(controller, at, targets)
    move_leaders(controller, at, others)
    stop_removed(controller, "B4", at, others)
    _assign(controller, row, targets)
    _drop(state, row)
    controller.journal.prefix = "B8: "
    controller.send_update_metadata("announce the assignment", state.registered, at)
    controller.journal.prefix = ""
    with controller.journal.within(f"reassignment of {name_of(state, row)}"):
        topic_deletion.resume_deletion_for(controller, state.topic_row[at])


def _assign_targets(controller: Controller, row: Rows, targets: tuple[int, ...]) -> Slots:
    """Make the targets the assignment, in memory; returns the slots of the others, in order."""
    state, tally = controller.state, controller.journal.new_tally()
    state.unwritten_assignments.setdefault(int(row[0]), state.assignment(int(row[0])))
    brokers = mutators.add_brokers(state, targets)
    mutators.track(state, np.repeat(row, brokers.size), brokers)
    columns = state.columns
    others = np.empty(1, np.uint64)
    offsets = np.asarray([0, brokers.size], np.int32)
    state.forget_survey()
    reassign.start_reassignments(columns, row, offsets, brokers, others, tally)
    reassign.assign_targets(columns, row, others, tally)
    controller.journal.take_counters(tally)
    return others
