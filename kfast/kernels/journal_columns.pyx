"""Columns of kept effects, laid out as Arrow lays them out; the journal's tables share them.

Effects are read block by block, and each column of a block is written in one run. What is the same
everywhere is not written at all: a number that all effects share is given back as a number, and
lists that are all of one length need no offsets. Most columns of an event are of that kind.

Source: docs/controller.md, section 5.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kfast.kernels.kept cimport NarrowKept, WideKept, broker_at, id_of, kept_t, put_ids
from kfast.kernels.slots cimport KIND_LEADER_AND_ISR, first_slots

# Effects of one block, whose columns lie in the nearest cache meanwhile; bytes of a name that are
# copied at a time.
cdef enum:
    BLOCK = 256
    NARROW_SLOTS = 8
    NAME_BYTES = 16

# Names of partition states stand behind those of replica states.
cdef enum:
    PARTITION_NAMES = 8

# Numbers and lists that an effect has; `kfast.journal.spread` has their names in this order.
cdef enum:
    TOPIC = 0
    PARTITION = 1
    BROKER = 2
    FROM_STATE = 3
    TO_STATE = 4
    CODE = 5
    LEADER_BEFORE = 6
    LEADER = 7
    LEADER_EPOCH = 8
    VERSION = 9
    CONTROLLER_EPOCH = 10
    STOP_EPOCH = 11
    RECOVERY = 12
    KINDS = 13
    ROW = 14
    N_NUMBERS = 15

cdef enum:
    ISR = 0
    REPLICAS = 1
    RECIPIENTS = 2
    OFFLINE = 3
    ISR_BEFORE = 4
    ADDING = 5
    REMOVING = 6
    N_LISTS = 7

# A column of numbers, as far as it has come.
cdef struct Number:
    int32_t* out
    int32_t value
    bint same

# A column of lists of ids, as far as it has come.
cdef struct Lists:
    int32_t* values
    int32_t* offsets
    int32_t end
    int32_t length
    bint same

cdef struct Plan:
    Number[N_NUMBERS] numbers
    Lists[N_LISTS] lists
    const int32_t* broker_id
    int n_slots
    bint only_leads
    bint any_lists


cdef inline void write_numbers(
    Number* column, const int32_t* block, Py_ssize_t begin, Py_ssize_t n
) noexcept nogil:
    """One block of a column; nothing is written as long as all is the same."""
    cdef Py_ssize_t i
    cdef int32_t differs = 0
    if begin == 0:
        column.value = block[0] if n else 0
    if column.same:
        for i in range(n):
            differs |= block[i] ^ column.value
        if not differs:
            return
        for i in range(begin):
            column.out[i] = column.value
        column.same = False
    memcpy(column.out + begin, block, n * sizeof(int32_t))


cdef inline void spread_ints(
    Number* column, const int32_t* first, Py_ssize_t stride, Py_ssize_t begin, Py_ssize_t n
) noexcept nogil:
    cdef int32_t block[BLOCK]
    cdef Py_ssize_t i
    if column.out != NULL:
        for i in range(n):
            block[i] = (<const int32_t*> (<const uint8_t*> first + i * stride))[0]
        write_numbers(column, block, begin, n)


cdef inline void spread_ids(
    Number* column, const int32_t* first, Py_ssize_t stride, Py_ssize_t begin, Py_ssize_t n,
    const int32_t* broker_id
) noexcept nogil:
    """Ids of broker rows."""
    cdef int32_t block[BLOCK]
    cdef Py_ssize_t i
    if column.out != NULL:
        for i in range(n):
            block[i] = id_of(
                broker_id, (<const int32_t*> (<const uint8_t*> first + i * stride))[0]
            )
        write_numbers(column, block, begin, n)


cdef inline void spread_bytes(
    Number* column, const uint8_t* first, Py_ssize_t stride, Py_ssize_t begin, Py_ssize_t n
) noexcept nogil:
    cdef int32_t block[BLOCK]
    cdef Py_ssize_t i
    if column.out != NULL:
        for i in range(n):
            block[i] = first[i * stride]
        write_numbers(column, block, begin, n)


cdef inline void spread_states(
    Number* column, const int8_t* first, const int32_t* brokers, Py_ssize_t stride,
    Py_ssize_t begin, Py_ssize_t n
) noexcept nogil:
    """Numbers of the states' names; no broker means that the state is a partition's."""
    cdef int32_t block[BLOCK]
    cdef Py_ssize_t i
    cdef int32_t broker
    if column.out != NULL:
        for i in range(n):
            broker = (<const int32_t*> (<const uint8_t*> brokers + i * stride))[0]
            block[i] = first[i * stride] + (PARTITION_NAMES if broker < 0 else 0)
        write_numbers(column, block, begin, n)


cdef inline void spread_numbers(
    Plan* plan, const kept_t* kept, Py_ssize_t stride, Py_ssize_t begin, Py_ssize_t n
) noexcept nogil:
    """All numbers of one block that are wanted."""
    cdef Number* to = plan.numbers
    cdef const int32_t* ids = plan.broker_id
    spread_ints(&to[TOPIC], &kept.topic_row, stride, begin, n)
    spread_ints(&to[PARTITION], &kept.partition, stride, begin, n)
    spread_ids(&to[BROKER], &kept.broker, stride, begin, n, ids)
    spread_states(&to[FROM_STATE], &kept.from_state, &kept.broker, stride, begin, n)
    spread_states(&to[TO_STATE], &kept.to_state, &kept.broker, stride, begin, n)
    spread_bytes(&to[CODE], &kept.code, stride, begin, n)
    spread_ids(&to[LEADER_BEFORE], &kept.leader_before, stride, begin, n, ids)
    spread_ids(&to[LEADER], &kept.leader, stride, begin, n, ids)
    spread_ints(&to[LEADER_EPOCH], &kept.leader_epoch, stride, begin, n)
    spread_ints(&to[VERSION], &kept.version, stride, begin, n)
    spread_ints(&to[CONTROLLER_EPOCH], &kept.controller_epoch, stride, begin, n)
    spread_ints(&to[STOP_EPOCH], &kept.stop_epoch, stride, begin, n)
    spread_bytes(&to[RECOVERY], &kept.recovery, stride, begin, n)
    spread_bytes(&to[KINDS], &kept.kinds, stride, begin, n)
    spread_ints(&to[ROW], &kept.row, stride, begin, n)


cdef inline void end_lists(
    Lists* lists, const int32_t* ends, Py_ssize_t begin, Py_ssize_t n
) noexcept nogil:
    """Where the lists of one block end; no offset is written as long as all have one length."""
    cdef Py_ssize_t i
    cdef int32_t differs = 0
    if begin == 0:
        lists.length = ends[0]
    if lists.same:
        for i in range(n):
            differs |= ends[i] ^ <int32_t> ((begin + i + 1) * lists.length)
    if differs:
        for i in range(begin + 1):
            lists.offsets[i] = <int32_t> (i * lists.length)
        lists.same = False
    if not lists.same:
        memcpy(lists.offsets + begin + 1, ends, n * sizeof(int32_t))
    lists.end = ends[n - 1]


cdef inline uint64_t slots_of(
    const Plan* plan, const kept_t* kept, const uint8_t* field, bint counted
) noexcept nogil:
    """The slots that a list names: a field says which or, `counted`, how many."""
    if plan.only_leads and not kept.kinds & KIND_LEADER_AND_ISR:
        return 0
    if counted:
        return first_slots(field[0])
    if kept_t is NarrowKept:
        return field[0]
    else:
        return (<const uint64_t*> field)[0]


cdef inline int32_t put_of_three(
    const int32_t* ids, uint64_t slots, int32_t* values, int32_t at
) noexcept nogil:
    """Every id is written and the wanted ones are counted: no branch to guess wrong."""
    values[at] = ids[0]
    at += slots & 1
    values[at] = ids[1]
    at += (slots >> 1) & 1
    values[at] = ids[2]
    return at + <int32_t> ((slots >> 2) & 1)


cdef inline int32_t put_of_few(
    const int32_t* ids, int n_slots, uint64_t slots, int32_t* values, int32_t at
) noexcept nogil:
    """The same of other numbers of slots."""
    cdef int s
    for s in range(n_slots):
        values[at] = ids[s]
        at += (slots >> s) & 1
    return at


cdef inline void spread_lists(
    const Plan* plan, Lists* lists, const kept_t* kept, const uint8_t* field, bint counted,
    Py_ssize_t stride, Py_ssize_t begin, Py_ssize_t n, const int32_t* ids
) noexcept nogil:
    """The lists of one block; where slots are few, their ids have been looked up."""
    cdef int32_t ends[BLOCK]
    cdef int32_t at = lists.end
    cdef Py_ssize_t i
    cdef uint64_t slots
    if lists.values == NULL:
        return
    for i in range(n):
        slots = slots_of(plan, kept, field, counted)
        if kept_t is WideKept:
            at = put_ids(kept, plan.broker_id, slots, plan.n_slots, lists.values, at)
        elif plan.n_slots == 3:
            at = put_of_three(ids, slots, lists.values, at)
            ids += 3
        else:
            at = put_of_few(ids, plan.n_slots, slots, lists.values, at)
            ids += plan.n_slots
        ends[i] = at
        field += stride
        kept = <const kept_t*> (<const uint8_t*> kept + stride)
    end_lists(lists, ends, begin, n)


cdef inline void look_up(
    const Plan* plan, const kept_t* kept, Py_ssize_t stride, Py_ssize_t n, int32_t* ids
) noexcept nogil:
    """The ids of all slots of one block."""
    cdef const uint8_t* first = <const uint8_t*> kept
    cdef Py_ssize_t i
    cdef int s
    for i in range(n):
        kept = <const kept_t*> (first + i * stride)
        for s in range(plan.n_slots):
            ids[i * plan.n_slots + s] = plan.broker_id[broker_at(kept, s)]


cdef void spread_all(
    const kept_t* kept, const uint8_t[:, ::1] effects, Plan* plan
) noexcept nogil:
    cdef int32_t ids[NARROW_SLOTS * BLOCK]
    cdef Py_ssize_t stride = effects.shape[1]
    cdef Py_ssize_t begin = 0
    cdef Py_ssize_t n
    cdef Lists* to = plan.lists
    while begin < effects.shape[0]:
        n = min(<Py_ssize_t> BLOCK, effects.shape[0] - begin)
        kept = <const kept_t*> &effects[begin, 0]
        spread_numbers(plan, kept, stride, begin, n)
        if plan.any_lists and kept_t is NarrowKept:
            look_up(plan, kept, stride, n, ids)
        spread_lists(plan, &to[ISR], kept, <const uint8_t*> &kept.isr, False, stride, begin, n,
                     ids)
        spread_lists(plan, &to[REPLICAS], kept, &kept.n_replicas, True, stride, begin, n, ids)
        spread_lists(plan, &to[RECIPIENTS], kept, <const uint8_t*> &kept.recipients, False, stride,
                     begin, n, ids)
        spread_lists(plan, &to[OFFLINE], kept, <const uint8_t*> &kept.offline, False, stride,
                     begin, n, ids)
        spread_lists(plan, &to[ISR_BEFORE], kept, <const uint8_t*> &kept.isr_before, False, stride,
                     begin, n, ids)
        spread_lists(plan, &to[ADDING], kept, <const uint8_t*> &kept.adding, False, stride, begin,
                     n, ids)
        spread_lists(plan, &to[REMOVING], kept, <const uint8_t*> &kept.removing, False, stride,
                     begin, n, ids)
        begin += n


def spread(
    const uint8_t[:, ::1] effects,   # IN   (n, w)    kept effects, at least one
    bint wide,                       # the layout they are kept in
    int n_slots,                     # slots of each
    const int32_t[::1] broker_id,    # IN   (B,)      ids
    bint only_leads,                 # lists of effects without a LeaderAndIsr are empty
    const int32_t[::1] which,        # IN   (k,)      the numbers that are wanted
    const int32_t[::1] which_lists,  # IN   (l,)      the lists that are wanted
    int32_t[:, ::1] numbers,         # OUT  (k, n)    not written where all are the same
    int32_t[:, ::1] offsets,         # OUT  (l, n+1)  not written where all have one length
    int32_t[:, ::1] values,          # OUT  (l, nS)   ids
    int64_t[:, ::1] found,           # OUT  (k+l, 3)  1: all are the same; the number or length;
                                     #                where the values of a list end
):
    """Columns of kept effects: numbers, with ids for broker rows, and lists of ids."""
    cdef Plan plan
    cdef Py_ssize_t k
    for k in range(N_NUMBERS):
        plan.numbers[k] = Number(out=NULL, value=0, same=True)
    for k in range(N_LISTS):
        plan.lists[k] = Lists(values=NULL, offsets=NULL, end=0, length=0, same=True)
    for k in range(which.shape[0]):
        plan.numbers[which[k]].out = &numbers[k, 0]
    for k in range(which_lists.shape[0]):
        plan.lists[which_lists[k]].values = &values[k, 0]
        plan.lists[which_lists[k]].offsets = &offsets[k, 0]
    plan.broker_id = &broker_id[0]
    plan.n_slots = n_slots
    plan.only_leads = only_leads
    plan.any_lists = which_lists.shape[0] != 0
    with nogil:
        if wide:
            spread_all[WideKept](NULL, effects, &plan)
        else:
            spread_all[NarrowKept](NULL, effects, &plan)
    for k in range(which.shape[0]):
        found[k, 0] = plan.numbers[which[k]].same
        found[k, 1] = plan.numbers[which[k]].value
    for k in range(which_lists.shape[0]):
        found[which.shape[0] + k, 0] = plan.lists[which_lists[k]].same
        found[which.shape[0] + k, 1] = plan.lists[which_lists[k]].length
        found[which.shape[0] + k, 2] = plan.lists[which_lists[k]].end


def take_numbers(
    list columns,               # IN   k of (n,) int32
    const int32_t[::1] places,  # IN   (m,)
    int32_t[:, ::1] taken,      # OUT  (k, m)
):
    """Some rows of columns of numbers."""
    cdef const int32_t[::1] column
    cdef Py_ssize_t i, k
    for k in range(len(columns)):
        column = columns[k]
        with nogil:
            for i in range(places.shape[0]):
                taken[k, i] = column[places[i]]


def take_lists(
    const int32_t[::1] offsets,   # IN   (n+1,)  or (0,): all are of one length
    int32_t length,               # then this
    const int32_t[::1] values,    # IN   ids
    const int32_t[::1] places,    # IN   (m,)    each at most once
    int32_t[::1] taken_offsets,   # OUT  (m+1,)  or (0,), where all are of one length
    int32_t[::1] taken_values,    # OUT  no fewer than there are values
):
    """Some of the lists of a column. Returns where their values end."""
    cdef Py_ssize_t i
    cdef bint same = offsets.shape[0] == 0
    cdef int32_t at = 0
    cdef int32_t begin, size, s
    with nogil:
        if not same:
            taken_offsets[0] = 0
        for i in range(places.shape[0]):
            begin = places[i] * length if same else offsets[places[i]]
            size = length if same else offsets[places[i] + 1] - begin
            for s in range(size):
                taken_values[at + s] = values[begin + s]
            at += size
            if not same:
                taken_offsets[i + 1] = at
    return at


def measure_names(
    const int32_t[::1] begins,   # IN   (T+1,)  where each name begins, and the last ends
    const int32_t[::1] numbers,  # IN   (n,)    names that are wanted
    int32_t[::1] offsets,        # OUT  (n+1,)  where each begins among their bytes
):
    """Lengths of names by number. Returns their sum; offsets are right where it has 31 bits."""
    cdef Py_ssize_t i
    cdef int64_t at = 0
    with nogil:
        for i in range(numbers.shape[0]):
            offsets[i] = <int32_t> (at & 0x7FFFFFFF)
            at += begins[numbers[i] + 1] - begins[numbers[i]]
        offsets[numbers.shape[0]] = <int32_t> (at & 0x7FFFFFFF)
    return at


cdef inline void copy_name(
    const uint8_t* name, int32_t size, uint8_t* out, bint with_rest
) noexcept nogil:
    """Copy a name: 16 bytes at a time, with what stands behind it, where that may be read."""
    cdef int32_t s = 0
    if not with_rest:
        memcpy(out, name, size)
        return
    while s < size:
        memcpy(out + s, name + s, NAME_BYTES)
        s += NAME_BYTES


def spell_names(
    const int32_t[::1] begins,   # IN   (T+1,)   where each name begins, and the last ends
    const uint8_t[::1] names,    # IN   (c,)     their bytes, one name behind the other; not empty
    const int32_t[::1] numbers,  # IN   (n,)     names that are wanted
    const int32_t[::1] offsets,  # IN   (n+1,)   of `measure_names`
    uint8_t[::1] text,           # OUT  (m+16,)  their bytes, and room for 16 more
):
    """Names by number, written out."""
    cdef const uint8_t* first = &names[0]
    cdef uint8_t* out = &text[0]
    cdef Py_ssize_t i
    cdef int32_t begin, end
    with nogil:
        for i in range(numbers.shape[0]):
            begin, end = begins[numbers[i]], begins[numbers[i] + 1]
            copy_name(first + begin, end - begin, out + offsets[i],
                      end + NAME_BYTES <= names.shape[0])
