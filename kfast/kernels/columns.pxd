"""The columns of one state: what kernels take instead of its arrays.

`ClusterState.columns` makes them and makes them anew when an array was replaced. A kernel that
works on either layout takes `columns_t`: the two layouts are all that is compiled.
"""

from libc.stdint cimport int32_t

from kfast.kernels.slots cimport NarrowRecord, NarrowRow, WideRecord, WideRow


cdef class Columns:
    cdef int32_t* partition
    """(P,) partition number."""
    cdef bint is_narrow
    cdef tuple arrays

    cdef int check_writable(self) except -1
    cdef int check_bitmaps(self) except -1


cdef class NarrowColumns(Columns):
    cdef NarrowRow first
    """Row 0, from which `row_at` gives all others."""

    cdef NarrowRecord* records_in(self, array, Py_ssize_t n) except? NULL


cdef class WideColumns(Columns):
    cdef WideRow first

    cdef WideRecord* records_in(self, array, Py_ssize_t n) except? NULL


ctypedef fused columns_t:
    NarrowColumns
    WideColumns
