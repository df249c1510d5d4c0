"""Where a JSON document ends that stands in a text with other lines before and behind it.

Source: RFC 8259: brackets count outside strings, and a backslash takes the meaning of a quote away.
"""

from libc.stdint cimport int64_t, uint8_t


def document_end(
    const uint8_t[::1] text,  # IN  (n,)
    int64_t start,            # IN        where the document begins, or a blank before it
):
    """Find the bracket that closes the first object or list from a byte on.

    Returns
    -------
    int
        The byte behind that bracket; -1 where the text ends before it.
    """
    cdef int64_t at = start
    cdef int64_t end = -1
    cdef int64_t depth = 0
    cdef bint quoted = False
    cdef uint8_t c
    with nogil:
        while at < text.shape[0]:
            c = text[at]
            at += 1
            if c == c"\"":
                quoted = not quoted
            elif quoted:
                at += c == c"\\"
            elif c == c"{" or c == c"[":
                depth += 1
            elif c == c"}" or c == c"]":
                depth -= 1
                if depth <= 0:
                    end = at
                    break
    return end
