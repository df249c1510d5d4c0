"""Counts over the whole cluster, and its digest."""

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def layout() -> dict[str, int]: ...
def recount(
    records: Array, replicas: Array, broker_status: Array, topic_row: Array, topic_flags: Array,
    leader_offline: Array, pending: Array,
) -> tuple[int, int]: ...
def digest(
    records: Array, replicas: Array, replica_state: Array, broker_id: Array, topic_row: Array,
    topic_digest: Array, partition: Array,
) -> int: ...
def digest_bytes(offsets: Array, data: Array, digests: Array) -> None: ...
def take_census(
    records: Array, replicas: Array, broker_status: Array, topic_row: Array, min_isr: Array,
    marks: Array, per_broker: Array,
) -> None: ...
