"""Columns of the journal's tables, made from kept effects."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def fill_transitions(
    effects: _Array, wide: bool, broker_id: _Array, succeeded: int, numbers: _Array,
) -> int: ...
def fill_elections(
    effects: _Array, wide: bool, n_slots: int, broker_id: _Array, numbers: _Array, offsets: _Array,
    values: _Array, recovery: _Array, unclean: _Array, found: _Array,
) -> None: ...
def fill_metadata(
    effects: _Array, wide: bool, n_slots: int, broker_id: _Array, places: _Array, numbers: _Array,
    offsets: _Array, values: _Array, found: _Array,
) -> None: ...
def list_codes(effects: _Array, wide: bool, codes: int, places: _Array) -> int: ...
