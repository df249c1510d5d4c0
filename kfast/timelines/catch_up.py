"""What brokers lack after a restart, and how long it takes to copy that.

What a broker lacks grows with the time in which it is down, and is copied at the rate that is free:
so the time to catch up is a share of the time down, made once for each batch.

Source: docs/timeline.md, section "Rolling restarts"; docs/capacity.md, section "Restoration".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import check_instance, shown
from kfast.capacity import CapacityPlan, Restoration, restoration
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.sweeps.scenario_makers import scenarios_from_table
from kfast.timelines.question import Question

__all__ = ["CatchUp", "catch_up"]

Ints = npt.NDArray[np.int64]
MILLION = 1_000_000


@dataclass(frozen=True)
class CatchUp:
    """How one batch catches up.

    Attributes
    ----------
    millionths : int
        Microseconds to catch up for each second down, rounded up.
    bytes_per_s : float
        What is lacking for each second down.
    """

    millionths: int
    bytes_per_s: float

    def after(self, down: Ints) -> Ints:
        """(S,) microseconds to catch up after so many down."""
        # Whole seconds and the rest apart, so that no product is too large.
        seconds, rest = np.divmod(down, MILLION)
        needed: Ints = seconds * self.millionths + -(-rest * self.millionths // MILLION)
        return needed

    def bytes_after(self, down: int) -> int:
        """Bytes that are lacking after so many microseconds down."""
        return round(self.bytes_per_s * down / MILLION)


def catch_up(
    state: ClusterState, batches: Sequence[Sequence[int]], capacity: CapacityPlan | None,
    restore: Restoration | None, question: Question,
) -> list[CatchUp] | None:
    """How each batch catches up; None without loads.

    Raises
    ------
    ArgumentError
        Capacities are of another cluster, the mode is not return, or a batch never catches up.
    """
    if capacity is None:
        if restore is not None:
            raise ArgumentError("restore goes with capacity: what brokers lack")
        return None
    check_instance("capacity", capacity, CapacityPlan)
    cluster = capacity.cluster
    assert cluster is not None, "only a plan that was pickled has none"
    if cluster.n_partitions != state.n_partitions or not np.array_equal(
        cluster.broker_id, state.broker_id
    ):
        raise ArgumentError("the capacities are of another cluster: prepare them for this one")
    settings = restore or Restoration()
    check_instance("restore", settings, Restoration)
    if settings.mode != "return":
        raise ArgumentError(f"restore: mode is {shown(settings.mode)}; right is return")
    params = question.params
    down = ceil(sum(params[name].value for name in ("stop", "boot", "recover")) / MILLION)
    settings = replace(settings, down_for_seconds=max(down, 1))
    numbers = [number for number, ids in enumerate(batches, 1) for _ in ids]
    scenarios = scenarios_from_table(state, pa.table({
        "scenario": numbers, "broker": [one for ids in batches for one in ids],
    }))
    rows = restoration(capacity, scenarios, settings).to_pylist()
    return [_share(row, settings.down_for_seconds) for row in rows[1:]]


def _share(row: dict[str, Any], down: int) -> CatchUp:
    """Of the row of a batch that is down for so many seconds."""
    fair, bound = row["restore_seconds_fair"], row["restore_seconds_bound"]
    seconds = bound if fair is None else fair
    if seconds is None:
        needed = row["throttle_needed"]
        right = "a faster network" if needed is None else f"a throttle of {needed} B/s or more"
        raise ArgumentError(
            f"batch {row['scenario']}: brokers {row['stuck_brokers']} never catch up; right is "
            f"{right}"
        )
    return CatchUp(ceil(seconds / down * MILLION), row["restore_bytes"] / down)
