"""From a flat table of partitions to a `ClusterState`, at the speed of memory.

What a flat table says must be as kfast writes it: rows in order, brokers listed, nothing null.
Any other is turned into the form with lists, whose loader takes it or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kfast import schema
from kfast.state import flat, loading, mutators
from kfast.state.cluster import ClusterState
from kfast.state.columns import Columns


def load(
    brokers: pa.Table | None, topics: pa.Table | None, partitions: pa.Table,
    cluster: pa.Table | None, source: str | None = None, notes: Sequence[str] = (),
    layout: str | None = None, room: flat.Room | None = None,
) -> ClusterState:
    """Make a cluster; see `ClusterState.from_tables`.

    With `room`, the state lies in its memory, and is overwritten by the next that does.
    """
    room = flat.Room() if room is None else room
    state = _load(brokers, topics, partitions, cluster, source, notes, layout, room)
    if state is None:
        lists = flat.to_lists(partitions, source)
        return loading.load(
            ClusterState(), brokers, topics, lists, cluster, source, notes, layout
        )
    return state


def _load(
    brokers: pa.Table | None, topics: pa.Table | None, partitions: pa.Table,
    cluster: pa.Table | None, source: str | None, notes: Sequence[str], layout: str | None,
    room: flat.Room,
) -> ClusterState | None:
    """Make a cluster, where the table is as kfast writes it."""
    state, said = ClusterState(), list(notes)
    wanted = flat.flat_schema(partitions.column_names)
    rows = Columns(partitions, wanted, "partitions", source)
    if brokers is None or any(name not in wanted.names for name in flat.REQUIRED):
        return None
    if any(partitions[name].null_count for name in wanted.names):
        return None
    loading.load_cluster(state, Columns(cluster, schema.CLUSTER_SCHEMA, "cluster", source), said)
    loading.load_topics(state, Columns(topics, schema.TOPICS_SCHEMA, "topics", source), rows)
    listed = Columns(brokers, schema.BROKERS_SCHEMA, "brokers", source)
    loading.load_brokers(state, listed, [], said)
    state.partition = rows.integers("partition", -1).copy()
    n_slots = flat.count_slots(partitions.column_names, source)
    narrow = loading.is_narrow(state, n_slots, layout)
    flat.allocate(state, rows.n_rows, n_slots, narrow, room)
    if not flat.fill_flat(state, rows):
        return None
    state.assumptions = tuple(said)
    mutators.refresh_unclean(state)
    mutators.note_queued(state)
    state.recount()
    return state
