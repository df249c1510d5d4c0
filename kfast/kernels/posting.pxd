"""Requests on their way: what each effect sends to whom, merged by partition.

Source: docs/controller.md, sections 5.1 and 5.3; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.kept cimport broker_at, kept_t
from kfast.kernels.slots cimport (
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_STOP,
    kfast_count,
    lowest_slot,
)

# Which request a row speaks of: bits 0 and 1 of a flag; KIND_IS_NEW and KIND_DELETE stand above.
cdef enum:
    LEADER_AND_ISR = 0
    UPDATE_METADATA = 1
    STOP_REPLICA = 2

# Where posts go: those of one kind to brokers that may be told.
cdef struct RequestBuffer:
    const uint8_t* told
    int kind
    int64_t* counts       # posts to each broker
    int64_t* n_isr        # and the values of their lists, where asked for
    int64_t* n_replicas
    int32_t* places       # NULL: posts are only counted
    int32_t* brokers
    uint8_t* flags
    Py_ssize_t n


cdef inline void post(
    RequestBuffer* box, const kept_t* kept, int32_t broker, Py_ssize_t place, int flags
) noexcept nogil:
    """One partition in the request to one broker; unregistered brokers get none (section 5.3)."""
    if not box.told[broker]:
        return
    box.counts[broker] += 1
    if box.n_isr != NULL:
        box.n_isr[broker] += kfast_count(kept.isr)
        box.n_replicas[broker] += kept.n_replicas
    if box.places != NULL:
        box.places[box.n] = <int32_t> place
        box.brokers[box.n] = broker
        box.flags[box.n] = <uint8_t> flags
        box.n += 1


cdef inline void post_leaders(
    RequestBuffer* box, const kept_t* kept, Py_ssize_t place, uint64_t told, uint64_t new
) noexcept nogil:
    """LeaderAndIsr of one effect to the brokers of some slots."""
    cdef int slot
    while told:
        slot = lowest_slot(told)
        post(box, kept, broker_at(kept, slot), place,
             LEADER_AND_ISR | <int> (KIND_IS_NEW * ((new >> slot) & 1)))
        told &= told - 1


cdef inline void post_group(
    RequestBuffer* box, const kept_t* kept, const uint8_t* first, Py_ssize_t stride,
    Py_ssize_t begin,
    Py_ssize_t end
) noexcept nogil:
    """All that effects of one partition send: of each kind and broker the last; flags stay.

    Source: section 5.1.
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
        if kept.kinds & KIND_LEADER_AND_ISR and box.kind == LEADER_AND_ISR:
            post_leaders(box, kept, i, kept.recipients & ~told, new)
            told |= kept.recipients
        if not kept.kinds & KIND_STOP or box.kind != STOP_REPLICA:
            continue
        flags = STOP_REPLICA
        replaced = False
        for j in range(begin, end):
            other = <const kept_t*> (first + j * stride)
            if other.kinds & KIND_STOP and other.broker == kept.broker:
                flags |= other.kinds & KIND_DELETE
                replaced = replaced or j > i
        if not replaced:
            post(box, kept, kept.broker, i, flags)


cdef inline Py_ssize_t group_end(
    const kept_t* kept, const uint8_t* first, Py_ssize_t stride, Py_ssize_t begin, Py_ssize_t n
) noexcept nogil:
    """Where the effects of the partition that an effect speaks of end."""
    cdef int32_t row = (<const kept_t*> (first + begin * stride)).row
    cdef Py_ssize_t end = begin + 1
    while end < n and (<const kept_t*> (first + end * stride)).row == row:
        end += 1
    return end


cdef inline void post_all(
    RequestBuffer* box, const kept_t* kept, const uint8_t* first, Py_ssize_t stride,
    Py_ssize_t begin,
    Py_ssize_t n
) noexcept nogil:
    """Post what some effects send, which are all of their partitions."""
    cdef Py_ssize_t end
    while begin < n:
        kept = <const kept_t*> (first + begin * stride)
        end = group_end(kept, first, stride, begin, n)
        if end > begin + 1:
            post_group(box, kept, first, stride, begin, end)
        elif box.kind == LEADER_AND_ISR:
            if kept.kinds & KIND_LEADER_AND_ISR:
                post_leaders(box, kept, begin, kept.recipients,
                             kept.recipients if kept.kinds & KIND_IS_NEW else 0)
        elif kept.kinds & KIND_STOP:
            post(box, kept, kept.broker, begin, STOP_REPLICA | kept.kinds & KIND_DELETE)
        begin = end
