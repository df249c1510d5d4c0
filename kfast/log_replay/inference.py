"""Find out what the log does not say: records before it begins, and what holes hide.

The log of a cluster is cut at every failover and hole. Stretch by stretch, every partition is
simulated from what it was at the end of the last stretch. Where that does not agree with the
lines, and at the beginning, all that its record may have been is simulated side by side, and the
lines choose. Adopting a record costs more than one wrong line: a single line that disagrees with
all others stays a contradiction.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kfast.log_replay.brokers import BROKER_COMPARE, BrokerSide, Heard
from kfast.log_replay.checks import MISSING, Case, Check, View, agrees
from kfast.log_replay.cluster import Cluster
from kfast.log_replay.compare import COMPARE, subjects
from kfast.log_replay.events import LogEvent
from kfast.log_replay.log_messages import Statement
from kfast.log_replay.log_values import Partition
from kfast.log_replay.rows import UNKNOWN_EPOCH, Possibility, Start
from kfast.log_replay.running import run
from kfast.log_replay.simulation import Ran, Simulation

BEFORE, HOLE, BETWEEN, ANSWER, WRITTEN = (
    "written before the log begins", "changed in a hole of the log",
    "changed between two controllers", "a broker's answer that is not logged",
    "an ISR that a leader wrote, heard of later",
)
COST = {BEFORE: 0.0, HOLE: 1.2, BETWEEN: 1.6, ANSWER: 2.2, WRITTEN: 1.6}
"""What adopting costs, in lines that disagree."""

UNLIKELY = 0.05
"""Added for each thing that is not as it usually is: so that ties go to the usual."""


POINTS = frozenset({"failover", "resume"})
"""Events that a stretch begins with: a controller is elected, or its log goes on."""


@dataclass
class Trace:
    """Checks of one possibility, line by line, with the number of the start they count from."""

    checks: list[tuple[int, int, Check]] = field(default_factory=list)


class Stretch:
    """One stretch of a cluster's log, from one failover or hole to the next.

    Parameters
    ----------
    cluster : Cluster
    statements : sequence of Statement
    first, last : int
        Places of its events: `first` is the failover or hole, or what leaders wrote right before
        it; `last` is the first event of the next stretch.
    """

    def __init__(
        self, cluster: Cluster, statements: Sequence[Statement], first: int, last: int
    ) -> None:
        self.statements = statements
        self.cluster = cluster
        self.events = cluster.events[first:last]
        self.begin = self.events[0].at if first else -1
        self.end = cluster.events[last].at if last < len(cluster.events) else len(statements)
        self.lines = [number for number in cluster.lines if self.begin <= number < self.end]
        self.point = next((e for e in self.events if e.kind in POINTS), self.events[0])

    def with_events(self, events: list[LogEvent]) -> Stretch:
        """Make a stretch of the same lines with other events."""
        other = copy.copy(self)
        other.events = events
        return other


class Life(NamedTuple):
    """A possibility with its checks; `row` is None where the partition has been deleted since."""

    possibility: Possibility
    trace: Trace
    row: int | None


def is_hole(point: LogEvent) -> bool:
    """Whether lines are missing before a failover, or where the log goes on."""
    return bool(point.said.get("hole")) or point.kind == "resume" or not point.term.follows


@dataclass
class World:
    """A simulation with what brokers remember and the traces of its rows.

    `gone` has the possibilities of partitions that were deleted in the stretch at hand.
    """

    simulation: Simulation
    brokers: BrokerSide
    traces: dict[int, Trace] = field(default_factory=dict)
    gone: dict[Partition, list[Life]] = field(default_factory=dict)

    def lives(self, partitions: Iterable[Partition]) -> Iterator[Life]:
        """All possibilities of some partitions: those there are, and those that were deleted."""
        for partition in partitions:
            yield from self.gone.get(partition, ())
            for row in self.simulation.rows.get(partition, ()):
                yield Life(self.simulation.possibility[row],
                           self.traces.setdefault(row, Trace()), row)

    def bury(self, rows: dict[Partition, list[int]], before: list[Possibility]) -> None:
        """Keep what became of rows that were there before an event that deleted them."""
        now = self.simulation.rows
        for partition, some in rows.items():
            for row in some:
                if row not in now.get(partition, ()):
                    self.gone.setdefault(partition, []).append(
                        Life(before[row], self.traces.pop(row, Trace()), None)
                    )

    def reset(self, before: list[Possibility]) -> None:
        """Begin anew for rows that an event gave to other partitions."""
        for row, possibility in enumerate(self.simulation.possibility):
            if row >= len(before) or before[row] is not possibility:
                self.traces[row] = Trace()
                self.brokers.forget(row)

    def view(self, term: int) -> View:
        """What comparisons look at."""
        return View(self.simulation, self.brokers, term)


def copy_of(world: World) -> World:
    """Make an independent copy of a world."""
    return World(
        world.simulation.copy(), world.brokers.copy(),
        {row: Trace(list(trace.checks)) for row, trace in world.traces.items()},
        {p: list(some) for p, some in world.gone.items()},
    )


def go_through(world: World, stretch: Stretch, only: set[Partition] | None = None) -> None:
    """Run a stretch's events and compare its lines, for all partitions or for some."""
    pending = list(stretch.events)
    for number in stretch.lines:
        while pending and pending[0].at <= number:
            run_event(world, pending.pop(0))
        line = stretch.statements[number]
        if line.kind == "process_started":
            world.brokers.start_by(line)
            continue
        _compare(world, stretch, line, number, only)
    for event in pending:
        run_event(world, event)


def run_event(world: World, event: LogEvent) -> Ran:
    """Run one event, and let brokers know what it means for them."""
    simulation = world.simulation
    simulation.begin(event)
    before, registered = list(simulation.possibility), simulation.registered
    rows = simulation.rows
    ran = run(simulation, event)
    world.bury(rows, before)
    world.reset(before)
    if event.kind == "resume":
        _remember_all(world)
    if event.kind == "failover":
        for broker in simulation.registered:
            if is_hole(event) or broker not in registered:
                world.brokers.register(broker, event.time)
    if event.kind == "brokers":
        for broker in (*event.said["added"], *event.said["bounced"]):
            world.brokers.register(broker, event.time)
    return ran


def _remember_all(world: World) -> None:
    """Where the log goes on, live brokers have heard of every record as it is then."""
    simulation = world.simulation
    live = simulation.registered
    for row in range(len(simulation.possibility)):
        leadership = simulation.state.leadership(row)
        if leadership is None or leadership.leader not in live:
            continue
        for broker in simulation.state.assignment(row).replicas:
            if broker in live:
                world.brokers.memory[broker, row] = Heard(
                    leadership.leader_epoch, leadership.leader
                )
    for broker in live:
        world.brokers.fresh[broker] = False


def _compare(
    world: World, stretch: Stretch, line: Statement, number: int, only: set[Partition] | None
) -> None:
    compare = (BROKER_COMPARE if line.actor == "broker" else COMPARE).get(line.kind)
    if compare is None:
        return
    simulation = world.simulation
    view = world.view(id(stretch.cluster.term_of.get(number)))
    named = list(subjects(line))
    for partition, said in named:
        if only is not None and partition not in only:
            continue
        for row in simulation.rows_of(partition):
            possibility = simulation.possibility[row]
            start = len(possibility.starts)
            trace = world.traces.setdefault(row, Trace())
            case = Case(view, line, said, row)
            trace.checks += [(number, start, check) for check in compare(case)]
    if line.kind == "not_preferred":
        _compare_unlisted(world, view, line, number, {p for p, _ in named}, only)


def _compare_unlisted(
    world: World, view: View, line: Statement, number: int, listed: set[Partition],
    only: set[Partition] | None,
) -> None:
    """Partitions that the line does not list are led by their preferred replica, this broker."""
    simulation = world.simulation
    for partition in list(simulation.rows) if only is None else only:
        if partition in listed:
            continue
        for row in simulation.rows_of(partition):
            if simulation.preferred(row) != line.said["broker"] or not simulation.is_led(row):
                continue
            checks = COMPARE["not_preferred"](
                Case(view, line, {"preferred": True}, row)
            )
            start = len(simulation.possibility[row].starts)
            world.traces.setdefault(row, Trace()).checks += [
                (number, start, check) for check in checks
            ]


# --- judging possibilities ----------------------------------------------------------------------


def judge(possibility: Possibility, trace: Trace) -> tuple[float, dict[str, int]]:
    """Cost of the lines that a possibility disagrees with, and the counts it must start from.

    A value that counts from an unknown start takes its start from what most lines say.
    """
    wrong = 0.0
    unknown = dict(zip(("epoch", "version", "record_epoch"), possibility.unknown(), strict=True))
    votes: dict[str, Counter[int]] = {}
    for _, start, check in trace.checks:
        if check.predicted is None:
            continue
        kind = check.counted
        if kind and unknown[kind] and start == len(possibility.starts) and (
            check.predicted is not MISSING
        ):
            if kind == "record_epoch":
                if check.predicted == UNKNOWN_EPOCH:
                    votes.setdefault(kind, Counter())[check.logged] += 1
                elif check.logged != check.predicted:
                    wrong += 1
            else:
                votes.setdefault(kind, Counter())[check.logged - check.predicted] += 1
        elif not agrees(check):
            wrong += 1
    found: dict[str, int] = {}
    known = possibility.starts[-1].leader_epoch if possibility.starts else None
    for kind in sorted(votes):  # The epoch before the version, which is never behind it.
        counted = votes[kind]
        least = 0 if kind != "version" else max(found.get("epoch", known or 0), 0)
        value, n = max(
            ((value, n) for value, n in counted.items() if value >= least),
            key=lambda pair: (pair[1], -pair[0]), default=(least, 0),
        )
        wrong += sum(counted.values()) - n
        found[kind] = value
    return wrong, found


@dataclass
class Contest:
    """Possibilities of one partition, of which one won.

    Attributes
    ----------
    reason : str
        Why there was a choice.
    begin : int
        First line that could decide.
    winner : Trace
    losers : list of Trace
    """

    reason: str
    begin: int
    winner: Trace
    losers: list[Trace]

    def decided_by(self) -> Iterator[tuple[int, str]]:
        """Lines and fields that ruled a loser out: the log is the only source of what they say."""
        alive = [
            {(n, check.field, check.logged): check for n, _, check in loser.checks
             if n >= self.begin} for loser in self.losers
        ]
        shifts: list[dict[str, int]] = [{} for _ in alive]
        out: set[int] = set()
        for number, _, check in self.winner.checks:
            if number < self.begin or not agrees(check):
                continue
            decided = False
            for at, checks in enumerate(alive):
                if at in out:
                    continue
                other = checks.get((number, check.field, check.logged))
                if other is not None and not _fits(other, shifts[at]):
                    out.add(at)
                    decided = True
            if decided:
                yield number, check.field


def _fits(check: Check, shift: dict[str, int]) -> bool:
    """Whether a check of a loser agrees, given that its counts may start anywhere."""
    if check.predicted is MISSING or check.predicted is None:
        return check.predicted is None
    if not check.counted or not isinstance(check.predicted, int):
        return agrees(check)
    difference = check.logged - check.predicted
    return bool(shift.setdefault(check.counted, difference) == difference)


# --- what a record may have been ----------------------------------------------------------------


def starts_of(
    replicas: Sequence[int], ordered: bool, point: LogEvent, reason: str
) -> Iterable[tuple[Start, float]]:
    """Everything that a record may have been: leader and ISR, with how unlikely each is."""
    orders: Iterable[tuple[int, ...]] = [tuple(replicas)]
    if not ordered and len(replicas) <= 3:
        orders = itertools.permutations(replicas)
    for order in orders:
        for size in range(len(order), 0, -1):
            if len(order) > 4 and size not in (1, len(order) - 1, len(order)):
                continue
            for isr in itertools.combinations(order, size):
                for leader in (*isr, -1):
                    odd = (len(order) - size) + (leader != order[0]) + (leader < 0)
                    yield Start(point, reason, leader, isr, order), UNLIKELY * odd

