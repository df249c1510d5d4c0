"""Replicas that go Offline, or become New, with a store that is asked about each partition.

Source: docs/controller.md, sections 2.4 to 2.6 and 8.1; Kafka 3.9, `ZkReplicaStateMachine`
(`doRemoveReplicasFromIsr`); Kafka 1.0, `ReplicaStateMachine.handleStateChange`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.controllers.zk.profiles import Profile
from kfast.controllers.zk.results import Result
from kfast.controllers.zk.store import ControllerMoved, Store
from kfast.controllers.zk.store_machines.session import Codes, StoreSession
from kfast.controllers.zk.transitions import previous_mask
from kfast.journal import Journal
from kfast.journal.effects import (
    EFFECT,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
)
from kfast.kernels import hosting, isr, replica_states
from kfast.schema import FLAG_HAS_LEADERSHIP, FLAG_RECOVERY, Code, ReplicaState
from kfast.state import ClusterState, Replicas
from kfast.state.mutators import UNCLEAN
from kfast.state.records import Rows
from kfast.state.tables import first_slots


def take_offline(
    state: ClusterState, store: Store, journal: Journal, replicas: Replicas, ranks: Rows,
    profile: Profile,
) -> Result:
    """Replicas to OfflineReplica with a store: broker groups one by one, by rank (section 2.3)."""
    store.make_known(replicas.rows)
    session = StoreSession(state, store, journal.new_tally(), profile)
    rows, brokers = targets(state, replicas, ranks)
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    failure: Code | None = None
    try:
        for at in _groups(brokers, ranks, profile.batch_per_partition):
            codes[at] = _change_group(session, rows[at], int(brokers[at[0]]), codes[at])
    except ControllerMoved:
        failure = Code.CONTROLLER_MOVED
    effects = session.finish()
    journal.add_step(
        f"replicas to {ReplicaState.OFFLINE.label}", session.tally, effects, replicas=True,
        from_store=True, sent=failure is None,
    )
    return Result(codes, np.empty(0, np.bool_), failure)


def _groups(
    brokers: Rows, ranks: Rows, batch_per_partition: bool
) -> Iterator[npt.NDArray[np.int64]]:
    """Places of the targets that Kafka takes together: those of one broker, or each alone."""
    distinct = np.unique(brokers)
    for broker in distinct[np.argsort(ranks[distinct])].tolist():
        group = np.flatnonzero(brokers == broker)
        yield from np.split(group, group.size) if batch_per_partition else (group,)


def targets(state: ClusterState, replicas: Replicas, ranks: Rows) -> tuple[Rows, Rows]:
    """Rows and broker rows of some replicas, in the order (row, rank of the broker)."""
    rows, brokers = [], []
    for slot in range(state.n_slots):
        at = replicas.rows[((replicas.slots >> np.uint64(slot)) & np.uint64(1)) != 0]
        rows.append(at)
        brokers.append(state.replicas[at, slot].astype(np.int32))
    found = np.concatenate(brokers)
    order = np.lexsort((ranks[found], np.concatenate(rows)))
    return np.concatenate(rows)[order], found[order]


def _change_group(session: StoreSession, rows: Rows, broker: int, codes: Codes) -> Codes:
    """Section 2.5 for the replicas of one broker."""
    state = session.state
    slots = np.empty(rows.size, np.int32)
    hosting.find_slots(state.columns, rows, np.full(rows.size, broker, np.int32), slots)
    before = state.replica_state[rows, slots].copy()
    effects = np.zeros(rows.size, EFFECT)
    scratch = np.zeros((1, session.tally.shape[1]), np.int64)
    replica_states.change_replicas(
        state.columns, rows, np.uint64(1) << slots.astype(np.uint64), state.broker_id, False,
        int(ReplicaState.OFFLINE),
        previous_mask(session.profile.replica_previous[ReplicaState.OFFLINE]),
        state.controller_epoch, True, session.profile.without_leadership, False, state.any_queued,
        False, codes, effects, scratch,
    )
    waiting = codes == Code.NOT_ASKED
    session.tell(effects)
    if not waiting.any():
        return codes
    try:
        codes[waiting] = _shrink(session, rows[waiting], slots[waiting], broker, before[waiting])
    except ControllerMoved:
        # Replicas without leadership come after the others, so they were not reached (section 2.5).
        early = codes == Code.MOVED
        state.replica_state[rows[early], slots[early]] = before[early]
        effects["code"][early] = Code.NOT_ASKED
        effects["kinds"][early] &= 255 - KIND_METADATA
        raise
    return codes


def _shrink(
    session: StoreSession, rows: Rows, slots: Rows, broker: int, before: npt.NDArray[np.uint8]
) -> Codes:
    """Section 2.6 for one broker, and what section 2.5 does with the answers in the end."""
    state = session.state
    effects = session.begin(rows, broker, before, ReplicaState.OFFLINE)
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    remaining = np.arange(rows.size)
    while remaining.size:
        answer, retry = _shrink_once(session, rows[remaining], slots[remaining])
        codes[remaining] = answer
        remaining = remaining[retry]
    done = codes == Code.MOVED
    state.replica_state[rows[done], slots[done]] = ReplicaState.OFFLINE
    told = done & ~session.is_queued(rows)
    effects["kinds"][told] |= KIND_LEADER_AND_ISR
    assigned = first_slots(state.records["n_replicas"][rows])
    without = assigned & ~(np.uint64(1) << slots.astype(np.uint64))
    effects["recipients"] = np.where(told, without, 0)
    effects["code"] = codes
    session.carry(effects)
    session.tell(effects)
    return codes


def _shrink_once(
    session: StoreSession, rows: Rows, slots: Rows
) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """One attempt of section 2.6: codes, and which records changed meanwhile."""
    answer, stored = session.read(rows)
    usable = answer == Code.MOVED
    answer[(answer == Code.NO_RECORD) & session.is_queued(rows)] = Code.DROPPED
    write = np.zeros(rows.size, np.uint8)
    isr.shrink(session.state.columns, rows, slots, _may_empty(session, rows), stored, write)
    retry = session.write(rows, stored, answer, usable & (write != 0))
    if session.profile.caches_lost_writes and retry.any():
        lost = stored[retry]
        lost["version"] = -1
        session.adopt(rows[retry], lost)
    done = (answer == Code.MOVED) & ~retry
    session.adopt(rows[done], stored[done])
    return answer, retry


def _may_empty(session: StoreSession, rows: Rows) -> npt.NDArray[np.uint8]:
    """Where the last member may leave the ISR (section 8.1)."""
    if not session.profile.empties_unclean_isr:
        return np.zeros(rows.size, np.uint8)
    flags = session.state.topic_flags[session.state.topic_row[rows]]
    unclean: npt.NDArray[np.uint8] = ((flags & UNCLEAN) != 0).astype(np.uint8)
    return unclean


def start_new(
    state: ClusterState, store: Store, journal: Journal, replicas: Replicas, profile: Profile
) -> Result:
    """Replicas to NewReplica where the store is asked who leads: one by one (section 8.1).

    What LeaderAndIsr says comes from the store, what UpdateMetadata says from the cache.
    """
    store.make_known(replicas.rows)
    session = StoreSession(state, store, journal.new_tally(), profile)
    rows, brokers = targets(state, replicas, state.broker_id)
    codes = np.empty(rows.size, np.uint8)
    for at in _groups(brokers, state.broker_id, True):
        codes[at] = _start_one(session, rows[at], brokers[at])
    effects = session.finish()
    told = np.unique(effects["row"][(effects["kinds"] & KIND_LEADER_AND_ISR) != 0])
    told = told[(state.records["flags"][told] & FLAG_HAS_LEADERSHIP) != 0]
    journal.add_step(
        f"replicas to {ReplicaState.NEW.label}", session.tally, effects, replicas=True,
        from_store=True, told=journal.record_effects(told),
    )
    return Result(codes, np.empty(0, np.bool_))


def _start_one(session: StoreSession, row: Rows, broker: Rows) -> int:
    """One replica to NewReplica; returns its code."""
    state = session.state
    slot = np.empty(1, np.int32)
    hosting.find_slots(state.columns, row, broker, slot)
    before = int(state.replica_state[row, slot][0]) or int(ReplicaState.NON_EXISTENT)
    state.replica_state[row, slot] = before
    effect = session.begin(row, broker, np.asarray([before]), ReplicaState.NEW)
    session.carry(effect)
    code = Code.ILLEGAL_STATE
    if before in session.profile.replica_previous[ReplicaState.NEW]:
        code = _ask_leader(session, row, int(broker[0]), int(slot[0]), effect)
    if code == Code.MOVED:
        state.replica_state[row, slot] = ReplicaState.NEW
    effect["code"] = code
    session.tell(effect)
    return int(code)


def _ask_leader(
    session: StoreSession, row: Rows, broker: int, slot: int, effect: npt.NDArray[Any]
) -> Code:
    """Read the record of a partition with a new replica, and tell the replica what it says."""
    codes, stored = session.read(row)
    if codes[0] == Code.NO_RECORD:
        return Code.MOVED
    if codes[0] == Code.STORE_ERROR:
        return Code.STORE_ERROR
    if stored["leader"][0] == broker:
        return Code.LEADER_IS_NEW_REPLICA
    for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr"):
        effect[name] = stored[name]
    effect["recovery"] = (stored["flags"] & FLAG_RECOVERY) != 0
    effect["kinds"] |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    effect["recipients"] = np.uint64(1) << np.uint64(slot)
    return Code.MOVED
