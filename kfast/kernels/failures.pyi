"""A failure of brokers in one visit to each partition."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def fail_hosted(
    columns: Columns, chosen: _Array, group_rank: _Array, rows: _Array, partition_offline: int,
    partition_online: int, replica_offline: int, strategy: int, controller_epoch: int,
    without_leadership: int, empties_unclean: bool, recovery_supported: bool, counting: bool,
    decided: _Array, offline_tally: _Array, online_tally: _Array, replica_tally: _Array,
    counts: _Array, effects: _Array, marks: _Array, sums: _Array,
) -> None: ...
