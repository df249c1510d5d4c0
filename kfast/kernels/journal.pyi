"""Partitions as they were, columns of effects, requests: what the journal's tables are made of."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]
_Column: TypeAlias = tuple[int, _Array, _Array | None, _Array, _Array | None]

def copy_partitions(
    columns: Columns, effects: _Array, slots: _Array, keys: _Array, offline: _Array, codes: _Array,
) -> tuple[int, bool]: ...
def fill_columns(
    replicas: _Array, broker_id: _Array, places: _Array, requests: _Array,
    columns: Sequence[_Column],
) -> list[int]: ...
def list_additions(kinds: _Array, places: _Array, requests: _Array) -> int: ...
def list_requests(
    effects: _Array, replicas: _Array, registered: _Array, stops: bool, cursors: _Array,
    places: _Array, flags: _Array,
) -> None: ...
