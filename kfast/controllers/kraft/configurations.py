"""Configurations and features.

Source: docs/kraft.md, sections 8.3 and 8.4; Kafka 4.1, ConfigurationControlManager.java,
FeatureControlManager.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kfast import arguments
from kfast.controllers.kraft.engine import QuorumEngine
from kfast.controllers.kraft.faults import ApiError, Fault
from kfast.errors import ArgumentError
from kfast.state.kraft_releases import (
    ELR_VERSION,
    KRAFT_VERSION,
    KRAFT_VERSION_LEVEL,
    LOWEST_BOOTSTRAP_LEVEL,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION,
    MetadataVersion,
)
from kfast.state.metadata_records import (
    ClearElrRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    ResourceType,
)

LIST_DEFAULTS = {(ResourceType.TOPIC, "cleanup.policy"): "delete"}
"""Keys whose values are lists, and what they start from; of Kafka's, the one that topics have."""

OPERATIONS = ("set", "delete", "append", "subtract")
DIRECTIONS = ("upgrade", "safe_downgrade", "unsafe_downgrade")

MOST_CONFIG_CHARACTERS = 32767
"""Source: ConfigurationControlManager.java, `validateAlterConfig`."""

DEFAULT_MIN_INSYNC_REPLICAS = "1"


@dataclass(frozen=True)
class ConfigChange:
    """What is asked for one resource: key, operation (set, delete, append, subtract), value.

    The name of a topic, the id of a broker as text, or "" for the default of all brokers.
    """

    resource_type: ResourceType
    resource_name: str
    ops: Sequence[tuple[str, str, str | None]]

    def __post_init__(self) -> None:
        arguments.member("resource_type", ResourceType, self.resource_type)
        arguments.text("resource_name", self.resource_name)
        for op in arguments.check_items("ops", self.ops):
            key, operation, value = arguments.items_of("an operation", op, 3)
            arguments.text("the key of an operation", key)
            if operation not in OPERATIONS:
                raise ArgumentError(
                    f"operation {arguments.shown(operation)} of {key} is unknown; allowed: "
                    f"{', '.join(OPERATIONS)}"
                )
            if value is not None:
                arguments.text(f"the value of {key}", value)


# -------------------------------------------------------------------------- configurations, 8.3


def incremental_alter_configs(engine: QuorumEngine, changes: Sequence[ConfigChange]) -> list[str]:
    """Write the records of the good resources, then ClearElr; no election is run.

    Source: `incrementalAlterConfigs`.
    """
    codes = []
    written: list[ConfigRecord] = []
    for change in changes:
        try:
            written += alter_config_resource(engine, change)
            codes.append("NONE")
        except ApiError as error:
            codes.append(error.code)
    check_lengths(written)
    engine.write(*written, *clear_elr_records(engine, written))
    return codes


def check_lengths(records: Iterable[MetadataRecord]) -> None:
    """Raise where a record cannot be written. Source: ConfigRecord.json."""
    for record in records:
        value = record.value if isinstance(record, ConfigRecord) else None
        if value is not None and len(value.encode()) > MOST_CONFIG_CHARACTERS:
            raise Fault(f"a value of {len(value)} characters does not fit into a record")


def alter_config_resource(engine: QuorumEngine, change: ConfigChange) -> list[ConfigRecord]:
    """Records of one resource; one bad key fails it. Source: `incrementalAlterConfigResource`.

    A broker's value that stays the same is written again, so that brokers reload it (KAFKA-14136).
    """
    kind, name = change.resource_type, change.resource_name
    configured = engine.quorum.configurations.get((kind, name), {})
    records = []
    for key, operation, value in change.ops:
        current = configured.get(key)
        changed = changed_value(kind, key, operation, value, current)
        if changed != current or kind == ResourceType.BROKER:
            records.append(ConfigRecord(0, kind, name, key, changed))
    for record in records:
        check_config_record(engine, record)
    check_resource(engine, change)
    return records


def changed_value(
    kind: ResourceType, key: str, operation: str, value: str | None, current: str | None
) -> str | None:
    """The value after one operation. Source: `incrementalAlterConfigResource`, `getParts`."""
    if operation == "set":
        return value
    if operation == "delete":
        return None
    if (kind, key) not in LIST_DEFAULTS:
        raise ApiError("INVALID_CONFIG")
    listed = LIST_DEFAULTS[kind, key] if current is None else current
    parts = [part for part in listed.split(",") if part]
    for part in (value or "").split(","):
        if operation == "append" and part not in parts:
            parts.append(part)
        elif operation == "subtract" and part in parts:
            parts.remove(part)
    return ",".join(parts)


def check_config_record(engine: QuorumEngine, record: ConfigRecord) -> None:
    """With ELR on, min.insync.replicas belongs to the cluster. Source: `validateAlterConfig`."""
    if record.value is not None:
        check_value(engine, record.name, record.value)
    if not engine.elr_on or record.name != MIN_INSYNC_REPLICAS:
        return
    if record.resource_type == ResourceType.BROKER and (
        record.resource_name != "" or record.value is None
    ):
        raise ApiError("INVALID_CONFIG")


def check_value(engine: QuorumEngine, key: str, value: str) -> None:
    """Refuse what Kafka's own definition of a key does not allow (TopicConfig.java)."""
    wrong = engine.release.refuses_long_config_values and len(value) > MOST_CONFIG_CHARACTERS
    if key == MIN_INSYNC_REPLICAS:
        wrong = wrong or not value.strip().isdecimal() or int(value) < 1
    elif key == UNCLEAN_LEADER_ELECTION:
        wrong = wrong or value.strip().lower() not in ("true", "false")
    if wrong:
        raise ApiError("INVALID_CONFIG")


def check_resource(engine: QuorumEngine, change: ConfigChange) -> None:
    """The topic, broker or controller must be there. Source: ControllerServer's checker."""
    name = change.resource_name
    if change.resource_type == ResourceType.TOPIC:
        if engine.topic_row(name) is None:
            raise ApiError("UNKNOWN_TOPIC_OR_PARTITION")
        return
    is_node = name.isdecimal() and engine.is_registered(int(name))
    if not is_node and name not in ("", str(engine.state.controller_id)):
        raise ApiError("BROKER_ID_NOT_REGISTERED")


def clear_elr_records(
    engine: QuorumEngine, configs: Iterable[ConfigRecord]
) -> list[ClearElrRecord]:
    """With ELR on, every record of min.insync.replicas clears ELRs: a topic's, or all.

    Source: section 8.3; `createClearElrRecordsAsNeeded`.
    """
    if not engine.elr_on:
        return []
    return [
        ClearElrRecord(
            0, record.resource_name if record.resource_type == ResourceType.TOPIC else ""
        )
        for record in configs
        if record.name == MIN_INSYNC_REPLICAS
    ]


# -------------------------------------------------------------------------------- features, 8.4


def check_updates(updates: Mapping[str, int], directions: Mapping[str, str]) -> None:
    """Raise where a level is no number, or a direction is unknown."""
    arguments.check_instance("updates", updates, Mapping)
    arguments.check_instance("directions", directions, Mapping)
    for feature, level in updates.items():
        arguments.int32(f"the level of {arguments.text('a feature', feature)}", level)
    for feature, direction in directions.items():
        if direction not in DIRECTIONS:
            raise ArgumentError(
                f"direction {arguments.shown(direction)} of {feature} is unknown; allowed: "
                f"{', '.join(DIRECTIONS)}"
            )


def update_features(
    engine: QuorumEngine, updates: Mapping[str, int], directions: Mapping[str, str]
) -> str:
    """Set all levels, or none. Source: ConfigurationControlManager.java, `updateFeatures`.

    `directions` says `safe_downgrade` or `unsafe_downgrade`; what it leaves out is an upgrade.
    """
    proposed = {**engine.quorum.features, **updates}
    for name, level in updates.items():
        if not is_allowed(engine, name, level, directions.get(name, "upgrade"), proposed):
            return "INVALID_UPDATE_VERSION"
    if updates.get(ELR_VERSION, 0) > 0:
        engine.write(*elr_safety_records(engine))
    for name, level in updates.items():
        if name != KRAFT_VERSION or not engine.release.kraft_version_by_raft:
            engine.write(FeatureLevelRecord(0, name, level))
        elif directions.get(name, "upgrade") == "upgrade":
            engine.write(NoOpRecord(0))
    return "NONE"


def is_allowed(
    engine: QuorumEngine, name: str, level: int, direction: str, proposed: Mapping[str, int]
) -> bool:
    """Whether a feature may get a level: this controller and every broker must support it.

    Source: FeatureControlManager.java, `updateFeature`, `updateMetadataVersion`,
    `reasonNotSupported`.
    """
    supported = engine.release.supported_features
    current = engine.quorum.features.get(name, 0)
    if name == KRAFT_VERSION and engine.release.kraft_version_by_raft:
        current = KRAFT_VERSION_LEVEL
    ranges = [supported, *engine.registered_feature_ranges()]
    if level < 0 or not all(
        lowest <= level <= highest
        for lowest, highest in (features.get(name, (0, 0)) for features in ranges)
    ):
        return False
    if level < current if direction == "upgrade" else level > current:
        return False
    if name == KRAFT_VERSION and engine.release.kraft_version_by_raft:
        return level >= current
    if name == METADATA_VERSION:
        changes = MetadataVersion(current).metadata_changes_down_to(level)
        return level >= LOWEST_BOOTSTRAP_LEVEL and (level >= current or not changes)
    if name == ELR_VERSION and level > 0:
        return MetadataVersion(proposed[METADATA_VERSION]).is_elr_supported
    return name in supported or not engine.release.refuses_unknown_features


def elr_safety_records(engine: QuorumEngine) -> list[ConfigRecord]:
    """With ELR, min.insync.replicas is the cluster's: it gets one, brokers lose theirs.

    Source: ConfigurationControlManager.java, `maybeGenerateElrSafetyRecords`.
    """
    key, kind, quorum = MIN_INSYNC_REPLICAS, ResourceType.BROKER, engine.quorum
    records = []
    if key not in quorum.configurations.get((kind, ""), {}):
        value = quorum.static_configuration.get(key, DEFAULT_MIN_INSYNC_REPLICAS)
        records.append(ConfigRecord(0, kind, "", key, value))
    for node in engine.visits.nodes_with_configs():
        if key in quorum.configurations[kind, str(node)]:
            records.append(ConfigRecord(0, kind, str(node), key, None))
    return records
