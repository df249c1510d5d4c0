"""The worst scenarios of a sweep, and what makes them so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.broker_failure import Failure, fail_brokers
from kfast.controllers import Profile
from kfast.state import ClusterState
from kfast.sweeps import SWEEP_COUNTS, sweep_schema
from kfast.sweeps.scenarios import Scenarios

__all__ = ["SORTED_BY", "WorstScenarios", "scenario_reasons"]

SORTED_BY = ("offline", "no_live_replica", "under_min_isr", "unclean", "leaders_moved")
"""The worst scenario has the most of the first; among equals, of the second, and so on."""

REASONS = ("newly_offline", "newly_under_min_isr")
"""What makes a scenario bad, the worst first."""

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
        self.n_worse = dict.fromkeys(("offline", "under_min_isr", "unclean"), 0)
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


def scenario_reasons(
    state: ClusterState, broker_ids: Sequence[int], profile: str | Profile | None = None
) -> list[dict[str, Any]]:
    """Which topics and partitions go offline, or fall under min ISR, in one scenario.

    Returns
    -------
    list of dict
        For `newly_offline` and `newly_under_min_isr`, where it is true of any partition: reason,
        partitions, topics (how many), most_affected (topics, with how many partitions of each) and
        first (partitions by name).
    """
    if not broker_ids:
        return []
    failure = fail_brokers(state, broker_ids, journal="off", profile=profile)
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
