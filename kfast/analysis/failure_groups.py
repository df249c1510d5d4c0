"""What live brokers take down if they fail together, counted over the distinct live ISRs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kfast import arguments
from kfast.analysis.loss_chances import Sets
from kfast.analysis.replica_sets import BrokerSets, Counts, group_sets, list_by_broker, live_brokers
from kfast.analysis.restart_readiness import Readiness
from kfast.arguments import whole
from kfast.errors import ArgumentError
from kfast.kernels import risk as kernel
from kfast.schema import RISK_LOST, RISK_METRICS, RISK_PAIRS, RISK_WORST
from kfast.state import ClusterState
from kfast.state.records import Rows
from kfast.state.tables import id_lists, row_keys

__all__ = ["RISK_METRICS", "Failures"]

TRIPLE_BROKERS = 2048
"""Triples of more brokers are not scored: it goes with the cube of their number."""

_OFFLINE = 1 << 32
"""Scores are partitions offline times this, plus those under min ISR."""

_COUNTED = (
    *(f"newly_{name}" for name in RISK_METRICS),
    *(f"together_{name}" for name in RISK_METRICS),
)


class Failures:
    """Groups of live brokers, scored by what they take down.

    Parameters
    ----------
    readiness : Readiness
        Of the cluster, with margin 0.
    """

    def __init__(self, readiness: Readiness) -> None:
        self.state: ClusterState = readiness.state
        self._readiness = readiness
        self.live = live_brokers(self.state)
        self.n_live = int(self.live.size)
        self.place = np.full(self.state.n_brokers, -1, np.int32)
        self.place[self.live] = np.arange(self.live.size, dtype=np.int32)

    def sets(self, metric: str) -> Sets:
        """Sets of live brokers that some metric hangs on, and how many of each must fail.

        Partitions of which the metric is true already have none.
        """
        standing = self._readiness.standing
        if metric == "no_live_replica":
            found = group_sets(self.state, standing.live_replicas)
            threshold = found.sizes.astype(np.int32)
        else:
            found = self._readiness.sets
            threshold = found.sizes.astype(np.int32)
            if metric == "under_min_isr":
                threshold = self._readiness.spare + 1
        kept = (threshold >= 1) & (threshold <= found.sizes)
        begin = np.concatenate(([0], np.cumsum(found.sizes[kept]))).astype(np.int64)
        members = self.place[found.members[np.repeat(kept, found.sizes)]]
        return Sets(begin, members, threshold[kept].astype(np.int32), found.partitions[kept])

    @cached_property
    def _scored(self) -> tuple[Sets, Counts, Counts, Counts, Counts, Rows]:
        """Live ISRs; what each adds to the score of a broker, a pair, a triple of its members.

        A set that is lost with t of its members adds to groups of k of them, so that the sum over
        all parts of any group counts the set once if t or more of it are in the group:
        t = 1: +1, -1, +1; t = 2: 0, +1, -2; t = 3: 0, 0, +1.
        """
        found = self._readiness.sets
        members = self.place[found.members]
        adds = np.zeros((3, len(found)), np.int64)
        spare = self._readiness.spare
        for score, threshold in ((_OFFLINE, found.sizes), (1, np.where(spare < 0, 0, spare + 1))):
            counted = score * found.partitions
            adds[0] += np.where(threshold == 1, counted, 0)
            adds[1] += np.where(threshold == 1, -counted, np.where(threshold == 2, counted, 0))
            adds[2] += np.where(threshold == 1, counted, 0) + np.where(threshold == 3, counted, 0)
            adds[2] -= np.where(threshold == 2, 2 * counted, 0)
        alone = np.zeros(self.n_live, np.int64)
        np.add.at(alone, members, np.repeat(adds[0], found.sizes))
        first, sets_of = list_by_broker(found.begin, members, self.n_live)
        sets = Sets(found.begin, members, found.sizes.astype(np.int32), found.partitions)
        return sets, alone, adds[1].copy(), adds[2].copy(), first, sets_of

    def _pair_row(self, broker: int) -> Counts:
        """(n,) what each other live broker adds to the scores of the two, failing with this one."""
        sets, _, adds, _, first, sets_of = self._scored
        row = np.zeros(self.n_live, np.int64)
        kernel.add_shared(sets.begin, sets.members, adds, first, sets_of, broker, row)
        return row

    def worst(self, k: int = 2, top: int = 10) -> pa.Table:
        """See `Risk.worst`."""
        whole("k", k, 1, 3)
        whole("top", top, 1, 10_000)
        if k == 3 and self.n_live > TRIPLE_BROKERS:
            raise ArgumentError(
                f"{self.n_live} brokers are live: triples of at most {TRIPLE_BROKERS} can be scored"
            )
        groups = (self._worst_singles, self._worst_pairs, self._worst_triples)[k - 1](top)
        names = self.state.rack.to_pylist()
        columns: dict[str, list[Any]] = {"brokers": [], "racks": []}
        counted: dict[str, list[int]] = {}
        for group in groups.tolist():
            rows = self.live[group]
            columns["brokers"].append(self.state.broker_id[rows].tolist())
            columns["racks"].append([names[row] for row in rows.tolist()])
            for name, value in self._count(group).items():
                counted.setdefault(name, []).append(value)
        return RISK_WORST.table(
            {**columns, **{name: counted.get(name, []) for name in _COUNTED}}
        )

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
            some = np.flatnonzero(scores > least)
            rows = np.stack((scores[some], np.full(some.size, broker), some + broker + 1), axis=1)
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
            sets = self.kept[name]
            hits = np.zeros(sets.partitions.size, np.int64)
            if hits.size:
                hits = np.add.reduceat(failing[sets.members], sets.begin[:-1], dtype=np.int64)
            counts[f"newly_{name}"] = int(sets.partitions[hits >= sets.threshold].sum())
            together = (hits == len(group)) & (sets.threshold == len(group))
            counts[f"together_{name}"] = int(sets.partitions[together].sum())
        return counts

    @cached_property
    def kept(self) -> dict[str, Sets]:
        """`sets` of every metric."""
        return {name: self.sets(name) for name in RISK_METRICS}

    def pairs(self, copies: BrokerSets) -> pa.Table:
        """Every pair of live brokers that share a partition or take one down; see `Risk.pairs`."""
        alone = self._scored[1]
        first, sets_of = copies.list_by_broker(self.state.n_brokers)
        found = []
        for place, row in enumerate(self.live.tolist()):
            shared = np.zeros(self.state.n_brokers, np.int64)
            kernel.add_shared(
                copies.begin, copies.members, copies.partitions, first, sets_of, row, shared
            )
            scores = alone[place] + alone[place + 1 :] + self._pair_row(place)[place + 1 :]
            common = shared[self.live[place + 1 :]]
            some = np.flatnonzero((scores > 0) | (common > 0))
            found.append(np.stack((np.full(some.size, place), some + place + 1, common[some],
                                   scores[some])))
        a, b, common, scores = np.concatenate([np.empty((4, 0), np.int64), *found], axis=1)
        ids = self.state.broker_id[self.live]
        return RISK_PAIRS.table(
            {
                "broker_a": pa.array(ids[a]),
                "broker_b": pa.array(ids[b]),
                "shared_partitions": pa.array(common),
                "newly_offline_if_clean": pa.array(scores // _OFFLINE),
                "newly_under_min_isr": pa.array(scores % _OFFLINE),
            }
        )

    def lost(self, broker_ids: Iterable[int]) -> pa.Table:
        """See `Risk.lost`."""
        ids = arguments.broker_ids("broker_ids", broker_ids).tolist()
        rows = self.state.find_brokers(ids)
        down = [b for b, place in zip(ids, self.place[rows], strict=True) if place < 0]
        if down:
            raise ArgumentError(f"broker {', '.join(map(str, down))} is not live and cannot fail")
        standing, state = self._readiness.standing, self.state
        mask = np.zeros(state.n_partitions, np.uint64)
        failing = np.uint64(1) << np.arange(state.n_slots, dtype=np.uint64)
        for slot, bit in enumerate(failing):
            mask[np.isin(state.replicas[:, slot], rows)] |= bit
        left = standing.live_isr & ~mask
        in_sync = sum(
            (((left >> np.uint64(slot)) & np.uint64(1)).astype(np.int32)
             for slot in range(state.n_slots)), np.zeros(state.n_partitions, np.int32)
        )
        gone = standing.live_replicas & ~mask == 0
        lost = {
            "offline_if_clean": (standing.live_isr != 0) & (left == 0),
            "no_live_replica": (standing.live_replicas != 0) & gone,
            "under_min_isr": (in_sync < standing.needed) & (standing.in_sync >= standing.needed),
        }
        found = np.flatnonzero(np.any(list(lost.values()), axis=0)).astype(np.int32)
        return RISK_LOST.table(
            {
                **row_keys(state, found),
                "isr": id_lists(state, found, standing.live_isr[found]),
                "in_sync": pa.array(in_sync[found]),
                "min_isr": pa.array(standing.needed[found].astype(np.int32)),
                **{name: pa.array(flags[found]) for name, flags in lost.items()},
            }
        )
