"""Blast radius: which brokers share partitions, which failures are the worst, and how likely.

Copysets are the distinct replica sets: brokers that lose data if they fail together. A broker's
scatter width is the number of others that it shares a partition with. Few copysets make a loss rare
and each loss large; a large scatter width spreads a broker's load when it fails.

Source: Cidon, Rumble, Stutsman, Katti, Ousterhout, Rosenblum, "Copysets: Reducing the Frequency of
Data Loss in Cloud Storage", USENIX ATC 2013. The counts mean what they mean in a sweep.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import comb

import numpy as np
import pyarrow as pa

from kfast.analysis.failure_groups import RISK_METRICS, Failures
from kfast.analysis.loss_chances import Chance, any_lost, if_random, mean_lost
from kfast.analysis.replica_sets import BrokerSets, Counts, assigned_masks, group_sets
from kfast.analysis.restart_readiness import may_restart
from kfast.arguments import check_instance, number, whole, whole_numbers
from kfast.errors import ArgumentError
from kfast.kernels import risk as kernel
from kfast.schema import RISK_BROKERS, RISK_CHANCES, RISK_COPYSETS
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text

__all__ = ["Risk", "risk"]

MOST_SCENARIOS = 100_000_000
MOST_SEED = 2**64 - 1


class Risk:
    """What a cluster's placement means for failures; made by `kfast.risk`.

    Parameters
    ----------
    state : ClusterState
        Must not change while the answer is in use.
    scenarios, seed, confidence
        See `kfast.risk`.
    """

    def __init__(
        self, state: ClusterState, scenarios: int, seed: int, confidence: float
    ) -> None:
        self.state = state
        self.scenarios, self.seed, self.confidence = scenarios, seed, confidence
        self._readiness = may_restart(state)
        self._failures = Failures(self._readiness)

    @property
    def n_live(self) -> int:
        """How many brokers are live: those that may fail."""
        return self._failures.n_live

    def _summary(self) -> Summary:
        # Nothing is counted for it.
        return "Risk", {
            "live brokers": self.n_live,
            "partitions": self.state.n_partitions,
            "copysets": self.n_copysets if "_copies" in vars(self) else None,
            "scenarios": self.scenarios,
            "seed": str(self.seed),
            "confidence": str(self.confidence),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    # --- placement ------------------------------------------------------------------------------

    @cached_property
    def _copies(self) -> BrokerSets:
        """Assigned replicas of the partitions."""
        return group_sets(self.state, assigned_masks(self._readiness.standing))

    @property
    def n_copysets(self) -> int:
        """How many distinct replica sets there are."""
        return len(self._copies)

    @cached_property
    def copysets(self) -> pa.Table:
        """Per replication factor: partitions, copysets, and how many copysets are possible."""
        sizes = self._copies.sizes
        factors = np.unique(sizes)
        partitions = [int(self._copies.partitions[sizes == factor].sum()) for factor in factors]
        return RISK_COPYSETS.table(
            {
                "replication_factor": pa.array(factors.astype(np.int32)),
                "partitions": pa.array(partitions, pa.int64()),
                "copysets": pa.array([int((sizes == f).sum()) for f in factors], pa.int64()),
                "possible_copysets": pa.array(
                    [float(comb(self.state.n_brokers, int(f))) for f in factors], pa.float64()
                ),
            }
        )

    @cached_property
    def brokers(self) -> pa.Table:
        """Every broker, the worst to lose first.

        Columns: broker_id, rack, live, partitions (replicas on it), copysets (it is in),
        scatter_width (other brokers that it shares a partition with), closest_broker_id and
        closest_partitions (who shares most with it, and how many), and for each of `RISK_METRICS`
        newly_METRIC: partitions of which that becomes true if this broker alone fails.
        """
        state, sets = self.state, self._copies
        n = state.n_brokers
        first, sets_of = sets.list_by_broker(n)
        shared = np.zeros(n, np.int64)
        width, closest, most = np.zeros(n, np.int32), np.full(n, -1), np.zeros(n, np.int64)
        for broker in range(n):
            shared[:] = 0
            kernel.add_shared(
                sets.begin, sets.members, sets.partitions, first, sets_of, broker, shared
            )
            width[broker] = np.count_nonzero(shared)
            if width[broker]:
                closest[broker] = int(shared.argmax())
                most[broker] = shared[closest[broker]]
        replicas = np.zeros(n, np.int64)
        np.add.at(replicas, sets.members, np.repeat(sets.partitions, sets.sizes))
        lost = {name: self._alone(name) for name in RISK_METRICS}
        ids = pa.array(state.broker_id)
        order = np.lexsort((np.arange(n), *(-lost[name] for name in reversed(RISK_METRICS))))
        return RISK_BROKERS.table(
            {
                "broker_id": ids,
                "rack": state.rack,
                "live": pa.array(self._failures.place >= 0),
                "partitions": pa.array(replicas),
                "copysets": pa.array(np.diff(first)),
                "scatter_width": pa.array(width),
                "closest_broker_id": ids.take(pa.array(closest, mask=closest < 0)),
                "closest_partitions": pa.array(most),
                **{f"newly_{name}": pa.array(counts) for name, counts in lost.items()},
            }
        ).take(pa.array(order))

    def _alone(self, metric: str) -> Counts:
        """(B,) partitions that each broker takes down alone."""
        sets = self._failures.kept[metric]
        alone = np.zeros(self.n_live, np.int64)
        weight = np.where(sets.threshold == 1, sets.partitions, 0)
        np.add.at(alone, sets.members, np.repeat(weight, sets.sizes))
        counts = np.zeros(self.state.n_brokers, np.int64)
        counts[self._failures.live] = alone
        return counts

    @cached_property
    def pairs(self) -> pa.Table:
        """Every pair of live brokers that share a partition or take one down.

        broker_a, broker_b, shared_partitions (assigned to both), newly_offline_if_clean and
        newly_under_min_isr if both fail.
        """
        return self._failures.pairs(self._copies)

    def worst(self, k: int = 2, top: int = 10) -> pa.Table:
        """The k live brokers that take most down if they fail together: k is 1, 2 or 3.

        Ranked by partitions that become offline (if elections are clean), then by those that fall
        under min ISR. Groups that take nothing down are not listed.

        Returns
        -------
        pa.Table
            brokers (ids), racks, and for each of `RISK_METRICS` newly_METRIC (partitions of which
            it becomes true) and together_METRIC (those that no fewer of the k take down).

        Raises
        ------
        ArgumentError
            k is not 1, 2 or 3, `top` is not 1 to 10 000, or triples are asked of more than 2048
            live brokers.
        """
        return self._failures.worst(k, top)

    def lost(self, broker_ids: Iterable[int]) -> pa.Table:
        """Partitions that some brokers take down if they fail together, in row order.

        topic, partition, partition_row, isr (live members before), in_sync (live members left),
        min_isr (in force), and each of `RISK_METRICS` as a bool: whether it becomes true.

        Raises
        ------
        ArgumentError
            A broker is unknown, or not live.
        """
        return self._failures.lost(broker_ids)

    def chance(self, down: int, metric: str = "offline_if_clean") -> Chance:
        """Chance that a metric becomes true of any partition with `down` live brokers down.

        Every choice of so many of the live brokers is equally likely.

        Raises
        ------
        ArgumentError
            `down` is not from 0 to the number of live brokers, or the metric is unknown.
        MissingExtraError
            The chance has to be drawn, and scipy is not installed.
        """
        whole("down", down, 0, self.n_live)
        if metric not in RISK_METRICS:
            listed = ", ".join(RISK_METRICS)
            raise ArgumentError(f"metric {metric!r} is unknown; these are: {listed}")
        return any_lost(
            self._failures.kept[metric], self.n_live, down, scenarios=self.scenarios,
            seed=self.seed, confidence=self.confidence,
        )

    def chances(self, down: Iterable[int] = (1, 2, 3)) -> pa.Table:
        """Chances for several numbers of failed brokers, one row for each and each metric.

        Columns: brokers_down, metric, any_probability (that the metric becomes true of some
        partition), any_probability_low and _high (the interval; the same where it was counted),
        method (`exact` or `sampled`), scenarios (drawn), random_probability (if every partition
        had brokers of its own choosing, by chance), mean_partitions (of which it becomes true on
        average, exactly).

        Raises
        ------
        ArgumentError
            As in `chance`; checked for all before any is counted.
        """
        numbers = whole_numbers("down", down).tolist()
        for down_together in numbers:
            whole("down", down_together, 0, self.n_live)
        rows = []
        for down_together in numbers:
            for metric in RISK_METRICS:
                found = self.chance(down_together, metric)
                sets = self._failures.kept[metric]
                rows.append(
                    {
                        "brokers_down": down_together,
                        "metric": metric,
                        "any_probability": found.probability,
                        "any_probability_low": found.low,
                        "any_probability_high": found.high,
                        "method": found.method,
                        "scenarios": found.scenarios,
                        "random_probability": if_random(sets, self.n_live, down_together),
                        "mean_partitions": mean_lost(sets, self.n_live, down_together),
                    }
                )
        return pa.Table.from_pylist(rows, RISK_CHANCES.schema)


def risk(
    state: ClusterState, *, scenarios: int = 10_000, seed: int = 0, confidence: float = 0.99
) -> Risk:
    """Ask what a cluster's placement means for failures.

    Nothing is counted before it is asked for. Partitions that are down already count for nothing;
    brokers that are not live cannot fail.

    Parameters
    ----------
    state : ClusterState
        Not changed. It must not change while the answer is in use.
    scenarios : int, default 10 000
        How many failures to draw where a chance cannot be counted.
    seed : int, default 0
        Of the draws: scenario i is the same for the same seed, on every machine.
    confidence : float, default 0.99
        Of the Clopper-Pearson interval of what was drawn.

    Raises
    ------
    ArgumentError
        An argument is outside its range.
    """
    check_instance("state", state, ClusterState)
    scenarios = whole("scenarios", scenarios, 1, MOST_SCENARIOS)
    seed = whole("seed", seed, 0, MOST_SEED)
    confidence = number("confidence", confidence, 0, 1)
    if confidence in (0, 1):
        raise ArgumentError(f"confidence is {confidence!r}: between 0 and 1 is allowed")
    return Risk(state, scenarios, seed, confidence)
