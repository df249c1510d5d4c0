"""What `kfast delete` answers: which topics are gone, which wait, and for whom."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from rich.console import Console

from kfast.analysis.topic_deletion import Deletion
from kfast.report.answer import Answer, Document, getters, head, listed, start_document
from kfast.report.drawing import (
    busiest,
    draw_brokers,
    draw_rows,
    metric_column,
    without_requests,
)
from kfast.report.tables import text_column
from kfast.report.wording import count, safety_sentence
from kfast.state import ClusterState

__all__ = ["DELETE_TABLES", "deletion_answer"]

DELETE_TABLES = ("topics", "brokers", "requests")
REASONS = {
    "topics_waiting": ("topic", "waits", "wait"),
    "topics_kept": ("topic", "is kept: topic deletion is disabled",
                    "are kept: topic deletion is disabled"),
    "newly_offline": ("other partition", "goes offline", "go offline"),
    "newly_under_min_isr": ("other partition", "falls under min ISR", "fall under min ISR"),
    "unclean": ("leader", "is elected outside the ISR", "are elected outside the ISR"),
}
"""How each of `Deletion.reasons` is worded."""

TOPIC_COLUMNS = (
    text_column("topic"), text_column("status"), "partitions",
    "replicas", text_column("reason"),
)
BROKER_COLUMNS = ("replicas_before", "told_to_delete", "waiting", "replicas", "leaders_before",
                  "leaders", "requests")


def deletion_answer(
    source: str, state: ClusterState, deletion: Deletion, topics: Sequence[str], *, top: int,
    verbose: bool = False,
) -> Answer:
    """The answer of `kfast delete`."""
    document = {
        **head("delete", source, state),
        "notes": list(deletion.notes),
        "safe": not deletion.reasons,
        "reasons": deletion.reasons,
        "scenario": {"topics": list(topics), "brokers": list(deletion.broker_ids)},
        "start": start_document(deletion.start),
        "summary": deletion.summary,
        "requests": deletion.requests.to_pylist(),
        "brokers": deletion.brokers.to_pylist(),
        "top": top,
        **listed("topics", deletion.topics, top),
    }
    document["verdict"] = _verdict(document, deletion.topics)
    return Answer(document, _draw, getters(deletion, DELETE_TABLES), verbose)


def _verdict(document: Document, topics: pa.Table) -> list[str]:
    summary = document["summary"]
    deleted = count(summary["topics_deleted"], "topic", "is deleted", "are deleted")
    marked = [row for row in topics.to_pylist() if row["status"] in ("deleted", "waiting")]
    waiting = summary["replicas_waiting"]
    gone = sum(row["replicas"] for row in marked) - waiting
    replicas = f"{count(gone, 'replica', 'is', 'are')} gone for good"
    if waiting:
        replicas += (
            f"; {count(waiting, 'replica', 'waits', 'wait')} for a broker to return, and "
            f"{count(summary['topics_waiting'], 'topic that waits', 'serves', 'serve')} nobody"
        )
    return [safety_sentence(document, deleted, REASONS), f"{replicas}."]


def _draw(console: Console, document: Document) -> None:
    draw_rows(console, "Topics", TOPIC_COLUMNS, document["topics"], document["topics_listed_of"])
    columns = without_requests(document, BROKER_COLUMNS)
    draw_brokers(console, "Brokers", document, columns, busiest)
    draw_rows(
        console, "Deletion", [text_column("metric"), metric_column("count")],
        [{"metric": name, "count": n} for name, n in document["summary"].items()
         if "requests" not in name],
    )
