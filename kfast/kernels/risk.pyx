"""What brokers that fail together take down, over distinct sets of brokers and their partitions.

A set is lost when as many of its members are down as its threshold says. How many partitions some
brokers take down is a sum over single brokers, over pairs and over triples of them, each set adding
to every part of it that is small enough (inclusion and exclusion).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.splitmix cimport below, draw

# Where the streams of scenarios begin: none is that of a partition which was placed at random.
cdef uint64_t SCENARIO_STREAM = (<uint64_t> 1) << 63


def add_shared(
    const int64_t[::1] begin,     # IN      (G+1,)  where the members of each set begin
    const int32_t[::1] members,   # IN      (m,)    brokers
    const int64_t[::1] weight,    # IN      (G,)    what each set counts
    const int64_t[::1] first,     # IN      (n+1,)  where the sets of each broker begin
    const int32_t[::1] sets_of,   # IN      (m,)    their numbers
    int32_t broker,
    int64_t[::1] shared,          # IN OUT  (n,)    grows by the weight of the sets that both are in
):
    """Add up what a broker shares with every other; its own place stays as it is."""
    cdef int64_t at, i
    cdef int32_t number
    with nogil:
        for at in range(first[broker], first[broker + 1]):
            number = sets_of[at]
            for i in range(begin[number], begin[number + 1]):
                if members[i] != broker:
                    shared[members[i]] += weight[number]


cdef inline void note(
    int64_t score, int32_t a, int32_t b, int32_t c, int64_t[::1] scores, int32_t[:, ::1] triples
) noexcept nogil:
    """Put a triple into its place among the best; of equal ones the first noted comes first."""
    cdef Py_ssize_t at = scores.shape[0] - 1
    while at > 0 and scores[at - 1] < score:
        scores[at] = scores[at - 1]
        triples[at, :] = triples[at - 1, :]
        at -= 1
    scores[at] = score
    triples[at, 0] = a
    triples[at, 1] = b
    triples[at, 2] = c


def note_triples(
    const int64_t[::1] begin,     # IN      (G+1,)  where the members of each set begin
    const int32_t[::1] members,   # IN      (m,)    brokers, ascending in each set
    const int64_t[::1] weight,    # IN      (G,)    what each set adds to a triple of its members
    const int64_t[::1] first,     # IN      (n+1,)  where the sets of each broker begin
    const int32_t[::1] sets_of,   # IN      (m,)    their numbers
    const int64_t[::1] alone,     # IN      (n,)    score of each broker
    const int64_t[:, ::1] pairs,  # IN      (n, n)  what a pair adds to the scores of the two
    int64_t[:, ::1] link,         # scratch (n, n)  zeros, and zeros again afterwards
    int32_t broker,               # lowest broker of the triples to look at
    int64_t[::1] scores,          # IN OUT  (k,)    the best so far, descending; 0: none
    int32_t[:, ::1] triples,      # IN OUT  (k, 3)  their brokers
):
    """Score every triple of which a broker is the lowest, and keep the best."""
    cdef int64_t at, i, j, base, score
    cdef int64_t least
    cdef int32_t number
    cdef Py_ssize_t b, c
    cdef Py_ssize_t n = alone.shape[0]
    cdef int turn
    with nogil:
        for turn in range(2):
            for at in range(first[broker], first[broker + 1]):
                number = sets_of[at]
                if not weight[number]:
                    continue
                for i in range(begin[number], begin[number + 1]):
                    if members[i] <= broker:
                        continue
                    for j in range(i + 1, begin[number + 1]):
                        if turn:
                            link[members[i], members[j]] = 0
                        else:
                            link[members[i], members[j]] += weight[number]
            if turn:
                break
            least = scores[scores.shape[0] - 1]
            for b in range(broker + 1, n):
                base = alone[broker] + alone[b] + pairs[broker, b]
                for c in range(b + 1, n):
                    score = base + alone[c] + pairs[broker, c] + pairs[b, c] + link[b, c]
                    if score > least:
                        note(score, broker, <int32_t> b, <int32_t> c, scores, triples)
                        least = scores[scores.shape[0] - 1]


cdef struct Walk:
    const int64_t* begin
    const int32_t* members
    const int64_t* first
    const int32_t* sets_of
    int32_t* held
    int32_t* forbidden
    uint8_t* down
    int64_t* counts
    Py_ssize_t n_brokers
    int most


cdef inline void take_down(Walk* w, Py_ssize_t broker, int sign) noexcept nogil:
    """Take a broker down (1) or up (-1); the last member of a set that is up is forbidden."""
    cdef int64_t at, i
    cdef int32_t number
    cdef int64_t size
    w.down[broker] = sign > 0
    for at in range(w.first[broker], w.first[broker + 1]):
        number = w.sets_of[at]
        size = w.begin[number + 1] - w.begin[number]
        if sign > 0:
            w.held[number] += 1
        if w.held[number] == size - 1:
            for i in range(w.begin[number], w.begin[number + 1]):
                if not w.down[w.members[i]] and w.members[i] != broker:
                    w.forbidden[w.members[i]] += sign
        if sign < 0:
            w.held[number] -= 1


cdef void walk_on(Walk* w, Py_ssize_t broker, int size) noexcept nogil:
    """Count the ways to take down more brokers, all after this one."""
    cdef Py_ssize_t other
    cdef int64_t n = 0
    w.counts[size] += 1
    if size == w.most:
        return
    take_down(w, broker, 1)
    if size == w.most - 1:
        for other in range(broker + 1, w.n_brokers):
            n += w.forbidden[other] == 0
        w.counts[w.most] += n
    else:
        for other in range(broker + 1, w.n_brokers):
            if not w.forbidden[other]:
                walk_on(w, other, size + 1)
    take_down(w, broker, -1)


def count_safe(
    const int64_t[::1] begin,     # IN      (G+1,)  where the members of each set begin
    const int32_t[::1] members,   # IN      (m,)    brokers; two or more in each set
    const int64_t[::1] first,     # IN      (n+1,)  where the sets of each broker begin
    const int32_t[::1] sets_of,   # IN      (m,)    their numbers
    int32_t broker,               # lowest broker of the groups to look at
    int32_t[::1] held,            # scratch (G,)    zeros, and zeros again afterwards
    int32_t[::1] forbidden,       # scratch (n,)    likewise
    uint8_t[::1] down,            # scratch (n,)    likewise
    int64_t[::1] counts,          # IN OUT  (F+1,)  grows by the groups of each size up to F
):
    """Count the groups of brokers, with a given one as the lowest, that hold no set whole."""
    cdef Walk w
    w.begin = &begin[0]
    w.members = &members[0]
    w.first = &first[0]
    w.sets_of = &sets_of[0]
    w.held = &held[0]
    w.forbidden = &forbidden[0]
    w.down = &down[0]
    w.counts = &counts[0]
    w.n_brokers = down.shape[0]
    w.most = <int> (counts.shape[0] - 1)
    with nogil:
        walk_on(&w, broker, 1)


def draw_hits(
    const uint8_t[::1] threshold,  # IN      (G,)    so many members down, and the set is lost
    const int64_t[::1] first,      # IN      (n+1,)  where the sets of each broker begin
    const int32_t[::1] sets_of,    # IN      (m,)    their numbers
    uint64_t seed,
    int64_t scenario,              # number of the first scenario
    int32_t[::1] chosen,           # scratch (F,)    brokers of one scenario
    uint8_t[::1] down,             # scratch (n,)    zeros, and zeros again afterwards
    uint8_t[::1] held,             # scratch (G,)    likewise
    uint8_t[::1] hit,              # OUT     (k,)    1: some set is lost
):
    """Take F brokers down at random per scenario; the same for the same seed and number."""
    cdef Py_ssize_t i, k, n_taken
    cdef int64_t at
    cdef uint64_t turn
    cdef int32_t broker, number
    cdef int32_t n = <int32_t> down.shape[0]
    with nogil:
        for k in range(hit.shape[0]):
            n_taken = 0
            turn = 0
            hit[k] = 0
            while n_taken < chosen.shape[0] and not hit[k]:
                broker = below(draw(seed, SCENARIO_STREAM + <uint64_t> (scenario + k), turn), n)
                turn += 1
                if down[broker]:
                    continue
                down[broker] = 1
                chosen[n_taken] = broker
                n_taken += 1
                for at in range(first[broker], first[broker + 1]):
                    number = sets_of[at]
                    held[number] += 1
                    if held[number] >= threshold[number]:
                        hit[k] = 1
            for i in range(n_taken):
                down[chosen[i]] = 0
                for at in range(first[chosen[i]], first[chosen[i] + 1]):
                    held[sets_of[at]] = 0
