"""The sparse method: what changes where a few brokers of many fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.kernels import sparse
from kfast.kernels import sweep as dense
from kfast.state.records import Rows
from kfast.sweeps.scenarios import Offsets
from kfast.sweeps.sweep_plan import SweepPlan, down_brokers, padded

__all__ = ["MOST_WIDTH", "Hosting"]

MOST_WIDTH = 10
"""Longer sequences have no table: 2 to their length sets of brokers; they are counted densely."""

EVERY_COUNT = 0x7F
COUNTS = 8

BEGINS_WITH_A_BROKER = dense.layout()["has_leader"] | dense.layout()["is_tabulated"]
"""Flags of shapes whose sequences do not begin with the row that stands for "nothing fails"."""


@dataclass(frozen=True, eq=False)
class Hosting:
    """Which partitions each broker hosts, and what each set of down brokers changes.

    Attributes
    ----------
    begin : (B + 2,) int64
        Where each broker's entries begin.
    entries : (m,) int64
        Shape, and where the sequence begins.
    width, table_begin : (G,) int64
    table : (t, 8) int32
        Per shape and set of down brokers, by how much each count changes.
    quiet, base : (8,) int64
        Counts where nothing fails, and where something fails that these partitions do not see.
    tables : (t,) uint16
        Cells of the shapes that have a table already.
    wide : (W, F) int64
        Shapes that have no table.
    """

    sequences: Rows
    tables: npt.NDArray[np.uint16]
    begin: Offsets
    entries: Offsets
    width: Offsets
    table_begin: Offsets
    table: npt.NDArray[np.int32]
    quiet: Offsets
    base: Offsets
    wide: npt.NDArray[np.int64]

    @classmethod
    def of(cls, plan: SweepPlan) -> Hosting:
        """Go through the partitions of a plan."""
        narrow = plan.groups[:, 6] <= MOST_WIDTH
        groups = np.ascontiguousarray(plan.groups[narrow])
        hosted = np.zeros(plan.n_brokers + 1, np.int64)
        sequences = padded(plan.sequences)
        sparse.count_hosts(groups, sequences, hosted)
        begin = np.zeros(plan.n_brokers + 2, np.int64)
        np.cumsum(hosted, out=begin[1:])
        entries = np.empty(int(begin[-1]) + 1, np.int64)
        sparse.list_hosts(groups, sequences, begin[:-1].copy(), entries)
        cells = padded(plan.tables)
        tables = [_table(group, cells) for group in groups]
        sizes = np.array([len(values) - 1 for values in tables], np.int64)
        quiet, base = np.zeros(COUNTS, np.int64), np.zeros(COUNTS, np.int64)
        for group, values in zip(groups, tables, strict=True):
            quiet += group[7] * values[-1]
            base += group[7] * values[0]
        changes = [values[:-1] - values[0] for values in tables]
        table = np.concatenate([*changes, np.zeros((1, COUNTS), np.int64)]).astype(np.int32)
        return cls(
            sequences, cells, begin, entries, np.ascontiguousarray(groups[:, 6]),
            np.cumsum(sizes) - sizes, table, quiet, base,
            np.ascontiguousarray(plan.groups[~narrow]),
        )

    def count(
        self, offsets: Offsets, down: Rows, words: int, wanted: int, counts: npt.NDArray[np.int64]
    ) -> None:
        """Add the counts of some scenarios; `counts` are (7, n) or wider, `wanted` as dense."""
        n_brokers = self.begin.size - 2
        sparse.count_sparse(
            self, offsets, padded(down), np.zeros(n_brokers + 1, np.uint8), counts
        )
        if len(self.wide):
            dense.count_dense(
                self.wide, self.sequences, self.tables,
                down_brokers(offsets, down, n_brokers, words), wanted, counts,
            )


def _table(
    group: npt.NDArray[np.int64], cells: npt.NDArray[np.uint16]
) -> npt.NDArray[np.int64]:
    """Counts of one partition of a shape for every set of down brokers; last, where none fails.

    The sequence's own places are its brokers; one more broker is down in every set.
    """
    width = int(group[6])
    one = group.copy()
    one[7], one[8] = 1, 0
    sequence = padded(np.arange(width, dtype=np.int32))
    if not one[0] & BEGINS_WITH_A_BROKER:
        sequence[0] = width + 1
    sets = np.arange(1 << width)
    member = np.ones((sets.size + 1, width + 1), np.bool_)
    member[:-1, :width] = (sets[:, None] >> np.arange(width)) & 1
    member[-1] = False
    offsets = np.zeros(len(member) + 1, np.int64)
    np.cumsum(member.sum(axis=1), out=offsets[1:])
    down = np.nonzero(member)[1].astype(np.int32)
    counts = np.zeros((COUNTS - 1, -(-len(member) // 64) * 64), np.int64)
    dense.count_dense(
        one.reshape(1, -1), sequence, cells, down_brokers(offsets, down, width + 1, 1), EVERY_COUNT,
        counts,
    )
    values = np.zeros((len(member), COUNTS), np.int64)
    values[:, :-1] = counts[:, : len(member)].T
    return values
