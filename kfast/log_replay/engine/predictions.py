"""From an outcome's tables to items and sendings: what the log may say of an event.

Source: docs/controller.md, section 2.3, for the record of a replica that leaves the ISR.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from kfast.controllers import Profile
from kfast.journal import Outcome
from kfast.log_replay.events.events import LogEvent
from kfast.state import Leadership

Key = tuple[Any, ...]
Row = dict[str, Any]
Made = tuple[Row, Key, dict[str, Any]]
"""An item: a row of a table with its partition and step, and the key and the values."""

Order = tuple[float, int]
Tables = dict[str, list[Row]]
Places = Mapping[tuple[str, int], int]

BEGINNING: Order = (-1, -1)
"""A place before all items."""

_RECORD = ("leader", "leader_epoch", "isr", "version", "controller_epoch", "replicas", "adding",
           "removing", "is_new", "recovery")
_LEADERSHIP = tuple(field.name for field in dataclasses.fields(Leadership))
_RECORD_ELECTED = ("leader", "leader_epoch", "isr", "version", "recovery")
_METADATA = ("leader", "leader_epoch", "isr", "version", "controller_epoch", "replicas")

IN_ANY_ORDER = frozenset({"shrunk", "stop_replica"})
"""Items that stand for each order in which replicas may leave an ISR: one line takes them all."""

RAISES = "raise the leader epoch"
"""The action of a reassignment that does so."""


@dataclass
class Item:
    """One prediction about one row.

    Attributes
    ----------
    event : LogEvent
    step : int
    key : tuple
        What kind of line says it, of what.
    fields : dict
        Values.
    serial : int
        Which item it is, in all copies of a simulation.
    is_stated : bool
        Whether a line has taken it, in any of them.
    """

    event: LogEvent
    step: int
    key: Key
    fields: dict[str, Any]
    serial: int = field(default_factory=itertools.count().__next__)
    is_stated: bool = False

    @property
    def order(self) -> Order:
        """Place among all items of the cluster."""
        return self.event.number, self.step

    def agreement(self, logged: Mapping[str, Any]) -> int:
        """How many values of a line are as predicted."""
        n, fields = 0, self.fields
        for name, value in logged.items():
            n += fields.get(name) == value
        return n


order_of = attrgetter("order")

MOST_KEPT = 64
"""Items of one kind that are kept of a row: lines are about the latest."""


class RowItems:
    """The latest items of one row, by kind and in order, and which of them lines have taken.

    Copies share the items, which never change once their event is over; they do not share the
    marks in `takers`: brokers where each has a line of its own, else None, by an item's serial.
    """

    __slots__ = ("by_kind", "takers")

    def __init__(self) -> None:
        self.by_kind: dict[str, list[Item]] = {}
        self.takers: dict[int, set[int | None]] = {}

    def add(self, item: Item) -> None:
        """Add an item; the oldest of its kind are dropped, never those of its own event."""
        items = self.by_kind.setdefault(item.key[0], [])
        items.append(item)
        if len(items) > 2 * MOST_KEPT and items[-MOST_KEPT].event is not item.event:
            for old in items[:-MOST_KEPT]:
                self.takers.pop(old.serial, None)
            del items[:-MOST_KEPT]

    def of(self, kind: str) -> Sequence[Item]:
        """Items of a kind, the oldest first."""
        return self.by_kind.get(kind, ())

    def all(self) -> Iterator[Item]:
        """All items."""
        return itertools.chain.from_iterable(self.by_kind.values())

    def of_event(self, event: LogEvent) -> list[Item]:
        """Items of an event."""
        return [item for items in self.by_kind.values() for item in items if item.event is event]

    def drop(self, event: LogEvent, last: int) -> None:
        """Leave out what an event was to do after some step."""
        for items in self.by_kind.values():
            items[:] = [item for item in items if item.event is not event or item.step <= last]

    def replace(self, changed: Callable[[Item], Item]) -> None:
        """Put another item in the place of each."""
        self.by_kind = {kind: list(map(changed, items)) for kind, items in self.by_kind.items()}

    def copy(self) -> RowItems:
        """Make a copy whose lists and marks are its own."""
        other = RowItems()
        other.by_kind = {kind: list(items) for kind, items in self.by_kind.items()}
        other.takers = {serial: set(takers) for serial, takers in self.takers.items()}
        return other


@dataclass
class Sending:
    """What one step sent: one batch."""

    step: int
    leads: dict[int, tuple[int, int]] = field(default_factory=dict)
    recipients: tuple[int, ...] = ()
    n_partitions: int = 0
    stops: Counter[int] = field(default_factory=Counter)
    deletes: Counter[int] = field(default_factory=Counter)

    @property
    def stopped(self) -> Counter[int]:
        """How many replicas each broker stops, to be deleted or not."""
        return self.stops + self.deletes

    @property
    def asked(self) -> set[tuple[str, int]]:
        """Kinds of requests, each with a broker that it went to."""
        kinds = {"LeaderAndIsr": self.leads, "UpdateMetadata": self.recipients,
                 "StopReplica": self.stopped}
        return {(kind, broker) for kind, brokers in kinds.items() for broker in brokers}


def items_of(
    tables: Tables, outcome: Outcome, places: Places,
    known: Mapping[int, Leadership], epoch: int, leaders: Sequence[int], profile: Profile,
) -> Iterator[tuple[int, Key, int, dict[str, Any]]]:
    """Items of one event: row, key, step and values.

    Parameters
    ----------
    tables : dict
        Of the outcome.
    outcome : Outcome
    places : dict
        Rows by topic, as the state calls it, and partition.
    known : mapping of row to Leadership
        Records as they were before the event, of partitions that are being deleted or that lose
        several replicas at once.
    epoch : int
        Of the controller.
    leaders : sequence of int
        Leader of each row after the event.
    profile : Profile
    """
    up = {batch["step"]: frozenset(batch["registered"]) for batch in outcome.batches}
    for row, key, fields in itertools.chain(
        _transitions(tables, all_online=not profile.batch_per_partition),
        _elections(tables), _not_needed(tables, places, leaders), _refusals(tables),
        _shrinks(tables, places, known, epoch), _raised(tables, outcome.actions),
        _requests(tables, up),
        # Up to 2.1 also those are logged whose broker is gone.
        () if profile.has_broker_epochs else _unsent(tables, up),
        _metadata(tables),
    ):
        at = _place(row, places)
        if at >= 0:  # Else its row got another name within the event.
            yield at, key, row["step"], fields


def _place(row: Row, places: Places) -> int:
    return places.get((row["topic"], row["partition"]), -1)


def _in_step(row: Row) -> tuple[int, str, int]:
    """Step and partition of a row of a table."""
    return row["step"], row["topic"], row["partition"]


def _transitions(tables: Tables, *, all_online: bool) -> Iterator[Made]:
    """State changes; before 1.1 no line says that a replica of a partition without a record is up.

    Source: Kafka 1.0, ReplicaStateMachine.scala, `handleStateChange`.
    """
    led = {_in_step(row) for row in tables["additions"] if row["kind"] == "LeaderAndIsr"}
    for row in tables["transitions"]:
        key: Key = ("moved", row["broker_id"], row["from_state"], row["to_state"])
        is_again = row["to_state"] == "OnlineReplica" and row["from_state"] != "NewReplica"
        if all_online or not is_again or _in_step(row) in led:
            yield row, key, {}


def _elections(tables: Tables) -> Iterator[Made]:
    """Records of partitions that came Online, with the state they came from."""
    before = {_in_step(row): row["from_state"]
              for row in tables["transitions"] if row["broker_id"] is None}
    for row in tables["elections"]:
        if row["code"] not in ("ELECTED", "INITIALIZED"):
            continue
        key: Key = ("led", before.get(_in_step(row)), "OnlinePartition")
        yield row, key, {name: _value(row[name]) for name in _RECORD_ELECTED}


def _not_needed(tables: Tables, places: Places, leaders: Sequence[int]) -> Iterator[Made]:
    """Partitions put Online without an election: their preferred replica leads (before 1.1)."""
    tried = set(map(_in_step, tables["elections"]))
    for row in tables["transitions"]:
        if row["broker_id"] is None and row["to_state"] == "OnlinePartition" and (
            _in_step(row) not in tried
        ):
            key: Key = ("led", row["from_state"], row["to_state"])
            yield row, key, {"leader": leaders[_place(row, places)]}


def _refusals(tables: Tables) -> Iterator[Made]:
    for row in tables["refusals"]:
        yield row, ("failed", row["broker_id"], row["from_state"], row["to_state"]), {}


def _shrinks(
    tables: Tables, places: Places, known: Mapping[int, Leadership], epoch: int
) -> Iterator[Made]:
    """Records after a replica became Offline: the additions of the same step, in order.

    Of a partition that is being deleted nobody is told, so no addition says them.
    """
    added: dict[tuple[int, str, int], list[Row]] = {}
    requested: dict[int, list[Row]] = {}
    for row in tables["additions"]:
        if row["kind"] == "LeaderAndIsr":
            added.setdefault(_in_step(row), []).append(row)
            requested.setdefault(_place(row, places), []).append(row)
    following = {name: iter(rows) for name, rows in added.items()}
    stops = {(*_in_step(row), row["broker_id"])
             for row in tables["requests"] if row["delete"] is False}
    begun: dict[tuple[int, str, int], Leadership] = {}
    latest: dict[int, tuple[int, Leadership]] = {}  # With the step that they are of.
    gone = [row for row in tables["transitions"]
            if row["broker_id"] is not None and row["to_state"] == "OfflineReplica"]
    leaving: dict[tuple[int, str, int], set[int]] = {}
    for row in gone:
        leaving.setdefault(_in_step(row), set()).add(row["broker_id"])
    for row in gone:
        name, at, broker = _in_step(row), _place(row, places), row["broker_id"]
        key: Key = ("shrunk", broker)
        record = next(following.get(name, iter(())), None)
        if record is not None:
            yield row, key, {name: _value(record[name]) for name in _LEADERSHIP}
        others, is_told = leaving[name] - {broker}, name in added
        if at in known and (others or not is_told):
            if name not in begun:
                begun[name] = _record_before(
                    row["step"], requested.get(at, ()), latest.get(at, (-1, known[at]))
                )
                latest[at] = row["step"], begun[name]
            for before, after in _in_any_order(begun[name], broker, sorted(others)):
                yield row, key, {**vars(after), "controller_epoch": epoch}
                if is_told and (*name, broker) in stops:
                    fields = {"leader_epoch": before.leader_epoch, "delete": False}
                    yield row, ("stop_replica", broker), fields
            if not is_told:
                latest[at] = row["step"], _without(latest[at][1], broker)


def _record_before(
    step: int, additions: Sequence[Row], latest: tuple[int, Leadership]
) -> Leadership:
    """The record before a step: that which brokers were told since the latest known one, or it."""
    since = [row for row in additions if latest[0] <= row["step"] < step]
    return latest[1] if not since else Leadership(**{
        name: _value(since[-1][name]) for name in _LEADERSHIP
    })


def _in_any_order(
    record: Leadership, broker: int, others: list[int]
) -> Iterator[tuple[Leadership, Leadership]]:
    """Records that a replica may find and leave when several go at once, in hash order."""
    for n in range(len(others) + 1):
        for first in itertools.combinations(others, n):
            before = functools.reduce(_without, first, record)
            yield before, _without(before, broker)


def _without(record: Leadership, broker: int) -> Leadership:
    """A record without a replica; the last one stays in the ISR."""
    if broker not in record.isr:
        return record
    isr = tuple(b for b in record.isr if b != broker) or record.isr
    return dataclasses.replace(
        record, leader=-1 if record.leader == broker else record.leader, isr=isr,
        leader_epoch=record.leader_epoch + 1, version=record.version + 1,
    )


def _raised(tables: Tables, actions: Sequence[str]) -> Iterator[Made]:
    """Records whose leader epoch a reassignment raised."""
    for row in tables["additions"]:
        if row["kind"] == "LeaderAndIsr" and actions[row["step"]].endswith(RAISES):
            yield row, ("raised",), {name: row[name] for name in ("leader_epoch", "version")}


def _requests(tables: Tables, up: Mapping[int, frozenset[int]]) -> Iterator[Made]:
    for row in tables["requests"]:
        if row["kind"] == "LeaderAndIsr":
            yield row, ("leader_and_isr", row["broker_id"]), _lead(row, up)
        else:
            fields = {name: row[name] for name in ("leader_epoch", "delete")}
            yield row, ("stop_replica", row["broker_id"]), fields


def _unsent(tables: Tables, up: Mapping[int, frozenset[int]]) -> Iterator[Made]:
    """LeaderAndIsr requests to brokers that are not registered."""
    requests = {
        (_in_step(row), broker): row
        for row in tables["additions"] if row["kind"] == "LeaderAndIsr"
        for broker in set(row["to"]) - up.get(row["step"], frozenset())
    }
    for (_, broker), row in requests.items():
        yield row, ("leader_and_isr", broker), {**_lead(row, up), "unsent": True}


def _lead(row: Row, up: Mapping[int, frozenset[int]]) -> dict[str, Any]:
    """What a LeaderAndIsr request says, and which brokers were registered."""
    fields = {name: _value(row[name]) for name in _RECORD}
    return {**fields, "up": up.get(row["step"], frozenset())}


def _metadata(tables: Tables) -> Iterator[Made]:
    recipients: dict[int, list[int]] = {}
    for row in tables["update_metadata_brokers"]:
        recipients.setdefault(row["step"], []).append(row["broker_id"])
    for row in tables["update_metadata"]:
        fields = {name: _value(row[name]) for name in _METADATA}
        fields["brokers"] = tuple(sorted(recipients.get(row["step"], ())))
        yield row, ("update_metadata",), fields


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def sendings_of(tables: Tables, n_steps: int, first: int) -> list[Sending]:
    """Batch of each step from a number on: also an empty one, of transitions that ask nobody.

    A step without a partition or replica to move has no batch.
    """
    found = [Sending(first + step) for step in range(n_steps)]
    for row in tables["requests"]:
        sending, broker = found[row["step"]], row["broker_id"]
        if row["kind"] == "LeaderAndIsr":
            leads, follows = sending.leads.get(broker, (0, 0))
            is_leader = row["leader"] == broker
            sending.leads[broker] = (leads + is_leader, follows + (not is_leader))
        else:
            (sending.deletes if row["delete"] else sending.stops)[broker] += 1
    for row in tables["update_metadata"]:
        found[row["step"]].n_partitions += 1
    for row in tables["update_metadata_brokers"]:
        found[row["step"]].recipients = (*found[row["step"]].recipients, row["broker_id"])
    moved = {first + row["step"] for name in ("transitions", "refusals") for row in tables[name]}
    return [sending for sending in found if sending.asked or sending.step in moved]
