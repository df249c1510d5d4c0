"""Topics come, grow and go.

Source: docs/kraft.md, sections 8.1 and 8.2; Kafka 4.1, ReplicationControlManager.java.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kfast import arguments, schema
from kfast.controllers.kraft.configurations import (
    check_lengths,
    check_value,
    clear_elr_records,
)
from kfast.controllers.kraft.engine import MAX_RECORDS_PER_USER_OP, QuorumEngine
from kfast.controllers.kraft.faults import ApiError
from kfast.controllers.kraft.reassignments import check_manual_assignment
from kfast.errors import ArgumentError
from kfast.state.metadata_records import (
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    Recovery,
    RemoveTopicRecord,
    ResourceType,
    TopicRecord,
    check_uuids,
)
from kfast.state.record_application import set_topic_id

LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
ANY = -1
"""Number of partitions, or replication factor, that is left to the controller."""

NAMESPACE = uuid.UUID("6b666173-7400-4000-8000-000000000000")
"""For ids of topics that are created without one: Kafka draws them at random, kfast does not."""


@dataclass(frozen=True)
class CreatableTopic:
    """A topic to create. Source: CreateTopicsRequest.json.

    `assignments` are partition numbers with the replicas of each. The id is the one it gets.
    """

    name: str
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)
    num_partitions: int = ANY
    replication_factor: int = ANY
    topic_id: str | None = None

    def __post_init__(self) -> None:
        arguments.text("name", self.name)
        for assignment in arguments.check_items("assignments", self.assignments):
            number, replicas = arguments.items_of("an assignment", assignment, 2)
            arguments.int32("a partition of assignments", number)
            check_replicas(replicas)
        arguments.check_instance("configs", self.configs, Mapping)
        for key, value in self.configs.items():
            arguments.text("a key of configs", key)
            if value is not None:
                arguments.text(f"the value of {key}", value)
        for name in ("num_partitions", "replication_factor"):
            arguments.int32(name, getattr(self, name))
        if self.topic_id is not None:
            check_uuids("topic_id", [self.topic_id])


def check_replicas(replicas: Sequence[int]) -> None:
    """Raise where the replicas of a partition are no broker ids, known or unknown."""
    ids = arguments.broker_ids("replicas", replicas)
    arguments.check_range("replicas", ids, -arguments.MAX_INT - 1, arguments.MAX_BROKER_ID)


def topic_id_of(name: str, offset: int) -> str:
    """An id for a topic created at an offset: the same for the same sequence of events."""
    raw = uuid.uuid5(NAMESPACE, f"{name} at {offset}").bytes
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def id_of_topic(engine: QuorumEngine, topic: int) -> str:
    """Id of a topic row; one that a source did not tell is made up, and kept."""
    known: str | None = engine.state.topic_id[topic].as_py()
    if known is None:
        known = topic_id_of(engine.state.topic[topic].as_py(), -1)
        set_topic_id(engine.state, topic, known)
    return known


def check_distinct(names: Iterable[str]) -> None:
    """Raise where a topic is listed twice: the response has one code for each topic."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ArgumentError(f"topic {name!r} is listed twice; nothing was changed")


# -------------------------------------------------------------------------------- creation, 8.1


def create_topics(
    engine: QuorumEngine, topics: Sequence[CreatableTopic], validate_only: bool
) -> dict[str, str]:
    """Answer a code for each topic, and write the records of the good ones.

    Kafka 3.3 writes the configurations first, even of topics that it then refuses.

    Source: `createTopics`.
    """
    most = engine.release.max_partitions_per_create
    wanted = sum(len(topic.assignments) or max(topic.num_partitions, 1) for topic in topics)
    if most is not None and wanted > most:
        raise ApiError("POLICY_VIOLATION")
    first: list[MetadataRecord] = []
    records: list[MetadataRecord] = []
    codes: dict[str, str] = {}
    for topic in topics:
        try:
            configs = topic_config_records(engine, topic)
            if engine.release.topic_configs_first:
                first += configs
                configs = []
            records += create_topic(engine, topic, configs)
            codes[topic.name] = "NONE"
        except ApiError as error:
            codes[topic.name] = error.code
    if not validate_only:
        check_lengths([*first, *records])
        engine.write(*first, *records)
    return codes


def topic_config_records(engine: QuorumEngine, topic: CreatableTopic) -> list[ConfigRecord]:
    """Configurations of a new topic, if its name and they are good."""
    check_name(engine, topic.name)
    records = []
    for name, value in topic.configs.items():
        if value is None:
            raise ApiError("INVALID_CONFIG")
        check_value(engine, name, value)
        records.append(ConfigRecord(0, ResourceType.TOPIC, topic.name, name, value))
    return records


def check_name(engine: QuorumEngine, name: str) -> None:
    """Refuse a name that is taken, illegal, or equal to another once '.' is '_'.

    Source: section 8.1; `validateNewTopicNames`; Topic.java, `hasCollision`.
    """
    if engine.topic_row(name) is not None:
        raise ApiError("TOPIC_ALREADY_EXISTS")
    if name in (".", "..") or LEGAL_NAME.fullmatch(name) is None:
        raise ApiError("INVALID_TOPIC_EXCEPTION")
    if "." not in name and "_" not in name:
        return
    unified = name.replace(".", "_")
    for at, present in enumerate(engine.state.topic.to_pylist()):
        exists = engine.state.topic_flags[at] & schema.TOPIC_EXISTS
        if exists and present.replace(".", "_") == unified:
            raise ApiError("INVALID_TOPIC_EXCEPTION")


def create_topic(
    engine: QuorumEngine, topic: CreatableTopic, configs: list[ConfigRecord]
) -> list[MetadataRecord]:
    """Records of one topic: Topic, its Configs, ClearElr, its Partitions."""
    topic_id = topic.topic_id or topic_id_of(topic.name, engine.next_offset)
    if topic.assignments:
        partitions = manual_partitions(engine, topic, topic_id)
    elif topic.replication_factor < ANY or topic.replication_factor == 0:
        raise ApiError("INVALID_REPLICATION_FACTOR")
    elif topic.num_partitions < ANY or topic.num_partitions == 0:
        raise ApiError("INVALID_PARTITIONS")
    else:
        raise ArgumentError(
            f"topic {topic.name!r} has no assignments: Kafka would place it at random (docs/"
            "kraft.md, section 10), so its replicas must be given; nothing was changed"
        )
    return [
        TopicRecord(0, topic.name, topic_id), *configs, *clear_elr_records(engine, configs),
        *partitions,
    ]


def manual_partitions(
    engine: QuorumEngine, topic: CreatableTopic, topic_id: str
) -> list[PartitionRecord]:
    """Partitions of a topic whose replicas are given. Source: `createTopic`."""
    if topic.replication_factor != ANY or topic.num_partitions != ANY:
        raise ApiError("INVALID_REQUEST")
    partitions: dict[int, PartitionRecord] = {}
    factor = None
    for number, replicas in topic.assignments:
        if number in partitions:
            raise ApiError("INVALID_REPLICA_ASSIGNMENT")
        partitions[number] = new_partition(engine, topic_id, number, replicas, factor)
        factor = len(replicas)
    if sorted(partitions) != list(range(len(partitions))):
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    return [partitions[number] for number in sorted(partitions)]


def new_partition(
    engine: QuorumEngine, topic_id: str, number: int, replicas: Sequence[int],
    factor: int | None,
) -> PartitionRecord:
    """A new partition: its active replicas are in sync, the first of them leads; no ELR."""
    check_manual_assignment(engine, [*replicas], factor)
    rows = engine.state.find_brokers(replicas).tolist()
    live = engine.state.live
    isr = tuple(broker for broker, row in zip(replicas, rows, strict=True) if live[row])
    if not isr:
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    quorum, version = engine.quorum, engine.version
    directories = None
    if version.is_directory_assignment_supported:
        places = [quorum.default_directory(row) for row in rows]
        directories = tuple(quorum.directory_ids[place] for place in places)
    return PartitionRecord(
        version=version.partition_record_version,
        partition_id=number,
        topic_id=topic_id,
        replicas=tuple(replicas),
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        leader=isr[0],
        leader_recovery_state=Recovery.RECOVERED,
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )


# -------------------------------------------------------------------- growth and deletion, 8.2


def create_partitions(
    engine: QuorumEngine, wanted: Sequence[tuple[str, int, Sequence[Sequence[int]]]]
) -> dict[str, str]:
    """Let topics grow: name, number of partitions then, replicas of those in addition.

    Source: `createPartitions`. What is wrong with one topic leaves the others alone, but for the
    limit of an operation: what was written until then stays, and the topic fails.
    """
    codes: dict[str, str] = {}
    for name, count, assignments in wanted:
        try:
            records = added_partitions(engine, name, count, assignments)
            codes[name] = _write_limited(engine, records)
        except ApiError as error:
            codes[name] = error.code
    return codes


def added_partitions(
    engine: QuorumEngine, name: str, count: int, assignments: Sequence[Sequence[int]]
) -> list[PartitionRecord]:
    """Partitions that a topic gets in addition, with the factor of one that it has.

    Of those the one that comes first in the controller's table is taken (section 9.1).
    """
    topic = engine.topic_row(name)
    if topic is None:
        raise ApiError("UNKNOWN_TOPIC_OR_PARTITION")
    state = engine.state
    present = int(state.lookup.rows_of_topic(topic).size)
    if count <= present:
        raise ApiError("INVALID_PARTITIONS")
    if len(assignments) != count - present:
        raise ApiError("INVALID_REPLICA_ASSIGNMENT")
    factor = int(state.records["n_replicas"][engine.visits.any_partition(topic)])
    topic_id = id_of_topic(engine, topic)
    return [
        new_partition(engine, topic_id, number, replicas, factor)
        for number, replicas in enumerate(assignments, start=present)
    ]


def delete_topics(engine: QuorumEngine, names: Sequence[str]) -> dict[str, str]:
    """One record a topic; nothing waits for brokers. Source: `deleteTopics`."""
    codes = {}
    for name in names:
        topic = engine.topic_row(name)
        if topic is None:
            codes[name] = "UNKNOWN_TOPIC_ID"
            continue
        topic_id = id_of_topic(engine, topic)
        codes[name] = _write_limited(engine, [RemoveTopicRecord(0, topic_id)])
    return codes


def _write_limited(engine: QuorumEngine, records: Sequence[MetadataRecord]) -> str:
    """Write as many as an operation may; one too many is an internal error (BoundedList.java)."""
    room = MAX_RECORDS_PER_USER_OP - len(engine.written.others)
    if not engine.release.limits_records or len(records) <= room:
        engine.write(*records)
        return "NONE"
    engine.write(*records[:room])
    return "UNKNOWN_SERVER_ERROR"
