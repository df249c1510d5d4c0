"""Exports that are the content of a DataFrame's rows, dealt to tasks by their work.

The sizes go to the driver, the deal comes back, and the contents are shuffled once, to the task
that is to read them; a cluster that several tasks share goes to each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType

from kfast.errors import ArgumentError, InputError
from kfast.spark.frames import to_dataframe
from kfast.spark.paths import FLAT_MARK, MAGIC, PARTITION_BYTES
from kfast.spark.workers import collect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["dealt"]

_PARQUET_HEAD = next(magic for magic, form in MAGIC.items() if form == "parquet").hex().upper()


def dealt(
    spark: SparkSession,
    frame: DataFrame,
    share: Callable[[Mapping[str, int]], list[list[tuple[str, int, int]]]],
    brokers_name: str,
) -> DataFrame:
    """Deal the rows of a DataFrame to tasks.

    Parameters
    ----------
    frame : DataFrame
        Columns cluster, content and perhaps brokers; or path and content, as of files.
    share : callable
        Gives hands of (cluster, part, of how many parts), of about how many partitions each has.
    brokers_name : str
        Where there are paths: files of this name say where the brokers of those beside them are.

    Returns
    -------
    DataFrame
        cluster, content, brokers, part, parts; a partition for each hand.

    Raises
    ------
    ArgumentError, InputError
        A column is missing or of another type; a cluster stands twice, or has no name.
    """
    types = {field.name: field.dataType for field in frame.schema.fields}
    if "cluster" not in types and "path" not in types:
        raise ArgumentError(
            f"the DataFrame has the columns {', '.join(types)}; cluster is missing, or path"
        )
    for name in ("content", "brokers"):
        if name in types and not isinstance(types[name], (BinaryType, StringType)):
            raise ArgumentError(
                f"column {name} is {types[name].simpleString()}; right is binary or string"
            )
    brokers = sql.col("brokers") if "brokers" in types else sql.lit(None)
    path = sql.regexp_replace(sql.col("path").cast("string"), "^file:(//)?", "")
    rows = frame.select(
        (sql.col("cluster").cast("string") if "cluster" in types else path).alias("cluster"),
        sql.col("content").cast("binary").alias("content"),
        brokers.cast("binary").alias("brokers"),
    )
    if "cluster" not in types and "brokers" not in types:
        rows = _with_brokers(rows, brokers_name)
    hands = share(_sizes(rows))
    units = [(*unit, hand) for hand, units in enumerate(hands) for unit in units]
    names, parts, of, hand = zip(*units, strict=True)
    deal = pa.table(
        {
            "cluster": pa.array(names), "part": pa.array(parts, pa.int32()),
            "parts": pa.array(of, pa.int32()), "hand": pa.array(hand, pa.int32()),
        }
    )
    joined = rows.join(sql.broadcast(to_dataframe(spark, deal)), "cluster")
    moved = joined.repartitionById(len(hands), "hand")
    return moved.select("cluster", "content", "brokers", "part", "parts")


def _with_brokers(rows: DataFrame, brokers_name: str) -> DataFrame:
    """Rows of files that are exports, with the content of the brokers file of their folder."""
    name = sql.element_at(sql.split("cluster", "/"), -1)
    folder = sql.regexp_replace("cluster", "[^/]*$", "")
    beside = rows.where(name == brokers_name).select(
        folder.alias("folder"), sql.col("content").alias("brokers")
    )
    # A row without a name is kept, to be refused.
    exports = rows.where(name.isNull() | (name != brokers_name))
    found = exports.drop("brokers").withColumn("folder", folder)
    return found.join(sql.broadcast(beside), "folder", "left").drop("folder")


def _sizes(rows: DataFrame) -> dict[str, int]:
    """About how many partitions each cluster has."""
    found = rows.groupBy("cluster").agg(
        sql.count("*").alias("n"), sql.sum(_estimate(sql.col("content"))).alias("partitions")
    )
    sizes = {}
    for row in collect(found).to_pylist():
        if row["cluster"] is None:
            raise InputError("a row of the DataFrame has no cluster; each needs a name")
        if row["n"] > 1:
            raise InputError(f"cluster {row['cluster']} stands {row['n']} times in the DataFrame")
        sizes[row["cluster"]] = int(row["partitions"] or 0)
    if not sizes:
        raise InputError("the DataFrame of exports has no rows")
    return sizes


def _estimate(content: Column) -> Column:
    """`about_partitions` of a file that is a value."""
    head = sql.hex(sql.substring(content, 1, 2))
    found = sql.lit(PARTITION_BYTES["text"])
    for magic, form in MAGIC.items():
        found = sql.when(head == magic.hex().upper(), PARTITION_BYTES[form]).otherwise(found)
    flat = (head == _PARQUET_HEAD) & sql.contains(content, sql.lit(FLAT_MARK.encode()))
    size = sql.when(flat, PARTITION_BYTES["parquet-flat"]).otherwise(found)
    return (sql.octet_length(content) / size).cast("long")
