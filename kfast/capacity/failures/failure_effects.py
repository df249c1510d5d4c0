"""What becomes of a partition for each set of its brokers that fails: who leads, who follows.

A sweep knows every partition as a sequence of brokers and a shape; partitions of one shape fare
alike. So the kernels of the sweep are asked once per shape and set of failed brokers, on a single
partition whose brokers are the places of its sequence, and no rule is written twice.

Source: docs/capacity.md, "How it works".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kfast.errors import ArgumentError
from kfast.kernels import sweep as kernel
from kfast.schema import SWEEP_COUNTS
from kfast.state.records import Rows
from kfast.sweeps.failover_order import FailoverOrder
from kfast.sweeps.sweep_plan import FIELDS, SweepPlan, down_brokers, padded

__all__ = [
    "CELL", "LEADERLESS", "SINGLE", "UNCLEAN", "UNDER_MIN_ISR", "FailureEffects", "Shape",
    "in_sync_places", "is_tabulated",
]

CELL = np.dtype([("live", np.uint16), ("leader", np.int8), ("flags", np.uint8)])
"""Of one shape and set of failed brokers, as places of the sequence: live assigned replicas as a
mask, the leader or -1, and the flags below."""

LEADERLESS, UNDER_MIN_ISR, SINGLE, UNCLEAN = 1, 2, 4, 8
"""Nobody leads who led before; the partition is under min ISR; exactly one live replica is in sync;
the leader was chosen outside the ISR."""

MOST_BROKERS = 12
"""Longer sequences are refused: a table has 2 to their length cells."""

LAYOUT = kernel.layout()
BEGINS_WITH_A_BROKER = LAYOUT["has_leader"] | LAYOUT["is_tabulated"]
_FIELD = {name: at for at, name in enumerate(FIELDS)}
_COUNT = {name: m for m, name in enumerate(SWEEP_COUNTS)}


class Shape(NamedTuple):
    """Partitions of one shape.

    Parameters
    ----------
    cells : (2^w + 1,) CELL
    sequences : (m, w) int32
    rows : (m,) int32
    """

    cells: npt.NDArray[np.void]
    sequences: Rows
    rows: Rows


@dataclass(frozen=True, eq=False)
class FailureEffects:
    """Shapes of partitions, and a table of cells for each.

    Attributes
    ----------
    width : (K,) int64
        Places in the sequences of a shape.
    partitions : (K,) int64
        Partitions of a shape, one behind the other.
    row_begin : (K,) int64
        Where they begin among `rows`.
    sequence_begin : (K,) int64
        Where their sequences begin.
    cell_begin : (K,) int64
        Where the cells begin: 2 to the width of them, one for each set of failed places where some
        broker fails, then one where none does.
    cells : (c,) CELL
    sequences : (m,) int32
        Broker rows; B, the number of brokers, at a place that is no broker.
    rows : (n,) int32
        Partition rows.
    n_brokers : int
    """

    width: npt.NDArray[np.int64]
    partitions: npt.NDArray[np.int64]
    row_begin: npt.NDArray[np.int64]
    sequence_begin: npt.NDArray[np.int64]
    cell_begin: npt.NDArray[np.int64]
    cells: npt.NDArray[np.void]
    sequences: Rows
    rows: Rows
    n_brokers: int

    @classmethod
    def of(cls, plan: SweepPlan) -> FailureEffects:
        """Ask the kernels of the sweep for every shape of a plan.

        Raises
        ------
        ArgumentError
            A partition has more brokers than a table may have.
        """
        groups = plan.groups
        _check_width(plan)
        cells = [_cells(plan, group) for group in groups]
        sizes = np.array([values.size for values in cells], np.int64)
        partitions = groups[:, _FIELD["partitions"]]
        return cls(
            width=groups[:, _FIELD["width"]].copy(), partitions=partitions.copy(),
            row_begin=np.cumsum(partitions) - partitions,
            sequence_begin=groups[:, _FIELD["begin"]].copy(),
            cell_begin=np.cumsum(sizes) - sizes,
            cells=np.concatenate([*cells, np.zeros(1, CELL)]),
            # One more: the sequence of a partition without live brokers may begin at the end.
            sequences=np.append(plan.sequences, np.int32(plan.n_brokers)), rows=plan.rows,
            n_brokers=plan.n_brokers,
        )

    def __getitem__(self, shape: int) -> Shape:
        """Partitions of a shape: views of the columns."""
        width, m = int(self.width[shape]), int(self.partitions[shape])
        begin, at = int(self.sequence_begin[shape]), int(self.cell_begin[shape])
        return Shape(
            self.cells[at : at + (1 << width) + 1],
            self.sequences[begin : begin + width * m].reshape(m, width), self.rows[self.at(shape)],
        )

    def at(self, shape: int) -> slice:
        """Where the rows of a shape are among `rows`."""
        first = int(self.row_begin[shape])
        return slice(first, first + int(self.partitions[shape]))

    def followed_by(self, shapes: Sequence[Shape]) -> FailureEffects:
        """The same, and more shapes behind."""
        width = np.array([each.sequences.shape[1] for each in shapes], np.int64)
        partitions = np.array([each.rows.size for each in shapes], np.int64)

        def begins(of: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], end: int) -> (
            npt.NDArray[np.int64]
        ):
            return np.concatenate([of, end + np.cumsum(sizes) - sizes])

        return FailureEffects(
            np.concatenate([self.width, width]), np.concatenate([self.partitions, partitions]),
            begins(self.row_begin, partitions, self.rows.size),
            begins(self.sequence_begin, width * partitions, self.sequences.size),
            begins(self.cell_begin, (1 << width) + 1, self.cells.size),
            np.concatenate([self.cells, *(each.cells for each in shapes)]),
            np.concatenate([self.sequences, *(each.sequences.ravel() for each in shapes)]),
            np.concatenate([self.rows, *(each.rows for each in shapes)]), self.n_brokers,
        )

    def is_broker(self, shape: int) -> int:
        """Mask of the places of a shape that are brokers."""
        mask = (1 << int(self.width[shape])) - 1
        begin = int(self.sequence_begin[shape])
        return mask & ~int(self.sequences[begin] == self.n_brokers)


def _check_width(plan: SweepPlan) -> None:
    """Refuse partitions whose table would be too large."""
    wide = np.flatnonzero(plan.groups[:, _FIELD["width"]] > MOST_BROKERS)
    if wide.size:
        group = int(wide[0])
        row = int(plan.rows[int(plan.groups[:group, _FIELD["partitions"]].sum())])
        cluster = plan.cluster
        name = f"{cluster.topic[int(cluster.topic_row[row])].as_py()}-{cluster.partition[row]}"
        raise ArgumentError(
            f"{name} has {plan.groups[group, _FIELD['width']]} live brokers; a capacity sweep takes"
            f" at most {MOST_BROKERS} for one partition"
        )


def _cells(plan: SweepPlan, group: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """Cells of one shape: its places fail as brokers do, and one more broker, but in the last."""
    width = int(group[_FIELD["width"]])
    one = group.copy()
    one[_FIELD["partitions"]], one[_FIELD["begin"]] = 1, 0
    sequence = padded(np.arange(width, dtype=np.int32))
    if not one[_FIELD["flags"]] & BEGINS_WITH_A_BROKER:
        sequence[0] = width + 1
    alone = SweepPlan(
        np.arange(width + 1, dtype=np.int32), np.ones(width + 1, np.bool_), 1, 1,
        one.reshape(1, -1), sequence, plan.tables, plan.live_places, plan.in_sync_places,
        np.zeros(1, np.int32), None,
    )
    sets = np.arange(1 << width)
    fails = np.ones((sets.size + 1, width + 1), np.bool_)
    fails[:-1, :width] = (sets[:, None] >> np.arange(width)) & 1
    fails[-1] = False
    offsets = np.zeros(len(fails) + 1, np.int64)
    np.cumsum(fails.sum(axis=1), out=offsets[1:])
    down = np.nonzero(fails)[1].astype(np.int32)
    counts = _counts(alone, offsets, down)
    leads, leader = FailoverOrder.of(alone).fullest_brokers(offsets, down, 1)
    cells = np.zeros(len(fails), CELL)
    cells["leader"] = np.where(leads > 0, leader, -1)
    cells["live"] = _live(plan, group, np.append(sets, 0))
    single = _single(plan, alone, group, offsets, down)
    offline = counts[_COUNT["offline"]] > 0
    for flag, holds in (
        (LEADERLESS, offline & ~offline[-1]), (UNDER_MIN_ISR, counts[_COUNT["under_min_isr"]] > 0),
        (SINGLE, single), (UNCLEAN, counts[_COUNT["unclean"]] > 0),
    ):
        cells["flags"] |= np.where(holds, np.uint8(flag), np.uint8(0))
    return cells


def _counts(
    alone: SweepPlan, offsets: npt.NDArray[np.int64], down: Rows
) -> npt.NDArray[np.int64]:
    """What the sweep counts of one partition, for each set: 0 or 1."""
    n, tables = offsets.size - 1, padded(alone.tables)
    counts = np.zeros((LAYOUT["counts"], -(-n // 64) * 64), np.int64)
    kernel.count_dense(
        alone.groups, alone.sequences, tables,
        down_brokers(offsets, down, alone.n_brokers, 1), (1 << LAYOUT["counts"]) - 1, counts,
    )
    return counts[:, :n]


def _single(
    plan: SweepPlan, alone: SweepPlan, group: npt.NDArray[np.int64],
    offsets: npt.NDArray[np.int64], down: Rows,
) -> npt.NDArray[np.bool_]:
    """Whether it is led, and one replica in sync is live: it would be at a min ISR of 1."""
    if group[_FIELD["flags"]] & LAYOUT["is_tabulated"]:
        begin = int(group[_FIELD["table"]])
        table = plan.tables[begin : begin + offsets.size - 2]
        single = (np.append(table, table[0]) & LAYOUT["table_single"]) != 0
    else:
        alone.groups[0, _FIELD["need"]] = 1
        single = _counts(alone, offsets, down)[_COUNT["at_min_isr"]] > 0
    return np.asarray(single, np.bool_)


def is_tabulated(plan: SweepPlan, shape: int) -> bool:
    """Whether a table says what becomes of a shape, whose sequences are in no order then."""
    return bool(plan.groups[shape, _FIELD["flags"]] & LAYOUT["is_tabulated"])


def in_sync_places(plan: SweepPlan, shape: int) -> npt.NDArray[np.uint16]:
    """Places of live assigned replicas in sync for every cell of a shape; the leader may lack."""
    group = plan.groups[shape]
    width, n_clean = int(group[_FIELD["width"]]), int(group[_FIELD["clean"]])
    failed: npt.NDArray[np.int64] = np.append(np.arange(1 << width), 0)
    if is_tabulated(plan, shape):
        return plan.in_sync_places[int(group[_FIELD["table"]]) + failed]
    # A leader from outside the ISR is elected where all of these have failed.
    clean: npt.NDArray[np.uint16] = ((((1 << n_clean) - 1) << 1) & ~failed).astype(np.uint16)
    return clean


def _live(
    plan: SweepPlan, group: npt.NDArray[np.int64], failed: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint16]:
    """Places of live assigned replicas where sets of places have failed."""
    width, flags = int(group[_FIELD["width"]]), int(group[_FIELD["flags"]])
    if flags & LAYOUT["is_tabulated"]:
        begin = int(group[_FIELD["table"]])
        return plan.live_places[begin + failed]
    assigned = (1 << width) - 1
    if not flags & LAYOUT["leader_assigned"]:
        assigned &= ~1
    n_clean, n_blocking = int(group[_FIELD["clean"]]), int(group[_FIELD["blocking"]])
    assigned &= ~(((1 << n_blocking) - 1) << (1 + n_clean))
    return (assigned & ~failed).astype(np.uint16)
