"""Whole events in one visit to each partition.

An event is a short list of steps, and rows are independent: what the steps do to one partition may
be done at once, so that its record comes from memory once. Each step keeps a tally of its own, as
if all partitions had gone through it before the next step began. The steps of a row are the very
functions that the machines run one after the other.

Source: docs/controller.md, sections 6.2 and 6.3; Kafka 3.9,
`KafkaController.onReplicasBecomeOffline`, `onBrokerStartup`, `doControlledShutdown`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from kfast.kernels.bring_online cimport bring_one_online
from kfast.kernels.broker_groups cimport list_slots, order_by_rank
from kfast.kernels.columns cimport Columns, NarrowColumns, WideColumns, columns_t
from kfast.kernels.effects cimport N_COUNTS, append_effect, begin_steps, close_gaps
from kfast.kernels.election cimport NOT_ASKED_RULE
from kfast.kernels.replica_states cimport change_row
from kfast.kernels.rules cimport Rules, RuleSet
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    FLAG_HAS_LEADERSHIP,
    NO_SLOT,
    P_NEW,
    P_OFFLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    chosen_slots,
    chunk_start,
    prefetch_all,
    refresh_leader,
    row_at,
    row_t,
    slot_of,
)


cdef void start_chunk(
    row_t first, const uint8_t[::1] chosen, const int32_t[::1] group_rank,
    const int32_t[::1] rows, Py_ssize_t begin, Py_ssize_t end, RuleSet rules, int64_t* replica,
    int64_t* online, int64_t* counts, Py_ssize_t n_brokers, Effect[::1] recorded
) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint64_t slots
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    cdef Effect scratch[64]
    cdef bint keeping = recorded.shape[0] != 0
    cdef Effect* effects = scratch if keeping else NULL
    cdef Effect* ends[2]
    cdef int k, n
    begin_steps(ends, 2, recorded, rows.shape[0], begin)
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch_all(first, rows[i + AHEAD])
        row = row_at(first, rows[i])
        refresh_leader(row)
        slots = chosen_slots(row, &chosen[0], row.record.n_replicas)
        if slots:
            if keeping:
                n = order_by_rank(row.brokers, slots, &group_rank[0], order)
            else:
                n = list_slots(slots, order)
            n = <int> change_row(
                row, &rules, order, n, R_ONLINE, 0, codes, effects, replica, n_brokers
            )
            counts[1] += n
            for k in range(n if keeping else 0):
                append_effect(&ends[1], &effects[k])
        if row.record.partition_state == P_OFFLINE or row.record.partition_state == P_NEW:
            bring_one_online(
                row, &rules, 0, rules.offline_strategy, NOT_ASKED_RULE, effects, online
            )
            counts[0] += 1
            if keeping:
                append_effect(&ends[0], effects)


cdef int start_all(
    columns_t columns, const RuleSet* rules, const uint8_t[::1] chosen,
    const int32_t[::1] group_rank, const int32_t[::1] rows, int64_t[:, :, ::1] tally,
    Effect[::1] effects, int64_t* counts
) except -1:
    """Each thread's share of the rows; `counts` are the targets of each step, thread by thread."""
    cdef int threads = <int> tally.shape[1]
    cdef Py_ssize_t n_brokers = (tally.shape[2] - TALLY_BROKERS) // 2
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        start_chunk(
            columns.first, chosen, group_rank, rows, chunk_start(rows, t, threads),
            chunk_start(rows, t + 1, threads), rules[0], &tally[1, t, 0], &tally[0, t, 0],
            &counts[N_COUNTS * t], n_brokers, effects,
        )
    return 0


def start_brokers(
    Columns columns not None,
    Rules rules not None,
    const uint8_t[::1] chosen,      # IN      (B+1,)  1: the broker started; the last is none
    const int32_t[::1] group_rank,  # IN      (B,)    order of the brokers, `group_ranks`
    const int32_t[::1] rows,        # IN      (n,)    rows that may track one, ascending
    int64_t[:, :, ::1] tally,       # IN OUT  (2, threads, width)  partitions, replicas to Online
    Effect[::1] effects,            # OUT     effects, step after step; None where none are kept
):
    """Brokers started: their replicas go Online, and waiting partitions are elected.

    Returns how many partitions were to be elected, and how many replicas went Online.

    Source: section 6.2, `broker_startup`, steps 4 and 5.
    """
    cdef int64_t counts[64 * N_COUNTS]
    columns.check_writable()
    memset(counts, 0, sizeof(counts))
    if columns.is_narrow:
        start_all(<NarrowColumns> columns, &rules.values, chosen, group_rank, rows, tally, effects,
                  counts)
    else:
        start_all(<WideColumns> columns, &rules.values, chosen, group_rank, rows, tally, effects,
                  counts)
    return close_gaps(2, effects, rows, counts, <int> tally.shape[1])[:2]


cdef Py_ssize_t shut_down_chunk(
    row_t first, int32_t broker, const int32_t[::1] rows, const int8_t[::1] decided,
    Py_ssize_t begin, Py_ssize_t end, RuleSet rules, int64_t* led, int64_t* followed,
    int64_t* counts, Py_ssize_t n_brokers, int32_t* remaining
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef int slot
    cdef row_t row
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch_all(first, rows[i + AHEAD])
        row = row_at(first, rows[i])
        record = row.record
        refresh_leader(row)
        if record.n_replicas < 2 or not record.flags & FLAG_HAS_LEADERSHIP:
            continue
        slot = slot_of(row.brokers, record.n_replicas, broker)
        if slot == NO_SLOT:
            pass
        elif record.leader == broker:
            bring_one_online(
                row, &rules, 0, rules.shutdown_strategy,
                decided[i] if decided.shape[0] else NOT_ASKED_RULE, NULL, led,
            )
            counts[0] += 1
        else:
            order[0] = <uint8_t> slot
            counts[1] += change_row(
                row, &rules, order, 1, R_OFFLINE, 0, codes, NULL, followed, n_brokers
            )
        if record.leader == broker:
            remaining[n] = <int32_t> row.index
            n += 1
    return n


cdef Py_ssize_t shut_down_all(
    columns_t columns, const RuleSet* rules, int32_t broker, const int32_t[::1] rows,
    const int8_t[::1] decided, int64_t[:, :, ::1] tally, int32_t[::1] remaining, int64_t* counts
) except -1:
    """Each thread's share of the rows, and what is left of it moved up; returns how many are."""
    cdef int threads = <int> tally.shape[1]
    cdef Py_ssize_t n_brokers = (tally.shape[2] - TALLY_BROKERS) // 2
    cdef Py_ssize_t found[64]
    cdef Py_ssize_t i, begin
    cdef Py_ssize_t n = 0
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        found[t] = 0
        if rows.shape[0]:
            found[t] = shut_down_chunk(
                columns.first, broker, rows, decided, chunk_start(rows, t, threads),
                chunk_start(rows, t + 1, threads), rules[0], &tally[0, t, 0], &tally[1, t, 0],
                &counts[N_COUNTS * t], n_brokers, &remaining[0] + chunk_start(rows, t, threads),
            )
    for t in range(threads):
        begin = chunk_start(rows, t, threads)
        for i in range(found[t]):
            remaining[n + i] = remaining[begin + i]
        n += found[t]
    return n


def shut_down_broker(
    Columns columns not None,
    Rules rules not None,
    int32_t broker,             # row of the broker that shuts down
    const int32_t[::1] rows,    # IN      (n,)    rows that may track it, ascending
    const int8_t[::1] decided,  # IN      (n,)    what a user's rule says; or (0,)
    int64_t[:, :, ::1] tally,   # IN OUT  (2, threads, width)  partitions Online, replicas Offline
    int32_t[::1] remaining,     # OUT     (n,)    rows that it leads afterwards
):
    """A broker shuts down: what it leads is led by others, what it follows it leaves.

    Only partitions with more than one replica and with leadership count. Returns how many it
    led, how many it followed, and how many it leads afterwards.

    Source: section 6.3, steps 5 to 9.
    """
    cdef int64_t counts[64 * N_COUNTS]
    cdef Py_ssize_t n_remaining
    columns.check_writable()
    memset(counts, 0, sizeof(counts))
    if columns.is_narrow:
        n_remaining = shut_down_all(<NarrowColumns> columns, &rules.values, broker, rows, decided,
                                    tally, remaining, counts)
    else:
        n_remaining = shut_down_all(<WideColumns> columns, &rules.values, broker, rows, decided,
                                    tally, remaining, counts)
    n_led, n_followed, _ = close_gaps(2, None, rows, counts, <int> tally.shape[1])
    return n_led, n_followed, n_remaining
