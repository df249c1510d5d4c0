"""How slow this machine is now: limits of processor time are those of one that is not."""

from __future__ import annotations

import statistics
import time

USUAL_S = 0.1
"""Processor time of `work` on a machine that keeps the times in the documentation."""


def work() -> float:
    """Seconds that a plain Python loop takes."""
    begin, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number
    assert total
    return time.process_time() - begin


def slowness() -> float:
    """So many times slower than usual; at least 1."""
    return max(1.0, statistics.median(work() for _ in range(5)) / USUAL_S)
