"""Pages of Parquet: integers as places in a dictionary, of one, two or four whole bytes."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def put_page(
    values: _Array, offset: int, n_places: int, out: _Array
) -> tuple[int, int]: ...
def take_page(
    page: _Array, is_plain: bool, offset: int, n_places: int, values: _Array
) -> bool: ...
def put_strings(offsets: _Array, data: _Array, out: _Array) -> int: ...
def list_pages(data: _Array, pages: _Array) -> int: ...
def take_strings(page: _Array, offsets: _Array, data: _Array) -> bool: ...
