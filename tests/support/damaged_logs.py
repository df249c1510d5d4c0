"""Logs of a cluster with single lines lost, cut or garbled, or with clocks that differ.

    python -m tests.support.damaged_logs FOLDER TO --kind garbled --seed 7

Disks that fill up and shippers of logs lose lines and parts of them; brokers of one test run on one
machine, those of a real cluster have a clock each.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.support.cut_logs import STAMP, rewrite_folder

MOST_APART_MS = 1500
"""So much a broker's clock is ahead of the true time, or behind it, at most."""
STAMP_FORMAT = "[%Y-%m-%d %H:%M:%S,%f"

KINDS: dict[str, tuple[float, Callable[[str, Random], str]]] = {
    "lost": (0.02, lambda line, rng: ""),
    "cut": (0.01, lambda line, rng: line[: rng.randrange(len(STAMP) + 5, len(line))] + "\n"),
    "garbled": (0.01, lambda line, rng: _with_one_changed(line, rng.randrange(len(line) - 1), rng)),
}
"""The share of lines that are damaged, and what becomes of them."""


def _with_one_changed(line: str, at: int, rng: Random) -> str:
    return line[:at] + rng.choice("0x]{,-") + line[at + 1 :]


def damage(source: Path, to: Path, kind: str, rng: Random) -> None:
    """Write the logs below a folder again, with random damage of a kind, or with `clocks` apart."""
    apart_ms: dict[str, int] = {}
    for path in sorted(path for path in source.rglob("*.log*") if path.is_file()):
        lines = path.read_text(errors="replace").splitlines(keepends=True)
        if kind == "clocks":
            broker = path.parent.name
            apart_ms.setdefault(broker, rng.randint(-MOST_APART_MS, MOST_APART_MS))
            lines = [_moved(line, apart_ms[broker]) for line in lines]
        else:
            share, damaged = KINDS[kind]
            lines = [
                damaged(line, rng) if len(line) > len(STAMP) + 10 and rng.random() < share else line
                for line in lines
            ]
        target = to / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(lines))


def _moved(line: str, by_ms: int) -> str:
    """A line as a clock that is ahead would stamp it; without a stamp it stays."""
    if line[:1] != "[" or line[len(STAMP) - 1 :][:1] != "]" or not line[1:5].isdigit():
        return line
    at = datetime.datetime.strptime(line[: len(STAMP) - 1], STAMP_FORMAT)
    at += datetime.timedelta(milliseconds=by_ms)
    return f"{at.strftime(STAMP_FORMAT)[:-3]}{line[len(STAMP) - 1 :]}"


if __name__ == "__main__":
    rewrite_folder("Logs with damaged lines, or clocks apart.", (*KINDS, "clocks"), damage)
