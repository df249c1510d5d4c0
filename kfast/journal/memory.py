"""Memory for large columns: huge pages where the system has them, and pages that were used before.

A column of a large event is written once, front to back, so that half of its time is the first
touch of its pages: the system clears them, and a virtual machine may have to ask its host for them.
numpy asks for huge pages too, but its arrays do not begin where one begins, which leaves up to 1023
small ones at both ends of each. So large arrays have a mapping of their own, and when the last
table that uses it is gone, it is lent to the next event. What is not lent the system may take back
whenever it is short of memory. A process that is forked begins with nothing spare, and with a lock
of its own: another thread of its parent may hold the old one, and nobody would ever let it go.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import sys
import threading
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

HUGE_PAGE = 1 << 21
"""Bytes of a huge page, and of the smallest array that gets some."""
MOST_SPARE = 1 << 30
"""Bytes that are spare at most."""

_lock = threading.RLock()
_spare: list[mmap.mmap] = []
"""Mappings that nobody uses, the one that was given back first in front."""


def room(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.int32) -> npt.NDArray[Any]:
    """An array whose values are not defined; memory is taken as it is written."""
    kind = np.dtype(dtype)
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    if sys.platform != "linux" or count * kind.itemsize < HUGE_PAGE:
        return np.empty(shape, kind)
    size = -(-count * kind.itemsize // HUGE_PAGE) * HUGE_PAGE
    pages = _take(size) or _map(size)
    lease = _Lease(pages)
    weakref.finalize(lease, _give_back, pages).atexit = False
    lent = np.asarray(lease)
    return lent[: count * kind.itemsize].view(kind).reshape(shape)


def spare_bytes() -> int:
    """Bytes that are mapped and that nobody uses."""
    with _lock:
        return sum(len(pages) for pages in _spare)


def release() -> None:
    """Give the system all that nobody uses."""
    with _lock:
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
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Advice only: a system without huge pages refuses it, and gives small ones.
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


def _take(size: int) -> mmap.mmap | None:
    """The smallest spare mapping that is large enough, and not far too large."""
    with _lock:
        fitting = [pages for pages in _spare if size <= len(pages) <= 2 * size]
        if not fitting:
            return None
        found = min(fitting, key=len)
        # Made anew: a collection of garbage may have given others back meanwhile, for which this
        # one, the oldest perhaps, had to go.
        _spare[:] = [pages for pages in _spare if pages is not found]
        return found


def _give_back(pages: mmap.mmap) -> None:
    with _lock:
        if len(pages) > MOST_SPARE:
            return
        try:
            pages.madvise(mmap.MADV_FREE)
        except OSError:
            # A system that cannot take pages back when it is short of them gets them now.
            return
        _spare.append(pages)
        while spare_bytes() > MOST_SPARE:
            _spare.pop(0)


def _begin_in_child() -> None:
    """Forget the lock of a process that this one was forked from."""
    global _lock
    _lock = threading.RLock()
    _spare.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
