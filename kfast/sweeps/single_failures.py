"""Which brokers, failing alone, take a partition offline or under its min ISR.

Partitions of one shape differ in their brokers alone: what the failure of the broker in some place
of the sequence does to one of them, it does to all. So one partition of each shape is swept, and
the others take its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.kernels import sweep as kernel
from kfast.state.records import Rows
from kfast.sweeps.sweep_counts import words_of
from kfast.sweeps.sweep_plan import FIELDS, SweepPlan, down_brokers, padded

__all__ = ["SINGLE_FAILURE_METRICS", "SingleFailures"]

SINGLE_FAILURE_METRICS = ("offline", "under_min_isr")
"""What a failure may do to a partition, as `kfast.sweep_partitions` counts it."""

Flags = npt.NDArray[np.bool_]
_WIDTH, _PARTITIONS, _BEGIN = (FIELDS.index(name) for name in ("width", "partitions", "begin"))


@dataclass(frozen=True, eq=False)
class SingleFailures:
    """What every single broker's failure does to every partition.

    Attributes
    ----------
    plan : SweepPlan
    group : (R,) int32
        Shape of each row of the cluster's table; -1 for a row without an assignment.
    place : (R,) int64
        Where the sequence of each row begins.
    without_failure : (2, G) bool
        Whether partitions of each shape are offline, and under min ISR, though nobody fails.
    by_place : (2, G, W) bool
        Whether they are when the broker in each place of their sequence fails, and only then.
    """

    plan: SweepPlan
    group: Rows
    place: npt.NDArray[np.int64]
    without_failure: Flags
    by_place: Flags

    @classmethod
    def of(cls, plan: SweepPlan) -> SingleFailures:
        """Sweep over one partition of each shape."""
        groups = plan.groups
        n_groups, width = len(groups), int(groups[:, _WIDTH].max(initial=0))
        sizes = groups[:, _PARTITIONS]
        first = np.cumsum(sizes) - sizes
        group = np.full(plan.n_rows, -1, np.int32)
        place = np.zeros(plan.n_rows, np.int64)
        of_partition = np.repeat(np.arange(n_groups, dtype=np.int32), sizes)
        group[plan.rows] = of_partition
        within = np.arange(plan.n_partitions) - first[of_partition]
        place[plan.rows] = groups[of_partition, _BEGIN] + within * groups[of_partition, _WIDTH]
        alone = groups.copy()
        alone[:, _PARTITIONS] = 1
        one_of_each = replace(
            plan, groups=alone, n_partitions=n_groups, rows=plan.rows[first]
        )
        brokers = _brokers(plan, groups[:, _BEGIN], np.arange(n_groups), width)
        without = _sweep(one_of_each, None)
        by_place = np.zeros((2, n_groups, width), np.bool_)
        for broker in np.unique(brokers[brokers >= 0]).tolist():
            by_place |= (_sweep(one_of_each, broker) & ~without)[:, :, np.newaxis] & (
                brokers == broker)
        return cls(plan, group, place, without, by_place)

    def holds(self, metric: str) -> Flags:
        """(R,) whether each row is offline, or under min ISR, without a failure."""
        return self._of_rows(self.without_failure[SINGLE_FAILURE_METRICS.index(metric)])

    def fragile(self, metric: str) -> Flags:
        """(R,) whether the failure of some single broker, and only that, makes it so."""
        return self._of_rows(self.by_place[SINGLE_FAILURE_METRICS.index(metric)].any(axis=1))

    def _of_rows(self, of_groups: Flags) -> Flags:
        return np.append(of_groups, False)[self.group]

    def broker_ids(self, metric: str, rows: Rows, *, where: Flags) -> pa.ListArray:
        """(n,) ids of the brokers whose failure alone makes it so of some rows, ascending.

        The list is empty where the flag is not set.
        """
        by_place = self.by_place[SINGLE_FAILURE_METRICS.index(metric)]
        width = by_place.shape[1]
        group = self.group[rows]
        brokers = _brokers(self.plan, self.place[rows], group, width)
        brokers[~np.concatenate([by_place, np.zeros((1, width), np.bool_)])[group]] = -1
        brokers[~where] = -1
        # Those that are none come first, and are left out.
        brokers.sort(axis=1)
        offsets = np.zeros(rows.size + 1, np.int32)
        np.cumsum((brokers >= 0).sum(axis=1), out=offsets[1:])
        ids = self.plan.broker_id[brokers[brokers >= 0]]
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids, pa.int32()))


def _brokers(
    plan: SweepPlan, place: npt.NDArray[np.int64], group: npt.NDArray[np.int_] | Rows, width: int
) -> Rows:
    """Broker rows of some sequences, (n, width); -1 behind their ends."""
    at = np.arange(width)
    inside = at < np.append(plan.groups[:, _WIDTH], 0)[group][:, np.newaxis]
    brokers = np.full((place.size, width), -1, np.int32)
    brokers[inside] = plan.sequences[(place[:, np.newaxis] + at)[inside]]
    return brokers


def _sweep(plan: SweepPlan, failing: int | None) -> Flags:
    """(2, n) whether each shape's partition is offline, and under min ISR, when a broker fails."""
    counts = np.zeros((2, plan.n_partitions), np.int64)
    down = np.array([] if failing is None else [failing], np.int32)
    sequences, tables = padded(plan.sequences), padded(plan.tables)
    kernel.count_partitions(
        plan.groups, sequences, tables, np.arange(plan.n_partitions, dtype=np.int64),
        down_brokers(np.array([0, down.size]), down, plan.n_brokers, words_of(None)), counts,
    )
    becomes_so: Flags = counts != 0
    return becomes_so
