"""Clusters from files and to files; the kind of a file is told by its content."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from kfast.arguments import check_instance
from kfast.errors import ArgumentError
from kfast.io.arrow import read_arrow, write_arrow
from kfast.io.brokers import (
    add_brokers_file,
    add_new_brokers,
    parse_brokers,
    read_brokers_file,
)
from kfast.io.describe_parser import Progress
from kfast.io.describe_reader import read_describe
from kfast.io.describe_writer import write_describe
from kfast.io.file_kinds import check_plan, recognise
from kfast.io.files import Source, check_utf8, load, writing
from kfast.io.parquet import map_parquet, read_parquet, write_flat, write_parquet
from kfast.io.plan_json import read_plan, read_reassignment, write_reassignment
from kfast.io.source_tables import SourceTables, add_defaults, mark_up, note_presumed
from kfast.kernels.describe import survey
from kfast.state import ClusterState
from kfast.state.flat_table import is_flat, to_lists

__all__ = [
    "FORMATS",
    "Progress",
    "SourceTables",
    "complete",
    "gather",
    "parse_brokers",
    "read",
    "read_brokers_file",
    "read_plan",
    "read_tables",
    "write",
]

FORMATS = {
    "describe": (".txt", ".describe"),
    "reassignment": (".json",),
    "arrow": (".arrow", ".feather", ".ipc"),
    "parquet": (".parquet",),
    "parquet-flat": (),
}
"""What can be written, and the ends of file names that ask for it; `parquet-flat` is by request."""


def read(
    path: Source,
    *,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
    progress: Progress | None = None,
) -> ClusterState:
    """Read a cluster from a file.

    The file may be the text of `kafka-topics --describe` of any version (with prompts, log lines
    and wrapped lines in it), a reassignment plan in JSON, Arrow IPC or Parquet; text may be packed
    with gzip or zstd. What the file does not say gets Kafka's default or is concluded, and stands
    in `state.assumptions`.

    Parameters
    ----------
    path : path, or (str, bytes)
        The file; `-` is standard input. A pair is what messages call it, and what it holds.
    brokers_file : path, or (str, bytes), optional
        CSV with the columns broker_id, rack and perhaps registered: see `kfast.io.brokers`.
    add_brokers : mapping of int to str or None, optional
        Brokers that the file does not name, each with its rack or None for none. They are
        registered and hold no replica.
    defaults : mapping, optional
        Brokers' defaults: `min.insync.replicas`, `unclean.leader.election.enable`,
        `delete.topic.enable`.
    up : iterable of int, optional
        Broker ids that are registered, whatever the file shows.
    progress : callable, optional
        Called with the bytes done and the bytes there are, now and then.

    Returns
    -------
    ClusterState

    Raises
    ------
    InputError
        The file cannot be read, is of another kind, is damaged, or contradicts itself. The message
        names the file, the line, what was found and what is right.
    ArgumentError
        A default or a broker id that kfast cannot take; a broker to be added that the file names,
        or one to be up that it does not.
    """
    tables = gather(
        path,
        brokers_file=brokers_file,
        add_brokers=add_brokers,
        defaults=defaults,
        up=up,
        progress=progress,
    )
    return ClusterState.from_tables(
        tables.brokers,
        tables.topics,
        tables.partitions,
        tables.cluster,
        source=tables.source,
        notes=tables.notes,
    )


def read_tables(
    path: Source,
    *,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
    progress: Progress | None = None,
) -> SourceTables:
    """Read a file into tables, with nothing filled in. Arguments and errors are those of `read`."""
    tables = gather(
        path,
        brokers_file=brokers_file,
        add_brokers=add_brokers,
        defaults=defaults,
        up=up,
        progress=progress,
    )
    if is_flat(tables.partitions):
        return replace(tables, partitions=to_lists(tables.partitions, tables.source))
    return tables


def gather(
    path: Source,
    *,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
    progress: Progress | None = None,
) -> SourceTables:
    """`read_tables`, the partitions in the form that the file has: flat, or with lists."""
    tables = map_parquet(path)
    if tables is None:
        name, data, (kind, start) = load(path, recognise)
        tables = _read_data(name, data, kind, start, progress)
    return complete(
        tables, brokers_file=brokers_file, add_brokers=add_brokers, defaults=defaults, up=up
    )


def complete(
    tables: SourceTables,
    *,
    brokers_file: Source | None = None,
    add_brokers: Mapping[int, str | None] | None = None,
    defaults: Mapping[str, object] | None = None,
    up: Iterable[int] = (),
) -> SourceTables:
    """Add what a caller of `read` says to what a file says."""
    if brokers_file is not None:
        tables = add_brokers_file(tables, brokers_file)
    if add_brokers is not None:
        tables = add_new_brokers(tables, add_brokers)
    return note_presumed(mark_up(add_defaults(tables, defaults), up))


def _read_data(
    name: str, data: bytes, kind: str, start: int, progress: Progress | None
) -> SourceTables:
    """Read what a file holds."""
    if kind == "arrow":
        return read_arrow(name, data)
    if kind == "parquet":
        return read_parquet(name, data)
    if survey(data)[2]:
        check_utf8(name, data)
    if kind == "describe":
        return read_describe(name, data, progress)
    check_plan(name, data, start)
    return read_reassignment(name, data, start)


def write(
    state: ClusterState | SourceTables,
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
) -> None:
    """Write a cluster to a file, whole or not at all.

    Arrow and Parquet keep everything. A describe text keeps what `kafka-topics` prints (no epochs,
    racks, states, or brokers without replicas), a reassignment plan only who holds what.

    Parameters
    ----------
    state : ClusterState or SourceTables
        The cluster.
    path : path
        The file, which is replaced; `-` is standard output.
    format : {"describe", "reassignment", "arrow", "parquet", "parquet-flat"}, optional
        By default the end of the file's name tells. `parquet-flat` has plain integers instead of
        lists, which are ten times faster: see `kfast.state.flat_table`.

    Raises
    ------
    ArgumentError
        The format is unknown, or the name of the file does not tell; a flat file cannot hold
        this cluster.
    """
    check_instance("state", state, ClusterState, SourceTables)
    chosen = format or _format_of(path)
    if chosen not in FORMATS:
        raise ArgumentError(f"format {chosen!r} is not one of {', '.join(FORMATS)}")
    tables = _tables(state, flat=chosen == "parquet-flat")
    with writing(path) as file:
        if chosen == "parquet-flat":
            write_flat(tables, file)
        elif chosen == "arrow":
            write_arrow(tables, file)
        elif chosen == "parquet":
            write_parquet(tables, file)
        elif chosen == "reassignment":
            write_reassignment(tables.partitions, file)
        else:
            write_describe(tables.topics, tables.partitions, file)


def _tables(state: ClusterState | SourceTables, *, flat: bool) -> SourceTables:
    """What is to be written, the partitions in the form that is asked for."""
    if isinstance(state, SourceTables):
        if flat == is_flat(state.partitions):
            return state
        if not flat:
            return replace(state, partitions=to_lists(state.partitions, state.source))
        state = ClusterState.from_tables(
            state.brokers, state.topics, state.partitions, state.cluster
        )
    whole = state.to_tables(flat=flat)
    return SourceTables("", whole.partitions, whole.topics, whole.brokers, whole.cluster)


def _format_of(path: str | os.PathLike[str]) -> str:
    """Format that the end of a file's name asks for."""
    end = Path(path).suffix.lower()
    for name, ends in FORMATS.items():
        if end in ends:
            return name
    known = ", ".join(f"{' '.join(ends)} ({name})" for name, ends in FORMATS.items() if ends)
    raise ArgumentError(f"{os.fspath(path)}: its name tells no format; give one, or use {known}")
