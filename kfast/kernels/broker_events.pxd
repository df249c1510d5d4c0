"""What the events that visit each partition once have in common."""

from libc.stdint cimport uint8_t, uint64_t

from kfast.kernels.slots cimport (
    FLAG_HAS_LEADERSHIP,
    broker_t,
    leader_is_online,
    liveness_of,
    record_t,
    write_bit,
)


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
