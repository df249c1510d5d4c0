"""Arrow arrays around numpy ones, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

IDS = pa.list_(pa.int32())
NAME = pa.dictionary(pa.int32(), pa.string())


class Nulls:
    """Which rows of some columns are not null: a bitmap that the columns share.

    Parameters
    ----------
    valid : (n,) bool
    """

    def __init__(self, valid: npt.NDArray[np.bool_]) -> None:
        self.count = valid.size - int(np.count_nonzero(valid))
        self.buffer = pa.py_buffer(bitmap(valid)) if self.count else None


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


def booleans(bits: npt.NDArray[np.bool_], nulls: Nulls = NONE) -> pa.Array:
    """A column of booleans."""
    buffers = [nulls.buffer, pa.py_buffer(bitmap(bits))]
    return pa.Array.from_buffers(pa.bool_(), bits.size, buffers, nulls.count)


def lists(
    offsets: npt.NDArray[np.int32], ids: npt.NDArray[np.int32], n: int, end: int,
    nulls: Nulls = NONE,
) -> pa.Array:
    """A column of n lists; the ids that they hold end at `end`."""
    buffers = [nulls.buffer, pa.py_buffer(offsets[: n + 1])]
    inner = values(ids[:end])
    return pa.Array.from_buffers(IDS, n, buffers, nulls.count, children=[inner])


def named(indices: npt.NDArray[np.int32], names: tuple[str, ...] | pa.Array) -> pa.DictionaryArray:
    """Names by number, dictionary-encoded; every number is one of the names'."""
    words = names if isinstance(names, pa.Array) else pa.array(names, pa.string())
    return pa.DictionaryArray.from_arrays(values(indices), words, safe=False)


class StepNumber:
    """The number of a step as a column, of which every table of the step takes a part."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._longest = pa.array([], pa.int32())

    def column(self, n: int) -> pa.Array:
        """N times the number."""
        if len(self._longest) < n:
            self._longest = values(np.full(n, self._number, np.int32))
        return self._longest.slice(0, n)
