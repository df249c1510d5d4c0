"""A failure of brokers in one visit to each partition."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns
from kfast.kernels.rules import Rules

_Array: TypeAlias = npt.NDArray[Any]

def fail_brokers(
    columns: Columns, rules: Rules, chosen: _Array, group_rank: _Array, rows: _Array,
    decided: _Array, tally: _Array, effects: _Array | None,
) -> tuple[int, int, int]: ...
