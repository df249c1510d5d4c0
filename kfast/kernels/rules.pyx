"""What kernels are told of the version that is simulated, and of the state besides its columns.

`Profile.rules` makes them; the switches have the names of `Profile`, some of them shortened.
"""


cdef class Rules:
    """Rules of one version.

    Parameters
    ----------
    partition_previous, replica_previous : sequence of int
        Per target state a mask: bit f set, it may be entered from state f.
    strategies : sequence of int
        `Profile.kernel_strategy` of the elections after a failure, of the preferred replica, and
        in a controlled shutdown.
    without_leadership : int
        `profiles.WithoutLeadership`.
    switches : sequence of bool
        `empties_unclean_isr`, `offlines_dead_at_startup`, `rebalances_in_isr`,
        `has_alter_partition`.
    """

    def __init__(
        self, partition_previous, replica_previous, strategies, int without_leadership, switches
    ):
        cdef int i
        for i in range(4):
            self.values.partition_previous[i] = partition_previous[i]
        for i in range(8):
            self.values.replica_previous[i] = replica_previous[i]
        (self.values.offline_strategy, self.values.preferred_strategy,
         self.values.shutdown_strategy) = strategies
        self.values.without_leadership = without_leadership
        (self.values.empties_unclean, self.values.offlines_dead, self.values.rebalances_in_isr,
         self.values.has_alter_partition) = switches

    def of_state(
        self, int controller_epoch, bint recovery_supported, bint any_queued, bint counting,
        bint asks_store=False
    ):
        """The same rules for a state as it is now.

        Parameters
        ----------
        controller_epoch : int
        recovery_supported : bool
            An unclean leader starts in recovery.
        any_queued : bool
            Some topic is queued for deletion: kernels look at `topic_flags`.
        counting : bool
            Kernels fill all of a tally, not only the counters.
        asks_store : bool
            A store decides what becomes of an ISR.
        """
        cdef Rules rules = Rules.__new__(Rules)
        rules.values = self.values
        rules.values.controller_epoch = controller_epoch
        rules.values.recovery_supported = recovery_supported
        rules.values.any_queued = any_queued
        rules.values.counting = counting
        rules.values.asks_store = asks_store
        return rules
