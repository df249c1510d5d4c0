"""What `kfast plan improve` answers: a better placement, its batches, and how to execute them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from kfast.capacity.loads.units import format_bytes
from kfast.capacity.placements.placement_search import BetterPlacement, PlacementObjective
from kfast.capacity.placements.plan_check import PLAN_METRICS, PlanCheck
from kfast.capacity.placements.reassignment_batches import PlanBatches
from kfast.report.answer import Answer, Document, listed
from kfast.report.capacity_wording import reservation_lines, share
from kfast.report.drawing import draw_heading, draw_rows
from kfast.report.plan_check import (
    PLAN_TABLES,
    WORDS,
    draw_plan_check,
    objective_sentence,
    plan_check_answer,
)
from kfast.report.tables import TableColumn, plain, text_column
from kfast.report.wording import count, plural, safety_sentence, time_span
from kfast.state import ClusterState

__all__ = ["IMPROVE_METRICS", "IMPROVE_TABLES", "plan_improve_answer"]

IMPROVE_TABLES = (*PLAN_TABLES, "unscheduled")

IMPROVE_METRICS: Mapping[str, str] = {
    **PLAN_METRICS,
    "worst_share_before": "highest share of a limit that a broker uses, without a failure or after "
    "any, before the plan",
    "worst_share_after": "the same after the plan",
    "gap": "how far the highest share is above the best conceivable, as a part of that, once all "
    "live replicas are in sync",
    "batches": "batches of the plan",
    "unscheduled": "entries that no batch can execute",
}
"""What conditions may be about."""

MILLION = 1_000_000

STOPPED = {
    "seconds": "the time of --search-seconds is over",
    "max_bytes": "--max-bytes allows no more",
    "no better change": "no change that was tried is better",
}
"""What ended a search, by `BetterPlacement.stopped`."""

SERVER = "kafka-1:9092"


def plan_improve_answer(
    head: Document, state: ClusterState, better: BetterPlacement, batches: PlanBatches,
    check: PlanCheck, *, folder: Path | None, top: int,
) -> Answer:
    """The answer of `kfast plan improve`.

    Parameters
    ----------
    head : dict
        Of `capacity_head`, for the cluster before the plan; goes on as the document.
    better : BetterPlacement
    batches : PlanBatches
        Of `better.plan`.
    check : PlanCheck
        Of these batches; of an empty plan where there is none.
    folder : Path or None
        Where the files are written.
    top : int
        How much is listed.
    """
    names = [str(folder / name) if folder else name for name in batches.file_names]
    answer = plan_check_answer(head, state, names, check, top=top)
    document = answer.document
    objective = {row["element"]: row for row in document["objective"]}["worst_share"]
    document["summary"] = {
        **document["summary"],
        **{f"worst_share_{when}": objective[when] / MILLION for when in ("before", "after")},
        "gap": better.gap, "batches": len(batches.batches),
        "unscheduled": batches.unscheduled.num_rows,
    }
    if not batches.batches:
        document["batches"] = []
    document["placement"] = _placement_document(better)
    document["batches_alone"] = list(batches.alone)
    document |= listed("unscheduled", batches.unscheduled, top)
    document["folder"] = str(folder) if folder and batches.batches else None
    document["commands"] = [
        _commands(name, throttle) for name, throttle in zip(names, batches.throttles, strict=True)
    ] if folder else []
    document["notes"] += better.notes
    document["verdict"] = _verdict(document)
    tables = {**answer.tables, "unscheduled": lambda: batches.unscheduled}
    return Answer(document, _draw, tables)


def _placement_document(better: BetterPlacement) -> Document:
    """What the search says, of the cluster once it is in sync and preferred replicas lead."""

    def measured(one: PlacementObjective) -> dict[str, Any]:
        return {"share": float(one.share), "resource": one.resource, "broker_id": one.broker_id,
                "failure": one.failure, "replicas_misplaced": one.replicas_misplaced}

    binding = max(better.bounds, key=lambda name: better.bounds[name].share, default=None)
    return {
        "before": measured(better.before), "after": measured(better.after),
        "bound": float(better.bound), "bound_resource": binding,
        "bound_reason": None if binding is None else better.bounds[binding].reason,
        "gap": better.gap, "stopped": better.stopped, "protect": list(better.protect),
    }


def _commands(name: str, throttle: int | None) -> list[str]:
    """What executes a batch with Kafka's tools; it is complete when --verify says so."""
    server, file = f"--bootstrap-server {SERVER}", shlex.quote(name)
    rate = "" if throttle is None else f" --throttle {throttle}"
    tool = f"kafka-reassign-partitions.sh {server} --reassignment-json-file {file}"
    return [
        f"{tool} --execute{rate}",
        f"{tool} --verify",
        f"kafka-leader-election.sh {server} --election-type preferred --path-to-json-file {file}",
    ]


def _verdict(document: Document) -> list[str]:
    summary, placement = document["summary"], document["placement"]
    if not document["batches"]:
        first = "NOTHING TO MOVE: no placement was found that is better than the present one."
        if summary["unscheduled"]:
            first = "NOTHING TO MOVE: no entry of the better placement can be executed."
        return [first, *_placement_lines(document), *reservation_lines(document)]
    what = (
        f"{plural(summary['partitions'], 'entry', 'entries')} in "
        f"{plural(summary['batches'], 'batch', 'batches')}, "
        f"{plural(summary['replicas_added'], 'replica')} copied "
        f"({format_bytes(summary['bytes_moved'])}{_copy_time(summary)})"
    )
    worst = (
        f"At worst a broker uses {share(summary['worst_share_after'])} of a limit"
        f"{_after_failures(placement['protect'])}; {share(summary['worst_share_before'])} before."
    )
    lines = [
        safety_sentence(document, what, WORDS), worst, *_placement_lines(document),
        objective_sentence(document),
    ]
    if alone := document["batches_alone"]:
        lines.append(
            f"{plural(len(alone), 'batch', 'batches')} of one entry each copy more than a batch "
            "may: --batch-seconds or --moves-per-broker."
        )
    return lines + reservation_lines(document)


def _copy_time(summary: Mapping[str, Any]) -> str:
    """How long copying takes, in all batches."""
    seconds = summary["seconds_bound"]
    if summary["seconds_fair"] is not None:
        seconds = summary["seconds_fair"]
    return f", {time_span(round(seconds * 1000))}" if seconds else ""


def _after_failures(protect: list[str]) -> str:
    """Which failures are measured."""
    names = {"every-broker": "any broker", "every-rack": "any rack"}
    failures = " or ".join(names[name] for name in protect)
    return f", whether {failures} fails or none" if failures else " without a failure"


def _placement_lines(document: Document) -> list[str]:
    """What the search says: shares, the best conceivable, and what ended it."""
    placement, n_out = document["placement"], document["summary"]["unscheduled"]
    before, after = placement["before"], placement["after"]
    lines = []
    if after["resource"] is not None:
        failure = f" after the failure of {after['failure']}" if after["failure"] else ""
        lines.append(
            f"With all live replicas in sync and preferred leaders: {share(after['share'])} "
            f"(broker {after['broker_id']}, {after['resource']}{failure}), {share(before['share'])}"
            " without the plan."
        )
    if placement["bound_resource"] is not None:
        stopped = STOPPED.get(placement["stopped"], "that is as close as --gap asks for")
        lines.append(
            f"No placement is below {share(placement['bound'])} ({placement['bound_resource']}: "
            f"{placement['bound_reason']}); the gap is {share(placement['gap'])}. The search ended:"
            f" {stopped}."
        )
    if n := after["replicas_misplaced"]:
        stay = count(n, "replica", "stays", "stay")
        lines.append(
            f"Warning: {stay} on brokers that are down, have to give up all replicas or hold too "
            "many; limits, racks or --max-bytes allow no more."
        )
    if n_out:
        lines.append(f"{plural(n_out, 'entry', 'entries')} of that can be in no batch, see below.")
    return lines


def _draw(console: Console, document: Document) -> None:
    draw_rows(
        console, "Entries that no batch can execute",
        [text_column("topic"), "partition", text_column("replicas"), text_column("reason"),
         TableColumn("broker", value="broker_id")],
        document["unscheduled"], document["unscheduled_listed_of"],
    )
    draw_plan_check(console, document)
    if not document["commands"]:
        return
    draw_heading(console, "How to execute it: a batch once --verify says that the one before is "
                 "complete")
    for line in document["commands"][0]:
        console.print(plain(f"  {line}"), soft_wrap=True)
    has_others = len(document["commands"]) > 1
    other_batches = "Likewise the other batches, each with its throttle; " if has_others else ""
    console.print(plain(f"  {other_batches}rollback.json undoes all that was executed."))
