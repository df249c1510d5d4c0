"""What the hands of a sharded cluster say, put together: errors, counts, requests.

A broker gets one request where many shards have something to tell it, and the brokers are told of
each other only where no shard has told them already.

Source: docs/controller.md, sections 5 and 6.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions

from kfast.errors import InputError
from kfast.schema import SHARDED_COUNTS
from kfast.spark.columns import spark_schema
from kfast.spark.outcomes import REQUESTS
from kfast.spark.parts import Whole
from kfast.spark.shards import Run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["join_errors", "read_requests", "sum_counts"]

ANNOUNCEMENT = "announce the live brokers"
"""Action that a failure takes only where it has nothing else to tell."""


def join_errors(run: Run, said: Sequence[Mapping[str, Any]]) -> tuple[str | None, ...]:
    """The error of each event, which all shards must share: on one machine it ends the event."""
    found: list[set[str | None]] = [set() for _ in run.events]
    for hand in said:
        for at, error in hand["errors"]:
            found[at].add(error)
    for event, errors in zip(run.events, found, strict=True):
        if len(errors) > 1:
            shown = ", ".join(sorted(str(error) for error in errors if error is not None))
            raise InputError(
                f"event {event.name} ended with {shown} in some files only; on one machine it"
                " ends there for the whole cluster, which files that go their own way cannot do"
            )
    return tuple(error for errors in found for error in errors)


def sum_counts(
    run: Run, said: Sequence[Mapping[str, Any]], wholes: Sequence[Whole]
) -> pa.Table:
    """Counts of all hands, and of what no shard knows, by event, name, kind and item."""
    summed: Counter[tuple[Any, ...]] = Counter()
    for at, (event, whole) in enumerate(zip(run.events, wholes, strict=True)):
        summed.update((at, event.name, "reply", item) for item in whole.counted)
    for hand in said:
        for *key, n in hand["counts"]:
            summed[tuple(key)] += n
    columns = zip(*((*key, summed[key]) for key in sorted(summed)), strict=True)
    wanted = SHARDED_COUNTS.schema
    return pa.table([*columns], schema=wanted) if summed else wanted.empty_table()


def read_requests(spark: SparkSession, run: Run) -> DataFrame:
    """Requests of all hands, put together as `outcomes.join_requests` does."""
    keys = ["event", "action", "scope", "occurrence", "kind", "broker_id"]
    joined = functions.when(
        functions.bool_or("alone"), functions.sum("requests")
    ).otherwise(functions.max("requests"))
    rows = spark.read.schema(spark_schema(REQUESTS)).parquet(str(Path(run.folder) / "requests"))
    merged = rows.groupBy(*keys).agg(
        joined.alias("requests"),
        functions.sum("partitions").alias("partitions"),
        functions.sum("shards").alias("shards"),
    )
    every = merged["shards"] == len(run.dataset.files)
    return merged.where((merged["action"] != ANNOUNCEMENT) | every).drop("shards")
