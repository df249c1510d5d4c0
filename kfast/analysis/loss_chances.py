"""How likely it is that brokers which fail at random take some partition down.

A set of brokers is lost when as many of its members are down as its threshold says. With F of N
brokers down, every F of them equally likely, the chance that some set is lost is counted exactly
where that can be done, and otherwise drawn, with a Clopper-Pearson interval.

Source: Cidon, Rumble, Stutsman, Katti, Ousterhout, Rosenblum, "Copysets: Reducing the Frequency of
Data Loss in Cloud Storage", USENIX ATC 2013, sections 2 and 3; Clopper and Pearson, "The use of
confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26 (1934).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, expm1, inf, log1p

import numpy as np

from kfast.analysis.replica_sets import Counts, list_by_broker
from kfast.arguments import MAX_INT, number, whole
from kfast.errors import require_extra
from kfast.kernels import risk as kernel
from kfast.schema import MAX_SLOTS
from kfast.state.records import Rows

__all__ = ["Chance", "Sets", "any_lost", "loss_probability", "mean_lost", "tail"]

EXACT_WORK = 300_000_000
"""Cells that an exact count may look at: about one second."""

MOST_PARTS = 5_000_000
"""Sets that stand for thresholds below the size of a set; more are not listed."""

INCLUDED_SETS = 14
"""As many sets are included and excluded one by one, whatever the number of brokers."""

SLICE = 256
"""Scenarios between two looks for Ctrl-C."""


@dataclass(frozen=True)
class Sets:
    """Sets of brokers, each with its threshold and its partitions.

    Attributes
    ----------
    begin : (G+1,) int64
        Where the members of each set begin.
    members : (m,) int32
        Brokers from 0 to n-1, ascending within a set.
    threshold : (G,) int32
        So many members down, and the set is lost; from 1 to its size.
    partitions : (G,) int64
    """

    begin: Counts
    members: Rows
    threshold: Rows
    partitions: Counts

    @property
    def sizes(self) -> Counts:
        """(G,) how many members each set has."""
        return np.diff(self.begin)

    @cached_property
    def kinds(self) -> dict[tuple[int, int], int]:
        """How many partitions have sets of each size and threshold."""
        keys = self.sizes << 8 | self.threshold
        totals = np.bincount(keys, self.partitions).astype(np.int64)
        return {
            (key >> 8, key & 255): int(totals[key]) for key in np.flatnonzero(totals).tolist()
        }


@dataclass(frozen=True)
class Chance:
    """A probability, and how it was found.

    Attributes
    ----------
    probability, low, high : float
        The estimate and its interval; all the same where it was counted.
    method : {"exact", "sampled"}
    scenarios : int
        How many were drawn; 0 where it was counted.
    """

    probability: float
    low: float
    high: float
    method: str
    scenarios: int


def tail(brokers: int, members: int, down: int, threshold: int) -> Fraction:
    """Chance that at least `threshold` of `members` are among `down` of `brokers`, exactly."""
    ways = sum(
        comb(members, hit) * comb(brokers - members, down - hit)
        for hit in range(threshold, min(members, down) + 1)
        if down - hit <= brokers - members
    )
    return Fraction(ways, comb(brokers, down))


def loss_probability(
    copysets: float, *, brokers: int, down: int, replication_factor: int = 3
) -> float:
    """Chance that some copyset is down as a whole, if copysets are drawn at random.

    1 - (1 - C(down, R) / C(brokers, R)) ** copysets.

    Parameters
    ----------
    copysets : float
        How many distinct replica sets there are.
    brokers, down : int
        How many of how many brokers are down, every choice equally likely.
    replication_factor : int, default 3
        R, the members of each copyset.

    Raises
    ------
    ArgumentError
        A number is negative, more brokers are down than there are, or R is above their number.

    References
    ----------
    Cidon et al., "Copysets", USENIX ATC 2013, section 2.
    """
    brokers = whole("brokers", brokers, 1, MAX_INT)
    down = whole("down", down, 0, brokers)
    members = whole("replication_factor", replication_factor, 1, min(brokers, MAX_SLOTS))
    copysets = number("copysets", copysets, 0, inf)
    one = Fraction(comb(down, members), comb(brokers, members))
    if one == 1:
        return 1.0 if copysets else 0.0
    return 0.0 - expm1(copysets * log1p(-float(one)))


def mean_lost(sets: Sets, brokers: int, down: int) -> float:
    """How many partitions are lost on average, exactly: the sum of their chances."""
    total = Fraction(0)
    for (size, threshold), partitions in sets.kinds.items():
        total += partitions * tail(brokers, size, down, threshold)
    return float(total)


def if_random(sets: Sets, brokers: int, down: int) -> float:
    """Chance that some set is lost if every partition had brokers of its own choosing."""
    log_safe = 0.0
    for (size, threshold), partitions in sets.kinds.items():
        one = float(tail(brokers, size, down, threshold))
        if one == 1.0:
            return 1.0
        log_safe += partitions * log1p(-one)
    return 0.0 - expm1(log_safe)


def any_lost(
    sets: Sets, brokers: int, down: int, *, scenarios: int, seed: int, confidence: float
) -> Chance:
    """Chance that some set is lost with `down` of `brokers` down.

    Raises
    ------
    MissingExtraError
        Counting would take too long, and scipy, which has the interval, is not installed.
    """
    counted = count_exactly(sets, brokers, down)
    if counted is not None:
        exact = float(counted)
        return Chance(exact, exact, exact, "exact", 0)
    return _sample(sets, brokers, down, scenarios, seed, confidence)


def count_exactly(sets: Sets, brokers: int, down: int) -> Fraction | None:
    """The chance as a fraction; None where counting would take too long."""
    parts = _minimal(sets, down)
    if parts is None:
        return None
    alone = np.unique(parts[1]) if 1 in parts else np.empty(0, np.int32)
    left = brokers - alone.size
    total = comb(brokers, down)
    several = [
        rest
        for size, listed in sorted(parts.items())
        if size > 1 and (rest := listed[~np.isin(listed, alone).any(axis=1)]).size
    ]
    n_sets = sum(len(listed) for listed in several)
    if not several:
        safe = comb(left, down)
    elif all(listed.shape[1] == down for listed in several):
        safe = comb(left, down) - n_sets
    else:
        n_safe = _count_safe(several, left, down)
        if n_safe is None and n_sets <= INCLUDED_SETS:
            n_safe = _include_and_exclude(several, left, down)
        if n_safe is None:
            return None
        safe = n_safe
    return 1 - Fraction(safe, total)


def _minimal(sets: Sets, down: int) -> dict[int, Rows] | None:
    """Groups of at most `down` brokers that lose a set, by size; None where they are too many."""
    sizes = sets.sizes
    chosen = [(m, t) for m, t in sets.kinds if t <= down]
    total = sum(
        comb(m, t) * int(((sizes == m) & (sets.threshold == t)).sum()) for m, t in chosen
    )
    if total > MOST_PARTS:
        return None
    parts: dict[int, list[Rows]] = {}
    for m, t in chosen:
        begin = sets.begin[:-1][(sizes == m) & (sets.threshold == t)]
        listed = sets.members[begin[:, None] + np.arange(m)]
        ways = np.array(list(combinations(range(m), t)))
        parts.setdefault(t, []).append(listed[:, ways].reshape(-1, t))
    return {t: _distinct(np.concatenate(lists)) for t, lists in parts.items()}


def _distinct(rows: Rows) -> Rows:
    """Each row once, in order."""
    width = int(rows.max(initial=0)) + 1
    if width ** rows.shape[1] < 1 << 62:
        scale = width ** np.arange(rows.shape[1] - 1, -1, -1)
        keys = np.unique(rows.astype(np.int64) @ scale)
        return np.asarray(keys[:, None] // scale % width, np.int32)
    order = np.lexsort(rows.T[::-1])
    rows = rows[order]
    new = np.ones(len(rows), np.bool_)
    new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[new]


def _count_safe(several: list[Rows], left: int, down: int) -> int | None:
    """Groups of `down` of the brokers left that hold no set; by trying those that matter."""
    involved = np.unique(np.concatenate([listed.ravel() for listed in several]))
    n = int(involved.size)
    size = sum(listed.size for listed in several)
    steps = sum(comb(n, taken) for taken in range(1, down))
    if steps * (size // n + n // 8 + 8) > EXACT_WORK:
        return None
    listed_all = np.concatenate([listed.ravel() for listed in several])
    members = np.searchsorted(involved, listed_all).astype(np.int32)
    lengths = np.concatenate([np.full(len(rows), rows.shape[1]) for rows in several])
    begin = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    first, sets_of = list_by_broker(begin, members, n)
    held, forbidden = np.zeros(lengths.size, np.int32), np.zeros(n, np.int32)
    taken_down, counts = np.zeros(n, np.uint8), np.zeros(down + 1, np.int64)
    for broker in range(n):
        kernel.count_safe(
            begin, members, first, sets_of, broker, held, forbidden, taken_down, counts
        )
    counts[0] = 1
    return sum(
        int(count) * comb(left - n, down - taken)
        for taken, count in enumerate(counts)
        if down - taken <= left - n
    )


def _include_and_exclude(several: list[Rows], left: int, down: int) -> int:
    """The same from the few sets: groups that hold some of them whole, by their union."""
    groups = [frozenset(row) for listed in several for row in listed.tolist()]
    safe = 0
    for size in range(len(groups) + 1):
        for chosen in combinations(groups, size):
            union = len(frozenset().union(*chosen))
            if union <= down:
                safe += (-1) ** size * comb(left - union, down - union)
    return safe


def _sample(
    sets: Sets, brokers: int, down: int, scenarios: int, seed: int, confidence: float
) -> Chance:
    require_extra(
        "stats", f"the chance with {down} of {brokers} brokers down has to be drawn, which"
    )
    from scipy.special import betaincinv

    first, sets_of = list_by_broker(sets.begin, sets.members, brokers)
    held, chosen = np.zeros(sets.partitions.size, np.uint8), np.empty(down, np.int32)
    threshold = sets.threshold.astype(np.uint8)
    marks, hit = np.zeros(brokers, np.uint8), np.empty(scenarios, np.uint8)
    for start in range(0, scenarios, SLICE):
        kernel.draw_hits(
            threshold, first, sets_of, seed, start, chosen, marks, held,
            hit[start : start + SLICE],
        )
    hits = int(hit.sum())
    beyond = (1 - confidence) / 2
    low = betaincinv(hits, scenarios - hits + 1, beyond) if hits else 0.0
    high = betaincinv(hits + 1, scenarios - hits, 1 - beyond) if hits < scenarios else 1.0
    return Chance(hits / scenarios, float(low), float(high), "sampled", scenarios)
