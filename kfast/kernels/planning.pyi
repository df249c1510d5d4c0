"""Put brokers into as few batches as can be, where some sets of brokers bound a batch."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def fill_batches(
    begin: _Array, members: _Array, limits: _Array, first: _Array, sets_of: _Array,
    degree: _Array, order: _Array, batch: _Array, blocked: _Array, saturation: _Array,
) -> int: ...
def search_exactly(
    begin: _Array, members: _Array, limits: _Array, first: _Array, sets_of: _Array,
    cost: _Array, lowest: int, work: int, best: _Array, batch: _Array, blocked: _Array,
    saturation: _Array,
) -> tuple[int, bool]: ...
def place_all(
    begin: _Array, members: _Array, limits: _Array, first: _Array, sets_of: _Array,
    start: _Array, batch: _Array, blocked: _Array, saturation: _Array,
) -> int: ...
def search_fewer(
    begin: _Array, members: _Array, limits: _Array, first: _Array, sets_of: _Array,
    degree: _Array, batch: _Array, blocked: _Array, saturation: _Array, until: _Array,
    memory: _Array, work: int,
) -> int: ...
def count_harm(
    begin: _Array, members: _Array, spare: _Array, partitions: _Array, batch: _Array,
    harm: _Array,
) -> None: ...
