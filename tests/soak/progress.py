"""What is kept of the rounds that are done: one small file, replaced as a whole after each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.soak.rounds import Met


class ProgressError(ValueError):
    """A file that is no progress of a run, or that of another one."""


@dataclass
class Progress:
    """Rounds that are done, and what they met together."""

    seed: int
    done_below: int = 0
    done_ahead: set[int] = field(default_factory=set)
    steps: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    lines_left: set[str] | None = None
    differences: list[dict[str, Any]] = field(default_factory=list)

    @property
    def n_rounds(self) -> int:
        """How many are done."""
        return self.done_below + len(self.done_ahead)

    def numbers(self) -> Iterator[int]:
        """Rounds that are still to do, without end."""
        ahead = set(self.done_ahead)
        return (number for number in count(self.done_below) if number not in ahead)

    def add(self, number: int, kind: str, met: Met, seconds: float) -> None:
        """Count a round."""
        self.steps[kind] += met.steps
        self.seconds += seconds
        self.counts.update(met.counts)
        if met.lines_left is not None:
            self.lines_left = met.lines_left & (
                met.lines_left if self.lines_left is None else self.lines_left
            )
        self._mark(number)

    def add_difference(self, number: int, kind: str, text: str, seconds: float) -> None:
        """Note a round that ended early."""
        self.seconds += seconds
        self.differences.append({"round": number, "kind": kind, "text": text})
        self._mark(number)

    def _mark(self, number: int) -> None:
        self.done_ahead.add(number)
        while self.done_below in self.done_ahead:
            self.done_ahead.remove(self.done_below)
            self.done_below += 1

    def write(self, path: Path) -> None:
        """Replace the file: whoever is stopped in between leaves the one before."""
        path.parent.mkdir(parents=True, exist_ok=True)
        parts = dict(vars(self))
        for name in ("done_ahead", "lines_left"):
            parts[name] = None if parts[name] is None else sorted(parts[name])
        new = path.with_name(f"{path.name}.new")
        new.write_text(json.dumps(parts, indent=1, sort_keys=True), encoding="utf-8")
        new.replace(path)


def read_progress(path: Path) -> Progress:
    """Read a file of `Progress.write`."""
    try:
        parts = json.loads(path.read_text(encoding="utf-8"))
        left = parts["lines_left"]
        return Progress(**{
            **parts, "done_ahead": set(parts["done_ahead"]), "steps": Counter(parts["steps"]),
            "counts": Counter(parts["counts"]), "lines_left": None if left is None else set(left),
        })
    except (ValueError, TypeError, KeyError) as error:
        raise ProgressError(
            f"{path} is not the progress of a soak: {error!r}; remove it to begin again"
        ) from error
