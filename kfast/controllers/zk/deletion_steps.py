"""Steps of a deletion: topics begin to be deleted, or are gone; and sets of their replicas.

Source: docs/controller.md, section 6.12; Kafka 3.9, `TopicDeletionManager`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.controllers.zk import topic_changes as topic_events
from kfast.kernels import deletion as kernel
from kfast.kernels import hosting
from kfast.schema import PartitionState, ReplicaState
from kfast.state import Replicas, freeing, mutators
from kfast.state.records import Rows
from kfast.state.tables import first_slots

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.state import ClusterState


def start_deletion(controller: Controller, topics: Rows) -> None:
    """`start` of section 6.12: take the partitions away, and tell brokers to delete replicas."""
    state, checked = controller.state, controller.checked
    unseen = topics[~state.topic_deletion_started[topics]]
    if unseen.size and controller.profile.deletes_partitions_at_start:
        _take_partitions_away(controller, rows_of(state, unseen))
        state.topic_flags[unseen] |= mutators.STARTED
    rows = rows_of(state, topics)
    controller.send_update_metadata("announce the deletion", state.registered, rows)
    alive, dead = _alive_and_dead(state, rows)
    replicas = controller.replica_state_machine
    checked(replicas.run(dead, ReplicaState.DELETION_INELIGIBLE))
    checked(replicas.run(alive, ReplicaState.OFFLINE))
    checked(replicas.run(alive, ReplicaState.DELETION_STARTED))
    state.mark_topics_ineligible(np.unique(state.topic_row[dead.rows]))


def _take_partitions_away(controller: Controller, rows: Rows) -> None:
    machine = controller.partition_state_machine
    controller.checked(machine.run(rows, PartitionState.OFFLINE))
    controller.checked(machine.run(rows, PartitionState.NON_EXISTENT))


def _alive_and_dead(state: ClusterState, rows: Rows) -> tuple[Replicas, Replicas]:
    """Replicas that are online and not deleted yet, and those that are not online."""
    live = np.empty(rows.size, np.uint64)
    hosting.live_slots(state.columns, rows, live, np.empty_like(live))
    assigned = first_slots(state.records["n_replicas"][rows])
    deleted = np.empty(rows.size, np.uint64)
    kernel.slots_in_state(state.columns, rows, 1 << ReplicaState.DELETION_SUCCESSFUL, deleted)
    online = live & assigned & ~deleted
    offline = assigned & ~live
    return choose(rows, online, online != 0), choose(rows, offline, offline != 0)


GONE = f"replicas to {ReplicaState.NON_EXISTENT.label}"


def finish_deletion(controller: Controller, topics: Rows) -> None:
    """`finish` of section 6.12: the topics are gone, and their rows are free."""
    state = controller.state
    rows = rows_of(state, topics)
    machine = controller.replica_state_machine
    for part, n_calls in _calls(controller, topics, rows):
        deleted = in_state(state, part, ReplicaState.DELETION_SUCCESSFUL)
        controller.journal.add_empty_steps(GONE, n_calls - 1)
        controller.checked(machine.run(deleted, ReplicaState.NON_EXISTENT))
    if not controller.profile.deletes_partitions_at_start:
        _take_partitions_away(controller, rows)
    topic_events.remove_topics(controller, topics)
    state.topic_unclean_leader_election[topics] = -1
    state.topic_min_insync_replicas[topics] = -1
    mutators.refresh_unclean(state)
    parts = [state.lookup.rows_of_topic(topic) for topic in topics.tolist()]
    freeing.free(state, np.sort(np.concatenate(parts)))
    for topic in topics.tolist():
        controller.deletion_hints.forget(topic)


def _calls(
    controller: Controller, topics: Rows, rows: Rows
) -> Iterator[tuple[Rows, int]]:
    """Rows whose deleted replicas one call takes away, and how many of Kafka's calls that are.

    Kafka makes a call for each topic, which only a journal that keeps effects shows.
    """
    state = controller.state
    if controller.journal.keeps_effects:
        for topic in topics:
            yield rows_of(state, topic[None]), 1
        return
    deleted = in_state(state, rows, ReplicaState.DELETION_SUCCESSFUL)
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


def choose(rows: Rows, slots: npt.NDArray[np.uint64], chosen: npt.NDArray[np.bool_]) -> Replicas:
    """Some of some replicas."""
    if chosen.all():
        return Replicas(rows, slots)
    return Replicas(rows[chosen], slots[chosen])


def in_state(state: ClusterState, rows: Rows, wanted: ReplicaState) -> Replicas:
    """Assigned replicas of some rows that are in a state."""
    slots = np.empty(rows.size, np.uint64)
    kernel.slots_in_state(state.columns, rows, 1 << wanted, slots)
    return choose(rows, slots, slots != 0)


def of_queued(state: ClusterState, replicas: Replicas) -> Replicas:
    """Those of some replicas whose topic is queued; none where topics cannot be deleted."""
    queued = state.topic_queued_for_deletion[state.topic_row[replicas.rows]]
    queued &= state.delete_topic_enabled
    return choose(replicas.rows, replicas.slots, queued)
