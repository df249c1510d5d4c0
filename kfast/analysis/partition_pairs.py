"""Partitions of two clusters, matched by topic and number, and what differs between each two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.schema import FLAG_ASSIGNED, FLAG_BEING_REASSIGNED, MAX_SLOTS, NO_LEADER
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.census import Elr, Flags
from kfast.state.records import Rows
from kfast.state.tables import broker_ids, id_lists

__all__ = ["PartitionPairs", "PartitionSide", "assigned_rows", "rows_by_name"]

Masks = npt.NDArray[np.uint64]


def assigned_rows(state: ClusterState) -> Rows:
    """Rows of the partitions that have an assignment, ascending."""
    return np.flatnonzero((state.records["flags"] & FLAG_ASSIGNED) != 0).astype(np.int32)


def rows_by_name(names: pa.Array, wanted: pa.Array) -> Rows:
    """(n,) where each wanted name stands among some; -1 where it does not."""
    at = pc.fill_null(pc.index_in(wanted, value_set=names), -1)
    return np.asarray(at.to_numpy(zero_copy_only=False), np.int32)


@dataclass(frozen=True, eq=False)
class PartitionSide:
    """Some partitions of one cluster.

    Attributes
    ----------
    state : ClusterState
    rows : (n,) int32
    """

    state: ClusterState
    rows: Rows

    def mask(self, name: str) -> Masks:
        """(n,) slots: the assigned replicas, the ELR, or those of a column of masks."""
        if name == "replicas":
            return first_slots(self.state.records["n_replicas"][self.rows]).astype(np.uint64)
        if name == "elr":
            elr = Elr.of(self.state)
            masks = np.zeros(self.state.n_partitions, np.uint64) if elr is None else elr.masks
            return np.asarray(masks[self.rows], np.uint64)
        return np.asarray(self.state.records[name][self.rows], np.uint64)

    def ids(self, name: str) -> pa.ListArray:
        """(n,) the same as lists of broker ids."""
        return id_lists(self.state, self.rows, self.mask(name))

    @property
    def slots(self) -> Rows:
        """(n, S) broker id in each slot, -1 where there is none."""
        numbers = np.minimum(self.state.replicas[self.rows], self.state.n_brokers)
        ids: Rows = np.append(self.state.broker_id, np.int32(-1))[numbers]
        return ids

    @property
    def leader(self) -> Rows:
        """(n,) id of each leader, -1 for none."""
        leaders = broker_ids(self.state, self.state.records["leader"][self.rows])
        return np.maximum(leaders, NO_LEADER)

    @property
    def reassigned(self) -> Flags:
        """(n,) whether each partition is being reassigned."""
        flagged: Flags = (self.state.records["flags"][self.rows] & FLAG_BEING_REASSIGNED) != 0
        flagged |= (self.mask("adding") | self.mask("removing")) != 0
        return flagged

    @property
    def leader_epoch(self) -> npt.NDArray[Any]:
        """(n,) leader epochs."""
        return np.ascontiguousarray(self.state.records["leader_epoch"][self.rows])

    @property
    def epochs_known(self) -> bool:
        """Whether the cluster tells epochs: where an export does not, all of them are 0."""
        return bool(self.state.broker_epoch.any() or self.state.records["leader_epoch"].any())

    def take(self, at: npt.NDArray[np.int_]) -> PartitionSide:
        """Some of them, by their places."""
        return PartitionSide(self.state, self.rows[at])


@dataclass(frozen=True, eq=False)
class PartitionPairs:
    """Partitions of two clusters.

    Attributes
    ----------
    before, after : PartitionSide
        Those that are in both, in the order of the later rows.
    created, deleted : (m,) int32
        Rows of those that are only in the later, and only in the earlier.
    """

    before: PartitionSide
    after: PartitionSide
    created: Rows
    deleted: Rows

    @classmethod
    def of(cls, old: ClusterState, new: ClusterState) -> PartitionPairs:
        """Match the partitions of two clusters."""
        rows, old_rows = assigned_rows(new), assigned_rows(old)
        topics = rows_by_name(old.topic, new.topic)
        matches = old.lookup.rows(topics[new.topic_row[rows]], new.partition[rows])
        is_old = np.zeros(old.n_partitions + 1, np.bool_)
        is_old[old_rows] = True
        # A row of -1, for none, is the last, which is no partition's.
        is_there = is_old[matches]
        is_old[matches[is_there]] = False
        return cls(
            PartitionSide(old, matches[is_there]), PartitionSide(new, rows[is_there]),
            rows[~is_there], np.flatnonzero(is_old).astype(np.int32),
        )

    def changes(self) -> Mapping[str, Flags]:
        """(n,) which of `schema.DIFF_PARTITION_CHANGES` happened to each partition in both."""
        before, after = self.before, self.after
        slots = _SlotMatch.of(before.slots, after.slots)
        lost, won = slots.compare(before.mask("replicas"), after.mask("replicas"))
        replicas_changed = lost | won
        isr_shrunk, isr_expanded = slots.compare(before.mask("isr"), after.mask("isr"))
        elr_shrunk, elr_expanded = slots.compare(before.mask("elr"), after.mask("elr"))
        was_reassigned, is_reassigned = before.reassigned, after.reassigned
        epochs = before.leader_epoch != after.leader_epoch
        return {
            "replicas_changed": replicas_changed,
            "replicas_reordered": ~replicas_changed & slots.is_reordered(after.mask("replicas")),
            "reassignment_started": is_reassigned & ~was_reassigned,
            "reassignment_ended": was_reassigned & ~is_reassigned,
            "leader_changed": before.leader != after.leader,
            "leader_epoch_changed": epochs & before.epochs_known & after.epochs_known,
            "isr_shrunk": isr_shrunk, "isr_expanded": isr_expanded,
            "elr_shrunk": elr_shrunk, "elr_expanded": elr_expanded,
        }


@dataclass(frozen=True, eq=False)
class _SlotMatch:
    """Where the brokers of the earlier slots stand among the later ones.

    Attributes
    ----------
    rows : (m,) int64
        Pairs whose slots hold other brokers.
    slots : (m, S) uint64
        Of these, the later slot of the broker in each earlier one; 64 where it is in none.
    """

    rows: npt.NDArray[np.intp]
    slots: Masks

    @classmethod
    def of(cls, before: Rows, after: Rows) -> _SlotMatch:
        """Match broker ids by slot, (n, S) each, -1 for none."""
        width = max(before.shape[1], after.shape[1])
        before, after = (
            np.pad(ids, ((0, 0), (0, width - ids.shape[1])), constant_values=-1)
            for ids in (before, after)
        )
        rows = np.flatnonzero((before != after).any(axis=1))
        before, after = before[rows], after[rows]
        slots = np.full(before.shape, MAX_SLOTS, np.uint64)
        for later in range(width):
            slots[(before == after[:, later, np.newaxis]) & (before >= 0)] = later
        return cls(rows, slots)

    def compare(self, before: Masks, after: Masks) -> tuple[Flags, Flags]:
        """(n,) whether each set of brokers lost a member, and whether it won one."""
        lost, won = (before & ~after) != 0, (after & ~before) != 0
        some_before, some_after = before[self.rows], after[self.rows]
        moved = np.zeros(self.rows.size, np.uint64)
        is_gone = np.zeros(self.rows.size, np.bool_)
        for slot, later in enumerate(self.slots.T):
            is_member = (some_before >> np.uint64(slot) & np.uint64(1)) != 0
            is_there = later < MAX_SLOTS
            bits = np.uint64(1) << np.where(is_there, later, 0)
            moved[is_member & is_there] |= bits[is_member & is_there]
            is_gone |= is_member & ~is_there
        lost[self.rows] = is_gone | ((moved & ~some_after) != 0)
        won[self.rows] = (some_after & ~moved) != 0
        return lost, won

    def is_reordered(self, replicas: Masks) -> Flags:
        """(n,) whether some assigned replica stood in another slot."""
        reordered = np.zeros(replicas.size, np.bool_)
        slots = np.arange(self.slots.shape[1], dtype=np.uint64)
        is_assigned = (replicas[self.rows, np.newaxis] >> slots & np.uint64(1)) != 0
        reordered[self.rows] = (is_assigned & (self.slots != slots)).any(axis=1)
        return reordered
