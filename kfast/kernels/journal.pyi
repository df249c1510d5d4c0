"""What the journal keeps of each step, and which of it each table tells."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def kept_sizes() -> tuple[int, int]: ...
def keep(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array,
    partition: _Array, effects: _Array, kept: _Array,
) -> tuple[int, bool]: ...
def list_additions(effects: _Array, wide: bool, places: _Array, flags: _Array) -> int: ...
def list_metadata(effects: _Array, wide: bool, places: _Array) -> int: ...
def count_requests(effects: _Array, wide: bool, registered: _Array, counts: _Array) -> None: ...
def list_requests(
    effects: _Array, wide: bool, registered: _Array, counts: _Array, places: _Array,
    keys: _Array, flags: _Array,
) -> int: ...
def sort_requests(
    places: _Array, keys: _Array, flags: _Array, begins: _Array, sorted_places: _Array,
    sorted_flags: _Array,
) -> None: ...
