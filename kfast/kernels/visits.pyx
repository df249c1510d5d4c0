"""Whole events in one visit to each partition.

An event is a short list of steps, and rows are independent: what the steps do to one partition may
be done at once, so that its record comes from memory once. Each step keeps a tally of its own, as
if all partitions had gone through it before the next step began. The steps of a row are the very
functions that the machines run one after the other.

Source: docs/controller.md, sections 6.2 and 6.3; Kafka 3.9,
`KafkaController.onReplicasBecomeOffline`, `onBrokerStartup`, `doControlledShutdown`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.bring_online cimport bring_one_online
from kfast.kernels.broker_groups cimport list_slots, order_by_rank
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.effects cimport append_effect, begin_steps, close_gaps
from kfast.kernels.election cimport NOT_ASKED_RULE
from kfast.kernels.fetch cimport fetch_row
from kfast.kernels.replica_states cimport change_row
from kfast.kernels.slots cimport (
    AHEAD,
    FLAG_HAS_LEADERSHIP,
    NO_SLOT,
    P_NEW,
    P_OFFLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    Effect,
    chunk_start,
    slot_of,
)
from kfast.kernels.visits cimport Rules, chosen_slots, is_led_by_dead


cdef void start_chunk(
    columns_t columns, const uint8_t[::1] chosen, const int32_t[::1] group_rank,
    const int32_t[::1] rows, Py_ssize_t begin, Py_ssize_t end, Rules rules, int64_t* replica,
    int64_t* online, int64_t* counts, Py_ssize_t n_brokers, Effect[::1] recorded
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
    cdef Py_ssize_t i, row
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
            row = rows[i + AHEAD]
            fetch_row(&records[row], &replicas[width * row], &states[width * row])
        row = rows[i]
        record = &records[row]
        is_led_by_dead(record, &replicas[width * row], status, row, leader_offline)
        slots = chosen_slots(record, &replicas[width * row], &chosen[0])
        if slots:
            if keeping:
                n = order_by_rank(&replicas[width * row], slots, &group_rank[0], order)
            else:
                n = list_slots(slots, order)
            n = <int> change_row(
                record, &replicas[width * row], &states[width * row], row, order, n,
                0, R_ONLINE, rules.replica, rules.controller_epoch, False,
                rules.without_leadership, rules.empties_unclean, rules.counting,
                leader_offline, codes, effects, replica, n_brokers,
            )
            counts[1] += n
            for k in range(n if keeping else 0):
                append_effect(&ends[1], &effects[k])
        if record.partition_state == P_OFFLINE or record.partition_state == P_NEW:
            bring_one_online(
                record, &replicas[width * row], status, row, &topic_row[row], topic_flags,
                rules.strategy, rules.partition_online, rules.controller_epoch,
                rules.recovery_supported, NOT_ASKED_RULE,
                False, rules.counting, leader_offline, pending, effects, online,
            )
            counts[0] += 1
            if keeping:
                append_effect(&ends[0], effects)


def start_hosted(
    columns_t columns,
    const uint8_t[::1] chosen,      # IN      (B+1,)  1: the broker started; the last is none
    const int32_t[::1] group_rank,  # IN      (B,)    order of the brokers, `group_ranks`
    const int32_t[::1] rows,        # IN      (n,)    rows that may track one, ascending
    uint32_t replica_online,        # bit f set: a replica in state f may become Online
    uint32_t partition_online,      # bit f set: a partition in state f may become Online
    int strategy,                   # `Profile.kernel_strategy`
    int controller_epoch,
    bint recovery_supported,        # an unclean leader starts in recovery
    bint counting,                  # fill all of the tallies, not only the counters
    int64_t[:, ::1] replica_tally,  # IN OUT  (threads, width)  replicas to Online
    int64_t[:, ::1] online_tally,   # IN OUT  (threads, width)  partitions to Online
    int64_t[:, ::1] counts,         # IN OUT  (threads, 8)  targets of each step
    Effect[::1] effects,            # OUT     effects, step after step; or none
):
    """Brokers started: their replicas go Online, and waiting partitions are elected.

    Source: section 6.2, `broker_startup`, steps 4 and 5.
    """
    columns.check_writable()
    cdef int threads = <int> replica_tally.shape[0]
    cdef Py_ssize_t n_brokers = (replica_tally.shape[1] - TALLY_BROKERS) // 2
    cdef int t
    cdef Rules rules = Rules(
        partition_offline=0, partition_online=partition_online, replica=replica_online,
        strategy=strategy, controller_epoch=controller_epoch, without_leadership=0,
        empties_unclean=False, recovery_supported=recovery_supported, counting=counting,
    )
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        start_chunk(
            columns, chosen, group_rank, rows, chunk_start(rows, t, threads),
            chunk_start(rows, t + 1, threads), rules, &replica_tally[t, 0], &online_tally[t, 0],
            &counts[t, 0], n_brokers, effects,
        )
    close_gaps(2, effects, rows, counts)


cdef Py_ssize_t shut_down_chunk(
    columns_t columns, int32_t broker, const int32_t[::1] rows, const int8_t[::1] decided,
    Py_ssize_t begin, Py_ssize_t end, Rules rules, int64_t* led, int64_t* followed, int64_t* counts,
    Py_ssize_t n_brokers, int32_t* remaining
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
    cdef Py_ssize_t i, row
    cdef Py_ssize_t n = 0
    cdef int slot
    cdef uint8_t codes[64]
    cdef uint8_t order[64]
    for i in range(begin, end):
        if i + AHEAD < end:
            row = rows[i + AHEAD]
            fetch_row(&records[row], &replicas[width * row], &states[width * row])
        row = rows[i]
        record = &records[row]
        is_led_by_dead(record, &replicas[width * row], status, row, leader_offline)
        if record.n_replicas < 2 or not record.flags & FLAG_HAS_LEADERSHIP:
            continue
        slot = slot_of(&replicas[width * row], record.n_replicas, broker)
        if slot == NO_SLOT:
            pass
        elif record.leader == broker:
            bring_one_online(
                record, &replicas[width * row], status, row, &topic_row[row], topic_flags,
                rules.strategy, rules.partition_online, rules.controller_epoch,
                rules.recovery_supported, decided[i] if decided.shape[0] else NOT_ASKED_RULE,
                False, rules.counting, leader_offline, pending, NULL, led,
            )
            counts[0] += 1
        else:
            order[0] = <uint8_t> slot
            counts[1] += change_row(
                record, &replicas[width * row], &states[width * row], row, order, 1,
                0, R_OFFLINE, rules.replica, rules.controller_epoch, False,
                rules.without_leadership, False, rules.counting, leader_offline, codes, NULL,
                followed, n_brokers,
            )
        if record.leader == broker:
            remaining[n] = <int32_t> row
            n += 1
    return n


def shut_down_hosted(
    columns_t columns,
    int32_t broker,                  # row of the broker that shuts down
    const int32_t[::1] rows,         # IN      (n,)    rows that may track it, ascending
    uint32_t partition_online,       # bit f set: a partition in state f may become Online
    uint32_t replica_offline,        # bit f set: a replica in state f may become Offline
    int strategy,                    # `Profile.kernel_strategy`
    int controller_epoch,
    bint recovery_supported,         # an unclean leader starts in recovery
    bint counting,                   # fill all of the tallies, not only the counters
    const int8_t[::1] decided,       # IN      (n,)    what a user's rule says; or (0,)
    int64_t[:, ::1] led_tally,       # IN OUT  (threads, width)  partitions to Online
    int64_t[:, ::1] followed_tally,  # IN OUT  (threads, width)  replicas to Offline
    int64_t[:, ::1] counts,          # IN OUT  (threads, 8)      targets of each step
    int32_t[::1] remaining,          # OUT     (n,)    rows that it leads afterwards
):
    """A broker shuts down: what it leads is led by others, what it follows it leaves.

    Only partitions with more than one replica and with leadership count. Returns how many it
    leads afterwards; each thread's share of them begins where its share of `rows` begins, and is
    moved up at the end.

    Source: section 6.3, steps 5 to 9.
    """
    columns.check_writable()
    cdef int threads = <int> led_tally.shape[0]
    cdef Py_ssize_t n_brokers = (led_tally.shape[1] - TALLY_BROKERS) // 2
    cdef Py_ssize_t found[65]
    cdef Py_ssize_t i, begin
    cdef Py_ssize_t n = 0
    cdef int t
    cdef Rules rules = Rules(
        partition_offline=0, partition_online=partition_online, replica=replica_offline,
        strategy=strategy, controller_epoch=controller_epoch, without_leadership=0,
        empties_unclean=False, recovery_supported=recovery_supported, counting=counting,
    )
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        found[t] = 0
        if rows.shape[0]:
            found[t] = shut_down_chunk(
                columns, broker, rows, decided, chunk_start(rows, t, threads),
                chunk_start(rows, t + 1, threads), rules, &led_tally[t, 0], &followed_tally[t, 0],
                &counts[t, 0], n_brokers, &remaining[0] + chunk_start(rows, t, threads),
            )
    for t in range(threads):
        begin = chunk_start(rows, t, threads)
        for i in range(found[t]):
            remaining[n + i] = remaining[begin + i]
        n += found[t]
    return n
