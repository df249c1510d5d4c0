"""What topic deletion asks of whole topics: who is in which state, topic by topic.

Source: docs/controller.md, section 6.12; Kafka 3.9, `TopicDeletionManager`.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.permute cimport put_broker, set_masks
from kfast.kernels.slots cimport (
    AHEAD,
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    NO_LEADER,
    P_NON_EXISTENT,
    P_NO_ENTRY,
    R_DELETION_INELIGIBLE,
    R_DELETION_STARTED,
    R_DELETION_SUCCESSFUL,
    R_NO_ENTRY,
    kfast_lowest,
    kfast_prefetch,
    row_at,
    row_t,
)

# `deletion.Status`: what holds of some, or of all, assigned replicas of a topic.
cdef enum:
    SOME_STARTED = 1
    SOME_INELIGIBLE = 2
    ALL_SUCCESSFUL = 4
    SOME_WITHOUT_ENTRY = 8


cdef inline int states_of_row(row_t row) noexcept nogil:
    """Which states the assigned replicas of a partition are in: bit f for state f."""
    cdef int seen = 0
    cdef int s
    for s in range(row.record.n_replicas):
        seen |= 1 << row.states[s]
    return seen


def deletion_status(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)    partition rows of one topic
    Py_ssize_t hint,          # where a replica was being deleted when last asked; -1: unknown
):
    """Look at the deletion of one topic; returns (status, hint).

    While a replica is being deleted nothing else matters where every replica has a state, which a
    look without a hint finds out. With one, the search begins there and ends at the first replica
    that is being deleted: asking after each of many answers costs one pass in all.
    """
    first = columns.first
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t i
    cdef Py_ssize_t at
    cdef Py_ssize_t place = 0
    cdef int seen
    cdef int status = 0
    cdef bint all_successful = True
    cdef bint look_at_all = hint < 0
    if hint < 0 or hint >= n:
        hint = 0
    with nogil:
        for i in range(n):
            at = hint + i if hint + i < n else hint + i - n
            row = row_at(first, rows[at])
            seen = states_of_row(row)
            if (seen >> R_DELETION_STARTED) & 1:
                status |= SOME_STARTED
                place = at
                if not look_at_all:
                    break
            all_successful = all_successful and not seen & ~(1 << R_DELETION_SUCCESSFUL)
            if (seen >> R_DELETION_INELIGIBLE) & 1:
                status |= SOME_INELIGIBLE
            if (seen >> R_NO_ENTRY) & 1:
                status |= SOME_WITHOUT_ENTRY
        else:
            if all_successful:
                status |= ALL_SUCCESSFUL
    return status, place


def slots_in_state(
    columns_t columns,
    const int32_t[::1] rows,  # IN   (n,)    partition rows
    int states,               # bit f set: state f is wanted
    uint64_t[::1] slots,      # OUT  (n,)    assigned slots in such a state
):
    """Which assigned replicas of some rows are in one of some states."""
    first = columns.first
    cdef Py_ssize_t i
    cdef int s
    cdef uint64_t found
    with nogil:
        for i in range(rows.shape[0]):
            kfast_prefetch(
                first.states + first.width * rows[min(i + AHEAD, rows.shape[0] - 1)]
            )
            row = row_at(first, rows[i])
            found = 0
            for s in range(row.record.n_replicas):
                found |= (<uint64_t> ((states >> row.states[s]) & 1)) << s
            slots[i] = found


def count_by_broker(
    columns_t columns,
    const int32_t[::1] rows,    # IN      (n,)    partition rows
    const uint64_t[::1] slots,  # IN      (n,)    slots that count, per row
    int64_t[::1] counts,        # IN OUT  (B,)    how many each broker has
):
    """Count replicas by broker row."""
    first = columns.first
    cdef Py_ssize_t i
    cdef uint64_t left
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            left = slots[i]
            while left:
                counts[row.brokers[kfast_lowest(left)]] += 1
                left &= left - 1


def list_by_broker(
    columns_t columns,
    const int32_t[::1] rows,    # IN      (n,)    partition rows
    const uint64_t[::1] slots,  # IN      (n,)    slots that count, per row
    int64_t[::1] place,         # IN OUT  (B,)    where each broker's part begins, then ends
    int32_t[::1] hosted,        # OUT     (m,)    rows, broker by broker
    uint64_t[::1] slot,         # OUT     (m,)    the broker's slot in each, as a mask
):
    """List replicas by broker row, each broker's in the order of `rows`."""
    first = columns.first
    cdef Py_ssize_t i
    cdef int s
    cdef int64_t at
    cdef uint64_t left
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            left = slots[i]
            while left:
                s = kfast_lowest(left)
                at = place[row.brokers[s]]
                hosted[at] = rows[i]
                slot[at] = (<uint64_t> 1) << s
                place[row.brokers[s]] = at + 1
                left &= left - 1


def forget_partitions(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)  partition rows
):
    """Drop assignment and leadership of some partitions; their states stay.

    Returns how many had leadership.

    Source: section 1.6, `remove_topic`.
    """
    columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t n_led = 0
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            n_led += (row.record.flags & FLAG_HAS_LEADERSHIP) != 0
            set_masks(row.record, 0, 0, 0, row.record.offline_dir)
            row.record.n_replicas = 0
            row.record.leader = NO_LEADER
            row.record.flags &= FLAG_BEING_REASSIGNED
    return n_led


def free_partitions(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)    partition rows
    int32_t[::1] freed,       # OUT     (n,)    rows that are free now
):
    """Free the rows of which nothing is left; returns how many.

    What is left may be an assignment, leadership, the mark of a reassignment, a state of the
    partition or of a replica, or an offline directory.
    """
    columns.check_writable()
    first = columns.first
    cdef int32_t* partition = columns.partition
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef int s
    cdef bint used
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            used = row.record.n_replicas or row.record.flags & ~FLAG_ASSIGNED
            used = used or row.record.offline_dir
            used = used or not (row.record.partition_state == P_NON_EXISTENT
                                or row.record.partition_state == P_NO_ENTRY)
            for s in range(row.record.n_slots):
                used = used or row.states[s] != R_NO_ENTRY
            if used:
                continue
            for s in range(row.record.n_slots):
                put_broker(row, s, -1)
            memset(row.record, 0, sizeof(row.record[0]))
            row.record.leader = NO_LEADER
            row.record.partition_state = P_NO_ENTRY
            partition[row.index] = -1
            freed[n] = <int32_t> row.index
            n += 1
    return n
