"""Counts over the whole cluster."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def layout() -> dict[str, int]: ...
def recount(columns: Columns) -> tuple[int, int, int, int, int]: ...
def count_imbalanced(columns: Columns, rows: _Array) -> int: ...
def survey_leaders(
    columns: Columns, any_queued: bool, preferred: _Array, others: _Array, rows: _Array,
) -> int: ...
def recheck_leaders(
    columns: Columns, marked: _Array, bits: _Array, others: _Array, rows: _Array,
) -> int: ...
def take_census(columns: Columns, min_isr: _Array, health: _Array, per_broker: _Array) -> None: ...
