"""How many brokers of a class a load needs: no fewer than a bound, and a number that suffices.

The bound compares means: the most that a broker carries after the worst failure is at least the
mean over failures and survivors. What suffices is shown by a placement, as Kafka makes it for new
topics, that keeps every limit through a sweep.

Source: docs/capacity.md, section "How many brokers?".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import pyarrow as pa

from kfast.arguments import check_instance, shown, whole
from kfast.capacity.broker_capacities import BrokerCapacity
from kfast.capacity.capacity_sweeps import CapacityPlan, prepare_capacity
from kfast.capacity.cpu_models import MEASURED, WRITE_EQUIVALENT_WORK, CpuWeights
from kfast.capacity.failure_terms import carried_by, pass_over
from kfast.capacity.partition_loads import PartitionLoad
from kfast.capacity.shares import Amounts
from kfast.errors import ArgumentError, InputError
from kfast.kernels import placement as kernel
from kfast.schema import CAPACITY_BOUNDS, CAPACITY_TOO_LARGE, PLAN
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.generation import SHIFT_STREAM, START_STREAM
from kfast.sweeps.scenario_makers import every_broker, every_rack
from kfast.sweeps.scenarios import Scenarios

__all__ = ["ClusterSize", "Demand", "Failures", "capacity_size", "find_size"]

MOST_BROKERS = 10_000
TRIES = 8
"""Placements that are drawn for each number of brokers."""

Prepare = Callable[[ClusterState, PartitionLoad, BrokerCapacity], CapacityPlan]


@dataclass(frozen=True)
class Failures:
    """What has to be survived.

    Parameters
    ----------
    k : int
        Brokers that fail together, any; 0 for none.
    each_rack : bool
        Every rack, too.
    racks : int
        Racks that brokers are spread over; 0 for none.
    """

    k: int
    each_rack: bool
    racks: int


@dataclass(frozen=True)
class Demand:
    """What all partitions of one replication factor need together.

    Parameters
    ----------
    n_replicas : int
        Of one partition.
    partitions : int
    bytes_in, bytes_out : int
        A second, without replication.
    disk_bytes : int
        Of one replica of each partition.
    """

    n_replicas: int
    partitions: int
    bytes_in: int
    bytes_out: int
    disk_bytes: int


@dataclass(frozen=True)
class Allowed:
    """What a broker of the class may use, in 1/10 000 of a unit; None where nothing limits it.

    Parameters
    ----------
    normal, failed : mapping of str to int
        By resource, without a failure and with one.
    replicas_max : int or None
    cpu_per_work : Fraction
        Micro-cores that a unit of work takes.
    weights : CpuWeights
    """

    normal: Mapping[str, int]
    failed: Mapping[str, int]
    replicas_max: int | None
    cpu_per_work: Fraction
    weights: CpuWeights


@dataclass(frozen=True, eq=False)
class ClusterSize:
    """How many brokers a load needs.

    Parameters
    ----------
    at_least : int or None
        Fewer cannot suffice; None where no number does, for a partition is too large.
    suffices : int or None
        The smallest number for which a placement was found; None where none was.
    status : str
        UNDER_PROVISIONED, RIGHT_SIZED, OVER_PROVISIONED or UNDECIDED.
    bounds : pa.Table
        `schema.CAPACITY_BOUNDS`.
    too_large : pa.Table
        `schema.CAPACITY_TOO_LARGE`: partitions that no broker can carry.
    placement : ClusterState or None
        The cluster of `suffices` brokers, with ids from 1, that keeps the limits.
    """

    at_least: int | None
    suffices: int | None
    status: str
    bounds: pa.Table
    too_large: pa.Table
    placement: ClusterState | None

    @property
    def plan(self) -> pa.Table:
        """The placement as a plan: `schema.PLAN`."""
        if self.placement is None:
            return PLAN.schema.empty_table()
        rows = self.placement.to_tables().partitions
        return rows.select(PLAN.schema.names).cast(PLAN.schema)

    def _summary(self) -> Summary:
        return "ClusterSize", {
            "at least": self.at_least, "suffices": self.suffices, "status": self.status,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def capacity_size(
    state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity, *, every: int = 0,
    each_rack: bool = False, broker_class: str | None = None,
    normal_limits: Mapping[str, float] | None = None,
    failed_limits: Mapping[str, float] | None = None, replicas_limit: int | None = None,
    weights: CpuWeights | None = None, cpu_model: str = MEASURED, seed: int = 0,
) -> ClusterSize:
    """How many brokers of a class carry the load of a cluster, whatever fails.

    Parameters
    ----------
    state : ClusterState
        Its topics, partitions, replication factors and racks count, not its placement.
    load : PartitionLoad
        Of this cluster.
    capacity : BrokerCapacity
        Of this cluster.
    every : int, default 0
        How many brokers, any, may fail together.
    each_rack : bool, default False
        Whether any rack may fail.
    broker_class : str, optional
        Class of the brokers; by default all of the cluster are alike.
    normal_limits, failed_limits : mapping of str to float, optional
        As for `kfast.prepare_capacity`, like the next three.
    replicas_limit : int, optional
    weights : CpuWeights, optional
    cpu_model : {"measured", "write-equivalent"}
    seed : int, default 0
        Of the placements that are tried.

    Returns
    -------
    ClusterSize

    Raises
    ------
    ArgumentError
        An argument is none that is allowed, or `kfast.prepare_capacity` refuses.
    InputError
        Brokers of the class are not alike, or there is none.

    Notes
    -----
    Source: docs/capacity.md, section "How many brokers?".
    """
    check_instance("state", state, ClusterState)
    check_instance("load", load, PartitionLoad)
    check_instance("capacity", capacity, BrokerCapacity)

    def prepare(
        cluster: ClusterState, of_cluster: PartitionLoad, held: BrokerCapacity
    ) -> CapacityPlan:
        return prepare_capacity(
            cluster, of_cluster, held, normal_limits=normal_limits, failed_limits=failed_limits,
            replicas_limit=replicas_limit, weights=weights, cpu_model=cpu_model,
        )

    return find_size(state, load, capacity, prepare, every, each_rack, broker_class, seed)


def find_size(
    state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity, prepare: Prepare,
    every: int, each_rack: bool, broker_class: str | None, seed: int,
) -> ClusterSize:
    """As `capacity_size`; `prepare` makes a cluster ready, with the limits that are asked for."""
    every, seed = whole("every", every, 0, MOST_BROKERS), whole("seed", seed, 0, 2**64 - 1)
    racks = sorted({rack for rack in state.rack.to_pylist() if rack is not None})
    if each_rack and len(racks) < 2:
        raise ArgumentError(f"each_rack: the cluster has {len(racks)} racks; right are at least 2")
    failures = Failures(every, each_rack, len(racks))
    row = _row_of_class(capacity, broker_class)
    plan = prepare(state, load, capacity)
    allowed = _allowed(plan, load, capacity, row)
    rows = np.flatnonzero(state.records["n_replicas"] > 0)
    demands = _demands(state, load, rows)
    too_large = _too_large(state, load, rows, allowed, failures)
    bounds, at_least = _bounds(demands, allowed, failures)
    if too_large:
        at_least = None
    candidate, suffices = None, None
    if at_least is not None:
        trial = _Trial(state, load, capacity, prepare, rows, row, racks, failures, allowed, seed)
        suffices, candidate = _search(trial, at_least, max(len(racks), 1))
    return ClusterSize(
        at_least, suffices, _status(load, at_least, suffices, int(state.up.sum())),
        pa.Table.from_pylist(bounds, CAPACITY_BOUNDS.schema),
        pa.Table.from_pylist(too_large, CAPACITY_TOO_LARGE.schema), candidate,
    )


def _status(
    load: PartitionLoad, at_least: int | None, suffices: int | None, present: int
) -> str:
    """Whether brokers that are up are too few, enough or too many, in Cruise Control's words."""
    if load.warnings:
        return "UNDECIDED"
    if at_least is None or present < at_least:
        return "UNDER_PROVISIONED"
    if suffices is None or present < suffices:
        return "UNDECIDED"
    return "RIGHT_SIZED" if present == suffices else "OVER_PROVISIONED"


# --- the class -----------------------------------------------------------------------------------


def _row_of_class(capacity: BrokerCapacity, name: str | None) -> int:
    """The row of a broker of the class; all of them can carry the same."""
    rows = [row for row, own in enumerate(capacity.price_class) if name is None or own == name]
    if not rows:
        known = sorted({own for own in capacity.price_class if own is not None})
        raise InputError(
            f"{capacity.source}: no broker is of class {shown(name)}; classes are"
            f" {', '.join(known) or 'not named'}"
        )
    for values in (capacity.nw_in, capacity.nw_out, capacity.disk_bytes, capacity.cpu_microcores,
                   capacity.replicas_max):
        if len(set(values[rows].tolist())) > 1:
            raise InputError(
                f"{capacity.source}: brokers{'' if name is None else f' of class {name}'} are not"
                " alike; right is one class, all of whose brokers can carry the same"
            )
    return rows[0]


def _allowed(
    plan: CapacityPlan, load: PartitionLoad, capacity: BrokerCapacity, row: int
) -> Allowed:
    """What a broker like that of a row may use."""
    per_work = Fraction(1, WRITE_EQUIVALENT_WORK)
    if plan.cpu_model == MEASURED:
        per_work = Fraction(0)
        if load.cpu_microcores is not None:
            channels, _ = pass_over(
                plan.effects, plan.load, np.zeros(plan.broker_id.size + 1, np.uint8), False
            )
            work = carried_by(channels, plan.weights)[:, 2]
            known = (load.cpu_microcores >= 0) & (work > 0)
            if known.any():
                per_work = Fraction(
                    int(load.cpu_microcores[known].sum()), int(work[known].sum())
                )
    held = {
        "nw_in": int(capacity.nw_in[row]), "nw_out": int(capacity.nw_out[row]),
        "cpu": int(capacity.cpu_microcores[row]) if per_work else -1,
        "disk": int(capacity.disk_bytes[row]),
    }
    normal, failed = (
        {name: most * limits.basis_points[name] for name, most in held.items() if most >= 0}
        for limits in (plan.normal, plan.failed)
    )
    replicas_max = int(plan.replicas_max[row])
    return Allowed(
        normal, failed, None if replicas_max < 0 else replicas_max, per_work, plan.weights
    )


# --- the lower bound -----------------------------------------------------------------------------


def _demands(state: ClusterState, load: PartitionLoad, rows: Amounts) -> list[Demand]:
    factors = state.records["n_replicas"][rows]
    return [
        Demand(
            factor, int((factors == factor).sum()),
            *(sum(column[rows[factors == factor]].tolist())
              for column in (load.bytes_in, load.bytes_out, load.disk_bytes)),
        )
        for factor in sorted(set(factors.tolist()))
    ]


def mean_use(
    demands: list[Demand], allowed: Allowed, of: int, fail: int
) -> dict[str, Fraction]:
    """What all survivors use together, in the mean over all sets of `fail` of `of` places.

    A place is a broker; or a rack, where the replicas of a partition are in different ones. All
    replicas are in sync.
    """
    use = dict.fromkeys(("nw_in", "nw_out", "cpu", "disk"), Fraction(0))
    for demand in demands:
        n = demand.n_replicas
        lost = Fraction(comb(of - n, fail - n), comb(of, fail)) if fail >= n else Fraction(0)
        live = Fraction(n * (of - fail), of)
        leader_in = demand.bytes_in * (1 - lost)
        follower_in = demand.bytes_in * (live - 1 + lost)
        out = follower_in + demand.bytes_out * (1 - lost)
        use["nw_in"] += leader_in + follower_in
        use["nw_out"] += out
        use["cpu"] += allowed.cpu_per_work * (
            allowed.weights.leader_in * leader_in + allowed.weights.leader_out * out
            + allowed.weights.follower_in * follower_in
        )
        use["disk"] += demand.disk_bytes * live
    return use


def _kept(
    demands: list[Demand], allowed: Allowed, failures: Failures, n_brokers: int
) -> Iterator[tuple[str, str, bool]]:
    """Of each resource and kind of failure whether the mean over survivors keeps the limit."""
    cases = [("normal", n_brokers, 0, Fraction(n_brokers), allowed.normal)]
    if failures.k:
        cases.append(("brokers", n_brokers, failures.k, Fraction(n_brokers - failures.k),
                      allowed.failed))
    if failures.each_rack:
        racks = failures.racks
        cases.append(("rack", racks, 1, Fraction(n_brokers * (racks - 1), racks), allowed.failed))
    for kind, of, fail, survivors, most in cases:
        use = mean_use(demands, allowed, of, fail)
        for name, units in most.items():
            yield name, kind, use[name] * 10_000 <= units * survivors


def _bounds(
    demands: list[Demand], allowed: Allowed, failures: Failures
) -> tuple[list[dict[str, Any]], int | None]:
    """Rows of `schema.CAPACITY_BOUNDS`, and the smallest number that keeps all of them.

    Raises
    ------
    ArgumentError
        More than `MOST_BROKERS` are needed.
    """
    start = max([demand.n_replicas for demand in demands] + [failures.k + 1, 1])
    rows: list[dict[str, Any]] = [
        {"resource": "replication_factor", "failure": "normal", "brokers": start}
    ]
    if allowed.replicas_max is not None:
        total = sum(demand.n_replicas * demand.partitions for demand in demands)
        rows.append({
            "resource": "replicas", "failure": "normal",
            "brokers": max(-(-total // allowed.replicas_max), 1),
        })
    if rows[-1]["brokers"] > MOST_BROKERS:
        raise ArgumentError(f"more than {MOST_BROKERS} brokers are needed for replicas")
    open_bounds = {(name, kind) for name, kind, _ in _kept(demands, allowed, failures, start)}
    n_brokers = start
    while open_bounds:
        if n_brokers > MOST_BROKERS:
            raise ArgumentError(
                f"more than {MOST_BROKERS} brokers are needed for"
                f" {', '.join(sorted(name for name, _ in open_bounds))}; right is a larger class"
            )
        for name, kind, kept in _kept(demands, allowed, failures, n_brokers):
            if kept and (name, kind) in open_bounds:
                open_bounds.discard((name, kind))
                rows.append({"resource": name, "failure": kind, "brokers": n_brokers})
        n_brokers += 1
    step = max(failures.racks, 1)
    at_least = -(-max(row["brokers"] for row in rows) // step) * step
    while not all(kept for _, _, kept in _kept(demands, allowed, failures, at_least)):
        at_least += step
    return rows, at_least


def _too_large(
    state: ClusterState, load: PartitionLoad, rows: Amounts, allowed: Allowed, failures: Failures
) -> list[dict[str, Any]]:
    """Of each resource the partition that is furthest above what one broker may use.

    After a failure a leader has lost no more followers than brokers fail.
    """
    n = state.records["n_replicas"][rows].astype(np.int64)
    bytes_in, bytes_out = load.bytes_in[rows], load.bytes_out[rows]
    left = np.maximum(n - 1 - failures.k, 0) if not failures.each_rack else np.zeros_like(n)
    large: list[dict[str, Any]] = []
    for name, kind, values in (
        ("nw_in", allowed.normal, bytes_in), ("nw_in", allowed.failed, bytes_in),
        ("nw_out", allowed.normal, bytes_in * (n - 1) + bytes_out),
        ("nw_out", allowed.failed, bytes_in * left + bytes_out),
        ("disk", allowed.normal, load.disk_bytes[rows]),
    ):
        if name not in kind or not rows.size:
            continue
        at = int(values.argmax())
        most, units = int(values[at]), kind[name]
        if most * 10_000 <= units or name in [row["resource"] for row in large]:
            continue
        row = int(rows[at])
        large.append({
            "topic": state.topic[int(state.topic_row[row])].as_py(),
            "partition": int(state.partition[row]), "resource": name, "amount": most,
            "allowed": units // 10_000, "parts": -(-most * 10_000 // units),
        })
    return large


# --- the upper bound -----------------------------------------------------------------------------


def _search(
    trial: _Trial, at_least: int, step: int
) -> tuple[int | None, ClusterState | None]:
    """The smallest number for which a placement is found: by doubling, then by bisection."""
    failing, more = at_least - step, 0
    while (candidate := trial.placed(at_least + more)) is None:
        failing = at_least + more
        more = 2 * more or step
        if at_least + more > MOST_BROKERS or more > 4 * max(at_least, 8 * step):
            return None, None
    enough = at_least + more
    while enough - failing > step:
        middle = failing + (enough - failing) // (2 * step) * step
        smaller = trial.placed(middle)
        if smaller is None:
            failing = middle
        else:
            enough, candidate = middle, smaller
    return enough, candidate


class _Trial:
    """Placements of all partitions on any number of brokers of the class."""

    def __init__(
        self, state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity, prepare: Prepare,
        rows: Amounts, row: int, racks: list[str], failures: Failures, allowed: Allowed, seed: int,
    ) -> None:
        self.state, self.load, self.capacity, self.prepare = state, load, capacity, prepare
        self.rows, self.row, self.racks, self.failures = rows, row, racks, failures
        self.allowed, self.seed = allowed, seed

    def placed(self, n_brokers: int) -> ClusterState | None:
        """A cluster of so many brokers that keeps all limits; None where no try does."""
        for number in range(TRIES):
            cluster = self._place(n_brokers, (self.seed + number) % 2**64)
            plan = self._ready(cluster)
            if all(not (batch["over_limit"].to_numpy() > 0).any()
                   for scenarios in self._scenarios(cluster) for batch in plan.batches(scenarios)):
                return cluster
        return None

    def _scenarios(self, cluster: ClusterState) -> Iterator[Scenarios]:
        yield every_broker(cluster).slice(0, 1)
        if self.failures.k:
            yield every_broker(cluster, self.failures.k)
        if self.failures.each_rack:
            yield every_rack(cluster)

    def _place(self, n_brokers: int, seed: int) -> ClusterState:
        """Partitions as Kafka places new topics on brokers that alternate between racks."""
        state, n_racks = self.state, max(len(self.racks), 1)
        start, shift = np.empty((2, state.n_topics), np.int32)
        kernel.random_below(seed, START_STREAM, n_brokers, 0, start)
        kernel.random_below(seed, SHIFT_STREAM, n_brokers, 0, shift)
        circle = np.arange(n_brokers, dtype=np.int32)
        topic_row, partition = state.topic_row[self.rows], state.partition[self.rows]
        factors = state.records["n_replicas"][self.rows].astype(np.int64)
        ends = np.cumsum(factors)
        brokers = np.empty(int(factors.sum()), np.int32)
        for factor in sorted(set(factors.tolist())):
            some = np.flatnonzero(factors == factor)
            replicas = np.empty((some.size, factor), np.int32)
            kernel.place_kafka(
                topic_row[some], partition[some], start, shift, circle,
                (circle % n_racks).astype(np.int32), n_racks, replicas, 1,
            )
            brokers[(ends[some] - factor)[:, None] + np.arange(factor)] = replicas + 1
        lists = pa.ListArray.from_arrays(
            pa.array(np.concatenate([[0], ends]).astype(np.int32)), pa.array(brokers)
        )
        racks = [self.racks[row % n_racks] if self.racks else None for row in range(n_brokers)]
        return ClusterState.from_tables(
            pa.table({
                "broker_id": pa.array(circle + 1), "rack": pa.array(racks, pa.string()),
            }), None,
            pa.table({
                "topic": pa.DictionaryArray.from_arrays(pa.array(topic_row), state.topic),
                "partition": pa.array(partition), "replicas": lists, "isr": lists,
                "leader": pa.array(brokers[ends - factors]),
            }),
            pa.table({"controller": [state.controller]}),
        )

    def _ready(self, cluster: ClusterState) -> CapacityPlan:
        """The cluster with its loads, and as many capacities of the class."""
        n, load = cluster.n_brokers, self.load
        rows = self.rows[_same_partitions(self.state, self.rows, cluster)]
        moved = replace(
            load, bytes_in=load.bytes_in[rows], bytes_out=load.bytes_out[rows],
            milli_msgs_in=load.milli_msgs_in[rows], disk_bytes=load.disk_bytes[rows],
            replica_bytes=None, replica_log_dir=None, cpu_microcores=None, topic=cluster.topic,
        )
        held = self.capacity
        one = self.row

        def of_each(values: Amounts) -> Amounts:
            return np.full(n, values[one])

        of_class = replace(
            held, nw_in=of_each(held.nw_in), nw_out=of_each(held.nw_out),
            disk_bytes=of_each(held.disk_bytes), cpu_microcores=of_each(held.cpu_microcores),
            disk_write=of_each(held.disk_write), disk_read=of_each(held.disk_read),
            replicas_max=of_each(held.replicas_max), log_dirs=(held.log_dirs[one],) * n,
            price_class=(held.price_class[one],) * n,
        )
        plan = self.prepare(cluster, moved, of_class)
        if plan.cpu_model != MEASURED or "cpu" not in self.allowed.normal:
            return plan
        channels, _ = pass_over(plan.effects, plan.load, np.zeros(n + 1, np.uint8), False)
        work = carried_by(channels, plan.weights)[:, 2].tolist()
        used = [round(amount * self.allowed.cpu_per_work) for amount in work]
        return self.prepare(
            cluster, replace(moved, cpu_microcores=np.array(used, np.int64)), of_class
        )


def _same_partitions(state: ClusterState, rows: Amounts, cluster: ClusterState) -> Amounts:
    """Of each partition row of a cluster the place among `rows` of the same partition."""
    number_of = {name: row for row, name in enumerate(state.topic.to_pylist())}
    topic = np.array([number_of[name] for name in cluster.topic.to_pylist()], np.int64)
    keys = state.topic_row[rows].astype(np.int64) << 32 | state.partition[rows]
    wanted = topic[cluster.topic_row] << 32 | cluster.partition
    order = np.argsort(keys)
    places: Amounts = order[np.searchsorted(keys, wanted, sorter=order)]
    return places
