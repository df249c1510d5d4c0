"""A load table beside a cluster: its topics, partitions and brokers as rows of the state.

Source: docs/capacity.md, section "Loads and capacities".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import plural
from kfast.capacity.loads.shares import Amounts, deal
from kfast.errors import InputError
from kfast.io.files import abbreviate
from kfast.io.loads import LoadTable
from kfast.io.loads.tables import encoded
from kfast.state import ClusterState
from kfast.state.records import EMPTY_ROWS, Rows

__all__ = ["Groups", "JoinedTable", "group_partitions", "join_table", "note_unknown_topics"]

VALUES = (
    "bytes_in", "bytes_out", "milli_msgs_in", "cpu_microcores", "disk_bytes", "replicated_bytes",
)
UNKNOWN = -1
INTERNAL = "__"
"""Topics of this prefix are in every cluster."""
SHOWN = 3
"""So many examples a sentence names."""


@dataclass(frozen=True)
class Groups:
    """The partitions of a cluster, topic after topic, in the order of their numbers.

    Parameters
    ----------
    rows : (p,) int32
        Partition rows.
    topic : (p,) int64
        Topic row of each.
    starts : (T + 1,) int64
        Where each topic begins.
    """

    rows: Rows
    topic: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """(T,) partitions of each topic."""
        counts: npt.NDArray[np.int64] = np.diff(self.starts)
        return counts


def group_partitions(state: ClusterState) -> Groups:
    """Group the partitions of a cluster by topic."""
    lookup = state.lookup
    rows, topic = lookup.order, lookup.keys >> 32
    if lookup.gone is not None:
        in_use = ~lookup.gone[rows]
        rows, topic = rows[in_use], topic[in_use]
    starts = np.searchsorted(topic, np.arange(state.n_topics + 1))
    return Groups(rows, topic, starts)


@dataclass(frozen=True)
class JoinedTable:
    """Rows of a load table that speak of the cluster.

    Parameters
    ----------
    source : str
    topic, partition, broker : (n,) int32
        Rows of the state, -1 for none: a whole topic, a whole broker, no broker.
    values : dict of str to (n,) int64
        -1 where the source does not say.
    log_dir : (n,) int32 or None
        Place of the directory in `directories`, -1 for none.
    directories : tuple of str
    notes : tuple of str
        What was left out.
    warnings : tuple of str
        Where the source contradicts itself.
    """

    source: str
    topic: Rows
    partition: Rows
    broker: Rows
    values: dict[str, Amounts]
    log_dir: Rows | None
    directories: tuple[str, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]

    def only(self, keep: npt.NDArray[np.bool_]) -> JoinedTable:
        """The same with some of the rows."""
        return replace(
            self, topic=self.topic[keep], partition=self.partition[keep],
            broker=self.broker[keep],
            values={name: column[keep] for name, column in self.values.items()},
            log_dir=None if self.log_dir is None else self.log_dir[keep],
        )

    def rows_with(self, name: str, *, partition: bool, broker: bool | None = None) -> Rows:
        """Rows of a topic that have a value, with or without a partition or a broker."""
        if name not in self.values:
            return EMPTY_ROWS
        selected = self.values[name] >= 0
        selected &= self.topic >= 0
        selected &= (self.partition >= 0) == partition
        if broker is not None:
            selected &= (self.broker >= 0) == broker
        return np.flatnonzero(selected).astype(np.int32)


def join_table(state: ClusterState, groups: Groups, table: LoadTable) -> JoinedTable:
    """Find topics, partitions and brokers of a load in a cluster.

    Raises
    ------
    InputError
        It names topics, but none that the cluster has, apart from Kafka's own.
    """
    if table.folds_names and "topic" in table.rows.column_names:
        table = _unfold(state, groups, table)
    rows, notes = table.rows, list(table.assumptions)
    n = rows.num_rows
    numbers, ids = _numbers(rows, "partition", np.int32), _numbers(rows, "broker_id", np.int32)
    broker = state.broker_rows(ids) if ids.max(initial=-1) >= 0 else np.full(n, -1, np.int32)
    keep = (ids < 0) | (broker >= 0)
    if not keep.all():
        unknown = np.unique(ids[~keep]).tolist()
        notes.append(
            f"{table.source}: brokers that the cluster does not have are left out:"
            f" {abbreviate(unknown)}"
        )
    topic = np.full(n, -1, np.int32)
    if "topic" in rows.column_names:
        names = encoded(rows["topic"])
        rows_of_names = _find_topics(state, groups, table.source, names.dictionary, notes)
        named = _numbers(pa.table({"topic": names.indices}), "topic", np.int32)
        topic = np.where(named < 0, -1, np.append(rows_of_names, -1)[named]).astype(np.int32)
        keep &= (topic >= 0) | (named < 0)
    partition = np.full(n, -1, np.int32)
    named_rows = np.flatnonzero((numbers >= 0) & (topic >= 0))
    if named_rows.size:
        partition[named_rows] = _find_partitions(
            state, groups, topic[named_rows], numbers[named_rows]
        )
        absent = named_rows[partition[named_rows] < 0]
        keep[absent] = False
        if absent.size:
            shown = [f"{rows['topic'][i]}-{numbers[i]}" for i in absent.tolist()[:SHOWN]]
            more = f" and {absent.size - SHOWN} more" if absent.size > SHOWN else ""
            notes.append(
                f"{table.source}: partitions that the cluster does not have are left out:"
                f" {', '.join(shown)}{more}"
            )
    values = {name: _numbers(rows, name, np.int64) for name in VALUES if name in rows.column_names}
    log_dir, directories = _directories(rows)
    joined = JoinedTable(
        table.source, topic, partition, broker, values, log_dir, directories, tuple(notes),
        table.warnings,
    )
    return joined if keep.all() else joined.only(keep)


def _numbers(rows: pa.Table, name: str, kind: type) -> npt.NDArray[Any]:
    """A column of integers, -1 where it is null or missing."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, UNKNOWN, kind)
    column = rows[name]
    if column.null_count:
        column = pc.fill_null(column, UNKNOWN)
    values: npt.NDArray[Any] = column.to_numpy().astype(kind, copy=False)
    return values


def _find_topics(
    state: ClusterState, groups: Groups, source: str, names: pa.StringArray, notes: list[str]
) -> Rows:
    """Topic rows of some names, -1 for none.

    Raises
    ------
    InputError
        None of them is in the cluster, apart from Kafka's own.
    """
    places = pc.index_in(names, value_set=state.topic)
    rows = np.array(pc.fill_null(places, -1), np.int32)
    rows[np.append(groups.counts, 0)[rows] == 0] = -1
    known = rows >= 0
    if not known.all():
        examples = state.topic.take(pa.array(np.flatnonzero(groups.counts > 0)[:SHOWN])).to_pylist()
        notes.append(note_unknown_topics(source, names, pa.array(known), examples))
    return rows


def note_unknown_topics(
    source: str, names: pa.StringArray, known: pa.BooleanArray, examples: Sequence[str]
) -> str:
    """A sentence on topics of a load, some of which the cluster does not have.

    Parameters
    ----------
    source : str
    names : pa.StringArray
        Topics of the load.
    known : pa.BooleanArray
        Whether the cluster has each.
    examples : sequence of str
        Some topics of the cluster.

    Raises
    ------
    InputError
        It has none of them, apart from Kafka's own.
    """
    unknown = names.filter(pc.invert(known)).to_pylist()
    users = [name for name in names.to_pylist() if not name.startswith(INTERNAL)]
    if len(unknown) == len(names) or (users and set(users) <= set(unknown)):
        raise InputError(
            f"{source}: a load of another cluster: none of its topics"
            f" ({abbreviate(users or unknown, SHOWN)}) is in this one, which has"
            f" {', '.join(examples) or 'none'}"
        )
    return f"{source}: topics that the cluster does not have are left out: {abbreviate(unknown)}"


def _find_partitions(state: ClusterState, groups: Groups, topic: Rows, number: Rows) -> Rows:
    """Partition rows of topic rows and numbers, -1 for none.

    Partition n of a topic stands in place n, unless the topic lacks a number before it.
    """
    at = groups.starts[topic] + number
    inside = at < groups.starts[topic + 1]
    rows = groups.rows[np.where(inside, at, 0)]
    elsewhere = np.flatnonzero(~inside | (state.partition[rows] != number))
    if elsewhere.size:
        rows[elsewhere] = state.lookup.rows(topic[elsewhere], number[elsewhere])
    return rows


def _directories(rows: pa.Table) -> tuple[Rows | None, tuple[str, ...]]:
    """Place of each row's directory in a list of them."""
    if "log_dir" not in rows.column_names:
        return None, ()
    column = encoded(rows["log_dir"])
    places = pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False)
    return places, tuple(column.dictionary.to_pylist())


def _unfold(state: ClusterState, groups: Groups, table: LoadTable) -> LoadTable:
    """A table whose exporter may have written `_` for `.`, with the topics of the cluster.

    A name is matched as it is first. Where no name of the file has a dot, one stands for every
    topic that folds to it: they share its values by their partitions.
    """
    counts = dict(zip(state.topic.to_pylist(), groups.counts.tolist(), strict=True))
    named = [name for name in pc.unique(table.rows["topic"]).to_pylist() if name is not None]
    dotted = any("." in name for name in named)
    folded: dict[str, list[str]] = defaultdict(list)
    for topic, n in counts.items():
        if n and not (dotted and topic in named):
            folded[topic.replace(".", "_")].append(topic)
    meant = {
        name: [name] if dotted and counts.get(name) else folded.get(name, [name]) for name in named
    }
    if all(topics == [name] for name, topics in meant.items()):
        return table
    rows: list[dict[str, Any]] = []
    n_ambiguous = 0
    for row in table.rows.to_pylist():
        topics = meant.get(row["topic"], [row["topic"]])
        if len(topics) > 1 and row.get("partition") is not None:
            n_ambiguous += 1
            continue
        weights = np.array([counts.get(topic, 1) for topic in topics], np.int64)
        shares = {
            name: _shared(row[name], weights) for name in VALUES if row.get(name) is not None
        }
        for at, topic in enumerate(topics):
            rows.append(row | {"topic": topic} | {key: part[at] for key, part in shares.items()})
    several = sorted(name for name, topics in meant.items() if len(topics) > 1)
    renamed = sorted(name for name, (topic, *more) in meant.items() if not more and topic != name)
    notes = list(table.assumptions)
    if renamed:
        notes.append(
            f"{table.source}: taken for topics with a dot in place of an underscore:"
            f" {abbreviate(renamed)}"
        )
    if several:
        notes.append(
            f"{table.source}: names that several topics fold to are shared by their partitions:"
            f" {abbreviate(several)}"
        )
    if n_ambiguous:
        notes.append(
            f"{table.source}: left out: {plural(n_ambiguous, 'partition')} of such names"
        )
    kind = table.rows.schema
    kind = kind.set(kind.get_field_index("topic"), pa.field("topic", pa.string()))
    unfolded = pa.Table.from_pylist(rows, schema=kind)
    return replace(table, rows=unfolded, folds_names=False, assumptions=tuple(notes))


def _shared(total: int, weights: Amounts) -> list[int]:
    """A total in proportion to weights."""
    shares: list[int] = deal(np.array([total]), weights, np.array([weights.size])).tolist()
    return shares
