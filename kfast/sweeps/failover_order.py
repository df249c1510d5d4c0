"""Leaders per broker: who takes over from whom, and how many partitions each broker then leads.

An entry is a partition that a broker takes over where all brokers before it in the partition's
failover order are down: its predecessors there. Partitions with a table have none: the table says
where a broker leads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.kernels import sweep as kernel
from kfast.state.records import EMPTY_ROWS, Rows
from kfast.sweeps.scenarios import Offsets
from kfast.sweeps.sweep_plan import SweepPlan, down_brokers, padded

__all__ = ["FailoverOrder"]

NO_HISTOGRAM = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class FailoverOrder:
    """What each broker leads, and what it takes over where others are down.

    Attributes
    ----------
    led : (B,) int64
        Partitions that each broker leads after the controller's start.
    entry_begin : (D, B + 1) int64
        Where each broker's entries begin, for each number of predecessors.
    predecessors_begin : (D,) int64
        Where the predecessors of all entries with one, two, ... of them begin.
    predecessors : (m,) int32
        Broker rows: of each entry those that must be down.
    tabulated_begin : (B + 1,) int64
        Where each broker's places in tables begin.
    tabulated : (t + 1, 4) int64
        Where the sequence begins that holds the broker, its width, where its table begins, and the
        bits of a cell in which the broker leads.
    sequences : (m,) int32
        Those of partitions with a table.
    tables : (c,) uint16
    """

    led: npt.NDArray[np.int64]
    entry_begin: npt.NDArray[np.int64]
    predecessors_begin: npt.NDArray[np.int64]
    predecessors: Rows
    tabulated_begin: npt.NDArray[np.int64]
    tabulated: npt.NDArray[np.int64]
    sequences: Rows
    tables: npt.NDArray[np.uint16]

    @classmethod
    def of(cls, plan: SweepPlan) -> FailoverOrder:
        """Go through the partitions of a plan."""
        depths = max(int(plan.groups[:, 6].max(initial=1)) - 1, 1)
        led = np.zeros(plan.n_brokers, np.int64)
        counts = np.zeros((depths, plan.n_brokers + 1), np.int64)
        sequences = padded(plan.sequences)
        kernel.count_takeovers(plan.groups, sequences, led, counts)
        entry_begin = np.zeros_like(counts)
        np.cumsum(counts[:, :-1], axis=1, out=entry_begin[:, 1:])
        lengths = entry_begin[:, -1] * np.arange(1, depths + 1)
        begin = np.cumsum(lengths) - lengths
        predecessors = np.empty(int(lengths.sum()) + 1, np.int32)
        kernel.list_takeovers(plan.groups, sequences, entry_begin.copy(), begin, predecessors)
        broker, places, tabulated = _places_in_tables(plan)
        return cls(
            led, entry_begin, begin, predecessors,
            np.searchsorted(broker, np.arange(plan.n_brokers + 1)), places, tabulated,
            padded(plan.tables),
        )

    @property
    def histogram_begin(self) -> Offsets:
        """Where each broker's histogram of leaders begins, broker after broker: (B + 1,) int64.

        A broker may lead from none up to all that it leads at first and could take over.
        """
        sizes = self.led + np.diff(self.entry_begin, axis=1).sum(axis=0) + 1
        sizes += np.diff(self.tabulated_begin)
        begin = np.zeros(sizes.size + 1, np.int64)
        np.cumsum(sizes, out=begin[1:])
        return begin

    def fullest_brokers(self, offsets: Offsets, down: Rows, words: int) -> tuple[Rows, Rows]:
        """Leaders on the fullest broker of every scenario, and its row: -1 where nobody leads."""
        return self._count_leaders(offsets, down, words, NO_HISTOGRAM, NO_HISTOGRAM)

    def add_to_histograms(
        self, offsets: Offsets, down: Rows, words: int, histograms: Offsets
    ) -> None:
        """Add some scenarios, by leaders, to the histograms of all brokers."""
        self._count_leaders(offsets, down, words, self.histogram_begin[:-1], histograms)

    def _count_leaders(
        self, offsets: Offsets, down: Rows, words: int, begin: Offsets, histograms: Offsets
    ) -> tuple[Rows, Rows]:
        n = offsets.size - 1
        most, fullest = np.zeros(n, np.int32), np.full(n, -1, np.int32)
        if self.led.size and n:
            scenarios = down_brokers(offsets, down, self.led.size, words)
            kernel.count_leaders(self, scenarios, most, fullest, begin, histograms)
        return most, fullest


def _places_in_tables(plan: SweepPlan) -> tuple[Rows, npt.NDArray[np.int64], Rows]:
    """Brokers that may lead a partition with a table, ascending; their places; the sequences."""
    layout = kernel.layout()
    tabulated = plan.groups[(plan.groups[:, 0] & layout["is_tabulated"]) != 0]
    start = int(tabulated[:, 8].min(initial=plan.sequences.size))
    sequences = plan.sequences[start:]
    brokers, places = [EMPTY_ROWS], [np.zeros((0, 4), np.int64)]
    for width, partitions, begin, table in tabulated[:, [6, 7, 8, 10]].tolist():
        leaders = plan.tables[table : table + (1 << width)] >> layout["table_leader"]
        begins = begin - start + width * np.arange(partitions)
        for place in np.unique(leaders[leaders > 0]).tolist():
            rows = np.zeros((partitions, 4), np.int64)
            rows[:, 0] = begins
            rows[:, 1:] = width, table, place << layout["table_leader"]
            brokers.append(sequences[begins + place - 1])
            places.append(rows)
    broker, listed = np.concatenate(brokers), np.concatenate(places)
    order = np.argsort(broker, kind="stable")
    # One more row: a kernel takes the address of the first.
    listed = np.concatenate([listed[order], np.zeros((1, 4), np.int64)])
    return broker[order], listed, padded(sequences)
