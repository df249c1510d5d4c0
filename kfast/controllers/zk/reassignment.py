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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.arguments import ASSIGNMENTS, assignments_in, assignments_of, partition_keys, shown
from kfast.controllers.engine import EventFailed
from kfast.controllers.zk import topic_deletion
from kfast.controllers.zk.broker_groups import GroupOrder, exceeds_small_map
from kfast.controllers.zk.engine import ZkEngine
from kfast.controllers.zk.profiles import UNSUPPORTED
from kfast.controllers.zk.store import Answer, CallFailed, Store
from kfast.controllers.zk.store_machines import StoreSession
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.journal.effects import KIND_IS_NEW, Effects
from kfast.kernels import hosting, reassign
from kfast.schema import (
    REASSIGNMENTS,
    Code,
    PartitionState,
    ReassignmentCode,
    ReplicaState,
    Strategy,
)
from kfast.state import ClusterState, Replicas, mutators
from kfast.state.arrays import first_slots
from kfast.state.records import EMPTY_ROWS, Rows, Slots
from kfast.state.tables import id_lists, ordered_lists, row_keys

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

    @classmethod
    def from_lists(cls, lists: list[list[int]]) -> Targets:
        """Targets of lists of broker ids."""
        offsets = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(ids) for ids in lists], out=offsets[1:])
        return cls(offsets, np.asarray([b for ids in lists for b in ids], np.int32))

    def lists(self) -> list[list[int]]:
        """The same as lists of broker ids."""
        parts = np.split(self.broker_ids, self.offsets[1:-1]) if self.offsets.size > 1 else []
        return [part.tolist() for part in parts]

    def of(self, chosen: npt.NDArray[np.int64]) -> Targets:
        """The lists at some places, in their order."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.zeros(chosen.size + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        at = np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Targets(offsets, self.broker_ids[at])


Reassignments: TypeAlias = Mapping[tuple[str, int], Sequence[int] | None] | pa.Table
"""Where partitions are to go, by (topic, partition); None cancels. Or a table of the same."""

Codes = npt.NDArray[np.uint8]
NOTHING_ASKED = ASSIGNMENTS.empty_table()
"""What the start of most clusters finds in the reassignment node: making it anew takes longer than
all the rest of the start of a small one."""


@dataclass(frozen=True)
class Requests:
    """Reassignments that are asked for: a row (-1: unknown), a list and whether to cancel each."""

    rows: Rows
    targets: Targets
    cancel: npt.NDArray[np.bool_]


# --- events ----------------------------------------------------------------------------------


def alter_partition_reassignments(
    engine: ZkEngine, reassignments: Reassignments
) -> Outcome:
    """Start, change or cancel reassignments (section 6.7, API call)."""
    state, event = engine.state, "alter_partition_reassignments"
    asked = parse(state, reassignments)
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    if not engine.profile.cancels_reassignments:
        return engine.refused(event, UNSUPPORTED)
    codes = np.zeros(asked.rows.size, np.uint8)
    codes[asked.cancel & ~_being_reassigned(state, asked.rows)] = (
        ReassignmentCode.NO_REASSIGNMENT_IN_PROGRESS
    )
    valid, alive = np.empty(codes.size, np.uint8), np.empty(codes.size, np.uint8)
    reassign.check_lists(asked.targets.offsets, asked.targets.broker_ids, valid)
    reassign.check_added(
        state.columns, asked.rows, asked.targets.offsets,
        state.broker_rows(asked.targets.broker_ids), alive,
    )
    if not engine.profile.checks_added_replicas:
        alive[:] = 1
    wrong = ~asked.cancel & ((valid & alive) == 0)
    codes[wrong] = ReassignmentCode.INVALID_REPLICA_ASSIGNMENT
    return _started(engine, event, asked, codes)


def reassign_partitions(engine: ZkEngine, reassignments: Reassignments) -> Outcome:
    """The legacy reassignment node was created (section 6.7); no list is checked."""
    asked = parse(engine.state, reassignments, node=True)
    event = "reassign_partitions"
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    if not engine.profile.cancels_reassignments and engine.state.n_reassigned:
        return engine.refused(event, "REASSIGNMENT_IN_PROGRESS")
    return _started(engine, event, asked, np.zeros(asked.rows.size, np.uint8))


def on_partition_reassignment(engine: ZkEngine, rows: npt.ArrayLike) -> Outcome:
    """Go on with the reassignments of some rows, to the assignments they have (section 6.7)."""
    asked = np.sort(engine.state.check_rows(rows))
    event = "on_partition_reassignment"
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    return engine.attempt(event, lambda: go_on(engine, asked))


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


def go_on(engine: ZkEngine, rows: Rows) -> None:
    """Go on with the reassignments of some ascending rows; the first error ends the event."""
    if not engine.profile.cancels_reassignments:
        for row in rows.tolist():
            _reassign_legacy(engine, row)
    elif rows.size:
        for error in start_or_go_on(engine, rows, end_at_error=True).values():
            raise EventFailed(error)


def load_node(engine: ZkEngine, node: Requests) -> None:
    """Step 4 of section 6.1: before 2.4 the node alone says what is being reassigned."""
    if not engine.profile.cancels_reassignments:
        _load_targets(engine.state, node.rows, node.targets.lists())


def mark_waiting(engine: ZkEngine) -> None:
    """Mark what the node says is being reassigned, as a new controller's context has it."""
    if not engine.profile.cancels_reassignments:
        _mark_targets(engine.state)


def resume(engine: ZkEngine, node: Requests) -> None:
    """Step 9 of section 6.1: the legacy node, then all others that are under way."""
    state = engine.state
    if not engine.profile.cancels_reassignments:
        _resume_legacy(engine)
        return
    codes = _start(engine, node, np.zeros(node.rows.size, np.uint8))
    if state.n_reassigned:
        flagged = np.flatnonzero(state.records["flags"] & schema.FLAG_BEING_REASSIGNED)
        handled = node.rows[codes == ReassignmentCode.STARTED]
        go_on(engine, np.setdiff1d(flagged, handled).astype(np.int32))


def resume_on(engine: ZkEngine, brokers: Rows) -> None:
    """Step 6 of a broker's startup: reassignments with a target on these broker rows."""
    state = engine.state
    if not engine.profile.cancels_reassignments:
        ids = set(state.broker_id[brokers].tolist())
        waiting = sorted(state.reassignment_targets.items())
        go_on(engine, np.asarray([row for row, to in waiting if ids & {*to}], np.int32))
        return
    hosted = state.replicas_on(brokers)
    records = state.records.take(hosted.rows)
    target = hosted.slots & ~records["removing"].astype(np.uint64)
    moving = (records["flags"] & schema.FLAG_BEING_REASSIGNED) != 0
    go_on(engine, hosted.rows[moving & (target != 0)])


def complete_some(engine: ZkEngine, rows: Rows) -> None:
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
        go_on(engine, moving[is_complete(engine, moving)])
        return
    for row in moving:
        one = np.asarray([row], np.int32)
        go_on(engine, one[is_complete(engine, one)])


# --- checks ------------------------------------------------------------------------------------


def parse(state: ClusterState, reassignments: Reassignments, *, node: bool = False) -> Requests:
    """Rows and lists of what is asked; `node` allows no cancelling and no empty list."""
    table = as_table(reassignments)
    if not table.num_rows:
        targets = Targets(np.zeros(1, np.int32), EMPTY_ROWS)
        return Requests(EMPTY_ROWS, targets, np.empty(0, np.bool_))
    named = table.column("topic").combine_chunks().dictionary_encode()
    topics = state.lookup.topics(named.dictionary.to_pylist())[named.indices.to_numpy()]
    partitions = table.column("partition").to_numpy()
    rows = state.lookup.rows(topics, partitions)
    ordered = np.sort(rows[rows >= 0])
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if twice.size:
        name = state.topic[int(state.topic_row[twice[0]])].as_py()
        raise ArgumentError(
            f"partition {name}-{state.partition[twice[0]]} is listed twice; nothing was changed"
        )
    lists = table.column("replicas").combine_chunks()
    cancel = lists.is_null().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    offsets = np.zeros(lengths.size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    broker_ids = lists.flatten().to_numpy().astype(np.int32)
    if node and (cancel.any() or (lengths == 0).any() or (broker_ids < 0).any()):
        raise ArgumentError(
            "the reassignment node has a list that is null, empty or names a negative broker id; "
            "nothing was changed"
        )
    asked = Requests(rows, Targets(offsets, broker_ids), cancel)
    _check_room(state, asked)
    return asked


def _check_room(state: ClusterState, asked: Requests) -> None:
    """Raise where a partition would name more brokers than a mask has bits."""
    lengths = np.diff(asked.targets.offsets)
    used = np.zeros(lengths.size, np.int64)
    movable = _is_movable(state, asked.rows)
    used[movable] = state.records["n_slots"][asked.rows[movable]]
    for at in np.flatnonzero(movable & (used + lengths > schema.MAX_SLOTS)).tolist():
        row = int(asked.rows[at])
        part = asked.targets.broker_ids[asked.targets.offsets[at] : asked.targets.offsets[at + 1]]
        tracked = state.broker_id[state.replicas[row, : used[at]].astype(np.int64)]
        n = np.union1d(part, tracked).size
        if n > schema.MAX_SLOTS:
            raise ArgumentError(
                f"partition row {row} would name {n} brokers; at most {schema.MAX_SLOTS} are "
                "allowed; nothing was changed"
            )


def _is_movable(state: ClusterState, rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows have an assignment, and a topic that is not queued for deletion."""
    movable = rows >= 0
    movable[movable] = state.records["n_replicas"][rows[movable]] > 0
    movable[movable] = ~state.topic_queued_for_deletion[state.topic_row[rows[movable]]]
    return movable


def as_table(reassignments: Reassignments) -> pa.Table:
    """Reassignments as a table of topic, partition and replicas (null: cancel), checked."""
    if isinstance(reassignments, pa.Table):
        return assignments_in("reassignments", reassignments)
    if not isinstance(reassignments, Mapping):
        raise ArgumentError(
            f"reassignments is {shown(reassignments)}: a mapping of (topic, partition) to broker "
            "ids or None is needed, or a table; nothing was changed"
        )
    if not reassignments:
        return NOTHING_ASKED
    return assignments_of("reassignments", list(reassignments), reassignments.values())


def _being_reassigned(state: ClusterState, rows: Rows) -> npt.NDArray[np.bool_]:
    """Which assignments say that they are being reassigned (section 1.3)."""
    moving = np.zeros(rows.size, np.bool_)
    some = rows >= 0
    records = state.records.take(rows[some])
    moving[some] = (records["adding"] != 0) | (records["removing"] != 0)
    return moving


# --- starting ----------------------------------------------------------------------------------


def _started(engine: ZkEngine, event: str, asked: Requests, codes: Codes) -> Outcome:
    found: list[Codes] = []
    outcome = engine.attempt(event, lambda: found.append(_start(engine, asked, codes)))
    outcome.reassignment_codes = found[0] if found else codes
    return outcome


def _start(engine: ZkEngine, asked: Requests, codes: Codes) -> Codes:
    """`maybeTriggerPartitionReassignment`: start those without an error, in row order."""
    state = engine.state
    if not engine.profile.cancels_reassignments:
        _start_legacy(engine, asked.rows, asked.targets.lists(), codes)
        return codes
    accepted = codes == ReassignmentCode.STARTED
    assigned = _is_movable(state, asked.rows)
    codes[accepted & ~assigned] = ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    some = np.flatnonzero(accepted & assigned)
    some = some[np.argsort(asked.rows[some], kind="stable")]
    if some.size:
        rows = asked.rows[some]
        targets = _with_origins(state, rows, asked.cancel[some], asked.targets.of(some))
        failures = start_or_go_on(engine, rows, targets)
        failed = np.searchsorted(rows, sorted(failures))
        codes[some[failed]] = ReassignmentCode.UNKNOWN_SERVER_ERROR
    return codes


def _with_origins(
    state: ClusterState, rows: Rows, cancel: npt.NDArray[np.bool_], targets: Targets
) -> Targets:
    """Targets in which a cancelled reassignment goes back to where it came from."""
    if not cancel.any():
        return targets
    records = state.records.take(rows)
    origin = first_slots(records["n_replicas"]) & ~records["adding"].astype(np.uint64)
    back = id_lists(state, rows, np.where(cancel, origin, 0))
    given = zip(back.to_pylist(), cancel.tolist(), targets.lists(), strict=True)
    return Targets.from_lists([home if cancelled else wanted for home, cancelled, wanted in given])


# --- phases ---------------------------------------------------------------------------------------


def start_or_go_on(
    engine: ZkEngine, rows: Rows, targets: Targets | None = None, *,
    end_at_error: bool = False,
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
            _reassign(engine, rows[together], targets and targets.of(together))
    failures: dict[int, str] = {}
    for at in np.flatnonzero(~safe):
        one = np.asarray([at])
        try:
            _reassign(engine, rows[one], targets and targets.of(one))
        except EventFailed as failed:
            failures[int(rows[at])] = failed.error
            if end_at_error:
                break
        finally:
            engine.journal.prefix = ""
    return failures


def cannot_fail(engine: ZkEngine, rows: Rows) -> Mask:
    """Which rows no step can raise for, so that they need not go one by one."""
    state = engine.state
    safe = np.zeros(rows.size, np.uint8)
    if engine.store is None:
        reassign.check_safe(state.columns, rows, state.controller_epoch, safe)
    found: Mask = safe != 0
    return found


def _reassign(engine: ZkEngine, rows: Rows, targets: Targets | None) -> None:
    state = engine.state
    state.forget_survey()
    if state.any_queued:
        state.mark_topics_ineligible(np.unique(state.topic_row[rows]))
    if targets is not None:
        _update_assignments(engine, rows, targets)
    flags = state.records["flags"]
    state.n_reassigned += int(np.count_nonzero((flags[rows] & schema.FLAG_BEING_REASSIGNED) == 0))
    flags[rows] |= schema.FLAG_BEING_REASSIGNED
    done = is_complete(engine, rows)
    if not done.all():
        _begin(engine, rows[~done])
    if done.any():
        _complete(engine, rows[done])


def _update_assignments(engine: ZkEngine, rows: Rows, targets: Targets) -> None:
    """Phase U: the assignments with which reassignments begin; who falls out is stopped."""
    state = engine.state
    if engine.store is not None or state.unwritten_assignments:
        _write_changed(engine, rows, targets)
    brokers = mutators.add_brokers(state, targets.broker_ids)
    owner = np.repeat(rows, np.diff(targets.offsets)).astype(np.int32)
    mutators.track(state, owner, brokers)
    dropped, tally = np.empty(rows.size, np.uint64), engine.journal.new_tally()
    reassign.start_reassignments(state.columns, rows, targets.offsets, brokers, dropped, tally)
    forget_orders(state, rows)
    engine.journal.take_counters(tally)
    stop_removed(engine, "U", rows, dropped)


def _write_changed(engine: ZkEngine, rows: Rows, targets: Targets) -> None:
    """Write the new assignments that differ from the cached ones."""
    state = engine.state
    for row, wanted in zip(rows.tolist(), targets.lists(), strict=True):
        current = state.assignment(row)
        if current.reassign_to(wanted) != current:
            write_assignment(engine, row)


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
    found: Mask = complete != 0
    return found


def _begin(engine: ZkEngine, rows: Rows) -> None:
    """Phase A: bump the epoch, and start the replicas that are added, one call each."""
    state = engine.state
    touch(engine, "A1", rows)
    left = state.records["adding"][rows].astype(np.uint64)
    while left.any():
        first = left & (~left + np.uint64(1))
        some = first != 0
        move(engine, "A2", ReplicaState.NEW, rows[some], first[some])
        left &= ~first


def _complete(engine: ZkEngine, rows: Rows) -> None:
    """Phase B: the targets take over, and those that are removed go."""
    state, store = engine.state, engine.store
    state.forget_survey()
    added = state.records["adding"][rows].astype(np.uint64)
    move(engine, "B1", ReplicaState.ONLINE, rows[added != 0], added[added != 0])
    for row in rows.tolist() if store is not None or rows.size == 1 else ():
        state.unwritten_assignments.setdefault(row, state.assignment(row))
    removed, tally = np.empty(rows.size, np.uint64), engine.journal.new_tally()
    reassign.assign_targets(state.columns, rows, removed, tally)
    forget_orders(state, rows)
    engine.journal.take_counters(tally)
    move_leaders(engine, rows)
    stop_removed(engine, "B4", rows, removed)
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
    for key in [key for key in state.odd_orders if key[1] in rows]:
        del state.odd_orders[key]


def read_records(
    engine: ZkEngine, rows: Rows
) -> tuple[Mask, npt.NDArray[np.uint64]]:
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
    if (answers == Answer.ERROR).any():
        raise EventFailed("StoreError")
    return answers == Answer.OK, stored["isr"].astype(np.uint64)


def move_leaders(engine: ZkEngine, rows: Rows, others: Slots | None = None) -> None:
    """Step B3: leaders that are not among the targets, or not online, give way.

    `others` are slots, per row, that are told of those that stay besides the targets.
    """
    state = engine.state
    if not (state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP).all():
        raise EventFailed("NoSuchElement")
    slots, live = np.empty(rows.size, np.int32), np.empty(rows.size, np.uint64)
    leaders = np.ascontiguousarray(state.records["leader"][rows])
    hosting.find_slots(state.columns, rows, leaders, slots)
    hosting.live_slots(state.columns, rows, live, np.empty_like(live))
    place = np.where(slots < 0, 0, slots).astype(np.uint64)
    is_target = (slots >= 0) & (slots < state.records["n_replicas"][rows])
    stays = is_target & (((live >> place) & np.uint64(1)) != 0)
    engine.journal.prefix = "B3: "
    machine = engine.partition_state_machine
    if not stays.all():
        engine.checked(
            machine.run(rows[~stays], PartitionState.ONLINE, Strategy.REASSIGN)
        )
    if stays.any():
        touch(engine, "B3", rows[stays], None if others is None else others[stays])


def touch(
    engine: ZkEngine, phase: str, rows: Rows, others: Slots | None = None
) -> None:
    """`touch` of section 6.6: raise leader epochs, and tell all replicas.

    `others` are slots, per row, that are told besides those that are assigned.
    """
    state, journal, profile = engine.state, engine.journal, engine.profile
    journal.prefix = f"{phase}: "
    if engine.store is not None:
        for row in rows:
            one = None if others is None else others[rows == row]
            _touch_stored(engine, engine.store, np.asarray([row], np.int32), one)
        return
    codes, tally = np.empty(rows.size, np.uint8), journal.new_tally()
    effects = journal.new_effects(2 * rows.size)
    n_effects = reassign.touch(
        state.columns, rows,
        np.empty(0, np.uint64) if others is None else others, state.controller_epoch,
        profile.touch_separates_added, codes, effects, tally,
    )
    failed = codes != Code.MOVED
    if failed.any():
        raise EventFailed(_ERRORS[Code(int(codes[failed][0]))])
    journal.add_step("raise the leader epoch", tally, effects[:n_effects], replicas=False)


_ERRORS = {Code.NO_RECORD: "IllegalState", Code.NEWER_CONTROLLER: "StateChangeFailed"}


def _touch_stored(
    engine: ZkEngine, store: Store, row: Rows, others: Slots | None
) -> None:
    """Raise one stored epoch and tell; whether the cache has it at once is the version's matter."""
    state, journal, profile = engine.state, engine.journal, engine.profile
    stored = _raise_stored(engine, store, row)
    assigned = first_slots(state.records["n_replicas"][row])
    added = state.records["adding"][row].astype(np.uint64)
    added = added if profile.touch_separates_added else np.zeros_like(added)
    told: Slots = assigned & ~added if others is None else assigned & ~added | others
    parts = [_said(engine, row, stored, told)]
    if profile.touch_separates_added:
        parts.append(_said(engine, row, stored, added))
        parts[1]["kinds"] |= KIND_IS_NEW
    effects = np.concatenate(parts)
    journal.add_step(
        "raise the leader epoch", journal.new_tally(), effects, replicas=False, from_store=True,
        announced=journal.record_effects(row),
    )


def _said(
    engine: ZkEngine, row: Rows, stored: npt.NDArray[Any], told: Slots
) -> Effects:
    """What LeaderAndIsr says of a record as it was stored."""
    effects = engine.journal.record_effects(row)
    for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr"):
        effects[name] = stored[name]
    effects["recovery"] = (stored["flags"] & schema.FLAG_RECOVERY) != 0
    effects["code"], effects["recipients"] = Code.NOT_ASKED, told
    return effects


def _raise_stored(engine: ZkEngine, store: Store, row: Rows) -> npt.NDArray[Any]:
    """Steps 1 and 2 of section 6.6: raise a stored epoch until nobody else writes meanwhile."""
    journal = engine.journal
    retry = True
    while retry:
        store.make_known(row)
        session = StoreSession(engine.state, store, journal.new_tally(), engine.profile)
        codes, stored = session.read(row)
        if codes[0] == Code.MOVED:
            stored["leader_epoch"] += 1
            retry = bool(session.write(row, stored, codes, np.ones(1, np.bool_))[0])
        if codes[0] != Code.MOVED:
            raise EventFailed(_ERRORS.get(Code(int(codes[0])), "StoreError"))
    stored["controller_epoch"] = engine.state.controller_epoch
    if engine.profile.touch_is_cached:
        session.adopt(row, stored)
        journal.take_counters(session.tally)
    return stored


def stop_removed(engine: ZkEngine, phase: str, rows: Rows, slots: Slots) -> None:
    """`stop_removed` of section 6.7; its deletion is taken to succeed."""
    some = slots != 0
    for target in STOPPED if some.any() else ():
        move(engine, phase, target, rows[some], slots[some])


def move(
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
    engine: ZkEngine, rows: Rows, lists: list[list[int]], codes: npt.NDArray[np.uint8]
) -> None:
    """Take partitions from the node and start them, in order; `codes` says what became of each.

    Rows of -1 are unknown partitions.
    """
    state = engine.state
    for row, targets in zip(rows.tolist(), lists, strict=True):
        if row >= 0:
            _keep_target(state, row, targets)
    for at, row in enumerate(rows.tolist()):
        codes[at] = _start_one(engine, row)
        if row >= 0 and codes[at] != ReassignmentCode.STARTED:
            _drop_target(state, row)


def _load_targets(state: ClusterState, rows: Rows, lists: list[list[int]]) -> None:
    """Take targets from the node into the context, beside those that were under way."""
    for row, targets in zip(rows.tolist(), lists, strict=True):
        if row >= 0:
            state.reassignment_targets[row] = tuple(targets)


def _mark_targets(state: ClusterState) -> None:
    """Mark the partitions whose targets the context has."""
    for row, targets in list(state.reassignment_targets.items()):
        _keep_target(state, row, list(targets))


def _resume_legacy(engine: ZkEngine) -> None:
    """Go on with everything that the node holds (section 6.1, step 9)."""
    waiting = engine.state.reassignment_targets
    rows = np.asarray(sorted(waiting), np.int32)
    codes = np.zeros(rows.size, np.uint8)
    _start_legacy(engine, rows, [list(waiting[row]) for row in rows.tolist()], codes)


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


def _keep_target(state: ClusterState, row: int, targets: list[int]) -> None:
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
    touch(engine, "A1", at)
    for broker in targets:
        if broker not in assigned:
            move(engine, "A2", ReplicaState.NEW, at, _slots_of(state, row, (broker,)))


def _complete_legacy(engine: ZkEngine, row: int) -> None:
    """The targets take over, and the others go."""
    state, at = engine.state, np.asarray([row], np.int32)
    targets = state.reassignment_targets[row]
    for broker in targets:
        move(engine, "B1", ReplicaState.ONLINE, at, _slots_of(state, row, (broker,)))
    others = _assign_targets_legacy(engine, at, targets)
    move_leaders(engine, at, others)
    stop_removed(engine, "B4", at, others)
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
    others = np.empty(1, np.uint64)
    offsets = np.asarray([0, brokers.size], np.int32)
    state.forget_survey()
    reassign.start_reassignments(state.columns, row, offsets, brokers, others, tally)
    reassign.assign_targets(state.columns, row, others, tally)
    engine.journal.take_counters(tally)
    return others
