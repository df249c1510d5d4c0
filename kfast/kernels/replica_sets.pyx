"""Partitions as sets of brokers: the live members of each ISR, and the distinct sets among them.

A question about brokers that fail or restart together sees a partition only as the set of brokers
that keep it alive and as how many of them it needs. Many partitions have the same.

Source: docs/controller.md, section 1.5; Kafka 3.9, `ReplicaManager`'s gauges of min ISR.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.min_isr cimport needed_in_sync
from kfast.kernels.slots cimport (
    FLAG_ASSIGNED,
    broker_t,
    first_slots,
    kfast_count,
    kfast_lowest,
    liveness_of,
    row_at,
)
from kfast.kernels.splitmix cimport mix


def measure_isrs(
    columns_t columns,
    const int32_t[::1] min_isr,   # IN   (T,)    min.insync.replicas in force
    uint64_t[::1] live_isr,       # OUT  (P,)    slots of live ISR members
    uint64_t[::1] live_replicas,  # OUT  (P,)    slots of live assigned replicas
    uint8_t[::1] in_sync,         # OUT  (P,)    how many ISR members are live
    uint8_t[::1] needed,          # OUT  (P,)    min ISR, at most the assigned replicas
):
    """What keeps each partition alive; all is 0 for a partition without an assignment."""
    first = columns.first
    cdef Py_ssize_t i
    cdef uint64_t live
    cdef int32_t least
    with nogil:
        for i in range(first.n_rows):
            row = row_at(first, i)
            live_isr[i] = 0
            live_replicas[i] = 0
            in_sync[i] = 0
            needed[i] = 0
            if not row.record.flags & FLAG_ASSIGNED:
                continue
            live = liveness_of(row).live
            live_isr[i] = row.record.isr & live
            live_replicas[i] = live & first_slots(row.record.n_replicas)
            in_sync[i] = <uint8_t> kfast_count(live_isr[i])
            least = needed_in_sync(min_isr[row.topic_row[i]], row.record.n_replicas)
            needed[i] = <uint8_t> max(least, 0)


cdef inline uint64_t spread(uint64_t word) noexcept nogil:
    """The finishing steps of splitmix64: a bijection that spreads every bit."""
    return mix(word - <uint64_t> 0x9E3779B97F4A7C15)


cdef inline int list_members(
    const broker_t* brokers, uint64_t mask, int32_t* members
) noexcept nogil:
    """Broker rows of some slots, ascending; returns how many."""
    cdef int n = 0
    cdef int at
    cdef int32_t broker
    while mask:
        broker = <int32_t> brokers[kfast_lowest(mask)]
        mask &= mask - 1
        at = n
        while at > 0 and members[at - 1] > broker:
            members[at] = members[at - 1]
            at -= 1
        members[at] = broker
        n += 1
    return n


cdef inline bint is_same(
    const int32_t* members, int n, const int32_t* others, int64_t n_others
) noexcept nogil:
    cdef int i
    if n != n_others:
        return False
    for i in range(n):
        if members[i] != others[i]:
            return False
    return True


def group_sets(
    columns_t columns,
    const uint64_t[::1] masks,  # IN   (P,)    slots whose brokers are the row's set
    const uint8_t[::1] tags,    # IN   (P,)    sets with different tags are different
    uint64_t[::1] table,        # zeros; a power of two, at least 2 P
    int32_t[::1] set_of,        # OUT  (P,)    number of each row's set; -1: it is empty
    int64_t[::1] begin,         # OUT  (P+1,)  where the members of each set begin
    int32_t[::1] members,       # OUT  (m,)    broker rows of every set, ascending in each
    uint8_t[::1] tag_of,        # OUT  (P,)    tag of each set
):
    """Number the distinct sets in order of appearance; returns how many there are."""
    first = columns.first
    cdef Py_ssize_t at
    cdef uint64_t last = <uint64_t> table.shape[0] - 1
    cdef uint64_t key, entry, place
    cdef uint64_t high = <uint64_t> 0xFFFFFFFF00000000ULL
    cdef int64_t n_sets = 0
    cdef int64_t found
    cdef int32_t listed[64]
    cdef int n, i
    begin[0] = 0
    with nogil:
        for at in range(masks.shape[0]):
            if not masks[at]:
                set_of[at] = -1
                continue
            row = row_at(first, at)
            n = list_members(row.brokers, masks[at], listed)
            key = tags[at]
            for i in range(n):
                key = spread(key * <uint64_t> 0x9E3779B97F4A7C15ULL + <uint64_t> listed[i] + 1)
            place = key & last
            while True:
                entry = table[place]
                if not entry:
                    table[place] = (key & high) | <uint64_t> (n_sets + 1)
                    for i in range(n):
                        members[begin[n_sets] + i] = listed[i]
                    tag_of[n_sets] = tags[at]
                    set_of[at] = <int32_t> n_sets
                    n_sets += 1
                    begin[n_sets] = begin[n_sets - 1] + n
                    break
                if (entry & high) == (key & high):
                    found = <int64_t> (entry & ~high) - 1
                    if tag_of[found] == tags[at] and is_same(
                        listed, n, &members[begin[found]], begin[found + 1] - begin[found]
                    ):
                        set_of[at] = <int32_t> found
                        break
                place = (place + 1) & last
    return n_sets


def list_sets_of_brokers(
    const int64_t[::1] begin,      # IN      (G+1,)  where the members of each set begin
    const int32_t[::1] members,    # IN      (m,)    broker rows
    int64_t[::1] place,            # IN OUT  (B,)    where each broker's list goes on
    int32_t[::1] sets_of,          # OUT     (m,)    sets of each broker, ascending
):
    """Turn members per set into sets per member."""
    cdef Py_ssize_t number
    cdef int64_t i
    with nogil:
        for number in range(begin.shape[0] - 1):
            for i in range(begin[number], begin[number + 1]):
                sets_of[place[members[i]]] = <int32_t> number
                place[members[i]] += 1
