"""The hard rules that a plan has to keep, and who breaks them.

Some are about the entries of a plan: what they ask for, compared with the cluster before the plan.
Others are about brokers: what they carry in the end, compared with limits.

Source: docs/capacity.md, section "Is a plan good?".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.arguments import broker_ids, shown
from kfast.capacity.failures.broker_totals import TOTALS
from kfast.capacity.failures.capacity_sweeps import CapacityPlan
from kfast.capacity.failures.cpu_models import WRITE_EQUIVALENT, WRITE_EQUIVALENT_WORK
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.errors import ArgumentError
from kfast.state import ClusterState
from kfast.state.racks import distinct_racks
from kfast.state.settings import match_topics

__all__ = [
    "HARD_RULES", "BrokerLimits", "PlanRules", "broken_by_entries", "count_missing_racks",
    "count_racks",
]

Integers = npt.NDArray[np.int64]

HARD_RULES: Mapping[str, str] = {
    "replication_factor": "as many replicas as before",
    "broker_twice": "no broker holds two replicas of a partition",
    "broker_unknown": "replicas are added on brokers of the cluster",
    "broker_down": "replicas are added on brokers that are up",
    "broker_excluded": "no replica is added on a broker that is excluded",
    "topic_excluded": "no partition of an excluded topic is changed",
    "broker_set": "replicas of a partition are in one broker set, the one that all were in before",
    "racks": "replicas of a partition are in as many racks as there are, or as there were before",
    "limit": "no broker is over a limit in the end",
    "disk_limit_meanwhile": "no disk is over its limit while old and new replicas both exist",
    "replicas_max": "no broker has more replicas than it may",
}
"""Of each rule what it demands."""


@dataclass(frozen=True)
class PlanRules:
    """What plans must leave alone, beside what follows from a cluster and its capacities.

    Parameters
    ----------
    excluded_topics : frozenset of str
    excluded_brokers : frozenset of int
        No replica may be added there.
    broker_sets : mapping of str to frozenset of int
        Brokers by the name of their set; empty where there are no sets.
    """

    excluded_topics: frozenset[str] = frozenset()
    excluded_brokers: frozenset[int] = frozenset()
    broker_sets: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, state: ClusterState, excluded_topics: Iterable[str] = (),
        excluded_brokers: Iterable[int] = (),
        broker_sets: Mapping[str, Iterable[int]] | None = None,
    ) -> PlanRules:
        """Check and gather them; arguments and errors as of `check_plan`."""
        topics: set[str] = set()
        for regex in excluded_topics:
            rows = match_topics(state, "excluded_topics", regex)
            topics.update(state.topic.take(rows).to_pylist())
        brokers = broker_ids("excluded_brokers", list(excluded_brokers)).tolist()
        state.find_brokers(brokers)
        sets = {
            name: frozenset(broker_ids(f"broker_sets: {name}", list(ids)).tolist())
            for name, ids in (broker_sets or {}).items()
        }
        for broker in state.broker_id.tolist() if sets else ():
            holders = [name for name, ids in sets.items() if broker in ids]
            if len(holders) != 1:
                raise ArgumentError(
                    f"broker_sets: broker {broker} is in {shown(holders)}; right is one set"
                )
        return cls(frozenset(topics), frozenset(brokers), sets)

    def set_of(self, broker: int) -> str | None:
        """Name of the set that a broker is in."""
        return next((name for name, ids in self.broker_sets.items() if broker in ids), None)


def count_missing_racks(state: ClusterState) -> int:
    """Racks that replicas should be in and are not, summed up over all partitions.

    A partition of n replicas should be in n racks, or in all that have a broker that is up.
    """
    n_racks = np.unique(distinct_racks(state)[state.up]).size
    n = state.records["n_replicas"].astype(np.int64)
    return int(np.maximum(np.minimum(n, n_racks) - count_racks(state), 0).sum())


def count_racks(state: ClusterState) -> Integers:
    """(P,) racks that the replicas of each partition are in."""
    rack = distinct_racks(state)
    n = state.records["n_replicas"].astype(np.int64)
    of_replica = rack[state.replicas.astype(np.int64) % max(rack.size, 1)]
    n_distinct = np.zeros_like(n)
    for slot in range(state.n_slots):
        is_new = slot < n
        for other in range(slot):
            is_new &= of_replica[:, slot] != of_replica[:, other]
        n_distinct += is_new
    return n_distinct


def broken_by_entries(
    state: ClusterState, batch: int, entries: Sequence[Mapping[str, Any]], rules: PlanRules
) -> Iterator[dict[str, Any]]:
    """Rules that entries of a plan break, in their order.

    Parameters
    ----------
    state : ClusterState
        Before the plan.
    batch : int
    entries : sequence of mapping
        topic, partition, replicas (None cancels a reassignment).
    rules : PlanRules

    Yields
    ------
    dict
        A row of `schema.PLAN_RULES`.
    """
    lookup, racks = state.lookup, distinct_racks(state)
    row_of = {broker: row for row, broker in enumerate(state.broker_id.tolist())}
    n_racks = np.unique(racks[state.up]).size
    rows = lookup.rows(
        lookup.topics([entry["topic"] for entry in entries]),
        np.array([entry["partition"] for entry in entries], np.int32),
    )
    for entry, row in zip(entries, rows.tolist(), strict=True):
        target = entry["replicas"]
        if row < 0 or not target:
            continue
        origin = state.assignment(row).origin
        for rule, broker, amount, allowed in _broken(
            state, entry["topic"], target, origin, rules, row_of, racks.tolist(), n_racks
        ):
            yield _rule_row(rule, batch, entry, broker, amount, allowed)


def _broken(
    state: ClusterState, topic: str, target: Sequence[int], origin: Sequence[int],
    rules: PlanRules, row_of: Mapping[int, int], rack_of: Sequence[int], n_racks: int,
) -> Iterator[tuple[str, int | None, str, str]]:
    """Rules that one entry breaks: rule, broker, what it is, what is allowed."""
    if len(target) != len(origin):
        yield "replication_factor", None, str(len(target)), str(len(origin))
    for broker in dict.fromkeys(b for b in target if target.count(b) > 1):
        yield "broker_twice", broker, f"{target.count(broker)} times", "once"
    for broker in (b for b in dict.fromkeys(target) if b not in origin):
        if broker not in row_of:
            yield "broker_unknown", broker, "unknown", "a broker of the cluster"
        elif not state.up[row_of[broker]]:
            yield "broker_down", broker, "down", "a broker that is up"
        if broker in rules.excluded_brokers:
            yield "broker_excluded", broker, "excluded", "another broker"
    if topic in rules.excluded_topics and tuple(target) != tuple(origin):
        yield "topic_excluded", None, _listed(target), _listed(origin)
    if rules.broker_sets:
        sets, before = ({rules.set_of(b) for b in ids} for ids in (target, origin))
        if len(sets) > 1 or (len(before) == 1 and sets != before):
            right = _listed(before) if len(before) == 1 else "one set"
            yield "broker_set", None, _listed(sorted(map(str, sets))), right
    racks, before_racks = (
        len({rack_of[row_of[b]] for b in ids if b in row_of}) for ids in (target, origin)
    )
    needed = min(len(target), n_racks)
    if before_racks < min(len(origin), n_racks):
        needed = min(needed, before_racks)
    if racks < needed:
        yield "racks", None, str(racks), str(needed)


def _listed(items: Iterable[object]) -> str:
    return ",".join(map(str, items))


def _rule_row(
    rule: str, batch: int | None, entry: Mapping[str, Any], broker: int | None, amount: str,
    allowed: str, resource: str | None = None, *, before: bool = False,
) -> dict[str, Any]:
    return {
        "rule": rule, "batch": batch, "topic": entry.get("topic"),
        "partition": entry.get("partition"), "broker_id": broker, "resource": resource,
        "amount": amount, "allowed": allowed, "broken_before": before,
    }


@dataclass(frozen=True, eq=False)
class BrokerLimits:
    """Capacities and limits of brokers without a failure, and what they use of them.

    Attributes
    ----------
    plan : CapacityPlan
        The cluster before the plan, with its capacities and limits.
    load : PartitionLoad
    work : (B,) int64
        Work that the measured use of each processor belongs to.
    """

    plan: CapacityPlan
    load: PartitionLoad
    work: Integers

    @property
    def basis_points(self) -> Mapping[str, int]:
        """The limit of each of `RESOURCES`."""
        return self.plan.normal.basis_points

    def microcores(self, totals: Integers) -> list[int | None]:
        """Use of each processor by the model of the plan; None where it is not known.

        What is measured changes in proportion to the work; a broker that did none keeps its use.
        """
        known, work = self.plan.cpu_is_known.tolist(), totals[:, TOTALS.index("work")].tolist()
        if self.plan.cpu_model == WRITE_EQUIVALENT:
            return [round(Fraction(now, WRITE_EQUIVALENT_WORK)) if is_known else None
                    for now, is_known in zip(work, known, strict=True)]
        if self.load.cpu_microcores is None:
            return [None] * len(known)
        measured = self.load.cpu_microcores.tolist()
        return [
            None if not is_known else round(Fraction(used * now, then)) if then else used
            for used, now, then, is_known in zip(
                measured, work, self.work.tolist(), known, strict=True
            )
        ]

    def used(self, totals: Integers) -> dict[str, list[int | None]]:
        """What brokers use of each of `RESOURCES`."""
        return {
            "nw_in": totals[:, TOTALS.index("bytes_in")].tolist(),
            "nw_out": totals[:, TOTALS.index("bytes_out")].tolist(),
            "cpu": self.microcores(totals),
            "disk": totals[:, TOTALS.index("disk_bytes")].tolist(),
        }

    def capacities(self) -> dict[str, list[int | None]]:
        """Capacities of brokers; None where a broker is down or has none."""
        normal = self.plan.normal
        return {
            name: [most or None for most in column.tolist()]
            for name, column in zip(
                RESOURCES, (*normal.capacity.T, normal.disk_capacity), strict=True
            )
        }

    def over(self, totals: Integers) -> list[list[str]]:
        """Of each broker the resources that it uses above its limit, and replicas if too many."""
        used, capacities = self.used(totals), self.capacities()
        over: list[list[str]] = [[] for _ in self.plan.broker_id]
        for name in RESOURCES:
            for names, amount, most in zip(over, used[name], capacities[name], strict=True):
                if amount is not None and most is not None and (
                    amount * 10_000 > most * self.basis_points[name]
                ):
                    names.append(name)
        held = totals[:, TOTALS.index("replicas")]
        for at in np.flatnonzero(
            self.plan.up & (self.plan.replicas_max >= 0) & (held > self.plan.replicas_max)
        ).tolist():
            over[at].append("replicas")
        return over

    def broken(self, totals: Integers, before: Integers | None) -> list[dict[str, Any]]:
        """Limits that brokers break, by broker; `before` tells which they broke then too."""
        rows = []
        used, capacities = self.used(totals), self.capacities()
        earlier = None if before is None else self.over(before)
        for at, names in enumerate(self.over(totals)):
            for name in names:
                if name == "replicas":
                    amount: int | None = int(totals[at, TOTALS.index("replicas")])
                    allowed, rule = int(self.plan.replicas_max[at]), "replicas_max"
                else:
                    amount, rule = used[name][at], "limit"
                    allowed = (capacities[name][at] or 0) * self.basis_points[name] // 10_000
                rows.append(_rule_row(
                    rule, None, {}, int(self.plan.broker_id[at]), str(amount), str(allowed),
                    name if rule == "limit" else None,
                    before=earlier is not None and name in earlier[at],
                ))
        return rows

    def broken_meanwhile(
        self, batch: int, totals: Integers, start: Integers
    ) -> list[dict[str, Any]]:
        """Disks over their limit while a batch is under way, and not before it."""
        column = TOTALS.index("disk_bytes")
        most = self.capacities()["disk"]
        earlier = self.over(start)
        return [
            _rule_row(
                "disk_limit_meanwhile", batch, {}, int(self.plan.broker_id[at]),
                str(int(totals[at, column])),
                str((most[at] or 0) * self.basis_points["disk"] // 10_000), "disk",
            )
            for at, names in enumerate(self.over(totals))
            if "disk" in names and "disk" not in earlier[at]
        ]
