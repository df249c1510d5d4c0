from typing import Any

import numpy.typing as npt

_Array = npt.NDArray[Any]

def add_rectangles(rectangles: _Array, brokers: _Array, corners: _Array) -> None: ...
def sum_corners(table: _Array) -> None: ...
def take(
    counts: _Array, meta: _Array, live: _Array, arrivals: _Array, costs: _Array, visible: _Array,
    takes: _Array,
) -> int: ...
