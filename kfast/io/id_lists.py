"""Columns of broker ids as readers fill them, row by row, without an object for each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

__all__ = ["IdLists", "int32s"]


class IdLists:
    """Lists of broker ids, one a row."""

    def __init__(self) -> None:
        self._values = array("i")
        self._ends = array("i", [0])

    def append(self, ids: Iterable[int]) -> None:
        """Add the list of one more row."""
        self._values.extend(ids)
        self._ends.append(len(self._values))

    def column(self) -> pa.ListArray:
        """All lists, as an Arrow column."""
        return pa.ListArray.from_arrays(int32s(self._ends), int32s(self._values))


def int32s(values: array[int]) -> pa.Int32Array:
    """Integers as an Arrow column."""
    return pa.array(np.frombuffer(values, np.int32) if values else np.empty(0, np.int32))
