"""Columns of an outcome's tables: as Arrow arrays, or as Python's values.

An event of a small cluster is a few rows, for which Arrow arrays take far longer than their values.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.state.arrow_views import names_at
from kfast.state.records import Rows

ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray
Bits: TypeAlias = npt.NDArray[np.bool_]

IDS = pa.list_(pa.int32())
BLOCK = 1 << 16
"""Rows of a block that is repeated."""


@dataclass(frozen=True, eq=False)
class Column:
    """A column: numbers, booleans, lists of numbers, or texts.

    Attributes
    ----------
    values : array
        Of a list column the values of all lists, one list after the other.
    valid : array of bool, optional
        Which rows are not null; by default all.
    offsets : (n + 1,) int32, optional
        Of a list column: where each list begins; it ends where the next one begins.
    texts : sequence of str or pa.StringArray, optional
        Of a text column: what each value is a place in.
    """

    values: npt.NDArray[Any]
    valid: Bits | None = None
    offsets: Rows | None = None
    texts: Sequence[str] | pa.StringArray | None = None

    def to_arrow(self) -> ArrowColumn:
        """The column as an Arrow array over the same memory."""
        if self.texts is not None:
            texts = self.texts
            if not isinstance(texts, pa.StringArray):
                texts = pa.array(texts, pa.string())
            return names_at(texts, self.values.astype(np.int32, copy=False))
        nulls = None if self.valid is None else _bitmap(self.valid)
        if self.offsets is not None:
            buffers = [nulls, pa.py_buffer(self.offsets)]
            children = [Column(self.values).to_arrow()]
            return pa.Array.from_buffers(IDS, self.offsets.size - 1, buffers, children=children)
        values = np.ascontiguousarray(self.values)
        data = _bitmap(values) if values.dtype == np.bool_ else pa.py_buffer(values)
        kind = pa.from_numpy_dtype(values.dtype)
        return pa.Array.from_buffers(kind, values.size, [nulls, data])

    def to_list(self) -> list[Any]:
        """The column as Python's values."""
        values: list[Any] = self.values.tolist()
        if self.texts is not None:
            texts = self.texts
            if isinstance(texts, pa.StringArray):
                named = {place: texts[place].as_py() for place in set(values)}
                return [named[place] for place in values]
            return [texts[place] for place in values]
        if self.offsets is not None:
            ends = self.offsets.tolist()
            values = [values[begin:end] for begin, end in itertools.pairwise(ends)]
        if self.valid is None:
            return values
        valid = self.valid.tolist()
        return [value if there else None for value, there in zip(values, valid, strict=True)]


@dataclass(frozen=True, eq=False)
class Constant:
    """A column that says one thing, or null, in each of `n` rows."""

    value: Any
    kind: pa.DataType
    n: int

    def to_arrow(self) -> ArrowColumn:
        """The column as Arrow arrays: one block again and again."""
        block = pa.repeat(pa.scalar(self.value, self.kind), min(self.n, BLOCK))
        if self.n <= BLOCK:
            return block
        rest = [block[: self.n % BLOCK]] if self.n % BLOCK else []
        return pa.chunked_array([block] * (self.n // BLOCK) + rest)

    def to_list(self) -> list[Any]:
        """The column as Python's values."""
        return [self.value] * self.n


def names(which: npt.NDArray[Any], all_names: Sequence[str]) -> Column | Constant:
    """A column of names by number, from a few."""
    if which.size and (which == which[0]).all():
        return Constant(all_names[which[0]], pa.string(), which.size)
    return Column(which, texts=all_names)


def _bitmap(bits: Bits) -> pa.Buffer:
    """A bit for each row, the first of a byte lowest."""
    return pa.py_buffer(np.packbits(bits, bitorder="little"))
