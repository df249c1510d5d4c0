"""Between DataFrames and `ClusterState`, both ways. No column is lost, and no rule is applied."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from kfast import schema
from kfast.errors import ArgumentError, InputError
from kfast.io.tables import cast_columns
from kfast.state import ClusterState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ClusterFrames", "from_dataframes", "to_dataframe", "to_dataframes"]

_THRESHOLD = "spark.sql.execution.arrow.localRelationThreshold"
_SCHEMAS = {
    "brokers": schema.BROKERS_SCHEMA,
    "topics": schema.TOPICS_SCHEMA,
    "partitions": schema.PARTITIONS_SCHEMA,
    "cluster": schema.CLUSTER_SCHEMA,
}


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
    """Hand an Arrow table to Spark; dictionaries are written out.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    table : pa.Table
        Any table that kfast gives.
    """
    columns = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in table.columns
    ]
    with _sent_as_arrow(spark):
        return spark.createDataFrame(pa.table(columns, names=table.column_names))


def to_dataframes(spark: SparkSession, state: ClusterState) -> ClusterFrames:
    """All of a cluster as DataFrames; `from_dataframes` makes the same state of them."""
    tables = state.to_tables()
    return ClusterFrames(
        **{f.name: to_dataframe(spark, getattr(tables, f.name)) for f in fields(ClusterFrames)}
    )


def from_dataframes(
    partitions: DataFrame | ClusterFrames,
    *,
    topics: DataFrame | None = None,
    brokers: DataFrame | None = None,
    cluster: DataFrame | None = None,
    layout: Literal["narrow", "wide"] | None = None,
) -> ClusterState:
    """Collect a cluster on the driver.

    Parameters
    ----------
    partitions : DataFrame or ClusterFrames
        Columns `topic`, `partition`, and as many others of `kfast schema` as there are; any others
        are left behind before they cross. Ids may have any integer type.
    topics, brokers, cluster : DataFrame, optional
        Likewise; what is not there gets Kafka's default, and stands in `state.assumptions`.
    layout : {"narrow", "wide"}, optional
        As for `ClusterState.from_tables`.

    Raises
    ------
    InputError
        A column has a type that holds something else, a value does not fit, or a rule of
        `ClusterState.from_tables` is broken.
    ArgumentError
        `ClusterFrames` and single frames are given together.
    """
    if isinstance(partitions, ClusterFrames):
        if topics is not None or brokers is not None or cluster is not None:
            raise ArgumentError("topics, brokers and cluster are in the ClusterFrames already")
        whole = partitions
        given = {f.name: getattr(whole, f.name) for f in fields(ClusterFrames)}
    else:
        given = {
            "partitions": partitions, "topics": topics, "brokers": brokers, "cluster": cluster,
        }
    tables = {
        name: _collect(frame, name) if frame is not None else None for name, frame in given.items()
    }
    return ClusterState.from_tables(
        tables["brokers"], tables["topics"], tables["partitions"], tables["cluster"],
        source="DataFrame", layout=layout,
    )


def _collect(frame: DataFrame, name: str) -> pa.Table:
    """The known columns of a frame, as the types that kfast holds them in."""
    wanted = _SCHEMAS[name]
    known = [column for column in frame.columns if column in wanted.names]
    if not known:
        raise InputError(
            f"the DataFrame of {name} has none of kfast's columns; found"
            f" {', '.join(frame.columns)}; known: {', '.join(wanted.names)}"
        )
    try:
        return cast_columns(frame.select(*known).toArrow(), wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"the DataFrame of {name}: {error}") from error
