"""The fewest batches of brokers, where some sets of brokers bound how many of a batch they hold.

With every bound 1 this is the colouring of a graph, with larger ones that of a hypergraph. Few
brokers are tried exhaustively. For many, three greedy orders are improved by a tabu search, and
the answer stands beside a lower bound: the largest clique found, the counts within single limits,
and the sum over brokers of one over the largest batch that each can be in.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from kfast.analysis.replica_sets import Counts, list_by_broker
from kfast.kernels import batch_bounds as bounds
from kfast.kernels import batch_coloring as kernel
from kfast.state.records import Rows

__all__ = ["DEFAULT_WORK", "Batches", "find_batches"]

EXACT_BROKERS = 64
"""As many connected brokers are tried exhaustively, as long as the work allows."""

DEFAULT_WORK = 100_000_000
"""Cells that each search for fewer batches, the exhaustive one and the other, may look at: a second
or two."""

SLICE = 20_000_000
"""Work between two looks for Ctrl-C."""

BOUNDED_BROKERS = 2048
"""Batch sizes of more brokers are not bounded one by one: it goes with their square."""

CLIQUES = 256
"""From so many brokers, those with the most limits, a clique is grown."""

FEW_CLIQUES = 16
"""The same where there are more than `BOUNDED_BROKERS`."""

SEED = 1


@dataclass(frozen=True)
class Batches:
    """Brokers in batches.

    Attributes
    ----------
    batch : (n,) int32
        Batch of each broker, from 0.
    n_batches : int
    lower_bound : int
        Fewer batches are impossible.
    """

    batch: Rows
    n_batches: int
    lower_bound: int


@dataclass(frozen=True)
class Limits:
    """Sets of brokers, and how many of each one batch may hold."""

    begin: Counts
    members: Rows
    most: Rows
    first: Counts
    sets_of: Rows

    @classmethod
    def of(cls, begin: Counts, members: Rows, most: Rows, n_brokers: int) -> Limits:
        """Index limits by broker as well."""
        return cls(begin, members, most, *list_by_broker(begin, members, n_brokers))

    @property
    def cost(self) -> Counts:
        """(n,) cells to touch when a broker changes its batch."""
        sizes = np.diff(self.begin)
        total = np.concatenate(([0], np.cumsum(sizes[self.sets_of])))
        return np.asarray(total[self.first[1:]] - total[self.first[:-1]], np.int64)

    def within(self, chosen: Rows, n_brokers: int) -> Limits:
        """The same limits for some brokers alone, which are numbered anew in their order."""
        place = np.full(n_brokers, -1, np.int32)
        place[chosen] = np.arange(chosen.size, dtype=np.int32)
        members = place[self.members]
        inside = members >= 0
        owner = np.repeat(np.arange(self.most.size), np.diff(self.begin))
        sizes = np.bincount(owner[inside], minlength=self.most.size)
        binding = sizes > self.most
        begin = np.concatenate(([0], np.cumsum(sizes[binding]))).astype(np.int64)
        return Limits.of(begin, members[inside & binding[owner]], self.most[binding], chosen.size)


def find_batches(
    begin: Counts,
    members: Rows,
    most: Rows,
    groups: Rows,
    *,
    apart: bool = False,
    work: int = DEFAULT_WORK,
) -> Batches:
    """Put brokers into as few batches as can be found.

    Parameters
    ----------
    begin : (E+1,) int64
        Where the members of each limit begin.
    members : (m,) int32
        Brokers from 0 to n-1, ascending within a limit.
    most : (E,) int32
        How many members one batch may hold, from 1.
    groups : (n,) int32
        Group of each broker, such as its rack: tried as an order; with `apart`, a batch is within
        one group.
    apart : bool
        See `groups`.
    work : int
        Effort of the searches for fewer batches than the greedy orders give, in cells looked at;
        the result depends on it, and on nothing else.
    """
    n = groups.size
    limits = Limits.of(begin, members, most, n)
    batch = np.zeros(n, np.int32)
    total, bound = 0, 0
    numbers = np.unique(groups) if apart else np.zeros(1, np.int32)
    for number in numbers.tolist() if n else []:
        chosen = np.flatnonzero((groups == number) | (not apart)).astype(np.int32)
        batches = _solve(limits.within(chosen, n), groups[chosen], max(work // numbers.size, 1))
        batch[chosen] = total + batches.batch
        total += batches.n_batches
        bound += batches.lower_bound
    return Batches(batch, total, bound)


def _solve(limits: Limits, groups: Rows, work: int) -> Batches:
    """One group: its connected parts one by one, which then share batches."""
    n = groups.size
    bits = np.zeros((n, (n + 63) // 64), np.uint64)
    bounds.mark_apart(limits.begin, limits.members, limits.most, bits)
    limits = _essential(limits, bits, n)
    label = np.empty(n, np.int32)
    bounds.label_connected(limits.begin, limits.members, label)
    batch = np.zeros(n, np.int32)
    n_batches = bound = 1
    parts, sizes = np.unique(label, return_counts=True)
    for part in parts[np.argsort(-sizes, kind="stable")].tolist():
        chosen = np.flatnonzero(label == part).astype(np.int32)
        if chosen.size == 1:
            break
        if chosen.size == n:
            component = _Component(limits, bits, groups)
        else:
            component = _Component(limits.within(chosen, n), _cut(bits, chosen), groups[chosen])
        batches = component.solve(bound, work * chosen.size // n)
        batch[chosen] = batches.batch
        n_batches = max(n_batches, batches.n_batches)
        bound = max(bound, batches.lower_bound)
    return Batches(batch, n_batches, bound)


def _essential(limits: Limits, bits: npt.NDArray[np.uint64], n_brokers: int) -> Limits:
    """Limits of 1 as pairs, each once, and of the others those that pairs do not imply."""
    pairs = np.empty(2 * bounds.list_apart(bits, np.empty(0, np.int32)), np.int32)
    bounds.list_apart(bits, pairs)
    needed = np.empty(limits.most.size, np.uint8)
    bounds.find_needed(limits.begin, limits.members, limits.most, bits, needed)
    is_needed = needed.astype(np.bool_)
    sizes = np.diff(limits.begin)
    begin = np.concatenate(([0], np.cumsum(np.r_[np.full(pairs.size // 2, 2), sizes[is_needed]])))
    return Limits.of(
        begin.astype(np.int64),
        np.concatenate((pairs, limits.members[np.repeat(is_needed, sizes)])),
        np.concatenate((np.ones(pairs.size // 2, np.int32), limits.most[is_needed])),
        n_brokers,
    )


def _cut(bits: npt.NDArray[np.uint64], chosen: Rows) -> npt.NDArray[np.uint64]:
    """The pairs among some brokers, numbered anew."""
    words = (chosen.size + 63) // 64
    cut = np.zeros((chosen.size, 64 * words), np.bool_)
    flat = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")
    cut[:, : chosen.size] = flat[np.ix_(chosen, chosen)]
    packed: npt.NDArray[np.uint64] = np.packbits(cut, axis=1, bitorder="little").view(np.uint64)
    return np.ascontiguousarray(packed)


class _Component:
    """Connected brokers, and what is known of their batches."""

    def __init__(self, limits: Limits, bits: npt.NDArray[np.uint64], groups: Rows) -> None:
        self.limits, self.bits, self.groups = limits, bits, groups
        self.n = groups.size
        self.cost = limits.cost

    def solve(self, at_least: int, work: int) -> Batches:
        """Batches of these brokers; fewer than `at_least` are of no use to the caller."""
        batch = self.fill()
        bound = self.bound(at_least, int(batch.max()) + 1)
        if batch.max() + 1 > bound and self.n <= EXACT_BROKERS:
            n_batches, proven = kernel.search_exactly(
                self.limits, self.cost, bound, work, batch,
                *self.scratch(int(batch.max()) + 1),
            )
            bound = n_batches if proven else bound
        while work > 0 and batch.max() + 1 > bound:
            fewer, work = self.improve(batch, work)
            if fewer is None:
                break
            batch = fewer
        return Batches(batch, int(batch.max()) + 1, min(bound, int(batch.max()) + 1))

    def scratch(self, width: int) -> tuple[Rows, Rows, Rows]:
        """Memory for a kernel: batch, blocked, saturation."""
        return (
            np.empty(self.n, np.int32),
            np.empty((self.n, width), np.int32),
            np.empty(self.n, np.int32),
        )

    def fill(self) -> Rows:
        """The best of three greedy orders: most saturated, group by group, most limited."""
        best = np.arange(self.n, dtype=np.int32)
        by_group = np.lexsort((np.arange(self.n), self.groups)).astype(np.int32)
        by_cost = np.argsort(-self.cost, kind="stable").astype(np.int32)
        width = self.n
        for order in (np.empty(0, np.int32), by_group, by_cost):
            scratch = self.scratch(width)
            used = kernel.fill_batches(self.limits, self.cost, order, *scratch)
            if used < best.max() + 1:
                best = scratch[0]
        return best

    def bound(self, at_least: int, n_batches: int) -> int:
        """No fewer batches are possible."""
        sizes = np.diff(self.limits.begin)
        bound = max(at_least, int((-(-sizes // self.limits.most)).max(initial=1)))
        scratch = np.empty((1, self.bits.shape[1]), np.uint64)
        tried = CLIQUES if self.n <= BOUNDED_BROKERS else FEW_CLIQUES
        for broker in np.argsort(-self.cost, kind="stable")[:tried].tolist():
            if bound >= n_batches:
                return bound
            bound = max(bound, bounds.grow_clique(self.bits, broker, scratch))
        if bound < n_batches and self.n <= BOUNDED_BROKERS:
            largest = np.empty(self.n, np.int32)
            bounds.largest_batches(
                self.limits, self.bits, np.empty_like(self.bits),
                np.empty((2, self.bits.shape[1]), np.uint64), largest,
            )
            bound = max(bound, ceil(float((1.0 / largest).sum()) - 1e-9))
        return bound

    def improve(self, batch: Rows, work: int) -> tuple[Rows | None, int]:
        """One batch fewer, or None if the work does not suffice; and the work that is left."""
        width = int(batch.max())
        smallest = int(np.argmin(np.bincount(batch)))
        start = np.where(batch > smallest, batch - 1, batch).astype(np.int32)
        start[batch == smallest] = -1
        scratch = self.scratch(width)
        excess = kernel.place_all(self.limits, start, *scratch)
        until = np.zeros((self.n, width), np.int64)
        memory = np.array([excess, 0, excess, SEED], np.int64)
        while memory[0] > 0 and work > 0:
            budget = min(SLICE, work)
            work -= budget - kernel.search_fewer(
                self.limits, self.cost, *scratch, until, memory, budget
            )
        return (scratch[0], work) if memory[0] == 0 else (None, 0)
