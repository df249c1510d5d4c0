"""Arrow arrays over the memory of numpy arrays, made without pandas; numpy arrays in Arrow's pool.

`pa.array` asks whether it is given something of pandas, and so imports pandas where it is there:
0.2 s of a process that has no other use for it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["MOST_BYTES", "empty", "names_at", "view"]

MOST_BYTES = 2**31 - 1
"""Bytes of the texts of one Arrow array, whose offsets have 32 bits."""

LEAST_BYTES = 4096
"""Smaller arrays are numpy's own: they are no page, and a buffer takes longer to make."""

LONGEST_NAME = 249
"""Characters of a topic's name, at most."""


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Make an array whose values are not defined, in memory of Arrow's pool.

    The pool keeps the pages of arrays that are gone for the next ones. The first touch of a new
    page takes longer than to fill it: the system clears it, or asks its host for one.
    """
    kind = np.dtype(dtype)
    n_bytes = math.prod(shape if isinstance(shape, tuple) else (shape,)) * kind.itemsize
    if n_bytes < LEAST_BYTES:
        return np.empty(shape, kind)
    return np.frombuffer(pa.allocate_buffer(n_bytes), np.uint8).view(kind).reshape(shape)


def view(values: npt.NDArray[Any]) -> pa.Array:
    """Show a numpy array of numbers as an Arrow array, without nulls.

    Parameters
    ----------
    values : (n,) array of numbers
        Not to be changed afterwards: it is not copied, unless it has gaps.
    """
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, buffer])


def names_at(names: pa.StringArray, numbers: npt.NDArray[Any]) -> pa.Array | pa.ChunkedArray:
    """Write out the names that some numbers stand for.

    A column of plain texts, not of a dictionary's numbers: Arrow sorts tables, and Spark takes
    them, only so.

    Parameters
    ----------
    names : (T,) string
    numbers : (n,) array of int
        Places in `names`.

    Returns
    -------
    (n,) string
        In more than one piece where an array cannot hold so many bytes.
    """
    if numbers.size <= MOST_BYTES // LONGEST_NAME:
        return names.take(view(numbers))
    most = MOST_BYTES // max((len(name.as_buffer()) for name in names), default=1)
    parts = [names.take(view(numbers[at : at + most])) for at in range(0, numbers.size, most)]
    return pa.chunked_array(parts)
