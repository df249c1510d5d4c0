"""How long a failure lasts: `kfast.timeline`.

Source: docs/timeline.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.whatif import check_brokers
from kfast.arguments import check_instance
from kfast.capacity import PartitionLoad
from kfast.errors import ArgumentError
from kfast.figures.timelines import leaderless_figure
from kfast.schema import (
    REFUSED_BYTES,
    TIMELINE_LEADERLESS,
    TIMELINE_PARTITIONS,
    TIMELINE_SENSITIVITY,
    TIMELINE_STAGES,
    TIMELINE_SUMMARY,
    TIMES,
    TIMES_IN_SECONDS,
    ResultTable,
)
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows
from kfast.timelines.detection import (
    FEWEST_PATTERNS,
    MANY_ROWS,
    MOST_PATTERNS,
    Draws,
    activation,
    schedules,
)
from kfast.timelines.event_times import counts_of, times_of
from kfast.timelines.leaderless import leaderless_table
from kfast.timelines.parameters import Parameters
from kfast.timelines.partition_times import partition_table
from kfast.timelines.progressions import FAR
from kfast.timelines.question import LOSSES, Question
from kfast.timelines.recording import Concerned, FailureRecorder
from kfast.timelines.sensitivity import CentralSample, levers
from kfast.timelines.settings import Settings
from kfast.timelines.shutdown import shutdown_part
from kfast.timelines.stages import Times
from kfast.timelines.summaries import Measures, Part, known_from, longest_wait, measure, no_failure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "LOSSES", "NOT_MODELLED", "Answered", "FailureTimeline", "Question", "timeline",
]

Ints = npt.NDArray[np.int64]

SampledTimes = tuple[Ints, Times]

MILLION = 1_000_000

NOT_MODELLED = (
    "not modelled: pauses of the JVM, bursts of reconnects and of full fetch sessions, queues of "
    "loaded brokers, network partitions, false detection, loading of group coordinators and "
    "transactions, log recovery, quotas, other events in the controller's queue, tiered storage, "
    "ZooKeeper's own leader election"
)


class Answered:
    """What all answers to a question have: its parameters, and what it assumes."""

    question: Question

    @property
    def parameters(self) -> pa.Table:
        """Every parameter with its range and source."""
        return self.question.params.table

    @property
    def assumptions(self) -> list[str]:
        """Defaults that were used."""
        return self.question.assumptions


@dataclass(frozen=True, eq=False)
class FailureTimeline(Answered):
    """When the steps of one failure happen.

    Attributes
    ----------
    state : ClusterState
        The cluster before.
    broker_ids : tuple of int
    controller_fails : bool
    question : Question
    measures : Measures
        Every measure, in every sample; the first is the central one.
    central : Part or None
        Events and times of the samples that have the order of events of the central one; None
        where no broker fails.
    times : tuple of ((n,) int64, Times)
        Some samples, and when what happens in them: the central one's first, then all others'.
    gone : (lost partitions,) int64, optional
        Of a controlled shutdown: when each old leader ceases to lead, in the central sample.
    """

    state: ClusterState
    broker_ids: tuple[int, ...]
    controller_fails: bool
    question: Question
    measures: Measures
    central: Part | None = None
    times: tuple[SampledTimes, ...] = ()
    gone: Ints | None = None

    @property
    def controlled(self) -> bool:
        """Whether the brokers shut down in order."""
        return self.gone is not None

    @property
    def summary(self) -> pa.Table:
        """Table of one row (`schema.TIMELINE_SUMMARY`)."""
        return rows_table(TIMELINE_SUMMARY, [summary_row(0, self.broker_ids, self.measures)])

    @cached_property
    def stages(self) -> pa.Table:
        """Every stage of the central sample (`schema.TIMELINE_STAGES`).

        Ranges are of the samples that have that stage too.
        """
        if self.central is None:
            return TIMELINE_STAGES.schema.empty_table()
        return stage_table(self.state.broker_id, [times for _, times in self.times])

    @cached_property
    def partitions(self) -> pa.Table:
        """Every partition that loses its leader (`schema.TIMELINE_PARTITIONS`), the worst first.

        Times are those of the central sample.
        """
        if self.central is None:
            return TIMELINE_PARTITIONS.schema.empty_table()
        schedule, recording, times, _ = self.central
        load = self.question.load
        return partition_table(
            schedule, recording, times,
            known_from(self.question.settings, self.question.loss), self.gone,
            None if load is None else load.bytes_in,
            FAR if self.controlled else self.question.horizon,
        )

    @cached_property
    def leaderless(self) -> pa.Table:
        """Partitions without a leader over time (`schema.TIMELINE_LEADERLESS`).

        Of a failure; it has no rows for a controlled shutdown.
        """
        if self.central is None or self.controlled:
            return TIMELINE_LEADERLESS.schema.empty_table()
        led = [(samples, times.led) for samples, times in self.times]
        return leaderless_table(led, self.measures.lost_partitions)

    def plot(self) -> Figure:
        """Draw partitions without a leader over time as a figure of plotly."""
        return leaderless_figure(self.leaderless)

    @cached_property
    def sensitivity(self) -> pa.Table:
        """What `led_max_us` depends on (`schema.TIMELINE_SENSITIVITY`), in the central sample.

        Of a failure; it has no rows for a controlled shutdown.
        """
        if self.central is None or self.controlled:
            return TIMELINE_SENSITIVITY.schema.empty_table()
        sample = CentralSample(
            FailureRecorder(self.state), self.broker_ids,
            controller_place(self.state, self.broker_ids, self.controller_fails),
            self.question.params, self.question.settings,
            draws_of(self.state, self.broker_ids, self.question),
        )
        return rows_table(TIMELINE_SENSITIVITY, levers(sample))

    @cached_property
    def waits(self) -> dict[str, int]:
        """How long the partition that is led last waits for what: `schema.WAITS`, microseconds.

        In the central sample; empty where none is led again.
        """
        found = None if self.central is None else longest_wait(self.central[0], self.central[2])
        return {} if found is None else found[0]

    def _summary(self) -> Summary:
        row = self.summary.to_pylist()[0]
        return "Timeline", {
            "broker_ids": ",".join(map(str, self.broker_ids)) or None,
            "controller": self.state.controller,
            **{name: f"{row[name]} [{row[f'{name}_low']}, {row[f'{name}_high']}]"
               for name in ("detect_us", "led_p50_us", "led_max_us")},
            "partitions that lose their leader": row["lost_partitions"],
            "offline_partitions": row["offline_partitions"],
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def timeline(
    state: ClusterState,
    broker_ids: Iterable[int] = (),
    *,
    controller_fails: bool = False,
    controlled: bool = False,
    params: Parameters | Mapping[str, str] | None = None,
    settings: Settings | Mapping[str, int] | None = None,
    profile: str = "default",
    samples: int = 200,
    seed: int = 0,
    horizon: str = "1h",
    loss: str = "process",
    load: PartitionLoad | None = None,
) -> FailureTimeline:
    """When the steps of a failure happen, and how long partitions have no leader.

    Parameters
    ----------
    state : ClusterState
        Not changed. Its controller decides.
    broker_ids : iterable of int
        Brokers that are up and fail at one instant.
    controller_fails : bool
        The active controller fails too: in ZooKeeper mode one of these brokers (the cluster's
        `controller_id`, or the only one that is given), in KRaft a node of its own.
    controlled : bool
        They do not fail: they ask for their controlled shutdown at one instant, and stop.
    params : Parameters, or mapping of str to str, optional
        Parameters in place of the defaults: {"epoch_sync": "800us"}; see `read_params`.
    settings : mapping of str to int, optional
        Settings of Kafka by their names, in milliseconds: {"broker.session.timeout.ms": 6000}.
    profile : str
        A named set of parameters, one of `PROFILES`.
    samples : int
        Draws of parameters and phases, from which ranges are made.
    seed : int
    horizon : str
        Until when time without a leader counts.
    loss : {"process", "host"}
        Whether clients learn of the failure at once, or by their timeouts.
    load : PartitionLoad, optional
        What `kfast.partition_load` gives of this cluster: bytes that are refused follow from it.

    Raises
    ------
    ArgumentError
        A broker is unknown or down; nobody fails, or nobody is left; a parameter or setting is
        unknown or outside its range; `controlled` goes without a broker, or with a loss of hosts;
        the load is of another cluster, or sums of its bytes could overflow.
    """
    check_instance("state", state, ClusterState)
    question = Question.of(state, params, settings, profile, samples, seed, horizon, loss, load)
    ids = check_brokers(state, broker_ids)
    if controlled:
        return _controlled(state, ids, question, controller_fails=controller_fails)
    controller = controller_place(state, ids, controller_fails)
    if controller is not None and not state.is_kraft and not ids:
        ids, controller = (state.controller_id,), 0
    if not ids:
        if not controller_fails:
            raise ArgumentError("broker_ids is empty, and controller_fails is not set: who fails?")
        draws = question.draw(0, MOST_PATTERNS)
        measures = no_failure(activation(question.settings, draws))
        return FailureTimeline(state, (), True, question, measures)
    if len(ids) >= int(state.up.sum()):
        raise ArgumentError("every broker that is up fails: nobody is left to lead")
    draws = draws_of(state, ids, question)
    parts = failure_parts(FailureRecorder(state), ids, controller, question, draws)
    return FailureTimeline(
        state, ids, controller is not None, question, measure(parts, question), parts[0],
        tuple((schedule.samples, times) for schedule, _, times, _ in parts),
    )


def _controlled(
    state: ClusterState, ids: tuple[int, ...], question: Question, *, controller_fails: bool
) -> FailureTimeline:
    """The timeline of a controlled shutdown."""
    controller = controller_place(state, ids, controller_fails)
    if state.is_kraft and controller_fails:
        raise ArgumentError(
            "controller_fails goes without controlled: a KRaft controller leads no partition of "
            "topics, and is no broker that shuts down"
        )
    if controller is not None and not ids:
        ids = (state.controller_id,)
    if not ids:
        raise ArgumentError("broker_ids is empty: who shuts down?")
    if question.loss != "process":
        raise ArgumentError("loss is of brokers that fail; controlled goes with process")
    if len(ids) >= int(state.up.sum()):
        raise ArgumentError("every broker that is up shuts down: nobody is left to lead")
    part, times, measures = shutdown_part(
        state, ids, question, takes_over=controller is not None
    )
    return FailureTimeline(
        state, ids, controller is not None, question, measures, part,
        ((part[0].samples, part[2]),), times.gone,
    )


def controller_place(
    state: ClusterState, ids: tuple[int, ...], controller_fails: bool
) -> int | None:
    """Place among the brokers that fail of the controller; None where it does not."""
    if not controller_fails:
        return None
    if state.is_kraft or (not ids and state.controller_id >= 0):
        return 0
    if state.controller_id in ids:
        return ids.index(state.controller_id)
    if len(ids) == 1 and state.controller_id < 0:
        return 0
    known = "" if state.controller_id < 0 else f"; the controller is broker {state.controller_id}"
    raise ArgumentError(
        f"controller_fails is set, and which of brokers {', '.join(map(str, ids)) or 'none'} is "
        f"the controller is not known{known}: give that one alone"
    )


def draws_of(state: ClusterState, ids: tuple[int, ...], question: Question) -> Draws:
    """What is drawn for one failure: the same for every failure of so many brokers.

    So failures of one sweep differ by what fails alone (common random numbers).
    """
    many = state.rows_tracking(state.find_brokers(list(ids))).size > MANY_ROWS
    return question.draw(len(ids), FEWEST_PATTERNS if many else MOST_PATTERNS)


def failure_parts(
    recorder: FailureRecorder, ids: tuple[int, ...], controller: int | None, question: Question,
    draws: Draws,
) -> list[Part]:
    """Record one failure and time it, for every order of events that is drawn.

    The first part has the central sample as its first.
    """
    started = recorder.started
    rows = started.find_brokers(list(ids)).tolist()
    concerned, parts = Concerned.of(started, rows), list[Part]()
    for schedule in schedules(started, question.settings, draws, controller=controller):
        groups = [[rows[place] for place in group] for group in schedule.groups]
        recording = recorder.record(
            concerned, groups, takes_over=controller is not None and not started.is_kraft
        )
        values = {name: drawn[schedule.samples] for name, drawn in draws.values.items()}
        times = times_of(
            recording, counts_of(recording), schedule.starts, values, question.settings
        )
        parts.append((schedule, recording, times, values))
    return parts


def percentiles(values: Ints) -> tuple[int, int, int]:
    """The central value, then the 5th and the 95th percentile of the other samples.

    The range holds the central value: where a parameter's is beside its own range's middle, it may
    lie beyond a percentile.
    """
    central, drawn = int(values[0]), np.sort(values[1:])
    low, high = 5 * (drawn.size - 1) // 100, -(-95 * (drawn.size - 1) // 100)
    return central, min(central, int(drawn[low])), max(central, int(drawn[high]))


def summary_row(scenario: int, ids: Iterable[int], measures: Measures) -> dict[str, Any]:
    """Row of one failure (`schema.TIMELINE_SUMMARY`)."""
    row: dict[str, Any] = {"scenario": scenario, "brokers": list(ids)}
    for name in (*TIMES, *TIMES_IN_SECONDS, *REFUSED_BYTES):
        values = measures.values.get(name)
        low_high: tuple[int | None, ...] = (None,) * 3
        if values is not None:
            low_high = percentiles(values)
            if name in TIMES_IN_SECONDS:
                low_high = tuple((one + MILLION // 2) // MILLION for one in low_high)
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), low_high, strict=True))
    for name in ("lost_partitions", "offline_partitions", "under_min_partitions", "binding",
                 "slowest_broker"):
        row[name] = getattr(measures, name)
    return row


def rows_table(result: ResultTable, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Table of some rows, each with every column."""
    return result.table({
        field.name: pa.array([row[field.name] for row in rows], field.type)
        for field in result.schema
    })


def stage_table(ids: Rows, parts: Sequence[Times]) -> pa.Table:
    """Every stage of the central sample; the first part has that as its first.

    Ranges are of the samples that have that stage too.
    """
    rows = list[dict[str, Any]]()
    central, *elsewhere = (_by_key(times) for times in parts)
    for key, (begin, end, items, waits_for) in central.items():
        others = [each[key] for each in elsewhere if key in each]
        begins = np.concatenate([begin, *(other[0] for other in others)])
        ends = np.concatenate([end, *(other[1] for other in others)])
        row: dict[str, Any] = {
            "scenario": 0, "event": key[0], "stage": key[1],
            "broker_id": None if key[2] is None else int(ids[key[2]]), "items": items,
            "waits_for": waits_for,
        }
        for name, values in (("begin_us", begins), ("end_us", ends)):
            numbers = percentiles(values) if values.size > 1 else (int(values[0]),) * 3
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), numbers, strict=True))
        rows.append(row)
    return rows_table(TIMELINE_STAGES, rows)


def _by_key(times: Times) -> dict[tuple[int, str, int | None], tuple[Ints, Ints, int, str]]:
    """Begin, end, items and what they wait for of all stages: by event, name and broker row."""
    controller = {
        (one.event, one.name, None): (one.begin, one.end, one.items, one.waits_for)
        for one in times.stages
    }
    brokers = {
        (one.event, one.name, row): (
            one.begin[:, row], one.end[:, row], int(one.items[row]), "disk"
        )
        for one in times.broker_stages for row in one.brokers.tolist()
    }
    return controller | brokers
