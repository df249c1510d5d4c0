"""The order in which one call takes the replicas of a partition: that of Kafka's broker groups.

Source: docs/controller.md, section 2.3, step 3; Kafka 3.9,
`ZkReplicaStateMachine.handleStateChanges`; Scala 2.13, immutable `HashMap`.
`kfast/broker_groups.py` ranks the brokers of a whole call.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.slots cimport broker_t, kfast_lowest, lowest_slot

cdef enum:
    BRANCH_BITS = 5
    LEVELS = 7


cdef inline int insert_slot(
    uint8_t* order, uint64_t* keys, int n, int slot, uint64_t key
) noexcept nogil:
    """Put a slot among n others that are in ascending order of their keys; returns n + 1."""
    cdef int at = n
    while at > 0 and keys[at - 1] > key:
        keys[at] = keys[at - 1]
        order[at] = order[at - 1]
        at -= 1
    keys[at] = key
    order[at] = <uint8_t> slot
    return n + 1


cdef inline int order_by_rank(
    const broker_t* brokers, uint64_t slots, const int32_t* rank, uint8_t* order
) noexcept nogil:
    """Slots in the order of their brokers' ranks; returns how many."""
    cdef uint64_t keys[64]
    cdef int n = 0
    cdef int slot
    while slots:
        slot = lowest_slot(slots)
        slots &= slots - 1
        n = insert_slot(order, keys, n, slot, <uint64_t> rank[brokers[slot]])
    return n


cdef inline int list_slots(uint64_t slots, uint8_t* order) noexcept nogil:
    """Slots in ascending order, where nothing shows in which they were taken; returns how many."""
    cdef int n = 0
    while slots:
        order[n] = <uint8_t> lowest_slot(slots)
        slots &= slots - 1
        n += 1
    return n


cdef inline uint64_t trie_key(const uint32_t* hashes, int n, int at) noexcept nogil:
    """A number that sorts one of n hashes as the trie of them is walked: single keys first."""
    cdef int depth = 0
    cdef int level, other
    cdef uint64_t key = 0
    for other in range(n):
        if other != at:
            depth = max(depth, kfast_lowest(hashes[other] ^ hashes[at]) // BRANCH_BITS)
    for level in range(LEVELS):
        key <<= BRANCH_BITS + 1
        if level <= depth:
            key |= (hashes[at] >> BRANCH_BITS * level) & 31
        if level < depth:
            key |= 1 << BRANCH_BITS
    return key


cdef inline int order_by_hash(
    const broker_t* brokers, uint64_t slots, const uint32_t* hashes, uint8_t* order
) noexcept nogil:
    """Slots in the order of the trie that their brokers' hashes make; returns how many."""
    cdef uint64_t keys[64]
    cdef uint32_t own[64]
    cdef uint8_t listed[64]
    cdef int n = 0
    cdef int i
    while slots:
        listed[n] = <uint8_t> lowest_slot(slots)
        own[n] = hashes[brokers[listed[n]]]
        slots &= slots - 1
        n += 1
    for i in range(n):
        insert_slot(order, keys, i, listed[i], trie_key(own, n, i))
    return n
