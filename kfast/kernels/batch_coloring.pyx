"""Put brokers into as few batches as can be, where some sets of brokers bound a batch.

A *limit* is a set of brokers and a number: no batch may hold more members of the set than that.
With every number 1 this is the colouring of a graph; with larger ones that of a hypergraph.
`blocked[v, k]` counts the limits that keep broker v out of batch k: those of which batch k already
holds, v apart, as many members as it may. So it is also what the excess over all limits would rise
by if v joined batch k, and all searches below read nothing else.

Source: Brelaz, "New methods to color the vertices of a graph", CACM 22 (1979), for the order of
`fill_batches` and `search_exactly`; Hertz and de Werra, "Using tabu search techniques for graph
coloring", Computing 39 (1987), for `search_fewer`.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

cdef struct Problem:
    const int64_t* begin
    const int32_t* members
    const int32_t* limits
    const int64_t* first
    const int32_t* sets_of
    int32_t* batch
    int32_t* blocked
    int32_t* saturation
    Py_ssize_t n_brokers
    Py_ssize_t width

cdef struct Search:
    int32_t* best
    const int64_t* cost
    int64_t work
    int n_best
    int lowest


cdef inline void change(Problem* p, Py_ssize_t broker, Py_ssize_t batch, int sign) noexcept nogil:
    """Put a broker into a batch (1), or take it out (-1)."""
    cdef int64_t at, i
    cdef int32_t number, other
    cdef int held
    cdef int32_t* cell
    p.batch[broker] = -1
    for at in range(p.first[broker], p.first[broker + 1]):
        number = p.sets_of[at]
        held = 0
        if p.limits[number] > 1 or p.begin[number + 1] - p.begin[number] > 2:
            for i in range(p.begin[number], p.begin[number + 1]):
                held += p.batch[p.members[i]] == batch
        for i in range(p.begin[number], p.begin[number + 1]):
            other = p.members[i]
            if other == broker or held - (p.batch[other] == batch and held > 0) + 1 != (
                p.limits[number]
            ):
                continue
            cell = &p.blocked[other * p.width + batch]
            if sign > 0:
                p.saturation[other] += cell[0] == 0
                cell[0] += 1
            else:
                cell[0] -= 1
                p.saturation[other] -= cell[0] == 0
    if sign > 0:
        p.batch[broker] = <int32_t> batch


cdef inline Py_ssize_t most_saturated(Problem* p, const int64_t* degree) noexcept nogil:
    """The broker without a batch that most batches are closed to; -1 where all have one."""
    cdef Py_ssize_t broker
    cdef Py_ssize_t chosen = -1
    for broker in range(p.n_brokers):
        if p.batch[broker] >= 0:
            continue
        if chosen < 0 or p.saturation[broker] > p.saturation[chosen] or (
            p.saturation[broker] == p.saturation[chosen] and degree[broker] > degree[chosen]
        ):
            chosen = broker
    return chosen


cdef Problem problem_of(
    limits, int32_t[::1] batch, int32_t[:, ::1] blocked, int32_t[::1] saturation
):
    """The arrays as pointers, which the caller keeps; no limit at all is allowed, no broker is not.

    `limits` has where the members of each limit begin, the members, how many of them one batch may
    hold (from 1); where the limits of each broker begin, and their numbers.
    """
    cdef const int64_t[::1] begin = limits.begin
    cdef const int32_t[::1] members = limits.members
    cdef const int32_t[::1] most = limits.most
    cdef const int64_t[::1] first = limits.first
    cdef const int32_t[::1] sets_of = limits.sets_of
    cdef Problem p
    p.begin = &begin[0]
    p.members = &members[0] if members.shape[0] else NULL
    p.limits = &most[0] if most.shape[0] else NULL
    p.first = &first[0]
    p.sets_of = &sets_of[0] if sets_of.shape[0] else NULL
    p.batch = &batch[0]
    p.blocked = &blocked[0, 0]
    p.saturation = &saturation[0]
    p.n_brokers = batch.shape[0]
    p.width = blocked.shape[1]
    return p


def fill_batches(
    limits,                         # IN      `Limits`: sets of brokers, how many of each fit
    const int64_t[::1] degree,      # IN   (n,)    breaks ties: the larger goes first
    const int32_t[::1] order,       # IN   (n,)    brokers in order; (0,): the most saturated next
    int32_t[::1] batch,             # OUT  (n,)    batch of each broker
    int32_t[:, ::1] blocked,        # OUT  (n, K)  K is at least the number of batches
    int32_t[::1] saturation,        # OUT  (n,)    batches that are closed to each broker
):
    """Give every broker the first batch that is open to it; returns the number of batches."""
    cdef Py_ssize_t broker, k, i
    cdef Py_ssize_t used = 0
    cdef Problem p = problem_of(limits, batch, blocked, saturation)
    with nogil:
        batch[:] = -1
        blocked[:, :] = 0
        saturation[:] = 0
        for i in range(p.n_brokers):
            broker = order[i] if order.shape[0] else most_saturated(&p, &degree[0])
            k = 0
            while blocked[broker, k]:
                k += 1
            change(&p, broker, k, 1)
            used = max(used, k + 1)
    return used


cdef void explore(Problem* p, Search* s, Py_ssize_t placed, int used) noexcept nogil:
    """Try every batch for the next broker; only one of the empty batches, for they are alike."""
    cdef Py_ssize_t broker, i
    cdef int k
    if used >= s.n_best:
        return
    if placed == p.n_brokers:
        s.n_best = used
        for i in range(p.n_brokers):
            s.best[i] = p.batch[i]
        return
    broker = most_saturated(p, s.cost)
    s.work -= p.n_brokers + 2 * s.cost[broker]
    for k in range(used + 1):
        if k + 1 >= s.n_best:
            return
        if p.blocked[broker * p.width + k]:
            continue
        change(p, broker, k, 1)
        explore(p, s, placed + 1, max(used, k + 1))
        change(p, broker, k, -1)
        if s.n_best <= s.lowest or s.work < 0:
            return


def search_exactly(
    limits,                         # IN      `Limits`: sets of brokers, how many of each fit
    const int64_t[::1] cost,        # IN      (n,)    cells to change for each; breaks ties
    int lowest,                     # no fewer batches are possible
    int64_t work,                   # how many cells to look at or change before giving up
    int32_t[::1] best,              # IN OUT  (n,)    batch of each broker, allowed by all limits
    int32_t[::1] batch,             # scratch (n,)
    int32_t[:, ::1] blocked,        # scratch (n, K)  K is at least the number of batches
    int32_t[::1] saturation,        # scratch (n,)
):
    """Find the fewest batches by trying all; returns (number of batches, whether all were tried).

    Brokers in no limit should not be given: they multiply the ways that there are to try.
    """
    cdef Problem p = problem_of(limits, batch, blocked, saturation)
    cdef Search s
    cdef Py_ssize_t i
    s.best = &best[0]
    s.cost = &cost[0]
    s.work = work
    s.lowest = lowest
    s.n_best = 0
    with nogil:
        for i in range(p.n_brokers):
            s.n_best = max(s.n_best, best[i] + 1)
        batch[:] = -1
        blocked[:, :] = 0
        saturation[:] = 0
        if s.n_best > lowest:
            explore(&p, &s, 0, 0)
    return s.n_best, s.n_best <= lowest or s.work >= 0


cdef inline uint64_t next_random(uint64_t* state) noexcept nogil:
    """Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014."""
    cdef uint64_t x
    state[0] += <uint64_t> 0x9E3779B97F4A7C15ULL
    x = state[0]
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9ULL
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EBULL
    return x ^ (x >> 31)


def place_all(
    limits,                         # IN      `Limits`: sets of brokers, how many of each fit
    const int32_t[::1] start,       # IN   (n,)    batch of each broker; -1: the best for it
    int32_t[::1] batch,             # OUT  (n,)
    int32_t[:, ::1] blocked,        # OUT  (n, K)
    int32_t[::1] saturation,        # OUT  (n,)
):
    """Put brokers where a start says, limits kept or not; returns the excess over all limits."""
    cdef Problem p = problem_of(limits, batch, blocked, saturation)
    cdef Py_ssize_t broker, k, other
    cdef int64_t excess = 0
    cdef int turn
    with nogil:
        batch[:] = -1
        blocked[:, :] = 0
        saturation[:] = 0
        for turn in range(2):
            for broker in range(p.n_brokers):
                if (start[broker] < 0) != turn:
                    continue
                k = start[broker]
                if turn:
                    k = 0
                    for other in range(1, p.width):
                        if blocked[broker, other] < blocked[broker, k]:
                            k = other
                excess += blocked[broker, k]
                change(&p, broker, k, 1)
    return excess


def search_fewer(
    limits,                         # IN      `Limits`: sets of brokers, how many of each fit
    const int64_t[::1] degree,      # IN      (n,)    what it costs to move each broker
    int32_t[::1] batch,             # IN OUT  (n,)    batch of each broker, below K
    int32_t[:, ::1] blocked,        # IN OUT  (n, K)  as `place_all` leaves it
    int32_t[::1] saturation,        # IN OUT  (n,)    likewise
    int64_t[:, ::1] until,          # IN OUT  (n, K)  the step before which a move is forbidden
    int64_t[::1] memory,            # IN OUT  (4,)    excess, step, least excess, random state
    int64_t work,                   # how many cells to look at or change before returning
):
    """Move brokers between batches until no limit is exceeded; returns the work that is left.

    Each step makes the best move of a broker whose batch exceeds a limit, and for a while forbids
    to undo it. May be called again to go on.
    """
    cdef Problem p = problem_of(limits, batch, blocked, saturation)
    cdef uint64_t random = <uint64_t> memory[3]
    cdef Py_ssize_t broker, k, own, best_broker, best_batch
    cdef int64_t gain, best_gain, n_alike, n_bad
    with nogil:
        while memory[0] > 0 and work > 0:
            best_broker, best_batch, best_gain, n_alike, n_bad = -1, -1, 0, 0, 0
            for broker in range(p.n_brokers):
                own = batch[broker]
                if not blocked[broker, own]:
                    continue
                n_bad += 1
                for k in range(p.width):
                    if k == own:
                        continue
                    gain = blocked[broker, own] - blocked[broker, k]
                    if best_broker >= 0 and gain < best_gain:
                        continue
                    if until[broker, k] > memory[1] and memory[0] - gain >= memory[2]:
                        continue
                    n_alike = n_alike + 1 if best_broker >= 0 and gain == best_gain else 1
                    if n_alike == 1 or next_random(&random) % <uint64_t> n_alike == 0:
                        best_broker, best_batch, best_gain = broker, k, gain
            memory[1] += 1
            work -= p.n_brokers + n_bad * p.width
            if best_broker < 0:
                continue
            own = batch[best_broker]
            change(&p, best_broker, own, -1)
            change(&p, best_broker, best_batch, 1)
            until[best_broker, own] = (
                memory[1] + 3 * n_bad // 5 + <int64_t> (next_random(&random) % 10)
            )
            memory[0] -= best_gain
            memory[2] = min(memory[2], memory[0])
            work -= 2 * degree[best_broker]
    memory[3] = <int64_t> random
    return work


def count_harm(
    const int64_t[::1] begin,       # IN   (G+1,)  where the members of each set begin
    const int32_t[::1] members,     # IN   (m,)    brokers
    const int32_t[::1] spare,       # IN   (G,)    members above min ISR; negative: under it already
    const int64_t[::1] partitions,  # IN   (G,)    how many partitions have this set
    const int32_t[::1] batch,       # IN   (n,)    batch of each broker, -1: in none
    int64_t[:, ::1] harm,           # OUT  (K, 2)  partitions brought under min ISR, and offline
):
    """Count, per batch, the partitions that it brings under min ISR and those it leaves nobody."""
    cdef Py_ssize_t number
    cdef int64_t i, j
    cdef int32_t own
    cdef int held
    with nogil:
        harm[:, :] = 0
        for number in range(spare.shape[0]):
            for i in range(begin[number], begin[number + 1]):
                own = batch[members[i]]
                if own < 0:
                    continue
                held = 1
                for j in range(begin[number], begin[number + 1]):
                    if batch[members[j]] == own and j != i:
                        if j < i:
                            held = 0
                            break
                        held += 1
                if held > spare[number] >= 0 and held:
                    harm[own, 0] += partitions[number]
                if held == begin[number + 1] - begin[number]:
                    harm[own, 1] += partitions[number]
