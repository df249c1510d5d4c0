"""A controller's start in one visit to each partition, and the hosting index on the way."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def start_machines(
    records: _Array, replicas: _Array, replica_state: _Array, broker_status: _Array,
    topic_row: _Array, topic_flags: _Array, leader_offline: _Array, pending: _Array,
    group_rank: _Array, valid_offline: int, controller_epoch: int, take_offline: bool,
    any_queued: bool, counting: bool, online_tally: _Array, offline_tally: _Array,
    partition_tally: _Array, healthy: _Array, hosted: _Array,
) -> None: ...
def count_hosted(records: _Array, replicas: _Array, counts: _Array) -> None: ...
def list_hosted(records: _Array, replicas: _Array, position: _Array, hosted: _Array) -> None: ...
