"""Change assignments: start a reassignment, bump the epoch for it, and put its end in place."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def check_added(
    records: _Array, replicas: _Array, broker_status: _Array, rows: _Array, offsets: _Array,
    targets: _Array, alive: _Array,
) -> None: ...
def check_lists(offsets: _Array, broker_ids: _Array, valid: _Array) -> None: ...
def check_safe(
    records: _Array, topic_row: _Array, topic_flags: _Array, rows: _Array, controller_epoch: int,
    safe: _Array,
) -> None: ...
def check_complete(
    records: _Array, rows: _Array, is_stored: _Array, stored_isr: _Array, complete: _Array,
) -> None: ...
def start_reassignments(
    records: _Array, replicas: _Array, replica_state: _Array, topic_row: _Array,
    topic_flags: _Array, rows: _Array, offsets: _Array, targets: _Array, dropped: _Array,
    tally: _Array,
) -> None: ...
def assign_targets(
    records: _Array, replicas: _Array, replica_state: _Array, topic_row: _Array,
    topic_flags: _Array, rows: _Array, removed: _Array, tally: _Array,
) -> None: ...
def touch(
    records: _Array, replicas: _Array, topic_row: _Array, topic_flags: _Array, rows: _Array,
    others: _Array, controller_epoch: int, separate_added: bool, codes: _Array, effects: _Array,
    tally: _Array,
) -> int: ...
