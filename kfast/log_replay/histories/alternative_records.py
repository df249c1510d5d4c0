"""Other records that a partition may have had, where its past does not agree with the lines.

Between two controllers, or in a hole of the log, a record may have become another one. Everything
it may have become is simulated side by side, and the lines choose.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.worlds import World
from kfast.log_replay.engine.rows import Possibility
from kfast.log_replay.histories.explorer import Explorer, Troubled
from kfast.log_replay.histories.stretches import Stretch, disagrees, go_through
from kfast.log_replay.lookahead.clusters import Move
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Assigned, Partition, distinct
from kfast.state import Assignment

MOVES = frozenset({
    "assignment_updating", "assignment_stored", "reassign", "reassign_leader", "partition_new",
})
"""Lines after which the replicas of a partition are no longer those from before them."""

MOST_ORDERED = 3
"""Replicas whose orders are all tried."""

TOGETHER, MANY = 0.8, 3
"""So much less adopting costs for partitions of which so many changed in the same way."""


def try_others(explorer: Explorer, before: World, troubled: Troubled) -> Troubled:
    """Simulate partitions again, with all that their records may have become, and choose."""
    world = before.only({*troubled, *explorer.companions(before, troubled)})
    stretch = explorer.stretch
    parents = {
        possibility.partition: dataclasses.replace(
            possibility, inherited=world.traces[row].wrong
        ) for row, possibility in enumerate(world.simulation.possibility)
        if possibility.partition in troubled
    }
    if not parents:
        return troubled
    together = _together(explorer, troubled)
    explorer.add(world, stretch.point, parents.values(), listed_assignments(stretch, {
        possibility.partition: world.simulation.state.assignment(row)
        for row, possibility in enumerate(world.simulation.possibility)
        if possibility.partition in explorer.unlisted and possibility.partition in parents
    }))
    _complete_topics(explorer, world)
    for possibility in world.simulation.possibility:
        parent = parents.get(possibility.partition, possibility)
        if possibility.partition in together and possibility.number != parent.number:
            possibility.cost -= TOGETHER
    go_through(world, stretch, stretch.lines_about(parents), set(parents))
    explorer.merge(world, set(parents))
    return explorer.choose()


def _complete_topics(explorer: Explorer, world: World) -> None:
    """Give each possibility its topic's other partitions, where that is being deleted.

    Every possibility is of a topic of its own. A topic is deleted as a whole: what halts it may be
    a replica of another partition. These copies are in no competition.
    """
    simulation = world.simulation
    rows, places = simulation.state.to_tables().partitions.to_pylist(), simulation.places()
    added = []
    for possibility in simulation.possibility:
        topic, number = possibility.partition[0], possibility.number
        for row, other in enumerate(simulation.possibility if number else ()):
            if topic in explorer.deleting and other.partition[0] == topic and not other.number and (
                other.partition != possibility.partition and row in places
            ):
                copied = dataclasses.replace(other, number=number, cost=math.inf)
                added.append((copied, {**rows[places[row]], "topic": copied.topic}))
    world.rebuild(set(), added)


def try_orders(explorer: Explorer, before: World, troubled: Troubled) -> Troubled:
    """Simulate partitions whose replicas have no known order again, in every order, and choose."""
    point, assignments = explorer.stretch.point, explorer.cluster.assignments
    unordered = {
        partition for partition in troubled
        if (explorer.cluster.births.get(partition) is point or partition in explorer.undecided)
        and explorer.is_unordered(partition)
        and len(assignments[partition]) <= MOST_ORDERED
    }
    if not unordered:
        return troubled
    world = before.only(unordered)
    earlier = {possibility.partition: possibility for possibility in world.simulation.possibility}
    parents = [earlier.get(partition, Possibility(partition, 0)) for partition in sorted(unordered)]
    explorer.add(world, point, parents, every_order=True)
    go_through(world, explorer.stretch, explorer.stretch.lines_about(unordered), unordered)
    explorer.merge(world, unordered)
    return explorer.choose()


def listed_assignments(
    stretch: Stretch, before: Mapping[Partition, Assignment]
) -> dict[Partition, Assigned]:
    """Replicas of some partitions after a hole, as most lines list them until they are moved.

    Topics may have been made again, or reassigned; a single line is not believed. Where no line
    lists the replicas of a reassignment that is under way, they follow from those of `before`.
    """
    votes: dict[Partition, Counter[tuple[int, ...]]] = {}
    moving: dict[Partition, list[Move]] = {}
    targets: dict[Partition, tuple[int, ...]] = {}
    for number in stretch.lines if before else ():
        line = stretch.statements[number]
        for partition, fields in subjects(line):
            if partition not in before or partition in targets:
                continue
            assigned = fields.get("assignment") or fields.get("record")
            listed = fields.get("replicas") or (None if assigned is None else assigned.replicas)
            if line.kind in MOVES:
                targets[partition] = listed or ()
                continue
            if listed:
                votes.setdefault(partition, Counter())[distinct(listed)] += 1
            adding, removing = (fields.get(name, getattr(assigned, name, None))
                                for name in ("adding", "removing"))
            if adding is not None and removing is not None:
                moving.setdefault(partition, []).append((adding, removing))
    found = {partition: counted.most_common(1)[0] for partition, counted in votes.items()}
    under_way = {
        partition: _under_way(before[partition], moves, targets.get(partition, ()))
        for partition, moves in moving.items()
    }
    return {
        **{partition: assigned for partition, assigned in under_way.items() if assigned},
        **{partition: Assigned(listed, *moving.get(partition, [((), ())])[0])
           for partition, (listed, n) in found.items() if n > 1},
    }


def _under_way(
    before: Assignment, moves: Sequence[Move], end: tuple[int, ...]
) -> Assigned | None:
    """The assignment of a partition that is being reassigned, from the one before.

    None unless two lines say so, or its end agrees.
    """
    adding, removing = moves[0]
    origin = tuple(broker for broker in before.replicas if broker not in adding)
    target = (*(broker for broker in origin if broker not in removing), *adding)
    is_end = set(end) == set(target)
    after = Assignment(origin).reassign_to(end if is_end else target)
    is_stated = is_end or moves.count(moves[0]) > 1
    if not after.being_reassigned or not is_stated or (
        (set(after.adding), set(after.removing)) != (set(adding), set(removing))
    ):
        return None
    return Assigned(after.replicas, adding, removing)


def _together(explorer: Explorer, troubled: Troubled) -> set[Partition]:
    """Partitions that lines disagree with in the same way as with several others."""
    groups: dict[tuple[object, ...], set[Partition]] = {}
    for life in explorer.world.lives(troubled):
        signs = []
        for number, check in life.trace.checks:
            if disagrees(check):
                change: object = (str(check.logged), str(check.predicted))
                if check.counted and check.predicted is not MISSING:
                    change = check.logged - check.predicted
                signs.append((explorer.statements[number].kind, check.field, change))
        groups.setdefault(tuple(signs), set()).add(life.possibility.partition)
    return {p for some in groups.values() if len(some) >= MANY for p in some}
