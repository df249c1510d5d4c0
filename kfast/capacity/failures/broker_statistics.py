"""What each broker uses over many failures: mean, most and percentiles, exactly.

Values of all scenarios are not held: a percentile is found by counting values in bins, then again
in the bin that holds it, until a bin is one value wide.

Source: docs/capacity.md, "Brokers over all failures".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.capacity.failures.capacity_sweeps import CapacityPlan, check_sweep
from kfast.capacity.failures.failure_terms import Integers
from kfast.capacity.failures.limits import USED, utilisation
from kfast.kernels import capacity as kernel
from kfast.schema import CAPACITY_BROKERS
from kfast.sweeps.scenarios import Scenarios

__all__ = ["capacity_brokers"]

PERCENTILES = (95, 99)

BLOCK_BYTES = 8 << 20
"""Loads that are computed at a time."""

MOST_BLOCKS = 32
"""Blocks that are held between passes; of more, all are computed again in each pass."""

BIN_BYTES = 64 << 20
"""Memory that bins may take."""

LEAST_BIN_BITS, MOST_BIN_BITS = 8, 16
LARGEST = np.iinfo(np.int64).max

Block = tuple[int, Integers, npt.NDArray[np.uint8]]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums and extremes of what brokers use of network and processor.

    Attributes
    ----------
    scenarios : (B,) int64
        In which the broker is up.
    total : (B, 3, 2) int64
        The sum, as multiples of 2^32 and of 1.
    least, most : (B, 3) int64
    most_scenario : (B, 3) int64
        The lowest number of equals.
    """

    scenarios: Integers
    total: Integers
    least: Integers
    most: Integers
    most_scenario: Integers

    @classmethod
    def of(cls, n_brokers: int, blocks: Iterable[Block]) -> Statistics:
        """Take all blocks."""
        shape = n_brokers, kernel.layout()["resources"]
        statistics = cls(
            np.zeros(n_brokers, np.int64), np.zeros((*shape, 2), np.int64),
            np.full(shape, LARGEST), np.full(shape, -1), np.full(shape, -1),
        )
        for first, loads, up in blocks:
            kernel.add_statistics(loads, up, first, statistics)
        return statistics


def capacity_brokers(
    plan: CapacityPlan, scenarios: Scenarios, *, method: str | None = None
) -> pa.Table:
    """Measure what each broker uses over all scenarios in which it is up.

    Parameters
    ----------
    plan : CapacityPlan
    scenarios : Scenarios
        Made for this cluster; a slice counts only those. The empty baseline is one of them.
    method : {"terms", "pass"}, optional
        As for `capacity_sweep`. Results do not depend on it.

    Returns
    -------
    pa.Table
        One row per broker (`schema.CAPACITY_BROKERS`), in integers but for means and shares. A
        percentile is the value of nearest rank: the smallest that the broker does not exceed in so
        many percent of its scenarios.

    Raises
    ------
    ArgumentError
        As for `capacity_sweep`.
    """
    check_sweep(plan, scenarios, method)
    n = plan.broker_id.size
    size = max(BLOCK_BYTES // (24 * max(n, 1)), 1)
    held = list(_blocks(plan, scenarios, size, method)) if (
        len(scenarios) <= MOST_BLOCKS * size) else None

    def blocks() -> Iterable[Block]:
        return _blocks(plan, scenarios, size, method) if held is None else held

    statistics = Statistics.of(n, blocks())
    percentiles = _percentiles(statistics, blocks)
    none = np.zeros(2, np.int64), np.empty(0, np.int32)
    return _table(plan, statistics, percentiles, plan.broker_loads(*none, method)[0])


def _blocks(
    plan: CapacityPlan, scenarios: Scenarios, size: int, method: str | None
) -> Iterator[Block]:
    """So many scenarios at a time: the first number, loads, and 1 where a broker is up."""
    for start in range(scenarios.start, scenarios.stop, size):
        offsets, down = scenarios.down(start, min(start + size, scenarios.stop))
        up = np.repeat(plan.up[None].astype(np.uint8), offsets.size - 1, axis=0)
        up[np.repeat(np.arange(offsets.size - 1), np.diff(offsets)), down] = 0
        yield start, plan.broker_loads(offsets, down, method), up


def _percentiles(
    statistics: Statistics, blocks: Callable[[], Iterable[Block]]
) -> npt.NDArray[np.int64]:
    """(B, 3, 2) the values of nearest rank of `PERCENTILES`."""
    up = statistics.scenarios
    bins = BIN_BYTES // (8 * len(PERCENTILES) * max(statistics.most.size, 1))
    # About as many bins as scenarios: to sum up the bins then costs as much as to count into them.
    wanted = min(max(int(up.max(initial=0)).bit_length(), LEAST_BIN_BITS), MOST_BIN_BITS)
    bits = min(max(bins.bit_length() - 1, 1), wanted)
    width = np.where(up[:, None] > 0, statistics.most - statistics.least, 0)
    low, shift, below = (np.repeat(column[:, :, None], len(PERCENTILES), axis=2) for column in (
        statistics.least, np.maximum(_bit_length(width) - bits, 0), np.zeros_like(width),
    ))
    rank = -(-up[:, None] * np.array(PERCENTILES) // 100)
    while True:
        counts = np.zeros((*low.shape, 1 << bits), np.int64)
        for _, loads, is_up in blocks():
            kernel.count_bins(loads, is_up, low, shift, counts)
        np.cumsum(counts, axis=3, out=counts)
        counts += below[:, :, :, None]
        place = (counts < rank[:, None, :, None]).sum(axis=3)
        before = np.take_along_axis(counts, np.maximum(place - 1, 0)[:, :, :, None], axis=3)
        below = np.where(place > 0, before[:, :, :, 0], below)
        low += place << shift
        if not shift.any():
            return low
        shift = np.maximum(shift - bits, 0)


def _bit_length(values: Integers) -> Integers:
    return np.array([value.bit_length() for value in values.ravel().tolist()], np.int64).reshape(
        values.shape
    )


def _table(
    plan: CapacityPlan, statistics: Statistics, percentiles: Integers, baseline: Integers
) -> pa.Table:
    """The rows of `capacity_brokers`."""
    n = statistics.scenarios
    never = n == 0
    columns = {
        "broker_id": pa.array(plan.broker_id), "scenarios_up": pa.array(n),
        "disk_bytes": pa.array(plan.disks.total_bytes, mask=never),
        "disk_max": utilisation(plan.failed.disk, plan.failed.disk_capacity, never),
    }
    for at, (resource, used) in enumerate([*USED.items()][:-1]):
        unknown = never | ~plan.cpu_is_known if resource == "cpu" else never
        most = statistics.most[:, at]
        totals = [(high << 32) + low for high, low in statistics.total[:, at].tolist()]
        columns[f"{used}_mean"] = pa.array([
            None if none else total / scenarios
            for total, scenarios, none in zip(totals, n.tolist(), unknown.tolist(), strict=True)
        ], pa.float64())
        for name, values in (
            ("baseline", baseline[:, at]), ("most", most),
            ("most_scenario", statistics.most_scenario[:, at]),
            *((f"p{percent}", percentiles[:, at, q]) for q, percent in enumerate(PERCENTILES)),
        ):
            columns[f"{used}_{name}"] = pa.array(values, mask=unknown)
        columns[f"{resource}_max"] = utilisation(most, plan.failed.capacity[:, at], unknown)
    return CAPACITY_BROKERS.table(columns)
