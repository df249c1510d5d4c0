"""Build changes of partitions, and apply them.

All changes of an event are built from the state before it, into a log, and are applied afterwards:
so one partition may have two changes in one event.

Source: docs/kraft.md, sections 2 to 5; Kafka 4.1, ReplicationControlManager.java,
`generateLeaderAndIsrUpdates`, and PartitionRegistration.java, `merge`.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kfast.kernels.change_log cimport (
    Change,
    ChangeLog,
    FIELD_ADDING,
    FIELD_DIRECTORIES,
    FIELD_ELR,
    FIELD_ELR_OFF,
    FIELD_ISR,
    FIELD_LAST_KNOWN,
    FIELD_LEADER,
    FIELD_RECOVERY,
    FIELD_REMOVING,
    FIELD_REPLICAS,
    CHANGE_ELECTION,
    CHANGE_SHRINK,
    ELECT_CONFIGURED,
    has_room,
)
from kfast.kernels.partition_change cimport (
    Decision,
    MIGRATING,
    Partition,
    Targets,
    acceptable_slots,
    decide,
    elr_of,
    has_min_isr,
    is_online,
    keep_targets,
    next_in,
    read_partition,
    target_elr_order,
)
from kfast.kernels.effects cimport write_isr
from kfast.kernels.permute cimport permuted, put_broker, set_masks
from kfast.kernels.quorum_columns cimport (
    ColdColumns,
    NOBODY_KNOWN,
    NO_DIRECTORY,
    NO_MEMBER,
    QuorumColumns,
)
from kfast.kernels.quorum_rules cimport QuorumRuleSet, QuorumRules
from kfast.kernels.slots cimport (
    AHEAD,
    BROKER_REGISTERED,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    NO_LEADER,
    NO_SLOT,
    NarrowRow,
    bit,
    broker_is_live,
    first_slots,
    kfast_count,
    kfast_prefetch,
    lowest_slot,
    prefetch_row,
    row_at,
    row_t,
    share_start,
    slot_of,
    write_bit,
)

# Which rows an update visits; results of a build; what `apply` finds missing: `state.changes`.
cdef enum:
    VISIT_EVERY_ROW = 0
    VISIT_IN_ISR = 1
    VISIT_IN_ELR = 2
    VISIT_IN_ISR_AT_ONCE = 3
    BUILT_NOTHING = -1
    BUILT_FAULT = -2
    BUILT_CAPPED = -3
    BUILT_TOO_MANY_SLOTS = -4
    MISSING_SLOTS = 1
    MISSING_ELR = 2
    MISSING_ORDERS = 4
    MISSING_DIRECTORIES = 8
    NO_MEMORY = -2
    MOST_LISTED = 384   # entries of all lists of one change, at most

# What becomes of a partition that a broker leaves: masks of its ISR and of what is new in its ELR,
# and its leader, who is another one if the old one cannot stay.
cdef struct Leave:
    uint32_t isr
    uint32_t elr
    int32_t leader
    bint is_replaced


# ------------------------------------------------------------------------------------ into the log


cdef inline uint8_t write_list(
    int32_t* values, const int32_t* brokers, uint64_t mask, const uint8_t* order
) noexcept nogil:
    """Write the broker rows of a list; returns how many there are."""
    cdef int n = 0
    cdef int at = 0
    if not mask & (mask - 1):
        order = NULL
    while mask:
        values[n] = brokers[next_in(&mask, order, &at)]
        n += 1
    return <uint8_t> n


cdef inline uint8_t write_ascending(
    int32_t* values, const int32_t* brokers, uint64_t mask
) noexcept nogil:
    """Write the broker rows of some slots, the lowest first, as Kafka sorts what it adds."""
    cdef int n = 0
    cdef int place
    cdef int32_t broker
    while mask:
        broker = brokers[lowest_slot(mask)]
        mask &= mask - 1
        place = n
        while place > 0 and values[place - 1] > broker:
            values[place] = values[place - 1]
            place -= 1
        values[place] = broker
        n += 1
    return <uint8_t> n


cdef bint append_decision(
    ChangeLog log, row_t row, Py_ssize_t request, const Partition* partition,
    const Targets* targets, const Decision* decision
) noexcept nogil:
    """Append the change of one partition; False if there is no memory."""
    cdef Change* change
    cdef int32_t* values
    cdef int32_t* end
    cdef uint64_t left
    if not has_room(log, MOST_LISTED):
        return False
    change = &log.changes[log.n_changes]
    values = end = &log.values[log.n_lists]
    change[0] = Change(
        begin=log.n_lists, row=<int32_t> row.index, request=<int32_t> request,
        leader=decision.leader if decision.fields & FIELD_LEADER else partition.leader,
        leader_before=partition.leader,
        leader_epoch=row.record.leader_epoch + (decision.fields & FIELD_LEADER != 0),
        partition_epoch=row.record.version + 1,
        last_known=decision.last_known if decision.fields & FIELD_LAST_KNOWN else NOBODY_KNOWN,
        fields=decision.fields,
        recovery=<int> decision.recovery if decision.fields & FIELD_RECOVERY else -1,
        mode=<uint8_t> targets.mode, kinds=decision.kinds,
        n_isr=0, n_replicas=0, n_removing=0, n_adding=0, n_elr=0, n_directories=0,
    )
    if decision.fields & FIELD_ISR:
        change.n_isr = write_list(end, partition.brokers, decision.isr, targets.isr_order)
        end += change.n_isr
    if decision.fields & FIELD_REPLICAS:
        change.n_replicas = write_list(end, partition.brokers, targets.replicas, NULL)
        end += change.n_replicas
    if decision.fields & FIELD_REMOVING:
        change.n_removing = write_ascending(end, partition.brokers, targets.removing)
        end += change.n_removing
    if decision.fields & FIELD_ADDING:
        change.n_adding = write_ascending(end, partition.brokers, targets.adding)
        end += change.n_adding
    if decision.fields & FIELD_ELR:
        change.n_elr = write_list(
            end, partition.brokers, targets.elr, target_elr_order(partition, targets)
        )
        end += change.n_elr
    if decision.fields & FIELD_DIRECTORIES:
        left = targets.replicas
        while left:
            end[0] = targets.directories[lowest_slot(left)]
            end += 1
            change.n_directories += 1
            left &= left - 1
    log.n_lists += end - values
    log.n_changes += 1
    return True


# ------------------------------------------------------------------------------------ bulk updates


cdef inline int find_slot(const Partition* partition, int32_t broker) noexcept nogil:
    """Slot of a broker row, NO_SLOT for none."""
    return slot_of(&partition.brokers[0], partition.n_slots, broker)


cdef inline int take_slot(Partition* partition, int32_t broker) noexcept nogil:
    """Slot of a broker row, a new one where it has none; NO_SLOT where there is no room."""
    cdef int slot = find_slot(partition, broker)
    if slot == NO_SLOT and partition.n_slots < 64:
        slot = partition.n_slots
        partition.brokers[slot] = broker
        partition.n_slots += 1
    return slot


cdef inline bint take_last_known(
    row_t row, Partition* partition, Targets* targets, int32_t remove, int32_t add,
    int32_t stopped
) noexcept nogil:
    """Give the last known leader a slot if it has none; False where there is no room."""
    cdef uint8_t status
    cdef int slot
    if not targets.elr_on or partition.last_known < 0:
        return True
    if find_slot(partition, partition.last_known) != NO_SLOT:
        return True
    slot = take_slot(partition, partition.last_known)
    if slot == NO_SLOT:
        return False
    status = row.broker_status[partition.last_known]
    if partition.last_known not in (remove, stopped) and (
        broker_is_live(status) or (partition.last_known == add and status & BROKER_REGISTERED)
    ):
        targets.faulty |= bit(slot)
    return True


cdef inline void write_elr(row_t row, const ColdColumns* cold, uint64_t elr) noexcept nogil:
    """Write the mask of a row's ELR."""
    if row_t is NarrowRow:
        (<uint8_t*> cold.elr)[row.index] = <uint8_t> elr
    else:
        (<uint64_t*> cold.elr)[row.index] = elr


cdef inline void leave_order(uint8_t* order, int width, uint32_t isr, uint32_t elr) noexcept nogil:
    """Take out of an order who is in neither list any more; at most one slot is in the ELR."""
    cdef int n = 0
    cdef int s
    for s in range(width):
        if order[s] != NO_MEMBER and (isr >> order[s]) & 1:
            order[n] = order[s]
            n += 1
    if elr:
        order[n] = <uint8_t> lowest_slot(elr)
        n += 1
    for s in range(n, width):
        order[s] = NO_MEMBER


cdef inline int list_remaining(
    row_t row, const ColdColumns* cold, uint32_t isr, int32_t* values
) noexcept nogil:
    """List who stays in the ISR, in its order; returns how many do."""
    cdef const uint8_t* order = NULL
    cdef uint32_t slot
    cdef int n = 0
    cdef int s
    if cold.order != NULL:
        order = cold.order + row.width * row.index
    for s in range(row.record.n_slots):
        slot = order[s] if order != NULL else s
        if slot == NO_MEMBER:
            break
        if (isr >> slot) & 1:
            values[n] = <int32_t> row.brokers[slot]
            n += 1
    return n


cdef inline int decide_leave(
    row_t row, int width, const ColdColumns* cold, const QuorumRuleSet* rules, int32_t broker,
    Leave* leave
) noexcept nogil:
    """What becomes of a partition that a broker leaves, and that has a valid leader then.

    What nearly all rows of an event are is decided here by a few masks, with the same outcome as by
    `decide`: a row without a reassignment, an ELR, a last known leader or slots that are no
    replicas. Returns 1 for a change, 0 for none, or -1 where `decide` is needed. Who led and who
    leaves differs from row to row, which no processor can predict: so nothing branches on it.
    """
    cdef uint32_t live = 0
    cdef uint32_t gone = 0
    cdef uint32_t led = 0
    cdef uint32_t isr, valid
    cdef bint is_replaced
    cdef int n = 0
    cdef int s
    record = row.record
    brokers = row.brokers
    for s in range(width):
        live |= <uint32_t> broker_is_live(row.broker_status[brokers[s]]) << s
        gone |= <uint32_t> (<int32_t> brokers[s] == broker) << s
        led |= <uint32_t> (<int32_t> brokers[s] == record.leader) << s
    if not gone & <uint32_t> record.isr and record.n_slots == width:
        return 0
    isr = <uint32_t> record.isr & ~gone
    valid = isr & live
    if record.n_slots != width or record.n_replicas != width or not valid or (
        record.adding | record.removing or elr_of(row, cold)
    ):
        return -1
    is_replaced = not led & valid
    if cold.last_known != NULL and cold.last_known[row.index] != NOBODY_KNOWN and (
        is_replaced or rules.knows_leader_of_empty_isr
    ):
        return -1
    if cold.directory != NULL:
        for s in range(width):
            if (valid >> s) & 1 and not is_online(
                rules, <int32_t> brokers[s], cold.directory[row.width * row.index + s]
            ):
                return -1
    for s in range(width):
        n += (isr >> s) & 1
    leave.isr = isr
    leave.elr = gone if rules.elr_on and not has_min_isr(row, rules, n) else 0
    leave.is_replaced = is_replaced
    leave.leader = <int32_t> brokers[lowest_slot(valid)]
    leave.leader = leave.leader if is_replaced else record.leader
    return 1


cdef inline int decide_leave_of_any(
    row_t row, const ColdColumns* cold, const QuorumRuleSet* rules, int32_t broker, Leave* leave
) noexcept nogil:
    """The same with a number of slots that the compiler knows; -1 for rows of many slots."""
    cdef int n = row.record.n_slots
    if n == 3:
        return decide_leave(row, 3, cold, rules, broker, leave)
    if n == 2:
        return decide_leave(row, 2, cold, rules, broker, leave)
    if n <= 8:
        return decide_leave(row, n, cold, rules, broker, leave)
    return -1


cdef inline void apply_leave(
    row_t row, const ColdColumns* cold, const Leave* leave, ChangeLog log
) noexcept nogil:
    """Apply and count what `decide_leave` decided: the row keeps its slots, and has a leader."""
    cdef int32_t leader_before = row.record.leader
    cdef int32_t preferred = <int32_t> row.brokers[0]
    log.imbalanced += <int> (leave.leader != preferred) - <int> (leader_before != preferred)
    if leader_before == NO_LEADER:
        log.leaderless -= 1
        write_bit(row.leader_offline, row.index, False)
    row.record.leader = leave.leader
    row.record.leader_epoch += leave.is_replaced
    row.record.version += 1
    write_isr(row.record, leave.isr)
    log.n_counted += 1
    log.n_elections += leave.is_replaced
    log.n_moved += <int> leave.is_replaced & <int> (leader_before != NO_LEADER)
    if leave.elr:
        write_elr(row, cold, leave.elr)
    if cold.order != NULL:
        leave_order(
            cold.order + row.width * row.index, row.record.n_slots, leave.isr, leave.elr
        )


cdef inline void append_leave(
    row_t row, const ColdColumns* cold, const Leave* leave, Py_ssize_t request, int32_t broker,
    ChangeLog log
) noexcept nogil:
    """Append what `decide_leave` decided; the log has room for it."""
    cdef Change* change = &log.changes[log.n_changes]
    cdef int32_t* values = &log.values[log.n_lists]
    cdef int n = list_remaining(row, cold, leave.isr, values)
    change[0] = Change(
        begin=log.n_lists, row=<int32_t> row.index, request=<int32_t> request,
        leader=leave.leader, leader_before=row.record.leader,
        leader_epoch=row.record.leader_epoch + leave.is_replaced,
        partition_epoch=row.record.version + 1, last_known=NOBODY_KNOWN,
        fields=FIELD_ISR, recovery=-1, mode=ELECT_CONFIGURED, kinds=CHANGE_SHRINK,
        n_isr=<uint8_t> n, n_replicas=0, n_removing=0, n_adding=0, n_elr=0, n_directories=0,
    )
    if leave.is_replaced:
        change.fields |= FIELD_LEADER
        change.kinds |= CHANGE_ELECTION
    if leave.elr:
        values[n] = broker
        change.n_elr = 1
        change.fields |= FIELD_ELR
    log.n_lists += n + change.n_elr
    log.n_changes += 1


cdef inline void prefetch_partition(
    row_t first, const ColdColumns* cold, Py_ssize_t index
) noexcept nogil:
    """Fetch all columns of a row that is visited soon; some records lie on two cache lines."""
    prefetch_row(first, index)
    kfast_prefetch(<const char*> (first.record + index + 1) - 1)
    if cold.elr != NULL:
        kfast_prefetch(<const char*> cold.elr + sizeof(first.record.isr) * index)
    if cold.last_known != NULL:
        kfast_prefetch(cold.last_known + index)
    if cold.order != NULL:
        kfast_prefetch(cold.order + first.width * index)
    if cold.directory != NULL:
        kfast_prefetch(cold.directory + first.width * index)


cdef inline void prefetch_min_isr(
    row_t first, const QuorumRuleSet* rules, const int32_t[::1] rows, Py_ssize_t i
) noexcept nogil:
    """Fetch what `has_min_isr` reads of a row: its topic, then the size of partition 0."""
    cdef int32_t topic
    if i + 2 * AHEAD < rows.shape[0]:
        kfast_prefetch(first.topic_row + rows[i + 2 * AHEAD])
    if i + AHEAD < rows.shape[0]:
        topic = first.topic_row[rows[i + AHEAD]]
        if 0 <= topic < rules.n_topics:
            kfast_prefetch(&(first.record + max(rules.first_partition[topic], 0)).n_replicas)


cdef Py_ssize_t update_rows(
    row_t first, const ColdColumns* cold, const QuorumRuleSet* rules, const int32_t[::1] rows,
    int visited, int32_t remove, int32_t add, int32_t stopped, ChangeLog log
) noexcept nogil:
    """All rows of an update; -1, or the first row that is a fault, or NO_MEMORY."""
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t i
    cdef Partition partition
    cdef Targets targets
    cdef Decision decision
    cdef Leave leave
    cdef uint64_t removed, gone
    cdef int slot, done
    # Kafka fails on no row that a broker leaves for the ELR: for then somebody is eligible.
    cdef bint at_once = visited == VISIT_IN_ISR_AT_ONCE and not log.keeps_all and (
        rules.least_insync > 0 or not rules.elr_on
    )
    cdef bint leaves
    if visited == VISIT_IN_ISR_AT_ONCE:
        visited = VISIT_IN_ISR
    leaves = visited == VISIT_IN_ISR and remove >= 0 and stopped < 0 and not rules.bumps_on_shrink
    targets.mode = ELECT_CONFIGURED
    targets.elr_on = rules.elr_on
    for i in range(n):
        if i + 2 * AHEAD < n:
            prefetch_partition(first, cold, rows[i + 2 * AHEAD])
        if rules.elr_on and rules.most_insync > 1:
            prefetch_min_isr(first, rules, rows, i)
        row = row_at(first, rows[i])
        if leaves:
            done = decide_leave_of_any(row, cold, rules, remove, &leave)
            if done > 0 and at_once and (not leave.elr or cold.elr != NULL):
                apply_leave(row, cold, &leave, log)
            elif done > 0:
                if not has_room(log, 9):
                    return NO_MEMORY
                append_leave(row, cold, &leave, i, remove, log)
            if done >= 0:
                continue
        read_partition(row, cold, &partition)
        slot = find_slot(&partition, remove) if remove >= 0 else NO_SLOT
        removed = bit(slot) if slot >= 0 else 0
        slot = find_slot(&partition, stopped) if stopped >= 0 else NO_SLOT
        gone = removed | (bit(slot) if slot >= 0 else 0)
        if (visited == VISIT_IN_ISR and not gone & partition.isr) or (
            visited == VISIT_IN_ELR and not gone & partition.elr
        ):
            continue
        keep_targets(&partition, &targets)
        targets.isr &= ~gone
        targets.stopped = bit(slot) if slot >= 0 else 0
        targets.acceptable = acceptable_slots(row, cold, rules, add, gone, &targets.faulty)
        if not take_last_known(row, &partition, &targets, remove, add, stopped):
            return rows[i]
        decide(row, cold, &partition, &targets, rules, &decision)
        if decision.fault:
            return rows[i]
        if decision.fields and not append_decision(log, row, i, &partition, &targets, &decision):
            return NO_MEMORY
    return -1


def update(
    QuorumColumns columns not None,
    QuorumRules rules not None,
    const int32_t[::1] rows,  # IN  (n,)  partition rows, in the order of their visit
    int visited,              # `state.changes.Visited`
    int remove,               # broker rows, -1 for none
    int add,
    int unclean_shutdown,
    ChangeLog log not None,   # appended to
):
    """Rebuild partitions because a broker goes, comes, or has stopped uncleanly.

    Nothing is applied, but for `Visited.IN_ISR_AT_ONCE`. Returns -1, or the first row where Kafka
    fails by an internal error: then the event does, and what was appended is void. `Change.request`
    is the place in `rows`.

    Source: section 5; ReplicationControlManager.java, `generateLeaderAndIsrUpdates`.
    """
    cdef Py_ssize_t fault
    with nogil:
        if columns.is_narrow:
            fault = update_rows(
                columns.narrow, &columns.cold, &rules.values, rows, visited, remove, add,
                unclean_shutdown, log,
            )
        else:
            fault = update_rows(
                columns.wide, &columns.cold, &rules.values, rows, visited, remove, add,
                unclean_shutdown, log,
            )
    if fault == NO_MEMORY:
        raise MemoryError
    return fault


# ---------------------------------------------------------------------------------------- requests

# A partition whose slots were put into another order.
cdef struct Renumbered:
    uint8_t replica_order[64]
    uint8_t isr_order[64]
    uint8_t elr_order[64]
    uint8_t targets[64]
    int32_t directory[64]


cdef void renumber(
    Partition* partition, Targets* targets, const int32_t* replicas, int n_replicas,
    Renumbered* renumbered
) noexcept nogil:
    """Put the slots of target replicas first, in their order; all of them have slots."""
    cdef uint8_t source[64]
    cdef uint8_t place[64]
    cdef int32_t brokers[64]
    cdef uint64_t left = first_slots(partition.n_slots)
    cdef uint64_t mask
    cdef int n = partition.n_slots
    cdef int s, at
    for s in range(n_replicas):
        source[s] = <uint8_t> find_slot(partition, replicas[s])
        left &= ~bit(source[s])
    for s in range(n_replicas, n):
        source[s] = <uint8_t> lowest_slot(left)
        left &= left - 1
    for s in range(n):
        place[source[s]] = <uint8_t> s
        brokers[s] = partition.brokers[source[s]]
        renumbered.directory[s] = MIGRATING
        if partition.directory != NULL and source[s] < partition.n_replicas:
            renumbered.directory[s] = partition.directory[source[s]]
    for s in range(partition.n_replicas):
        renumbered.replica_order[s] = place[s]
    mask, at = partition.isr, 0
    for s in range(partition.n_isr):
        renumbered.isr_order[s] = place[next_in(&mask, partition.isr_order, &at)]
    mask, at = partition.elr, 0
    for s in range(partition.n_elr):
        renumbered.elr_order[s] = place[next_in(&mask, partition.elr_order, &at)]
    for s in range(n):
        partition.brokers[s] = brokers[s]
    if partition.leader_slot >= 0:
        partition.leader_slot = place[partition.leader_slot]
    partition.replicas = permuted(partition.replicas, source, n)
    partition.isr = permuted(partition.isr, source, n)
    partition.elr = permuted(partition.elr, source, n)
    partition.removing = permuted(partition.removing, source, n)
    partition.adding = permuted(partition.adding, source, n)
    targets.acceptable = permuted(targets.acceptable, source, n)
    targets.faulty = permuted(targets.faulty, source, n)
    partition.replica_order = renumbered.replica_order
    partition.isr_order = renumbered.isr_order
    partition.elr_order = renumbered.elr_order
    if partition.directory != NULL:
        partition.directory = renumbered.directory


cdef inline uint64_t slots_in(
    const Partition* partition, const int32_t* brokers, int n, uint8_t* order
) noexcept nogil:
    """Mask and order of a list of brokers that have slots."""
    cdef uint64_t mask = 0
    cdef int k
    for k in range(n):
        order[k] = <uint8_t> find_slot(partition, brokers[k])
        mask |= bit(order[k])
    return mask


cdef bint take_request(
    row_t row, const Change* request, const int32_t* values, const QuorumRuleSet* rules,
    Partition* partition, Targets* targets, Renumbered* renumbered
) noexcept nogil:
    """Targets of one request; False where the partition would track too many brokers."""
    cdef const int32_t* isr = values + request.begin
    cdef const int32_t* replicas = isr + request.n_isr
    cdef const int32_t* removing = replicas + request.n_replicas
    cdef const int32_t* adding = removing + request.n_removing
    cdef const int32_t* directories = adding + request.n_adding + request.n_elr
    cdef uint64_t left
    cdef uint8_t order[64]
    cdef int k
    targets.mode = request.mode
    targets.elr_on = rules.elr_on and not request.fields & FIELD_ELR_OFF
    if not take_last_known(row, partition, targets, NO_LEADER, NO_LEADER, NO_LEADER):
        return False
    for k in range(request.n_isr + request.n_replicas + request.n_removing + request.n_adding):
        if take_slot(partition, isr[k]) == NO_SLOT:
            return False
    if request.fields & FIELD_REPLICAS:
        # A broker that is no replica yet is not asked for; whether it is active matters if it is.
        for k in range(partition.n_slots):
            if not (partition.replicas >> k) & 1 and broker_is_live(
                row.broker_status[partition.brokers[k]]
            ):
                targets.faulty |= bit(k)
        renumber(partition, targets, replicas, request.n_replicas, renumbered)
    keep_targets(partition, targets)
    if request.fields & FIELD_REPLICAS:
        targets.replicas = slots_in(partition, replicas, request.n_replicas, order)
    if request.fields & FIELD_ISR:
        targets.isr = slots_in(partition, isr, request.n_isr, renumbered.targets)
        targets.isr_order = renumbered.targets
    if request.fields & FIELD_REMOVING:
        targets.removing = slots_in(partition, removing, request.n_removing, order)
    if request.fields & FIELD_ADDING:
        targets.adding = slots_in(partition, adding, request.n_adding, order)
    if request.fields & FIELD_RECOVERY:
        targets.recovery = request.recovery
    if request.fields & FIELD_DIRECTORIES:
        targets.has_directories = True
        left = targets.replicas
        for k in range(min(kfast_count(left), request.n_directories)):
            targets.directories[lowest_slot(left)] = directories[k]
            left &= left - 1
    return True


cdef Py_ssize_t build_rows(
    row_t first, const ColdColumns* cold, const QuorumRuleSet* rules, ChangeLog requests,
    ChangeLog log, int32_t[::1] results, Py_ssize_t most
) noexcept nogil:
    """All requests in order; how many changes were built, or NO_MEMORY."""
    cdef Py_ssize_t before = log.n_changes
    cdef Py_ssize_t i
    cdef const Change* request
    cdef Partition partition
    cdef Targets targets
    cdef Decision decision
    cdef Renumbered renumbered
    for i in range(requests.n_changes):
        if most >= 0 and log.n_changes - before >= most:
            results[i] = BUILT_CAPPED
            continue
        if i + AHEAD < requests.n_changes:
            prefetch_row(first, requests.changes[i + AHEAD].row)
        request = &requests.changes[i]
        row = row_at(first, request.row)
        read_partition(row, cold, &partition)
        targets.acceptable = acceptable_slots(row, cold, rules, NO_LEADER, 0, &targets.faulty)
        if not take_request(
            row, request, requests.values, rules, &partition, &targets, &renumbered
        ):
            results[i] = BUILT_TOO_MANY_SLOTS
            continue
        decide(row, cold, &partition, &targets, rules, &decision)
        results[i] = BUILT_FAULT if decision.fault else BUILT_NOTHING
        if not decision.fault and decision.fields:
            results[i] = <int32_t> log.n_changes
            if not append_decision(log, row, i, &partition, &targets, &decision):
                return NO_MEMORY
    return log.n_changes - before


def build(
    QuorumColumns columns not None,
    QuorumRules rules not None,
    ChangeLog requests not None,  # targets, in order; what is absent stays as it is
    ChangeLog log not None,       # appended to
    int32_t[::1] results,         # OUT  (n,)  place of the change in `log`, or `BuildResult`
    Py_ssize_t most=-1,           # stop when this call has built so many changes; -1: never
):
    """Build the changes that requests for single partitions come to; returns how many.

    Nothing is applied. A request gives targets: isr, replicas, removing, adding, recovery, and
    directories of the target replicas, -1 for those that it does not give; how to elect (`mode`),
    and whether ELR is treated as off. `Change.request` is the place of the request.

    Source: section 3; the callers of PartitionChangeBuilder.java in section 7.
    """
    cdef Py_ssize_t n
    if requests is log:
        raise ValueError("requests and changes are two logs")
    if results.shape[0] < requests.n_changes:
        raise ValueError(f"{results.shape[0]} results for {requests.n_changes} requests")
    with nogil:
        if columns.is_narrow:
            n = build_rows(
                columns.narrow, &columns.cold, &rules.values, requests, log, results, most
            )
        else:
            n = build_rows(
                columns.wide, &columns.cold, &rules.values, requests, log, results, most
            )
    if n == NO_MEMORY:
        raise MemoryError
    return n


# ---------------------------------------------------------------------------------------- applying

# A row as it will be: its slots, and masks and orders over them.
cdef struct Placed:
    int n_slots
    int n_replicas
    int n_isr
    int n_members
    bint ascends           # ISR and ELR are both in the order of the slots
    bint overflows         # more than 64 slots or members
    uint64_t isr
    uint64_t elr
    uint64_t removing
    uint64_t adding
    uint8_t order[64]      # of the ISR, then of the ELR
    int32_t brokers[64]


cdef inline int32_t place_slot(Placed* placed, int32_t broker) noexcept nogil:
    """Slot of a broker row, a new one where it has none."""
    cdef int s
    for s in range(placed.n_slots):
        if placed.brokers[s] == broker:
            return s
    if placed.n_slots == 64:
        placed.overflows = True
        return 0
    placed.brokers[placed.n_slots] = broker
    placed.n_slots += 1
    return placed.n_slots - 1


cdef inline uint64_t place_list(
    Placed* placed, const int32_t* given, int n_given, bint is_given, row_t row, uint64_t kept,
    const uint8_t* order, bint is_member
) noexcept nogil:
    """Mask of a list: the one that a change gives, or the one that the row has.

    Members of the ISR or the ELR are noted in their order.
    """
    cdef uint64_t mask = 0
    cdef int at = 0
    cdef int last = NO_SLOT
    cdef int k, slot
    for k in range(n_given if is_given else kfast_count(kept)):
        if is_given:
            slot = place_slot(placed, given[k])
        else:
            slot = place_slot(placed, <int32_t> row.brokers[next_in(&kept, order, &at)])
        mask |= bit(slot)
        if is_member and placed.n_members == 64:
            placed.overflows = True
        elif is_member:
            placed.order[placed.n_members] = <uint8_t> slot
            placed.n_members += 1
            placed.ascends &= slot > last
            last = slot
    return mask


cdef inline void place_row(
    row_t row, const ColdColumns* cold, const Change* change, const int32_t* isr, Placed* placed
) noexcept nogil:
    """Slots and lists of a row after a change."""
    cdef const int32_t* replicas = isr + change.n_isr
    cdef const int32_t* removing = replicas + change.n_replicas
    cdef const int32_t* adding = removing + change.n_removing
    cdef const int32_t* elr = adding + change.n_adding
    cdef const uint8_t* order = NULL
    cdef bint moves = change.fields & FIELD_REPLICAS != 0
    cdef int s
    if cold.order != NULL:
        order = cold.order + row.width * row.index
    placed.n_slots = placed.n_members = 0
    placed.ascends = True
    placed.overflows = False
    for s in range(change.n_replicas if moves else row.record.n_replicas):
        place_slot(placed, replicas[s] if moves else <int32_t> row.brokers[s])
    placed.n_replicas = placed.n_slots
    placed.isr = place_list(
        placed, isr, change.n_isr, change.fields & FIELD_ISR != 0, row, row.record.isr, order, True
    )
    placed.n_isr = placed.n_members
    if order != NULL:
        order += kfast_count(row.record.isr)
    placed.elr = place_list(
        placed, elr, change.n_elr, change.fields & FIELD_ELR != 0, row, elr_of(row, cold), order,
        True,
    )
    placed.removing = place_list(
        placed, removing, change.n_removing, change.fields & FIELD_REMOVING != 0, row,
        row.record.removing, NULL, False,
    )
    placed.adding = place_list(
        placed, adding, change.n_adding, change.fields & FIELD_ADDING != 0, row,
        row.record.adding, NULL, False,
    )
    if change.fields & FIELD_LEADER:
        if change.leader >= 0:
            place_slot(placed, change.leader)
    elif row.record.leader >= 0:
        place_slot(placed, row.record.leader)


cdef inline bint place_listed(
    row_t row, const int32_t* given, int n, Placed* placed, uint64_t* mask
) noexcept nogil:
    """Mask and order of a list in the slots that a row has; False where one is missing."""
    cdef int last = NO_SLOT
    cdef int k, slot
    mask[0] = 0
    for k in range(n):
        slot = slot_of(row.brokers, row.record.n_slots, given[k])
        if slot == NO_SLOT or placed.n_members == 64:
            return False
        placed.order[placed.n_members] = <uint8_t> slot
        placed.n_members += 1
        placed.ascends &= slot > last
        last = slot
        mask[0] |= bit(slot)
    return True


cdef inline bint place_in_slots(
    row_t row, const ColdColumns* cold, const Change* change, const int32_t* isr, Placed* placed
) noexcept nogil:
    """What `place_row` does, for a row that keeps its slots; False, for any other."""
    cdef const uint8_t* order = NULL
    cdef int n_isr = kfast_count(row.record.isr)
    cdef int k
    if (
        change.fields & (FIELD_REPLICAS | FIELD_REMOVING | FIELD_ADDING)
        or row.record.n_slots != row.record.n_replicas
        or (change.leader >= 0 and slot_of(
            row.brokers, row.record.n_slots, change.leader
        ) == NO_SLOT)
    ):
        return False
    if cold.order != NULL:
        order = cold.order + row.width * row.index
    placed.n_members = 0
    placed.ascends = True
    placed.overflows = False
    placed.isr = row.record.isr
    placed.elr = elr_of(row, cold)
    if change.fields & FIELD_ISR:
        if not place_listed(row, isr, change.n_isr, placed, &placed.isr):
            return False
    elif order != NULL:
        for k in range(n_isr):
            placed.order[k] = order[k]
        placed.n_members = n_isr
    if change.fields & FIELD_ELR:
        if not place_listed(row, isr + change.n_isr, change.n_elr, placed, &placed.elr):
            return False
    elif order != NULL:
        for k in range(min(kfast_count(placed.elr), 64 - placed.n_members)):
            placed.order[placed.n_members] = order[n_isr + k]
            placed.n_members += 1
    placed.n_members = kfast_count(placed.isr) + kfast_count(placed.elr)
    placed.n_slots = placed.n_replicas = row.record.n_slots
    placed.adding = row.record.adding
    placed.removing = row.record.removing
    return True


cdef inline int missing_for(
    row_t row, const ColdColumns* cold, const Change* change, const int32_t* directories,
    const Placed* placed
) noexcept nogil:
    """What a row has no place for."""
    cdef int missing = 0
    cdef int s
    if max(placed.n_slots, placed.n_members) > row.width:
        missing |= MISSING_SLOTS
    if cold.elr == NULL and (placed.elr or (
        change.fields & FIELD_LAST_KNOWN and change.last_known != NOBODY_KNOWN
    )):
        missing |= MISSING_ELR
    if cold.order == NULL and not placed.ascends:
        missing |= MISSING_ORDERS
    if cold.directory == NULL:
        for s in range(change.n_directories):
            if directories[s] != MIGRATING:
                missing |= MISSING_DIRECTORIES
    return missing


cdef inline void write_directories(
    row_t row, const ColdColumns* cold, const Change* change, const int32_t* directories
) noexcept nogil:
    """Write the directories of all replicas; one list of MIGRATING is as good as another."""
    cdef int32_t* written = cold.directory + row.width * row.index
    cdef Py_ssize_t s
    for s in range(row.width):
        if s >= row.record.n_replicas:
            written[s] = NO_DIRECTORY
        elif change.fields & FIELD_DIRECTORIES:
            written[s] = directories[s] if s < change.n_directories else MIGRATING
        elif written[s] == NO_DIRECTORY:
            written[s] = MIGRATING


cdef inline bint write_slots(row_t row, const Placed* placed, ChangeLog log) noexcept nogil:
    """Write the slots of a row, and note the new ones; False if there is no memory."""
    cdef int s
    for s in range(placed.n_slots):
        if slot_of(row.brokers, row.record.n_slots, placed.brokers[s]) == NO_SLOT:
            if not log.note_tracked(<int32_t> row.index, placed.brokers[s]):
                return False
    for s in range(max(placed.n_slots, <int> row.record.n_slots)):
        put_broker(row, s, placed.brokers[s] if s < placed.n_slots else -1)
    row.record.n_slots = <uint8_t> placed.n_slots
    row.record.n_replicas = <uint8_t> placed.n_replicas
    return True


cdef inline void write_members(
    row_t row, const ColdColumns* cold, const Placed* placed
) noexcept nogil:
    """Write masks and orders of a row."""
    cdef Py_ssize_t s
    set_masks(row.record, placed.isr, placed.adding, placed.removing, row.record.offline_dir)
    if cold.elr != NULL:
        write_elr(row, cold, placed.elr)
    if cold.order != NULL:
        for s in range(row.width):
            cold.order[row.width * row.index + s] = (
                placed.order[s] if s < placed.n_members else NO_MEMBER
            )


cdef inline bint is_led_by_another(row_t row) noexcept nogil:
    """Whether the preferred replica does not lead, as with nobody. Source: section 1.2."""
    return row.record.n_replicas == 0 or <int32_t> row.brokers[0] != row.record.leader


cdef inline int apply_change(
    row_t row, const ColdColumns* cold, const Change* change, ChangeLog log
) noexcept nogil:
    """Apply one change; returns what is missing, and then nothing is done, or NO_MEMORY.

    Source: section 2; PartitionRegistration.java, `merge`.
    """
    cdef const int32_t* isr = &log.values[change.begin]
    cdef const int32_t* directories = isr + (
        change.n_isr + change.n_replicas + change.n_removing + change.n_adding + change.n_elr
    )
    cdef Placed placed
    cdef int missing
    cdef bint stays = place_in_slots(row, cold, change, isr, &placed)
    cdef bint was_leaderless = row.record.leader == NO_LEADER
    cdef bint was_imbalanced = is_led_by_another(row)
    if not stays:
        place_row(row, cold, change, isr, &placed)
    missing = missing_for(row, cold, change, directories, &placed)
    if missing or placed.overflows:
        log.n_slots_needed = 65 if placed.overflows else max(placed.n_slots, placed.n_members)
        return missing | (MISSING_SLOTS if placed.overflows else 0)
    if not stays and not write_slots(row, &placed, log):
        return NO_MEMORY
    write_members(row, cold, &placed)
    if change.fields & FIELD_LEADER:
        row.record.leader = change.leader
        row.record.leader_epoch += 1
    if change.fields & FIELD_RECOVERY:
        row.record.flags &= ~FLAG_RECOVERY & 0xFF
        row.record.flags |= FLAG_RECOVERY if change.recovery > 0 else 0
    if change.fields & FIELD_LAST_KNOWN and cold.last_known != NULL:
        cold.last_known[row.index] = change.last_known
    if cold.directory != NULL and change.fields & (FIELD_DIRECTORIES | FIELD_REPLICAS):
        write_directories(row, cold, change, directories)
    row.record.version += 1
    write_bit(row.leader_offline, row.index, row.record.leader == NO_LEADER)
    log.leaderless += <int> (row.record.leader == NO_LEADER) - <int> was_leaderless
    log.imbalanced += <int> is_led_by_another(row) - <int> was_imbalanced
    return 0


cdef int apply_changes(
    row_t first, const ColdColumns* cold, ChangeLog log, Py_ssize_t end
) noexcept nogil:
    """Apply changes up to the end, or to the first for which something is missing."""
    cdef int missing
    while log.n_applied < end:
        if log.n_applied + AHEAD < end:
            prefetch_row(first, log.changes[log.n_applied + AHEAD].row)
        change = &log.changes[log.n_applied]
        missing = apply_change(row_at(first, change.row), cold, change, log)
        if missing:
            return missing
        log.n_applied += 1
    return 0


def apply(
    QuorumColumns columns not None,
    ChangeLog log not None,
    Py_ssize_t stop=-1,  # apply the changes before this one; -1: all
):
    """Apply the changes of a log, each after the one before it, from where the last call stopped.

    Returns 0, or `state.changes.Missing`: what a row has no place for. The state then allocates it,
    gives new columns, and calls again. The log notes what the caller has to add to the counters of
    the state and to its hosting index.

    Source: section 2; PartitionRegistration.java, `merge`.
    """
    columns.check_writable()
    cdef Py_ssize_t end = log.n_changes if stop < 0 else min(stop, log.n_changes)
    cdef int missing
    with nogil:
        if columns.is_narrow:
            missing = apply_changes(columns.narrow, &columns.cold, log, end)
        else:
            missing = apply_changes(columns.wide, &columns.cold, log, end)
    if missing == NO_MEMORY:
        raise MemoryError
    return missing


# -------------------------------------------------------------------------------------- whole state


cdef inline void activate_share(
    row_t first, Py_ssize_t begin, Py_ssize_t end, int64_t* counts
) noexcept nogil:
    """Count the rows of one share, and write their bits; a free row has no leadership."""
    cdef Py_ssize_t i
    cdef uint64_t word = 0
    cdef bint is_used, leaderless
    for i in range(begin, end):
        row = row_at(first, i)
        is_used = row.record.flags & FLAG_HAS_LEADERSHIP != 0
        leaderless = is_used and row.record.leader == NO_LEADER
        word |= <uint64_t> leaderless << (i & 63)
        counts[0] += leaderless
        counts[1] += is_used and is_led_by_another(row)
        if i & 63 == 63 or i + 1 == end:
            first.leader_offline[i >> 6] = word
            word = 0


def activate(
    QuorumColumns columns not None,
    int64_t[:, ::1] counts,  # IN OUT  (threads, 2)  leaderless, led by another than the preferred
):
    """Count what a new active controller keeps of the partitions, in one pass.

    The bitmap of leaderless partitions is written on the way. Source: section 1.2.
    """
    columns.check_writable()
    cdef int threads = <int> counts.shape[0]
    cdef Py_ssize_t n = columns.narrow.n_rows if columns.is_narrow else columns.wide.n_rows
    cdef int t
    for t in prange(threads, nogil=True, schedule="static", num_threads=threads):
        if columns.is_narrow:
            activate_share(
                columns.narrow, share_start(n, t, threads), share_start(n, t + 1, threads),
                &counts[t, 0],
            )
        else:
            activate_share(
                columns.wide, share_start(n, t, threads), share_start(n, t + 1, threads),
                &counts[t, 0],
            )


cdef void order_by_slot(
    row_t first, const ColdColumns* cold, uint8_t[:, ::1] orders
) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint64_t isr, elr
    cdef int n
    for i in range(first.n_rows):
        row = row_at(first, i)
        isr = row.record.isr
        elr = elr_of(row, cold)
        for n in range(<int> row.width):
            if isr:
                orders[i, n] = <uint8_t> lowest_slot(isr)
                isr &= isr - 1
            elif elr:
                orders[i, n] = <uint8_t> lowest_slot(elr)
                elr &= elr - 1
            else:
                orders[i, n] = NO_MEMBER


def order_members(
    QuorumColumns columns not None,
    uint8_t[:, ::1] orders,  # OUT  (P, S)  slots of the ISR, slots of the ELR, then 255
):
    """Write the order of all ISRs and ELRs in which slots ascend."""
    cdef Py_ssize_t n = columns.narrow.n_rows if columns.is_narrow else columns.wide.n_rows
    cdef Py_ssize_t width = columns.narrow.width if columns.is_narrow else columns.wide.width
    if orders.shape[0] != n or orders.shape[1] != width:
        raise ValueError("orders and slots differ in shape")
    with nogil:
        if columns.is_narrow:
            order_by_slot(columns.narrow, &columns.cold, orders)
        else:
            order_by_slot(columns.wide, &columns.cold, orders)


cdef Py_ssize_t select_rows(
    row_t first, const int32_t[::1] rows, int32_t broker, int32_t[::1] selected
) noexcept nogil:
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t i
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            kfast_prefetch(first.record + rows[i + AHEAD])
        # Each row is written, and the next one over it if the broker does not lead it.
        selected[n] = rows[i]
        n += row_at(first, rows[i]).record.leader == broker
    return n


def select_led(
    QuorumColumns columns not None,
    const int32_t[::1] rows,    # IN   (n,)  partition rows
    int broker,                 # broker row
    int32_t[::1] selected,      # OUT  (n,)  those that the broker leads
):
    """Select the rows that a broker leads; returns how many there are."""
    cdef Py_ssize_t n
    if selected.shape[0] < rows.shape[0]:
        raise ValueError("no room for all rows")
    with nogil:
        if columns.is_narrow:
            n = select_rows(columns.narrow, rows, broker, selected)
        else:
            n = select_rows(columns.wide, rows, broker, selected)
    return n


cdef bint leads_one(row_t first, const int32_t[::1] rows, int32_t broker) noexcept nogil:
    cdef Py_ssize_t i
    cdef int slot
    for i in range(rows.shape[0]):
        row = row_at(first, rows[i])
        if row.record.leader == broker:
            slot = slot_of(row.brokers, row.record.n_slots, broker)
            if slot != NO_SLOT and (row.record.isr >> slot) & 1:
                return True
    return False


def leads_any(
    QuorumColumns columns not None,
    const int32_t[::1] rows,  # IN  (n,)  partition rows
    int broker,               # broker row
):
    """Whether a broker leads one of some partitions, and is in its ISR.

    Source: section 6.4; BrokersToIsrs.java, `hasLeaderships`.
    """
    cdef bint leads
    with nogil:
        if columns.is_narrow:
            leads = leads_one(columns.narrow, rows, broker)
        else:
            leads = leads_one(columns.wide, rows, broker)
    return leads
