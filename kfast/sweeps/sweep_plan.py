"""What a sweep reads: every partition as its live brokers in the order in which they would lead.

Partitions are sorted by shape, so that the kernels go through those of one shape without branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from kfast.kernels.sweep import DownBrokers
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.state import ClusterState

__all__ = ["FIELDS", "SweepPlan", "down_brokers", "join_plans", "padded"]

Items = TypeVar("Items", Rows, npt.NDArray[np.uint16])

CACHE_LINE_BYTES = 64

FIELDS = (
    "flags", "clean", "blocking", "unclean", "other", "need", "width", "partitions", "begin",
    "eligible", "table",
)
"""Fields of a group of partitions, as `kernels/sweep.h` has them."""


@dataclass(frozen=True, eq=False)
class SweepPlan:
    """A cluster after its controller's start, made ready for sweeps. Never changed.

    Attributes
    ----------
    broker_id : (B,) int32
    up : (B,) bool
        Registered, and in a KRaft cluster not fenced: those that can fail.
    n_partitions : int
        Partitions that have an assignment.
    n_rows : int
        Rows of the cluster's table, free ones included.
    groups : (G, F) int64
        Shapes; `FIELDS` names the columns.
    sequences : (m,) int32
        Broker rows of every partition, group by group.
    tables, live_places, in_sync_places : (t,) uint16
        What becomes of partitions whose sequence does not say it: `failure_tables`.
    rows : (n_partitions,) int32
        Row of every partition, group by group.
    started : ClusterState or None
        The cluster after its controller's start; None where the plan was sent to a worker.
    """

    broker_id: Rows
    up: npt.NDArray[np.bool_]
    n_partitions: int
    n_rows: int
    groups: npt.NDArray[np.int64]
    sequences: Rows
    tables: npt.NDArray[np.uint16]
    live_places: npt.NDArray[np.uint16]
    in_sync_places: npt.NDArray[np.uint16]
    rows: Rows
    started: ClusterState | None

    @property
    def n_brokers(self) -> int:
        """Number of brokers that are known, up or not."""
        return int(self.broker_id.size)

    @property
    def cluster(self) -> ClusterState:
        """The cluster after its controller's start, which workers do not have."""
        assert self.started is not None, "the plan was sent without its cluster"
        return self.started

    def _summary(self) -> Summary:
        return "SweepPlan", {
            "brokers": self.n_brokers,
            "up": int(self.up.sum()),
            "partitions": self.n_partitions,
            "shapes": len(self.groups),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def join_plans(brokers: SweepPlan, plans: Sequence[SweepPlan]) -> SweepPlan:
    """The plan of all partitions of several, whose brokers are those of one without partitions."""
    groups, begin, cell = [brokers.groups], 0, 0
    for plan in plans:
        moved = plan.groups.copy()
        moved[:, FIELDS.index("begin")] += begin
        moved[:, FIELDS.index("table")] += cell
        groups.append(moved)
        begin, cell = begin + plan.sequences.size, cell + plan.tables.size
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(brokers, name), *(getattr(plan, name) for plan in plans)])
        for name in ("sequences", "tables", "live_places", "in_sync_places")
    }
    return replace(
        brokers, n_partitions=sum(plan.n_partitions for plan in plans),
        n_rows=sum(plan.n_rows for plan in plans), groups=np.concatenate(groups), **columns,
    )


# --- memory of the kernels -----------------------------------------------------------------------


def padded(items: Items) -> Items:
    """Rows or cells, never without one: a kernel takes the address of the first."""
    return np.ascontiguousarray(items) if items.size else np.zeros(1, items.dtype)


def down_brokers(
    offsets: npt.NDArray[np.int64], down: Rows, n_brokers: int, words: int
) -> DownBrokers:
    """The brokers that fail in some scenarios; vectors begin on a boundary of cache lines."""
    line = CACHE_LINE_BYTES // 8
    memory = np.empty((n_brokers + 1) * words + line, np.uint64)
    skip = -(memory.ctypes.data // 8) % line
    return DownBrokers(offsets, padded(down), words, memory[skip : skip + (n_brokers + 1) * words])
