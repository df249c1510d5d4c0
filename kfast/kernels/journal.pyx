"""What the journal's tables are made of: partitions as they were, columns of effects, requests.

Source: docs/controller.md, section 5; Kafka 3.9, `AbstractControllerBrokerRequestBatch`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from kfast.kernels.columns cimport columns_t
from kfast.kernels.columns cimport (  # no-cython-lint: members of the fused type
    NarrowColumns,  # no-cython-lint
    WideColumns,  # no-cython-lint
)
from kfast.kernels.slots cimport (
    AHEAD,
    Effect,
    KIND_DELETE,
    KIND_IS_NEW,
    KIND_LEADER_AND_ISR,
    KIND_METADATA,
    KIND_STOP,
    broker_t,
    first_slots,
    kfast_prefetch,
    liveness_of,
    lowest_slot,
    prefetch_row,
    row_at,
)
# Effects whose columns are copied together, while they lie in the nearest cache; columns of a
# table, at most; slots that are looked up whether a list has them or not, as a mispredicted branch
# costs more.
cdef enum:
    BLOCK = 128
    MOST_COLUMNS = 16
    FEW_SLOTS = 8

# How the values of a column come from their source.
cdef enum Form:
    NUMBER = 0    # they are the source's
    BROKER = 1    # ids of broker rows
    SLOTS = 2     # lists of the ids in some slots: the source has a mask
    ASSIGNED = 3  # lists of the ids in the first slots: the source says how many

# The request that a row of a table is about, where its rows are about several.
cdef enum Request:
    LEADER_AND_ISR = 0
    UPDATE_METADATA = 1
    STOP_REPLICA = 2

# One column of a table: where its values come from, and where they go.
cdef struct Column:
    int form
    int size                    # bytes of a value of the source
    bint in_all                 # rows of all requests have the source's value
    const uint8_t* source       # of the first effect
    Py_ssize_t stride
    const uint8_t* stop_source  # the same for StopReplica; NULL: null there
    Py_ssize_t stop_stride
    uint8_t* values
    int32_t* offsets            # where each list begins
    int32_t end                 # where the last list ends

# Requests of one kind, in the order of brokers: where the next one to each broker goes.
cdef struct RequestBuffer:
    const uint8_t* registered
    int64_t* cursors
    int32_t* places  # NULL: requests are only counted
    uint8_t* flags


def copy_partitions(
    columns_t columns,
    const Effect[::1] effects,  # IN   (n,)    what became of each target
    uint8_t[:, ::1] slots,      # OUT  (n, bytes of S broker rows)  those of each effect's partition
    int32_t[:, ::1] keys,       # OUT  (n, 3)  topic row, partition number, partition row
    uint64_t[::1] offline,      # OUT  (n,)    assigned slots that are not online
    uint8_t[:, ::1] codes,      # OUT  (2, n)  codes and kinds
):
    """Copy what the next event may change of the partitions of some effects.

    Returns all bits of `kinds` that occur, and whether some partition is being reassigned.
    """
    cdef Py_ssize_t n = effects.shape[0]
    cdef Py_ssize_t i
    cdef uint64_t changing = 0
    cdef uint8_t kinds = 0
    first = columns.first
    with nogil:
        for i in range(n):
            if i + AHEAD < n:
                prefetch_row(first, effects[i + AHEAD].row)
            row = row_at(first, effects[i].row)
            memcpy(&slots[i, 0], row.brokers, slots.shape[1])
            keys[i, 0] = row.topic_row[row.index]
            keys[i, 1] = columns.partition[row.index]
            keys[i, 2] = effects[i].row
            if effects[i].kinds & KIND_LEADER_AND_ISR:
                offline[i] = first_slots(row.record.n_replicas) & ~liveness_of(row).live
            codes[0, i] = effects[i].code
            codes[1, i] = effects[i].kinds
            kinds |= effects[i].kinds
            changing |= effects[i].adding | effects[i].removing
    return kinds, changing != 0


cdef inline const uint8_t* source_of(
    const Column* column, const uint8_t* requests, Py_ssize_t i, int32_t place
) noexcept nogil:
    """Where the value of a row stands; NULL where the row has none."""
    if requests == NULL or column.in_all or requests[i] == Request.LEADER_AND_ISR:
        return column.source + place * column.stride
    if requests[i] == Request.STOP_REPLICA and column.stop_source != NULL:
        return column.stop_source + place * column.stop_stride
    return NULL


cdef inline int32_t id_of(int32_t broker, const int32_t[::1] broker_id) noexcept nogil:
    """Id of a broker row; a negative one (no broker) stays as it is."""
    return broker_id[broker] if broker >= 0 else broker


cdef void fill_numbers(
    const Column* column, const int32_t* places, const uint8_t* requests, Py_ssize_t begin,
    Py_ssize_t end, const int32_t[::1] broker_id
) noexcept nogil:
    """The values of some rows of a column of numbers."""
    cdef int32_t* numbers = <int32_t*> column.values
    cdef const uint8_t* source
    cdef Py_ssize_t i
    for i in range(begin, end):
        source = source_of(column, requests, i, places[i])
        if column.size == 1:
            column.values[i] = source[0] if source != NULL else 0
        elif source == NULL:
            numbers[i] = 0
        elif column.form == Form.BROKER:
            numbers[i] = id_of((<const int32_t*> source)[0], broker_id)
        else:
            numbers[i] = (<const int32_t*> source)[0]


cdef inline int32_t append_ids(
    int32_t* values, const broker_t* brokers, uint64_t mask, int n_slots,
    const int32_t[::1] broker_id
) noexcept nogil:
    """Write the ids in some slots; returns how many. Space for one of each slot is needed."""
    cdef Py_ssize_t last = broker_id.shape[0] - 1
    cdef int32_t at = 0
    cdef int s
    if n_slots <= FEW_SLOTS:
        for s in range(n_slots):
            values[at] = broker_id[min(<Py_ssize_t> <unsigned int> brokers[s], last)]
            at += (mask >> s) & 1
        return at
    while mask:
        values[at] = broker_id[<Py_ssize_t> brokers[lowest_slot(mask)]]
        at += 1
        mask &= mask - 1
    return at


cdef inline uint64_t mask_of(
    const Column* column, const uint8_t* requests, Py_ssize_t i, int32_t place
) noexcept nogil:
    """The slots in the list of a row; none where the row has no list."""
    cdef const uint8_t* source = source_of(column, requests, i, place)
    if source == NULL:
        return 0
    if column.form == Form.ASSIGNED:
        return first_slots(source[0])
    return (<const uint64_t*> source)[0]


cdef void fill_lists(
    Column* column, const int32_t* places, const uint8_t* requests, Py_ssize_t begin,
    Py_ssize_t end, const broker_t[:, ::1] replicas, const int32_t[::1] broker_id
) noexcept nogil:
    """The values of some rows of a column of lists of broker ids."""
    cdef int32_t* values = <int32_t*> column.values
    cdef int32_t at = column.end
    cdef const uint8_t* broker
    cdef Py_ssize_t i
    for i in range(begin, end):
        if requests != NULL and not column.in_all and requests[i] == Request.STOP_REPLICA:
            broker = source_of(column, requests, i, places[i])
            if broker != NULL:
                values[at] = id_of((<const int32_t*> broker)[0], broker_id)
                at += 1
        else:
            at += append_ids(
                &values[at], &replicas[places[i], 0], mask_of(column, requests, i, places[i]),
                <int> replicas.shape[1], broker_id,
            )
        column.offsets[i + 1] = at
    column.end = at


cdef Column read_column(
    int form, object source, object stop_source, uint8_t[::1] values, int32_t[::1] offsets
) except *:
    """A column as `fill_columns` is given it; its sources are arrays of one axis."""
    cdef Column column
    column.form = form
    column.source = <const uint8_t*> <size_t> source.ctypes.data
    column.stride = source.strides[0]
    column.size = source.itemsize
    column.in_all = stop_source is source
    column.stop_source = NULL
    if stop_source is not None:
        column.stop_source = <const uint8_t*> <size_t> stop_source.ctypes.data
        column.stop_stride = stop_source.strides[0]
    column.values = &values[0]
    column.offsets = NULL
    column.end = 0
    if offsets is not None:
        column.offsets = &offsets[0]
        offsets[0] = 0
    return column


def fill_columns(
    const broker_t[:, ::1] replicas,  # IN   (n, S)  broker rows of each effect's partition
    const int32_t[::1] broker_id,     # IN   (B,)    ids
    const int32_t[::1] places,        # IN   (m,)    the effect that each row of the table is of
    const uint8_t[::1] requests,      # IN   (m,)    the `Request` of each row; (0,): LeaderAndIsr
    list columns,  # k of (form, source, its like for StopReplica or None, values, offsets or None)
):
    """Fill columns of a table; returns where the last list of each ends.

    A source has one value per effect. A column has its source's values in rows of LeaderAndIsr,
    those of the other source in rows of StopReplica, and nothing in those of UpdateMetadata; where
    both sources are one, that is every row's. Lists have an offset more than rows.
    """
    cdef Py_ssize_t begin = 0, end, i, m = places.shape[0]
    cdef Column filled[MOST_COLUMNS]
    cdef int k, n_columns = <int> len(columns)
    cdef const uint8_t* of = &requests[0] if requests.shape[0] else NULL
    if n_columns > MOST_COLUMNS:
        raise ValueError(f"{n_columns} columns, of at most {MOST_COLUMNS}")
    if not m:
        return [0] * n_columns
    for k in range(n_columns):
        form, source, stop_source, values, offsets = columns[k]
        filled[k] = read_column(form, source, stop_source, values.view("u1"), offsets)
    with nogil:
        while begin < m:
            end = min(begin + BLOCK, m)
            for i in range(end, min(end + BLOCK, m)):
                kfast_prefetch(&replicas[places[i], 0])
                for k in range(n_columns):
                    kfast_prefetch(filled[k].source + places[i] * filled[k].stride)
            for k in range(n_columns):
                if filled[k].offsets != NULL:
                    fill_lists(&filled[k], &places[0], of, begin, end, replicas, broker_id)
                else:
                    fill_numbers(&filled[k], &places[0], of, begin, end, broker_id)
            begin = end
    return [filled[k].end for k in range(n_columns)]


def list_additions(
    const uint8_t[::1] kinds,  # IN   (n,)   of each effect
    int32_t[::1] places,       # OUT  (3n,)  the effect of each addition
    uint8_t[::1] requests,     # OUT  (3n,)  its `Request`
):
    """What some effects add to the batch, in order; returns how many additions there are."""
    cdef Py_ssize_t i, at = 0
    with nogil:
        for i in range(kinds.shape[0]):
            if kinds[i] & KIND_STOP:
                places[at], requests[at] = <int32_t> i, Request.STOP_REPLICA
                at += 1
            if kinds[i] & KIND_LEADER_AND_ISR:
                places[at], requests[at] = <int32_t> i, Request.LEADER_AND_ISR
                at += 1
            if kinds[i] & KIND_METADATA:
                places[at], requests[at] = <int32_t> i, Request.UPDATE_METADATA
                at += 1
    return at


cdef inline void append(
    RequestBuffer* buffer, Py_ssize_t broker, Py_ssize_t place, uint8_t flags
) noexcept nogil:
    """One partition in the request to one broker; unregistered brokers get none (section 5.3)."""
    cdef int64_t at
    if buffer.registered[broker]:
        at = buffer.cursors[broker]
        buffer.cursors[broker] = at + 1
        if buffer.places != NULL:
            buffer.places[at] = <int32_t> place
            buffer.flags[at] = flags


cdef inline void append_leader_and_isr(
    RequestBuffer* buffer, const Effect* effects, const broker_t* brokers, Py_ssize_t begin,
    Py_ssize_t end
) noexcept nogil:
    """LeaderAndIsr of the effects of one partition: to each broker the last; new stays new."""
    cdef uint64_t left, new = 0, done = 0
    cdef Py_ssize_t i
    cdef int slot
    for i in range(begin, end):
        if effects[i].kinds & KIND_LEADER_AND_ISR and effects[i].kinds & KIND_IS_NEW:
            new |= effects[i].recipients
    for i in range(end - 1, begin - 1, -1):
        left = effects[i].recipients & ~done if effects[i].kinds & KIND_LEADER_AND_ISR else 0
        done |= left
        while left:
            slot = lowest_slot(left)
            append(buffer, <Py_ssize_t> brokers[slot], i,
                   <uint8_t> (KIND_IS_NEW * ((new >> slot) & 1)))
            left &= left - 1


cdef inline void append_stop_replica(
    RequestBuffer* buffer, const Effect* effects, Py_ssize_t begin, Py_ssize_t end
) noexcept nogil:
    """StopReplica of the effects of one partition: to each broker the last; deletion stays."""
    cdef Py_ssize_t i, j
    cdef uint8_t flags
    cdef bint replaced
    for i in range(begin, end):
        if not effects[i].kinds & KIND_STOP:
            continue
        flags, replaced = 0, False
        for j in range(begin, end):
            if effects[j].kinds & KIND_STOP and effects[j].broker == effects[i].broker:
                flags |= effects[j].kinds & KIND_DELETE
                replaced = replaced or j > i
        if not replaced:
            append(buffer, effects[i].broker, i, flags)


def list_requests(
    const Effect[::1] effects,        # IN      (n,)    what became of each target; ascending rows
    const broker_t[:, ::1] replicas,  # IN      (n, S)  broker rows of each effect's partition
    const uint8_t[::1] registered,    # IN      (B,)    who may be sent something
    bint stops,                       # StopReplica, not LeaderAndIsr
    int64_t[::1] cursors,             # IN OUT  (B,)  where the requests to each broker begin, then
                                      #                 where they end
    int32_t[::1] places,              # OUT     (m,)    the effect of each; or (0,): only counted
    uint8_t[::1] flags,               # OUT     (m,)    is new, delete; or (0,)
):
    """What effects send, sorted by broker: of each broker and partition the last (section 5.1)."""
    cdef Py_ssize_t n = effects.shape[0]
    cdef Py_ssize_t begin = 0, end
    cdef RequestBuffer buffer
    if not n or not registered.shape[0]:
        return
    buffer.registered = &registered[0]
    buffer.cursors = &cursors[0]
    buffer.places = &places[0] if places.shape[0] else NULL
    buffer.flags = &flags[0] if flags.shape[0] else NULL
    with nogil:
        while begin < n:
            end = begin + 1
            while end < n and effects[end].row == effects[begin].row:
                end += 1
            if stops:
                append_stop_replica(&buffer, &effects[0], begin, end)
            else:
                append_leader_and_isr(&buffer, &effects[0], &replicas[begin, 0], begin, end)
            begin = end
