"""Partitions that lose replicas and keep a leader: what nearly all rows of a failure are.

Such a partition is Online, and the replicas that it loses are Online or, as after a controlled
shutdown, Offline already. Either its leader stays, and the lost ones leave the ISR one by one; or
its leader is lost, it goes Offline, an in-sync replica is elected, and the lost ones are out of the
ISR by then. Which of the two it is no processor can predict, so both are worked out as masks,
without a branch. One branch is left: whether a row is such a partition at all.

Source: docs/controller.md, sections 2.5, 2.6, 3.4 and 4.1; Kafka 3.9, `ReplicaStateMachine`,
`ZkPartitionStateMachine` and `offlinePartitionLeaderElection`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.election cimport NOT_ASKED_RULE
from kfast.kernels.effects cimport append_effect, write_isr
from kfast.kernels.slots cimport (
    BROKER_REGISTERED,
    BROKER_SHUTTING_DOWN,
    ELECTED,
    Effect,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    KIND_ELECTION,
    KIND_LEADER_AND_ISR,
    KIND_STOP,
    MOVED,
    NO_LEADER,
    P_OFFLINE,
    P_ONLINE,
    R_OFFLINE,
    R_ONLINE,
    TALLY_BROKERS,
    TALLY_CELLS,
    TALLY_CODES,
    TALLY_IMBALANCE,
    TALLY_LEADERS_MOVED,
    TALLY_METADATA,
    TALLY_OFFLINE,
    broker_t,
    lowest_slot,
    row_t,
)

# Slots of a row that may be such a partition; rows between two additions of their counts.
cdef enum:
    MOST_SLOTS = 16
    MOST_ROWS = 65535

# A broker's marks: bit 0, it is live; bit 16, it failed now.
cdef enum:
    FAILED = 16

# Where 16 bits each count, per broker, its replicas that stop, the ISRs and the leaders that it is
# told of, and its replicas that were Offline: the fields of one word, so that one addition serves
# all four.
cdef enum:
    TOLD_ISR = 16
    TOLD_LEADER = 32
    WAS_OFFLINE = 48

cdef extern from *:
    """
    #define KFAST_FIELDS 0x0001000100010001ULL
    """
    uint64_t KFAST_FIELDS

# What rows are told, and what they came to since the last addition. `again`: all slots, where a
# replica that is Offline may become it again.
cdef struct ShrinkContext:
    int controller_epoch
    uint32_t again
    Py_ssize_t n_brokers
    const uint32_t* marks
    const int32_t* rank
    uint64_t* sums
    int64_t rows
    int64_t elected
    int64_t imbalanced

# How one row lost replicas: its masks, and its record before.
cdef struct ShrunkRow:
    uint32_t assigned
    uint32_t live
    uint32_t lost
    uint32_t online
    uint32_t isr
    uint32_t kept
    bint elects
    int32_t leader
    int32_t leader_epoch
    int32_t version
    int32_t controller_epoch


cdef inline uint32_t marks_of(uint8_t status, uint8_t failed) noexcept nogil:
    """A broker's marks from its status."""
    cdef bint live = (
        status & (BROKER_REGISTERED | BROKER_SHUTTING_DOWN) == BROKER_REGISTERED
    )
    return <uint32_t> live | <uint32_t> failed << FAILED


cdef inline uint32_t all_if(bint condition) noexcept nogil:
    """A mask of all slots or of none."""
    return <uint32_t> -<int32_t> condition


cdef inline uint32_t eligible_slots(int decided) noexcept nogil:
    """The slots that may lead: what a user's rule decided on, or any."""
    cdef uint32_t one = <uint32_t> 1 << (decided & 31)
    return (one & all_if(decided >= 0)) | all_if(decided == NOT_ASKED_RULE)


cdef inline Py_ssize_t place_of(broker_t broker, Py_ssize_t n_brokers) noexcept nogil:
    """Where a broker's marks are; an empty slot has the place after the last."""
    return min(<Py_ssize_t> <uint32_t> broker, n_brokers)


cdef inline bint lose_replicas(
    row_t row, int width, uint32_t eligible, ShrinkContext* losing, ShrunkRow* loss
) noexcept nogil:
    """All steps of a failure for one such partition; False, and nothing done, for another row."""
    cdef uint32_t seen = 0
    cdef uint32_t led = 0
    cdef uint32_t online = 0
    cdef uint32_t offline = 0
    cdef uint32_t writes = 0
    cdef Py_ssize_t place[MOST_SLOTS]
    cdef int s
    record = row.record
    brokers = row.brokers
    states = row.states
    for s in range(width):
        place[s] = place_of(brokers[s], losing.n_brokers)
        seen |= losing.marks[place[s]] << s
        led |= <uint32_t> (<int32_t> brokers[s] == record.leader) << s
        online |= <uint32_t> (states[s] == R_ONLINE) << s
        offline |= <uint32_t> (states[s] == R_OFFLINE) << s
    cdef uint32_t assigned = (<uint32_t> 1 << record.n_replicas) - 1
    cdef uint32_t live = seen & ~<uint32_t> record.offline_dir & 0xFFFF
    cdef uint32_t lost = (seen >> FAILED) & assigned
    cdef uint32_t isr = <uint32_t> record.isr
    cdef uint32_t elects = all_if((led & live) == 0)
    cdef uint32_t kept = isr & (live | ~elects)
    cdef uint32_t leads = kept & (led | (assigned & eligible & elects))
    leads &= 0 - leads
    cdef bint plain = (
        (record.partition_state == P_ONLINE) & ((record.flags & FLAG_HAS_LEADERSHIP) != 0)
        & ((record.adding | record.removing) == 0) & (record.leader >= 0)
        & (record.controller_epoch <= losing.controller_epoch)
        & (lost != 0) & ((lost & ~(online | (offline & losing.again))) == 0) & (leads != 0)
    )
    if not plain:
        return False
    cdef uint32_t told = assigned & ~(lost & all_if((lost & (lost - 1)) == 0))
    cdef uint64_t counted = (
        lost | told << TOLD_ISR | <uint64_t> (assigned & live & elects) << TOLD_LEADER
        | <uint64_t> (lost & offline) << WAS_OFFLINE
    )
    for s in range(width):
        losing.sums[place[s]] += (counted >> s) & KFAST_FIELDS
        states[s] += ((lost & online) >> s) & (R_OFFLINE - R_ONLINE)
        writes += ((kept & lost) >> s) & 1
    writes += elects & 1
    if loss != NULL:
        loss[0] = ShrunkRow(
            assigned=assigned, live=live, lost=lost, online=online, isr=isr, kept=kept,
            elects=elects & 1,
            leader=record.leader, leader_epoch=record.leader_epoch, version=record.version,
            controller_epoch=record.controller_epoch,
        )
    losing.rows += 1
    losing.elected += elects & 1
    losing.imbalanced += <int64_t> (led & 1) - <int64_t> (leads & 1)
    record.leader = <int32_t> brokers[lowest_slot(leads)]
    record.leader_epoch += <int32_t> writes
    record.version += <int32_t> writes
    record.controller_epoch = losing.controller_epoch
    write_isr(record, kept & ~lost)
    return True


cdef inline int next_slot(
    const broker_t* brokers, uint32_t slots, const int32_t* rank
) noexcept nogil:
    """The slot whose broker Kafka takes first."""
    cdef int found = lowest_slot(slots)
    cdef int slot
    slots &= slots - 1
    while slots:
        slot = lowest_slot(slots)
        slots &= slots - 1
        if rank[brokers[slot]] < rank[brokers[found]]:
            found = slot
    return found


cdef inline void append_losses(
    Effect** ends, const ShrunkRow* loss, row_t row, const int32_t* rank
) noexcept nogil:
    """Append the effects of all steps, from how the row was before and how it is now."""
    cdef uint32_t left = loss.lost
    cdef uint32_t member
    cdef int slot
    cdef Effect effect
    record = row.record
    brokers = row.brokers
    effect.row = <int32_t> row.index
    effect.broker = NO_LEADER
    effect.leader_before = effect.leader = loss.leader
    effect.leader_epoch = loss.leader_epoch
    effect.version = loss.version
    effect.controller_epoch = loss.controller_epoch
    effect.stop_epoch = 0
    effect.isr_before = effect.isr = loss.isr
    effect.recipients = effect.adding = effect.removing = 0
    effect.code = MOVED
    effect.kinds = 0
    effect.recovery = (record.flags & FLAG_RECOVERY) != 0
    effect.n_replicas = record.n_replicas
    effect.n_slots = record.n_slots
    if loss.elects:
        effect.from_state, effect.to_state = P_ONLINE, P_OFFLINE
        append_effect(&ends[0], &effect)
        effect.from_state, effect.to_state = P_OFFLINE, P_ONLINE
        effect.leader = record.leader
        effect.leader_epoch += 1
        effect.version += 1
        effect.controller_epoch = record.controller_epoch
        effect.isr = loss.kept
        effect.recipients = loss.assigned & loss.live
        effect.code = ELECTED
        effect.kinds = KIND_ELECTION | KIND_LEADER_AND_ISR
        append_effect(&ends[1], &effect)
        effect.leader_before = record.leader
    effect.to_state = R_OFFLINE
    effect.controller_epoch = record.controller_epoch
    effect.code = MOVED
    effect.kinds = KIND_STOP | KIND_LEADER_AND_ISR
    while left:
        slot = next_slot(brokers, left, rank)
        member = <uint32_t> 1 << slot
        left &= ~member
        effect.broker = <int32_t> brokers[slot]
        effect.from_state = R_ONLINE if loss.online & member else R_OFFLINE
        effect.stop_epoch = effect.leader_epoch
        effect.isr_before = effect.isr
        effect.leader_epoch += (effect.isr >> slot) & 1
        effect.version += (effect.isr >> slot) & 1
        effect.isr &= ~<uint64_t> member
        effect.recipients = loss.assigned & ~member
        append_effect(&ends[2], &effect)


cdef inline void add_losses(
    ShrinkContext* losing, bint counting, int64_t* offline, int64_t* online, int64_t* replica,
    Py_ssize_t n_brokers, int64_t* counts
) noexcept nogil:
    """Add what at most `MOST_ROWS` rows came to to the tallies of the steps, and begin anew."""
    cdef int64_t n_replicas = 0
    cdef int64_t n_offline = 0
    cdef uint64_t word
    cdef Py_ssize_t b
    for b in range(losing.n_brokers):
        word = losing.sums[b]
        losing.sums[b] = 0
        n_replicas += word & 0xFFFF
        n_offline += word >> WAS_OFFLINE
        if counting:
            replica[TALLY_BROKERS + n_brokers + b] += word & 0xFFFF
            replica[TALLY_BROKERS + b] += (word >> TOLD_ISR) & 0xFFFF
            online[TALLY_BROKERS + b] += (word >> TOLD_LEADER) & 0xFFFF
    counts[0] += losing.elected
    counts[1] += losing.elected
    counts[2] += n_replicas
    offline[TALLY_OFFLINE] += losing.elected
    offline[TALLY_CODES + MOVED] += losing.elected
    offline[TALLY_CELLS + 8 * P_ONLINE + P_OFFLINE] += losing.elected
    online[TALLY_OFFLINE] -= losing.elected
    online[TALLY_IMBALANCE] += losing.imbalanced
    online[TALLY_CODES + ELECTED] += losing.elected
    online[TALLY_CELLS + 8 * P_OFFLINE + P_ONLINE] += losing.elected
    if counting:
        online[TALLY_METADATA] += losing.elected
        online[TALLY_LEADERS_MOVED] += losing.elected
        replica[TALLY_CODES + MOVED] += n_replicas
        replica[TALLY_CELLS + 8 * R_ONLINE + R_OFFLINE] += n_replicas - n_offline
        replica[TALLY_CELLS + 8 * R_OFFLINE + R_OFFLINE] += n_offline
        replica[TALLY_METADATA] += losing.rows
    losing.rows = 0
    losing.elected = 0
    losing.imbalanced = 0
