"""What a new controller loads, what it exports, and questions about the whole context.

Source: docs/controller.md, sections 1.5, 1.6 and 6.1; Kafka 3.9,
`KafkaController.onControllerFailover` and `ControllerContext`.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kfast import schema
from kfast.kernels import hosting
from kfast.schema import PartitionState, ReplicaState
from kfast.state import ClusterState, Replicas, mutators
from kfast.state.records import Rows
from kfast.state.tables import first_slots

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller


def load_context(controller: Controller) -> None:
    """Steps 4 to 6 of section 6.1: what the new controller knows.

    What it forgets of each partition is forgotten by the replica machine's start, which visits
    every row anyway.
    """
    state, store = controller.state, controller.store
    state.forget_survey()
    state.broker_status &= mutators.REGISTERED
    state.offline_partition_count = 0
    if state.any_offline_dir:
        state.records["offline_dir"] = 0
        state.any_offline_dir = False
    for row, written in state.unwritten_assignments.items():
        state.set_assignment(row, written.replicas, written.adding, written.removing)
    state.unwritten_assignments.clear()
    controller.deletion_hints.clear()
    if store is not None:
        store.load_leadership()
    state.topic_flags &= 255 - mutators.STARTED - mutators.INELIGIBLE
    any_queued = state.any_queued
    if any_queued:
        _begin_deletion_manager(state)
    if store is not None or any_queued:
        state.records["partition_state"] = PartitionState.NO_ENTRY
        state.recount()


def _begin_deletion_manager(state: ClusterState) -> None:
    """`init` of section 6.12: which queued topics are ineligible; or the markers are removed."""
    moving = (state.records["adding"] != 0) | (state.records["removing"] != 0)
    queued = state.topic_queued_for_deletion
    flags = state.topic_flags[: state.n_topics]
    if not state.delete_topic_enabled:
        flags &= 255 - mutators.QUEUED
        mutators.note_queued(state)
        return
    rows = np.arange(state.n_partitions, dtype=np.int32)
    live, up = np.empty(rows.size, np.uint64), np.empty(rows.size, np.uint64)
    hosting.live_slots(state.columns, rows, live, up)
    dead = (first_slots(state.records["n_replicas"]) & ~live) != 0
    moving[list(state.reassignment_targets)] = True
    halted = np.unique(state.topic_row[dead | moving])
    flags[halted[queued[halted]]] |= mutators.INELIGIBLE


def split_queued(state: ClusterState, replicas: Replicas) -> tuple[Replicas, Replicas]:
    """Replicas of queued topics, and the others."""
    if not state.any_queued:
        return Replicas(replicas.rows[:0], replicas.slots[:0]), replicas
    queued = state.topic_queued_for_deletion[state.topic_row[replicas.rows]]
    return (
        Replicas(replicas.rows[queued], replicas.slots[queued]),
        Replicas(replicas.rows[~queued], replicas.slots[~queued]),
    )


def batches(controller: Controller) -> contextlib.AbstractContextManager[None]:
    """How a handler's partitions share batches: all together, or one by one before Kafka 1.1."""
    if controller.profile.batch_per_partition:
        return controller.journal.batch_for_each_partition()
    return contextlib.nullcontext()


def tell_starting(controller: Controller, started: npt.NDArray[np.bool_]) -> None:
    """Steps 2 and 3 of `broker_startup` (section 6.2): who is told what when brokers start."""
    state, nothing = controller.state, np.empty(0, np.int32)
    if not controller.profile.tells_starting_apart:
        controller.send_update_metadata("tell all brokers of all", state.registered, nothing)
        return
    led: Rows | None = None
    if controller.profile.tells_starting_of_queued:
        led = np.flatnonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP).astype(np.int32)
    controller.send_update_metadata("tell the others of the new brokers", ~started, nothing)
    controller.send_update_metadata("tell the new brokers of all leaders", started, led)


def split_led(
    state: ClusterState, broker: int, spares_queued: bool = True
) -> tuple[Rows, Replicas]:
    """Partitions that a broker leads, and replicas with which it follows (section 6.3, step 5).

    Only partitions with more than one assigned replica, cached leadership and, with
    `spares_queued`, a topic that is not queued count.
    """
    hosted = state.replicas_on(np.asarray([broker], np.int32))
    records = state.records.take(hosted.rows)
    acted = (records["n_replicas"] > 1) & ((records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0)
    if spares_queued and state.any_queued:
        acted &= ~state.topic_queued_for_deletion[state.topic_row[hosted.rows]]
    led = acted & (records["leader"] == broker)
    followed = acted & ~led
    return hosted.rows[led], Replicas(hosted.rows[followed], hosted.slots[followed])


def partition_leaders_on_broker(
    state: ClusterState, broker: int, spares_queued: bool = True
) -> Rows:
    """Partitions of more than one replica that a broker leads, assigned or not (section 1.5)."""
    hosted = state.replicas_on(np.asarray([broker], np.int32), assigned_only=False)
    records = state.records.take(hosted.rows)
    led = (records["leader"] == broker) & (records["n_replicas"] > 1)
    led &= (records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0
    if spares_queued and state.any_queued:
        led &= ~state.topic_queued_for_deletion[state.topic_row[hosted.rows]]
    rows: Rows = hosted.rows[led]
    return rows


def partitions_with_leaders(state: ClusterState) -> Rows:
    """Partitions with cached leadership whose topic is not queued (section 1.5)."""
    rows = np.flatnonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP).astype(np.int32)
    if state.any_queued:
        rows = rows[~state.topic_queued_for_deletion[state.topic_row[rows]]]
    return rows


def gauges(state: ClusterState, active: bool) -> dict[str, int]:
    """Exported gauges of section 1.6."""
    queued = state.topic_queued_for_deletion
    values = {
        "OfflinePartitionsCount": state.offline_partition_count,
        "PreferredReplicaImbalanceCount": state.preferred_imbalance_count,
        "GlobalTopicCount": int(state.topic_exists.sum()),
        "GlobalPartitionCount": int(
            np.count_nonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP)
        ),
        "TopicsToDeleteCount": int(queued.sum()),
        "ReplicasToDeleteCount": 0,
        "TopicsIneligibleToDeleteCount": int(state.topic_ineligible.sum()),
        "ReplicasIneligibleToDeleteCount": 0,
        "ActiveBrokerCount": int(state.registered.sum()),
    }
    if queued.any():
        rows = np.flatnonzero(queued[state.topic_row])
        assigned = np.arange(state.n_slots) < state.records["n_replicas"][rows][:, None]
        states = state.replica_state[rows]
        done = states == ReplicaState.DELETION_SUCCESSFUL
        halted = states == ReplicaState.DELETION_INELIGIBLE
        values["ReplicasToDeleteCount"] = int((assigned & ~done).sum())
        values["ReplicasIneligibleToDeleteCount"] = int((assigned & halted).sum())
    return values if active else dict.fromkeys(values, 0)
