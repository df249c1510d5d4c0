"""Go through a cluster's log stretch by stretch and settle what each partition's record was."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kfast.log_replay.comparison.facts import BEFORE, HOLE
from kfast.log_replay.comparison.worlds import World, copy_of
from kfast.log_replay.engine.rows import Possibility
from kfast.log_replay.events.events import is_hole
from kfast.log_replay.histories.alternative_records import try_others
from kfast.log_replay.histories.explorer import Explorer
from kfast.log_replay.histories.isr_writes import find_writes
from kfast.log_replay.histories.stretches import COST, Stretch, go_through
from kfast.log_replay.histories.unlogged_events import find_hidden
from kfast.log_replay.wording.values import Partition


def explore(explorer: Explorer) -> None:
    """Go through the log, and find each partition's history."""
    while explorer.first < len(explorer.cluster.events):
        first = explorer.first
        _go(explorer, first, explorer.next_cut(first))
        for life in list(explorer.world.lives(explorer.everywhere())):
            _keep(explorer.histories, life.possibility)
        explorer.end_stretch()
        explorer.first = explorer.next_cut(first)


def _go(explorer: Explorer, first: int, last: int) -> None:
    stretch = Stretch(explorer.cluster, explorer.statements, first, last)
    point = stretch.point
    before = copy_of(explorer.world)
    explorer.begin = stretch.begin
    if is_hole(point):
        explorer.unheard |= set(explorer.world.simulation.rows)
    born = [p for p, birth in explorer.cluster.births.items() if birth is point]
    explorer.add(explorer.world, point, dict.fromkeys(born), BEFORE)
    go_through(explorer.world, stretch, explorer.steps.over(stretch.lines))
    troubled = explorer.choose()
    if troubled:
        troubled = find_writes(explorer, before, first, troubled)
    if troubled:
        troubled = _explain(explorer, before, first, troubled)
    explorer.known.update(troubled)
    for row, trace in explorer.world.traces.items():
        if trace.checks:
            explorer.unheard.discard(explorer.world.simulation.possibility[row].partition)


def _explain(explorer: Explorer, before: World, first: int, troubled: dict[Partition, float]
) -> dict[Partition, float]:
    """Find what explains lines that disagree: hidden events, other records, or both.

    Both orders are tried at a hole, where records may well be others; the cheaper one stays.
    """
    ways = ("hidden", "others", "hidden") if first else ("hidden",)
    last = explorer.next_cut(first)
    if not first or not is_hole(Stretch(explorer.cluster, explorer.statements, first, last).point):
        return _try_ways(explorer, ways, before, first, troubled)
    kept = explorer.save()
    left = _try_ways(explorer, ways, before, first, dict(troubled))
    cost = explorer.cost(set(troubled))
    if cost <= COST[HOLE]:
        return left
    better = explorer.save()
    explorer.restore(kept)
    again = _try_ways(explorer, ("others", "hidden"), before, first, dict(troubled))
    if explorer.cost(set(troubled)) < cost:
        return again
    explorer.restore(better)
    return left


def _try_ways(
    explorer: Explorer, ways: Sequence[str], before: World, first: int,
    troubled: dict[Partition, float],
) -> dict[Partition, float]:
    for way in ways:
        if not troubled:
            break
        if way == "hidden":
            troubled = find_hidden(explorer, before, first, troubled)
        else:
            last = explorer.next_cut(first)
            stretch = Stretch(explorer.cluster, explorer.statements, first, last)
            try_others(explorer, before, stretch, troubled)
            troubled = explorer.choose()
    return troubled


def _keep(found: dict[Partition, Possibility], possibility: Possibility) -> None:
    """Note a possibility; what was adopted for an earlier partition of its name stays."""
    earlier = found.get(possibility.partition)
    if earlier is not None:
        own = {id(start.point) for start in possibility.starts}
        lost = [start for start in earlier.starts if id(start.point) not in own]
        if lost:
            possibility = dataclasses.replace(possibility, starts=[*lost, *possibility.starts])
    found[possibility.partition] = possibility
