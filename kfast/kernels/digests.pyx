"""The digest of a cluster: one number that any change changes.

It is a sum over partitions, so that it knows no order of rows, and the digests of a cluster's parts
add up. Within a partition the words are mixed one apart from the other, so that none waits.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.quorum_columns cimport NOBODY_KNOWN, ColdColumns, QuorumColumns
from kfast.kernels.slots cimport (
    FLAG_HAS_LEADERSHIP,
    NO_LEADER,
    NarrowRow,
    P_NON_EXISTENT,
    P_NO_ENTRY,
    R_NON_EXISTENT,
    first_slots,
    kfast_count,
    kfast_lowest,
    row_at,
    row_t,
)
from kfast.kernels.splitmix cimport mix

cdef extern from *:
    """
    static inline unsigned long long kfast_fold(unsigned long long a, unsigned long long b) {
        unsigned __int128 product = (unsigned __int128) a * b;
        return (unsigned long long) product ^ (unsigned long long) (product >> 64);
    }
    """
    uint64_t kfast_fold(uint64_t a, uint64_t b) noexcept nogil


cdef inline uint64_t fold(uint64_t digest, uint64_t word, uint64_t other) noexcept nogil:
    """Take two words into a digest. Source: Wang Yi, wyhash: both halves of a long product."""
    return kfast_fold(
        digest ^ word ^ <uint64_t> 0xA0761D6478BD642F, other ^ <uint64_t> 0xE7037ED1A0B428DB
    )


cdef inline uint64_t slot_word(
    row_t row, const int32_t* broker_id, int s
) noexcept nogil:
    """Broker and state of a slot; no entry counts as NonExistent."""
    cdef uint64_t state = row.states[s] if row.states[s] != R_NON_EXISTENT else 0
    return <uint32_t> broker_id[row.brokers[s]] | state << 32


cdef uint64_t digest_unassigned(row_t row, const int32_t* broker_id) noexcept nogil:
    """Digest of the slots behind the assignment, whatever their order; unnamed ones are nothing."""
    cdef uint64_t total = 0
    cdef uint64_t named, word
    cdef int s
    record = row.record
    for s in range(record.n_replicas, record.n_slots):
        word = slot_word(row, broker_id, s)
        named = (record.isr >> s) & 1
        named |= ((record.adding >> s) & 1) << 1
        named |= ((record.removing >> s) & 1) << 2
        named |= ((record.offline_dir >> s) & 1) << 3
        if named or word >> 32:
            total += mix(word | named << 40)
    return total


cdef inline uint64_t digest_row(
    row_t row, const int32_t* broker_id, uint64_t digest
) noexcept nogil:
    """Digest of one partition, from one of its key."""
    cdef uint64_t assigned = first_slots(row.record.n_replicas)
    cdef uint64_t unassigned = 0
    cdef uint64_t odd = 0
    cdef uint32_t leader
    cdef int s
    record = row.record
    if record.flags & FLAG_HAS_LEADERSHIP:
        leader = <uint32_t> (broker_id[record.leader] if record.leader >= 0 else NO_LEADER)
        digest = fold(
            digest, leader | <uint64_t> <uint32_t> record.leader_epoch << 32,
            <uint32_t> record.version | <uint64_t> <uint32_t> record.controller_epoch << 32,
        )
    if (record.adding | record.removing | record.offline_dir) & assigned:
        odd = fold(0, record.adding & assigned, record.removing & assigned)
        odd = fold(odd, record.offline_dir & assigned, 0)
    digest = fold(digest, record.isr & assigned, odd)
    if record.n_replicas == 3:
        # The same as below, without a loop for what nearly every partition has.
        digest = fold(digest, slot_word(row, broker_id, 0),
                      slot_word(row, broker_id, 1))
        digest = fold(digest, slot_word(row, broker_id, 2), 0)
    else:
        for s in range(0, record.n_replicas - 1, 2):
            digest = fold(digest, slot_word(row, broker_id, s),
                          slot_word(row, broker_id, s + 1))
        if record.n_replicas & 1:
            digest = fold(digest, slot_word(row, broker_id, record.n_replicas - 1), 0)
    if record.n_slots > record.n_replicas:
        unassigned = digest_unassigned(row, broker_id)
    return mix(digest + unassigned)


def digest(
    columns_t columns,
    const int32_t[::1] broker_id,      # IN  (B,)    ids
    const uint64_t[::1] topic_digest,  # IN  (T,)    digest of each topic's name
):
    """Digest of all partitions: the same for every layout and every order of rows."""
    first = columns.first
    cdef int32_t* partition = columns.partition
    cdef Py_ssize_t i
    cdef uint64_t total = 0
    cdef uint64_t word
    cdef int state
    with nogil:
        for i in range(first.n_rows):
            row = row_at(first, i)
            state = row.record.partition_state
            if state == P_NO_ENTRY:
                state = P_NON_EXISTENT
            if not row.record.flags and state == P_NON_EXISTENT:
                continue
            word = <uint32_t> partition[i] | <uint64_t> row.record.n_replicas << 32
            word |= <uint64_t> row.record.flags << 40 | <uint64_t> state << 48
            total += digest_row(
                row, &broker_id[0], fold(0, topic_digest[row.topic_row[i]], word)
            )
    return total


# What a word of a partition in KRaft speaks of: above an id and a place.
cdef enum:
    IN_ISR = 1
    IN_ELR = 2
    LAST_KNOWN = 3


cdef inline uint64_t member_word(
    int32_t broker_id, int place, int kind
) noexcept nogil:
    """A broker with its place in a list."""
    return <uint32_t> broker_id | <uint64_t> place << 32 | <uint64_t> kind << 48


cdef uint64_t digest_quorum_rows(
    row_t first, const ColdColumns* cold, const int32_t* partition,
    const uint64_t* topic_digest, const uint64_t* directory_digest,
) noexcept nogil:
    """Digest of what only KRaft has: every list in its order, and directories."""
    cdef Py_ssize_t i
    cdef uint64_t total = 0
    cdef uint64_t key, isr, elr, left
    cdef int place, n_isr, slot, kind
    cdef int32_t known
    for i in range(first.n_rows):
        if partition[i] < 0:
            continue
        row = row_at(first, i)
        key = mix(topic_digest[row.topic_row[i]] ^ <uint64_t> partition[i])
        isr = row.record.isr
        if cold.elr == NULL:
            elr = 0
        elif row_t is NarrowRow:
            elr = (<const uint8_t*> cold.elr)[i]
        else:
            elr = (<const uint64_t*> cold.elr)[i]
        n_isr = kfast_count(isr)
        left = isr
        for place in range(n_isr + kfast_count(elr)):
            if place == n_isr:
                left = elr
            slot = kfast_lowest(left)
            left &= left - 1
            if cold.order != NULL:
                slot = cold.order[first.width * i + place]
            kind = IN_ISR if place < n_isr else IN_ELR
            total += mix(key ^ member_word(
                cold.broker_id[row.brokers[slot]], place if place < n_isr else place - n_isr, kind
            ))
        known = cold.last_known[i] if cold.last_known != NULL else NOBODY_KNOWN
        if known != NOBODY_KNOWN:
            known = cold.broker_id[known] if known >= 0 else known
            total += mix(key ^ member_word(known, 0, LAST_KNOWN))
        if cold.directory != NULL:
            for slot in range(row.record.n_replicas):
                if cold.directory[first.width * i + slot] > 0:
                    left = directory_digest[cold.directory[first.width * i + slot]]
                    total += mix(key ^ mix(left ^ <uint64_t> slot))
    return total


def digest_quorum(
    QuorumColumns columns not None,
    const int32_t[::1] partition,          # IN  (P,)    partition numbers
    const uint64_t[::1] topic_digest,      # IN  (T,)    digest of each topic's name
    const uint64_t[::1] directory_digest,  # IN  (D,)    digest of each directory's id
):
    """Digest of what only KRaft has of partitions, whatever the layout and the order of rows."""
    if not partition.shape[0]:
        return 0
    if columns.is_narrow:
        return digest_quorum_rows(
            columns.narrow, &columns.cold, &partition[0], &topic_digest[0], &directory_digest[0]
        )
    return digest_quorum_rows(
        columns.wide, &columns.cold, &partition[0], &topic_digest[0], &directory_digest[0]
    )


def digest_bytes(
    const int32_t[::1] offsets,  # IN   (n+1,)  where each string begins
    const uint8_t[::1] data,     # IN   (m,)    bytes of all strings
    uint64_t[::1] digests,       # OUT  (n,)
):
    """Digest of each string of an Arrow string array."""
    cdef Py_ssize_t i, at
    cdef uint64_t digest, word
    with nogil:
        for i in range(digests.shape[0]):
            digest = <uint64_t> (offsets[i + 1] - offsets[i])
            word = 0
            for at in range(offsets[i], offsets[i + 1]):
                word = word << 8 | data[at]
                if (at - offsets[i]) & 7 == 7:
                    digest = fold(digest, word, 0)
                    word = 0
            digests[i] = mix(fold(digest, word, 0))
