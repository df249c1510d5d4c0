"""What readers and writers of text share: columns as strings, rows in order, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.kernels import describe as kernel

__all__ = ["by_topic", "id_texts", "joined", "rows_in_chunks", "words_at", "write_strings"]

_CHUNK = 1 << 17


def by_topic(partitions: pa.Table, *, by_name: bool = False) -> pa.Table:
    """Partitions that have replicas, those of one topic together, ascending.

    Parameters
    ----------
    partitions : pa.Table
        Columns as in `schema.PARTITIONS_SCHEMA`.
    by_name : bool, default False
        Sort topics by name; else they come in order of first appearance.
    """
    size = pc.fill_null(pc.list_value_length(partitions["replicas"]), 0)
    partitions = partitions.filter(pc.greater(size, 0))
    topic = partitions["topic"].combine_chunks()
    if not isinstance(topic, pa.DictionaryArray):
        topic = topic.dictionary_encode()
    names = topic.dictionary
    place = np.empty(len(names), np.int64)
    if by_name:
        place[pc.sort_indices(names).to_numpy()] = np.arange(len(names))
    else:
        seen = pc.unique(topic.indices).to_numpy()
        place[seen] = np.arange(seen.size)
    keys = place[topic.indices.to_numpy()] << 32 | partitions["partition"].to_numpy()
    at = partitions.column_names.index("topic")
    partitions = partitions.set_column(at, "topic", topic)
    if (np.diff(keys) < 0).any():
        partitions = partitions.take(pa.array(np.argsort(keys, kind="stable")))
    return partitions.combine_chunks()


def rows_in_chunks(table: pa.Table) -> Iterator[pa.Table]:
    """Parts of a table that are small enough to be turned into text at once."""
    for start in range(0, table.num_rows, _CHUNK):
        yield table.slice(start, _CHUNK)


def id_texts(ids: pa.Array) -> pa.StringArray:
    """Integers in decimal."""
    return ids.cast(pa.string())


def joined(lists: pa.ListArray) -> pa.StringArray:
    """Lists of integers, with commas; a null is the empty list."""
    offsets = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(lists), 0))])
    words = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), id_texts(lists.flatten()))
    return pc.binary_join(words, ",")


def write_strings(file: BinaryIO, strings: pa.StringArray) -> None:
    """Write strings one behind the other: their buffer, as it is."""
    if isinstance(strings, pa.ChunkedArray):
        strings = strings.combine_chunks()
    last = strings.offset + len(strings)
    offsets = np.frombuffer(strings.buffers()[1], np.int32, last + 1)
    start, stop = offsets[strings.offset], offsets[last]
    if stop > start:
        file.write(memoryview(strings.buffers()[2])[start:stop])


def words_at(
    text: bytes, at: npt.NDArray[np.int64], lengths: npt.NDArray[np.int32]
) -> pa.StringArray:
    """Words of a text as a string column."""
    offsets = np.zeros(at.size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    words = np.empty(int(offsets[-1]), np.uint8)
    kernel.gather(text, np.ascontiguousarray(at), offsets, words)
    return pa.StringArray.from_buffers(at.size, pa.py_buffer(offsets), pa.py_buffer(words))
