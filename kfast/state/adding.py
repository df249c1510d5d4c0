"""New topics and partitions in a state, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kfast import arguments, schema
from kfast.errors import ArgumentError
from kfast.schema import PartitionState
from kfast.state import freeing, mutators
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.state.cluster import ClusterState


def add_partitions(
    state: ClusterState, topics: Sequence[str], partitions: Sequence[int], *, exists: bool = True
) -> Rows:
    """Rows of some partitions; unknown ones, and unknown topics, are added without assignment."""
    topics = arguments.check_topics("topics", topics)
    numbers = arguments.whole_numbers("partitions", partitions)
    arguments.check_range("partitions", numbers, 0, arguments.MAX_INT)
    if numbers.size != len(topics):
        raise ArgumentError(f"partitions has {numbers.size} numbers for {len(topics)} topics")
    names = list(dict.fromkeys(topics))
    place = dict(zip(names, add_topics(state, names, exists=exists).tolist(), strict=True))
    topic_rows = np.asarray([place[topic] for topic in topics], np.int32)
    return add_rows(state, topic_rows, numbers.astype(np.int32))


def add_topics(state: ClusterState, topics: Sequence[str], *, exists: bool = True) -> Rows:
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
    return state.lookup.topics(topics)


def add_rows(state: ClusterState, topic_rows: Rows, partitions: Rows) -> Rows:
    """Partition rows of (topic row, partition) pairs; unknown ones are added without assignment."""
    rows = state.lookup.rows(topic_rows, partitions)
    absent = rows < 0
    if not absent.any():
        return rows
    keys = np.unique((topic_rows[absent].astype(np.int64) << 32) | partitions[absent])
    new_topics, new_partitions = (keys >> 32).astype(np.int32), keys.astype(np.int32)
    reused = freeing.take(state, new_topics, new_partitions).size
    _append_rows(state, new_topics[reused:], new_partitions[reused:])
    state._lookup = None
    return state.lookup.rows(topic_rows, partitions)


def _append_rows(state: ClusterState, topic_rows: Rows, partitions: Rows) -> None:
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


def assign(state: ClusterState, rows: Rows, lists: pa.ListArray) -> None:
    """Give partitions their first assignment; those that track a broker already go one by one.

    Parameters
    ----------
    rows : (n,) int32
        Partition rows, each once.
    lists : (n,) list of int32
        Broker ids, each once within a list.
    """
    state.forget_survey()
    used = state.records["n_slots"][rows] > 0
    for at in np.flatnonzero(used).tolist():
        state.set_assignment(int(rows[at]), lists[at].as_py())
    fresh, rows = lists.filter(pa.array(~used)), rows[~used]
    lengths = np.diff(fresh.offsets.to_numpy())
    values = fresh.flatten().to_numpy()
    brokers = mutators.add_brokers(state, values)
    mutators.grow_slots(state, int(lengths.max(initial=1)))
    owner = np.repeat(rows, lengths).astype(np.int32)
    slot = np.arange(values.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    state.replicas[owner, slot] = brokers
    state.records["n_replicas"][rows] = state.records["n_slots"][rows] = lengths
    state.records["flags"][rows] |= schema.FLAG_ASSIGNED
    if state._index is not None:
        state._index.append(owner, brokers)
