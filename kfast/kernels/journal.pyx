"""What the journal keeps of each step, and which of it each table tells.

Effects are kept with everything that their tables say (`kept.pxd`). A list of an addition, of a
request or of an UpdateMetadata entry is then a list of places among them, with flags beside it.

Source: specification, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.kept cimport (
    Keeper,
    NarrowKept,
    WideKept,
    broker_at,
    keep_effect,
    kept_t,
    new_keeper,
)
from kfast.kernels.slots cimport (
    AHEAD,
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_STOP,
    Effect,
    broker_t,
    kfast_prefetch,
    lowest_slot,
    record_t,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)

# Which request a row speaks of: bits 0 and 1 of a flag; KIND_IS_NEW and KIND_DELETE stand above.
cdef enum:
    LEADER_AND_ISR = 0
    UPDATE_METADATA = 1
    STOP_REPLICA = 2


def kept_sizes():
    """Bytes of the two kept structs, the narrow one first; slots follow them."""
    return sizeof(NarrowKept), sizeof(WideKept)


def keep(
    record_t[::1] records,             # IN   (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN   (P, S)  broker rows
    const uint8_t[::1] broker_status,  # IN   (B,)    registered, shutting down
    const int32_t[::1] topic_row,      # IN   (P,)    row of the topic
    const int32_t[::1] partition,      # IN   (P,)    partition number
    const Effect[::1] effects,         # IN   (n,)    what became of each target
    uint8_t[:, ::1] kept,              # OUT  (n, w)  kept effects
):
    """Keep effects with the names and slots of their partitions as they are now.

    Returns the kinds that occur (bits 0 to 7) and the codes (from bit 8 on), and whether rows
    ascend.
    """
    cdef Py_ssize_t i, row
    cdef Py_ssize_t n = effects.shape[0]
    cdef int ordered = 1
    cdef Keeper keeper
    if n == 0:
        return 0, True
    keeper = new_keeper(
        &kept[0, 0], kept.shape[1], topic_row, partition, broker_status, <int> replicas.shape[1]
    )
    with nogil:
        for i in range(n):
            row = effects[min(i + AHEAD, n - 1)].row
            kfast_prefetch(&records[row])
            kfast_prefetch(&replicas[row, 0])
            row = effects[i].row
            keep_effect(&keeper, &effects[i], &records[row], &replicas[row, 0])
            ordered &= i == 0 or effects[i - 1].row <= effects[i].row
    return keeper.seen, bool(ordered)


cdef Py_ssize_t list_additions_of(
    const kept_t* kept, const uint8_t[:, ::1] effects, int32_t[::1] places, uint8_t[::1] flags
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef uint8_t said
    for i in range(effects.shape[0]):
        kept = <const kept_t*> &effects[i, 0]
        said = kept.kinds & (KIND_IS_NEW | KIND_DELETE)
        # Written always, counted where it is so: a wrong guess of the branch would cost more.
        places[n] = <int32_t> i
        flags[n] = STOP_REPLICA | said
        n += (kept.kinds & KIND_STOP) != 0
        places[n] = <int32_t> i
        flags[n] = LEADER_AND_ISR | said
        n += (kept.kinds & KIND_LEADER_AND_ISR) != 0
        if kept.kinds & KIND_METADATA:
            places[n] = <int32_t> i
            flags[n] = UPDATE_METADATA | said
            n += 1
    return n


def list_additions(
    const uint8_t[:, ::1] effects,  # IN   (n, w)     kept effects
    bint wide,                      # the layout they are kept in
    int32_t[::1] places,            # OUT  (3n + 2,)  effect that each addition comes from
    uint8_t[::1] flags,             # OUT  (3n + 2,)  kind of request, is new, delete
):
    """List what effects added to the batch, in order; an effect adds StopReplica first.

    Returns how many there are.
    """
    cdef Py_ssize_t n = 0
    if effects.shape[0]:
        with nogil:
            if wide:
                n = list_additions_of[WideKept](NULL, effects, places, flags)
            else:
                n = list_additions_of[NarrowKept](NULL, effects, places, flags)
    return n


cdef Py_ssize_t list_metadata_of(
    const kept_t* kept, const uint8_t[:, ::1] effects, int32_t[::1] places
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef int32_t last = -1
    for i in range(effects.shape[0]):
        kept = <const kept_t*> &effects[i, 0]
        if kept.kinds & KIND_LEADER_AND_ISR:
            n += n == 0 or kept.row != last
            last = kept.row
            places[n - 1] = <int32_t> i
    return n


def list_metadata(
    const uint8_t[:, ::1] effects,  # IN   (n, w)  kept effects, ascending rows
    bint wide,                      # the layout they are kept in
    int32_t[::1] places,            # OUT  (n,)    the last effect of each partition
):
    """List the effects that an UpdateMetadata tells: the last of each partition (5.1).

    Returns how many there are.
    """
    cdef Py_ssize_t n = 0
    if effects.shape[0]:
        with nogil:
            if wide:
                n = list_metadata_of[WideKept](NULL, effects, places)
            else:
                n = list_metadata_of[NarrowKept](NULL, effects, places)
    return n


# Requests on their way: who may be told, how many go to each (kind, broker), and what they are.
cdef struct Outbox:
    const uint8_t* registered
    Py_ssize_t n_brokers
    int64_t* counts
    int32_t* places
    int32_t* keys
    uint8_t* flags
    Py_ssize_t n


cdef inline void post(
    Outbox* box, int32_t broker, Py_ssize_t place, int flags
) noexcept nogil:
    """One partition in the request to one broker; unregistered brokers get none (5.3)."""
    cdef Py_ssize_t key = broker + (box.n_brokers if flags & STOP_REPLICA else 0)
    if not box.registered[broker]:
        return
    box.counts[key] += 1
    if box.places != NULL:
        box.places[box.n] = <int32_t> place
        box.keys[box.n] = <int32_t> key
        box.flags[box.n] = <uint8_t> flags
        box.n += 1


cdef inline void post_leaders(
    Outbox* box, const kept_t* kept, Py_ssize_t place, uint64_t told, uint64_t new
) noexcept nogil:
    """LeaderAndIsr of one effect to the brokers of some slots."""
    cdef int slot
    while told:
        slot = lowest_slot(told)
        post(box, broker_at(kept, slot), place,
             LEADER_AND_ISR | <int> (KIND_IS_NEW * ((new >> slot) & 1)))
        told &= told - 1


cdef inline void post_group(
    Outbox* box, const kept_t* kept, const uint8_t* first, Py_ssize_t stride, Py_ssize_t begin,
    Py_ssize_t end
) noexcept nogil:
    """All that effects of one partition send: of each kind and broker the last; flags stay (5.1).
    """
    cdef uint64_t new = 0
    cdef uint64_t told = 0
    cdef Py_ssize_t i, j
    cdef int flags
    cdef bint replaced
    cdef const kept_t* other
    for i in range(begin, end):
        kept = <const kept_t*> (first + i * stride)
        if kept.kinds & KIND_LEADER_AND_ISR and kept.kinds & KIND_IS_NEW:
            new |= kept.recipients
    for i in range(end - 1, begin - 1, -1):
        kept = <const kept_t*> (first + i * stride)
        if kept.kinds & KIND_LEADER_AND_ISR:
            post_leaders(box, kept, i, kept.recipients & ~told, new)
            told |= kept.recipients
        if not kept.kinds & KIND_STOP:
            continue
        flags = STOP_REPLICA
        replaced = False
        for j in range(begin, end):
            other = <const kept_t*> (first + j * stride)
            if other.kinds & KIND_STOP and other.broker == kept.broker:
                flags |= other.kinds & KIND_DELETE
                replaced = replaced or j > i
        if not replaced:
            post(box, kept.broker, i, flags)


cdef void post_all(
    const kept_t* kept, const uint8_t[:, ::1] effects, Outbox* box
) noexcept nogil:
    cdef Py_ssize_t n = effects.shape[0]
    cdef Py_ssize_t stride = effects.shape[1]
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t end
    cdef const uint8_t* first = &effects[0, 0]
    cdef int32_t row
    while begin < n:
        kept = <const kept_t*> (first + begin * stride)
        row = kept.row
        end = begin + 1
        while end < n and (<const kept_t*> (first + end * stride)).row == row:
            end += 1
        if end > begin + 1:
            post_group(box, kept, first, stride, begin, end)
        else:
            if kept.kinds & KIND_LEADER_AND_ISR:
                post_leaders(box, kept, begin, kept.recipients,
                             kept.recipients if kept.kinds & KIND_IS_NEW else 0)
            if kept.kinds & KIND_STOP:
                post(box, kept.broker, begin, STOP_REPLICA | kept.kinds & KIND_DELETE)
        begin = end


cdef Py_ssize_t post_to(
    const uint8_t[:, ::1] effects, bint wide, const uint8_t[::1] registered, int64_t[::1] counts,
    int32_t* places, int32_t* keys, uint8_t* flags
) noexcept nogil:
    cdef Outbox box
    if effects.shape[0] == 0:
        return 0
    box.registered = &registered[0]
    box.n_brokers = registered.shape[0]
    box.counts = &counts[0]
    box.places = places
    box.keys = keys
    box.flags = flags
    box.n = 0
    if wide:
        post_all[WideKept](NULL, effects, &box)
    else:
        post_all[NarrowKept](NULL, effects, &box)
    return box.n


def count_requests(
    const uint8_t[:, ::1] effects,  # IN      (n, w)  kept effects, ascending rows
    bint wide,                      # the layout they are kept in
    const uint8_t[::1] registered,  # IN      (B,)    who may be told
    int64_t[::1] counts,            # IN OUT  (2B,)   partitions for each broker, zeros at first:
                                    #                 LeaderAndIsr, StopReplica
):
    """Count what one batch sends, merged by (kind, broker, partition)."""
    with nogil:
        post_to(effects, wide, registered, counts, NULL, NULL, NULL)


def list_requests(
    const uint8_t[:, ::1] effects,  # IN      (n, w)  kept effects, ascending rows
    bint wide,                      # the layout they are kept in
    const uint8_t[::1] registered,  # IN      (B,)    who may be told
    int64_t[::1] counts,            # IN OUT  (2B,)   as `count_requests` has them
    int32_t[::1] places,            # OUT     (m,)    effect that each row comes from
    int32_t[::1] keys,              # OUT     (m,)    which of the counts it is part of
    uint8_t[::1] flags,             # OUT     (m,)    kind of request, is new, delete
):
    """List what one batch sends, partition by partition. Returns how many rows there are."""
    cdef Py_ssize_t n = 0
    if places.shape[0]:
        with nogil:
            n = post_to(effects, wide, registered, counts, &places[0], &keys[0], &flags[0])
    return n


def sort_requests(
    const int32_t[::1] places,      # IN      (m,)    from `list_requests`
    const int32_t[::1] keys,        # IN      (m,)    from `list_requests`
    const uint8_t[::1] flags,       # IN      (m,)    from `list_requests`
    int64_t[::1] begins,            # IN OUT  (2B,)   where each (kind, broker) begins; then ends
    int32_t[::1] sorted_places,     # OUT     (m,)
    uint8_t[::1] sorted_flags,      # OUT     (m,)
):
    """Put requests into the order (kind, broker, partition)."""
    cdef Py_ssize_t i
    cdef int64_t at
    with nogil:
        for i in range(places.shape[0]):
            at = begins[keys[i]]
            begins[keys[i]] = at + 1
            sorted_places[at] = places[i]
            sorted_flags[at] = flags[i]
