"""Sweeps of few brokers among many: only the partitions that they host are looked at.

What becomes of a partition depends on which of its brokers are down, so a table per shape, made by
the dense kernel, says what each such set changes. A partition that several brokers of a scenario
host is counted with the first of them in its sequence.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    COUNTS = 8
    GROUP_SHIFT = 40


def count_hosts(
    const int64_t[:, ::1] groups,    # IN      (G, F)  shapes: see `sweep.h`
    const int32_t[::1] sequences,    # IN              sequences, shape by shape
    int64_t[::1] hosted,             # IN OUT  (B+1,)  partitions that each broker hosts
):
    """Count the partitions that each live broker hosts."""
    cdef Py_ssize_t g, at
    with nogil:
        for g in range(groups.shape[0]):
            for at in range(groups[g, 8], groups[g, 8] + groups[g, 6] * groups[g, 7]):
                hosted[sequences[at]] += 1


def list_hosts(
    const int64_t[:, ::1] groups,    # IN      (G, F)  shapes: see `sweep.h`
    const int32_t[::1] sequences,    # IN              sequences, shape by shape
    int64_t[::1] place,              # IN OUT  (B+1,)  where each broker's next entry goes
    int64_t[::1] entries,            # OUT     (m,)    shape and place of the sequence
):
    """List the partitions of each live broker."""
    cdef Py_ssize_t g, at
    cdef int i, width
    cdef int64_t entry
    with nogil:
        for g in range(groups.shape[0]):
            width = <int> groups[g, 6]
            at = groups[g, 8]
            for _ in range(groups[g, 7]):
                entry = (<int64_t> g << GROUP_SHIFT) | at
                for i in range(width):
                    entries[place[sequences[at + i]]] = entry
                    place[sequences[at + i]] += 1
                at += width


cdef inline int down_mask(
    const int32_t* sequence, int width, const uint8_t* is_down
) noexcept nogil:
    cdef int mask = 0
    cdef int i
    for i in range(width):
        mask |= <int> is_down[sequence[i]] << i
    return mask


cdef inline int lowest(int mask) noexcept nogil:
    cdef int i = 0
    while not (mask >> i) & 1:
        i += 1
    return i


def count_sparse(
    hosting,                           # IN             `Hosting`: see below
    const int64_t[::1] offsets,        # IN      (n+1,) where each scenario begins
    const int32_t[::1] down,           # IN      (d,)   broker rows that fail
    uint8_t[::1] is_down,              # IN OUT  (B+1,) scratch, all 0
    int64_t[:, ::1] counts,            # IN OUT  (7, n) added to
):
    """Count every scenario over the partitions that its brokers host.

    `hosting` has the sequences, shape by shape, and their width per shape; where the entries of
    each broker begin, and the entries: shape and place of the sequence; where the table of each
    shape begins, and what each set of down brokers changes; counts where nothing fails (`quiet`)
    and where something else fails (`base`).
    """
    cdef const int32_t[::1] sequences = hosting.sequences
    cdef const int64_t[::1] width = hosting.width
    cdef const int64_t[::1] begin = hosting.begin
    cdef const int64_t[::1] entries = hosting.entries
    cdef const int64_t[::1] table_begin = hosting.table_begin
    cdef const int32_t[:, ::1] table = hosting.table
    cdef const int64_t[::1] quiet = hosting.quiet
    cdef const int64_t[::1] base = hosting.base
    cdef Py_ssize_t i, at, e
    cdef int64_t place, g
    cdef int32_t changed[COUNTS]
    cdef int mask, m
    with nogil:
        for i in range(offsets.shape[0] - 1):
            if offsets[i] == offsets[i + 1]:
                for m in range(COUNTS - 1):
                    counts[m, i] += quiet[m]
                continue
            for m in range(COUNTS):
                changed[m] = 0
            for at in range(offsets[i], offsets[i + 1]):
                is_down[down[at]] = 1
            for at in range(offsets[i], offsets[i + 1]):
                for e in range(begin[down[at]], begin[down[at] + 1]):
                    g = entries[e] >> GROUP_SHIFT
                    place = entries[e] & ((<int64_t> 1 << GROUP_SHIFT) - 1)
                    mask = down_mask(&sequences[place], <int> width[g], &is_down[0])
                    if sequences[place + lowest(mask)] == down[at]:
                        for m in range(COUNTS):
                            changed[m] += table[table_begin[g] + mask, m]
            for at in range(offsets[i], offsets[i + 1]):
                is_down[down[at]] = 0
            for m in range(COUNTS - 1):
                counts[m, i] += base[m] + changed[m]
