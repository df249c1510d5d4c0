"""What the journal keeps of each step, with everything that its tables say (`kept.pxd`).

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from libc.stdint cimport int32_t, uint8_t

from kfast.kernels.kept cimport (
    Keeper,
    NarrowKept,
    WideKept,
    keep_effect,
    kept_t,
    new_keeper,
)
from kfast.kernels.slots cimport (
    AHEAD,
    KIND_LEADER_AND_ISR,
    Effect,
    broker_t,
    kfast_prefetch,
    record_t,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)


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

    Returns what they are like: `Keeper.seen`.
    """
    cdef Py_ssize_t i, row
    cdef Py_ssize_t n = effects.shape[0]
    cdef Keeper keeper
    if n == 0:
        return 0
    keeper = new_keeper(
        &kept[0, 0], kept.shape[1], &topic_row[0], &partition[0], &broker_status[0],
        <int> replicas.shape[1],
    )
    with nogil:
        for i in range(n):
            row = effects[min(i + AHEAD, n - 1)].row
            kfast_prefetch(&records[row])
            kfast_prefetch(&replicas[row, 0])
            row = effects[i].row
            keep_effect(&keeper, &effects[i], &records[row], &replicas[row, 0])
    return keeper.seen


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
    """List the effects that an UpdateMetadata tells: the last of each partition (section 5.1).

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
