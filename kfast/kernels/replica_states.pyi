"""Move replicas from state to state, where the cache is the store."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def count_targets(slots: Array) -> int: ...
def change_replicas(
    records: Array, replicas: Array, replica_state: Array, topic_row: Array, topic_flags: Array,
    leader_offline: Array, rows: Array, slots: Array, target: int, valid_previous: int,
    controller_epoch: int, defer_shrink: bool, any_queued: bool, counting: bool, codes: Array,
    effects: Array, tally: Array,
) -> None: ...
def start_replicas(
    records: Array, replicas: Array, replica_state: Array, broker_status: Array, topic_row: Array,
    topic_flags: Array, leader_offline: Array, valid_online: int, valid_offline: int,
    controller_epoch: int, reset: bool, take_offline: bool, counting: bool, went_online: Array,
    went_offline: Array, online_tally: Array, offline_tally: Array,
) -> None: ...
def count_started(records: Array, replicas: Array, broker_status: Array) -> tuple[int, int]: ...
