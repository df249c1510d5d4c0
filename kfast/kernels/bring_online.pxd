"""One partition brought Online: its first leader, or another one.

Source: docs/controller.md, sections 3.4 to 3.6 and 4; Kafka 3.9, `ZkPartitionStateMachine`
(`initializeLeaderAndIsrForPartitions`, `electLeaderForPartitions`) and `Election`.
"""

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
    overrule,
)
from kfast.kernels.slots cimport (
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
    TALLY_LED,
    TALLY_METADATA,
    TOPIC_QUEUED,
    TOPIC_UNCLEAN,
    Effect,
    Liveness,
    WideRecord,
    broker_t,
    first_slots,
    is_imbalanced,
    leader_is_online,
    liveness_of,
    lowest_slot,
    record_t,
    write_bit,
)


cdef inline void write_isr(record_t* record, uint64_t isr) noexcept nogil:
    if record_t is WideRecord:
        record.isr = isr
    else:
        record.isr = <uint8_t> isr


cdef inline void lead_anew(
    record_t* record, const broker_t* brokers, const Choice* choice, bint recovery_supported
) noexcept nogil:
    """`new_leader_and_isr`, or `new_recovering` for an unclean choice (sections 1.2 and 4.1)."""
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
    """Whether the topic's configuration decides on an unclean leader (section 4.2)."""
    return strategy == OFFLINE and not isr & seen.live


cdef inline void initialize_one(
    record_t* record, const broker_t* brokers, Liveness seen, int controller_epoch, Effect* effect
) noexcept nogil:
    """Source: section 3.5; here the store holds a record iff one is cached."""
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
    bint recovery_supported, int decided, Effect* effect
) noexcept nogil:
    """Source: section 3.6, where the cached record is the stored one.

    The topic is far away in memory, so it is asked only where its configuration decides
    (section 4.2).
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
    overrule(&choice, decided)
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
    int controller_epoch, bint recovery_supported, int decided, bint any_queued, bint counting,
    uint64_t* leader_offline, uint64_t* pending, Effect* out, int64_t* tally
) noexcept nogil:
    """One partition to Online, by initialisation from New and by election otherwise.

    Source: section 3.4.
    """
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
            tally[TALLY_LED] += effect.code == INITIALIZED
        else:
            elect_for(record, brokers, seen, strategy, topic_row, topic_flags,
                      controller_epoch, recovery_supported, decided, &effect)
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
