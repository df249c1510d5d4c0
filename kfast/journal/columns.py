"""Arrow columns around numpy arrays, without a copy; what is the same everywhere takes no room.

A column that says one thing in every row is one short block, repeated: a chunked array whose chunks
are the same memory. Offsets of lists that are all of one length are such a block too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.journal.memory import room
from kfast.kernels import journal_columns
from kfast.state.arrow_views import MOST_BYTES, names_at
from kfast.state.records import Rows

IDS = pa.list_(pa.int32())
BLOCK = 1 << 16
"""Rows of a block that is repeated; a multiple of 8, so that bitmaps can be cut there."""
SPARE_BYTES = 16
"""Bytes behind texts that are written 16 bytes at a time."""

Column: TypeAlias = pa.Array | pa.ChunkedArray
Number: TypeAlias = int | npt.NDArray[Any]
"""Numbers of a column, or the one number that stands in every row of it."""


class Nulls:
    """Which rows of some columns are not null: a bitmap that the columns share.

    Parameters
    ----------
    valid : (n,) bool
    """

    def __init__(self, valid: npt.NDArray[np.bool_]) -> None:
        self.count = valid.size - int(np.count_nonzero(valid))
        self.buffer = pa.py_buffer(bitmap(valid)) if self.count else None

    def part(self, begin: int, n: int) -> tuple[Any, int]:
        """Bitmap and number of nulls (-1: not counted) of n rows from a multiple of 8 on."""
        if self.buffer is None:
            return None, 0
        return self.buffer.slice(begin // 8, (n + 7) // 8), -1


NONE = Nulls(np.empty(0, np.bool_))
"""No row is null."""


def bitmap(bits: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Pack a bit for each row, the first of a byte lowest."""
    return np.packbits(bits, bitorder="little")


def values(array: npt.NDArray[Any], nulls: Nulls = NONE) -> pa.Array:
    """A column of numbers."""
    kind = pa.from_numpy_dtype(array.dtype)
    buffers = [nulls.buffer, pa.py_buffer(array)]
    return pa.Array.from_buffers(kind, array.size, buffers, nulls.count)


def number(said: Number, n: int, nulls: Nulls = NONE, dtype: type = np.int32) -> Column:
    """A column of numbers, or of one number n times."""
    if isinstance(said, int):
        return repeated(said, n, nulls, dtype)
    return values(said.astype(dtype, copy=False), nulls)


def booleans(bits: npt.NDArray[np.bool_], nulls: Nulls = NONE) -> pa.Array:
    """A column of booleans."""
    buffers = [nulls.buffer, pa.py_buffer(bitmap(bits))]
    return pa.Array.from_buffers(pa.bool_(), bits.size, buffers, nulls.count)


def flags(kinds: Number, bit: int, n: int, nulls: Nulls = NONE) -> Column:
    """Whether a bit is set in some numbers."""
    if isinstance(kinds, int):
        kinds = np.full(n if kinds & bit else 0, kinds, np.int32)
    return booleans((kinds & bit) != 0, nulls) if kinds.size else falsehoods(n, nulls)


def lists(offsets: Rows, ids: Rows, nulls: Nulls = NONE) -> pa.Array:
    """A column of lists, each of which ends where the next one begins."""
    buffers = [nulls.buffer, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(
        IDS, offsets.size - 1, buffers, nulls.count, children=[values(ids)]
    )


def named(said: Number, n: int, names: tuple[str, ...] | pa.Array) -> Column:
    """Names by number, as texts; every number is one of the names'."""
    words = names if isinstance(names, pa.Array) else _words(names)
    if isinstance(said, int):
        return _again(pa.repeat(words[said], min(n, BLOCK)), n)
    return _write_names(words, said)


def _write_names(names: pa.StringArray, numbers: Rows) -> Column:
    """`names_at` in room of the journal, which takes half the time."""
    _, offsets_buffer, bytes_buffer = names.buffers()
    begins = np.frombuffer(offsets_buffer, np.int32)[names.offset :][: len(names) + 1]
    offsets = room(numbers.size + 1)
    size = journal_columns.measure_names(begins, numbers, offsets)
    if size > MOST_BYTES:
        return names_at(names, numbers)
    text = room(size + SPARE_BYTES, np.uint8)
    name_bytes = np.frombuffer(bytes_buffer or b"\0", np.uint8)
    journal_columns.spell_names(begins, name_bytes, numbers, offsets, text)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text[:size])]
    return pa.Array.from_buffers(pa.string(), numbers.size, buffers, 0)


@lru_cache
def _words(names: tuple[str, ...]) -> pa.StringArray:
    """Names, and one that no number means: behind all that one does, bytes may then be read."""
    return pa.array([*names, " " * SPARE_BYTES], pa.string())


def repeated(said: int, n: int, nulls: Nulls = NONE, dtype: type = np.int32) -> Column:
    """A column that says one number n times."""
    block = _block(said, dtype)
    if nulls.buffer is None:
        return _again(block, n)

    def one(begin: int, size: int) -> pa.Array:
        held, count = nulls.part(begin, size)
        return pa.Array.from_buffers(block.type, size, [held, block.buffers()[1]], count)

    return _in_blocks(n, one)


def same_lengths(length: int, ids: Rows, n: int) -> Column:
    """A column of n lists of one length."""
    offsets = _offsets(length)

    def one(begin: int, size: int) -> pa.Array:
        inner = values(ids[begin * length : (begin + size) * length])
        return pa.Array.from_buffers(IDS, size, [None, offsets], 0, children=[inner])

    return _in_blocks(n, one)


def no_values(n: int, nulls: Nulls = NONE) -> Column:
    """A column of n lists with nothing in them."""
    offsets, inner = _offsets(0), pa.array([], pa.int32())

    def one(begin: int, size: int) -> pa.Array:
        held, count = nulls.part(begin, size)
        return pa.Array.from_buffers(IDS, size, [held, offsets], count, children=[inner])

    return _in_blocks(n, one)


def falsehoods(n: int, nulls: Nulls = NONE) -> Column:
    """A column of booleans that are all false."""
    bits = _offsets(0)

    def one(begin: int, size: int) -> pa.Array:
        held, count = nulls.part(begin, size)
        return pa.Array.from_buffers(pa.bool_(), size, [held, bits], count)

    return _in_blocks(n, one)


def all_null(kind: pa.DataType, n: int) -> Column:
    """A column of which nothing is said."""
    return _again(_nothing(kind), n)


def _again(block: pa.Array, n: int) -> Column:
    """N rows of a block that is repeated."""
    if n <= BLOCK:
        return block[:n]
    rest = [block[: n % BLOCK]] if n % BLOCK else []
    return pa.chunked_array([block] * (n // BLOCK) + rest)


def joined(parts: Sequence[Column]) -> pa.ChunkedArray:
    """Columns one behind the other."""
    chunks = [part.chunks if isinstance(part, pa.ChunkedArray) else [part] for part in parts]
    return pa.chunked_array([chunk for some in chunks for chunk in some])


def _in_blocks(n: int, make: Callable[[int, int], pa.Array]) -> Column:
    """A column made block by block, of where each begins and its size."""
    if n <= BLOCK:
        return make(0, n)
    last = make(n - n % BLOCK, n % BLOCK)
    whole = [make(begin, BLOCK) for begin in range(0, n - n % BLOCK, BLOCK)]
    return pa.chunked_array([*whole, last] if len(last) else whole)


@lru_cache(maxsize=64)
def _block(said: int, dtype: type) -> pa.Array:
    return values(np.full(BLOCK, said, dtype))


@lru_cache(maxsize=64)
def _offsets(length: int) -> pa.Buffer:
    return pa.py_buffer(np.arange(BLOCK + 1, dtype=np.int32) * np.int32(length))


@lru_cache
def _nothing(kind: pa.DataType) -> pa.Array:
    return pa.nulls(BLOCK, kind)
