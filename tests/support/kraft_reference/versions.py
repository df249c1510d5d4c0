"""What differs between releases of Kafka, and what a metadata version switches on.

Source: docs/kraft.md, sections 1.4 and 11; the classes named beside each field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
ELR_VERSION = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"

METADATA_CHANGED_AT = (7, 8, 11, 13, 14, 15, 17, 23, 30)
"""Levels that changed the metadata, so that no downgrade may pass them.

Source: MetadataVersion.java, `didMetadataChange`.
"""


class Completion(Enum):
    """Which replicas must be in the ISR before a reassignment is complete (section 4)."""

    ADDING = "all that are added"
    REMAINING = "all that remain"
    BALANCED = "all that are added; all that remain where fewer are added than removed"


class LastKnownLeader(Enum):
    """When `last_known_elr` is written (section 3, step 8; section 11)."""

    EMPTY_ISR = "with an ISR that becomes empty"
    LOST_LEADER = "with a leader that is lost"


class ShrinkBump(Enum):
    """When a smaller ISR raises the leader epoch (section 3, step 7)."""

    ALWAYS = "always"
    OLD_METADATA = "below metadata version 3.6-IV0"


@dataclass(frozen=True)
class Release:
    """One line of section 11: how a release of Kafka decides."""

    name: str
    latest_metadata_version: int
    """Highest level of production. Source: MetadataVersion.java, `LATEST_PRODUCTION`."""
    minimum_metadata_version: int
    completion: Completion
    """PartitionReassignmentReplicas.java, `maybeCompleteReassignment`."""
    elr: bool
    """Whether `eligible.leader.replicas.version` can be 1."""
    last_known_leader: LastKnownLeader
    """PartitionChangeBuilder.java, `maybeUpdateLastKnownLeader`."""
    last_known_leader_must_be_acceptable: bool
    """PartitionChangeBuilder.java, `canElectLastKnownLeader`."""
    refuses_rf_change: bool
    """Whether AlterPartitionReassignments knows `AllowReplicationFactorChange` (KIP-860)."""
    elr_in_assign_replicas_to_dirs: bool
    """ReplicationControlManager.java, `handleAssignReplicasToDirs`."""
    unclean_by_configuration: bool
    """Before 3.9 `unclean.leader.election.enable` has no effect.

    Source: ConfigurationControlManager.java, `uncleanLeaderElectionEnabledForTopic`."""
    amends_registrations: bool
    """Whether the same incarnation keeps its epoch when it registers again, and a feature that is
    not listed counts as 0-0. Source: ClusterControlManager.java, `registerBroker` of 3.9."""
    registers_again_as_it_was: bool
    """Whether the same incarnation stays unfenced, or in controlled shutdown, when it registers
    again; before 3.7 it is fenced. Source: ClusterControlManager.java, `registerBroker`."""
    restart_leaves_isrs: bool
    """Whether a new incarnation is taken out of the ISRs it is still in.

    Source: ClusterControlManager.java, `registerBroker`, `brokerShutdownHandler`."""
    forgets_metadata_offset: bool
    """Whether a record that leaves `fenced` as it is resets the metadata offset and, in 3.x, is a
    contact; before 3.7 it does nothing, and a missing heartbeat state counts as fenced.

    Source: BrokerHeartbeatManager.java, `register`, `touch`."""
    sessions_by_epoch: bool
    """Whether a session belongs to a broker epoch, in a hash table, or to a broker, in a
    list of the unfenced ones by last contact. Source: BrokerHeartbeatTracker.java."""
    session_hash_is_record: bool
    """Hash of `BrokerIdAndEpoch`: a Java record's from 4.2 (section 9.4)."""
    fenced_have_sessions_on_activation: bool
    """ClusterControlManager.java, `activate`."""
    unclean_election_task: bool
    """ReplicationControlManager.java, `maybeElectUncleanLeaders`, which came with 3.9."""
    full_balance_is_called_again: bool
    """Whether a full pass asks to be called again though nothing may be left, as from 3.9.

    Source: ReplicationControlManager.java, `maybeBalancePartitionLeaders`."""
    shrink_bump: ShrinkBump
    """MetadataVersion.java, `isLeaderEpochBumpRequiredOnIsrShrink`."""
    shrink_bump_by_target: bool
    """Before 3.8 the shrink is seen in the target ISR, even one that is not recorded."""
    max_partitions_per_create: int | None
    """ReplicationControlManager.java, `validateTotalNumberOfPartitions`."""
    limits_records: bool
    """Whether an operation of a user writes at most 10 000 records. Source: BoundedList.java."""
    topic_configs_first: bool
    """Whether CreateTopics writes the configurations of all topics before the first topic.

    Source: ReplicationControlManager.java, `createTopics`."""
    topic_id_partition_offset: int
    """What the hash of TopicIdPartition adds: `Objects.hash` up to 4.0 (section 9.1)."""


_KRAFT_41 = Release(
    name="kraft-4.1",
    latest_metadata_version=27,
    minimum_metadata_version=7,
    completion=Completion.REMAINING,
    elr=True,
    last_known_leader=LastKnownLeader.LOST_LEADER,
    last_known_leader_must_be_acceptable=True,
    refuses_rf_change=True,
    elr_in_assign_replicas_to_dirs=False,
    unclean_by_configuration=True,
    amends_registrations=True,
    registers_again_as_it_was=True,
    restart_leaves_isrs=True,
    forgets_metadata_offset=True,
    sessions_by_epoch=True,
    session_hash_is_record=False,
    fenced_have_sessions_on_activation=False,
    unclean_election_task=True,
    full_balance_is_called_again=True,
    shrink_bump=ShrinkBump.OLD_METADATA,
    shrink_bump_by_target=False,
    max_partitions_per_create=10_000,
    limits_records=True,
    topic_configs_first=False,
    topic_id_partition_offset=0,
)
_KRAFT_40 = replace(
    _KRAFT_41,
    name="kraft-4.0",
    latest_metadata_version=25,
    last_known_leader=LastKnownLeader.EMPTY_ISR,
    last_known_leader_must_be_acceptable=False,
    refuses_rf_change=False,
    fenced_have_sessions_on_activation=True,
    topic_id_partition_offset=961,
)
_KRAFT_42 = replace(
    _KRAFT_41, name="kraft-4.2", latest_metadata_version=29, session_hash_is_record=True
)
_KRAFT_43 = replace(
    _KRAFT_42,
    name="kraft-4.3",
    latest_metadata_version=30,
    completion=Completion.BALANCED,
    elr_in_assign_replicas_to_dirs=True,
)
_KRAFT_39 = replace(
    _KRAFT_40,
    name="kraft-3.9",
    latest_metadata_version=21,
    minimum_metadata_version=1,
    elr=False,
    restart_leaves_isrs=False,
    sessions_by_epoch=False,
    max_partitions_per_create=None,
)
_KRAFT_38 = replace(
    _KRAFT_39,
    name="kraft-3.8",
    latest_metadata_version=20,
    unclean_by_configuration=False,
    amends_registrations=False,
    unclean_election_task=False,
    full_balance_is_called_again=False,
)
_KRAFT_37 = replace(
    _KRAFT_38,
    name="kraft-3.7",
    latest_metadata_version=19,
    completion=Completion.ADDING,
    shrink_bump_by_target=True,
)
_KRAFT_36 = replace(
    _KRAFT_37,
    name="kraft-3.6",
    latest_metadata_version=14,
    registers_again_as_it_was=False,
    forgets_metadata_offset=False,
)
_KRAFT_35 = replace(
    _KRAFT_36,
    name="kraft-3.5",
    latest_metadata_version=11,
    shrink_bump=ShrinkBump.ALWAYS,
)
_KRAFT_34 = replace(
    _KRAFT_35, name="kraft-3.4", latest_metadata_version=8, limits_records=False
)
_KRAFT_33 = replace(
    _KRAFT_34, name="kraft-3.3", latest_metadata_version=7, topic_configs_first=True
)

RELEASES: Mapping[str, Release] = {
    release.name: release
    for release in (
        _KRAFT_33, _KRAFT_34, _KRAFT_35, _KRAFT_36, _KRAFT_37, _KRAFT_38, _KRAFT_39,
        _KRAFT_40, _KRAFT_41, _KRAFT_42, _KRAFT_43,
    )
}
"""Every release by its profile's name. Branches 4.2 and 4.1 differ in a hash only."""


@dataclass(frozen=True)
class MetadataVersion:
    """The gates of section 1.4. Source: MetadataVersion.java, the methods of these names."""

    level: int

    @property
    def is_leader_recovery_supported(self) -> bool:
        """Whether partitions have a leader recovery state (3.2-IV0)."""
        return self.level >= 3

    @property
    def is_broker_registration_change_record_supported(self) -> bool:
        """Whether fencing writes a change record, not FenceBroker or UnfenceBroker (3.3-IV2)."""
        return self.level >= 6

    @property
    def is_in_controlled_shutdown_state_supported(self) -> bool:
        """Whether a controlled shutdown is recorded (3.3-IV3)."""
        return self.level >= 7

    @property
    def is_leader_epoch_bump_required_on_isr_shrink(self) -> bool:
        """Whether a smaller ISR raises the leader epoch (below 3.6-IV0, KAFKA-15021)."""
        return self.level < 12

    @property
    def is_directory_assignment_supported(self) -> bool:
        """Whether replicas have directories (3.7-IV2)."""
        return self.level >= 17

    @property
    def is_elr_supported(self) -> bool:
        """Whether the ELR feature can be switched on (4.0-IV1)."""
        return self.level >= 23

    @property
    def register_broker_record_version(self) -> int:
        """Version of RegisterBroker records."""
        return sum(self.level >= level for level in (7, 8, 17, 30))

    @property
    def partition_record_version(self) -> int:
        """Version of Partition records."""
        return sum(self.level >= level for level in (17, 23))

    @property
    def partition_change_record_version(self) -> int:
        """Version of PartitionChange records."""
        return sum(self.level >= level for level in (17, 23))


def supported_features(release: Release) -> dict[str, tuple[int, int]]:
    """Ranges of the features that nodes of a release support.

    Source: QuorumFeatures.java, `defaultSupportedFeatureMap`.
    """
    ranges = {
        METADATA_VERSION: (release.minimum_metadata_version, release.latest_metadata_version),
        KRAFT_VERSION: (0, 1),
    }
    if release.elr:
        ranges |= {ELR_VERSION: (0, 1), "transaction.version": (0, 2), "group.version": (0, 1)}
    return ranges


def metadata_changed(higher: int, lower: int) -> bool:
    """Whether a level above `lower`, up to `higher`, changed the metadata.

    Source: MetadataVersion.java, `checkIfMetadataChanged`.
    """
    return any(lower < level <= higher for level in METADATA_CHANGED_AT)
