"""Give partitions their first leader, or elect another one."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def bring_online(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array,
    topic_flags: _Array, leader_offline: _Array, pending: _Array, rows: _Array, strategy: int,
    valid_previous: int, controller_epoch: int, recovery_supported: bool, any_queued: bool,
    counting: bool, decided: _Array, codes: _Array, effects: _Array, tally: _Array,
) -> None: ...
def rebalance(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array,
    topic_flags: _Array, leader_offline: _Array, pending: _Array, rows: _Array, step: _Array,
    in_isr: bool, strategy: int, valid_previous: int, controller_epoch: int,
    recovery_supported: bool, counting: bool, asked: _Array, tally: _Array,
) -> None: ...
def choose(
    replicas: _Array, broker_status: _Array, topic_row: _Array, topic_flags: _Array, rows: _Array,
    stored: _Array, strategy: int, recovery_supported: bool, lookup_failed: _Array,
    decided: _Array, codes: _Array, recipients: _Array, unclean: _Array,
) -> None: ...
def propose_initial(
    replicas: _Array, broker_status: _Array, rows: _Array, proposed: _Array,
    controller_epoch: int, codes: _Array, recipients: _Array,
) -> None: ...
def adopt(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array,
    topic_flags: _Array, leader_offline: _Array, rows: _Array, written: _Array, tally: _Array,
) -> None: ...
def choose_one(
    strategy: int, assigned: int, target: int, isr: int, live: int, up: int, shutting_down: int,
    unclean: bool,
) -> tuple[int, int, int, bool]: ...
