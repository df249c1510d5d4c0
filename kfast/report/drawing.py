"""What the texts of answers have in common: verdict, rows of a document, metrics, and the foot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from kfast.report import LISTS
from kfast.report.tables import Row, TableColumn, TextTable, plain, text_column
from kfast.report.wording import controller_sentence, plural, signed

__all__ = [
    "broker_columns", "busiest", "draw_brokers", "draw_controller", "draw_foot", "draw_heading",
    "draw_lists", "draw_metrics", "draw_rows", "draw_start", "draw_topics", "draw_verdict",
    "first_brokers", "has_failed", "is_kraft", "metric_column", "number", "without_requests",
]

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
    "contradicted": "red",
    "missing": "red",
    "leaderless": "red",
}
"""Colours of numbers that are not 0; only a terminal shows them."""

FEWEST_BROKERS = 16
"""So many brokers are always listed; of more, as many as there are topics."""

START_CHANGES = {
    "newly_offline": ("takes", "partition", " offline"),
    "newly_under_min_isr": ("takes", "partition", " under min ISR"),
    "leaders_moved": ("moves", "leader", ""),
    "unclean": ("elects", "leader", " outside the ISR"),
    "isr_shrunk": ("shrinks", "ISR", ""),
    "back_online": ("brings", "partition", " back"),
}
"""What a controller's start does to so many, in words."""


# --- rows ----------------------------------------------------------------------------------------


def number(metric: str, value: object) -> Text:
    """A count, coloured where it means trouble."""
    return Text(str(value), TROUBLE.get(metric, "") if value else "")


def metric_column(heading: str) -> TableColumn:
    """A column of counts in rows that have the name of their metric."""
    return TableColumn(heading, value=lambda row: number(row["metric"], row[heading]))


def draw_rows(
    console: Console, title: str, columns: Sequence[TableColumn | str], rows: Sequence[Row],
    n: int | None = None, *, if_empty: bool = False, complete: bool = False,
    style: Callable[[Row], str] = lambda _: "",
) -> None:
    """Draw rows of a document, the first of n; without rows nothing, unless `if_empty`.

    With `complete`, no column is left out for lack of width.
    """
    if not rows and not if_empty:
        return
    table = TextTable(titled(title, len(rows), n), columns, complete=complete)
    for row in rows:
        cells = ((column.heading, column.cell_of(row)) for column in table.columns)
        table.add_row(*(number(name, value) if name in TROUBLE and isinstance(value, int) else value
                        for name, value in cells), style=style(row))
    table.draw(console)


def draw_metrics(
    console: Console, before: Row, later: Mapping[str, Row], changes: Sequence[str]
) -> None:
    """Draw every metric before and at some later times, and what changed until the last of them."""
    *_, end = later.values()
    table = TextTable("Partitions", [text_column("metric"), "before", *later, "change"])
    for metric, value in before.items():
        if any(metric not in summary for summary in later.values()):
            continue
        counts = [number(metric, summary[metric]) for summary in later.values()]
        table.add_row(metric, value, *counts, signed(end[metric] - value))
    for metric in changes:
        counts = [number(metric, summary.get(metric, "")) for summary in later.values()]
        table.add_row(metric, "", *counts, "")
    table.draw(console)


def draw_topics(
    console: Console, document: Row, metrics: Sequence[str], title: str = "Worst topics"
) -> None:
    """Draw the first of the topics of which some metric holds, the worst first."""
    columns: list[TableColumn | str] = [text_column("topic"), *metrics, "partitions"]
    draw_rows(console, title, columns, document["topics"], document["topics_listed_of"])


def draw_brokers(
    console: Console, title: str, document: Row, columns: Sequence[TableColumn | str],
    key: Callable[[Row], Any],
) -> None:
    """Draw what becomes of the brokers, by their ids: if there are many, of the first by a key.

    `change` is how many leaders a broker won or lost. Those that failed are red.
    """
    change = TableColumn("change", value=lambda row: signed(row["leaders"] - row["leaders_before"]))
    rows = first_brokers(document, sorted(document["brokers"], key=key))
    draw_rows(
        console, title, broker_columns(*(change if name == "change" else name for name in columns)),
        sorted(rows, key=lambda row: int(row["broker_id"])), len(document["brokers"]),
        if_empty=True, style=lambda row: "red" if has_failed(row) else "",
    )


def broker_columns(*columns: TableColumn | str) -> list[TableColumn | str]:
    """Columns of a table of brokers."""
    return ["broker_id", text_column("rack"), *columns]


def first_brokers(document: Row, rows: Sequence[Row]) -> Sequence[Row]:
    """The first of some brokers: as many as are always listed, or as topics are."""
    return rows[: max(document["top"], FEWEST_BROKERS)]


def busiest(row: Row) -> tuple[bool, int]:
    """Sorts brokers that failed before those that get most requests."""
    return not has_failed(row), -int(row["requests"])


def has_failed(row: Row) -> bool:
    """Whether a broker was up before and is not any more."""
    return bool(row.get("registered_before") and not row["registered"])


def titled(title: str, n_rows: int, n: int | None) -> str:
    """A title that says how many of all rows are shown, if not all are."""
    return title if n is None or n_rows == n else f"{title} ({n_rows} of {n})"


# --- what many answers have ----------------------------------------------------------------------


def draw_heading(console: Console, title: str, n_rows: int = 0, n: int | None = None) -> None:
    """Draw a heading of lines below an empty line."""
    console.print()
    console.print(plain(titled(title, n_rows, n), "bold"))


def is_kraft(document: Row) -> bool:
    """Whether a KRaft controller was simulated: it sends no requests, and fences brokers."""
    return str(document["controller"]["name"]).startswith("kraft-")


def without_requests(document: Row, columns: Sequence[str]) -> Sequence[str]:
    """Columns of a table of brokers: those of requests only where the controller sends any."""
    return [name for name in columns if name != "requests" or not is_kraft(document)]


def draw_controller(console: Console, document: Row) -> None:
    """Draw which controller was simulated, and why it, in one line; nothing where none was."""
    if document.get("controller"):
        console.print(plain(f"Controller: {controller_sentence(document['controller'])}"))


def draw_verdict(console: Console, document: Row) -> None:
    """Draw what a person needs to know first."""
    safe = document.get("safe")
    first, *others = document["verdict"]
    colour = "" if safe is None else " green" if safe else " red"
    console.print(plain(first, f"bold{colour}"))
    for line in others:
        console.print(plain(line))


def draw_lists(console: Console, document: Row) -> None:
    """Draw the partitions that were asked for by name."""
    when = " in the end" if len(document.get("steps", ())) > 1 else ""
    leader = TableColumn("leader", value=lambda row: "none" if row["leader"] < 0 else row["leader"])
    columns = (text_column("topic"), "partition", leader, text_column("isr"),
               text_column("replicas"), "min_isr")
    for name, rows in document.get("lists", {}).items():
        title = f"{LISTS[name][0]}{when} ({len(rows)})"
        draw_rows(console, title, columns, rows, if_empty=True)


def draw_foot(console: Console, document: Row) -> None:
    """Draw what the answer is about, what was assumed, and notes."""
    old = document.get("old", {"assumptions": ()})
    lines = [
        f"Cluster: {_cluster_sentence(document)} (kfast {document['kfast']})",
        *([f"Before: {_cluster_sentence(old)}"] if "cluster" in old else []),
        *(f"Assumed: {line}" for line in document["assumptions"]),
        *(f"Assumed before: {line}" for line in old["assumptions"]
          if line not in document["assumptions"]),
        *(f"Note: {line}" for line in document["notes"]),
    ]
    if document.get("rows"):
        lines.append(f"One row per scenario: {document['rows']}")
    console.print()
    for line in lines:
        console.print(plain(line, "dim"))


def _cluster_sentence(document: Row) -> str:
    """A cluster by its input and its size."""
    cluster = document["cluster"]
    return (
        f"{document['input']}: {plural(cluster['brokers'], 'broker')}, "
        f"{cluster['registered']} of them {'up' if is_kraft(document) else 'registered'}; "
        f"{plural(cluster['topics'], 'topic')}, "
        f"{plural(cluster['partitions'], 'partition')}, {plural(cluster['replicas'], 'replica')}"
    )


def draw_start(console: Console, document: Row, verbose: bool) -> None:
    """Draw what the controller's start changed, and how many requests are sent."""
    summary = document["start"]["summary"]
    changes = ", ".join(
        f"{verb} {plural(summary[name], noun)}{rest}" for name, (verb, noun, rest) in
        START_CHANGES.items() if summary[name]
    )
    changes = changes or "changes no leader and no ISR"
    if is_kraft(document):
        lines = [f"Before: after the activation of a new controller, which {changes}."]
        if "records" in document["summary"]:
            records, changes = (document["summary"][n] for n in ("records", "partition_changes"))
            lines.append(
                f"Metadata records that the controller then writes: {records}, {changes} of them "
                "changes of partitions."
            )
    else:
        lines = [
            (f"Before: after the controller's start, which {changes} and sends "
            f"{summary['requests']} requests."),
            "Requests that the controller then sends: "
            + ", ".join(f"{row['requests']} {row['kind']}" for row in document["requests"]) + ".",
        ]
    for line in lines:
        console.print(plain(line, "dim"))
    if verbose and not is_kraft(document):
        draw_rows(console, "Requests that the controller sends",
                  [text_column("kind"), "requests", "partitions"], document["requests"])
