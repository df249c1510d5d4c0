"""Random scenarios: which brokers, or groups of them, fail together.

Every number is a function of (seed, scenario, place): Philox4x32 with ten rounds, keyed by the
seed, counting scenarios and places. So a scenario is the same whoever draws it, in any slice.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
Floyd's sampling: Bentley, Floyd, "A sample of brilliance", CACM 1987; Lemire, "Fast random integer
generation in an interval", TOMACS 2019.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef struct Stream:
    uint64_t seed
    uint64_t scenario
    uint32_t use
    uint32_t block
    uint32_t words[4]
    int left


cdef inline void philox(
    uint64_t seed, uint64_t scenario, uint32_t use, uint32_t block, uint32_t* words
) noexcept nogil:
    """Four random words of one counter."""
    cdef uint32_t a = <uint32_t> scenario
    cdef uint32_t b = <uint32_t> (scenario >> 32)
    cdef uint32_t c = block
    cdef uint32_t d = use
    cdef uint32_t key = <uint32_t> seed
    cdef uint32_t other_key = <uint32_t> (seed >> 32)
    cdef uint64_t left, right
    for _ in range(10):
        left = <uint64_t> 0xD2511F53 * a
        right = <uint64_t> 0xCD9E8D57 * c
        a = <uint32_t> (right >> 32) ^ b ^ key
        b = <uint32_t> right
        c = <uint32_t> (left >> 32) ^ d ^ other_key
        d = <uint32_t> left
        key += <uint32_t> 0x9E3779B9
        other_key += <uint32_t> 0xBB67AE85
    words[0] = a
    words[1] = b
    words[2] = c
    words[3] = d


def philox_block(uint64_t seed, uint64_t scenario, uint32_t use, uint32_t block):
    """Four random words of one counter, for comparison with published vectors."""
    cdef uint32_t words[4]
    philox(seed, scenario, use, block, words)
    return words[0], words[1], words[2], words[3]


cdef inline uint32_t next_word(Stream* stream) noexcept nogil:
    if stream.left == 0:
        philox(stream.seed, stream.scenario, stream.use, stream.block, stream.words)
        stream.block += 1
        stream.left = 4
    stream.left -= 1
    return stream.words[3 - stream.left]


cdef inline Stream stream_of(uint64_t seed, int64_t scenario, uint32_t use) noexcept nogil:
    cdef Stream stream
    stream.seed = seed
    stream.scenario = <uint64_t> scenario
    stream.use = use
    stream.block = 0
    stream.left = 0
    stream.words[0] = stream.words[1] = stream.words[2] = stream.words[3] = 0
    return stream


cdef inline uint32_t below(Stream* stream, uint32_t bound) noexcept nogil:
    """A number from 0 to bound - 1, each with exactly the same probability."""
    cdef uint64_t product = <uint64_t> next_word(stream) * bound
    cdef uint32_t low = <uint32_t> product
    cdef uint32_t least
    if low < bound:
        least = (<uint32_t> 0 - bound) % bound
        while low < least:
            product = <uint64_t> next_word(stream) * bound
            low = <uint32_t> product
    return <uint32_t> (product >> 32)


cdef inline void sample(
    Stream* stream, int32_t k, const int32_t* items, int32_t n, uint8_t* taken, int32_t* chosen
) noexcept nogil:
    """Exactly k of n items, every set with the same probability; `taken` is all 0 again."""
    cdef int32_t i, at
    cdef int32_t found = 0
    for i in range(n - k, n):
        at = <int32_t> below(stream, <uint32_t> i + 1)
        if taken[at]:
            at = i
        taken[at] = 1
        chosen[found] = at
        found += 1
    for i in range(k):
        taken[chosen[i]] = 0
        chosen[i] = items[chosen[i]]


def sample_brokers(
    uint64_t seed,
    int64_t first,             # number of the first scenario
    const int32_t[::1] items,  # IN   (n,)    broker rows to choose from
    uint8_t[::1] taken,        # IN OUT (n,)  scratch, all 0
    int32_t[:, ::1] chosen,    # OUT  (m, k)  broker rows that fail in each scenario
):
    """Draw k of n brokers for each of m scenarios, without replacement."""
    cdef Py_ssize_t i
    cdef Stream stream
    cdef int32_t k = <int32_t> chosen.shape[1]
    with nogil:
        for i in range(chosen.shape[0] if k else 0):
            stream = stream_of(seed, first + i, 0)
            sample(&stream, k, &items[0], <int32_t> items.shape[0], &taken[0], &chosen[i, 0])


def draw_independent(
    uint64_t seed,
    int64_t first,              # number of the first scenario
    uint64_t threshold,         # a group fails where a random number of 64 bits is below this
    bint certain,               # every group fails
    const int64_t[::1] begin,   # IN   (g+1,)  where each group begins among its members
    const int32_t[::1] member,  # IN   (n,)    broker rows, group by group
    int64_t[::1] offsets,       # IN OUT (m+1,)  [0] is given; where each scenario ends
    int32_t[::1] rows,          # OUT  (r,)    broker rows that fail
):
    """Let each group of brokers fail with the same probability, whatever the others do.

    Returns how many scenarios are done: all, or as many as `rows` had room for.
    """
    cdef Py_ssize_t i, g, at
    cdef int64_t end = offsets[0]
    cdef Py_ssize_t done = 0
    cdef Py_ssize_t n_groups = begin.shape[0] - 1
    cdef uint32_t high = <uint32_t> (threshold >> 32)
    cdef uint32_t low = <uint32_t> threshold
    cdef uint32_t word
    cdef uint32_t words[4]
    cdef Stream stream
    cdef bint fails
    with nogil:
        for i in range(offsets.shape[0] - 1):
            if end + member.shape[0] > rows.shape[0]:
                break
            stream = stream_of(seed, first + i, 0)
            for g in range(n_groups):
                word = next_word(&stream)
                fails = certain or word < high
                if word == high and not certain:
                    philox(seed, <uint64_t> (first + i), 1, <uint32_t> g, words)
                    fails = words[0] < low
                if fails:
                    for at in range(begin[g], begin[g + 1]):
                        rows[end] = member[at]
                        end += 1
            offsets[i + 1] = end
            done += 1
    return done


def draw_bursts(
    uint64_t seed,
    int64_t first,              # number of the first scenario
    const int64_t[::1] begin,   # IN   (g+1,)  where each group begins among its members
    const int32_t[::1] member,  # IN   (n,)    broker rows, group by group
    const int32_t[::1] failing,  # IN  (g,)    how many of each group fail together
    uint8_t[::1] taken,         # IN OUT (n,)  scratch, all 0
    int64_t[::1] offsets,       # OUT  (m+1,)  where each scenario begins
    int32_t[::1] rows,          # OUT  (r,)    broker rows that fail; room for the largest groups
):
    """Choose a group for each scenario, and some of its members: all with the same probability."""
    cdef Py_ssize_t i
    cdef int64_t end = 0
    cdef int32_t n
    cdef uint32_t g
    cdef Stream stream
    with nogil:
        offsets[0] = 0
        for i in range(offsets.shape[0] - 1):
            stream = stream_of(seed, first + i, 0)
            g = below(&stream, <uint32_t> failing.shape[0])
            n = <int32_t> (begin[g + 1] - begin[g])
            sample(&stream, failing[g], &member[begin[g]], n, &taken[0], &rows[end])
            end += failing[g]
            offsets[i + 1] = end
