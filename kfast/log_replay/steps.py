"""How far a replay is: what a progress bar shows, and where what is interrupted ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Progress = Callable[[int, int], None]
"""Gets the steps that are done, and how many there are."""

Step = TypeVar("Step")

EVERY = 256
"""Steps from one report to the next."""

PASSES = 3
"""Times that every entry is gone through: read, simulated, judged."""


class Steps:
    """Counts what is gone through, and tells a progress bar.

    Parameters
    ----------
    progress : callable, optional
    n_entries : int
        Entries of the logs.
    """

    def __init__(self, progress: Progress | None = None, n_entries: int = 0) -> None:
        self.progress = progress
        self.total = PASSES * n_entries
        self.done = 0
        self.deadline = math.inf

    def go_again(self, n_entries: int) -> None:
        """Some entries are simulated and judged once more."""
        self.total += (PASSES - 1) * n_entries

    def hurry(self, seconds: float) -> None:
        """End all that is gone through when some time is over, after an interruption."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)

    def were_interrupted(self) -> bool:
        """Whether time is short after an interruption, or over."""
        return self.deadline < math.inf

    @property
    def is_over(self) -> bool:
        """Whether the time that is left after an interruption is over."""
        return time.monotonic() > self.deadline

    def over(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Go through some steps, and count them."""
        for step in steps:
            if self.is_over:
                return
            yield step
            self.done += 1
            if self.progress is not None and self.done % EVERY == 0:
                self.progress(min(self.done, self.total), self.total)
