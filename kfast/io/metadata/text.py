"""The text of `kafka-dump-log --cluster-metadata-decoder`, read as the files that it shows.

Every batch of the text becomes the bytes of a batch again, so that a text and its file are read by
the same rules.

Source: docs/kraft.md, section 12; Kafka 4.1, DumpLogSegments.java, `dumpLog`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import msgspec

from kfast.errors import InputError
from kfast.io.files import check_utf8, quote
from kfast.io.metadata.files import HEAD, MetadataFile, classify
from kfast.io.metadata.schema import FIELDS, STATELESS, encode_batch, encode_record
from kfast.kernels.metadata_records import Kind
from kfast.state.metadata_records import API_KEYS, Endpoint, MetadataRecord, OtherRecord

__all__ = ["files_in", "read_dump"]

_FILE = re.compile(r"Dumping (.*\S)\s*$")
_BATCH = re.compile(
    r"baseOffset: (\d{1,18}) .*\bcount: (\d{1,9}) .*\bpartitionLeaderEpoch: (-?\d{1,9}) "
)
_IS_CONTROL = "isControl: true"
_INVALID = "isvalid: false"
_TIME = re.compile(r"CreateTime: (\d{1,18}) ")
_RECORD = re.compile(r"\|?\s*offset: (\d{1,18}) .*?headerKeys: \[[^\]]*\] (\S.*)$")
_PAYLOAD = "payload: "
_CONTROLS = {
    "LeaderChange": 2, "SnapshotHeader": 3, "SNAPSHOT_HEADER": 3, "SnapshotFooter": 4,
    "SNAPSHOT_FOOTER": 4, "KRaftVersion": 5, "KRaftVoters": 6,
}
_LEADER = re.compile(r'"leaderId":\s*(\d{1,9})\b')
_HEADER_TIME = re.compile(r'"lastContainedLogTimestamp":\s*(\d{1,18})\b')
_CLASSES = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).upper(): kind for kind in API_KEYS
}
"""Classes by what Kafka calls a type: `PARTITION_CHANGE_RECORD`."""


class _Payload(msgspec.Struct):
    type: str
    version: int
    data: dict[str, Any]


@dataclass
class _Batch:
    """A batch of the text."""

    line: int
    offset: int
    count: int
    epoch: int
    time_ms: int
    control: int | None = None
    values: list[bytes] = field(default_factory=list)


def files_in(name: str, data: bytes, kind: str) -> list[MetadataFile] | None:
    """The files of a metadata log that a file of a kind holds: itself, or those that it shows.

    `kind` is that of `file_kinds.recognise`. None where it has nothing to do with such a log.
    """
    if kind == "metadata dump":
        check_utf8(name, data)
        return read_dump(name, data)
    file = classify((name, data), data[:HEAD]) if kind == "metadata" else None
    return None if file is None else [file]


def read_dump(name: str, data: bytes) -> list[MetadataFile]:
    """The files that a text shows.

    Parameters
    ----------
    name : str
        What messages call the text.
    data : bytes
        UTF-8.

    Raises
    ------
    InputError
        The text is cut off, a line is damaged, or a record in it is of an unknown type.
    """
    files: dict[str, list[bytes]] = {}
    for shown, batch in _batches(name, data.decode()):
        part = files.setdefault(shown, [])
        if batch is None:
            continue
        if len(batch.values) != batch.count:
            raise InputError(
                f"{name} line {batch.line}: the batch has {batch.count} records, of which the text"
                f" shows {len(batch.values)}: it is cut off, or was printed without records"
            )
        part.append(encode_batch(
            batch.offset, batch.epoch, batch.time_ms, batch.values, control=batch.control
        ))
    metadata_files = []
    for shown, parts in files.items():
        content = b"".join(parts)
        file = classify((f"{name} ({shown})" if shown else name, content), content[:HEAD])
        if file is not None:
            metadata_files.append(file)
    if not metadata_files:
        raise InputError(
            f"{name}: shows no batch; right is the output of kafka-dump-log"
            " --cluster-metadata-decoder, with its lines of baseOffset and of offset"
        )
    return metadata_files


def _batches(name: str, text: str) -> Iterator[tuple[str, _Batch | None]]:
    """The batches of a text, each with the file that it is of; and each file, without one."""
    shown, batch = "", None
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _FILE.match(line):
            if batch is not None:
                yield shown, batch
            shown, batch = PurePath(match[1]).name, None
            yield shown, None
        elif match := _BATCH.match(line):
            if batch is not None:
                yield shown, batch
            if _INVALID in line:
                raise InputError(f"{name} line {number}: the batch is invalid: its file is damaged")
            time = _TIME.search(line)
            batch = _Batch(
                number, int(match[1]), int(match[2]), int(match[3]), int(time[1]) if time else 0
            )
        elif match := _RECORD.match(line):
            if batch is None or int(match[1]) != batch.offset + len(batch.values):
                raise InputError(
                    f"{name} line {number}: found {quote(line)}; right is a line of its batch"
                    " (baseOffset) and all of its records before it"
                )
            _add_record(f"{name} line {number}", batch, match[2])
    if batch is not None:
        yield shown, batch


def _add_record(where: str, batch: _Batch, text: str) -> None:
    """Add the record that the end of a line shows: a payload, or a control record."""
    if text.startswith(_PAYLOAD):
        payload = _payload(where, text.removeprefix(_PAYLOAD))
        values = _values(where, payload)
        try:
            batch.values.append(encode_record(_record(payload, values)))
        except (struct.error, TypeError, ValueError, LookupError, AttributeError) as error:
            raise InputError(
                f"{where}: a value in a {payload.type} is not what its field holds: {error}"
            ) from error
        return
    text = text.removeprefix("controlType: ")
    word = re.match(r"\w*", text)
    kind = _CONTROLS.get(word[0] if word else "")
    if kind is None:
        raise InputError(f"{where}: found {quote(text)}; right is a payload or a control record")
    batch.control = kind
    if kind == _CONTROLS["LeaderChange"]:
        leader = _LEADER.search(text)
        value = struct.pack(">hibbb", 0, int(leader[1]) if leader else -1, 1, 1, 0)
    elif kind == _CONTROLS["SnapshotHeader"]:
        time = _HEADER_TIME.search(text)
        value = struct.pack(">hqb", 0, int(time[1]) if time else batch.time_ms, 0)
    else:
        value = b"\0\0\0"
    batch.values.append(value)


def _payload(where: str, text: str) -> _Payload:
    try:
        return msgspec.json.decode(text, type=_Payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{where}: damaged JSON: {error}") from error


def _values(where: str, payload: _Payload) -> dict[str, Any]:
    """The fields of the record that a payload shows; none of one that does not matter."""
    kind = _CLASSES.get(payload.type)
    if kind is None:
        key = STATELESS.get(payload.type.removesuffix("_RECORD"))
        if key is None:
            raise InputError(
                f"{where}: a record has the unknown type {payload.type}: the log was written by a"
                " Kafka that kfast does not know"
            )
        return {}
    highest, fields = FIELDS[kind]
    if not 0 <= payload.version <= highest:
        raise InputError(
            f"{where}: a {payload.type} has the unknown version {payload.version}; known is at most"
            f" {highest}"
        )
    values: dict[str, Any] = {}
    for name, code, since, tag, default, required, _ in fields:
        shown = _camel(name)
        if shown in payload.data:
            value = payload.data[shown]
            values[name] = tuple(value) if isinstance(value, list) else value
        elif tag < 0 and since <= payload.version:
            if code == Kind.TEXT_OR_NULL:
                values[name] = None
                continue
            raise InputError(f"{where}: a {payload.type} lacks {shown}")
        elif required:
            values[name] = default
    return values


def _record(payload: _Payload, values: dict[str, Any]) -> MetadataRecord:
    """The record that a payload shows."""
    kind = _CLASSES.get(payload.type)
    if kind is None:
        return OtherRecord(0, STATELESS[payload.type.removesuffix("_RECORD")])
    if "features" in values:
        values["features"] = {
            of["name"]: (of["minSupportedVersion"], of["maxSupportedVersion"])
            for of in values["features"]
        }
        values["end_points"] = tuple(
            Endpoint(of["name"], of["host"], of["port"], of["securityProtocol"])
            for of in values["end_points"]
        )
    record: MetadataRecord = kind(version=payload.version, **values)
    return record


def _camel(name: str) -> str:
    """A field's name as Kafka's texts write it."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
