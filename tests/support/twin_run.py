"""How events are done to the plain Python twin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kfast.schema import Code, PartitionState, ReplicaState, Strategy
from tests.support.event import Event
from tests.support.reference_controller import AlterRequest, Controller
from tests.support.reference_core import Happened

from . import reference


class TwinRun:
    """The twin, and how events are done to it."""

    def __init__(self, ctx: reference.Context, store: reference.TwinStore | None) -> None:
        self.ctx, self.store = ctx, store
        self.used: reference.Store = reference.CacheStore(ctx) if store is None else store
        self.controller = Controller(ctx, self.used)

    def apply(self, event: Event) -> Happened:
        """Do one event."""
        self.ctx.led = Counter(record.leader for record in self.ctx.leadership.values())
        handler: Callable[..., Happened] | None = getattr(self, f"_{event.name}", None)
        if handler is not None:
            return handler(**event.args)
        happened: Happened = getattr(self.controller, event.name)(*event.args.values())
        return happened

    def _move_replicas(
        self, replicas: list[reference.Replica], target: ReplicaState
    ) -> Happened:
        happened = Happened("move_replicas")
        machine = reference.ReplicaStateMachine(self.ctx, self.used, happened.journal)
        try:
            machine.handle(replicas, target)
        except reference.ControllerMovedError:
            happened.failure = Code.CONTROLLER_MOVED
        happened.codes = machine.codes
        return happened

    def _move_partitions(
        self, partitions: list[reference.Partition], target: PartitionState,
        strategy: Strategy | None,
    ) -> Happened:
        happened = Happened("move_partitions")
        machine = reference.PartitionStateMachine(self.ctx, self.used, happened.journal)
        try:
            happened.results = machine.handle(partitions, target, strategy)
        except reference.ControllerMovedError:
            happened.failure = Code.CONTROLLER_MOVED
        if "IllegalArgument" in happened.journal.batch_failures:
            happened.failure = Code.ILLEGAL_ARGUMENT
        if "Undecodable" in happened.journal.batch_failures:
            happened.failure = Code.UNDECODABLE
        happened.codes = machine.codes
        return happened

    def _on_broker_startup(self, brokers: dict[int, int]) -> Happened:
        return self.controller.on_broker_change(started=brokers)

    def _on_broker_failure(self, brokers: list[int]) -> Happened:
        return self.controller.on_broker_change(failed=brokers)

    def _alter_partition(self, broker: int, epoch: int, records: dict[Any, Any]) -> Happened:
        return self.controller.alter_partition(AlterRequest(broker, epoch, records))

    def _queue_topic_deletion(self, topics: list[str], begin: bool) -> Happened:
        self.ctx.queue_topic_deletion(topics)
        if begin:
            self.ctx.begin_topic_deletion(topics)
        return Happened("queue_topic_deletion")

    def _fault(self, op: str, fault: str, **where: Any) -> Happened:
        assert self.store is not None
        if op == "topic_config":
            self.store.config_faults |= set(where["topics"])
        else:
            self.store.fail(op, fault, where["partitions"], where["times"])
        return Happened("fault")

    def _heal(self) -> Happened:
        if self.store is not None:
            self.store.heal()
        return Happened("heal")

    def _store_delete(self, partition: reference.Partition) -> Happened:
        assert self.store is not None
        self.store.records.pop(partition, None)
        return Happened("store_delete")

    def _store_put(self, partition: reference.Partition, record: Any) -> Happened:
        assert self.store is not None
        self.store.records[partition] = record
        return Happened("store_put")

    def _other_controller(self) -> Happened:
        assert self.store is not None
        self.store.elect_controller()
        return Happened("other_controller")
