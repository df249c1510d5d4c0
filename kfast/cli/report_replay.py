"""The text of a replay: the verdicts, what is contradicted, and the incident's timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from kfast.cli.drawing import Document, draw_table, new_table, titled

__all__ = ["draw_replay"]

COLOURS = {"contradicted": "red", "warnings": "yellow", "not_understood": "yellow"}
MOST_NAMES = 6
"""So many partitions are named in a row; of more, only how many."""

MOST_TEXT = 300
"""Characters of a log line that are quoted."""

Rows = Sequence[Mapping[str, Any]]


def draw_replay(console: Console, document: Document) -> None:
    """Draw what `kfast replay` answers."""
    _draw_head(console, document)
    _draw_verdicts(console, document)
    _draw_lines(console, document)
    _draw_contradictions(console, document)
    _draw_timeline(console, document["timeline"])
    _draw_outages(console, document)


def _draw_head(console: Console, document: Document) -> None:
    console.print(Text(f"Replay of {', '.join(document['inputs'])}", style="bold"))
    console.print(f"Controller: {document['profile']} (kfast {document['kfast']})")
    timeline = document["timeline"]
    span = f", from {timeline[0]['time']} to {timeline[-1]['time']}" if timeline else ""
    console.print(
        Text(f"Logs: {len(document['files'])} files, {document['lines']} lines{span}")
    )
    for note in document["notes"]:
        console.print(Text(f"Note: {note}", style="dim"))


def _draw_verdicts(console: Console, document: Document) -> None:
    summary = document["summary"]
    table = new_table("Facts", ("verdict", "reason", "facts", "percent"), left=2)
    total = summary["facts"] or 1

    def add(verdict: str, reason: str, n: int) -> None:
        colour = COLOURS.get(verdict, "") if n else ""
        table.add_row(
            Text(verdict, colour), reason, Text(str(n), colour), f"{100 * n / total:.1f}"
        )

    add("predicted", "", summary["predicted"])
    add("adopted", "", summary["adopted"])
    for reason, n in document["adopted"].items():
        add("", reason, n)
    add("contradicted", "", summary["contradicted"])
    draw_table(console, table)

    table = new_table("Facts by kind", ("kind", "predicted", "adopted", "contradicted"), left=1)
    for row in document["kinds"]:
        colour = "red" if row["contradicted"] else ""
        table.add_row(
            row["kind"], str(row["predicted"]), str(row["adopted"]),
            Text(str(row["contradicted"]), colour),
        )
    draw_table(console, table)


def _draw_lines(console: Console, document: Document) -> None:
    """What the entries of the logs are, what is damaged, and what is not understood."""
    table = new_table("Entries of the logs", ("entries", "count"), left=1)
    for name, n in document["entries"].items():
        table.add_row(name, str(n))
    draw_table(console, table)
    top = document["top"]
    warnings, strange = document["warnings"], document["not_understood"]
    if warnings:
        _heading(console, "Damaged lines", warnings[:top], warnings)
        for row in warnings[:top]:
            console.print(Text(f"{row['file']}:{row['line']}: {row['what']}"))
    if strange:
        n = document["summary"]["not_understood"]
        _heading(console, "Not understood", strange[:top], range(n))
        for row in strange[:top]:
            console.print(Text(f"{row['file']}:{row['line']}: {row['text'][:MOST_TEXT]}"))


def _draw_contradictions(console: Console, document: Document) -> None:
    rows, top = document["contradictions"], document["top"]
    if not rows:
        return
    _heading(console, "Contradictions", rows[:top], rows)
    for row in rows[:top]:
        console.print(Text(
            f"{row['kind']} of {row['subject']}: logged {row['logged'] or '-'}, "
            f"predicted {row['predicted'] or '-'}", style="red",
        ))
        console.print(_quoted(row["line"]))
        if row["other"] is not None:
            console.print(_quoted(row["other"], "agreed: "))


def _quoted(place: Document, word: str = "") -> Text:
    text = place["text"]
    more = "..." if len(text) > MOST_TEXT else ""
    return Text(f"  {word}{place['file']}:{place['line']}: {text[:MOST_TEXT]}{more}")


def _draw_timeline(console: Console, rows: Rows) -> None:
    """The events, one per row."""
    many = len({row["cluster"] for row in rows}) > 1
    columns = ("time", *(("cluster",) if many else ()), "event", "transitions", "leaders_moved",
               "isr_changes", "leaderless")
    table = new_table("Timeline", columns, left=2 + many)
    table.columns[1 + many].no_wrap = False
    day = ""
    for row in rows:
        date, time = row["time"].split(" ")
        if date != day:
            day = date
            table.add_row(date, *[""] * (len(columns) - 1))
        what = f"{row['what']} (inferred)" if row["inferred"] else row["what"]
        table.add_row(
            time, *((str(row["cluster"]),) if many else ()), Text(what + _refused(row)),
            *(_count(row[name]) for name in ("transitions", "leaders_moved", "isr_changes")),
            _count(row["leaderless"], "red"),
        )
    draw_table(console, table)


def _refused(row: Mapping[str, Any]) -> str:
    return f"; {row['refused']} refused" if row["refused"] else ""


def _count(value: int, colour: str = "") -> Text:
    return Text(str(value) if value else "", colour)


def _draw_outages(console: Console, document: Document) -> None:
    """Who was without a leader, and for how long; partitions with the same times in one row."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row in document["outages"]:
        key = (row["since"], row["until"], row["duration_ms"], row["cluster"])
        groups.setdefault(key, []).append(row["partition"])
    if not groups:
        console.print("\nNo partition was without a leader.")
        return
    ordered = sorted(groups, key=lambda key: (-(key[2] if key[2] is not None else 1 << 62), key[0]))
    shown = sorted(ordered[: document["top"]], key=lambda key: key[0])
    title = _titled("Partitions without a leader", len(shown), len(ordered))
    table = new_table(title, ("since", "for", "count", "topic"), left=1)
    for key in shown:
        since, _until, ms, _cluster = key
        names = groups[key]
        listed = ", ".join(names[:MOST_NAMES])
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        table.add_row(since, _span(ms), str(len(names)), Text(listed + more))
    table.columns[3].justify = "left"
    table.columns[3].header = "partitions"
    draw_table(console, table)


def _span(ms: int | None) -> str:
    """A time span for people."""
    if ms is None:
        return "to the end"
    seconds, ms = divmod(ms, 1000)
    if seconds < 60:
        return f"{seconds}.{ms:03} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds // 60 % 60} min"


def _heading(console: Console, title: str, shown: Sequence[Any], rows: Sequence[Any]) -> None:
    console.print()
    console.print(Text(titled(title, shown, rows), style="bold"))


def _titled(title: str, shown: int, n: int) -> str:
    """A title that says how many of all rows are shown, if not all are."""
    return title if shown == n else f"{title} ({shown} of {n})"
