"""When brokers take the operations of a KRaft controller, and how many changes each take has.

A busy broker takes all operations that are committed meanwhile, i to j, at once. Each change of a
partition counts in the takes of a rectangle of (i, j); a table is a sum of such rectangles, made
from their corners.

Source: docs/timeline.md, section "KRaft".
"""

from libc.stdint cimport int32_t, int64_t


def add_rectangles(
    const int64_t[:, ::1] rectangles,   # IN      (4, n)  first i, end of i, first j, end of j
    const int64_t[::1] brokers,         # IN      (n,)    broker rows; below 0: left out
    int32_t[:, :, ::1] corners,         # IN OUT  (N, K + 1, K + 1)
):
    """Add 1 in every rectangle of its broker; empty ones are left out."""
    cdef Py_ssize_t at
    cdef int64_t i, i_end, j, j_end, broker
    with nogil:
        for at in range(brokers.shape[0]):
            broker = brokers[at]
            i, i_end = rectangles[0, at], rectangles[1, at]
            j, j_end = rectangles[2, at], rectangles[3, at]
            if broker < 0 or i >= i_end or j >= j_end:
                continue
            corners[broker, i, j] += 1
            corners[broker, i_end, j] -= 1
            corners[broker, i, j_end] -= 1
            corners[broker, i_end, j_end] += 1


def sum_corners(
    int32_t[:, :, ::1] table,           # IN OUT  (N, K + 1, K + 1)
):
    """Make counts of corners: the sum over all that stand before, in both directions."""
    cdef Py_ssize_t broker, i, j
    with nogil:
        for broker in range(table.shape[0]):
            for i in range(table.shape[1]):
                for j in range(1, table.shape[2]):
                    table[broker, i, j] += table[broker, i, j - 1]
                if i:
                    for j in range(table.shape[2]):
                        table[broker, i, j] += table[broker, i - 1, j]


def take(
    const int32_t[:, :, :, ::1] counts,   # IN   (3, N, K + 1, K + 1)  leads, leads on, follows
    const int32_t[:, ::1] meta,           # IN   (K + 1, K + 1)  partitions that change anywhere
    const int64_t[::1] live,              # IN   (L,)     broker rows
    const int64_t[:, ::1] arrivals,       # IN   (S, K)   us, ascending
    const int64_t[:, ::1] costs,          # IN   (S, 5)   fixed us; ns: image, leads, on, follows
    int64_t[:, :, ::1] visible,           # OUT  (S, K, L)  when a broker shows each operation
    int64_t[:, ::1] takes,                # OUT  (R, 7)   sample, broker, i, j, begin, visible, end
):
    """Let every broker take what has arrived, again and again; return how many takes there are.

    As many of them as there is place for are listed, sample after sample.
    """
    cdef Py_ssize_t s, at, n = 0
    cdef Py_ssize_t n_events = arrivals.shape[1]
    cdef int64_t i, j, event, broker, begin, shown, end
    with nogil:
        for s in range(arrivals.shape[0]):
            for at in range(live.shape[0]):
                broker = live[at]
                i = end = 0
                while i < n_events:
                    begin = max(end, arrivals[s, i])
                    j = i
                    while j + 1 < n_events and arrivals[s, j + 1] <= begin:
                        j += 1
                    shown = begin + costs[s, 0] + (meta[i, j] * costs[s, 1] + 999) // 1000
                    end = shown + (
                        counts[0, broker, i, j] * costs[s, 2]
                        + counts[1, broker, i, j] * costs[s, 3]
                        + counts[2, broker, i, j] * costs[s, 4] + 999
                    ) // 1000
                    for event in range(i, j + 1):
                        visible[s, event, at] = shown
                    if n < takes.shape[0]:
                        takes[n, 0], takes[n, 1], takes[n, 2], takes[n, 3] = s, broker, i, j
                        takes[n, 4], takes[n, 5], takes[n, 6] = begin, shown, end
                    n += 1
                    i = j + 1
    return n
