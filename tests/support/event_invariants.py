"""Invariant 25 of docs/controller.md, section 9, with what its event refused.

It is asked of the twin: kfast has the same state and the same journal, which is compared.
"""

from __future__ import annotations

from tests.support.event import Event
from tests.support.reference import Context
from tests.support.reference_core import Happened

REASSIGNING = frozenset({
    "alter_partition_reassignments", "reassign_partitions", "on_partition_reassignment",
    "alter_partition", "catch_up", "on_isr_change_notification",
})
def broken(before: Context, after: Context, event: Event, happened: Happened) -> str | None:
    """What is wrong after an event that goes on with reassignments; None if nothing is."""
    if event.name in REASSIGNING and happened.failure is None:
        return reassigned_partitions_have_their_targets(before, after, happened)
    return None


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
        known = before.leadership.get(p)  # None where a leader's notification brings the record.
        strays = set(known.isr if known else ()) - set(before.assignment(p).replicas)
        if assignment.being_reassigned:
            return f"invariant 25: {p} is done, but has {assignment}"
        if record.leader not in assignment.replicas:
            return f"invariant 25: {p} is done, but {record.leader} leads"
        if any((p, b) in after.replica_states for b in gone):
            return f"invariant 25: {p} is done, but a state of {gone} is left"
        if not set(record.isr) <= {*assignment.replicas, *strays}:
            return f"invariant 25: {p} is done, but its ISR is {record.isr}"
    return None
