"""How many partitions have no leader over time: a step function of every sample.

Source: docs/timeline.md, section "Pictures".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.schema import TIMELINE_LEADERLESS
from kfast.timelines.progressions import N, Progressions, quantile, round_up

__all__ = ["SampledLed", "leaderless_table"]

Ints = npt.NDArray[np.int64]
SampledLed: TypeAlias = tuple[Ints, Progressions]
"""Some samples, and when partitions are led in each of them."""

MOST_INSTANTS = 400
CENTRAL_PERCENTS, OTHER_PERCENTS = range(1, 101), (1, 25, 50, 75, 100)
"""Quantiles whose instants are shown: many of the central sample, few of every other."""


def leaderless_table(parts: Sequence[SampledLed], lost: int) -> pa.Table:
    """Partitions without a leader over time (`schema.TIMELINE_LEADERLESS`).

    Parameters
    ----------
    parts : sequence of SampledLed
        All samples together.
    lost : int
        Partitions that lose their leader, at instant 0.
    """
    instants = _instants(parts)
    n_samples = sum(samples.size for samples, _ in parts)
    leaderless = np.full((n_samples, instants.size), lost, np.int64)
    for samples, led in parts:
        leaderless[samples] -= _led_until(led, instants)
    central, drawn = leaderless[0], np.sort(leaderless[1:], axis=0)
    # As of `failover.percentiles`: a range holds the central value.
    last = drawn.shape[0] - 1
    low, high = drawn[5 * last // 100], drawn[-(-95 * last // 100)]
    return TIMELINE_LEADERLESS.table({
        "at_us": pa.array(instants), "leaderless": pa.array(central),
        "leaderless_low": pa.array(np.minimum(low, central)),
        "leaderless_high": pa.array(np.maximum(high, central)),
    })


def _instants(parts: Sequence[SampledLed]) -> Ints:
    """Instants at which something changes: those of the central sample first, 0 among them."""
    own, of_other_samples = [np.zeros(1, np.int64)], list[Ints]()
    for samples, led in parts:
        if not led.rows.size:
            continue
        for percent in OTHER_PERCENTS:
            of_other_samples.append(quantile(led, percent))
        at = np.flatnonzero(samples == 0)
        if at.size:
            begin, end = led.begin[int(at[0]) : int(at[0]) + 2]
            central = Progressions(np.array([0, end - begin]), led.rows[begin:end].copy())
            own += [central.first, *(quantile(central, percent) for percent in CENTRAL_PERCENTS)]
    first = np.unique(np.concatenate(own))
    rest = np.unique(np.concatenate([*of_other_samples, first]))
    room = MOST_INSTANTS - first.size
    if rest.size > room:
        rest = rest[np.linspace(0, rest.size - 1, room).round().astype(np.int64)]
    instants: Ints = np.unique(np.concatenate([first, rest]))
    return instants


def _led_until(led: Progressions, instants: Ints) -> Ints:
    """(S, T) partitions that are led at or before each instant, in every sample.

    A progression counts by itself only at the instants at which part of it is led.
    """
    base, offset, step, n = (led.rows[:, column] for column in range(N + 1))
    samples = led.begin.size - 1
    sample = np.repeat(np.arange(samples), np.diff(led.begin))
    first = np.searchsorted(instants, base + round_up(offset + step))
    last = np.searchsorted(instants, base + round_up(offset + n * step))
    until = np.zeros((samples, instants.size + 1), np.int64)
    np.add.at(until, (sample, last), n)
    until = np.cumsum(until, axis=1)[:, :-1]
    between = last - first
    row = np.repeat(np.arange(n.size), between)
    place = np.arange(row.size) - np.repeat(np.cumsum(between) - between, between) + first[row]
    # All of a progression whose cost is nothing are led at once, so that none is between.
    spare = (instants[place] - base[row]) * 1000 - offset[row]
    np.add.at(until, (sample[row], place), spare // step[row])
    return until
