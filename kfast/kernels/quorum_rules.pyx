"""What the kernels of KRaft are told of the release, the features and the configuration.

Source: docs/kraft.md, sections 1.4, 1.5 and 11.
"""

from libc.stdint cimport int32_t, uint8_t


cdef class QuorumRules:
    """Rules of one release with some features and configurations.

    The arrays are held by address: whoever replaces one makes new rules.

    Parameters
    ----------
    completion : int
        `Completion`: which replicas must be in the ISR at the end of a reassignment.
    elr_on : bool
        `eligible.leader.replicas.version` is 1.
    knows_leader_of_empty_isr : bool
        4.0: the last known leader is written when the ISR empties, not when the leader is lost.
    last_known_must_be_acceptable : bool
        From 4.1.
    bumps_on_shrink : bool
        A smaller ISR raises the leader epoch.
    bumps_by_target : bool
        Before 3.8: also one that is not recorded.
    recovery_supported, directories_on : bool
        Gates of the metadata version.
    min_insync : (T,) int32
        Effective min.insync.replicas of each topic.
    first_partition : (T,) int32
        Row of each topic's partition 0, -1 for none.
    unclean : (T,) uint8 or bool, optional
        Whether each topic allows unclean election. None: no topic does, as in releases that do
        not look at the configuration.
    directory_begin, directories : (B + 1,) and (m,) int32, optional
        Numbers of the directories that each broker's registration lists. None: none lists any.

    Raises
    ------
    ValueError
        Types or lengths disagree.
    """

    def __init__(
        self, *, int completion, bint elr_on, bint knows_leader_of_empty_isr,
        bint last_known_must_be_acceptable, bint bumps_on_shrink, bint bumps_by_target,
        bint recovery_supported, bint directories_on, min_insync, first_partition, unclean=None,
        directory_begin=None, directories=None,
    ):
        cdef const int32_t[::1] needed = min_insync
        cdef const int32_t[::1] first = first_partition
        cdef const uint8_t[::1] allowed
        cdef const int32_t[::1] begin, listed
        self.values.completion = completion
        self.values.elr_on = elr_on
        self.values.knows_leader_of_empty_isr = knows_leader_of_empty_isr
        self.values.last_known_must_be_acceptable = last_known_must_be_acceptable
        self.values.bumps_on_shrink = bumps_on_shrink
        self.values.bumps_by_target = bumps_by_target
        self.values.recovery_supported = recovery_supported
        self.values.directories_on = directories_on
        self.values.n_topics = needed.shape[0]
        if first.shape[0] != needed.shape[0]:
            raise ValueError("min_insync and first_partition differ in length")
        if needed.shape[0]:
            self.values.min_insync = &needed[0]
            self.values.first_partition = &first[0]
            self.values.most_insync = min_insync.max()
            self.values.least_insync = min_insync.min()
        if unclean is not None:
            allowed = unclean.view("uint8")
            if allowed.shape[0] != needed.shape[0]:
                raise ValueError("min_insync and unclean differ in length")
            self.values.unclean = &allowed[0] if allowed.shape[0] else NULL
        if directories is not None:
            begin = directory_begin
            listed = directories
            self.values.directory_begin = &begin[0] if begin.shape[0] else NULL
            self.values.directories = &listed[0] if listed.shape[0] else NULL
        self.arrays = (min_insync, first_partition, unclean, directory_begin, directories)
