"""Move partitions from state to state, as far as it takes no election."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def change_partitions(
    columns: Columns, rows: _Array, target: int, valid_previous: int, any_queued: bool,
    codes: _Array, effects: _Array, tally: _Array,
) -> None: ...
def initialize_partitions(columns: Columns, any_queued: bool, tally: _Array) -> None: ...
