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

__all__ = [
    "NEVER", "SHUTDOWN", "Concerned", "EventRecorder", "FailureRecorder", "RecordedEvent",
    "Recording", "holds",
]

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
class Concerned:
    """Partitions that brokers which leave a cluster have a replica of, before they leave.

    Attributes
    ----------
    dead : (N,) bool
        Brokers that leave.
    rows : (n,) int32
        Partition rows, ascending.
    place : (P,) int64
        Where each of these rows stands among them; any number for other rows.
    first : (n,) partition records
    replicas : (n, S) int64
        Broker row of each assigned replica; -1 behind the last.
    live_before, live_after : (n,) uint64
        Slots that are live before, and without the brokers that leave.
    """

    dead: Bits
    rows: Rows
    place: npt.NDArray[np.int64]
    first: Records
    replicas: npt.NDArray[np.int64]
    live_before: Slots
    live_after: Slots

    @classmethod
    def of(cls, state: ClusterState, brokers: Sequence[int]) -> Concerned:
        """Those of some broker rows."""
        dead = np.zeros(state.n_brokers, np.bool_)
        dead[list(brokers)] = True
        rows = state.rows_tracking(np.flatnonzero(dead).astype(np.int32)).copy()
        place = np.empty(state.n_partitions, np.int64)
        place[rows] = np.arange(rows.size)
        first, replicas = state.records.take(rows), state.replicas[rows].astype(np.int64)
        slots = np.arange(replicas.shape[1])
        replicas[slots >= first["n_replicas"][:, None]] = -1
        live = state.live_slots(rows)
        leaving = (holds(dead, replicas).astype(np.uint64) << slots.astype(np.uint64)).sum(
            axis=1, dtype=np.uint64)
        return cls(dead, rows, place, first, replicas, live, live & ~leaving)


@dataclass(frozen=True, eq=False)
class Recording:
    """All events of one failure.

    Attributes
    ----------
    state : ClusterState
        The cluster before or in the end: nothing is read from it that the events change.
    concerned : Concerned
    live : (N,) bool
        Brokers that are up in the end.
    last : (n,) partition records
        After all events.
    events : list of RecordedEvent
    takeover : int
        ZooKeeper mode: number of the event that is a controller's that takes over; or NEVER.
    """

    state: ClusterState
    concerned: Concerned
    live: Bits
    last: Records
    events: list[RecordedEvent]
    takeover: int

    @property
    def dead(self) -> Bits:
        """(N,) brokers that fail."""
        return self.concerned.dead

    @property
    def rows(self) -> Rows:
        """(n,) partition rows that have a replica on a broker that fails."""
        return self.concerned.rows

    @property
    def first(self) -> Records:
        """(n,) partition records before all events."""
        return self.concerned.first

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
            for live in (self.concerned.live_before, self.concerned.live_after)
        )
        under_min: Bits = after & ~before
        return under_min


def holds(brokers: Bits, rows: npt.NDArray[Any]) -> Bits:
    """Whether something holds for each of some broker rows; not for -1, who is nobody."""
    # The value for nobody stands last, where -1 finds it.
    holds: Bits = np.append(brokers, False)[rows]
    return holds


class EventRecorder:
    """Records the events of one controller.

    Parameters
    ----------
    state : ClusterState
        As the events change it.
    concerned : Concerned
        Of all brokers that leave, before they do.
    """

    def __init__(self, state: ClusterState, concerned: Concerned) -> None:
        self.state, self.concerned = state, concerned
        self.records, self.events = concerned.first.copy(), list[RecordedEvent]()

    def note(
        self, group: tuple[int, ...], happened: Sequence[EventOutcome], *, everywhere: bool = False
    ) -> EventOutcome:
        """Note what one event did to the rows that its brokers host, or to all of them."""
        hosted = self.concerned.rows
        if not everywhere:
            hosted = self.state.rows_tracking(np.asarray(sorted(group), np.int32))
        at, after = self.concerned.place[hosted], self.state.records.take(hosted)
        (event,) = happened
        self.events.append(
            RecordedEvent(group, event.outcome, at, self.records.take(at), after)
        )
        self.records.put(at, after)  # Assigning would copy field by field, in ten times the time.
        return event

    def recording(self, state: ClusterState, live: Bits, takeover: int) -> Recording:
        """All that was noted; the arguments are the attributes of the recording."""
        return Recording(state, self.concerned, live, self.records, self.events, takeover)


class FailureRecorder:
    """Lets brokers of one cluster fail, and records what its controller does.

    Every failure is of the cluster as it was, on a copy: the controller has started on it. Copies
    are used again, for new memory costs more than copying.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    """

    def __init__(self, state: ClusterState) -> None:
        self.started = state.copy()
        open_events(self.started).start()
        self._spent = list[ClusterState]()

    def record(
        self, concerned: Concerned, groups: Iterable[Iterable[int]], *, takes_over: bool = False,
        journal: str = "counts",
    ) -> Recording:
        """Let brokers fail, group after group, and record every event.

        Parameters
        ----------
        concerned : Concerned
            Of all these brokers on the cluster `started`.
        groups : iterable of iterable of int
            Broker rows; those of one group are one event. KRaft fences one broker an event.
        takes_over : bool
            ZooKeeper mode: the brokers of the first group are found gone by a new controller.
        journal : {"counts", "full"}
        """
        state = self._copy()
        common, recorder = open_events(state, journal=journal), EventRecorder(state, concerned)
        for number, group in enumerate(map(tuple, groups)):
            takes = takes_over and not number
            recorder.note(group, _fail(common, group, takes_over=takes), everywhere=takes)
        live = state.up.copy()
        self._spent.append(state)
        return recorder.recording(self.started, live, 0 if takes_over else NEVER)

    def _copy(self) -> ClusterState:
        try:
            return self.started.copy_over(self._spent.pop())
        except IndexError:  # There is none, or another thread has taken the last one.
            return self.started.copy()


def _fail(
    common: CommonEvents, group: Sequence[int], *, takes_over: bool
) -> list[EventOutcome]:
    """One event: brokers fail, or a controller takes over that finds them gone."""
    ids = common.state.broker_id[list(group)].tolist()
    if takes_over:
        common.state.remove_live_brokers(ids)
        return common.start()
    return common.brokers_failed(ids)
