"""How many brokers of a class a load needs: no fewer than a bound, and a number that suffices.

The bound compares means: the most that a broker carries after the worst failure is at least the
mean over failures and survivors. What suffices is shown by a placement that keeps every limit
through a sweep: the present one, improved for the brokers that stay and those that are added.

Source: docs/capacity.md, section "How many brokers?".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, comb
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import check_instance, shown, whole
from kfast.capacity.failures.capacity_sweeps import CapacityPlan, prepare_capacity
from kfast.capacity.failures.cpu_models import MEASURED, WRITE_EQUIVALENT_WORK, CpuWeights
from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.capacity.loads.shares import Amounts
from kfast.capacity.placements.placement_problem import baseline_work
from kfast.capacity.placements.placement_search import improve_placement
from kfast.errors import ArgumentError, InputError
from kfast.schema import CAPACITY_BOUNDS, CAPACITY_TOO_LARGE, PLAN, SIZE_BROKERS
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.racks import distinct_racks, numbered_racks
from kfast.sweeps.scenario_makers import every_broker, every_rack

__all__ = ["ClusterSize", "Demand", "Failures", "capacity_size"]

MOST_BROKERS = 5000
MOST_GAP = 10.0
SEARCHES, SEARCHES_OF_SEVERAL = (MOST_GAP, MOST_GAP), (MOST_GAP, 0.02, 0.0)
"""Searches for each number of brokers, and where several fail together: how far above the best
conceivable share they may end, besides where limits are kept. Each starts from the placement of the
one before; the second knows how much processors of new brokers work."""
LEAST_PART = 0.2
"""Of limits after a failure, to which searches for failures of several brokers lower them."""
ROUNDING = 1e-6
"""A search has to end below the limits, by more than it rounds."""
CHANGES = {(True, True): "stays", (False, True): "added", (True, False): "removed"}
"""By whether a broker is in the present cluster, and in that of the answer."""
CAPACITIES = ("nw_in", "nw_out", "disk_bytes", "cpu_microcores", "disk_write", "disk_read",
              "replicas_max")
LOADS = ("bytes_in", "bytes_out", "milli_msgs_in", "disk_bytes")


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
        The cluster of `suffices` brokers that keeps the limits.
    brokers : pa.Table
        `schema.SIZE_BROKERS`: which brokers of the present cluster it keeps, and which are new.
    plan : pa.Table
        `schema.PLAN`: every partition whose replicas are not those of the present cluster.
    replicas_moved, bytes_moved : int
        By the plan: replicas on brokers that did not hold them before.
    """

    at_least: int | None
    suffices: int | None
    status: str
    bounds: pa.Table
    too_large: pa.Table
    placement: ClusterState | None
    brokers: pa.Table
    plan: pa.Table
    replicas_moved: int
    bytes_moved: int

    @property
    def assignments(self) -> pa.Table:
        """The placement: `schema.PLAN` of every partition."""
        if self.placement is None:
            return PLAN.schema.empty_table()
        return _assignments(self.placement)

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
        The present cluster. Its racks are filled evenly.
    load : PartitionLoad
        Of this cluster.
    capacity : BrokerCapacity
        Of this cluster.
    every : int, default 0
        How many brokers, any, may fail together.
    each_rack : bool, default False
        Whether any rack may fail.
    broker_class : str, optional
        Class of the brokers; by default all of the cluster are alike. Those of other classes give
        up their replicas.
    normal_limits, failed_limits : mapping of str to float, optional
        As for `kfast.prepare_capacity`, like the next three.
    replicas_limit : int, optional
    weights : CpuWeights, optional
    cpu_model : {"measured", "write-equivalent"}
    seed : int, default 0
        As for `kfast.improve_placement`, which finds the placement.

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
    every, seed = whole("every", every, 0, MOST_BROKERS), whole("seed", seed, 0, 2**64 - 1)
    n_racks = len(numbered_racks(state)[0])
    if each_rack and n_racks < 2:
        raise ArgumentError(f"each_rack: the cluster has {n_racks} racks; right are at least 2")
    failures = Failures(every, each_rack, n_racks)
    limits: dict[str, Any] = {
        "normal_limits": normal_limits, "failed_limits": failed_limits,
        "replicas_limit": replicas_limit, "weights": weights, "cpu_model": cpu_model,
    }
    members = _of_class(capacity, broker_class)
    plan = prepare_capacity(state, load, capacity, **limits)
    allowed = _allowed(plan, load, capacity, members)
    rows = np.flatnonzero(state.records["n_replicas"] > 0)
    demands = _demands(state, load, rows)
    too_large, largest = _too_large(state, load, rows, allowed, failures)
    bounds, at_least = _bounds(demands, allowed, failures)
    candidate, suffices = None, None
    if not too_large:
        trial = _Trial(
            state, load, capacity, limits, plan.failed.basis_points, members, demands, allowed,
            largest, failures, seed,
        )
        suffices, candidate = _search(trial, at_least, max(n_racks, 1))
    return ClusterSize(
        None if too_large else at_least, suffices,
        _status(load, None if too_large else at_least, suffices, int(state.up.sum())),
        pa.Table.from_pylist(bounds, CAPACITY_BOUNDS.schema),
        pa.Table.from_pylist(too_large, CAPACITY_TOO_LARGE.schema), candidate,
        *_changes(state, load, candidate),
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


def _of_class(capacity: BrokerCapacity, name: str | None) -> list[int]:
    """Rows of the brokers of the class; all of them can carry the same."""
    rows = [row for row, own in enumerate(capacity.price_class) if name is None or own == name]
    known = sorted({own for own in capacity.price_class if own is not None})
    classes = ", ".join(known) or "not named"
    if not rows:
        raise InputError(
            f"{capacity.source}: no broker is of class {shown(name)}; classes are {classes}"
        )
    for column in ("nw_in", "nw_out", "disk_bytes", "cpu_microcores", "replicas_max"):
        if len(set(getattr(capacity, column)[rows].tolist())) > 1:
            raise InputError(
                f"{capacity.source}: brokers{'' if name is None else f' of class {name}'} are not"
                f" alike, their {column} differs; right is one class (broker_class, --class), all"
                f" of whose brokers can carry the same; classes are {classes}"
            )
    return rows


def _allowed(
    plan: CapacityPlan, load: PartitionLoad, capacity: BrokerCapacity, rows: list[int]
) -> Allowed:
    """What a broker like those of some rows may use.

    Where processors are measured, a unit of work takes what it takes on these brokers together.
    """
    per_work = Fraction(1, WRITE_EQUIVALENT_WORK)
    if plan.cpu_model == MEASURED:
        used = np.full(plan.broker_id.size, -1)
        if load.cpu_microcores is not None:
            used = load.cpu_microcores
        work = baseline_work(plan)
        known = [row for row in rows if used[row] >= 0 and work[row] > 0]
        per_work = Fraction(sum(used[known].tolist()), sum(work[known].tolist()) or 1)
    row = rows[0]
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


def _shares(
    demands: list[Demand], allowed: Allowed, failures: Failures, n_brokers: int
) -> Iterator[tuple[str, str, Fraction]]:
    """Of each resource and kind of failure the share of its limit that survivors use: the mean."""
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
            yield name, kind, use[name] * 10_000 / (units * survivors)


def _bounds(
    demands: list[Demand], allowed: Allowed, failures: Failures
) -> tuple[list[dict[str, Any]], int]:
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
    open_bounds = {(name, kind) for name, kind, _ in _shares(demands, allowed, failures, start)}
    n_brokers = start
    while open_bounds:
        if n_brokers > MOST_BROKERS:
            raise ArgumentError(
                f"more than {MOST_BROKERS} brokers are needed for"
                f" {', '.join(sorted(name for name, _ in open_bounds))}; right is a larger class"
            )
        for name, kind, share in _shares(demands, allowed, failures, n_brokers):
            if share <= 1 and (name, kind) in open_bounds:
                open_bounds.discard((name, kind))
                rows.append({"resource": name, "failure": kind, "brokers": n_brokers})
        n_brokers += 1
    step = max(failures.racks, 1)
    at_least = -(-max(row["brokers"] for row in rows) // step) * step
    while any(share > 1 for *_, share in _shares(demands, allowed, failures, at_least)):
        at_least += step
    return rows, at_least


def _too_large(
    state: ClusterState, load: PartitionLoad, rows: Amounts, allowed: Allowed, failures: Failures
) -> tuple[list[dict[str, Any]], Fraction]:
    """Of each resource the partition that is furthest above what one broker may use.

    And the highest share of a limit that one partition uses.

    After a failure a leader has lost no more followers than brokers fail.
    """
    n = state.records["n_replicas"][rows].astype(np.int64)
    bytes_in, bytes_out = load.bytes_in[rows], load.bytes_out[rows]
    left = np.maximum(n - 1 - failures.k, 0) if not failures.each_rack else np.zeros_like(n)
    large: list[dict[str, Any]] = []
    largest = Fraction(0)
    for limits, followers in ((allowed.normal, n - 1), (allowed.failed, left)):
        out = bytes_in * followers + bytes_out
        work = allowed.weights.leader_in * bytes_in + allowed.weights.leader_out * out
        for name, values, per_unit in (
            ("nw_in", bytes_in, Fraction(1)), ("nw_out", out, Fraction(1)),
            ("cpu", work, allowed.cpu_per_work), ("disk", load.disk_bytes[rows], Fraction(1)),
        ):
            if name not in limits or not rows.size:
                continue
            at = int(values.argmax())
            most, units = int(values[at]) * per_unit, limits[name]
            largest = max(largest, most * 10_000 / units)
            if most * 10_000 <= units or name in [row["resource"] for row in large]:
                continue
            row = int(rows[at])
            large.append({
                "topic": state.topic[int(state.topic_row[row])].as_py(),
                "partition": int(state.partition[row]), "resource": name, "amount": round(most),
                "allowed": units // 10_000, "parts": ceil(most * 10_000 / units),
            })
    return large, largest


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
        self, state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity,
        limits: Mapping[str, Any], failed: Mapping[str, int], members: list[int],
        demands: list[Demand], allowed: Allowed, largest: Fraction, failures: Failures, seed: int,
    ) -> None:
        self.state, self.load, self.capacity = state, load, capacity
        self.limits, self.failed, self.members = limits, failed, members
        self.demands, self.allowed, self.largest = demands, allowed, largest
        self.failures, self.seed = failures, seed
        names = ("every-broker",) if failures.k else ()
        self.protect = (*names, "every-rack") if failures.each_rack else names

    def placed(self, n_brokers: int) -> ClusterState | None:
        """A cluster of so many brokers that keeps all limits; None where the search finds none.

        The search knows no failures of several brokers. For them it has lower limits after those of
        one, by as much as the sweep of its last placement has exceeded them.
        """
        brokers = self._brokers(n_brokers)
        present = dict(zip(self.state.broker_id.tolist(), self.state.rack.to_pylist(), strict=True))
        cluster = self._cluster(present | brokers, self._start(brokers))
        part = 1.0
        for gap in SEARCHES if self.failures.k < 2 else SEARCHES_OF_SEVERAL:
            lower = {name: self.failed[name] / 10_000 * part for name in ("nw_out", "cpu")}
            limits = {**self.limits, "failed_limits": (self.limits["failed_limits"] or {}) | lower}
            better = improve_placement(
                cluster, self._load(cluster), self._capacity(cluster.n_brokers),
                protect=self.protect, remove_brokers=present.keys() - brokers.keys(),
                gap=min(self._gap(n_brokers, part), gap), seed=self.seed, **limits,
            )
            cluster = better.state
            if better.after.replicas_misplaced:
                continue
            candidate = self._cluster(brokers, _assignments(cluster))
            highest = self._highest(candidate)
            if highest is None:
                return candidate
            if self.failures.k > 1:
                part = max(part / max(highest, 1.01), LEAST_PART)
        return None

    def _gap(self, n_brokers: int, part: float) -> float:
        """How far above the best conceivable share a placement may be that keeps its limits."""
        one = replace(self.failures, k=min(self.failures.k, 1))
        shares = [
            float(share) / (1 if kind == "normal" else part)
            for _, kind, share in _shares(self.demands, self.allowed, one, n_brokers)
        ]
        best = max(float(self.largest), *shares, 1 / (1 + MOST_GAP))
        return max(1 / best - 1, 0.0) * (1 - ROUNDING)

    def _highest(self, cluster: ClusterState) -> float | None:
        """The highest share of a limit that a broker uses, whatever fails; None if none is over."""
        plan = prepare_capacity(
            cluster, self._load(cluster), self._capacity(cluster.n_brokers), **self.limits
        )
        scenarios = [every_broker(cluster, max(self.failures.k, 1))]
        if not self.failures.k:
            scenarios = [scenarios[0].slice(0, 1)]
        if self.failures.each_rack:
            scenarios.append(every_rack(cluster))
        over, highest = False, 0.0
        for batch in (batch for each in scenarios for batch in plan.batches(each)):
            over |= bool((batch["over_limit"].to_numpy() > 0).any())
            highest = max(highest, 1 - (pc.min(batch["headroom"]).as_py() or 0))
        return highest if over else None

    def _brokers(self, n_brokers: int) -> dict[int, str | None]:
        """Ids and racks of so many brokers, in an order in which racks alternate.

        Of each rack those of the class that are up, the lowest ids first; then new ones.
        """
        state = self.state
        racks, numbers = state.rack.to_pylist(), state.broker_id.tolist()
        by_rack: dict[str | None, list[int]] = {
            rack: [numbers[row] for row in self.members if state.up[row] and racks[row] == rack]
            for rack in (numbered_racks(state)[0] or (None,))
        }
        new = itertools.count(max(numbers, default=0) + 1)
        brokers: dict[int, str | None] = {}
        for at in range(n_brokers // len(by_rack)):
            for rack, ids in by_rack.items():
                brokers[ids[at] if at < len(ids) else next(new)] = rack
        return brokers

    def _start(self, brokers: Mapping[int, str | None]) -> pa.Table:
        """Where replicas are now; of partitions with fewer racks than they may have, anywhere."""
        state, table = self.state, _assignments(self.state)
        lists = table["replicas"].combine_chunks()
        size, ids = pc.list_value_length(lists).to_numpy(), lists.flatten().to_numpy().copy()
        rack, racks = distinct_racks(state), numbered_racks(state)[0]
        owner = np.repeat(np.arange(size.size), size)
        distinct = np.unique(
            np.stack([owner, rack[np.searchsorted(state.broker_id, ids)]]), axis=1
        )
        n_racks = np.bincount(distinct[0], minlength=size.size)
        anew = (n_racks < np.minimum(size, max(len(racks), 1)))[owner]
        slot = np.arange(ids.size) - np.repeat(np.cumsum(size) - size, size)
        circle = np.array([*brokers])
        ids[anew] = circle[(owner + slot)[anew] % circle.size]
        return table.set_column(2, "replicas", pa.ListArray.from_arrays(
            pa.array(np.append(0, np.cumsum(size)).astype(np.int32)), pa.array(ids)
        ))

    def _cluster(self, brokers: Mapping[int, str | None], assignments: pa.Table) -> ClusterState:
        """A cluster in which all replicas are in sync, and the first ones lead."""
        lists = assignments["replicas"]
        return ClusterState.from_tables(
            pa.table({
                "broker_id": pa.array(sorted(brokers), pa.int32()),
                "rack": pa.array([brokers[broker] for broker in sorted(brokers)], pa.string()),
            }), None,
            assignments.append_column("isr", lists)
            .append_column("leader", pc.list_element(lists, 0)),
            pa.table({"controller": [self.state.controller]}),
        )

    def _capacity(self, n_brokers: int) -> BrokerCapacity:
        """Capacities of so many brokers of the class."""
        held, row = self.capacity, self.members[0]
        columns: dict[str, Any] = {
            name: np.full(n_brokers, getattr(held, name)[row]) for name in CAPACITIES
        }
        return replace(
            held, **columns, log_dirs=(held.log_dirs[row],) * n_brokers,
            price_class=(held.price_class[row],) * n_brokers,
        )

    def _load(self, cluster: ClusterState) -> PartitionLoad:
        """What the partitions of a cluster carry; processors by the work of their brokers."""
        lookup = self.state.lookup
        rows = lookup.rows(
            lookup.topics(cluster.topic.to_pylist())[cluster.topic_row], cluster.partition
        )
        columns = {name: getattr(self.load, name)[rows] for name in LOADS}
        load = replace(
            self.load, **columns, replica_bytes=None, replica_log_dir=None, cpu_microcores=None,
            topic=cluster.topic,
        )
        if self.load.cpu_microcores is None or "cpu" not in self.allowed.normal:
            return load
        plan = prepare_capacity(cluster, load, self._capacity(cluster.n_brokers), **self.limits)
        used = [round(work * self.allowed.cpu_per_work) for work in baseline_work(plan).tolist()]
        return replace(load, cpu_microcores=np.array(used, np.int64))


def _assignments(state: ClusterState) -> pa.Table:
    """`schema.PLAN` of every partition that has replicas, sorted by topic and partition."""
    table = state.to_tables().partitions.select(PLAN.schema.names).cast(PLAN.schema)
    has_replicas = pc.greater(pc.list_value_length(table["replicas"]), 0)
    return table.filter(has_replicas).sort_by(
        [("topic", "ascending"), ("partition", "ascending")]
    ).combine_chunks()


# --- what changes --------------------------------------------------------------------------------


def _changes(
    state: ClusterState, load: PartitionLoad, candidate: ClusterState | None
) -> tuple[pa.Table, pa.Table, int, int]:
    """Brokers and partitions that change, and the replicas and bytes that move."""
    if candidate is None:
        return SIZE_BROKERS.schema.empty_table(), PLAN.schema.empty_table(), 0, 0
    rack, future = (
        dict(zip(each.broker_id.tolist(), each.rack.to_pylist(), strict=True))
        for each in (state, candidate)
    )
    brokers = [
        {"broker_id": broker, "rack": (rack | future)[broker],
         "change": CHANGES[broker in rack, broker in future]}
        for broker in sorted(rack | future)
    ]
    now, then = _assignments(state), _assignments(candidate)
    pairs = [*zip(now["replicas"].to_pylist(), then["replicas"].to_pylist(), strict=True)]
    moved = [len({*after} - {*before}) for before, after in pairs]
    sizes = load.disk_bytes[state.lookup.rows_of_table(then)].tolist()
    return (
        pa.Table.from_pylist(brokers, SIZE_BROKERS.schema),
        then.filter(pa.array([before != after for before, after in pairs])),
        sum(moved), sum(n * size for n, size in zip(moved, sizes, strict=True)),
    )
