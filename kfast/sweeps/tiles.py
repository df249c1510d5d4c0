"""Arena that the sweep kernels work in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.state.records import Rows

__all__ = ["new_tile", "padded"]

CACHE_LINE_BYTES = 64


def padded(rows: Rows) -> Rows:
    """Rows, never without one: a kernel takes the address of the first."""
    return np.ascontiguousarray(rows, np.int32) if rows.size else np.zeros(1, np.int32)


def new_tile(n_brokers: int, words: int) -> npt.NDArray[np.uint64]:
    """Memory for one vector per broker and one more, on a boundary of cache lines."""
    line = CACHE_LINE_BYTES // 8
    room = np.empty((n_brokers + 1) * words + line, np.uint64)
    skip = -(room.ctypes.data // 8) % line
    return room[skip : skip + (n_brokers + 1) * words]
