"""The incident as a table: what happened when, what moved, who was leaderless for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from kfast.schema import OUTAGES, TIMELINE

MERGED = {
    "isr": "leaders change {n} ISRs",
    "directories said": "brokers say where {n} replicas lie",
    "plan": "an administrator's plan changes {n} partitions",
    "cancellation": "an administrator cancels {n} reassignments",
    "preferred": "preferred election of {n} partitions",
    "unclean": "unclean election of {n} partitions",
    "partitions": "{n} partitions are added",
    "topics": "{n} topics are created",
    "deletion": "{n} topics are deleted",
}
"""Events that follow one another count as one; in words, `n` for how many."""


@dataclass
class Row:
    """One event; see `schema.TIMELINE`."""

    time: int
    controller: int
    controller_epoch: int
    event: str
    what: str
    n: int = 0
    transitions: int = 0
    leaders_moved: int = 0
    isr_changes: int = 0
    became_leaderless: list[str] = field(default_factory=list)
    got_leader: list[str] = field(default_factory=list)
    leaderless: int = 0
    longest_ms: int | None = None
    cluster: int = 0
    inferred: bool = False
    refused: int = 0


class Timeline:
    """Collects events, and the partitions that are without a leader.

    Attributes
    ----------
    controller, epoch : int
        The active controller, and its epoch.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.outages: list[tuple[str, int, int | None]] = []
        self.since: dict[str, int] = {}
        self.controller = -1
        self.epoch = 0

    def begin(self, event: str, what: str, time: int, n: int = 1) -> Row:
        """The row of an event: a new one, or the last where the same goes on."""
        row = self.rows[-1] if self.rows else None
        if row is None or row.event != event or event not in MERGED or row.time // 60_000 != (
            time // 60_000
        ):
            row = Row(time, self.controller, self.epoch, event, what)
            self.rows.append(row)
        row.n += n
        if event in MERGED and row.n > 1:
            row.what = MERGED[event].format(n=row.n)
        row.leaderless = len(self.since)
        return row

    def note_leader(self, row: Row, name: str, time: int, before: int, after: int) -> None:
        """Take down what becomes of a partition's leader."""
        row.leaders_moved += before >= 0 and after >= 0 and before != after
        if after < 0 and name not in self.since:
            self.since[name] = time
            row.became_leaderless.append(name)
        elif after >= 0 and name in self.since:
            since = self.since.pop(name)
            row.got_leader.append(name)
            row.longest_ms = max(row.longest_ms or 0, time - since)
            self.outages.append((name, since, time))
        row.leaderless = len(self.since)

    def lose(self, names: Iterable[str], time: int) -> None:
        """Partitions that are deleted are not missed any longer."""
        for name in names:
            if name in self.since:
                self.outages.append((name, self.since.pop(name), time))

    def table(self) -> pa.Table:
        """The timeline."""
        return TIMELINE.table({
            column.name: [getattr(row, column.name) for row in self.rows]
            for column in TIMELINE.columns
        })

    def outages_table(self) -> pa.Table:
        """Who was without a leader, from when to when; whoever still is has no end."""
        outages = [*self.outages, *((name, since, None) for name, since in self.since.items())]
        ordered = sorted(outages, key=lambda outage: (outage[1], outage[0]))
        return OUTAGES.table({
            "partition": [name for name, _, _ in ordered],
            "since": [since for _, since, _ in ordered],
            "until": [until for _, _, until in ordered],
            "duration_ms": [
                None if until is None else until - since for _, since, until in ordered
            ],
            "cluster": [0] * len(ordered),
        })
