"""What topic deletion asks of whole topics: who is in which state, topic by topic."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def deletion_status(
    records: _Array, replica_state: _Array, rows: _Array, hint: int,
) -> tuple[int, int]: ...
def slots_in_state(
    records: _Array, replica_state: _Array, rows: _Array, states: int, slots: _Array,
) -> None: ...
def count_by_broker(
    replicas: _Array, rows: _Array, slots: _Array, counts: _Array,
) -> None: ...
def list_by_broker(
    replicas: _Array, rows: _Array, slots: _Array, place: _Array, hosted: _Array, slot: _Array,
) -> None: ...
def forget_partitions(records: _Array, rows: _Array) -> int: ...
def free_partitions(
    records: _Array, replicas: _Array, replica_state: _Array, partition: _Array, rows: _Array,
    freed: _Array,
) -> int: ...
