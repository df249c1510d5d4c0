"""Give partitions their first leader, or elect another one.

`bring_online` is the whole rule where the cache is the store. With a store the same steps come
one by one: `choose` decides on records as the store holds them, the store writes, and `adopt`
takes what was written into the cache.

Source: specification, sections 3.5, 3.6 and 4; Kafka 3.9, `ZkPartitionStateMachine`
(`initializeLeaderAndIsrForPartitions`, `electLeaderForPartitions`) and `Election`.
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
from kfast.kernels.election cimport (
    OFFLINE,
    OFFLINE_ALLOW_UNCLEAN,
    PREFERRED_IF_NEEDED,
    WRITE_BACK,
    Choice,
    elect_one,
)
from kfast.kernels.slots cimport (
    AHEAD,
    CONFIG_LOOKUP_FAILED,
    ELECTED,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    INITIALIZED,
    KIND_ELECTION,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_UNCLEAN,
    MOVED,
    NEWER_CONTROLLER,
    NODE_EXISTS,
    NO_ELIGIBLE_LEADER,
    NO_LIVE_REPLICA,
    NO_RECORD,
    NO_SLOT,
    P_NEW,
    P_NON_EXISTENT,
    P_NO_ENTRY,
    P_ONLINE,
    TALLY_BROKERS,
    TALLY_IMBALANCE,
    TALLY_LEADERS_MOVED,
    TALLY_METADATA,
    TOPIC_QUEUED,
    TOPIC_UNCLEAN,
    Effect,
    Liveness,
    broker_t,
    chunk_start,
    first_slots,
    is_imbalanced,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    lowest_slot,
    record_t,
    write_bit,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)


cdef inline void write_isr(record_t* record, uint64_t isr) noexcept nogil:
    if record_t is WideRecord:
        record.isr = isr
    else:
        record.isr = <uint8_t> isr


cdef inline void lead_anew(
    record_t* record, const broker_t* brokers, const Choice* choice, bint recovery_supported
) noexcept nogil:
    """`new_leader_and_isr`, or `new_recovering` for an unclean choice (1.2, 4.1)."""
    record.leader = <int32_t> brokers[choice.slot]
    record.leader_epoch += 1
    write_isr(record, choice.isr)
    if choice.unclean and recovery_supported:
        record.flags |= FLAG_RECOVERY


cdef inline Choice choose_for(
    const record_t* record, int strategy, Liveness seen, bint unclean
) noexcept nogil:
    """Run the strategy on a record, with the assignment of the same row."""
    cdef uint64_t assigned = first_slots(record.n_replicas)
    return elect_one(
        strategy, assigned, assigned & ~(<uint64_t> record.removing), record.isr, seen, unclean
    )


cdef inline bint needs_permission(int strategy, uint64_t isr, Liveness seen) noexcept nogil:
    """Whether the topic's configuration decides on an unclean leader (4.2)."""
    return strategy == OFFLINE and not isr & seen.live


cdef inline void initialize_one(
    record_t* record, const broker_t* brokers, Liveness seen, int controller_epoch, Effect* effect
) noexcept nogil:
    """Source: specification, section 3.5; here the store holds a record iff one is cached."""
    cdef uint64_t online = first_slots(record.n_replicas) & seen.live
    if not online:
        effect.code = NO_LIVE_REPLICA
    elif record.flags & FLAG_HAS_LEADERSHIP:
        effect.code = NODE_EXISTS
    else:
        initial_record(record, brokers, online, controller_epoch)
        effect.code = INITIALIZED
        effect.kinds |= KIND_LEADER_AND_ISR | KIND_IS_NEW
        effect.recipients = online


cdef inline void initial_record(
    record_t* record, const broker_t* brokers, uint64_t online, int controller_epoch
) noexcept nogil:
    """`initial(first online, all online)` of section 1.2."""
    record.leader = <int32_t> brokers[lowest_slot(online)]
    record.leader_epoch = 0
    record.version = 0
    record.controller_epoch = controller_epoch
    record.flags = (record.flags | FLAG_HAS_LEADERSHIP) & ~FLAG_RECOVERY
    write_isr(record, online)


cdef inline void elect_for(
    record_t* record, const broker_t* brokers, Liveness seen, int strategy,
    const int32_t* topic_row, const uint8_t* topic_flags, int controller_epoch,
    bint recovery_supported, Effect* effect
) noexcept nogil:
    """Source: specification, section 3.6, where the cached record is the stored one.

    The topic is far away in memory, so it is asked only where its configuration decides (4.2).
    """
    cdef Choice choice
    cdef bint unclean
    effect.kinds |= KIND_ELECTION
    if not record.flags & FLAG_HAS_LEADERSHIP:
        effect.code = NO_RECORD
        return
    if record.controller_epoch > controller_epoch:
        effect.code = NEWER_CONTROLLER
        return
    if strategy == PREFERRED_IF_NEEDED and (
        record.n_replicas and <int32_t> brokers[0] == record.leader
    ):
        effect.kinds &= ~KIND_ELECTION
        return
    unclean = strategy == OFFLINE_ALLOW_UNCLEAN
    if needs_permission(strategy, record.isr, seen):
        unclean = topic_flags[topic_row[0]] & TOPIC_UNCLEAN
    choice = choose_for(record, strategy, seen, unclean)
    if choice.slot == NO_SLOT and strategy != WRITE_BACK:
        effect.code = NO_ELIGIBLE_LEADER
        return
    if strategy != WRITE_BACK:
        lead_anew(record, brokers, &choice, recovery_supported)
    record.version += 1
    record.controller_epoch = controller_epoch
    effect.code = ELECTED
    effect.kinds |= KIND_LEADER_AND_ISR | KIND_UNCLEAN if choice.unclean else KIND_LEADER_AND_ISR
    effect.recipients = choice.recipients


cdef inline void count_adopted(
    const record_t* record, const broker_t* brokers, const Effect* effect, int64_t* tally
) noexcept nogil:
    """Count the requests of one partition whose record is new."""
    if effect.kinds & KIND_LEADER_AND_ISR:
        count_requests(tally + TALLY_BROKERS, brokers, effect.recipients)
        tally[TALLY_METADATA] += 1
        tally[TALLY_LEADERS_MOVED] += (
            effect.leader_before >= 0 and record.leader >= 0
            and effect.leader_before != record.leader
        )


cdef inline uint8_t bring_one_online(
    record_t* record, const broker_t* brokers, const uint8_t* status, Py_ssize_t row,
    const int32_t* topic_row, const uint8_t* topic_flags, int strategy, uint32_t valid_previous,
    int controller_epoch, bint recovery_supported, bint any_queued, bint counting,
    uint64_t* leader_offline, uint64_t* pending, Effect* out, int64_t* tally
) noexcept nogil:
    """One partition to Online, by initialisation from New and by election otherwise (3.4)."""
    cdef Effect effect
    cdef uint8_t flags = topic_flags[topic_row[0]] if any_queued else 0
    cdef Liveness seen
    cdef bint imbalanced = is_imbalanced(record, brokers)
    if record.partition_state == P_NO_ENTRY:
        record.partition_state = P_NON_EXISTENT
    begin_effect(&effect, record, row, -1, record.partition_state, P_ONLINE, flags)
    if not (valid_previous >> record.partition_state) & 1:
        effect.code = ILLEGAL_STATE
    elif record.partition_state != P_NEW and strategy < 0:
        effect.code = ILLEGAL_ARGUMENT
    else:
        seen = liveness_of(record, brokers, status)
        if record.partition_state == P_NEW:
            initialize_one(record, brokers, seen, controller_epoch, &effect)
        else:
            elect_for(record, brokers, seen, strategy, topic_row, topic_flags,
                      controller_epoch, recovery_supported, &effect)
        if effect.code <= ELECTED:
            put_partition_state(record, row, P_ONLINE, flags, pending, tally)
            write_bit(leader_offline, row, not leader_is_online(record, brokers, seen.live))
            if not flags & TOPIC_QUEUED:
                tally[TALLY_IMBALANCE] += is_imbalanced(record, brokers) - imbalanced
    tally_effect(&effect, tally)
    if counting:
        count_adopted(record, brokers, &effect, tally)
    if out != NULL:
        carry_record(&effect, record)
        out[0] = effect
    return effect.code


def bring_online(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, unclean, ...
    uint64_t[::1] leader_offline,      # IN OUT  bitmap  partitions with an offline leader
    uint64_t[::1] pending,             # IN OUT  bitmap  partitions New or Offline
    const int32_t[::1] rows,           # IN      (n,)    partition rows, ascending, each once
    int strategy,                      # `Profile.kernel_strategy`; -1 for none
    uint32_t valid_previous,           # bit f set: the transition from state f is legal
    int controller_epoch,
    bint recovery_supported,           # an unclean leader starts in recovery
    bint any_queued,                   # some topic is queued: look at topic_flags
    bint counting,                     # fill all of the tally, not only the counters
    uint8_t[::1] codes,                # OUT     (n,)    `schema.Code`
    Effect[::1] effects,               # OUT     (n,)    what became of each; or (0,)
    int64_t[:, ::1] tally,             # IN OUT  (threads, width)
):
    """Bring partitions Online, where the cache is the store.

    Source: specification, sections 3.4 to 3.6; Kafka 3.9, `doHandleStateChanges`.
    """
    cdef int threads = <int> tally.shape[0]
    cdef Py_ssize_t i, row
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        for i in range(chunk_start(rows, t, threads), chunk_start(rows, t + 1, threads)):
            row = rows[min(i + AHEAD, rows.shape[0] - 1)]
            kfast_prefetch(&records[row])
            kfast_prefetch(&replicas[row, 0])
            row = rows[i]
            codes[i] = bring_one_online(
                &records[row], &replicas[row, 0], &broker_status[0], row,
                &topic_row[row], &topic_flags[0], strategy, valid_previous, controller_epoch,
                recovery_supported, any_queued, counting, &leader_offline[0], &pending[0],
                &effects[i] if effects.shape[0] else NULL, &tally[t, 0],
            )


def choose(
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, unclean, ...
    const int32_t[::1] rows,           # IN      (n,)    partition rows
    record_t[::1] stored,              # IN OUT  (n,)    stored records, then proposed ones
    int strategy,                      # `Profile.kernel_strategy`
    bint recovery_supported,
    const uint8_t[::1] lookup_failed,  # IN      (T,)    the topic's configuration is unreadable
    uint8_t[::1] codes,                # OUT     (n,)    MOVED where a leader was chosen
    uint64_t[::1] recipients,          # OUT     (n,)    slots to tell
    uint8_t[::1] unclean,              # OUT     (n,)    chosen outside the ISR
):
    """Elect on records as a store holds them; the records become the proposed ones.

    Source: specification, section 3.6, step 3, and section 4.
    """
    cdef Py_ssize_t i, row
    cdef Choice choice
    cdef Liveness seen
    cdef bint permitted
    for i in range(rows.shape[0]):
        row = rows[i]
        seen = liveness_of(&stored[i], &replicas[row, 0], &broker_status[0])
        permitted = (
            strategy == OFFLINE_ALLOW_UNCLEAN or topic_flags[topic_row[row]] & TOPIC_UNCLEAN
        )
        recipients[i] = 0
        unclean[i] = 0
        if needs_permission(strategy, stored[i].isr, seen) and lookup_failed[topic_row[row]]:
            codes[i] = CONFIG_LOOKUP_FAILED
            continue
        choice = choose_for(&stored[i], strategy, seen, permitted)
        if choice.slot == NO_SLOT and strategy != WRITE_BACK:
            codes[i] = NO_ELIGIBLE_LEADER
            continue
        codes[i] = MOVED
        recipients[i] = choice.recipients
        unclean[i] = choice.unclean
        if strategy != WRITE_BACK:
            lead_anew(&stored[i], &replicas[row, 0], &choice, recovery_supported)


def propose_initial(
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    const int32_t[::1] rows,           # IN      (n,)    partition rows, in state New
    record_t[::1] proposed,            # IN OUT  (n,)    cached records, then initial ones
    int controller_epoch,
    uint8_t[::1] codes,                # OUT     (n,)    MOVED, or NO_LIVE_REPLICA
    uint64_t[::1] recipients,          # OUT     (n,)    online assigned slots
):
    """Make the first record of new partitions. Source: specification, section 3.5, steps 1 to 3."""
    cdef Py_ssize_t i
    cdef Liveness seen
    for i in range(rows.shape[0]):
        seen = liveness_of(&proposed[i], &replicas[rows[i], 0], &broker_status[0])
        recipients[i] = first_slots(proposed[i].n_replicas) & seen.live
        codes[i] = MOVED if recipients[i] else NO_LIVE_REPLICA
        if recipients[i]:
            initial_record(&proposed[i], &replicas[rows[i], 0], recipients[i], controller_epoch)


def adopt(
    record_t[::1] records,             # IN OUT  (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN      (B,)    registered, shutting down
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    uint64_t[::1] leader_offline,      # IN OUT  bitmap  partitions with an offline leader
    const int32_t[::1] rows,           # IN      (n,)    partition rows, each once
    record_t[::1] written,       # IN      (n,)    leader, epochs, version, ISR, recovery
    int64_t[::1] tally,                # IN OUT  (width,)
):
    """Take stored records into the cache and keep counters and bitmap.

    The assignment, its masks and the partition's state stay as they are.

    Source: specification, section 1.6, `put_leadership`.
    """
    cdef Py_ssize_t i, row
    cdef bint imbalanced
    cdef Liveness seen
    for i in range(rows.shape[0]):
        row = rows[i]
        imbalanced = is_imbalanced(&records[row], &replicas[row, 0])
        records[row].leader = written[i].leader
        records[row].leader_epoch = written[i].leader_epoch
        records[row].version = written[i].version
        records[row].controller_epoch = written[i].controller_epoch
        records[row].isr = written[i].isr
        records[row].flags = <uint8_t> (
            (records[row].flags & ~FLAG_RECOVERY) | FLAG_HAS_LEADERSHIP
            | (written[i].flags & FLAG_RECOVERY)
        )
        seen = liveness_of(&records[row], &replicas[row, 0], &broker_status[0])
        write_bit(&leader_offline[0], row,
                  not leader_is_online(&records[row], &replicas[row, 0], seen.live))
        if not topic_flags[topic_row[row]] & TOPIC_QUEUED:
            tally[TALLY_IMBALANCE] += (
                is_imbalanced(&records[row], &replicas[row, 0]) - imbalanced
            )


def choose_one(
    int strategy,             # `schema.Strategy`
    uint64_t assigned,        # slots of the assignment
    uint64_t target,          # slots that a reassignment keeps
    uint64_t isr,             # slots in sync
    uint64_t live,            # slots that are online
    uint64_t up,              # the same, shutting-down brokers included
    uint64_t shutting_down,   # slots whose broker is in controlled shutdown
    bint unclean,             # a leader outside the ISR is permitted
):
    """Run one election on masks: (slot or -1, new ISR, recipients, chosen outside the ISR).

    Source: specification, section 4.1.
    """
    cdef Liveness seen
    cdef Choice choice
    seen.live = live
    seen.up = up
    seen.shutting_down = shutting_down
    choice = elect_one(strategy, assigned, target, isr, seen, unclean)
    return choice.slot, choice.isr, choice.recipients, choice.unclean
