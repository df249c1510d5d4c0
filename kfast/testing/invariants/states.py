"""Rules of section 9 that one state shows.

Source: docs/controller.md, section 9; the numbers are its numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.errors import InvariantError
from kfast.schema import PartitionState, ReplicaState
from kfast.state import ClusterState
from kfast.state.survey import survey_leaders
from kfast.state.tables import first_slots

Mask = npt.NDArray[np.bool_]


def require(holds: Mask, number: int, rule: str, state: ClusterState, rows: object = None) -> None:
    """Raise for the first row where a rule does not hold."""
    if holds.all():
        return
    at = int(np.flatnonzero(~holds)[0])
    row = at if rows is None else int(np.asarray(rows)[at])
    name = f"{state.topic[int(state.topic_row[row])].as_py()}-{state.partition[row]}"
    raise InvariantError(
        f"invariant {number} ({rule}) does not hold for row {row}, {name}: "
        f"{state.assignment(row)}, {state.leadership(row)}, {state.partition_state(row).name}"
    )


def has_leadership(state: ClusterState) -> Mask:
    """(P,) Whether each row has a leadership record."""
    flags = state.records["flags"]
    held: Mask = (flags & schema.FLAG_HAS_LEADERSHIP) != 0
    return held


def leader_in_isr(state: ClusterState) -> Mask:
    """Whether each leader is -1 or a member of its ISR."""
    leader, isr = state.records["leader"], state.records["isr"].astype(np.uint64)
    member = leader < 0
    for slot in range(state.n_slots):
        at_slot = state.replicas[:, slot].astype(np.int64) == leader
        member |= at_slot & ((isr >> np.uint64(slot)) & np.uint64(1) != 0)
    return member


def counters_are_what_they_count(state: ClusterState, *, offline: bool = True) -> None:
    """Rules 11 (where `offline`) and 12, and the two bitmaps that serve 1.5."""
    fresh = state.copy()
    fresh.recount()
    counters = [("preferred_imbalance_count", 12), ("n_led", 12), ("n_reassigned", 25)]
    if offline:
        counters.insert(0, ("offline_partition_count", 11))
    for name, number in counters:
        kept, counted = getattr(state, name), getattr(fresh, name)
        if kept != counted:
            raise InvariantError(f"invariant {number}: {name} is {kept}, counted {counted}")
    for name in ("leader_offline", "pending"):
        if not np.array_equal(getattr(state, name), getattr(fresh, name)):
            raise InvariantError(f"the bitmap {name} differs from what the columns say")


def kept_survey_is_current(state: ClusterState) -> None:
    """What serves the automatic rebalance (section 6.8): every row that another leads is marked."""
    if state.survey is None or not state.survey.speaks_of(state):
        return
    fresh = state.copy()
    preferred, _, rows = survey_leaders(fresh)
    marked = np.unpackbits(state.survey.bits.view(np.uint8), bitorder="little")
    if not np.array_equal(state.survey.preferred, preferred) or not marked[rows].all():
        raise InvariantError("the survey of preferred leaders differs from what the columns say")


def started_topics_are_queued(state: ClusterState) -> None:
    """Rule 13."""
    stray = state.topic_deletion_started & ~state.topic_queued_for_deletion
    if stray.any():
        row = int(np.argmax(stray))
        raise InvariantError(f"invariant 13: topic {state.topic[row]} is started but not queued")


def masks_fit_the_slots(state: ClusterState) -> None:
    """Masks speak only of slots in use, each broker has one slot, and the leader has one."""
    used = first_slots(state.records["n_slots"])
    for name in ("isr", "adding", "removing", "offline_dir"):
        fits = (state.records[name].astype(np.uint64) & ~used) == 0
        require(fits, 20, f"{name} names slots in use", state)
    in_use = np.arange(state.n_slots) < state.records["n_slots"][:, None]
    brokers = np.where(in_use, state.replicas.astype(np.int64), -1 - np.arange(state.n_slots))
    ordered = np.sort(brokers, axis=1)
    require((ordered[:, 1:] != ordered[:, :-1]).all(axis=1), 20, "one slot a broker", state)
    leader = state.records["leader"].astype(np.int64)[:, None]
    tracked = (leader[:, 0] < 0) | (brokers == leader).any(axis=1)
    require(tracked, 20, "the leader has a slot", state)
    none = ~in_use & (state.replica_state != ReplicaState.NO_ENTRY)
    require(~none.any(axis=1), 21, "no state without a slot", state)


def after_broker_failure(state: ClusterState, broker_ids: list[int]) -> None:
    """Rule 24: dead brokers lead nothing, and are in no ISR of more than one member.

    Queued topics are left out, and records of a newer controller.
    """
    brokers = state.find_brokers(broker_ids)
    open_ = ~state.topic_queued_for_deletion[state.topic_row] & has_leadership(state)
    open_ &= state.records["controller_epoch"] <= state.controller_epoch
    hosted = state.replicas_on(brokers)
    rows = hosted.rows[open_[hosted.rows]]
    slots = hosted.slots[open_[hosted.rows]]
    led = np.isin(state.records["leader"][rows], brokers)
    offline = state.records["partition_state"][rows] != PartitionState.NON_EXISTENT
    require(~led | ~offline, 24, "no dead leader", state, rows)
    isr = state.records["isr"][rows].astype(np.uint64)
    several = (isr & (isr - np.uint64(1))) != 0
    require(~several | ((isr & slots) == 0), 24, "no dead ISR member", state, rows)
