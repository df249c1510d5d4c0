"""The zk-3.9 controller in plain Python: every rule once more, to compare the kernels with.

Dictionaries and lists, one small function per rule, nothing from `kfast.kernels`. It is checked
with Kafka's own answers: `python -m tests.support.cases --twin FILE`.
"""

from __future__ import annotations

from tests.support.reference_batch import RECOVERY_CARRIED_FROM, VERSIONS, RequestBatch, Row, Sent
from tests.support.reference_context import (
    RECOVERED,
    RECOVERING,
    Assignment,
    Context,
    Partition,
    Record,
    Replica,
    leader_of,
)
from tests.support.reference_elections import (
    Election,
    controlled_shutdown_leader,
    elect,
    offline_leader,
    preferred_leader,
    reassign_leader,
)
from tests.support.reference_journal import PARTITION_MATRIX, REPLICA_MATRIX, Journal, matrix_cells
from tests.support.reference_partitions import PartitionStateMachine
from tests.support.reference_replicas import ReplicaStateMachine
from tests.support.reference_store import (
    GARBAGE,
    CacheStore,
    ControllerMovedError,
    Store,
    TwinStore,
)
