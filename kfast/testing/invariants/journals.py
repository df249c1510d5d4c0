"""Rules of section 9 that the full journal of one event shows, with the states around it.

Source: docs/controller.md, section 9; the numbers are its numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from kfast import schema
from kfast.controllers import ZK_3_9, Profile
from kfast.controllers.zk.store import Store
from kfast.errors import InvariantError
from kfast.journal import Outcome
from kfast.schema import Code, PartitionState, ReplicaState
from kfast.state import ClusterState, Leadership

DELETION_EVENTS = ("delete_topics", "on_stop_replica_response", "acknowledge_deletions")
CHOSEN = (Code.ELECTED.name, Code.INITIALIZED.name)
BY_HAND = ("partitions to ", "replicas to ")
"""How the names of events begin that move partitions or replicas as a caller says."""

RECOVERING = 1


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
