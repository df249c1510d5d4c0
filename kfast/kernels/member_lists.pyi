from typing import Any

import numpy as np
import numpy.typing as npt

_Matrix = npt.NDArray[Any]
_Int32 = npt.NDArray[np.int32]
_Uint8 = npt.NDArray[np.uint8]
_Uint64 = npt.NDArray[np.uint64]

def are_in_slot_order(replicas: _Matrix, offsets: _Int32, values: _Int32) -> bool: ...
def fill_order(
    replicas: _Matrix, offsets: _Int32, values: _Int32, filled: _Uint8, order: _Uint8
) -> None: ...
def list_members(
    replicas: _Matrix, order: _Uint8, broker_id: _Int32, rows: _Int32, before: _Uint64,
    members: _Uint64, values: _Int32,
) -> None: ...
