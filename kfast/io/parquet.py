"""A cluster as one Parquet file: the partitions, with the small tables in the file's metadata.

The metadata are those of the Arrow file (`arrow.py`), so that Spark, pandas and DuckDB read the
partitions as they read any Parquet file. There are two forms: `parquet` has list columns, small and
handy; `parquet-flat` has plain integers (`kfast.state.flat`), which are read and written at the
speed of memory (`kfast.io.flat_pages`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kfast.errors import InputError
from kfast.io.arrow import DAMAGED, embed, extract, extract_flat, metadata_of
from kfast.io.flat_pages import MAGIC, PAGE_ROWS, PageWriter
from kfast.io.tables import SourceTables
from kfast.io.text import Source
from kfast.state.columns import Columns
from kfast.state.flat import Arena, flat_schema, is_flat

__all__ = ["map_parquet", "read_parquet", "write_flat", "write_parquet"]

LIST_GROUP_ROWS = 1 << 18
"""Rows of a row group with lists: who wants some rows of a large file reads few others."""


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
    pq.write_table(embed(tables), file, compression="zstd", row_group_size=LIST_GROUP_ROWS)


def write_flat(tables: SourceTables, file: BinaryIO) -> None:
    """Write a Parquet file whose partitions are in the flat form.

    Raises
    ------
    InputError
        A column that every flat table has is missing, null somewhere, or of another type.
    """
    table = extract_flat(tables.source, tables.partitions)
    rows = Columns(table, flat_schema(table.column_names), "partitions", tables.source)
    topic = rows.dictionary("topic")
    columns = {"topic": np.asarray(topic.indices, np.int32)}
    columns |= {name: rows.integers(name, 0) for name in table.column_names if name != "topic"}
    pages = PageWriter(table.num_rows, topic.dictionary.cast(pa.string()), Arena())
    # Of no rows too, so that there are columns.
    for start in range(0, max(table.num_rows, 1), PAGE_ROWS):
        part = slice(start, start + PAGE_ROWS)
        pages.add({name: np.ascontiguousarray(v[part]) for name, v in columns.items()})
    pages.write(file, metadata_of(tables))
