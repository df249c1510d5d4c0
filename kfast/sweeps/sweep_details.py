"""Sweeps by partition and by broker: in how many scenarios each is in trouble, or how loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.kernels import sweep as kernel
from kfast.schema import SWEEP_BROKERS, SWEEP_PARTITIONS
from kfast.state.census import key_columns
from kfast.sweeps.failover_order import FailoverOrder
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_counts import RANGE_SCENARIOS
from kfast.sweeps.sweep_plan import SweepPlan, down_brokers, padded
from kfast.sweeps.sweep_run import Source, check_sweep

__all__ = [
    "count_leaders",
    "count_partitions",
    "load_table",
    "sweep_brokers",
    "sweep_partitions",
]

Counts = npt.NDArray[np.int64]

PERCENTILES = (0.5, 0.95, 0.99)
"""Shares of the scenarios that the percentiles of a broker's leaders cover."""


def sweep_partitions(
    state: Source, scenarios: Scenarios, *, threads: int = 1, vectors: str | None = None
) -> pa.Table:
    """Count, for every partition, the scenarios in which it is offline or under its min ISR.

    Parameters
    ----------
    state, scenarios, threads, vectors
        As for `kfast.sweep`; a slice of scenarios counts only those.

    Returns
    -------
    pa.Table
        One row per assigned partition (`schema.SWEEP_PARTITIONS`): topic, partition,
        partition_row (of the state), replicas (broker ids, in order), scenarios_offline and
        scenarios_under_min_isr.

    Raises
    ------
    ArgumentError
        As `kfast.sweep`.
    """
    plan, words = check_sweep(state, scenarios, threads, vectors)
    counts = count_partitions(plan, scenarios, words, threads)
    order = np.argsort(plan.rows)
    return SWEEP_PARTITIONS.table(
        key_columns(plan.cluster, plan.rows[order])
        | {
            "scenarios_offline": pa.array(counts[0, order]),
            "scenarios_under_min_isr": pa.array(counts[1, order]),
        }
    )


def count_partitions(
    plan: SweepPlan, scenarios: Scenarios, words: int, threads: int = 1
) -> Counts:
    """Scenarios in which each partition is offline, and under its min ISR: (2, n), as `rows`."""
    first = np.cumsum(plan.groups[:, 7]) - plan.groups[:, 7]
    sequences, tables = padded(plan.sequences), padded(plan.tables)

    def count(start: int, stop: int, counts: Counts) -> None:
        offsets, down = scenarios.down(start, stop)
        kernel.count_partitions(
            plan.groups, sequences, tables, first,
            down_brokers(offsets, down, plan.n_brokers, words),
            counts,
        )

    n = plan.n_partitions
    return _count_in_threads(count, scenarios, threads if n else 0, (2, n))


def sweep_brokers(
    state: Source, scenarios: Scenarios, *, threads: int = 1, vectors: str | None = None
) -> pa.Table:
    """Count, for every broker, how many partitions it leads in the scenarios in which it is up.

    Parameters
    ----------
    state, scenarios, threads, vectors
        As for `kfast.sweep`; a slice of scenarios counts only those.

    Returns
    -------
    pa.Table
        One row per broker (`schema.SWEEP_BROKERS`): broker_id, rack, scenarios_up, leaders_mean,
        leaders_most; leaders_p50, leaders_p95 and leaders_p99: the smallest number that the broker
        does not exceed in that share of the scenarios, exactly. A broker that is never up has
        nulls.

    Raises
    ------
    ArgumentError
        As `kfast.sweep`.
    """
    plan, words = check_sweep(state, scenarios, threads, vectors)
    order = FailoverOrder.of(plan)
    histograms = count_leaders(order, scenarios, words, threads)
    return load_table(
        pa.array(plan.broker_id), plan.cluster.rack, plan.up,
        [histograms[i:j] for i, j in pairwise(order.histogram_begin.tolist())],
    )


def count_leaders(
    order: FailoverOrder, scenarios: Scenarios, words: int, threads: int = 1
) -> Counts:
    """Scenarios by the number of leaders on each broker, broker after broker."""

    def count(start: int, stop: int, histograms: Counts) -> None:
        order.add_to_histograms(*scenarios.down(start, stop), words, histograms)

    size = int(order.histogram_begin[-1])
    return _count_in_threads(count, scenarios, threads if order.led.size else 0, (size,))


def load_table(
    broker_id: pa.Array, rack: pa.Array, up: npt.NDArray[np.bool_],
    histograms: Iterable[Counts],
) -> pa.Table:
    """Rows of `sweep_brokers` for some brokers: from the scenarios by their leaders, for each."""
    rows = [_load(histogram) for histogram in histograms]
    for row, is_up in zip(rows, up.tolist(), strict=True):
        if not is_up:
            row.update(dict.fromkeys(row), scenarios_up=0)
    columns: dict[str, pa.Array] = {"broker_id": broker_id, "rack": rack}
    for column in SWEEP_BROKERS.columns[2:]:
        columns[column.name] = pa.array([row[column.name] for row in rows], column.arrow)
    return SWEEP_BROKERS.table(columns)


def _load(histogram: Counts) -> dict[str, int | float | None]:
    """What a histogram of leaders says: index l, the scenarios with l leaders."""
    up = int(histogram.sum())
    row: dict[str, int | float | None] = dict.fromkeys(c.name for c in SWEEP_BROKERS.columns[3:])
    row["scenarios_up"] = up
    if not up:
        return row
    total = int((histogram * np.arange(histogram.size)).sum())
    row["leaders_mean"] = total / up
    row["leaders_most"] = int(np.flatnonzero(histogram)[-1])
    ends = np.cumsum(histogram)
    for share in PERCENTILES:
        needed = -(-up * round(share * 100) // 100)
        row[f"leaders_p{round(share * 100)}"] = int(np.searchsorted(ends, needed))
    return row


def _count_in_threads(
    count: Callable[[int, int, Counts], None],
    scenarios: Scenarios,
    threads: int,
    shape: tuple[int, ...],
) -> Counts:
    """Let each thread count a share of the scenarios into an array of its own, and add them."""
    total = np.zeros(shape, np.int64)
    bounds = np.linspace(scenarios.start, scenarios.stop, threads + 1).astype(np.int64).tolist()

    def run(thread: int) -> Counts:
        part = total if threads == 1 else np.zeros_like(total)
        for start in range(bounds[thread], bounds[thread + 1], RANGE_SCENARIOS):
            count(start, min(start + RANGE_SCENARIOS, bounds[thread + 1]), part)
        return part

    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for part in pool.map(run, range(threads)):
            if part is not total:
                total += part
    return total
