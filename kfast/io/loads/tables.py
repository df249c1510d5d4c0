"""The two tables that every reader of loads and capacities makes, and the checks of their cells.

Rates are bytes a second, sizes bytes, messages thousandths a second, CPU millionths of a core: all
are integers. A number with a fraction is rounded half to even, once, here.

Source: docs/capacity.md, section "Loads and capacities".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import MAX_INT
from kfast.errors import InputError
from kfast.io.files import quote
from kfast.state.display import Summary, summary_html, summary_text

__all__ = [
    "CAPACITY_UNITS", "LOAD_UNITS", "PARTITION_BOUNDS", "CapacityTable", "LoadTable", "Unit",
    "check_bounds", "check_capacity", "check_load", "disagree", "encoded", "ids", "of_broker",
    "to_integer", "to_integers",
]

Where = Callable[[int], str]
"""Says where a row stands: its file, and its line or what else finds it."""


@dataclass(frozen=True)
class Unit:
    """The unit in which a source gives a number.

    Parameters
    ----------
    column : str
        Column of `schema.LOAD` or `schema.CAPACITY` that it becomes.
    factor : int
        How much of the column's unit one of this is.
    name : str
        For messages.
    divisor : int
        How many of this are one of the column's unit.
    """

    column: str
    factor: int
    name: str
    divisor: int = 1


LOAD_UNITS = {
    "bytes_in": Unit("bytes_in", 1, "B/s"),
    "bytes_out": Unit("bytes_out", 1, "B/s"),
    "msgs_in": Unit("milli_msgs_in", 1000, "messages/s"),
    "milli_msgs_in": Unit("milli_msgs_in", 1, "thousandths of a message/s"),
    "cpu": Unit("cpu_microcores", 10**6, "cores"),
    "cpu_microcores": Unit("cpu_microcores", 1, "millionths of a core"),
    "disk_bytes": Unit("disk_bytes", 1, "bytes"),
    "replicated_bytes": Unit("replicated_bytes", 1, "bytes"),
}
"""Columns of numbers that a load in CSV, Parquet or Arrow may have."""

CAPACITY_UNITS = {
    "disk_bytes": Unit("disk_bytes", 1, "bytes"),
    "nw_in": Unit("nw_in", 1, "B/s"),
    "nw_out": Unit("nw_out", 1, "B/s"),
    "nw_in_bits": Unit("nw_in", 1, "bit/s", 8),
    "nw_out_bits": Unit("nw_out", 1, "bit/s", 8),
    "cores": Unit("cpu_microcores", 10**6, "cores"),
    "cpu_microcores": Unit("cpu_microcores", 1, "millionths of a core"),
    "disk_write": Unit("disk_write", 1, "B/s"),
    "disk_read": Unit("disk_read", 1, "B/s"),
    "replicas_max": Unit("replicas_max", 1, "replicas"),
}
"""Columns of numbers that a capacity in CSV, Parquet or Arrow may have."""

PARTITION_BOUNDS = {
    "bytes_in": 1 << 40, "bytes_out": 1 << 40, "milli_msgs_in": 1 << 50, "disk_bytes": 1 << 50,
}
"""What one partition stays below."""
_SUM_FACTOR = 1 << 13
"""So many times a partition's bound, sums stay below: the largest bound then fits 63 bits."""
_LEAST_SUM = 10
_BOUNDS = {
    **{name: bound * _SUM_FACTOR for name, bound in PARTITION_BOUNDS.items()},
    "replicated_bytes": 1 << 63, "cpu_microcores": 1 << 50, "nw_in": 1 << 53, "nw_out": 1 << 53,
    "disk_write": 1 << 53, "disk_read": 1 << 53, "replicas_max": 1 << 31,
}
"""What any number stays below: of topics, of brokers, of capacities."""


@dataclass(frozen=True)
class LoadTable:
    """What one source says of loads.

    Parameters
    ----------
    source : str
        What messages call the file.
    rows : pa.Table
        Columns of `schema.LOAD`, those that the source has; topics and directories are
        dictionary-encoded.
    window : str or None
        What the rates are: a percentile, a mean of some time.
    folds_names : bool
        The source may have replaced `.` by `_` in topics.
    assumptions : tuple of str
        What was assumed, left out or rounded away: one sentence each.
    warnings : tuple of str
        Where the source contradicts itself: one sentence each.
    """

    source: str
    rows: pa.Table
    window: str | None = None
    folds_names: bool = False
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def _summary(self) -> Summary:
        return "LoadTable", {
            "source": self.source, "rows": self.rows.num_rows,
            "of": ", ".join(self.rows.column_names), "window": self.window,
            "assumptions": len(self.assumptions),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class CapacityTable:
    """What one source says of the capacities of brokers.

    Parameters
    ----------
    source : str
        What messages call the file.
    rows : pa.Table
        Columns of `schema.CAPACITY`, those that the source has.
    assumptions : tuple of str
        What was assumed or left out: one sentence each.
    """

    source: str
    rows: pa.Table
    assumptions: tuple[str, ...] = ()

    def _summary(self) -> Summary:
        return "CapacityTable", {
            "source": self.source, "brokers": self.rows.num_rows,
            "of": ", ".join(self.rows.column_names), "assumptions": len(self.assumptions),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def encoded(column: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
    """A column of strings in one piece, dictionary-encoded with 32 bits."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 0:
            column = pa.array([], column.type)
        elif column.num_chunks == 1:
            column = column.chunk(0)
        else:
            column = pa.concat_arrays(column.unify_dictionaries().chunks)
    kind = pa.dictionary(pa.int32(), pa.string())
    if pa.types.is_dictionary(column.type):
        return column if column.type == kind else column.cast(kind)
    return column.cast(pa.string()).dictionary_encode()


def to_integers(
    name: str, column: pa.ChunkedArray | pa.Array, unit: Unit, where: Where
) -> pa.Int64Array:
    """A column of a source as integers: numbers, or texts of numbers; null where it is empty.

    Raises
    ------
    InputError
        A value is no number, negative, infinite or too large, or has a unit of its own.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    bound = _BOUNDS[unit.column]
    right = f"right is a number of {unit.name} from 0 to {(bound - 1) // unit.factor}"
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        raise InputError(f"{where(0)}: found {name} of type {kind}; {right}")
    integers = None if pa.types.is_floating(kind) else _cast(column, pa.int64())
    if integers is not None:
        wrong = _outside(integers, 0, (bound - 1) // unit.factor)
        if wrong is None:
            return integers if unit.factor == 1 else pc.multiply(integers, unit.factor)
        raise InputError(f"{where(wrong)}: found {name} {_cell(column, wrong)}; {right}")
    numbers = _cast(column, pa.float64())
    if numbers is None:
        wrong = next(i for i, cell in enumerate(column) if _cast(cell, pa.float64()) is None)
        raise InputError(f"{where(wrong)}: found {name} {_cell(column, wrong)}; {right}")
    # NaN passes no comparison, so it is asked for what is right.
    with np.errstate(over="ignore"):
        scaled = pc.fill_null(numbers, 0.0).to_numpy(zero_copy_only=False) * unit.factor
    # The bound of sizes is no float: the largest float below it is.
    good = (scaled >= 0) & (scaled < float(bound))
    if not good.all():
        wrong = int(np.argmin(good))
        raise InputError(f"{where(wrong)}: found {name} {_cell(column, wrong)}; {right}")
    rounded = np.rint(scaled).astype(np.int64)
    missing = numbers.is_null().to_numpy(zero_copy_only=False) if numbers.null_count else None
    return pa.array(rounded, pa.int64(), mask=missing)


def to_integer(name: str, value: float, unit: Unit, where: str) -> int:
    """One finite number of a source as an integer.

    Raises
    ------
    InputError
        It is negative or too large.
    """
    bound = _BOUNDS[unit.column]
    scaled = round(value * unit.factor) if math.isfinite(value * unit.factor) else bound
    if not 0 <= scaled < bound or value < 0:
        raise InputError(
            f"{where}: found {name} {value:g}; right is a number of {unit.name} from 0 to"
            f" {(bound - 1) // unit.factor}"
        )
    return scaled


def disagree(value: int, reference: int) -> bool:
    """Whether a value is more than 5 % from another; numbers below 10 count as equal.

    Source: Cruise Control, `ModelUtils`: its error factor of 1.05, and what it ignores.
    """
    return max(value, reference) >= _LEAST_SUM and abs(value - reference) * 20 > reference


def _cast(column: Any, kind: pa.DataType) -> Any:
    """A column or cell cast to another type; None where it cannot be."""
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _outside(values: pa.Array, low: int, high: int) -> int | None:
    """The first row whose value is outside a range; None where there is none."""
    if len(values) == values.null_count:
        return None
    extremes = pc.min_max(values).as_py()
    if low <= extremes["min"] and extremes["max"] <= high:
        return None
    wrong = pc.or_(pc.less(values, low), pc.greater(values, high))
    row: int = pc.index(pc.fill_null(wrong, False), True).as_py()
    return row


def _cell(column: pa.Array, row: int) -> str:
    """A cell as a message shows it."""
    value = column[row].as_py()
    return quote(value) if isinstance(value, str) else str(value)


def ids(
    name: str, column: pa.ChunkedArray | pa.Array, where: Where, low: int = 0
) -> pa.Int32Array:
    """A column of partition numbers or broker ids; null where it is empty.

    Raises
    ------
    InputError
        A value is no whole number, or outside the range.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    right = f"right is a whole number from {low} to {MAX_INT}"
    integers = _cast(column, pa.int64())
    if integers is None:
        wrong = next(i for i, cell in enumerate(column) if _cast(cell, pa.int64()) is None)
    else:
        outside = _outside(integers, low, MAX_INT)
        if outside is None:
            return integers.cast(pa.int32())
        wrong = outside
    raise InputError(f"{where(wrong)}: found {name} {_cell(column, wrong)}; {right}")


def check_bounds(columns: Mapping[str, pa.Array], where: Where) -> None:
    """Refuse a partition's number that reaches the bound of one partition.

    Raises
    ------
    InputError
        With the row and the bound.
    """
    if "partition" not in columns:
        return
    of_partition = columns["partition"]
    for name, bound in PARTITION_BOUNDS.items():
        if name not in columns:
            continue
        values = columns[name]
        if of_partition.null_count:
            values = pc.if_else(pc.is_valid(of_partition), values, None)
        row = _outside(values, 0, bound - 1)
        if row is not None:
            raise InputError(
                f"{where(row)}: found {name} {values[row]} {LOAD_UNITS[name].name} of one"
                f" partition; right is less than {bound}"
            )


def check_load(columns: Mapping[str, pa.Array], where: Where) -> None:
    """Refuse rows that name nothing, or stand twice, or are too large for one partition.

    Raises
    ------
    InputError
        With the row, or both rows.
    """
    n = len(next(iter(columns.values())))
    if n == 0:
        raise InputError(f"{where(0)}: there is no row of loads; right is at least one")
    keys = [_codes(columns.get(name), n) for name in ("topic", "partition", "broker_id")]
    topic, partition, broker = keys
    nameless = (topic < 0) & ((broker < 0) | (partition >= 0))
    if nameless.any():
        row = int(np.argmax(nameless))
        raise InputError(f"{where(row)}: found no topic; right is a topic, or a broker_id alone")
    check_bounds(columns, where)
    if _may_repeat(keys):
        _refuse_twice(keys, where)


def _codes(column: pa.Array | None, n: int) -> npt.NDArray[np.int32]:
    """A key column as numbers, -1 where it is null or missing."""
    if column is None:
        return np.full(n, -1, np.int32)
    values = column.indices if isinstance(column, pa.DictionaryArray) else column
    if values.null_count:
        values = pc.fill_null(values, -1)
    codes: npt.NDArray[np.int32] = values.to_numpy(zero_copy_only=False)
    return codes


def _may_repeat(keys: Sequence[npt.NDArray[np.int32]]) -> bool:
    """Whether some rows may have the same keys: all are packed into one number, and sorted."""
    packed = np.zeros(keys[0].size, np.int64)
    room = 1
    for values in keys:
        width = int(values.max()) + 2
        room *= width
        if room >= 1 << 63:
            return True
        packed *= width
        packed += values
        packed += 1
    if (packed[:-1] < packed[1:]).all():
        return False
    packed.sort()
    return bool((packed[:-1] == packed[1:]).any())


def _refuse_twice(keys: Sequence[npt.NDArray[np.int32]], where: Where) -> None:
    """Refuse the first row whose keys stood before."""
    order = np.lexsort(keys)
    same = np.logical_and.reduce([np.diff(values[order]) == 0 for values in keys])
    if same.any():
        repeats = np.flatnonzero(same)
        at = repeats[int(np.argmin(order[repeats + 1]))]
        raise InputError(
            f"{where(int(order[at + 1]))}: the same topic, partition and broker_id as in"
            f" {where(int(order[at]))}; right is a row for each"
        )


def check_capacity(columns: Mapping[str, pa.Array], where: Where) -> None:
    """Refuse rows without a broker, brokers that stand twice, and capacities of 0.

    Raises
    ------
    InputError
        With the row and the broker.
    """
    brokers = columns["broker_id"]
    if len(brokers) == 0:
        raise InputError(f"{where(0)}: there is no row of capacities; right is at least one")
    if brokers.null_count:
        row = pc.index(pc.is_null(brokers), True).as_py()
        raise InputError(f"{where(row)}: found no broker_id; right is an id, or -1 for the default")
    rows: dict[int, int] = {}
    for row, broker in enumerate(brokers.to_pylist()):
        if broker in rows:
            raise InputError(
                f"{where(row)}: {of_broker(broker)} stands in {where(rows[broker])} too; right is"
                " once"
            )
        rows[broker] = row
    for name, values in columns.items():
        if name == "broker_id" or not pa.types.is_integer(values.type):
            continue
        row = pc.index(values, pa.scalar(0, values.type)).as_py()
        if row >= 0:
            raise InputError(
                f"{where(row)}: found {name} 0 of {of_broker(brokers[row].as_py())}; right is more"
                " than 0, for its utilisation would be infinite"
            )


def of_broker(broker: int) -> str:
    """A broker as messages name it."""
    return "the default (broker -1)" if broker == -1 else f"broker {broker}"
