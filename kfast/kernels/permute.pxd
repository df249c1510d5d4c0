"""Moving a broker from slot to slot, with every mask that speaks of it.

Sections are those of docs/controller.md.
"""

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t

from kfast.kernels.slots cimport (
    Effect,
    FLAG_ASSIGNED,
    R_NO_ENTRY,
    WideRecord,
    WideRow,
    bit,
    first_slots,
    record_t,
    row_t,
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


cdef inline void put_broker(row_t row, int slot, int32_t broker) noexcept nogil:
    """Write the broker row of one slot; -1 for none."""
    if row_t is WideRow:
        row.brokers[slot] = broker
    else:
        row.brokers[slot] = <uint16_t> broker


cdef inline uint64_t permute_slots(
    row_t row, const uint8_t* order, uint64_t marked
) noexcept nogil:
    """Put all slots of a row into another order; returns where the marked ones are now."""
    cdef int32_t moved_brokers[64]
    cdef uint8_t moved_states[64]
    cdef int n = row.record.n_slots
    cdef int s
    for s in range(n):
        moved_brokers[s] = <int32_t> row.brokers[order[s]]
        moved_states[s] = row.states[order[s]]
    for s in range(n):
        put_broker(row, s, moved_brokers[s])
        row.states[s] = moved_states[s]
    set_masks(
        row.record,
        permuted(row.record.isr, order, n), permuted(row.record.adding, order, n),
        permuted(row.record.removing, order, n), permuted(row.record.offline_dir, order, n),
    )
    return permuted(marked, order, n)


cdef inline void move_slot(row_t row, int source, int destination) noexcept nogil:
    """Take one slot out and put it in again elsewhere; the slots between move by one."""
    cdef int32_t broker = <int32_t> row.brokers[source]
    cdef uint8_t state = row.states[source]
    cdef int step = 1 if destination > source else -1
    cdef int at = source
    while at != destination:
        row.brokers[at] = row.brokers[at + step]
        row.states[at] = row.states[at + step]
        at += step
    put_broker(row, destination, broker)
    row.states[destination] = state
    set_masks(
        row.record,
        move_bit(row.record.isr, source, destination),
        move_bit(row.record.adding, source, destination),
        move_bit(row.record.removing, source, destination),
        move_bit(row.record.offline_dir, source, destination),
    )


cdef inline uint64_t append_to_assignment(
    row_t row, int slot, uint64_t recipients, Effect* effects, int n_effects
) noexcept nogil:
    """Make the tracked broker of a slot the last assigned replica.

    The masks of this call's effects so far, and its recipients, speak of slots too: they move as
    well. Returns `recipients` after the move. Source: section 2.4.
    """
    cdef int destination = row.record.n_replicas
    cdef int i
    move_slot(row, slot, destination)
    row.record.n_replicas += 1
    row.record.flags |= FLAG_ASSIGNED
    if effects != NULL:
        for i in range(n_effects):
            effects[i].isr = move_bit(effects[i].isr, slot, destination)
            effects[i].isr_before = move_bit(effects[i].isr_before, slot, destination)
            effects[i].recipients = move_bit(effects[i].recipients, slot, destination)
            effects[i].adding = move_bit(effects[i].adding, slot, destination)
            effects[i].removing = move_bit(effects[i].removing, slot, destination)
    return move_bit(recipients, slot, destination)


cdef inline void remove_from_assignment(row_t row, int slot) noexcept nogil:
    """Take a slot out of the assignment: `remove(b)` of section 1.3.

    The slot stays tracked where an ISR, the leader or an offline directory still names the broker.
    """
    cdef int32_t broker = <int32_t> row.brokers[slot]
    cdef uint64_t gone = bit(slot)
    record = row.record
    set_masks(record, record.isr, record.adding & ~gone, record.removing & ~gone,
              record.offline_dir)
    record.flags |= FLAG_ASSIGNED
    if slot < record.n_replicas:
        record.n_replicas -= 1
    move_slot(row, slot, record.n_slots - 1)
    gone = bit(record.n_slots - 1)
    if not (record.isr | record.offline_dir) & gone and record.leader != broker:
        record.n_slots -= 1
        put_broker(row, record.n_slots, -1)
        row.states[record.n_slots] = R_NO_ENTRY
