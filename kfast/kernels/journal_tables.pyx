"""Columns of the journal's tables, made from kept effects.

Columns of one type are the rows of one matrix, each contiguous, so that Arrow takes them as they
are. A list column is offsets and values; its values are written as they come, into room that is
never too small, and the caller cuts them off where they end. Columns that are nearly always zero
come as zeros, and only what is not is written: memory that nobody touches costs nothing.

Source: specification, section 5.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from kfast.kernels.kept cimport NarrowKept, WideKept, id_of, kept_t, put_ids
from kfast.kernels.slots cimport (
    CONFIG_LOOKUP_LOGGED,
    KIND_ELECTION,
    KIND_QUEUED,
    KIND_UNCLEAN,
    P_NEW,
    P_ONLINE,
    first_slots,
)

cdef enum:
    LEADER_DURING_DELETE = -2
    # Names of partition states stand behind those of replica states.
    PARTITION_NAMES = 8


cdef Py_ssize_t fill_transitions_of(
    const kept_t* kept, const uint8_t[:, ::1] effects, const int32_t[::1] broker_id,
    uint32_t succeeded, int32_t[:, ::1] numbers
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef int32_t* topic = &numbers[0, 0]
    cdef int32_t* partition = &numbers[1, 0]
    cdef int32_t* broker = &numbers[2, 0]
    cdef int32_t* from_state = &numbers[3, 0]
    cdef int32_t* to_state = &numbers[4, 0]
    cdef int names
    for i in range(effects.shape[0]):
        kept = <const kept_t*> &effects[i, 0]
        if not (succeeded >> kept.code) & 1:
            continue
        names = PARTITION_NAMES if kept.broker < 0 else 0
        topic[n] = kept.topic_row
        partition[n] = kept.partition
        broker[n] = id_of(&broker_id[0], kept.broker)
        from_state[n] = kept.from_state + names
        to_state[n] = kept.to_state + names
        n += 1
    return n


def fill_transitions(
    const uint8_t[:, ::1] effects,  # IN      (n, w)  kept effects
    bint wide,                      # the layout they are kept in
    const int32_t[::1] broker_id,   # IN      (B,)    ids
    uint32_t succeeded,             # bit c set: code c says that the state is the target
    int32_t[:, ::1] numbers,        # OUT     (5, n)  topic, partition, broker, from, to
):
    """State changes that happened; states as numbers of their names. Returns how many."""
    cdef Py_ssize_t n
    with nogil:
        if wide:
            n = fill_transitions_of[WideKept](NULL, effects, broker_id, succeeded, numbers)
        else:
            n = fill_transitions_of[NarrowKept](NULL, effects, broker_id, succeeded, numbers)
    return n


cdef void fill_elections_of(
    const kept_t* kept, const uint8_t[:, ::1] effects, int n_slots, const int32_t[::1] broker_id,
    int32_t[:, ::1] numbers, int32_t[:, ::1] offsets, int32_t[:, ::1] values,
    int8_t[::1] recovery, uint8_t[::1] unclean, int64_t[::1] found
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef int32_t before = 0
    cdef int32_t isr = 0
    cdef bint tried, first
    for i in range(effects.shape[0]):
        kept = <const kept_t*> &effects[i, 0]
        tried = kept.kinds & KIND_ELECTION and kept.code != CONFIG_LOOKUP_LOGGED
        first = kept.broker < 0 and kept.from_state == P_NEW and kept.to_state == P_ONLINE
        if not (tried or first):
            continue
        numbers[0, n] = kept.topic_row
        numbers[1, n] = kept.partition
        numbers[2, n] = tried
        numbers[3, n] = id_of(&broker_id[0], kept.leader_before)
        numbers[4, n] = id_of(&broker_id[0], kept.leader)
        numbers[5, n] = kept.leader_epoch
        numbers[6, n] = kept.version
        numbers[7, n] = kept.code
        if kept.recovery:
            recovery[n] = kept.recovery
        if kept.kinds & KIND_UNCLEAN:
            unclean[n] = 1
        before = put_ids(kept, &broker_id[0], kept.isr_before, n_slots, &values[0, 0], before)
        isr = put_ids(kept, &broker_id[0], kept.isr, n_slots, &values[1, 0], isr)
        n += 1
        offsets[0, n] = before
        offsets[1, n] = isr
    found[0] = n
    found[1] = before
    found[2] = isr


def fill_elections(
    const uint8_t[:, ::1] effects,  # IN      (n, w)    kept effects
    bint wide,                      # the layout they are kept in
    int n_slots,                    # slots of each
    const int32_t[::1] broker_id,   # IN      (B,)      ids
    int32_t[:, ::1] numbers,        # OUT     (8, n)    topic, partition, strategy (1) or
                                    #                   initialisation (0), leader before, leader,
                                    #                   leader epoch, version, code
    int32_t[:, ::1] offsets,        # IN OUT  (2, n+1)  ISR before, ISR; zeros at first
    int32_t[:, ::1] values,         # OUT     (2, nS)   their ids
    int8_t[::1] recovery,           # IN OUT  (n,)      zeros at first
    uint8_t[::1] unclean,           # IN OUT  (n,)      1: unclean; zeros at first
    int64_t[::1] found,             # OUT     (3,)      rows, and values of each list column
):
    """Elections and initialisations that were tried, with their outcome."""
    with nogil:
        if wide:
            fill_elections_of[WideKept](
                NULL, effects, n_slots, broker_id, numbers, offsets, values, recovery, unclean,
                found,
            )
        else:
            fill_elections_of[NarrowKept](
                NULL, effects, n_slots, broker_id, numbers, offsets, values, recovery, unclean,
                found,
            )


cdef void fill_metadata_of(
    const kept_t* kept, const uint8_t[:, ::1] effects, int n_slots, const int32_t[::1] broker_id,
    const int32_t[::1] places, int32_t[:, ::1] numbers, int32_t[:, ::1] offsets,
    int32_t[:, ::1] values, int64_t[::1] found
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t isr = 0
    cdef int32_t replicas = 0
    cdef int32_t offline = 0
    cdef bint queued
    for i in range(places.shape[0]):
        kept = <const kept_t*> &effects[places[i], 0]
        queued = kept.kinds & KIND_QUEUED
        numbers[0, i] = kept.topic_row
        numbers[1, i] = kept.partition
        numbers[2, i] = kept.controller_epoch
        numbers[3, i] = LEADER_DURING_DELETE if queued else id_of(&broker_id[0], kept.leader)
        numbers[4, i] = 0 if queued else kept.leader_epoch
        numbers[5, i] = 0 if queued else kept.version
        isr = put_ids(kept, &broker_id[0], kept.isr, n_slots, &values[0, 0], isr)
        replicas = put_ids(kept, &broker_id[0], first_slots(kept.n_replicas), n_slots,
                           &values[1, 0], replicas)
        offline = put_ids(kept, &broker_id[0], kept.offline, n_slots, &values[2, 0], offline)
        offsets[0, i + 1] = isr
        offsets[1, i + 1] = replicas
        offsets[2, i + 1] = offline
    found[0] = isr
    found[1] = replicas
    found[2] = offline


def fill_metadata(
    const uint8_t[:, ::1] effects,  # IN      (n, w)    kept effects
    bint wide,                      # the layout they are kept in
    int n_slots,                    # slots of each
    const int32_t[::1] broker_id,   # IN      (B,)      ids
    const int32_t[::1] places,      # IN      (m,)      effect that each row comes from
    int32_t[:, ::1] numbers,        # OUT     (6, m)    topic, partition, controller epoch, leader,
                                    #                   leader epoch, version
    int32_t[:, ::1] offsets,        # IN OUT  (3, m+1)  ISR, replicas, offline replicas; 0 at first
    int32_t[:, ::1] values,         # OUT     (3, mS)   their ids
    int64_t[::1] found,             # OUT     (3,)      values of each list column
):
    """The partitions of an UpdateMetadata, with the markers of queued topics (5.2)."""
    with nogil:
        if wide:
            fill_metadata_of[WideKept](
                NULL, effects, n_slots, broker_id, places, numbers, offsets, values, found
            )
        else:
            fill_metadata_of[NarrowKept](
                NULL, effects, n_slots, broker_id, places, numbers, offsets, values, found
            )


cdef Py_ssize_t list_codes_of(
    const kept_t* kept, const uint8_t[:, ::1] effects, uint32_t codes, int32_t[::1] places
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    for i in range(effects.shape[0]):
        kept = <const kept_t*> &effects[i, 0]
        if (codes >> kept.code) & 1:
            places[n] = <int32_t> i
            n += 1
    return n


def list_codes(
    const uint8_t[:, ::1] effects,  # IN   (n, w)  kept effects
    bint wide,                      # the layout they are kept in
    uint32_t codes,                 # bit c set: effects of code c are wanted
    int32_t[::1] places,            # OUT  (n,)    the effects of these codes
):
    """List the effects that ended in some way. Returns how many there are."""
    cdef Py_ssize_t n
    with nogil:
        if wide:
            n = list_codes_of[WideKept](NULL, effects, codes, places)
        else:
            n = list_codes_of[NarrowKept](NULL, effects, codes, places)
    return n
