"""The answer of `kfast timeline --compare`: one failure under several variants, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from kfast.errors import ArgumentError
from kfast.report.answer import Answer, Document, controller_document, getters, head
from kfast.report.capacity_wording import add_load, load_warnings
from kfast.report.drawing import draw_rows
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.timeline import TIMELINE_METRICS, shown_measure, time_range
from kfast.report.timeline_pictures import compared_picture
from kfast.report.wording import brokers_named
from kfast.state.controller_change import REASON
from kfast.timelines.comparison import TimelineComparison
from kfast.timelines.failover import NOT_MODELLED

if TYPE_CHECKING:
    import altair

__all__ = ["TIMELINE_COMPARE_TABLES", "timeline_compare_answer", "timeline_compare_image"]

TIMELINE_COMPARE_TABLES = ("summary", "differences", "parameters")


def timeline_compare_answer(source: str, comparison: TimelineComparison) -> Answer:
    """The answer of `kfast timeline --compare`."""
    first = comparison.failures[0]
    rows = comparison.summary.to_pylist()
    document = {
        **head("timeline", source, first.state),
        "metrics": TIMELINE_METRICS,
        "controller_fails": first.controller_fails,
        "answers": [
            {"answer": row["variant"], "controller": controller_document(failure.state),
             "settings": failure.question.settings.by_name, "summary": row}
            for row, failure in zip(rows, comparison.failures, strict=True)
        ],
        "differences": comparison.differences.to_pylist(),
    }
    document["verdict"] = _verdict(document, comparison)
    document["assumptions"] += first.assumptions
    own = set(document["assumptions"])
    document["notes"] += [
        f"{row['variant']}: {line}"
        for row, failure in zip(rows[1:], comparison.failures[1:], strict=True)
        for line in (*failure.state.assumptions, *failure.assumptions)
        if line not in own and not line.startswith(REASON)
    ]
    document["notes"].append(NOT_MODELLED)
    if first.question.load is not None:
        add_load(document, first.question.load)
        document["verdict"] += load_warnings(document)
    return Answer(document, _draw, getters(comparison, TIMELINE_COMPARE_TABLES))


def timeline_compare_image(
    document: Document, comparison: TimelineComparison
) -> altair.TopLevelMixin:
    """The variants as a picture: a curve for each.

    Raises
    ------
    ArgumentError
        In one of them the brokers shut down in order: partitions without a leader have no curve.
    """
    for variant in comparison.variants:
        if variant.controlled:
            raise ArgumentError(
                f"variant {variant.name} has no curve: --plot draws partitions without a leader "
                "over time, of failures"
            )
    curves = {
        variant.name: failure.leaderless.to_pylist()
        for variant, failure in zip(comparison.variants, comparison.failures, strict=True)
    }
    return compared_picture(f"Timelines of {document['input']}", document["verdict"], curves)


def _verdict(document: Document, comparison: TimelineComparison) -> list[str]:
    """What each variant says, and by how much it differs from the first."""
    ids = comparison.failures[0].broker_ids
    stops = any(variant.controlled for variant in comparison.variants)
    verb = ("stops", "stop") if stops else ("fails", "fail")
    who = brokers_named(ids, verb=verb) if ids else "the active controller fails"
    lines = [f"After {who}, with the same samples in each answer:"]
    led = {row["variant"]: row for row in document["differences"] if row["measure"] == "led_max_us"}
    for one in document["answers"]:
        row, name = one["summary"], one["answer"]
        if row["led_max_us"] is None:
            lines.append(f"{name}: nobody is led again.")
            continue
        text = f"{name}: all leaders are back after {time_range(row, 'led_max_us')}"
        text += _than_first(led[name]) if name in led else ""
        if stops:
            text += f"; {row['leaderless_partition_s']} partition-seconds without a leader"
        lines.append(f"{text}.")
    return lines


def _than_first(row: Row) -> str:
    """By how much a variant is slower or faster than the first."""
    if row["difference"] is None:
        return ""
    ends = sorted(abs(row[f"difference_{end}"]) / 1e6 for end in ("low", "high"))
    less = row["difference"] < 0
    if row["difference_low"] < 0 < row["difference_high"]:
        between = f"{row['difference_low'] / 1e6:+.3f} to {row['difference_high'] / 1e6:+.3f}"
    else:
        between = f"{ends[0]:.3f} to {ends[1]:.3f}"
    more = row["samples"] - row["lower_samples"]
    share = (
        f"less in {row['lower_samples']} of {row['samples']} samples" if less
        else f"not less in {more} of {row['samples']} samples"
    )
    return (
        f", {abs(row['difference']) / 1e6:.3f} s {'less' if less else 'more'} ({between}) than "
        f"{row['reference']}, {share}"
    )


def _draw(console: Console, document: Document) -> None:
    answers, metrics = document["answers"], document["metrics"]

    def column(name: str, key: str) -> TableColumn:
        return TableColumn(name, value=lambda row: shown_measure(row["name"], row[key]))

    rows = [
        {"measure": text, "name": name, **{
            f"{place}{end}": one["summary"][f"{name}{end}"]
            for place, one in enumerate(answers) for end in ("", "_low", "_high")
        }} for name, text in metrics.items()
        if any(one["summary"][name] is not None for one in answers)
    ]
    columns = [text_column("measure")]
    for place, one in enumerate(answers):
        columns += [column(one["answer"], str(place)), column("low", f"{place}_low"),
                    column("high", f"{place}_high")]
    title = "Instants after the failure, and sums over partitions"
    draw_rows(console, title, columns, rows, complete=True)
    draw_rows(console, f"Differences from {answers[0]['answer']}, sample by sample", [
        text_column("variant"),
        text_column("measure", lambda row: metrics[row["measure"]]),
        TableColumn("difference", value=lambda row: _difference(row, "difference")),
        TableColumn("low", value=lambda row: _difference(row, "difference_low")),
        TableColumn("high", value=lambda row: _difference(row, "difference_high")),
        TableColumn("less in", value=lambda row: f"{row['lower_samples']}/{row['samples']}"),
    ], [row for row in document["differences"] if row["difference"] is not None], complete=True)


def _difference(row: Row, key: str) -> str:
    text = shown_measure(row["measure"], abs(row[key]))
    return f"-{text}" if row[key] < 0 else text
