"""The machines' calls of a store: read, decide, write, and again after a conflict.

What is decided comes from the same rule functions as where the cache is the store; here stand
only the loops around them, what each answer of the store means, and what a call of a machine gives.

Source: docs/controller.md, sections 1.7, 2.3 to 2.6, 3.3 to 3.6 and 8.1; Kafka 3.9,
`ZkReplicaStateMachine` (`doRemoveReplicasFromIsr`), `ZkPartitionStateMachine`
(`initializeLeaderAndIsrForPartitions`, `doElectLeaderForPartitions`) and `KafkaZkClient`;
Kafka 1.0, `ReplicaStateMachine.handleStateChange`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.controllers.zk.faults import ControllerMoved
from kfast.controllers.zk.policy_runner import NOT_DECIDED, ElectionCause, PolicyRunner
from kfast.controllers.zk.profiles import Profile
from kfast.controllers.zk.store import CallFailed, Store, StoreAnswer
from kfast.journal import Journal, Tally
from kfast.journal.effects import EFFECT, Effects
from kfast.kernels import election, hosting, isr, replica_states
from kfast.schema import (
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    KIND_ELECTION,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_QUEUED,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_LEADERS_MOVED,
    TALLY_UNCLEAN,
    Code,
    PartitionState,
    ReplicaState,
    Strategy,
)
from kfast.state import ClusterState, Replicas
from kfast.state.arrays import first_slots
from kfast.state.records import Rows

_IN_RESULT = np.array([
    code not in (Code.ILLEGAL_STATE, Code.INITIALIZED, Code.NO_LIVE_REPLICA, Code.NODE_EXISTS,
                 Code.CREATE_CALL_FAILED)
    for code in map(Code, range(len(Code)))
])
"""Whether the result map has an entry, by code, where the cache is the store (section 3.4)."""


@dataclass(frozen=True)
class Result:
    """What one call of a machine gave.

    Attributes
    ----------
    codes : (n,) uint8
        `schema.Code` per target.
    in_result : (n,) bool
        Whether Kafka's result map has an entry; partitions only.
    failure : Code or None
        The call failed as a whole.
    """

    codes: npt.NDArray[np.uint8]
    in_result: npt.NDArray[np.bool_]
    failure: Code | None = None

    @property
    def any_elected(self) -> bool:
        """Whether some entry of the result map is a success."""
        return bool((self.codes == Code.ELECTED).any())


NO_TARGETS = Result(np.empty(0, np.uint8), np.empty(0, np.bool_))
"""Result of a call without targets."""


def online_action(strategy: Strategy | None) -> str:
    """Name of a step that brings partitions Online."""
    how = "no strategy" if strategy is None else strategy.name
    return f"partitions to {PartitionState.ONLINE.label} ({how})"


def call_result(codes: npt.NDArray[np.uint8]) -> Result:
    """Kafka's result map: elections only (section 3.4)."""
    return Result(codes, _IN_RESULT[codes])


def call_failed(codes: npt.NDArray[np.uint8], failure: Code) -> Result:
    """Kafka's result map of a call that failed: the error for every input (section 3.3)."""
    return Result(np.full_like(codes, failure), np.ones(codes.size, np.bool_), failure)


Codes = npt.NDArray[np.uint8]
_UNCOUNTED = (Code.NOT_ASKED, Code.CONFIG_LOOKUP_LOGGED)
_TRANSITIONS = (Code.MOVED, Code.INITIALIZED, Code.ELECTED, Code.APPENDED)


class UndecodableRecord(Exception):  # noqa: N818 - it is caught where the rules say what follows
    """A record that cannot be decoded makes the whole call fail (section 8.1)."""


def copy_leadership(effects: Effects, records: npt.NDArray[Any]) -> None:
    """Copy into effects what LeaderAndIsr says of some records."""
    for name in ("leader", "leader_epoch", "version", "controller_epoch", "isr"):
        effects[name] = records[name]
    effects["recovery"] = (records["flags"] & FLAG_RECOVERY) != 0


class StoreSession:
    """One call of a machine with a store: what it counts and what became of each target."""

    def __init__(
        self, state: ClusterState, store: Store, rows: Rows, journal: Journal, profile: Profile,
        policy_runner: PolicyRunner | None = None,
    ) -> None:
        # Neither broker rows nor slots move within the call.
        store.track_brokers(rows)
        self.state = state
        self.store = store
        self.tally: Tally = journal.new_tally()
        self.profile = profile
        self.policy_runner = policy_runner
        self.effects: list[Effects] = []

    def count_effects(self) -> Effects:
        """Count what became of all targets, and return it in order."""
        effects = np.concatenate([*self.effects, np.zeros(0, EFFECT)])
        total = self.tally[0]
        counted = effects[~np.isin(effects["code"], _UNCOUNTED)]
        np.add.at(total, TALLY_CODES + counted["code"].astype(np.int64), 1)
        moved = counted[np.isin(counted["code"], _TRANSITIONS)]
        cells = 8 * moved["from_state"].astype(np.int64) + moved["to_state"]
        np.add.at(total, TALLY_CELLS + cells, 1)
        before, after = moved["leader_before"], moved["leader"]
        elected = (moved["kinds"] & KIND_ELECTION) != 0
        replaced = elected & (before >= 0) & (after >= 0) & (before != after)
        total[TALLY_LEADERS_MOVED] += int(replaced.sum())
        return effects

    def is_queued(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether the topic of each row is queued for deletion."""
        return self.state.topic_queued_for_deletion[self.state.topic_row[rows]]

    def new_effects(
        self, rows: Rows, brokers: Rows | int, source: npt.NDArray[Any], target: int
    ) -> Effects:
        """Effects that start with the cached records as they are now."""
        records = self.state.records.take(rows)
        effects = np.zeros(rows.size, EFFECT)
        effects["row"], effects["broker"] = rows, brokers
        effects["leader_before"], effects["isr_before"] = records["leader"], records["isr"]
        effects["from_state"], effects["to_state"] = source, target
        effects["kinds"] = np.where(self.is_queued(rows), KIND_QUEUED, 0)
        return effects

    def copy_cached(self, effects: Effects) -> None:
        """Copy into effects what a request says of the cached records now."""
        records = self.state.records[effects["row"]]
        copy_leadership(effects, records)
        for name in ("adding", "removing", "n_replicas", "n_slots"):
            effects[name] = records[name]

    def put_leadership(self, rows: Rows, written: npt.NDArray[Any]) -> None:
        """Take records into the cache, under this controller's epoch (`put_leadership`)."""
        state = self.state
        written["controller_epoch"] = state.controller_epoch
        election.adopt(state.columns, rows, written, self.tally[0])

    def read(self, rows: Rows, *, strict: bool = False) -> tuple[Codes, npt.NDArray[Any]]:
        """Read records and classify the answers: MOVED where the record can be decided on.

        With `strict` a record that cannot be decoded raises `UndecodableRecord`.
        """
        try:
            answers, stored = self.store.read_states(rows)
        except CallFailed:
            return np.full(rows.size, Code.STORE_ERROR, np.uint8), self.state.records.take(rows)
        if strict and (answers == StoreAnswer.UNDECODABLE).any():
            raise UndecodableRecord
        codes = np.full(rows.size, Code.STORE_ERROR, np.uint8)
        codes[answers == StoreAnswer.OK] = Code.MOVED
        absent = (answers == StoreAnswer.NO_NODE) | (answers == StoreAnswer.UNDECODABLE)
        codes[absent] = Code.NO_RECORD
        newer = stored["controller_epoch"] > self.state.controller_epoch
        codes[(answers == StoreAnswer.OK) & newer] = Code.NEWER_CONTROLLER
        return codes, stored

    def write(
        self, rows: Rows, proposed: npt.NDArray[Any], codes: Codes, chosen: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Write the chosen proposals; failures become codes. Returns which are to be retried."""
        retry = np.zeros(rows.size, np.bool_)
        try:
            answers, versions = self.store.update_states(
                rows[chosen], proposed[chosen], guarded=self.profile.guards_writes
            )
        except CallFailed:
            codes[chosen] = Code.STORE_ERROR
            return retry
        some = np.flatnonzero(chosen)
        done = answers == StoreAnswer.OK
        proposed["version"][some[done]] = versions[done]
        retry[some[answers == StoreAnswer.CONFLICT]] = True
        codes[some[~done & (answers != StoreAnswer.CONFLICT)]] = Code.STORE_ERROR
        return retry


# --- partitions become Online -------------------------------------------------------------------


Mask = npt.NDArray[np.bool_]


def bring_online(
    state: ClusterState, store: Store, journal: Journal, rows: Rows, strategy: Strategy | None,
    policy_runner: PolicyRunner,
) -> Result:
    """`PartitionStateMachine.run` to Online with a store (section 3.4)."""
    profile = policy_runner.profile
    session = StoreSession(state, store, rows, journal, profile, policy_runner)
    states = state.records["partition_state"]
    missing = rows[states[rows] == PartitionState.NO_ENTRY]
    states[missing] = PartitionState.NON_EXISTENT
    before = states[rows].copy()
    legal = np.isin(before, np.array(list(profile.partition_previous[PartitionState.ONLINE])))
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    refused = session.new_effects(rows[~legal], -1, before[~legal], PartitionState.ONLINE)
    refused["code"] = codes[~legal] = Code.ILLEGAL_STATE
    session.effects.append(refused)
    new = legal & (before == PartitionState.NEW)
    others = legal & ~new
    failure = _bring_online(session, rows, before, new, others, strategy, codes)
    effects = session.count_effects()
    journal.add_step(
        online_action(strategy), session.tally, effects, replicas=False,
        strategy=strategy, from_store=True, sent=failure is None,
    )
    return Result(codes, others) if failure is None else call_failed(codes, failure)


def _bring_online(
    session: StoreSession, rows: Rows, before: npt.NDArray[np.int8], new: Mask, others: Mask,
    strategy: Strategy | None, codes: Codes,
) -> Code | None:
    """New partitions first, then the others, or one by one; how the call failed as a whole."""
    together = [new, others] if new.any() else [others]
    if session.profile.batch_per_partition:
        together = [np.arange(rows.size) == at for at in np.flatnonzero(new | others)]
    needs_strategy = not session.profile.writes_back_without_strategy
    try:
        for some in together:
            if (new & some).any():
                codes[some] = _initialize(session, rows[some])
            elif some.any() and strategy is None and needs_strategy:
                return Code.ILLEGAL_ARGUMENT
            elif some.any():
                codes[some] = _elect(session, rows[some], before[some], strategy)
    except ControllerMoved:
        return Code.CONTROLLER_MOVED
    except UndecodableRecord:
        return Code.UNDECODABLE
    return None


def _initialize(session: StoreSession, rows: Rows) -> Codes:
    """Section 3.5: the first records of new partitions."""
    state = session.state
    proposed = state.records.take(rows)
    codes, recipients = np.empty(rows.size, np.uint8), np.empty(rows.size, np.uint64)
    election.propose_initial(
        state.columns, rows, proposed, state.controller_epoch, codes, recipients
    )
    before = np.full(rows.size, PartitionState.NEW)
    effects = session.new_effects(rows, -1, before, PartitionState.ONLINE)
    chosen = codes == Code.MOVED
    try:
        answers = _create(session, rows[chosen], proposed[chosen])
        codes[chosen] = np.array(
            [Code.INITIALIZED if a == StoreAnswer.OK
             else Code.NODE_EXISTS if a == StoreAnswer.NODE_EXISTS else Code.STORE_ERROR
             for a in answers.tolist()], np.uint8,
        )
    except CallFailed:
        codes[chosen] = Code.CREATE_CALL_FAILED
    except ControllerMoved:
        effects["code"] = codes
        session.effects.append(effects[~chosen])
        raise
    done = codes == Code.INITIALIZED
    session.put_leadership(rows[done], proposed[done])
    _set_online(session, rows[done])
    effects["code"] = codes
    effects["kinds"][done] |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    effects["recipients"] = np.where(done, recipients, 0)
    session.copy_cached(effects)
    session.effects.append(effects)
    return codes


def _create(
    session: StoreSession, rows: Rows, proposed: npt.NDArray[Any]
) -> npt.NDArray[np.uint8]:
    """The call is made even when there is nothing to create, but not item by item (section 3.5)."""
    if session.profile.batch_per_partition and not rows.size:
        return np.empty(0, np.uint8)
    return session.store.create_states(rows, proposed, guarded=session.profile.guards_writes)


def _elect(
    session: StoreSession, rows: Rows, before: npt.NDArray[np.int8], strategy: Strategy | None
) -> Codes:
    """Section 3.6: elect, write, and elect again those whose record changed meanwhile.

    In some versions one changed record makes all elections of the call run again (section 8.1):
    those that succeed in any round are Online at the end.
    """
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    remaining = np.arange(rows.size)
    n_before = len(session.effects)
    elected = np.zeros(rows.size, np.bool_)
    while remaining.size:
        try:
            answer, retry = _elect_once(session, rows[remaining], before[remaining], strategy)
        except (ControllerMoved, UndecodableRecord) as failed:
            # Elected and announced, but the states were still to be set.
            moved = isinstance(failed, ControllerMoved)
            for effects in session.effects[n_before:]:
                lost = effects["code"] == Code.ELECTED
                effects["code"][lost] = Code.CONTROLLER_MOVED if moved else Code.UNDECODABLE
            raise
        codes[remaining] = answer
        elected |= codes == Code.ELECTED
        again = retry.any() and session.profile.retries_every_election
        remaining = remaining if again else remaining[retry]
    codes[elected] = Code.ELECTED
    if session.profile.retries_every_election:
        _note_elected_again(session, n_before)
    _set_online(session, rows[elected | (codes == Code.MOVED)])
    return codes


def _note_elected_again(session: StoreSession, n_before: int) -> None:
    """A partition that was elected twice was Online the second time."""
    seen: set[int] = set()
    for effects in session.effects[n_before:]:
        done = effects["code"] == Code.ELECTED
        again = done & np.isin(effects["row"], list(seen))
        effects["from_state"][again] = PartitionState.ONLINE
        seen.update(effects["row"][done].tolist())


def _elect_once(
    session: StoreSession, rows: Rows, before: npt.NDArray[np.int8], strategy: Strategy | None
) -> tuple[Codes, Mask]:
    state, profile = session.state, session.profile
    answer, stored = session.read(rows, strict=profile.undecodable_fails_call)
    effects = session.new_effects(rows, -1, before, PartitionState.ONLINE)
    effects["kinds"] |= KIND_ELECTION
    retry = np.zeros(rows.size, np.bool_)
    skipped = (answer == Code.MOVED) & _needs_no_election(session, rows, strategy)
    effects["kinds"][skipped] &= 255 - KIND_ELECTION
    usable = np.flatnonzero((answer == Code.MOVED) & ~skipped)
    if usable.size:
        choices = np.zeros(usable.size, EFFECT)
        proposed = stored[usable]
        number, unreadable = profile.kernel_strategy(strategy), session.store.unreadable_topics()
        decided = NOT_DECIDED if session.policy_runner is None else session.policy_runner.decide(
            rows[usable], number, ElectionCause.STORED, records=proposed, unreadable=unreadable
        )
        election.choose(
            state.columns, profile.rules(state, counting=False, asks_store=True), rows[usable],
            proposed, number, unreadable, decided, choices,
        )
        chosen = choices["code"]
        session.tally[0, TALLY_UNCLEAN] += np.count_nonzero(choices["kinds"])
        try:
            again = session.write(rows[usable], proposed, chosen, chosen == Code.MOVED)
        except ControllerMoved:
            logged = effects[usable[chosen == Code.CONFIG_LOOKUP_FAILED]]
            logged["code"] = Code.CONFIG_LOOKUP_LOGGED
            session.effects.append(logged)
            raise
        done = (chosen == Code.MOVED) & ~again
        session.put_leadership(rows[usable[done]], proposed[done])
        answer[usable] = np.where(done, Code.ELECTED, chosen)
        retry[usable] = again
        marks = choices["kinds"] | KIND_LEADER_AND_ISR
        effects["kinds"][usable] |= np.where(done, marks, 0).astype(np.uint8)
        effects["recipients"][usable] = np.where(done, choices["recipients"], 0)
    effects["code"] = answer
    session.copy_cached(effects)
    session.effects.append(effects[~retry])
    return answer, retry


def _needs_no_election(session: StoreSession, rows: Rows, strategy: Strategy | None) -> Mask:
    """Where the preferred replica leads already, as the cache says (section 8.1)."""
    if not session.profile.skips_leading_preferred or strategy is not Strategy.PREFERRED_REPLICA:
        return np.zeros(rows.size, np.bool_)
    records = session.state.records.take(rows)
    led = ((records["flags"] & FLAG_HAS_LEADERSHIP) != 0) & (records["n_replicas"] > 0)
    led &= session.state.replicas[rows, 0].astype(np.int32) == records["leader"]
    leads: Mask = led
    return leads


def _set_online(session: StoreSession, rows: Rows) -> None:
    state = session.state
    for row in rows.tolist():
        state.set_partition_state(row, PartitionState.ONLINE)


# --- replicas go Offline, or become New ---------------------------------------------------------


def take_offline(
    state: ClusterState, store: Store, journal: Journal, replicas: Replicas, ranks: Rows,
    profile: Profile,
) -> Result:
    """Replicas to OfflineReplica with a store: broker groups one by one, by rank (section 2.3)."""
    session = StoreSession(state, store, replicas.rows, journal, profile)
    rows, brokers = targets(state, replicas, ranks)
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    failure: Code | None = None
    try:
        for at in _groups(brokers, ranks, profile.batch_per_partition):
            codes[at] = _change_group(session, rows[at], int(brokers[at[0]]), codes[at])
    except ControllerMoved:
        failure = Code.CONTROLLER_MOVED
    effects = session.count_effects()
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
    row, broker = np.concatenate(rows), np.concatenate(brokers)
    order = np.lexsort((ranks[broker], row))
    return row[order], broker[order]


def _change_group(session: StoreSession, rows: Rows, broker: int, codes: Codes) -> Codes:
    """Section 2.5 for the replicas of one broker."""
    state = session.state
    slots = np.empty(rows.size, np.int32)
    hosting.find_slots(state.columns, rows, np.full(rows.size, broker, np.int32), slots)
    before = state.replica_state[rows, slots].copy()
    effects = np.zeros(rows.size, EFFECT)
    scratch = np.zeros((1, session.tally.shape[1]), np.int64)
    replica_states.change_replicas(
        state.columns, session.profile.rules(state, counting=False, asks_store=True),
        Replicas(rows, np.uint64(1) << slots.astype(np.uint64)), (state.broker_id, False),
        int(ReplicaState.OFFLINE), codes, effects, scratch,
    )
    waiting = codes == Code.NOT_ASKED
    session.effects.append(effects)
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
    effects = session.new_effects(rows, broker, before, ReplicaState.OFFLINE)
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    remaining = np.arange(rows.size)
    while remaining.size:
        answer, retry = _shrink_once(session, rows[remaining], slots[remaining])
        codes[remaining] = answer
        remaining = remaining[retry]
    done = codes == Code.MOVED
    state.replica_state[rows[done], slots[done]] = ReplicaState.OFFLINE
    announced = done & ~session.is_queued(rows)
    effects["kinds"][announced] |= KIND_LEADER_AND_ISR
    assigned = first_slots(state.records["n_replicas"][rows])
    without = assigned & ~(np.uint64(1) << slots.astype(np.uint64))
    effects["recipients"] = np.where(announced, without, 0)
    effects["code"] = codes
    session.copy_cached(effects)
    session.effects.append(effects)
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
        session.put_leadership(rows[retry], lost)
    done = (answer == Code.MOVED) & ~retry
    session.put_leadership(rows[done], stored[done])
    return answer, retry


def _may_empty(session: StoreSession, rows: Rows) -> npt.NDArray[np.uint8]:
    """Where the last member may leave the ISR (section 8.1)."""
    if not session.profile.empties_unclean_isr:
        return np.zeros(rows.size, np.uint8)
    flags = session.state.topic_flags[session.state.topic_row[rows]]
    unclean: npt.NDArray[np.uint8] = ((flags & schema.TOPIC_UNCLEAN) != 0).astype(np.uint8)
    return unclean


def start_new(
    state: ClusterState, store: Store, journal: Journal, replicas: Replicas, profile: Profile
) -> Result:
    """Replicas to NewReplica where the store is asked who leads: one by one (section 8.1).

    What LeaderAndIsr says comes from the store, what UpdateMetadata says from the cache.
    """
    session = StoreSession(state, store, replicas.rows, journal, profile)
    rows, brokers = targets(state, replicas, state.broker_id)
    codes = np.empty(rows.size, np.uint8)
    for at in _groups(brokers, state.broker_id, True):
        codes[at] = _start_one(session, rows[at], brokers[at])
    effects = session.count_effects()
    announced = np.unique(effects["row"][(effects["kinds"] & KIND_LEADER_AND_ISR) != 0])
    announced = announced[(state.records["flags"][announced] & FLAG_HAS_LEADERSHIP) != 0]
    journal.add_step(
        f"replicas to {ReplicaState.NEW.label}", session.tally, effects, replicas=True,
        from_store=True, announced=journal.record_effects(announced),
    )
    return Result(codes, np.empty(0, np.bool_))


def _start_one(session: StoreSession, row: Rows, broker: Rows) -> int:
    """One replica to NewReplica; returns its code."""
    state = session.state
    slot = np.empty(1, np.int32)
    hosting.find_slots(state.columns, row, broker, slot)
    before = int(state.replica_state[row, slot][0]) or int(ReplicaState.NON_EXISTENT)
    state.replica_state[row, slot] = before
    effect = session.new_effects(row, broker, np.asarray([before]), ReplicaState.NEW)
    session.copy_cached(effect)
    code = Code.ILLEGAL_STATE
    if before in session.profile.replica_previous[ReplicaState.NEW]:
        code = _notify_new_replica(session, row, int(broker[0]), int(slot[0]), effect)
    if code == Code.MOVED:
        state.replica_state[row, slot] = ReplicaState.NEW
    effect["code"] = code
    session.effects.append(effect)
    return int(code)


def _notify_new_replica(
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
    copy_leadership(effect, stored)
    effect["kinds"] |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    effect["recipients"] = np.uint64(1) << np.uint64(slot)
    return Code.MOVED
