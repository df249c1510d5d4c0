"""Indexes that the controller keeps beside the partitions; they decide what it visits, and when.

Source: docs/kraft.md, sections 1.2, 9.1 and 9.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kfast.state.metadata_records import is_reserved_directory
from tests.support.kraft_reference.errors import FaultError
from tests.support.kraft_reference.hash_orders import (
    HashTable,
    TopicIdPartition,
    hash_of_int,
    hash_of_uuid,
    int32,
)

Entry = tuple[int, bool]
"""A partition number, and whether the broker leads it."""


def without_entry(entries: list[Entry], entry: Entry) -> list[Entry]:
    """An array one shorter; where several entries are equal all go, and partition 0 fills up."""
    rest = [other for other in entries if other != entry]
    if len(rest) == len(entries):
        raise FaultError(f"there is no entry {entry}")
    return rest + [(0, False)] * (len(entries) - 1 - len(rest))


class BrokerPartitions:
    """Partitions by broker and topic: for the ISRs, with leaders flagged, or for the ELRs.

    In the index of ISRs, broker -1 stands for "nobody leads".

    Source: section 9.3; BrokersToIsrs.java and BrokersToElrs.java.
    """

    def __init__(self) -> None:
        self.topics_by_broker: HashTable[int, HashTable[str, list[Entry]]] = HashTable(hash_of_int)

    def update(
        self, partition: TopicIdPartition, before: Mapping[int, bool], after: Mapping[int, bool]
    ) -> None:
        """Move a partition: `before` and `after` say for each of its brokers whether it leads."""
        topic, number = partition
        for broker in sorted({*before, *after}):
            topics = self.topics_by_broker.get(broker, HashTable(hash_of_uuid))
            entries = topics.get(topic, [])
            if broker not in before:
                entries = [*entries, (number, after[broker])]
            elif broker not in after:
                entries = without_entry(entries, (number, before[broker]))
            elif before[broker] != after[broker]:
                old, new = (number, before[broker]), (number, after[broker])
                entries = [new if entry == old else entry for entry in entries]
            else:
                continue
            if broker not in self.topics_by_broker:
                self.topics_by_broker.put(broker, topics)
            if entries:
                topics.put(topic, entries)
            else:
                del topics[topic]
            if not topics:
                del self.topics_by_broker[broker]

    def remove_topic(self, broker: int, topic_id: str) -> None:
        """Drop a topic's entries of a broker; an emptied table stays, with its capacity."""
        if broker in self.topics_by_broker:
            self.topics_by_broker[broker].pop(topic_id, None)

    def partitions(self, broker: int) -> list[TopicIdPartition]:
        """Partitions of a broker, in the order of the index."""
        topics = self.topics_by_broker.get(broker)
        if topics is None:
            return []
        return [
            TopicIdPartition(topic, number) for topic in topics.order()
            for number, _ in topics[topic]
        ]

    def has_leaderships(self, broker: int) -> bool:
        """Whether the broker leads a partition."""
        topics = self.topics_by_broker.get(broker, {})
        return any(leads for entries in topics.values() for _, leads in entries)


class DirectoryPartitions:
    """Partitions that have a replica in a directory, reserved ones left out.

    Source: section 9.3; ReplicationControlManager.java, `updatePartitionDirectories`.
    """

    def __init__(self, topic_id_partition_offset: int) -> None:
        self.offset = topic_id_partition_offset
        self.sets: dict[str, HashTable[TopicIdPartition, None]] = {}

    def hash_of_partition(self, partition: TopicIdPartition) -> int:
        """Hash of a TopicIdPartition, which depends on the release."""
        topic, number = partition
        return int32(31 * hash_of_uuid(topic) + number + self.offset)

    def update(
        self, partition: TopicIdPartition, before: Collection[str], after: Collection[str]
    ) -> None:
        """Take a partition out of its old directories, then add it to the new ones."""
        for directory in before:
            if directory in self.sets:
                self.sets[directory].pop(partition, None)
                if not self.sets[directory]:
                    del self.sets[directory]
        for directory in after:
            if not is_reserved_directory(directory):
                self.sets.setdefault(directory, HashTable(self.hash_of_partition)).add(
                    partition, None
                )

    def partitions(self, directory: str) -> list[TopicIdPartition]:
        """Partitions with a replica in a directory."""
        return self.sets[directory].order() if directory in self.sets else []
