"""Invariants 25 and 26 of docs/controller.md, section 9, step by step through a journal.

They are asked of the twin: kfast has the same state and the same journal, which is compared.
"""

from __future__ import annotations

from kfast.schema import ReplicaState
from tests.support.event import Event
from tests.support.reference import Context, Partition, Replica
from tests.support.reference_core import Happened

REASSIGNING = frozenset({
    "alter_partition_reassignments", "reassign_partitions", "on_partition_reassignment",
    "alter_partition", "catch_up", "on_isr_change_notification",
})
DELETING = frozenset({"delete_topics", "on_stop_replica_response", "acknowledge_deletions"})


def broken(before: Context, after: Context, event: Event, happened: Happened) -> str | None:
    """The first rule that an event broke; None if it broke none."""
    wrong = None
    if event.name in REASSIGNING and happened.failure is None:
        wrong = reassigned_partitions_have_their_targets(before, after, happened)
    if wrong is None and event.name != "on_topic_change":
        wrong = finished_topics_were_deleted(before, after, happened)
    if wrong is None and event.name in DELETING:
        wrong = nothing_is_retried_while_deleted(before, happened)
    return wrong


def reassigned_partitions_have_their_targets(
    before: Context, after: Context, happened: Happened
) -> str | None:
    """Rule 25, of partitions for which nothing was refused, of topics that stay."""
    refused = {row["partition"] for row in happened.journal.refusals}
    for p in sorted(before.being_reassigned - after.being_reassigned - refused):
        if p not in after.assignments or after.is_queued(p):
            continue
        assignment, record = after.assignments[p], after.leadership[p]
        gone = [b for b in before.assignment(p).replicas if b not in assignment.replicas]
        strays = set(before.leadership[p].isr) - set(before.assignment(p).replicas)
        if assignment.being_reassigned:
            return f"invariant 25: {p} is done, but has {assignment}"
        if record.leader not in assignment.replicas:
            return f"invariant 25: {p} is done, but {record.leader} leads"
        if any((p, b) in after.replica_states for b in gone):
            return f"invariant 25: {p} is done, but a state of {gone} is left"
        if not set(record.isr) <= {*assignment.replicas, *strays}:
            return f"invariant 25: {p} is done, but its ISR is {record.isr}"
    return None


def finished_topics_were_deleted(
    before: Context, after: Context, happened: Happened
) -> str | None:
    """Rule 26, first half: every replica left from ReplicaDeletionSuccessful."""
    gone = {p[0] for p in before.assignments} - {p[0] for p in after.assignments}
    left_from: dict[Replica, str] = {}
    for row in happened.journal.transitions:
        if row["to_state"] == ReplicaState.NON_EXISTENT.label:
            left_from[row["partition"], row["broker_id"]] = row["from_state"]
    for topic in sorted(gone):
        for r in before.replicas_for_topic(topic):
            if left_from.get(r) != ReplicaState.DELETION_SUCCESSFUL.label:
                return f"invariant 26: {topic} went, but {r} left from {left_from.get(r)}"
    return None


def nothing_is_retried_while_deleted(before: Context, happened: Happened) -> str | None:
    """Rule 26, second half: no replica goes Offline while another of its topic is deleted."""
    deleting: dict[str, set[tuple[Partition, int]]] = {}
    for r in before.assigned_replicas():
        if before.replica_states.get(r) == ReplicaState.DELETION_STARTED:
            deleting.setdefault(r[0][0], set()).add(r)
    for row in happened.journal.transitions:
        if row["broker_id"] is None:
            continue
        p = row["partition"]
        under_way = deleting.setdefault(p[0], set())
        if row["to_state"] == ReplicaState.OFFLINE.label and under_way:
            return f"invariant 26: {row} while {sorted(under_way)} are being deleted"
        under_way.discard((p, row["broker_id"]))
        if row["to_state"] == ReplicaState.DELETION_STARTED.label:
            under_way.add((p, row["broker_id"]))
    return None
