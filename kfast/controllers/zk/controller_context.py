"""What a controller exports, and questions about the whole context.

Source: docs/controller.md, sections 1.5 and 1.6; Kafka 3.9, `ControllerContext`.
"""

from __future__ import annotations

import numpy as np

from kfast import schema
from kfast.schema import ReplicaState
from kfast.state import ClusterState, Replicas
from kfast.state.records import Rows


def split_queued(state: ClusterState, replicas: Replicas) -> tuple[Replicas, Replicas]:
    """Replicas of queued topics, and the others."""
    if not state.any_queued:
        return Replicas(replicas.rows[:0], replicas.slots[:0]), replicas
    queued = state.topic_queued_for_deletion[state.topic_row[replicas.rows]]
    return (
        Replicas(replicas.rows[queued], replicas.slots[queued]),
        Replicas(replicas.rows[~queued], replicas.slots[~queued]),
    )


def split_led(
    state: ClusterState, broker: int, spares_queued: bool = True, *, assigned_only: bool = True
) -> tuple[Rows, Replicas]:
    """Partitions that a broker leads, and replicas with which it follows (section 6.3, step 5).

    Only partitions with more than one assigned replica, cached leadership and, with
    `spares_queued`, a topic that is not queued count.
    """
    hosted = state.replicas_on(np.asarray([broker], np.int32), assigned_only=assigned_only)
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
    return split_led(state, broker, spares_queued, assigned_only=False)[0]


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
