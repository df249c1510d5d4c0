"""A partition moves to other brokers, phase by phase.

Kafka runs one partition after the other. Rows are independent, so many partitions go through each
phase together, with a batch of requests for each; only where a partition could fail half way, or
its topic is queued for deletion, or a store is asked, they go one by one.

Source: specification, sections 6.6 and 6.7; Kafka 3.9, `KafkaController.onPartitionReassignment`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.conversation import Talk
from kfast.events import deletion
from kfast.kernels import hosting, reassign
from kfast.results import EventFailed
from kfast.schema import Code, PartitionState, ReplicaState, Strategy
from kfast.state import Replicas, mutators
from kfast.state.records import Rows, Slots
from kfast.store import Answer, CallFailed, Store

if TYPE_CHECKING:
    from kfast.controller import Controller
    from kfast.state import ClusterState

STOPPED = (
    ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
"""States that a removed replica goes through, one call each."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Targets:
    """Where some rows are to go: a list of broker ids for each.

    Parameters
    ----------
    offsets : (n+1,) int32
        Where each row's list begins.
    broker_ids : (m,) int32
    """

    offsets: Rows
    broker_ids: Rows

    def of(self, chosen: npt.NDArray[np.int64]) -> Targets:
        """The lists at some places, in their order."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.zeros(chosen.size + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        at = np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Targets(offsets, self.broker_ids[at])


def on_partition_reassignment(
    controller: Controller, rows: Rows, targets: Targets | None = None, *,
    end_at_error: bool = False,
) -> dict[int, str]:
    """`onPartitionReassignment` of section 6.7 for some ascending rows.

    Returns the class of the error, by row, where Kafka's handler would have raised one; with
    `end_at_error`, the rows behind the first such row are not looked at.
    """
    safe = _cannot_fail(controller, rows)
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
    return failures


def _cannot_fail(controller: Controller, rows: Rows) -> Mask:
    """Which rows no step can raise for, so that they need not go one by one."""
    state = controller.state
    safe = np.zeros(rows.size, np.uint8)
    if controller.store is None:
        reassign.check_safe(
            state.records, state.topic_row, state.topic_flags, rows, state.controller_epoch, safe
        )
    found: Mask = safe != 0
    return found


def _reassign(controller: Controller, rows: Rows, targets: Targets | None) -> None:
    state = controller.state
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
    reassign.start_reassignments(
        state.records, state.replicas, state.replica_state, state.topic_row, state.topic_flags,
        rows, targets.offsets, brokers, dropped, tally,
    )
    _forget_orders(state, rows)
    controller.journal.take_counters(tally)
    _stop_removed(controller, "U", rows, dropped)


def _write_changed(controller: Controller, rows: Rows, targets: Targets) -> None:
    """Write the new assignments that differ from the cached ones."""
    state = controller.state
    lists = np.split(targets.broker_ids, targets.offsets[1:-1])
    for row, wanted in zip(rows.tolist(), lists, strict=True):
        current = state.assignment(row)
        if current.reassign_to(wanted.tolist()) != current:
            _write_assignment(controller, row)


def _write_assignment(controller: Controller, row: int) -> None:
    """Write the topic's assignments as they are in memory, all of them."""
    state, store = controller.state, controller.store
    if store is not None:
        try:
            store.write_assignments(np.asarray([row], np.int32))
        except CallFailed as failed:
            raise EventFailed("IllegalState") from failed
    topic = state.topic_row[row]
    for other in [r for r in state.unwritten_assignments if state.topic_row[r] == topic]:
        del state.unwritten_assignments[other]


def _forget_orders(state: ClusterState, rows: Rows) -> None:
    """The adding and removing lists are in the order of the assignment again."""
    for key in [key for key in state.odd_orders if key[1] in rows]:
        del state.odd_orders[key]


def is_complete(controller: Controller, rows: Rows) -> Mask:
    """Step 3: nothing to move, or the record's ISR has all targets."""
    state, store = controller.state, controller.store
    stored, answers = state.records[:0], np.empty(0, np.uint8)
    if store is not None:
        try:
            answers, stored = store.read_states(rows)
        except CallFailed as failed:
            raise EventFailed("StoreError") from failed
        if (answers == Answer.ERROR).any():
            raise EventFailed("StoreError")
    complete = np.empty(rows.size, np.uint8)
    reassign.check_complete(
        state.records, rows, stored, (answers == Answer.OK).astype(np.uint8), complete
    )
    found: Mask = complete != 0
    return found


def _begin(controller: Controller, rows: Rows) -> None:
    """Phase A: bump the epoch, and start the replicas that are added, one call each."""
    state = controller.state
    _touch(controller, "A1", rows)
    left = state.records["adding"][rows].astype(np.uint64)
    while left.any():
        first = left & (~left + np.uint64(1))
        some = first != 0
        _move(controller, "A2", ReplicaState.NEW, rows[some], first[some])
        left &= ~first


def _complete(controller: Controller, rows: Rows) -> None:
    """Phase B: the targets take over, and those that are removed go."""
    state, store = controller.state, controller.store
    added = state.records["adding"][rows].astype(np.uint64)
    _move(controller, "B1", ReplicaState.ONLINE, rows[added != 0], added[added != 0])
    for row in rows.tolist() if store is not None or rows.size == 1 else ():
        state.unwritten_assignments.setdefault(row, state.assignment(row))
    removed, tally = np.empty(rows.size, np.uint64), controller.journal.new_tally()
    reassign.assign_targets(
        state.records, state.replicas, state.replica_state, state.topic_row, state.topic_flags,
        rows, removed, tally,
    )
    _forget_orders(state, rows)
    controller.journal.take_counters(tally)
    _move_leaders(controller, rows)
    _stop_removed(controller, "B4", rows, removed)
    for row in rows.tolist() if store is not None or state.unwritten_assignments else ():
        _write_assignment(controller, row)
    state.records["flags"][rows] &= 255 - schema.FLAG_BEING_REASSIGNED
    state.n_reassigned -= rows.size
    controller.journal.prefix = "B8: "
    controller.send_update_metadata("announce the assignment", state.registered, rows)
    controller.journal.prefix = ""
    if state.any_queued:
        deletion.resume_deletion_for(controller, np.unique(state.topic_row[rows]))


def _move_leaders(controller: Controller, rows: Rows) -> None:
    """Step B3: leaders that are not among the targets, or not online, give way."""
    state = controller.state
    if not (state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP).all():
        raise EventFailed("NoSuchElement")
    slots, live = np.empty(rows.size, np.int32), np.empty(rows.size, np.uint64)
    leaders = np.ascontiguousarray(state.records["leader"][rows])
    hosting.find_slots(state.records, state.replicas, rows, leaders, slots)
    hosting.live_slots(
        state.records, state.replicas, state.broker_status, rows, live, np.empty_like(live)
    )
    place = np.where(slots < 0, 0, slots).astype(np.uint64)
    is_target = (slots >= 0) & (slots < state.records["n_replicas"][rows])
    stays = is_target & (((live >> place) & np.uint64(1)) != 0)
    controller.journal.prefix = "B3: "
    machine = controller.partition_state_machine
    if not stays.all():
        controller.checked(
            machine.run(rows[~stays], PartitionState.ONLINE, Strategy.REASSIGN)
        )
    if stays.any():
        _touch(controller, "B3", rows[stays])


def _touch(controller: Controller, phase: str, rows: Rows) -> None:
    """`touch` of section 6.6: raise leader epochs, and tell all replicas."""
    state, journal = controller.state, controller.journal
    codes, tally = np.empty(rows.size, np.uint8), journal.new_tally()
    effects = journal.new_effects(2 * rows.size)
    if controller.store is not None:
        for row in rows:
            _raise_stored(controller, controller.store, row)
    n_effects = reassign.touch(
        state.records, state.replicas, state.topic_row, state.topic_flags, rows,
        state.controller_epoch, controller.store is not None, True, codes, effects, tally,
    )
    failed = codes != Code.MOVED
    if failed.any():
        raise EventFailed("IllegalState" if codes[failed][0] == Code.NO_RECORD
                          else "StateChangeFailed")
    journal.prefix = f"{phase}: "
    journal.add_step("raise the leader epoch", tally, effects[:n_effects], replicas=False)


def _raise_stored(controller: Controller, store: Store, row: int) -> None:
    """Steps 1 and 2 of section 6.6 with a store: raise a stored epoch, cache the record."""
    state, journal = controller.state, controller.journal
    rows = np.asarray([row], np.int32)
    retry = True
    while retry:
        store.make_known(rows)
        talk = Talk(state, store, journal.new_tally(), controller.profile)
        codes, stored = talk.read(rows)
        if codes[0] == Code.MOVED:
            stored["leader_epoch"] += 1
            retry = bool(talk.write(rows, stored, codes, np.ones(1, np.bool_))[0])
        if codes[0] != Code.MOVED:
            errors = {Code.NO_RECORD: "IllegalState", Code.NEWER_CONTROLLER: "StateChangeFailed"}
            raise EventFailed(errors.get(Code(int(codes[0])), "StoreError"))
    talk.adopt(rows, stored)
    journal.take_counters(talk.tally)


def _stop_removed(controller: Controller, phase: str, rows: Rows, slots: Slots) -> None:
    """`stop_removed` of section 6.7; its deletion is taken to succeed."""
    some = slots != 0
    for target in STOPPED if some.any() else ():
        _move(controller, phase, target, rows[some], slots[some])


def _move(
    controller: Controller, phase: str, target: ReplicaState, rows: Rows, slots: Slots
) -> None:
    """One call of the replica machine for some slots of some rows."""
    controller.journal.prefix = f"{phase}: "
    machine = controller.replica_state_machine
    controller.checked(machine.run(Replicas(rows, slots), target))
