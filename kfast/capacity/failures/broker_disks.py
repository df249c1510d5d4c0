"""What is on the disks of each broker, and which of its directories is the fullest.

Source: docs/capacity.md, section "Disk".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.io.files import abbreviate
from kfast.state import ClusterState
from kfast.state.records import Rows

__all__ = ["BrokerDisks", "DiskSums", "disk_by_broker"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DiskSums:
    """Bytes on the disks of brokers: sums over partitions.

    Attributes
    ----------
    total_bytes : (B,) int64
    by_directory : list of dict, or None
        Of each broker the bytes by directory; None is a directory that is not known. None where no
        broker lists several directories.
    has_directories : bool
        Whether the load says in which directories replicas lie.
    """

    total_bytes: Integers
    by_directory: list[dict[str | None, int]] | None
    has_directories: bool

    @classmethod
    def of(cls, state: ClusterState, load: PartitionLoad, capacity: BrokerCapacity) -> DiskSums:
        """Sum up a cluster's replicas, whether they are live or not."""
        several = any(len(sizes) > 1 for sizes in capacity.log_dirs)
        return cls(
            disk_by_broker(state, load), _bytes_by_directory(state, load) if several else None,
            _has_directories(load),
        )

    @classmethod
    def add(cls, parts: Sequence[DiskSums]) -> DiskSums:
        """The sums of a cluster, of those of its parts."""
        total: Integers = np.sum([part.total_bytes for part in parts], axis=0)
        every = [part.by_directory for part in parts if part.by_directory is not None]
        by_directory: list[Counter[str | None]] = [Counter() for _ in total]
        for of_part in every:
            for sizes, own in zip(by_directory, of_part, strict=True):
                sizes.update(own)
        return cls(
            total, [dict(sizes) for sizes in by_directory] if every else None,
            any(part.has_directories for part in parts),
        )


@dataclass(frozen=True)
class BrokerDisks:
    """Disks of brokers, as limits are about them.

    Attributes
    ----------
    used_bytes, capacity_bytes : (B,) int64
        Of the fullest directory of a broker with several, if it is known in which each of its
        replicas lies; otherwise of all its directories together. Capacity is 0 where there is none.
    total_bytes : (B,) int64
        Used of all directories together.
    assumptions : tuple of str
    """

    used_bytes: Integers
    capacity_bytes: Integers
    total_bytes: Integers
    assumptions: tuple[str, ...]

    @classmethod
    def of(cls, broker_id: Rows, sums: DiskSums, capacity: BrokerCapacity) -> BrokerDisks:
        """Disks of all brokers, whether they are up or not."""
        total, most = sums.total_bytes, np.maximum(capacity.disk_bytes, 0)
        used = total.copy()
        several = [at for at, sizes in enumerate(capacity.log_dirs) if len(sizes) > 1]
        by_directory = sums.by_directory if sums.has_directories else None
        apart: list[int] = []
        together: list[int] = []
        for at in several:
            sizes = capacity.log_dirs[at]
            if by_directory is None or not by_directory[at].keys() <= sizes.keys():
                together.append(at)
                continue
            apart.append(at)
            used[at], most[at] = _fullest(by_directory[at], sizes)
        assumptions = []
        if apart:
            brokers = abbreviate(broker_id[apart].tolist())
            assumptions.append(f"disk of broker {brokers}: the fullest of several directories")
        if together:
            brokers = abbreviate(broker_id[together].tolist())
            assumptions.append(
                f"disk of broker {brokers}: several directories together, for it is not known in"
                " which of them each replica lies; one may be full before"
            )
        return cls(used, most, total, tuple(assumptions))


def disk_by_broker(state: ClusterState, load: PartitionLoad) -> Integers:
    """(B,) bytes on each broker's disks: of every assigned replica, whether it is live or not."""
    total = np.zeros(state.n_brokers, np.int64)
    for slot in range(state.n_slots):
        rows = np.flatnonzero(slot < state.records["n_replicas"])
        np.add.at(
            total, state.replicas[rows, slot].astype(np.int64), _sizes(load, slot)[rows]
        )
    return total


def _sizes(load: PartitionLoad, slot: int) -> Integers:
    """(P,) bytes of the replicas of a slot."""
    return load.disk_bytes if load.replica_bytes is None else load.replica_bytes[:, slot]


def _has_directories(load: PartitionLoad) -> bool:
    return load.replica_log_dir is not None and load.replica_bytes is not None


def _bytes_by_directory(state: ClusterState, load: PartitionLoad) -> list[dict[str | None, int]]:
    """Of each broker the bytes by directory; None is a directory that is not known."""
    log_dirs = load.replica_log_dir if _has_directories(load) else None
    names: list[str | None] = [*load.log_dirs, None]
    total = np.zeros((state.n_brokers, len(names)), np.int64)
    replicas = np.zeros_like(total)
    for slot in range(state.n_slots):
        rows = np.flatnonzero(slot < state.records["n_replicas"])
        # A directory that is not known has number -1, the last.
        places = np.full(rows.size, -1) if log_dirs is None else log_dirs[rows, slot]
        place = state.replicas[rows, slot].astype(np.int64), places
        np.add.at(total, place, _sizes(load, slot)[rows])
        np.add.at(replicas, place, 1)
    return [
        {name: size for name, size, n in zip(names, sizes, counts, strict=True) if n}
        for sizes, counts in zip(total.tolist(), replicas.tolist(), strict=True)
    ]


def _fullest(used: Mapping[str | None, int], sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes used and size of the fullest directory, the first of equals."""
    name = max(sizes, key=lambda name: Fraction(used.get(name, 0), sizes[name]))
    return used.get(name, 0), sizes[name]
