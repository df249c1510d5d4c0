"""Sweeps in bytes over executors, and loads and capacities that are DataFrames.

Terms of the cluster, not its partitions, decide what a scenario costs; they travel once to each
executor, as what a sweep reads does. A task is a range of scenario numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from kfast.arguments import check_instance
from kfast.capacity import CapacityPlan, Restoration
from kfast.capacity.failures.capacity_sweeps import check_sweep
from kfast.capacity.restorations.restoration_times import RestorationPlan
from kfast.errors import ArgumentError
from kfast.io.loads import CapacityTable, LoadTable, read_capacity, read_load
from kfast.schema import CAPACITY_SWEEP, RESTORATION
from kfast.spark.paths import check_tasks
from kfast.spark.sweep_tasks import merge_batches, open_sent, send, slice_for
from kfast.spark.sweeps import BATCH_SCENARIOS, estimate_seconds, kind_of
from kfast.spark.workers import collect, count_tasks, run_tasks
from kfast.sweeps.scenarios import Scenarios

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["capacity_from_dataframe", "capacity_sweep", "load_from_dataframe"]


def capacity_sweep(
    spark: SparkSession,
    plan: CapacityPlan,
    scenarios: Scenarios,
    *,
    method: str | None = None,
    restoration: Restoration | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Measure how full brokers get in each scenario, over all executors.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    plan : CapacityPlan
        What `kfast.prepare_capacity` gives.
    scenarios : Scenarios
    method : str, optional
        As for `kfast.capacity_sweep`.
    restoration : Restoration, optional
        How failed brokers are restored: adds what `kfast.restoration` has.
    tasks : int, optional
        How many; by default so many that each lasts about two seconds. The rows do not depend on
        it.

    Returns
    -------
    DataFrame
        The rows of `kfast.capacity_sweep` or `kfast.restoration`, in no order: sort by `scenario`
        where it matters.

    Raises
    ------
    ArgumentError
        As these raise it, before anything runs.
    """
    check_sweep(plan, scenarios, method)
    check_tasks(tasks)
    measured: CapacityPlan | RestorationPlan = plan
    schema = CAPACITY_SWEEP.schema
    if restoration is not None:
        check_instance("restoration", restoration, Restoration)
        measured, schema = RestorationPlan.of(plan, restoration), RESTORATION.schema
    # These scenarios also make the terms of pairs and more, which then travel with the plan.
    seconds = estimate_seconds(
        scenarios, lambda part: deque(measured.batches(part, method), maxlen=0)
    )
    if tasks is None:
        tasks = count_tasks(seconds)
    run = partial(_sweep_range, send(spark, measured), scenarios, method, tasks)
    return run_tasks(spark, tasks, run, schema)


def _sweep_range(
    name: str, scenarios: Scenarios, method: str | None, tasks: int, task: int
) -> Iterator[pa.RecordBatch]:
    """Rows of a task's scenarios."""
    plan: CapacityPlan | RestorationPlan = open_sent(name)
    batches = plan.batches(slice_for(scenarios, tasks, task), method)
    yield from merge_batches(batches, BATCH_SCENARIOS)


def load_from_dataframe(frame: DataFrame, *, window: str | None = None) -> LoadTable:
    """Take a load from a DataFrame, as `kfast.read_load` takes it from a file.

    Parameters
    ----------
    frame : DataFrame
        With the columns of kfast's own files of loads: `topic`, perhaps `partition` and
        `broker_id`, and bytes a second, messages a second and bytes on disk. It is brought to the
        driver.
    window : str, optional
        As for `kfast.read_load`.

    Returns
    -------
    LoadTable
        For `kfast.partition_load`.

    Raises
    ------
    ArgumentError, InputError
        It is no DataFrame; or as `kfast.read_load`, with the number of the row.
    """
    return read_load(("load DataFrame", _arrow_stream("frame", frame)), window=window)[0]


def capacity_from_dataframe(frame: DataFrame) -> CapacityTable:
    """Take capacities of brokers from a DataFrame, as `kfast.read_capacity` does from a file.

    Parameters
    ----------
    frame : DataFrame
        With a column `broker_id`, -1 for the default, and those of kfast's own files of
        capacities. It is brought to the driver.

    Returns
    -------
    CapacityTable
        For `kfast.broker_capacity`.

    Raises
    ------
    ArgumentError, InputError
        It is no DataFrame; or as `kfast.read_capacity`, with the number of the row.
    """
    return read_capacity(("capacity DataFrame", _arrow_stream("frame", frame)))


def _arrow_stream(name: str, frame: DataFrame) -> bytes:
    """The rows of a DataFrame as an Arrow stream, which the readers of files check."""
    if not isinstance(frame, DataFrame):
        raise ArgumentError(f"{name} is {kind_of(frame)}: a DataFrame of Spark is needed")
    table = collect(frame)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream: bytes = sink.getvalue().to_pybytes()
    return stream
