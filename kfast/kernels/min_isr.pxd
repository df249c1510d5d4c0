"""Min ISR in force, and what it means to be under it.

Source: docs/controller.md, section 1.5; Kafka 3.9, `Partition.isUnderMinIsr`.
"""

from libc.stdint cimport int32_t


cdef inline int32_t needed_in_sync(int32_t min_isr, int32_t n_replicas) noexcept nogil:
    """Members that an ISR needs: min.insync.replicas, at most the assigned replicas."""
    return min(min_isr, n_replicas)


cdef inline bint is_under_min_isr(int32_t in_sync, int32_t needed) noexcept nogil:
    """Whether so many live members of an ISR are too few."""
    return in_sync < needed
