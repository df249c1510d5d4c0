"""Plans of `kafka-reassign-partitions`: JSON of version 1, alone or within the tool's output.

A plan says which brokers hold which partition, in order, and nothing else; directories of logs are
checked and left out. `read_reassignment` takes it for what a cluster is: of several plans in a text
the first, for `--generate` and `--execute` print the current assignment first. `read_plan` takes it
for a request: of `--generate` the proposed plan, of `--execute` the current assignment, which the
tool prints to be saved for a rollback.

Source: docs/formats.md, section "Reassignment plans"; Kafka 3.9,
ReassignPartitionsCommand.java, `parsePartitionReassignmentData`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Annotated, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from msgspec import Meta, Struct

from kfast.errors import ArgumentError, InputError
from kfast.io.controller_inference import assume_newest
from kfast.io.file_kinds import check_plan, json_part, recognise
from kfast.io.files import check_utf8, line_of, load, quote
from kfast.io.planners.cruise_control_placement import is_proposal, read_proposals
from kfast.io.source_tables import SourceTables
from kfast.io.text_columns import by_topic, id_texts, joined, rows_in_chunks, write_strings
from kfast.kernels.json_documents import document_end
from kfast.schema import PLAN

__all__ = ["read_current_assignment", "read_plan", "read_reassignment", "write_reassignment"]

_PLAN = pa.schema([
    ("version", pa.int64()),
    ("partitions", pa.list_(pa.struct([
        ("topic", pa.string()), ("partition", pa.int32()), ("replicas", pa.list_(pa.int32())),
        ("log_dirs", pa.list_(pa.string())),
    ]))),
])
MOST_BYTES = 2**31 - 2
"""Bytes of a plan at most: Arrow reads a document as one block, whose size is an int32."""
_RIGHT = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
_OBJECT = re.compile(rb'^[ \t]*(?=\{\s*")', re.M)
_PROPOSED = re.compile(rb"^Proposed partition reassignment configuration\s*^(?=[ \t]*\{)", re.M)
_NEEDED = "right is a plan of kafka-reassign-partitions, in JSON"
_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _Partition(Struct, gc=False):
    """One entry, for the wording of what is wrong in it; plans that are right need no objects."""

    topic: str
    partition: _Count
    replicas: Annotated[list[_Count], Meta(min_length=1)]
    log_dirs: list[str] | None = None


class _Plan(Struct):
    partitions: Annotated[list[_Partition], Meta(min_length=1)]
    version: int = 1


def _count_documents(data: bytes, at: int) -> int:
    """How many JSON objects stand behind a byte, each at the beginning of a line."""
    n = 0
    while found := _OBJECT.search(data, at):
        n += 1
        end = document_end(data, found.end())
        at = end if end >= 0 else len(data)
    return n


def read_reassignment(name: str, data: bytes, start: int) -> SourceTables:
    """Read the plan that begins at a byte of a text.

    Raises
    ------
    InputError
        It is no plan of version 1, or a value in it is not right.
    """
    where = f"{name} line {line_of(data, start)}"
    text = json_part(data, start)
    if len(text) > MOST_BYTES:
        raise InputError(
            f"{where}: a plan of {len(text)} bytes; right is at most {MOST_BYTES}, so split it by"
            " topics, or give the cluster as a table in Parquet"
        )
    rows = _columns(where, text)
    topics = rows.field("topic").dictionary_encode()
    _refuse_log_dirs(where, rows)
    notes = []
    more = _count_documents(data, start + len(text))
    if more:
        notes.append(
            f"{name} holds {more + 1} plans; the first, in line {line_of(data, start)}, was read"
        )
    legal = pc.match_substring_regex(topics.dictionary, "^[a-zA-Z0-9._-]{1,249}$")
    if not pc.all(legal).as_py():
        wrong = topics.dictionary.filter(pc.invert(legal))[0].as_py()
        raise InputError(
            f"{where}: found topic {quote(wrong)}; right is at most 249 letters, digits, '.', '_'"
            " or '-'"
        )
    partitions = pa.table(
        {
            "topic": topics,
            "partition": rows.field("partition"),
            "replicas": rows.field("replicas"),
        }
    )
    return SourceTables(source=name, partitions=partitions, notes=tuple(notes))


def read_current_assignment(name: str, data: bytes, start: int) -> SourceTables:
    """Read the plan that begins at a byte for what a cluster is; a note says if it is not.

    Raises
    ------
    InputError
        It is no plan of version 1, or a value in it is not right.
    """
    tables = read_reassignment(name, data, start)
    if any(match.end() == start for match in _PROPOSED.finditer(data)):
        note = f"{name}: the first plan is what is proposed, not the current assignment"
        tables = replace(tables, notes=(note, *tables.notes))
    return assume_newest(tables)


def _columns(where: str, text: bytes) -> pa.StructArray:
    """The entries of a plan as columns; `InputError` where it is no plan of version 1."""
    try:
        table = pa.json.read_json(
            pa.BufferReader(text),
            pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            pa.json.ParseOptions(
                explicit_schema=_PLAN, newlines_in_values=True, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        raise _refusal(where, text, str(error)) from error
    if table.num_rows != 1:
        raise _refusal(where, text, f"found {table.num_rows} values")
    version = table["version"][0].as_py()
    if version not in (None, 1):
        raise InputError(f"{where}: found version {version}; right is version 1")
    rows: pa.StructArray = table["partitions"].combine_chunks().flatten()
    lists = [rows.field("replicas"), rows.field("log_dirs")]
    whole = rows.null_count == 0 and all(
        values.null_count == 0
        for values in (
            rows.field("topic"), rows.field("partition"), lists[0], *(x.flatten() for x in lists)
        )
    )
    counts = (rows.field("partition"), lists[0].flatten(), pc.list_value_length(lists[0]))
    least = [pc.min(values).as_py() for values in counts] if whole and len(rows) else [-1]
    if None in least or min(least) < 0 or least[-1] == 0:
        raise _refusal(where, text, "a value is missing or negative")
    return rows


def _refusal(where: str, text: bytes, found: str) -> InputError:
    """The error for a plan that is not right: its first wrong entry, where one can be named."""
    try:
        msgspec.json.decode(text, type=_Plan)
    except msgspec.DecodeError as error:
        found = str(error)
    return InputError(f"{where}: not a whole reassignment plan: {found}; right is {_RIGHT}")


def _refuse_log_dirs(where: str, rows: pa.StructArray) -> None:
    """Directories of logs are left out, and there must be one for each replica."""
    counts = [pc.list_value_length(rows.field(name)) for name in ("log_dirs", "replicas")]
    differing = pc.indices_nonzero(pc.fill_null(pc.not_equal(*counts), False))
    if len(differing):
        row = differing[0].as_py()
        found = rows[row].as_py()
        raise InputError(
            f"{where}: partitions[{row}] ({found['topic']}-{found['partition']}) has"
            f" {len(found['log_dirs'])} log_dirs for {len(found['replicas'])} replicas; right is"
            " one for each"
        )


def read_plan(path: str | os.PathLike[str]) -> pa.Table:
    """Read a reassignment plan: what `kfast.execute_plan` takes.

    Parameters
    ----------
    path : path
        The file; `-` is standard input. Besides the JSON of `kafka-reassign-partitions`, the answer
        of Cruise Control with its proposals is read.

    Returns
    -------
    pa.Table
        topic, partition, replicas: a row per partition, in the order of the plan.

    Raises
    ------
    InputError
        The file is no plan, holds several, or names a partition twice.
    """
    name, data, (kind, start) = load(path, recognise)
    if kind in ("arrow", "parquet"):
        raise InputError(f"{name}: is {kind.capitalize()}; {_NEEDED}")
    if kind == "describe":
        raise InputError(f"{name}: is {kind} text, which says how a cluster is; {_NEEDED}")
    check_utf8(name, data)
    if is_proposal(json_part(data, start)):
        plan = read_proposals(name, data, start)
        _refuse_twice(f"{name} line {line_of(data, start)}", plan)
        return PLAN.table({column: plan[column] for column in PLAN.schema.names})
    check_plan(name, data, start)
    proposed = _PROPOSED.search(data)
    found = read_reassignment(name, data, proposed.end() if proposed else start)
    if found.notes:
        raise InputError(f"{found.notes[0].rpartition(';')[0]}; right is a file with one")
    _refuse_twice(f"{name} line {line_of(data, start)}", found.partitions)
    return PLAN.table({name: found.partitions[name] for name in PLAN.schema.names})


def _refuse_twice(where: str, plan: pa.Table) -> None:
    """A partition may stand in a plan once."""
    topics = plan["topic"].combine_chunks()
    if not pa.types.is_dictionary(topics.type):
        topics = topics.dictionary_encode()
    keys = topics.indices.to_numpy().astype(np.int64) << 32 | plan["partition"].to_numpy()
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if twice.size:
        row = plan.slice(int(order[twice[0] + 1]), 1).to_pylist()[0]
        raise InputError(
            f"{where}: partition {row['topic']}-{row['partition']} stands twice in the plan; right"
            " is once"
        )


def write_reassignment(partitions: pa.Table, file: BinaryIO) -> None:
    """Write every assigned partition as a plan on one line, sorted by topic, then partition."""
    partitions = by_topic(partitions, by_name=True)
    if partitions.num_rows == 0:
        raise ArgumentError("no partition has replicas, and a plan cannot be empty")
    file.write(b'{"version":1,"partitions":[')
    for number, rows in enumerate(rows_in_chunks(partitions)):
        topic = rows["topic"].combine_chunks()
        first = np.zeros(rows.num_rows, bool)
        first[0] = number == 0
        text = pc.binary_join_element_wise(
            pc.if_else(pa.array(first), "", ","),
            '{"topic":',
            _quoted(topic),
            ',"partition":',
            id_texts(rows["partition"].combine_chunks()),
            ',"replicas":[',
            joined(rows["replicas"].combine_chunks()),
            "]}",
            "",
        )
        write_strings(file, text)
    file.write(b"]}\n")


def _quoted(topics: pa.DictionaryArray) -> pa.StringArray:
    """Topics as JSON strings; Kafka allows them no character that needs escaping, files do."""
    names = topics.dictionary
    if pc.any(pc.match_substring_regex(names, r'["\\\x00-\x1f]')).as_py():
        texts = pa.array([msgspec.json.encode(name).decode() for name in names.to_pylist()])
    else:
        texts = pc.binary_join_element_wise('"', names, '"', "")
    return texts.take(topics.indices)
