"""Dumps of ZooKeeper as text: JSON lines, a JSON object, a shell's transcript, a folder of files.

| Form | Its znodes |
|---|---|
| JSON lines | `{"path": "/controller_epoch", "data": "5", "version": 5}`, one a line |
| JSON object | `{"/controller_epoch": "5", ...}` |
| transcript | of `zookeeper-shell`: commands `get -s PATH`, each with what it printed, and `ls` |
| folder | a file for each znode; that of a topic, which has children, is the one in its folder |

Data is text, or the JSON that the text would be.

Source: docs/formats.md, section "ZooKeeper dumps"; ZooKeeper 3.8, GetCommand.java,
StatPrinter.java.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from kfast.errors import InputError
from kfast.io.files import Source, line_of, name_of, quote
from kfast.io.json_documents import decode_document
from kfast.io.source_tables import SourceTables
from kfast.io.zookeeper.znodes import Znode, Znodes

__all__ = ["find_znodes", "read_znode_folder", "read_znode_lines", "read_znode_map",
           "read_znode_transcript"]

_CHUNK = 1 << 24
_TOPICS = ("brokers", "topics")
_COMMAND = re.compile(
    r"(?:.*[\s\]>])?(?P<name>get|ls)\s+(?:-[swR]\s+)*(?P<path>/\S*)(?:\s+-[swR]|\s+watch|\s+true)*"
)
_STAT = re.compile(r"(?P<key>cZxid|dataVersion|[a-zA-Z]\w+) = (?P<value>.*)")
_CHATTER = re.compile(
    r"Connecting to .*|Node does not exist: .*|WATCHER::|WatchedEvent .*"
    r"|Welcome to ZooKeeper!|JLine support .*|"
)


class _Line(Struct, gc=False):
    path: str
    data: Any = None
    version: int | None = None
    czxid: int | None = None


def _data(value: Any) -> bytes | str | None:
    """Data as the znode has it."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value)


def read_znode_lines(name: str, data: bytes, start: int) -> SourceTables:
    """Read a dump of JSON lines, of which the first begins at a byte."""
    znodes = Znodes(name)
    decoder = msgspec.json.Decoder(_Line)
    while start < len(data):
        end = data.find(b"\n", start + _CHUNK) + 1 or len(data)
        part = data[start:end]
        try:
            lines = decoder.decode_lines(part)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise _wrong_line(name, data, start, decoder) from None
        for line in lines:
            znodes.add(line.path, Znode(_data(line.data), line.version, line.czxid))
        start = end
    return znodes.tables()


def _wrong_line(
    name: str, data: bytes, start: int, decoder: msgspec.json.Decoder[_Line]
) -> InputError:
    """The error for the first line of a part that is no znode."""
    first = line_of(data, start)
    for number, line in enumerate(data[start:].split(b"\n"), first):
        try:
            if line.strip():
                decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return InputError(
                f"{name} line {number}: found {quote(line)}: {error}; right is a znode,"
                ' {"path":"/controller_epoch","data":"5"}'
            )
    return InputError(f"{name} line {first}: is no znode")


def read_znode_map(name: str, data: bytes, start: int) -> SourceTables:
    """Read a JSON object of paths and data that begins at a byte."""
    right = '{"/controller_epoch":"5"}'
    _, document = decode_document(name, data, start, dict[str, Any], "znodes by path", right)
    znodes = Znodes(name)
    for path, value in document.items():
        znodes.add(path, Znode(_data(value)))
    return znodes.tables()


def read_znode_transcript(name: str, data: bytes, _start: int = 0) -> SourceTables:
    """Read what `zookeeper-shell` printed for `get -s` and `ls`, with the commands."""
    znodes = Znodes(name)
    command: re.Match[str] | None = None
    printed: list[str] = []
    stats: dict[str, str] = {}
    at = 0
    for number, line in enumerate([*data.decode().splitlines(), "get /"], 1):
        line = line.rstrip()
        match = _COMMAND.fullmatch(line)
        stat = _STAT.fullmatch(line)
        if match:
            if command is not None:
                _add_printed(znodes, f"{name} line {at}", command, printed, stats)
            command, printed, stats, at = match, [], {}, number
        elif stat:
            if command is None or (stat["key"] == "cZxid" and "cZxid" in stats):
                raise InputError(
                    f"{name} line {number}: nothing says which znode this is; right is a transcript"
                    " that shows each command, get -s PATH, before what it printed"
                )
            stats[stat["key"]] = stat["value"]
        elif not _CHATTER.fullmatch(line):
            printed.append(line)
    return znodes.tables()


def _add_printed(
    znodes: Znodes, where: str, command: re.Match[str], printed: list[str], stats: dict[str, str]
) -> None:
    """Add what a command printed."""
    path = command["path"]
    if command["name"] == "ls":
        children = next((line for line in printed if line.startswith("[")), "[]")[1:-1]
        for child in filter(None, children.split(", ")):
            znodes.add_child(f"{path}/{child}")
        return
    if not printed and not stats:
        return
    if len(printed) > 1:
        raise InputError(
            f"{where}: found {len(printed)} lines for {path}; right is one line of data, and those"
            " of its state"
        )
    try:
        version = int(stats["dataVersion"]) if stats else None
        czxid = int(stats["cZxid"], 16) if stats else None
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{where}: found {path} without its dataVersion and cZxid; right is all that get -s"
            " prints"
        ) from error
    content = None if printed in ([], ["null"]) else printed[0]
    znodes.add(path, Znode(content, version, czxid))


def find_znodes(path: Source) -> Path | None:
    """The folder that holds the znodes of a cluster, where a path names one, or one above it."""
    if isinstance(path, tuple) or "\0" in name_of(path) or not Path(path).is_dir():
        return None
    inner = Path(*_TOPICS)
    places = [Path(path), *sorted(Path(path).iterdir())]
    return next((place for place in places if (place / inner).is_dir()), None)


def read_znode_folder(folder: Path) -> SourceTables:
    """Read a folder with a file for each znode."""
    znodes = Znodes(str(folder))
    for place, _, files in os.walk(folder):
        for file in files:
            path = Path(place, file)
            parts = path.relative_to(folder).parts
            # A topic has data and children: what lies in its folder is its data.
            own = parts[:2] == _TOPICS and len(parts) == len(_TOPICS) + 2
            try:
                data = path.read_bytes()
            except OSError as error:
                raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
            znodes.add("/" + "/".join(parts[:-1] if own else parts), Znode(data.strip() or None))
    return znodes.tables()
