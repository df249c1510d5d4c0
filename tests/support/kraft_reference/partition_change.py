"""Build the record that changes one partition: reassignment, ELR, election, epochs.

Source: docs/kraft.md, sections 3 and 4; Kafka 4.1, PartitionChangeBuilder.java,
PartitionReassignmentReplicas.java, PartitionReassignmentRevert.java.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from kfast.schema import NO_LEADER
from kfast.state.kraft_releases import Completion, LastKnownLeader
from kfast.state.metadata_records import Brokers, Directories, PartitionChangeRecord, Recovery
from kfast.state.registrations import PartitionRegistration
from tests.support.kraft_reference.hash_orders import (
    TopicIdPartition,
    hash_of_int,
    java_hash_set_order,
)
from tests.support.kraft_reference.state import ClusterState, directory_of, is_online_dir

NO_DIRECTORIES: Mapping[int, str] = MappingProxyType({})


class Election(Enum):
    """How a leader is chosen. Source: PartitionChangeBuilder.java, `Election`."""

    PREFERRED = "preferred"
    ONLINE = "online"
    UNCLEAN = "unclean"


def without(brokers: Brokers, removed: Collection[int]) -> Brokers:
    """The brokers that are not removed, in their order."""
    return tuple(broker for broker in brokers if broker not in removed)


# ------------------------------------------------------------------------------------ reassignment


@dataclass(frozen=True)
class ReassignmentPlan:
    """From the present replicas to the target ones (section 4).

    Source: PartitionReassignmentReplicas.java, its second constructor.
    """

    replicas: Brokers
    removing: Brokers
    adding: Brokers


def plan_reassignment(current: Brokers, target: Brokers) -> ReassignmentPlan:
    """The replicas that go stay last in the list until the reassignment is complete."""
    removing = tuple(sorted(set(current) - set(target)))
    adding = tuple(sorted(set(target) - set(current)))
    return ReassignmentPlan(target + removing, removing, adding)


def revert_reassignment(partition: PartitionRegistration) -> tuple[Brokers, Brokers, bool]:
    """Replicas and ISR as before a reassignment, and whether that takes an unclean election.

    Source: section 4; PartitionReassignmentRevert.java.
    """
    replicas = without(partition.replicas, partition.adding)
    isr = without(partition.isr, partition.adding)
    if isr:
        return replicas, isr, False
    return replicas, replicas[:1], True


def complete_reassignment(
    rule: Completion, replicas: Brokers, isr: Brokers, removing: Brokers, adding: Brokers
) -> tuple[Brokers, Brokers] | None:
    """Replicas and ISR of a reassignment that is complete; None where it is not, or is none.

    Source: section 4; PartitionReassignmentReplicas.java, `maybeCompleteReassignment`.
    """
    if not removing and not adding:
        return None
    remaining, in_sync = without(replicas, removing), without(isr, removing)
    if removing and not (remaining and in_sync):
        return None
    needed = set(remaining)
    if rule is Completion.ADDING or (
        rule is Completion.BALANCED and len(adding) >= len(removing)
    ):
        needed = set(adding)
    elif rule is Completion.BALANCED:
        needed = {*remaining, *adding}
    return (remaining, in_sync) if needed <= set(in_sync) else None


# ------------------------------------------------------------------------------------- the builder


@dataclass
class Changes:
    """Fields that a record sets; None for those that it does not."""

    isr: Brokers | None = None
    leader: int | None = None
    replicas: Brokers | None = None
    removing_replicas: Brokers | None = None
    adding_replicas: Brokers | None = None
    leader_recovery_state: int | None = None
    directories: Directories | None = None
    eligible_leader_replicas: Brokers | None = None
    last_known_elr: Brokers | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return all(value is None for value in vars(self).values())


@dataclass
class PartitionChangeBuilder:
    """The change of one partition: targets are the present values unless somebody sets them.

    `elr_on` is the feature, except for those callers that leave it off. The mode with
    `use_last_known_leader` false, a true last-known ELR, exists in Kafka's unit tests only.

    Source: section 3; PartitionChangeBuilder.java.
    """

    state: ClusterState
    place: TopicIdPartition
    partition: PartitionRegistration
    election: Election = Election.ONLINE
    isr: Brokers | None = None
    replicas: Brokers | None = None
    removing: Brokers | None = None
    adding: Brokers | None = None
    recovery: int | None = None
    directories: Mapping[int, str] = field(default_factory=lambda: NO_DIRECTORIES)
    uncleanly_shut_down: Brokers = ()
    can_lead: Callable[[int], bool] | None = None
    elr_on: bool | None = None
    use_last_known_leader: bool = True

    def build(self) -> PartitionChangeRecord | None:
        """The record, or None where nothing changes; the steps in Kafka's order."""
        partition, record = self.partition, Changes()
        self.elr_is_on = self.state.elr_on if self.elr_on is None else self.elr_on
        self.target_isr = partition.isr if self.isr is None else self.isr
        self.target_replicas = partition.replicas if self.replicas is None else self.replicas
        self.target_removing = partition.removing if self.removing is None else self.removing
        self.target_adding = partition.adding if self.adding is None else self.adding
        self.target_elr = partition.elr
        self.target_last_known_elr = partition.last_known_elr

        self._complete_reassignment()
        self._populate_target_elr()
        self._try_election(record)
        self._bump_epoch_for_reassignment(record)
        self._update_elr(record)
        if (
            record.isr is None
            and self.target_isr != partition.isr
            and (self.target_isr or self.elr_is_on)
        ):
            record.isr = self.target_isr
        self._bump_epoch_for_isr_shrink(record)
        self._update_last_known_leader(record)
        self._set_assignment(record)
        if self.recovery is not None and self.recovery != partition.recovery:
            record.leader_recovery_state = self.recovery
        if record.is_empty:
            return None
        version = self.state.metadata_version.partition_record_version
        return PartitionChangeRecord(
            version, self.place.partition_id, self.place.topic_id, **vars(record)
        )

    def acceptable(self, broker: int) -> bool:
        """Whether a broker may lead: it is active, and the directory of its replica is online.

        Source: ReplicationControlManager.java, `LeaderAcceptor`.
        """
        can_lead = self.can_lead or self.state.is_active
        return can_lead(broker) and is_online_dir(
            self.state.brokers.get(broker), directory_of(self.partition, broker)
        )

    def _complete_reassignment(self) -> None:
        """Step 1."""
        completed = complete_reassignment(
            self.state.release.completion, self.target_replicas, self.target_isr,
            self.target_removing, self.target_adding,
        )
        if completed is not None:
            self.target_replicas, self.target_isr = completed
            self.target_removing = self.target_adding = ()

    def _populate_target_elr(self) -> None:
        """Step 2, section 3.1: below min ISR, whoever left the ISR becomes eligible.

        The order is that of a Java HashSet. The ISR is the one before a reassignment was completed.

        Source: `maybePopulateTargetElr`.
        """
        if not self.elr_is_on:
            return
        partition = self.partition
        if len(self.target_isr) >= self.state.min_isr(self.state.topics[self.place.topic_id]):
            self.target_elr = self.target_last_known_elr = ()
            return
        gone = {*self.target_isr, *self.uncleanly_shut_down}
        members = (*partition.elr, *partition.isr)
        ordered = java_hash_set_order(members, hash_of_int, copied=len(partition.elr))
        self.target_elr = without(tuple(ordered), gone)
        ordered = java_hash_set_order(
            (*members, *partition.last_known_elr), hash_of_int, copied=len(partition.elr)
        )
        self.target_last_known_elr = without(
            tuple(ordered), {*self.target_isr, *self.target_elr}
        )

    def _is_valid(self, broker: int) -> bool:
        """Whether a broker may be elected cleanly. Source: `isValidNewLeader`."""
        eligible = self.target_isr or self.target_elr
        return broker in eligible and self.acceptable(broker)

    def _last_known_leader(self) -> int | None:
        """The last known leader where ISR and ELR are empty, if it may be elected.

        Source: section 3.2; `canElectLastKnownLeader`; section 11 for 4.0.
        """
        if not self.elr_is_on or not self.use_last_known_leader:
            return None
        known = self.partition.last_known_elr
        if self.target_isr or self.target_elr or len(known) != 1:
            return None
        if self.state.release.last_known_leader_must_be_acceptable and not self.acceptable(
            known[0]
        ):
            return None
        return known[0]

    def _elect(self) -> tuple[int, bool]:
        """The leader, -1 for nobody, and whether the election is unclean (section 3.2)."""
        leader, candidates = self.partition.leader, self.target_replicas
        if self.election is Election.PREFERRED:
            order = (*candidates[:1], leader, *candidates[1:])
        else:
            order = (leader, *candidates)
        for broker in order:
            if self._is_valid(broker):
                return broker, False
        known = self._last_known_leader()
        if known is not None:
            return known, True
        if self.election is Election.UNCLEAN:
            for broker in candidates:
                if self.acceptable(broker):
                    return broker, True
        return NO_LEADER, False

    def _try_election(self, record: Changes) -> None:
        """Step 3. Source: `tryElection`."""
        elected, unclean = self._elect()
        if elected == self.partition.leader:
            return
        if elected in self.target_elr:
            self.target_isr = (elected,)
            self.target_elr = without(self.target_elr, (elected,))
        record.leader = elected
        if unclean:
            record.isr = (elected,)
            supported = self.state.metadata_version.is_leader_recovery_supported
            if self.partition.recovery != Recovery.RECOVERING and supported:
                record.leader_recovery_state = Recovery.RECOVERING

    def _bump_epoch_for_reassignment(self, record: Changes) -> None:
        """Step 4: a replica that is gone raises the leader epoch."""
        if record.leader is None and not set(self.partition.replicas) <= set(self.target_replicas):
            record.leader = self.partition.leader

    def _update_elr(self, record: Changes) -> None:
        """Step 5. Source: `maybeUpdateRecordElr`."""
        if record.isr is not None or not self.elr_is_on:
            self.target_elr = self.target_last_known_elr = ()
        if self.target_elr != self.partition.elr:
            record.eligible_leader_replicas = self.target_elr
        known_elr_changes = self.target_last_known_elr != self.partition.last_known_elr
        if known_elr_changes and not self.use_last_known_leader:
            record.last_known_elr = self.target_last_known_elr

    def _bump_epoch_for_isr_shrink(self, record: Changes) -> None:
        """Step 7: a smaller ISR raises the leader epoch below metadata version 3.6 (KAFKA-15021).

        Source: `triggerLeaderEpochBumpForIsrShrinkIfNeeded`; Kafka 3.7,
        `triggerLeaderEpochBumpIfNeeded`, which looks at the target ISR.
        """
        release = self.state.release
        gate = self.state.metadata_version.is_leader_epoch_bump_required_on_isr_shrink
        if not release.shrink_bump_always and not gate:
            return
        isr = self.target_isr if release.shrink_bump_by_target else record.isr
        if record.leader is None and isr is not None and not set(self.partition.isr) <= set(isr):
            record.leader = self.partition.leader

    def _update_last_known_leader(self, record: Changes) -> None:
        """Step 8, and section 11 for 4.0. Source: `maybeUpdateLastKnownLeader`."""
        if not self.elr_is_on or not self.use_last_known_leader:
            return
        partition, known = self.partition, self.partition.last_known_elr
        if self.state.release.last_known_leader is LastKnownLeader.EMPTY_ISR:
            keeps_leader = partition.leader != NO_LEADER and record.leader != NO_LEADER
            if record.isr == () and known != (partition.leader,):
                record.last_known_elr = (partition.leader,)
            elif known and (keeps_leader or (record.leader is not None and record.leader >= 0)):
                record.last_known_elr = ()
            return
        if record.leader == NO_LEADER and not known:
            record.last_known_elr = (partition.leader,)
        elif record.leader is not None and record.leader >= 0 and known:
            record.last_known_elr = ()

    def _set_assignment(self, record: Changes) -> None:
        """Step 9. Source: `setAssignmentChanges`."""
        partition, target = self.partition, self.target_replicas
        if target:
            if self.state.metadata_version.is_directory_assignment_supported:
                present = dict(zip(partition.replicas, partition.directories, strict=True))
                explicit = {**present, **self.directories}
                directories = tuple(
                    explicit.get(broker) or self.state.default_dir(broker) for broker in target
                )
                if directories != partition.directories:
                    record.directories = directories
            if target != partition.replicas:
                record.replicas = target
        if self.target_removing != partition.removing:
            record.removing_replicas = self.target_removing
        if self.target_adding != partition.adding:
            record.adding_replicas = self.target_adding
