"""How far the deletion of each topic is, asked again after every answer of a broker.

Nothing of it is kept but where a replica was last seen being deleted: while it still is, its topic
waits, and nothing else of the topic matters. A replica without a state would: so a topic has a
hint only after all its replicas were looked at, until a reassignment fails between assigning
replicas and starting them.

Source: docs/controller.md, section 6.12; Kafka 3.9, `TopicDeletionManager.resumeDeletions`.
"""

from __future__ import annotations

import numpy as np

from kfast.kernels import deletion as kernel
from kfast.schema import ReplicaState
from kfast.state import ClusterState
from kfast.state.records import Rows

SOME_STARTED, SOME_INELIGIBLE, ALL_SUCCESSFUL, SOME_WITHOUT_ENTRY = 1, 2, 4, 8
"""Bits of a topic's status; `kernels/deletion.pyx` has the same."""


class DeletionHints:
    """Per topic row whose replicas all have states, where to look first."""

    def __init__(self) -> None:
        self._place: dict[int, int] = {}
        self._row: dict[int, int] = {}

    def clear(self) -> None:
        """Forget all topics: rows have moved, the controller is another one, or states may lack."""
        self._place.clear()
        self._row.clear()

    def forget(self, topic: int) -> None:
        """Forget a topic that is gone."""
        self._place.pop(topic, None)
        self._row.pop(topic, None)

    def without_waiting(self, state: ClusterState, topics: Rows) -> Rows:
        """Leave out topics of which a replica is still seen being deleted.

        After an answer nearly all topics still wait, and this is one look at each of them.
        """
        known = self._row
        hints = np.fromiter((known.get(t, -1) for t in topics.tolist()), np.int64, topics.size)
        # The state may have been compacted behind the controller's back.
        hinted = np.flatnonzero((hints >= 0) & (hints < state.n_partitions))
        rows = hints[hinted]
        assigned = np.arange(state.n_slots) < state.records["n_replicas"][rows][:, None]
        deleted = (state.replica_state[rows] == ReplicaState.DELETION_STARTED) & assigned
        waiting = (state.topic_row[rows] == topics[hinted]) & deleted.any(axis=1)
        left: Rows = np.delete(topics, hinted[waiting])
        return left

    def status(self, state: ClusterState, topic: int) -> int:
        """Status of a topic row, in bits; the hint moves to a replica that is being deleted."""
        rows = state.lookup.rows_of_topic(topic)
        status, place = kernel.deletion_status(state.columns, rows, self._place.get(topic, -1))
        if status & SOME_WITHOUT_ENTRY:
            return int(status)
        if status & SOME_STARTED and topic not in self._row:
            # Answers come in ascending broker id: the last of them is waited for the longest.
            assigned = np.arange(state.n_slots) < state.records["n_replicas"][rows][:, None]
            last = np.where(assigned, state.replicas[rows], 0).max(axis=1)
            self._row[topic] = int(rows[np.argmax(last)])
        elif status & SOME_STARTED:
            self._row[topic] = int(rows[place])
        self._place[topic] = place
        return int(status)
