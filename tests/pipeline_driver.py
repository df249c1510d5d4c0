"""One run of the pipeline's tasks without Spark, which may be killed at a file it touches."""

from __future__ import annotations

import os
import signal
import sys

from kfast.cli import pipeline as command
from kfast.spark.pipeline import find_exports
from kfast.spark.snapshots import run_snapshot


def die_at(n: int, place: str) -> None:
    """Be killed when a file below a place is opened, moved or removed for the n-th time."""
    left = n

    def watch(event: str, arguments: tuple) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and arguments:
            if str(arguments[0]).startswith(place):
                left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def main(config: str, n: int) -> None:
    from pathlib import Path

    path = Path(config)
    asked = command.read_config(path)
    job = command._job(asked, path.parent)
    exports = find_exports(path.parent / asked.exports, job)
    if n >= 0:
        die_at(n, job.output)
    for name in exports:
        run_snapshot(job, name)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
