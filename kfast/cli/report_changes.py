"""Texts of what a reassignment plan does, and of what deleting topics does."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from kfast.cli.drawing import (
    Document,
    Row,
    cell,
    draw_head,
    draw_requests,
    draw_start,
    draw_table,
    failed,
    first_brokers,
    new_table,
    number,
    signed,
    titled,
)

__all__ = ["draw_deletion", "draw_reassignment"]

OF_THE_PLAN = (
    "refused",
    "completed",
    "pending",
    "replicas_added",
    "replicas_removed",
    "leader_epoch_bumps",
)
OF_THE_CLUSTER = ("newly_offline", "newly_under_min_isr", "leaders_moved", "unclean")
REASSIGNED_BROKERS = (
    "added",
    "removed",
    "replicas",
    "leaders_before",
    "leaders",
    "preferred",
    "requests",
)
DELETED_BROKERS = (
    "replicas_before",
    "told_to_delete",
    "waiting",
    "replicas",
    "leaders_before",
    "leaders",
    "requests",
)


def draw_reassignment(console: Console, document: Document) -> None:
    """Draw what `kfast reassign` answers."""
    draw_head(console, document, _plan(document["scenario"]))
    draw_start(console, document["start"])
    _draw_plan(console, document)
    _draw_states(console, document)
    draw_requests(console, document)
    _draw_brokers(console, document, REASSIGNED_BROKERS)
    for status, columns in (
        ("refused", ("topic", "partition", "error", "reason")),
        ("pending", ("topic", "partition", "replicas", "isr", "reason")),
    ):
        title = f"{status.capitalize()} partitions"
        _draw_listed(console, document, status, title, columns)
    topics = (
        "topic",
        "partitions",
        "refused",
        "pending",
        "completed",
        "leaders_moved",
        "not_preferred",
    )
    _draw_listed(console, document, "topics", "Topics", topics)


def draw_deletion(console: Console, document: Document) -> None:
    """Draw what `kfast delete` answers."""
    draw_head(console, document, _deletion(document["scenario"]))
    draw_start(console, document["start"])
    table = new_table("Deletion", ("metric", "count"), left=1)
    for metric, value in document["summary"].items():
        if "requests" not in metric:
            table.add_row(metric, number(metric, value))
    draw_table(console, table)
    _draw_listed(
        console,
        document,
        "topics",
        "Topics",
        ("topic", "partitions", "replicas", "status", "reason"),
    )
    _draw_brokers(console, document, DELETED_BROKERS)
    draw_requests(console, document)


def _plan(scenario: Document) -> str:
    """The question, as a sentence or two."""
    plan = scenario["plan"]
    said = "What is being reassigned goes on" if plan is None else f"Plan {plan} is executed"
    said += _meanwhile(scenario["brokers"])
    if scenario["pending"]:
        return f"{said}; no new replica has caught up yet."
    return f"{said}; new replicas on live brokers catch up."


def _deletion(scenario: Document) -> str:
    """The question, as a sentence."""
    topics = scenario["topics"]
    shown = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
    verb = "is" if len(topics) == 1 else "are"
    noun = "Topic" if len(topics) == 1 else "Topics"
    return f"{noun} {shown} {verb} deleted{_meanwhile(scenario['brokers'])}."


def _meanwhile(brokers: Sequence[int]) -> str:
    if not brokers:
        return ""
    noun, verb = ("broker", "fails") if len(brokers) == 1 else ("brokers", "fail")
    return f", and {noun} {', '.join(map(str, brokers))} {verb} meanwhile"


def _draw_plan(console: Console, document: Document) -> None:
    """What becomes of the partitions of the plan."""
    table = new_table("Reassignment", ("metric", "count"), left=1)
    for metric in OF_THE_PLAN:
        table.add_row(metric, number(metric, document["summary"][metric]))
    draw_table(console, table)


def _draw_states(console: Console, document: Document) -> None:
    """Every metric of the cluster before, while the plan is under way, and in the end."""
    before, under_way, after = document["before"], document["under_way"], document["summary"]
    pending = document["scenario"]["pending"]
    columns = ("before", "under_way") if pending else ("before", "under_way", "after")
    table = new_table("Partitions", ("metric", *columns, "change"), left=1)
    for metric, value in before.items():
        counts = [number(metric, under_way[metric])]
        counts += [] if pending else [number(metric, after[metric])]
        table.add_row(metric, str(value), *counts, signed(after[metric] - value))
    for metric in OF_THE_CLUSTER:
        blank = [""] * (len(columns) - 1)
        table.add_row(metric, *blank, number(metric, after[metric]), "")
    draw_table(console, table)


def _draw_brokers(console: Console, document: Document, columns: Sequence[str]) -> None:
    """Replicas and leaders per broker: of many brokers, those that failed or get most requests."""
    shown = first_brokers(document, _busiest)
    named = ("broker_id", "rack", *columns)
    table = new_table(titled("Brokers", shown, document["brokers"]), named, left=2)
    for row in shown:
        table.add_row(*(cell(row[name]) for name in named), style="red" if failed(row) else "")
    draw_table(console, table)


def _busiest(row: Row) -> tuple[bool, int]:
    return not failed(row), -int(row["requests"])


def _draw_listed(
    console: Console, document: Document, what: str, title: str, columns: Sequence[str]
) -> None:
    """Rows of one of the document's lists: the first of them, where there are many."""
    rows, total = document[what], document[f"{what}_listed_of"]
    if not rows:
        return
    title = title if len(rows) == total else f"{title} ({len(rows)} of {total})"
    table = new_table(title, columns, left=1)
    for name, column in zip(columns, table.columns, strict=True):
        if not isinstance(rows[0][name], int):
            column.justify = "left"
    for row in rows:
        table.add_row(*(_shown(name, row[name]) for name in columns))
    draw_table(console, table)


def _shown(name: str, value: object) -> str:
    return number(name, value) if isinstance(value, int) else cell(value)
