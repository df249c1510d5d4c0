"""What the journal keeps of one effect: all that its tables say, with nothing left to look up.

A kept effect is a struct in the layout of the state, and the partition's row of the replica matrix
behind it, so that later changes of the state do not show. Slots that are not in use name broker
row 0, so that they can be looked up like others. Kernels pass kept effects as rows of bytes.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memmove

from kfast.kernels.slots cimport (
    KIND_LEADER_AND_ISR,
    Effect,
    NarrowRecord,
    broker_t,
    chunk_start,
    first_slots,
    liveness_of,
    lowest_slot,
    record_t,
)

cdef struct NarrowKept:
    int32_t row
    int32_t topic_row
    int32_t partition
    int32_t broker
    int32_t leader_before
    int32_t leader
    int32_t leader_epoch
    int32_t version
    int32_t controller_epoch
    int32_t stop_epoch
    uint8_t isr_before
    uint8_t isr
    uint8_t recipients
    uint8_t adding
    uint8_t removing
    uint8_t offline
    uint8_t code
    int8_t from_state
    int8_t to_state
    uint8_t kinds
    uint8_t recovery
    uint8_t n_replicas

cdef struct WideKept:
    int32_t row
    int32_t topic_row
    int32_t partition
    int32_t broker
    int32_t leader_before
    int32_t leader
    int32_t leader_epoch
    int32_t version
    int32_t controller_epoch
    int32_t stop_epoch
    uint64_t isr_before
    uint64_t isr
    uint64_t recipients
    uint64_t adding
    uint64_t removing
    uint64_t offline
    uint8_t code
    int8_t from_state
    int8_t to_state
    uint8_t kinds
    uint8_t recovery
    uint8_t n_replicas

ctypedef fused kept_t:
    NarrowKept
    WideKept

# Where the kept effects of one thread's share of a step go.
cdef struct Keeper:
    uint8_t* place
    Py_ssize_t stride
    const int32_t* topic_row
    const int32_t* partition
    const uint8_t* status
    int width
    int32_t last
    int32_t run
    int64_t seen

# What `Keeper.seen` gathers: kinds that occur (bits 0 to 7), kinds that some effect lacks (8 to
# 15); whether a row follows itself, or one that it should stand before; whether some partition is
# being reassigned; in bits 19 to 31 how many effects of a row follow each other, at most (all bits
# set: so many or more); and from bit 32 on the codes that occur.
cdef enum:
    SEEN_LACKS = 8
    SEEN_TWICE = 1 << 16
    SEEN_UNORDERED = 1 << 17
    SEEN_CHANGING = 1 << 18
    SEEN_RUNS = 19
    SEEN_LONGEST = 8191
    SEEN_CODES = 32


cdef inline Keeper new_keeper(
    uint8_t* place, Py_ssize_t stride, const int32_t* topic_row, const int32_t* partition,
    const uint8_t* status, int width
) noexcept nogil:
    """A keeper that begins at one place of an array of kept effects."""
    cdef Keeper keeper
    keeper.place = place
    keeper.stride = stride
    keeper.topic_row = topic_row
    keeper.partition = partition
    keeper.status = status
    keeper.width = width
    keeper.last = -1
    keeper.run = 1
    keeper.seen = 0
    return keeper


# Effects of the steps of an event in one visit share an array: every step has room for one effect
# of each row, and the last step, that of the replicas, has the rest of the array.

cdef inline void begin_steps(
    Keeper* keepers, int n_steps, uint8_t[:, ::1] kept, Py_ssize_t n_rows, Py_ssize_t row,
    const int32_t* topic_row, const int32_t* partition, const uint8_t* status, int width
) noexcept nogil:
    """Keepers of all steps for a thread whose share of the rows begins at the given one."""
    cdef Py_ssize_t stride = kept.shape[1]
    cdef uint8_t* first = &kept[0, 0] if kept.shape[0] else NULL
    cdef Py_ssize_t each = kept.shape[0] // n_rows - (n_steps - 1) if kept.shape[0] else 0
    cdef Py_ssize_t at
    cdef int k
    for k in range(n_steps):
        at = k * n_rows + row * (each if k == n_steps - 1 else 1)
        keepers[k] = new_keeper(
            first + stride * at if first != NULL else NULL, stride, topic_row, partition, status,
            width,
        )


cdef inline void end_steps(const Keeper* keepers, int n_steps, int64_t* counts) noexcept nogil:
    """Say what each step's effects were like, in columns 3 and on of the counts."""
    cdef int k
    for k in range(n_steps):
        counts[3 + k] = keepers[k].seen


cdef inline void close_gaps(
    int n_steps, uint8_t[:, ::1] kept, const int32_t[::1] rows, const int64_t[:, ::1] counts
) noexcept nogil:
    """Move the effects of each step together: behind what one thread kept, what the next did."""
    cdef Py_ssize_t n_rows = rows.shape[0]
    cdef Py_ssize_t each, first, end
    cdef int threads = <int> counts.shape[0]
    cdef int k, t
    if not kept.shape[0]:
        return
    for k in range(n_steps):
        each = kept.shape[0] // n_rows - (n_steps - 1) if k == n_steps - 1 else 1
        end = k * n_rows
        for t in range(threads):
            first = k * n_rows + chunk_start(rows, t, threads) * each
            if counts[t, k] and first != end:
                memmove(&kept[end, 0], &kept[first, 0], counts[t, k] * kept.shape[1])
            end += counts[t, k]


cdef inline void write_kept(
    kept_t* kept, const Effect* effect, int32_t topic_row, int32_t partition, uint64_t offline
) noexcept nogil:
    kept.row = effect.row
    kept.topic_row = topic_row
    kept.partition = partition
    kept.broker = effect.broker
    kept.leader_before = effect.leader_before
    kept.leader = effect.leader
    kept.leader_epoch = effect.leader_epoch
    kept.version = effect.version
    kept.controller_epoch = effect.controller_epoch
    kept.stop_epoch = effect.stop_epoch
    if kept_t is NarrowKept:
        kept.isr_before = <uint8_t> effect.isr_before
        kept.isr = <uint8_t> effect.isr
        kept.recipients = <uint8_t> effect.recipients
        kept.adding = <uint8_t> effect.adding
        kept.removing = <uint8_t> effect.removing
        kept.offline = <uint8_t> offline
    else:
        kept.isr_before = effect.isr_before
        kept.isr = effect.isr
        kept.recipients = effect.recipients
        kept.adding = effect.adding
        kept.removing = effect.removing
        kept.offline = offline
    kept.code = effect.code
    kept.from_state = effect.from_state
    kept.to_state = effect.to_state
    kept.kinds = effect.kinds
    kept.recovery = effect.recovery
    kept.n_replicas = effect.n_replicas


cdef inline void keep_effect(
    Keeper* keeper, const Effect* effect, const record_t* record, const broker_t* brokers
) noexcept nogil:
    """Keep one effect with its names and slots, and go on to the next place."""
    cdef uint64_t offline = 0
    if effect.kinds & KIND_LEADER_AND_ISR:
        offline = first_slots(record.n_replicas)
        offline &= ~liveness_of(record, brokers, keeper.status).live
    keep_with(keeper, effect, record, brokers, offline)


cdef inline void keep_with(
    Keeper* keeper, const Effect* effect, const record_t* record, const broker_t* brokers,
    uint64_t offline
) noexcept nogil:
    """`keep_effect` where the assigned slots that are not online are known."""
    cdef Py_ssize_t row = effect.row
    cdef broker_t* slots
    cdef int s
    if record_t is NarrowRecord:
        write_kept(<NarrowKept*> keeper.place, effect, keeper.topic_row[row],
                   keeper.partition[row], offline)
        slots = <broker_t*> (keeper.place + sizeof(NarrowKept))
    else:
        write_kept(<WideKept*> keeper.place, effect, keeper.topic_row[row],
                   keeper.partition[row], offline)
        slots = <broker_t*> (keeper.place + sizeof(WideKept))
    for s in range(keeper.width):
        slots[s] = brokers[s] if s < record.n_slots else 0
    keeper.place += keeper.stride
    see_effect(keeper, effect.row, effect.kinds, effect.code, effect.adding | effect.removing)


cdef inline void see_effect(
    Keeper* keeper, int32_t row, uint8_t kinds, uint8_t code, uint64_t changing
) noexcept nogil:
    """Gather what an effect is like."""
    keeper.seen |= kinds | (<int64_t> (~kinds & 255)) << SEEN_LACKS
    keeper.seen |= (<int64_t> 1) << (SEEN_CODES + code)
    keeper.run = min(keeper.run + 1, SEEN_LONGEST) if row == keeper.last else 1
    keeper.seen |= (<int64_t> keeper.run) << SEEN_RUNS
    if row <= keeper.last:
        keeper.seen |= SEEN_TWICE if row == keeper.last else SEEN_UNORDERED
    if changing:
        keeper.seen |= SEEN_CHANGING
    keeper.last = row


cdef inline int32_t broker_at(const kept_t* kept, int slot) noexcept nogil:
    """Broker row of a slot, as it was when the effect was kept."""
    if kept_t is NarrowKept:
        return (<const uint16_t*> (kept + 1))[slot]
    else:
        return (<const int32_t*> (kept + 1))[slot]


cdef inline int32_t id_of(const int32_t* broker_id, int32_t broker) noexcept nogil:
    """Id of a broker row; a negative one (no broker) stays as it is."""
    return broker if broker < 0 else broker_id[broker]


cdef inline void set_bit(uint8_t* bits, Py_ssize_t at, int value) noexcept nogil:
    """Set one bit of a bitmap of zeros."""
    if value:
        bits[at >> 3] |= <uint8_t> (1 << (at & 7))


cdef inline int32_t put_few_ids(
    const NarrowKept* kept, const int32_t* broker_id, uint64_t slots, int n_slots, int32_t* values,
    int32_t at
) noexcept nogil:
    """`put_ids` of few slots: every id is written and the wanted ones are counted.

    There is room for all of them, and no branch to guess wrong.
    """
    cdef int s
    for s in range(n_slots):
        values[at] = broker_id[broker_at(kept, s)]
        at += (slots >> s) & 1
    return at


cdef inline int32_t put_ids(
    const kept_t* kept, const int32_t* broker_id, uint64_t slots, int n_slots, int32_t* values,
    int32_t at
) noexcept nogil:
    """Write the ids of some slots, in slot order; returns where they end."""
    if kept_t is NarrowKept:
        return put_few_ids(kept, broker_id, slots, n_slots, values, at)
    else:
        while slots:
            values[at] = broker_id[broker_at(kept, lowest_slot(slots))]
            slots &= slots - 1
            at += 1
        return at
