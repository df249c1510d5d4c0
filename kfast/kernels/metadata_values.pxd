"""Values in records of a metadata log: numbers, texts and ids as the wire has them.

Every read checks that its bytes are there. One that fails sets `bad` and gives zero, and so does
every later one, so that a record is checked once, at its end.

Source: docs/kraft.md, sections 12.1 and 12.2.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #define kfast_big16(value) __builtin_bswap16(value)
    #define kfast_big32(value) __builtin_bswap32(value)
    #define kfast_big64(value) __builtin_bswap64(value)
    """
    uint16_t kfast_big16(uint16_t value) noexcept nogil
    uint32_t kfast_big32(uint32_t value) noexcept nogil
    uint64_t kfast_big64(uint64_t value) noexcept nogil

cdef enum:
    ID_BYTES = 16

cdef struct Wire:
    const uint8_t* at    # next byte
    const uint8_t* end   # behind the last byte
    bint bad             # a value ran past the end, or is none of its kind

# A text or an id within the bytes that were read.
cdef struct Part:
    const uint8_t* at
    int64_t length       # -1: null


cdef inline Wire wire_of(const uint8_t* at, const uint8_t* end) noexcept nogil:
    cdef Wire wire
    wire.at = at
    wire.end = end
    wire.bad = at > end
    return wire


cdef inline const uint8_t* take(Wire* wire, int64_t n) noexcept nogil:
    """Pass over n bytes; NULL where they are not there."""
    cdef const uint8_t* at = wire.at
    if wire.bad or n < 0 or wire.end - at < n:
        wire.bad = True
        return NULL
    wire.at = at + n
    return at


cdef inline int64_t read_int8(Wire* wire) noexcept nogil:
    cdef const uint8_t* at = take(wire, 1)
    return <int8_t> at[0] if at != NULL else 0


cdef inline uint16_t read_uint16(Wire* wire) noexcept nogil:
    cdef uint16_t value = 0
    cdef const uint8_t* at = take(wire, 2)
    if at != NULL:
        memcpy(&value, at, 2)
    return kfast_big16(value)


cdef inline int32_t read_int32(Wire* wire) noexcept nogil:
    cdef uint32_t value = 0
    cdef const uint8_t* at = take(wire, 4)
    if at != NULL:
        memcpy(&value, at, 4)
    return <int32_t> kfast_big32(value)


cdef inline int64_t read_int64(Wire* wire) noexcept nogil:
    cdef uint64_t value = 0
    cdef const uint8_t* at = take(wire, 8)
    if at != NULL:
        memcpy(&value, at, 8)
    return <int64_t> kfast_big64(value)


cdef inline uint64_t read_varint(Wire* wire) noexcept nogil:
    """An unsigned number: 7 bits a byte, low first, the high bit for one more byte."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef const uint8_t* at
    while shift < 64:
        at = take(wire, 1)
        if at == NULL:
            return 0
        value |= (<uint64_t> (at[0] & 0x7f)) << shift
        if at[0] < 0x80:
            return value
        shift += 7
    wire.bad = True
    return 0


cdef inline int64_t read_zigzag(Wire* wire) noexcept nogil:
    """A signed number: its sign is the lowest bit."""
    cdef uint64_t value = read_varint(wire)
    return <int64_t> (value >> 1) ^ -<int64_t> (value & 1)


cdef inline int64_t read_length(Wire* wire) noexcept nogil:
    """Length of a text or an array, written one higher; -1 for null.

    Each element has a byte at least, so that no length is more than the bytes that are left.
    """
    cdef uint64_t length = read_varint(wire)
    if length > <uint64_t> (wire.end - wire.at) + 1:
        wire.bad = True
        return 0
    return <int64_t> length - 1


cdef inline Part read_text(Wire* wire) noexcept nogil:
    """UTF-8 text, or null."""
    cdef Part part
    part.length = read_length(wire)
    part.at = take(wire, part.length) if part.length >= 0 else NULL
    return part


cdef inline void skip_tags(Wire* wire) noexcept nogil:
    """Pass over the tagged fields that end a structure."""
    cdef uint64_t left = read_varint(wire)
    while left and not wire.bad:
        read_varint(wire)
        take(wire, <int64_t> read_varint(wire))
        left -= 1
