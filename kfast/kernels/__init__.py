"""Compiled loops: arrays in, arrays out. They know no module of kfast but each other's `.pxd`.

A process that is forked has none of the threads that OpenMP keeps for its next loop, and GNU's
library would wait for them forever. They are ended before a fork; the next loop makes new ones.
"""

import os
import sys

PAUSE_SOFT = 1
"""`omp_pause_soft` of OpenMP 5.0: what is kept between loops goes, settings stay."""


def end_idle_threads() -> None:
    """End the threads that OpenMP keeps for loops of this thread; without OpenMP there are none."""
    import ctypes

    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__name__}.") and module.__file__ is not None:
            pause = getattr(ctypes.CDLL(module.__file__), "omp_pause_resource_all", None)
            if pause is not None:
                pause(PAUSE_SOFT)
                return


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=end_idle_threads)
