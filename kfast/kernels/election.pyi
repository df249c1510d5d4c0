"""Give partitions their first leader, or elect another one."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns
from kfast.kernels.rules import Rules

_Array: TypeAlias = npt.NDArray[Any]

def bring_online(
    columns: Columns, rules: Rules, rows: _Array, strategy: int, decided: _Array, codes: _Array,
    effects: _Array, tally: _Array,
) -> None: ...
def rebalance(
    columns: Columns, rules: Rules, rows: _Array, step: _Array, asked: _Array, tally: _Array,
) -> None: ...
def choose(
    columns: Columns, rules: Rules, rows: _Array, stored_records: _Array, strategy: int,
    lookup_failed: _Array, decided: _Array, choices: _Array,
) -> None: ...
def propose_initial(
    columns: Columns, rows: _Array, proposed_records: _Array, controller_epoch: int,
    codes: _Array, recipients: _Array,
) -> None: ...
def adopt(columns: Columns, rows: _Array, written_records: _Array, tally: _Array) -> None: ...
def choose_one(
    strategy: int, assigned: int, target: int, isr: int, live: int, up: int, shutting_down: int,
    unclean: bool,
) -> tuple[int, int, int, bool]: ...
