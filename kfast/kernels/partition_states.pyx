"""Move partitions from state to state, as far as it takes no election.

Source: docs/controller.md, sections 3.2 and 3.4; Kafka 3.9, `PartitionStateMachine`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.partition_states cimport move_partition
from kfast.kernels.rules cimport Rules, RuleSet
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    chunk_start,
    kfast_prefetch,
    row_at,
    share_start,
    topic_flags_of,
)
from kfast.kernels.controller_startup cimport initialize_partition


def change_partitions(
    columns_t columns,
    Rules rules not None,
    const int32_t[::1] rows,  # IN      (n,)    partition rows, ascending, each once
    int target,               # `schema.PartitionState`, not ONLINE
    uint8_t[::1] codes,       # OUT     (n,)    `schema.Code`
    Effect[::1] effects,      # OUT     (n,)    what became of each; or (0,)
    int64_t[:, ::1] tally,    # IN OUT  (threads, width)
):
    """Move partitions to New, Offline or NonExistent: states and counters only.

    Source: section 3.4; Kafka 3.9, `ZkPartitionStateMachine.doHandleStateChanges`.
    """
    columns.check_writable()
    cdef int threads = <int> tally.shape[0]
    cdef RuleSet values = rules.values
    cdef Py_ssize_t i
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        first = columns.first
        for i in range(chunk_start(rows, t, threads), chunk_start(rows, t + 1, threads)):
            kfast_prefetch(first.record + rows[min(i + AHEAD, rows.shape[0] - 1)])
            row = row_at(first, rows[i])
            move_partition(row, topic_flags_of(row) if values.any_queued else 0, target, &values,
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
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t n = columns.first.n_rows
    cdef Py_ssize_t i
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        first = columns.first
        for i in range(share_start(n, t, threads), share_start(n, t + 1, threads)):
            row = row_at(first, i)
            initialize_partition(row, topic_flags_of(row) if any_queued else 0, &tally[t, 0])
