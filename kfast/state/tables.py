"""From a `ClusterState` to Arrow tables, and parts of it that the journal needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.kernels import tables as kernels
from kfast.state import quorum_tables
from kfast.state.arrays import StateArrays, first_slots
from kfast.state.arrow_views import names_at
from kfast.state.flat_table import to_flat
from kfast.state.partition_rows import present_topics, used_rows
from kfast.state.records import Rows, Tables


def id_lists(
    state: StateArrays, rows: Rows, masks: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_] | None = None, *, replicas: npt.NDArray[Any] | None = None,
) -> pa.ListArray:
    """Broker ids of some slots of each row, in slot order, as an Arrow list column.

    With `replicas`, the slots are those of this matrix, not those that the state has now.
    """
    slots = np.ascontiguousarray(masks, np.uint64)
    offsets = np.empty(slots.size + 1, np.int32)
    kernels.measure_lists(slots, offsets)
    values = np.empty(int(offsets[-1]), np.int32)
    matrix = state.replicas if replicas is None else replicas
    kernels.expand_masks(matrix, state.broker_id, rows, slots, values)
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), mask=mask)


def ordered_lists(
    state: StateArrays, name: str, rows: Rows, masks: npt.NDArray[Any],
    valid: npt.NDArray[np.bool_] | None = None,
) -> pa.ListArray:
    """`id_lists` of adding or removing slots, as `StateArrays.ordered_ids` orders them."""
    lists = id_lists(state, rows, masks, valid)
    if not len(lists.values) or not (state.list_orders or state.is_kraft):
        return lists
    values = lists.values.to_numpy().copy()
    if state.is_kraft:
        owner = np.repeat(np.arange(rows.size), np.diff(lists.offsets.to_numpy()))
        values = values[np.lexsort((values, owner))]
    restore_orders(state.list_orders, name, rows, lists.offsets.to_numpy(), values)
    mask = None if valid is None or valid.all() else pa.array(~valid)
    return pa.ListArray.from_arrays(lists.offsets, pa.array(values), mask=mask)


def restore_orders(
    list_orders: Mapping[tuple[str, int], tuple[int, ...]], name: str, rows: Rows, offsets: Rows,
    values: Rows,
) -> None:
    """Put adding or removing lists into the order they were given in, where that is noted."""
    orders = {row: order for (field, row), order in list_orders.items() if field == name}
    for at in np.flatnonzero(np.isin(rows, list(orders))).tolist() if orders else ():
        order = orders[int(rows[at])]
        part = values[offsets[at] : offsets[at + 1]].tolist()
        part.sort(key=lambda b: order.index(b) if b in order else len(order))
        values[offsets[at] : offsets[at + 1]] = part


def broker_ids(state: StateArrays, rows: npt.NDArray[Any]) -> Rows:
    """Ids of broker rows; negative ones (no broker) stay as they are."""
    if state.n_brokers == 0:
        return rows.astype(np.int32)
    return np.where(rows < 0, rows, state.broker_id[np.maximum(rows, 0)]).astype(np.int32)


def topic_names(state: StateArrays, rows: Rows) -> pa.Array | pa.ChunkedArray:
    """Topic names of partition rows."""
    return names_at(state.topic, state.topic_row[rows])


def row_keys(state: StateArrays, rows: Rows) -> dict[str, Any]:
    """Columns topic, partition and partition_row of partition rows."""
    return {
        "topic": topic_names(state, rows), "partition": pa.array(state.partition[rows]),
        "partition_row": pa.array(rows),
    }


def _nullable(values: npt.NDArray[Any], null: int, kind: pa.DataType) -> pa.Array:
    return pa.array(values, mask=values == null).cast(kind)


def used_part(
    state: StateArrays, start: int = 0, stop: int | None = None
) -> tuple[Rows, npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Some of the rows in use, in order: their numbers, records, and replica states."""
    if state.free_rows.size:
        rows = used_rows(state)[start:stop]
        return rows, state.records.take(rows), state.replica_state[rows]
    part = slice(*slice(start, stop).indices(state.n_partitions))
    rows = np.arange(part.start, max(part.start, part.stop), dtype=np.int32)
    return rows, state.records[part], state.replica_state[part]


def partitions_table(state: StateArrays, start: int = 0, stop: int | None = None) -> pa.Table:
    """The table of partitions, or of some of the rows in use."""
    return table_of_rows(state, *used_part(state, start, stop))


def table_of_rows(
    state: StateArrays, rows: Rows, records: npt.NDArray[Any], replica_state: npt.NDArray[np.uint8]
) -> pa.Table:
    """The table of some rows, whose records and replica states are given."""
    flags = records["flags"]
    entries = np.empty(rows.size, np.uint64)
    kernels.mask_states(records, replica_state, entries)
    brokers = id_lists(state, rows, entries)
    states = np.empty(len(brokers.values), np.int8)
    kernels.expand_states(state.replica_state, rows, entries, states)
    assigned = (flags & schema.FLAG_ASSIGNED) != 0
    columns: dict[str, Any] = {
        "topic": topic_names(state, rows),
        "partition": pa.array(state.partition[rows]),
        "replicas": id_lists(state, rows, first_slots(records["n_replicas"]), assigned),
        "leader": pa.array(broker_ids(state, records["leader"])),
        "partition_state": pa.array(records["partition_state"].copy()),
        "has_leadership": pa.array((flags & schema.FLAG_HAS_LEADERSHIP) != 0),
        "recovery": pa.array(((flags & schema.FLAG_RECOVERY) != 0).astype(np.int8)),
        "being_reassigned": pa.array((flags & schema.FLAG_BEING_REASSIGNED) != 0),
        "replica_state_broker_ids": brokers,
        "replica_states": pa.ListArray.from_arrays(brokers.offsets, pa.array(states)),
    }
    for name in ("leader_epoch", "version", "controller_epoch"):
        columns[name] = pa.array(np.ascontiguousarray(records[name]))
    columns["isr"] = quorum_tables.members(state, rows, records["isr"])
    columns["offline_dir"] = id_lists(state, rows, records["offline_dir"])
    for name in ("adding", "removing"):
        columns[name] = ordered_lists(state, name, rows, records[name])
    return schema.PARTITIONS_TABLE.table(
        columns | quorum_tables.partition_columns(state, rows)
    )


def to_tables(state: StateArrays, *, flat: bool = False) -> Tables:
    """See `ClusterState.to_tables`."""
    partitions = to_flat(state) if flat else partitions_table(state)
    brokers, topics, cluster = small_tables(state)
    return Tables(brokers, topics, partitions, cluster)


def small_tables(state: StateArrays) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Tables of the brokers, the topics and the cluster."""
    brokers = [
        pa.array(state.broker_id), state.rack, pa.array(state.registered),
        pa.array(state.shutting_down), pa.array(state.broker_epoch),
        *quorum_tables.broker_columns(state),
    ]
    topics = [
        state.topic, state.topic_id, pa.array(state.topic_exists),
        _nullable(state.topic_unclean_leader_election, -1, pa.bool_()),
        _nullable(state.topic_min_insync_replicas, -1, pa.int32()),
        pa.array(state.topic_queued_for_deletion), pa.array(state.topic_deletion_started),
        pa.array(state.topic_ineligible),
    ]
    cluster = [
        *(pa.array([getattr(state, c.name)], c.arrow) for c in schema.CLUSTER),
        *quorum_tables.cluster_columns(state),
    ]
    present = pa.array(present_topics(state))
    return (
        pa.table(brokers, schema=schema.BROKERS_TABLE.schema),
        pa.table(topics, schema=schema.TOPICS_TABLE.schema).filter(present),
        pa.table(cluster, schema=schema.CLUSTER_TABLE.schema),
    )
