"""Counts over the whole cluster.

Source: docs/controller.md, sections 1.5 and 1.6.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.slots cimport (
    AHEAD,
    BROKER_REGISTERED,
    BROKER_SHUTTING_DOWN,
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    P_NEW,
    P_OFFLINE,
    TOPIC_QUEUED,
    TOPIC_STARTED,
    Effect,
    NarrowRecord,
    WideRecord,
    broker_t,
    first_slots,
    is_imbalanced,
    kfast_count,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    record_t,
    write_bit,
)


def layout():
    """Bytes of records and effects."""
    return {
        "narrow_record": sizeof(NarrowRecord),
        "wide_record": sizeof(WideRecord),
        "effect": sizeof(Effect),
    }


cdef inline bint is_as_most(
    const record_t* record, const broker_t* brokers, const uint8_t* status
) noexcept nogil:
    """Whether a partition is led by its preferred replica, which is live, and not reassigned."""
    return (
        record.flags & (FLAG_HAS_LEADERSHIP | FLAG_BEING_REASSIGNED) == FLAG_HAS_LEADERSHIP
        and record.n_replicas and record.leader == <int32_t> brokers[0]
        and not (record.adding | record.removing | record.offline_dir)
        and status[brokers[0]] & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN) == BROKER_REGISTERED
    )


def recount(
    columns_t columns,
):
    """Make both bitmaps and the counters afresh.

    Returns how many partitions are offline, imbalanced, with leadership, with an offline directory,
    and being reassigned.
    """
    columns.check_bitmaps()
    cdef Py_ssize_t width = columns.width
    cdef const uint8_t* broker_status = columns.broker_status
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    cdef uint64_t* leader_offline = columns.leader_offline
    cdef uint64_t* pending = columns.pending
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    cdef int64_t offline = 0
    cdef int64_t imbalanced = 0
    cdef int64_t n_led = 0
    cdef int64_t n_offline_dirs = 0
    cdef int64_t n_reassigned = 0
    cdef uint8_t flags
    cdef int state
    cdef bint led
    with nogil:
        for row in range(columns.n_partitions):
            if row & 63 == 0:
                leader_offline[row >> 6] = 0
                pending[row >> 6] = 0
            state = records[row].partition_state
            if state == P_OFFLINE or state == P_NEW:
                write_bit(pending, row, True)
            elif is_as_most(&records[row], &replicas[width * row], broker_status):
                n_led += 1
                continue
            n_offline_dirs += records[row].offline_dir != 0
            n_reassigned += (records[row].flags & FLAG_BEING_REASSIGNED) != 0
            flags = topic_flags[topic_row[row]]
            offline += state == P_OFFLINE and not flags & TOPIC_STARTED
            if not flags & TOPIC_QUEUED:
                imbalanced += is_imbalanced(&records[row], &replicas[width * row])
            if records[row].flags & FLAG_HAS_LEADERSHIP:
                n_led += 1
                led = leader_is_online(
                    &records[row], &replicas[width * row],
                    liveness_of(&records[row], &replicas[width * row], broker_status).live,
                )
                write_bit(leader_offline, row, not led)
    return offline, imbalanced, n_led, n_offline_dirs, n_reassigned


def count_imbalanced(
    columns_t columns,
    const int32_t[::1] rows,  # IN  (n,)    partition rows
):
    """How many of some partitions count as imbalanced, whether their topic is queued or not."""
    cdef Py_ssize_t width = columns.width
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t i
    cdef int64_t n = 0
    with nogil:
        for i in range(rows.shape[0]):
            n += is_imbalanced(&records[rows[i]], &replicas[width * rows[i]])
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
    cdef Py_ssize_t width = columns.width
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    cdef Py_ssize_t n = 0
    cdef int32_t first
    cdef bint moved
    with nogil:
        for row in range(columns.n_partitions):
            if not records[row].n_replicas:
                continue
            if any_queued and topic_flags[topic_row[row]] & TOPIC_QUEUED:
                continue
            first = <int32_t> replicas[width * row]
            moved = records[row].flags & FLAG_HAS_LEADERSHIP and records[row].leader != first
            preferred[first] += 1
            # Written for every row, and kept where it counts: that needs no branch.
            rows[n] = <int32_t> row
            n += moved
        for row in range(n):
            others[replicas[width * rows[row]]] += 1
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
    cdef Py_ssize_t width = columns.width
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t i, row
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t n_marked = marked.shape[0]
    cdef int32_t first
    with nogil:
        for i in range(n_marked):
            if i + AHEAD < n_marked:
                row = marked[i + AHEAD]
                kfast_prefetch(<const void*> &records[row])
                kfast_prefetch(<const void*> &replicas[width * row])
            row = marked[i]
            first = <int32_t> replicas[width * row]
            if records[row].n_replicas and records[row].flags & FLAG_HAS_LEADERSHIP and (
                records[row].leader != first
            ):
                others[first] += 1
                rows[n] = <int32_t> row
                n += 1
            else:
                write_bit(&bits[0], row, False)
    return n


cdef inline uint8_t mark_of(
    const record_t* record, const broker_t* brokers, uint64_t live, int32_t min_isr
) noexcept nogil:
    """What an operator asks of a partition that has an assignment: see `take_census`."""
    cdef uint64_t assigned = first_slots(record.n_replicas)
    cdef uint64_t kept = assigned & ~(<uint64_t> record.adding)
    cdef int in_sync = kfast_count(record.isr & live)
    cdef int needed = min(min_isr, <int32_t> record.n_replicas)
    cdef bint led = leader_is_online(record, brokers, live) and (
        record.flags & FLAG_HAS_LEADERSHIP
    )
    cdef uint8_t mark = not led
    mark |= <uint8_t> (in_sync < needed) << 1
    mark |= <uint8_t> (in_sync == needed) << 2
    mark |= <uint8_t> (kfast_count(record.isr & live & assigned) < kfast_count(kept)) << 3
    mark |= <uint8_t> (not live & assigned) << 4
    mark |= <uint8_t> (led and <int32_t> brokers[0] != record.leader) << 5
    return mark


def take_census(
    columns_t columns,
    const int32_t[::1] min_isr,  # IN   (T,)    min.insync.replicas in force
    uint8_t[::1] marks,          # OUT  (P,)    bits: see below
    int64_t[:, ::1] per_broker,  # OUT  (B, 3)  leaders, replicas, replicas in sync
):
    """Mark what an operator asks of each partition, and count per broker.

    Bits of a mark: 1 offline (no live leader), 2 under min ISR, 4 at min ISR, 8 under-replicated,
    16 no live replica, 32 led by another than the preferred replica. ISR members count where they
    are live; min ISR is at most the number of assigned replicas. Partitions without an
    assignment are not marked.
    """
    cdef Py_ssize_t width = columns.width
    cdef const uint8_t* broker_status = columns.broker_status
    cdef const int32_t* topic_row = columns.topic_row
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    cdef uint64_t live
    cdef int s
    with nogil:
        for row in range(columns.n_partitions):
            marks[row] = 0
            if not records[row].flags & FLAG_ASSIGNED:
                continue
            if has_three_in_sync(&records[row], &replicas[width * row], broker_status):
                marks[row] = (3 <= min_isr[topic_row[row]]) << 2
                per_broker[replicas[width * row], 0] += 1
                for s in range(3):
                    per_broker[replicas[width * row + s], 1] += 1
                    per_broker[replicas[width * row + s], 2] += 1
                continue
            live = liveness_of(&records[row], &replicas[width * row], broker_status).live
            marks[row] = mark_of(
                &records[row], &replicas[width * row], live, min_isr[topic_row[row]]
            )
            if not marks[row] & 1:
                per_broker[records[row].leader, 0] += 1
            for s in range(records[row].n_replicas):
                per_broker[replicas[width * row + s], 1] += 1
                per_broker[replicas[width * row + s], 2] += (records[row].isr & live) >> s & 1


cdef inline bint has_three_in_sync(
    const record_t* record, const broker_t* brokers, const uint8_t* status
) noexcept nogil:
    """Whether a partition is as nearly all are: three live replicas in sync, the first leads."""
    return (
        record.n_slots == 3 and record.isr == 7
        and is_as_most(record, brokers, status) and record.n_replicas == 3
        and status[brokers[1]] & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN) == BROKER_REGISTERED
        and status[brokers[2]] & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN) == BROKER_REGISTERED
    )
