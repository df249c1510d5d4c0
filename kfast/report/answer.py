"""Answers: the document that JSON says, the text that is drawn from it, and the tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from rich.console import Console

from kfast import __version__
from kfast.analysis.impact import Impact
from kfast.io.describe.notes import PARTIAL
from kfast.report import LISTS
from kfast.report.drawing import (
    draw_controller,
    draw_foot,
    draw_lists,
    draw_start,
    draw_verdict,
)
from kfast.state import ClusterState
from kfast.state.controller_change import REASON
from kfast.state.from_tables import LEADERS_ASSUMED

__all__ = [
    "Answer", "Document", "controller_document", "getters", "head", "listed", "partition_lists",
    "start_document",
]

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer in all the forms that it may be asked for.

    Parameters
    ----------
    document : dict
        What JSON says; the text is drawn from it too.
    draw_body : callable
        Draws what stands between the verdict and the foot.
    tables : mapping of str to callable
        Makes each table of the answer, the main one first.
    verbose : bool
        The text has the requests in full.
    page : callable, optional
        Makes the answer as HTML.
    """

    document: Document
    draw_body: Callable[[Console, Document], None]
    tables: Mapping[str, Callable[[], pa.Table]]
    verbose: bool = False
    page: Callable[[], bytes] | None = None

    def __post_init__(self) -> None:
        """Say after the verdict what it cannot know."""
        old = self.document.get("old", {"assumptions": ()})
        lines = dict.fromkeys((*self.document.get("assumptions", ()), *old["assumptions"]))
        self.document["verdict"] += reservations([*lines])

    def draw(self, console: Console) -> None:
        """Write the text to a console: who answers, the verdict, and what explains it."""
        document = self.document
        draw_controller(console, document)
        draw_verdict(console, document)
        draw_lists(console, document)
        self.draw_body(console, document)
        if "cluster" in document:
            draw_foot(console, document)
        if "start" in document:
            draw_start(console, document, self.verbose)

    @property
    def summaries(self) -> dict[str, Mapping[str, float]]:
        """What conditions are about: the summary, or that of each step or answer by its name.

        A metric that JSON lists as endless is higher than any number.
        """
        if "answers" in self.document:
            return {f", {one['answer']}": one["summary"] for one in self.document["answers"]}
        steps = self.document.get("steps", ())
        if len(steps) < 2:
            endless = dict.fromkeys(self.document.get("endless", ()), math.inf)
            return {"": {**self.document["summary"], **endless}}
        return {f" after step {at}": step["summary"] for at, step in enumerate(steps, 1)}


def head(command: str, source: str, state: ClusterState) -> Document:
    """How every answer on a cluster begins: with the controller that was simulated."""
    n_replicas = state.records["n_replicas"]
    factors = np.bincount(n_replicas)
    return {
        "controller": controller_document(state),
        "kfast": __version__,
        "command": command,
        "verdict": [],
        "input": source,
        "assumptions": [line for line in state.assumptions if not line.startswith(REASON)],
        "notes": [],
        "provenance": _provenance(state),
        "cluster": {
            "brokers": state.n_brokers,
            "registered": int(state.up.sum()),
            "topics": state.n_topics,
            "partitions": state.n_partitions,
            "replicas": int(n_replicas.sum(dtype=np.int64)),
            "replication_factors": {
                str(factor): int(factors[factor]) for factor in np.flatnonzero(factors).tolist()
            },
        },
    }


def _provenance(state: ClusterState) -> list[Document]:
    """Which file gave what; empty for a cluster that was not read."""
    rows = [] if state.provenance is None else state.provenance.to_pylist()
    return [
        row | {"captured": row["captured"] and f"{row['captured'].isoformat()}Z"} for row in rows
    ]


def controller_document(state: ClusterState) -> Document:
    """Which controller was simulated, and why it: read, inferred, assumed or told."""
    why = next((line for line in state.assumptions if line.startswith(REASON)), "")
    return {
        "name": state.controller,
        "elr": None if state.quorum is None else state.quorum.elr_on,
        "why": why.removeprefix(REASON) or None,
    }


def reservations(assumptions: Sequence[str]) -> list[str]:
    """What a verdict is without: partitions that were not printed, leaders that are not given."""
    lines = [
        f"{line.split(', numbers')[0]}: this answer is without them."
        for line in assumptions if PARTIAL in line
    ]
    if any(line.startswith(LEADERS_ASSUMED) for line in assumptions):
        lines.append("Leaders are not given and assumed: this answer is about who holds what.")
    return lines


def start_document(start: Impact) -> Document:
    """What the controller's start alone did."""
    return {"before": start.before.counts, "summary": start.summary}


def listed(name: str, table: pa.Table, top: int) -> Document:
    """The first rows of a table, and how many there are."""
    return {f"{name}_listed_of": table.num_rows, name: table.slice(0, top).to_pylist()}


def getters(source: object, names: Sequence[str]) -> dict[str, Callable[[], pa.Table]]:
    """Functions that make the tables which are properties of an object, by their names."""
    return {name: partial(getattr, source, name) for name in names}


def partition_lists(names: Sequence[str], partitions: Callable[[], pa.Table]) -> Document:
    """The partitions of each list by its name; the table is made only where there is a list.

    `under-min-isr` are those that have a leader, which refuses writes with acks=all.
    """
    if not names:
        return {"lists": {}}
    table = partitions()
    rows_by_list: Document = {}
    offline = table["offline"].to_numpy(zero_copy_only=False)
    for name in names:
        listed_rows = table[LISTS[name][1]].to_numpy(zero_copy_only=False)
        if name == "under-min-isr":
            listed_rows = listed_rows & ~offline
        columns = ["topic", "partition", "leader", "isr", "replicas", "min_isr"]
        rows_by_list[name] = table.select(columns).filter(pa.array(listed_rows)).to_pylist()
    return {"lists": rows_by_list}
