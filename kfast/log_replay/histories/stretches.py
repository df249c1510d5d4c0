"""Find out what the log does not say: records before it begins, and what holes hide.

The log of a cluster is cut at every failover and hole. Stretch by stretch, every partition is
simulated from what it was at the end of the last stretch. Where that does not agree with the
lines, and at the beginning, all that its record may have been is simulated side by side, and the
lines choose. Adopting a record costs more than one wrong line: a single line that disagrees with
all others stays a contradiction. After a hole, in which anything may have happened, one is enough.
"""

from __future__ import annotations

import bisect
import copy
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from kfast.log_replay.checks import Check, agrees
from kfast.log_replay.comparison.facts import ANSWER, BEFORE, BETWEEN, HOLE, WRITTEN
from kfast.log_replay.comparison.worlds import Life, Trace, World, compare_of, run_event
from kfast.log_replay.engine.rows import UNKNOWN_EPOCH, Start
from kfast.log_replay.events.events import POINTS, LogEvent
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition, distinct

COST = {BEFORE: 0.0, HOLE: 0.8, BETWEEN: 1.6, ANSWER: 2.2, WRITTEN: 1.6}
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

    def place(self, number: int) -> int:
        """Place of the last event that begins by a line; -1 where none has."""
        return bisect.bisect_right(self.events, number, key=attrgetter("at")) - 1

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

    With `leave_behind`, a possibility that is far behind another one is simulated no more: whether
    it could have won all the same is for the caller to see.
    """
    pending, enough = deque(stretch.events), FEW_LINES
    for n_compared, number in enumerate(lines):
        if leave_behind and n_compared == enough:
            world.leave_behind(set(_far_behind(world)))
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
        for row in simulation.rows_of(partition)
    ] + [(row, [check]) for row, check in world.unlisted(line, only)]
    for row, checks in compared:
        possibility = simulation.possibility[row]
        world.traces[row].checks += [(number, check) for check in checks]
        for check in checks if any(possibility.unknown()[:2]) else ():
            if check.counted and isinstance(check.predicted, int) and (
                check.counted != "record_epoch" or check.predicted == UNKNOWN_EPOCH
            ):
                possibility.note_offset(check.counted, check.logged, check.predicted)


def _far_behind(world: World) -> Iterator[int]:
    """Rows that lines disagree with much more often than with another one of their partition."""
    for rows in world.simulation.rows.values():
        if len(rows) > 1:
            wrong = {row: judge(world.life(row))[0] for row in rows}
            yield from (row for row in rows if wrong[row] > min(wrong.values()) + FAR)


# --- judging possibilities ----------------------------------------------------------------------


def disagrees(check: Check) -> bool:
    """Whether a line says another value than the predicted one, if any is predicted."""
    return check.predicted is not None and not agrees(check)


def judge(life: Life) -> tuple[float, dict[str, int]]:
    """Cost of the lines that a possibility disagrees with, and the counts it must start from.

    A value that counts from an unknown start takes its start from what most lines say.
    """
    possibility, trace, _ = life
    wrong = trace.wrong
    unknown = dict(zip(("epoch", "version", "record_epoch"), possibility.unknown(), strict=True))
    votes: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for _, check in trace.checks:
        kind, predicted = check.counted, check.predicted
        is_open = bool(kind) and unknown[kind] and isinstance(predicted, int)
        if is_open and kind != "record_epoch":
            votes[kind][check.logged - predicted] += 1
        elif is_open and predicted == UNKNOWN_EPOCH:
            votes[kind][check.logged] += 1
        elif disagrees(check):
            wrong += 1
    found: dict[str, int] = {}
    for kind in sorted(votes):  # The epoch before the version, which is never behind it.
        counted = votes[kind]
        start = possibility.starts[-1]
        least, alike = 0, False
        if kind == "version":
            epoch = found.get("epoch", start.leader_epoch)
            least, alike = max(epoch or 0, 0), start.counts_alike and epoch is not None
        value, n = max(
            ((value, n) for value, n in counted.items() if value >= least and not alike),
            key=lambda pair: (pair[1], -pair[0]), default=(least, counted[least]),
        )
        wrong += sum(counted.values()) - n
        found[kind] = value
    return wrong, found


@dataclass
class Contest:
    """Possibilities of one partition, of which one won.

    Attributes
    ----------
    partition : Partition
    reason : str
        Why there was a choice.
    winner : Trace
    losers : list of Trace
    """

    partition: Partition
    reason: str
    winner: Trace
    losers: list[Trace]

    def decided_by(self) -> Iterator[tuple[int, str]]:
        """Lines and fields that ruled a loser out: the log is the only source of what they say."""
        alive: list[tuple[dict[tuple[int, str, Any], Check], dict[str, int]]] = [
            ({(n, check.field, check.logged): check for n, check in loser.checks}, {})
            for loser in self.losers
        ]
        for number, check in self.winner.checks:
            if not agrees(check):
                continue
            name = number, check.field, check.logged
            fitting = [
                (checks, shift) for checks, shift in alive
                if name not in checks or _fits(checks[name], shift)
            ]
            if len(fitting) < len(alive):
                alive = fitting
                yield number, check.field


def _fits(check: Check, shift: dict[str, int]) -> bool:
    """Whether a check of a loser agrees, given that its counts may start anywhere."""
    if not check.counted or not isinstance(check.predicted, int) or (
        check.counted == "record_epoch" and check.predicted != UNKNOWN_EPOCH
    ):
        return not disagrees(check)
    difference = check.logged - check.predicted
    return bool(shift.setdefault(check.counted, difference) == difference)


# --- what a record may have been ----------------------------------------------------------------


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
