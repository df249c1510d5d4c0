"""The columns of one state, checked once and held by address.

The addresses are those of numpy arrays which the object keeps alive. An array that a state replaces
stays as it was here, so whoever holds columns asks `holds` before each use; `ClusterState.columns`
does.
"""

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t

from kfast.kernels.columns cimport columns_t
from kfast.kernels.slots cimport NarrowRecord, WideRecord

ARRAYS = (
    "records", "replicas", "replica_state", "broker_status", "topic_row", "partition",
    "topic_flags", "leader_offline", "pending",
)
"""The arrays of a state that kernels see, in the order in which `make_columns` takes them."""


cdef inline bint may_write(array) except -1:
    """Whether there is an array, and it may be written."""
    return array is not None and array.flags.writeable


cdef class Columns:
    """The columns of one state; made by `make_columns`."""

    def __init__(self):
        raise TypeError("columns are made by make_columns")

    def holds(self, dict values):
        """Whether the arrays among some values by name are still those that are held here."""
        cdef Py_ssize_t i
        for i in range(len(ARRAYS)):
            if values.get(ARRAYS[i]) is not (<tuple> self.arrays)[i]:
                return False
        return True

    def __reduce__(self):
        return make_columns, tuple(self.arrays)

    cdef int check_writable(self) except -1:
        """Raise where a kernel may not write: an array is read-only now, or there are no bitmaps.

        Kernels only read the status of brokers, the row and the flags of topics.
        """
        (records, replicas, states, _, _, partition, _, offline, pending) = <tuple> self.arrays
        if not (
            may_write(records) and may_write(replicas) and may_write(states)
            and may_write(partition) and may_write(offline) and may_write(pending)
        ):
            raise ValueError("the columns are read-only, or without bitmaps")
        return 0

    cdef int check_bitmaps(self) except -1:
        """Raise where there are no bitmaps, or none that may be written."""
        if not (may_write(self.arrays[7]) and may_write(self.arrays[8])):
            raise ValueError("the columns are without bitmaps, or these are read-only")
        return 0


cdef class NarrowColumns(Columns):
    """Columns in the narrow layout."""

    cdef NarrowRecord* records_in(self, array, Py_ssize_t n) except? NULL:
        """Place of n or more records that are not the state's; the caller keeps the array."""
        cdef const NarrowRecord[::1] records = array
        if records.shape[0] < n:
            raise ValueError(f"{records.shape[0]} records where {n} are needed")
        return <NarrowRecord*> &records[0] if n else NULL


cdef class WideColumns(Columns):
    """Columns in the wide layout."""

    cdef WideRecord* records_in(self, array, Py_ssize_t n) except? NULL:
        """Place of n or more records that are not the state's; the caller keeps the array."""
        cdef const WideRecord[::1] records = array
        if records.shape[0] < n:
            raise ValueError(f"{records.shape[0]} records where {n} are needed")
        return <WideRecord*> &records[0] if n else NULL


cdef uint64_t* bitmap_of(array, Py_ssize_t n_rows) except? NULL:
    """Place of a bitmap over some rows; NULL for none."""
    cdef const uint64_t[::1] bitmap
    if array is None:
        return NULL
    bitmap = array
    if bitmap.shape[0] < max((n_rows + 63) // 64, 1):
        raise ValueError("a bitmap is shorter than the records")
    return <uint64_t*> &bitmap[0]


cdef Columns fill(columns_t columns, tuple arrays):
    """Take all arrays but the two of the layout, and check that the lengths agree."""
    cdef const uint8_t[:, ::1] replica_state = arrays[2]
    cdef const uint8_t[::1] broker_status = arrays[3]
    cdef const int32_t[::1] topic_row = arrays[4]
    cdef const int32_t[::1] partition = arrays[5]
    cdef const uint8_t[::1] topic_flags = arrays[6]
    cdef Py_ssize_t n = columns.first.n_rows
    if arrays[1].shape[0] != n:
        raise ValueError("replicas and records differ in length")
    if replica_state.shape[0] != n or replica_state.shape[1] != columns.first.width:
        raise ValueError("replica_state and replicas differ in shape")
    if topic_row.shape[0] < n or partition.shape[0] < n:
        raise ValueError("topic_row or partition is shorter than the records")
    if n and columns.first.width:
        columns.first.states = <uint8_t*> &replica_state[0, 0]
    if n:
        columns.first.topic_row = &topic_row[0]
        columns.partition = <int32_t*> &partition[0]
    if broker_status.shape[0]:
        columns.first.broker_status = &broker_status[0]
    if topic_flags.shape[0]:
        columns.first.topic_flags = &topic_flags[0]
    columns.first.leader_offline = bitmap_of(arrays[7], n)
    columns.first.pending = bitmap_of(arrays[8], n)
    columns.arrays = arrays
    return columns


cdef NarrowColumns narrow_columns(
    const NarrowRecord[::1] records, const uint16_t[:, ::1] replicas
):
    cdef NarrowColumns columns = NarrowColumns.__new__(NarrowColumns)
    columns.is_narrow = True
    columns.first.n_rows = records.shape[0]
    columns.first.width = replicas.shape[1]
    if records.shape[0]:
        columns.first.record = <NarrowRecord*> &records[0]
    if replicas.shape[0] and replicas.shape[1]:
        columns.first.brokers = <uint16_t*> &replicas[0, 0]
    return columns


cdef WideColumns wide_columns(const WideRecord[::1] records, const int32_t[:, ::1] replicas):
    cdef WideColumns columns = WideColumns.__new__(WideColumns)
    columns.first.n_rows = records.shape[0]
    columns.first.width = replicas.shape[1]
    if records.shape[0]:
        columns.first.record = <WideRecord*> &records[0]
    if replicas.shape[0] and replicas.shape[1]:
        columns.first.brokers = <int32_t*> &replicas[0, 0]
    return columns


def make_columns(
    records, replicas, replica_state, broker_status, topic_row, partition, topic_flags,
    leader_offline=None, pending=None,
):
    """Columns of some arrays, in either layout; `ValueError` where types or lengths disagree.

    Without bitmaps, or with an array that is read-only, no kernel that writes takes them.
    """
    arrays = (
        records, replicas, replica_state, broker_status, topic_row, partition, topic_flags,
        leader_offline, pending,
    )
    if replicas.dtype == "uint16":
        return fill(narrow_columns(records, replicas), arrays)
    return fill(wide_columns(records, replicas), arrays)
