"""Counts over the whole cluster.

Source: docs/controller.md, sections 1.5 and 1.6.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.min_isr cimport is_under_min_isr, needed_in_sync
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    NarrowRecord,
    P_NEW,
    P_OFFLINE,
    TOPIC_QUEUED,
    TOPIC_STARTED,
    WideRecord,
    broker_is_live,
    first_slots,
    is_imbalanced,
    kfast_count,
    leader_is_online,
    liveness_of,
    prefetch_row,
    refresh_leader,
    row_at,
    row_t,
    topic_flags_of,
    write_bit,
)


def layout():
    """Bytes of records and effects."""
    return {
        "narrow_record": sizeof(NarrowRecord),
        "wide_record": sizeof(WideRecord),
        "effect": sizeof(Effect),
    }


cdef inline bint is_as_most(row_t row) noexcept nogil:
    """Whether a partition is led by its preferred replica, which is live, and not reassigned."""
    record = row.record
    return (
        record.flags & (FLAG_HAS_LEADERSHIP | FLAG_BEING_REASSIGNED) == FLAG_HAS_LEADERSHIP
        and record.n_replicas and record.leader == <int32_t> row.brokers[0]
        and not (record.adding | record.removing | record.offline_dir)
        and broker_is_live(row.broker_status[row.brokers[0]])
    )


def recount(
    columns_t columns,
):
    """Make both bitmaps and the counters afresh.

    Returns how many partitions are offline, imbalanced, with leadership, with an offline directory,
    and being reassigned.
    """
    columns.check_bitmaps()
    first = columns.first
    cdef Py_ssize_t i
    cdef int64_t offline = 0
    cdef int64_t imbalanced = 0
    cdef int64_t n_led = 0
    cdef int64_t n_offline_dirs = 0
    cdef int64_t n_reassigned = 0
    cdef uint8_t flags
    cdef int state
    with nogil:
        for i in range(first.n_rows):
            row = row_at(first, i)
            if i & 63 == 0:
                row.leader_offline[i >> 6] = 0
                row.pending[i >> 6] = 0
            state = row.record.partition_state
            if state == P_OFFLINE or state == P_NEW:
                write_bit(row.pending, i, True)
            elif is_as_most(row):
                n_led += 1
                continue
            n_offline_dirs += row.record.offline_dir != 0
            n_reassigned += (row.record.flags & FLAG_BEING_REASSIGNED) != 0
            flags = topic_flags_of(row)
            offline += state == P_OFFLINE and not flags & TOPIC_STARTED
            if not flags & TOPIC_QUEUED:
                imbalanced += is_imbalanced(row)
            if row.record.flags & FLAG_HAS_LEADERSHIP:
                n_led += 1
                refresh_leader(row)
    return offline, imbalanced, n_led, n_offline_dirs, n_reassigned


def count_imbalanced(
    columns_t columns,
    const int32_t[::1] rows,  # IN  (n,)    partition rows
):
    """How many of some partitions count as imbalanced, whether their topic is queued or not."""
    first = columns.first
    cdef Py_ssize_t i
    cdef int64_t n = 0
    with nogil:
        for i in range(rows.shape[0]):
            n += is_imbalanced(row_at(first, rows[i]))
    return n


def survey_leaders(
    columns_t columns,
    bint any_queued,         # some topic is queued: its partitions do not count
    int64_t[::1] preferred,  # IN OUT  (B,)    partitions by their first replica
    int64_t[::1] others,     # IN OUT  (B,)    those of them that another broker leads
    int32_t[::1] rows,       # OUT     (P,)    rows of the latter, ascending
):
    """Who leads what others should; returns how many rows another leads.

    A partition without leadership counts as one of its first replica's, not as led by another.

    Source: section 6.8, auto, steps 1 and 2.
    """
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef int32_t preferred_broker
    cdef bint moved
    with nogil:
        for i in range(first.n_rows):
            row = row_at(first, i)
            if not row.record.n_replicas:
                continue
            if any_queued and topic_flags_of(row) & TOPIC_QUEUED:
                continue
            preferred_broker = <int32_t> row.brokers[0]
            moved = row.record.flags & FLAG_HAS_LEADERSHIP and (
                row.record.leader != preferred_broker
            )
            preferred[preferred_broker] += 1
            # Written for every row, and kept where it counts: that needs no branch.
            rows[n] = <int32_t> i
            n += moved
        for i in range(n):
            others[first.brokers[first.width * rows[i]]] += 1
    return n


def recheck_leaders(
    columns_t columns,
    const int32_t[::1] marked,  # IN      (m,)    rows that others may lead, ascending
    uint64_t[::1] bits,         # IN OUT  bitmap  the same; kept for those that others lead
    int64_t[::1] others,        # IN OUT  (B,)    partitions that others lead, by preferred
    int32_t[::1] rows,          # OUT     (m,)    rows that others lead, ascending
):
    """What `survey_leaders` finds, where only some rows may have changed their leader.

    Returns how many are led by another than the preferred replica. No topic is queued.
    """
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t n_marked = marked.shape[0]
    cdef int32_t preferred_broker
    with nogil:
        for i in range(n_marked):
            if i + AHEAD < n_marked:
                prefetch_row(first, marked[i + AHEAD])
            row = row_at(first, marked[i])
            preferred_broker = <int32_t> row.brokers[0]
            if row.record.n_replicas and row.record.flags & FLAG_HAS_LEADERSHIP and (
                row.record.leader != preferred_broker
            ):
                others[preferred_broker] += 1
                rows[n] = <int32_t> row.index
                n += 1
            else:
                write_bit(&bits[0], row.index, False)
    return n


cdef inline uint8_t health_of(row_t row, uint64_t live, int32_t min_isr) noexcept nogil:
    """What an operator asks of a partition that has an assignment: see `take_census`."""
    record = row.record
    cdef uint64_t assigned = first_slots(record.n_replicas)
    cdef uint64_t kept = assigned & ~(<uint64_t> record.adding)
    cdef int in_sync = kfast_count(record.isr & live)
    cdef int needed = needed_in_sync(min_isr, record.n_replicas)
    cdef bint led = leader_is_online(row, live) and record.flags & FLAG_HAS_LEADERSHIP
    cdef uint8_t health = not led
    health |= <uint8_t> is_under_min_isr(in_sync, needed) << 1
    health |= <uint8_t> (in_sync == needed) << 2
    health |= <uint8_t> (kfast_count(record.isr & live & assigned) < kfast_count(kept)) << 3
    health |= <uint8_t> (not live & assigned) << 4
    health |= <uint8_t> (led and <int32_t> row.brokers[0] != record.leader) << 5
    return health


def take_census(
    columns_t columns,
    const int32_t[::1] min_isr,  # IN   (T,)    min.insync.replicas in force
    uint8_t[::1] health,         # OUT  (P,)    bits: see below
    int64_t[:, ::1] per_broker,  # OUT  (B, 3)  leaders, replicas, replicas in sync
):
    """Find the health of each partition, and count per broker.

    Bits of the health: 1 offline (no live leader), 2 under min ISR, 4 at min ISR, 8
    under-replicated, 16 no live replica, 32 led by another than the preferred replica. ISR members
    count where they are live; min ISR is at most the number of assigned replicas. Partitions
    without an assignment have none.
    """
    first = columns.first
    cdef Py_ssize_t i
    cdef uint64_t live
    cdef int s
    with nogil:
        for i in range(first.n_rows):
            row = row_at(first, i)
            health[i] = 0
            if not row.record.flags & FLAG_ASSIGNED:
                continue
            if has_three_in_sync(row):
                health[i] = (3 <= min_isr[row.topic_row[i]]) << 2
                per_broker[row.brokers[0], 0] += 1
                for s in range(3):
                    per_broker[row.brokers[s], 1] += 1
                    per_broker[row.brokers[s], 2] += 1
                continue
            live = liveness_of(row).live
            health[i] = health_of(row, live, min_isr[row.topic_row[i]])
            if not health[i] & 1:
                per_broker[row.record.leader, 0] += 1
            for s in range(row.record.n_replicas):
                per_broker[row.brokers[s], 1] += 1
                per_broker[row.brokers[s], 2] += (row.record.isr & live) >> s & 1


cdef inline bint has_three_in_sync(row_t row) noexcept nogil:
    """Whether a partition is as nearly all are: three live replicas in sync, the first leads."""
    return (
        row.record.n_slots == 3 and row.record.isr == 7
        and is_as_most(row) and row.record.n_replicas == 3
        and broker_is_live(row.broker_status[row.brokers[1]])
        and broker_is_live(row.broker_status[row.brokers[2]])
    )
