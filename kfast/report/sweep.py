"""What `kfast sweep` answers: counts over all scenarios, and why the worst are the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console

from kfast.analysis.impact import Failure, fail_brokers
from kfast.controllers import Profile
from kfast.report.answer import (
    Answer,
    Document,
    brokers_named,
    cell,
    count,
    draw_foot,
    draw_verdict,
    head,
    number,
    plural,
)
from kfast.report.tables import TextTable, plain, text_column
from kfast.state import ClusterState
from kfast.sweeps import SWEEP_COUNTS, sweep_schema
from kfast.sweeps.scenarios import Scenarios

__all__ = ["WorstScenarios", "sweep_answer"]

SORTED_BY = ("offline", "no_live_replica", "under_min_isr", "unclean", "leaders_moved")
"""The worst scenario has the most of the first; among equals, of the second, and so on."""

REASONS = {"newly_offline": "newly offline", "newly_under_min_isr": "newly under min ISR"}
"""What makes a scenario bad, the worst first, and its words."""

MOST_NAMED = 5
"""Topics and partitions that a reason names."""

Values = npt.NDArray[np.int64]


class WorstScenarios:
    """Takes the rows of a sweep batch by batch; keeps the worst, and counts over all.

    Parameters
    ----------
    top : int
        How many scenarios to keep.
    """

    def __init__(self, top: int) -> None:
        self.top = top
        self.n = 0
        self.n_failures = 0
        self.baseline: dict[str, int] | None = None
        self.rows: pa.Table = sweep_schema().empty_table()
        self.n_worse = dict.fromkeys(("offline", "under_min_isr"), 0)
        """Scenarios that have more of a count than the baseline."""
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
        return [
            {
                "count": name,
                "baseline": None if self.baseline is None else self.baseline[name],
                "mean": round(self._total[name] / max(self.n_failures, 1), 3),
                "most": self._most[name],
                "in_scenario": None if self._where[name] < 0 else self._where[name],
            }
            for name in SWEEP_COUNTS
        ]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows; the baseline, which others are compared with, comes first."""
        self.n += batch.num_rows
        numbers: Values = batch["scenario"].to_numpy()
        if numbers[0] == 0:
            self.baseline = {name: batch[name][0].as_py() for name in SWEEP_COUNTS}
            batch, numbers = batch.slice(1), numbers[1:]
        if not batch.num_rows:
            return
        assert self.baseline is not None, "the baseline is the first scenario"
        self.n_failures += batch.num_rows
        for name in SWEEP_COUNTS:
            values: Values = batch[name].to_numpy()
            self._total[name] += int(values.sum())
            at = int(values.argmax())
            if self._where[name] < 0 or values[at] > self._most[name]:
                self._most[name], self._where[name] = int(values[at]), int(numbers[at])
            if name in self.n_worse:
                self.n_worse[name] += int((values > self.baseline[name]).sum())
        both = pa.concat_tables([self.rows, pa.Table.from_batches([batch])])
        order = np.lexsort(
            [both["scenario"].to_numpy(), *(-both[c].to_numpy() for c in reversed(SORTED_BY))]
        )
        self.rows = both.take(pa.array(order[: self.top]))

    def table(self, scenarios: Scenarios) -> pa.Table:
        """Return the worst scenarios, with their brokers."""
        ids = [scenarios.brokers(n) for n in self.rows["scenario"].to_pylist()]
        return self.rows.add_column(1, "brokers", pa.array(ids, pa.list_(pa.int32())))


def sweep_answer(
    source: str, state: ClusterState, profile: Profile, title: str, scenarios: Scenarios,
    worst: WorstScenarios, rows_file: str | None,
) -> Answer:
    """The answer of `kfast sweep`."""
    racks = dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))
    rows = worst.table(scenarios).to_pylist()
    for row in rows:
        row["racks"] = sorted({racks[b] for b in row["brokers"] if racks[b] is not None})
        row["whole_racks"] = _whole_racks(state, row["brokers"])
        row["reasons"] = _reasons(state, profile, row)
    document = {
        **head("sweep", source, state, profile.title),
        "scenarios": {"what": title, "of": len(scenarios), "counted": worst.n},
        "rows": rows_file,
        "counts": worst.counts,
        "summary": worst.summary,
        "n_worse": dict(worst.n_worse),
        "worst": rows,
    }
    document["verdict"] = _verdict(document, worst.n_failures, racks)
    return Answer(document, _draw, {"worst": lambda: worst.table(scenarios)})


def _verdict(document: Document, n: int, racks: Mapping[int, str | None]) -> list[str]:
    what, n_worse = document["scenarios"]["what"], document["n_worse"]
    offline, refused = n_worse["offline"], n_worse["under_min_isr"]
    if not offline and not refused:
        none = "the one scenario takes no" if n == 1 else f"none of {n} scenarios takes any"
        return [f"{what}: {none} partition offline or under min ISR."]
    first = (
        f"{what}: {offline} of {plural(n, 'scenario')} "
        f"{'takes' if offline == 1 else 'take'} partitions offline; in {refused} some fall under "
        "min ISR, where acks=all is refused."
    )
    return [first, *(
        f"The worst is scenario {row['scenario']}, {_failing(row, racks)}: "
        f"{count(row['offline'], 'partition', 'is offline', 'are offline')}, "
        f"{row['under_min_isr']} under min ISR." for row in document["worst"][:1]
    )]


def _failing(row: Mapping[str, Any], racks: Mapping[int, str | None]) -> str:
    inside = [broker for broker in row["brokers"] if racks[broker] in row["whole_racks"]]
    others = [broker for broker in row["brokers"] if broker not in inside]
    return brokers_named(inside, row["whole_racks"], others) if row["brokers"] else "no broker"


def _whole_racks(state: ClusterState, brokers: Sequence[int]) -> list[str]:
    """Racks all of whose registered brokers are among some brokers."""
    members: dict[str, set[int]] = {}
    registered = state.registered.tolist()
    racks = state.rack.to_pylist()
    for broker, rack, up in zip(state.broker_id.tolist(), racks, registered, strict=True):
        if rack is not None and up:
            members.setdefault(rack, set()).add(broker)
    return sorted(rack for rack, ids in members.items() if ids <= set(brokers))


def _reasons(state: ClusterState, profile: Profile, row: Mapping[str, Any]) -> list[Document]:
    """Which topics and partitions go offline, or below their min ISR, in one scenario."""
    if not row["brokers"] or not (row["offline"] or row["under_min_isr"]):
        return []
    failure = fail_brokers(state, row["brokers"], journal="off", profile=profile)
    return [reason for name in REASONS if (reason := _reason(failure, name))["partitions"]]


def _reason(failure: Failure, name: str) -> Document:
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


def _draw(console: Console, document: Document) -> None:
    draw_verdict(console, document)
    worst = document["worst"]
    columns = (*SORTED_BY, "fullest_broker_leaders")
    table = TextTable(f"Worst scenarios ({len(worst)})", [
        "scenario", text_column("brokers"), *columns,
        text_column("racks"),
    ])
    for row in worst:
        table.add_row(
            str(row["scenario"]), cell(row["brokers"]),
            *(number(name, row[name]) for name in columns), cell(row["racks"]),
        )
    table.draw(console)
    for row in worst:
        for reason in row["reasons"]:
            console.print(plain(_sentence(row, reason)))
    counts = TextTable("All scenarios but the baseline", [
        text_column("count"), *("baseline", "mean", "most", "in scenario"),
    ])
    for row in document["counts"]:
        counts.add_row(
            row["count"], cell(row["baseline"]), str(row["mean"]),
            number(row["count"], row["most"]), cell(row["in_scenario"]),
        )
    counts.draw(console)
    draw_foot(console, document)
    if document["rows"]:
        console.print(plain(f"One row per scenario: {document['rows']}", "dim"))


def _sentence(row: Mapping[str, Any], reason: Mapping[str, Any]) -> str:
    """Why a scenario is bad, in one line."""
    what = REASONS[reason["reason"]]
    topics = ", ".join(f"{t['topic']} ({t['partitions']})" for t in reason["most_affected"])
    more = ", ..." if reason["topics"] > len(reason["most_affected"]) else ""
    some = ", ".join(reason["first"])
    rest = ", ..." if reason["partitions"] > len(reason["first"]) else ""
    return (
        f"Scenario {row['scenario']}: {plural(reason['partitions'], 'partition')} {what}, of "
        f"{plural(reason['topics'], 'topic')}: {topics}{more}; such as {some}{rest}"
    )
