"""One partition brought Online: its first leader, or another one.

Source: docs/controller.md, sections 3.4 to 3.6 and 4; Kafka 3.9, `ZkPartitionStateMachine`
(`initializeLeaderAndIsrForPartitions`, `electLeaderForPartitions`) and `Election`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.effects cimport (
    begin_effect,
    carry_record,
    count_requests,
    put_partition_state,
    tally_effect,
    write_isr,
)
from kfast.kernels.election cimport (
    Choice,
    OFFLINE,
    OFFLINE_ALLOW_UNCLEAN,
    PREFERRED_IF_NEEDED,
    WRITE_BACK,
    elect_one,
    overrule,
)
from kfast.kernels.rules cimport RuleSet
from kfast.kernels.slots cimport (
    ELECTED,
    Effect,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    INITIALIZED,
    KIND_ELECTION,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_UNCLEAN,
    Liveness,
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
    first_slots,
    is_imbalanced,
    leader_is_online,
    liveness_of,
    lowest_slot,
    record_t,
    row_t,
    topic_flags_of,
    write_bit,
)


cdef inline void lead_anew(
    row_t row, const Choice* choice, bint recovery_supported
) noexcept nogil:
    """`new_leader_and_isr`, or `new_recovering` for an unclean choice (sections 1.2 and 4.1)."""
    row.record.leader = <int32_t> row.brokers[choice.slot]
    row.record.leader_epoch += 1
    write_isr(row.record, choice.isr)
    if choice.unclean and recovery_supported:
        row.record.flags |= FLAG_RECOVERY


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
    row_t row, Liveness seen, int controller_epoch, Effect* effect
) noexcept nogil:
    """Source: section 3.5; here the store holds a record iff one is cached."""
    cdef uint64_t online = first_slots(row.record.n_replicas) & seen.live
    if not online:
        effect.code = NO_LIVE_REPLICA
    elif row.record.flags & FLAG_HAS_LEADERSHIP:
        effect.code = NODE_EXISTS
    else:
        initial_record(row, online, controller_epoch)
        effect.code = INITIALIZED
        effect.kinds |= KIND_LEADER_AND_ISR | KIND_IS_NEW
        effect.recipients = online


cdef inline void initial_record(
    row_t row, uint64_t online, int controller_epoch
) noexcept nogil:
    """`initial(first online, all online)` of section 1.2."""
    row.record.leader = <int32_t> row.brokers[lowest_slot(online)]
    row.record.leader_epoch = 0
    row.record.version = 0
    row.record.controller_epoch = controller_epoch
    row.record.flags = (row.record.flags | FLAG_HAS_LEADERSHIP) & ~FLAG_RECOVERY
    write_isr(row.record, online)


cdef inline void elect_for(
    row_t row, const RuleSet* rules, Liveness seen, int strategy, int decided, Effect* effect
) noexcept nogil:
    """Source: section 3.6, where the cached record is the stored one.

    The topic is asked only where its configuration decides (section 4.2).
    """
    cdef Choice choice
    cdef bint unclean
    effect.kinds |= KIND_ELECTION
    if not row.record.flags & FLAG_HAS_LEADERSHIP:
        effect.code = NO_RECORD
        return
    if row.record.controller_epoch > rules.controller_epoch:
        effect.code = NEWER_CONTROLLER
        return
    if strategy == PREFERRED_IF_NEEDED and (
        row.record.n_replicas and <int32_t> row.brokers[0] == row.record.leader
    ):
        effect.kinds &= ~KIND_ELECTION
        return
    unclean = strategy == OFFLINE_ALLOW_UNCLEAN
    if needs_permission(strategy, row.record.isr, seen):
        unclean = topic_flags_of(row) & TOPIC_UNCLEAN
    choice = choose_for(row.record, strategy, seen, unclean)
    overrule(&choice, decided)
    if choice.slot == NO_SLOT and strategy != WRITE_BACK:
        effect.code = NO_ELIGIBLE_LEADER
        return
    if strategy != WRITE_BACK:
        lead_anew(row, &choice, rules.recovery_supported)
    row.record.version += 1
    row.record.controller_epoch = rules.controller_epoch
    effect.code = ELECTED
    effect.kinds |= KIND_LEADER_AND_ISR | KIND_UNCLEAN if choice.unclean else KIND_LEADER_AND_ISR
    effect.recipients = choice.recipients


cdef inline void count_adopted(row_t row, const Effect* effect, int64_t* tally) noexcept nogil:
    """Count the requests of one partition whose record is new."""
    if effect.kinds & KIND_LEADER_AND_ISR:
        count_requests(tally + TALLY_BROKERS, row.brokers, effect.recipients)
        tally[TALLY_METADATA] += 1
        tally[TALLY_LEADERS_MOVED] += (
            effect.leader_before >= 0 and row.record.leader >= 0
            and effect.leader_before != row.record.leader
        )


cdef inline uint8_t bring_one_online(
    row_t row, const RuleSet* rules, uint8_t flags, int strategy, int decided, Effect* out,
    int64_t* tally
) noexcept nogil:
    """One partition to Online, by initialisation from New and by election otherwise.

    Source: section 3.4.
    """
    cdef Effect effect
    cdef Liveness seen
    cdef bint imbalanced = is_imbalanced(row)
    if row.record.partition_state == P_NO_ENTRY:
        row.record.partition_state = P_NON_EXISTENT
    begin_effect(&effect, row, -1, row.record.partition_state, P_ONLINE, flags)
    if not (rules.partition_previous[P_ONLINE] >> row.record.partition_state) & 1:
        effect.code = ILLEGAL_STATE
    elif row.record.partition_state != P_NEW and strategy < 0:
        effect.code = ILLEGAL_ARGUMENT
    else:
        seen = liveness_of(row)
        if row.record.partition_state == P_NEW:
            initialize_one(row, seen, rules.controller_epoch, &effect)
            tally[TALLY_LED] += effect.code == INITIALIZED
        else:
            elect_for(row, rules, seen, strategy, decided, &effect)
        if effect.code <= ELECTED:
            put_partition_state(row, P_ONLINE, flags, tally)
            write_bit(row.leader_offline, row.index, not leader_is_online(row, seen.live))
            if not flags & TOPIC_QUEUED:
                tally[TALLY_IMBALANCE] += is_imbalanced(row) - imbalanced
    tally_effect(&effect, tally)
    if rules.counting:
        count_adopted(row, &effect, tally)
    if out != NULL:
        carry_record(&effect, row.record)
        out[0] = effect
    return effect.code
