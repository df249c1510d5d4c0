"""Where each topic and each partition stands, without a Python object per name."""

from __future__ import annotations

import copy as copying
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import partition_keys
from kfast.errors import ArgumentError
from kfast.state.records import Rows


class NameLookup:
    """Sorted keys of a cluster's partitions; made anew when rows are added."""

    def __init__(self, topic: pa.StringArray, topic_row: Rows, partition: Rows) -> None:
        self.topic = topic
        self.gone: npt.NDArray[np.bool_] | None = None
        keys = topic_row.astype(np.int64)
        keys <<= 32
        keys |= partition
        if (partition >= 0).all() and (keys[:-1] < keys[1:]).all():
            # Topic after topic, as nearly all clusters are: there is nothing to sort.
            self.order, self.keys = np.arange(keys.size, dtype=np.int32), keys
            return
        order = np.argsort(keys, kind="stable").astype(np.int32)
        self.order = order[partition[order] >= 0]
        self.keys = keys[self.order]

    def without(self, rows: Rows) -> NameLookup:
        """Make one in which some rows are not found; states that share this one keep it."""
        other = copying.copy(self)
        size = int(self.order.max(initial=-1)) + 1 if self.gone is None else self.gone.size
        other.gone = np.zeros(size, np.bool_) if self.gone is None else self.gone.copy()
        other.gone[rows] = True
        return other

    def topics(self, topics: Sequence[str]) -> Rows:
        """Rows of some topics; -1 where one is unknown."""
        found = pc.index_in(pa.array(topics, pa.string()), value_set=self.topic)
        return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), np.int32)

    def topic_or_none(self, topic: str) -> int | None:
        """Row of a topic; None where it is unknown."""
        row = int(self.topics([topic])[0])
        return None if row < 0 else row

    def rows_of_topic(self, topic_row: int) -> Rows:
        """Rows of all partitions of a topic row, in the order of their numbers."""
        first, last = np.searchsorted(self.keys, [topic_row << 32, (topic_row + 1) << 32])
        rows = self.order[first:last]
        return rows if self.gone is None else rows[~self.gone[rows]]

    def rows(self, topic_rows: Rows, partitions: Rows) -> Rows:
        """Partition rows of (topic row, partition) pairs; -1 where one is unknown."""
        wanted = (topic_rows.astype(np.int64) << 32) | partitions
        at = np.searchsorted(self.keys, wanted)
        inside = at < self.keys.size
        inside[inside] = self.keys[at[inside]] == wanted[inside]
        rows = np.full(wanted.size, -1, np.int32)
        rows[inside] = self.order[at[inside]]
        if self.gone is not None:
            rows[inside] = np.where(self.gone[rows[inside]], -1, rows[inside])
        rows[topic_rows < 0] = -1
        return rows

    def rows_of_table(self, table: pa.Table) -> Rows:
        """Partition rows of the columns topic and partition of a table; -1 where one is unknown."""
        named = table.column("topic").combine_chunks().dictionary_encode()
        topics = self.topics(named.dictionary.to_pylist())[named.indices.to_numpy()]
        return self.rows(topics, table.column("partition").to_numpy())

    def partitions(self, partitions: Iterable[tuple[str, int]]) -> Rows:
        """Rows of (topic, partition) pairs; `ArgumentError` where one is unknown."""
        names, numbers = partition_keys("partitions", partitions)
        rows = self.rows(self.topics(names), numbers)
        if (rows < 0).any():
            at = int(np.argmin(rows))
            topic, partition = names[at], numbers[at]
            raise ArgumentError(f"partition {topic}-{partition} is unknown")
        return rows
