"""Topic deletion in plain Python (docs/controller.md, section 6.12)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from kfast.schema import PartitionState, ReplicaState
from tests.support.reference_context import Partition, Replica
from tests.support.reference_core import Core, EventFailedError, Happened


def init(core: Core, queued: Collection[str], ineligible: Collection[str]) -> None:
    """Section 6.12, `init`: with deletion disabled the markers are removed from the store."""
    if not core.ctx.delete_topic_enabled:
        core.client_calls.append(["delete_deletion_markers", sorted(queued)])
        return
    core.ctx.queue_topic_deletion(queued)
    mark_ineligible(core, ineligible)


def enqueue(core: Core, topics: Collection[str]) -> None:
    """Section 6.12, `enqueue`."""
    if core.ctx.delete_topic_enabled:
        core.ctx.queue_topic_deletion(topics)
        resume_deletions(core)


def resume_deletion_for(core: Core, topics: Iterable[str]) -> None:
    """Section 6.12, `resume_deletion_for`: those of them that are queued may be eligible again."""
    queued = set(topics) & core.ctx.topics_to_delete
    if core.ctx.delete_topic_enabled and queued:
        core.ctx.topics_ineligible -= queued
        resume_deletions(core)


def fail_replica_deletion(core: Core, replicas: Iterable[Replica]) -> None:
    """Replicas of topics that are not queued do not matter.

    Source: section 6.12, `fail_replica_deletion`.
    """
    queued = [r for r in replicas if core.ctx.is_queued(r[0])]
    if core.ctx.delete_topic_enabled and queued:
        core.mark("deletion failed for a replica")
        core.replicas().handle(queued, ReplicaState.DELETION_INELIGIBLE)
        mark_ineligible(core, {p[0] for p, _ in queued})
        resume_deletions(core)


def complete_replicas(core: Core, replicas: Iterable[Replica]) -> None:
    """Section 6.12, `complete_replicas`."""
    queued = [r for r in replicas if core.ctx.is_queued(r[0])]
    if core.ctx.delete_topic_enabled:
        core.replicas().handle(queued, ReplicaState.DELETION_SUCCESSFUL)
        resume_deletions(core)


def mark_ineligible(core: Core, topics: Iterable[str]) -> None:
    """Section 6.12, `mark_topic_ineligible`: only queued topics can be."""
    if core.ctx.delete_topic_enabled:
        core.ctx.topics_ineligible |= set(topics) & core.ctx.topics_to_delete


def states_of(core: Core, topic: str) -> set[ReplicaState]:
    """Section 1.5, `replicas_in_state`: raises where a replica of the topic has no state."""
    states = core.ctx.replica_states
    replicas = core.ctx.replicas_for_topic(topic)
    if any(r not in states for r in replicas):
        raise EventFailedError("NoSuchElement")
    return {states[r] for r in replicas}


def resume_deletions(core: Core) -> None:
    """One pass over the queued topics, then two steps for them all.

    Source: section 6.12, `resume_deletions`.

    Before 2.5 the steps were taken for one topic after the other.
    """
    if not core.ctx.delete_topic_enabled:
        return
    if core.ctx.profile.batches_deletions:
        resume_topics(core, sorted(core.ctx.topics_to_delete, key=core.rank))
        return
    for topic in sorted(core.ctx.topics_to_delete):
        resume_topics(core, [topic])


def resume_topics(core: Core, topics: list[str]) -> None:
    """The pass over some topics, and the two steps."""
    retry: list[str] = []
    go: list[str] = []
    for topic in topics:
        states = states_of(core, topic)
        if states <= {ReplicaState.DELETION_SUCCESSFUL}:
            finish(core, topic)
        elif (
            ReplicaState.DELETION_STARTED not in states
            and ReplicaState.DELETION_INELIGIBLE in states
        ):
            core.mark("deletion tried again")
            retry.append(topic)
        if (
            topic in core.ctx.topics_to_delete
            and ReplicaState.DELETION_STARTED not in states
            and topic not in core.ctx.topics_ineligible
        ):
            go.append(topic)
    if retry:
        failed = [
            r
            for topic in retry
            for r in core.ctx.replicas_for_topic(topic)
            if core.ctx.replica_states[r] == ReplicaState.DELETION_INELIGIBLE
        ]
        core.replicas().handle(failed, ReplicaState.OFFLINE)
    if go:
        start(core, go)


def start(core: Core, topics: list[str]) -> None:
    """Partitions vanish, brokers are told, replicas are deleted where they can.

    Source: section 6.12, `start`.
    """
    ctx = core.ctx
    core.mark("deletion started")
    listed = [p for p in ctx.assignments if p[0] in topics]
    unseen = [t for t in topics if t not in ctx.topics_deletion_started]
    if unseen and ctx.profile.deletes_partitions_at_start:
        take_away(core, [p for p in listed if p[0] in unseen])
        ctx.begin_topic_deletion(unseen)
    core.send_update_metadata(ctx.registered, listed)
    replicas = [r for topic in topics for r in ctx.replicas_for_topic(topic)]
    dead = [(p, b) for p, b in replicas if not ctx.is_replica_online(b, p)]
    alive = [
        r
        for r in replicas
        if r not in dead and ctx.replica_states[r] != ReplicaState.DELETION_SUCCESSFUL
    ]
    core.replicas().handle(dead, ReplicaState.DELETION_INELIGIBLE)
    core.replicas().handle(alive, ReplicaState.OFFLINE)
    core.replicas().handle(alive, ReplicaState.DELETION_STARTED)
    mark_ineligible(core, {p[0] for p, _ in dead})


def take_away(core: Core, partitions: list[Partition]) -> None:
    """Partitions go Offline, then NonExistent."""
    core.partitions().handle(partitions, PartitionState.OFFLINE)
    core.partitions().handle(partitions, PartitionState.NON_EXISTENT)


def finish(core: Core, topic: str) -> None:
    """Section 6.12, `finish`: nothing is left of the topic, in the store neither."""
    core.mark("deletion finished")
    deleted = [
        r
        for r in core.ctx.replicas_for_topic(topic)
        if core.ctx.replica_states[r] == ReplicaState.DELETION_SUCCESSFUL
    ]
    core.client_calls.append(["mute", topic])
    core.replicas().handle(deleted, ReplicaState.NON_EXISTENT)
    if not core.ctx.profile.deletes_partitions_at_start:
        take_away(core, [p for p in core.ctx.assignments if p[0] == topic])
    core.client_calls.append(["delete_topic", topic])
    core.store.forget(topic)
    core.ctx.topic_unclean.pop(topic, None)
    core.ctx.remove_topic(topic)


# -- events -------------------------------------------------------------------------------------


def delete_topics(core: Core, topics: Iterable[str]) -> Happened:
    """Section 6.12, deletion marker event: every marker is read, those of queued topics as well."""

    def body() -> None:
        known = set(topics) & core.ctx.all_topics
        if not known or not core.ctx.delete_topic_enabled:
            core.client_calls.append(["delete_deletion_markers", sorted(topics)])
        marked = known | core.ctx.topics_to_delete
        if not marked or not core.ctx.delete_topic_enabled:
            return
        moving = marked & {p[0] for p in core.ctx.being_reassigned}
        core.now.marks["deletion of a topic being reassigned"] += bool(moving)
        mark_ineligible(core, moving)
        enqueue(core, marked)

    return core.event("delete_topics", body)


def on_stop_replica_response(
    core: Core,
    b: int,
    partitions: Collection[Partition],
    failed: Collection[Partition] = (),
    error: bool = False,
) -> Happened:
    """Section 6.12, StopReplica response event; section 5.4 says what of a response becomes one."""
    body = partial(stop_replica_response, core, b, partitions, failed, error)
    return core.event("on_stop_replica_response", body)


def stop_replica_response(
    core: Core,
    b: int,
    partitions: Collection[Partition],
    failed: Collection[Partition],
    error: bool,
) -> None:
    """Only topics whose deletion has started count, when the response arrives.

    Before 2.1 none is marked as started, and queued ones count.
    """
    ctx = core.ctx
    marked = ctx.profile.deletes_partitions_at_start
    heeded = ctx.topics_deletion_started if marked else ctx.topics_to_delete
    started = [p for p in partitions if p[0] in heeded]
    bad = [p for p in started if error or p in failed]
    good = [p for p in started if p not in bad]
    if started:
        fail_replica_deletion(core, [(p, b) for p in bad])
    if good:
        complete_replicas(core, [(p, b) for p in good])


def acknowledge_deletions(core: Core, brokers: Collection[int] | None = None) -> Happened:
    """Registered brokers answer without error for all that they have been told to delete."""

    def body() -> None:
        replicas_of_broker: dict[int, list[Partition]] = {}
        for p, b in core.ctx.assigned_replicas():
            if core.ctx.replica_states.get((p, b)) == ReplicaState.DELETION_STARTED:
                replicas_of_broker.setdefault(b, []).append(p)
        for b in core.ctx.registered:
            if b in replicas_of_broker and (brokers is None or b in brokers):
                stop_replica_response(core, b, replicas_of_broker[b], (), False)

    return core.event("acknowledge_deletions", body)
