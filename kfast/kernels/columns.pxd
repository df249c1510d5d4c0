"""The columns of one state: what kernels take instead of its arrays.

`ClusterState.columns` makes them and makes them anew when an array was replaced. A kernel that
works on either layout takes `columns_t`: the two layouts are all that is compiled.
"""

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t

from kfast.kernels.slots cimport NarrowRecord, WideRecord


cdef class Columns:
    cdef uint8_t* replica_state
    """(P, S) `schema.ReplicaState`."""
    cdef uint8_t* broker_status
    """(B,) registered, shutting down."""
    cdef int32_t* topic_row
    """(P,) row of the topic."""
    cdef int32_t* partition
    """(P,) partition number."""
    cdef uint8_t* topic_flags
    """(T,) queued, started, ..."""
    cdef uint64_t* leader_offline
    """Bitmap: partitions with leadership and an offline leader."""
    cdef uint64_t* pending
    """Bitmap: partitions New or Offline."""
    cdef Py_ssize_t n_partitions
    cdef Py_ssize_t n_brokers
    cdef Py_ssize_t n_words
    """Words of a bitmap."""
    cdef Py_ssize_t width
    """Slots of a row of the replica matrix."""
    cdef bint is_narrow
    cdef bint is_writable
    cdef bint has_bitmaps
    """Both, and they may be written."""
    cdef object arrays

    cdef int check_writable(self) except -1
    cdef int check_bitmaps(self) except -1


cdef class NarrowColumns(Columns):
    cdef NarrowRecord* records
    cdef uint16_t* replicas

    cdef NarrowRecord* records_in(self, array, Py_ssize_t n) except? NULL


cdef class WideColumns(Columns):
    cdef WideRecord* records
    cdef int32_t* replicas

    cdef WideRecord* records_in(self, array, Py_ssize_t n) except? NULL


ctypedef fused columns_t:
    NarrowColumns
    WideColumns
