"""Move replicas and partitions from state to state, where the cache is the store.

A replica's or partition's target state decides its requests, its record and its new state; the
matrix of legal transitions is an argument, so that a profile is data.

Source: specification, sections 2.2 to 2.6, 3.2 and 3.4; Kafka 3.9, `ZkReplicaStateMachine` and
`ZkPartitionStateMachine`, `doHandleStateChanges`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from kfast.kernels.effects cimport (
    begin_effect,
    carry_record,
    count_requests,
    put_partition_state,
    tally_effect,
)
from kfast.kernels.isr cimport Shrunk, shrink_one
from kfast.kernels.slots cimport (
    APPENDED,
    AHEAD,
    ConstNarrowRecord,
    ConstWideRecord,
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    ILLEGAL_STATE,
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_STOP,
    LEADER_IS_NEW_REPLICA,
    MOVED,
    NEWER_CONTROLLER,
    NOT_ASKED,
    NO_LEADER,
    P_NEW,
    P_NON_EXISTENT,
    P_NO_ENTRY,
    P_OFFLINE,
    P_ONLINE,
    R_DELETION_INELIGIBLE,
    R_DELETION_STARTED,
    R_NEW,
    R_NON_EXISTENT,
    R_NO_ENTRY,
    R_OFFLINE,
    R_ONLINE,
    TALLY_ANNOUNCED,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_IMBALANCE,
    TALLY_METADATA,
    TALLY_OFFLINE,
    TALLY_REASSIGNED,
    TOPIC_QUEUED,
    Effect,
    Liveness,
    NarrowRecord,
    WideRecord,
    bit,
    broker_t,
    chunk_start,
    const_record_t,
    first_slots,
    is_imbalanced,
    kfast_count,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    lowest_slot,
    record_t,
    write_bit,
)
from kfast.kernels.permute cimport append_to_assignment, remove_from_assignment


# What one replica's transition does beyond its state; the rest of an effect is filled where kept.
cdef struct Deed:
    uint64_t recipients
    int32_t stop_epoch
    uint8_t code
    uint8_t kinds


cdef inline void become_new(const record_t* record, int slot, int32_t broker, Deed* deed) noexcept nogil:
    """Source: specification, section 2.4, NewReplica."""
    if not record.flags & FLAG_HAS_LEADERSHIP:
        return
    if record.leader == broker:
        deed.code = LEADER_IS_NEW_REPLICA
        return
    deed.kinds |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    deed.recipients = bit(slot)


cdef inline void become_online(
    const record_t* record, int slot, int from_state, Deed* deed
) noexcept nogil:
    """Source: specification, section 2.4, OnlineReplica; the caller appends where it is told to."""
    if from_state == R_NEW:
        if slot >= record.n_replicas:
            deed.code = APPENDED
    elif record.flags & FLAG_HAS_LEADERSHIP:
        deed.kinds |= KIND_LEADER_AND_ISR
        deed.recipients = bit(slot)


cdef inline void add_stop(const record_t* record, Deed* deed, bint queued, bint delete) noexcept nogil:
    """Source: specification, section 5.2, `add_stop_replica`."""
    deed.kinds |= KIND_STOP | KIND_DELETE if delete else KIND_STOP
    if queued:
        deed.stop_epoch = -2
    else:
        deed.stop_epoch = record.leader_epoch if record.flags & FLAG_HAS_LEADERSHIP else -1


cdef inline void become_offline(
    record_t* record, int slot, int32_t broker, bint queued, int controller_epoch,
    bint defer, Deed* deed
) noexcept nogil:
    """Source: specification, sections 2.5 and 2.6; with `defer` a store decides the rest."""
    cdef Shrunk shrunk
    add_stop(record, deed, queued, False)
    if not record.flags & FLAG_HAS_LEADERSHIP:
        deed.kinds |= KIND_METADATA
        return
    if defer:
        deed.code = NOT_ASKED
        return
    if record.controller_epoch > controller_epoch:
        deed.code = NEWER_CONTROLLER
        return
    shrunk = shrink_one(bit(slot), record.isr, record.leader == broker)
    if shrunk.write:
        record.leader_epoch += 1
        record.version += 1
        if shrunk.leaderless:
            record.leader = NO_LEADER
        if record_t is WideRecord:
            record.isr = shrunk.isr
        else:
            record.isr = <uint8_t> shrunk.isr
    record.controller_epoch = controller_epoch
    if not queued:
        deed.kinds |= KIND_LEADER_AND_ISR
        deed.recipients = first_slots(record.n_replicas) & ~bit(slot)


cdef inline Deed change_one(
    record_t* record, uint8_t* states, int slot, int32_t broker, int target,
    uint32_t valid_previous, bint queued, int controller_epoch, bint defer
) noexcept nogil:
    """Move one replica, if the matrix allows it. Source: specification, section 2.4."""
    cdef Deed deed
    deed.recipients = 0
    deed.stop_epoch = 0
    deed.code = MOVED
    deed.kinds = 0
    if not (valid_previous >> states[slot]) & 1:
        deed.code = ILLEGAL_STATE
        return deed
    if target == R_NEW:
        become_new(record, slot, broker, &deed)
    elif target == R_ONLINE:
        become_online(record, slot, states[slot], &deed)
    elif target == R_OFFLINE:
        become_offline(record, slot, broker, queued, controller_epoch, defer, &deed)
    elif target == R_DELETION_STARTED:
        add_stop(record, &deed, queued, True)
    if deed.code == MOVED or deed.code == APPENDED:
        states[slot] = R_NO_ENTRY if target == R_NON_EXISTENT else <uint8_t> target
    return deed


cdef inline int sorted_slots(const broker_t* brokers, uint64_t slots, uint8_t* out) noexcept nogil:
    """Slots by ascending broker row: the order of Kafka's groups as kfast has it (2.3)."""
    cdef int n = 0
    cdef int at, slot
    while slots:
        slot = lowest_slot(slots)
        slots &= slots - 1
        at = n
        while at > 0 and brokers[out[at - 1]] > brokers[slot]:
            out[at] = out[at - 1]
            at -= 1
        out[at] = <uint8_t> slot
        n += 1
    return n


cdef inline void move_later(uint8_t* order, int begin, int n, int source, int destination) noexcept nogil:
    """Correct the slots still to be visited after one slot was taken out and put in elsewhere."""
    cdef int i
    for i in range(begin, n):
        if source < order[i] <= destination:
            order[i] -= 1
        elif destination <= order[i] < source:
            order[i] += 1


cdef inline Py_ssize_t change_row(
    record_t* record, broker_t* brokers, uint8_t* states, Py_ssize_t row, uint64_t slots,
    uint8_t topic_flags, int target, uint32_t valid_previous, int controller_epoch, bint defer,
    bint counting, uint64_t* leader_offline, uint8_t* codes, Effect* effects, int64_t* tally,
    Py_ssize_t n_brokers
) noexcept nogil:
    """Move all the listed replicas of one partition, in ascending broker id."""
    cdef uint8_t order[64]
    cdef int n = sorted_slots(brokers, slots, order)
    cdef bint queued = topic_flags & TOPIC_QUEUED
    cdef bint imbalanced = is_imbalanced(record, brokers)
    cdef int32_t leader = record.leader
    cdef uint64_t told = 0
    cdef int kinds = 0
    cdef int i, slot, from_state
    cdef int32_t broker
    cdef Deed deed
    for i in range(n):
        slot = order[i]
        broker = <int32_t> brokers[slot]
        if states[slot] == R_NO_ENTRY:
            states[slot] = R_NON_EXISTENT
        from_state = states[slot]
        if effects != NULL:
            begin_effect(&effects[i], record, row, broker, from_state, target, topic_flags)
        deed = change_one(record, states, slot, broker, target, valid_previous, queued,
                          controller_epoch, defer)
        codes[i] = deed.code
        told |= deed.recipients
        kinds |= deed.kinds
        if counting:
            count_target(tally, n_brokers, broker, from_state, target, &deed)
        if effects != NULL:
            keep_deed(&effects[i], record, &deed)
        if deed.code == APPENDED:
            move_later(order, i + 1, n, slot, record.n_replicas)
            told = append_to_assignment(record, brokers, states, slot, told, effects, i + 1)
        elif target == R_NON_EXISTENT and deed.code == MOVED:
            move_later(order, i + 1, n, slot, record.n_slots - 1)
            remove_from_assignment(record, brokers, states, slot)
    if counting:
        count_requests(tally + TALLY_BROKERS, brokers, told)
        tally[TALLY_METADATA] += (kinds & KIND_LEADER_AND_ISR) != 0
        tally[TALLY_ANNOUNCED] += (kinds & KIND_METADATA) != 0
    if not queued:
        tally[TALLY_IMBALANCE] += is_imbalanced(record, brokers) - imbalanced
    if record.leader != leader:
        write_bit(leader_offline, row, True)
    return n


cdef inline void count_target(
    int64_t* tally, Py_ssize_t n_brokers, int32_t broker, int from_state, int target,
    const Deed* deed
) noexcept nogil:
    """Count what became of one replica."""
    tally[TALLY_CODES + deed.code] += 1
    if deed.code == MOVED or deed.code == APPENDED:
        tally[TALLY_CELLS + 8 * from_state + target] += 1
    if deed.kinds & KIND_STOP:
        tally[TALLY_BROKERS + n_brokers + broker] += 1


cdef inline void keep_deed(Effect* effect, const record_t* record, const Deed* deed) noexcept nogil:
    """Complete an effect with what was done and what requests say of the record now."""
    effect.code = deed.code
    effect.kinds |= deed.kinds
    effect.recipients = deed.recipients
    effect.stop_epoch = deed.stop_epoch
    carry_record(effect, record)


cdef void change_chunk(
    record_t[::1] records, broker_t[:, ::1] replicas, uint8_t[:, ::1] states,
    const int32_t[::1] topic_row, const uint8_t[::1] topic_flags, uint64_t[::1] leader_offline,
    const int32_t[::1] rows, const uint64_t[::1] slots, Py_ssize_t begin, Py_ssize_t end,
    Py_ssize_t first_target, int target, uint32_t valid_previous, int controller_epoch,
    bint defer, bint any_queued, bint counting, uint8_t[::1] codes, Effect[::1] effects,
    int64_t* tally, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef Py_ssize_t at = first_target
    cdef uint8_t flags = 0
    for i in range(begin, end):
        if i + AHEAD < end:
            row = rows[i + AHEAD]
            kfast_prefetch(&records[row])
            kfast_prefetch(&replicas[row, 0])
            kfast_prefetch(&states[row, 0])
        row = rows[i]
        if any_queued:
            flags = topic_flags[topic_row[row]]
        at += change_row(
            &records[row], &replicas[row, 0], &states[row, 0], row, slots[i], flags, target,
            valid_previous, controller_epoch, defer, counting, &leader_offline[0], &codes[at],
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
    record_t[::1] records,             # IN OUT  (P,)    hot records
    broker_t[:, ::1] replicas,         # IN OUT  (P, S)  broker rows
    uint8_t[:, ::1] replica_state,     # IN OUT  (P, S)  `schema.ReplicaState`
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    uint64_t[::1] leader_offline,      # IN OUT  bitmap  partitions with an offline leader
    const int32_t[::1] rows,           # IN      (n,)    partition rows, ascending, each once
    const uint64_t[::1] slots,         # IN      (n,)    slots to move, per row
    int target,                        # `schema.ReplicaState`
    uint32_t valid_previous,           # bit f set: the transition from state f is legal
    int controller_epoch,
    bint defer_shrink,                 # a store decides what becomes of the ISR
    bint any_queued,                   # some topic is queued: look at topic_flags
    bint counting,                     # fill all of the tally, not only the counters
    uint8_t[::1] codes,                # OUT     (m,)    `schema.Code` per replica
    Effect[::1] effects,               # OUT     (m,)    what became of each; or (0,)
    int64_t[:, ::1] tally,             # IN OUT  (threads, width)
):
    """Move replicas to a target state; m is the number of bits in `slots`.

    Replicas come in the order (row, ascending broker row). The number of threads is that of the
    tally's rows; nothing else depends on it.

    Source: specification, section 2.4; Kafka 3.9, `ZkReplicaStateMachine.doHandleStateChanges`.
    """
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
                records, replicas, replica_state, topic_row, topic_flags, leader_offline, rows,
                slots, begin[t], begin[t + 1], first[t], target, valid_previous,
                controller_epoch, defer_shrink, any_queued, counting, codes, effects,
                &tally[t, 0], n_brokers,
            )


def change_partitions(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    uint64_t[::1] pending,             # IN OUT  bitmap  partitions New or Offline
    const int32_t[::1] rows,           # IN      (n,)    partition rows, ascending, each once
    int target,                        # `schema.PartitionState`, not ONLINE
    uint32_t valid_previous,           # bit f set: the transition from state f is legal
    bint any_queued,
    uint8_t[::1] codes,                # OUT     (n,)    `schema.Code`
    Effect[::1] effects,               # OUT     (n,)    what became of each; or (0,)
    int64_t[:, ::1] tally,             # IN OUT  (threads, width)
):
    """Move partitions to New, Offline or NonExistent: states and counters only.

    Source: specification, section 3.4; Kafka 3.9, `ZkPartitionStateMachine.doHandleStateChanges`.
    """
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t i, row
    cdef int t
    cdef uint8_t flags
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        flags = 0
        for i in range(chunk_start(rows, t, threads), chunk_start(rows, t + 1, threads)):
            row = rows[i]
            if any_queued:
                flags = topic_flags[topic_row[row]]
            move_partition(&records[row], row, flags, target, valid_previous, &pending[0],
                           &codes[i], &effects[i] if effects.shape[0] else NULL, &tally[t, 0])


cdef inline void move_partition(
    record_t* record, Py_ssize_t row, uint8_t flags, int target, uint32_t valid_previous,
    uint64_t* pending, uint8_t* code, Effect* out, int64_t* tally
) noexcept nogil:
    cdef Effect effect
    if record.partition_state == P_NO_ENTRY:
        record.partition_state = P_NON_EXISTENT
    begin_effect(&effect, record, row, -1, record.partition_state, target, flags)
    if (valid_previous >> record.partition_state) & 1:
        put_partition_state(record, row, target, flags, pending, tally)
    else:
        effect.code = ILLEGAL_STATE
    code[0] = effect.code
    tally_effect(&effect, tally)
    if out != NULL:
        carry_record(&effect, record)
        out[0] = effect


cdef inline void reset_row(
    record_t* record, const broker_t* brokers, uint8_t* states, const uint8_t* status,
    Py_ssize_t row, uint64_t* leader_offline, int64_t* tally
) noexcept nogil:
    """Forget what the last controller knew of a partition (6.1, step 4), and note who leads."""
    cdef bint moving = record.adding != 0 or record.removing != 0
    cdef bint online
    memset(states, R_NO_ENTRY, record.n_slots)
    record.partition_state = P_NO_ENTRY
    record.offline_dir = 0
    record.flags &= ~FLAG_BEING_REASSIGNED
    if moving:
        record.flags |= FLAG_BEING_REASSIGNED
    tally[TALLY_REASSIGNED] += moving
    online = leader_is_online(record, brokers, liveness_of(record, brokers, status).live)
    write_bit(leader_offline, row, record.flags & FLAG_HAS_LEADERSHIP and not online)


cdef inline uint64_t initialize_row(
    const record_t* record, const broker_t* brokers, uint8_t* states, const uint8_t* status
) noexcept nogil:
    """Step 1 of section 2.2; returns the assigned slots that are online."""
    cdef uint64_t live = liveness_of(record, brokers, status).live
    cdef int s
    for s in range(record.n_replicas):
        states[s] = R_ONLINE if (live >> s) & 1 else R_DELETION_INELIGIBLE
    return live & first_slots(record.n_replicas)


def start_replicas(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    broker_t[:, ::1] replicas,         # IN      (P, S)  broker rows
    uint8_t[:, ::1] replica_state,     # OUT     (P, S)  `schema.ReplicaState`
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    uint64_t[::1] leader_offline,      # IN OUT  bitmap  partitions with an offline leader
    uint32_t valid_online,             # bit f set: Online may be entered from state f
    uint32_t valid_offline,            # bit f set: Offline may be entered from state f
    int controller_epoch,
    bint reset,                        # a new controller forgets what the last one knew
    bint take_offline,                 # move the offline ones; otherwise a store is asked later
    bint counting,                     # fill all of the tallies, not only the counters
    Effect[::1] went_online,           # OUT     (m,)    what became of each; or (0,)
    Effect[::1] went_offline,          # OUT     (m,)    what became of each; or (0,)
    int64_t[:, ::1] online_tally,      # IN OUT  (threads, width)
    int64_t[:, ::1] offline_tally,     # IN OUT  (threads, width)
):
    """Start the replica machine: give every assigned replica a state, then Online or Offline.

    Kafka moves all online replicas first and all offline ones after; rows are independent, so
    each is visited once. Where effects are kept, the tallies have one row.

    Source: specification, section 2.2; Kafka 3.9, `ReplicaStateMachine.startup`.
    """
    cdef int threads = <int> online_tally.shape[0]
    cdef Py_ssize_t n_brokers = (online_tally.shape[1] - TALLY_BROKERS) // 2
    cdef Py_ssize_t words = leader_offline.shape[0]
    cdef Py_ssize_t last
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        last = min(64 * (words * (t + 1) // threads), records.shape[0])
        start_chunk(
            records, replicas, replica_state, broker_status, topic_row, topic_flags,
            leader_offline, 64 * (words * t // threads), last, valid_online, valid_offline,
            controller_epoch, reset, take_offline, counting, went_online, went_offline,
            &online_tally[t, 0], &offline_tally[t, 0], n_brokers,
        )


cdef void start_chunk(
    record_t[::1] records, broker_t[:, ::1] replicas, uint8_t[:, ::1] states,
    const uint8_t[::1] status, const int32_t[::1] topic_row, const uint8_t[::1] topic_flags,
    uint64_t[::1] leader_offline, Py_ssize_t begin, Py_ssize_t end, uint32_t valid_online,
    uint32_t valid_offline, int controller_epoch, bint reset, bint take_offline, bint counting,
    Effect[::1] went_online, Effect[::1] went_offline, int64_t* online_tally,
    int64_t* offline_tally, Py_ssize_t n_brokers
) noexcept nogil:
    cdef Py_ssize_t row
    cdef Py_ssize_t n_online = 0
    cdef Py_ssize_t n_offline = 0
    cdef uint64_t online, offline
    cdef uint8_t flags
    cdef uint8_t codes[64]
    cdef record_t* record
    for row in range(begin, end):
        record = &records[row]
        if reset:
            reset_row(record, &replicas[row, 0], &states[row, 0], &status[0], row,
                      &leader_offline[0], online_tally)
        flags = topic_flags[topic_row[row]]
        online = initialize_row(record, &replicas[row, 0], &states[row, 0], &status[0])
        offline = first_slots(record.n_replicas) & ~online
        n_online += change_row(
            record, &replicas[row, 0], &states[row, 0], row, online, flags, R_ONLINE,
            valid_online, controller_epoch, False, counting, &leader_offline[0], codes,
            &went_online[n_online] if n_online < went_online.shape[0] else NULL, online_tally,
            n_brokers,
        )
        if offline and take_offline:
            n_offline += change_row(
                record, &replicas[row, 0], &states[row, 0], row, offline, flags, R_OFFLINE,
                valid_offline, controller_epoch, False, counting, &leader_offline[0], codes,
                &went_offline[n_offline] if n_offline < went_offline.shape[0] else NULL,
                offline_tally, n_brokers,
            )


def count_started(
    const_record_t[::1] records,       # IN  (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN  (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN  (B,)    registered, shutting down
):
    """How many assigned replicas are online, and how many are not."""
    cdef Py_ssize_t row
    cdef Py_ssize_t online = 0
    cdef Py_ssize_t assigned = 0
    cdef uint64_t live
    with nogil:
        for row in range(records.shape[0]):
            live = liveness_of(&records[row], &replicas[row, 0], &broker_status[0]).live
            online += kfast_count(live & first_slots(records[row].n_replicas))
            assigned += records[row].n_replicas
    return online, assigned - online


def initialize_partitions(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    uint64_t[::1] pending,             # OUT     bitmap  partitions New or Offline
    int64_t[:, ::1] tally,             # IN OUT  (threads, width)
):
    """Set every assigned partition to New, Online or Offline by its record and its leader.

    Source: specification, section 3.2; Kafka 3.9, `PartitionStateMachine.initializePartitionState`.
    """
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t words = pending.shape[0]
    cdef Py_ssize_t row
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        for row in range(64 * (words * t // threads),
                         min(64 * (words * (t + 1) // threads), records.shape[0])):
            initialize_partition(
                &records[row], &replicas[row, 0], &broker_status[0], row,
                topic_flags[topic_row[row]], &pending[0], &tally[t, 0],
            )


cdef inline void initialize_partition(
    record_t* record, const broker_t* brokers, const uint8_t* status, Py_ssize_t row,
    uint8_t flags, uint64_t* pending, int64_t* tally
) noexcept nogil:
    cdef int state
    if not record.flags & FLAG_ASSIGNED:
        return
    if not record.flags & FLAG_HAS_LEADERSHIP:
        state = P_NEW
    elif leader_is_online(record, brokers, liveness_of(record, brokers, status).live):
        state = P_ONLINE
    else:
        state = P_OFFLINE
    put_partition_state(record, row, state, flags, pending, tally)
