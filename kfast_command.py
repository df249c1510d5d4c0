"""The command `kfast`, and the file that `spark-submit` runs.

It stands beside the package, for a command takes a moment to load, and Ctrl-C must end that too
without a traceback: nothing has been done that would have to be put in order. Later, when some has
been done, Ctrl-C raises `KeyboardInterrupt`, but never in the midst of an import: what is raised
there leaves half a module behind, or comes out as an `ImportError`, as if kfast were broken.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130
AGAIN_S = 0.01
"""Seconds after which an interrupt that came during an import tries again."""


def _leave(*_: object) -> None:
    """End at once, as the loaded command does: `kfast.cli.exits`."""
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise `KeyboardInterrupt`, or try again where an import is under way."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _is_heeded() -> bool:
    """Whether Ctrl-C is ours: what runs in the background ignores it."""
    ours = (signal.default_int_handler, _interrupt)
    here = threading.current_thread() is threading.main_thread()
    return here and signal.getsignal(signal.SIGINT) in ours


@contextmanager
def loading() -> Iterator[None]:
    """Let Ctrl-C end the process at once, where it would raise in the midst of an import."""
    before = signal.getsignal(signal.SIGINT)
    heeded = _is_heeded()
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        if heeded:
            signal.signal(signal.SIGINT, before)


def main() -> None:
    """Load kfast and run its command line."""
    with loading():
        from kfast.cli import main as run
    if _is_heeded() and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _interrupt)
        signal.signal(signal.SIGINT, _interrupt)
    run()


if __name__ == "__main__":
    main()
