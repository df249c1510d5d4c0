"""Whole events in one visit to each partition.

An event is a short list of steps, and rows are independent: what the steps do to one partition may
be done at once, so that its record comes from memory once. Each step keeps a tally of its own, as
if all partitions had gone through it before the next step began. The steps of a row are the very
functions that the machines run one after the other.

Source: specification, sections 6.2 and 6.3; Kafka 3.9, `KafkaController.onReplicasBecomeOffline`,
`onBrokerStartup`, `doControlledShutdown`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.bring_online cimport bring_one_online
from kfast.kernels.partition_states cimport move_partition
from kfast.kernels.replica_states cimport change_row
from kfast.kernels.slots cimport (
    AHEAD,
    FLAG_HAS_LEADERSHIP,
    P_NEW,
    P_OFFLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    broker_t,
    chunk_start,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    record_t,
    write_bit,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)

# What the steps of an event are told of the version that is simulated, decided before the loop.
cdef struct Rules:
    uint32_t partition_offline
    uint32_t partition_online
    uint32_t replica
    int strategy
    int controller_epoch
    int without_leadership
    bint empties_unclean
    bint recovery_supported
    bint counting


cdef inline uint64_t chosen_slots(
    const record_t* record, const broker_t* brokers, const uint8_t* chosen
) noexcept nogil:
    """Assigned slots on brokers that are marked."""
    cdef uint64_t found = 0
    cdef int s
    for s in range(record.n_replicas):
        found |= (<uint64_t> chosen[brokers[s]]) << s
    return found


cdef inline bint is_led_by_dead(
    const record_t* record, const broker_t* brokers, const uint8_t* status, Py_ssize_t row,
    uint64_t* leader_offline
) noexcept nogil:
    """Whether the cached leader is not online; the bitmap says so too afterwards."""
    cdef bint dead = record.flags & FLAG_HAS_LEADERSHIP and not leader_is_online(
        record, brokers, liveness_of(record, brokers, status).live
    )
    write_bit(leader_offline, row, dead)
    return dead


cdef void fail_chunk(
    record_t[::1] records, broker_t[:, ::1] replicas, uint8_t[:, ::1] states,
    const uint8_t[::1] status, const int32_t[::1] topic_row, const uint8_t[::1] topic_flags,
    uint64_t[::1] leader_offline, uint64_t[::1] pending, const uint8_t[::1] chosen,
    const int32_t[::1] rows, Py_ssize_t begin, Py_ssize_t end, Rules rules, int64_t* offline,
    int64_t* online, int64_t* replica, int64_t* counts, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef uint64_t slots
    cdef uint8_t flags
    cdef uint8_t codes[64]
    cdef record_t* record
    for i in range(begin, end):
        if i + AHEAD < end:
            row = rows[i + AHEAD]
            kfast_prefetch(&records[row])
            kfast_prefetch(&replicas[row, 0])
            kfast_prefetch(&states[row, 0])
        row = rows[i]
        record = &records[row]
        if is_led_by_dead(record, &replicas[row, 0], &status[0], row, &leader_offline[0]):
            move_partition(record, row, 0, P_OFFLINE, rules.partition_offline, &pending[0],
                           codes, NULL, offline)
            counts[0] += 1
        if record.partition_state == P_OFFLINE or record.partition_state == P_NEW:
            bring_one_online(
                record, &replicas[row, 0], &status[0], row, &topic_row[row], &topic_flags[0],
                rules.strategy, rules.partition_online, rules.controller_epoch,
                rules.recovery_supported, False, rules.counting, &leader_offline[0], &pending[0],
                NULL, online,
            )
            counts[1] += 1
        slots = chosen_slots(record, &replicas[row, 0], &chosen[0])
        if slots:
            flags = topic_flags[topic_row[row]] if rules.empties_unclean else 0
            counts[2] += change_row(
                record, &replicas[row, 0], &states[row, 0], row, slots, flags, R_OFFLINE,
                rules.replica, rules.controller_epoch, False, rules.without_leadership,
                rules.empties_unclean, rules.counting, &leader_offline[0], codes, NULL, replica,
                n_brokers,
            )


def fail_hosted(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    broker_t[:, ::1] replicas,         # IN OUT  (P, S)  broker rows
    uint8_t[:, ::1] replica_state,     # IN OUT  (P, S)  `schema.ReplicaState`
    const uint8_t[::1] broker_status,  # IN      (B,)    the failed ones are not registered
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    unclean, ...; none is queued
    uint64_t[::1] leader_offline,      # IN OUT  bitmap  partitions with an offline leader
    uint64_t[::1] pending,             # IN OUT  bitmap  partitions New or Offline
    const uint8_t[::1] chosen,         # IN      (B,)    1: the broker failed
    const int32_t[::1] rows,           # IN      (n,)    rows that may track one, ascending
    uint32_t partition_offline,        # bit f set: a partition in state f may become Offline
    uint32_t partition_online,         # bit f set: a partition in state f may become Online
    uint32_t replica_offline,          # bit f set: a replica in state f may become Offline
    int strategy,                      # `Profile.kernel_strategy`
    int controller_epoch,
    int without_leadership,            # `Profile.without_leadership`
    bint empties_unclean,              # `Profile.empties_unclean_isr`
    bint recovery_supported,           # an unclean leader starts in recovery
    bint counting,                     # fill all of the tallies, not only the counters
    int64_t[:, ::1] offline_tally,     # IN OUT  (threads, width)  partitions to Offline
    int64_t[:, ::1] online_tally,      # IN OUT  (threads, width)  partitions to Online
    int64_t[:, ::1] replica_tally,     # IN OUT  (threads, width)  replicas to Offline
    int64_t[:, ::1] counts,            # IN OUT  (threads, 8)      targets of each step
):
    """Brokers failed: leaderless partitions go Offline, are elected, and lose replicas.

    Source: specification, section 6.2, `replicas_become_offline`, steps 2 to 4.
    """
    cdef int threads = <int> replica_tally.shape[0]
    cdef Py_ssize_t n_brokers = (replica_tally.shape[1] - TALLY_BROKERS) // 2
    cdef int t
    cdef Rules rules
    rules.partition_offline = partition_offline
    rules.partition_online = partition_online
    rules.replica = replica_offline
    rules.strategy = strategy
    rules.controller_epoch = controller_epoch
    rules.without_leadership = without_leadership
    rules.empties_unclean = empties_unclean
    rules.recovery_supported = recovery_supported
    rules.counting = counting
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        fail_chunk(
            records, replicas, replica_state, broker_status, topic_row, topic_flags,
            leader_offline, pending, chosen, rows, chunk_start(rows, t, threads),
            chunk_start(rows, t + 1, threads), rules, &offline_tally[t, 0], &online_tally[t, 0],
            &replica_tally[t, 0], &counts[t, 0], n_brokers,
        )


cdef void start_chunk(
    record_t[::1] records, broker_t[:, ::1] replicas, uint8_t[:, ::1] states,
    const uint8_t[::1] status, const int32_t[::1] topic_row, const uint8_t[::1] topic_flags,
    uint64_t[::1] leader_offline, uint64_t[::1] pending, const uint8_t[::1] chosen,
    const int32_t[::1] rows, Py_ssize_t begin, Py_ssize_t end, Rules rules, int64_t* replica,
    int64_t* online, int64_t* counts, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef uint64_t slots
    cdef uint8_t codes[64]
    cdef record_t* record
    for i in range(begin, end):
        if i + AHEAD < end:
            row = rows[i + AHEAD]
            kfast_prefetch(&records[row])
            kfast_prefetch(&replicas[row, 0])
            kfast_prefetch(&states[row, 0])
        row = rows[i]
        record = &records[row]
        is_led_by_dead(record, &replicas[row, 0], &status[0], row, &leader_offline[0])
        slots = chosen_slots(record, &replicas[row, 0], &chosen[0])
        if slots:
            counts[0] += change_row(
                record, &replicas[row, 0], &states[row, 0], row, slots, 0, R_ONLINE,
                rules.replica, rules.controller_epoch, False, rules.without_leadership,
                rules.empties_unclean, rules.counting, &leader_offline[0], codes, NULL, replica,
                n_brokers,
            )
        if record.partition_state == P_OFFLINE or record.partition_state == P_NEW:
            bring_one_online(
                record, &replicas[row, 0], &status[0], row, &topic_row[row], &topic_flags[0],
                rules.strategy, rules.partition_online, rules.controller_epoch,
                rules.recovery_supported, False, rules.counting, &leader_offline[0], &pending[0],
                NULL, online,
            )
            counts[1] += 1


def start_hosted(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    broker_t[:, ::1] replicas,         # IN OUT  (P, S)  broker rows
    uint8_t[:, ::1] replica_state,     # IN OUT  (P, S)  `schema.ReplicaState`
    const uint8_t[::1] broker_status,  # IN      (B,)    the started ones are registered
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    unclean, ...; none is queued
    uint64_t[::1] leader_offline,      # IN OUT  bitmap  partitions with an offline leader
    uint64_t[::1] pending,             # IN OUT  bitmap  partitions New or Offline
    const uint8_t[::1] chosen,         # IN      (B,)    1: the broker started
    const int32_t[::1] rows,           # IN      (n,)    rows that may track one, ascending
    uint32_t replica_online,           # bit f set: a replica in state f may become Online
    uint32_t partition_online,         # bit f set: a partition in state f may become Online
    int strategy,                      # `Profile.kernel_strategy`
    int controller_epoch,
    bint recovery_supported,           # an unclean leader starts in recovery
    bint counting,                     # fill all of the tallies, not only the counters
    int64_t[:, ::1] replica_tally,     # IN OUT  (threads, width)  replicas to Online
    int64_t[:, ::1] online_tally,      # IN OUT  (threads, width)  partitions to Online
    int64_t[:, ::1] counts,            # IN OUT  (threads, 8)      targets of each step
):
    """Brokers started: their replicas go Online, and waiting partitions are elected.

    Source: specification, section 6.2, `broker_startup`, steps 4 and 5.
    """
    cdef int threads = <int> replica_tally.shape[0]
    cdef Py_ssize_t n_brokers = (replica_tally.shape[1] - TALLY_BROKERS) // 2
    cdef int t
    cdef Rules rules
    rules.partition_offline = 0
    rules.partition_online = partition_online
    rules.replica = replica_online
    rules.strategy = strategy
    rules.controller_epoch = controller_epoch
    rules.without_leadership = 0
    rules.empties_unclean = False
    rules.recovery_supported = recovery_supported
    rules.counting = counting
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        start_chunk(
            records, replicas, replica_state, broker_status, topic_row, topic_flags,
            leader_offline, pending, chosen, rows, chunk_start(rows, t, threads),
            chunk_start(rows, t + 1, threads), rules, &replica_tally[t, 0], &online_tally[t, 0],
            &counts[t, 0], n_brokers,
        )
