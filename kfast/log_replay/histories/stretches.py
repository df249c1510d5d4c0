"""Find out what the log does not say: records before it begins, and what holes hide.

The log of a cluster is cut at every failover and hole. Stretch by stretch, every partition is
simulated from what it was at the end of the last stretch. Where that does not agree with the
lines, and at the beginning, all that its record may have been is simulated side by side, and the
lines choose. Adopting a record costs more than one wrong line: a single line that disagrees with
all others stays a contradiction.
"""

from __future__ import annotations

import bisect
import copy
import itertools
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kfast.log_replay.checks import MISSING, Check, agrees
from kfast.log_replay.comparison.facts import ANSWER, BEFORE, BETWEEN, HOLE, WRITTEN
from kfast.log_replay.comparison.worlds import Trace, World, compare_of, run_event
from kfast.log_replay.engine.rows import UNKNOWN_EPOCH, Possibility, Start
from kfast.log_replay.events.events import POINTS, LogEvent
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition, distinct

COST = {BEFORE: 0.0, HOLE: 1.2, BETWEEN: 1.6, ANSWER: 2.2, WRITTEN: 1.6}
"""What adopting costs, in lines that disagree."""

UNLIKELY = 0.05
"""Added for each thing that is not as it usually is: so that ties go to the usual."""

FEW_LINES, FAR = 256, 3
"""After so many lines, and each time after twice as many, no more are compared with what disagrees
so much more often than another possibility of its partition."""


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
        self.lines = cluster.lines[
            bisect.bisect_left(cluster.lines, self.begin) :
            bisect.bisect_left(cluster.lines, self.end)
        ]
        self.point = next((e for e in self.events if e.kind in POINTS), self.events[0])

    def lines_about(self, partitions: Iterable[Partition]) -> list[int]:
        """Lines of the stretch that may say anything of some partitions."""
        about = self.cluster.lines_about
        lists = [about.get(None, []), *(about.get(partition, []) for partition in partitions)]
        return sorted({
            number for listed in lists
            for number in listed[
                bisect.bisect_left(listed, self.begin) : bisect.bisect_left(listed, self.end)
            ]
        })

    def with_events(self, events: list[LogEvent]) -> Stretch:
        """Make a stretch of the same lines with other events."""
        other = copy.copy(self)
        other.events = events
        return other


def before_balancing(events: Sequence[LogEvent], place: int) -> int:
    """Place of the check for imbalance that an automatic election stands after, else its own.

    A check reads the ISRs before its elections.
    """
    while place > 1 and events[place].kind == "election" and (
        events[place].fields["trigger"] == "AutoTriggered"
        and events[place - 1].kind in ("rebalance", "election")
    ):
        place -= 1
    return place


def go_through(
    world: World, stretch: Stretch, lines: Iterable[int], only: set[Partition] | None = None,
    *, leave_behind: bool = False,
) -> None:
    """Run a stretch's events and compare some of its lines, for all partitions or for some.

    With `leave_behind`, a possibility that is far behind another one is compared with no more
    lines: whether it could have won all the same is for the caller to see.
    """
    pending, enough = deque(stretch.events), FEW_LINES
    for n_compared, number in enumerate(lines):
        if leave_behind and n_compared == enough:
            _leave_behind(world)
            enough *= 2
        while pending and pending[0].at <= number:
            run_event(world, pending.popleft())
        line = stretch.statements[number]
        if line.kind == "process_started":
            world.brokers.start_by(line)
        else:
            _compare(world, stretch, line, number, only)
    for event in pending:
        run_event(world, event)


def _compare(
    world: World, stretch: Stretch, line: Statement, number: int, only: set[Partition] | None
) -> None:
    compare = compare_of(line)
    if compare is None:
        return
    simulation = world.simulation
    case = world.case(line, id(stretch.cluster.term_of.get(number)))
    compared = [
        (row, compare(case._replace(fields=fields, row=row)))
        for partition, fields in subjects(line) if only is None or partition in only
        for row in simulation.rows_of(partition) if not world.traces[row].is_behind
    ] + [
        (row, [check]) for row, check in world.unlisted(line, only)
        if not world.traces[row].is_behind
    ]
    for row, checks in compared:
        possibility = simulation.possibility[row]
        start = len(possibility.starts)
        world.traces[row].checks += [(number, start, c) for c in checks]
        for check in checks if any(possibility.unknown()[:2]) else ():
            if check.counted and isinstance(check.predicted, int):
                possibility.note_offset(check.counted, check.logged, check.predicted)


def _leave_behind(world: World) -> None:
    """Mark what lines disagree with much more than with another possibility of its partition."""
    for partition, rows in world.simulation.rows.items():
        if len(rows) > 1:
            lives = [
                life for life in world.lives([partition])
                if life.row is not None and not life.trace.is_behind
            ]
            wrong = [judge(life.possibility, life.trace)[0] for life in lives]
            for life, n_wrong in zip(lives, wrong, strict=True):
                life.trace.is_behind = n_wrong > min(wrong) + FAR


# --- judging possibilities ----------------------------------------------------------------------


def judge(possibility: Possibility, trace: Trace) -> tuple[float, dict[str, int]]:
    """Cost of the lines that a possibility disagrees with, and the counts it must start from.

    A value that counts from an unknown start takes its start from what most lines say.
    """
    wrong = trace.wrong
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
    if not check.counted or not isinstance(check.predicted, int) or (
        check.counted == "record_epoch" and check.predicted != UNKNOWN_EPOCH
    ):
        return agrees(check)
    difference = check.logged - check.predicted
    return bool(shift.setdefault(check.counted, difference) == difference)


# --- what a record may have been ----------------------------------------------------------------


def not_written(replicas: Sequence[int], point: LogEvent) -> Start:
    """A partition whose first record the new controller writes."""
    return Start(point, BEFORE, -1, (), tuple(replicas), 0, 0, 0, is_written=False)


def starts_of(
    replicas: Sequence[int], point: LogEvent, reason: str, later_isr: Iterable[int] = ()
) -> Iterator[tuple[Start, float]]:
    """Everything that a record may have been: leader and ISR, with how unlikely each is.

    A reassignment may leave a member of the ISR that is assigned no more: the next record has it.
    """
    order = tuple(replicas)
    members = distinct((*order, *later_isr))
    for size in range(len(members), 0, -1):
        if len(members) > 4 and size not in (1, len(order) - 1, len(order)):
            continue
        for isr in itertools.combinations(members, size):
            for leader in (*isr, -1):
                odd = (len(order) - size) + (leader != order[0]) + (leader < 0)
                yield Start(point, reason, leader, isr, order), UNLIKELY * odd


def starts_led_by_first(
    replicas: Sequence[int], point: LogEvent, reason: str
) -> Iterator[tuple[Start, float]]:
    """The same of replicas whose order is not known, where a leader is the first of them."""
    for first in replicas:
        order = (first, *(broker for broker in replicas if broker != first))
        for start, odd in starts_of(order, point, reason):
            if start.leader == first or (start.leader < 0 and first == replicas[0]):
                yield start, odd
