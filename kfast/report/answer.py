"""What all answers have in common: the verdict first, then tables, then what was assumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from kfast import __version__
from kfast.analysis.impact import Impact
from kfast.io.describe_notes import PARTIAL
from kfast.report import LISTS
from kfast.report.tables import TableColumn, TextTable, plain, text_column
from kfast.state import ClusterState
from kfast.state.from_tables import LEADERS_ASSUMED

__all__ = [
    "FEWEST_BROKERS",
    "Answer",
    "Document",
    "Row",
    "brokers_named",
    "busiest",
    "cell",
    "count",
    "draw_brokers",
    "draw_foot",
    "draw_lists",
    "draw_rows",
    "draw_start",
    "draw_topics",
    "draw_verdict",
    "first_brokers",
    "has_failed",
    "head",
    "indented",
    "listed",
    "number",
    "partition_lists",
    "plural",
    "refusals",
    "safety_sentence",
    "signed",
    "start_document",
    "titled",
]

Document: TypeAlias = dict[str, Any]
Row: TypeAlias = Mapping[str, Any]

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

MOST_NAMED = 8
"""Brokers that a sentence names; of more it says how many there are."""


@dataclass(frozen=True)
class Answer:
    """One answer in all the forms that it may be asked for.

    Parameters
    ----------
    document : dict
        What JSON says; the text is drawn from it too.
    draw : callable
        Writes the text to a console.
    tables : mapping of str to callable
        Makes each table of the answer, the main one first.
    """

    document: Document
    draw: Callable[[Console, Document], None]
    tables: Mapping[str, Callable[[], pa.Table]]

    def __post_init__(self) -> None:
        """Say after the verdict what it cannot know."""
        self.document["verdict"] += reservations(self.document.get("assumptions", ()))

    @property
    def summaries(self) -> dict[str, Mapping[str, float]]:
        """What conditions are about: the summary, or that of each step by its name."""
        steps = self.document.get("steps", ())
        if len(steps) < 2:
            return {"": self.document["summary"]}
        return {f" after step {at}": step["summary"] for at, step in enumerate(steps, 1)}


# --- documents ---------------------------------------------------------------------------------


def head(command: str, source: str, state: ClusterState, controller: str | None) -> Document:
    """How every answer on a cluster begins; the controller is the one that was simulated."""
    n_replicas = state.records["n_replicas"]
    factors = np.bincount(n_replicas)
    return {
        "kfast": __version__,
        "command": command,
        "verdict": [],
        "controller": controller,
        "input": source,
        "assumptions": list(state.assumptions),
        "notes": [],
        "cluster": {
            "brokers": state.n_brokers,
            "registered": int(state.registered.sum()),
            "topics": state.n_topics,
            "partitions": state.n_partitions,
            "replicas": int(n_replicas.sum(dtype=np.int64)),
            "replication_factors": {
                str(factor): int(factors[factor]) for factor in np.flatnonzero(factors).tolist()
            },
        },
    }


def reservations(assumptions: Sequence[str]) -> list[str]:
    """What a verdict is without: partitions that were not printed, leaders that are not given."""
    lines = [
        f"{line.split(', numbers')[0]}: this answer is without them."
        for line in assumptions if PARTIAL in line
    ]
    if any(line.startswith(LEADERS_ASSUMED) for line in assumptions):
        lines.append("Leaders are not given and assumed: this answer is about who holds what.")
    return lines


def start_document(start: Impact) -> Document:
    """What the controller's start alone did."""
    return {"before": start.before.counts, "summary": start.summary}


def listed(name: str, table: pa.Table, top: int) -> Document:
    """The first rows of a table, and how many there are."""
    return {f"{name}_listed_of": table.num_rows, name: table.slice(0, top).to_pylist()}


def partition_lists(names: Sequence[str], partitions: Callable[[], pa.Table]) -> Document:
    """The partitions of each list by its name; the table is made only where there is a list.

    `under-min-isr` are those that have a leader, which refuses writes with acks=all.
    """
    if not names:
        return {"lists": {}}
    table = partitions()
    rows_by_list: Document = {}
    offline = table["offline"].to_numpy(zero_copy_only=False)
    for name in names:
        listed_rows = table[LISTS[name][1]].to_numpy(zero_copy_only=False)
        if name == "under-min-isr":
            listed_rows = listed_rows & ~offline
        columns = ["topic", "partition", "leader", "isr", "replicas", "min_isr"]
        rows_by_list[name] = table.select(columns).filter(pa.array(listed_rows)).to_pylist()
    return {"lists": rows_by_list}


# --- words -------------------------------------------------------------------------------------


def plural(n: int, noun: str, nouns: str | None = None) -> str:
    """A number with its noun."""
    return f"{n} {noun if n == 1 else nouns or f'{noun}s'}"


def count(n: int, noun: str, verb: str, verbs: str) -> str:
    """A number with its noun and verb: "no partition goes", "7 partitions go"."""
    if n == 0:
        return f"no {noun} {verb}"
    return f"{plural(n, noun)} {verb if n == 1 else verbs}"


def refusals(n: int, offline: int, total: int) -> str:
    """How many partitions refuse writes with acks=all, besides those that are offline.

    Parameters
    ----------
    n, offline : int
        Partitions that begin to refuse, and those that go offline.
    total : int
        Partitions that refuse afterwards, those that did so before among them.
    """
    if n == total:
        if n == 0:
            return f"no {'other ' if offline else ''}partition refuses acks=all"
        return f"producers with acks=all are refused on {n}{' more' if offline else ''}"
    if n == 0:
        still = "does" if total == 1 else "do"
        return f"no further partition refuses acks=all, {total} still {still}"
    return f"producers with acks=all are refused on {n} more, {total} in all"


def brokers_named(
    ids: Sequence[int], racks: Sequence[str] = (), others: Sequence[int] = ()
) -> str:
    """Brokers in a sentence: those of the racks that are named, then others; each ascending."""
    inside, outside = (", ".join(map(str, sorted(part)[:MOST_NAMED])) for part in (ids, others))
    more = sum(max(len(part) - MOST_NAMED, 0) for part in (ids, others))
    of = f" (rack{'' if len(racks) == 1 else 's'} {', '.join(racks)})" if racks else ""
    shown = " and ".join(filter(None, (f"{inside}{of}" if ids else "", outside)))
    return f"broker{'' if len(ids) + len(others) == 1 else 's'} {shown}" + (
        f" and {more} more" if more else ""
    )


def cell(value: object) -> str:
    """A value as it stands in a table."""
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(cell, value)) or "-"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def signed(value: int) -> str:
    """A difference, with its sign."""
    return f"{value:+d}" if value else "0"


def number(metric: str, value: int) -> Text:
    """A count, coloured where it means trouble."""
    return Text(str(value), TROUBLE.get(metric, "") if value else "")


def safety_sentence(
    document: Document, what: str, words: Mapping[str, tuple[str, str, str]]
) -> str:
    """Whether a change is safe, and what speaks against it; `words` are those of `count`."""
    verdict = {True: "SAFE", False: "NOT SAFE", None: "UNDER WAY"}[document["safe"]]
    parts = [what, *(count(n, *words[name]) for name, n in document["reasons"].items())]
    return f"{verdict}: {'; '.join(parts)}."


# --- drawing -----------------------------------------------------------------------------------


def draw_verdict(console: Console, document: Document) -> None:
    """Draw what a person needs to know first; what follows explains it."""
    safe = document.get("safe")
    first, *others = document["verdict"]
    colour = "" if safe is None else " green" if safe else " red"
    console.print(plain(first, f"bold{colour}"))
    for line in others:
        console.print(plain(line))


def draw_foot(console: Console, document: Document) -> None:
    """Draw who answers, about what, what was assumed, and notes."""
    cluster = document["cluster"]
    lines = [
        (f"Cluster: {document['input']}: {plural(cluster['brokers'], 'broker')}, "
        f"{cluster['registered']} of them registered; {plural(cluster['topics'], 'topic')}, "
        f"{plural(cluster['partitions'], 'partition')}, {plural(cluster['replicas'], 'replica')}"),
        *(f"Assumed: {line}" for line in document["assumptions"]),
        *(f"Note: {line}" for line in document["notes"]),
    ]
    if document["controller"] is not None:
        lines.insert(0, f"Controller: {document['controller']} (kfast {document['kfast']})")
    console.print()
    for line in lines:
        console.print(plain(line, "dim"))


def draw_start(console: Console, document: Document, verbose: bool) -> None:
    """Draw what the controller's start changed, and how many requests are sent."""
    summary = document["start"]["summary"]
    changes = ", ".join(
        f"{verb} {plural(summary[name], noun)}{rest}" for name, (verb, noun, rest) in
        START_CHANGES.items() if summary[name]
    )
    lines = [
        ("Before: after the controller's start, which "
        f"{changes or 'changes no leader and no ISR'} and sends {summary['requests']} requests."),
        "Requests that the controller then sends: "
        + ", ".join(f"{row['requests']} {row['kind']}" for row in document["requests"]) + ".",
    ]
    for line in lines:
        console.print(plain(line, "dim"))
    if verbose:
        table = TextTable("Requests that the controller sends",
                          [text_column("kind"), "requests", "partitions"])
        for row in document["requests"]:
            table.add_row(row["kind"], str(row["requests"]), str(row["partitions"]))
        table.draw(console)


def draw_lists(console: Console, document: Document) -> None:
    """Draw the partitions that were asked for by name."""
    when = " in the end" if len(document.get("steps", ())) > 1 else ""
    for name, rows in document["lists"].items():
        table = TextTable(f"{LISTS[name][0]}{when} ({len(rows)})", [
            text_column("topic"), "partition", "leader", text_column("isr"),
            text_column("replicas"), "min_isr",
        ])
        for row in rows:
            leader = "none" if row["leader"] < 0 else str(row["leader"])
            table.add_row(row["topic"], str(row["partition"]), leader, cell(row["isr"]),
                          cell(row["replicas"]), str(row["min_isr"]))
        table.draw(console)


def draw_rows(
    console: Console, title: str, columns: Sequence[TableColumn | str], rows: Sequence[Row],
    n: int | None = None,
) -> None:
    """Draw rows of a document, the first of n: each column by its heading; nothing without rows."""
    if not rows:
        return
    table = TextTable(titled(title, rows, len(rows) if n is None else n), columns)
    for row in rows:
        table.add_row(*(
            number(name, row[name]) if name in TROUBLE else cell(row[name])
            for name in table.headings
        ))
    table.draw(console)


def draw_topics(
    console: Console, document: Document, metrics: Sequence[str], title: str = "Worst topics"
) -> None:
    """Draw the first of the topics of which some metric holds, the worst first."""
    columns: list[TableColumn | str] = [text_column("topic"), *metrics, "partitions"]
    draw_rows(console, title, columns, document["topics"], document["topics_listed_of"])


def draw_brokers(
    console: Console, title: str, document: Document, columns: Sequence[str],
    key: Callable[[Row], Any],
) -> None:
    """Draw what becomes of the brokers: if there are many, of the first by a key.

    `change` is how many leaders a broker won or lost. Those that failed are red.
    """
    shown = first_brokers(document, key)
    names = ("broker_id", "rack", *columns)
    table = TextTable(titled(title, shown, len(document["brokers"])), [
        text_column(name) if name == "rack" else name for name in names
    ])
    for row in shown:
        cells = {**row, "change": signed(row["leaders"] - row["leaders_before"])}
        table.add_row(*(cell(cells[name]) for name in names),
                      style="red" if has_failed(row) else "")
    table.draw(console)


def busiest(row: Row) -> tuple[bool, int]:
    """Sorts brokers that failed before those that get most requests."""
    return not has_failed(row), -int(row["requests"])


def first_brokers(document: Document, key: Callable[[Row], Any]) -> list[Row]:
    """The brokers to list, in the order of their ids: the first by a key if there are many."""
    brokers: list[Row] = document["brokers"]
    most = max(document["top"], FEWEST_BROKERS)
    return sorted(sorted(brokers, key=key)[:most], key=lambda row: int(row["broker_id"]))


def titled(title: str, shown: Sequence[Any], n: int) -> str:
    """A title that says how many of all rows are shown, if not all are."""
    return title if len(shown) == n else f"{title} ({len(shown)} of {n})"


def has_failed(row: Row) -> bool:
    """Whether a broker was up before and is not any more."""
    return bool(row["registered_before"] and not row["registered"])


def indented(console: Console, line: str, depth: int, style: str = "") -> None:
    """Draw a line, the rest of it below its beginning."""
    console.print(Padding(plain(line, style), (0, 0, 0, depth)))
