"""What shards that see only their own partitions must know of each other.

A topic that waits for its deletion is looked at again whenever the deletion of any topic goes on,
in whatever shard. So each shard says where, in an event, it resumed deletions, and whether one of
its own waits. And a call of the replica machine takes brokers in an order that depends on all the
brokers that have replicas in it (`broker_groups`), in whatever shard; so each says which
these are. Where a shard acted without what another one knows, the events happen again.

Source: docs/controller.md, sections 2.3 and 6.12; Kafka 3.9,
`ZkReplicaStateMachine.handleStateChanges`, `TopicDeletionManager.resumeDeletions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from kfast.controllers import Controller
from kfast.errors import InputError
from kfast.spark.shards import EventCall

__all__ = ["BrokerGroups", "Resumes", "groups_of", "share_between_shards"]

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


class BrokerGroups(msgspec.Struct, frozen=True):
    """Brokers that have replicas, in one shard, in one call of the replica machine.

    Attributes
    ----------
    event : int
    scope : str
        `Journal.within`: which call of the event.
    brokers : list of int
    """

    event: int
    scope: str
    brokers: list[int]


def groups_of(event: int, controller: Controller) -> list[BrokerGroups]:
    """Calls of the last event, in a shard, whose order depends on other shards."""
    shared = controller.replica_state_machine.shared_groups
    calls = {} if shared is None else shared.own
    return [BrokerGroups(event, scope, sorted(brokers)) for scope, brokers in calls.items()]


def share_between_shards(
    events: Sequence[EventCall], resumes: Iterable[Resumes], groups: Iterable[BrokerGroups]
) -> tuple[EventCall, ...] | None:
    """Events with what the shards must know of each other; None where they know it.

    Raises
    ------
    InputError
        A topic would wait for a place in an event that its shard does not come by.
    """
    calls: list[list[BrokerGroups]] = [[] for _ in events]
    for call in groups:
        calls[call.event].append(call)
    shards: list[list[Resumes]] = [[] for _ in events]
    for shard in resumes:
        shards[shard.event].append(shard)
    for at, event in enumerate(events):
        updated = _share_groups(_share_resumed(event, shards[at]), calls[at])
        if updated is not event:
            # What follows may be another story.
            return (*events[:at], updated, *events[at + 1 :])
    return None


def _share_resumed(event: EventCall, shards: Sequence[Resumes]) -> EventCall:
    """The event itself, where no shard waits for what another one resumed."""
    scopes = frozenset(scope for shard in shards for scope in shard.scopes)
    for own in (frozenset(shard.scopes) for shard in shards if shard.waits):
        strange = [scope for scope in sorted(scopes - own) if REASSIGNED in scope]
        if strange:
            raise InputError(
                f"event {event.name} ends the {strange[0]}, whose topic is to be deleted, while"
                " a topic in another file waits for its deletion: on one machine that one goes"
                " on in between, which files that go their own way cannot do"
            )
        if own | event.resumed != scopes | own:
            return replace(event, resumed=scopes)
    return event


def _share_groups(event: EventCall, calls: Sequence[BrokerGroups]) -> EventCall:
    """The event itself, where each shard knew all brokers of the calls that it made."""
    brokers: dict[str, set[int]] = {}
    for call in calls:
        brokers.setdefault(call.scope, set()).update(call.brokers)
    known = all(
        set(call.brokers) | event.groups.get(call.scope, frozenset()) == brokers[call.scope]
        for call in calls
    )
    if known:
        return event
    return replace(event, groups={scope: frozenset(ids) for scope, ids in brokers.items()})
