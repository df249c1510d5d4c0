"""What LinkedIn's kafka-assigner writes with `--output-json`: the cluster before its changes.

Source: docs/formats.md, section "Metadata of clients"; kafka-assigner,
models/cluster.py, `to_dict`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct

from kfast.arguments import MAX_BROKER_ID, MAX_INT
from kfast.io.json_documents import decode_document
from kfast.io.placement_rows import Broker, PlacementRows
from kfast.io.source_tables import Exactness, SourceTables

__all__ = ["read_kafka_assigner"]

_Id = Annotated[int, Meta(ge=0, le=MAX_BROKER_ID)]
_Number = Annotated[int, Meta(ge=0, le=MAX_INT)]
_RIGHT = '{"before":{"brokers":{"1":{}},"topics":{"t":{"partitions":{"0":{"replicas":[1]}}}}}}'


class _Broker(Struct):
    rack: str | None = None


class _Partition(Struct, gc=False):
    replicas: Annotated[list[_Id], Meta(min_length=1)]


class _Topic(Struct):
    partitions: dict[_Number, _Partition]
    retention: int | None = None


class _Cluster(Struct):
    brokers: dict[_Id, _Broker]
    topics: dict[str, _Topic]


class _Output(Struct):
    before: _Cluster


def read_kafka_assigner(name: str, data: bytes, start: int) -> SourceTables:
    """Read the cluster as it was before the changes, from the output that begins at a byte.

    Raises
    ------
    InputError
        It is damaged, or lists no partition.
    """
    _, output = decode_document(name, data, start, _Output, "output of kafka-assigner", _RIGHT)
    cluster = output.before
    rows = PlacementRows(name)
    for topic, node in cluster.topics.items():
        rows.topic(topic)
        for number, partition in node.partitions.items():
            rows.add(topic, number, None, partition.replicas, None)
    retention = {topic: {"retention.ms": str(node.retention)}
                 for topic, node in cluster.topics.items() if node.retention}
    tables = rows.tables(
        [Broker(broker, node.rack) for broker, node in cluster.brokers.items()],
        settings=retention,
    )
    return replace(tables, exactness=Exactness.PLANS)
