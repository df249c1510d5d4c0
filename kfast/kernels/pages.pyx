"""Pages of Parquet: integers as places in a dictionary, of one, two or four whole bytes.

A page begins with the width of a place in bits. Runs follow: a varint, whose lowest bit tells
whether one place is repeated (0, then how often) or places follow one by one (1, then how many
groups of 8). The dictionaries here are ranges of integers, so that a place is a value and a
constant, and nothing is looked up; widths of whole bytes leave nothing to be packed.

Source: Apache Parquet, `Encodings.md`, "Run Length Encoding / Bit-Packing Hybrid" and "Dictionary
Encoding".
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    I32_NEXT = 0x15  # a field's first byte: an int32, its number the one before and 1
    STRUCT_OF_DATA = 0x2C  # a struct, its number the one before and 2
    STRUCT_OF_DICTIONARY = 0x4C  # and 4
    DATA_PAGE = 0
    DICTIONARY_PAGE = 2
    GROUP = 8
    SHORTEST_RUN = 16
    MOST_GROUPS = 63  # whose number fits one byte: it is known only when they are written

ctypedef fused place_t:
    uint8_t
    uint16_t
    uint32_t


cdef inline Py_ssize_t count_equal(const int32_t* values, Py_ssize_t n) noexcept nogil:
    """How many values at the beginning are equal; 0 for fewer than the shortest run."""
    cdef int32_t first = values[0]
    cdef int32_t differs = 0
    cdef Py_ssize_t found = 0
    cdef int k
    while found + SHORTEST_RUN <= n:
        for k in range(SHORTEST_RUN):
            differs |= values[found + k] ^ first
        if differs:
            break
        found += SHORTEST_RUN
    if not found:
        return 0
    while found < n and values[found] == first:
        found += 1
    return found


cdef inline Py_ssize_t put_varint(uint8_t* out, uint64_t number) noexcept nogil:
    """Write seven bits a byte, the lowest first; returns how many bytes."""
    cdef Py_ssize_t n = 0
    while number > 127:
        out[n] = <uint8_t> (number & 127 | 128)
        number >>= 7
        n += 1
    out[n] = <uint8_t> number
    return n + 1


cdef inline Py_ssize_t put_places(
    const int32_t* values, Py_ssize_t n, int32_t offset, uint8_t* out, place_t* scratch,
    place_t* highest
) noexcept nogil:
    """Write places one by one, in whole groups; returns how many bytes."""
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t row = 0
    cdef Py_ssize_t k, m, groups
    cdef place_t most = highest[0]
    while row < n:
        m = min(n - row, MOST_GROUPS * GROUP)
        groups = (m + GROUP - 1) // GROUP
        out[at] = <uint8_t> (groups << 1 | 1)
        for k in range(m):
            scratch[k] = <place_t> (<uint32_t> values[row + k] + <uint32_t> offset)
        for k in range(m):
            most = scratch[k] if scratch[k] > most else most
        for k in range(m, groups * GROUP):
            scratch[k] = 0
        memcpy(out + at + 1, scratch, groups * GROUP * sizeof(place_t))
        at += 1 + groups * GROUP * <Py_ssize_t> sizeof(place_t)
        row += m
    highest[0] = most
    return at


cdef inline Py_ssize_t put_runs(
    const int32_t* values, Py_ssize_t n, int32_t offset, uint8_t* out, place_t* scratch,
    place_t* highest, Py_ssize_t n_equal
) noexcept nogil:
    """Write all runs of a page, where some values are as those before; returns how many bytes."""
    cdef Py_ssize_t row = 0
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t equal = 0
    cdef Py_ssize_t begin
    cdef place_t place
    if n_equal < n // 4:
        return put_places(values, n, offset, out, scratch, highest)
    while row < n:
        begin = row
        while row < n:
            equal = count_equal(values + row, n - row) if n_equal < n - 1 else n
            if equal:
                break
            row += GROUP
        row = min(row, n)
        at += put_places(values + begin, row - begin, offset, out + at, scratch, highest)
        if row < n:
            at += put_varint(out + at, <uint64_t> equal << 1)
            place = <place_t> (<uint32_t> values[row] + <uint32_t> offset)
            highest[0] = place if place > highest[0] else highest[0]
            memcpy(out + at, &place, sizeof(place_t))
            at += sizeof(place_t)
            row += equal
    return at


def put_page(
    const int32_t[::1] values,  # IN   (n,)   at least one
    int32_t offset,             # what makes a place of a value
    int64_t n_places,           # size of the dictionary that there may be
    uint8_t[::1] out,           # OUT  (m,)   at least 5 bytes a value, and 64
):
    """Write values as places in a dictionary, or as they are where one is not in it.

    Returns how many bytes were written, and the highest place; -1 where values stand as they are.
    """
    cdef Py_ssize_t n = values.shape[0]
    cdef Py_ssize_t size
    cdef Py_ssize_t row = 0
    cdef int32_t equal = 0
    cdef uint32_t bits = 0
    cdef int64_t last
    cdef uint8_t bytes1[MOST_GROUPS * GROUP]
    cdef uint16_t bytes2[MOST_GROUPS * GROUP]
    cdef uint32_t bytes4[MOST_GROUPS * GROUP]
    cdef uint8_t highest1 = 0
    cdef uint16_t highest2 = 0
    cdef uint32_t highest4 = 0
    if out.shape[0] < 5 * n + 64:
        raise ValueError("no room for a page")
    with nogil:
        # All bits of all places: a bound that needs no comparison. Below 0 is the highest bit.
        for row in range(n):
            bits |= <uint32_t> values[row] + <uint32_t> offset
        for row in range(n - 1):
            equal += values[row] == values[row + 1]
        last = bits
        if last >= n_places:
            last = 0
            for row in range(n):
                last = max(last, <int64_t> (<uint32_t> values[row] + <uint32_t> offset))
        if last >= n_places:
            memcpy(&out[0], &values[0], n * sizeof(int32_t))
            size, last = n * sizeof(int32_t), -1
        elif last < 256:
            out[0] = 8
            size = put_runs(
                &values[0], n, offset, &out[1], &bytes1[0], &highest1, equal
            ) + 1
            last = highest1
        elif last < 65536:
            out[0] = 16
            size = put_runs(
                &values[0], n, offset, &out[1], &bytes2[0], &highest2, equal
            ) + 1
            last = highest2
        else:
            out[0] = 32
            size = put_runs(
                &values[0], n, offset, &out[1], &bytes4[0], &highest4, equal
            ) + 1
            last = highest4
    return size, last


cdef inline Py_ssize_t take_runs(
    const uint8_t* page, Py_ssize_t size, Py_ssize_t n, int32_t offset, uint64_t n_places,
    int32_t* out, place_t* scratch
) noexcept nogil:
    """Read all runs of a page; returns how many values there are, -1 for a page that is none."""
    cdef Py_ssize_t row = 0
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t k, m, chunk
    cdef uint64_t head
    cdef int shift
    cdef place_t most
    while row < n:
        head, shift = 0, 0
        while True:
            if at >= size or shift > 35:
                return -1
            head |= <uint64_t> (page[at] & 127) << shift
            shift += 7
            at += 1
            if page[at - 1] < 128:
                break
        if head & 1:
            # The last group may be more than the values that are left.
            if head >> 1 > <uint64_t> (n - row + GROUP - 1) // GROUP:
                return -1
            m = <Py_ssize_t> (head >> 1) * GROUP
            if m * <Py_ssize_t> sizeof(place_t) > size - at:
                return -1
            while m > 0:
                chunk = min(m, MOST_GROUPS * GROUP)
                memcpy(scratch, page + at, chunk * sizeof(place_t))
                at += chunk * <Py_ssize_t> sizeof(place_t)
                m -= chunk
                chunk = min(chunk, n - row)
                most = 0
                for k in range(chunk):
                    most = scratch[k] if scratch[k] > most else most
                if most >= n_places:
                    return -1
                for k in range(chunk):
                    out[row + k] = <int32_t> (<uint32_t> scratch[k] - <uint32_t> offset)
                row += chunk
            continue
        if head >> 1 > <uint64_t> (n - row) or size - at < <Py_ssize_t> sizeof(place_t):
            return -1
        memcpy(scratch, page + at, sizeof(place_t))
        at += sizeof(place_t)
        if scratch[0] >= n_places or not head:
            return -1
        for k in range(<Py_ssize_t> (head >> 1)):
            out[row + k] = <int32_t> (<uint32_t> scratch[0] - <uint32_t> offset)
        row += <Py_ssize_t> (head >> 1)
    return n


def take_page(
    const uint8_t[::1] page,  # IN   (m,)   what `put_page` wrote, or anything
    bint is_plain,            # the values stand as they are
    int32_t offset,           # what makes a place of a value
    int64_t n_places,         # size of the dictionary
    int32_t[::1] values,      # OUT  (n,)
):
    """Read a page; returns whether that could be done: whether it is one, with so many values."""
    cdef Py_ssize_t n = values.shape[0]
    cdef Py_ssize_t size = page.shape[0]
    cdef Py_ssize_t found = -1
    cdef uint8_t bytes1[MOST_GROUPS * GROUP]
    cdef uint16_t bytes2[MOST_GROUPS * GROUP]
    cdef uint32_t bytes4[MOST_GROUPS * GROUP]
    if not n or not size:
        return not n and not size
    with nogil:
        if is_plain:
            if size == n * <Py_ssize_t> sizeof(int32_t):
                memcpy(&values[0], &page[0], size)
                found = n
        elif size > 1 and page[0] == 8:
            found = take_runs(&page[1], size - 1, n, offset, n_places, &values[0], &bytes1[0])
        elif size > 1 and page[0] == 16:
            found = take_runs(&page[1], size - 1, n, offset, n_places, &values[0], &bytes2[0])
        elif size > 1 and page[0] == 32:
            found = take_runs(&page[1], size - 1, n, offset, n_places, &values[0], &bytes4[0])
    return found == n


def put_strings(
    const int32_t[::1] offsets,  # IN   (n+1,)  where each string begins
    const uint8_t[::1] data,     # IN   (m,)    bytes of all strings
    uint8_t[::1] out,            # OUT  (k,)    at least the bytes, and 4 for each string
):
    """Write strings as a plain page has them, each behind its length; returns how many bytes."""
    cdef Py_ssize_t i
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t n = offsets.shape[0] - 1
    cdef int32_t length
    if out.shape[0] < offsets[n] - offsets[0] + 4 * n:
        raise ValueError("no room for strings")
    with nogil:
        for i in range(n):
            length = offsets[i + 1] - offsets[i]
            memcpy(&out[at], &length, sizeof(int32_t))
            at += sizeof(int32_t)
            if length:
                memcpy(&out[at], &data[offsets[i]], length)
                at += length
    return at


cdef inline Py_ssize_t take_varint(
    const uint8_t* data, Py_ssize_t size, Py_ssize_t at, int64_t* number
) noexcept nogil:
    """Read a number that is not negative, in zigzag; returns where it ends, -1 for none."""
    cdef uint64_t found = 0
    cdef int shift
    for shift in range(0, 35, 7):
        if at < 0 or at >= size:
            return -1
        found |= <uint64_t> (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            number[0] = <int64_t> (found >> 1)
            return -1 if found & 1 or number[0] > INT32_MAX else at
    return -1


cdef inline Py_ssize_t take_field(
    const uint8_t* data, Py_ssize_t size, Py_ssize_t at, int head, int64_t* number
) noexcept nogil:
    """Read a field of a struct that begins with one byte; returns where it ends, -1 for none."""
    if at < 0 or at >= size or data[at] != head:
        return -1
    return take_varint(data, size, at + 1, number)


def list_pages(
    const uint8_t[::1] data,  # IN   (m,)    a column's pages, each behind its header
    int64_t[:, ::1] pages,    # OUT  (n, 5)  kind, where it begins, its bytes, values, encoding
):
    """Find the pages of a column; returns how many, -1 where headers are not as kfast writes them.

    Source: Apache Parquet, `parquet.thrift`, `PageHeader`, in Thrift's compact protocol.
    """
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t size = data.shape[0]
    cdef int64_t kind, unpacked, packed, values, encoding, levels
    cdef int head
    with nogil:
        while 0 <= at < size:
            at = take_field(&data[0], size, at, I32_NEXT, &kind)
            at = take_field(&data[0], size, at, I32_NEXT, &unpacked)
            at = take_field(&data[0], size, at, I32_NEXT, &packed)
            if at < 0 or at >= size:
                at = -1
                break
            head = STRUCT_OF_DICTIONARY if kind == DICTIONARY_PAGE else STRUCT_OF_DATA
            at = at + 1 if data[at] == head else -1
            at = take_field(&data[0], size, at, I32_NEXT, &values)
            at = take_field(&data[0], size, at, I32_NEXT, &encoding)
            if kind == DATA_PAGE:
                at = take_field(&data[0], size, at, I32_NEXT, &levels)
                at = take_field(&data[0], size, at, I32_NEXT, &levels)
            elif kind != DICTIONARY_PAGE:
                at = -1
            if at < 0 or at + 2 > size or data[at] or data[at + 1] or packed != unpacked:
                at = -1
                break
            at += 2
            if packed > size - at or n == pages.shape[0]:
                at = -1
                break
            pages[n, 0], pages[n, 1], pages[n, 2] = kind, at, packed
            pages[n, 3], pages[n, 4] = values, encoding
            at += packed
            n += 1
    return n if at >= 0 else -1


def take_strings(
    const uint8_t[::1] page,  # IN   (m,)    as `put_strings` writes them
    int32_t[::1] offsets,     # OUT  (n+1,)  where each string begins
    uint8_t[::1] data,        # OUT  (m,)    bytes of all strings
):
    """Read strings; returns whether the page has just so many."""
    cdef Py_ssize_t i
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t size = page.shape[0]
    cdef Py_ssize_t n = offsets.shape[0] - 1
    cdef int32_t length
    cdef bint ok = data.shape[0] >= size
    offsets[0] = 0
    with nogil:
        for i in range(n if ok else 0):
            if size - at < 4:
                ok = False
                break
            memcpy(&length, &page[at], sizeof(int32_t))
            at += 4
            if length < 0 or length > size - at:
                ok = False
                break
            if length:
                memcpy(&data[offsets[i]], &page[at], length)
            at += length
            offsets[i + 1] = offsets[i] + length
    return ok and at == size
