"""Ask a user's election rule, before anything changes, whom each partition is to be led by.

The rule is a C function that a row's masks and brokers are given to; it runs without the GIL. It
is asked for exactly the rows that an event elects for and only where somebody may lead. Its answers
are checked here and kept, one slot per row; the kernels that elect take them from there.

Source: docs/controller.md, section 4: the candidates of an election, of which Kafka takes the
first.
"""

from cython.parallel cimport prange
from libc.stdint cimport INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint32_t, uintptr_t

from kfast.kernels.bring_online cimport choose_for, needs_permission
from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.election cimport (
    Choice,
    NOT_ASKED_RULE,
    OFFLINE_ALLOW_UNCLEAN,
    PREFERRED_IF_NEEDED,
    PREFERRED_REPLICA,
    WRITE_BACK,
)
from kfast.kernels.slots cimport (
    AHEAD,
    FLAG_HAS_LEADERSHIP,
    Liveness,
    NO_SLOT,
    P_NEW,
    P_NON_EXISTENT,
    P_NO_ENTRY,
    P_OFFLINE,
    TOPIC_UNCLEAN,
    broker_is_live,
    chunk_start,
    liveness_of,
    prefetch_row,
    row_at,
    row_t,
    slot_of,
    topic_flags_of,
)

# What is about to happen to the rows; `policy_runner.ElectionCause`.
cdef enum:
    LISTED = 0
    STORED = 1
    FAILED = 2
    SHUT_DOWN = 3

# `policy.CALLBACK` has the same arguments in the same order.
ctypedef int64_t (*rule_t)(
    int32_t leader, int32_t n_replicas, int64_t candidates, int64_t isr, int64_t live,
    int32_t n_slots, const int32_t* brokers, const int32_t* racks, const int64_t* led,
) noexcept nogil

# Rows that are looked at together: which of them are asked is told before the first one is.
cdef enum:
    BLOCK = 256

# What every row is asked with, decided before the loop.
cdef struct Question:
    rule_t rule
    const int32_t* rack
    const int64_t* led
    int occasion
    int strategy
    int32_t broker
    int controller_epoch
    uint32_t offline_from
    uint32_t online_from


cdef inline bint is_elected(
    row_t row, bint led, const Question* question
) noexcept nogil:
    """Whether the event runs an election for this row, as the kernels of the event decide it.

    `led`: the cached leader is online.
    """
    cdef int state = row.record.partition_state
    record = row.record
    if question.occasion == STORED:
        return True
    if not record.flags & FLAG_HAS_LEADERSHIP:
        return False
    if record.controller_epoch > question.controller_epoch:
        return False
    if state == P_NO_ENTRY:
        state = P_NON_EXISTENT
    if question.occasion == FAILED:
        if (question.offline_from >> state) & 1 and not led:
            state = P_OFFLINE
        if state != P_OFFLINE:
            return False
    elif question.occasion == SHUT_DOWN:
        if record.n_replicas < 2 or record.leader != question.broker:
            return False
        if slot_of(row.brokers, record.n_replicas, question.broker) == NO_SLOT:
            return False
    return state != P_NEW and (question.online_from >> state) & 1


cdef inline bint may_be_asked(
    row_t row, const Question* question
) noexcept nogil:
    """False only for rows that `is_elected` rules out: told at a glance and without a branch.

    A leader on a live broker is online where no directory failed. Its state says of a row with
    such a leader whether it was Offline all the same.
    """
    cdef bint live
    record = row.record
    if question.occasion == FAILED:
        live = broker_is_live(row.broker_status[max(record.leader, 0)])
        return (
            (record.leader < 0) | (not live) | (record.offline_dir != 0)
            | (record.partition_state == P_OFFLINE)
        )
    if question.occasion == SHUT_DOWN:
        return record.leader == question.broker
    return True


cdef inline bint is_bad(const Choice* choice, int64_t answer) noexcept nogil:
    """Whether an answer is neither a candidate nor NO_SLOT."""
    if answer < 0 or answer > 63:
        return answer != NO_SLOT
    return not (choice.candidates >> answer) & 1


cdef inline int64_t call_rule(
    row_t row, int leader, const Liveness* seen, const Choice* choice, const Question* question
) noexcept nogil:
    cdef int32_t rows[64]
    cdef int32_t racks[64]
    cdef int64_t led[64]
    cdef int s
    record = row.record
    for s in range(record.n_slots):
        rows[s] = <int32_t> row.brokers[s]
    if question.rack != NULL:
        for s in range(record.n_slots):
            racks[s] = question.rack[rows[s]]
    if question.led != NULL:
        for s in range(record.n_slots):
            led[s] = question.led[rows[s]]
    return question.rule(
        leader, record.n_replicas, <int64_t> choice.candidates, <int64_t> record.isr,
        <int64_t> seen.live, record.n_slots, rows, racks, led,
    )


cdef inline int ask_row(
    row_t row, const uint8_t* lookup_failed, const Question* question, int8_t* decided,
    int64_t* failure
) noexcept nogil:
    """Ask the rule for one row if it is elected for; 0 where the answer is bad."""
    cdef bint unclean = question.strategy == OFFLINE_ALLOW_UNCLEAN
    cdef Liveness seen = liveness_of(row)
    cdef int leader = slot_of(row.brokers, row.record.n_slots, row.record.leader)
    cdef bint led = leader != NO_SLOT and (seen.live >> leader) & 1 != 0
    cdef Choice choice
    cdef int64_t answer
    if not is_elected(row, led, question):
        return 1
    if needs_permission(question.strategy, row.record.isr, seen):
        if lookup_failed != NULL and lookup_failed[row.topic_row[row.index]]:
            return 1
        unclean = topic_flags_of(row) & TOPIC_UNCLEAN
    choice = choose_for(row.record, question.strategy, seen, unclean)
    if choice.slot == NO_SLOT:
        return 1
    answer = call_rule(row, leader, &seen, &choice, question)
    if is_bad(&choice, answer):
        failure[1] = answer
        failure[2] = <int64_t> choice.candidates
        return 0
    decided[0] = <int8_t> answer
    return 1


cdef inline row_t row_asked(
    row_t first, row_t stored, const Question* question, int32_t index, Py_ssize_t i
) noexcept nogil:
    """A row with the record that is asked about: number i of the stored ones, or its own."""
    cdef row_t row = row_at(first, index)
    if question.occasion == STORED:
        row.record = stored.record + i
    return row


cdef void decide_chunk(
    row_t first, row_t stored, const uint8_t[::1] lookup_failed, const int32_t[::1] rows,
    Py_ssize_t begin, Py_ssize_t end, const Question* question, int8_t[::1] decided,
    int64_t* failure
) noexcept nogil:
    cdef Py_ssize_t i, last
    cdef Py_ssize_t asked[BLOCK]
    cdef const uint8_t* unreadable = &lookup_failed[0] if lookup_failed.shape[0] else NULL
    cdef int k, n
    while begin < end:
        last = min(begin + BLOCK, end)
        n = 0
        for i in range(begin, last):
            if i + AHEAD < end:
                prefetch_row(first, rows[i + AHEAD])
            decided[i] = NOT_ASKED_RULE
            asked[n] = i
            n += may_be_asked(row_asked(first, stored, question, rows[i], i), question)
        for k in range(n):
            i = asked[k]
            if not ask_row(
                row_asked(first, stored, question, rows[i], i), unreadable, question, &decided[i],
                failure,
            ):
                failure[0] = i
                return
        begin = last


def decide(
    columns_t columns,
    stored_records,                    # IN   (n,)    records of a store; or None
    const uint8_t[::1] lookup_failed,  # IN   (T,)    configuration is unreadable; or (0,)
    const int32_t[::1] rows,           # IN   (n,)    partition rows, ascending
    uintptr_t address,                 # the rule, a `rule_t`
    const int32_t[::1] rack,           # IN   (B,)    rack of each broker; or (0,)
    const int64_t[::1] led,            # IN   (B,)    partitions led at the start; or (0,)
    int occasion,                      # `policy_runner.ElectionCause`
    int strategy,                      # `Profile.kernel_strategy`
    int32_t broker,                    # SHUT_DOWN: row of the broker
    int controller_epoch,
    uint32_t offline_from,             # bit f set: a partition in state f may become Offline
    uint32_t online_from,              # bit f set: a partition in state f may become Online
    int8_t[::1] decided,               # OUT  (n,)    slot, -1 for nobody, -2: was not asked
    int64_t[:, ::1] failures,          # OUT  (threads, 3)  item, answer, candidates; item -1
):
    """Ask the rule for every row that an election is about to run for.

    A thread stops at the first answer that is no candidate and not -1 and reports it; INT64_MIN
    means that the rule raised. Elections of the preferred replica leave nothing to decide.
    """
    stored = columns.first
    if stored_records is not None:
        stored.record = columns.records_in(stored_records, rows.shape[0])
    cdef int threads = <int> failures.shape[0]
    cdef Question question
    cdef int t
    question.rule = <rule_t> <void*> address
    question.rack = &rack[0] if rack.shape[0] else NULL
    question.led = &led[0] if led.shape[0] else NULL
    question.occasion = occasion
    question.strategy = strategy
    question.broker = broker
    question.controller_epoch = controller_epoch
    question.offline_from = offline_from
    question.online_from = online_from
    failures[:, 0] = -1
    if strategy < 0 or strategy in (PREFERRED_REPLICA, PREFERRED_IF_NEEDED, WRITE_BACK):
        decided[:] = NOT_ASKED_RULE
        return
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        decide_chunk(
            columns.first, stored, lookup_failed, rows, chunk_start(rows, t, threads),
            chunk_start(rows, t + 1, threads), &question, decided, &failures[t, 0],
        )


def count_led(
    columns_t columns,
    int64_t[:, ::1] led,  # IN OUT  (threads, B)  partitions that each broker leads
):
    """Count the partitions that each broker leads, one share of the rows per thread."""
    cdef int threads = <int> led.shape[0]
    cdef Py_ssize_t n = columns.first.n_rows
    cdef Py_ssize_t i
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        first = columns.first
        for i in range(n * t // threads, n * (t + 1) // threads):
            row = row_at(first, i)
            if row.record.flags & FLAG_HAS_LEADERSHIP and row.record.leader >= 0:
                led[t, row.record.leader] += 1


def raised():
    """The answer by which a compiled rule says that it raised."""
    return INT64_MIN
