"""Blast radius: which brokers share partitions, which failures are the worst, and how likely.

Copysets are the distinct replica sets: brokers that lose data if they fail together. A broker's
scatter width is the number of others that it shares a partition with. Few copysets make a loss rare
and each loss large; a large scatter width spreads a broker's load when it fails. What brokers take
down if they fail together is counted over the distinct live ISRs (KRaft: ISRs with ELRs).

Source: Cidon, Rumble, Stutsman, Katti, Ousterhout, Rosenblum, "Copysets: Reducing the Frequency of
Data Loss in Cloud Storage", USENIX ATC 2013. The counts mean what they mean in a sweep.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import arguments
from kfast.analysis.loss_chances import Chance, Sets, any_lost, if_random, mean_lost
from kfast.analysis.replica_sets import (
    BrokerSets,
    Counts,
    assigned_masks,
    group_sets,
    list_by_broker,
    live_brokers,
)
from kfast.analysis.restart_readiness import may_restart
from kfast.arguments import check_instance, number, whole, whole_numbers
from kfast.errors import ArgumentError
from kfast.kernels import risk as kernel
from kfast.schema import (
    RISK_BROKERS,
    RISK_CHANCES,
    RISK_COPYSETS,
    RISK_LOST,
    RISK_METRICS,
    RISK_PAIRS,
    RISK_WORST,
)
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.min_isr import is_under_min_isr
from kfast.state.records import Rows
from kfast.state.tables import id_lists, row_keys

__all__ = ["RISK_METRICS", "TRIPLE_BROKERS", "Risk", "risk"]

MOST_SCENARIOS = 100_000_000
MOST_SEED = 2**64 - 1

TRIPLE_BROKERS = 2048
"""Triples of more brokers are not scored: it goes with the cube of their number."""

_OFFLINE = 1 << 32
"""Scores are partitions offline times this, plus those under min ISR."""


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
        self._live = live_brokers(state)
        self._place = np.full(state.n_brokers, -1, np.int32)
        self._place[self._live] = np.arange(self._live.size, dtype=np.int32)

    @property
    def n_live(self) -> int:
        """How many brokers are live: those that may fail."""
        return int(self._live.size)

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
        return group_sets(self.state, assigned_masks(self._readiness.margins))

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
                "live": pa.array(self._place >= 0),
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
        sets = self._sets[metric]
        alone = np.zeros(self.n_live, np.int64)
        weight = np.where(sets.threshold == 1, sets.partitions, 0)
        np.add.at(alone, sets.members, np.repeat(weight, sets.sizes))
        counts = np.zeros(self.state.n_brokers, np.int64)
        counts[self._live] = alone
        return counts

    @cached_property
    def pairs(self) -> pa.Table:
        """Every pair of live brokers that share a partition or take one down.

        broker_a, broker_b, shared_partitions (assigned to both), newly_offline_if_clean and
        newly_under_min_isr if both fail.
        """
        copies = self._copies
        alone = self._scored[1]
        first, sets_of = copies.list_by_broker(self.state.n_brokers)
        parts = []
        for place, row in enumerate(self._live.tolist()):
            shared = np.zeros(self.state.n_brokers, np.int64)
            kernel.add_shared(
                copies.begin, copies.members, copies.partitions, first, sets_of, row, shared
            )
            scores = alone[place] + alone[place + 1 :] + self._pair_row(place)[place + 1 :]
            common = shared[self._live[place + 1 :]]
            chosen = np.flatnonzero((scores > 0) | (common > 0))
            parts.append(np.stack(
                (np.full(chosen.size, place), chosen + place + 1, common[chosen], scores[chosen])
            ))
        a, b, common, scores = np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1)
        ids = self.state.broker_id[self._live]
        return RISK_PAIRS.table(
            {
                "broker_a": pa.array(ids[a]),
                "broker_b": pa.array(ids[b]),
                "shared_partitions": pa.array(common),
                "newly_offline_if_clean": pa.array(scores // _OFFLINE),
                "newly_under_min_isr": pa.array(scores % _OFFLINE),
            }
        )

    # --- groups of brokers that fail together ----------------------------------------------------

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
        whole("k", k, 1, 3)
        whole("top", top, 1, 10_000)
        if k == 3 and self.n_live > TRIPLE_BROKERS:
            raise ArgumentError(
                f"{self.n_live} brokers are live: triples of at most {TRIPLE_BROKERS} can be scored"
            )
        groups = (self._worst_singles, self._worst_pairs, self._worst_triples)[k - 1](top)
        racks = self.state.rack.to_pylist()
        rows = [{
            "brokers": self.state.broker_id[self._live[group]].tolist(),
            "racks": [racks[row] for row in self._live[group].tolist()],
            **self._count(group),
        } for group in groups.tolist()]
        return pa.Table.from_pylist(rows, RISK_WORST.schema)

    def lost(self, broker_ids: Iterable[int]) -> pa.Table:
        """Partitions that some brokers take down if they fail together, in row order.

        topic, partition, partition_row, isr (live members before), in_sync (live members left),
        min_isr (in force), and each of `RISK_METRICS` as a bool: whether it becomes true.

        Raises
        ------
        ArgumentError
            A broker is unknown, or not live.
        """
        ids = arguments.broker_ids("broker_ids", broker_ids).tolist()
        rows = self.state.find_brokers(ids)
        down = [b for b, place in zip(ids, self._place[rows], strict=True) if place < 0]
        if down:
            raise ArgumentError(f"broker {', '.join(map(str, down))} is not live and cannot fail")
        margins, state = self._readiness.margins, self.state
        left, in_sync = ~np.zeros(state.n_partitions, np.uint64), margins.in_sync.astype(np.int32)
        for slot in range(state.n_slots):
            bit = np.uint64(1 << slot)
            fails = np.isin(state.replicas[:, slot], rows)
            left[fails] &= ~bit
            in_sync -= fails & (margins.live_isr & bit != 0)
        lost = {
            "offline_if_clean": (margins.electable != 0) & (margins.electable & left == 0),
            "no_live_replica": (margins.live_replicas != 0) & (margins.live_replicas & left == 0),
            "under_min_isr": is_under_min_isr(in_sync, margins.needed) & ~margins.under_min_isr,
        }
        changed = np.flatnonzero(np.any(list(lost.values()), axis=0)).astype(np.int32)
        return RISK_LOST.table(
            {
                **row_keys(state, changed),
                "isr": id_lists(state, changed, margins.live_isr[changed]),
                "in_sync": pa.array(in_sync[changed]),
                "min_isr": pa.array(margins.needed[changed].astype(np.int32)),
                **{name: pa.array(flags[changed]) for name, flags in lost.items()},
            }
        )

    @cached_property
    def _electable(self) -> BrokerSets:
        """Live brokers that each partition's next leader may come from without loss."""
        margins = self._readiness.margins
        if margins.electable is margins.live_isr:
            return self._readiness.sets
        return group_sets(self.state, margins.electable)

    @cached_property
    def _sets(self) -> dict[str, Sets]:
        """Of each metric the sets of live brokers that it hangs on, and how many of each must fail.

        Partitions of which the metric is true already have none.
        """
        isr, spare = self._readiness.sets, self._readiness.spare
        replicas = group_sets(self.state, self._readiness.margins.live_replicas)
        return {
            "offline_if_clean": self._with_threshold(self._electable, self._electable.sizes),
            "no_live_replica": self._with_threshold(replicas, replicas.sizes),
            "under_min_isr": self._with_threshold(isr, spare + 1),
        }

    def _with_threshold(self, sets: BrokerSets, threshold: npt.NDArray[Any]) -> Sets:
        """Those sets of brokers that can be lost, and how many of each must fail."""
        chosen = (threshold >= 1) & (threshold <= sets.sizes)
        begin = np.concatenate(([0], np.cumsum(sets.sizes[chosen]))).astype(np.int64)
        members = self._place[sets.members[np.repeat(chosen, sets.sizes)]]
        return Sets(begin, members, threshold[chosen].astype(np.int32), sets.partitions[chosen])

    @cached_property
    def _scored(self) -> tuple[Sets, Counts, Counts, Counts, Counts, Rows]:
        """Sets that count; what each adds to the score of a broker, a pair, a triple of its own.

        Partitions go offline by their electable brokers, and under min ISR by their live ISRs;
        where there is no ELR these are the same sets.

        A set that is lost with t of its members adds to groups of k of them, so that the sum over
        all parts of any group counts the set once if t or more of it are in the group:
        t = 1: +1, -1, +1; t = 2: 0, +1, -2; t = 3: 0, 0, +1.
        """
        isr, electable, spare = self._readiness.sets, self._electable, self._readiness.spare
        under = np.where(spare < 0, 0, spare + 1)
        families = [electable] if electable is isr else [electable, isr]
        members = self._place[np.concatenate([sets.members for sets in families])]
        sizes = np.concatenate([sets.sizes for sets in families])
        partitions = np.concatenate([sets.partitions for sets in families])
        begin = np.append(0, np.cumsum(sizes)).astype(np.int64)
        adds = np.zeros((3, sizes.size), np.int64)
        lost_with = np.zeros((2, sizes.size), np.int64)
        lost_with[0, : len(electable)] = electable.sizes
        lost_with[1, sizes.size - len(isr) :] = under
        for score, threshold in zip((_OFFLINE, 1), lost_with, strict=True):
            counted = score * partitions
            adds[0] += np.where(threshold == 1, counted, 0)
            adds[1] += np.where(threshold == 1, -counted, np.where(threshold == 2, counted, 0))
            adds[2] += np.where(threshold == 1, counted, 0) + np.where(threshold == 3, counted, 0)
            adds[2] -= np.where(threshold == 2, 2 * counted, 0)
        alone = np.zeros(self.n_live, np.int64)
        np.add.at(alone, members, np.repeat(adds[0], sizes))
        first, sets_of = list_by_broker(begin, members, self.n_live)
        sets = Sets(begin, members, sizes.astype(np.int32), partitions)
        return sets, alone, adds[1].copy(), adds[2].copy(), first, sets_of

    def _pair_row(self, broker: int) -> Counts:
        """(n,) what each other live broker adds to the scores of the two, failing with this one."""
        sets, _, adds, _, first, sets_of = self._scored
        row = np.zeros(self.n_live, np.int64)
        kernel.add_shared(sets.begin, sets.members, adds, first, sets_of, broker, row)
        return row

    def _worst_singles(self, top: int) -> Rows:
        alone = self._scored[1]
        order = np.argsort(-alone, kind="stable")[:top]
        return order[alone[order] > 0][:, None].astype(np.int32)

    def _worst_pairs(self, top: int) -> Rows:
        alone = self._scored[1]
        best = np.zeros((0, 3), np.int64)
        for broker in range(self.n_live):
            scores = alone[broker] + alone[broker + 1 :] + self._pair_row(broker)[broker + 1 :]
            least = int(best[-1, 0]) if len(best) == top else 0
            better = np.flatnonzero(scores > least)
            rows = np.stack(
                (scores[better], np.full(better.size, broker), better + broker + 1), axis=1
            )
            best = np.concatenate((best, rows))
            best = best[np.argsort(-best[:, 0], kind="stable")[:top]]
        return best[:, 1:].astype(np.int32)

    def _worst_triples(self, top: int) -> Rows:
        sets, alone, _, adds, first, sets_of = self._scored
        n = self.n_live
        if n == 0:
            return np.empty((0, 3), np.int32)
        pairs = np.stack([self._pair_row(broker) for broker in range(n)])
        link, scores = np.zeros((n, n), np.int64), np.zeros(top, np.int64)
        triples = np.zeros((top, 3), np.int32)
        for broker in range(n):
            kernel.note_triples(
                sets.begin, sets.members, adds, first, sets_of, alone, pairs, link, broker, scores,
                triples,
            )
        return triples[scores > 0]

    def _count(self, group: list[int]) -> dict[str, int]:
        """What some live brokers, by their place, take down."""
        failing = np.zeros(self.n_live, np.bool_)
        failing[group] = True
        counts = {}
        for name in RISK_METRICS:
            sets = self._sets[name]
            hits = np.zeros(sets.partitions.size, np.int64)
            if hits.size:
                hits = np.add.reduceat(failing[sets.members], sets.begin[:-1], dtype=np.int64)
            counts[f"newly_{name}"] = int(sets.partitions[hits >= sets.threshold].sum())
            together = (hits == len(group)) & (sets.threshold == len(group))
            counts[f"together_{name}"] = int(sets.partitions[together].sum())
        return counts

    # --- chances --------------------------------------------------------------------------------

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
            self._sets[metric], self.n_live, down, scenarios=self.scenarios,
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
                chance = self.chance(down_together, metric)
                sets = self._sets[metric]
                rows.append(
                    {
                        "brokers_down": down_together,
                        "metric": metric,
                        "any_probability": chance.probability,
                        "any_probability_low": chance.low,
                        "any_probability_high": chance.high,
                        "method": chance.method,
                        "scenarios": chance.scenarios,
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
