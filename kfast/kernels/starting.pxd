"""What a new controller does to one partition: it forgets, announces, and sets the states.

Source: docs/controller.md, sections 2.2, 3.2 and 6.1; Kafka 3.9, `ReplicaStateMachine.startup` and
`PartitionStateMachine.initializePartitionState`.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from kfast.kernels.effects cimport count_requests, put_partition_state
from kfast.kernels.slots cimport (
    FLAG_ASSIGNED,
    FLAG_BEING_REASSIGNED,
    FLAG_HAS_LEADERSHIP,
    MOVED,
    P_NEW,
    P_NO_ENTRY,
    P_OFFLINE,
    P_ONLINE,
    R_NO_ENTRY,
    R_ONLINE,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_METADATA,
    TALLY_REASSIGNED,
    broker_t,
    kfast_count,
    leader_is_online,
    liveness_of,
    record_t,
    write_bit,
)


cdef inline void forget_row(record_t* record, uint8_t* states, int64_t* tally) noexcept nogil:
    """Forget what the last controller knew of a partition (section 6.1, step 4)."""
    cdef bint moving = record.adding != 0 or record.removing != 0
    cdef int s
    for s in range(record.n_replicas, record.n_slots):
        states[s] = R_NO_ENTRY
    record.partition_state = P_NO_ENTRY
    record.offline_dir = 0
    record.flags &= ~FLAG_BEING_REASSIGNED
    if moving:
        record.flags |= FLAG_BEING_REASSIGNED
        tally[TALLY_REASSIGNED] += 1


cdef inline void announce_row(
    const record_t* record, const broker_t* brokers, uint64_t online, int64_t* tally
) noexcept nogil:
    """What `change_row` counts where replicas that are Online become Online (section 2.4).

    At startup nearly every replica is such a one, and there is nothing else to do for it.
    """
    cdef int n = kfast_count(online)
    tally[TALLY_CODES + MOVED] += n
    tally[TALLY_CELLS + 8 * R_ONLINE + R_ONLINE] += n
    if record.flags & FLAG_HAS_LEADERSHIP and online:
        tally[TALLY_METADATA] += 1
        count_requests(tally + TALLY_BROKERS, brokers, online)


cdef inline void initialize_partition(
    record_t* record, const broker_t* brokers, const uint8_t* status, Py_ssize_t row,
    uint8_t flags, uint64_t* pending, int64_t* tally
) noexcept nogil:
    """Set one partition's state by its record and its leader (section 3.2)."""
    cdef int state
    if not record.flags & FLAG_ASSIGNED:
        write_bit(pending, row,
                  record.partition_state == P_NEW or record.partition_state == P_OFFLINE)
        return
    if not record.flags & FLAG_HAS_LEADERSHIP:
        state = P_NEW
    elif leader_is_online(record, brokers, liveness_of(record, brokers, status).live):
        state = P_ONLINE
    else:
        state = P_OFFLINE
    put_partition_state(record, row, state, flags, pending, tally)
