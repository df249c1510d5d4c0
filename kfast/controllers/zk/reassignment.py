"""A partition moves to other brokers, phase by phase.

Kafka runs one partition after the other. Rows are independent, so many partitions go through each
phase together, with a batch of requests for each; only where a partition could fail half way, or
its topic is queued for deletion, or a store is asked, they go one by one.

Source: docs/controller.md, sections 6.6 and 6.7; Kafka 3.9,
`KafkaController.onPartitionReassignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kfast import schema
from kfast.controllers.zk import topic_deletion
from kfast.controllers.zk.reassignment_steps import (
    Mask,
    Targets,
    forget_orders,
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
from kfast.schema import ReplicaState
from kfast.state import mutators
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller


def on_partition_reassignment(
    controller: Controller, rows: Rows, targets: Targets | None = None, *,
    end_at_error: bool = False,
) -> dict[int, str]:
    """`onPartitionReassignment` of section 6.7 for some ascending rows.

    Returns the class of the error, by row, where Kafka's handler would have raised one; with
    `end_at_error`, the rows behind the first such row are not looked at.
    """
    safe = cannot_fail(controller, rows)
    if end_at_error and not safe.all():
        safe[:] = False
    together = np.flatnonzero(safe)
    if together.size:
        with controller.journal.batch_for_each_partition():
            _reassign(controller, rows[together], targets and targets.of(together))
    failures: dict[int, str] = {}
    for at in np.flatnonzero(~safe):
        one = np.asarray([at])
        try:
            _reassign(controller, rows[one], targets and targets.of(one))
        except EventFailed as failed:
            failures[int(rows[at])] = failed.error
            if end_at_error:
                break
        finally:
            controller.journal.prefix = ""
    return failures


def cannot_fail(controller: Controller, rows: Rows) -> Mask:
    """Which rows no step can raise for, so that they need not go one by one."""
    state = controller.state
    safe = np.zeros(rows.size, np.uint8)
    if controller.store is None:
        reassign.check_safe(state.columns, rows, state.controller_epoch, safe)
    found: Mask = safe != 0
    return found


def _reassign(controller: Controller, rows: Rows, targets: Targets | None) -> None:
    state = controller.state
    state.forget_survey()
    if state.any_queued:
        state.mark_topics_ineligible(np.unique(state.topic_row[rows]))
    if targets is not None:
        _update_assignments(controller, rows, targets)
    flags = state.records["flags"]
    state.n_reassigned += int(np.count_nonzero((flags[rows] & schema.FLAG_BEING_REASSIGNED) == 0))
    flags[rows] |= schema.FLAG_BEING_REASSIGNED
    done = is_complete(controller, rows)
    if not done.all():
        _begin(controller, rows[~done])
    if done.any():
        _complete(controller, rows[done])


def _update_assignments(controller: Controller, rows: Rows, targets: Targets) -> None:
    """Phase U: the assignments with which reassignments begin; who falls out is stopped."""
    state = controller.state
    if controller.store is not None or state.unwritten_assignments:
        _write_changed(controller, rows, targets)
    brokers = mutators.add_brokers(state, targets.broker_ids)
    owner = np.repeat(rows, np.diff(targets.offsets)).astype(np.int32)
    mutators.track(state, owner, brokers)
    dropped, tally = np.empty(rows.size, np.uint64), controller.journal.new_tally()
    reassign.start_reassignments(state.columns, rows, targets.offsets, brokers, dropped, tally)
    forget_orders(state, rows)
    controller.journal.take_counters(tally)
    stop_removed(controller, "U", rows, dropped)


def _write_changed(controller: Controller, rows: Rows, targets: Targets) -> None:
    """Write the new assignments that differ from the cached ones."""
    state = controller.state
    for row, wanted in zip(rows.tolist(), targets.lists(), strict=True):
        current = state.assignment(row)
        if current.reassign_to(wanted) != current:
            write_assignment(controller, row)


def is_complete(controller: Controller, rows: Rows) -> Mask:
    """Step 3: nothing to move, or the record's ISR has all targets."""
    state = controller.state
    known, isr = np.empty(0, np.uint8), np.empty(0, np.uint64)
    complete = np.empty(rows.size, np.uint8)
    if controller.store is not None:
        known, isr = np.zeros(rows.size, np.uint8), np.zeros(rows.size, np.uint64)
        moving = (state.records["adding"][rows] != 0) | (state.records["removing"][rows] != 0)
        if moving.any():
            known[moving], isr[moving] = read_records(controller, rows[moving])
    reassign.check_complete(state.columns, rows, known, isr, complete)
    found: Mask = complete != 0
    return found


def _begin(controller: Controller, rows: Rows) -> None:
    """Phase A: bump the epoch, and start the replicas that are added, one call each."""
    state = controller.state
    touch(controller, "A1", rows)
    left = state.records["adding"][rows].astype(np.uint64)
    while left.any():
        first = left & (~left + np.uint64(1))
        some = first != 0
        move(controller, "A2", ReplicaState.NEW, rows[some], first[some])
        left &= ~first


def _complete(controller: Controller, rows: Rows) -> None:
    """Phase B: the targets take over, and those that are removed go."""
    state, store = controller.state, controller.store
    state.forget_survey()
    added = state.records["adding"][rows].astype(np.uint64)
    move(controller, "B1", ReplicaState.ONLINE, rows[added != 0], added[added != 0])
    for row in rows.tolist() if store is not None or rows.size == 1 else ():
        state.unwritten_assignments.setdefault(row, state.assignment(row))
    removed, tally = np.empty(rows.size, np.uint64), controller.journal.new_tally()
    reassign.assign_targets(state.columns, rows, removed, tally)
    forget_orders(state, rows)
    controller.journal.take_counters(tally)
    move_leaders(controller, rows)
    stop_removed(controller, "B4", rows, removed)
    for row in rows.tolist() if store is not None or state.unwritten_assignments else ():
        write_assignment(controller, row)
    state.records["flags"][rows] &= 255 - schema.FLAG_BEING_REASSIGNED
    state.n_reassigned -= rows.size
    controller.journal.prefix = "B8: "
    controller.send_update_metadata("announce the assignment", state.registered, rows)
    controller.journal.prefix = ""
    if state.any_queued:
        topics = np.unique(state.topic_row[rows])
        with controller.journal.within(f"reassignment of {name_of(state, rows[0])}"):
            topic_deletion.resume_deletion_for(controller, topics)
