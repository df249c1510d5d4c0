"""The failures of a capacity sweep that leave the least headroom, and the extremes over all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.schema import CAPACITY_SWEEP
from kfast.sweeps.scenarios import Scenarios

__all__ = ["SWEEP_METRICS", "WorstFailures"]

SWEEP_METRICS = {
    name: "lowest of any failure" if name == "headroom" else "highest of any failure"
    for name in CAPACITY_SWEEP.schema.names
    if name not in ("scenario", "brokers_down", "binding") and not name.endswith("_broker")
}
"""What conditions may be about: extremes over all failures, without the baseline."""

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

    def __init__(self, top: int) -> None:
        self.top = top
        self.n_scenarios = self.n_failures = self.n_over = 0
        self.baseline: dict[str, Any] | None = None
        self.rows: pa.Table = CAPACITY_SWEEP.schema.empty_table()
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
        rows = self.rows.slice(0, self.top)
        ids = [scenarios.brokers(n) for n in rows["scenario"].to_pylist()]
        return rows.add_column(1, "brokers", pa.array(ids, pa.list_(pa.int32())))
