"""How older controllers differ, as switches of the plain Python twin.

Source: docs/controller.md, section 8.1.

Every switch says what zk-3.9 does when it has its default. Rows of the table that concern only
logging, or how StopReplica requests are grouped on the wire, have no switch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Profile:
    """One version of the controller."""

    name: str = "zk-3.9"

    # -- the machines: sections 2 and 3 --
    batch_per_partition: bool = False
    """Before 1.1: every replica and partition has store calls of its own."""
    group_order: str = "scala-2.13"
    """Which map orders the brokers of a call; ascending ids where there are no groups."""
    ineligible_from_offline: bool = True
    """Since 2.3: Offline -> DeletionIneligible is valid."""
    offlines_dead_at_startup: bool = True
    """Since 2.3: dead replicas become Offline when a controller starts."""
    without_leadership: str = "moved"
    """-> Offline without cached leadership: moved; skipped (until 2.2); refused (before 1.1)."""
    new_replica_reads_store: bool = False
    """Before 1.1: -> New asks the store who leads."""
    empties_unclean_isr: bool = False
    """Before 1.1: the last ISR member leaves where the topic allows unclean election."""
    caches_lost_writes: bool = False
    """Before 1.1: a shrink that lost the race is cached, with version -1."""
    logs_real_targets: bool = False
    """Before 1.1: a failure is logged with the target that was asked for."""

    # -- elections: sections 3.6 and 4 --
    skips_leading_preferred: bool = False
    """Before 1.1: a preferred replica that leads is not elected again."""
    writes_back_without_strategy: bool = False
    """Before 1.1: without a strategy the record is written as it is."""
    retries_every_election: bool = False
    """1.1 to 2.3: after a conflict all partitions of the call are elected again."""
    undecodable_fails_call: bool = False
    """1.1 to 2.3: a record that does not decode ends the call."""
    shutdown_among_live: bool = False
    """1.1 and 2.0: brokers in controlled shutdown are not told of its elections."""
    marks_recovery: bool = True
    """Since 3.2: an unclean leader is recovering."""
    guards_writes: bool = True
    """Since 2.1: writes are fenced by the controller epoch."""

    # -- requests: section 5 --
    marks_new_replicas: bool = True
    """Since 1.0: LeaderAndIsr says is_new."""
    empty_metadata_is_all: bool = False
    """Until 2.1: UpdateMetadata of no partition is one of all that have leadership."""
    metadata_has_deleted: bool = False
    """Before 2.0: UpdateMetadata always names the partitions of queued topics."""

    # -- events: sections 6.2, 6.3, 6.8 and 6.10 --
    has_log_dirs: bool = True
    """Since 1.0: log directories fail on their own."""
    has_broker_epochs: bool = True
    """Since 2.2: brokers have epochs, so that bouncing is noticed."""
    tells_starting_apart: bool = True
    """Since 2.2: only brokers that start are told of all leaders."""
    tells_starting_of_queued: bool = False
    """Before 2.7: they are told of queued topics, too."""
    announces_unless_elected: bool = True
    """Since 3.1: the last step of a failure asks whether somebody was elected."""
    offlines_only_of_failed: bool = False
    """0.10: a failure puts partitions Offline that the dead brokers led, not all without leader."""
    shutdown_skips_queued: bool = True
    """Since 2.1: controlled shutdown leaves queued topics alone."""
    has_admin_elections: bool = True
    """Since 2.4: elections are asked for by API, unclean ones as well."""
    filters_elections: bool = True
    """Since 2.2: partitions that need no election are left out."""
    rebalances_in_isr: bool = True
    """Since 2.6: preferred replicas have to be in the ISR."""
    rebalances_while_reassigning: bool = True
    """Since 2.6: reassignments do not matter."""
    has_alter_partition: bool = True
    """Since 2.7: leaders ask the controller to change ISRs."""
    requires_live_isr: bool = True
    """Since 3.3: it refuses those that name brokers which are not live."""

    # -- reassignment and deletion: sections 6.6, 6.7 and 6.12 --
    cancels_reassignments: bool = True
    """Since 2.4: an API, assignments with adding and removing, override and cancel."""
    epoch_bump_separates_added: bool = True
    """Since 2.7: the epoch bump says is_new to the added replicas."""
    epoch_bump_is_cached: bool = True
    """Since 2.4: the bumped record is cached."""
    deletes_partitions_at_start: bool = True
    """Since 2.1: partitions vanish when deletion starts, not when it ends."""
    batches_deletions: bool = True
    """Since 2.5: deletions go on for all topics together."""


ZK_3_9 = Profile()
ZK_2_4 = replace(
    ZK_3_9, name="zk-2.4", group_order="scala-2.12", marks_recovery=False,
    tells_starting_of_queued=True, announces_unless_elected=False, rebalances_in_isr=False,
    rebalances_while_reassigning=False, has_alter_partition=False, requires_live_isr=False,
    epoch_bump_separates_added=False, batches_deletions=False,
)
ZK_2_0 = replace(
    ZK_2_4, name="zk-2.0", ineligible_from_offline=False, offlines_dead_at_startup=False,
    without_leadership="skipped", retries_every_election=True, undecodable_fails_call=True,
    shutdown_among_live=True, guards_writes=False, empty_metadata_is_all=True,
    has_broker_epochs=False, tells_starting_apart=False, shutdown_skips_queued=False,
    has_admin_elections=False, filters_elections=False, cancels_reassignments=False,
    epoch_bump_is_cached=False, deletes_partitions_at_start=False,
)
ZK_1_1 = replace(ZK_2_0, name="zk-1.1", metadata_has_deleted=True)
ZK_1_0 = replace(
    ZK_1_1, name="zk-1.0", batch_per_partition=True, group_order="ascending",
    without_leadership="refused",
    new_replica_reads_store=True, empties_unclean_isr=True, caches_lost_writes=True,
    logs_real_targets=True, skips_leading_preferred=True, writes_back_without_strategy=True,
    retries_every_election=False, undecodable_fails_call=False, shutdown_among_live=False,
)
ZK_0_10 = replace(
    ZK_1_0, name="zk-0.10", marks_new_replicas=False, has_log_dirs=False,
    offlines_only_of_failed=True,
)

PROFILES = {p.name: p for p in (ZK_3_9, ZK_2_4, ZK_2_0, ZK_1_1, ZK_1_0, ZK_0_10)}
"""The newest first."""

UNSUPPORTED = "UNSUPPORTED_VERSION"
"""What a controller answers to requests that came later."""
