"""Simulation: events go through `kfast.Controller`; what it predicts is kept as items.

An item is one thing that the log may say of one row: a transition, a record, a request. Lines take
items; nothing is compared here.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import bisect
import copy
import dataclasses
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.controllers import Controller, Profile
from kfast.journal import Outcome
from kfast.journal.outcome import FULL_TABLES
from kfast.log_replay.engine.predictions import (
    BEGINNING,
    IN_ANY_ORDER,
    Item,
    Key,
    Order,
    RowItems,
    Sending,
    items_of,
    order_of,
    sendings_of,
)
from kfast.log_replay.engine.rows import (
    COUNTED,
    UNKNOWN_EPOCH,
    Possibility,
    plain_topic,
    row_of,
    with_states,
)
from kfast.log_replay.events.events import BEING_DELETED, MOVES, POINTS, TIE_MS, LogEvent
from kfast.log_replay.wording.values import Partition
from kfast.state import Assignment, ClusterState, Leadership, mutators

MOST_RAN = 256
"""Events that ran and are kept: lines are about the latest."""

RESUMES = frozenset({"failover", "brokers", "isr"})
"""Events after which reassignments go on."""

DECIDED = frozenset({"led", "shrunk", "raised"})
"""Items that say what was written of a record."""

Stored = tuple[Leadership, Assignment]
"""What the store has of a partition."""

LEVEL_OF_DECIDED = DECIDED | {"moved", "leader_and_isr"}
"""Items whose lines are at the level of those, or below it."""

RECORD_FIELDS = ("leader", "leader_epoch", "isr", "version")

NO_CONTROLLER: Mapping[str, Any] = {}
"""Of a line that does not say whose request it is about."""

NO_ITEMS = RowItems()
"""Of a row that nothing is predicted of; never changed."""


@dataclass
class Ran:
    """An event that ran.

    `outcomes` and `made`, the items with their rows, are there until the next event runs.
    `balanced` are the partitions of each step of a check for unbalanced leaders, `last_members`
    those of whose ISR another member stays than by the rule, as later lines tell. `received` has
    the steps of the requests of a kind, by broker and number of partitions.
    """

    event: LogEvent
    outcomes: list[Outcome]
    sendings: list[Sending]
    made: list[tuple[int, Item]] = field(default_factory=list)
    balanced: list[frozenset[Partition]] = field(default_factory=list)
    last_members: tuple[Partition, ...] = ()
    received: dict[str, dict[tuple[int, int], list[int]]] = field(default_factory=dict)


class Simulation:
    """A cluster under replay.

    Parameters
    ----------
    profile : str or Profile
        Which controller.
    unclean : mapping of str to int
        Topics whose own configuration enables unclean elections, since which line.
    """

    def __init__(
        self, profile: str | Profile, unclean: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.profile = profile
        self.unclean = unclean
        self.at = 0
        """Line with which the event begins that runs, or has run last."""
        self.state = ClusterState.from_tables(cluster=None)
        self.rows: dict[Partition, list[int]] = {}
        self.possibility: list[Possibility] = []
        self.items: dict[int, RowItems] = {}
        self.ran: list[Ran] = []
        self.begins: dict[tuple[int, int | None], float] = {}
        """Number of the first event of each controller and controller epoch, in any copy."""
        self.asked_to_lead: list[tuple[LogEvent, frozenset[int]]] = []
        self.leaders_before: dict[int, int] = {}
        self.leaders_at_start: list[int] = []
        self.records_before: dict[int, Leadership] = {}
        self.imbalance: dict[int, float] = {}
        self.alone = True
        self.freed: dict[Partition, list[int]] = {}
        self.vacant: set[int] = set()
        self.queued_before: frozenset[str] = frozenset()
        self.queued_at_start: frozenset[str] = frozenset()
        self.shutting_at_start: frozenset[int] = frozenset()
        self.moving_at_start: frozenset[str] = frozenset()
        self.hidden = 0
        self.written: list[int] = []
        self.heard: set[tuple[str, int]] = set()
        self.targets: dict[Partition, tuple[int, ...]] = {}
        self.stored = np.zeros((0, 2), np.int64)
        self.unread: dict[int, Leadership] = {}
        self.late: dict[int, Leadership] = {}
        """Records that leaders write within the next event, once it has read those before."""
        self.cut: tuple[LogEvent, dict[tuple[str, int], Stored]] | None = None
        self.controller = self._controller()

    def _controller(self) -> Controller:
        return Controller(self.state, journal="full", profile=self.profile)

    # --- rows -----------------------------------------------------------------------------------

    def row_of(self, possibility: Possibility) -> dict[str, Any]:
        """A partition as it was adopted last, as a row of a table; in mid-term with its states."""
        start = possibility.starts[-1]
        row, fields = row_of(possibility, start), start.point.fields
        if start.point.kind != "resume":
            return row
        registered = self.registered if fields["registered"] is None else fields["registered"]
        topic = possibility.partition[0]
        return with_states(row, set(registered) or set(start.replicas), {
            broker: state for (partition, broker), (state, _) in fields["states"].items()
            if partition == possibility.partition
        }, is_deleted=any(
            state in BEING_DELETED for ((name, _), _), (state, _) in fields["states"].items()
            if name == topic
        ))

    def rebuild(
        self, dropped: set[int], added: Sequence[tuple[Possibility, dict[str, Any]]]
    ) -> dict[int, int]:
        """Make the state anew without some rows and with others.

        Rows get the topics of their possibilities, where these have changed.

        Returns
        -------
        dict
            New number of each row that was kept; the added ones follow.
        """
        tables, place = self.state.to_tables(), self.places()
        kept = [row for row in place if row not in dropped]
        partitions = tables.partitions.take(pa.array([place[row] for row in kept], pa.int64()))
        if added:
            rows = [row for _, row in added]
            columns = [f for f in schema.PARTITIONS_SCHEMA if any(f.name in row for row in rows)]
            partitions = pa.concat_tables(
                [partitions, pa.Table.from_pylist(rows, pa.schema(columns))],
                promote_options="default",
            )
        old = {row: at for at, row in enumerate(kept)}
        chosen = [self.possibility[row] for row in kept] + [possibility for possibility, _ in added]
        renamed = {
            topic: possibility.topic for topic, possibility
            in zip(partitions.column("topic").to_pylist(), chosen, strict=True)
        }
        names = pa.array([possibility.topic for possibility in chosen], pa.string())
        partitions = partitions.set_column(
            partitions.schema.get_field_index("topic"), "topic", names
        )
        topics = _renamed(tables.topics, renamed)
        if self.cut is not None:
            self.cut = self.cut[0], {
                (renamed.get(topic, topic), number): stored
                for (topic, number), stored in self.cut[1].items()
            }
        unclean = self.state.default_unclean_leader_election
        targets, queued = self.state.reassignment_targets, self.queued
        self.state = ClusterState.from_tables(tables.brokers, topics, partitions, tables.cluster)
        self.state.reassignment_targets = {
            old[row]: ids for row, ids in targets.items() if row in old
        }
        self.state.default_unclean_leader_election = unclean
        self.controller = self._controller()
        self.items = {old[row]: items for row, items in self.items.items() if row in old}
        self.unread = {old[row]: record for row, record in self.unread.items() if row in old}
        self.late = {old[row]: record for row, record in self.late.items() if row in old}
        self.leaders_before = {
            old[row]: leader for row, leader in self.leaders_before.items() if row in old
        }
        leaders = self.leaders_at_start
        self.leaders_at_start = [leaders[row] for row in kept] if len(leaders) > max(
            kept, default=-1) else []
        stored, self.stored = self.stored, self._counts()
        self.stored[: len(kept)] = stored[kept]
        self._configure()
        self._name(chosen)
        self.queue(queued)
        self.vacant, self.freed = set(), {}
        return old

    def queue(self, topics: Collection[str]) -> None:
        """Queue all rows of some topics for deletion; it has started where replicas tell."""
        rows = {row: one.topic for row, one in self.existing() if one.partition[0] in topics}
        if rows:
            self.state.queue_topic_deletion(sorted(set(rows.values())))
            self.state.begin_topic_deletion(sorted({
                topic for row, topic in rows.items()
                if not BEING_DELETED.isdisjoint(self.state.replica_states_of(row).values())
            }))

    def move(self, targets: Mapping[Partition, tuple[int, ...]]) -> None:
        """Have reassignments of partitions under way that are not, up to 2.3."""
        state = self.state
        for partition, target in targets.items():
            self.targets.setdefault(partition, target)
            for row in self.rows_of(partition):
                if row not in self.waiting:
                    self.waiting[row] = target
                    state.records["flags"][row] |= schema.FLAG_BEING_REASSIGNED
        state.n_reassigned = max(state.n_reassigned, len(self.waiting))

    def _configure(self) -> None:
        """Give topics their own configuration."""
        if not self.unclean:
            return
        there = self.state.topic_exists.tolist()
        names = [
            name for name, exists in zip(self.state.topic.to_pylist(), there, strict=True)
            if exists and self.unclean.get(plain_topic(name), math.inf) <= self.at
        ]
        if names:
            self.state.set_unclean_leader_election(True, names)

    def existing(self) -> Iterator[tuple[int, Possibility]]:
        """Rows that are not free."""
        return ((row, self.possibility[row]) for rows in self.rows.values() for row in rows)

    def places(self) -> dict[int, int]:
        """Where each row that is not free stands in the Arrow table of partitions."""
        used = np.flatnonzero(self.state.partition >= 0).tolist()
        return {row: at for at, row in enumerate(used)}

    def _name(self, chosen: list[Possibility]) -> None:
        self.possibility = chosen
        self.rows = {}
        for row, possibility in enumerate(chosen):
            if self.state.partition[row] >= 0:
                self.rows.setdefault(possibility.partition, []).append(row)

    def _note_new_rows(self, event: LogEvent) -> None:
        """Take up rows that an event created, and forget those it freed.

        A row that was free stands for another partition, even if its name is the same.
        """
        state = self.state
        n_rows = len(self.possibility)
        for row in range(n_rows, state.n_partitions):
            self.possibility.append(self._created(row, event))
        was_vacant, self.vacant = self.vacant, set(state.free_rows.tolist())
        for row in was_vacant - self.vacant:
            self.possibility[row] = self._created(row, event)
            self.items.pop(row, None)
        if was_vacant != self.vacant or len(self.possibility) > n_rows:
            self._name(self.possibility)
        self.freed = {}
        unassigned = np.flatnonzero(state.records["flags"] & schema.FLAG_ASSIGNED == 0).tolist()
        for row in sorted(unassigned, key=was_vacant.__contains__):  # What it freed comes first.
            self.freed.setdefault(self.possibility[row].partition, []).append(row)

    def _created(self, row: int, event: LogEvent) -> Possibility:
        """A partition that an event created."""
        name = self.state.topic[int(self.state.topic_row[row])].as_py()
        return Possibility((name, int(self.state.partition[row])), 0, creation=event)

    def note_writes(self) -> None:
        """Remember which controller wrote each record last.

        A controller that finds a replica out of the ISR anyway takes the record over in its cache
        only; the next controller reads what is stored.
        """
        now = self._counts()
        before = np.full_like(now, -1)
        before[: len(self.stored)] = self.stored
        self.stored = np.where(now[:, :1] != before[:, :1], now, before)
        if not self.controller.profile.has_alter_partition:
            taken_over = np.flatnonzero(self.stored[:, 1] != now[:, 1]).tolist()
            for row in taken_over:  # Without writing: the stored epoch is older.
                record = self.state.leadership(row)
                if record is not None and row not in self.unread:
                    self.unread[row] = dataclasses.replace(
                        record, controller_epoch=int(self.stored[row, 1])
                    )

    def _counts(self) -> npt.NDArray[np.int64]:
        """Version and controller epoch of each row's cached record; -1 where there is none."""
        records = self.state.records
        counts = np.stack([records["version"], records["controller_epoch"]], 1).astype(np.int64)
        counts[(records["flags"] & schema.FLAG_HAS_LEADERSHIP) == 0] = -1
        return counts

    def read_records(self) -> None:
        """What a new controller reads: the records and controller epochs that are stored."""
        self.state.records["controller_epoch"] = self.stored[:, 1]
        for row, record in self.unread.items():
            self.store(row, record)
        self.unread = {}
        self.note_writes()

    def note_cut(self, event: LogEvent) -> None:
        """Take down what is stored before an event within which the controller may have died."""
        self.cut = event, {
            (possibility.topic, possibility.partition[1]): (record, self.state.assignment(row))
            for row, possibility in self.existing()
            if (record := self.stored_record(row)) is not None
        }

    def undo_cut(self) -> None:
        """Undo what a controller decided last and has not written down: it died before.

        That counts where its log has decisions at that level.
        """
        if self.cut is None:
            return
        (event, before), self.cut = self.cut, None
        if not any(
            item.is_stated and item.event.term is event.term and item.key[0] in LEVEL_OF_DECIDED
            for some in self.items.values() for item in some.all()
        ):
            return
        for row, possibility in self.existing():
            key, now = (possibility.topic, possibility.partition[1]), self.stored_record(row)
            if key not in before or now is None:
                continue
            record, assignment = before[key]
            if event.fields.get("unstored") == possibility.partition:
                self.state.set_assignment(row, *dataclasses.astuple(assignment))
            if now.version == record.version:
                continue
            decided = sorted((
                item for item in self.items.get(row, NO_ITEMS).of_event(event)
                if item.key[0] in DECIDED and "version" in item.fields
            ), key=lambda item: (item.step, item.fields["version"]))
            if not decided or decided[-1].is_stated:
                continue
            for item in decided:  # Who finds a replica out of the ISR writes nothing.
                if item.is_stated and item.fields["version"] > record.version:
                    changes = {name: item.fields[name] for name in RECORD_FIELDS
                               if name in item.fields}
                    record = dataclasses.replace(
                        record, controller_epoch=now.controller_epoch, **changes
                    )
            self.unread.pop(row, None)
            self.store(row, record)
        last = max((item.step for some in self.items.values() for item in some.of_event(event)
                    if item.is_stated), default=-1)
        for items in self.items.values():
            items.drop(event, last)

    def stored_record(self, row: int) -> Leadership | None:
        """The record of a row as the store has it."""
        return self.unread.get(row) or self.state.leadership(row)

    def set_record(self, row: int, record: Leadership) -> None:
        """Give a row another record, in the store and in the controller's cache."""
        self.state.set_leadership(row, **vars(record))

    def store(self, row: int, record: Leadership) -> None:
        """Give a row another record, as its controller has written it."""
        self.set_record(row, record)
        self.stored[row] = record.version, record.controller_epoch

    def preferred(self, row: int) -> int:
        """Id of a row's preferred replica; -1 where it has none."""
        return next(iter(self.state.assignment(row).replicas), -1)

    def is_led(self, row: int) -> bool:
        """Whether a row has a cached record."""
        return bool(int(self.state.records["flags"][row]) & schema.FLAG_HAS_LEADERSHIP)

    def is_assigned(self, row: int) -> bool:
        """Whether a row is there, and not only what a deleted topic's reassignment leaves."""
        return bool(int(self.state.records["flags"][row]) & schema.FLAG_ASSIGNED)

    def rows_led_if_preferred(self, broker: int) -> list[int]:
        """Rows with a record whose preferred replica a broker is, but of queued topics."""
        state, records = self.state, self.state.records
        present = schema.FLAG_ASSIGNED | schema.FLAG_HAS_LEADERSHIP
        chosen = (state.replicas[:, :1] == state.broker_row(broker)).any(axis=1)
        chosen &= ((records["flags"] & present) == present) & (records["n_replicas"] > 0)
        chosen &= ~state.topic_queued_for_deletion[state.topic_row]
        rows: list[int] = np.flatnonzero(chosen).tolist()
        return rows

    @property
    def queued(self) -> frozenset[str]:
        """Topics that are queued for deletion."""
        rows = np.flatnonzero(self.state.topic_queued_for_deletion).tolist()
        return frozenset(plain_topic(self.state.topic[row].as_py()) for row in rows)

    @property
    def moving(self) -> list[int]:
        """Rows that are being reassigned, or will be once a controller reads what is stored."""
        records = self.state.records
        changes = (records["adding"] != 0) | (records["removing"] != 0)
        rows: list[int] = np.flatnonzero(
            changes | (records["flags"] & schema.FLAG_BEING_REASSIGNED != 0)
        ).tolist()
        return rows

    @property
    def waiting(self) -> dict[int, tuple[int, ...]]:
        """Targets of reassignments that are under way, by row, where they are kept apart."""
        return self.state.reassignment_targets

    def leaders(self) -> list[int]:
        """Id of each row's leader; -1 for none."""
        leader = self.state.records["leader"]
        ids: list[int] = np.append(self.state.broker_id, -1)[np.maximum(leader, -1)].tolist()
        return ids

    def begin(self, event: LogEvent) -> None:
        """Take down what an event may change, before it does."""
        state, self.at = self.state, event.at
        self._configure()
        if event.kind != "caught_up":  # The ISR change before it may have done all of it.
            self.leaders_at_start = self.leaders()
        self.queued_at_start = self.queued
        self.shutting_at_start = frozenset(self.shutting_down)
        moving = self.moving
        stored = [row for row in moving
                  if self.is_assigned(row) and state.assignment(row).being_reassigned]
        self.moving_at_start = frozenset(
            partition[0] for partition in (
                *(self.possibility[row].partition for row in {*stored, *self.waiting}),
                *event.fields.get("moving", ()),
            )
        )
        changed: list[int] = []
        if event.kind == "failover" and event.fields["registered"] is not None:
            changed += self._doubly_dead(set(event.fields["registered"]))
        elif event.kind == "brokers" and len(event.fields["deleted"]) > 1:
            changed += self._doubly_dead(self.registered - set(event.fields["deleted"]))
        if event.kind in MOVES | RESUMES:
            changed += moving
            changed += [row for p in event.fields.get("targets", ()) for row in self.rows_of(p)]
        names = set(event.fields["topics"] if event.kind == "delete" else
                    event.fields.get("to_delete") or ())
        if names or state.any_queued:
            queued = state.topic_queued_for_deletion
            changed += [row for row, possibility in self.existing()
                        if possibility.partition[0] in names or queued[state.topic_row[row]]]
        self.records_before = {
            row: record for row in changed if (record := self.stored_record(row)) is not None
        }

    def _doubly_dead(self, registered: set[int]) -> list[int]:
        """Rows of which several dead replicas are taken out."""
        state = self.state
        dead = ~np.isin(state.broker_id, list(registered))
        assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, np.newaxis]
        n_dead = (assigned & dead[np.where(assigned, state.replicas, 0)]).sum(axis=1)
        rows: list[int] = np.flatnonzero((n_dead > 1) & (state.partition >= 0)).tolist()
        return rows

    def rows_of(self, partition: Partition) -> list[int]:
        """Rows of a partition that are there."""
        return [row for row in self.rows.get(partition, ()) if self.is_assigned(row)]

    @property
    def registered(self) -> set[int]:
        """Ids of registered brokers."""
        return set(self.state.broker_id[self.state.registered].tolist())

    @property
    def shutting_down(self) -> set[int]:
        """Ids of brokers in controlled shutdown."""
        return set(self.state.broker_id[self.state.shutting_down].tolist())

    @property
    def live(self) -> set[int]:
        """Ids of brokers that are registered and not in controlled shutdown."""
        return self.registered - self.shutting_down

    @property
    def last_event(self) -> LogEvent | None:
        """The last event that ran."""
        return self.ran[-1].event if self.ran else None

    def copy(self) -> Simulation:
        """Make an independent copy."""
        other = copy.copy(self)
        other.state = self.state.copy()
        other.controller = other._controller()
        other.rows = {partition: list(rows) for partition, rows in self.rows.items()}
        other.possibility = [
            dataclasses.replace(p, starts=list(p.starts)) for p in self.possibility
        ]
        other.items = {row: items.copy() for row, items in self.items.items()}
        other.cut = None if self.cut is None else (self.cut[0], dict(self.cut[1]))
        for name in ("ran", "asked_to_lead", "stored", "unread", "heard", "targets"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    # --- items ----------------------------------------------------------------------------------

    def take(
        self, row: int, key: Key, time: int, term: int, logged: dict[str, Any] | None = None,
        by: int | None = None,
    ) -> dict[str, Any] | None:
        """Values of the item that a line of some time is about; None where there is none.

        `by` is the broker where each that is told has a line of its own.
        """
        items = self.items.get(row, NO_ITEMS)
        logged = self.comparable(row, logged or {})
        oldest = min((ran.event.number for ran in self.window(time, term)), default=math.inf)
        best: Item | None = None
        best_score = (False, -1)
        for item in reversed(items.of(key[0])):
            if item.event.number < oldest:
                break
            if item.key != key:
                continue
            score = (by not in items.takers.get(item.serial, ()), item.agreement(logged))
            if score > best_score or (score == best_score and not _is_later(item, best)):
                best, best_score = item, score
        if best is None:
            return None
        for item in items.of(key[0]) if key[0] in IN_ANY_ORDER else (best,):
            if (item.order, item.key) == (best.order, key):
                items.takers.setdefault(item.serial, set()).add(by)
        best.is_stated = True
        return best.fields

    def comparable(self, row: int, logged: dict[str, Any]) -> dict[str, Any]:
        """Values of a line to compare items with.

        A count from an unknown start tells them apart once other lines have told the start.
        """
        possibility = self.possibility[row]
        is_unknown = dict(zip(COUNTED.values(), possibility.unknown(), strict=True))
        values = {}
        for name, value in logged.items():
            kind = COUNTED.get(name, "")
            offset = possibility.offset(kind) if is_unknown.get(kind) else None
            if not is_unknown.get(kind) or (kind == "record_epoch" and (
                value != possibility.resumed_epoch if offset is None
                else value - offset != UNKNOWN_EPOCH
            )):  # Of a controller epoch: a controller has written it since.
                values[name] = value
            elif offset is not None:
                values[name] = value - offset
        return values

    def window(self, time: int, term: int) -> Iterator[Ran]:
        """Events of a term that a line of some time may be about, the latest first."""
        for ran in reversed(self.ran):
            if id(ran.event.term) == term:
                yield ran
                if ran.sendings and time - ran.event.time > TIE_MS:
                    return

    def items_of(self, row: int, kind: str) -> Sequence[Item]:
        """The latest items of a row of some kind, the oldest first."""
        return self.items.get(row, NO_ITEMS).of(kind)

    def requests(
        self, row: int, kind: str, broker: int | None = None,
        of: Mapping[str, Any] = NO_CONTROLLER, after: Order = BEGINNING, *, unsent: bool = False,
    ) -> Iterator[Item]:
        """Requests about a row, to a broker or to all, the oldest first.

        `of` may name the controller and the controller epoch that sent them, `after` the place
        behind which they begin; `unsent`: also those to brokers that are gone.
        """
        controller, epoch = of.get("controller"), of.get("controller_epoch")
        if controller is not None and epoch is not None:
            after = max(after, (self.begins.get((controller, epoch), math.inf), -1))
        items = self.items_of(row, kind)
        first = bisect.bisect_right(items, after, key=order_of)
        checked, fits = None, False
        for item in itertools.islice(items, first, None):
            if item.event.term is not checked:  # Those of one term stand together.
                checked = item.event.term
                fits = controller in (None, checked.controller) and epoch in (None, checked.epoch)
            if fits and (unsent or not item.fields.get("unsent")) and (
                broker is None or item.key[1] == broker
            ):
                yield item

    # --- brokers --------------------------------------------------------------------------------

    def set_brokers(self, brokers: dict[int, int]) -> None:
        """Register exactly these brokers."""
        state = self.state
        known = set(state.broker_id.tolist()) | set(brokers)
        mutators.add_brokers(state, sorted(known))
        for at, broker in enumerate(state.broker_id.tolist()):
            state.broker_status[at] = schema.BROKER_REGISTERED if broker in brokers else 0
            if brokers.get(broker):
                state.broker_epoch[at] = brokers[broker]
        state.recount()

    def has_room_for(self, event: LogEvent) -> bool:
        """Whether there is anything that the event can act on."""
        return bool(self.state.n_brokers) or event.kind in (
            "failover", "resume", "brokers", "topics", "partitions",
        )

    def note(self, event: LogEvent, outcomes: list[Outcome]) -> Ran:
        """Keep what an event did."""
        before = self.vacant
        self._note_new_rows(event)
        self.note_writes()
        self._configure()
        sender = event.term.controller, event.term.epoch
        self.begins[sender] = min(event.number, self.begins.get(sender, event.number))
        sendings: list[Sending] = []
        first = 0
        new: list[tuple[int, Item]] = []
        epoch = event.term.epoch if event.term.epoch is not None else -1
        acted = [outcome for outcome in outcomes if outcome.actions]
        places = {
            (p.topic, p.partition[1]): row for row, p in enumerate(self.possibility)
            if row not in before or row not in self.vacant  # It was there, or is now.
        } if acted else {}
        for outcome in acted:
            tables = {name: outcome.rows(name) for name in FULL_TABLES}
            made = items_of(
                tables, outcome, places, self.records_before, epoch, self.leaders(),
                self.controller.profile,
            )
            new += [(row, Item(event, first + step, key, fields))
                    for row, key, step, fields in made]
            sendings += sendings_of(tables, len(outcome.actions), first)
            first += len(outcome.actions)
        for row, item in new:
            self.items.setdefault(row, RowItems()).add(item)
        if event.kind == "shutdown" and outcomes and not any(
            "stop followed" in action for action in outcomes[0].actions
        ):
            # The controller's own batch is sent even when nothing is followed (section 6.3,
            # step 7).
            sendings.append(Sending(first))
        if event.kind == "isr" and self.controller.profile.has_alter_partition and not (
            event.fields["partitions"]
        ):  # All are told of those that were refused, or of none (section 6.10).
            sendings.append(Sending(first, recipients=tuple(sorted(self.registered))))
        if event.kind == "resume":
            self.heard.clear()
        for sending in sendings:
            self.heard |= sending.asked
        return self._keep(Ran(event, outcomes, sendings, new))

    def _keep(self, ran: Ran) -> Ran:
        """Keep an event among the latest that ran; only the last has its outcomes and items."""
        event = ran.event
        if event.kind == "rebalance":
            groups: dict[int, set[Partition]] = {}
            for outcome in ran.outcomes:
                for row in outcome.rows("elections"):
                    groups.setdefault(row["step"], set()).add((row["topic"], row["partition"]))
            ran.balanced = list(map(frozenset, groups.values()))
        if event.kind in POINTS:
            self.asked_to_lead = []
        leaders = frozenset(broker for sending in ran.sendings for broker in sending.leads)
        if leaders:
            self.asked_to_lead.append((event, leaders))
        if self.ran:
            self.ran[-1].outcomes, self.ran[-1].made = [], []
        self.ran.append(ran)
        if len(self.ran) > 2 * MOST_RAN:
            del self.ran[:-MOST_RAN]
        return ran


def _is_later(item: Item, other: Item | None) -> bool:
    """Whether of two items of one step, that any order may have, one has the higher epoch."""
    return other is not None and item.order == other.order and (
        item.fields.get("leader_epoch", 0) > other.fields.get("leader_epoch", 0)
    )


def _renamed(topics: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Topics that have rows, under the names that these have now; each once."""
    before = topics.column("topic").to_pylist()
    places: dict[str, int] = {}
    for at, topic in sorted(enumerate(before), key=lambda pair: names.get(pair[1]) != pair[1]):
        if topic in names:  # One that keeps its name comes before those that take it.
            places.setdefault(names[topic], at)
    return topics.take(pa.array(places.values(), pa.int64())).set_column(
        topics.schema.get_field_index("topic"), "topic", pa.array([*places], pa.string())
    )
