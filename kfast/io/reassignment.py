"""Plans of `kafka-reassign-partitions`: JSON of version 1, alone or within the tool's output.

A plan says which brokers hold which partition, in order, and nothing else; directories of logs are
checked and left out. Where a text has several plans, the first is read: `--generate` and
`--execute` print the current assignment first.

Source: `formats.md`, section 2; Kafka 3.9, ReassignPartitionsCommand.java,
`parsePartitionReassignmentData`.
"""

from __future__ import annotations

import re
from typing import Annotated, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta, Struct

from kfast.errors import ArgumentError, InputError
from kfast.io.columns import by_topic, id_texts, joined, rows_in_chunks, write_strings
from kfast.io.tables import SourceTables
from kfast.io.text import line_of, quote

__all__ = ["json_part", "read_reassignment", "write_reassignment"]

_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class _Partition(Struct, gc=False):
    topic: str
    partition: _Count
    replicas: Annotated[list[_Count], Meta(min_length=1)]
    log_dirs: list[str] | None = None


class _Plan(Struct):
    partitions: Annotated[list[_Partition], Meta(min_length=1)]
    version: int = 1


def json_part(data: bytes, start: int) -> bytes:
    """The JSON document that begins at a byte, without the prose that may follow it.

    Tools print a document on one line; a file that people edit has it over several lines, up to a
    line that is a closing bracket.
    """
    end = data.find(b"\n", start)
    line = data[start : end if end >= 0 else None].rstrip()
    if line[-1:] in (b"}", b"]") and line[:1] + line[-1:] in (b"{}", b"[]"):
        return line
    closing = re.compile(rb"^[}\]][ \t\r]*$", re.M).search(data, start)
    return data[start : closing.end() if closing else None]


def read_reassignment(name: str, data: bytes, start: int) -> SourceTables:
    """Read the plan that begins at a byte of a text.

    Raises
    ------
    InputError
        It is no plan of version 1, or a value in it is not right.
    """
    where = f"{name} line {line_of(data, start)}"
    text = json_part(data, start)
    try:
        plan = msgspec.json.decode(text, type=_Plan)
    except msgspec.DecodeError as error:
        raise InputError(
            f"{where}: not a whole reassignment plan: {error}; right is"
            ' {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}'
        ) from error
    if plan.version != 1:
        raise InputError(f"{where}: found version {plan.version}; right is version 1")
    for row, found in enumerate(plan.partitions):
        if found.log_dirs is not None and len(found.log_dirs) != len(found.replicas):
            raise InputError(
                f"{where}: partitions[{row}] ({found.topic}-{found.partition}) has"
                f" {len(found.log_dirs)} log_dirs for {len(found.replicas)} replicas; right is one"
                " for each"
            )
    notes = []
    more = len(re.findall(rb'^[ \t]*\{[ \t]*"', data[start + len(text) :], re.M))
    if more:
        notes.append(
            f"{name} holds {more + 1} plans; the first, in line {line_of(data, start)}, was read"
        )
    topics = pa.array([found.topic for found in plan.partitions]).dictionary_encode()
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
            "partition": pa.array([found.partition for found in plan.partitions], pa.int32()),
            "replicas": pa.array([f.replicas for f in plan.partitions], pa.list_(pa.int32())),
        }
    )
    return SourceTables(source=name, partitions=partitions, notes=tuple(notes))


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
    """Topics as JSON strings; Kafka allows them no character that needs escaping."""
    names = pc.binary_join_element_wise('"', topics.dictionary, '"', "")
    return names.take(topics.indices)
