"""Changes of an ISR: a broker leaves it, or a leader reports another one."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def shrink(replicas: Array, rows: Array, slots: Array, stored: Array, write: Array) -> None: ...
def check_alterations(
    records: Array, replicas: Array, broker_status: Array, rows: Array, sender: Array,
    leader_epoch: Array, version: Array, isr: Array, recovery: Array, unknown_member: Array,
    codes: Array,
) -> None: ...
def propose_catch_up(
    records: Array, replicas: Array, broker_status: Array, rows: Array, slots: Array, isr: Array,
) -> None: ...
