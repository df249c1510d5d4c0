"""Columns, lists and requests of effects: what the journal's tables are made of.

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.slots cimport (
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_STOP,
    Effect,
    broker_t,
    kfast_prefetch,
    lowest_slot,
)

# Effects whose columns are copied together, while they lie in the nearest cache; slots that are
# looked up whether a list has them or not, as a wrong guess of a branch would cost more.
cdef enum:
    BLOCK = 128
    CACHE_LINE = 64
    FEW_SLOTS = 8

# Requests of one kind, in the order of brokers: where the next one to each broker goes.
cdef struct RequestBuffer:
    const uint8_t* registered
    int64_t* cursors
    int32_t* places  # NULL: requests are only counted
    uint8_t* flags


cdef void take_block(
    const Effect* effects, const int32_t* places, Py_ssize_t n, int offset, int size, uint8_t* out
) noexcept nogil:
    """One field of some effects."""
    cdef const uint8_t* field = <const uint8_t*> effects + offset
    cdef Py_ssize_t i
    if size == sizeof(int32_t):
        for i in range(n):
            (<int32_t*> out)[i] = (<const int32_t*> (field + places[i] * sizeof(Effect)))[0]
    elif size == sizeof(uint64_t):
        for i in range(n):
            (<uint64_t*> out)[i] = (<const uint64_t*> (field + places[i] * sizeof(Effect)))[0]
    else:
        for i in range(n):
            out[i] = field[places[i] * sizeof(Effect)]


def take_columns(
    const Effect[::1] effects,     # IN   (n,)    what became of each target
    const int32_t[::1] places,     # IN   (m,)    the effects that are wanted
    const int32_t[:, ::1] fields,  # IN   (k, 2)  where each field begins in an effect, and its size
    list columns,                  # OUT  k of (m * size,) uint8
):
    """Some fields of some effects, each as a column."""
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t i, n
    cdef uint8_t* out[32]
    cdef uint8_t[::1] column
    cdef int k
    cdef int n_columns = <int> fields.shape[0]
    if not places.shape[0]:
        return
    for k in range(n_columns):
        column = columns[k]
        out[k] = &column[0]
    with nogil:
        while begin < places.shape[0]:
            n = min(<Py_ssize_t> BLOCK, places.shape[0] - begin)
            for i in range(begin + n, min(begin + 2 * n, places.shape[0])):
                kfast_prefetch(&effects[places[i]])
                kfast_prefetch(<const uint8_t*> &effects[places[i]] + CACHE_LINE)
            for k in range(n_columns):
                take_block(&effects[0], &places[begin], n, fields[k, 0], fields[k, 1],
                           out[k] + begin * fields[k, 1])
            begin += n


def list_ids(
    const broker_t[:, ::1] replicas,  # IN   (n, S)   broker rows
    const int32_t[::1] broker_id,     # IN   (B,)     ids
    const int32_t[::1] places,        # IN   (m,)     rows of the matrix
    const uint64_t[::1] masks,        # IN   (m,)     slots to list, per place
    int32_t[::1] offsets,             # OUT  (m+1,)   where each list begins
    int32_t[::1] values,              # OUT  ((m+1)S,)  ids, in slot order
):
    """Ids of some slots as lists. Returns where the last list ends."""
    cdef Py_ssize_t i, last = broker_id.shape[0] - 1
    cdef int s, n_slots = <int> replicas.shape[1]
    cdef int32_t at = 0
    cdef uint64_t left
    cdef const broker_t* brokers
    offsets[0] = 0
    with nogil:
        for i in range(places.shape[0]):
            brokers = &replicas[places[i], 0]
            left = masks[i]
            if n_slots <= FEW_SLOTS and last >= 0:
                for s in range(n_slots):
                    values[at] = broker_id[min(<Py_ssize_t> <unsigned int> brokers[s], last)]
                    at += (left >> s) & 1
            else:
                while left:
                    values[at] = broker_id[<Py_ssize_t> brokers[lowest_slot(left)]]
                    at += 1
                    left &= left - 1
            offsets[i + 1] = at
    return at


cdef inline void append(
    RequestBuffer* buffer, Py_ssize_t broker, Py_ssize_t place, uint8_t flags
) noexcept nogil:
    """One partition in the request to one broker; unregistered brokers get none (section 5.3)."""
    cdef int64_t at
    if buffer.registered[broker]:
        at = buffer.cursors[broker]
        buffer.cursors[broker] = at + 1
        if buffer.places != NULL:
            buffer.places[at] = <int32_t> place
            buffer.flags[at] = flags


cdef inline void append_leader_and_isr(
    RequestBuffer* buffer, const Effect* effects, const broker_t* brokers, Py_ssize_t begin,
    Py_ssize_t end
) noexcept nogil:
    """LeaderAndIsr of the effects of one partition: to each broker the last; new stays new."""
    cdef uint64_t left, new = 0, done = 0
    cdef Py_ssize_t i
    cdef int slot
    for i in range(begin, end):
        if effects[i].kinds & KIND_LEADER_AND_ISR and effects[i].kinds & KIND_IS_NEW:
            new |= effects[i].recipients
    for i in range(end - 1, begin - 1, -1):
        left = effects[i].recipients & ~done if effects[i].kinds & KIND_LEADER_AND_ISR else 0
        done |= left
        while left:
            slot = lowest_slot(left)
            append(buffer, <Py_ssize_t> brokers[slot], i,
                   <uint8_t> (KIND_IS_NEW * ((new >> slot) & 1)))
            left &= left - 1


cdef inline void append_stop_replica(
    RequestBuffer* buffer, const Effect* effects, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """StopReplica of the effects of one partition: to each broker the last; deletion stays."""
    cdef Py_ssize_t i, j
    cdef uint8_t flags
    cdef bint replaced
    for i in range(begin, end):
        if not effects[i].kinds & KIND_STOP:
            continue
        flags, replaced = 0, False
        for j in range(begin, end):
            if effects[j].kinds & KIND_STOP and effects[j].broker == effects[i].broker:
                flags |= effects[j].kinds & KIND_DELETE
                replaced = replaced or j > i
        if not replaced:
            append(buffer, effects[i].broker, i, flags)


def list_requests(
    const Effect[::1] effects,        # IN      (n,)    what became of each target; ascending rows
    const broker_t[:, ::1] replicas,  # IN      (n, S)  broker rows of each effect's partition
    const uint8_t[::1] registered,    # IN      (B,)    who may be sent something
    bint stops,                       # StopReplica, not LeaderAndIsr
    int64_t[::1] cursors,             # IN OUT  (B,)  where the requests to each broker begin, then
                                      #                 where they end
    int32_t[::1] places,              # OUT     (m,)    the effect of each; or (0,): only counted
    uint8_t[::1] flags,               # OUT     (m,)    is new, delete; or (0,)
):
    """What effects send, sorted by broker: of each broker and partition the last (section 5.1)."""
    cdef Py_ssize_t n = effects.shape[0]
    cdef Py_ssize_t begin = 0, end
    cdef RequestBuffer buffer
    if not n or not registered.shape[0]:
        return
    buffer.registered = &registered[0]
    buffer.cursors = &cursors[0]
    buffer.places = &places[0] if places.shape[0] else NULL
    buffer.flags = &flags[0] if flags.shape[0] else NULL
    with nogil:
        while begin < n:
            end = begin + 1
            while end < n and effects[end].row == effects[begin].row:
                end += 1
            if stops:
                append_stop_replica(&buffer, &effects[0], begin, end)
            else:
                append_leader_and_isr(&buffer, &effects[0], &replicas[begin, 0], begin, end)
            begin = end
