"""The answer of `kfast timeline`: when all are led again, and what takes longest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from kfast.capacity.loads.units import format_bytes
from kfast.report.answer import Answer, Document, getters, head, listed
from kfast.report.capacity_wording import add_load, load_warnings
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.timeline_pictures import timeline_picture
from kfast.report.wording import brokers_named, plural
from kfast.schema import REFUSED_BYTES, TIMES, TIMES_IN_SECONDS
from kfast.timelines.failover import NOT_MODELLED, FailureTimeline

if TYPE_CHECKING:
    import altair

__all__ = [
    "TIMELINE_METRICS", "TIMELINE_TABLES", "TIME_METRICS", "draw_levers", "in_seconds",
    "lever_text", "refused_columns", "refused_sentence", "shown_measure", "time_range",
    "timeline_answer", "timeline_image",
]

TIMELINE_TABLES = ("summary", "stages", "partitions", "leaderless", "sensitivity", "parameters")
UNITS = {
    "ms": " ms", "us": " us", "ns": " ns", "controllers": "", "attempts": "",
    "thousandths": "/1000",
}
TIME_METRICS = {**TIMES, **TIMES_IN_SECONDS}
TIMELINE_METRICS = {**TIME_METRICS, **REFUSED_BYTES}


def timeline_answer(
    source: str, failure: FailureTimeline, top: int, *, sensitivity: bool = False
) -> Answer:
    """The answer of `kfast timeline`; with `sensitivity` also what the end depends on."""
    row = failure.summary.to_pylist()[0]
    document = {
        **head("timeline", source, failure.state),
        "verdict": [_verdict(failure, row)],
        "summary": row,
        "metrics": TIMELINE_METRICS,
        "controller_fails": failure.controller_fails,
        "controlled": failure.controlled,
        "stages": [one for one in failure.stages.to_pylist() if one["broker_id"] is None],
        **listed("partitions", failure.partitions, top),
        "sensitivity": failure.sensitivity.to_pylist() if sensitivity else [],
    }
    document["assumptions"] += failure.assumptions
    document["notes"].append(NOT_MODELLED)
    if row["leaderless_bytes"] is not None:
        document["verdict"].append(refused_sentence(row))
    if row["offline_partitions"]:
        n = plural(row["offline_partitions"], "partition")
        until = ", until its brokers return" if failure.controlled else " for good"
        document["verdict"].append(f"Offline{until}, and in no time below: {n}.")
    if failure.question.load is not None:
        add_load(document, failure.question.load)
        document["verdict"] += load_warnings(document)
    return Answer(document, _draw, getters(failure, TIMELINE_TABLES))


def timeline_image(document: Document, failure: FailureTimeline) -> altair.TopLevelMixin:
    """The failure as a picture."""
    return timeline_picture(
        f"Timeline of {document['input']}, {document['controller']['name']}", document["verdict"],
        failure.stages.to_pylist(), failure.leaderless.to_pylist(),
    )


def in_seconds(micros: int | None) -> str:
    """A time in words."""
    return "-" if micros is None else f"{micros / 1e6:.3f} s"


def _verdict(failure: FailureTimeline, row: Row) -> str:
    if failure.controlled:
        return _shutdown_verdict(failure, row)
    if not failure.broker_ids:
        return f"Another controller is active {time_range(row, 'detect_us')}; no leader is lost."
    who = brokers_named(failure.broker_ids, verb=("fails", "fail"))
    if row["led_max_us"] is None:
        return f"Nobody is led again after {who}."
    led = row["lost_partitions"] - row["offline_partitions"]
    back = "The only leader is back" if led == 1 else f"All {led} leaders are back"
    return (
        f"{back} {time_range(row, 'led_max_us')} after {who}; "
        f"{in_seconds(row['detect_us'])} of it is detection; the last waits longest for "
        f"{row['binding']}."
    )


def _shutdown_verdict(failure: FailureTimeline, row: Row) -> str:
    who = brokers_named(failure.broker_ids, verb=("shuts down", "shut down"))
    who = who[:1].upper() + who[1:]
    stop = (
        f"{who} in order: it may stop after {time_range(row, 'released_us')}, and has stopped "
        f"after {time_range(row, 'stopped_us')}"
    ) if len(failure.broker_ids) == 1 else (
        f"{who} in order: the last may stop after {time_range(row, 'released_us')}, and has "
        f"stopped after {time_range(row, 'stopped_us')}"
    )
    if row["led_max_us"] is None:
        return f"{stop}; no leader moves."
    low, high = (row[f"leaderless_partition_s_{end}"] for end in ("low", "high"))
    moved = plural(row["lost_partitions"] - row["offline_partitions"], "leader")
    return (
        f"{stop}; {moved} moved after {time_range(row, 'led_max_us')}, with "
        f"{row['leaderless_partition_s']} ({low} to {high}) partition-seconds without a leader."
    )


def time_range(row: Row, name: str) -> str:
    """A time with its range in words."""
    low, high = row[f"{name}_low"] / 1e6, row[f"{name}_high"] / 1e6
    return f"{in_seconds(row[name])} ({low:.3f} to {high:.3f})"


def refused_sentence(row: Row) -> str:
    """What producers write to partitions that nobody leads meanwhile."""
    name = "leaderless_bytes"
    value, low, high = (format_bytes(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    return f"Partitions without a leader refuse {value} ({low} to {high}) of what producers write."


def _draw(console: Console, document: Document) -> None:
    summary = document["summary"]
    rows = [
        {"measure": document["metrics"][name], "value": summary[name],
         "low": summary[f"{name}_low"], "high": summary[f"{name}_high"], "name": name}
        for name in document["metrics"] if summary[name] is not None
    ]

    def column(key: str) -> TableColumn:
        return TableColumn(key, value=lambda row: shown_measure(row["name"], row[key]))

    columns = [text_column("measure"), column("value"), column("low"), column("high")]
    draw_rows(console, "Instants after the failure, and sums over partitions", columns, rows)
    begin = TableColumn("begin", value=lambda row: in_seconds(row["begin_us"]))
    end = TableColumn("end", value=lambda row: in_seconds(row["end_us"]))
    low = TableColumn("end low", value=lambda row: in_seconds(row["end_us_low"]))
    high = TableColumn("end high", value=lambda row: in_seconds(row["end_us_high"]))
    draw_rows(console, "Stages of the controller",
              ["event", text_column("stage"), begin, end, low, high, "items"],
              document["stages"])
    levers = [row for row in document["sensitivity"] if row["effect_us"]]
    draw_levers(console, "What the end depends on, each alone", levers)
    _draw_partitions(console, document)


def _draw_partitions(console: Console, document: Document) -> None:
    rows, n = document["partitions"], document["partitions_listed_of"]
    led = TableColumn("led", value=lambda row: in_seconds(row["led_us"]))
    reachable = TableColumn("reachable", value=lambda row: in_seconds(row["reachable_us"]))
    refused = refused_columns(rows)
    draw_rows(
        console, f"Partitions that wait longest ({len(rows)} of {n}), by the central values",
        [text_column("topic"), "partition", TableColumn("failed leader", value="failed_leader"),
         "leader", led, reachable, *refused], rows,
    )


def refused_columns(rows: Sequence[Row]) -> list[TableColumn]:
    """The column of bytes that partitions without a leader refuse; none without loads."""
    if all(row["leaderless_bytes"] is None for row in rows):
        return []
    return [TableColumn(
        "refused", value=lambda row: shown_measure("leaderless_bytes", row["leaderless_bytes"])
    )]


def shown_measure(name: str, value: int | None) -> str:
    """A measure in words."""
    if name in TIMES or value is None:
        return in_seconds(value)
    return format_bytes(value) if name in REFUSED_BYTES else f"{value} s"


def lever_text(row: Row, value: int | None) -> str:
    """A value of a parameter, a setting or a phase in its unit."""
    return "-" if value is None else f"{value}{UNITS[row['unit']]}"


def draw_levers(console: Console, title: str, rows: Sequence[Row]) -> None:
    """Draw rows of `schema.TIMELINE_SENSITIVITY`."""

    def value(title: str, name: str) -> TableColumn:
        return TableColumn(title, value=lambda row: lever_text(row, row[name]))

    def time(title: str, name: str) -> TableColumn:
        return TableColumn(title, value=lambda row: in_seconds(row[name]))

    draw_rows(console, title, [
        text_column("name"), text_column("kind"), value("value", "value"), value("low", "low"),
        time("led at low", "led_max_us_at_low"), value("high", "high"),
        time("led at high", "led_max_us_at_high"), value("halves at", "halves_at"),
    ], rows)
