"""Whole events in one visit to each partition."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def start_hosted(
    columns: Columns, chosen: _Array, group_rank: _Array, rows: _Array, replica_online: int,
    partition_online: int, strategy: int, controller_epoch: int, recovery_supported: bool,
    counting: bool, replica_tally: _Array, online_tally: _Array, counts: _Array, effects: _Array,
) -> None: ...
def shut_down_hosted(
    columns: Columns, broker: int, rows: _Array, partition_online: int, replica_offline: int,
    strategy: int, controller_epoch: int, recovery_supported: bool, counting: bool, decided: _Array,
    led_tally: _Array, followed_tally: _Array, counts: _Array, remaining: _Array,
) -> int: ...
