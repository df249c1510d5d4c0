"""A failure of brokers in one visit to each partition.

Nearly all rows lose replicas and keep a leader, old or new: `failure_fast_path.pxd` takes all their
steps without a branch. What is left goes through the functions that the machines run, one step
after the other.

Source: docs/controller.md, section 6.2; Kafka 3.9, `KafkaController.onReplicasBecomeOffline`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from kfast.kernels.bring_online cimport bring_one_online
from kfast.kernels.broker_groups cimport order_by_rank
from kfast.kernels.columns cimport Columns, NarrowColumns, WideColumns, columns_t
from kfast.kernels.effects cimport N_COUNTS, append_effect, begin_steps, close_gaps
from kfast.kernels.election cimport NOT_ASKED_RULE, OFFLINE
from kfast.kernels.failure_fast_path cimport (
    MOST_ROWS,
    MOST_SLOTS,
    ShrinkContext,
    ShrunkRow,
    add_losses,
    all_if,
    append_losses,
    eligible_slots,
    lose_replicas,
    marks_of,
)
from kfast.kernels.partition_states cimport move_partition
from kfast.kernels.replica_states cimport change_row
from kfast.kernels.rules cimport Rules, RuleSet
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    P_NEW,
    P_OFFLINE,
    P_ONLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    chosen_slots,
    chunk_start,
    has_bit,
    prefetch_all,
    refresh_leader,
    row_at,
    row_t,
    topic_flags_of,
)


cdef inline bint may_lose(const RuleSet* rules) noexcept nogil:
    """Whether what is Online may go Offline and come back by Kafka's election."""
    return (
        (rules.partition_previous[P_OFFLINE] >> P_ONLINE)
        & (rules.partition_previous[P_ONLINE] >> P_OFFLINE)
        & (rules.replica_previous[R_OFFLINE] >> R_ONLINE) & 1
        and rules.offline_strategy == OFFLINE
    )


cdef inline Py_ssize_t lose_run(
    row_t first, int width, const int32_t* rows, const int8_t* decided, Py_ssize_t begin,
    Py_ssize_t end, ShrinkContext* losing, Effect** ends
) noexcept nogil:
    """Rows that lose replicas and keep a leader, up to the first that does not; its place."""
    cdef Py_ssize_t i
    cdef uint32_t eligible = eligible_slots(NOT_ASKED_RULE)
    cdef ShrunkRow loss
    first.width = width
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch_all(first, rows[i + AHEAD])
        row = row_at(first, rows[i])
        if decided != NULL:
            eligible = eligible_slots(decided[i])
        if has_bit(row.leader_offline, row.index) or not lose_replicas(
            row, width, eligible, losing, &loss if ends != NULL else NULL
        ):
            return i
        if ends != NULL:
            append_losses(ends, &loss, row, losing.rank)
    return end


cdef void fail_row(
    row_t row, const uint8_t* chosen, const int32_t* rank, int decided, const RuleSet* rules,
    int64_t* offline, int64_t* online, int64_t* replica, int64_t* counts, Py_ssize_t n_brokers,
    Effect** ends
) noexcept nogil:
    """All steps of a failure for one partition, whatever state it is in."""
    cdef uint64_t slots
    cdef uint8_t flags
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    cdef Effect scratch[64]
    cdef bint keeping = ends != NULL
    cdef Effect* effects = scratch if keeping else NULL
    cdef int k, n
    if refresh_leader(row):
        move_partition(row, 0, P_OFFLINE, rules, codes, effects, offline)
        counts[0] += 1
        if keeping:
            append_effect(&ends[0], effects)
    if row.record.partition_state == P_OFFLINE or row.record.partition_state == P_NEW:
        bring_one_online(row, rules, 0, rules.offline_strategy, decided, effects, online)
        counts[1] += 1
        if keeping:
            append_effect(&ends[1], effects)
    slots = chosen_slots(row, chosen, row.record.n_replicas)
    if slots:
        flags = topic_flags_of(row) if rules.empties_unclean else 0
        n = order_by_rank(row.brokers, slots, rank, order)
        n = <int> change_row(
            row, rules, order, n, R_OFFLINE, flags, codes, effects, replica, n_brokers
        )
        counts[2] += n
        for k in range(n if keeping else 0):
            append_effect(&ends[2], &effects[k])


cdef void fail_chunk(
    row_t first, const uint8_t[::1] chosen, const int32_t[::1] rows,
    const int8_t[::1] decided, Py_ssize_t begin, Py_ssize_t end, RuleSet rules, int64_t* offline,
    int64_t* online, int64_t* replica, int64_t* counts, Py_ssize_t n_brokers, Effect[::1] effects,
    ShrinkContext losing
) noexcept nogil:
    cdef int width = <int> first.width
    cdef Py_ssize_t last
    cdef Py_ssize_t i = begin
    cdef bint keeping = effects.shape[0] != 0
    cdef bint may = width <= MOST_SLOTS and may_lose(&rules)
    cdef const int8_t* answers = &decided[0] if decided.shape[0] else NULL
    cdef Effect* ends[3]
    cdef Effect** asked = ends if keeping else NULL
    begin_steps(ends, 3, effects, rows.shape[0], begin)
    while i < end:
        if may:
            last = min(i + MOST_ROWS - losing.rows, end)
            # What most calls are has a loop of its own: three replicas and no effects.
            if width == 3 and not keeping:
                i = lose_run(first, 3, &rows[0], answers, i, last, &losing, NULL)
            elif width == 3:
                i = lose_run(first, 3, &rows[0], answers, i, last, &losing, ends)
            else:
                i = lose_run(first, width, &rows[0], answers, i, last, &losing, asked)
            if i == last:
                add_losses(&losing, rules.counting, offline, online, replica, n_brokers, counts)
                continue
        fail_row(
            row_at(first, rows[i]), &chosen[0], losing.rank,
            NOT_ASKED_RULE if answers == NULL else answers[i], &rules, offline, online, replica,
            counts, n_brokers, asked,
        )
        i += 1
    add_losses(&losing, rules.counting, offline, online, replica, n_brokers, counts)


cdef int fail_all(
    columns_t columns, const RuleSet* rules, const uint8_t[::1] chosen,
    const int32_t[::1] group_rank, const int32_t[::1] rows, const int8_t[::1] decided,
    int64_t[:, :, ::1] tally, Effect[::1] effects, int64_t* counts
) except -1:
    """Each thread's share of the rows; `counts` are the targets of each step, thread by thread."""
    cdef int threads = <int> tally.shape[1]
    cdef Py_ssize_t n_brokers = (tally.shape[2] - TALLY_BROKERS) // 2
    cdef Py_ssize_t places = chosen.shape[0]
    cdef Py_ssize_t b
    cdef int t
    cdef ShrinkContext losing[64]
    cdef uint32_t* marks = <uint32_t*> calloc(places, sizeof(uint32_t))
    cdef uint64_t* sums = <uint64_t*> calloc(places * threads, sizeof(uint64_t))
    try:
        if marks == NULL or sums == NULL:
            raise MemoryError()
        for b in range(places - 1):
            marks[b] = marks_of(columns.first.broker_status[b], chosen[b])
        for t in range(threads):
            losing[t] = ShrinkContext(
                controller_epoch=rules.controller_epoch,
                again=all_if((rules.replica_previous[R_OFFLINE] >> R_OFFLINE) & 1),
                marks=marks, rank=&group_rank[0], n_brokers=places - 1,
                sums=sums + t * places, rows=0, elected=0, imbalanced=0,
            )
        for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
            fail_chunk(
                columns.first, chosen, rows, decided, chunk_start(rows, t, threads),
                chunk_start(rows, t + 1, threads), rules[0], &tally[0, t, 0], &tally[1, t, 0],
                &tally[2, t, 0], &counts[N_COUNTS * t], n_brokers, effects, losing[t],
            )
    finally:
        free(marks)
        free(sums)
    return 0


def fail_brokers(
    Columns columns not None,
    Rules rules not None,
    const uint8_t[::1] chosen,      # IN      (B+1,)  1: the broker failed; the last is none
    const int32_t[::1] group_rank,  # IN      (B,)    order of the brokers, `group_ranks`
    const int32_t[::1] rows,        # IN      (n,)    rows that may track one, ascending
    const int8_t[::1] decided,      # IN      (n,)    what a user's rule says; or (0,)
    int64_t[:, :, ::1] tally,       # IN OUT  (3, threads, width)  a tally of each step
    Effect[::1] effects,            # OUT     effects, step after step; None where none are kept
):
    """Brokers failed: leaderless partitions go Offline, are elected, and lose replicas.

    Returns how many targets each of these three steps had.

    Source: section 6.2, `replicas_become_offline`, steps 2 to 4.
    """
    cdef int64_t counts[64 * N_COUNTS]
    columns.check_writable()
    memset(counts, 0, sizeof(counts))
    if columns.is_narrow:
        fail_all(<NarrowColumns> columns, &rules.values, chosen, group_rank, rows, decided, tally,
                 effects, counts)
    else:
        fail_all(<WideColumns> columns, &rules.values, chosen, group_rank, rows, decided, tally,
                 effects, counts)
    return close_gaps(3, effects, rows, counts, <int> tally.shape[1])
