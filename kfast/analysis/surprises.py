"""What partitions of a KRaft cluster do that operators do not expect (`schema.SURPRISE_KINDS`).

Source: docs/kraft.md, sections 3.2, 6.2, 6.7 and 8.3.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.schema import FLAG_ASSIGNED, NO_LEADER, SURPRISES
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.census import Census, Elr
from kfast.state.records import Rows
from kfast.state.tables import broker_ids, id_lists, row_keys

__all__ = ["NO_SURPRISES", "returned_last_leaders", "stuck_partitions"]

NO_SURPRISES = SURPRISES.schema.empty_table()

Flags = npt.NDArray[np.bool_]
Masks = npt.NDArray[np.uint64]


def returned_last_leaders(
    before: Census, state: ClusterState, unclean_ids: Collection[int]
) -> pa.Table:
    """Partitions whose last known leader was elected, uncleanly, though the topic forbids that.

    Parameters
    ----------
    before : Census
        Before some brokers returned.
    state : ClusterState
        Just afterwards.
    unclean_ids : collection of int
        Those of them that had stopped uncleanly: they are out of every ELR.
    """
    if state.quorum is None or before.elr is None:
        return NO_SURPRISES
    leader = state.records["leader"]
    elected = (before.leader == NO_LEADER) & (leader != NO_LEADER) & (before.isr == 0)
    elected &= leader == before.elr.last_known
    elected &= ~state.quorum.unclean_leader_election[state.topic_row]
    rows = np.flatnonzero(elected)
    led = before.replicas[rows] == leader[rows, np.newaxis]
    eligible = before.elr.masks[rows].astype(np.uint64) >> led.argmax(axis=1).astype(np.uint64) & 1
    is_unclean = np.isin(state.broker_id[leader[rows]], list(unclean_ids))
    rows = rows[(eligible == 0) | is_unclean].astype(np.int32)
    is_alone = state.records["n_replicas"][rows] == 1
    awaited = np.zeros(rows.size, np.uint64)
    return pa.concat_tables([
        _table(state, "last_known_leader", rows[~is_alone], awaited[~is_alone]),
        _table(state, "only_replica_unclean", rows[is_alone], awaited[is_alone]),
    ])


def stuck_partitions(state: ClusterState, clean_ids: Collection[int] | None = None) -> pa.Table:
    """Partitions that are offline though a replica is live, or that do not come back as they were.

    Parameters
    ----------
    state : ClusterState
    clean_ids : collection of int, optional
        Brokers that stopped in order, so that they stay eligible when they start; all others that
        are down are taken to have died. By default those whose controlled shutdown shows in
        `state`.
    """
    quorum, elr = state.quorum, Elr.of(state)
    if quorum is None or elr is None:
        return NO_SURPRISES
    records = state.records
    is_stuck = (records["leader"] == NO_LEADER) & ((records["flags"] & FLAG_ASSIGNED) != 0)
    is_stuck &= ~quorum.unclean_leader_election[state.topic_row]
    rows: Rows = np.flatnonzero(is_stuck).astype(np.int32)
    if not rows.size:
        return NO_SURPRISES
    is_clean = state.fenced & state.shutting_down if clean_ids is None else (
        np.isin(state.broker_id, list(clean_ids)))
    assigned = first_slots(records["n_replicas"][rows])
    isr = records["isr"][rows].astype(np.uint64) & assigned
    eligible = elr.masks[rows].astype(np.uint64) & assigned
    last = elr.last_known[rows]
    if not quorum.elr_on:
        eligible, last = np.zeros_like(eligible), np.full_like(last, NO_LEADER)
    members = np.where(isr != 0, isr, eligible)
    live = _slots_of(state, rows, state.live) & assigned
    # Where a member is live the partition waits for no broker: the next unfencing elects it
    # (section 6.2).
    waits = (members & live) == 0
    # A broker that died leaves ISR and ELR when it registers, but only where ELR is on.
    stays = state.up | is_clean if quorum.elr_on else np.ones_like(state.up)
    returning = members & _slots_of(state, rows, stays)
    last_slot = _slots_where(state.replicas[rows] == last[:, np.newaxis]) & assigned
    no_leader_left = (returning == 0) & (last_slot == 0)
    leads_again = (returning == 0) & (last_slot != 0)
    is_alone = assigned == 1
    all_awaited = (isr | eligible | last_slot) & ~_slots_of(state, rows, state.up)
    kinds = {
        "elr_cleared": (no_leader_left, np.zeros_like(members)),
        "waits_for_eligible": ((returning != 0) & (live != 0), returning),
        "waits_for_last_leader": (leads_again & ~is_alone, all_awaited),
        "waits_for_only_replica": (leads_again & is_alone, all_awaited),
    }
    return pa.concat_tables([
        _table(state, kind, rows[waits & holds], awaited[waits & holds])
        for kind, (holds, awaited) in kinds.items()
    ])


def _slots_of(state: ClusterState, rows: Rows, brokers: Flags) -> Masks:
    """Masks of the slots of some rows whose broker is one of some."""
    # Slots that are not used hold a number that is no broker row.
    return _slots_where(np.append(brokers, False)[np.minimum(state.replicas[rows], brokers.size)])


def _slots_where(holds: Flags) -> Masks:
    """Masks of the slots for which something holds, (n, S)."""
    masks: Masks = (holds * (np.uint64(1) << np.arange(holds.shape[1], dtype=np.uint64))).sum(
        axis=1, dtype=np.uint64)
    return masks


def _table(state: ClusterState, kind: str, rows: Rows, awaited: Masks) -> pa.Table:
    """`schema.SURPRISES` of the partitions that a kind of surprise is true of."""
    records = state.records.take(rows)
    return SURPRISES.table({
        **row_keys(state, rows),
        "surprise": pa.array([kind] * rows.size, pa.string()),
        "leader": pa.array(broker_ids(state, records["leader"])),
        "replicas": id_lists(state, rows, first_slots(records["n_replicas"])),
        "waits_for": id_lists(state, rows, awaited),
    })
