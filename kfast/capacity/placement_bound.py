"""How good a placement can be at best: a share of limits that no placement goes below.

The highest quotient of a load and a limit is at least the quotient of their sums. What all brokers
carry together does not depend on where replicas are; summed over all failures of one broker, or of
one rack, it does not either, for each replica is on one broker and in one rack. And some broker has
to lead the largest partition.

Source: docs/capacity.md, "A better placement".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kfast.capacity.limits import RESOURCES
from kfast.capacity.placement_problem import PlacementProblem

__all__ = ["LowerBound", "lower_bounds"]

Integers = npt.NDArray[np.int64]


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


def lower_bounds(problem: PlacementProblem) -> dict[str, LowerBound]:
    """The bound of each resource of which all brokers that may hold replicas have a capacity.

    Parameters
    ----------
    problem : PlacementProblem

    Returns
    -------
    dict of str to LowerBound
        By resource; the highest of them is the bound of a placement.
    """
    live = (problem.up != 0) & ((problem.receives != 0) | (problem.gives == 0))
    holders = np.flatnonzero(live).tolist()
    bounds = {}
    for resource in RESOURCES:
        limits = [_work_limits(problem, resource, limit) for limit in problem.limit[resource]]
        if holders and all(limits[0][b] for b in holders):
            bounds[resource] = max(
                _bounds(problem, resource, holders, *limits), key=lambda bound: bound.share
            )
    return bounds


def _work_limits(
    problem: PlacementProblem, resource: str, limits: Sequence[Fraction]
) -> list[Fraction]:
    """Limits in units of the load: of the processor in work, 0 where work does not use it."""
    if resource != "cpu":
        return list(limits)
    _, used, work = problem.cpu.T.tolist()
    return [
        most * work[b] / used[b] if used[b] else Fraction(0) for b, most in enumerate(limits)
    ]


def _bounds(
    problem: PlacementProblem, resource: str, holders: Sequence[int], normal: Sequence[Fraction],
    failed: Sequence[Fraction],
) -> Iterator[LowerBound]:
    """Every bound of a resource."""
    inside = np.arange(problem.original.shape[1]) < problem.n_replicas[:, None]
    counts = (problem.up != 0) | ((problem.receives == 0) & (problem.gives != 0))
    n = np.where(
        problem.counted != 0, (inside & counts[problem.original]).sum(axis=1), 0
    ).astype(np.int64)
    bytes_in, bytes_out, size = problem.load.T
    one = np.minimum(n, 1)
    if resource == "disk":
        held = np.where(inside, np.minimum(problem.replica_bytes, size[:, None]), 0)
        held[:] = np.where(counts[problem.original], held, 0)
        total, per_replica, largest = _sum(held.ravel()), 0, int(size.max(initial=0))
        confined_loss = 0
    else:
        # Live replicas n carry (fixed_in + in_per_replica * n) * bytes in + by_out * bytes out.
        leader_in, leader_out, follower_in = problem.weights.tolist()
        fixed_in, in_per_replica, by_out = {
            "nw_in": (0, 1, 0), "nw_out": (-1, 1, 1),
            "cpu": (leader_in - leader_out - follower_in, leader_out + follower_in, leader_out),
        }[resource]
        fixed = fixed_in * one * bytes_in + by_out * one * bytes_out
        per_replica = in_per_replica * _sum(n * bytes_in)
        total = _sum(fixed) + per_replica
        heaviest = {
            "nw_in": bytes_in * one, "nw_out": (n - 1) * one * bytes_in + one * bytes_out,
            "cpu": (leader_in + leader_out * (n - 1)) * one * bytes_in
            + leader_out * one * bytes_out,
        }[resource]
        largest = int(heaviest.max(initial=0))
        confined_loss = _sum(np.maximum(fixed, 0)[n <= 1])
        confined_to_racks = _sum(np.maximum(fixed, 0)[_confined(problem, n)])
    yield LowerBound(_quotient(total, (normal[b] for b in holders)),
                     "without a failure, the mean of all brokers")
    yield LowerBound(largest / max(normal[b] for b in holders), "the largest partition alone")
    if not problem.n_failures:
        return
    n_single = problem.n_broker_failures
    if resource == "disk":
        if n_single > 1:
            yield LowerBound(_quotient(total, (failed[b] for b in holders)),
                             "while brokers have failed, the mean of all brokers")
        return
    if n_single:
        left = [failed[b] * (n_single - (problem.broker_failure[b] >= 0)) for b in holders]
        yield LowerBound(_quotient(n_single * total - per_replica - confined_loss, left),
                         "after failures of one broker, the mean of all that are left")
    n_racks = problem.n_failures - n_single
    if n_racks:
        left = [failed[b] * (n_racks - int(problem.rack_failure[b] >= 0)) for b in holders]
        yield LowerBound(_quotient(n_racks * total - per_replica - confined_to_racks, left),
                         "after failures of one rack, the mean of all that are left")


def _confined(problem: PlacementProblem, n: Integers) -> npt.NDArray[np.bool_]:
    """Partitions whose replicas may all be in one rack: one has failed, and nobody leads."""
    if problem.n_racks < 2:
        return np.ones(n.size, np.bool_)
    inside = np.arange(problem.original.shape[1]) < problem.n_replicas[:, None]
    racks = problem.rack[problem.original]
    same = ~inside | (racks == racks[:, :1])
    return np.asarray((n <= 1) | same.all(axis=1), np.bool_)


def _sum(values: Integers) -> int:
    """An exact sum."""
    return sum(values.tolist())


def _quotient(load: int, limits: Iterator[Fraction] | Sequence[Fraction]) -> Fraction:
    """A load, by the sum of limits; nothing where no limit is left."""
    most = sum(limits, Fraction(0))
    return Fraction(load) / most if most else Fraction(0)
