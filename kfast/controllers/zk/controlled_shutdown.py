"""A broker asks for its controlled shutdown.

Source: docs/controller.md, section 6.3; Kafka 3.9, `KafkaController.doControlledShutdown`. The
public function is a method of `Controller`.
"""

from __future__ import annotations

from kfast.arguments import MAX_LONG, whole
from kfast.controllers.zk import controller_context, fused_events
from kfast.controllers.zk.engine import ExecutionMode, ZkEngine
from kfast.controllers.zk.faults import ControllerMoved, EventFailed
from kfast.journal import Outcome
from kfast.schema import UNKNOWN_BROKER_EPOCH, PartitionState, ReplicaState, Strategy
from kfast.state.records import Rows

EVENT = "controlled_shutdown"
ANY = -MAX_LONG, MAX_LONG


def controlled_shutdown(
    engine: ZkEngine, broker_id: int, broker_epoch: int = UNKNOWN_BROKER_EPOCH
) -> Outcome:
    """A broker asks to shut down: its leaders move, it leaves the ISRs (section 6.3)."""
    broker_id = whole("broker_id", broker_id, *ANY)
    broker_epoch = whole("broker_epoch", broker_epoch, *ANY)
    if not engine.active:
        return engine.refused(EVENT, "ControllerMoved")
    state = engine.state
    epoch = engine.registered_epoch(broker_id)
    if broker_epoch != UNKNOWN_BROKER_EPOCH and engine.profile.has_broker_epochs:
        if epoch is None:
            return engine.refused(EVENT, "NoSuchElement")
        if broker_epoch < epoch:
            return engine.refused(EVENT, "StaleBrokerEpoch")
    if epoch is None:
        return engine.refused(EVENT, "BrokerNotAvailable")
    broker = int(state.find_brokers([broker_id])[0])
    remaining: list[Rows] = []

    def steps() -> None:
        # Kafka answers whatever the steps raise, so that a replaced controller does not find out.
        try:
            take_steps()
        except ControllerMoved as moved:
            raise EventFailed("ControllerMoved") from moved

    def take_steps() -> None:
        if engine.way_of(EVENT) is ExecutionMode.FUSED:
            remaining.append(fused_events.shut_down_broker(engine, broker))
        else:
            remaining.append(_step_by_step(engine, broker_id, broker))

    outcome = engine.attempt(EVENT, steps)
    if remaining:
        outcome.remaining = remaining[0]
    return outcome


def _step_by_step(engine: ZkEngine, broker_id: int, broker: int) -> Rows:
    """Steps 4 to 9; returns the rows that the broker still leads."""
    state, checked = engine.state, engine.checked
    state.set_shutting_down([broker_id])
    spares_queued = engine.profile.shutdown_skips_queued
    led, followed = controller_context.split_led(state, broker, spares_queued)
    with engine.batches():
        checked(engine.partition_state_machine.run(
            led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN
        ))
        if len(followed):
            engine.journal.add_stop_replica("stop followed replicas", broker, followed.rows)
        checked(engine.replica_state_machine.run(followed, ReplicaState.OFFLINE))
    return controller_context.partition_leaders_on_broker(state, broker, spares_queued)
