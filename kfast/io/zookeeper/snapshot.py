"""A snapshot of ZooKeeper in its own binary form, checked by the checksum in it.

Source: docs/formats.md, section "ZooKeeper dumps"; ZooKeeper 3.8, FileSnap.java, DataTree.java,
SnapStream.java.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

from kfast.errors import InputError
from kfast.io.source_tables import SourceTables
from kfast.io.zookeeper.znodes import Znode, Znodes

__all__ = ["read_znode_snapshot"]

_HEADER = struct.Struct(">4siq")
_COUNT = struct.Struct(">i")
_SESSION = struct.Struct(">qi")
_ACL = struct.Struct(">qi")
_STAT = struct.Struct(">qqqqqiiiqq")
"""ACL, czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeral owner, pzxid."""
_CZXID, _VERSION = 1, 5
_SEAL = struct.Struct(">qi")
_FORMAT = 2
_LAST = b"/"


def read_znode_snapshot(name: str, data: bytes) -> SourceTables:
    """Read a snapshot.

    Raises
    ------
    InputError
        It is cut off, damaged, or of another format.
    """
    try:
        znodes, end = _read_tree(name, data)
        checksum, _ = _SEAL.unpack_from(data, end)
    except (struct.error, UnicodeDecodeError, OverflowError) as error:
        raise InputError(
            f"{name}: is a damaged ZooKeeper snapshot, or one cut off: {error}"
        ) from error
    if checksum != zlib.adler32(memoryview(data)[:end]):
        raise InputError(
            f"{name}: is a damaged ZooKeeper snapshot: its checksum is {checksum}; that of its"
            f" first {end} bytes is {zlib.adler32(memoryview(data)[:end])}"
        )
    tables = znodes.tables()
    return replace(tables, notes=(*tables.notes, (
        f"{name}: ZooKeeper goes on writing while it takes a snapshot; what is newer stands in its"
        " transaction log, which is not read"
    )))


def _read_tree(name: str, data: bytes) -> tuple[Znodes, int]:
    """The znodes, and where the checksum stands."""
    _, version, _ = _HEADER.unpack_from(data)
    if version != _FORMAT:
        raise InputError(
            f"{name}: is a ZooKeeper snapshot of version {version}; right is {_FORMAT}"
        )
    (n_sessions,) = _COUNT.unpack_from(data, _HEADER.size)
    at = _skip_acls(data, _HEADER.size + _COUNT.size + n_sessions * _SESSION.size)
    znodes = Znodes(name)
    while True:
        path, at = _buffer(data, at)
        if path == _LAST:
            return znodes, at
        content, at = _buffer(data, at)
        stat = _STAT.unpack_from(data, at)
        at += _STAT.size
        znodes.add((path or b"").decode(), Znode(content, stat[_VERSION], stat[_CZXID]))


def _skip_acls(data: bytes, at: int) -> int:
    """Where the znodes begin, behind the lists of who may do what."""
    (n_groups,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    for _ in range(n_groups):
        _, n_entries = _ACL.unpack_from(data, at)
        at += _ACL.size
        for _ in range(n_entries):
            _, at = _buffer(data, at + _COUNT.size)
            _, at = _buffer(data, at)
    return at


def _buffer(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, None where it is -1; and where they end."""
    (length,) = _COUNT.unpack_from(data, at)
    at += _COUNT.size
    if length < 0:
        return None, at
    if at + length > len(data):
        raise struct.error(f"{length} bytes at offset {at} go beyond its end")
    return data[at : at + length], at + length
