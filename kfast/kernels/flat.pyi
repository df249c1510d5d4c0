"""From flat columns to slots and masks, and back."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def fill_rows(
    slots: Sequence[_Array], topic_row: _Array, partition: _Array, leader: _Array,
    leader_epoch: _Array, version: _Array, controller_epoch: _Array, isr: _Array,
    states: _Array, place: _Array, records: _Array, replicas: _Array, replica_state: _Array,
) -> int: ...
def fill_optional(
    n_replicas: _Array, flags: _Array, adding: _Array, removing: _Array, offline_dir: _Array,
    records: _Array,
) -> int: ...
def list_rows(
    slots: Sequence[_Array], records: _Array, replicas: _Array, replica_state: _Array,
    broker_id: _Array, leader: _Array, leader_epoch: _Array, version: _Array,
    controller_epoch: _Array, isr: _Array, states: _Array,
) -> int: ...
