"""The digest of a cluster."""

from typing import Any, TypeAlias

import numpy.typing as npt

from kfast.kernels.columns import Columns
from kfast.kernels.quorum_columns import QuorumColumns

_Array: TypeAlias = npt.NDArray[Any]

def digest(columns: Columns, broker_id: _Array, topic_digest: _Array) -> int: ...
def digest_quorum(
    columns: QuorumColumns, partition: _Array, topic_digest: _Array, directory_digest: _Array,
) -> int: ...
def digest_bytes(offsets: _Array, data: _Array, digests: _Array) -> None: ...
