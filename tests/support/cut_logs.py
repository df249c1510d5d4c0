"""Logs of a cluster without a part of them, as retention and rotation leave them, or a lost disk.

    python -m tests.support.cut_logs FOLDER TO --kind hole --seed 7

A part may be missing of all brokers or of one of them, of both files or of one: from the beginning,
at the end, in between, or all of it. After a hole all times are an hour later, as a hole is seen by
the silence.
"""

from __future__ import annotations

import argparse
import shutil
import time
from calendar import timegm
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from random import Random

STAMP = "[2020-01-01 00:00:00,000]"
HOUR_S = 3600

Times = tuple[str, str]
"""Stamps between which something is missing."""

KINDS: dict[str, Callable[[str, bool, bool, Times], bool]] = {
    "begin": lambda at, own, state, times: at < times[0],
    "end": lambda at, own, state, times: at > times[1],
    "hole": lambda at, own, state, times: times[0] < at < times[1],
    "hole of one": lambda at, own, state, times: own and times[0] < at < times[1],
    "begin of one": lambda at, own, state, times: own and at < times[0],
    "end of one": lambda at, own, state, times: own and at > times[1],
    "begin of state-change.log": lambda at, own, state, times: state and at < times[0],
    "begin of controller.log": lambda at, own, state, times: not state and at < times[0],
    "begin of one's controller.log": (
        lambda at, own, state, times: own and not state and at < times[0]
    ),
    "controller.log of one": lambda at, own, state, times: own and not state,
    "all of one": lambda at, own, state, times: own,
}
"""Whether a line is missing: its stamp, whether its broker is the one, whether its file is
state-change.log, and the times."""


def cut(source: Path, to: Path, kind: str, rng: Random) -> None:
    """Write the logs below a folder again, but for a random part of a kind."""
    files = sorted(path for path in source.rglob("*.log*") if path.is_file())
    stamps = sorted(stamp for path in files for stamp, _ in _entries(path))
    times = stamps[int(len(stamps) * rng.uniform(0.1, 0.6))], stamps[
        int(len(stamps) * rng.uniform(0.6, 0.95))]
    one = rng.choice(sorted({path.parent.name for path in files}))
    for path in files:
        is_own, is_state = path.parent.name == one, path.name.startswith("state-change")
        lines = [
            _later(line) if "hole" in kind and stamp >= times[1] else line
            for stamp, line in _entries(path)
            if not KINDS[kind](stamp, is_own, is_state, times)
        ]
        if lines:
            target = to / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(lines))


def _entries(path: Path) -> Iterator[tuple[str, str]]:
    """Lines of a file, each with the stamp that it, or the last line before it, has."""
    stamp = ""
    for line in path.read_text(errors="replace").splitlines(keepends=True):
        stamp = line[: len(STAMP)] if line[:1] == "[" and line[len(STAMP) - 1 :][:1] == "]" else (
            stamp
        )
        yield stamp, line


def _later(line: str) -> str:
    """A line, an hour later if it has a stamp."""
    if line[:1] != "[" or line[len(STAMP) - 1 :][:1] != "]":
        return line
    at = timegm(time.strptime(line[1:20], "%Y-%m-%d %H:%M:%S")) + HOUR_S
    return f"[{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(at))}{line[20:]}"


def rewrite_folder(
    description: str, kinds: Collection[str], write: Callable[[Path, Path, str, Random], None]
) -> None:
    """The command of a module that writes logs again in some way, of several kinds."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path)
    parser.add_argument("to", type=Path)
    parser.add_argument("--kind", choices=kinds, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.to, ignore_errors=True)
    write(arguments.folder, arguments.to, arguments.kind, Random(arguments.seed))


if __name__ == "__main__":
    rewrite_folder("Logs of a cluster without a part of them.", KINDS, cut)
