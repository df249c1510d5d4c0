"""Fields of the records of a metadata log, said once: for reading them, and for writing them.

A field has the name that its class in `kfast.state.metadata_records` has; Kafka's own texts write
it in camel case.

Source: docs/kraft.md, section 12.2; Kafka 4.3, metadata/src/main/resources/common/metadata/*.json.
"""

from __future__ import annotations

import base64
import dataclasses
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from kfast.kernels.metadata_log import checksum
from kfast.kernels.metadata_records import Kind, decode
from kfast.state import metadata_records as records
from kfast.state.metadata_records import API_KEYS, Endpoint, MetadataRecord, OtherRecord

__all__ = ["FIELDS", "STATELESS", "VERSIONS", "decode_record", "encode_batch", "encode_record"]

Bytes: TypeAlias = bytes | bytearray | memoryview
Field: TypeAlias = tuple[str, int, int, int, object, bool, tuple[Any, ...]]
"""Name, kind, first version, tag, default, whether it is given when absent, fields within."""

STATELESS = {
    "DELEGATION_TOKEN": 10, "USER_SCRAM_CREDENTIAL": 11, "CLIENT_QUOTA": 14, "PRODUCER_IDS": 15,
    "ACCESS_CONTROL_ENTRY": 18, "REMOVE_ACCESS_CONTROL_ENTRY": 19,
    "REMOVE_USER_SCRAM_CREDENTIAL": 22, "REMOVE_DELEGATION_TOKEN": 26,
}
"""Api keys of the records that say nothing of the state, by what Kafka calls them."""

_CONTROL = 32
"""Attribute of a control batch."""
_BEFORE_BODY = 9
"""Bytes between a batch's length and what its checksum is of."""

_STRUCTS = {
    Kind.INT8: ">b", Kind.INT16: ">h", Kind.UINT16: ">H", Kind.INT32: ">i", Kind.INT64: ">q",
    Kind.BOOL: ">?",
}
_ARRAY_OF = {kind: int(kind) + int(Kind.ARRAY) for kind in Kind}


def _field(
    name: str, kind: int, *, since: int = 0, tag: int = -1, default: object = None,
    required: bool = False, of: tuple[Field, ...] = (),
) -> Field:
    """A field as `kfast.kernels.metadata_records` takes it."""
    return name, int(kind), since, tag, default, required, of


_ENDPOINTS = _field("end_points", _ARRAY_OF[Kind.STRUCTURE], of=(
    _field("name", Kind.TEXT), _field("host", Kind.TEXT), _field("port", Kind.UINT16),
    _field("security_protocol", Kind.INT16),
))
_FEATURES = _field("features", _ARRAY_OF[Kind.STRUCTURE], of=(
    _field("name", Kind.TEXT), _field("min_supported_version", Kind.INT16),
    _field("max_supported_version", Kind.INT16),
))
_BROKERS, _IDS = _ARRAY_OF[Kind.INT32], _ARRAY_OF[Kind.ID]
_BROKER = (_field("id", Kind.INT32), _field("epoch", Kind.INT64))

FIELDS: Mapping[type, tuple[int, tuple[Field, ...]]] = {
    records.RegisterBrokerRecord: (4, (
        _field("broker_id", Kind.INT32),
        _field("is_migrating_zk_broker", Kind.BOOL, since=2),
        _field("incarnation_id", Kind.ID),
        _field("broker_epoch", Kind.INT64),
        _ENDPOINTS,
        _FEATURES,
        _field("rack", Kind.TEXT_OR_NULL),
        _field("fenced", Kind.BOOL),
        _field("in_controlled_shutdown", Kind.BOOL, since=1),
        _field("log_dirs", _IDS, since=3, tag=0, default=()),
        _field("cordoned_log_dirs", _IDS, since=4, tag=1),
    )),
    records.UnregisterBrokerRecord: (0, (
        _field("broker_id", Kind.INT32), _field("broker_epoch", Kind.INT64),
    )),
    records.TopicRecord: (0, (_field("name", Kind.TEXT), _field("topic_id", Kind.ID))),
    records.PartitionRecord: (2, (
        _field("partition_id", Kind.INT32),
        _field("topic_id", Kind.ID),
        _field("replicas", _BROKERS),
        _field("isr", _BROKERS),
        _field("removing_replicas", _BROKERS),
        _field("adding_replicas", _BROKERS),
        _field("leader", Kind.INT32),
        _field("leader_recovery_state", Kind.INT8, tag=0, default=0, required=True),
        _field("leader_epoch", Kind.INT32),
        _field("partition_epoch", Kind.INT32),
        _field("directories", _IDS, since=1),
        _field("eligible_leader_replicas", _BROKERS, since=2, tag=1),
        _field("last_known_elr", _BROKERS, since=2, tag=2),
    )),
    records.ConfigRecord: (0, (
        _field("resource_type", Kind.INT8), _field("resource_name", Kind.TEXT),
        _field("name", Kind.TEXT), _field("value", Kind.TEXT_OR_NULL),
    )),
    records.PartitionChangeRecord: (2, (
        _field("partition_id", Kind.INT32),
        _field("topic_id", Kind.ID),
        _field("isr", _BROKERS, tag=0),
        _field("leader", Kind.INT32, tag=1, default=-2),
        _field("replicas", _BROKERS, tag=2),
        _field("removing_replicas", _BROKERS, tag=3),
        _field("adding_replicas", _BROKERS, tag=4),
        _field("leader_recovery_state", Kind.INT8, tag=5, default=-1),
        _field("eligible_leader_replicas", _BROKERS, since=2, tag=6),
        _field("last_known_elr", _BROKERS, since=2, tag=7),
        _field("directories", _IDS, since=1, tag=8),
    )),
    records.FenceBrokerRecord: (0, _BROKER),
    records.UnfenceBrokerRecord: (0, _BROKER),
    records.RemoveTopicRecord: (0, (_field("topic_id", Kind.ID),)),
    records.FeatureLevelRecord: (0, (
        _field("name", Kind.TEXT), _field("feature_level", Kind.INT16),
    )),
    records.BrokerRegistrationChangeRecord: (3, (
        _field("broker_id", Kind.INT32),
        _field("broker_epoch", Kind.INT64),
        _field("fenced", Kind.INT8, tag=0, default=0),
        _field("in_controlled_shutdown", Kind.INT8, since=1, tag=1, default=0),
        _field("log_dirs", _IDS, since=2, tag=2, default=()),
        _field("cordoned_log_dirs", _IDS, since=3, tag=3),
    )),
    records.NoOpRecord: (0, ()),
    records.ZkMigrationStateRecord: (0, (_field("zk_migration_state", Kind.INT8),)),
    records.BeginTransactionRecord: (0, (_field("name", Kind.TEXT_OR_NULL, tag=0),)),
    records.EndTransactionRecord: (0, ()),
    records.AbortTransactionRecord: (0, (_field("reason", Kind.TEXT_OR_NULL, tag=0),)),
    records.RegisterControllerRecord: (0, (
        _field("controller_id", Kind.INT32),
        _field("incarnation_id", Kind.ID),
        _field("zk_migration_ready", Kind.BOOL),
        _ENDPOINTS,
        _FEATURES,
    )),
    records.ClearElrRecord: (0, (_field("topic_name", Kind.TEXT),)),
}
"""Of each class the highest version that is known, and its fields in the order of the wire."""

_CLASSES = {key: kind for kind, key in API_KEYS.items()}
_SCHEMAS = {API_KEYS[kind]: fields for kind, (_, fields) in FIELDS.items()}
VERSIONS = np.full(64, -1, np.int16)
"""The highest version that is known of each api key; of what has no cluster state, any."""
for _kind, (_version, _fields) in FIELDS.items():
    VERSIONS[API_KEYS[_kind]] = _version
VERSIONS[[*STATELESS.values()]] = np.iinfo(np.int16).max


def decode_record(data: Bytes, at: int, length: int, key: int) -> MetadataRecord | None:
    """Decode a record whose api key and version are known ones; None where it is damaged."""
    kind = _CLASSES.get(key)
    if kind is None:
        return OtherRecord(0, key)
    try:
        decoded = decode(data, at, length, _SCHEMAS)
    except UnicodeDecodeError:
        return None
    if decoded is None:
        return None
    version, values = decoded
    if "features" in values:
        values["features"] = {
            feature["name"]: (feature["min_supported_version"], feature["max_supported_version"])
            for feature in values["features"]
        }
        values["end_points"] = tuple(Endpoint(**point) for point in values["end_points"])
    record: MetadataRecord = kind(version=version, **values)
    return record


# ---------------------------------------------------------------------------------- writing


def _varint(value: int) -> bytes:
    """An unsigned number."""
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*parts, value))


def _encode_one(kind: int, fields: tuple[Field, ...], version: int, value: Any) -> bytes:
    """One value, no array."""
    if kind in _STRUCTS:
        return struct.pack(_STRUCTS[Kind(kind)], value)
    if kind == Kind.ID:
        return base64.urlsafe_b64decode(value + "==")
    if kind == Kind.STRUCTURE:
        return _encode_fields(fields, version, value)
    if value is None:
        return b"\0"
    text: bytes = value.encode()
    return _varint(len(text) + 1) + text


def _encode_value(field: Field, version: int, value: Any) -> bytes:
    """The value of a field."""
    kind, fields = field[1], field[6]
    if kind < Kind.ARRAY:
        return _encode_one(kind, fields, version, value)
    if value is None:
        return b"\0"
    items = [_encode_one(kind - Kind.ARRAY, fields, version, item) for item in value]
    return _varint(len(items) + 1) + b"".join(items)


def _encode_fields(fields: tuple[Field, ...], version: int, values: Mapping[str, Any]) -> bytes:
    """A structure: its fields, then those with tags that are not as they are by default."""
    parts, tagged = [], []
    for field in fields:
        name, _, since, tag, default, _, _ = field
        if since > version:
            continue
        if tag < 0:
            parts.append(_encode_value(field, version, values[name]))
        elif values.get(name) is not None and values[name] != default:
            data = _encode_value(field, version, values[name])
            tagged.append((tag, _varint(tag) + _varint(len(data)) + data))
    return b"".join((*parts, _varint(len(tagged)), *(data for _, data in sorted(tagged))))


def encode_record(record: MetadataRecord) -> bytes:
    """The value of a record as the log has it."""
    if isinstance(record, OtherRecord):
        return bytes((1, record.api_key, 0, 0))
    values = {item.name: getattr(record, item.name) for item in dataclasses.fields(record)}
    if "features" in values:
        values["features"] = [
            {"name": name, "min_supported_version": low, "max_supported_version": high}
            for name, (low, high) in values["features"].items()
        ]
        values["end_points"] = [dataclasses.asdict(point) for point in values["end_points"]]
    version = record.version
    head = bytes((1, API_KEYS[type(record)])) + _varint(version)
    return head + _encode_fields(FIELDS[type(record)][1], version, values)


def _zigzag(value: int) -> bytes:
    """A signed number."""
    return _varint((value << 1) ^ (value >> 63))


def _framed(delta: int, key: bytes | None, value: bytes) -> bytes:
    """A record of a batch, at the batch's time."""
    keyed = _zigzag(-1) if key is None else _zigzag(len(key)) + key
    body = b"\0" + _zigzag(0) + _zigzag(delta) + keyed + _zigzag(len(value)) + value + _zigzag(0)
    return _zigzag(len(body)) + body


def encode_batch(
    offset: int, epoch: int, time_ms: int, values: Sequence[bytes], *, control: int | None = None
) -> bytes:
    """A batch of values of records; `control` is the type of the one in a control batch."""
    key = None if control is None else struct.pack(">hh", 0, control)
    body = struct.pack(
        ">hiqqqhii", 0 if control is None else _CONTROL, len(values) - 1, time_ms, time_ms, -1, -1,
        -1, len(values),
    ) + b"".join(_framed(delta, key, value) for delta, value in enumerate(values))
    head = struct.pack(">qiibI", offset, len(body) + _BEFORE_BODY, epoch, 2, checksum(body))
    return head + body
