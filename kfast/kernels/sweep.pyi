"""Sweeps: what many scenarios do to every partition, one bit per scenario."""

from typing import Any, Protocol, TypeAlias, type_check_only

import numpy.typing as npt
from typing_extensions import disjoint_base

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

@type_check_only
class FailoverOrder(Protocol):
    """Who must be down for a broker to take a partition over."""

    @property
    def entry_begin(self) -> _Array: ...
    @property
    def predecessors_begin(self) -> _Array: ...
    @property
    def predecessors(self) -> _Array: ...

def widest() -> int: ...
def layout() -> dict[str, int]: ...
def find_shapes(
    columns: Columns, min_isr: _Array, controller_epoch: int, shapes: _Array, numbers: _Array,
    sizes: _Array, group: _Array,
) -> int: ...
def write_sequences(
    columns: Columns, controller_epoch: int, nothing_fails: int, groups: _Array, group: _Array,
    place: _Array, sequences: _Array, rows: _Array,
) -> None: ...

@disjoint_base
class DownBrokers:
    def __init__(self, offsets: _Array, down: _Array, words: int, up: _Array) -> None: ...

def count_dense(
    groups: _Array, sequences: _Array, scenarios: DownBrokers, want: int, counts: _Array
) -> None: ...
def count_takeovers(groups: _Array, sequences: _Array, led: _Array, counts: _Array) -> None: ...
def list_takeovers(
    groups: _Array, sequences: _Array, place: _Array, begin: _Array, before: _Array
) -> None: ...
def count_leaders(
    led: _Array, failover_order: FailoverOrder, scenarios: DownBrokers, most: _Array,
    fullest: _Array, histogram_begin: _Array, histogram: _Array,
) -> None: ...
def count_partitions(
    groups: _Array, sequences: _Array, first: _Array, scenarios: DownBrokers, counts: _Array
) -> None: ...
