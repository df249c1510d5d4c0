"""Events that visit each partition once: the steps of an event, fused.

Where the cache is the store and no topic is queued for deletion, partitions have nothing to do with
each other, so all steps of an event can be taken on one partition before the next. What happens,
and what the journal says, is the same as step by step; `ZkEngine.way_of` says when it is done.

Source: docs/controller.md, section 6.2; Kafka 3.9, `KafkaController.onReplicasBecomeOffline`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kfast.controllers.zk.engine import ZkEngine
from kfast.controllers.zk.policy_runner import ElectionCause
from kfast.controllers.zk.profiles import previous_mask
from kfast.controllers.zk.state_machines import threads_for
from kfast.controllers.zk.store_machines import online_action
from kfast.journal.effects import LAYOUT
from kfast.kernels import election, failures, hosting, isr, startup, visits
from kfast.schema import (
    BROKER_REGISTERED,
    BROKER_SHUTTING_DOWN,
    Code,
    PartitionState,
    ReplicaState,
    Strategy,
)
from kfast.state import ClusterState
from kfast.state.records import EMPTY_ROWS, Rows

FEW = 4096
"""Rows without a live leader that are listed with others in one pass; more take two."""
ANNOUNCEMENT = "announce the ISRs"
"""Action that tells all brokers what one leader reported."""
MANY = 6
"""Where this fraction (1/6) of all brokers fail or start, reading all rows finds theirs sooner."""


def start_machines(controller: ZkEngine) -> None:
    """Start a new controller's machines (sections 2.2 and 3.2), as far as nobody is elected."""
    state, journal, profile = controller.state, controller.journal, controller.profile
    threads = threads_for(state.n_partitions, controller.replica_state_machine.threads)
    online, offline, first = (journal.new_tally(threads) for _ in range(3))
    healthy, hosted = (np.zeros((threads, state.n_brokers), np.int64) for _ in range(2))
    moving = profile.offlines_dead_at_startup
    startup.start_machines(
        state.columns, controller.replica_state_machine.rank_startup(online=False),
        previous_mask(profile.replica_previous[ReplicaState.OFFLINE]), state.controller_epoch,
        moving, state.any_queued, journal.counting, online, offline, first, healthy, hosted,
    )
    state.n_reassigned = int(online[:, LAYOUT["reassigned"]].sum())
    empty = journal.new_effects(0)
    journal.add_step("replicas to OnlineReplica", online, empty, replicas=True)
    if moving:
        journal.add_step("replicas to OfflineReplica", offline, empty, replicas=True)
    state.index_hosting(hosted)
    journal.add_step("partition states at startup", first, empty, replicas=False)


def fail_brokers(controller: ZkEngine, brokers: Rows) -> None:
    """`onBrokerFailure` for some broker rows that are still registered."""
    state, journal, profile = controller.state, controller.journal, controller.profile
    state.broker_status[brokers] &= 255 - BROKER_REGISTERED - BROKER_SHUTTING_DOWN
    state.clear_offline_dir(brokers)
    chosen = _chosen(state, brokers)
    rows = _concerned(controller, brokers, chosen)
    threads = threads_for(rows.size, controller.replica_state_machine.threads)
    offline, online, gone = (journal.new_tally(threads) for _ in range(3))
    counts = np.zeros((threads, 8), np.int64)
    buffer = journal.new_effect_buffer(rows.size, 3, brokers.size)
    strategy = profile.kernel_strategy(Strategy.OFFLINE)
    policy_runner = controller.partition_state_machine.policy_runner
    decided = policy_runner.decide(rows, strategy, ElectionCause.FAILED, threads)
    ranks = controller.replica_state_machine.rank_groups(ReplicaState.OFFLINE, brokers, rows)
    recovers = state.leader_recovery_supported and profile.marks_recovery
    valid = profile.partition_previous
    state.mark_led(rows)
    failures.fail_hosted(
        state.columns, chosen, ranks,
        rows, previous_mask(valid[PartitionState.OFFLINE]),
        previous_mask(valid[PartitionState.ONLINE]),
        previous_mask(profile.replica_previous[ReplicaState.OFFLINE]), strategy,
        state.controller_epoch, int(profile.without_leadership), profile.empties_unclean_isr,
        recovers, journal.counting, decided, offline, online, gone, counts, buffer.effects,
        np.zeros(chosen.size, np.uint32), np.zeros((threads, chosen.size), np.uint64),
    )
    n, effects = counts.sum(axis=0).tolist(), buffer.steps(counts)
    if n[0]:
        action = f"partitions to {PartitionState.OFFLINE.label}"
        journal.add_step(action, offline, effects[0], replicas=False)
    if n[1]:
        action = online_action(PartitionState.ONLINE, Strategy.OFFLINE)
        journal.add_step(action, online, effects[1], replicas=False, strategy=Strategy.OFFLINE)
    if n[2]:
        action = f"replicas to {ReplicaState.OFFLINE.label}"
        journal.add_step(action, gone, effects[2], replicas=True)
    if profile.announces_unless_elected:
        announced = not n[2] and not online[:, LAYOUT["codes"] + Code.ELECTED].any()
    else:
        announced = not n[0]
    if announced:
        controller.send_update_metadata("announce the live brokers", state.registered, EMPTY_ROWS)


def start_brokers(controller: ZkEngine, brokers: Rows) -> None:
    """Steps 4 and 5 of `onBrokerStartup`, for broker rows that are registered now."""
    state, journal, profile = controller.state, controller.journal, controller.profile
    chosen = _chosen(state, brokers)
    rows = _concerned(controller, brokers, chosen)
    threads = threads_for(rows.size, controller.replica_state_machine.threads)
    back, online = journal.new_tally(threads), journal.new_tally(threads)
    counts = np.zeros((threads, 8), np.int64)
    buffer = journal.new_effect_buffer(rows.size, 2, brokers.size)
    state.mark_led(rows)
    visits.start_hosted(
        state.columns, chosen,
        controller.replica_state_machine.rank_groups(ReplicaState.ONLINE, brokers, rows),
        rows, previous_mask(profile.replica_previous[ReplicaState.ONLINE]),
        previous_mask(profile.partition_previous[PartitionState.ONLINE]),
        profile.kernel_strategy(Strategy.OFFLINE), state.controller_epoch,
        state.leader_recovery_supported and profile.marks_recovery, journal.counting,
        back, online, counts, buffer.effects,
    )
    n, effects = counts.sum(axis=0).tolist(), buffer.steps(counts)
    if n[1]:
        action = f"replicas to {ReplicaState.ONLINE.label}"
        journal.add_step(action, back, effects[1], replicas=True)
    if n[0]:
        action = online_action(PartitionState.ONLINE, Strategy.OFFLINE)
        journal.add_step(action, online, effects[0], replicas=False, strategy=Strategy.OFFLINE)


def shut_down_broker(controller: ZkEngine, broker: int) -> Rows:
    """Steps 4 to 9 of section 6.3; returns the rows that the broker still leads."""
    state, journal, profile = controller.state, controller.journal, controller.profile
    state.broker_status[broker] |= BROKER_SHUTTING_DOWN
    rows = state.rows_tracking(np.asarray([broker], np.int32))
    threads = threads_for(rows.size, controller.replica_state_machine.threads)
    led, followed = journal.new_tally(threads), journal.new_tally(threads)
    counts, remaining = np.zeros((threads, 8), np.int64), np.empty(rows.size, np.int32)
    number = profile.kernel_strategy(Strategy.CONTROLLED_SHUTDOWN)
    policy_runner = controller.partition_state_machine.policy_runner
    decided = policy_runner.decide(rows, number, ElectionCause.SHUT_DOWN, threads, broker=broker)
    state.mark_led(rows)
    left = visits.shut_down_hosted(
        state.columns, broker, rows,
        previous_mask(profile.partition_previous[PartitionState.ONLINE]),
        previous_mask(profile.replica_previous[ReplicaState.OFFLINE]), number,
        state.controller_epoch, state.leader_recovery_supported and profile.marks_recovery,
        journal.counting, decided, led, followed, counts, remaining,
    )
    empty = journal.new_effects(0)
    n_led, n_followed = counts.sum(axis=0)[:2].tolist()
    if n_led:
        strategy = Strategy.CONTROLLED_SHUTDOWN
        action = online_action(PartitionState.ONLINE, strategy)
        journal.add_step(action, led, empty, replicas=False, strategy=strategy)
    if n_followed:
        journal.add_stop_count("stop followed replicas", broker, n_followed)
        action = f"replicas to {ReplicaState.OFFLINE.label}"
        journal.add_step(action, followed, empty, replicas=True)
    return remaining[:left]


def _concerned(
    controller: ZkEngine, brokers: Rows, chosen: npt.NDArray[np.uint8]
) -> Rows:
    """Rows that track one of some brokers, have no live leader, or wait for one; ascending."""
    state = controller.state
    if brokers.size * MANY >= max(state.n_brokers, 1):
        room = np.empty(state.n_partitions, np.int32)
        threads = threads_for(room.size, controller.replica_state_machine.threads)
        n = hosting.list_concerned(state.columns, chosen, room, threads)
        return room[:n]
    rows = state.rows_tracking(brokers)
    room = np.empty(rows.size + FEW, np.int32)
    n = hosting.merge_waiting(rows, state.leader_offline, state.pending, room)
    if n > room.size:
        room = np.empty(n, np.int32)
        hosting.merge_waiting(rows, state.leader_offline, state.pending, room)
    return rows if n == rows.size else room[:n]


def _chosen(state: ClusterState, brokers: Rows) -> npt.NDArray[np.uint8]:
    """(B+1,) 1 for some broker rows; the last stands for a slot without a broker."""
    chosen = np.zeros(state.n_brokers + 1, np.uint8)
    chosen[brokers] = 1
    return chosen


def rebalance(controller: ZkEngine, unbalanced: Rows, rows: Rows) -> list[int]:
    """The elections of section 6.8, auto, step 3; returns the broker rows with something to elect.

    `unbalanced` are broker rows, `rows` all partitions that another than the preferred replica
    leads: those that the survey has marked, so that none needs to be marked again.
    """
    state, journal, profile = controller.state, controller.journal, controller.profile
    step = np.full(state.n_brokers, -1, np.int32)
    step[unbalanced] = np.arange(unbalanced.size)
    threads = threads_for(rows.size, controller.replica_state_machine.threads)
    width = journal.new_tally().shape[1]
    asked = np.zeros((threads, unbalanced.size), np.int64)
    tally = np.zeros((threads, unbalanced.size, width), np.int64)
    election.rebalance(
        state.columns, rows, step, profile.rebalances_in_isr,
        profile.kernel_strategy(Strategy.PREFERRED_REPLICA),
        previous_mask(profile.partition_previous[PartitionState.ONLINE]), state.controller_epoch,
        state.leader_recovery_supported and profile.marks_recovery, journal.counting, asked, tally,
    )
    empty, strategy = journal.new_effects(0), Strategy.PREFERRED_REPLICA
    action = online_action(PartitionState.ONLINE, strategy)
    steps = np.flatnonzero(asked.sum(axis=0))
    for at in steps.tolist():
        journal.add_step(action, tally[:, at], empty, replicas=False, strategy=strategy)
    found: list[int] = unbalanced[steps].tolist()
    return found


def catch_up_brokers(
    controller: ZkEngine, brokers: Rows
) -> tuple[Rows, npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Leaders report ISRs with some broker rows (section 6.10).

    Returns the rows reported, the answers, and the broker rows of the leaders that report.
    """
    state, journal, profile = controller.state, controller.journal, controller.profile
    rows = state.rows_tracking(brokers)
    chosen = np.zeros(max(state.n_brokers, 1), np.uint8)
    chosen[brokers] = 1
    sizes, tally = np.zeros(state.n_brokers, np.int64), journal.new_tally()
    reported, codes = np.empty(rows.size, np.int32), np.empty(rows.size, np.uint8)
    n = isr.catch_up_hosted(
        state.columns, chosen, rows, state.controller_epoch, profile.has_alter_partition, sizes,
        reported, codes, tally[0],
    )
    journal.take_counters(tally)
    senders = np.flatnonzero(sizes)
    journal.add_metadata_counts(ANNOUNCEMENT, state.registered, sizes[senders].tolist())
    return reported[:n], codes[:n], senders
