"""One replica's transition, and all of one partition's, as functions on its row.

Source: docs/controller.md, sections 2.4 to 2.6; Kafka 3.9,
`ZkReplicaStateMachine.doHandleStateChanges` and `doRemoveReplicasFromIsr`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.effects cimport begin_effect, carry_record, count_requests, write_isr
from kfast.kernels.isr cimport Shrunk, shrink_one
from kfast.kernels.permute cimport append_to_assignment, remove_from_assignment
from kfast.kernels.rules cimport RuleSet
from kfast.kernels.slots cimport (
    APPENDED,
    DROPPED,
    Effect,
    FLAG_HAS_LEADERSHIP,
    ILLEGAL_STATE,
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_STOP,
    LEADERLESS_MOVED,
    LEADERLESS_REFUSED,
    LEADER_IS_NEW_REPLICA,
    MOVED,
    NEWER_CONTROLLER,
    NOT_ASKED,
    NO_LEADER,
    NO_RECORD,
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
    TOPIC_QUEUED,
    TOPIC_UNCLEAN,
    bit,
    first_slots,
    is_imbalanced,
    record_t,
    row_t,
    write_bit,
)


# What one replica's transition does beyond its state; the rest of an effect is filled where kept.
cdef struct TransitionResult:
    uint64_t recipients
    int32_t stop_epoch
    uint8_t code
    uint8_t kinds


cdef inline void become_new(
    const record_t* record, int slot, int32_t broker, TransitionResult* result
) noexcept nogil:
    """Source: section 2.4, NewReplica."""
    if not record.flags & FLAG_HAS_LEADERSHIP:
        return
    if record.leader == broker:
        result.code = LEADER_IS_NEW_REPLICA
        return
    result.kinds |= KIND_LEADER_AND_ISR | KIND_IS_NEW
    result.recipients = bit(slot)


cdef inline void become_online(
    const record_t* record, int slot, int from_state, TransitionResult* result
) noexcept nogil:
    """Source: section 2.4, OnlineReplica; the caller appends where it is told to."""
    if from_state == R_NEW:
        if slot >= record.n_replicas:
            result.code = APPENDED
    elif record.flags & FLAG_HAS_LEADERSHIP:
        result.kinds |= KIND_LEADER_AND_ISR
        result.recipients = bit(slot)


cdef inline void add_stop(
    const record_t* record, TransitionResult* result, bint queued, bint delete
) noexcept nogil:
    """Source: section 5.2, `add_stop_replica`."""
    result.kinds |= KIND_STOP | KIND_DELETE if delete else KIND_STOP
    if queued:
        result.stop_epoch = -2
    else:
        result.stop_epoch = record.leader_epoch if record.flags & FLAG_HAS_LEADERSHIP else -1


cdef inline void stay_leaderless(
    TransitionResult* result, bint queued, int without_leadership
) noexcept nogil:
    """Offline without cached leadership. Source: sections 2.5 and 8.1."""
    if without_leadership == LEADERLESS_MOVED:
        result.kinds |= KIND_METADATA
    elif without_leadership == LEADERLESS_REFUSED and not queued:
        result.code = NO_RECORD
    else:
        result.code = DROPPED


cdef inline void become_offline(
    row_t row, const RuleSet* rules, int slot, uint8_t topic_flags, TransitionResult* result
) noexcept nogil:
    """Source: sections 2.5 and 2.6; where a store is asked, it decides the rest."""
    cdef Shrunk shrunk
    cdef bint queued = topic_flags & TOPIC_QUEUED
    cdef bint may_empty = rules.empties_unclean and topic_flags & TOPIC_UNCLEAN
    record = row.record
    add_stop(record, result, queued, False)
    if not record.flags & FLAG_HAS_LEADERSHIP:
        stay_leaderless(result, queued, rules.without_leadership)
        return
    if rules.asks_store:
        result.code = NOT_ASKED
        return
    if record.controller_epoch > rules.controller_epoch:
        result.code = NEWER_CONTROLLER
        return
    shrunk = shrink_one(
        bit(slot), record.isr, record.leader == <int32_t> row.brokers[slot], may_empty
    )
    if shrunk.write:
        record.leader_epoch += 1
        record.version += 1
        if shrunk.leaderless:
            record.leader = NO_LEADER
        write_isr(record, shrunk.isr)
    record.controller_epoch = rules.controller_epoch
    if not queued:
        result.kinds |= KIND_LEADER_AND_ISR
        result.recipients = first_slots(record.n_replicas) & ~bit(slot)


cdef inline TransitionResult change_one(
    row_t row, const RuleSet* rules, int slot, int target, uint8_t topic_flags
) noexcept nogil:
    """Move one replica, if the matrix allows it. Source: section 2.4."""
    cdef TransitionResult result
    result.recipients = 0
    result.stop_epoch = 0
    result.code = MOVED
    result.kinds = 0
    if not (rules.replica_previous[target] >> row.states[slot]) & 1:
        result.code = ILLEGAL_STATE
        return result
    if target == R_NEW:
        become_new(row.record, slot, <int32_t> row.brokers[slot], &result)
    elif target == R_ONLINE:
        become_online(row.record, slot, row.states[slot], &result)
    elif target == R_OFFLINE:
        become_offline(row, rules, slot, topic_flags, &result)
    elif target == R_DELETION_STARTED:
        add_stop(row.record, &result, topic_flags & TOPIC_QUEUED, True)
    if result.code == MOVED or result.code == APPENDED:
        row.states[slot] = R_NO_ENTRY if target == R_NON_EXISTENT else <uint8_t> target
    return result


cdef inline void move_later(
    uint8_t* order, int begin, int n, int source, int destination
) noexcept nogil:
    """Correct the slots still to be visited after one slot was taken out and put in elsewhere."""
    cdef int i
    for i in range(begin, n):
        if source < order[i] <= destination:
            order[i] -= 1
        elif destination <= order[i] < source:
            order[i] += 1


cdef inline Py_ssize_t change_row(
    row_t row, const RuleSet* rules, uint8_t* order, int n, int target, uint8_t topic_flags,
    uint8_t* codes, Effect* effects, int64_t* tally, Py_ssize_t n_brokers
) noexcept nogil:
    """Move the replicas in n slots of one partition, in the given order, which is used up."""
    cdef bint imbalanced = is_imbalanced(row)
    cdef int32_t leader = row.record.leader
    cdef uint64_t told = 0
    cdef int kinds = 0
    cdef int run = 0
    cdef int first_state = 0
    cdef int i, slot, from_state
    cdef int32_t broker
    cdef TransitionResult result
    for i in range(n):
        slot = order[i]
        broker = <int32_t> row.brokers[slot]
        if row.states[slot] == R_NO_ENTRY:
            row.states[slot] = R_NON_EXISTENT
        from_state = row.states[slot]
        if effects != NULL:
            begin_effect(&effects[i], row, broker, from_state, target, topic_flags)
        result = change_one(row, rules, slot, target, topic_flags)
        codes[i] = result.code
        told |= result.recipients
        kinds |= result.kinds
        if i == 0:
            first_state = from_state
        if rules.counting and result.code == MOVED and from_state == first_state:
            run += 1
            if result.kinds & KIND_STOP:
                tally[TALLY_BROKERS + n_brokers + broker] += 1
        elif rules.counting:
            count_target(tally, n_brokers, broker, from_state, target, &result)
        if effects != NULL:
            keep_result(&effects[i], row.record, &result)
        if result.code == APPENDED:
            move_later(order, i + 1, n, slot, row.record.n_replicas)
            told = append_to_assignment(row, slot, told, effects, i + 1)
        elif target == R_NON_EXISTENT and result.code == MOVED:
            move_later(order, i + 1, n, slot, row.record.n_slots - 1)
            remove_from_assignment(row, slot)
    if rules.counting:
        # Most replicas of a partition share their fate: one addition serves them all.
        tally[TALLY_CODES + MOVED] += run
        tally[TALLY_CELLS + 8 * first_state + target] += run
        count_requests(tally + TALLY_BROKERS, row.brokers, told)
        tally[TALLY_METADATA] += (kinds & KIND_LEADER_AND_ISR) != 0
        tally[TALLY_ANNOUNCED] += (kinds & KIND_METADATA) != 0
    if not topic_flags & TOPIC_QUEUED:
        tally[TALLY_IMBALANCE] += is_imbalanced(row) - imbalanced
    if row.record.leader != leader:
        write_bit(row.leader_offline, row.index, True)
    return n


cdef inline void count_target(
    int64_t* tally, Py_ssize_t n_brokers, int32_t broker, int from_state, int target,
    const TransitionResult* result
) noexcept nogil:
    """Count what became of one replica."""
    tally[TALLY_CODES + result.code] += 1
    if result.code == MOVED or result.code == APPENDED:
        tally[TALLY_CELLS + 8 * from_state + target] += 1
    if result.kinds & KIND_STOP:
        tally[TALLY_BROKERS + n_brokers + broker] += 1


cdef inline void keep_result(
    Effect* effect, const record_t* record, const TransitionResult* result
) noexcept nogil:
    """Complete an effect with what was done and what requests say of the record now."""
    effect.code = result.code
    effect.kinds |= result.kinds
    effect.recipients = result.recipients
    effect.stop_epoch = result.stop_epoch
    carry_record(effect, record)
