"""Indexes that the controller keeps beside the partitions; they decide what it visits, and when.

Source: docs/kraft.md, sections 1.2, 9.1 and 9.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tests.support.kraft_reference.hash_orders import (
    HashSet,
    HashTable,
    TopicIdPartition,
    Uuid,
    hash_of_int,
    hash_of_uuid,
    int32,
)
from tests.support.kraft_reference.records import FaultError, is_reserved

Entry = tuple[int, bool]
"""A partition number, and whether the broker leads it."""


class BrokerPartitions:
    """Partitions by broker and topic: for the ISRs, with leaders flagged, or for the ELRs.

    In the index of ISRs, broker -1 stands for "nobody leads".

    Source: section 9.3; BrokersToIsrs.java and BrokersToElrs.java, `update`, `add`, `change`,
    `remove`.
    """

    def __init__(self) -> None:
        self.topics_by_broker: HashTable[int, HashTable[Uuid, list[Entry]]] = HashTable(hash_of_int)

    def update(
        self, partition: TopicIdPartition, before: Mapping[int, bool], after: Mapping[int, bool]
    ) -> None:
        """Move a partition: `before` and `after` say for each of its brokers whether it leads."""
        for broker in sorted({*before, *after}):
            if broker not in after:
                self._remove(broker, partition, before[broker])
            elif broker not in before:
                self._add(broker, partition, after[broker])
            elif before[broker] != after[broker]:
                self._change(broker, partition, before[broker], after[broker])

    def _add(self, broker: int, partition: TopicIdPartition, leads: bool) -> None:
        topics = self.topics_by_broker.get(broker)
        if topics is None:
            topics = HashTable(hash_of_uuid)
            self.topics_by_broker.put(broker, topics)
        entries = topics.get(partition.topic_id) or []
        topics.put(partition.topic_id, [*entries, (partition.partition_id, leads)])

    def _entries(
        self, broker: int, partition: TopicIdPartition
    ) -> tuple[HashTable[Uuid, list[Entry]], list[Entry]]:
        topics = self.topics_by_broker.get(broker)
        entries = None if topics is None else topics.get(partition.topic_id)
        if topics is None or entries is None:
            raise FaultError(f"broker {broker} has no entry for {partition}")
        return topics, entries

    def _change(self, broker: int, partition: TopicIdPartition, led: bool, leads: bool) -> None:
        topics, entries = self._entries(broker, partition)
        number = partition.partition_id
        topics.put(
            partition.topic_id,
            [(number, leads) if entry == (number, led) else entry for entry in entries],
        )

    def _remove(self, broker: int, partition: TopicIdPartition, led: bool) -> None:
        """Take one entry out; where two are equal, both go and partition 0 fills the place."""
        topics, entries = self._entries(broker, partition)
        kept = [entry for entry in entries if entry != (partition.partition_id, led)]
        if len(kept) == len(entries):
            raise FaultError(f"broker {broker} has no entry for {partition}")
        if len(entries) == 1:
            topics.remove(partition.topic_id)
            if not len(topics):
                self.topics_by_broker.remove(broker)
            return
        kept += [(0, False)] * (len(entries) - 1 - len(kept))
        topics.put(partition.topic_id, kept)

    def remove_topic(self, broker: int, topic_id: Uuid) -> None:
        """Drop a topic's entries of a broker; an emptied table stays, with its capacity."""
        topics = self.topics_by_broker.get(broker)
        if topics is not None:
            topics.remove(topic_id)

    def partitions(self, broker: int) -> list[TopicIdPartition]:
        """Partitions of a broker, in the order of the index."""
        topics = self.topics_by_broker.get(broker)
        if topics is None:
            return []
        return [TopicIdPartition(topic, number) for topic in topics for number, _ in topics[topic]]

    def has_leaderships(self, broker: int) -> bool:
        """Whether the broker leads a partition."""
        topics = self.topics_by_broker.get(broker)
        return topics is not None and any(
            leads for topic in topics for _, leads in topics[topic]
        )


class DirectoryPartitions:
    """Partitions that have a replica in a directory, reserved ones left out.

    Source: section 9.3; ReplicationControlManager.java, `updatePartitionDirectories`.
    """

    def __init__(self, topic_id_partition_offset: int) -> None:
        self.offset = topic_id_partition_offset
        self.sets: dict[Uuid, HashSet[TopicIdPartition]] = {}

    def hash_of_partition(self, partition: TopicIdPartition) -> int:
        """Hash of a TopicIdPartition, which depends on the release."""
        return int32(
            31 * hash_of_uuid(partition.topic_id) + partition.partition_id + self.offset
        )

    def update(
        self, partition: TopicIdPartition, before: Collection[Uuid], after: Collection[Uuid]
    ) -> None:
        """Take a partition out of its old directories, then add it to the new ones."""
        for directory in before:
            listed = self.sets.get(directory)
            if listed is not None:
                listed.discard(partition)
                if not len(listed):
                    del self.sets[directory]
        for directory in after:
            if not is_reserved(directory):
                if directory not in self.sets:
                    self.sets[directory] = HashSet(self.hash_of_partition)
                self.sets[directory].add(partition)

    def partitions(self, directory: Uuid) -> list[TopicIdPartition]:
        """Partitions with a replica in a directory."""
        return list(self.sets.get(directory, ()))
