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
from kfast.controllers.zk.state_machines import threads_for
from kfast.controllers.zk.store_machines import online_action
from kfast.journal import Tally
from kfast.journal.effects import Effects
from kfast.kernels import broker_events, broker_failure, election, hosting, isr, startup
from kfast.schema import (
    BROKER_REGISTERED,
    BROKER_SHUTTING_DOWN,
    TALLY_CODES,
    TALLY_REASSIGNED,
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


def start_machines(engine: ZkEngine) -> None:
    """Start a new controller's machines (sections 2.2 and 3.2), as far as nobody is elected."""
    state, journal, profile = engine.state, engine.journal, engine.profile
    threads = threads_for(state.n_partitions, engine.replica_state_machine.threads)
    tallies = journal.new_tallies(3, threads)
    online, offline, first = tallies
    n_brokers = max(state.n_brokers, 1)  # as many as a tally has places for
    healthy, hosted = (np.zeros((threads, n_brokers), np.int64) for _ in range(2))
    startup.start_machines(
        state.columns, profile.rules(state, counting=journal.counting),
        engine.replica_state_machine.rank_startup(online=False), tallies, healthy, hosted,
    )
    state.n_reassigned = int(online[:, TALLY_REASSIGNED].sum())
    empty = journal.new_effects(0)
    _add_replicas(engine, ReplicaState.ONLINE, online, empty)
    if profile.offlines_dead_at_startup:
        _add_replicas(engine, ReplicaState.OFFLINE, offline, empty)
    state.index_hosting(hosted[:, : state.n_brokers])
    journal.add_step("partition states at startup", first, empty, replicas=False)


def fail_brokers(engine: ZkEngine, brokers: Rows) -> None:
    """`onBrokerFailure` for some broker rows that are still registered."""
    state, journal, profile = engine.state, engine.journal, engine.profile
    for broker in brokers.tolist():
        state.broker_status[broker] &= 255 - BROKER_REGISTERED - BROKER_SHUTTING_DOWN
    state.clear_offline_dir(brokers)
    chosen = _chosen(state, brokers)
    rows = _concerned_rows(engine, brokers, chosen)
    threads = threads_for(rows.size, engine.replica_state_machine.threads)
    tallies = journal.new_tallies(3, threads)
    offline, online, gone = tallies
    buffer = journal.new_effect_buffer(rows.size, 3, brokers.size)
    strategy = profile.kernel_strategy(Strategy.OFFLINE)
    runner = engine.partition_state_machine.policy_runner
    decided = runner.decide(rows, strategy, ElectionCause.FAILED, threads)
    ranks = engine.replica_state_machine.rank_groups(ReplicaState.OFFLINE, brokers, rows)
    state.mark_led(rows)
    n = broker_failure.fail_brokers(
        state.columns, profile.rules(state, counting=journal.counting), chosen, ranks, rows,
        decided, tallies, buffer.effects,
    )
    n_offline, n_online, n_replicas = n
    effects = buffer.steps(n)
    if n_offline:
        action = f"partitions to {PartitionState.OFFLINE.label}"
        journal.add_step(action, offline, effects[0], replicas=False)
    if n_online:
        _add_elections(engine, Strategy.OFFLINE, online, effects[1])
    if n_replicas:
        _add_replicas(engine, ReplicaState.OFFLINE, gone, effects[2])
    if profile.announces_unless_elected:
        announced = not n_replicas and not online[:, TALLY_CODES + Code.ELECTED].any()
    else:
        announced = not n_offline
    if announced:
        engine.send_update_metadata("announce the live brokers", state.registered, EMPTY_ROWS)


def start_brokers(engine: ZkEngine, brokers: Rows) -> None:
    """Steps 4 and 5 of `onBrokerStartup`, for broker rows that are registered now."""
    state, journal, profile = engine.state, engine.journal, engine.profile
    chosen = _chosen(state, brokers)
    rows = _concerned_rows(engine, brokers, chosen)
    threads = threads_for(rows.size, engine.replica_state_machine.threads)
    tallies = journal.new_tallies(2, threads)
    online, back = tallies
    buffer = journal.new_effect_buffer(rows.size, 2, brokers.size)
    state.mark_led(rows)
    ranks = engine.replica_state_machine.rank_groups(ReplicaState.ONLINE, brokers, rows)
    n = broker_events.start_brokers(
        state.columns, profile.rules(state, counting=journal.counting), chosen, ranks, rows,
        tallies, buffer.effects,
    )
    n_online, n_replicas = n
    effects = buffer.steps(n)
    if n_replicas:
        _add_replicas(engine, ReplicaState.ONLINE, back, effects[1])
    if n_online:
        _add_elections(engine, Strategy.OFFLINE, online, effects[0])


def shut_down_broker(engine: ZkEngine, broker: int) -> Rows:
    """Steps 4 to 9 of section 6.3; returns the rows that the broker still leads."""
    state, journal, profile = engine.state, engine.journal, engine.profile
    state.broker_status[broker] |= BROKER_SHUTTING_DOWN
    rows = state.rows_tracking(np.asarray([broker], np.int32))
    threads = threads_for(rows.size, engine.replica_state_machine.threads)
    tallies, remaining = journal.new_tallies(2, threads), np.empty(rows.size, np.int32)
    led, followed = tallies
    number = profile.kernel_strategy(Strategy.CONTROLLED_SHUTDOWN)
    runner = engine.partition_state_machine.policy_runner
    decided = runner.decide(rows, number, ElectionCause.SHUT_DOWN, threads, broker=broker)
    state.mark_led(rows)
    n_led, n_followed, n_remaining = broker_events.shut_down_broker(
        state.columns, profile.rules(state, counting=journal.counting), broker, rows, decided,
        tallies, remaining,
    )
    empty = journal.new_effects(0)
    if n_led:
        _add_elections(engine, Strategy.CONTROLLED_SHUTDOWN, led, empty)
    if n_followed:
        journal.add_stop_count("stop followed replicas", broker, n_followed)
        _add_replicas(engine, ReplicaState.OFFLINE, followed, empty)
    return remaining[:n_remaining]


def _add_elections(engine: ZkEngine, strategy: Strategy, tally: Tally, effects: Effects) -> None:
    engine.journal.add_step(
        online_action(strategy), tally, effects, replicas=False, strategy=strategy
    )


def _add_replicas(engine: ZkEngine, target: ReplicaState, tally: Tally, effects: Effects) -> None:
    engine.journal.add_step(f"replicas to {target.label}", tally, effects, replicas=True)


def _concerned_rows(engine: ZkEngine, brokers: Rows, chosen: npt.NDArray[np.uint8]) -> Rows:
    """Rows that track one of some brokers, have no live leader, or wait for one; ascending."""
    state = engine.state
    if brokers.size * MANY >= max(state.n_brokers, 1):
        concerned = np.empty(state.n_partitions, np.int32)
        threads = threads_for(concerned.size, engine.replica_state_machine.threads)
        n = hosting.list_concerned(state.columns, chosen, concerned, threads)
        return concerned[:n]
    rows = state.rows_tracking(brokers)
    concerned = np.empty(rows.size + FEW, np.int32)
    n = hosting.merge_waiting(rows, state.leader_offline, state.pending, concerned)
    if n > concerned.size:
        concerned = np.empty(n, np.int32)
        hosting.merge_waiting(rows, state.leader_offline, state.pending, concerned)
    return rows if n == rows.size else concerned[:n]


def _chosen(state: ClusterState, brokers: Rows) -> npt.NDArray[np.uint8]:
    """(B+1,) 1 for some broker rows; the last stands for a slot without a broker."""
    chosen = np.zeros(state.n_brokers + 1, np.uint8)
    chosen[brokers] = 1
    return chosen


def rebalance(engine: ZkEngine, unbalanced: Rows, rows: Rows) -> list[int]:
    """The elections of section 6.8, auto, step 3; returns the broker rows with something to elect.

    `unbalanced` are broker rows, `rows` all partitions that another than the preferred replica
    leads: those that the survey has marked, so that none needs to be marked again.
    """
    state, journal, profile = engine.state, engine.journal, engine.profile
    step = np.full(state.n_brokers, -1, np.int32)
    step[unbalanced] = np.arange(unbalanced.size)
    threads = threads_for(rows.size, engine.replica_state_machine.threads)
    width = journal.new_tally().shape[1]
    n_elections = np.zeros((threads, unbalanced.size), np.int64)
    tally = np.zeros((threads, unbalanced.size, width), np.int64)
    election.rebalance(
        state.columns, profile.rules(state, counting=journal.counting), rows, step, n_elections,
        tally,
    )
    steps = np.flatnonzero(n_elections.sum(axis=0))
    for at in steps.tolist():
        _add_elections(engine, Strategy.PREFERRED_REPLICA, tally[:, at], journal.new_effects(0))
    rebalanced: list[int] = unbalanced[steps].tolist()
    return rebalanced


def catch_up_brokers(
    engine: ZkEngine, brokers: Rows
) -> tuple[Rows, npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Leaders report ISRs with some broker rows (section 6.10).

    Returns the rows reported, the answers, and the broker rows of the leaders that report.
    """
    state, journal, profile = engine.state, engine.journal, engine.profile
    rows = state.rows_tracking(brokers)
    chosen = _chosen(state, brokers)
    sizes, tally = np.zeros(state.n_brokers, np.int64), journal.new_tally()
    reported, codes = np.empty(rows.size, np.int32), np.empty(rows.size, np.uint8)
    n = isr.catch_up_hosted(
        state.columns, profile.rules(state, counting=journal.counting), chosen, rows, sizes,
        reported, codes, tally[0],
    )
    journal.take_counters(tally)
    senders = np.flatnonzero(sizes)
    journal.add_metadata_counts(ANNOUNCEMENT, state.registered, sizes[senders].tolist())
    return reported[:n], codes[:n], senders
