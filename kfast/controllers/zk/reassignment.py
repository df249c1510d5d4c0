"""Partitions move to other brokers: who asks for it, when it goes on, and what each phase does.

Kafka runs one partition after the other. Rows are independent, so many partitions go through each
phase together, with a batch of requests for each; only where a partition could fail half way, or
its topic is queued for deletion, or a store is asked, they go one by one.

Before Kafka 2.4 the controller knows where a partition is to go from the reassignment node alone:
targets are kept apart, an assignment is one list, and nothing is cancelled. There partitions go one
by one, each step as those versions took it.

Source: docs/controller.md, sections 6.6, 6.7 and 8.1; Kafka 3.9, `KafkaController`
(`processApiPartitionReassignment`, `processZkPartitionReassignment`,
`processListPartitionReassignments`, `maybeTriggerPartitionReassignment`,
`onPartitionReassignment`, `updateLeaderEpoch`, `moveReassignedPartitionLeaderIfRequired`,
`stopRemovedReplicasOfReassignedPartition`); Kafka 2.0,
`KafkaController.maybeTriggerPartitionReassignment` and `onPartitionReassignment`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.arguments import partition_keys
from kfast.controllers.reassignment_requests import (
    Reassignments,
    Requests,
    Targets,
    is_movable,
    parse,
)
from kfast.controllers.zk import topic_deletion
from kfast.controllers.zk.broker_groups import GroupOrder, exceeds_small_map
from kfast.controllers.zk.engine import ZkEngine
from kfast.controllers.zk.faults import EventFailed
from kfast.controllers.zk.profiles import UNSUPPORTED
from kfast.controllers.zk.store import CallFailed, Store, StoreAnswer
from kfast.controllers.zk.store_machines import StoreSession, copy_leadership
from kfast.journal import Outcome
from kfast.journal.effects import Effects
from kfast.kernels import hosting, reassign
from kfast.schema import (
    KIND_IS_NEW,
    REASSIGNMENTS,
    Code,
    PartitionState,
    ReassignmentCode,
    ReplicaState,
    Strategy,
)
from kfast.state import ClusterState, Replicas, mutators
from kfast.state.arrays import first_slots
from kfast.state.records import Rows, Slots
from kfast.state.tables import id_lists, ordered_lists, row_keys

STOPPED = (
    ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
"""States that a removed replica goes through, one call each."""

Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint8]


# --- events ----------------------------------------------------------------------------------


def alter_partition_reassignments(engine: ZkEngine, reassignments: Reassignments) -> Outcome:
    """Start, change or cancel reassignments (section 6.7, API call)."""
    state, event = engine.state, "alter_partition_reassignments"
    requests = parse(state, reassignments)
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    if not engine.profile.cancels_reassignments:
        return engine.refused(event, UNSUPPORTED)
    codes = np.zeros(requests.rows.size, np.uint8)
    codes[requests.cancel & ~_being_reassigned(state, requests.rows)] = (
        ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS
    )
    valid, alive = np.empty(codes.size, np.uint8), np.empty(codes.size, np.uint8)
    reassign.check_lists(requests.targets.offsets, requests.targets.broker_ids, valid)
    reassign.check_added(
        state.columns, requests.rows, requests.targets.offsets,
        state.broker_rows(requests.targets.broker_ids), alive,
    )
    wrong = ~requests.cancel & ((valid & alive) == 0)
    codes[wrong] = ReassignmentCode.INVALID_REPLICA_ASSIGNMENT
    return _trigger(engine, event, requests, codes)


def reassign_partitions(engine: ZkEngine, reassignments: Reassignments) -> Outcome:
    """The legacy reassignment node was created (section 6.7); no list is checked."""
    requests = parse(engine.state, reassignments, node=True)
    event = "reassign_partitions"
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    if not engine.profile.cancels_reassignments and engine.state.n_reassigned:
        return engine.refused(event, "REASSIGNMENT_IN_PROGRESS")
    return _trigger(engine, event, requests, np.zeros(requests.rows.size, np.uint8))


def on_partition_reassignment(engine: ZkEngine, rows: npt.ArrayLike) -> Outcome:
    """Go on with the reassignments of some rows, to the assignments they have (section 6.7)."""
    ordered = np.sort(engine.state.check_rows(rows))
    event = "on_partition_reassignment"
    return engine.attempt(event, lambda: continue_reassignments(engine, ordered))


def list_partition_reassignments(
    engine: ZkEngine, partitions: Sequence[tuple[str, int]] | None = None
) -> pa.Table:
    """Reassignments under way, of some partitions or of all."""
    state = engine.state
    if partitions is None:
        moving = state.records["flags"] & schema.FLAG_BEING_REASSIGNED
        rows = np.flatnonzero(moving).astype(np.int32)
    else:
        topics, numbers = partition_keys("partitions", partitions)
        rows = state.lookup.rows(state.lookup.topics(topics), numbers)
        rows = rows[rows >= 0]
    records = state.records.take(rows)
    rows = rows[(records["adding"] != 0) | (records["removing"] != 0)]
    records = state.records.take(rows)
    return REASSIGNMENTS.table({
        **row_keys(state, rows),
        "replicas": id_lists(state, rows, first_slots(records["n_replicas"])),
        "adding": ordered_lists(state, "adding", rows, records["adding"]),
        "removing": ordered_lists(state, "removing", rows, records["removing"]),
    })


# --- when they go on ---------------------------------------------------------------------------


def continue_reassignments(engine: ZkEngine, rows: Rows) -> None:
    """Go on with the reassignments of some ascending rows; the first error ends the event."""
    if not engine.profile.cancels_reassignments:
        for row in rows.tolist():
            _reassign_legacy(engine, row)
    elif rows.size:
        for error in start_or_continue(engine, rows, end_at_error=True).values():
            raise EventFailed(error)


def load_reassignment_node(engine: ZkEngine, node: Requests) -> None:
    """Step 4 of section 6.1: before 2.4 the node alone says what is being reassigned."""
    if not engine.profile.cancels_reassignments:
        for row, targets in zip(node.rows.tolist(), node.targets.lists(), strict=True):
            if row >= 0:
                engine.state.reassignment_targets[row] = tuple(targets)


def mark_reassigned(engine: ZkEngine) -> None:
    """Mark what the node says is being reassigned, as a new controller's context has it."""
    if not engine.profile.cancels_reassignments:
        for row, targets in list(engine.state.reassignment_targets.items()):
            _set_target(engine.state, row, targets)


def resume_reassignments(engine: ZkEngine, node: Requests) -> None:
    """Step 9 of section 6.1: the legacy node, then all others that are under way."""
    state = engine.state
    if not engine.profile.cancels_reassignments:
        waiting = state.reassignment_targets
        rows = np.asarray(sorted(waiting), np.int32)
        targets = [waiting[row] for row in rows.tolist()]
        _start_legacy(engine, rows, targets, np.zeros(rows.size, np.uint8))
        return
    codes = np.zeros(node.rows.size, np.uint8)
    maybe_trigger_partition_reassignment(engine, node, codes)
    if state.n_reassigned:
        flagged = np.flatnonzero(state.records["flags"] & schema.FLAG_BEING_REASSIGNED)
        handled = node.rows[codes == ReassignmentCode.STARTED]
        continue_reassignments(engine, np.setdiff1d(flagged, handled).astype(np.int32))


def resume_on_brokers(engine: ZkEngine, brokers: Rows) -> None:
    """Step 6 of a broker's startup: reassignments with a target on these broker rows."""
    state = engine.state
    if not engine.profile.cancels_reassignments:
        ids = set(state.broker_id[brokers].tolist())
        waiting = sorted(state.reassignment_targets.items())
        rows = np.asarray([row for row, targets in waiting if ids & {*targets}], np.int32)
        continue_reassignments(engine, rows)
        return
    hosted = state.replicas_on(brokers)
    records = state.records.take(hosted.rows)
    target = hosted.slots & ~records["removing"].astype(np.uint64)
    moving = (records["flags"] & schema.FLAG_BEING_REASSIGNED) != 0
    continue_reassignments(engine, hosted.rows[moving & (target != 0)])


def complete_reassignments(engine: ZkEngine, rows: Rows) -> None:
    """After an ISR change: finish the reassignments of those rows whose ISR has all targets."""
    state = engine.state
    if not state.n_reassigned:
        return
    moving = rows[(state.records["flags"][rows] & schema.FLAG_BEING_REASSIGNED) != 0]
    moving = np.sort(moving)
    if not engine.profile.cancels_reassignments:
        for row in moving.tolist():
            # A table says that a partition is being reassigned, and not where to.
            if row in state.reassignment_targets and _is_complete_legacy(engine, row):
                _reassign_legacy(engine, row)
        return
    if engine.store is None:
        continue_reassignments(engine, moving[is_complete(engine, moving)])
        return
    for at in range(moving.size):
        row = moving[at : at + 1]
        continue_reassignments(engine, row[is_complete(engine, row)])


def _being_reassigned(state: ClusterState, rows: Rows) -> npt.NDArray[np.bool_]:
    """Which assignments say that they are being reassigned (section 1.3)."""
    moving = np.zeros(rows.size, np.bool_)
    some = rows >= 0
    records = state.records.take(rows[some])
    moving[some] = (records["adding"] != 0) | (records["removing"] != 0)
    return moving


# --- starting ----------------------------------------------------------------------------------


def _trigger(engine: ZkEngine, event: str, requests: Requests, codes: Codes) -> Outcome:
    outcome = engine.attempt(
        event, lambda: maybe_trigger_partition_reassignment(engine, requests, codes)
    )
    outcome.reassignment_codes = codes
    return outcome


def maybe_trigger_partition_reassignment(
    engine: ZkEngine, requests: Requests, codes: Codes
) -> None:
    """Start those without an error, in row order; `codes` says what became of each."""
    state = engine.state
    if not engine.profile.cancels_reassignments:
        _start_legacy(engine, requests.rows, requests.targets.lists(), codes)
        return
    accepted = codes == ReassignmentCode.STARTED
    assigned = is_movable(state, requests.rows)
    codes[accepted & ~assigned] = ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    some = np.flatnonzero(accepted & assigned)
    some = some[np.argsort(requests.rows[some], kind="stable")]
    if some.size:
        rows = requests.rows[some]
        targets = _with_origins(state, rows, requests.cancel[some], requests.targets.of(some))
        failures = start_or_continue(engine, rows, targets)
        failed = np.searchsorted(rows, sorted(failures))
        codes[some[failed]] = ReassignmentCode.UNKNOWN_SERVER_ERROR


def _with_origins(
    state: ClusterState, rows: Rows, cancel: npt.NDArray[np.bool_], targets: Targets
) -> Targets:
    """Targets in which a cancelled reassignment goes back to where it came from."""
    if not cancel.any():
        return targets
    records = state.records.take(rows)
    origin = first_slots(records["n_replicas"]) & ~records["adding"].astype(np.uint64)
    back = id_lists(state, rows, np.where(cancel, origin, 0))
    pairs = zip(back.to_pylist(), cancel.tolist(), targets.lists(), strict=True)
    return Targets.from_lists([home if cancelled else to for home, cancelled, to in pairs])


# --- phases ---------------------------------------------------------------------------------------


def start_or_continue(
    engine: ZkEngine, rows: Rows, targets: Targets | None = None, *, end_at_error: bool = False,
) -> dict[int, str]:
    """`onPartitionReassignment` of section 6.7 for some ascending rows.

    Returns the class of the error, by row, where Kafka's handler would have raised one; with
    `end_at_error`, the rows behind the first such row are not looked at.
    """
    safe = cannot_fail(engine, rows)
    if end_at_error and not safe.all():
        safe[:] = False
    together = np.flatnonzero(safe)
    if together.size:
        with engine.journal.batch_for_each_partition():
            _start_or_complete(engine, rows[together], targets and targets.of(together))
    failures: dict[int, str] = {}
    for at in np.flatnonzero(~safe):
        place = np.asarray([at])
        try:
            _start_or_complete(engine, rows[place], targets and targets.of(place))
        except EventFailed as failed:
            failures[int(rows[at])] = failed.error
            engine.deletion_hints.clear()  # replicas that it assigned may have no state
            if end_at_error:
                break
        finally:
            engine.journal.prefix = ""
    return failures


def cannot_fail(engine: ZkEngine, rows: Rows) -> Mask:
    """Which rows no step can raise for, so that they need not go one by one.

    A topic's assignments are written together: where one of its rows may fail half way, all of
    them go in order, as the write of a later one is the earlier one's too.
    """
    state = engine.state
    if engine.store is not None:
        return np.zeros(rows.size, np.bool_)
    safe = np.zeros(rows.size, np.uint8)
    reassign.check_safe(state.columns, rows, state.controller_epoch, safe)
    is_safe = safe.view(np.bool_)
    if is_safe.all():
        return is_safe
    topics = state.topic_row[rows]
    return is_safe & ~np.isin(topics, topics[~is_safe])


def _start_or_complete(engine: ZkEngine, rows: Rows, targets: Targets | None) -> None:
    state = engine.state
    state.forget_survey()
    if state.any_queued:
        state.mark_topics_ineligible(np.unique(state.topic_row[rows]))
    if targets is not None:
        _update_current_reassignments(engine, rows, targets)
    flags = state.records["flags"]
    state.n_reassigned += int(np.count_nonzero((flags[rows] & schema.FLAG_BEING_REASSIGNED) == 0))
    flags[rows] |= schema.FLAG_BEING_REASSIGNED
    done = is_complete(engine, rows)
    if not done.all():
        _start_new_replicas(engine, rows[~done])
    if done.any():
        _replace_replicas(engine, rows[done])


def _update_current_reassignments(engine: ZkEngine, rows: Rows, targets: Targets) -> None:
    """Phase U: the assignments with which reassignments begin; who falls out is stopped."""
    state = engine.state
    if engine.store is not None or state.unwritten_assignments:
        for row, to in zip(rows.tolist(), targets.lists(), strict=True):
            current = state.assignment(row)
            if current.reassign_to(to) != current:
                write_assignment(engine, row)
    brokers = mutators.add_brokers(state, targets.broker_ids)
    owner = np.repeat(rows, np.diff(targets.offsets)).astype(np.int32)
    mutators.track(state, owner, brokers)
    dropped, tally = np.empty(rows.size, np.uint64), engine.journal.new_tally()
    reassign.start_reassignments(state.columns, rows, targets.offsets, brokers, dropped, tally)
    forget_orders(state, rows)
    engine.journal.take_counters(tally)
    stop_removed_replicas(engine, "U", rows, dropped)


def is_complete(engine: ZkEngine, rows: Rows) -> Mask:
    """Step 3: nothing to move, or the record's ISR has all targets."""
    state = engine.state
    known, isr = np.empty(0, np.uint8), np.empty(0, np.uint64)
    complete = np.empty(rows.size, np.uint8)
    if engine.store is not None:
        known, isr = np.zeros(rows.size, np.uint8), np.zeros(rows.size, np.uint64)
        moving = (state.records["adding"][rows] != 0) | (state.records["removing"][rows] != 0)
        if moving.any():
            known[moving], isr[moving] = read_records(engine, rows[moving])
    reassign.check_complete(state.columns, rows, known, isr, complete)
    return complete.view(np.bool_)


def _start_new_replicas(engine: ZkEngine, rows: Rows) -> None:
    """Phase A: bump the epoch, and start the replicas that are added, one call each."""
    state = engine.state
    update_leader_epochs(engine, "A1", rows)
    left = state.records["adding"][rows].astype(np.uint64)
    while left.any():
        first = left & (~left + np.uint64(1))
        some = first != 0
        move_replicas(engine, "A2", ReplicaState.NEW, rows[some], first[some])
        left &= ~first


def _replace_replicas(engine: ZkEngine, rows: Rows) -> None:
    """Phase B: the targets take over, and those that are removed go."""
    state, store = engine.state, engine.store
    state.forget_survey()
    added = state.records["adding"][rows].astype(np.uint64)
    move_replicas(engine, "B1", ReplicaState.ONLINE, rows[added != 0], added[added != 0])
    for row in rows.tolist() if store is not None or rows.size == 1 else ():
        state.unwritten_assignments.setdefault(row, state.assignment(row))
    removed, tally = np.empty(rows.size, np.uint64), engine.journal.new_tally()
    reassign.assign_targets(state.columns, rows, removed, tally)
    forget_orders(state, rows)
    engine.journal.take_counters(tally)
    move_leaders(engine, rows)
    stop_removed_replicas(engine, "B4", rows, removed)
    for row in rows.tolist() if store is not None or state.unwritten_assignments else ():
        write_assignment(engine, row)
    state.records["flags"][rows] &= 255 - schema.FLAG_BEING_REASSIGNED
    state.n_reassigned -= rows.size
    engine.journal.prefix = "B8: "
    engine.send_update_metadata("announce the assignment", state.registered, rows)
    engine.journal.prefix = ""
    if state.any_queued:
        topics = np.unique(state.topic_row[rows])
        topic_deletion.resume_deletion_for(engine, topics)


# --- steps of the phases --------------------------------------------------------------------------


def write_assignment(engine: ZkEngine, row: int) -> None:
    """Write the topic's assignments as they are in memory, all of them."""
    state, store = engine.state, engine.store
    if store is not None:
        try:
            store.write_assignments(
                np.asarray([row], np.int32), guarded=engine.profile.guards_writes
            )
        except CallFailed as failed:
            raise EventFailed("IllegalState") from failed
    topic = state.topic_row[row]
    for other in [r for r in state.unwritten_assignments if state.topic_row[r] == topic]:
        del state.unwritten_assignments[other]


def forget_orders(state: ClusterState, rows: Rows) -> None:
    """The adding and removing lists are in the order of the assignment again."""
    for key in [key for key in state.list_orders if key[1] in rows]:
        del state.list_orders[key]


def read_records(engine: ZkEngine, rows: Rows) -> tuple[Mask, npt.NDArray[np.uint64]]:
    """Which rows have a record, and its ISR: stored ones where there is a store."""
    state, store = engine.state, engine.store
    if store is None:
        records = state.records.take(rows)
        known = (records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0
        return known, records["isr"].astype(np.uint64)
    try:
        answers, stored = store.read_states(rows)
    except CallFailed as failed:
        raise EventFailed("StoreError") from failed
    if (answers == StoreAnswer.ERROR).any():
        raise EventFailed("StoreError")
    return answers == StoreAnswer.OK, stored["isr"].astype(np.uint64)


def move_leaders(engine: ZkEngine, rows: Rows, removed: Slots | None = None) -> None:
    """Step B3: leaders that are not among the targets, or not online, give way.

    `removed` are slots, per row, that are told of those that stay besides the targets.
    """
    state = engine.state
    if not (state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP).all():
        raise EventFailed("NoSuchElement")
    slots, live = np.empty(rows.size, np.int32), state.live_slots(rows)
    leaders = np.ascontiguousarray(state.records["leader"][rows])
    hosting.find_slots(state.columns, rows, leaders, slots)
    place = np.where(slots < 0, 0, slots).astype(np.uint64)
    is_target = (slots >= 0) & (slots < state.records["n_replicas"][rows])
    stays = is_target & (((live >> place) & np.uint64(1)) != 0)
    engine.journal.prefix = "B3: "
    machine = engine.partition_state_machine
    if not stays.all():
        engine.checked(machine.run(rows[~stays], PartitionState.ONLINE, Strategy.REASSIGN))
    if stays.any():
        update_leader_epochs(engine, "B3", rows[stays], None if removed is None else removed[stays])


def update_leader_epochs(
    engine: ZkEngine, phase: str, rows: Rows, removed: Slots | None = None
) -> None:
    """`updateLeaderEpochAndSendRequest` (section 6.6): raise leader epochs, tell all replicas.

    `removed` are slots, per row, that are told besides those that are assigned.
    """
    state, journal, profile = engine.state, engine.journal, engine.profile
    journal.prefix = f"{phase}: "
    if engine.store is not None:
        for at in range(rows.size):
            row = slice(at, at + 1)
            gone = None if removed is None else removed[row]
            _update_stored_epoch(engine, engine.store, rows[row], gone)
        return
    codes, tally = np.empty(rows.size, np.uint8), journal.new_tally()
    effects = journal.new_effects(2 * rows.size)
    n_effects = reassign.touch(
        state.columns, rows,
        np.empty(0, np.uint64) if removed is None else removed, state.controller_epoch,
        profile.epoch_bump_separates_added, codes, effects, tally,
    )
    failed = codes != Code.MOVED
    if failed.any():
        raise EventFailed(_ERRORS[Code(int(codes[failed][0]))])
    journal.add_step("raise the leader epoch", tally, effects[:n_effects], replicas=False)


_ERRORS = {Code.NO_RECORD: "IllegalState", Code.NEWER_CONTROLLER: "StateChangeFailed"}


def _update_stored_epoch(engine: ZkEngine, store: Store, row: Rows, removed: Slots | None) -> None:
    """Raise one stored epoch and tell; whether the cache has it at once is the version's matter."""
    state, journal, profile = engine.state, engine.journal, engine.profile
    stored = _raise_stored(engine, store, row)
    assigned = first_slots(state.records["n_replicas"][row])
    added = state.records["adding"][row].astype(np.uint64)
    added = added if profile.epoch_bump_separates_added else np.zeros_like(added)
    origin: Slots = assigned & ~added if removed is None else assigned & ~added | removed
    parts = [_request_effects(engine, row, stored, origin)]
    if profile.epoch_bump_separates_added:
        parts.append(_request_effects(engine, row, stored, added))
        parts[1]["kinds"] |= KIND_IS_NEW
    effects = np.concatenate(parts)
    # UpdateMetadata says what is cached: before 2.4 perhaps nothing, where the store has a record.
    cached = row[(state.records["flags"][row] & schema.FLAG_HAS_LEADERSHIP) != 0]
    journal.add_step(
        "raise the leader epoch", journal.new_tally(), effects, replicas=False, from_store=True,
        announced=journal.record_effects(cached),
    )


def _request_effects(
    engine: ZkEngine, row: Rows, stored: npt.NDArray[Any], recipients: Slots
) -> Effects:
    """What LeaderAndIsr says of a record as it was stored."""
    effects = engine.journal.record_effects(row)
    copy_leadership(effects, stored)
    effects["code"], effects["recipients"] = Code.NOT_ASKED, recipients
    return effects


def _raise_stored(engine: ZkEngine, store: Store, row: Rows) -> npt.NDArray[Any]:
    """Steps 1 and 2 of section 6.6: raise a stored epoch until nobody else writes meanwhile."""
    journal = engine.journal
    retry = True
    while retry:
        session = StoreSession(engine.state, store, row, journal, engine.profile)
        codes, stored = session.read(row)
        if codes[0] == Code.MOVED:
            stored["leader_epoch"] += 1
            retry = bool(session.write(row, stored, codes, np.ones(1, np.bool_))[0])
        if codes[0] != Code.MOVED:
            raise EventFailed(_ERRORS.get(Code(int(codes[0])), "StoreError"))
    stored["controller_epoch"] = engine.state.controller_epoch
    if engine.profile.epoch_bump_is_cached:
        session.put_leadership(row, stored)
        journal.take_counters(session.tally)
    return stored


def stop_removed_replicas(engine: ZkEngine, phase: str, rows: Rows, slots: Slots) -> None:
    """`stopRemovedReplicasOfReassignedPartition`; the deletion is taken to succeed."""
    some = slots != 0
    for target in STOPPED if some.any() else ():
        move_replicas(engine, phase, target, rows[some], slots[some])


def move_replicas(
    engine: ZkEngine, phase: str, target: ReplicaState, rows: Rows, slots: Slots
) -> None:
    """One call of the replica machine for some slots of some rows.

    Kafka makes a call for each partition. Where the order of its brokers depends on how many they
    are, those with many come apart.
    """
    engine.journal.prefix = f"{phase}: "
    machine = engine.replica_state_machine
    parts = [np.ones(rows.size, np.bool_)]
    if engine.profile.group_order is GroupOrder.SCALA_2_12:
        many = exceeds_small_map(slots)
        parts = [part for part in (~many, many) if part.any()]
    for part in parts:
        engine.checked(machine.run(Replicas(rows[part], slots[part]), target))


# --- before Kafka 2.4 -----------------------------------------------------------------------------


def _start_legacy(
    engine: ZkEngine, rows: Rows, lists: Sequence[Sequence[int]], codes: Codes
) -> None:
    """Take partitions from the node and start them, in row order; `codes` says what became of each.

    Rows of -1 are unknown partitions.
    """
    state = engine.state
    for row, targets in zip(rows.tolist(), lists, strict=True):
        if row >= 0:
            _set_target(state, row, targets)
    for at in np.argsort(rows, kind="stable").tolist():
        row = int(rows[at])
        codes[at] = _start_one(engine, row)
        if row >= 0 and codes[at] != ReassignmentCode.STARTED:
            _drop_target(state, row)


def _start_one(engine: ZkEngine, row: int) -> ReassignmentCode:
    state = engine.state
    if row < 0 or state.topic_queued_for_deletion[state.topic_row[row]]:
        return ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    assigned = state.assignment(row).replicas
    if not assigned:
        return ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    if assigned == state.reassignment_targets[row]:
        return ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS
    state.mark_topics_ineligible(state.topic_row[row : row + 1])
    try:
        _reassign_legacy(engine, row)
    except EventFailed:
        return ReassignmentCode.UNKNOWN_SERVER_ERROR
    return ReassignmentCode.STARTED


def _set_target(state: ClusterState, row: int, targets: Sequence[int]) -> None:
    state.reassignment_targets[row] = tuple(targets)
    state.records["flags"][row] |= schema.FLAG_BEING_REASSIGNED
    state.n_reassigned = len(state.reassignment_targets)


def _drop_target(state: ClusterState, row: int) -> None:
    state.reassignment_targets.pop(row, None)
    state.records["flags"][row] &= 255 - schema.FLAG_BEING_REASSIGNED
    state.n_reassigned = len(state.reassignment_targets)


def _reassign_legacy(engine: ZkEngine, row: int) -> None:
    """Begin or complete one reassignment; what Kafka's handler would raise, this raises."""
    engine.state.forget_survey()
    if row not in engine.state.reassignment_targets:
        raise EventFailed("NoSuchElement")
    try:
        if _is_complete_legacy(engine, row):
            _complete_legacy(engine, row)
        else:
            _begin_legacy(engine, row)
    except EventFailed:
        engine.deletion_hints.clear()  # replicas that it assigned may have no state
        raise
    finally:
        engine.journal.prefix = ""


def _is_complete_legacy(engine: ZkEngine, row: int) -> bool:
    """Whether all targets are in the ISR of the stored record."""
    state = engine.state
    at = np.asarray([row], np.int32)
    targets = _slots_of(state, row, state.reassignment_targets[row])
    known, isr = read_records(engine, at)
    return bool(known[0]) and not int(targets[0]) & ~int(isr[0])


def _slots_of(state: ClusterState, row: int, broker_ids: tuple[int, ...]) -> Slots:
    """Slots of some brokers in a row, as one mask; who has none gets one."""
    brokers = mutators.add_brokers(state, broker_ids)
    slots = mutators.track(state, np.full(brokers.size, row, np.int32), brokers)
    return np.asarray([sum(1 << int(slot) for slot in slots)], np.uint64)


def _assign_legacy(engine: ZkEngine, row: int, replicas: tuple[int, ...]) -> None:
    """Set an assignment in memory, and then write it."""
    state = engine.state
    state.unwritten_assignments.setdefault(row, state.assignment(row))
    state.set_assignment(row, replicas)
    write_assignment(engine, row)


def _begin_legacy(engine: ZkEngine, row: int) -> None:
    """Assign old and new replicas, bump the epoch, start the new replicas."""
    state, at = engine.state, np.asarray([row], np.int32)
    assigned, targets = state.assignment(row).replicas, state.reassignment_targets[row]
    _assign_legacy(engine, row, tuple(dict.fromkeys((*targets, *assigned))))
    update_leader_epochs(engine, "A1", at)
    for broker in targets:
        if broker not in assigned:
            move_replicas(engine, "A2", ReplicaState.NEW, at, _slots_of(state, row, (broker,)))


def _complete_legacy(engine: ZkEngine, row: int) -> None:
    """The targets take over, and the others go."""
    state, at = engine.state, np.asarray([row], np.int32)
    targets = state.reassignment_targets[row]
    for broker in targets:
        move_replicas(engine, "B1", ReplicaState.ONLINE, at, _slots_of(state, row, (broker,)))
    removed = _assign_targets_legacy(engine, at, targets)
    move_leaders(engine, at, removed)
    stop_removed_replicas(engine, "B4", at, removed)
    _assign_legacy(engine, row, targets)
    _drop_target(state, row)
    engine.journal.prefix = "B8: "
    engine.send_update_metadata("announce the assignment", state.registered, at)
    engine.journal.prefix = ""
    topic_deletion.resume_deletion_for(engine, state.topic_row[at])


def _assign_targets_legacy(engine: ZkEngine, row: Rows, targets: tuple[int, ...]) -> Slots:
    """Make the targets the assignment, in memory; returns the slots of the others, in order."""
    state, tally = engine.state, engine.journal.new_tally()
    state.unwritten_assignments.setdefault(int(row[0]), state.assignment(int(row[0])))
    brokers = mutators.add_brokers(state, targets)
    mutators.track(state, np.repeat(row, brokers.size), brokers)
    removed = np.empty(1, np.uint64)
    offsets = np.asarray([0, brokers.size], np.int32)
    state.forget_survey()
    reassign.start_reassignments(state.columns, row, offsets, brokers, removed, tally)
    reassign.assign_targets(state.columns, row, removed, tally)
    engine.journal.take_counters(tally)
    return removed
