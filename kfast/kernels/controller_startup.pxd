"""What a new controller does to one partition: it forgets, announces, and sets the states.

Source: docs/controller.md, sections 2.2, 3.2 and 6.1; Kafka 3.9, `ReplicaStateMachine.startup` and
`PartitionStateMachine.initializePartitionState`.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from kfast.kernels.effects cimport count_requests, put_partition_state
from kfast.kernels.rules cimport RuleSet
from kfast.kernels.slots cimport (
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    LEADERLESS_MOVED,
    MOVED,
    P_NEW,
    P_NO_ENTRY,
    P_OFFLINE,
    P_ONLINE,
    R_DELETION_INELIGIBLE,
    R_NO_ENTRY,
    R_ONLINE,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_METADATA,
    TALLY_REASSIGNED,
    kfast_count,
    leader_is_online,
    liveness_of,
    row_t,
    write_bit,
)


cdef inline void forget_row(row_t row, int64_t* tally) noexcept nogil:
    """Forget what the last controller knew of a partition (section 6.1, step 4)."""
    cdef int s
    record = row.record
    for s in range(record.n_replicas, record.n_slots):
        row.states[s] = R_NO_ENTRY
    record.partition_state = P_NO_ENTRY
    record.offline_dir = 0
    record.flags &= ~FLAG_BEING_REASSIGNED
    if record.adding or record.removing:
        record.flags |= FLAG_BEING_REASSIGNED
        tally[TALLY_REASSIGNED] += 1


cdef inline void announce_row(row_t row, uint64_t online, int64_t* tally) noexcept nogil:
    """What `change_row` counts where replicas that are Online become Online (section 2.4).

    At startup nearly every replica is such a one, and there is nothing else to do for it.
    """
    cdef int n = kfast_count(online)
    tally[TALLY_CODES + MOVED] += n
    tally[TALLY_CELLS + 8 * R_ONLINE + R_ONLINE] += n
    if row.record.flags & FLAG_HAS_LEADERSHIP and online:
        tally[TALLY_METADATA] += 1
        count_requests(tally + TALLY_BROKERS, row.brokers, online)


cdef inline void initialize_partition(row_t row, uint8_t flags, int64_t* tally) noexcept nogil:
    """Set one partition's state by its record and its leader (section 3.2)."""
    cdef int state = row.record.partition_state
    if not row.record.flags & FLAG_ASSIGNED:
        write_bit(row.pending, row.index, state == P_NEW or state == P_OFFLINE)
        return
    if not row.record.flags & FLAG_HAS_LEADERSHIP:
        state = P_NEW
    elif leader_is_online(row, liveness_of(row).live):
        state = P_ONLINE
    else:
        state = P_OFFLINE
    put_partition_state(row, state, flags, tally)


cdef inline void set_first_states(row_t row, uint64_t live) noexcept nogil:
    """Set the state of every assigned replica by its liveness (section 2.2)."""
    cdef int s
    for s in range(row.record.n_replicas):
        row.states[s] = R_ONLINE if (live >> s) & 1 else R_DELETION_INELIGIBLE


cdef inline RuleSet startup_rules(const RuleSet* rules) noexcept nogil:
    """The rules by which dead replicas go Offline at startup: of every version the same."""
    cdef RuleSet values = rules[0]
    values.asks_store = False
    values.without_leadership = LEADERLESS_MOVED
    values.empties_unclean = False
    return values
