"""Sweeps in bytes: how full brokers get, and what is in danger, for each of many failures.

Source: docs/capacity.md, "Sweeps".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import MAX_INT, check_instance, shown, whole
from kfast.capacity.failures.broker_disks import BrokerDisks, DiskSums
from kfast.capacity.failures.cpu_models import (
    MEASURED,
    WRITE_EQUIVALENT_LIMIT,
    WRITE_EQUIVALENT_WORK,
    CpuWeights,
    check_cpu_model,
)
from kfast.capacity.failures.failure_effects import FailureEffects
from kfast.capacity.failures.failure_terms import (
    FailureTerms,
    Integers,
    carried_by,
    pass_over,
)
from kfast.capacity.failures.limits import (
    FAILED_LIMITS,
    NORMAL_LIMITS,
    RESOURCES,
    Limits,
    check_limits,
)
from kfast.capacity.failures.nearest_replicas import PartitionRows
from kfast.capacity.failures.partition_sums import PartitionSums
from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.client_racks import LEADER, ConsumerRacks
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.errors import ArgumentError
from kfast.kernels import capacity as kernel
from kfast.kernels import sweep as sweep_kernel
from kfast.schema import CAPACITY_SWEEP
from kfast.state import ClusterState
from kfast.state.arrow_views import view
from kfast.state.records import Rows
from kfast.sweeps.scenarios import Down, Offsets, Scenarios
from kfast.sweeps.sweep_plan import SweepPlan
from kfast.sweeps.sweep_run import prepare_sweep

__all__ = [
    "CAPACITY_METRICS", "CapacityPlan", "capacity_sweep", "potential_nw_out", "prepare_capacity",
]

LAYOUT = kernel.layout()
SCALARS = (
    "bytes_in_leaderless", "bytes_out_leaderless", "bytes_in_refused", "bytes_in_single",
    "disk_single", "bytes_unclean",
)
"""Sums over partitions, in the order of `kernels.capacity.add_loads`."""

CAPACITY_METRICS = tuple(
    column.name for column in CAPACITY_SWEEP.columns
    if column.name not in ("scenario", "brokers_down", "binding")
    and not column.name.endswith("_broker")
)
"""Columns of a sweep that conditions may be about."""

METHODS = ("terms", "pass")
"""Add up terms of failed brokers, or go over all partitions for each scenario."""

RANGE_SCENARIOS = 4096
"""Scenarios that are taken at a time."""

PASS_NS, BROKER_NS, SUBSET_NS = 12.0, 2.0, 60.0
"""Nanoseconds: for a partition in a pass; for a broker whose terms are added, per failed broker;
for the terms of a pair or a larger set. Measured at 1 M partitions on 1000 brokers."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What is measured of some scenarios, before it is a table.

    Attributes
    ----------
    fullest : (n, 3) int32
        Row of the broker with the highest utilisation of bytes in, bytes out and the processor;
        -1 where none has a capacity.
    most : (n, 3) int64
        What it uses.
    over : (n, 4) int64
        Live brokers over the limit of each of them; over any, and not over that of their disks.
    scalars : (n, 6) int64
        `SCALARS`.
    """

    fullest: Rows
    most: Integers
    over: Integers
    scalars: Integers

    @classmethod
    def empty(cls, n: int) -> Measured:
        return cls(
            np.full((n, LAYOUT["resources"]), -1, np.int32),
            *(np.zeros((n, columns), np.int64)
              for columns in (LAYOUT["resources"], LAYOUT["resources"] + 1, LAYOUT["scalars"])),
        )


@dataclass(frozen=True, eq=False)
class CapacityPlan:
    """A cluster with its loads and capacities, made ready for sweeps.

    Attributes
    ----------
    broker_id : (B,) int32
    up : (B,) bool
        Those that can fail.
    partitions : PartitionRows or None
        None where the plan has sums over partitions alone, as that of a cluster in many files.
    sums : PartitionSums
    normal, failed : Limits
        Of the baseline, and of every failure.
    weights : CpuWeights
    replicas_max : (B,) int64
        Replicas that each broker may hold: -1 for any number.
    cpu_model : str
        One of `CPU_MODELS`.
    cpu_is_known : (B,) bool
        Brokers that are up whose use of their processor is measured, or follows from the model.
    disks : BrokerDisks
    disk_rates : (B, 2) int64
        Bytes a second that the disks of each broker write and read; -1 where that is not known.
    cluster : ClusterState or None
        The cluster after its controller's start; a pickled plan leaves it out.
    """

    broker_id: Rows
    up: npt.NDArray[np.bool_]
    partitions: PartitionRows | None
    sums: PartitionSums
    normal: Limits
    failed: Limits
    weights: CpuWeights
    replicas_max: Integers
    cpu_model: str
    cpu_is_known: npt.NDArray[np.bool_]
    disks: BrokerDisks
    disk_rates: Integers
    cluster: ClusterState | None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "cluster": None}

    @property
    def effects(self) -> FailureEffects:
        """What becomes of each partition."""
        return self.rows.effects

    @property
    def load(self) -> Integers:
        """(n, 3) bytes in, bytes out, bytes on disk, in the order of the rows of `effects`."""
        return self.rows.load

    @property
    def terms(self) -> FailureTerms | None:
        """Terms of failed brokers; None where there are too many brokers."""
        return self.sums.terms

    @property
    def replicas(self) -> Integers:
        """(B,) replicas that each broker holds, which no failure changes."""
        return self.sums.replicas

    @property
    def consumers(self) -> ConsumerRacks | None:
        """Consumers that fetch from the nearest replica; None where from the leader."""
        return None if self.partitions is None else self.partitions.consumers

    @property
    def rows(self) -> PartitionRows:
        """Partitions, of which a plan may have sums alone."""
        if self.partitions is None:
            raise ArgumentError(
                "the plan is of a cluster in many files and has sums over its partitions alone;"
                " what asks for partitions needs the cluster on one machine"
            )
        return self.partitions

    def batches(self, scenarios: Scenarios, method: str | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of the sweep (`schema.CAPACITY_SWEEP`), some thousands at a time."""
        for start in range(scenarios.start, scenarios.stop, RANGE_SCENARIOS):
            stop = min(start + RANGE_SCENARIOS, scenarios.stop)
            yield self._batch(scenarios, start, stop, method)

    def _batch(
        self, scenarios: Scenarios, start: int, stop: int, method: str | None
    ) -> pa.RecordBatch:
        offsets, down = scenarios.down(start, stop)
        sizes = np.diff(offsets)
        down = _ascending(offsets, down)
        result = Measured.empty(stop - start)
        summed = self._is_summed(sizes, method)
        if summed.any():
            self._sum_terms(offsets, down, np.flatnonzero(summed), result)
        for number in np.flatnonzero(~summed).tolist():
            self._pass_over(number, down[offsets[number] : offsets[number + 1]], result)
        return self._table(start, offsets, down, result)

    def broker_loads(
        self, offsets: Offsets, down: Rows, method: str | None = None
    ) -> Integers:
        """What every broker uses in some scenarios, as the sweep computes it.

        Parameters
        ----------
        offsets : (n + 1,) int64
        down : (d,) int32
            Broker rows that fail, as `Scenarios.down` gives them.
        method : {"terms", "pass"}, optional
            As for `capacity_sweep`.

        Returns
        -------
        (n, B, 3) int64
            Bytes in per second, bytes out per second, and micro-cores; 0 where a broker has failed
            or was not up before. 24 bytes for each broker and scenario: take some at a time.
        """
        down = _ascending(offsets, down)
        n, n_brokers = offsets.size - 1, self.broker_id.size
        loads = np.zeros((n, n_brokers, LAYOUT["resources"]), np.int64)
        summed = self._is_summed(np.diff(offsets), method)
        if summed.any():
            assert self.terms is not None
            numbers = np.flatnonzero(summed)
            begins, rows = _some(offsets, down, numbers)
            levels = self.terms.levels(int(np.diff(begins).max()))
            kernel.list_loads(
                self.terms, levels, begins, rows, sweep_kernel.widest(), numbers, loads
            )
        for number in np.flatnonzero(~summed).tolist():
            loads[number] = self._carried(down[offsets[number] : offsets[number + 1]])[0]
        kernel.use_resources(self.failed.kernel, offsets, down, loads)
        loads[:, ~self.up] = 0
        return loads

    def _is_summed(
        self, sizes: npt.NDArray[np.int64], method: str | None
    ) -> npt.NDArray[np.bool_]:
        """Whether the terms of each scenario are added up, rather than all partitions."""
        if self.terms is None or method == "pass":
            return np.zeros(sizes.size, np.bool_)
        possible: npt.NDArray[np.bool_] = sizes > 0
        if method == "terms" or self.partitions is None:
            return possible
        widest = int(self.effects.width.max(initial=0))
        k = sizes.astype(np.float64)
        subsets, choose = np.zeros(sizes.size), k
        for size in range(2, widest + 1):
            choose = choose * (k - size + 1) / size
            subsets += np.maximum(choose, 0)
        cost = BROKER_NS * k * self.broker_id.size + SUBSET_NS * subsets
        return possible & (cost < PASS_NS * self.rows.split_effects.rows.size)

    def _sum_terms(
        self, offsets: Offsets, down: Rows, numbers: npt.NDArray[np.int64], result: Measured
    ) -> None:
        assert self.terms is not None
        begins, rows = _some(offsets, down, numbers)
        part = Measured.empty(numbers.size)
        kernel.sweep_terms(
            self.terms, self.terms.levels(int(np.diff(begins).max())), self.failed.kernel, begins,
            rows, sweep_kernel.widest(), part,
        )
        for name in ("fullest", "most", "over", "scalars"):
            getattr(result, name)[numbers] = getattr(part, name)

    def _carried(self, down: Rows) -> tuple[Integers, Integers]:
        """Loads (B, 3) and scalars (6,) of one scenario, by a pass over all partitions.

        Those without a failure are known.
        """
        channels, scalars = self.sums.channels, self.sums.scalars
        if down.size:
            failed = np.zeros(self.broker_id.size + 1, np.uint8)
            failed[down] = 1
            channels, scalars = pass_over(
                self.rows.split_effects, self.rows.split_load, failed, True
            )
        return carried_by(channels, self.weights), scalars

    def _pass_over(self, number: int, down: Rows, result: Measured) -> None:
        """Measure one scenario without terms."""
        carried, scalars = self._carried(down)
        n = self.broker_id.size
        blocks = -(-max(n, 1) // LAYOUT["block_brokers"]) * LAYOUT["block_brokers"]
        load = np.zeros((blocks, LAYOUT["channels"]))
        load[:n, : LAYOUT["resources"]] = carried
        limits = self.failed if down.size else self.normal
        kernel.measure_loads(
            limits.kernel, down, sweep_kernel.widest(), load.ravel(), result, number
        )
        result.scalars[number] = scalars

    def _table(
        self, start: int, offsets: Offsets, down: Rows, result: Measured
    ) -> pa.RecordBatch:
        n = offsets.size - 1
        sizes = np.diff(offsets)
        columns: dict[str, pa.Array] = {
            "scenario": view(np.arange(start, start + n, dtype=np.int64)),
            "brokers_down": view(sizes.astype(np.int32)),
        }
        ids = np.append(self.broker_id, np.int32(-1))
        shares = np.full((n, len(RESOURCES)), -1.0)
        brokers = np.full((n, len(RESOURCES)), -1, np.int32)
        brokers[:, :3] = result.fullest
        held = result.fullest >= 0
        capacity = np.take_along_axis(
            np.vstack([self.failed.capacity, np.ones((1, 3), np.int64)]), result.fullest, axis=0
        )
        shares[:, :3][held] = (result.most / capacity)[held]
        disk_row = self._fullest_disks(offsets, down)
        disk_over, replicas_over, always_over = (
            _live_of(offsets, down, getattr(self.normal, name), getattr(self.failed, name))
            for name in ("disk_over", "replicas_over", "always_over")
        )
        brokers[:, 3] = disk_row
        with_disk = disk_row >= 0
        rows = disk_row[with_disk]
        shares[with_disk, 3] = self.failed.disk[rows] / self.failed.disk_capacity[rows]
        for at, name in enumerate(RESOURCES):
            none = brokers[:, at] < 0
            columns[f"{name}_max"] = pa.array(shares[:, at], mask=none)
            columns[f"{name}_broker"] = pa.array(ids[brokers[:, at]], mask=none)
        columns["over_limit"] = view(result.over[:, 3] + always_over)
        for at, name in enumerate(RESOURCES):
            columns[f"over_limit_{name}"] = view(
                disk_over if name == "disk" else result.over[:, at].copy()
            )
        columns["over_limit_replicas"] = view(replicas_over)
        allowed = np.where(
            sizes[:, None] > 0, *(np.array([[limits.basis_points[name] for name in RESOURCES]])
                                  for limits in (self.failed, self.normal)),
        )
        columns |= _binding(shares, allowed)
        for at, name in enumerate(SCALARS):
            columns[name] = view(result.scalars[:, at].copy())
        schema = CAPACITY_SWEEP.schema
        return pa.record_batch([columns[name] for name in schema.names], schema=schema)

    def _fullest_disks(self, offsets: Offsets, down: Rows) -> Rows:
        """The broker with the fullest disk of those that have not failed."""
        n, order = offsets.size - 1, self.failed.disk_order
        owner = np.repeat(np.arange(n), np.diff(offsets))
        place = np.zeros(n, np.int64)
        fullest = np.append(order, -1)
        while True:
            failed = fullest[place][owner] == down
            if not failed.any():
                break
            place[owner[failed]] += 1
        return fullest[place].astype(np.int32)


def _live_of(
    offsets: Offsets, down: Rows, normal: npt.NDArray[np.bool_], failed: npt.NDArray[np.bool_]
) -> Integers:
    """How many of some brokers each scenario leaves; others where no broker fails."""
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(sizes.size), sizes)
    away = np.bincount(owner, failed[down], minlength=sizes.size).astype(np.int64)
    left: Integers = np.where(sizes > 0, failed.sum(), normal.sum()) - away
    return left


def _some(offsets: Offsets, down: Rows, numbers: npt.NDArray[np.int64]) -> Down:
    """Some of the scenarios, one after another."""
    sizes = np.diff(offsets)[numbers]
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    at = np.arange(int(begins[-1])) - np.repeat(begins[:-1], sizes)
    return begins, down[np.repeat(offsets[:-1][numbers], sizes) + at]


def _ascending(offsets: Offsets, down: Rows) -> Rows:
    """The brokers of each scenario, ascending."""
    owner = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    ascending: Rows = down[np.lexsort((down, owner))]
    return ascending


def _binding(shares: npt.NDArray[np.float64], allowed: Integers) -> dict[str, pa.Array]:
    """The resource that is nearest to its limit, and what is left to it."""
    used = np.where(shares >= 0, shares * 10_000 / allowed, -1)
    nearest = used.argmax(axis=1)
    highest = used.max(axis=1, initial=-1)
    none = highest < 0
    return {
        "binding": pa.array(np.array(RESOURCES)[nearest], pa.string(), mask=none),
        "headroom": pa.array(1 - highest, mask=none),
    }


def prepare_capacity(
    state: ClusterState | SweepPlan, load: PartitionLoad, capacity: BrokerCapacity, *,
    normal_limits: Mapping[str, float] | None = None,
    failed_limits: Mapping[str, float] | None = None, replicas_limit: int | None = None,
    weights: CpuWeights | None = None, cpu_model: str = MEASURED, fetch_from: str = LEADER,
    consumer_racks: Mapping[str, str] | None = None, threads: int = 1,
) -> CapacityPlan:
    """Make a cluster, its loads and its capacities ready for sweeps.

    Parameters
    ----------
    state : ClusterState or SweepPlan
        Not changed; with a plan, the loads are those of the rows of its cluster.
    load : PartitionLoad
    capacity : BrokerCapacity
    normal_limits, failed_limits : mapping of str to float, optional
        Shares of the capacity of nw_in, nw_out, cpu and disk that brokers may use, without a
        failure and with one; what is not given stays as in `limits`.
    replicas_limit : int, optional
        How many replicas any broker may hold, whatever fails. Where its capacity says so too, the
        lower number counts; by default that alone.
    weights : CpuWeights, optional
        Of the measured model; by default those of Cruise Control.
    cpu_model : {"measured", "write-equivalent"}
        A broker's measured use follows its work, and nothing is said of one without; or each uses
        a core for 20 MB/s of bytes in + bytes out / 4, whatever is measured, and may without a
        failure use half of its cores, unless `normal_limits` says otherwise.
    fetch_from : {"leader", "nearest"}
        Where consumers fetch; nearest is the leader if it is in their rack, otherwise the first
        live in-sync replica there in the order of assigned replicas, otherwise the leader.
    consumer_racks : mapping of str to str, optional
        With nearest, shares of the bytes of all consumers by the rack that they are in: texts such
        as 0.5 or 1/3, which add up to 1. By default equal over the racks with brokers.
    threads : int

    Raises
    ------
    ArgumentError
        A limit or a share is wrong; a partition has more than 12 live brokers; loads are too large;
        or the controller cannot start.
    """
    check_instance("state", state, ClusterState, SweepPlan)
    check_instance("load", load, PartitionLoad)
    check_instance("capacity", capacity, BrokerCapacity)
    settings = CapacitySettings.of(
        normal_limits, failed_limits, replicas_limit, weights, cpu_model
    )
    plan = state if isinstance(state, SweepPlan) else prepare_sweep(state, threads=threads)
    consumers = ConsumerRacks.of(plan.cluster, fetch_from, consumer_racks)
    partitions, sums = sum_partitions(plan, load, capacity, settings.weights, consumers)
    return make_plan(
        plan, partitions, sums, load.cpu_microcores, capacity, settings, plan.cluster
    )


@dataclass(frozen=True)
class CapacitySettings:
    """What `prepare_capacity` is given besides the cluster, its loads and its capacities.

    Attributes
    ----------
    normal, failed : dict of str to int
        Limits in basis points.
    replicas_limit, weights, cpu_model
        As `prepare_capacity` takes them.
    """

    normal: dict[str, int]
    failed: dict[str, int]
    replicas_limit: int | None
    weights: CpuWeights
    cpu_model: str

    @classmethod
    def of(
        cls, normal_limits: Mapping[str, float] | None, failed_limits: Mapping[str, float] | None,
        replicas_limit: int | None, weights: CpuWeights | None, cpu_model: str,
    ) -> CapacitySettings:
        """Check them, and fill in what is not given."""
        weights = check_cpu_model(cpu_model, weights)
        if replicas_limit is not None:
            replicas_limit = whole("replicas_limit", replicas_limit, 1, MAX_INT)
        normal = NORMAL_LIMITS if cpu_model == MEASURED else (
            {**NORMAL_LIMITS, "cpu": WRITE_EQUIVALENT_LIMIT}
        )
        return cls(
            check_limits(normal_limits, normal), check_limits(failed_limits, FAILED_LIMITS),
            replicas_limit, weights, cpu_model,
        )


def sum_partitions(
    plan: SweepPlan, load: PartitionLoad, capacity: BrokerCapacity, weights: CpuWeights,
    consumers: ConsumerRacks | None = None,
) -> tuple[PartitionRows, PartitionSums]:
    """Partitions with their loads, and the sums over them."""
    effects = FailureEffects.of(plan)
    by_partition = np.stack(
        [column[effects.rows] for column in (load.bytes_in, load.bytes_out, load.disk_bytes)],
        axis=1,
    )
    disks = DiskSums.of(plan.cluster, load, capacity)
    rows = PartitionRows.of(plan, effects, by_partition, consumers)
    return rows, PartitionSums.of(
        rows.split_effects, rows.split_load, weights, disks, plan.cluster
    )


def make_plan(
    brokers: SweepPlan, partitions: PartitionRows | None, sums: PartitionSums,
    cpu_microcores: Integers | None, capacity: BrokerCapacity, settings: CapacitySettings,
    cluster: ClusterState | None,
) -> CapacityPlan:
    """A plan of sums over partitions.

    Parameters
    ----------
    brokers : SweepPlan
        Of a cluster with these brokers; its partitions are not asked for.
    partitions, cluster
        As a `CapacityPlan` has them.
    sums : PartitionSums
    cpu_microcores : (B,) int64 or None
        As of `PartitionLoad`.
    capacity : BrokerCapacity
    settings : CapacitySettings
    """
    is_measured, up, n = settings.cpu_model == MEASURED, brokers.up, brokers.n_brokers
    used = np.full(n, -1) if cpu_microcores is None else cpu_microcores
    cpu_is_known = up & (used >= 0) if is_measured else up
    held = _capacities(up, capacity, cpu_is_known)
    cpu = (
        _measured_cpu(used, carried_by(sums.channels, settings.weights)[:, 2]) if is_measured
        else np.full((n, 3), (0, 1, WRITE_EQUIVALENT_WORK))
    )
    disks = BrokerDisks.of(brokers.broker_id, sums.disks, capacity)
    disk_capacity = np.where(up, disks.capacity_bytes, 0)
    replicas_max = _replicas_max(capacity, settings.replicas_limit)
    replicas_over = up & (replicas_max >= 0) & (sums.replicas > replicas_max)
    normal, failed = (
        Limits.of(bp, held, cpu, disks.used_bytes, disk_capacity, replicas_over)
        for bp in (settings.normal, settings.failed)
    )
    return CapacityPlan(
        brokers.broker_id, up, partitions, sums, normal, failed, settings.weights, replicas_max,
        settings.cpu_model, cpu_is_known, disks,
        np.stack([capacity.disk_write, capacity.disk_read], axis=1), cluster,
    )


def _replicas_max(capacity: BrokerCapacity, limit: int | None) -> Integers:
    """(B,) how many replicas each broker may hold; -1 where nothing limits them."""
    if limit is None:
        return capacity.replicas_max
    return np.where(
        capacity.replicas_max < 0, limit, np.minimum(capacity.replicas_max, limit)
    ).astype(np.int64)


def _capacities(
    up: npt.NDArray[np.bool_], capacity: BrokerCapacity, cpu_is_known: npt.NDArray[np.bool_]
) -> Integers:
    """(B, 3) capacities, 0 for none: of a broker that is down, of cores whose use is not known."""
    cores = np.where(cpu_is_known, capacity.cpu_microcores, 0)
    held = np.maximum(np.stack([capacity.nw_in, capacity.nw_out, cores], axis=1), 0)
    return np.where(up[:, None], held, 0)


def _measured_cpu(used: Integers, work: Integers) -> Integers:
    """(B, 3) micro-cores without work, with all of it, and that work.

    Where a broker does no work, all that it uses is idle.
    """
    used = np.maximum(used, 0)
    return np.stack(
        [np.where(work > 0, 0, used), np.where(work > 0, used, 0), np.maximum(work, 1)], axis=1
    )


def capacity_sweep(
    plan: CapacityPlan, scenarios: Scenarios, *, method: str | None = None
) -> pa.Table:
    """Measure every scenario of a prepared cluster.

    Parameters
    ----------
    plan : CapacityPlan
    scenarios : Scenarios
        Made for this cluster.
    method : {"terms", "pass"}, optional
        Add up terms of failed brokers, or go over all partitions for each scenario; by default
        what is expected to be faster. Results do not depend on it.

    Returns
    -------
    pa.Table
        One row per scenario (`schema.CAPACITY_SWEEP`).

    Raises
    ------
    ArgumentError
        The scenarios are of another cluster, or the method is unknown or cannot be had.
    """
    check_sweep(plan, scenarios, method)
    return pa.Table.from_batches(plan.batches(scenarios, method), CAPACITY_SWEEP.schema)


def check_sweep(plan: CapacityPlan, scenarios: Scenarios, method: str | None) -> None:
    """Refuse scenarios of another cluster, and methods that cannot be had."""
    check_instance("plan", plan, CapacityPlan)
    check_instance("scenarios", scenarios, Scenarios)
    if not np.array_equal(plan.broker_id, scenarios.broker_id):
        raise ArgumentError("the scenarios are of a cluster with other brokers")
    if method is not None and method not in METHODS:
        raise ArgumentError(f"method is {shown(method)}; allowed are {', '.join(METHODS)}")
    if method == "pass" and plan.partitions is None:
        raise ArgumentError(
            "method is 'pass', which goes over all partitions; the plan has sums over them alone"
        )
    if method == "terms" and plan.terms is None:
        raise ArgumentError(
            f"method is 'terms', which needs too much memory for {plan.broker_id.size} brokers;"
            " the method 'pass' needs none"
        )


def potential_nw_out(state: ClusterState, load: PartitionLoad) -> Integers:
    """What each broker would send if it led every partition of which it has a replica.

    An upper bound of what it sends after any failure, as long as only assigned replicas lead.

    Parameters
    ----------
    state : ClusterState
    load : PartitionLoad

    Returns
    -------
    (B,) int64
        Bytes a second: of each partition bytes out, and bytes in for each other assigned replica.

    Notes
    -----
    Source: Cruise Control, PotentialNwOutGoal.
    """
    check_instance("state", state, ClusterState)
    check_instance("load", load, PartitionLoad)
    n_replicas = state.records["n_replicas"].astype(np.int64)
    out = load.bytes_out + load.bytes_in * np.maximum(n_replicas - 1, 0)
    total = np.zeros(state.n_brokers, np.int64)
    for slot in range(state.n_slots):
        rows = np.flatnonzero(slot < n_replicas)
        np.add.at(total, state.replicas[rows, slot].astype(np.int64), out[rows])
    return total
