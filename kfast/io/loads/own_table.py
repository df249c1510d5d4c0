"""Loads and capacities in kfast's own columns: CSV, Parquet or Arrow IPC.

The header names the columns, in any order. Columns of other names are left out, and named once.
Numbers are in the units of `LOAD_UNITS` and `CAPACITY_UNITS` and bear no unit of their own.

Source: docs/capacity.md, section "Loads and capacities".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from kfast.errors import InputError
from kfast.io.arrow import DAMAGED
from kfast.io.files import check_utf8, one_line, quote
from kfast.io.loads.tables import (
    CAPACITY_UNITS,
    LOAD_UNITS,
    CapacityTable,
    LoadTable,
    Unit,
    Where,
    check_capacity,
    check_load,
    encoded,
    ids,
    to_integers,
)

__all__ = ["csv_header", "read_own_capacity", "read_own_load"]

_LOAD_KEYS = ("topic", "partition", "broker_id", "log_dir", "window")
_CAPACITY_KEYS = ("broker_id", "class")
_STREAM = b"\xff\xff\xff\xff"
_ROW = re.compile(r"Row #(\d+): (.*)", re.DOTALL)


def csv_header(head: bytes) -> list[str] | None:
    """Columns that the first line of a CSV names; None where it is no header of kfast's columns."""
    line = head.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace")
    names = [cell.strip().strip('"').lower() for cell in line.split(",")]
    return names if {"topic", "broker_id"} & {*names} else None


def read_own_load(name: str, data: bytes, kind: str) -> LoadTable:
    """Read a load in kfast's columns.

    Parameters
    ----------
    name : str
        What messages call the file.
    data : bytes
    kind : {"csv", "parquet", "arrow"}

    Raises
    ------
    InputError
        It is damaged, has no column of a load, or a cell that is not right.
    """
    table, where, notes = _read(name, data, kind, LOAD_UNITS, _LOAD_KEYS)
    columns: dict[str, pa.Array] = {}
    for key in ("topic", "log_dir"):
        if key in table.column_names:
            columns[key] = _texts(key, table[key], where)
    for key in ("partition", "broker_id"):
        if key in table.column_names:
            columns[key] = ids(key, table[key], where)
    if not {"topic", "broker_id"} & columns.keys():
        raise InputError(f"{name}: no column topic or broker_id; found {_names(table)}")
    columns |= _numbers(table, LOAD_UNITS, where)
    check_load(columns, where)
    window = _window(table, where)
    return LoadTable(name, pa.table(columns), window, assumptions=notes)


def read_own_capacity(name: str, data: bytes, kind: str) -> CapacityTable:
    """Read capacities in kfast's columns; arguments and errors are those of `read_own_load`."""
    table, where, notes = _read(name, data, kind, CAPACITY_UNITS, _CAPACITY_KEYS)
    if "broker_id" not in table.column_names:
        raise InputError(f"{name}: no column broker_id; found {_names(table)}")
    columns = {"broker_id": ids("broker_id", table["broker_id"], where, low=-1)}
    columns |= _numbers(table, CAPACITY_UNITS, where)
    if "class" in table.column_names:
        columns["class"] = _texts("class", table["class"], where).dictionary_decode()
    check_capacity(columns, where)
    return CapacityTable(name, pa.table(columns), notes)


def _read(
    name: str, data: bytes, kind: str, units: Mapping[str, Unit], keys: Collection[str]
) -> tuple[pa.Table, Where, tuple[str, ...]]:
    """A file as a table of the columns that kfast uses, where its rows stand, and what is left."""
    table = _read_csv(name, data) if kind == "csv" else _read_columns(name, data, kind)
    names = table.column_names
    if twice := [column for column in names if names.count(column) > 1]:
        raise InputError(f"{name}: column {twice[0]} stands twice; right is once")
    known = [column for column in names if column in units or column in keys]
    if not units.keys() & {*known}:
        raise InputError(
            f"{name}: no column of numbers; found {_names(table)}; right is at least one of"
            f" {', '.join(units)}"
        )
    unknown = [column for column in names if column not in known]
    notes = (f"{name}: columns that kfast does not use: {', '.join(unknown)}",) if unknown else ()
    if kind == "csv":
        empty = functools.reduce(pc.and_, (pc.is_null(column) for column in table.columns))
        rows = np.flatnonzero(~empty.to_numpy())
        filled = table if rows.size == table.num_rows else table.take(pa.array(rows))
        lines = np.append(rows, table.num_rows) + 2
        return filled.select(known), lambda row: f"{name} line {lines[row]}", notes
    return table.select(known), lambda row: f"{name}: row {row}", notes


def _names(table: pa.Table) -> str:
    return ", ".join(table.column_names) or "no column"


def _read_csv(name: str, data: bytes) -> pa.Table:
    """A CSV as texts; an empty cell is null. Row i stands in line i + 2, empty lines too."""
    check_utf8(name, data)
    names = csv_header(data)
    assert names is not None
    try:
        return pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(use_threads=False, column_names=names, skip_rows=1),
            pa.csv.ParseOptions(ignore_empty_lines=False),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except (pa.ArrowInvalid, KeyError) as error:
        text = str(error)
        match = _ROW.search(text)
        where = f"{name} line {match[1]}" if match else name
        found = one_line(match[2] if match else text)
        raise InputError(f"{where}: damaged CSV: {found}") from error


def _read_columns(name: str, data: bytes, kind: str) -> pa.Table:
    """A Parquet or Arrow file as it is; topics of Parquet as the few names that they are."""
    try:
        if kind == "parquet":
            leaves = pq.ParquetFile(pa.BufferReader(data)).schema
            has_topic = any(leaves.column(i).path == "topic" for i in range(len(leaves)))
            table = pq.ParquetFile(
                pa.BufferReader(data), read_dictionary=["topic"] if has_topic else None
            ).read()
        elif data.startswith(_STREAM):
            table = pa.ipc.open_stream(data).read_all()
        else:
            table = pa.ipc.open_file(data).read_all()
        for column, values in zip(table.column_names, table.columns, strict=True):
            if kind == "arrow" or column != "topic":
                values.validate(full=not pa.types.is_primitive(values.type))
        return table
    except DAMAGED as error:
        raise InputError(
            f"{name}: damaged {kind.capitalize()} file: {one_line(error)}"
        ) from error


def _texts(name: str, column: pa.ChunkedArray, where: Where) -> pa.DictionaryArray:
    """A column of texts."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"{where(0)}: found {name} of type {kind}; right is text")
    texts = encoded(column)
    try:
        texts.dictionary.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(f"{where(0)}: {name} is damaged: {error}") from error
    if (pc.max(texts.indices).as_py() or 0) >= max(len(texts.dictionary), 1):
        raise InputError(f"{where(0)}: {name} is damaged: a value is outside the dictionary")
    trimmed = pc.utf8_trim_whitespace(texts.dictionary)
    if trimmed.equals(texts.dictionary):
        return texts
    return pa.DictionaryArray.from_arrays(texts.indices, trimmed).dictionary_decode(
    ).dictionary_encode()


def _numbers(
    table: pa.Table, units: Mapping[str, Unit], where: Where
) -> dict[str, pa.Int64Array]:
    """The columns of numbers, in the units of the table that is made."""
    columns: dict[str, pa.Int64Array] = {}
    for name, unit in units.items():
        if name not in table.column_names:
            continue
        if unit.column in columns:
            raise InputError(f"{where(0)}: {name} says what another column says; right is one")
        values = table[name]
        if pa.types.is_string(values.type):
            values = pc.utf8_trim_whitespace(values)
        integers = to_integers(name, values, unit, where)
        columns[unit.column] = _divide(integers, unit.divisor) if unit.divisor > 1 else integers
    return columns


def _divide(values: pa.Int64Array, divisor: int) -> pa.Int64Array:
    """Quotients, rounded half to even."""
    quotient, rest = np.divmod(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), divisor)
    quotient += (2 * rest > divisor) | ((2 * rest == divisor) & (quotient % 2 == 1))
    return pa.array(quotient, mask=values.is_null().to_numpy(zero_copy_only=False))


def _window(table: pa.Table, where: Where) -> str | None:
    """The window of the rates, which is one for all rows."""
    if "window" not in table.column_names:
        return None
    windows = _texts("window", table["window"], where)
    used = pc.unique(windows.drop_null()).dictionary_decode().to_pylist()
    if len(used) > 1:
        row = pc.index(windows.dictionary_decode(), used[1]).as_py()
        raise InputError(
            f"{where(row)}: found window {quote(used[1])}, in rows before {quote(used[0])}; right"
            " is one for the file, for a peak and a mean cannot be added"
        )
    return used[0] if used else None
