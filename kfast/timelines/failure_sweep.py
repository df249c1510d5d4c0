"""How long many failures last, each by itself: `kfast.timeline_sweep`.

Every failure gives the bits that `kfast.timeline` gives of it alone; the copies on which the
controller runs share memory, and failures of as many brokers share their draws.

Source: docs/timeline.md, section "Sweeps".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import check_instance, check_threads
from kfast.capacity import PartitionLoad
from kfast.errors import ArgumentError
from kfast.schema import TIMELINE_SWEEP
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_run import check_same_brokers
from kfast.timelines.detection import FEWEST_PATTERNS, MANY_ROWS, MOST_PATTERNS, Draws
from kfast.timelines.failover import (
    Answered,
    Question,
    failure_parts,
    rows_table,
    summary_row,
)
from kfast.timelines.parameters import Parameters
from kfast.timelines.recording import FailureRecorder
from kfast.timelines.settings import Settings
from kfast.timelines.summaries import Measures, measure

__all__ = ["WORST_BY", "TimelineSweep", "check_failures", "timed_rows", "timeline_sweep"]

Row = Mapping[str, Any]
Run = tuple[int, list[int]]
Progress = Callable[[int, int], None]

WORST_BY = ("led_max_us", "leaderless_partition_s", "offline_partitions")
"""What a failure can be the worst by."""


@dataclass(frozen=True, eq=False)
class TimelineSweep(Answered):
    """When the steps of many failures happen, each by itself.

    Attributes
    ----------
    state : ClusterState
        The cluster before.
    scenarios : Scenarios
    question : Question
    summary : pa.Table
        A row for each failure (`schema.TIMELINE_SWEEP`); the baseline has none.
    """

    state: ClusterState
    scenarios: Scenarios
    question: Question
    summary: pa.Table

    def worst(self, by: str = "led_max_us", top: int = 1) -> pa.Table:
        """Rows of the failures that have the most of one measure, the worst first.

        Parameters
        ----------
        by : str
            A column of numbers, such as those of `WORST_BY`. Failures in which it does not occur
            are left out; among equals the one with the lower number comes first.
        top : int
            How many rows, at most.
        """
        if by not in self.summary.column_names or not pa.types.is_integer(
            self.summary.schema.field(by).type
        ):
            raise ArgumentError(f"by is {by!r}; right is a column of numbers, such as {WORST_BY}")
        rows = self.summary.filter(pc.is_valid(self.summary[by]))
        return rows.sort_by([(by, "descending"), ("scenario", "ascending")]).slice(0, top)

    def _summary(self) -> Summary:
        worst = {f"worst by {by}": (rows[0]["scenario"], rows[0][by])
                 for by in WORST_BY if (rows := self.worst(by).to_pylist())}
        return "Timelines", {
            "controller": self.state.controller, "failures": self.summary.num_rows,
            **{name: f"{value} (scenario {number})" for name, (number, value) in worst.items()},
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def timeline_sweep(
    state: ClusterState,
    scenarios: Scenarios,
    *,
    params: Parameters | Mapping[str, str] | None = None,
    settings: Settings | Mapping[str, int] | None = None,
    profile: str = "default",
    samples: int = 200,
    seed: int = 0,
    horizon: str = "1h",
    loss: str = "process",
    load: PartitionLoad | None = None,
    threads: int = 1,
    progress: Progress | None = None,
) -> TimelineSweep:
    """When the steps of many failures happen, each by itself on the cluster as it is.

    Parameters
    ----------
    state : ClusterState
        Not changed. Its controller decides.
    scenarios : Scenarios
        Made for this cluster: `every_broker(state)`, `every_rack(state)` and others. A slice gives
        the rows of its numbers.
    params, settings, profile, samples, seed, horizon, loss, load
        As of `kfast.timeline`; every row has the bits that it gives for that failure alone.
    threads : int
        Threads to use; results do not depend on it.
    progress : callable, optional
        Is given the failures that are done, and all.

    Raises
    ------
    ArgumentError
        An argument has another value; scenarios are of another cluster; in one of them a broker
        fails that is down, or nobody is left.
    """
    check_instance("state", state, ClusterState)
    check_same_brokers(state, scenarios)
    threads = check_threads(threads)
    question = Question.of(state, params, settings, profile, samples, seed, horizon, loss, load)
    check_failures(state, scenarios.failures)
    summary, n_failures = list[Row](), len(scenarios.failures)
    for row in timed_rows(state, scenarios.failures, question, threads):
        summary.append(row)
        if progress is not None:
            progress(len(summary), n_failures)
    return TimelineSweep(state, scenarios, question, rows_table(TIMELINE_SWEEP, summary))


def timed_rows(
    state: ClusterState, failures: Scenarios, question: Question, threads: int = 1
) -> Iterator[Row]:
    """Rows of some failures (`schema.TIMELINE_SWEEP`), in the order of their numbers.

    Parameters
    ----------
    state : ClusterState
    failures : Scenarios
        Without the baseline; checked by `check_failures`.
    question : Question
    threads : int
    """
    recorder = FailureRecorder(state)
    recorder.started.index_hosting()
    draws: dict[tuple[int, int], Draws] = {}

    def measured(failure: Run) -> Row:
        number, rows = failure
        many = recorder.started.rows_tracking(np.asarray(rows, np.int32)).size > MANY_ROWS
        key = len(rows), FEWEST_PATTERNS if many else MOST_PATTERNS
        if key not in draws:
            draws[key] = question.draw(*key)
        return _measured(recorder, number, rows, question, draws[key])

    with _mapped(measured, list(_failures(failures)), threads) as rows_of_failures:
        yield from rows_of_failures


def _failures(scenarios: Scenarios) -> Iterator[Run]:
    """Number and broker rows of every failure."""
    for number in range(scenarios.start, scenarios.stop):
        yield number, np.sort(scenarios.down(number, number + 1)[1]).tolist()


def check_failures(state: ClusterState, scenarios: Scenarios) -> None:
    """Refuse what cannot be, before anything is timed.

    Raises
    ------
    ArgumentError
        In one of these a broker fails that is down, or nobody is left.
    """
    up, n_up = state.up, int(state.up.sum())
    for number, failing in _failures(scenarios):
        rows = np.asarray(failing, np.int64)
        if not up[rows].all():
            down = state.broker_id[rows[~up[rows]]].tolist()
            raise ArgumentError(
                f"scenario {number}: broker {', '.join(map(str, down))} is down already: it cannot "
                "fail"
            )
        if rows.size >= n_up:
            raise ArgumentError(
                f"scenario {number}: every broker that is up fails: nobody is left to lead"
            )


def _measured(
    recorder: FailureRecorder, number: int, rows: list[int], question: Question, draws: Draws
) -> Row:
    """Row of one failure."""
    ids = tuple(recorder.started.broker_id[rows].tolist())
    if not ids:
        return summary_row(number, ids, Measures({}))
    parts = failure_parts(recorder, ids, None, question, draws)
    return summary_row(number, ids, measure(parts, question))


@contextmanager
def _mapped(
    function: Callable[[Run], Row], runs: list[Run], threads: int
) -> Iterator[Iterator[Row]]:
    """Results of a function, in order."""
    if threads == 1:
        yield map(function, runs)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool.map(function, runs)
    finally:
        pool.shutdown(cancel_futures=True)
