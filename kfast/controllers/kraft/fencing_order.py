"""How much depends on which of the brokers that fail together is fenced first.

Partitions are independent, and of a partition only the order of its own failed replicas matters.
So one partition of each kind is taken, and its replicas are fenced in every order, by the kernels
that events use; then it is put back. The count is exact up to 10 failed replicas of a partition.

Source: docs/kraft.md, sections 5 and 6.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.kernels import partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.state import ClusterState
from kfast.state.changes import Visited
from kfast.state.record_application import apply_changes, quorum_columns, quorum_rules
from kfast.state.records import Rows, Slots
from kfast.state.registrations import PartitionRegistration, quorum_of, set_registration

MOST_KINDS = 1 << 62
MOST_IN_EVERY_ORDER = 10
"""Of more failed replicas of one partition, those orders are tried in which always the first or the
last one of those that are left is next: the count is then a lower bound."""


def count_order_dependent(state: ClusterState, broker_ids: Sequence[int]) -> int:
    """Partitions whose leader, ISR, ELR or last known leader depends on who is fenced first."""
    if len(broker_ids) < 2:
        return 0
    hosted = state.replicas_on(state.find_brokers(broker_ids))
    shared = (hosted.slots & (hosted.slots - np.uint64(1))) != 0
    rows, failing = hosted.rows[shared], hosted.slots[shared]
    if not rows.size:
        return 0
    kinds = _kinds(state, rows, failing)
    grouped = kinds.append_column("place", pa.array(np.arange(rows.size))).group_by(
        kinds.column_names
    ).aggregate([("place", "min"), ("place", "count")])
    return sum(
        count
        for at, count in zip(
            grouped["place_min"].to_pylist(), grouped["place_count"].to_pylist(), strict=True
        )
        if _depends(state, int(rows[at]), int(failing[at]))
    )


def _kinds(state: ClusterState, rows: Rows, failing: Slots) -> pa.Table:
    """All that fencing asks about each row, with slots for brokers."""
    quorum, records = quorum_of(state), state.records.take(rows)
    topics = state.topic_row[rows]
    columns = [
        failing, state.live_slots(rows), _online(state, rows),
        _slot_of(state, rows, records["leader"]), quorum.min_isr_of(topics),
        quorum.unclean_leader_election[topics], records["flags"] & schema.FLAG_RECOVERY,
        *(records[name].copy() for name in ("n_replicas", "isr", "adding", "removing")),
    ]
    if quorum.elr is not None and quorum.last_known_elr is not None:
        columns += [quorum.elr[rows], _slot_of(state, rows, quorum.last_known_elr[rows])]
    return pa.table({str(at): column for at, column in enumerate(columns)})


def _slot_of(state: ClusterState, rows: Rows, brokers: Rows) -> npt.NDArray[np.int64]:
    """Slot of one broker of each row; behind all slots where it is in none, below 0 for no one."""
    held = state.replicas[rows].astype(np.int64) == brokers[:, np.newaxis]
    slot = np.where(held.any(axis=1), held.argmax(axis=1), state.n_slots)
    return np.where(brokers < 0, brokers, slot)


def _online(state: ClusterState, rows: Rows) -> Slots:
    """Slots of each row whose directory is online (section 1.1)."""
    quorum = quorum_of(state)
    masks = ~np.zeros(rows.size, np.uint64)
    if quorum.directory is None:
        return masks
    pairs = np.stack([state.replicas[rows].astype(np.int64), quorum.directory[rows]], axis=2)
    distinct, which = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    texts = quorum.directory_ids
    offline = np.array([
        directory >= 0 and not quorum.has_online_directory(broker, texts[directory])
        for broker, directory in distinct.tolist()
    ])[which.reshape(rows.size, -1)]
    for slot in range(state.n_slots):
        masks[offline[:, slot]] &= ~(np.uint64(1) << np.uint64(slot))
    return masks


def _depends(state: ClusterState, row: int, failing: int) -> bool:
    """Whether fencing the failing slots of a row in another order gives another partition.

    What comes next follows from who is fenced by then and what the partition is, so each such pair
    is taken up once, whatever the order that led to it.
    """
    brokers = [
        broker for slot, broker in enumerate(state.replicas[row].tolist()) if failing >> slot & 1
    ]
    before = state.registration(row)
    ends: set[tuple[Any, ...]] = set()
    seen: set[tuple[Any, ...]] = set()
    unfinished: list[tuple[tuple[int, ...], PartitionRegistration]] = [((), before)]
    while unfinished and len(ends) < 2:
        fenced, partition = unfinished.pop()
        left = [broker for broker in brokers if broker not in fenced]
        if not left:
            ends.add(_outcome(partition))
        for broker in left if len(brokers) <= MOST_IN_EVERY_ORDER else {*left[:1], *left[-1:]}:
            after = _fence(state, row, partition, fenced, broker)
            by_then = tuple(sorted((*fenced, broker)))
            if (key := (by_then, _outcome(after), after.replicas)) not in seen:
                seen.add(key)
                unfinished.append((by_then, after))
    set_registration(state, row, before)
    return len(ends) > 1


def _outcome(partition: PartitionRegistration) -> tuple[Any, ...]:
    """Leader, ISR, ELR and last known leader."""
    return (
        partition.leader, frozenset(partition.isr), frozenset(partition.elr),
        partition.last_known_elr,
    )


def _fence(
    state: ClusterState, row: int, partition: PartitionRegistration, fenced: tuple[int, ...],
    broker: int,
) -> PartitionRegistration:
    """What a partition is once one more broker is fenced; the row is left as it is then."""
    set_registration(state, row, partition)
    state.broker_status[list(fenced)] |= schema.BROKER_FENCED
    log = ChangeLog()
    partition_changes.update(
        quorum_columns(state), quorum_rules(state), np.array([row], np.int32), Visited.IN_ISR,
        broker, -1, -1, log,
    )
    apply_changes(state, log)
    state.broker_status[list(fenced)] &= 255 - schema.BROKER_FENCED
    return state.registration(row)
