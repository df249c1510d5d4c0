"""Move partitions from state to state, as far as it takes no election.

Source: docs/controller.md, sections 3.2 and 3.4; Kafka 3.9, `PartitionStateMachine`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.partition_states cimport move_partition
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    broker_t,
    chunk_start,
    kfast_prefetch,
    record_t,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)
from kfast.kernels.starting cimport initialize_partition


def change_partitions(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    uint64_t[::1] pending,             # IN OUT  bitmap  partitions New or Offline
    const int32_t[::1] rows,           # IN      (n,)    partition rows, ascending, each once
    int target,                        # `schema.PartitionState`, not ONLINE
    uint32_t valid_previous,           # bit f set: the transition from state f is legal
    bint any_queued,
    uint8_t[::1] codes,                # OUT     (n,)    `schema.Code`
    Effect[::1] effects,               # OUT     (n,)    what became of each; or (0,)
    int64_t[:, ::1] tally,             # IN OUT  (threads, width)
):
    """Move partitions to New, Offline or NonExistent: states and counters only.

    Source: section 3.4; Kafka 3.9, `ZkPartitionStateMachine.doHandleStateChanges`.
    """
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t i, row
    cdef int t
    cdef uint8_t flags
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        flags = 0
        for i in range(chunk_start(rows, t, threads), chunk_start(rows, t + 1, threads)):
            kfast_prefetch(&records[rows[min(i + AHEAD, rows.shape[0] - 1)]])
            row = rows[i]
            if any_queued:
                flags = topic_flags[topic_row[row]]
            move_partition(&records[row], row, flags, target, valid_previous, &pending[0],
                           &codes[i], &effects[i] if effects.shape[0] else NULL, &tally[t, 0])


def initialize_partitions(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    bint any_queued,                   # some topic is queued: look at topic_flags
    uint64_t[::1] pending,             # OUT     bitmap  partitions New or Offline
    int64_t[:, ::1] tally,             # IN OUT  (threads, width)
):
    """Set every assigned partition to New, Online or Offline by its record and its leader.

    Source: section 3.2; Kafka 3.9, `PartitionStateMachine.initializePartitionState`.
    """
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t words = pending.shape[0]
    cdef Py_ssize_t row
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        for row in range(64 * (words * t // threads),
                         min(64 * (words * (t + 1) // threads), records.shape[0])):
            initialize_partition(
                &records[row], &replicas[row, 0], &broker_status[0], row,
                topic_flags[topic_row[row]] if any_queued else 0, &pending[0], &tally[t, 0],
            )
