"""Whether two states are equal, where they differ, and a digest of one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.errors import ArgumentError
from kfast.kernels import digests
from kfast.kernels.quorum_columns import QuorumColumns
from kfast.state.arrays import StateArrays
from kfast.state.metadata_records import ResourceType
from kfast.state.partition_rows import present_topics
from kfast.state.quorum import Quorum
from kfast.state.records import Rows
from kfast.state.tables import to_tables

SETS = {name: name for name in ("isr", "adding", "removing", "offline_dir")} | {
    "replica_states": "replica_state_broker_ids",
    "replica_state_broker_ids": "replica_state_broker_ids",
}
"""List columns whose order says nothing, and the ids that they are compared in the order of."""
WORD = (1 << 64) - 1
"""Sums are taken modulo 2**64."""
KRAFT_LISTS = ("isr", "adding", "removing")
"""Those of them whose order counts in KRaft, whose records repeat it."""


def _in_one(table: pa.Table, name: str) -> pa.ListArray:
    column = table.column(name).combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _normal(table: pa.Table, name: str, is_kraft: bool) -> pa.Table:
    """The table in the order of its keys, lists that are sets sorted."""
    if name == "topics":
        return table.sort_by("topic")
    if name != "partitions":
        return table
    table = table.sort_by([("topic", "ascending"), ("partition", "ascending")])
    for column, key in SETS.items():
        if is_kraft and column in KRAFT_LISTS:
            continue
        ids, values = _in_one(table, key), _in_one(table, column)
        owner = np.repeat(np.arange(len(ids)), np.diff(ids.offsets.to_numpy()))
        order = pa.array(np.lexsort((ids.values.to_numpy(), owner)))
        ordered = pa.ListArray.from_arrays(values.offsets, values.values.take(order))
        table = table.set_column(table.column_names.index(column), column, ordered)
    return table


def _first_difference(ours: pa.Table, theirs: pa.Table, name: str) -> str | None:
    if ours.num_rows != theirs.num_rows:
        return f"{name}: {ours.num_rows} rows against {theirs.num_rows}"
    found: tuple[int, str] | None = None
    for column in ours.column_names:
        left, right = ours.column(column), theirs.column(column)
        if left.equals(right):
            continue
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        row = next(i for i, (a, b) in enumerate(pairs) if a != b)
        if found is None or row < found[0]:
            found = (row, column)
    if found is None:
        return None
    row, column = found
    key_columns = ours.column_names[: 2 if name == "partitions" else 1]
    keys = [ours.column(key)[row].as_py() for key in key_columns]
    return (
        f"{name} row {row} ({'-'.join(map(str, keys))}), column {column}: "
        f"{ours.column(column)[row].as_py()} against {theirs.column(column)[row].as_py()}"
    )


def difference(state: StateArrays, other: StateArrays) -> str | None:
    """See `ClusterState.difference`."""
    ours, theirs = to_tables(state), to_tables(other)
    for name in ("cluster", "brokers", "topics", "partitions"):
        found = _first_difference(
            _normal(getattr(ours, name), name, state.is_kraft),
            _normal(getattr(theirs, name), name, other.is_kraft), name,
        )
        if found is not None:
            return found
    return None


@dataclass(frozen=True)
class DigestParts:
    """What a digest is made of; those of the parts of one cluster can be put together.

    Attributes
    ----------
    partitions, topics : int
        Sums over rows, modulo 2**64, in whatever order.
    brokers : bytes
        Ids, states and epochs of the brokers that are registered or shutting down.
    controller : tuple of int
        Controller id, controller epoch and version of the stored epoch.
    offline_partition_count, preferred_imbalance_count, unclean_elections : int
    """

    partitions: int
    topics: int
    brokers: bytes
    controller: tuple[int, int, int]
    offline_partition_count: int
    preferred_imbalance_count: int
    unclean_elections: int

    def together(self) -> int:
        """One number (64 bits)."""
        parts = hashlib.blake2b(digest_size=8)
        parts.update(self.partitions.to_bytes(8, "little"))
        parts.update(self.topics.to_bytes(8, "little"))
        parts.update(self.brokers)
        scalars = (
            *self.controller, self.offline_partition_count, self.preferred_imbalance_count,
            self.unclean_elections,
        )
        parts.update(repr(scalars).encode())
        return int.from_bytes(parts.digest(), "little")


def join_digests(parts: Sequence[DigestParts], unclean_before: int = 0) -> DigestParts:
    """Digest of a cluster from those of its shards, each of which holds whole topics.

    Parameters
    ----------
    parts : sequence of DigestParts
        At least one. All shards know all brokers, and had the same events.
    unclean_before : int
        The cluster's counter of unclean elections that every shard began with.

    Raises
    ------
    ArgumentError
        The brokers or the controllers of two shards differ.
    """
    first = parts[0]
    for number, part in enumerate(parts):
        if (part.brokers, part.controller) != (first.brokers, first.controller):
            raise ArgumentError(
                f"shard {number} has other brokers or another controller than shard 0: they are"
                " not shards of one cluster"
            )
    return replace(
        first,
        partitions=sum(part.partitions for part in parts) & WORD,
        topics=sum(part.topics for part in parts) & WORD,
        offline_partition_count=sum(part.offline_partition_count for part in parts),
        preferred_imbalance_count=sum(part.preferred_imbalance_count for part in parts),
        unclean_elections=unclean_before
        + sum(part.unclean_elections - unclean_before for part in parts),
    )


def digest_parts(state: StateArrays) -> DigestParts:
    """What `ClusterState.digest` is made of."""
    broker_id = state.broker_id if state.n_brokers else np.zeros(1, np.int32)
    topics = _digest_texts(state.topic)
    partitions = int(digests.digest(state.columns, broker_id, topics))
    known = state.registered | state.shutting_down
    brokers = (
        state.broker_id[known].astype("<i4").tobytes()
        + state.broker_status[: state.n_brokers][known].tobytes()
        + state.broker_epoch[known].astype("<i8").tobytes()
    )
    of_topics = _digest_topics(state, topics)
    if state.quorum is not None:
        partitions += _digest_quorum_rows(state, state.quorum, broker_id, topics)
        of_topics += _digest_topic_configurations(state, state.quorum)
        brokers += _describe_quorum(state, state.quorum, known)
    return DigestParts(
        partitions & WORD, of_topics & WORD, brokers,
        (state.controller_id, state.controller_epoch, state.epoch_store_version),
        state.offline_partition_count, state.preferred_imbalance_count, state.unclean_elections,
    )


def _digest_quorum_rows(
    state: StateArrays, quorum: Quorum, broker_id: Rows, topics: npt.NDArray[np.uint64]
) -> int:
    """Digest of what only KRaft has of partitions."""
    cold = quorum.elr, quorum.last_known_elr, quorum.member_order, quorum.directory
    columns = QuorumColumns(state.columns, broker_id, *cold)
    directories = _digest_texts(pa.array(quorum.directory_ids, pa.string()))
    return digests.digest_quorum(columns, state.partition, topics, directories)


def _digest_topic_configurations(state: StateArrays, quorum: Quorum) -> int:
    """Digest of the configurations of topics that are here, whatever their order."""
    values = {
        name: of_topic for (kind, name), of_topic in quorum.configurations.items()
        if kind == ResourceType.TOPIC
    }
    names = pa.array(values, pa.string())
    here = names.filter(pc.is_in(names, value_set=state.topic)).to_pylist()
    texts = [repr((name, sorted(values[name].items()))) for name in here]
    return sum(_digest_texts(pa.array(texts, pa.string())).tolist())


def _describe_quorum(state: StateArrays, quorum: Quorum, known: npt.NDArray[np.bool_]) -> bytes:
    """All that a KRaft cluster has beside topics and partitions, of the brokers that are known."""
    of_brokers = [
        (
            quorum.incarnation_id[row], quorum.directories[row], quorum.cordoned[row],
            sorted(quorum.feature_ranges[row].items()), int(quorum.registration_offset[row]),
        )
        for row in np.flatnonzero(known).tolist()
    ]
    configurations = sorted(
        (int(kind), name, sorted(values.items()))
        for (kind, name), values in quorum.configurations.items() if kind != ResourceType.TOPIC
    )
    return repr((
        state.controller, sorted(quorum.features.items()), configurations,
        sorted(quorum.static_configuration.items()), of_brokers,
    )).encode()


def _digest_texts(texts: pa.StringArray) -> npt.NDArray[np.uint64]:
    """(n,) digest of each text."""
    texts = texts if texts.offset == 0 else pa.concat_arrays([texts])
    sums = np.zeros(max(len(texts), 1), np.uint64)
    if len(texts):
        buffers = texts.buffers()
        offsets = np.frombuffer(buffers[1], np.int32, len(texts) + 1)
        data = np.frombuffer(buffers[2] or b"\0", np.uint8)
        digests.digest_bytes(offsets, data, sums[: len(texts)])
    return sums


def _digest_topics(state: StateArrays, names: np.ndarray) -> int:
    """Digest of the topics' own columns, whatever their order."""
    if state.n_topics == 0:
        return 0
    word = names[: state.n_topics].copy()
    with np.errstate(over="ignore"):
        for column in (
            state.topic_flags[: state.n_topics], state.topic_unclean_leader_election,
            state.topic_min_insync_replicas,
        ):
            word ^= column.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            word *= np.uint64(0xBF58476D1CE4E5B9)
            word ^= word >> np.uint64(29)
        return int(word[present_topics(state)].sum(dtype=np.uint64))
