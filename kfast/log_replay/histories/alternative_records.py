"""Other records that a partition may have had, where its past does not agree with the lines.

Between two controllers, or in a hole of the log, a record may have become another one. Everything
it may have become is simulated side by side, and the lines choose.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

from kfast.log_replay.checks import MISSING, agrees
from kfast.log_replay.comparison.facts import BETWEEN, HOLE
from kfast.log_replay.comparison.worlds import Trace, World, copy_of
from kfast.log_replay.engine.rows import Possibility
from kfast.log_replay.events.events import LogEvent
from kfast.log_replay.histories.explorer import Explorer
from kfast.log_replay.histories.stretches import Stretch, go_through
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition

MOVES = frozenset({
    "assignment_updating", "assignment_stored", "reassign", "reassign_leader", "partition_new",
})
"""Lines after which the replicas of a partition are no longer those from before them."""

TOGETHER, MANY = 0.8, 3
"""So much less adopting costs for partitions of which so many changed in the same way."""


def try_others(
    explorer: Explorer, before: World, stretch: Stretch, troubled: dict[Partition, float]
) -> None:
    """Simulate troubled partitions again, with everything their records may have become."""
    world = copy_of(before)
    explorer.only(world, set(troubled))
    point = stretch.point
    parents = {}
    for row, possibility in enumerate(world.simulation.possibility):
        parents[possibility.partition] = dataclasses.replace(
            possibility, last_known=_last_known(world, row),
            inherited=world.traces[row].wrong,
        )
    if not parents:
        return
    together = _together(explorer, stretch, troubled)
    assignments = _listed_assignments(stretch, set(parents) & explorer.unheard)
    for reason in (HOLE, BETWEEN):
        some = {
            p: parent for p, parent in parents.items()
            if (p in explorer.unheard) == (reason == HOLE)
        }
        _add_others(explorer, world, point, some, reason, assignments)
    for possibility in world.simulation.possibility:
        parent = parents[possibility.partition]
        if possibility.partition in together and possibility.number != parent.number:
            possibility.cost -= TOGETHER
    go_through(world, stretch, stretch.lines_about(parents), set(parents))
    explorer.merge(world, set(parents))


def _listed_assignments(
    stretch: Stretch, partitions: set[Partition]
) -> dict[Partition, tuple[int, ...]]:
    """Replicas of some partitions after a hole, as most lines list them until they are moved.

    Topics may have been made again, or reassigned; a single line is not believed.
    """
    votes: dict[Partition, Counter[tuple[int, ...]]] = {}
    moved: set[Partition] = set()
    for number in stretch.lines if partitions else ():
        line = stretch.statements[number]
        for partition, fields in subjects(line):
            if partition not in partitions or partition in moved:
                continue
            if line.kind in MOVES:
                moved.add(partition)
                continue
            record = fields.get("record")
            listed = fields.get("replicas") or (record.replicas if record is not None else None)
            if listed:
                votes.setdefault(partition, Counter())[tuple(listed)] += 1
    found = {partition: counted.most_common(1)[0] for partition, counted in votes.items()}
    return {partition: listed for partition, (listed, n) in found.items() if n > 1}


def _together(
    explorer: Explorer, stretch: Stretch, troubled: dict[Partition, float]
) -> set[Partition]:
    """Partitions that lines disagree with in the same way as with several others."""
    groups: dict[tuple[object, ...], set[Partition]] = {}
    for life in explorer.world.lives(troubled):
        signs = []
        for number, _, check in life.trace.checks:
            if number < stretch.begin or agrees(check) or check.predicted is None:
                continue
            change: object = (str(check.logged), str(check.predicted))
            if check.counted and check.predicted is not MISSING:
                change = check.logged - check.predicted
            signs.append((explorer.statements[number].kind, check.field, change))
        groups.setdefault(tuple(signs), set()).add(life.possibility.partition)
    return {p for some in groups.values() if len(some) >= MANY for p in some}


def _add_others(
    explorer: Explorer, world: World, point: LogEvent, parents: dict[Partition, Possibility],
    reason: str, assignments: dict[Partition, tuple[int, ...]],
) -> None:
    before = explorer.numbers
    explorer.add(world, point, dict(parents), reason, assignments)
    for possibility in world.simulation.possibility:
        if possibility.number > before:
            parent = parents[possibility.partition]
            possibility.last_known = parent.last_known
            possibility.inherited = parent.inherited
    for row, possibility in enumerate(world.simulation.possibility):
        if possibility.number > before:
            world.traces[row] = Trace(wrong=possibility.inherited)


def _last_known(
    world: World, row: int
) -> tuple[int, tuple[int, ...], int | None, int | None] | None:
    leadership = world.simulation.state.leadership(row)
    if leadership is None:
        return None
    possibility = world.simulation.possibility[row]
    epoch, version, _ = possibility.unknown()
    earlier = possibility.last_known or (None, None, None, None)
    return (leadership.leader, leadership.isr, earlier[2] if epoch else leadership.leader_epoch,
            earlier[3] if version else leadership.version)
