"""What `kfast reassign` answers: what becomes of the partitions of a plan, and on the way."""

from __future__ import annotations

from rich.console import Console

from kfast.analysis.plan_execution import Reassignment
from kfast.report.answer import Answer, Document, getters, head, listed, start_document
from kfast.report.drawing import (
    busiest,
    draw_brokers,
    draw_metrics,
    draw_rows,
    draw_topics,
    metric_column,
    without_requests,
)
from kfast.report.tables import text_column
from kfast.report.wording import count, out_of, plural, safety_sentence
from kfast.state import ClusterState

__all__ = ["REASSIGN_TABLES", "reassignment_answer"]

REASSIGN_TABLES = ("partitions", "topics", "brokers", "requests")
REASONS = {
    "newly_offline_on_the_way": ("partition", "goes offline on the way", "go offline on the way"),
    "newly_under_min_isr_on_the_way": (
        "partition", "falls under min ISR on the way", "fall under min ISR on the way"
    ),
    "newly_offline": ("partition", "is offline in the end", "are offline in the end"),
    "newly_under_min_isr": (
        "partition", "is under min ISR in the end", "are under min ISR in the end"
    ),
    "pending": ("partition", "does not complete", "do not complete"),
    "unclean": ("leader", "is elected outside the ISR", "are elected outside the ISR"),
    "refused": ("partition", "is refused", "are refused"),
}
"""How each of `Reassignment.reasons` is worded."""

PARTITION_COLUMNS = {
    "refused": ("error", "reason", "target"), "pending": ("reason", "isr", "replicas"),
}
TOPIC_COLUMNS = ("refused", "pending", "completed", "leaders_moved", "not_preferred")
OF_THE_PLAN = ("refused", "completed", "pending", "replicas_added", "replicas_removed",
               "leader_epoch_bumps")
OF_THE_CLUSTER = ("newly_offline", "newly_under_min_isr", "leaders_moved", "unclean")
BROKER_COLUMNS = ("added", "removed", "replicas", "leaders_before", "leaders", "preferred",
                  "requests")


def reassignment_answer(
    source: str, plan: str | None, state: ClusterState, reassignment: Reassignment, *, top: int,
    verbose: bool = False,
) -> Answer:
    """The answer of `kfast reassign`."""
    partitions, status = reassignment.partitions, reassignment.partitions["status"].to_numpy()
    outcomes = [event.outcome for event in reassignment.events]
    document = {
        **head("reassign", source, state),
        "notes": [*reassignment.notes, *(note for outcome in outcomes for note in outcome.notes)],
        "safe": False if reassignment.reasons else None if reassignment.pending else True,
        "reasons": reassignment.reasons,
        "scenario": {
            "plan": plan, "brokers": list(reassignment.broker_ids), "pending": reassignment.pending,
        },
        "start": start_document(reassignment.start),
        "before": reassignment.before.counts,
        "under_way": dict(reassignment.under_way),
        "summary": reassignment.summary,
        "requests": reassignment.requests.to_pylist(),
        "brokers": reassignment.brokers.to_pylist(),
        "top": top,
        **listed("refused", partitions.filter(status == "refused"), top),
        **listed("pending", partitions.filter(status == "pending"), top),
        **listed("topics", reassignment.topics, top),
    }
    document["verdict"] = _verdict(document, partitions.num_rows)
    return Answer(document, _draw, getters(reassignment, REASSIGN_TABLES), verbose)


def _verdict(document: Document, n: int) -> list[str]:
    summary = document["summary"]
    completed = count(summary["completed"], "partition", "completes", "complete")
    if document["scenario"]["pending"]:
        what = f"{plural(n, 'partition')} being reassigned; no new replica has caught up yet"
    elif document["safe"]:
        what = f"{completed}; none goes offline or falls under min ISR on the way"
    else:
        what = out_of(summary["completed"], n, "partition", "completes", "complete")
    added, removed = summary["replicas_added"], summary["replicas_removed"]
    replicas = "no replica is added or removed"
    if added:
        replicas = f"{plural(added, 'replica')} added, {removed or 'none'} removed"
    elif removed:
        replicas = f"{plural(removed, 'replica')} removed"
    moved = (
        f"{replicas}; {count(summary['leaders_moved'], 'leader', 'moves', 'move')}."
    )
    return [safety_sentence(document, what, REASONS), moved]


def _draw(console: Console, document: Document) -> None:
    for status, columns in PARTITION_COLUMNS.items():
        draw_rows(
            console, f"{status.capitalize()} partitions",
            [text_column("topic"), "partition", *map(text_column, columns)], document[status],
            document[f"{status}_listed_of"],
        )
    draw_topics(console, document, TOPIC_COLUMNS, "Topics")
    shown = without_requests(document, BROKER_COLUMNS)
    draw_brokers(console, "Brokers", document, shown, busiest)
    summary = document["summary"]
    draw_rows(console, "Reassignment", [text_column("metric"), metric_column("count")],
              [{"metric": name, "count": summary[name]} for name in OF_THE_PLAN])
    later = {"on the way": document["under_way"]}
    if not document["scenario"]["pending"]:
        later["after"] = summary
    draw_metrics(console, document["before"], later, OF_THE_CLUSTER)
