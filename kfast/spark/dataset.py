"""A cluster that lies in many files of whole topics: found, split from memory, locked for a run.

The files are Parquet, Arrow or describe texts. Brokers and settings are those of the whole cluster,
so a first look gathers them from every file; of a Parquet file that kfast wrote it reads the footer
only. A file `_cluster.arrow` beside the others, which `kfast.spark.fail` writes, has the last word,
however the files are named: by their folder, a glob, or one by one. Only configurations of KRaft's
topics are each file's own, so that no task reads those of all.
"""

from __future__ import annotations

import fcntl
import pickle
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfast.arguments import check_instance
from kfast.errors import ArgumentError, InputError
from kfast.io import SourceTables, read_tables, write
from kfast.io.arrow import extract
from kfast.io.file_systems import (
    AnyPath,
    RemotePath,
    open_input,
    open_mapped,
    parse_path,
    size_of,
)
from kfast.io.files import writing
from kfast.io.parquet import write_flat, write_parquet
from kfast.io.source_tables import add_defaults, registered, set_column
from kfast.kernels import digests
from kfast.schema import columns_of
from kfast.spark.paths import (
    absolute,
    distribute_files,
    find_files,
    find_roots,
    folder_with,
    look_at,
)
from kfast.spark.workers import gather
from kfast.state import ClusterState
from kfast.state.controller_change import REASON
from kfast.state.flat_table import can_be_flat, is_flat, to_flat
from kfast.state.kraft_releases import MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION
from kfast.state.metadata_records import ResourceType
from kfast.state.partition_rows import present_topics
from kfast.state.tables import small_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "CLUSTER_FILE", "FLAT", "LISTS", "TASK_BYTES", "Dataset", "check_token", "check_topics",
    "digest_names", "empty_folder", "inspect_files", "locked", "output_folder", "settings_of_shard",
    "split",
]

CLUSTER_FILE = "_cluster.arrow"
"""Name of the file with the brokers and settings of a dataset; it has no partitions."""

FLAT, LISTS = "parquet-flat", "parquet"
"""Forms of shards: plain integers, or lists; both Parquet."""

FOLDERS = ("state", "requests", "transitions", "elections", "records")
LOCK = ".lock"
TOKEN, OLD_TOKEN = ".token", ".turn"
"""File with a random number: of the run that may write here; its name in earlier versions."""

TASK_BYTES, FLAT_TASK_BYTES = 32 << 20, 48 << 20
"""Size of the files that a task is given, about: seconds of work, which flat files take less of."""

_TAKEN_FOR_UP, _TAKEN_FOR_DOWN, _SHOWN = range(3)
"""How sure a file is of whether a broker is up."""

_INFERRED = f"{REASON}inferred"
"""How the note of a text begins whose lines tell the controller."""

_CONCLUDED = {"controller", "features"}
"""Settings of a text: all that is concluded from its lines."""

_TOPIC_SETTINGS = {
    "min_insync_replicas": MIN_INSYNC_REPLICAS, "unclean_leader_election": UNCLEAN_LEADER_ELECTION,
}
"""Columns of topics that a text fills from their configurations."""


@dataclass(frozen=True)
class Dataset:
    """Files of one cluster, and what they have in common.

    Attributes
    ----------
    files : tuple of str
        Sorted; a shard's number is its place here.
    shares : tuple of tuple of int
        Numbers of the shards that each task takes.
    brokers, cluster : pa.Table
        Of the whole cluster.
    """

    files: tuple[str, ...]
    shares: tuple[tuple[int, ...], ...]
    brokers: pa.Table
    cluster: pa.Table | None


@dataclass(frozen=True)
class _FileSummary:
    """What a file says of brokers, settings and topics.

    Attributes
    ----------
    listed : bool
        Whether the file lists its brokers; otherwise they are those that its partitions name.
    taken_for_down, taken_for_up
        As in `SourceTables`.
    cluster : pa.Table or None
        Settings, but for configurations of topics.
    inferred : bool
        Whether lines of the file tell the controller, which is not stored there.
    topics : bytes
        Digests of the names (`digest_names`).
    """

    file: str
    brokers: pa.Table
    listed: bool
    taken_for_down: tuple[int, ...]
    taken_for_up: tuple[int, ...]
    cluster: pa.Table | None
    inferred: bool
    topics: bytes


def inspect_files(
    spark: SparkSession, where: str | Path, *, tasks: int | None = None,
    defaults: Mapping[str, object] | None = None,
) -> Dataset:
    """Find the files, brokers and settings of a folder or glob, by at most so many tasks.

    Raises
    ------
    InputError
        A topic stands in two files, or two files or folders contradict each other.
    """
    files = find_files(where)
    n = tasks if tasks is not None else _count_tasks(files)
    number = {name: at for at, name in enumerate(files)}
    shares = tuple(tuple(number[name] for name in share) for share in distribute_files(files, n))
    tables = _common_tables(where, files)
    if tables is not None:
        # What shards have in common is known, so that they need not be looked at before.
        brokers, cluster = tables.brokers, tables.cluster
    else:
        shared = gather(spark, len(shares), partial(_inspect_share, files, shares))
        summaries = sorted((one for share in shared for one in share), key=lambda one: one.file)
        check_topics(files, [summary.topics for summary in summaries])
        brokers, cluster = _merge_brokers(summaries), _merge_clusters(summaries)
    completed = add_defaults(SourceTables("", pa.table({}), cluster=cluster), defaults)
    return Dataset(tuple(files), shares, brokers, completed.cluster)


def _count_tasks(files: Sequence[str]) -> int:
    """Tasks for some files, which are all as the first one is."""
    size = sum(look_at(files, size_of).values())
    schema = _parquet_schema(files[0])
    flat = schema is not None and is_flat(schema)
    return max(1, min(len(files), 16), size // (FLAT_TASK_BYTES if flat else TASK_BYTES))


def _common_tables(where: str | Path, files: Sequence[str]) -> SourceTables | None:
    """What stands in the `_cluster.arrow` of the files' folders; None where there is none.

    A file goes with the nearest one: beside it or in a folder above, as long as that folder was
    asked for or holds another of the files.
    """
    folders = {parse_path(name).parent for name in files}
    roots = folders | set(find_roots(where))
    nearest = {folder: _nearest_common(folder, roots) for folder in folders}
    places = sorted({place for place in nearest.values() if place is not None})
    if not places:
        return None
    bare = sorted(folder for folder, place in nearest.items() if place is None)
    if bare:
        raise InputError(
            f"folder {bare[0]} has no {CLUSTER_FILE}, but {places[0]} says what brokers and"
            " settings its cluster has; the files of a dataset must be of one cluster"
        )
    tables = read_tables(places[0])
    for other in places[1:]:
        other_tables = read_tables(other)
        for part in ("brokers", "cluster"):
            if getattr(tables, part) != getattr(other_tables, part):
                raise InputError(
                    f"the {part} in {other} and in {places[0]} are not the same; the folders of a"
                    " dataset must agree"
                )
    return tables


def _nearest_common(folder: AnyPath, roots: set[AnyPath]) -> AnyPath | None:
    """The `_cluster.arrow` in a folder or in one above it, but not above all of the roots."""
    for place in (folder, *folder.parents):
        common: AnyPath = place / CLUSTER_FILE
        if common.is_file():
            return common
        if roots.isdisjoint(place.parents):
            return None
    return None


def _inspect_share(
    files: Sequence[str], shares: Sequence[Sequence[int]], task: int
) -> list[_FileSummary]:
    return [_inspect(files[number]) for number in shares[task]]


def _inspect(name: str) -> _FileSummary:
    tables = _footer(name) or read_tables(name)
    brokers, topics = tables.brokers, tables.topics
    if brokers is None or topics is None:
        whole = ClusterState.from_tables(
            brokers, topics, tables.partitions, tables.cluster, source=name
        ).to_tables()
        brokers, topics = whole.brokers if brokers is None else brokers, whole.topics
    names = topics["topic"].combine_chunks()
    return _FileSummary(
        name, brokers, tables.brokers is not None, tables.taken_for_down, tables.taken_for_up,
        _replace_topic_configurations(tables.cluster, []),
        any(note.startswith(_INFERRED) for note in tables.notes), digest_names(names).tobytes(),
    )


def _parquet_schema(name: str) -> pa.Schema | None:
    """Schema of a Parquet file; None for any other file."""
    path = parse_path(name)
    with open_input(path) as file:
        if file.read(4) != b"PAR1":
            return None
    try:
        return pq.read_schema(open_mapped(path))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{name}: damaged Parquet file: {error}") from error


def _footer(name: str) -> SourceTables | None:
    """The small tables of a Parquet file that kfast wrote; None for any other file."""
    schema = _parquet_schema(name)
    if schema is None or not {b"kfast.brokers", b"kfast.topics"} <= set(schema.metadata or {}):
        return None
    return extract(name, schema.empty_table())


def digest_names(names: pa.StringArray) -> npt.NDArray[np.uint64]:
    """(T,) 64 bits that stand for each name."""
    values = np.zeros(len(names), np.uint64)
    if len(names):
        names = pa.concat_arrays([names])
        _, offsets, data = names.buffers()
        ends = np.frombuffer(offsets, np.int32)[names.offset : names.offset + len(names) + 1]
        digests.digest_bytes(ends, np.frombuffer(data or b"\0", np.uint8), values)
    return values


def check_topics(files: Sequence[str], topics: Sequence[bytes]) -> None:
    """Refuse a topic that stands in two files; of each there are the digests of its topics."""
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


def _merge_brokers(summaries: Sequence[_FileSummary]) -> pa.Table:
    """Brokers of all files: of those that list them, or all that appear where none does.

    What one file shows of a broker wins over what is concluded from another, and a broker that one
    takes for down is down where others name it only as being added: as in one text of all files.
    """
    any_listed = any(summary.listed for summary in summaries)
    merged: dict[int, dict[str, Any]] = {}
    source: dict[int, str] = {}
    certainty: dict[int, int] = {}
    seen: set[tuple[bytes, tuple[int, ...], tuple[int, ...]]] = set()
    for summary in summaries:
        key = pickle.dumps(summary.brokers), summary.taken_for_down, summary.taken_for_up
        if summary.listed != any_listed or key in seen:
            continue
        seen.add(key)
        is_registered = registered(summary.brokers).tolist()
        for at, broker in enumerate(summary.brokers.to_pylist()):
            number, broker["registered"] = broker["broker_id"], is_registered[at]
            sure = _SHOWN
            if number in summary.taken_for_up:
                sure = _TAKEN_FOR_UP
            elif number in summary.taken_for_down:
                sure = _TAKEN_FOR_DOWN
            if sure > certainty.get(number, -1):
                merged[number], source[number], certainty[number] = broker, summary.file, sure
            elif sure == _SHOWN and merged[number] != broker:
                raise InputError(
                    f"broker {number} is {broker} in {summary.file}, but {merged[number]} in"
                    f" {source[number]}; the files of a dataset must agree"
                )
    return pa.Table.from_pylist([merged[number] for number in sorted(merged)])


def _merge_clusters(summaries: Sequence[_FileSummary]) -> pa.Table | None:
    """Settings of all files, which must be the same.

    Where none are stored, the text decides whose lines tell most of the controller, as they do in
    one text of all files: an ELR that is not empty, columns of ELRs, ZooKeeper mode, nothing.
    """
    stored = [
        (one.file, one.cluster) for one in summaries
        if one.cluster is not None and not set(one.cluster.column_names) <= _CONCLUDED
    ]
    for file, cluster in stored:
        first_file, first = stored[0]
        if cluster.to_pylist() != first.to_pylist():
            raise InputError(
                f"the cluster is {cluster.to_pylist()} in {file}, but {first.to_pylist()} in"
                f" {first_file}; the files of a dataset must agree"
            )
    if stored:
        return stored[0][1]
    return max(summaries, key=lambda one: (one.inferred, _count_features(one.cluster))).cluster


def _count_features(cluster: pa.Table | None) -> int:
    return 0 if cluster is None else len(cluster["features"][0])


# --- configurations of topics ------------------------------------------------------------------


def settings_of_shard(cluster: pa.Table | None, tables: SourceTables) -> pa.Table | None:
    """Settings of a cluster for one of its files, with the configurations of its own topics.

    Those that are not in the settings are in the file, as configurations or as columns of topics.
    """
    listed = _configurations(cluster)
    if listed is None:
        return cluster
    topics = tables.topics["topic"] if tables.topics is not None else (
        pc.unique(tables.partitions["topic"].cast(pa.string()))
    )
    own = {_key(entry): entry for entry in _stored_by_file(tables, topics)}
    own |= {_key(entry): entry for entry in _of_topics(listed, topics)}
    return _replace_topic_configurations(cluster, [*own.values()])


def _key(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry["resource"], entry["key"]


def _configurations(cluster: pa.Table | None) -> pa.StructArray | None:
    """Configurations of a table of settings; None where it lists none."""
    if cluster is None or "configurations" not in cluster.column_names:
        return None
    listed = cluster["configurations"].combine_chunks()
    return None if listed.null_count else listed.flatten()


def _of_topics(listed: pa.StructArray, topics: pa.ChunkedArray) -> list[dict[str, Any]]:
    """Those configurations that are of some topics."""
    is_topic = pc.equal(listed.field("resource_type"), int(ResourceType.TOPIC))
    own = pc.and_(is_topic, pc.is_in(listed.field("resource"), value_set=topics))
    entries: list[dict[str, Any]] = listed.filter(own).to_pylist()
    return entries


def _stored_by_file(tables: SourceTables, topics: pa.ChunkedArray) -> list[dict[str, Any]]:
    listed = _configurations(tables.cluster)
    if listed is not None:
        return _of_topics(listed, topics)
    columns = {} if tables.topics is None else columns_of(tables.topics)
    return [
        {"resource_type": int(ResourceType.TOPIC), "resource": topic, "key": key,
         "value": str(value).lower()}
        for column, key in _TOPIC_SETTINGS.items() if column in columns
        for topic, value in zip(topics.to_pylist(), columns[column].to_pylist(), strict=True)
        if value is not None
    ]


def _replace_topic_configurations(
    cluster: pa.Table | None, entries: list[dict[str, Any]]
) -> pa.Table | None:
    """Settings with these configurations of topics, and no others; None and null stay."""
    listed = _configurations(cluster)
    if cluster is None or listed is None:
        return cluster
    others = listed.filter(pc.not_equal(listed.field("resource_type"), int(ResourceType.TOPIC)))
    kind = cluster.schema.field("configurations").type
    values = pa.array([[*others.to_pylist(), *entries]], kind)
    return set_column(cluster, "configurations", values)


# --- a dataset of a cluster in memory ----------------------------------------------------------


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
    root = parse_path(folder)
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
    files = []
    for number, (start, stop, first, last) in enumerate(_pieces(state, shards)):
        part = to_flat(state, start, stop) if lists is None else lists[start:stop]
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
    tables = state.to_tables()
    partitions, topics = tables.partitions, tables.topics
    rows = pc.index_in(partitions["topic"], topics["topic"].combine_chunks())
    order = np.lexsort((partitions["partition"].to_numpy(), rows.to_numpy()))
    return ClusterState.from_tables(
        tables.brokers, topics, partitions.take(pa.array(order)), tables.cluster
    )


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


# --- the folder that a run writes to ----------------------------------------------------------


@contextmanager
def locked(folder: AnyPath, *, wait: bool) -> Iterator[None]:
    """Be alone in a folder; a process that ends, or is killed, lets go of its lock.

    Only the local file system has locks. Elsewhere whoever comes later goes on, and tokens and
    manifests tell (docs/spark-deployment.md).
    """
    if isinstance(folder, RemotePath):
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise ArgumentError(
                f"output {folder} is being written by another run; give another folder, or wait"
            ) from None
        yield


@contextmanager
def output_folder(output: str | Path, dataset: str | Path) -> Iterator[AnyPath]:
    """Take a folder for as long as a run lasts; nothing in it is changed yet.

    Raises
    ------
    ArgumentError
        It is a file, the dataset or something else lies in it, it lies in the dataset, or another
        run is at work there.
    """
    root, source = absolute(output), absolute(dataset)
    if root == source or root in source.parents:
        raise ArgumentError(f"output {root} holds the dataset {source}, which would be replaced")
    around = folder_with(root, dataset)
    if around is not None:
        raise ArgumentError(f"output {root} lies in {around}, so it would be taken for shards")
    _check_own(root)
    with locked(root, wait=False):
        _check_own(root)
        yield root


def empty_folder(root: AnyPath) -> str:
    """Remove what an earlier run left; returns the token that tasks show to `check_token`."""
    token = secrets.token_hex(8)
    # Without this file what is left of an earlier run is no dataset any more.
    (root / "state" / CLUSTER_FILE).unlink(missing_ok=True)
    (root / OLD_TOKEN).unlink(missing_ok=True)
    (root / TOKEN).write_text(token)
    for name in FOLDERS:
        (root / name).mkdir(exist_ok=True)
        for old in (root / name).iterdir():
            old.unlink(missing_ok=True)
    return token


def _check_own(root: AnyPath) -> None:
    """Refuse a folder that holds anything but what runs leave there."""
    if root.exists() and not root.is_dir():
        raise ArgumentError(f"output {root} is a file; a folder is needed")
    known = (*FOLDERS, LOCK, TOKEN, OLD_TOKEN)
    strange = [p.name for p in root.iterdir() if p.name not in known] if root.is_dir() else []
    if strange:
        raise ArgumentError(f"output {root} holds something else: {', '.join(sorted(strange)[:5])}")


def check_token(folder: str, token: str) -> None:
    """Refuse to write where another run has begun: tasks can outlive the driver of theirs."""
    if (parse_path(folder) / TOKEN).read_text() != token:
        raise InputError(f"output {folder} was taken by another run; this one has ended")
