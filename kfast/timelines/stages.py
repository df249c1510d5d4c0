"""What the time models give: stages, and progressions of instants, of every sample.

Source: docs/timeline.md, section "Words".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kfast.timelines.progressions import Progressions

__all__ = ["BrokerStages", "Stage", "Times", "median_broker"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of the controller in an event; `begin` and `end` are (S,).

    `waits_for` is what it waits for: detection, controller, store, queue or disk.
    """

    event: int
    name: str
    begin: Ints
    end: Ints
    items: int
    waits_for: str


@dataclass(frozen=True, eq=False)
class BrokerStages:
    """One stage of some brokers, which wait for their disks; `brokers` are their rows, (n,).

    `begin` and `end` are (S, N), `items` (N,).
    """

    event: int
    name: str
    brokers: Ints
    begin: Ints
    end: Ints
    items: Ints


@dataclass(eq=False)
class Times:
    """When what happens, in every sample.

    Attributes
    ----------
    stages : list of Stage
        The controller's.
    broker_stages : list of BrokerStages
    led : Progressions
        Partitions that had lost their leader, led again.
    shrunk_later : Progressions
        Those of them whose ISR has a dead member until later.
    shrunk : Progressions
        Partitions whose ISR loses its last dead member when they are led already.
    published : list of (S,) int64
        When the controller sent, or committed.
    visible : list of (S, live brokers) int64
        When brokers answer clients with the new leaders.
    begun : list of (S, N) int64
        ZooKeeper mode: when each broker begins to apply what was published.
    takes : (R, 7) int64
        KRaft: sample, broker, first and last operation, begin, when it shows them, and end.
    """

    stages: list[Stage] = field(default_factory=list)
    broker_stages: list[BrokerStages] = field(default_factory=list)
    led: Progressions = field(default_factory=Progressions.none)
    shrunk_later: Progressions = field(default_factory=Progressions.none)
    shrunk: Progressions = field(default_factory=Progressions.none)
    published: list[Ints] = field(default_factory=list)
    visible: list[Ints] = field(default_factory=list)
    begun: list[Ints] = field(default_factory=list)
    takes: Ints = field(default_factory=lambda: np.empty((0, 7), np.int64))

    def add_brokers(
        self, event: int, name: str, begin: Ints, end: Ints, items: Ints,
        live: npt.NDArray[np.bool_],
    ) -> None:
        """Add a stage of every live broker that has items in it; times are (S, N)."""
        rows = np.flatnonzero(live & (items > 0))
        self.broker_stages.append(BrokerStages(event, name, rows, begin, end, items))


def median_broker(times: Ints) -> Ints:
    """(S,) median over live brokers, (S, L), the lower one of two; 0 where no broker lives."""
    if not times.shape[1]:
        return np.zeros(times.shape[0], np.int64)
    middle = (times.shape[1] - 1) // 2
    medians: Ints = np.partition(times, middle, axis=1)[:, middle]
    return medians
