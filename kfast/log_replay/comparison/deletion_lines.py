"""Lines that say how far the deletion of topics is, compared with the simulated queue.

An event may take topics out of the queue, and its lines stand before and after that. Where no line
shows the brokers' answers, it is not known when a topic left the queue: a line may speak of every
topic that has been in it since the controller was elected.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfast.log_replay.checks import MISSING
from kfast.log_replay.comparison.cluster_claims import Claim, ClusterView, CompareCluster
from kfast.log_replay.comparison.facts import UNASSIGNED
from kfast.log_replay.wording.forms import Statement


def _queued(view: ClusterView) -> tuple[frozenset[str], frozenset[str]] | None:
    """Topics in the queue after the last event, and all of the term; None if not known."""
    simulation, term = view.world.simulation, view.term
    if not simulation.ran or term is None or not term.opened:
        return None
    event = simulation.ran[-1].event
    name = "topics" if event.kind == "delete" else "to_delete"
    announced = frozenset(event.fields.get(name) or ())
    now = simulation.queued
    ever = view.queued.get(id(term), frozenset()) | now | simulation.queued_at_start | announced
    view.queued[id(term)] = ever
    return now, ever


def _handled(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Topics in the queue when a controller goes on with it."""
    queued = _queued(view)
    if queued is not None:
        now, ever = queued
        logged = frozenset(line.fields["topics"])
        is_open = logged - ever <= view.unnamed
        predicted = logged if logged <= ever else None if is_open else now
        reason = UNASSIGNED if predicted is None else ""
        yield Claim("topics being deleted", "cluster", logged, predicted, reason)


def _of_topic(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """A topic whose deletion starts, or is complete: it was in the queue."""
    queued, topic = _queued(view), line.fields["topic"]
    if queued is not None:
        predicted = topic if topic in queued[1] else None if topic in view.unnamed else MISSING
        reason = UNASSIGNED if predicted is None else ""
        yield Claim("topic being deleted", "cluster", topic, predicted, reason)


def _answered(view: ClusterView, line: Statement) -> Iterator[Claim]:
    """Replicas that a broker deleted, or failed to: those of its answer whose topics are queued."""
    queued = _queued(view)
    ran = view.latest(line)
    failures = None if ran is None else ran.event.fields.get("failures")
    if queued is None or ran is None or failures is None or ran.event.at == view.number:
        return
    has_failed = line.kind == "deletion_failed"
    predicted = frozenset(
        replica for replica, failed in failures.items()
        if failed == has_failed and replica[0] in queued[1]
    )
    kind = "replicas not deleted" if has_failed else "replicas deleted"
    yield Claim(kind, "cluster", frozenset(line.fields["replicas"]), predicted)


DELETION_COMPARE: dict[str, CompareCluster] = {
    "deletion_handled": _handled, "deletion_started": _of_topic, "deletion_done": _of_topic,
    "replicas_deleted": _answered, "deletion_failed": _answered,
}
"""What checks each kind of line about the deletion of topics."""
