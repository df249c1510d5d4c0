"""What `kfast capacity sweep` answers: whether brokers stay within limits whatever fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from kfast.analysis.whatif import racks_by_broker
from kfast.capacity import CapacityFailure, CapacityPlan, capacity_brokers, capacity_of
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.failures.worst_failures import WorstFailures
from kfast.capacity.loads.units import format_rate
from kfast.errors import ArgumentError
from kfast.report.answer import Answer, Document
from kfast.report.capacity_failure import draw_explanation, explanation_document
from kfast.report.capacity_restoration import (
    RestorationRows,
    draw_slowest,
    heal_column,
    restoration_document,
    restoration_lines,
    restoration_note,
)
from kfast.report.capacity_wording import (
    amount,
    binding_sentence,
    load_sentence,
    rate_column,
    reservation_lines,
    share,
    share_column,
)
from kfast.report.drawing import draw_rows
from kfast.report.pictures import headroom_picture
from kfast.report.sweep import failing_brokers, whole_racks
from kfast.report.tables import TableColumn, text_column
from kfast.report.wording import out_of, time_span
from kfast.state import ClusterState
from kfast.sweeps.scenarios import Scenarios

if TYPE_CHECKING:
    import altair

__all__ = ["capacity_sweep_answer", "sweep_picture", "worst_failure"]

DANGER = {
    "bytes_in_leaderless": "leaderless", "bytes_in_refused": "refused",
    "bytes_in_single": "on one replica",
}
"""Bytes in of partitions in danger, and their headings."""

SIZES = ("disk_single", "bytes_unclean", "restore_bytes", "bytes_without_source",
         "bytes_without_place")
"""Metrics in bytes; others are bytes a second."""


def capacity_sweep_answer(
    head: Document, state: ClusterState, title: str, scenarios: Scenarios, worst: WorstFailures,
    plan: CapacityPlan, rows_file: str | None, explain: int | None,
    restored: RestorationRows | None = None,
) -> Answer:
    """The answer of `kfast capacity sweep`.

    Parameters
    ----------
    head : dict
        Of `capacity_head`; goes on as the document.
    explain : int, optional
        The id of a broker: what adds to it in the worst failure.
    restored : RestorationRows, optional
        With columns of restorations in the rows.

    Raises
    ------
    ArgumentError
        That broker is unknown or down, or fails itself; or nothing fails.
    """
    racks = racks_by_broker(state)
    rows = worst.table(scenarios).to_pylist()
    for row in rows:
        row["racks"] = sorted({rack for b in row["brokers"] if (rack := racks[b]) is not None})
        row["whole_racks"] = whole_racks(state, row["brokers"])
    document = {
        **head,
        "scenarios": {"what": title, "of": len(scenarios), "counted": worst.n_scenarios},
        "rows": rows_file,
        "failures_over_limit": worst.n_over,
        "baseline": worst.baseline,
        "summary": worst.summary,
        "safe": not worst.n_over and not (worst.baseline or {}).get("over_limit"),
        "explanation": None if explain is None else explanation_document(
            worst_failure("--explain", plan, scenarios, worst), explain,
            worst.rows["scenario"][0].as_py(), worst.top,
        ),
        "worst": rows,
    }
    document["verdict"] = _verdict(document, worst, racks, scenarios, state)
    if restored is not None:
        def name(brokers: list[int]) -> str:
            row = {"brokers": brokers, "whole_racks": whole_racks(state, brokers)}
            return failing_brokers(row, racks)

        document["summary"] = {**worst.summary, **restored.slowest.summary}
        document["endless"] = restored.slowest.endless
        document["restoration"] = restoration_document(restored, scenarios)
        document["verdict"] += restoration_lines(restored, scenarios, name)
        document["notes"].append(restoration_note(restored.settings))
    document["verdict"] += reservation_lines(document)
    return Answer(document, _draw, {
        "worst": lambda: worst.table(scenarios),
        "brokers": lambda: capacity_brokers(plan, scenarios),
    })


def worst_failure(
    option: str, plan: CapacityPlan, scenarios: Scenarios, worst: WorstFailures
) -> CapacityFailure:
    """The worst failure in full, for an option.

    Raises
    ------
    ArgumentError
        Nothing fails.
    """
    if not worst.rows.num_rows:
        raise ArgumentError(f"{option}: there is no failure among the scenarios")
    return capacity_of(plan, scenarios.brokers(worst.rows["scenario"][0].as_py()))


def sweep_picture(document: Document, curve: pa.Table) -> altair.TopLevelMixin:
    """Headroom after every failure.

    Parameters
    ----------
    document : dict
        Of `capacity_sweep_answer`.
    curve : pa.Table
        scenario, headroom and binding of every scenario.

    Raises
    ------
    ArgumentError
        No broker has a capacity, so that there is no headroom to draw.
    """
    failures = curve.filter((pc.field("scenario") > 0) & pc.field("headroom").is_valid())
    if not failures.num_rows:
        raise ArgumentError("--plot: no failure leaves a broker with a capacity")
    baseline = document["baseline"]
    return headroom_picture(
        f"Headroom: {document['scenarios']['what']}",
        [document["input"], load_sentence(document["load"])],
        failures["headroom"].to_numpy(), failures["binding"].to_pylist(),
        None if baseline is None else baseline["headroom"],
    )


def _verdict(
    document: Document, worst: WorstFailures, racks: Mapping[int, str | None],
    scenarios: Scenarios, state: ClusterState,
) -> list[str]:
    what, n, over = document["scenarios"]["what"], worst.n_failures, worst.n_over
    if over:
        first = f"{what}: NO, {out_of(over, n, 'failure', 'leaves', 'leave')} brokers over a limit."
    elif not document["safe"]:
        first = f"{what}: NO, brokers are over a limit even without a failure."
    else:
        failures = "the one failure" if n == 1 else f"each of {n} failures"
        first = f"{what}: YES, after {failures} every broker is within its limits."
    lines = [first]
    for row in worst.rows.slice(0, 1).to_pylist():
        row["brokers"] = scenarios.brokers(row["scenario"])
        row["whole_racks"] = whole_racks(state, row["brokers"])
        lines.append(
            f"The worst is scenario {row['scenario']}, {failing_brokers(row, racks)}: "
            f"{binding_sentence(row, document['limits']['failed'])}"
        )
    if document["baseline"] is not None:
        nearest = binding_sentence(document["baseline"], document["limits"]["normal"])
        lines.append(f"Without a failure: {nearest}")
    most = [format_rate(document["summary"][name]) for name in DANGER]
    lines.append(
        f"In danger after a failure, at most: producers' {most[0]} without a leader, {most[1]} "
        f"refused with acks=all, {most[2]} on a single in-sync replica."
    )
    return lines


def _draw(console: Console, document: Document) -> None:
    if document["explanation"] is not None:
        draw_explanation(console, document["explanation"])
    worst = document["worst"]
    present = [name for name in RESOURCES if document["summary"][f"{name}_max"] is not None]
    draw_rows(console, f"Worst failures ({len(worst)})", [
        "scenario", text_column("brokers"),
        share_column("headroom"),
        text_column("nearest limit", _nearest),
        *([heal_column()] if "restoration" in document else []),
        TableColumn("brokers over", value="over_limit"),
        *(rate_column(name, heading) for name, heading in DANGER.items()),
        *(share_column(f"{name}_max") for name in present),
        text_column("racks"),
    ], worst, if_empty=True, style=lambda row: "red" if row["over_limit"] else "")
    if "restoration" in document:
        draw_slowest(console, document)
    _draw_extremes(console, document)


def _nearest(row: Mapping[str, Any]) -> str | None:
    """The broker that is nearest to a limit, and how much of which resource it uses."""
    name = row["binding"]
    return name and f"{row[f'{name}_broker']}: {name} {share(row[f'{name}_max'])}"


def _draw_extremes(console: Console, document: Document) -> None:
    """Every metric without a failure, and at its worst."""
    baseline = document["baseline"] or {}
    rows = [
        {"metric": name, "baseline": _cell(name, baseline.get(name)), "worst": _cell(name, value)}
        for name, value in document["summary"].items()
        if value is not None
    ]
    draw_rows(console, "All failures", [
        text_column("metric"), TableColumn("without a failure", value="baseline"), "worst",
    ], rows)


def _cell(name: str, value: Any) -> object:
    if isinstance(value, list):
        return len(value)
    if name.startswith("restore_seconds_") and value is not None:
        return time_span(round(value * 1000))
    if isinstance(value, float):
        return share(value)
    if value is None or not name.startswith(("bytes_", "disk_", "restore_bytes")):
        return value
    return amount("disk" if name in SIZES else "nw_in", value)
