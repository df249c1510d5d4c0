"""Sweeps over executors: a task is a range of scenario numbers.

What a sweep reads of the cluster travels once to each executor, as one Arrow file that all workers
there map into memory; scenarios travel as their parameters. So Spark moves nothing but numbers and
results.
"""

from __future__ import annotations

import math
import os
import re
import weakref
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import functions as sql
from pyspark.sql.utils import is_remote

from kfast.errors import ArgumentError
from kfast.io import read
from kfast.spark.mapped import send_plan
from kfast.spark.paths import check_tasks
from kfast.spark.questions import Question, check_question, make_scenarios, what_is
from kfast.spark.ranges import list_range, sweep_range
from kfast.spark.tasks import SHORT_SECONDS, TASK_SECONDS, over_hands
from kfast.state import ClusterState
from kfast.sweeps import SweepPlan, prepare_sweep, sweep_schema
from kfast.sweeps.scenarios import SCENARIO_TABLE, Scenarios
from kfast.sweeps.sweep_counts import SweepWork, check_counts, words_of
from kfast.sweeps.sweep_run import check_same_brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["scenario_rows", "sweep"]

Cluster: TypeAlias = ClusterState | SweepPlan | str | Path

PROBE_SCENARIOS = 512
"""Scenarios that are counted on the driver to learn what one costs."""

LOCAL_MASTER = re.compile(r"local\[(\d+|\*)[],]")
"""A session on one machine: how many cores it has; `*` stands for all that there are."""

MOST_CORES = 4096
"""More cores than this are not told apart."""

BATCH_SCENARIOS = 16_384
"""Scenarios in a batch that goes to the JVM: smaller ones cost more, larger ones come late."""

_cores: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""How many tasks each session runs at a time: only the number of tasks depends on it."""


def sweep(
    spark: SparkSession,
    state: Cluster,
    scenarios: Scenarios | Question,
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
    state : ClusterState, SweepPlan or path
        The cluster; a path is read on the driver with `kfast.read`.
    scenarios : Scenarios, str, (str, mapping) or callable
        Made for this cluster; or how they are made of it, as for `kfast.spark.fleet`.
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
    asked, words = check_counts(counts), words_of(vectors)
    plan, scenarios = plan_of(state, scenarios, tasks)
    work = SweepWork.of(plan, scenarios, asked, words)
    if tasks is None:
        tasks = choose_tasks(spark, scenarios, lambda some: deque(work.batches(some), maxlen=0))
    name = send_plan(spark, plan, heirs=work.heirs, hosting=work.hosting)
    run = partial(sweep_range, name, scenarios, asked, vectors, tasks, BATCH_SCENARIOS)
    return over_hands(spark, tasks, run, sweep_schema(asked))


def scenario_rows(spark: SparkSession, scenarios: Scenarios, *, tasks: int = 8) -> DataFrame:
    """List who fails in each scenario, in rows that are made where they are read.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    scenarios : Scenarios
    tasks : int, default 8
        How many; the rows do not depend on it.

    Returns
    -------
    DataFrame
        The rows of `Scenarios.to_table` (scenario, broker), in no order; a scenario in which
        nothing fails has none.

    Raises
    ------
    ArgumentError
        These are no Scenarios, or there are to be fewer tasks than one.
    """
    if not isinstance(scenarios, Scenarios):
        raise ArgumentError(
            f"scenarios is {what_is(scenarios)}: Scenarios are needed, as kfast.every_rack(state)"
        )
    check_tasks(tasks)
    return over_hands(spark, tasks, partial(list_range, scenarios, tasks), SCENARIO_TABLE)


def plan_of(
    state: Cluster, scenarios: Scenarios | Question, tasks: int | None,
) -> tuple[SweepPlan, Scenarios]:
    """Read, check and prepare what a sweep is given."""
    check_tasks(tasks)
    if not isinstance(state, (ClusterState, SweepPlan, str, Path)):
        raise ArgumentError(
            f"state is {what_is(state)}: a ClusterState, a SweepPlan or a path is needed; the "
            "session comes before it, scenarios after it"
        )
    if not isinstance(scenarios, Scenarios):
        check_question(scenarios)
    if isinstance(state, (str, Path)):
        state = read(state)
    if not isinstance(scenarios, Scenarios):
        if isinstance(state, SweepPlan):
            raise ArgumentError(
                f"scenarios is {what_is(scenarios)}, and the state a SweepPlan: make them"
            )
        scenarios = make_scenarios(scenarios, state)
    check_same_brokers(state, scenarios)
    return state if isinstance(state, SweepPlan) else prepare_sweep(state), scenarios


def choose_tasks(
    spark: SparkSession, scenarios: Scenarios, run: Callable[[Scenarios], object],
    task_seconds: float = TASK_SECONDS,
) -> int:
    """So many tasks that each lasts so many seconds at most, and all cores have as many.

    Where all of it is little work, there are fewer tasks than cores: none is short.
    """
    n = min(len(scenarios), PROBE_SCENARIOS)
    began = perf_counter()
    run(scenarios.slice(scenarios.start, scenarios.start + n))
    seconds = (perf_counter() - began) / max(n, 1) * len(scenarios)
    most = math.ceil(seconds / SHORT_SECONDS)
    if most <= 1:
        return 1
    cores = _cores_of(spark)
    return min(most, cores * math.ceil(seconds / task_seconds / cores))


def _cores_of(spark: SparkSession) -> int:
    """How many tasks the session runs at a time, as far as it knows; it is found out once.

    A job that asks takes half a second where it is the first of a session, so there is one only
    where the master's name does not tell.
    """
    if spark not in _cores:
        said = LOCAL_MASTER.match(spark.conf.get("spark.master", "") or "")
        if said and said[1] != "*":
            _cores[spark] = int(said[1])
        elif said and not is_remote():
            _cores[spark] = os.cpu_count() or 1
        else:
            _cores[spark] = _count_cores(spark)
    return _cores[spark]


def _count_cores(spark: SparkSession) -> int:
    numbers = spark.range(MOST_CORES).select(sql.spark_partition_id().alias("task"))
    return len(numbers.toArrow()["task"].unique())
