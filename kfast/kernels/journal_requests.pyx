"""Columns of the tables of a request batch: what was added to it, what was sent to whom.

What additions and requests say of a partition is alike; `journal_tables.pyx` says how columns are
laid out. Memory of columns that are nearly always zero is only written where they are not.

Source: specification, section 5.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from kfast.kernels.kept cimport NarrowKept, WideKept, id_of, kept_t, put_ids
from kfast.kernels.slots cimport (
    AHEAD,
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

# The columns of `fill_requests`, and how far the lists have come.
cdef struct Said:
    const int32_t* broker_id
    int32_t* numbers
    int32_t* offsets
    int32_t* values
    int8_t* recovery
    Py_ssize_t n_numbers
    Py_ssize_t n_offsets
    Py_ssize_t n_values
    int n_slots
    bint tells
    int32_t ends[5]


cdef inline void say_changing(Said* said, const kept_t* kept) noexcept nogil:
    """Replicas being added and removed; mostly there are none."""
    said.ends[2] = put_ids(kept, said.broker_id, kept.adding, said.n_slots,
                           said.values + 2 * said.n_values, said.ends[2])
    said.ends[3] = put_ids(kept, said.broker_id, kept.removing, said.n_slots,
                           said.values + 3 * said.n_values, said.ends[3])


cdef inline void say_lists(Said* said, const kept_t* kept, Py_ssize_t i, bint leads) noexcept nogil:
    """ISR, replicas, adding and removing of a LeaderAndIsr; of another request nothing."""
    if leads:
        said.ends[0] = put_ids(kept, said.broker_id, kept.isr, said.n_slots, said.values,
                               said.ends[0])
        said.ends[1] = put_ids(kept, said.broker_id, first_slots(kept.n_replicas), said.n_slots,
                               said.values + said.n_values, said.ends[1])
        if kept.adding | kept.removing:
            say_changing(said, kept)
    said.offsets[i + 1] = said.ends[0]
    said.offsets[said.n_offsets + i + 1] = said.ends[1]
    if said.ends[2]:
        said.offsets[2 * said.n_offsets + i + 1] = said.ends[2]
    if said.ends[3]:
        said.offsets[3 * said.n_offsets + i + 1] = said.ends[3]


cdef inline void say_recipients(
    Said* said, const kept_t* kept, Py_ssize_t i, int kind
) noexcept nogil:
    """Whom an addition is for; UpdateMetadata goes to all."""
    cdef int32_t* values = said.values + 4 * said.n_values
    if kind == LEADER_AND_ISR:
        said.ends[4] = put_ids(kept, said.broker_id, kept.recipients, said.n_slots, values,
                               said.ends[4])
    elif kind == STOP_REPLICA:
        values[said.ends[4]] = id_of(said.broker_id, kept.broker)
        said.ends[4] += 1
    said.offsets[4 * said.n_offsets + i + 1] = said.ends[4]


cdef inline void say(Said* said, const kept_t* kept, Py_ssize_t i, int flags) noexcept nogil:
    """One row; what is null has the kept value below its null, so that every bit is defined."""
    cdef int kind = flags & KIND_BITS
    cdef int32_t* at = said.numbers + i
    cdef Py_ssize_t n = said.n_numbers
    at[SAID_KIND * n] = kind
    at[SAID_TOPIC * n] = kept.topic_row
    at[SAID_PARTITION * n] = kept.partition
    at[SAID_LEADER * n] = id_of(said.broker_id, kept.leader)
    at[SAID_LEADER_EPOCH * n] = kept.stop_epoch if kind == STOP_REPLICA else kept.leader_epoch
    at[SAID_VERSION * n] = kept.version
    at[SAID_CONTROLLER_EPOCH * n] = kept.controller_epoch
    if kept.recovery:
        said.recovery[i] = kept.recovery
    say_lists(said, kept, i, kind == LEADER_AND_ISR)
    if said.tells:
        say_recipients(said, kept, i, kind)


cdef void say_all(
    const kept_t* kept, const uint8_t[:, ::1] effects, const int32_t[::1] places,
    const uint8_t[::1] flags, Said* said
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = places.shape[0]
    for i in range(n):
        kfast_prefetch(&effects[places[min(i + 2 * AHEAD, n - 1)], 0])
        say(said, <const kept_t*> &effects[places[i], 0], i, flags[i])


def fill_requests(
    const uint8_t[:, ::1] effects,  # IN      (n, w)    kept effects
    bint wide,                      # the layout they are kept in
    int n_slots,                    # slots of each
    const int32_t[::1] broker_id,   # IN      (B,)      ids
    const int32_t[::1] places,      # IN      (m,)      effect that each row comes from
    const uint8_t[::1] flags,       # IN      (m,)      kind of request, is new, delete
    int32_t[:, ::1] numbers,        # OUT     (7, m)    kind, topic, partition, leader, leader
                                    #                   epoch, version, controller epoch
    int32_t[:, ::1] offsets,        # IN OUT  (4, m+1)  ISR, replicas, adding, removing; 0 at first;
                                    #                   with a fifth row also whom it is for
    int32_t[:, ::1] values,         # OUT     (4, mS)   their ids; or (5, mS)
    int8_t[::1] recovery,           # IN OUT  (m,)      zeros at first
    int64_t[::1] found,             # OUT     (5,)      values of each list column
):
    """What LeaderAndIsr and StopReplica requests say, or what was added to their batch."""
    cdef Said said
    cdef int k
    if not places.shape[0]:
        return
    said.broker_id = &broker_id[0]
    said.numbers = &numbers[0, 0]
    said.offsets = &offsets[0, 0]
    said.values = &values[0, 0]
    said.recovery = &recovery[0]
    said.n_numbers = numbers.shape[1]
    said.n_offsets = offsets.shape[1]
    said.n_values = values.shape[1]
    said.n_slots = n_slots
    said.tells = offsets.shape[0] == 5
    for k in range(5):
        said.ends[k] = 0
    with nogil:
        if wide:
            say_all[WideKept](NULL, effects, places, flags, &said)
        else:
            say_all[NarrowKept](NULL, effects, places, flags, &said)
    for k in range(5):
        found[k] = said.ends[k]


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
