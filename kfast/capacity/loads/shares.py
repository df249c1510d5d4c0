"""Totals dealt to partitions in integers, so that the parts add up to the total exactly.

A share is rounded down, and what is left goes one by one to the largest remainders, of equal ones
to the first: the largest remainder method. Partitions of one topic stand together, by number.

Source: docs/capacity.md, section "From topics to partitions".
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_WEIGHTS", "Amounts", "deal", "deal_equally", "sums"]

Amounts: TypeAlias = npt.NDArray[np.int64]
MAX_WEIGHTS = 1 << 60
"""Weights of one group add up to at most this."""
_DIGIT = 26
"""Bits of a total's low digit; its high digit has 37."""


def sums(values: Amounts, starts: npt.NDArray[np.int64]) -> Amounts:
    """(n,) sums of n groups, of which some may be empty; `starts` has n + 1 places."""
    totals = np.zeros(values.size + 1, np.int64)
    np.cumsum(values, out=totals[1:])
    group_sums: Amounts = totals[starts[1:]] - totals[starts[:-1]]
    return group_sums


def deal_equally(totals: Amounts, counts: npt.NDArray[np.int64]) -> Amounts:
    """Deal each total to a number of rows; the first rows of a group get one more.

    Parameters
    ----------
    totals : (n,) int64
    counts : (n,) int64
        Rows of each group.

    Returns
    -------
    (sum of counts,) int64
    """
    base, remainder = np.divmod(totals, np.maximum(counts, 1))
    starts = np.cumsum(counts) - counts
    place = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    shares: Amounts = np.repeat(base, counts) + (place < np.repeat(remainder, counts))
    return shares


def deal(totals: Amounts, weights: Amounts, counts: npt.NDArray[np.int64]) -> Amounts:
    """Deal each total to the rows of its group in proportion to their weights.

    Parameters
    ----------
    totals : (n,) int64
        From 0.
    weights : (m,) int64
        From 0; those of a group add up to more than 0 and at most `MAX_WEIGHTS`.
    counts : (n,) int64
        Rows of each group; they add up to m.

    Returns
    -------
    (m,) int64
    """
    group = np.repeat(np.arange(counts.size), counts)
    starts = np.concatenate([[0], np.cumsum(counts)])
    total, weight_sum = totals[group], sums(weights, starts)[group]
    # In two digits, so that no product needs more bits than the remainder tells.
    high, high_rest = _multiply_and_divide(total >> _DIGIT, weights, weight_sum)
    base = np.full_like(total, 1 << _DIGIT)
    middle, middle_rest = _multiply_and_divide(base, high_rest, weight_sum)
    low, low_rest = _multiply_and_divide(total & (1 << _DIGIT) - 1, weights, weight_sum)
    carry, rest = np.divmod(middle_rest + low_rest, weight_sum)
    shares: Amounts = (high << _DIGIT) + middle + low + carry
    remainder = totals - sums(shares, starts)
    # By group, then the largest remainder, then the first row.
    order = np.lexsort((-rest, group))
    place = np.empty(group.size, np.int64)
    place[order] = np.arange(group.size)
    shares += place - starts[group] < remainder[group]
    return shares


def _multiply_and_divide(
    factor: Amounts, weight: Amounts, divisor: Amounts
) -> tuple[Amounts, Amounts]:
    """Quotient and remainder of factor * weight / divisor, for factors of at most 38 bits.

    The quotient of floats is off by one at most, so the remainder modulo 2^64 is the true one.
    """
    quotient = (factor * (weight / divisor)).astype(np.int64)
    wrapped = factor.astype(np.uint64) * weight.astype(np.uint64)
    wrapped -= quotient.astype(np.uint64) * divisor.astype(np.uint64)
    correction, remainder = np.divmod(wrapped.view(np.int64), divisor)
    return quotient + correction, remainder
