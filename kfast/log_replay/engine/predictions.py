"""From an outcome's tables to items and sendings: what the log may say of an event.

Source: docs/controller.md, section 2.3, for the record of a replica that leaves the ISR.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from kfast.controllers import Profile
from kfast.journal import Outcome
from kfast.journal.outcome import FULL_TABLES
from kfast.log_replay.events.events import LogEvent
from kfast.state import Leadership

Key = tuple[Any, ...]
Made = tuple[int, Key, int, dict[str, Any]]
Order = tuple[float, int]
Tables = dict[str, list[dict[str, Any]]]
Places = Mapping[tuple[str, int], int]

BEGINNING: Order = (-1, -1)
"""A place before all items."""

_RECORD = ("leader", "leader_epoch", "isr", "version", "controller_epoch", "replicas", "adding",
           "removing", "is_new", "recovery")
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
    time : int
        When the event began.
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
    time: int
    key: Key
    fields: dict[str, Any]
    serial: int = field(default_factory=itertools.count().__next__)
    is_stated: bool = False

    @property
    def order(self) -> Order:
        """Place among all items of the cluster."""
        return self.event.number, self.step

    def agreement(self, logged: Mapping[str, Any] | None) -> int:
        """How many values of a line are as predicted."""
        n, fields = 0, self.fields
        for name, value in (logged or {}).items():
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
    stops: dict[int, int] = field(default_factory=dict)
    deletes: dict[int, int] = field(default_factory=dict)

    @property
    def stopped(self) -> dict[int, int]:
        """How many replicas each broker stops, to be deleted or not."""
        return {
            broker: self.stops.get(broker, 0) + self.deletes.get(broker, 0)
            for broker in {*self.stops, *self.deletes}
        }

    @property
    def asked(self) -> set[tuple[str, int]]:
        """Kinds of requests, each with a broker that it went to."""
        kinds = {"LeaderAndIsr": self.leads, "UpdateMetadata": self.recipients,
                 "StopReplica": self.stopped}
        return {(kind, broker) for kind, brokers in kinds.items() for broker in brokers}


def tables_of(outcome: Outcome) -> Tables:
    """The rows of each of an outcome's tables."""
    return {name: outcome.rows(name) for name in FULL_TABLES}


def items_of(
    tables: Tables, outcome: Outcome, places: Places,
    known: Mapping[int, Leadership], epoch: int, leaders: Sequence[int], profile: Profile,
) -> Iterator[Made]:
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
    yield from _transitions(tables, places, all_online=not profile.batch_per_partition)
    yield from _elections(tables, places)
    yield from _not_needed(tables, places, leaders)
    yield from _refusals(tables, places)
    yield from _shrinks(tables, places, known, epoch)
    yield from _raised(tables, places, outcome.actions)
    up = {batch["step"]: frozenset(batch["registered"]) for batch in outcome.batches}
    yield from _requests(tables, places, up)
    if not profile.has_broker_epochs:  # Also those are logged whose broker is gone.
        yield from _unsent(tables, places, up)
    yield from _metadata(tables, places)


def _place(row: dict[str, Any], places: Places) -> int:
    return places.get((row["topic"], row["partition"]), -1)


def _transitions(tables: Tables, places: Places, *, all_online: bool) -> Iterator[Made]:
    """State changes; before 1.1 no line says that a replica of a partition without a record is up.

    Source: Kafka 1.0, ReplicaStateMachine.scala, `handleStateChange`.
    """
    led = {(row["step"], row["topic"], row["partition"])
           for row in tables["additions"] if row["kind"] == "LeaderAndIsr"}
    for row in tables["transitions"]:
        key: Key = ("moved", row["broker_id"], row["from_state"], row["to_state"])
        is_again = row["to_state"] == "OnlineReplica" and row["from_state"] != "NewReplica"
        if all_online or not is_again or (row["step"], row["topic"], row["partition"]) in led:
            yield _place(row, places), key, row["step"], {}


def _elections(tables: Tables, places: Places) -> Iterator[Made]:
    """Records of partitions that came Online, with the state they came from."""
    before = {
        (row["step"], row["topic"], row["partition"]): row["from_state"]
        for row in tables["transitions"] if row["broker_id"] is None
    }
    for row in tables["elections"]:
        if row["code"] not in ("ELECTED", "INITIALIZED"):
            continue
        state = before.get((row["step"], row["topic"], row["partition"]))
        fields = {name: row[name] for name in ("leader", "leader_epoch", "version", "recovery")}
        fields["isr"] = tuple(row["isr"])
        fields["leader_before"] = row["leader_before"]
        yield _place(row, places), ("led", state, "OnlinePartition"), row["step"], fields


def _not_needed(tables: Tables, places: Places, leaders: Sequence[int]) -> Iterator[Made]:
    """Partitions put Online without an election: their preferred replica leads (before 1.1)."""
    tried = {(row["step"], row["topic"], row["partition"]) for row in tables["elections"]}
    for row in tables["transitions"]:
        if row["broker_id"] is None and row["to_state"] == "OnlinePartition" and (
            (row["step"], row["topic"], row["partition"]) not in tried
        ):
            at = _place(row, places)
            key: Key = ("led", row["from_state"], row["to_state"])
            yield at, key, row["step"], {"leader": leaders[at] if at >= 0 else None}


def _refusals(tables: Tables, places: Places) -> Iterator[Made]:
    for row in tables["refusals"]:
        key: Key = ("failed", row["broker_id"], row["from_state"], row["to_state"])
        yield _place(row, places), key, row["step"], {"code": row["code"]}


def _shrinks(
    tables: Tables, places: Places, known: Mapping[int, Leadership], epoch: int
) -> Iterator[Made]:
    """Records after a replica became Offline: the additions of the same step, in order.

    Of a partition that is being deleted nobody is told, so no addition says them.
    """
    added: dict[tuple[int, str, int], list[dict[str, Any]]] = {}
    requested: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in tables["additions"]:
        if row["kind"] == "LeaderAndIsr":
            added.setdefault((row["step"], row["topic"], row["partition"]), []).append(row)
            requested.setdefault((row["topic"], row["partition"]), []).append(row)
    turn: dict[tuple[int, str, int], int] = {}
    stops = {
        (row["step"], row["topic"], row["partition"], row["broker_id"])
        for row in tables["requests"] if row["delete"] is False
    }
    begun: dict[tuple[int, str, int], Leadership] = {}
    latest: dict[int, tuple[int, Leadership]] = {}  # With the step that they are of.
    gone = [row for row in tables["transitions"]
            if row["broker_id"] is not None and row["to_state"] == "OfflineReplica"]
    leaving: dict[tuple[int, str, int], set[int]] = {}
    for row in gone:
        leaving.setdefault((row["step"], row["topic"], row["partition"]), set()).add(
            row["broker_id"]
        )
    for row in gone:
        name = (row["step"], row["topic"], row["partition"])
        number = turn.get(name, 0)
        turn[name] = number + 1
        records = added.get(name, [])
        at = _place(row, places)
        key: Key = ("shrunk", row["broker_id"])
        if number < len(records):
            fields = {key: records[number][key] for key in (
                "leader", "leader_epoch", "version", "controller_epoch", "recovery"
            )}
            fields["isr"] = tuple(records[number]["isr"])
            yield at, key, row["step"], fields
        others = leaving[name] - {row["broker_id"]}
        if at in known and (others or not records):
            if name not in begun:
                begun[name] = _record_before(
                    row["step"], requested.get(name[1:], ()), latest.get(at, (-1, known[at]))
                )
                latest[at] = row["step"], begun[name]
            stopped = (*name, row["broker_id"]) in stops
            for before, after in _in_any_order(begun[name], row["broker_id"], sorted(others)):
                yield at, key, row["step"], {**vars(after), "controller_epoch": epoch}
                if records and stopped:
                    yield at, ("stop_replica", row["broker_id"]), row["step"], {
                        "leader_epoch": before.leader_epoch, "delete": False
                    }
            if not records:
                latest[at] = row["step"], _without(latest[at][1], row["broker_id"])


def _record_before(
    step: int, additions: Sequence[dict[str, Any]], latest: tuple[int, Leadership]
) -> Leadership:
    """The record before a step: that which brokers were told since the latest known one, or it."""
    since = [row for row in additions if latest[0] <= row["step"] < step]
    return latest[1] if not since else Leadership(**{
        field.name: _value(since[-1][field.name]) for field in dataclasses.fields(Leadership)
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


def _raised(tables: Tables, places: Places, actions: Sequence[str]) -> Iterator[Made]:
    """Records whose leader epoch a reassignment raised."""
    for row in tables["additions"]:
        if row["kind"] == "LeaderAndIsr" and actions[row["step"]].endswith(RAISES):
            fields = {name: row[name] for name in ("leader_epoch", "version")}
            yield _place(row, places), ("raised",), row["step"], fields


def _requests(
    tables: Tables, places: Places, up: Mapping[int, frozenset[int]]
) -> Iterator[Made]:
    for row in tables["requests"]:
        at, broker = _place(row, places), row["broker_id"]
        if row["kind"] == "LeaderAndIsr":
            fields = {name: _value(row[name]) for name in _RECORD}
            fields["up"] = up.get(row["step"], frozenset())
            yield at, ("leader_and_isr", broker), row["step"], fields
        else:
            fields = {"leader_epoch": row["leader_epoch"], "delete": row["delete"]}
            yield at, ("stop_replica", broker), row["step"], fields


def _unsent(
    tables: Tables, places: Places, up: Mapping[int, frozenset[int]]
) -> Iterator[Made]:
    """LeaderAndIsr requests to brokers that are not registered."""
    found: dict[tuple[int, int, int], dict[str, Any]] = {}
    for row in tables["additions"]:
        if row["kind"] != "LeaderAndIsr":
            continue
        for broker in set(row["to"]) - up.get(row["step"], frozenset()):
            key = row["step"], _place(row, places), broker
            fields = {name: _value(row[name]) for name in _RECORD}
            fields["is_new"] = fields["is_new"] or found.get(key, fields)["is_new"]
            found[key] = {**fields, "up": up.get(row["step"], frozenset()), "unsent": True}
    for (step, at, broker), fields in found.items():
        yield at, ("leader_and_isr", broker), step, fields


def _metadata(tables: Tables, places: Places) -> Iterator[Made]:
    recipients: dict[int, list[int]] = {}
    for row in tables["update_metadata_brokers"]:
        recipients.setdefault(row["step"], []).append(row["broker_id"])
    for row in tables["update_metadata"]:
        fields = {name: _value(row[name]) for name in _METADATA}
        fields["brokers"] = tuple(sorted(recipients.get(row["step"], ())))
        yield _place(row, places), ("update_metadata",), row["step"], fields


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
        elif row["delete"]:
            sending.deletes[broker] = sending.deletes.get(broker, 0) + 1
        else:
            sending.stops[broker] = sending.stops.get(broker, 0) + 1
    for row in tables["update_metadata"]:
        found[row["step"]].n_partitions += 1
    for row in tables["update_metadata_brokers"]:
        found[row["step"]].recipients = (*found[row["step"]].recipients, row["broker_id"])
    moved = {first + row["step"] for name in ("transitions", "refusals") for row in tables[name]}
    return [sending for sending in found if sending.asked or sending.step in moved]
