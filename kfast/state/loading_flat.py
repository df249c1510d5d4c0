"""From a flat table of partitions to a `ClusterState`, without lists.

What a flat table says must be as kfast writes it: rows in order, brokers listed, nothing null.
Any other is turned into the form with lists, whose loader takes it or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kfast import schema
from kfast.kernels import census
from kfast.state import flat, loading, mutators
from kfast.state.cluster import ClusterState
from kfast.state.columns import Columns
from kfast.state.flat import BLOCK_ROWS
from kfast.state.records import Rows


class TableRows:
    """A flat Arrow table without nulls, read some rows at a time.

    Attributes
    ----------
    names : sequence of str
        Its columns.
    n_rows : int
    topics : pa.StringArray
        Names that the column of topics has places in.
    """

    def __init__(self, table: pa.Table, source: str | None) -> None:
        wanted = flat.flat_schema(table.column_names)
        rows = Columns(table, wanted, "partitions", source)
        topic = rows.dictionary("topic")
        self.names: Sequence[str] = table.column_names
        self.n_rows = table.num_rows
        self.topics: pa.StringArray = topic.dictionary
        self._columns = {name: rows.integers(name, 0) for name in wanted.names if name != "topic"}
        self._columns["topic"] = topic.indices.to_numpy(zero_copy_only=False)

    def read(self) -> Iterator[Mapping[str, Rows]]:
        """All columns of the next `BLOCK_ROWS` rows, int32."""
        for start in range(0, self.n_rows, BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            yield {
                name: np.ascontiguousarray(column[part], np.int32)
                for name, column in self._columns.items()
            }


def load(
    brokers: pa.Table | None, topics: pa.Table | None, partitions: pa.Table,
    cluster: pa.Table | None, source: str | None = None, notes: Sequence[str] = (),
    layout: str | None = None, room: flat.Arena | None = None,
) -> ClusterState:
    """Make a cluster; see `ClusterState.from_tables`, and `load_rows` for the room."""
    state = None
    wanted = flat.flat_schema(partitions.column_names)
    known = all(name in wanted.names for name in flat.REQUIRED)
    if known and not any(partitions[name].null_count for name in wanted.names):
        rows, room = TableRows(partitions, source), flat.Arena() if room is None else room
        state = load_rows(brokers, topics, rows, cluster, source, notes, layout, room)
    if state is None:
        lists = flat.to_lists(partitions, source)
        return loading.load(
            ClusterState(), brokers, topics, lists, cluster, source, notes, layout
        )
    return state


def load_rows(
    brokers: pa.Table | None, topics: pa.Table | None, rows: TableRows, cluster: pa.Table | None,
    source: str | None, notes: Sequence[str], layout: str | None, room: flat.Arena,
) -> ClusterState | None:
    """Make a cluster, where the table is as kfast writes it; otherwise None.

    The state lies in the memory of `room`, and is overwritten by the next that does.
    """
    state, said = ClusterState(), list(notes)
    if brokers is None or any(name not in rows.names for name in flat.REQUIRED):
        return None
    settings = Columns(cluster, schema.CLUSTER_SCHEMA, "cluster", source)
    loading.load_cluster(state, settings)
    named = Columns(topics, schema.TOPICS_SCHEMA, "topics", source)
    place_of_topic = loading.name_topics(state, named, rows.topics)
    loading.report_defaults(state, settings, said)
    listed = Columns(brokers, schema.BROKERS_SCHEMA, "brokers", source)
    loading.load_brokers(state, listed, [], said)
    n_slots = flat.count_slots(rows.names, source)
    narrow = loading.is_narrow(state, n_slots, layout)
    flat.allocate(state, rows.n_rows, n_slots, narrow, room)
    place = flat.place_brokers(state)
    if place is None or not _fill(state, rows, place, place_of_topic):
        return None
    state.assumptions = tuple(said)
    mutators.refresh_unclean(state)
    mutators.note_queued(state)
    return state


def _fill(
    state: ClusterState, rows: TableRows, place: Rows, place_of_topic: Rows | None
) -> bool:
    """Fill and count all rows, each while it is in the cache; False where they cannot be."""
    start, counts = 0, np.zeros(5, np.int64)
    state.leader_offline, state.pending = state.new_bitmap(), state.new_bitmap()
    for columns in rows.read():
        topic = columns["topic"]
        part = slice(start, start + topic.size)
        if place_of_topic is not None:
            # Arrow does not look at the places in a damaged file's dictionary of topics.
            if topic.size and not 0 <= topic.min() <= topic.max() < place_of_topic.size:
                return False
            topic = place_of_topic[topic]
        state.topic_row[part] = topic
        state.partition[part] = columns["partition"]
        if not flat.fill_some(state, start, columns, place):
            return False
        counts += census.recount(state.columns.part(part.start, part.stop))
        start += topic.size
    state.take_counts(counts.tolist())
    return True
