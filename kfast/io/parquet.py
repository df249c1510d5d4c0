"""A cluster as one Parquet file: the partitions, with the small tables in the file's metadata.

The metadata are those of the Arrow file (`arrow.py`), so that Spark, pandas and DuckDB read the
partitions as they read any Parquet file. There are two forms: `parquet` has list columns, small and
handy; `parquet-flat` has plain integers (`kfast.state.flat`), which are read and written at the
speed of memory. Columns of few different values are dictionary-encoded there, all others plain:
packing the rest would take longer than writing it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from kfast.errors import InputError
from kfast.io.arrow import DAMAGED, embed, extract
from kfast.io.tables import SourceTables
from kfast.io.text import Source
from kfast.state.flat import is_flat

__all__ = ["map_parquet", "read_parquet", "write_flat", "write_parquet"]

MAGIC = b"PAR1"
FEW_VALUES = [
    "topic", "isr", "leader_epoch", "version", "controller_epoch", "states",
    "n_replicas", "flags", "adding", "removing", "offline_dir",
]
"""Columns whose values repeat: their dictionary saves most of the file."""

GROUP_ROWS = 1 << 26
PAGE_BYTES, BATCH_ROWS = 1 << 22, 1 << 18
DICTIONARY_BYTES = 1 << 30
"""A topic's name is written once, however many there are."""


def map_parquet(path: Source) -> SourceTables | None:
    """Read a Parquet file without a copy of its bytes; None where a file is of another kind.

    Returns
    -------
    SourceTables or None
        `partitions` is in the form that the file has.

    Raises
    ------
    InputError
        As `read_parquet`.
    """
    if isinstance(path, tuple):
        return None
    name = os.fspath(path)
    place = Path(name)
    if not place.is_file():
        return None
    try:
        with place.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                return None
        return _read(name, pa.memory_map(name))
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def read_parquet(name: str, data: bytes) -> SourceTables:
    """Read a Parquet file; `partitions` is in the form that the file has.

    Raises
    ------
    InputError
        It is damaged, or not a table of partitions.
    """
    return _read(name, pa.BufferReader(data))


def _read(name: str, source: pa.NativeFile) -> SourceTables:
    try:
        file = pq.ParquetFile(source)
        if is_flat(file.schema_arrow):
            # The footer is not read again; topics stay the few names that they are.
            named = [name for name in file.schema_arrow.names if name == "topic"]
            file = pq.ParquetFile(source, metadata=file.metadata, read_dictionary=named)
            table = file.read(use_threads=False)
        else:
            table = file.read()
        # Parquet's reader takes any bytes for text. Which name a row has is looked at later.
        for column, values in zip(table.column_names, table.columns, strict=True):
            if column == "topic":
                _check_text(values)
    except DAMAGED as error:
        raise InputError(f"{name}: damaged Parquet file: {error}") from error
    return extract(name, table)


def _check_text(values: pa.ChunkedArray) -> None:
    if not pa.types.is_dictionary(values.type):
        values.validate(full=True)
        return
    for chunk in values.chunks:
        chunk.dictionary.validate(full=True)


def write_parquet(tables: SourceTables, file: BinaryIO) -> None:
    """Write a Parquet file with list columns."""
    pq.write_table(embed(tables), file, compression="zstd")


def write_flat(tables: SourceTables, file: BinaryIO) -> None:
    """Write a Parquet file whose partitions are in the flat form."""
    table = embed(tables)
    with pq.ParquetWriter(
        pa.OSFile(file.name, "wb") if _is_plain(file) else file,
        table.schema.remove_metadata(), compression="none", write_statistics=False,
        store_schema=False,
        use_dictionary=[name for name in FEW_VALUES if name in table.column_names],
        dictionary_pagesize_limit=DICTIONARY_BYTES, data_page_size=PAGE_BYTES,
        write_batch_size=BATCH_ROWS,
    ) as writer:
        writer.write_table(table, row_group_size=GROUP_ROWS)
        # Here the metadata stand once, not in a copy of Arrow's schema too.
        writer.add_key_value_metadata(table.schema.metadata)


def _is_plain(file: BinaryIO) -> bool:
    """Whether Arrow may write to the file by its name, which costs no call of Python per page.

    Standard output has a name too, which is not that of a file, and a pipe has no place in it.
    """
    name = getattr(file, "name", None)
    if not isinstance(name, str) or not Path(name).is_file():
        return False
    same = os.path.samestat(Path(name).stat(), os.fstat(file.fileno()))
    return same and file.seekable() and file.tell() == 0
