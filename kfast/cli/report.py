"""Texts of the answers, drawn from their documents; headings are the columns' names."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kfast.cli.drawing import (
    CHANGES,
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

__all__ = ["draw_columns", "draw_failure", "draw_show"]

TOPIC_COLUMNS = ("offline", "under_min_isr", "at_min_isr", "under_replicated")
BROKER_COLUMNS = ("broker_id", "rack", "registered", "leaders", "replicas", "in_sync")
LEADER_COLUMNS = ("leaders_before", "leaders", "change", "in_sync_before", "in_sync", "requests")
SCHEMA_COLUMNS = ("column", "array", "arrow", "null", "meaning")


def draw_show(console: Console, document: Document) -> None:
    """Draw what `kfast show` answers."""
    draw_head(console, document, "The cluster as it is described.")
    factors = new_table("Replication factors", ("replicas", "partitions"))
    for factor, count in document["cluster"]["replication_factors"].items():
        factors.add_row(factor, str(count))
    draw_table(console, factors)
    states = new_table("Partitions", ("metric", "partitions"), left=1)
    for metric, value in document["summary"].items():
        states.add_row(metric, number(metric, value))
    draw_table(console, states)
    shown = first_brokers(document, lambda row: (row["registered"], -row["leaders"]))
    brokers = new_table(titled("Brokers", shown, document["brokers"]), BROKER_COLUMNS)
    for row in shown:
        brokers.add_row(*(cell(row[name]) for name in BROKER_COLUMNS))
    draw_table(console, brokers)
    _draw_topics(console, document, (*TOPIC_COLUMNS, "not_preferred"))


def draw_failure(console: Console, document: Document) -> None:
    """Draw what `kfast fail` answers."""
    draw_head(console, document, _scenario(document["scenario"]))
    draw_start(console, document["start"])
    _draw_summary(console, document)
    draw_requests(console, document)
    _draw_leaders(console, document)
    _draw_topics(console, document, (*TOPIC_COLUMNS, "leaders_moved"))
    for explanation in document["explanations"]:
        _draw_explanation(console, explanation)


def draw_columns(console: Console, document: Document) -> None:
    """Draw what `kfast schema` answers: one table of columns per table of a cluster."""
    columns = document["columns"]
    for name in dict.fromkeys(column["table"] for column in columns):
        table = new_table(name, SCHEMA_COLUMNS, left=len(SCHEMA_COLUMNS))
        for column in columns:
            if column["table"] == name:
                table.add_row(*(cell(column[key]) for key in SCHEMA_COLUMNS))
        draw_table(console, table)


def _scenario(scenario: Document) -> str:
    """The question, as a sentence."""
    ids = scenario["brokers"]
    racks = f" (rack {', '.join(scenario['racks'])})" if scenario["racks"] else ""
    who = f"Broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}{racks}"
    if scenario["controlled"]:
        how = "asks for its controlled shutdown and stops"
        return f"{who} {how}." if len(ids) == 1 else f"{who}: one after the other, each {how}."
    return f"{who} fails." if len(ids) == 1 else f"{who} fail together."


def _draw_summary(console: Console, document: Document) -> None:
    """Every metric, before and after; "before" is after the controller's start."""
    table = new_table("Partitions", ("metric", "before", "after", "change"), left=1)
    before, summary = document["before"], document["summary"]
    for metric, value in before.items():
        after = summary[metric]
        table.add_row(metric, str(value), number(metric, after), signed(after - value))
    for metric in CHANGES:
        table.add_row(metric, "", number(metric, summary[metric]), "")
    draw_table(console, table)
    if document["remaining"]:
        console.print(
            f"Controlled shutdown could not move {document['remaining']} leaders: nobody else in "
            "their ISR was live."
        )


def _draw_leaders(console: Console, document: Document) -> None:
    """Leaders per broker before and after: of many brokers, those with the largest change."""
    shown = first_brokers(document, lambda row: (not failed(row), _moved(row)))
    columns = ("broker_id", "rack", *LEADER_COLUMNS)
    table = new_table(titled("Leaders per broker", shown, document["brokers"]), columns, left=2)
    for row in shown:
        change = signed(row["leaders"] - row["leaders_before"])
        cells = (cell(change if name == "change" else row[name]) for name in columns)
        table.add_row(*cells, style="red" if failed(row) else "")
    draw_table(console, table)


def _moved(row: Row) -> int:
    """Sorts brokers by how many leaders they won or lost, most first."""
    return -abs(int(row["leaders"]) - int(row["leaders_before"]))


def _draw_topics(console: Console, document: Document, columns: Sequence[str]) -> None:
    topics = document["topics"]
    if not topics:
        return
    total = document["topics_listed_of"]
    title = f"Worst topics ({len(topics)} of {total} affected)"
    table = new_table(title, ("topic", "partitions", *columns), left=1)
    for row in topics:
        table.add_row(row["topic"], str(row["partitions"]), *(number(c, row[c]) for c in columns))
    draw_table(console, table)


def _draw_explanation(console: Console, explanation: Document) -> None:
    console.print()
    console.print(
        Text(f"Why {explanation['topic']}-{explanation['partition']} ends as it does", style="bold")
    )
    for section in explanation["sections"]:
        console.print(Padding(Text(section["heading"], style="bold"), (0, 0, 0, 2)))
        for line in section["lines"]:
            indent = len(line) - len(line.lstrip())
            console.print(Padding(Text(line.lstrip()), (0, 0, 0, 4 + indent)))
