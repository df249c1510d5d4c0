"""A better placement: assigned replicas that keep every broker within its limits after failures.

`PlacementProblem` says what may change, the kernel changes partition after partition, and here is
decided in which order: replicas leave brokers that must give them up, leadership moves where that
is enough, then replicas move, and in the end what moved without need goes back.

Source: docs/capacity.md, "A better placement".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.analysis.plan_execution import execute_plan
from kfast.arguments import check_instance, number, shown, whole
from kfast.capacity.failures.capacity_sweeps import CapacityPlan, prepare_capacity
from kfast.capacity.failures.cpu_models import MEASURED, CpuWeights
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.capacity.placements.placement_bound import LowerBound, lower_bounds
from kfast.capacity.placements.placement_problem import (
    LAYOUT,
    PROTECTIONS,
    UNIT,
    Freedom,
    PlacementProblem,
    SearchArrays,
    baseline_work,
    broker_limits,
    failure_sets,
    in_sync_state,
)
from kfast.errors import ArgumentError
from kfast.kernels import placement_search as kernel
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows

__all__ = ["BetterPlacement", "PlacementObjective", "improve_placement", "measure_placement"]

Integers = npt.NDArray[np.int64]
Kept: TypeAlias = tuple[tuple[int, int], Rows]

CHUNK_STEPS = 4096
"""Steps between two looks at the clock, and at whether anything still becomes better."""
TRIES = 32
"""Changes that are evaluated in each step; the one that gains most per byte is made."""
LEAST_GAIN = 64
"""One change in so many steps is too few to go on."""
ROUNDS = 48
"""Searches with a tolerance, once no single change makes the placement better."""
TOLERANCES = (4, 8, 16, 32, 64, 0)
"""Parts of the highest excess by which an excess may rise in a step, one after another; 0: none."""
VIOLATIONS = 10_000
"""What is so divided for violations of normal limits, which count in ten-thousandths of them."""
TARGETS = 10
"""Shares that are aimed at, one after another, where bytes are limited."""
LEAST_STEPS, STEPS_PER_PARTITION = 2000, 2
"""Steps of such a search for each tolerance."""
ROUND_EVALUATIONS = 3_000_000
"""Of all such searches together: so many steps for each partition of the largest clusters."""
MAX_BYTES = (1 << 63) - 1
SCENARIOS = 256
"""Failures whose loads are held at a time."""


@dataclass(frozen=True, order=True)
class PlacementObjective:
    """How good a placement is: compared from the first attribute to the last, less is better.

    Attributes
    ----------
    over_limits : int
        By how much brokers are over their normal limits, in ten-thousandths of the limit, rounded
        up; the sum over brokers and resources.
    replicas_misplaced : int
        Replicas on brokers that are down or have to give them up, and above `replicas_max`.
    share : Fraction
        The highest share of a limit that a broker uses, without a failure and after each.
    imbalance : int
        Sum of the squares of what brokers use above 1.1 times the mean, in thousandths of their
        capacity.
    not_preferred : int
        Partitions that another replica than the first leads.
    resource, broker_id, failure : str or None, int or None, str or None
        What, who and when it is that uses the highest share.
    """

    replicas_misplaced: int
    over_limits: int
    share: Fraction
    imbalance: int
    not_preferred: int
    resource: str | None
    broker_id: int | None
    failure: str | None


@dataclass(frozen=True, eq=False)
class BetterPlacement:
    """A placement that is better, as a plan, and how good it is.

    Attributes
    ----------
    plan, rollback : pa.Table
        topic, partition, replicas of every partition that changes, sorted by topic and partition:
        what it gets, and what it has now.
    current : PlacementObjective
        Of the cluster as it is.
    before : PlacementObjective
        Of the cluster once all live replicas are in sync and preferred replicas lead.
    after : PlacementObjective
        Of the same with the plan.
    bound : Fraction
        A share of limits that no placement goes below: the best conceivable.
    bounds : mapping of str to LowerBound
        By resource.
    bytes_moved : int
        Bytes of replicas on brokers that did not hold them before.
    replicas_moved : int
    stopped : str or None
        What ended the search before it had reached its goal: "seconds", "max_bytes" or
        "no better change"; None where it reached it.
    state : ClusterState
        The cluster with the plan, in sync.
    protect : tuple of str
    notes : tuple of str
        What was assumed.
    """

    plan: pa.Table
    rollback: pa.Table
    current: PlacementObjective
    before: PlacementObjective
    after: PlacementObjective
    bound: Fraction
    bounds: Mapping[str, LowerBound]
    bytes_moved: int
    replicas_moved: int
    stopped: str | None
    state: ClusterState
    protect: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def gap(self) -> float:
        """How far the highest share is above the best conceivable, as a part of that."""
        return float(self.after.share / self.bound - 1) if self.bound else 0.0

    def _summary(self) -> Summary:
        return "BetterPlacement", {
            "partitions": self.plan.num_rows, "replicas moved": self.replicas_moved,
            "highest share before": f"{float(self.before.share):.4f}",
            "after": f"{float(self.after.share):.4f}",
            "best conceivable": f"{float(self.bound):.4f}", "gap": f"{self.gap:.2%}",
            "stopped by": self.stopped,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def measure_placement(
    state: ClusterState, plan: CapacityPlan, freedom: Freedom, protect: Sequence[str]
) -> PlacementObjective:
    """How good the placement of a cluster is, from what a capacity sweep computes.

    Parameters
    ----------
    state : ClusterState
    plan : CapacityPlan
        Of this state.
    freedom : Freedom
        Says which brokers must give up their replicas.
    protect : sequence of str
    """
    baseline = _loads(plan, [np.zeros(0, np.int32)])[0]
    limits = broker_limits(plan)
    over = sum(
        max(-(-(int(load) * 10_000 - most * 10_000) // most), 0)
        for at, name in enumerate(RESOURCES)
        for load, most in zip(baseline[:, at].tolist(), limits[name][0], strict=True) if most
    )
    best: tuple[Fraction, str | None, int | None, str | None] = (Fraction(0), None, None, None)
    sets, names = failure_sets(state, protect)
    every = [np.zeros(0, np.int32), *sets]
    for start in range(0, len(every), SCENARIOS):
        chunk = every[start : start + SCENARIOS]
        loads = _loads(plan, chunk)
        for number_, down in enumerate(chunk):
            kind = int(down.size > 0)
            for at, name in enumerate(RESOURCES):
                highest = _highest(loads[number_, :, at], limits[name][kind], down)
                if highest is not None and highest[0] > best[0]:
                    failure = names[start + number_ - 1] if kind else None
                    best = (highest[0], name, int(plan.broker_id[highest[1]]), failure)
    records = state.records
    led = records["leader"] >= 0
    not_preferred = int((led & (records["leader"] != state.replicas[:, 0])).sum())
    return PlacementObjective(
        _misplaced(state, plan, freedom), over, best[0], _imbalance(plan, baseline),
        not_preferred, *best[1:],
    )


def _loads(plan: CapacityPlan, sets: Sequence[Rows]) -> Integers:
    """(n, B, 4) what every broker uses of each resource after some failures."""
    offsets = np.zeros(len(sets) + 1, np.int64)
    np.cumsum([each.size for each in sets], out=offsets[1:])
    rates = plan.broker_loads(offsets, np.concatenate([np.zeros(0, np.int32), *sets]))
    disk = np.broadcast_to(plan.normal.disk[None, :, None], (*rates.shape[:2], 1))
    return np.concatenate([rates, disk], axis=2)


def _highest(
    loads: Integers, limits: Sequence[Fraction], down: Rows
) -> tuple[Fraction, int] | None:
    """The highest share of a limit, and the row of its broker: the lowest of equal ones."""
    most = np.array([float(limit) for limit in limits])
    most[down] = 0
    shares = np.divide(loads, most, out=np.full(most.size, -1.0), where=most > 0)
    highest = shares.max(initial=-1)
    if highest < 0:
        return None
    near = np.flatnonzero(shares >= highest * (1 - 2.0**-40)).tolist()
    row = max(near, key=lambda b: (Fraction(int(loads[b])) / limits[b], -b))
    return Fraction(int(loads[row])) / limits[row], row


def _imbalance(plan: CapacityPlan, baseline: Integers) -> int:
    """Squares of what brokers use above 1.1 times the mean, in thousandths of their capacity."""
    total = 0
    for at in range(len(RESOURCES)):
        capacity = plan.normal.disk_capacity if RESOURCES[at] == "disk" else (
            plan.normal.capacity[:, at]
        )
        pairs = [
            (used, most)
            for used, most in zip(baseline[:, at].tolist(), capacity.tolist(), strict=True) if most
        ]
        if not pairs:
            continue
        mean = sum(used for used, _ in pairs) * 1100 // sum(most for _, most in pairs)
        total += sum(max(used * 1000 // most - mean, 0) ** 2 for used, most in pairs)
    return total


def _misplaced(state: ClusterState, plan: CapacityPlan, freedom: Freedom) -> int:
    """Replicas on brokers that are down or must give them up, and above what a broker may hold."""
    leave = ~state.up
    leave[state.find_brokers(freedom.keep_brokers)] = False
    leave[state.find_brokers(freedom.remove_brokers)] = True
    excess = np.where(plan.replicas_max < 0, 0, plan.replicas - plan.replicas_max)
    return int(plan.replicas[leave].sum() + np.maximum(excess, 0)[~leave].sum())


def improve_placement(
    state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity, *,
    protect: Iterable[str] = ("every-broker",), leadership_only: bool = False,
    remove_brokers: Iterable[int] = (), keep_brokers: Iterable[int] = (),
    keep_topics: str | None = None, normal_limits: Mapping[str, float] | None = None,
    failed_limits: Mapping[str, float] | None = None, replicas_limit: int | None = None,
    weights: CpuWeights | None = None, cpu_model: str = MEASURED, gap: float = 0.02,
    max_bytes: int | None = None, seconds: float | None = None, seed: int = 0,
) -> BetterPlacement:
    """Find assigned replicas that keep brokers further within their limits, whichever brokers fail.

    What is compared first is how many replicas are where they may not be, then by how much brokers
    are over their normal limits, then the highest share of a limit that any broker uses, without a
    failure and after each that is protected against.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    load : PartitionLoad
        Of this cluster.
    capacity : BrokerCapacity
        Of this cluster.
    protect : iterable of {"every-broker", "every-rack", "none"}
        Failures that are measured besides no failure.
    leadership_only : bool, default False
        Change the order of assigned replicas, never where they are.
    remove_brokers : iterable of int
        Ids of brokers that have to give up all replicas; those that are down have to anyway.
    keep_brokers : iterable of int
        Ids of brokers that keep their replicas, down or not, and get no more.
    keep_topics : str, optional
        Topics whose whole name this regular expression matches stay as they are.
    normal_limits, failed_limits : mapping of str to float, optional
        As for `prepare_capacity`, like the next three.
    replicas_limit : int, optional
    weights : CpuWeights, optional
    cpu_model : {"measured", "write-equivalent"}
    gap : float, default 0.02
        Good enough: so close to the best conceivable, as a part of it. 0 goes on as long as
        anything becomes better.
    max_bytes : int, optional
        Bytes that replicas may move, all together.
    seconds : float, optional
        When to stop. The result is a function of the arguments alone unless this ended the search.
    seed : int
        For the order in which changes are tried.

    Returns
    -------
    BetterPlacement
        Without any change where none is better.

    Raises
    ------
    ArgumentError
        An argument is none that is allowed, or loads are too large.

    Source: docs/capacity.md, "A better placement".
    """
    check_instance("state", state, ClusterState)
    check_instance("load", load, PartitionLoad)
    check_instance("capacity", capacity, BrokerCapacity)
    failures = _check_protect(protect)
    freedom = Freedom.of(state, leadership_only, remove_brokers, keep_brokers, keep_topics)
    gap = number("gap", gap, 0, 10)
    if max_bytes is not None:
        max_bytes = whole("max_bytes", max_bytes, 0, MAX_BYTES)
    deadline = None if seconds is None else time.monotonic() + number("seconds", seconds, 0, 1e9)
    seed = whole("seed", seed, 0, 2**64 - 1)

    def prepare(cluster: ClusterState, loads: PartitionLoad) -> CapacityPlan:
        return prepare_capacity(
            cluster, loads, capacity, normal_limits=normal_limits, failed_limits=failed_limits,
            replicas_limit=replicas_limit, weights=weights, cpu_model=cpu_model,
        )

    def measure(cluster: ClusterState, loads: PartitionLoad) -> PlacementObjective:
        return measure_placement(
            cluster, prepare(cluster, loads), freedom, failures
        )

    current_plan = prepare(state, load)
    start = in_sync_state(state)
    start_load, plan = carried_load(load, state, start, current_plan, prepare)
    problem = PlacementProblem.of(start, start_load, plan, freedom, failures)
    before = measure(start, start_load)
    search = _Search(problem, start, gap, max_bytes, deadline, seed)
    replicas = search.run()
    changed = _changed(problem, replicas)
    table = _assignments(start, replicas, problem, changed)
    after, objective = start, before
    if changed.size:
        after = in_sync_state(execute_plan(state, table, journal="off").state)
        objective = measure(after, carried_load(load, state, after, current_plan, prepare)[0])
    if not objective < before:
        replicas, after, objective = problem.original, start, before
        changed = _changed(problem, replicas)
    moved = _moved(replicas, problem.original, problem.n_replicas)
    return BetterPlacement(
        plan=_assignments(start, replicas, problem, changed),
        rollback=_assignments(start, problem.original, problem, changed),
        current=measure_placement(state, current_plan, freedom, failures),
        before=before, after=objective, bound=search.bound, bounds=search.bounds,
        bytes_moved=sum((moved.sum(axis=1) * problem.load[:, 2]).tolist()),
        replicas_moved=int(moved.sum()), stopped=search.stopped, state=after, protect=failures,
        notes=tuple(_notes(problem)),
    )


def _check_protect(protect: Iterable[str]) -> tuple[str, ...]:
    """Failures that are protected against, in the order of `PROTECTIONS`."""
    names = [protect] if isinstance(protect, str) else list(protect)
    for name in names:
        if name not in PROTECTIONS:
            raise ArgumentError(f"protect has {shown(name)}; allowed are {', '.join(PROTECTIONS)}")
    return tuple(name for name in PROTECTIONS[:-1] if name in names)


class _Search:
    """One search: a sequence of calls of the kernel, until the goal is reached or nothing helps."""

    def __init__(
        self, problem: PlacementProblem, state: ClusterState, gap: float, max_bytes: int | None,
        deadline: float | None, seed: int,
    ) -> None:
        self.problem, self.state, self.gap, self.deadline = problem, state, gap, deadline
        self.limited, self.max_bytes = max_bytes, MAX_BYTES if max_bytes is None else max_bytes
        self.random = np.random.Philox(seed)
        self.kinds = LAYOUT["reorder"]
        if (problem.movable == LAYOUT["moved"]).any():
            self.kinds |= LAYOUT["move"] | LAYOUT["exchange"]
        self.stopped: str | None = None
        self.too_large = 0
        self._set_goal()

    def run(self) -> Rows:
        """Replicas of the best placement that was found."""
        self._start(self.problem.original)
        self._relieve()
        relieved = self._settle()
        self._reach(self.goal)
        best = self._keep()
        if self.too_large:
            best = self._reach_within_bytes(relieved, best)
        best = self._search_on(relieved, best)
        self._start(best[1])
        self._restore(max(best[0][1], self.goal))
        if best[0] > (0, self.goal):
            self.stopped = "seconds" if self._late() else (
                "max_bytes" if self.too_large else "no better change"
            )
        self._put_live_first()
        return self.arrays.replicas

    def _put_live_first(self) -> None:
        """Put replicas that are not live last where anything changes: only the first is preferred.

        The order of those that are live stays, and so does what happens after failures.
        """
        replicas, dead = self.arrays.replicas, self.problem.up == 0
        for row in _changed(self.problem, replicas).tolist():
            members = replicas[row, : self.problem.n_replicas[row]]
            if dead[members[0]]:
                members[:] = members[np.argsort(dead[members], kind="stable")]

    def _set_goal(self) -> None:
        """Find bounds, and count shares in units of the highest of them."""
        self.bounds = lower_bounds(self.problem, self.state, self.limited)
        self.bound = max((each.share for each in self.bounds.values()), default=Fraction(0))
        self.problem.set_unit(self.bound or Fraction(1))
        self.goal = int(UNIT * (1 + self.gap)) if self.bound else 0

    def _settle(self) -> Rows:
        """Take replicas that could not leave their broker for such that stay.

        While one of them is not live, no reassignment of its partition ends: only the order of
        replicas may change.
        """
        problem, replicas = self.problem, self.arrays.replicas.copy()
        inside = np.arange(replicas.shape[1]) < problem.n_replicas[:, None]
        leaves = (problem.gives != 0) & (problem.receives == 0)
        remain = ~_moved(problem.original, replicas, problem.n_replicas)
        stuck = inside & leaves[problem.original] & remain
        stuck &= (problem.movable == LAYOUT["moved"])[:, None]
        if stuck.any():
            dead = (stuck & (problem.up == 0)[problem.original]).any(axis=1)
            replicas[dead] = problem.original[dead]
            problem.movable[dead] = LAYOUT["reordered"]
            problem.stuck = stuck
            self._set_goal()
            self._start(replicas)
        return replicas

    def _reach(self, target: int) -> None:
        """Make changes until no broker is above a share, those first that move no bytes."""
        self._descend(LAYOUT["reorder"], target)
        self._descend(self.kinds, target)

    def _reach_within_bytes(self, relieved: Rows, best: Kept) -> Kept:
        """The best of placements that aim at shares between the goal and the highest so far.

        A search that aims too low spends its bytes on brokers that are not the fullest.
        """
        low, high = self.goal, best[0][1]
        for _ in range(TARGETS):
            if high - low <= UNIT // 1000 or self._late():
                break
            target = (low + high) // 2
            self._start(relieved)
            self._reach(target)
            value = self._keep()
            best = min(best, value, key=lambda candidate: candidate[0])
            if value[0] <= (0, target):
                high = value[0][1]
            else:
                low = target
        return best

    def _search_on(self, relieved: Rows, best: Kept) -> Kept:
        """Make changes that are worse for a while, from the best placement, time and again.

        Where bytes are limited, every other time without what has been spent.
        """
        steps = max(LEAST_STEPS, STEPS_PER_PARTITION * len(best[1]))
        rounds = min(ROUNDS, max(ROUND_EVALUATIONS // (steps * len(TOLERANCES)), 1))
        for at in range(rounds):
            if best[0] <= (0, self.goal) or self._late():
                break
            self._start(relieved if self.too_large and at % 2 else best[1])
            highest = best[0][1]
            self._restore(highest)
            target = (highest - 1, (self.goal + highest) // 2, self.goal)[at % 3]
            target = max(min(target, highest - 1), self.goal)
            for part in TOLERANCES:
                self._search(
                    target, highest // part if part else 0, VIOLATIONS // part if part else 0,
                    steps, 1 if part else 2, self.kinds,
                )
            best = min(best, self._keep(), key=lambda candidate: candidate[0])
        return best

    def _search(
        self, target: int, tolerance: int, tolerated: int, steps: int, tries: int, kinds: int
    ) -> tuple[int, int]:
        """Search, and note whether bytes stood against a change."""
        made, n_over, too_large = self.placement.search(
            target, tolerance, tolerated, steps, tries, kinds, self.max_bytes
        )
        self.too_large += too_large
        return made, n_over

    def _start(self, replicas: Rows) -> None:
        self.arrays = SearchArrays.of(self.problem, replicas)
        self.placement = kernel.Placement(
            self.problem, self.arrays, int(self.random.random_raw())
        )

    def _keep(self) -> Kept:
        """Violations and the highest share of the placement as it is, and a copy of it."""
        value = int(self.arrays.violation.sum()), int(self.arrays.share.max(initial=0))
        return value, self.arrays.replicas.copy()

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _relieve(self) -> None:
        """Move replicas off brokers that must give them up, and off those that have too many.

        Of the former the largest first, for they are hard to place; of the latter the smallest.
        """
        problem = self.problem
        held = self.arrays.n_hosted
        leaves = (problem.gives != 0) & (problem.receives == 0)
        crowded = (problem.gives != 0) & ~leaves & (held > problem.most_replicas)
        inside = np.arange(problem.original.shape[1]) < problem.n_replicas[:, None]
        for brokers, size in (
            (leaves, -problem.load.sum(axis=1)), (crowded, problem.load[:, 2]),
        ):
            rows = (inside & brokers[problem.original]).any(axis=1)
            order = np.flatnonzero(rows & (problem.movable == LAYOUT["moved"]))
            order = order[np.argsort(size[order], kind="stable")].astype(np.int32)
            self.too_large += self.placement.relieve(order, self.goal, self.max_bytes)[1]

    def _descend(self, kinds: int, target: int) -> None:
        """Make changes that help until they become rare."""
        while not self._late():
            made, n_over = self._search(target, 0, 0, CHUNK_STEPS, TRIES, kinds)
            if not n_over or made * LEAST_GAIN < CHUNK_STEPS:
                return

    def _restore(self, most: int) -> None:
        """Give partitions their replicas back where the placement is as good with them."""
        for _ in range(2):
            changed = _changed(self.problem, self.arrays.replicas)
            sizes = self.problem.load[changed, 2]
            order = changed[np.argsort(-sizes, kind="stable")]
            if not order.size or not self.placement.restore(order, most):
                return


def _changed(problem: PlacementProblem, replicas: Rows) -> Rows:
    """Rows of partitions whose assigned replicas are others, or in another order."""
    return np.flatnonzero((replicas != problem.original).any(axis=1)).astype(np.int32)


def _moved(replicas: Rows, original: Rows, n_replicas: Rows) -> npt.NDArray[np.bool_]:
    """(P, S) whether each replica is on a broker that holds none of the original ones."""
    inside = np.arange(replicas.shape[1]) < n_replicas[:, None]
    is_new = inside.copy()
    for slot in range(replicas.shape[1]):
        is_new &= ~((replicas == original[:, slot, None]) & inside[:, slot, None])
    return is_new


def _assignments(
    state: ClusterState, replicas: Rows, problem: PlacementProblem, rows: Rows
) -> pa.Table:
    """A plan for some partitions, sorted by topic and partition."""
    names = state.topic.take(pa.array(state.topic_row[rows])).to_pylist()
    numbers = state.partition[rows].tolist()
    order = sorted(range(rows.size), key=lambda at: (names[at], numbers[at]))
    lists = [
        state.broker_id[replicas[rows[at], : problem.n_replicas[rows[at]]]].tolist()
        for at in order
    ]
    return pa.table({
        "topic": pa.array([names[at] for at in order], pa.string()),
        "partition": pa.array([numbers[at] for at in order], pa.int32()),
        "replicas": pa.array(lists, pa.list_(pa.int32())),
    })


def carried_load(
    load: PartitionLoad, state: ClusterState, after: ClusterState, plan: CapacityPlan,
    prepare: Callable[[ClusterState, PartitionLoad], CapacityPlan],
) -> tuple[PartitionLoad, CapacityPlan]:
    """The load of a cluster whose replicas are elsewhere, and that cluster ready for sweeps.

    Replicas that a broker held keep their size, new ones have that of their partition. What is
    measured of processors is in proportion to the work that a broker then has.
    """
    names = after.topic.take(pa.array(after.topic_row))
    rows = state.lookup.rows(state.lookup.topics(names), after.partition)
    rows = np.maximum(rows, 0)
    columns = {
        name: getattr(load, name)[rows]
        for name in ("bytes_in", "bytes_out", "milli_msgs_in", "disk_bytes")
    }
    moved = replace(
        load, **columns, replica_bytes=_replica_bytes(load, state, after, rows),
        replica_log_dir=None,
    )
    if load.cpu_microcores is None:
        return moved, prepare(after, moved)
    before, now = baseline_work(plan), baseline_work(prepare(after, moved))
    used = [
        round(Fraction(use * work_now, work_before)) if use > 0 and work_before else use
        for use, work_now, work_before in zip(
            load.cpu_microcores.tolist(), now.tolist(), before.tolist(), strict=True
        )
    ]
    moved = replace(moved, cpu_microcores=np.array(used, np.int64))
    return moved, prepare(after, moved)


def _replica_bytes(
    load: PartitionLoad, state: ClusterState, after: ClusterState, rows: Rows
) -> Integers | None:
    """(P, S) bytes of each replica of the cluster afterwards."""
    if load.replica_bytes is None:
        return None
    size = np.repeat(load.disk_bytes[rows][:, None], after.n_slots, axis=1)
    brokers = after.replicas.astype(np.int64)
    for slot in range(min(state.n_slots, load.replica_bytes.shape[1])):
        held = (slot < state.records["n_replicas"][rows])[:, None]
        same = held & (brokers == state.replicas[rows, slot].astype(np.int64)[:, None])
        size = np.where(same, load.replica_bytes[rows, slot][:, None], size)
    inside = np.arange(after.n_slots) < after.records["n_replicas"][:, None]
    return np.where(inside, size, 0)


def _notes(problem: PlacementProblem) -> list[str]:
    """What was assumed."""
    notes = [
        "all live replicas of partitions are taken for in sync, and preferred replicas for leaders"
    ]
    fixed = int(((problem.counted == 0) & (problem.n_replicas > 0)).sum())
    if fixed:
        notes.append(
            f"{fixed} partitions stay as they are: they have no live replica, another leader than "
            "the first live replica, or are being reassigned"
        )
    return notes
