"""Events that no line announces, found out from what they leave behind.

Two kinds leave no line of their own: an answer of a broker that cannot serve partitions (a log
directory failed), and ISRs that leaders wrote into the store, of which the controller hears later.
Where several lines disagree with the prediction from some event on, one of them is put before it;
it stays if it explains more than it costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from kfast.log_replay.comparison.facts import ANSWER, WRITTEN
from kfast.log_replay.comparison.worlds import World
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.histories.explorer import Explorer, Troubled
from kfast.log_replay.histories.stretches import (
    COST,
    Stretch,
    before_balancing,
    disagrees,
    go_through,
)
from kfast.log_replay.wording.values import Partition

MOST_ROUNDS = 40
"""Hidden events that are looked for in one stretch, at most."""

LEAST = 0.25
"""Share of the lines that disagree which an event has to explain: at INFO several are hidden."""

NAMES = {"isr_written": "updates", "dir_answer": "partitions"}
"""Which argument of an event names its partitions."""


def find_hidden(explorer: Explorer, before: World, troubled: Troubled) -> Troubled:
    """Look for hidden events in a stretch; returns the partitions that remain unexplained."""
    given_up: set[Partition] = set()
    for _ in range(MOST_ROUNDS):
        stretch = explorer.stretch
        found = _earliest(explorer, stretch, troubled, given_up)
        if found is None:
            break
        number, partitions = found
        wrong = explorer.n_wrong(explorer.world, partitions)
        tried = [_try(explorer, before, stretch, event, place, wrong)
                 for event, place in _candidates(explorer, stretch, number, partitions)]
        best = max(filter(None, tried), key=attrgetter("gain"), default=None)
        if best is None:
            given_up |= partitions
            continue
        event = best.event
        explorer.cluster.events.insert(explorer.first + best.place, event)
        explorer.take(best.world, set(event.fields[NAMES[event.kind]]), event.fields["reason"],
                      troubled)
    return explorer.unexplained(troubled)


@dataclass
class Tried:
    """A hidden event that was tried: what it explains, where it stands, and the world with it."""

    gain: float
    event: LogEvent
    place: int
    world: World


def _earliest(
    explorer: Explorer, stretch: Stretch, troubled: Troubled, given_up: set[Partition]
) -> tuple[int, set[Partition]] | None:
    """The first event from which on lines disagree: its first such line, and the partitions."""
    groups: dict[int, tuple[int, set[Partition]]] = {}
    for life in explorer.world.lives(set(troubled) - given_up):
        partition = life.possibility.partition
        wrong = [number for number, check in life.trace.checks if disagrees(check)]
        if len(wrong) < 2:
            continue
        place = stretch.place(wrong[0])
        if place >= 0:
            number, partitions = groups.get(place, (wrong[0], set()))
            groups[place] = (min(number, wrong[0]), partitions | {partition})
    return groups[min(groups)] if groups else None


def _candidates(
    explorer: Explorer, stretch: Stretch, number: int, partitions: set[Partition]
) -> Iterator[tuple[LogEvent, int]]:
    """Events that may have happened before a line, each with its place in the stretch."""
    events = stretch.events
    place = before_balancing(events, stretch.place(number))
    takes_leaders_away = [
        at for at in range(1, place) if events[at].kind == "shutdown" or events[at].gone
    ]
    for at in dict.fromkeys((place, *takes_leaders_away[-1:])):  # By then it had read the record.
        if at == 0:
            continue
        left = _left(explorer, events[at], partitions)
        for gone in ({}, left) if left else ({},):
            yield _event("isr_written", events, at, events[at].time - 1, events[at].at, {
                "updates": {p: None if gone else _next_isr(events[at:], p)
                            for p in sorted(partitions)},
                "left": gone, "reason": WRITTEN,
                "ahead": {
                    p: counts for p in partitions if (counts := explorer.cluster.next_counts(
                        explorer.statements, p, events[at].at)) is not None
                },
            }), at
    for leader, led in _leaders(explorer, number, partitions).items():
        answered = _after_request(explorer, stretch, number, leader)
        if answered is not None and number > _last_line(events[answered - 1]):
            at = min(number, events[answered].at if answered < len(events) else number)
            time = min(events[answered - 1].time + 1000, explorer.statements[at].entry.time)
            yield _event("dir_answer", events, answered, time, at, {
                "broker": leader, "partitions": dict.fromkeys(sorted(led)), "reason": ANSWER,
            }), answered


def _left(
    explorer: Explorer, event: LogEvent, partitions: set[Partition]
) -> Mapping[Partition, AbstractSet[int]]:
    """Replicas that may have been out of the ISRs before an event.

    Their brokers are gone then, or are to be elected as preferred replicas.
    """
    if event.kind == "election":
        simulation = explorer.world.simulation
        return {life.possibility.partition: {simulation.preferred(life.row)}
                for life in explorer.world.lives(partitions) if life.row is not None}
    return dict.fromkeys(partitions, event.gone) if event.gone else {}


def _last_line(event: LogEvent) -> int:
    """The last line of state-change.log that an event wrote: no other event runs meanwhile."""
    return max((batch.statements[-1] for batch in event.batches), default=event.at)


def _event(
    kind: str, events: list[LogEvent], place: int, time: int, at: int, fields: dict[str, Any]
) -> LogEvent:
    """An event at a place of a stretch, numbered so that it stands between those around it."""
    before = events[place - 1]
    after = events[place].number if place < len(events) else before.number + 1
    return LogEvent(kind, max(before.time, time), at, fields, before.term, inferred=True,
                    number=(before.number + after) / 2)


def _next_isr(events: list[LogEvent], partition: Partition) -> tuple[int, ...] | None:
    """The next ISR of a partition that the controller is notified of."""
    updates = (event.fields.get("updates", {}) for event in events if event.kind == "isr")
    return next((some[partition][0] for some in updates if partition in some), None)


def _leaders(
    explorer: Explorer, number: int, partitions: set[Partition]
) -> dict[int, set[Partition]]:
    """Leaders that were predicted when a line disagreed, else preferred replicas."""
    found: dict[int, set[Partition]] = {}
    simulation = explorer.world.simulation
    for life in explorer.world.lives(sorted(partitions)):
        leader = -1 if life.row is None else simulation.preferred(life.row)
        for at, check in life.trace.checks:
            if at == number and check.field == "leader" and isinstance(check.predicted, int):
                leader = check.predicted
        if leader >= 0:
            found.setdefault(leader, set()).add(life.possibility.partition)
    return found


def _after_request(
    explorer: Explorer, stretch: Stretch, number: int, broker: int
) -> int | None:
    """Place in a stretch after the last LeaderAndIsr request to a broker before a line."""
    sent = {
        id(event) for event, leaders in explorer.world.simulation.asked_to_lead if broker in leaders
    }
    return next((
        at + 1 for at in range(stretch.place(number), -1, -1) if id(stretch.events[at]) in sent
    ), None)


def _try(
    explorer: Explorer, before: World, stretch: Stretch, event: LogEvent, place: int,
    wrong: dict[Partition, float],
) -> Tried | None:
    """Simulate partitions with one more event; None where it explains too few lines.

    A record from before the log may have been chosen for want of the event, so it is chosen again.
    """
    trial = stretch.with_events([*stretch.events[:place], event, *stretch.events[place:]])
    named = NAMES[event.kind]
    born = {p for p in event.fields[named] if explorer.cluster.births.get(p) is stretch.point}
    for again in (set(), born) if born else (set(),):
        candidates = event.fields[named]
        for _ in range(2):
            tried = set(event.fields[named])
            world = explorer.begin_anew(before, tried, tried & again)
            go_through(world, trial, trial.lines_about(tried), tried, leave_behind=True)
            explorer.keep_cheapest(world, tried & again)
            gains = {p: wrong[p] - left for p, left in explorer.n_wrong(world, tried).items()}
            helped = {p for p in tried if gains[p] > 1}
            gain = sum(gains[p] for p in helped)
            if gain <= max(COST[event.fields["reason"]], sum(wrong.values()) * LEAST):
                break
            if helped == tried:
                return Tried(gain, event, place, world)
            event.fields[named] = {p: isr for p, isr in candidates.items() if p in helped}
        event.fields[named] = candidates
    return None
