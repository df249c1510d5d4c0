"""Elections on demand and automatic rebalancing in plain Python.

Source: docs/controller.md, section 6.8.
"""

from __future__ import annotations

from kfast.schema import NO_LEADER
from tests.support.reference_context import Context, Partition, Record
from tests.support.reference_partitions import Result


def filter_raises(ctx: Context, p: Partition) -> bool:
    """Section 6.8, note: a known partition without cached leadership makes the filter raise."""
    if not ctx.profile.filters_elections:
        return False
    return p in ctx.assignments and not ctx.is_queued(p) and p not in ctx.leadership


def refuses_election(ctx: Context, p: Partition, kind: str) -> str | None:
    """Section 6.8, the filter: why p is not elected for; None where it is."""
    if p not in ctx.assignments:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if ctx.is_queued(p):
        return "INVALID_TOPIC_EXCEPTION"
    if not ctx.profile.filters_elections:
        return None
    leader = ctx.leadership[p].leader
    if kind == "preferred" and leader == ctx.assignment(p).replicas[0]:
        return "ELECTION_NOT_NEEDED"
    if kind == "unclean" and leader != NO_LEADER and leader in ctx.live:
        return "ELECTION_NOT_NEEDED"
    return None


def election_reply(result: Result, kind: str) -> int | str:
    """Section 6.8: the leader, or the error by type of election."""
    if isinstance(result, Record):
        return result.leader
    if result.error != "StateChangeFailed":
        return "UNKNOWN_SERVER_ERROR"
    preferred = kind == "preferred"
    return "PREFERRED_LEADER_NOT_AVAILABLE" if preferred else "ELIGIBLE_LEADERS_NOT_AVAILABLE"


def preferred_groups(ctx: Context) -> dict[int, list[Partition]]:
    """Section 6.8, Auto, step 1: partitions of topics that are not queued, by first replica."""
    groups: dict[int, list[Partition]] = {}
    for p, assignment in ctx.assignments.items():
        if not ctx.is_queued(p):
            groups.setdefault(assignment.replicas[0], []).append(p)
    return groups


def imbalanced_candidates(ctx: Context, b: int, percentage: int) -> list[Partition] | None:
    """Section 6.8, Auto, steps 2 and 3: what is elected for; None where the ratio is low enough.

    Brokers are looked at one after another, so an election of one is seen by the next.
    """
    group = preferred_groups(ctx)[b]
    bad = [p for p in group if p in ctx.leadership and ctx.leadership[p].leader != b]
    if len(bad) * 100 <= percentage * len(group):
        return None
    if ctx.being_reassigned and not ctx.profile.rebalances_while_reassigning:
        return []
    return [
        p
        for p in bad
        if p[0] in ctx.all_topics
        and ctx.is_replica_online(b, p)
        and (b in ctx.leadership[p].isr or not ctx.profile.rebalances_in_isr)
    ]
