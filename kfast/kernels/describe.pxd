"""What the kernels of a describe text share: its keys, and how a word of it is read."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memchr, memcmp

cdef enum:
    MAX_INT = 2147483647


cpdef enum Key:
    """Keys of a describe text; the numbers are bits of a mask of keys."""

    NO_KEY = -1
    TOPIC = 0
    PARTITION = 1
    LEADER = 2
    REPLICAS = 3
    ISR = 4
    ADDING = 5
    REMOVING = 6
    OFFLINE = 7
    ELR = 8
    LAST_KNOWN_ELR = 9
    PARTITION_COUNT = 10
    REPLICATION_FACTOR = 11
    TOPIC_ID = 12
    CONFIGS = 13
    MARKED_FOR_DELETION = 14
    OBSERVERS = 15
    LIVE_OBSERVERS = 16


cpdef enum Trouble:
    """Why reading stopped."""

    FINE = 0
    MISSING_KEY = 1
    KEY_TWICE = 2
    BAD_VALUE = 3
    STRAY_TEXT = 4
    NO_TOPIC = 5
    TOPIC_TWICE = 6
    TEXT_BEFORE = 7
    SETTING_TWICE = 8
    LEADER_NOT_ASSIGNED = 9


cdef struct Cursor:
    int64_t at                 # where reading goes on
    int64_t line               # lines begun
    int64_t n_topics
    int64_t n_partitions
    int64_t[7] n_values        # of each list
    int64_t header_topic       # topic of the last header; -1 before the first
    int64_t last_topic
    int64_t last_was           # the line before: 0 prose, 1 a record, 2 a header without Configs
    int64_t last_keys          # of the last partition line
    int64_t every_keys         # that every partition line before it had
    int64_t any_keys
    int64_t lower_case         # 1: keys in lower case
    int64_t n_prose
    int64_t prose_at           # first line that is no record
    int64_t prose_line
    int64_t unknown_at         # first key that is not known; -1
    int64_t cut_line           # first configuration that ends in `...`; -1
    int64_t elr_line           # first Elr or LastKnownElr that is not `N/A`; -1
    int64_t n_outside          # partitions whose leader is outside the ISR
    int64_t outside_row        # the first of them; -1
    int64_t n_stale            # partitions whose reassignment is of other replicas
    int64_t stale_row          # the first of them; -1
    int64_t maybe_wrapped
    int64_t bad_at             # what is wrong: the byte, its line
    int64_t bad_line_at
    int64_t other_line         # the line it contradicts


cdef struct Topic:
    int64_t name_at
    int64_t topic_id_at        # -1: not said
    int32_t name_length
    int32_t first_line
    int32_t header_line        # -1: no header
    int32_t count              # PartitionCount
    int32_t factor             # ReplicationFactor; -1: not said
    int32_t lines              # partition lines
    int32_t highest            # partition number; -1: no line
    int32_t fewest             # replicas of a line, without those being added
    int32_t most               # replicas of a line
    int32_t min_insync_replicas
    int8_t unclean
    int8_t marked


cdef struct Partition:
    int32_t topic
    int32_t partition
    int32_t leader
    int32_t line
    int32_t keys               # of the line; no ADDING and REMOVING where they are stale


cdef inline int64_t bit(int64_t key) noexcept nogil:
    return (<int64_t> 1) << key


cdef inline bint is_blank(uint8_t c) noexcept nogil:
    return c == c" " or c == c"\t" or c == c"\r"


cdef inline bint is_letter(uint8_t c) noexcept nogil:
    return c"a" <= (c | 0x20) <= c"z"


cdef inline bint is_digit(uint8_t c) noexcept nogil:
    return c"0" <= c <= c"9"


cdef inline bint may_continue(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    """Whether the word at `at`, alone in its line, may be the rest of a value: no `$`, no `...`."""
    cdef uint8_t c = text[at]
    if is_letter(c) or is_digit(c):
        return True
    if at + 1 < end and text[at + 1] == c:
        return False
    return c == c"," or c == c"=" or c == c"." or c == c"_" or c == c"-" or c == c":"


cdef inline int64_t line_end(const uint8_t[::1] text, int64_t at) noexcept nogil:
    """Where the line break at or after `at` is; the end of the text where there is none."""
    cdef const uint8_t* found = <const uint8_t*> memchr(&text[at], c"\n", text.shape[0] - at)
    return text.shape[0] if found == NULL else found - &text[0]


cdef inline int64_t skip_blanks(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    while at < end and is_blank(text[at]):
        at += 1
    return at


cdef inline int64_t skip_word(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    while at < end and not is_blank(text[at]):
        at += 1
    return at


cdef inline bint reads(
    const uint8_t[::1] text, int64_t at, const char* word, int64_t length
) noexcept nogil:
    """Whether the letters at `at` are those of a lower-case word, in either case."""
    cdef int64_t i
    for i in range(length):
        if (text[at + i] | 0x20) != word[i]:
            return False
    return True


cdef inline int short_key(const uint8_t[::1] text, int64_t at, int64_t length) noexcept nogil:
    """The key that a partition line has, by the letters before its colon; -1 for none."""
    if length == 5 and reads(text, at, "topic", 5):
        return Key.TOPIC
    if length == 9 and reads(text, at, "partition", 9):
        return Key.PARTITION
    if length == 6 and reads(text, at, "leader", 6):
        return Key.LEADER
    if length == 8 and reads(text, at, "replicas", 8):
        return Key.REPLICAS
    if length == 3 and reads(text, at, "isr", 3):
        return Key.ISR
    if length == 3 and reads(text, at, "elr", 3):
        return Key.ELR
    if length == 12 and reads(text, at, "lastknownelr", 12):
        return Key.LAST_KNOWN_ELR
    return -1


cdef inline int long_key(const uint8_t[::1] text, int64_t at, int64_t length) noexcept nogil:
    """The key that a header has, or a partition line now and then; -1 for none."""
    if length == 7 and reads(text, at, "topicid", 7):
        return Key.TOPIC_ID
    if length == 7 and reads(text, at, "configs", 7):
        return Key.CONFIGS
    if length == 7 and reads(text, at, "offline", 7):
        return Key.OFFLINE
    if length == 9 and reads(text, at, "observers", 9):
        return Key.OBSERVERS
    if length == 13 and reads(text, at, "liveobservers", 13):
        return Key.LIVE_OBSERVERS
    if length == 14 and reads(text, at, "partitioncount", 14):
        return Key.PARTITION_COUNT
    if length == 17 and reads(text, at, "replicationfactor", 17):
        return Key.REPLICATION_FACTOR
    if length == 17 and reads(text, at, "markedfordeletion", 17):
        return Key.MARKED_FOR_DELETION
    return -1


cdef inline int key_at(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t* after
) noexcept nogil:
    """The key whose name begins at `at`, and where its colon ends; -1 where there is no key."""
    cdef int64_t stop = at
    cdef int64_t length, second
    cdef int key
    while stop < end and is_letter(text[stop]):
        stop += 1
    if stop == end:
        return -1
    length = stop - at
    if text[stop] == c":":
        after[0] = stop + 1
        key = short_key(text, at, length)
        return key if key >= 0 else long_key(text, at, length)
    if not is_blank(text[stop]) or (length != 6 and length != 8):
        return -1
    second = skip_blanks(text, stop, end)
    if second + 9 > end or text[second + 8] != c":" or not reads(text, second, "replicas", 8):
        return -1
    after[0] = second + 9
    if length == 6 and reads(text, at, "adding", 6):
        return Key.ADDING
    if length == 8 and reads(text, at, "removing", 8):
        return Key.REMOVING
    return -1


cdef inline int64_t read_int(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t* value
) noexcept nogil:
    """Read an int32 with its sign; where it ends, or -1 where there is none."""
    cdef int64_t found = 0
    cdef bint negative = at < end and text[at] == c"-"
    cdef int64_t first = at + negative
    at = first
    while at < end and is_digit(text[at]):
        found = found * 10 + (text[at] - c"0")
        if found > MAX_INT:
            return -1
        at += 1
    value[0] = -found if negative else found
    return at if at > first else -1


cdef inline int64_t read_count(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t* value
) noexcept nogil:
    """Read a number that is a word of its own and not negative."""
    cdef int64_t stop = read_int(text, at, end, value)
    if stop >= 0 and value[0] >= 0 and (stop == end or is_blank(text[stop])):
        return stop
    return -1


cdef inline int64_t read_leader(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t* value
) noexcept nogil:
    """Read a broker id, -1, or `none`, which is -1 too."""
    cdef int64_t stop = skip_word(text, at, end)
    if stop - at == 4 and memcmp(&text[at], b"none", 4) == 0:
        value[0] = -1
        return stop
    if stop == at or read_int(text, at, end, value) != stop or value[0] < -1:
        return -1
    return stop


cdef inline bint ends_with_colon(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    """Whether the word at `at` looks like a key."""
    cdef int64_t stop = skip_word(text, at, end)
    return stop > at and text[stop - 1] == c":" and is_letter(text[at])


cdef inline int64_t read_list(
    const uint8_t[::1] text, int64_t at, int64_t end, int32_t[::1] values, int64_t* n
) noexcept nogil:
    """Read broker ids with commas between them; nothing at all is the empty list."""
    cdef int64_t value, unused
    if at == end or key_at(text, at, end, &unused) >= 0 or ends_with_colon(text, at, end):
        return at
    while True:
        at = read_int(text, at, end, &value)
        if at < 0 or value < 0:
            return -1
        values[n[0]] = <int32_t> value
        n[0] += 1
        if at == end or is_blank(text[at]):
            return at
        if text[at] != c",":
            return -1
        at += 1


cdef inline int64_t read_name(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t most
) noexcept nogil:
    """Where a word of letters, digits, `.`, `_` and `-` ends; -1 if it is empty or too long."""
    cdef int64_t stop = at
    cdef uint8_t c
    while stop < end and not is_blank(text[stop]):
        c = text[stop]
        if not (is_letter(c) or is_digit(c) or c == c"." or c == c"_" or c == c"-"):
            return -1
        stop += 1
    return stop if at < stop <= at + most else -1


cdef inline int64_t read_flag(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t* value
) noexcept nogil:
    """Read `true` or `false`, in either case, as Kafka does."""
    cdef int64_t stop = at
    while stop < end and is_letter(text[stop]):
        stop += 1
    if stop - at == 4 and reads(text, at, b"true", 4):
        value[0] = 1
        return stop
    if stop - at == 5 and reads(text, at, b"false", 5):
        value[0] = 0
        return stop
    return -1
