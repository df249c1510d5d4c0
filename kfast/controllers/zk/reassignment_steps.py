"""Steps that a reassignment is made of, whichever version takes them.

Source: docs/controller.md, sections 6.6 and 6.7; Kafka 3.9, `KafkaController` (`updateLeaderEpoch`,
`moveReassignedPartitionLeaderIfRequired`, `stopRemovedReplicasOfReassignedPartition`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.controllers.zk.broker_groups import GroupOrder, exceeds_small_map
from kfast.controllers.zk.results import EventFailed
from kfast.controllers.zk.store import Answer, CallFailed, Store
from kfast.controllers.zk.store_machines.session import StoreSession
from kfast.journal.effects import KIND_IS_NEW, Effects
from kfast.kernels import hosting, reassign
from kfast.schema import Code, PartitionState, ReplicaState, Strategy
from kfast.state import Replicas
from kfast.state.records import Rows, Slots
from kfast.state.tables import first_slots

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.state import ClusterState

STOPPED = (
    ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)
"""States that a removed replica goes through, one call each."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Targets:
    """Where some rows are to go: a list of broker ids for each.

    Parameters
    ----------
    offsets : (n+1,) int32
        Where each row's list begins.
    broker_ids : (m,) int32
    """

    offsets: Rows
    broker_ids: Rows

    @classmethod
    def from_lists(cls, lists: list[list[int]]) -> Targets:
        """Targets of lists of broker ids."""
        offsets = np.zeros(len(lists) + 1, np.int32)
        np.cumsum([len(ids) for ids in lists], out=offsets[1:])
        return cls(offsets, np.asarray([b for ids in lists for b in ids], np.int32))

    def lists(self) -> list[list[int]]:
        """The same as lists of broker ids."""
        parts = np.split(self.broker_ids, self.offsets[1:-1]) if self.offsets.size > 1 else []
        return [part.tolist() for part in parts]

    def of(self, chosen: npt.NDArray[np.int64]) -> Targets:
        """The lists at some places, in their order."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.zeros(chosen.size + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        at = np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths) + np.arange(offsets[-1])
        return Targets(offsets, self.broker_ids[at])


def name_of(state: ClusterState, row: int) -> str:
    """Name of a partition, as topic-number."""
    return f"{state.topic[int(state.topic_row[row])].as_py()}-{state.partition[row]}"


def write_assignment(controller: Controller, row: int) -> None:
    """Write the topic's assignments as they are in memory, all of them."""
    state, store = controller.state, controller.store
    if store is not None:
        try:
            store.write_assignments(
                np.asarray([row], np.int32), guarded=controller.profile.guards_writes
            )
        except CallFailed as failed:
            raise EventFailed("IllegalState") from failed
    topic = state.topic_row[row]
    for other in [r for r in state.unwritten_assignments if state.topic_row[r] == topic]:
        del state.unwritten_assignments[other]


def forget_orders(state: ClusterState, rows: Rows) -> None:
    """The adding and removing lists are in the order of the assignment again."""
    for key in [key for key in state.odd_orders if key[1] in rows]:
        del state.odd_orders[key]


def read_records(
    controller: Controller, rows: Rows
) -> tuple[Mask, npt.NDArray[np.uint64]]:
    """Which rows have a record, and its ISR: stored ones where there is a store."""
    state, store = controller.state, controller.store
    if store is None:
        records = state.records.take(rows)
        known = (records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0
        return known, records["isr"].astype(np.uint64)
    try:
        answers, stored = store.read_states(rows)
    except CallFailed as failed:
        raise EventFailed("StoreError") from failed
    if (answers == Answer.ERROR).any():
        raise EventFailed("StoreError")
    return answers == Answer.OK, stored["isr"].astype(np.uint64)


def move_leaders(controller: Controller, rows: Rows, others: Slots | None = None) -> None:
    """Step B3: leaders that are not among the targets, or not online, give way.

    `others` are slots, per row, that are told of those that stay besides the targets.
    """
    state = controller.state
    if not (state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP).all():
        raise EventFailed("NoSuchElement")
    slots, live = np.empty(rows.size, np.int32), np.empty(rows.size, np.uint64)
    leaders = np.ascontiguousarray(state.records["leader"][rows])
    hosting.find_slots(state.columns, rows, leaders, slots)
    hosting.live_slots(state.columns, rows, live, np.empty_like(live))
    place = np.where(slots < 0, 0, slots).astype(np.uint64)
    is_target = (slots >= 0) & (slots < state.records["n_replicas"][rows])
    stays = is_target & (((live >> place) & np.uint64(1)) != 0)
    controller.journal.prefix = "B3: "
    machine = controller.partition_state_machine
    if not stays.all():
        controller.checked(
            machine.run(rows[~stays], PartitionState.ONLINE, Strategy.REASSIGN)
        )
    if stays.any():
        touch(controller, "B3", rows[stays], None if others is None else others[stays])


def touch(
    controller: Controller, phase: str, rows: Rows, others: Slots | None = None
) -> None:
    """`touch` of section 6.6: raise leader epochs, and tell all replicas.

    `others` are slots, per row, that are told besides those that are assigned.
    """
    state, journal, profile = controller.state, controller.journal, controller.profile
    journal.prefix = f"{phase}: "
    if controller.store is not None:
        for row in rows:
            one = None if others is None else others[rows == row]
            _touch_stored(controller, controller.store, np.asarray([row], np.int32), one)
        return
    codes, tally = np.empty(rows.size, np.uint8), journal.new_tally()
    effects = journal.new_effects(2 * rows.size)
    n_effects = reassign.touch(
        state.columns, rows, np.empty(0, np.uint64) if others is None else others,
        state.controller_epoch, profile.touch_separates_added, codes, effects, tally,
    )
    failed = codes != Code.MOVED
    if failed.any():
        raise EventFailed(_ERRORS[Code(int(codes[failed][0]))])
    journal.add_step("raise the leader epoch", tally, effects[:n_effects], replicas=False)


_ERRORS = {Code.NO_RECORD: "IllegalState", Code.NEWER_CONTROLLER: "StateChangeFailed"}


def _touch_stored(
    controller: Controller, store: Store, row: Rows, others: Slots | None
) -> None:
    """Raise one stored epoch and tell; whether the cache has it at once is the version's matter."""
    state, journal, profile = controller.state, controller.journal, controller.profile
    stored = _raise_stored(controller, store, row)
    assigned = first_slots(state.records["n_replicas"][row])
    added = state.records["adding"][row].astype(np.uint64)
    added = added if profile.touch_separates_added else np.zeros_like(added)
    told: Slots = assigned & ~added if others is None else assigned & ~added | others
    parts = [_said(controller, row, stored, told)]
    if profile.touch_separates_added:
        parts.append(_said(controller, row, stored, added))
        parts[1]["kinds"] |= KIND_IS_NEW
    effects = np.concatenate(parts)
    journal.add_step(
        "raise the leader epoch", journal.new_tally(), effects, replicas=False, from_store=True,
        told=journal.record_effects(row),
    )


def _said(
    controller: Controller, row: Rows, stored: npt.NDArray[Any], told: Slots
) -> Effects:
    """What LeaderAndIsr says of a record as it was stored."""
    effects = controller.journal.record_effects(row)
    for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr"):
        effects[name] = stored[name]
    effects["recovery"] = (stored["flags"] & schema.FLAG_RECOVERY) != 0
    effects["code"], effects["recipients"] = Code.NOT_ASKED, told
    return effects


def _raise_stored(controller: Controller, store: Store, row: Rows) -> npt.NDArray[Any]:
    """Steps 1 and 2 of section 6.6: raise a stored epoch until nobody else writes meanwhile."""
    journal = controller.journal
    retry = True
    while retry:
        store.make_known(row)
        session = StoreSession(controller.state, store, journal.new_tally(), controller.profile)
        codes, stored = session.read(row)
        if codes[0] == Code.MOVED:
            stored["leader_epoch"] += 1
            retry = bool(session.write(row, stored, codes, np.ones(1, np.bool_))[0])
        if codes[0] != Code.MOVED:
            raise EventFailed(_ERRORS.get(Code(int(codes[0])), "StoreError"))
    stored["controller_epoch"] = controller.state.controller_epoch
    if controller.profile.touch_is_cached:
        session.adopt(row, stored)
        journal.take_counters(session.tally)
    return stored


def stop_removed(controller: Controller, phase: str, rows: Rows, slots: Slots) -> None:
    """`stop_removed` of section 6.7; its deletion is taken to succeed."""
    some = slots != 0
    for target in STOPPED if some.any() else ():
        move(controller, phase, target, rows[some], slots[some])


def move(
    controller: Controller, phase: str, target: ReplicaState, rows: Rows, slots: Slots
) -> None:
    """One call of the replica machine for some slots of some rows.

    Kafka makes a call for each partition. Where the order of its brokers depends on how many they
    are, those with many come apart.
    """
    controller.journal.prefix = f"{phase}: "
    machine = controller.replica_state_machine
    parts = [np.ones(rows.size, np.bool_)]
    if controller.profile.group_order is GroupOrder.SCALA_2_12:
        many = exceeds_small_map(slots)
        parts = [part for part in (~many, many) if part.any()]
    for part in parts:
        controller.checked(machine.run(Replicas(rows[part], slots[part]), target))
