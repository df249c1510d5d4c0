"""Move replicas and partitions from state to state, where the cache is the store.

A replica's or partition's target state decides its requests, its record and its new state; the
matrix of legal transitions is an argument, so that a profile is data.

Source: specification, sections 2.2 to 2.6, 3.2 and 3.4; Kafka 3.9, `ZkReplicaStateMachine` and
`ZkPartitionStateMachine`, `doHandleStateChanges`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

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
    FLAG_ASSIGNED,
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
    TALLY_IMBALANCE,
    TALLY_METADATA,
    TALLY_OFFLINE,
    TOPIC_QUEUED,
    Effect,
    Liveness,
    ConstNarrowRecord,
    ConstWideRecord,
    NarrowRecord,
    WideRecord,
    bit,
    broker_t,
    chunk_start,
    const_record_t,
    first_slots,
    is_imbalanced,
    kfast_count,
    leader_is_online,
    liveness_of,
    lowest_slot,
    record_t,
    slot_of,
    write_bit,
)
from kfast.kernels.permute cimport append_to_assignment, remove_from_assignment


cdef inline void become_new(const record_t* record, int slot, int32_t broker, Effect* effect) noexcept nogil:
    """Source: specification, section 2.4, NewReplica."""
    if not record.flags & FLAG_HAS_LEADERSHIP:
        return
    if record.leader == broker:
        effect.code = LEADER_IS_NEW_REPLICA
        return
    effect.kinds |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    effect.recipients = bit(slot)
    carry_record(effect, record)


cdef inline void become_online(const record_t* record, int slot, Effect* effect) noexcept nogil:
    """Source: specification, section 2.4, OnlineReplica; the caller appends where it is told to."""
    if effect.from_state == R_NEW:
        if slot >= record.n_replicas:
            effect.code = APPENDED
    elif record.flags & FLAG_HAS_LEADERSHIP:
        effect.kinds |= KIND_LEADER_AND_ISR
        effect.recipients = bit(slot)
        carry_record(effect, record)


cdef inline void add_stop(const record_t* record, Effect* effect, bint queued, bint delete) noexcept nogil:
    """Source: specification, section 5.2, `add_stop_replica`."""
    effect.kinds |= KIND_STOP | KIND_DELETE if delete else KIND_STOP
    if queued:
        effect.stop_epoch = -2
    else:
        effect.stop_epoch = record.leader_epoch if record.flags & FLAG_HAS_LEADERSHIP else -1


cdef inline void become_offline(
    record_t* record, int slot, int32_t broker, bint queued, int controller_epoch,
    bint defer, Effect* effect
) noexcept nogil:
    """Source: specification, sections 2.5 and 2.6; with `defer` a store decides the rest."""
    cdef Shrunk shrunk
    add_stop(record, effect, queued, False)
    if not record.flags & FLAG_HAS_LEADERSHIP:
        effect.kinds |= KIND_METADATA
        return
    if defer:
        effect.code = NOT_ASKED
        return
    if record.controller_epoch > controller_epoch:
        effect.code = NEWER_CONTROLLER
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
        effect.kinds |= KIND_LEADER_AND_ISR
        effect.recipients = first_slots(record.n_replicas) & ~bit(slot)
        carry_record(effect, record)


cdef inline void change_one(
    record_t* record, broker_t* brokers, uint8_t* states, int slot, int32_t broker, int target,
    bint queued, int controller_epoch, bint defer, Effect* effect
) noexcept nogil:
    """Apply a legal transition of one replica. Source: specification, section 2.4."""
    if target == R_NEW:
        become_new(record, slot, broker, effect)
    elif target == R_ONLINE:
        become_online(record, slot, effect)
    elif target == R_OFFLINE:
        become_offline(record, slot, broker, queued, controller_epoch, defer, effect)
    elif target == R_DELETION_STARTED:
        add_stop(record, effect, queued, True)
    if effect.code == MOVED or effect.code == APPENDED:
        states[slot] = R_NO_ENTRY if target == R_NON_EXISTENT else <uint8_t> target


cdef inline int sorted_targets(const broker_t* brokers, uint64_t slots, int32_t* out) noexcept nogil:
    """Broker rows of some slots, ascending: the order of Kafka's groups as kfast has it (2.3)."""
    cdef int n = 0
    cdef int at
    cdef int32_t broker
    while slots:
        broker = <int32_t> brokers[lowest_slot(slots)]
        slots &= slots - 1
        at = n
        while at > 0 and out[at - 1] > broker:
            out[at] = out[at - 1]
            at -= 1
        out[at] = broker
        n += 1
    return n


cdef inline Py_ssize_t change_row(
    record_t* record, broker_t* brokers, uint8_t* states, Py_ssize_t row, uint64_t slots,
    uint8_t topic_flags, int target, uint32_t valid_previous, int controller_epoch, bint defer,
    bint counting, uint64_t* leader_offline, uint8_t* codes, Effect* effects, int64_t* tally,
    Py_ssize_t n_brokers
) noexcept nogil:
    """Move all the listed replicas of one partition, in ascending broker id."""
    cdef int32_t targets[64]
    cdef int n = sorted_targets(brokers, slots, targets)
    cdef bint queued = topic_flags & TOPIC_QUEUED
    cdef bint imbalanced = is_imbalanced(record, brokers)
    cdef int32_t leader = record.leader
    cdef uint64_t told = 0
    cdef int metadata = 0
    cdef Effect effect
    cdef int i, slot
    for i in range(n):
        slot = slot_of(brokers, record.n_slots, targets[i])
        if states[slot] == R_NO_ENTRY:
            states[slot] = R_NON_EXISTENT
        begin_effect(&effect, record, row, targets[i], states[slot], target, topic_flags)
        if (valid_previous >> states[slot]) & 1:
            change_one(record, brokers, states, slot, targets[i], target, queued,
                       controller_epoch, defer, &effect)
        else:
            effect.code = ILLEGAL_STATE
        codes[i] = effect.code
        if counting:
            tally_effect(&effect, tally)
            told |= effect.recipients
            metadata |= effect.kinds
            if effect.kinds & KIND_STOP:
                tally[TALLY_BROKERS + n_brokers + targets[i]] += 1
        if effects != NULL:
            effects[i] = effect
        if effect.code == APPENDED:
            told = append_to_assignment(record, brokers, states, slot, told, effects, i + 1)
        elif target == R_NON_EXISTENT and effect.code == MOVED:
            remove_from_assignment(record, brokers, states, slot)
    if counting:
        count_requests(tally + TALLY_BROKERS, brokers, told)
        tally[TALLY_METADATA] += (metadata & KIND_LEADER_AND_ISR) != 0
        tally[TALLY_ANNOUNCED] += (metadata & KIND_METADATA) != 0
    if not queued:
        tally[TALLY_IMBALANCE] += is_imbalanced(record, brokers) - imbalanced
    if record.leader != leader:
        write_bit(leader_offline, row, True)
    return n


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


def initialize_replicas(
    const_record_t[::1] records,       # IN      (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    uint8_t[:, ::1] replica_state,     # OUT     (P, S)  `schema.ReplicaState`
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    uint64_t[::1] online,              # OUT     (P,)    assigned slots that are online
    uint64_t[::1] offline,             # OUT     (P,)    assigned slots that are not
    int threads,
):
    """Set every assigned replica to Online or, if it is not online, DeletionIneligible.

    Source: specification, section 2.2; Kafka 3.9, `ReplicaStateMachine.initializeReplicaState`.
    """
    cdef Py_ssize_t row
    cdef int s
    cdef uint64_t live
    for row in prange(records.shape[0], nogil=True, schedule="static", num_threads=threads):
        live = liveness_of(&records[row], &replicas[row, 0], &broker_status[0]).live
        online[row] = live & first_slots(records[row].n_replicas)
        offline[row] = ~live & first_slots(records[row].n_replicas)
        for s in range(records[row].n_replicas):
            replica_state[row, s] = R_ONLINE if (live >> s) & 1 else R_DELETION_INELIGIBLE


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
