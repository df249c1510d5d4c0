"""Which limits matter, and how few batches there can be at the least.

The limits are those of `batch_coloring.pyx`. Brokers that may not be together at all are kept as
bits: bit u of row v is set where some limit of 1 names both.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.slots cimport kfast_count, kfast_lowest

cdef enum:
    # Sets of more members are kept without looking whether they matter.
    MOST_LOOKED_AT = 8


cdef inline void join(uint64_t[:, ::1] apart, int32_t a, int32_t b) noexcept nogil:
    apart[a, b >> 6] |= (<uint64_t> 1) << (b & 63)
    apart[b, a >> 6] |= (<uint64_t> 1) << (a & 63)


cdef inline bint are_apart(const uint64_t[:, ::1] apart, int32_t a, int32_t b) noexcept nogil:
    return (apart[a, b >> 6] >> (b & 63)) & 1


def mark_apart(
    const int64_t[::1] begin,    # IN      (E+1,)  where the members of each limit begin
    const int32_t[::1] members,  # IN      (m,)    brokers
    const int32_t[::1] limits,   # IN      (E,)    how many of them one batch may hold
    uint64_t[:, ::1] apart,      # IN OUT  (n, W)  bits of the pairs that may not be together
):
    """Mark every pair of members of a limit of 1."""
    cdef Py_ssize_t number
    cdef int64_t i, j
    with nogil:
        for number in range(limits.shape[0]):
            if limits[number] != 1:
                continue
            for i in range(begin[number], begin[number + 1]):
                for j in range(begin[number], i):
                    join(apart, members[i], members[j])


def list_apart(
    const uint64_t[:, ::1] apart,  # IN   (n, W)  bits of the pairs that may not be together
    int32_t[::1] pairs,            # OUT  (2 q,)  the pairs, lower broker first, in order
):
    """List the pairs; returns how many there are, and lists none beyond the room that is given."""
    cdef Py_ssize_t broker, word
    cdef Py_ssize_t n = 0
    cdef uint64_t bits
    cdef int32_t other
    with nogil:
        for broker in range(apart.shape[0]):
            for word in range(broker >> 6, apart.shape[1]):
                bits = apart[broker, word]
                while bits:
                    other = <int32_t> (64 * word + kfast_lowest(bits))
                    bits &= bits - 1
                    if other <= broker:
                        continue
                    if 2 * n < pairs.shape[0]:
                        pairs[2 * n] = <int32_t> broker
                        pairs[2 * n + 1] = other
                    n += 1
    return n


cdef bint can_exceed(
    const uint64_t[:, ::1] apart, const int32_t* members, int n, int taken, uint64_t chosen,
    int next_one, int limit,
) noexcept nogil:
    """Whether more than `limit` of some brokers may be together, for all that pairs say."""
    cdef int i, j
    cdef bint fits
    if taken > limit:
        return True
    for i in range(next_one, n - (limit - taken)):
        fits = True
        for j in range(i):
            if chosen >> j & 1 and are_apart(apart, members[i], members[j]):
                fits = False
                break
        if fits and can_exceed(
            apart, members, n, taken + 1, chosen | (<uint64_t> 1) << i, i + 1, limit
        ):
            return True
    return False


def find_needed(
    const int64_t[::1] begin,      # IN   (E+1,)  where the members of each limit begin
    const int32_t[::1] members,    # IN   (m,)    brokers
    const int32_t[::1] limits,     # IN   (E,)    how many of them one batch may hold
    const uint64_t[:, ::1] apart,  # IN   (n, W)  bits of the pairs that may not be together
    uint8_t[::1] needed,           # OUT  (E,)    1: a limit above 1 that pairs do not imply
):
    """Find the limits that say more than the pairs do."""
    cdef Py_ssize_t number
    cdef int n
    with nogil:
        for number in range(limits.shape[0]):
            n = <int> (begin[number + 1] - begin[number])
            needed[number] = limits[number] > 1 and n > limits[number] and (
                n > MOST_LOOKED_AT
                or can_exceed(apart, &members[begin[number]], n, 0, 0, 0, limits[number])
            )


def label_connected(
    const int64_t[::1] begin,    # IN   (E+1,)  where the members of each limit begin
    const int32_t[::1] members,  # IN   (m,)    brokers
    int32_t[::1] label,          # OUT  (n,)    lowest broker that each is connected with
):
    """Label brokers by the limits that connect them."""
    cdef Py_ssize_t number, broker
    cdef int64_t i
    cdef int32_t a, b
    with nogil:
        for broker in range(label.shape[0]):
            label[broker] = <int32_t> broker
        for number in range(begin.shape[0] - 1):
            for i in range(begin[number] + 1, begin[number + 1]):
                a = members[begin[number]]
                b = members[i]
                while label[a] != a:
                    label[a] = label[label[a]]
                    a = label[a]
                while label[b] != b:
                    label[b] = label[label[b]]
                    b = label[b]
                if a < b:
                    label[b] = a
                else:
                    label[a] = b
        for broker in range(label.shape[0]):
            label[broker] = label[label[broker]]


def grow_clique(
    const uint64_t[:, ::1] apart,  # IN   (n, W)  bits of the pairs that may not be together
    int32_t broker,                # where to begin
    uint64_t[:, ::1] scratch,      # scratch (1, W)
):
    """Size of a set of brokers, no two of which may be together; it grows by the best connected."""
    cdef Py_ssize_t word
    cdef uint64_t bits
    cdef int32_t other, chosen
    cdef int64_t shared, most
    cdef int size = 1
    with nogil:
        scratch[0, :] = apart[broker, :]
        while True:
            chosen, most = -1, -1
            for word in range(apart.shape[1]):
                bits = scratch[0, word]
                while bits:
                    other = <int32_t> (64 * word + kfast_lowest(bits))
                    bits &= bits - 1
                    shared = count_shared(&apart[other, 0], &scratch[0, 0], apart.shape[1])
                    if shared > most:
                        chosen, most = other, shared
            if chosen < 0:
                break
            size += 1
            for word in range(apart.shape[1]):
                scratch[0, word] &= apart[chosen, word]
    return size


cdef inline int64_t count_shared(
    const uint64_t* a, const uint64_t* b, Py_ssize_t n_words
) noexcept nogil:
    cdef Py_ssize_t word
    cdef int64_t n = 0
    for word in range(n_words):
        n += kfast_count(a[word] & b[word])
    return n


def largest_batches(
    set_limits,                    # IN   `Limits`: sets of brokers, how many of each fit
    const uint64_t[:, ::1] apart,  # IN   (n, W)  bits of the pairs that may not be together
    uint64_t[:, ::1] linked,       # scratch (n, W)
    uint64_t[:, ::1] rest,         # scratch (2, W)
    int32_t[::1] largest,          # OUT  (n,)    no batch with this broker can be larger
):
    """Bound the size of a batch that a broker is in.

    The others of its batch are not apart from it, and of a limit of 2 that names it they hold at
    most one. So at most one of each clique of a cover of these brokers is among them.
    """
    cdef const int64_t[::1] begin = set_limits.begin
    cdef const int32_t[::1] members = set_limits.members
    cdef const int32_t[::1] limits = set_limits.most
    cdef const int64_t[::1] first = set_limits.first
    cdef const int32_t[::1] sets_of = set_limits.sets_of
    cdef Py_ssize_t broker, word
    cdef Py_ssize_t n = apart.shape[0]
    cdef int64_t at, i, j
    cdef int32_t number
    with nogil:
        for broker in range(n):
            linked[:, :] = apart
            for at in range(first[broker], first[broker + 1]):
                number = sets_of[at]
                if limits[number] != 2:
                    continue
                for i in range(begin[number], begin[number + 1]):
                    for j in range(begin[number], i):
                        if members[i] != broker and members[j] != broker:
                            join(linked, members[i], members[j])
            for word in range(apart.shape[1]):
                rest[0, word] = ~apart[broker, word]
            if n & 63:
                rest[0, n >> 6] &= ((<uint64_t> 1) << (n & 63)) - 1
            rest[0, broker >> 6] &= ~((<uint64_t> 1) << (broker & 63))
            largest[broker] = 1 + cover(linked, rest)


cdef inline int cover(const uint64_t[:, ::1] linked, uint64_t[:, ::1] rest) noexcept nogil:
    """How many cliques it takes to cover some brokers, each one grown from the lowest that is left.

    Row 0 of `rest` has the brokers, and none in the end.
    """
    cdef Py_ssize_t word, next_word
    cdef Py_ssize_t n_words = rest.shape[1]
    cdef int32_t broker
    cdef int n = 0
    for word in range(n_words):
        while rest[0, word]:
            n += 1
            for next_word in range(word, n_words):
                rest[1, next_word] = rest[0, next_word]
            next_word = word
            while next_word < n_words:
                if not rest[1, next_word]:
                    next_word += 1
                    continue
                broker = <int32_t> (64 * next_word + kfast_lowest(rest[1, next_word]))
                rest[0, next_word] &= ~((<uint64_t> 1) << (broker & 63))
                meet(&rest[1, 0], &linked[broker, 0], next_word, n_words)
    return n


cdef inline void meet(
    uint64_t* candidates, const uint64_t* linked, Py_ssize_t word, Py_ssize_t n_words
) noexcept nogil:
    """Keep the candidates that are linked, from a word on; a broker is not linked to itself."""
    while word < n_words:
        candidates[word] &= linked[word]
        word += 1
