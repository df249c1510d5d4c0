"""Counts over the whole cluster, and its digest.

Source: specification, sections 1.5 and 1.6.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.slots cimport (
    AHEAD,
    FLAG_ASSIGNED,
    FLAG_HAS_LEADERSHIP,
    P_NEW,
    P_NON_EXISTENT,
    P_NO_ENTRY,
    P_OFFLINE,
    R_NON_EXISTENT,
    R_NO_ENTRY,
    TALLY_ANNOUNCED,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_IMBALANCE,
    TALLY_LEADERS_MOVED,
    TALLY_LED,
    TALLY_METADATA,
    TALLY_OFFLINE,
    TALLY_REASSIGNED,
    TALLY_UNCLEAN,
    TOPIC_QUEUED,
    TOPIC_STARTED,
    Effect,
    broker_t,
    const_record_t,
    first_slots,
    is_imbalanced,
    kfast_count,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    record_t,
    write_bit,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    ConstNarrowRecord,  # no-cython-lint
    ConstWideRecord,  # no-cython-lint
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)


def layout():
    """Sizes and places that Python must know: of records, effects, and of a tally's fields."""
    return {
        "narrow_record": sizeof(NarrowRecord),
        "wide_record": sizeof(WideRecord),
        "effect": sizeof(Effect),
        "offline": TALLY_OFFLINE,
        "imbalance": TALLY_IMBALANCE,
        "unclean": TALLY_UNCLEAN,
        "metadata": TALLY_METADATA,
        "leaders_moved": TALLY_LEADERS_MOVED,
        "announced": TALLY_ANNOUNCED,
        "reassigned": TALLY_REASSIGNED,
        "led": TALLY_LED,
        "codes": TALLY_CODES,
        "cells": TALLY_CELLS,
        "brokers": TALLY_BROKERS,
    }


cdef inline uint64_t mix(uint64_t word) noexcept nogil:
    """The finishing steps of splitmix64: a bijection that spreads every bit."""
    word = (word ^ (word >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9ULL
    word = (word ^ (word >> 27)) * <uint64_t> 0x94D049BB133111EBULL
    return word ^ (word >> 31)


cdef inline uint64_t fold(uint64_t digest, uint64_t word) noexcept nogil:
    return mix(digest ^ mix(word + <uint64_t> 0x9E3779B97F4A7C15ULL))


def recount(
    const_record_t[::1] records,        # IN   (P,)    hot records
    const broker_t[:, ::1] replicas,    # IN   (P, S)  broker rows
    const uint8_t[::1] broker_status,   # IN   (B,)    registered, shutting down
    const int32_t[::1] topic_row,       # IN   (P,)    row of the topic
    const uint8_t[::1] topic_flags,     # IN   (T,)    queued, started, ...
    uint64_t[::1] leader_offline,       # OUT  bitmap  partitions with an offline leader
    uint64_t[::1] pending,              # OUT  bitmap  partitions New or Offline
):
    """Make both bitmaps and the counters afresh; returns (offline, imbalanced, with leadership)."""
    cdef Py_ssize_t row
    cdef int64_t offline = 0
    cdef int64_t imbalanced = 0
    cdef int64_t n_led = 0
    cdef uint8_t flags
    cdef int state
    cdef bint led
    with nogil:
        for row in range(records.shape[0]):
            flags = topic_flags[topic_row[row]]
            state = records[row].partition_state
            n_led += (records[row].flags & FLAG_HAS_LEADERSHIP) != 0
            offline += state == P_OFFLINE and not flags & TOPIC_STARTED
            if not flags & TOPIC_QUEUED:
                imbalanced += is_imbalanced(&records[row], &replicas[row, 0])
            led = leader_is_online(
                &records[row], &replicas[row, 0],
                liveness_of(&records[row], &replicas[row, 0], &broker_status[0]).live,
            )
            write_bit(&leader_offline[0], row,
                      records[row].flags & FLAG_HAS_LEADERSHIP and not led)
            write_bit(&pending[0], row, state == P_OFFLINE or state == P_NEW)
    return offline, imbalanced, n_led


def count_imbalanced(
    const_record_t[::1] records,       # IN  (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN  (P, S)  broker rows
    const int32_t[::1] rows,           # IN  (n,)    partition rows
):
    """How many of some partitions count as imbalanced, whether their topic is queued or not."""
    cdef Py_ssize_t i
    cdef int64_t n = 0
    with nogil:
        for i in range(rows.shape[0]):
            n += is_imbalanced(&records[rows[i]], &replicas[rows[i], 0])
    return n


def survey_leaders(
    const_record_t[::1] records,       # IN      (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const int32_t[::1] topic_row,      # IN      (P,)    row of the topic
    const uint8_t[::1] topic_flags,    # IN      (T,)    queued, started, ...
    bint any_queued,                   # some topic is queued: its partitions do not count
    int64_t[::1] preferred,            # IN OUT  (B,)    partitions by their first replica
    int64_t[::1] others,               # IN OUT  (B,)    those of them that another broker leads
    int32_t[::1] rows,                 # OUT     (P,)    rows of the latter, ascending
):
    """Who leads what others should; returns how many rows another leads.

    A partition without leadership counts as one of its first replica's, not as led by another.

    Source: specification, section 6.8, auto, steps 1 and 2.
    """
    cdef Py_ssize_t row
    cdef Py_ssize_t n = 0
    cdef int32_t first
    cdef bint moved
    with nogil:
        for row in range(records.shape[0]):
            if not records[row].n_replicas:
                continue
            if any_queued and topic_flags[topic_row[row]] & TOPIC_QUEUED:
                continue
            first = <int32_t> replicas[row, 0]
            moved = records[row].flags & FLAG_HAS_LEADERSHIP and records[row].leader != first
            preferred[first] += 1
            # Written for every row, and kept where it counts: that needs no branch.
            others[first] += moved
            rows[n] = <int32_t> row
            n += moved
    return n


def recheck_leaders(
    const_record_t[::1] records,       # IN      (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN      (P, S)  broker rows
    const int32_t[::1] marked,         # IN      (m,)    rows that others may lead, ascending
    uint64_t[::1] bits,                # IN OUT  bitmap  the same; kept for those that others lead
    int64_t[::1] others,               # IN OUT  (B,)    partitions that others lead, by preferred
    int32_t[::1] rows,                 # OUT     (m,)    rows that others lead, ascending
):
    """What `survey_leaders` finds, where only some rows may have changed their leader.

    Returns how many are led by another than the preferred replica. No topic is queued.
    """
    cdef Py_ssize_t i, row
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t n_marked = marked.shape[0]
    cdef int32_t first
    with nogil:
        for i in range(n_marked):
            if i + AHEAD < n_marked:
                row = marked[i + AHEAD]
                kfast_prefetch(<const void*> &records[row])
                kfast_prefetch(<const void*> &replicas[row, 0])
            row = marked[i]
            first = <int32_t> replicas[row, 0]
            if records[row].n_replicas and records[row].flags & FLAG_HAS_LEADERSHIP and (
                records[row].leader != first
            ):
                others[first] += 1
                rows[n] = <int32_t> row
                n += 1
            else:
                write_bit(&bits[0], row, False)
    return n


cdef uint64_t digest_row(
    const record_t* record, const broker_t* brokers, const uint8_t* states,
    const int32_t* broker_id
) noexcept nogil:
    """Digest of one partition; slots behind the assignment count whatever their order."""
    cdef uint64_t digest = record.n_replicas
    cdef uint64_t others = 0
    cdef uint64_t named, known
    cdef int state = record.partition_state
    cdef int s
    if state == P_NO_ENTRY:
        state = P_NON_EXISTENT
    digest = fold(digest, <uint64_t> state)
    digest = fold(digest, record.flags)
    if record.flags & FLAG_HAS_LEADERSHIP:
        known = <uint64_t> broker_id[record.leader] if record.leader >= 0 else ~(<uint64_t> 0)
        digest = fold(digest, known)
        digest = fold(digest, <uint64_t> record.leader_epoch)
        digest = fold(digest, <uint64_t> record.version)
        digest = fold(digest, <uint64_t> record.controller_epoch)
    for s in range(record.n_slots):
        named = (record.isr >> s) & 1
        named |= ((record.adding >> s) & 1) << 1
        named |= ((record.removing >> s) & 1) << 2
        named |= ((record.offline_dir >> s) & 1) << 3
        if states[s] != R_NO_ENTRY and states[s] != R_NON_EXISTENT:
            named |= <uint64_t> states[s] << 4
        if s < record.n_replicas:
            digest = fold(digest, (<uint64_t> broker_id[brokers[s]] << 8) | named)
        elif named:
            others += mix((<uint64_t> broker_id[brokers[s]] << 8) | named)
    return fold(digest, others)


def digest(
    const_record_t[::1] records,          # IN  (P,)    hot records
    const broker_t[:, ::1] replicas,      # IN  (P, S)  broker rows
    const uint8_t[:, ::1] replica_state,  # IN  (P, S)  `schema.ReplicaState`
    const int32_t[::1] broker_id,         # IN  (B,)    ids
    const int32_t[::1] topic_row,         # IN  (P,)    row of the topic
    const uint64_t[::1] topic_digest,     # IN  (T,)    digest of each topic's name
    const int32_t[::1] partition,         # IN  (P,)    partition number
):
    """Digest of all partitions: the same for every layout and every order of rows."""
    cdef Py_ssize_t row
    cdef uint64_t total = 0
    cdef uint64_t key, content
    with nogil:
        for row in range(records.shape[0]):
            if not records[row].flags and (
                records[row].partition_state == P_NO_ENTRY
                or records[row].partition_state == P_NON_EXISTENT
            ):
                content = 0
            else:
                content = 1
            key = fold(topic_digest[topic_row[row]], <uint64_t> partition[row])
            total += fold(key, digest_row(
                &records[row], &replicas[row, 0], &replica_state[row, 0], &broker_id[0]
            )) if content else 0
    return total


def digest_bytes(
    const int32_t[::1] offsets,  # IN   (n+1,)  where each string begins
    const uint8_t[::1] data,     # IN   (m,)    bytes of all strings
    uint64_t[::1] digests,       # OUT  (n,)
):
    """Digest of each string of an Arrow string array."""
    cdef Py_ssize_t i, at
    cdef uint64_t digest
    with nogil:
        for i in range(digests.shape[0]):
            digest = <uint64_t> (offsets[i + 1] - offsets[i])
            for at in range(offsets[i], offsets[i + 1]):
                digest = fold(digest, data[at])
            digests[i] = digest


def take_census(
    const_record_t[::1] records,        # IN   (P,)    hot records
    const broker_t[:, ::1] replicas,    # IN   (P, S)  broker rows
    const uint8_t[::1] broker_status,   # IN   (B,)    registered, shutting down
    const int32_t[::1] topic_row,       # IN   (P,)    row of the topic
    const int32_t[::1] min_isr,         # IN   (T,)    min.insync.replicas in force
    uint8_t[::1] marks,                 # OUT  (P,)    bits: see below
    int64_t[:, ::1] per_broker,         # OUT  (B, 3)  leaders, replicas, replicas in sync
):
    """Mark what an operator asks of each partition, and count per broker.

    Bits of a mark: 1 offline (no live leader), 2 under min ISR, 4 at min ISR, 8 under-replicated,
    16 no live replica, 32 led by another than the preferred replica. ISR members count where they
    are live; min ISR is at most the number of assigned replicas. Partitions without an
    assignment are not marked.
    """
    cdef Py_ssize_t row
    cdef uint64_t assigned, live
    cdef int in_sync, needed, s
    cdef uint8_t mark
    cdef bint led
    with nogil:
        for row in range(records.shape[0]):
            marks[row] = 0
            if not records[row].flags & FLAG_ASSIGNED:
                continue
            assigned = first_slots(records[row].n_replicas)
            live = liveness_of(&records[row], &replicas[row, 0], &broker_status[0]).live
            led = leader_is_online(&records[row], &replicas[row, 0], live)
            led = led and records[row].flags & FLAG_HAS_LEADERSHIP
            in_sync = kfast_count(records[row].isr & live)
            needed = min(min_isr[topic_row[row]], <int32_t> records[row].n_replicas)
            mark = not led
            mark |= <uint8_t> (in_sync < needed) << 1
            mark |= <uint8_t> (in_sync == needed) << 2
            mark |= <uint8_t> (kfast_count(records[row].isr & live & assigned)
                               < kfast_count(assigned & ~(<uint64_t> records[row].adding))) << 3
            mark |= <uint8_t> (not live & assigned) << 4
            if led:
                mark |= <uint8_t> (<int32_t> replicas[row, 0] != records[row].leader) << 5
                per_broker[records[row].leader, 0] += 1
            marks[row] = mark
            for s in range(records[row].n_replicas):
                per_broker[replicas[row, s], 1] += 1
                per_broker[replicas[row, s], 2] += (records[row].isr & live) >> s & 1
