"""Columns of kept effects, laid out as Arrow lays them out; the journal's tables share them."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def spread(
    effects: _Array, wide: bool, n_slots: int, broker_id: _Array, only_leads: bool, which: _Array,
    which_lists: _Array, numbers: _Array, offsets: _Array, values: _Array, found: _Array,
) -> None: ...
def take_numbers(columns: list[_Array], places: _Array, taken: _Array) -> None: ...
def take_lists(
    offsets: _Array, length: int, values: _Array, places: _Array, taken_offsets: _Array,
    taken_values: _Array,
) -> int: ...
def measure_names(begins: _Array, numbers: _Array, offsets: _Array) -> int: ...
def spell_names(
    begins: _Array, names: _Array, numbers: _Array, offsets: _Array, text: _Array,
) -> None: ...
