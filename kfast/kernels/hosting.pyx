"""Which partitions a broker hosts, and which slot it has there.

The hosting index lists, per broker, the rows that track it. Its entries are hints: every look-up
checks them against the replica matrix. Two bitmaps over partitions answer what Kafka defines over
the whole cluster.

Source: docs/controller.md, section 1.5.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.slots cimport (
    AHEAD,
    Liveness,
    NO_SLOT,
    TOPIC_QUEUED,
    chosen_slots,
    first_slots,
    kfast_lowest,
    liveness_of,
    prefetch_all,
    refresh_leader,
    row_at,
    row_t,
    share_start,
    slot_of,
)


def select_slots(
    columns_t columns,
    const uint8_t[::1] chosen,      # IN      (B,)    1: a broker to look for
    const int32_t[::1] candidates,  # IN      (n,)    partition rows to look at, ascending
    bint assigned_only,             # only assigned replicas count
    bint refresh,                   # bring the bitmap up to date on the way
    int32_t[::1] rows,              # OUT     (n,)    rows that have one of the brokers
    uint64_t[::1] slots,            # OUT     (n,)    its slots there
):
    """Find the slots of some brokers; returns how many rows have one.

    With `refresh`, the leaders of the candidates are looked at too, as after a change of liveness.
    """
    if refresh:
        columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t n_candidates = candidates.shape[0]
    cdef uint64_t chosen_here
    with nogil:
        for i in range(n_candidates):
            if i + AHEAD < n_candidates:
                prefetch_all(first, candidates[i + AHEAD])
            row = row_at(first, candidates[i])
            if refresh:
                refresh_leader(row)
            chosen_here = chosen_slots(
                row, &chosen[0], row.record.n_replicas if assigned_only else row.record.n_slots
            )
            if chosen_here:
                rows[n] = <int32_t> row.index
                slots[n] = chosen_here
                n += 1
    return n


def find_tracking(
    columns_t columns,
    const uint8_t[::1] chosen,  # IN   (B,)    1: a broker to look for
    int32_t[::1] rows,          # OUT  (n,)    rows that track one of them, ascending
):
    """Find the rows that track some brokers by looking at all rows; returns how many there are.

    Where that is more than there is room for, only the first n are listed.
    """
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t room = rows.shape[0]
    cdef bint tracked
    with nogil:
        for i in range(first.n_rows):
            row = row_at(first, i)
            if row.record.n_slots == 3:
                # What nearly every partition has, without a loop.
                tracked = chosen_slots(row, &chosen[0], 3) != 0
            else:
                tracked = chosen_slots(row, &chosen[0], row.record.n_slots) != 0
            if tracked:
                if n < room:
                    rows[n] = <int32_t> i
                n += 1
    return n


def mark_rows(
    const int32_t[::1] rows,  # IN      (n,)    partition rows
    uint64_t[::1] bits,       # IN OUT  bitmap
):
    """Set the bits of some rows."""
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            bits[rows[i] >> 6] |= (<uint64_t> 1) << (rows[i] & 63)


def list_marked(
    const uint64_t[::1] bits,         # IN   bitmap
    const int32_t[::1] topic_row,     # IN   (P,)  row of the topic
    const uint8_t[::1] topic_flags,   # IN   (T,)  queued, ...
    bint any_queued,                  # leave out the partitions of queued topics
    int32_t[::1] rows,                # OUT  (n,)  rows whose bit is set, ascending
):
    """List the rows whose bit is set; returns how many there are.

    Where that is more than there is room for, only the first n are listed.
    """
    cdef Py_ssize_t word, row
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t room = rows.shape[0]
    cdef uint64_t left
    with nogil:
        for word in range(bits.shape[0]):
            left = bits[word]
            while left:
                row = 64 * word + kfast_lowest(left)
                left &= left - 1
                if any_queued and topic_flags[topic_row[row]] & TOPIC_QUEUED:
                    continue
                if n < room:
                    rows[n] = <int32_t> row
                n += 1
    return n


def list_groups(
    columns_t columns,
    const int32_t[::1] rows,    # IN      (n,)    partition rows to look at
    const uint64_t[::1] slots,  # IN      (n,)    slots to look at; or (0,): those assigned
    uint8_t[::1] sought,        # IN OUT  (B,)    1: a broker to look for; 0 once found
    int32_t[::1] brokers,       # OUT     (B,)    those that have a slot
):
    """List the brokers that have replicas in some slots; returns how many.

    Nothing more is looked at when all that are sought are found, as mostly after a few rows.
    """
    first = columns.first
    cdef Py_ssize_t i, b
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t left = 0
    cdef uint64_t mask
    cdef int32_t broker
    with nogil:
        for b in range(sought.shape[0]):
            left += sought[b]
        for i in range(rows.shape[0]):
            if not left:
                break
            row = row_at(first, rows[i])
            mask = slots[i] if slots.shape[0] else first_slots(row.record.n_replicas)
            while mask:
                broker = <int32_t> row.brokers[kfast_lowest(mask)]
                mask &= mask - 1
                if sought[broker]:
                    sought[broker] = 0
                    brokers[n] = broker
                    n += 1
                    left -= 1
    return n


def merge_waiting(
    const int32_t[::1] rows,           # IN   (n,)    partition rows, ascending, each once
    const uint64_t[::1] leader_offline,  # IN  bitmap  partitions with an offline leader
    const uint64_t[::1] pending,       # IN   bitmap  partitions New or Offline
    int32_t[::1] merged,               # OUT  (m,)    all of them, ascending, each once
):
    """List some rows together with those that have no live leader or wait for one.

    Returns how many there are. Where that is more than there is room for, only the first m are
    listed. The bitmaps are read once, eight words at a time where all are empty.
    """
    cdef Py_ssize_t words = pending.shape[0]
    cdef Py_ssize_t room = merged.shape[0]
    cdef Py_ssize_t n_rows = rows.shape[0]
    cdef Py_ssize_t word = 0
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t row
    cdef uint64_t left
    cdef int k
    with nogil:
        while word < words:
            if word + 8 <= words:
                left = 0
                for k in range(8):
                    left |= leader_offline[word + k] | pending[word + k]
                if not left:
                    word += 8
                    continue
            left = leader_offline[word] | pending[word]
            while left:
                row = 64 * word + kfast_lowest(left)
                left &= left - 1
                while i < n_rows and rows[i] < row:
                    if n < room:
                        merged[n] = rows[i]
                    n += 1
                    i += 1
                if i < n_rows and rows[i] == row:
                    i += 1
                if n < room:
                    merged[n] = <int32_t> row
                n += 1
            word += 1
        while i < n_rows:
            if n < room:
                merged[n] = rows[i]
            n += 1
            i += 1
    return n


cdef inline Py_ssize_t list_share(
    row_t first, int width, const uint8_t* chosen, Py_ssize_t n_brokers, Py_ssize_t begin,
    Py_ssize_t end, int32_t* rows
) noexcept nogil:
    """`list_concerned` for some rows, of which the first begins a word of the bitmaps."""
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef uint64_t waiting = 0
    cdef uint8_t hit
    cdef int s
    first.width = width
    for i in range(begin, end):
        row = row_at(first, i)
        if not i & 63:
            waiting = row.leader_offline[i >> 6] | row.pending[i >> 6]
        hit = waiting & 1
        waiting >>= 1
        for s in range(width):
            hit |= chosen[min(<Py_ssize_t> <uint32_t> row.brokers[s], n_brokers)]
        # Nobody can predict which rows are hit: each is written, and the next one over it if not.
        rows[n] = <int32_t> i
        n += hit
    return n


def list_concerned(
    columns_t columns,
    const uint8_t[::1] chosen,  # IN   (B+1,)  1: a broker to look for; 0 for an empty slot
    int32_t[::1] rows,          # OUT  (P,)    rows that track one or wait, ascending
    int threads,
):
    """List the rows that track some brokers, have no live leader or wait for one.

    Reads all rows, in order, which is faster than the hosting index where many are concerned.
    Returns how many there are.
    """
    columns.check_bitmaps()
    cdef Py_ssize_t size = columns.first.n_rows
    cdef Py_ssize_t n_brokers = chosen.shape[0] - 1
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t begin[65]
    cdef Py_ssize_t listed[64]
    cdef int width = <int> columns.first.width
    cdef int t
    if not size:
        return 0
    for t in range(threads + 1):
        begin[t] = share_start(size, t, threads)
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        # A number that the compiler knows: the loop over slots becomes straight code.
        if width == 3:
            listed[t] = list_share(columns.first, 3, &chosen[0], n_brokers, begin[t],
                                   begin[t + 1], &rows[0] + begin[t])
        else:
            listed[t] = list_share(columns.first, width, &chosen[0], n_brokers, begin[t],
                                   begin[t + 1], &rows[0] + begin[t])
    for t in range(threads):
        memmove(&rows[0] + n, &rows[0] + begin[t], listed[t] * sizeof(int32_t))
        n += listed[t]
    return n


def refresh_leader_offline(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)    rows to look at
):
    """Bring the bitmap of offline leaders up to date after liveness changed."""
    columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            refresh_leader(row_at(first, rows[i]))


def track(
    columns_t columns,
    const int32_t[::1] rows,     # IN      (n,)    partition rows
    const int32_t[::1] brokers,  # IN      (n,)    broker rows, not negative
    int32_t[::1] slots,          # OUT     (n,)    slot of each
):
    """Give each broker a slot of its row, unless it has one.

    Returns how many were served; fewer than n means that the next row has no free slot.
    """
    columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    cdef int slot
    for i in range(rows.shape[0]):
        row = row_at(first, rows[i])
        slot = slot_of(row.brokers, row.record.n_slots, brokers[i])
        if slot == NO_SLOT:
            if row.record.n_slots == first.width:
                return i
            slot = row.record.n_slots
            row.brokers[slot] = brokers[i]
            row.record.n_slots += 1
        slots[i] = slot
    return rows.shape[0]


def find_slots(
    columns_t columns,
    const int32_t[::1] rows,     # IN   (n,)    partition rows
    const int32_t[::1] brokers,  # IN   (n,)    broker rows
    int32_t[::1] slots,          # OUT  (n,)    slot of each; -1: not tracked
):
    """Find the slot of one broker per row."""
    first = columns.first
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        row = row_at(first, rows[i])
        slots[i] = slot_of(row.brokers, row.record.n_slots, brokers[i])


def live_slots(
    columns_t columns,
    const int32_t[::1] rows,  # IN   (n,)    partition rows
    uint64_t[::1] live,       # OUT  (n,)    slots that are online
    uint64_t[::1] up,         # OUT  (n,)    the same, shutting-down brokers included
):
    """Which slots of some rows are online. Source: section 1.5."""
    first = columns.first
    cdef Py_ssize_t i
    cdef Liveness seen
    with nogil:
        for i in range(rows.shape[0]):
            seen = liveness_of(row_at(first, rows[i]))
            live[i] = seen.live
            up[i] = seen.up
