"""Reading Arrow columns that may be missing, null, chunked or dictionary-encoded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.errors import InputError
from kfast.state.records import Rows

SMALL_IDS = 1 << 20
"""Broker ids below this are found in an array by their number, others by sorting."""
MARKED = 1 << 16
"""Ids that are marked at a time, while they are in the cache."""


@dataclass(frozen=True)
class ListColumn:
    """A list column: (n+1,) int32 offsets into (m,) int32 values."""

    offsets: Rows
    values: Rows


class TableColumns:
    """The columns of one table, each with its default where the table does not say.

    Parameters
    ----------
    table : pa.Table or None
        The table; None where there is none.
    wanted : pa.Schema
        Columns and their types.
    name : str
        Of the table, for messages.
    source : str or None
        Of the file, for messages.
    """

    def __init__(
        self, table: pa.Table | None, wanted: pa.Schema, name: str, source: str | None
    ) -> None:
        self.table = table
        self.wanted = wanted
        self.name = name
        self.source = source or f"table {name}"
        self.n_rows = 0 if table is None else table.num_rows
        self._no_offsets = np.zeros(self.n_rows + 1, np.int32)

    def where(self, row: int, *, short: bool = False) -> str:
        """Say where a row stands: the line of its file where that is known."""
        if self.table is not None and "line" in self.table.column_names:
            line = self.table.column("line")[row].as_py()
            return f"line {line}" if short else f"{self.source} line {line}"
        return f"row {row}" if short else f"{self.source}: {self.name} row {row}"

    def given(self, name: str) -> bool:
        """Whether the table has this column."""
        return self.table is not None and name in self.table.column_names

    def array(self, name: str) -> pa.Array:
        """A column in one piece and of its own type; all null where it is missing."""
        kind = self.wanted.field(name).type
        if self.table is None or not self.given(name):
            return pa.nulls(self.n_rows, kind)
        chunked = self.table.column(name)
        if chunked.num_chunks == 1:
            column = chunked.chunk(0)
        elif chunked.num_chunks == 0:
            column = pa.nulls(0, kind)
        else:
            column = pa.concat_arrays(chunked.unify_dictionaries().chunks)
        if column.type == kind or pa.types.is_dictionary(column.type):
            return column
        try:
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"{self.source}: column {name} of {self.name} is {column.type}; {kind} is right"
            ) from error

    def n_null(self, name: str) -> int:
        """How many rows say nothing in this column."""
        return int(self.array(name).null_count)

    def valid(self, name: str) -> npt.NDArray[np.bool_]:
        """Which rows say something in this column."""
        if not self.given(name):
            return np.zeros(self.n_rows, np.bool_)
        if self.array(name).null_count == 0:
            return np.ones(self.n_rows, np.bool_)
        found: npt.NDArray[np.bool_] = self.array(name).is_valid().to_numpy(zero_copy_only=False)
        return found

    def refuse_nulls(self, name: str) -> None:
        """Raise `InputError` where a key column is missing or null."""
        if self.n_rows and self.n_null(name):
            row = int(np.flatnonzero(~self.valid(name))[0])
            raise InputError(f"{self.where(row)}: {name} is missing")

    def refuse_nulls_within(self, name: str) -> None:
        """Raise `InputError` where a list holds a null, or an item with one; a null list is none.

        For columns of few rows.
        """
        if not self.given(name):
            return
        items = self.array(name).flatten()
        is_struct = pa.types.is_struct(items.type)
        if any(part.null_count for part in (items, *(items.flatten() if is_struct else ()))):
            raise InputError(
                f"{self.source}: column {name} of {self.name} has a list with a null in it; every"
                " item has to be said, or the list left out"
            )

    def scalar(self, name: str) -> Any:
        """The one value of a table of one row; None where it is not said."""
        if not self.given(name) or self.n_rows == 0:
            return None
        return self.array(name)[0].as_py()

    def integers(self, name: str, default: int) -> npt.NDArray[Any]:
        """A column as integers of its own width, nulls replaced; booleans become 0 and 1."""
        kind = self.wanted.field(name).type
        width = kind if pa.types.is_integer(kind) else pa.int8()
        if not self.given(name):
            return np.full(self.n_rows, default, width.to_pandas_dtype())
        column = self.array(name)
        column = column if column.type == width else column.cast(width)
        if column.null_count:
            column = pc.fill_null(column, pa.scalar(default, width))
        values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values

    def strings(self, name: str) -> pa.StringArray:
        """A column of strings, in one piece."""
        column = self.array(name)
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def dictionary(self, name: str) -> pa.DictionaryArray:
        """A column of strings, dictionary-encoded."""
        column = self.array(name)
        if pa.types.is_dictionary(column.type):
            return column
        return column.dictionary_encode()

    def list_column(self, name: str, otherwise: str | None = None) -> ListColumn:
        """A list column; nulls are empty lists, or those of another column."""
        if not self.given(name) and otherwise is None:
            return ListColumn(self._no_offsets, np.empty(0, np.int32))
        column = self.array(name)
        if otherwise is not None:
            column = pc.coalesce(column, self.array(otherwise))
        if column.null_count == 0 and column.offset == 0:
            offsets = column.offsets.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        else:
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
            offsets = np.zeros(self.n_rows + 1, np.int32)
            np.cumsum(lengths, out=offsets[1:])
        values = column.flatten()
        if values.null_count:
            raise InputError(f"{self.source}: a list of {name} of {self.name} has an empty place")
        flat = values.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return ListColumn(offsets - offsets[0] if offsets[0] else offsets, flat)

    def list_values(self, name: str, dtype: type) -> npt.NDArray[Any]:
        """All values of a list column, one list after the other."""
        if not self.given(name):
            return np.empty(0, dtype)
        flat = self.array(name).flatten().to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(flat, dtype)

    def first_repeat(self, values: pa.Array) -> int:
        """The first row whose value stood before."""
        seen: set[Any] = set()
        for row, value in enumerate(values.to_pylist()):
            if value in seen:
                return row
            seen.add(value)
        raise ValueError("no value stands twice")


def absent_names(values: pa.Array, known: pa.Array) -> pa.Array:
    """The values that are not among the known ones, in order."""
    return values.filter(pc.is_null(pc.index_in(values, value_set=known)))


def distinct_ids(lists: Iterable[Rows]) -> Rows:
    """Distinct ids of some lists, ascending; by marking them where they are small enough."""
    parts = [part for part in lists if part.size]
    most = max((int(part.max()) for part in parts), default=-1)
    if most >= SMALL_IDS or any(part.min() < 0 for part in parts):
        return np.unique(np.concatenate(parts))
    seen = np.zeros(most + 1, np.bool_)
    for part in parts:
        for start in range(0, part.size, MARKED):
            seen[part[start : start + MARKED]] = True
    return np.flatnonzero(seen).astype(np.int32)


def place_brokers(broker_id: Rows) -> Rows | None:
    """The broker row of each id, -1 for none; None where ids are too large for that."""
    if not broker_id.size or int(broker_id[-1]) >= SMALL_IDS:
        return None
    place = np.full(int(broker_id[-1]) + 1, -1, np.int32)
    place[broker_id] = np.arange(broker_id.size, dtype=np.int32)
    return place


def ids_to_rows(broker_id: Rows, ids: Rows) -> Rows:
    """Broker rows of ids that are all known; negative ids stay as they are."""
    negative = bool(ids.size) and int(ids.min()) < 0
    place = place_brokers(broker_id)
    if place is None:
        rows = np.searchsorted(broker_id, ids).astype(np.int32)
    else:
        rows = place[np.maximum(ids, 0) if negative else ids]
    return np.where(ids < 0, ids, rows).astype(np.int32) if negative else rows
