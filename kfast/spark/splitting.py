"""A cluster as a dataset: files of whole topics, with what they have in common beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import check_instance
from kfast.errors import ArgumentError
from kfast.io import SourceTables, write
from kfast.io.parquet import write_flat, write_parquet
from kfast.io.text import writing
from kfast.spark.dataset import CLUSTER_FILE
from kfast.spark.shards import FLAT, LISTS
from kfast.state import ClusterState
from kfast.state.flat import Arena, can_be_flat, to_flat
from kfast.state.freeing import present_topics
from kfast.state.tables import small_tables

__all__ = ["split"]


def split(
    state: ClusterState, folder: str | Path, *, shards: int, form: str = FLAT
) -> list[str]:
    """Write a cluster as a dataset that `kfast.spark.fail` reads.

    Parameters
    ----------
    folder : path
        Made if need be; it must be empty.
    shards : int
        How many files, of about equal size, each with whole topics: at most one for each topic.
    form : {"parquet-flat", "parquet"}
        Plain integers or lists: see `docs/formats.md`. What the first cannot hold is written in
        the second.

    Returns
    -------
    list of str
        The files of partitions.

    Raises
    ------
    ArgumentError
        The folder holds something; there are to be no shards.
    """
    check_instance("state", state, ClusterState)
    root = Path(folder)
    if form not in (FLAT, LISTS):
        raise ArgumentError(f"form {form!r} is unknown; allowed: {FLAT}, {LISTS}")
    if shards < 1:
        raise ArgumentError(f"shards is {shards}: at least 1 is allowed")
    if root.is_dir() and any(root.iterdir()):
        raise ArgumentError(f"folder {root} is not empty")
    root.mkdir(parents=True, exist_ok=True)
    state = _in_order(state)
    brokers, topics, cluster = small_tables(state)
    flat = form == FLAT and can_be_flat(state)
    lists = None if flat else state.to_tables().partitions
    room, files = Arena(), []
    for number, (start, stop, first, last) in enumerate(_pieces(state, shards)):
        part = to_flat(state, start, stop, room=room) if lists is None else lists[start:stop]
        tables = SourceTables("", part, topics[first:last], brokers, cluster)
        files.append(str(root / f"shard-{number:06}.parquet"))
        with writing(files[-1], durable=False) as file:
            (write_flat if flat else write_parquet)(tables, file)
    common = ClusterState.from_tables(brokers, None, None, cluster).to_tables()
    write(
        SourceTables("", common.partitions, common.topics, brokers, cluster), root / CLUSTER_FILE
    )
    return files


def _in_order(state: ClusterState) -> ClusterState:
    """The cluster with its topics in rows one after the other, and every row in use."""
    if present_topics(state).all() and not state.free_rows.size and (
        state.topic_row[1:] >= state.topic_row[:-1]
    ).all():
        return state
    whole = state.to_tables()
    return ClusterState.from_tables(
        whole.brokers, whole.topics, _by_topic_row(whole.partitions, whole.topics), whole.cluster
    )


def _by_topic_row(partitions: pa.Table, topics: pa.Table) -> pa.Table:
    rows = pc.index_in(partitions["topic"], topics["topic"].combine_chunks())
    order = np.lexsort((partitions["partition"].to_numpy(), rows.to_numpy()))
    return partitions.take(pa.array(order))


def _pieces(state: ClusterState, shards: int) -> Iterator[tuple[int, int, int, int]]:
    """First and last row, and first and last topic, of each shard; none without a partition."""
    n = state.n_partitions
    begins = np.flatnonzero(np.diff(state.topic_row, prepend=-1))
    wanted = np.arange(1, shards) * n // shards
    cuts = begins[np.minimum(np.searchsorted(begins, wanted), max(begins.size - 1, 0))]
    rows = np.unique(np.concatenate([[0], cuts[:n], [n]])) if n else np.array([0, 0])
    topics = np.concatenate([[0], state.topic_row[rows[1:-1]], [state.n_topics]])
    for at in range(rows.size - 1):
        yield int(rows[at]), int(rows[at + 1]), int(topics[at]), int(topics[at + 1])
