"""Decisions that are predicted and that no line states.

A controller writes each transition and each request into state-change.log, at a level that depends
on the release. A decision is missing where that file goes on at its level before and after it;
elsewhere it is unknown.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from kfast.log_replay.comparison.cluster_claims import ClusterView
from kfast.log_replay.comparison.facts import (
    NOT_COVERED,
    NOT_WRITTEN,
    UNASSIGNED,
    Fact,
    name_of,
    shown,
)
from kfast.log_replay.engine.predictions import IN_ANY_ORDER, Item, RowItems
from kfast.log_replay.engine.simulation import Ran, Simulation
from kfast.log_replay.events.events import POINTS, LogEvent, is_hole
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.state_change_log import DECISIONS, WRITTEN_THERE, level_of
from kfast.replay_results.verdicts import MISSING, UNKNOWN

BEYOND = 1 << 60
"""More lines than a log has."""

NOT_DUE = 0.2
"""What a decision that need not be stated counts, in those that have to be."""

UNSTATED = "decisions not stated"
"""Kind of the facts that count decisions that the log need not have."""

RANKS = {"TRACE": 0, "DEBUG": 1, "INFO": 2, "WARN": 3, "ERROR": 4, "FATAL": 5}


class Due(NamedTuple):
    """A decision that a line has to state.

    `step` is that of the event, `texts` are kind, subject and value as reports show them. `items`
    are alternatives, one of which the line states; else the line counts one of `requests`.
    `why_unknown` tells why it may not have been decided.
    """

    step: int
    kind: str
    texts: tuple[str, str, str]
    items: Sequence[Item] = ()
    requests: Collection[tuple[Any, ...]] = ()
    why_unknown: str = ""

    def is_stated(self, counted: Collection[tuple[Any, ...]]) -> bool:
        """Whether a line has stated it; `counted` are the requests that lines have counted."""
        return any(item.is_stated for item in self.items) or any(
            request in counted for request in self.requests
        )


class Written:
    """Which decisions of an event lines state: of those that look the same nobody knows which.

    Parameters
    ----------
    due : sequence of Due
        All decisions of the event.
    counted : collection
        Requests that lines have counted.
    """

    def __init__(self, due: Sequence[Due], counted: Collection[tuple[Any, ...]]) -> None:
        self.due = due
        self.stated = [one for one in due if one.is_stated(counted)]

    @cached_property
    def _alike(self) -> dict[tuple[str, str, str], list[int]]:
        """Steps of the decisions that look the same."""
        steps: dict[tuple[str, str, str], list[int]] = {}
        for one in self.due:
            steps.setdefault(one.texts, []).append(one.step)
        return steps

    @cached_property
    def _sure(self) -> list[int]:
        """Steps of the decisions that are stated, as all that look like them."""
        n_stated = Counter(one.texts for one in self.stated)
        return [
            step for texts, n in n_stated.items() if n == len(self._alike[texts])
            for step in self._alike[texts]
        ]

    def is_before(self, one: Due) -> bool:
        """Whether lines state a decision of an earlier step than one, and all that look like it."""
        return min(self._sure, default=BEYOND) < min(self._alike[one.texts])

    def is_after(self, one: Due, *, steps_are_complete: bool) -> bool:
        """Whether lines state a decision of a later step than one, and all that look like it.

        A decision of the same step will do where steps of which lines state any are complete.
        """
        return max(self._sure, default=-1) + steps_are_complete > max(self._alike[one.texts])


class DecisionLines:
    """Where controllers write their decisions: the lines of each of their files, by level.

    Parameters
    ----------
    cluster : Cluster
    statements : sequence of Statement
    release : str
        Which release's wording the log has.

    Attributes
    ----------
    ends_within : dict
        Whether the file of each controller ends with a decision, perhaps within a step.
    """

    def __init__(self, cluster: Cluster, statements: Sequence[Statement], release: str) -> None:
        self.levels = {kind: level_of(kind, release) for kind in DECISIONS}
        self.lines: dict[tuple[int | None, str], list[int]] = {}
        self.ends_within: dict[int | None, bool] = {}
        self.note_events(cluster)
        levels = set(filter(None, self.levels.values()))
        for number in sorted([*cluster.lines, *cluster.absent_controller_lines]):
            line = statements[number]
            if line.kind in WRITTEN_THERE or "state.change" in line.entry.logger:
                self.ends_within[line.actor_id] = line.kind in DECISIONS
                for level in levels:
                    if RANKS[line.entry.level] <= RANKS[level]:
                        self.lines.setdefault((line.actor_id, level), []).append(number)

    def note_events(self, cluster: Cluster) -> None:
        """Take up where the events and holes of a cluster are, after some were found."""
        self._costs: dict[tuple[float, str], float] = {}
        self.first_lines = [event.at for event in cluster.events]
        self.holes = [
            event.at for event in cluster.events if event.kind in POINTS and is_hole(event)
        ]
        self.under_way = frozenset[int]().union(*cluster.begun.values())

    def of(self, event: LogEvent, kind: str) -> Sequence[int]:
        """Lines of the controller's file at the level of a kind of decision."""
        return self.lines.get((event.term.controller, self.levels[kind]), ())

    def go_on(self, event: LogEvent, kind: str) -> tuple[bool, bool]:
        """Whether there are such lines before an event and after it, with no hole in between.

        Before one that is under way where the log begins, there are none.
        """
        lines = self.of(event, kind)
        begin, end = _around(self.holes, event.at)
        last, _ = _around(lines, event.at - 1)
        _, following = _around(lines, self.end(event) - 1)
        return last >= max(begin, 0) and event.at not in self.under_way, following < end

    def has_complete_steps(self, event: LogEvent) -> bool:
        """Whether no step of an event ends with its file, or where a hole begins."""
        is_before_hole = _around(self.holes, event.at)[1] <= self.end(event) < BEYOND
        return not is_before_hole and not self.ends_within[event.term.controller]

    def end(self, event: LogEvent) -> int:
        """Number of the line with which the next event begins."""
        return _around(self.first_lines, event.at)[1]

    def unstated(self, items: RowItems, first: float) -> float:
        """How many decisions of a row no line states, of events from a number on.

        Those that need not stand there, such as those of the event that a file begins or ends
        with, count little: they decide between what is equal otherwise.
        """
        shrinks, n = dict[tuple[Any, ...], float](), 0.0
        for item in items.all():
            if item.event.number < first or item.fields.get("unsent"):
                continue
            kind = _kind_of(item)
            cost = 0.0 if item.serial in items.takers else self._cost(item.event, kind)
            if item.key[0] in IN_ANY_ORDER:
                key = item.order, item.key
                shrinks[key] = min(cost, shrinks.get(key, cost))
            else:
                n += cost
        return n + sum(shrinks.values())

    def _cost(self, event: LogEvent, kind: str) -> float:
        """What a decision counts that no line states; nothing where no line of its level is."""
        level = self.levels.get(kind)
        if not level or not self.of(event, kind):
            return 0.0
        if (event.number, level) not in self._costs:
            self._costs[event.number, level] = 1.0 if all(self.go_on(event, kind)) else NOT_DUE
        return self._costs[event.number, level]


class Decisions:
    """Collects what events decide, and says what no line states.

    Parameters
    ----------
    cluster : Cluster
    lines : DecisionLines

    Attributes
    ----------
    n_due : int
        Decisions that the log is to have.
    missing : dict of int to Counter of str
        How many of them it lacks of which partition, of a broker or of all, by the line that their
        event begins with.
    """

    def __init__(self, cluster: Cluster, lines: DecisionLines) -> None:
        self.cluster = cluster
        self.lines = lines
        self.lines.note_events(cluster)
        self.due: list[tuple[LogEvent, str, list[Due]]] = []
        self.n_due = 0
        self.missing: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def note(self, ran: Ran, what: str, view: ClusterView) -> None:
        """Take down what an event decided; `what` describes it."""
        if ran.event.kind == "hidden_isr":  # Its only line is the one that it was inferred from.
            return
        guessed = self._guessed_steps(ran, view.world.simulation)
        due = [
            one._replace(why_unknown=UNASSIGNED) if one.step in guessed else one
            for one in _due(ran, view) if self.lines.levels[one.kind]
        ]
        if due:
            self.due.append((ran.event, what, due))

    def _guessed_steps(self, ran: Ran, simulation: Simulation) -> set[int]:
        """Steps that elect preferred replicas of which no line tells that they are preferred."""
        if ran.event.kind != "rebalance":
            return set()
        lives = ((simulation.possibility[row], item) for row, item in ran.made)
        return {item.step for life, item in lives
                if not self.cluster.is_assigned(life.partition, life.creation)}

    def unstated(self, counted: Collection[tuple[Any, ...]]) -> Iterator[Fact]:
        """Facts of what no line states: each missing decision, and how many are unknown.

        Parameters
        ----------
        counted : collection
            Requests that lines have counted.
        """
        unknown: dict[tuple[str, str], tuple[int, int]] = {}
        for event, what, due in self.due:
            written = Written(due, counted)
            n_written = sum(1 for one in due if self.lines.of(event, one.kind))
            self.n_due += len(written.stated)
            for one in due:
                if one.is_stated(counted):
                    continue
                number = self._next_line(event, one)
                reason = self._why_unknown(event, one, written, n_written)
                if reason:
                    key = f"controller {event.term.controller}, epoch {event.term.epoch}", reason
                    first, n = unknown.get(key, (number, 0))
                    unknown[key] = (first, n + 1)
                else:
                    self.n_due += 1
                    kind, subject, value = one.texts
                    self.missing[event.at][subject] += 1
                    yield Fact(number, kind, subject, None, value, MISSING, what)
        for (subject, reason), (first, n) in unknown.items():
            yield Fact(first, UNSTATED, subject, None, n, UNKNOWN, reason)

    def _why_unknown(
        self, event: LogEvent, one: Due, written: Written, n_due: int
    ) -> str:
        """Why nobody can tell whether a decision was written; empty where it should be there."""
        if one.why_unknown:
            return one.why_unknown
        if not self.lines.of(event, one.kind):
            return NOT_WRITTEN
        if not written.stated and n_due > 1:
            return NOT_COVERED
        if event.fields.get("cut") and all(other.step <= one.step for other in written.stated):
            return NOT_COVERED
        is_after, is_before = self.lines.go_on(event, one.kind)
        is_after = is_after or written.is_before(one)
        is_before = is_before or written.is_after(
            one, steps_are_complete=self.lines.has_complete_steps(event)
        )
        return "" if is_after and is_before else NOT_COVERED

    def _next_line(self, event: LogEvent, due: Due) -> int:
        """The line before which a decision is due: the controller's next one after the event."""
        lines = self.lines.of(event, due.kind) or [event.at]
        return min(_around(lines, self.lines.end(event) - 1)[1], lines[-1])


def _around(numbers: Sequence[int], at: int) -> tuple[int, int]:
    """The last of some numbers that is not beyond another, -1 for none, and the next one."""
    place = bisect.bisect_right(numbers, at)
    return (
        numbers[place - 1] if place else -1,
        numbers[place] if place < len(numbers) else BEYOND,
    )


# --- what an event decides ------------------------------------------------------------------------


def _due(ran: Ran, view: ClusterView) -> Iterator[Due]:
    simulation = view.world.simulation
    alternatives: dict[tuple[int, Any], list[Item]] = {}
    for row, item in ran.made:
        if _kind_of(item) and not item.fields.get("unsent"):
            key = (item.step, item.key) if item.key[0] in IN_ANY_ORDER else item.serial
            alternatives.setdefault((row, key), []).append(item)
    for (row, _), items in alternatives.items():
        first, name = items[0], name_of(simulation.possibility[row].partition)
        yield Due(first.step, _kind_of(first), _texts(name, first), items,
                  why_unknown=_why_unsure(view, row, first))
    for sending in ran.sendings:
        at, step = sending.step, (ran.event.number, sending.step)
        value = f"{sending.n_partitions} partitions to brokers {shown(sending.recipients)}"
        yield Due(at, "sent_update_metadata", ("UpdateMetadata request", "cluster", value),
                  requests=[("update_metadata", None, None, *step)])
        for broker, (leads, follows) in sending.leads.items():
            value = f"{leads} to lead, {follows} to follow"
            texts = "LeaderAndIsr request", f"broker {broker}", value
            yield Due(at, "sent_leader_and_isr", texts, requests=[("leads", None, broker, *step)])
        for broker, n in sorted(sending.stopped.items()):
            texts = "StopReplica request", f"broker {broker}", f"{n} replicas"
            yield Due(at, "sent_stop_replica", texts, requests=[
                ("stops", delete, broker, *step) for delete in (None, True, False)
            ])


def _why_unsure(view: ClusterView, row: int, item: Item) -> str:
    """Why an election need not have failed: a live replica may be back in the ISR unseen."""
    simulation = view.world.simulation
    record = simulation.stored_record(row) if item.key[:2] == ("failed", None) else None
    if record is None:
        return ""
    live = simulation.registered & set(simulation.state.assignment(row).replicas)
    if live <= set(record.isr):
        return ""
    return view.why_unknown([simulation.possibility[row].partition])


DECISION_OF = {
    "moved": "partition_moved", "led": "partition_led", "failed": "partition_failed",
    "shrunk": "shrunk", "leader_and_isr": "sent_leader_and_isr_partition",
    "update_metadata": "sent_update_metadata_partition",
    "stop_replica": "sent_stop_replica_partition",
}
"""What kind of line states an item, by the first part of its key."""

IN_OTHER_LINES = {"OnlinePartition": "", "NewPartition": "partition_new"}
"""What kind of line states that a partition goes into a state."""


def _kind_of(item: Item) -> str:
    """The kind of line that states an item; partitions become Online in lines with a record."""
    first, *key = item.key
    if first in ("moved", "failed") and key[0] is not None:
        return f"replica_{first}"
    if first == "moved" and key[-1] in IN_OTHER_LINES:
        return IN_OTHER_LINES[key[-1]]
    return DECISION_OF.get(first, "")


def _texts(name: str, item: Item) -> tuple[str, str, str]:
    """Kind, subject and value of an item."""
    fields = ", ".join(
        f"{field.replace('_', ' ')} {shown(item.fields[field])}"
        for field in ("leader", "leader_epoch", "isr") if item.fields.get(field) is not None
    )
    first, *key = item.key
    if first in ("moved", "failed"):
        replica = "" if key[0] is None else f"replica {key[0]}: "
        fails = " fails" if first == "failed" else ""
        return "transition", name, f"{replica}{key[1]} -> {key[2]}{fails}"
    if first == "led":
        return "transition", name, f"{key[0]} -> {key[1]}, {fields}"
    if first == "shrunk":
        return "ISR without a replica", name, f"replica {key[0]}, {fields}"
    request = "".join(word.capitalize() for word in first.split("_"))
    to = f"to broker {key[0]}" if key else "to all brokers"
    return f"{request} of a partition", name, f"{to}: {fields}"
