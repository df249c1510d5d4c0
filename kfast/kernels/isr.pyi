"""Changes of an ISR: a broker leaves it, or a leader reports another one."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns
from kfast.kernels.rules import Rules

_Array: TypeAlias = npt.NDArray[Any]

def shrink(
    columns: Columns, rows: _Array, slots: _Array, may_empty: _Array,
    stored_records: _Array, write: _Array,
) -> None: ...
def check_alterations(
    columns: Columns, rows: _Array, sender: _Array, leader_epoch: _Array, version: _Array,
    isr: _Array, recovery: _Array, n_unknown: _Array, codes: _Array,
) -> None: ...
def propose_catch_up(columns: Columns, rows: _Array, slots: _Array, isr: _Array) -> None: ...
def catch_up_hosted(
    columns: Columns, rules: Rules, chosen: _Array, candidates: _Array, sizes: _Array,
    rows: _Array, codes: _Array, tally: _Array,
) -> int: ...
