"""Which partitions a broker hosts, and which slot it has there."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def select_slots(
    records: _Array, replicas: _Array, replica_state: _Array, broker_status: _Array,
    chosen: _Array, candidates: _Array, assigned_only: bool, refresh: bool,
    leader_offline: _Array, rows: _Array, slots: _Array,
) -> int: ...
def find_tracking(
    records: _Array, replicas: _Array, chosen: _Array, rows: _Array
) -> int: ...
def mark_rows(rows: _Array, bits: _Array) -> None: ...
def list_marked(
    bits: _Array, topic_row: _Array, topic_flags: _Array, any_queued: bool, rows: _Array,
) -> int: ...
def list_groups(
    records: _Array, replicas: _Array, rows: _Array, slots: _Array, sought: _Array,
    brokers: _Array,
) -> int: ...
def merge_waiting(
    rows: _Array, leader_offline: _Array, pending: _Array, merged: _Array
) -> int: ...
def list_concerned(
    replicas: _Array, chosen: _Array, leader_offline: _Array, pending: _Array, rows: _Array,
    threads: int,
) -> int: ...
def refresh_leader_offline(
    records: _Array, replicas: _Array, broker_status: _Array, rows: _Array,
    leader_offline: _Array,
) -> None: ...
def track(
    records: _Array, replicas: _Array, rows: _Array, brokers: _Array, slots: _Array,
) -> int: ...
def find_slots(
    records: _Array, replicas: _Array, rows: _Array, brokers: _Array, slots: _Array,
) -> None: ...
def live_slots(
    records: _Array, replicas: _Array, broker_status: _Array, rows: _Array, live: _Array,
    up: _Array,
) -> None: ...
