"""Paths of other file systems than the local one, as s3a://bucket/folder/file: opened by pyarrow.

A `RemotePath` has what kfast uses of `pathlib.Path`, so that code which lists, reads and writes
files is the same for both. Credentials, regions and endpoints come from the environment, as pyarrow
takes them (docs/spark-deployment.md).

Source: Arrow, "Filesystem Interface"; Hadoop's names of its schemes.
"""

from __future__ import annotations

import functools
import io
import mmap
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeAlias, cast

import pyarrow as pa

from kfast.errors import ArgumentError, InputError

__all__ = [
    "AnyPath", "RemotePath", "open_input", "open_mapped", "open_store", "parse_path", "size_of",
]

SCHEMES = {
    "s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfs": "abfs", "abfss": "abfss",
    "hdfs": "hdfs", "viewfs": "viewfs",
}
"""Schemes, and what Arrow calls each."""

NEEDS = {
    "hdfs": "; it needs Hadoop's libhdfs.so, a Java, and the environment variables HADOOP_HOME,"
            " JAVA_HOME and CLASSPATH (hadoop classpath --glob)",
}
NEEDS["viewfs"] = NEEDS["hdfs"]
"""What Arrow loads when a file system of a scheme is opened."""

OPTIONS = {"gs": "?retry_limit_seconds=30"}
"""What Arrow is told: it would go on for 15 minutes where Google's servers are not reached."""

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/*(.*)", re.DOTALL)
_DBFS = re.compile(r"dbfs:/+")
_DBFS_MOUNT = Path("/dbfs")
"""Where Databricks mounts `dbfs:/` on every machine of a cluster."""


@dataclass(frozen=True, order=True)
class RemotePath(os.PathLike[str]):
    """A path of a file system that is not the local one.

    Attributes
    ----------
    store : str
        Scheme and authority, as `s3a://bucket`.
    key : str
        The path there, without slashes at its ends.
    """

    store: str
    key: str

    def __fspath__(self) -> str:
        """The URL."""
        return f"{self.store}/{self.key}"

    __str__ = __fspath__

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.store, f"{self.key}/{name.strip('/')}".strip("/"))

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """End of the name, with its dot."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> RemotePath:
        """The folder of it."""
        return RemotePath(self.store, self.key.rpartition("/")[0])

    @property
    def parents(self) -> tuple[RemotePath, ...]:
        """All folders above it."""
        return (self.parent, *self.parent.parents) if self.key else ()

    def absolute(self) -> RemotePath:
        """The path itself."""
        return self

    def is_relative_to(self, other: object) -> bool:
        """Whether it is a folder, or below it."""
        return self == other or other in self.parents

    def relative_to(self, other: AnyPath) -> PurePosixPath:
        """Path from a folder above."""
        return PurePosixPath(str(self)).relative_to(str(other))

    def _located(self) -> tuple[Any, str]:
        """The file system of Arrow, and its name for the path."""
        file_system, root = open_store(self.store)
        return file_system, f"{root}/{self.key}".rstrip("/") or "/"

    def info(self) -> Any:
        """What the file system tells of it, as `pyarrow.fs.FileInfo`."""
        file_system, name = self._located()
        return file_system.get_file_info(name)

    def exists(self) -> bool:
        """Whether there is a file or a folder."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether there is a file."""
        return bool(self.info().is_file)

    def is_dir(self) -> bool:
        """Whether there is a folder: of an object store, whether names begin so."""
        return bool(self.info().type.name == "Directory")

    def iterdir(self) -> Iterator[RemotePath]:
        """Files and folders in a folder, sorted."""
        return (path for path, _ in self._listed(recursive=False))

    def files_below(self) -> Iterator[RemotePath]:
        """Files in a folder and in all below it, sorted."""
        return (path for path, is_file in self._listed(recursive=True) if is_file)

    def _listed(self, *, recursive: bool) -> Iterator[tuple[RemotePath, bool]]:
        from pyarrow.fs import FileSelector

        file_system, name = self._located()
        selector = FileSelector(name, allow_not_found=True, recursive=recursive)
        for info in sorted(file_system.get_file_info(selector), key=lambda info: info.path):
            yield self / info.path.removeprefix(name), info.is_file

    def glob(self, pattern: str) -> list[RemotePath]:
        """Files and folders below that a pattern names; `**` is any number of folders."""
        places = [self]
        for part in pattern.strip("/").split("/"):
            if part == "**":
                places += [
                    below for place in places
                    for below, is_file in place._listed(recursive=True) if not is_file
                ]
            elif any(character in part for character in "*?["):
                places = [
                    child for place in places for child in place.iterdir()
                    if fnmatchcase(child.name, part)
                ]
            else:
                places = [place / part for place in places]
        return sorted({place for place in places if place.exists()})

    def open_input(self) -> pa.NativeFile:
        """Open a file for reading, at any place in it."""
        file_system, name = self._located()
        return file_system.open_input_file(name)

    def read_bytes(self) -> bytes:
        """Read a file."""
        with self.open_input() as file:
            return cast(bytes, file.read())

    def read_text(self) -> str:
        """Read a text."""
        return self.read_bytes().decode()

    @contextmanager
    def writing(self) -> Iterator[BinaryIO]:
        """Open a file that is sent when everything has been written, and replaces the old one.

        An object store shows an object when all of it has arrived. Arrow sends what it has even
        where an exception closes a stream, so it is given everything in one call.

        Raises
        ------
        ArgumentError
            The file cannot be made there.
        """
        with tempfile.TemporaryFile() as file:
            yield cast(BinaryIO, file)
            file.flush()
            size = file.seek(0, os.SEEK_END)
            data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""
            try:
                file_system, name = self._located()
                stream = file_system.open_output_stream(name)
                stream.write(pa.py_buffer(data))
                stream.close()
            except (OSError, pa.ArrowException) as error:
                raise ArgumentError(f"{self}: cannot be written: {error}") from error

    def write_text(self, text: str) -> None:
        """Write a text."""
        with self.writing() as file:
            file.write(text.encode())

    def mkdir(self, **_: bool) -> None:
        """Nothing: files make the folders that they are in."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file."""
        file_system, name = self._located()
        try:
            file_system.delete_file(name)
        except FileNotFoundError:
            if not missing_ok:
                raise


AnyPath: TypeAlias = Path | RemotePath


@functools.cache
def open_store(store: str) -> tuple[Any, str]:
    """Arrow's file system for a store, and its name for the root."""
    # The import takes longer than all the rest of kfast.
    from pyarrow.fs import FileSystem

    scheme, authority = store.split("://", 1)
    kind = SCHEMES[scheme.lower()]
    try:
        file_system, root = FileSystem.from_uri(f"{kind}://{authority}/{OPTIONS.get(kind, '')}")
    except (OSError, ImportError, pa.ArrowException) as error:
        raise InputError(
            f"{store}: pyarrow {pa.__version__} cannot open it: {error}"
            f"{NEEDS.get(kind, '')}"
        ) from error
    return file_system, root.rstrip("/")


def parse_path(path: str | os.PathLike[str]) -> AnyPath:
    """The path that a name or URL means.

    Raises
    ------
    InputError
        The scheme of a URL is unknown, or it names no bucket.
    """
    if isinstance(path, (Path, RemotePath)):
        return path
    text = os.fspath(path)
    dbfs = _DBFS.match(text)
    if dbfs:
        return _DBFS_MOUNT / text[dbfs.end() :]
    url = _URL.fullmatch(text)
    if url is None:
        return Path(text)
    scheme, authority, key = url.groups()
    if scheme.lower() == "file":
        return Path(text.removeprefix(f"{scheme}://"))
    if scheme.lower() not in SCHEMES:
        raise InputError(
            f"{text}: kfast knows no file system {scheme}://; right is a path, or a URL of"
            f" {', '.join(f'{known}://' for known in SCHEMES)}, dbfs:/ or file://"
        )
    if not authority and SCHEMES[scheme.lower()] not in ("hdfs", "viewfs"):
        raise InputError(f"{text}: no bucket is named; right is {scheme}://BUCKET/PATH")
    return RemotePath(f"{scheme}://{authority}", "/".join(filter(None, key.split("/"))))


def open_input(path: AnyPath) -> BinaryIO | io.FileIO:
    """Open a file for reading, without a buffer."""
    if isinstance(path, RemotePath):
        return cast(BinaryIO, path.open_input())
    return path.open("rb", buffering=0)


def open_mapped(path: AnyPath) -> pa.NativeFile:
    """Open a file for Arrow's readers: a local one as the memory that it is."""
    return path.open_input() if isinstance(path, RemotePath) else pa.memory_map(str(path))


def size_of(path: AnyPath) -> int:
    """Bytes of a file.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    if isinstance(path, Path):
        return path.stat().st_size
    info = path.info()
    if not info.is_file:
        raise FileNotFoundError(f"{path}: there is no file")
    return int(info.size)
