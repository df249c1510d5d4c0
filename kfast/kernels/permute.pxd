"""Moving a broker from slot to slot, with every mask that speaks of it.

Sections are those of docs/controller.md.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t

from kfast.kernels.slots cimport (
    FLAG_ASSIGNED,
    R_NO_ENTRY,
    Effect,
    WideRecord,
    bit,
    broker_t,
    first_slots,
    record_t,
)


cdef inline uint64_t move_bit(uint64_t mask, int source, int destination) noexcept nogil:
    """The mask after the slot `source` was taken out and put in again at `destination`."""
    cdef uint64_t moved = (mask >> source) & 1
    cdef uint64_t rest = (mask & first_slots(source)) | (((mask >> source) >> 1) << source)
    return (
        (rest & first_slots(destination))
        | (moved << destination)
        | ((rest & ~first_slots(destination)) << 1)
    )


cdef inline void set_masks(
    record_t* record, uint64_t isr, uint64_t adding, uint64_t removing, uint64_t offline_dir
) noexcept nogil:
    """Write all four masks of a record."""
    if record_t is WideRecord:
        record.isr = isr
        record.adding = adding
        record.removing = removing
        record.offline_dir = offline_dir
    else:
        record.isr = <uint8_t> isr
        record.adding = <uint8_t> adding
        record.removing = <uint8_t> removing
        record.offline_dir = <uint8_t> offline_dir


cdef inline uint64_t permuted(uint64_t mask, const uint8_t* order, int n) noexcept nogil:
    """The mask after slot `order[s]` became slot s, for each s below n."""
    cdef uint64_t moved = 0
    cdef int s
    for s in range(n):
        moved |= ((mask >> order[s]) & 1) << s
    return moved


cdef inline uint64_t permute_slots(
    record_t* record, broker_t* brokers, uint8_t* states, const uint8_t* order, uint64_t marked
) noexcept nogil:
    """Put all slots of a row into another order; returns where the marked ones are now."""
    cdef broker_t moved_brokers[64]
    cdef uint8_t moved_states[64]
    cdef int n = record.n_slots
    cdef int s
    for s in range(n):
        moved_brokers[s] = brokers[order[s]]
        moved_states[s] = states[order[s]]
    for s in range(n):
        brokers[s] = moved_brokers[s]
        states[s] = moved_states[s]
    set_masks(
        record, permuted(record.isr, order, n), permuted(record.adding, order, n),
        permuted(record.removing, order, n), permuted(record.offline_dir, order, n),
    )
    return permuted(marked, order, n)


cdef inline void move_slot(
    record_t* record, broker_t* brokers, uint8_t* states, int source, int destination
) noexcept nogil:
    """Take one slot out and put it in again elsewhere; the slots between move by one."""
    cdef broker_t broker = brokers[source]
    cdef uint8_t state = states[source]
    cdef int step = 1 if destination > source else -1
    cdef int at = source
    while at != destination:
        brokers[at] = brokers[at + step]
        states[at] = states[at + step]
        at += step
    brokers[destination] = broker
    states[destination] = state
    set_masks(
        record,
        move_bit(record.isr, source, destination),
        move_bit(record.adding, source, destination),
        move_bit(record.removing, source, destination),
        move_bit(record.offline_dir, source, destination),
    )


cdef inline uint64_t append_to_assignment(
    record_t* record, broker_t* brokers, uint8_t* states, int slot, uint64_t recipients,
    Effect* effects, int n_effects
) noexcept nogil:
    """Make the tracked broker of a slot the last assigned replica.

    The masks of this call's effects so far, and its recipients, speak of slots too: they move as
    well. Returns `recipients` after the move. Source: section 2.4.
    """
    cdef int destination = record.n_replicas
    cdef int i
    move_slot(record, brokers, states, slot, destination)
    record.n_replicas += 1
    record.flags |= FLAG_ASSIGNED
    if effects != NULL:
        for i in range(n_effects):
            effects[i].isr = move_bit(effects[i].isr, slot, destination)
            effects[i].isr_before = move_bit(effects[i].isr_before, slot, destination)
            effects[i].recipients = move_bit(effects[i].recipients, slot, destination)
            effects[i].adding = move_bit(effects[i].adding, slot, destination)
            effects[i].removing = move_bit(effects[i].removing, slot, destination)
    return move_bit(recipients, slot, destination)


cdef inline void remove_from_assignment(
    record_t* record, broker_t* brokers, uint8_t* states, int slot
) noexcept nogil:
    """Take a slot out of the assignment: `remove(b)` of section 1.3.

    The slot stays tracked where an ISR, the leader or an offline directory still names the broker.
    """
    cdef int32_t broker = <int32_t> brokers[slot]
    cdef uint64_t gone = bit(slot)
    set_masks(record, record.isr, record.adding & ~gone, record.removing & ~gone,
              record.offline_dir)
    record.flags |= FLAG_ASSIGNED
    if slot < record.n_replicas:
        record.n_replicas -= 1
    move_slot(record, brokers, states, slot, record.n_slots - 1)
    gone = bit(record.n_slots - 1)
    if not (record.isr | record.offline_dir) & gone and record.leader != broker:
        record.n_slots -= 1
        brokers[record.n_slots] = <broker_t> -1
        states[record.n_slots] = R_NO_ENTRY
