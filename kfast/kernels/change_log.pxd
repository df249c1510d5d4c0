"""Changes of partitions, as PartitionChange records have them: fields that are there, and lists.

Source: docs/kraft.md, sections 2 and 3; Kafka 4.1, PartitionChangeRecord.json.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t

# Which fields are there: bit t for tag t of the record. The last is for requests only.
cdef enum:
    FIELD_ISR = 1
    FIELD_LEADER = 2
    FIELD_REPLICAS = 4
    FIELD_REMOVING = 8
    FIELD_ADDING = 16
    FIELD_RECOVERY = 32
    FIELD_ELR = 64
    FIELD_LAST_KNOWN = 128
    FIELD_DIRECTORIES = 256
    FIELD_ELR_OFF = 512
    FIELDS_OF_LISTS = 349   # isr, replicas, removing, adding, elr, directories

# How a leader is chosen: `state.changes.Election`.
cdef enum:
    ELECT_PREFERRED = 0
    ELECT_ONLINE = 1
    ELECT_UNCLEAN = 2
    ELECT_CONFIGURED = 3

# What a change comes to: `state.changes.ChangeKind`.
cdef enum:
    CHANGE_ELECTION = 1
    CHANGE_UNCLEAN = 2
    CHANGE_FROM_ELR = 4
    CHANGE_LAST_KNOWN = 8
    CHANGE_LEADER_LOST = 16
    CHANGE_SHRINK = 32
    CHANGE_EXPAND = 64
    CHANGE_COMPLETED = 128

# Lists stand one behind the other in `lists`, from `begin` on, in the order of the fields n_*:
# broker rows, but numbers of directories. `last_known` is NOBODY_KNOWN where that list is empty.
# The epochs are those after the change.
cdef struct Change:
    int64_t begin
    int32_t row
    int32_t request
    int32_t leader
    int32_t leader_before
    int32_t leader_epoch
    int32_t partition_epoch
    int32_t last_known
    uint16_t fields
    int8_t recovery
    uint8_t mode
    uint8_t kinds
    uint8_t n_isr
    uint8_t n_replicas
    uint8_t n_removing
    uint8_t n_adding
    uint8_t n_elr
    uint8_t n_directories


cdef class ChangeLog:
    cdef readonly bint keeps_all
    cdef Change* changes
    cdef int32_t* values
    """All lists, one behind the other."""
    cdef Py_ssize_t n_changes
    cdef Py_ssize_t n_lists
    cdef Py_ssize_t room_for_changes
    cdef Py_ssize_t room_for_lists
    cdef Py_ssize_t n_applied
    cdef readonly Py_ssize_t n_counted
    cdef int64_t n_elections
    cdef int64_t n_moved
    """Changes that were applied at once and not kept: all, elections, and leaders that moved."""
    cdef int32_t* tracked_places
    """Row, then broker row, of each slot that `apply` gave to a broker."""
    cdef Py_ssize_t n_tracked
    cdef Py_ssize_t room_for_tracked
    cdef int n_slots_needed
    cdef int64_t leaderless
    cdef int64_t imbalanced

    cdef int append_list(self, values) except -1
    cdef bint reserve(self, Py_ssize_t n_changes, Py_ssize_t n_lists) noexcept nogil
    cdef bint note_tracked(self, int32_t row, int32_t broker) noexcept nogil


cdef inline bint has_room(ChangeLog log, Py_ssize_t n_lists) noexcept nogil:
    """Make room for one more change and its lists where there is none; False without memory."""
    return (
        log.n_changes < log.room_for_changes and log.n_lists + n_lists <= log.room_for_lists
    ) or log.reserve(1, n_lists)
