"""One question, answered by several controllers or with several settings: `kfast.compare`.

Every answer is the same event, or the same sweep, on a copy of the cluster in which only the
named settings differ: what would ELR save us, what does the migration to KRaft change?
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kfast.analysis.broker_failure import Failure, fail_brokers
from kfast.analysis.worst_scenarios import WorstScenarios
from kfast.arguments import check_instance, check_items, shown
from kfast.errors import ArgumentError
from kfast.schema import (
    COMPARED_FAILURES,
    COMPARED_PARTITIONS,
    COMPARED_SCENARIOS,
    COMPARED_SWEEPS,
    SWEEP_COUNTS,
    ResultTable,
    columns_of,
)
from kfast.state import ClusterState
from kfast.state.census import Flags
from kfast.state.cluster import with_controller
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.settings import TOPIC_SETTINGS, override_settings
from kfast.sweeps import prepare_sweep, sweep
from kfast.sweeps.scenarios import Scenarios

__all__ = ["AS_IT_IS", "COMPARED_SETTINGS", "ComparedAnswer", "Comparison", "compare"]

AS_IT_IS = "as it is"
"""Name of the first answer: the cluster with its own controller and settings."""

COMPARED_SETTINGS = ("controller", "elr", "order", *TOPIC_SETTINGS)
"""What an answer may have of its own; a setting of topics is given to all of them."""

DIFFERING = ("offline", "under_min_isr")
"""A partition ends differently where its leader or one of these metrics does."""


@dataclass(frozen=True)
class ComparedAnswer:
    """One of the answers.

    Attributes
    ----------
    name : str
        Its settings as `name=value`, or `AS_IT_IS`.
    settings : mapping
        What differs from the cluster as it is.
    state : ClusterState
        The cluster that was asked.
    failure : Failure or None
        What the brokers' failure does to it.
    counts : pa.Table or None
        One row per scenario, as `kfast.sweep` gives them.
    """

    name: str
    settings: Mapping[str, object]
    state: ClusterState
    failure: Failure | None = None
    counts: pa.Table | None = None

    @cached_property
    def worst(self) -> WorstScenarios:
        """The worst scenario, and the summary of all."""
        assert self.counts is not None, "only answers to sweeps have scenarios"
        worst = WorstScenarios(1)
        for batch in self.counts.to_batches():
            worst.add(batch)
        return worst

    @property
    def summary(self) -> dict[str, int]:
        """Every metric after the failure; of a sweep, the largest value of each count."""
        return self.worst.summary if self.failure is None else self.failure.impact.summary

    def _summary(self) -> Summary:
        return f"Answer {self.name}", self.summary

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class Comparison:
    """Several answers to one question, `AS_IT_IS` first.

    Attributes
    ----------
    answers : tuple of ComparedAnswer
    scenarios : Scenarios or None
        Of a sweep.
    """

    answers: tuple[ComparedAnswer, ...]
    scenarios: Scenarios | None = None

    @property
    def table(self) -> pa.Table:
        """One row per answer: its controller, and its summary."""
        result = COMPARED_FAILURES if self.scenarios is None else COMPARED_SWEEPS
        rows = [
            {
                "answer": answer.name, "controller": answer.state.controller,
                "elr": answer.state.quorum.elr_on if answer.state.quorum else None,
                **answer.summary,
            }
            for answer in self.answers
        ]
        return result.table(columns_of(pa.Table.from_pylist(rows, schema=result.schema)))

    @property
    def differing_rows(self) -> Flags:
        """(P,) or (n,) where some answer differs from the first: partitions, or scenarios.

        The baseline, in which nobody fails, is no such scenario.
        """
        first, *later = map(self._ends, self.answers)
        differs = np.zeros(first[0].size, np.bool_)
        for columns in later:
            for one, other in zip(first, columns, strict=True):
                differs |= one != other
        if self.scenarios is not None:
            differs[0] = False
        return differs

    def _ends(self, answer: ComparedAnswer) -> list[Any]:
        """What partitions or scenarios are compared by."""
        if answer.failure is None:
            assert answer.counts is not None, "an answer is about a failure or about a sweep"
            return [answer.counts[name].to_numpy() for name in SWEEP_COUNTS]
        after = answer.failure.impact.after
        return [after.leader, *(after.flags(name) for name in DIFFERING)]

    @property
    def differences(self) -> pa.Table:
        """Partitions or scenarios that end differently: for each a row per answer."""
        rows = np.flatnonzero(self.differing_rows)
        if self.scenarios is not None:
            return self._stacked(
                COMPARED_SCENARIOS, rows, [answer.counts for answer in self.answers]
            )
        tables = []
        for answer in self.answers:
            assert answer.failure is not None, "an answer is about a failure or about a sweep"
            tables.append(answer.failure.impact.partitions)
        at = np.flatnonzero(np.isin(tables[0]["partition_row"].to_numpy(), rows))
        return self._stacked(COMPARED_PARTITIONS, at, tables)

    def _stacked(self, result: ResultTable, at: Any, tables: Iterable[pa.Table]) -> pa.Table:
        """Some rows of each answer's table, those of one partition or scenario together."""
        parts = [
            result.table({
                "answer": pa.array([answer.name] * at.size, pa.string()),
                **columns_of(table.select(result.schema.names[1:]).take(pa.array(at))),
            })
            for answer, table in zip(self.answers, tables, strict=True)
        ]
        order = np.arange(at.size * len(parts)).reshape(len(parts), at.size).T.ravel()
        return pa.concat_tables(parts).take(pa.array(order))

    def _summary(self) -> Summary:
        what = "partitions" if self.scenarios is None else "scenarios"
        return "Comparison", {
            "answers": ", ".join(answer.name for answer in self.answers),
            f"{what} that differ": int(self.differing_rows.sum()),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def compare(
    state: ClusterState,
    broker_ids: Iterable[int] = (),
    *,
    settings: Iterable[Mapping[str, object]],
    scenarios: Scenarios | None = None,
    controlled: bool = False,
    then: Iterable[tuple[str, Iterable[int]]] = (),
    order: Sequence[int] | None = None,
    threads: int = 1,
) -> Comparison:
    """Answer one question for the cluster as it is, and once more for each of some settings.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    broker_ids : iterable of int
        Brokers that fail, as in `kfast.fail_brokers`; or `scenarios`.
    settings : iterable of mapping
        What differs in each further answer, by names of `COMPARED_SETTINGS`: `controller` (a name
        such as "zk-3.9" or "kraft-4.1"), `elr` (True, False, "on" or "off"), `order` (broker ids),
        `min.insync.replicas` and `unclean.leader.election.enable` (of every topic).
    scenarios : Scenarios, optional
        Sweep over these instead.
    controlled, then, order
        Those of `kfast.fail_brokers`.
    threads : int
        Threads to use; results do not depend on it.

    Returns
    -------
    Comparison

    Raises
    ------
    ArgumentError
        Neither or both of brokers and scenarios are given, a setting is unknown or has a wrong
        value, or an argument is one that `fail_brokers` refuses.
    """
    check_instance("state", state, ClusterState)
    ids = list(check_items("broker_ids", broker_ids))
    if bool(ids) == (scenarios is not None):
        raise ArgumentError("compare: give broker_ids or scenarios, one of them")
    steps = list(check_items("then", then))
    compared = [{}, *(_check_settings(one) for one in check_items("settings", settings))]
    has_order = order is not None or any("order" in one for one in compared)
    if scenarios is not None and (controlled or steps or has_order):
        raise ArgumentError("compare: controlled, then and order go with brokers, not with a sweep")
    answers = []
    for one in compared:
        name = ", ".join(f"{key}={_text(value)}" for key, value in one.items()) or AS_IT_IS
        answer = ComparedAnswer(name, one, _apply(state, one))
        if scenarios is not None:
            plan = prepare_sweep(answer.state, threads=threads)
            answer = replace(answer, counts=sweep(plan, scenarios, threads=threads))
        else:
            answer = replace(answer, failure=fail_brokers(
                answer.state, ids, controlled=controlled, then=steps, threads=threads,
                order=one.get("order", order),
            ))
        answers.append(answer)
    return Comparison(tuple(answers), scenarios)


def _check_settings(settings: object) -> Mapping[str, Any]:
    """The settings of one answer, their names known, values of topics read."""
    if not isinstance(settings, Mapping) or not settings:
        raise ArgumentError(
            f"settings: {shown(settings)} is not a mapping such as {{'elr': 'off'}}"
        )
    checked: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in COMPARED_SETTINGS:
            raise ArgumentError(
                f"setting {shown(name)} is unknown; these can be compared: "
                f"{', '.join(COMPARED_SETTINGS)}"
            )
        checked[name] = parse_elr(value) if name == "elr" else value
    return checked


def parse_elr(value: object) -> bool:
    """Whether eligible leader replicas are on: True, False, "on" or "off"."""
    if isinstance(value, bool):
        return value
    if value not in ("on", "off"):
        raise ArgumentError(f"elr is {shown(value)}; right is on or off")
    return value == "on"


def _apply(state: ClusterState, settings: Mapping[str, Any]) -> ClusterState:
    """The cluster with other settings: a copy where there are any."""
    if settings.keys() & {"controller", "elr"}:
        state = with_controller(
            state, settings.get("controller", state.controller), elr=settings.get("elr")
        )
    topics = [(".*", name, settings[name]) for name in TOPIC_SETTINGS if name in settings]
    return override_settings(state, topics) if topics else state


def _text(value: object) -> str:
    """A setting's value in an answer's name."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
