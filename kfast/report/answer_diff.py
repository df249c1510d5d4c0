"""What `kfast diff` says of two answers in JSON: their verdicts, and metrics that differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from kfast import __version__
from kfast.errors import InputError
from kfast.report.answer import Answer, Document
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, plain, text_column
from kfast.report.wording import plural
from kfast.schema import DIFF_ANSWERS

__all__ = ["ANSWER_DIFF_TABLES", "answer_diff", "read_answer"]

ANSWER_DIFF_TABLES = ("metrics",)

HEAD_BYTES = 1 << 13
"""Of a file of `--format json`, so many bytes name the command."""

MOST = 2.0**1000
"""No metric is so large."""

QUESTION = ("scenario", "scenarios", "question")
"""What an answer says of its question, besides the controller."""


def read_answer(source: str) -> Document | None:
    """What a file of `--format json` holds; None where a file holds something else.

    Raises
    ------
    InputError
        It begins as an answer does, and is none.
    """
    path = Path(source)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(HEAD_BYTES)
    if not start.startswith(b"{") or b'\n  "kfast": ' not in start:
        return None
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: it begins as an answer of kfast, and is damaged: {error}"
                         ) from error
    kinds = {"command": str, "verdict": list, "summary": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(document.get(name), kind)]
    if wrong or not _metrics(document):
        raise InputError(
            f"{source}: it begins as an answer of kfast, and has no {(wrong or ['metric'])[0]}"
        )
    return dict(document)


def _metrics(document: Document) -> dict[str, float]:
    """Numbers of the summary of an answer, or of those of its steps or of several answers."""
    summaries = {"": document.get("summary")}
    for key, name in (("steps", "step {}"), ("answers", "{}")):
        parts = document.get(key)
        if isinstance(parts, list) and len(parts) > 1:
            summaries |= {
                f", {name.format(part.get('answer', at))}": part.get("summary")
                for at, part in enumerate(parts, 1) if isinstance(part, dict)
            }
    return {
        f"{metric}{part}": value
        for part, summary in summaries.items() if isinstance(summary, dict)
        for metric, value in summary.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MOST
    }


def answer_diff(old_source: str, old: Document, source: str, new: Document) -> Answer:
    """The difference of two answers of one command.

    Raises
    ------
    InputError
        They are of two commands.
    """
    if old["command"] != new["command"]:
        raise InputError(
            f"{old_source} is an answer of kfast {old['command']}, {source} of kfast "
            f"{new['command']}; right are two of one command"
        )
    before, after = _metrics(old), _metrics(new)
    metrics = [
        {"metric": name, "value_before": before.get(name), "value": after.get(name)}
        for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)
    ]
    same = len(before.keys() & after.keys()) - sum(None not in row.values() for row in metrics)
    document: Document = {
        "kfast": __version__, "command": "diff", "of": new["command"], "verdict": [],
        "input": source, "old": {"input": old_source, "assumptions": []},
        "other_question": _other_question(old, new),
        "verdicts": [one["verdict"] for one in (old, new)],
        "summary": {"metrics_changed": len(metrics), "metrics_same": same},
        "metrics": metrics,
    }
    document["verdict"] = _verdict(document)
    return Answer(document, _draw, {"metrics": lambda: pa.Table.from_pylist([
        {**row, "value_before": _float(row, "value_before"), "value": _float(row, "value")}
        for row in metrics
    ], schema=DIFF_ANSWERS.schema)})


def _other_question(old: Document, new: Document) -> list[str]:
    """What differs in the questions that two answers are to."""
    controllers = [
        {**one, "why": None} for answer in (old, new)
        if isinstance(one := answer.get("controller"), dict)
    ]
    is_other = len(controllers) == 2 and controllers[0] != controllers[1]
    return ["controller"] * is_other + [
        name for name in QUESTION if old.get(name) != new.get(name)
    ]


def _float(row: Row, name: str) -> float | None:
    value = row[name]
    return None if value is None else float(value)


def _verdict(document: Document) -> list[str]:
    """How many metrics differ; whether the questions were the same."""
    summary: Mapping[str, int] = document["summary"]
    of = f"two answers of kfast {document['of']}"
    same = plural(summary["metrics_same"], "metric")
    first = f"NO DIFFERENCE: {same} of {of} are the same."
    if n := summary["metrics_changed"]:
        first = f"{plural(n, 'metric')} of {of} differ; {summary['metrics_same']} are the same."
    lines = [first]
    if document["other_question"]:
        lines.append(f"They answer different questions: {', '.join(document['other_question'])}.")
    return lines


def _draw(console: Console, document: Document) -> None:
    for when, lines in zip(("Before", "After"), document["verdicts"], strict=True):
        console.print()
        for line in lines:
            console.print(plain(f"{when}: {line}"))
    draw_rows(console, "Metrics that differ", [
        text_column("metric"), TableColumn("before", value="value_before"),
        TableColumn("after", value="value"),
    ], document["metrics"], complete=True)
