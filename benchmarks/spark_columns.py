"""What Spark's benchmarks run in workers: a column that crosses to Python, and a look at memory."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema

from kfast.spark.functions import RESULT


def echo(replicas: pa.Array, isr: pa.Array) -> pa.Array:
    """Give constant leaders, and the ISR as it came."""
    n = len(replicas)
    zeros = pa.repeat(pa.scalar(0, pa.int32()), n)
    states = pa.repeat(pa.scalar("OnlinePartition"), n)
    return pa.StructArray.from_arrays([zeros, zeros, isr, states], fields=list(RESULT))


def crossing(replicas: str, isr: str):
    """Apply `echo` to two columns."""
    return arrow_udf(echo, from_arrow_schema(RESULT))(replicas, isr)


def peak_bytes(spark) -> int:
    """Most memory that a Python worker has held so far; the workers are those that still live."""
    frame = spark.range(0, 8, 1, 8).mapInArrow(_peak, "peak bigint")
    return max(row.peak for row in frame.collect())


def _peak(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for batch in batches:
        yield pa.record_batch([pa.array([kib << 10] * batch.num_rows, pa.int64())], ["peak"])
