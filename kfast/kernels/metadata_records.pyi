"""Records of a metadata log, one at a time, as Python values."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_Field: TypeAlias = tuple[str, int, int, int, object, bool, tuple[Any, ...]]
_Bytes: TypeAlias = bytes | bytearray | memoryview | NDArray[np.uint8]

class Kind(IntEnum):
    INT8 = 0
    INT16 = 1
    UINT16 = 2
    INT32 = 3
    INT64 = 4
    BOOL = 5
    ID = 6
    TEXT = 7
    TEXT_OR_NULL = 8
    STRUCTURE = 9
    ARRAY = 16

def id_texts(ids: NDArray[np.uint8], texts: NDArray[np.uint8]) -> None: ...
def decode(
    data: _Bytes, at: int, length: int, schemas: Mapping[int, tuple[_Field, ...]]
) -> tuple[int, dict[str, Any]] | None: ...
