"""Give partitions their first leader, or elect another one."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def bring_online(
    columns: Columns, rows: _Array, strategy: int, valid_previous: int, controller_epoch: int,
    recovery_supported: bool, any_queued: bool, counting: bool, decided: _Array, codes: _Array,
    effects: _Array, tally: _Array,
) -> None: ...
def rebalance(
    columns: Columns, rows: _Array, step: _Array, in_isr: bool, strategy: int, valid_previous: int,
    controller_epoch: int, recovery_supported: bool, counting: bool, asked: _Array, tally: _Array,
) -> None: ...
def choose(
    columns: Columns, rows: _Array, stored: _Array, strategy: int, recovery_supported: bool,
    lookup_failed: _Array, decided: _Array, codes: _Array, recipients: _Array, unclean: _Array,
) -> None: ...
def propose_initial(
    columns: Columns, rows: _Array, proposed: _Array, controller_epoch: int, codes: _Array,
    recipients: _Array,
) -> None: ...
def adopt(columns: Columns, rows: _Array, written: _Array, tally: _Array) -> None: ...
def choose_one(
    strategy: int, assigned: int, target: int, isr: int, live: int, up: int, shutting_down: int,
    unclean: bool,
) -> tuple[int, int, int, bool]: ...
