"""Scenarios: which brokers fail together, made lazily and numbered.

Scenario 0 is the empty one, the baseline. Scenarios are a few parameters, never their rows, so that
they are cheap to send anywhere; a random scenario depends on its seed and number alone.

Source: `kernels/scenario_sampling.pyx` for the random ones; Buckles and Lybanon, "Algorithm 515:
generation of a vector from the lexicographical index", TOMS 1977, for the combinations.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import MAX_LONG, whole
from kfast.errors import ArgumentError
from kfast.kernels import scenario_sampling as sampling
from kfast.schema import SCENARIOS
from kfast.state.arrow_views import view
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows

__all__ = ["SCENARIO_TABLE", "Bursts", "Combinations", "Down", "Groups", "Independent", "Listed",
    "Offsets", "Samples", "Scenarios"]

Offsets = npt.NDArray[np.int64]
Down = tuple[Offsets, Rows]
Self = TypeVar("Self", bound="Scenarios")

_ANY = -MAX_LONG, MAX_LONG
TABLE_SCENARIOS = 65_536
"""Scenarios that are made at a time where all of them become a table."""

SCENARIO_TABLE = SCENARIOS.schema


@dataclass(frozen=True, eq=False)
class Scenarios(ABC):
    """Numbered sets of brokers that fail together; number 0 is the empty set.

    Parameters
    ----------
    broker_id : (B,) int32
        Ids of all brokers of the cluster that they speak of, ascending.
    start, stop : int
        Numbers that these scenarios have; a slice keeps the numbers.
    """

    broker_id: Rows
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def slice(self: Self, start: int, stop: int) -> Self:
        """Return the scenarios with numbers from `start` up to `stop`, which keep their numbers.

        Raises
        ------
        ArgumentError
            They are not all among these.
        """
        start, stop = self._check(start, stop)
        return replace(self, start=start, stop=stop)

    @property
    def failures(self: Self) -> Self:
        """These scenarios without the baseline, scenario 0."""
        return self.slice(min(max(self.start, 1), self.stop), self.stop)

    def _check(self, start: int, stop: int) -> tuple[int, int]:
        start, stop = whole("start", start, *_ANY), whole("stop", stop, *_ANY)
        if not self.start <= start <= stop <= self.stop:
            raise ArgumentError(
                f"scenarios {start} up to {stop} are not all among {self.start} up to {self.stop}"
            )
        return start, stop

    def down(self, start: int, stop: int) -> Down:
        """Who fails in the scenarios with numbers from `start` up to `stop`.

        Returns
        -------
        offsets : (n + 1,) int64
            Where each scenario begins among the rows.
        rows : (offsets[-1],) int32
            Broker rows, each at most once within a scenario.
        """
        start, stop = self._check(start, stop)
        if start > 0 or stop == 0:
            return self._down(start, stop)
        offsets, rows = self._down(1, max(stop, 1))
        return np.concatenate([np.zeros(1, np.int64), offsets]), rows

    @abstractmethod
    def _down(self, start: int, stop: int) -> Down:
        """Who fails; `start` is at least 1, and `stop` at least `start`."""

    def brokers(self, number: int) -> list[int]:
        """Ids of the brokers that fail in one scenario, ascending."""
        number = whole("number", number, self.start, self.stop - 1)
        rows = self.down(number, number + 1)[1]
        return sorted(self.broker_id[rows].tolist())

    def to_batches(self, scenarios: int = TABLE_SCENARIOS) -> Iterator[pa.RecordBatch]:
        """Give (scenario, broker) for so many scenarios at a time."""
        for start in range(self.start, self.stop, scenarios):
            stop = min(start + scenarios, self.stop)
            offsets, rows = self.down(start, stop)
            numbers = np.repeat(np.arange(start, stop), np.diff(offsets))
            columns = [view(numbers), view(self.broker_id[rows])]
            yield pa.record_batch(columns, schema=SCENARIO_TABLE)

    def to_table(self) -> pa.Table:
        """All scenarios as (scenario, broker); empty ones have no row."""
        return pa.Table.from_batches(self.to_batches(), SCENARIO_TABLE)

    def _summary(self) -> Summary:
        sizes = {"scenarios": len(self), "brokers": self.broker_id.size}
        numbers = {n: str(v) for n, v in vars(self).items() if isinstance(v, int | float)}
        return f"Scenarios ({type(self).__name__})", {**sizes, **numbers}

    __repr__ = summary_text
    _repr_html_ = summary_html


def _uniform(rows: npt.NDArray[Any]) -> Down:
    """Scenarios of one size each, from a matrix."""
    n, k = rows.shape
    return np.arange(n + 1, dtype=np.int64) * k, np.ascontiguousarray(rows, np.int32).reshape(-1)


def _taken(begin: Offsets, member: Rows, chosen: npt.NDArray[np.int64]) -> Down:
    """Members of some groups, one group per scenario."""
    sizes = np.diff(begin)[chosen]
    offsets = np.zeros(chosen.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    within = np.arange(int(offsets[-1])) - np.repeat(offsets[:-1], sizes)
    return offsets, member[np.repeat(begin[:-1][chosen], sizes) + within]


@dataclass(frozen=True, eq=False, repr=False)
class Combinations(Scenarios):
    """Every k of some broker rows, in lexicographic order."""

    candidates: Rows
    k: int

    def _down(self, start: int, stop: int) -> Down:
        n, k = self.candidates.size, self.k
        # In mirrored order the rank is a sum of binomials, the largest element first.
        rank = math.comb(n, k) - np.arange(start, stop, dtype=np.int64)
        chosen = np.empty((stop - start, k), np.int64)
        for place in range(k):
            size = k - place
            counts = np.array([_comb(c, size) for c in range(n)], np.int64)
            element = np.searchsorted(counts, rank, side="right") - 1
            rank = rank - counts[element]
            chosen[:, place] = n - 1 - element
        return _uniform(self.candidates[chosen])


def _comb(n: int, k: int) -> int:
    return min(math.comb(n, k), 2**62)


@dataclass(frozen=True, eq=False, repr=False)
class Groups(Scenarios):
    """Every group of brokers; with `others`, every group and one more of these brokers."""

    begin: Offsets
    member: Rows
    others: Rows | None = None

    def _down(self, start: int, stop: int) -> Down:
        numbers = np.arange(start - 1, stop - 1, dtype=np.int64)
        if self.others is None:
            return _taken(self.begin, self.member, numbers)
        ends = np.cumsum(self.others.size - np.diff(self.begin))
        group = np.searchsorted(ends, numbers, side="right")
        place = numbers - np.concatenate([[0], ends])[group]
        offsets, rows = _taken(self.begin, self.member, group)
        more = np.empty(group.size, np.int32)
        for g in np.unique(group).tolist():
            inside = self.member[self.begin[g] : self.begin[g + 1]]
            outside = np.setdiff1d(self.others, inside)
            more[group == g] = outside[place[group == g]]
        return offsets + np.arange(offsets.size), np.insert(rows, offsets[1:], more)


@dataclass(frozen=True, eq=False, repr=False)
class Samples(Scenarios):
    """Some of the candidates at random, k in each scenario."""

    candidates: Rows
    k: int
    seed: int

    def _down(self, start: int, stop: int) -> Down:
        chosen = np.empty((stop - start, self.k), np.int32)
        taken = np.zeros(self.candidates.size + 1, np.uint8)
        sampling.sample_brokers(self.seed, start, self.candidates, taken, chosen)
        return _uniform(chosen)


@dataclass(frozen=True, eq=False, repr=False)
class Independent(Scenarios):
    """Groups of brokers that fail independently."""

    begin: Offsets
    member: Rows
    probability: float
    seed: int

    def _down(self, start: int, stop: int) -> Down:
        n, size = stop - start, int(self.member.size)
        threshold = math.floor(Fraction(self.probability) * 2**64)
        certain = threshold >= 2**64
        offsets = np.zeros(n + 1, np.int64)
        expected = int(n * size * self.probability)
        rows = np.empty(expected + expected // 8 + 2 * size + 1024, np.int32)
        done = 0
        while True:
            done += sampling.draw_independent(
                self.seed, start + done, min(threshold, 2**64 - 1), certain, self.begin,
                self.member, offsets[done:], rows,
            )
            if done == n:
                return offsets, rows[: int(offsets[-1])].copy()
            rows = np.concatenate([rows, np.empty(rows.size + size, np.int32)])


@dataclass(frozen=True, eq=False, repr=False)
class Bursts(Scenarios):
    """A part of one group in each scenario."""

    begin: Offsets
    member: Rows
    failing: Rows
    seed: int

    def _down(self, start: int, stop: int) -> Down:
        offsets = np.zeros(stop - start + 1, np.int64)
        largest = int(self.failing.max(initial=0))
        rows = np.empty((stop - start) * largest + 1, np.int32)
        taken = np.zeros(self.member.size + 1, np.uint8)
        sampling.draw_bursts(
            self.seed, start, self.begin, self.member, self.failing, taken, offsets, rows
        )
        return offsets, rows[: int(offsets[-1])].copy()


@dataclass(frozen=True, eq=False, repr=False)
class Listed(Scenarios):
    """Scenarios that a table lists."""

    begin: Offsets
    member: Rows

    def _down(self, start: int, stop: int) -> Down:
        offsets = self.begin[start : stop + 1]
        return offsets - offsets[0], self.member[int(offsets[0]) : int(offsets[-1])]
