"""A cluster as one Parquet file: the partitions, with the small tables in the file's metadata.

The metadata are those of the Arrow file (`arrow.py`), so that Spark, pandas and DuckDB read the
partitions as they read any Parquet file.
"""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from kfast.errors import InputError
from kfast.io.arrow import DAMAGED, embed, extract
from kfast.io.tables import SourceTables

__all__ = ["read_parquet", "write_parquet"]


def read_parquet(name: str, data: bytes) -> SourceTables:
    """Read a Parquet file.

    Raises
    ------
    InputError
        It is damaged, or not a table of partitions.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
        # Parquet's reader takes any bytes for text.
        for column, values in zip(table.column_names, table.columns, strict=True):
            if column == "topic":
                values.validate(full=True)
    except DAMAGED as error:
        raise InputError(f"{name}: damaged Parquet file: {error}") from error
    return extract(name, table)


def write_parquet(tables: SourceTables, file: BinaryIO) -> None:
    """Write a Parquet file."""
    pq.write_table(embed(tables), file, compression="zstd")
