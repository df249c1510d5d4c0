"""ISR and ELR as lists: in KRaft their order counts.

A row of the order has the slots of the ISR in its order, then those of the ELR. What has no order
is in that of its slots.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t

from kfast.kernels.slots cimport NO_SLOT, broker_t, kfast_count, slot_of


def are_in_slot_order(
    const broker_t[:, ::1] replicas,  # IN  (P, S)  broker rows
    const int32_t[::1] offsets,       # IN  (P+1,)  where each row's list begins
    const int32_t[::1] values,        # IN  (m,)    broker rows, all of them tracked
):
    """Whether every list names its brokers in the order of their slots."""
    cdef Py_ssize_t row, i
    cdef int width = <int> replicas.shape[1]
    cdef int last, slot
    for row in range(replicas.shape[0]):
        last = NO_SLOT
        for i in range(offsets[row], offsets[row + 1]):
            slot = slot_of(&replicas[row, 0], width, values[i])
            if slot < last:
                return False
            last = slot
    return True


def fill_order(
    const broker_t[:, ::1] replicas,  # IN      (P, S)  broker rows
    const int32_t[::1] offsets,       # IN      (P+1,)  where each row's list begins
    const int32_t[::1] values,        # IN      (m,)    broker rows, all of them tracked
    uint8_t[::1] filled,              # IN OUT  (P,)    entries of each row that are filled
    uint8_t[:, ::1] order,            # OUT     (P, S)  slots
):
    """Append a list of each row to its order."""
    cdef Py_ssize_t row, i
    cdef int width = <int> replicas.shape[1]
    for row in range(replicas.shape[0]):
        for i in range(offsets[row], offsets[row + 1]):
            order[row, filled[row]] = <uint8_t> slot_of(&replicas[row, 0], width, values[i])
            filled[row] += 1


def list_members(
    const broker_t[:, ::1] replicas,  # IN   (P, S)  broker rows
    const uint8_t[:, ::1] order,      # IN   (P, S)  slots
    const int32_t[::1] broker_id,     # IN   (B,)    ids
    const int32_t[::1] rows,          # IN   (n,)    partition rows
    const uint64_t[::1] before,       # IN   (n,)    slots that stand first in a row's order
    const uint64_t[::1] members,      # IN   (n,)    slots to list: those that follow
    int32_t[::1] values,              # OUT  (m,)    ids
):
    """List the broker ids of members of each row, in their order."""
    cdef Py_ssize_t i, at, row
    cdef Py_ssize_t end = 0
    cdef int first
    with nogil:
        for i in range(rows.shape[0]):
            row = rows[i]
            first = kfast_count(before[i])
            for at in range(first, first + kfast_count(members[i])):
                values[end] = broker_id[replicas[row, order[row, at]]]
                end += 1
