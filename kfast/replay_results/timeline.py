"""The incident as tables: what happened when, what moved, who was leaderless for how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import pyarrow as pa

from kfast.schema import OUTAGES, TIMELINE

NOTHING_MERGED: Mapping[str, str] = MappingProxyType({})
MERGED_MS = 60_000
"""Events of one kind that follow one another within the same minute may count as one."""


@dataclass
class Row:
    """One event; see `schema.TIMELINE`. `n` counts what was merged into it."""

    time: int
    cluster: int
    controller: int
    controller_epoch: int | None
    event: str
    what: str
    inferred: bool = False
    n: int = 0
    transitions: int = 0
    leaders_moved: int = 0
    isr_changes: int = 0
    refused: int = 0
    became_leaderless: list[str] = field(default_factory=list)
    got_leader: list[str] = field(default_factory=list)
    leaderless: int = 0
    longest_ms: int | None = None

    @property
    def changed_anything(self) -> bool:
        """Whether the event left a trace in the cluster."""
        return bool(
            self.transitions or self.leaders_moved or self.isr_changes or self.refused
            or self.became_leaderless or self.got_leader
        )


class Periods:
    """Times during which something held, by the name of what it held for."""

    def __init__(self) -> None:
        self.since: dict[str, int] = {}
        self.ended: list[tuple[str, int, int]] = []

    def begin(self, name: str, time: int) -> bool:
        """It holds from now on; return whether it did not before."""
        is_new = name not in self.since
        self.since.setdefault(name, time)
        return is_new

    def end(self, name: str, time: int) -> int | None:
        """It holds no longer; return for how long it did, None where it did not."""
        since = self.since.pop(name, None)
        if since is None:
            return None
        self.ended.append((name, since, time))
        return time - since

    def __iter__(self) -> Iterator[tuple[str, int, int | None]]:
        """All of them; those that have not ended have no end."""
        yield from self.ended
        yield from ((name, since, None) for name, since in self.since.items())


class Timeline:
    """Collects the events of a cluster, and its partitions that are without a leader.

    Parameters
    ----------
    cluster : int
        Number of the cluster.
    merged : mapping of str to str
        Kinds of events that count as one where they follow one another; in words, `n` for how many.

    Attributes
    ----------
    controller, epoch : int
        The active controller, and its epoch.
    """

    def __init__(self, cluster: int = 0, merged: Mapping[str, str] = NOTHING_MERGED) -> None:
        self.cluster = cluster
        self.merged = merged
        self.rows: list[Row] = []
        self.leaderless = Periods()
        self.controller = -1
        self.epoch: int | None = 0

    def begin(
        self, event: str, what: str, time: int, n: int = 1, *, inferred: bool = False
    ) -> Row:
        """The row of an event: a new one, or the last where the same goes on."""
        row = self.rows[-1] if self.rows else None
        if row is None or row.event != event or event not in self.merged or (
            row.time // MERGED_MS != time // MERGED_MS
        ):
            row = Row(time, self.cluster, self.controller, self.epoch, event, what, inferred)
            self.rows.append(row)
        row.n += n
        if event in self.merged and row.n > 1:
            row.what = self.merged[event].format(n=row.n)
        row.leaderless = len(self.leaderless.since)
        return row

    def note_leader(
        self, row: Row, name: str, time: int, before: int, after: int, *, is_up: bool = True
    ) -> None:
        """Take down what becomes of a partition's leader, which may be one that is not up."""
        row.leaders_moved += before >= 0 and after >= 0 and before != after
        if after < 0 or not is_up:
            if self.leaderless.begin(name, time):
                row.became_leaderless.append(name)
        elif (lasted := self.leaderless.end(name, time)) is not None:
            row.got_leader.append(name)
            row.longest_ms = max(row.longest_ms or 0, lasted)
        row.leaderless = len(self.leaderless.since)

    def delete(self, names: Iterable[str], time: int) -> None:
        """Partitions that are deleted need no leader any longer."""
        for name in names:
            self.leaderless.end(name, time)


def timeline_table(timelines: Sequence[Timeline]) -> pa.Table:
    """Events of all clusters, by time: `schema.TIMELINE`."""
    rows = sorted((row for one in timelines for row in one.rows), key=lambda row: row.time)
    return TIMELINE.table({
        column.name: [getattr(row, column.name) for row in rows] for column in TIMELINE.columns
    })


def outages_table(timelines: Sequence[Timeline]) -> pa.Table:
    """Who was without a leader, from when to when: `schema.OUTAGES`."""
    outages = sorted(
        ((*period, one.cluster) for one in timelines for period in one.leaderless),
        key=lambda outage: (outage[1], outage[0]),
    )
    return OUTAGES.table({
        "partition": [name for name, *_ in outages],
        "since": [since for _, since, _, _ in outages],
        "until": [until for _, _, until, _ in outages],
        "duration_ms": [
            None if until is None else until - since for _, since, until, _ in outages
        ],
        "cluster": [cluster for *_, cluster in outages],
    })
