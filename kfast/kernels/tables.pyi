"""From list columns to slots and masks, and back."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def count_slots(
    offsets: Array, values: Array, leader: Array, n_slots: Array, wrong: Array,
) -> int: ...
def fill_slots(
    records: Array, replicas: Array, replica_state: Array, offsets: Array, lists: Array,
    values: Array, states: Array,
) -> None: ...
def masks_of(
    replicas: Array, records: Array, rows: Array, offsets: Array, values: Array, masks: Array,
    unknown: Array,
) -> None: ...
def measure_lists(masks: Array, offsets: Array) -> None: ...
def expand_masks(
    replicas: Array, broker_id: Array, rows: Array, masks: Array, values: Array,
) -> None: ...
def mask_states(records: Array, replica_state: Array, masks: Array) -> None: ...
def expand_states(replica_state: Array, rows: Array, masks: Array, values: Array) -> None: ...
