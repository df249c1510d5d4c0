"""Files that hold clusters: found by path, folder or glob, and divided among tasks by their work.

How many partitions an export has is guessed by its size: only the sizes of tasks follow from that.
"""

from __future__ import annotations

import glob
import hashlib
import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from kfast.arguments import is_whole
from kfast.errors import ArgumentError, InputError
from kfast.io.file_systems import AnyPath, RemotePath, open_input, open_mapped, parse_path, size_of
from kfast.state.flat_table import SLOT

__all__ = [
    "FLAT_MARK", "MAGIC", "PARTITION_BYTES", "absolute", "check_tasks", "distribute",
    "distribute_files", "estimate_partitions", "find_files", "find_roots", "folder_with",
    "hash_file", "look_at",
]

Item = TypeVar("Item", bound=Any)

PARTITION_BYTES = {
    "text": 80, "packed": 10, "arrow": 100, "parquet": 11, "parquet-flat": 4,
}
"""A partition of three replicas in a file of each form, as measured of random placements."""

MAGIC = {b"\x1f\x8b": "packed", b"\x28\xb5": "packed", b"AR": "arrow", b"PA": "parquet"}
"""How gzip, zstd, Arrow and Parquet begin; anything else is text."""

ENDS = {
    ".gz": "packed", ".zst": "packed", ".parquet": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}
"""Ends of names, by which the form of a file is guessed without opening it."""

FLAT_MARK = f"{SLOT}0"
"""Name of a column that a Parquet file of the flat form has, and no other."""

LARGE_BYTES = 1 << 20
"""A Parquet file of this size is asked how many rows it has; a smaller one does not matter."""

CHUNK_BYTES = 1 << 24
"""What is read at once of a file that is hashed: other file systems answer each read late."""

LOOKS = 32
"""Files that are looked at at the same time, likewise."""

_HIDDEN = (".", "_")


def hash_file(path: AnyPath) -> str:
    """Digest of the bytes of a file."""
    digest = hashlib.blake2b(digest_size=16)
    with open_input(path) as file:
        for part in iter(partial(file.read, CHUNK_BYTES), b""):
            digest.update(part)
    return digest.hexdigest()


def look_at(files: Iterable[str], look: Callable[[AnyPath], Item]) -> dict[str, Item]:
    """What a function says of each file; many are asked at the same time."""
    names = list(files)
    with ThreadPoolExecutor(LOOKS) as pool:
        return dict(zip(names, pool.map(lambda name: look(parse_path(name)), names), strict=True))


def find_files(where: str | AnyPath, *, required: bool = True) -> list[str]:
    """Files at a path, in a folder (with all below it), or in all that a glob names; sorted.

    Names that begin with `.` or `_` are left out, as Spark leaves them out: they are being written.

    Raises
    ------
    InputError
        There are none though they are `required`, a folder may not be looked into, or the path is
        of an unknown file system.
    """
    place = absolute(where)
    files: set[str] = set()
    try:
        for root in find_roots(where):
            if root == place or not root.name.startswith(_HIDDEN):
                files.update([str(root)] if root.is_file() else _files_below(root))
    except OSError as error:
        raise InputError(
            f"{error.filename or place}: cannot be read: {error.strerror or error}"
        ) from error
    if required and not files:
        relative = "" if str(place) in str(where) else (
            f" ({where} in the folder of this process: name it in full)"
        )
        raise InputError(
            f"{place}: no file is there{relative}; give a file, a folder with files, or a glob"
        )
    return sorted(files)


def find_roots(where: str | AnyPath) -> list[AnyPath]:
    """The file or folder at a path, or all files and folders that a glob names."""
    place = absolute(where)
    if place.exists():
        return [place]
    if isinstance(place, RemotePath):
        return [*RemotePath(place.store, "").glob(place.key)]
    # `Path.glob` takes no absolute pattern.
    return [Path(name) for name in glob.glob(str(place), recursive=True)]  # noqa: PTH207


def absolute(where: str | AnyPath) -> AnyPath:
    """A path in full; Spark writes `file:` before one of the local file system."""
    return parse_path(str(where).removeprefix("file:")).absolute()


def folder_with(output: AnyPath, where: str | AnyPath) -> AnyPath | None:
    """The folder in which files are looked for, where a new one in `output` would be found too."""
    for root in find_roots(where):
        if root.is_dir() and output.is_relative_to(root):
            parts = output.relative_to(root).parts
            if not any(part.startswith(_HIDDEN) for part in parts):
                return root
    return None


def _files_below(root: AnyPath) -> Iterator[str]:
    if isinstance(root, RemotePath):
        for file in root.files_below():
            if not any(part.startswith(_HIDDEN) for part in file.relative_to(root).parts):
                yield str(file)
        return
    for folder, folders, names in os.walk(root, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        for name in names:
            path = Path(folder) / name
            if not name.startswith(_HIDDEN) and path.is_file():
                yield str(path)


def _refuse(error: OSError) -> None:
    """Without this a folder that may not be read would be passed over in silence."""
    if not isinstance(error, FileNotFoundError):  # which was there a moment ago
        raise error


def check_tasks(tasks: int | None) -> None:
    """Refuse fewer than one task; None stands for as many as there is work for."""
    if tasks is not None and not is_whole(tasks):
        raise ArgumentError(f"tasks is {tasks!r}; right is an integer of at least 1")
    if tasks is not None and tasks < 1:
        raise ArgumentError(f"tasks is {tasks}; at least 1 is needed")


def distribute_files(files: Sequence[str], tasks: int) -> list[list[str]]:
    """Divide files among at most so many tasks by their size; see `distribute`."""
    return distribute(look_at(files, size_of), tasks)


def distribute(sizes: Mapping[Item, int], tasks: int) -> list[list[Item]]:
    """Divide items among at most so many tasks, the largest first to whichever has least.

    So a huge cluster has a task for itself, and tiny ones share one: a task has its price
    whatever it does. The shares do not depend on the order of the items.
    """
    heap = [(0, task) for task in range(max(1, min(tasks, len(sizes))))]
    shares: list[list[Item]] = [[] for _ in heap]
    for size, item in sorted(((size, item) for item, size in sizes.items()), reverse=True):
        total, task = heapq.heappop(heap)
        shares[task].append(item)
        heapq.heappush(heap, (total + size + 1, task))
    return [sorted(share) for share in shares if share]


def estimate_partitions(path: AnyPath) -> int:
    """How many partitions a file has, about; 0 for what is no file."""
    try:
        size = size_of(path)
    except OSError:
        # Whoever reads the file says what is wrong with it, here and below.
        return 0
    form = ENDS.get(path.suffix.lower(), "text")
    if form == "parquet" and size >= LARGE_BYTES:
        try:
            return int(pq.read_metadata(open_mapped(path)).num_rows)
        except (pa.ArrowException, OSError):
            return size // PARTITION_BYTES[form]
    return size // PARTITION_BYTES[form]
