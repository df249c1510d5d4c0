"""What one batch sends to whom, in the order (kind, broker, partition), as columns.

Effects come in the order of partitions and requests go out by broker. Effects are taken in blocks
whose columns stay in the cache: the posts of a block are sorted by broker, and what they say is
written in one run behind what that broker was told of before.

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kfast.kernels.kept cimport NarrowKept, WideKept, kept_t
from kfast.kernels.posting cimport LEADER_AND_ISR, STOP_REPLICA, RequestBuffer, group_end, post_all

cdef enum:
    BLOCK = 32768
    MOST_COLUMNS = 16

# One list column: where its lists are, and where they go. No offsets: all are of one length.
cdef struct Lists:
    const int32_t* offsets
    const int32_t* values
    int64_t length
    int32_t* offsets_out
    int32_t* values_out
    int64_t* cursors

# What is written for each post, and how far each broker has come.
cdef struct Delivery:
    const int32_t* columns[MOST_COLUMNS]
    int32_t* columns_out[MOST_COLUMNS]
    int n_columns
    Lists[2] lists
    int n_lists
    int64_t* cursors
    const int64_t* ends
    int32_t* origins
    uint8_t* flags_out
    int32_t base
    int32_t* sorted_places
    uint8_t* sorted_flags
    int64_t* begins
    Py_ssize_t n_brokers


def block_size():
    """Effects in a block, at least; the last of them comes with all others of its partition."""
    return BLOCK


cdef RequestBuffer new_buffer(
    const uint8_t[::1] told, int kind, int64_t[::1] counts
) noexcept nogil:
    cdef RequestBuffer box
    box.told = &told[0]
    box.kind = kind
    box.counts = &counts[0]
    box.n_isr = NULL
    box.n_replicas = NULL
    box.places = NULL
    box.brokers = NULL
    box.flags = NULL
    box.n = 0
    return box


def count_requests(
    const uint8_t[:, ::1] effects,  # IN      (n, w)  kept effects, ascending rows
    bint wide,                      # the layout they are kept in
    const uint8_t[::1] registered,  # IN      (B,)    who may be told
    int64_t[:, ::1] counts,         # IN OUT  (2, B)  partitions for each broker, zeros at first:
                                    #                 LeaderAndIsr, StopReplica
):
    """Count what one batch sends, merged by (kind, broker, partition)."""
    cdef RequestBuffer box
    cdef int k
    if not effects.shape[0] or not registered.shape[0]:
        return
    for k in range(2):
        box = new_buffer(registered, STOP_REPLICA if k else LEADER_AND_ISR, counts[k])
        with nogil:
            if wide:
                post_all(&box, <const WideKept*> NULL, &effects[0, 0], effects.shape[1], 0,
                         effects.shape[0])
            else:
                post_all(&box, <const NarrowKept*> NULL, &effects[0, 0], effects.shape[1], 0,
                         effects.shape[0])


def count_values(
    const uint8_t[:, ::1] effects,  # IN      (n, w)  kept effects, ascending rows; not empty
    bint wide,                      # the layout they are kept in
    const uint8_t[::1] told,        # IN      (B,)    1: the broker may be told
    int64_t[:, ::1] counts,         # IN OUT  (3, B)  LeaderAndIsr: partitions for each broker, ids
                                    #                 in their ISRs, ids in their replicas
):
    """Count the values of the lists that LeaderAndIsr requests say."""
    cdef RequestBuffer box = new_buffer(told, LEADER_AND_ISR, counts[0])
    box.n_isr = &counts[1, 0]
    box.n_replicas = &counts[2, 0]
    with nogil:
        if wide:
            post_all(&box, <const WideKept*> NULL, &effects[0, 0], effects.shape[1], 0,
                     effects.shape[0])
        else:
            post_all(&box, <const NarrowKept*> NULL, &effects[0, 0], effects.shape[1], 0,
                     effects.shape[0])


cdef inline void copy_alike(
    const Lists* lists, const int32_t* places, Py_ssize_t n, int32_t* out
) noexcept nogil:
    """Lists of one length; of two or three mostly, which are copied without a loop."""
    cdef const int32_t* values = lists.values
    cdef int64_t size = lists.length
    cdef int64_t begin, s
    cdef Py_ssize_t i
    if size == 2:
        for i in range(n):
            begin = 2 * <int64_t> places[i]
            out[2 * i] = values[begin]
            out[2 * i + 1] = values[begin + 1]
    elif size == 3:
        for i in range(n):
            begin = 3 * <int64_t> places[i]
            out[3 * i] = values[begin]
            out[3 * i + 1] = values[begin + 1]
            out[3 * i + 2] = values[begin + 2]
    else:
        for i in range(n):
            begin = size * places[i]
            for s in range(size):
                out[size * i + s] = values[begin + s]


cdef inline void copy_lists(
    const Lists* lists, const int32_t* places, Py_ssize_t n, int64_t row, int64_t broker
) noexcept nogil:
    """The lists of one broker's posts, behind those that it has."""
    cdef int32_t* out = lists.values_out
    cdef int64_t at = lists.cursors[broker]
    cdef int64_t begin
    cdef int64_t size = lists.length
    cdef int64_t s
    cdef Py_ssize_t i
    if lists.offsets_out == NULL:
        copy_alike(lists, places, n, out + at)
        lists.cursors[broker] = at + n * size
        return
    for i in range(n):
        if lists.offsets == NULL:
            begin = places[i] * size
        else:
            begin = lists.offsets[places[i]]
            size = lists.offsets[places[i] + 1] - begin
        for s in range(size):
            out[at + s] = lists.values[begin + s]
        at += size
        lists.offsets_out[row + i + 1] = <int32_t> at
    lists.cursors[broker] = at


cdef inline void hand_over(
    const Delivery* to, int64_t broker, const int32_t* places, const uint8_t* flags, Py_ssize_t n
) noexcept nogil:
    """All that the posts of one block tell one broker; nothing beyond its rows is written."""
    cdef int64_t row = to.cursors[broker]
    cdef const int32_t* column
    cdef int32_t* out
    cdef Py_ssize_t i
    cdef int k
    to.cursors[broker] = row + n
    if row + n > to.ends[broker]:
        return
    for k in range(to.n_columns):
        column = to.columns[k]
        out = to.columns_out[k] + row
        for i in range(n):
            out[i] = column[places[i]]
    for k in range(to.n_lists):
        copy_lists(&to.lists[k], places, n, row, broker)
    if to.origins != NULL:
        for i in range(n):
            to.origins[row + i] = to.base + places[i]
    if to.flags_out != NULL:
        memcpy(to.flags_out + row, flags, n)


cdef void hand_out(const Delivery* to, const RequestBuffer* box) noexcept nogil:
    """Sort the posts of one block by broker, and hand them over."""
    cdef Py_ssize_t i
    cdef int64_t at = 0
    cdef int64_t broker
    for broker in range(to.n_brokers):
        to.begins[broker] = at
        at += box.counts[broker]
    for i in range(box.n):
        broker = box.brokers[i]
        at = to.begins[broker]
        to.begins[broker] = at + 1
        to.sorted_places[at] = box.places[i]
        to.sorted_flags[at] = box.flags[i]
    for broker in range(to.n_brokers):
        at = to.begins[broker] - box.counts[broker]
        if box.counts[broker]:
            hand_over(to, broker, to.sorted_places + at, to.sorted_flags + at, box.counts[broker])


cdef void deliver_all(
    const kept_t* kept, const uint8_t[:, ::1] effects, RequestBuffer* box, const Delivery* to
) noexcept nogil:
    cdef Py_ssize_t n = effects.shape[0]
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t end
    while begin < n:
        end = group_end(kept, &effects[0, 0], effects.shape[1],
                        min(begin + BLOCK, n) - 1, n)
        memset(box.counts, 0, to.n_brokers * sizeof(int64_t))
        box.n = 0
        post_all(box, kept, &effects[0, 0], effects.shape[1], begin, end)
        hand_out(to, box)
        begin = end


cdef Lists list_column(
    tuple source, const int32_t[::1] values, int32_t[::1] offsets_out, int32_t[::1] values_out,
    int64_t[::1] cursors
):
    """A list column that comes as (offsets, length)."""
    cdef Lists lists
    cdef const int32_t[::1] offsets = source[0]
    lists.offsets = &offsets[0] if offsets.shape[0] else NULL
    lists.length = source[1]
    lists.values = &values[0] if values.shape[0] else NULL
    lists.offsets_out = &offsets_out[0] if offsets_out.shape[0] else NULL
    lists.values_out = &values_out[0] if values_out.shape[0] else NULL
    lists.cursors = &cursors[0]
    return lists


def deliver(
    const uint8_t[:, ::1] effects,  # IN      (n, w)  kept effects, ascending rows; not empty
    bint wide,                      # the layout they are kept in
    const uint8_t[::1] told,        # IN      (B,)    1: the broker may be told
    int kind,                       # LeaderAndIsr or StopReplica
    int32_t base,                   # the number of the first effect
    int64_t[:, ::1] cursors,        # IN OUT  (3, B)  where the rows of each broker begin, and the
                                    #                 values of its two lists; then where they end
    const int64_t[::1] ends,        # IN      (B,)    where its rows are to end
    list columns,                   # IN      k of (n,) int32  what is said of each effect
    list lists,                     # IN      0 or 2 of ((n+1,) offsets, or none of them; length,
                                    #                 values): ISR, replicas
    int32_t[:, ::1] columns_out,    # OUT     (k, m)  what each request says
    list lists_out,                 # OUT     of ((m+1,) or none, values)
    int32_t[::1] origins,           # OUT     (m,)    the effect of each row; or (0,)
    uint8_t[::1] flags_out,         # OUT     (m,)    kind, is new, delete; or (0,)
    int32_t[:, ::1] places,         # OUT     (3, r)  scratch: posts of a block, their brokers, and
                                    #                 the posts sorted
    uint8_t[:, ::1] flags,          # OUT     (2, r)  scratch: their flags, and those sorted
    int64_t[:, ::1] counts,         # OUT     (2, B)  scratch: posts of a block, where they begin
):
    """Say what one batch sends in requests of one kind, broker by broker."""
    cdef Delivery to
    cdef const int32_t[::1] column
    cdef RequestBuffer box = new_buffer(told, kind, counts[0])
    cdef int k
    box.places = &places[0, 0]
    box.brokers = &places[1, 0]
    box.flags = &flags[0, 0]
    to.sorted_places = &places[2, 0]
    to.sorted_flags = &flags[1, 0]
    to.begins = &counts[1, 0]
    to.n_brokers = told.shape[0]
    to.base = base
    to.cursors = &cursors[0, 0]
    to.ends = &ends[0]
    to.origins = &origins[0] if origins.shape[0] else NULL
    to.flags_out = &flags_out[0] if flags_out.shape[0] else NULL
    to.n_columns = <int> len(columns)
    for k in range(to.n_columns):
        column = columns[k]
        to.columns[k] = &column[0]
        to.columns_out[k] = &columns_out[k, 0]
    to.n_lists = <int> len(lists)
    for k in range(to.n_lists):
        to.lists[k] = list_column(
            lists[k][:2], lists[k][2], lists_out[k][0], lists_out[k][1], cursors[k + 1]
        )
    with nogil:
        if wide:
            deliver_all[WideKept](NULL, effects, &box, &to)
        else:
            deliver_all[NarrowKept](NULL, effects, &box, &to)


def fill_brokers(
    const int64_t[::1] counts,        # IN   (B,)  rows of each broker
    const int32_t[::1] broker_id,     # IN   (B,)  ids
    const int64_t[::1] broker_epoch,  # IN   (B,)
    int32_t[::1] ids,                 # OUT  (m,)
    int64_t[::1] epochs,              # OUT  (m,), or (0,): not wanted
):
    """To whom each row of requests goes, and in which of the broker's epochs."""
    cdef Py_ssize_t i, broker
    cdef Py_ssize_t at = 0
    with nogil:
        for broker in range(counts.shape[0]):
            for i in range(at, at + counts[broker]):
                ids[i] = broker_id[broker]
            if epochs.shape[0]:
                for i in range(at, at + counts[broker]):
                    epochs[i] = broker_epoch[broker]
            at += counts[broker]
