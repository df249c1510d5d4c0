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
    static inline void kfast_prefetch(const void *place) { __builtin_prefetch(place, 1); }
    """
    int kfast_lowest(uint64_t mask) noexcept nogil
    int kfast_count(uint64_t mask) noexcept nogil
    void kfast_prefetch(const void* place) noexcept nogil

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

# Which slots are on live brokers, on registered ones, and on those in controlled shutdown.
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


cdef inline Liveness liveness_of(
    const record_t* record, const broker_t* brokers, const uint8_t* status
) noexcept nogil:
    """Liveness of every slot. Source: section 1.5, `is_replica_online`."""
    cdef Liveness seen
    cdef int s
    cdef uint64_t registered = 0
    cdef uint64_t shutting_down = 0
    cdef uint8_t word
    for s in range(record.n_slots):
        word = status[brokers[s]]
        registered |= (<uint64_t> (word & BROKER_REGISTERED)) << s
        shutting_down |= (<uint64_t> ((word & BROKER_SHUTTING_DOWN) >> 1)) << s
    seen.shutting_down = shutting_down
    seen.up = registered & ~(<uint64_t> record.offline_dir)
    seen.live = seen.up & ~shutting_down
    return seen


cdef inline bint is_live(
    const record_t* record, const broker_t* brokers, const uint8_t* status, int s
) noexcept nogil:
    """Bit s of `liveness_of(...).live`, where no other is asked for."""
    return (
        status[brokers[s]] & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN) == BROKER_REGISTERED
        and not (record.offline_dir >> s) & 1
    )


cdef inline bint leader_is_online(
    const record_t* record, const broker_t* brokers, uint64_t live
) noexcept nogil:
    """Whether the cached leader is online; false for no leader."""
    cdef int s
    for s in range(record.n_slots):
        if <int32_t> brokers[s] == record.leader:
            return (live >> s) & 1
    return False


cdef inline bint is_imbalanced(const record_t* record, const broker_t* brokers) noexcept nogil:
    """Whether the preferred replica does not lead, as the counter of section 1.6 sees it."""
    if not record.flags & FLAG_HAS_LEADERSHIP or record.n_replicas == 0:
        return False
    if (record.adding | record.removing) and record.adding & 1:
        return record.isr & 1
    return <int32_t> brokers[0] != record.leader


cdef inline void write_bit(uint64_t* bits, Py_ssize_t row, bint value) noexcept nogil:
    """Set or clear one row's bit; a word is written only when it changes."""
    cdef uint64_t word = bits[row >> 6]
    cdef uint64_t at = (<uint64_t> 1) << (row & 63)
    if value and not word & at:
        bits[row >> 6] = word | at
    elif not value and word & at:
        bits[row >> 6] = word & ~at


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
