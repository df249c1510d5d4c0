"""From list columns to slots and masks, and back."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def count_slots(
    offsets: _Array, values: _Array, leader: _Array, n_slots: _Array, wrong: _Array,
) -> int: ...
def fill_slots(
    records: _Array, replicas: _Array, replica_state: _Array, offsets: _Array, lists: _Array,
    values: _Array, states: _Array,
) -> None: ...
def masks_of(
    replicas: _Array, records: _Array, rows: _Array, offsets: _Array, values: _Array,
    masks: _Array, unknown: _Array,
) -> None: ...
def measure_lists(masks: _Array, offsets: _Array) -> None: ...
def expand_masks(
    replicas: _Array, broker_id: _Array, rows: _Array, masks: _Array, values: _Array,
) -> None: ...
def mask_states(records: _Array, replica_state: _Array, masks: _Array) -> None: ...
def expand_states(replica_state: _Array, rows: _Array, masks: _Array, values: _Array) -> None: ...
def list_dead(
    replica_at: _Array, replicas: _Array, isr_at: _Array, isr: _Array, live_at: _Array,
    live: _Array, known: _Array, dead_at: _Array, dead: _Array,
) -> int: ...
