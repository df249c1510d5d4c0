"""Columns, lists and requests of effects: what the journal's tables are made of."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def take_columns(
    effects: _Array, places: _Array, fields: _Array, columns: list[_Array]
) -> None: ...
def list_ids(
    replicas: _Array, broker_id: _Array, places: _Array, masks: _Array, offsets: _Array,
    values: _Array,
) -> int: ...
def list_requests(
    effects: _Array, replicas: _Array, registered: _Array, stops: bool, cursors: _Array,
    places: _Array, flags: _Array,
) -> None: ...
