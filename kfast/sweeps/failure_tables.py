"""Partitions of a KRaft cluster whose brokers' order decides what becomes of them.

KRaft fences brokers one after another, by ascending id. For nearly every partition the order does
not matter, and a failover order says who leads (`kernels/sweep.pyx` knows when). It does matter
where a fencing changes more than leader, ISR and ELR, and where nobody or a dead broker leads at
first. For those, every set of their brokers is tried: a small cluster holds one copy of the
partition per set, and the controller's own kernels fence the brokers in all copies at once.

Source: docs/kraft.md, sections 3, 5 and 6.1.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kfast.errors import ArgumentError
from kfast.kernels import partition_changes
from kfast.kernels import sweep as kernel
from kfast.kernels.change_log import ChangeLog
from kfast.schema import NO_LEADER
from kfast.state import ClusterState
from kfast.state.changes import ChangeKind, Visited
from kfast.state.hosting import HostingIndex
from kfast.state.min_isr import is_under_min_isr, partition_min_isr
from kfast.state.quorum import LOST_ROW
from kfast.state.record_application import apply_changes, quorum_columns, quorum_rules
from kfast.state.records import EMPTY_ROWS, Rows
from kfast.state.registrations import quorum_of

__all__ = ["FailureTables", "Table", "tabulate"]

Table: TypeAlias = npt.NDArray[np.uint16]

LAYOUT = kernel.layout()
MOST_BROKERS = LAYOUT["table_width"]
MOST_COPIES = 1 << 16
"""Copies of partitions in one small cluster."""


@dataclass(frozen=True, eq=False)
class FailureTables:
    """Shapes with a table, and their partitions: parts of a `SweepPlan`.

    Attributes
    ----------
    groups : (G, F) int64
        Their sequences and tables begin at 0.
    sequences : (m,) int32
    rows : (n,) int32
    tables : (t,) uint16
        Cell i of a table says what becomes of the partition where the brokers at the places of
        the bits of i fail.
    live_places, in_sync_places : (t,) uint16
        The places of assigned replicas that are live then, and of those in sync, as masks.
    """

    groups: npt.NDArray[np.int64]
    sequences: Rows
    rows: Rows
    tables: Table
    live_places: Table
    in_sync_places: Table


def tabulate(state: ClusterState, rows: Rows) -> FailureTables:
    """Try what becomes of some partitions where any of their brokers fail.

    Parameters
    ----------
    state : ClusterState
        A KRaft cluster with an active controller. Not changed.
    rows : (n,) int32
        Partition rows.

    Raises
    ------
    ArgumentError
        A partition has more brokers than a table may have, or Kafka's controller would fail by an
        internal error.
    """
    shapes: dict[tuple[int, bytes, bytes, bytes], tuple[list[int], list[Rows]]] = {}
    for copies in _batches(state, rows):
        cells, live, in_sync = copies.cells()
        for row, brokers, begin in zip(
            copies.rows.tolist(), copies.brokers, copies.begin.tolist(), strict=True
        ):
            own = slice(begin, begin + (1 << brokers.size))
            shape = (
                brokers.size, cells[own].tobytes(), live[own].tobytes(), in_sync[own].tobytes()
            )
            members = shapes.setdefault(shape, ([], []))
            members[0].append(row)
            members[1].append(brokers)
    groups = np.zeros((len(shapes), LAYOUT["fields"]), np.int64)
    groups[:, 0] = LAYOUT["is_tabulated"]
    groups[:, 6] = [width for width, *_ in shapes]
    groups[:, 7] = [len(members) for members, _ in shapes.values()]
    groups[:, 8] = _begins(groups[:, 6] * groups[:, 7])
    groups[:, 10] = _begins(1 << groups[:, 6])
    return FailureTables(
        groups,
        np.concatenate([EMPTY_ROWS, *(b for _, brokers in shapes.values() for b in brokers)]),
        np.asarray([row for members, _ in shapes.values() for row in members], np.int32),
        np.frombuffer(b"".join(table for _, table, _, _ in shapes), np.uint16),
        np.frombuffer(b"".join(live for _, _, live, _ in shapes), np.uint16),
        np.frombuffer(b"".join(in_sync for _, _, _, in_sync in shapes), np.uint16),
    )


def _begins(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each of some ranges begins that lie behind one another."""
    return np.cumsum(sizes) - sizes


def _batches(state: ClusterState, rows: Rows) -> Iterator[_Copies]:
    """Copies of some partitions, not too many at a time."""
    brokers, begin, n = [_brokers_of(state, row) for row in rows.tolist()], 0, 0
    for end, own in enumerate(brokers, 1):
        n += 1 << own.size
        if n >= MOST_COPIES or end == rows.size:
            yield _Copies(state, rows[begin:end], brokers[begin:end])
            begin, n = end, 0


def _name(state: ClusterState, row: int) -> str:
    """Topic and number of a partition."""
    return f"{state.topic[int(state.topic_row[row])].as_py()}-{state.partition[row]}"


def _brokers_of(state: ClusterState, row: int) -> Rows:
    """Brokers whose failure may matter for a partition, ascending, and a leader that is down.

    Those of partition 0 are among them where its reassignment may end, and change min ISR.
    """
    zero = int(quorum_of(state).first_partition[state.topic_row[row]])
    rows = [row, zero] if zero >= 0 and state.records["removing"][zero] else [row]
    tracked = [state.replicas[r, : state.records["n_slots"][r]].astype(np.int32) for r in rows]
    brokers = np.unique(np.concatenate(tracked))
    brokers = brokers[state.up[brokers]]
    leader = state.records["leader"][row]
    if leader != NO_LEADER:
        brokers = np.union1d(brokers, leader).astype(np.int32)
    if brokers.size > MOST_BROKERS:
        raise ArgumentError(
            f"{_name(state, row)} has {brokers.size} brokers, and the order in which they fail "
            f"decides what becomes of it; a sweep takes at most {MOST_BROKERS} such brokers"
        )
    return brokers


class _Copies:
    """A small cluster with a copy of some partitions for every set of their brokers.

    Copies of one partition lie together, that of set i at place i; each belongs to a topic of its
    own, where a copy of partition 0 follows behind all others if there is one.

    Attributes
    ----------
    rows : (n,) int32
        Rows of the partitions in the cluster.
    brokers : n arrays
        Broker rows of each partition.
    begin : (n,) int64
        Where each partition's copies begin.
    """

    def __init__(self, state: ClusterState, rows: Rows, brokers: list[Rows]) -> None:
        self.state, self.rows, self.brokers = state, rows, brokers
        sizes = np.asarray([1 << own.size for own in brokers], np.int64)
        self.begin = _begins(sizes)
        self.source = np.repeat(rows, sizes)
        self.n = self.source.size
        zero = quorum_of(state).first_partition[state.topic_row[self.source]]
        self.with_zero = np.flatnonzero((zero >= 0) & (zero != self.source)).astype(np.int32)
        self.zero = zero[self.with_zero]
        self.behind = np.full(self.n, -1, np.int32)
        self.behind[self.with_zero] = self.n + np.arange(self.with_zero.size)

    def cells(self) -> tuple[Table, Table, Table]:
        """What becomes of every copy: a bit for each count and its leader; who is live; in sync."""
        after, unclean = self._fenced(allows_unclean=True)
        clean, _ = self._fenced(allows_unclean=False)
        n_live, in_sync = np.empty((2, self.n), np.int32)
        slots = np.empty(self.n, np.uint64)
        kernel.count_live(quorum_columns(after), quorum_rules(after), n_live, in_sync, slots)
        needed = partition_min_isr(after, np.arange(self.n, dtype=np.int32))
        leader = after.records["leader"][: self.n]
        before, is_led = self.state.records["leader"][self.source], leader != NO_LEADER
        counts = (
            ~is_led,
            clean.records["leader"][: self.n] == NO_LEADER,
            n_live == 0,
            ~is_led | is_under_min_isr(in_sync, needed),
            is_led & (in_sync == needed),
            is_led & (before != NO_LEADER) & (before != leader),
            is_led & unclean[: self.n],
        )
        cells = np.zeros(self.n, np.uint16)
        for m, holds in enumerate(counts):
            cells |= holds.astype(np.uint16) << m
        cells[is_led & (in_sync == 1)] |= LAYOUT["table_single"]
        live, live_in_sync = np.zeros((2, self.n), np.uint16)
        isr = after.records["isr"][: self.n].astype(np.uint64)
        for brokers, begin in zip(self.brokers, self.begin.tolist(), strict=True):
            own = slice(begin, begin + (1 << brokers.size))
            led = is_led[own]
            place = np.searchsorted(brokers, leader[own][led]) + 1
            cells[own][led] |= (place << LAYOUT["table_leader"]).astype(np.uint16)
            for slot in range(after.n_slots):
                place = np.searchsorted(brokers, after.replicas[: self.n][own][:, slot])
                for mask, masks in ((slots, live), (slots & isr, live_in_sync)):
                    holds = mask[own] >> np.uint64(slot) & np.uint64(1)
                    masks[own] |= (holds << place.astype(np.uint64)).astype(np.uint16)
        return cells, live, live_in_sync

    def _fenced(self, *, allows_unclean: bool) -> tuple[ClusterState, npt.NDArray[np.bool_]]:
        """The copies after all brokers of their sets were fenced; where the leader is unclean."""
        copies = self._cluster()
        if not allows_unclean:
            copies.topic_unclean_leader_election[:] = 0
        unclean = np.zeros(copies.n_partitions, np.bool_)
        down: list[tuple[int, Rows]] = []
        for broker, rows in self._failing():
            log = ChangeLog()
            fault = partition_changes.update(
                quorum_columns(copies), quorum_rules(copies), rows, Visited.IN_ISR, broker, -1, -1,
                log,
            )
            if fault >= 0:
                row = int(self.source[int(copies.topic_row[fault])])
                raise ArgumentError(
                    f"Kafka's controller fails by an internal error at {_name(self.state, row)}"
                    f" when broker {self.state.broker_id[broker]} is fenced"
                )
            changes = log.changes
            elected = changes[(changes["kinds"] & ChangeKind.ELECTION) != 0]
            unclean[elected["row"]] = (elected["kinds"] & ChangeKind.UNCLEAN) != 0
            apply_changes(copies, log)
            down.append((broker, rows))
            _lose_directories(copies, down if _moves_replicas(copies, changes) else down[-1:])
        return copies, unclean

    def _failing(self) -> Iterator[tuple[int, Rows]]:
        """Brokers that can fail, ascending, and the copies in whose sets they are."""
        of_broker: dict[int, list[Rows]] = {}
        for brokers, begin in zip(self.brokers, self.begin.tolist(), strict=True):
            sets = np.arange(1 << brokers.size, dtype=np.int32)
            for place, broker in enumerate(brokers.tolist()):
                of_broker.setdefault(broker, []).append(begin + sets[sets >> place & 1 == 1])
        for broker in sorted(of_broker):
            if self.state.up[broker]:
                rows = np.concatenate(of_broker[broker]).astype(np.int32)
                behind = self.behind[rows]
                yield broker, np.concatenate([rows, behind[behind >= 0]])

    def _cluster(self) -> ClusterState:
        """The small cluster before anything fails."""
        state, copies = self.state, copy.copy(self.state)
        rows = np.concatenate([self.source, self.zero])
        topics = state.topic_row[self.source]
        copies.records, copies.replicas = state.records.take(rows), state.replicas[rows]
        copies.replica_state = state.replica_state[rows]
        copies.topic_row = np.concatenate([np.arange(self.n, dtype=np.int32), self.with_zero])
        copies.partition = state.partition[rows]
        copies.topic, copies.topic_id = state.topic.take(topics), state.topic_id.take(topics)
        copies.topic_flags = state.topic_flags[topics]
        copies.topic_unclean_leader_election = state.topic_unclean_leader_election[topics]
        copies.topic_min_insync_replicas = state.topic_min_insync_replicas[topics]
        copies.leader_offline, copies.pending = copies.new_bitmap(), copies.new_bitmap()
        copies.free_rows, copies.list_orders = EMPTY_ROWS, {}
        copies._columns = copies._lookup = copies.survey = None
        copies._index = HostingIndex.scanning()
        copies.quorum = quorum_of(state).copy(copies)
        copies.quorum.take_rows(rows)
        copies.quorum.allocate_directories()
        return copies


def _moves_replicas(copies: ClusterState, changes: npt.NDArray[Any]) -> bool:
    """Whether replicas have changed places without their directories, which are not recorded."""
    completed = (changes["kinds"] & ChangeKind.COMPLETED) != 0
    return bool(completed.any()) and not quorum_of(copies).directories_on


def _lose_directories(copies: ClusterState, down: list[tuple[int, Rows]]) -> None:
    """Let brokers be down in some rows alone: there they lose the directories of their replicas."""
    quorum = quorum_of(copies)
    if len(down) > 1:
        quorum.directory = None
        quorum.allocate_directories()
    assert quorum.directory is not None
    for broker, rows in down:
        assigned = np.arange(copies.n_slots) < copies.records["n_replicas"][rows, None]
        at, slots = np.nonzero((copies.replicas[rows] == broker) & assigned)
        quorum.directory[rows[at], slots] = LOST_ROW
