"""The answer of `kfast timeline --calibrate`: what one's own logs tell of the time model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console

from kfast import __version__
from kfast.report.answer import Answer, Document, getters
from kfast.report.drawing import draw_rows
from kfast.report.replay import draw_source
from kfast.report.tables import Row, TableColumn, plain, text_column
from kfast.report.wording import plural
from kfast.timelines.calibration import FittedTimes, within_factor
from kfast.timelines.intervals import COMMIT, resolution_us

__all__ = ["CALIBRATION_TABLES", "calibration_answer"]

CALIBRATION_TABLES = ("parameters", "intervals")


def calibration_answer(sources: Sequence[str], fitted: FittedTimes, top: int) -> Answer:
    """The answer of `kfast timeline --calibrate`; as JSON it is a file for `--params`."""
    rows = fitted.intervals.to_pylist()
    kinds = _kinds(rows)
    left_out = [row for row in rows if row["left_out"] in ("outlier", "clocks")]
    summary = {
        "intervals": sum(row["intervals"] for row in kinds),
        "left_out": len(left_out),
        "within_factor_3": sum(row["within_factor_3"] for row in kinds),
        "in_range": sum(row["in_range"] for row in kinds),
        "fitted": len(fitted.fitted),
        "defaults": len(fitted.rows) - len(fitted.fitted),
    }
    notes = list(fitted.notes)
    if any("net" in row["parameters"] for row in rows if row["kind"] == COMMIT):
        notes.append(
            "commits are taken for those of a quorum of several controllers: log_sync twice and "
            "net once; --set controller.quorum.voters=1 is for one"
        )
    document: Document = {
        "kfast": __version__,
        "command": "timeline",
        "verdict": _verdict(summary),
        "inputs": list(sources),
        "notes": notes,
        "summary": summary,
        "parameters": fitted.parameters.to_pylist(),
        "kinds": kinds,
        "left_out": left_out,
        "top": top,
    }
    return Answer(document, _draw, getters(fitted, CALIBRATION_TABLES))


def _kinds(rows: list[Row]) -> list[Row]:
    """How well the parameters give the intervals of each kind."""
    by_kind: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["parameters"]:
            by_kind[row["kind"]].append(row)
    return [
        {
            "kind": kind,
            "intervals": len(some),
            "within_factor_3": sum(
                within_factor(_length(row), row["predicted_us"], resolution_us(kind))
                for row in some
            ),
            "in_range": sum(
                row["predicted_low_us"] - resolution_us(kind) <= _length(row)
                <= row["predicted_high_us"] + resolution_us(kind) for row in some
            ),
        }
        for kind, some in sorted(by_kind.items())
    ]


def _length(row: Row) -> int:
    return int(row["end_us"] - row["start_us"])


def _verdict(summary: Row) -> list[str]:
    n = summary["intervals"]
    all_of_them = plural(summary["fitted"] + summary["defaults"], "parameter")
    near, inside = (100 * summary[name] // n for name in ("within_factor_3", "in_range"))
    counted = f"{summary['fitted']} of {all_of_them} are fitted on {plural(n, 'interval')}"
    lines = [
        f"{counted}; {summary['defaults']} keep their defaults.",
        f"Of the lengths, {near} % are within a factor of 3, and {inside} % in the ranges.",
    ]
    if summary["left_out"]:
        verb = "is" if summary["left_out"] == 1 else "are"
        lines.append(f"{plural(summary['left_out'], 'interval')} {verb} left out of the values.")
    return lines


def _draw(console: Console, document: Document) -> None:
    def column(key: str) -> TableColumn:
        return TableColumn(key, value=lambda row: f"{row[key]} {row['unit']}")

    fitted = [row for row in document["parameters"] if row["rows"]]
    columns: list[TableColumn | str] = [
        text_column("parameter", "name"), column("value"), column("low"), column("high"),
        "rows", text_column("from", "source"),
    ]
    draw_rows(console, "Fitted parameters", columns, fitted)
    defaults = [row["name"] for row in document["parameters"] if not row["rows"]]
    if defaults:
        console.print()
        console.print(plain(f"Defaults: {', '.join(defaults)}"))
    draw_rows(
        console, "Lengths, beside those that the parameters give",
        [text_column("kind"), "intervals", "within_factor_3", "in_range"], document["kinds"],
    )
    first = document["left_out"][:document["top"]]
    draw_rows(
        console, f"Left out ({len(first)} of {len(document['left_out'])})",
        [text_column("kind"), text_column("why", "left_out"),
         TableColumn("length", value=lambda row: f"{_length(row)} us"),
         TableColumn("predicted", value=lambda row: f"{row['predicted_us']} us"),
         text_column("line", lambda row: f"{row['file']}:{row['line']}")], first,
    )
    draw_source(console, document, f"Logs: {', '.join(document['inputs'])}")
