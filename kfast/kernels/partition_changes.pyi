"""Build changes of partitions and apply them: docs/kraft.md, sections 2 to 5.

Rows come in the caller's order, and the changes in the order of the rows. All changes of an event
are built from the state before it, then applied:

    log.clear()
    fault = partition_changes.update(columns, rules, rows, Visited.IN_ISR, broker, -1, -1, log)
    while missing := partition_changes.apply(columns, log):
        ...  # allocate what is missing (`log.slots_needed` slots), take new columns
    leaderless, imbalanced = log.take_deltas()  # add them to the counters of the state
    tracked = log.take_tracked()                # append it to the hosting index
"""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.change_log import ChangeLog
from kfast.kernels.quorum_columns import QuorumColumns
from kfast.kernels.quorum_rules import QuorumRules

_Array: TypeAlias = npt.NDArray[Any]

def update(
    columns: QuorumColumns, rules: QuorumRules, rows: _Array, visited: int, remove: int, add: int,
    unclean_shutdown: int, log: ChangeLog,
) -> int: ...
def build(
    columns: QuorumColumns, rules: QuorumRules, requests: ChangeLog, log: ChangeLog,
    results: _Array, most: int = -1,
) -> int: ...
def apply(columns: QuorumColumns, log: ChangeLog, stop: int = -1) -> int: ...
def activate(columns: QuorumColumns, counts: _Array) -> None: ...
def order_members(columns: QuorumColumns, orders: _Array) -> None: ...
def select_led(
    columns: QuorumColumns, rows: _Array, broker: int, selected: _Array
) -> int: ...
def leads_any(columns: QuorumColumns, rows: _Array, broker: int) -> bool: ...
