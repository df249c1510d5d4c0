"""Bytes through every broker after any set of brokers has failed, exactly.

`add_loads` runs over all partitions for one set of failed brokers. For many small sets, a sum over
partitions is taken apart once into terms of no, one, two, ... failed brokers: what a broker carries
where D has failed is the sum of the terms of all subsets of D (inclusion and exclusion).

Source: docs/capacity.md, "How it works".
"""

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memcpy

import numpy as np

cdef extern from "capacity.h":
    enum:
        CHANNELS
        BLOCK_BROKERS
        BLOCK_NUMBERS
    void kfast_add(
        int words, double* total, const double* base, const double* more, int64_t n
    ) nogil
    void kfast_peaks(
        int words, const double* load, const double* slope, const double* offset,
        int64_t n_blocks, double* most
    ) nogil
    bint kfast_exceeds(int64_t a, int64_t b, int64_t c, int64_t d) nogil
    int64_t kfast_share(int64_t a, int64_t b, int64_t c) nogil

cdef enum:
    SCALARS = 6
    RESOURCES = 3
    CPU = 2
    MOST_LEVELS = 16
    LEADERLESS = 1
    UNDER_MIN_ISR = 2
    SINGLE = 4
    UNCLEAN = 8

cdef double NEARLY = 1 - 2.0**-40

cdef packed struct cell_t:
    uint16_t live
    int8_t leader
    uint8_t flags


# Partitions by shape: the columns of a `FailureEffects`.
cdef struct shapes_t:
    int64_t n
    const int64_t* width
    const int64_t* partitions
    const int64_t* row_begin
    const int64_t* sequence_begin
    const int64_t* cell_begin
    const cell_t* cells
    const int32_t* sequences


cdef shapes_t shapes_of(effects) except *:
    """The columns of a `FailureEffects`, which holds the memory."""
    cdef const int64_t[::1] width = effects.width
    cdef const int64_t[::1] partitions = effects.partitions
    cdef const int64_t[::1] row_begin = effects.row_begin
    cdef const int64_t[::1] sequence_begin = effects.sequence_begin
    cdef const int64_t[::1] cell_begin = effects.cell_begin
    cdef const cell_t[::1] cells = effects.cells
    cdef const int32_t[::1] sequences = effects.sequences
    cdef shapes_t shapes = shapes_t(
        n=width.shape[0], width=NULL, partitions=NULL, row_begin=NULL, sequence_begin=NULL,
        cell_begin=NULL, cells=&cells[0], sequences=&sequences[0],
    )
    if shapes.n:
        shapes.width, shapes.partitions = &width[0], &partitions[0]
        shapes.row_begin, shapes.sequence_begin = &row_begin[0], &sequence_begin[0]
        shapes.cell_begin = &cell_begin[0]
    return shapes


cdef inline int64_t rows_end(const shapes_t* shapes, Py_ssize_t shape) noexcept nogil:
    """Where the rows of a shape end."""
    return shapes.row_begin[shape] + shapes.partitions[shape]


cdef inline const int32_t* sequence_of(
    const shapes_t* shapes, Py_ssize_t shape, Py_ssize_t row
) noexcept nogil:
    """The brokers of a partition."""
    return shapes.sequences + (
        shapes.sequence_begin[shape] + shapes.width[shape] * (row - shapes.row_begin[shape])
    )


cdef inline double carried(const int64_t* factor, const int64_t* load) noexcept nogil:
    """What a term adds: so many times the bytes in, and so many times the bytes out."""
    return <double> (factor[0] * load[0] + factor[1] * load[1])


def layout():
    """Numbers that Python must know."""
    return {
        "block_brokers": BLOCK_BROKERS, "channels": CHANNELS,
        "resources": RESOURCES, "scalars": SCALARS,
    }


cdef inline void add_scalars(
    int flags, const int64_t* load, int64_t* scalars
) noexcept nogil:
    if flags & LEADERLESS:
        scalars[0] += load[0]
        scalars[1] += load[1]
    if flags & UNDER_MIN_ISR:
        scalars[2] += load[0]
    if flags & SINGLE:
        scalars[3] += load[0]
        scalars[4] += load[2]
    if flags & UNCLEAN:
        scalars[5] += load[2]


def add_loads(
    effects,                     # IN              `FailureEffects`
    const int64_t[:, ::1] load,  # IN      (n, 3)  bytes in, out, on disk, in the order of its rows
    const uint8_t[::1] failed,   # IN      (B+1,)  1 where a broker has failed
    bint any_failed,             # IN              some broker has, perhaps none of these
    int64_t[:, ::1] channels,    # IN OUT  (B, 4)  bytes in as leader, as follower; bytes out to
                                 #                 replicas, to consumers
    int64_t[::1] scalars,        # IN OUT  (6,)    bytes in and out without a leader, in under min
                                 #                 ISR, in and on disk with a single live in-sync
                                 #                 replica, on disk with an unclean leader
):
    """Add up what every broker carries, and what is in danger, in one pass over all partitions.

    Source: docs/capacity.md, "What a broker carries".
    """
    cdef shapes_t shapes = shapes_of(effects)
    cdef Py_ssize_t shape, i
    cdef const int32_t* sequence
    cdef const cell_t* cell
    cdef int places, place, mask, live
    cdef int64_t followers
    with nogil:
        for shape in range(shapes.n):
            places = <int> shapes.width[shape]
            for i in range(shapes.row_begin[shape], rows_end(&shapes, shape)):
                sequence = sequence_of(&shapes, shape, i)
                mask = 0
                if any_failed:
                    for place in range(places):
                        mask |= <int> failed[sequence[place]] << place
                else:
                    mask = 1 << places
                cell = &shapes.cells[shapes.cell_begin[shape] + mask]
                add_scalars(cell.flags, &load[i, 0], &scalars[0])
                if cell.leader < 0:
                    continue
                followers = 0
                live = cell.live & ~(1 << cell.leader)
                for place in range(places):
                    if (live >> place) & 1:
                        followers += 1
                        channels[sequence[place], 1] += load[i, 0]
                channels[sequence[cell.leader], 0] += load[i, 0]
                channels[sequence[cell.leader], 2] += load[i, 0] * followers
                channels[sequence[cell.leader], 3] += load[i, 1]


def add_single_terms(
    effects,                       # IN                `FailureEffects`
    terms,                         # IN                `Terms` of one failed broker
    const int64_t[:, ::1] load,    # IN      (n, 3)    as for `add_loads`
    double[:, :, ::1] values,      # IN OUT  (B, b, 4) by failed broker and broker
    int64_t[:, ::1] scalars,       # IN OUT  (B, 6)    by failed broker
):
    """Add up the terms of every single failed broker."""
    cdef shapes_t shapes = shapes_of(effects)
    cdef const int64_t[::1] begin = terms.begin
    cdef const int64_t[:, ::1] factor = terms.factors
    cdef const int64_t[::1] scalar_begin = terms.scalar_begin
    cdef const int64_t[:, ::1] scalar_factor = terms.scalar_factors
    cdef Py_ssize_t shape, i, t, c
    cdef const int32_t* sequence
    cdef double* value
    cdef int64_t broker
    with nogil:
        for shape in range(shapes.n):
            for i in range(shapes.row_begin[shape], rows_end(&shapes, shape)):
                sequence = sequence_of(&shapes, shape, i)
                for t in range(begin[shape], begin[shape + 1]):
                    value = &values[sequence[factor[t, 0]], sequence[factor[t, 2]], 0]
                    for c in range(RESOURCES):
                        value[c] += carried(&factor[t, 3 + 2 * c], &load[i, 0])
                for t in range(scalar_begin[shape], scalar_begin[shape + 1]):
                    broker = sequence[scalar_factor[t, 0]]
                    for c in range(SCALARS):
                        scalars[broker, c] += (
                            scalar_factor[t, 2 + c] * load[i, scalar_load(c)]
                        )


cdef inline int scalar_load(Py_ssize_t scalar) noexcept nogil:
    """Which load a scalar sums: bytes in, out, in, in, on disk, on disk."""
    return 1 if scalar == 1 else 2 if scalar >= 4 else 0


cdef inline int64_t pair_number(int64_t a, int64_t b, int64_t n) noexcept nogil:
    """Place of an unordered pair of different brokers among all pairs."""
    cdef int64_t low = min(a, b)
    return low * (2 * n - low - 1) // 2 + max(a, b) - low - 1


def count_pair_terms(
    effects,                      # IN              `FailureEffects`
    terms,                        # IN              `Terms` of two failed brokers
    int64_t n_brokers,            # IN
    int64_t[::1] counts,          # IN OUT  (n_pairs + 1,)  terms of each pair, one place on
):
    """Count the terms of every pair of failed brokers."""
    cdef shapes_t shapes = shapes_of(effects)
    cdef const int64_t[::1] begin = terms.begin
    cdef const int64_t[:, ::1] factor = terms.factors
    cdef Py_ssize_t shape, i, t
    cdef const int32_t* sequence
    with nogil:
        for shape in range(shapes.n):
            for i in range(shapes.row_begin[shape], rows_end(&shapes, shape)):
                sequence = sequence_of(&shapes, shape, i)
                for t in range(begin[shape], begin[shape + 1]):
                    counts[1 + pair_number(
                        sequence[factor[t, 0]], sequence[factor[t, 1]], n_brokers
                    )] += 1


def list_pair_terms(
    effects,                      # IN                  `FailureEffects`
    terms,                        # IN                  `Terms` of two failed brokers
    const int64_t[:, ::1] load,   # IN      (n, 3)      as for `add_loads`
    int64_t n_brokers,            # IN
    int64_t[::1] place,           # IN OUT  (n_pairs,)  where each pair's next term goes
    int32_t[::1] broker,          # OUT     (m,)        broker of each term
    double[:, ::1] values,        # OUT     (m, 3)      what it carries more
    int64_t[:, ::1] scalars,      # IN OUT  (n_pairs, 6)
):
    """List the terms of every pair of failed brokers, pair by pair."""
    cdef shapes_t shapes = shapes_of(effects)
    cdef const int64_t[::1] begin = terms.begin
    cdef const int64_t[:, ::1] factor = terms.factors
    cdef const int64_t[::1] scalar_begin = terms.scalar_begin
    cdef const int64_t[:, ::1] scalar_factor = terms.scalar_factors
    cdef Py_ssize_t shape, i, t, c, at
    cdef const int32_t* sequence
    cdef int64_t pair
    with nogil:
        for shape in range(shapes.n):
            for i in range(shapes.row_begin[shape], rows_end(&shapes, shape)):
                sequence = sequence_of(&shapes, shape, i)
                for t in range(begin[shape], begin[shape + 1]):
                    pair = pair_number(
                        sequence[factor[t, 0]], sequence[factor[t, 1]], n_brokers
                    )
                    at = place[pair]
                    place[pair] += 1
                    broker[at] = sequence[factor[t, 2]]
                    for c in range(RESOURCES):
                        values[at, c] = carried(&factor[t, 3 + 2 * c], &load[i, 0])
                for t in range(scalar_begin[shape], scalar_begin[shape + 1]):
                    pair = pair_number(
                        sequence[scalar_factor[t, 0]], sequence[scalar_factor[t, 1]], n_brokers
                    )
                    for c in range(SCALARS):
                        scalars[pair, c] += (
                            scalar_factor[t, 2 + c] * load[i, scalar_load(c)]
                        )


# One level of terms: those of pairs, of triples, ... of failed brokers.
cdef struct level_t:
    int64_t n_keys
    const int64_t* keys     # ascending: place of the set without its last broker, and that broker
    const int64_t* begin
    const int32_t* broker
    const double* values
    const int64_t* scalars


cdef class Levels:
    """Terms of two and more failed brokers, as the kernel reads them.

    Parameters
    ----------
    n_brokers : int
    levels : sequence
        Each with keys, begin, broker, values and scalars; the keys of pairs are their numbers.
    """

    cdef level_t[MOST_LEVELS] level
    cdef int n
    cdef int64_t n_brokers
    cdef list held

    def __init__(self, int64_t n_brokers, levels):
        cdef const int64_t[::1] keys
        cdef const int64_t[::1] begin
        cdef const int32_t[::1] broker
        cdef const double[:, ::1] values
        cdef const int64_t[:, ::1] scalars
        self.n = len(levels)
        self.n_brokers = n_brokers
        self.held = list(levels)
        for at, each in enumerate(levels):
            keys, begin, broker = each.keys, each.begin, each.broker
            values, scalars = each.values, each.scalars
            self.level[at].n_keys = begin.shape[0] - 1
            self.level[at].keys = &keys[0]
            self.level[at].begin = &begin[0]
            self.level[at].broker = &broker[0]
            self.level[at].values = &values[0, 0]
            self.level[at].scalars = &scalars[0, 0]


cdef int64_t find_key(const level_t* level, int64_t key) noexcept nogil:
    """Place of a key, or -1."""
    cdef int64_t low = 0
    cdef int64_t high = level.n_keys
    cdef int64_t middle
    while low < high:
        middle = (low + high) >> 1
        if level.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < level.n_keys and level.keys[low] == key else -1


cdef void add_terms(
    const level_t* level, int64_t at, double* load, int64_t* scalars
) noexcept nogil:
    cdef int64_t t
    cdef int c
    for t in range(level.begin[at], level.begin[at + 1]):
        for c in range(RESOURCES):
            load[CHANNELS * level.broker[t] + c] += level.values[RESOURCES * t + c]
    for c in range(SCALARS):
        scalars[c] += level.scalars[SCALARS * at + c]


cdef void add_deeper(
    Levels levels, int depth, int64_t prefix, const int32_t* down, int n, double* load,
    int64_t* scalars
) noexcept nogil:
    """Add the terms of all sets that continue one, by brokers that follow."""
    cdef int i
    cdef int64_t at
    if depth >= levels.n:
        return
    for i in range(n):
        at = find_key(&levels.level[depth], prefix * levels.n_brokers + down[i])
        if at >= 0:
            add_terms(&levels.level[depth], at, load, scalars)
            add_deeper(levels, depth + 1, at, down + i + 1, n - i - 1, load, scalars)


cdef inline int64_t micro_cores(int64_t work, const int64_t* cpu) noexcept nogil:
    """Micro-cores that so much work takes."""
    return cpu[0] + kfast_share(cpu[1], work, cpu[2])


cdef inline int64_t used(
    double load, int resource, int64_t broker, const int64_t* cpu
) noexcept nogil:
    """What a broker uses of a resource: bytes per second, or micro-cores."""
    if resource != CPU:
        return <int64_t> load
    return micro_cores(<int64_t> load, &cpu[RESOURCES * broker])


# What a resource's use is measured against.
cdef struct limits_t:
    const double* slope        # (4 b,)  utilisation is about offset + load * slope
    const double* offset
    const int64_t* capacity    # (B, 3)
    const int64_t* cpu         # (B, 3)  micro-cores without work, with all of it, and that work
    const double* allowed      # (B, 3)  the largest load within the limit
    const uint8_t* always_over  # (B,)   over another limit whatever fails
    double rounding            # most by which rounding to micro-cores changes a difference
    int64_t n_brokers
    int64_t n_blocks


cdef class Limits:
    """What use is measured against, as the kernel reads it.

    Parameters
    ----------
    slope, offset : (4 b,) float64
        An estimate of utilisation is offset + load * slope; offset is -1 where the broker has no
        such capacity.
    capacity : (B, 3) int64
        Bytes in, bytes out, micro-cores.
    cpu : (B, 3) int64
        Micro-cores without work, more of them with all of it, and that work.
    allowed : (B, 3) float64
        The largest load within the limit.
    always_over : (B,) uint8
        Over another limit, whatever fails.
    """

    cdef limits_t values
    cdef tuple held

    def __init__(
        self, const double[::1] slope, const double[::1] offset, const int64_t[:, ::1] capacity,
        const int64_t[:, ::1] cpu, const double[:, ::1] allowed, const uint8_t[::1] always_over,
    ):
        cdef Py_ssize_t at
        self.held = (slope, offset, capacity, cpu, allowed, always_over)
        self.values.n_brokers = capacity.shape[0]
        self.values.n_blocks = slope.shape[0] // BLOCK_NUMBERS
        if not self.values.n_brokers:
            return
        self.values.slope, self.values.offset = &slope[0], &offset[0]
        self.values.capacity, self.values.cpu = &capacity[0, 0], &cpu[0, 0]
        self.values.allowed, self.values.always_over = &allowed[0, 0], &always_over[0]
        for at in range(capacity.shape[0]):
            if capacity[at, CPU] > 0:
                self.values.rounding = max(self.values.rounding, 1.0 / capacity[at, CPU])

    @property
    def cpu(self):
        """(B, 3) int64, as it was given."""
        return np.asarray(self.held[3])

    def __reduce__(self):
        return Limits, tuple(map(np.asarray, self.held))


cdef void measure(
    const limits_t* limits, const int32_t* down, int n_down, int words, double* load,
    double* peaks, int32_t* fullest, int64_t* most, int64_t* over
) noexcept nogil:
    """The highest utilisation of each resource, and who is over limits; brokers that are down
    count no more.
    """
    cdef int i, c
    for i in range(n_down):
        for c in range(CHANNELS):
            load[CHANNELS * down[i] + c] = -INFINITY
    kfast_peaks(words, load, limits.slope, limits.offset, limits.n_blocks, peaks)
    for c in range(RESOURCES):
        find_fullest(c, load, peaks, limits, &fullest[c], &most[c])
    count_over(load, limits, fullest, over)


def measure_loads(
    Limits limits not None,
    const int32_t[::1] down,   # IN              broker rows that are down
    int words,                 # IN              width of vectors
    double[::1] load,          # IN OUT  (4 b,)  what brokers carry; afterwards, of those not down
    measured,                  # IN OUT          `Measured`
    Py_ssize_t scenario,       # IN              its place there
):
    """Find the highest utilisation of each resource, and who is over limits."""
    cdef int32_t[:, ::1] fullest = measured.fullest
    cdef int64_t[:, ::1] most = measured.most
    cdef int64_t[:, ::1] over = measured.over
    cdef const int32_t* rows = &down[0] if down.shape[0] else NULL
    cdef double[::1] peaks = np.empty(load.shape[0] // BLOCK_BROKERS + 1)
    measure(
        &limits.values, rows, <int> down.shape[0], words, &load[0], &peaks[0],
        &fullest[scenario, 0], &most[scenario, 0], &over[scenario, 0],
    )


# Terms of no and one failed broker.
cdef struct singles_t:
    const double* values           # (B, 4 b)
    const int64_t* scalars         # (B, 6)
    const double* base             # (4 b,)
    const int64_t* base_scalars    # (6,)
    int64_t n                      # 4 b


cdef singles_t singles_of(terms) except *:
    """The first terms of a `FailureTerms`, which holds the memory."""
    cdef const double[:, :, ::1] values = terms.values
    cdef const int64_t[:, ::1] scalars = terms.scalars
    cdef const double[::1] base = terms.base
    cdef const int64_t[::1] base_scalars = terms.base_scalars
    cdef singles_t singles
    singles.values, singles.scalars = &values[0, 0, 0], &scalars[0, 0]
    singles.base, singles.base_scalars = &base[0], &base_scalars[0]
    singles.n = base.shape[0]
    return singles


cdef void add_up(
    const singles_t* singles, Levels levels, const int32_t* down, int n_down, bint begins_as_before,
    int words, double* begun, double* load, int64_t* scalars
) noexcept nogil:
    """Add the terms of all subsets of one scenario's brokers.

    `begun` keeps the sum of the first broker, which scenarios that follow one another share.
    """
    cdef int64_t n = singles.n
    cdef int64_t pair
    cdef int j, c
    if not begins_as_before:
        kfast_add(words, begun, singles.base, singles.values + down[0] * n, n)
    if n_down == 1:
        memcpy(load, begun, n * sizeof(double))
    for c in range(SCALARS):
        scalars[c] = singles.base_scalars[c] + singles.scalars[SCALARS * down[0] + c]
    for j in range(1, n_down):
        kfast_add(words, load, begun if j == 1 else load, singles.values + down[j] * n, n)
        for c in range(SCALARS):
            scalars[c] += singles.scalars[SCALARS * down[j] + c]
    if not levels.n:
        return
    for j in range(n_down):
        for c in range(j + 1, n_down):
            pair = pair_number(down[j], down[c], levels.n_brokers)
            add_terms(&levels.level[0], pair, load, scalars)
            add_deeper(levels, 1, pair, down + c + 1, n_down - c - 1, load, scalars)


def sweep_terms(
    terms,                             # IN              `FailureTerms`
    Levels levels not None,            # IN              terms of two and more failed brokers
    Limits limits not None,
    const int64_t[::1] offsets,        # IN      (n+1,)  where each scenario begins
    const int32_t[::1] down,           # IN      (d,)    broker rows, ascending in a scenario; at
                                       #                 least one in each
    int words,                         # IN              width of vectors
    measured,                          # IN OUT          `Measured`
):
    """Add up the terms of every scenario, and find the highest utilisation of each resource.

    Estimates in float64 find the brokers that may be highest; integers decide among them, the
    lowest row of equals.
    """
    cdef singles_t singles = singles_of(terms)
    cdef int32_t[:, ::1] fullest = measured.fullest
    cdef int64_t[:, ::1] most = measured.most
    cdef int64_t[:, ::1] over = measured.over
    cdef int64_t[:, ::1] scalars = measured.scalars
    cdef double[:, ::1] load = np.empty((2, singles.n))
    cdef double[::1] peaks = np.empty(singles.n // BLOCK_BROKERS)
    cdef Py_ssize_t s
    cdef const int32_t* rows
    cdef int n_down
    with nogil:
        for s in range(offsets.shape[0] - 1):
            rows = &down[offsets[s]]
            n_down = <int> (offsets[s + 1] - offsets[s])
            add_up(
                &singles, levels, rows, n_down, s > 0 and rows[0] == down[offsets[s - 1]], words,
                &load[1, 0], &load[0, 0], &scalars[s, 0],
            )
            measure(
                &limits.values, rows, n_down, words, &load[0, 0], &peaks[0], &fullest[s, 0],
                &most[s, 0], &over[s, 0],
            )


def list_loads(
    terms,                             # IN                `FailureTerms`
    Levels levels not None,            # IN                terms of two and more failed brokers
    const int64_t[::1] offsets,        # IN      (n+1,)    as for `sweep_terms`
    const int32_t[::1] down,           # IN      (d,)
    int words,                         # IN                width of vectors
    const int64_t[::1] places,         # IN      (n,)      where each scenario stands in `loads`
    int64_t[:, :, ::1] loads,          # OUT     (m, B, 3) bytes in, bytes out and work
):
    """Add up the terms of every scenario; those that have failed still carry what they would."""
    cdef singles_t singles = singles_of(terms)
    cdef double[:, ::1] load = np.empty((2, singles.n))
    cdef int64_t[::1] scalars = np.empty(SCALARS, np.int64)
    cdef Py_ssize_t s, broker, c
    cdef const int32_t* rows
    with nogil:
        for s in range(offsets.shape[0] - 1):
            rows = &down[offsets[s]]
            add_up(
                &singles, levels, rows, <int> (offsets[s + 1] - offsets[s]),
                s > 0 and rows[0] == down[offsets[s - 1]], words, &load[1, 0], &load[0, 0],
                &scalars[0],
            )
            for broker in range(loads.shape[1]):
                for c in range(RESOURCES):
                    loads[places[s], broker, c] = <int64_t> load[0, CHANNELS * broker + c]


def use_resources(
    Limits limits not None,
    const int64_t[::1] offsets,        # IN      (n+1,)    where each scenario begins
    const int32_t[::1] down,           # IN      (d,)      broker rows
    int64_t[:, :, ::1] loads,          # IN OUT  (n, B, 3) bytes in, bytes out, and work;
                                       #                   afterwards micro-cores instead of work
):
    """Convert the work of every broker to micro-cores; one that has failed uses nothing."""
    cdef Py_ssize_t s, broker, t, c
    with nogil:
        for s in range(loads.shape[0]):
            for broker in range(loads.shape[1]):
                loads[s, broker, CPU] = micro_cores(
                    loads[s, broker, CPU], &limits.values.cpu[RESOURCES * broker]
                )
            for t in range(offsets[s], offsets[s + 1]):
                for c in range(RESOURCES):
                    loads[s, down[t], c] = 0


def add_statistics(
    const int64_t[:, :, ::1] loads,    # IN      (n, B, 3)    as `use_resources` leaves them
    const uint8_t[:, ::1] up,          # IN      (n, B)       1 where a broker is up
    int64_t first,                     # IN                   number of the first scenario
    statistics,                        # IN OUT               `Statistics`
):
    """Add up what every broker uses in the scenarios in which it is up, and find the extremes."""
    cdef int64_t[::1] scenarios = statistics.scenarios
    cdef int64_t[:, :, ::1] total = statistics.total
    cdef int64_t[:, ::1] least = statistics.least
    cdef int64_t[:, ::1] most = statistics.most
    cdef int64_t[:, ::1] most_scenario = statistics.most_scenario
    cdef Py_ssize_t s, broker, c
    cdef int64_t load
    with nogil:
        for s in range(loads.shape[0]):
            for broker in range(loads.shape[1]):
                if not up[s, broker]:
                    continue
                scenarios[broker] += 1
                for c in range(RESOURCES):
                    load = loads[s, broker, c]
                    total[broker, c, 0] += load >> 32
                    total[broker, c, 1] += load & <int64_t> 0xFFFFFFFF
                    least[broker, c] = min(least[broker, c], load)
                    if load > most[broker, c]:
                        most[broker, c] = load
                        most_scenario[broker, c] = first + s


def count_bins(
    const int64_t[:, :, ::1] loads,    # IN      (n, B, 3)
    const uint8_t[:, ::1] up,          # IN      (n, B)
    const int64_t[:, :, ::1] low,      # IN      (B, 3, q)    where the first bin begins
    const int64_t[:, :, ::1] shift,    # IN      (B, 3, q)    a bin is 2 to this wide
    int64_t[:, :, :, ::1] counts,      # IN OUT  (B, 3, q, bins)
):
    """Count the scenarios by what a broker uses; what is in no bin is not counted."""
    cdef Py_ssize_t s, broker, c, q
    cdef int64_t above
    with nogil:
        # Broker by broker, so that the bins of one stay in the cache.
        for broker in range(loads.shape[1]):
            for s in range(loads.shape[0]):
                if not up[s, broker]:
                    continue
                for c in range(RESOURCES):
                    for q in range(low.shape[2]):
                        above = loads[s, broker, c] - low[broker, c, q]
                        if above >= 0 and above >> shift[broker, c, q] < counts.shape[3]:
                            counts[broker, c, q, above >> shift[broker, c, q]] += 1


cdef void find_fullest(
    int resource, const double* load, const double* peaks, const limits_t* limits,
    int32_t* fullest, int64_t* most
) noexcept nogil:
    """The broker with the highest utilisation of a resource, and what it uses.

    An estimate of bytes is off by what float64 rounds; one of the processor also by the rounding of
    what two brokers use to whole micro-cores, half of one each.
    """
    cdef double highest = -1
    cdef int64_t block, at, broker, use
    for block in range(limits.n_blocks):
        highest = max(highest, peaks[CHANNELS * block + resource])
    fullest[0] = -1
    most[0] = 0
    if highest < 0:
        return
    highest *= NEARLY
    if resource == CPU:
        highest = max(highest - limits.rounding, 0)
    for block in range(limits.n_blocks):
        if peaks[CHANNELS * block + resource] < highest:
            continue
        for broker in range(block * BLOCK_BROKERS, (block + 1) * BLOCK_BROKERS):
            at = CHANNELS * broker + resource
            if not limits.offset[at] + load[at] * limits.slope[at] >= highest:
                continue
            use = used(load[at], resource, broker, limits.cpu)
            if fullest[0] < 0 or kfast_exceeds(
                use, limits.capacity[RESOURCES * broker + resource], most[0],
                limits.capacity[RESOURCES * fullest[0] + resource],
            ):
                fullest[0] = <int32_t> broker
                most[0] = use


cdef void count_over(
    const double* load, const limits_t* limits, const int32_t* fullest, int64_t* over
) noexcept nogil:
    """Brokers over their limits: where the fullest of a resource is not, none is."""
    cdef int64_t broker
    cdef int c
    cdef bint exceeded = False
    cdef bint exceeds
    for c in range(RESOURCES + 1):
        over[c] = 0
    for c in range(RESOURCES):
        if fullest[c] >= 0:
            exceeded |= (
                load[CHANNELS * fullest[c] + c] > limits.allowed[RESOURCES * fullest[c] + c]
            )
    for broker in range(limits.n_brokers if exceeded else 0):
        exceeds = False
        for c in range(RESOURCES):
            if load[CHANNELS * broker + c] > limits.allowed[RESOURCES * broker + c]:
                over[c] += 1
                exceeds = True
        over[RESOURCES] += exceeds and not limits.always_over[broker]
