"""Partitions as sets of brokers."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns

_Array: TypeAlias = npt.NDArray[Any]

def measure_isrs(
    columns: Columns, min_isr: _Array, live_isr: _Array, live_replicas: _Array, in_sync: _Array,
    needed: _Array,
) -> None: ...
def group_sets(
    columns: Columns, masks: _Array, tags: _Array, table: _Array, set_of: _Array, begin: _Array,
    members: _Array, tag_of: _Array,
) -> int: ...
def list_sets_of_brokers(
    begin: _Array, members: _Array, place: _Array, sets_of: _Array
) -> None: ...
