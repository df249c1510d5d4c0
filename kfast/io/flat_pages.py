"""Flat Parquet, written at the speed of memory: nothing is looked up, packed or compressed.

A column's dictionary is -1, 0, 1, ... up to its highest value, so that a value's place is the value
and 1, written in one or two whole bytes (`kfast.kernels.pages`); rows that are equal to the ones
before take next to nothing. Any reader of Parquet takes such a file as any other. Arrow's writer
makes a file twice as long in four times the time: it looks every value up.

Source: Apache Parquet, `parquet.thrift` and `Encodings.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.io.thrift import Long, Struct, Value, write_struct
from kfast.kernels import pages as kernel
from kfast.state import ClusterState
from kfast.state.flat import BLOCK_ROWS, Arena, list_columns, list_some, place_topics
from kfast.state.records import Rows

__all__ = ["CREATED_BY", "MAGIC", "PAGE_ROWS", "PageWriter", "StatePages"]

MAGIC = b"PAR1"
CREATED_BY = "kfast-flat version 1.0.0"
"""Who wrote a file whose pages are as described here."""

PAGE_ROWS = BLOCK_ROWS
"""Rows of a page."""

MOST_PLACES, FEWEST_PLACES = 1 << 16, 256
"""Sizes that a dictionary may have: places fit two bytes, and few rows have a small one."""

TOPIC = "topic"
OFFSET = 1
"""Place of 0 in a dictionary of integers: -1 comes first."""

HEADER_BYTES = 64
"""More than a page's header takes."""

# Numbers of parquet.thrift.
INT32, BYTE_ARRAY = 1, 6
_REQUIRED, _UTF8 = 0, 0
PLAIN, _RLE, RLE_DICTIONARY = 0, 3, 8
DATA_PAGE, DICTIONARY_PAGE = 0, 2
_UNCOMPRESSED = 0


@lru_cache(maxsize=1024)
def page_header(size: int, n_values: int, encoding: int, *, dictionary: bool = False) -> bytes:
    """`PageHeader` of a page of some bytes."""
    if dictionary:
        about: Struct = {1: n_values, 2: encoding}
        return write_struct({1: DICTIONARY_PAGE, 2: size, 3: size, 7: about})
    about = {1: n_values, 2: encoding, 3: _RLE, 4: _RLE}
    return write_struct({1: DATA_PAGE, 2: size, 3: size, 5: about})


@dataclass
class _Column:
    """Pages of a column, one behind the other."""

    room: npt.NDArray[np.uint8]
    size: int = 0
    header_bytes: int = HEADER_BYTES
    highest: int = -1
    encodings: set[int] = field(default_factory=set)


class PageWriter:
    """Pages of a flat table's columns, made some rows at a time; then a file of them.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    topics : pa.StringArray
        Names that the column of topics has places in.
    room : Arena
        Memory for the pages.
    """

    def __init__(self, n_rows: int, topics: pa.StringArray, room: Arena) -> None:
        self._n_rows, self._topics, self._room = n_rows, topics, room
        self._columns: dict[str, _Column] = {}
        self._n_places = min(MOST_PLACES, max(FEWEST_PLACES, n_rows // 2))

    def add(self, columns: Mapping[str, Rows]) -> None:
        """Take the next rows of some columns.

        Parameters
        ----------
        columns : mapping of str to (n,) int32
            n is at most `PAGE_ROWS`. `topic` has places among the names. The file has its columns
            in the order in which they are first named.
        """
        for name, values in columns.items():
            if name == TOPIC:
                self._add(name, values, 0, len(self._topics))
            else:
                self._add(name, values, OFFSET, self._n_places)

    def _add(self, name: str, values: Rows, offset: int, n_places: int) -> None:
        column = self._columns.get(name)
        if column is None:
            n_pages = self._n_rows // PAGE_ROWS + 1
            most = 5 * (self._n_rows + PAGE_ROWS) + n_pages * 2 * HEADER_BYTES
            column = _Column(self._room.array(f"pages {name}", (most,), np.uint8))
            self._columns[name] = column
        if not values.size:
            return
        if PLAIN in column.encodings:
            n_places = 0
        # The header, which stands before the page, is as long as the one before most of the time.
        begin = column.size + column.header_bytes
        size, highest = kernel.put_page(values, offset, n_places, column.room[begin:])
        encoding = PLAIN if highest < 0 else RLE_DICTIONARY
        header = page_header(size, values.size, encoding)
        end = column.size + len(header)
        if end != begin:
            column.room[end : end + size] = column.room[begin : begin + size].copy()
        column.room[column.size : end] = np.frombuffer(header, np.uint8)
        column.size, column.header_bytes = end + size, len(header)
        column.highest = max(column.highest, highest)
        column.encodings.add(encoding)

    def write(self, file: BinaryIO, metadata: Mapping[bytes, bytes]) -> None:
        """Write the file, once all rows were added."""
        chunks: list[Struct] = []
        at = file.write(MAGIC)
        for name, column in self._columns.items():
            dictionary = self._dictionary(name, column)
            pages = column.room[: column.size]
            about: dict[int, Value] = {
                1: BYTE_ARRAY if name == TOPIC else INT32,
                2: sorted({_RLE, *column.encodings} | ({PLAIN} if dictionary else set())),
                3: [name.encode()], 4: _UNCOMPRESSED, 5: Long(self._n_rows),
                6: Long(len(dictionary) + column.size), 7: Long(len(dictionary) + column.size),
                9: Long(at + len(dictionary)),
            }
            if dictionary:
                about[11] = Long(at)
            chunks.append({2: Long(0), 3: about})
            file.write(dictionary)
            file.write(pages.data)
            at += len(dictionary) + column.size
        footer = self._footer(chunks, at - len(MAGIC), metadata)
        file.write(footer + len(footer).to_bytes(4, "little") + MAGIC)

    def _dictionary(self, name: str, column: _Column) -> bytes:
        """The page of a column's dictionary; nothing where no page needs one."""
        if RLE_DICTIONARY not in column.encodings:
            return b""
        if name == TOPIC:
            n, page = len(self._topics), _plain_strings(self._topics)
        else:
            n = column.highest + 1
            page = np.arange(-OFFSET, n - OFFSET, dtype="<i4").tobytes()
        return page_header(len(page), n, PLAIN, dictionary=True) + page

    def _footer(
        self, chunks: Sequence[Struct], size: int, metadata: Mapping[bytes, bytes]
    ) -> bytes:
        """`FileMetaData`."""
        fields: list[Value] = [{4: b"schema", 5: len(chunks)}]
        for name in self._columns:
            if name == TOPIC:
                text: Struct = {1: {}}
                fields.append({
                    1: BYTE_ARRAY, 3: _REQUIRED, 4: name.encode(), 6: _UTF8, 10: text,
                })
            else:
                fields.append({1: INT32, 3: _REQUIRED, 4: name.encode()})
        groups: list[Value] = []
        if self._n_rows:
            groups.append({1: chunks, 2: Long(size), 3: Long(self._n_rows)})
        said: list[Value] = [{1: key, 2: value} for key, value in metadata.items()]
        return write_struct({
            1: 2, 2: fields, 3: Long(self._n_rows), 4: groups, 5: said, 6: CREATED_BY.encode(),
        })


class StatePages:
    """The flat table of a state as pages, made some rows at a time.

    Parameters
    ----------
    state : ClusterState
        One that a flat table can hold, without free rows.
    room : Arena
        Memory for columns and pages.
    """

    def __init__(self, state: ClusterState, room: Arena) -> None:
        self._state, self._room, self._odd = state, room, 0
        topics, self._place = place_topics(state)
        self._pages = PageWriter(state.n_partitions, topics, room)

    def add(self, start: int, stop: int) -> None:
        """Take the next rows, at most `PAGE_ROWS` of them."""
        state = self._state
        columns, odd = list_columns(state, start, stop, self._room)
        for earlier in range(0, start if odd & ~self._odd else 0, PAGE_ROWS):
            # A column that said nothing so far.
            last = min(earlier + PAGE_ROWS, start)
            self._pages.add(list_some(state, earlier, last, odd & ~self._odd))
        self._odd |= odd
        part = slice(start, stop)
        topic = state.topic_row[part]
        topic = topic if self._place is None else self._place[topic]
        self._pages.add(
            {TOPIC: topic, "partition": state.partition[part]}
            | columns | list_some(state, start, stop, self._odd)
        )

    def write(self, file: BinaryIO, metadata: Mapping[bytes, bytes]) -> None:
        """Write the file, once all rows were taken."""
        self._pages.write(file, metadata)


def _plain_strings(names: pa.StringArray) -> bytes:
    """Strings as a plain page has them."""
    names = pa.concat_arrays([names])
    _, offsets, data = names.buffers()
    ends = np.frombuffer(offsets, np.int32)[: len(names) + 1]
    out = np.empty(int(ends[-1] - ends[0]) + 4 * len(names), np.uint8)
    kernel.put_strings(ends, np.frombuffer(data or b"\0", np.uint8), out)
    return out.tobytes()
