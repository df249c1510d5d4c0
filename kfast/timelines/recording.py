"""A failure as the engine's controller handles it, event by event: no times are in here.

The events run on a copy of the cluster. Who leads is taken from the affected partitions before and
after each event; requests and records are those of the journal.

Source: docs/timeline.md, section "Counts".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kfast.controllers import CommonEvents, EventOutcome, open_events
from kfast.journal import Outcome, QuorumOutcome
from kfast.state import ClusterState
from kfast.state.min_isr import is_under_min_isr, partition_min_isr
from kfast.state.records import Rows, Slots, n_bits

__all__ = ["NEVER", "SHUTDOWN", "RecordedEvent", "Recording", "holds", "record_failure"]

Bits = npt.NDArray[np.bool_]
Records = npt.NDArray[Any]
NEVER = -1
SHUTDOWN = "controlled_shutdown"
"""Event of a ZooKeeper-mode controller of which a broker asks."""


@dataclass(frozen=True, eq=False)
class RecordedEvent:
    """One event of the controller.

    Attributes
    ----------
    group : tuple of int
        Broker rows that it is about.
    outcome : Outcome or QuorumOutcome
    at : (n,) int64
        Places among the rows of the recording that it can change: those that its brokers host.
    before, after : (n,) partition records
        Of these.
    """

    group: tuple[int, ...]
    outcome: Outcome | QuorumOutcome
    at: npt.NDArray[np.int64]
    before: Records
    after: Records

    @cached_property
    def writes(self) -> npt.NDArray[np.int64]:
        """(n,) how often each row was written."""
        writes: npt.NDArray[np.int64] = self.after["version"].astype(np.int64)
        writes -= self.before["version"]
        return writes

    @cached_property
    def elected(self) -> Bits:
        """(n,) whether each row has another leader than before."""
        leader = self.after["leader"]
        elected: Bits = (leader != self.before["leader"]) & (leader >= 0)
        return elected

    @cached_property
    def raised(self) -> Bits:
        """(n,) whether each row has a new leader epoch."""
        raised: Bits = self.after["leader_epoch"] != self.before["leader_epoch"]
        return raised


@dataclass(frozen=True, eq=False)
class Recording:
    """All events of one failure.

    Attributes
    ----------
    state : ClusterState
        The cluster in the end.
    dead, live : (N,) bool
        Brokers that fail, and those that are up in the end.
    rows : (n,) int32
        Partition rows that have a replica on a broker that fails.
    first, last : (n,) partition records
        Of these rows, before and after all events.
    live_before : (n,) uint64
        Slots of each row that were live before.
    events : list of RecordedEvent
    takeover : int
        ZooKeeper mode: number of the event that is a controller's that takes over; or NEVER.
    """

    state: ClusterState
    dead: Bits
    live: Bits
    rows: Rows
    first: Records
    last: Records
    live_before: Slots
    events: list[RecordedEvent]
    takeover: int

    @cached_property
    def final_leader(self) -> Rows:
        """(n,) broker row that leads each row in the end; -1 where none does that lives."""
        leader: Rows = self.last["leader"].astype(np.int32)
        leader[~holds(self.live, leader)] = -1
        return leader

    @cached_property
    def lost(self) -> Bits:
        """(n,) whether the leader of each row fails."""
        return holds(self.dead, self.first["leader"])

    @cached_property
    def replicas(self) -> npt.NDArray[np.int64]:
        """(n, S) broker row of each assigned replica of each row; -1 behind the last."""
        replicas = self.state.replicas[self.rows].astype(np.int64)
        slots = np.arange(replicas.shape[1])
        replicas[slots >= self.first["n_replicas"][:, None]] = -1
        return replicas

    @property
    def offline_partitions(self) -> int:
        """Partitions that lose their leader for good."""
        return int((self.lost & (self.final_leader < 0)).sum())

    @property
    def under_min_partitions(self) -> int:
        """Partitions that these brokers take under min ISR."""
        return int(self.under_min.sum())

    @cached_property
    def under_min(self) -> Bits:
        """(n,) whether these brokers take each row under min ISR."""
        in_sync = self.first["isr"].astype(np.uint64)
        needed = partition_min_isr(self.state, self.rows)
        before, after = (
            is_under_min_isr(n_bits(in_sync & live), needed)
            for live in (self.live_before, self.state.live_slots(self.rows))
        )
        under_min: Bits = after & ~before
        return under_min


def holds(brokers: Bits, rows: npt.NDArray[Any]) -> Bits:
    """Whether something holds for each of some broker rows; not for -1, who is nobody."""
    # The value for nobody stands last, where -1 finds it.
    holds: Bits = np.append(brokers, False)[rows]
    return holds


def record_failure(
    state: ClusterState, groups: Iterable[Iterable[int]], *, takes_over: bool = False,
    journal: str = "counts", spent: list[ClusterState] | None = None,
) -> Recording:
    """Let a controller start and brokers fail, group after group, and record every event.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    groups : iterable of iterable of int
        Broker rows; those of one group are one event. KRaft fences one broker an event.
    takes_over : bool
        ZooKeeper mode: the brokers of the first group are found gone by a new controller.
    journal : {"counts", "full"}
    spent : list of ClusterState, optional
        Copies that earlier recordings no longer need. One of them is taken, and its memory used.
    """
    try:
        state = state.copy() if spent is None else state.copy_over(spent.pop())
    except IndexError:  # Another thread may have taken the last one.
        state = state.copy()
    parts = [tuple(group) for group in groups]
    common = open_events(state, journal=journal)
    common.start()
    dead = np.zeros(state.n_brokers, np.bool_)
    dead[[row for part in parts for row in part]] = True
    rows = state.rows_tracking(np.flatnonzero(dead).astype(np.int32)).copy()
    first = state.records.take(rows)
    live_before = state.live_slots(rows)
    records, events = first.copy(), list[RecordedEvent]()
    place = np.zeros(state.n_partitions, np.int64)
    place[rows] = np.arange(rows.size)
    for part in parts:
        takes_part = takes_over and not events
        hosted = rows if takes_part else state.rows_tracking(np.asarray(sorted(part), np.int32))
        at = place[hosted]
        happened = _fail(common, part, takes_over=takes_part)
        after = state.records.take(hosted)
        events.append(RecordedEvent(part, happened.outcome, at, records.take(at), after))
        records[at] = after
    return Recording(
        state, dead, state.up.copy(), rows, first, records, live_before, events,
        0 if takes_over else NEVER,
    )


def _fail(common: CommonEvents, part: Sequence[int], *, takes_over: bool) -> EventOutcome:
    """One event: brokers fail, or a controller takes over that finds them gone."""
    ids = common.state.broker_id[list(part)].tolist()
    if takes_over:
        common.state.remove_live_brokers(ids)
        return common.start()[0]
    (event,) = common.brokers_failed(ids)
    return event
