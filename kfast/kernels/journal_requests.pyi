"""Columns of the tables of a request batch: what was added to it, what was sent to whom."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def fill_requests(
    effects: _Array, wide: bool, n_slots: int, broker_id: _Array, places: _Array, flags: _Array,
    numbers: _Array, offsets: _Array, values: _Array, recovery: _Array, found: _Array,
) -> None: ...
def fill_brokers(
    ends: _Array, broker_id: _Array, broker_epoch: _Array, ids: _Array, epochs: _Array
) -> None: ...
