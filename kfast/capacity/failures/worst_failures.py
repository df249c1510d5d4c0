"""The failures of a capacity sweep that leave the least headroom or take longest to restore."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.schema import CAPACITY_SWEEP, RESTORATION
from kfast.sweeps.scenarios import Scenarios

__all__ = ["RESTORATION_METRICS", "SWEEP_METRICS", "SlowestRestorations", "WorstFailures"]

SWEEP_METRICS = {
    name: "lowest of any failure" if name == "headroom" else "highest of any failure"
    for name in CAPACITY_SWEEP.schema.names
    if name not in ("scenario", "brokers_down", "binding") and not name.endswith("_broker")
}
"""What conditions may be about: extremes over all failures, without the baseline."""

RESTORATION_METRICS = {
    name: "highest of any failure, with --restore"
    for name in RESTORATION.schema.names
    if name not in CAPACITY_SWEEP.schema.names and name != "throttle_needed"
}
"""The same of restorations; a time is higher than any number where one never ends."""

ORDER = (
    ("headroom", "ascending"), ("bytes_in_leaderless", "descending"),
    ("bytes_in_refused", "descending"), ("bytes_in_single", "descending"),
    ("scenario", "ascending"),
)
"""The worst failure leaves the least headroom; among equals, the most bytes without a leader."""


class WorstFailures:
    """Takes the rows of a capacity sweep batch by batch; keeps the worst, and the extremes of all.

    Parameters
    ----------
    top : int
        How many failures to keep; the worst one is always kept.
    schema : pa.Schema
        Of the rows.

    Attributes
    ----------
    n_scenarios, n_failures : int
        With the baseline, and without.
    n_over : int
        Failures that leave a broker over a limit.
    baseline : dict or None
        The row without a failure; None until it comes.
    rows : pa.Table
        The worst failures, in `ORDER`.
    summary : dict
        Of each of `SWEEP_METRICS` the extreme over all failures; None where no broker has it.
    """

    def __init__(self, top: int, schema: pa.Schema = CAPACITY_SWEEP.schema) -> None:
        self.top = top
        self.n_scenarios = self.n_failures = self.n_over = 0
        self.baseline: dict[str, Any] | None = None
        self.rows: pa.Table = schema.empty_table()
        self.summary: dict[str, int | float | None] = dict.fromkeys(SWEEP_METRICS)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        self.n_scenarios += batch.num_rows
        if batch.num_rows and batch["scenario"][0].as_py() == 0:
            self.baseline = batch.slice(0, 1).to_pylist()[0]
            batch = batch.slice(1)
        if not batch.num_rows:
            return
        self.n_failures += batch.num_rows
        self.n_over += int(np.count_nonzero(batch["over_limit"].to_numpy()))
        for name, value in self.summary.items():
            lowest = name == "headroom"
            extreme = (pc.min if lowest else pc.max)(batch[name]).as_py()
            if value is None or (extreme is not None and (extreme < value) == lowest):
                self.summary[name] = extreme
        both = pa.concat_tables([self.rows, pa.Table.from_batches([batch])])
        order = pc.sort_indices(both, sort_keys=ORDER)
        self.rows = both.take(order[: max(self.top, 1)])

    def table(self, scenarios: Scenarios) -> pa.Table:
        """Return the worst failures, with their brokers."""
        return _with_brokers(self.rows.slice(0, self.top), scenarios)


class SlowestRestorations:
    """Takes the rows of restorations batch by batch; keeps those that take longest.

    Parameters
    ----------
    top : int
        How many failures to keep; the one that takes longest is always kept.

    Attributes
    ----------
    n_failures : int
        Without the baseline.
    n_endless, n_hopeless : int
        Failures whose restoration never ends, and those of them that no throttle would let end.
    stuck_brokers : set of int
        Ids of brokers that are stuck after any failure.
    throttle_needed : int
        The smallest throttle that is enough for the others of these; 0 where there is none.
    n_over : int
        Failures after which brokers are over a limit once replicas are made elsewhere.
    rows : pa.Table
        Those that never end first, then by the bound.
    summary : dict
        Of each of `RESTORATION_METRICS` the highest of all failures; None where nothing tells it,
        and of a time where a restoration never ends.
    """

    def __init__(self, top: int) -> None:
        self.top = top
        self.n_failures = self.n_endless = self.n_hopeless = self.n_over = 0
        self.stuck_brokers: set[int] = set()
        self.throttle_needed = 0
        self.rows: pa.Table = RESTORATION.schema.empty_table()
        self.summary: dict[str, int | float | None] = dict.fromkeys(RESTORATION_METRICS)

    @property
    def endless(self) -> list[str]:
        """Metrics that are higher than any number."""
        return [name for name in RESTORATION_METRICS
                if self.n_endless and name.startswith("restore_seconds_")]

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        if batch.num_rows and batch["scenario"][0].as_py() == 0:
            batch = batch.slice(1)
        if not batch.num_rows:
            return
        self.n_failures += batch.num_rows
        stuck = pc.list_value_length(batch["stuck_brokers"])
        needed = batch["throttle_needed"].filter(pc.greater(stuck, 0))
        self.n_endless += len(needed)
        self.n_hopeless += needed.null_count
        self.throttle_needed = max(self.throttle_needed, pc.max(needed).as_py() or 0)
        self.stuck_brokers.update(pc.list_flatten(batch["stuck_brokers"]).unique().to_pylist())
        self.n_over += pc.sum(pc.greater(batch["over_limit_restored"], 0)).as_py() or 0
        for name, value in self.summary.items():
            highest = pc.max(stuck if name == "stuck_brokers" else batch[name]).as_py()
            if value is None or (highest is not None and highest > value):
                self.summary[name] = highest
        for name in self.endless:
            self.summary[name] = None
        both = pa.concat_tables([self.rows, pa.Table.from_batches([batch])])
        bound = pc.fill_null(both["restore_seconds_bound"], np.inf).to_numpy()
        order = np.lexsort([both["scenario"].to_numpy(), -bound])
        self.rows = both.take(pa.array(order[: max(self.top, 1)]))

    def table(self, scenarios: Scenarios) -> pa.Table:
        """Return the failures that take longest, with their brokers."""
        return _with_brokers(self.rows, scenarios)


def _with_brokers(rows: pa.Table, scenarios: Scenarios) -> pa.Table:
    """Rows of scenarios, and which brokers fail in them."""
    ids = [scenarios.brokers(n) for n in rows["scenario"].to_pylist()]
    return rows.add_column(1, "brokers", pa.array(ids, pa.list_(pa.int32())))
