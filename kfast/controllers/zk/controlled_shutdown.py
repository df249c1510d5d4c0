"""A broker asks for its controlled shutdown.

Source: docs/controller.md, section 6.3; Kafka 3.9, `KafkaController.doControlledShutdown`. The
public function is a method of `Controller`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfast.arguments import MAX_LONG, whole
from kfast.controllers.zk import controller_context, fused_events
from kfast.schema import UNKNOWN_BROKER_EPOCH, PartitionState, ReplicaState, Strategy

if TYPE_CHECKING:
    from kfast.controllers.zk.controller import Controller
    from kfast.journal import Outcome
    from kfast.state.records import Rows

EVENT = "controlled_shutdown"
ANY = -MAX_LONG, MAX_LONG


def controlled_shutdown(
    controller: Controller, broker_id: int, broker_epoch: int = UNKNOWN_BROKER_EPOCH
) -> Outcome:
    """A broker asks to shut down: its leaders move, it leaves the ISRs (section 6.3).

    Returns
    -------
    Outcome
        `remaining` lists the partition rows that the broker still leads; `error` is Kafka's
        answer where the request is refused.
    """
    broker_id = whole("broker_id", broker_id, *ANY)
    broker_epoch = whole("broker_epoch", broker_epoch, *ANY)
    if not controller.active:
        return controller.refused(EVENT, "ControllerMoved")
    state = controller.state
    epoch = controller.registered_epoch(broker_id)
    if broker_epoch != UNKNOWN_BROKER_EPOCH and controller.profile.has_broker_epochs:
        if epoch is None:
            return controller.refused(EVENT, "NoSuchElement")
        if broker_epoch < epoch:
            return controller.refused(EVENT, "StaleBrokerEpoch")
    if epoch is None:
        return controller.refused(EVENT, "BrokerNotAvailable")
    broker = int(state.find_brokers([broker_id])[0])
    remaining: list[Rows] = []

    def steps() -> None:
        if fused_events.can_visit(controller) and not controller.journal.full:
            remaining.append(fused_events.shut_down_broker(controller, broker))
        else:
            remaining.append(_step_by_step(controller, broker_id, broker))

    outcome = controller.attempt(EVENT, steps)
    if remaining:
        outcome.remaining = remaining[0]
    return outcome


def _step_by_step(controller: Controller, broker_id: int, broker: int) -> Rows:
    """Steps 4 to 9; returns the rows that the broker still leads."""
    state, checked = controller.state, controller.checked
    state.set_shutting_down([broker_id])
    spares_queued = controller.profile.shutdown_skips_queued
    led, followed = controller_context.split_led(state, broker, spares_queued)
    with controller_context.batches(controller):
        checked(controller.partition_state_machine.run(
            led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN
        ))
        if len(followed):
            controller.journal.add_stop_replica("stop followed replicas", broker, followed.rows)
        checked(controller.replica_state_machine.run(followed, ReplicaState.OFFLINE))
    return controller_context.partition_leaders_on_broker(state, broker, spares_queued)
