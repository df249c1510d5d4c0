"""Read the text of `kafka-topics --describe` into columns, in one pass, without a Python object.

A line whose first word is `Topic:` or `Partition:` is a record: a topic's header if it has
`PartitionCount:`, else a partition. Fields are found by key, never by place, so that columns may be
missing, added, or separated by spaces. Any other line is prose and is passed over.

Lists of broker ids go to one row each of `offsets` and `values`, which Arrow's lists take as they
are. Topics are numbered by first appearance through a hash table.

Source: docs/formats.md, section "Describe text"; Kafka 3.9, TopicCommand.java, `printDescription`.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from kfast.kernels.describe cimport (
    MAX_INT, Cursor, Key, Partition, Topic, Trouble, bit, ends_with_colon, is_blank,
    key_at, line_end, may_continue, read_count, read_flag, read_int, read_leader,
    read_list, read_name, skip_blanks, skip_word,
)

cdef enum:
    N_LISTS = 7  # Key.REPLICAS to Key.LAST_KNOWN_ELR
    MAX_TOPIC = 249
    TOPIC_ID_LENGTH = 22
    WRONG = -1  # instead of where a value ends
    TWICE = -2


cdef struct Record:
    int64_t keys
    int64_t topic_at
    int64_t topic_length
    int64_t id_at
    int64_t partition
    int64_t leader
    int64_t leader_at
    int64_t count
    int64_t factor
    int64_t min_insync_replicas
    int64_t unclean
    int64_t marked
    bint knows_elr  # Elr or LastKnownElr is not `N/A`
    int64_t[7] n_values  # of each list
    bint cut  # the configuration ends in `...`
    int64_t bad_at
    int64_t bad_key


def survey(const uint8_t[::1] text):
    """Count what bounds the sizes of the tables.

    Returns
    -------
    lines, commas, other
        Line breaks, commas, and whether any byte is not ASCII.
    """
    cdef int64_t i
    cdef int64_t lines = 0
    cdef int64_t commas = 0
    cdef uint8_t seen = 0
    with nogil:
        for i in range(text.shape[0]):
            lines += text[i] == c"\n"
            commas += text[i] == c","
            seen |= text[i]
    return lines, commas, seen >= 0x80


cdef int64_t field_end(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    """Where the value of `Configs:` ends: at a tab, or before the key that may follow it."""
    cdef int64_t unused
    cdef bint word_begins = True
    while at < end and text[at] != c"\t":
        if word_begins and key_at(text, at, end, &unused) == Key.MARKED_FOR_DELETION:
            return at
        word_begins = text[at] == c" "
        at += 1
    return at


cdef int64_t read_configs(
    const uint8_t[::1] text, int64_t at, int64_t end, Record* record
) noexcept nogil:
    """Find the two settings that decide elections. A name counts only first or after a comma."""
    cdef int64_t stop = field_end(text, at, end)
    cdef int64_t after = at
    cdef int64_t before
    cdef bint first = True
    while at < stop:
        if first or text[at - 1] == c",":
            before = -1
            if stop - at > 20 and memcmp(&text[at], b"min.insync.replicas=", 20) == 0:
                before = record.min_insync_replicas
                after = read_int(text, at + 20, stop, &record.min_insync_replicas)
                if after >= 0 and record.min_insync_replicas < 1:
                    after = WRONG
            elif stop - at > 31 and memcmp(&text[at], b"unclean.leader.election.enable=", 31) == 0:
                before = record.unclean
                after = read_flag(text, at + 31, stop, &record.unclean)
            else:
                after = at
            if before >= 0 or after < 0 or (after > at and not ends_setting(text, after, stop)):
                record.bad_at = at
                return TWICE if before >= 0 else WRONG
        first = False
        at += 1
    record.cut = ends_in_dots(text, stop)
    return stop


cdef bint ends_in_dots(const uint8_t[::1] text, int64_t end) noexcept nogil:
    while end > 0 and is_blank(text[end - 1]):
        end -= 1
    return end >= 3 and memcmp(&text[end - 3], b"...", 3) == 0


cdef bint ends_setting(const uint8_t[::1] text, int64_t at, int64_t end) noexcept nogil:
    return at == end or text[at] == c"," or is_blank(text[at])


cdef int64_t read_value(
    const uint8_t[::1] text, int64_t at, int64_t end, int64_t key,
    Record* record, int32_t[:, ::1] values,
) noexcept nogil:
    """Read the value of a key; where it ends, or -1 where it is not what the key takes."""
    cdef int64_t stop
    at = skip_blanks(text, at, end)
    record.bad_at = at
    record.bad_key = key
    if key == Key.ELR or key == Key.LAST_KNOWN_ELR:
        if skip_word(text, at, end) - at == 3 and memcmp(&text[at], b"N/A", 3) == 0:
            return at + 3
        record.knows_elr = True
    if Key.REPLICAS <= key <= Key.LAST_KNOWN_ELR:
        return read_list(
            text, at, end, values[key - Key.REPLICAS], &record.n_values[key - Key.REPLICAS]
        )
    if key == Key.PARTITION:
        return read_count(text, at, end, &record.partition)
    if key == Key.LEADER:
        record.leader_at = at
        return read_leader(text, at, end, &record.leader)
    if key == Key.TOPIC:
        stop = read_name(text, at, end, MAX_TOPIC)
        record.topic_at = at
        record.topic_length = stop - at
        return stop
    if key == Key.CONFIGS:
        return read_configs(text, at, end, record)
    if key == Key.PARTITION_COUNT:
        return read_count(text, at, end, &record.count)
    if key == Key.REPLICATION_FACTOR:
        return read_count(text, at, end, &record.factor)
    if key == Key.TOPIC_ID:
        stop = read_name(text, at, end, TOPIC_ID_LENGTH)
        record.id_at = at
        return stop if stop - at == TOPIC_ID_LENGTH else WRONG
    if key == Key.MARKED_FOR_DELETION:
        return read_flag(text, at, end, &record.marked)
    if ends_with_colon(text, at, end):
        return at
    return skip_word(text, at, end)


cdef Trouble read_fields(
    const uint8_t[::1] text, int64_t at, int64_t end, Record* record,
    int32_t[:, ::1] values, Cursor* cursor,
) noexcept nogil:
    """Read every field of a line."""
    cdef int64_t value_at, unused
    cdef int key
    while True:
        at = skip_blanks(text, at, end)
        if at == end:
            return Trouble.FINE
        key = key_at(text, at, end, &value_at)
        record.bad_at = at
        record.bad_key = key
        if key < 0:
            if not ends_with_colon(text, at, end):
                return Trouble.STRAY_TEXT
            if cursor.unknown_at < 0:
                cursor.unknown_at = at
            at = skip_word(text, at, end)
            while at < end and key_at(text, skip_blanks(text, at, end), end, &unused) < 0:
                at = skip_word(text, skip_blanks(text, at, end), end)
            continue
        if record.keys & bit(key):
            return Trouble.KEY_TWICE
        record.keys |= bit(key)
        at = read_value(text, value_at, end, key, record, values)
        if at < 0:
            return Trouble.SETTING_TWICE if at == TWICE else Trouble.BAD_VALUE


cdef int64_t intern(
    const uint8_t[::1] text, const Record* record, int32_t[::1] table,
    Topic[::1] topics, Cursor* cursor,
) noexcept nogil:
    """Number of a topic, a new one for a name that was not seen before."""
    cdef int64_t last = cursor.last_topic
    cdef int64_t i, slot, row
    cdef uint64_t mixed = 2166136261
    if last >= 0 and names_topic(text, record, topics, last):
        return last
    for i in range(record.topic_at, record.topic_at + record.topic_length):
        mixed = ((mixed ^ <uint64_t> text[i]) * <uint64_t> 16777619) & <uint64_t> 0xFFFFFFFF
    mixed ^= mixed >> 15
    slot = <int64_t> mixed & (table.shape[0] - 1)
    while table[slot] > 0:
        row = table[slot] - 1
        if names_topic(text, record, topics, row):
            return row
        slot = (slot + 1) & (table.shape[0] - 1)
    row = cursor.n_topics
    cursor.n_topics += 1
    table[slot] = <int32_t> row + 1
    topics[row].topic_id_at = topics[row].header_line = topics[row].count = -1
    topics[row].factor = topics[row].highest = -1
    topics[row].fewest = MAX_INT
    topics[row].most = 0
    topics[row].min_insync_replicas = topics[row].unclean = topics[row].marked = -1
    topics[row].name_at = record.topic_at
    topics[row].name_length = record.topic_length
    topics[row].first_line = cursor.line
    topics[row].lines = 0
    return row


cdef bint names_topic(
    const uint8_t[::1] text, const Record* record, const Topic[::1] topics, int64_t row
) noexcept nogil:
    return topics[row].name_length == record.topic_length and memcmp(
        &text[topics[row].name_at], &text[record.topic_at], record.topic_length
    ) == 0


cdef Trouble keep_header(
    const uint8_t[::1] text, Record* record, int32_t[::1] table,
    Topic[::1] topics, Cursor* cursor,
) noexcept nogil:
    """Keep what a topic's header says."""
    cdef int64_t row = intern(text, record, table, topics, cursor)
    if topics[row].header_line >= 0:
        cursor.other_line = topics[row].header_line
        record.bad_at = record.topic_at
        return Trouble.TOPIC_TWICE
    topics[row].header_line = cursor.line
    topics[row].count = record.count
    topics[row].factor = record.factor
    topics[row].topic_id_at = record.id_at
    topics[row].min_insync_replicas = record.min_insync_replicas
    topics[row].unclean = record.unclean
    if record.marked >= 0:
        topics[row].marked = record.marked
    if record.cut and cursor.cut_line < 0:
        cursor.cut_line = cursor.line
    cursor.header_topic = row
    cursor.last_topic = row
    return Trouble.FINE


cdef inline bint lists(
    const Record* record, const Cursor* cursor, const int32_t[:, ::1] values, int64_t key,
    int64_t broker,
) noexcept nogil:
    """Whether a broker is in one of the lists of a line."""
    cdef int64_t row = key - Key.REPLICAS
    cdef int64_t i
    for i in range(cursor.n_values[row], record.n_values[row]):
        if values[row, i] == broker:
            return True
    return False


cdef inline bint is_stale(
    const Record* record, const Cursor* cursor, const int32_t[:, ::1] values
) noexcept nogil:
    """Whether a line adds or removes what is no replica: its reassignment is of another moment."""
    cdef int64_t key, i
    for key in range(Key.ADDING, Key.REMOVING + 1):
        for i in range(cursor.n_values[key - Key.REPLICAS], record.n_values[key - Key.REPLICAS]):
            if not lists(record, cursor, values, Key.REPLICAS, values[key - Key.REPLICAS, i]):
                return True
    return False


cdef void keep_sizes(
    const Record* record, const Cursor* cursor, Topic* topic
) noexcept nogil:
    """Keep what the numbers in a topic's header are compared with."""
    cdef int64_t n = record.n_values[0] - cursor.n_values[0]
    cdef int64_t adding = Key.ADDING - Key.REPLICAS
    cdef int64_t n_adding = record.n_values[adding] - cursor.n_values[adding]
    topic.lines += 1
    topic.highest = max(topic.highest, <int32_t> record.partition)
    topic.fewest = min(topic.fewest, <int32_t> (n - n_adding))
    topic.most = max(topic.most, <int32_t> n)


cdef Trouble keep_partition(
    const uint8_t[::1] text, Record* record, int32_t[::1] table, Topic[::1] topics,
    Partition[::1] partitions, int32_t[:, ::1] offsets, const int32_t[:, ::1] values,
    Cursor* cursor,
) noexcept nogil:
    """Keep a partition; its lists are among the values already."""
    cdef int64_t row = cursor.n_partitions
    cdef int64_t topic = cursor.header_topic
    cdef int64_t key, i
    for key in range(Key.PARTITION, Key.ISR + 1):
        if not record.keys & bit(key):
            record.bad_key = key
            return Trouble.MISSING_KEY
    if record.keys & bit(Key.TOPIC):
        topic = intern(text, record, table, topics, cursor)
    elif topic < 0:
        return Trouble.NO_TOPIC
    if record.leader >= 0:
        if not lists(record, cursor, values, Key.REPLICAS, record.leader):
            record.bad_at = record.leader_at
            return Trouble.LEADER_NOT_ASSIGNED
        if not lists(record, cursor, values, Key.ISR, record.leader):
            cursor.outside_row = row if cursor.n_outside == 0 else cursor.outside_row
            cursor.n_outside += 1
    if record.knows_elr and cursor.elr_line < 0:
        cursor.elr_line = cursor.line
    keep_sizes(record, cursor, &topics[topic])
    partitions[row].topic = <int32_t> topic
    partitions[row].partition = <int32_t> record.partition
    partitions[row].leader = <int32_t> record.leader
    partitions[row].line = <int32_t> cursor.line
    partitions[row].keys = <int32_t> record.keys
    if record.keys & (bit(Key.ADDING) | bit(Key.REMOVING)) and is_stale(record, cursor, values):
        partitions[row].keys &= <int32_t> ~(bit(Key.ADDING) | bit(Key.REMOVING))
        cursor.stale_row = row if cursor.n_stale == 0 else cursor.stale_row
        cursor.n_stale += 1
    for i in range(N_LISTS):
        offsets[i, row + 1] = <int32_t> record.n_values[i]
        cursor.n_values[i] = record.n_values[i]
    if record.marked == 1:
        topics[topic].marked = 1
    cursor.n_partitions = row + 1
    cursor.last_topic = topic
    cursor.every_keys &= cursor.last_keys
    cursor.last_keys = record.keys
    return Trouble.FINE


cdef Trouble pass_over(
    const uint8_t[::1] text, int64_t at, int64_t end, Cursor* cursor
) noexcept nogil:
    """Count a line that is no record; say so if it may be the rest of the line before it."""
    cdef int64_t word = at
    cdef int64_t keys = 0
    cdef int64_t unused
    cdef int found
    cdef bint one_word = skip_blanks(text, skip_word(text, at, end), end) == end
    while word < end:
        found = key_at(text, word, end, &unused)
        if found >= 0:
            keys |= bit(found)
        word = skip_blanks(text, skip_word(text, word, end), end)
    if keys & bit(Key.PARTITION_COUNT) or (keys & bit(Key.REPLICAS) and keys & bit(Key.ISR)):
        return Trouble.TEXT_BEFORE
    if cursor.last_was > 0 and (
        keys != 0
        or cursor.last_was == 2
        or (one_word and may_continue(text, at, end))
    ):
        cursor.maybe_wrapped = 1
    if cursor.n_prose == 0:
        cursor.prose_at = at
        cursor.prose_line = cursor.line
    cursor.n_prose += 1
    return Trouble.FINE


cdef Trouble read_line(
    const uint8_t[::1] text, int64_t at, int64_t end, Record* record, int32_t[::1] table,
    Topic[::1] topics, Partition[::1] partitions, int32_t[:, ::1] offsets,
    int32_t[:, ::1] values, Cursor* cursor,
) noexcept nogil:
    """Read one line, whatever it is."""
    cdef int64_t i, unused
    cdef int key
    cdef Trouble trouble
    at = skip_blanks(text, at, end)
    record.bad_at = at
    record.bad_key = Key.NO_KEY
    key = key_at(text, at, end, &unused) if at < end else -1
    if key != Key.TOPIC and key != Key.PARTITION:
        trouble = pass_over(text, at, end, cursor) if at < end else Trouble.FINE
        cursor.last_was = 0
        return trouble
    record.keys = 0
    record.topic_at = at
    record.topic_length = record.count = 0
    record.id_at = record.min_insync_replicas = record.unclean = record.marked = -1
    record.factor = -1
    record.knows_elr = False
    record.cut = False
    for i in range(N_LISTS):
        record.n_values[i] = cursor.n_values[i]
    trouble = read_fields(text, at, end, record, values, cursor)
    if trouble != Trouble.FINE:
        return trouble
    cursor.any_keys |= record.keys
    cursor.lower_case |= text[at] == c"t"
    if record.keys & bit(Key.PARTITION_COUNT) and not record.keys & bit(Key.PARTITION):
        cursor.last_was = 1 if record.keys & bit(Key.CONFIGS) else 2
        return keep_header(text, record, table, topics, cursor)
    cursor.last_was = 1
    return keep_partition(text, record, table, topics, partitions, offsets, values, cursor)


def parse(
    const uint8_t[::1] text,       # IN      (n,)  the whole text, in UTF-8
    int64_t stop,                  # IN            read the lines that begin before this byte
    Cursor[::1] cursors,           # IN OUT  (1,)  where reading stands
    int32_t[::1] table,            # IN OUT  (2**k,)  hash table: topic + 1, 0 for none; zeros first
    Topic[::1] topics,             # OUT     (lines,)  -1: not said
    Partition[::1] partitions,     # OUT     (lines,)
    int32_t[:, ::1] offsets,       # OUT     (7, lines + 1)  first column 0
    int32_t[:, ::1] values,        # OUT     (7, commas + lines)  broker ids
):
    """Read on until `stop`, or until something is wrong.

    Returns
    -------
    trouble, key
        What is wrong, and the key that it is wrong with. `cursor` says where.
    """
    cdef Record record
    cdef Trouble trouble = Trouble.FINE
    cdef Key key = Key.NO_KEY
    cdef Cursor* cursor = &cursors[0]
    cdef int64_t at = cursor.at
    cdef int64_t end
    if stop > text.shape[0]:
        stop = text.shape[0]
    with nogil:
        while at < stop:
            end = line_end(text, at)
            cursor.line += 1
            trouble = read_line(
                text, at, end, &record, table, topics, partitions, offsets, values, cursor
            )
            if trouble != Trouble.FINE:
                cursor.bad_at = record.bad_at
                key = <Key> record.bad_key
                cursor.bad_line_at = at
                break
            at = end + 1
    cursor.at = at
    return trouble, key


def gather(
    const uint8_t[::1] text,       # IN   (n,)
    const int64_t[::1] at,         # IN   (m,)      where each word begins
    const int32_t[::1] offsets,    # IN   (m + 1,)  where each word begins in `words`
    uint8_t[::1] words,            # OUT  (offsets[m],)
):
    """Copy words of a text one behind the other."""
    cdef int64_t i, j
    with nogil:
        for i in range(at.shape[0]):
            for j in range(offsets[i + 1] - offsets[i]):
                words[offsets[i] + j] = text[at[i] + j]
