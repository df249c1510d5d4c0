"""The columns of one KRaft state: those of `columns.pxd`, and those that only KRaft has."""

from libc.stdint cimport int32_t, uint8_t

from kfast.kernels.columns cimport Columns, NarrowColumns, WideColumns


cdef void* place_in(array, Py_ssize_t n_rows) except? NULL:
    """Place of a column of masks or broker rows; NULL for none."""
    cdef const uint8_t[::1] column
    if array is None or not n_rows:
        return NULL
    if array.ndim != 1 or array.shape[0] != n_rows:
        raise ValueError(f"a column has the shape {array.shape}, the state has {n_rows} rows")
    column = array.view("uint8")
    return <void*> &column[0]


cdef void* matrix_in(array, Py_ssize_t n_rows, Py_ssize_t width) except? NULL:
    """Place of a matrix over slots; NULL for none."""
    cdef const uint8_t[:, ::1] matrix
    if array is None or not n_rows or not width:
        return NULL
    if array.shape != (n_rows, width):
        raise ValueError(f"a matrix has the shape {array.shape}, slots have {(n_rows, width)}")
    matrix = array.view("uint8")
    return <void*> &matrix[0, 0]


cdef class QuorumColumns:
    """Columns of a KRaft state, checked once and held by address, as `Columns` are.

    Parameters
    ----------
    columns : Columns
    broker_id : (B,) int32
        Id of each broker row, ascending.
    elr : (P,) uint8 or uint64, optional
        Mask of the slots in the ELR, as wide as the layout's. None: every ELR is empty.
    last_known_elr : (P,) int32, optional
        Broker row, -1 where the list holds the id -1, -2 where it is empty. None: all are empty.
    member_order : (P, S) uint8, optional
        Slots of the ISR in its order, then slots of the ELR in its order, then 255. None: slots
        ascend in every list.
    directory : (P, S) int32, optional
        Number of the directory of each replica, 0 MIGRATING, 1 UNASSIGNED, 2 LOST; -1 for slots
        that are no replica. None: all are MIGRATING.

    Raises
    ------
    ValueError
        Types or lengths disagree.
    """

    def __init__(
        self, Columns columns not None, broker_id, elr=None, last_known_elr=None,
        member_order=None, directory=None,
    ):
        cdef const int32_t[::1] ids = broker_id
        cdef Py_ssize_t n, width
        self.columns = columns
        self.is_narrow = columns.is_narrow
        if self.is_narrow:
            self.narrow = (<NarrowColumns> columns).first
            n, width = self.narrow.n_rows, self.narrow.width
        else:
            self.wide = (<WideColumns> columns).first
            n, width = self.wide.n_rows, self.wide.width
        for array, name in (
            (elr, "uint8" if self.is_narrow else "uint64"), (last_known_elr, "int32"),
            (member_order, "uint8"), (directory, "int32"),
        ):
            if array is not None and array.dtype != name:
                raise ValueError(f"an array of {array.dtype} where {name} is needed")
        self.cold.n_brokers = ids.shape[0]
        self.cold.broker_id = &ids[0] if ids.shape[0] else NULL
        self.cold.elr = place_in(elr, n)
        self.cold.last_known = <int32_t*> place_in(last_known_elr, n)
        self.cold.order = <uint8_t*> matrix_in(member_order, n, width)
        self.cold.directory = <int32_t*> matrix_in(directory, n, width)
        self.arrays = (columns, broker_id, elr, last_known_elr, member_order, directory)

    def holds(self, columns, broker_id, elr, last_known_elr, member_order, directory):
        """Whether these are the arrays that are held here."""
        cdef tuple arrays = self.arrays
        return (
            arrays[0] is columns and arrays[1] is broker_id and arrays[2] is elr
            and arrays[3] is last_known_elr and arrays[4] is member_order
            and arrays[5] is directory
        )

    cdef int check_writable(self) except -1:
        """Raise where a kernel may not write."""
        self.columns.check_writable()
        for array in self.arrays[2:]:
            if array is not None and not array.flags.writeable:
                raise ValueError("a column of a KRaft state is read-only")
        return 0
