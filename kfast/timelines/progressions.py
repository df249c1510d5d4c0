"""Instants in arithmetic progression: sums, counts and quantiles without a value per partition.

The n partitions of one (publication, broker) that wait for the same disk are ready at
`base + (offset + i * step) / 1000` microseconds, i from 1 to n. All is integer arithmetic; an
instant is rounded up to a microsecond.

Source: docs/timeline.md, section "Distributions without partitions".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Progressions", "quantile", "waiting_quantile"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Progressions:
    """Progressions of every sample; arrays are (S, M), or (S, 1) where all have the same.

    Attributes
    ----------
    base : (S, M) int64
        Microseconds.
    offset, step : (S, M) or (S, 1) int64
        Nanoseconds.
    n : (S, M) int64
        Partitions.
    visible : (S, M) int64
        When clients see their leader.
    """

    base: Ints
    offset: Ints
    step: Ints
    n: Ints
    visible: Ints

    @classmethod
    def join(cls, parts: Sequence[Progressions], samples: int) -> Progressions:
        """All progressions of some parts; those without partitions in any sample are left out."""
        if not parts:
            none = np.zeros((samples, 0), np.int64)
            return cls(none, none, none, none, none)
        columns = []
        used = np.concatenate([np.broadcast_to(p.n, p.base.shape).any(axis=0) for p in parts])
        for name in ("base", "offset", "step", "n", "visible"):
            spread = [np.broadcast_to(getattr(p, name), p.base.shape) for p in parts]
            columns.append(np.ascontiguousarray(np.concatenate(spread, axis=1)[:, used]))
        return cls(*columns)

    @property
    def total(self) -> Ints:
        """(S,) partitions."""
        total: Ints = self.n.sum(axis=1)
        return total

    @property
    def first(self) -> Ints:
        """(S,) the earliest instant, 0 where there is none."""
        return self._extreme(self.offset + self.step, largest=False)

    @property
    def last(self) -> Ints:
        """(S,) the latest instant, 0 where there is none."""
        return self._extreme(self.offset + self.step * self.n, largest=True)

    def _extreme(self, nanoseconds: Ints, *, largest: bool) -> Ints:
        if not self.n.shape[1]:
            return np.zeros(self.n.shape[0], np.int64)
        far = np.iinfo(np.int64).max
        at = np.where(self.n > 0, self.base + round_up(nanoseconds), -1 if largest else far)
        found: Ints = at.max(axis=1) if largest else at.min(axis=1)
        return np.where(self.total > 0, found, 0)

    def counts(self, x: Ints) -> Ints:
        """(S, M) partitions that are ready at instants x, (S, 1)."""
        waited = (x - self.base) * 1000 - self.offset
        steps = np.maximum(self.step, 1)
        ready = np.where(self.step > 0, np.maximum(waited, 0) // steps, self.n)
        ready = np.where(waited < 0, 0, ready)
        counts: Ints = np.minimum(ready, self.n)
        return counts

    def ready(self, x: Ints) -> Ints:
        """(S,) partitions that are ready at instants x, (S,)."""
        ready: Ints = self.counts(x[:, None]).sum(axis=1)
        return ready

    def sum(self, counts: Ints | None = None) -> Ints:
        """(S,) sum of all instants, or of the first `counts` of each progression.

        Nanoseconds below a microsecond are rounded up once for each progression.
        """
        n = self.n if counts is None else counts
        pairs = n * (n + 1) // 2
        micros = n * self.base + pairs * (self.step // 1000) + n * (self.offset // 1000)
        nanos = pairs * (self.step % 1000) + n * (self.offset % 1000)
        total: Ints = (micros + round_up(nanos)).sum(axis=1)
        return total

    def sum_until(self, horizon: int) -> Ints:
        """(S,) sum of all instants, none of them counted beyond the horizon."""
        within = self.counts(np.full((self.n.shape[0], 1), horizon, np.int64))
        late: Ints = (self.n - within).sum(axis=1)
        return self.sum(within) + late * horizon


def round_up(nanoseconds: Ints) -> Ints:
    """Microseconds, rounded up."""
    rounded: Ints = (nanoseconds + 999) // 1000
    return rounded


def quantile(progressions: Progressions, percent: int) -> Ints:
    """(S,) the least instant at which so many percent of the partitions are ready."""
    total = progressions.total
    return _bisect(
        progressions.first, progressions.last,
        lambda x: progressions.ready(x) * 100 >= percent * total,
    )


def waiting_quantile(progressions: Progressions, percent: int, wait: Ints, late: Ints) -> Ints:
    """(S,) the same for clients, who arrive uniformly within a wait after partitions are ready.

    Parameters
    ----------
    progressions : Progressions
        A partition is ready when it is led and visible.
    percent : int
    wait : (S,) int64
        Microseconds between two attempts of a client.
    late : (S,) int64
        Microseconds that every attempt takes besides.
    """
    total = progressions.total
    first, last = progressions.first, np.maximum(
        progressions.last, progressions.visible.max(axis=1, initial=0)
    )

    def served(x: Ints) -> npt.NDArray[np.bool_]:
        arrived = _arrived(progressions, x - late, wait)
        enough: npt.NDArray[np.bool_] = arrived * 100 >= percent * total * wait * 1000
        return enough

    return _bisect(first, last + wait + late, served)


def _arrived(p: Progressions, x: Ints, wait: Ints) -> Ints:
    """(S,) sum over partitions of the nanoseconds that have passed of each one's wait."""
    now, width = x[:, None], wait[:, None]
    hidden = p.counts(p.visible)
    done = np.maximum(p.counts(now - width), 0)
    ready = np.maximum(p.counts(now), hidden)
    full = np.where(now - width >= p.visible, done, 0)
    waited = np.clip(now - p.visible, 0, width) * 1000
    begun = np.where(now >= p.visible, np.maximum(ready, hidden), 0)
    early = np.where(now >= p.visible, np.maximum(hidden - full, 0), 0) * waited
    since = np.maximum(hidden, full)
    m = np.maximum(begun - since, 0)
    pairs = begun * (begun + 1) // 2 - since * (since + 1) // 2
    partial = m * ((now - p.base) * 1000 - p.offset) - p.step * np.where(m > 0, pairs, 0)
    passed: Ints = (full * width * 1000 + early + partial).sum(axis=1)
    return passed


def _bisect(low: Ints, high: Ints, holds: Callable[[Ints], npt.NDArray[np.bool_]]) -> Ints:
    """(S,) the least x of each sample, low to high, for which a monotone condition holds."""
    low, high = low.copy(), high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        enough = holds(middle)
        high = np.where(enough, middle, high)
        low = np.where(enough, low, np.minimum(middle + 1, high))
    return high
