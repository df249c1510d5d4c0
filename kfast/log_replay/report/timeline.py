"""What an event did, and what it is in words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.log_replay.comparison.facts import name_of
from kfast.log_replay.engine.rows import plain_topic
from kfast.log_replay.engine.simulation import Ran, Simulation
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.values import Partition
from kfast.replay_results.timeline import Row, Timeline
from kfast.schema import FLAG_ASSIGNED, FLAG_HAS_LEADERSHIP
from kfast.state import ClusterState

OFTEN_IDLE = frozenset({"rebalance", "election", "hidden_isr", "modified"})
"""Kinds of events that are worth a row only where they changed anything."""


class Watcher:
    """Takes down the timeline of a simulation, event by event.

    Parameters
    ----------
    cluster : Cluster
    """

    def __init__(self, cluster: Cluster) -> None:
        self.timeline = Timeline(cluster.number)
        self.timeline.terms = [
            (term.controller, term.epoch, term.start, _until(term, following))
            for term, following in zip_longest(cluster.terms, cluster.terms[1:])
        ]
        self.before: dict[Partition, tuple[int, frozenset[int]]] = {}
        self.last: tuple[ClusterState, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]] | None
        self.last = None

    def note(self, ran: Ran, simulation: Simulation) -> None:
        """Take down what an event did."""
        event, timeline = ran.event, self.timeline
        timeline.controller, timeline.epoch = event.term.controller, event.term.epoch
        row = timeline.begin(event.kind, describe(event), event.time, inferred=event.inferred)
        for outcome in ran.outcomes:
            row.transitions += sum(outcome.counts.transitions.values())
            row.refused += len(outcome.rows("refusals"))
        self._compare(row, simulation)
        timeline.note_brokers(simulation.registered, event.time)
        timeline.reassigned.change(_reassigned(simulation), event.time, event.time)
        if event.kind in OFTEN_IDLE and not row.changed_anything:
            timeline.rows.pop()
        for partition, election in unclean_elections(ran):
            timeline.note_unclean(name_of(partition), event.time, election)

    def _compare(self, row: Row, simulation: Simulation) -> None:
        state = simulation.state
        records, up = state.records, state.registered
        changed = self._changed(state)
        gone = self.before.keys() - simulation.rows.keys()
        for partition, rows in simulation.rows.items():
            for number in rows:
                if not changed[number]:
                    continue
                flags = int(records["flags"][number])
                if not flags & FLAG_ASSIGNED or not flags & FLAG_HAS_LEADERSHIP:
                    gone |= {partition} & self.before.keys()
                    continue
                leader = int(records["leader"][number])
                isr = frozenset(state.ids_of(number, int(records["isr"][number])))
                before = self.before.get(partition, (-1, isr))
                row.isr_changes += isr != before[1]
                self.timeline.note_leader(
                    row, name_of(partition), row.time, before[0], leader,
                    is_up=leader >= 0 and bool(up[leader]),
                )
                self.before[partition] = (leader, isr)
        for partition in gone:
            del self.before[partition]
        self.timeline.delete(map(name_of, gone), row.time)
        row.leaderless = len(self.timeline.leaderless.since)

    def _changed(self, state: ClusterState) -> npt.NDArray[np.bool_]:
        """Which rows are not as at the last event, or belong to another state."""
        leader = state.records["leader"]
        led = leader >= 0
        led[led] = state.registered[leader[led]]
        last, self.last = self.last, (state, state.records.copy(), state.replicas.copy(), led)
        if last is None or last[0] is not state or last[2].shape != state.replicas.shape:
            return np.ones(leader.size, bool)
        changed: npt.NDArray[np.bool_] = (last[2] != state.replicas).any(axis=1)
        changed |= (last[1] != state.records) | (last[3] != led)
        return changed


def _until(term: Term, following: Term | None) -> int | None:
    """When a term was over; None where the log does not show it."""
    if following is None or term.closed is not None:
        return term.closed
    return following.start if following.follows else min(term.end, following.start)


def _reassigned(simulation: Simulation) -> set[str | int]:
    """Names of the partitions that are being reassigned."""
    state = simulation.state
    moving = (state.records["adding"] | state.records["removing"]) != 0
    moving[list(state.reassignment_targets)] = True
    return {name_of(simulation.possibility[row].partition) for row in np.flatnonzero(moving)}


def unclean_elections(ran: Ran) -> list[tuple[Partition, dict[str, Any]]]:
    """Elections of an event that chose leaders outside the ISR, with their partitions."""
    return [
        ((plain_topic(row["topic"]), row["partition"]), row)
        for outcome in ran.outcomes
        for row in outcome.rows("elections") if row["unclean"]
    ]


def describe(event: LogEvent) -> str:
    """Say in a few words what happened."""
    fields = event.fields
    if event.kind == "failover":
        up = fields.get("registered")
        with_ = f"; brokers {_ids(up)}" if up else ""
        return f"broker {event.term.controller} becomes controller, epoch {event.term.epoch}{with_}"
    if event.kind == "resume":
        return "the log goes on after a hole" if fields.get("hole") else "the log begins here"
    if event.kind == "brokers":
        parts = [
            f"{word} {_ids(fields[name])}" for name, word in
            (("added", "up:"), ("bounced", "bounced:"), ("deleted", "gone:")) if fields[name]
        ]
        return f"brokers {', '.join(parts)}"
    if event.kind in ("topics", "partitions"):
        names = sorted({topic for topic, _ in fields["created"]} | set(fields.get("names", ())))
        gone = f"; gone: {', '.join(fields['deleted'])}" if fields.get("deleted") else ""
        word = "topic created:" if event.kind == "topics" else "partitions added to"
        return f"{word} {', '.join(names)} ({len(fields['created'])} partitions){gone}"
    if event.kind == "isr":
        return f"leaders change {len(fields['partitions'])} ISRs"
    if event.kind == "isr_written":
        return f"leaders write {len(fields['updates'])} ISRs, unheard of by the controller"
    if event.kind == "election":
        return f"{fields['type'].lower()} election of {len(fields['partitions'])} partitions"
    if event.kind == "reassign":
        return "; ".join(
            f"{name_of(p)} is reassigned to {_ids(target)}"
            for p, target in fields["targets"].items()
        )
    if event.kind == "caught_up":
        return f"the targets of {name_of(fields['partition'])} have caught up"
    if event.kind == "delete":
        return f"deletion of {', '.join(fields['topics'])}"
    if event.kind == "deleted":
        who = f"broker {fields['broker']}" if fields["broker"] is not None else "brokers"
        n_failed = sum(fields.get("failures", {}).values())
        return f"{who} failed to delete replicas" if n_failed else f"{who} deleted replicas"
    if event.kind == "dir_failure":
        return f"log directory failure on {_ids(fields['brokers'])}"
    if event.kind == "dir_answer":
        return f"broker {fields['broker']} cannot serve {len(fields['partitions'])} partitions"
    return _WORDS[event.kind].format(**fields)


_WORDS = {
    "shutdown": "broker {broker} asks to shut down",
    "hidden_isr": "leaders change {n} ISRs (not named)",
    "rebalance": "automatic balancing of leaders",
    "modified": "all brokers are told of the brokers",
    "unclean": "unclean election is enabled",
}


def _ids(ids: Sequence[int] | dict[int, int]) -> str:
    return ",".join(map(str, sorted(ids)))
