"""Profiles: how the controllers of older Kafka versions differ, as data.

A profile is two tables of legal transitions and a handful of named switches. Each switch is read
once, before a loop or a step begins, so a profile is no second implementation. The field comments
say since which version Kafka does so.

Source: docs/controller.md, section 8.1; Kafka 0.10.2, 1.0, 1.1, 2.0, 2.4 and 3.9,
`KafkaController`, `ReplicaStateMachine`, `PartitionStateMachine`, `ControllerChannelManager` and
`TopicDeletionManager`; sections 2.1 and 3.1; `PartitionState.validPreviousStates` and
`ReplicaState.validPreviousStates`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from kfast.arguments import shown
from kfast.controllers.zk.broker_groups import GroupOrder
from kfast.errors import ArgumentError
from kfast.journal import JournalRules
from kfast.kernels.rules import Rules
from kfast.schema import CONTROLLERS, Code, PartitionState, ReplicaState, Strategy
from kfast.schema import PartitionState as P
from kfast.schema import ReplicaState as R
from kfast.state import ClusterState

DEFAULT_PROFILE = "zk-3.9"
UNSUPPORTED = "UNSUPPORTED_VERSION"
"""Kafka's answer to a request that this version does not know."""


PARTITION_PREVIOUS: Mapping[P, frozenset[P]] = {
    P.NEW: frozenset({P.NON_EXISTENT}),
    P.ONLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.OFFLINE: frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.NON_EXISTENT: frozenset({P.OFFLINE}),
}
"""Target state of a partition: the states it may be entered from."""

REPLICA_PREVIOUS: Mapping[R, frozenset[R]] = {
    R.NEW: frozenset({R.NON_EXISTENT}),
    R.ONLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.OFFLINE: frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.DELETION_STARTED: frozenset({R.OFFLINE}),
    R.DELETION_SUCCESSFUL: frozenset({R.DELETION_STARTED}),
    R.DELETION_INELIGIBLE: frozenset({R.OFFLINE, R.DELETION_STARTED}),
    R.NON_EXISTENT: frozenset({R.DELETION_SUCCESSFUL}),
}
"""Target state of a replica: the states it may be entered from."""

REPLICA_PREVIOUS_BEFORE_2_3: Mapping[R, frozenset[R]] = {
    **REPLICA_PREVIOUS, R.DELETION_INELIGIBLE: frozenset({R.DELETION_STARTED}),
}
"""The same before Kafka 2.3: a replica that is only Offline cannot become ineligible."""


@functools.cache
def previous_mask(previous: frozenset[P] | frozenset[R]) -> int:
    """Bit f set for every state f that the target may be entered from."""
    mask = 0
    for state in previous:
        mask |= 1 << int(state)
    return mask


class WithoutLeadership(IntEnum):
    """What becomes of a replica that goes Offline while its partition has no cached leadership."""

    MOVED = 0
    """It is Offline, and every broker is told (since 2.3)."""
    SKIPPED = 1
    """It stays as it was, and nothing is logged (Kafka 1.1 to 2.2)."""
    REFUSED = 2
    """It stays as it was: an error, unless its topic is to be deleted (before 1.1)."""


_NO_STRATEGY = -1
_SHUTDOWN_AMONG_LIVE, _WRITE_BACK, _PREFERRED_IF_NEEDED = 5, 6, 7
"""Elections that only older versions have; `kernels/election.pxd` has the same numbers."""


@dataclass(frozen=True, eq=False)
class Profile:
    """One version of the controller. Every switch is off in some version and on in another."""

    name: str
    title: str
    partition_previous: Mapping[PartitionState, frozenset[PartitionState]]
    """Target state: the states that a partition may enter it from."""
    replica_previous: Mapping[ReplicaState, frozenset[ReplicaState]]
    """Target state: the states that a replica may enter it from (Ineligible from Offline: 2.3)."""

    # --- the machines ----------------------------------------------------------------------------

    batch_per_partition: bool = False
    """Replicas and partitions go one by one, each with store calls of its own (before 1.1)."""
    group_order: GroupOrder = GroupOrder.SCALA_2_13
    """Order of the broker groups of one call: that of the Scala with which Kafka is usually built
    (2.13 since 2.6). Before 1.1 there are no groups; replicas of a partition go by ascending id."""
    offlines_dead_at_startup: bool = True
    """At failover, replicas that are not online become Offline (since 2.3)."""
    without_leadership: WithoutLeadership = WithoutLeadership.MOVED
    """What -> OfflineReplica does where no leadership is cached (it changed in 1.1 and in 2.3)."""
    new_replica_reads_store: bool = False
    """-> NewReplica asks the store for the leader, not the cache (before 1.1)."""
    empties_unclean_isr: bool = False
    """The last ISR member leaves where unclean election is allowed (before 1.1)."""
    caches_lost_writes: bool = False
    """A shrink that lost the version race is cached with version -1, then retried (before 1.1)."""
    logs_real_targets: bool = False
    """Failures are logged with the target that was asked for, always (before 1.1)."""

    # --- elections -------------------------------------------------------------------------------

    skips_leading_preferred: bool = False
    """A preferred replica that leads is put Online without an election (before 1.1)."""
    writes_back_without_strategy: bool = False
    """No strategy: the record is written back as it is (before 1.1); since then it is an error."""
    retries_every_election: bool = False
    """After any conflict all partitions of the call are elected again (Kafka 1.1 to 2.3)."""
    undecodable_fails_call: bool = False
    """A record that cannot be decoded fails the whole call (Kafka 1.1 to 2.3)."""
    shutdown_among_live: bool = False
    """Brokers in controlled shutdown are not told of the elections it causes (Kafka 1.1 to 2.0)."""
    marks_recovery: bool = True
    """An unclean leader starts in recovery (since 3.2)."""
    guards_writes: bool = True
    """The store refuses writes of a controller that has been replaced (since 2.1)."""

    # --- requests --------------------------------------------------------------------------------

    marks_new_replicas: bool = True
    """LeaderAndIsr says whether a replica is new (since 1.0)."""
    empty_metadata_is_all: bool = False
    """UpdateMetadata without partitions means all that have leadership (before 2.2)."""
    metadata_has_deleted: bool = False
    """UpdateMetadata always names the partitions that are to be deleted (before 2.0)."""
    tells_starting_apart: bool = True
    """The new brokers alone are told of all leaders, the others of the new brokers (since 2.2)."""
    tells_starting_of_queued: bool = False
    """What new brokers are told includes topics queued for deletion (before 2.7)."""
    offlines_only_of_failed: bool = False
    """After a failure the partitions led by the brokers that died become Offline (before 1.0);
    since, all whose leader is not online."""
    announces_unless_elected: bool = True
    """After a failure brokers are announced unless somebody was elected (since 3.1); before,
    unless some partition had lost its leader."""

    # --- events ----------------------------------------------------------------------------------

    has_log_dirs: bool = True
    """A broker may lose one log directory and go on (since 1.0)."""
    has_broker_epochs: bool = True
    """Requests are checked for the broker's epoch, and bounced brokers are noticed (since 2.2)."""
    shutdown_skips_queued: bool = True
    """Controlled shutdown leaves topics queued for deletion alone (since 2.1)."""
    has_admin_elections: bool = True
    """Elections may be asked for by API, unclean ones too (since 2.4)."""
    filters_elections: bool = True
    """Elections on demand leave out partitions that need none (since 2.2)."""
    rebalances_in_isr: bool = True
    """Automatic rebalancing leaves out preferred replicas that are not in the ISR (since 2.6)."""
    rebalances_while_reassigning: bool = True
    """Automatic rebalancing goes on beside reassignments (since 2.6)."""
    has_alter_partition: bool = True
    """Leaders ask the controller to change ISRs (since 2.7); before, they write them themselves."""
    requires_live_isr: bool = True
    """The ISR that a leader asks for may name live brokers only (since 3.3)."""

    # --- reassignment and deletion ---------------------------------------------------------------

    cancels_reassignments: bool = True
    """Reassignments have an API and may be cancelled or replaced, and assignments say what is added
    and removed (since 2.4); before, a node and the controller's memory do, and when a reassignment
    completes all its targets become Online."""
    epoch_bump_separates_added: bool = True
    """The epoch bump tells origin and added replicas apart, the latter as new (since 2.7)."""
    epoch_bump_is_cached: bool = True
    """The record with the bumped epoch is cached at once (since 2.4); before, the cache keeps the
    old one until it is next read or written."""
    deletes_partitions_at_start: bool = True
    """Partitions become NonExistent when their deletion starts, not when it ends (since 2.1)."""
    batches_deletions: bool = True
    """Deletions resume for all topics together, not topic by topic (since 2.5)."""

    def kernel_strategy(self, strategy: Strategy | None) -> int:
        """Number by which the kernels know an election in this version; -1 for none."""
        if strategy is None:
            return _WRITE_BACK if self.writes_back_without_strategy else _NO_STRATEGY
        if strategy is Strategy.PREFERRED_REPLICA and self.skips_leading_preferred:
            return _PREFERRED_IF_NEEDED
        if strategy is Strategy.CONTROLLED_SHUTDOWN and self.shutdown_among_live:
            return _SHUTDOWN_AMONG_LIVE
        if strategy.allows_unclean and not self.has_admin_elections:
            raise ArgumentError(
                f"strategy {strategy.name} is unknown to {self.name}: only the topic's "
                "configuration allows an unclean leader there; nothing was changed"
            )
        return int(strategy)

    def rules(self, state: ClusterState, *, counting: bool, asks_store: bool = False) -> Rules:
        """What kernels are told of this version, and of a state as it is now."""
        return self._rules.of_state(
            state.controller_epoch, state.leader_recovery_supported and self.marks_recovery,
            state.any_queued, counting, asks_store,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_rules"}

    @functools.cached_property
    def _rules(self) -> Rules:
        elections = (Strategy.OFFLINE, Strategy.PREFERRED_REPLICA, Strategy.CONTROLLED_SHUTDOWN)
        return Rules(
            [previous_mask(self.partition_previous.get(PartitionState(to), frozenset()))
             for to in range(4)],
            [previous_mask(self.replica_previous.get(ReplicaState(to), frozenset()))
             for to in range(8)],
            [self.kernel_strategy(strategy) for strategy in elections],
            self.without_leadership,
            (self.empties_unclean_isr, self.offlines_dead_at_startup, self.rebalances_in_isr,
             self.has_alter_partition),
        )

    def error_of(self, code: Code, strategy: Strategy | None) -> str | None:
        """Class of the error that this version logs for a code; None where it logs none."""
        if self.batch_per_partition and code is Code.NODE_EXISTS:
            return "StateChangeFailed"
        among = (Strategy.OFFLINE, Strategy.REASSIGN)
        if self.batch_per_partition and code is Code.NO_ELIGIBLE_LEADER and strategy in among:
            return "NoReplicaOnline"
        return code.error

    @property
    def journal_rules(self) -> JournalRules:
        """What the journal must know of this version."""
        return JournalRules(
            self.marks_new_replicas, self.metadata_has_deleted, self.empty_metadata_is_all,
            self.logs_real_targets, self.error_of,
        )


ZK_3_9 = Profile(
    "zk-3.9", "Kafka 3.9, ZooKeeper mode", PARTITION_PREVIOUS, REPLICA_PREVIOUS
)

ZK_2_4 = replace(
    ZK_3_9,
    name="zk-2.4",
    title="Kafka 2.4",
    group_order=GroupOrder.SCALA_2_12,
    marks_recovery=False,
    tells_starting_of_queued=True,
    announces_unless_elected=False,
    rebalances_in_isr=False,
    rebalances_while_reassigning=False,
    has_alter_partition=False,
    requires_live_isr=False,
    epoch_bump_separates_added=False,
    batches_deletions=False,
)

ZK_2_0 = replace(
    ZK_2_4,
    name="zk-2.0",
    title="Kafka 2.0",
    replica_previous=REPLICA_PREVIOUS_BEFORE_2_3,
    offlines_dead_at_startup=False,
    without_leadership=WithoutLeadership.SKIPPED,
    retries_every_election=True,
    undecodable_fails_call=True,
    shutdown_among_live=True,
    guards_writes=False,
    empty_metadata_is_all=True,
    tells_starting_apart=False,
    has_broker_epochs=False,
    shutdown_skips_queued=False,
    has_admin_elections=False,
    filters_elections=False,
    cancels_reassignments=False,
    epoch_bump_is_cached=False,
    deletes_partitions_at_start=False,
)

ZK_1_1 = replace(ZK_2_0, name="zk-1.1", title="Kafka 1.1", metadata_has_deleted=True)

ZK_1_0 = replace(
    ZK_1_1,
    name="zk-1.0",
    title="Kafka 1.0",
    batch_per_partition=True,
    group_order=GroupOrder.ASCENDING,
    without_leadership=WithoutLeadership.REFUSED,
    new_replica_reads_store=True,
    empties_unclean_isr=True,
    caches_lost_writes=True,
    logs_real_targets=True,
    skips_leading_preferred=True,
    writes_back_without_strategy=True,
    retries_every_election=False,
    undecodable_fails_call=False,
    shutdown_among_live=False,
)

ZK_0_10 = replace(
    ZK_1_0, name="zk-0.10", title="Kafka 0.10", marks_new_replicas=False,
    offlines_only_of_failed=True, has_log_dirs=False,
)

PROFILES: Mapping[str, Profile] = {
    profile.name: profile for profile in (ZK_3_9, ZK_2_4, ZK_2_0, ZK_1_1, ZK_1_0, ZK_0_10)
}
"""Controllers that kfast simulates, the newest first."""


RELEASES = (
    "0.10", "0.11", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
    "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
)
"""Releases of Kafka with a controller in ZooKeeper mode that kfast knows, the oldest first."""

CHANGED_SWITCHES: Mapping[str, tuple[str, ...]] = {
    "2.1": ("guards_writes", "shutdown_skips_queued", "deletes_partitions_at_start",
            "shutdown_among_live"),
    "2.2": ("empty_metadata_is_all", "tells_starting_apart", "has_broker_epochs",
            "filters_elections"),
    "2.3": ("replica_previous", "offlines_dead_at_startup", "without_leadership"),
    "2.5": ("batches_deletions",),
    "2.6": ("rebalances_in_isr",),
    "2.7": ("has_alter_partition", "epoch_bump_separates_added", "tells_starting_of_queued"),
    "3.1": ("announces_unless_elected",),
    "3.2": ("marks_recovery",),
    "3.3": ("requires_live_isr",),
    "3.4": ("rebalances_while_reassigning",),
}
"""Switches that took their newest value in a release between two named profiles."""


def find_profile(profile: str | Profile) -> Profile:
    """Profile of a name.

    Parameters
    ----------
    profile : str or Profile
        One of `PROFILES`, or a release such as 2.7 or zk-2.7: `profile_of`. A `Profile` is taken as
        it is.

    Raises
    ------
    ArgumentError
        The name is unknown.
    """
    if isinstance(profile, Profile):
        return profile
    name: object = profile
    release = name.removeprefix("zk-") if isinstance(name, str) else None
    if release not in RELEASES:
        if name in CONTROLLERS:
            raise ArgumentError(
                f"profile {shown(profile)} is a KRaft controller; kfast.with_controller(state, "
                f"{shown(profile)}) gives it to a cluster"
            )
        raise ArgumentError(
            f"profile {shown(profile)} is unknown; allowed: {', '.join(PROFILES)}, or a release"
            f" from {RELEASES[0]} to {RELEASES[-1]}"
        )
    return profile_of(release)


def profile_of(release: str) -> Profile:
    """Profile of one release: the older named one with what was changed up to this release."""
    if f"zk-{release}" in PROFILES:
        return PROFILES[f"zk-{release}"]
    place = RELEASES.index(release)
    older = next(
        f"zk-{name}" for name in reversed(RELEASES[: place + 1]) if f"zk-{name}" in PROFILES
    )
    changed = {
        switch: getattr(ZK_3_9, switch) for since, switches in CHANGED_SWITCHES.items()
        if RELEASES.index(older.removeprefix("zk-")) < RELEASES.index(since) <= place
        for switch in switches
    }
    return replace(
        PROFILES[older], name=f"zk-{release}", title=f"Kafka {release}", **changed
    )
