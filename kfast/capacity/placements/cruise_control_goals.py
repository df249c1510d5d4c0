"""Which of Cruise Control's default goals a placement meets, in its order.

Brokers that are up are measured without a failure, by the thresholds of the goals. Cruise Control's
code differs in details: its aims are stricter by margins of its own.

Source: docs/capacity.md, section "In comparison with Cruise Control"; Cruise Control,
AnalyzerConfig.java, for the order of the goals and their thresholds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kfast.arguments import MAX_LONG
from kfast.capacity.failures.broker_totals import Integers
from kfast.capacity.failures.capacity_sweeps import potential_nw_out
from kfast.capacity.failures.limits import NORMAL_LIMITS
from kfast.capacity.loads.partition_loads import QUANTITIES, PartitionLoad, ShareModel
from kfast.capacity.placements.placement_rules import count_racks
from kfast.capacity.placements.plan_objective import topic_gaps, topic_replicas
from kfast.schema import PLAN_GOALS
from kfast.state import ClusterState

__all__ = ["GOALS", "BrokerUse", "goals_table"]

Range: TypeAlias = tuple[int, int | Fraction, int | Fraction]
"""What somebody has, and the least and the most that a goal allows."""

MILLION = 1_000_000
BASIS_POINTS = 10_000
REPLICAS_MAX = 10_000
TOLERANCE = Fraction(1, 10)
"""How far from the mean a broker may be, as a part of it: a balance threshold of 1.10."""

USAGE_GOALS: Mapping[str, str] = {
    "disk": "Disk", "nw_in": "NetworkInbound", "nw_out": "NetworkOutbound", "cpu": "Cpu",
}
"""Resources in the order of the goals, and how those are named."""

NEEDED_LOADS: Mapping[str, tuple[str, ...]] = {
    "nw_in": ("bytes_in",), "nw_out": ("bytes_in", "bytes_out"), "cpu": (), "disk": ("disk_bytes",),
}
"""Loads that have to be known for what brokers use of each resource."""


class Goal(NamedTuple):
    """A goal: whether it is hard, what breaks it, and what it asks for."""

    hard: bool
    unit: str
    asks: str


GOALS: Mapping[str, Goal] = {
    "RackAwareGoal": Goal(True, "partitions", "replicas in different racks"),
    "MinTopicLeadersPerBrokerGoal": Goal(True, "topics", "nothing: by default it names no topic"),
    "ReplicaCapacityGoal": Goal(True, "brokers", "at most 10 000 replicas"),
    **{
        f"{prefix}CapacityGoal": Goal(
            True, "brokers", f"{name} at most {NORMAL_LIMITS[name] // 100} %"
        )
        for name, prefix in USAGE_GOALS.items()
    },
    "ReplicaDistributionGoal": Goal(False, "brokers", "replicas within 10 % of the mean"),
    "PotentialNwOutGoal": Goal(
        False, "brokers", "nw_out at most 80 % if it leads all that it holds"
    ),
    **{
        f"{prefix}UsageDistributionGoal": Goal(
            False, "brokers", f"{name} within 10 % of the mean share"
        )
        for name, prefix in USAGE_GOALS.items()
    },
    "TopicReplicaDistributionGoal": Goal(
        False, "topics", "replicas within a gap of the mean: twice the mean, 2 to 40"
    ),
    "LeaderReplicaDistributionGoal": Goal(False, "brokers", "leaders within 10 % of the mean"),
    "LeaderBytesInDistributionGoal": Goal(
        False, "brokers", "bytes in as a leader at most 10 % above the mean"
    ),
}
"""Cruise Control's default goals, in its order."""


class Breaches(NamedTuple):
    """How many break a goal, and by how many millionths of the bound the worst does, rounded up."""

    n: int
    worst: int


@dataclass(frozen=True, eq=False)
class BrokerUse:
    """A placement, and what brokers carry and can carry in it.

    Attributes
    ----------
    state : ClusterState
        After its controller has started.
    load : PartitionLoad
    used : mapping of str to sequence of (int or None)
        By broker row what is used of each of `RESOURCES`, None where that is not known; and
        `leaders` and `replicas`.
    capacities : mapping of str to sequence of int
        Of each of `RESOURCES`; 0 where a broker has none.
    """

    state: ClusterState
    load: PartitionLoad
    used: Mapping[str, Sequence[int | None]]
    capacities: Mapping[str, Sequence[int]]

    @property
    def rows(self) -> list[int]:
        """Rows of the brokers that are up."""
        return np.flatnonzero(self.state.up).tolist()

    def breaches(self) -> dict[str, Breaches | None]:
        """Who breaks each of `GOALS`; None where that is not known, or no broker is up."""
        if not self.rows:
            return dict.fromkeys(GOALS)
        breaches_of: dict[str, Breaches | None] = {
            "RackAwareGoal": self._racks(),
            "MinTopicLeadersPerBrokerGoal": Breaches(0, 0),
            "ReplicaCapacityGoal": _breaches(
                (held, 0, REPLICAS_MAX) for held in self._counts("replicas")
            ),
            "ReplicaDistributionGoal": self._count_distribution("replicas"),
            "PotentialNwOutGoal": self._capacity(
                "nw_out", potential_nw_out(self.state, self.load).tolist()
            ),
            "TopicReplicaDistributionGoal": self._topics(),
            "LeaderReplicaDistributionGoal": self._count_distribution("leaders"),
            "LeaderBytesInDistributionGoal": self._leader_bytes_in(),
        }
        for name, prefix in USAGE_GOALS.items():
            breaches_of[f"{prefix}CapacityGoal"] = self._capacity(name, self.used[name])
            breaches_of[f"{prefix}UsageDistributionGoal"] = self._usage_distribution(name)
        return {name: breaches_of[name] for name in GOALS}

    def _is_known(self, quantities: Iterable[str]) -> bool:
        """Whether a source has each of some loads, of any topic."""
        model = self.load.share_model
        return not model.size or all(
            (model[QUANTITIES.index(name)] != ShareModel.NONE).any() for name in quantities
        )

    def _counts(self, name: str) -> list[int]:
        """Leaders or replicas of each broker that is up."""
        return [self.used[name][row] or 0 for row in self.rows]

    def _racks(self) -> Breaches:
        n = self.state.records["n_replicas"].astype(np.int64)
        missing = n - count_racks(self.state)
        at = missing > 0
        return _counted(at, -(-missing[at] * MILLION // n[at]))

    def _pairs(self, name: str, used: Sequence[int | None]) -> list[tuple[int, int]] | None:
        """Use and capacity of each broker that is up; None if any is not known."""
        pairs = [
            (amount, most) for row in self.rows
            if (amount := used[row]) is not None and (most := self.capacities[name][row])
        ]
        is_known = len(pairs) == len(self.rows) and self._is_known(NEEDED_LOADS[name])
        return pairs if is_known else None

    def _capacity(self, name: str, used: Sequence[int | None]) -> Breaches | None:
        pairs, limit = self._pairs(name, used), Fraction(NORMAL_LIMITS[name], BASIS_POINTS)
        if pairs is None:
            return None
        return _breaches((amount, 0, most * limit) for amount, most in pairs)

    def _usage_distribution(self, name: str) -> Breaches | None:
        """The mean is what all brokers use over the capacities of those that are up."""
        pairs = self._pairs(name, self.used[name])
        if pairs is None:
            return None
        total = sum(amount or 0 for amount in self.used[name])
        mean = Fraction(total, sum(most for _, most in pairs))
        least, most = mean * (1 - TOLERANCE), mean * (1 + TOLERANCE)
        return _breaches((amount, least * held, most * held) for amount, held in pairs)

    def _count_distribution(self, name: str) -> Breaches:
        """The mean is of all leaders or replicas over the brokers that are up."""
        mean = Fraction(sum(count or 0 for count in self.used[name]), len(self.rows))
        # Rounded outwards: some placement has to be within, whatever the mean is.
        least, most = floor(mean * (1 - TOLERANCE)), ceil(mean * (1 + TOLERANCE))
        return _breaches((count, least, most) for count in self._counts(name))

    def _leader_bytes_in(self) -> Breaches | None:
        if not self._is_known(("bytes_in",)):
            return None
        leader = self.state.records["leader"].astype(np.int64)
        led = np.zeros(self.state.n_brokers, np.int64)
        np.add.at(led, leader[leader >= 0], self.load.bytes_in[leader >= 0])
        most = Fraction(int(led.sum()), len(self.rows)) * (1 + TOLERANCE)
        return _breaches((int(led[row]), 0, most) for row in self.rows)

    def _topics(self) -> Breaches:
        """Amounts of a topic are multiplied by the brokers that are up, so that they are whole."""
        state, n_up = self.state, len(self.rows)
        topic, broker, counts = topic_replicas(state)
        topic, counts = topic[state.up[broker]], counts[state.up[broker]] * n_up
        most = np.zeros(state.n_topics, np.int64)
        np.maximum.at(most, topic, counts)
        least = np.full(state.n_topics, MAX_LONG)
        np.minimum.at(least, topic, counts)
        least[np.bincount(topic, minlength=state.n_topics) < n_up] = 0
        mean, gap = topic_gaps(state, n_up)
        excess = np.maximum(-(-(most - mean - gap) * MILLION // (mean + gap)), 0)
        short = np.maximum(-(-(mean - gap - least) * MILLION // np.maximum(mean - gap, 1)), 0)
        return _counted((excess > 0) | (short > 0), np.maximum(excess, short))


def _counted(broken: np.ndarray[Any, np.dtype[np.bool_]], worst: Integers) -> Breaches:
    return Breaches(int(np.count_nonzero(broken)), int(worst.max(initial=0)))


def _breaches(ranges: Iterable[Range]) -> Breaches:
    """Compare what brokers have with what they should have."""
    distances = [*_distances(ranges)]
    return Breaches(len(distances), min(ceil(max(distances, default=0) * MILLION), MAX_LONG))


def _distances(ranges: Iterable[Range]) -> Iterator[Fraction]:
    """How far each is outside its range, as a part of the bound that it breaks."""
    for amount, least, most in ranges:
        if amount > most:
            yield Fraction(amount - most) / most
        elif amount < least:
            yield Fraction(least - amount) / least


def goals_table(before: BrokerUse, after: BrokerUse) -> pa.Table:
    """Which of Cruise Control's default goals two placements meet: `schema.PLAN_GOALS`."""
    rows = []
    breaches_of = {"before": before.breaches(), "after": after.breaches()}
    for name, goal in GOALS.items():
        row: dict[str, Any] = {"goal": name, **goal._asdict()}
        for when, by_goal in breaches_of.items():
            n, worst = by_goal[name] or (None, None)
            row |= {f"broken_{when}": n, f"worst_{when}": worst,
                    f"satisfied_{when}": None if n is None else n == 0}
        rows.append(row)
    return pa.Table.from_pylist(rows, PLAN_GOALS.schema)
