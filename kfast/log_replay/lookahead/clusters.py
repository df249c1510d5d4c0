"""What is known of one cluster before it is simulated: its lines, events, assignments and births.

A log of several clusters is taken apart here; each is replayed for itself.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kfast.log_replay.events.announced_events import write_script
from kfast.log_replay.events.events import (
    BALANCE_MS,
    COVERED_MS,
    POINTS,
    LogEvent,
    first_registered,
    is_hole,
)
from kfast.log_replay.events.partly_logged_events import partly_logged_lines
from kfast.log_replay.events.unclean_topics import unclean_topics
from kfast.log_replay.lookahead.isr_changes import name_isr_changes
from kfast.log_replay.lookahead.last_isr_members import note_survivors
from kfast.log_replay.lookahead.states_at_resumption import note_states
from kfast.log_replay.terms.absent_controllers import HANDLED_MS, find_absent_controller_lines
from kfast.log_replay.terms.holes import (
    SILENCE_MS,
    begin_of_state_changes,
    find_holes,
    is_regular,
    note_holes,
)
from kfast.log_replay.terms.replaced_controllers import take_replaced_lines
from kfast.log_replay.terms.requests import ABOUT_PARTITIONS, note_sessions
from kfast.log_replay.terms.terms import Term, has_events
from kfast.log_replay.terms.uncovered_lines import (
    SEPARATE_MS,
    leave_out,
    uncovered_lines,
    unended_terms,
)
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.state_change_log import WRITTEN_THERE
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Assigned, Partition, Record, distinct

MOVING = frozenset({"assignment_updating", "assignment_stored", "reassign", "reassign_leader"})
"""Lines that name the replicas that a reassignment leads to."""


Move = tuple[tuple[int, ...], tuple[int, ...]]
"""Replicas that a reassignment adds and removes."""


@dataclass
class Cluster:
    """One cluster's part of the logs.

    Attributes
    ----------
    number : int
    terms : list of Term
    lines : list of int
        Numbers of its statements, in order.
    events : list of LogEvent
        Of all terms, in order; those of kind `resume` stand where the log begins again.
    assignments : dict
        First assignment of partitions that the log does not see created; None: order unknown.
    moving : dict
        Replicas that are being added and removed of those that are being reassigned by then.
    births : dict
        Failover or hole from which on such a partition exists.
    term_of : dict
        Term of each line that a controller wrote.
    ordered : set
        Partitions whose assignment is known in its order.
    preferred : dict
        The first of the replicas of others, where elections of preferred replicas tell it.
    unclean : mapping of str to int
        Topics whose own configuration enables unclean elections, since which line.
    absent_controller_lines : list of int
        Numbers of statements about decisions of controllers whose controller.log is not here.
    replaced_lines : list of int
        Numbers of statements of controllers after another one was elected.
    begun : dict
        Lines of the event that is under way where the log begins, or goes on after a hole, by the
        first line there of its controller.
    uncovered : dict
        Lines that controller.log does not cover, by the last of those that stand together.
    partly_logged_lines : list of list of int
        Those of them that are replayed without their event.
    absent : set of int
        Broker ids of controllers whose controller.log is not here.
    reassigned : set of Partition
        Those that seem to have got other replicas in a hole, after which no line lists them.
    lines_about : dict
        Lines that say anything of each partition; None: of those that they do not name.
    """

    number: int
    terms: list[Term]
    lines: list[int]
    events: list[LogEvent]
    assignments: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    moving: dict[Partition, Move] = field(default_factory=dict)
    births: dict[Partition, LogEvent] = field(default_factory=dict)
    term_of: dict[int, Term] = field(default_factory=dict)
    ordered: set[Partition] = field(default_factory=set)
    preferred: dict[Partition, int] = field(default_factory=dict)
    unclean: Mapping[str, int] = field(default_factory=dict)
    absent_controller_lines: list[int] = field(default_factory=list)
    replaced_lines: list[int] = field(default_factory=list)
    begun: dict[int, list[int]] = field(default_factory=dict)
    uncovered: dict[int, list[int]] = field(default_factory=dict)
    partly_logged_lines: list[list[int]] = field(default_factory=list)
    absent: set[int] = field(default_factory=set)
    reassigned: set[Partition] = field(default_factory=set)
    lines_about: dict[Partition | None, list[int]] = field(default_factory=dict)

    @cached_property
    def _terms_by_controller(self) -> dict[int, list[Term]]:
        terms: dict[int, list[Term]] = {}
        for term in self.terms:
            terms.setdefault(term.controller, []).append(term)
        return terms

    @cached_property
    def unassigned(self) -> set[Partition]:
        """Partitions that lines name, and no replica of which any line does."""
        named = {partition for partition in self.lines_about if partition is not None}
        return named - self.assignments.keys() - self.created.keys()

    @cached_property
    def unlisted_topics(self) -> set[str]:
        """Topics with such partitions from before the log, which lists not all that there are."""
        if any(event.kind == "failover" and "partitions" in event.fields for event in self.events):
            return set()
        return {topic for topic, _ in self.unassigned} - {topic for topic, _ in self.created}

    @cached_property
    def created(self) -> dict[Partition, int]:
        """Partitions that the log sees created, with the number of the line."""
        return {
            partition: event.at for event in reversed(self.events)
            if event.kind in ("topics", "partitions") for partition in event.fields["created"]
        }

    def is_assigned(self, partition: Partition, creation: LogEvent | None) -> bool:
        """Whether lines name the replicas of a partition in their order."""
        return creation is not None or partition in self.ordered

    def mentions(
        self, statements: Sequence[Statement], partition: Partition, at: int
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Lines about a partition from some line on, each with what it says of it."""
        lines = self.lines_about.get(partition, [])
        for number in itertools.islice(lines, bisect.bisect_left(lines, at), None):
            for named, fields in subjects(statements[number]):
                if named == partition:
                    yield number, fields

    def next_value(
        self, statements: Sequence[Statement], partition: Partition, at: int, name: str
    ) -> Any:
        """What the next record of a partition that names a field says at or after a line."""
        values = (getattr(fields.get("record"), name, None)
                  for _, fields in self.mentions(statements, partition, at))
        return next((value for value in values if value is not None), None)

    def next_counts(
        self, statements: Sequence[Statement], partition: Partition, at: int, *,
        by_brokers: bool = False,
    ) -> tuple[int, int] | None:
        """The next leader epoch and version of a partition that a line says together."""
        for number, fields in self.mentions(statements, partition, at):
            if statements[number].actor == "broker" and not by_brokers:  # They may be late.
                continue
            record = fields.get("record")
            values = fields if record is None else record._asdict()
            epoch, version = values.get("leader_epoch"), values.get("version")
            if epoch is not None and version is not None:
                return epoch, version
        return None

    def last_term(self, controller: int, time: int) -> Term | None:
        """The last term of a controller that has begun at some time.

        Brokers may tell of one before its own first line, where its log does not show it begin.
        """
        terms = self._terms_by_controller.get(controller, [])
        at = bisect.bisect_right(terms, time, key=lambda term: (
            term.start if term.opened else term.start - HANDLED_MS
        ))
        return terms[at - 1] if at else None


def split_clusters(
    statements: Sequence[Statement], terms: list[Term], unjudged: AbstractSet[int] = frozenset()
) -> list[Cluster]:
    """Clusters of the logs, each with its lines and events.

    Parameters
    ----------
    statements : sequence of Statement
    terms : list of Term
        Their lines change.
    unjudged : set of int
        Keys of `Cluster.begun` and `uncovered`, of lines that do not tell what happened.
    """
    if not terms:
        return [_without_events(0, statements, range(len(statements)))]
    owners = _owners(statements, terms)
    uncovered, out = _leave_uncovered(statements, terms, unjudged)
    unended = unended_terms([term for term in terms if term.statements], unjudged)
    for number in {term.cluster for term in terms}:
        note_holes(statements, [term for term in terms if term.cluster == number])
    absent_controller_lines = out | find_absent_controller_lines(statements, terms)
    lines_of: dict[int, list[int]] = defaultdict(list)
    for at, owner in enumerate(owners):
        lines_of[owner].append(at)
    clusters = []
    for number in sorted({term.cluster for term in terms}):
        own = [term for term in terms if term.cluster == number]
        all_lines = lines_of[number]
        if not any(has_events(statements, term) for term in own):
            clusters.append(_without_events(number, statements, all_lines))
            continue
        own = [term for term in own if term.statements]
        absent = [at for at in all_lines if at in absent_controller_lines]
        replaced = take_replaced_lines(statements, own, absent)
        own = [term for term in own if term.statements]
        lines = [
            at for at in all_lines if at not in absent_controller_lines and at not in replaced
        ]
        regular = is_regular(statements, own)
        holes = [(term, at) for term in own for at in find_holes(statements, term, regular)]
        begun = _partly_logged(statements, own, lines, holes)
        taken = {at: begun[at] for at in unjudged & begun.keys()}
        if taken:
            out = set().union(*taken.values())
            lines = [at for at in lines if at not in out]
            for term in own:
                term.statements = [at for at in term.statements if at not in out]
            own = [term for term in own if term.statements]
            if not own:
                clusters.append(_without_events(number, statements, all_lines))
                continue
        events = _events(statements, own, lines, holes)
        cluster = Cluster(
            number, own, lines, events, absent_controller_lines=absent,
            absent=_senders(statements, absent), replaced_lines=sorted(replaced), begun=begun,
            partly_logged_lines=list(taken.values()), unclean=unclean_topics(statements, lines),
            uncovered={
                at: uncovered.get(at) or _after_end(statements, lines, *unended[at])
                for at in (uncovered.keys() | unended.keys()) & set(lines)
            },
            term_of={at: term for term in own for at in term.statements},
        )
        note_sessions([statements[number] for number in lines])
        _give_epochs(statements, cluster)
        _learn_assignments(statements, cluster)
        _note_unwritten(statements, cluster)
        _learn_births(statements, cluster)
        note_survivors(statements, lines, events)
        note_states(statements, events)
        name_isr_changes(statements, lines, events)
        _note_completions(statements, cluster)
        clusters.append(cluster)
    return clusters


def _events(
    statements: Sequence[Statement], terms: list[Term], lines: Sequence[int],
    holes: Sequence[tuple[Term, int]],
) -> list[LogEvent]:
    """Events of the terms of a cluster, in order."""
    events = [event for term in terms for event in write_script(statements, term)]
    events += _resumptions(statements, terms, holes)
    events.sort(key=lambda event: (event.at, event.kind != "resume"))
    for place, event in enumerate(events):  # What is found out later gets room in between.
        event.number = place
    _note_silences(statements, terms, events)
    _note_cut(statements, terms, events)
    begins = _first_places(statements, terms, lines)
    for event in events:
        if event.kind in POINTS and event.at in begins:
            event.at = lines[begins[event.at]]
            event.time = min(event.time, statements[event.at].entry.time)
    return events


def _leave_uncovered(
    statements: Sequence[Statement], terms: Sequence[Term], unjudged: AbstractSet[int]
) -> tuple[dict[int, list[int]], set[int]]:
    """Take lines that controller.log does not cover out of their terms: those left, those taken."""
    uncovered = uncovered_lines(statements, terms)
    out = set[int]().union(*(uncovered.pop(at) for at in unjudged & uncovered.keys()))
    for number in {term.cluster for term in terms} if out else ():
        leave_out(statements, [term for term in terms if term.cluster == number], out)
    return uncovered, out


def _after_end(
    statements: Sequence[Statement], lines: Sequence[int], term: Term, after: Term | None
) -> list[int]:
    """Lines after the last one of a term, until the next one has begun."""
    begin, end = bisect.bisect_right(lines, term.statements[-1]), len(lines)
    if after is not None:
        end = bisect.bisect_right(lines, after.start + COVERED_MS, begin,
                                  key=lambda number: statements[number].entry.time)
    return list(lines[begin:end])


def _note_completions(statements: Sequence[Statement], cluster: Cluster) -> None:
    """Note what later lines say of reassignments that ISR changes may complete."""
    later = any(event.kind == "caught_up" for event in cluster.events)
    for event in cluster.events:
        if event.kind == "isr":
            event.fields["completes_later"] = later
        if event.kind == "caught_up":
            partition = event.fields["partition"]
            counts = cluster.next_counts(statements, partition, event.at)
            event.fields["ahead"] = {} if counts is None else {partition: counts}


def _without_events(
    number: int, statements: Sequence[Statement], lines: Iterable[int]
) -> Cluster:
    """A cluster of which no controller.log is here: nothing tells what happened in it."""
    lines = [at for at in lines if statements[at].kind in WRITTEN_THERE | {"process_started"}]
    absent = _senders(statements, lines)
    return Cluster(number, [], [], [], absent_controller_lines=lines, absent=absent)


def _senders(statements: Sequence[Statement], lines: Sequence[int]) -> set[int]:
    """Controllers that write some lines, or that lines of brokers name with their epoch."""
    return {
        statements[at].fields["controller"] for at in lines
        if statements[at].fields.keys() >= {"controller", "controller_epoch"}
    } | {
        line.actor_id for line in (statements[at] for at in lines)
        if line.actor == "controller" and line.actor_id is not None
    }


def _owners(statements: Sequence[Statement], terms: list[Term]) -> list[int]:
    """Cluster of each line: its term's, else that of the request it is about or of its broker."""
    if len({term.cluster for term in terms}) == 1:
        return [terms[0].cluster] * len(statements)
    of_terms = {number: term.cluster for term in terms for number in term.statements}
    owners: list[int] = []
    last: dict[int | None, int] = {}
    nearest = _Nearest(terms)
    for number, line in enumerate(statements):
        if number in of_terms:
            owner = of_terms[number]
        elif line.actor != "broker":
            owner = nearest.cluster(line.entry.time, None, None)
        else:
            controller, epoch = map(line.fields.get, ("controller", "controller_epoch"))
            if controller is not None or line.actor_id not in last:
                last[line.actor_id] = nearest.cluster(line.entry.time, controller, epoch)
            owner = last[line.actor_id]
        owners.append(owner)
    return owners


class _Nearest:
    """Finds the term that is nearest in time among those with a controller and an epoch."""

    def __init__(self, terms: list[Term]) -> None:
        self.groups: dict[tuple[int | None, int | None], list[Term]] = {}
        for term in terms:
            possible = {term.epoch, None} if term.epoch is not None else {
                None, *(other.epoch for other in terms if other.controller == term.controller)
            }
            for key in [*((term.controller, epoch) for epoch in possible), (None, None)]:
                self.groups.setdefault(key, []).append(term)

    def cluster(self, time: int, controller: int | None, epoch: int | None) -> int:
        """Cluster of that term; without one of the epoch or the controller, of any.

        A term whose epoch no line says may have it.
        """
        keys = (controller, epoch), (controller, None), (None, None)
        terms = next(self.groups[key] for key in keys if key in self.groups)
        at = bisect.bisect_right(terms, time, key=lambda term: term.start)
        return min(terms[max(at - 1, 0) : at + 1], key=lambda term: (
            max(term.start - time, time - term.end, 0), -term.start
        )).cluster


def _partly_logged(
    statements: Sequence[Statement], terms: Sequence[Term], lines: Sequence[int],
    holes: Sequence[tuple[Term, int]],
) -> dict[int, list[int]]:
    """Lines of the event under way where the log of a controller begins, and after each hole."""
    begins = _first_places(statements, terms, lines)
    found = {
        term.statements[0]: partly_logged_lines(
            statements, term, 0, lines[begins[term.statements[0]] :]
        ) for term in terms if not term.opened
    }
    for term, at in holes:
        place = bisect.bisect_left(term.statements, at)
        last = term.statements[place - 1]
        silent = statements[last].entry.time + SEPARATE_MS
        found[at] = partly_logged_lines(statements, term, place, [
            number for number in lines[bisect.bisect_left(lines, last) :]
            if statements[number].entry.time > silent
        ])
    return found


def _first_places(
    statements: Sequence[Statement], terms: Sequence[Term], lines: Sequence[int]
) -> dict[int, int]:
    """Places of the first lines of terms that the log does not show beginning.

    By the first line of the controller. A broker's line about a request of it may come before that;
    in the first term any line.
    """
    places = {}
    for place, term in enumerate(terms):
        if term.opened:
            continue
        sender = {"controller": term.controller, "controller_epoch": term.epoch}.items()
        begin = bisect.bisect_left(lines, terms[place - 1].statements[-1]) if place else 0
        own = bisect.bisect_left(lines, term.statements[0])
        first = next((
            at for at in range(begin, own)
            if not place or statements[lines[at]].fields.items() >= sender
        ), own)
        before = statements[lines[first - 1]] if first > begin else None
        if before is not None and before.kind == "handling" and (  # It names the controller alone.
            before.fields["controller"] == term.controller
        ):
            first -= 1
        places[term.statements[0]] = first
    return places


def _resumptions(
    statements: Sequence[Statement], terms: Sequence[Term], holes: Sequence[tuple[Term, int]]
) -> list[LogEvent]:
    """Events with which terms go on after holes, or their state-change.log alone begins."""
    places: list[tuple[Term, int, dict[str, Any]]] = []
    for term, hole in holes:
        own = term.statements[bisect.bisect_left(term.statements, hole) :]
        if own:
            places.append((term, own[0], {"registered": first_registered(statements, own)}))
    for term in terms:
        begin = begin_of_state_changes(statements, term)
        if begin is not None:
            places.append((term, begin, {"registered": None, "only_states": True}))
    return [
        LogEvent("resume", statements[at].entry.time, at, {**fields, "hole": True}, term,
                 inferred=True)
        for term, at, fields in places
    ]


def _note_silences(
    statements: Sequence[Statement], terms: list[Term], events: Sequence[LogEvent]
) -> None:
    """Mark failovers before which no controller wrote anything for long."""
    times = sorted(statements[at].entry.time for term in terms for at in term.statements)
    for event in events:
        if event.kind == "failover":
            at = bisect.bisect_left(times, event.time)
            event.fields["hole"] = at > 0 and event.time - times[at - 1] > SILENCE_MS


def _note_cut(
    statements: Sequence[Statement], terms: Sequence[Term], events: Sequence[LogEvent]
) -> None:
    """Mark the last event of each controller that may not have ended it.

    It died within, or resigned later than another one was elected.
    """
    last = {id(event.term): event for event in events if event.kind != "resume"}
    for term, following in itertools.pairwise(terms):
        is_over = term.resigned and (term.closed or 0) <= following.start
        if id(term) in last and (term.refused or not is_over):
            event = last[id(term)]
            event.fields["cut"] = True
            if event.kind == "caught_up" and not any(
                statements[at].kind == "assignment_stored" for at in term.statements
                if at > event.at
            ):
                event.fields["unstored"] = event.fields["partition"]


def _give_epochs(statements: Sequence[Statement], cluster: Cluster) -> None:
    """Registration epochs of brokers that start, from the next line that lists them."""
    lists = [
        (number, statements[number].fields["epochs"]) for number in cluster.lines
        if statements[number].kind == "broker_epochs"
    ]
    places = [number for number, _ in lists]
    for event in cluster.events:
        if event.kind == "brokers":
            at = bisect.bisect_left(places, event.at)
            if at < len(lists):
                event.fields["epochs"] = lists[at][1]


# --- assignments ---------------------------------------------------------------------------------


def _learn_assignments(statements: Sequence[Statement], cluster: Cluster) -> None:
    """Lines about every partition, and the first assignment of those not seen created.

    The first ISR of a partition has its live replicas in the order of the assignment.
    """
    initial: dict[Partition, tuple[int, ...]] = {}
    votes: dict[Partition, Counter[tuple[int, ...]]] = {}
    moving: dict[Partition, Counter[Move]] = {}
    preferred: dict[Partition, Counter[int]] = {}
    announced: dict[Partition, int] = {}
    moved: set[Partition] = set()
    named: dict[Partition, set[int]] = {}
    holes = [event.at for event in cluster.events if event.kind in POINTS and is_hole(event)]
    for number in cluster.lines:
        line = statements[number]
        if line.kind in ("process_started", "not_preferred"):
            cluster.lines_about.setdefault(None, []).append(number)
        for partition, fields in subjects(line):
            cluster.lines_about.setdefault(partition, []).append(number)
            if partition in moved or number >= cluster.created.get(partition, number + 1):
                continue
            members = named.setdefault(partition, set())
            if line.kind in MOVING:
                origin, is_ordered = _origin(fields)
                members.update(origin)
                if is_ordered and (partition not in votes or "before" in fields):
                    votes[partition] = Counter({origin: 1})
                if partition in votes or members:
                    moved.add(partition)
                continue
            record = fields.get("record")
            if "states" in fields:
                members.update(fields["states"])
            if "replica" in fields:
                members.add(fields["replica"])
            if record is not None:
                members.update(record.isr)
                first = cluster.lines_about[partition][0]
                if record.adding is not None and (
                    bisect.bisect_right(holes, first) == bisect.bisect_right(holes, number)
                ):  # In a hole a reassignment may begin, or end.
                    moving.setdefault(partition, Counter())[record.adding, record.removing] += 1
                if record.leader >= 0:
                    members.add(record.leader)
                if line.kind == "partition_led" and fields["before"] == "NewPartition":
                    initial[partition] = record.isr
            for broker in _elected_as_preferred(line, partition, fields, announced):
                members.add(broker)
                preferred.setdefault(partition, Counter())[broker] += 1
            members.update(fields.get("isr", ()))
            listed = _listed(fields)
            if listed and line.kind != "not_assigned":
                votes.setdefault(partition, Counter())[listed] += 1
            if is_hosted(line) and line.actor_id is not None:
                members.add(line.actor_id)
    cluster.preferred = {p: elected.most_common(1)[0][0] for p, elected in preferred.items()}
    cluster.moving = {
        partition: most for partition, counted in moving.items()
        if any(most := counted.most_common(1)[0][0])
    }
    for partition, members in named.items():
        if partition in votes:
            cluster.assignments[partition] = _first(votes[partition])
            cluster.ordered.add(partition)
        elif members and set(initial.get(partition, ())) == members:
            cluster.assignments[partition] = initial[partition]
            cluster.ordered.add(partition)
        elif members:
            elected, live = preferred.get(partition, Counter()), initial.get(partition, ())
            cluster.assignments[partition] = tuple(sorted(members, key=lambda broker: (
                -elected[broker], live.index(broker) if broker in live else len(live), broker
            )))


def _listed(fields: Mapping[str, Any]) -> tuple[int, ...]:
    """Replicas of a partition that a line lists, if it does."""
    record: Record | None = fields.get("record")
    return distinct(fields.get("replicas") or (record.replicas if record else None) or ())


def _elected_as_preferred(
    line: Statement, partition: Partition, fields: Mapping[str, Any],
    announced: dict[Partition, int],
) -> tuple[int, ...]:
    """The preferred replica that a line tells, as it was elected.

    `announced` are the times at which elections were announced; it is changed.
    """
    if line.kind == "election" and fields["type"] == "PREFERRED":
        announced[partition] = line.entry.time
    elif line.kind == "preferred_done":
        return (fields["leader"],)
    elif line.kind == "partition_led" and fields["before"] == "OnlinePartition" and (
        line.entry.time - announced.pop(partition, -BALANCE_MS) < BALANCE_MS
    ):
        record = fields.get("record")
        return (fields["leader"] if record is None else record.leader,)
    return ()


def _origin(fields: Mapping[str, Any]) -> tuple[tuple[int, ...], bool]:
    """Replicas before a reassignment that a line tells of, and whether their order is known.

    The target stands first in what is stored: it is where none of them stays.

    Source: Kafka 3.9, ReplicaAssignment.scala, `reassignTo`.
    """
    before: Assigned | None = fields.get("before")
    if before is not None:
        return ((), False) if before.adding else (distinct(before.replicas), True)
    stored: Assigned | None = fields.get("assignment")
    if stored is None or not (stored.adding or stored.removing):
        return (), False
    origin = distinct(broker for broker in stored.replicas if broker not in stored.adding)
    return origin, set(origin) == set(stored.removing)


def is_hosted(line: Statement) -> bool:
    """Whether a broker says what it made of a partition in a LeaderAndIsr request: it hosts it."""
    request = str(line.fields.get("request", ""))
    return line.kind in ABOUT_PARTITIONS - {"cached_partition", "stopping"} and (
        not request.startswith("Stop")
    )


def _first(votes: Counter[tuple[int, ...]]) -> tuple[int, ...]:
    """The assignment that stood first, unless it stood once and another stands often."""
    ordered = list(votes.items())
    first, n = ordered[0]
    if n == 1 and len(ordered) > 1 and ordered[1][1] > 2:
        return ordered[1][0]
    return first


# --- births --------------------------------------------------------------------------------------


def _note_unwritten(statements: Sequence[Statement], cluster: Cluster) -> None:
    """Partitions of which a new controller finds no record, with their replicas.

    They were created while no controller was there to write it.

    Source: PartitionStateMachine.scala, `initializePartitionState`.
    """
    for event in cluster.events:
        if event.kind != "failover":
            continue
        partitions = [
            line.fields["partition"] for batch in event.batches
            for line in (*batch.led, *batch.failed)
            if line.kind != "replica_failed" and line.fields["before"] == "NewPartition"
        ]
        listed = {
            partition: _next_listed(statements, cluster, partition, event.at)
            for partition in (*partitions, *sorted(event.fields.get("new", ())))
        }
        event.fields["unwritten"] = {p: replicas for p, replicas in listed.items() if replicas}


def _next_listed(
    statements: Sequence[Statement], cluster: Cluster, partition: Partition, at: int
) -> tuple[int, ...]:
    """The assignment that is listed next after some line, else the first that is known.

    A partition that is created again later is another one. Where none is known, the first ISR is
    taken for it: it has the live replicas in their order.
    """
    first_isr: tuple[int, ...] = ()
    end = cluster.created.get(partition, at)
    for number, fields in cluster.mentions(statements, partition, at):
        if number >= end > at:
            break
        if statements[number].kind in MOVING:
            return _origin(fields)[0] or cluster.assignments.get(partition, ())
        if listed := _listed(fields):
            return listed
        if fields.get("record") is not None:
            first_isr = first_isr or fields["record"].isr
    return cluster.assignments.get(partition, first_isr)


def _learn_births(statements: Sequence[Statement], cluster: Cluster) -> None:
    """From which event on each partition exists that the log does not see created."""
    points = [event for event in cluster.events if event.kind in POINTS
              and not event.fields.get("only_states")]  # controller.log tells what is created.
    starts = [point.at for point in points]
    mentioned: dict[Partition, int] = {}
    listed: list[tuple[int, set[str]]] = []
    for number in cluster.lines:
        line = statements[number]
        for partition, _ in subjects(line):
            mentioned.setdefault(partition, number)
        if line.kind == "topics":
            listed.append((number, set(line.fields["topics"])))
        elif line.kind == "partition_states":  # It would mention the partition itself.
            listed.append((number, set()))
    made = {topic: event.at for event in reversed(cluster.events) if event.kind == "topics"
            for topic in event.fields["names"]}
    unwritten = {partition: point.at for point in reversed(points)
                 for partition in point.fields.get("unwritten", ())}
    for partition in cluster.assignments:
        seen = mentioned[partition]
        if unwritten.get(partition, len(statements)) <= seen:
            continue
        latest = max(bisect.bisect_right(starts, seen) - 1, 0)
        absent = [number for number, topics in listed
                  if number < seen and partition[0] not in topics]
        first = bisect.bisect_right(starts, absent[-1]) if absent else 0
        if made.get(partition[0], seen) < seen:
            first = latest  # Its topic was made without it, so it was added in a hole.
        if first <= latest:
            cluster.births[partition] = points[first]
