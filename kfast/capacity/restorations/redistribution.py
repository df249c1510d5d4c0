"""Where replicas of failed brokers are made when no plan says it: on brokers that have most room.

Source: docs/capacity.md, section "Restoration".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kfast.state import ClusterState
from kfast.state.records import Rows

__all__ = ["Room", "assigned_brokers"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Room:
    """What brokers carry, and can carry; replicas are added one after another.

    Attributes
    ----------
    used : (2, B) int64
        Bytes in per second, and bytes on disk.
    capacity : (2, B) int64
        Above 0.
    rack : (B,) int32
        Of `distinct_racks`.
    closed : (B + 1,) bool
        Brokers that get none: they have failed, or are down.
    """

    used: Integers
    capacity: Integers
    rack: Rows
    closed: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, used: Integers, capacity: Integers, rack: Rows, closed: npt.NDArray[np.bool_]
    ) -> Room:
        """Copy what is used; a broker without a capacity counts as the smallest that has one."""
        known = np.where(capacity > 0, capacity, np.iinfo(np.int64).max)
        least = known.min(axis=1, initial=np.iinfo(np.int64).max, keepdims=True)
        least = np.where(least == np.iinfo(np.int64).max, 1, least)
        return cls(used.copy(), np.where(capacity > 0, capacity, least), rack, closed)

    def take(self, holders: list[int], assigned: Rows, bytes_in: int, size: int) -> int:
        """Put a replica of a partition on a broker, and return its row; -1 where none is left.

        It is a broker to which the partition is not assigned, in a rack without a live replica of
        it if there is one; of these the broker that then uses the smallest share of its network or
        disk, whichever is fuller, and of equals the lowest row.

        Parameters
        ----------
        holders : list of int
            Rows of the brokers that have a live replica, or get one.
        assigned : (S,) int32
            Rows of the brokers to which it is assigned; B where there is none.
        bytes_in, size : int
        """
        use = self.used + np.array([[bytes_in], [size]])
        closed = self.closed.copy()
        closed[assigned] = closed[holders] = True
        share = np.maximum(*(use / self.capacity))
        share[closed[:-1]] = np.inf
        elsewhere = share.copy()
        for rack in self.rack[holders].tolist():
            elsewhere[self.rack == rack] = np.inf
        best = int(elsewhere.argmin())
        if elsewhere[best] == np.inf:
            best = int(share.argmin())
            if share[best] == np.inf:
                return -1
        self.used[:, best] = use[:, best]
        return best


def assigned_brokers(state: ClusterState, rows: Rows) -> Rows:
    """(n, S) broker rows of the assigned replicas of some partitions; B where there is none."""
    is_assigned = np.arange(state.n_slots) < state.records["n_replicas"][rows][:, None]
    return np.where(is_assigned, state.replicas[rows], state.n_brokers).astype(np.int32)
