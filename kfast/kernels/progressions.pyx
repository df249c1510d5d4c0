"""Counts, sums and quantiles of instants that come in arithmetic progressions.

A sample has some progressions; the n partitions of one are ready at `base` us +
(`offset` + i * `step`) ns, i from 1 to n. A quantile is found by interpolation between two bounds:
after each round only those progressions are left that may have an instant between them. How the
next instant is chosen changes how many rounds it takes, never what is found.

Source: docs/timeline.md, section "Distributions without partitions".
"""

from libc.stdint cimport int64_t

import numpy as np

cdef extern from "capacity.h":
    ctypedef long long wide "kfast_wide"


# One row of progressions: instants in microseconds, `offset` and `step` in nanoseconds.
cdef struct progression_t:
    int64_t base
    int64_t offset
    int64_t step
    int64_t n
    int64_t visible     # when clients see their leader
    int64_t broker      # that leads them


# Bounds of a quantile, and how far from what is wanted the counts at them are.
cdef struct search_t:
    double below        # wanted less the count just before the lower bound
    double above        # the count at the upper bound less what is wanted
    int rounds
    int side            # of the last round: 1, the upper bound fell; -1, the lower one rose


cdef enum:
    BISECT_AFTER = 24   # rounds


cdef inline int64_t next_instant(const search_t* s, int64_t low, int64_t high) noexcept nogil:
    """Where to count next, from `low` to `high` - 1; where counts are even, close to the end."""
    cdef int64_t half = (high - low) // 2
    if s.rounds >= BISECT_AFTER or not s.below + s.above > 0:
        return low + half
    return low + min(<int64_t> (s.below / (s.below + s.above) * (high - low)), high - low - 1)


cdef inline void note_count(search_t* s, double beyond) noexcept nogil:
    """Note a count less what is wanted; the bound that stays twice loses half its weight."""
    cdef int side = 1 if beyond >= 0 else -1
    if side > 0:
        s.above = beyond
        if s.side == side:
            s.below /= 2
    else:
        s.below = -beyond
        if s.side == side:
            s.above /= 2
    s.side = side
    s.rounds += 1


cdef inline int64_t rounded_up(wide nanoseconds) noexcept nogil:
    """Microseconds."""
    return <int64_t> ((nanoseconds + 999) // 1000)


cdef inline int64_t count_ready(const progression_t* p, int64_t x) noexcept nogil:
    """Partitions that are ready at x us."""
    cdef int64_t waited = (x - p.base) * 1000 - p.offset
    if waited < 0:
        return 0
    if not p.step or waited >= p.step * p.n:
        return p.n
    return waited // p.step


cdef inline int64_t sum_first(const progression_t* p, int64_t n) noexcept nogil:
    """Sum of the first n instants, rounded up once."""
    cdef wide nanoseconds = <wide> p.offset * n + <wide> p.step * (n * (n + 1) // 2)
    return n * p.base + rounded_up(nanoseconds)


cdef inline wide waited_until(
    const progression_t* p, int64_t hidden, int64_t x
) noexcept nogil:
    """Nanoseconds from each partition's instant, or that of its visibility, until x us, summed.

    `hidden` partitions are ready before they are visible.
    """
    cdef int64_t n, first = hidden * (hidden + 1) // 2
    cdef wide waited
    if x < p.visible:
        return 0
    n = max(count_ready(p, x), hidden)
    waited = <wide> hidden * (x - p.visible) * 1000
    waited += <wide> (n - hidden) * ((x - p.base) * 1000 - p.offset)
    return waited - <wide> p.step * (n * (n + 1) // 2 - first)


def survey(
    const int64_t[::1] begin,      # IN   (S + 1,)  where the rows of each sample begin
    const int64_t[:, ::1] rows,    # IN   (R, 6)    progressions, as `progression_t`
    int64_t horizon,               # IN             microseconds
    int64_t[:, ::1] measures,      # OUT  (S, 4)    partitions, first, last, sum up to the horizon
):
    """Measure every sample; the first and the last instant are 0 where there is none."""
    cdef Py_ssize_t s, row
    cdef const progression_t* p
    cdef int64_t within, first, last
    with nogil:
        for s in range(begin.shape[0] - 1):
            measures[s, 0] = measures[s, 1] = measures[s, 2] = measures[s, 3] = 0
            for row in range(begin[s], begin[s + 1]):
                p = <const progression_t*> &rows[row, 0]
                first = p.base + rounded_up(p.offset + p.step)
                last = p.base + rounded_up(p.offset + <wide> p.step * p.n)
                within = count_ready(p, horizon)
                if not measures[s, 0] or first < measures[s, 1]:
                    measures[s, 1] = first
                measures[s, 2] = max(measures[s, 2], last)
                measures[s, 0] += p.n
                measures[s, 3] += sum_first(p, within) + (p.n - within) * horizon


def quantile(
    const int64_t[::1] begin,      # IN   (S + 1,)
    const int64_t[:, ::1] rows,    # IN   (R, 6)
    int percent,                   # IN
    int64_t[:, ::1] bounds,        # IN OUT (S, 2)  it is between them; then both are the instant
):
    """The least instant of each sample at which so many percent of the partitions are ready."""
    cdef Py_ssize_t s, row, i, n, left
    cdef Py_ssize_t most = np.diff(begin).max() if begin.shape[0] > 1 else 0
    cdef int64_t[::1] active = np.empty(most + 1, np.int64)
    cdef int64_t[::1] ready = np.empty(most + 1, np.int64)
    cdef const progression_t* p
    cdef int64_t total, counted, full, middle
    cdef bint enough
    cdef search_t search
    with nogil:
        for s in range(begin.shape[0] - 1):
            n = begin[s + 1] - begin[s]
            total = full = 0
            for i in range(n):
                active[i] = begin[s] + i
                total += rows[begin[s] + i, 3]
            search = search_t(percent * <double> total, (100 - percent) * <double> total, 0, 0)
            while bounds[s, 0] < bounds[s, 1]:
                middle = next_instant(&search, bounds[s, 0], bounds[s, 1])
                counted = full
                for i in range(n):
                    ready[i] = count_ready(<const progression_t*> &rows[active[i], 0], middle)
                    counted += ready[i]
                enough = counted * 100 >= percent * total
                note_count(&search, <double> (counted * 100 - percent * total))
                bounds[s, enough] = middle if enough else middle + 1
                left = 0
                for i in range(n):
                    row = active[i]
                    p = <const progression_t*> &rows[row, 0]
                    if enough and not ready[i]:
                        continue
                    if not enough and ready[i] == p.n:
                        full += p.n
                        continue
                    active[left] = row
                    left += 1
                n = left


def waiting_quantile(
    const int64_t[::1] begin,      # IN   (S + 1,)
    const int64_t[:, ::1] rows,    # IN   (R, 6)
    int percent,                   # IN
    int64_t wait,                  # IN             microseconds, above 0
    const int64_t[::1] late,       # IN   (S,)      microseconds
    int64_t[:, ::1] bounds,        # IN OUT (S, 2)  it is between them; then both are the instant
):
    """The same for clients, that arrive uniformly within a wait after a partition is ready."""
    cdef Py_ssize_t s, row, i, n, left
    cdef Py_ssize_t most = np.diff(begin).max() if begin.shape[0] > 1 else 0
    cdef int64_t[::1] active = np.empty(most + 1, np.int64)
    cdef int64_t[::1] hidden = np.empty(most + 1, np.int64)
    cdef int64_t[::1] passed = np.empty(most + 1, np.int64)
    cdef const progression_t* p
    cdef int64_t total, middle, x
    cdef wide counted, full, wanted
    cdef bint enough
    cdef search_t search
    with nogil:
        for s in range(begin.shape[0] - 1):
            n = begin[s + 1] - begin[s]
            total = 0
            full = 0
            for i in range(n):
                p = <const progression_t*> &rows[begin[s] + i, 0]
                active[i] = begin[s] + i
                hidden[i] = count_ready(p, p.visible)
                total += p.n
            wanted = <wide> percent * total * wait * 1000
            search = search_t(<double> wanted, <double> wanted / percent * (100 - percent), 0, 0)
            while bounds[s, 0] < bounds[s, 1]:
                middle = next_instant(&search, bounds[s, 0], bounds[s, 1])
                x = middle - late[s]
                counted = full
                for i in range(n):
                    p = <const progression_t*> &rows[active[i], 0]
                    passed[i] = <int64_t> (
                        waited_until(p, hidden[i], x) - waited_until(p, hidden[i], x - wait)
                    )
                    counted += passed[i]
                enough = counted * 100 >= wanted
                note_count(&search, <double> (counted * 100 - wanted))
                bounds[s, enough] = middle if enough else middle + 1
                left = 0
                for i in range(n):
                    row = active[i]
                    p = <const progression_t*> &rows[row, 0]
                    if enough and not passed[i]:
                        continue
                    if not enough and passed[i] == p.n * wait * 1000:
                        full += passed[i]
                        continue
                    active[left] = row
                    hidden[left] = hidden[i]
                    left += 1
                n = left
