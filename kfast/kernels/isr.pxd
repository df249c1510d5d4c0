"""Taking one broker out of an ISR, as one function on masks.

Sections are those of docs/controller.md.
"""

from libc.stdint cimport uint64_t

cdef struct Shrunk:
    bint write
    bint leaderless
    uint64_t isr


cdef inline Shrunk shrink_one(
    uint64_t member, uint64_t isr, bint leads, bint may_empty
) noexcept nogil:
    """What becomes of a record when the broker of one slot leaves its ISR.

    The last member stays, but with `may_empty`. Where the broker leads, nobody does afterwards:
    choosing a new leader is the partition machine's work.

    Source: sections 2.6 and 8.1; Kafka 3.9,
    `ReplicaStateMachine.doRemoveReplicasFromIsr`.
    """
    cdef Shrunk shrunk
    shrunk.write = (isr & member) != 0
    shrunk.leaderless = shrunk.write and leads
    shrunk.isr = isr & ~member if may_empty or isr & ~member else isr
    return shrunk
