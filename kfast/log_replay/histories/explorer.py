"""What is found of the histories of a cluster's partitions, and the choice between them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from types import MappingProxyType

from kfast.controllers import Profile, find_profile
from kfast.log_replay.brokers import BrokerSide
from kfast.log_replay.comparison.facts import BEFORE, BETWEEN, HOLE
from kfast.log_replay.comparison.missing_decisions import DecisionLines
from kfast.log_replay.comparison.worlds import Life, Trace, World
from kfast.log_replay.engine.predictions import RowItems
from kfast.log_replay.engine.rows import UNKNOWN_EPOCH, Possibility, Start, least_counts, made_anew
from kfast.log_replay.engine.simulation import NO_ITEMS, Simulation
from kfast.log_replay.events.events import POINTS, LogEvent
from kfast.log_replay.histories.epoch_offsets import settle, shifted
from kfast.log_replay.histories.stretches import (
    COST,
    Contest,
    Stretch,
    judge,
    starts_led_by_first,
    starts_of,
)
from kfast.log_replay.lookahead.clusters import Cluster
from kfast.log_replay.lookahead.states_at_resumption import lines_with_states
from kfast.log_replay.steps import Steps
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Assigned, Partition

UNSTATED = 0.5
"""What a decision costs that no line states, in lines that disagree: the line may be lost."""

Troubled = dict[Partition, float]
"""Partitions that lines disagree with, and how many."""


class Explorer:
    """Finds the most likely history of every partition of a cluster.

    Parameters
    ----------
    cluster : Cluster
        Its list of events grows where hidden events are found, and `reassigned`.
    statements : sequence of Statement
    profile : str or Profile
    steps : Steps

    Attributes
    ----------
    histories : dict
        The history of each partition, up to the stretch at hand.
    adopted : dict
        Facts that were taken from the log: (line, partition, field) to the reason.
    first : int
        Place of the first event of the stretch at hand.
    deleting : set of str
        Topics that are being deleted where that begins.
    """

    def __init__(
        self, cluster: Cluster, statements: Sequence[Statement], profile: str | Profile,
        steps: Steps,
    ) -> None:
        self.cluster = cluster
        self.statements = statements
        self.profile = profile
        self.steps = steps
        self.histories: dict[Partition, Possibility] = {}
        self.decision_lines = DecisionLines(
            cluster, statements, find_profile(profile).name.removeprefix("zk-")
        )
        self.world = World(Simulation(profile, cluster.unclean), BrokerSide())
        self.world.simulation.alone = False
        self.numbers = 0
        self.known: dict[Partition, float] = {}
        self.unheard: set[Partition] = set()
        self.unlisted: set[Partition] = set()
        self.contests: list[Contest] = []
        self.undecided: set[Partition] = set()
        self.deleting: set[str] = set()
        self.first = 0
        self.adopted: dict[tuple[int, Partition, str], str] = {
            (number, partition, "transition"): BEFORE if point is cluster.events[0] else HOLE
            for point, partition, number in lines_with_states(cluster.events)
        }

    def cut(self) -> None:
        """Leave out of the cluster what has not been gone through."""
        events, lines = self.cluster.events, self.cluster.lines
        if self.first < len(events):
            del lines[bisect.bisect_left(lines, events[self.first].at) :]
        del events[self.first :]

    @property
    def stretch(self) -> Stretch:
        """The stretch at hand, with the events that were found in it so far."""
        return Stretch(self.cluster, self.statements, self.first, self.next_cut(self.first))

    def everywhere(self) -> list[Partition]:
        """Partitions that are there, and those deleted in the stretch at hand."""
        return list(dict.fromkeys((*self.world.gone, *self.world.simulation.rows)))

    def has_choice(self) -> bool:
        """Whether there are several possibilities of any partition."""
        return any(len(rows) > 1 for rows in self.world.simulation.rows.values())

    def next_cut(self, first: int) -> int:
        """Place where the stretch after the one that begins with an event begins."""
        events = self.cluster.events
        at = next(at for at in range(first, len(events)) if events[at].kind != "isr_written") + 1
        return next((at for at in range(at, len(events)) if events[at].kind in POINTS), len(events))

    def end_stretch(self) -> None:
        """Keep of the stretch at hand what was adopted, and how much of each trace disagrees."""
        world = self.world
        for contest in self.contests:
            for number, field in contest.decided_by():
                self.adopted.setdefault((number, contest.partition, field), contest.reason)
        self.contests.clear()
        for partition in world.gone:
            self.known.pop(partition, None)
        world.gone.clear()
        for row, trace in world.traces.items():
            life = world.life(row)
            if any(check.field in ("leader", "isr") for _, check in trace.checks):
                self.undecided.discard(life.possibility.partition)
            world.traces[row] = Trace(wrong=judge(life)[0])

    def add(
        self, world: World, point: LogEvent, parents: Iterable[Possibility],
        assignments: Mapping[Partition, Assigned] = MappingProxyType({}),
        *, every_order: bool = False,
    ) -> None:
        """Add a row for everything that the records of some partitions may be at a point.

        `parents` are what they were before; `assignments` those that have changed before it.
        `every_order` tries every order of replicas that no line tells.
        """
        added = []
        simulation = world.simulation
        for parent in parents:
            partition, before = parent.partition, None
            is_open = not (parent.starts or parent.creation) or partition in self.undecided
            reason = BEFORE if is_open else HOLE if partition in self.unheard else BETWEEN
            replicas = self.cluster.assignments.get(partition, ())
            adding, removing = self.cluster.moving.get(partition, ((), ()))
            rows = simulation.rows_of(partition)
            if rows:
                replicas, adding, removing = astuple(simulation.state.assignment(rows[0]))
                if not any(parent.unknown()[:2]):
                    before = simulation.state.leadership(rows[0])
            if partition in assignments:
                replicas, adding, removing = assignments[partition]
            isr, recovery = (
                self.cluster.next_value(self.statements, partition, point.at, name)
                for name in ("isr", "recovery")
            )
            starts = starts_of(replicas, point, reason, isr or ())
            if is_open and self.is_unordered(partition):
                starts = self._unordered_starts(partition, replicas, point, reason, every_order)
            for start, odd in starts:
                start = replace(
                    start, adding=adding, removing=removing, recovery=recovery or 0, before=before
                )
                self.numbers += 1
                possibility = replace(
                    parent, number=self.numbers, starts=[*parent.starts, start],
                    cost=parent.cost + COST[reason] + odd,
                )
                added.append((possibility, simulation.row_of(possibility)))
        if added:
            world.rebuild(set(), added)

    def is_unordered(self, partition: Partition) -> bool:
        """Whether the order of the first replicas of a partition is not known."""
        assigned = self.cluster.assignments.get(partition, ())
        return len(assigned) > 1 and partition not in self.cluster.ordered

    def _unordered_starts(
        self, partition: Partition, replicas: Sequence[int], point: LogEvent, reason: str,
        every_order: bool,
    ) -> Iterator[tuple[Start, float]]:
        """What a record may have been whose replicas have no known order, but for their first."""
        first = self.cluster.preferred.get(partition)
        if every_order:
            for order in itertools.permutations(replicas):
                if first in (None, order[0]):
                    yield from starts_of(order, point, reason)
        elif first is None:
            yield from starts_led_by_first(replicas, point, reason)
        else:
            yield from starts_of(replicas, point, reason)

    def add_unwritten(self, point: LogEvent) -> None:
        """Add a row for each partition of which a new controller finds no record."""
        simulation, added = self.world.simulation, []
        for partition, replicas in point.fields.get("unwritten", {}).items():
            if any(not simulation.is_led(row) for row in simulation.rows_of(partition)):
                continue
            self.numbers += 1
            adding, removing = self.cluster.moving.get(partition, ((), ()))
            start = Start(point, BEFORE, -1, (), tuple(replicas), 0, 0, 0, is_written=False,
                          adding=adding, removing=removing)
            possibility = Possibility(partition, self.numbers, [start])
            added.append((possibility, simulation.row_of(possibility)))
        if added:
            self.world.rebuild(set(), added)

    def choose(self) -> Troubled:
        """Keep the best row of each partition; returns those that lines disagree with, newly."""
        world = self.world
        simulation = world.simulation
        dropped = world.bury_remains()
        troubled: Troubled = {}
        for partition, lives in list(world.gone.items()):
            chosen = [self._best(partition, some) for some in _by_creation(lives)]
            world.gone[partition] = [life for life, _ in chosen]
            troubled[partition] = sum(wrong for _, wrong in chosen)
        for partition, rows in list(simulation.rows.items()):
            lives = [world.life(row) for row in rows if row not in dropped]
            best, wrong = self._best(partition, lives)
            dropped |= {row for row in rows if row != best.row}
            troubled[partition] = troubled.get(partition, 0.0) + wrong
        settled = [possibility for row, possibility in enumerate(simulation.possibility)
                   if row in simulation.rows.get(possibility.partition, ()) and row not in dropped]
        numbered = [possibility for possibility in settled if possibility.number]
        there = {(possibility.partition, id(possibility.creation)) for possibility in settled}
        lost = (life.possibility for lives in world.gone.values() for life in lives
                if (life.possibility.partition, id(life.possibility.creation)) not in there)
        for possibility in (*numbered, *lost):  # What deletes a topic looks at all of it again.
            possibility.number = 0
        if dropped or numbered:
            world.rebuild(dropped)
        world.behind.clear()
        return self.unexplained(troubled)

    def hasty(self) -> set[Partition]:
        """Partitions of which a possibility that was left behind might have come out best.

        It costs at least what the lines say that it was compared with.
        """
        return {partition for partition, behind in self.world.behind.items()
                if not self._are_beaten(behind, list(self.world.lives([partition])))}

    def _are_beaten(self, behind: Sequence[Life], contenders: Sequence[Life]) -> bool:
        """Whether each possibility left behind costs more, by its lines alone, than a contender."""
        costs = [(life.possibility, judge(life)[0] + UNSTATED * self._unstated(life))
                 for life in contenders]
        return all(any(
            other.creation is possibility.creation and wrong > cost
            and wrong + possibility.cost > cost + other.cost for other, cost in costs
        ) for possibility, wrong in ((life.possibility, judge(life)[0]) for life in behind))

    def unexplained(self, troubled: Troubled) -> Troubled:
        """Partitions that lines disagree with, newly, of some."""
        return {
            p: wrong for p, wrong in troubled.items() if wrong > self.known.get(p, 0.0) + 0.5
        }

    def _best(self, partition: Partition, lives: Sequence[Life]) -> tuple[Life, float]:
        """Settle the possibility that costs least; itself, and what disagrees with it."""
        judged = [(life, *judge(life)) for life in lives]
        behind = [life for life in self.world.behind.get(partition, ())
                  if life.possibility.creation is lives[0].possibility.creation]
        at = 0
        if len(judged) + len(behind) > 1:
            costs = [
                wrong + UNSTATED * (self._unstated(life) + _is_below(life.possibility, found))
                for life, wrong, found in judged
            ]
            at = min(range(len(judged)), key=lambda at: costs[at] + lives[at].possibility.cost)
            self._note_undecided(partition, lives[at], [
                life for life, cost in zip(lives, costs, strict=True) if cost <= costs[at]
            ])
            starts = lives[at].possibility.starts
            if lives[at].possibility.number and starts:  # Else the log has shown its creation.
                self.contests.append(Contest(
                    partition, starts[-1].reason, lives[at].trace,
                    [life.trace for life in (*lives, *behind) if life is not lives[at]],
                ))
        best, wrong, found = judged[at]
        self.settle(best, found)
        return best, wrong

    def _note_undecided(
        self, partition: Partition, best: Life, equals: Sequence[Life]
    ) -> None:
        """Note whether lines leave open who leads a partition from before the log, or its ISR."""
        state = self.world.simulation.state
        records = {
            (record.leader, frozenset(record.isr)) for life in equals if life.row is not None
            if (record := state.leadership(life.row)) is not None
        }
        from_before = [start.reason for start in best.possibility.starts[-1:]] == [BEFORE]
        if len(records) > 1 and from_before:
            self.undecided.add(partition)
        else:
            self.undecided.discard(partition)

    def _unstated(self, life: Life) -> float:
        """How many decisions of a possibility in the stretch at hand no line states.

        A topic is deleted once all of its partitions are: what a single one does tells nothing.
        """
        items = NO_ITEMS
        if life.row is not None and life.possibility.partition[0] not in self.deleting:
            items = self.world.simulation.items.get(life.row, NO_ITEMS)
        return self.decision_lines.unstated(items, self.cluster.events[self.first].number)

    def settle(self, life: Life, found: dict[str, int]) -> None:
        """Give a possibility what lines told of its start, and note which lines were the first."""
        if not found:
            return
        start = life.possibility.starts[-1]
        wanted = set(found) - ({"version"} if start.counts_alike else set())
        for number, check in life.trace.checks:
            if check.counted in wanted and shifted(check, found).predicted == check.logged and (
                check.counted != "record_epoch" or check.predicted == UNKNOWN_EPOCH
            ):
                wanted.discard(check.counted)
                self.adopted[number, life.possibility.partition, check.field] = start.reason
        settle(self.world, life, found)

    # --- trying out events ----------------------------------------------------------------------

    def companions(self, before: World, partitions: Iterable[Partition]) -> set[Partition]:
        """Partitions that what is predicted of some depends on, while topics are being deleted.

        A topic is deleted as a whole. Up to 1.1 each request names all that is to be deleted; where
        no line says which broker answers, all that are to answer may have.
        """
        events = self.stretch.events
        answers_next = any("halted" in event.fields for event in events)
        deletes = before.simulation.state.any_queued or any(
            event.kind == "delete" or event.fields.get("to_delete") for event in events
        )
        if not deletes:
            return set()
        if answers_next or before.simulation.controller.profile.metadata_has_deleted:
            return set(self.everywhere())
        topics = {topic for topic, _ in partitions}
        return {partition for partition in self.everywhere() if partition[0] in topics}

    def begin_again(self, before: World, partitions: set[Partition]) -> World:
        """The world at the beginning of a stretch, with what was chosen there for partitions."""
        world = before.only(partitions)
        simulation, point = world.simulation, self.stretch.point
        chosen = [
            possibility for possibility, _, _ in self.world.lives(sorted(partitions))
            if possibility.starts and possibility.starts[-1].point is point
        ]
        if chosen:
            dropped = {row for p in chosen for row in simulation.rows.get(p.partition, ())}
            world.rebuild(dropped, [(p, simulation.row_of(p)) for p in chosen])
        return world

    def begin_anew(self, before: World, partitions: set[Partition], born: set[Partition]) -> World:
        """The same; of those that are `born` there, with everything that their records may be."""
        companions = self.companions(before, partitions)
        world = self.begin_again(before, (partitions | companions) - born)
        self.add(world, self.stretch.point, [Possibility(p, 0) for p in sorted(born)])
        return world

    def keep_cheapest(self, world: World, partitions: Iterable[Partition]) -> None:
        """Keep what costs least of each of some partitions, also of each that was deleted."""
        simulation = world.simulation
        dropped: set[int] = set()
        for partition in partitions:
            rows = simulation.rows.get(partition, ())
            dropped.update(sorted(rows, key=lambda row: _cost(world.life(row)))[1:])
            if partition in world.gone:
                world.gone[partition] = [
                    min(lives, key=_cost) for lives in _by_creation(world.gone[partition])
                ]
        world.rebuild(dropped)

    def n_wrong(self, world: World, partitions: Iterable[Partition]) -> dict[Partition, float]:
        """How many checks of the stretch disagree in a world, by partition."""
        return {
            p: sum(judge(life)[0] - life.trace.wrong for life in world.lives([p]))
            for p in partitions
        }

    def take(
        self, world: World, partitions: set[Partition], reason: str, troubled: Troubled
    ) -> None:
        """Take some partitions' rows from another world, and note what decided for it."""
        lost = {p: [life.trace for life in self.world.lives([p])] for p in partitions}
        self.merge(world, partitions)
        for partition in sorted(partitions):
            troubled[partition] = 0.0
            lives = list(self.world.lives([partition]))
            for life, trace in zip(lives, lost[partition], strict=False):
                wrong, found = judge(life)
                self.settle(life, found)
                troubled[partition] += wrong
                self.contests.append(Contest(partition, reason, life.trace, [trace]))

    def merge(self, other: World, partitions: set[Partition]) -> None:
        """Take rows of some partitions from another world instead of one's own."""
        world = self.world
        for partition in sorted(partitions):
            world.behind.pop(partition, None)
            world.gone.pop(partition, None)
            if partition in other.gone:
                world.gone[partition] = other.gone[partition]
        dropped = {row for p in partitions for row in world.simulation.rows.get(p, ())}
        taken = sorted(row for p in partitions for row in other.simulation.rows.get(p, ()))
        tables = other.simulation.state.to_tables().partitions.to_pylist()
        places = other.simulation.places()
        added = [(other.simulation.possibility[row], tables[places[row]]) for row in taken]
        world.rebuild(dropped, added)
        first = len(world.simulation.possibility) - len(added)
        moved = {row: to for to, row in enumerate(taken, first)}
        for row, to in moved.items():
            world.simulation.stored[to] = other.simulation.stored[row]
            for name in ("unread", "waiting"):
                if row in getattr(other.simulation, name):
                    getattr(world.simulation, name)[to] = getattr(other.simulation, name)[row]
            world.simulation.items[to] = other.simulation.items.get(row, RowItems())
            world.traces[to] = other.life(row).trace
        if world.simulation.cut is not None and other.simulation.cut is not None:
            records = other.simulation.cut[1]
            for possibility, _ in added:
                key = possibility.topic, possibility.partition[1]
                if key in records:
                    world.simulation.cut[1][key] = records[key]
        other.brokers.move_rows(moved)
        world.brokers.rows.update(other.brokers.rows)


def _by_creation(lives: Iterable[Life]) -> list[list[Life]]:
    """Possibilities of a partition, apart for each time that it was created."""
    groups: dict[int, list[Life]] = {}
    for life in lives:
        groups.setdefault(id(life.possibility.creation), []).append(life)
    return list(groups.values())


def _cost(life: Life) -> float:
    """What a possibility costs, with the lines that it disagrees with."""
    return life.possibility.cost + judge(life)[0]


def _is_below(possibility: Possibility, counts: Mapping[str, int]) -> bool:
    """Whether the leader epoch that lines tell of a start is below what was before it."""
    start = possibility.starts[-1] if possibility.starts else None
    if start is None or start.before is None or "epoch" not in counts:
        return False
    counted = replace(start, leader_epoch=counts["epoch"], version=counts.get("version", 0))
    least = least_counts(start, start.before)["leader_epoch"]
    return counts["epoch"] < least and not made_anew(counted, start.before)
