"""What the texts of all answers have in common: the head, tables, cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "CHANGES",
    "Document",
    "Row",
    "cell",
    "draw_head",
    "draw_requests",
    "draw_start",
    "draw_table",
    "failed",
    "first_brokers",
    "new_table",
    "number",
    "signed",
    "titled",
]

Document = Mapping[str, Any]
Row = Mapping[str, Any]

TROUBLE = {
    "offline": "red",
    "newly_offline": "red",
    "no_live_replica": "red",
    "unclean": "red",
    "refused": "red",
    "under_min_isr": "yellow",
    "newly_under_min_isr": "yellow",
    "pending": "yellow",
    "topics_waiting": "yellow",
}
"""Colours of numbers that are not 0; only a terminal shows them."""

CHANGES = ("newly_offline", "newly_under_min_isr", "leaders_moved", "unclean", "isr_shrunk")
FEWEST_BROKERS = 16
"""So many brokers are always listed; of more, as many as there are topics."""

FOLDED = (
    "topic", "rack", "arrow", "meaning", "error", "reason", "brokers", "racks", "topics", "isr",
    "replicas",
)


def draw_head(console: Console, document: Document, title: str) -> None:
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


def draw_start(console: Console, start: Document) -> None:
    """What the controller's start itself changed: a line of its own."""
    summary = start["summary"]
    changed = {name: summary[name] for name in (*CHANGES, "back_online") if summary[name]}
    said = ", ".join(f"{name} {value}" for name, value in changed.items())
    console.print(
        f"The controller's start changed {said or 'no leader and no ISR'}; "
        f"it sends {summary['requests']} requests."
    )


def draw_requests(console: Console, document: Document) -> None:
    """How many requests of each kind are sent."""
    table = new_table("Requests that the controller sends", ("kind", "requests", "partitions"), 1)
    for row in document["requests"]:
        table.add_row(row["kind"], str(row["requests"]), str(row["partitions"]))
    draw_table(console, table)


def new_table(title: str, columns: Sequence[str], left: int = 0) -> Table:
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


def draw_table(console: Console, table: Table) -> None:
    """Draw a table below an empty line."""
    console.print()
    console.print(table)


def first_brokers(document: Document, key: Any) -> list[Row]:
    """The brokers to list, in the order of their ids: the first by a key if there are many."""
    brokers: list[Row] = document["brokers"]
    most = max(document["top"], FEWEST_BROKERS)
    return sorted(sorted(brokers, key=key)[:most], key=lambda row: int(row["broker_id"]))


def titled(title: str, shown: Sequence[Row], rows: Sequence[Row]) -> str:
    """A title that says how many of all rows are shown, if not all are."""
    return title if len(shown) == len(rows) else f"{title} ({len(shown)} of {len(rows)})"


def failed(row: Row) -> bool:
    """Whether a broker was up before and is not any more."""
    return bool(row["registered_before"] and not row["registered"])


def cell(value: object) -> str:
    """A value as it stands in a table."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(map(str, value)) or "-"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def signed(value: int) -> str:
    """A difference, with its sign."""
    return f"{value:+d}" if value else "0"


def number(metric: str, value: int) -> str:
    """A count, coloured where it means trouble."""
    colour = TROUBLE.get(metric)
    return f"[{colour}]{value}[/]" if colour and value else str(value)
