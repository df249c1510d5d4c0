"""Seeded random reassignments and deletions of topics, for `random_events`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kfast.schema import ReplicaState
from tests.support.event import Event
from tests.support.random_clusters import some
from tests.support.reference import Partition

if TYPE_CHECKING:
    from tests.support.random_events import Generator

NOWHERE = ("nowhere", 0)
"""A partition of a topic that never was."""


def targets(g: Generator, p: Partition) -> list[int]:
    """Replicas that somebody may want for p: in half of the cases what is there, changed a bit."""
    live, now = sorted(g.ctx.live), list(g.ctx.assignment(p).origin)
    kind = g.random.randint(0, 9)
    if kind == 0:
        return g.random.sample(now, len(now))
    if kind == 1:
        return list(g.ctx.assignment(p).target)
    if kind == 2:
        return g.random.sample(now, min(len(now), g.random.randint(1, 3)))
    if kind == 3:
        more = g.random.sample(live, min(len(live), 1))
        return list(dict.fromkeys([*more, *now]))[:5]
    known = sorted({*live, *now, *(g.brokers if g.random.random() < 0.15 else ())})
    return g.random.sample(known, min(len(known), g.random.randint(1, 4)))


def damaged(g: Generator, wanted: list[int]) -> list[int]:
    """A list that no controller accepts."""
    return g.random.choice([[], [*wanted, *wanted[:1]], [*wanted, -1], [*wanted, 999]])


def moving(g: Generator, most: int) -> list[Partition]:
    """Partitions to reassign, half of the time some that are being reassigned already."""
    current = sorted(p for p in g.ctx.being_reassigned if p in g.ctx.assignments)
    known = current if current and g.random.random() < 0.5 else sorted(g.ctx.assignments)
    return some(g.random, [p for p in known if g.ctx.assignment(p).replicas], most)


def reassign(g: Generator) -> Event | None:
    """A request through the API: new plans, overrides, cancels, and what is refused."""
    if not g.ctx.profile.cancels_reassignments and g.random.random() < 0.9:
        return reassign_by_node(g)
    asked: dict[Partition, list[int] | None] = {}
    for p in moving(g, 4):
        wanted = targets(g, p)
        if g.random.random() < 0.1:
            wanted = damaged(g, wanted)
        in_progress = g.ctx.assignment(p).being_reassigned
        asked[p] = None if g.random.random() < (0.3 if in_progress else 0.05) else wanted
    unled = sorted(p for p in g.ctx.assignments.keys() - g.ctx.leadership.keys())
    if unled and g.random.random() < 0.2:
        p = g.random.choice(unled)
        asked[p] = list(g.ctx.assignment(p).origin) or None
    if g.random.random() < 0.08:
        live = sorted(g.ctx.live)[:2]
        topic = g.random.choice(sorted(g.ctx.all_topics))
        asked[g.random.choice([NOWHERE, (topic, 99)])] = g.random.choice([live, None])
    return Event("alter_partition_reassignments", {"reassignments": asked})


def reassign_by_node(g: Generator) -> Event | None:
    """The legacy node: it can be created when it is not there."""
    if g.controller.legacy_node:
        return None
    asked = {p: targets(g, p) or list(g.ctx.assignment(p).origin) for p in moving(g, 3)}
    twice = 0.1 if g.ctx.profile.cancels_reassignments else 0.0
    asked = {p: [*wanted, wanted[0]] if g.random.random() < twice else wanted
             for p, wanted in asked.items() if wanted}
    if g.random.random() < 0.1:
        asked[NOWHERE] = g.brokers[:2]
    return Event("reassign_partitions", {"reassignments": asked})


def go_on(g: Generator) -> Event | None:
    """Reassignments are taken up where they are."""
    partitions = moving(g, 3)
    if not g.ctx.profile.cancels_reassignments:
        partitions = some(g.random, sorted(g.ctx.reassignment_targets), 3)
    return Event("on_partition_reassignment", {"partitions": partitions}) if partitions else None


def finish(g: Generator) -> Event | None:
    """The replicas that some reassignments add catch up."""
    added = {b for p in moving(g, 4) for b in g.ctx.assignment(p).target}
    brokers = sorted(added & set(g.ctx.live_broker_epochs))
    if not brokers or not all(map(g.decodes, g.ctx.leadership)):
        return None
    return Event("catch_up", {"brokers": brokers})


def delete(g: Generator) -> Event:
    """Deletion markers, now and then of topics that are not there, or queued already."""
    most = 2 if len(g.ctx.all_topics) > 3 else 1
    topics = g.random.sample(sorted(g.ctx.all_topics), g.random.randint(1, most))
    if g.random.random() < 0.15:
        topics.append("nowhere")
    return Event("delete_topics", {"topics": topics})


def stop_replica_response(g: Generator) -> Event | None:
    """A broker answers for some of the replicas that it was told to delete."""
    told: dict[int, list[Partition]] = {}
    for (p, b), state in sorted(g.ctx.replica_states.items()):
        if state == ReplicaState.DELETION_STARTED and p in g.ctx.assignments:
            told.setdefault(b, []).append(p)
    if not told:
        return None
    b = g.random.choice(sorted(told))
    asked = some(g.random, told[b], 6)
    if g.random.random() < 0.15:
        asked = sorted({*asked, g.random.choice(sorted(g.ctx.assignments))})
    failed = [p for p in asked if g.random.random() < 0.2]
    return Event("on_stop_replica_response", {
        "broker": b, "partitions": asked, "failed": failed,
        "error": g.random.random() < 0.1,
    })


def acknowledge(g: Generator) -> Event:
    """Brokers answer for all that they were told to delete."""
    brokers = None if g.random.random() < 0.5 else sorted(g.random.sample(g.brokers, 3))
    return Event("acknowledge_deletions", {"brokers": brokers})


CHOICES: list[tuple[int, Callable[[Generator], Event | None]]] = [
    (14, reassign), (3, reassign_by_node), (2, go_on), (8, finish), (5, delete),
    (6, stop_replica_response), (10, acknowledge),
]
"""How often each comes up, beside the weights of `random_events.Generator`."""
