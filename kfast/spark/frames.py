"""A cluster's tables in Spark: DataFrames to and from `ClusterState`, and batches for the JVM.

The columns are those of `kfast.schema`. Spark's tables of files have one more, `source`, which
says what file a row came from. No column is lost, and no rule is applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from kfast import schema
from kfast.arguments import check_instance
from kfast.errors import ArgumentError, InputError
from kfast.io.file_systems import AnyPath, RemotePath
from kfast.spark.workers import collect, run_tasks
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.tables import partitions_table, small_tables, topic_names, used_part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BATCH_ROWS", "BY_ROW", "TABLES", "ClusterFrames", "batches_of", "from_dataframes",
    "parquet_frame", "row_tables", "schema_with_source", "to_dataframe", "to_dataframes",
    "with_source",
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

_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
_NEEDED = {"brokers": ["broker_id"], "topics": ["topic"],
           "partitions": ["topic", "partition", "replicas"], "cluster": []}
"""Columns without which a table would say nothing."""
_ONE_SOURCE = "; it has a column source: choose one export by it"


@dataclass(frozen=True)
class ClusterFrames:
    """A cluster as DataFrames with the columns of `kfast schema`.

    Attributes
    ----------
    brokers, topics, partitions, cluster : DataFrame
    """

    brokers: DataFrame
    topics: DataFrame
    partitions: DataFrame
    cluster: DataFrame

    def _summary(self) -> Summary:
        # Even the names of a DataFrame's columns may cost a question to the server.
        return "ClusterFrames", {"DataFrames": ", ".join(vars(self))}

    __repr__ = summary_text
    _repr_html_ = summary_html


@contextmanager
def _sent_as_arrow(spark: SparkSession) -> Iterator[None]:
    """Let tables go to the JVM as Arrow, not row by row, which takes four times as long."""
    before = spark.conf.get(_THRESHOLD, None)
    spark.conf.set(_THRESHOLD, "0")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_THRESHOLD)
        else:
            spark.conf.set(_THRESHOLD, before)


def to_dataframe(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Hand an Arrow table to Spark; dictionaries of others' tables are written out.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    table : pa.Table
        Any table that kfast gives; also a RecordBatchReader, and whatever else hands over Arrow.

    Raises
    ------
    ArgumentError
        It is no table.
    """
    if not isinstance(table, pa.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise ArgumentError(f"table is {_kind(table)}; right is an Arrow table")
        table = pa.table(table)
    plain = pa.schema([
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ])
    with _sent_as_arrow(spark):
        return spark.createDataFrame(table.cast(plain))


def to_dataframes(spark: SparkSession, state: ClusterState) -> ClusterFrames:
    """All of a cluster as DataFrames; `from_dataframes` makes the same state of them."""
    check_instance("state", state, ClusterState)
    tables = state.to_tables()
    return ClusterFrames(
        **{f.name: to_dataframe(spark, getattr(tables, f.name)) for f in fields(ClusterFrames)}
    )


def from_dataframes(
    brokers: DataFrame | ClusterFrames | None = None,
    topics: DataFrame | None = None,
    partitions: DataFrame | None = None,
    cluster: DataFrame | None = None,
    *,
    layout: Literal["narrow", "wide"] | None = None,
) -> ClusterState:
    """Collect a cluster on the driver; arguments are in the order of `ClusterState.from_tables`.

    Parameters
    ----------
    brokers, topics, cluster : DataFrame, optional
        As many columns of `kfast schema` as there are; any others are left behind before they
        cross. Ids may have any integer type. What is not there gets Kafka's default, and stands in
        `state.assumptions`. Instead of the first, `ClusterFrames` may be given, which have all.
    partitions : DataFrame
        Likewise; columns `topic`, `partition`, `replicas` are needed.
    layout : {"narrow", "wide"}, optional
        As for `ClusterState.from_tables`.

    Raises
    ------
    InputError
        A column is missing or has a type that holds something else, a value does not fit, or a
        rule of `ClusterState.from_tables` is broken.
    ArgumentError
        No DataFrame of partitions is given, `ClusterFrames` and single frames are given together,
        or what is given is no DataFrame.
    """
    if isinstance(brokers, ClusterFrames):
        if topics is not None or partitions is not None or cluster is not None:
            raise ArgumentError("topics, partitions and cluster are in the ClusterFrames already")
        frames = vars(brokers)
    else:
        frames = {
            "brokers": brokers, "topics": topics, "partitions": partitions, "cluster": cluster,
        }
    if frames["partitions"] is None:
        raise ArgumentError(
            "partitions is missing: the first argument is the DataFrame of brokers, so name that of"
            " partitions, as from_dataframes(partitions=frame)"
        )
    tables = {
        name: None if frame is None else _collect(frame, name) for name, frame in frames.items()
    }
    try:
        return ClusterState.from_tables(
            tables["brokers"], tables["topics"], tables["partitions"], tables["cluster"],
            source="DataFrame", layout=layout,
        )
    except InputError as error:
        several = "source" in frames["partitions"].columns and "stands twice" in str(error)
        raise InputError(f"{error}{_ONE_SOURCE if several else ''}") from error


def _collect(frame: DataFrame, name: str) -> pa.Table:
    """The known columns of a frame, as the types that kfast holds them in."""
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise ArgumentError(
            f"{name} is {_kind(frame)}; right is a DataFrame of Spark, and of Arrow tables"
            " ClusterState.from_tables makes a cluster"
        )
    wanted = TABLES[name]
    known = [column for column in frame.columns if column in wanted.names]
    if missing := [column for column in _NEEDED[name] if column not in known]:
        raise InputError(
            f"the DataFrame of {name} has no column {', '.join(missing)}; found"
            f" {', '.join(frame.columns)}; known: {', '.join(wanted.names)}"
        )
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    table = collect(frame.select(*known))
    columns = {}
    for column in known:
        try:
            columns[column] = table[column].cast(wanted.field(column).type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"the DataFrame of {name}: column {column} is {types[column]}; right is"
                f" {wanted.field(column).type}, or what fits it: {error}"
            ) from error
    return pa.table(columns)


def _kind(something: Any) -> str:
    """What somebody gave instead of what is right."""
    return f"a {type(something).__module__}.{type(something).__qualname__}"


def schema_with_source(wanted: pa.Schema) -> pa.Schema:
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


def replicas_table(state: ClusterState, start: int, stop: int) -> pa.Table:
    """A row for each assigned replica of some rows in use."""
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
    """One of `TABLES` of a cluster; partitions and replicas in pieces of some partitions each."""
    if name in BY_ROW:
        make = partitions_table if name == "partitions" else replicas_table
        n_rows = state.n_partitions - int(state.free_rows.size)
        for start in range(0, n_rows, BATCH_ROWS):
            yield make(state, start, min(start + BATCH_ROWS, n_rows))
    elif name == "assumptions":
        yield schema.ASSUMPTIONS_TABLE.table({"assumption": [*state.assumptions]})
    else:
        yield small_tables(state)[("brokers", "topics", "cluster").index(name)]


def parquet_frame(spark: SparkSession, folder: AnyPath, columns: pa.Schema) -> DataFrame:
    """Rows of the Parquet files in a folder that tasks of kfast wrote.

    Elsewhere than on the local file system, kfast reads what it wrote: Spark has other credentials,
    and perhaps no library for the scheme.
    """
    if isinstance(folder, RemotePath):
        files = [*folder.files_below()]
        return run_tasks(spark, len(files), partial(_read_rows, files, columns), columns)
    return spark.read.schema(from_arrow_schema(columns)).parquet(str(folder))


def _read_rows(
    files: Sequence[RemotePath], columns: pa.Schema, task: int
) -> Iterator[pa.RecordBatch]:
    with files[task].open_input() as file:
        yield from pq.read_table(file).cast(columns).to_batches()
