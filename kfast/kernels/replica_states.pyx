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
from kfast.kernels.rules cimport Rules, RuleSet
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    chunk_start,
    first_slots,
    has_offline_leader,
    kfast_count,
    liveness_of,
    prefetch_all,
    row_at,
    row_t,
    share_start,
    topic_flags_of,
    write_bit,
)
from kfast.kernels.controller_startup cimport (
    announce_row,
    forget_row,
    set_first_states,
    startup_rules,
)


cdef void change_chunk(
    row_t first, RuleSet rules, const int32_t[::1] rows, const uint64_t[::1] slots,
    const int32_t[::1] group_rank, bint each, Py_ssize_t begin, Py_ssize_t end,
    Py_ssize_t first_target, int target, uint8_t[::1] codes, Effect[::1] effects, int64_t* tally,
    Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t at = first_target
    cdef uint8_t order[64]
    cdef int n
    cdef uint8_t flags = 0
    cdef bint ask_topic = rules.any_queued or rules.empties_unclean
    for i in range(begin, end):
        if i + AHEAD < end:
            prefetch_all(first, rows[i + AHEAD])
        row = row_at(first, rows[i])
        if ask_topic:
            flags = topic_flags_of(row)
        if each:
            n = order_by_hash(row.brokers, slots[i], <uint32_t*> &group_rank[0], order)
        else:
            n = order_by_rank(row.brokers, slots[i], &group_rank[0], order)
        at += change_row(
            row, &rules, order, n, target, flags, &codes[at],
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
    Rules rules not None,
    replicas,               # IN      rows, ascending, each once, and the slots to move of each
    tuple order,            # IN      (B,) order of the brokers, False; or their hashes, True, where
                            #         each partition is a call of its own
    int target,             # `schema.ReplicaState`
    uint8_t[::1] codes,     # OUT     (m,)    `schema.Code` per replica
    Effect[::1] effects,    # OUT     (m,)    what became of each; or (0,)
    int64_t[:, ::1] tally,  # IN OUT  (threads, width)
):
    """Move replicas to a target state; m is the number of their slots.

    A store decides what becomes of an ISR where the rules say so. Replicas come in the order (row,
    place of the broker among those of the call). The number of threads is that of the tally's rows;
    nothing else depends on it.

    Source: section 2.4; Kafka 3.9, `ZkReplicaStateMachine.doHandleStateChanges`.
    """
    columns.check_writable()
    cdef const int32_t[::1] rows = replicas.rows
    cdef const uint64_t[::1] slots = replicas.slots
    cdef const int32_t[::1] group_rank = order[0]
    cdef bint each = order[1]
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t n_brokers = (tally.shape[1] - TALLY_BROKERS) // 2
    cdef Py_ssize_t begin[65]
    cdef Py_ssize_t targets[65]
    cdef Py_ssize_t i
    cdef int t
    with nogil:
        targets[0] = 0
        for t in range(threads + 1):
            begin[t] = chunk_start(rows, t, threads)
        for t in range(1, threads):
            targets[t] = targets[t - 1]
            for i in range(begin[t - 1], begin[t]):
                targets[t] += kfast_count(slots[i])
        for t in prange(threads, schedule="static", num_threads=threads):
            change_chunk(
                columns.first, rules.values, rows, slots, group_rank, each, begin[t], begin[t + 1],
                targets[t], target, codes, effects, &tally[t, 0], n_brokers,
            )


def start_replicas(
    columns_t columns,
    Rules rules not None,
    const int32_t[::1] online_rank,   # IN      (B,)    order of the brokers, `group_ranks`
    const int32_t[::1] offline_rank,  # IN      (B,)    the same for the offline replicas
    bint reset,                       # a new controller forgets what the last one knew
    Effect[::1] went_online,          # OUT     (m,)    what became of each; or (0,)
    Effect[::1] went_offline,         # OUT     (m,)    what became of each; or (0,)
    int64_t[:, :, ::1] tally,         # IN OUT  (2, threads, width)  to Online, to Offline
):
    """Start the replica machine: give every assigned replica a state, then Online or Offline.

    Kafka moves all online replicas first and all offline ones after; rows are independent, so
    each is visited once. Where a store is asked, the offline ones move later. Where effects are
    kept, there is one thread.

    Source: section 2.2; Kafka 3.9, `ReplicaStateMachine.startup`.
    """
    columns.check_writable()
    cdef int threads = <int> tally.shape[1]
    cdef Py_ssize_t n_brokers = (tally.shape[2] - TALLY_BROKERS) // 2
    cdef Py_ssize_t n = columns.first.n_rows
    cdef bint take_offline = rules.values.offlines_dead and not rules.values.asks_store
    cdef RuleSet values = startup_rules(&rules.values)
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        start_chunk(
            columns.first, values, online_rank, offline_rank, share_start(n, t, threads),
            share_start(n, t + 1, threads), reset, take_offline, went_online, went_offline,
            &tally[0, t, 0], &tally[1, t, 0], n_brokers,
        )


cdef void start_chunk(
    row_t first, RuleSet rules, const int32_t[::1] online_rank, const int32_t[::1] offline_rank,
    Py_ssize_t begin, Py_ssize_t end, bint reset, bint take_offline, Effect[::1] went_online,
    Effect[::1] went_offline, int64_t* online_tally, int64_t* offline_tally, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n_online = 0
    cdef Py_ssize_t n_offline = 0
    cdef const int32_t* first_online = &online_rank[0] if online_rank.shape[0] else NULL
    cdef const int32_t* first_offline = &offline_rank[0] if offline_rank.shape[0] else NULL
    cdef bint keeping = went_online.shape[0] + went_offline.shape[0] > 0
    cdef uint64_t live, online, offline
    cdef uint8_t flags
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    cdef int n
    for i in range(begin, end):
        row = row_at(first, i)
        if reset:
            forget_row(row, online_tally)
        live = liveness_of(row).live
        if reset:
            write_bit(row.leader_offline, i, has_offline_leader(row, live))
        set_first_states(row, live)
        online = live & first_slots(row.record.n_replicas)
        offline = first_slots(row.record.n_replicas) & ~live
        flags = topic_flags_of(row) if rules.any_queued else 0
        if keeping:
            n = order_by_rank(row.brokers, online, first_online, order)
            n_online += change_row(
                row, &rules, order, n, R_ONLINE, flags, codes,
                &went_online[n_online] if online else NULL, online_tally, n_brokers,
            )
        elif rules.counting:
            announce_row(row, online, online_tally)
        if offline and take_offline:
            n = order_by_rank(row.brokers, offline, first_offline, order)
            n_offline += change_row(
                row, &rules, order, n, R_OFFLINE, flags, codes,
                &went_offline[n_offline] if keeping else NULL, offline_tally, n_brokers,
            )


def count_started(
    columns_t columns,
):
    """How many assigned replicas are online, and how many are not."""
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t online = 0
    cdef Py_ssize_t assigned = 0
    with nogil:
        for i in range(first.n_rows):
            row = row_at(first, i)
            online += kfast_count(liveness_of(row).live & first_slots(row.record.n_replicas))
            assigned += row.record.n_replicas
    return online, assigned - online
