"""A simulation with what brokers remember, and what lines were compared with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kfast.log_replay.brokers import BrokerSide, Heard
from kfast.log_replay.checks import Check
from kfast.log_replay.comparison.broker_lines import BROKER_COMPARE
from kfast.log_replay.comparison.cases import Case, Compare
from kfast.log_replay.comparison.partition_lines import COMPARE, LED_BY_PREFERRED
from kfast.log_replay.engine.handlers import run
from kfast.log_replay.engine.rows import Possibility
from kfast.log_replay.engine.simulation import Ran, Simulation
from kfast.log_replay.events.events import POINTS, LogEvent, is_hole
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Partition


@dataclass
class Trace:
    """Checks of one possibility in the stretch at hand.

    Attributes
    ----------
    checks : list of (int, Check)
        Line by line.
    wrong : float
        Checks of earlier stretches that disagree.
    """

    checks: list[tuple[int, Check]] = field(default_factory=list)
    wrong: float = 0.0


class Life(NamedTuple):
    """A possibility with its checks; `row` is None where it is simulated no more."""

    possibility: Possibility
    trace: Trace
    row: int | None


@dataclass
class World:
    """A simulation with what brokers remember and the traces of its rows.

    `gone` has the possibilities of partitions that were deleted in the stretch at hand, `behind`
    those that lines disagreed with so often that they are simulated no more.
    """

    simulation: Simulation
    brokers: BrokerSide
    traces: defaultdict[int, Trace] = field(default_factory=lambda: defaultdict(Trace))
    gone: dict[Partition, list[Life]] = field(default_factory=dict)
    behind: dict[Partition, list[Life]] = field(default_factory=dict)

    def life(self, row: int) -> Life:
        """The possibility of a row."""
        return Life(self.simulation.possibility[row], self.traces[row], row)

    def lives(self, partitions: Iterable[Partition]) -> Iterator[Life]:
        """All possibilities of some partitions: those there are, and those that were deleted."""
        for partition in partitions:
            yield from self.gone.get(partition, ())
            yield from map(self.life, self.simulation.rows.get(partition, ()))

    def bury(self, row: int, possibility: Possibility) -> None:
        """Keep what became of a row whose partition was deleted."""
        life = Life(possibility, self.traces.pop(row, Trace()), None)
        self.gone.setdefault(possibility.partition, []).append(life)

    def bury_remains(self) -> set[int]:
        """Keep rows of which a reassignment alone is left, where their partition was made again."""
        simulation, remains = self.simulation, set[int]()
        for rows in simulation.rows.values():
            left = {row for row in rows if not simulation.is_assigned(row)}
            if len(left) < len(rows):
                remains |= left
        for row in sorted(remains):
            life = self.life(row)._replace(row=None)
            self.gone.setdefault(life.possibility.partition, []).append(life)
        return remains

    def leave_behind(self, rows: set[int]) -> None:
        """Simulate rows no more; their traces stay in `behind`, and rows get new numbers."""
        for row in sorted(rows):
            life = self.life(row)._replace(row=None)
            self.behind.setdefault(life.possibility.partition, []).append(life)
        if rows:
            self.rebuild(rows)

    def drop_vanished(self, event: LogEvent) -> None:
        """Drop partitions that must have gone unseen before an event.

        A new controller does not list them after a hole, or finds them without a record, or their
        topics are created again. What was adopted for the event itself stays.
        """
        fields, simulation = event.fields, self.simulation
        topics = partitions = None
        unwritten = fields.get("unwritten", ())
        if event.kind in POINTS and is_hole(event):
            topics, partitions = fields.get("listed"), fields.get("partitions")
        created = fields["names"] if event.kind == "topics" and not event.inferred else ()
        gone = {
            row for partition, rows in simulation.rows.items() for row in rows
            if (partition[0] in created and simulation.is_assigned(row))
            or (partition in unwritten and simulation.is_led(row))
            or (topics is not None and partition[0] not in topics)
            or (partitions is not None and partition not in partitions)
            if all(start.point is not event for start in simulation.possibility[row].starts)
        }
        for row in gone:
            self.bury(row, simulation.possibility[row])
        if gone:
            self.rebuild(gone)

    def rebuild(
        self, dropped: set[int], added: Sequence[tuple[Possibility, dict[str, Any]]] = ()
    ) -> None:
        """Change the rows; traces and memories go with them."""
        moved = self.simulation.rebuild(dropped, added)
        self.brokers.move_rows(moved)
        self.traces = defaultdict(
            Trace, {moved[row]: trace for row, trace in self.traces.items() if row in moved}
        )
        for row, (possibility, _) in enumerate(added, len(moved)):
            self.traces[row] = Trace(wrong=possibility.inherited)

    def only(self, partitions: Container[Partition]) -> World:
        """Make an independent copy with the rows of some partitions alone."""
        world = copy_of(self)
        world.rebuild({
            row for row, possibility in enumerate(world.simulation.possibility)
            if possibility.partition not in partitions
        })
        return world

    def case(self, line: Statement, term: int) -> Case:
        """A line, before it is compared with a row."""
        return Case(self.simulation, self.brokers, term, line, line.fields, -1)

    def unlisted(
        self, line: Statement, only: Container[Partition] | None = None
    ) -> Iterator[tuple[int, Check]]:
        """Checks of what a line of unbalanced leaders leaves out: its broker leads all others."""
        if line.kind != "not_preferred":
            return
        simulation, broker = self.simulation, line.fields["broker"]
        leaders = simulation.leaders()
        for row in simulation.rows_led_if_preferred(broker):
            partition = simulation.possibility[row].partition
            if partition not in line.fields["partitions"] and (only is None or partition in only):
                leader = simulation.leaders_before.get(row, leaders[row])
                yield row, Check(LED_BY_PREFERRED, True, leader == broker)


def compare_of(line: Statement) -> Compare | None:
    """What compares a line with the rows of the partitions that it speaks of."""
    return (BROKER_COMPARE if line.actor == "broker" else COMPARE).get(line.kind)


def copy_of(world: World) -> World:
    """Make an independent copy of a world."""
    return World(
        world.simulation.copy(), world.brokers.copy(),
        defaultdict(Trace, {
            row: replace(trace, checks=list(trace.checks)) for row, trace in world.traces.items()
        }),
        {p: list(some) for p, some in world.gone.items()},
    )


def run_event(world: World, event: LogEvent) -> Ran:
    """Run one event, and let brokers know what it means for them."""
    simulation = world.simulation
    if event.kind == "failover":
        simulation.undo_cut()
    world.drop_vanished(event)
    simulation.begin(event)
    before, registered = list(simulation.possibility), simulation.registered
    rows = simulation.rows
    ran = run(simulation, event)
    if simulation.rows is not rows:  # Some were created or freed.
        for partition, some in rows.items():
            for row in some:
                if row not in simulation.rows.get(partition, ()):
                    world.bury(row, before[row])
        for row, possibility in enumerate(simulation.possibility):
            if row >= len(before) or before[row] is not possibility:  # Of another partition now.
                world.traces[row] = Trace()
                world.brokers.rows.pop(row, None)
    if event.kind == "resume":
        _remember_all(world)
    if event.kind == "failover":
        if is_hole(event):
            world.brokers.leave_hole(event.time)
        for broker in simulation.registered:
            if is_hole(event) or broker not in registered:
                world.brokers.register(broker, event.time)
    if event.kind == "brokers":
        for broker in (*event.fields["added"], *event.fields["bounced"]):
            world.brokers.register(broker, event.time)
    return ran


def _remember_all(world: World) -> None:
    """Where the log goes on, live brokers have heard of every record as it is then.

    One that was started right before has not: the first that tells another than none proves it.
    """
    simulation = world.simulation
    live = simulation.registered
    for row in range(len(simulation.possibility)):
        leadership = simulation.state.leadership(row)
        if leadership is not None and leadership.leader in live:
            heard = Heard(leadership.leader_epoch, leadership.leader)
            for broker in live.intersection(simulation.state.assignment(row).replicas):
                world.brokers.rows[row].heard[broker] = heard
    for broker in live:
        world.brokers.fresh[broker] = False
    world.brokers.unproven |= live
