"""What a search for a better placement works on: loads, limits and rules as arrays of the kernel.

Source: docs/capacity.md, "A better placement".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kfast import arguments
from kfast.arguments import shown
from kfast.capacity.failures.capacity_sweeps import CapacityPlan
from kfast.capacity.failures.failure_terms import carried_by, pass_over
from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.controllers import open_events
from kfast.controllers.reassignment_requests import being_reassigned, is_movable
from kfast.errors import ArgumentError
from kfast.kernels import placement_search as kernel
from kfast.state import ClusterState
from kfast.state.racks import distinct_racks
from kfast.state.records import Rows
from kfast.sweeps.scenario_makers import brokers_by_rack

__all__ = [
    "PROTECTIONS", "UNIT", "Freedom", "PlacementProblem", "SearchArrays", "failure_sets",
    "in_sync_state",
]

Integers = npt.NDArray[np.int64]

LAYOUT = kernel.layout()

PROTECTIONS = ("every-broker", "every-rack", "none")
"""Failures that a placement is measured after."""

UNIT = 1 << 32
"""How the kernel counts shares of limits: so many units are the best conceivable."""

NEVER = -(1 << 62)
"""What a broker carries more after a failure of its own: no sum reaches it."""

MOST_DELTA_BYTES = 1 << 30
"""Memory for what brokers carry more after every failure."""

MOST_HOSTED_BYTES = 1 << 28
"""Memory for the lists of what each broker may hold; beyond that a broker gets at most twice as
many replicas as the fullest broker has."""


def in_sync_state(state: ClusterState) -> ClusterState:
    """The cluster once every live replica is in sync and preferred replicas lead; a copy."""
    after = state.copy()
    events = open_events(after, journal="off")
    events.start()
    events.caught_up(after.broker_id[after.up].tolist())
    events.preferred_leaders_elected()
    return after


def failure_sets(
    state: ClusterState, protect: Sequence[str]
) -> tuple[list[npt.NDArray[np.int32]], list[str]]:
    """Broker rows of each failure that is protected against, brokers first, and their names."""
    sets: list[npt.NDArray[np.int32]] = []
    names: list[str] = []
    if "every-broker" in protect:
        rows = np.flatnonzero(state.up).astype(np.int32)
        sets += [rows[at : at + 1] for at in range(rows.size)]
        names += [f"broker {broker}" for broker in state.broker_id[rows].tolist()]
    if "every-rack" in protect:
        racks, begin, members = brokers_by_rack(state)
        sets += [members[begin[at] : begin[at + 1]] for at in range(len(racks))]
        names += [f"rack {rack}" for rack in racks]
    return sets, names


@dataclass(frozen=True)
class Freedom:
    """What a search may change.

    Attributes
    ----------
    leadership_only : bool
        The order of assigned replicas, never where they are.
    remove_brokers : tuple of int
        Ids of brokers that must give up all replicas.
    keep_brokers : tuple of int
        Ids of brokers that keep their replicas and get none.
    keep_topics : str or None
        Topics whose whole name this regular expression matches stay as they are.
    """

    leadership_only: bool = False
    remove_brokers: tuple[int, ...] = ()
    keep_brokers: tuple[int, ...] = ()
    keep_topics: str | None = None

    @classmethod
    def of(
        cls, state: ClusterState, leadership_only: bool, remove_brokers: Iterable[int],
        keep_brokers: Iterable[int], keep_topics: str | None,
    ) -> Freedom:
        """Refuse brokers that are unknown or both removed and kept, and a wrong expression."""
        brokers = {"remove_brokers": remove_brokers, "keep_brokers": keep_brokers}
        ids = {
            name: tuple(arguments.broker_ids(name, values).tolist())
            for name, values in brokers.items()
        }
        for values in ids.values():
            state.find_brokers(values)
        both = sorted(set(ids["remove_brokers"]) & set(ids["keep_brokers"]))
        if both:
            raise ArgumentError(f"remove_brokers and keep_brokers both have broker {both[0]}")
        if leadership_only and ids["remove_brokers"]:
            raise ArgumentError("remove_brokers needs replicas to move: not with leadership_only")
        try:
            re.compile(keep_topics or "")
        except re.error as error:
            raise ArgumentError(
                f"keep_topics is {shown(keep_topics)}: {error}; right is a regular expression"
            ) from None
        return cls(leadership_only, keep_topics=keep_topics, **ids)

    def topics(self, names: Iterable[str]) -> npt.NDArray[np.bool_]:
        """(T,) whether each topic may change."""
        pattern = None if self.keep_topics is None else re.compile(self.keep_topics)
        return np.array(
            [pattern is None or pattern.fullmatch(name) is None for name in names], np.bool_
        )


@dataclass(eq=False)
class PlacementProblem:
    """A cluster, its loads, limits, failures and rules, as `kernels.placement_search` has them.

    Partitions that are not as the search takes them for (a leader other than the first live
    replica, a reassignment under way, nobody leads) stay as they are; what they bring to brokers is
    in `fixed_base` and `fixed_delta`.
    """

    original: Rows
    n_replicas: Rows
    load: Integers
    replica_bytes: Integers
    movable: npt.NDArray[np.uint8]
    counted: npt.NDArray[np.uint8]
    up: npt.NDArray[np.uint8]
    receives: npt.NDArray[np.uint8]
    gives: npt.NDArray[np.uint8]
    rack: Rows
    least_racks: Rows
    broker_failure: Rows
    rack_failure: Rows
    most_replicas: Integers
    weights: Integers
    limit: dict[str, tuple[list[Fraction], list[Fraction]]]
    capacity: Integers
    basis_points: Integers
    cpu: Integers
    n_failures: int
    n_broker_failures: int
    fixed_base: Integers
    fixed_delta: Integers
    stuck: npt.NDArray[np.bool_]
    slope: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 8)))

    @property
    def receivers(self) -> Rows:
        """Broker rows that may get replicas."""
        return np.flatnonzero(self.receives).astype(np.int32)

    @classmethod
    def of(
        cls, state: ClusterState, load: PartitionLoad, plan: CapacityPlan, freedom: Freedom,
        protect: Sequence[str],
    ) -> PlacementProblem:
        """Bring a cluster that is in sync into the arrays of the kernel.

        Parameters
        ----------
        state : ClusterState
            What `in_sync_state` gives.
        load : PartitionLoad
        plan : CapacityPlan
            Of this state.
        freedom : Freedom
        protect : sequence of str
            Some of `PROTECTIONS`.

        Raises
        ------
        ArgumentError
            A partition has more than 16 replicas, or failures need too much memory.
        """
        n = state.n_brokers
        sets, _ = failure_sets(state, protect)
        if 16 * n * len(sets) > MOST_DELTA_BYTES:
            raise ArgumentError(
                f"protect: {len(sets)} failures of {n} brokers need more than "
                f"{MOST_DELTA_BYTES >> 30} GiB; every-rack or none needs less"
            )
        n_replicas = state.records["n_replicas"].astype(np.int32)
        width = max(int(n_replicas.max(initial=1)), 1)
        if width > LAYOUT["most_replicas"]:
            raise ArgumentError(
                f"a partition has {width} replicas; a search takes at most "
                f"{LAYOUT['most_replicas']}"
            )
        inside = np.arange(width) < n_replicas[:, None]
        original = np.where(inside, state.replicas[:, :width].astype(np.int32), 0)
        counted = _regular(state, n_replicas)
        rows = np.arange(state.n_partitions, dtype=np.int32)
        may_change = counted & is_movable(state, rows)
        may_change &= freedom.topics(state.topic.to_pylist())[state.topic_row]
        moved = LAYOUT["reordered" if freedom.leadership_only else "moved"]
        size = load.disk_bytes[:, None] if load.replica_bytes is None else (
            load.replica_bytes[:, :width]
        )
        receives, gives = _roles(state, freedom)
        # While a target replica is not live, a reassignment to other brokers does not end.
        stays_dead = (inside & ((gives == 0) & (state.up == 0))[original]).any(axis=1)
        rack = distinct_racks(state)
        base, delta = _fixed_loads(plan, counted, sets)
        broker_failure, rack_failure = np.full((2, n), -1, np.int32)
        n_single = int(state.up.sum()) if "every-broker" in protect else 0
        for number, members in enumerate(sets):
            (broker_failure if number < n_single else rack_failure)[members] = number
            delta[:, members, number] = NEVER
        return cls(
            original=np.ascontiguousarray(original), n_replicas=n_replicas,
            load=np.stack([load.bytes_in, load.bytes_out, load.disk_bytes], axis=1),
            replica_bytes=np.where(inside, size, 0),
            movable=np.where(
                may_change, np.where(stays_dead, LAYOUT["reordered"], moved), LAYOUT["fixed"]
            ).astype(np.uint8),
            counted=counted.astype(np.uint8), up=state.up.astype(np.uint8), receives=receives,
            gives=gives, rack=rack,
            least_racks=_least_racks(rack, original, inside, receives, gives),
            broker_failure=broker_failure, rack_failure=rack_failure,
            most_replicas=np.where(
                plan.replicas_max < 0, np.iinfo(np.int64).max, plan.replicas_max
            ),
            weights=np.array([
                plan.weights.leader_in, plan.weights.leader_out, plan.weights.follower_in,
            ], np.int64),
            limit=broker_limits(plan),
            capacity=np.concatenate(
                [plan.normal.capacity, plan.normal.disk_capacity[:, None]], axis=1
            ),
            basis_points=np.array([plan.normal.basis_points[name] for name in RESOURCES]),
            cpu=plan.normal.cpu, n_failures=len(sets),
            n_broker_failures=n_single, fixed_base=base, fixed_delta=delta,
            stuck=np.zeros_like(inside),
        )

    def set_unit(self, best: Fraction) -> None:
        """Count shares of limits in units of which `UNIT` are the best conceivable share."""
        n = self.up.size
        self.slope = np.zeros((n, 2 * len(RESOURCES)))
        scale = UNIT / best
        survives = self.survives
        for at, name in enumerate(RESOURCES):
            for kind, limits in enumerate(self.limit[name]):
                for broker, most in enumerate(limits):
                    if most and (survives[broker] or not kind):
                        self.slope[broker, 2 * at + kind] = float(scale / most)

    @property
    def survives(self) -> npt.NDArray[np.bool_]:
        """(B,) whether a failure leaves the broker."""
        failed = (self.broker_failure >= 0).astype(np.int64) + (self.rack_failure >= 0)
        return np.asarray((self.up != 0) & (failed < self.n_failures), np.bool_)


@dataclass(eq=False)
class SearchArrays:
    """What a search writes to, as `kernels.placement_search` has it."""

    replicas: Rows
    base: Integers
    delta: Integers
    top: Integers
    share: Integers
    violation: Integers
    hosted: Rows
    n_hosted: Integers
    place: Rows
    over: Rows
    place_over: Rows
    stamp: Integers
    stale: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, problem: PlacementProblem, replicas: Rows) -> SearchArrays:
        """Arrays for a search that starts from a placement; the problem's lists get their room."""
        n, n_partitions = problem.up.size, len(replicas)
        inside = np.arange(replicas.shape[1]) < problem.n_replicas[:, None]
        held = np.bincount(replicas[inside], minlength=n)
        room = max(n_partitions, 1)
        if 4 * n * room > MOST_HOSTED_BYTES:
            room = min(room, 2 * int(held.max(initial=0)) + 1)
        problem.most_replicas = np.minimum(problem.most_replicas, room)
        return cls(
            replicas=np.ascontiguousarray(replicas.copy()),
            base=problem.fixed_base.copy(), delta=problem.fixed_delta.copy(),
            top=np.zeros((2, n), np.int64), share=np.zeros(n, np.int64),
            violation=np.zeros(n, np.int64), hosted=np.zeros((n, room), np.int32),
            n_hosted=np.zeros(n, np.int64), place=np.zeros(replicas.shape, np.int32),
            over=np.zeros(n, np.int32), place_over=np.full(n, -1, np.int32),
            stamp=np.zeros(n, np.int64), stale=np.zeros((2, n), np.uint8),
        )


def _regular(state: ClusterState, n_replicas: Rows) -> npt.NDArray[np.bool_]:
    """Partitions whose live assigned replicas are in sync, the first of them leading."""
    rows = np.arange(state.n_partitions, dtype=np.int32)
    assigned = (np.uint64(1) << n_replicas.astype(np.uint64)) - np.uint64(1)
    live = state.live_slots(rows) & assigned
    isr = state.records["isr"].astype(np.uint64)
    lowest = live & (~live + np.uint64(1))
    first = np.log2(np.maximum(lowest, np.uint64(1)).astype(np.float64)).astype(np.int64)
    leader = state.replicas[rows, first].astype(np.int32)
    up = state.up[np.minimum(state.replicas, state.n_brokers - 1)]
    held = np.zeros(state.n_partitions, np.uint64)
    for slot in range(state.n_slots):
        held |= np.where(up[:, slot], np.uint64(1) << np.uint64(slot), np.uint64(0))
    return np.asarray(
        (live != 0) & (isr == live) & (state.records["leader"] == leader)
        & (live == (held & assigned)) & ~being_reassigned(state),
        np.bool_,
    )


def _roles(
    state: ClusterState, freedom: Freedom
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Which brokers may get replicas, and which may lose them."""
    receives, gives = state.up.astype(np.uint8), np.ones(state.n_brokers, np.uint8)
    if freedom.remove_brokers:
        receives[state.find_brokers(list(freedom.remove_brokers))] = 0
    if freedom.keep_brokers:
        rows = state.find_brokers(list(freedom.keep_brokers))
        receives[rows] = gives[rows] = 0
    return receives, gives


def _least_racks(
    rack: Rows, original: Rows, inside: npt.NDArray[np.bool_],
    receives: npt.NDArray[np.uint8], gives: npt.NDArray[np.uint8],
) -> Rows:
    """(P,) racks that replicas of each partition have to be in.

    As many as before, or all racks that may get replicas or have one that stays.
    """
    may_receive = np.zeros(rack.size, np.bool_)
    may_receive[rack[receives != 0]] = True
    before, reached = np.zeros((2, len(original)), np.int32)
    for slot in range(original.shape[1]):
        is_new, stays = inside[:, slot].copy(), gives[original[:, slot]] == 0
        is_new_reached = inside[:, slot] & stays & ~may_receive[rack[original[:, slot]]]
        for other in range(slot):
            differs = rack[original[:, other]] != rack[original[:, slot]]
            is_new &= differs
            is_new_reached &= differs | (gives[original[:, other]] != 0)
        before += is_new
        reached += is_new_reached
    return np.minimum(before, reached + np.unique(rack[receives != 0]).size).astype(np.int32)


def broker_limits(plan: CapacityPlan) -> dict[str, tuple[list[Fraction], list[Fraction]]]:
    """Of each resource what each broker may carry, normally and while brokers have failed."""
    def limits(resource: str, basis_points: int) -> list[Fraction]:
        capacity = plan.normal.disk_capacity if resource == "disk" else (
            plan.normal.capacity[:, RESOURCES.index(resource)]
        )
        return [Fraction(most * basis_points, 10_000) for most in capacity.tolist()]

    return {
        name: (limits(name, plan.normal.basis_points[name]),
               limits(name, plan.failed.basis_points[name]))
        for name in RESOURCES
    }


def baseline_work(plan: CapacityPlan) -> Integers:
    """(B,) the work of each broker without a failure."""
    none = np.zeros(plan.broker_id.size + 1, np.uint8)
    channels, _ = pass_over(plan.effects, plan.load, none, False)
    return np.ascontiguousarray(carried_by(channels, plan.weights)[:, 2])


def _fixed_loads(
    plan: CapacityPlan, counted: npt.NDArray[np.bool_], sets: Sequence[Rows]
) -> tuple[Integers, Integers]:
    """What partitions that are not counted bring: (4, B), and (2, B, D) more after each failure."""
    n = plan.broker_id.size
    base, delta = np.zeros((4, n), np.int64), np.zeros((2, n, len(sets)), np.int64)
    fixed = np.where(counted[plan.effects.rows, None], 0, plan.load)
    if not fixed[:, :2].any():
        return base, delta
    failed = np.zeros(n + 1, np.uint8)
    channels, _ = pass_over(plan.effects, fixed, failed, False)
    carried = carried_by(channels, plan.weights)
    base[:3] = carried.T
    for number, members in enumerate(sets):
        failed[members] = 1
        channels, _ = pass_over(plan.effects, fixed, failed, True)
        failed[members] = 0
        delta[:, :, number] = (carried_by(channels, plan.weights) - carried)[:, 1:].T
    return base, delta
