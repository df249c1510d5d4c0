"""The digest of a cluster."""

from typing import Any, TypeAlias

import numpy.typing as npt

_Array: TypeAlias = npt.NDArray[Any]

def digest(
    records: _Array, replicas: _Array, replica_state: _Array, broker_id: _Array,
    topic_row: _Array, topic_digest: _Array, partition: _Array,
) -> int: ...
def digest_bytes(offsets: _Array, data: _Array, digests: _Array) -> None: ...
