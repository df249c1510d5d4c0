"""Listings of topics that clients print as text: kcat, rpk, kcl.

kcat counts what it lists, so a listing that is cut off shows. In tables of rpk and kcl a line names
the columns, and cells begin below their names. rpk prints no ISR, and sorts replicas by id.

Source: docs/formats.md, section "Metadata of clients"; kcat 1.7.1, kcat.c, `metadata_print`; rpk,
cluster/metadata.go, topic/describe.go; kcl, topic/describe.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kfast.errors import InputError
from kfast.io.files import quote
from kfast.io.placement_rows import Broker, PlacementRows
from kfast.io.source_tables import SourceTables

__all__ = ["read_kcat_listing", "read_table_listing"]

_KCAT = re.compile(
    r" +partition (?P<partition>\d{1,10}), leader (?P<leader>-?\d{1,10}),"
    r" replicas: ?(?P<replicas>[\d,]*), isrs: ?(?P<isr>[\d,]*)(?:, (?P<error>.*))?"
    r'| *topic "(?P<topic>.*)" with (?P<n_partitions>\d{1,9}) partitions:(?P<topic_error>.*)'
    r"| *broker (?P<broker>\d{1,10}) at (?P<host>.*)"
    r"| *(?P<n>\d{1,9}) (?P<counted>brokers|topics):"
)
_IDS = re.compile(r"\d{1,10}(?:,\d{1,10})*|")
_WORD = re.compile(r"\S+")
_TOPIC_LINE = re.compile(r"(?:NAME|TOPIC) +(?P<name>\S+)|(?P<topic>\S+), \d+ partitions?\b.*")
_COLUMNS = {
    "PARTITION": "partition", "LEADER": "leader", "EPOCH": "leader_epoch", "REPLICAS": "replicas",
    "LEADER-EPOCH": "leader_epoch", "ISR": "isr", "IN-SYNC-REPLICAS": "isr",
    "ID": "broker", "BROKER": "broker", "RACK": "rack", "HOST": "host", "PORT": "port",
}


@dataclass
class _Counts:
    """What a listing of kcat says that it lists, and what it does list."""

    stated: dict[str, int] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        """Count one more."""
        self.listed[what] = self.listed.get(what, 0) + 1

    def check(self, name: str) -> None:
        """Refuse a listing that has more or less than it says."""
        for what, n in self.stated.items():
            if self.listed.get(what, 0) != n:
                raise InputError(
                    f"{name}: lists {self.listed.get(what, 0)} of {n} {what}; right is the whole"
                    " output of kcat -L"
                )


def read_kcat_listing(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the text of `kcat -L`.

    Raises
    ------
    InputError
        It is cut off, or a line is damaged.
    """
    rows, counts, brokers = PlacementRows(name), _Counts(), []
    topic, n_prose = "", 0
    for number, line in enumerate(data.decode().splitlines(), 1):
        match = _KCAT.fullmatch(line.rstrip().removesuffix("%"))
        if match is None:
            if line.startswith(" ") and line.strip():
                raise InputError(f"{name} line {number}: found {quote(line)}; right is what kcat -L"
                                 " prints")
            n_prose += bool(line.strip())
        elif match["partition"]:
            if not topic or not all(_IDS.fullmatch(match[ids]) for ids in ("replicas", "isr")):
                raise InputError(f"{name} line {number}: found {quote(line)}; right is a partition"
                                 " below its topic, with ids of brokers")
            rows.add(topic, int(match["partition"]), int(match["leader"]),
                     _split(match["replicas"]), _split(match["isr"]))
            counts.count(f"partitions of {topic}")
        elif match["topic"] is not None:
            topic = match["topic"]
            counts.count("topics")
            counts.stated[f"partitions of {topic}"] = int(match["n_partitions"])
            if match["topic_error"].strip() and not int(match["n_partitions"]):
                rows.notes.append(f"{name}: topic {topic} is not read, for it has the error"
                                  f" {quote(match['topic_error'])}")
            else:
                rows.topic(topic)
        elif match["broker"]:
            brokers.append(Broker(int(match["broker"])))
            counts.count("brokers")
        else:
            counts.stated[match["counted"]] = int(match["n"])
    counts.check(name)
    if n_prose > 1:
        rows.notes.append(f"{name}: lines passed over because they describe nothing: {n_prose - 1}")
    return rows.tables(brokers)


def _split(ids: str) -> list[int]:
    return [int(broker) for broker in ids.split(",")] if ids else []


def read_table_listing(name: str, data: bytes, _start: int) -> SourceTables:
    """Read tables of `rpk topic describe`, `rpk cluster info -d` or kcl.

    Raises
    ------
    InputError
        There is no table of partitions with the name of its topic, or a line is damaged.
    """
    rows = PlacementRows(name)
    brokers: list[Broker] = []
    columns: list[tuple[int, str]] = []
    topic, has_isr = "", True
    for number, line in enumerate(data.decode().splitlines(), 1):
        where = f"{name} line {number}"
        words = [(match.start(), match[0]) for match in _WORD.finditer(line)]
        header = [(at, _COLUMNS.get(word, "")) for at, word in words]
        names = {column for _, column in header}
        named = _TOPIC_LINE.fullmatch(line.strip())
        if {"partition", "leader", "replicas"} <= names or {"broker", "host"} <= names:
            columns = header
            has_isr = has_isr and ("isr" in names or "partition" not in names)
        elif named:
            topic, columns = named["name"] or named["topic"], []
        elif not words or not words[0][1].strip("=") or words[0][1].isupper():
            columns = []
        elif columns:
            row = _cells(where, line, columns)
            if "partition" in row:
                _add_row(where, rows, topic, row)
            else:
                rack = row.get("rack") or None
                brokers.append(Broker(_number(where, row["broker"].rstrip("*")), rack))
    if not has_isr:
        rows.notes.append(
            f"{name}: rpk sorts replicas by id, so preferred leaders are not known, and prints no"
            " ISR"
        )
    return rows.tables(brokers or None)


def _cells(where: str, line: str, columns: list[tuple[int, str]]) -> dict[str, str]:
    """Cells of a row, by column; each begins below the column's name."""
    ends = [at for at, _ in columns[1:]] + [len(line)]
    if any(line[at - 1 : at].strip() for at, _ in columns if at):
        raise InputError(
            f"{where}: found {quote(line)}; right are cells below their columns' names"
        )
    return {
        column: line[at:end].strip() for (at, column), end in zip(columns, ends, strict=True)
        if column
    }


def _add_row(where: str, rows: PlacementRows, topic: str, row: dict[str, str]) -> None:
    """Add a partition of a table."""
    if not topic:
        raise InputError(
            f"{where}: nothing says which topic this is of; right is the whole output of rpk topic"
            " describe --print-all, or of rpk cluster info --print-topics --detailed"
        )
    lists = {
        key: [_number(where, word) for word in row[key].strip("[]").replace(",", " ").split()]
        for key in ("replicas", "isr") if key in row
    }
    rows.add(
        topic, _number(where, row["partition"]), _number(where, row["leader"], -1),
        lists["replicas"], lists.get("isr"),
        leader_epoch=_number(where, row.get("leader_epoch", "-1"), -1),
    )


def _number(where: str, text: str, least: int = 0) -> int:
    if not re.fullmatch(r"-?[0-9]{1,10}", text) or int(text) < least:
        raise InputError(f"{where}: found {quote(text)}; right is an integer of at least {least}")
    return int(text)
