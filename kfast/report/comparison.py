"""What `kfast compare` answers: several answers to one question, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from rich.console import Console

from kfast.analysis.compare_answers import AS_IT_IS, ComparedAnswer, Comparison
from kfast.analysis.whatif import racks_by_broker
from kfast.report.answer import Answer, Document, controller_document, getters, head
from kfast.report.drawing import draw_rows, number
from kfast.report.failure import impact_sentence
from kfast.report.tables import Row, TableColumn, text_column
from kfast.report.wording import brokers_named, count, out_of
from kfast.state import ClusterState
from kfast.state.controller_change import REASON

__all__ = ["COMPARE_TABLES", "comparison_answer"]

COMPARE_TABLES = ("table", "differences")


def comparison_answer(
    source: str, state: ClusterState, comparison: Comparison, *, title: str = "",
    racks: Sequence[str] = (), notes: Sequence[str] = (), top: int,
) -> Answer:
    """The answer of `kfast compare`; a sweep has a title, a failure perhaps racks."""
    scenarios = comparison.scenarios
    differing = int(comparison.differing_rows.sum())
    document = {
        **head("compare", source, state),
        "notes": [*notes, *_assumed(comparison)],
        "answers": [_answer(answer, comparison) for answer in comparison.answers],
        "differing": differing,
        "differences": _differences(comparison, top),
    }
    if scenarios is None:
        first = comparison.answers[0].failure
        assert first is not None, "a comparison without scenarios is about a failure"
        document["scenario"] = {
            "brokers": list(first.broker_ids), "racks": list(racks),
            "controlled": first.controlled,
            "steps": [[step.kind, list(step.broker_ids)] for step in first.steps],
        }
    else:
        document["scenarios"] = {"what": title, "of": len(scenarios)}
    document["verdict"] = _verdict(document, comparison, state)
    return Answer(document, _draw, getters(comparison, COMPARE_TABLES))


def _assumed(comparison: Comparison) -> list[str]:
    """What the further answers assume and the first does not."""
    own = set(comparison.answers[0].state.assumptions)
    lines = (
        (answer.name, line) for answer in comparison.answers[1:]
        for line in answer.state.assumptions if line not in own and not line.startswith(REASON)
    )
    return [f"{name}: {line}" for name, line in lines]


def _answer(answer: ComparedAnswer, comparison: Comparison) -> Document:
    document: Document = {
        "answer": answer.name, "settings": dict(answer.settings),
        "controller": controller_document(answer.state),
        "summary": answer.summary,
    }
    if answer.failure is not None:
        return {**document, "before": answer.failure.impact.before.counts}
    assert comparison.scenarios is not None, "what is no failure is a sweep"
    worst = answer.worst
    return {
        **document, "n_worse": dict(worst.n_worse), "n": worst.n_failures,
        "worst": worst.table(comparison.scenarios).to_pylist(),
    }


def _differences(comparison: Comparison, top: int) -> list[Row]:
    """The first partitions or scenarios that differ, each with what every answer says of it."""
    rows = comparison.differences.slice(0, top * len(comparison.answers)).to_pylist()
    if comparison.scenarios is None:
        return [
            {"topic": topic, "partition": partition, "answers": {
                row["answer"]: {name: row[name] for name in ("leader", "isr", "offline",
                                                             "under_min_isr")}
                for row in group
            }}
            for (topic, partition), group in groupby(
                rows, lambda row: (row["topic"], row["partition"]))
        ]
    return [
        {"scenario": scenario, "brokers": comparison.scenarios.brokers(scenario), "answers": {
            row["answer"]: {name: row[name] for name in row if name not in ("answer", "scenario")}
            for row in group
        }}
        for scenario, group in groupby(rows, lambda row: row["scenario"])
    ]


# --- words ---------------------------------------------------------------------------------------


def _verdict(document: Document, comparison: Comparison, state: ClusterState) -> list[str]:
    """How many differ; then what each answer says."""
    n = document["differing"]
    what = "partition" if comparison.scenarios is None else "scenario"
    differ = count(n, what, "ends differently", "end differently")
    return [
        f"{_question(document, state)}, answered {len(comparison.answers)} ways: {differ}.",
        *(f"{_named(answer, one)}: {_sentence(answer)}"
          for answer, one in zip(comparison.answers, document["answers"], strict=True)),
    ]


def _question(document: Document, state: ClusterState) -> str:
    if "scenarios" in document:
        return str(document["scenarios"]["what"])
    scenario = document["scenario"]
    verb = (
        ("shuts down", "shut down in order") if scenario["controlled"]
        else ("fails", "fail together")
    )
    text = brokers_named(scenario["brokers"], scenario["racks"], racks_by_broker(state), verb)
    for kind, ids in scenario["steps"][1:]:
        text += f", then {brokers_named(ids, verb=_VERBS[kind])}"
    return text[0].upper() + text[1:]


_VERBS = {"fail": ("fails", "fail"), "start": ("starts", "start")}


def _named(answer: ComparedAnswer, document: Document) -> str:
    """An answer by its name; what a new controller's ELR is where the name does not say it."""
    if answer.name == AS_IT_IS:
        return "As it is"
    elr = document["controller"]["elr"]
    is_silent = "controller" in answer.settings and "elr" not in answer.settings
    known = f" (ELR {'on' if elr else 'off'})" if is_silent and elr is not None else ""
    return f"With {answer.name}{known}"


def _sentence(answer: ComparedAnswer) -> str:
    if answer.failure is not None:
        return impact_sentence(answer.failure.impact)
    worst = answer.worst
    most = worst.summary
    offline, refused = (worst.n_worse[name] for name in ("offline", "under_min_isr"))
    takes = out_of(offline, worst.n_failures, "scenario", "takes", "take")
    parts = [
        f"{takes} partitions offline{_at_most(most['offline'])}",
        (f"{refused or 'none'} {'takes' if refused < 2 else 'take'} some under min ISR"
         f"{_at_most(most['under_min_isr'])}"),
        f"up to {count(most['unclean'], 'leader', 'is', 'are')} elected outside the ISR"
        if most["unclean"] else "no leader is elected outside the ISR",
    ]
    return f"{'; '.join(parts)}."


def _at_most(n: float) -> str:
    return f", {n} at most" if n else ""


# --- drawing -------------------------------------------------------------------------------------


def _draw(console: Console, document: Document) -> None:
    answers = document["answers"]
    metrics = [
        {"metric": metric, **{one["answer"]: one["summary"][metric] for one in answers}}
        for metric in answers[0]["summary"] if all(metric in one["summary"] for one in answers)
    ]
    title = "Partitions afterwards" if "scenario" in document else "The most in any scenario"
    draw_rows(console, title, [text_column("metric"), *(
        _metric_column(one["answer"]) for one in answers
    )], metrics, complete=True)
    of_partition = "scenario" in document
    what = "Partitions" if of_partition else "Scenarios"
    key: list[TableColumn | str] = (
        [text_column("partition", lambda row: f"{row['topic']}-{row['partition']}")]
        if of_partition
        else ["scenario", text_column("brokers")]
    )
    draw_rows(
        console, f"{what} that end differently", [*key, *(
            text_column(one["answer"], partial(_cell, one["answer"])) for one in answers
        )], document["differences"], document["differing"], complete=True,
    )


def _metric_column(name: str) -> TableColumn:
    return TableColumn(name, value=lambda row: number(row["metric"], row[name]))


def _cell(name: str, row: Row) -> str:
    """What one answer says of a partition or a scenario."""
    end: dict[str, Any] = row["answers"][name]
    if "isr" not in end:
        return f"{end['offline']} offline, {end['under_min_isr']} under min ISR"
    isr = ",".join(map(str, end["isr"])) or "empty"
    leader = "offline" if end["offline"] else f"leader {end['leader']}"
    refuses = ", under min ISR" if end["under_min_isr"] and not end["offline"] else ""
    return f"{leader}, ISR {isr}{refuses}"
