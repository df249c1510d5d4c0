"""Move partitions from state to state, as far as it takes no election.

Source: docs/controller.md, sections 3.2 and 3.4; Kafka 3.9, `PartitionStateMachine`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.partition_states cimport move_partition
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    chunk_start,
    kfast_prefetch,
)
from kfast.kernels.starting cimport initialize_partition


def change_partitions(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)    partition rows, ascending, each once
    int target,               # `schema.PartitionState`, not ONLINE
    uint32_t valid_previous,  # bit f set: the transition from state f is legal
    bint any_queued,
    uint8_t[::1] codes,       # OUT     (n,)    `schema.Code`
    Effect[::1] effects,      # OUT     (n,)    what became of each; or (0,)
    int64_t[:, ::1] tally,    # IN OUT  (threads, width)
):
    """Move partitions to New, Offline or NonExistent: states and counters only.

    Source: section 3.4; Kafka 3.9, `ZkPartitionStateMachine.doHandleStateChanges`.
    """
    columns.check_writable()
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    cdef uint64_t* pending = columns.pending
    records = columns.records
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
            move_partition(&records[row], row, flags, target, valid_previous, pending,
                           &codes[i], &effects[i] if effects.shape[0] else NULL, &tally[t, 0])


def initialize_partitions(
    columns_t columns,
    bint any_queued,        # some topic is queued: look at topic_flags
    int64_t[:, ::1] tally,  # IN OUT  (threads, width)
):
    """Set every assigned partition to New, Online or Offline by its record and its leader.

    Source: section 3.2; Kafka 3.9, `PartitionStateMachine.initializePartitionState`.
    """
    columns.check_writable()
    cdef Py_ssize_t width = columns.width
    cdef const uint8_t* broker_status = columns.broker_status
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    cdef uint64_t* pending = columns.pending
    records = columns.records
    replicas = columns.replicas
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t words = columns.n_words
    cdef Py_ssize_t row
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        for row in range(64 * (words * t // threads),
                         min(64 * (words * (t + 1) // threads), columns.n_partitions)):
            initialize_partition(
                &records[row], &replicas[width * row], broker_status, row,
                topic_flags[topic_row[row]] if any_queued else 0, pending, &tally[t, 0],
            )
