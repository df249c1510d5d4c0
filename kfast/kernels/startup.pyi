"""A controller's start in one visit to each partition, and the hosting index on the way."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def start_machines(
    columns: Columns, group_rank: _Array, valid_offline: int, controller_epoch: int,
    take_offline: bool, any_queued: bool, counting: bool, online_tally: _Array,
    offline_tally: _Array, partition_tally: _Array, healthy: _Array, hosted: _Array,
) -> None: ...
def count_hosted(columns: Columns, counts: _Array) -> None: ...
def list_hosted(columns: Columns, position: _Array, hosted: _Array) -> None: ...
