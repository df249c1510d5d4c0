"""A controller's start in one visit to each partition, and the hosting index on the way.

The replica machine's start and the first step of the partition machine's are taken on one
partition before the next. Nearly every partition of a healthy cluster has all its replicas online
and is led by one of them: such a one is told at once from its record, and all that is left is to
write its states and to count.

Source: docs/controller.md, sections 2.2, 3.2 and 6.1; Kafka 3.9, `ReplicaStateMachine.startup` and
`PartitionStateMachine.initializePartitionState`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.broker_groups cimport order_by_rank
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.replica_states cimport change_row
from kfast.kernels.slots cimport (
    BROKER_REGISTERED,
    BROKER_SHUTTING_DOWN,
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    LEADERLESS_MOVED,
    MOVED,
    P_ONLINE,
    R_DELETION_INELIGIBLE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_METADATA,
    broker_t,
    first_slots,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    record_t,
    write_bit,
)
from kfast.kernels.starting cimport announce_row, forget_row, initialize_partition

# Rows of a cache line of a hosting list: the next line is fetched while one is written.
cdef enum:
    LINE = 16

# What the steps of a start are told of the version that is simulated.
cdef struct StartRules:
    uint32_t offline
    const int32_t* rank
    int controller_epoch
    bint take_offline
    bint any_queued
    bint counting


cdef inline Py_ssize_t share_start(Py_ssize_t n, int thread, int threads) noexcept nogil:
    """First row of a thread's share; no two threads share a word of a bitmap."""
    return min(64 * ((n + 63) // 64 * thread // threads), n)


cdef inline bint start_healthy(
    record_t* record, const broker_t* brokers, uint8_t* states, const uint8_t* status,
    int64_t* healthy, int n
) noexcept nogil:
    """Start a partition of n slots that is as most are; does nothing, and says so, for another.

    Such a one is led by an assigned replica, every slot is online, none is beyond the assignment,
    and it is not being reassigned.
    """
    cdef bint live = True
    cdef bint led = False
    cdef int s
    if record.flags & (FLAG_ASSIGNED | FLAG_HAS_LEADERSHIP | FLAG_BEING_REASSIGNED) != (
        FLAG_ASSIGNED | FLAG_HAS_LEADERSHIP
    ) or record.n_replicas != n or record.adding | record.removing:
        return False
    for s in range(n):
        live &= status[brokers[s]] & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN) == BROKER_REGISTERED
        led |= <int32_t> brokers[s] == record.leader
    if not live & led:
        return False
    # Bytes may alias anything, so they are written after all else has been read.
    for s in range(n):
        healthy[brokers[s]] += 1
    record.offline_dir = 0
    record.partition_state = P_ONLINE
    for s in range(n):
        states[s] = R_ONLINE
    return True


cdef void start_row(
    record_t* record, broker_t* brokers, uint8_t* states, Py_ssize_t row, const uint8_t* status,
    uint8_t flags, StartRules rules, uint64_t* leader_offline, uint64_t* pending, int64_t* online,
    int64_t* offline, int64_t* partition, Py_ssize_t n_brokers
) noexcept nogil:
    """All of the start of one partition, whatever state it is in."""
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    cdef uint64_t live, assigned
    cdef int s, n
    forget_row(record, states, online)
    live = liveness_of(record, brokers, status).live
    assigned = first_slots(record.n_replicas)
    write_bit(leader_offline, row, record.flags & FLAG_HAS_LEADERSHIP
              and not leader_is_online(record, brokers, live))
    for s in range(record.n_replicas):
        states[s] = R_ONLINE if (live >> s) & 1 else R_DELETION_INELIGIBLE
    if rules.counting:
        announce_row(record, brokers, live & assigned, online)
    if assigned & ~live and rules.take_offline:
        n = order_by_rank(brokers, assigned & ~live, rules.rank, order)
        change_row(
            record, brokers, states, row, order, n, flags, R_OFFLINE,
            rules.offline, rules.controller_epoch, False, LEADERLESS_MOVED, False, rules.counting,
            leader_offline, codes, NULL, offline, n_brokers,
        )
    initialize_partition(record, brokers, status, row, flags, pending, partition)


cdef void start_share(
    columns_t columns, Py_ssize_t begin, Py_ssize_t end, StartRules rules, int64_t* online,
    int64_t* offline, int64_t* partition, int64_t* healthy, int64_t* hosted, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t width = columns.width
    cdef uint8_t* states = columns.replica_state
    cdef const uint8_t* status = columns.broker_status
    cdef const int32_t* topic_row = columns.topic_row
    cdef const uint8_t* topic_flags = columns.topic_flags
    cdef uint64_t* leader_offline = columns.leader_offline
    cdef uint64_t* pending = columns.pending
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    cdef int64_t n_rows = 0
    cdef int64_t n_replicas = 0
    cdef int s, n
    cdef bint started
    cdef uint8_t* own
    for row in range(begin, end):
        if row & 63 == 0:
            leader_offline[row >> 6] = 0
            pending[row >> 6] = 0
        record = &records[row]
        brokers = &replicas[width * row]
        own = &states[width * row]
        n = record.n_slots
        # Numbers that the compiler knows: the loops over slots become straight code.
        if n == 3:
            started = start_healthy(record, brokers, own, status, healthy, 3)
        elif n == 2:
            started = start_healthy(record, brokers, own, status, healthy, 2)
        else:
            started = start_healthy(record, brokers, own, status, healthy, n)
        if started:
            n_rows += 1
            n_replicas += n
            continue
        for s in range(n):
            hosted[brokers[s]] += 1
        start_row(
            record, brokers, own, row, status,
            topic_flags[topic_row[row]] if rules.any_queued else 0, rules, leader_offline,
            pending, online, offline, partition, n_brokers,
        )
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
    const int32_t[::1] group_rank,    # IN      (B,)    order of the brokers, `group_ranks`
    uint32_t valid_offline,           # bit f set: a replica in state f may become Offline
    int controller_epoch,
    bint take_offline,                # move the offline replicas too
    bint any_queued,                  # some topic is queued: look at topic_flags
    bint counting,                    # fill all of the tallies, not only the counters
    int64_t[:, ::1] online_tally,     # IN OUT  (threads, width)  replicas to Online
    int64_t[:, ::1] offline_tally,    # IN OUT  (threads, width)  replicas to Offline
    int64_t[:, ::1] partition_tally,  # IN OUT  (threads, width)  partitions' first states
    int64_t[:, ::1] healthy,          # IN OUT  (threads, B)  zeros: room to count in
    int64_t[:, ::1] hosted,           # IN OUT  (threads, B)  zeros: what `count_hosted` counts
):
    """Start both machines of a new controller, as it forgets what the last one knew.

    The same as `start_replicas` with `reset`, then `initialize_partitions`; `hosted` is what
    `count_hosted` finds, so that the hosting index need not count again.

    Source: sections 2.2, 3.2 and 6.1.
    """
    columns.check_writable()
    cdef int threads = <int> online_tally.shape[0]
    cdef Py_ssize_t n_brokers = (online_tally.shape[1] - TALLY_BROKERS) // 2
    cdef Py_ssize_t n = columns.n_partitions
    cdef int t
    cdef StartRules rules
    rules.offline = valid_offline
    rules.rank = &group_rank[0] if group_rank.shape[0] else NULL
    rules.controller_epoch = controller_epoch
    rules.take_offline = take_offline
    rules.any_queued = any_queued
    rules.counting = counting
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        start_share(
            columns, share_start(n, t, threads), share_start(n, t + 1, threads), rules,
            &online_tally[t, 0], &offline_tally[t, 0], &partition_tally[t, 0], &healthy[t, 0],
            &hosted[t, 0], n_brokers,
        )


cdef void count_share(
    columns_t columns, Py_ssize_t begin, Py_ssize_t end, int64_t* counts
) noexcept nogil:
    cdef Py_ssize_t width = columns.width
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    cdef int s
    for row in range(begin, end):
        for s in range(records[row].n_slots):
            counts[replicas[width * row + s]] += 1


def count_hosted(
    columns_t columns,
    int64_t[:, ::1] counts,  # IN OUT  (threads, B)  partitions that track each broker
):
    """Count the partitions that track each broker, per thread's share of the rows."""
    cdef int threads = <int> counts.shape[0]
    cdef Py_ssize_t n = columns.n_partitions
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        count_share(
            columns, share_start(n, t, threads), share_start(n, t + 1, threads), &counts[t, 0],
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
    columns_t columns, Py_ssize_t begin, Py_ssize_t end, int64_t* position, int32_t* hosted,
    bint all_used
) noexcept nogil:
    cdef Py_ssize_t width = columns.width
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t row
    if all_used and width == 3:
        # A number that the compiler knows: the loop over slots becomes straight code.
        for row in range(begin, end):
            list_row(&replicas[width * row], 3, row, position, hosted)
        return
    for row in range(begin, end):
        # Where every slot is used, the records need not be read.
        list_row(
            &replicas[width * row], <int> width if all_used else records[row].n_slots, row,
            position, hosted,
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
    cdef Py_ssize_t n = columns.n_partitions
    cdef bint all_used = hosted.shape[0] == n * columns.width
    cdef int t
    if not hosted.shape[0]:
        return
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        list_share(
            columns, share_start(n, t, threads), share_start(n, t + 1, threads), &position[t, 0],
            &hosted[0], all_used,
        )
