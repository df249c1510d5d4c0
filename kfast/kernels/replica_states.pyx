"""Move replicas from state to state, where the cache is the store.

A replica's target state decides its requests, its record and its new state; the matrix of legal
transitions is an argument, so that a profile is data.

Source: docs/controller.md, sections 2.2 to 2.6; Kafka 3.9, `ReplicaStateMachine`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.broker_groups cimport order_by_hash, order_by_rank
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.replica_states cimport change_row
from kfast.kernels.slots cimport (
    AHEAD,
    FLAG_HAS_LEADERSHIP,
    LEADERLESS_MOVED,
    R_DELETION_INELIGIBLE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    Effect,
    chunk_start,
    first_slots,
    kfast_count,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    write_bit,
)
from kfast.kernels.starting cimport announce_row, forget_row


cdef void change_chunk(
    columns_t columns, const int32_t[::1] rows, const uint64_t[::1] slots,
    const int32_t[::1] group_rank, bint each, Py_ssize_t begin, Py_ssize_t end,
    Py_ssize_t first_target, int target, uint32_t valid_previous, int controller_epoch, bint defer,
    int without_leadership, bint empties_unclean, bint any_queued, bint counting,
    uint8_t[::1] codes, Effect[::1] effects, int64_t* tally, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t width = columns.width
    cdef uint8_t* states = columns.replica_state
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    cdef uint64_t* leader_offline = columns.leader_offline
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t i, row
    cdef Py_ssize_t at = first_target
    cdef uint8_t order[64]
    cdef int n
    cdef uint8_t flags = 0
    cdef bint ask_topic = any_queued or empties_unclean
    for i in range(begin, end):
        if i + AHEAD < end:
            row = rows[i + AHEAD]
            kfast_prefetch(&records[row])
            kfast_prefetch(&replicas[width * row])
            kfast_prefetch(&states[width * row])
        row = rows[i]
        if ask_topic:
            flags = topic_flags[topic_row[row]]
        if each:
            n = order_by_hash(&replicas[width * row], slots[i], <uint32_t*> &group_rank[0], order)
        else:
            n = order_by_rank(&replicas[width * row], slots[i], &group_rank[0], order)
        at += change_row(
            &records[row], &replicas[width * row], &states[width * row], row, order, n, flags,
            target, valid_previous, controller_epoch, defer, without_leadership,
            empties_unclean, counting, leader_offline, &codes[at],
            &effects[at] if effects.shape[0] else NULL, tally, n_brokers,
        )


def count_targets(const uint64_t[::1] slots):
    """How many replicas some (row, slots) pairs name: the number of bits in `slots`."""
    cdef Py_ssize_t i, total = 0
    with nogil:
        for i in range(slots.shape[0]):
            total += kfast_count(slots[i])
    return total


def change_replicas(
    columns_t columns,
    const int32_t[::1] rows,        # IN      (n,)    partition rows, ascending, each once
    const uint64_t[::1] slots,      # IN      (n,)    slots to move, per row
    const int32_t[::1] group_rank,  # IN      (B,)    order of the brokers, or their hashes
    bint each,                      # each partition is a call of its own: they are hashes
    int target,                     # `schema.ReplicaState`
    uint32_t valid_previous,        # bit f set: the transition from state f is legal
    int controller_epoch,
    bint defer_shrink,              # a store decides what becomes of the ISR
    int without_leadership,         # `profiles.WithoutLeadership`, of replicas going Offline
    bint empties_unclean,           # an ISR may become empty where unclean election is allowed
    bint any_queued,                # some topic is queued: look at topic_flags
    bint counting,                  # fill all of the tally, not only the counters
    uint8_t[::1] codes,             # OUT     (m,)    `schema.Code` per replica
    Effect[::1] effects,            # OUT     (m,)    what became of each; or (0,)
    int64_t[:, ::1] tally,          # IN OUT  (threads, width)
):
    """Move replicas to a target state; m is the number of bits in `slots`.

    Replicas come in the order (row, place of the broker among those of the call). The number of
    threads is that of the tally's rows; nothing else depends on it.

    Source: section 2.4; Kafka 3.9, `ZkReplicaStateMachine.doHandleStateChanges`.
    """
    columns.check_writable()
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t n_brokers = (tally.shape[1] - TALLY_BROKERS) // 2
    cdef Py_ssize_t begin[65]
    cdef Py_ssize_t first[65]
    cdef Py_ssize_t i
    cdef int t
    with nogil:
        first[0] = 0
        for t in range(threads + 1):
            begin[t] = chunk_start(rows, t, threads)
        for t in range(1, threads):
            first[t] = first[t - 1]
            for i in range(begin[t - 1], begin[t]):
                first[t] += kfast_count(slots[i])
        for t in prange(threads, schedule="static", num_threads=threads):
            change_chunk(
                columns, rows, slots, group_rank, each, begin[t], begin[t + 1], first[t], target,
                valid_previous, controller_epoch, defer_shrink, without_leadership, empties_unclean,
                any_queued, counting, codes, effects, &tally[t, 0], n_brokers,
            )


def start_replicas(
    columns_t columns,
    const int32_t[::1] online_rank,   # IN      (B,)    order of the brokers, `group_ranks`
    const int32_t[::1] offline_rank,  # IN      (B,)    the same for the offline replicas
    uint32_t valid_online,            # bit f set: Online may be entered from state f
    uint32_t valid_offline,           # bit f set: Offline may be entered from state f
    int controller_epoch,
    bint reset,                       # a new controller forgets what the last one knew
    bint take_offline,                # move the offline ones; otherwise a store is asked later
    bint any_queued,                  # some topic is queued: look at topic_flags
    bint counting,                    # fill all of the tallies, not only the counters
    Effect[::1] went_online,          # OUT     (m,)    what became of each; or (0,)
    Effect[::1] went_offline,         # OUT     (m,)    what became of each; or (0,)
    int64_t[:, ::1] online_tally,     # IN OUT  (threads, width)
    int64_t[:, ::1] offline_tally,    # IN OUT  (threads, width)
):
    """Start the replica machine: give every assigned replica a state, then Online or Offline.

    Kafka moves all online replicas first and all offline ones after; rows are independent, so
    each is visited once. Where effects are kept, the tallies have one row.

    Source: section 2.2; Kafka 3.9, `ReplicaStateMachine.startup`.
    """
    columns.check_writable()
    cdef int threads = <int> online_tally.shape[0]
    cdef Py_ssize_t n_brokers = (online_tally.shape[1] - TALLY_BROKERS) // 2
    cdef Py_ssize_t words = columns.n_words
    cdef Py_ssize_t last
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        last = min(64 * (words * (t + 1) // threads), columns.n_partitions)
        start_chunk(
            columns, online_rank, offline_rank, 64 * (words * t // threads), last, valid_online,
            valid_offline, controller_epoch, reset, take_offline, any_queued, counting, went_online,
            went_offline, &online_tally[t, 0], &offline_tally[t, 0], n_brokers,
        )


cdef void start_chunk(
    columns_t columns, const int32_t[::1] online_rank, const int32_t[::1] offline_rank,
    Py_ssize_t begin, Py_ssize_t end, uint32_t valid_online, uint32_t valid_offline,
    int controller_epoch, bint reset, bint take_offline, bint any_queued, bint counting,
    Effect[::1] went_online, Effect[::1] went_offline, int64_t* online_tally,
    int64_t* offline_tally, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t width = columns.width
    cdef uint8_t* states = columns.replica_state
    cdef const uint8_t* status = columns.broker_status
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    cdef uint64_t* leader_offline = columns.leader_offline
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    cdef Py_ssize_t n_online = 0
    cdef Py_ssize_t n_offline = 0
    cdef const int32_t* first_online = &online_rank[0] if online_rank.shape[0] else NULL
    cdef const int32_t* first_offline = &offline_rank[0] if offline_rank.shape[0] else NULL
    cdef bint keeping = went_online.shape[0] + went_offline.shape[0] > 0
    cdef uint64_t live, online, offline
    cdef uint8_t flags
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    cdef int s, n
    for row in range(begin, end):
        record = &records[row]
        if reset:
            forget_row(record, &states[width * row], online_tally)
        live = liveness_of(record, &replicas[width * row], status).live
        if reset:
            write_bit(leader_offline, row, record.flags & FLAG_HAS_LEADERSHIP
                      and not leader_is_online(record, &replicas[width * row], live))
        for s in range(record.n_replicas):
            states[width * row + s] = R_ONLINE if (live >> s) & 1 else R_DELETION_INELIGIBLE
        online = live & first_slots(record.n_replicas)
        offline = first_slots(record.n_replicas) & ~live
        flags = topic_flags[topic_row[row]] if any_queued else 0
        if keeping:
            n = order_by_rank(&replicas[width * row], online, first_online, order)
            n_online += change_row(
                record, &replicas[width * row], &states[width * row], row, order, n,
                flags, R_ONLINE, valid_online, controller_epoch, False,
                LEADERLESS_MOVED, False, counting, leader_offline, codes,
                &went_online[n_online] if online else NULL, online_tally, n_brokers,
            )
        elif counting:
            announce_row(record, &replicas[width * row], online, online_tally)
        if offline and take_offline:
            n = order_by_rank(&replicas[width * row], offline, first_offline, order)
            n_offline += change_row(
                record, &replicas[width * row], &states[width * row], row, order, n,
                flags, R_OFFLINE, valid_offline, controller_epoch, False,
                LEADERLESS_MOVED, False, counting, leader_offline, codes,
                &went_offline[n_offline] if keeping else NULL,
                offline_tally, n_brokers,
            )


def count_started(
    columns_t columns,
):
    """How many assigned replicas are online, and how many are not."""
    cdef Py_ssize_t width = columns.width
    cdef const uint8_t* broker_status = columns.broker_status
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    cdef Py_ssize_t online = 0
    cdef Py_ssize_t assigned = 0
    cdef uint64_t live
    with nogil:
        for row in range(columns.n_partitions):
            live = liveness_of(&records[row], &replicas[width * row], broker_status).live
            online += kfast_count(live & first_slots(records[row].n_replicas))
            assigned += records[row].n_replicas
    return online, assigned - online
