"""Lines of a controller after another one was elected, which it has not noticed yet.

A broker that was paused, or lost its session, goes on with what it had begun. The store refuses
what it writes, and brokers what it sends: nothing follows from such lines.

Source: KafkaZkClient.scala, the check of the controller epoch; KafkaApis.scala,
`isBrokerEpochStale` and the stale controller epoch.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence

from kfast.log_replay.terms.terms import Term
from kfast.log_replay.wording.forms import Statement

GRACE_MS = 1_000
"""For so long a controller may end what it has begun before the next one reads the store."""

FENCED = (
    "ControllerMovedException", "SessionExpiredException",
    "the LeaderAndIsr path was already written by another controller",
)
"""Errors that end what a controller writes that was replaced; up to 2.0 it reads the next epoch."""

BEGINS = frozenset({
    "broker_change", "shutdown", "new_topics", "partitions_added", "isr_updating", "isr_notified",
    "rebalance", "rebalance_check", "delete_topics", "stop_response", "reassign",
    "assignment_updating", "reassign_leader", "caught_up", "log_dir_failure",
})
"""Lines with which an event begins, whatever it does then."""

WRITES = frozenset({
    "partition_new", "partition_led", "shrunk", "isr_updated", "isr_record", "epoch_updated",
    "assignment_stored", "deletion_done",
})
"""Lines that say what was written into the store."""


def take_replaced_lines(
    statements: Sequence[Statement], terms: Sequence[Term], absent: Collection[int]
) -> set[int]:
    """Take out of the terms of one cluster the lines after the next controller was elected.

    Parameters
    ----------
    statements : sequence of Statement
    terms : sequence of Term
    absent : collection of int
        Lines of brokers about controllers that are not here.
    """
    elected = [(term.start, term.epoch) for term in terms if term.opened]
    elected += [
        (statements[at].entry.time, statements[at].fields["controller_epoch"])
        for at in absent if "controller_epoch" in statements[at].fields
    ]
    taken: set[int] = set()
    for term in terms:
        if term.epoch is None:
            continue
        if term.replaced:
            taken.update(term.statements)
            term.statements = []
            continue
        later = min((time for time, epoch in elected if epoch is not None and epoch > term.epoch),
                    default=None)
        place = len(term.statements)
        if later is not None and later <= term.end:
            place = _replaced(statements, term, later)
        place = min(place, _fenced(statements, term))
        if 0 < place < len(term.statements):
            taken.update(term.statements[place:])
            del term.statements[place:]
            term.end = statements[term.statements[-1]].entry.time
    return taken


def _replaced(statements: Sequence[Statement], term: Term, later: int) -> int:
    """Place of the first line after the next election that is not of an event from before it.

    What was written is of an event from before it, or the clocks of two brokers differ.
    """
    own = term.statements
    after, end = (bisect.bisect_right(own, time, key=lambda at: statements[at].entry.time)
                  for time in (later, later + GRACE_MS))
    kinds = [statements[at].kind for at in own[after:end]]
    written = max((place for place, kind in enumerate(kinds, 1) if kind in WRITES), default=0)
    begun = (place for place in range(written, len(kinds)) if kinds[place] in BEGINS)
    return after + next(begun, end - after)


def _fenced(statements: Sequence[Statement], term: Term) -> int:
    """Place of the first line of the first event whose writes were refused, after a failover."""
    begins = 0
    for place, at in enumerate(term.statements):
        line = statements[at]
        if line.kind in BEGINS:
            begins = place
        elif line.kind in ("partition_failed", "replica_failed", "isr_failed") and any(
            error in line.entry.more for error in FENCED
        ):  # Below INFO no line begins an ISR change.
            return place if line.kind == "isr_failed" else begins or len(term.statements)
    return len(term.statements)
