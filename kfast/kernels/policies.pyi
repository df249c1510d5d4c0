"""Ask a user's election rule, before anything changes, whom each partition is to be led by."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def decide(
    columns: Columns, stored_records: _Array | None, lookup_failed: _Array, rows: _Array,
    address: int, rack: _Array, led: _Array, occasion: int, strategy: int, broker: int,
    controller_epoch: int, offline_from: int, online_from: int, decided: _Array, failures: _Array,
) -> None: ...
def count_led(columns: Columns, led: _Array) -> None: ...
def raised() -> int: ...
