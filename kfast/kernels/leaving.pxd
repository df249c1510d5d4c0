"""Replicas that go offline while another broker leads: what most rows of a failure are.

Source: specification, sections 2.5 and 2.6; Kafka 3.9, `ReplicaStateMachine`.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.effects cimport count_requests
from kfast.kernels.slots cimport (
    FLAG_HAS_LEADERSHIP,
    MOVED,
    P_ONLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_METADATA,
    WideRecord,
    broker_t,
    first_slots,
    kfast_count,
    lowest_slot,
    record_t,
    slot_of,
)


cdef inline bint are_plain_followers(
    const record_t* record, const broker_t* brokers, const uint8_t* states, uint64_t slots,
    uint32_t valid_previous, int controller_epoch
) noexcept nogil:
    """Whether all of some assigned slots are online followers of a leader that stays.

    The leader is in the ISR, which then never empties, so that the order of the slots does not
    matter; and no reassignment makes a slot count otherwise.
    """
    cdef uint64_t left = slots
    cdef int leader
    if record.partition_state != P_ONLINE or not record.flags & FLAG_HAS_LEADERSHIP or (
        record.adding | record.removing
    ) or record.controller_epoch > controller_epoch or not (valid_previous >> R_ONLINE) & 1:
        return False
    leader = slot_of(brokers, record.n_slots, record.leader)
    if leader < 0 or (slots >> leader) & 1 or not (record.isr >> leader) & 1:
        return False
    while left:
        if states[lowest_slot(left)] != R_ONLINE:
            return False
        left &= left - 1
    return True


cdef inline int leave_isr(
    record_t* record, const broker_t* brokers, uint8_t* states, uint64_t slots,
    int controller_epoch, bint counting, int64_t* tally, Py_ssize_t n_brokers
) noexcept nogil:
    """What `change_row` does to plain followers that go Offline; returns how many there are.

    Each is stopped and leaves the ISR with a write of its own; all assigned replicas but itself
    are told.
    """
    cdef uint64_t assigned = first_slots(record.n_replicas)
    cdef uint64_t left = slots
    cdef int n = kfast_count(slots)
    cdef int writes = kfast_count(record.isr & slots)
    cdef int slot
    record.leader_epoch += writes
    record.version += writes
    record.controller_epoch = controller_epoch
    if record_t is WideRecord:
        record.isr &= ~slots
    else:
        record.isr &= <uint8_t> ~slots
    while left:
        slot = lowest_slot(left)
        left &= left - 1
        states[slot] = R_OFFLINE
        if counting:
            tally[TALLY_BROKERS + n_brokers + brokers[slot]] += 1
    if counting:
        tally[TALLY_CODES + MOVED] += n
        tally[TALLY_CELLS + 8 * R_ONLINE + R_OFFLINE] += n
        tally[TALLY_METADATA] += 1
        count_requests(tally + TALLY_BROKERS, brokers, assigned & ~slots if n == 1 else assigned)
    return n
