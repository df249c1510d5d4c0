"""Move replicas from state to state, where the cache is the store."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns
from kfast.kernels.rules import Rules

_Array: TypeAlias = npt.NDArray[Any]

def count_targets(slots: _Array) -> int: ...
def change_replicas(
    columns: Columns, rules: Rules, replicas: Any, order: tuple[_Array, bool], target: int,
    codes: _Array, effects: _Array, tally: _Array,
) -> None: ...
def start_replicas(
    columns: Columns, rules: Rules, online_rank: _Array, offline_rank: _Array, reset: bool,
    went_online: _Array, went_offline: _Array, tally: _Array,
) -> None: ...
def count_started(columns: Columns) -> tuple[int, int]: ...
