"""Go through a cluster's log stretch by stretch and settle what each partition's record was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from kfast.log_replay.checks import agrees
from kfast.log_replay.comparison.worlds import World, copy_of
from kfast.log_replay.engine.rows import Possibility
from kfast.log_replay.events.events import LogEvent, is_hole
from kfast.log_replay.histories.alternative_records import (
    listed_assignments,
    try_orders,
    try_others,
)
from kfast.log_replay.histories.explorer import Explorer, Troubled
from kfast.log_replay.histories.isr_writes import find_writes
from kfast.log_replay.histories.stretches import FEW_LINES, Stretch, go_through
from kfast.log_replay.histories.unlogged_events import find_hidden
from kfast.log_replay.lookahead.clusters import is_hosted
from kfast.log_replay.terms.holes import FEWEST_LINES
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition
from kfast.state import Assignment

Finder = Callable[[Explorer, World, Troubled], Troubled]
"""Looks for what explains lines; returns what it leaves unexplained."""


def explore(explorer: Explorer) -> None:
    """Go through the log, and find each partition's history."""
    while explorer.first < len(explorer.cluster.events):
        _go(explorer)
        for life in list(explorer.world.lives(explorer.everywhere())):
            _keep(explorer.histories, life.possibility)
        explorer.end_stretch()
        explorer.first = explorer.next_cut(explorer.first)


def _go(explorer: Explorer) -> None:
    """Go through the stretch at hand."""
    stretch = explorer.stretch
    point = stretch.point
    before = copy_of(explorer.world)
    explorer.deleting = {*point.fields.get("to_delete", ()), *point.fields.get("queued", ())}
    if is_hole(point):
        explorer.unheard |= explorer.world.simulation.rows.keys()
        explorer.unlisted |= explorer.world.simulation.rows.keys()
    born = [p for p, birth in explorer.cluster.births.items() if birth is point]
    made_again = listed_assignments(stretch, dict.fromkeys(
        sorted(_made_again(explorer, point).difference(born)), Assignment()
    ))
    explorer.add(explorer.world, point, [
        Possibility(partition, 0) for partition in (*born, *made_again)
    ], made_again)
    explorer.add_unwritten(point)
    had_choice = explorer.has_choice()
    _compare_all(explorer, stretch)
    troubled = explorer.choose()
    if had_choice and (troubled or _is_partly_gone(explorer.world)):
        # What was ruled out had a part in what depends on all partitions, so again without it.
        explorer.world = explorer.begin_again(before, set(explorer.everywhere()))
        _go_again(explorer, stretch)
        troubled = explorer.choose()
    for find in _finders(explorer):
        if troubled:
            troubled = find(explorer, before, troubled)
    explorer.known.update(troubled)
    explorer.cluster.reassigned |= {
        partition for partition, wrong in troubled.items()
        if wrong >= FEWEST_LINES and partition in explorer.unlisted
        and _n_hosted_elsewhere(explorer, partition) >= FEWEST_LINES
    }
    for row, trace in explorer.world.traces.items():
        partition = explorer.world.simulation.possibility[row].partition
        if trace.checks:
            explorer.unheard.discard(partition)
        if any(check.field == "replicas" and agrees(check) for _, check in trace.checks):
            explorer.unlisted.discard(partition)


def _finders(explorer: Explorer) -> list[Finder]:
    """Searches for what explains the lines of a stretch, in turn.

    Before the record that a hole has left is known, no later write helps: so they are looked for
    once more.
    """
    finders: list[Finder] = [try_orders, find_writes, find_hidden]
    if explorer.first:
        finders.append(try_others)
        if is_hole(explorer.stretch.point):
            finders.append(find_writes)
    return finders


def _made_again(explorer: Explorer, point: LogEvent) -> set[Partition]:
    """Partitions that a new controller lists after a hole, in which they were made again."""
    listed = set(point.fields.get("partitions", ())) if is_hole(point) else set()
    return listed.difference(explorer.world.simulation.rows, point.fields.get("unwritten", ()))


def _n_hosted_elsewhere(explorer: Explorer, partition: Partition) -> int:
    """How many lines of the stretch at hand name a broker as a host that is no replica."""
    stretch, simulation = explorer.stretch, explorer.world.simulation
    replicas = {broker for row in simulation.rows_of(partition)
                for broker in simulation.state.assignment(row).replicas}
    n_lines = 0
    for number in stretch.lines_about([partition]):
        line = stretch.statements[number]
        for fields in (about for name, about in subjects(line) if name == partition):
            record = fields.get("record")
            hosts = {*fields.get("isr", ()), *(record.isr if record is not None else ())}
            hosts |= {fields["replica"]} if "replica" in fields else set()
            hosts |= {line.actor_id} if is_hosted(line) else set()
            n_lines += not hosts <= replicas
    return n_lines


def _is_partly_gone(world: World) -> bool:
    """Whether of a topic only some partitions are deleted, as each possibility is a topic."""
    there = world.simulation.rows
    return not {topic for topic, _ in there}.isdisjoint(
        topic for topic, _ in world.gone.keys() - there.keys()
    )


def _compare_all(explorer: Explorer, stretch: Stretch) -> None:
    """Compare all possibilities with the lines; those that fall behind no longer, if they lose."""
    early = len(stretch.lines) > FEW_LINES and explorer.has_choice()
    start = copy_of(explorer.world) if early else explorer.world
    go_through(explorer.world, stretch, explorer.steps.over(stretch.lines), leave_behind=early)
    hasty = explorer.hasty()
    if hasty:
        world = start.only(hasty | explorer.companions(start, hasty))
        go_through(world, stretch, stretch.lines_about(hasty), hasty)
        explorer.merge(world, hasty)


def _go_again(explorer: Explorer, stretch: Stretch) -> None:
    """Compare what was chosen with the lines once more, from the beginning."""
    for event in stretch.events:
        event.fields.pop("supposed", None)
    explorer.steps.total += len(stretch.lines)
    go_through(explorer.world, stretch, explorer.steps.over(stretch.lines))


def _keep(found: dict[Partition, Possibility], possibility: Possibility) -> None:
    """Note a possibility; what was adopted for an earlier partition of its name stays."""
    earlier = found.get(possibility.partition)
    if earlier is not None:
        own = {id(start.point) for start in possibility.starts}
        lost = [start for start in earlier.starts if id(start.point) not in own]
        if lost:
            possibility = dataclasses.replace(possibility, starts=[*lost, *possibility.starts])
    found[possibility.partition] = possibility
