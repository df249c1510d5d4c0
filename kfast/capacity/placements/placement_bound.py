"""How good a placement can be at best: a share of limits that no placement goes below.

The highest quotient of a load and a limit is at least the quotient of their sums. What all brokers
carry together does not depend on where replicas are; summed over all failures of one broker, or of
one rack, it does not either, for each replica is on one broker and in one rack. Some broker has to
lead the largest partition. What may not move stays where it is, and where few bytes may move, the
fullest brokers keep the rest.

Source: docs/capacity.md, "A better placement".
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kfast.capacity.failures.limits import RESOURCES
from kfast.capacity.placements.placement_problem import LAYOUT, PlacementProblem
from kfast.state import ClusterState

__all__ = ["MAX_BYTES_BOUND", "LowerBound", "lower_bounds"]

Integers = npt.NDArray[np.int64]

MAX_BYTES_BOUND = "max_bytes"
"""Name of the bound that follows from the bytes that may move."""

CLOSE = 1 - 1e-9
"""Sums of float64 are taken for so much less than they are."""

HALVINGS = 40


@dataclass(frozen=True)
class LowerBound:
    """A share of its limit that some broker uses in every placement.

    Attributes
    ----------
    share : Fraction
    reason : str
        What says so, in words.
    """

    share: Fraction
    reason: str


def lower_bounds(
    problem: PlacementProblem, state: ClusterState, max_bytes: int | None = None
) -> dict[str, LowerBound]:
    """What no placement goes below that has every replica where it may be.

    Parameters
    ----------
    problem : PlacementProblem
    state : ClusterState
        Of the problem.
    max_bytes : int, optional
        Bytes that replicas may move.

    Returns
    -------
    dict of str to LowerBound
        By resource, where brokers have a capacity, and `MAX_BYTES_BOUND`; the highest of them is
        the bound of a placement.
    """
    replicas = _Replicas(problem)
    bounds = {}
    for resource in RESOURCES:
        each = [
            bound for bound in _Bounds(problem, state, replicas, resource) if bound.share > 0
        ]
        if each:
            bounds[resource] = max(each, key=lambda bound: bound.share)
    if max_bytes is not None:
        limited = _bytes_bound(problem, replicas, max_bytes)
        if limited is not None:
            bounds[MAX_BYTES_BOUND] = limited
    return bounds


class _Replicas:
    """Replicas in every placement that has all of them where they may be.

    Attributes
    ----------
    inside, stays, live : (P, S) bool
        Slots with a replica; replicas that stay on their broker; those that are or will be live.
    n : (P,) int64
        Live replicas of partitions whose rates are added up.
    free : (B,) bool
        Brokers that may get replicas.
    confined : (P,) bool
        Partitions whose live replicas may all be in one rack.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        original = problem.original
        gives, up = problem.gives != 0, problem.up != 0
        moved = (problem.movable == LAYOUT["moved"])[:, None]
        self.inside = np.arange(original.shape[1]) < problem.n_replicas[:, None]
        self.stays = self.inside & ~(moved & gives[original]) | problem.stuck
        self.live = self.inside & (up[original] | ~self.stays)
        self.n = np.where(problem.counted != 0, self.live.sum(axis=1), 0).astype(np.int64)
        self.free = (problem.receives != 0) & bool(moved.any())
        dead = (self.inside & ~self.live).sum(axis=1)
        self.confined = (self.n <= 1) | (problem.least_racks <= 1 + dead)

    def by_broker(
        self, problem: PlacementProblem, which: npt.NDArray[np.bool_], loads: Integers
    ) -> list[int]:
        """Sum of some replicas' loads (P,) or (P, S) on each broker."""
        total = np.zeros(problem.up.size, np.int64)
        if loads.ndim == 1:
            loads = np.broadcast_to(loads[:, None], which.shape)
        np.add.at(total, problem.original[which], loads[which])
        return [int(load) for load in total.tolist()]


class _Bounds:
    """Every bound of one resource.

    Live replicas n carry (fixed_in + in_per_replica * n) * bytes in + by_out * bytes out; the
    processor in units of work. Its use is rounded: by `slack` of work at most.
    """

    def __init__(
        self, problem: PlacementProblem, state: ClusterState, replicas: _Replicas, resource: str
    ) -> None:
        self.problem, self.state, self.replicas, self.resource = problem, state, replicas, resource
        normal, failed = problem.limit[resource]
        self.slack = [Fraction(0)] * len(normal)
        if resource == "cpu":
            _, used, work = problem.cpu.T.tolist()
            factor = [
                Fraction(all_work, use) if use else Fraction(0)
                for use, all_work in zip(used, work, strict=True)
            ]
            self.slack = factor
            normal = [most * of for most, of in zip(normal, factor, strict=True)]
            failed = [most * of for most, of in zip(failed, factor, strict=True)]
        self.normal, self.failed = normal, failed
        self.at = RESOURCES.index(resource)
        self._sum_up()

    def _sum_up(self) -> None:
        """What partitions carry together, alone, and on the brokers that they cannot leave."""
        problem, replicas, n = self.problem, self.replicas, self.replicas.n
        bytes_in, bytes_out, _ = problem.load.T
        leader_in, leader_out, follower_in = problem.weights.tolist()
        one = np.minimum(n, 1)
        if self.resource == "disk":
            size = problem.load[:, 2]
            held = np.where(replicas.stays, problem.replica_bytes,
                            np.minimum(problem.replica_bytes, size[:, None]))
            held = np.where(replicas.live, held, 0)
            self.total, self.in_per_replica = _sum(held.ravel()), 0
            self.heaviest = np.where(replicas.inside, held, np.iinfo(np.int64).max).min(axis=1)
            self.heaviest[problem.n_replicas == 0] = 0
            self.fixed, self.in_base = np.zeros_like(size), 0
            self.least = self.most = replicas.by_broker(problem, replicas.stays, held)
            return
        fixed_in, self.in_per_replica, by_out = {
            "nw_in": (0, 1, 0), "nw_out": (-1, 1, 1),
            "cpu": (leader_in - leader_out - follower_in, leader_out + follower_in, leader_out),
        }[self.resource]
        self.fixed = fixed_in * one * bytes_in + by_out * one * bytes_out
        self.total = _sum(self.fixed) + self.in_per_replica * _sum(n * bytes_in)
        self.heaviest = {
            "nw_in": bytes_in * one, "nw_out": (n - 1) * one * bytes_in + one * bytes_out,
            "cpu": (leader_in + leader_out * (n - 1)) * one * bytes_in
            + leader_out * one * bytes_out,
        }[self.resource]
        follower = {"nw_in": bytes_in, "nw_out": 0 * bytes_in, "cpu": follower_in * bytes_in}[
            self.resource
        ] * one
        stays = replicas.stays & replicas.live
        leads = stays & (np.cumsum(replicas.live, axis=1) == 1) & (
            (problem.movable == LAYOUT["fixed"]) | (n <= 1)
        )[:, None]
        self.least = replicas.by_broker(
            problem, stays, np.where(leads, self.heaviest[:, None], np.minimum(
                follower, self.heaviest)[:, None])
        )
        self.most = replicas.by_broker(
            problem, stays, np.maximum(follower, self.heaviest)
        )
        base = problem.fixed_base[self.at].tolist()
        self.least = [load + more for load, more in zip(self.least, base, strict=True)]
        self.most = [load + more for load, more in zip(self.most, base, strict=True)]
        self.in_base = sum(base)
        self.total += self.in_base

    def __iter__(self) -> Iterator[LowerBound]:
        yield from self._kept()
        yield from self._largest()
        yield from self._without_failure()
        if self.resource in {"nw_in", "disk"}:
            yield from self._in_racks()
        holders = [
            broker for broker, is_free in enumerate(self.replicas.free.tolist())
            if is_free or self.most[broker]
        ]
        if self.problem.n_failures and holders and all(self.normal[b] for b in holders):
            yield from self._after_failures(holders)

    def _kept(self) -> Iterator[LowerBound]:
        """A broker uses at least what it cannot give up."""
        shares = [
            ((load - slack) / limit, -broker) for broker, (load, slack, limit) in
            enumerate(zip(self.least, self.slack, self.normal, strict=True)) if limit
        ]
        if shares:
            share, broker = max(shares)
            if share > 0:
                yield LowerBound(
                    share, f"what broker {int(self.state.broker_id[-broker])} cannot give up"
                )

    def _largest(self) -> Iterator[LowerBound]:
        """Some broker leads the largest partition, or holds it."""
        limits = np.array([float(limit) or np.inf for limit in self.normal])
        stays = self.replicas.stays & self.replicas.live
        own = np.where(stays, limits[self.problem.original], 0).max(
            axis=1, initial=0
        )
        anywhere = np.max(limits, where=self.replicas.free, initial=0)
        movable = self.problem.movable == LAYOUT["moved"]
        most = np.maximum(own, np.where(movable, anywhere, 0))
        shares = np.divide(self.heaviest, most, out=np.zeros(most.size), where=most > 0)
        if not shares.any():
            return
        row = int(shares.argmax())
        limit = max(
            exact for exact, near in zip(self.normal, limits.tolist(), strict=True)
            if near == most[row]
        )
        share = (int(self.heaviest[row]) - max(self.slack)) / limit
        name = self.state.topic[int(self.state.topic_row[row])].as_py()
        yield LowerBound(share, f"{name}-{int(self.state.partition[row])} alone")

    def _without_failure(self) -> Iterator[LowerBound]:
        """The mean of brokers; those that get nothing carry no more than what they hold."""
        limit, load = Fraction(0), Fraction(self.total)
        free = self.replicas.free.tolist()
        capped = []
        for broker, (most, limit_) in enumerate(zip(self.most, self.normal, strict=True)):
            if free[broker] and not limit_:
                return
            if free[broker]:
                limit += limit_
                load -= self.slack[broker]
            elif limit_:
                capped.append((Fraction(most) / limit_, broker))
                limit += limit_
                load -= self.slack[broker]
            else:
                load -= most
        n_left = sum(free) + len(capped)
        n_all, best = n_left, Fraction(0)
        for share, broker in [*sorted(capped), (None, -1)]:
            best = max(best, load / limit) if limit else best
            if share is None or share >= best:
                break
            load -= self.most[broker] - self.slack[broker]
            limit -= self.normal[broker]
            n_left -= 1
        who = "all brokers" if n_left == n_all else "the brokers that can carry more"
        yield LowerBound(best, f"without a failure, the mean of {who}")

    def _in_racks(self) -> Iterator[LowerBound]:
        """Partitions that have to be in all racks bring at least one replica to each of them."""
        problem, replicas = self.problem, self.replicas
        racks = np.unique(problem.rack[problem.receives != 0])
        outside = ~np.isin(problem.rack, racks)[problem.original]
        everywhere = (problem.least_racks == racks.size) & (problem.n_replicas > 0)
        everywhere &= ~(replicas.stays & (outside | ~replicas.live)).any(axis=1)
        load = _sum(self.heaviest[everywhere])
        for rack in racks.tolist():
            brokers = [
                broker for broker in np.flatnonzero(problem.rack == rack).tolist()
                if replicas.free[broker] or self.most[broker]
            ]
            limits = [self.normal[broker] for broker in brokers]
            if all(limits) and limits:
                yield LowerBound(load / sum(limits, Fraction(0)), (
                    f"the mean of the brokers in the rack of broker "
                    f"{int(self.state.broker_id[brokers[0]])}, one replica of each partition there"
                ))

    def _after_failures(self, holders: Sequence[int]) -> Iterator[LowerBound]:
        """The mean over failures of one kind and over the brokers that are left."""
        problem, n = self.problem, self.replicas.n
        bytes_in = problem.load[:, 0]
        n_single = problem.n_broker_failures
        n_racks = problem.n_failures - n_single
        fixed = np.maximum(self.fixed, 0)
        for n_sets, of_broker, confined, kind in (
            (n_single, problem.broker_failure, n <= 1, "broker"),
            (n_racks, problem.rack_failure, self.replicas.confined, "rack"),
        ):
            times = [n_sets - int(of_broker[broker] >= 0) for broker in holders]
            load = n_sets * (self.total - self.in_base)
            load -= self.in_per_replica * _sum(n * bytes_in) + _sum(fixed[confined])
            if self.resource == "disk":  # The same after every failure.
                times, load = [int(n_sets > 1)] * len(holders), self.total
            limit = _scalar_product(self.failed, holders, times)
            if n_sets and limit:
                yield LowerBound(
                    (load - _scalar_product(self.slack, holders, times)) / limit,
                    f"after failures of one {kind}, the mean of all that are left",
                )


def _scalar_product(
    values: Sequence[Fraction], brokers: Sequence[int], times: Sequence[int]
) -> Fraction:
    """Values of brokers, each so many times, added up."""
    return sum((values[b] * n for b, n in zip(brokers, times, strict=True)), Fraction(0))


class _Ladder:
    """What each broker may give up of one resource, those replicas first that free most per byte.

    Attributes
    ----------
    load, limit : (B,) float64
    begin : (B + 1,) int64
        Where the replicas of each broker begin.
    freed, size : (n,) float64
        Of each replica what it frees, and the bytes that moving it copies.
    """

    def __init__(
        self, problem: PlacementProblem, replicas: _Replicas, resource: str, freed: Integers
    ) -> None:
        may_leave = replicas.inside & ~replicas.stays & (problem.receives[problem.original] != 0)
        broker = problem.original[may_leave]
        size = np.broadcast_to(problem.load[:, 2, None], freed.shape)[may_leave]
        freed_ = freed[may_leave].astype(np.float64)
        order = np.lexsort((size / np.maximum(freed_, 2.0**-20), broker))
        self.freed, self.size = freed_[order], size[order].astype(np.float64)
        n = problem.up.size
        self.begin = np.searchsorted(broker[order], np.arange(n + 1))
        self.sums = [
            (np.cumsum(self.freed[first:last]), np.cumsum(self.size[first:last]))
            for first, last in itertools.pairwise(self.begin.tolist())
        ]
        fixed_load = replicas.by_broker(problem, replicas.stays, freed)
        self.load = np.array(fixed_load, np.float64) + np.array(
            [sums[0][-1] if sums[0].size else 0.0 for sums in self.sums]
        )
        self.limit = np.array([float(limit) for limit in problem.limit[resource][0]])

    def cost(self, share: float) -> npt.NDArray[np.float64]:
        """(B,) bytes that have to leave each broker until it uses no more than a share."""
        cost = np.zeros(self.load.size)
        excess = np.where(self.limit > 0, self.load * CLOSE - share * self.limit, 0)
        for broker in np.flatnonzero(excess > 0).tolist():
            freed, size = self.sums[broker]
            at = int(np.searchsorted(freed, excess[broker]))
            if at == freed.size:
                cost[broker] = np.inf
                continue
            before = freed[at - 1] if at else 0.0
            row = int(self.begin[broker]) + at
            cost[broker] = (size[at - 1] if at else 0.0) + (
                (excess[broker] - before) / self.freed[row] * self.size[row]
            )
        return cost


def _bytes_bound(
    problem: PlacementProblem, replicas: _Replicas, max_bytes: int
) -> LowerBound | None:
    """Which share the fullest disks and networks keep to if so many bytes may move.

    Leaders move for nothing, so bytes out and processors say nothing about it.
    """
    leaves = replicas.inside & ~replicas.stays & (problem.receives[problem.original] == 0)
    left = max(max_bytes - _sum(leaves.sum(axis=1) * problem.load[:, 2]), 0)
    live = (problem.up[problem.original] & problem.counted[:, None]) != 0
    ladders = [
        _Ladder(problem, replicas, "disk", problem.replica_bytes),
        _Ladder(problem, replicas, "nw_in", np.where(live, problem.load[:, :1], 0)),
    ]

    def is_enough(share: float) -> bool:
        cost = np.maximum(*(ladder.cost(share) for ladder in ladders)).sum()
        return bool(cost * CLOSE <= left)

    low, high = 0.0, max(
        float(np.divide(ladder.load, ladder.limit, out=np.zeros(ladder.load.size),
                        where=ladder.limit > 0).max(initial=0)) for ladder in ladders
    )
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return LowerBound(Fraction(low * CLOSE), "with so few bytes to move") if low else None


def _sum(values: Integers) -> int:
    """An exact sum."""
    return sum(values.tolist())
