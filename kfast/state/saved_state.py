"""A cluster in a directory: columns as files that many processes map into memory together.

The directory has one `.npy` file per numpy column, one `.arrow` file per column of strings, and
`state.json` with everything else and the size and checksum of every other file. It is written
beside its place and moved there when it is whole, so whoever opens it finds the old state, the new
one, or none. Whoever opens it may be given one from elsewhere: checksums find what was damaged,
`saved_checks` what was made to point outside its table.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import mmap
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.errors import ArgumentError, InputError
from kfast.schema import CONTROLLERS, MAX_SLOTS, broker_dtype, record_dtype
from kfast.state.arrays import StateArrays
from kfast.state.hosting import HostingIndex
from kfast.state.quorum import NOT_REGISTERED, PARTITION_COLUMNS, Quorum
from kfast.state.records import Assignment
from kfast.state.saved_checks import check_loaded, check_quorum_lists

FORMAT = 3
KRAFT_FORMAT = 4
"""Of a ZooKeeper and of a KRaft cluster. Formats 1 and 2 had no checksums."""

COLUMNS = (
    "records", "replicas", "replica_state", "topic_row", "partition", "broker_id",
    "broker_status", "broker_epoch", "topic_flags", "topic_unclean_leader_election",
    "topic_min_insync_replicas", "leader_offline", "pending", "free_rows",
)
INDEX_COLUMNS = ("begin", "hosted")
TYPES = {
    "replica_state": "uint8", "topic_row": "int32", "partition": "int32", "broker_id": "int32",
    "broker_status": "uint8", "broker_epoch": "int64", "topic_flags": "uint8",
    "topic_unclean_leader_election": "int8", "topic_min_insync_replicas": "int32",
    "leader_offline": "uint64", "pending": "uint64", "free_rows": "int32", "index_begin": "int64",
    "index_hosted": "int32", "last_known_elr": "int32", "member_order": "uint8",
    "directory": "int32",
}
"""Of the columns that are alike in both layouts."""
NPY_MAGIC = b"\x93NUMPY\x01\x00"
MATRICES = ("replicas", "replica_state", "member_order", "directory")
NAMES = ("rack", "topic", "topic_id")
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
"""A name is that of a directory with files."""
PIECE_BYTES = 1 << 24
"""Large columns go to the disk in pieces, so that a save needs little of the page cache."""

_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Scalars(msgspec.Struct, forbid_unknown_fields=True):
    """Attributes of the state that are no columns."""

    controller_id: _Int32
    controller_epoch: _Int32
    epoch_store_version: _Int32
    default_unclean_leader_election: bool
    default_min_insync_replicas: _Int32
    delete_topic_enabled: bool
    leader_recovery_supported: bool
    unclean_elections: _Count
    offline_partition_count: _Int32
    preferred_imbalance_count: _Int32
    any_queued: bool
    any_offline_dir: bool
    n_reassigned: _Count
    n_led: _Count


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
    registration_offset: list[Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]]
    directory_ids: list[str]


class _Saved(msgspec.Struct):
    """All of a state that is not in other files, and what these are."""

    controller: str
    layout: Literal["narrow", "wide"]
    sizes: dict[str, list[Annotated[int, msgspec.Meta(ge=0)]]]
    checksums: dict[str, int]
    scalars: _Scalars
    assumptions: list[str]
    list_orders: list[_ListOrder]
    unwritten_assignments: list[_Unwritten]
    reassignment_targets: list[_Target]
    quorum: _Quorum | None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    """What `state.json` holds: a `_Saved` and the CRC-32 of its bytes."""

    format: int
    checksum: int
    state: msgspec.Raw


class _Format(msgspec.Struct):
    """What `state.json` of every version holds."""

    format: int


def save(state: StateArrays, directory: str | os.PathLike[str]) -> None:
    """Write the whole state to a directory, which is replaced; or leave it as it was."""
    place = Path(directory)
    if _is_in_the_way(place):
        raise InputError(f"{place} is in the way: it holds something else than a saved state")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise ArgumentError(f"{place}: cannot be written: {error.strerror}") from error
    try:
        _write(state, fresh)
        _take_place(fresh, place)
        _sync(place.parent)
    except OSError as error:
        error.filename = error.filename or str(place)  # one of a write has no name
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _is_in_the_way(place: Path) -> bool:
    """Whether something else is there, in one look: another save may move a state away."""
    try:
        names = [path.name for path in place.iterdir()]
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return True
    return bool(names) and ("state.json" not in names or (place / "state.json").is_dir())


def _take_place(fresh: Path, place: Path) -> None:
    """Put what was written where it belongs; of several saves at once the last one stays."""
    old = fresh.with_name(fresh.name + ".old")
    while True:
        with contextlib.suppress(FileNotFoundError):  # or another save has just moved it away
            place.rename(old)
        try:
            fresh.rename(place)
        except OSError as error:
            is_taken = error.errno in TAKEN
            if not is_taken:
                if old.exists():
                    old.rename(place)
                raise
        else:
            is_taken = False
        if old.exists():  # what is in its place now is newer
            shutil.rmtree(old)
        if not is_taken:
            return


def _write(state: StateArrays, directory: Path) -> None:
    arrays = {name: getattr(state, name) for name in COLUMNS}
    index = state.index_hosting()
    if index.appended or not index.is_made:
        index = HostingIndex(state.columns, state.n_brokers)
    arrays |= {f"index_{name}": getattr(index, name) for name in INDEX_COLUMNS}
    if state.quorum is not None:
        arrays |= state.quorum.partition_columns()
    checksums = {}
    for name, values in arrays.items():
        checksums[name] = _write_file(directory / f"{name}.npy", _column_pieces(values))
    for name in NAMES:
        table = pa.table({name: getattr(state, name)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        names = memoryview(sink.getvalue())
        checksums[name] = _write_file(directory / f"{name}.arrow", iter([names]))
    saved = msgspec.json.encode(_Saved(
        state.controller,
        state.layout,
        {name: list(values.shape) for name, values in arrays.items()},
        checksums,
        _Scalars(*(getattr(state, name) for name in _Scalars.__struct_fields__)),
        list(state.assumptions),
        [_ListOrder(field, row, list(ids)) for (field, row), ids in state.list_orders.items()],
        [
            _Unwritten(row, list(a.replicas), list(a.adding), list(a.removing))
            for row, a in state.unwritten_assignments.items()
        ],
        [_Target(row, list(ids)) for row, ids in state.reassignment_targets.items()],
        None if state.quorum is None else _saved_quorum(state.quorum),
    ))
    version = KRAFT_FORMAT if state.is_kraft else FORMAT
    document = msgspec.json.encode(_Document(version, zlib.crc32(saved), msgspec.Raw(saved)))
    _write_file(directory / "state.json", iter([memoryview(document)]))
    _sync(directory)


def _saved_quorum(quorum: Quorum) -> _Quorum:
    return _Quorum(
        quorum.features,
        [(kind, name, values) for (kind, name), values in quorum.configurations.items()],
        quorum.static_configuration, quorum.incarnation_id, quorum.directories, quorum.cordoned,
        [dict(ranges) for ranges in quorum.feature_ranges], quorum.registration_offset.tolist(),
        quorum.directory_ids,
    )


def _load_quorum(
    state: StateArrays, saved: _Quorum, arrays: dict[str, Any], place: Path
) -> None:
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
    check_quorum_lists(state, quorum, place)
    if quorum.directory_ids != saved.directory_ids:
        raise InputError(f"{place / 'state.json'}: directory_ids: right is each directory once")


def _column_pieces(values: npt.NDArray[Any]) -> Iterator[memoryview]:
    """Bytes of an `.npy` file, as `np.save` writes it."""
    values = np.ascontiguousarray(values)
    header = io.BytesIO()
    described = np.lib.format.header_data_from_array_1_0(values)
    np.lib.format.write_array_header_1_0(header, described)
    yield header.getbuffer()
    data = values.reshape(-1).view(np.uint8)
    for begin in range(0, data.size, PIECE_BYTES):
        yield data[begin : begin + PIECE_BYTES].data


def _write_file(path: Path, pieces: Iterator[memoryview]) -> int:
    """Write a file; give the page cache back after every full piece. Its CRC-32 comes back.

    Without that a save takes as many fresh pages as the state is large, and finding those can cost
    ten times the writing. What was given back is read from the disk when it is first used.
    """
    checksum = 0
    with path.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            checksum = zlib.crc32(piece, checksum)
            if len(piece) >= PIECE_BYTES and hasattr(os, "posix_fadvise"):
                _flush(file)
                os.posix_fadvise(file.fileno(), 0, file.tell(), os.POSIX_FADV_DONTNEED)
        _flush(file)
    return checksum


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


def load(state: StateArrays, directory: str | os.PathLike[str], *, verify: bool) -> None:
    """Fill an empty state with what a directory holds; see `kfast.open`.

    A directory that a save replaces meanwhile is read again: no state has files of two saves.
    """
    place = Path(directory)
    while True:
        found = _identity(place)
        if isinstance(found, OSError):
            raise InputError(f"{place} holds no saved state: {found.strerror}") from found
        try:
            _load(state, place, verify=verify)
        except InputError as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno == errno.ENOMEM:
                raise MemoryError(f"{place}: there is not enough memory to open it") from error
            if _identity(place) == found:
                raise
        else:
            if _identity(place) == found:
                return


def _identity(place: Path) -> tuple[int, ...] | OSError:
    """Tell the directory that a save has put there from the one before; or why none is seen."""
    try:
        status = place.stat()
    except OSError as error:
        return error
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _load(state: StateArrays, place: Path, *, verify: bool) -> None:
    saved = _read_document(place)
    files = [f"{name}.npy" for name in saved.sizes] + [f"{name}.arrow" for name in NAMES]
    if verify:
        for name in files:
            _check_file(place / name, saved.checksums)
    arrays = _map_columns(place, saved)
    for name in COLUMNS:
        setattr(state, name, arrays[name])
    for name in NAMES:
        setattr(state, name, _read_names(place, name))
    for name in _Scalars.__struct_fields__:
        setattr(state, name, getattr(saved.scalars, name))
    state.controller = saved.controller
    state.quorum = None
    index = HostingIndex.of(arrays["index_begin"], arrays["index_hosted"])
    if saved.quorum is not None:
        _load_quorum(state, saved.quorum, arrays, place)
    if verify:
        check_loaded(state, index, place)
    rows = [listed.row for listed in saved.list_orders]
    rows += [listed.row for listed in saved.unwritten_assignments]
    rows += [listed.row for listed in saved.reassignment_targets]
    if not all(0 <= row < state.n_partitions for row in rows):
        raise InputError(
            f"{place / 'state.json'}: an assignment of partition row {max(rows, key=abs)}; the"
            f" state has {state.n_partitions} rows"
        )
    state.assumptions = tuple(saved.assumptions)
    state.list_orders = {(o.field, o.row): tuple(o.broker_ids) for o in saved.list_orders}
    state.unwritten_assignments = {
        a.row: Assignment(tuple(a.replicas), tuple(a.adding), tuple(a.removing))
        for a in saved.unwritten_assignments
    }
    state.reassignment_targets = {t.row: tuple(t.broker_ids) for t in saved.reassignment_targets}
    state._index = index


def _read_document(place: Path) -> _Saved:
    """Read `state.json`, check its checksum and which columns it names."""
    file = place / "state.json"
    try:
        data = file.read_bytes()
        version = msgspec.json.decode(data, type=_Format).format
        if version not in (FORMAT, KRAFT_FORMAT):
            raise InputError(
                f"{place} was saved in format {version}; this kfast opens formats {FORMAT} and"
                f" {KRAFT_FORMAT}: save the cluster again with it"
            )
        document = msgspec.json.decode(data, type=_Document)
        if zlib.crc32(document.state) != document.checksum:
            raise InputError(f"{file} is damaged: its checksum is another")
        saved = msgspec.json.decode(document.state, type=_Saved)
    except OSError as error:
        raise InputError(f"{place} holds no saved state: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file} is damaged: {error}") from error
    if version != (FORMAT if saved.quorum is None else KRAFT_FORMAT):
        raise InputError(f"{file} is damaged: format {version} is of another controller")
    is_kraft = saved.controller.startswith("kraft")
    if saved.controller not in CONTROLLERS or is_kraft == (saved.quorum is None):
        raise InputError(f"{file}: the controller {saved.controller!r} does not run this cluster")
    needed = {*COLUMNS, *(f"index_{name}" for name in INDEX_COLUMNS)}
    allowed = needed | (set(PARTITION_COLUMNS) if is_kraft else set())
    if not needed <= set(saved.sizes) <= allowed:
        wrong = sorted((needed - set(saved.sizes)) | (set(saved.sizes) - allowed))
        raise InputError(f"{file}: the columns {', '.join(wrong)} are missing or unknown")
    return saved


def _check_file(file: Path, checksums: dict[str, int]) -> None:
    """Compare the checksum of a file with the one that `state.json` says."""
    checksum = 0
    try:
        with file.open("rb") as opened, mmap.mmap(
            opened.fileno(), 0, access=mmap.ACCESS_READ
        ) as mapped, memoryview(mapped) as data:
            for begin in range(0, len(data), PIECE_BYTES):
                checksum = zlib.crc32(data[begin : begin + PIECE_BYTES], checksum)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} is missing or damaged: {error}") from error
    if checksums.get(file.stem) != checksum:
        raise InputError(f"{file} is damaged: its checksum is another")


def _map_columns(place: Path, saved: _Saved) -> dict[str, npt.NDArray[Any]]:
    """Map all columns, whose shapes must be those that the partitions have."""
    narrow = saved.layout == "narrow"
    types: dict[str, Any] = {
        **TYPES, "records": record_dtype(narrow), "replicas": broker_dtype(narrow),
        "elr": "uint8" if narrow else "uint64",
    }
    rows, matrix = saved.sizes["records"], saved.sizes["replicas"]
    for name, size in saved.sizes.items():
        wrong = (name in MATRICES and size != matrix) or (
            name in PARTITION_COLUMNS and name not in MATRICES and size != rows
        )
        if wrong or len(size) != 1 + (name in MATRICES):
            raise InputError(f"{place / 'state.json'}: {name} has the shape {size}")
    if matrix[0] != rows[0] or matrix[1] > MAX_SLOTS:
        raise InputError(
            f"{place / 'state.json'}: {rows[0]} records with replicas of the shape {matrix}; right"
            f" is a row for each record, with at most {MAX_SLOTS} slots"
        )
    return {
        name: _map(place / f"{name}.npy", np.dtype(types[name]), size)
        for name, size in saved.sizes.items()
    }


def _map(file: Path, kind: np.dtype[Any], size: list[int]) -> npt.NDArray[Any]:
    """Map a column. What its header says is known; to parse another one is not worth the risk."""
    n_bytes = kind.itemsize * math.prod(size)
    try:
        with file.open("rb") as opened:
            head = opened.read(len(NPY_MAGIC) + 2)
            offset = len(head) + int.from_bytes(head[len(NPY_MAGIC) :], "little")
            n_found = os.fstat(opened.fileno()).st_size - offset
    except OSError as error:
        raise InputError(f"{file} is missing: {error.strerror}") from error
    if not head.startswith(NPY_MAGIC) or n_found != n_bytes:
        raise InputError(
            f"{file} is damaged: it holds {n_found} bytes; right is an .npy file with {n_bytes}"
        )
    if not n_bytes:  # nothing can be mapped of an empty file
        return np.empty(size, kind)
    try:
        return np.memmap(file, kind, "r", offset, tuple(size)).view(np.ndarray)
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be mapped: {error}") from error


def _read_names(place: Path, name: str) -> pa.Array:
    file = place / f"{name}.arrow"
    try:
        column = pa.ipc.open_file(pa.memory_map(str(file))).read_all().column(0)
        column.validate(full=True)
    except (OSError, pa.ArrowException, UnicodeDecodeError, IndexError) as error:
        raise InputError(f"{file} is missing or damaged: {error}") from error
    if column.type != pa.string():
        raise InputError(f"{file} holds {column.type}; right is string")
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
