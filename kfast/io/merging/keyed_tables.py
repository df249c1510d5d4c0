"""Tables of several sources with one key each, combined column by column, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Combined", "Part", "combine", "differing_rows"]

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass
class Part:
    """One source's table of a kind.

    Parameters
    ----------
    source : int
        Which source it is of; those that count more come first.
    table : pa.Table
    keys : pa.Array
        Key of each of its rows, each once.
    is_complete : bool
        Whether what a row of it lacks is known not to be: no later source fills it in.
    agrees : (n,) array of bool or None
        For each combined row whether the source may fill it; None for all.
    """

    source: int
    table: pa.Table
    keys: pa.Array
    is_complete: bool = False
    agrees: Mask | None = None
    rows: Places = field(init=False)
    """Its row for each combined row, -1 for none."""

    def align(self, keys: pa.Array) -> None:
        """Find its rows for combined keys."""
        if self.keys.equals(keys):
            self.rows = np.arange(len(keys))
        else:
            places = pc.fill_null(pc.index_in(keys, value_set=self.keys), -1)
            self.rows = places.to_numpy(zero_copy_only=False).astype(np.int64)

    def has_value(self, column: str) -> Mask:
        """For each combined row whether it has a value of a column."""
        present: Mask = self.rows >= 0
        if column not in self.table.column_names:
            return np.zeros(self.rows.size, bool)
        if self.table[column].null_count:
            valid = self.table[column].is_valid().to_numpy()
            present[present] = valid[self.rows[present]]
        return present

    def values(self, column: str, at: Places) -> pa.Array:
        """Its values of a column at combined rows for which it has a row."""
        return _one(self.table[column]).take(pa.array(self.rows[at]))


@dataclass(frozen=True)
class Combined:
    """The combined columns, and the source of each value, -1 for none."""

    columns: dict[str, pa.Array]
    origin: dict[str, npt.NDArray[np.int32]]

    def update(self, more: Combined) -> None:
        """Add columns."""
        self.columns.update(more.columns)
        self.origin.update(more.origin)


def combine(
    parts: Sequence[Part], n_rows: int, names: Sequence[str], leads: Mapping[str, str]
) -> Combined:
    """Take each value from the first source that has it.

    Parameters
    ----------
    parts : sequence of Part
        Aligned; the source that counts most comes first.
    n_rows : int
    names : sequence of str
        Columns, where any source has them; a column that leads others comes before them.
    leads : mapping of str to str
        Columns that are taken from the source that another column is from, and from no other.
    """
    combined = Combined({}, {})
    for name in names:
        origin = np.full(n_rows, -1, np.int32)
        places = np.full(n_rows, -1, np.int64)
        is_open = np.ones(n_rows, bool)
        columns: list[pa.Array] = []
        for part in parts:
            if name in part.table.column_names:
                usable = part.has_value(name) & is_open
                if part.agrees is not None:
                    usable &= part.agrees
                if name in leads and leads[name] in combined.origin:
                    usable &= combined.origin[leads[name]] == part.source
                origin[usable] = part.source
                places[usable] = sum(map(len, columns)) + part.rows[usable]
                is_open &= ~usable
                columns.append(_one(part.table[name]))
            if part.is_complete:
                is_open &= part.rows < 0
        if columns:
            combined.origin[name] = origin
            combined.columns[name] = _taken(columns, places)
    return combined


def _taken(arrays: list[pa.Array], places: Places) -> pa.Array:
    """Values at places in arrays behind each other; null at -1."""
    if np.array_equal(places, np.arange(len(arrays[0]))):
        return arrays[0]
    return pa.concat_arrays(arrays).take(pa.array(places, mask=places < 0))


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def differing_rows(one: pa.Array, other: pa.Array, *, ordered: bool = True) -> Places:
    """Places at which two columns of one length differ, nothing in them being null.

    Lists are compared in their order, or as sets.
    """
    if not pa.types.is_list(one.type):
        return np.flatnonzero(pc.not_equal(one, other).to_numpy(zero_copy_only=False))
    lengths = [pc.list_value_length(lists).to_numpy() for lists in (one, other)]
    differ: Mask = lengths[0] != lengths[1]
    same = np.flatnonzero(~differ)
    values = [lists.take(pa.array(same)).flatten().to_numpy() for lists in (one, other)]
    row = np.repeat(same, lengths[0][same])
    if not ordered:
        values = [np.sort(row << 32 | ids.astype(np.int64)) for ids in values]
    differ[row[values[0] != values[1]]] = True
    return np.flatnonzero(differ)
