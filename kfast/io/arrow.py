"""A cluster as one Arrow IPC file: the partitions, with the small tables in the schema's metadata.

Any Arrow reader sees a table of partitions, whose columns are lossless and may be memory-mapped.
The tables of brokers, topics and cluster stand in the metadata under `kfast.brokers`, ... as IPC
streams in base64, for metadata must be text. A file without them is read as what it has.
"""

from __future__ import annotations

import base64
import binascii
from typing import BinaryIO

import pyarrow as pa

from kfast import schema
from kfast.errors import InputError
from kfast.io.files import one_line
from kfast.io.source_tables import SourceTables, cast_columns
from kfast.state.flat_table import (
    REQUIRED,
    count_slots,
    flat_schema,
    is_flat,
    with_dictionaries,
)

__all__ = [
    "DAMAGED",
    "embed",
    "extract",
    "extract_flat",
    "metadata_of",
    "read_arrow",
    "write_arrow",
]

DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises on damaged files; the last for names of columns."""

_VERSION_KEY = b"kfast.version"
_VERSION, _KRAFT_VERSION = b"1", b"2"
"""Of tables of a ZooKeeper and of a KRaft cluster: a kfast that knows only the first would take the
second for the first."""
_EMBEDDED = {
    "brokers": schema.BROKERS_SCHEMA,
    "topics": schema.TOPICS_SCHEMA,
    "cluster": schema.CLUSTER_SCHEMA,
    "provenance": schema.PROVENANCE.schema,
}
_STREAM = b"\xff\xff\xff\xff"
_KEYS = ("topic", "partition")
_KEY_OF = {"brokers": "broker_id", "topics": "topic"}


def embed(tables: SourceTables) -> pa.Table:
    """The partitions table with the other tables in its metadata."""
    return tables.partitions.replace_schema_metadata(metadata_of(tables))


def metadata_of(tables: SourceTables) -> dict[bytes, bytes]:
    """The metadata of a file: the tables beside the partitions; provenance of several files."""
    metadata = {_VERSION_KEY: _KRAFT_VERSION if tables.is_kraft else _VERSION}
    for name in _EMBEDDED:
        table = getattr(tables, name)
        if table is not None and not (name == "provenance" and table.num_rows == 1):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            metadata[f"kfast.{name}".encode()] = base64.b64encode(sink.getvalue())
    return metadata


def extract(name: str, table: pa.Table) -> SourceTables:
    """The tables of a cluster, from a partitions table with or without the others.

    Raises
    ------
    InputError
        A key column of any table is missing, a column has another type, or kfast does not know the
        version.
    """
    metadata = table.schema.metadata or {}
    version = metadata.get(_VERSION_KEY, _VERSION)
    if version not in (_VERSION, _KRAFT_VERSION):
        raise InputError(
            f"{name}: found version {version.decode(errors='replace')} of kfast's tables; this"
            f" kfast reads versions {_VERSION.decode()} and {_KRAFT_VERSION.decode()}"
        )
    if missing := [key for key in _KEYS if key not in table.column_names]:
        raise InputError(
            f"{name}: no column {' and '.join(missing)}; right is a table of partitions with topic,"
            f" partition, replicas, ...: found {', '.join(table.column_names) or 'no column'}"
        )
    found = {}
    for part, kind in _EMBEDDED.items():
        stored = metadata.get(f"kfast.{part}".encode())
        if stored is not None:
            try:
                whole = pa.ipc.open_stream(base64.b64decode(stored, validate=True)).read_all()
                whole.validate(full=True)
            except (*DAMAGED, binascii.Error) as error:
                raise InputError(
                    f"{name}: the table of {part} in it is damaged: {error}"
                ) from error
            found[part] = _cast(name, part, whole, kind)
            key = _KEY_OF.get(part)
            if key is not None and key not in whole.column_names:
                raise InputError(f"{name}: the table of {part} in it has no column {key}")
    if table.column_names.count("topic") > 1:
        raise InputError(f"{name}: column topic of partitions stands twice")
    if is_flat(table):
        return SourceTables(name, extract_flat(name, table), **found)
    topic = table["topic"]
    partitions = _cast(name, "partitions", table.drop_columns("topic"), schema.PARTITIONS_SCHEMA)
    if not pa.types.is_dictionary(topic.type):
        topic = _cast(name, "partitions", table.select(["topic"]), schema.PARTITIONS_SCHEMA)[
            "topic"
        ]
    partitions = partitions.add_column(0, "topic", topic)
    return SourceTables(source=name, partitions=partitions, **found)


def extract_flat(name: str, table: pa.Table) -> pa.Table:
    """The columns of a flat table, in kfast's types; topics may stay dictionary-encoded.

    Raises
    ------
    InputError
        A column that every flat table has is missing, null somewhere, or of another type.
    """
    count_slots(table.column_names, name)
    if missing := [column for column in REQUIRED if column not in table.column_names]:
        raise InputError(f"{name}: no column {' and '.join(missing)} beside replica_0")
    kind = flat_schema(table.column_names)
    kind = with_dictionaries(kind, {name: table[name] for name in kind.names})
    flat = _cast(name, "partitions", table, kind)
    if empty := [column for column in kind.names if flat[column].null_count]:
        raise InputError(f"{name}: column {' and '.join(empty)} has rows that say nothing")
    return flat


def _cast(name: str, part: str, table: pa.Table, kind: pa.Schema) -> pa.Table:
    """Cast a table's columns to kfast's types."""
    names = table.column_names
    if twice := [column for column in kind.names if names.count(column) > 1]:
        raise InputError(f"{name}: column {twice[0]} of {part} stands twice")
    try:
        return cast_columns(table, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        columns = ", ".join(f"{f.name} {f.type}" for f in kind if f.name in table.column_names)
        raise InputError(
            f"{name}: a column of {part} has another type: {error}; right is {columns}"
        ) from error


def read_arrow(name: str, data: bytes) -> SourceTables:
    """Read an Arrow IPC file or stream.

    Raises
    ------
    InputError
        It is damaged, or not a table of partitions.
    """
    try:
        opened = pa.ipc.open_stream(data) if data.startswith(_STREAM) else pa.ipc.open_file(data)
        table = opened.read_all()
        # In full: offsets that damage has turned backwards would lead the kernels astray.
        table.validate(full=True)
    except DAMAGED as error:
        raise InputError(f"{name}: damaged Arrow file: {one_line(error)}") from error
    return extract(name, table)


def write_arrow(tables: SourceTables, file: BinaryIO) -> None:
    """Write an Arrow IPC file."""
    table = embed(tables)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
