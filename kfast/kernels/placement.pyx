"""Put new partitions on brokers: Kafka's own rule, a uniform draw, and a ring.

Kafka goes round the brokers: partition p of a topic gets its first replica `start + p` brokers
along, and its others from there on, at a distance that grows by 1 each time the topic has gone
round once. With racks, the round alternates between them, and a broker is passed over while its
rack has a replica of the partition and another rack has none. Everything follows from a topic's
start and shift and the partition's number, so that rows are independent.

Source: Kafka 3.9, AdminUtils.java, `assignReplicasToBrokersRackAware` and
`assignReplicasToBrokersRackUnaware`, `replicaIndex`.
"""

from cython.parallel cimport prange

from kfast.kernels.splitmix cimport below, draw
from kfast.kernels.slots cimport broker_t, int32_t, int64_t, uint64_t

cdef enum:
    MAX_REPLICAS = 64


cdef inline bint holds(const int32_t* taken, int n, int32_t value) noexcept nogil:
    cdef int s
    for s in range(n):
        if taken[s] == value:
            return True
    return False


cdef inline void place_one(
    int64_t partition, int64_t start, int64_t shift, const int32_t[::1] circle,
    const int32_t[::1] rack, int n_racks, int n_replicas, broker_t* replicas,
) noexcept nogil:
    """Kafka's rule for one partition; one rack stands for none, which comes to the same."""
    cdef int32_t places[MAX_REPLICAS]
    cdef int32_t racks[MAX_REPLICAS]
    cdef int64_t n = circle.shape[0]
    cdef int64_t first = (partition + start) % n
    cdef int64_t step = 0
    cdef int64_t place
    cdef int n_racks_taken = 1
    cdef int s = 1
    places[0] = <int32_t> first
    racks[0] = rack[first]
    replicas[0] = <broker_t> circle[first]
    if n_replicas > 1:
        step = (shift + partition // n) * n_racks % (n - 1)
    while s < n_replicas:
        place = first + 1 + step
        if place >= n:
            place -= n
        step = step + 1 if step + 2 < n else 0
        if n_racks_taken < n_racks:
            if holds(racks, s, rack[place]):
                continue
            n_racks_taken += 1
        elif holds(places, s, <int32_t> place):
            continue
        places[s] = <int32_t> place
        racks[s] = rack[place]
        replicas[s] = <broker_t> circle[place]
        s += 1


cdef inline void draw_one(
    uint64_t seed, uint64_t stream, int32_t n_brokers, int n_replicas, broker_t* replicas
) noexcept nogil:
    """Draw brokers until there are enough different ones."""
    cdef int32_t taken[MAX_REPLICAS]
    cdef uint64_t i = 0
    cdef int s = 0
    while s < n_replicas:
        taken[s] = below(draw(seed, stream, i), n_brokers)
        i += 1
        if not holds(taken, s, taken[s]):
            replicas[s] = <broker_t> taken[s]
            s += 1


def random_below(
    uint64_t seed,
    uint64_t stream,        # streams of one seed have nothing to do with each other
    int32_t bound,          # > 0
    uint64_t first,         # place in the stream of the first number
    int32_t[::1] numbers,   # OUT  (n,)  each in 0..bound-1
):
    """Random numbers: the same for the same seed, stream and place, on every machine."""
    cdef Py_ssize_t i
    for i in range(numbers.shape[0]):
        numbers[i] = below(draw(seed, stream, first + <uint64_t> i), bound)


def number_partitions(
    const int64_t[::1] topic_start,   # IN   (T+1,)  first row of each topic, then the end of all
    int64_t first,                    # row that is listed first; P rows are
    int32_t[::1] topic_row,           # OUT  (P,)    which of these topics the partition is of
    int32_t[::1] partition,           # OUT  (P,)    0, 1, 2, ... within each topic
    int threads,
):
    """Lay out topics one after the other, as far as they lie in a range of rows."""
    cdef Py_ssize_t topic, row
    cdef int64_t stop = first + partition.shape[0]
    for topic in prange(
        topic_start.shape[0] - 1, nogil=True, schedule="static", num_threads=threads
    ):
        for row in range(max(topic_start[topic], first), min(topic_start[topic + 1], stop)):
            topic_row[row - first] = <int32_t> topic
            partition[row - first] = <int32_t> (row - topic_start[topic])


def place_kafka(
    const int32_t[::1] topic_row,   # IN   (P,)    row of the partition's topic
    const int32_t[::1] partition,   # IN   (P,)    its number within the topic
    const int32_t[::1] start,       # IN   (T,)    where in the circle a topic's partition 0 is
    const int32_t[::1] shift,       # IN   (T,)    how far from the first its second replica is
    const int32_t[::1] circle,      # IN   (B,)    broker rows, racks alternating
    const int32_t[::1] rack,        # IN   (B,)    rack number of each of them; all 0 for no racks
    int n_racks,                    # how many different ones, at least 1
    broker_t[:, ::1] replicas,      # OUT  (P, S)  broker rows, S at most 64 and at most B
    int threads,
):
    """Kafka's own assignment of new topics."""
    cdef Py_ssize_t i
    cdef int n_replicas = <int> replicas.shape[1]
    for i in prange(replicas.shape[0], nogil=True, schedule="static", num_threads=threads):
        place_one(
            partition[i], start[topic_row[i]], shift[topic_row[i]], circle, rack, n_racks,
            n_replicas, &replicas[i, 0],
        )


def place_uniform(
    uint64_t seed,
    uint64_t stream,             # row i draws from stream + i
    int32_t n_brokers,
    broker_t[:, ::1] replicas,   # OUT  (P, S)  broker rows, S at most 64 and at most n_brokers
    int threads,
):
    """Every list of different brokers is equally likely for every partition."""
    cdef Py_ssize_t i
    cdef int n_replicas = <int> replicas.shape[1]
    for i in prange(replicas.shape[0], nogil=True, schedule="static", num_threads=threads):
        draw_one(seed, stream + <uint64_t> i, n_brokers, n_replicas, &replicas[i, 0])


def place_ring(
    int32_t n_brokers,
    int64_t first,               # row that is placed first
    broker_t[:, ::1] replicas,   # OUT  (P, S)  broker rows
    int threads,
):
    """Row i is on the brokers i, i+1, ..., counted round the ring."""
    cdef Py_ssize_t i
    cdef int s
    for i in prange(replicas.shape[0], nogil=True, schedule="static", num_threads=threads):
        for s in range(<int> replicas.shape[1]):
            replicas[i, s] = <broker_t> ((first + i + s) % n_brokers)
