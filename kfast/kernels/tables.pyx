"""From list columns to slots and masks, and back.

A list column is a pair (offsets, values), as Arrow has it; values are broker rows on the way in
and broker ids on the way out.
"""

from libc.stdint cimport int8_t, int32_t, uint8_t, uint64_t

from kfast.kernels.slots cimport (
    NO_SLOT,
    bit,
    broker_t,
    const_record_t,
    kfast_count,
    kfast_lowest,
    record_t,
    slot_of,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    ConstNarrowRecord,  # no-cython-lint
    ConstWideRecord,  # no-cython-lint
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)
from kfast.kernels.permute cimport set_masks


def count_slots(
    const int32_t[:, ::1] offsets,  # IN   (L, P+1)  per list column: where each row's list begins
    const int32_t[::1] values,      # IN   (m,)      broker rows of all columns
    const int32_t[::1] leader,      # IN   (P,)      broker row, -1 for none
    uint8_t[::1] n_slots,           # OUT  (P,)      different brokers that each row names
    int32_t[::1] wrong,             # OUT  (3,)      row, list column and broker row at fault
):
    """Count the brokers that each partition names, over all of its list columns.

    Returns 0; or 1 where a list names a broker twice, 2 where a row names more than 64 brokers.
    """
    cdef Py_ssize_t row, i
    cdef int column, n, at
    cdef int32_t seen[64]
    cdef int32_t value
    for row in range(leader.shape[0]):
        n = 0
        for column in range(offsets.shape[0] + 1):
            if column == offsets.shape[0]:
                if leader[row] >= 0 and slot_of(seen, n, leader[row]) == NO_SLOT:
                    if n == 64:
                        wrong[0] = <int32_t> row
                        return 2
                    seen[n] = leader[row]
                    n += 1
                continue
            for i in range(offsets[column, row], offsets[column, row + 1]):
                value = values[i]
                for at in range(offsets[column, row], <int> i):
                    if values[at] == value:
                        wrong[0] = <int32_t> row
                        wrong[1] = column
                        wrong[2] = value
                        return 1
                if slot_of(seen, n, value) == NO_SLOT:
                    if n == 64:
                        wrong[0] = <int32_t> row
                        return 2
                    seen[n] = value
                    n += 1
        n_slots[row] = n
    return 0


cdef inline int slot_for(record_t* record, broker_t* brokers, int32_t broker) noexcept nogil:
    """Slot of a broker; a new one where it has none (the matrix is wide enough)."""
    cdef int slot = slot_of(brokers, record.n_slots, broker)
    if slot == NO_SLOT:
        slot = record.n_slots
        brokers[slot] = <broker_t> broker
        record.n_slots += 1
    return slot


def fill_slots(
    record_t[::1] records,          # IN OUT  (P,)      leader is read; slots and masks are written
    broker_t[:, ::1] replicas,      # OUT     (P, S)    broker rows
    uint8_t[:, ::1] replica_state,  # OUT     (P, S)    `schema.ReplicaState`
    const int32_t[:, ::1] offsets,  # IN      (L, P+1)  per list column: where each list begins
    const int32_t[::1] lists,       # IN      (L,)      which column each is, ascending: 0 replicas,
                                    #                   1 isr, 2 adding, 3 removing, 4 offline_dir,
                                    #                   5 brokers with a state, 6 elr
    const int32_t[::1] values,      # IN      (m,)      broker rows of all columns
    const int8_t[::1] states,       # IN      (k,)      states of column 5, in its order
):
    """Lay the brokers that each partition names out in slots, the assigned replicas first."""
    cdef Py_ssize_t row, i
    cdef uint64_t masks[7]
    cdef int column, at, slot
    for row in range(records.shape[0]):
        for column in range(7):
            masks[column] = 0
        for at in range(lists.shape[0]):
            column = lists[at]
            for i in range(offsets[at, row], offsets[at, row + 1]):
                slot = slot_for(&records[row], &replicas[row, 0], values[i])
                masks[column] |= bit(slot)
                if column == 5:
                    replica_state[row, slot] = <uint8_t> states[i - offsets[at, 0]]
        if records[row].leader >= 0:
            slot_for(&records[row], &replicas[row, 0], records[row].leader)
        records[row].n_replicas = <uint8_t> kfast_count(masks[0])
        set_masks(&records[row], masks[1], masks[2], masks[3], masks[4])


def masks_of(
    const broker_t[:, ::1] replicas,  # IN   (P, S)  broker rows
    const_record_t[::1] records,      # IN   (P,)    hot records
    const int32_t[::1] rows,          # IN   (n,)    partition rows
    const int32_t[::1] offsets,       # IN   (n+1,)  where each row's list begins
    const int32_t[::1] values,        # IN   (m,)    broker rows; -1 for an unknown broker
    uint64_t[::1] masks,              # OUT  (n,)    slots of the listed brokers
    uint8_t[::1] unknown,             # OUT  (n,)    1: a listed broker has no slot
):
    """Make a mask of slots from each list of brokers."""
    cdef Py_ssize_t i, at
    cdef int slot
    for i in range(rows.shape[0]):
        masks[i] = 0
        unknown[i] = 0
        for at in range(offsets[i], offsets[i + 1]):
            slot = slot_of(&replicas[rows[i], 0], records[rows[i]].n_slots, values[at])
            if slot == NO_SLOT:
                unknown[i] = 1
            else:
                masks[i] |= bit(slot)


def measure_lists(
    const uint64_t[::1] masks,  # IN   (n,)
    int32_t[::1] offsets,       # OUT  (n+1,)  where each list will begin
):
    """Offsets of the lists that `expand_masks` will make."""
    cdef Py_ssize_t i
    cdef int32_t at = 0
    with nogil:
        offsets[0] = 0
        for i in range(masks.shape[0]):
            at += kfast_count(masks[i])
            offsets[i + 1] = at


def expand_masks(
    const broker_t[:, ::1] replicas,  # IN   (P, S)  broker rows
    const int32_t[::1] broker_id,     # IN   (B,)    ids
    const int32_t[::1] rows,          # IN   (n,)    partition rows
    const uint64_t[::1] masks,        # IN   (n,)    slots to list, per row
    int32_t[::1] values,              # OUT  (m,)    ids, in slot order
):
    """List the broker ids of some slots of each row."""
    cdef Py_ssize_t i
    cdef Py_ssize_t at = 0
    cdef uint64_t left
    with nogil:
        for i in range(rows.shape[0]):
            left = masks[i]
            while left:
                values[at] = broker_id[replicas[rows[i], kfast_lowest(left)]]
                left &= left - 1
                at += 1


def mask_states(
    const_record_t[::1] records,          # IN   (P,)    hot records
    const uint8_t[:, ::1] replica_state,  # IN   (P, S)  `schema.ReplicaState`
    uint64_t[::1] masks,                  # OUT  (P,)    slots that have an entry
):
    """Which slots of each partition have a replica state."""
    cdef Py_ssize_t row
    cdef int s
    with nogil:
        for row in range(records.shape[0]):
            masks[row] = 0
            for s in range(records[row].n_slots):
                masks[row] |= (<uint64_t> (replica_state[row, s] != 0)) << s


def expand_states(
    const uint8_t[:, ::1] replica_state,  # IN   (P, S)  `schema.ReplicaState`
    const int32_t[::1] rows,              # IN   (n,)    partition rows
    const uint64_t[::1] masks,            # IN   (n,)    slots to list, per row
    int8_t[::1] values,                   # OUT  (m,)    states, in slot order
):
    """List the replica states of some slots of each row."""
    cdef Py_ssize_t i
    cdef Py_ssize_t at = 0
    cdef uint64_t left
    with nogil:
        for i in range(rows.shape[0]):
            left = masks[i]
            while left:
                values[at] = <int8_t> replica_state[rows[i], kfast_lowest(left)]
                left &= left - 1
                at += 1


cdef inline bint is_in(
    int32_t value, const int32_t[::1] values, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """Whether a value stands in a part of an array."""
    cdef Py_ssize_t i
    for i in range(begin, end):
        if values[i] == value:
            return True
    return False


def list_dead(
    const int32_t[::1] replica_at,  # IN   (n+1,)  where each row's list of replicas begins
    const int32_t[::1] replicas,    # IN   (r,)    broker ids
    const int32_t[::1] isr_at,      # IN   (n+1,)  where each row's ISR begins
    const int32_t[::1] isr,         # IN   (i,)    broker ids
    const int32_t[::1] live_at,     # IN   (n+1,)  where each row's list of live brokers begins
    const int32_t[::1] live,        # IN   (l,)    broker ids
    const uint8_t[::1] known,       # IN   (n,)    1: the list of live brokers is there
    int32_t[::1] dead_at,           # OUT  (n+1,)  where each row's list of the dead begins
    int32_t[::1] dead,              # OUT  (r+i,)  broker ids
):
    """List the replicas and members of the ISR that are not live, each once; return how many."""
    cdef Py_ssize_t row, i
    cdef int32_t n = 0
    with nogil:
        dead_at[0] = 0
        for row in range(known.shape[0]):
            if known[row]:
                for i in range(replica_at[row], replica_at[row + 1]):
                    if not is_in(replicas[i], live, live_at[row], live_at[row + 1]):
                        dead[n] = replicas[i]
                        n += 1
                for i in range(isr_at[row], isr_at[row + 1]):
                    if is_in(isr[i], replicas, replica_at[row], replica_at[row + 1]):
                        continue
                    if not is_in(isr[i], live, live_at[row], live_at[row + 1]):
                        dead[n] = isr[i]
                        n += 1
            dead_at[row + 1] = n
    return n
