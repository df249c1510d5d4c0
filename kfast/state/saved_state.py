"""A cluster in a directory: columns as files that many processes map into memory together.

The directory has one `.npy` file per numpy column, one `.arrow` file per column of strings, and
`state.json` with everything else and the size of every column. It is written beside its place and
moved there when it is whole, so whoever opens it finds the old state, the new one, or none.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import InputError
from kfast.schema import DEFAULT_CONTROLLER
from kfast.state.arrays import StateArrays
from kfast.state.hosting import HostingIndex
from kfast.state.quorum import NOT_REGISTERED, PARTITION_COLUMNS, Quorum
from kfast.state.records import Assignment

FORMAT = 1
KRAFT_FORMAT = 2
"""Of a ZooKeeper and of a KRaft cluster. A kfast that knows only the first refuses the second."""

COLUMNS = (
    "records", "replicas", "replica_state", "topic_row", "partition", "broker_id",
    "broker_status", "broker_epoch", "topic_flags", "topic_unclean_leader_election",
    "topic_min_insync_replicas", "leader_offline", "pending", "free_rows",
)
INDEX_COLUMNS = ("begin", "hosted")
NAMES = ("rack", "topic", "topic_id")
PIECE_BYTES = 1 << 24
"""Large columns go to the disk in pieces, so that a save needs little of the page cache."""

SCALARS = (
    "controller_id", "controller_epoch", "epoch_store_version", "default_unclean_leader_election",
    "default_min_insync_replicas", "delete_topic_enabled", "leader_recovery_supported",
    "unclean_elections", "offline_partition_count", "preferred_imbalance_count", "any_queued",
    "any_offline_dir", "n_reassigned", "n_led",
)


class _ListOrder(msgspec.Struct):
    """An adding or removing list whose order is not that of the slots."""

    field: str
    row: int
    broker_ids: list[int]


class _Unwritten(msgspec.Struct):
    """An assignment that is stored while the cached one is another."""

    row: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class _Target(msgspec.Struct):
    """Where a reassignment before Kafka 2.4 goes."""

    row: int
    broker_ids: list[int]


class _Quorum(msgspec.Struct):
    """What only KRaft has beside columns of partitions; configurations are by type and name."""

    features: dict[str, int]
    configurations: list[tuple[int, str, dict[str, str]]]
    static_configuration: dict[str, str]
    incarnation_id: list[str]
    directories: list[tuple[str, ...]]
    cordoned: list[tuple[str, ...]]
    feature_ranges: list[dict[str, tuple[int, int]]]
    registration_offset: list[int]
    directory_ids: list[str]


class _Saved(msgspec.Struct):
    """What `state.json` holds."""

    format: int
    sizes: dict[str, list[int]]
    scalars: dict[str, int | bool]
    assumptions: list[str]
    list_orders: list[_ListOrder] = msgspec.field(name="odd_orders")
    unwritten_assignments: list[_Unwritten]
    reassignment_targets: list[_Target] = []
    controller: str = DEFAULT_CONTROLLER
    quorum: _Quorum | None = None


def save(state: StateArrays, directory: str | os.PathLike[str]) -> None:
    """Write the whole state to a directory, which is replaced; or leave it as it was."""
    place = Path(directory)
    if place.exists() and not (place / "state.json").is_file() and (
        not place.is_dir() or any(place.iterdir())
    ):
        raise InputError(f"{place} is in the way: it holds something else than a saved state")
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        _write(state, fresh)
        if place.exists():
            old = fresh.with_name(fresh.name + ".old")
            place.rename(old)
            try:
                fresh.rename(place)
            except OSError:
                old.rename(place)
                raise
            shutil.rmtree(old)
        else:
            fresh.rename(place)
        _sync(place.parent)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _write(state: StateArrays, directory: Path) -> None:
    arrays = {name: getattr(state, name) for name in COLUMNS}
    index = state.index_hosting()
    if index.appended or not index.is_made:
        index = HostingIndex(state.columns, state.n_brokers)
    arrays |= {f"index_{name}": getattr(index, name) for name in INDEX_COLUMNS}
    if state.quorum is not None:
        arrays |= state.quorum.partition_columns()
    for name, values in arrays.items():
        with (directory / f"{name}.npy").open("wb") as file:
            _write_column(file, values)
    for name in NAMES:
        table = pa.table({name: getattr(state, name)})
        with (directory / f"{name}.arrow").open("wb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            _flush(file)
    saved = _Saved(
        KRAFT_FORMAT if state.is_kraft else FORMAT,
        {name: list(values.shape) for name, values in arrays.items()},
        {name: getattr(state, name) for name in SCALARS},
        list(state.assumptions),
        [_ListOrder(field, row, list(ids)) for (field, row), ids in state.list_orders.items()],
        [
            _Unwritten(row, list(a.replicas), list(a.adding), list(a.removing))
            for row, a in state.unwritten_assignments.items()
        ],
        [_Target(row, list(ids)) for row, ids in state.reassignment_targets.items()],
        state.controller,
        None if state.quorum is None else _saved_quorum(state.quorum),
    )
    with (directory / "state.json").open("wb") as file:
        file.write(msgspec.json.encode(saved))
        _flush(file)
    _sync(directory)


def _saved_quorum(quorum: Quorum) -> _Quorum:
    return _Quorum(
        quorum.features,
        [(kind, name, values) for (kind, name), values in quorum.configurations.items()],
        quorum.static_configuration, quorum.incarnation_id, quorum.directories, quorum.cordoned,
        [dict(ranges) for ranges in quorum.feature_ranges], quorum.registration_offset.tolist(),
        quorum.directory_ids,
    )


def _load_quorum(state: StateArrays, saved: _Quorum, arrays: dict[str, Any]) -> None:
    quorum = state.quorum = Quorum(state)
    quorum.features, quorum.static_configuration = saved.features, saved.static_configuration
    quorum.configurations = {(kind, name): values for kind, name, values in saved.configurations}
    for name in NOT_REGISTERED:
        setattr(quorum, name, getattr(saved, name))
    quorum.registration_offset = np.asarray(saved.registration_offset, np.int64)
    for text in saved.directory_ids:
        quorum.directory_row(text)
    for name in PARTITION_COLUMNS:
        setattr(quorum, name, arrays.get(name))


def _write_column(file: IO[bytes], values: npt.NDArray[Any]) -> None:
    """Write an `.npy` file as `np.save` does; give the page cache back after every full piece.

    Without that a save takes as many fresh pages as the state is large, and finding those can cost
    ten times the writing. What was given back is read from the disk when it is first used.
    """
    values = np.ascontiguousarray(values)
    described = np.lib.format.header_data_from_array_1_0(values)
    np.lib.format.write_array_header_1_0(file, described)
    data = values.reshape(-1).view(np.uint8)
    for begin in range(0, data.size, PIECE_BYTES):
        piece = data[begin : begin + PIECE_BYTES]
        file.write(piece.data)
        if piece.size == PIECE_BYTES and hasattr(os, "posix_fadvise"):
            _flush(file)
            os.posix_fadvise(file.fileno(), 0, file.tell(), os.POSIX_FADV_DONTNEED)
    _flush(file)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def load(state: StateArrays, directory: str | os.PathLike[str]) -> None:
    """Fill an empty state with what a directory holds; see `kfast.open`."""
    place = Path(directory)
    try:
        saved = msgspec.json.decode((place / "state.json").read_bytes(), type=_Saved)
    except OSError as error:
        raise InputError(f"{place} holds no saved state: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise InputError(f"{place / 'state.json'} is damaged: {error}") from error
    if saved.format != (FORMAT if saved.quorum is None else KRAFT_FORMAT):
        raise InputError(
            f"{place} was saved in format {saved.format}; this kfast opens formats {FORMAT} and"
            f" {KRAFT_FORMAT}"
        )
    arrays = {name: _map(place, name, tuple(size)) for name, size in saved.sizes.items()}
    for name in COLUMNS:
        setattr(state, name, arrays[name])
    for name in NAMES:
        setattr(state, name, _read_names(place, name))
    for name in SCALARS:
        setattr(state, name, saved.scalars[name])
    state.controller = saved.controller
    if saved.quorum is not None:
        _load_quorum(state, saved.quorum, arrays)
    state.assumptions = tuple(saved.assumptions)
    state.list_orders = {(o.field, o.row): tuple(o.broker_ids) for o in saved.list_orders}
    state.unwritten_assignments = {
        a.row: Assignment(tuple(a.replicas), tuple(a.adding), tuple(a.removing))
        for a in saved.unwritten_assignments
    }
    state.reassignment_targets = {t.row: tuple(t.broker_ids) for t in saved.reassignment_targets}
    state._index = HostingIndex.of(arrays["index_begin"], arrays["index_hosted"])


def _map(place: Path, name: str, size: tuple[int, ...]) -> npt.NDArray[Any]:
    file = place / f"{name}.npy"
    try:
        # Nothing can be mapped of an empty file.
        values: npt.NDArray[Any] = np.load(
            file, mmap_mode="r" if np.prod(size) else None, allow_pickle=False
        )
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{file} is missing or damaged: {error}") from error
    if values.shape != size:
        raise InputError(f"{file} has shape {values.shape}; state.json says {size}")
    values.flags.writeable = False
    return values.view(np.ndarray)


def _read_names(place: Path, name: str) -> pa.Array:
    file = place / f"{name}.arrow"
    try:
        column = pa.ipc.open_file(pa.memory_map(str(file))).read_all().column(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{file} is missing or damaged: {error}") from error
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
