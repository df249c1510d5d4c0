"""Batches of a metadata log or a snapshot, and the partitions that their records make.

A `MetadataDecoder` is given the bytes of files piece by piece. It checks each batch, keeps the
partitions as the records leave them, and lists where the other records stand, which Python
decodes: there are few of them.

Source: docs/kraft.md, sections 2 and 12; Kafka 4.1, PartitionRegistration.java, `merge`.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport uintptr_t
from libc.string cimport memcmp, memcpy, memset

import numpy as np

from kfast.kernels.metadata_values cimport (
    ID_BYTES,
    Part,
    Wire,
    int8_t,
    int16_t,
    int32_t,
    int64_t,
    kfast_big32,
    read_int8,
    read_int32,
    read_int64,
    read_length,
    read_text,
    read_uint16,
    read_varint,
    read_zigzag,
    skip_tags,
    take,
    uint8_t,
    uint16_t,
    uint32_t,
    uint64_t,
    wire_of,
)
from kfast.kernels.slots cimport (
    FLAG_ASSIGNED,
    FLAG_HAS_LEADERSHIP,
    FLAG_RECOVERY,
    NO_LEADER,
    NO_SLOT,
    P_NO_ENTRY,
    bit,
    broker_t,
    record_t,
    slot_of,
)
from kfast.kernels.slots cimport (  # no-cython-lint: members of the fused types
    NarrowRecord,  # no-cython-lint
    WideRecord,  # no-cython-lint
)

from kfast.kernels.permute cimport set_masks


cpdef enum Trouble:
    """Why reading stopped; `MetadataDecoder.found` has the number that is wrong."""

    FINE = 0
    BAD_MAGIC = 1             # found: the magic byte
    BAD_LENGTH = 2            # found: the length
    BAD_CHECKSUM = 3
    COMPRESSED = 4            # found: the codec
    OFFSET_GAP = 5            # found: the offset; right is `next_offset`
    BAD_RECORD = 6            # found: the api key, -1 where it is not read yet
    UNKNOWN_FRAME = 7         # found: the frame's version
    UNKNOWN_KEY = 8           # found: the api key
    UNKNOWN_VERSION = 9       # found: 100000 * api key + version
    UNKNOWN_TOPIC = 10
    UNKNOWN_PARTITION = 11    # found: the partition
    TOPIC_TWICE = 12
    TOO_MANY_BROKERS = 13     # found: how many a list has
    BAD_DIRECTORIES = 14      # found: how many directories there are
    AFTER_FOOTER = 15
    NO_MEMORY = 16
    TOO_MANY_PLACES = 17      # found: how many different brokers, or directories, there may be


# Lists of a partition, in the order in which they are kept: those that ClearElr empties last.
cdef enum:
    REPLICAS = 0
    ISR = 1
    REMOVING = 2
    ADDING = 3
    DIRECTORIES = 4
    ELR = 5
    LAST_KNOWN_ELR = 6

# What a partition has beyond what a state has arrays for from the start.
cpdef enum Shape:
    """Bits."""

    HAS_ELR = 1               # an ELR or a last known leader
    HAS_ORDER = 2             # ISR or ELR in another order than the slots
    HAS_DIRECTORIES = 4       # a directory other than MIGRATING
    HAS_LONG_REASSIGNMENT = 8  # two brokers being added, or removed


cpdef enum Misfit:
    """Why no state can hold a partition."""

    NO_BROKER = -1            # a list names the broker -1
    TOO_WIDE = -2             # more than 64 brokers
    NAMED_TWICE = -3          # a list names a broker twice
    IN_ISR_AND_ELR = -4
    MANY_LAST_KNOWN = -5      # two last known leaders

cdef enum:
    NO_LAST_KNOWN = -2
    NO_MEMBER = 255
    NO_PLACE = 65535          # no broker; as many brokers and as many directories have places
    N_LISTS = 7
    MOST = 64                 # brokers in one list
    HEADER = 61               # bytes of a batch before its records
    LEAST_LENGTH = 49         # of them, those behind the length
    LENGTH_AT = 12            # bytes of a batch up to behind its length
    CHECKED_AT = 21           # what the checksum is of begins here
    BLOCK = 16                # partitions of a topic that lie together in the index
    N_KEYS = 64               # api keys below this may be known
    CONTROL = 32              # attribute of a batch
    CODECS = 7
    LEADER_CHANGE = 2         # types of control records
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    UNCHANGED_LEADER = -2
    UNCHANGED_RECOVERY = -1

# An odd number whose multiples differ in their high bits.
cdef uint64_t MIX = 0x9E3779B97F4A7C15

# Api keys of the records that change partitions.
cdef enum:
    TOPIC = 2
    PARTITION = 3
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    CLEAR_ELR = 28

# Of the tags of a PartitionChange the list, and the first version that has it.
cdef int[9] LISTS = [ISR, -1, REPLICAS, REMOVING, ADDING, -1, ELR, LAST_KNOWN_ELR, DIRECTORIES]
cdef int[9] SINCE = [0, 0, 0, 0, 0, 0, 2, 2, 1]

# Where the record of another kind stands in what was read. `RECORD` says the same to numpy.
cdef struct Record:
    int64_t offset
    int64_t batch             # offset of its batch
    int64_t timestamp_ms
    int64_t at                # of its value
    int32_t length
    int32_t epoch
    int32_t key               # api key

RECORD = np.dtype([
    ("offset", np.int64), ("batch", np.int64), ("timestamp_ms", np.int64), ("at", np.int64),
    ("length", np.int32), ("epoch", np.int32), ("key", np.int32),
], align=True)

# Place of a broker in the table of broker ids, or of a directory in that of directories.
ctypedef uint16_t place_t

# A partition. A cluster of a million is read within three times its state's memory because this
# takes 32 bytes, and each member of a list two.
cdef struct Row:
    int32_t topic             # place of the topic, which may be removed; -1: this row is
    int32_t partition
    int32_t leader_epoch
    int32_t partition_epoch
    uint32_t at               # where its lists begin in the pool
    place_t leader            # NO_PLACE for none
    uint16_t room             # places that its lists have in the pool
    uint8_t[7] n              # length of each list; no directories: all are MIGRATING
    int8_t recovery

# The same while it changes, every list with a place of its own.
cdef struct Registration:
    int32_t leader_epoch
    int32_t partition_epoch
    place_t leader
    int8_t recovery
    int32_t[7] n
    place_t[7][64] lists

cdef struct Topic:
    int64_t name_at
    int32_t name_length
    bint exists

cdef struct Batch:
    int64_t base_offset
    int64_t size
    int64_t first_timestamp_ms
    int32_t epoch
    int32_t attributes
    int32_t last_offset_delta
    int32_t n_records
    int64_t max_timestamp_ms

# Different ids in the order in which they came, and where each stands.
cdef struct Ids:
    uint64_t* ids             # (2 * room,)  high and low half
    int64_t n
    int64_t room
    int32_t* slots            # (mask + 1,)  place of an id, -1 for none
    int64_t n_slots
    int64_t mask


# ---------------------------------------------------------------------------------- checksums

cdef uint32_t[8][256] CHECKSUMS


cdef void make_checksums() noexcept nogil:
    """Tables of CRC-32C for eight bytes at a time."""
    cdef uint32_t value
    cdef int i
    cdef int step
    for i in range(256):
        value = i
        step = 8
        while step:
            value = (value >> 1) ^ (<uint32_t> 0x82F63B78 if value & 1 else 0)
            step -= 1
        CHECKSUMS[0][i] = value
    for step in range(1, 8):
        for i in range(256):
            value = CHECKSUMS[step - 1][i]
            CHECKSUMS[step][i] = (value >> 8) ^ CHECKSUMS[0][value & 255]


make_checksums()


cdef uint32_t checksum_of(const uint8_t* at, int64_t n) noexcept nogil:
    cdef uint32_t value = ~(<uint32_t> 0)
    cdef uint64_t eight
    while n >= 8:
        memcpy(&eight, at, 8)
        eight ^= value
        value = (
            CHECKSUMS[7][eight & 255] ^ CHECKSUMS[6][eight >> 8 & 255]
            ^ CHECKSUMS[5][eight >> 16 & 255] ^ CHECKSUMS[4][eight >> 24 & 255]
            ^ CHECKSUMS[3][eight >> 32 & 255] ^ CHECKSUMS[2][eight >> 40 & 255]
            ^ CHECKSUMS[1][eight >> 48 & 255] ^ CHECKSUMS[0][eight >> 56]
        )
        at += 8
        n -= 8
    while n:
        value = (value >> 8) ^ CHECKSUMS[0][(value ^ at[0]) & 255]
        at += 1
        n -= 1
    return ~value


def checksum(
    const uint8_t[::1] data,  # IN  (n,)
):
    """CRC-32C (Castagnoli) of some bytes."""
    return checksum_of(&data[0], data.shape[0]) if data.shape[0] else 0


# ---------------------------------------------------------------------------------- ids

cdef inline int ensure(void** items, int64_t* room, int64_t n, int64_t size) noexcept nogil:
    """Make room for n items of a size, by doubling it; -1 where there is no memory."""
    cdef int64_t more = max(n, 2 * room[0] + 64)
    cdef void* grown
    if n <= room[0]:
        return 0
    grown = PyMem_RawRealloc(items[0], <size_t> (more * size))
    if grown == NULL:
        return -1
    items[0] = grown
    room[0] = more
    return 0


cdef inline int64_t slot_of_id(const Ids* ids, uint64_t high, uint64_t low) noexcept nogil:
    """The slot of an id, or the empty one that it would get."""
    cdef uint64_t mixed = high ^ low * MIX
    mixed = (mixed ^ mixed >> 32) * MIX
    cdef int64_t slot = <int64_t> (mixed >> 32) & ids.mask
    cdef int32_t place = ids.slots[slot]
    while place >= 0 and (ids.ids[2 * place] != high or ids.ids[2 * place + 1] != low):
        slot = (slot + 1) & ids.mask
        place = ids.slots[slot]
    return slot


cdef int32_t place_of(Ids* ids, uint64_t high, uint64_t low) noexcept nogil:
    """The place of an id, which is added where it is new; -1 where there is no memory."""
    cdef int64_t slot
    cdef int64_t place
    if 2 * ids.n >= ids.n_slots:
        slot = 4 * ids.n + 1024
        if ensure(<void**> &ids.slots, &ids.n_slots, slot, 4) < 0:
            return -1
        ids.mask = 1023
        while 2 * ids.mask + 1 < ids.n_slots:
            ids.mask = 2 * ids.mask + 1
        memset(ids.slots, 255, 4 * ids.n_slots)
        for place in range(ids.n):
            slot = slot_of_id(ids, ids.ids[2 * place], ids.ids[2 * place + 1])
            ids.slots[slot] = <int32_t> place
    slot = slot_of_id(ids, high, low)
    if ids.slots[slot] < 0:
        if ensure(<void**> &ids.ids, &ids.room, ids.n + 1, ID_BYTES) < 0:
            return -1
        ids.ids[2 * ids.n] = high
        ids.ids[2 * ids.n + 1] = low
        ids.slots[slot] = <int32_t> ids.n
        ids.n += 1
    return ids.slots[slot]


cdef inline bint same_id(const uint8_t* at, uint64_t* high, uint64_t* low) noexcept nogil:
    """The halves of the id that stands somewhere; false where none does."""
    if at == NULL:
        return False
    memcpy(high, at, 8)
    memcpy(low, at + 8, 8)
    return True


cdef inline int32_t find_id(const Ids* ids, const uint8_t* at) noexcept nogil:
    """The place of the id that stands somewhere; -1 for an unknown one."""
    cdef uint64_t high = 0
    cdef uint64_t low = 0
    return ids.slots[slot_of_id(ids, high, low)] if ids.n and same_id(at, &high, &low) else -1


cdef inline Batch batch_at(const uint8_t* at) noexcept nogil:
    """The header of the batch that begins at a byte."""
    cdef Wire wire = wire_of(at, at + HEADER)
    cdef Batch batch
    batch.base_offset = read_int64(&wire)
    batch.size = LENGTH_AT + <int64_t> read_int32(&wire)
    batch.epoch = read_int32(&wire)
    take(&wire, 5)
    batch.attributes = read_uint16(&wire)
    batch.last_offset_delta = read_int32(&wire)
    batch.first_timestamp_ms = read_int64(&wire)
    batch.max_timestamp_ms = read_int64(&wire)
    take(&wire, 14)
    batch.n_records = read_int32(&wire)
    return batch


cdef inline bint is_legal_name(Part name) noexcept nogil:
    """Whether a topic can have this name. Source: Topic.java, `validate`."""
    cdef int64_t i
    cdef uint8_t c
    for i in range(name.length):
        c = name.at[i]
        if not (
            c"a" <= c <= c"z" or c"A" <= c <= c"Z" or c"0" <= c <= c"9" or c == c"." or c == c"_"
            or c == c"-"
        ):
            return False
    return 0 < name.length <= 249


cdef class MetadataDecoder:
    """Partitions, topics, brokers and directories of the records that it has read.

    Parameters
    ----------
    versions : (64,) array of int16
        The highest version that is known of each api key; -1 for an unknown key.
    """

    cdef readonly object trouble       # `Trouble`
    cdef readonly int64_t found        # what is wrong
    cdef readonly int64_t wrong_offset
    cdef readonly int64_t wrong_at     # byte, within what was read last
    cdef readonly bint stopped         # a record or a batch behind `stop` was seen
    cdef readonly bint has_footer      # the last record is a SnapshotFooter
    cdef readonly int64_t n_records    # data records within the limits, since `limit`
    cdef readonly int64_t snapshot_time_ms  # of the last record that a snapshot contains
    cdef public int64_t next_offset    # of the next batch; -1 for any
    cdef int16_t[64] versions
    cdef bint is_log
    cdef int64_t start
    cdef int64_t stop
    cdef int64_t stop_ms
    cdef uint64_t collected
    cdef bint applies
    cdef int64_t[:, ::1] undone        # (k, 2) first and last offset of what does not count
    cdef int64_t n_passed              # of them lie behind
    cdef int code
    cdef Record* records
    cdef int64_t n_listed
    cdef int64_t room_listed
    cdef Row* rows
    cdef int32_t n_rows
    cdef int64_t room_rows
    cdef place_t* pool
    cdef int64_t n_pool
    cdef int64_t room_pool
    cdef int32_t* index                # (index_mask + 1,) row of a partition, -1 for none
    cdef int64_t room_index
    cdef int64_t index_mask
    cdef Topic* topics
    cdef int64_t room_topics
    cdef uint8_t* names
    cdef int64_t n_names
    cdef int64_t room_names
    cdef Ids topic_ids
    cdef Ids brokers
    cdef Ids directories

    def __init__(self, const int16_t[::1] versions):
        cdef int i
        cdef uint8_t[16] reserved
        memset(reserved, 0, ID_BYTES)
        for i in range(N_KEYS):
            self.versions[i] = versions[i]
        self.next_offset = -1
        self.trouble = Trouble.FINE
        for i in range(3):  # MIGRATING, UNASSIGNED, LOST have the places 0, 1, 2
            reserved[15] = i
            if self.directory_at(reserved) != i:
                raise MemoryError
        self.limit(False, 0, 1 << 62, 1 << 62, np.empty((0, 2), np.int64), True, 0)

    def __dealloc__(self):
        for place in (
            <uintptr_t> self.records, <uintptr_t> self.rows, <uintptr_t> self.pool,
            <uintptr_t> self.index, <uintptr_t> self.topics, <uintptr_t> self.names,
            <uintptr_t> self.topic_ids.ids, <uintptr_t> self.topic_ids.slots,
            <uintptr_t> self.brokers.ids, <uintptr_t> self.brokers.slots,
            <uintptr_t> self.directories.ids, <uintptr_t> self.directories.slots,
        ):
            PyMem_RawFree(<void*> place)

    def limit(
        self,
        bint is_log,                 # whether offsets count; those of a snapshot do not
        int64_t start,               # first offset that counts
        int64_t stop,                # first offset that does not count any more
        int64_t stop_ms,             # first time that does not
        const int64_t[:, ::1] undone,  # IN  (k, 2)  first and last offset of what does not count
        bint applies,                # whether partitions follow the records
        uint64_t collected,          # api keys of the records that are listed
    ):
        """Say which records count, and what becomes of them."""
        self.is_log, self.start, self.stop, self.stop_ms = is_log, start, stop, stop_ms
        self.undone = np.array(undone)
        self.n_passed = 0
        self.applies, self.collected = applies, collected
        self.stopped = self.has_footer = False
        self.next_offset = -1
        self.n_records = 0

    def read(
        self,
        const uint8_t[::1] data,  # IN  (n,)
    ):
        """Read the batches that are whole; return how many bytes they have, and their records.

        The records are those that were asked for, as an array of `RECORD`. Reading stops where
        `trouble` says so, or at a limit.
        """
        cdef int64_t used = 0
        self.n_listed = 0
        if data.shape[0]:
            with nogil:
                used = self.read_batches(&data[0], data.shape[0])
        self.trouble = Trouble(self.code)
        listed = np.empty(self.n_listed, RECORD)
        cdef const uint8_t[::1] target = listed.view(np.uint8)
        if self.n_listed:
            memcpy(<void*> &target[0], self.records, self.n_listed * sizeof(Record))
        return used, listed

    def holds_all_records(
        self,
        const uint8_t[::1] data,  # IN  (n,)  what is left at the end of a file
    ):
        """Whether a batch whose length goes beyond the end has all its records: it is damaged."""
        cdef Batch batch
        cdef Wire wire
        if data.shape[0] < HEADER:
            return False
        batch = batch_at(&data[0])
        wire = wire_of(&data[0] + HEADER, &data[0] + data.shape[0])
        while batch.n_records > 0 and not wire.bad:
            take(&wire, read_zigzag(&wire))
            batch.n_records -= 1
        return not wire.bad

    # ---------------------------------------------------------------------------------- batches

    cdef int64_t fail(self, int code, int64_t found) noexcept nogil:
        self.code = code
        self.found = found
        return -1

    cdef int64_t read_batches(self, const uint8_t* data, int64_t n) noexcept nogil:
        """Read whole batches; how many bytes they have."""
        cdef int64_t at = 0
        cdef Batch batch
        while self.code == FINE and not self.stopped and n - at >= HEADER:
            batch = batch_at(data + at)
            self.wrong_offset = batch.base_offset
            self.wrong_at = at
            if self.check_header(data + at, batch) < 0 or n - at < batch.size:
                break
            if self.check_body(data + at, batch) < 0:
                break
            if batch.max_timestamp_ms >= self.stop_ms or (
                self.is_log and batch.base_offset >= self.stop
            ):
                self.stopped = True
                break
            if self.has_footer:
                self.fail(AFTER_FOOTER, 0)
                break
            if (
                self.read_control(data, data + at, batch) if batch.attributes & CONTROL
                else self.read_records(data, data + at, batch)
            ) < 0:
                break
            self.next_offset = batch.base_offset + batch.last_offset_delta + 1
            at += batch.size
        return at

    cdef int64_t check_header(self, const uint8_t* at, Batch batch) noexcept nogil:
        if at[16] != 2:
            return self.fail(BAD_MAGIC, at[16])
        if batch.size < LEAST_LENGTH + LENGTH_AT:
            return self.fail(BAD_LENGTH, batch.size - LENGTH_AT)
        if self.is_log and self.next_offset >= 0 and batch.base_offset != self.next_offset:
            return self.fail(OFFSET_GAP, batch.base_offset)
        return 0

    cdef int64_t check_body(self, const uint8_t* at, Batch batch) noexcept nogil:
        cdef uint32_t written
        memcpy(&written, at + 17, 4)
        if kfast_big32(written) != checksum_of(at + CHECKED_AT, batch.size - CHECKED_AT):
            return self.fail(BAD_CHECKSUM, 0)
        if batch.attributes & CODECS:
            return self.fail(COMPRESSED, batch.attributes & CODECS)
        return 0

    cdef int64_t read_control(
        self, const uint8_t* data, const uint8_t* at, Batch batch
    ) noexcept nogil:
        """Of control records, a leader is listed, with its type below 0, and a footer noted."""
        cdef Wire wire = wire_of(at + HEADER, at + batch.size)
        cdef Wire value
        cdef Record record
        cdef uint16_t kind
        read_zigzag(&wire)
        read_int8(&wire)
        record.timestamp_ms = batch.first_timestamp_ms + read_zigzag(&wire)
        record.offset = batch.base_offset + read_zigzag(&wire)
        record.epoch = batch.epoch
        record.batch = batch.base_offset
        read_zigzag(&wire)
        read_uint16(&wire)
        kind = read_uint16(&wire)
        record.key = -<int32_t> kind
        record.length = <int32_t> read_zigzag(&wire)
        record.at = wire.at - data
        value = wire
        if take(&wire, record.length) == NULL:
            return self.fail(BAD_RECORD, -1)
        self.has_footer = kind == SNAPSHOT_FOOTER
        if kind == LEADER_CHANGE and self.is_log:
            return self.list_record(record)
        if kind == SNAPSHOT_HEADER:
            read_uint16(&value)
            self.snapshot_time_ms = read_int64(&value)
        return 0

    cdef int64_t read_records(
        self, const uint8_t* data, const uint8_t* at, Batch batch
    ) noexcept nogil:
        """Read the records of a batch; below 0 for trouble."""
        cdef Wire wire = wire_of(at + HEADER, at + batch.size)
        cdef Wire value
        cdef Record record
        cdef int64_t length
        record.epoch = batch.epoch
        record.batch = batch.base_offset
        while batch.n_records > 0:
            batch.n_records -= 1
            value = wire_of(wire.at, wire.at)
            length = read_zigzag(&wire)
            value.at = wire.at
            if take(&wire, length) == NULL:
                return self.fail(BAD_RECORD, -1)
            value.end = wire.at
            read_int8(&value)
            record.timestamp_ms = batch.first_timestamp_ms + read_zigzag(&value)
            record.offset = batch.base_offset + read_zigzag(&value)
            self.wrong_offset = record.offset
            self.wrong_at = value.at - data
            length = read_zigzag(&value)
            if length >= 0:
                take(&value, length)
            length = read_zigzag(&value)
            record.at = value.at - data
            record.length = <int32_t> length
            if take(&value, length) == NULL:
                return self.fail(BAD_RECORD, -1)
            if self.is_log and record.offset >= self.stop:
                self.stopped = True
                return 0
            if self.is_log and not self.counts(record.offset):
                continue
            self.n_records += 1
            value = wire_of(data + record.at, data + record.at + length)
            if self.read_record(value, &record) < 0:
                return -1
        return 0 if wire.at == wire.end else self.fail(BAD_RECORD, -1)

    cdef bint counts(self, int64_t offset) noexcept nogil:
        """Whether the record at an offset counts: offsets rise from call to call."""
        while self.n_passed < self.undone.shape[0] and self.undone[self.n_passed, 1] < offset:
            self.n_passed += 1
        return offset >= self.start and not (
            self.n_passed < self.undone.shape[0] and self.undone[self.n_passed, 0] <= offset
        )

    cdef int64_t read_record(self, Wire wire, Record* record) noexcept nogil:
        """Read the value of a record: apply it, list it, or pass over it; below 0 for trouble."""
        cdef uint64_t frame = read_varint(&wire)
        cdef uint64_t key = read_varint(&wire)
        cdef uint64_t version = read_varint(&wire)
        cdef int64_t done = 0
        if wire.bad:
            return self.fail(BAD_RECORD, -1)
        if frame != 1:
            return self.fail(UNKNOWN_FRAME, <int64_t> frame)
        if key >= N_KEYS or self.versions[key] < 0:
            return self.fail(UNKNOWN_KEY, <int64_t> key)
        if version > <uint64_t> self.versions[key]:
            return self.fail(UNKNOWN_VERSION, <int64_t> (100000 * key + version))
        if self.collected >> key & 1:
            record.key = <int32_t> key
            if self.list_record(record[0]) < 0:
                return -1
        if not self.applies:
            return 0
        if key == PARTITION:
            done = self.read_partition(&wire, <int> version)
        elif key == PARTITION_CHANGE:
            done = self.read_change(&wire, <int> version)
        elif key == TOPIC:
            done = self.read_topic(&wire)
        elif key == REMOVE_TOPIC:
            done = self.remove_topic(&wire)
        elif key == CLEAR_ELR:
            done = self.clear_elr(&wire)
        else:
            return 0
        if done < 0 or self.code != FINE:
            return -1
        return 0 if not wire.bad and wire.at == wire.end else self.fail(BAD_RECORD, <int64_t> key)

    cdef int64_t list_record(self, Record record) noexcept nogil:
        """List a record for the caller; -1 where there is no memory."""
        if ensure(
            <void**> &self.records, &self.room_listed, self.n_listed + 1, sizeof(Record)
        ) < 0:
            return self.fail(NO_MEMORY, 0)
        self.records[self.n_listed] = record
        self.n_listed += 1
        return 0

    # ---------------------------------------------------------------------------------- topics

    cdef int32_t find_topic(self, Wire* wire) noexcept nogil:
        """The topic whose id comes next; below 0 for trouble."""
        cdef int32_t topic = find_id(&self.topic_ids, take(wire, ID_BYTES))
        if topic < 0 or not self.topics[topic].exists:
            return <int32_t> self.fail(BAD_RECORD if wire.bad else UNKNOWN_TOPIC, 0)
        return topic

    cdef int64_t read_topic(self, Wire* wire) noexcept nogil:
        cdef Part name = read_text(wire)
        cdef uint64_t high = 0
        cdef uint64_t low = 0
        cdef int32_t topic
        cdef int32_t row
        cdef int64_t known = self.topic_ids.n
        if not same_id(take(wire, ID_BYTES), &high, &low) or not is_legal_name(name):
            return self.fail(BAD_RECORD, TOPIC)
        skip_tags(wire)
        topic = place_of(&self.topic_ids, high, low)
        if (
            topic < 0
            or ensure(<void**> &self.topics, &self.room_topics, topic + 1, sizeof(Topic)) < 0
            or ensure(<void**> &self.names, &self.room_names, self.n_names + name.length, 1) < 0
        ):
            return self.fail(NO_MEMORY, 0)
        if topic < known:
            if self.topics[topic].exists:
                return self.fail(TOPIC_TWICE, 0)
            for row in range(self.n_rows):
                if self.rows[row].topic == topic:
                    self.rows[row].topic = -1
        memcpy(self.names + self.n_names, name.at, name.length)
        self.topics[topic].name_at = self.n_names
        self.topics[topic].name_length = <int32_t> name.length
        self.topics[topic].exists = True
        self.n_names += name.length
        return 0

    cdef int64_t remove_topic(self, Wire* wire) noexcept nogil:
        cdef int32_t topic = self.find_topic(wire)
        if topic < 0:
            return -1
        skip_tags(wire)
        self.topics[topic].exists = False
        return 0

    cdef bint exists(self, const Row* row) noexcept nogil:
        """Whether a partition is there: rows of removed topics stay."""
        return row.topic >= 0 and self.topics[row.topic].exists

    cdef int64_t clear_elr(self, Wire* wire) noexcept nogil:
        """Empty the ELRs of a topic, or of all; a partition that had none is left alone."""
        cdef Part name = read_text(wire)
        cdef Row* row
        cdef Topic topic
        cdef int32_t i
        skip_tags(wire)
        for i in range(self.n_rows):
            row = &self.rows[i]
            if not self.exists(row) or row.n[ELR] + row.n[LAST_KNOWN_ELR] == 0:
                continue
            topic = self.topics[row.topic]
            if name.length > 0 and not (
                name.length == topic.name_length
                and memcmp(name.at, self.names + topic.name_at, name.length) == 0
            ):
                continue
            row.n[ELR] = row.n[LAST_KNOWN_ELR] = 0
            row.partition_epoch += 1
        return 0

    # ---------------------------------------------------------------------------------- partitions

    cdef int64_t slot_of_partition(self, int32_t topic, int32_t partition) noexcept nogil:
        """The slot of a partition in the index, or the empty one that it would get."""
        cdef int64_t mask = self.index_mask
        cdef uint64_t block = (<uint64_t> topic << 32) + <uint64_t> (<uint32_t> partition // BLOCK)
        cdef int64_t slot = <int64_t> (block * MIX >> 28) * BLOCK + (partition & (BLOCK - 1)) & mask
        cdef int32_t row = self.index[slot]
        while row >= 0 and (
            self.rows[row].partition != partition or self.rows[row].topic != topic
        ):
            slot = (slot + 1) & mask
            row = self.index[slot]
        return slot

    cdef int64_t grow_rows(self) noexcept nogil:
        """Room for one row more; -1 where there is no memory."""
        cdef int64_t needed = 2 * self.n_rows + 2
        cdef int32_t row
        if ensure(<void**> &self.rows, &self.room_rows, self.n_rows + 1, sizeof(Row)) < 0:
            return -1
        if needed <= self.index_mask + 1:
            return 0
        while self.index_mask + 1 < needed:
            self.index_mask = 2 * self.index_mask + 1
        if ensure(<void**> &self.index, &self.room_index, self.index_mask + 1, 4) < 0:
            return -1
        memset(self.index, 255, 4 * (self.index_mask + 1))
        for row in range(self.n_rows):
            if self.exists(&self.rows[row]):
                self.index[
                    self.slot_of_partition(self.rows[row].topic, self.rows[row].partition)
                ] = row
        return 0

    cdef int64_t keep(self, int32_t row, const Registration* new) noexcept nogil:
        """Write a partition; its lists move where they have grown."""
        cdef Row* kept = &self.rows[row]
        cdef int64_t total = 0
        cdef int name
        for name in range(N_LISTS):
            total += new.n[name]
        if total > kept.room:
            if ensure(
                <void**> &self.pool, &self.room_pool, self.n_pool + total, sizeof(place_t)
            ) < 0:
                return self.fail(NO_MEMORY, 0)
            kept.at = <uint32_t> self.n_pool
            kept.room = <uint16_t> total
            self.n_pool += total
        total = kept.at
        for name in range(N_LISTS):
            kept.n[name] = <uint8_t> new.n[name]
            memcpy(self.pool + total, new.lists[name], sizeof(place_t) * new.n[name])
            total += new.n[name]
        kept.leader = new.leader
        kept.leader_epoch = new.leader_epoch
        kept.partition_epoch = new.partition_epoch
        kept.recovery = new.recovery
        return 0

    cdef void open(self, int32_t row, Registration* now) noexcept nogil:
        """Copy a partition to where every list has its own place."""
        cdef Row* kept = &self.rows[row]
        cdef const place_t* at = self.pool + kept.at
        cdef int name
        for name in range(N_LISTS):
            now.n[name] = kept.n[name]
            memcpy(now.lists[name], at, sizeof(place_t) * kept.n[name])
            at += kept.n[name]
        now.leader = kept.leader
        now.leader_epoch = kept.leader_epoch
        now.partition_epoch = kept.partition_epoch
        now.recovery = kept.recovery

    cdef place_t place_in(self, Ids* ids, uint64_t high, uint64_t low) noexcept nogil:
        """The place of an id; where there is none, that is noted as trouble."""
        cdef int32_t place = place_of(ids, high, low)
        if not 0 <= place < NO_PLACE:
            self.fail(NO_MEMORY if place < 0 else TOO_MANY_PLACES, NO_PLACE)
        return <place_t> place

    cdef place_t broker_of(self, int32_t id) noexcept nogil:
        """The place of a broker id; the id -1, which a last known leader may be, has none."""
        return NO_PLACE if id == -1 else self.place_in(&self.brokers, 0, <uint32_t> id)

    cdef place_t directory_at(self, const uint8_t* at) noexcept nogil:
        """The place of a directory; none where nothing can be read."""
        cdef uint64_t high = 0
        cdef uint64_t low = 0
        if not same_id(at, &high, &low):
            return NO_PLACE
        return self.place_in(&self.directories, high, low)

    cdef int64_t read_list(self, Wire* wire, Registration* now, int name) noexcept nogil:
        """Read a list of brokers or directories, unless it is null; below 0 for trouble."""
        cdef int64_t n = read_length(wire)
        cdef int64_t i
        if n > MOST:
            return self.fail(TOO_MANY_BROKERS, n)
        if n < 0:
            return 0
        for i in range(n):
            if name == DIRECTORIES:
                now.lists[name][i] = self.directory_at(take(wire, ID_BYTES))
            else:
                now.lists[name][i] = self.broker_of(read_int32(wire))
        now.n[name] = <int32_t> n
        return 0 if self.code == FINE else -1

    cdef int64_t read_partition(self, Wire* wire, int version) noexcept nogil:
        """A Partition record: a new partition, or one that it replaces."""
        cdef Registration new
        cdef int32_t partition = read_int32(wire)
        cdef int32_t topic = self.find_topic(wire)
        cdef int name
        if topic < 0:
            return -1
        memset(new.n, 0, sizeof(new.n))
        new.recovery = 0
        for name in range(DIRECTORIES):
            if self.read_list(wire, &new, name) < 0:
                return -1
        new.leader = self.broker_of(read_int32(wire))
        new.leader_epoch = read_int32(wire)
        new.partition_epoch = read_int32(wire)
        if version >= 1 and self.read_list(wire, &new, DIRECTORIES) < 0:
            return -1
        if self.read_tags(wire, &new, PARTITION, version) < 0:
            return -1
        if partition < 0 or self.check(&new) < 0:
            return self.fail(BAD_RECORD, PARTITION) if self.code == FINE else -1
        return self.place(topic, partition, &new)

    cdef int64_t place(
        self, int32_t topic, int32_t partition, const Registration* new
    ) noexcept nogil:
        """Write a partition where it has its row, or to a new row."""
        cdef int64_t slot
        cdef int32_t row
        if self.grow_rows() < 0:
            return self.fail(NO_MEMORY, 0)
        slot = self.slot_of_partition(topic, partition)
        row = self.index[slot]
        if row < 0:
            row = self.n_rows
            memset(&self.rows[row], 0, sizeof(Row))
            self.rows[row].topic = topic
            self.rows[row].partition = partition
            self.index[slot] = row
            self.n_rows += 1
        return self.keep(row, new)

    cdef int64_t read_change(self, Wire* wire, int version) noexcept nogil:
        """A PartitionChange record. Source: section 2."""
        cdef Registration now
        cdef int32_t partition = read_int32(wire)
        cdef int32_t topic = self.find_topic(wire)
        cdef int32_t row = -1
        if topic < 0:
            return -1
        if self.n_rows:
            row = self.index[self.slot_of_partition(topic, partition)]
        if row < 0:
            return self.fail(UNKNOWN_PARTITION, partition)
        self.open(row, &now)
        if self.read_tags(wire, &now, PARTITION_CHANGE, version) < 0 or self.check(&now) < 0:
            return -1
        now.partition_epoch += 1
        return self.keep(row, &now)

    cdef int64_t read_tags(
        self, Wire* wire, Registration* now, int key, int version
    ) noexcept nogil:
        """The tagged fields of a record of a partition; unknown ones are passed over."""
        cdef uint64_t left = read_varint(wire)
        cdef int64_t tag
        cdef int64_t size
        cdef Wire field
        while left and not wire.bad:
            tag = <int64_t> read_varint(wire)
            size = <int64_t> read_varint(wire)
            field = wire_of(wire.at, wire.at)
            if take(wire, size) == NULL:
                break
            field.end = wire.at
            if (
                self.read_new_field(&field, now, tag, version) if key == PARTITION
                else self.read_changed_field(&field, now, tag, version)
            ) < 0:
                return -1
            wire.bad |= field.bad or field.at != field.end
            left -= 1
        return self.fail(BAD_RECORD, key) if wire.bad else 0

    cdef int64_t read_new_field(
        self, Wire* field, Registration* new, int64_t tag, int version
    ) noexcept nogil:
        if version >= 2 and (tag == 1 or tag == 2):
            return self.read_list(field, new, ELR if tag == 1 else LAST_KNOWN_ELR)
        if tag == 0:
            new.recovery = <int8_t> read_int8(field)
        else:
            field.at = field.end
        return 0

    cdef int64_t read_changed_field(
        self, Wire* field, Registration* now, int64_t tag, int version
    ) noexcept nogil:
        cdef int64_t value
        if 0 <= tag <= 8 and tag != 1 and tag != 5:
            if version >= SINCE[tag]:
                return self.read_list(field, now, LISTS[tag])
            field.at = field.end
        elif tag == 1:
            value = read_int32(field)
            if value != UNCHANGED_LEADER:
                now.leader = self.broker_of(<int32_t> value)
                now.leader_epoch += 1
        elif tag == 5:
            value = read_int8(field)
            if value != UNCHANGED_RECOVERY:
                now.recovery = <int8_t> value
        else:
            field.at = field.end
        return 0

    cdef int64_t check(self, Registration* new) noexcept nogil:
        """Forget directories that are all MIGRATING; others must be as many as the replicas."""
        cdef int32_t i
        for i in range(new.n[DIRECTORIES]):
            if new.lists[DIRECTORIES][i]:
                if new.n[DIRECTORIES] != new.n[REPLICAS]:
                    return self.fail(BAD_DIRECTORIES, new.n[DIRECTORIES])
                return 0
        new.n[DIRECTORIES] = 0
        return 0

    # ---------------------------------------------------------------------------------- results

    def broker_ids(self):
        """Ids of all brokers that a partition ever named, as (k,) int32; their places count."""
        ids = np.empty(self.brokers.n, np.int32)
        cdef int32_t[::1] target = ids
        cdef int64_t i
        for i in range(self.brokers.n):
            target[i] = <int32_t> self.brokers.ids[2 * i + 1]
        return ids

    def directory_ids(self):
        """Ids of all directories that a partition ever had, as (16 * k,) bytes."""
        return bytes((<uint8_t*> self.directories.ids)[:ID_BYTES * self.directories.n])

    def topic_columns(self):
        """Ids of all topics as (16 * k,) bytes; their names together; a table of the names.

        The table has rows of place in the names, length, and 1 where the topic exists.
        """
        table = np.empty((self.topic_ids.n, 3), np.int64)
        cdef int64_t[:, ::1] target = table
        cdef int64_t i
        for i in range(self.topic_ids.n):
            target[i, 0] = self.topics[i].name_at
            target[i, 1] = self.topics[i].name_length
            target[i, 2] = self.topics[i].exists
        ids = (<uint8_t*> self.topic_ids.ids)[:ID_BYTES * self.topic_ids.n]
        return bytes(ids), bytes(self.names[:self.n_names]), table

    def name_of_topic(
        self,
        const uint8_t[::1] id,  # IN  (16,)
    ):
        """Name of a topic that is or was there; None for an unknown one."""
        cdef int32_t topic = -1
        if id.shape[0] == ID_BYTES:
            topic = find_id(&self.topic_ids, &id[0])
        if topic < 0:
            return None
        at, length = self.topics[topic].name_at, self.topics[topic].name_length
        return self.names[at:at + length].decode("ascii")

    def rows_in_order(
        self,
        const int32_t[::1] topic_row,  # IN  (T,)  of each topic
    ):
        """Rows of all partitions that exist, by topic row and number, as (n,) int32.

        Gives the index back that reading needs: nothing can be read afterwards.
        """
        cdef int64_t n = 0
        cdef int64_t last = -1
        cdef bint in_order = True
        cdef int32_t row
        PyMem_RawFree(self.index)
        self.index = NULL
        self.code = self.code or NO_MEMORY  # what is read without an index would say so
        for row in range(self.n_rows):
            n += self.exists(&self.rows[row])
        rows = np.empty(n, np.int32)
        cdef int32_t[::1] row_at = rows
        n = 0
        for row in range(self.n_rows):
            if self.exists(&self.rows[row]):
                row_at[n] = row
                in_order &= self.key_of(row, topic_row) > last
                last = self.key_of(row, topic_row)
                n += 1
        if in_order:
            return rows
        keys = np.empty(n, np.int64)
        cdef int64_t[::1] key_at = keys
        for row in range(<int32_t> n):
            key_at[row] = self.key_of(row_at[row], topic_row)
        return rows[np.argsort(keys)]

    cdef int64_t key_of(self, int32_t row, const int32_t[::1] topic_row) noexcept nogil:
        return <int64_t> topic_row[self.rows[row].topic] << 32 | self.rows[row].partition

    def key_of_row(self, int32_t row):
        """Place of the topic and number of a partition."""
        return self.rows[row].topic, self.rows[row].partition

    def reassignment_of(self, int32_t row):
        """Ids that a reassignment adds to a partition and removes from it, in order."""
        return self.ids_of(row, ADDING), self.ids_of(row, REMOVING)

    cdef list ids_of(self, int32_t row, int name):
        cdef Registration now
        self.open(row, &now)
        return [
            <int32_t> self.brokers.ids[2 * <int64_t> now.lists[name][i] + 1]
            for i in range(now.n[name])
        ]

    cdef int lay_out(self, const Row* row, int32_t* slots, uint64_t* masks) noexcept nogil:
        """Slots of a partition: its replicas in order, then who else is named; below 0 if not.

        `slots` has the broker of each; `masks` the slots of each list but the directories and the
        last known leaders.
        """
        cdef const place_t* values = self.pool + row.at
        cdef int n = 0
        cdef int name
        cdef int i
        cdef int slot
        for name in range(LAST_KNOWN_ELR):
            masks[name] = 0
            if name != DIRECTORIES:
                for i in range(row.n[name]):
                    slot = slot_of(slots, n, values[i])
                    if values[i] == NO_PLACE:
                        return NO_BROKER
                    if slot == NO_SLOT:
                        if n == MOST:
                            return TOO_WIDE
                        slot = n
                        slots[n] = values[i]
                        n += 1
                    if masks[name] & bit(slot):
                        return NAMED_TWICE
                    masks[name] |= bit(slot)
            values += row.n[name]
        if row.leader != NO_PLACE and slot_of(slots, n, row.leader) == NO_SLOT:
            if n == MOST:
                return TOO_WIDE
            slots[n] = row.leader
            n += 1
        if masks[ISR] & masks[ELR]:
            return IN_ISR_AND_ELR
        if row.n[LAST_KNOWN_ELR] > 1:
            return MANY_LAST_KNOWN
        return n

    def measure(
        self,
        const int32_t[::1] rows,  # IN   (n,)  partitions
        uint8_t[::1] shape,       # OUT  (n,)  bits of `Shape`
    ):
        """How many slots the partitions need at most, and what each has of `Shape`.

        Returns that number and -1; or, where one cannot be held, a `Misfit` and its place.
        """
        cdef int32_t[64] slots
        cdef uint64_t[7] masks
        cdef int most = 1
        cdef int n
        cdef Py_ssize_t i
        for i in range(rows.shape[0]):
            n = self.lay_out(&self.rows[rows[i]], slots, masks)
            if n < 0:
                return Misfit(n), i
            most = max(most, n)
            shape[i] = self.shape_of(&self.rows[rows[i]], slots, n)
        return most, -1

    cdef uint8_t shape_of(self, const Row* row, const int32_t* slots, int n_slots) noexcept nogil:
        cdef const place_t* values = self.pool + row.at
        cdef uint8_t shape = 0
        cdef int name
        cdef int i
        cdef int slot
        cdef int last
        if row.n[ELR] or row.n[LAST_KNOWN_ELR]:
            shape |= HAS_ELR
        if row.n[REMOVING] > 1 or row.n[ADDING] > 1:
            shape |= HAS_LONG_REASSIGNMENT
        for name in range(LAST_KNOWN_ELR):
            last = -1
            for i in range(row.n[name]):
                if name == DIRECTORIES:
                    shape |= HAS_DIRECTORIES if values[i] else 0
                elif name == ISR or name == ELR:
                    slot = slot_of(slots, n_slots, values[i])
                    shape |= HAS_ORDER if slot < last else 0
                    last = slot
            values += row.n[name]
        return shape

    def fill(
        self,
        const int32_t[::1] rows,        # IN   (n,)    partitions
        const int32_t[::1] places,      # IN   (T,)    topic row of each topic
        const int32_t[::1] broker_row,  # IN   (k,)    of each broker
        int32_t[::1] topic_row,         # OUT  (n,)
        record_t[::1] records,          # OUT  (n,)
        broker_t[:, ::1] replicas,      # OUT  (n, S)  broker rows
        int32_t[::1] partition,         # OUT  (n,)
        uint8_t[::1] elr,               # OUT  (n,)    as many bytes as a mask has; or (0,)
        int32_t[::1] last_known_elr,    # OUT  (n,)    broker row, -1 for the id -1, -2 for none
        uint8_t[:, ::1] member_order,   # OUT  (n, S)  slots of ISR, then ELR, then 255; or (0, 0)
        int32_t[:, ::1] directory,      # OUT  (n, S)  place of each replica's directory, then -1
    ):
        """Write the partitions into the arrays of a state; `measure` has found them good.

        Of what is cold, an array without rows is left out.
        """
        cdef int32_t[64] slots
        cdef uint64_t[7] masks
        cdef Py_ssize_t i
        cdef Row* row
        cdef int s
        cdef int n
        with nogil:
            for i in range(rows.shape[0]):
                row = &self.rows[rows[i]]
                n = self.lay_out(row, slots, masks)
                for s in range(<int> replicas.shape[1]):
                    replicas[i, s] = <broker_t> (broker_row[slots[s]] if s < n else -1)
                topic_row[i] = places[row.topic]
                partition[i] = row.partition
                records[i].n_slots = <uint8_t> n
                records[i].n_replicas = row.n[REPLICAS]
                records[i].leader = (
                    NO_LEADER if row.leader == NO_PLACE else broker_row[row.leader]
                )
                records[i].leader_epoch = row.leader_epoch
                records[i].version = row.partition_epoch
                records[i].controller_epoch = 0
                records[i].partition_state = P_NO_ENTRY
                records[i].flags = (
                    FLAG_ASSIGNED | FLAG_HAS_LEADERSHIP | (FLAG_RECOVERY if row.recovery else 0)
                )
                set_masks(&records[i], masks[ISR], masks[ADDING], masks[REMOVING], 0)
                if elr.shape[0]:
                    if record_t is NarrowRecord:
                        elr[i] = <uint8_t> masks[ELR]
                    else:
                        (<uint64_t*> &elr[0])[i] = masks[ELR]
                    last_known_elr[i] = self.last_known(row, &broker_row[0])
                if member_order.shape[0]:
                    memset(&member_order[i, 0], NO_MEMBER, member_order.shape[1])
                    self.write_order(row, slots, n, &member_order[i, 0])
                if directory.shape[0]:
                    memset(&directory[i, 0], 255, 4 * directory.shape[1])
                    memset(&directory[i, 0], 0, 4 * row.n[REPLICAS])
                    for s in range(row.n[DIRECTORIES]):
                        directory[i, s] = self.list_at(row, DIRECTORIES)[s]

    cdef const place_t* list_at(self, const Row* row, int name) noexcept nogil:
        """Where a list of a partition begins."""
        cdef const place_t* at = self.pool + row.at
        cdef int before
        for before in range(name):
            at += row.n[before]
        return at

    cdef int32_t last_known(self, const Row* row, const int32_t* broker_row) noexcept nogil:
        """Broker row of the last known leader."""
        cdef place_t broker
        if row.n[LAST_KNOWN_ELR] == 0:
            return NO_LAST_KNOWN
        broker = self.list_at(row, LAST_KNOWN_ELR)[0]
        return NO_LEADER if broker == NO_PLACE else broker_row[broker]

    cdef void write_order(
        self, const Row* row, const int32_t* slots, int n, uint8_t* order
    ) noexcept nogil:
        """The slots of the ISR in its order, then those of the ELR."""
        cdef const place_t* values = self.list_at(row, ISR)
        cdef int i
        for i in range(row.n[ISR] + row.n[ELR]):
            if i == row.n[ISR]:
                values = self.list_at(row, ELR) - i
            order[i] = <uint8_t> slot_of(slots, n, values[i])
