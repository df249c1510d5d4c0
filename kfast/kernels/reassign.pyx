"""Change assignments: start a reassignment, bump the epoch for it, and put its end in place.

A partition's slots are its assignment in order, so a new assignment is a new order of slots. Who
is added or removed are masks, as everywhere.

Source: docs/controller.md, sections 1.3, 6.6 and 6.7; Kafka 3.9, `ReplicaAssignment.reassignTo`,
`KafkaController.onPartitionReassignment`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.effects cimport begin_effect, carry_record, count_requests
from kfast.kernels.permute cimport permute_slots, set_masks
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    FLAG_ASSIGNED,
    FLAG_HAS_LEADERSHIP,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    MOVED,
    NEWER_CONTROLLER,
    NOT_ASKED,
    NO_RECORD,
    NO_SLOT,
    TALLY_BROKERS,
    TALLY_IMBALANCE,
    TALLY_METADATA,
    TOPIC_QUEUED,
    bit,
    broker_is_live,
    first_slots,
    is_imbalanced,
    lowest_slot,
    prefetch_all,
    record_t,
    row_at,
    row_t,
    slot_of,
    topic_flags_of,
)


cdef inline bint is_in_origin(row_t row, int32_t broker) noexcept nogil:
    """Whether a broker is assigned, and not only being added."""
    cdef int slot = slot_of(row.brokers, row.record.n_replicas, broker)
    return slot != NO_SLOT and not (row.record.adding >> slot) & 1


def check_added(
    columns_t columns,
    const int32_t[::1] rows,     # IN   (n,)    partition rows; -1: no such partition
    const int32_t[::1] offsets,  # IN   (n+1,)  where each row's list begins
    const int32_t[::1] targets,  # IN   (m,)    broker rows; -1: no such broker
    uint8_t[::1] alive,          # OUT  (n,)    1: every replica that is added is live
):
    """Whether the brokers that a reassignment would add are live.

    Source: section 6.7, the second check.
    """
    first = columns.first
    cdef Py_ssize_t i
    cdef int at
    for i in range(rows.shape[0]):
        alive[i] = 1
        for at in range(offsets[i], offsets[i + 1]):
            if targets[at] < 0:
                alive[i] = 0
            elif rows[i] < 0 or not is_in_origin(row_at(first, rows[i]), targets[at]):
                alive[i] &= broker_is_live(first.broker_status[targets[at]])


def check_lists(
    const int32_t[::1] offsets,     # IN   (n+1,)  where each list begins
    const int32_t[::1] broker_ids,  # IN   (m,)    ids
    uint8_t[::1] valid,             # OUT  (n,)    1: not empty, no id twice, none negative
):
    """Check the lists of new assignments. Source: section 6.7, the first check."""
    cdef Py_ssize_t i
    cdef int at, other
    with nogil:
        for i in range(valid.shape[0]):
            valid[i] = offsets[i] < offsets[i + 1]
            for at in range(offsets[i], offsets[i + 1]):
                valid[i] &= broker_ids[at] >= 0
                for other in range(offsets[i], at):
                    valid[i] &= broker_ids[at] != broker_ids[other]


def check_safe(
    columns_t columns,
    const int32_t[::1] rows,  # IN   (n,)  partition rows
    int controller_epoch,
    uint8_t[::1] safe,        # OUT  (n,)  1: no step of a reassignment can fail
):
    """Which reassignments cannot fail half way, where the cache is the store.

    Those have a record, not of a newer controller, and a topic that is not queued for deletion.
    """
    first = columns.first
    cdef Py_ssize_t i
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            safe[i] = (
                row.record.flags & FLAG_HAS_LEADERSHIP != 0
                and row.record.controller_epoch <= controller_epoch
                and not topic_flags_of(row) & TOPIC_QUEUED
            )


def check_complete(
    columns_t columns,
    const int32_t[::1] rows,         # IN   (n,)  partition rows
    const uint8_t[::1] is_stored,    # IN   (n,)  1: there is a record; or (0,): see the cached ones
    const uint64_t[::1] stored_isr,  # IN   (n,)  its ISR; or (0,)
    uint8_t[::1] complete,           # OUT  (n,)  1: nothing to move, or all targets are in sync
):
    """Which reassignments are complete. Source: section 6.7, step 3."""
    first = columns.first
    cdef Py_ssize_t i
    cdef uint64_t target, isr
    cdef bint known
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            known = row.record.flags & FLAG_HAS_LEADERSHIP != 0
            isr = row.record.isr
            if is_stored.shape[0]:
                known = is_stored[i] != 0
                isr = stored_isr[i]
            target = first_slots(row.record.n_replicas) & ~(<uint64_t> row.record.removing)
            complete[i] = (
                not (row.record.adding or row.record.removing)
                or (known and not target & ~isr)
            )


cdef inline bint is_in_place(
    const record_t* record, const uint8_t* order, int n_replicas, uint64_t adding,
    uint64_t removing
) noexcept nogil:
    """Whether the assignment is what it should become already."""
    cdef int s
    if record.n_replicas != n_replicas or record.adding != adding or record.removing != removing:
        return False
    for s in range(n_replicas):
        if order[s] != s:
            return False
    return True


cdef inline int append_slots(uint64_t slots, uint8_t* order, int n) noexcept nogil:
    """Put some slots at the end of an order; returns its new length."""
    while slots:
        order[n] = <uint8_t> lowest_slot(slots)
        n += 1
        slots &= slots - 1
    return n


cdef inline int plan_order(
    row_t row, const int32_t[::1] targets, int begin, int end, uint8_t* order, uint64_t* adding,
    uint64_t* removing
) noexcept nogil:
    """`reassign_to` in slots: the full list F, then all others; returns the length of F."""
    cdef uint64_t origin = first_slots(row.record.n_replicas) & ~(<uint64_t> row.record.adding)
    cdef uint64_t wanted = 0
    cdef int n = 0
    cdef int at, slot, full
    for at in range(begin, end):
        slot = slot_of(row.brokers, row.record.n_slots, targets[at])
        if not wanted & bit(slot):
            wanted |= bit(slot)
            order[n] = <uint8_t> slot
            n += 1
    removing[0] = origin & ~wanted
    adding[0] = wanted & ~origin
    full = append_slots(origin & ~wanted, order, n)
    append_slots(first_slots(row.record.n_slots) & ~(wanted | origin), order, full)
    return full


def start_reassignments(
    columns_t columns,
    const int32_t[::1] rows,     # IN      (n,)    partition rows, each once
    const int32_t[::1] offsets,  # IN      (n+1,)  where each row's target list begins
    const int32_t[::1] targets,  # IN      (m,)    broker rows; each has a slot of its row
    uint64_t[::1] dropped,       # OUT     (n,)    slots that are not assigned any more
    int64_t[:, ::1] tally,       # IN OUT  (1, width)
):
    """Set the assignments with which reassignments to some targets begin.

    What is abandoned of an earlier plan is dropped from the assignment, but keeps its slot.

    Source: sections 1.3 (`reassign_to`) and 6.7, phase U.
    """
    columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    cdef uint8_t order[64]
    cdef int full
    cdef uint64_t adding, removing, assigned
    cdef bint imbalanced
    with nogil:
        for i in range(rows.shape[0]):
            if i + AHEAD < rows.shape[0]:
                prefetch_all(first, rows[i + AHEAD])
            row = row_at(first, rows[i])
            dropped[i] = 0
            full = plan_order(
                row, targets, offsets[i], offsets[i + 1], order, &adding, &removing
            )
            if is_in_place(row.record, order, full, adding, removing):
                continue
            imbalanced = is_imbalanced(row)
            assigned = first_slots(row.record.n_replicas)
            set_masks(row.record, row.record.isr, adding, removing, row.record.offline_dir)
            dropped[i] = permute_slots(row, order, assigned) & ~first_slots(full)
            row.record.n_replicas = <uint8_t> full
            row.record.flags |= FLAG_ASSIGNED
            if not topic_flags_of(row) & TOPIC_QUEUED:
                tally[0, TALLY_IMBALANCE] += is_imbalanced(row) - imbalanced


def assign_targets(
    columns_t columns,
    const int32_t[::1] rows,  # IN      (n,)    partition rows, each once
    uint64_t[::1] removed,    # OUT     (n,)    slots that the reassignment removes
    int64_t[:, ::1] tally,    # IN OUT  (1, width)
):
    """Make the targets the whole assignment; who is removed keeps a slot behind it.

    Source: section 6.7, step B2.
    """
    columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    cdef uint8_t order[64]
    cdef int full, n
    cdef uint64_t gone, assigned
    cdef bint imbalanced
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            imbalanced = is_imbalanced(row)
            assigned = first_slots(row.record.n_replicas)
            gone = assigned & row.record.removing
            full = append_slots(assigned & ~gone, order, 0)
            n = append_slots(gone, order, full)
            append_slots(first_slots(row.record.n_slots) & ~assigned, order, n)
            set_masks(row.record, row.record.isr, 0, 0, row.record.offline_dir)
            removed[i] = permute_slots(row, order, gone)
            row.record.n_replicas = <uint8_t> full
            if not topic_flags_of(row) & TOPIC_QUEUED:
                tally[0, TALLY_IMBALANCE] += is_imbalanced(row) - imbalanced


cdef inline uint8_t raise_epoch(record_t* record, int controller_epoch) noexcept nogil:
    """Write the record with the next leader epoch, unless it is missing or another's."""
    if not record.flags & FLAG_HAS_LEADERSHIP:
        return NO_RECORD
    if record.controller_epoch > controller_epoch:
        return NEWER_CONTROLLER
    record.leader_epoch += 1
    record.version += 1
    record.controller_epoch = controller_epoch
    return MOVED


def touch(
    columns_t columns,
    const int32_t[::1] rows,     # IN      (n,)    partition rows, each once
    const uint64_t[::1] others,  # IN      (n,)    slots to tell besides; or (0,)
    int controller_epoch,
    bint separate_added,         # tell those that are added that they are new
    uint8_t[::1] codes,          # OUT     (n,)    MOVED, NO_RECORD or NEWER_CONTROLLER
    Effect[::1] effects,         # OUT     (2n,)   one or two for each that moved; or (0,)
    int64_t[:, ::1] tally,       # IN OUT  (1, width)
):
    """Raise the leader epoch of some partitions and tell all their replicas.

    Returns how many effects there are: for each partition what the origin is told, and what those
    are told that are being added.

    Source: section 6.6.
    """
    columns.check_writable()
    first = columns.first
    cdef Py_ssize_t i
    cdef Py_ssize_t n_kept = 0
    cdef uint64_t told
    with nogil:
        for i in range(rows.shape[0]):
            row = row_at(first, rows[i])
            codes[i] = raise_epoch(row.record, controller_epoch)
            if codes[i] != MOVED:
                continue
            told = first_slots(row.record.n_replicas)
            if others.shape[0]:
                told |= others[i]
            tally[0, TALLY_METADATA] += 1
            count_requests(&tally[0, TALLY_BROKERS], row.brokers, told)
            if effects.shape[0]:
                n_kept += announce(
                    row, topic_flags_of(row), told, row.record.adding if separate_added else 0,
                    separate_added, &effects[n_kept],
                )
    return n_kept


cdef inline int announce(
    row_t row, uint8_t flags, uint64_t told, uint64_t added, bint separate_added, Effect* effects
) noexcept nogil:
    """What the old replicas are told, and apart from it what those are that are being added."""
    cdef int n = 2 if separate_added else 1
    cdef int i
    for i in range(n):
        begin_effect(&effects[i], row, -1, 0, 0, flags)
        effects[i].code = NOT_ASKED
        effects[i].kinds |= KIND_LEADER_AND_ISR | (KIND_IS_NEW if i else 0)
        effects[i].recipients = added if i else told & ~added
        carry_record(&effects[i], row.record)
    return n
