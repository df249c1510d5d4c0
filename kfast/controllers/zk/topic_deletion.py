"""Topics are deleted: what is queued, what can go on, what waits.

A topic's status is derived from its replicas' states, so nothing of it is kept here.

Source: docs/controller.md, section 6.12; Kafka 3.9, `TopicDeletionManager` and `KafkaController`
(`processTopicDeletion`, `processTopicDeletionStopReplicaResponseReceived`). The public functions
with an event's name are methods of `Controller`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

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
from kfast.controllers.zk.deletion_steps import (
    choose,
    finish_deletion,
    in_state,
    of_queued,
    queued_topics,
    rows_of,
    start_deletion,
)
from kfast.controllers.zk.results import EventFailed
from kfast.errors import ArgumentError
from kfast.kernels import deletion as kernel
from kfast.schema import ReplicaState
from kfast.state import Replicas, mutators
from kfast.state.records import Rows

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.journal import Outcome
    from kfast.state import ClusterState


# --- events ----------------------------------------------------------------------------------


def delete_topics(controller: Controller, topics: Sequence[str]) -> Outcome:
    """Deletion markers appeared: these topics are to be deleted (section 6.12).

    Nothing waits for brokers here: `acknowledge_deletions` or `on_stop_replica_response` bring
    their answers.

    Returns
    -------
    Outcome
        `notes` names what was not queued: unknown topics, or all of them where
        `delete_topic_enabled` is false.
    """
    state, event = controller.state, "delete_topics"
    topics = check_topics("topics", topics)
    if not controller.active:
        return controller.refused(event, "NOT_CONTROLLER")
    rows = state.lookup.topics(topics)
    exists = np.zeros(rows.size, np.bool_)
    exists[rows >= 0] = state.topic_exists[rows[rows >= 0]]
    known = [name for name, found in zip(topics, exists.tolist(), strict=True) if found]
    notes = [f"topic {name!r} is unknown" for name in dict.fromkeys(topics) if name not in known]
    if not state.delete_topic_enabled:
        notes.append("topic deletion is disabled: nothing was queued")
        known = []

    def steps() -> None:
        if known:
            if state.n_reassigned:
                rows = state.find_topics(known)
                moving = (state.records["flags"] & schema.FLAG_BEING_REASSIGNED) != 0
                state.mark_topics_ineligible(np.intersect1d(rows, state.topic_row[moving]))
            enqueue(controller, known)
        else:
            resume_elsewhere(controller)

    outcome = controller.attempt(event, steps)
    outcome.notes = tuple(notes)
    return outcome


def on_stop_replica_response(
    controller: Controller, broker_id: int, rows: npt.ArrayLike, failed: npt.ArrayLike = (),
    error: bool = False,
) -> Outcome:
    """A broker answers a StopReplica request that deletes replicas (sections 6.12 and 5.4).

    Parameters
    ----------
    broker_id : int
        The broker that answers.
    rows : (n,) array of int
        Partition rows that its answer speaks of; those whose deletion has not started are left
        out, as Kafka does.
    failed : (m,) array of int
        Those of them with an error.
    error : bool
        The answer as a whole is an error: all failed.

    Raises
    ------
    RowError
        A row is outside the table or stands twice. Nothing is changed.
    ArgumentError
        The broker is unknown, or a failed row is not among the rows. Nothing is changed.
    """
    state = controller.state
    asked, bad = np.sort(state.check_rows(rows)), state.check_rows(failed)
    strange = np.setdiff1d(bad, asked)
    if strange.size:
        raise ArgumentError(
            f"failed row {strange[0]} is not among the rows of the response; nothing was changed"
        )
    broker = state.find_brokers([broker_id])
    if not controller.active:
        return controller.refused("on_stop_replica_response", "NOT_CONTROLLER")

    def steps() -> None:
        heeded = asked[_heeded(controller)[state.topic_row[asked]]]
        slots = mutators.track(state, heeded, np.repeat(broker, heeded.size))
        masks = np.uint64(1) << slots.astype(np.uint64)
        wrong = np.isin(heeded, bad) | error
        if heeded.size:
            fail_replica_deletion(controller, choose(heeded, masks, wrong))
        if not wrong.all():
            complete_replicas(controller, choose(heeded, masks, ~wrong))

    return controller.attempt("on_stop_replica_response", steps)


def acknowledge_deletions(
    controller: Controller, broker_ids: Iterable[int] | None = None
) -> Outcome:
    """Brokers report that they have deleted what they were told to delete.

    Each registered broker (of these) answers without an error for all its replicas in
    ReplicaDeletionStarted; answers come in ascending broker id.
    """
    state = controller.state
    chosen = state.registered.copy()
    if broker_ids is not None:
        named = np.zeros(state.n_brokers, np.bool_)
        named[state.find_brokers(broker_ids)] = True
        chosen &= named
    if not controller.active:
        return controller.refused("acknowledge_deletions", "NOT_CONTROLLER")
    found = in_state(state, rows_of(state, queued_topics(state)), ReplicaState.DELETION_STARTED)
    hosted, slots, begin = _by_broker(state, found)
    hosting_some = np.diff(begin) > 0
    scopes = [f"answer of broker {broker}" for broker in state.broker_id.tolist()]
    elsewhere = np.asarray([scope in controller.resumed_elsewhere for scope in scopes], np.bool_)

    def steps() -> None:
        journal = controller.journal
        if len(found) and _answer_as_one(controller) and not (hosting_some & ~chosen).any():
            action = f"replicas to {ReplicaState.DELETION_SUCCESSFUL.label}"
            journal.add_empty_steps(action, int(hosting_some.sum()) - 1)
            last = scopes[np.flatnonzero(hosting_some)[-1]]
            with journal.within(last):
                complete_replicas(controller, found)
            journal.resumed += [scopes[at] for at in np.flatnonzero(hosting_some)[:-1]]
            return
        for broker in np.flatnonzero(chosen & (hosting_some | elsewhere)).tolist():
            part = slice(begin[broker], begin[broker + 1])
            heeded = _heeded(controller)[state.topic_row[hosted[part]]]
            with journal.within(scopes[broker]):
                if heeded.any():
                    complete_replicas(controller, choose(hosted[part], slots[part], heeded))
                else:
                    resume_elsewhere(controller)

    return controller.attempt("acknowledge_deletions", steps)


def _heeded(controller: Controller) -> npt.NDArray[np.bool_]:
    """(T,) topics for which answers count: those whose deletion has started (section 5.4).

    Before 2.1 no topic is marked as started, and answers count for all that are queued.
    """
    if controller.profile.deletes_partitions_at_start:
        return controller.state.topic_deletion_started
    return controller.state.topic_queued_for_deletion


def _answer_as_one(controller: Controller) -> bool:
    """Whether all answers may be taken in at once: nothing can happen between them.

    It cannot where one topic alone is queued, and its answers count: some of its replicas are
    being deleted until the last of them has answered.
    """
    state = controller.state
    queued = queued_topics(state)
    return queued.size == 1 and not controller.journal.full and bool(
        _heeded(controller)[queued[0]]
    )


def _by_broker(
    state: ClusterState, found: Replicas
) -> tuple[Rows, npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Some replicas broker by broker: rows, slots, where each part begins."""
    counts = np.zeros(state.n_brokers, np.int64)
    kernel.count_by_broker(state.columns, found.rows, found.slots, counts)
    begin = np.zeros(state.n_brokers + 1, np.int64)
    np.cumsum(counts, out=begin[1:])
    hosted, slots = np.empty(int(begin[-1]), np.int32), np.empty(int(begin[-1]), np.uint64)
    kernel.list_by_broker(state.columns, found.rows, found.slots, begin[:-1].copy(), hosted, slots)
    return hosted, slots, begin


# --- entry points of the deletion manager ----------------------------------------------------


def init(controller: Controller, queued: Sequence[str], ineligible: Sequence[str]) -> None:
    """A new controller takes over what is to be deleted; without deletion, nothing is."""
    state = controller.state
    if not state.delete_topic_enabled:
        return
    state.queue_topic_deletion(list(queued))
    state.mark_topics_ineligible(state.find_topics(list(ineligible)))


def enqueue(controller: Controller, topics: Sequence[str]) -> None:
    """Queue topics and go on with deletion."""
    state = controller.state
    if not state.delete_topic_enabled:
        return
    state.queue_topic_deletion(list(topics))
    resume_deletions(controller)


def resume_deletion_for(controller: Controller, topics: Rows) -> None:
    """These topic rows may be eligible again: a broker is back, a reassignment is over."""
    state = controller.state
    if not state.delete_topic_enabled or not state.any_queued:
        return
    queued = topics[state.topic_queued_for_deletion[topics]]
    if queued.size:
        state.topic_flags[queued] &= 255 - mutators.INELIGIBLE
        resume_deletions(controller)
    else:
        resume_elsewhere(controller)


def fail_replica_deletion(controller: Controller, replicas: Replicas) -> None:
    """Replicas of queued topics cannot be deleted for now."""
    state = controller.state
    if not state.delete_topic_enabled:
        return
    some = of_queued(state, replicas)
    if not len(some):
        return
    machine = controller.replica_state_machine
    controller.checked(machine.run(some, ReplicaState.DELETION_INELIGIBLE))
    state.mark_topics_ineligible(np.unique(state.topic_row[some.rows]))
    resume_deletions(controller)


def complete_replicas(controller: Controller, replicas: Replicas) -> None:
    """Replicas of queued topics are deleted."""
    some = of_queued(controller.state, replicas)
    machine = controller.replica_state_machine
    controller.checked(machine.run(some, ReplicaState.DELETION_SUCCESSFUL))
    resume_deletions(controller)


def resume_deletions(controller: Controller) -> None:
    """Finish what is deleted, start again what failed, begin what can begin.

    Since 2.5 all topics take each of these steps together; before, one topic after the other.
    """
    state, journal = controller.state, controller.journal
    if not state.delete_topic_enabled or not state.any_queued:
        return
    journal.resumed.append(journal.scope)
    _resume_all(controller)


def resume_elsewhere(controller: Controller) -> None:
    """Go on where another part of the cluster resumes deletions, which on one machine are one.

    A topic that waits is looked at again whenever any topic is.
    """
    if controller.state.any_queued and controller.journal.scope in controller.resumed_elsewhere:
        _resume_all(controller)


def would_resume(controller: Controller) -> bool:
    """Whether resuming deletions now would change anything."""
    state = controller.state
    if not state.delete_topic_enabled or not state.any_queued:
        return False
    for topic in queued_topics(state).tolist():
        status = controller.deletion_hints.status(state, topic)
        held = status & SOME_STARTED or state.topic_ineligible[topic]
        if status & (ALL_SUCCESSFUL | SOME_WITHOUT_ENTRY) or not held:
            return True
        if status & SOME_INELIGIBLE and not status & SOME_STARTED:
            return True
    return False


def _resume_all(controller: Controller) -> None:
    state, journal = controller.state, controller.journal
    topics = queued_topics(state)
    if controller.profile.batches_deletions:
        _resume(controller, topics)
        return
    for at in _by_name(state, topics).tolist():
        with journal.within(f"topic {state.topic[int(topics[at])].as_py()}"):
            _resume(controller, topics[at : at + 1])


def _by_name(state: ClusterState, topics: Rows) -> npt.NDArray[np.int64]:
    order: npt.NDArray[np.int64] = np.argsort(state.topic.take(pa.array(topics)).to_pylist())
    return order


def _resume(controller: Controller, topics: Rows) -> None:
    state, journal = controller.state, controller.journal
    done, retry, go = [], [], []
    for topic in controller.deletion_hints.undecided(state, topics).tolist():
        status = controller.deletion_hints.status(state, topic)
        if status & SOME_WITHOUT_ENTRY:
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
        with journal.within("finish deletion"):
            finish_deletion(controller, np.asarray(done, np.int32))
    if retry:
        halted = in_state(
            state, rows_of(state, np.asarray(retry)), ReplicaState.DELETION_INELIGIBLE
        )
        with journal.within("retry deletion"):
            controller.checked(controller.replica_state_machine.run(halted, ReplicaState.OFFLINE))
    if go:
        with journal.within("start deletion"):
            start_deletion(controller, np.asarray(go, np.int32))
