"""Move partitions from state to state, as far as it takes no election."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def change_partitions(
    records: Array, topic_row: Array, topic_flags: Array, pending: Array, rows: Array,
    target: int, valid_previous: int, any_queued: bool, codes: Array, effects: Array,
    tally: Array,
) -> None: ...
def initialize_partitions(
    records: Array, replicas: Array, broker_status: Array, topic_row: Array, topic_flags: Array,
    pending: Array, tally: Array,
) -> None: ...
