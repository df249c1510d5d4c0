"""Deletions of topics that wait for each other, over shards that see their own only.

A topic that waits is looked at again whenever the deletion of any topic goes on, in whatever shard.
So each shard says where, in an event, it resumed deletions, and whether one of its own waits. Where
one does, and another shard resumed where it did not, the events happen again, with what is known
now.

Source: specification, section 6.12; Kafka 3.9, `TopicDeletionManager.resumeDeletions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from kfast.errors import InputError
from kfast.spark.shards import Event

__all__ = ["Resumes", "learn"]

REASSIGNED = "reassignment of "
"""How the scope of a completed reassignment begins: a place that no other shard comes by."""


class Resumes(msgspec.Struct, frozen=True):
    """Where a shard with topics to be deleted resumed deletions in an event.

    Attributes
    ----------
    event : int
    waits : bool
        Whether resuming, before or after the event, would change anything.
    scopes : list of str
    """

    event: int
    waits: bool
    scopes: list[str]


def learn(events: Sequence[Event], said: Iterable[Resumes]) -> tuple[Event, ...] | None:
    """Events that say where deletions are resumed in the whole cluster; None where that is known.

    Raises
    ------
    InputError
        A topic would wait for a place in an event that its shard does not come by.
    """
    scopes: list[set[str]] = [set() for _ in events]
    waiting: list[list[set[str]]] = [[] for _ in events]
    for item in said:
        scopes[item.event].update(item.scopes)
        if item.waits:
            waiting[item.event].append(set(item.scopes))
    learned = list(events)
    for at, event in enumerate(events):
        for own in waiting[at]:
            missing = sorted(scopes[at] - own)
            strange = [scope for scope in missing if REASSIGNED in scope]
            if strange:
                raise InputError(
                    f"event {event.name} ends the {strange[0]}, whose topic is to be deleted, while"
                    " a topic in another file waits for its deletion: on one machine that one goes"
                    " on in between, which files that go their own way cannot do"
                )
            if own | event.resumed != scopes[at] | own:
                learned[at] = replace(event, resumed=frozenset(scopes[at]))
        if learned[at] is not event:
            # What follows may be another story.
            return tuple(learned[: at + 1]) + tuple(events[at + 1 :])
    return None
