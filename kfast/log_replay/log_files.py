"""Read log files: find them, cut them into entries, join continuation lines, put all in time order.

A file of log4j is a row of entries `[time] LEVEL message (logger)`; a stack trace follows its
entry without a time. Rotated files carry a suffix (`.2021-04-26-18`, `.1`), perhaps `.gz`. Several
brokers' files may lie in one folder, in a tree, or be written by several processes into one file.

Lines are handled in blocks, and what lies between two entries at once: a packed file of some KB may
hold millions of lines that say nothing.
"""

from __future__ import annotations

import datetime as dt
import gzip
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from kfast.errors import InputError

CONTROLLER, STATE_CHANGE = "controller", "state-change"
_NAME = re.compile(r"(?:.*[-_.])?(controller|state-change)[^/]*\.log(?:[.-][\w.-]+)?$")
_HEAD = re.compile(
    r"\n\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)[,.](\d{3})\d*Z?\]? +"
    r"(?:\[[^\]\n]*\] +)?(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +(?:\[[\w.$-]+\]:? +)?(.*)"
)
_LOGGER = re.compile(r"(?=.*(?:logger|[Kk]afka|.\..))[\w.$-]+")
"""What a line's last words in brackets are, of Kafka's own, or of a class in a package."""
_NO_TRACE = re.compile(
    r"\n(?!\s|Caused by:|Suppressed:|[\w.$]+(?:Exception|Error)\b|\.\.\. \d+ more|\Z)([^\n]{0,60})"
)
_NO_BLANK = re.compile(r"\n([^\n]*\S[^\n]*)")
"""Patterns of lines; an end of line stands before each, and the first one of a block too."""
_PIECE_BYTES = 1 << 13
"""So much is read at once; of a damaged packed file, at most so much before the damage is lost."""
MOST_LINE_BYTES = 1 << 24
"""A longer line is skipped."""
MOST_WARNINGS = 10_000
"""Of one file."""
_EPOCH = dt.date(1970, 1, 1).toordinal()
_MS_PER_DAY = 86_400_000


class Entry(NamedTuple):
    """One entry of a log.

    `time` is in milliseconds since 1970 by the log's own clock; `more` is the line that
    follows without a time of its own, if any.
    """

    time: int
    level: str
    message: str
    logger: str
    file: int
    line: int
    more: str = ""


class Warned(NamedTuple):
    """Something about the input that a reader should know."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Place:
    """A line of a log; the time is as the log writes it."""

    file: str
    line: int
    time: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass
class Logs:
    """All entries of some log files, in time order."""

    root: str
    files: list[str]
    kinds: list[str]
    entries: list[Entry] = field(default_factory=list)
    warnings: list[Warned] = field(default_factory=list)
    n_lines: int = 0
    n_warnings: Counter[int] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """What messages call them: the folder, or the files."""
        return self.root if self.root != "." else ", ".join(self.files)

    def warn(self, file: int, line: int, what: str) -> None:
        """Note that something is wrong with a line; of one file, `MOST_WARNINGS` times."""
        self.n_warnings[file] += 1
        if self.n_warnings[file] == MOST_WARNINGS:
            what = f"the last of {MOST_WARNINGS} warnings of this file; there may be more"
        if self.n_warnings[file] <= MOST_WARNINGS:
            self.warnings.append(Warned(self.files[file], line, what))

    def has_room(self, file: int) -> bool:
        """Whether a warning of a file would be noted."""
        return self.n_warnings[file] < MOST_WARNINGS

    def place(self, entry: Entry) -> Place:
        """The line of an entry."""
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=entry.time)
        time = moment.isoformat(" ", "milliseconds").replace(".", ",")
        return Place(self.files[entry.file], entry.line, time, entry.message)


def read_logs(path: str | Path | Sequence[str | Path]) -> Logs:
    """Read the controller and state-change logs of one or several brokers.

    Parameters
    ----------
    path : path, or sequence of paths
        A folder (searched with all folders in it), or the files themselves.

    Raises
    ------
    InputError
        There is no such folder or file, or no controller or state-change log in it.
    """
    found, root = _find(path)
    names = [
        file.relative_to(root).as_posix() if root != Path() else str(file) for file in found
    ]
    kinds = [_kind(file) for file in found]
    logs = Logs(str(root), names, kinds)
    for number, file in enumerate(found):
        logs.entries.extend(_read_file(logs, number, file))
    _note_cut_lines(logs)
    rank = [0 if kind == CONTROLLER else 1 for kind in kinds]
    logs.entries.sort(key=lambda e: (e.time, rank[e.file], e.file, e.line))
    logs.entries = _without_copies(logs.entries)
    return logs


def _find(path: str | Path | Sequence[str | Path]) -> tuple[list[Path], Path]:
    given = [Path(path)] if isinstance(path, (str, Path)) else [Path(p) for p in path]
    found: list[Path] = []
    for place in given:
        if place.is_dir():
            found += sorted(p for p in place.rglob("*") if p.is_file() and _NAME.match(p.name))
        elif place.is_file():
            found.append(place)
        else:
            raise InputError(f"{place}: there is no such file or folder")
    if not found:
        raise InputError(
            f"{given[0]}: no controller.log or state-change.log is in it; rotated and packed "
            "files (controller.log.2021-04-26-18, controller.log.1, state-change.log.2.gz) count; "
            "of a KRaft cluster, right is the folder __cluster_metadata-0"
        )
    root = given[0] if len(given) == 1 and given[0].is_dir() else Path()
    return list(dict.fromkeys(found)), root


def _kind(file: Path) -> str:
    named = _NAME.match(file.name)
    return named[1] if named else STATE_CHANGE if "state" in file.name else CONTROLLER


def _blocks(file: Path) -> Iterator[tuple[bytes, str]]:
    """Lines in bulk, of which only the last one of the file may lack its end.

    Or none, with a complaint about the line that stands there.
    """
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    begun = bytearray()  # A line that has not ended.
    too_long = f"a line of more than {MOST_LINE_BYTES >> 20} MiB, skipped"
    with gzip.open(file, "rb") if packed else file.open("rb") as data:
        while True:
            try:
                piece = data.read1(_PIECE_BYTES)
            except (EOFError, OSError, zlib.error) as error:
                yield b"", f"the packed file ends here, damaged: {error}"
                return
            if not piece:
                break
            first, end = piece.find(b"\n") + 1, piece.rfind(b"\n") + 1
            if not first:
                begun += piece if len(begun) <= MOST_LINE_BYTES else b""
                continue
            if len(begun) + first > MOST_LINE_BYTES:
                yield b"", too_long
                yield piece[first:end], ""
            else:
                yield bytes(begun + piece[:end]), ""
            begun = bytearray(piece[end:])
    if len(begun) > MOST_LINE_BYTES:
        yield b"", too_long
    elif begun:
        yield bytes(begun), ""


def _read_file(logs: Logs, number: int, file: Path) -> Iterator[Entry]:
    current: Entry | None = None
    n_lines, ended, first_warning = 0, True, len(logs.warnings)
    for raw, complaint in _blocks(file):
        if complaint:
            n_lines += 1
            logs.warn(number, n_lines, complaint)
        if not raw:
            continue
        ended = raw.endswith(b"\n")
        text = "\n" + _decode(logs, number, n_lines + 1, raw.removesuffix(b"\n"))
        end = 0
        for head in _HEAD.finditer(text):
            if end < head.start():
                between = text[end : head.start()]
                current = _add_lines(logs, number, n_lines, between, current)
                n_lines += between.count("\n")
            if current is not None:
                yield current
            n_lines += 1
            current = _entry(logs, number, n_lines, head)
            end = head.end()
        if end < len(text):
            current = _add_lines(logs, number, n_lines, text[end:], current)
            n_lines += text.count("\n", end)
    if current is not None:
        yield current
    logs.n_lines += n_lines
    if not ended and current is not None and current.line == n_lines and not current.logger:
        logs.warn(number, n_lines, "the file ends within this line")
    logs.warnings[first_warning:] = sorted(logs.warnings[first_warning:], key=lambda w: w.line)


def _add_lines(
    logs: Logs, number: int, line: int, between: str, current: Entry | None
) -> Entry | None:
    """Handle what lies between two entries: the rest of a message, or damage.

    Returns
    -------
    current : Entry or None
        The entry before, which keeps the first line that is not blank.
    """
    if between.isspace():
        return current
    strange, what = _NO_TRACE, "neither an entry nor a stack trace"
    if current is None:
        strange, what = _NO_BLANK, "no entry begins here, skipped"
    at = 0
    for found in strange.finditer(between):
        if not logs.has_room(number):
            break
        line += between.count("\n", at, found.end(1))
        at, shown = found.end(1), found[1].rstrip("\r")[:60]
        logs.warn(number, line, f"{what}: {shown!r}")
    if current is not None and not current.more and (follows := _NO_BLANK.search(between)):
        return current._replace(more=follows[1].rstrip("\r"))
    return current


def _decode(logs: Logs, number: int, line: int, raw: bytes) -> str:
    """The text of a block of lines; a warning for each line that is not all text."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "replace")
    else:
        if "\0" not in text:
            return text
    for at, one in enumerate(raw.split(b"\n"), line):
        if not logs.has_room(number):
            break
        try:
            one.rstrip(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            logs.warn(number, at, f"bytes that are no text ({error.reason})")
        if b"\0" in one:
            logs.warn(number, at, "the line holds zero bytes, as after a crash")
    return text.replace("\0", "")


def _entry(logs: Logs, number: int, line: int, head: re.Match[str]) -> Entry:
    year, month, day, hour, minute, second, ms = (int(head[i]) for i in range(1, 8))
    try:
        days = dt.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        logs.warn(number, line, f"{head[0][1:26]} is no date; 1970 is taken")
        days = 0
    time = days * _MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + ms
    text = head[9].rstrip("\r")
    message, _, last = text.rpartition("(")
    logger = last[:-1]
    if not (last.endswith(")") and _LOGGER.fullmatch(logger)):
        message, logger = text, ""
    return Entry(time, head[8], message.strip(), logger, number, line)


def _note_cut_lines(logs: Logs) -> None:
    """Warn of entries without a logger in files whose other entries have one: they are cut."""
    total = Counter(entry.file for entry in logs.entries)
    with_logger = Counter(entry.file for entry in logs.entries if entry.logger)
    known = {(warned.file, warned.line) for warned in logs.warnings}
    for entry in logs.entries:
        if not entry.logger and 2 * with_logger[entry.file] >= total[entry.file] and (
            (logs.files[entry.file], entry.line) not in known
        ):
            logs.warn(entry.file, entry.line, "the entry is cut: its end is missing")


def _without_copies(entries: list[Entry]) -> list[Entry]:
    """Drop entries that stand word for word in another file too: copies of rotated files."""
    originals: list[Entry] = []
    for _, simultaneous in groupby(entries, key=attrgetter("time")):
        seen: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
        for entry in simultaneous:
            per_file = seen[entry.message, entry.logger]
            per_file[entry.file] += 1
            if per_file[entry.file] > max(
                (n for file, n in per_file.items() if file != entry.file), default=0
            ):
                originals.append(entry)
    return originals
