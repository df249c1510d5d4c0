"""One large export for many tasks: each gives some of its rows.

Arrow and Parquet files whose rows stand topic by topic are read by ranges of rows, a batch at a
time. A first look at topics and partition numbers, and at the small tables, finds out what only the
whole file shows: that no partition stands twice. All other files are read whole, by one task: in a
text, a plan or rows in another order, a row depends on others. (Which brokers are down, and so not
in the list of offline directories, is concluded from all lines of a text. Reading it takes as long
as handing its rows to the JVM, so that tasks that each read all of it would gain nothing.)

The rows are those of `kfast.read`, for any number of tasks. Where part of a file is wrong, the file
is read whole once more, so that the message is that of `kfast.read`, whoever finds the fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kfast.errors import KfastError
from kfast.io import SourceTables
from kfast.io.arrow import DAMAGED, extract
from kfast.spark.columns import BATCH_ROWS, BY_ROW, row_tables
from kfast.spark.dataset import digest_names
from kfast.spark.paths import about_partitions, deal_sizes
from kfast.state import ClusterState

__all__ = ["MOST_TASKS", "Portion", "count_portions", "deal_portions", "read_portion"]

TASK_SECONDS = 0.5
"""Work of a task, about; a task itself costs 0.05 s."""

ROW_SECONDS = {"partitions": 1.2e-6, "replicas": 1.1e-6, "topics": 4e-7}
"""What takes time: each partition, or topic, on its way to the JVM; as measured."""

MOST_TASKS = 64
"""Where nothing else is said."""

KEY_ROWS = 1 << 20
"""Rows that are looked at together."""

_STREAM = b"\xff\xff\xff\xff"


@dataclass(frozen=True, order=True)
class Portion:
    """Number `at` of `of` portions of a file of so many `rows`; -1: it is to be read whole."""

    name: str
    at: int = 0
    of: int = 1
    rows: int = -1


def count_portions(table: str, rows: int, tasks: int) -> int:
    """How many tasks so many partitions (or topics) are worth; at most `tasks`."""
    seconds = rows * ROW_SECONDS.get(table, 0.0)
    return max(1, min(tasks, round(seconds / TASK_SECONDS)))


def deal_portions(
    names: Sequence[str], table: str, tasks: int,
    small: Callable[[SourceTables], SourceTables],
) -> list[list[Portion]]:
    """Split files where that is worth it, and deal the portions to at most `tasks` tasks.

    Parameters
    ----------
    names : sequence of str
    table : str
        Which table of them is wanted.
    tasks : int
    small : callable
        Adds to a file's small tables what the caller of `kfast.read` says.
    """
    about = {name: about_partitions(name) for name in names}
    everything = max(1, sum(about.values()))
    sizes: dict[Portion, int] = {}
    for name, rows in about.items():
        # No more tasks than the file's share of all, so that many large files are not looked at.
        n = min(count_portions(table, rows, tasks), math.ceil(tasks * rows / everything))
        in_order = _count_in_order(name, small) if table in BY_ROW and n > 1 else -1
        n = n if in_order >= 0 else 1
        sizes |= {Portion(name, at, n, in_order): rows // n for at in range(n)}
    dealt = deal_sizes(sizes, tasks)
    # Rows of one file come in its order, as they do from one task.
    return sorted(dealt) if len(names) == 1 else dealt


def read_portion(
    portion: Portion, table: str, read: Callable[[str], ClusterState]
) -> Iterator[pa.Table]:
    """The rows of a portion, in pieces.

    Parameters
    ----------
    portion : Portion
    table : str
        Which table is wanted.
    read : callable
        Reads a whole file.

    Raises
    ------
    InputError
        As `kfast.read` of the file.
    """
    if portion.rows < 0:
        yield from row_tables(read(portion.name), table)
        return
    try:
        yield from _read_rows(portion, table)
    except (KfastError, *DAMAGED):
        read(portion.name)
        raise


def _read_rows(portion: Portion, table: str) -> Iterator[pa.Table]:
    start, stop = (portion.rows * at // portion.of for at in (portion.at, portion.at + 1))
    schema, batches = _open(portion.name, start, stop, BATCH_ROWS)
    brokers = extract(portion.name, schema.empty_table()).brokers
    for batch in batches:
        rows = pa.Table.from_batches([batch]).replace_schema_metadata(None)
        rows.validate(full=True)
        at = rows.column_names.index("topic")
        if pa.types.is_dictionary(rows.schema.types[at]):
            # The names of a large file's topics are many more than those of a few of its rows.
            names = rows["topic"].combine_chunks().dictionary_decode()
            rows = rows.set_column(at, "topic", names)
        partitions = extract(portion.name, rows).partitions
        state = ClusterState.from_tables(brokers, None, partitions, source=portion.name)
        yield from row_tables(state, table)


def _open(
    name: str, start: int, stop: int, size: int, columns: Sequence[str] | None = None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Schema of an Arrow or Parquet file, with its metadata, and batches of some of its rows."""
    source = pa.memory_map(name)
    head = source.read(4)
    source.seek(0)
    if head == b"PAR1":
        # Which topic a row is of is told by a dictionary's numbers; for the rows themselves, the
        # dictionary of a large file's topics would be more work than their names.
        file = pq.ParquetFile(source, read_dictionary=None if columns is None else ["topic"])
        # Not `file.schema_arrow`: of the metadata, which stand twice, that has the other copy.
        schema = file.read_row_groups([]).schema
        return schema, _parquet_batches(file, start, stop, columns, size)
    opener = pa.ipc.open_stream if head == _STREAM else pa.ipc.open_file
    schema = opener(source).schema
    return schema, _arrow_batches(source, opener, start, stop, columns, size)


def _parquet_batches(
    file: pq.ParquetFile, start: int, stop: int, columns: Sequence[str] | None, size: int
) -> Iterator[pa.RecordBatch]:
    """Rows from `start` on; row groups before that are not read."""
    groups = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]
    ends = np.cumsum([0, *groups])
    first = max(0, int(np.searchsorted(ends, start, side="right")) - 1)
    last = min(int(np.searchsorted(ends, stop)), len(groups))
    yield from _cut(
        file.iter_batches(size, list(range(first, last)), columns, use_threads=False),
        int(ends[first]), start, stop, size,
    )


def _arrow_batches(
    source: pa.MemoryMappedFile, opener: Callable[..., pa.RecordBatchReader], start: int,
    stop: int, columns: Sequence[str] | None, size: int,
) -> Iterator[pa.RecordBatch]:
    """Rows from `start` on; of a file (not a stream), batches before that are not unpacked."""
    source.seek(0)
    names = opener(source).schema.names
    wanted = None if columns is None else [names.index(column) for column in columns]
    source.seek(0)
    opened = opener(source, options=pa.ipc.IpcReadOptions(included_fields=wanted))
    if isinstance(opened, pa.RecordBatchReader):
        yield from _cut(opened, 0, start, stop, size)
        return
    at = 0
    one = pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=[0]))
    for number in range(opened.num_record_batches):
        rows = one.get_batch(number).num_rows
        if at < stop and at + rows > start:
            yield from _cut([opened.get_batch(number)], at, start, stop, size)
        at += rows


def _cut(
    batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch], at: int, start: int, stop: int,
    size: int,
) -> Iterator[pa.RecordBatch]:
    """The rows of batches that lie in a range, some at a time; row `at` is the first one."""
    for batch in batches:
        last = min(stop - at, batch.num_rows)
        for low in range(max(start - at, 0), last, size):
            yield batch.slice(low, min(size, last - low))
        at += batch.num_rows
        if at >= stop:
            return


def _count_in_order(name: str, small: Callable[[SourceTables], SourceTables]) -> int:
    """Rows of an Arrow or Parquet file if any range of them can be read alone, otherwise -1.

    Whatever is wrong with the file is left to be said by those who read it whole.
    """
    with Path(name).open("rb") as file:
        head = file.read(6)
    if head[:4] not in (_STREAM, b"PAR1") and head != b"ARROW1":
        return -1
    order = _Order()
    try:
        schema, keys = _open(name, 0, 2**62, KEY_ROWS, ["topic", "partition"])
        stored = extract(name, schema.empty_table())
        tables = small(stored)
        if stored.brokers is None and tables.brokers is not None:
            # Which brokers the partitions name, and a caller therefore cannot add, all rows tell.
            return -1
        ClusterState.from_tables(tables.brokers, tables.topics, None, tables.cluster, source=name)
        in_order = all(order.add(batch) for batch in keys)
    except (KfastError, *DAMAGED):
        return -1
    return order.rows if in_order and order.no_topic_returns() else -1


class _Order:
    """Whether rows stand topic by topic, and the partitions of each topic ascend."""

    def __init__(self) -> None:
        self.rows = 0
        self._last: tuple[str, int] | None = None
        self._topics = [np.empty(0, np.uint64)]

    def add(self, batch: pa.RecordBatch) -> bool:
        """Take the next rows; whether they are in order."""
        batch.validate(full=True)
        topic, partition = batch.column("topic"), batch.column("partition")
        if topic.null_count or partition.null_count or not batch.num_rows:
            return not batch.num_rows
        if not pa.types.is_dictionary(topic.type):
            topic = topic.dictionary_encode()
        rows = topic.indices.to_numpy()
        numbers = partition.cast(pa.int64()).to_numpy()
        change = rows[1:] != rows[:-1]
        if not (change | (numbers[1:] > numbers[:-1])).all():
            return False
        firsts = np.concatenate([[0], np.flatnonzero(change) + 1])
        names = topic.dictionary.take(pa.array(rows[firsts])).cast(pa.string())
        if names.null_count:
            return False
        begin = 0
        if self._last is not None and names[0].as_py() == self._last[0]:
            begin = 1
            if numbers[0] <= self._last[1]:
                return False
        self._topics.append(digest_names(names[begin:]))
        self._last = names[-1].as_py(), int(numbers[-1])
        self.rows += batch.num_rows
        return True

    def no_topic_returns(self) -> bool:
        """Whether no topic came again after another; two names of one digest count as one."""
        topics = np.sort(np.concatenate(self._topics))
        return not (topics[1:] == topics[:-1]).any()
