"""Instants in arithmetic progression: sums, counts and quantiles without a value per partition.

The n partitions of one (publication, broker) that wait for the same disk are ready at
`base + (offset + i * step) / 1000` microseconds, i from 1 to n. All is integer arithmetic; an
instant is rounded up to a microsecond.

Source: docs/timeline.md, section "Distributions without partitions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kfast.kernels import progressions as kernel

__all__ = ["FAR", "BrokerProgressions", "Progressions", "quantile", "round_up", "waiting_quantile"]

Ints = npt.NDArray[np.int64]
FAR = 2**52
"""Microseconds that no instant reaches."""
N, VISIBLE, BROKER = 3, 4, 5
"""Columns of `Progressions.rows`."""


@dataclass(frozen=True, eq=False)
class BrokerProgressions:
    """One progression of each broker in every sample; arrays are (S, N), or spread to that.

    A broker has as many partitions in all samples.

    Attributes
    ----------
    base : (S, N) int64
        Microseconds.
    offset, step : (S, N) int64
        Nanoseconds.
    n : (N,) int64
        Partitions.
    visible : (S, N) int64
        When clients see their leader.
    """

    base: Ints
    offset: Ints
    step: Ints
    n: Ints
    visible: Ints


@dataclass(frozen=True, eq=False)
class Progressions:
    """Progressions that have partitions, sample after sample.

    Attributes
    ----------
    begin : (S + 1,) int64
        Where the rows of each sample begin.
    rows : (R, 6) int64
        Base, offset, step, n, visible, and the row of the broker.
    """

    begin: Ints
    rows: Ints

    @classmethod
    def join(cls, parts: Sequence[BrokerProgressions], samples: int) -> Progressions:
        """All progressions of some parts; those without partitions are left out."""
        brokers = [np.flatnonzero(part.n) for part in parts]
        total = sum(some.size for some in brokers)
        rows, end = np.empty((samples, total, 6), np.int64), 0
        for part, some in zip(parts, brokers, strict=True):
            own, end = rows[:, end : end + some.size], end + some.size
            columns = part.base, part.offset, part.step, part.n, part.visible
            for column, values in enumerate(columns):
                own[:, :, column] = np.broadcast_to(values, part.base.shape)[:, some]
            own[:, :, BROKER] = some
        return cls(np.arange(samples + 1) * total, rows.reshape(samples * total, 6))

    @classmethod
    def none(cls) -> Progressions:
        """No progression, of no sample."""
        return cls(np.zeros(1, np.int64), np.empty((0, 6), np.int64))

    @classmethod
    def by_sample(cls, samples: int, sample: Ints, columns: Sequence[Ints]) -> Progressions:
        """Progressions of ascending samples, given as columns; those of nobody are left out."""
        used = np.flatnonzero(columns[N])
        begin = np.zeros(samples + 1, np.int64)
        np.cumsum(np.bincount(sample[used], minlength=samples), out=begin[1:])
        return cls(begin, np.stack(columns, axis=1)[used])

    def beside(self, other: Progressions) -> Progressions:
        """The progressions of both, sample after sample."""
        rows = np.empty((self.rows.shape[0] + other.rows.shape[0], 6), np.int64)
        for part, before in ((self, other.begin[:-1]), (other, self.begin[1:])):
            places = np.arange(part.rows.shape[0]) + np.repeat(before, np.diff(part.begin))
            rows[places] = part.rows
        return Progressions(self.begin + other.begin, rows)

    @property
    def shown_at_once(self) -> Progressions:
        """The same, where clients see each leader when it leads."""
        rows = self.rows.copy()
        rows[:, VISIBLE] = 0
        return Progressions(self.begin, rows)

    def hidden_until(self, instant: int) -> Progressions:
        """The same, where clients see no leader before an instant."""
        rows = self.rows.copy()
        np.maximum(rows[:, VISIBLE], instant, out=rows[:, VISIBLE])
        return Progressions(self.begin, rows)

    @cached_property
    def _measures(self) -> Ints:
        return self._survey(FAR)

    def _survey(self, horizon: int) -> Ints:
        measures = np.empty((self.begin.size - 1, 4), np.int64)
        kernel.survey(self.begin, self.rows, horizon, measures)
        return measures

    @property
    def total(self) -> Ints:
        """(S,) partitions."""
        return self._measures[:, 0]

    @property
    def first(self) -> Ints:
        """(S,) the earliest instant, 0 where there is none."""
        return self._measures[:, 1]

    @property
    def last(self) -> Ints:
        """(S,) the latest instant, 0 where there is none."""
        return self._measures[:, 2]

    @property
    def visible(self) -> Ints:
        """(S,) when clients see the last of the leaders, 0 where there is none."""
        visible, any_rows = np.zeros(self.begin.size - 1, np.int64), np.diff(self.begin) > 0
        if any_rows.any():
            begin = self.begin[:-1][any_rows]
            visible[any_rows] = np.maximum.reduceat(self.rows[:, VISIBLE], begin)
        return visible

    def sum_until(self, horizon: int) -> Ints:
        """(S,) sum of all instants, none of them counted beyond the horizon.

        Nanoseconds below a microsecond are rounded up once for each progression.
        """
        return self._survey(horizon)[:, 3]


def round_up(nanoseconds: Ints) -> Ints:
    """Microseconds, rounded up."""
    rounded: Ints = (nanoseconds + 999) // 1000
    return rounded


def quantile(progressions: Progressions, percent: int) -> Ints:
    """(S,) the least instant at which so many percent of the partitions are ready."""
    bounds = np.stack([progressions.first, progressions.last], axis=1)
    kernel.quantile(progressions.begin, progressions.rows, percent, bounds)
    return bounds[:, 0]


def waiting_quantile(progressions: Progressions, percent: int, wait: int, late: Ints) -> Ints:
    """(S,) the same for clients, who arrive uniformly within a wait after partitions are ready.

    Parameters
    ----------
    progressions : Progressions
        A partition is ready when it is led and visible.
    percent : int
    wait : int
        Microseconds between two attempts of a client.
    late : (S,) int64
        Microseconds that every attempt takes besides.
    """
    last = np.maximum(progressions.last, progressions.visible)
    bounds = np.stack([progressions.first, last + wait + late], axis=1)
    kernel.waiting_quantile(progressions.begin, progressions.rows, percent, wait, late, bounds)
    return bounds[:, 0]
