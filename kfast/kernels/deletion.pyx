"""What topic deletion asks of whole topics: who is in which state, topic by topic.

Source: docs/controller.md, section 6.12; Kafka 3.9, `TopicDeletionManager`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.permute cimport set_masks
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
)

# `deletion.Status`: what holds of some, or of all, assigned replicas of a topic.
cdef enum:
    SOME_STARTED = 1
    SOME_INELIGIBLE = 2
    ALL_SUCCESSFUL = 4
    SOME_WITHOUT_ENTRY = 8


cdef inline int states_of_row(const uint8_t* states, int n_replicas) noexcept nogil:
    """Which states the assigned replicas of a partition are in: bit f for state f."""
    cdef int seen = 0
    cdef int s
    for s in range(n_replicas):
        seen |= 1 << states[s]
    return seen


def deletion_status(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)    partition rows of one topic
    Py_ssize_t hint,          # where a replica was being deleted when last asked
):
    """Look at the deletion of one topic; returns (status, hint).

    While a replica is being deleted nothing else matters, so the search begins at `hint` and ends
    at the first: asking after each of many answers costs one pass in all. Any hint gives the same
    status.
    """
    cdef Py_ssize_t width = columns.width
    cdef uint8_t* replica_state = columns.replica_state
    records = columns.records
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t i, row
    cdef Py_ssize_t at = 0
    cdef int seen
    cdef int status = 0
    cdef bint all_successful = True
    if hint < 0 or hint >= n:
        hint = 0
    with nogil:
        for i in range(n):
            at = hint + i if hint + i < n else hint + i - n
            row = rows[at]
            seen = states_of_row(&replica_state[width * row], records[row].n_replicas)
            if (seen >> R_DELETION_STARTED) & 1:
                status = SOME_STARTED
                break
            all_successful = all_successful and not seen & ~(1 << R_DELETION_SUCCESSFUL)
            if (seen >> R_DELETION_INELIGIBLE) & 1:
                status |= SOME_INELIGIBLE
            if (seen >> R_NO_ENTRY) & 1:
                status |= SOME_WITHOUT_ENTRY
        else:
            at = 0
            if all_successful:
                status |= ALL_SUCCESSFUL
    return status, at


def slots_in_state(
    columns_t columns,
    const int32_t[::1] rows,  # IN   (n,)    partition rows
    int states,               # bit f set: state f is wanted
    uint64_t[::1] slots,      # OUT  (n,)    assigned slots in such a state
):
    """Which assigned replicas of some rows are in one of some states."""
    cdef Py_ssize_t width = columns.width
    cdef uint8_t* replica_state = columns.replica_state
    records = columns.records
    cdef Py_ssize_t i, row
    cdef int s
    cdef uint64_t found
    with nogil:
        for i in range(rows.shape[0]):
            kfast_prefetch(&replica_state[width * (rows[min(i + AHEAD, rows.shape[0] - 1)])])
            row = rows[i]
            found = 0
            for s in range(records[row].n_replicas):
                found |= (<uint64_t> ((states >> replica_state[width * row + s]) & 1)) << s
            slots[i] = found


def count_by_broker(
    columns_t columns,
    const int32_t[::1] rows,    # IN      (n,)    partition rows
    const uint64_t[::1] slots,  # IN      (n,)    slots that count, per row
    int64_t[::1] counts,        # IN OUT  (B,)    how many each broker has
):
    """Count replicas by broker row."""
    cdef Py_ssize_t width = columns.width
    replicas = columns.replicas
    cdef Py_ssize_t i
    cdef uint64_t left
    with nogil:
        for i in range(rows.shape[0]):
            left = slots[i]
            while left:
                counts[replicas[width * rows[i] + kfast_lowest(left)]] += 1
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
    cdef Py_ssize_t width = columns.width
    replicas = columns.replicas
    cdef Py_ssize_t i
    cdef int s
    cdef int64_t at
    cdef uint64_t left
    with nogil:
        for i in range(rows.shape[0]):
            left = slots[i]
            while left:
                s = kfast_lowest(left)
                at = place[replicas[width * rows[i] + s]]
                hosted[at] = rows[i]
                slot[at] = (<uint64_t> 1) << s
                place[replicas[width * rows[i] + s]] = at + 1
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
    records = columns.records
    cdef Py_ssize_t i
    cdef Py_ssize_t n_led = 0
    with nogil:
        for i in range(rows.shape[0]):
            record = &records[rows[i]]
            n_led += (record.flags & FLAG_HAS_LEADERSHIP) != 0
            set_masks(record, 0, 0, 0, record.offline_dir)
            record.n_replicas = 0
            record.leader = NO_LEADER
            record.flags &= FLAG_BEING_REASSIGNED
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
    cdef Py_ssize_t width = columns.width
    cdef uint8_t* replica_state = columns.replica_state
    cdef int32_t* partition = columns.partition
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t i, row
    cdef Py_ssize_t n = 0
    cdef int s
    cdef bint used
    with nogil:
        for i in range(rows.shape[0]):
            row = rows[i]
            record = &records[row]
            used = record.n_replicas or record.flags & ~FLAG_ASSIGNED or record.offline_dir
            used = used or not (record.partition_state == P_NON_EXISTENT
                                or record.partition_state == P_NO_ENTRY)
            for s in range(record.n_slots):
                used = used or replica_state[width * row + s] != R_NO_ENTRY
            if used:
                continue
            for s in range(record.n_slots):
                replicas[width * row + s] = -1
            memset(record, 0, sizeof(record[0]))
            record.leader = NO_LEADER
            record.partition_state = P_NO_ENTRY
            partition[row] = -1
            freed[n] = <int32_t> row
            n += 1
    return n
