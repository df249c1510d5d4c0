"""Partitions that become Online with a store: their first records, and elections.

Source: docs/controller.md, sections 3.4 to 3.6 and 8.1; Kafka 3.9, `ZkPartitionStateMachine`
(`initializeLeaderAndIsrForPartitions`, `doElectLeaderForPartitions`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.controllers.zk.policy_runner import NOT_DECIDED, ElectionCause, PolicyRunner
from kfast.controllers.zk.results import Result, online_action
from kfast.controllers.zk.store import Answer, CallFailed, ControllerMoved, Store
from kfast.controllers.zk.store_machines.session import Codes, StoreSession, UndecodableRecord
from kfast.journal import Journal
from kfast.journal.effects import (
    KIND_ELECTION,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_UNCLEAN,
    LAYOUT,
)
from kfast.kernels import election
from kfast.schema import FLAG_HAS_LEADERSHIP, Code, PartitionState, Strategy
from kfast.state import ClusterState
from kfast.state.records import Rows

Mask = npt.NDArray[np.bool_]


def bring_online(
    state: ClusterState, store: Store, journal: Journal, rows: Rows, strategy: Strategy | None,
    decider: PolicyRunner,
) -> Result:
    """`PartitionStateMachine.run` to Online with a store (section 3.4)."""
    profile = decider.profile
    store.make_known(rows)
    session = StoreSession(state, store, journal.new_tally(), profile, decider)
    states = state.records["partition_state"]
    missing = rows[states[rows] == PartitionState.NO_ENTRY]
    states[missing] = PartitionState.NON_EXISTENT
    before = states[rows].copy()
    legal = np.isin(before, np.array(list(profile.partition_previous[PartitionState.ONLINE])))
    codes = np.full(rows.size, Code.NOT_ASKED, np.uint8)
    refused = session.begin(rows[~legal], -1, before[~legal], PartitionState.ONLINE)
    refused["code"] = codes[~legal] = Code.ILLEGAL_STATE
    session.tell(refused)
    new = legal & (before == PartitionState.NEW)
    others = legal & ~new
    failure = _bring_online(session, rows, before, new, others, strategy, codes)
    effects = session.finish()
    journal.add_step(
        online_action(PartitionState.ONLINE, strategy), session.tally, effects, replicas=False,
        strategy=strategy, from_store=True, sent=failure is None,
    )
    if failure is not None:
        every = np.ones(rows.size, np.bool_)
        return Result(np.full(rows.size, failure, np.uint8), every, failure)
    return Result(codes, others)


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
        state.columns, rows, proposed, state.controller_epoch, codes, recipients,
    )
    effects = session.begin(rows, -1, np.full(rows.size, PartitionState.NEW), PartitionState.ONLINE)
    chosen = codes == Code.MOVED
    try:
        answers = _create(session, rows[chosen], proposed[chosen])
        codes[chosen] = np.array(
            [Code.INITIALIZED if a == Answer.OK
             else Code.NODE_EXISTS if a == Answer.NODE_EXISTS else Code.STORE_ERROR
             for a in answers.tolist()], np.uint8,
        )
    except CallFailed:
        codes[chosen] = Code.CREATE_CALL_FAILED
    except ControllerMoved:
        effects["code"] = codes
        session.tell(effects[~chosen])
        raise
    done = codes == Code.INITIALIZED
    session.adopt(rows[done], proposed[done])
    _set_online(session, rows[done])
    effects["code"] = codes
    effects["kinds"][done] |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    effects["recipients"] = np.where(done, recipients, 0)
    session.carry(effects)
    session.tell(effects)
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
    told = len(session.effects)
    elected = np.zeros(rows.size, np.bool_)
    while remaining.size:
        try:
            answer, retry = _elect_once(session, rows[remaining], before[remaining], strategy)
        except (ControllerMoved, UndecodableRecord) as failed:
            # Elected and announced, but the states were still to be set.
            moved = isinstance(failed, ControllerMoved)
            for effects in session.effects[told:]:
                lost = effects["code"] == Code.ELECTED
                effects["code"][lost] = Code.CONTROLLER_MOVED if moved else Code.UNDECODABLE
            raise
        codes[remaining] = answer
        elected |= codes == Code.ELECTED
        again = retry.any() and session.profile.retries_every_election
        remaining = remaining if again else remaining[retry]
    codes[elected] = Code.ELECTED
    if session.profile.retries_every_election:
        _note_elected_again(session, told)
    _set_online(session, rows[elected | (codes == Code.MOVED)])
    return codes


def _note_elected_again(session: StoreSession, told: int) -> None:
    """A partition that was elected twice was Online the second time."""
    seen: set[int] = set()
    for effects in session.effects[told:]:
        done = effects["code"] == Code.ELECTED
        again = done & np.isin(effects["row"], list(seen))
        effects["from_state"][again] = PartitionState.ONLINE
        seen.update(effects["row"][done].tolist())


def _elect_once(
    session: StoreSession, rows: Rows, before: npt.NDArray[np.int8], strategy: Strategy | None
) -> tuple[Codes, Mask]:
    state, profile = session.state, session.profile
    answer, stored = session.read(rows, strict=profile.undecodable_fails_call)
    effects = session.begin(rows, -1, before, PartitionState.ONLINE)
    effects["kinds"] |= KIND_ELECTION
    retry = np.zeros(rows.size, np.bool_)
    skipped = (answer == Code.MOVED) & _needs_no_election(session, rows, strategy)
    effects["kinds"][skipped] &= 255 - KIND_ELECTION
    usable = np.flatnonzero((answer == Code.MOVED) & ~skipped)
    if usable.size:
        chosen, told = np.empty(usable.size, np.uint8), np.empty(usable.size, np.uint64)
        unclean = np.empty(usable.size, np.uint8)
        proposed = stored[usable]
        number, unreadable = profile.kernel_strategy(strategy), session.store.unreadable_topics()
        decided = NOT_DECIDED if session.decider is None else session.decider.decide(
            rows[usable], number, ElectionCause.STORED, records=proposed, unreadable=unreadable
        )
        election.choose(
            state.columns, rows[usable], proposed, number, state.leader_recovery_supported and
            profile.marks_recovery, unreadable, decided, chosen, told, unclean,
        )
        session.tally[0, LAYOUT["unclean"]] += int(unclean.sum())
        try:
            again = session.write(rows[usable], proposed, chosen, chosen == Code.MOVED)
        except ControllerMoved:
            logged = effects[usable[chosen == Code.CONFIG_LOOKUP_FAILED]]
            logged["code"] = Code.CONFIG_LOOKUP_LOGGED
            session.tell(logged)
            raise
        done = (chosen == Code.MOVED) & ~again
        session.adopt(rows[usable[done]], proposed[done])
        answer[usable] = np.where(done, Code.ELECTED, chosen)
        retry[usable] = again
        marks = np.where(unclean != 0, KIND_LEADER_AND_ISR | KIND_UNCLEAN, KIND_LEADER_AND_ISR)
        effects["kinds"][usable] |= np.where(done, marks, 0).astype(np.uint8)
        effects["recipients"][usable] = np.where(done, told, 0)
    effects["code"] = answer
    session.carry(effects)
    session.tell(effects[~retry])
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
