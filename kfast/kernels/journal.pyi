"""What the journal keeps of each step, with everything that its tables say."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def kept_sizes() -> tuple[int, int]: ...
def keep(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array,
    partition: _Array, effects: _Array, kept: _Array,
) -> int: ...
def list_metadata(effects: _Array, wide: bool, places: _Array) -> int: ...
