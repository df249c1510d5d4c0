"""What the metadata log says: registrations, topics, configurations, features, and `replay`.

Source: docs/kraft.md, sections 1 and 2; Kafka 4.1, ClusterControlManager.java,
ReplicationControlManager.java, ConfigurationControlManager.java, FeatureControlManager.java, their
methods `replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.support.kraft_reference.hash_orders import (
    HashSet,
    HashTable,
    TopicIdPartition,
    Uuid,
    hash_of_int,
    hash_of_string,
)
from tests.support.kraft_reference.heartbeats import Heartbeats
from tests.support.kraft_reference.indexes import BrokerPartitions, DirectoryPartitions
from tests.support.kraft_reference.records import (
    BROKER,
    FENCE,
    LOST,
    MIGRATING,
    NO_FEATURES,
    NO_LEADER,
    RECOVERED,
    TOPIC,
    UNASSIGNED,
    UNFENCE,
    ApiError,
    BrokerRegistrationChangeRecord,
    Brokers,
    ClearElrRecord,
    ConfigRecord,
    FaultError,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.support.kraft_reference.versions import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    MIN_ISR,
    UNCLEAN,
    MetadataVersion,
    Release,
)

T = TypeVar("T")

DEFAULTS = {MIN_ISR: "1", UNCLEAN: "false"}


@dataclass(frozen=True)
class PartitionRegistration:
    """State of one partition. Source: section 1.1; PartitionRegistration.java."""

    replicas: Brokers
    directories: tuple[Uuid, ...]
    isr: Brokers
    removing: Brokers = ()
    adding: Brokers = ()
    elr: Brokers = ()
    last_known_elr: Brokers = ()
    leader: int = NO_LEADER
    recovery: int = RECOVERED
    leader_epoch: int = 0
    partition_epoch: int = 0

    @property
    def has_preferred_leader(self) -> bool:
        """Whether the first replica leads."""
        return self.leader == self.replicas[0]

    @property
    def is_reassignment_in_progress(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.removing or self.adding)

    def directory(self, broker: int) -> Uuid:
        """Directory of a replica. Source: PartitionRegistration.java, `directory`."""
        if broker not in self.replicas:
            raise FaultError(f"broker {broker} has no replica here")
        return self.directories[self.replicas.index(broker)]

    def merge(self, change: PartitionChangeRecord) -> PartitionRegistration:
        """Apply a change: fields that are there replace, the partition epoch rises.

        A leader that is there raises the leader epoch, even the same leader.

        Source: section 2; PartitionRegistration.java, `merge`.
        """
        replicas = either(change.replicas, self.replicas)
        leader_changes = change.leader is not None
        return PartitionRegistration(
            replicas=replicas,
            directories=sized(either(change.directories, self.directories), len(replicas)),
            isr=either(change.isr, self.isr),
            removing=either(change.removing_replicas, self.removing),
            adding=either(change.adding_replicas, self.adding),
            elr=either(change.eligible_leader_replicas, self.elr),
            last_known_elr=either(change.last_known_elr, self.last_known_elr),
            leader=self.leader if change.leader is None else change.leader,
            recovery=(
                self.recovery
                if change.leader_recovery_state is None
                else change.leader_recovery_state
            ),
            leader_epoch=self.leader_epoch + leader_changes,
            partition_epoch=self.partition_epoch + 1,
        )


def either(changed: tuple[T, ...] | None, kept: tuple[T, ...]) -> tuple[T, ...]:
    """The changed list, or the kept one where a record does not say."""
    return kept if changed is None else changed


def sized(directories: tuple[Uuid, ...], n_replicas: int) -> tuple[Uuid, ...]:
    """Directories as they are, or one MIGRATING for each replica where all are.

    Source: section 2; PartitionRegistration.java, `defaultToMigrating`.
    """
    if all(directory == MIGRATING for directory in directories):
        return (MIGRATING,) * n_replicas
    return directories


@dataclass(frozen=True)
class BrokerRegistration:
    """Registration of one broker. Source: section 1.1; BrokerRegistration.java."""

    id: int
    epoch: int
    incarnation_id: Uuid
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: NO_FEATURES)
    cordoned: tuple[Uuid, ...] = ()

    def has_online_dir(self, directory: Uuid) -> bool:
        """Whether a replica in this directory can be led. Source: `hasOnlineDir`."""
        if directory in (UNASSIGNED, MIGRATING):
            return True
        return directory != LOST and (not self.directories or directory in self.directories)


@dataclass
class Topic:
    """A topic and its partitions by number."""

    name: str
    id: Uuid
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
        self.topics: dict[Uuid, Topic] = {}
        self.topics_by_name: HashTable[str, Uuid] = HashTable(hash_of_string)
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.brokers_with_configs: HashSet[int] = HashSet(hash_of_int)
        self.features: dict[str, int] = {}
        self.isr_index = BrokerPartitions()
        self.elr_index = BrokerPartitions()
        self.directory_index = DirectoryPartitions(release.topic_id_partition_offset)
        self.imbalanced: HashSet[TopicIdPartition] = HashSet(
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

    def has_online_dir(self, broker: int, directory: Uuid) -> bool:
        """Section 1.1, `dir_online`."""
        registration = self.brokers.get(broker)
        return registration is not None and registration.has_online_dir(directory)

    def default_dir(self, broker: int) -> Uuid:
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
        for resource in ((TOPIC, topic), (BROKER, str(self.controller_id)), (BROKER, "")):
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
        return min(int(self.topic_config(topic.name, MIN_ISR)), len(first.replicas))

    def unclean(self, topic: Topic) -> bool:
        """Whether unclean election is enabled for a topic (section 1.5, section 11 for 3.x)."""
        if not self.release.unclean_by_configuration:
            return False
        return self.topic_config(topic.name, UNCLEAN).lower() == "true"

    # ------------------------------------------------------------------------------------- records

    def replay(self, record: MetadataRecord, offset: int) -> None:
        """Apply a record of the log, as every node does (section 2)."""
        apply: Mapping[type, Callable[..., None]] = {
            RegisterBrokerRecord: self._replay_register_broker,
            UnregisterBrokerRecord: self._replay_unregister_broker,
            BrokerRegistrationChangeRecord: self._replay_registration_change,
            FenceBrokerRecord: self._replay_fence_broker,
            UnfenceBrokerRecord: self._replay_unfence_broker,
            TopicRecord: self._replay_topic,
            PartitionRecord: self._replay_partition,
            PartitionChangeRecord: self._replay_partition_change,
            RemoveTopicRecord: self._replay_remove_topic,
            ClearElrRecord: self._replay_clear_elr,
            ConfigRecord: self._replay_config,
            FeatureLevelRecord: self._replay_feature_level,
        }
        if isinstance(record, RegisterBrokerRecord):
            self.registration_offsets[record.broker_id] = offset
        apply[type(record)](record)

    def _replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        is_new = record.broker_id not in self.brokers
        self.brokers.put(
            record.broker_id,
            BrokerRegistration(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=bool(record.in_controlled_shutdown),
                directories=tuple(sorted(record.log_dirs)),
                features=record.features,
                cordoned=record.cordoned_log_dirs or (),
            ),
        )
        if self.heartbeats is not None:
            if not is_new:
                self.heartbeats.remove(record.broker_id)
            self.heartbeats.register(record.broker_id, record.fenced)

    def _registered(self, broker: int, epoch: int) -> BrokerRegistration:
        registration = self.brokers.get(broker)
        if registration is None or registration.epoch != epoch:
            raise FaultError(f"broker {broker} is not registered with epoch {epoch}")
        return registration

    def _replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.registration_offsets.pop(record.broker_id, None)
        self._registered(record.broker_id, record.broker_epoch)
        if self.heartbeats is not None:
            self.heartbeats.remove(record.broker_id)
        self.brokers.remove(record.broker_id)

    def _replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        """Nothing but a new registration ends a controlled shutdown; no directories: no change."""
        current = self._registered(record.broker_id, record.broker_epoch)
        changed = replace(
            current,
            fenced=record.fenced == FENCE if record.fenced else current.fenced,
            in_controlled_shutdown=bool(
                record.in_controlled_shutdown or current.in_controlled_shutdown
            ),
            directories=tuple(sorted(record.log_dirs or current.directories)),
        )
        if changed != current:
            self.brokers.put(record.broker_id, changed)
        if self.heartbeats is not None:
            self.heartbeats.register(record.broker_id, changed.fenced)

    def _replay_fence_broker(self, record: FenceBrokerRecord) -> None:
        self._replay_registration_change(
            BrokerRegistrationChangeRecord(0, record.id, record.epoch, FENCE)
        )

    def _replay_unfence_broker(self, record: UnfenceBrokerRecord) -> None:
        self._replay_registration_change(
            BrokerRegistrationChangeRecord(0, record.id, record.epoch, UNFENCE)
        )

    def _replay_topic(self, record: TopicRecord) -> None:
        if record.name in self.topics_by_name:
            raise FaultError(f"a topic {record.name} is there already")
        self.topics_by_name.put(record.name, record.topic_id)
        self.topics[record.topic_id] = Topic(record.name, record.topic_id)

    def _put_partition(
        self,
        place: TopicIdPartition,
        before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        """Store a partition and move it in the indexes (section 9.3)."""
        self.topics[place.topic_id].partitions.put(place.partition_id, after)
        self.isr_index.update(place, leaderships(before), leaderships(after))
        self.elr_index.update(
            place,
            dict.fromkeys(before.elr if before else (), False),
            dict.fromkeys(after.elr, False),
        )
        self.directory_index.update(
            place, before.directories if before else (), after.directories
        )

    def _update_imbalanced(self, place: TopicIdPartition, partition: PartitionRegistration) -> None:
        if partition.has_preferred_leader:
            self.imbalanced.discard(place)
        else:
            self.imbalanced.add(place)

    def _replay_partition(self, record: PartitionRecord) -> None:
        place = TopicIdPartition(record.topic_id, record.partition_id)
        before = self.topics[record.topic_id].partitions.get(record.partition_id)
        after = PartitionRegistration(
            replicas=record.replicas,
            directories=sized(record.directories or (), len(record.replicas)),
            isr=record.isr,
            removing=record.removing_replicas,
            adding=record.adding_replicas,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
            leader=record.leader,
            recovery=record.leader_recovery_state,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        )
        if after != before:
            self._put_partition(place, before, after)
        self._update_imbalanced(place, after)

    def _replay_partition_change(self, record: PartitionChangeRecord) -> None:
        place = TopicIdPartition(record.topic_id, record.partition_id)
        before = self.partition(place)
        after = before.merge(record)
        self._put_partition(place, before, after)
        self._update_imbalanced(place, after)

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        """A partition leaves the directory index only if its ISR has a member (section 9.3)."""
        topic = self.topics.pop(record.topic_id)
        self.topics_by_name.remove(topic.name)
        self.configs.pop((TOPIC, topic.name), None)
        for number, partition in list(topic.partitions.values_by_key.items()):
            place = TopicIdPartition(topic.id, number)
            for broker in partition.isr:
                self.isr_index.remove_topic(broker, topic.id)
                self.directory_index.update(place, partition.directories, ())
            for broker in partition.elr:
                self.elr_index.remove_topic(broker, topic.id)
            self.imbalanced.discard(place)
        self.isr_index.remove_topic(NO_LEADER, topic.id)

    def _replay_clear_elr(self, record: ClearElrRecord) -> None:
        """The index of ELRs keeps what it has (section 9.3)."""
        topics = list(self.topics.values())
        if record.topic_name:
            topics = [self.topics[self.topics_by_name[record.topic_name]]]
        for topic in topics:
            for number, partition in list(topic.partitions.values_by_key.items()):
                if partition.elr or partition.last_known_elr:
                    change = PartitionChangeRecord(
                        0, number, topic.id, eligible_leader_replicas=(), last_known_elr=()
                    )
                    topic.partitions.put(number, partition.merge(change))

    def _replay_config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        is_node = record.resource_type == BROKER and record.resource_name != ""
        if resource not in self.configs:
            self.configs[resource] = {}
            if is_node:
                self.brokers_with_configs.add(int(record.resource_name))
        if record.value is None:
            self.configs[resource].pop(record.name, None)
        else:
            self.configs[resource][record.name] = record.value
        if not self.configs[resource]:
            del self.configs[resource]
            if is_node:
                self.brokers_with_configs.discard(int(record.resource_name))

    def _replay_feature_level(self, record: FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level


def leaderships(partition: PartitionRegistration | None) -> dict[int, bool]:
    """Members of an ISR, and whether each leads; -1 "leads" where nobody does."""
    if partition is None:
        return {}
    members = {broker: broker == partition.leader for broker in partition.isr}
    if partition.leader == NO_LEADER:
        members[NO_LEADER] = True
    return members
