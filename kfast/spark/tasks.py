"""One task for each of some numbers, whatever is done for it.

Workers import this to find out what they are to do, so it needs as little as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SHORT_SECONDS", "TASK_SECONDS", "Run", "over_hands"]

Run: TypeAlias = Callable[[int], Iterator[pa.RecordBatch]]

EMPTY_TASK_SECONDS = 0.06
"""What a task costs a core whatever it does, as measured (`docs/scale.md`, What things cost)."""

SHORT_SECONDS = 4 * EMPTY_TASK_SECONDS
"""Work for less time than this is not shared out."""

TASK_SECONDS = 2.0
"""How long a task should last, if there is work for that."""


def over_hands(spark: SparkSession, n: int, run: Run, wanted: pa.Schema) -> DataFrame:
    """Run something for the numbers 0 to n, one task for each.

    Parameters
    ----------
    run : callable
        Made of a number, in a worker: batches of the wanted schema. It is pickled.
    wanted : pa.Schema
        Types that Spark knows.
    """
    from kfast.spark.columns import spark_schema
    from kfast.spark.workers import for_workers

    each = for_workers(partial(_each, run))
    return spark.range(0, n, 1, n).mapInArrow(each, spark_schema(wanted))


def _each(run: Run, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from run(number)
