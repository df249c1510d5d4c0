"""How long a rolling restart lasts, batch after batch: `kfast.timeline_restart`.

The engine runs every batch on the cluster that the one before it leaves: its brokers shut down in
order, return, and catch up. One draw of the parameters holds for the whole plan.

Source: docs/timeline.md, section "Rolling restarts".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.restart_plan import RestartPlan, restart_plan
from kfast.analysis.whatif import check_brokers
from kfast.arguments import check_instance
from kfast.capacity import CapacityPlan, Restoration
from kfast.controllers import CommonEvents, open_events
from kfast.errors import ArgumentError
from kfast.schema import (
    RESTART_SUMS,
    RESTART_TIMES,
    TIMELINE_RESTART,
    TIMELINE_RESTART_SUMMARY,
)
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.timelines.catch_up import CatchUp, catch_up
from kfast.timelines.detection import MOST_PATTERNS
from kfast.timelines.failover import MILLION, Answered, percentiles, rows_table
from kfast.timelines.parameters import Parameters, parse_time
from kfast.timelines.question import Question
from kfast.timelines.settings import Settings
from kfast.timelines.shutdown import timed_shutdown
from kfast.timelines.shutdown_recording import Shutdown, record_shutdown
from kfast.timelines.shutdown_times import ShutdownTimes

__all__ = ["BatchTimes", "RestartTimeline", "timeline_restart"]

Ints = npt.NDArray[np.int64]
Batches = Sequence[Sequence[int]]

STAGES = {
    "shutdown": ("starts_us", "released_us"), "stop": ("released_us", "stopped_us"),
    "boot": ("stopped_us", "booted_us"), "recover": ("booted_us", "recovered_us"),
    "catch-up": ("recovered_us", "caught_up_us"), "ISR": ("caught_up_us", "in_sync_us"),
    "settle": ("in_sync_us", "ends_us"),
}
"""Of each stage of a batch the instants between which it lies."""


@dataclass(frozen=True, eq=False)
class BatchTimes:
    """One batch of a rolling restart.

    Attributes
    ----------
    broker_ids : tuple of int
    takes_over : bool
        ZooKeeper mode: the controller is one of them, so that another takes over.
    values : dict of str to (S,) int64
        `schema.RESTART_TIMES`, after the begin of the plan, and `schema.RESTART_SUMS` in
        partition-microseconds.
    moved_partitions, offline_partitions, under_min_partitions : int
        Whose leader moves; that have none until their brokers return; that refuse acks=all.
    restore_bytes : int or None
        What the brokers lack when they return, in the central sample; None without loads.
    """

    broker_ids: tuple[int, ...]
    takes_over: bool
    values: dict[str, Ints]
    moved_partitions: int
    offline_partitions: int
    under_min_partitions: int
    restore_bytes: int | None

    @property
    def binding(self) -> str:
        """The stage that lasts longest, in the central sample."""
        values = self.values
        return max(STAGES, key=lambda name: int(
            values[STAGES[name][1]][0] - values[STAGES[name][0]][0]
        ))


@dataclass(frozen=True, eq=False)
class RestartTimeline(Answered):
    """When the steps of a rolling restart happen.

    Attributes
    ----------
    state : ClusterState
        The cluster before.
    question : Question
    settle_us : int
        Between a batch that is in sync and the next one.
    plan : list of BatchTimes
    notes : list of str
        What was assumed of the controller and of loads.
    """

    state: ClusterState
    question: Question
    settle_us: int
    plan: list[BatchTimes]
    notes: list[str]

    @cached_property
    def batches(self) -> pa.Table:
        """A row of each batch, in order (`schema.TIMELINE_RESTART`)."""
        return rows_table(TIMELINE_RESTART, [
            {
                "batch": number, "brokers": list(batch.broker_ids),
                "controller": batch.takes_over,
                **{name: getattr(batch, name) for name in (
                    "moved_partitions", "offline_partitions", "under_min_partitions",
                    "restore_bytes", "binding",
                )},
                **_ranges(batch.values, RESTART_TIMES, RESTART_SUMS),
            }
            for number, batch in enumerate(self.plan, 1)
        ])

    @cached_property
    def summary(self) -> pa.Table:
        """The whole plan, one row (`schema.TIMELINE_RESTART_SUMMARY`)."""
        sums = {name: sum((batch.values[name] for batch in self.plan), self._none)
                for name in RESTART_SUMS}
        values = {"duration_us": self.plan[-1].values["ends_us"], **sums}
        row = {
            "batches": len(self.plan),
            "brokers": sum(len(batch.broker_ids) for batch in self.plan),
            "refusing_batches": sum(batch.under_min_partitions > 0 for batch in self.plan),
            **{name: sum(getattr(batch, name) for batch in self.plan)
               for name in ("moved_partitions", "offline_partitions", "under_min_partitions")},
            **_ranges(values, ("duration_us",), RESTART_SUMS),
        }
        return rows_table(TIMELINE_RESTART_SUMMARY, [row])

    @property
    def _none(self) -> Ints:
        return np.zeros(self.question.samples + 1, np.int64)

    @property
    def assumptions(self) -> list[str]:
        """Defaults that were used, and what was assumed."""
        return [*self.question.assumptions, *self.notes]

    def _summary(self) -> Summary:
        row = self.summary.to_pylist()[0]
        return "RestartTimeline", {
            "controller": self.state.controller,
            "duration_us": "{duration_us} [{duration_us_low}, {duration_us_high}]".format(**row),
            **{name: row[name] for name in (
                "batches", "brokers", "moved_partitions", "offline_partitions",
                "under_min_partitions",
            )},
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def timeline_restart(
    state: ClusterState,
    plan: RestartPlan | Iterable[Iterable[int]] | None = None,
    *,
    settle: str = "0s",
    capacity: CapacityPlan | None = None,
    restore: Restoration | None = None,
    params: Parameters | Mapping[str, str] | None = None,
    settings: Settings | Mapping[str, int] | None = None,
    profile: str = "default",
    samples: int = 200,
    seed: int = 0,
) -> RestartTimeline:
    """When the steps of a rolling restart happen, batch after batch.

    The brokers of a batch ask for their controlled shutdown together; the next batch begins when
    all are back in every ISR.

    Parameters
    ----------
    state : ClusterState
        Not changed. Its controller decides.
    plan : RestartPlan, or iterable of iterable of int, optional
        Batches: what `kfast.restart_plan` gives of this cluster, in which the batch with the
        controller is moved to the end, or ids of brokers, whose order is kept. By default the
        plan of `kfast.restart_plan(state)`.
    settle : str
        Time after which a batch that is in sync is followed by the next one: "2min".
    capacity : CapacityPlan, optional
        What `kfast.prepare_capacity` gives of this cluster: what brokers that were down lack
        follows from its loads. By default they lack nothing.
    restore : Restoration, optional
        Throttles and fetchers with which that is copied; the mode is return.
    params, settings, profile, samples, seed
        As of `kfast.timeline`.

    Raises
    ------
    ArgumentError
        A batch is empty, names a broker that is unknown, down or in another batch, or all that are
        up; the plan or the capacities are of another cluster; a broker never catches up; or an
        argument has another value.
    """
    check_instance("state", state, ClusterState)
    question = Question.of(state, params, settings, profile, samples, seed, "1h", "process")
    batches, notes = _batches(state, plan)
    settle_us = parse_time("settle", settle)
    lacking = catch_up(state, batches, capacity, restore, question)
    notes.append(
        "loads are not given: brokers that were down lack nothing" if capacity is None else
        "what brokers lack grows with the time in which they are down, and is copied at the rate "
        "that is free beside the loads"
    )
    values = question.draw(0, MOST_PATTERNS).values
    _check_sums(state, len(batches), settle_us, question)
    common = open_events(state.copy(), journal="counts")
    common.start()
    begin, done = np.zeros(question.samples + 1, np.int64), list[BatchTimes]()
    for number, ids in enumerate(batches):
        takes_over = not state.is_kraft and state.controller_id in ids
        shutdown = record_shutdown(
            common, state.find_brokers(list(ids)).tolist(),
            attempts=question.settings.shutdown_retries, takes_over=takes_over,
        )
        _, times, _ = timed_shutdown(shutdown, question, values, scenario=number)
        batch = _timed_batch(
            shutdown, times, values, begin, settle_us,
            None if lacking is None else lacking[number],
        )
        done.append(batch)
        begin = batch.values["ends_us"]
        _return(common, ids)
    return RestartTimeline(state, question, settle_us, done, notes)


def _return(common: CommonEvents, ids: Sequence[int]) -> None:
    """Let the brokers of a batch return and catch up."""
    common.brokers_returned(ids)
    common.caught_up(ids)


def _batches(
    state: ClusterState, plan: RestartPlan | Iterable[Iterable[int]] | None
) -> tuple[list[tuple[int, ...]], list[str]]:
    """Ids of each batch, ascending, and what was assumed of the controller."""
    batches: list[tuple[int, ...]]
    ordered = plan is None or isinstance(plan, RestartPlan)
    if plan is None:
        plan = restart_plan(state)
    if isinstance(plan, RestartPlan):
        if plan.state is not state:
            raise ArgumentError("the plan is of another cluster: make it of this one")
        batches = [tuple(sorted(ids)) for ids in plan.batches["brokers"].to_pylist()]
    else:
        batches = [check_brokers(state, ids) for ids in plan]
    _check_batches(state, batches)
    if state.is_kraft:
        return batches, ["KRaft: controllers are nodes of their own, and restart apart from this"]
    if state.controller_id < 0:
        return batches, ["which broker is the controller is not known: no failover is added"]
    if ordered:
        batches.sort(key=lambda ids: state.controller_id in ids)
        return batches, [f"the batch of the controller, broker {state.controller_id}, is the last"]
    return batches, [(
        f"the controller is broker {state.controller_id}; who takes over is not known, so that "
        "further failovers are not added"
    )]


def _check_batches(state: ClusterState, batches: list[tuple[int, ...]]) -> None:
    seen = set[int]()
    if not batches:
        raise ArgumentError("the plan has no batch: nobody restarts")
    for number, ids in enumerate(batches, 1):
        again = seen.intersection(ids)
        if not ids or again:
            what = f"broker {min(again)} restarts in an earlier one too" if again else "it is empty"
            raise ArgumentError(f"batch {number}: {what}")
        if len(ids) >= int(state.up.sum()):
            raise ArgumentError(
                f"batch {number}: every broker that is up restarts: nobody is left to lead"
            )
        seen.update(ids)


def _check_sums(state: ClusterState, n_batches: int, settle_us: int, question: Question) -> None:
    """Refuse plans in which partition-time could overflow."""
    longest = settle_us + sum(question.params[name].high for name in (
        "stop", "boot", "recover", "isr_join"
    ))
    if state.n_partitions * n_batches * longest >= 2**62:
        raise ArgumentError(
            f"{state.n_partitions} partitions times {n_batches} batches of up to {longest} us is "
            "2^62 or more: give shorter times"
        )


def _timed_batch(
    shutdown: Shutdown, times: ShutdownTimes, values: Mapping[str, Ints], begin: Ints,
    settle_us: int, lacking: CatchUp | None,
) -> BatchTimes:
    """Times of one batch: who is slowest counts in each stage, in every sample."""
    recording = shutdown.recording
    booted = times.stopped + values["boot"][:, None]
    recovered = booted + values["recover"][:, None]
    down = (recovered - times.released).max(axis=1)
    caught = recovered.max(axis=1) + (0 if lacking is None else lacking.after(down))
    # A new ISR needs a controller: in ZooKeeper mode one may have to take over first.
    failover = [stage.end for stage in times.times.stages
                if stage.event == recording.takeover]
    in_sync = np.maximum.reduce([caught, *failover]) + values["isr_join"]
    under_min = recording.under_min_partitions
    # Brokers that host nothing make the controller send nothing.
    shrunk = times.times.published[0] if times.times.published else times.starts[:, 0]
    ends = {
        "starts_us": np.zeros_like(begin), "released_us": times.released.max(axis=1),
        "stopped_us": times.stopped.max(axis=1), "booted_us": booted.max(axis=1),
        "recovered_us": recovered.max(axis=1), "caught_up_us": caught, "in_sync_us": in_sync,
        "ends_us": in_sync + settle_us,
    }
    lost, offline = int(recording.lost.sum()), recording.offline_partitions
    return BatchTimes(
        tuple(recording.state.broker_id[list(shutdown.brokers)].tolist()),
        bool(failover), {
            **{name: begin + end for name, end in ends.items()},
            "leaderless_partition_s": times.leaderless,
            "offline_partition_s": _offline(shutdown, times, recovered),
            "under_min_partition_s": under_min * (in_sync - shrunk),
        }, lost - offline, offline, under_min,
        None if lacking is None else lacking.bytes_after(int(down[0])),
    )


def _offline(shutdown: Shutdown, times: ShutdownTimes, recovered: Ints) -> Ints:
    """(S,) time without a leader of the partitions that have none until their brokers return."""
    recording = shutdown.recording
    leader = recording.first["leader"][recording.lost]
    offline = recording.final_leader[recording.lost] < 0
    counts = np.bincount(leader[offline], minlength=recording.dead.size)[list(shutdown.brokers)]
    waited: Ints = (recovered * counts).sum(axis=1) - times.offline_gone
    return waited


def _ranges(
    values: Mapping[str, Ints], instants: Iterable[str], sums: Iterable[str]
) -> dict[str, Any]:
    """Columns of some measures with their ranges; sums in whole seconds."""
    row: dict[str, Any] = {}
    for names, unit in ((instants, 1), (sums, MILLION)):
        for name in names:
            numbers = [(one + unit // 2) // unit for one in percentiles(values[name])]
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))
    return row
