"""Metadata of a cluster as clients print it in JSON: kcat, Python's admin clients, REST, MSK.

They all list topics, partitions, leaders, replicas and ISRs, and differ in the names of keys.

| Source | Topics | A partition's number, leader, replicas, ISR |
|---|---|---|
| `kcat -L -J` | list | partition, leader, replicas, isrs (each `{"id": 1}`) |
| kafka-python | list | partition_index, leader_id, replica_nodes, isr_nodes |
| aiokafka | list | partition, leader, replicas, isr |
| confluent-kafka, `list_topics` | object | the key, leader, replicas, isrs |
| confluent-kafka, `describe_topics` | list or object | id, leader, replicas, isr (each a node) |
| REST Proxy v2 | one | partition, leader, replicas (each `{"broker": 1, "in_sync": true}`) |
| MSK | one | Partition, Leader, Replicas, Isr |

Brokers come from the listing itself or from an answer to `describe_cluster` beside it.

Source: docs/formats.md, section "Metadata of clients".
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from kfast.arguments import MAX_BROKER_ID, MAX_INT
from kfast.errors import InputError
from kfast.io.file_kinds import json_part
from kfast.io.files import line_of, quote
from kfast.io.placement_rows import Broker, PlacementRows
from kfast.io.source_tables import Coverage, SourceTables

__all__ = ["read_client_metadata"]

_Id = Annotated[int, Meta(ge=0, le=MAX_BROKER_ID)]
_Leader = Annotated[int, Meta(ge=-1, le=MAX_BROKER_ID)]
_Number = Annotated[int, Meta(ge=0, le=MAX_INT)]
_Epoch = Annotated[int, Meta(ge=-1, le=MAX_INT)]
_PRINTED_ID = re.compile("[A-Za-z0-9_-]{22}")
_LEADERLESS = frozenset({0, 5, 9})
"""Errors.java: none, LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE."""
_LEFT_OUT = {
    "describe_configs": "kafka-configs.sh --describe",
    "list_partition_reassignments": "kafka-reassign-partitions.sh --list",
}
_CAPITALS = re.compile(rb'"(Partitions?|Leader|Replicas|Isr)"(?=\s*:)')
"""Keys as the AWS command line writes them."""


class _Node(Struct, gc=False):
    id: _Leader | UnsetType = UNSET
    broker_id: _Id | UnsetType = UNSET
    node_id: _Id | UnsetType = UNSET
    broker: _Id | UnsetType = UNSET
    rack: str | None = None
    is_fenced: bool | None = None
    in_sync: bool | UnsetType = UNSET

    @property
    def number(self) -> int:
        """The broker's id."""
        return int(_first(self.id, self.broker_id, self.node_id, self.broker))


class _Partition(Struct, gc=False):
    partition: _Number | UnsetType = UNSET
    partition_index: _Number | UnsetType = UNSET
    id: _Number | UnsetType = UNSET
    leader: _Leader | _Node | UnsetType | None = UNSET
    leader_id: _Leader | UnsetType = UNSET
    replicas: list[_Id | _Node] | UnsetType = UNSET
    replica_nodes: list[_Id] | UnsetType = UNSET
    isrs: list[_Id | _Node] | UnsetType = UNSET
    isr: list[_Id | _Node] | UnsetType = UNSET
    isr_nodes: list[_Id] | UnsetType = UNSET
    leader_epoch: _Epoch | None = None
    eligible_leader_replicas: list[_Id] | None = None
    last_known_elr: list[_Id] | None = None
    error_code: int = 0


class _Topic(Struct):
    partitions: list[_Partition] | dict[_Number, _Partition]
    topic: str | None = None
    name: str | None = None
    topic_name: str | None = msgspec.field(default=None, name="TopicName")
    topic_id: str | None = None
    error: Any = None
    error_code: int = 0
    configs: dict[str, Any] | None = None


class _Metadata(Struct):
    """One answer, or several by the method that gave each."""

    topics: list[Raw] | dict[str, Raw] | UnsetType = UNSET
    partitions: Raw | UnsetType = UNSET
    brokers: list[_Node] | dict[_Id, _Node] | UnsetType = UNSET
    nodes: list[_Node] | UnsetType = UNSET
    describe_cluster: Raw | UnsetType = UNSET
    list_topics: Raw | UnsetType = UNSET
    describe_topics: list[Raw] | dict[str, Raw] | UnsetType = UNSET
    describe_topic_partitions: Raw | UnsetType = UNSET
    next_cursor: Any = None
    describe_configs: Any = None
    list_partition_reassignments: Any = None
    cluster_id: str | None = None


def _first(*values: Any) -> Any:
    """The first value that a document has."""
    for value in values:
        if value is not UNSET and value is not None:
            return value
    raise ValueError("a number or a list of brokers is missing")


class _Reader:
    """What is read of one file."""

    def __init__(self, name: str, where: str) -> None:
        self.where = where
        self.rows = PlacementRows(name)
        self.brokers: dict[int, Broker] | None = None
        self.topic_ids: dict[str, str] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.cluster_id = ""
        self.is_partial = False
        self._decode_topic = msgspec.json.Decoder(_Topic).decode

    def decode(self, text: Any, kind: Any, what: str) -> Any:
        """Part of the file, decoded."""
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.wrong(what, error) from error

    def wrong(self, what: str, error: object) -> InputError:
        """The error for a part that is not right."""
        return InputError(f"{self.where}: {what} is not what the client prints: {error}")

    def add_metadata(self, text: Any, what: str) -> None:
        """Read an answer, and those in it."""
        document = self.decode(text, _Metadata, what)
        if document.partitions is not UNSET:
            self.add_topic(None, text)
        self.cluster_id = document.cluster_id or self.cluster_id
        if document.next_cursor:
            self.is_partial = True
            self.rows.notes.append(
                f"{self.rows.name} is partial: it has a next_cursor, so more topics follow"
            )
        nodes = document.brokers if document.brokers is not UNSET else document.nodes
        if nodes is not UNSET:
            self.add_brokers(what, nodes)
        for key, command in _LEFT_OUT.items():
            if getattr(document, key):
                self.rows.notes.append(
                    f"{self.rows.name}: what {key} answered is not read; right is the output of"
                    f" {command} beside it"
                )
        # `describe_cluster` comes last, for it alone knows racks and who is fenced.
        for key in ("list_topics", "describe_topic_partitions", "describe_cluster"):
            part = getattr(document, key)
            if part is not UNSET:
                self.add_metadata(part, key)
        topics = document.topics
        if topics is UNSET and not len(self.rows):
            topics = document.describe_topics
        if topics is not UNSET:
            items = topics.items() if isinstance(topics, dict) else ((None, t) for t in topics)
            for label, topic in items:
                self.add_topic(label, topic)

    def add_brokers(self, what: str, nodes: list[_Node] | dict[int, _Node]) -> None:
        """Keep the brokers of an answer; one that has racks counts more than one without."""
        listed = nodes.values() if isinstance(nodes, dict) else nodes
        try:
            brokers = [Broker(n.number, n.rack, True, n.is_fenced) for n in listed]
        except ValueError as error:
            raise self.wrong(f"a broker of {what}", error) from error
        if len({broker.broker_id for broker in brokers}) < len(brokers):
            raise self.wrong(what, "a broker stands twice")
        self.brokers = (self.brokers or {}) | {broker.broker_id: broker for broker in brokers}

    def add_topic(self, label: str | None, text: Any) -> None:
        """Read a topic and its partitions."""
        try:
            topic = self._decode_topic(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            what = label or bytes(memoryview(text)[:200])
            raise self.wrong(f"topic {quote(what)}", error) from error
        name = topic.topic or topic.name or topic.topic_name or label
        if name is None:
            raise self.wrong("a topic", 'it has no name; right is one, {"topic":"t"}')
        if topic.error_code or (topic.error and not topic.partitions):
            self.rows.notes.append(
                f"{self.rows.name}: topic {quote(name)} is not read, for it has the error"
                f" {topic.error_code or quote(str(topic.error))}"
            )
            return
        if label is not None and label != name:
            raise self.wrong(f"topic {quote(label)}", f"it calls itself {quote(name)}")
        self.rows.topic(name)
        self.settings[name] = {
            key: value for key, value in (topic.configs or {}).items() if isinstance(value, str)
        }
        try:
            if topic.topic_id is not None and (topic_id := _printed_id(topic.topic_id)):
                self.topic_ids[name] = topic_id
            for number, partition in _numbered(topic.partitions):
                self.add_partition(name, number, partition)
        except ValueError as error:
            raise self.wrong(f"topic {name}", error) from error

    def add_partition(self, topic: str, number: int | UnsetType, of: _Partition) -> None:
        """Add a partition."""
        if of.error_code not in _LEADERLESS:
            raise self.wrong(f"topic {topic}", f"a partition has the error {of.error_code}")
        leader = of.leader_id if of.leader is UNSET else of.leader
        if leader is UNSET:
            raise ValueError("a partition has no leader; right is a broker, or -1 for none")
        nodes = _first(of.replicas, of.replica_nodes)
        if nodes and isinstance(nodes[0], _Node) and nodes[0].in_sync is not UNSET:
            isr = [node for node in nodes if node.in_sync]
        else:
            isr = _first(of.isrs, of.isr, of.isr_nodes)
        self.rows.add(
            topic, _first(of.partition, of.partition_index, of.id, number),
            -1 if leader is None else leader.number if isinstance(leader, _Node) else leader,
            _ids(nodes), _ids(isr),
            leader_epoch=-1 if of.leader_epoch is None else of.leader_epoch,
            elr=of.eligible_leader_replicas or (), last_known_elr=of.last_known_elr or (),
        )


def _ids(nodes: list[Any]) -> list[int]:
    return [node.number if isinstance(node, _Node) else node for node in nodes]


def _numbered(
    partitions: list[_Partition] | dict[int, _Partition]
) -> Iterator[tuple[int | UnsetType, _Partition]]:
    """Partitions with the number that is the key of each, where they have keys."""
    if isinstance(partitions, dict):
        yield from partitions.items()
    else:
        yield from ((UNSET, partition) for partition in partitions)


def _printed_id(text: str) -> str | None:
    """A topic's id as Kafka prints it; None for none, and for the id of no topic."""
    text = text.replace("+", "-").replace("/", "_")  # confluent-kafka prints plain base64
    if _PRINTED_ID.fullmatch(text):
        return text if text != "A" * len(text) else None
    number = uuid.UUID(text)
    return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=") if number.int else None


def read_client_metadata(name: str, data: bytes, start: int) -> SourceTables:
    """Read the metadata that begins at a byte of a file.

    Raises
    ------
    InputError
        It lists no partition, or something in it is not what a client prints.
    """
    reader = _Reader(name, f"{name} line {line_of(data, start)}")
    text = _CAPITALS.sub(lambda match: match[0].lower(), json_part(data, start))
    if text.startswith(b"["):
        for topic in reader.decode(text, list[Raw], "the list"):
            reader.add_topic(None, topic)
    else:
        reader.add_metadata(text, "the document")
    tables = reader.rows.tables(
        None if reader.brokers is None else reader.brokers.values(),
        topic_ids=reader.topic_ids, settings=reader.settings,
    )
    coverage = Coverage.PARTITIONS if reader.is_partial else Coverage.TOPICS
    return replace(tables, cluster_id=reader.cluster_id, coverage=coverage)
