"""The columns of one state, checked once and held by address.

The addresses are those of numpy arrays which the object keeps alive. An array that a state replaces
stays as it was here, so whoever holds columns asks `holds` before each use; `ClusterState.columns`
does.
"""

from libc.stdint cimport int32_t, uint8_t, uint16_t, uint64_t

from kfast.kernels.slots cimport NarrowRecord, WideRecord

ARRAYS = (
    "records", "replicas", "replica_state", "broker_status", "topic_row", "partition",
    "topic_flags", "leader_offline", "pending",
)
"""The arrays of a state that kernels see, in the order in which `make_columns` takes them."""


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

    def part(self, Py_ssize_t start, Py_ssize_t stop):
        """Columns of some of the rows; with bitmaps where the first row begins a word of them."""
        (records, replicas, states, status, topic_row, partition, flags, offline, pending) = (
            self.arrays
        )
        rows = slice(start, stop)
        if start % 64 or offline is None or pending is None:
            offline = pending = None
        else:
            offline, pending = offline[start // 64 :], pending[start // 64 :]
        return make_columns(
            records[rows], replicas[rows], states[rows], status, topic_row[rows], partition[rows],
            flags, offline, pending,
        )

    def __reduce__(self):
        return make_columns, tuple(self.arrays)

    cdef int check_writable(self) except -1:
        """Raise where a kernel may not write: some array is read-only, or there are no bitmaps."""
        if not self.is_writable:
            raise ValueError("the columns are read-only, or without bitmaps")
        return 0

    cdef int check_bitmaps(self) except -1:
        """Raise where there are no bitmaps, or none that may be written."""
        if not self.has_bitmaps:
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


cdef int fill(
    Columns columns, const uint8_t[:, ::1] replica_state, const uint8_t[::1] broker_status,
    const int32_t[::1] topic_row, const int32_t[::1] partition, const uint8_t[::1] topic_flags,
    tuple arrays
) except -1:
    """Take all arrays but the two of the layout, and check that the lengths agree."""
    cdef Py_ssize_t n = columns.n_partitions
    cdef const uint64_t[::1] bitmap
    if replica_state.shape[0] != n or replica_state.shape[1] != columns.width:
        raise ValueError("replica_state and replicas differ in shape")
    if topic_row.shape[0] < n or partition.shape[0] < n:
        raise ValueError("topic_row or partition is shorter than the records")
    columns.n_brokers = broker_status.shape[0]
    columns.n_words = max((n + 63) // 64, 1)
    if n and columns.width:
        columns.replica_state = <uint8_t*> &replica_state[0, 0]
    if n:
        columns.topic_row = <int32_t*> &topic_row[0]
        columns.partition = <int32_t*> &partition[0]
    if broker_status.shape[0]:
        columns.broker_status = <uint8_t*> &broker_status[0]
    if topic_flags.shape[0]:
        columns.topic_flags = <uint8_t*> &topic_flags[0]
    columns.arrays = arrays
    *others, leader_offline, pending = arrays
    columns.has_bitmaps = (
        leader_offline is not None and leader_offline.flags.writeable
        and pending is not None and pending.flags.writeable
    )
    columns.is_writable = columns.has_bitmaps
    for array in others:
        columns.is_writable = columns.is_writable and array.flags.writeable
    if leader_offline is not None:
        bitmap = leader_offline
        if bitmap.shape[0] < columns.n_words:
            raise ValueError("leader_offline is shorter than the records")
        columns.leader_offline = <uint64_t*> &bitmap[0]
    if pending is not None:
        bitmap = pending
        if bitmap.shape[0] < columns.n_words:
            raise ValueError("pending is shorter than the records")
        columns.pending = <uint64_t*> &bitmap[0]
    return 0


cdef Columns narrow_columns(const NarrowRecord[::1] records, const uint16_t[:, ::1] replicas):
    cdef NarrowColumns columns = NarrowColumns.__new__(NarrowColumns)
    columns.is_narrow = True
    columns.n_partitions = records.shape[0]
    columns.width = <int> replicas.shape[1]
    if replicas.shape[0] != columns.n_partitions:
        raise ValueError("replicas and records differ in length")
    if columns.n_partitions:
        columns.records = <NarrowRecord*> &records[0]
        columns.replicas = <uint16_t*> &replicas[0, 0] if columns.width else NULL
    return columns


cdef Columns wide_columns(const WideRecord[::1] records, const int32_t[:, ::1] replicas):
    cdef WideColumns columns = WideColumns.__new__(WideColumns)
    columns.n_partitions = records.shape[0]
    columns.width = <int> replicas.shape[1]
    if replicas.shape[0] != columns.n_partitions:
        raise ValueError("replicas and records differ in length")
    if columns.n_partitions:
        columns.records = <WideRecord*> &records[0]
        columns.replicas = <int32_t*> &replicas[0, 0] if columns.width else NULL
    return columns


def make_columns(
    records, replicas, replica_state, broker_status, topic_row, partition, topic_flags,
    leader_offline=None, pending=None,
):
    """Columns of some arrays, in either layout; `ValueError` where types or lengths disagree.

    Without bitmaps, or with an array that is read-only, no kernel that writes takes them.
    """
    cdef Columns columns
    if replicas.dtype == "uint16":
        columns = narrow_columns(records, replicas)
    else:
        columns = wide_columns(records, replicas)
    fill(
        columns, replica_state, broker_status, topic_row, partition, topic_flags,
        (records, replicas, replica_state, broker_status, topic_row, partition, topic_flags,
         leader_offline, pending),
    )
    return columns
