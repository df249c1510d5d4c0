"""Arrow columns of effects: numbers, names, flags and lists of broker ids.

Arrays are shown to Arrow without a copy, and without `pa.array`, which would import pandas.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.journal import memory
from kfast.journal.effects import EffectTable
from kfast.kernels import journal as kernels
from kfast.state.arrow_views import names_at
from kfast.state.records import EMPTY_ROWS, Rows, Slots

IDS = pa.list_(pa.int32())
MOST_VALUES = 2**27
"""Values of one list column of one Arrow array, at most; its offsets could count to 2**31."""
BLOCK = 1 << 16
"""Rows of a block that is repeated."""

ArrowColumn: TypeAlias = pa.Array | pa.ChunkedArray
Valid: TypeAlias = npt.NDArray[np.bool_] | None
"""Which rows of a column are not null; None: all."""


def most_rows(n_values: int) -> int:
    """Rows of one array whose lists have so many values each, at most."""
    return max(MOST_VALUES // max(n_values, 1), 1)


def split(places: npt.NDArray[Any], n_values: int) -> Iterator[Rows]:
    """Parts of places, so that Arrow can count lists that have so many values each."""
    for begin in range(0, places.size, most := most_rows(n_values)):
        yield places[begin : begin + most].astype(np.int32, copy=False)


def numbers(values: npt.NDArray[Any], valid: Valid = None) -> pa.Array:
    """A column of numbers."""
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, values.size, [_bitmap(valid), pa.py_buffer(values)])


def booleans(bits: npt.NDArray[np.bool_], valid: Valid = None) -> pa.Array:
    """A column of booleans."""
    return pa.Array.from_buffers(pa.bool_(), bits.size, [_bitmap(valid), _bitmap(bits)])


def repeated(value: Any, kind: pa.DataType, n: int) -> ArrowColumn:
    """A column that says one thing, or null, n times: one block again and again."""
    block = pa.repeat(pa.scalar(value, kind), min(n, BLOCK))
    if n <= BLOCK:
        return block
    rest = [block[: n % BLOCK]] if n % BLOCK else []
    return pa.chunked_array([block] * (n // BLOCK) + rest)


def names(which: npt.NDArray[Any], all_names: Sequence[str]) -> ArrowColumn:
    """Names by number, from a few."""
    if which.size and (which == which[0]).all():
        return repeated(all_names[which[0]], pa.string(), which.size)
    return names_at(pa.array(all_names, pa.string()), which.astype(np.int32, copy=False))


def keys(table: EffectTable, places: Rows) -> list[ArrowColumn]:
    """Columns topic, partition and partition_row of some effects."""
    pairs = table.topic_partition.view(np.int64)[:, 0].take(places).view(np.int32).reshape(-1, 2)
    return [
        names_at(table.cluster.topic, pairs[:, 0]), numbers(pairs[:, 1]),
        numbers(table.take(["row"], places)[0]),
    ]


def nullable_brokers(table: EffectTable, brokers: Rows) -> ArrowColumn:
    """Ids of broker rows, null where there is none."""
    if (brokers < 0).all():
        return repeated(None, pa.int32(), brokers.size)
    return numbers(table.cluster.ids_of(brokers), brokers >= 0)


def expand(table: EffectTable, places: Rows, masks: Slots) -> tuple[Rows, Rows]:
    """Offsets and values of lists: the broker ids of some slots of each effect."""
    offsets = memory.room(places.size + 1)
    values = memory.room((places.size + 1) * table.replicas.shape[1])
    end = kernels.list_ids(
        table.replicas, table.cluster.broker_id, places, masks, offsets, values
    )
    return offsets, values[:end]


def id_lists(table: EffectTable, places: Rows, masks: Slots, valid: Valid = None) -> pa.Array:
    """Broker ids of some slots of each effect, as lists."""
    if valid is not None:
        masks = np.where(valid, masks, 0)
    return lists(*expand(table, places, masks), valid)


def changing_lists(table: EffectTable, name: str, places: Rows, valid: Valid = None) -> pa.Array:
    """Replicas that are added or removed, in the order they were given in: mostly none."""
    if not table.changing:
        return lists(np.zeros(places.size + 1, np.int32), EMPTY_ROWS, valid)
    masks = table.take([name], places)[0]
    offsets, values = expand(table, places, masks if valid is None else np.where(valid, masks, 0))
    _restore_order(table, name, places, offsets, values)
    return lists(offsets, values, valid)


def lists(offsets: Rows, values: Rows, valid: Valid = None) -> pa.Array:
    """A column of lists, each of which ends where the next one begins."""
    buffers = [_bitmap(valid), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(IDS, offsets.size - 1, buffers, children=[numbers(values)])


def _restore_order(
    table: EffectTable, name: str, places: Rows, offsets: Rows, values: Rows
) -> None:
    """Put lists into the order they were given in, where it is not that of the slots."""
    odd = {row: order for (of, row), order in table.cluster.odd_orders.items() if of == name}
    if not odd:
        return
    rows = table.columns["row"][places]
    for at in np.flatnonzero(np.isin(rows, list(odd))).tolist():
        order = odd[int(rows[at])]
        part = values[offsets[at] : offsets[at + 1]].tolist()
        part.sort(key=lambda b: order.index(b) if b in order else len(order))
        values[offsets[at] : offsets[at + 1]] = part


def _bitmap(bits: Valid) -> pa.Buffer | None:
    """A bit for each row, the first of a byte lowest."""
    return None if bits is None else pa.py_buffer(np.packbits(bits, bitorder="little"))
