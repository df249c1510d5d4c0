"""Columns of the tables of a request batch: what was added to it, what was sent to whom.

What additions and requests say of a partition is alike; `journal_tables.pyx` says how columns are
laid out. Memory of columns that are nearly always zero is only written where they are not.

Source: specification, section 5.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kfast.kernels.kept cimport NarrowKept, WideKept, id_of, kept_t, put_ids, set_bit
from kfast.kernels.slots cimport (
    AHEAD,
    KIND_DELETE,
    KIND_IS_NEW,
    first_slots,
    kfast_prefetch,
)

cdef enum:
    KIND_BITS = 3
    LEADER_AND_ISR = 0
    STOP_REPLICA = 2

# Rows of the matrices of `fill_requests`.
cdef enum:
    SAID_KIND = 0
    SAID_TOPIC = 1
    SAID_PARTITION = 2
    SAID_LEADER = 3
    SAID_LEADER_EPOCH = 4
    SAID_VERSION = 5
    SAID_CONTROLLER_EPOCH = 6
    BIT_LEADS = 0
    BIT_STOPS = 1
    BIT_EPOCH = 2
    BIT_IS_NEW = 3
    BIT_DELETE = 4

# The columns of `fill_requests`, and how far the lists have come.
cdef struct Said:
    const int32_t* broker_id
    int32_t* numbers
    int32_t* offsets
    int32_t* values
    int8_t* recovery
    uint8_t* bits
    Py_ssize_t n_numbers
    Py_ssize_t n_offsets
    Py_ssize_t n_values
    Py_ssize_t n_bits
    int32_t ends[4]
    int64_t leads
    int64_t stops


cdef inline void say_lists(Said* said, const kept_t* kept, Py_ssize_t i, bint leads) noexcept nogil:
    """ISR, replicas, adding and removing of a LeaderAndIsr; of another request nothing."""
    if leads:
        said.ends[0] = put_ids(kept, said.broker_id, kept.isr, said.values, said.ends[0])
        said.ends[1] = put_ids(kept, said.broker_id, first_slots(kept.n_replicas),
                               said.values + said.n_values, said.ends[1])
        said.ends[2] = put_ids(kept, said.broker_id, kept.adding,
                               said.values + 2 * said.n_values, said.ends[2])
        said.ends[3] = put_ids(kept, said.broker_id, kept.removing,
                               said.values + 3 * said.n_values, said.ends[3])
    said.offsets[i + 1] = said.ends[0]
    said.offsets[said.n_offsets + i + 1] = said.ends[1]
    if said.ends[2]:
        said.offsets[2 * said.n_offsets + i + 1] = said.ends[2]
    if said.ends[3]:
        said.offsets[3 * said.n_offsets + i + 1] = said.ends[3]


cdef inline void say(Said* said, const kept_t* kept, Py_ssize_t i, int flags) noexcept nogil:
    """One row; what is null has the kept value below its null, so that every bit is defined."""
    cdef int kind = flags & KIND_BITS
    cdef bint leads = kind == LEADER_AND_ISR
    cdef bint stops = kind == STOP_REPLICA
    cdef int32_t* at = said.numbers + i
    cdef Py_ssize_t n = said.n_numbers
    at[SAID_KIND * n] = kind
    at[SAID_TOPIC * n] = kept.topic_row
    at[SAID_PARTITION * n] = kept.partition
    at[SAID_LEADER * n] = id_of(said.broker_id, kept.leader)
    at[SAID_LEADER_EPOCH * n] = kept.stop_epoch if stops else kept.leader_epoch
    at[SAID_VERSION * n] = kept.version
    at[SAID_CONTROLLER_EPOCH * n] = kept.controller_epoch
    if kept.recovery:
        said.recovery[i] = kept.recovery
    say_lists(said, kept, i, leads)
    set_bit(said.bits + BIT_LEADS * said.n_bits, i, leads)
    set_bit(said.bits + BIT_STOPS * said.n_bits, i, stops)
    set_bit(said.bits + BIT_EPOCH * said.n_bits, i, leads or stops)
    set_bit(said.bits + BIT_IS_NEW * said.n_bits, i, flags & KIND_IS_NEW)
    set_bit(said.bits + BIT_DELETE * said.n_bits, i, flags & KIND_DELETE)
    said.leads += leads
    said.stops += stops


cdef void say_all(
    const kept_t* kept, const uint8_t[:, ::1] effects, const int32_t[::1] places,
    const uint8_t[::1] flags, Said* said
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = places.shape[0]
    for i in range(n):
        kfast_prefetch(&effects[places[min(i + AHEAD, n - 1)], 0])
        say(said, <const kept_t*> &effects[places[i], 0], i, flags[i])


def fill_requests(
    const uint8_t[:, ::1] effects,  # IN      (n, w)    kept effects
    bint wide,                      # the layout they are kept in
    const int32_t[::1] broker_id,   # IN      (B,)      ids
    const int32_t[::1] places,      # IN      (m,)      effect that each row comes from
    const uint8_t[::1] flags,       # IN      (m,)      kind of request, is new, delete
    int32_t[:, ::1] numbers,        # OUT     (7, m)    kind, topic, partition, leader, leader
                                    #                   epoch, version, controller epoch
    int32_t[:, ::1] offsets,        # IN OUT  (4, m+1)  ISR, replicas, adding, removing; 0 at first
    int32_t[:, ::1] values,         # OUT     (4, mS)   their ids
    int8_t[::1] recovery,           # IN OUT  (m,)      zeros at first
    uint8_t[:, ::1] bits,           # IN OUT  (5, ..)   bitmaps, zeros at first: LeaderAndIsr,
                                    #                   StopReplica, either, is new, delete
    int64_t[::1] found,             # OUT     (6,)      values of each list column; rows of
                                    #                   LeaderAndIsr and of StopReplica
):
    """What LeaderAndIsr and StopReplica requests say, or what was added to their batch."""
    cdef Said said
    cdef int k
    said.broker_id = &broker_id[0]
    said.numbers = &numbers[0, 0]
    said.offsets = &offsets[0, 0]
    said.values = &values[0, 0]
    said.recovery = &recovery[0]
    said.bits = &bits[0, 0]
    said.n_numbers = numbers.shape[1]
    said.n_offsets = offsets.shape[1]
    said.n_values = values.shape[1]
    said.n_bits = bits.shape[1]
    said.leads = 0
    said.stops = 0
    for k in range(4):
        said.ends[k] = 0
    with nogil:
        if wide:
            say_all[WideKept](NULL, effects, places, flags, &said)
        else:
            say_all[NarrowKept](NULL, effects, places, flags, &said)
    for k in range(4):
        found[k] = said.ends[k]
    found[4] = said.leads
    found[5] = said.stops


cdef int32_t fill_recipients_of(
    const kept_t* kept, const uint8_t[:, ::1] effects, const int32_t[::1] broker_id,
    const int32_t[::1] places, const uint8_t[::1] flags, int32_t[::1] offsets, int32_t[::1] values
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t at = 0
    cdef int kind
    offsets[0] = 0
    for i in range(places.shape[0]):
        kept = <const kept_t*> &effects[places[i], 0]
        kind = flags[i] & KIND_BITS
        if kind == LEADER_AND_ISR:
            at = put_ids(kept, &broker_id[0], kept.recipients, &values[0], at)
        elif kind == STOP_REPLICA:
            values[at] = id_of(&broker_id[0], kept.broker)
            at += 1
        offsets[i + 1] = at
    return at


def fill_recipients(
    const uint8_t[:, ::1] effects,  # IN   (n, w)  kept effects
    bint wide,                      # the layout they are kept in
    const int32_t[::1] broker_id,   # IN   (B,)    ids
    const int32_t[::1] places,      # IN   (m,)    effect that each addition comes from
    const uint8_t[::1] flags,       # IN   (m,)    kind of request, is new, delete
    int32_t[::1] offsets,           # OUT  (m+1,)
    int32_t[::1] values,            # OUT  (mS,)   ids
):
    """Whom each addition is for; UpdateMetadata goes to all. Returns how many values there are."""
    cdef int32_t end
    with nogil:
        if wide:
            end = fill_recipients_of[WideKept](
                NULL, effects, broker_id, places, flags, offsets, values
            )
        else:
            end = fill_recipients_of[NarrowKept](
                NULL, effects, broker_id, places, flags, offsets, values
            )
    return end


def fill_brokers(
    const int64_t[::1] ends,          # IN   (2B,)  where each (kind, broker) ends
    const int32_t[::1] broker_id,     # IN   (B,)   ids
    const int64_t[::1] broker_epoch,  # IN   (B,)
    int32_t[::1] ids,                 # OUT  (m,)
    int64_t[::1] epochs,              # OUT  (m,)
):
    """To whom each row of requests goes, and in which of the broker's epochs."""
    cdef Py_ssize_t n_brokers = broker_id.shape[0]
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t at
    with nogil:
        for at in range(ends.shape[0]):
            while i < ends[at]:
                ids[i] = broker_id[at % n_brokers]
                epochs[i] = broker_epoch[at % n_brokers]
                i += 1
