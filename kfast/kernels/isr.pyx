"""Changes of an ISR: a broker leaves it, or a leader reports another one.

Source: docs/controller.md, sections 2.6 and 6.10; Kafka 3.9, `ReplicaStateMachine` and
`KafkaController.processAlterPartition`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.bring_online cimport write_isr
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.isr cimport Shrunk, shrink_one
from kfast.kernels.rules cimport Rules
from kfast.kernels.slots cimport (
    AHEAD,
    BROKER_REGISTERED,
    BROKER_SHUTTING_DOWN,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    NO_LEADER,
    TALLY_IMBALANCE,
    Liveness,
    bit,
    broker_t,
    first_slots,
    is_imbalanced,
    kfast_count,
    kfast_prefetch,
    leader_is_online,
    liveness_of,
    record_t,
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
    cdef Py_ssize_t width = columns.width
    replicas = columns.replicas
    stored = columns.records_in(stored_records, rows.shape[0])
    cdef Py_ssize_t i
    cdef Shrunk shrunk
    for i in range(rows.shape[0]):
        shrunk = shrink_one(
            bit(slots[i]), stored[i].isr,
            stored[i].leader == <int32_t> replicas[width * rows[i] + slots[i]], may_empty[i],
        )
        write[i] = shrunk.write
        if shrunk.write:
            stored[i].leader_epoch += 1
            if shrunk.leaderless:
                stored[i].leader = NO_LEADER
            write_isr(&stored[i], shrunk.isr)


cdef inline int check_alteration(
    const record_t* cached, const broker_t* brokers, const uint8_t* status, int32_t sender,
    int32_t leader_epoch, int32_t version, uint64_t isr, bint recovering, int n_unknown
) noexcept nogil:
    """The rows of section 6.10's table, in order; the first that matches decides."""
    cdef bint was_recovering = (cached.flags & FLAG_RECOVERY) != 0
    cdef bint same
    cdef int s
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
        if (isr >> s) & 1 and (
            status[brokers[s]] & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN) != BROKER_REGISTERED
        ):
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
    cdef Py_ssize_t width = columns.width
    cdef const uint8_t* broker_status = columns.broker_status
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        codes[i] = check_alteration(
            &records[rows[i]], &replicas[width * rows[i]], broker_status, sender[i],
            leader_epoch[i], version[i], isr[i], recovery[i], n_unknown[i],
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
    cdef Py_ssize_t width = columns.width
    cdef const uint8_t* broker_status = columns.broker_status
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t i, row
    cdef Liveness seen
    cdef uint64_t joined
    for i in range(rows.shape[0]):
        row = rows[i]
        isr[i] = 0
        if not records[row].flags & FLAG_HAS_LEADERSHIP:
            continue
        seen = liveness_of(&records[row], &replicas[width * row], broker_status)
        joined = slots[i] & seen.live & first_slots(records[row].n_replicas)
        joined &= ~(<uint64_t> records[row].isr)
        if joined and leader_is_online(&records[row], &replicas[width * row], seen.live):
            isr[i] = joined | records[row].isr


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
    cdef Py_ssize_t width = columns.width
    cdef const uint8_t* broker_status = columns.broker_status
    cdef uint64_t* leader_offline = columns.leader_offline
    records = columns.records
    replicas = columns.replicas
    cdef Py_ssize_t i, row
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t n_candidates = candidates.shape[0]
    cdef bint asks_controller = rules.values.has_alter_partition
    cdef int controller_epoch = rules.values.controller_epoch
    cdef uint64_t isr
    cdef int code
    with nogil:
        for i in range(n_candidates):
            if i + AHEAD < n_candidates:
                row = candidates[i + AHEAD]
                kfast_prefetch(&records[row])
                kfast_prefetch(<const void*> &replicas[width * row])
            row = candidates[i]
            record = &records[row]
            isr = caught_up(record, &replicas[width * row], broker_status, &chosen[0])
            if not isr:
                continue
            code = WRITTEN
            if asks_controller:
                code = check_alteration(
                    record, &replicas[width * row], broker_status, record.leader,
                    record.leader_epoch, record.version, isr, False, False,
                )
            rows[n] = <int32_t> row
            codes[n] = <uint8_t> code
            sizes[record.leader] += 1
            n += 1
            if code == WRITTEN:
                adopt_isr(record, &replicas[width * row], isr, controller_epoch, asks_controller,
                          &tally[0])
                write_bit(leader_offline, row, False)
    return n


cdef inline uint64_t caught_up(
    const record_t* record, const broker_t* brokers, const uint8_t* status, const uint8_t* chosen
) noexcept nogil:
    """The ISR with the assigned replicas that caught up; 0 where no live leader has to report."""
    cdef Liveness seen
    cdef uint64_t joined = 0
    cdef int s
    if not record.flags & FLAG_HAS_LEADERSHIP:
        return 0
    for s in range(record.n_replicas):
        joined |= (<uint64_t> chosen[brokers[s]]) << s
    joined &= ~(<uint64_t> record.isr)
    if not joined:
        return 0
    seen = liveness_of(record, brokers, status)
    joined &= seen.live
    if joined and leader_is_online(record, brokers, seen.live):
        return joined | record.isr
    return 0


cdef inline void adopt_isr(
    record_t* record, const broker_t* brokers, uint64_t isr, int controller_epoch,
    bint by_controller, int64_t* tally
) noexcept nogil:
    """Take a written ISR into the cache (section 1.6); only the controller leaves its epoch."""
    cdef bint imbalanced = is_imbalanced(record, brokers)
    write_isr(record, isr)
    record.version += 1
    if by_controller:
        record.controller_epoch = controller_epoch
        record.flags &= ~FLAG_RECOVERY
    tally[TALLY_IMBALANCE] += is_imbalanced(record, brokers) - imbalanced
