"""What `kfast fail` answers: what becomes of the cluster when brokers fail, and start again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.padding import Padding

from kfast.analysis.broker_failure import Failure, FailureStep
from kfast.analysis.explain import Explanation
from kfast.analysis.impact import Impact
from kfast.analysis.whatif import racks_by_broker
from kfast.report.answer import Answer, Document, head, listed, partition_lists, start_document
from kfast.report.drawing import (
    draw_brokers,
    draw_heading,
    draw_metrics,
    draw_topics,
    has_failed,
    without_requests,
)
from kfast.report.surprises import draw_surprises, surprise_sentences
from kfast.report.tables import Row, plain
from kfast.report.wording import brokers_named, count, plural, refusals
from kfast.state import ClusterState

__all__ = ["FAIL_TABLES", "failure_answer", "impact_sentence"]

FAIL_TABLES = ("partitions", "topics", "brokers", "requests")
CHANGES = (
    "newly_offline", "newly_under_min_isr", "leaders_moved", "unclean", "elr_elections",
    "last_known_leader_elections", "isr_shrunk",
)
TOPIC_COLUMNS = ("offline", "under_min_isr", "leaders_moved", "at_min_isr", "under_replicated")
LEADER_COLUMNS = ("leaders_before", "leaders", "change", "in_sync_before", "in_sync", "requests")


def failure_answer(
    source: str, state: ClusterState, failure: Failure, *, racks: Sequence[str] = (),
    notes: Sequence[str] = (), explanations: Sequence[Explanation] = (), top: int,
    lists: Sequence[str] = (), verbose: bool = False,
) -> Answer:
    """The answer of `kfast fail`: what each step does, and what all of them do together."""
    document = {
        **head("fail", source, state),
        "notes": [*notes, *(note for event in failure.events for note in event.outcome.notes)],
        "scenario": {
            "brokers": list(failure.broker_ids), "racks": list(racks),
            "controlled": failure.controlled,
        },
        "start": start_document(failure.start),
        "steps": [_step(step, top) for step in failure.steps],
        **_impact(failure.impact, top),
        "remaining": failure.remaining,
        "order_matters": failure.order_matters,
        **listed("surprises", failure.surprises, top),
        "explanations": [_explanation(explanation) for explanation in explanations],
        **partition_lists(lists, lambda: failure.impact.partitions),
    }
    document["verdict"] = [
        f"{_what_happens(step, failure.controlled, None if at else racks, state)}: "
        f"{impact_sentence(step.impact)}"
        for at, step in enumerate(failure.steps)
    ]
    document["verdict"] += _warnings(failure)
    tables = {name: partial(_table, failure, name) for name in FAIL_TABLES}
    return Answer(document, _draw, tables, verbose)


def _table(failure: Failure, name: str) -> pa.Table:
    """A table of every step; where there are several, a first column says which step."""
    step_tables = [getattr(step.impact, name) for step in failure.steps]
    if len(step_tables) == 1:
        return step_tables[0]
    return pa.concat_tables([
        table.add_column(0, pa.field("step", pa.int32(), False),
                         pa.array(np.full(table.num_rows, number, np.int32)))
        for number, table in enumerate(step_tables, 1)
    ])


def _step(step: FailureStep, top: int) -> Document:
    return {"kind": step.kind, "broker_ids": list(step.broker_ids), **_impact(step.impact, top)}


def _impact(impact: Impact, top: int) -> Document:
    return {
        "before": impact.before.counts,
        "summary": impact.summary,
        "requests": impact.requests.to_pylist(),
        "brokers": impact.brokers.to_pylist(),
        "top": top,
        **listed("topics", impact.topics, top),
    }


def _explanation(explanation: Explanation) -> Document:
    return {
        "topic": explanation.topic,
        "partition": explanation.partition,
        "sections": [
            {"heading": section.heading, "lines": list(section.lines)}
            for section in explanation.sections
        ],
    }


# --- words -------------------------------------------------------------------------------------


def impact_sentence(impact: Impact) -> str:
    """What clients and operators notice, in Kafka's words; ends with a full stop."""
    summary = impact.summary
    offline = summary["newly_offline"]
    refusing = impact.after.flags("under_min_isr") & ~impact.after.flags("offline")
    newly_refusing = int((refusing & impact.newly("under_min_isr")).sum())
    accepting = int((impact.before.flags("under_min_isr") & ~impact.before.flags("offline")
                     & ~impact.after.flags("under_min_isr")).sum())
    stay = summary["offline"] - offline
    goes = ("partition", "goes offline", "go offline")
    parts = [
        f"{count(offline, *goes)}, {summary['offline']} in all" if offline and stay
        else f"no further partition goes offline, {stay} still {'is' if stay == 1 else 'are'}"
        if stay else count(offline, *goes),
        refusals(newly_refusing, summary["offline"], int(refusing.sum())),
    ]
    if summary["back_online"]:
        parts.append(count(summary["back_online"], "partition", "comes back", "come back"))
    if accepting:
        accepts = count(accepting, "partition", "accepts acks=all", "accept acks=all")
        parts.append(f"{accepts} again")
    parts.append(count(summary["leaders_moved"], "leader", "moves", "move"))
    leaders = impact.after.per_broker[:, 0]
    if leaders.size and leaders.max():
        fullest = int(leaders.argmax())
        parts.append(
            f"broker {impact.after.state.broker_id[fullest]} leads most, {leaders[fullest]}"
        )
    return f"{'; '.join(parts)}."


def _what_happens(
    step: FailureStep, controlled: bool, racks: Sequence[str] | None, state: ClusterState
) -> str:
    """A step as the beginning of a sentence; the first one has racks, perhaps none."""
    if step.kind == "start":
        verb = ("starts and catches up", "start and catch up")
    elif controlled:
        verb = ("shuts down in order", "shut down in order, one after the other")
    else:
        verb = ("fails", "fail together")
    what = brokers_named(step.broker_ids, racks or (), racks_by_broker(state), verb)
    return f"Then {what}" if racks is None else f"{what[0].upper()}{what[1:]}"


def _warnings(failure: Failure) -> list[str]:
    """What a person must not miss: lost records, leaders that a shutdown could not move."""
    lines = []
    # A partition's only replica lacks no record that another one had.
    unclean = sum(step.impact.summary["unclean"] for step in failure.steps)
    unclean -= failure.surprises["surprise"].to_pylist().count("only_replica_unclean")
    if unclean > 0:
        lines.append(f"{count(unclean, 'leader', 'is elected', 'are elected')} outside the ISR: "
                     "records that only other replicas had are lost.")
    if chosen := sum(step.impact.summary.get("elr_elections", 0) for step in failure.steps):
        lines.append(f"{count(chosen, 'leader', 'is elected', 'are elected')} from the ELR: it has "
                     "every record that was acknowledged.")
    if failure.order_matters:
        lines.append(
            "Brokers that fail together are fenced one after another, by ascending id unless "
            f"--order says otherwise; for {plural(failure.order_matters, 'partition')} the order "
            "decides who leads, or who may."
        )
    lines += surprise_sentences(failure.surprises)
    if failure.remaining:
        lines.append(
            f"Controlled shutdown cannot move {plural(failure.remaining, 'leader')}: nobody else "
            "in their ISR is live."
        )
    return lines


# --- drawing -----------------------------------------------------------------------------------


def _draw(console: Console, document: Document) -> None:
    for explanation in document["explanations"]:
        _draw_explanation(console, explanation)
    steps = document["steps"]
    for at, step in enumerate(steps, 1):
        if len(steps) > 1:
            verb = step["kind"]
            named = brokers_named(step["broker_ids"], verb=(f"{verb}s", verb))
            draw_heading(console, f"Step {at}: {named}")
        draw_topics(console, step, TOPIC_COLUMNS)
        columns = without_requests(document, LEADER_COLUMNS)
        draw_brokers(console, "Leaders per broker", step, columns, _most_moved)
        changes = [name for name in CHANGES if name in step["summary"]]
        draw_metrics(console, step["before"], {"after": step["summary"]}, changes)
    draw_surprises(console, document)


def _most_moved(row: Row) -> tuple[bool, int]:
    """Sorts brokers that failed before those that won or lost most leaders."""
    return not has_failed(row), -abs(int(row["leaders"]) - int(row["leaders_before"]))


def _draw_explanation(console: Console, explanation: Document) -> None:
    draw_heading(
        console, f"Why {explanation['topic']}-{explanation['partition']} ends as it does"
    )
    for section in explanation["sections"]:
        _draw_indented(console, section["heading"], 2, "bold")
        for line in section["lines"]:
            text = line.lstrip()
            _draw_indented(console, text, 4 + len(line) - len(text))


def _draw_indented(console: Console, line: str, depth: int, style: str = "") -> None:
    """Draw a line, the rest of it below its beginning."""
    console.print(Padding(plain(line, style), (0, 0, 0, depth)))
