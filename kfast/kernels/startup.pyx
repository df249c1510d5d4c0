"""A controller's start in one visit to each partition, and the hosting index on the way.

The replica machine's start and the first step of the partition machine's are taken on one
partition before the next. Nearly every partition of a healthy cluster has all its replicas online
and is led by one of them: such a one is told at once from its record, and all that is left is to
write its states and to count.

Source: docs/controller.md, sections 2.2, 3.2 and 6.1; Kafka 3.9, `ReplicaStateMachine.startup` and
`PartitionStateMachine.initializePartitionState`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.broker_groups cimport order_by_rank
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.replica_states cimport change_row
from kfast.kernels.rules cimport Rules, RuleSet
from kfast.kernels.slots cimport (
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    MOVED,
    P_ONLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_METADATA,
    broker_is_live,
    broker_t,
    first_slots,
    has_offline_leader,
    kfast_prefetch,
    liveness_of,
    row_at,
    row_t,
    share_start,
    topic_flags_of,
    write_bit,
)
from kfast.kernels.controller_startup cimport (
    announce_row,
    forget_row,
    initialize_partition,
    set_first_states,
    startup_rules,
)

# Rows of a cache line of a hosting list: the next line is fetched while one is written.
cdef enum:
    LINE = 16


cdef inline bint start_healthy(row_t row, int64_t* healthy, int n) noexcept nogil:
    """Start a partition of n slots that is as most are; does nothing, and says so, for another.

    Such a one is led by an assigned replica, every slot is online, none is beyond the assignment,
    and it is not being reassigned.
    """
    cdef bint live = True
    cdef bint led = False
    cdef int s
    record = row.record
    brokers = row.brokers
    if record.flags & (FLAG_ASSIGNED | FLAG_HAS_LEADERSHIP | FLAG_BEING_REASSIGNED) != (
        FLAG_ASSIGNED | FLAG_HAS_LEADERSHIP
    ) or record.n_replicas != n or record.adding | record.removing:
        return False
    for s in range(n):
        live &= broker_is_live(row.broker_status[brokers[s]])
        led |= <int32_t> brokers[s] == record.leader
    if not live & led:
        return False
    # Bytes may alias anything, so they are written after all else has been read.
    for s in range(n):
        healthy[brokers[s]] += 1
    record.offline_dir = 0
    record.partition_state = P_ONLINE
    for s in range(n):
        row.states[s] = R_ONLINE
    return True


cdef void start_row(
    row_t row, const RuleSet* rules, const int32_t* rank, int64_t* online, int64_t* offline,
    int64_t* partition, Py_ssize_t n_brokers
) noexcept nogil:
    """All of the start of one partition, whatever state it is in."""
    cdef uint8_t flags = topic_flags_of(row) if rules.any_queued else 0
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    cdef uint64_t live, assigned
    cdef int n
    forget_row(row, online)
    live = liveness_of(row).live
    assigned = first_slots(row.record.n_replicas)
    write_bit(row.leader_offline, row.index, has_offline_leader(row, live))
    set_first_states(row, live)
    if rules.counting:
        announce_row(row, live & assigned, online)
    if assigned & ~live and rules.offlines_dead:
        n = order_by_rank(row.brokers, assigned & ~live, rank, order)
        change_row(row, rules, order, n, R_OFFLINE, flags, codes, NULL, offline, n_brokers)
    initialize_partition(row, flags, partition)


cdef void start_share(
    row_t first, Py_ssize_t begin, Py_ssize_t end, RuleSet rules, const int32_t* rank,
    int64_t* online, int64_t* offline, int64_t* partition, int64_t* healthy, int64_t* hosted,
    Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t n_rows = 0
    cdef int64_t n_replicas = 0
    cdef int s, n
    cdef bint started
    for i in range(begin, end):
        row = row_at(first, i)
        if i & 63 == 0:
            row.leader_offline[i >> 6] = 0
            row.pending[i >> 6] = 0
        n = row.record.n_slots
        # Numbers that the compiler knows: the loops over slots become straight code.
        if n == 3:
            started = start_healthy(row, healthy, 3)
        elif n == 2:
            started = start_healthy(row, healthy, 2)
        else:
            started = start_healthy(row, healthy, n)
        if started:
            n_rows += 1
            n_replicas += n
            continue
        for s in range(n):
            hosted[row.brokers[s]] += 1
        start_row(row, &rules, rank, online, offline, partition, n_brokers)
    for s in range(n_brokers):
        hosted[s] += healthy[s]
    if rules.counting:
        # What `announce_row` counts, for all of the healthy ones.
        online[TALLY_CODES + MOVED] += n_replicas
        online[TALLY_CELLS + 8 * R_ONLINE + R_ONLINE] += n_replicas
        online[TALLY_METADATA] += n_rows
        for s in range(n_brokers):
            online[TALLY_BROKERS + s] += healthy[s]


def start_machines(
    columns_t columns,
    Rules rules not None,
    const int32_t[::1] group_rank,  # IN      (B,)    order of the brokers, `group_ranks`
    int64_t[:, :, ::1] tally,       # IN OUT  (3, threads, width)  replicas to Online, replicas to
                                    #         Offline, partitions' first states
    int64_t[:, ::1] healthy,        # IN OUT  (threads, B)  zeros: memory to count in
    int64_t[:, ::1] hosted,         # IN OUT  (threads, B)  zeros: what `count_hosted` counts
):
    """Start both machines of a new controller, as it forgets what the last one knew.

    The same as `start_replicas` with `reset`, then `initialize_partitions`; `hosted` is what
    `count_hosted` finds, so that the hosting index need not count again.

    Source: sections 2.2, 3.2 and 6.1.
    """
    columns.check_writable()
    cdef int threads = <int> tally.shape[1]
    cdef Py_ssize_t n_brokers = (tally.shape[2] - TALLY_BROKERS) // 2
    cdef Py_ssize_t n = columns.first.n_rows
    cdef int t
    cdef RuleSet values = startup_rules(&rules.values)
    cdef const int32_t* rank = &group_rank[0] if group_rank.shape[0] else NULL
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        start_share(
            columns.first, share_start(n, t, threads), share_start(n, t + 1, threads), values, rank,
            &tally[0, t, 0], &tally[1, t, 0], &tally[2, t, 0], &healthy[t, 0], &hosted[t, 0],
            n_brokers,
        )


cdef void count_share(
    row_t first, Py_ssize_t begin, Py_ssize_t end, int64_t* counts
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int s
    for i in range(begin, end):
        row = row_at(first, i)
        for s in range(row.record.n_slots):
            counts[row.brokers[s]] += 1


def count_hosted(
    columns_t columns,
    int64_t[:, ::1] counts,  # IN OUT  (threads, B)  partitions that track each broker
):
    """Count the partitions that track each broker, per thread's share of the rows."""
    cdef int threads = <int> counts.shape[0]
    cdef Py_ssize_t n = columns.first.n_rows
    cdef int t
    if not counts.shape[1]:
        return
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        count_share(
            columns.first, share_start(n, t, threads), share_start(n, t + 1, threads),
            &counts[t, 0],
        )


cdef inline void list_row(
    const broker_t* brokers, int n, Py_ssize_t row, int64_t* position, int32_t* hosted
) noexcept nogil:
    """Append a row to the lists of the n brokers that it tracks, which are never the same."""
    cdef int64_t at[64]
    cdef int s
    for s in range(n):
        at[s] = position[brokers[s]]
    for s in range(n):
        position[brokers[s]] = at[s] + 1
        kfast_prefetch(&hosted[at[s] + LINE])
        hosted[at[s]] = <int32_t> row


cdef void list_share(
    row_t first, Py_ssize_t begin, Py_ssize_t end, int64_t* position, int32_t* hosted,
    bint all_used
) noexcept nogil:
    cdef Py_ssize_t i
    if all_used and first.width == 3:
        # A number that the compiler knows: the loop over slots becomes straight code.
        first.width = 3
        for i in range(begin, end):
            row = row_at(first, i)
            list_row(row.brokers, 3, i, position, hosted)
        return
    for i in range(begin, end):
        row = row_at(first, i)
        # Where every slot is used, the records need not be read.
        list_row(
            row.brokers, <int> first.width if all_used else row.record.n_slots, i, position, hosted
        )


def list_hosted(
    columns_t columns,
    int64_t[:, ::1] position,  # IN OUT  (threads, B)  where each list begins, then ends
    int32_t[::1] hosted,       # OUT     (m,)  partition rows, broker after broker
):
    """List the partitions that track each broker, ascending.

    `position` says for each share of the rows, as `count_hosted` has them, where in `hosted` its
    rows of each broker begin.
    """
    cdef int threads = <int> position.shape[0]
    cdef Py_ssize_t n = columns.first.n_rows
    cdef bint all_used = hosted.shape[0] == n * columns.first.width
    cdef int t
    if not hosted.shape[0]:
        return
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        list_share(
            columns.first, share_start(n, t, threads), share_start(n, t + 1, threads),
            &position[t, 0], &hosted[0], all_used,
        )
