"""What is asked of partitions: AlterPartition, elections, reassignments, directories, and tasks.

Source: docs/kraft.md, section 7; Kafka 4.1, ReplicationControlManager.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from kfast.controllers import AlterPartitionReply
from kfast.state.metadata_records import (
    Brokers,
    PartitionChangeRecord,
    Recovery,
)
from kfast.state.registrations import BrokerRegistration
from kfast.state.registrations import PartitionRegistration as Partition
from tests.support.kraft_reference.broker_events import Records, generate_leader_and_isr_updates
from tests.support.kraft_reference.errors import ApiError, UserRecords, code_of
from tests.support.kraft_reference.hash_orders import TopicIdPartition, java_hash_set_order
from tests.support.kraft_reference.partition_change import (
    Election,
    PartitionChangeBuilder,
    plan_reassignment,
    revert_reassignment,
    without,
)
from tests.support.kraft_reference.state import (
    ClusterState,
    Topic,
    has_preferred_leader,
    is_online_dir,
    merged,
)
from tests.support.kraft_reference.topics import check_manual_assignment

PREFERRED = 0
UNCLEAN = 1
"""Election types. Source: ElectionType.java."""


def automatic_election(state: ClusterState, topic: Topic) -> Election:
    """Unclean where the topic's configuration allows it."""
    return Election.UNCLEAN if state.unclean(topic) else Election.ONLINE


# --------------------------------------------------------------------------------- AlterPartition


@dataclass(frozen=True)
class AlterPartitionData:
    """What a leader wants: the ISR with broker epochs, -1 for those it does not know.

    Source: AlterPartitionRequest.json, `PartitionData`.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovery: int = Recovery.RECOVERED


def is_ineligible(state: ClusterState, broker: int, epoch: int) -> bool:
    """Whether a broker may not join an ISR (section 7.1, row 12).

    Source: `ineligibleReplicasForIsr`.
    """
    registration = state.brokers.get(broker)
    return (
        registration is None
        or registration.in_controlled_shutdown
        or registration.fenced
        or (epoch != -1 and registration.epoch != epoch)
    )


def alter_partition_error(
    state: ClusterState, sender: int, partition: Partition | None, data: AlterPartitionData
) -> str:
    """The first refusal of section 7.1 that applies, rows 2 to 12.

    Source: `validateAlterPartitionData`.
    """
    if partition is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    isr = [broker for broker, _ in data.isr]
    invalid_isr = len(set(isr)) != len(isr) or any(
        broker < 0 or broker not in partition.replicas for broker in isr
    )
    refusals = (
        (data.leader_epoch > partition.leader_epoch, "NOT_CONTROLLER"),
        (data.partition_epoch > partition.partition_epoch, "NOT_CONTROLLER"),
        (data.leader_epoch < partition.leader_epoch, "FENCED_LEADER_EPOCH"),
        (sender != partition.leader, "INVALID_REQUEST"),
        (data.partition_epoch < partition.partition_epoch, "INVALID_UPDATE_VERSION"),
        (invalid_isr, "INVALID_REQUEST"),
        (partition.leader not in isr, "INVALID_REQUEST"),
        (data.recovery == Recovery.RECOVERING and len(isr) > 1, "INVALID_REQUEST"),
        (data.recovery == Recovery.RECOVERING and partition.recovery == Recovery.RECOVERED,
         "INVALID_REQUEST"),
        (any(is_ineligible(state, *member) for member in data.isr), "INELIGIBLE_REPLICA"),
    )
    return next((code for applies, code in refusals if applies), "NONE")


def alter_partition(
    state: ClusterState, broker: int, broker_epoch: int, wanted: list[AlterPartitionData],
    with_topic_ids: bool = True,
) -> tuple[Records, list[AlterPartitionReply]]:
    """Section 7.1: answers in the order of the request.

    Source: `alterPartition`; AlterPartition versions 0 and 1 (3.x) had no topic ids, and codes of
    their own.
    """
    state.check_broker_epoch(broker, broker_epoch)
    records: Records = []
    replies: list[AlterPartitionReply] = []
    older = {} if with_topic_ids else {
        "UNKNOWN_TOPIC_ID": "UNKNOWN_TOPIC_OR_PARTITION",
        "INELIGIBLE_REPLICA": "OPERATION_NOT_ATTEMPTED",
        "NEW_LEADER_ELECTED": "FENCED_LEADER_EPOCH",
    }
    for data in wanted:
        reply = _alter_one(state, broker, data, records)
        replies.append(replace(reply, error=older.get(reply.error, reply.error)))
    return records, replies


def _alter_one(
    state: ClusterState, broker: int, data: AlterPartitionData, records: Records
) -> AlterPartitionReply:
    topic = state.topics.get(data.topic_id)
    if topic is None:
        return AlterPartitionReply("UNKNOWN_TOPIC_ID")
    partition = topic.partitions.get(data.partition)
    error = alter_partition_error(state, broker, partition, data)
    if partition is None or error != "NONE":
        return AlterPartitionReply(error)
    record = PartitionChangeBuilder(
        state,
        TopicIdPartition(topic.id, data.partition),
        partition,
        election=automatic_election(state, topic),
        isr=tuple(member for member, _ in data.isr),
        recovery=data.recovery,
    ).build()
    if record is not None:
        records.append(record)
        partition = merged(partition, record)
        if record.leader not in (None, broker):
            return AlterPartitionReply("NEW_LEADER_ELECTED")
    return AlterPartitionReply(
        "NONE", partition.leader, partition.leader_epoch, partition.partition_epoch,
        partition.recovery, partition.isr,
    )


# --------------------------------------------------------------------------------------- elections


def elect_leader(
    state: ClusterState, name: str, number: int, election_type: int, records: Records
) -> str:
    """Elect one leader; any record is a success (section 7.2). Source: `electLeader`."""
    topic = state.topic_named(name)
    partition = None if topic is None else topic.partitions.get(number)
    if topic is None or partition is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    preferred = election_type == PREFERRED
    if has_preferred_leader(partition) if preferred else partition.leader >= 0:
        return "ELECTION_NOT_NEEDED"
    record = PartitionChangeBuilder(
        state,
        TopicIdPartition(topic.id, number),
        partition,
        election=Election.PREFERRED if preferred else Election.UNCLEAN,
    ).build()
    if record is None:
        return (
            "PREFERRED_LEADER_NOT_AVAILABLE" if preferred else "ELIGIBLE_LEADERS_NOT_AVAILABLE"
        )
    records.append(record)
    return "NONE"


def elect_leaders(
    state: ClusterState,
    election_type: int,
    partitions: Mapping[str, list[int]] | None,
) -> tuple[Records, dict[tuple[str, int], str]]:
    """Section 7.2: without partitions all of them, those left out that need no election.

    Source: `electLeaders`.
    """
    if election_type not in (PREFERRED, UNCLEAN):
        raise ApiError("INVALID_REQUEST")
    records: Records = []
    everywhere = partitions is None
    if partitions is None:
        partitions = {
            name: state.topics[state.topics_by_name[name]].partitions.order()
            for name in state.topics_by_name.order()
        }
    codes = {
        (name, number): elect_leader(state, name, number, election_type, records)
        for name, numbers in partitions.items()
        for number in numbers
    }
    if everywhere:
        codes = {key: code for key, code in codes.items() if code != "ELECTION_NOT_NEEDED"}
    return records, codes


def maybe_balance_partition_leaders(
    state: ClusterState, max_elections: int
) -> tuple[Records, bool]:
    """Section 7.5: elect preferred leaders where others lead, and whether to call again.

    Source: `maybeBalancePartitionLeaders`.
    """
    records: Records = []
    for place in state.imbalanced.order():
        if len(records) >= max_elections:
            return records, True
        record = PartitionChangeBuilder(
            state, place, state.partition(place), election=Election.PREFERRED
        ).build()
        if record is not None:
            records.append(record)
    is_full = len(records) >= max_elections
    return records, is_full and state.release.full_balance_is_called_again


def maybe_elect_unclean_leaders(state: ClusterState, max_elections: int) -> tuple[Records, bool]:
    """Section 7.5: unclean elections for leaderless partitions of topics that allow them.

    Source: `maybeElectUncleanLeaders`; before 3.9 there was no such task.
    """
    records: Records = []
    if not state.release.unclean_election_task:
        return records, False
    for place in state.isr_index.partitions(-1):
        if len(records) >= max_elections:
            break
        topic = state.topics[place.topic_id]
        if state.unclean(topic):
            elect_leader(state, topic.name, place.partition_id, UNCLEAN, records)
    return records, len(records) >= max_elections


# ----------------------------------------------------------------------------------- reassignments


@dataclass(frozen=True)
class ReassignablePartition:
    """The target of one partition; None cancels what is in progress."""

    topic: str
    partition: int
    replicas: Brokers | None


def alter_partition_reassignments(
    state: ClusterState, targets: list[ReassignablePartition], allow_rf_change: bool = True
) -> tuple[Records, list[str]]:
    """Section 7.3: a code for each target; what is wrong with one leaves the others alone.

    Source: `alterPartitionReassignments`.
    """
    records = UserRecords(state.release.limits_records)
    refuses = state.release.refuses_rf_change and not allow_rf_change
    codes = [code_of(partial(_reassign, state, target, refuses, records)) for target in targets]
    return records, codes


def _reassign(
    state: ClusterState, target: ReassignablePartition, refuse_rf_change: bool, records: Records
) -> None:
    topic = state.topic_named(target.topic)
    partition = None if topic is None else topic.partitions.get(target.partition)
    if topic is None or partition is None:
        raise ApiError("UNKNOWN_TOPIC_OR_PARTITION")
    place = TopicIdPartition(topic.id, target.partition)
    if target.replicas is None:
        record = cancel_partition_reassignment(state, topic, place, partition)
    else:
        record = change_partition_reassignment(
            state, place, partition, target.replicas, refuse_rf_change
        )
    if record is not None:
        records.append(record)


def cancel_partition_reassignment(
    state: ClusterState, topic: Topic, place: TopicIdPartition, partition: Partition
) -> PartitionChangeRecord | None:
    """Go back to the replicas from before. Source: section 7.3; `cancelPartitionReassignment`."""
    if not partition.removing and not partition.adding:
        raise ApiError("NO_REASSIGNMENT_IN_PROGRESS")
    replicas, isr, is_unclean = revert_reassignment(partition)
    if not replicas or (is_unclean and not state.unclean(topic)):
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    return PartitionChangeBuilder(
        state,
        place,
        partition,
        election=automatic_election(state, topic),
        isr=isr,
        replicas=replicas,
        removing=(),
        adding=(),
    ).build()


def change_partition_reassignment(
    state: ClusterState,
    place: TopicIdPartition,
    partition: Partition,
    target: Brokers,
    refuse_rf_change: bool,
) -> PartitionChangeRecord | None:
    """Start or change a reassignment; a list that the new plan empties survives from the old one.

    Source: section 7.3; `changePartitionReassignment`,
    `validatePartitionReplicationFactorUnchanged`.
    """
    check_manual_assignment(state, target, None)
    factor = len(without(partition.replicas, partition.removing))
    if refuse_rf_change and len(target) != factor:
        raise ApiError("INVALID_REPLICATION_FACTOR")
    plan = plan_reassignment(partition.replicas, target)
    return PartitionChangeBuilder(
        state,
        place,
        partition,
        replicas=plan.replicas,
        removing=plan.removing or None,
        adding=plan.adding or None,
    ).build()


# ------------------------------------------------------------------------------------- directories


def assign_replicas_to_dirs(
    state: ClusterState,
    broker: int,
    broker_epoch: int,
    assignments: list[tuple[str, str, int]],
) -> tuple[Records, list[str]]:
    """Section 7.4: (directory, topic, partition) each, a code for each.

    Source: `handleAssignReplicasToDirs`. Up to 4.2 the change is built as if ELR were off.
    """
    if not state.metadata_version.is_directory_assignment_supported:
        raise ApiError("UNSUPPORTED_VERSION")
    state.check_broker_epoch(broker, broker_epoch)
    records: Records = []
    codes: list[str] = []
    offline: list[TopicIdPartition] = []
    registration = state.brokers[broker]
    for directory, topic_id, number in assignments:
        topic = state.topics.get(topic_id)
        partition = None if topic is None else topic.partitions.get(number)
        if topic is None:
            codes.append("UNKNOWN_TOPIC_ID")
        elif partition is None:
            codes.append("UNKNOWN_TOPIC_OR_PARTITION")
        elif broker not in partition.replicas:
            codes.append("NOT_LEADER_OR_FOLLOWER")
        else:
            codes.append("NONE")
            place = TopicIdPartition(topic_id, number)
            _assign_to_dir(state, place, partition, registration, directory, records)
            if not is_online_dir(registration, directory):
                offline.append(place)
    generate_leader_and_isr_updates(
        state,
        records,
        java_hash_set_order(offline, state.directory_index.hash_of_partition),
        remove=broker,
    )
    return records, codes


def _assign_to_dir(
    state: ClusterState,
    place: TopicIdPartition,
    partition: Partition,
    registration: BrokerRegistration,
    directory: str,
    records: Records,
) -> None:
    record = PartitionChangeBuilder(
        state,
        place,
        partition,
        directories={registration.id: directory},
        elr_on=None if state.release.elr_in_assign_replicas_to_dirs else False,
    ).build()
    if record is not None:
        records.append(record)
