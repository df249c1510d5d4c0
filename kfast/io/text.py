"""Files as bytes: read whole, unpacked, checked to be text; written whole or not at all."""

from __future__ import annotations

import codecs
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pyarrow as pa

from kfast.errors import ArgumentError, InputError

__all__ = ["Source", "check_utf8", "line_of", "load", "name_of", "quote", "some", "writing"]

Source: TypeAlias = str | os.PathLike[str] | tuple[str, bytes]
"""A file's path, or what messages call something in memory, and what it holds."""

_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_CHUNK = 1 << 24
_SHOWN = 60
"""How many characters of a damaged text an error message repeats."""
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_DESCRIPTOR = re.compile("(?:/dev|/proc/self)/fd/([0-9]{1,9})")


def name_of(source: Source) -> str:
    """What messages call a source."""
    return source[0] if isinstance(source, tuple) else os.fspath(source)


def load(path: Source) -> tuple[str, bytes]:
    """Read a file whole, or standard input for `-`; unpack gzip and zstd; drop a byte order mark.

    Returns
    -------
    name, data
        What messages call the file, and what it holds.

    Raises
    ------
    InputError
        The file cannot be read, is damaged as an archive, or is empty.
    """
    name = name_of(path)
    try:
        if isinstance(path, tuple):
            data = path[1]
        elif name == "-":
            name, data = "standard input", sys.stdin.buffer.read()
        else:
            data = Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from error
    for magic, codec in _PACKED.items():
        if data.startswith(magic):
            data = _unpack(name, data, codec)
            break
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data[:4096].strip() and not data.strip():
        raise InputError(f"{name}: is empty; kfast has nothing to read in it")
    return name, data


def _unpack(name: str, data: bytes, codec: str) -> bytes:
    """Unpack a compressed file."""
    parts = []
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while part := stream.read(_CHUNK):
                parts.append(part)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{name}: damaged {codec} file: {error}") from error
    return b"".join(parts)


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


def quote(text: str | bytes) -> str:
    """Part of a text as a message shows it: in quotes, and not too long."""
    if isinstance(text, bytes):
        text = text[: 4 * _SHOWN].decode("utf-8", "replace")
    text = text.strip()
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def some(items: list[int] | list[str], most: int = 10) -> str:
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
def writing(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file that takes its place only when everything has been written.

    What is written goes to a new file in the same folder, which replaces the old one at the end, so
    that no reader sees half of it and an error or Ctrl-C leaves the old one as it was. `-` is
    standard output, and so is `/dev/stdout`; devices, pipes and open descriptors (`/dev/fd/3`) are
    written to directly. `durable` waits for the disk, so that not even a loss of power leaves half
    of the file.

    Raises
    ------
    ArgumentError
        The file cannot be made there.
    """
    name = os.fspath(path)
    if name in _STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    direct = _open_directly(name)
    if direct is not None:
        with direct as file:
            yield file
        return
    target = Path(path).resolve()
    # Containers that share a folder may have processes of one number.
    partial = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        try:
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            opened = partial.open("xb")
        except OSError as error:
            raise ArgumentError(f"{name}: cannot be written: {error.strerror}") from error
        with opened as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(target)
    finally:
        # Ctrl-C may come as soon as there is a file.
        partial.unlink(missing_ok=True)
