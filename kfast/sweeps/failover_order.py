"""Leaders per broker: who takes over from whom, and how many partitions each broker then leads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.kernels import sweep as kernel
from kfast.state.records import Rows
from kfast.sweeps.scenarios import Offsets
from kfast.sweeps.sweep_plan import SweepPlan, down_brokers, padded

__all__ = ["FailoverOrder"]

EMPTY_OFFSETS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class FailoverOrder:
    """What each broker leads, and what it takes over where others are down.

    Attributes
    ----------
    led : (B,) int64
        Partitions that each broker leads after the controller's start.
    entry : (D, B + 1) int64
        Where each broker's entries begin, for each number of brokers that must be down.
    begin : (D,) int64
        Where the names of those brokers begin, for each number of them.
    before : (m,) int32
        The brokers that must be down.
    """

    led: npt.NDArray[np.int64]
    entry: npt.NDArray[np.int64]
    begin: npt.NDArray[np.int64]
    before: Rows

    @classmethod
    def of(cls, plan: SweepPlan) -> FailoverOrder:
        """Go through the partitions of a plan."""
        depths = max(int(plan.groups[:, 6].max(initial=1)) - 1, 1)
        led = np.zeros(plan.n_brokers, np.int64)
        counts = np.zeros((depths, plan.n_brokers + 1), np.int64)
        sequences = padded(plan.sequences)
        kernel.count_heirs(plan.groups, sequences, led, counts)
        entry = np.zeros_like(counts)
        np.cumsum(counts[:, :-1], axis=1, out=entry[:, 1:])
        lengths = entry[:, -1] * np.arange(1, depths + 1)
        begin = np.cumsum(lengths) - lengths
        before = np.empty(int(lengths.sum()) + 1, np.int32)
        kernel.list_heirs(plan.groups, sequences, entry.copy(), begin, before)
        return cls(led, entry, begin, before)

    def room(self) -> Offsets:
        """Where each broker begins among counts by its leaders: (B + 1,) int64.

        A broker may lead from none up to all that it leads at first and could take over.
        """
        sizes = self.led + np.diff(self.entry, axis=1).sum(axis=0) + 1
        begin = np.zeros(sizes.size + 1, np.int64)
        np.cumsum(sizes, out=begin[1:])
        return begin

    def lead(
        self, offsets: Offsets, down: Rows, words: int, begin: Offsets = EMPTY_OFFSETS,
        histogram: Offsets = EMPTY_OFFSETS,
    ) -> tuple[Rows, Rows]:
        """Leaders on the fullest broker of every scenario, and its row: -1 where nobody leads.

        Scenarios by leaders are added to a histogram per broker, where one is given.
        """
        n = offsets.size - 1
        most, fullest = np.zeros(n, np.int32), np.full(n, -1, np.int32)
        if self.led.size and n:
            scenarios = down_brokers(offsets, down, self.led.size, words)
            kernel.count_leaders(self.led, self, scenarios, most, fullest, begin, histogram)
        return most, fullest
