"""Brokers, slots and flags of a state, changed so that counters and index stay right.

The machines change rows by kernels; these serve the edges of an event and the mutators of
docs/controller.md, section 1.6, which `ClusterState` has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.arguments import possible_ids
from kfast.errors import ArgumentError
from kfast.kernels import census, hosting
from kfast.state.arrays import StateArrays
from kfast.state.records import Rows


def widen(state: StateArrays) -> None:
    """Change from the narrow to the wide layout; nothing else changes."""
    if state.layout == "wide":
        return
    records = np.zeros(state.n_partitions, schema.record_dtype(narrow=False))
    for name in records.dtype.names or ():
        records[name] = state.records[name]
    replicas = state.replicas.astype(np.int32)
    replicas[state.replicas == np.uint16(schema.NARROW_BROKERS)] = -1
    state.records, state.replicas = records, replicas
    if state.quorum is not None:
        state.quorum.widen()


def grow_slots(state: StateArrays, n_slots: int) -> None:
    """Make room for more slots per partition."""
    if n_slots > schema.MAX_SLOTS:
        raise ArgumentError(
            f"a partition would name {n_slots} brokers; at most {schema.MAX_SLOTS} are allowed"
        )
    if n_slots > schema.NARROW_SLOTS:
        widen(state)
    added = n_slots - state.n_slots
    if added > 0:
        null = -1 if state.layout == "wide" else schema.NARROW_BROKERS
        block = np.full((state.n_partitions, added), null, state.replicas.dtype)
        state.replicas = np.ascontiguousarray(np.hstack([state.replicas, block]))
        empty = np.zeros((state.n_partitions, added), np.uint8)
        state.replica_state = np.ascontiguousarray(np.hstack([state.replica_state, empty]))
        if state.quorum is not None:
            state.quorum.grow_slots(added)


def add_brokers(state: StateArrays, broker_ids: npt.ArrayLike | Iterable[int]) -> Rows:
    """Rows of some brokers; unknown ones are added, not registered. Rows of others may move."""
    ids = possible_ids("broker_ids", broker_ids)
    rows = state.broker_rows(ids)
    if rows.size and rows.min() < 0:
        _insert_brokers(state, np.unique(ids[rows < 0]).astype(np.int32))
        rows = state.broker_rows(ids)
    return rows


def _insert_brokers(state: StateArrays, new: Rows) -> None:
    merged = np.union1d(state.broker_id, new).astype(np.int32)
    if merged.size >= schema.NARROW_BROKERS:
        widen(state)
    moved = np.searchsorted(merged, state.broker_id)
    if moved.size and (moved != np.arange(moved.size)).any():
        used = np.arange(state.n_slots) < state.records["n_slots"][:, None]
        state.replicas[used] = moved[state.replicas[used]].astype(state.replicas.dtype)
        led = state.records["leader"] >= 0
        state.records["leader"][led] = moved[state.records["leader"][led]]
    status = np.zeros(merged.size, np.uint8)
    epoch = np.zeros(merged.size, np.int64)
    status[moved] = state.broker_status[: moved.size]
    epoch[moved] = state.broker_epoch[: moved.size]
    where = np.full(merged.size, -1, np.int64)
    where[moved] = np.arange(moved.size)
    state.rack = state.rack.take(pa.array(where, mask=where < 0))
    state.broker_id, state.broker_status, state.broker_epoch = merged, status, epoch
    state._index, state.survey = None, None
    if state.quorum is not None:
        state.quorum.insert_brokers(moved, merged.size)


def track(state: StateArrays, rows: Rows, brokers: Rows) -> Rows:
    """Give each broker row a slot of its partition row unless it has one; returns the slots."""
    slots = np.empty(rows.size, np.int32)
    before = state.records["n_slots"][rows]
    done = 0
    while done < rows.size:
        done += hosting.track(state.columns, rows[done:], brokers[done:], slots[done:])
        if done < rows.size:
            grow_slots(state, state.n_slots + 1)
    if state._index is not None:
        new = slots >= before
        if new.any():
            state._index.append(rows[new], brokers[new])
    return slots


def note_order(state: StateArrays, name: str, row: int, broker_ids: Sequence[int]) -> None:
    """Remember the order of an adding or removing list where it is not that of `ordered_ids`.

    Kafka makes these lists in the order of the assignment; only a hand-made one has another.
    """
    state.list_orders.pop((name, row), None)
    if tuple(broker_ids) != state.ordered_ids(row, name):
        state.list_orders[name, row] = tuple(broker_ids)


def flag_topics(state: StateArrays, rows: Rows, flag: int, value: bool = True) -> None:
    """Set or clear one flag of some topic rows.

    Queueing takes their imbalanced partitions out of the count; starting keeps the offline count
    as it is, as Kafka does.
    """
    state.forget_survey()
    queues = flag == schema.TOPIC_QUEUED and value
    fresh = rows[(state.topic_flags[rows] & flag) == 0] if queues else rows[:0]
    if fresh.size:
        parts = [state.lookup.rows_of_topic(topic) for topic in np.unique(fresh).tolist()]
        state.preferred_imbalance_count -= census.count_imbalanced(
            state.columns, np.concatenate(parts)
        )
    if value:
        state.topic_flags[rows] |= flag
    else:
        state.topic_flags[rows] &= 255 - flag
    note_queued(state)


def note_queued(state: StateArrays) -> None:
    """Note whether some topic is queued for deletion, after flags of topics changed."""
    state.any_queued = bool((state.topic_flags & schema.TOPIC_QUEUED).any())
