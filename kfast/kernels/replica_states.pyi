"""Move replicas from state to state, where the cache is the store."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def count_targets(slots: _Array) -> int: ...
def change_replicas(
    columns: Columns, rows: _Array, slots: _Array, group_rank: _Array, each: bool, target: int,
    valid_previous: int, controller_epoch: int, defer_shrink: bool, without_leadership: int,
    empties_unclean: bool, any_queued: bool, counting: bool, codes: _Array, effects: _Array,
    tally: _Array,
) -> None: ...
def start_replicas(
    columns: Columns, online_rank: _Array, offline_rank: _Array, valid_online: int,
    valid_offline: int, controller_epoch: int, reset: bool, take_offline: bool, any_queued: bool,
    counting: bool, went_online: _Array, went_offline: _Array, online_tally: _Array,
    offline_tally: _Array,
) -> None: ...
def count_started(columns: Columns) -> tuple[int, int]: ...
