"""Flat Parquet that kfast wrote, read page by page into the memory of a state.

A file of which anything is not as `kfast.io.flat_pages` writes it is left to Arrow, which reads any
Parquet, and says what is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kfast.errors import InputError
from kfast.io.arrow import DAMAGED, extract
from kfast.io.flat_pages import (
    CREATED_BY,
    DATA_PAGE,
    DICTIONARY_PAGE,
    OFFSET,
    PAGE_ROWS,
    PLAIN,
    RLE_DICTIONARY,
    TOPIC,
)
from kfast.io.tables import SourceTables
from kfast.kernels import pages as kernel
from kfast.state.flat import Arena, flat_schema, is_flat
from kfast.state.records import Rows

__all__ = ["PageRows", "open_pages"]

Bytes = npt.NDArray[np.uint8]

MOST_ROWS = np.iinfo(np.int32).max

KINDS = {(DATA_PAGE, PLAIN), (DATA_PAGE, RLE_DICTIONARY)}
"""Kinds of pages of values, and how they stand there."""


@dataclass(frozen=True)
class _Column:
    """Pages of a column: begin, bytes and encoding of each, and how many places there are."""

    data: Bytes
    pages: Sequence[tuple[int, int, int]]
    n_places: int


class PageRows:
    """A flat file as `kfast.state.loading_flat.FlatRows`."""

    def __init__(
        self, name: str, n_rows: int, topics: pa.StringArray, columns: Mapping[str, _Column],
        room: Arena,
    ) -> None:
        self._name, self._columns, self._room = name, columns, room
        self.names: Sequence[str] = list(columns)
        self.n_rows, self.topics = n_rows, topics

    def read(self) -> Iterator[Mapping[str, Rows]]:
        """See `FlatRows`.

        Raises
        ------
        InputError
            A page is damaged.
        """
        rooms = {
            name: self._room.array(f"block {name}", (PAGE_ROWS,), np.int32)
            for name in self._columns
        }
        for number, start in enumerate(range(0, self.n_rows, PAGE_ROWS)):
            n = min(PAGE_ROWS, self.n_rows - start)
            block = {}
            for name, column in self._columns.items():
                begin, size, encoding = column.pages[number]
                block[name] = rooms[name][:n]
                if not kernel.take_page(
                    column.data[begin : begin + size], encoding == PLAIN,
                    0 if name == TOPIC else OFFSET, column.n_places, block[name],
                ):
                    raise InputError(
                        f"{self._name}: damaged Parquet file: column {name}, rows {start} to"
                        f" {start + n - 1}"
                    )
            yield block


def open_pages(name: str, room: Arena) -> tuple[SourceTables, PageRows] | None:
    """Open a flat file that `flat_pages` wrote, without reading its rows; None for any other.

    Parameters
    ----------
    name : str
    room : Arena
        Memory for the rows that are read.

    Returns
    -------
    tables : SourceTables
        Without rows in its partitions.
    rows : PageRows
    """
    try:
        return _open(name, room)
    except DAMAGED:
        return None


def _open(name: str, room: Arena) -> tuple[SourceTables, PageRows] | None:
    buffer = pa.memory_map(name).read_buffer()
    file = pq.ParquetFile(pa.BufferReader(buffer))
    about, found = file.metadata, file.schema_arrow
    if not 0 <= about.num_rows <= MOST_ROWS or about.created_by != CREATED_BY:
        return None
    if about.num_row_groups != 1 or not is_flat(found):
        return None
    if not flat_schema(found.names).equals(found.remove_metadata()):
        return None
    group, data = about.row_group(0), np.frombuffer(buffer, np.uint8)
    columns = {}
    topics = pa.array([], pa.string())
    for at, column_name in enumerate(found.names):
        dictionary, column = _find_pages(group.column(at), data, about.num_rows)
        if column is None:
            return None
        if column_name == TOPIC:
            topics = _take_strings(dictionary, column.n_places)
            if topics is None or any(kind != RLE_DICTIONARY for _, _, kind in column.pages):
                return None
        elif dictionary.size != 4 * column.n_places or not np.array_equal(
            dictionary.view("<i4"), np.arange(-OFFSET, column.n_places - OFFSET)
        ):
            return None
        columns[column_name] = column
    rows = PageRows(name, about.num_rows, topics, columns, room)
    return extract(name, found.empty_table()), rows


def _find_pages(
    chunk: pq.ColumnChunkMetaData, data: Bytes, n_rows: int
) -> tuple[Bytes, _Column | None]:
    """The page of a column's dictionary, empty where there is none; and its other pages."""
    begin = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None:
        begin = chunk.dictionary_page_offset
    size = chunk.total_compressed_size
    if chunk.compression != "UNCOMPRESSED" or not 0 <= begin <= begin + size <= data.size:
        return data[:0], None
    part = data[begin : begin + size]
    found = np.empty((n_rows // PAGE_ROWS + 3, 5), np.int64)
    pages: list[list[int]] = found[: max(kernel.list_pages(part, found), 0)].tolist()
    dictionary, n_places = part[:0], 0
    if pages and pages[0][0] == DICTIONARY_PAGE:
        _, at, length, n_places, encoding = pages.pop(0)
        dictionary = part[at : at + length]
        if encoding != PLAIN:
            return dictionary, None
    wanted = [min(PAGE_ROWS, n_rows - start) for start in range(0, n_rows, PAGE_ROWS)]
    kinds = {(kind, encoding) for kind, _, _, _, encoding in pages}
    if [page[3] for page in pages] != wanted or not kinds <= KINDS:
        return dictionary, None
    return dictionary, _Column(part, [(at, n, code) for _, at, n, _, code in pages], n_places)


def _take_strings(page: Bytes, n: int) -> pa.StringArray | None:
    """Strings of a plain page; None where it is not one of so many."""
    if n * 4 > page.size:
        return None
    offsets, data = np.empty(n + 1, np.int32), np.empty(max(page.size, 1), np.uint8)
    if not kernel.take_strings(page, offsets, data):
        return None
    names = pa.StringArray.from_buffers(n, pa.py_buffer(offsets), pa.py_buffer(data))
    try:
        names.validate(full=True)
    except DAMAGED:
        return None
    return names
