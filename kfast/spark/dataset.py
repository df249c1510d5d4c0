"""A cluster that lies in many files, each with whole topics: what it has in common.

The files are Parquet, Arrow or describe texts. Brokers and settings are those of the whole cluster,
so a first look gathers them from every file; of a Parquet file that kfast wrote it reads the footer
only. A file `_cluster.arrow` beside the others, which `kfast.spark.fail` writes, has the last word,
however the files are named: by their folder, a glob, or one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfast.errors import InputError
from kfast.io import SourceTables, read_tables
from kfast.io.arrow import extract
from kfast.io.tables import add_defaults, registered
from kfast.kernels import digests
from kfast.spark.paths import deal, find_files, find_roots
from kfast.spark.tasks import over_hands
from kfast.spark.workers import collect
from kfast.state import ClusterState
from kfast.state.flat import is_flat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "CLUSTER_FILE",
    "Dataset",
    "check_topics",
    "digest_names",
    "look_at",
]

CLUSTER_FILE = "_cluster.arrow"
"""Name of the file with the brokers and settings of a dataset; it has no partitions."""

TASK_BYTES, FLAT_TASK_BYTES = 32 << 20, 128 << 20
"""Size of the files that a task is given, about: seconds of work, which flat files take less of."""

_TAKEN_FOR_UP, _TAKEN_FOR_DOWN, _SHOWN = range(3)
"""How sure a file is of whether a broker is up."""

_LOOK = pa.schema(
    [
        ("file", pa.string()),
        ("brokers", pa.binary()),
        ("said", pa.bool_()),
        ("taken_for_down", pa.list_(pa.int32())),
        ("taken_for_up", pa.list_(pa.int32())),
        ("cluster", pa.binary()),
        ("topics", pa.binary()),
    ]
)


@dataclass(frozen=True)
class Dataset:
    """Files of one cluster, and what they have in common.

    Attributes
    ----------
    files : tuple of str
        Sorted; a shard's number is its place here.
    hands : tuple of tuple of int
        Numbers of the shards that each task takes.
    brokers, cluster : pa.Table
        Of the whole cluster.
    """

    files: tuple[str, ...]
    hands: tuple[tuple[int, ...], ...]
    brokers: pa.Table
    cluster: pa.Table | None


def look_at(
    spark: SparkSession, where: str | Path, *, tasks: int | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Dataset:
    """Find a dataset's files, brokers and settings.

    Parameters
    ----------
    where : path
        A folder or a glob.
    tasks : int, optional
        At most so many tasks; by default one for each 32 MiB of files.
    defaults : mapping, optional
        As for `kfast.read`.

    Raises
    ------
    InputError
        A topic stands in two files, or two files or folders contradict each other.
    """
    files = find_files(where)
    n = tasks if tasks is not None else _count_tasks(files)
    number = {name: at for at, name in enumerate(files)}
    hands = tuple(tuple(number[name] for name in hand) for hand in deal(files, n))
    tables = _common_tables(where, files)
    if tables is not None:
        # What shards have in common is known, so that they need not be looked at before.
        brokers, cluster = tables.brokers, tables.cluster
    else:
        looked = over_hands(spark, len(hands), partial(_look_at_hand, files, hands), _LOOK)
        found = collect(looked).sort_by("file")
        check_topics(files, found["topics"].to_pylist())
        brokers, cluster = _merge_brokers(found), _merge_clusters(found)
    said = add_defaults(SourceTables("", pa.table({}), cluster=cluster), defaults)
    return Dataset(tuple(files), hands, brokers, said.cluster)


def _count_tasks(files: Sequence[str]) -> int:
    """Tasks for some files, which are all as the first one is."""
    size = sum(Path(name).stat().st_size for name in files)
    schema = _parquet_schema(files[0])
    flat = schema is not None and is_flat(schema)
    return max(1, min(len(files), 16), size // (FLAT_TASK_BYTES if flat else TASK_BYTES))


def _common_tables(where: str | Path, files: Sequence[str]) -> SourceTables | None:
    """What stands in the `_cluster.arrow` of the files' folders; None where there is none.

    A file goes with the nearest one: beside it or in a folder above, as long as that folder was
    asked for or holds another of the files.
    """
    folders = {Path(name).parent for name in files}
    asked = folders | {Path(root) for root in find_roots(where)}
    nearest = {folder: _nearest_common(folder, asked) for folder in folders}
    found = sorted({place for place in nearest.values() if place is not None})
    if not found:
        return None
    bare = sorted(folder for folder, place in nearest.items() if place is None)
    if bare:
        raise InputError(
            f"folder {bare[0]} has no {CLUSTER_FILE}, but {found[0]} says what brokers and settings"
            " its cluster has; the files of a dataset must be of one cluster"
        )
    tables = read_tables(found[0])
    for other in found[1:]:
        its = read_tables(other)
        for part in ("brokers", "cluster"):
            if not _same(getattr(tables, part), getattr(its, part)):
                raise InputError(
                    f"the {part} in {other} and in {found[0]} are not the same; the folders of a"
                    " dataset must agree"
                )
    return tables


def _nearest_common(folder: Path, asked: set[Path]) -> Path | None:
    """The `_cluster.arrow` in a folder or in one above it, but not above all that are asked."""
    for place in (folder, *folder.parents):
        if (place / CLUSTER_FILE).is_file():
            return place / CLUSTER_FILE
        if asked.isdisjoint(place.parents):
            return None
    return None


def _same(one: pa.Table | None, other: pa.Table | None) -> bool:
    return one == other if one is None or other is None else one.equals(other)


def _look_at_hand(
    files: Sequence[str], hands: Sequence[Sequence[int]], hand: int
) -> Iterator[pa.RecordBatch]:
    for number in hands[hand]:
        yield _look(files[number])


def _look(name: str) -> pa.RecordBatch:
    """What a file says of brokers, settings and topics."""
    tables = _footer(name) or read_tables(name)
    said = tables.brokers is not None
    state = None
    if not said or tables.topics is None:
        state = ClusterState.from_tables(
            tables.brokers, tables.topics, tables.partitions, tables.cluster, source=name
        )
    brokers = tables.brokers if state is None or said else state.to_tables().brokers
    topics = state.topic if state is not None else _in_one(tables.topics, "topic")
    row = {
        "file": name,
        "brokers": _packed(brokers),
        "said": said,
        "taken_for_down": list(tables.taken_for_down),
        "taken_for_up": list(tables.taken_for_up),
        "cluster": None if tables.cluster is None else _packed(tables.cluster),
        "topics": digest_names(topics).tobytes(),
    }
    return pa.RecordBatch.from_pylist([row], schema=_LOOK)


def _parquet_schema(name: str) -> pa.Schema | None:
    """Schema of a Parquet file; None for any other file."""
    with Path(name).open("rb") as file:
        if file.read(4) != b"PAR1":
            return None
    try:
        return pq.read_schema(name)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name}: damaged Parquet file: {error}") from error


def _footer(name: str) -> SourceTables | None:
    """The small tables of a Parquet file that kfast wrote; None for any other file."""
    schema = _parquet_schema(name)
    if schema is None or not {b"kfast.brokers", b"kfast.topics"} <= set(schema.metadata or {}):
        return None
    return extract(name, schema.empty_table())


def _in_one(table: pa.Table, name: str) -> pa.StringArray:
    return pa.concat_arrays(table[name].chunks) if table.num_rows else pa.array([], pa.string())


def digest_names(names: pa.StringArray) -> npt.NDArray[np.uint64]:
    """(T,) 64 bits that stand for each name."""
    found = np.zeros(len(names), np.uint64)
    if len(names):
        names = pa.concat_arrays([names])
        _, offsets, data = names.buffers()
        ends = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1]
        digests.digest_bytes(ends, np.frombuffer(data or b"\0", np.uint8), found)
    return found


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def check_topics(files: Sequence[str], topics: Sequence[bytes]) -> None:
    """Refuse a topic that stands in two files.

    Parameters
    ----------
    files : sequence of str
    topics : sequence of bytes
        Of each file, the digests of its topics (`digest_names`).

    Raises
    ------
    InputError
        A topic stands in two files.
    """
    parts = [np.frombuffer(item, np.uint64) for item in topics]
    owner = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    everything = np.concatenate(parts) if parts else np.empty(0, np.uint64)
    ordered = np.sort(everything)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    order = np.argsort(everything, kind="stable")
    twice = np.flatnonzero(everything[order][1:] == everything[order][:-1])
    for at in twice.tolist():
        both = [files[int(owner[order[at + k]])] for k in (0, 1)]
        names = [set(read_tables(name).partitions["topic"].to_pylist()) for name in both]
        shared = sorted(names[0] & names[1])
        if shared:
            raise InputError(
                f"topic {shared[0]} stands in {both[0]} and in {both[1]}; each file of a dataset"
                " must hold whole topics"
            )


def _merge_brokers(looked: pa.Table) -> pa.Table:
    """Brokers of all files: of those that list them, or all that appear where none does.

    What one file shows of a broker wins over what is concluded from another, and a broker that one
    takes for down is down where others name it only as being added: as in one text of all files.
    """
    rows = looked.drop_columns("topics").to_pylist()
    some = any(row["said"] for row in rows)
    merged: dict[int, dict[str, Any]] = {}
    source: dict[int, str] = {}
    certainty: dict[int, int] = {}
    seen: set[tuple[bytes, tuple[int, ...], tuple[int, ...]]] = set()
    for row in rows:
        down, up = tuple(row["taken_for_down"]), tuple(row["taken_for_up"])
        if row["said"] != some or (row["brokers"], down, up) in seen:
            continue
        seen.add((row["brokers"], down, up))
        table = _unpacked(row["brokers"])
        shown = registered(table)
        for at, broker in enumerate(table.to_pylist()):
            number, broker["registered"] = broker["broker_id"], bool(shown[at])
            sure = _TAKEN_FOR_UP if number in up else _TAKEN_FOR_DOWN if number in down else _SHOWN
            if sure > certainty.get(number, -1):
                merged[number], source[number], certainty[number] = broker, row["file"], sure
            elif sure == _SHOWN and merged[number] != broker:
                raise InputError(
                    f"broker {number} is {broker} in {row['file']}, but {merged[number]} in"
                    f" {source[number]}; the files of a dataset must agree"
                )
    return pa.Table.from_pylist([merged[number] for number in sorted(merged)])


def _merge_clusters(looked: pa.Table) -> pa.Table | None:
    """Settings of all files, which must be the same."""
    found: pa.Table | None = None
    whence = ""
    for row in looked.filter(pc.is_valid(looked["cluster"])).to_pylist():
        table = _unpacked(row["cluster"])
        if found is None:
            found, whence = table, row["file"]
        elif table.to_pylist() != found.to_pylist():
            raise InputError(
                f"the cluster is {table.to_pylist()} in {row['file']}, but {found.to_pylist()} in"
                f" {whence}; the files of a dataset must agree"
            )
    return found
