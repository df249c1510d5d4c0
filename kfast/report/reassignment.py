"""What `kfast reassign` answers: what becomes of the partitions of a plan, and on the way."""

from __future__ import annotations

from functools import partial

from rich.console import Console

from kfast.analysis.plan_execution import Reassignment
from kfast.report.answer import (
    Answer,
    Document,
    brokers_named,
    busiest,
    count,
    draw_brokers,
    draw_foot,
    draw_rows,
    draw_start,
    draw_topics,
    draw_verdict,
    head,
    listed,
    number,
    plural,
    safety_sentence,
    signed,
    start_document,
)
from kfast.report.tables import TextTable, plain, text_column
from kfast.state import ClusterState

__all__ = ["reassignment_answer"]

REASONS = {
    "newly_offline_on_the_way": ("partition", "goes offline on the way", "go offline on the way"),
    "newly_under_min_isr_on_the_way": (
        "partition", "falls under min ISR on the way", "fall under min ISR on the way"
    ),
    "newly_offline": ("partition", "is offline in the end", "are offline in the end"),
    "newly_under_min_isr": (
        "partition", "is under min ISR in the end", "are under min ISR in the end"
    ),
    "pending": ("partition", "does not complete", "do not complete"),
    "unclean": ("leader", "is elected outside the ISR", "are elected outside the ISR"),
    "refused": ("partition", "is refused", "are refused"),
}
"""How each of `Reassignment.reasons` is worded."""

PARTITION_COLUMNS = {
    "refused": ("error", "reason", "target"), "pending": ("reason", "isr", "replicas"),
}
TOPIC_COLUMNS = ("refused", "pending", "completed", "leaders_moved", "not_preferred")
OF_THE_PLAN = ("refused", "completed", "pending", "replicas_added", "replicas_removed",
               "leader_epoch_bumps")
OF_THE_CLUSTER = ("newly_offline", "newly_under_min_isr", "leaders_moved", "unclean")
BROKER_COLUMNS = ("added", "removed", "replicas", "leaders_before", "leaders", "preferred",
                  "requests")


def reassignment_answer(
    source: str, plan: str | None, state: ClusterState, reassignment: Reassignment, *, top: int,
    verbose: bool = False,
) -> Answer:
    """The answer of `kfast reassign`."""
    partitions, status = reassignment.partitions, reassignment.partitions["status"].to_numpy()
    outcomes = [event.outcome for event in reassignment.events]
    document = {
        **head("reassign", source, state, reassignment.title),
        "notes": [*reassignment.notes, *(note for outcome in outcomes for note in outcome.notes)],
        "safe": False if reassignment.reasons else None if reassignment.pending else True,
        "reasons": reassignment.reasons,
        "scenario": {
            "plan": plan, "brokers": list(reassignment.broker_ids), "pending": reassignment.pending,
        },
        "start": start_document(reassignment.start),
        "before": reassignment.before.counts,
        "under_way": dict(reassignment.under_way),
        "summary": reassignment.summary,
        "requests": reassignment.requests.to_pylist(),
        "brokers": reassignment.brokers.to_pylist(),
        "top": top,
        **listed("refused", partitions.filter(status == "refused"), top),
        **listed("pending", partitions.filter(status == "pending"), top),
        **listed("topics", reassignment.topics, top),
    }
    document["verdict"] = _verdict(document, partitions.num_rows)
    return Answer(document, partial(_draw, verbose=verbose), {
        "partitions": lambda: reassignment.partitions, "topics": lambda: reassignment.topics,
        "brokers": lambda: reassignment.brokers, "requests": lambda: reassignment.requests,
    })


def _verdict(document: Document, n: int) -> list[str]:
    summary, scenario = document["summary"], document["scenario"]
    meanwhile = (
        f" while {brokers_named(scenario['brokers'])} "
        f"{'fails' if len(scenario['brokers']) == 1 else 'fail'}" if scenario["brokers"] else ""
    )
    completed = count(summary["completed"], "partition", "completes", "complete")
    if scenario["pending"]:
        what = f"{plural(n, 'partition')} being reassigned; no new replica has caught up yet"
    elif document["safe"]:
        what = f"{completed}; none goes offline or falls under min ISR on the way"
    else:
        what = f"{summary['completed']} of {plural(n, 'partition')} complete"
    moved = (
        f"{plural(summary['replicas_added'], 'replica')} added, {summary['replicas_removed']} "
        f"removed; {count(summary['leaders_moved'], 'leader', 'moves', 'move')}."
    )
    return [safety_sentence(document, f"{what}{meanwhile}", REASONS), moved]


def _draw(console: Console, document: Document, *, verbose: bool) -> None:
    draw_verdict(console, document)
    for status, columns in PARTITION_COLUMNS.items():
        draw_rows(
            console, f"{status.capitalize()} partitions",
            [text_column("topic"), "partition", *map(text_column, columns)], document[status],
            document[f"{status}_listed_of"],
        )
    draw_topics(console, document, TOPIC_COLUMNS, "Topics")
    draw_brokers(console, "Brokers", document, BROKER_COLUMNS, busiest)
    plan = TextTable("Reassignment", [text_column("metric"), "count"])
    for metric in OF_THE_PLAN:
        plan.add_row(metric, number(metric, document["summary"][metric]))
    plan.draw(console)
    _draw_states(console, document)
    draw_foot(console, document)
    draw_start(console, document, verbose)


def _draw_states(console: Console, document: Document) -> None:
    """Every metric of the cluster before, while the plan is under way, and in the end."""
    before, under_way, after = document["before"], document["under_way"], document["summary"]
    pending = document["scenario"]["pending"]
    columns = ("before", "on the way") if pending else ("before", "on the way", "after")
    table = TextTable("Partitions", [
        text_column("metric"), *(*columns, "change"),
    ])
    for metric, value in before.items():
        counts = [number(metric, under_way[metric])]
        counts += [] if pending else [number(metric, after[metric])]
        table.add_row(metric, str(value), *counts, signed(after[metric] - value))
    for metric in OF_THE_CLUSTER:
        counts = [number(metric, under_way[metric]) if metric in under_way else plain("")]
        counts += [] if pending else [number(metric, after[metric])]
        table.add_row(metric, "", *counts, "")
    table.draw(console)
