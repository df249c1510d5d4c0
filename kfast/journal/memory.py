"""Memory for large columns: huge pages where the system has them, and pages that were used before.

A column of a large event is written once, front to back, so that half of its time would be the
first touch of its pages: the system clears them, and a virtual machine may have to ask its host for
them. So large arrays have a mapping of their own, and when the last table that uses it is gone, it
is lent to the next event. What is not lent the system may take back whenever it is short of memory.

There is no lock: every change of `_spare` is one operation of a list, which no other thread sees
half done.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import sys
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

HUGE_PAGE = 1 << 21
"""Bytes of a huge page, and of the smallest array that gets some."""
MOST_SPARE = 1 << 30
"""Bytes that are spare at most."""

_spare: list[mmap.mmap] = []
"""Mappings that nobody uses, the one that was given back first in front."""


def empty(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Make an array whose values are not defined; memory is taken as it is written."""
    kind = np.dtype(dtype)
    n_bytes = math.prod(shape if isinstance(shape, tuple) else (shape,)) * kind.itemsize
    if sys.platform != "linux" or n_bytes < HUGE_PAGE:
        return np.empty(shape, kind)
    size = -(-n_bytes // HUGE_PAGE) * HUGE_PAGE
    pages = _take(size) or _map(size)
    lease = _Lease(pages)
    weakref.finalize(lease, _give_back, pages).atexit = False
    return np.asarray(lease)[:n_bytes].view(kind).reshape(shape)


def spare_bytes() -> int:
    """Bytes that are mapped and that nobody uses."""
    return sum(len(pages) for pages in list(_spare))


def release() -> None:
    """Give the system all that nobody uses."""
    _spare.clear()


class _Lease:
    """What the array of a mapping, and so every view of it, holds on to; it dies with the last.

    numpy and Arrow keep what exports memory alive, and a view of a view names the first array.
    """

    def __init__(self, pages: mmap.mmap) -> None:
        address = np.frombuffer(pages, np.uint8).ctypes.data
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (len(pages),), "data": (address, False),
        }


def _map(size: int) -> mmap.mmap:
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Advice only: a system without huge pages refuses it, and gives small ones.
    with contextlib.suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def _take(size: int) -> mmap.mmap | None:
    """The smallest spare mapping that is large enough, and not far too large."""
    fitting = [pages for pages in list(_spare) if size <= len(pages) <= 2 * size]
    for pages in sorted(fitting, key=len):
        # Another thread, or a collection of garbage, may have been first.
        with contextlib.suppress(ValueError):
            _spare.remove(pages)
            return pages
    return None


def _give_back(pages: mmap.mmap) -> None:
    if len(pages) > MOST_SPARE:
        return
    # A system that cannot take pages back when it is short of them gets them now.
    with contextlib.suppress(OSError):
        pages.madvise(mmap.MADV_FREE)
        _spare.append(pages)
    with contextlib.suppress(IndexError):
        while spare_bytes() > MOST_SPARE:
            _spare.pop(0)
