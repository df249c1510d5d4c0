"""Events that no line announces, found out from what they leave behind.

Two kinds leave no line of their own: an answer of a broker that cannot serve partitions (a log
directory failed), and ISRs that leaders wrote into the store, of which the controller hears later.
Where several lines disagree with the prediction from some event on, one of them is put before it;
it stays if it explains more than it costs.
"""

from __future__ import annotations

import bisect
from collections import deque
from dataclasses import dataclass

from kfast.log_replay.checks import MISSING, agrees
from kfast.log_replay.comparison.facts import ANSWER, WRITTEN
from kfast.log_replay.comparison.worlds import Life, World, copy_of, run_event
from kfast.log_replay.engine.rows import row_of, with_states
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.histories.explorer import Explorer
from kfast.log_replay.histories.stretches import (
    COST,
    Contest,
    Stretch,
    before_balancing,
    go_on,
    judge,
)
from kfast.log_replay.lookahead.clusters import look_ahead
from kfast.log_replay.wording.values import Partition

MOST_ROUNDS = 40
"""Hidden events that are looked for in one stretch, at most."""

Troubled = dict[Partition, float]


def find_hidden(explorer: Explorer, before: World, first: int, troubled: Troubled) -> Troubled:
    """Look for hidden events in a stretch; returns the partitions that remain unexplained."""
    given_up: set[Partition] = set()
    cost = explorer.cost(set(troubled))
    kept = explorer.save()
    for _ in range(MOST_ROUNDS):
        stretch = Stretch(explorer.cluster, explorer.statements, first, explorer.next_cut(first))
        found = _earliest(explorer, stretch, troubled, given_up)
        if found is None:
            break
        number, partitions = found
        best: Tried | None = None
        for event, place in _candidates(explorer, stretch, number, partitions):
            tried = _try(explorer, before, stretch, event, place, partitions, number)
            if tried is not None and (best is None or tried.gain > best.gain):
                best = tried
        if best is None:
            given_up |= partitions
            continue
        _accept(explorer, stretch, first, best, troubled)
    if explorer.cost(set(troubled)) > cost:
        explorer.restore(kept)
        return troubled
    return {
        p: wrong for p, wrong in troubled.items() if wrong > explorer.known.get(p, 0.0) + 0.5
    }


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
    groups: dict[float, tuple[int, set[Partition]]] = {}
    for life in explorer.world.lives(set(troubled) - given_up):
        partition = life.possibility.partition
        wrong = [
            number for number, _, check in life.trace.checks
            if stretch.begin <= number and not agrees(check) and check.predicted is not None
        ]
        if len(wrong) < 2:
            continue
        earlier = [event for event in stretch.events if event.at <= wrong[0]]
        if not earlier:
            continue
        key = earlier[-1].number
        number, some = groups.get(key, (wrong[0], set()))
        groups[key] = (min(number, wrong[0]), some | {partition})
    return groups[min(groups)] if groups else None


# --- what it may have been ---------------------------------------------------------------------


def _candidates(
    explorer: Explorer, stretch: Stretch, number: int, partitions: set[Partition]
) -> list[tuple[LogEvent, int]]:
    """Events that may have happened before a line, each with its place in the stretch."""
    found = []
    events = stretch.events
    place = before_balancing(
        events, max(at for at, event in enumerate(events) if event.at <= number)
    )
    if place > 0:
        after = events[place - 1]
        found.append((LogEvent(
            "isr_written", max(after.time, events[place].time - 1), events[place].at,
            {"updates": {p: _next_isr(events[place:], p) for p in sorted(partitions)},
             "ahead": look_ahead(explorer.statements, explorer.cluster.lines,
                                 events[place].at, partitions),
             "reason": WRITTEN}, events[place].term, inferred=True,
        ), place))
    for leader, led in _leaders(explorer, number, partitions).items():
        answered = _after_request(explorer, stretch, number, leader)
        if answered is None:
            continue
        after = events[answered - 1]
        limit = events[answered].at if answered < len(events) else number
        at = min(number, limit)
        found.append((LogEvent(
            "dir_answer", min(after.time + 1000, explorer.statements[at].entry.time), at,
            {"broker": leader, "partitions": tuple(sorted(led)), "reason": ANSWER},
            after.term, inferred=True,
        ), answered))
    return found


def _next_isr(events: list[LogEvent], partition: Partition) -> tuple[int, ...] | None:
    """The next ISR of a partition that the controller is notified of."""
    for event in events:
        if event.kind == "isr" and partition in event.fields.get("updates", {}):
            isr: tuple[int, ...] = event.fields["updates"][partition][0]
            return isr
    return None


def _leaders(
    explorer: Explorer, number: int, partitions: set[Partition]
) -> dict[int, set[Partition]]:
    """Leaders that were predicted when a line disagreed, else preferred replicas."""
    found: dict[int, set[Partition]] = {}
    simulation = explorer.world.simulation
    for life in explorer.world.lives(partitions):
        leader = -1 if life.row is None else simulation.preferred(life.row)
        for at, _, check in life.trace.checks:
            if at == number and check.field == "leader" and check.predicted is not MISSING:
                leader = int(check.predicted)
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
    places = [
        at for at, event in enumerate(stretch.events) if event.at <= number and id(event) in sent
    ]
    return places[-1] + 1 if places else None


# --- trying it out ------------------------------------------------------------------------------


def _try(
    explorer: Explorer, before: World, stretch: Stretch, event: LogEvent, place: int,
    partitions: set[Partition], number: int,
) -> Tried | None:
    """Simulate partitions with one more event; None where it does not explain what it costs.

    What counts are the lines up to the second event after the one that disagreed: an event that is
    missing later must not hide that this one was found.
    """
    named = "updates" if event.kind == "isr_written" else "partitions"
    some = set(event.fields[named]) & partitions
    later = [e.at for e in stretch.events if e.at > number]
    end = later[1] if len(later) > 1 else stretch.end
    own = explorer.world
    for _ in range(2):
        world = begin_again(explorer, before, stretch.point, some)
        events = [*stretch.events[:place], event, *stretch.events[place:]]
        _number(events, place)
        trial = stretch.with_events(events)
        pending, lines = deque(events), trial.lines_about(some)
        decisive = bisect.bisect_left(lines, end)
        go_on(world, trial, pending, lines[:decisive], some)
        gained = gains(own, world, some, stretch.begin, end)
        helped = {p for p, gain in gained.items() if gain > 1}
        if sum(gained[p] for p in helped) <= COST[event.fields["reason"]]:
            return None
        if helped == some:
            go_on(world, trial, pending, lines[decisive:], some)
            for later_event in pending:
                run_event(world, later_event)
            return Tried(sum(gained.values()), event, place, world)
        some = helped
        kept = event.fields[named]
        event.fields[named] = (
            {p: kept[p] for p in kept if p in some} if isinstance(kept, dict)
            else tuple(p for p in kept if p in some)
        )
    return None


def _wrong(life: Life, begin: int, end: int) -> int:
    """Number of checks of some lines that disagree."""
    unknown = dict(zip(
        ("epoch", "version", "record_epoch"), life.possibility.unknown(), strict=True
    ))
    return sum(
        1 for number, _, check in life.trace.checks
        if begin <= number < end and check.predicted is not None and not agrees(check)
        and not (unknown.get(check.counted, False) and check.predicted is not MISSING)
    )


def gains(
    own: World, world: World, partitions: set[Partition], begin: int, end: int
) -> dict[Partition, int]:
    """How many fewer checks of some lines disagree in another world, partition by partition."""
    return {
        p: sum(_wrong(life, begin, end) for life in own.lives([p]))
        - sum(_wrong(life, begin, end) for life in world.lives([p])) for p in partitions
    }


def _number(events: list[LogEvent], place: int) -> None:
    """Number a new event so that it stands between those around it."""
    before = events[place - 1].number
    after = events[place + 1].number if place + 1 < len(events) else before + 1
    events[place].number = (before + after) / 2


def begin_again(
    explorer: Explorer, before: World, point: LogEvent, partitions: set[Partition]
) -> World:
    """The world at the beginning of a stretch, with what was chosen there for some partitions."""
    world = copy_of(before)
    explorer.only(world, partitions)
    added = []
    dropped: set[int] = set()
    simulation = world.simulation
    for possibility, _, _ in list(explorer.world.lives(partitions)):
        if not possibility.starts:
            continue
        start = possibility.starts[-1]
        if start.point is not point:
            continue
        dropped |= set(simulation.rows.get(possibility.partition, ()))
        row = row_of(possibility, start)
        if point.kind == "resume":
            registered = point.fields.get("registered")
            live = simulation.registered if registered is None else set(registered)
            row = with_states(row, live or set(start.replicas))
        added.append((possibility, row))
    if added:
        explorer.rebuild(world, dropped, added)
    return world


def _accept(
    explorer: Explorer, stretch: Stretch, first: int, best: Tried, troubled: Troubled
) -> None:
    """Put a hidden event into the script, and go on with the rows that were simulated with it."""
    event, place, world = best.event, best.place, best.world
    explorer.cluster.events.insert(first + place, event)
    named = "updates" if event.kind == "isr_written" else "partitions"
    partitions = set(event.fields[named])
    settle_with(explorer, world, partitions, event.fields["reason"], stretch.begin, troubled)


def settle_with(
    explorer: Explorer, world: World, partitions: set[Partition], reason: str, begin: int,
    troubled: Troubled,
) -> None:
    """Take some partitions' rows from another world, and note what decided for it."""
    own = explorer.world
    lost = {p: [life.trace for life in own.lives([p])] for p in partitions}
    explorer.merge(world, partitions)
    for partition in partitions:
        troubled[partition] = 0.0
        for life, trace in zip(list(own.lives([partition])), lost[partition], strict=False):
            wrong, found = judge(life.possibility, life.trace)
            explorer.settle(life, found)
            troubled[partition] += wrong
            explorer.contests.setdefault(partition, []).append(
                Contest(reason, begin, life.trace, [trace])
            )
