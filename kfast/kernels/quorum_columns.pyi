"""The columns of one KRaft state: those of `columns.pxd`, and those that only KRaft has."""

from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

from kfast.kernels.columns import Columns

@disjoint_base
class QuorumColumns:
    def __init__(
        self, columns: Columns, broker_id: npt.NDArray[np.int32],
        elr: npt.NDArray[Any] | None = None,
        last_known_elr: npt.NDArray[np.int32] | None = None,
        member_order: npt.NDArray[np.uint8] | None = None,
        directory: npt.NDArray[np.int32] | None = None,
    ) -> None: ...
    def holds(
        self, columns: Columns, broker_id: npt.NDArray[np.int32], elr: npt.NDArray[Any] | None,
        last_known_elr: npt.NDArray[np.int32] | None, member_order: npt.NDArray[np.uint8] | None,
        directory: npt.NDArray[np.int32] | None,
    ) -> bool: ...
