"""From flat columns to slots and masks, and back: every column an int32, none of them a list.

A column for each slot has broker ids, a mask speaks of slots, and `states` has octal digits: the
lowest is the partition's state and 1, the next are the states of slots 0, 1, ... What these kernels
do not take as it is (they say which row) is left to the form with lists, which takes everything.
"""

from libc.stdint cimport int8_t, int32_t, uint8_t, uint32_t

from kfast.kernels.slots cimport (
    FLAG_ASSIGNED,
    FLAG_HAS_LEADERSHIP,
    NO_SLOT,
    P_NON_EXISTENT,
    broker_t,
    const_record_t,
    first_slots,
    record_t,
    slot_of,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    ConstNarrowRecord,  # no-cython-lint
    ConstWideRecord,  # no-cython-lint
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)

cdef enum:
    ODD_N_REPLICAS = 1
    ODD_FLAGS = 2
    ODD_ADDING = 4
    ODD_REMOVING = 8
    ODD_OFFLINE_DIR = 16


# The columns of a flat table that is made, for one call.
cdef struct FlatLists:
    int32_t* slots[8]
    int32_t* leader
    int32_t* leader_epoch
    int32_t* version
    int32_t* controller_epoch
    int32_t* isr
    int32_t* states


# The columns of a flat table that is read, for one call.
cdef struct FlatColumns:
    const int32_t* slots[8]
    const int32_t* topic_row
    const int32_t* partition
    const int32_t* leader
    const int32_t* leader_epoch
    const int32_t* version
    const int32_t* controller_epoch
    const int32_t* isr
    const int32_t* states
    const int32_t* place
    Py_ssize_t n_rows
    uint32_t n_ids


cdef inline bint is_mask_of(int32_t mask, int n) noexcept nogil:
    """Whether a mask speaks of the first n slots only."""
    return mask >= 0 and not mask & ~(<int32_t> first_slots(n))


cdef inline int place_slots(
    const FlatColumns* columns, Py_ssize_t row, int width, broker_t* brokers
) noexcept nogil:
    """Fill the slots of a partition; returns how many are in use, -1 where they cannot be."""
    cdef int32_t broker
    cdef int s, other
    cdef int n = 0
    cdef bint wrong = False
    for s in range(width):
        broker = columns.slots[s][row]
        if broker == -1:
            brokers[s] = <broker_t> -1
            continue
        # What is below 0 is beyond all ids as an unsigned number.
        broker = columns.place[broker] if <uint32_t> broker < columns.n_ids else -1
        wrong |= broker < 0 or n != s
        for other in range(s):
            wrong |= <int32_t> brokers[other] == broker
        brokers[s] = <broker_t> broker
        n += 1
    return -1 if wrong else n


cdef inline bint is_in_order(const FlatColumns* columns, Py_ssize_t row) noexcept nogil:
    """Whether topics and partitions ascend up to here."""
    cdef int32_t topic = columns.topic_row[row]
    if row == 0 or topic > columns.topic_row[row - 1]:
        return True
    return topic == columns.topic_row[row - 1] and (
        columns.partition[row] > columns.partition[row - 1]
    )


cdef inline bint fill_row(
    const FlatColumns* columns, Py_ssize_t row, int width, record_t* record, broker_t* brokers,
    uint8_t* states
) noexcept nogil:
    """Fill one partition, every slot assigned; returns whether that could be done."""
    cdef int32_t broker = columns.leader[row]
    cdef uint32_t digits = <uint32_t> columns.states[row]
    cdef int partition_state = <int> (digits & 7) - 1
    cdef int n = place_slots(columns, row, width, brokers)
    cdef int s
    if n < 0 or columns.partition[row] < 0 or not is_mask_of(columns.isr[row], n):
        return False
    if partition_state > P_NON_EXISTENT or digits >> (3 * n + 3):
        return False
    if broker == columns.slots[0][row] and n:
        broker = <int32_t> brokers[0]
    elif broker >= 0:
        if <uint32_t> broker >= columns.n_ids:
            return False
        broker = columns.place[broker]
        if slot_of(brokers, n, broker) == NO_SLOT:
            return False
    elif broker != -1:
        return False
    for s in range(width):
        digits >>= 3
        states[s] = digits & 7
    record.leader = broker
    record.leader_epoch = columns.leader_epoch[row]
    record.version = columns.version[row]
    record.controller_epoch = columns.controller_epoch[row]
    record.isr = <uint8_t> columns.isr[row]
    record.adding = 0
    record.removing = 0
    record.offline_dir = 0
    record.n_replicas = <uint8_t> n
    record.n_slots = <uint8_t> n
    record.partition_state = <int8_t> partition_state
    record.flags = FLAG_ASSIGNED | FLAG_HAS_LEADERSHIP
    return True


cdef inline Py_ssize_t fill_all(
    FlatColumns columns, int width, record_t* records, broker_t* replicas, uint8_t* states
) noexcept nogil:
    """Fill every partition; returns the first that cannot be, -1 for none."""
    cdef Py_ssize_t row
    for row in range(columns.n_rows):
        if not is_in_order(&columns, row) or not fill_row(
            &columns, row, width, &records[row], &replicas[row * width], &states[row * width]
        ):
            return row
    return -1


def fill_rows(
    slots,                                # S arrays IN (P,)  broker ids of a slot, -1 for none
    const int32_t[::1] topic_row,         # IN   (P,)    row of the topic
    const int32_t[::1] partition,         # IN   (P,)    partition number
    const int32_t[::1] leader,            # IN   (P,)    broker id, -1 for none
    const int32_t[::1] leader_epoch,      # IN   (P,)
    const int32_t[::1] version,           # IN   (P,)
    const int32_t[::1] controller_epoch,  # IN   (P,)
    const int32_t[::1] isr,               # IN   (P,)    mask
    const int32_t[::1] states,            # IN   (P,)    octal: partition, slot 0, slot 1, ...
    const int32_t[::1] place,             # IN   (n,)    broker row of each id, -1: unknown
    record_t[::1] records,                # OUT  (P,)    hot records
    broker_t[:, ::1] replicas,            # OUT  (P, S)  broker rows
    uint8_t[:, ::1] replica_state,        # OUT  (P, S)  `schema.ReplicaState`
):
    """Fill a state's columns, every slot assigned and every partition with leadership.

    Returns the first row that is not as those of a table in order are (topics and partitions
    ascending, each once; brokers known, each once; leader and ISR among the replicas); -1 for none.
    """
    cdef FlatColumns columns
    cdef const int32_t[::1] column
    cdef Py_ssize_t wrong
    cdef int width = <int> replicas.shape[1]
    cdef int s
    if not topic_row.shape[0]:
        return -1
    for s in range(width):
        column = slots[s]
        columns.slots[s] = &column[0]
    columns.topic_row, columns.partition = &topic_row[0], &partition[0]
    columns.leader, columns.leader_epoch = &leader[0], &leader_epoch[0]
    columns.version, columns.controller_epoch = &version[0], &controller_epoch[0]
    columns.isr, columns.states, columns.place = &isr[0], &states[0], &place[0]
    columns.n_rows, columns.n_ids = topic_row.shape[0], <uint32_t> place.shape[0]
    # The compiler unrolls the loops over the slots of the commonest width.
    with nogil:
        if width == 3:
            wrong = fill_all(columns, 3, &records[0], &replicas[0, 0], &replica_state[0, 0])
        else:
            wrong = fill_all(columns, width, &records[0], &replicas[0, 0], &replica_state[0, 0])
    return wrong


def fill_optional(
    const int32_t[::1] n_replicas,   # IN      (P,) or (0,)  assigned replicas; empty: all slots
    const int32_t[::1] flags,        # IN      (P,) or (0,)  empty: assigned, with leadership
    const int32_t[::1] adding,       # IN      (P,) or (0,)  mask; empty: none
    const int32_t[::1] removing,     # IN      (P,) or (0,)  mask; empty: none
    const int32_t[::1] offline_dir,  # IN      (P,) or (0,)  mask; empty: none
    record_t[::1] records,           # IN OUT  (P,)
):
    """Fill in what few partitions have; returns the first row at fault, -1 for none."""
    cdef Py_ssize_t row
    cdef int32_t wrong = -1
    cdef int32_t masks[3]
    cdef int n, at
    with nogil:
        for row in range(records.shape[0]):
            n = records[row].n_slots
            masks[0] = adding[row] if adding.shape[0] else 0
            masks[1] = removing[row] if removing.shape[0] else 0
            masks[2] = offline_dir[row] if offline_dir.shape[0] else 0
            for at in range(3):
                if not is_mask_of(masks[at], n):
                    wrong = <int32_t> row
            if n_replicas.shape[0]:
                if not 0 <= n_replicas[row] <= n:
                    wrong = <int32_t> row
                records[row].n_replicas = <uint8_t> n_replicas[row]
            if flags.shape[0]:
                if not 0 <= flags[row] <= 15:
                    wrong = <int32_t> row
                records[row].flags = <uint8_t> flags[row]
            if wrong >= 0:
                break
            records[row].adding = <uint8_t> masks[0]
            records[row].removing = <uint8_t> masks[1]
            records[row].offline_dir = <uint8_t> masks[2]
    return wrong


cdef inline int list_all(
    FlatLists lists, Py_ssize_t n_rows, int width, const record_t* records,
    const broker_t* replicas, const uint8_t* states, const int32_t* broker_id
) noexcept nogil:
    """Take every partition apart; returns which of the columns that few need say something."""
    cdef Py_ssize_t row
    cdef const record_t* record
    cdef const broker_t* brokers
    cdef uint32_t digits
    cdef int s
    cdef int odd = 0
    for row in range(n_rows):
        record = &records[row]
        brokers = &replicas[row * width]
        digits = <uint32_t> (record.partition_state + 1)
        for s in range(width):
            if s < record.n_slots:
                lists.slots[s][row] = broker_id[brokers[s]]
                digits |= <uint32_t> states[row * width + s] << (3 * s + 3)
            else:
                lists.slots[s][row] = -1
        lists.leader[row] = broker_id[record.leader] if record.leader >= 0 else record.leader
        lists.leader_epoch[row] = record.leader_epoch
        lists.version[row] = record.version
        lists.controller_epoch[row] = record.controller_epoch
        lists.isr[row] = <int32_t> record.isr
        lists.states[row] = <int32_t> digits
        odd |= ODD_N_REPLICAS if record.n_replicas != record.n_slots else 0
        odd |= ODD_FLAGS if record.flags != (FLAG_ASSIGNED | FLAG_HAS_LEADERSHIP) else 0
        odd |= ODD_ADDING if record.adding else 0
        odd |= ODD_REMOVING if record.removing else 0
        odd |= ODD_OFFLINE_DIR if record.offline_dir else 0
    return odd


def list_rows(
    slots,                             # S arrays OUT (P,)  broker ids of a slot, -1 for none
    const_record_t[::1] records,       # IN   (P,)    hot records
    const broker_t[:, ::1] replicas,   # IN   (P, S)  broker rows
    const uint8_t[:, ::1] replica_state,  # IN  (P, S)  `schema.ReplicaState`
    const int32_t[::1] broker_id,      # IN   (B,)    ids
    int32_t[::1] leader,               # OUT  (P,)    broker id, -1 for none
    int32_t[::1] leader_epoch,         # OUT  (P,)
    int32_t[::1] version,              # OUT  (P,)
    int32_t[::1] controller_epoch,     # OUT  (P,)
    int32_t[::1] isr,                  # OUT  (P,)    mask
    int32_t[::1] states,               # OUT  (P,)    octal: partition, slot 0, slot 1, ...
):
    """Columns of a state.

    Returns which of the others say something, a bit each: n_replicas 1, flags 2, adding 4,
    removing 8, offline_dir 16.
    """
    cdef FlatLists lists
    cdef int32_t[::1] column
    cdef Py_ssize_t n_rows = records.shape[0]
    cdef int width = <int> replicas.shape[1]
    cdef int s, odd
    if not n_rows:
        return 0
    for s in range(width):
        column = slots[s]
        lists.slots[s] = &column[0]
    lists.leader, lists.leader_epoch, lists.version = &leader[0], &leader_epoch[0], &version[0]
    lists.controller_epoch, lists.isr = &controller_epoch[0], &isr[0]
    lists.states = &states[0]
    with nogil:
        if width == 3:
            odd = list_all(lists, n_rows, 3, &records[0], &replicas[0, 0], &replica_state[0, 0],
                           &broker_id[0])
        else:
            odd = list_all(lists, n_rows, width, &records[0], &replicas[0, 0], &replica_state[0, 0],
                           &broker_id[0])
    return odd
