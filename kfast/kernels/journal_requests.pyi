"""What one batch sends to whom, in the order (kind, broker, partition), as columns."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def block_size() -> int: ...
def count_requests(effects: _Array, wide: bool, registered: _Array, counts: _Array) -> None: ...
def count_values(effects: _Array, wide: bool, told: _Array, counts: _Array) -> None: ...
def deliver(
    effects: _Array, wide: bool, told: _Array, kind: int, base: int, cursors: _Array,
    ends: _Array, columns: list[_Array], lists: list[tuple[_Array, int, _Array]],
    columns_out: _Array, lists_out: list[tuple[_Array, _Array]], origins: _Array,
    flags_out: _Array, places: _Array, flags: _Array, counts: _Array,
) -> None: ...
def fill_brokers(
    counts: _Array, broker_id: _Array, broker_epoch: _Array, ids: _Array, epochs: _Array
) -> None: ...
