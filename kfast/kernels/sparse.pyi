"""Sweeps of few brokers among many: only the partitions that they host are looked at."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def count_hosts(groups: _Array, sequences: _Array, hosted: _Array) -> None: ...
def list_hosts(
    groups: _Array, sequences: _Array, place: _Array, entries: _Array
) -> None: ...
def count_sparse(
    sequences: _Array, width: _Array, begin: _Array, entries: _Array, table_begin: _Array,
    table: _Array, quiet: _Array, base: _Array, offsets: _Array, down: _Array, is_down: _Array,
    counts: _Array,
) -> None: ...
