"""Restarting all brokers safely: the fewest batches that may restart together.

A partition allows as many of its in-sync replicas to be down at once as it has beyond min ISR, and
beyond a margin that is asked for (`readiness.py`). That bounds how many members of its live ISR one
batch may hold. A partition that allows none is satisfied by no order: its members restart one at a
time, which does the least harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.batch_coloring import DEFAULT_WORK, find_batches
from kfast.analysis.replica_sets import Counts, live_brokers
from kfast.analysis.restart_readiness import Readiness, check_margin, may_restart
from kfast.arguments import MAX_LONG, check_instance, number, whole
from kfast.errors import ArgumentError
from kfast.figures.restarts import restart_figure
from kfast.kernels import batch_coloring as kernel
from kfast.schema import MAX_SLOTS, RESTART_BATCHES, RESTART_BROKERS, columns_of
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["RestartPlan", "restart_plan"]

MOST_BROKERS = 8192
"""Batches of more brokers are not looked for: it takes the square of their number in memory."""


@dataclass(frozen=True)
class RestartPlan:
    """Batches of brokers that restart together, one batch after the other.

    Attributes
    ----------
    readiness : Readiness
        Who may restart now, and the partitions that no order can satisfy.
    by_rack : bool
        Whether each batch is within one rack.
    batch : (B,) int32
        Batch of each broker row, from 0; -1 for a broker that is not live.
    harm : (K, 2) int64
        Partitions that each batch brings under min ISR, and that it leaves no live ISR member.
    lower_bound : int
        Fewer batches are impossible.
    seconds_per_broker : float or None
        How long a broker takes until it is back in every ISR.
    """

    readiness: Readiness
    by_rack: bool
    batch: Rows
    harm: Counts
    lower_bound: int
    seconds_per_broker: float | None

    @property
    def state(self) -> ClusterState:
        """The cluster; if it has changed since, the tables are wrong."""
        return self.readiness.state

    @property
    def n_batches(self) -> int:
        """How many batches there are."""
        return int(self.harm.shape[0])

    @property
    def is_optimal(self) -> bool:
        """Whether fewer batches are known to be impossible."""
        return self.n_batches == self.lower_bound

    @property
    def total_s(self) -> float | None:
        """Predicted time of the whole plan; None where no time per broker was given."""
        return None if self.seconds_per_broker is None else self.n_batches * self.seconds_per_broker

    @property
    def one_by_one_s(self) -> float | None:
        """Predicted time of restarting one broker after the other."""
        if self.seconds_per_broker is None:
            return None
        return int((self.batch >= 0).sum()) * self.seconds_per_broker

    @property
    def batches(self) -> pa.Table:
        """One row per batch, in order.

        Columns: batch (from 1), n_brokers, brokers, racks, newly_under_min_isr and newly_offline
        (partitions that fall under min ISR, and that are left without a live ISR member, while the
        batch is down: all of them are among those that no order can satisfy), starts_after_s and
        ends_after_s (null where no time per broker was given).
        """
        state, numbers = self.state, np.arange(self.n_batches, dtype=np.int32)
        order = np.argsort(self.batch, kind="stable")[int((self.batch < 0).sum()) :]
        sizes = np.bincount(self.batch[order], minlength=self.n_batches)
        offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))
        names = np.array(state.rack.to_pylist(), object)
        racks = [
            sorted({rack for rack in names[self.batch == number] if rack is not None})
            for number in numbers.tolist()
        ]
        return RESTART_BATCHES.table(
            {
                "batch": pa.array(numbers + 1, pa.int32()),
                "n_brokers": pa.array(sizes.astype(np.int32)),
                "brokers": pa.ListArray.from_arrays(offsets, pa.array(state.broker_id[order])),
                "racks": pa.array(racks, pa.list_(pa.string())),
                "newly_under_min_isr": pa.array(self.harm[:, 0].copy()),
                "newly_offline": pa.array(self.harm[:, 1].copy()),
                "starts_after_s": self._after(numbers),
                "ends_after_s": self._after(numbers + 1),
            }
        )

    @property
    def brokers(self) -> pa.Table:
        """Every broker: batch (from 1; null if it is not live), its times, and `Readiness.brokers`.

        In the order of the batches; those that are not live come last.
        """
        table = RESTART_BROKERS.table(columns_of(self.readiness.brokers) | {
            "batch": pa.array(self.batch + 1, mask=self.batch < 0),
            "starts_after_s": self._after(np.maximum(self.batch, 0)),
            "ends_after_s": self._after(np.maximum(self.batch, 0) + 1),
        })
        last = np.where(self.batch < 0, self.n_batches, self.batch)
        return table.take(pa.array(np.argsort(last, kind="stable")))

    def _after(self, batches: npt.NDArray[Any]) -> pa.Array:
        if self.seconds_per_broker is None:
            return pa.nulls(batches.size, pa.float64())
        return pa.array(batches * self.seconds_per_broker, pa.float64())

    @property
    def counts(self) -> dict[str, int]:
        """Batches, their lower bound, brokers in them, and `Readiness.counts`."""
        return {
            "batches": self.n_batches,
            "lower_bound": self.lower_bound,
            "brokers": int((self.batch >= 0).sum()),
            **self.readiness.counts,
        }

    def plot(self) -> Figure:
        """Draw the batches, coloured by what partitions notice, as a figure of plotly.

        Raises
        ------
        MissingExtraError
            plotly is not installed (the extra `report`).
        """
        return restart_figure(self.batches)

    def _summary(self) -> Summary:
        seconds = self.total_s
        return "RestartPlan", {
            "batches": self.n_batches,
            "lower_bound": str(self.lower_bound),
            "brokers": int((self.batch >= 0).sum()),
            "by_rack": self.by_rack,
            "isr_margin": str(self.readiness.isr_margin),
            "unsatisfiable partitions": int((self.readiness.cause >= 0).sum()),
            "total_s": None if seconds is None else f"{seconds:g}",
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def restart_plan(
    state: ClusterState,
    isr_margin: int = 0,
    by_rack: bool = False,
    *,
    ignore_topics: str | None = None,
    ignore_rf1: bool = False,
    ignore_unsatisfiable: bool = False,
    seconds_per_broker: float | None = None,
    work: int = DEFAULT_WORK,
) -> RestartPlan:
    """Find the fewest batches of brokers in which all live brokers can be restarted.

    The brokers of a batch restart together; the next batch waits until they are back in every ISR.
    Of the live ISR of every partition, a batch has at most as many members as the ISR has above
    `min ISR + isr_margin`; of a partition that has none above it, which no order can satisfy, one.
    ISRs are taken as they are. Batches that do no harm come first, larger ones before smaller.

    Few brokers are tried exhaustively. For many the plan may have more batches than needed;
    `lower_bound` stands beside it.

    Parameters
    ----------
    state : ClusterState
        Not changed. It must not change while the answer is in use.
    isr_margin : int, default 0
        How many live ISR members above min ISR must be left in every partition.
    by_rack : bool, default False
        Each batch is within one rack, and the racks follow one another.
    ignore_topics, ignore_rf1
        What forbids nothing and puts no bound on any batch, as in `may_restart`.
    ignore_unsatisfiable : bool, default False
        Partitions that no order can satisfy put no bound on any batch: their members may restart
        together.
    seconds_per_broker : float, optional
        How long a broker takes to restart until it is back in every ISR, in seconds.
    work : int, default 100 000 000
        Effort of the search for fewer batches, in cells looked at; the result depends on it, and
        not on the machine.

    Raises
    ------
    ArgumentError
        An argument is outside its range; `by_rack`, and a live broker has no rack; more than 8192
        brokers are live.
    """
    check_instance("state", state, ClusterState)
    isr_margin = check_margin(isr_margin)
    if seconds_per_broker is not None:
        seconds_per_broker = number("seconds_per_broker", seconds_per_broker, 0, MAX_LONG)
    work = whole("work", work, 0, MAX_LONG)
    live = live_brokers(state)
    if live.size > MOST_BROKERS:
        raise ArgumentError(f"{live.size} brokers are live: at most {MOST_BROKERS} can be planned")
    racks = _racks(state, live, by_rack)
    readiness = may_restart(
        state, isr_margin, ignore_topics=ignore_topics, ignore_rf1=ignore_rf1
    )
    place = np.full(state.n_brokers, -1, np.int32)
    place[live] = np.arange(live.size, dtype=np.int32)
    sets, spare = readiness.sets, readiness.spare
    most = spare - readiness.isr_margin
    most[most < 1] = MAX_SLOTS if ignore_unsatisfiable else 1
    batches = find_batches(
        sets.begin, place[sets.members], most, racks, apart=by_rack, work=work
    )
    batch = np.full(state.n_brokers, -1, np.int32)
    batch[live] = batches.batch
    harm = np.empty((batches.n_batches, 2), np.int64)
    kernel.count_harm(sets.begin, sets.members, spare, sets.partitions, batch, harm)
    order = _order(batches.batch, harm, racks if by_rack else np.zeros_like(racks))
    batch[live] = np.argsort(order).astype(np.int32)[batches.batch]
    return RestartPlan(
        readiness, by_rack, batch, harm[order], batches.lower_bound, seconds_per_broker
    )


def _racks(state: ClusterState, live: Rows, by_rack: bool) -> Rows:
    """(n,) number of each live broker's rack, in the order of their names."""
    names = [state.rack[row].as_py() for row in live.tolist()]
    without = [int(state.broker_id[row]) for row, name in zip(live, names, strict=True)
               if name is None]
    if by_rack and without:
        raise ArgumentError(
            f"brokers without a rack: {', '.join(map(str, without[:10]))}"
            f"{' ...' if len(without) > 10 else ''}; rack by rack needs the rack of every live "
            "broker, which a brokers file gives (--brokers-file)"
        )
    known = sorted({name for name in names if name is not None})
    number = {name: at for at, name in enumerate(known)}
    return np.array([number.get(name, len(known)) for name in names], np.int32)


def _order(batch: Rows, harm: Counts, racks: Rows) -> npt.NDArray[np.intp]:
    """Batches in the order in which they are best done."""
    n = harm.shape[0]
    sizes = np.bincount(batch, minlength=n)
    first = np.full(n, batch.size)
    np.minimum.at(first, batch, np.arange(batch.size))
    rack = np.zeros(n, np.int32)
    rack[batch] = racks
    return np.lexsort((first, -sizes, harm[:, 0], harm[:, 1], rack))
