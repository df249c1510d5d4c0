"""What differs between releases of the KRaft controller, and what a metadata version switches on.

Source: docs/kraft.md, sections 1.4 and 11; Kafka's classes that are named beside each field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType

from kfast.errors import ArgumentError

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
LOWEST_BOOTSTRAP_LEVEL = 4
"""Of `metadata.version`: older ones have no record of it. MetadataVersion.java, 3.x."""
KRAFT_VERSION_LEVEL = 1
"""What the raft layer says of `kraft.version`; the metadata log does not have it."""
ELR_VERSION = "eligible.leader.replicas.version"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class Completion(IntEnum):
    """Which replicas must be in the ISR before a reassignment is complete (section 4)."""

    ADDING = 0
    REMAINING = 1
    BALANCED = 2
    """All that are added; all that remain too where fewer are added than removed."""


class LastKnownLeader(IntEnum):
    """When `last_known_elr` is written (section 3, step 8; section 11)."""

    EMPTY_ISR = 0
    LOST_LEADER = 1


@dataclass(frozen=True)
class Release:
    """How one release of Kafka decides; the defaults are those of 4.1 (section 11).

    `metadata_levels` are the lowest that it reads and the highest that it runs in production.
    """

    name: str = "kraft-4.1"
    metadata_levels: tuple[int, int] = (7, 27)
    """MetadataVersion.java, `MINIMUM_VERSION`, `LATEST_PRODUCTION`."""
    completion: Completion = Completion.REMAINING
    """PartitionReassignmentReplicas.java, `maybeCompleteReassignment`."""
    elr: bool = True
    """Whether `eligible.leader.replicas.version` can be 1."""
    elr_in_new_clusters: bool = True
    """Whether a cluster that is formatted by this release has it on. Feature.java."""
    last_known_leader: LastKnownLeader = LastKnownLeader.LOST_LEADER
    """PartitionChangeBuilder.java, `maybeUpdateLastKnownLeader`."""
    last_known_leader_must_be_acceptable: bool = True
    """PartitionChangeBuilder.java, `canElectLastKnownLeader`."""
    shrink_bump_always: bool = False
    """Whether a smaller ISR raises the leader epoch at every metadata version.

    MetadataVersion.java, `isLeaderEpochBumpRequiredOnIsrShrink`."""
    shrink_bump_by_target: bool = False
    """Whether the shrink is seen in the target ISR, even one that is not recorded."""
    refuses_rf_change: bool = True
    """Whether AlterPartitionReassignments knows `AllowReplicationFactorChange` (KIP-860)."""
    elr_in_assign_replicas_to_dirs: bool = False
    """ReplicationControlManager.java, `handleAssignReplicasToDirs`."""
    unclean_by_configuration: bool = True
    """Whether `unclean.leader.election.enable` has an effect.

    ConfigurationControlManager.java, `uncleanLeaderElectionEnabledForTopic`."""
    amends_registrations: bool = True
    """Whether an incarnation that registers again keeps its epoch, and a feature that it does not
    list counts as 0-0. ClusterControlManager.java, `registerBroker`."""
    registers_again_as_it_was: bool = True
    """Whether it also keeps `fenced` and `in_controlled_shutdown`; else it is fenced."""
    restart_leaves_isrs: bool = True
    """Whether a new incarnation leaves the ISRs it is still in (`brokerShutdownHandler`)."""
    forgets_metadata_offset: bool = True
    """Whether a record that leaves `fenced` as it is resets the metadata offset and, in 3.x, counts
    as a contact. BrokerHeartbeatManager.java, `register`, `touch`."""
    sessions_by_epoch: bool = True
    """Whether a session belongs to a broker epoch, or to a broker. BrokerHeartbeatTracker.java."""
    session_hash_is_record: bool = False
    """Whether the hash of `BrokerIdAndEpoch` is a Java record's (section 9.4)."""
    fenced_have_sessions_on_activation: bool = False
    """ClusterControlManager.java, `activate`."""
    unclean_election_task: bool = True
    """ReplicationControlManager.java, `maybeElectUncleanLeaders`."""
    full_balance_is_called_again: bool = True
    """ReplicationControlManager.java, `maybeBalancePartitionLeaders`."""
    max_partitions_per_create: int | None = 10_000
    """ReplicationControlManager.java, `validateTotalNumberOfPartitions`."""
    limits_records: bool = True
    """Whether an operation of a user writes at most 10 000 records. BoundedList.java."""
    topic_configs_first: bool = False
    """Whether CreateTopics writes the configurations of all topics before the first topic."""
    kraft_version_by_raft: bool = True
    """Whether `kraft.version` is a level of the raft layer, or a feature record that nothing reads.
    FeatureControlManager.java, `updateFeature`."""
    refuses_long_config_values: bool = True
    """Whether a value that no record can hold is refused, or a fault.
    ConfigurationControlManager.java, `validateAlterConfig`."""
    refuses_unknown_features: bool = True
    """Whether a feature that Kafka does not have is refused at level 0 too.
    FeatureControlManager.java, `updateFeature`."""
    topic_id_partition_offset: int = 0
    """What the hash of TopicIdPartition adds (section 9.1)."""

    @property
    def latest_metadata_version(self) -> int:
        """Highest level of `metadata.version` that the release runs in production."""
        return self.metadata_levels[1]

    @property
    def supported_features(self) -> dict[str, tuple[int, int]]:
        """Ranges that its nodes support. Source: QuorumFeatures.java."""
        ranges = {METADATA_VERSION: self.metadata_levels, KRAFT_VERSION: (0, 1)}
        if self.elr:
            ranges |= {ELR_VERSION: (0, 1), "transaction.version": (0, 2), "group.version": (0, 1)}
        return ranges


_4_1 = Release()
_4_0 = replace(
    _4_1, name="kraft-4.0", metadata_levels=(7, 25), elr_in_new_clusters=False,
    last_known_leader=LastKnownLeader.EMPTY_ISR, last_known_leader_must_be_acceptable=False,
    refuses_rf_change=False, fenced_have_sessions_on_activation=True, kraft_version_by_raft=False,
    refuses_long_config_values=False,
    topic_id_partition_offset=961,
)
_4_2 = replace(_4_1, name="kraft-4.2", metadata_levels=(7, 29), session_hash_is_record=True)
_4_3 = replace(
    _4_2, name="kraft-4.3", metadata_levels=(7, 30), completion=Completion.BALANCED,
    elr_in_assign_replicas_to_dirs=True,
)
_3_9 = replace(
    _4_0, name="kraft-3.9", metadata_levels=(1, 21), elr=False, restart_leaves_isrs=False,
    sessions_by_epoch=False, refuses_unknown_features=False,
)
_3_8 = replace(
    _3_9, name="kraft-3.8", metadata_levels=(1, 20), unclean_by_configuration=False,
    amends_registrations=False, unclean_election_task=False, full_balance_is_called_again=False,
    max_partitions_per_create=None,
)
_3_7 = replace(
    _3_8, name="kraft-3.7", metadata_levels=(1, 19), completion=Completion.ADDING,
    shrink_bump_by_target=True,
)
_3_6 = replace(
    _3_7, name="kraft-3.6", metadata_levels=(1, 14), registers_again_as_it_was=False,
    forgets_metadata_offset=False,
)
_3_5 = replace(_3_6, name="kraft-3.5", metadata_levels=(1, 11), shrink_bump_always=True)
_3_4 = replace(_3_5, name="kraft-3.4", metadata_levels=(1, 8), limits_records=False)
_3_3 = replace(_3_4, name="kraft-3.3", metadata_levels=(1, 7), topic_configs_first=True)

RELEASES: Mapping[str, Release] = MappingProxyType({
    release.name: release
    for release in (_3_3, _3_4, _3_5, _3_6, _3_7, _3_8, _3_9, _4_0, _4_1, _4_2, _4_3)
})
"""Every release of the KRaft controller, oldest first, by the name of its profile."""


def find_release(name: str | Release) -> Release:
    """The release of a name, `ArgumentError` where there is none."""
    if isinstance(name, Release):
        return name
    release = RELEASES.get(name)
    if release is None:
        raise ArgumentError(
            f"controller {name!r} is no KRaft controller; allowed: {', '.join(RELEASES)}"
        )
    return release


def release_of(level: int) -> str:
    """The oldest release that runs a metadata version in production; else the newest."""
    for release in RELEASES.values():
        if level <= release.latest_metadata_version:
            return release.name
    return [*RELEASES][-1]


def note_newer(level: int) -> list[str]:
    """A note where a metadata version is newer than those of every release that is known."""
    newest = [*RELEASES.values()][-1]
    note = (
        f"{METADATA_VERSION} {level} is newer than {newest.latest_metadata_version}, the highest of"
        f" {newest.name}, which is the newest release that kfast knows: what else it changes is"
        " left out"
    )
    return [note] if level > newest.latest_metadata_version else []


METADATA_CHANGED_AT = (3, 5, 6, 7, 8, 11, 13, 14, 15, 17, 23, 30)
"""Levels that changed the metadata, so that no downgrade may pass them.

Source: MetadataVersion.java, `didMetadataChange`.
"""


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
        """Version of Partition and PartitionChange records."""
        return sum(self.level >= level for level in (17, 23))

    def metadata_changes_down_to(self, lower: int) -> bool:
        """Whether a level above a lower one, up to this, changed the metadata.

        Source: MetadataVersion.java, `checkIfMetadataChanged`.
        """
        return any(lower < level <= self.level for level in METADATA_CHANGED_AT)
