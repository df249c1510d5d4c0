"""Sweeps: what many scenarios do to every partition, one bit per scenario."""

from typing import Any, Protocol, TypeAlias, type_check_only

import numpy.typing as npt
from typing_extensions import disjoint_base

from kfast.kernels.columns import Columns
from kfast.kernels.quorum_columns import QuorumColumns
from kfast.kernels.quorum_rules import QuorumRules

_Array: TypeAlias = npt.NDArray[Any]

@type_check_only
class FailoverOrder(Protocol):
    """Who leads, and who must be down for a broker to take a partition over."""

    @property
    def led(self) -> _Array: ...
    @property
    def entry_begin(self) -> _Array: ...
    @property
    def predecessors_begin(self) -> _Array: ...
    @property
    def predecessors(self) -> _Array: ...
    @property
    def tabulated_begin(self) -> _Array: ...
    @property
    def tabulated(self) -> _Array: ...
    @property
    def sequences(self) -> _Array: ...
    @property
    def tables(self) -> _Array: ...

def widest() -> int: ...
def layout() -> dict[str, int]: ...
@disjoint_base
class Shaping:
    def __init__(
        self, min_isr: _Array, controller_epoch: int, nothing_fails: int,
        quorum: QuorumColumns | None = None, rules: QuorumRules | None = None,
    ) -> None: ...

def find_shapes(
    columns: Columns, shaping: Shaping, shapes: _Array, numbers: _Array, sizes: _Array,
    group: _Array,
) -> int: ...
def write_sequences(
    columns: Columns, shaping: Shaping, groups: _Array, group: _Array, place: _Array,
    sequences: _Array, rows: _Array,
) -> None: ...
def count_live(
    quorum: QuorumColumns, rules: QuorumRules, live: _Array, in_sync: _Array, slots: _Array
) -> None: ...

@disjoint_base
class DownBrokers:
    def __init__(self, offsets: _Array, down: _Array, words: int, up: _Array) -> None: ...

def count_dense(
    groups: _Array, sequences: _Array, tables: _Array, scenarios: DownBrokers, want: int,
    counts: _Array,
) -> None: ...
def count_takeovers(groups: _Array, sequences: _Array, led: _Array, counts: _Array) -> None: ...
def list_takeovers(
    groups: _Array, sequences: _Array, place: _Array, begin: _Array, before: _Array
) -> None: ...
def count_leaders(
    failover_order: FailoverOrder, scenarios: DownBrokers, most: _Array, fullest: _Array,
    histogram_begin: _Array, histogram: _Array,
) -> None: ...
def count_partitions(
    groups: _Array, sequences: _Array, tables: _Array, first: _Array, scenarios: DownBrokers,
    counts: _Array,
) -> None: ...
