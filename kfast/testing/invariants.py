"""What is true of every state: rules of section 9, a function each or for a few of them.

`check` runs the rules that one state shows; `check_step` those that compare a state with the one
before and with what the journal says of the event between; `check_call` the one that speaks of a
single call of the partition machine. A rule that does not hold is kfast's own mistake:
`InvariantError`.

Here are rules 1 to 19 and 22 to 26, and of 20 and 21 what slots must satisfy.

Source: docs/controller.md, section 9; the numbers are its numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.controllers import DEFAULT_PROFILE, ZK_3_9, Profile, find_profile
from kfast.controllers.zk.store import Store
from kfast.errors import InvariantError
from kfast.journal import Outcome, QuorumOutcome
from kfast.schema import Code, PartitionState, ReplicaState
from kfast.state import ClusterState, Leadership
from kfast.state.arrays import first_slots
from kfast.state.leader_survey import has_survey, survey_leaders
from kfast.testing.quorum_invariants import check_quorum, check_quorum_step

__all__ = ["after_broker_failure", "check", "check_call", "check_step"]

Mask = npt.NDArray[np.bool_]
ASKED_BY_LEADERS = ("alter_partition", "catch_up", "on_isr_change_notification")
TO_ONLINE = f"partitions to {PartitionState.ONLINE.label}"
"""What the machine calls a call that brings partitions Online."""
TRIGGERS = ("trigger online", "enable_unclean_leader_election")
"""Events that are `trigger_online` and nothing else."""
WRITTEN = ("leader_epoch", "version", "controller_epoch", "partition_state")
DELETION_EVENTS = ("delete_topics", "on_stop_replica_response", "acknowledge_deletions")
CHOSEN = (Code.ELECTED.name, Code.INITIALIZED.name)
BY_HAND = ("partitions to ", "replicas to ")
"""How the names of events begin that move partitions or replicas as a caller says."""
RECOVERING = 1


def check(state: ClusterState, *, offline: bool = True) -> None:
    """Check the rules that one state shows; `InvariantError` names the first that fails.

    Rule 11 is left out where not `offline`. Kafka's own count leaves it when an Offline partition
    outlives its topic (`remove_topic` keeps states, section 1.6) and the name is then deleted or
    made again, or when somebody moves partitions of a started topic by hand.

    Of a KRaft cluster, the rules of docs/kraft.md, section 13 (module `quorum_invariants`).
    """
    if state.is_kraft:
        check_quorum(state)
        return
    counters_are_what_they_count(state, offline=offline)
    kept_survey_is_current(state)
    started_topics_are_queued(state)
    masks_fit_the_slots(state)


def check_step(
    before: ClusterState, after: ClusterState, outcome: Outcome | QuorumOutcome,
    store: Store | None = None, profile: str | Profile = DEFAULT_PROFILE,
) -> None:
    """Check the rules that compare two states with one event of the controller between them.

    Rows that the event added are left out. A failover makes all states anew and is left out of
    rule 1 for its first step, as section 9 says. Rules 2, 4 and 8 do not bind a profile
    that caches what it failed to write, that empties the ISR where unclean election is allowed, or
    that does not cache the epoch which a reassignment raises (section 8.1). With a store, rule 5 is
    left out: the ISR that an election finds there may be newer than the cached one. So is rule 9
    for a failover, which reads records that may be newer than the cached ones.

    Of a KRaft cluster, the rules of docs/kraft.md, section 13.
    """
    if isinstance(outcome, QuorumOutcome):
        check_quorum_step(before, after, outcome)
        return
    version = find_profile(profile)
    if not version.caches_lost_writes:
        records_only_grow(before, after)
    if not version.empties_unclean_isr:
        isr_never_empties(before, after)
    leaders_stay_in_their_isr(before, after)
    reassignments_end_complete(before, after)
    if store is None or outcome.event != "on_controller_failover":  # That reads what is stored.
        newer_records_are_left_alone(before, after, outcome, store)
    triggers_leave_the_online_alone(before, after, outcome)
    if outcome.level != "full":
        return
    transitions_are_legal(outcome, version)
    if store is None:
        isr_never_grows_by_election(outcome)
    unclean_elections_are_marked(after, outcome, version)
    leaders_are_online(before, after, outcome)
    if not version.skips_leading_preferred:
        online_partitions_have_leaders(outcome)
    queued_topics_rest(before, after, outcome, version)
    requests_go_to_registered_brokers(before, after, outcome)
    new_replicas_are_new(outcome)
    deletion_is_marked(after, outcome)
    deleted_topics_were_deleted(before, after, outcome)
    deletion_is_not_retried_under_way(before, after, outcome)
    deletion_follows_offline(outcome)
    metadata_goes_with_leadership(outcome)
    if store is not None and version.epoch_bump_is_cached:
        cache_equals_store(after, store, outcome)


# --- one state ----------------------------------------------------------------------------------


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
        value, counted = getattr(state, name), getattr(fresh, name)
        if value != counted:
            raise InvariantError(f"invariant {number}: {name} is {value}, counted {counted}")
    for name in ("leader_offline", "pending"):
        if not np.array_equal(getattr(state, name), getattr(fresh, name)):
            raise InvariantError(f"the bitmap {name} differs from what the columns say")


def kept_survey_is_current(state: ClusterState) -> None:
    """What serves the automatic rebalance (section 6.8): every row that another leads is marked."""
    if state.survey is None or not has_survey(state):
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


# --- a state and the one before -----------------------------------------------------------------


def _common(before: ClusterState, after: ClusterState) -> npt.NDArray[np.int64]:
    """Rows with leadership in both, of topics that exist in both."""
    n = before.n_partitions
    held = has_leadership(before) & has_leadership(after)[:n]
    return np.flatnonzero(held & after.topic_exists[after.topic_row[:n]])


def records_only_grow(before: ClusterState, after: ClusterState) -> None:
    """Rule 2: neither leader epoch nor version ever decreases."""
    rows = _common(before, after)
    for name in ("leader_epoch", "version"):
        grown = after.records[name][rows] >= before.records[name][rows]
        require(grown, 2, f"{name} never decreases", after, rows)


def isr_never_empties(before: ClusterState, after: ClusterState) -> None:
    """Rule 4."""
    rows = _common(before, after)
    holds = (before.records["isr"][rows] == 0) | (after.records["isr"][rows] != 0)
    require(holds, 4, "a non-empty ISR stays so", after, rows)


def leaders_stay_in_their_isr(before: ClusterState, after: ClusterState) -> None:
    """Rule 3."""
    rows = _common(before, after)
    held = ~leader_in_isr(before)[rows] | leader_in_isr(after)[rows]
    require(held, 3, "the leader is in the ISR or -1", after, rows)


def reassignments_end_complete(before: ClusterState, after: ClusterState) -> None:
    """Rule 25: a partition that is no longer being reassigned has its targets and nothing else."""
    n = before.n_partitions
    moving = before.records["flags"] & schema.FLAG_BEING_REASSIGNED
    still = after.records["flags"][:n] & schema.FLAG_BEING_REASSIGNED
    rows = np.flatnonzero((moving != 0) & (still == 0) & (after.partition[:n] >= 0))
    records = after.records.take(rows)
    settled = (records["adding"] == 0) & (records["removing"] == 0)
    require(settled, 25, "a completed reassignment moves nothing", after, rows)


def newer_records_are_left_alone(
    before: ClusterState, after: ClusterState, outcome: Outcome, store: Store | None
) -> None:
    """Rule 9: the controller does not change what a newer controller wrote.

    Where a store has a later record than the cache, a leader wrote it: only its writes raise the
    version alone.

    Leaders may: where they ask for ISRs, only leader epochs are looked at. There a record that was
    asked for is the controller's own, with the broker that asks as its leader: a reassignment or a
    deletion may go on with it. ISRs are not looked at, as a reassignment gives slots other numbers.
    """
    rows = _common(before, after)
    rows = rows[before.records["controller_epoch"][rows] > after.controller_epoch]
    if store is not None:
        grown = [after.records[name][rows].astype(np.int64) - before.records[name][rows]
                 for name in ("version", "leader_epoch")]
        rows = rows[grown[0] == grown[1]]
    by_leaders = outcome.event in ASKED_BY_LEADERS
    if by_leaders:
        goes_on = (before.records["flags"][rows] & schema.FLAG_BEING_REASSIGNED) != 0
        goes_on |= before.topic_queued_for_deletion[before.topic_row[rows]]
        rows = rows[~goes_on]
    for name in ("leader_epoch",) if by_leaders else ("leader", "leader_epoch", "version"):
        same = after.records[name][rows] == before.records[name][rows]
        require(same, 9, f"{name} of a newer controller stays", after, rows)


# --- one call -----------------------------------------------------------------------------------


def check_call(before: ClusterState, rows: npt.NDArray[np.int32], outcome: Outcome) -> None:
    """Rule 22 of one call of `PartitionStateMachine.handle_state_changes`.

    The result has the partitions that were Online or Offline, and no others. A call that failed as
    a whole is left out.

    Parameters
    ----------
    before : ClusterState
        As it was before the call.
    rows : (n,) int32
        What the call was for, in the order given.
    outcome : Outcome
    """
    if outcome.event != TO_ONLINE or outcome.failure is not None:
        return
    led = (PartitionState.ONLINE, PartitionState.OFFLINE)
    expected = np.isin(before.records["partition_state"][rows], led)
    holds = outcome.in_result == expected
    require(holds, 22, "results are of the Online and Offline", before, rows)


def triggers_leave_the_online_alone(
    before: ClusterState, after: ClusterState, outcome: Outcome
) -> None:
    """Rule 23: what was brought Online before is not written again."""
    if outcome.event not in TRIGGERS:
        return
    rows = np.flatnonzero(before.records["partition_state"] == PartitionState.ONLINE)
    for name in WRITTEN:
        same = after.records[name][rows] == before.records[name][rows]
        require(same, 23, f"{name} of a partition that is Online stays", after, rows)


# --- the full journal of one event --------------------------------------------------------------


def cache_equals_store(state: ClusterState, store: Store, outcome: Outcome) -> None:
    """Rule 8, for the partitions whose leaders the last event elected."""
    for row in outcome.elections.select(["topic", "partition", "code"]).to_pylist():
        if row["code"] not in CHOSEN:
            continue
        at = int(state.find_partitions([(row["topic"], row["partition"])])[0])
        stored, cached = store.get(row["topic"], row["partition"]), state.leadership(at)
        if not isinstance(stored, Leadership) or cached is None or _key(stored) != _key(cached):
            raise InvariantError(f"invariant 8: row {at}: cached {cached}, stored {stored}")


def _key(record: Leadership) -> tuple[int, int, frozenset[int], int, int]:
    return (record.leader, record.leader_epoch, frozenset(record.isr), record.recovery,
            record.version)


def _legal(profile: Profile) -> set[tuple[str, str]]:
    partitions, replicas = profile.partition_previous, profile.replica_previous
    cells = {(f.label, to.label) for to, froms in partitions.items() for f in froms}
    return cells | {(f.label, to.label) for to, froms in replicas.items() for f in froms}


def transitions_are_legal(outcome: Outcome, profile: Profile = ZK_3_9) -> None:
    """Rule 1."""
    pairs = zip(
        outcome.transitions.column("from_state").to_pylist(),
        outcome.transitions.column("to_state").to_pylist(), strict=True,
    )
    wrong = set(pairs) - _legal(profile)
    if wrong:
        raise InvariantError(f"invariant 1: {sorted(wrong)} are not legal transitions")


def deletion_follows_offline(outcome: Outcome) -> None:
    """Rule 18: StopReplica with deletion only for a replica that was Offline just before."""
    started = {
        (row["step"], row["topic"], row["partition"], row["broker_id"])
        for row in outcome.transitions.to_pylist()
        if row["to_state"] == ReplicaState.DELETION_STARTED.label
        and row["from_state"] == ReplicaState.OFFLINE.label
    }
    for row in outcome.additions.to_pylist():
        if row["delete"]:
            for broker in row["to"]:
                if (row["step"], row["topic"], row["partition"], broker) not in started:
                    raise InvariantError(f"invariant 18: {row} deletes what was not Offline")


def metadata_goes_with_leadership(outcome: Outcome) -> None:
    """Rule 16: whoever's leadership is told is in the metadata of the same send."""
    led = {
        (row["step"], row["topic"], row["partition"])
        for row in outcome.requests.select(["step", "kind", "topic", "partition"]).to_pylist()
        if row["kind"] == "LeaderAndIsr"
    }
    known = {
        (row["step"], row["topic"], row["partition"])
        for row in outcome.update_metadata.select(["step", "topic", "partition"]).to_pylist()
    }
    if led - known:
        raise InvariantError(f"invariant 16: {sorted(led - known)[0]} is not in the metadata")


def new_replicas_are_new(outcome: Outcome) -> None:
    """Rule 17: is_new is said only of first leaders, new replicas, and those being added."""
    actions = outcome.actions
    columns = ["step", "kind", "to", "adding", "is_new"]
    for row in outcome.additions.select(columns).to_pylist():
        action = actions[row["step"]]
        first = "OnlinePartition" in action or "NewReplica" in action
        added = "leader epoch" in action and set(row["to"]) <= set(row["adding"] or ())
        if row["is_new"] and not (first or added):
            raise InvariantError(f"invariant 17: {row} of step {action!r} says is_new")


def deletion_is_marked(state: ClusterState, outcome: Outcome) -> None:
    """Rule 19: in UpdateMetadata, leader -2 is said of topics that are queued, with epoch 0."""
    queued = set(state.topic.filter(pa.array(state.topic_queued_for_deletion)).to_pylist())
    gone = set(state.topic.filter(pa.array(~state.topic_exists)).to_pylist())
    columns = ["topic", "leader", "leader_epoch", "version"]
    for row in outcome.update_metadata.select(columns).to_pylist():
        marked = row["leader"] == schema.LEADER_DURING_DELETE
        if marked and (row["leader_epoch"] or row["version"]):
            raise InvariantError(f"invariant 19: {row} is marked but has an epoch or a version")
        if marked and row["topic"] not in queued | gone:
            raise InvariantError(f"invariant 19: {row} is marked, its topic is not queued")


def deleted_topics_were_deleted(
    before: ClusterState, after: ClusterState, outcome: Outcome
) -> None:
    """Rule 26, first half: a topic goes when each of its replicas was deleted.

    A topic whose node somebody else removed (section 6.4) goes without that.
    """
    if outcome.event == "on_topic_change":
        return
    went = before.topic_queued_for_deletion & ~after.topic_exists[: before.n_topics]
    went &= ~after.topic_queued_for_deletion[: before.n_topics]
    gone = {
        (row["topic"], row["partition"], row["broker_id"])
        for row in outcome.transitions.to_pylist()
        if row["from_state"] == ReplicaState.DELETION_SUCCESSFUL.label
        and row["to_state"] == ReplicaState.NON_EXISTENT.label
    }
    for row in np.flatnonzero(went[before.topic_row] & (before.partition >= 0)).tolist():
        name = before.topic[int(before.topic_row[row])].as_py()
        for broker in before.assignment(row).replicas:
            if (name, int(before.partition[row]), broker) not in gone:
                raise InvariantError(
                    f"invariant 26: {name} went while its replica on broker {broker} was there"
                )


def deletion_is_not_retried_under_way(
    before: ClusterState, after: ClusterState, outcome: Outcome
) -> None:
    """Rule 26, second half: no replica is retried while an assigned one of its topic is deleted."""
    if outcome.event not in DELETION_EVENTS:
        return
    n = before.n_partitions
    width = min(before.n_slots, after.n_slots)
    deleting = (before.replica_state[:, :width] == after.replica_state[:n, :width]).all(axis=1)
    assigned = np.arange(before.n_slots) < before.records["n_replicas"][:, None]
    deleting &= (assigned & (before.replica_state == ReplicaState.DELETION_STARTED)).any(axis=1)
    deleting &= before.topic_queued_for_deletion[before.topic_row] & (after.partition[:n] >= 0)
    topics = {before.topic[int(row)].as_py() for row in before.topic_row[deleting]}
    for row in outcome.transitions.to_pylist() if topics else ():
        if row["topic"] in topics and row["to_state"] == ReplicaState.OFFLINE.label:
            raise InvariantError(f"invariant 26: {row} is retried while others are being deleted")


def elected(outcome: Outcome) -> list[dict[str, Any]]:
    """Rows of the elections that chose a leader."""
    return [row for row in outcome.elections.to_pylist() if row["code"] in CHOSEN]


def isr_never_grows_by_election(outcome: Outcome) -> None:
    """Rule 5: an election's ISR is part of the one before, or the new leader alone."""
    for row in elected(outcome):
        if row["code"] == Code.INITIALIZED.name or row["isr"] == [row["leader"]]:
            continue
        if not set(row["isr"]) <= set(row["isr_before"]):
            raise InvariantError(f"invariant 5: {row} adds to the ISR")


def unclean_elections_are_marked(
    after: ClusterState, outcome: Outcome, profile: Profile = ZK_3_9
) -> None:
    """Rule 6: who is elected outside the ISR is its only member, and has to recover.

    Source: section 8.1.
    """
    recovers = after.leader_recovery_supported and profile.marks_recovery
    for row in elected(outcome):
        if not row["unclean"]:
            continue
        if row["isr"] != [row["leader"]] or row["leader"] in row["isr_before"]:
            raise InvariantError(f"invariant 6: {row} is unclean, but not by its ISR")
        if recovers and row["recovery"] != RECOVERING:
            raise InvariantError(f"invariant 6: {row} is unclean and not recovering")


def leaders_are_online(before: ClusterState, after: ClusterState, outcome: Outcome) -> None:
    """Rule 7, as far as brokers go: a leader is registered when it is elected.

    Before 1.1 a record may be written back without any strategy: nobody is elected then.
    """
    live = {*before.broker_id[before.registered].tolist(),
            *after.broker_id[after.registered].tolist()}
    shutting_down = set(after.broker_id[after.shutting_down].tolist())
    for row in elected(outcome):
        if row["strategy"] and row["leader"] not in live:
            raise InvariantError(f"invariant 7: {row}: the leader is not registered")
        if row["strategy"] == "CONTROLLED_SHUTDOWN" and row["leader"] in shutting_down:
            raise InvariantError(f"invariant 7: {row}: the leader is shutting down")


def online_partitions_have_leaders(outcome: Outcome) -> None:
    """Rule 10: who becomes Online was given a leader in the same step."""
    led = {(row["step"], row["topic"], row["partition"])
           for row in elected(outcome) if row["leader"] >= 0}
    for row in outcome.transitions.to_pylist():
        online = row["broker_id"] is None and row["to_state"] == PartitionState.ONLINE.label
        startup = "startup" in outcome.actions[row["step"]]
        if online and not startup and (row["step"], row["topic"], row["partition"]) not in led:
            raise InvariantError(f"invariant 10: {row} without a leader")


def queued_topics_rest(
    before: ClusterState, after: ClusterState, outcome: Outcome, version: Profile
) -> None:
    """Rule 14: partitions of queued topics get no leader but by a reassignment or by hand.

    Topics are meant that were queued before the event and are after it: a new controller finds
    out anew which are. Older versions do not ask in a controlled shutdown (section 8.1).
    """
    queued = set(after.topic.filter(pa.array(after.topic_queued_for_deletion)).to_pylist())
    queued &= set(before.topic.filter(pa.array(before.topic_queued_for_deletion)).to_pylist())
    if not queued or outcome.event.startswith(BY_HAND):
        return
    exempt = {"REASSIGN"} if version.shutdown_skips_queued else {"REASSIGN", "CONTROLLED_SHUTDOWN"}
    for row in elected(outcome):
        if row["topic"] in queued and row["strategy"] not in exempt:
            raise InvariantError(f"invariant 14: {row} is of a queued topic")
    for row in outcome.additions.select(["step", "kind", "topic", "partition"]).to_pylist():
        offline = outcome.actions[row["step"]].endswith(ReplicaState.OFFLINE.label)
        if offline and row["kind"] == "LeaderAndIsr" and row["topic"] in queued:
            raise InvariantError(f"invariant 14: {row} is of a queued topic")


def requests_go_to_registered_brokers(
    before: ClusterState, after: ClusterState, outcome: Outcome
) -> None:
    """Rule 15: receivers are registered, and are named by the epoch of their registration."""
    known = {
        (broker, epoch) for state in (before, after) for broker, epoch in zip(
            state.broker_id[state.registered].tolist(),
            state.broker_epoch[state.registered].tolist(), strict=True,
        )
    }
    sent = outcome.requests.select(["broker_id", "broker_epoch"])
    for row in sent.group_by(["broker_id", "broker_epoch"]).aggregate([]).to_pylist():
        if (row["broker_id"], row["broker_epoch"]) not in known:
            raise InvariantError(f"invariant 15: {row} is not a registered broker's")
