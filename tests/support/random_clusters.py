"""Seeded random clusters, as the twin's context and store."""

from __future__ import annotations

from random import Random

from tests.support.reference import Assignment, Context, Partition, Record, TwinStore
from tests.support.reference_profiles import ZK_3_9, Profile

MOST_REPLICAS = 5


def random_context(generator: Random, profile: Profile = ZK_3_9) -> Context:
    """A cluster of 3 to 12 brokers and 3 to 6 topics before its controller starts."""
    ids = sorted(generator.sample(range(60), generator.randint(3, 12)))
    ctx = Context(controller_id=ids[0], epoch=generator.randint(1, 9), profile=profile)
    ctx.epoch_store_version = generator.randint(0, 9)
    for b in ids:
        if generator.random() < 0.85:
            ctx.live_broker_epochs[b] = generator.randint(1, 99)
    ctx.shutting_down = {b for b in ctx.live_broker_epochs if generator.random() < 0.08}
    ctx.default_unclean = generator.random() < 0.25
    ctx.leader_recovery_supported = generator.random() < 0.9
    ctx.delete_topic_enabled = generator.random() < 0.9
    for number in range(generator.randint(3, 6)):
        add_topic(ctx, generator, f"topic-{number}", ids)
    add_queued_topics(ctx, generator)
    add_offline_dirs(ctx, generator)
    become(ctx)
    recount(ctx)
    return ctx


def become(ctx: Context) -> None:
    """What a version does not know is not there."""
    if not ctx.profile.has_log_dirs:
        ctx.offline_dir_replicas.clear()
    if not ctx.profile.cancels_reassignments:
        ctx.assignments = {p: Assignment(a.replicas) for p, a in ctx.assignments.items()}


def add_topic(ctx: Context, generator: Random, topic: str, ids: list[int]) -> None:
    """A topic of 1 to 8 partitions, with replication factors from 1 to 5 mixed in it."""
    ctx.all_topics.add(topic)
    if generator.random() < 0.5:
        ctx.topic_unclean[topic] = generator.random() < 0.6
    usual = generator.randint(1, min(MOST_REPLICAS, len(ids)))
    for partition in range(generator.randint(1, 8)):
        n = usual if generator.random() < 0.7 else generator.randint(1, min(5, len(ids)))
        replicas = tuple(generator.sample(ids, n))
        p = (topic, partition)
        ctx.assignments[p] = random_assignment(generator, replicas)
        if generator.random() < 0.93:
            ctx.leadership[p] = random_record(ctx, generator, replicas, ids)


def random_assignment(generator: Random, replicas: tuple[int, ...]) -> Assignment:
    """An assignment; one in eight is being reassigned."""
    if len(replicas) < 2 or generator.random() < 0.875:
        return Assignment(replicas)
    roles = [generator.choice(("kept", "adding", "removing")) for _ in replicas]
    if len(set(roles)) == 1:
        roles[0] = "kept"
    pick = {role: tuple(b for b, r in zip(replicas, roles, strict=True) if r == role)
            for role in ("adding", "removing")}
    return Assignment(replicas, pick["adding"], pick["removing"])


def random_record(
    ctx: Context, generator: Random, replicas: tuple[int, ...], ids: list[int]
) -> Record:
    """A record whose leader, if any, is in its ISR; now and then an ISR member is unassigned."""
    isr = [b for b in replicas if generator.random() < 0.7] or [generator.choice(replicas)]
    if generator.random() < 0.05:
        isr.append(generator.choice([b for b in ids if b not in isr] or isr[:1]))
    isr = list(dict.fromkeys(isr))
    generator.shuffle(isr)
    leader = generator.choice(isr) if generator.random() < 0.85 else -1
    newer = generator.random() < 0.03
    epoch, recovering = generator.randint(0, 50), generator.random() < 0.1
    return Record(
        leader, epoch, tuple(isr), int(recovering and ctx.profile.marks_recovery),
        generator.randint(0, 50), ctx.epoch + 5 if newer else generator.randint(0, ctx.epoch),
    )


def add_queued_topics(ctx: Context, generator: Random) -> None:
    """One topic in six is queued for deletion; of those some have started, some are held back."""
    ctx.topics_to_delete = {t for t in sorted(ctx.all_topics) if generator.random() < 0.17}
    queued = sorted(ctx.topics_to_delete)
    ctx.topics_deletion_started = {t for t in queued if generator.random() < 0.4}
    ctx.topics_ineligible = {t for t in queued if generator.random() < 0.3}


def add_offline_dirs(ctx: Context, generator: Random) -> None:
    """Some log directories of some brokers are offline."""
    for p, b in list(ctx.assigned_replicas()):
        if b in ctx.live_broker_epochs and generator.random() < 0.04:
            ctx.offline_dir_replicas.setdefault(b, set()).add(p)


def recount(ctx: Context) -> None:
    """The imbalance count of a context that was not made by its mutators."""
    ctx.being_reassigned = {p for p, a in ctx.assignments.items() if a.being_reassigned}
    ctx.preferred_imbalance_count = sum(
        ctx.is_imbalanced(p) for p in ctx.leadership if not ctx.is_queued(p)
    )


def store_like(ctx: Context) -> TwinStore:
    """A store that holds what the context has cached."""
    return TwinStore(dict(ctx.leadership), ctx.epoch, ctx.epoch_store_version)


def some(generator: Random, things: list[Partition], most: int) -> list[Partition]:
    """A few of some things, in order."""
    return sorted(generator.sample(things, min(len(things), generator.randint(1, most))))
