"""What is true of every state: rules of section 9, a function each or for a few of them.

`check` runs the rules that one state shows; `check_step` those that compare a state with the one
before and with what the journal says of the event between. A rule that does not hold is kfast's
own mistake: `InvariantError`.

Here are rules 1 to 4, 8, 11 to 13, 16 to 19, 24 to 26, and of 20 and 21 what slots must satisfy.
The others are not stated here; the tests compare what they speak of with the plain twin, event by
event.

Source: specification, section 9; the numbers are its numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.errors import InvariantError
from kfast.journal import Outcome
from kfast.profiles import DEFAULT_PROFILE, ZK_3_9, Profile, find_profile
from kfast.schema import Code, PartitionState, ReplicaState
from kfast.state import ClusterState, Leadership
from kfast.state.tables import first_slots
from kfast.store import Store

Mask = npt.NDArray[np.bool_]


def _require(holds: Mask, number: int, rule: str, state: ClusterState, rows: object = None) -> None:
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


def _has_leadership(state: ClusterState) -> Mask:
    held: Mask = (state.records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0
    return held


def _leader_in_isr(state: ClusterState) -> Mask:
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
        _require(fits, 20, f"{name} names slots in use", state)
    in_use = np.arange(state.n_slots) < state.records["n_slots"][:, None]
    brokers = np.where(in_use, state.replicas.astype(np.int64), -1 - np.arange(state.n_slots))
    ordered = np.sort(brokers, axis=1)
    _require((ordered[:, 1:] != ordered[:, :-1]).all(axis=1), 20, "one slot a broker", state)
    leader = state.records["leader"].astype(np.int64)[:, None]
    tracked = (leader[:, 0] < 0) | (brokers == leader).any(axis=1)
    _require(tracked, 20, "the leader has a slot", state)
    none = ~in_use & (state.replica_state != ReplicaState.NO_ENTRY)
    _require(~none.any(axis=1), 21, "no state without a slot", state)


def cache_equals_store(state: ClusterState, store: Store, outcome: Outcome) -> None:
    """Rule 8, for the partitions whose leaders the last event elected."""
    for row in outcome.elections.select(["topic", "partition", "code"]).to_pylist():
        if row["code"] not in (Code.ELECTED.name, Code.INITIALIZED.name):
            continue
        at = int(state.find_partitions([(row["topic"], row["partition"])])[0])
        stored, cached = store.get(row["topic"], row["partition"]), state.leadership(at)
        if not isinstance(stored, Leadership) or cached is None or _key(stored) != _key(cached):
            raise InvariantError(f"invariant 8: row {at}: cached {cached}, stored {stored}")


def _key(record: Leadership) -> tuple[int, int, frozenset[int], int, int]:
    return (record.leader, record.leader_epoch, frozenset(record.isr), record.recovery,
            record.version)


def check(state: ClusterState, *, offline: bool = True) -> None:
    """Check the rules that one state shows; `InvariantError` names the first that fails.

    Rule 11 is left out where not `offline`. Kafka's own count leaves it when an Offline partition
    outlives its topic (`remove_topic` keeps states, 1.6) and the name is then deleted or made
    again, or when somebody moves partitions of a started topic by hand.
    """
    counters_are_what_they_count(state, offline=offline)
    started_topics_are_queued(state)
    masks_fit_the_slots(state)


def check_step(
    before: ClusterState, after: ClusterState, outcome: Outcome, store: Store | None = None,
    profile: str | Profile = DEFAULT_PROFILE,
) -> None:
    """Check the rules that compare two states with one event of the controller between them.

    Rows that the event added are left out. A failover makes all states anew and is left out of
    rule 1 for its first step, as the specification says. Rules 2, 4 and 8 do not bind a profile
    that caches what it failed to write, that empties the ISR where unclean election is allowed, or
    that does not cache the epoch which a reassignment raises (8.1).
    """
    version = find_profile(profile)
    if not version.caches_lost_writes:
        records_only_grow(before, after)
    if not version.empties_unclean_isr:
        isr_never_empties(before, after)
    leaders_stay_in_their_isr(before, after)
    reassignments_end_complete(before, after)
    if outcome.level == "full":
        transitions_are_legal(outcome, version)
        new_replicas_are_new(outcome)
        deletion_is_marked(after, outcome)
        deleted_topics_were_deleted(before, after, outcome)
        deletion_is_not_retried_under_way(before, after, outcome)
        deletion_follows_offline(outcome)
        metadata_goes_with_leadership(outcome)
        if store is not None and version.touch_is_cached:
            cache_equals_store(after, store, outcome)


def _common(before: ClusterState, after: ClusterState) -> npt.NDArray[np.int64]:
    """Rows with leadership in both, of topics that exist in both."""
    n = before.n_partitions
    held = _has_leadership(before) & _has_leadership(after)[:n]
    return np.flatnonzero(held & after.topic_exists[after.topic_row[:n]])


def records_only_grow(before: ClusterState, after: ClusterState) -> None:
    """Rule 2: neither leader epoch nor version ever decreases."""
    rows = _common(before, after)
    for name in ("leader_epoch", "version"):
        grown = after.records[name][rows] >= before.records[name][rows]
        _require(grown, 2, f"{name} never decreases", after, rows)


def isr_never_empties(before: ClusterState, after: ClusterState) -> None:
    """Rule 4."""
    rows = _common(before, after)
    kept = (before.records["isr"][rows] == 0) | (after.records["isr"][rows] != 0)
    _require(kept, 4, "a non-empty ISR stays so", after, rows)


def leaders_stay_in_their_isr(before: ClusterState, after: ClusterState) -> None:
    """Rule 3."""
    rows = _common(before, after)
    held = ~_leader_in_isr(before)[rows] | _leader_in_isr(after)[rows]
    _require(held, 3, "the leader is in the ISR or -1", after, rows)


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
    told = {
        (row["step"], row["topic"], row["partition"])
        for row in outcome.requests.select(["step", "kind", "topic", "partition"]).to_pylist()
        if row["kind"] == "LeaderAndIsr"
    }
    known = {
        (row["step"], row["topic"], row["partition"])
        for row in outcome.update_metadata.select(["step", "topic", "partition"]).to_pylist()
    }
    if told - known:
        raise InvariantError(f"invariant 16: {sorted(told - known)[0]} is not in the metadata")


def new_replicas_are_new(outcome: Outcome) -> None:
    """Rule 17: is_new is said only of first leaders, new replicas, and those being added."""
    actions = outcome.actions
    told = outcome.additions.select(["step", "kind", "to", "adding", "is_new"]).to_pylist()
    for row in told:
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


def reassignments_end_complete(before: ClusterState, after: ClusterState) -> None:
    """Rule 25: a partition that is no longer being reassigned has its targets and nothing else."""
    n = before.n_partitions
    moving = before.records["flags"] & schema.FLAG_BEING_REASSIGNED
    kept = after.records["flags"][:n] & schema.FLAG_BEING_REASSIGNED
    rows = np.flatnonzero((moving != 0) & (kept == 0) & (after.partition[:n] >= 0))
    records = after.records.take(rows)
    settled = (records["adding"] == 0) & (records["removing"] == 0)
    _require(settled, 25, "a completed reassignment moves nothing", after, rows)


def deleted_topics_were_deleted(
    before: ClusterState, after: ClusterState, outcome: Outcome
) -> None:
    """Rule 26, first half: a topic goes when each of its replicas was deleted.

    A topic whose node somebody else removed (6.4) goes without that.
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
    """Rule 26, second half: while a replica is being deleted, none of its topic is retried."""
    if outcome.event not in DELETION_EVENTS:
        return
    n = before.n_partitions
    width = min(before.n_slots, after.n_slots)
    kept = (before.replica_state[:, :width] == after.replica_state[:n, :width]).all(axis=1)
    kept &= (before.replica_state == ReplicaState.DELETION_STARTED).any(axis=1)
    kept &= before.topic_queued_for_deletion[before.topic_row] & (after.partition[:n] >= 0)
    topics = {before.topic[int(row)].as_py() for row in before.topic_row[kept]}
    for row in outcome.transitions.to_pylist() if topics else ():
        if row["topic"] in topics and row["to_state"] == ReplicaState.OFFLINE.label:
            raise InvariantError(f"invariant 26: {row} is retried while others are being deleted")


DELETION_EVENTS = ("delete_topics", "on_stop_replica_response", "acknowledge_deletions")


def after_broker_failure(state: ClusterState, broker_ids: list[int]) -> None:
    """Rule 24: dead brokers lead nothing, and are in no ISR of more than one member.

    Queued topics are left out, and records of a newer controller.
    """
    brokers = state.find_brokers(broker_ids)
    open_ = ~state.topic_queued_for_deletion[state.topic_row] & _has_leadership(state)
    open_ &= state.records["controller_epoch"] <= state.controller_epoch
    hosted = state.replicas_on(brokers)
    rows = hosted.rows[open_[hosted.rows]]
    slots = hosted.slots[open_[hosted.rows]]
    led = np.isin(state.records["leader"][rows], brokers)
    offline = state.records["partition_state"][rows] != PartitionState.NON_EXISTENT
    _require(~led | ~offline, 24, "no dead leader", state, rows)
    isr = state.records["isr"][rows].astype(np.uint64)
    several = (isr & (isr - np.uint64(1))) != 0
    _require(~several | ((isr & slots) == 0), 24, "no dead ISR member", state, rows)
