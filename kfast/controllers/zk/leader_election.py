"""Elections on demand, automatic rebalancing, and unclean election by configuration.

Source: docs/controller.md, sections 6.8 and 6.11; Kafka 3.9, `KafkaController.onReplicaElection`,
`processReplicaLeaderElection`, `checkAndTriggerAutoLeaderRebalance`. The functions are methods of
`Controller`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.arguments import check_topics, number, partition_keys
from kfast.controllers.zk import fused_events
from kfast.controllers.zk.engine import ExecutionMode, ZkEngine
from kfast.controllers.zk.faults import ControllerMoved, EventFailed
from kfast.controllers.zk.profiles import UNSUPPORTED, Profile
from kfast.controllers.zk.store_machines import Result
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.schema import (
    IMBALANCE,
    PREFERRED_LEADERS,
    REPLIES,
    Code,
    PartitionState,
    Strategy,
)
from kfast.state import ClusterState
from kfast.state.leader_survey import survey_leaders
from kfast.state.records import Rows
from kfast.state.tables import broker_ids, row_keys

ELECTION_TYPES = ("preferred", "unclean")
TRIGGERS = ("AdminClient", "ZkTriggered", "AutoTriggered")
_UNAVAILABLE = {
    "preferred": "PREFERRED_LEADER_NOT_AVAILABLE", "unclean": "ELIGIBLE_LEADERS_NOT_AVAILABLE",
}
Partitions = Sequence[tuple[str, int]] | npt.NDArray[np.int32]


def elect_leaders(
    engine: ZkEngine, partitions: Partitions | None = None,
    type: str = "preferred", trigger: str = "AdminClient",
    *, without_leadership: int | None = None,
) -> Outcome:
    """Elect leaders on demand (section 6.8)."""
    if type not in ELECTION_TYPES:
        raise ArgumentError(f"type {type!r} is unknown; allowed: {', '.join(ELECTION_TYPES)}")
    if trigger not in TRIGGERS[:2]:
        raise ArgumentError(f"trigger {trigger!r} is unknown; allowed: {', '.join(TRIGGERS[:2])}")
    state = engine.state
    rows, unknown = _rows_of(state, partitions)
    if not engine.active:
        return engine.refused("elect_leaders", "NOT_CONTROLLER")
    older = not engine.profile.has_admin_elections
    if older and (type == "unclean" or trigger == "AdminClient"):
        return engine.refused("elect_leaders", UNSUPPORTED)
    errors = _filter(state, rows, type, engine.profile)
    if errors is None or (without_leadership and engine.profile.filters_elections):
        return engine.refused("elect_leaders", "NoSuchElement")
    filtered = rows[errors == ""]
    try:
        result = elect(engine, filtered, type, trigger)
    except ControllerMoved:
        return engine.resigned("elect_leaders")
    outcome = engine.journal.finish("elect_leaders")
    outcome.replies = _replies(state, rows, errors, result, type, unknown)
    return outcome


def elect(engine: ZkEngine, rows: Rows, type: str, trigger: str) -> Result:
    """The core of section 6.8: one call of the partition machine."""
    if type == "preferred":
        strategy = Strategy.PREFERRED_REPLICA
    elif trigger == "AdminClient":
        strategy = Strategy.OFFLINE_ALLOW_UNCLEAN
    else:
        strategy = Strategy.OFFLINE
    machine = engine.partition_state_machine
    return engine.checked(machine.run(rows, PartitionState.ONLINE, strategy))


def elect_pending(engine: ZkEngine, partitions: Sequence[tuple[str, int]]) -> None:
    """Step 11 of section 6.1: the preferred elections that the last controller left behind.

    A partition without leadership makes the failover fail, and the controller resigns.
    """
    state = engine.state
    topics, numbers = partition_keys("preferred_election", partitions)
    rows = state.lookup.rows(state.lookup.topics(topics), numbers)
    rows = np.unique(rows[rows >= 0]).astype(np.int32)
    rows = rows[(state.records["flags"][rows] & schema.FLAG_ASSIGNED) != 0]
    if ((state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP) == 0).any():
        raise EventFailed("NoSuchElement")
    first = state.replicas[rows, 0].astype(np.int32)
    rows = rows[state.records["leader"][rows] != first]
    elect(engine, rows[~_queued(state, rows)], "preferred", "ZkTriggered")


def _rows_of(
    state: ClusterState, partitions: Partitions | None
) -> tuple[Rows, list[tuple[str, int]]]:
    """Ascending rows, and the names that are unknown."""
    if partitions is None:
        assigned = (state.records["flags"] & schema.FLAG_ASSIGNED) != 0
        return np.flatnonzero(assigned).astype(np.int32), []
    if not isinstance(partitions, np.ndarray):
        topics, numbers = partition_keys("partitions", partitions)
        names = list(zip(topics, numbers.tolist(), strict=True))
        rows = state.lookup.rows(state.lookup.topics(topics), numbers)
        known = rows >= 0
        known[known] = (state.records["flags"][rows[known]] & schema.FLAG_ASSIGNED) != 0
        unknown = [name for name, k in zip(names, known.tolist(), strict=True) if not k]
        return np.unique(rows[known]).astype(np.int32), unknown
    return np.sort(state.check_rows(partitions)), []


def _queued(state: ClusterState, rows: Rows) -> npt.NDArray[np.bool_]:
    return state.topic_queued_for_deletion[state.topic_row[rows]]


def _filter(
    state: ClusterState, rows: Rows, type: str, profile: Profile
) -> npt.NDArray[np.object_] | None:
    """Replies that are known before the election, "" for none; None where the filter raises."""
    records = state.records.take(rows)
    errors = np.full(rows.size, "", dtype=object)
    unassigned = (records["flags"] & schema.FLAG_ASSIGNED) == 0
    queued = _queued(state, rows)
    errors[queued] = "INVALID_TOPIC_EXCEPTION"
    errors[unassigned] = "UNKNOWN_TOPIC_OR_PARTITION"
    open_ = ~queued & ~unassigned
    if not profile.filters_elections:
        return errors
    if ((records["flags"][open_] & schema.FLAG_HAS_LEADERSHIP) == 0).any():
        return None
    leader = records["leader"]
    if type == "preferred":
        done = state.replicas[rows, 0].astype(np.int32) == leader
    else:
        live = state.registered & ~state.shutting_down
        done = (leader >= 0) & np.append(live, False)[np.maximum(leader, -1)]
    errors[open_ & done] = "ELECTION_NOT_NEEDED"
    return errors


def count_without_leadership(state: ClusterState) -> int:
    """Partitions without cached leadership, of topics that are not queued: none can be elected for.

    Where there is one, an election of all partitions fails as a whole (`elect_leaders`).
    """
    rows, _ = _rows_of(state, None)
    rows = rows[~_queued(state, rows)]
    flags = state.records["flags"][rows]
    return int(np.count_nonzero((flags & schema.FLAG_HAS_LEADERSHIP) == 0))


def _replies(
    state: ClusterState, rows: Rows, errors: npt.NDArray[np.object_], result: Result,
    type: str, unknown: list[tuple[str, int]],
) -> pa.Table:
    replied = np.ones(rows.size, np.bool_)
    leaders = np.full(rows.size, schema.NO_LEADER, np.int32)
    filtered = np.flatnonzero(errors == "")
    elected = result.codes == Code.ELECTED
    store = np.isin(result.codes, (Code.STORE_ERROR, Code.UNDECODABLE))
    failure = np.where(store, "UNKNOWN_SERVER_ERROR", _UNAVAILABLE[type])
    errors[filtered] = np.where(elected, "", failure)
    errors[filtered[result.codes == Code.MOVED]] = "ELECTION_NOT_NEEDED"
    replied[filtered] = result.in_result
    winners = filtered[elected]
    leaders[winners] = broker_ids(state, state.records["leader"][rows[winners]])
    none = errors[replied] != ""
    table = REPLIES.table({
        **row_keys(state, rows[replied]), "leader": pa.array(leaders[replied], mask=none),
        "error": pa.array(errors[replied], pa.string(), mask=~none),
    })
    absent = [
        {"topic": t, "partition": p, "error": "UNKNOWN_TOPIC_OR_PARTITION"} for t, p in unknown
    ]
    return pa.concat_tables([table, pa.Table.from_pylist(absent, REPLIES.schema)])


def rebalance_leaders(
    engine: ZkEngine, percentage: float = 10, *, counts: pa.Table | None = None,
    reassigned: int | None = None,
) -> Outcome:
    """Give partitions back to their preferred replicas, broker by broker (section 6.8, auto)."""
    percentage = number("percentage", percentage, 0, np.inf)
    if not engine.active:
        return engine.refused("rebalance_leaders", "NOT_CONTROLLER")
    state = engine.state
    preferred, others, rows = survey_leaders(state)
    if counts is not None:
        preferred, others = _counts_of(state, counts)
    ratio = others / np.maximum(preferred, 1)
    brokers = np.flatnonzero(preferred)
    moving = state.n_reassigned if reassigned is None else reassigned
    if not engine.profile.rebalances_while_reassigning and moving:
        rows = rows[:0]
    unbalanced = brokers[ratio[brokers] > percentage / 100].astype(np.int32)
    try:
        fused = engine.way_of("rebalance_leaders") is ExecutionMode.FUSED
        elect = fused_events.rebalance if fused else _rebalance
        rebalanced = elect(engine, unbalanced, rows)
    except ControllerMoved:
        return engine.resigned("rebalance_leaders")
    outcome = engine.journal.finish("rebalance_leaders")
    outcome.imbalance = IMBALANCE.table({
        "broker_id": pa.array(state.broker_id[brokers]), "preferred": pa.array(preferred[brokers]),
        "led_by_others": pa.array(others[brokers]), "ratio": pa.array(ratio[brokers]),
    })
    outcome.rebalanced = tuple(state.broker_id[rebalanced].tolist())
    return outcome


def count_preferred(state: ClusterState) -> pa.Table:
    """Partitions that each broker should lead, and those of them that others lead.

    Returns
    -------
    pa.Table
        broker_id, preferred, led_by_others; brokers that should lead nothing are left out.
    """
    preferred, others, _ = survey_leaders(state)
    brokers = np.flatnonzero(preferred)
    return PREFERRED_LEADERS.table({
        "broker_id": pa.array(state.broker_id[brokers]), "preferred": pa.array(preferred[brokers]),
        "led_by_others": pa.array(others[brokers]),
    })


def _counts_of(
    state: ClusterState, counts: pa.Table
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Given counts in the order of the state's brokers; of brokers that it has."""
    at = state.broker_rows(counts["broker_id"].to_numpy())
    known = at >= 0
    both = []
    for name in ("preferred", "led_by_others"):
        values = np.zeros(state.n_brokers, np.int64)
        values[at[known]] = counts[name].to_numpy()[known]
        both.append(values)
    return both[0], both[1]


def _rebalance(engine: ZkEngine, unbalanced: Rows, rows: Rows) -> list[int]:
    """One election for each unbalanced broker row; returns those with something to elect."""
    state = engine.state
    candidates = _candidates(engine, rows)
    preferred_broker = state.replicas[candidates, 0].astype(np.int32)
    order = np.argsort(preferred_broker, kind="stable")
    candidates, preferred_broker = candidates[order], preferred_broker[order]
    rebalanced = []
    with engine.batches():
        for broker in unbalanced.tolist():
            begin, end = np.searchsorted(preferred_broker, [broker, broker + 1])
            elect(engine, candidates[begin:end], "preferred", "AutoTriggered")
            if begin < end:
                rebalanced.append(broker)
    return rebalanced


def _candidates(engine: ZkEngine, rows: Rows) -> Rows:
    """Rows of existing topics whose preferred replica is online and in the cached ISR.

    Older versions do not ask for the ISR (section 8.1).
    """
    state, profile = engine.state, engine.profile
    live = state.live_slots(rows)
    if profile.rebalances_in_isr:
        live &= state.records["isr"][rows]
    ready = (live & np.uint64(1)) != 0
    candidates: Rows = rows[ready & state.topic_exists[state.topic_row[rows]]]
    return candidates


def enable_unclean_leader_election(
    engine: ZkEngine, topics: Sequence[str] | None = None
) -> Outcome:
    """`unclean.leader.election.enable` becomes true, for some topics or as the default."""
    state = engine.state
    if topics is not None:
        topics = check_topics("topics", topics)
        state.find_topics(topics)
    state.set_unclean_leader_election(True, topics)
    machine = engine.partition_state_machine

    def steps() -> None:
        if topics is None:
            engine.checked(machine.trigger_online())
        for topic in topics or ():
            engine.checked(machine.trigger_online([topic]))

    return engine.attempt("enable_unclean_leader_election", steps)
