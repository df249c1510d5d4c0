"""Reassignments under way as `kafka-reassign-partitions` prints them with --list and --verify.

Source: docs/formats.md, section "What supplements a cluster"; Kafka 3.9,
ReassignPartitionsCommand.java, `listReassignments` and `partitionReassignmentStatesToString`.
"""

from __future__ import annotations

import re

import pyarrow as pa

from kfast.arguments import MAX_INT
from kfast.errors import InputError
from kfast.io.files import abbreviate, quote
from kfast.io.source_tables import NO_PARTITIONS, Coverage, Exactness, SourceTables

__all__ = ["read_reassignment_list", "read_reassignment_states"]

_ROW = re.compile(
    r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>[0-9]{1,10}):"
    r" replicas: (?P<replicas>[0-9,]+)\."
    r"(?: adding: (?P<adding>[0-9,]+)\.)?(?: removing: (?P<removing>[0-9,]+)\.)?"
)
_IS_ROW = re.compile(r".*: replicas:")
_STATE = re.compile(
    r"^Reassignment of partition (?P<name>\S+) is still in progress\.?[ \t\r]*$", re.M
)
MOST_DIGITS = 10
"""Of a broker id."""
_RIGHT = "t-0: replicas: 1,2,3. adding: 3. removing: 1."


def read_reassignment_list(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the output of --list.

    Raises
    ------
    InputError
        A line is damaged, or a partition stands twice.
    """
    rows: dict[tuple[str, int], tuple[list[int], list[int], list[int]]] = {}
    for number, line in enumerate(data.decode().splitlines(), 1):
        if not _IS_ROW.match(line):
            continue
        where, match = f"{name} line {number}", _ROW.fullmatch(line.strip())
        if match is None:
            raise InputError(f"{where}: found {quote(line)}; right is {_RIGHT}")
        key = match["topic"], int(match["partition"])
        if key in rows or key[1] > MAX_INT:
            raise InputError(f"{where}: partition {key[0]}-{key[1]} stands twice, or is too high")
        rows[key] = (
            _ids(where, match["replicas"]), _ids(where, match["adding"]),
            _ids(where, match["removing"]),
        )
    kind = pa.list_(pa.int32())
    columns = list(zip(*rows.values(), strict=True)) or [(), (), ()]
    partitions = pa.table({
        "topic": pa.array([topic for topic, _ in rows], pa.string()),
        "partition": pa.array([partition for _, partition in rows], pa.int32()),
        **{column: pa.array(lists, kind) for column, lists in
           zip(("replicas", "adding", "removing"), columns, strict=True)},
        "being_reassigned": pa.array([True] * len(rows), pa.bool_()),
    })
    return SourceTables(
        name, partitions, kind="kafka-reassign-partitions --list", exactness=Exactness.SETTINGS,
        coverage=Coverage.NOTHING,
    )


def _ids(where: str, text: str | None) -> list[int]:
    """Broker ids with commas between them, each once."""
    parts = (text or "").split(",") if text else []
    ids = [int(part) for part in parts if 0 < len(part) <= MOST_DIGITS]
    if len(ids) < len(parts) or len(set(ids)) < len(ids) or max(ids, default=0) > MAX_INT:
        raise InputError(f"{where}: found brokers {quote(text or '')}; right is each once: 1,2,3")
    return ids


def read_reassignment_states(name: str, data: bytes, _start: int) -> SourceTables:
    """Read the output of --verify, which says only that partitions are being reassigned."""
    under_way = [match["name"] for match in _STATE.finditer(data.decode())]
    notes = []
    if under_way:
        notes.append(
            f"{name}: being reassigned, which --list says more of: {abbreviate(under_way, 3)}"
        )
    return SourceTables(
        name, NO_PARTITIONS, notes=tuple(notes), kind="kafka-reassign-partitions --verify",
        exactness=Exactness.SETTINGS, coverage=Coverage.NOTHING,
    )
