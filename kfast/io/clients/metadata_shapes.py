"""Topics, partitions and brokers as clients' metadata has them, by all names of their fields.

| Source | Topics | A partition's number, leader, replicas, ISR |
|---|---|---|
| `kcat -L -J` | list | partition, leader, replicas, isrs (each `{"id": 1}`) |
| kafka-python | list | partition_index, leader_id, replica_nodes, isr_nodes |
| aiokafka | list | partition, leader, replicas, isr |
| confluent-kafka, `list_topics` | object | the key, leader, replicas, isrs |
| confluent-kafka, `describe_topics` | list or object | id, leader, replicas, isr (each a node) |
| REST Proxy v2 | one | partition, leader, replicas (each `{"broker": 1, "in_sync": true}`) |
| MSK | one | Partition, Leader, Replicas, Isr |

Whether a text or a client gives them makes no difference: what has no sense is a `ValueError`.

Source: docs/formats.md, section "Metadata of clients"; Kafka 4.1,
DescribeTopicPartitionsResponse.json, MetadataResponse.json, DescribeClusterResponse.json.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from kfast.arguments import MAX_BROKER_ID, MAX_INT
from kfast.io.placement_rows import Broker

__all__ = ["LEADERLESS", "BrokerId", "Node", "Number", "Partition", "Topic", "listed_brokers"]

BrokerId = Annotated[int, Meta(ge=0, le=MAX_BROKER_ID)]
Number = Annotated[int, Meta(ge=0, le=MAX_INT)]
_Leader = Annotated[int, Meta(ge=-1, le=MAX_BROKER_ID)]
_Epoch = Annotated[int, Meta(ge=-1, le=MAX_INT)]
_PRINTED_ID = re.compile("[A-Za-z0-9_-]{22}")
LEADERLESS = frozenset({0, 5, 9})
"""Errors.java: none, LEADER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE."""


def _first(*values: Any) -> Any:
    """The first value that is present, or None."""
    return next((value for value in values if value is not None), None)


class Node(Struct, gc=False):
    """A broker, or a replica on it."""

    id: _Leader | None = None
    broker_id: BrokerId | None = None
    node_id: BrokerId | None = None
    broker: BrokerId | None = None
    rack: str | None = None
    is_fenced: bool | None = None
    in_sync: bool | None = None

    @property
    def number(self) -> int:
        """The broker's id."""
        number = _first(self.id, self.broker_id, self.node_id, self.broker)
        if number is None:
            raise ValueError("a broker has no id")
        return int(number)


def listed_brokers(nodes: Iterable[Node]) -> dict[int, Broker]:
    """The brokers of an answer by their ids."""
    listed = [Broker(node.number, node.rack, True, node.is_fenced) for node in nodes]
    brokers = {broker.broker_id: broker for broker in listed}
    if len(brokers) < len(listed):
        raise ValueError("a broker stands twice")
    return brokers


class Partition(Struct, gc=False):
    """A partition."""

    error_code: int = 0
    partition: Number | None = None
    partition_index: Number | None = None
    id: Number | None = None
    leader: _Leader | Node | UnsetType | None = UNSET
    leader_id: _Leader | None = None
    replicas: list[BrokerId | Node] | None = None
    replica_nodes: list[BrokerId] | None = None
    isrs: list[BrokerId | Node] | None = None
    isr: list[BrokerId | Node] | None = None
    isr_nodes: list[BrokerId] | None = None
    leader_epoch: _Epoch | None = None
    eligible_leader_replicas: list[BrokerId] | None = None
    last_known_elr: list[BrokerId] | None = None
    offline_replicas: list[BrokerId] | None = None

    @property
    def number(self) -> int:
        """Its number; -1 for none."""
        return int(_first(self.partition, self.partition_index, self.id, -1))

    def placement(self) -> dict[str, Any]:
        """What `PlacementRows.add` takes, but for the topic."""
        if self.error_code not in LEADERLESS:
            raise ValueError(f"a partition has the error {self.error_code}")
        number, replicas = self.number, _first(self.replicas, self.replica_nodes)
        if number < 0 or replicas is None:
            raise ValueError("a partition has no number or no replicas")
        if self.leader is UNSET and self.leader_id is None:
            raise ValueError("a partition has no leader; right is a broker, or -1 for none")
        if replicas and isinstance(replicas[0], Node) and replicas[0].in_sync is not None:
            isr = [node for node in replicas if node.in_sync]
        else:
            isr = _first(self.isrs, self.isr, self.isr_nodes)
        if isr is None:
            raise ValueError("a partition has no ISR: a list of brokers is missing")
        leader = self.leader_id if self.leader is UNSET else self.leader
        return {
            "partition": number, "leader": -1 if leader is None else _id(leader),
            "replicas": [*map(_id, replicas)], "isr": [*map(_id, isr)],
            "leader_epoch": -1 if self.leader_epoch is None else self.leader_epoch,
            "elr": self.eligible_leader_replicas or (),
            "last_known_elr": self.last_known_elr or (),
        }


def _id(node: int | Node) -> int:
    return node.number if isinstance(node, Node) else node


class Topic(Struct):
    """A topic and its partitions."""

    partitions: list[Partition] | dict[Number, Partition]
    topic: str | None = None
    name: str | None = None
    topic_name: str | None = msgspec.field(default=None, name="TopicName")
    topic_id: Any = None
    """A `uuid.UUID`, or the text of one or of what Kafka prints."""
    error: Any = None
    error_code: int = 0
    configs: dict[str, Any] | None = None

    @property
    def label(self) -> str | None:
        """Its name."""
        return self.topic or self.name or self.topic_name

    @property
    def printed_id(self) -> str | None:
        """Its id as Kafka prints it; None for none, and for the id of no topic."""
        if self.topic_id is None:
            return None
        # confluent-kafka prints plain base64.
        text = str(self.topic_id).replace("+", "-").replace("/", "_")
        if _PRINTED_ID.fullmatch(text):
            return text if text != "A" * len(text) else None
        try:
            number = uuid.UUID(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is no id of a topic: {error}; right is a UUID") from None
        return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=") if number.int else None

    def listed(self) -> list[Partition]:
        """Its partitions; one without a number has that of its key."""
        if isinstance(self.partitions, list):
            return self.partitions
        for number, partition in self.partitions.items():
            if partition.number < 0:
                partition.id = number
        return [*self.partitions.values()]
