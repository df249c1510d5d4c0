"""Search for assigned replicas that keep brokers within their limits, whichever brokers fail.

What a broker carries after a failure is what it carries without one, and a difference that only
partitions with a failed replica make. So a change of one partition touches few numbers. Assigned
replicas on live brokers are taken for in sync, the first of them for the leader.

The share of a limit that a broker uses is a whole number of units, rounded down from one product in
float64, and all comparisons are of integers: no result depends on the compiler.

Source: docs/capacity.md, "A better placement".
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from kfast.kernels.splitmix cimport below, mix

cdef extern from "capacity.h":
    ctypedef long long wide "kfast_wide"
    int64_t kfast_share(int64_t a, int64_t b, int64_t c) noexcept nogil

cdef extern from *:
    """
    static inline kfast_wide kfast_square(int64_t x) { return (kfast_wide) x * x; }
    /* By how many ten-thousandths a load is above so many of a capacity, rounded up. */
    static inline int64_t kfast_excess(int64_t load, int64_t capacity, int64_t basis_points) {
        const kfast_wide limit = (kfast_wide) capacity * basis_points;
        const kfast_wide over = (kfast_wide) load * 10000 - limit;
        const kfast_wide parts = over > 0 ? (over * 10000 + limit - 1) / limit : 0;
        const int64_t most = (int64_t) 1 << 50;
        return parts < most ? (int64_t) parts : most;
    }
    /* Units that a share is counted up to: squares of several add up. */
    #define MOST_SHARE 0x1p59
    """
    wide kfast_square(int64_t x) noexcept nogil
    const double MOST_SHARE
    int64_t kfast_excess(int64_t load, int64_t capacity, int64_t basis_points) noexcept nogil

cdef enum:
    NW_IN, NW_OUT, WORK, DISK, RESOURCES
    MOST_REPLICAS = 16
    MOST_TOUCHED = 4 * MOST_REPLICAS
    LIGHT = 8  # A change costs as much as so small a part of a mean partition, beside its bytes.

cdef enum Movable:
    FIXED, REORDERED, MOVED

cdef enum Kind:
    REORDER = 1
    MOVE = 2
    EXCHANGE = 4


def layout():
    """Numbers that callers need: of resources, replicas and codes."""
    return {
        "resources": <int> RESOURCES, "most_replicas": <int> MOST_REPLICAS,
        "fixed": <int> FIXED, "reordered": <int> REORDERED, "moved": <int> MOVED,
        "reorder": <int> REORDER, "move": <int> MOVE, "exchange": <int> EXCHANGE,
    }


cdef struct Change:
    # The assigned replicas that one partition gets.
    int32_t partition
    int32_t replicas[MOST_REPLICAS]


cdef struct Candidate:
    # One partition or two that change together, and what becomes better by it.
    int n
    Change changes[2]
    int64_t violation
    wide cost
    int64_t moved_bytes


cdef class Placement:
    """A placement, what every broker carries in it after every failure, and a search for better.

    The arrays belong to the caller, who reads the result from `replicas`; see `__init__`.
    """

    cdef const int32_t[:, ::1] original      # (P, S)  broker rows before
    cdef int32_t[:, ::1] replicas            # (P, S)  broker rows now
    cdef const int32_t[::1] n_replicas       # (P,)
    cdef const int64_t[:, ::1] load          # (P, 3)  bytes in, bytes out, bytes of one replica
    cdef const int64_t[:, ::1] replica_bytes  # (P, S)  bytes of each replica before
    cdef const uint8_t[::1] movable          # (P,)    FIXED, REORDERED, MOVED
    cdef const uint8_t[::1] counted          # (P,)    1: its rates are added up here
    cdef const uint8_t[::1] up               # (B,)    1: live
    cdef const uint8_t[::1] receives         # (B,)    1: may get replicas
    cdef const uint8_t[::1] gives            # (B,)    1: may lose replicas
    cdef const int32_t[::1] receivers        # (R,)    brokers that may get replicas
    cdef const int32_t[::1] rack             # (B,)    number of the rack
    cdef const int32_t[::1] least_racks      # (P,)    racks that replicas have to be in
    cdef const int32_t[::1] broker_failure   # (B,)    failure of the broker alone, -1: none
    cdef const int32_t[::1] rack_failure     # (B,)    failure of its rack, -1: none
    cdef const int64_t[::1] most_replicas    # (B,)    replicas that a broker may hold
    cdef const double[:, ::1] slope          # (B, 8)  units by load: normal and failed by resource
    cdef const int64_t[:, ::1] capacity      # (B, 4)  by resource; 0: none
    cdef const int64_t[::1] basis_points     # (4,)    normal limit of each resource
    cdef const int64_t[:, ::1] cpu           # (B, 3)  micro-cores without work, with it; that work
    cdef const int64_t[::1] weights          # (3,)    work of a byte to a leader, of it, to others
    cdef int64_t[:, ::1] base                # (4, B)  loads without a failure
    cdef int64_t[:, :, ::1] delta            # (2, B, D)  bytes out and work more after each
    cdef int64_t[:, ::1] top                 # (2, B)  largest of them
    cdef int64_t[::1] share                  # (B,)    highest share of a limit, in units
    cdef int64_t[::1] violation              # (B,)    over normal limits, in 1/10000 of them
    cdef int32_t[:, ::1] hosted              # (B, H)  partitions of each broker
    cdef int64_t[::1] n_hosted               # (B,)
    cdef int32_t[:, ::1] place               # (P, S)  where each replica stands in `hosted`
    cdef int32_t[::1] over                   # (B,)    brokers above the target, in any order
    cdef int32_t[::1] place_over             # (B,)    where each broker stands there, -1: nowhere
    cdef int64_t[::1] stamp                  # (B,)    the evaluation that touched it last
    cdef uint8_t[:, ::1] stale               # (2, B)  1: `top` has to be found again
    cdef Py_ssize_t n_brokers, n_failures, n_over
    cdef int64_t target, evaluation, moved_bytes
    cdef int64_t handling                    # bytes that a change costs besides those it moves
    cdef uint64_t random
    cdef int n_touched
    cdef int32_t touched[MOST_TOUCHED]
    cdef int64_t share_then[MOST_TOUCHED]
    cdef int64_t violation_then[MOST_TOUCHED]
    cdef int64_t top_then[MOST_TOUCHED][2]

    def __init__(self, problem, arrays, uint64_t seed):
        """Take the arrays of a problem and of a search, and add up what brokers carry.

        `base` and `delta` come with what is not counted here; in `delta` a failure of the broker
        itself has a number that no sum reaches.
        """
        cdef Py_ssize_t p, s, b
        self.original, self.replicas = problem.original, arrays.replicas
        self.n_replicas, self.load = problem.n_replicas, problem.load
        self.replica_bytes, self.movable = problem.replica_bytes, problem.movable
        self.counted, self.up = problem.counted, problem.up
        self.receives, self.gives = problem.receives, problem.gives
        self.receivers, self.rack = problem.receivers, problem.rack
        self.least_racks = problem.least_racks
        self.broker_failure, self.rack_failure = problem.broker_failure, problem.rack_failure
        self.most_replicas, self.slope = problem.most_replicas, problem.slope
        self.capacity, self.basis_points = problem.capacity, problem.basis_points
        self.cpu, self.weights = problem.cpu, problem.weights
        self.base, self.delta, self.top = arrays.base, arrays.delta, arrays.top
        self.share, self.violation = arrays.share, arrays.violation
        self.hosted, self.n_hosted, self.place = arrays.hosted, arrays.n_hosted, arrays.place
        self.over, self.place_over = arrays.over, arrays.place_over
        self.stamp, self.stale = arrays.stamp, arrays.stale
        self.n_brokers, self.n_failures = self.up.shape[0], self.delta.shape[2]
        self.n_over, self.evaluation, self.moved_bytes = 0, 0, 0
        self.random, self.target, self.handling = seed, 0, 0
        with nogil:
            for p in range(self.replicas.shape[0]):
                self.n_touched = 0
                self.evaluation += 1
                self._add(p, &self.replicas[p, 0], 1)
                self.moved_bytes += self._bytes(p, &self.replicas[p, 0])
                self.handling += self.load[p, 2]
                for s in range(self.n_replicas[p]):
                    self._host(p, s)
            self.handling = self.handling // (LIGHT * max(self.replicas.shape[0], 1)) + 1
            self.stale[:, :] = 1
            for b in range(self.n_brokers):
                self._find_tops(b)
                self._measure(b, &self.share[b], &self.violation[b])
                self.place_over[b] = -1
            self._aim(0)

    @property
    def bytes_moved(self):
        """Bytes of replicas on brokers that did not hold them before."""
        return self.moved_bytes

    def search(
        self, int64_t target, int64_t tolerance, int64_t tolerated, int64_t steps, int tries,
        int kinds, int64_t max_bytes,
    ):
        """Change partitions of brokers that use more than a share, until none does.

        Parameters
        ----------
        target : units
        tolerance : units
            By how much, squared, the sum of squared excesses may rise in a step.
        tolerated : how much violations may rise in a step; both 0: every step is better
        steps : how many steps to take at most
        tries : how many changes to evaluate in each step; that which gains most per byte is made
        kinds : which kinds of changes: sum of REORDER, MOVE, EXCHANGE
        max_bytes : bytes that may be moved

        Returns
        -------
        changes made, brokers that are still above the target or over a normal limit, and how often
        a change was given up for the bytes that it moves
        """
        cdef Candidate candidate
        cdef Candidate best
        cdef int64_t made = 0
        cdef int64_t too_large = 0
        cdef int64_t _
        cdef int evaluated
        cdef wide allowed = kfast_square(tolerance)
        with nogil:
            self._aim(target)
            for _ in range(steps):
                if not self.n_over:
                    break
                best.n = 0
                evaluated = 0
                while evaluated < tries:
                    evaluated += 1
                    if not self._draw(&candidate, kinds):
                        continue
                    self._try(&candidate)
                    self._undo(&candidate)
                    if candidate.violation > tolerated or (
                        candidate.violation >= 0 and candidate.cost >= allowed
                    ):
                        continue
                    if self.moved_bytes + candidate.moved_bytes > max_bytes and (
                        candidate.moved_bytes > 0
                    ):
                        too_large += 1
                        continue
                    if not best.n or self._better(&candidate, &best):
                        best = candidate
                if best.n:
                    self._try(&best)
                    self._commit(&best)
                    made += 1
        return made, self.n_over, too_large

    def relieve(self, const int32_t[::1] rows, int64_t target, int64_t max_bytes):
        """Move replicas off brokers that must give up all, or hold more than they may.

        Those on brokers that are down move first. Returns how many stay, and how often one could
        not move for its bytes.
        """
        cdef Candidate best
        cdef Py_ssize_t i, s
        cdef int32_t p
        cdef int is_up
        cdef int64_t stay = 0
        cdef int64_t too_large = 0
        with nogil:
            self._aim(target)
            for i in range(rows.shape[0]):
                p = rows[i]
                for is_up in range(2):
                    for s in range(self.n_replicas[p]):
                        if self.up[self.replicas[p, s]] != is_up or (
                            not self._has_to_give(self.replicas[p, s])
                        ):
                            continue
                        too_large += self._find_receiver(p, s, max_bytes, &best)
                        if best.n:
                            self._try(&best)
                            self._commit(&best)
                        else:
                            stay += 1
        return stay, too_large

    def restore(self, const int32_t[::1] rows, int64_t most):
        """Give partitions their original replicas back where no share then exceeds `most`.

        A broker that does already may stay where it is; violations do not rise. Returns how many
        partitions have their original replicas again.
        """
        cdef Candidate candidate
        cdef Py_ssize_t i, s
        cdef int32_t p
        cdef int t
        cdef int64_t share, violation
        cdef int64_t restored = 0
        cdef bint fits
        with nogil:
            for i in range(rows.shape[0]):
                p = rows[i]
                self._start(&candidate, p)
                fits = True
                for s in range(self.n_replicas[p]):
                    candidate.changes[0].replicas[s] = self.original[p, s]
                    if not self._holds(p, self.original[p, s]) and (
                        not self.receives[self.original[p, s]]
                        or self.n_hosted[self.original[p, s]]
                        >= self.most_replicas[self.original[p, s]]
                    ):
                        fits = False
                if not fits:
                    continue
                self._try(&candidate)
                fits = candidate.violation <= 0
                for t in range(self.n_touched):
                    self._measure(self.touched[t], &share, &violation)
                    fits = fits and (share <= most or share <= self.share_then[t])
                if fits:
                    self._commit(&candidate)
                    restored += 1
                else:
                    self._undo(&candidate)
        return restored

    cdef int64_t _find_receiver(
        self, int32_t p, Py_ssize_t slot, int64_t max_bytes, Candidate* best
    ) noexcept nogil:
        """Find the broker that a replica goes to best; `best.n` is 0 where there is none.

        There violations, then squared excesses over the target, then the share of the receiver are
        least; of equal ones it is the first. Returns how many brokers may not get it for its bytes.
        """
        cdef Candidate candidate
        cdef int32_t to
        cdef int64_t too_large = 0
        cdef int64_t share = 0
        best.n = 0
        for to in self.receivers:
            if not self._fits(p, slot, to):
                continue
            self._start(&candidate, p)
            candidate.changes[0].replicas[slot] = to
            self._try(&candidate)
            self._undo(&candidate)
            if self.moved_bytes + candidate.moved_bytes > max_bytes:
                too_large += 1
            elif not best.n or candidate.violation < best.violation or (
                candidate.violation == best.violation and (
                    candidate.cost < best.cost or (
                        candidate.cost == best.cost and self.share[to] < share
                    )
                )
            ):
                best[0] = candidate
                share = self.share[to]
        return too_large

    # --- candidates ------------------------------------------------------------------------------

    cdef inline int32_t _below(self, Py_ssize_t bound) noexcept nogil:
        """A random number below a bound."""
        self.random += 1
        return below(mix(self.random), <int32_t> bound)

    cdef inline void _start(self, Candidate* candidate, int32_t p) noexcept nogil:
        """One partition that changes; its replicas are as they are now."""
        cdef Py_ssize_t s
        candidate.n = 1
        candidate.changes[0].partition = p
        for s in range(self.n_replicas[p]):
            candidate.changes[0].replicas[s] = self.replicas[p, s]

    cdef inline bint _has_to_give(self, int32_t broker) noexcept nogil:
        """Whether a broker has to give up all its replicas, or has more than it may."""
        return self.gives[broker] and (
            not self.receives[broker] or self.n_hosted[broker] > self.most_replicas[broker]
        )

    cdef inline bint _holds(self, int32_t p, int32_t broker) noexcept nogil:
        cdef Py_ssize_t s
        for s in range(self.n_replicas[p]):
            if self.replicas[p, s] == broker:
                return True
        return False

    cdef inline int _slot_of(self, int32_t p, int32_t broker) noexcept nogil:
        cdef int s = 0
        while self.replicas[p, s] != broker:
            s += 1
        return s

    cdef inline bint _fits(self, int32_t p, Py_ssize_t slot, int32_t to) noexcept nogil:
        """Whether a replica may go to a broker: one that has room, see `_spreads`."""
        if self.n_hosted[to] >= self.most_replicas[to]:
            return False
        return self._spreads(p, slot, to)

    cdef bint _spreads(self, int32_t p, Py_ssize_t slot, int32_t to) noexcept nogil:
        """Whether a replica may go to a broker that has room: no other is there, racks suffice."""
        cdef Py_ssize_t s, t
        cdef int32_t rack
        cdef int n_racks = 0
        cdef bint is_new
        if self._holds(p, to):
            return False
        for s in range(self.n_replicas[p]):
            rack = self.rack[to if s == slot else self.replicas[p, s]]
            is_new = True
            for t in range(s):
                is_new = is_new and self.rack[to if t == slot else self.replicas[p, t]] != rack
            n_racks += is_new
        return n_racks >= self.least_racks[p]

    cdef bint _draw(self, Candidate* candidate, int kinds) noexcept nogil:
        """A random change that relieves a broker above the target; False where none was drawn."""
        cdef int32_t b = self.over[self._below(self.n_over)]
        cdef int32_t rival = self.over[self._below(self.n_over)]
        cdef int32_t p, q, to
        cdef int s, t, kind
        cdef int32_t swapped
        if self.share[rival] > self.share[b]:
            b = rival
        if not self.n_hosted[b]:
            return False
        p = self.hosted[b, self._below(self.n_hosted[b])]
        if self.movable[p] == FIXED:
            return False
        kind = 1 << self._below(3)
        if not kind & kinds:
            return False
        self._start(candidate, p)
        s = self._slot_of(p, b)
        if kind == REORDER:
            return self._reorder(candidate, s)
        if self.movable[p] != MOVED or not self.gives[b] or not self.receivers.shape[0]:
            return False
        to = self._receiver()
        if kind == MOVE:
            if not self._fits(p, s, to):
                return False
            candidate.changes[0].replicas[s] = to
            if self._below(4) == 0:
                self._reorder(candidate, s)
            return True
        if not self.receives[b] or not self.gives[to] or not self.n_hosted[to]:
            return False
        if not self._spreads(p, s, to):
            return False
        q = self.hosted[to, self._below(self.n_hosted[to])]
        if self.movable[q] != MOVED:
            return False
        t = self._slot_of(q, to)
        if not self._spreads(q, t, b):
            return False
        candidate.changes[0].replicas[s] = to
        candidate.n = 2
        candidate.changes[1].partition = q
        for s in range(self.n_replicas[q]):
            swapped = self.replicas[q, s]
            candidate.changes[1].replicas[s] = b if s == t else swapped
        return True

    cdef inline bint _reorder(self, Candidate* candidate, int slot) noexcept nogil:
        """Let a replica change places with another of its partition."""
        cdef int n = self.n_replicas[candidate.changes[0].partition]
        cdef int other
        cdef int32_t* replicas = candidate.changes[0].replicas
        if n < 2:
            return False
        other = (slot + 1 + self._below(n - 1)) % n
        replicas[slot], replicas[other] = replicas[other], replicas[slot]
        return True

    cdef inline int32_t _receiver(self) noexcept nogil:
        """The least used of three brokers that may get replicas."""
        cdef int32_t chosen = self.receivers[self._below(self.receivers.shape[0])]
        cdef int32_t rival
        cdef int _
        for _ in range(2):
            rival = self.receivers[self._below(self.receivers.shape[0])]
            if self.share[rival] < self.share[chosen]:
                chosen = rival
        return chosen

    cdef inline bint _better(self, Candidate* a, Candidate* b) noexcept nogil:
        """Whether a gains more than b: of violations, else of squared excess per byte moved."""
        cdef double gain_a, gain_b
        if a.violation != b.violation:
            return a.violation < b.violation
        if a.cost >= 0 or b.cost >= 0:
            return a.cost < b.cost
        gain_a = -(<double> a.cost) / <double> (max(a.moved_bytes, 0) + self.handling)
        gain_b = -(<double> b.cost) / <double> (max(b.moved_bytes, 0) + self.handling)
        return gain_a > gain_b

    # --- changes ---------------------------------------------------------------------------------

    cdef void _try(self, Candidate* candidate) noexcept nogil:
        """Make a change and measure it: violations, squared excess and bytes that come with it."""
        cdef int i, t
        cdef int32_t p
        cdef int64_t share, violation
        self.n_touched = 0
        self.evaluation += 1
        candidate.violation = 0
        candidate.cost = kfast_square(0)
        candidate.moved_bytes = 0
        for i in range(candidate.n):
            p = candidate.changes[i].partition
            self._add(p, &self.replicas[p, 0], -1)
            self._add(p, candidate.changes[i].replicas, 1)
            candidate.moved_bytes += (
                self._bytes(p, candidate.changes[i].replicas) - self._bytes(p, &self.replicas[p, 0])
            )
        for t in range(self.n_touched):
            self._find_tops(self.touched[t])
            self._measure(self.touched[t], &share, &violation)
            candidate.violation += violation - self.violation_then[t]
            candidate.cost = candidate.cost + kfast_square(max(share - self.target, 0))
            candidate.cost = candidate.cost - kfast_square(
                max(self.share_then[t] - self.target, 0)
            )

    cdef void _undo(self, Candidate* candidate) noexcept nogil:
        """Take back a change that was tried."""
        cdef int i, t, k
        cdef int32_t p
        for i in range(candidate.n):
            p = candidate.changes[i].partition
            self._add(p, candidate.changes[i].replicas, -1)
            self._add(p, &self.replicas[p, 0], 1)
        for t in range(self.n_touched):
            for k in range(2):
                self.top[k, self.touched[t]] = self.top_then[t][k]
                self.stale[k, self.touched[t]] = 0

    cdef void _commit(self, Candidate* candidate) noexcept nogil:
        """Keep a change that was tried."""
        cdef int i, t
        cdef Py_ssize_t s, n
        cdef int32_t p, broker
        cdef int32_t* replicas
        for i in range(candidate.n):
            p = candidate.changes[i].partition
            n = self.n_replicas[p]
            replicas = candidate.changes[i].replicas
            for s in range(n):
                self._leave(p, s)
            for s in range(n):
                self.replicas[p, s] = replicas[s]
                self._host(p, s)
        self.moved_bytes += candidate.moved_bytes
        for t in range(self.n_touched):
            broker = self.touched[t]
            self._measure(broker, &self.share[broker], &self.violation[broker])
            self._list_over(broker)

    cdef inline void _host(self, Py_ssize_t p, Py_ssize_t slot) noexcept nogil:
        """Add a replica to the list of its broker."""
        cdef int32_t broker = self.replicas[p, slot]
        self.place[p, slot] = <int32_t> self.n_hosted[broker]
        self.hosted[broker, self.n_hosted[broker]] = <int32_t> p
        self.n_hosted[broker] += 1

    cdef inline void _leave(self, Py_ssize_t p, Py_ssize_t slot) noexcept nogil:
        """Take a replica out of the list of its broker."""
        cdef int32_t broker = self.replicas[p, slot]
        cdef int32_t at = self.place[p, slot]
        cdef int32_t last
        self.n_hosted[broker] -= 1
        last = self.hosted[broker, self.n_hosted[broker]]
        self.hosted[broker, at] = last
        self.place[last, self._slot_of(last, broker)] = at

    cdef inline int64_t _size(self, Py_ssize_t p, int32_t broker) noexcept nogil:
        """Bytes of a replica: what it had before, or what a new one copies."""
        cdef Py_ssize_t s
        for s in range(self.n_replicas[p]):
            if self.original[p, s] == broker:
                return self.replica_bytes[p, s]
        return self.load[p, 2]

    cdef inline int64_t _bytes(self, Py_ssize_t p, const int32_t* replicas) noexcept nogil:
        """Bytes that are copied for these replicas of a partition."""
        cdef Py_ssize_t s, t
        cdef int64_t total = 0
        cdef bint is_new
        for s in range(self.n_replicas[p]):
            is_new = True
            for t in range(self.n_replicas[p]):
                is_new = is_new and self.original[p, t] != replicas[s]
            total += is_new * self.load[p, 2]
        return total

    # --- sums ------------------------------------------------------------------------------------

    cdef inline void _touch(self, int32_t broker) noexcept nogil:
        """Note a broker as it is before it changes."""
        cdef int k
        if self.stamp[broker] == self.evaluation:
            return
        self.stamp[broker] = self.evaluation
        self.touched[self.n_touched] = broker
        self.share_then[self.n_touched] = self.share[broker]
        self.violation_then[self.n_touched] = self.violation[broker]
        for k in range(2):
            self.top_then[self.n_touched][k] = self.top[k, broker]
        self.n_touched += 1

    cdef void _add(self, Py_ssize_t p, const int32_t* replicas, int sign) noexcept nogil:
        """Add what a partition with these replicas brings to brokers, or take it off (-1)."""
        cdef int32_t live[MOST_REPLICAS]
        cdef int n = 0
        cdef int s, t
        cdef int32_t broker, failure
        cdef bint is_new
        cdef int64_t bytes_in = sign * self.load[p, 0]
        cdef int64_t to_replicas, out
        for s in range(self.n_replicas[p]):
            broker = replicas[s]
            self._touch(broker)
            self.base[DISK, broker] += sign * self._size(p, broker)
            if self.up[broker]:
                live[n] = broker
                n += 1
        if not n or not self.counted[p]:
            return
        to_replicas = bytes_in * (n - 1)
        out = to_replicas + sign * self.load[p, 1]
        self.base[NW_OUT, live[0]] += out
        self.base[WORK, live[0]] += self.weights[0] * bytes_in + self.weights[1] * out
        for s in range(n):
            self.base[NW_IN, live[s]] += bytes_in
            if s:
                self.base[WORK, live[s]] += self.weights[2] * bytes_in
        for s in range(n):
            failure = self.broker_failure[live[s]]
            if failure >= 0:
                self._fail(live, n, <uint64_t> 1 << s, failure, bytes_in, out)
            failure = self.rack_failure[live[s]]
            if failure < 0:
                continue
            is_new = True
            for t in range(s):
                is_new = is_new and self.rack_failure[live[t]] != failure
            if is_new:
                self._fail(live, n, self._failed(live, n, failure), failure, bytes_in, out)

    cdef inline uint64_t _failed(
        self, const int32_t* live, int n, int32_t failure
    ) noexcept nogil:
        """Which of some brokers fail with a rack, a bit for each."""
        cdef uint64_t mask = 0
        cdef int s
        for s in range(n):
            if self.rack_failure[live[s]] == failure:
                mask |= <uint64_t> 1 << s
        return mask

    cdef inline void _fail(
        self, const int32_t* live, int n, uint64_t failed, int32_t failure, int64_t bytes_in,
        int64_t out,
    ) noexcept nogil:
        """Add what changes by a failure of some of a partition's live brokers."""
        cdef int left = 0
        cdef int leader = -1
        cdef int s
        cdef int64_t less
        for s in range(n):
            if not failed >> s & 1:
                left += 1
                if leader < 0:
                    leader = s
        if leader < 0:
            return
        less = bytes_in * (n - left)
        if leader == 0:
            self._change(0, live[0], failure, -less)
            self._change(1, live[0], failure, -self.weights[1] * less)
        else:
            self._change(0, live[leader], failure, out - less)
            self._change(1, live[leader], failure, (
                (self.weights[0] - self.weights[2]) * bytes_in + self.weights[1] * (out - less)
            ))

    cdef inline void _change(
        self, int k, int32_t broker, int32_t failure, int64_t by
    ) noexcept nogil:
        """Change what a broker carries more after a failure."""
        cdef int64_t* cell = &self.delta[k, broker, failure]
        cdef int64_t before = cell[0]
        cell[0] = before + by
        if cell[0] >= self.top[k, broker]:
            self.top[k, broker] = cell[0]
            self.stale[k, broker] = 0
        elif before == self.top[k, broker]:
            self.stale[k, broker] = 1

    cdef inline void _find_tops(self, Py_ssize_t broker) noexcept nogil:
        """Find what a broker carries more after its worst failure, where that is not known."""
        cdef int k
        cdef Py_ssize_t failure
        cdef int64_t top
        cdef int64_t* cells
        for k in range(2):
            if not self.stale[k, broker]:
                continue
            self.stale[k, broker] = 0
            if not self.n_failures:
                continue
            cells = &self.delta[k, broker, 0]
            top = cells[0]
            for failure in range(1, self.n_failures):
                top = max(top, cells[failure])
            self.top[k, broker] = top

    cdef inline void _measure(
        self, Py_ssize_t broker, int64_t* share, int64_t* violation
    ) noexcept nogil:
        """The highest share of a limit that a broker uses, and its violations of normal limits."""
        cdef int64_t highest = 0
        cdef int64_t excess = 0
        cdef int64_t normal, failed
        cdef int r
        for r in range(RESOURCES):
            if not self.capacity[broker, r]:
                continue
            normal = failed = self.base[r, broker]
            if r == NW_OUT:
                failed += self.top[0, broker]
            elif r == WORK:
                failed += self.top[1, broker]
                normal = self._micro_cores(broker, normal)
                failed = self._micro_cores(broker, failed)
            highest = max(highest, max(
                <int64_t> min(<double> normal * self.slope[broker, 2 * r], MOST_SHARE),
                <int64_t> min(<double> failed * self.slope[broker, 2 * r + 1], MOST_SHARE),
            ))
            excess += kfast_excess(normal, self.capacity[broker, r], self.basis_points[r])
        share[0] = highest
        violation[0] = excess

    cdef inline int64_t _micro_cores(self, Py_ssize_t broker, int64_t work) noexcept nogil:
        """What so much work takes of a processor."""
        return self.cpu[broker, 0] + kfast_share(
            self.cpu[broker, 1], max(work, 0), self.cpu[broker, 2]
        )

    cdef void _aim(self, int64_t target) noexcept nogil:
        """List the brokers above a target."""
        cdef Py_ssize_t broker
        self.target = target
        for broker in range(self.n_brokers):
            self._list_over(<int32_t> broker)

    cdef inline void _list_over(self, int32_t broker) noexcept nogil:
        """Put a broker on the list of those above the target, or take it off."""
        cdef bint is_over = self.share[broker] > self.target or self.violation[broker] > 0
        cdef int32_t at = self.place_over[broker]
        if is_over == (at >= 0):
            return
        if is_over:
            self.place_over[broker] = <int32_t> self.n_over
            self.over[self.n_over] = broker
            self.n_over += 1
        else:
            self.n_over -= 1
            self.over[at] = self.over[self.n_over]
            self.place_over[self.over[at]] = at
            self.place_over[broker] = -1
