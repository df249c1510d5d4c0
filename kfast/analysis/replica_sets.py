"""Partitions as sets of brokers: what keeps each alive, and the distinct sets among them.

The words mean what they mean in a sweep (docs/sweeps.md). The live members of a partition's
ISR keep it alive, and in KRaft those of its ELR. It is under min ISR when fewer members of the ISR
are left than min.insync.replicas, or than assigned replicas where those are fewer.

Source: docs/controller.md, section 1.5; docs/kraft.md, sections 1.5 and 3.2; Kafka 3.9,
`ReplicaManager`'s gauges of min ISR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.kernels import replica_sets as kernel
from kfast.schema import FLAG_ASSIGNED
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.min_isr import is_under_min_isr, topic_min_isr
from kfast.state.records import Rows, Slots

__all__ = ["BrokerSets", "IsrMargins", "group_sets", "live_brokers", "take_isr_margins"]

Counts = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class IsrMargins:
    """What keeps each partition alive, at one moment.

    Attributes
    ----------
    assigned : (P,) bool
        Whether the partition has an assignment; only such are spoken of.
    live_isr, live_replicas : (P,) uint64
        Slots of the ISR members, and of the assigned replicas, that are live.
    electable : (P,) uint64
        Slots of the live members of the ISR and, in KRaft, of the ELR: as long as one of them is
        left, a leader can be elected that lacks nothing.
    in_sync : (P,) uint8
        How many members of the ISR are live.
    needed : (P,) uint8
        The min ISR in force: min.insync.replicas, at most the number of assigned replicas.
    n_replicas : (P,) uint8
        How many replicas are assigned.
    """

    assigned: npt.NDArray[np.bool_]
    live_isr: Slots
    live_replicas: Slots
    electable: Slots
    in_sync: Bytes
    needed: Bytes
    n_replicas: Bytes

    @property
    def spare(self) -> npt.NDArray[np.int16]:
        """(P,) live ISR members beyond the min ISR in force; negative where there are too few."""
        return self.in_sync.astype(np.int16) - self.needed

    @property
    def under_min_isr(self) -> npt.NDArray[np.bool_]:
        """(P,) whether fewer ISR members are live than needed."""
        return is_under_min_isr(self.in_sync, self.needed)


@dataclass(frozen=True)
class BrokerSets:
    """Distinct sets of brokers, numbered from 0.

    Attributes
    ----------
    begin : (G+1,) int64
        Where the members of each set begin.
    members : (m,) int32
        Broker rows, ascending within a set.
    tags : (G,) uint8
        What else tells sets apart.
    partitions : (G,) int64
        How many partitions have each set.
    set_of : (P,) int32
        Number of each partition's set; -1 where it has none.
    """

    begin: Counts
    members: Rows
    tags: Bytes
    partitions: Counts
    set_of: Rows

    @property
    def sizes(self) -> Counts:
        """(G,) how many members each set has."""
        return np.diff(self.begin)

    def __len__(self) -> int:
        return int(self.tags.size)

    def list_by_broker(self, n_brokers: int) -> tuple[Counts, Rows]:
        """Where the sets of each broker row begin, (B+1,), and their numbers, ascending."""
        return list_by_broker(self.begin, self.members, n_brokers)


def list_by_broker(begin: Counts, members: Rows, n_brokers: int) -> tuple[Counts, Rows]:
    """Turn members per set into sets per member; see `BrokerSets.list_by_broker`."""
    first = np.zeros(n_brokers + 1, np.int64)
    np.cumsum(np.bincount(members, minlength=n_brokers), out=first[1:])
    sets_of = np.empty(members.size, np.int32)
    kernel.list_sets_of_brokers(begin, members, first[:-1].copy(), sets_of)
    return first, sets_of


def take_isr_margins(state: ClusterState) -> IsrMargins:
    """Measure a cluster as it is; later changes of the state do not change the answer."""
    n = state.n_partitions
    live_isr, live_replicas = np.empty(n, np.uint64), np.empty(n, np.uint64)
    in_sync, needed = np.empty(n, np.uint8), np.empty(n, np.uint8)
    kernel.measure_isrs(
        state.columns, topic_min_isr(state), live_isr, live_replicas, in_sync, needed,
    )
    assigned = (state.records["flags"] & FLAG_ASSIGNED) != 0
    n_replicas = state.records["n_replicas"].copy()
    elr = None if state.quorum is None else state.quorum.elr
    electable = live_isr if elr is None else live_isr | (live_replicas & elr)
    return IsrMargins(assigned, live_isr, live_replicas, electable, in_sync, needed, n_replicas)


def assigned_masks(margins: IsrMargins) -> Slots:
    """(P,) slots of the assigned replicas; empty where nothing is assigned."""
    masks = first_slots(margins.n_replicas)
    masks[~margins.assigned] = 0
    return masks


def group_sets(
    state: ClusterState, masks: npt.NDArray[Any], tags: npt.NDArray[Any] | None = None
) -> BrokerSets:
    """Find the distinct sets of brokers among the partitions of a cluster.

    Parameters
    ----------
    state : ClusterState
        Whose replica matrix the masks speak of.
    masks : (P,) uint64
        Slots whose brokers are the partition's set; an empty one is no set.
    tags : (P,) uint8, optional
        Sets with different tags are different.
    """
    n = state.n_partitions
    slots = np.ascontiguousarray(masks, np.uint64)
    marks = np.zeros(n, np.uint8) if tags is None else np.ascontiguousarray(tags, np.uint8)
    table = np.zeros(1 << max(4, int(2 * n).bit_length()), np.uint64)
    set_of, begin = np.empty(n, np.int32), np.empty(n + 1, np.int64)
    tag_of = np.empty(n, np.uint8)
    members = np.empty(_count_bits(slots), np.int32)
    found = kernel.group_sets(state.columns, slots, marks, table, set_of, begin, members, tag_of)
    counts = np.bincount(set_of[set_of >= 0], minlength=found).astype(np.int64)
    size = int(begin[found])
    return BrokerSets(
        begin[: found + 1].copy(), members[:size].copy(), tag_of[:found].copy(), counts, set_of
    )


def _count_bits(masks: Slots) -> int:
    """How many bits are set in all masks together."""
    bits = np.array([number.bit_count() for number in range(256)], np.uint8)
    return int(bits[masks.view(np.uint8)].sum(dtype=np.int64))


def live_brokers(state: ClusterState) -> Rows:
    """Rows of the brokers that are live: up and not shutting down; ascending."""
    return np.flatnonzero(state.live).astype(np.int32)
