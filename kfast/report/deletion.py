"""What `kfast delete` answers: which topics are gone, which wait, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
from rich.console import Console

from kfast.analysis.topic_deletion import Deletion
from kfast.report.answer import (
    Answer,
    Document,
    brokers_named,
    busiest,
    count,
    draw_brokers,
    draw_foot,
    draw_rows,
    draw_start,
    draw_verdict,
    head,
    listed,
    number,
    safety_sentence,
    start_document,
)
from kfast.report.tables import TextTable, text_column
from kfast.state import ClusterState

__all__ = ["deletion_answer"]

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
        **head("delete", source, state, deletion.title),
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
    return Answer(document, partial(_draw, verbose=verbose), {
        "topics": lambda: deletion.topics, "brokers": lambda: deletion.brokers,
        "requests": lambda: deletion.requests,
    })


def _verdict(document: Document, topics: pa.Table) -> list[str]:
    summary, brokers = document["summary"], document["scenario"]["brokers"]
    meanwhile = (
        f" while {brokers_named(brokers)} {'fails' if len(brokers) == 1 else 'fail'}"
        if brokers else ""
    )
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
    return [safety_sentence(document, f"{deleted}{meanwhile}", REASONS), f"{replicas}."]


def _draw(console: Console, document: Document, *, verbose: bool) -> None:
    draw_verdict(console, document)
    draw_rows(console, "Topics", TOPIC_COLUMNS, document["topics"], document["topics_listed_of"])
    draw_brokers(console, "Brokers", document, BROKER_COLUMNS, busiest)
    counts = TextTable("Deletion", [text_column("metric"), "count"])
    for metric, value in document["summary"].items():
        if "requests" not in metric:
            counts.add_row(metric, number(metric, value))
    counts.draw(console)
    draw_foot(console, document)
    draw_start(console, document, verbose)
