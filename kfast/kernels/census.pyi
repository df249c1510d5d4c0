"""Counts over the whole cluster."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def layout() -> dict[str, int]: ...
def recount(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array,
    topic_flags: _Array, leader_offline: _Array, pending: _Array,
) -> tuple[int, int, int, int, int]: ...
def count_imbalanced(records: _Array, replicas: _Array, rows: _Array) -> int: ...
def survey_leaders(
    records: _Array, replicas: _Array, topic_row: _Array, topic_flags: _Array, any_queued: bool,
    preferred: _Array, others: _Array, rows: _Array,
) -> int: ...
def recheck_leaders(
    records: _Array, replicas: _Array, marked: _Array, bits: _Array, others: _Array, rows: _Array,
) -> int: ...
def take_census(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array, min_isr: _Array,
    marks: _Array, per_broker: _Array,
) -> None: ...
def count_census(
    records: _Array, replicas: _Array, broker_status: _Array, topic_row: _Array, min_isr: _Array,
    counts: _Array, per_broker: _Array, missing: _Array,
) -> None: ...
