"""Timelines of many failures over executors: of one cluster, or of each of a fleet.

A task is a range of scenario numbers. The cluster travels once to each executor, as one file whose
arrays workers map; every row has the bits that `kfast.timeline` gives of that failure alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kfast.arguments import check_instance
from kfast.capacity import PartitionLoad
from kfast.io import read
from kfast.schema import FLEET_TIMELINES, TIMELINE_SWEEP
from kfast.spark.fleets import ExportReader, fleet_rows
from kfast.spark.paths import check_tasks
from kfast.spark.sweep_tasks import open_sent, send, slice_for
from kfast.spark.sweeps import ScenarioSpec, check_spec, make_scenarios
from kfast.spark.workers import count_tasks, run_tasks
from kfast.state import ClusterState
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_run import check_same_brokers
from kfast.timelines.failover import rows_table
from kfast.timelines.failure_sweep import check_failures, timed_rows
from kfast.timelines.parameters import Parameters
from kfast.timelines.question import Question
from kfast.timelines.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["timeline_fleet", "timeline_sweep"]

PROBE_FAILURES = 4
"""Failures that are timed on the driver to learn what one costs."""

BATCH_ROWS = 4096
FAILURE_SECONDS, PARTITION_SECONDS = 20e-3, 3e-8
"""What a failure takes, and each partition of its cluster; as measured. Only the sizes of a fleet's
tasks follow from these, never the rows."""


def timeline_sweep(
    spark: SparkSession,
    state: ClusterState | str | Path,
    scenarios: Scenarios | ScenarioSpec,
    *,
    params: Parameters | Mapping[str, str] | None = None,
    settings: Settings | Mapping[str, int] | None = None,
    profile: str = "default",
    samples: int = 200,
    seed: int = 0,
    horizon: str = "1h",
    loss: str = "process",
    load: PartitionLoad | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """When the steps of many failures happen, each by itself, over all executors.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    state : ClusterState or path
        The cluster; a file is read on the driver with `kfast.read`.
    scenarios : Scenarios, str, (str, mapping) or callable
        Made for this cluster; or how they are made of it, as for `kfast.spark.fleet`.
    params, settings, profile, samples, seed, horizon, loss, load
        As of `kfast.timeline_sweep`.
    tasks : int, optional
        How many; by default so many that each lasts about two seconds. The rows do not depend on
        it.

    Returns
    -------
    DataFrame
        The rows of `kfast.timeline_sweep(...).summary`, in no order: sort by `scenario` where it
        matters.

    Raises
    ------
    ArgumentError, InputError
        As `kfast.timeline_sweep` and `kfast.read` raise them, before anything runs.
    """
    check_tasks(tasks)
    if isinstance(state, (str, Path)):
        state = read(state)
    check_instance("state", state, ClusterState)
    if not isinstance(scenarios, Scenarios):
        scenarios = make_scenarios(scenarios, state)
    check_same_brokers(state, scenarios)
    question = Question.of(state, params, settings, profile, samples, seed, horizon, loss, load)
    failures = scenarios.failures
    check_failures(state, failures)
    if tasks is None:
        tasks = count_tasks(_estimate_seconds(state, failures, question))
    run = partial(_time_range, send(spark, (state, question)), failures, tasks)
    return run_tasks(spark, tasks, run, TIMELINE_SWEEP.schema)


def _estimate_seconds(state: ClusterState, failures: Scenarios, question: Question) -> float:
    """Seconds that all failures take on one core, as some that lie apart take on the driver."""
    n = len(failures)
    places = np.unique(np.linspace(0, max(n - 1, 0), PROBE_FAILURES).astype(np.int64)).tolist()
    began, timed = perf_counter(), 0
    for place in places if n else ():
        number = failures.start + place
        timed += len(list(timed_rows(state, failures.slice(number, number + 1), question)))
    return (perf_counter() - began) / max(timed, 1) * n


def _time_range(
    name: str, failures: Scenarios, tasks: int, task: int
) -> Iterator[pa.RecordBatch]:
    """Rows of a task's failures; one thread, for every core has a task."""
    state, question = open_sent(name)
    yield from _batches(timed_rows(state, slice_for(failures, tasks, task), question))


def _batches(rows: Iterator[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Rows in batches: each that goes to the JVM costs milliseconds."""
    waiting = list[Mapping[str, Any]]()
    for row in rows:
        waiting.append(row)
        if len(waiting) == BATCH_ROWS:
            yield from rows_table(TIMELINE_SWEEP, waiting).to_batches()
            waiting = []
    if waiting:
        yield from rows_table(TIMELINE_SWEEP, waiting).to_batches()


@dataclass(frozen=True)
class _FleetWork:
    """All that a task of a fleet must know, besides its exports."""

    reader: ExportReader
    spec: ScenarioSpec
    arguments: tuple[Any, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        return FLEET_TIMELINES.schema

    def seconds(self, partitions: int, scenarios: int) -> float:
        """About how long so many scenarios of a cluster take."""
        return scenarios * (FAILURE_SECONDS + partitions * PARTITION_SECONDS)

    def batches(
        self, name: str, state: ClusterState, scenarios: Scenarios
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one cluster, or of a part of its scenarios."""
        # All parts of one cluster have an answer, or none has.
        check_failures(state, make_scenarios(self.spec, state).failures)
        question = Question.of(state, *self.arguments)
        for batch in _batches(timed_rows(state, scenarios.failures, question)):
            n = batch.num_rows
            columns = {
                "source": pa.repeat(pa.scalar(name, pa.string()), n),
                "error": pa.nulls(n, pa.string()),
                "partitions": pa.array(np.full(n, state.n_partitions, np.int64)),
                **dict(zip(batch.schema.names, batch.columns, strict=True)),
            }
            yield pa.record_batch(
                [columns[field.name] for field in self.schema], schema=self.schema
            )


def timeline_fleet(
    spark: SparkSession,
    exports: str | Path | DataFrame,
    scenarios: ScenarioSpec,
    *,
    params: Parameters | Mapping[str, str] | None = None,
    settings: Settings | Mapping[str, int] | None = None,
    profile: str = "default",
    samples: int = 200,
    seed: int = 0,
    horizon: str = "1h",
    loss: str = "process",
    defaults: Mapping[str, object] | None = None,
    brokers_name: str = "brokers.csv",
    controller: str | None = None,
    elr: bool | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """When the steps of failures of each of many clusters happen.

    Parameters
    ----------
    spark, exports, scenarios, defaults, brokers_name, controller, elr, tasks
        As for `kfast.spark.fleet`.
    params, settings, profile, samples, seed, horizon, loss
        As of `kfast.timeline_sweep`.

    Returns
    -------
    DataFrame
        source, error, partitions, and the columns of `kfast.timeline_sweep(...).summary`, in no
        order. Where `error` says why an export cannot be read, or has no such scenarios, all else
        is null.

    Raises
    ------
    ArgumentError, InputError
        As `kfast.spark.fleet` raises them; a parameter or a setting can be of no cluster.
    """
    check_spec(scenarios)
    arguments = (params, settings, profile, samples, seed, horizon, loss)
    # What is wrong whatever the cluster is refused once, and not in every row.
    Question.of(ClusterState.from_tables(), *arguments)
    reader = ExportReader(
        {} if defaults is None else defaults, brokers_name, controller, elr
    ).checked()
    return fleet_rows(spark, exports, _FleetWork(reader, scenarios, arguments), tasks)
