"""Give partitions their first leader, or elect another one.

`bring_online` is the whole rule where the cache is the store. With a store the same steps come
one by one: `choose` decides on records as the store holds them, the store writes, and `adopt`
takes what was written into the cache.

Source: docs/controller.md, sections 3.5, 3.6 and 4; Kafka 3.9, `ZkPartitionStateMachine`
(`initializeLeaderAndIsrForPartitions`, `electLeaderForPartitions`) and `Election`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.bring_online cimport (
    bring_one_online,
    choose_for,
    initial_record,
    lead_anew,
    needs_permission,
)
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.election cimport (
    Choice,
    NOT_ASKED_RULE,
    OFFLINE_ALLOW_UNCLEAN,
    WRITE_BACK,
    elect_one,
    overrule,
)
from kfast.kernels.rules cimport Rules, RuleSet
from kfast.kernels.slots cimport (
    AHEAD,
    CONFIG_LOOKUP_FAILED,
    Effect,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    KIND_UNCLEAN,
    Liveness,
    MOVED,
    NO_ELIGIBLE_LEADER,
    NO_LIVE_REPLICA,
    NO_SLOT,
    TALLY_IMBALANCE,
    TALLY_LED,
    TOPIC_EXISTS,
    TOPIC_QUEUED,
    TOPIC_UNCLEAN,
    chunk_start,
    first_slots,
    is_imbalanced,
    is_live,
    kfast_prefetch,
    liveness_of,
    prefetch_row,
    refresh_leader,
    row_at,
    topic_flags_of,
)


def bring_online(
    columns_t columns,
    Rules rules not None,
    const int32_t[::1] rows,    # IN      (n,)    partition rows, ascending, each once
    int strategy,               # `Profile.kernel_strategy`; -1 for none
    const int8_t[::1] decided,  # IN      (n,)    what a user's rule says; or (0,)
    uint8_t[::1] codes,         # OUT     (n,)    `schema.Code`
    Effect[::1] effects,        # OUT     (n,)    what became of each; or (0,)
    int64_t[:, ::1] tally,      # IN OUT  (threads, width)
):
    """Bring partitions Online, where the cache is the store.

    Source: sections 3.4 to 3.6; Kafka 3.9, `doHandleStateChanges`.
    """
    columns.check_writable()
    cdef int threads = <int> tally.shape[0]
    cdef RuleSet values = rules.values
    cdef Py_ssize_t i
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        first = columns.first
        for i in range(chunk_start(rows, t, threads), chunk_start(rows, t + 1, threads)):
            prefetch_row(first, rows[min(i + AHEAD, rows.shape[0] - 1)])
            row = row_at(first, rows[i])
            codes[i] = bring_one_online(
                row, &values, topic_flags_of(row) if values.any_queued else 0, strategy,
                decided[i] if decided.shape[0] else NOT_ASKED_RULE,
                &effects[i] if effects.shape[0] else NULL, &tally[t, 0],
            )


def rebalance(
    columns_t columns,
    Rules rules not None,
    const int32_t[::1] rows,   # IN      (n,)    rows that others lead, ascending
    const int32_t[::1] step,   # IN      (B,)    place of a preferred broker's step, or -1
    int64_t[:, ::1] asked,     # IN OUT  (threads, K)  partitions asked for in each step
    int64_t[:, :, ::1] tally,  # IN OUT  (threads, K, width)
):
    """The elections of a rebalance, all brokers' in one pass over the rows.

    Asked for are partitions of existing topics whose preferred replica is online and, where
    the rules say so, in the ISR. No topic is queued, and the cache is the store: partitions have
    nothing to do with each other, so their order does not matter.

    Source: section 6.8, auto, step 3.
    """
    columns.check_writable()
    cdef int threads = <int> tally.shape[0]
    cdef RuleSet values = rules.values
    cdef Py_ssize_t i
    cdef int t, k
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        first = columns.first
        for i in range(chunk_start(rows, t, threads), chunk_start(rows, t + 1, threads)):
            row = row_at(first, rows[min(i + AHEAD, rows.shape[0] - 1)])
            prefetch_row(first, row.index)
            kfast_prefetch(&first.topic_row[row.index])
            row = row_at(first, rows[i])
            k = step[row.brokers[0]]
            if k < 0 or not topic_flags_of(row) & TOPIC_EXISTS:
                continue
            if is_live(row, 0) and (row.record.isr & 1 or not values.rebalances_in_isr):
                asked[t, k] += 1
                bring_one_online(
                    row, &values, 0, values.preferred_strategy, NOT_ASKED_RULE, NULL,
                    &tally[t, k, 0],
                )


def choose(
    columns_t columns,
    Rules rules not None,
    const int32_t[::1] rows,           # IN      (n,)    partition rows
    stored_records,                    # IN OUT  (n,)    stored records, then proposed ones
    int strategy,                      # `Profile.kernel_strategy`
    const uint8_t[::1] lookup_failed,  # IN      (T,)    the topic's configuration is unreadable
    const int8_t[::1] decided,         # IN      (n,)    what a user's rule says; or (0,)
    Effect[::1] choices,               # OUT     (n,)    code, MOVED where a leader was chosen;
                                       #                 recipients; kinds, whether it is unclean
):
    """Elect on records as a store holds them; the records become the proposed ones.

    Source: section 3.6, step 3, and section 4.
    """
    first = columns.first
    stored = columns.records_in(stored_records, rows.shape[0])
    cdef Py_ssize_t i
    cdef Choice choice
    cdef Liveness seen
    cdef bint permitted
    for i in range(rows.shape[0]):
        row = row_at(first, rows[i])
        row.record = &stored[i]
        seen = liveness_of(row)
        permitted = strategy == OFFLINE_ALLOW_UNCLEAN or topic_flags_of(row) & TOPIC_UNCLEAN
        choices[i].recipients = 0
        choices[i].kinds = 0
        if needs_permission(strategy, stored[i].isr, seen) and (
            lookup_failed[row.topic_row[row.index]]
        ):
            choices[i].code = CONFIG_LOOKUP_FAILED
            continue
        choice = choose_for(row.record, strategy, seen, permitted)
        overrule(&choice, decided[i] if decided.shape[0] else NOT_ASKED_RULE)
        if choice.slot == NO_SLOT and strategy != WRITE_BACK:
            choices[i].code = NO_ELIGIBLE_LEADER
            continue
        choices[i].code = MOVED
        choices[i].recipients = choice.recipients
        choices[i].kinds = KIND_UNCLEAN if choice.unclean else 0
        if strategy != WRITE_BACK:
            lead_anew(row, &choice, rules.values.recovery_supported)


def propose_initial(
    columns_t columns,
    const int32_t[::1] rows,   # IN      (n,)    partition rows, in state New
    proposed_records,          # IN OUT  (n,)    cached records, then initial ones
    int controller_epoch,
    uint8_t[::1] codes,        # OUT     (n,)    MOVED, or NO_LIVE_REPLICA
    uint64_t[::1] recipients,  # OUT     (n,)    online assigned slots
):
    """Make the first record of new partitions. Source: section 3.5, steps 1 to 3."""
    first = columns.first
    proposed = columns.records_in(proposed_records, rows.shape[0])
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        row = row_at(first, rows[i])
        row.record = &proposed[i]
        recipients[i] = first_slots(row.record.n_replicas) & liveness_of(row).live
        codes[i] = MOVED if recipients[i] else NO_LIVE_REPLICA
        if recipients[i]:
            initial_record(row, recipients[i], controller_epoch)


def adopt(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)    partition rows, each once
    written_records,          # IN      (n,)    leader, epochs, version, ISR, recovery
    int64_t[::1] tally,       # IN OUT  (width,)
):
    """Take stored records into the cache and keep counters and bitmap.

    The assignment, its masks and the partition's state stay as they are.

    Source: section 1.6, `put_leadership`.
    """
    columns.check_writable()
    first = columns.first
    written = columns.records_in(written_records, rows.shape[0])
    cdef Py_ssize_t i
    cdef bint imbalanced
    for i in range(rows.shape[0]):
        row = row_at(first, rows[i])
        imbalanced = is_imbalanced(row)
        row.record.leader = written[i].leader
        row.record.leader_epoch = written[i].leader_epoch
        row.record.version = written[i].version
        row.record.controller_epoch = written[i].controller_epoch
        row.record.isr = written[i].isr
        tally[TALLY_LED] += not row.record.flags & FLAG_HAS_LEADERSHIP
        row.record.flags = <uint8_t> (
            (row.record.flags & ~FLAG_RECOVERY) | FLAG_HAS_LEADERSHIP
            | (written[i].flags & FLAG_RECOVERY)
        )
        refresh_leader(row)
        if not topic_flags_of(row) & TOPIC_QUEUED:
            tally[TALLY_IMBALANCE] += is_imbalanced(row) - imbalanced


def choose_one(
    int strategy,             # `schema.Strategy`
    uint64_t assigned,        # slots of the assignment
    uint64_t target,          # slots that a reassignment keeps
    uint64_t isr,             # slots in sync
    uint64_t live,            # slots that are online
    uint64_t up,              # the same, shutting-down brokers included
    uint64_t shutting_down,   # slots whose broker is in controlled shutdown
    bint unclean,             # a leader outside the ISR is permitted
):
    """Run one election on masks: (slot or -1, new ISR, recipients, chosen outside the ISR).

    Source: section 4.1.
    """
    cdef Liveness seen
    cdef Choice choice
    seen.live = live
    seen.up = up
    seen.shutting_down = shutting_down
    choice = elect_one(strategy, assigned, target, isr, seen, unclean)
    return choice.slot, choice.isr, choice.recipients, choice.unclean
