"""When flows end that share ports max-min fairly.

All flows grow together until a port is full, or a flow is at its own limit; those that this
concerns keep their rate, the others go on growing. When a flow ends, what it used is shared anew.
Times are in float64, computed in one order.

Source: docs/capacity.md, section "Restoration"; Bertsekas and Gallager, "Data Networks", 1992.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t

import numpy as np

cdef double NEARLY = 1 + 2.0**-40   # flows that end so close together end at once


cdef struct heap_t:
    double* time
    int64_t* flow
    Py_ssize_t n


cdef void push(heap_t* heap, double time, int64_t flow) noexcept nogil:
    cdef Py_ssize_t at = heap.n
    cdef Py_ssize_t above
    heap.n += 1
    while at:
        above = (at - 1) >> 1
        if heap.time[above] <= time:
            break
        heap.time[at], heap.flow[at] = heap.time[above], heap.flow[above]
        at = above
    heap.time[at], heap.flow[at] = time, flow


cdef int64_t pop(heap_t* heap) noexcept nogil:
    """Take out the flow with the least time."""
    cdef int64_t first = heap.flow[0]
    cdef double time
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t below
    heap.n -= 1
    time = heap.time[heap.n]
    while 2 * at + 1 < heap.n:
        below = 2 * at + 1
        if below + 1 < heap.n and heap.time[below + 1] < heap.time[below]:
            below += 1
        if heap.time[below] >= time:
            break
        heap.time[at], heap.flow[at] = heap.time[below], heap.flow[below]
        at = below
    heap.time[at], heap.flow[at] = time, heap.flow[heap.n]
    return first


def share_one_port(
    const double[::1] volume,           # IN   (n,)  bytes of each flow, above 0
    const double[::1] cap,              # IN   (n,)  bytes a second that a flow may have, above 0
    double rate,                        # IN         bytes a second of the port, above 0
    const int64_t[::1] by_volume,       # IN   (n,)  flows, ascending
    const int64_t[::1] by_cap,          # IN   (n,)
    double amount,                      # IN         bytes, at most all of them
    double[::1] end,                    # OUT  (n,)  seconds until each flow ends
):
    """Share one port among flows; return the seconds until so many bytes are through.

    Flows below their cap all have one rate, which never falls. So each reaches its cap once, and
    then its end is known: every flow is visited twice.
    """
    cdef Py_ssize_t n = volume.shape[0]
    cdef double[::1] heap_time = np.empty(n + 1)
    cdef int64_t[::1] heap_flow = np.empty(n + 1, np.int64)
    cdef uint8_t[::1] below = np.ones(n + 1, np.uint8)
    cdef heap_t heap = heap_t(&heap_time[0], &heap_flow[0], 0)
    cdef Py_ssize_t next_volume = 0
    cdef Py_ssize_t next_cap = 0
    cdef Py_ssize_t n_below = n
    cdef int64_t flow
    cdef double now = 0, capped = 0, service = 0, sent = 0, reached = -1, level = 0
    cdef double until, total
    with nogil:
        while n_below or heap.n:
            while n_below:
                level = max(level, (rate - capped) / n_below)
                while not below[by_cap[next_cap]]:
                    next_cap += 1
                flow = by_cap[next_cap]
                if cap[flow] > level:
                    break
                below[flow] = False
                n_below -= 1
                capped += cap[flow]
                push(&heap, now + (volume[flow] - service) / cap[flow], flow)
            until = heap.time[0] if heap.n else INFINITY
            flow = -1
            if n_below:
                while not below[by_volume[next_volume]]:
                    next_volume += 1
                if now + (volume[by_volume[next_volume]] - service) / level <= until:
                    flow = by_volume[next_volume]
                    until = now + (volume[flow] - service) / level
            total = capped + n_below * level
            if reached < 0 and sent + total * (until - now) >= amount:
                reached = now + (amount - sent) / total
            sent += total * (until - now)
            if flow >= 0:
                below[flow] = False
                n_below -= 1
                service = volume[flow]
            else:
                flow = pop(&heap)
                capped -= cap[flow]
                service += level * (until - now) if n_below else 0
            now = until
            end[flow] = now
    return reached if reached >= 0 else now


# Flows between ports, while they are shared.
cdef struct shared_t:
    Py_ssize_t n                  # flows that have not ended
    Py_ssize_t n_ports
    int64_t* active               # (n,)  those flows
    int64_t* waiting              # (n,)  those of them whose rate is not yet known
    const int32_t* port           # (n, 2)
    const double* cap             # (n,)
    const double* port_rate       # (p,)
    double* rate                  # (n,)
    double* left                  # (p,)  what a port has for flows whose rate is not yet known
    int64_t* count                # (p,)  how many those are


cdef void settle(shared_t* shared, int64_t flow, double rate) noexcept nogil:
    """Give a flow its rate."""
    cdef int side
    cdef int32_t port
    shared.rate[flow] = rate
    for side in range(2):
        port = shared.port[2 * flow + side]
        shared.left[port] -= rate
        shared.count[port] -= 1


cdef void fill(shared_t* shared) noexcept nogil:
    """Rates of all flows that have not ended, max-min fairly."""
    cdef Py_ssize_t port, i, still, n = shared.n
    cdef int64_t flow
    cdef double level = 0, least_cap = INFINITY, least
    for port in range(shared.n_ports):
        shared.left[port] = shared.port_rate[port]
        shared.count[port] = 0
    for i in range(n):
        flow = shared.waiting[i] = shared.active[i]
        shared.count[shared.port[2 * flow]] += 1
        shared.count[shared.port[2 * flow + 1]] += 1
        least_cap = min(least_cap, shared.cap[flow])
    while n:
        least = least_cap
        for port in range(shared.n_ports):
            if shared.count[port]:
                least = min(least, shared.left[port] / shared.count[port])
        level = max(level, least)
        least_cap = INFINITY
        still = 0
        for i in range(n):
            flow = shared.waiting[i]
            if is_full(shared, flow, level):
                settle(shared, flow, level)
            else:
                least_cap = min(least_cap, shared.cap[flow])
                shared.waiting[still] = flow
                still += 1
        n = still


cdef inline bint is_full(const shared_t* shared, int64_t flow, double level) noexcept nogil:
    """Whether a flow cannot grow beyond a level that all others on its ports have too."""
    cdef int32_t first = shared.port[2 * flow], second = shared.port[2 * flow + 1]
    level *= NEARLY
    return (
        shared.cap[flow] <= level
        or shared.left[first] <= level * shared.count[first]
        or shared.left[second] <= level * shared.count[second]
    )


def share_ports(
    const double[::1] volume,           # IN   (n,)   bytes of each flow, above 0
    const double[::1] cap,              # IN   (n,)   bytes a second that a flow may have, above 0
    const int32_t[:, ::1] port,         # IN   (n, 2) the two ports of each flow
    const double[::1] port_rate,        # IN   (p,)   bytes a second of each port, above 0
    double amount,                      # IN          bytes, at most all of them
    double[::1] end,                    # OUT  (n,)   seconds until each flow ends
):
    """Share ports among flows, anew after each end; return the seconds until so many bytes."""
    cdef Py_ssize_t n = volume.shape[0], n_ports = port_rate.shape[0]
    cdef double[::1] rest = np.array(volume)
    cdef int64_t[::1] active = np.arange(n)
    cdef int64_t[::1] waiting = np.empty(n, np.int64)
    cdef double[::1] rate = np.empty(n)
    cdef double[::1] left = np.empty(n_ports)
    cdef int64_t[::1] count = np.empty(n_ports, np.int64)
    cdef shared_t shared
    cdef Py_ssize_t i, still
    cdef int64_t flow
    cdef double now = 0, sent = 0, reached = -1
    cdef double step, total
    if not n:
        return 0.0
    shared = shared_t(
        n, n_ports, &active[0], &waiting[0], &port[0, 0], &cap[0], &port_rate[0], &rate[0],
        &left[0], &count[0],
    )
    with nogil:
        while shared.n:
            fill(&shared)
            step, total = INFINITY, 0
            for i in range(shared.n):
                flow = active[i]
                step = min(step, rest[flow] / rate[flow])
                total += rate[flow]
            if reached < 0 and sent + total * step >= amount:
                reached = now + (amount - sent) / total
            sent += total * step
            now += step
            still = 0
            for i in range(shared.n):
                flow = active[i]
                if rest[flow] <= rate[flow] * step * NEARLY:
                    end[flow] = now
                else:
                    rest[flow] -= rate[flow] * step
                    active[still] = flow
                    still += 1
            shared.n = still
    return reached if reached >= 0 else now
