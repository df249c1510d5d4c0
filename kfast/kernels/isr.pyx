"""Changes of an ISR: a broker leaves it, or a leader reports another one.

Source: docs/controller.md, sections 2.6 and 6.10; Kafka 3.9, `ReplicaStateMachine` and
`KafkaController.processAlterPartition`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.effects cimport write_isr
from kfast.kernels.isr cimport Shrunk, shrink_one
from kfast.kernels.rules cimport Rules
from kfast.kernels.slots cimport (
    AHEAD,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    NO_LEADER,
    TALLY_IMBALANCE,
    bit,
    broker_is_live,
    chosen_slots,
    first_slots,
    is_imbalanced,
    kfast_count,
    leader_is_online,
    liveness_of,
    prefetch_row,
    row_at,
    row_t,
    write_bit,
)

# `schema.AlterCode`.
cdef enum:
    WRITTEN = 0
    UNCHANGED = 1
    UNKNOWN_TOPIC_OR_PARTITION = 2
    NOT_CONTROLLER = 3
    FENCED_LEADER_EPOCH = 4
    INVALID_UPDATE_VERSION = 5
    INVALID_REQUEST = 6
    INELIGIBLE_REPLICA = 7


def shrink(
    columns_t columns,
    const int32_t[::1] rows,       # IN      (n,)    partition rows
    const int32_t[::1] slots,      # IN      (n,)    slot that leaves the ISR, per row
    const uint8_t[::1] may_empty,  # IN      (n,)    1: the last member may leave
    stored_records,                # IN OUT  (n,)    stored records, then proposed ones
    uint8_t[::1] write,            # OUT     (n,)    1: the record changed and is to be written
):
    """Take one broker out of the ISR of records as a store holds them.

    Source: section 2.6, step 2.
    """
    first = columns.first
    stored = columns.records_in(stored_records, rows.shape[0])
    cdef Py_ssize_t i
    cdef Shrunk shrunk
    for i in range(rows.shape[0]):
        row = row_at(first, rows[i])
        shrunk = shrink_one(
            bit(slots[i]), stored[i].isr, stored[i].leader == <int32_t> row.brokers[slots[i]],
            may_empty[i],
        )
        write[i] = shrunk.write
        if shrunk.write:
            stored[i].leader_epoch += 1
            if shrunk.leaderless:
                stored[i].leader = NO_LEADER
            write_isr(&stored[i], shrunk.isr)


cdef inline int check_alteration(
    row_t row, int32_t sender, int32_t leader_epoch, int32_t version, uint64_t isr,
    bint recovering, int n_unknown
) noexcept nogil:
    """The rows of section 6.10's table, in order; the first that matches decides."""
    cdef bint was_recovering = (row.record.flags & FLAG_RECOVERY) != 0
    cdef bint same
    cdef int s
    cached = row.record
    if not cached.flags & FLAG_HAS_LEADERSHIP:
        return UNKNOWN_TOPIC_OR_PARTITION
    if version > cached.version or leader_epoch > cached.leader_epoch:
        return NOT_CONTROLLER
    if leader_epoch < cached.leader_epoch:
        return FENCED_LEADER_EPOCH
    same = sender == cached.leader and isr == cached.isr and recovering == was_recovering
    if same and not n_unknown:
        return UNCHANGED
    if version < cached.version:
        return INVALID_UPDATE_VERSION
    if recovering and kfast_count(isr) + n_unknown > 1:
        return INVALID_REQUEST
    if recovering and not was_recovering:
        return INVALID_REQUEST
    if n_unknown:
        return INELIGIBLE_REPLICA
    for s in range(cached.n_slots):
        if (isr >> s) & 1 and not broker_is_live(row.broker_status[row.brokers[s]]):
            return INELIGIBLE_REPLICA
    return WRITTEN


def check_alterations(
    columns_t columns,
    const int32_t[::1] rows,          # IN   (n,)    partition rows
    const int32_t[::1] sender,        # IN   (n,)    broker row that asks
    const int32_t[::1] leader_epoch,  # IN   (n,)
    const int32_t[::1] version,       # IN   (n,)
    const uint64_t[::1] isr,          # IN   (n,)    slots proposed
    const uint8_t[::1] recovery,      # IN   (n,)    1: recovering
    const uint8_t[::1] n_unknown,     # IN   (n,)    unknown brokers that the ISR names
    uint8_t[::1] codes,               # OUT  (n,)    `schema.AlterCode`
):
    """Decide on ISR changes that leaders report. Source: section 6.10."""
    first = columns.first
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        codes[i] = check_alteration(
            row_at(first, rows[i]), sender[i], leader_epoch[i], version[i], isr[i], recovery[i],
            n_unknown[i],
        )


def propose_catch_up(
    columns_t columns,
    const int32_t[::1] rows,    # IN   (n,)    partition rows
    const uint64_t[::1] slots,  # IN   (n,)    slots of the brokers that caught up
    uint64_t[::1] isr,          # OUT  (n,)    the ISR with them; 0: nothing to report
):
    """The ISR that the live leader of each partition reports once these followers caught up.

    Only assigned replicas on live brokers count, and only a live leader reports.
    """
    first = columns.first
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        isr[i] = caught_up(row_at(first, rows[i]), slots[i])


def catch_up_hosted(
    columns_t columns,
    Rules rules not None,
    const uint8_t[::1] chosen,      # IN      (B+1,)  1: the broker caught up
    const int32_t[::1] candidates,  # IN      (n,)    rows that may track one, ascending
    int64_t[::1] sizes,             # IN OUT  (B,)    partitions that each leader reports
    int32_t[::1] rows,              # OUT     (n,)    rows that are reported, ascending
    uint8_t[::1] codes,             # OUT     (n,)    `schema.AlterCode` of each
    int64_t[::1] tally,             # IN OUT  (width,)
):
    """Live leaders report the ISRs with followers that caught up, and they are written.

    Where leaders ask no controller, they write by themselves.

    `propose_catch_up`, `check_alterations` and `election.adopt` in one visit to each partition,
    where the cache is the store and no topic is queued. Returns how many are reported.

    Source: section 6.10.
    """
    columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t n_candidates = candidates.shape[0]
    cdef bint asks_controller = rules.values.has_alter_partition
    cdef int controller_epoch = rules.values.controller_epoch
    cdef uint64_t isr
    cdef int code
    with nogil:
        for i in range(n_candidates):
            if i + AHEAD < n_candidates:
                prefetch_row(first, candidates[i + AHEAD])
            row = row_at(first, candidates[i])
            isr = caught_up(row, chosen_slots(row, &chosen[0], row.record.n_replicas))
            if not isr:
                continue
            code = WRITTEN
            if asks_controller:
                code = check_alteration(
                    row, row.record.leader, row.record.leader_epoch, row.record.version, isr,
                    False, False,
                )
            rows[n] = <int32_t> row.index
            codes[n] = <uint8_t> code
            sizes[row.record.leader] += 1
            n += 1
            if code == WRITTEN:
                adopt_isr(row, isr, controller_epoch, asks_controller, &tally[0])
                write_bit(row.leader_offline, row.index, False)
    return n


cdef inline uint64_t caught_up(row_t row, uint64_t slots) noexcept nogil:
    """The ISR with the assigned replicas that caught up; 0 where no live leader has to report."""
    cdef uint64_t joined = slots & first_slots(row.record.n_replicas) & ~(<uint64_t> row.record.isr)
    cdef uint64_t live
    if not joined or not row.record.flags & FLAG_HAS_LEADERSHIP:
        return 0
    live = liveness_of(row).live
    if joined & live and leader_is_online(row, live):
        return joined & live | row.record.isr
    return 0


cdef inline void adopt_isr(
    row_t row, uint64_t isr, int controller_epoch, bint by_controller, int64_t* tally
) noexcept nogil:
    """Take a written ISR into the cache (section 1.6); only the controller leaves its epoch."""
    cdef bint imbalanced = is_imbalanced(row)
    write_isr(row.record, isr)
    row.record.version += 1
    if by_controller:
        row.record.controller_epoch = controller_epoch
        row.record.flags &= ~FLAG_RECOVERY
    tally[TALLY_IMBALANCE] += is_imbalanced(row) - imbalanced
