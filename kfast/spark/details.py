"""Sweeps over executors by partition and by broker: counts of ranges, added up by Spark.

A task counts a range of scenarios for the whole cluster, and gives its counts as one row for each
block of partitions or brokers: bytes, which cost little to pass on. Spark brings the rows of a
block together; whoever adds them also maps the names. Counts are integers, so the order in which
they are added does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.schema import SWEEP_BROKERS, SWEEP_PARTITIONS, ResultTable, columns_of
from kfast.spark.columns import spark_schema
from kfast.spark.mapped import open_batches, open_plan, send_batches, send_plan
from kfast.spark.questions import Question
from kfast.spark.ranges import slice_of
from kfast.spark.sweeps import Cluster, choose_tasks, plan_of
from kfast.spark.tasks import over_hands
from kfast.spark.workers import for_workers
from kfast.state.census import key_columns
from kfast.sweeps.failover_order import FailoverOrder
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_counts import words_of
from kfast.sweeps.sweep_details import checked, count_leaders, count_partitions, load_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sweep_brokers", "sweep_partitions"]

Counts = npt.NDArray[np.int64]

TASK_SECONDS = 10.0
"""How long a task should last: each gives counts of the whole cluster, which must be added."""

BLOCK_PARTITIONS = 8192
"""Partitions in a block: 64 KiB of counts, so that a thousand tasks' fit into memory at once."""

BLOCK_BROKERS = 16
"""Brokers in a block; each has as many numbers as it was seen to have different leaders."""

_COUNTED = pa.schema([("block", pa.int32()), ("place", pa.binary()), ("count", pa.binary())])
"""Counts of a block that are not zero (int32), and their places in the block (int32)."""


def sweep_partitions(
    spark: SparkSession,
    state: Cluster,
    scenarios: Scenarios | Question,
    *,
    vectors: str | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Count, for every partition, the scenarios in which it is offline or under its min ISR.

    Parameters
    ----------
    spark, state, scenarios, vectors, tasks
        As for `kfast.spark.sweep`.

    Returns
    -------
    DataFrame
        The rows of `kfast.sweep_partitions`, in no order.

    Raises
    ------
    ArgumentError, InputError
        As `kfast.spark.sweep`.
    """
    plan, scenarios = plan_of(state, scenarios, tasks)
    words = checked(plan, scenarios, 1, vectors)[1]
    if tasks is None:
        tasks = choose_tasks(
            spark, scenarios, lambda some: count_partitions(plan, some, words), TASK_SECONDS
        )
    order = np.argsort(plan.rows).astype(np.int32)
    names = pa.table(key_columns(plan.cluster, plan.rows[order])).combine_chunks()
    named = send_batches(spark, names.to_batches(max_chunksize=BLOCK_PARTITIONS), names.schema)
    name = send_plan(spark, plan, order=order)
    run = partial(_count_partitions, name, scenarios, vectors, BLOCK_PARTITIONS, tasks)
    return _added(spark, tasks, run, partial(_partition_rows, named), SWEEP_PARTITIONS)


def sweep_brokers(
    spark: SparkSession,
    state: Cluster,
    scenarios: Scenarios | Question,
    *,
    vectors: str | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Count, for every broker, how many partitions it leads in the scenarios in which it is up.

    Parameters
    ----------
    spark, state, scenarios, vectors, tasks
        As for `kfast.spark.sweep`.

    Returns
    -------
    DataFrame
        The rows of `kfast.sweep_brokers`, in no order.

    Raises
    ------
    ArgumentError, InputError
        As `kfast.spark.sweep`.
    """
    plan, scenarios = plan_of(state, scenarios, tasks)
    words = checked(plan, scenarios, 1, vectors)[1]
    heirs = FailoverOrder.of(plan)
    if tasks is None:
        tasks = choose_tasks(
            spark, scenarios, lambda some: count_leaders(heirs, some, words), TASK_SECONDS
        )
    names = pa.table(
        {
            "broker_id": pa.array(plan.broker_id),
            "rack": plan.cluster.rack,
            "registered": pa.array(plan.registered),
            "room": pa.array(np.diff(heirs.room())),
        }
    ).combine_chunks()
    named = send_batches(spark, names.to_batches(max_chunksize=BLOCK_BROKERS), names.schema)
    name = send_plan(spark, plan, heirs=heirs)
    run = partial(_count_leaders, name, scenarios, vectors, BLOCK_BROKERS, tasks)
    return _added(spark, tasks, run, partial(_broker_rows, named), SWEEP_BROKERS)


def _count_partitions(
    name: str, scenarios: Scenarios, vectors: str | None, size: int, tasks: int, task: int
) -> Iterator[pa.RecordBatch]:
    """Counts of a task's scenarios: of a block, first those of offline partitions."""
    sent = open_plan(name)
    found = count_partitions(sent.plan, slice_of(scenarios, tasks, task), words_of(vectors))
    for block, at in enumerate(range(0, sent.plan.n_partitions, size)):
        yield _counted(block, found[:, sent.order[at : at + size]].reshape(-1))


def _count_leaders(
    name: str, scenarios: Scenarios, vectors: str | None, size: int, tasks: int, task: int
) -> Iterator[pa.RecordBatch]:
    """Counts of a task's scenarios: of a block, broker after broker."""
    heirs = open_plan(name).heirs
    assert heirs is not None, "the plan was sent without them"
    found = count_leaders(heirs, slice_of(scenarios, tasks, task), words_of(vectors))
    begin = heirs.room()
    edges = [*begin[:-1:size].tolist(), int(begin[-1])]
    for block, (start, stop) in enumerate(pairwise(edges)):
        yield _counted(block, found[start:stop])


def _counted(block: int, counts: Counts) -> pa.RecordBatch:
    """One row with the counts of a block that are not zero."""
    places = np.flatnonzero(counts)
    cells = [places.astype(np.int32).tobytes(), counts[places].astype(np.int32).tobytes()]
    columns = [pa.array([block], pa.int32()), *(pa.array([cell], pa.binary()) for cell in cells)]
    return pa.record_batch(columns, schema=_COUNTED)


def _added(
    spark: SparkSession, tasks: int, run: Any, rows: Callable[[int, Any], pa.Table],
    wanted: ResultTable,
) -> DataFrame:
    """Count in tasks, let Spark bring the blocks together, add and name them."""
    work = for_workers(partial(_add, rows))

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work(batches)

    counted = over_hands(spark, tasks, run, _COUNTED)
    return counted.groupBy("block").applyInArrow(add, spark_schema(wanted.schema))


def _add(
    rows: Callable[[int, Any], pa.Table], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Add the rows of one block."""
    total = np.zeros(0, np.int64)
    block = 0
    for batch in batches:
        block = batch.column("block")[0].as_py()
        for place, count in zip(batch.column("place"), batch.column("count"), strict=True):
            places = np.frombuffer(place.as_buffer(), np.int32)
            size = int(places[-1]) + 1 if places.size else 0
            if size > total.size:
                total = np.concatenate([total, np.zeros(size - total.size, np.int64)])
            total[places] += np.frombuffer(count.as_buffer(), np.int32)
    yield from rows(block, total).combine_chunks().to_batches()


def _filled(total: Counts, size: int) -> Counts:
    """Counts with the zeros at their end that no task told of."""
    return np.concatenate([total, np.zeros(size - total.size, np.int64)])


def _partition_rows(named: str, block: int, total: Counts) -> pa.Table:
    """Name the counts of a block of partitions."""
    names = open_batches(named).get_batch(block)
    offline, under = _filled(total, 2 * names.num_rows).reshape(2, -1)
    return SWEEP_PARTITIONS.table(columns_of(names) | {
        "scenarios_offline": pa.array(offline), "scenarios_under_min_isr": pa.array(under),
    })


def _broker_rows(named: str, block: int, total: Counts) -> pa.Table:
    """Name the counts of a block of brokers."""
    names = open_batches(named).get_batch(block)
    begin = np.concatenate([[0], np.cumsum(names.column("room").to_numpy())]).tolist()
    filled = _filled(total, begin[-1])
    return load_table(
        names.column("broker_id"), names.column("rack"),
        np.asarray(names.column("registered").to_pylist(), np.bool_),
        [filled[start:stop] for start, stop in pairwise(begin)],
    )
