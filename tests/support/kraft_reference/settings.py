"""Configurations and features.

Source: docs/kraft.md, sections 8.3 and 8.4; Kafka 4.1, ConfigurationControlManager.java,
FeatureControlManager.java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kfast.controllers import ConfigChange
from kfast.state.kraft_releases import (
    ELR_VERSION,
    KRAFT_VERSION,
    LOWEST_BOOTSTRAP_LEVEL,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
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
from tests.support.kraft_reference.errors import ApiError, FaultError
from tests.support.kraft_reference.state import DEFAULTS, ClusterState

Records = list[MetadataRecord]

LIST_DEFAULTS = {(ResourceType.TOPIC, "cleanup.policy"): "delete"}
"""Keys whose values are lists, and what they start from: of all, the one that tests append to."""

MOST_CONFIG_CHARACTERS = 32767


def clear_elr_records(state: ClusterState, configs: Sequence[MetadataRecord]) -> Records:
    """With ELR on, every record of min.insync.replicas clears ELRs: a topic's, or all.

    Source: section 8.3; `createClearElrRecordsAsNeeded`.
    """
    if not state.elr_on:
        return []
    changes = [
        record for record in configs
        if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
    ]
    topic = ResourceType.TOPIC
    return [
        ClearElrRecord(0, record.resource_name if record.resource_type == topic else "")
        for record in changes
    ]


def changed_value(
    change: ConfigChange, key: str, operation: str, value: str | None, current: str | None
) -> str | None:
    """The value after one operation. Source: `incrementalAlterConfigResource`, `getParts`."""
    if operation == "set":
        return value
    if operation == "delete":
        return None
    if (change.resource_type, key) not in LIST_DEFAULTS:
        raise ApiError("INVALID_CONFIG")
    if current is None:
        current = LIST_DEFAULTS[change.resource_type, key]
    parts = [part for part in current.split(",") if part]
    for part in (value or "").split(","):
        if operation == "append" and part not in parts:
            parts.append(part)
        elif operation == "subtract" and part in parts:
            parts.remove(part)
    return ",".join(parts)


def check_config_record(state: ClusterState, record: ConfigRecord) -> None:
    """With ELR on, min.insync.replicas belongs to the cluster. Source: `validateAlterConfig`."""
    of_cluster = record.resource_type == ResourceType.BROKER and record.resource_name == ""
    of_broker = record.resource_type == ResourceType.BROKER and not of_cluster
    is_min_isr = state.elr_on and record.name == MIN_INSYNC_REPLICAS
    if is_min_isr and (of_broker or (of_cluster and record.value is None)):
        raise ApiError("INVALID_CONFIG")
    limited = state.release.refuses_long_config_values
    if limited and record.value is not None and len(record.value) > MOST_CONFIG_CHARACTERS:
        raise ApiError("INVALID_CONFIG")


def check_resource(state: ClusterState, change: ConfigChange) -> None:
    """The topic, broker or controller must be there. Source: ControllerServer's checker."""
    if change.resource_type == ResourceType.TOPIC:
        if change.resource_name not in state.topics_by_name:
            raise ApiError("UNKNOWN_TOPIC_OR_PARTITION")
    elif change.resource_name != "":
        node = int(change.resource_name)
        if node not in state.brokers and node != state.controller_id:
            raise ApiError("BROKER_ID_NOT_REGISTERED")


def alter_config_resource(state: ClusterState, change: ConfigChange) -> list[ConfigRecord]:
    """Records of one resource; one bad key fails it. Source: `incrementalAlterConfigResource`.

    A broker's value that stays the same is written again, so that brokers reload it (KAFKA-14136).
    """
    records = []
    resource = (change.resource_type, change.resource_name)
    for key, operation, value in change.ops:
        current = state.configs.get(resource, {}).get(key)
        changed = changed_value(change, key, operation, value, current)
        if changed != current or change.resource_type == ResourceType.BROKER:
            records.append(
                ConfigRecord(0, change.resource_type, change.resource_name, key, changed)
            )
    for record in records:
        check_config_record(state, record)
    check_resource(state, change)
    return records


def incremental_alter_configs(
    state: ClusterState, changes: list[ConfigChange]
) -> tuple[Records, list[str]]:
    """Section 8.3: records of the good resources, then ClearElr; no election is run.

    Source: `incrementalAlterConfigs`.
    """
    records: Records = []
    codes = []
    for change in changes:
        try:
            records += alter_config_resource(state, change)
            codes.append("NONE")
        except ApiError as error:
            codes.append(error.code)
    check_lengths(records)
    return records + clear_elr_records(state, records), codes


def check_lengths(records: Records) -> None:
    """Raise where a record cannot be written. Source: ConfigRecord.json."""
    for record in records:
        value = record.value if isinstance(record, ConfigRecord) else None
        if value is not None and len(value.encode()) > MOST_CONFIG_CHARACTERS:
            raise FaultError("a value does not fit into a record")


# ---------------------------------------------------------------------------------------- features


def is_supported(state: ClusterState, name: str, level: int) -> bool:
    """Whether this controller and every registered broker support a level.

    Source: FeatureControlManager.java, `reasonNotSupported`.
    """
    ranges = [state.release.supported_features]
    ranges += [dict(registration.features) for registration in state.brokers.values()]
    bounds = [features.get(name, (0, 0)) for features in ranges]
    return all(lowest <= level <= highest for lowest, highest in bounds)


def check_feature(
    state: ClusterState, name: str, level: int, direction: str, proposed: Mapping[str, int]
) -> None:
    """Section 8.4. Source: FeatureControlManager.java, `updateFeature`, `updateMetadataVersion`."""
    of_raft = name == KRAFT_VERSION and state.release.kraft_version_by_raft
    current = state.kraft_version if of_raft else state.features.get(name, 0)
    wrong = (
        level < 0
        or not is_supported(state, name, level)
        or (level < current and direction == "upgrade")
        or (level > current and direction != "upgrade")
    )
    if of_raft:
        wrong = wrong or level < current
    elif name == METADATA_VERSION:
        changed = MetadataVersion(current).metadata_changes_down_to(level)
        wrong = wrong or level < LOWEST_BOOTSTRAP_LEVEL or (level < current and changed)
    elif name not in state.release.supported_features:
        wrong = wrong or state.release.refuses_unknown_features
    elif name == ELR_VERSION and level > 0:
        wrong = wrong or not MetadataVersion(proposed[METADATA_VERSION]).is_elr_supported
    if wrong:
        raise ApiError("INVALID_UPDATE_VERSION")


def elr_safety_records(state: ClusterState) -> Records:
    """With ELR, min.insync.replicas is the cluster's: it gets one, brokers lose theirs.

    Source: ConfigurationControlManager.java, `maybeGenerateElrSafetyRecords`.
    """
    key = MIN_INSYNC_REPLICAS
    of_nodes = [(ResourceType.BROKER, str(node)) for node in state.brokers_with_configs.order()]
    of_cluster = (ResourceType.BROKER, "")
    records: Records = [
        ConfigRecord(0, *node, key, None) for node in of_nodes if key in state.configs[node]
    ]
    if key not in state.configs.get(of_cluster, {}):
        value = state.static_config.get(key, DEFAULTS[key])
        records.insert(0, ConfigRecord(0, *of_cluster, key, value))
    return records


def update_features(
    state: ClusterState, updates: Mapping[str, int], directions: Mapping[str, str]
) -> tuple[Records, str]:
    """Section 8.4: all levels, or none. Source: ConfigurationControlManager.java, `updateFeatures`.

    `directions` says `safe_downgrade` or `unsafe_downgrade`; what it leaves out is an upgrade.
    """
    proposed = {**state.features, **updates}
    records: Records = []
    try:
        for name, level in updates.items():
            check_feature(state, name, level, directions.get(name, "upgrade"), proposed)
            if name != KRAFT_VERSION or not state.release.kraft_version_by_raft:
                records.append(FeatureLevelRecord(0, name, level))
            elif directions.get(name, "upgrade") == "upgrade":
                records.append(NoOpRecord(0))
    except ApiError as error:
        return [], error.code
    if updates.get(ELR_VERSION, 0) > 0:
        records = elr_safety_records(state) + records
    return records, "NONE"
