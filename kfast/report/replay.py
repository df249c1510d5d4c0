"""What `kfast replay` answers: the verdicts, what is contradicted, and the incident's timeline.

Of text logs here, of metadata logs in `metadata_replay.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from kfast import __version__
from kfast.figures.incidents import incident_marks
from kfast.log_replay import Place, Replay
from kfast.metadata_replay import MetadataReplay
from kfast.replay_results.timeline import IncidentTables
from kfast.replay_results.verdicts import MISSING, VERDICTS, recall_percent
from kfast.report.answer import Answer, Document, getters
from kfast.report.drawing import draw_heading, draw_rows, number
from kfast.report.incident_picture import incident_picture
from kfast.report.tables import Row, TableColumn, TextTable, plain, text_column
from kfast.report.wording import first_names, plural, time_span

if TYPE_CHECKING:
    import altair

__all__ = [
    "INCIDENT_TABLES", "REPLAY_METRICS", "REPLAY_TABLES", "draw_first", "draw_incident",
    "draw_source", "replay_answer", "replay_head", "replay_picture", "summarize",
    "verdict_on_facts", "verdict_on_leaders",
]

INCIDENT_TABLES = IncidentTables._fields
REPLAY_TABLES = ("facts", *INCIDENT_TABLES)

REPLAY_METRICS = {
    "facts": "facts that the logs state",
    "predicted": "facts that kfast predicts",
    "adopted": "facts that only the log can know",
    "adopted_percent": "share of the adopted facts, rounded up",
    "unknown": "facts that cannot be judged",
    "contradicted": "facts that do not agree with the others",
    "missing": "decisions that kfast predicts and that the log lacks",
    "decisions": "decisions that kfast predicts and that the log is to have",
    "recall_percent": "share of these that it has, rounded down; null if there are none",
    "warnings": "damaged lines",
    "not_understood": "entries whose wording is unknown",
    "events": "events of the timeline",
    "leaderless": "times that a partition was without a leader",
    "longest_leaderless_s": "longest of them, in seconds, rounded up",
}
"""What the summary of a replay has."""

MOST_NAMES = 6
"""So many partitions are named in a row; of more, only how many."""

MOST_TEXT = 300
"""Characters of a log line that are quoted."""


def replay_answer(sources: Sequence[str], replay: Replay, *, top: int) -> Answer:
    """The answer of `kfast replay`."""
    why = "told" if replay.release is None else (
        f"inferred: the wording of the logs is that of Kafka {replay.release}"
    )
    document = {
        **replay_head(replay, sources, why, top),
        "release": replay.release,
        "lines": replay.n_lines,
        "summary": summarize(
            replay.counts, replay.decisions, replay.timeline, replay.outages,
            warnings=len(replay.warnings), not_understood=replay.lines["not understood"],
        ),
        "why_no_recall": replay.why_no_recall,
        "unknown": dict(replay.unknown_reasons),
        "kinds": _kinds(replay),
        "entries": dict(replay.lines),
        "contradictions": [
            {
                "kind": one.kind,
                "subject": one.subject,
                "logged": one.logged,
                "predicted": one.predicted,
                "missing": one.is_missing,
                "event": one.event,
                "line": _place(one.place),
                "other": None if one.other is None else _place(one.other),
            }
            for one in replay.contradictions
        ],
        "warnings": [
            {"file": one.file, "line": one.line, "what": one.what} for one in replay.warnings
        ],
        "not_understood": [_place(place) for place in replay.not_understood],
    }
    document["verdict"] = [verdict_on_facts(document, "fact"), verdict_on_leaders(document)]
    return Answer(document, _draw, getters(replay, REPLAY_TABLES))


def replay_head(
    replay: Replay | MetadataReplay, sources: Sequence[str], why: str, top: int
) -> Document:
    """What answers for text logs and for metadata logs have in common."""
    return {
        "controller": {"name": replay.profile, "elr": None, "why": why},
        "kfast": __version__,
        "command": "replay",
        "verdict": [],
        "inputs": list(sources),
        "profile": replay.profile,
        "files": list(replay.files),
        "notes": list(replay.notes),
        "top": top,
        "adopted": dict(replay.reasons),
        **incident_rows(replay),
    }


def summarize(
    counts: Mapping[str, int], decisions: int, timeline: pa.Table, outages: pa.Table, *,
    warnings: int = 0, not_understood: int = 0,
) -> dict[str, int | None]:
    """The numbers that conditions are about: `REPLAY_METRICS`."""
    total = sum(counts.values()) - counts[MISSING]
    spans = [ms for ms in outages.column("duration_ms").to_pylist() if ms is not None]
    return {
        "facts": total,
        **counts,
        "adopted_percent": -(-100 * counts["adopted"] // total) if total else 0,
        "decisions": decisions,
        "recall_percent": recall_percent(decisions, counts[MISSING]),
        "warnings": warnings,
        "not_understood": not_understood,
        "events": timeline.num_rows,
        "leaderless": outages.num_rows,
        "longest_leaderless_s": -(-max(spans, default=0) // 1000),
    }


def _kinds(replay: Replay) -> list[Document]:
    """Facts by what they are about, with how many ended how."""
    grouped = replay.facts.group_by(["kind", "verdict"]).aggregate([([], "count_all")])
    kinds: dict[str, Document] = {}
    for row in grouped.to_pylist():
        empty = {"kind": row["kind"], **dict.fromkeys(VERDICTS, 0)}
        kinds.setdefault(row["kind"], empty)[row["verdict"]] = row["count_all"]
    return sorted(kinds.values(), key=lambda one: (-one["predicted"] - one["adopted"], one["kind"]))


def _place(place: Place) -> Document:
    return {"file": place.file, "line": place.line, "time": place.time, "text": place.text}


def replay_picture(
    document: Document, replay: Replay | MetadataReplay
) -> altair.TopLevelMixin:
    """The incident as a picture."""
    tables = IncidentTables(*(getattr(replay, name) for name in INCIDENT_TABLES))
    return incident_picture(
        f"Replay of {', '.join(document['inputs'])}", document["verdict"], incident_marks(*tables)
    )


def incident_rows(replay: Replay | MetadataReplay) -> Document:
    """Rows of all tables of an incident, with times as texts."""
    return {
        name: [
            {
                column: value.isoformat(" ", "milliseconds")
                if isinstance(value, datetime) else value for column, value in row.items()
            }
            for row in getattr(replay, name).to_pylist()
        ]
        for name in INCIDENT_TABLES
    }


def verdict_on_facts(document: Document, noun: str) -> str:
    """Whether the log agrees with the rules; `noun` is what its facts are called."""
    summary = document["summary"]
    wrong, missing = summary["contradicted"], summary["missing"]
    first = "The log agrees with Kafka's rules: "
    if wrong or missing:
        first = f"NOT as Kafka's rules say: {wrong} contradicted, {missing} missing; "
    unknown = f", {summary['unknown']} unknown" if summary["unknown"] else ""
    logged = f"no decision could be looked for: {document['why_no_recall']}"
    if summary["decisions"]:
        n_due = plural(summary["decisions"], "predicted decision")
        logged = f"{summary['decisions'] - missing} of {n_due} logged"
    return (
        f"{first}{summary['predicted']} of {plural(summary['facts'], noun)} predicted, "
        f"{summary['adopted']} adopted{unknown}; {logged}."
    )


def verdict_on_leaders(document: Document) -> str:
    """How many events there were, and how long partitions had no leader."""
    summary, timeline = document["summary"], document["timeline"]
    span = f" from {timeline[0]['time']} to {timeline[-1]['time']}" if timeline else ""
    longest = [row["duration_ms"] for row in document["outages"]]
    outage = ""
    if longest:
        outage = f", the longest {time_span(None if None in longest else max(longest))}"
    leaderless = plural(summary["leaderless"], "time") if summary["leaderless"] else "never"
    return (
        f"{plural(summary['events'], 'event')}{span}; a partition was without a leader "
        f"{leaderless}{outage}."
    )


# --- drawing -------------------------------------------------------------------------------------


def _draw(console: Console, document: Document) -> None:
    _draw_contradictions(console, document)
    draw_incident(console, document)
    _draw_lines(console, document)
    draw_source(console, document, (
        f"Logs: {', '.join(document['inputs'])}: {plural(len(document['files']), 'file')}, "
        f"{plural(document['lines'], 'line')}"
    ))


def draw_incident(console: Console, document: Document) -> None:
    """The timeline, who was without a leader, and how the facts were judged."""
    _draw_timeline(console, document["timeline"])
    _draw_outages(console, document)
    _draw_facts(console, document)


def draw_source(console: Console, document: Document, source: str) -> None:
    """What was read, and the notes."""
    console.print()
    for line in (
        f"{source} (kfast {document['kfast']})", *(f"Note: {note}" for note in document["notes"]),
    ):
        console.print(plain(line, "dim"))


def _draw_contradictions(console: Console, document: Document) -> None:
    for row in draw_first(console, "Contradictions", document, "contradictions"):
        logged = "is not there" if row["missing"] else f"logged {row['logged']}"
        console.print(plain(
            f"{row['kind']} of {row['subject']}: {logged}, predicted {row['predicted'] or '-'}",
            "red",
        ))
        due = f"{row['event']}; due before " if row["missing"] else ""
        console.print(_quoted(row["line"], due))
        if row["other"] is not None:
            console.print(_quoted(row["other"], "agreed: "))


def draw_first(
    console: Console, title: str, document: Document, name: str, n: int | None = None
) -> Sequence[Row]:
    """Draw the heading of some lines, if there are any, and return the first of them."""
    rows: Sequence[Row] = document[name]
    first = rows[:document["top"]]
    if rows:
        draw_heading(console, title, len(first), len(rows) if n is None else n)
    return first


def _quoted(place: Document, word: str = "") -> Text:
    text = place["text"]
    more = "..." if len(text) > MOST_TEXT else ""
    return plain(f"  {word}{place['file']}:{place['line']}: {text[:MOST_TEXT]}{more}")


def _draw_timeline(console: Console, rows: Sequence[Row]) -> None:
    """The events, one per row."""
    many = len({row["cluster"] for row in rows}) > 1
    numbers = ("leaderless", "leaders_moved", "isr_changes", "transitions")
    table = TextTable("Timeline", [
        text_column("time"), *["cluster"][:many], text_column("event"), *numbers,
    ])
    blank = [""] * len(table.columns[1:])
    day = ""
    for row in rows:
        date, time = row["time"].split(" ")
        if date != day:
            day = date
            table.add_row(date, *blank)
        what = f"{row['what']} (inferred)" if row["inferred"] else row["what"]
        refused = f"; {row['refused']} refused" if row["refused"] else ""
        table.add_row(
            time, *[row["cluster"]][:many], f"{what}{refused}",
            *(number(name, row[name] or "") for name in numbers),
        )
    table.draw(console)


def _draw_outages(console: Console, document: Document) -> None:
    """Who was without a leader, and for how long; partitions with the same times in one row."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for row in document["outages"]:
        key = (row["since"], row["until"], row["duration_ms"], row["cluster"])
        groups.setdefault(key, []).append(row["partition"])
    ordered = sorted(groups, key=lambda key: (-(key[2] if key[2] is not None else 1 << 62), key[0]))
    shown = sorted(ordered[: document["top"]], key=lambda key: key[0])
    draw_rows(
        console, "Partitions without a leader", OUTAGE_COLUMNS,
        [{"since": key[0], "ms": key[2], "names": groups[key]} for key in shown], len(ordered),
        if_empty=bool(groups),
    )


OUTAGE_COLUMNS = (
    text_column("since"), TableColumn("for", value=lambda row: time_span(row["ms"])),
    TableColumn("count", value=lambda row: len(row["names"])),
    text_column("partitions", lambda row: first_names(row["names"], MOST_NAMES)),
)


def _draw_facts(console: Console, document: Document) -> None:
    """Facts by verdict and reason, then by kind."""
    summary = document["summary"]
    total = summary["facts"] or 1
    table = TextTable("Facts", [text_column("verdict"), "facts", "percent", text_column("reason")])

    def add(verdict: str, reason: str, n: int) -> None:
        cell = number(verdict, n)
        table.add_row(Text(verdict, cell.style), cell, f"{100 * n / total:.1f}", reason)

    add("predicted", "", summary["predicted"])
    add("adopted", "", summary["adopted"])
    for reason, n in document["adopted"].items():
        add("", reason, n)
    if summary["unknown"]:
        add("unknown", "", summary["unknown"])
    for reason, n in document["unknown"].items():
        add("", reason, n)
    add("contradicted", "", summary["contradicted"])
    if summary["missing"]:
        add("missing", "predicted, and not in the log", summary["missing"])
    table.draw(console)
    draw_rows(console, "Facts by kind", KIND_COLUMNS, document["kinds"], if_empty=True)


KIND_COLUMNS: tuple[TableColumn | str, ...] = (text_column("kind"), *reversed(VERDICTS))


def _draw_lines(console: Console, document: Document) -> None:
    """What the entries of the logs are, what is damaged, and what is not understood."""
    draw_rows(console, "Entries of the logs", [text_column("entries"), "count"], [
        {"entries": name, "count": n} for name, n in document["entries"].items()
    ], if_empty=True)
    for row in draw_first(console, "Damaged lines", document, "warnings"):
        console.print(plain(f"{row['file']}:{row['line']}: {row['what']}"))
    n = document["summary"]["not_understood"]
    for row in draw_first(console, "Not understood", document, "not_understood", n):
        console.print(plain(f"{row['file']}:{row['line']}: {row['text'][:MOST_TEXT]}"))
