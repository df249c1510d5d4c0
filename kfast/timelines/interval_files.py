"""Read intervals of logs: `kfast.read_intervals`.

Text logs are read as `kfast.replay` reads them, and metadata logs as `kfast.read` does.

Source: docs/timeline.md, section "Calibration".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kfast import arguments
from kfast.errors import InputError
from kfast.io import open_metadata
from kfast.io.metadata.log import MetadataLog
from kfast.log_replay.log_files import read_logs
from kfast.log_replay.steps import Progress, Steps
from kfast.log_replay.wording.kraft_logs import read_kraft_statement
from kfast.log_replay.wording.statements import understand
from kfast.timelines.intervals import Interval, interval_table
from kfast.timelines.kraft_intervals import MetadataTimes, kraft_intervals, metadata_times
from kfast.timelines.settings import Settings
from kfast.timelines.zk_intervals import zookeeper_intervals

__all__ = ["read_intervals"]

def read_intervals(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, voters: int | None = None,
    progress: Progress | None = None,
) -> pa.Table:
    """Read the intervals that logs show, to fit parameters of the time model on them.

    Parameters
    ----------
    path : path, or sequence of paths
        Folders with `controller.log` and `state-change.log` files of one or several nodes, or such
        files; and perhaps a metadata log, `__cluster_metadata-0`. What KRaft brokers log is joined
        to the records of the metadata log.
    voters : int, optional
        Controllers of a KRaft quorum; by default as many as registered in the metadata log, or 3.
    progress : callable, optional
        Gets the steps that are done, and how many there are.

    Returns
    -------
    pa.Table
        `schema.TIMELINE_INTERVALS`.

    Raises
    ------
    InputError
        There is nothing to read, or it shows no interval.

    Notes
    -----
    Source: docs/timeline.md, section "Calibration".
    """
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if voters is not None:
        arguments.whole("voters", voters, 1, 2**31 - 1)
    paths = list(map(Path, given))
    logs_of = {one: _metadata(one) for one in paths}
    times = [metadata_times(log.records(), log.name) for log in logs_of.values() if log]
    intervals = [row for one in times for row in one.intervals]
    texts = [one for one, log in logs_of.items() if log is None]
    if texts:
        intervals += _of_texts(texts, times, voters, progress)
    if not intervals:
        raise InputError(
            f"{', '.join(map(str, paths))}: no failure or operation whose length can be measured "
            "is in these logs; needed are lines of Kafka from 2.6 on, or those of a KRaft "
            "controller at DEBUG"
        )
    return interval_table(intervals)


def _of_texts(
    paths: Sequence[Path], times: Sequence[MetadataTimes], voters: int | None,
    progress: Progress | None,
) -> list[Interval]:
    """Intervals of text logs."""
    logs = read_logs(paths[0] if len(paths) == 1 else paths)
    registered = max((one.voters for one in times), default=0)
    n_voters = voters or registered or Settings().quorum_voters
    changes = {key: change for one in times for key, change in one.changes.items()}
    found = [line for entry in logs.entries if (line := read_kraft_statement(entry))]
    intervals = list(kraft_intervals(logs, found, changes, n_voters))
    n_entries = len(logs.entries)
    once = None if progress is None else lambda done, _: progress(done, n_entries)
    statements, _ = understand(logs, Steps(once, n_entries))
    return [*intervals, *zookeeper_intervals(logs, statements)]


def _metadata(path: Path) -> MetadataLog | None:
    """The metadata log that a path is, or has; None of text logs."""
    try:
        return open_metadata(path)
    except InputError:
        return None
