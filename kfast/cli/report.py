"""Texts of the answers, drawn from their documents; headings are the columns' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["draw_columns", "draw_failure", "draw_show"]

Document = Mapping[str, Any]
Row = Mapping[str, Any]

TROUBLE = {
    "offline": "red",
    "newly_offline": "red",
    "no_live_replica": "red",
    "unclean": "red",
    "under_min_isr": "yellow",
    "newly_under_min_isr": "yellow",
}
"""Colours of numbers that are not 0; only a terminal shows them."""

TOPIC_COLUMNS = ("offline", "under_min_isr", "at_min_isr", "under_replicated")
CHANGES = ("newly_offline", "newly_under_min_isr", "leaders_moved", "unclean", "isr_shrunk")
BROKER_COLUMNS = ("broker_id", "rack", "registered", "leaders", "replicas", "in_sync")
LEADER_COLUMNS = ("leaders_before", "leaders", "change", "in_sync_before", "in_sync", "requests")
FEWEST_BROKERS = 16
"""So many brokers are always listed; of more, as many as there are topics."""

FOLDED = ("topic", "rack", "arrow", "meaning")
SCHEMA_COLUMNS = ("column", "array", "arrow", "null", "meaning")


def draw_show(console: Console, document: Document) -> None:
    """Draw what `kfast show` answers."""
    _draw_head(console, document, "The cluster as it is described.")
    factors = _table("Replication factors", ("replicas", "partitions"))
    for factor, count in document["cluster"]["replication_factors"].items():
        factors.add_row(factor, str(count))
    _draw(console, factors)
    states = _table("Partitions", ("metric", "partitions"), left=1)
    for metric, value in document["summary"].items():
        states.add_row(metric, _number(metric, value))
    _draw(console, states)
    shown = _first(document, lambda row: (row["registered"], -row["leaders"]))
    brokers = _table(_titled("Brokers", shown, document["brokers"]), BROKER_COLUMNS)
    for row in shown:
        brokers.add_row(*(_cell(row[name]) for name in BROKER_COLUMNS))
    _draw(console, brokers)
    _draw_topics(console, document, (*TOPIC_COLUMNS, "not_preferred"))


def draw_failure(console: Console, document: Document) -> None:
    """Draw what `kfast fail` answers."""
    _draw_head(console, document, _scenario(document["scenario"]))
    _draw_start(console, document["start"])
    _draw_summary(console, document)
    requests = _table("Requests that the controller sends", ("kind", "requests", "partitions"), 1)
    for row in document["requests"]:
        requests.add_row(row["kind"], str(row["requests"]), str(row["partitions"]))
    _draw(console, requests)
    _draw_leaders(console, document)
    _draw_topics(console, document, (*TOPIC_COLUMNS, "leaders_moved"))
    for explanation in document["explanations"]:
        _draw_explanation(console, explanation)


def draw_columns(console: Console, document: Document) -> None:
    """Draw what `kfast schema` answers: one table of columns per table of a cluster."""
    columns = document["columns"]
    for name in dict.fromkeys(column["table"] for column in columns):
        table = _table(name, SCHEMA_COLUMNS, left=len(SCHEMA_COLUMNS))
        for column in columns:
            if column["table"] == name:
                table.add_row(*(_cell(column[key]) for key in SCHEMA_COLUMNS))
        _draw(console, table)


def _scenario(scenario: Document) -> str:
    """The question, as a sentence."""
    ids = scenario["brokers"]
    racks = f" (rack {', '.join(scenario['racks'])})" if scenario["racks"] else ""
    who = f"Broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}{racks}"
    if scenario["controlled"]:
        how = "asks for its controlled shutdown and stops"
        return f"{who} {how}." if len(ids) == 1 else f"{who}: one after the other, each {how}."
    return f"{who} fails." if len(ids) == 1 else f"{who} fail together."


def _draw_head(console: Console, document: Document, title: str) -> None:
    """What was asked, who answers, about what, and what was assumed."""
    cluster = document["cluster"]
    console.print(Text(title, style="bold"))
    console.print(f"Controller: {document['controller']} (kfast {document['kfast']})")
    console.print(
        f"Cluster: {document['input']}: {cluster['brokers']} brokers, {cluster['registered']} of "
        f"them registered; {cluster['topics']} topics, {cluster['partitions']} partitions, "
        f"{cluster['replicas']} replicas",
        markup=False,
    )
    for heading, lines in (("Assumed", document["assumptions"]), ("Note", document["notes"])):
        for line in lines:
            console.print(Text(f"{heading}: {line}", style="dim"))


def _draw_start(console: Console, start: Document) -> None:
    """What the controller's start itself changed: a line of its own."""
    summary = start["summary"]
    changed = {name: summary[name] for name in (*CHANGES, "back_online") if summary[name]}
    said = ", ".join(f"{name} {value}" for name, value in changed.items())
    console.print(
        f"The controller's start changed {said or 'no leader and no ISR'}; "
        f"it sends {summary['requests']} requests."
    )


def _draw_summary(console: Console, document: Document) -> None:
    """Every metric, before and after; "before" is after the controller's start."""
    table = _table("Partitions", ("metric", "before", "after", "change"), left=1)
    before, summary = document["before"], document["summary"]
    for metric, value in before.items():
        after = summary[metric]
        table.add_row(metric, str(value), _number(metric, after), _signed(after - value))
    for metric in CHANGES:
        table.add_row(metric, "", _number(metric, summary[metric]), "")
    _draw(console, table)
    if document["remaining"]:
        console.print(
            f"Controlled shutdown could not move {document['remaining']} leaders: nobody else in "
            "their ISR was live."
        )


def _draw_leaders(console: Console, document: Document) -> None:
    """Leaders per broker before and after: of many brokers, those with the largest change."""
    shown = _first(document, lambda row: (not _failed(row), _moved(row)))
    columns = ("broker_id", "rack", *LEADER_COLUMNS)
    table = _table(_titled("Leaders per broker", shown, document["brokers"]), columns, left=2)
    for row in shown:
        change = _signed(row["leaders"] - row["leaders_before"])
        cells = (_cell(change if name == "change" else row[name]) for name in columns)
        table.add_row(*cells, style="red" if _failed(row) else "")
    _draw(console, table)


def _failed(row: Row) -> bool:
    return bool(row["registered_before"] and not row["registered"])


def _moved(row: Row) -> int:
    """Sorts brokers by how many leaders they won or lost, most first."""
    return -abs(int(row["leaders"]) - int(row["leaders_before"]))


def _draw_topics(console: Console, document: Document, columns: Sequence[str]) -> None:
    topics = document["topics"]
    if not topics:
        return
    total = document["topics_listed_of"]
    title = f"Worst topics ({len(topics)} of {total} affected)"
    table = _table(title, ("topic", "partitions", *columns), left=1)
    for row in topics:
        table.add_row(row["topic"], str(row["partitions"]), *(_number(c, row[c]) for c in columns))
    _draw(console, table)


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


def _first(document: Document, key: Any) -> list[Row]:
    """The brokers to list, in the order of their ids: the first by a key if there are many."""
    brokers: list[Row] = document["brokers"]
    most = max(document["top"], FEWEST_BROKERS)
    return sorted(sorted(brokers, key=key)[:most], key=lambda row: int(row["broker_id"]))


def _titled(title: str, shown: Sequence[Row], rows: Sequence[Row]) -> str:
    return title if len(shown) == len(rows) else f"{title} ({len(shown)} of {len(rows)})"


def _table(title: str, columns: Sequence[str], left: int = 0) -> Table:
    """An empty table: the first columns are texts, the others numbers.

    Only texts of any length are folded where the terminal is too narrow, so nothing is cut off.
    """
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        header_style="",
        padding=(0, 1, 0, 0),
    )
    for place, name in enumerate(columns):
        table.add_column(
            "\n".join(name.rsplit("_", 1)).replace("_", " "),
            justify="left" if place < left else "right",
            overflow="fold",
            no_wrap=name not in FOLDED,
        )
    return table


def _draw(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _signed(value: int) -> str:
    return f"{value:+d}" if value else "0"


def _number(metric: str, value: int) -> str:
    colour = TROUBLE.get(metric)
    return f"[{colour}]{value}[/]" if colour and value else str(value)
