"""One run of the pipeline's tasks without Spark, which may be killed at a file it touches."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kfast.cli import pipeline as command
from kfast.spark.pipeline import find_exports
from kfast.spark.snapshots import run_snapshot


def die_at(n: int, place: str) -> list[int]:
    """Be killed when a file below a place is opened, moved or removed for the n-th time.

    Gives a list of the one number that says how often such a thing happened.
    """
    seen = [0]

    def watch(event: str, arguments: tuple) -> None:
        on_files = event in ("open", "os.rename", "os.remove", "os.mkdir")
        if on_files and str(arguments[0]).startswith(place):
            if seen[0] == n:
                os.kill(os.getpid(), signal.SIGKILL)
            seen[0] += 1

    sys.addaudithook(watch)
    return seen


def run_here(config: Path) -> None:
    """Do what the tasks do, in this process."""
    asked = command.read_config(config)
    job = command._job(asked, config.parent)
    for name in find_exports(config.parent / asked.exports, job):
        run_snapshot(job, name)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    asked = command.read_config(path)
    seen = die_at(int(sys.argv[2]), str((path.parent / asked.output).absolute()))
    run_here(path)
    print(seen[0])
