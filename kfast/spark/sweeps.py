"""Sweeps over executors: a task is a range of scenario numbers.

What a sweep reads of the cluster travels once to each executor; scenarios travel as their
parameters. So Spark moves nothing but numbers and results.

By partition and by broker, a task counts its scenarios for the whole cluster, and gives its counts
as one row for each block of partitions or brokers: bytes, which cost little to pass on. Spark
brings the rows of a block together; whoever adds them also maps the names. Counts are integers, so
the order in which they are added does not matter.

Scenarios may be given as a spec, such as the name of their maker: they are then made of whatever
cluster it is. A spec is checked where it is given, so that what no cluster can have is refused
once.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from kfast.arguments import MAX_BROKER_ID, number, shown, whole
from kfast.errors import ArgumentError
from kfast.io import read
from kfast.schema import SWEEP_BROKERS, SWEEP_PARTITIONS, ResultTable, columns_of
from kfast.spark.paths import check_tasks
from kfast.spark.sweep_tasks import (
    list_range,
    open_sent,
    send,
    slice_for,
    sweep_range,
    without_cluster,
)
from kfast.spark.workers import count_tasks, for_workers, run_tasks
from kfast.state import ClusterState
from kfast.state.census import key_columns
from kfast.sweeps import SweepPlan, prepare_sweep, scenario_makers, sweep_schema
from kfast.sweeps.failover_order import FailoverOrder
from kfast.sweeps.scenario_makers import MOST_SCENARIOS
from kfast.sweeps.scenarios import SCENARIO_TABLE, Scenarios
from kfast.sweeps.sweep_counts import SweepWork, check_counts, words_of
from kfast.sweeps.sweep_details import count_leaders, count_partitions, load_table
from kfast.sweeps.sweep_run import check_same_brokers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BATCH_SCENARIOS", "MAKERS", "ScenarioSpec", "check_spec", "estimate_seconds", "kind_of",
    "make_scenarios", "parse_spec", "scenario_rows", "sweep", "sweep_brokers", "sweep_partitions",
]

Cluster: TypeAlias = ClusterState | SweepPlan | str | Path
Counts: TypeAlias = npt.NDArray[np.int64]
ScenarioSpec: TypeAlias = str | tuple[str, Mapping[str, Any]] | Callable[[ClusterState], Scenarios]

PROBE_SCENARIOS = 512
"""Scenarios that are counted on the driver to learn what one costs."""

BATCH_SCENARIOS = 16_384
"""Scenarios in a batch that goes to the JVM: smaller ones cost more, larger ones come late."""

DETAIL_SECONDS = 3.0
"""How long a task should last that gives counts of the whole cluster, which must be added."""

BLOCK_PARTITIONS = 8192
"""Partitions in a block: 64 KiB of counts, so that a thousand tasks' fit into memory at once."""

BLOCK_BROKERS = 16
"""Brokers in a block; each has as many numbers as it was seen to have different leaders."""

_COUNTED = pa.schema([("block", pa.int32()), ("place", pa.binary()), ("count", pa.binary())])
"""Counts of a block that are not zero (int32), and their places in the block (int32)."""


# --- what is counted ---------------------------------------------------------------------------


def sweep(
    spark: SparkSession,
    state: Cluster,
    scenarios: Scenarios | ScenarioSpec,
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
        The cluster; a file is read on the driver with `kfast.read`, a folder or glob of shards, as
        `kfast.spark.fail` takes it, by tasks.
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
    names, words = check_counts(counts), words_of(vectors)
    plan, scenarios = _prepare(spark, state, scenarios, tasks)
    work = SweepWork.of(plan, scenarios, names, words)
    if tasks is None:
        seconds = estimate_seconds(scenarios, lambda part: deque(work.batches(part), maxlen=0))
        tasks = count_tasks(seconds)
    name = send(spark, (without_cluster(plan), work.failover_order, work.hosting))
    run = partial(sweep_range, name, scenarios, names, vectors, tasks, BATCH_SCENARIOS)
    return run_tasks(spark, tasks, run, sweep_schema(names))


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
            f"scenarios is {kind_of(scenarios)}: Scenarios are needed, as kfast.every_rack(state)"
        )
    check_tasks(tasks)
    return run_tasks(spark, tasks, partial(list_range, scenarios, tasks), SCENARIO_TABLE)


def sweep_partitions(
    spark: SparkSession,
    state: Cluster,
    scenarios: Scenarios | ScenarioSpec,
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
    plan, scenarios = _prepare(spark, state, scenarios, tasks)
    if plan.rows.size != plan.n_partitions:
        raise ArgumentError(
            "state is a cluster in many files, of which a sweep by partition is not possible; right"
            " is a ClusterState or a file"
        )
    words = words_of(vectors)
    if tasks is None:
        seconds = estimate_seconds(scenarios, lambda part: count_partitions(plan, part, words))
        tasks = count_tasks(seconds, DETAIL_SECONDS)
    order = np.argsort(plan.rows).astype(np.int32)
    names = pa.table(key_columns(plan.cluster, plan.rows[order]))
    name, named = send(spark, (without_cluster(plan), order)), send(spark, _one_batch(names))
    run = partial(_count_partitions, name, scenarios, vectors, BLOCK_PARTITIONS, tasks)
    rows = partial(_partition_rows, named, BLOCK_PARTITIONS)
    return _sum_by_block(spark, tasks, run, rows, SWEEP_PARTITIONS)


def sweep_brokers(
    spark: SparkSession,
    state: Cluster,
    scenarios: Scenarios | ScenarioSpec,
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
    plan, scenarios = _prepare(spark, state, scenarios, tasks)
    words = words_of(vectors)
    order = FailoverOrder.of(plan)
    if tasks is None:
        seconds = estimate_seconds(scenarios, lambda part: count_leaders(order, part, words))
        tasks = count_tasks(seconds, DETAIL_SECONDS)
    names = pa.table({
        "broker_id": pa.array(plan.broker_id),
        "rack": plan.cluster.rack,
        "up": pa.array(plan.up),
        "size": pa.array(np.diff(order.histogram_begin)),
    })
    name, named = send(spark, order), send(spark, _one_batch(names))
    run = partial(_count_leaders, name, scenarios, vectors, BLOCK_BROKERS, tasks)
    rows = partial(_broker_rows, named, BLOCK_BROKERS)
    return _sum_by_block(spark, tasks, run, rows, SWEEP_BROKERS)


def _prepare(
    spark: SparkSession, state: Cluster, scenarios: Scenarios | ScenarioSpec, tasks: int | None,
) -> tuple[SweepPlan, Scenarios]:
    """Read, check and prepare what a sweep is given."""
    check_tasks(tasks)
    if not isinstance(state, (ClusterState, SweepPlan, str, Path)):
        raise ArgumentError(
            f"state is {kind_of(state)}: a ClusterState, a SweepPlan or a path is needed; the "
            "session comes before it, scenarios after it"
        )
    if not isinstance(scenarios, Scenarios):
        check_spec(scenarios)
    if isinstance(state, (str, Path)):
        # Workers import this module, and have no use for that one.
        from kfast.spark.sharded_sweeps import is_dataset, prepare_dataset

        if is_dataset(state):
            plan = prepare_dataset(spark, state)
            if not isinstance(scenarios, Scenarios):
                scenarios = make_scenarios(scenarios, plan.cluster)
            check_same_brokers(plan, scenarios)
            return plan, scenarios
        state = read(state)
    if not isinstance(scenarios, Scenarios):
        if isinstance(state, SweepPlan):
            raise ArgumentError(
                f"scenarios is {kind_of(scenarios)}, and the state a SweepPlan: make them"
            )
        scenarios = make_scenarios(scenarios, state)
    check_same_brokers(state, scenarios)
    return state if isinstance(state, SweepPlan) else prepare_sweep(state), scenarios


def estimate_seconds(scenarios: Scenarios, run: Callable[[Scenarios], object]) -> float:
    """Seconds that all scenarios take on one core, as some of them take on the driver."""
    n = min(len(scenarios), PROBE_SCENARIOS)
    began = perf_counter()
    run(scenarios.slice(scenarios.start, scenarios.start + n))
    return (perf_counter() - began) / max(n, 1) * len(scenarios)


# --- counts by partition and by broker, in tasks -----------------------------------------------


def _count_partitions(
    name: str, scenarios: Scenarios, vectors: str | None, size: int, tasks: int, task: int
) -> Iterator[pa.RecordBatch]:
    """Counts of a task's scenarios: of a block, first those of offline partitions."""
    plan, order = open_sent(name)
    counts = count_partitions(plan, slice_for(scenarios, tasks, task), words_of(vectors))
    for block, start in enumerate(range(0, plan.n_partitions, size)):
        yield _block_row(block, counts[:, order[start : start + size]].reshape(-1))


def _count_leaders(
    name: str, scenarios: Scenarios, vectors: str | None, size: int, tasks: int, task: int
) -> Iterator[pa.RecordBatch]:
    """Counts of a task's scenarios: of a block, broker after broker."""
    order: FailoverOrder = open_sent(name)
    counts = count_leaders(order, slice_for(scenarios, tasks, task), words_of(vectors))
    begin = order.histogram_begin
    edges = [*begin[:-1:size].tolist(), int(begin[-1])]
    for block, (start, stop) in enumerate(pairwise(edges)):
        yield _block_row(block, counts[start:stop])


def _block_row(block: int, counts: Counts) -> pa.RecordBatch:
    """One row with the counts of a block that are not zero."""
    places = np.flatnonzero(counts)
    place, count = (items.astype(np.int32).tobytes() for items in (places, counts[places]))
    row = {"block": block, "place": place, "count": count}
    return pa.RecordBatch.from_pylist([row], schema=_COUNTED)


def _sum_by_block(
    spark: SparkSession, tasks: int, run: Any, rows: Callable[[int, Counts], pa.Table],
    result: ResultTable,
) -> DataFrame:
    """Count in tasks, let Spark bring the blocks together, add and name them."""
    work = for_workers(partial(_sum_block, rows))

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from work(batches)

    counted = run_tasks(spark, tasks, run, _COUNTED)
    return counted.groupBy("block").applyInArrow(add, from_arrow_schema(result.schema))


def _sum_block(
    rows: Callable[[int, Counts], pa.Table], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Add the rows of one block."""
    total = np.zeros(0, np.int64)
    block = 0
    for batch in batches:
        block = batch.column("block")[0].as_py()
        for place, count in zip(batch.column("place"), batch.column("count"), strict=True):
            places = np.frombuffer(place.as_buffer(), np.int32)
            total = _padded(total, int(places[-1]) + 1 if places.size else 0)
            total[places] += np.frombuffer(count.as_buffer(), np.int32)
    yield from rows(block, total).combine_chunks().to_batches()


def _padded(total: Counts, size: int) -> Counts:
    """Counts with zeros at their end, at least of some size."""
    return np.pad(total, (0, size - total.size)) if size > total.size else total


def _one_batch(names: pa.Table) -> pa.RecordBatch:
    """A table as one batch, for workers to slice: slices cannot be sent without all of it."""
    columns = [column.combine_chunks() for column in names.columns]
    return pa.record_batch(columns, schema=names.schema)


def _partition_rows(named: str, size: int, block: int, total: Counts) -> pa.Table:
    """Name the counts of a block of partitions."""
    names = open_sent(named).slice(block * size, size)
    offline, under = _padded(total, 2 * names.num_rows).reshape(2, -1)
    return SWEEP_PARTITIONS.table(columns_of(names) | {
        "scenarios_offline": pa.array(offline), "scenarios_under_min_isr": pa.array(under),
    })


def _broker_rows(named: str, size: int, block: int, total: Counts) -> pa.Table:
    """Name the counts of a block of brokers."""
    names = open_sent(named).slice(block * size, size)
    begin = np.concatenate([[0], np.cumsum(names.column("size").to_numpy())]).tolist()
    counts = _padded(total, begin[-1])
    return load_table(
        names.column("broker_id"), names.column("rack"),
        np.asarray(names.column("up").to_pylist(), np.bool_),
        [counts[start:stop] for start, stop in pairwise(begin)],
    )


# --- scenarios by a spec -----------------------------------------------------------------------

MAKERS = (
    "bursts", "every_broker", "every_rack", "every_rack_and_broker", "independent_brokers",
    "independent_racks", "random_brokers",
)

RIGHT = (
    'right is the name of a maker of scenarios, as "every_rack", or with its arguments, as '
    '("every_broker", {"k": 2}), or a function of a ClusterState'
)

_VALUES: Mapping[str, Callable[[str, Any], object]] = {
    "k": partial(whole, low=0, high=MAX_BROKER_ID),
    "n": partial(whole, low=0, high=MOST_SCENARIOS),
    "seed": partial(whole, low=0, high=2**64 - 1),
    "p": partial(number, low=0, high=1),
    "share": partial(number, low=0, high=1),
}
"""What arguments of makers can be, whatever the cluster; the makers themselves say the rest."""


def kind_of(value: object) -> str:
    """What a caller gave, for messages; of what is large, or costs a job to look at, the kind."""
    if value is None or isinstance(value, (str, bytes, int, float, tuple, list, dict, Path)):
        return shown(value)
    if callable(value) and not isinstance(value, type):
        return "a function"
    kind = type(value)
    return f"a {kind.__module__.partition('.')[0]} {kind.__name__}"


def make_scenarios(spec: ScenarioSpec, state: ClusterState) -> Scenarios:
    """Make the scenarios that a spec means for this cluster, or refuse it."""
    check_spec(spec)
    if callable(spec):
        made = spec(state)
        if not isinstance(made, Scenarios):
            raise ArgumentError(
                f"scenarios is a function that gave {kind_of(made)}: it must give Scenarios"
            )
        return made
    name, arguments = parse_spec(spec)
    scenarios: Scenarios = getattr(scenario_makers, name)(state, **arguments)
    return scenarios


def check_spec(spec: object) -> None:
    """Refuse what no cluster can have."""
    if callable(spec):
        return
    name, arguments = parse_spec(spec)
    signature = inspect.signature(getattr(scenario_makers, name))
    try:
        signature.bind(None, **arguments)
    except TypeError as error:
        known = ", ".join(list(signature.parameters)[1:])
        raise ArgumentError(
            f"scenarios {name}: {error}; its arguments are {known or 'none'}"
        ) from error
    for argument, value in arguments.items():
        _VALUES[argument](f"{argument} of {name}", value)


def parse_spec(spec: object) -> tuple[str, Mapping[str, Any]]:
    """Name and arguments of the maker that a spec names."""
    if isinstance(spec, Scenarios):
        raise ArgumentError(
            f"scenarios is {kind_of(spec)}, made of one cluster, and each cluster needs "
            f"its own: {RIGHT}"
        )
    match spec:
        case str(name):
            arguments: Any = {}
        case (str(name), Mapping() as arguments):
            pass
        case _:
            raise ArgumentError(f"scenarios is {kind_of(spec)}: {RIGHT}")
    if name not in MAKERS:
        raise ArgumentError(f"scenarios {name!r} are unknown; allowed: {', '.join(MAKERS)}")
    return name, arguments
