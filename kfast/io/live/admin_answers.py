"""What the brokers of a cluster answered to an admin client, as tables.

Answers have the shapes that kafka-python gives them, and aiokafka's, which has older words for some
fields. Whether they come from a client or from its JSON makes no difference.

Source: docs/live.md; Kafka 4.1, DescribeConfigsResponse.json; KafkaApis.scala.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from kfast import schema
from kfast.errors import InputError
from kfast.io.clients.metadata_shapes import (
    LEADERLESS,
    BrokerId,
    Node,
    Number,
    Topic,
    listed_brokers,
)
from kfast.io.controller_inference import assume_newest
from kfast.io.files import abbreviate
from kfast.io.placement_rows import Broker, PlacementRows, broker_table
from kfast.io.source_tables import SourceTables, add_defaults, set_column
from kfast.io.topic_settings import LOG_SETTINGS, log_settings, setting_columns
from kfast.state.controller_change import REASON
from kfast.state.kraft_releases import (
    ELR_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    note_newer,
    release_of,
)
from kfast.state.metadata_records import ResourceType

__all__ = ["BROKER_SETTINGS", "TOPIC_SETTINGS", "tables_of_answers"]

TOPIC_SETTINGS = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, *sorted(LOG_SETTINGS))
"""Configurations of topics that kfast heeds."""
_ZOOKEEPER_DEFAULTS = (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION, "delete.topic.enable")
BROKER_SETTINGS = (
    *_ZOOKEEPER_DEFAULTS, "log.cleanup.policy",
    "log.retention.ms", "log.retention.minutes", "log.retention.hours", "log.retention.bytes",
    "log.segment.bytes", "log.roll.ms", "log.roll.hours", "log.local.retention.ms",
    "log.local.retention.bytes",
)
"""Configurations of brokers that kfast heeds."""

_SOURCES = {
    1: "DYNAMIC_TOPIC_CONFIG", 2: "DYNAMIC_BROKER_CONFIG", 3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG",
}
"""DescribeConfigsResponse.ConfigSource."""
_UNKNOWN_TOPIC = 3
_ERRORS = {
    -1: "UNKNOWN_SERVER_ERROR", 3: "UNKNOWN_TOPIC_OR_PARTITION", 7: "REQUEST_TIMED_OUT",
    17: "INVALID_TOPIC_EXCEPTION", 29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED", 72: "LISTENER_NOT_FOUND",
}
"""Errors.java: those that these answers may have."""

class _Cluster(Struct):
    brokers: list[Node]
    controller_id: int | None = None
    cluster_id: str | None = None


class _Synonym(Struct):
    name: str
    source: str | int
    value: str | None = None


class _Setting(Struct):
    value: str | None = None
    config_source: str | int | None = None
    synonyms: list[_Synonym] | None = None


class _Settings(Struct):
    topic: dict[str, dict[str, _Setting]] = {}
    broker: dict[str, dict[str, _Setting]] = {}


class _Move(Struct):
    adding_replicas: list[BrokerId]
    removing_replicas: list[BrokerId]


class _Feature(Struct):
    supported: tuple[int, int] | None = None
    finalized: tuple[int, int] | None = None


class _Answers(Struct, forbid_unknown_fields=True):
    """Answers by the method of kafka-python's client that gives them."""

    describe_cluster: _Cluster
    describe_topics: list[Topic]
    describe_configs: _Settings = msgspec.field(default_factory=_Settings)
    describe_features: dict[str, _Feature] | None = None
    list_partition_reassignments: dict[tuple[str, Number], _Move] = {}
    controller_id: int = -1
    """The active controller of KRaft: `describe_cluster` names some broker there."""
    broker_version: tuple[int, ...] | None = None


def tables_of_answers(
    name: str, answers: Mapping[str, Any], notes: Iterable[str] = ()
) -> SourceTables:
    """The tables of a cluster whose brokers gave these answers.

    Parameters
    ----------
    name : str
        What messages call the cluster.
    answers : mapping
        `describe_cluster` and `describe_topics` (or, as its list of topics,
        `describe_topic_partitions`), and perhaps `describe_configs`, `describe_features`,
        `list_partition_reassignments`, `controller_id` (of KRaft's quorum) and `broker_version` (as
        the API versions tell it).
    notes : iterable of str
        What could not be asked.

    Raises
    ------
    InputError
        An answer is missing, has another shape, or is an error.
    """
    try:
        parsed = msgspec.convert(answers, _Answers)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{name}: these are not an admin client's answers: {error}; right are those of"
            " kafka-python or aiokafka to describe_cluster and describe_topics"
        ) from error
    notes = [*notes]
    topics = _readable(name, parsed.describe_topics, notes)
    try:
        brokers = listed_brokers(parsed.describe_cluster.brokers)
        topic_ids: dict[str, str | None] = {}
        for label, topic in topics:
            topic_ids[label] = topic_ids.get(label) or topic.printed_id
        partitions = _partitions(name, topics, parsed.list_partition_reassignments, brokers)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error
    if not brokers:
        raise InputError(f"{name}: describe_cluster names no broker")
    # Those that only hold replicas are down.
    down = {*pc.unique(pc.list_flatten(partitions["replicas"])).to_pylist()} - brokers.keys()
    tables = SourceTables(
        name, partitions,
        pa.table({"topic": pa.array(topic_ids, pa.string()),
                  "topic_id": pa.array(topic_ids.values(), pa.string())}),
        broker_table(name, [*brokers.values(), *(Broker(n, registered=False) for n in down)]),
        notes=tuple(notes), version=".".join(map(str, parsed.broker_version or ())),
        cluster_id=parsed.describe_cluster.cluster_id or "",
    )
    return _add_configurations(_add_controller(tables, parsed), parsed)


def _readable(
    name: str, topics: Iterable[Topic], notes: list[str]
) -> list[tuple[str, Topic]]:
    """Topics by name, in order, one in several pages several times.

    Refuses what a part of would mislead.
    """
    errors: dict[int, list[str]] = defaultdict(list)
    readable = []
    for topic in topics:
        label = topic.label
        if label is None:
            raise InputError(f"{name}: a topic in the answer to describe_topics has no name")
        if topic.error_code:
            errors[topic.error_code].append(label)
        else:
            readable.append((label, topic))
        for partition in topic.listed():
            if partition.error_code not in LEADERLESS:
                errors[partition.error_code].append(f"{label}-{partition.number}")
    deleted = errors.pop(_UNKNOWN_TOPIC, [])
    if deleted:
        notes.append(f"{name}: deleted while they were read, and left out: {abbreviate(deleted)}")
    for code, labels in errors.items():
        raise InputError(
            f"{name}: {_ERRORS.get(code, f'error {code}')} for {abbreviate(labels)}: without them"
            " the cluster would be read in part; right is a user who may describe every topic, and"
            " the address of a listener that all brokers have"
        )
    if not readable:
        raise InputError(
            f"{name}: shows no topic: it has none, or its ACLs allow this user to describe none"
            " (--command-config says who asks)"
        )
    return sorted(readable, key=itemgetter(0))


def _partitions(
    name: str, topics: Iterable[tuple[str, Topic]], moves: Mapping[tuple[str, int], _Move],
    brokers: Mapping[int, Broker],
) -> pa.Table:
    """The table of partitions, with their reassignments and the directories that are offline."""
    rows = PlacementRows(name)
    moving, offline = [], []
    for label, topic in topics:
        rows.topic(label)
        for partition in sorted(topic.listed(), key=attrgetter("number")):
            rows.add(label, **partition.placement())
            moving.append(moves.get((label, partition.number)))
            # A replica is offline on a broker that is up: its directory is.
            offline.append([
                n for n in partition.offline_replicas or ()
                if n in brokers and not brokers[n].fenced
            ])
    table = rows.partitions()
    columns = {
        "adding": [move.adding_replicas if move else [] for move in moving],
        "removing": [move.removing_replicas if move else [] for move in moving],
        **({"offline_dir": offline} if any(offline) else {}),
    }
    for column, lists in columns.items():
        table = table.append_column(column, pa.array(lists, pa.list_(pa.int32())))
    return table.append_column("being_reassigned", pa.array([move is not None for move in moving]))


# --- the controller ------------------------------------------------------------------------------


def _add_controller(tables: SourceTables, answers: _Answers) -> SourceTables:
    """Say which controller runs the cluster, from the features or the API versions."""
    cluster: dict[str, Any]
    features = answers.describe_features or {}
    metadata = features.get(METADATA_VERSION, _Feature())
    if metadata.finalized is None:
        if answers.broker_version is None:
            return assume_newest(tables)
        version = ".".join(map(str, answers.broker_version[:2]))
        controller = f"zk-{version}"
        if controller not in schema.CONTROLLERS:
            raise InputError(
                f"{tables.source}: the brokers finalize no {METADATA_VERSION}, as in ZooKeeper"
                f" mode, but their API versions are those of {version}; a ZooKeeper mode of that"
                " release is not known"
            )
        why = (
            f"no {METADATA_VERSION} is finalized, as in ZooKeeper mode, and the API versions are"
            f" those of {version}"
        )
        broker = answers.describe_cluster.controller_id
        cluster = {"controller": controller, "controller_id": -1 if broker is None else broker}
        newer = []
    else:
        level = metadata.finalized[1]
        highest = (metadata.supported or metadata.finalized)[1]
        controller = release_of(max(level, highest))
        why = f"brokers support {METADATA_VERSION} up to {highest}, and {level} is finalized"
        newer = note_newer(highest)
        cluster = {"controller": controller, "controller_id": answers.controller_id, "features": [
            {"name": feature, "level": of.finalized[1]}
            for feature, of in features.items() if of.finalized is not None
        ]}
        if ELR_VERSION not in {feature["name"] for feature in cluster["features"]} and (
            "elr" in tables.partitions.column_names
        ):
            raise InputError(f"{tables.source}: a partition has an ELR, but {ELR_VERSION} is off")
    return _with(
        tables, cluster, f"{REASON}read from {tables.source}: {why}", *newer
    )


def _with(tables: SourceTables, cluster: Mapping[str, Any], *notes: str) -> SourceTables:
    """The same tables with more columns of the cluster, and notes before the others."""
    table = tables.cluster
    for column, value in cluster.items():
        kind = schema.CLUSTER_SCHEMA.field(column).type
        table = set_column(table, column, pa.array([value], kind))
    return replace(tables, cluster=table, notes=(*notes, *tables.notes))


# --- configurations ------------------------------------------------------------------------------


def _add_configurations(tables: SourceTables, answers: _Answers) -> SourceTables:
    """Add the settings of topics and brokers, as the kind of the controller keeps them."""
    settings = answers.describe_configs
    if not settings.topic and not settings.broker:
        return tables
    tables = replace(tables, notes=(*tables.notes, *_differences(tables, settings.broker)))
    if tables.is_kraft:
        return _as_configurations(tables, settings)
    return _as_columns(tables, settings)


def _source(kind: str | int | None) -> str:
    return _SOURCES.get(kind, "") if isinstance(kind, int) else kind or ""


def _own(settings: Mapping[str, _Setting]) -> dict[str, str]:
    """What is set for a topic itself."""
    return {
        key: setting.value for key, setting in settings.items()
        if setting.value is not None and _source(setting.config_source) == "DYNAMIC_TOPIC_CONFIG"
    }


def _deciding_broker(tables: SourceTables, brokers: Mapping[str, Any]) -> str | None:
    """The broker whose defaults count: the controller's node, or else that of the lowest id."""
    assert tables.cluster is not None
    controller = ""
    if "controller_id" in tables.cluster.column_names:
        controller = str(tables.cluster["controller_id"][0].as_py())
    return controller if controller in brokers else min(brokers, key=int, default=None)


def _differences(
    tables: SourceTables, brokers: Mapping[str, Mapping[str, _Setting]]
) -> list[str]:
    """Notes of defaults of which the brokers have different values, for one value counts."""
    notes = []
    for key in (MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION):
        values = {broker: of[key].value for broker, of in brokers.items() if key in of}
        if len({*values.values()}) > 1:
            each = abbreviate([f"{value} (broker {broker})" for broker, value in values.items()])
            notes.append(
                f"{key} differs between brokers: {each}; that of broker"
                f" {_deciding_broker(tables, brokers)} counts"
            )
    return notes


def _as_configurations(tables: SourceTables, settings: _Settings) -> SourceTables:
    """KRaft: dynamic configurations by resource, and the file of the controller's node."""
    entries = {
        (int(ResourceType.TOPIC), topic, key): value
        for topic, of in settings.topic.items() for key, value in _own(of).items()
    }
    deciding = _deciding_broker(tables, settings.broker)
    static: dict[str, str] = {}
    for broker, of_broker in settings.broker.items():
        for synonym in chain.from_iterable(of.synonyms or () for of in of_broker.values()):
            if synonym.value is None:
                continue
            source = _source(synonym.source)
            if source == "DYNAMIC_DEFAULT_BROKER_CONFIG":
                entries[int(ResourceType.BROKER), "", synonym.name] = synonym.value
            elif source == "DYNAMIC_BROKER_CONFIG":
                entries[int(ResourceType.BROKER), broker, synonym.name] = synonym.value
            elif broker == deciding:  # what its file sets comes before Kafka's default
                static.setdefault(synonym.name, synonym.value)
    return _with(tables, {
        "configurations": [
            {"resource_type": kind, "resource": resource, "key": key, "value": value}
            for (kind, resource, key), value in entries.items()
        ],
        "static_configuration": [{"key": key, "value": value} for key, value in static.items()],
    })


def _as_columns(tables: SourceTables, settings: _Settings) -> SourceTables:
    """ZooKeeper mode: columns of topics, and the defaults of the broker that is the controller."""
    assert tables.topics is not None
    topics = tables.topics
    own = {topic: _own(of) for topic, of in settings.topic.items()}
    for column, values in setting_columns(
        tables.source, topics["topic"].to_pylist(), own
    ).items():
        topics = set_column(topics, column, values)
    # The value of a topic has the brokers' defaults in it, which no table has.
    effective = {
        topic: {key: setting.value for key, setting in of.items() if setting.value}
        for topic, of in settings.topic.items()
    }
    tables = replace(tables, topics=topics, log_settings=log_settings(effective))
    deciding = _deciding_broker(tables, settings.broker)
    defaults = settings.broker[deciding] if deciding else {}
    return add_defaults(tables, {
        key: defaults[key].value for key in _ZOOKEEPER_DEFAULTS if key in defaults
    })
