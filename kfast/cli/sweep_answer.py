"""What `kfast sweep` answers: counts over all scenarios, and why the worst are the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console

from kfast.cli.documents import checked, head
from kfast.cli.drawing import Document, cell, draw_head, draw_table, new_table, number
from kfast.cli.options import Condition
from kfast.impact import Failure, fail_brokers
from kfast.scenarios import Scenarios
from kfast.state import ClusterState
from kfast.sweeps import SWEEP_COUNTS, sweep_schema

__all__ = ["Worst", "draw_sweep", "sweep_document"]

SORTED_BY = ("offline", "no_live_replica", "under_min_isr", "unclean", "leaders_moved")
"""The worst scenario has the most of the first; among equals, of the second, and so on."""

REASONS = ("newly_offline", "newly_under_min_isr")
"""What makes a scenario bad, the worst first."""

MOST_NAMED = 5
"""Topics and partitions that a reason names."""

Values = npt.NDArray[np.int64]


class Worst:
    """Takes the rows of a sweep batch by batch; keeps the worst, and counts over all.

    Parameters
    ----------
    top : int
        How many scenarios to keep.
    """

    def __init__(self, top: int) -> None:
        self.top = top
        self.n = 0
        self.next_number = 0
        self.baseline: dict[str, int] | None = None
        self.rows: pa.Table = sweep_schema().empty_table()
        self._most = dict.fromkeys(SWEEP_COUNTS, 0)
        self._where = dict.fromkeys(SWEEP_COUNTS, -1)
        self._total = dict.fromkeys(SWEEP_COUNTS, 0)

    @property
    def summary(self) -> dict[str, int]:
        """The largest value of each count over all scenarios but the baseline."""
        return dict(self._most)

    @property
    def counts(self) -> list[dict[str, Any]]:
        """Each count: in the baseline, on average, at most, and where."""
        n = max(self.n - (self.baseline is not None), 1)
        return [
            {
                "count": name,
                "baseline": None if self.baseline is None else self.baseline[name],
                "mean": round(self._total[name] / n, 3),
                "most": self._most[name],
                "in_scenario": None if self._where[name] < 0 else self._where[name],
            }
            for name in SWEEP_COUNTS
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        self.n += batch.num_rows
        numbers: Values = batch["scenario"].to_numpy()
        self.next_number = int(numbers[-1]) + 1
        if numbers[0] == 0:
            self.baseline = {name: batch[name][0].as_py() for name in SWEEP_COUNTS}
            batch, numbers = batch.slice(1), numbers[1:]
        if not batch.num_rows:
            return
        for name in SWEEP_COUNTS:
            values: Values = batch[name].to_numpy()
            self._total[name] += int(values.sum())
            at = int(values.argmax())
            if self._where[name] < 0 or values[at] > self._most[name]:
                self._most[name], self._where[name] = int(values[at]), int(numbers[at])
        both = pa.concat_tables([self.rows, pa.Table.from_batches([batch])])
        order = np.lexsort(
            [both["scenario"].to_numpy(), *(-both[c].to_numpy() for c in reversed(SORTED_BY))]
        )
        self.rows = both.take(pa.array(order[: self.top]))

    def table(self, scenarios: Scenarios) -> pa.Table:
        """Return the worst scenarios, with their brokers."""
        ids = [scenarios.brokers(n) for n in self.rows["scenario"].to_pylist()]
        return self.rows.add_column(1, "brokers", pa.array(ids, pa.list_(pa.int32())))


def sweep_document(
    source: str,
    state: ClusterState,
    title: str,
    scenarios: Scenarios,
    worst: Worst,
    output: Path | None,
    conditions: Sequence[Condition],
) -> dict[str, Any]:
    """What `kfast sweep` answers."""
    rows = worst.table(scenarios).to_pylist()
    for row in rows:
        row["racks"] = _whole_racks(state, row["brokers"])
        row["reasons"] = _reasons(state, row)
    return {
        **head("sweep", source, state),
        "scenarios": {"what": title, "of": len(scenarios), "counted": worst.n},
        "rows": None if output is None else str(output),
        "counts": worst.counts,
        "summary": worst.summary,
        "worst": rows,
        "fail_on": checked(conditions, worst.summary),
    }


def _whole_racks(state: ClusterState, brokers: Sequence[int]) -> list[str]:
    """Racks all of whose registered brokers are among some brokers."""
    members: dict[str, set[int]] = {}
    registered = state.registered.tolist()
    racks = state.rack.to_pylist()
    for broker, rack, up in zip(state.broker_id.tolist(), racks, registered, strict=True):
        if rack is not None and up:
            members.setdefault(rack, set()).add(broker)
    return sorted(rack for rack, ids in members.items() if ids <= set(brokers))


def _reasons(state: ClusterState, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Which topics and partitions go offline, or below their min ISR, in one scenario."""
    if not row["brokers"] or not (row["offline"] or row["under_min_isr"]):
        return []
    failure = fail_brokers(state, row["brokers"], journal="off")
    return [reason for name in REASONS if (reason := _reason(failure, name))["partitions"]]


def _reason(failure: Failure, name: str) -> dict[str, Any]:
    """How many partitions, of which topics (the most affected first), and the first of them."""
    state = failure.state
    rows = np.flatnonzero(failure.impact.newly(name.removeprefix("newly_")))
    topics, sizes = np.unique(state.topic_row[rows], return_counts=True)
    order = np.argsort(-sizes, kind="stable")[:MOST_NAMED]
    named = [state.topic[int(topic)].as_py() for topic in topics[order]]
    first = [
        f"{state.topic[int(state.topic_row[at])].as_py()}-{state.partition[at]}"
        for at in rows[:MOST_NAMED]
    ]
    return {
        "reason": name, "partitions": int(rows.size), "topics": int(topics.size),
        "most_affected": [
            {"topic": topic, "partitions": int(size)}
            for topic, size in zip(named, sizes[order], strict=True)
        ],
        "first": first,
    }


def draw_sweep(console: Console, document: Document) -> None:
    """Draw what `kfast sweep` answers: the worst scenarios lead."""
    said = document["scenarios"]
    draw_head(console, document, f"{said['what']}: {said['counted']} of {said['of']} scenarios.")
    if document["rows"]:
        console.print(f"One row per scenario: {document['rows']}", markup=False)
    worst = document["worst"]
    columns = ("scenario", "brokers", "racks", *SORTED_BY, "fullest_broker_leaders")
    table = new_table(f"Worst scenarios ({len(worst)})", columns, left=3)
    for row in worst:
        cells = (cell(row[name]) for name in columns[:3])
        table.add_row(*cells, *(number(name, row[name]) for name in columns[3:]))
    draw_table(console, table)
    for row in worst:
        for reason in row["reasons"]:
            console.print(_sentence(row, reason), markup=False)
    counts = new_table(
        "All scenarios but the baseline", ("count", "baseline", "mean", "most", "in_scenario"), 1
    )
    for row in document["counts"]:
        counts.add_row(
            row["count"], cell(row["baseline"]), str(row["mean"]),
            number(row["count"], row["most"]), cell(row["in_scenario"]),
        )
    draw_table(console, counts)


def _sentence(row: Mapping[str, Any], reason: Mapping[str, Any]) -> str:
    """Why a scenario is bad, in one line."""
    what = reason["reason"].replace("_", " ")
    topics = ", ".join(f"{t['topic']} ({t['partitions']})" for t in reason["most_affected"])
    more = ", ..." if reason["topics"] > len(reason["most_affected"]) else ""
    some = ", ".join(reason["first"])
    rest = ", ..." if reason["partitions"] > len(reason["first"]) else ""
    return (
        f"Scenario {row['scenario']}: {reason['partitions']} partitions {what}, of "
        f"{reason['topics']} topics: {topics}{more}; such as {some}{rest}"
    )
