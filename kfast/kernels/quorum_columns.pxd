"""The columns of one KRaft state: those of `columns.pxd`, and those that only KRaft has.

These are cold: each is there only in states that use it.
"""

from libc.stdint cimport int32_t, uint8_t

from kfast.kernels.columns cimport Columns
from kfast.kernels.slots cimport NarrowRow, WideRow

cdef enum:
    NO_MEMBER = 255   # in `order`: no further member
    NO_DIRECTORY = -1
    NOBODY_KNOWN = -2  # in `last_known`: the list is empty, where -1 is an id that it holds

cdef struct ColdColumns:
    void* elr                 # (P,)    mask: slots in the ELR; uint8 or uint64 as the layout is
    int32_t* last_known       # (P,)    broker row, or -1 as Kafka writes it, or NOBODY_KNOWN
    uint8_t* order            # (P, S)  slots of the ISR in its order, then those of the ELR
    int32_t* directory        # (P, S)  number of the directory of each replica
    const int32_t* broker_id  # (B,)    id of each broker row, ascending
    Py_ssize_t n_brokers


cdef class QuorumColumns:
    cdef Columns columns
    cdef bint is_narrow
    cdef NarrowRow narrow
    """Row 0 in the layout that the state has."""
    cdef WideRow wide
    cdef ColdColumns cold
    cdef tuple arrays

    cdef int check_writable(self) except -1
