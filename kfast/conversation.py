"""The machines' conversation with a store: read, decide, write, and again after a conflict.

What is decided comes from the same rule functions as where the cache is the store; here stand
only the loops around them and what each answer of the store means.

Source: specification, sections 2.5, 2.6, 3.5 and 3.6; Kafka 3.9, `ZkReplicaStateMachine`
(`doRemoveReplicasFromIsr`) and `ZkPartitionStateMachine` (`doElectLeaderForPartitions`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.journal import Journal, Tally
from kfast.journal.effects import (
    EFFECT,
    KIND_ELECTION,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_QUEUED,
    KIND_UNCLEAN,
    LAYOUT,
    Effects,
)
from kfast.kernels import election, hosting, isr, replica_states
from kfast.results import Result, online_action
from kfast.schema import Code, PartitionState, ReplicaState, Strategy
from kfast.state import ClusterState, Replicas
from kfast.state.records import Rows
from kfast.state.tables import first_slots
from kfast.store import Answer, CallFailed, ControllerMoved, Store
from kfast.transitions import PARTITION_PREVIOUS, REPLICA_PREVIOUS, previous_mask

Codes = npt.NDArray[np.uint8]
_UNCOUNTED = (Code.NOT_ASKED, Code.CONFIG_LOOKUP_LOGGED)
_TRANSITIONS = (Code.MOVED, Code.INITIALIZED, Code.ELECTED, Code.APPENDED)


class Talk:
    """One call of a machine with a store: what it counts and what became of each target."""

    def __init__(self, state: ClusterState, store: Store, tally: Tally) -> None:
        self.state = state
        self.store = store
        self.tally = tally
        self.effects: list[Effects] = []

    def tell(self, effects: Effects) -> None:
        """Note what became of some targets."""
        self.effects.append(effects)

    def finish(self) -> Effects:
        """Count everything that was told, and return it in order."""
        effects = np.concatenate([*self.effects, np.zeros(0, EFFECT)])
        total = self.tally[0]
        said = effects[~np.isin(effects["code"], _UNCOUNTED)]
        np.add.at(total, LAYOUT["codes"] + said["code"].astype(np.int64), 1)
        moved = said[np.isin(said["code"], _TRANSITIONS)]
        cells = 8 * moved["from_state"].astype(np.int64) + moved["to_state"]
        np.add.at(total, LAYOUT["cells"] + cells, 1)
        before, after = moved["leader_before"], moved["leader"]
        elected = (moved["kinds"] & KIND_ELECTION) != 0
        replaced = elected & (before >= 0) & (after >= 0) & (before != after)
        total[LAYOUT["leaders_moved"]] += int(replaced.sum())
        return effects

    def is_queued(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether the topic of each row is queued for deletion."""
        return self.state.topic_queued_for_deletion[self.state.topic_row[rows]]

    def begin(
        self, rows: Rows, brokers: Rows | int, source: npt.NDArray[Any], target: int
    ) -> Effects:
        """Effects that start with the cached records as they are now."""
        records = self.state.records[rows]
        effects = np.zeros(rows.size, EFFECT)
        effects["row"], effects["broker"] = rows, brokers
        effects["leader_before"], effects["isr_before"] = records["leader"], records["isr"]
        effects["from_state"], effects["to_state"] = source, target
        effects["kinds"] = np.where(self.is_queued(rows), KIND_QUEUED, 0)
        return effects

    def carry(self, effects: Effects) -> None:
        """Copy into effects what a request says of the cached records now."""
        records = self.state.records[effects["row"]]
        for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr", "adding",
                     "removing", "n_replicas", "n_slots"):
            effects[name] = records[name]
        effects["recovery"] = (records["flags"] & schema.FLAG_RECOVERY) != 0

    def adopt(self, rows: Rows, written: npt.NDArray[Any]) -> None:
        """Take records into the cache, under this controller's epoch (`put_leadership`)."""
        state = self.state
        written["controller_epoch"] = state.controller_epoch
        election.adopt(
            state.records, state.replicas, state.broker_status, state.topic_row,
            state.topic_flags, state.leader_offline, rows, written, self.tally[0],
        )

    def read(self, rows: Rows) -> tuple[Codes, npt.NDArray[Any]]:
        """Read records and classify the answers: MOVED where the record can be decided on."""
        try:
            answers, stored = self.store.read_states(rows)
        except CallFailed:
            return np.full(rows.size, Code.STORE_ERROR, np.uint8), self.state.records[rows].copy()
        codes = np.full(rows.size, Code.STORE_ERROR, np.uint8)
        codes[answers == Answer.OK] = Code.MOVED
        absent = (answers == Answer.NO_NODE) | (answers == Answer.UNDECODABLE)
        codes[absent] = Code.NO_RECORD
        newer = stored["controller_epoch"] > self.state.controller_epoch
        codes[(answers == Answer.OK) & newer] = Code.NEWER_CONTROLLER
        return codes, stored

    def write(
        self, rows: Rows, proposed: npt.NDArray[Any], codes: Codes, chosen: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Write the chosen proposals; failures become codes. Returns which are to be retried."""
        retry = np.zeros(rows.size, np.bool_)
        try:
            answers, versions = self.store.update_states(rows[chosen], proposed[chosen])
        except CallFailed:
            codes[chosen] = Code.STORE_ERROR
            return retry
        some = np.flatnonzero(chosen)
        done = answers == Answer.OK
        proposed["version"][some[done]] = versions[done]
        retry[some[answers == Answer.CONFLICT]] = True
        codes[some[~done & (answers != Answer.CONFLICT)]] = Code.STORE_ERROR
        return retry


def take_offline(
    state: ClusterState, store: Store, journal: Journal, replicas: Replicas
) -> Result:
    """Replicas to OfflineReplica with a store: broker groups one by one, ascending (2.3).

    No other target asks the store.
    """
    store.make_known(replicas.rows)
    talk = Talk(state, store, journal.new_tally())
    rows, brokers = _targets(state, replicas)
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    failure: Code | None = None
    try:
        for broker in np.unique(brokers).tolist():
            at = np.flatnonzero(brokers == broker)
            codes[at] = _change_group(talk, rows[at], broker, codes[at])
    except ControllerMoved:
        failure = Code.CONTROLLER_MOVED
    effects = talk.finish()
    journal.add_step(
        f"replicas to {ReplicaState.OFFLINE.label}", talk.tally, effects, replicas=True,
        from_store=True, sent=failure is None,
    )
    return Result(codes, np.empty(0, np.bool_), failure)


def _targets(state: ClusterState, replicas: Replicas) -> tuple[Rows, Rows]:
    """Rows and broker rows of some replicas, in the order (row, ascending broker id)."""
    rows, brokers = [], []
    for slot in range(state.n_slots):
        at = replicas.rows[((replicas.slots >> np.uint64(slot)) & np.uint64(1)) != 0]
        rows.append(at)
        brokers.append(state.replicas[at, slot].astype(np.int32))
    order = np.lexsort((np.concatenate(brokers), np.concatenate(rows)))
    return np.concatenate(rows)[order], np.concatenate(brokers)[order]


def _change_group(talk: Talk, rows: Rows, broker: int, codes: Codes) -> Codes:
    """Section 2.5 for the replicas of one broker."""
    state = talk.state
    slots = np.empty(rows.size, np.int32)
    hosting.find_slots(
        state.records, state.replicas, rows, np.full(rows.size, broker, np.int32), slots
    )
    before = state.replica_state[rows, slots].copy()
    effects = np.zeros(rows.size, EFFECT)
    scratch = np.zeros((1, talk.tally.shape[1]), np.int64)
    replica_states.change_replicas(
        state.records, state.replicas, state.replica_state, state.topic_row, state.topic_flags,
        state.leader_offline, rows, np.uint64(1) << slots.astype(np.uint64),
        int(ReplicaState.OFFLINE), previous_mask(REPLICA_PREVIOUS[ReplicaState.OFFLINE]),
        state.controller_epoch, True, state.any_queued, False, codes, effects, scratch,
    )
    waiting = codes == Code.NOT_ASKED
    talk.tell(effects)
    if not waiting.any():
        return codes
    try:
        codes[waiting] = _shrink(talk, rows[waiting], slots[waiting], broker, before[waiting])
    except ControllerMoved:
        # Replicas without leadership come after the others, so they were not reached (2.5).
        early = codes == Code.MOVED
        state.replica_state[rows[early], slots[early]] = before[early]
        effects["code"][early] = Code.NOT_ASKED
        effects["kinds"][early] &= 255 - KIND_METADATA
        raise
    return codes


def _shrink(
    talk: Talk, rows: Rows, slots: Rows, broker: int, before: npt.NDArray[np.uint8]
) -> Codes:
    """Section 2.6 for one broker, and what 2.5 does with its answers after the last attempt."""
    state = talk.state
    effects = talk.begin(rows, broker, before, ReplicaState.OFFLINE)
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    remaining = np.arange(rows.size)
    while remaining.size:
        answer, retry = _shrink_once(talk, rows[remaining], slots[remaining])
        codes[remaining] = answer
        remaining = remaining[retry]
    done = codes == Code.MOVED
    state.replica_state[rows[done], slots[done]] = ReplicaState.OFFLINE
    told = done & ~talk.is_queued(rows)
    effects["kinds"][told] |= KIND_LEADER_AND_ISR
    assigned = first_slots(state.records["n_replicas"][rows])
    without = assigned & ~(np.uint64(1) << slots.astype(np.uint64))
    effects["recipients"] = np.where(told, without, 0)
    effects["code"] = codes
    talk.carry(effects)
    talk.tell(effects)
    return codes


def _shrink_once(
    talk: Talk, rows: Rows, slots: Rows
) -> tuple[Codes, npt.NDArray[np.bool_]]:
    """One attempt of section 2.6: codes, and which records changed meanwhile."""
    answer, stored = talk.read(rows)
    usable = answer == Code.MOVED
    answer[(answer == Code.NO_RECORD) & talk.is_queued(rows)] = Code.DROPPED
    write = np.zeros(rows.size, np.uint8)
    isr.shrink(talk.state.replicas, rows, slots, stored, write)
    retry = talk.write(rows, stored, answer, usable & (write != 0))
    done = (answer == Code.MOVED) & ~retry
    talk.adopt(rows[done], stored[done])
    return answer, retry


def bring_online(
    state: ClusterState, store: Store, journal: Journal, rows: Rows, strategy: Strategy | None
) -> Result:
    """`PartitionStateMachine.run` to Online with a store (3.4)."""
    store.make_known(rows)
    talk = Talk(state, store, journal.new_tally())
    states = state.records["partition_state"]
    missing = rows[states[rows] == PartitionState.NO_ENTRY]
    states[missing] = PartitionState.NON_EXISTENT
    before = states[rows].copy()
    legal = np.isin(before, np.array(list(PARTITION_PREVIOUS[PartitionState.ONLINE])))
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    refused = talk.begin(rows[~legal], -1, before[~legal], PartitionState.ONLINE)
    refused["code"] = codes[~legal] = Code.ILLEGAL_STATE
    talk.tell(refused)
    new = legal & (before == PartitionState.NEW)
    others = legal & ~new
    failure: Code | None = None
    try:
        if new.any():
            codes[new] = _initialize(talk, rows[new])
        if others.any():
            if strategy is None:
                failure = Code.ILLEGAL_ARGUMENT
            else:
                codes[others] = _elect(talk, rows[others], before[others], strategy)
    except ControllerMoved:
        failure = Code.CONTROLLER_MOVED
    effects = talk.finish()
    journal.add_step(
        online_action(PartitionState.ONLINE, strategy), talk.tally, effects, replicas=False,
        strategy=strategy, from_store=True, sent=failure is None,
    )
    if failure is not None:
        every = np.ones(rows.size, np.bool_)
        return Result(np.full(rows.size, failure, np.uint8), every, failure)
    return Result(codes, others)


def _initialize(talk: Talk, rows: Rows) -> Codes:
    """Section 3.5: the first records of new partitions."""
    state = talk.state
    proposed = state.records[rows].copy()
    codes, recipients = np.empty(rows.size, np.uint8), np.empty(rows.size, np.uint64)
    election.propose_initial(
        state.replicas, state.broker_status, rows, proposed, state.controller_epoch, codes,
        recipients,
    )
    effects = talk.begin(rows, -1, np.full(rows.size, PartitionState.NEW), PartitionState.ONLINE)
    chosen = codes == Code.MOVED
    try:
        answers = talk.store.create_states(rows[chosen], proposed[chosen])
        codes[chosen] = np.array(
            [Code.INITIALIZED if a == Answer.OK
             else Code.NODE_EXISTS if a == Answer.NODE_EXISTS else Code.STORE_ERROR
             for a in answers.tolist()], np.uint8,
        )
    except CallFailed:
        codes[chosen] = Code.CREATE_CALL_FAILED
    except ControllerMoved:
        effects["code"] = codes
        talk.tell(effects[~chosen])
        raise
    done = codes == Code.INITIALIZED
    talk.adopt(rows[done], proposed[done])
    _set_online(talk, rows[done])
    effects["code"] = codes
    effects["kinds"][done] |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    effects["recipients"] = np.where(done, recipients, 0)
    talk.carry(effects)
    talk.tell(effects)
    return codes


def _elect(
    talk: Talk, rows: Rows, before: npt.NDArray[np.int8], strategy: Strategy
) -> Codes:
    """Section 3.6: elect, write, and elect again those whose record changed meanwhile."""
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    remaining = np.arange(rows.size)
    told = len(talk.effects)
    while remaining.size:
        try:
            answer, retry = _elect_once(talk, rows[remaining], before[remaining], strategy)
        except ControllerMoved:
            # Elected and announced, but the states were still to be set.
            for effects in talk.effects[told:]:
                effects["code"][effects["code"] == Code.ELECTED] = Code.CONTROLLER_MOVED
            raise
        codes[remaining] = answer
        remaining = remaining[retry]
    _set_online(talk, rows[codes == Code.ELECTED])
    return codes


def _elect_once(
    talk: Talk, rows: Rows, before: npt.NDArray[np.int8], strategy: Strategy
) -> tuple[Codes, npt.NDArray[np.bool_]]:
    state = talk.state
    answer, stored = talk.read(rows)
    effects = talk.begin(rows, -1, before, PartitionState.ONLINE)
    effects["kinds"] |= KIND_ELECTION
    retry = np.zeros(rows.size, np.bool_)
    usable = np.flatnonzero(answer == Code.MOVED)
    if usable.size:
        chosen, told = np.empty(usable.size, np.uint8), np.empty(usable.size, np.uint64)
        unclean = np.empty(usable.size, np.uint8)
        proposed = stored[usable]
        election.choose(
            state.replicas, state.broker_status, state.topic_row, state.topic_flags, rows[usable],
            proposed, int(strategy), state.leader_recovery_supported,
            talk.store.unreadable_topics(), chosen, told, unclean,
        )
        talk.tally[0, LAYOUT["unclean"]] += int(unclean.sum())
        try:
            again = talk.write(rows[usable], proposed, chosen, chosen == Code.MOVED)
        except ControllerMoved:
            logged = effects[usable[chosen == Code.CONFIG_LOOKUP_FAILED]]
            logged["code"] = Code.CONFIG_LOOKUP_LOGGED
            talk.tell(logged)
            raise
        done = (chosen == Code.MOVED) & ~again
        talk.adopt(rows[usable[done]], proposed[done])
        answer[usable] = np.where(done, Code.ELECTED, chosen)
        retry[usable] = again
        marks = np.where(unclean != 0, KIND_LEADER_AND_ISR | KIND_UNCLEAN, KIND_LEADER_AND_ISR)
        effects["kinds"][usable] |= np.where(done, marks, 0).astype(np.uint8)
        effects["recipients"][usable] = np.where(done, told, 0)
    effects["code"] = answer
    talk.carry(effects)
    talk.tell(effects[~retry])
    return answer, retry


def _set_online(talk: Talk, rows: Rows) -> None:
    state = talk.state
    for row in rows.tolist():
        state.set_partition_state(row, PartitionState.ONLINE)
