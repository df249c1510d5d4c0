"""The command `kfast`, and the file that `spark-submit` runs.

It stands beside the package, for kfast takes half a second to load, and Ctrl-C must end that too
without a traceback: nothing has been done that would have to be put in order.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130


def _leave(*_: object) -> None:
    """End at once, as the loaded command does: `kfast.cli.exits`."""
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


@contextmanager
def loading() -> Iterator[None]:
    """Let Ctrl-C end the process at once, where it would raise in the midst of an import."""
    heeded = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def main() -> None:
    """Load kfast and run its command line."""
    with loading():
        from kfast.cli import main as run
    run()


if __name__ == "__main__":
    main()
