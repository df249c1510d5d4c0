"""Sweeps by partition and by broker: in how many scenarios each is in trouble, or how loaded."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.census import key_columns
from kfast.errors import ArgumentError
from kfast.kernels import sweep as kernel
from kfast.scenarios import Scenarios
from kfast.sweeps.leaders import Heirs
from kfast.sweeps.plan import SweepPlan, prepare_sweep
from kfast.sweeps.running import RANGE_SCENARIOS, Source, check_same_brokers, words_of
from kfast.sweeps.tiles import new_tile, padded

__all__ = ["sweep_brokers", "sweep_partitions"]

Counts = npt.NDArray[np.int64]

PERCENTILES = (0.5, 0.95, 0.99)
"""Shares of the scenarios that the percentiles of a broker's leaders cover."""


def sweep_partitions(
    state: Source, scenarios: Scenarios, threads: int = 1, *, vectors: str | None = None
) -> pa.Table:
    """Count, for every partition, the scenarios in which it is offline or under its min ISR.

    Parameters
    ----------
    state, scenarios, threads, vectors
        As for `kfast.sweep`; a slice of scenarios counts only those.

    Returns
    -------
    pa.Table
        One row per assigned partition: topic, partition, replicas (broker ids, in order),
        scenarios_offline and scenarios_under_min_isr (int64).

    Raises
    ------
    ArgumentError
        As `kfast.sweep`.
    """
    plan, words = _checked(state, scenarios, threads, vectors)
    first = np.cumsum(plan.groups[:, 7]) - plan.groups[:, 7]

    def count(start: int, stop: int, counts: Counts) -> None:
        offsets, down = scenarios.down(start, stop)
        kernel.count_partitions(
            plan.groups, padded(plan.sequences), first, plan.n_brokers, offsets, padded(down),
            words, new_tile(plan.n_brokers, words), counts,
        )

    found = _shared(count, scenarios, threads if plan.n_partitions else 0, (2, plan.n_partitions))
    order = np.argsort(plan.rows)
    rows = pa.array(plan.rows[order])
    columns = {name: column.take(rows) for name, column in key_columns(plan.started).items()}
    columns["scenarios_offline"] = pa.array(found[0, order])
    columns["scenarios_under_min_isr"] = pa.array(found[1, order])
    return pa.table(columns)


def sweep_brokers(
    state: Source, scenarios: Scenarios, threads: int = 1, *, vectors: str | None = None
) -> pa.Table:
    """Count, for every broker, how many partitions it leads in the scenarios in which it is up.

    Parameters
    ----------
    state, scenarios, threads, vectors
        As for `kfast.sweep`; a slice of scenarios counts only those.

    Returns
    -------
    pa.Table
        One row per broker: broker_id, rack, scenarios_up (int64); leaders_mean (float64),
        leaders_most (int64); leaders_p50, leaders_p95 and leaders_p99 (int64): the smallest number
        that the broker does not exceed in that share of the scenarios, exactly. A broker that is
        never up has nulls.

    Raises
    ------
    ArgumentError
        As `kfast.sweep`.
    """
    plan, words = _checked(state, scenarios, threads, vectors)
    heirs = Heirs.of(plan)
    room = heirs.led + np.diff(heirs.entry, axis=1).sum(axis=0) + 1
    begin = np.cumsum(room) - room

    def count(start: int, stop: int, histogram: Counts) -> None:
        offsets, down = scenarios.down(start, stop)
        heirs.lead(offsets, down, words, begin, histogram)

    histogram = _shared(count, scenarios, threads if room.size else 0, (int(room.sum()),))
    rows = [
        _load(histogram[start : start + size])
        for start, size in zip(begin.tolist(), room.tolist(), strict=True)
    ]
    for row, registered in zip(rows, plan.registered.tolist(), strict=True):
        if not registered:
            row.update(dict.fromkeys(row), scenarios_up=0)
    names = ["scenarios_up", "leaders_mean", "leaders_most", "leaders_p50", "leaders_p95",
             "leaders_p99"]
    types = {"leaders_mean": pa.float64()}
    columns = {"broker_id": pa.array(plan.broker_id), "rack": plan.started.rack}
    for name in names:
        columns[name] = pa.array([row[name] for row in rows], types.get(name, pa.int64()))
    return pa.table(columns)


def _load(histogram: Counts) -> dict[str, int | float | None]:
    """What a histogram of leaders says: index l, the scenarios with l leaders."""
    up = int(histogram.sum())
    found: dict[str, int | float | None] = {"scenarios_up": up}
    if not up:
        names = ("leaders_mean", "leaders_most", "leaders_p50", "leaders_p95", "leaders_p99")
        return found | dict.fromkeys(names)
    total = int((histogram * np.arange(histogram.size)).sum())
    found["leaders_mean"] = total / up
    found["leaders_most"] = int(np.flatnonzero(histogram)[-1])
    ends = np.cumsum(histogram)
    for share in PERCENTILES:
        needed = -(-up * round(share * 100) // 100)
        found[f"leaders_p{round(share * 100)}"] = int(np.searchsorted(ends, needed))
    return found


def _checked(
    state: Source, scenarios: Scenarios, threads: int, vectors: str | None
) -> tuple[SweepPlan, int]:
    words = words_of(vectors)
    if threads < 1:
        raise ArgumentError(f"threads is {threads}; at least 1 is needed")
    check_same_brokers(state, scenarios)
    plan = state if isinstance(state, SweepPlan) else prepare_sweep(state, threads=threads)
    return plan, words


def _shared(
    count: Callable[[int, int, Counts], None],
    scenarios: Scenarios,
    threads: int,
    shape: tuple[int, ...],
) -> Counts:
    """Let each thread count a share of the scenarios into an array of its own, and add them."""
    total = np.zeros(shape, np.int64)
    bounds = np.linspace(scenarios.start, scenarios.stop, threads + 1).astype(np.int64).tolist()

    def run(thread: int) -> Counts:
        part = np.zeros_like(total)
        for start in range(bounds[thread], bounds[thread + 1], RANGE_SCENARIOS):
            count(start, min(start + RANGE_SCENARIOS, bounds[thread + 1]), part)
        return part

    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for part in pool.map(run, range(threads)):
            total += part
    return total
