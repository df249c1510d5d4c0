"""The answer of `kfast timeline-growth`: failovers by size, and what would halve them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.console import Console

from kfast import __version__
from kfast.report.answer import Answer, Document, getters
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, plain
from kfast.report.timeline import (
    TIME_METRICS,
    draw_levers,
    in_seconds,
    lever_text,
    time_range,
)
from kfast.report.timeline_pictures import growth_picture
from kfast.schema import WAITS
from kfast.timelines.failover import NOT_MODELLED
from kfast.timelines.planned_clusters import TimelineGrowth

if TYPE_CHECKING:
    import altair

__all__ = ["TIMELINE_GROWTH_TABLES", "timeline_growth_answer", "timeline_growth_image"]

TIMELINE_GROWTH_TABLES = ("table", "sensitivity")
FAILS = {"broker": "one broker fails", "controller": "one broker and the controller fail"}


def timeline_growth_answer(growth: TimelineGrowth, top: int) -> Answer:
    """The answer of `kfast timeline-growth`; of each largest cluster the first parameters."""
    rows, levers = growth.table.to_pylist(), growth.sensitivity.to_pylist()
    largest = max(row["partitions"] for row in rows)
    cases = []
    for (controller, failure), some in groupby(rows, _case):
        own = [row for row in levers
               if _case(row) == (controller, failure) and row["partitions"] == largest]
        cases.append({
            "controller": controller, "failure": failure, "rows": [*some],
            "halving": [row for row in own if row["halves_at"] is not None],
            "fastest": _fastest(own),
            "sensitivity": [row for row in own if row["effect_us"]][:top],
        })
    document: Document = {
        "kfast": __version__, "command": "timeline-growth", "verdict": _verdict(cases),
        "metrics": TIME_METRICS, "cases": cases,
        "summary": {name: max(values) if values else None for name in TIME_METRICS
                    for values in [[row[name] for row in rows if row[name] is not None]]},
        "assumptions": [
            ("every cluster is as right after the creation of its topics: Kafka's own placement, "
             "every replica in sync"), *growth.assumptions,
        ],
        "notes": [NOT_MODELLED],
    }
    return Answer(document, _draw, getters(growth, TIMELINE_GROWTH_TABLES))


def timeline_growth_image(document: Document) -> altair.TopLevelMixin:
    """Times by size, and what the last leader waits for, as a picture."""
    row = document["cases"][0]["rows"][0]
    return growth_picture(
        f"Failovers by size: {row['n_brokers']} brokers, replication factor "
        f"{row['replication_factor']}", document["verdict"][1:],
        {f"{case['controller']}, {FAILS[case['failure']]}": case["rows"]
         for case in document["cases"]},
    )


def _case(row: Row) -> tuple[str, str]:
    return row["controller"], row["failure"]


def _verdict(cases: list[dict[str, Any]]) -> list[str]:
    """How long it takes in the smallest and the largest cluster; what would halve the latter."""
    row = cases[0]["rows"][-1]
    lines = [(
        f"{row['n_brokers']} brokers, replication factor {row['replication_factor']}, "
        f"{_sizes(cases[0]['rows'])} partitions:"
    )]
    for case in cases:
        first, last = case["rows"][0], case["rows"][-1]
        text = f"{case['controller']}, {FAILS[case['failure']]}: all leaders are back after "
        if len(case["rows"]) > 1:
            text += f"{time_range(first, 'led_max_us')} to "
        binding = max(WAITS, key=lambda name: last[f"{name}_us"])
        lines.append(
            f"{text}{time_range(last, 'led_max_us')}; the last waits longest for {binding}. "
            f"{_halved(case)}"
        )
    return lines


def _sizes(rows: list[Row]) -> str:
    first, last = rows[0]["partitions"], rows[-1]["partitions"]
    return f"{last}" if first == last else f"{first} to {last}"


def _halved(case: dict[str, Any]) -> str:
    """What would halve the time."""
    if case["halving"]:
        texts = [f"{one['name']} at most {lever_text(one, one['halves_at'])}"
                 for one in case["halving"]]
        return f"Alone {' or '.join(texts)} would halve that."
    best = case["fastest"]
    if best is None:
        return "Nothing alone would halve that, or make it shorter."
    end = min(_ends(best))
    at = best["low"] if best["led_max_us_at_low"] == end else best["high"]
    return (
        f"Nothing alone would halve that; {best['name']} at {lever_text(best, at)} makes it "
        f"{in_seconds(end)}."
    )


def _fastest(levers: list[Row]) -> Row | None:
    """The parameter or setting that alone makes the time shortest; phases are nobody's choice."""
    faster = [row for row in levers
              if row["kind"] != "phase" and min(_ends(row)) < row["led_max_us"]]
    return min(faster, key=lambda row: min(_ends(row)), default=None)


def _ends(row: Row) -> list[int]:
    both = row["led_max_us_at_low"], row["led_max_us_at_high"]
    return [one for one in both if one is not None] or [row["led_max_us"]]


def _draw(console: Console, document: Document) -> None:
    def time(title: str, name: str) -> TableColumn:
        return TableColumn(title, value=lambda row: in_seconds(row[name]))

    for case in document["cases"]:
        title = f"{case['controller']}, {FAILS[case['failure']]}"
        draw_rows(console, f"{title}: when all are led, and what the last waits for", [
            "partitions", TableColumn("leaders lost", value="lost_partitions"),
            time("all are led", "led_max_us"), time("low", "led_max_us_low"),
            time("high", "led_max_us_high"), *(time(name, f"{name}_us") for name in WAITS),
        ], case["rows"])
    for case in document["cases"]:
        rows = case["sensitivity"]
        title = f"{case['controller']}, {FAILS[case['failure']]}"
        if rows:
            size = rows[0]["partitions"]
            draw_levers(console, f"{title}: what that depends on at {size} partitions", rows)
    console.print()
    for line in document["assumptions"]:
        console.print(plain(f"Assumed: {line}"))
    for line in document["notes"]:
        console.print(plain(f"Note: {line}"))
