"""The hosting index: which partition rows track a broker.

Entries are hints, checked against the replica matrix at every look-up. What is tracked later is
appended; the index is made afresh when too much was appended.
"""

from __future__ import annotations

import copy as copying
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kfast.kernels import hosting, startup
from kfast.state.records import Replicas, Rows

if TYPE_CHECKING:
    from kfast.state.cluster import ClusterState

APPENDED_SHARE = 8
"""The index is made afresh once appended entries are more than this fraction (1/8) of it."""
MOST_SCANS = 8
"""Look-ups that read all rows before an index pays: a scan costs an eighth of making one."""

FIRST_ROOM = 16384
"""Rows that a scan lists in one pass; more take two."""


class HostingIndex:
    """Per broker, the rows of the partitions that track it.

    Parameters
    ----------
    state : ClusterState
        The cluster as it is now.
    counts : (threads, B) int64, optional
        What `startup.count_hosted` counts, where that is known already; its rows are the threads
        to use.
    """

    def __init__(
        self, state: ClusterState, counts: npt.NDArray[np.int64] | None = None
    ) -> None:
        if counts is None:
            counts = np.zeros((1, state.n_brokers), np.int64)
            startup.count_hosted(state.columns, counts)
        self.begin = np.zeros(state.n_brokers + 1, np.int64)
        np.cumsum(counts.sum(axis=0), out=self.begin[1:])
        self.hosted = np.empty(int(self.begin[-1]), np.int32)
        # Each share of the rows writes its part of a broker's list behind those before it.
        position = np.ascontiguousarray(self.begin[:-1] + np.cumsum(counts, axis=0) - counts)
        startup.list_hosted(state.columns, position, self.hosted)
        self.appended: list[tuple[Rows, Rows]] = []
        self.n_appended = 0
        self.scans_left = 0

    @classmethod
    def scanning(cls) -> HostingIndex:
        """Make none yet: the first look-ups read all rows, for a state that sees few events."""
        index = cls.of(np.zeros(1, np.int64), np.empty(0, np.int32))
        index.scans_left = MOST_SCANS
        return index

    @property
    def is_made(self) -> bool:
        """Whether there are lists, rather than scans of all rows."""
        return self.begin.size > 1

    @classmethod
    def of(cls, begin: npt.NDArray[np.int64], hosted: Rows) -> HostingIndex:
        """Make an index of lists that were made before."""
        index = cls.__new__(cls)
        index.begin, index.hosted = begin, hosted
        index.appended, index.n_appended, index.scans_left = [], 0, 0
        return index

    def copy(self) -> HostingIndex:
        """Copy what may be appended to; the lists made at the start never change."""
        other = copying.copy(self)
        other.appended = list(self.appended)
        return other

    def append(self, rows: Rows, brokers: Rows) -> None:
        """Note that each row tracks a broker row now."""
        if not self.is_made:
            return
        self.appended.append((rows, brokers))
        self.n_appended += int(rows.size)

    @property
    def is_stale(self) -> bool:
        """Whether so much was appended, or looked up by scans, that look-ups suffer."""
        if not self.is_made:
            return self.scans_left <= 0
        return self.n_appended * APPENDED_SHARE > self.hosted.size + 1024

    def candidates(self, state: ClusterState, brokers: Rows) -> Rows:
        """Rows, ascending, that may track one of these broker rows."""
        if not self.is_made:
            return self._scan(state, brokers)
        if brokers.size == 1 and not self.appended:
            only = int(brokers[0])
            return self.hosted[self.begin[only] : self.begin[only + 1]]
        marked = state.new_bitmap()
        for broker in brokers.tolist():
            hosting.mark_rows(self.hosted[self.begin[broker] : self.begin[broker + 1]], marked)
        for rows, tracked in self.appended:
            hosting.mark_rows(np.ascontiguousarray(rows[np.isin(tracked, brokers)]), marked)
        return state.list_marked(marked)

    def _scan(self, state: ClusterState, brokers: Rows) -> Rows:
        """Rows, ascending, that track one of these broker rows, from all rows."""
        self.scans_left -= 1
        chosen = np.zeros(max(state.n_brokers, 1), np.uint8)
        chosen[brokers] = 1
        rows = np.empty(min(state.n_partitions, FIRST_ROOM), np.int32)
        n = hosting.find_tracking(state.columns, chosen, rows)
        if n > rows.size:
            rows = np.empty(n, np.int32)
            hosting.find_tracking(state.columns, chosen, rows)
        return rows[:n]

    def select(
        self, state: ClusterState, brokers: Rows, *, assigned_only: bool, refresh: bool
    ) -> Replicas:
        """Find the slots that these broker rows have, checked against the replica matrix."""
        chosen = np.zeros(max(state.n_brokers, 1), np.uint8)
        chosen[brokers] = 1
        rows: npt.NDArray[np.int32] = self.candidates(state, brokers)
        found = np.empty(rows.size, np.int32)
        slots = np.empty(rows.size, np.uint64)
        n = hosting.select_slots(state.columns, chosen, rows, assigned_only, refresh, found, slots)
        return Replicas(found[:n], slots[:n])
