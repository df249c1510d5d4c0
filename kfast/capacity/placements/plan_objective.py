"""What makes one placement better than another: a vector of integers, the first counts most.

All elements are exact, so two placements compare in one way on every machine.

Source: docs/capacity.md, section "Is a plan good?"; Cruise Control, AnalyzerConfig.java, for the
margin of 0.10 and the gap of 2 to 40 replicas of a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np
import pyarrow as pa

from kfast.capacity.failures.broker_totals import TOTALS, Integers
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.placements.placement_rules import BrokerLimits
from kfast.state import ClusterState

__all__ = [
    "OBJECTIVE", "above_mean", "count_not_preferred", "highest_share", "topic_excess", "topic_gaps",
    "topic_replicas",
]

OBJECTIVE: Mapping[str, str] = {
    "hard_rules": "broken hard rules: missing racks, replicas on brokers that are down, limits, and"
    " what entries of the plan break",
    "worst_share": "millionths of its limit that the fullest broker uses, rounded up, without a "
    "failure or after any",
    "above_mean": "squares of thousandths of its capacity that a broker uses above 1.1 of the mean,"
    " summed up over brokers and resources",
    "not_preferred": "leaders that are not the first replica",
    "topic_excess": "replicas of a topic above what a broker should have of it: the mean, and twice"
    " the mean more, but at least 2 and at most 40",
    "bytes_moved": "bytes that are copied",
    "partitions": "entries of the plan",
}
"""Elements of the vector, in order, and the unit of each."""

MILLION = 1_000_000
BASIS_POINTS = 10_000
BALANCED = 1100
"""Thousandths of the mean share that a broker may use and count as balanced."""

LEAST_GAP, MOST_GAP, GAP_MEANS = 2, 40, 2
"""Replicas of a topic that a broker may have above the mean: so many means, within bounds."""


def highest_share(
    batches: Iterable[pa.RecordBatch], basis_points: Mapping[str, int], limits: BrokerLimits,
    totals: Integers,
) -> int:
    """Millionths of a limit that the fullest broker uses in any row of a capacity sweep.

    Parameters
    ----------
    batches : iterable of pa.RecordBatch
        Of `schema.CAPACITY_SWEEP`.
    basis_points : mapping of str to int
        The limit of each resource in these rows.
    limits : BrokerLimits
    totals : (B, 6) int64
        What brokers carry without a failure; disks stay as they are in a failure.
    """
    capacities = limits.capacities()
    row_of = {broker: row for row, broker in enumerate(limits.plan.broker_id.tolist())}
    disk = totals[:, TOTALS.index("disk_bytes")].tolist()
    highest = Fraction(0)
    for batch in batches:
        for name in RESOURCES:
            pairs = set(zip(batch[f"{name}_broker"].to_pylist(), batch[f"{name}_max"].to_pylist(),
                            strict=True))
            for broker, share in pairs - {(None, None)}:
                capacity = capacities[name][row_of[broker]]
                assert capacity is not None, "its share is known"
                # A share is the nearest float64 of a quotient whose dividend is below 2^52.
                used = disk[row_of[broker]] if name == "disk" else round(Fraction(share) * capacity)
                highest = max(highest, Fraction(used * BASIS_POINTS, capacity * basis_points[name]))
    return -int(-highest * MILLION // 1)


def above_mean(limits: BrokerLimits, totals: Integers) -> int:
    """How unevenly brokers are used: squares of what is far above the mean share.

    The mean share of a resource is what all brokers with a capacity use, over all those capacities.
    Shares are thousandths, rounded down.
    """
    used, capacities = limits.used(totals), limits.capacities()
    squares = 0
    for name in RESOURCES:
        pairs = [
            (amount, most) for amount, most in zip(used[name], capacities[name], strict=True)
            if amount is not None and most is not None
        ]
        capacity = sum(most for _, most in pairs)
        balanced = sum(amount for amount, _ in pairs) * BALANCED // capacity if capacity else 0
        squares += sum(max(1000 * amount // most - balanced, 0) ** 2 for amount, most in pairs)
    return squares


def count_not_preferred(state: ClusterState) -> int:
    """Partitions with a leader that is not the first replica."""
    leader, first = state.records["leader"], state.replicas[:, 0].astype(np.int64)
    assigned = state.records["n_replicas"] > 0
    return int(np.count_nonzero((leader >= 0) & assigned & (leader != first)))


def topic_excess(state: ClusterState) -> int:
    """Replicas that brokers have of a topic above what they should have."""
    n_up = int(np.count_nonzero(state.up))
    if not n_up:
        return 0
    topic, _, counts = topic_replicas(state)
    of_topic, gap = topic_gaps(state, n_up)
    return int(np.maximum(counts - ((of_topic + gap) // n_up)[topic], 0).sum())


def topic_replicas(state: ClusterState) -> tuple[Integers, Integers, Integers]:
    """Topic rows, broker rows, and how many replicas of the one the other has, where it has any."""
    assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, None]
    topic = np.broadcast_to(state.topic_row.astype(np.int64)[:, None], assigned.shape)[assigned]
    key = topic * state.n_brokers + state.replicas[assigned].astype(np.int64)
    held, counts = np.unique(key, return_counts=True)
    return held // state.n_brokers, held % state.n_brokers, counts


def topic_gaps(state: ClusterState, n_up: int) -> tuple[Integers, Integers]:
    """Of each topic the replicas, and how far a broker may be from their mean, in n_up-ths."""
    n = state.records["n_replicas"].astype(np.int64)
    of_topic = np.bincount(state.topic_row, n, minlength=state.n_topics).astype(np.int64)
    return of_topic, np.clip(GAP_MEANS * of_topic, LEAST_GAP * n_up, MOST_GAP * n_up)
