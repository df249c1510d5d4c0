"""Runs events on the twin and on kfast, and compares them after each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from kfast import Controller, PartitionStateMachine, ReplicaStateMachine, invariants
from kfast.schema import Code, PartitionState, ReplicaState, Strategy

from . import reference
from .event_compare import counts_differ, journals_differ
from .random_clusters import random_context, store_like
from .random_events import Event, Generator
from .reference_alter import AlterRequest
from .reference_controller import Controller as TwinController
from .reference_outcome import Happened
from .twin_state import difference, put_record, state_of, store_differs, store_of

FAULTY = frozenset({
    "on_broker_change", "on_broker_failure", "on_broker_startup", "controlled_shutdown",
    "on_topic_change", "on_partition_modifications", "elect_leaders", "rebalance_leaders",
    "on_log_dir_failure", "on_leader_and_isr_response", "on_broker_log_dir_failure", "enable_unclean_leader_election",
    "move_replicas", "move_partitions", "alter_partition",
})
"""Events before which faults are injected: those that ask the store through the machines."""


class TwinRun:
    """The twin, and how events are done to it."""

    def __init__(self, ctx: reference.Context, store: reference.TwinStore | None) -> None:
        self.ctx, self.store = ctx, store
        self.used: reference.Store = reference.CacheStore(ctx) if store is None else store
        self.controller = TwinController(ctx, self.used)

    def apply(self, event: Event) -> Happened:
        """Do one event."""
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


class KfastRun:
    """kfast, and how events are done to it through its public interface."""

    def __init__(
        self, ctx: reference.Context, store: reference.TwinStore | None, setting: Setting
    ) -> None:
        self.setting = setting
        self.state = state_of(ctx, setting.layout)
        self.store = None if store is None else store_of(ctx, store, self.state)
        options = {"journal": setting.journal, "threads": setting.threads}
        self.controller = Controller(self.state, store=self.store, **options)
        self.replicas = ReplicaStateMachine(self.state, self.store, **options)
        self.partitions = PartitionStateMachine(self.state, self.store, **options)

    def apply(self, event: Event) -> Any:
        """Do one event."""
        return getattr(self, f"_{event.name}")(**event.args)

    def _rows(self, partitions: Any) -> Any:
        return self.state.find_partitions(list(partitions))

    def _on_controller_failover(self) -> Any:
        return self.controller.on_controller_failover()

    def _on_broker_change(self, started: Any, bounced: Any, failed: Any) -> Any:
        return self.controller.on_broker_change(started=started, bounced=bounced, failed=failed)

    def _on_broker_startup(self, brokers: dict[int, int]) -> Any:
        return self.controller.on_broker_startup(brokers)

    def _on_broker_failure(self, brokers: list[int]) -> Any:
        return self.controller.on_broker_failure(brokers)

    def _controlled_shutdown(self, broker: int, epoch: int) -> Any:
        return self.controller.controlled_shutdown(broker, broker_epoch=epoch)

    def _on_topic_change(self, created: Any, gone: list[str]) -> Any:
        return self.controller.on_topic_change(created, gone=gone)

    def _on_partition_modifications(self, topic: str, assignments: Any) -> Any:
        return self.controller.on_partition_modifications(topic, assignments)

    def _elect_leaders(self, partitions: Any, kind: str, trigger: str) -> Any:
        return self.controller.elect_leaders(partitions, type=kind, trigger=trigger)

    def _rebalance_leaders(self, percentage: int) -> Any:
        return self.controller.rebalance_leaders(percentage=percentage)

    def _on_broker_log_dir_failure(self, brokers: list[int]) -> Any:
        return self.controller.on_broker_log_dir_failure(brokers)

    def _on_log_dir_failure(self, broker: int, offline: Any) -> Any:
        return self.controller.on_log_dir_failure(broker, self._rows(offline))

    def _on_leader_and_isr_response(self, broker: int, offline: Any, online: Any) -> Any:
        return self.controller.on_leader_and_isr_response(
            broker, offline=self._rows(offline), online=self._rows(online)
        )

    def _alter_partition(self, broker: int, epoch: int, records: dict[Any, Any]) -> Any:
        asked = list(records.values())
        return self.controller.alter_partition(
            broker, epoch, self._rows(records), [r.leader_epoch for r in asked],
            [list(r.isr) for r in asked], [r.version for r in asked],
            [r.recovery for r in asked],
        )

    def _catch_up(self, brokers: list[int]) -> Any:
        return self.controller.catch_up(brokers)

    def _on_isr_change_notification(self, partitions: Any) -> Any:
        return self.controller.on_isr_change_notification(self._rows(partitions))

    def _enable_unclean_leader_election(self, topics: list[str] | None) -> Any:
        return self.controller.enable_unclean_leader_election(topics)

    def _queue_topic_deletion(self, topics: list[str], begin: bool) -> None:
        self.state.queue_topic_deletion(topics)
        if begin:
            self.state.begin_topic_deletion(topics)

    def _move_replicas(self, replicas: Any, target: Any) -> Any:
        found = self.state.find_replicas([(*p, b) for p, b in replicas])
        return self.replicas.handle_state_changes(found, target)

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


@dataclass
class Coverage:
    """How often each thing that can happen did happen."""

    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    elections: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    alter_codes: Counter[str] = field(default_factory=Counter)
    faults: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    def add(self, event: Event, happened: Happened, twin: TwinRun) -> None:
        """Count what one event did."""
        journal = happened.journal
        self.events[event.name] += 1
        self.cells.update(reference.matrix_cells(journal))
        for row in journal.elections:
            outcome = "unclean" if row["unclean"] else row["code"]
            self.elections[row["strategy"], outcome] += 1
        self.codes.update(row["code"] for row in journal.refusals)
        self.codes.update(Code(code).name for code in happened.codes.values())
        if happened.failure is not None:
            self.codes[happened.failure.name] += 1
        self.alter_codes.update(code.name for code in happened.alter_codes.values())
        if event.name == "alter_partition" and happened.error is not None:
            self.alter_codes[happened.error] += 1
        if twin.store is not None:
            self.faults.update(twin.store.faults_hit)
            twin.store.faults_hit.clear()


class DifferenceError(AssertionError):
    """The twin and kfast differ after an event."""


@dataclass
class Sequence:
    """One seeded cluster and its events."""

    seed: int
    with_store: bool
    settings: tuple[Setting, ...] = SETTINGS
    coverage: Coverage = field(default_factory=Coverage)
    log: list[str] = field(default_factory=list)

    def run(self, events: int) -> Coverage:
        """Run events; `DifferenceError` says where the twin and kfast part."""
        generator = Random(self.seed)
        ctx = random_context(generator)
        store = store_like(ctx) if self.with_store else None
        self.kfast = [KfastRun(ctx, store, setting) for setting in self.settings]
        self.twin = TwinRun(ctx, store)
        source = Generator(generator, ctx, store)
        self.step(source.failover(), 0)
        for number in range(1, events + 1):
            event = source.next()
            for fault in source.faults(event) if event.name in FAULTY else ():
                self.step(fault, number)
            self.step(event, number)
            self.step(Event("heal"), number)
        return self.coverage

    def step(self, event: Event, number: int) -> None:
        """Do one event to all, and compare."""
        if event.name != "heal":
            self.log.append(f"{number:4} {event}")
        happened = self.twin.apply(event)
        self.coverage.add(event, happened, self.twin)
        outcomes = [run.apply(event) for run in self.kfast]
        for run, outcome in zip(self.kfast, outcomes, strict=True):
            wrong = self.wrong(happened, run, outcome)
            if wrong is not None:
                raise DifferenceError(self.report(number, run, wrong))

    def wrong(self, happened: Happened, run: KfastRun, outcome: Any) -> str | None:
        """What differs after an event, if anything does."""
        first = self.kfast[0]
        if run is first:
            wrong = difference(self.twin.ctx, run.state)
            if wrong is None and run.store is not None and self.twin.store is not None:
                wrong = store_differs(self.twin.store, run.store)
            invariants.check(run.state, run.store)
        else:
            same = run.state.digest() == first.state.digest()
            wrong = None if same else f"digest: {first.state.difference(run.state)}"
        if wrong is None and self.twin.controller.gauges() != run.controller.gauges():
            wrong = (
                f"gauges: the twin has {self.twin.controller.gauges()}, "
                f"kfast has {run.controller.gauges()}"
            )
        if wrong is not None or outcome is None:
            return wrong
        return answers_differ(happened, run, outcome) or self.journal_wrong(happened, run, outcome)

    def journal_wrong(self, happened: Happened, run: KfastRun, outcome: Any) -> str | None:
        """Where the journal differs, at the level that it was kept at."""
        if run.setting.journal == "full":
            return journals_differ(happened.journal, self.twin.ctx.registered, outcome)
        if run.setting.journal == "counts":
            return counts_differ(happened.journal, outcome)
        return None

    def report(self, number: int, run: KfastRun, wrong: str) -> str:
        """What differs, what happened before, and the command that repeats it."""
        before = "\n".join(self.log[-6:])
        store = "" if self.with_store else " --no-store"
        return (
            f"seed {self.seed}, event {number} ({run.setting}): {wrong}\nlast events:\n{before}\n"
            f"repeat with: python -m tests.test_random_events --seed {self.seed} "
            f"--events {number}{store}"
        )


def in_row_order(happened: Happened, names: list[reference.Partition]) -> list[Code]:
    """Codes in kfast's order: of partitions as asked, of replicas by row and broker."""
    if happened.event == "move_partitions":
        return list(happened.codes.values())
    rows = {p: row for row, p in enumerate(names)}
    ordered = sorted(happened.codes, key=lambda r: (rows[r[0]], r[1]))
    return [happened.codes[r] for r in ordered]


def replies_of(outcome: Any) -> dict[reference.Partition, int | str]:
    """Leader or error by partition."""
    if outcome.event != "elect_leaders" or outcome.replies is None or outcome.error is not None:
        return {}
    return {
        (row["topic"], row["partition"]): row["error"] or row["leader"]
        for row in outcome.replies.to_pylist()
    }


def answers_differ(happened: Happened, run: KfastRun, outcome: Any) -> str | None:
    """Where what an event answers differs."""
    names = [
        (run.state.topic[int(t)].as_py(), int(p))
        for t, p in zip(run.state.topic_row, run.state.partition, strict=True)
    ]
    found: dict[str, Any] = {
        "failure": outcome.failure, "error": outcome.error,
        "remaining": sorted(names[row] for row in outcome.remaining),
        "replies": replies_of(outcome),
        "alter_codes": [int(code) for code in outcome.alter_codes],
    }
    wanted = {
        "failure": happened.failure, "error": happened.error,
        "remaining": sorted(happened.remaining), "replies": happened.replies,
        "alter_codes": [int(code) for code in happened.alter_codes.values()],
    }
    if happened.event in ("move_replicas", "move_partitions") and happened.failure is None:
        found["codes"] = [Code(code).name for code in outcome.codes]
        wanted["codes"] = [code.name for code in in_row_order(happened, names)]
    if happened.event == "catch_up":
        del found["alter_codes"], wanted["alter_codes"]
    if happened.event == "move_partitions" and happened.failure is None:
        found["results"] = int(np.count_nonzero(outcome.in_result))
        wanted["results"] = len(happened.results)
    for key, value in wanted.items():
        if found[key] != value:
            return f"{key}: the twin has {value}, kfast has {found[key]}"
    return None
