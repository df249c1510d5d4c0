"""The hosting index: which partition rows track a broker.

Entries are hints, checked against the replica matrix at every look-up. What is tracked later is
appended; the index is made afresh when too much was appended.
"""

from __future__ import annotations

import copy as copying

import numpy as np
import numpy.typing as npt

from kfast.kernels import hosting, startup
from kfast.kernels.columns import Columns
from kfast.state.records import Rows

APPENDED_SHARE = 8
"""The index is made afresh once appended entries are more than this fraction (1/8) of it."""
MOST_SCANS = 8
"""Look-ups that read all rows before an index pays: a scan costs an eighth of making one."""


class HostingIndex:
    """Per broker, the rows of the partitions that track it.

    Parameters
    ----------
    columns : Columns
    n_brokers : int
    counts : (threads, B) int64, optional
        What `startup.count_hosted` counts, where that is known already; its rows are the threads
        to use.
    """

    def __init__(
        self, columns: Columns, n_brokers: int, counts: npt.NDArray[np.int64] | None = None
    ) -> None:
        if counts is None:
            counts = np.zeros((1, n_brokers), np.int64)
            startup.count_hosted(columns, counts)
        self.begin = np.zeros(n_brokers + 1, np.int64)
        np.cumsum(counts.sum(axis=0), out=self.begin[1:])
        self.hosted = np.empty(int(self.begin[-1]), np.int32)
        # Each share of the rows writes its part of a broker's list behind those before it.
        position = np.ascontiguousarray(self.begin[:-1] + np.cumsum(counts, axis=0) - counts)
        startup.list_hosted(columns, position, self.hosted)
        self.appended: list[tuple[Rows, Rows]] = []
        self.n_appended = 0
        self.scans_left = 0

    @classmethod
    def scanning(cls, scans: int = MOST_SCANS) -> HostingIndex:
        """Make none yet: the first look-ups read all rows, for a state that sees few events."""
        index = cls.of(np.zeros(1, np.int64), np.empty(0, np.int32))
        index.scans_left = scans
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

    def rows_of(self, broker: int) -> Rows:
        """Rows, ascending, that tracked a broker row when the lists were made."""
        return self.hosted[self.begin[broker] : self.begin[broker + 1]]

    def mark(self, brokers: Rows, bits: npt.NDArray[np.uint64]) -> None:
        """Set the bits of the rows that may track one of some broker rows."""
        for broker in brokers.tolist():
            hosting.mark_rows(self.rows_of(broker), bits)
        for rows, tracked in self.appended:
            hosting.mark_rows(np.ascontiguousarray(rows[np.isin(tracked, brokers)]), bits)
