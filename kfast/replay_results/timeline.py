"""The incident as tables: what happened when, what moved, who was leaderless for how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from kfast.schema import (
    BROKER_SESSIONS,
    CONTROLLER_TERMS,
    OUTAGES,
    REPLAY_REASSIGNMENTS,
    TIMELINE,
    UNCLEAN_ELECTION,
    ResultTable,
)

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
    """Times during which something held, by what it held for."""

    def __init__(self) -> None:
        self.since: dict[str | int, int | None] = {}
        """Those that have not ended: since when; None where that was before the log."""
        self.ended: list[tuple[str | int, int | None, int]] = []

    def begin(self, subject: str | int, time: int | None) -> bool:
        """It holds from now on; return whether it did not before."""
        is_new = subject not in self.since
        self.since.setdefault(subject, time)
        return is_new

    def end(self, subject: str | int, time: int) -> bool:
        """It holds no longer; return whether it did before."""
        if subject not in self.since:
            return False
        self.ended.append((subject, self.since.pop(subject), time))
        return True

    def change(self, subjects: Set[str | int], time: int, since: int | None) -> None:
        """It holds for these alone, from `time` or, where it is new, `since`."""
        for subject in self.since.keys() - subjects:
            self.end(subject, time)
        for subject in subjects - self.since.keys():
            self.begin(subject, since)

    def __iter__(self) -> Iterator[tuple[str | int, int | None, int | None]]:
        """All of them; those that have not ended have no end."""
        yield from self.ended
        yield from ((subject, since, None) for subject, since in self.since.items())


class Timeline:
    """Collects the events of a cluster, and what lasted: outages, reassignments, sessions, terms.

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
    leaderless, reassigned, sessions : Periods
        Of partitions without a leader, partitions under reassignment, brokers that are up.
    terms : list of (int, int or None, int, int or None)
        Controllers: broker id, epoch, since when, until when.
    """

    def __init__(self, cluster: int = 0, merged: Mapping[str, str] = NOTHING_MERGED) -> None:
        self.cluster = cluster
        self.merged = merged
        self.rows: list[Row] = []
        self.leaderless, self.reassigned, self.sessions = Periods(), Periods(), Periods()
        self.terms: list[tuple[int, int | None, int, int | None]] = []
        self.controller = -1
        self.epoch: int | None = 0
        self.knows_brokers = False

    def begin(
        self, event: str, what: str, time: int, n: int = 1, *, inferred: bool = False
    ) -> Row:
        """The row of an event: a new one, or the last where the same goes on."""
        row = next(
            (row for row in reversed(self.rows) if row.event != UNCLEAN_ELECTION), None
        )
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
        elif self.leaderless.end(name, time):
            row.got_leader.append(name)
            row.longest_ms = max(row.longest_ms or 0, time - (self.leaderless.ended[-1][1] or time))
        row.leaderless = len(self.leaderless.since)

    def note_brokers(self, broker_ids: Set[int], time: int) -> None:
        """Take down which brokers are up; of those in the first call none knows since when."""
        self.sessions.change(broker_ids, time, time if self.knows_brokers else None)
        self.knows_brokers = True

    def begin_term(self, controller: int, epoch: int | None, time: int) -> None:
        """Another controller is active, or the same one again."""
        self.controller, self.epoch = controller, epoch
        if self.terms:
            self.terms[-1] = (*self.terms[-1][:3], time)
        self.terms.append((controller, epoch, time, None))

    def note_unclean(self, name: str, time: int, election: Mapping[str, Any]) -> None:
        """Add a row for an election outside the ISR, and what it may have cost.

        Parameters
        ----------
        name : str
            The partition.
        time : int
        election : mapping
            `isr_before`, `leader` and `leader_epoch`, as in `schema.ELECTIONS`.
        """
        isr, leader, epoch = election["isr_before"], election["leader"], election["leader_epoch"]
        members = ",".join(map(str, isr)) or "nobody"
        what = (
            f"{name}: unclean election of broker {leader}, ISR was {members}, leader epoch "
            f"{epoch - 1} to {epoch}; records from the end of its log to that of the last leader "
            "in the ISR may be lost, how many no controller's log says"
        )
        row = Row(time, self.cluster, self.controller, self.epoch, UNCLEAN_ELECTION, what)
        row.leaderless = len(self.leaderless.since)
        self.rows.append(row)

    def delete(self, names: Iterable[str], time: int) -> None:
        """Partitions that are deleted have no leader and no reassignment any longer."""
        for name in names:
            self.leaderless.end(name, time)
            self.reassigned.end(name, time)


class IncidentTables(NamedTuple):
    """What a replay tells of an incident, as tables; see `schema`."""

    timeline: pa.Table
    outages: pa.Table
    reassignments: pa.Table
    broker_sessions: pa.Table
    controller_terms: pa.Table


def incident_tables(timelines: Sequence[Timeline]) -> IncidentTables:
    """The tables of an incident, of the timelines of all clusters."""
    rows = sorted((row for one in timelines for row in one.rows), key=lambda row: row.time)
    terms = sorted(
        ((*term, one.cluster) for one in timelines for term in one.terms), key=lambda term: term[2]
    )
    return IncidentTables(
        TIMELINE.table({name: [getattr(row, name) for row in rows]
                        for name in TIMELINE.schema.names}),
        _periods(OUTAGES, "leaderless", timelines),
        _periods(REPLAY_REASSIGNMENTS, "reassigned", timelines),
        _periods(BROKER_SESSIONS, "sessions", timelines),
        CONTROLLER_TERMS.table({name: [term[at] for term in terms]
                                for at, name in enumerate(CONTROLLER_TERMS.schema.names)}),
    )


def _periods(result: ResultTable, name: str, timelines: Sequence[Timeline]) -> pa.Table:
    """Since when and until when something held in each cluster, by its begin."""
    rows = sorted(
        ((*period, one.cluster) for one in timelines for period in getattr(one, name)),
        key=lambda row: (row[1] is not None, row[1] or 0, row[0]),
    )
    columns = {
        result.columns[0].name: [row[0] for row in rows],
        "since": [row[1] for row in rows],
        "until": [row[2] for row in rows],
        "duration_ms": [
            None if row[1] is None or row[2] is None else row[2] - row[1] for row in rows
        ],
        "cluster": [row[3] for row in rows],
    }
    return result.table({name: columns[name] for name in result.schema.names})
