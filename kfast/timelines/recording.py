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
from kfast.state.records import Rows, n_bits

__all__ = ["NEVER", "RecordedEvent", "Recording", "record_failure", "started_cluster"]

Bits = npt.NDArray[np.bool_]
Records = npt.NDArray[Any]
NEVER = -1


@dataclass(frozen=True, eq=False)
class RecordedEvent:
    """One event of the controller.

    Attributes
    ----------
    group : tuple of int
        Broker rows that it is about.
    outcome : Outcome or QuorumOutcome
    before, after : (n,) partition records
        Of the affected rows.
    """

    group: tuple[int, ...]
    outcome: Outcome | QuorumOutcome
    before: Records
    after: Records

    @cached_property
    def writes(self) -> npt.NDArray[np.int64]:
        """(n,) how often each row was written."""
        writes: npt.NDArray[np.int64] = self.after["version"].astype(np.int64)
        return writes - self.before["version"].astype(np.int64)

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
    events : list of RecordedEvent
    takes_over : bool
        ZooKeeper mode: the first event is that of the controller that takes over.
    under_min_partitions : int
        Partitions that these brokers take under min ISR.
    """

    state: ClusterState
    dead: Bits
    live: Bits
    rows: Rows
    events: list[RecordedEvent]
    takes_over: bool
    under_min_partitions: int

    @cached_property
    def final_leader(self) -> Rows:
        """(n,) broker row that leads each row in the end; -1 where none does that lives."""
        leader = self.events[-1].after["leader"].astype(np.int32)
        led = leader >= 0
        led[led] = self.live[leader[led]]
        leader[~led] = -1
        return leader

    @cached_property
    def lost(self) -> Bits:
        """(n,) whether the leader of each row fails."""
        leader = self.events[0].before["leader"]
        lost: Bits = leader >= 0
        lost[lost] = self.dead[leader[lost]]
        return lost

    @cached_property
    def replicas(self) -> npt.NDArray[np.int64]:
        """(n, S) broker row of each assigned replica of each row; -1 behind the last."""
        replicas = self.state.replicas[self.rows].astype(np.int64)
        slots = np.arange(replicas.shape[1])
        replicas[slots >= self.events[0].before["n_replicas"][:, None]] = -1
        return replicas

    @property
    def offline_partitions(self) -> int:
        """Partitions that lose their leader for good."""
        return int((self.lost & (self.final_leader < 0)).sum())


def started_cluster(state: ClusterState) -> ClusterState:
    """A copy of a cluster on which a controller has started."""
    started = state.copy()
    open_events(started, journal="off").start()
    return started


def record_failure(
    started: ClusterState, groups: Iterable[Iterable[int]], *, takes_over: bool = False,
    journal: str = "counts",
) -> Recording:
    """Let brokers fail, group after group, and record every event.

    Parameters
    ----------
    started : ClusterState
        As of `started_cluster`; not changed.
    groups : iterable of iterable of int
        Broker rows; those of one group are one event. KRaft fences one broker an event.
    takes_over : bool
        ZooKeeper mode: the brokers of the first group are found gone by a new controller.
    journal : {"counts", "full"}
    """
    state = started.copy()
    parts = [tuple(group) for group in groups]
    common = open_events(state, journal=journal)
    common.start()
    dead = np.zeros(state.n_brokers, np.bool_)
    dead[[row for part in parts for row in part]] = True
    rows = state.rows_tracking(np.flatnonzero(dead).astype(np.int32)).copy()
    records = state.records.take(rows)
    in_sync = records["isr"].astype(np.uint64)
    live_before = n_bits(in_sync & state.live_slots(rows))
    events: list[RecordedEvent] = []
    for part in parts:
        before = records
        happened = _fail(common, part, takes_over=takes_over and not events)
        records = state.records.take(rows)
        events.append(RecordedEvent(part, happened.outcome, before, records))
    needed = partition_min_isr(state, rows)
    live_after = n_bits(in_sync & state.live_slots(rows))
    under = is_under_min_isr(live_after, needed) & ~is_under_min_isr(live_before, needed)
    return Recording(
        state, dead, state.up.copy(), rows, events, takes_over, int(under.sum())
    )


def _fail(common: CommonEvents, part: Sequence[int], *, takes_over: bool) -> EventOutcome:
    """One event: brokers fail, or a controller takes over that finds them gone."""
    ids = common.state.broker_id[list(part)].tolist()
    if takes_over:
        common.state.remove_live_brokers(ids)
        return common.start()[0]
    (event,) = common.brokers_failed(ids)
    return event
