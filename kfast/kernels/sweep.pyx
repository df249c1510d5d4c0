"""Sweeps: what many scenarios do to every partition, one bit per scenario.

A partition becomes the sequence of its live brokers in the order in which they would lead
(`scenario_outcome.h` tells the parts). Partitions of one shape lie together, so that the loops over
them have no branches. Counts per scenario are kept as binary digits, one vector per digit, and
added to by carry-save adders.

Source: docs/controller.md, sections 2.6, 3, 4 and 6.2; docs/kraft.md, sections 3 to 6.1; Harley and
Seal's counting of bits: Mula, Kurz, Lemire, "Faster population counts using AVX2 instructions",
2018.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.min_isr cimport needed_in_sync
from kfast.kernels.partition_change cimport acceptable_slots, elr_of, has_min_isr, is_complete
from kfast.kernels.quorum_columns cimport ColdColumns, QuorumColumns
from kfast.kernels.quorum_rules cimport QuorumRules, QuorumRuleSet
from kfast.kernels.slots cimport (
    BROKER_FENCED,
    BROKER_REGISTERED,
    FLAG_ASSIGNED,
    FLAG_HAS_LEADERSHIP,
    P_NEW,
    P_OFFLINE,
    P_ONLINE,
    TOPIC_QUEUED,
    TOPIC_UNCLEAN,
    bit,
    broker_t,
    first_slots,
    kfast_count,
    liveness_of,
    row_at,
    row_t,
    slot_of,
    topic_flags_of,
)


cdef extern from "sweep.h" nogil:
    enum:
        COUNTS
        GROUP_FIELDS
        SHAPE_HAS_LEADER
        SHAPE_LEADER_IN_ISR
        SHAPE_LEADER_ASSIGNED
        SHAPE_ELECTS
        SHAPE_INITIAL
        SHAPE_TABULATED
        TABLE_LEADER
        TABLE_SINGLE
        TABLE_WIDTH
    ctypedef struct kfast_takeovers:
        int64_t n_brokers
        const int64_t* led
        int depths
        const int64_t* entry
        const int64_t* begin
        const int32_t* before
        const int64_t* tabulated
        const int64_t* places
        const int32_t* sequences
        const uint16_t* tables
    int kfast_widest()
    void kfast_count_tile(
        int words, const int64_t* groups, int64_t n_groups, const int32_t* sequences,
        const uint16_t* tables, const uint64_t* up, int want, int64_t* counts, int64_t stride
    )
    void kfast_count_leaders(
        int words, const kfast_takeovers* takeovers, const uint64_t* up, int n, int32_t* most,
        int32_t* fullest, const int64_t* histogram_begin, int64_t* histogram
    )
    void kfast_count_rows(
        int words, const int64_t* group, const int32_t* sequence, const uint16_t* tables,
        const uint64_t* up, const uint64_t* counted, int64_t* offline, int64_t* under
    )

cdef enum:
    MOST_BROKERS = 65
    NO_SHAPE = 0
    NO_SEQUENCE = 1  # the order in which its brokers fail decides: it needs a table
    NO_GROUP = -1
    TABULATED = -2

# What decides besides a partition's row; `cold` is NULL for a ZooKeeper cluster.
cdef struct shaping_t:
    const int32_t* min_isr        # (T,)  min.insync.replicas in force
    int32_t controller_epoch
    int32_t nothing_fails         # the row that is "up" where nothing fails
    const ColdColumns* cold
    const QuorumRuleSet* rules


def widest():
    """Words of 64 bits in the widest vector of this machine: 8 (AVX-512), 4 (AVX2) or 1."""
    return kfast_widest()


def layout():
    """Numbers that Python must know: counts per scenario, fields of a group, cells of a table."""
    return {
        "counts": COUNTS, "fields": GROUP_FIELDS, "has_leader": SHAPE_HAS_LEADER,
        "is_tabulated": SHAPE_TABULATED, "leader_assigned": SHAPE_LEADER_ASSIGNED,
        "table_leader": TABLE_LEADER, "table_single": TABLE_SINGLE, "table_width": TABLE_WIDTH,
        "tabulated": TABULATED,
    }


cdef inline int put_slots(
    uint64_t slots, const broker_t* brokers, int n_slots, int32_t* sequence, int at
) noexcept nogil:
    cdef int s
    for s in range(n_slots):
        if (slots >> s) & 1:
            sequence[at] = <int32_t> brokers[s]
            at += 1
    return at


cdef inline bint broker_is_up(uint8_t status) noexcept nogil:
    """Whether a broker can fail: it is registered, and not fenced already."""
    return status & (BROKER_REGISTERED | BROKER_FENCED) == BROKER_REGISTERED


cdef inline uint64_t sequence_of(
    row_t row, const shaping_t* shaping, int32_t* sequence
) noexcept nogil:
    """Write the sequence of a ZooKeeper cluster's partition and return its shape.

    Topics queued for deletion, and records of a newer controller, are never elected for.
    """
    cdef uint64_t live, assigned, isr, leader, clean, blocking, rest
    cdef int slot, state, n_clean, n_blocking, n_rest, at
    cdef int flags = 0
    cdef uint8_t topic_flags = topic_flags_of(row)
    cdef bint led, waits
    record = row.record
    brokers = row.brokers
    live = liveness_of(row).live
    assigned = first_slots(record.n_replicas) & live
    led = record.flags & FLAG_HAS_LEADERSHIP
    isr = record.isr & live if led else 0
    state = record.partition_state
    waits = state == P_NEW or state == P_ONLINE or state == P_OFFLINE
    waits = waits and not topic_flags & TOPIC_QUEUED
    slot = slot_of(brokers, record.n_slots, record.leader) if led and record.leader >= 0 else -1
    leader = ((<uint64_t> 1) << slot) & live if slot >= 0 else 0
    if leader:
        flags = SHAPE_HAS_LEADER
        flags |= SHAPE_LEADER_IN_ISR if leader & isr else 0
        flags |= SHAPE_LEADER_ASSIGNED if leader & assigned else 0
    if led and waits and record.controller_epoch <= shaping.controller_epoch:
        flags |= SHAPE_ELECTS
    clean = assigned & isr & ~leader
    blocking = isr & ~assigned & ~leader
    rest = assigned & ~isr & ~leader
    if not led and waits and state == P_NEW:
        flags |= SHAPE_ELECTS | SHAPE_INITIAL
        clean = assigned
        rest = 0
    sequence[0] = <int32_t> brokers[slot] if leader else shaping.nothing_fails
    at = put_slots(clean, brokers, record.n_slots, sequence, 1)
    n_clean = at - 1
    at = put_slots(blocking, brokers, record.n_slots, sequence, at)
    n_blocking = at - 1 - n_clean
    at = put_slots(rest, brokers, record.n_slots, sequence, at)
    n_rest = at - 1 - n_clean - n_blocking
    if flags & SHAPE_ELECTS and topic_flags & TOPIC_UNCLEAN:
        return shape_key(row, shaping, flags, n_clean, n_blocking, 0, n_rest, 0)
    return shape_key(row, shaping, flags, n_clean, n_blocking, 0, 0, n_rest)


cdef inline bint may_change_otherwise(
    row_t first, row_t row, const QuorumRuleSet* rules
) noexcept nogil:
    """Whether a fencing may change more of a partition than its leader, ISR and ELR.

    A reassignment is complete that no record has completed; or that of partition 0 is, so that
    min ISR may fall.
    """
    cdef int32_t zero = rules.first_partition[row.topic_row[row.index]]
    cdef uint64_t staying
    if row.record.adding | row.record.removing and is_complete(
        rules.completion, first_slots(row.record.n_replicas), row.record.isr, row.record.removing,
        row.record.adding,
    ):
        return True
    if zero < 0 or zero == row.index:
        return False
    other = row_at(first, zero)
    if not other.record.removing:
        return False
    staying = first_slots(other.record.n_replicas) & ~<uint64_t> other.record.removing
    return kfast_count(staying) < rules.min_insync[row.topic_row[row.index]] and is_complete(
        rules.completion, first_slots(other.record.n_replicas), other.record.isr,
        other.record.removing, other.record.adding,
    )


cdef inline uint64_t quorum_sequence_of(
    row_t first, row_t row, const shaping_t* shaping, int32_t* sequence
) noexcept nogil:
    """The same for KRaft, whose brokers are fenced one after another; NO_SEQUENCE if that decides.

    It does not where a live in-sync replica leads and all of the ISR is live: the ISR shrinks to
    those that stay up; when nobody does, the first live one of the ELR leads alone, at last the
    first live one. The first fencing empties the ELR if it leaves min ISR in sync.

    Source: docs/kraft.md, sections 3, 5 and 6.1.
    """
    cdef uint64_t faulty, live, up, clean, eligible, rest
    cdef uint64_t leader = 0
    cdef int slot, n_clean, n_eligible, n_rest, at
    cdef int flags = SHAPE_HAS_LEADER | SHAPE_LEADER_IN_ISR | SHAPE_LEADER_ASSIGNED | SHAPE_ELECTS
    record = row.record
    brokers = row.brokers
    if may_change_otherwise(first, row, shaping.rules):
        return NO_SEQUENCE
    live = acceptable_slots(row, shaping.cold, shaping.rules, -1, 0, &faulty)
    clean = eligible = 0
    if record.leader >= 0:
        slot = slot_of(brokers, record.n_slots, record.leader)
        leader = bit(slot) & record.isr & live if slot >= 0 else 0
        if not leader:
            return NO_SEQUENCE
        clean = record.isr & live & ~leader
        at = kfast_count(record.isr) - 1
        eligible = elr_of(row, shaping.cold) & live
        if has_min_isr(row, shaping.rules, at) if shaping.rules.elr_on else at > 0:
            eligible = 0
        if eligible and (record.isr & ~live or not shaping.rules.elr_on):
            return NO_SEQUENCE
    else:
        flags = 0
        up = 0
        for slot in range(record.n_slots):
            up |= (<uint64_t> broker_is_up(row.broker_status[brokers[slot]])) << slot
        if record.isr & up:
            return NO_SEQUENCE
    rest = live & ~(leader | clean | eligible)
    sequence[0] = record.leader if leader else shaping.nothing_fails
    at = put_slots(clean, brokers, record.n_slots, sequence, 1)
    n_clean = at - 1
    at = put_slots(eligible, brokers, record.n_slots, sequence, at)
    n_eligible = at - 1 - n_clean
    at = put_slots(rest, brokers, record.n_slots, sequence, at)
    n_rest = at - 1 - n_clean - n_eligible
    if flags and shaping.rules.unclean and shaping.rules.unclean[row.topic_row[row.index]]:
        return shape_key(row, shaping, flags, n_clean, 0, n_eligible, n_rest, 0)
    return shape_key(row, shaping, flags, n_clean, 0, n_eligible, 0, n_rest)


cdef inline uint64_t shape_key(
    row_t row, const shaping_t* shaping, int flags, int n_clean, int n_blocking, int n_eligible,
    int n_unclean, int n_other
) noexcept nogil:
    """One number for a shape."""
    cdef int32_t min_isr = 0 if row.topic_row[row.index] < 0 else shaping.min_isr[
        row.topic_row[row.index]
    ]
    cdef int need = max(needed_in_sync(min_isr, row.record.n_replicas), -1)
    return (
        <uint64_t> 1 << 63 | <uint64_t> flags | <uint64_t> n_clean << 8
        | <uint64_t> n_blocking << 16 | <uint64_t> n_unclean << 24 | <uint64_t> n_other << 32
        | <uint64_t> (need + 1) << 40 | <uint64_t> n_eligible << 48
    )


cdef inline uint64_t shape_of(
    row_t first, row_t row, const shaping_t* shaping, int32_t* sequence
) noexcept nogil:
    """Write a partition's sequence and return its shape; NO_SHAPE where it is no partition."""
    if not row.record.flags & FLAG_ASSIGNED:
        return NO_SHAPE
    if shaping.cold == NULL:
        return sequence_of(row, shaping, sequence)
    return quorum_sequence_of(first, row, shaping, sequence)


cdef class Shaping:
    """What decides the shapes besides the rows of a state.

    Parameters
    ----------
    min_isr : (T,) array of int32
        min.insync.replicas in force.
    controller_epoch : int
    nothing_fails : int
        The row that is "up" where nothing fails.
    quorum : QuorumColumns, optional
        With `rules`: the state is of a KRaft cluster.
    rules : QuorumRules, optional
    """

    cdef shaping_t values
    cdef tuple held

    def __init__(
        self, const int32_t[::1] min_isr, int32_t controller_epoch, int32_t nothing_fails,
        QuorumColumns quorum=None, QuorumRules rules=None,
    ):
        self.held = (min_isr, quorum, rules)
        self.values.min_isr = &min_isr[0] if min_isr.shape[0] else NULL
        self.values.controller_epoch = controller_epoch
        self.values.nothing_fails = nothing_fails
        self.values.cold = NULL if quorum is None else &quorum.cold
        self.values.rules = NULL if rules is None else &rules.values


def find_shapes(
    columns_t columns,
    Shaping shaping not None,
    uint64_t[::1] shapes,        # IN OUT  (h,)    hash table of shapes, 0 where free
    int32_t[::1] numbers,        # OUT     (h,)    number of the shape at each place
    int64_t[::1] sizes,          # OUT     (h/2,)  partitions of each shape
    int32_t[::1] group,          # OUT     (P,)    number of each row's shape, -1 for none, -2 where
                                 #                 it needs a table
):
    """Number the shapes that occur; returns how many, or -1 where the table is too small."""
    first = columns.first
    cdef Py_ssize_t i
    cdef uint64_t shape, at
    cdef uint64_t last = <uint64_t> shapes.shape[0] - 1
    cdef int32_t n = 0
    cdef int32_t sequence[MOST_BROKERS]
    with nogil:
        for i in range(first.n_rows):
            shape = shape_of(first, row_at(first, i), &shaping.values, sequence)
            if shape == NO_SHAPE or shape == NO_SEQUENCE:
                group[i] = NO_GROUP if shape == NO_SHAPE else TABULATED
                continue
            at = (shape * <uint64_t> 0x9E3779B97F4A7C15ULL) >> 32 & last
            while shapes[at] and shapes[at] != shape:
                at = (at + 1) & last
            if not shapes[at]:
                if n >= sizes.shape[0]:
                    n = -1
                    break
                shapes[at] = shape
                numbers[at] = n
                sizes[n] = 0
                n += 1
            group[i] = numbers[at]
            sizes[numbers[at]] += 1
    return n


def write_sequences(
    columns_t columns,
    Shaping shaping not None,
    const int64_t[:, ::1] groups,  # IN      (G, F)  shapes: see `sweep.h`
    const int32_t[::1] group,      # IN      (P,)    number of each row's shape, below 0 for none
    int64_t[:, ::1] place,         # IN OUT  (2, G)  where each shape's next partition and its
                                   #                 sequence go
    int32_t[::1] sequences,        # OUT             sequences, shape by shape
    int32_t[::1] rows,             # OUT     (n,)    row of each partition, shape by shape
):
    """Write the sequence of every partition to its place."""
    first = columns.first
    cdef Py_ssize_t i
    cdef int64_t at
    cdef int32_t g, s
    cdef int32_t sequence[MOST_BROKERS]
    with nogil:
        for i in range(first.n_rows):
            g = group[i]
            if g < 0:
                continue
            shape_of(first, row_at(first, i), &shaping.values, sequence)
            rows[place[0, g]] = <int32_t> i
            at = place[1, g]
            for s in range(<int32_t> groups[g, 6]):
                sequences[at + s] = sequence[s]
            place[0, g] += 1
            place[1, g] += groups[g, 6]


def count_live(
    QuorumColumns quorum not None,
    QuorumRules rules not None,
    int32_t[::1] live,             # OUT     (n,)    replicas of the first rows that may lead
    int32_t[::1] in_sync,          # OUT     (n,)    those of them in the ISR
    uint64_t[::1] slots,           # OUT     (n,)    their slots, in the ISR or not
):
    """Count live replicas in the first rows of a KRaft cluster.

    Source: docs/kraft.md, section 3.
    """
    cdef Py_ssize_t i
    with nogil:
        for i in range(live.shape[0]):
            if quorum.is_narrow:
                slots[i] = live_in(row_at(quorum.narrow, i), quorum, rules, &in_sync[i])
            else:
                slots[i] = live_in(row_at(quorum.wide, i), quorum, rules, &in_sync[i])
            live[i] = kfast_count(slots[i])


cdef inline uint64_t live_in(
    row_t row, QuorumColumns quorum, QuorumRules rules, int32_t* in_sync
) noexcept nogil:
    cdef uint64_t faulty
    cdef uint64_t slots = acceptable_slots(row, &quorum.cold, &rules.values, -1, 0, &faulty)
    in_sync[0] = kfast_count(slots & row.record.isr)
    return slots


cdef class DownBrokers:
    """The brokers that fail in some scenarios, as vectors of one bit per scenario.

    Parameters
    ----------
    offsets : (n + 1,) array of int64
        Where each scenario begins, from 0.
    down : (d,) array of int32
        Broker rows that fail.
    words : int
        Width of a vector: 1, 4 or 8 words of 64 bits.
    up : ((B + 1) * words,) array of uint64
        Memory for a vector of every broker, and one of the scenarios in which nothing fails.
    """

    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] down
    cdef uint64_t[::1] up
    cdef int words
    cdef int64_t n_brokers
    cdef int64_t n_scenarios
    cdef int64_t lanes

    def __init__(
        self, const int64_t[::1] offsets, const int32_t[::1] down, int words, uint64_t[::1] up
    ):
        self.offsets, self.down, self.up, self.words = offsets, down, up, words
        self.n_brokers = up.shape[0] // words - 1
        self.n_scenarios = offsets.shape[0] - 1
        self.lanes = 64 * words

    cdef int64_t fill(self, int64_t begin) noexcept nogil:
        """Set the bits of the vector that begins with a scenario; returns how many are in it."""
        cdef int64_t n = min(self.lanes, self.n_scenarios - begin)
        cdef int64_t i, at
        cdef int words = self.words
        cdef uint64_t* up = &self.up[0]
        cdef uint64_t* quiet = up + self.n_brokers * words
        cdef const int64_t* offsets = &self.offsets[begin]
        cdef const int32_t* down = &self.down[0]
        for i in range(self.up.shape[0]):
            up[i] = ~(<uint64_t> 0)
        for i in range(n):
            if offsets[i + 1] > offsets[i]:
                quiet[i >> 6] &= ~((<uint64_t> 1) << (i & 63))
            for at in range(offsets[i], offsets[i + 1]):
                up[down[at] * words + (i >> 6)] &= ~((<uint64_t> 1) << (i & 63))
        return n


def count_dense(
    const int64_t[:, ::1] groups,    # IN      (G, F)  shapes: see `sweep.h`
    const int32_t[::1] sequences,    # IN              sequences, shape by shape
    const uint16_t[::1] tables,      # IN              tables of those shapes that need one
    DownBrokers scenarios not None,
    int want,                        # bit m: count m is asked for
    int64_t[:, ::1] counts,          # IN OUT  (COUNTS, n rounded up to vectors)  added to
):
    """Count every scenario over all partitions, one vector of scenarios at a time."""
    cdef int64_t i = 0
    with nogil:
        while i < scenarios.n_scenarios:
            scenarios.fill(i)
            kfast_count_tile(
                scenarios.words, &groups[0, 0], groups.shape[0], &sequences[0], &tables[0],
                &scenarios.up[0], want, &counts[0, i], counts.shape[1],
            )
            i += scenarios.lanes


def count_takeovers(
    const int64_t[:, ::1] groups,  # IN      (G, F)     shapes: see `sweep.h`
    const int32_t[::1] sequences,  # IN                 sequences, shape by shape
    int64_t[::1] led,              # IN OUT  (B,)       partitions that each broker leads
    int64_t[:, ::1] counts,        # IN OUT  (D, B+1)   those that it leads where d others are down
):
    """Count, per broker, what it leads at the start and what it may take over."""
    cdef Py_ssize_t g
    cdef int j, n_clean, behind, last
    cdef int64_t at
    with nogil:
        for g in range(groups.shape[0]):
            n_clean = <int> groups[g, 1]
            behind = <int> (1 + n_clean + groups[g, 2])
            last = <int> (behind + groups[g, 9] + groups[g, 3])
            at = groups[g, 8]
            for _ in range(groups[g, 7]):
                if groups[g, 0] & SHAPE_HAS_LEADER:
                    led[sequences[at]] += 1
                if groups[g, 0] & SHAPE_ELECTS:
                    for j in range(1, n_clean + 1):
                        counts[j - 1, sequences[at + j]] += 1
                    for j in range(behind, last):
                        counts[j - 1, sequences[at + j]] += 1
                at += groups[g, 6]


def list_takeovers(
    const int64_t[:, ::1] groups,  # IN      (G, F)  shapes: see `sweep.h`
    const int32_t[::1] sequences,  # IN              sequences, shape by shape
    int64_t[:, ::1] place,         # IN OUT  (D, B)  where each broker's next entry goes
    const int64_t[::1] begin,      # IN      (D,)    where the names of each depth begin
    int32_t[::1] before,           # OUT             for each entry, who must be down
):
    """List, per depth and broker, who must be down for the broker to take a partition over."""
    cdef Py_ssize_t g
    cdef int j, n_clean, behind, last
    cdef int64_t at
    with nogil:
        for g in range(groups.shape[0]):
            if not groups[g, 0] & SHAPE_ELECTS:
                continue
            n_clean = <int> groups[g, 1]
            behind = <int> (1 + n_clean + groups[g, 2])
            last = <int> (behind + groups[g, 9] + groups[g, 3])
            at = groups[g, 8]
            for _ in range(groups[g, 7]):
                for j in range(1, n_clean + 1):
                    put_takeover(&sequences[at], j, place, begin, &before[0])
                for j in range(behind, last):
                    put_takeover(&sequences[at], j, place, begin, &before[0])
                at += groups[g, 6]


cdef inline void put_takeover(
    const int32_t* sequence, int depth, int64_t[:, ::1] place, const int64_t[::1] begin,
    int32_t* before
) noexcept nogil:
    cdef int i
    cdef int64_t entry = place[depth - 1, sequence[depth]]
    place[depth - 1, sequence[depth]] = entry + 1
    for i in range(depth):
        before[begin[depth - 1] + entry * depth + i] = sequence[i]


def count_leaders(
    failover_order,                      # IN  `FailoverOrder`: who leads, and who takes over where
    DownBrokers scenarios not None,
    int32_t[::1] most,                   # OUT     (n,)  leaders on the fullest broker
    int32_t[::1] fullest,                # OUT     (n,)  its row, the first of equals; -1 for none
    const int64_t[::1] histogram_begin,  # IN      (B,)  where each broker's histogram begins
    int64_t[::1] histogram,              # IN OUT        scenarios by leaders; or empty
):
    """Count leaders per broker in every scenario, one vector of scenarios at a time."""
    cdef const int64_t[::1] led = failover_order.led
    cdef const int64_t[:, ::1] entry = failover_order.entry_begin
    cdef const int64_t[::1] begin = failover_order.predecessors_begin
    cdef const int32_t[::1] before = failover_order.predecessors
    cdef const int64_t[::1] tabulated = failover_order.tabulated_begin
    cdef const int64_t[:, ::1] places = failover_order.tabulated
    cdef const int32_t[::1] sequences = failover_order.sequences
    cdef const uint16_t[::1] tables = failover_order.tables
    cdef kfast_takeovers takeovers = kfast_takeovers(
        led.shape[0], &led[0], <int> entry.shape[0], &entry[0, 0], &begin[0], &before[0],
        &tabulated[0], &places[0, 0], &sequences[0], &tables[0],
    )
    cdef int64_t* counted = &histogram[0] if histogram.shape[0] else NULL
    cdef int64_t i = 0
    cdef int64_t n
    with nogil:
        while i < scenarios.n_scenarios:
            n = scenarios.fill(i)
            kfast_count_leaders(
                scenarios.words, &takeovers, &scenarios.up[0], <int> n, &most[i], &fullest[i],
                &histogram_begin[0] if counted else NULL, counted,
            )
            i += scenarios.lanes


def count_partitions(
    const int64_t[:, ::1] groups,    # IN      (G, F)  shapes: see `sweep.h`
    const int32_t[::1] sequences,    # IN              sequences, shape by shape
    const uint16_t[::1] tables,      # IN              tables of those shapes that need one
    const int64_t[::1] first,        # IN      (G,)    where each shape's partitions begin
    DownBrokers scenarios not None,
    int64_t[:, ::1] counts,          # IN OUT  (2, m)  scenarios offline, under min ISR
):
    """Count, for every partition, the scenarios in which it is offline or under min ISR."""
    cdef int64_t i = 0
    cdef int64_t g, k, n
    cdef uint64_t counted[8]
    with nogil:
        while i < scenarios.n_scenarios:
            n = scenarios.fill(i)
            for k in range(8):
                counted[k] = 0
            for k in range(n):
                counted[k >> 6] |= (<uint64_t> 1) << (k & 63)
            for g in range(groups.shape[0]):
                kfast_count_rows(
                    scenarios.words, &groups[g, 0], &sequences[0] + groups[g, 8], &tables[0],
                    &scenarios.up[0], counted, &counts[0, first[g]], &counts[1, first[g]],
                )
            i += scenarios.lanes
