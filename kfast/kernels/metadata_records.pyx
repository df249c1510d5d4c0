"""Records of a metadata log, one at a time, as Python values: whatever the fields of a class say.

A field is a tuple (name, kind, since, tag, default, required, fields): the first record version
that has it; its tag or -1; the value that a tagged field has where it is absent; whether it is
then given nevertheless; and the fields of a structure. `kfast.io.metadata.schema` has them all.

Source: docs/kraft.md, section 12.2.
"""

from cpython.unicode cimport PyUnicode_DecodeUTF8

from kfast.kernels.metadata_values cimport (
    ID_BYTES,
    Part,
    Wire,
    int16_t,
    int64_t,
    read_int8,
    read_int32,
    read_int64,
    read_length,
    read_text,
    read_uint16,
    read_varint,
    take,
    uint8_t,
    uint32_t,
    uint64_t,
    wire_of,
)


cpdef enum Kind:
    """What a field holds; `ARRAY` is added for a list of it."""

    INT8 = 0
    INT16 = 1
    UINT16 = 2
    INT32 = 3
    INT64 = 4
    BOOL = 5
    ID = 6
    TEXT = 7
    TEXT_OR_NULL = 8
    STRUCTURE = 9
    ARRAY = 16


cdef const char* DIGITS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


cdef void write_id(const uint8_t* id, char* text) noexcept nogil:
    """The 22 characters of URL-safe base64 that stand for 16 bytes."""
    cdef uint32_t bits = 0
    cdef int i
    cdef int n_bits = 0
    for i in range(ID_BYTES):
        bits = bits << 8 | id[i]
        n_bits += 8
        while n_bits >= 6:
            n_bits -= 6
            text[0] = DIGITS[bits >> n_bits & 63]
            text += 1
    text[0] = DIGITS[bits << 4 & 63]


def id_texts(
    const uint8_t[::1] ids,  # IN   (16 * n,)
    uint8_t[::1] texts,      # OUT  (22 * n,)  ASCII
):
    """Write ids of 128 bits as text."""
    cdef Py_ssize_t i
    for i in range(ids.shape[0] // ID_BYTES):
        write_id(&ids[ID_BYTES * i], <char*> &texts[22 * i])


cdef object read_one(Wire* wire, int kind, tuple fields, int version):
    """One value; what it is does not matter where `wire.bad` is set."""
    cdef Part part
    cdef const uint8_t* at
    cdef char text[22]
    if kind == INT32:
        return read_int32(wire)
    if kind == ID:
        at = take(wire, ID_BYTES)
        if at == NULL:
            return None
        write_id(at, text)
        return text[:22].decode("ascii")
    if kind == TEXT or kind == TEXT_OR_NULL:
        part = read_text(wire)
        if part.at == NULL:
            if kind == TEXT:
                wire.bad = True
            return None
        return PyUnicode_DecodeUTF8(<const char*> part.at, part.length, NULL)
    if kind == INT64:
        return read_int64(wire)
    if kind == INT8:
        return read_int8(wire)
    if kind == BOOL:
        return read_int8(wire) != 0
    if kind == INT16:
        return <int16_t> read_uint16(wire)
    if kind == UINT16:
        return read_uint16(wire)
    return read_fields(wire, fields, version)


cdef object read_value(Wire* wire, tuple field, int version):
    """The value of a field, a tuple for an array; None for a null array."""
    cdef int kind = field[1]
    cdef int64_t n
    if not kind & ARRAY:
        return read_one(wire, kind, field[6], version)
    n = read_length(wire)
    if n < 0:
        wire.bad |= <int> field[3] < 0
        return None
    values = []
    while n > 0 and not wire.bad:
        values.append(read_one(wire, kind - ARRAY, field[6], version))
        n -= 1
    return tuple(values)


cdef dict read_fields(Wire* wire, tuple fields, int version):
    """The fields of a structure by name, with the tagged ones that end it."""
    cdef dict values = {}
    cdef tuple field
    cdef uint64_t left
    cdef int64_t tag
    cdef Wire inner
    for field in fields:
        if field[3] < 0 and <int> field[2] <= version:
            values[field[0]] = read_value(wire, field, version)
        elif field[5]:
            values[field[0]] = field[4]
    left = read_varint(wire)
    while left and not wire.bad:
        tag = <int64_t> read_varint(wire)
        n = read_varint(wire)
        inner = wire_of(wire.at, wire.at)
        if take(wire, n) == NULL:
            break
        inner.end = wire.at
        for field in fields:
            if field[3] == tag and <int> field[2] <= version:
                value = read_value(&inner, field, version)
                if value != field[4]:
                    values[field[0]] = value
                wire.bad |= inner.bad or inner.at != inner.end
        left -= 1
    return values


def decode(
    const uint8_t[::1] data,  # IN  (n,)
    Py_ssize_t at,            # where the value of a record begins
    Py_ssize_t length,
    dict schemas,             # api key: fields
):
    """Decode the value of a record: its version, and its fields by name.

    Returns None where the bytes are not such a record; raises `UnicodeDecodeError` where a text
    is not UTF-8.
    """
    if not 0 <= at <= at + length <= data.shape[0] or not length:
        return None
    cdef Wire wire = wire_of(&data[0] + at, &data[0] + at + length)
    read_varint(&wire)
    fields = schemas[read_varint(&wire)]
    version = read_varint(&wire)
    values = read_fields(&wire, fields, version)
    return None if wire.bad or wire.at != wire.end else (version, values)
