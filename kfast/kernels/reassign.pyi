"""Change assignments: start a reassignment, bump the epoch for it, and put its end in place."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def check_added(
    columns: Columns, rows: _Array, offsets: _Array, targets: _Array, alive: _Array,
) -> None: ...
def check_lists(offsets: _Array, broker_ids: _Array, valid: _Array) -> None: ...
def check_safe(columns: Columns, rows: _Array, controller_epoch: int, safe: _Array) -> None: ...
def check_complete(
    columns: Columns, rows: _Array, is_stored: _Array, stored_isr: _Array, complete: _Array,
) -> None: ...
def start_reassignments(
    columns: Columns, rows: _Array, offsets: _Array, targets: _Array, dropped: _Array,
    tally: _Array,
) -> None: ...
def assign_targets(columns: Columns, rows: _Array, removed: _Array, tally: _Array) -> None: ...
def touch(
    columns: Columns, rows: _Array, others: _Array, controller_epoch: int, separate_added: bool,
    codes: _Array, effects: _Array, tally: _Array,
) -> int: ...
