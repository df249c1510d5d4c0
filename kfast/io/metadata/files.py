"""Files of a metadata log: which there are, and what their names say.

Source: docs/kraft.md, section 12; Kafka 4.1, Snapshots.java, LogFileUtils.java.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from kfast.errors import InputError
from kfast.io.files import PACKED, Source, name_of

__all__ = ["FOLDER", "HEAD", "MetadataFile", "classify", "find_metadata", "is_batch", "opened"]

FOLDER = "__cluster_metadata-0"
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SEGMENT = re.compile(r"(\d{20})\.log")
_BOOTSTRAP = "bootstrap.checkpoint"
_MAGIC_AT, _MAGIC = 16, 2
_TYPE_AT = 61 + 8
"""Where the type of the first record of a control batch stands: its fields before are one byte."""
_ATTRIBUTES_AT, _CONTROL = 22, 32
_SNAPSHOT_HEADER = 3
HEAD = 128
"""Bytes of a file that tell what it is."""


class FileKind(Enum):
    """What a file of the metadata log is."""

    SEGMENT = "a segment of the log"
    SNAPSHOT = "a snapshot"
    BOOTSTRAP = "the records that a cluster begins with"


@dataclass(frozen=True)
class MetadataFile:
    """A file of the metadata log.

    Parameters
    ----------
    source : path, or (str, bytes)
    kind : FileKind
    offset : int
        Of a segment, that of its first record; of a snapshot, the first that it does not contain,
        -1 where its name does not say it.
    epoch : int
        Of a snapshot; -1 where the name does not say it.
    """

    source: Source
    kind: FileKind
    offset: int = -1
    epoch: int = -1

    @property
    def name(self) -> str:
        """What messages call it."""
        return name_of(self.source)


def is_batch(head: bytes) -> bool:
    """Whether a file that begins so holds record batches."""
    return len(head) > _MAGIC_AT and head[_MAGIC_AT] == _MAGIC and head[0] == 0


def classify(source: Source, head: bytes) -> MetadataFile | None:
    """What a file is by its name or, where that tells nothing, by its first bytes."""
    name = Path(name_of(source)).name
    if match := _SNAPSHOT.search(name):
        return MetadataFile(source, FileKind.SNAPSHOT, int(match[1]), int(match[2]))
    if match := _SEGMENT.search(name):
        return MetadataFile(source, FileKind.SEGMENT, int(match[1]))
    if name == _BOOTSTRAP:
        return MetadataFile(source, FileKind.BOOTSTRAP)
    if not is_batch(head):
        is_snapshot = name.endswith(".checkpoint")
        return MetadataFile(source, FileKind.SNAPSHOT) if is_snapshot else None
    is_control = len(head) > _TYPE_AT and head[_ATTRIBUTES_AT] & _CONTROL
    if is_control and head[_TYPE_AT] == _SNAPSHOT_HEADER:
        return MetadataFile(source, FileKind.SNAPSHOT)
    return MetadataFile(source, FileKind.SEGMENT, int.from_bytes(head[:8], "big"))


def find_metadata(path: Source) -> list[MetadataFile] | None:
    """The files of the metadata log that a path names; None where it names something else.

    Parameters
    ----------
    path : path, or (str, bytes)
        A snapshot, a segment, the folder `__cluster_metadata-0`, or the folder that holds it.

    Raises
    ------
    InputError
        A folder that holds no metadata log.
    """
    if isinstance(path, tuple):
        head = path[1][:HEAD]
    elif not name_of(path) or "\0" in name_of(path):
        return None  # `load` says what is wrong, here and below
    elif Path(path).is_dir():
        return _find_in_folder(Path(path))
    elif not Path(path).is_file():
        return None
    else:
        try:
            with Path(path).open("rb") as file:
                head = file.read(HEAD)
        except OSError:
            return None
    if not head or any(head.startswith(magic) for magic in PACKED):
        return None
    classified = classify(path, head)
    return None if classified is None else [classified]


def _find_in_folder(folder: Path) -> list[MetadataFile]:
    inner = folder / FOLDER
    place = inner if inner.is_dir() else folder
    files = [
        file for path in sorted(place.iterdir())
        if path.suffix in (".log", ".checkpoint") and path.is_file()
        and (file := classify(path, b"")) is not None and file.offset >= 0
    ]
    if not files:
        raise InputError(
            f"{folder}: is a folder without a metadata log; right is the folder {FOLDER} of a"
            " KRaft controller or broker, or the one that holds it (metadata.log.dir)"
        )
    return files


@contextmanager
def opened(source: Source) -> Iterator[io.BytesIO | io.BufferedReader]:
    """Open a file; what is packed or in memory is read whole.

    Raises
    ------
    InputError
        It cannot be read.
    """
    if isinstance(source, tuple):
        yield io.BytesIO(source[1])
        return
    try:
        with Path(os.fspath(source)).open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{name_of(source)}: cannot be read: {error.strerror}") from error
