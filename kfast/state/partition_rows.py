"""Rows of partitions and topics: those that are added, and those whose partition is gone.

A row is free when nothing of its partition is left: no assignment, no leadership, no state of a
replica, no offline directory. Freeing moves no other row, and new partitions take the place first;
`compact` moves rows, on request. Neither changes the digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.kernels import deletion
from kfast.schema import PartitionState
from kfast.state.arrays import NAMED, StateArrays
from kfast.state.records import EMPTY_ROWS, Rows

State = TypeVar("State", bound=StateArrays)

NO_PARTITION = -1
"""Partition number of a free row."""


def add_topics(state: StateArrays, topics: Sequence[str], *, exists: bool = True) -> Rows:
    """Rows of some topics, each named once; unknown ones are added."""
    known = state.lookup.topics(topics)
    missing = [name for name, row in zip(topics, known.tolist(), strict=True) if row < 0]
    if not missing:
        return known
    before, n = state.n_topics, len(missing)
    flags = schema.TOPIC_EXISTS if exists else 0
    flags |= schema.TOPIC_UNCLEAN if state.default_unclean_leader_election else 0
    state.topic_flags = np.append(state.topic_flags[:before], np.full(n, flags, np.uint8))
    state.topic = pa.concat_arrays([state.topic, pa.array(missing, pa.string())])
    state.topic_id = pa.concat_arrays([state.topic_id, pa.nulls(n, pa.string())])
    state.topic_unclean_leader_election = np.append(
        state.topic_unclean_leader_election, np.full(n, -1, np.int8)
    )
    state.topic_min_insync_replicas = np.append(
        state.topic_min_insync_replicas, np.full(n, -1, np.int32)
    )
    state._lookup = None
    if state.quorum is not None:
        state.quorum.forget_topics()
    return state.lookup.topics(topics)


def add_rows(state: StateArrays, topic_rows: Rows, partitions: Rows) -> Rows:
    """Partition rows of (topic row, partition) pairs; unknown ones are added without assignment."""
    rows = state.lookup.rows(topic_rows, partitions)
    absent = rows < 0
    if not absent.any():
        return rows
    keys = np.unique((topic_rows[absent].astype(np.int64) << 32) | partitions[absent])
    new_topics, new_partitions = (keys >> 32).astype(np.int32), keys.astype(np.int32)
    reused = take(state, new_topics, new_partitions).size
    _append_rows(state, new_topics[reused:], new_partitions[reused:])
    state._lookup = None
    if state.quorum is not None:
        state.quorum.append_rows(new_partitions.size - reused)
    return state.lookup.rows(topic_rows, partitions)


def _append_rows(state: StateArrays, topic_rows: Rows, partitions: Rows) -> None:
    n = partitions.size
    if not n:
        return
    null = -1 if state.layout == "wide" else schema.NARROW_BROKERS
    records = np.zeros(n, state.records.dtype)
    records["leader"] = schema.NO_LEADER
    records["partition_state"] = PartitionState.NO_ENTRY
    state.records = np.concatenate([state.records, records])
    block = np.full((n, state.n_slots), null, state.replicas.dtype)
    state.replicas = np.concatenate([state.replicas, block])
    empty = np.zeros((n, state.n_slots), np.uint8)
    state.replica_state = np.concatenate([state.replica_state, empty])
    state.topic_row = np.concatenate([state.topic_row, topic_rows])
    state.partition = np.concatenate([state.partition, partitions])
    for name in ("leader_offline", "pending"):
        bits, old = state.new_bitmap(), getattr(state, name)
        bits[: old.size] = old
        setattr(state, name, bits)


def free(state: StateArrays, rows: Rows) -> None:
    """Free those of some rows of which nothing is left."""
    freed = np.empty(rows.size, np.int32)
    state.forget_survey()
    n = deletion.free_partitions(state.columns, rows, freed)
    state.free_rows = np.concatenate([state.free_rows, freed[:n]])
    if state.quorum is not None:
        state.quorum.clear_rows(freed[:n])
    for key in [key for key in state.list_orders if state.partition[key[1]] == NO_PARTITION]:
        del state.list_orders[key]
    if state._lookup is not None:
        state._lookup = state._lookup.without(freed[:n])


def take(state: StateArrays, topic_rows: Rows, partitions: Rows) -> Rows:
    """Give free rows, as far as there are any, to the first of some new partitions."""
    n = min(state.free_rows.size, partitions.size)
    rows: Rows = state.free_rows[:n]
    state.free_rows = state.free_rows[n:]
    state.topic_row[rows] = topic_rows[:n]
    state.partition[rows] = partitions[:n]
    return rows


def used_rows(state: StateArrays) -> Rows:
    """All rows that are not free, ascending."""
    if not state.free_rows.size:
        return np.arange(state.n_partitions, dtype=np.int32)
    return np.flatnonzero(state.partition != NO_PARTITION).astype(np.int32)


def present_topics(state: StateArrays) -> npt.NDArray[np.bool_]:
    """(T,) which topics say anything: by a flag, an override, or a row."""
    flags = state.topic_flags[: state.n_topics]
    present: npt.NDArray[np.bool_] = (flags & NAMED) != 0
    if present.all():
        return present
    present |= state.topic_unclean_leader_election >= 0
    present |= state.topic_min_insync_replicas >= 0
    present[state.topic_row[used_rows(state)]] = True
    return present


def compact(state: StateArrays) -> Rows:
    """Give the space of free rows and forgotten topics back; rows move up."""
    kept = used_rows(state)
    topics = np.flatnonzero(present_topics(state))
    moved = np.full(max(state.n_topics, 1), -1, np.int32)
    moved[topics] = np.arange(topics.size)
    state.records, state.replicas = state.records.take(kept), state.replicas[kept]
    state.replica_state = state.replica_state[kept]
    state.topic_row, state.partition = moved[state.topic_row[kept]], state.partition[kept]
    chosen = pa.array(topics)
    state.topic, state.topic_id = state.topic.take(chosen), state.topic_id.take(chosen)
    state.topic_flags = state.topic_flags[topics]
    state.topic_unclean_leader_election = state.topic_unclean_leader_election[topics]
    state.topic_min_insync_replicas = state.topic_min_insync_replicas[topics]
    state.list_orders = {
        (field, int(np.searchsorted(kept, row))): ids
        for (field, row), ids in state.list_orders.items()
    }
    state.unwritten_assignments = {
        int(np.searchsorted(kept, row)): ids for row, ids in state.unwritten_assignments.items()
    }
    state.reassignment_targets = {
        int(np.searchsorted(kept, row)): ids for row, ids in state.reassignment_targets.items()
    }
    state.free_rows = EMPTY_ROWS
    state._index, state._lookup = None, None
    if state.quorum is not None:
        state.quorum.take_rows(kept)
    offline, imbalanced = state.offline_partition_count, state.preferred_imbalance_count
    state.recount()
    state.offline_partition_count, state.preferred_imbalance_count = offline, imbalanced
    return kept


def without_free_rows(state: State) -> State:
    """The state itself, or a compacted copy where it has free rows."""
    if state.free_rows.size:
        state = state.copy()
        compact(state)
    return state
