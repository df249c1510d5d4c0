"""Tables of the journal that are not columns of effects as they are.

What was added to a request batch is up to three rows of an effect, one after the other; what was
refused is a few effects among many.

Source: docs/controller.md, section 5.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memcpy

from kfast.kernels.kept cimport NarrowKept, WideKept, kept_t
from kfast.kernels.posting cimport LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from kfast.kernels.slots cimport (
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_STOP,
)

# Effects of one block, and the additions that they make at most.
cdef enum:
    BLOCK = 512
    MOST_ADDED = 3 * 512
    MOST_COLUMNS = 16

# Where lists are; without offsets all are of one length.
cdef struct Lists:
    const int32_t* offsets
    int32_t length


cdef inline int32_t size_of(const Lists* lists, Py_ssize_t i) noexcept nogil:
    return lists.length if lists.offsets == NULL else lists.offsets[i + 1] - lists.offsets[i]


cdef Lists lists_of(const int32_t[::1] offsets, int32_t length):
    cdef Lists lists
    lists.offsets = &offsets[0] if offsets.shape[0] else NULL
    lists.length = length
    return lists


cdef Py_ssize_t list_block(
    const int32_t* kinds, int every, Py_ssize_t begin, Py_ssize_t end, int32_t* places,
    int32_t* said
) noexcept nogil:
    """List what some effects added, in order; an effect adds StopReplica first.

    Written always, counted where it is so: a wrong guess of the branch would cost more.
    """
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef int kind = every
    for i in range(begin, end):
        if kinds != NULL:
            kind = kinds[i]
        places[n] = <int32_t> i
        said[n] = STOP_REPLICA
        n += (kind & KIND_STOP) != 0
        places[n] = <int32_t> i
        said[n] = LEADER_AND_ISR
        n += (kind & KIND_LEADER_AND_ISR) != 0
        if kind & KIND_METADATA:
            places[n] = <int32_t> i
            said[n] = UPDATE_METADATA
            n += 1
    return n


# The columns of additions that are not the same of every request.
cdef struct Added:
    const int32_t* columns[MOST_COLUMNS]
    int32_t* columns_out[MOST_COLUMNS]
    int n_columns
    const int32_t* leader_epoch
    const int32_t* stop_epoch
    const int32_t* broker
    const int32_t* recipients
    Lists told
    Lists isr
    Lists replicas
    int32_t* said
    int32_t* epochs
    int32_t* told_offsets
    int32_t* isr_offsets
    int32_t* replicas_offsets
    int32_t* told_values
    int32_t* origins


cdef inline void add_numbers(
    const Added* to, const int32_t* places, const int32_t* said, Py_ssize_t n, Py_ssize_t at
) noexcept nogil:
    """Numbers of one block; what is null has the effect's value below its null."""
    cdef Py_ssize_t i
    cdef int k
    memcpy(to.said + at, said, n * sizeof(int32_t))
    if to.origins != NULL:
        memcpy(to.origins + at, places, n * sizeof(int32_t))
    for k in range(to.n_columns):
        for i in range(n):
            to.columns_out[k][at + i] = to.columns[k][places[i]]
    for i in range(n):
        to.epochs[at + i] = (
            to.stop_epoch[places[i]] if said[i] == STOP_REPLICA else to.leader_epoch[places[i]]
        )


cdef inline void add_lists(
    const Added* to, const int32_t* places, const int32_t* said, Py_ssize_t n, Py_ssize_t at
) noexcept nogil:
    """Whom additions of one block are for, and where ISR and replicas of those that lead end."""
    cdef Py_ssize_t i
    cdef int32_t told = to.told_offsets[at]
    cdef int32_t isr = to.isr_offsets[at]
    cdef int32_t replicas = to.replicas_offsets[at]
    cdef int32_t place, begin, s
    for i in range(n):
        place = places[i]
        if said[i] == LEADER_AND_ISR:
            begin = place * to.told.length if to.told.offsets == NULL else to.told.offsets[place]
            for s in range(size_of(&to.told, place)):
                to.told_values[told] = to.recipients[begin + s]
                told += 1
            isr += size_of(&to.isr, place)
            replicas += size_of(&to.replicas, place)
        elif said[i] == STOP_REPLICA:
            to.told_values[told] = to.broker[place]
            told += 1
        to.told_offsets[at + i + 1] = told
        to.isr_offsets[at + i + 1] = isr
        to.replicas_offsets[at + i + 1] = replicas


def fill_additions(
    const int32_t[::1] kinds,         # IN      (n,)  what each effect added; or (0,)
    int every,                        # what every one did, then
    list columns,                     # IN      k of (n,) int32, what all additions say
    const int32_t[::1] leader_epoch,  # IN      (n,)
    const int32_t[::1] stop_epoch,    # IN      (n,)  of a StopReplica
    const int32_t[::1] broker,        # IN      (n,)  whom it is for
    list lists,                       # IN      of ((n+1,) offsets, or none of them; length):
                                      #         recipients, ISR, replicas; empty where none is said
    const int32_t[::1] recipients,    # IN      the values of the first
    int32_t[::1] said,                # OUT     (m,)    kind of request
    int32_t[:, ::1] columns_out,      # OUT     (k, m)
    int32_t[::1] epochs,              # OUT     (m,)
    int32_t[:, ::1] offsets,          # IN OUT  (3, m+1)  whom it is for, ISR, replicas; each begins
                                      #                   with 0
    int32_t[::1] told,                # OUT     whom additions are for
    int32_t[::1] origins,             # OUT     (m,)    effect that each comes from; or (0,)
):
    """What effects added to the batch, in order: StopReplica, LeaderAndIsr, UpdateMetadata."""
    cdef Added to
    cdef int32_t places[MOST_ADDED + 2]
    cdef int32_t block_said[MOST_ADDED + 2]
    cdef const int32_t[::1] column
    cdef Py_ssize_t n = leader_epoch.shape[0]
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t end, found
    cdef int k
    cdef const int32_t* first = &kinds[0] if kinds.shape[0] else NULL
    if not said.shape[0]:
        return
    to.n_columns = <int> len(columns)
    for k in range(to.n_columns):
        column = columns[k]
        to.columns[k] = &column[0]
        to.columns_out[k] = &columns_out[k, 0]
    to.leader_epoch = &leader_epoch[0]
    to.stop_epoch = &stop_epoch[0]
    to.broker = &broker[0]
    to.told = lists_of(lists[0][0], lists[0][1])
    to.isr = lists_of(lists[1][0], lists[1][1])
    to.replicas = lists_of(lists[2][0], lists[2][1])
    to.recipients = &recipients[0] if recipients.shape[0] else NULL
    to.said = &said[0]
    to.epochs = &epochs[0]
    to.told_offsets = &offsets[0, 0]
    to.isr_offsets = &offsets[1, 0]
    to.replicas_offsets = &offsets[2, 0]
    to.told_values = &told[0]
    to.origins = &origins[0] if origins.shape[0] else NULL
    with nogil:
        while begin < n:
            end = min(begin + BLOCK, n)
            found = list_block(first, every, begin, end, places, block_said)
            add_numbers(&to, places, block_said, found, at)
            add_lists(&to, places, block_said, found, at)
            at += found
            begin = end


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
