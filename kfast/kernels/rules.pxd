"""What kernels are told of the version that is simulated, and of the state besides its columns."""

from libc.stdint cimport uint32_t

# The masks are indexed by the target state: bit f set, it may be entered from state f.
cdef struct RuleSet:
    uint32_t partition_previous[4]
    uint32_t replica_previous[8]
    int offline_strategy
    int preferred_strategy
    int shutdown_strategy
    int without_leadership
    bint empties_unclean
    bint offlines_dead
    bint rebalances_in_isr
    bint has_alter_partition
    int controller_epoch
    bint recovery_supported
    bint any_queued
    bint counting
    bint asks_store


cdef class Rules:
    cdef RuleSet values
