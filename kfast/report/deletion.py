"""What `kfast delete` answers: which topics are gone, which wait, and for whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rich.console import Console

from kfast.changes import Deletion
from kfast.report.answer import (
    Answer,
    Document,
    brokers_named,
    busiest,
    cell,
    count,
    draw_brokers,
    draw_foot,
    draw_start,
    draw_verdict,
    head,
    listed,
    number,
    plural,
    safety_sentence,
    start_document,
    titled,
)
from kfast.report.tables import Column, TextTable
from kfast.state import ClusterState

__all__ = ["deletion_answer"]

REASONS = {
    "topics_waiting": ("topic", "waits", "wait"),
    "topics_kept": ("topic", "is kept: topic deletion is disabled",
                    "are kept: topic deletion is disabled"),
    "newly_offline": ("other partition", "goes offline", "go offline"),
    "newly_under_min_isr": ("other partition", "falls under min ISR", "fall under min ISR"),
}
"""How each of `Deletion.reasons` is worded."""

TOPIC_COLUMNS = (
    Column("topic", is_text=True), Column("status", is_text=True), Column("partitions"),
    Column("replicas"), Column("reason", is_text=True),
)
BROKER_COLUMNS = ("replicas_before", "told_to_delete", "waiting", "replicas", "leaders_before",
                  "leaders", "requests")


def deletion_answer(
    source: str, state: ClusterState, found: Deletion, topics: Sequence[str], *, top: int,
    verbose: bool = False,
) -> Answer:
    """The answer of `kfast delete`."""
    document = {
        **head("delete", source, state, found.title),
        "notes": list(found.notes),
        "safe": not found.reasons,
        "reasons": found.reasons,
        "scenario": {"topics": list(topics), "brokers": list(found.broker_ids)},
        "start": start_document(found.start),
        "summary": found.summary,
        "requests": found.requests.to_pylist(),
        "brokers": found.brokers.to_pylist(),
        "top": top,
        **listed("topics", found.topics, top),
    }
    document["verdict"] = _verdict(document)
    return Answer(document, partial(_draw, verbose=verbose), {
        "topics": lambda: found.topics, "brokers": lambda: found.brokers,
        "requests": lambda: found.requests,
    })


def _verdict(document: Document) -> list[str]:
    summary, brokers = document["summary"], document["scenario"]["brokers"]
    meanwhile = (
        f" while {brokers_named(brokers)} {'fails' if len(brokers) == 1 else 'fail'}"
        if brokers else ""
    )
    deleted = count(summary["topics_deleted"], "topic", "is deleted", "are deleted")
    waiting = count(summary["replicas_waiting"], "replica", "waits", "wait")
    gone = (
        f"{plural(summary['partitions_deleted'], 'partition')} and "
        f"{plural(summary['replicas_deleted'], 'replica')} are gone for good; {waiting} for a "
        "broker to return."
    )
    return [safety_sentence(document, f"{deleted}{meanwhile}", REASONS), gone]


def _draw(console: Console, document: Document, *, verbose: bool) -> None:
    draw_verdict(console, document)
    topics = document["topics"]
    if topics:
        table = TextTable(titled("Topics", topics, document["topics_listed_of"]), TOPIC_COLUMNS)
        for row in topics:
            table.add_row(*(cell(row[column.heading]) for column in TOPIC_COLUMNS))
        table.draw(console)
    draw_brokers(console, "Brokers", document, BROKER_COLUMNS, busiest)
    counts = TextTable("Deletion", [Column("metric", is_text=True), Column("count")])
    for metric, value in document["summary"].items():
        if "requests" not in metric:
            counts.add_row(metric, number(metric, value))
    counts.draw(console)
    draw_foot(console, document)
    draw_start(console, document, verbose)
