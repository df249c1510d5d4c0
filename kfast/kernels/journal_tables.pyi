"""Tables of the journal that are not columns of effects as they are."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def fill_additions(
    kinds: _Array, every: int, columns: list[_Array], leader_epoch: _Array, stop_epoch: _Array,
    broker: _Array, lists: list[tuple[_Array, int]], recipients: _Array, said: _Array,
    columns_out: _Array, epochs: _Array, offsets: _Array, told: _Array, origins: _Array,
) -> None: ...
def list_codes(effects: _Array, wide: bool, codes: int, places: _Array) -> int: ...
