"""The worst of a sweep, and the alerts that hold, found while the rows of the sweep go by."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kfast.schema import PIPELINE_ALERTS, PIPELINE_SUMMARIES
from kfast.spark.questions import Question
from kfast.sweeps import SWEEP_COUNTS

__all__ = ["ALERTS", "SUMMARY", "Alert", "Sweep", "Tally", "say"]

SUMMARY, ALERTS = PIPELINE_SUMMARIES.schema, PIPELINE_ALERTS.schema
"""Of each sweep and count the worst scenario; of each condition that holds somewhere."""

_SMALLER = (operator.lt, operator.le)


@dataclass(frozen=True)
class Alert:
    """A condition on a count of a sweep, such as offline>0."""

    text: str
    metric: str
    compare: Callable[[Any, float], Any]
    limit: float


@dataclass(frozen=True)
class Sweep:
    """A sweep that is made of every snapshot."""

    name: str
    question: Question
    alerts: tuple[Alert, ...] = ()


class Tally:
    """The worst of a sweep, found while its rows go by."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.baseline: dict[str, int] = {}
        self.found: dict[str, dict[str, Any]] = {}

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass the batches on."""
        for batch in batches:
            for name in SWEEP_COUNTS:
                values = batch.column(name).to_numpy()
                if values.size:
                    self.baseline.setdefault(name, int(values[0]))
                    self._see(name, batch, values, values, 0)
            for alert in self.sweep.alerts:
                values = batch.column(alert.metric).to_numpy()
                holds = alert.compare(values, alert.limit)
                if holds.any():
                    sign = -1 if alert.compare in _SMALLER else 1
                    lowest = np.iinfo(np.int64).min
                    rank = np.where(holds, sign * values, lowest)
                    self._see(f"if {alert.text}", batch, values, rank, int(holds.sum()))
            yield batch

    def _see(
        self, key: str, batch: pa.RecordBatch, values: np.ndarray, rank: np.ndarray, n: int
    ) -> None:
        at = int(rank.argmax())
        known = self.found.get(key)
        n += 0 if known is None else known["scenarios"]
        if known is None or int(rank[at]) > known["rank"]:
            known = {
                "rank": int(rank[at]), "worst": int(values[at]),
                "worst_scenario": batch.column("scenario")[at].as_py(),
                "worst_brokers": sorted(batch.column("brokers")[at].as_py()),
            }
        self.found[key] = {**known, "scenarios": n}

    def summary(self) -> list[dict[str, Any]]:
        """Rows of `SUMMARY`."""
        return [self._said(name, SUMMARY) | {"metric": name, "baseline": n}
                for name, n in self.baseline.items()]

    def alerts(self) -> list[dict[str, Any]]:
        """Rows of `ALERTS`."""
        return [
            self._said(f"if {alert.text}", ALERTS) | {"condition": alert.text}
            for alert in self.sweep.alerts
            if f"if {alert.text}" in self.found
        ]

    def _said(self, key: str, schema: pa.Schema) -> dict[str, Any]:
        found: Mapping[str, Any] = self.found[key]
        return {k: v for k, v in found.items() if k in schema.names} | {"sweep": self.sweep.name}


def say(alert: Mapping[str, Any]) -> str:
    """An alert in words."""
    down = ",".join(map(str, alert["worst_brokers"]))
    when = f"when {down} fail{'' if ',' in down else 's'}" if down else "as it is"
    n = alert["scenarios"]
    return (
        f"{alert['sweep']}: {alert['condition']} in {n} scenario{'' if n == 1 else 's'};"
        f" the worst is {alert['worst']}, {when}"
    )
