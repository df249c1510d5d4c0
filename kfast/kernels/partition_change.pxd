"""The change of one partition: reassignment, ELR, election, epochs. Every KRaft event builds it.

`Partition` is what is there, `Targets` what is asked for, `Decision` the fields of the record. All
three speak of the same slots, of which the target replicas come first, in their order: so the first
candidate is the lowest bit, as everywhere.

A list is a mask and the order in which its slots are to be taken; no order means that they ascend.

Source: docs/kraft.md, sections 3, 4 and 11; Kafka 4.1, PartitionChangeBuilder.java and
PartitionReassignmentReplicas.java.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from kfast.kernels.change_log cimport (
    CHANGE_COMPLETED,
    CHANGE_ELECTION,
    CHANGE_EXPAND,
    CHANGE_FROM_ELR,
    CHANGE_LAST_KNOWN,
    CHANGE_LEADER_LOST,
    CHANGE_SHRINK,
    CHANGE_UNCLEAN,
    ELECT_CONFIGURED,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    FIELD_ADDING,
    FIELD_DIRECTORIES,
    FIELD_ELR,
    FIELD_ISR,
    FIELD_LAST_KNOWN,
    FIELD_LEADER,
    FIELD_RECOVERY,
    FIELD_REMOVING,
    FIELD_REPLICAS,
)
from kfast.kernels.quorum_columns cimport ColdColumns, NOBODY_KNOWN, NO_DIRECTORY
from kfast.kernels.quorum_rules cimport COMPLETE_ADDING, COMPLETE_BALANCED, QuorumRuleSet
from kfast.kernels.slots cimport (
    BROKER_REGISTERED,
    FLAG_RECOVERY,
    NO_LEADER,
    NO_SLOT,
    NarrowRow,
    bit,
    broker_is_live,
    first_slots,
    kfast_count,
    lowest_slot,
    row_t,
)

cdef enum:
    FAULT_SLOT = -2      # Kafka fails by an internal error
    NOBODY_SLOT = -3     # the last known leader is the id -1
    HASH_CAPACITY = 16   # of a Java HashSet at first
    LONGEST_BUCKET = 8   # one more makes a small table grow
    TREE_CAPACITY = 64   # it is small below this
    MIGRATING = 0
    UNASSIGNED = 1
    LOST = 2

# What is there. `leader_slot` is NO_SLOT for nobody. The orders are NULL where slots ascend.
cdef struct Partition:
    int n_slots
    int n_replicas
    int n_isr
    int n_elr
    int leader_slot
    int32_t leader
    int32_t last_known
    bint recovering
    uint64_t replicas
    uint64_t isr
    uint64_t elr
    uint64_t removing
    uint64_t adding
    const uint8_t* replica_order
    const uint8_t* isr_order
    const uint8_t* elr_order
    const int32_t* directory      # of each slot; NULL: MIGRATING
    int32_t brokers[64]

# What is asked for. `faulty`: slots that Kafka cannot be asked about, see `acceptable_slots`.
cdef struct Targets:
    int mode
    int recovery                  # -1: as it is
    bint elr_on
    bint has_directories
    uint64_t replicas
    uint64_t isr
    uint64_t removing
    uint64_t adding
    uint64_t elr
    uint64_t stopped              # uncleanly
    uint64_t acceptable
    uint64_t faulty
    const uint8_t* isr_order
    int n_elr_order               # 0: the order is that of the partition
    uint8_t elr_order[64]
    int32_t directories[64]       # of each slot; NO_DIRECTORY: not given

# Fields of the record; lists are those of the targets.
cdef struct Decision:
    uint16_t fields
    uint8_t kinds
    bint fault
    int recovery
    int32_t leader
    int32_t last_known
    uint64_t isr


cdef inline uint64_t elr_of(row_t row, const ColdColumns* cold) noexcept nogil:
    """Mask of a row's ELR."""
    if cold.elr == NULL:
        return 0
    if row_t is NarrowRow:
        return (<uint8_t*> cold.elr)[row.index]
    else:
        return (<uint64_t*> cold.elr)[row.index]


cdef inline bint is_online(
    const QuorumRuleSet* rules, int32_t broker, int32_t directory
) noexcept nogil:
    """Whether a registered broker has a directory online. Source: section 1.1, `dir_online`."""
    cdef int32_t at
    if directory <= UNASSIGNED:
        return True
    if directory == LOST:
        return False
    if rules.directories == NULL:
        return True
    for at in range(rules.directory_begin[broker], rules.directory_begin[broker + 1]):
        if rules.directories[at] == directory:
            return True
    return rules.directory_begin[broker] == rules.directory_begin[broker + 1]


cdef inline uint64_t acceptable_slots(
    row_t row, const ColdColumns* cold, const QuorumRuleSet* rules, int32_t add, uint64_t gone,
    uint64_t* faulty
) noexcept nogil:
    """Slots of replicas that may lead: active, or added, not gone, their directory online.

    `faulty` are active ones that are tracked, but no replicas: asking for their directory is an
    internal error. Source: section 3, the default predicate, and section 5.
    """
    cdef uint64_t active = 0
    cdef uint8_t status
    cdef int32_t broker
    cdef int s
    for s in range(row.record.n_slots):
        broker = <int32_t> row.brokers[s]
        status = row.broker_status[broker]
        if broker_is_live(status) or (broker == add and status & BROKER_REGISTERED):
            active |= bit(s)
    active &= ~gone
    faulty[0] = active & ~first_slots(row.record.n_replicas)
    active ^= faulty[0]
    if cold.directory != NULL:
        for s in range(row.record.n_replicas):
            if not is_online(
                rules, <int32_t> row.brokers[s], cold.directory[row.width * row.index + s]
            ):
                active &= ~bit(s)
    return active


cdef inline void read_partition(
    row_t row, const ColdColumns* cold, Partition* partition
) noexcept nogil:
    """Take all of a partition that its row has."""
    cdef int s
    partition.n_slots = row.record.n_slots
    partition.n_replicas = row.record.n_replicas
    partition.leader = row.record.leader
    partition.leader_slot = NO_SLOT
    for s in range(row.record.n_slots):
        partition.brokers[s] = <int32_t> row.brokers[s]
        if partition.brokers[s] == partition.leader:
            partition.leader_slot = s
    partition.recovering = row.record.flags & FLAG_RECOVERY != 0
    partition.replicas = first_slots(row.record.n_replicas)
    partition.isr = row.record.isr
    partition.removing = row.record.removing
    partition.adding = row.record.adding
    partition.elr = elr_of(row, cold)
    partition.n_isr = kfast_count(partition.isr)
    partition.n_elr = kfast_count(partition.elr)
    partition.last_known = (
        NOBODY_KNOWN if cold.last_known == NULL else cold.last_known[row.index]
    )
    partition.replica_order = partition.isr_order = partition.elr_order = NULL
    partition.directory = NULL
    if cold.order != NULL:
        partition.isr_order = cold.order + row.width * row.index
        partition.elr_order = partition.isr_order + partition.n_isr
    if cold.directory != NULL:
        partition.directory = cold.directory + row.width * row.index


cdef inline void keep_targets(const Partition* partition, Targets* targets) noexcept nogil:
    """Targets that leave everything as it is."""
    targets.recovery = -1
    targets.has_directories = False
    targets.replicas = partition.replicas
    targets.isr = partition.isr
    targets.removing = partition.removing
    targets.adding = partition.adding
    targets.elr = partition.elr
    targets.stopped = 0
    targets.isr_order = partition.isr_order
    targets.n_elr_order = 0


cdef inline bint is_complete(
    int completion, uint64_t replicas, uint64_t isr, uint64_t removing, uint64_t adding
) noexcept nogil:
    """Whether a reassignment is in progress, and complete. Source: section 4."""
    cdef uint64_t remaining = replicas & ~removing
    cdef uint64_t in_sync = isr & ~removing
    cdef uint64_t needed = remaining
    if not (removing or adding) or (removing and not (remaining and in_sync)):
        return False
    if completion == COMPLETE_ADDING:
        needed = adding
    elif completion == COMPLETE_BALANCED:
        needed = adding | (remaining if kfast_count(adding) < kfast_count(removing) else 0)
    return not needed & ~in_sync


cdef inline uint32_t bucket_of(int32_t broker_id, uint32_t capacity) noexcept nogil:
    """Where a Java HashSet keeps an id. Source: section 9.2."""
    cdef uint32_t value = <uint32_t> broker_id
    return (value ^ (value >> 16)) & (capacity - 1)


cdef inline uint32_t capacity_of(const int32_t* ids, int n_copied, int n) noexcept nogil:
    """Size of a Java HashSet of n ids, in their order, the first of them copied from another one.

    Source: section 9.2; HashMap.java, `putVal`, `treeifyBin`.
    """
    cdef uint32_t capacity = HASH_CAPACITY
    cdef int i, k, n_before
    while capacity < <uint32_t> (4 * n_copied // 3 + 1):
        capacity *= 2
    for i in range(LONGEST_BUCKET, n):
        n_before = 0
        for k in range(i):
            n_before += bucket_of(ids[k], capacity) == bucket_of(ids[i], capacity)
        if n_before >= LONGEST_BUCKET and capacity < TREE_CAPACITY:
            capacity *= 2
        if 4 * <uint32_t> (i + 1) > 3 * capacity:
            capacity *= 2
    return capacity


cdef inline int next_in(uint64_t* left, const uint8_t* order, int* at) noexcept nogil:
    """The next slot of a list, which is taken out of the mask; it must not be empty."""
    cdef int slot
    if order == NULL:
        slot = lowest_slot(left[0])
    else:
        while not (left[0] >> order[at[0]]) & 1:
            at[0] += 1
        slot = order[at[0]]
    left[0] &= ~bit(slot)
    return slot


cdef inline bint same_list(
    uint64_t mask, const uint8_t* order, uint64_t other, const uint8_t* other_order
) noexcept nogil:
    """Whether two lists have the same slots in the same order."""
    cdef int at = 0
    cdef int other_at = 0
    if mask != other or order == other_order or not mask & (mask - 1):
        return mask == other
    while mask:
        if next_in(&mask, order, &at) != next_in(&other, other_order, &other_at):
            return False
    return True


cdef inline void order_elr(
    const Partition* partition, Targets* targets, const int32_t* broker_id
) noexcept nogil:
    """Put the target ELR into the order of a Java HashSet of the ELR and the ISR.

    Source: section 9.2; PartitionChangeBuilder.java, `maybePopulateTargetElr`.
    """
    cdef uint64_t elr = partition.elr
    cdef uint64_t isr = partition.isr & ~partition.elr
    cdef uint8_t slots[64]
    cdef int32_t ids[64]
    cdef uint32_t buckets[64]
    cdef uint32_t capacity, bucket
    cdef int elr_at = 0
    cdef int isr_at = 0
    cdef int n_members = 0
    cdef int n = 0
    cdef int i, place
    while elr | isr:
        if elr:
            i = next_in(&elr, partition.elr_order, &elr_at)
        else:
            i = next_in(&isr, partition.isr_order, &isr_at)
        slots[n_members] = <uint8_t> i
        ids[n_members] = broker_id[partition.brokers[i]]
        n_members += 1
    capacity = capacity_of(ids, partition.n_elr, n_members)
    for i in range(n_members):
        if not targets.elr & bit(slots[i]):
            continue
        bucket = bucket_of(ids[i], capacity)
        place = n
        while place > 0 and buckets[place - 1] > bucket:
            buckets[place] = buckets[place - 1]
            targets.elr_order[place] = targets.elr_order[place - 1]
            place -= 1
        buckets[place] = bucket
        targets.elr_order[place] = slots[i]
        n += 1
    targets.n_elr_order = n


cdef inline const uint8_t* target_elr_order(
    const Partition* partition, const Targets* targets
) noexcept nogil:
    """The order of the target ELR."""
    if targets.n_elr_order:
        return targets.elr_order
    return partition.elr_order


cdef inline bint has_min_isr(row_t row, const QuorumRuleSet* rules, int in_sync) noexcept nogil:
    """Whether so many members are min ISR. Source: section 1.5, `min_isr`."""
    cdef int32_t topic, first
    if in_sync >= rules.most_insync:
        return True
    topic = row.topic_row[row.index]
    first = rules.first_partition[topic]
    return in_sync >= rules.min_insync[topic] or (
        first >= 0 and in_sync >= (row.record - row.index + first).n_replicas
    )


cdef inline void populate_elr(
    row_t row, const Partition* partition, Targets* targets, const QuorumRuleSet* rules,
    const int32_t* broker_id
) noexcept nogil:
    """Step 2: below min ISR, whoever left the ISR becomes eligible. Source: section 3.1."""
    if has_min_isr(row, rules, kfast_count(targets.isr)):
        targets.elr = 0
        return
    targets.elr = (partition.elr | partition.isr) & ~targets.isr & ~targets.stopped
    if targets.elr & (targets.elr - 1):
        order_elr(partition, targets, broker_id)


cdef inline int first_asked(uint64_t acceptable, uint64_t faulty) noexcept nogil:
    """The first acceptable slot; FAULT_SLOT where Kafka asks for a faulty one before."""
    cdef uint64_t asked = acceptable | faulty
    cdef int slot
    if not asked:
        return NO_SLOT
    slot = lowest_slot(asked)
    return FAULT_SLOT if (faulty >> slot) & 1 else slot


cdef inline int elect_cleanly(const Partition* partition, const Targets* targets) noexcept nogil:
    """The slot of a valid leader, NO_SLOT or FAULT_SLOT. Source: section 3.2."""
    cdef uint64_t eligible = targets.isr if targets.isr else targets.elr
    cdef uint64_t valid = eligible & targets.acceptable
    cdef uint64_t faulty = eligible & targets.faulty
    cdef uint64_t leader = bit(partition.leader_slot) if partition.leader_slot >= 0 else 0
    cdef uint64_t preferred = targets.replicas & (0 - targets.replicas)
    cdef int slot = NO_SLOT
    if targets.mode == ELECT_PREFERRED:
        slot = first_asked(valid & preferred, faulty & preferred)
    if slot == NO_SLOT:
        slot = first_asked(valid & leader, faulty & leader)
    if slot == NO_SLOT:
        slot = first_asked(valid & targets.replicas, faulty & targets.replicas)
    return slot


cdef inline int elect_last_known(
    const Partition* partition, const Targets* targets, const QuorumRuleSet* rules
) noexcept nogil:
    """The slot of the last known leader if it may be elected, or NO_SLOT, FAULT_SLOT, NOBODY_SLOT.

    Source: section 3.2; section 11 for 4.0, where it need not be acceptable.
    """
    cdef int s
    if not targets.elr_on or targets.isr | targets.elr or partition.last_known == NOBODY_KNOWN:
        return NO_SLOT
    if partition.last_known == NO_LEADER:
        return NO_SLOT if rules.last_known_must_be_acceptable else NOBODY_SLOT
    for s in range(partition.n_slots):
        if partition.brokers[s] == partition.last_known:
            if not rules.last_known_must_be_acceptable:
                return s
            return first_asked(targets.acceptable & bit(s), targets.faulty & bit(s))
    return NO_SLOT


cdef inline int elect_uncleanly(
    row_t row, const Partition* partition, const Targets* targets, const QuorumRuleSet* rules,
    uint8_t* kinds
) noexcept nogil:
    """The last known leader, or where that is allowed the first acceptable replica.

    Kafka 4.0 elects even the id -1: it changes nothing where nobody leads. Elsewhere it would write
    an ISR of -1, which is taken for a fault.
    """
    cdef int slot = elect_last_known(partition, targets, rules)
    if slot >= 0:
        kinds[0] |= CHANGE_UNCLEAN | CHANGE_LAST_KNOWN
        return slot
    if slot == NOBODY_SLOT:
        return NO_SLOT if partition.leader == NO_LEADER else FAULT_SLOT
    if slot == NO_SLOT and (
        targets.mode == ELECT_UNCLEAN
        or (
            targets.mode == ELECT_CONFIGURED and rules.unclean != NULL
            and rules.unclean[row.topic_row[row.index]]
        )
    ):
        slot = first_asked(
            targets.acceptable & targets.replicas, targets.faulty & targets.replicas
        )
        if slot >= 0:
            kinds[0] |= CHANGE_UNCLEAN
    return slot


cdef inline void try_election(
    row_t row, const Partition* partition, Targets* targets, const QuorumRuleSet* rules,
    Decision* decision
) noexcept nogil:
    """Step 3. Source: PartitionChangeBuilder.java, `tryElection`."""
    cdef uint8_t kinds = 0
    cdef int slot = elect_cleanly(partition, targets)
    if slot == NO_SLOT:
        slot = elect_uncleanly(row, partition, targets, rules, &kinds)
    decision.fault = slot == FAULT_SLOT
    if decision.fault or slot == partition.leader_slot and (slot >= 0 or partition.leader < 0):
        return
    decision.fields |= FIELD_LEADER
    if slot == NO_SLOT:
        decision.leader = NO_LEADER
        decision.kinds |= CHANGE_LEADER_LOST
        return
    decision.leader = partition.brokers[slot]
    if targets.elr & bit(slot):
        targets.isr = bit(slot)
        targets.elr &= ~bit(slot)
        if not kinds:
            kinds = CHANGE_FROM_ELR
    decision.kinds |= CHANGE_ELECTION | kinds
    if kinds & CHANGE_UNCLEAN:
        decision.fields |= FIELD_ISR
        decision.isr = bit(slot)
        if not partition.recovering and rules.recovery_supported:
            decision.fields |= FIELD_RECOVERY
            decision.recovery = 1


cdef inline void bump_epoch(const Partition* partition, Decision* decision) noexcept nogil:
    """Write the leader as it is, which raises its epoch."""
    decision.fields |= FIELD_LEADER
    decision.leader = partition.leader


cdef inline void update_isr_and_elr(
    const Partition* partition, Targets* targets, const QuorumRuleSet* rules, Decision* decision
) noexcept nogil:
    """Steps 4 to 7."""
    if not decision.fields & FIELD_LEADER and partition.replicas & ~targets.replicas:
        bump_epoch(partition, decision)
    if decision.fields & FIELD_ISR or not targets.elr_on:
        targets.elr = 0
    if not same_list(
        targets.elr, target_elr_order(partition, targets), partition.elr, partition.elr_order
    ):
        decision.fields |= FIELD_ELR
    if (
        not decision.fields & FIELD_ISR and (targets.isr or targets.elr_on)
        and not same_list(targets.isr, targets.isr_order, partition.isr, partition.isr_order)
    ):
        decision.fields |= FIELD_ISR
        decision.isr = targets.isr
    if rules.bumps_on_shrink and not decision.fields & FIELD_LEADER and partition.isr & ~(
        targets.isr if rules.bumps_by_target
        else decision.isr if decision.fields & FIELD_ISR else partition.isr
    ):
        bump_epoch(partition, decision)


cdef inline void update_last_known(
    const Partition* partition, const Targets* targets, const QuorumRuleSet* rules,
    Decision* decision
) noexcept nogil:
    """Step 8, and section 11 for 4.0. Source: `maybeUpdateLastKnownLeader`."""
    cdef bint loses = decision.fields & FIELD_LEADER and decision.leader == NO_LEADER
    cdef bint leads = decision.fields & FIELD_LEADER and decision.leader >= 0
    cdef bint known = partition.last_known != NOBODY_KNOWN
    cdef bint written
    if not targets.elr_on:
        return
    if rules.knows_leader_of_empty_isr:
        written = (
            decision.fields & FIELD_ISR and not decision.isr
            and partition.last_known != partition.leader
        )
        leads = leads or (partition.leader != NO_LEADER and not loses)
    else:
        written = loses and not known
    if written or (known and leads):
        decision.fields |= FIELD_LAST_KNOWN
        decision.last_known = partition.leader if written else NOBODY_KNOWN


cdef inline int32_t default_directory(
    const QuorumRuleSet* rules, uint8_t status, int32_t broker
) noexcept nogil:
    """Directory of a new replica. Source: section 1.1, `default_dir`."""
    cdef int32_t begin
    if not status & BROKER_REGISTERED:
        return UNASSIGNED
    if rules.directories == NULL:
        return MIGRATING
    begin = rules.directory_begin[broker]
    if begin == rules.directory_begin[broker + 1]:
        return MIGRATING
    if begin + 1 < rules.directory_begin[broker + 1]:
        return UNASSIGNED
    return rules.directories[begin]


cdef inline void set_directories(
    const Partition* partition, Targets* targets, const QuorumRuleSet* rules,
    const uint8_t* broker_status, Decision* decision
) noexcept nogil:
    """Directory of each target replica; recorded where the list is another one than now."""
    cdef uint64_t left = targets.replicas
    cdef uint64_t present = partition.replicas
    cdef int at = 0
    cdef int slot
    cdef int32_t directory
    cdef bint changed = kfast_count(left) != partition.n_replicas
    while left:
        slot = lowest_slot(left)
        left &= left - 1
        directory = partition.directory[slot] if partition.directory != NULL else MIGRATING
        if not (partition.replicas >> slot) & 1:
            directory = default_directory(
                rules, broker_status[partition.brokers[slot]], partition.brokers[slot]
            )
        if targets.has_directories and targets.directories[slot] != NO_DIRECTORY:
            directory = targets.directories[slot]
        targets.directories[slot] = directory
        if not changed:
            slot = next_in(&present, partition.replica_order, &at)
            changed = directory != (
                partition.directory[slot] if partition.directory != NULL else MIGRATING
            )
    if changed:
        decision.fields |= FIELD_DIRECTORIES


cdef inline void set_assignment(
    const Partition* partition, Targets* targets, const QuorumRuleSet* rules,
    const uint8_t* broker_status, Decision* decision
) noexcept nogil:
    """Step 9. Source: PartitionChangeBuilder.java, `setAssignmentChanges`."""
    cdef bint same = same_list(targets.replicas, NULL, partition.replicas, partition.replica_order)
    if targets.replicas:
        if rules.directories_on and (not same or targets.has_directories):
            set_directories(partition, targets, rules, broker_status, decision)
        if not same:
            decision.fields |= FIELD_REPLICAS
    if targets.removing != partition.removing:
        decision.fields |= FIELD_REMOVING
    if targets.adding != partition.adding:
        decision.fields |= FIELD_ADDING


cdef inline void decide(
    row_t row, const ColdColumns* cold, const Partition* partition, Targets* targets,
    const QuorumRuleSet* rules, Decision* decision
) noexcept nogil:
    """The fields of the record, in Kafka's steps; none where nothing changes.

    Source: section 3; PartitionChangeBuilder.java, `build`.
    """
    decision.fields = 0
    decision.kinds = 0
    decision.recovery = 0
    decision.leader = NO_LEADER
    decision.last_known = NOBODY_KNOWN
    decision.isr = 0
    if is_complete(
        rules.completion, targets.replicas, targets.isr, targets.removing, targets.adding
    ):
        targets.replicas &= ~targets.removing
        targets.isr &= ~targets.removing
        targets.removing = targets.adding = 0
        decision.kinds |= CHANGE_COMPLETED
    if targets.elr_on:
        populate_elr(row, partition, targets, rules, cold.broker_id)
    try_election(row, partition, targets, rules, decision)
    if decision.fault:
        return
    update_isr_and_elr(partition, targets, rules, decision)
    update_last_known(partition, targets, rules, decision)
    set_assignment(partition, targets, rules, row.broker_status, decision)
    if targets.recovery >= 0 and targets.recovery != partition.recovering:
        decision.fields |= FIELD_RECOVERY
        decision.recovery = targets.recovery
    if decision.fields & FIELD_ISR:
        if partition.isr & ~decision.isr:
            decision.kinds |= CHANGE_SHRINK
        if decision.isr & ~partition.isr:
            decision.kinds |= CHANGE_EXPAND
