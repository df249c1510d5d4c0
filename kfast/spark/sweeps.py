"""Sweeps over executors: a task is a range of scenario numbers.

What a sweep reads of the cluster travels once to each executor, as one Arrow file that all workers
there map into memory; scenarios travel as their parameters. So Spark moves nothing but numbers and
results.
"""

from __future__ import annotations

import functools
import hashlib
import math
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import functions as sql

from kfast.errors import ArgumentError
from kfast.io import read
from kfast.scenarios import SCENARIO_TABLE, Scenarios
from kfast.spark.dataset import over_hands
from kfast.state import ClusterState
from kfast.sweeps import sweep as sweep_here
from kfast.sweeps import sweep_reader, sweep_schema
from kfast.sweeps.plan import FIELDS, SweepPlan, prepare_sweep
from kfast.sweeps.running import SWEEP_COUNTS, check_same_brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["scenario_rows", "sweep"]

Cluster: TypeAlias = ClusterState | SweepPlan | str | Path

TASK_SECONDS = 2.0
"""How long a task should last: a task costs 40 ms by itself."""

PROBE_SCENARIOS = 512
"""Scenarios that are counted on the driver to learn what one costs."""

_PLAN = pa.schema(
    [(name, pa.large_binary()) for name in ("broker_id", "registered", "groups", "sequences")]
    + [("n_partitions", pa.int64()), ("n_rows", pa.int64())]
)
_sent: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""Files that each session has been given."""


def sweep(
    spark: SparkSession,
    cluster: Cluster,
    scenarios: Scenarios | Callable[[ClusterState], Scenarios],
    *,
    counts: Collection[str] | None = None,
    vectors: str | None = None,
    tasks: int | None = None,
) -> DataFrame:
    """Count what each scenario would do to the cluster, over all executors.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    cluster : ClusterState, SweepPlan or path
        The cluster; a path is read on the driver with `kfast.read`.
    scenarios : Scenarios, or callable that makes them of a ClusterState
        Made for this cluster.
    counts, vectors : optional
        As for `kfast.sweep`.
    tasks : int, optional
        How many; by default so many that each lasts about two seconds. The rows do not depend on
        it.

    Returns
    -------
    DataFrame
        The rows of `kfast.sweep`, in no order: sort by `scenario` where it matters.

    Raises
    ------
    ArgumentError, InputError
        As `kfast.sweep` and `kfast.read` raise them, before anything runs.
    """
    if tasks is not None and tasks < 1:
        raise ArgumentError(f"tasks is {tasks}; at least 1 is needed")
    state = read(cluster) if isinstance(cluster, (str, Path)) else cluster
    if not isinstance(scenarios, Scenarios):
        if isinstance(state, SweepPlan):
            raise ArgumentError("scenarios is a callable, and the cluster a SweepPlan: make them")
        scenarios = scenarios(state)
    check_same_brokers(state, scenarios)
    plan = state if isinstance(state, SweepPlan) else prepare_sweep(state)
    asked = tuple(SWEEP_COUNTS) if counts is None else tuple(counts)
    first = scenarios.slice(scenarios.start, min(scenarios.start + 1, scenarios.stop))
    sweep_here(plan, first, counts=asked, vectors=vectors)
    if tasks is None:
        tasks = _choose_tasks(spark, plan, scenarios, asked, vectors)
    name = _send(spark, plan)
    run = partial(_sweep_range, name, scenarios, asked, vectors, tasks)
    return over_hands(spark, tasks, run, sweep_schema(asked))


def scenario_rows(spark: SparkSession, scenarios: Scenarios, *, tasks: int = 8) -> DataFrame:
    """All scenarios as rows (scenario, broker), made where they are read."""
    return over_hands(spark, tasks, partial(_list_range, scenarios, tasks), SCENARIO_TABLE)


def _slice(scenarios: Scenarios, tasks: int, task: int) -> Scenarios:
    n = len(scenarios)
    start, stop = n * task // tasks, n * (task + 1) // tasks
    return scenarios.slice(scenarios.start + start, scenarios.start + stop)


def _list_range(scenarios: Scenarios, tasks: int, task: int) -> Iterator[pa.RecordBatch]:
    yield from _slice(scenarios, tasks, task).to_batches()


def _sweep_range(
    name: str, scenarios: Scenarios, counts: tuple[str, ...], vectors: str | None, tasks: int,
    task: int,
) -> Iterator[pa.RecordBatch]:
    """Count a task's scenarios; one thread, for every core has a task."""
    part = _slice(scenarios, tasks, task)
    with sweep_reader(_open(SparkFiles.get(name)), part, counts=counts, vectors=vectors) as reader:
        yield from reader


def _choose_tasks(
    spark: SparkSession, plan: SweepPlan, scenarios: Scenarios, counts: tuple[str, ...],
    vectors: str | None,
) -> int:
    """So many tasks that each lasts `TASK_SECONDS`, and all cores have as many."""
    n = min(len(scenarios), PROBE_SCENARIOS)
    probe = scenarios.slice(scenarios.start, scenarios.start + n)
    began = perf_counter()
    sweep_here(plan, probe, counts=counts, vectors=vectors)
    seconds = (perf_counter() - began) / max(n, 1) * len(scenarios)
    if seconds < TASK_SECONDS / 4:
        return 1
    cores: int = spark.range(10_000).select(sql.spark_partition_id()).distinct().count()
    return max(1, cores * math.ceil(seconds / TASK_SECONDS / cores))


def _send(spark: SparkSession, plan: SweepPlan) -> str:
    """Give the session a plan as a file, unless it has it; return the file's name."""
    arrays = [plan.broker_id, plan.registered, plan.groups, plan.sequences]
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    digest.update(repr((plan.n_partitions, plan.n_rows, arrays[2].shape)).encode())
    name = f"kfast-{digest.hexdigest()}.arrow"
    known = _sent.setdefault(spark, set())
    if name in known:
        return name
    cells = [pa.array([array.tobytes()], pa.large_binary()) for array in arrays]
    sizes = [pa.array([plan.n_partitions]), pa.array([plan.n_rows])]
    path = Path(_folder().name) / name
    with pa.ipc.new_file(str(path), _PLAN) as writer:
        writer.write_batch(pa.record_batch([*cells, *sizes], schema=_PLAN))
    spark.addArtifacts(str(path), file=True)
    known.add(name)
    return name


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where files that are sent lie: a classic session reads them again until the process ends."""
    return tempfile.TemporaryDirectory(prefix="kfast-")


@functools.lru_cache(maxsize=2)
def _open(path: str) -> SweepPlan:
    """Map a plan into memory; the columns are views of the file."""
    batch = pa.ipc.open_file(pa.memory_map(path, "r")).get_batch(0)

    def column(name: str, dtype: Any) -> npt.NDArray[Any]:
        return np.frombuffer(batch.column(name)[0].as_buffer(), dtype)

    groups = column("groups", np.int64)
    return SweepPlan(
        column("broker_id", np.int32), column("registered", np.bool_),
        batch.column("n_partitions")[0].as_py(), batch.column("n_rows")[0].as_py(),
        groups.reshape(-1, len(FIELDS)), column("sequences", np.int32), np.empty(0, np.int32),
        ClusterState(),
    )
