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
    valid : bitmap of uint8
        Bit i set: row i has a value.
    n : int
        Rows.
    n_valid : int
        Rows with a value.
    """

    def __init__(self, valid: npt.NDArray[np.uint8], n: int, n_valid: int) -> None:
        self.count = n - n_valid
        self.buffer = pa.py_buffer(valid) if self.count else None


NONE = Nulls(np.empty(0, np.uint8), 0, 0)
"""No row is null."""


def bitmap(*shape: int) -> npt.NDArray[np.uint8]:
    """Make bitmaps of zeros; the last axis counts bits."""
    return np.zeros((*shape[:-1], (shape[-1] + 7) // 8), np.uint8)


def values(array: npt.NDArray[Any], nulls: Nulls = NONE) -> pa.Array:
    """A column of numbers."""
    kind = pa.from_numpy_dtype(array.dtype)
    buffers = [nulls.buffer, pa.py_buffer(array)]
    return pa.Array.from_buffers(kind, array.size, buffers, nulls.count)


def booleans(bits: npt.NDArray[np.uint8], n: int, nulls: Nulls = NONE) -> pa.Array:
    """A column of n booleans from a bitmap."""
    buffers = [nulls.buffer, pa.py_buffer(bits)]
    return pa.Array.from_buffers(pa.bool_(), n, buffers, nulls.count)


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
