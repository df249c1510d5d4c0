"""Writing a row: what every kernel does alike to record, counters, bitmaps and tally.

Sections are those of docs/controller.md.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memmove, memset

from kfast.kernels.slots cimport (
    Effect,
    FLAG_RECOVERY,
    KIND_QUEUED,
    KIND_UNCLEAN,
    P_NEW,
    P_OFFLINE,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_OFFLINE,
    TALLY_UNCLEAN,
    TOPIC_QUEUED,
    TOPIC_STARTED,
    WideRecord,
    broker_t,
    chunk_start,
    kfast_lowest,
    record_t,
    row_t,
    write_bit,
)


cdef inline void begin_effect(
    Effect* effect, row_t row, int32_t broker, int from_state, int to_state, uint8_t topic_flags
) noexcept nogil:
    """Start the effect of one target with the record as it is before."""
    memset(effect, 0, sizeof(Effect))
    effect.row = <int32_t> row.index
    effect.broker = broker
    effect.leader_before = row.record.leader
    effect.isr_before = row.record.isr
    effect.kinds = KIND_QUEUED if topic_flags & TOPIC_QUEUED else 0
    effect.from_state = <int8_t> from_state
    effect.to_state = <int8_t> to_state


cdef inline void carry_record(Effect* effect, const record_t* record) noexcept nogil:
    """Copy into an effect what a request says of the partition at this moment."""
    effect.leader = record.leader
    effect.leader_epoch = record.leader_epoch
    effect.version = record.version
    effect.controller_epoch = record.controller_epoch
    effect.isr = record.isr
    effect.adding = record.adding
    effect.removing = record.removing
    effect.recovery = (record.flags & FLAG_RECOVERY) != 0
    effect.n_replicas = record.n_replicas
    effect.n_slots = record.n_slots


cdef inline void write_isr(record_t* record, uint64_t isr) noexcept nogil:
    """Write the ISR, as wide as the layout has it."""
    if record_t is WideRecord:
        record.isr = isr
    else:
        record.isr = <uint8_t> isr


cdef inline void put_partition_state(
    row_t row, int state, uint8_t topic_flags, int64_t* tally
) noexcept nogil:
    """Set a partition's state and keep the offline count. Source: section 1.6."""
    cdef int old = row.record.partition_state
    if old != state:
        if not topic_flags & TOPIC_STARTED:
            tally[TALLY_OFFLINE] += (state == P_OFFLINE) - (old == P_OFFLINE)
        row.record.partition_state = <int8_t> state
        write_bit(row.pending, row.index, state == P_OFFLINE or state == P_NEW)


cdef inline void count_requests(
    int64_t* counts, const broker_t* brokers, uint64_t recipients
) noexcept nogil:
    """Count one partition in the request to each recipient."""
    cdef uint64_t left = recipients
    while left:
        counts[brokers[kfast_lowest(left)]] += 1
        left &= left - 1


cdef inline void tally_effect(const Effect* effect, int64_t* tally) noexcept nogil:
    """Count the outcome of one target."""
    tally[TALLY_CODES + effect.code] += 1
    if effect.code <= 2 or effect.code == 13:
        tally[TALLY_CELLS + 8 * (effect.from_state & 7) + effect.to_state] += 1
    tally[TALLY_UNCLEAN] += (effect.kinds & KIND_UNCLEAN) != 0


# Effects of the steps of an event in one visit share an array: every step has space for one effect
# of each row, and the last step, that of the replicas, has the rest of the array.

cdef inline Py_ssize_t last_step_size(
    int n_steps, Py_ssize_t n_effects, Py_ssize_t n_rows
) noexcept nogil:
    """Most effects of one row in the last step."""
    return n_effects // n_rows - (n_steps - 1)


cdef inline void begin_steps(
    Effect** ends, int n_steps, Effect[::1] effects, Py_ssize_t n_rows, Py_ssize_t row
) noexcept nogil:
    """Where the effects of each step go, of a thread whose share of the rows begins here."""
    cdef Py_ssize_t each
    cdef int k
    if not effects.shape[0]:
        return
    each = last_step_size(n_steps, effects.shape[0], n_rows)
    for k in range(n_steps):
        ends[k] = &effects[0] + k * n_rows + row * (each if k == n_steps - 1 else 1)


cdef inline void append_effect(Effect** end, const Effect* effect) noexcept nogil:
    """Write one effect behind those of its step."""
    end[0][0] = effect[0]
    end[0] += 1


# Targets of each step, thread by thread: so many cells for each thread, a cache line of its own.
cdef enum:
    N_COUNTS = 8


cdef inline tuple close_gaps(
    int n_steps, Effect[::1] effects, const int32_t[::1] rows, const int64_t* counts, int threads
):
    """Move the effects of each step together: behind what one thread wrote, what the next did.

    Returns how many there are of each step.
    """
    cdef Py_ssize_t n_rows = rows.shape[0]
    cdef Py_ssize_t each, first, end
    cdef int64_t totals[3]
    cdef int64_t n
    cdef int k, t
    for k in range(3):
        totals[k] = 0
    for k in range(n_steps):
        each = 1
        if effects.shape[0] and k == n_steps - 1:
            each = last_step_size(n_steps, effects.shape[0], n_rows)
        end = k * n_rows
        for t in range(threads):
            n = counts[N_COUNTS * t + k]
            first = k * n_rows + chunk_start(rows, t, threads) * each
            if effects.shape[0] and n and first != end:
                memmove(&effects[end], &effects[first], n * sizeof(Effect))
            end += n
            totals[k] += n
    return totals[0], totals[1], totals[2]
