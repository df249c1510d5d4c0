"""Files as bytes: read whole, unpacked, checked to be text; written whole or not at all."""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

import pyarrow as pa

from kfast.errors import ArgumentError, InputError
from kfast.io.file_systems import RemotePath, open_input, parse_path

__all__ = [
    "LOOK_BYTES",
    "PACKED",
    "Source",
    "abbreviate",
    "check_new_folder",
    "check_utf8",
    "line_of",
    "load",
    "name_of",
    "one_line",
    "quote",
    "writing",
    "writing_folder",
]

Kind = TypeVar("Kind")
Source: TypeAlias = str | os.PathLike[str] | tuple[str, bytes]
"""A file's path, or what messages call something in memory, and what it holds."""

PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""First bytes of what is unpacked when it is read."""
_CHUNK = 1 << 24
LOOK_BYTES = 1 << 20
"""A file is recognised by so many of its first bytes; prose before a description counts."""
_SHOWN = 60
"""How many characters of a damaged text an error message repeats."""
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_DESCRIPTOR = re.compile("(?:/dev|/proc/self)/fd/([0-9]{1,9})")


def name_of(source: Source) -> str:
    """What messages call a source."""
    return source[0] if isinstance(source, tuple) else os.fspath(source)


def load(path: Source, recognise: Callable[[str, bytes], Kind]) -> tuple[str, bytes, Kind]:
    """Read a file whole, or standard input for `-`; unpack gzip and zstd; drop a byte order mark.

    Parameters
    ----------
    path : path, or (str, bytes)
    recognise : callable
        Called with what messages call the file and its first `LOOK_BYTES`, unpacked. It returns
        what the file is or raises, so that a large file of no use is not read to its end.

    Returns
    -------
    name, data, kind
        What messages call the file, what it holds, and what `recognise` returned.

    Raises
    ------
    InputError
        The file cannot be read, is damaged as an archive, or is empty; and what `recognise` raises.
    """
    name = name_of(path)
    if not name or "\0" in name:
        raise InputError(
            f"the name of the input is {name!r}; right is a file, or - for standard input"
        )
    try:
        if isinstance(path, tuple):
            return _read(name, io.BytesIO(path[1]), recognise)
        if name == "-":
            if sys.stdin is None:
                raise InputError("standard input: it is closed")
            return _read("standard input", sys.stdin.buffer, recognise)
        with open_input(parse_path(name)) as file:
            return _read(name, file, recognise)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error


def _read(
    name: str, file: BinaryIO | io.FileIO, recognise: Callable[[str, bytes], Kind]
) -> tuple[str, bytes, Kind]:
    """`load` from an open file."""
    head = _first_bytes(file)
    codec = next((PACKED[magic] for magic in PACKED if head.startswith(magic)), None)
    if codec is None:
        kind = _recognise_head(name, head, recognise)
        data = _all_bytes(file, head)
    else:
        packed = pa.BufferReader(_all_bytes(file, head))
        try:
            with pa.CompressedInputStream(packed, codec) as stream:
                head = _first_bytes(stream)
                kind = _recognise_head(name, head, recognise)
                data = b"".join([head, *iter(partial(stream.read, _CHUNK), b"")])
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{name}: damaged {codec} file: {error}") from error
    return name, data.removeprefix(codecs.BOM_UTF8), kind


def _first_bytes(file: BinaryIO | io.FileIO | pa.NativeFile) -> bytes:
    """The first bytes of a file; pipes and archives give them in pieces."""
    head = b""
    while len(head) < LOOK_BYTES and (part := file.read(LOOK_BYTES - len(head))):
        head += part
    return head


def _all_bytes(file: BinaryIO | io.FileIO, head: bytes) -> bytes:
    """All bytes of a file of which the first are read; where they can be read again, uncopied."""
    if not file.seekable():
        return head + (file.read() or b"")
    file.seek(-len(head), os.SEEK_CUR)
    return file.read() or b""


def _recognise_head(name: str, head: bytes, recognise: Callable[[str, bytes], Kind]) -> Kind:
    """Say what a file is by its first bytes."""
    if not head.removeprefix(codecs.BOM_UTF8).strip():
        found = "is empty" if len(head) < LOOK_BYTES else f"begins with {LOOK_BYTES} blanks"
        raise InputError(f"{name}: {found}; kfast has nothing to read in it")
    return recognise(name, head.removeprefix(codecs.BOM_UTF8))


def check_utf8(name: str, data: bytes) -> None:
    """Raise an `InputError` that names the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    for start in range(0, len(data), _CHUNK):
        kept = len(decoder.getstate()[0])
        try:
            decoder.decode(view[start : start + _CHUNK], final=start + _CHUNK >= len(data))
        except UnicodeDecodeError as error:
            at = start - kept + error.start
            raise InputError(
                f"{name} line {line_of(data, at)}: byte 0x{data[at]:02x} at offset {at} is not"
                " UTF-8; save the text as UTF-8 (from Latin-1: iconv -f latin1 -t utf-8)"
            ) from error


def line_of(data: bytes, at: int) -> int:
    """The number, from 1, of the line that holds a byte."""
    return data.count(b"\n", 0, at) + 1


def one_line(message: str | Exception) -> str:
    """A message of a library, which may have several lines, as one."""
    return " ".join(str(message).split())


def quote(text: str | bytes) -> str:
    """Part of a text as a message shows it: in quotes, and not too long."""
    if isinstance(text, bytes):
        text = text[: 4 * _SHOWN].decode("utf-8", "replace")
    text = text.strip()
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def abbreviate(items: list[int] | list[str], most: int = 10) -> str:
    """Name items in a sentence; those beyond the first few are only counted."""
    shown = ", ".join(str(item) for item in items[:most])
    return shown if len(items) <= most else f"{shown} and {len(items) - most} more"


def _open_directly(name: str) -> BinaryIO | None:
    """A device, a pipe or an open descriptor, opened for writing; None for any other name.

    A descriptor is used as it is: a pipe that it names has no path, and what it appends to must
    not be replaced.
    """
    try:
        found = _DESCRIPTOR.fullmatch(name)
        if found:
            return os.fdopen(os.dup(int(found[1])), "wb")
        mode = Path(name).stat().st_mode
        return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else Path(name).open("wb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ArgumentError(f"{name}: cannot be written: {error.strerror}") from error


@contextmanager
def _named_errors(name: str) -> Iterator[None]:
    """Put a file's name into an error of the system that has none: one of a write."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or name
        raise


@contextmanager
def writing(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file that takes its place only when everything has been written.

    What is written goes to a new file in the same folder, which replaces the old one at the end, so
    that no reader sees half of it and an error or Ctrl-C leaves the old one as it was. `-` is
    standard output, and so is `/dev/stdout`; devices, pipes and open descriptors (`/dev/fd/3`) are
    written to directly. `durable` waits for the disk, so that not even a loss of power leaves half
    of the file. A file on another file system is sent when everything has been written.

    Raises
    ------
    ArgumentError
        The file cannot be made there.
    """
    name = os.fspath(path)
    if not name or "\0" in name:
        raise ArgumentError(f"the name of the output is {name!r}; right is a file, or - for a pipe")
    if name in _STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    place = parse_path(path)
    if isinstance(place, RemotePath):
        with place.writing() as file:
            yield file
        return
    direct = _open_directly(name)
    if direct is not None:
        with _named_errors(name), direct as file:
            yield file
        return
    target = place.resolve()
    # Containers that share a folder may have processes of one number.
    partial = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        try:
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            opened = partial.open("xb")
        except OSError as error:
            raise ArgumentError(f"{name}: cannot be written: {error.strerror}") from error
        with _named_errors(name), opened as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(target)
    finally:
        # Ctrl-C may come as soon as there is a file. A read-only file system has none to remove.
        if partial.exists():
            partial.unlink(missing_ok=True)


@contextmanager
def writing_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder that takes its place only when everything in it has been written.

    Files go to a new folder beside it, which gets its name in the end; an error or Ctrl-C leaves
    nothing.

    Raises
    ------
    ArgumentError
        Something of this name is there already, or a folder cannot be made there.
    """
    name = os.fspath(path)
    check_new_folder(name)
    target = Path(path).resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        try:
            partial.mkdir()
        except OSError as error:
            raise ArgumentError(f"{name}: cannot be written: {error.strerror}") from error
        yield partial
        for file in (*partial.iterdir(), partial):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_new_folder(path: str | os.PathLike[str]) -> None:
    """Refuse the name of something that is there, and of a folder where none can be made."""
    name = os.fspath(path)
    if not name or "\0" in name:
        raise ArgumentError(f"the name of the output is {name!r}; right is a new folder")
    target = Path(name)
    if target.exists() or target.is_symlink():
        raise ArgumentError(f"{name} is there already; right is the name of a new folder")
    if not target.parent.is_dir():
        raise ArgumentError(f"the folder of {name} does not exist")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise ArgumentError(f"{name}: cannot be written: {os.strerror(errno.EACCES)}")
