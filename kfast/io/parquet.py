"""A cluster as one Parquet file: the partitions, with the small tables in the file's metadata.

The metadata are those of the Arrow file (`arrow.py`), so that Spark, pandas and DuckDB read the
partitions as they read any Parquet file. There are two forms: `parquet` has list columns, small and
handy; `parquet-flat` has plain integers (`kfast.state.flat_table`), which are read and written ten
times faster: topics as places in a dictionary, the other columns plain, all of it packed by LZ4.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from kfast.errors import InputError
from kfast.io.arrow import DAMAGED, embed, extract, extract_flat
from kfast.io.files import Source, one_line
from kfast.io.source_tables import SourceTables
from kfast.state.flat_table import is_flat
from kfast.state.quorum_flat import DIRECTORY

__all__ = ["map_parquet", "read_parquet", "write_flat", "write_parquet"]

MAGIC = b"PAR1"

LIST_GROUP_ROWS, FLAT_GROUP_ROWS = 1 << 18, 1 << 20
"""Rows of a row group: who wants some rows of a large file with lists reads few others; flat row
groups are large, for the dictionaries of topics of several are joined when they are read."""


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
            named = _text_columns(file.schema_arrow.names)
            file = pq.ParquetFile(source, metadata=file.metadata, read_dictionary=named)
            table = file.read(use_threads=False)
        else:
            table = file.read()
        # Parquet's reader takes any bytes for text. Which name a row has is looked at later.
        for column, values in zip(table.column_names, table.columns, strict=True):
            if column in _text_columns(table.column_names):
                _check_text(values)
    except DAMAGED as error:
        raise InputError(f"{name}: damaged Parquet file: {one_line(error)}") from error
    return extract(name, table)


def _text_columns(names: list[str]) -> list[str]:
    """Columns of a flat table that have few different texts."""
    return [name for name in names if name == "topic" or name.startswith(DIRECTORY)]


def _check_text(values: pa.ChunkedArray) -> None:
    if not pa.types.is_dictionary(values.type):
        values.validate(full=True)
        return
    for chunk in values.chunks:
        chunk.dictionary.validate(full=True)


def write_parquet(tables: SourceTables, file: BinaryIO) -> None:
    """Write a Parquet file with list columns."""
    pq.write_table(embed(tables), file, compression="zstd", row_group_size=LIST_GROUP_ROWS)


def write_flat(tables: SourceTables, file: BinaryIO) -> None:
    """Write a Parquet file whose partitions are in the flat form.

    Raises
    ------
    InputError
        A column that every flat table has is missing, null somewhere, or of another type.
    """
    flat = replace(tables, partitions=extract_flat(tables.source, tables.partitions))
    pq.write_table(
        embed(flat), file, compression="lz4", write_statistics=False,
        use_dictionary=_text_columns(flat.partitions.column_names), row_group_size=FLAT_GROUP_ROWS,
    )
