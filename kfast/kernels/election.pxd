"""The four elections, as one function on masks.

Sections are those of docs/controller.md.
"""

from libc.stdint cimport uint64_t

from kfast.kernels.slots cimport NO_SLOT, Liveness, lowest_slot

# `schema.Strategy`; the last three are older forms, `Profile.kernel_strategy`.
cdef enum:
    OFFLINE = 0
    OFFLINE_ALLOW_UNCLEAN = 1
    REASSIGN = 2
    PREFERRED_REPLICA = 3
    CONTROLLED_SHUTDOWN = 4
    SHUTDOWN_AMONG_LIVE = 5
    WRITE_BACK = 6
    PREFERRED_IF_NEEDED = 7

# What a user's rule says of a row: a slot, NO_SLOT, or that it is not asked.
cdef enum:
    NOT_ASKED_RULE = -2

cdef struct Choice:
    int slot
    bint unclean
    uint64_t isr
    uint64_t recipients
    uint64_t candidates


cdef inline Choice elect_one(
    int strategy, uint64_t assigned, uint64_t target, uint64_t isr, Liveness seen, bint unclean
) noexcept nogil:
    """Choose a leader: the first candidate, in slot order, that the strategy accepts.

    `assigned` are the slots of the assignment, `target` those that a reassignment keeps, `unclean`
    says that a leader outside the ISR is permitted (it is chosen only where no ISR member is
    online). The slot is NO_SLOT where nobody qualifies.

    Source: sections 4.1 and 8.1; Kafka 3.9, `PartitionLeaderElectionAlgorithms`.
    """
    cdef Choice choice
    cdef uint64_t candidates
    choice.unclean = False
    choice.isr = isr
    if strategy <= OFFLINE_ALLOW_UNCLEAN:
        choice.recipients = assigned & seen.live
        candidates = choice.recipients & isr
        if candidates:
            choice.isr = isr & seen.live
        elif unclean and not isr & seen.live and choice.recipients:
            candidates = choice.recipients
            choice.unclean = True
    elif strategy == WRITE_BACK:
        choice.recipients = assigned
        candidates = 0
    elif strategy == REASSIGN:
        choice.recipients = target
        candidates = target & seen.live & isr
    elif strategy == PREFERRED_REPLICA or strategy == PREFERRED_IF_NEEDED:
        choice.recipients = assigned
        candidates = assigned & 1 & seen.live & isr
    else:
        choice.recipients = assigned & (seen.live if strategy == SHUTDOWN_AMONG_LIVE else seen.up)
        candidates = choice.recipients & isr & ~seen.shutting_down
        choice.isr = isr & ~seen.shutting_down
    choice.candidates = candidates
    choice.slot = lowest_slot(candidates) if candidates else NO_SLOT
    if choice.unclean:
        choice.isr = (<uint64_t> 1) << choice.slot
    return choice


cdef inline void overrule(Choice* choice, int decided) noexcept nogil:
    """Take the slot that a user's rule decided on, one of the candidates, or none."""
    if decided == NOT_ASKED_RULE:
        return
    choice.slot = decided
    if decided == NO_SLOT:
        choice.unclean = False
    elif choice.unclean:
        choice.isr = (<uint64_t> 1) << decided
