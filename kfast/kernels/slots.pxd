"""What the kernels share: the layouts, the limits, and arithmetic on slots and masks.

A *slot* is a place among the brokers that a partition tracks; bit s of a mask speaks of slot s.
Masks are stored narrow (uint8) or wide (uint64) and always worked on as 64 bits.

Sections are those of docs/controller.md.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    static inline int kfast_lowest(unsigned long long mask) { return __builtin_ctzll(mask); }
    static inline int kfast_count(unsigned long long mask) { return __builtin_popcountll(mask); }
    /* gcc deletes calls of a function that does nothing but prefetch: the empty statement is an
       effect that it has to keep. */
    static inline void kfast_prefetch(const void *place) {
        __builtin_prefetch(place, 1);
        __asm__ volatile("");
    }
    #include <assert.h>
    #define kfast_check_row(row, n_rows) assert(0 <= (row) && (row) < (n_rows))
    """
    int kfast_lowest(uint64_t mask) noexcept nogil
    int kfast_count(uint64_t mask) noexcept nogil
    void kfast_prefetch(const void* place) noexcept nogil
    void kfast_check_row(Py_ssize_t row, Py_ssize_t n_rows) noexcept nogil

# How many rows ahead scattered rows are fetched.
cdef enum:
    AHEAD = 16

# The hot record of a partition. `schema.record_dtype` says the same; a test compares them.
cdef struct NarrowRecord:
    int32_t leader
    int32_t leader_epoch
    int32_t version
    int32_t controller_epoch
    uint8_t isr
    uint8_t adding
    uint8_t removing
    uint8_t offline_dir
    uint8_t n_replicas
    uint8_t n_slots
    int8_t partition_state
    uint8_t flags

cdef struct WideRecord:
    int32_t leader
    int32_t leader_epoch
    int32_t version
    int32_t controller_epoch
    uint64_t isr
    uint64_t adding
    uint64_t removing
    uint64_t offline_dir
    uint8_t n_replicas
    uint8_t n_slots
    int8_t partition_state
    uint8_t flags

ctypedef fused record_t:
    NarrowRecord
    WideRecord

ctypedef const NarrowRecord ConstNarrowRecord
ctypedef const WideRecord ConstWideRecord

# For arrays that are only read: so that read-only and memory-mapped arrays pass.
ctypedef fused const_record_t:
    ConstNarrowRecord
    ConstWideRecord

ctypedef fused broker_t:
    uint16_t
    int32_t

# One partition of a state: its columns, and those of all that they refer to. The layouts differ in
# the first two fields.
cdef struct NarrowRow:
    NarrowRecord* record
    uint16_t* brokers             # broker row of each slot
    uint8_t* states               # `schema.ReplicaState` of each slot
    Py_ssize_t index              # which row of the state it is
    Py_ssize_t n_rows             # rows of the state
    Py_ssize_t width              # slots of each of them
    const uint8_t* broker_status  # of each broker
    const int32_t* topic_row      # of each row
    const uint8_t* topic_flags    # of each topic
    uint64_t* leader_offline      # bitmap over rows: with leadership and an offline leader
    uint64_t* pending             # bitmap over rows: New or Offline

cdef struct WideRow:
    WideRecord* record
    int32_t* brokers
    uint8_t* states
    Py_ssize_t index
    Py_ssize_t n_rows
    Py_ssize_t width
    const uint8_t* broker_status
    const int32_t* topic_row
    const uint8_t* topic_flags
    uint64_t* leader_offline
    uint64_t* pending

# Whatever works on either layout takes this: what can never occur together is never compiled.
ctypedef fused row_t:
    NarrowRow
    WideRow

cdef enum:
    NO_SLOT = -1
    NO_LEADER = -1
    FLAG_ASSIGNED = 1
    FLAG_HAS_LEADERSHIP = 2
    FLAG_RECOVERY = 4
    FLAG_BEING_REASSIGNED = 8

# States, with Kafka's bytes; `schema.PartitionState`, `schema.ReplicaState`.
cdef enum:
    P_NO_ENTRY = -1
    P_NEW = 0
    P_ONLINE = 1
    P_OFFLINE = 2
    P_NON_EXISTENT = 3
    R_NO_ENTRY = 0
    R_NEW = 1
    R_ONLINE = 2
    R_OFFLINE = 3
    R_DELETION_STARTED = 4
    R_DELETION_SUCCESSFUL = 5
    R_DELETION_INELIGIBLE = 6
    R_NON_EXISTENT = 7

# `schema.Code`.
cdef enum:
    MOVED = 0
    INITIALIZED = 1
    ELECTED = 2
    ILLEGAL_STATE = 3
    LEADER_IS_NEW_REPLICA = 4
    NEWER_CONTROLLER = 5
    NO_RECORD = 6
    DROPPED = 7
    NO_ELIGIBLE_LEADER = 8
    CONFIG_LOOKUP_FAILED = 9
    NO_LIVE_REPLICA = 10
    NODE_EXISTS = 11
    STORE_ERROR = 12
    APPENDED = 13
    ILLEGAL_ARGUMENT = 14
    CONTROLLER_MOVED = 15
    CREATE_CALL_FAILED = 16
    NOT_ASKED = 17
    CONFIG_LOOKUP_LOGGED = 18
    UNDECODABLE = 19

# `profiles.WithoutLeadership`.
cdef enum:
    LEADERLESS_MOVED = 0
    LEADERLESS_SKIPPED = 1
    LEADERLESS_REFUSED = 2

# Bits of `ClusterState.broker_status` and `ClusterState.topic_flags`.
cdef enum:
    BROKER_REGISTERED = 1
    BROKER_SHUTTING_DOWN = 2
    BROKER_FENCED = 4
    TOPIC_QUEUED = 1
    TOPIC_STARTED = 2
    TOPIC_INELIGIBLE = 4
    TOPIC_EXISTS = 8
    TOPIC_UNCLEAN = 16

# Where a thread's tally keeps what; per-broker counts follow: LeaderAndIsr, then StopReplica.
cdef enum:
    TALLY_OFFLINE = 0
    TALLY_IMBALANCE = 1
    TALLY_UNCLEAN = 2
    TALLY_METADATA = 3
    TALLY_LEADERS_MOVED = 4
    TALLY_ANNOUNCED = 5
    TALLY_REASSIGNED = 6
    TALLY_LED = 7
    TALLY_CODES = 8
    TALLY_CELLS = 40
    TALLY_BROKERS = 104

# What an effect added to the request batch, and what kind of change it was.
cdef enum:
    KIND_STOP = 1
    KIND_LEADER_AND_ISR = 2
    KIND_METADATA = 4
    KIND_IS_NEW = 8
    KIND_DELETE = 16
    KIND_UNCLEAN = 32
    KIND_ELECTION = 64
    KIND_QUEUED = 128

# What became of one target: enough to make every row of the journal from it.
cdef struct Effect:
    int32_t row
    int32_t broker
    int32_t leader_before
    int32_t leader
    int32_t leader_epoch
    int32_t version
    int32_t controller_epoch
    int32_t stop_epoch
    uint64_t isr_before
    uint64_t isr
    uint64_t recipients
    uint64_t adding
    uint64_t removing
    uint8_t code
    int8_t from_state
    int8_t to_state
    uint8_t kinds
    uint8_t recovery
    uint8_t n_replicas
    uint8_t n_slots

# Which slots are on live brokers, on registered ones that are not fenced, and on brokers in
# controlled shutdown.
cdef struct Liveness:
    uint64_t live
    uint64_t up
    uint64_t shutting_down


cdef inline uint64_t bit(int slot) noexcept nogil:
    return (<uint64_t> 1) << slot


cdef inline uint64_t first_slots(int n) noexcept nogil:
    """Mask of the first n slots, 0 <= n <= 64."""
    return ~(<uint64_t> 0) if n >= 64 else ((<uint64_t> 1) << n) - 1


cdef inline int lowest_slot(uint64_t mask) noexcept nogil:
    """First slot of a mask that is not empty."""
    return kfast_lowest(mask)


cdef inline int slot_of(const broker_t* brokers, int n_slots, int32_t broker) noexcept nogil:
    """Slot of a broker row; NO_SLOT where the partition does not track it."""
    cdef int s
    for s in range(n_slots):
        if <int32_t> brokers[s] == broker:
            return s
    return NO_SLOT


cdef inline row_t row_at(row_t first, Py_ssize_t index) noexcept nogil:
    """Another row, from the first one of a state; a debug build checks that there is such a row."""
    cdef row_t row = first
    kfast_check_row(index, first.n_rows)
    row.record = first.record + index
    row.brokers = first.brokers + first.width * index
    row.states = first.states + first.width * index
    row.index = index
    return row


cdef inline void prefetch_row(row_t first, Py_ssize_t index) noexcept nogil:
    """Fetch record and brokers of a row that is visited soon."""
    kfast_prefetch(first.record + index)
    kfast_prefetch(first.brokers + first.width * index)


cdef inline void prefetch_all(row_t first, Py_ssize_t index) noexcept nogil:
    """Fetch record, brokers and states: a quarter of the narrow records lie on two cache lines."""
    prefetch_row(first, index)
    kfast_prefetch(<const char*> (first.record + index + 1) - 1)
    kfast_prefetch(first.states + first.width * index)


cdef inline uint8_t topic_flags_of(row_t row) noexcept nogil:
    """Flags of the row's topic, which are far away in memory."""
    return row.topic_flags[row.topic_row[row.index]]


cdef inline bint broker_is_live(uint8_t status) noexcept nogil:
    """Whether a broker of this status is registered, not fenced and not shutting down."""
    return (
        status & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN | BROKER_FENCED) == BROKER_REGISTERED
    )


cdef inline Liveness liveness_of(row_t row) noexcept nogil:
    """Liveness of every slot. Source: section 1.5, `is_replica_online`."""
    cdef Liveness seen
    cdef int s
    cdef uint64_t up = 0
    cdef uint64_t shutting_down = 0
    cdef uint8_t word
    for s in range(row.record.n_slots):
        word = row.broker_status[row.brokers[s]]
        up |= (<uint64_t> (word & BROKER_REGISTERED & ~(word >> 2))) << s
        shutting_down |= (<uint64_t> ((word & BROKER_SHUTTING_DOWN) >> 1)) << s
    seen.shutting_down = shutting_down
    seen.up = up & ~(<uint64_t> row.record.offline_dir)
    seen.live = seen.up & ~shutting_down
    return seen


cdef inline bint is_live(row_t row, int s) noexcept nogil:
    """Bit s of `liveness_of(...).live`, where no other is asked for."""
    return (
        broker_is_live(row.broker_status[row.brokers[s]])
        and not (row.record.offline_dir >> s) & 1
    )


cdef inline bint leader_is_online(row_t row, uint64_t live) noexcept nogil:
    """Whether the cached leader is online; false for no leader."""
    cdef int s
    for s in range(row.record.n_slots):
        if <int32_t> row.brokers[s] == row.record.leader:
            return (live >> s) & 1
    return False


cdef inline bint has_offline_leader(row_t row, uint64_t live) noexcept nogil:
    """Whether leadership is cached, of a leader that is not online (section 1.5)."""
    return row.record.flags & FLAG_HAS_LEADERSHIP and not leader_is_online(row, live)


cdef inline bint is_imbalanced(row_t row) noexcept nogil:
    """Whether the preferred replica does not lead, as the counter of section 1.6 sees it."""
    if not row.record.flags & FLAG_HAS_LEADERSHIP or row.record.n_replicas == 0:
        return False
    if (row.record.adding | row.record.removing) and row.record.adding & 1:
        return row.record.isr & 1
    return <int32_t> row.brokers[0] != row.record.leader


cdef inline uint64_t chosen_slots(row_t row, const uint8_t* chosen, int n_slots) noexcept nogil:
    """Which of the first slots are on brokers that are marked."""
    cdef uint64_t slots = 0
    cdef int s
    for s in range(n_slots):
        slots |= (<uint64_t> chosen[row.brokers[s]]) << s
    return slots


cdef inline void write_bit(uint64_t* bits, Py_ssize_t row, bint value) noexcept nogil:
    """Set or clear one row's bit; a word is written only when it changes."""
    cdef uint64_t word = bits[row >> 6]
    cdef uint64_t at = (<uint64_t> 1) << (row & 63)
    if value and not word & at:
        bits[row >> 6] = word | at
    elif not value and word & at:
        bits[row >> 6] = word & ~at


cdef inline bint refresh_leader(row_t row) noexcept nogil:
    """Whether the row has an offline leader; its bit says so too afterwards."""
    cdef bint offline = has_offline_leader(row, liveness_of(row).live)
    write_bit(row.leader_offline, row.index, offline)
    return offline


cdef inline bint has_bit(const uint64_t* bits, Py_ssize_t row) noexcept nogil:
    """Whether one row's bit is set."""
    return (bits[row >> 6] >> (row & 63)) & 1


cdef inline Py_ssize_t chunk_start(const int32_t[::1] rows, int thread, int threads) noexcept nogil:
    """Where a thread's share of ascending rows begins; no two threads share a word of a bitmap."""
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t at = n * thread // threads
    while 0 < at < n and rows[at] >> 6 == rows[at - 1] >> 6:
        at += 1
    return at


cdef inline Py_ssize_t share_start(Py_ssize_t n, int thread, int threads) noexcept nogil:
    """The same where all n rows are visited."""
    return min(64 * ((n + 63) // 64 * thread // threads), n)
