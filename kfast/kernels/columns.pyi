from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import disjoint_base

ARRAYS: tuple[str, ...]

@disjoint_base
class Columns:
    def __init__(self, /, *args: Any, **kwargs: Any) -> None: ...
    def holds(self, values: dict[str, Any]) -> bool: ...

@disjoint_base
class NarrowColumns(Columns): ...
@disjoint_base
class WideColumns(Columns): ...

def make_columns(
    records: npt.NDArray[Any], replicas: npt.NDArray[Any], replica_state: npt.NDArray[np.uint8],
    broker_status: npt.NDArray[np.uint8], topic_row: npt.NDArray[np.int32],
    partition: npt.NDArray[np.int32], topic_flags: npt.NDArray[np.uint8],
    leader_offline: npt.NDArray[np.uint64] | None = None,
    pending: npt.NDArray[np.uint64] | None = None,
) -> Columns: ...
