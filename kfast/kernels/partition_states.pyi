"""Move partitions from state to state, as far as it takes no election."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def change_partitions(
    records: _Array, topic_row: _Array, topic_flags: _Array, pending: _Array, rows: _Array,
    target: int, valid_previous: int, any_queued: bool, codes: _Array, effects: _Array,
    tally: _Array,
) -> None: ...
def initialize_partitions(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array,
    topic_flags: _Array, any_queued: bool, pending: _Array, tally: _Array,
) -> None: ...
