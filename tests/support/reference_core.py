"""What every event handler of the twin shares: the machines, the batch, how an event ends.

Source: docs/controller.md, section 6.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kfast.schema import AlterCode, Code, ReassignmentCode
from tests.support.reference_batch import RequestBatch
from tests.support.reference_context import Context, Partition, Record
from tests.support.reference_journal import Journal
from tests.support.reference_partitions import PartitionStateMachine
from tests.support.reference_replicas import ReplicaStateMachine
from tests.support.reference_store import ControllerMovedError, Store


@dataclass
class Happened:
    """What one event did: its journal, and what it answers."""

    event: str
    journal: Journal = field(default_factory=Journal)
    failure: Code | None = None
    replies: dict[Partition, int | str] = field(default_factory=dict)
    reassignment_codes: dict[Partition, ReassignmentCode] = field(default_factory=dict)
    marks: Counter[str] = field(default_factory=Counter)
    alter_codes: dict[Partition, AlterCode] = field(default_factory=dict)
    remaining: list[Partition] = field(default_factory=list)
    error: str | None = None
    codes: dict[Any, Code] = field(default_factory=dict)
    results: dict[Partition, Record | Code] = field(default_factory=dict)

    @property
    def apart(self) -> bool:
        """Whether kfast takes steps together that Kafka takes one after another.

        It reassigns many partitions phase by phase, and takes the replicas of all topics away whose
        deletion is finished.
        """
        several = self.marks["deletion finished"] > 1
        apart = any(mark.endswith("one by one") for mark in +self.marks)
        return several or apart or any(mark.startswith("reassignment") for mark in self.marks)


class EventFailedError(Exception):
    """A handler raised: the event ends, what it did so far stays (section 6.0)."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


def as_named(name: Any) -> Any:
    """The order of names themselves."""
    return name


@dataclass
class Core:
    """The controller without its events.

    Kafka goes through sets of partitions and topics in the order of their hashes; here it is the
    order of `rank`, which sorts by name unless somebody asks for another.
    """

    ctx: Context
    store: Store
    active: bool = True
    now: Happened = field(default_factory=lambda: Happened(""))
    legacy_node: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    client_calls: list[list[Any]] = field(default_factory=list)
    rank: Callable[[Any], Any] = as_named

    def event(
        self, name: str, body: Callable[[], None], inactive: str = "NOT_CONTROLLER"
    ) -> Happened:
        """Only the active controller acts; one that finds itself replaced stops, resigns.

        Source: section 6.0.
        """
        self.now = Happened(name)
        if not self.active:
            self.now.error = inactive
            return self.now
        try:
            body()
        except ControllerMovedError:
            self.now.failure = Code.CONTROLLER_MOVED
            self.active = False
        except EventFailedError as failed:
            self.now.error = failed.error
        return self.now

    def mark(self, what: str) -> None:
        """Note that something happened, so that tests can say that it did."""
        self.now.marks[what] += 1

    def replicas(self) -> ReplicaStateMachine:
        """The replica state machine, its journal that of the event."""
        return ReplicaStateMachine(self.ctx, self.store, self.now.journal)

    def partitions(self) -> PartitionStateMachine:
        """The partition state machine, its journal that of the event."""
        return PartitionStateMachine(self.ctx, self.store, self.now.journal)

    def send(self, fill: Callable[[RequestBatch], None]) -> None:
        """Section 6.0: open the controller's own batch, add, send."""
        self.now.journal.step += 1
        batch = RequestBatch(self.ctx)
        fill(batch)
        self.now.journal.added(batch.additions)
        self.now.journal.send(batch.send(self.ctx.epoch))

    def send_update_metadata(
        self, brokers: Iterable[int], partitions: Iterable[Partition]
    ) -> None:
        """Section 6.0, Send UpdateMetadata."""
        self.send(lambda batch: batch.add_update_metadata(brokers, partitions))
