"""Which partitions an event visits, and in which order.

The order of Kafka's indexes follows from hash tables and their history. It decides only the order
of records, and under a cap which are built at all: so partitions are visited by ascending row
(docs/deviations.md), unless the controller tracks Kafka's indexes.

Source: docs/kraft.md, sections 1.2 and 9.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kfast import schema
from kfast.controllers.kraft.kafka_indexes import KafkaIndexes
from kfast.state import ClusterState
from kfast.state.changes import Visited
from kfast.state.metadata_records import ResourceType
from kfast.state.records import EMPTY_ROWS, Rows
from kfast.state.registrations import quorum_of

Visit = tuple[Rows, Visited]
"""Rows in order, and which of them are visited."""


class Visits:
    """Partitions by what Kafka's indexes know of them; all of them are broker and partition rows.

    Parameters
    ----------
    state : ClusterState
    indexes : KafkaIndexes, optional
        Kafka's own, where their history is tracked.
    """

    def __init__(self, state: ClusterState, indexes: KafkaIndexes | None) -> None:
        self.state = state
        self.indexes = indexes

    def _id_of(self, broker: int) -> int:
        return int(self.state.broker_id[broker])

    def _tracking(self, broker: int) -> Rows:
        return self.state.rows_tracking(np.asarray([broker], np.int32))

    def in_isr(self, broker: int) -> Visit:
        """Partitions whose ISR has a broker."""
        if self.indexes is None:
            return self._tracking(broker), Visited.IN_ISR
        listed = self.indexes.isr.partitions(self._id_of(broker))
        return self.indexes.rows(listed), Visited.EVERY_ROW

    def in_elr(self, broker: int) -> Visit:
        """Partitions whose ELR has a broker."""
        if self.indexes is None:
            return self._tracking(broker), Visited.IN_ELR
        listed = self.indexes.elr.partitions(self._id_of(broker))
        return self.indexes.rows(listed), Visited.EVERY_ROW

    def leaderless(self) -> Rows:
        """Partitions that nobody leads."""
        if self.indexes is None:
            if not self.state.offline_partition_count:
                return EMPTY_ROWS
            return self.state.list_marked(self.state.leader_offline)
        return self.indexes.rows(self.indexes.isr.partitions(schema.NO_LEADER))

    def in_directory(self, directory: str) -> Rows:
        """Partitions with a replica in a directory."""
        if self.indexes is not None:
            return self.indexes.in_directory(directory)
        quorum = quorum_of(self.state)
        if quorum.directory is None:
            return EMPTY_ROWS
        inside = (quorum.directory == quorum.directory_row(directory)).any(axis=1)
        return np.flatnonzero(inside).astype(np.int32)

    def imbalanced(self) -> Rows:
        """Partitions that their first replica does not lead."""
        if self.indexes is not None:
            return self.indexes.rows(self.indexes.imbalanced)
        if not self.state.preferred_imbalance_count:
            return EMPTY_ROWS
        return self._unpreferred(slice(None))

    def _unpreferred(self, rows: slice | Rows) -> Rows:
        state = self.state
        led = (state.records["flags"][rows] & schema.FLAG_HAS_LEADERSHIP) != 0
        led &= state.records["leader"][rows] != state.replicas[rows, 0].astype(np.int32)
        at: Rows = np.flatnonzero(led).astype(np.int32)
        return at if isinstance(rows, slice) else rows[at]

    def without_preferred_leader(self) -> Rows:
        """The same among all partitions, in the order of topics and partitions."""
        if self.indexes is None:
            return self.imbalanced()
        return self._unpreferred(self.indexes.all_partitions())

    def without_leader(self) -> Rows:
        """Leaderless partitions among all, in the order of topics and partitions."""
        if self.indexes is None:
            return self.leaderless()
        rows = self.indexes.all_partitions()
        leaderless: Rows = rows[self.state.records["leader"][rows] == schema.NO_LEADER]
        return leaderless

    def collected(self, rows: Iterable[int]) -> Rows:
        """Partitions that an event has collected in a set (section 9.5)."""
        if self.indexes is None:
            return np.unique(np.asarray([*rows], np.int32))
        return self.indexes.collected(rows)

    def any_partition(self, topic: int) -> int:
        """The partition of a topic row that comes first, -1 where it has none."""
        if self.indexes is not None:
            table = self.indexes.partitions_by_topic[self.state.topic_id[topic].as_py()]
            return next((table.items[number] for number in table), -1)
        rows = self.state.lookup.rows_of_topic(topic)
        return int(rows[0]) if rows.size else -1

    def registrations(self) -> list[int]:
        """Ids of registered brokers."""
        if self.indexes is not None:
            return list(self.indexes.brokers)
        ids: list[int] = self.state.broker_id[self.state.registered].tolist()
        return ids

    def nodes_with_configs(self) -> list[int]:
        """Ids of nodes with configurations of their own."""
        if self.indexes is not None:
            return list(self.indexes.nodes_with_configs)
        configured = quorum_of(self.state).configurations
        return sorted(
            int(name) for kind, name in configured if kind == ResourceType.BROKER and name
        )
