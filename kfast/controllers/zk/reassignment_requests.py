"""Who asks for reassignments, and when they go on.

Source: docs/controller.md, section 6.7; Kafka 3.9,
`KafkaController.processApiPartitionReassignment`, `processZkPartitionReassignment`,
`processListPartitionReassignments`, `maybeTriggerPartitionReassignment`. The public functions with
an event's name are methods of `Controller`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast import schema
from kfast.arguments import ASSIGNMENTS, assignments_in, assignments_of, partition_keys, shown
from kfast.controllers.zk import legacy_reassignment as legacy
from kfast.controllers.zk.profiles import UNSUPPORTED
from kfast.controllers.zk.reassignment import is_complete
from kfast.controllers.zk.reassignment import on_partition_reassignment as start_or_go_on
from kfast.controllers.zk.reassignment_steps import Targets
from kfast.controllers.zk.results import EventFailed
from kfast.errors import ArgumentError
from kfast.kernels import reassign
from kfast.schema import REASSIGNMENTS, ReassignmentCode
from kfast.state.records import EMPTY_ROWS, Rows
from kfast.state.tables import first_slots, id_lists, ordered_lists, row_keys

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.journal import Outcome
    from kfast.state import ClusterState

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
    controller: Controller, reassignments: Reassignments
) -> Outcome:
    """Start, change or cancel reassignments (section 6.7, API call).

    Parameters
    ----------
    reassignments : mapping of (topic, partition) to broker ids or None, or pa.Table
        New assignments in order, the preferred replica first; None cancels. A table has the
        columns topic, partition and replicas, where a null cancels.

    Returns
    -------
    Outcome
        `reassignment_codes` has one `schema.ReassignmentCode` per partition, in the order given;
        where another controller has taken over meanwhile (`failure`), those that were not refused
        stand as STARTED.

    Raises
    ------
    ArgumentError
        A partition stands twice, a list is ill-typed, or a partition would name more than 64
        brokers. Nothing is changed.
    """
    state, event = controller.state, "alter_partition_reassignments"
    asked = parse(state, reassignments)
    if not controller.active:
        return controller.refused(event, "NOT_CONTROLLER")
    if not controller.profile.cancels_reassignments:
        return controller.refused(event, UNSUPPORTED)
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
    if not controller.profile.checks_added_replicas:
        alive[:] = 1
    wrong = ~asked.cancel & ((valid & alive) == 0)
    codes[wrong] = ReassignmentCode.INVALID_REPLICA_ASSIGNMENT
    return _started(controller, event, asked, codes)


def reassign_partitions(
    controller: Controller, reassignments: Reassignments, *, reassigned: int | None = None
) -> Outcome:
    """The legacy reassignment node was created (section 6.7); no list is checked.

    Parameters and results as of `alter_partition_reassignments`; partitions that fail are removed
    from the node. `ArgumentError` where a list is empty, names a negative id, or is null.
    `reassigned` are the partitions of the whole cluster that are being reassigned, where the state
    is a part of it.
    """
    asked = parse(controller.state, reassignments, node=True)
    event = "reassign_partitions"
    if not controller.active:
        return controller.refused(event, "NOT_CONTROLLER")
    moving = controller.state.n_reassigned if reassigned is None else reassigned
    if not controller.profile.cancels_reassignments and moving:
        return controller.refused(event, "REASSIGNMENT_IN_PROGRESS")
    return _started(controller, event, asked, np.zeros(asked.rows.size, np.uint8))


def on_partition_reassignment(controller: Controller, rows: npt.ArrayLike) -> Outcome:
    """Go on with the reassignments of some rows, to the assignments they have (section 6.7).

    `error` is set where one of them fails, as it ends Kafka's handler.
    """
    asked = np.sort(controller.state.check_rows(rows))
    event = "on_partition_reassignment"
    if not controller.active:
        return controller.refused(event, "NOT_CONTROLLER")
    return controller.attempt(event, lambda: go_on(controller, asked))


def list_partition_reassignments(
    controller: Controller, partitions: Sequence[tuple[str, int]] | None = None
) -> pa.Table:
    """Reassignments under way, of some partitions or of all.

    Returns
    -------
    pa.Table
        topic, partition, partition_row, replicas, adding, removing; unknown partitions and those
        that are not being reassigned are left out.
    """
    state = controller.state
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


def go_on(controller: Controller, rows: Rows) -> None:
    """Go on with the reassignments of some ascending rows; the first error ends the event."""
    if not controller.profile.cancels_reassignments:
        for row in rows.tolist():
            legacy.reassign_legacy(controller, row)
    elif rows.size:
        for error in start_or_go_on(controller, rows, end_at_error=True).values():
            raise EventFailed(error)


def load_node(controller: Controller, node: Requests) -> None:
    """Step 4 of section 6.1: before 2.4 the node alone says what is being reassigned."""
    if not controller.profile.cancels_reassignments:
        legacy.load_node(controller.state, node.rows, node.targets.lists())


def mark_waiting(controller: Controller) -> None:
    """Mark what the node says is being reassigned, as a new controller's context has it."""
    if not controller.profile.cancels_reassignments:
        legacy.mark_waiting(controller.state)


def resume(controller: Controller, node: Requests) -> None:
    """Step 9 of section 6.1: the legacy node, then all others that are under way."""
    state = controller.state
    if not controller.profile.cancels_reassignments:
        legacy.resume_legacy(controller)
        return
    codes = _start(controller, node, np.zeros(node.rows.size, np.uint8))
    if state.n_reassigned:
        flagged = np.flatnonzero(state.records["flags"] & schema.FLAG_BEING_REASSIGNED)
        handled = node.rows[codes == ReassignmentCode.STARTED]
        go_on(controller, np.setdiff1d(flagged, handled).astype(np.int32))


def resume_on(controller: Controller, brokers: Rows) -> None:
    """Step 6 of a broker's startup: reassignments with a target on these broker rows."""
    state = controller.state
    if not controller.profile.cancels_reassignments:
        ids = set(state.broker_id[brokers].tolist())
        waiting = sorted(state.reassignment_targets.items())
        go_on(controller, np.asarray([row for row, to in waiting if ids & {*to}], np.int32))
        return
    hosted = state.replicas_on(brokers)
    records = state.records.take(hosted.rows)
    target = hosted.slots & ~records["removing"].astype(np.uint64)
    moving = (records["flags"] & schema.FLAG_BEING_REASSIGNED) != 0
    go_on(controller, hosted.rows[moving & (target != 0)])


def complete_some(controller: Controller, rows: Rows) -> None:
    """After an ISR change: finish the reassignments of those rows whose ISR has all targets."""
    state = controller.state
    if not state.n_reassigned:
        return
    moving = rows[(state.records["flags"][rows] & schema.FLAG_BEING_REASSIGNED) != 0]
    moving = np.sort(moving)
    if not controller.profile.cancels_reassignments:
        for row in moving.tolist():
            # A table says that a partition is being reassigned, and not where to.
            if row in state.reassignment_targets and legacy.is_complete_legacy(controller, row):
                legacy.reassign_legacy(controller, row)
        return
    if controller.store is None:
        go_on(controller, moving[is_complete(controller, moving)])
        return
    for row in moving:
        one = np.asarray([row], np.int32)
        go_on(controller, one[is_complete(controller, one)])


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


def _started(controller: Controller, event: str, asked: Requests, codes: Codes) -> Outcome:
    found: list[Codes] = []
    outcome = controller.attempt(event, lambda: found.append(_start(controller, asked, codes)))
    outcome.reassignment_codes = found[0] if found else codes
    return outcome


def _start(controller: Controller, asked: Requests, codes: Codes) -> Codes:
    """`maybeTriggerPartitionReassignment`: start those without an error, in row order."""
    state = controller.state
    if not controller.profile.cancels_reassignments:
        legacy.start_legacy(controller, asked.rows, asked.targets.lists(), codes)
        return codes
    accepted = codes == ReassignmentCode.STARTED
    assigned = _is_movable(state, asked.rows)
    codes[accepted & ~assigned] = ReassignmentCode.UNKNOWN_TOPIC_OR_PARTITION
    some = np.flatnonzero(accepted & assigned)
    some = some[np.argsort(asked.rows[some], kind="stable")]
    if some.size:
        rows = asked.rows[some]
        targets = _with_origins(state, rows, asked.cancel[some], asked.targets.of(some))
        failures = start_or_go_on(controller, rows, targets)
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
