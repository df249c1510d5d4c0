"""What the kernels of KRaft are told of the release, the features and the configuration.

Source: docs/kraft.md, sections 1.4, 1.5 and 11.
"""

from libc.stdint cimport int32_t, uint8_t

# When a reassignment is complete: section 4.
cdef enum:
    COMPLETE_ADDING = 0
    COMPLETE_REMAINING = 1
    COMPLETE_BALANCED = 2

cdef struct QuorumRuleSet:
    int completion
    bint elr_on
    bint knows_leader_of_empty_isr   # `last_known_elr` is written with an ISR that empties
    bint last_known_must_be_acceptable
    bint bumps_on_shrink
    bint bumps_by_target             # the shrink is seen in the target ISR, recorded or not
    bint recovery_supported
    bint directories_on
    const uint8_t* unclean           # (T,)    unclean election is allowed; NULL: for no topic
    const int32_t* min_insync        # (T,)    effective min.insync.replicas
    int32_t most_insync              # the highest of them
    int32_t least_insync
    const int32_t* first_partition   # (T,)    row of partition 0; -1: there is none
    Py_ssize_t n_topics
    const int32_t* directory_begin   # (B+1,)  where each broker's directories begin
    const int32_t* directories       # (m,)    directories of the registrations, by number


cdef class QuorumRules:
    cdef QuorumRuleSet values
    cdef tuple arrays
