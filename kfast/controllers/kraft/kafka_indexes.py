"""Kafka's indexes with their history: in which order a controller visits partitions.

The order follows from hash tables and all that was ever put into them. A controller that tracks it
visits partitions exactly as Kafka does; it takes Python objects for every partition, so it is for
small clusters. Without it, `visits` goes by ascending row.

Source: docs/kraft.md, sections 1.2, 9.1 and 9.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from kfast.controllers.kraft.faults import Fault
from kfast.controllers.kraft.hash_orders import (
    HashTable,
    hash_of_string,
    hash_of_uuid,
    int32,
    java_hash_set_order,
)
from kfast.errors import ArgumentError
from kfast.kernels.change_log import ChangeLog
from kfast.schema import NO_LEADER
from kfast.state import ClusterState
from kfast.state.kraft_releases import Release
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    is_reserved_directory,
)
from kfast.state.record_application import (
    apply_changes,
    apply_record,
    partition_row_of,
)
from kfast.state.records import Rows
from kfast.state.registrations import PartitionRegistration, quorum_of

TopicIdPartition = tuple[str, int]
Entry = tuple[int, bool]
"""A partition number, and whether the broker leads it."""


class BrokerPartitions:
    """Partitions by broker and topic: for the ISRs, with leaders flagged, or for the ELRs.

    In the index of ISRs, broker -1 stands for "nobody leads".

    Source: section 9.3; BrokersToIsrs.java and BrokersToElrs.java, `update`, `add`, `change`,
    `remove`.
    """

    def __init__(self) -> None:
        self.topics_by_broker: HashTable[int, HashTable[str, list[Entry]]] = HashTable(int)

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
                self._change(broker, partition, before[broker])

    def _add(self, broker: int, partition: TopicIdPartition, leads: bool) -> None:
        topic, number = partition
        topics = self.topics_by_broker.get(broker)
        if topics is None:
            topics = HashTable(hash_of_uuid)
            self.topics_by_broker.put(broker, topics)
        topics.put(topic, [*(topics.get(topic) or ()), (number, leads)])

    def _entries(
        self, broker: int, topic: str
    ) -> tuple[HashTable[str, list[Entry]], list[Entry]]:
        topics = self.topics_by_broker.get(broker)
        entries = None if topics is None else topics.get(topic)
        if topics is None or entries is None:
            raise Fault(f"broker {broker} has no entry of topic {topic}")
        return topics, entries

    def _change(self, broker: int, partition: TopicIdPartition, led: bool) -> None:
        topic, number = partition
        topics, entries = self._entries(broker, topic)
        topics.put(
            topic, [(number, not led) if entry == (number, led) else entry for entry in entries]
        )

    def _remove(self, broker: int, partition: TopicIdPartition, led: bool) -> None:
        """Take one entry out; where two are equal, both go and partition 0 fills the place."""
        topic, number = partition
        topics, entries = self._entries(broker, topic)
        remaining = [entry for entry in entries if entry != (number, led)]
        if len(remaining) == len(entries):
            raise Fault(f"broker {broker} has no entry for {partition}")
        if len(entries) > 1:
            topics.put(topic, remaining + [(0, False)] * (len(entries) - 1 - len(remaining)))
            return
        topics.remove(topic)
        if not len(topics):
            self.topics_by_broker.remove(broker)

    def remove_topic(self, broker: int, topic: str) -> None:
        """Drop a topic's entries of a broker; an emptied table stays, with its capacity."""
        topics = self.topics_by_broker.get(broker)
        if topics is not None:
            topics.remove(topic)

    def partitions(self, broker: int) -> list[TopicIdPartition]:
        """Partitions of a broker, in the order of the index."""
        topics = self.topics_by_broker.get(broker)
        if topics is None:
            return []
        return [(topic, number) for topic in topics for number, _ in topics.items[topic]]


class KafkaIndexes:
    """All tables of a controller whose order matters, kept with every record that is applied."""

    def __init__(self, state: ClusterState, release: Release) -> None:
        self.state = state
        self.offset = release.topic_id_partition_offset
        self.brokers: HashTable[int, None] = HashTable(int)
        self.nodes_with_configs: HashTable[int, None] = HashTable(int)
        self.topics: HashTable[str, str] = HashTable(hash_of_string)
        self.partitions_by_topic: dict[str, HashTable[int, int]] = {}
        """By topic id: partition number -> row of the state."""
        self.isr = BrokerPartitions()
        self.elr = BrokerPartitions()
        self.directories: dict[str, HashTable[TopicIdPartition, None]] = {}
        self.imbalanced: HashTable[TopicIdPartition, None] = HashTable(self.hash_of_partition)
        self._load()

    def _load(self) -> None:
        """Put in what is there already, by ascending row: a snapshot has no other order."""
        state = self.state
        for broker in state.broker_id[state.registered].tolist():
            self.brokers.put(broker, None)
        for topic in np.flatnonzero(state.topic_exists).tolist():
            topic_id = state.topic_id[topic].as_py()
            if topic_id is None:
                raise ArgumentError(
                    f"topic {state.topic[topic].as_py()!r} has no id, from which the order of "
                    "Kafka's tables follows: tracks_history needs the ids of all topics"
                )
            self.create_topic(state.topic[topic].as_py(), topic_id)
        for row in np.flatnonzero(state.partition >= 0).tolist():
            self.update(self.place(row), row, None, state.registration(row))

    def place(self, row: int) -> TopicIdPartition:
        """Topic id and number of a partition row."""
        state = self.state
        return state.topic_id[int(state.topic_row[row])].as_py(), int(state.partition[row])

    def hash_of_partition(self, partition: TopicIdPartition) -> int:
        """Hash of a TopicIdPartition, which depends on the release (section 9.1)."""
        return int32(31 * hash_of_uuid(partition[0]) + partition[1] + self.offset)

    # ------------------------------------------------------------------------------------- orders

    def rows(self, partitions: Iterable[TopicIdPartition]) -> Rows:
        """Rows of entries; one that no longer exists is a fault, as inside Kafka."""
        rows = []
        for topic, number in partitions:
            table = self.partitions_by_topic.get(topic)
            row = None if table is None else table.get(number)
            if row is None:
                raise Fault(f"topic {topic} has no partition {number}")
            rows.append(row)
        return np.asarray(rows, np.int32)

    def all_partitions(self) -> Rows:
        """Rows of all partitions: topics by name, partitions by number."""
        tables = (self.partitions_by_topic[self.topics.items[name]] for name in self.topics)
        return np.asarray([t.items[number] for t in tables for number in t], np.int32)

    def in_directory(self, directory: str) -> Rows:
        """Rows with a replica in a directory."""
        return self.rows(self.directories.get(directory, ()))

    def collected(self, rows: Iterable[int]) -> Rows:
        """Rows in the order of a Java HashSet (section 9.5)."""
        return self.rows(java_hash_set_order(map(self.place, rows), self.hash_of_partition))

    # ------------------------------------------------------------------------------------ records

    def apply_changes(self, changes: ChangeLog, start: int, stop: int) -> None:
        """Apply changes to the state one by one, each moves its partition in the indexes."""
        rows = changes.changes["row"].tolist()
        for at in range(start, stop):
            row = rows[at]
            before = self.state.registration(row)
            apply_changes(self.state, changes, at + 1)
            self.update(self.place(row), row, before, self.state.registration(row))

    def apply_record(self, record: MetadataRecord, offset: int) -> None:
        """Apply a record other than a PartitionChange to the state, and follow it here."""
        state = self.state
        match record:
            case RemoveTopicRecord():
                self.remove_topic(record.topic_id)
            case ClearElrRecord():
                self.clear_elr(record.topic_name)
            case ConfigRecord(resource_type=ResourceType.BROKER) if record.resource_name:
                self.nodes_with_configs.add(int(record.resource_name), None)
        broker = getattr(record, "broker_id", getattr(record, "id", None))
        before = None if broker is None else state.broker_registration(broker)
        apply_record(state, record, offset)
        match record:
            case RegisterBrokerRecord():
                self.brokers.put(record.broker_id, None)
            case UnregisterBrokerRecord():
                self.brokers.remove(record.broker_id)
            case (
                BrokerRegistrationChangeRecord() | FenceBrokerRecord() | UnfenceBrokerRecord()
            ) if broker is not None:
                if state.broker_registration(broker) != before:
                    self.brokers.put(broker, None)
            case TopicRecord():
                self.create_topic(record.name, record.topic_id)
            case PartitionRecord():
                place = record.topic_id, record.partition_id
                row = partition_row_of(state, *place)
                self.update(place, row, None, state.registration(row))
            case ConfigRecord(resource_type=ResourceType.BROKER) if record.resource_name:
                if (record.resource_type, record.resource_name) not in (
                    quorum_of(state).configurations
                ):
                    self.nodes_with_configs.remove(int(record.resource_name))

    # ------------------------------------------------------------------------------------- upkeep

    def create_topic(self, name: str, topic_id: str) -> None:
        """A topic has come."""
        self.topics.put(name, topic_id)
        self.partitions_by_topic[topic_id] = HashTable(int)

    def update(
        self, partition: TopicIdPartition, row: int, before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        """A partition was written by a Partition or PartitionChange record (section 9.3)."""
        self.partitions_by_topic[partition[0]].put(partition[1], row)
        self.isr.update(partition, leaderships(before), leaderships(after))
        self.elr.update(
            partition, dict.fromkeys(before.elr if before else (), False),
            dict.fromkeys(after.elr, False),
        )
        self._update_directories(
            partition, before.directories if before else (), after.directories
        )
        if after.leader == after.replicas[0]:
            self.imbalanced.remove(partition)
        else:
            self.imbalanced.add(partition, None)

    def _update_directories(
        self, partition: TopicIdPartition, before: Iterable[str], after: Iterable[str]
    ) -> None:
        """Source: ReplicationControlManager.java, `updatePartitionDirectories`."""
        for directory in before:
            listed = self.directories.get(directory)
            if listed is not None:
                listed.remove(partition)
                if not len(listed):
                    del self.directories[directory]
        for directory in after:
            if not is_reserved_directory(directory):
                empty: HashTable[TopicIdPartition, None] = HashTable(self.hash_of_partition)
                self.directories.setdefault(directory, empty).add(partition, None)

    def clear_elr(self, topic_name: str) -> None:
        """Partitions with an ELR or a last known leader are written; its index stays as it is."""
        names = [topic_name] if topic_name else list(self.topics)
        for name in names:
            table = self.partitions_by_topic[self.topics.items[name]]
            for number, row in list(table.items.items()):
                registration = self.state.registration(row)
                if registration.elr or registration.last_known_elr:
                    table.put(number, row)

    def remove_topic(self, topic_id: str) -> None:
        """A topic goes; a partition with an empty ISR stays in the index of directories."""
        for number, row in self.partitions_by_topic.pop(topic_id).items.items():
            registration = self.state.registration(row)
            for broker in registration.isr:
                self.isr.remove_topic(broker, topic_id)
                self._update_directories((topic_id, number), registration.directories, ())
            for broker in registration.elr:
                self.elr.remove_topic(broker, topic_id)
            self.imbalanced.remove((topic_id, number))
        self.isr.remove_topic(NO_LEADER, topic_id)
        name = next(name for name in self.topics if self.topics.items[name] == topic_id)
        self.topics.remove(name)


def leaderships(partition: PartitionRegistration | None) -> dict[int, bool]:
    """Members of an ISR, and whether each leads; -1 "leads" where nobody does."""
    if partition is None:
        return {}
    members = {broker: broker == partition.leader for broker in partition.isr}
    if partition.leader == NO_LEADER:
        members[NO_LEADER] = True
    return members
