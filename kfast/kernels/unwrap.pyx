"""Join the lines of a describe text that a narrow terminal or a mail program has wrapped.

A line belongs to the record before it if it has keys but does not begin as a record does, if that
record is not complete, or if it is one word of the kind that ends a list of settings or of broker
ids. As many empty lines follow a record as lines were joined to it, so that line numbers stay.

Source: docs/formats.md, section "Describe text".
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from kfast.kernels.describe cimport (
    Key, bit, is_blank, is_digit, is_letter, key_at, line_end, may_continue,
    skip_blanks, skip_word,
)


cdef int64_t keys_of(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    """Every key in a line, as a mask."""
    cdef int64_t keys = 0
    cdef int64_t after
    cdef int key
    at = skip_blanks(text, at, end)
    while at < end:
        key = key_at(text, at, end, &after)
        if key >= 0:
            keys |= bit(key)
            at = after
        at = skip_blanks(text, skip_word(text, at, end), end)
    return keys


cdef bint is_complete(const uint8_t[::1] text, int64_t end, int64_t keys) noexcept nogil:
    """Whether a record has the last key that it cannot do without, and no half key at its end."""
    cdef int64_t at = end
    if keys & bit(Key.PARTITION_COUNT):
        return keys & bit(Key.CONFIGS) != 0
    if not keys & bit(Key.ISR):
        return False
    while at > 0 and is_letter(text[at - 1]):
        at -= 1
    return at == end or not is_blank(text[at - 1]) or reads_flag(text, at, end)


cdef bint reads_flag(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    if end - at == 4:
        return memcmp(&text[at], b"true", 4) == 0
    return end - at == 5 and memcmp(&text[at], b"false", 5) == 0


cdef int64_t other_keys(int64_t keys) noexcept nogil:
    """Keys that a record cannot have beside those it has: a header's, or a partition's."""
    if keys & bit(Key.PARTITION_COUNT):
        return bit(Key.PARTITION) | bit(Key.LEADER) | bit(Key.REPLICAS) | bit(Key.ISR)
    if keys & bit(Key.PARTITION):
        return bit(Key.PARTITION_COUNT) | bit(Key.CONFIGS) | bit(Key.TOPIC_ID)
    return 0


cdef bint continues_value(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t keys
) noexcept nogil:
    """Whether a line is one word that may be the rest of the last value of a record."""
    cdef int64_t stop = skip_word(text, at, end)
    cdef bint setting = keys & bit(Key.CONFIGS) != 0
    if skip_blanks(text, stop, end) < end:
        return False
    if not may_continue(text, at, stop):
        return False
    while at < stop and (setting or is_digit(text[at]) or text[at] == c","):
        at += 1
    return at == stop


cdef bint continues_record(
    const uint8_t[::1] text, int64_t at, int64_t end,
    const uint8_t[::1] joined, int64_t length, int64_t keys,
) noexcept nogil:
    """Whether the line at `at` belongs to the record that `joined` ends with."""
    cdef int64_t unused, own
    cdef int key = key_at(text, at, end, &unused)
    if key == Key.TOPIC:
        return False
    if key == Key.PARTITION:
        return keys & (bit(Key.PARTITION) | bit(Key.PARTITION_COUNT)) == 0
    own = keys_of(text, at, end)
    if own & keys or (own & other_keys(keys)):
        return False
    if own != 0 or not is_complete(joined, length, keys):
        return True
    return continues_value(text, at, end, keys)


def unwrap(
    const uint8_t[::1] text,  # IN   (n,)
    uint8_t[::1] joined,      # OUT  (n + lines + 1,)
):
    """Copy a text with wrapped lines joined.

    Returns
    -------
    length, n_joined, first
        Bytes of `joined` that are used, how many lines were joined to the one before them, and the
        number of the first of these.
    """
    cdef int64_t at = 0
    cdef int64_t length = 0
    cdef int64_t keys = 0  # of the record that is open; 0 where none is
    cdef int64_t record_at = 0
    cdef int64_t owed = 0
    cdef int64_t line = 0
    cdef int64_t n_joined = 0
    cdef int64_t first_joined = 0
    cdef int64_t end, start, stop, unused
    cdef int key
    with nogil:
        while at < text.shape[0]:
            line += 1
            end = line_end(text, at)
            stop = end - 1 if end > at and text[end - 1] == c"\r" else end
            start = skip_blanks(text, at, stop)
            if start < stop and keys != 0 and continues_record(
                text, start, stop, joined, length, keys
            ):
                if key_at(text, start, stop, &unused) >= 0:
                    joined[length] = c" "
                    length += 1
                at = start
                owed += 1
                n_joined += 1
                first_joined = line if first_joined == 0 else first_joined
            else:
                while length > 0 and owed >= 0:
                    joined[length] = c"\n"
                    length += 1
                    owed -= 1
                owed = 0
                record_at = length
                key = key_at(text, start, stop, &unused) if start < stop else -1
                keys = 1 if key == Key.TOPIC or key == Key.PARTITION else 0
            if stop > at:
                memcpy(&joined[length], &text[at], stop - at)
                length += stop - at
            if keys != 0:
                keys = keys_of(joined, record_at, length)
            at = end + 1
    return length, n_joined, first_joined
