"""What the metadata log says: registrations, topics, configurations, features, and `replay`.

Registrations and records are the product's plain data; what is done with them is written here.

Source: docs/kraft.md, sections 1 and 2; Kafka 4.1, ClusterControlManager.java,
ReplicationControlManager.java, ConfigurationControlManager.java, FeatureControlManager.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kfast.schema import NO_LEADER
from kfast.state.kraft_releases import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    MetadataVersion,
    Release,
)
from kfast.state.metadata_records import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    Fencing,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    sorted_directories,
)
from kfast.state.registrations import BrokerRegistration, PartitionRegistration
from tests.support.kraft_reference.errors import ApiError, FaultError
from tests.support.kraft_reference.hash_orders import (
    HashTable,
    TopicIdPartition,
    hash_of_int,
    hash_of_string,
)
from tests.support.kraft_reference.heartbeats import Heartbeats
from tests.support.kraft_reference.indexes import BrokerPartitions, DirectoryPartitions

DEFAULTS = {MIN_INSYNC_REPLICAS: "1", UNCLEAN_LEADER_ELECTION: "false"}

PARTITION_FIELDS = {
    "replicas": "replicas",
    "directories": "directories",
    "isr": "isr",
    "removing_replicas": "removing",
    "adding_replicas": "adding",
    "eligible_leader_replicas": "elr",
    "last_known_elr": "last_known_elr",
    "leader": "leader",
    "leader_recovery_state": "recovery",
}
"""What the fields of a PartitionChange record are called in a registration."""


def merged(
    partition: PartitionRegistration, change: PartitionChangeRecord
) -> PartitionRegistration:
    """Apply a change: fields that are there replace, and the partition epoch rises (section 2).

    A leader that is there raises the leader epoch, even the same leader.
    """
    values = {
        name: value
        for record_name, name in PARTITION_FIELDS.items()
        if (value := getattr(change, record_name)) is not None
    }
    return with_sized_directories(replace(
        partition,
        **values,
        leader_epoch=partition.leader_epoch + ("leader" in values),
        partition_epoch=partition.partition_epoch + 1,
    ))


def with_sized_directories(partition: PartitionRegistration) -> PartitionRegistration:
    """Directories as they are, or one MIGRATING for each replica where all are (section 2)."""
    if set(partition.directories) <= {MIGRATING}:
        return replace(partition, directories=(MIGRATING,) * len(partition.replicas))
    return partition


def has_preferred_leader(partition: PartitionRegistration) -> bool:
    """Whether the first replica leads."""
    return partition.leader == partition.replicas[0]


def directory_of(partition: PartitionRegistration, broker: int) -> str:
    """Directory of a replica; to want that of another broker is a fault."""
    if broker not in partition.replicas:
        raise FaultError(f"broker {broker} has no replica here")
    return dict(zip(partition.replicas, partition.directories, strict=True))[broker]


def is_online_dir(registration: BrokerRegistration | None, directory: str) -> bool:
    """Section 1.1, `dir_online`."""
    if registration is None:
        return False
    listed = registration.directories
    return directory in (UNASSIGNED, MIGRATING, *listed) or (not listed and directory != LOST)


@dataclass
class Topic:
    """A topic and its partitions by number."""

    name: str
    id: str
    partitions: HashTable[int, PartitionRegistration] = field(
        default_factory=lambda: HashTable(hash_of_int)
    )


class ClusterState:
    """State of the cluster, with the indexes and the soft state that the active controller keeps.

    `heartbeats` is None while this controller is not active.
    """

    def __init__(
        self,
        release: Release,
        controller_id: int = 3000,
        static_config: Mapping[str, str] | None = None,
        kraft_version: int = 1,
    ) -> None:
        self.release = release
        self.controller_id = controller_id
        self.static_config = dict(static_config or {})
        self.kraft_version = kraft_version
        self.brokers: HashTable[int, BrokerRegistration] = HashTable(hash_of_int)
        self.registration_offsets: dict[int, int] = {}
        self.topics: dict[str, Topic] = {}
        self.topics_by_name: HashTable[str, str] = HashTable(hash_of_string)
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers_with_configs: HashTable[int, None] = HashTable(hash_of_int)
        self.features: dict[str, int] = {}
        self.isr_index = BrokerPartitions()
        self.elr_index = BrokerPartitions()
        self.directory_index = DirectoryPartitions(release.topic_id_partition_offset)
        self.imbalanced: HashTable[TopicIdPartition, None] = HashTable(
            self.directory_index.hash_of_partition
        )
        self.heartbeats: Heartbeats | None = None

    # ---------------------------------------------------------------------- questions to the state

    @property
    def metadata_version(self) -> MetadataVersion:
        """The finalized metadata version."""
        return MetadataVersion(self.features[METADATA_VERSION])

    @property
    def elr_on(self) -> bool:
        """Whether eligible leader replicas are on.

        Source: FeatureControlManager.java, `isElrFeatureEnabled`.
        """
        return self.features.get(ELR_VERSION, 0) >= 1

    @property
    def active_heartbeats(self) -> Heartbeats:
        """The soft state; only an active controller has it."""
        if self.heartbeats is None:
            raise FaultError("this controller is not active")
        return self.heartbeats

    def is_active(self, broker: int) -> bool:
        """Whether a broker is registered, unfenced and not in controlled shutdown."""
        registration = self.brokers.get(broker)
        if registration is None:
            return False
        return not registration.fenced and not registration.in_controlled_shutdown

    def default_dir(self, broker: int) -> str:
        """Directory of a new replica.

        Source: section 1.1; ClusterControlManager.java, `defaultDir`.
        """
        if not self.metadata_version.is_directory_assignment_supported:
            return MIGRATING
        registration = self.brokers.get(broker)
        if registration is None:
            return UNASSIGNED
        if not registration.directories:
            return MIGRATING
        return registration.directories[0] if len(registration.directories) == 1 else UNASSIGNED

    def check_broker_epoch(self, broker: int, epoch: int) -> None:
        """Refuse a request of an older incarnation. Source: ClusterControlManager.java."""
        registration = self.brokers.get(broker)
        if registration is None or registration.epoch != epoch:
            raise ApiError("STALE_BROKER_EPOCH")

    def partition(self, place: TopicIdPartition) -> PartitionRegistration:
        """A partition that an index lists; one that is not there is a fault."""
        topic = self.topics.get(place.topic_id)
        partition = None if topic is None else topic.partitions.get(place.partition_id)
        if partition is None:
            raise FaultError(f"{place} is in an index, but not there")
        return partition

    def topic_named(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        topic_id = self.topics_by_name.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def topic_config(self, topic: str, key: str) -> str:
        """Effective configuration: topic, the controller's own node, cluster, file, default.

        Source: section 1.5; ConfigurationControlManager.java, `getTopicConfig`.
        """
        for resource in (
            (ResourceType.TOPIC, topic),
            (ResourceType.BROKER, str(self.controller_id)),
            (ResourceType.BROKER, ""),
        ):
            value = self.configs.get(resource, {}).get(key)
            if value is not None:
                return value
        return self.static_config.get(key, DEFAULTS[key])

    def min_isr(self, topic: Topic) -> int:
        """Effective min.insync.replicas, limited by the replicas of partition 0.

        Source: section 1.5; ReplicationControlManager.java, `getTopicEffectiveMinIsr`.
        """
        first = topic.partitions.get(0)
        if first is None:
            raise FaultError(f"topic {topic.name} has no partition 0")
        return min(int(self.topic_config(topic.name, MIN_INSYNC_REPLICAS)), len(first.replicas))

    def unclean(self, topic: Topic) -> bool:
        """Whether unclean election is enabled for a topic (section 1.5, section 11 for 3.x)."""
        if not self.release.unclean_by_configuration:
            return False
        return self.topic_config(topic.name, UNCLEAN_LEADER_ELECTION).lower() == "true"

    # ------------------------------------------------------------------------------------- records

    def replay(self, record: MetadataRecord, offset: int) -> None:
        """Apply a record of the log, as every node does (section 2)."""
        match record:
            case RegisterBrokerRecord():
                self.registration_offsets[record.broker_id] = offset
                self._register_broker(record)
            case UnregisterBrokerRecord(broker_id=broker):
                self.registration_offsets.pop(broker, None)
                self._registered(broker, record.broker_epoch)
                if self.heartbeats is not None:
                    self.heartbeats.remove(broker)
                del self.brokers[broker]
            case BrokerRegistrationChangeRecord():
                self._change_registration(record)
            case FenceBrokerRecord() | UnfenceBrokerRecord():
                fences = isinstance(record, FenceBrokerRecord)
                self._change_registration(BrokerRegistrationChangeRecord(
                    0, record.id, record.epoch, Fencing.FENCE if fences else Fencing.UNFENCE
                ))
            case TopicRecord(name=name, topic_id=topic_id):
                if name in self.topics_by_name:
                    raise FaultError(f"a topic {name} is there already")
                self.topics_by_name.put(name, topic_id)
                self.topics[topic_id] = Topic(name, topic_id)
            case PartitionRecord():
                self._create_partition(record)
            case PartitionChangeRecord():
                place = TopicIdPartition(record.topic_id, record.partition_id)
                before = self.partition(place)
                self._put_partition(place, before, merged(before, record))
            case RemoveTopicRecord():
                self._remove_topic(self.topics.pop(record.topic_id))
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case ConfigRecord():
                self._set_config(record)
            case FeatureLevelRecord(name=name) if name != KRAFT_VERSION:
                self.features[name] = record.feature_level
                if record.feature_level == 0:
                    del self.features[name]

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        broker = record.broker_id
        if self.heartbeats is not None:
            if broker in self.brokers:
                self.heartbeats.remove(broker)
            self.heartbeats.register(broker, record.fenced)
        self.brokers.put(broker, BrokerRegistration(
            id=broker,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            rack=record.rack,
            fenced=record.fenced,
            in_controlled_shutdown=bool(record.in_controlled_shutdown),
            directories=sorted_directories(record.log_dirs),
            features=record.features,
            cordoned=record.cordoned_log_dirs or (),
        ))

    def _registered(self, broker: int, epoch: int) -> BrokerRegistration:
        registration = self.brokers.get(broker)
        if registration is None or registration.epoch != epoch:
            raise FaultError(f"broker {broker} is not registered with epoch {epoch}")
        return registration

    def _change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        """Nothing but a new registration ends a controlled shutdown; no directories: no change."""
        current = changed = self._registered(record.broker_id, record.broker_epoch)
        if record.fenced:
            changed = replace(changed, fenced=record.fenced == Fencing.FENCE)
        if record.in_controlled_shutdown:
            changed = replace(changed, in_controlled_shutdown=True)
        if record.log_dirs:
            changed = replace(changed, directories=sorted_directories(record.log_dirs))
        if changed != current:
            self.brokers.put(record.broker_id, changed)
        if self.heartbeats is not None:
            self.heartbeats.register(record.broker_id, changed.fenced)

    def _create_partition(self, record: PartitionRecord) -> None:
        place = TopicIdPartition(record.topic_id, record.partition_id)
        before = self.topics[record.topic_id].partitions.get(record.partition_id)
        after = with_sized_directories(PartitionRegistration(
            replicas=record.replicas,
            directories=record.directories or (),
            isr=record.isr,
            removing=record.removing_replicas,
            adding=record.adding_replicas,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
            leader=record.leader,
            recovery=record.leader_recovery_state,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        ))
        if after != before:
            self._put_partition(place, before, after)

    def _put_partition(
        self,
        place: TopicIdPartition,
        before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        """Store a partition and move it in the indexes (section 9.3)."""
        elr, directories = (before.elr, before.directories) if before else ((), ())
        self.topics[place.topic_id].partitions.put(place.partition_id, after)
        self.isr_index.update(place, leaderships(before), leaderships(after))
        self.elr_index.update(place, dict.fromkeys(elr, False), dict.fromkeys(after.elr, False))
        self.directory_index.update(place, directories, after.directories)
        if has_preferred_leader(after):
            self.imbalanced.pop(place, None)
        else:
            self.imbalanced.add(place, None)

    def _remove_topic(self, topic: Topic) -> None:
        """A partition leaves the directory index only if its ISR has a member (section 9.3)."""
        del self.topics_by_name[topic.name]
        self.configs.pop((ResourceType.TOPIC, topic.name), None)
        for number, partition in topic.partitions.items():
            place = TopicIdPartition(topic.id, number)
            for broker in partition.isr:
                self.isr_index.remove_topic(broker, topic.id)
                self.directory_index.update(place, partition.directories, ())
            for broker in partition.elr:
                self.elr_index.remove_topic(broker, topic.id)
            self.imbalanced.pop(place, None)
        self.isr_index.remove_topic(NO_LEADER, topic.id)

    def _clear_elr(self, name: str) -> None:
        """The index of ELRs keeps what it has (section 9.3)."""
        ids = [self.topics_by_name[name]] if name else list(self.topics)
        for topic in map(self.topics.__getitem__, ids):
            for number, partition in list(topic.partitions.items()):
                if partition.elr or partition.last_known_elr:
                    topic.partitions.put(number, replace(
                        partition, elr=(), last_known_elr=(),
                        partition_epoch=partition.partition_epoch + 1,
                    ))

    def _set_config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        values = self.configs.setdefault(resource, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configs[resource]
        if record.resource_type == ResourceType.BROKER and record.resource_name:
            node = int(record.resource_name)
            self.brokers_with_configs.add(node, None)
            if not values:
                del self.brokers_with_configs[node]


def leaderships(partition: PartitionRegistration | None) -> dict[int, bool]:
    """Members of an ISR, and whether each leads; -1 "leads" where nobody does."""
    if partition is None:
        return {}
    members = (*partition.isr, *([NO_LEADER] if partition.leader == NO_LEADER else []))
    return {broker: broker == partition.leader for broker in members}
