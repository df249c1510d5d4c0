"""What is true of every state of a KRaft cluster: rules of docs/kraft.md, section 13.

`invariants.check` runs those that one state shows, `invariants.check_step` those that compare a
state with the one before an event. A rule that does not hold is kfast's own mistake:
`InvariantError`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.errors import InvariantError
from kfast.journal import QuorumOutcome
from kfast.schema import NO_LEADER
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.metadata_records import PartitionChangeRecord
from kfast.state.quorum import NO_MEMBER
from kfast.state.records import n_bits
from kfast.state.registrations import quorum_of

__all__ = ["check_quorum", "check_quorum_step"]

Mask = npt.NDArray[np.bool_]


def check_quorum(state: ClusterState) -> None:
    """Check the rules that one state shows; `InvariantError` names the first that fails."""
    counters_are_what_they_count(state)
    masks_fit_the_slots(state)
    lists_are_disjoint(state)
    orders_list_the_members(state)
    directories_follow_the_replicas(state)
    settings_are_the_configurations(state)


def check_quorum_step(before: ClusterState, after: ClusterState, outcome: QuorumOutcome) -> None:
    """Check the rules that compare two states with one event of the controller between them.

    Rows that the event added, or whose topic it deleted, are left out.
    """
    leader_epochs_grow_with_partition_epochs(before, after)
    isr_empties_only_with_elr(before, after)
    recovery_begins_with_the_leader_alone(before, after)
    leaders_are_replicas(before, after, outcome)
    if outcome.level == "full":
        elections_are_in_the_isr(after, outcome)


def require(holds: Mask, rule: str, state: ClusterState, rows: object = None) -> None:
    """Raise for the first row where a rule does not hold."""
    if holds.all():
        return
    at = int(np.flatnonzero(~holds)[0])
    row = at if rows is None else int(np.asarray(rows)[at])
    name = f"{state.topic[int(state.topic_row[row])].as_py()}-{state.partition[row]}"
    raise InvariantError(f"{rule} does not hold for row {row}, {name}: {state.registration(row)}")


def used_rows(state: ClusterState) -> npt.NDArray[np.int64]:
    """Rows of partitions."""
    return np.flatnonzero(state.partition >= 0)


def counters_are_what_they_count(state: ClusterState) -> None:
    """Section 1.2: leaderless partitions, those that the preferred replica does not lead."""
    fresh = state.copy()
    fresh.recount()
    for name in ("offline_partition_count", "preferred_imbalance_count", "n_led"):
        value, counted = getattr(state, name), getattr(fresh, name)
        if value != counted:
            raise InvariantError(f"{name} is {value}, counted {counted}")
    if not np.array_equal(state.leader_offline, fresh.leader_offline):
        raise InvariantError("the bitmap of leaderless partitions differs from the leaders")


def masks_fit_the_slots(state: ClusterState) -> None:
    """Masks speak of slots in use, each broker has one slot; the leader is a replica or in sync."""
    rows = used_rows(state)
    records = state.records[rows]
    used = first_slots(records["n_slots"])
    masks = {name: records[name] for name in ("isr", "adding", "removing")}
    quorum = quorum_of(state)
    if quorum.elr is not None:
        masks["elr"] = quorum.elr[rows]
    for name, mask in masks.items():
        require((mask.astype(np.uint64) & ~used) == 0, f"{name} in slots in use", state, rows)
    slots = np.arange(state.n_slots)
    in_use = slots < records["n_slots"][:, None]
    brokers = np.where(in_use, state.replicas[rows].astype(np.int64), -1 - slots)
    ordered = np.sort(brokers, axis=1)
    require((ordered[:, 1:] != ordered[:, :-1]).all(axis=1), "one slot a broker", state, rows)
    leader = records["leader"].astype(np.int64)
    assigned = slots < records["n_replicas"][:, None]
    in_sync = (records["isr"].astype(np.uint64)[:, None] >> slots.astype(np.uint64)) & 1 != 0
    leads = ((brokers == leader[:, None]) & (assigned | in_sync)).any(axis=1)
    require((leader == NO_LEADER) | leads, "the leader is a replica or in sync", state, rows)


def lists_are_disjoint(state: ClusterState) -> None:
    """No broker is in the ISR and in the ELR."""
    elr = quorum_of(state).elr
    if elr is not None:
        rows = used_rows(state)
        both = state.records["isr"][rows] & elr[rows]
        require(both == 0, "ISR and ELR have nobody in common", state, rows)


def orders_list_the_members(state: ClusterState) -> None:
    """The order of a row lists its ISR, then its ELR, each member once."""
    quorum, rows = quorum_of(state), used_rows(state)
    if quorum.member_order is None:
        return
    order = quorum.member_order[rows]
    isr = state.records["isr"][rows].astype(np.uint64)
    elr = np.zeros_like(isr) if quorum.elr is None else quorum.elr[rows].astype(np.uint64)
    n_isr = n_bits(isr)
    listed = order != NO_MEMBER
    bits = np.where(listed, np.uint64(1) << np.minimum(order, 63).astype(np.uint64), 0)
    place = np.arange(order.shape[1])
    for name, mask, chosen in (
        ("ISR", isr, place < n_isr[:, None]), ("ELR", elr, listed & (place >= n_isr[:, None])),
    ):
        member = np.where(chosen, bits, 0).astype(np.uint64)
        same = np.bitwise_or.reduce(member, axis=1) == mask
        same &= chosen.sum(axis=1) == n_bits(mask)
        require(same, f"the order lists the {name}", state, rows)


def directories_follow_the_replicas(state: ClusterState) -> None:
    """Every assigned replica has a directory, and nobody else."""
    quorum, rows = quorum_of(state), used_rows(state)
    if quorum.directory is not None:
        assigned = np.arange(state.n_slots) < state.records["n_replicas"][rows][:, None]
        has = quorum.directory[rows] >= 0
        require((has == assigned).all(axis=1), "a directory for each replica", state, rows)


def settings_are_the_configurations(state: ClusterState) -> None:
    """What is derived of configurations by topic is what they say (section 1.5)."""
    fresh = state.copy()
    quorum_of(fresh).derive_settings()
    for name in ("min_insync_replicas", "unclean_leader_election"):
        exists = state.topic_exists
        kept, derived = (getattr(quorum_of(of), name)[: exists.size] for of in (state, fresh))
        if not np.array_equal(kept[exists], derived[exists]):
            raise InvariantError(f"{name} differs from the configurations")


def _common_rows(before: ClusterState, after: ClusterState) -> npt.NDArray[np.int64]:
    """Rows that have the same partition before and after."""
    n = min(before.n_partitions, after.n_partitions)
    same = (before.partition[:n] >= 0) & (before.partition[:n] == after.partition[:n])
    same &= before.topic_row[:n] == after.topic_row[:n]
    ids = [np.asarray(of.topic_id.to_pylist(), object) for of in (before, after)]
    same &= ids[0][before.topic_row[:n]] == ids[1][after.topic_row[:n]]
    return np.flatnonzero(same)


def leader_epochs_grow_with_partition_epochs(before: ClusterState, after: ClusterState) -> None:
    """A leader epoch never grows more than the partition epoch, and neither falls."""
    rows = _common_rows(before, after)
    old, new = before.records[rows], after.records[rows]
    led = new["leader_epoch"] - old["leader_epoch"]
    grown = new["version"] - old["version"]
    require((led >= 0) & (led <= grown), "epochs grow together", after, rows)
    # Rows of brokers move where a broker is added: ids are compared.
    ids = [np.append(of.broker_id, NO_LEADER) for of in (before, after)]
    changed = ids[0][old["leader"]] != ids[1][new["leader"]]
    require(~changed | (led > 0), "another leader raises the leader epoch", after, rows)


def isr_empties_only_with_elr(before: ClusterState, after: ClusterState) -> None:
    """Without ELR an emptied ISR keeps its last members."""
    if quorum_of(before).elr_on or quorum_of(after).elr_on:
        return
    rows = _common_rows(before, after)
    emptied = (after.records["isr"][rows] == 0) & (before.records["isr"][rows] != 0)
    require(~emptied, "an ISR stays without ELR", after, rows)


def recovery_begins_with_the_leader_alone(before: ClusterState, after: ClusterState) -> None:
    """RECOVERING comes of an unclean election, which leaves nobody else in the ISR."""
    rows = _common_rows(before, after)
    old, new = before.records[rows], after.records[rows]
    begins = (new["flags"] & ~old["flags"] & schema.FLAG_RECOVERY) != 0
    led = after.replicas[rows].astype(np.int64) == new["leader"].astype(np.int64)[:, None]
    leads = (led.astype(np.uint64) << np.arange(after.n_slots, dtype=np.uint64)).sum(axis=1)
    alone = (new["leader_epoch"] > old["leader_epoch"]) & (leads == new["isr"].astype(np.uint64))
    require(~begins | (alone & (leads != 0)), "recovery begins with the leader alone", after, rows)


def leaders_are_replicas(
    before: ClusterState, after: ClusterState, outcome: QuorumOutcome
) -> None:
    """Nobody else begins to lead, but by an AssignReplicasToDirs request (section 13, note)."""
    if outcome.event == "assign_replicas_to_dirs":
        return
    rows = _common_rows(before, after)
    begins = _led_from_outside(after, rows) & ~_led_from_outside(before, rows)
    require(~begins, "the leader is a replica", after, rows)


def _led_from_outside(state: ClusterState, rows: npt.NDArray[np.int64]) -> Mask:
    """Which rows a broker leads that is not one of the replicas."""
    records = state.records[rows]
    leader = records["leader"].astype(np.int64)
    assigned = np.arange(state.n_slots) < records["n_replicas"][:, None]
    leads = (state.replicas[rows].astype(np.int64) == leader[:, None]) & assigned
    outside: Mask = (leader != NO_LEADER) & ~leads.any(axis=1)
    return outside


def elections_are_in_the_isr(after: ClusterState, outcome: QuorumOutcome) -> None:
    """Who is elected is in the ISR."""
    changes = [r for r in outcome.metadata_records if isinstance(r, PartitionChangeRecord)]
    last = {(r.topic_id, r.partition_id): r for r in changes}
    rows = {
        (after.topic_id[int(after.topic_row[row])].as_py(), int(after.partition[row])): int(row)
        for row in used_rows(after)
    }
    for place, change in last.items():
        now: Any = after.registration(rows[place])
        if change.leader is not None and change.leader >= 0 and now.leader not in now.isr:
            raise InvariantError(f"{place} elected {now.leader} outside the ISR: {now}")
