"""A failure of brokers in one visit to each partition.

Nearly all rows lose replicas and keep a leader, old or new: `losing.pxd` takes all their steps
without a branch. What is left goes through the functions that the machines run, one step after the
other.

Source: docs/controller.md, section 6.2; Kafka 3.9, `KafkaController.onReplicasBecomeOffline`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.bring_online cimport bring_one_online
from kfast.kernels.broker_groups cimport order_by_rank
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.effects cimport append_effect, begin_steps, close_gaps
from kfast.kernels.election cimport NOT_ASKED_RULE, OFFLINE
from kfast.kernels.fetch cimport fetch_row
from kfast.kernels.losing cimport (
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
from kfast.kernels.slots cimport (
    AHEAD,
    P_NEW,
    P_OFFLINE,
    P_ONLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    Effect,
    broker_t,
    chunk_start,
    has_bit,
    record_t,
)
from kfast.kernels.visits cimport Rules, chosen_slots, is_led_by_dead


cdef inline bint may_lose(const Rules* rules) noexcept nogil:
    """Whether what is Online may go Offline and come back by Kafka's election."""
    return (
        (rules.partition_offline >> P_ONLINE) & (rules.partition_online >> P_OFFLINE)
        & (rules.replica >> R_ONLINE) & 1 and rules.strategy == OFFLINE
    )


cdef inline Py_ssize_t lose_run(
    record_t* records, broker_t* replicas, uint8_t* states, int width,
    const uint64_t* leader_offline, const int32_t* rows, const int8_t* decided, Py_ssize_t begin,
    Py_ssize_t end, ShrinkContext* losing, Effect** ends
) noexcept nogil:
    """Rows that lose replicas and keep a leader, up to the first that does not; its place."""
    cdef Py_ssize_t i, row
    cdef uint32_t eligible = eligible_slots(NOT_ASKED_RULE)
    cdef ShrunkRow loss
    for i in range(begin, end):
        if i + AHEAD < end:
            row = rows[i + AHEAD]
            fetch_row(&records[row], &replicas[width * row], &states[width * row])
        row = rows[i]
        if decided != NULL:
            eligible = eligible_slots(decided[i])
        if has_bit(leader_offline, row) or not lose_replicas(
            &records[row], &replicas[width * row], &states[width * row], width, eligible, losing,
            &loss if ends != NULL else NULL,
        ):
            return i
        if ends != NULL:
            append_losses(
                ends, &loss, &records[row], &replicas[width * row], row, losing.rank
            )
    return end


cdef void fail_row(
    record_t* record, broker_t* brokers, uint8_t* states, Py_ssize_t row, const uint8_t* status,
    const int32_t* topic_row, const uint8_t* topic_flags, uint64_t* leader_offline,
    uint64_t* pending, const uint8_t* chosen, const int32_t* rank, int decided,
    const Rules* rules, int64_t* offline, int64_t* online, int64_t* replica, int64_t* counts,
    Py_ssize_t n_brokers, Effect** ends
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
    if is_led_by_dead(record, brokers, status, row, leader_offline):
        move_partition(record, row, 0, P_OFFLINE, rules.partition_offline, pending, codes, effects,
                       offline)
        counts[0] += 1
        if keeping:
            append_effect(&ends[0], effects)
    if record.partition_state == P_OFFLINE or record.partition_state == P_NEW:
        bring_one_online(
            record, brokers, status, row, &topic_row[row], topic_flags, rules.strategy,
            rules.partition_online, rules.controller_epoch, rules.recovery_supported, decided,
            False, rules.counting, leader_offline, pending, effects, online,
        )
        counts[1] += 1
        if keeping:
            append_effect(&ends[1], effects)
    slots = chosen_slots(record, brokers, chosen)
    if slots:
        flags = topic_flags[topic_row[row]] if rules.empties_unclean else 0
        n = order_by_rank(brokers, slots, rank, order)
        n = <int> change_row(
            record, brokers, states, row, order, n, flags, R_OFFLINE, rules.replica,
            rules.controller_epoch, False, rules.without_leadership, rules.empties_unclean,
            rules.counting, leader_offline, codes, effects, replica, n_brokers,
        )
        counts[2] += n
        for k in range(n if keeping else 0):
            append_effect(&ends[2], &effects[k])


cdef void fail_chunk(
    columns_t columns, const uint8_t[::1] chosen, const int32_t[::1] rows,
    const int8_t[::1] decided, Py_ssize_t begin, Py_ssize_t end, Rules rules, int64_t* offline,
    int64_t* online, int64_t* replica, int64_t* counts, Py_ssize_t n_brokers, Effect[::1] effects,
    ShrinkContext losing
) noexcept nogil:
    cdef int width = <int> columns.width
    cdef uint8_t* states = columns.replica_state
    cdef const uint8_t* status = columns.broker_status
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    cdef uint64_t* leader_offline = columns.leader_offline
    cdef uint64_t* pending = columns.pending
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row, last
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
                i = lose_run(records, replicas, states, 3, leader_offline,
                             &rows[0], answers, i, last, &losing, NULL)
            elif width == 3:
                i = lose_run(records, replicas, states, 3, leader_offline,
                             &rows[0], answers, i, last, &losing, ends)
            else:
                i = lose_run(records, replicas, states, width,
                             leader_offline, &rows[0], answers, i, last, &losing, asked)
            if i == last:
                add_losses(&losing, rules.counting, offline, online, replica, n_brokers, counts)
                continue
        row = rows[i]
        fail_row(
            &records[row], &replicas[width * row], &states[width * row], row, status, topic_row,
            topic_flags, leader_offline, pending, &chosen[0], losing.rank,
            NOT_ASKED_RULE if answers == NULL else answers[i], &rules, offline, online, replica,
            counts, n_brokers, asked,
        )
        i += 1
    add_losses(&losing, rules.counting, offline, online, replica, n_brokers, counts)


def fail_hosted(
    columns_t columns,
    const uint8_t[::1] chosen,      # IN      (B+1,)  1: the broker failed; the last is none
    const int32_t[::1] group_rank,  # IN      (B,)    order of the brokers, `group_ranks`
    const int32_t[::1] rows,        # IN      (n,)    rows that may track one, ascending
    uint32_t partition_offline,     # bit f set: a partition in state f may become Offline
    uint32_t partition_online,      # bit f set: a partition in state f may become Online
    uint32_t replica_offline,       # bit f set: a replica in state f may become Offline
    int strategy,                   # `Profile.kernel_strategy`
    int controller_epoch,
    int without_leadership,         # `Profile.without_leadership`
    bint empties_unclean,           # `Profile.empties_unclean_isr`
    bint recovery_supported,        # an unclean leader starts in recovery
    bint counting,                  # fill all of the tallies, not only the counters
    const int8_t[::1] decided,      # IN      (n,)    what a user's rule says; or (0,)
    int64_t[:, ::1] offline_tally,  # IN OUT  (threads, width)  partitions to Offline
    int64_t[:, ::1] online_tally,   # IN OUT  (threads, width)  partitions to Online
    int64_t[:, ::1] replica_tally,  # IN OUT  (threads, width)  replicas to Offline
    int64_t[:, ::1] counts,         # IN OUT  (threads, 8)  targets of each step
    Effect[::1] effects,            # OUT     effects, step after step; or none
    uint32_t[::1] marks,            # OUT     (B+1,)  zeros: room for each broker's marks
    uint64_t[:, ::1] sums,          # IN OUT  (threads, B+1)  zeros: room to count in
):
    """Brokers failed: leaderless partitions go Offline, are elected, and lose replicas.

    Source: section 6.2, `replicas_become_offline`, steps 2 to 4.
    """
    columns.check_writable()
    cdef const uint8_t* broker_status = columns.broker_status
    cdef int threads = <int> replica_tally.shape[0]
    cdef Py_ssize_t n_brokers = (replica_tally.shape[1] - TALLY_BROKERS) // 2
    cdef Py_ssize_t b
    cdef int t
    cdef ShrinkContext losing[64]
    cdef Rules rules = Rules(
        partition_offline=partition_offline, partition_online=partition_online,
        replica=replica_offline, strategy=strategy, controller_epoch=controller_epoch,
        without_leadership=without_leadership, empties_unclean=empties_unclean,
        recovery_supported=recovery_supported, counting=counting,
    )
    for b in range(marks.shape[0] - 1):
        marks[b] = marks_of(broker_status[b], chosen[b])
    for t in range(threads):
        losing[t] = ShrinkContext(
            controller_epoch=controller_epoch, again=all_if((replica_offline >> R_OFFLINE) & 1),
            marks=&marks[0], rank=&group_rank[0], n_brokers=marks.shape[0] - 1, sums=&sums[t, 0],
            rows=0, elected=0, imbalanced=0,
        )
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        fail_chunk(
            columns, chosen, rows, decided, chunk_start(rows, t, threads),
            chunk_start(rows, t + 1, threads), rules, &offline_tally[t, 0], &online_tally[t, 0],
            &replica_tally[t, 0], &counts[t, 0], n_brokers, effects, losing[t],
        )
    close_gaps(3, effects, rows, counts)
