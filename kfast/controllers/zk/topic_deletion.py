"""Topics are deleted: what is queued, what can go on, what waits, and what each step does.

A topic's status is derived from its replicas' states, so nothing of it is kept here.

Source: docs/controller.md, section 6.12; Kafka 3.9, `TopicDeletionManager` and `KafkaController`
(`processTopicDeletion`, `processTopicDeletionStopReplicaResponseReceived`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.arguments import check_topics
from kfast.controllers.zk.deletion_status import (
    ALL_SUCCESSFUL,
    SOME_INELIGIBLE,
    SOME_STARTED,
    SOME_WITHOUT_ENTRY,
)
from kfast.controllers.zk.engine import ZkEngine
from kfast.controllers.zk.faults import EventFailed
from kfast.controllers.zk.topic_changes import remove_topics
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.kernels import deletion as kernel
from kfast.schema import PartitionState, ReplicaState
from kfast.state import ClusterState, Replicas, mutators, partition_rows
from kfast.state.arrays import first_slots
from kfast.state.records import Rows, Slots

GONE = f"replicas to {ReplicaState.NON_EXISTENT.label}"


# --- events ----------------------------------------------------------------------------------


def delete_topics(engine: ZkEngine, topics: Sequence[str]) -> Outcome:
    """Deletion markers appeared: these topics are to be deleted (section 6.12).

    Every marker is read then: topics that are queued already become ineligible where they are being
    reassigned, and go on otherwise.
    """
    state, event = engine.state, "delete_topics"
    topics = check_topics("topics", topics)
    if not engine.active:
        return engine.refused(event, "NOT_CONTROLLER")
    rows = state.lookup.topics(topics)
    exists = np.zeros(rows.size, np.bool_)
    exists[rows >= 0] = state.topic_exists[rows[rows >= 0]]
    known = [name for name, there in zip(topics, exists.tolist(), strict=True) if there]
    notes = [f"topic {name!r} is unknown" for name in dict.fromkeys(topics) if name not in known]
    if not state.delete_topic_enabled:
        notes.append("topic deletion is disabled: nothing was queued")
        known = []

    def steps() -> None:
        if state.delete_topic_enabled and (known or state.any_queued):
            if state.n_reassigned:
                rows = np.union1d(state.find_topics(known), queued_topics(state))
                moving = (state.records["flags"] & schema.FLAG_BEING_REASSIGNED) != 0
                state.mark_topics_ineligible(np.intersect1d(rows, state.topic_row[moving]))
            enqueue(engine, known)

    outcome = engine.attempt(event, steps)
    outcome.notes = tuple(notes)
    return outcome


def on_stop_replica_response(
    engine: ZkEngine, broker_id: int, rows: npt.ArrayLike, failed: npt.ArrayLike = (),
    error: bool = False,
) -> Outcome:
    """A broker answers a StopReplica request that deletes replicas (sections 6.12 and 5.4)."""
    state = engine.state
    answered, bad = np.sort(state.check_rows(rows)), state.check_rows(failed)
    unnamed = np.setdiff1d(bad, answered)
    if unnamed.size:
        raise ArgumentError(
            f"failed row {unnamed[0]} is not among the rows of the response; nothing was changed"
        )
    broker = state.find_brokers([broker_id])

    def steps() -> None:
        deleting = answered[_deleting_topics(engine)[state.topic_row[answered]]]
        slots = mutators.track(state, deleting, np.repeat(broker, deleting.size))
        masks = np.uint64(1) << slots.astype(np.uint64)
        wrong = np.isin(deleting, bad) | error
        if deleting.size:
            fail_replica_deletion(engine, select_replicas(deleting, masks, wrong))
        if not wrong.all():
            complete_replicas(engine, select_replicas(deleting, masks, ~wrong))

    return engine.attempt("on_stop_replica_response", steps)


def acknowledge_deletions(engine: ZkEngine, broker_ids: Iterable[int] | None = None) -> Outcome:
    """Brokers report that they have deleted what they were told to delete."""
    state = engine.state
    chosen = state.registered.copy()
    if broker_ids is not None:
        named = np.zeros(state.n_brokers, np.bool_)
        named[state.find_brokers(broker_ids)] = True
        chosen &= named
    queued = rows_of(state, queued_topics(state))
    started = replicas_in_state(state, queued, ReplicaState.DELETION_STARTED)
    hosted, slots, begin = _by_broker(state, started)
    hosting_some = np.diff(begin) > 0

    def steps() -> None:
        if len(started) and _answer_as_one(engine) and not (hosting_some & ~chosen).any():
            action = f"replicas to {ReplicaState.DELETION_SUCCESSFUL.label}"
            engine.journal.begin_steps(action, int(hosting_some.sum()) - 1)
            complete_replicas(engine, started)
            return
        for broker in np.flatnonzero(chosen & hosting_some).tolist():
            part = slice(begin[broker], begin[broker + 1])
            deleting = _deleting_topics(engine)[state.topic_row[hosted[part]]]
            if deleting.any():
                complete_replicas(engine, select_replicas(hosted[part], slots[part], deleting))

    return engine.attempt("acknowledge_deletions", steps)


def _deleting_topics(engine: ZkEngine) -> npt.NDArray[np.bool_]:
    """(T,) topics for which answers count: those whose deletion has started (section 5.4).

    Before 2.1 no topic is marked as started, and answers count for all that are queued.
    """
    if engine.profile.deletes_partitions_at_start:
        return engine.state.topic_deletion_started
    return engine.state.topic_queued_for_deletion


def _answer_as_one(engine: ZkEngine) -> bool:
    """Whether all answers may be taken in at once: nothing can happen between them.

    It cannot where one topic alone is queued, and its answers count: some of its replicas are
    being deleted until the last of them has answered.
    """
    state = engine.state
    queued = queued_topics(state)
    return queued.size == 1 and not engine.journal.full and bool(
        _deleting_topics(engine)[queued[0]]
    )


def _by_broker(
    state: ClusterState, replicas: Replicas
) -> tuple[Rows, npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Some replicas broker by broker: rows, slots, where each part begins."""
    counts = np.zeros(state.n_brokers, np.int64)
    kernel.count_by_broker(state.columns, replicas.rows, replicas.slots, counts)
    begin = np.zeros(state.n_brokers + 1, np.int64)
    np.cumsum(counts, out=begin[1:])
    hosted, slots = np.empty(int(begin[-1]), np.int32), np.empty(int(begin[-1]), np.uint64)
    kernel.list_by_broker(
        state.columns, replicas.rows, replicas.slots, begin[:-1].copy(), hosted, slots
    )
    return hosted, slots, begin


# --- entry points of the deletion manager ----------------------------------------------------


def init(engine: ZkEngine, queued: Sequence[str], ineligible: Sequence[str]) -> None:
    """`TopicDeletionManager.init`: a new controller takes over what is to be deleted."""
    state = engine.state
    if not state.delete_topic_enabled:
        return
    state.queue_topic_deletion(list(queued))
    state.mark_topics_ineligible(state.find_topics(list(ineligible)))


def enqueue(engine: ZkEngine, topics: Sequence[str]) -> None:
    """Queue topics and go on with deletion."""
    state = engine.state
    if not state.delete_topic_enabled:
        return
    state.queue_topic_deletion(list(topics))
    resume_deletions(engine)


def resume_deletion_for(engine: ZkEngine, topics: Rows) -> None:
    """These topic rows may be eligible again: a broker is back, a reassignment is over."""
    state = engine.state
    if not state.delete_topic_enabled or not state.any_queued:
        return
    queued = topics[state.topic_queued_for_deletion[topics]]
    if queued.size:
        state.topic_flags[queued] &= 255 - schema.TOPIC_INELIGIBLE
        resume_deletions(engine)


def fail_replica_deletion(engine: ZkEngine, replicas: Replicas) -> None:
    """Replicas of queued topics cannot be deleted for now."""
    state = engine.state
    if not state.delete_topic_enabled:
        return
    queued = replicas_of_queued(state, replicas)
    if not len(queued):
        return
    machine = engine.replica_state_machine
    engine.checked(machine.run(queued, ReplicaState.DELETION_INELIGIBLE))
    state.mark_topics_ineligible(np.unique(state.topic_row[queued.rows]))
    resume_deletions(engine)


def complete_replicas(engine: ZkEngine, replicas: Replicas) -> None:
    """Replicas of queued topics are deleted."""
    queued = replicas_of_queued(engine.state, replicas)
    machine = engine.replica_state_machine
    engine.checked(machine.run(queued, ReplicaState.DELETION_SUCCESSFUL))
    resume_deletions(engine)


def resume_deletions(engine: ZkEngine) -> None:
    """Finish what is deleted, start again what failed, begin what can begin.

    Since 2.5 all topics take each of these steps together; before, one topic after the other.
    """
    state = engine.state
    if not state.delete_topic_enabled or not state.any_queued:
        return
    topics = queued_topics(state)
    if engine.profile.batches_deletions:
        _resume(engine, topics)
        return
    for at in np.argsort(state.topic.take(pa.array(topics)).to_pylist()).tolist():
        _resume(engine, topics[at : at + 1])


def _resume(engine: ZkEngine, topics: Rows) -> None:
    state = engine.state
    done: list[int] = []
    retry: list[int] = []
    go: list[int] = []
    for topic in engine.deletion_hints.without_waiting(state, topics).tolist():
        status = engine.deletion_hints.status(state, topic)
        if status & SOME_WITHOUT_ENTRY:
            if done:  # Each was finished when its turn came.
                finish_deletion(engine, np.asarray(done, np.int32))
            raise EventFailed("NoSuchElement")
        if status & ALL_SUCCESSFUL:
            done.append(topic)
            continue
        if not status & SOME_STARTED:
            if status & SOME_INELIGIBLE:
                retry.append(topic)
            if not state.topic_ineligible[topic]:
                go.append(topic)
    if done:
        finish_deletion(engine, np.asarray(done, np.int32))
    if retry:
        halted = replicas_in_state(
            state, rows_of(state, np.asarray(retry)), ReplicaState.DELETION_INELIGIBLE
        )
        engine.checked(engine.replica_state_machine.run(halted, ReplicaState.OFFLINE))
    if go:
        start_deletion(engine, np.asarray(go, np.int32))


# --- steps of a deletion ------------------------------------------------------------------------


def start_deletion(engine: ZkEngine, topics: Rows) -> None:
    """`start` of section 6.12: take the partitions away, and tell brokers to delete replicas."""
    state, checked = engine.state, engine.checked
    unseen = topics[~state.topic_deletion_started[topics]]
    if unseen.size and engine.profile.deletes_partitions_at_start:
        _take_partitions_away(engine, rows_of(state, unseen))
        state.topic_flags[unseen] |= schema.TOPIC_STARTED
    rows = rows_of(state, topics)
    engine.send_update_metadata("announce the deletion", state.registered, rows)
    alive, dead = _alive_and_dead(state, rows)
    replicas = engine.replica_state_machine
    checked(replicas.run(dead, ReplicaState.DELETION_INELIGIBLE))
    checked(replicas.run(alive, ReplicaState.OFFLINE))
    checked(replicas.run(alive, ReplicaState.DELETION_STARTED))
    state.mark_topics_ineligible(np.unique(state.topic_row[dead.rows]))


def _take_partitions_away(engine: ZkEngine, rows: Rows) -> None:
    machine = engine.partition_state_machine
    engine.checked(machine.run(rows, PartitionState.OFFLINE))
    engine.checked(machine.run(rows, PartitionState.NON_EXISTENT))


def _alive_and_dead(state: ClusterState, rows: Rows) -> tuple[Replicas, Replicas]:
    """Replicas that are online and not deleted yet, and those that are not online."""
    live = state.live_slots(rows)
    assigned = first_slots(state.records["n_replicas"][rows])
    deleted = np.empty(rows.size, np.uint64)
    kernel.slots_in_state(
        state.columns, rows, 1 << ReplicaState.DELETION_SUCCESSFUL, deleted
    )
    online = live & assigned & ~deleted
    offline = assigned & ~live
    return select_replicas(rows, online, online != 0), select_replicas(rows, offline, offline != 0)


def finish_deletion(engine: ZkEngine, topics: Rows) -> None:
    """`finish` of section 6.12: the topics are gone, and their rows are free."""
    state = engine.state
    rows = rows_of(state, topics)
    machine = engine.replica_state_machine
    for part, n_calls in _calls(engine, topics, rows):
        deleted = replicas_in_state(state, part, ReplicaState.DELETION_SUCCESSFUL)
        engine.journal.begin_steps(GONE, n_calls - 1)
        engine.checked(machine.run(deleted, ReplicaState.NON_EXISTENT))
    if not engine.profile.deletes_partitions_at_start:
        _take_partitions_away(engine, rows)
    remove_topics(engine, topics)
    state.topic_unclean_leader_election[topics] = -1
    state.topic_min_insync_replicas[topics] = -1
    state.refresh_unclean()
    parts = [state.lookup.rows_of_topic(topic) for topic in topics.tolist()]
    partition_rows.free(state, np.sort(np.concatenate(parts)))
    for topic in topics.tolist():
        engine.deletion_hints.forget(topic)


def _calls(
    engine: ZkEngine, topics: Rows, rows: Rows
) -> Iterator[tuple[Rows, int]]:
    """Rows whose deleted replicas one call takes away, and how many of Kafka's calls that are.

    Kafka makes a call for each topic, which only a journal that keeps effects shows.
    """
    state = engine.state
    if engine.journal.records_effects:
        for topic in topics:
            yield rows_of(state, topic[None]), 1
        return
    deleted = replicas_in_state(state, rows, ReplicaState.DELETION_SUCCESSFUL)
    if len(deleted):
        yield rows, np.unique(state.topic_row[deleted.rows]).size


# --- sets of rows and replicas ---------------------------------------------------------------


def queued_topics(state: ClusterState) -> Rows:
    """Rows of the topics that are queued, ascending."""
    return np.flatnonzero(state.topic_queued_for_deletion).astype(np.int32)


def rows_of(state: ClusterState, topics: npt.NDArray[np.integer]) -> Rows:
    """Ascending rows of all assigned partitions of some topic rows."""
    parts = [state.lookup.rows_of_topic(topic) for topic in topics.tolist()]
    rows = np.sort(np.concatenate([*parts, np.empty(0, np.int32)])).astype(np.int32)
    some: Rows = rows[(state.records["flags"][rows] & schema.FLAG_ASSIGNED) != 0]
    return some


def select_replicas(rows: Rows, slots: Slots, chosen: npt.NDArray[np.bool_]) -> Replicas:
    """The replicas of the chosen ones of some rows."""
    if chosen.all():
        return Replicas(rows, slots)
    return Replicas(rows[chosen], slots[chosen])


def replicas_in_state(state: ClusterState, rows: Rows, replica_state: ReplicaState) -> Replicas:
    """Assigned replicas of some rows that are in a state."""
    slots = np.empty(rows.size, np.uint64)
    kernel.slots_in_state(state.columns, rows, 1 << replica_state, slots)
    return select_replicas(rows, slots, slots != 0)


def replicas_of_queued(state: ClusterState, replicas: Replicas) -> Replicas:
    """Those of some replicas whose topic is queued; none where topics cannot be deleted."""
    queued = state.topic_queued_for_deletion[state.topic_row[replicas.rows]]
    queued &= state.delete_topic_enabled
    return select_replicas(replicas.rows, replicas.slots, queued)
