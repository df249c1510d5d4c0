"""Read log files: find them, cut them into entries, join continuation lines, put all in time order.

A file of log4j is a row of entries `[time] LEVEL message (logger)`; a stack trace follows its
entry without a time. Rotated files carry a suffix (`.2021-04-26-18`, `.1`), perhaps `.gz`. Several
brokers' files may lie in one folder, in a tree, or be written by several processes into one file.
"""

from __future__ import annotations

import datetime as dt
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kfast.errors import InputError

CONTROLLER, STATE_CHANGE = "controller", "state-change"
_NAME = re.compile(r"(?:.*[-_.])?(controller|state-change)[^/]*\.log(?:[.-][\w.-]+)?$")
_HEAD = re.compile(
    r"\[?(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)[,.](\d{3})\d*Z?\]? +"
    r"(?:\[[^\]]*\] +)?(TRACE|DEBUG|INFO|WARN|ERROR|FATAL) +(?:\[[\w.$-]+\]:? +)?(.*)$"
)
_LOGGER = re.compile(r"[\w.$-]+")
_FOLLOWS = re.compile(r"\s|Caused by:|Suppressed:|[\w.$]+(?:Exception|Error)\b|\.\.\. \d+ more|$")
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

    @property
    def name(self) -> str:
        """What messages call them: the folder, or the files."""
        return self.root if self.root != "." else ", ".join(self.files)

    def warn(self, file: int, line: int, what: str) -> None:
        """Note that something is wrong with a line."""
        self.warnings.append(Warned(self.files[file], line, what))

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
    names = [_shown(file, root) for file in found]
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


def _shown(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix() if root != Path() else str(file)


def _kind(file: Path) -> str:
    named = _NAME.match(file.name)
    return named[1] if named else STATE_CHANGE if "state" in file.name else CONTROLLER


def _lines(file: Path) -> Iterator[tuple[bytes, str]]:
    """Raw lines, each with a complaint about what follows it ("" for none)."""
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(file, "rb") if packed else file.open("rb") as data:
        while True:
            try:
                line = data.readline()
            except (EOFError, OSError, zlib.error) as error:
                yield b"", f"the packed file ends here, damaged: {error}"
                return
            if not line:
                return
            yield line, ""


def _read_file(logs: Logs, number: int, file: Path) -> Iterator[Entry]:
    current: Entry | None = None
    last = 0
    ended = True
    for last, (raw, complaint) in enumerate(_lines(file), 1):
        if complaint:
            logs.warn(number, last, complaint)
            break
        ended = raw.endswith(b"\n")
        text = _decode(logs, number, last, raw)
        head = _HEAD.match(text)
        if head is not None:
            if current is not None:
                yield current
            current = _entry(logs, number, last, head)
        elif text.strip() and current is None:
            logs.warn(number, last, f"no entry begins here, skipped: {text[:60]!r}")
        elif text.strip() and current is not None:  # The rest of a message, or damage.
            if not _FOLLOWS.match(text):
                logs.warn(number, last, f"neither an entry nor a stack trace: {text[:60]!r}")
            current = current._replace(more=current.more or text)
    if current is not None:
        yield current
    logs.n_lines += last
    if last and not ended and current is not None and current.line == last and not current.logger:
        logs.warn(number, last, "the file ends within this line")


def _decode(logs: Logs, number: int, line: int, raw: bytes) -> str:
    raw = raw.rstrip(b"\r\n")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        logs.warn(number, line, f"bytes that are no text ({error.reason})")
        text = raw.decode("utf-8", "replace")
    if "\0" in text:
        logs.warn(number, line, "the line holds zero bytes, as after a crash")
        text = text.replace("\0", "")
    return text


def _entry(logs: Logs, number: int, line: int, head: re.Match[str]) -> Entry:
    year, month, day, hour, minute, second, ms = (int(head[i]) for i in range(1, 8))
    try:
        days = dt.date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        logs.warn(number, line, f"{head[0][:25]} is no date; 1970 is taken")
        days = 0
    time = days * _MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + ms
    message, _, last = head[9].rpartition("(")
    logger = last[:-1]
    if not (last.endswith(")") and _is_logger(logger)):
        message, logger = head[9], ""
    return Entry(time, head[8], message.strip(), logger, number, line)


def _is_logger(text: str) -> bool:
    """Whether a line's last words in brackets name a logger: of Kafka, or a class in a package."""
    named = "logger" in text or "kafka" in text or "Kafka" in text or "." in text[1:-1]
    return named and _LOGGER.fullmatch(text) is not None


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
    kept: list[Entry] = []
    seen: dict[tuple[str, str], dict[int, int]] = {}
    now: int | None = None
    for entry in entries:
        if entry.time != now:
            seen, now = {}, entry.time
        per_file = seen.setdefault((entry.message, entry.logger), {})
        per_file[entry.file] = per_file.get(entry.file, 0) + 1
        others = [n for file, n in per_file.items() if file != entry.file]
        if others and per_file[entry.file] <= max(others):
            continue
        kept.append(entry)
    return kept
