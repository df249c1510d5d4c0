"""How events are done to kfast, through its public interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kfast import Controller, PartitionStateMachine, ReplicaStateMachine
from kfast.errors import ArgumentError
from tests.support.event import Event
from tests.support.twin_state import put_record, state_of, store_of

from . import reference


@dataclass(frozen=True)
class Setting:
    """How kfast is run: none of it may change what happens."""

    layout: str = "narrow"
    threads: int = 1
    journal: str = "full"

    def __str__(self) -> str:
        return f"{self.layout}, {self.threads} threads, journal {self.journal}"


SETTINGS = (
    Setting(), Setting("wide", 2), Setting("narrow", 2, "counts"), Setting("wide", 1, "off"),
)


def racks_of(broker_ids: list[int]) -> pa.StringArray:
    """Racks that the brokers of a random cluster stand in; Kafka's own rules never ask."""
    return pa.array([f"rack {broker % 3}" for broker in broker_ids], pa.string())


class KfastRun:
    """kfast, and how events are done to it through its public interface."""

    def __init__(
        self, ctx: reference.Context, store: reference.TwinStore | None, setting: Setting,
        policy: Any = None,
    ) -> None:
        self.setting = setting
        self.state = state_of(ctx, setting.layout)
        self.store = None if store is None else store_of(ctx, store, self.state)
        options = {
            "journal": setting.journal, "threads": setting.threads, "profile": ctx.profile.name,
        }
        self.state.rack = racks_of(self.state.broker_id.tolist())
        self.controller = Controller(self.state, store=self.store, policy=policy, **options)
        self.replicas = ReplicaStateMachine(self.state, self.store, **options)
        self.partitions = PartitionStateMachine(
            self.state, self.store, policy=policy, **options
        )

    def apply(self, event: Event) -> Any:
        """Do one event."""
        own = getattr(self, f"_{event.name}", None)
        if own is not None:
            return own(**event.args)
        return getattr(self.controller, event.name)(*event.args.values())

    def _rows(self, partitions: Any) -> Any:
        return self.state.find_partitions(list(partitions))

    def _on_controller_failover(self, reassignments: Any) -> Any:
        return self.controller.on_controller_failover(reassignments=reassignments)

    def _on_broker_change(self, started: Any, bounced: Any, failed: Any) -> Any:
        return self.controller.on_broker_change(started=started, bounced=bounced, failed=failed)

    def _controlled_shutdown(self, broker: int, epoch: int) -> Any:
        return self.controller.controlled_shutdown(broker, broker_epoch=epoch)

    def _on_topic_change(self, created: Any, gone: list[str], configs: Any) -> Any:
        return self.controller.on_topic_change(created, gone=gone, configs=configs)

    def _elect_leaders(self, partitions: Any, kind: str, trigger: str) -> Any:
        return self.controller.elect_leaders(partitions, type=kind, trigger=trigger)

    def _rebalance_leaders(self, percentage: int) -> Any:
        return self.controller.rebalance_leaders(percentage=percentage)

    def _on_log_dir_failure(self, broker: int, offline: Any) -> Any:
        return self.controller.on_log_dir_failure(broker, self._rows(offline))

    def _on_leader_and_isr_response(self, broker: int, offline: Any, online: Any) -> Any:
        return self.controller.on_leader_and_isr_response(
            broker, offline=self._rows(offline), online=self._rows(online)
        )

    def _alter_partition(self, broker: int, epoch: int, records: dict[Any, Any]) -> Any:
        proposals = list(records.values())
        return self.controller.alter_partition(
            broker, epoch, self._rows(records), [r.leader_epoch for r in proposals],
            [list(r.isr) for r in proposals], [r.version for r in proposals],
            [r.recovery for r in proposals],
        )

    def _on_isr_change_notification(self, partitions: Any) -> Any:
        return self.controller.on_isr_change_notification(self._rows(partitions))

    def _on_partition_reassignment(self, partitions: Any) -> Any:
        return self.controller.on_partition_reassignment(self._rows(partitions))

    def _on_stop_replica_response(
        self, broker: int, partitions: Any, failed: Any, error: bool
    ) -> Any:
        return self.controller.on_stop_replica_response(
            broker, self._rows(partitions), failed=self._rows(failed), error=error
        )

    def _queue_topic_deletion(self, topics: list[str], begin: bool) -> None:
        self.state.queue_topic_deletion(topics)
        if begin:
            self.state.begin_topic_deletion(topics)

    def _move_replicas(self, replicas: Any, target: Any) -> Any:
        rows = self.state.find_replicas([(*p, b) for p, b in replicas])
        return self.replicas.handle_state_changes(rows, target)

    def _move_partitions(self, partitions: Any, target: Any, strategy: Any) -> Any:
        return self.partitions.handle_state_changes(self._rows(partitions), target, strategy)

    def _fault(self, op: str, fault: str, **where: Any) -> None:
        assert self.store is not None
        self.store.fail(op, fault, **where)

    def _heal(self) -> None:
        if self.store is not None:
            self.store.heal()

    def _store_delete(self, partition: reference.Partition) -> None:
        assert self.store is not None
        self.store.delete(*partition)

    def _store_put(self, partition: reference.Partition, record: Any) -> None:
        assert self.store is not None
        put_record(self.store, partition, record)

    def _other_controller(self) -> None:
        assert self.store is not None
        self.store.elect_controller()


class RowOrder:
    """The order of kfast's rows, which the twin follows where Kafka's order is a hash's."""

    def __init__(self, run: KfastRun) -> None:
        self.state = run.state

    def __call__(self, thing: str | reference.Partition) -> tuple[int, Any]:
        """Where a topic or a partition stands; those that kfast does not know come last."""
        try:
            if isinstance(thing, str):
                return int(self.state.find_topics([thing])[0]), thing
            return int(self.state.find_partitions([thing])[0]), thing
        except ArgumentError:
            return self.state.n_partitions, thing
