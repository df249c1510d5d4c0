"""Give partitions their first leader, or elect another one."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def bring_online(
    records: Array, replicas: Array, broker_status: Array, topic_row: Array, topic_flags: Array,
    leader_offline: Array, pending: Array, rows: Array, strategy: int, valid_previous: int,
    controller_epoch: int, recovery_supported: bool, counting: bool, codes: Array, effects: Array,
    tally: Array,
) -> None: ...
def choose(
    replicas: Array, broker_status: Array, topic_row: Array, topic_flags: Array, rows: Array,
    stored: Array, strategy: int, recovery_supported: bool, lookup_failed: Array, codes: Array,
    recipients: Array, unclean: Array,
) -> None: ...
def propose_initial(
    replicas: Array, broker_status: Array, rows: Array, proposed: Array, controller_epoch: int,
    codes: Array, recipients: Array,
) -> None: ...
def adopt(
    records: Array, replicas: Array, broker_status: Array, topic_row: Array, topic_flags: Array,
    leader_offline: Array, rows: Array, written: Array, tally: Array,
) -> None: ...
def choose_one(
    strategy: int, assigned: int, target: int, isr: int, live: int, up: int, shutting_down: int,
    unclean: bool,
) -> tuple[int, int, int, bool]: ...
