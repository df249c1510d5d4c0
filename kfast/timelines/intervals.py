"""Intervals that logs show: each lasts as long as some parameters, so many times each.

Source: docs/timeline.md, section "Calibration".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from kfast.schema import TIMELINE_INTERVALS

__all__ = ["COMMIT", "LEVELS", "Interval", "interval_table", "most_verbose", "resolution_us"]

LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""The most verbose first."""

OPERATION, COMMIT, ACTIVATION = "operation", "commit", "activation"
"""Kinds whose lengths lines give in microseconds."""

RESOLUTION_US = {OPERATION: 1, COMMIT: 1, ACTIVATION: 1}
DEFAULT_RESOLUTION_US = 1000
"""Logs have milliseconds."""


def resolution_us(kind: str) -> int:
    """How exact the lengths of a kind are."""
    return RESOLUTION_US.get(kind, DEFAULT_RESOLUTION_US)


class Interval(NamedTuple):
    """How long one thing took.

    Attributes
    ----------
    kind : str
        What it was.
    start_broker, end_broker : int or None
        By whose clocks it begins and ends; None is the writer of a metadata log.
    start_us, end_us : int
        Microseconds since 1970.
    counts : mapping of str to int
        How often each parameter is in it.
    log_level : str
        The most verbose level of the logs that show it; empty of records.
    file : str
    line : int
        Where it ends; of records the offset.
    """

    kind: str
    start_broker: int | None
    end_broker: int | None
    start_us: int
    end_us: int
    counts: Mapping[str, int]
    log_level: str
    file: str
    line: int


def interval_table(intervals: Iterable[Interval]) -> pa.Table:
    """The table of intervals (`schema.TIMELINE_INTERVALS`), by their ends."""
    rows = sorted(intervals, key=lambda row: (row.end_us, row.file, row.line, row.kind))
    counts = [
        {name: n for name, n in sorted(row.counts.items()) if n} for row in rows
    ]
    return TIMELINE_INTERVALS.table({
        "kind": pa.array([row.kind for row in rows], pa.string()),
        "start_broker": pa.array([row.start_broker for row in rows], pa.int32()),
        "end_broker": pa.array([row.end_broker for row in rows], pa.int32()),
        "start_us": pa.array([row.start_us for row in rows], pa.int64()),
        "end_us": pa.array([row.end_us for row in rows], pa.int64()),
        "parameters": pa.array([[*one] for one in counts], pa.list_(pa.string())),
        "counts": pa.array([[*one.values()] for one in counts], pa.list_(pa.int64())),
        "log_level": pa.array([row.log_level for row in rows], pa.string()),
        "file": pa.array([row.file for row in rows], pa.string()),
        "line": pa.array([row.line for row in rows], pa.int64()),
    })


def most_verbose(levels: Iterable[str]) -> str:
    """The most verbose of some levels of log4j; empty without any."""
    return min(filter(None, levels), key=LEVELS.index, default="")
