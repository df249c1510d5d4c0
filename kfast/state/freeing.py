"""Rows whose partition is gone: they keep their place, and new partitions take them.

A row is free when nothing of its partition is left: no assignment, no leadership, no state of a
replica, no offline directory. Freeing moves no other row; `compact` does, on request. Neither
changes the digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.kernels import deletion
from kfast.state import queries
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.state.cluster import ClusterState

NO_PARTITION = -1
"""Partition number of a free row."""


def free(state: ClusterState, rows: Rows) -> None:
    """Free those of some rows of which nothing is left."""
    freed = np.empty(rows.size, np.int32)
    state.forget_survey()
    n = deletion.free_partitions(state.columns, rows, freed)
    state.free_rows = np.concatenate([state.free_rows, freed[:n]])
    for key in [key for key in state.odd_orders if state.partition[key[1]] == NO_PARTITION]:
        del state.odd_orders[key]
    if state._lookup is not None:
        state._lookup = state._lookup.without(freed[:n])


def take(state: ClusterState, topic_rows: Rows, partitions: Rows) -> Rows:
    """Give free rows, as far as there are any, to the first of some new partitions."""
    n = min(state.free_rows.size, partitions.size)
    rows: Rows = state.free_rows[:n]
    state.free_rows = state.free_rows[n:]
    state.topic_row[rows] = topic_rows[:n]
    state.partition[rows] = partitions[:n]
    return rows


def used_rows(state: ClusterState) -> Rows:
    """All rows that are not free, ascending."""
    if not state.free_rows.size:
        return np.arange(state.n_partitions, dtype=np.int32)
    return np.flatnonzero(state.partition != NO_PARTITION).astype(np.int32)


def present_topics(state: ClusterState) -> npt.NDArray[np.bool_]:
    """(T,) which topics say anything: by a flag, an override, or a row."""
    flags = state.topic_flags[: state.n_topics]
    present: npt.NDArray[np.bool_] = (flags & queries.NAMED) != 0
    if present.all():
        return present
    present |= state.topic_unclean_leader_election >= 0
    present |= state.topic_min_insync_replicas >= 0
    present[state.topic_row[used_rows(state)]] = True
    return present


def compact(state: ClusterState) -> Rows:
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
    state.odd_orders = {
        (field, int(np.searchsorted(kept, row))): ids
        for (field, row), ids in state.odd_orders.items()
    }
    state.unwritten_assignments = {
        int(np.searchsorted(kept, row)): ids for row, ids in state.unwritten_assignments.items()
    }
    state.reassignment_targets = {
        int(np.searchsorted(kept, row)): ids for row, ids in state.reassignment_targets.items()
    }
    state.free_rows = np.empty(0, np.int32)
    state._index, state._lookup = None, None
    offline, imbalanced = state.offline_partition_count, state.preferred_imbalance_count
    state.recount()
    state.offline_partition_count, state.preferred_imbalance_count = offline, imbalanced
    return kept
