"""Changes of partitions, as PartitionChange records have them: fields that are there, and lists.

One log has what a build answers, what it is asked for, or what a metadata log says.

Source: docs/kraft.md, sections 2 and 3; Kafka 4.1, PartitionChangeRecord.json.
"""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from kfast.kernels.quorum_columns cimport NOBODY_KNOWN

cdef enum:
    FIRST_ROOM = 64


cdef void* grown(void* block, Py_ssize_t* room, Py_ssize_t needed, Py_ssize_t size) noexcept nogil:
    """A block with room for so many items, twice what there was at least; NULL if there is none."""
    cdef Py_ssize_t more = max(2 * room[0], needed, FIRST_ROOM)
    cdef void* larger = realloc(block, more * size)
    if larger != NULL:
        room[0] = more
    return larger


cdef class ChangeLog:
    """Changes in order. `clear` keeps the memory for the next event.

    Without `keeps_all`, an update may apply changes at once and only count them (`n_counted`).

    What a state has to do besides is noted when changes are applied: `take_deltas` gives the change
    of its counters, `take_tracked` what its hosting index lacks.
    """

    def __cinit__(self, bint keeps_all=True):
        self.keeps_all = keeps_all

    def __dealloc__(self):
        free(self.changes)
        free(self.values)
        free(self.tracked_places)

    def __len__(self):
        return self.n_changes

    def clear(self):
        """Forget all changes, and what was applied."""
        self.n_changes = self.n_lists = self.n_applied = self.n_tracked = 0
        self.n_slots_needed = 0
        self.leaderless = self.imbalanced = 0
        self.n_counted = self.n_elections = self.n_moved = 0

    cdef bint reserve(self, Py_ssize_t n_changes, Py_ssize_t n_lists) noexcept nogil:
        """Make room for more; False if there is no memory."""
        cdef void* block
        if self.n_changes + n_changes > self.room_for_changes:
            block = grown(
                self.changes, &self.room_for_changes, self.n_changes + n_changes, sizeof(Change)
            )
            if block == NULL:
                return False
            self.changes = <Change*> block
        if self.n_lists + n_lists > self.room_for_lists:
            block = grown(
                self.values, &self.room_for_lists, self.n_lists + n_lists, sizeof(int32_t)
            )
            if block == NULL:
                return False
            self.values = <int32_t*> block
        return True

    cdef bint note_tracked(self, int32_t row, int32_t broker) noexcept nogil:
        """Note that a broker got a slot of a row; False if there is no memory."""
        cdef void* block
        if self.n_tracked == self.room_for_tracked:
            block = grown(
                self.tracked_places, &self.room_for_tracked, self.n_tracked + 1,
                2 * sizeof(int32_t),
            )
            if block == NULL:
                return False
            self.tracked_places = <int32_t*> block
        self.tracked_places[2 * self.n_tracked] = row
        self.tracked_places[2 * self.n_tracked + 1] = broker
        self.n_tracked += 1
        return True

    cdef int append_list(self, values) except -1:
        """Append one list; returns its length."""
        cdef Py_ssize_t n = len(values)
        cdef Py_ssize_t i
        if n > 64:
            raise ValueError(f"a list of {n} entries where 64 are allowed")
        if not self.reserve(0, n):
            raise MemoryError
        for i in range(n):
            self.values[self.n_lists + i] = values[i]
        self.n_lists += n
        return <int> n

    def append(
        self, int32_t row, *, isr=None, leader=None, replicas=None, removing=None, adding=None,
        recovery=None, elr=None, last_known=None, directories=None, int mode=ELECT_ONLINE,
        bint elr_off=False,
    ):
        """Append a change or a request: broker rows, numbers of directories; None is absent."""
        cdef Change change
        memset(&change, 0, sizeof(Change))
        change.begin = self.n_lists
        change.row = row
        change.request = -1
        change.mode = <uint8_t> mode
        change.leader = change.leader_before = -1
        change.last_known = NOBODY_KNOWN
        if isr is not None:
            change.fields |= FIELD_ISR
            change.n_isr = <uint8_t> self.append_list(isr)
        if replicas is not None:
            change.fields |= FIELD_REPLICAS
            change.n_replicas = <uint8_t> self.append_list(replicas)
        if removing is not None:
            change.fields |= FIELD_REMOVING
            change.n_removing = <uint8_t> self.append_list(removing)
        if adding is not None:
            change.fields |= FIELD_ADDING
            change.n_adding = <uint8_t> self.append_list(adding)
        if elr is not None:
            change.fields |= FIELD_ELR
            change.n_elr = <uint8_t> self.append_list(elr)
        if directories is not None:
            change.fields |= FIELD_DIRECTORIES
            change.n_directories = <uint8_t> self.append_list(directories)
        if leader is not None:
            change.fields |= FIELD_LEADER
            change.leader = leader
        if recovery is not None:
            change.fields |= FIELD_RECOVERY
            change.recovery = recovery
        if last_known is not None:
            change.fields |= FIELD_LAST_KNOWN
            change.last_known = last_known
        if elr_off:
            change.fields |= FIELD_ELR_OFF
        if not self.reserve(1, 0):
            raise MemoryError
        self.changes[self.n_changes] = change
        self.n_changes += 1

    def extend(
        self,
        changes,                     # IN  (n,)  `CHANGE`; `begin` counts in `lists`
        const int32_t[::1] lists,    # IN  (m,)
    ):
        """Append many at once."""
        if changes.dtype != CHANGE:
            raise ValueError(f"changes are of {changes.dtype}")
        cdef const uint8_t[::1] raw = changes.view(np.uint8)
        cdef Py_ssize_t n = raw.shape[0] // <Py_ssize_t> sizeof(Change)
        cdef const Change* given = <const Change*> &raw[0] if n else NULL
        cdef Py_ssize_t i, end
        for i in range(n):
            end = given[i].begin + given[i].n_isr + given[i].n_replicas
            end += given[i].n_removing + given[i].n_adding + given[i].n_elr
            end += given[i].n_directories
            if given[i].begin < 0 or end > lists.shape[0]:
                raise ValueError(f"the lists of change {i} are not among those that are given")
        if not self.reserve(n, lists.shape[0]):
            raise MemoryError
        for i in range(n):
            self.changes[self.n_changes + i] = given[i]
            self.changes[self.n_changes + i].begin += self.n_lists
        if lists.shape[0]:
            memcpy(&self.values[self.n_lists], &lists[0], lists.shape[0] * sizeof(int32_t))
        self.n_changes += n
        self.n_lists += lists.shape[0]

    def fields_of(self, Py_ssize_t index):
        """Fields that are there of one change, by the names of `append`: a dict."""
        cdef Change* change
        cdef Py_ssize_t at
        cdef dict fields = {}
        if not 0 <= index < self.n_changes:
            raise IndexError(f"change {index} is outside 0..{self.n_changes - 1}")
        change = &self.changes[index]
        at = change.begin
        for name, bit, n in (
            ("isr", FIELD_ISR, change.n_isr), ("replicas", FIELD_REPLICAS, change.n_replicas),
            ("removing", FIELD_REMOVING, change.n_removing),
            ("adding", FIELD_ADDING, change.n_adding), ("elr", FIELD_ELR, change.n_elr),
            ("directories", FIELD_DIRECTORIES, change.n_directories),
        ):
            if change.fields & <int> bit:
                fields[name] = tuple([self.values[at + <int> i] for i in range(n)])
            at += <int> n
        if change.fields & FIELD_LEADER:
            fields["leader"] = change.leader
        if change.fields & FIELD_RECOVERY:
            fields["recovery"] = change.recovery
        if change.fields & FIELD_LAST_KNOWN:
            fields["last_known"] = change.last_known
        return fields

    def counts(self):
        """How many changes there are, how many of each kind, and how many leaders moved: a dict."""
        cdef int64_t of_bit[8]
        cdef int64_t moved = self.n_moved
        cdef Py_ssize_t i
        cdef int b
        memset(of_bit, 0, sizeof(of_bit))
        of_bit[0], of_bit[5] = self.n_elections, self.n_counted
        for i in range(self.n_changes):
            for b in range(8):
                of_bit[b] += (self.changes[i].kinds >> b) & 1
            moved += self.changes[i].kinds & CHANGE_ELECTION and self.changes[i].leader_before >= 0
        return {
            "changes": self.n_changes + self.n_counted,
            "elections": of_bit[0], "unclean_elections": of_bit[1],
            "elr_elections": of_bit[2], "last_known_leader_elections": of_bit[3],
            "leaders_moved": moved, "leaders_lost": of_bit[4], "isr_shrinks": of_bit[5],
            "isr_expansions": of_bit[6], "reassignments_completed": of_bit[7],
        }

    @property
    def changes(self):
        """(n,) array of `CHANGE`, a copy."""
        if not self.reserve(1, 0):
            raise MemoryError
        cdef Py_ssize_t n_bytes = self.n_changes * <Py_ssize_t> sizeof(Change)
        held = np.asarray(<uint8_t[: n_bytes + 1]> <uint8_t*> self.changes)
        return held[:n_bytes].copy().view(CHANGE)

    @property
    def lists(self):
        """(m,) int32, a copy: the lists of all changes."""
        if not self.reserve(0, 1):
            raise MemoryError
        return np.asarray(<int32_t[: self.n_lists + 1]> self.values)[: self.n_lists].copy()

    @property
    def slots_needed(self):
        """Slots that a row must have before `apply` can go on."""
        return self.n_slots_needed

    def take_deltas(self):
        """By how many the leaderless and the imbalanced partitions have changed since last asked.

        Imbalanced are those that the preferred replica does not lead.
        """
        deltas = self.leaderless, self.imbalanced
        self.leaderless = self.imbalanced = 0
        return deltas

    def take_tracked(self):
        """(rows, broker rows), two arrays of int32: slots that brokers got since last asked.

        None where none did.
        """
        if not self.n_tracked:
            return None
        places = np.asarray(<int32_t[: self.n_tracked, :2]> self.tracked_places).copy()
        self.n_tracked = 0
        return np.ascontiguousarray(places[:, 0]), np.ascontiguousarray(places[:, 1])


cdef Change NO_CHANGE
CHANGE = np.asarray(<Change[:1]> &NO_CHANGE).dtype
