"""Brokers register, vanish or change.

Source: docs/controller.md, section 6.2; Kafka 3.9, `KafkaController` (`processBrokerChange`,
`onBrokerStartup`, `onBrokerFailure`, `onReplicasBecomeOffline`, `onBrokerUpdate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kfast import arguments, schema
from kfast.controllers.zk import controller_context, fused_events, reassignment, topic_deletion
from kfast.controllers.zk.engine import ExecutionMode, ZkEngine
from kfast.errors import ArgumentError
from kfast.journal import Outcome
from kfast.schema import PartitionState, ReplicaState
from kfast.state import ClusterState, Replicas
from kfast.state.records import EMPTY_ROWS, Rows

Epochs = Iterable[int] | Mapping[int, int]


def on_broker_change(
    engine: ZkEngine, started: Epochs, bounced: Epochs, failed: Iterable[int]
) -> Outcome:
    """Brokers registered, re-registered or vanished (section 6.2 as a whole, in Kafka's order)."""
    new = _epochs(engine.state, started, registered=False)
    again = _epochs(engine.state, bounced, registered=True)
    dead = sorted(_epochs(engine.state, failed, registered=True))
    if not engine.active:
        return engine.refused("on_broker_change", "NOT_CONTROLLER")
    noticed = engine.profile.has_broker_epochs

    def steps() -> None:
        if new:
            _broker_startup(engine, new)
        if again and noticed:
            _broker_failure(engine, sorted(again))
            _broker_startup(engine, again)
        if dead:
            _broker_failure(engine, dead)

    outcome = engine.attempt("on_broker_change", steps)
    if again and not noticed:
        ids = ", ".join(map(str, sorted(again)))
        outcome.notes = (f"{engine.profile.title} does not notice that broker {ids} bounced",)
    return outcome


def on_broker_modification(engine: ZkEngine, broker_ids: Iterable[int]) -> Outcome:
    """Endpoints or features of registered brokers changed: all brokers are told."""
    state = engine.state
    _epochs(state, broker_ids, registered=True)
    return engine.attempt("on_broker_modification", lambda: engine.send_update_metadata(
        "announce the brokers", state.registered, EMPTY_ROWS
    ))


def _epochs(state: ClusterState, brokers: Epochs, *, registered: bool) -> dict[int, int]:
    """New epochs by id, after checking that the ids are registered or not."""
    if isinstance(brokers, tuple) and not brokers:
        # The default, without a check that a small event would feel.
        return {}
    name = "broker_ids"
    ids = arguments.broker_ids(name, brokers).tolist()
    if not ids:
        return {}
    if not registered:
        arguments.check_range(name, np.array(ids), 0, arguments.MAX_BROKER_ID)
    rows = [state.broker_row(broker) for broker in ids]
    for broker, row in zip(ids, rows, strict=True):
        is_registered = row >= 0 and bool(state.broker_status[row] & schema.BROKER_REGISTERED)
        if is_registered != registered:
            wanted = "registered" if registered else "not registered yet"
            raise ArgumentError(
                f"broker {broker} is {'' if is_registered else 'not '}registered; only a "
                f"broker that is {wanted} is allowed here; nothing was changed"
            )
    if len(set(ids)) != len(ids):
        raise ArgumentError(f"{ids} names a broker twice; nothing was changed")
    if isinstance(brokers, Mapping):
        return arguments.epochs_of(name, brokers)
    epochs = [int(state.broker_epoch[row]) + 1 if row >= 0 else 0 for row in rows]
    return dict(zip(ids, epochs, strict=True))


def _broker_startup(engine: ZkEngine, epochs: Mapping[int, int]) -> None:
    """`onBrokerStartup` of section 6.2, for brokers that register with these epochs."""
    state = engine.state
    fused = engine.way_of("on_broker_startup") is ExecutionMode.FUSED
    hosted = state.add_live_brokers(epochs, find=not fused)
    brokers = state.find_brokers(sorted(epochs))
    chosen = np.zeros(state.n_brokers, np.bool_)
    chosen[brokers] = True
    state.clear_offline_dir(brokers)
    _announce_starting(engine, chosen)
    if fused:
        fused_events.start_brokers(engine, brokers)
    else:
        engine.checked(engine.replica_state_machine.run(hosted, ReplicaState.ONLINE, brokers))
        engine.checked(engine.partition_state_machine.trigger_online())
    if state.n_reassigned:
        reassignment.resume_on_brokers(engine, state.find_brokers(sorted(epochs)))
    if state.any_queued:
        topic_deletion.resume_deletion_for(engine, np.unique(state.topic_row[hosted.rows]))


def _announce_starting(engine: ZkEngine, started: npt.NDArray[np.bool_]) -> None:
    """Steps 2 and 3 of `broker_startup` (section 6.2): who is told what when brokers start."""
    state = engine.state
    if not engine.profile.tells_starting_apart:
        engine.send_update_metadata("tell all brokers of all", state.registered, EMPTY_ROWS)
        return
    led: Rows | None = None
    if engine.profile.tells_starting_of_queued:
        led = np.flatnonzero(state.records["flags"] & schema.FLAG_HAS_LEADERSHIP).astype(np.int32)
    engine.send_update_metadata("tell the others of the new brokers", ~started, EMPTY_ROWS)
    engine.send_update_metadata("tell the new brokers of all leaders", started, led)


def _broker_failure(engine: ZkEngine, broker_ids: Sequence[int]) -> None:
    """`onBrokerFailure` of section 6.2, for brokers that are still registered."""
    state = engine.state
    brokers = state.broker_rows(np.array(broker_ids))
    if engine.way_of("on_broker_failure") is ExecutionMode.FUSED:
        fused_events.fail_brokers(engine, brokers)
        return
    hosted = state.remove_live_brokers(broker_ids)
    state.clear_offline_dir(brokers)
    if (state.broker_status[brokers] & schema.BROKER_SHUTTING_DOWN).any():
        state.set_shutting_down(broker_ids, False)
    replicas_become_offline(engine, hosted, brokers)


def replicas_become_offline(
    engine: ZkEngine, replicas: Replicas, died: Rows | None = None
) -> None:
    """`onReplicasBecomeOffline` of section 6.2; `died` are the broker rows that went away."""
    state = engine.state
    queued, others = controller_context.split_queued(state, replicas)
    leaderless = state.list_marked(state.leader_offline, without_queued=True)
    if engine.profile.offlines_only_of_failed and died is not None:
        leaderless = leaderless[np.isin(state.records["leader"][leaderless], died)]
    machine = engine.partition_state_machine
    engine.checked(machine.run(leaderless, PartitionState.OFFLINE))
    results = engine.checked(machine.trigger_online())
    engine.checked(engine.replica_state_machine.run(others, ReplicaState.OFFLINE, died))
    if len(queued):
        topic_deletion.fail_replica_deletion(engine, queued)
    if engine.profile.announces_unless_elected:
        announced = not len(others) and not results.any_elected
    else:
        announced = not leaderless.size
    if announced:
        engine.send_update_metadata("announce the live brokers", state.registered, EMPTY_ROWS)
