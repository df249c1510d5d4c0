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

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["TABLES", "batches_of", "cluster_table", "sourced", "spark_schema"]

BATCH_ROWS = 100_000
"""Rows of a batch that goes to the JVM: what it gains by more is lost in memory."""

REPLICAS_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("place", pa.int32()),
        ("broker_id", pa.int32()),
        ("leads", pa.bool_()),
        ("in_sync", pa.bool_()),
    ]
)
"""One row per assigned replica; `place` 0 is the preferred one."""

ASSUMPTIONS_SCHEMA = pa.schema([("assumption", pa.string())])

TABLES = {
    "brokers": schema.BROKERS_SCHEMA,
    "topics": schema.TOPICS_SCHEMA,
    "partitions": schema.PARTITIONS_SCHEMA,
    "replicas": REPLICAS_SCHEMA,
    "cluster": schema.CLUSTER_SCHEMA,
    "assumptions": ASSUMPTIONS_SCHEMA,
}
"""What can be read of every export, and its columns without `source`."""


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
    return wanted.insert(0, pa.field("source", pa.string()))


def with_source(table: pa.Table, source: str) -> pa.Table:
    """A table with the column `source` before the others."""
    values = pa.repeat(pa.scalar(source, pa.string()), table.num_rows)
    return table.add_column(0, pa.field("source", pa.string()), values)


def batches_of(table: pa.Table, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches that have the wanted names, order and types exactly, as the JVM asks for."""
    plain = pa.table([table[field.name].cast(field.type) for field in wanted], schema=wanted)
    yield from plain.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)


def cluster_table(state: ClusterState, name: str) -> pa.Table:
    """One of `TABLES` of a cluster."""
    if check_table(name) == "assumptions":
        return pa.table([pa.array(state.assumptions, pa.string())], schema=ASSUMPTIONS_SCHEMA)
    if name == "replicas":
        return _replicas(state.to_tables().partitions)
    table: pa.Table = getattr(state.to_tables(), name)
    return table


def _replicas(partitions: pa.Table) -> pa.Table:
    """Lists of replicas turned into rows."""
    partitions = partitions.combine_chunks()
    owner, place, brokers = _unrolled(partitions["replicas"])
    in_row, _, in_sync = _unrolled(partitions["isr"])
    leader = partitions["leader"].to_numpy()
    columns = [
        partitions["topic"].take(pa.array(owner)),
        partitions["partition"].take(pa.array(owner)),
        pa.array(place),
        pa.array(brokers),
        pa.array(leader[owner] == brokers),
        pa.array(np.isin(owner << 32 | brokers, in_row << 32 | in_sync)),
    ]
    return pa.table(columns, schema=REPLICAS_SCHEMA)


def _unrolled(
    column: pa.ChunkedArray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row, place within the list, and value of every item of a list column."""
    lists = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    sizes = np.nan_to_num(
        lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.float64)
    ).astype(np.int64)
    owner = np.repeat(np.arange(sizes.size), sizes)
    begin = np.cumsum(sizes) - sizes
    place = (np.arange(owner.size) - begin[owner]).astype(np.int32)
    return owner, place, lists.flatten().to_numpy()
