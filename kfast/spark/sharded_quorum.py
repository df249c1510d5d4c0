"""Events of a KRaft cluster in shards: the common events of all controllers, and elections.

Partitions are decided on one by one, but four things follow from all of them. The epoch of a broker
is the place of its registration in the log, behind the changes of all shards. A broker that leads
nothing anywhere is fenced at once when it shuts down. An operation of a user that would write more
than 10 000 records is refused as a whole. And where one partition cannot be built, by a fault, the
event writes nothing, and the controller resigns.

So where an event needs it, a pass of its own counts before the run; and a pass in which shards did
not end an event alike is repeated, with what was learned of how it ends.

Source: docs/kraft.md, sections 2, 6.4, 6.7, 7.2 and 7.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.controllers import QuorumController, QuorumEvents
from kfast.controllers.kraft.engine import MAX_RECORDS_PER_USER_OP
from kfast.controllers.kraft.faults import ApiError, Fault
from kfast.errors import InputError
from kfast.journal.quorum_outcome import QuorumOutcome
from kfast.schema import SHARDED_RECORDS, columns_of
from kfast.state import ClusterState
from kfast.state.metadata_records import (
    MetadataRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)

__all__ = [
    "CAUGHT_UP", "COUNTED_BEFORE", "ELECT", "RETURNED", "SHUT_DOWN", "EventCounts", "QuorumCall",
    "call_events", "changes_of", "check_events", "learn_endings", "record_rows", "with_offsets",
]

T = TypeVar("T")

CAUGHT_UP, ELECT = "caught_up", "elect_leaders"
SHUT_DOWN, RETURNED = "brokers_shut_down_in_order", "brokers_returned"

COUNTED_BEFORE = (SHUT_DOWN, RETURNED, ELECT)
"""Events that must know of all shards what only a pass before the run can count."""

BEGIN_SHUTDOWN, REGISTER = "begin_controlled_shutdown", "register_broker"
STEPS = (BEGIN_SHUTDOWN, REGISTER, "fence_broker", "unfence_broker", "alter_partition",
         ELECT)
"""Events of the controller that end early, in the order in which a common event has them."""

TOTALS = (
    "changes", "leaders_moved", "leaders_lost", "unclean_elections", "elr_elections",
    "last_known_leader_elections", "isr_shrinks", "isr_expansions",
)
"""Counts of an outcome that are sums over partitions."""


@dataclass(frozen=True)
class Ending:
    """How a step of an event ends early, in all shards.

    Attributes
    ----------
    step : str
        Event of the controller.
    occurrence : int
        How many such steps of the common event are before it.
    exception : ApiError or Fault
    """

    step: str
    occurrence: int
    exception: ApiError | Fault

    @property
    def place(self) -> tuple[int, int]:
        """The earlier the smaller: a common event has several steps, or one several times."""
        return self.occurrence, STEPS.index(self.step)


class ShardController(QuorumController):
    """The controller of a shard, whose steps end as they do in all shards together."""

    def begin(self, call: QuorumCall) -> None:
        """Begin a common event."""
        self.call = call
        self._n_steps: Counter[str] = Counter()
        if call.first_offset is not None:
            self.next_offset = call.first_offset

    def run(
        self, event: str, decide: Callable[[], T], *, is_user_op: bool = False
    ) -> QuorumOutcome:
        """Run a step, unless it is known how it ends."""
        occurrence = self._n_steps[event]
        self._n_steps[event] += 1
        ending = self.call.ending
        if ending is None or (ending.step, ending.occurrence) != (event, occurrence):
            return super().run(event, decide, is_user_op=is_user_op)

        def end() -> None:
            raise ending.exception

        return super().run(event, end)

    def _apply_record(self, record: MetadataRecord, offset: int) -> None:
        """Apply one other record; a registration is behind the changes of all shards."""
        if isinstance(record, RegisterBrokerRecord) and self.call.changes_before is not None:
            offset = self.next_offset + self.call.changes_before
        super()._apply_record(record, offset)


@dataclass(frozen=True)
class QuorumCall:
    """One event of all shards, and its argument.

    Attributes
    ----------
    first_offset : int or None
        Where its records begin in the log.
    changes_before : int or None
        Changes of partitions, in all shards, between that and the registration of a broker.
    leads : bool or None
        Whether the broker that shuts down in order leads a partition in any shard.
    ending : Ending or None
        How it ends early.
    """

    name: str
    argument: Any = None
    first_offset: int | None = None
    changes_before: int | None = None
    leads: bool | None = None
    ending: Ending | None = None

    @property
    def fault(self) -> str | None:
        """What the controller resigned by."""
        exception = None if self.ending is None else self.ending.exception
        return str(exception) if isinstance(exception, Fault) else None

    def happen(self, events: QuorumEvents) -> list[QuorumOutcome]:
        """Let it happen in a shard."""
        controller = events.controller
        assert isinstance(controller, ShardController)
        controller.begin(self)
        if self.name == ELECT:
            return [controller.elect_leaders(**(self.argument or {}))]
        if self.leads is None:
            arguments = () if self.argument is None else (self.argument,)
            happened = getattr(events, self.name)(*arguments)
        else:
            happened = events.shut_down(self.argument[0], leads=self.leads)
        return [event.outcome for event in happened]


@dataclass
class EventCounts:
    """What an event comes to in some shards.

    Attributes
    ----------
    changes : int
        Changes of partitions.
    changes_before : int
        Those of them that a registration makes.
    n_outcomes : int
        Of the shard that has most.
    shuts_down : bool
        Whether a controlled shutdown began.
    endings : list of (shard, Ending)
        Ends that a shard found by itself.
    """

    changes: int = 0
    changes_before: int = 0
    n_outcomes: int = 0
    shuts_down: bool = False
    endings: list[tuple[int, Ending]] = field(default_factory=list)

    def add(self, other: EventCounts) -> None:
        """Take in other shards."""
        self.changes += other.changes
        self.changes_before += other.changes_before
        self.n_outcomes = max(self.n_outcomes, other.n_outcomes)
        self.shuts_down |= other.shuts_down
        self.endings += other.endings


# --- in a task ---------------------------------------------------------------------------------


def call_events(
    calls: Sequence[QuorumCall], state: ClusterState, shard: int, journal: str
) -> Iterator[tuple[list[QuorumOutcome], EventCounts]]:
    """Let the events happen in a shard, up to one that ends in a way that is not known yet."""
    events = QuorumEvents(ShardController(state, journal=journal))
    for call in calls:
        outcomes = call.happen(events)
        counts = EventCounts(
            sum(outcome.counts.changes for outcome in outcomes),
            sum(outcome.counts.changes for outcome in outcomes if outcome.event == REGISTER),
            len(outcomes),
            any(outcome.event == BEGIN_SHUTDOWN for outcome in outcomes),
        )
        ending = _find_ending(outcomes)
        if ending is not None and (call.ending is None or ending.place < call.ending.place):
            counts.endings.append((shard, ending))
        yield outcomes, counts
        if counts.endings:
            return


def _find_ending(outcomes: Sequence[QuorumOutcome]) -> Ending | None:
    """How a shard ended an event, where all shards may not end it so."""
    seen: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.fault is not None:
            return Ending(outcome.event, seen[outcome.event], Fault(outcome.fault))
        if outcome.error == "POLICY_VIOLATION":
            return Ending(outcome.event, seen[outcome.event], ApiError(outcome.error))
        seen[outcome.event] += 1
    return None


def changes_of(at: int, name: str, outcome: QuorumOutcome) -> Counter[tuple[int, str, str, str]]:
    """Counts of an outcome: event, name, kind, item."""
    return Counter({(at, name, "total", item): getattr(outcome.counts, item) for item in TOTALS})


def record_rows(at: int, shard: int, outcome: QuorumOutcome) -> pa.Table:
    """Changes of partitions of a shard; records of brokers are the same in every shard."""
    records = outcome.records
    records = records.filter(pc.equal(records["type"], PartitionChangeRecord.__name__))
    columns = {
        **columns_of(records), "event": np.full(len(records), at, np.int32),
        "shard": np.full(len(records), shard, np.int32),
    }
    return SHARDED_RECORDS.table({name: columns[name] for name in SHARDED_RECORDS.schema.names})


# --- on the driver -----------------------------------------------------------------------------


def check_events(calls: Sequence[QuorumCall], brokers: ClusterState) -> None:
    """Let the events happen to a cluster of the brokers alone, which they change.

    Raises
    ------
    ArgumentError
        An argument is wrong, as a broker that is down already.
    """
    events = QuorumEvents(ShardController(brokers, journal="off"))
    for call in calls:
        call.happen(events)


def with_offsets(
    calls: Sequence[QuorumCall], counts: Sequence[EventCounts], brokers: ClusterState
) -> tuple[QuorumCall, ...]:
    """Events with what they must know of all shards, which were counted."""
    placed = list(calls)
    controller = ShardController(brokers.copy(), journal="off")
    events, offset = QuorumEvents(controller), controller.next_offset
    for at, call in enumerate(calls):
        leads = counts[at].shuts_down if call.name == SHUT_DOWN else None
        before = counts[at].changes_before
        placed[at] = replace(call, first_offset=offset, changes_before=before, leads=leads)
        records = sum(outcome.n_records for outcome in placed[at].happen(events))
        offset += counts[at].changes + records
    return tuple(placed)


def learn_endings(
    calls: Sequence[QuorumCall], counts: Sequence[EventCounts], files: Sequence[str],
    limits_records: bool,
) -> tuple[QuorumCall, ...] | None:
    """Events, the first of which ends in a way that not all shards knew; None where all did.

    Raises
    ------
    InputError
        Leaders report one by one who caught up, and one report is a fault: which of the others
        come before it, shards do not know.
    """
    for at, (call, counted) in enumerate(zip(calls, counts, strict=True)):
        ending = None
        if counted.endings:
            shard, ending = min(counted.endings, key=lambda item: (item[1].place, item[0]))
            if isinstance(ending.exception, Fault):
                if call.name == CAUGHT_UP and counted.n_outcomes > 1:
                    raise InputError(
                        f"event {call.name} ended with a fault in {files[shard]}: "
                        f"{ending.exception}; reports of leaders that come before it are not known"
                        " over files that go their own way"
                    )
                text = f"{Path(files[shard]).name}: {ending.exception}"
                ending = replace(ending, exception=Fault(text))
        elif call.name == ELECT and call.ending is None and limits_records and (
            counted.changes > MAX_RECORDS_PER_USER_OP
        ):
            ending = Ending(ELECT, 0, ApiError("POLICY_VIOLATION"))
        if ending is not None:
            leads = counted.shuts_down if call.name == SHUT_DOWN else None
            return (*calls[:at], replace(call, leads=leads, ending=ending), *calls[at + 1 :])
    return None
