"""The tables of a cluster as Spark sees them: names, types, and Arrow batches of these.

The columns are those of `kfast.schema`. Spark's tables of files have one more, `source`, which
says what file a row came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kfast import schema
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.state.tables import partitions_table, small_tables, topic_names, used_part

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = [
    "BATCH_ROWS", "BY_ROW", "TABLES", "batches_of", "cluster_table", "row_tables", "sourced",
    "spark_schema", "with_source",
]

BATCH_ROWS = 100_000
"""Rows of a batch that goes to the JVM: what it gains by more is lost in memory."""

TABLES = {
    table.name: table.schema
    for table in (
        schema.BROKERS_TABLE, schema.TOPICS_TABLE, schema.PARTITIONS_TABLE, schema.REPLICAS_TABLE,
        schema.CLUSTER_TABLE, schema.ASSUMPTIONS_TABLE,
    )
}
"""What can be read of every export, and its columns without `source`."""

BY_ROW = ("partitions", "replicas")
"""Tables that are made of rows of partitions, and nothing else."""


def check_table(name: str) -> str:
    """Refuse a table that no export has."""
    if name not in TABLES:
        raise ArgumentError(f"table {name!r} is unknown; allowed: {', '.join(TABLES)}")
    return name


def spark_schema(wanted: pa.Schema) -> StructType:
    """Spark's types of an Arrow schema whose types Spark knows."""
    return from_arrow_schema(wanted)


def sourced(wanted: pa.Schema) -> pa.Schema:
    """A schema with the column `source` before the others."""
    return wanted.insert(0, schema.SOURCE.field)


def with_source(table: pa.Table, source: str) -> pa.Table:
    """A table with the column `source` before the others."""
    values = pa.repeat(pa.scalar(source, pa.string()), table.num_rows)
    return table.add_column(0, schema.SOURCE.field, values)


def batches_of(table: pa.Table, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches that have the wanted names, order and types exactly, as the JVM asks for."""
    plain = pa.table([table[field.name].cast(field.type) for field in wanted], schema=wanted)
    yield from plain.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


def cluster_table(state: ClusterState, name: str) -> pa.Table:
    """One of `TABLES` of a cluster."""
    if check_table(name) == "assumptions":
        return schema.ASSUMPTIONS_TABLE.table({"assumption": [*state.assumptions]})
    if name == "partitions":
        return partitions_table(state)
    if name == "replicas":
        return replicas_table(state)
    tables = dict(zip(("brokers", "topics", "cluster"), small_tables(state), strict=True))
    return tables[name]


def replicas_table(state: ClusterState, start: int = 0, stop: int | None = None) -> pa.Table:
    """A row for each assigned replica, of all partitions or of some rows in use."""
    rows, records, _ = used_part(state, start, stop)
    assigned = (records["flags"] & schema.FLAG_ASSIGNED) != 0
    counts = np.where(assigned, records["n_replicas"], 0).astype(np.int64)
    owner = np.repeat(np.arange(rows.size), counts)
    # Assigned replicas are the first slots, in their order.
    slot = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    brokers = state.replicas[rows[owner], slot].astype(np.int32)
    in_sync = records["isr"][owner].astype(np.uint64) >> slot.astype(np.uint64) & np.uint64(1)
    return schema.REPLICAS_TABLE.table({
        "topic": topic_names(state, rows[owner]),
        "partition": pa.array(state.partition[rows[owner]]),
        "place": pa.array(slot.astype(np.int32)),
        "broker_id": pa.array(state.broker_id[brokers]),
        "leads": pa.array(records["leader"][owner] == brokers),
        "in_sync": pa.array(in_sync != 0),
    })


def row_tables(state: ClusterState, name: str) -> Iterator[pa.Table]:
    """`cluster_table`; of partitions and replicas in pieces, of some rows of partitions each."""
    if name not in BY_ROW:
        yield cluster_table(state, name)
        return
    make = partitions_table if name == "partitions" else replicas_table
    n_rows = state.n_partitions - int(state.free_rows.size)
    for at in range(0, n_rows, BATCH_ROWS):
        yield make(state, at, min(at + BATCH_ROWS, n_rows))
