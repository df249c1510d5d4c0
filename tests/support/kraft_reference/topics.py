"""Topics come, grow and go.

Source: docs/kraft.md, sections 8.1 and 8.2; Kafka 4.1, ReplicationControlManager.java.
"""

from __future__ import annotations

import re
from functools import partial

from kfast.controllers import CreatableTopic
from kfast.state.metadata_records import (
    Brokers,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    Recovery,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
)
from tests.support.kraft_reference.errors import ApiError, UserRecords, code_of
from tests.support.kraft_reference.settings import clear_elr_records
from tests.support.kraft_reference.state import ClusterState

Records = list[MetadataRecord]
def check_manual_assignment(state: ClusterState, replicas: Brokers, factor: int | None) -> None:
    """Replicas must be registered, distinct and as many as asked; fenced ones are fine.

    Source: `validateManualPartitionAssignment`.
    """
    wrong = not replicas or any(broker not in state.brokers for broker in replicas)
    wrong = wrong or len(set(replicas)) != len(replicas)
    if wrong or (factor is not None and len(replicas) != factor):
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")


def has_collision_chars(name: str) -> bool:
    """Whether a metric's name could not tell it from another. Source: Topic.java."""
    return "." in name or "_" in name


def name_error(state: ClusterState, name: str) -> str | None:
    """Why a topic cannot have this name. Source: section 8.1; `validateNewTopicNames`."""
    if name in state.topics_by_name:
        return "TOPIC_ALREADY_EXISTS"
    invalid = name in ("", ".", "..") or re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", name) is None
    unified = name.replace(".", "_")
    collides = has_collision_chars(name) and any(
        has_collision_chars(other) and other.replace(".", "_") == unified
        for other in state.topics_by_name
    )
    return "INVALID_TOPIC_EXCEPTION" if invalid or collides else None


def partition_record(
    state: ClusterState, topic_id: str, number: int, replicas: Brokers, isr: Brokers
) -> PartitionRecord:
    """The record of a new partition, led by the first of its ISR; its ELR is empty."""
    version = state.metadata_version
    directories = tuple(state.default_dir(broker) for broker in replicas)
    return PartitionRecord(
        version=version.partition_record_version,
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        leader=isr[0],
        leader_recovery_state=Recovery.RECOVERED,
        leader_epoch=0,
        partition_epoch=0,
        directories=directories if version.is_directory_assignment_supported else None,
    )


def initial_isr(state: ClusterState, replicas: Brokers) -> Brokers:
    """The replicas that are active, in their order; none is refused."""
    isr = tuple(broker for broker in replicas if state.is_active(broker))
    if not isr:
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    return isr


def manual_partitions(state: ClusterState, topic: CreatableTopic) -> Records:
    """Partitions of a topic whose replicas are given. Source: section 8.1; `createTopic`."""
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        raise ApiError("INVALID_REQUEST")
    partitions: dict[int, MetadataRecord] = {}
    factor = None
    for number, replicas in topic.assignments:
        if number in partitions:
            raise ApiError("INVALID_REPLICA_ASSIGNMENT")
        check_manual_assignment(state, replicas, factor)
        factor = len(replicas)
        partitions[number] = partition_record(
            state, topic.topic_id, number, replicas, initial_isr(state, replicas)
        )
    if sorted(partitions) != list(range(len(partitions))):
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    return [partitions[number] for number in sorted(partitions)]


def topic_config_records(state: ClusterState, topic: CreatableTopic) -> Records:
    """Configurations of a new topic, if its name and they are good (section 8.1)."""
    error = name_error(state, topic.name)
    if error is not None:
        raise ApiError(error)
    if None in topic.configs.values():
        raise ApiError("INVALID_CONFIG")
    return [
        ConfigRecord(0, ResourceType.TOPIC, topic.name, name, value)
        for name, value in topic.configs.items()
    ]


def create_topic(state: ClusterState, topic: CreatableTopic, configs: Records) -> Records:
    """Records of one topic: Topic, its Configs, ClearElr, its Partitions (section 8.1)."""
    if topic.assignments:
        partitions = manual_partitions(state, topic)
    elif topic.replication_factor < -1 or topic.replication_factor == 0:
        raise ApiError("INVALID_REPLICATION_FACTOR")
    elif topic.num_partitions < -1 or topic.num_partitions == 0:
        raise ApiError("INVALID_PARTITIONS")
    else:
        raise NotImplementedError("automatic placement is random")
    return [
        TopicRecord(0, topic.name, topic.topic_id),
        *configs,
        *clear_elr_records(state, configs),
        *partitions,
    ]


def create_topics(
    state: ClusterState, topics: list[CreatableTopic], validate_only: bool = False
) -> tuple[Records, dict[str, str]]:
    """Section 8.1: a code for each topic, and the records of the good ones.

    Kafka 3.3 writes the configurations first, even of topics that it then refuses.

    Source: `createTopics`.
    """
    most = state.release.max_partitions_per_create
    wanted = sum(len(topic.assignments) or max(topic.num_partitions, 1) for topic in topics)
    if most is not None and wanted > most:
        raise ApiError("POLICY_VIOLATION")
    first: Records = []
    records: Records = []
    codes: dict[str, str] = {}
    for topic in topics:
        try:
            configs = topic_config_records(state, topic)
            if state.release.topic_configs_first:
                first += configs
                configs = []
            records += create_topic(state, topic, configs)
            codes[topic.name] = "NONE"
        except ApiError as error:
            codes[topic.name] = error.code
    return [] if validate_only else first + records, codes


def create_partitions(
    state: ClusterState, name: str, count: int, assignments: list[Brokers], records: Records
) -> None:
    """Partitions that a topic gets in addition. Source: section 8.2; `createPartitions`.

    Their factor is that of the partition which comes first in the controller's table.
    """
    topic = state.topic_named(name)
    if topic is None:
        raise ApiError("UNKNOWN_TOPIC_OR_PARTITION")
    present = len(topic.partitions)
    if count <= present:
        raise ApiError("INVALID_PARTITIONS")
    if len(assignments) != count - present:
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    factor = len(topic.partitions[topic.partitions.order()[0]].replicas)
    isrs = []
    for replicas in assignments:
        check_manual_assignment(state, replicas, factor)
        isrs.append(initial_isr(state, replicas))
    for number, (replicas, isr) in enumerate(zip(assignments, isrs, strict=True), start=present):
        records.append(partition_record(state, topic.id, number, replicas, isr))


def create_partitions_of_topics(
    state: ClusterState, wanted: list[tuple[str, int, list[Brokers]]]
) -> tuple[Records, dict[str, str]]:
    """Section 8.2: a code for each topic; what is wrong with one leaves the others alone."""
    records = UserRecords(state.release.limits_records)
    codes = {
        name: code_of(partial(create_partitions, state, name, count, assignments, records))
        for name, count, assignments in wanted
    }
    return records, codes


def delete_topic(state: ClusterState, topic_id: str, records: Records) -> None:
    """One record; nothing waits for brokers (section 8.2)."""
    if topic_id not in state.topics:
        raise ApiError("UNKNOWN_TOPIC_ID")
    records.append(RemoveTopicRecord(0, topic_id))


def delete_topics(
    state: ClusterState, topic_ids: list[str]
) -> tuple[Records, dict[str, str]]:
    """Section 8.2: a code for each topic. Source: `deleteTopics`."""
    records = UserRecords(state.release.limits_records)
    codes = {
        topic_id: code_of(partial(delete_topic, state, topic_id, records))
        for topic_id in topic_ids
    }
    return records, codes
