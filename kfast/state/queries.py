"""Questions about partitions (docs/controller.md, section 1.5), and the check of their rows.

`ClusterState` has them as methods.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kfast import arguments, schema
from kfast.arguments import is_whole, whole, whole_numbers
from kfast.errors import ArgumentError, RowError
from kfast.schema import PartitionState, ReplicaState
from kfast.state.records import Assignment, Leadership, Rows

if TYPE_CHECKING:
    from kfast.state.cluster import ClusterState

NAMED = (
    schema.TOPIC_QUEUED | schema.TOPIC_STARTED | schema.TOPIC_INELIGIBLE | schema.TOPIC_EXISTS
)
"""Flags of a topic that is not forgotten: queued, started, ineligible, exists."""
FEW = 8
"""Brokers that are looked up one by one: arrays would cost more to make."""


def check_rows(state: ClusterState, rows: npt.ArrayLike) -> Rows:
    """Rows as int32; `RowError` where one is outside the table or stands twice."""
    if not (isinstance(rows, np.ndarray) and rows.dtype == np.int32 and rows.ndim == 1):
        rows = whole_numbers("rows", [rows] if is_whole(rows) else rows, what="partition rows")
    outside = (rows < 0) | (rows >= state.n_partitions)
    if outside.any():
        item = int(np.flatnonzero(outside)[0])
        raise RowError(
            f"partition row {rows[item]} (item {item + 1} of {rows.size}) is outside "
            f"0..{state.n_partitions - 1}; nothing was changed"
        )
    checked = np.ascontiguousarray(rows, np.int32)
    if state.free_rows.size and (state.partition[checked] < 0).any():
        item = int(np.argmin(state.partition[checked]))
        raise RowError(
            f"partition row {checked[item]} (item {item + 1} of {checked.size}) is free: its "
            "topic was deleted; nothing was changed"
        )
    if checked.size > 1 and not (checked[1:] > checked[:-1]).all():
        order = np.sort(checked)
        twice = order[1:][order[1:] == order[:-1]]
        if twice.size:
            raise RowError(f"partition row {twice[0]} is listed twice; nothing was changed")
    return checked


def check_row(state: ClusterState, row: int) -> int:
    """Return one row as an int; `RowError` where it is outside the table."""
    return whole("partition row", row, 0, state.n_partitions - 1, RowError)


def is_replica_online(
    state: ClusterState, broker_id: int, row: int, include_shutting_down: bool = False
) -> bool:
    """Whether a replica would be online: liveness only, not assignment or ISR membership."""
    at, row = broker_row(state, broker_id), check_row(state, row)
    if at < 0:
        return False
    status = int(state.broker_status[at])
    if not status & schema.BROKER_REGISTERED:
        return False
    if status & schema.BROKER_SHUTTING_DOWN and not include_shutting_down:
        return False
    return broker_id not in ids_of(state, row, int(state.records["offline_dir"][row]))


def ids_of(state: ClusterState, row: int, mask: int) -> tuple[int, ...]:
    """Broker ids of some slots of a partition, in slot order."""
    return tuple(
        int(state.broker_id[state.replicas[row, s]]) for s in range(state.n_slots) if mask >> s & 1
    )


def assignment(state: ClusterState, row: int) -> Assignment:
    """Assignment of a partition; three empty lists where it has none."""
    row = check_row(state, row)
    record = state.records[row]
    assigned = (1 << int(record["n_replicas"])) - 1
    return Assignment(
        ids_of(state, row, assigned), _ordered_ids(state, row, "adding"),
        _ordered_ids(state, row, "removing"),
    )


def _ordered_ids(state: ClusterState, row: int, name: str) -> tuple[int, ...]:
    """Ids of an adding or removing list, in the order it was given."""
    ids = ids_of(state, row, int(state.records[name][row]))
    order = state.odd_orders.get((name, row), ())
    return tuple(sorted(ids, key=lambda b: order.index(b) if b in order else len(order)))


def leadership(state: ClusterState, row: int) -> Leadership | None:
    """Cached leadership of a partition, ISR in slot order; None where there is none."""
    row = check_row(state, row)
    record = state.records[row]
    if not int(record["flags"]) & schema.FLAG_HAS_LEADERSHIP:
        return None
    leader = int(record["leader"])
    return Leadership(
        int(state.broker_id[leader]) if leader >= 0 else leader,
        int(record["leader_epoch"]),
        ids_of(state, row, int(record["isr"])),
        int((int(record["flags"]) & schema.FLAG_RECOVERY) != 0),
        int(record["version"]),
        int(record["controller_epoch"]),
    )


def stop_epochs(state: ClusterState, rows: Rows) -> Rows:
    """Leader epochs that StopReplica carries (`leader_epoch` of section 1.5)."""
    records = state.records.take(rows)
    led = (records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0
    epochs = np.where(led, records["leader_epoch"], schema.NO_EPOCH)
    epochs[state.topic_queued_for_deletion[state.topic_row[rows]]] = schema.EPOCH_DURING_DELETE
    return epochs.astype(np.int32)


def partition_state(state: ClusterState, row: int) -> PartitionState:
    """State of a partition."""
    return PartitionState(int(state.records["partition_state"][check_row(state, row)]))


def replica_states_of(state: ClusterState, row: int) -> dict[int, ReplicaState]:
    """States of a partition's replicas by broker id; brokers without an entry are left out."""
    row = check_row(state, row)
    return {
        int(state.broker_id[state.replicas[row, s]]): ReplicaState(int(state.replica_state[row, s]))
        for s in range(int(state.records["n_slots"][row]))
        if state.replica_state[row, s]
    }


def broker_row(state: ClusterState, broker_id: int) -> int:
    """Row of a broker id; -1 where it is unknown, or no whole number."""
    if not is_whole(broker_id):
        return -1
    row = bisect.bisect_left(state.broker_id, broker_id)
    return row if row < state.n_brokers and state.broker_id[row] == broker_id else -1


def broker_rows(state: ClusterState, broker_ids: npt.NDArray[np.integer]) -> Rows:
    """Rows of some broker ids; -1 where one is unknown."""
    if broker_ids.size <= FEW:
        return np.asarray([broker_row(state, b) for b in broker_ids.tolist()], np.int32)
    last = int(state.broker_id[-1]) if state.n_brokers else -1
    if last > 4 * broker_ids.size + 1024:
        at = np.searchsorted(state.broker_id, broker_ids).astype(np.int32)
        found = np.append(state.broker_id, -1)[at] == broker_ids
        return np.where(found & (at < state.n_brokers), at, -1).astype(np.int32)
    table = np.full(last + 2, -1, np.int32)
    table[state.broker_id] = np.arange(state.n_brokers)
    inside = (broker_ids >= 0) & (broker_ids <= last)
    rows: Rows = table[np.where(inside, broker_ids, last + 1)]
    return rows


def find_topics(state: ClusterState, topics: Sequence[str]) -> Rows:
    """Rows of some topics; `ArgumentError` where one is unknown, or was deleted."""
    names = arguments.check_topics("topics", topics)
    rows = state.lookup.topics(names)
    for name, row in zip(names, rows.tolist(), strict=True):
        if row < 0 or not (state.topic_flags[row] & NAMED or state.lookup.rows_of_topic(row).size):
            raise ArgumentError(f"topic {name!r} is unknown")
    return rows


def find_brokers(state: ClusterState, broker_ids: Iterable[int]) -> Rows:
    """Rows of some brokers; `ArgumentError` where an id is unknown, or no whole number."""
    ids = arguments.broker_ids("broker_ids", broker_ids)
    rows = broker_rows(state, ids)
    if ids.size and rows.min() < 0:
        unknown = ids[rows < 0][:5].tolist()
        raise ArgumentError(
            f"broker{'s' * (len(unknown) > 1)} {', '.join(map(str, unknown))}"
            f" {'are' if len(unknown) > 1 else 'is'} unknown; the cluster has"
            f" {_some_brokers(state)}; {how_to_add(unknown[0])}"
        )
    return rows


def how_to_add(broker_id: int) -> str:
    """Say how a broker that an export does not name comes into the cluster that is read from it."""
    return (
        "a broker that an export does not name comes by a brokers file, or by add_brokers"
        f" (--add-brokers {broker_id}:rack=RACK)"
    )


def _some_brokers(state: ClusterState) -> str:
    ids = state.broker_id
    if ids.size == 0:
        return "no brokers"
    shown = ", ".join(map(str, ids[:12].tolist()))
    return f"brokers {shown}" if ids.size <= 12 else f"brokers {shown}, ... {ids[-1]}"
