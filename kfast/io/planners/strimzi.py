"""Custom resources of Strimzi in YAML: brokers, topics and settings as they are wanted.

They say nothing of who holds what, so they are read beside a file that does. A broker's rack is a
label of the node of Kubernetes that runs it, which no resource names.

Source: docs/formats.md, section "Metadata of clients"; Strimzi 0.49, API
reference: Kafka, KafkaNodePool, KafkaTopic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta, Struct

from kfast.arguments import MAX_BROKER_ID
from kfast.errors import InputError, require_extra
from kfast.io.placement_rows import Broker, broker_table
from kfast.io.source_tables import NO_PARTITIONS, Coverage, Exactness, SourceTables
from kfast.io.topic_settings import default_columns, log_settings, setting_columns

__all__ = ["read_strimzi"]

_Id = Annotated[int, Meta(ge=0, le=MAX_BROKER_ID)]
_GROUP = "kafka.strimzi.io/"
_BROKER = "broker"
_CLUSTER = "strimzi.io/cluster"


class _Metadata(Struct):
    name: str
    labels: dict[str, Any] | None = None


class _KafkaCluster(Struct):
    config: dict[str, Any] | None = None
    rack: Any = None


class _KafkaSpec(Struct):
    kafka: _KafkaCluster


class _Kafka(Struct):
    metadata: _Metadata
    spec: _KafkaSpec


class _PoolSpec(Struct):
    roles: list[str]


class _PoolStatus(Struct, rename="camel"):
    node_ids: list[_Id] | None = None


class _Pool(Struct):
    metadata: _Metadata
    spec: _PoolSpec
    status: _PoolStatus | None = None


class _TopicSpec(Struct, rename="camel"):
    topic_name: str | None = None
    config: dict[str, Any] | None = None


class _TopicStatus(Struct, rename="camel"):
    topic_id: str | None = None


class _Topic(Struct):
    metadata: _Metadata
    spec: _TopicSpec
    status: _TopicStatus | None = None


def read_strimzi(name: str, data: bytes, _start: int) -> SourceTables:
    """Read all documents of a file.

    Raises
    ------
    InputError
        The YAML is damaged, or a resource has another shape.
    MissingExtraError
        The package that reads YAML is not installed.
    """
    defaults: dict[str, str] = {}
    brokers: dict[int, Broker] = {}
    topics: dict[str, str | None] = {}
    settings: dict[str, dict[str, str]] = {}
    notes = []
    clusters = set()
    for number, kind, document in _resources(name, data):
        where = f"{name}: document {number} ({kind})"
        if kind == "Kafka":
            kafka = _convert(where, document, _Kafka)
            clusters.add(kafka.metadata.name)
            defaults = _texts(kafka.spec.kafka.config)
            if kafka.spec.kafka.rack is not None:
                notes.append(f"{where}: racks are labels of Kubernetes' nodes, and are not in it")
        elif kind == "KafkaNodePool":
            pool = _convert(where, document, _Pool)
            clusters |= _cluster_of(pool.metadata)
            ids = (pool.status.node_ids if pool.status else None) or ()
            if _BROKER in pool.spec.roles:
                brokers |= {broker: Broker(broker) for broker in ids}
        elif kind == "KafkaTopic":
            topic = _convert(where, document, _Topic)
            clusters |= _cluster_of(topic.metadata)
            label = topic.spec.topic_name or topic.metadata.name
            if label in topics:
                raise InputError(f"{where}: topic {label} stands twice; right is once")
            topics[label] = topic.status.topic_id if topic.status else None
            settings[label] = _texts(topic.spec.config)
    if len(clusters) > 1:
        raise InputError(
            f"{name}: has resources of {len(clusters)} clusters: {', '.join(sorted(clusters))};"
            " right is one"
        )
    cluster = default_columns(name, defaults)
    return SourceTables(
        name, NO_PARTITIONS,
        pa.table({
            "topic": pa.array(topics, pa.string()),
            "topic_id": pa.array(topics.values(), pa.string()),
            **setting_columns(name, [*topics], settings),
        }) if topics else None,
        broker_table(name, brokers.values()) if brokers else None,
        pa.table(cluster) if cluster else None,
        notes=tuple(notes), log_settings=log_settings(settings), exactness=Exactness.PLANS,
        coverage=Coverage.NOTHING,
    )


def _cluster_of(metadata: _Metadata) -> set[str]:
    """The cluster that a pool or a topic belongs to; none where no label names it."""
    label = (metadata.labels or {}).get(_CLUSTER)
    return set() if label is None else {str(label)}


def _resources(name: str, data: bytes) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The custom resources of Strimzi in a file, those in lists too, each with its kind."""
    require_extra("yaml", f"{name}, Strimzi's YAML,")
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        documents = [*yaml.load_all(data, loader)]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        shown = " ".join(str(error).split())
        raise InputError(f"{name}: is damaged YAML: {shown}; right is a whole file") from error
    for number, document in enumerate(documents, 1):
        resources = document.get("items", [document]) if isinstance(document, dict) else []
        for resource in resources if isinstance(resources, list) else []:
            if isinstance(resource, dict) and str(resource.get("apiVersion")).startswith(_GROUP):
                yield number, str(resource.get("kind")), resource


def _convert(where: str, document: dict[str, Any], kind: Any) -> Any:
    try:
        return msgspec.convert(document, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"{where}: not a resource of Strimzi: {error}") from error


def _texts(config: dict[str, Any] | None) -> dict[str, str]:
    """Settings as Kafka writes them: YAML has numbers and booleans of its own."""
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (config or {}).items()
    }
