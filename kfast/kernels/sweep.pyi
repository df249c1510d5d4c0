"""Sweeps: what many scenarios do to every partition, one bit per scenario."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def widest() -> int: ...
def layout() -> dict[str, int]: ...
def find_shapes(
    columns: Columns, min_isr: _Array, controller_epoch: int, shapes: _Array, numbers: _Array,
    sizes: _Array, group: _Array,
) -> int: ...
def write_sequences(
    columns: Columns, controller_epoch: int, nothing_fails: int, group: _Array, width: _Array,
    begin: _Array, place: _Array, first: _Array, sequences: _Array, rows: _Array,
) -> None: ...
def count_dense(
    groups: _Array, sequences: _Array, n_brokers: int, offsets: _Array, down: _Array, words: int,
    want: int, up: _Array, counts: _Array,
) -> None: ...
def count_heirs(groups: _Array, sequences: _Array, led: _Array, heirs: _Array) -> None: ...
def list_heirs(
    groups: _Array, sequences: _Array, place: _Array, begin: _Array, before: _Array
) -> None: ...
def lead_dense(
    led: _Array, entry: _Array, begin: _Array, before: _Array, offsets: _Array, down: _Array,
    words: int, up: _Array, most: _Array, fullest: _Array, histogram_begin: _Array,
    histogram: _Array,
) -> None: ...
def count_partitions(
    groups: _Array, sequences: _Array, first: _Array, n_brokers: int, offsets: _Array,
    down: _Array, words: int, up: _Array, counts: _Array,
) -> None: ...
