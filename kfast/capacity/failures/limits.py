"""How much of a resource brokers may use, and how their use is measured against it.

Source: docs/capacity.md, "Limits".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import number, shown
from kfast.errors import ArgumentError
from kfast.kernels import capacity as kernel

__all__ = [
    "FAILED_LIMITS", "NORMAL_LIMITS", "RESOURCES", "USED", "Limits", "check_limits", "exceeds",
    "utilisation",
]

Integers = npt.NDArray[np.int64]

RESOURCES = ("nw_in", "nw_out", "cpu", "disk")

USED: Mapping[str, str] = {
    "nw_in": "bytes_in", "nw_out": "bytes_out", "cpu": "cpu_microcores", "disk": "disk_bytes",
}
"""What a broker uses of each resource."""

NORMAL_LIMITS: Mapping[str, int] = {"nw_in": 8000, "nw_out": 8000, "cpu": 7000, "disk": 8000}
"""What Cruise Control allows by default, in basis points of the capacity."""

FAILED_LIMITS: Mapping[str, int] = {"nw_in": 9500, "nw_out": 9500, "cpu": 9500, "disk": 8000}
"""What is allowed while brokers have failed."""

LEAST_LIMIT, MOST_LIMIT = 0.0001, 10
"""Shares of a capacity that a limit may be."""

LAYOUT = kernel.layout()


def check_limits(
    shares: Mapping[str, float] | None, defaults: Mapping[str, int]
) -> dict[str, int]:
    """Limits in basis points: the defaults, and instead of some of them shares of the capacity.

    Raises
    ------
    ArgumentError
        It is no mapping, a resource is unknown, or a limit is none that is allowed.
    """
    limits = dict(defaults)
    if not isinstance(shares, Mapping | None):
        raise ArgumentError(
            f"limits is {shown(shares)}; right is a mapping of resources to shares, such as "
            "{'nw_out': 0.8}"
        )
    for name, share in (shares or {}).items():
        if name not in RESOURCES:
            raise ArgumentError(
                f"limits has {shown(name)}; allowed are {', '.join(RESOURCES)}"
            )
        share = number(f"limits: {name}", share, LEAST_LIMIT, MOST_LIMIT)
        limits[name] = round(share * 10_000)
    return limits


@dataclass(frozen=True, eq=False)
class Limits:
    """Capacities and limits of all brokers, made ready for the kernels.

    Attributes
    ----------
    basis_points : dict of str to int
        The limit of each resource.
    capacity : (B, 3) int64
        Bytes in and out per second, and micro-cores; 0 where a broker has none.
    cpu : (B, 3) int64
        Micro-cores without work, more of them with all of it, and that work, above 0.
    kernel : kernels.capacity.Limits
    disk_order : (d,) int64
        Broker rows by utilisation of their disks, the highest first, the lowest row of equals;
        those without a capacity are left out.
    disk, disk_capacity : (B,) int64
        Bytes, as of `BrokerDisks`.
    disk_over, replicas_over : (B,) bool
        Brokers over the limit of their disks, and with more replicas than they may hold.
    """

    basis_points: dict[str, int]
    capacity: Integers
    cpu: Integers
    kernel: kernel.Limits
    disk_order: Integers
    disk: Integers
    disk_capacity: Integers
    disk_over: npt.NDArray[np.bool_]
    replicas_over: npt.NDArray[np.bool_]

    @property
    def always_over(self) -> npt.NDArray[np.bool_]:
        """(B,) brokers over a limit that no failure changes."""
        return self.disk_over | self.replicas_over

    @classmethod
    def of(
        cls, basis_points: dict[str, int], capacity: Integers, cpu: Integers, disk: Integers,
        disk_capacity: Integers, replicas_over: npt.NDArray[np.bool_],
    ) -> Limits:
        """Measure against capacities.

        Parameters
        ----------
        basis_points : dict of str to int
        capacity : (B, 3) int64
            0 where a broker has no such capacity.
        cpu : (B, 3) int64
            Micro-cores without work, more of them with all of it, and that work, above 0.
        disk, disk_capacity : (B,) int64
        replicas_over : (B,) bool
        """
        n = len(capacity)
        blocks = -(-max(n, 1) // LAYOUT["block_brokers"]) * LAYOUT["block_brokers"]
        slope, offset = np.zeros((2, blocks, LAYOUT["channels"]))
        offset[:] = -1
        offset[:n, : LAYOUT["resources"]][capacity > 0] = 0
        held = capacity > 0
        slope[:n, : LAYOUT["resources"]][held] = 1 / capacity[held]
        with_cpu = np.flatnonzero(held[:, 2])
        idle, span, work = cpu[with_cpu].T
        offset[with_cpu, 2] = idle / capacity[with_cpu, 2]
        slope[with_cpu, 2] = span / work / capacity[with_cpu, 2]
        disk_over = exceeds(disk, disk_capacity, basis_points["disk"])
        return cls(
            basis_points, capacity, cpu,
            kernel.Limits(
                slope.ravel(), offset.ravel(), capacity, cpu,
                _allowed(basis_points, capacity, cpu),
                (disk_over | replicas_over).astype(np.uint8),
            ),
            _by_utilisation(disk, disk_capacity), disk, disk_capacity, disk_over, replicas_over,
        )


def exceeds(used: Integers, capacity: Integers, basis_points: int) -> npt.NDArray[np.bool_]:
    """(B,) which brokers use more than a share of their capacity; none without one."""
    return np.array([
        most > 0 and units * 10_000 > most * basis_points
        for units, most in zip(used.tolist(), capacity.tolist(), strict=True)
    ], np.bool_)


def utilisation(
    used: Integers, capacity: Integers, unknown: npt.NDArray[np.bool_]
) -> pa.Array:
    """Shares of the capacities of all brokers; null without a capacity, and where unknown."""
    none = unknown | (capacity == 0)
    return pa.array(used / np.where(none, 1, capacity), mask=none)


def _allowed(
    basis_points: Mapping[str, int], capacity: Integers, cpu: Integers
) -> npt.NDArray[np.float64]:
    """(B, 3) the largest load of each broker within its limit; infinite without a capacity."""
    allowed = np.full(capacity.shape, np.inf)
    for broker, row in enumerate(capacity.tolist()):
        for at, most in enumerate(row):
            if most:
                units = most * basis_points[RESOURCES[at]] // 10_000
                allowed[broker, at] = units if at < 2 else _work(units, *cpu[broker].tolist())
    return allowed


def _work(micro_cores: int, idle: int, span: int, work: int) -> float:
    """The most work that takes up to so many micro-cores: their number is rounded half to even."""
    spare = micro_cores - idle
    if spare < 0:
        return -1
    if not span:
        return np.inf
    most, rest = divmod((2 * spare + 1) * work, 2 * span)
    return most - (rest == 0 and spare % 2)


def _by_utilisation(used: Integers, capacity: Integers) -> Integers:
    rows = np.flatnonzero(capacity > 0).tolist()
    rows.sort(key=lambda row: (-Fraction(int(used[row]), int(capacity[row])), row))
    return np.array(rows, np.int64)
