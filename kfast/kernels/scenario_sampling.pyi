"""Random scenarios: which brokers, or groups of them, fail together."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def philox_block(
    seed: int, scenario: int, use: int, block: int
) -> tuple[int, int, int, int]: ...
def sample_brokers(
    seed: int, first: int, items: _Array, taken: _Array, chosen: _Array
) -> None: ...
def draw_independent(
    seed: int, first: int, threshold: int, certain: bool, begin: _Array, member: _Array,
    offsets: _Array, rows: _Array,
) -> int: ...
def draw_bursts(
    seed: int, first: int, begin: _Array, member: _Array, failing: _Array, taken: _Array,
    offsets: _Array, rows: _Array,
) -> None: ...
