"""Put brokers into as few batches as can be, where some sets of brokers bound a batch."""

from typing import Any, Protocol, TypeAlias, type_check_only

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

@type_check_only
class Limits(Protocol):
    """Sets of brokers, and how many of each one batch may hold."""

    @property
    def begin(self) -> _Array: ...
    @property
    def members(self) -> _Array: ...
    @property
    def most(self) -> _Array: ...
    @property
    def first(self) -> _Array: ...
    @property
    def sets_of(self) -> _Array: ...

def fill_batches(
    limits: Limits, degree: _Array, order: _Array, batch: _Array, blocked: _Array,
    saturation: _Array,
) -> int: ...
def search_exactly(
    limits: Limits, cost: _Array, lowest: int, work: int, best: _Array, batch: _Array,
    blocked: _Array, saturation: _Array,
) -> tuple[int, bool]: ...
def place_all(
    limits: Limits, start: _Array, batch: _Array, blocked: _Array, saturation: _Array
) -> int: ...
def search_fewer(
    limits: Limits, degree: _Array, batch: _Array, blocked: _Array, saturation: _Array,
    until: _Array, memory: _Array, work: int,
) -> int: ...
def count_harm(
    begin: _Array, members: _Array, spare: _Array, partitions: _Array, batch: _Array,
    harm: _Array,
) -> None: ...
