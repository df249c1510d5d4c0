"""The four elections in plain Python (docs/controller.md, section 4)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kfast.schema import Strategy
from tests.support.reference_context import Context, Partition, Record, without


@dataclass(frozen=True)
class Election:
    """What an election decided: a record or none, who is told, whether it was unclean."""

    elected: Record | None
    recipients: tuple[int, ...]
    unclean: bool = False


def first_live_in_isr(
    candidates: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """Section 4.1: the first candidate that is live and in the ISR."""
    return next((b for b in candidates if b in live and b in isr), None)


def offline_leader(
    assigned: Sequence[int], isr: Collection[int], live: Collection[int], unclean: bool
) -> tuple[int | None, bool]:
    """Section 4.3: the leader, and whether it was chosen outside the ISR."""
    leader = first_live_in_isr(assigned, isr, live)
    if leader is None and unclean:
        leader = next((b for b in assigned if b in live), None)
        return leader, leader is not None
    return leader, False


def reassign_leader(
    target: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """Section 4.1: the first target replica that is live and in the ISR."""
    return first_live_in_isr(target, isr, live)


def preferred_leader(
    assigned: Sequence[int], isr: Collection[int], live: Collection[int]
) -> int | None:
    """Section 4.1: the first assigned replica, if it is live and in the ISR."""
    return first_live_in_isr(assigned[:1], isr, live)


def controlled_shutdown_leader(
    assigned: Sequence[int],
    isr: Collection[int],
    live: Collection[int],
    shutting_down: Collection[int],
) -> int | None:
    """Section 4.1: the first live ISR member that is not shutting down."""
    return first_live_in_isr(without(assigned, shutting_down), isr, live)


def online(ctx: Context, brokers: Sequence[int], p: Partition) -> tuple[int, ...]:
    """The online ones, in the order given."""
    return tuple(b for b in brokers if ctx.is_replica_online(b, p))


def needs_config(ctx: Context, p: Partition, record: Record) -> bool:
    """Section 4.2: the topic's configuration matters only where no ISR member is online."""
    return not online(ctx, record.isr, p)


def unclean_permitted(ctx: Context, p: Partition, record: Record, strategy: Strategy) -> bool:
    """Section 4.2, where the configuration can be read."""
    if not needs_config(ctx, p, record):
        return False
    if strategy == Strategy.OFFLINE_ALLOW_UNCLEAN:
        return True
    return ctx.unclean_allowed(p[0])


def overruled(
    ctx: Context, p: Partition, record: Record, candidates: list[int], leader: int | None
) -> int | None:
    """The leader that a user's rule takes instead of the first candidate."""
    if ctx.rule is None or leader is None:
        return leader
    assert leader == candidates[0]
    return ctx.rule(ctx, p, record, candidates)


def elect_offline(ctx: Context, p: Partition, record: Record, permitted: bool) -> Election:
    """Section 4.1, Offline: marks `unclean_elections` before anything is written."""
    assigned = ctx.assignment(p).replicas
    live = online(ctx, assigned, p)
    leader, unclean = offline_leader(assigned, record.isr, live, permitted)
    candidates = [b for b in assigned if b in live and (unclean or b in record.isr)]
    leader = overruled(ctx, p, record, candidates, leader)
    unclean = unclean and leader is not None
    ctx.unclean_elections += unclean
    if leader is None:
        return Election(None, live)
    if not unclean:
        isr = online(ctx, record.isr, p)
        return Election(record.new_leader_and_isr(leader, isr), live)
    if ctx.leader_recovery_supported and ctx.profile.marks_recovery:
        return Election(record.new_recovering(leader, [leader]), live, True)
    return Election(record.new_leader_and_isr(leader, [leader]), live, True)


def elect_reassign(ctx: Context, p: Partition, record: Record) -> Election:
    """Section 4.1, Reassign: the ISR stays, and every target replica is told."""
    target = ctx.assignment(p).target
    live = online(ctx, target, p)
    leader = reassign_leader(target, record.isr, live)
    leader = overruled(ctx, p, record, [b for b in live if b in record.isr], leader)
    return Election(None if leader is None else record.new_leader(leader), target)


def elect_preferred(ctx: Context, p: Partition, record: Record) -> Election:
    """Section 4.1, PreferredReplica: the ISR stays, and every assigned replica is told."""
    assigned = ctx.assignment(p).replicas
    leader = preferred_leader(assigned, record.isr, online(ctx, assigned, p))
    return Election(None if leader is None else record.new_leader(leader), assigned)


def elect_controlled_shutdown(ctx: Context, p: Partition, record: Record) -> Election:
    """Shutting-down brokers leave the ISR, and are told as well.

    Source: section 4.1, ControlledShutdown.
    """
    assigned = ctx.assignment(p).replicas
    leaving = not ctx.profile.shutdown_among_live
    up = tuple(b for b in assigned if ctx.is_replica_online(b, p, include_shutting_down=leaving))
    leader = controlled_shutdown_leader(assigned, record.isr, up, ctx.shutting_down)
    candidates = [b for b in without(up, ctx.shutting_down) if b in record.isr]
    leader = overruled(ctx, p, record, candidates, leader)
    if leader is None:
        return Election(None, up)
    isr = without(record.isr, ctx.shutting_down)
    return Election(record.new_leader_and_isr(leader, isr), up)


def elect(
    ctx: Context, p: Partition, record: Record, strategy: Strategy, permitted: bool
) -> Election:
    """Section 4.1: the strategy's election; `permitted` (section 4.2) is for the offline ones."""
    if strategy == Strategy.REASSIGN:
        return elect_reassign(ctx, p, record)
    if strategy == Strategy.PREFERRED_REPLICA:
        return elect_preferred(ctx, p, record)
    if strategy == Strategy.CONTROLLED_SHUTDOWN:
        return elect_controlled_shutdown(ctx, p, record)
    return elect_offline(ctx, p, record, permitted)
