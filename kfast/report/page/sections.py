"""The sections of a report page: each an answer of kfast, and the figures that go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kfast.analysis.broker_failure import Failure, fail_brokers
from kfast.analysis.cluster_diff import diff
from kfast.analysis.copyset_risk import risk
from kfast.analysis.restart_plan import restart_plan
from kfast.analysis.surprises import stuck_partitions
from kfast.analysis.worst_scenarios import SORTED_BY, WorstScenarios
from kfast.capacity import CapacityForecast, CapacityPlan
from kfast.capacity.failures.worst_failures import WorstFailures
from kfast.figures.capacity import forecast_figure, headroom_figure
from kfast.figures.failures import broker_leaders_figure, pairs_figure, sweep_figure
from kfast.figures.restarts import restart_figure
from kfast.figures.timelines import leaderless_figure
from kfast.report.answer import Document
from kfast.report.capacity_forecast import capacity_forecast_answer
from kfast.report.capacity_sweep import capacity_sweep_answer
from kfast.report.cluster import cluster_answer
from kfast.report.cluster_diff import diff_answer
from kfast.report.failure import failure_answer
from kfast.report.restart import plan_answer
from kfast.report.risk import risk_answer
from kfast.report.sweep import sweep_answer
from kfast.report.timeline import in_seconds, lever_text, timeline_answer
from kfast.state import ClusterState
from kfast.state.census import Census, take_census
from kfast.sweeps import SweepPlan, prepare_sweep, sweep
from kfast.sweeps.scenario_makers import every_broker, every_rack
from kfast.sweeps.scenarios import Scenarios
from kfast.timelines.failover import timeline

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["CapacityQuestion", "ReportSections", "report_sections"]

TOP = 10
"""Rows of each list: a page is read, and its tables are those of other commands."""

TITLES = {"brokers": "Every broker", "racks": "Each rack"}

MOST_PAIRED = 512
"""Live brokers whose pairs are swept; of more, a heat map shows nothing."""

MOST_PLANNED = 2048
"""Live brokers whose restarts are planned here: the search grows with their square."""


@dataclass(frozen=True)
class CapacityQuestion:
    """Loads and capacities of the cluster, made ready.

    Parameters
    ----------
    plan : CapacityPlan
    head : callable
        Makes the beginning of an answer of the command that it is given.
    forecast : CapacityForecast, optional
        Of the failures of every broker.
    growth : str
        In words.
    """

    plan: CapacityPlan
    head: Callable[[str], Document]
    forecast: CapacityForecast | None = None
    growth: str = ""


@dataclass(frozen=True)
class ReportSections:
    """Answers of a report by their names, and its figures by theirs.

    Attributes
    ----------
    census : Census
        Of the cluster as it was read.
    failure : Failure or None
        The worst failure, and the return of its brokers; None where nobody can fail.
    documents : dict of str to dict
    figures : dict of str to Figure
    """

    census: Census
    failure: Failure | None
    documents: dict[str, Document] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)


def report_sections(
    source: str, state: ClusterState, *, old: tuple[str, ClusterState] | None = None,
    capacity: CapacityQuestion | None = None, seed: int = 0, threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ReportSections:
    """Ask every question of a report.

    Parameters
    ----------
    source : str
        What the cluster was read from, as answers say it.
    state : ClusterState
        Not changed.
    old : tuple of str and ClusterState, optional
        The cluster earlier, and what it was read from.
    capacity : CapacityQuestion, optional
    seed : int
        Of what is drawn at random.
    threads : int
    progress : callable, optional
        Is given the questions that are answered, and all.
    """
    plan = prepare_sweep(state, threads=threads)
    census = take_census(state)
    documents: dict[str, Document] = {
        "show": cluster_answer(
            source, state, census, stuck_partitions(state), top=TOP
        ).document,
    }
    figures: dict[str, Figure] = {}
    questions: list[Callable[[], Any]] = [
        lambda: _failures(source, state, plan, documents, figures, threads),
        lambda: _pairs(source, state, plan, documents, figures, threads),
        lambda: _timeline(source, state, documents, figures, seed),
        lambda: _restart(source, state, documents, figures),
        lambda: _risk(source, state, documents, seed),
    ]
    if old is not None:
        documents["diff"] = diff_answer(
            old[0], source, diff(old[1], state, threads=threads), top=TOP
        ).document
    if capacity is not None:
        questions.append(lambda: _capacity(state, capacity, documents, figures))
    failure = None
    for at, ask in enumerate(questions):
        if progress is not None:
            progress(at, len(questions))
        answer = ask()
        if isinstance(answer, Failure):
            failure = answer
    return ReportSections(census, failure, documents, figures)


def _swept(
    source: str, state: ClusterState, plan: SweepPlan, title: str, scenarios: Scenarios,
    threads: int,
) -> tuple[Document, pa.Table]:
    """The answer of a sweep, and its rows."""
    rows, worst = sweep(plan, scenarios, threads=threads), WorstScenarios(TOP)
    for batch in rows.to_batches():
        worst.add(batch)
    return sweep_answer(source, state, title, scenarios, worst, None).document, rows


def _failures(
    source: str, state: ClusterState, plan: SweepPlan, documents: dict[str, Document],
    figures: dict[str, Figure], threads: int,
) -> Failure | None:
    """Every single broker and every rack; then the worst of them in full."""
    scenarios = _single_failures(state)
    for kind, failures in scenarios.items():
        document, rows = _swept(source, state, plan, TITLES[kind], failures, threads)
        documents[kind] = document
        names = [
            str(ids[0]) if kind == "brokers" else rack_name(state, ids)
            for ids in map(failures.brokers, range(1, len(failures)))
        ]
        if document["summary"]["under_min_isr"]:
            figures[kind] = sweep_figure(
                rows, names, f"When one {kind.removesuffix('s')} fails: partitions in trouble"
            )
    worst = max(
        (row for kind in scenarios for row in documents[kind]["worst"][:1]),
        key=lambda row: [row[metric] for metric in SORTED_BY], default=None,
    )
    if worst is None:
        return None
    ids = worst["brokers"]
    failure = fail_brokers(state, ids, then=[("start", ids)], threads=threads)
    documents["fail"] = failure_answer(
        source, state, failure, racks=worst["whole_racks"], top=TOP
    ).document
    figures["leaders"] = broker_leaders_figure(failure.steps[0].impact.brokers)
    return failure


def _single_failures(state: ClusterState) -> dict[str, Scenarios]:
    """Failures of every broker that is up, and of every rack where there are several."""
    if not state.up.any():
        return {}
    racks = {rack for rack, up in zip(state.rack.to_pylist(), state.up, strict=True) if up}
    several = len(racks - {None}) > 1
    return {"brokers": every_broker(state), **({"racks": every_rack(state)} if several else {})}


def rack_name(state: ClusterState, broker_ids: Sequence[int]) -> str:
    """Name of the rack of some brokers of one rack."""
    row = int(state.find_brokers(broker_ids[:1])[0])
    return str(state.rack[row].as_py())


def _pairs(
    source: str, state: ClusterState, plan: SweepPlan, documents: dict[str, Document],
    figures: dict[str, Figure], threads: int,
) -> None:
    ids = state.broker_id[state.up]
    if not 3 <= ids.size <= MOST_PAIRED:
        return
    scenarios = every_broker(state, 2)
    document, rows = _swept(source, state, plan, "Every 2 brokers", scenarios, threads)
    documents["pairs"] = document
    # The scenarios are the pairs in the order of the upper triangle.
    matrix = np.zeros((ids.size, ids.size), np.int64)
    first, second = np.triu_indices(ids.size, 1)
    trouble = np.maximum(rows["offline"].to_numpy(), rows["under_min_isr"].to_numpy())
    matrix[first, second] = matrix[second, first] = trouble[1:] - trouble[0]
    if matrix.any():
        figures["pairs"] = pairs_figure(ids.tolist(), matrix)


def _timeline(
    source: str, state: ClusterState, documents: dict[str, Document], figures: dict[str, Figure],
    seed: int,
) -> None:
    """When the leaders of the broker that leads most are back, where it fails alone."""
    leaders = state.records["leader"]
    led = np.bincount(leaders[leaders >= 0], minlength=state.n_brokers) * state.up
    if int(state.up.sum()) < 2 or not led.any():
        return
    found = timeline(state, [int(state.broker_id[led.argmax()])], seed=seed)
    document = timeline_answer(source, found, top=TOP, sensitivity=True).document
    document["levers"] = [
        {"name": row["name"], "kind": row["kind"],
         **{name: lever_text(row, row[name]) for name in ("value", "low", "high", "halves_at")},
         **{f"led_at_{end}": in_seconds(row[f"led_max_us_at_{end}"]) for end in ("low", "high")}}
        for row in document["sensitivity"][:TOP] if row["effect_us"]
    ]
    documents["timeline"] = document
    figures["timeline"] = leaderless_figure(found.leaderless)


def _restart(
    source: str, state: ClusterState, documents: dict[str, Document], figures: dict[str, Figure]
) -> None:
    if not 0 < int(state.up.sum()) <= MOST_PLANNED:
        return
    plan = restart_plan(state)
    documents["restart"] = plan_answer(source, state, plan, top=TOP).document
    figures["restart"] = restart_figure(plan.batches)


def _risk(source: str, state: ClusterState, documents: dict[str, Document], seed: int) -> None:
    live = int(state.live.sum())
    numbers = [n for n in (1, 2, 3) if n <= live]
    document = risk_answer(source, state, risk(state, seed=seed), numbers, top=5).document
    # As many as there are replica sets: a table of `kfast risk`.
    del document["copysets"]
    documents["risk"] = document


def _capacity(
    state: ClusterState, question: CapacityQuestion, documents: dict[str, Document],
    figures: dict[str, Figure],
) -> None:
    for kind, failures in _single_failures(state).items():
        title = TITLES[kind]
        worst, batches = WorstFailures(TOP), []
        for batch in question.plan.batches(failures):
            worst.add(batch)
            batches.append(batch)
        documents[f"capacity_{kind}"] = capacity_sweep_answer(
            question.head("capacity sweep"), state, title, failures, worst, question.plan,
            None, None,
        ).document
        figures[f"capacity_{kind}"] = headroom_figure(
            pa.Table.from_batches(batches), f"Headroom: one {kind.removesuffix('s')} fails"
        )
    if question.forecast is not None:
        document = capacity_forecast_answer(
            question.head("capacity forecast"), state, "Every broker", every_broker(state),
            question.forecast, question.growth,
        ).document
        documents["forecast"] = document
        figures["forecast"] = forecast_figure(document["forecast"])
