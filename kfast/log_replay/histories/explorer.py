"""What is found of the histories of a cluster's partitions, and the choice between them."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kfast.controllers import Profile
from kfast.log_replay.brokers import BrokerSide
from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.worlds import Life, Trace, World, copy_of
from kfast.log_replay.engine.predictions import RowItems
from kfast.log_replay.engine.rows import (
    UNKNOWN_EPOCH,
    Possibility,
    made_anew,
    row_of,
    with_states,
)
from kfast.log_replay.engine.simulation import Simulation
from kfast.log_replay.events.clusters import Cluster
from kfast.log_replay.events.events import POINTS, LogEvent
from kfast.log_replay.histories.epoch_offsets import settle, settle_trace, shifted
from kfast.log_replay.histories.stretches import (
    COST,
    Contest,
    judge,
    starts_of,
)
from kfast.log_replay.steps import Steps
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.values import Partition

IMPOSSIBLE = 3.0
"""Cost of an adopted record that cannot come after the one before."""


@dataclass
class Saved:
    """What an explorer has found at some time."""

    world: World
    known: dict[Partition, float]
    contests: dict[Partition, list[Contest]]
    first_statements: dict[Partition, list[tuple[int, str, str]]]
    events: list[LogEvent]


class Explorer:
    """Finds the most likely history of every partition of a cluster.

    Parameters
    ----------
    cluster : Cluster
        Its list of events grows where hidden events are found.
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
        self.world = World(Simulation(profile, cluster.unclean), BrokerSide())
        self.world.simulation.alone = False
        self.numbers = 0
        self.known: dict[Partition, float] = {}
        self.unheard: set[Partition] = set()
        self.contests: dict[Partition, list[Contest]] = {}
        self.first_statements: dict[Partition, list[tuple[int, str, str]]] = {}
        self.begin = -1
        self.first = 0
        self.past_cost = 0.0
        self.adopted: dict[tuple[int, Partition, str], str] = {}

    def cut(self) -> None:
        """Leave out of the cluster what has not been gone through."""
        events, lines = self.cluster.events, self.cluster.lines
        if self.first < len(events):
            del lines[bisect.bisect_left(lines, events[self.first].at) :]
        del events[self.first :]

    def everywhere(self) -> list[Partition]:
        """Partitions that are there, and those deleted in the stretch at hand."""
        return list(dict.fromkeys((*self.world.gone, *self.world.simulation.rows)))

    def next_cut(self, first: int) -> int:
        """Place where the stretch after the one that begins with an event begins."""
        events = self.cluster.events
        point = first
        while point < len(events) and events[point].kind == "isr_written":
            point += 1
        cut = next((at for at in range(point + 1, len(events)) if events[at].kind in POINTS), None)
        if cut is None:
            return len(events)
        while events[cut - 1].kind == "isr_written" and events[cut - 1].at == events[cut].at:
            cut -= 1
        return cut

    def cost(self, partitions: set[Partition]) -> float:
        """What some partitions' histories and the hidden events cost together."""
        total = self.past_cost + self._hidden_cost()
        for life in self.world.lives(partitions):
            total += judge(life.possibility, life.trace)[0] + life.possibility.cost
        return total

    def _hidden_cost(self) -> float:
        """What the hidden events of the stretch at hand cost."""
        events = self.cluster.events[self.first : self.next_cut(self.first)]
        return sum(COST[event.fields["reason"]] for event in events if "reason" in event.fields)

    def end_stretch(self) -> None:
        """Keep of the stretch at hand what was adopted, and how much of each trace disagrees."""
        self.past_cost += self._hidden_cost()
        world = self.world
        for partition, first_statements in self.first_statements.items():
            for number, field, reason in first_statements:
                self.adopted[number, partition, field] = reason
        for partition, contests in self.contests.items():
            for contest in contests:
                for number, field in contest.decided_by():
                    self.adopted.setdefault((number, partition, field), contest.reason)
        self.first_statements, self.contests = {}, {}
        for partition in world.gone:
            self.known.pop(partition, None)
        world.gone.clear()
        for row, trace in world.traces.items():
            wrong, _ = judge(world.simulation.possibility[row], trace)
            world.traces[row] = Trace(wrong=wrong)

    def save(self) -> Saved:
        """Everything that was found so far."""
        return Saved(
            copy_of(self.world), dict(self.known),
            {p: list(some) for p, some in self.contests.items()},
            {p: list(some) for p, some in self.first_statements.items()}, list(self.cluster.events),
        )

    def restore(self, saved: Saved) -> None:
        """Go back to what was found before; what was saved may be used once."""
        self.world, self.known = saved.world, saved.known
        self.contests, self.first_statements = saved.contests, saved.first_statements
        self.cluster.events[:] = saved.events

    def add(
        self, world: World, point: LogEvent, parents: dict[Partition, Possibility | None],
        reason: str, assignments: Mapping[Partition, tuple[int, ...]] | None = None,
    ) -> None:
        """Add a row for everything that the records of some partitions may be at a point.

        `assignments` are those that have changed before it.
        """
        added = []
        simulation = world.simulation
        up = point.fields.get("registered")
        for partition, parent in parents.items():
            replicas = self.cluster.assignments.get(partition, ())
            ordered = True
            if parent is not None:
                rows = simulation.rows_of(partition)
                replicas = simulation.state.assignment(rows[0]).replicas if rows else replicas
                replicas = (assignments or {}).get(partition, replicas)
            else:
                ordered = len(replicas) < 2 or partition in self.cluster.ordered
            for start, odd in starts_of(replicas, ordered, point, reason):
                self.numbers += 1
                starts = [*parent.starts, start] if parent is not None else [start]
                possibility = Possibility(
                    partition, self.numbers, starts, creation=parent.creation if parent else None
                )
                possibility.cost = COST[reason] + odd + (parent.cost if parent else 0.0)
                row = row_of(possibility, start)
                if point.kind == "resume":
                    live = simulation.registered if up is None else set(up)
                    everyone = live or set(replicas)
                    row = with_states(row, everyone)
                added.append((possibility, row))
        if added:
            self.rebuild(world, set(), added)

    def rebuild(
        self, world: World, dropped: set[int], added: list[tuple[Possibility, dict[str, object]]]
    ) -> None:
        """Change the rows of a world; traces and memories go with them."""
        moved = world.simulation.rebuild(dropped, added, None)
        world.brokers.move_rows(moved)
        world.traces = {moved[r]: trace for r, trace in world.traces.items() if r in moved}
        for row, (possibility, _) in enumerate(added, len(moved)):
            world.traces[row] = Trace(wrong=possibility.inherited)

    def choose(self) -> dict[Partition, float]:
        """Keep the best row of each partition; returns those that lines disagree with, newly."""
        world = self.world
        simulation = world.simulation
        dropped: set[int] = set()
        troubled: dict[Partition, float] = {}
        for partition, lives in list(world.gone.items()):
            groups: dict[int, list[Life]] = {}
            for life in lives:
                groups.setdefault(id(life.possibility.creation), []).append(life)
            chosen = [self._best(partition, some) for some in groups.values()]
            world.gone[partition] = [best[1] for best in chosen]
            wrong = sum(best[2] for best in chosen)
            if wrong > self.known.get(partition, 0.0) + 0.5:
                troubled[partition] = wrong
        for partition in list(simulation.rows):
            rows = simulation.rows[partition]
            best = self._best(partition, [
                Life(simulation.possibility[row], world.traces.setdefault(row, Trace()), row)
                for row in rows
            ])
            dropped |= {row for row in rows if row != best[1].row}
            if best[2] > self.known.get(partition, 0.0) * (partition not in world.gone) + 0.5:
                troubled[partition] = troubled.get(partition, 0.0) + best[2]
        if dropped:
            self.rebuild(world, dropped, [])
        return troubled

    def _best(
        self, partition: Partition, lives: Sequence[Life]
    ) -> tuple[float, Life, float, dict[str, int]]:
        """Settle the possibility that costs least; its cost, itself, what disagrees, its counts."""
        judged = []
        for life in lives:
            wrong, found = judge(life.possibility, life.trace)
            wrong += self._impossible(life.possibility, found)
            judged.append((wrong + life.possibility.cost, life, wrong, found))
        best = min(judged, key=lambda entry: entry[0])
        winner = best[1].possibility
        if len(lives) > 1 and winner.starts and winner.number:
            losers = [life.trace for life in lives if life is not best[1]]
            self.contests.setdefault(partition, []).append(
                Contest(winner.starts[-1].reason, self.begin, best[1].trace, losers)
            )
        self.settle(best[1], best[3])
        return best

    def settle(self, life: Life, found: dict[str, int]) -> None:
        """Give a possibility what lines told of its start, and note which lines were the first."""
        possibility = life.possibility
        if not found or not possibility.starts:
            return
        wanted = set(found)
        for number, start, check in life.trace.checks:
            if start != len(possibility.starts) or check.counted not in wanted:
                continue
            if check.predicted is MISSING or check.predicted is None:
                continue
            now = shifted(check, found)
            if now.predicted == check.logged and (
                check.counted != "record_epoch" or check.predicted == UNKNOWN_EPOCH
            ):
                wanted.discard(check.counted)
                self.first_statements.setdefault(possibility.partition, []).append(
                    (number, check.field, possibility.starts[-1].reason)
                )
        if life.row is None:
            settle_trace(possibility, life.trace, found)
        else:
            settle(self.world, life.row, found)

    def _impossible(self, possibility: Possibility, found: dict[str, int]) -> float:
        """Cost of an adopted record that cannot have followed the one before it."""
        last = possibility.last_known
        if last is None or not possibility.starts:
            return 0.0
        leader, isr, epoch, version = last
        start = possibility.starts[-1]
        new_epoch = found.get("epoch", start.leader_epoch)
        new_version = found.get("version", start.version)
        if made_anew(replace(start, leader_epoch=new_epoch, version=new_version), epoch, version):
            return 0.0
        cost = 0.0
        changed = start.leader != leader
        if epoch is not None and new_epoch is not None:
            cost += IMPOSSIBLE * (new_epoch < epoch + changed)
        if version is not None and new_version is not None:
            least = (new_epoch or 0) - (epoch or 0) if None not in (epoch, new_epoch) else 0
            differs = changed or set(start.isr) != set(isr)
            cost += IMPOSSIBLE * (new_version < version + max(least, int(differs)))
        return cost

    def only(self, world: World, partitions: set[Partition]) -> None:
        """Drop the rows of all other partitions from a world."""
        dropped = {
            row for row, possibility in enumerate(world.simulation.possibility)
            if possibility.partition not in partitions
        }
        self.rebuild(world, dropped, [])

    def merge(self, other: World, partitions: set[Partition]) -> None:
        """Take rows of some partitions from another world instead of one's own."""
        world = self.world
        for partition in partitions:
            world.gone.pop(partition, None)
            if partition in other.gone:
                world.gone[partition] = other.gone[partition]
        dropped = {
            row for row, possibility in enumerate(world.simulation.possibility)
            if possibility.partition in partitions
        }
        tables = other.simulation.state.to_tables().partitions.to_pylist()
        places = other.simulation.places()
        taken = [
            row for row, possibility in enumerate(other.simulation.possibility)
            if possibility.partition in partitions and row in places
        ]
        added = [(other.simulation.possibility[row], tables[places[row]]) for row in taken]
        self.rebuild(world, dropped, added)
        first = len(world.simulation.possibility) - len(added)
        moved = {row: first + at for at, row in enumerate(taken)}
        for row, to in moved.items():
            world.simulation.stored[to] = other.simulation.stored[row]
            for name in ("unread", "waiting"):
                if row in getattr(other.simulation, name):
                    getattr(world.simulation, name)[to] = getattr(other.simulation, name)[row]
        for row, to in moved.items():
            world.simulation.items[to] = other.simulation.items.get(row, RowItems())
            world.traces[to] = other.traces.get(row, Trace())
        other.brokers.move_rows(moved)
        world.brokers.rows.update(other.brokers.rows)
