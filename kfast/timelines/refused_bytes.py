"""Bytes that are refused: what producers write to partitions that take none of it meanwhile.

Those of one partition are its bytes in a second times its wait, rounded to a whole byte; all others
are sums of these, so that they agree.

Source: docs/timeline.md, section "Loads".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.errors import ArgumentError
from kfast.timelines.partition_instants import led_places, progression_instants
from kfast.timelines.recording import Recording
from kfast.timelines.stages import Times

__all__ = ["leaderless_bytes", "refused_bytes", "under_min_bytes"]

Ints = npt.NDArray[np.int64]

MILLION = 1_000_000
MOST_INSTANTS = 2**20
"""Instants of partitions that are held at once."""


def refused_bytes(rates: Ints, waits: Ints) -> Ints:
    """Bytes of each partition, half a byte rounded up.

    Parameters
    ----------
    rates : (n,) int64
        Bytes in a second, each below 2^40, their sum below 2^63.
    waits : (..., n) int64
        Microseconds.

    Raises
    ------
    ArgumentError
        Sums over partitions could overflow.
    """
    longest, total = int(waits.max(initial=0)) // MILLION + 1, int(rates.sum())
    if total * longest >= 2**62:
        raise ArgumentError(
            f"load: {total} B/s for up to {longest} s are {total * longest} bytes, and sums are "
            "below 2^62: give a shorter horizon"
        )
    # Whole seconds and the rest apart, so that no product is too large.
    seconds, rest = np.divmod(waits, MILLION)
    refused: Ints = rates * seconds + (rates * rest + MILLION // 2) // MILLION
    return refused


def leaderless_bytes(bytes_in: Ints, recording: Recording, times: Times, horizon: int) -> Ints:
    """(S,) bytes of the partitions of a failure that are led again, until then or the horizon.

    Parameters
    ----------
    bytes_in : (P,) int64
        Bytes a second, by partition row.
    recording : Recording
    times : Times
    horizon : int
        Microseconds.
    """
    led, begin = led_places(recording), times.led.begin
    rates, n = bytes_in[recording.rows[led]], begin.size - 1
    sums, at_once = np.zeros(n, np.int64), max(MOST_INSTANTS // max(led.size, 1), 1)
    for first in range(0, n, at_once):
        last = min(first + at_once, n)
        instants = progression_instants(times.led.rows[begin[first] : begin[last]])
        waits = np.minimum(instants.reshape(last - first, led.size), horizon)
        sums[first:last] = refused_bytes(rates, waits).sum(axis=1)
    return sums


def under_min_bytes(bytes_in: Ints, recording: Recording, waits: Ints) -> Ints:
    """(S,) bytes of the partitions that fall under min ISR, all of which wait equally long.

    Parameters
    ----------
    bytes_in : (P,) int64
        Bytes a second, by partition row.
    recording : Recording
    waits : (S,) int64
        Microseconds.
    """
    rates = bytes_in[recording.rows[recording.under_min]]
    lengths, place = np.unique(waits, return_inverse=True)
    sums = [int(refused_bytes(rates, wait).sum()) for wait in lengths]
    return np.array(sums, np.int64)[place]
