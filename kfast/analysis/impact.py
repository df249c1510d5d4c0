"""What a failure does to a cluster: the census before, the census after, and what happened.

Source: docs/controller.md, sections 6.1 to 6.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import arguments
from kfast.controllers import DEFAULT_PROFILE, Controller, Profile
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.schema import IMPACT_BROKERS, IMPACT_PARTITIONS, IMPACT_REQUESTS, IMPACT_TOPICS
from kfast.state import ClusterState
from kfast.state.census import (
    CENSUS_METRICS,
    Census,
    Flags,
    partition_table,
    take_census,
    topic_table,
)
from kfast.state.display import Summary, summary_html, summary_text

__all__ = [
    "CHANGE_METRICS", "EventOutcome", "Failure", "FailureStep", "Impact", "fail_brokers", "impact",
]

CHANGE_METRICS: Mapping[str, str] = {
    "newly_offline": "partitions that are offline, and were not before",
    "newly_under_min_isr": "partitions that are under min ISR, and were not before",
    "back_online": "partitions that were offline before, and are not any more",
    "leaders_moved": "partitions with a leader before and after, and they differ",
    "unclean": "leaders that were chosen outside the ISR",
    "isr_shrunk": "partitions whose ISR lost a member",
    "requests": "requests that the controller sends",
    "leader_and_isr_requests": "LeaderAndIsr requests among them",
    "update_metadata_requests": "UpdateMetadata requests among them",
    "stop_replica_requests": "StopReplica requests among them",
}
"""What an impact counts besides, and what each count means."""

STEP_KINDS = ("fail", "start")
"""What a step of a what-if may be."""

_KINDS = {
    "LeaderAndIsr": "leader_and_isr_requests",
    "UpdateMetadata": "update_metadata_requests",
    "StopReplica": "stop_replica_requests",
}


@dataclass(frozen=True)
class Impact:
    """What changed between two censuses of one cluster.

    Attributes
    ----------
    before, after : Census
    outcomes : tuple of Outcome
        The events in between; requests are counted from them.
    """

    before: Census
    after: Census
    outcomes: tuple[Outcome, ...] = ()

    @property
    def leaders_moved(self) -> Flags:
        """(P,) whether each partition had a leader before and has another one after."""
        led = ~self.before.flags("offline") & ~self.after.flags("offline")
        led &= (self.before.leader >= 0) & (self.after.leader >= 0)
        moved: Flags = led & (self.before.leader != self.after.leader)
        return moved

    @property
    def isr_shrunk(self) -> Flags:
        """(P,) whether each partition's ISR lost a member."""
        before, after = self.before, self.after
        if np.array_equal(before.replicas, after.replicas):
            return np.asarray(before.isr & ~after.isr, np.bool_)
        # A reassignment moved slots, so members are compared by their brokers.
        lost = before.isr.astype(np.uint64)
        for slot in range(before.replicas.shape[1]):
            kept = np.zeros(lost.size, np.bool_)
            for other in range(after.replicas.shape[1]):
                in_sync = ((after.isr >> after.isr.dtype.type(other)) & 1) != 0
                kept |= in_sync & (before.replicas[:, slot] == after.replicas[:, other])
            lost[kept] &= ~(np.uint64(1) << np.uint64(slot))
        return np.asarray(lost, np.bool_)

    def newly(self, metric: str) -> Flags:
        """(P,) whether a metric holds for each partition after, and did not before."""
        return self.after.flags(metric) & ~self.before.flags(metric)

    @property
    def summary(self) -> dict[str, int]:
        """Every metric of `CENSUS_METRICS` (after) and of `CHANGE_METRICS`."""
        sent = self._sent()
        return {
            **self.after.counts,
            "newly_offline": int(self.newly("offline").sum()),
            "newly_under_min_isr": int(self.newly("under_min_isr").sum()),
            "back_online": int((self.before.flags("offline") & ~self.after.flags("offline")).sum()),
            "leaders_moved": int(self.leaders_moved.sum()),
            "unclean": self.after.unclean_elections - self.before.unclean_elections,
            "isr_shrunk": int(self.isr_shrunk.sum()),
            "requests": sum(sent.values()),
            **{metric: sent[kind] for kind, metric in _KINDS.items()},
        }

    def _sent(self) -> dict[str, int]:
        return {
            kind: sum(outcome.counts.requests.get(kind, 0) for outcome in self.outcomes)
            for kind in _KINDS
        }

    @property
    def requests(self) -> pa.Table:
        """Per kind: how many requests are sent, and the partitions in them, over all brokers."""
        sent = self._sent()
        named = [
            sum(outcome.counts.request_partitions.get(kind, 0) for outcome in self.outcomes)
            for kind in _KINDS
        ]
        return IMPACT_REQUESTS.table(
            {
                "kind": pa.array(list(_KINDS)),
                "requests": pa.array([sent[kind] for kind in _KINDS], pa.int64()),
                "partitions": pa.array(named, pa.int64()),
            }
        )

    @property
    def brokers(self) -> pa.Table:
        """Every broker: leaders and replicas in sync before and after, and requests sent to it."""
        before, after = self.before.per_broker, self.after.per_broker
        return IMPACT_BROKERS.table(
            {
                "broker_id": pa.array(self.after.state.broker_id),
                "rack": self.after.state.rack,
                "registered_before": pa.array(self.before.registered),
                "registered": pa.array(self.after.registered),
                "leaders_before": pa.array(before[:, 0].copy()),
                "leaders": pa.array(after[:, 0].copy()),
                "replicas": pa.array(after[:, 1].copy()),
                "in_sync_before": pa.array(before[:, 2].copy()),
                "in_sync": pa.array(after[:, 2].copy()),
                "requests": pa.array(self._requests_per_broker()),
            }
        )

    def _requests_per_broker(self) -> npt.NDArray[np.int64]:
        state = self.after.state
        counts = np.zeros(state.n_brokers, np.int64)
        for outcome in self.outcomes:
            if outcome.request_counts is not None:
                ids = outcome.request_counts["broker_id"].to_numpy()
                requests = outcome.request_counts["requests"].to_numpy()
                np.add.at(counts, np.searchsorted(state.broker_id, ids), requests)
        return counts

    @property
    def topics(self) -> pa.Table:
        """Topics that are in trouble or changed, the worst first (`Census.topics`)."""
        columns = {name: self.after.flags(name) for name in CENSUS_METRICS}
        columns["newly_offline"] = self.newly("offline")
        columns["newly_under_min_isr"] = self.newly("under_min_isr")
        columns["leaders_moved"] = self.leaders_moved
        return topic_table(IMPACT_TOPICS, self.after, columns)

    @property
    def partitions(self) -> pa.Table:
        """Every partition: leader and ISR before and after, and each metric after, as a bool.

        `partition_row` is its row in both states, for no event moves a row.
        """
        before, after = self.before, self.after
        return partition_table(
            IMPACT_PARTITIONS, after.state,
            {
                "leader_before": before.leader_ids,
                "leader": after.leader_ids,
                "isr_before": before.isr_ids,
                "isr": after.isr_ids,
                "offline_before": pa.array(before.flags("offline")),
                "under_min_isr_before": pa.array(before.flags("under_min_isr")),
                "leader_moved": pa.array(self.leaders_moved),
            }
            | {name: pa.array(after.flags(name)) for name in CENSUS_METRICS},
        )

    def _summary(self) -> Summary:
        return "Impact", self.summary

    __repr__ = summary_text
    _repr_html_ = summary_html


def impact(before: Census, after: Census, outcomes: Iterable[Outcome] = ()) -> Impact:
    """Compare two censuses of one cluster.

    Parameters
    ----------
    before, after : Census
    outcomes : iterable of Outcome
        The events in between, recorded at journal level `counts` or `full`.

    Raises
    ------
    ArgumentError
        The censuses are of different clusters: other numbers of partitions or brokers.
    """
    arguments.check_instance("before", before, Census)
    arguments.check_instance("after", after, Census)
    sizes = [(c.marks.size, c.per_broker.shape[0]) for c in (before, after)]
    if sizes[0] != sizes[1]:
        raise ArgumentError(
            f"before has {sizes[0][0]} partitions and {sizes[0][1]} brokers, after {sizes[1][0]} "
            f"and {sizes[1][1]}; an impact needs two censuses of one cluster"
        )
    return Impact(before, after, tuple(outcomes))


@dataclass(frozen=True)
class EventOutcome:
    """One event of a what-if: its outcome, and who was up while it was handled."""

    outcome: Outcome
    registered: Flags
    shutting_down: Flags

    def _summary(self) -> Summary:
        return f"EventOutcome {self.outcome.event}", {
            "brokers registered": int(self.registered.sum()),
            "brokers shutting down": int(self.shutting_down.sum()),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class FailureStep:
    """One step of a what-if, and what it changed.

    Attributes
    ----------
    kind : {"fail", "start"}
    broker_ids : tuple of int
        Who fails, or starts.
    impact : Impact
        "Before" is after the step before it; for the first, after the controller's start.
    """

    kind: str
    broker_ids: tuple[int, ...]
    impact: Impact

    def _summary(self) -> Summary:
        return f"Step {self.kind}", {
            "broker_ids": ",".join(map(str, self.broker_ids)) or None, **self.impact.summary,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class Failure:
    """What the failure of some brokers does.

    Attributes
    ----------
    title : str
        Name of the controller that is simulated.
    broker_ids : tuple of int
        Who fails first.
    controlled : bool
    state : ClusterState
        The cluster in the end.
    start : Impact
        What the controller's start alone did to the cluster as it was given.
    impact : Impact
        What all steps did together; "before" is after the controller's start.
    steps : tuple of FailureStep
        The failure, then what `then` asked for.
    events : tuple of EventOutcome
        The start, then each event.
    """

    title: str
    broker_ids: tuple[int, ...]
    controlled: bool
    state: ClusterState
    start: Impact
    impact: Impact
    steps: tuple[FailureStep, ...]
    events: tuple[EventOutcome, ...]

    @property
    def remaining(self) -> int:
        """Partitions that brokers still led when their controlled shutdown had been handled."""
        return sum(int(event.outcome.remaining.size) for event in self.events)

    def _summary(self) -> Summary:
        return "Failure", {
            "broker_ids": ",".join(map(str, self.broker_ids)) or None,
            "controlled": self.controlled,
            "steps": len(self.steps) if len(self.steps) > 1 else None,
            **self.impact.summary,
            "controller": self.title,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def fail_brokers(
    state: ClusterState,
    broker_ids: Iterable[int],
    *,
    controlled: bool = False,
    then: Iterable[tuple[str, Iterable[int]]] = (),
    journal: str = "counts",
    threads: int = 1,
    profile: str | Profile = DEFAULT_PROFILE,
) -> Failure:
    """Start a controller on a copy of the cluster, and let brokers fail.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    broker_ids : iterable of int
        Registered brokers. They fail in one event; with `controlled`, one after the other.
    controlled : bool
        Brokers that fail, now or later, ask for their controlled shutdown (section 6.3) before they
        vanish.
    then : iterable of (str, iterable of int)
        Further steps, in order: ("fail", broker ids), or ("start", broker ids) for brokers that
        are down. Those that have started catch up with every leader before the next step.
    journal : {"off", "counts", "full"}
        Requests are counted from "counts" on; `kfast.explain` needs "full".
    threads : int
        Threads to use; results do not depend on it.
    profile : str or Profile
        Which controller is simulated: a name in `profiles.PROFILES`.

    Raises
    ------
    ArgumentError
        A broker is unknown; it is to fail and is not registered then, or to start and is; a step
        is of another kind.
    """
    arguments.check_instance("state", state, ClusterState)
    steps = _check_steps(state, broker_ids, then)
    after = state.copy()
    controller = Controller(after, journal=journal, threads=threads, profile=profile)
    as_given = take_census(after)
    events = [_event(after, controller.on_controller_failover())]
    census = started = take_census(after)
    finished = []
    running: set[int] = set()
    for kind, ids in steps:
        before, first = census, len(events)
        if kind == "start":
            running.update(ids)
            events.append(_event(after, controller.on_broker_startup(ids)))
            events.append(_event(after, controller.catch_up(sorted(running))))
        else:
            running.difference_update(ids)
            for group in [(b,) for b in ids] if controlled else [ids] if ids else []:
                if controlled:
                    events.append(_event(after, controller.controlled_shutdown(group[0])))
                events.append(_event(after, controller.on_broker_failure(group)))
        census = take_census(after)
        outcomes = [event.outcome for event in events[first:]]
        finished.append(FailureStep(kind, ids, impact(before, census, outcomes)))
    outcomes = [event.outcome for event in events]
    return Failure(
        controller.title,
        steps[0][1],
        controlled,
        after,
        impact(as_given, started, outcomes[:1]),
        impact(started, census, outcomes[1:]),
        tuple(finished),
        tuple(events),
    )


def _check_steps(
    state: ClusterState, broker_ids: Iterable[int], then: Any
) -> list[tuple[str, tuple[int, ...]]]:
    """Every step with its brokers, each once; refuses what cannot happen at its time."""
    registered = dict(zip(state.broker_id.tolist(), state.registered.tolist(), strict=True))
    steps = []
    for at, step in enumerate([("fail", broker_ids), *arguments.check_items("then", then)]):
        name = f"then[{at - 1}]" if at else "broker_ids"
        if not isinstance(step, (tuple, list)) or len(step) != 2 or step[0] not in STEP_KINDS:
            raise ArgumentError(
                f"{name} is {arguments.shown(step)}; right is (kind, broker ids), kind one of "
                f"{', '.join(STEP_KINDS)}"
            )
        kind, ids = step
        checked = tuple(dict.fromkeys(arguments.broker_ids(name, ids).tolist()))
        state.find_brokers(checked)
        starts = kind == "start"
        wrong = [broker for broker in checked if registered[broker] is starts]
        if wrong:
            contradiction = (
                "registered then: it is up and cannot start" if starts
                else "not registered: it is down already and cannot fail"
            )
            raise ArgumentError(f"{name}: broker {', '.join(map(str, wrong))} is {contradiction}")
        registered.update(dict.fromkeys(checked, starts))
        steps.append((kind, checked))
    return steps


def _event(state: ClusterState, outcome: Outcome) -> EventOutcome:
    return EventOutcome(outcome, state.registered, state.shutting_down)
