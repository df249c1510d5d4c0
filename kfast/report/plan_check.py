"""What `kfast plan check` answers: whether a plan keeps the hard rules, and what gets better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow.compute as pc
from rich.console import Console

from kfast.analysis.whatif import racks_by_broker
from kfast.capacity.loads.units import format_bytes
from kfast.capacity.placements.plan_check import PlanCheck
from kfast.report.answer import Answer, Document, getters, listed
from kfast.report.capacity_wording import (
    amount,
    binding_sentence,
    reservation_lines,
    share,
    share_column,
)
from kfast.report.drawing import broker_columns, draw_rows, first_brokers
from kfast.report.reassignment import PARTITION_COLUMNS, REASONS
from kfast.report.sweep import failing_brokers, whole_racks
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import brokers_named, plural, safety_sentence, time_span
from kfast.state import ClusterState

__all__ = ["PLAN_TABLES", "WORDS", "draw_plan_check", "objective_sentence", "plan_check_answer"]

PLAN_TABLES = (
    "brokers", "broken_rules", "batches", "partitions", "moves", "failures", "objective", "goals",
)
WORDS = {
    **REASONS,
    "broken_rules": ("violation", "of a hard rule", "of hard rules"),
    "newly_offline": ("partition", "goes offline", "go offline"),
    "newly_under_min_isr": ("partition", "falls under min ISR", "fall under min ISR"),
}
"""How each of `PlanCheck.reasons` is worded."""

RESOURCES = {
    "bytes_out": "nw_out", "bytes_in": "nw_in", "disk_bytes": "disk", "cpu_microcores": "cpu",
}
"""Amounts of a broker, in the order of the text, and the resource that each is of."""

MOMENTS = ("before", "during", "after")


def plan_check_answer(
    head: Document, state: ClusterState, plans: Sequence[str], check: PlanCheck, *, top: int,
    goals: bool = False,
) -> Answer:
    """The answer of `kfast plan check`.

    Parameters
    ----------
    head : dict
        Of `capacity_head`, for the cluster before the plan; goes on as the document.
    plans : sequence of str
        Names of the files, a batch each.
    top : int
        How much is listed.
    goals : bool
        Whether it has the goals of Cruise Control.
    """
    status = check.partitions["status"]
    document = {
        **head,
        "scenario": {"plans": list(plans), "brokers": []},
        "safe": not check.reasons,
        "reasons": check.reasons,
        "summary": check.summary,
        "objective": check.objective.to_pylist(),
        "better": check.objective_after < check.objective_before,
        "baseline_before": dict(check.baseline_before),
        "baseline_after": dict(check.baseline_after),
        "batches": check.batches.to_pylist(),
        "brokers": check.brokers.to_pylist(),
        "top": top,
        **listed("broken_rules", check.broken_rules, top),
        **listed("refused", check.partitions.filter(pc.equal(status, "refused")), top),
        **listed("pending", check.partitions.filter(pc.equal(status, "pending")), top),
        **listed("failures", check.failures, top),
        **listed("moves", check.moves.sort_by([("bytes_moved", "descending")]), top),
    }
    if goals:
        document["goals"] = check.goals.to_pylist()
    document["notes"] += check.notes
    racks = racks_by_broker(state)
    for row in document["failures"]:
        row["whole_racks"] = whole_racks(state, row["brokers"])
    document["verdict"] = _verdict(document, racks)
    return Answer(document, draw_plan_check, getters(check, PLAN_TABLES))


def _verdict(document: Document, racks: Mapping[int, str | None]) -> list[str]:
    summary, limits = document["summary"], document["limits"]
    what = (
        f"{plural(summary['partitions'], 'entry', 'entries')} in "
        f"{plural(len(document['batches']), 'batch', 'batches')}, "
        f"{plural(summary['replicas_added'], 'replica')} copied "
        f"({format_bytes(summary['bytes_moved'])})"
    )
    lines = [safety_sentence(document, what, WORDS)]
    for when in ("before", "after"):
        nearest = binding_sentence(document[f"baseline_{when}"], limits["normal"])
        lines.append(f"{when.capitalize()} the plan: {nearest}")
    for row in document["failures"][:1]:
        lines.append(
            f"Worst failure after it, {failing_brokers(row, racks)}: "
            f"{binding_sentence(row, limits['failed'])}"
        )
        lines.append(
            "Lowest headroom of any failure: "
            f"{share(summary['worst_headroom_before']) or 'none'} before, "
            f"{share(summary['worst_headroom_after']) or 'none'} after."
        )
    return [*lines, objective_sentence(document), *reservation_lines(document)]


def objective_sentence(document: Document) -> str:
    """Whether the plan makes the placement better, and the element that decides it."""
    element = next((row for row in document["objective"] if row["before"] != row["after"]), None)
    if element is None:
        return "By the objective the plan changes nothing."
    verb = "better" if document["better"] else "not better"
    return (
        f"By the objective the placement is {verb} than before: {element['element']} "
        f"{element['before']} before, {element['after']} after."
    )


def draw_plan_check(console: Console, document: Document) -> None:
    """Draw what stands below the verdict."""
    draw_rows(
        console, "Violations of hard rules",
        [text_column("rule"), text_column("topic"), "partition", "broker_id",
         text_column("amount", _amount), text_column("allowed", _allowed), "batch",
         TableColumn("broken before", value="broken_before")],
        document["broken_rules"], document["broken_rules_listed_of"],
    )
    for status, columns in PARTITION_COLUMNS.items():
        draw_rows(
            console, f"{status.capitalize()} partitions",
            [text_column("topic"), "partition", *map(text_column, columns), "batch"],
            document[status], document[f"{status}_listed_of"],
        )
    _draw_brokers(console, document)
    has_throttle = any(row["throttle"] is not None for row in document["batches"])
    draw_rows(console, "Batches", [
        "batch", "partitions", "leadership_only", "replicas_added",
        TableColumn("bytes moved", value=lambda row: format_bytes(row["bytes_moved"])),
        text_column("copying takes", _copy_time), *(["throttle"] if has_throttle else []),
        "leaders_moved",
        "most_replicas_of_a_broker", "brokers_over_limit", "completed", "pending", "refused",
    ], first_brokers(document, document["batches"]), len(document["batches"]))
    draw_rows(console, "Worst failures after the plan", [
        text_column("brokers"), share_column("headroom"), share_column("headroom_before"),
        text_column("nearest limit", _nearest), TableColumn("brokers over", value="over_limit"),
    ], document["failures"], document["failures_listed_of"])
    draw_rows(console, "Copies between brokers, the most bytes first", [
        "source", "destination", "replicas",
        TableColumn("bytes moved", value=lambda row: format_bytes(row["bytes_moved"])), "batch",
    ], document["moves"], document["moves_listed_of"])
    draw_rows(
        console, "Objective, the element that counts most first; less is better",
        [text_column("element"), "before", "after", text_column("unit")], document["objective"],
    )
    draw_rows(console, "Default goals of Cruise Control, in its order", [
        text_column("goal"), "hard",
        *(text_column(when, partial(_goal, when)) for when in MOMENTS[::2]),
        text_column("asks"),
    ], document.get("goals", []))


def _goal(when: str, row: Row) -> str:
    """Whether a goal is met, or how many break it, and by how much the worst does."""
    n, worst = row[f"broken_{when}"], row[f"worst_{when}"]
    if n is None:
        return "unknown"
    return f"{plural(n, row['unit'][:-1])}, by up to {share(worst / 1e6)}" if n else "met"


def _copy_time(row: Row) -> str:
    """The fair time of a batch, or the bound, or why there is none."""
    if row["stuck_brokers"]:
        return f"never: {brokers_named(row['stuck_brokers'])} stuck"
    seconds = row["seconds_bound"] if row["seconds_fair"] is None else row["seconds_fair"]
    return "unknown" if seconds is None else time_span(round(seconds * 1000))


def _amount(row: Row) -> str:
    return _quantity(row, "amount")


def _allowed(row: Row) -> str:
    return _quantity(row, "allowed")


def _quantity(row: Row, name: str) -> str:
    """What stands in a row of `PLAN_RULES`, with its unit where it is about a resource."""
    resource = row["resource"]
    if resource is None:
        return str(row[name])
    return f"{resource} {amount(resource, int(row[name]))}"


def _nearest(row: Mapping[str, Any]) -> str | None:
    """The broker that is nearest to a limit, and how much of which resource it uses."""
    name = row["binding"]
    return name and f"{row[f'{name}_broker']}: {name} {share(row[f'{name}_max'])}"


def _draw_brokers(console: Console, document: Document) -> None:
    """Draw what brokers carry before, during and after, those that change most first."""
    brokers = document["brokers"]
    columns: list[TableColumn | str] = []
    for name, resource in RESOURCES.items():
        if any(row[f"{name}_before"] is not None for row in brokers):
            columns += [_amount_column(name, resource, when) for when in MOMENTS]
    for name in ("leaders", "replicas"):
        columns += [f"{name}_{when}" for when in MOMENTS]
    over = [text_column(f"over limit {when}", f"over_limit_{when}") for when in MOMENTS]
    if any(row[f"over_limit_{when}"] for row in brokers for when in MOMENTS):
        columns = [*over, *columns]

    def moved(row: Row) -> int:
        return -int(row["bytes_received"] + row["bytes_sent"])

    rows = first_brokers(document, sorted(brokers, key=moved))
    draw_rows(
        console, "What brokers carry, without the copying itself", broker_columns(*columns),
        sorted(rows, key=lambda row: int(row["broker_id"])), len(brokers),
        style=lambda row: "red" if row["over_limit_after"] or row["over_limit_during"] else "",
    )


def _amount_column(name: str, resource: str, when: str) -> TableColumn:
    """A column of amounts at one moment."""
    key = f"{name}_{when}"
    return TableColumn(
        f"{name.removesuffix('_microcores').removesuffix('_bytes')} {when}",
        value=lambda row: None if row[key] is None else amount(resource, row[key]),
    )
