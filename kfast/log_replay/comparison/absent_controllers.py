"""Facts in lines about decisions whose causes no line tells: their controller.log is not here.

What such a controller decided is unknown; so is an event of which the log shows the end only. Its
lines in state-change.log, and what brokers did with its requests, are judged by what the lines
before say: a leader epoch has one leader, a version of a record one content, a step that creates
partitions brings all of them online, and the first of the replicas that are live leads; brokers
that start are named by a request to them alone; a broker takes a role for a higher leader epoch
only, and remembers the last one.

Source: Kafka, PartitionStateMachine.scala, `initializeLeaderAndIsrForPartitions`;
KafkaController.scala, `onBrokerStartup`; Partition.scala, `makeLeader`, `makeFollower`;
ReplicaManager.scala, `becomeLeaderOrFollower`, `stopReplicas`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kfast.log_replay.brokers import NEVER
from kfast.log_replay.checks import MISSING, Check, agrees
from kfast.log_replay.comparison.facts import ABSENT, NAMED, Fact, name_of, unpredicted
from kfast.log_replay.terms.holes import SILENCE_MS
from kfast.log_replay.wording.forms import Statement
from kfast.log_replay.wording.subjects import subjects
from kfast.log_replay.wording.values import Partition, Record
from kfast.replay_results.verdicts import CONTRADICTED, PREDICTED

ROLES = frozenset({"became_leader", "became_follower"})
"""Kinds of lines in which a broker takes a role: it has handled the leader epoch."""


@dataclass
class ControllerHistory:
    """What lines have said of a controller: partitions to create, and who gets its UpdateMetadata.

    All partitions of a step become new, then all are online.

    Attributes
    ----------
    line : Statement
        The last one of the controller.
    live : frozenset or None
        Brokers that are live or shut down; None where no line has named them.
    may_start : bool
        Whether they have got a request without partitions, as they do before those that start.
    new : dict
        Partitions that are in the state NewPartition, with their replicas.
    is_complete : bool
        Whether the log shows what was before the last step, so all of it.
    """

    line: Statement
    live: frozenset[int] | None = None
    may_start: bool = False
    new: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    is_complete: bool = False

    def follow(self, line: Statement) -> None:
        """Take note of the controller's next line."""
        if line.kind == "partition_new":
            self.is_complete |= self.line.kind != "partition_new"
            self.new.setdefault(line.fields["partition"], line.fields["replicas"])
        elif line.kind == "partition_led":
            self.new.pop(line.fields["partition"], None)
        elif line.kind == "sent_update_metadata" and line.fields["brokers"]:
            named = frozenset(line.fields["brokers"])
            self.live = named | self.live if self.live and self._are_new(named) else named
            self.may_start = not line.fields["n"]
        self.line = line

    def checks(self, line: Statement) -> Iterator[tuple[str, Check]]:
        """What the controller's next line says of what follows from the lines before it.

        A step that tells no broker of anything names none.
        """
        fields = line.fields
        if line.kind in ("partition_new", "partition_led"):
            state, after = self._state(line), fields["after"]
            yield name_of(fields["partition"]), Check(
                "transition", f"{fields['before']} -> {after}", state and f"{state} -> {after}",
            )
        elif line.kind == "sent_update_metadata":
            named = frozenset(fields["brokers"])
            is_open = self.live is None or named < self.live or self._are_new(named)
            yield "cluster", Check("brokers told", named, None if is_open else self.live)

    def _are_new(self, brokers: frozenset[int]) -> bool:
        """Whether these are brokers that start: after a request to those that are live."""
        return self.may_start and self.live is not None and self.live.isdisjoint(brokers)

    def _state(self, line: Statement) -> str | None:
        """The state that a partition must be in before a line; None where nothing tells it.

        One that comes online after its step was new before the log, without live replicas.
        """
        is_new = line.fields["partition"] in self.new
        if line.kind == "partition_new":
            return "NewPartition" if is_new and self.line.kind == "partition_new" else None
        if line.fields["before"] != "NewPartition":
            return None
        return "NewPartition" if is_new else (
            "NonExistentPartition" if self.new and self.is_complete else None
        )

    def first_record(self, line: Statement) -> dict[str, Any]:
        """The record that a line must say of a partition that is new: its first live one leads.

        The line tells which replicas are live.
        """
        record = line.fields.get("record")
        if line.kind != "partition_led" or record is None:
            return {}
        replicas = self.new.get(line.fields["partition"])
        if replicas is None:
            return {}
        isr = tuple(broker for broker in replicas if broker in record.isr)
        return {"leader": isr[0] if isr else MISSING, "leader_epoch": 0, "version": 0, "isr": isr}


@dataclass
class PartitionHistory:
    """What lines have said of a partition.

    Attributes
    ----------
    leaders : dict
        The leader of each leader epoch.
    records : dict
        Leader, leader epoch and ISR of each version.
    handled : dict
        The last leader epoch that each broker took a role for.
    latest : dict
        The last leader epoch and version that each broker, also as the controller, has told of.
    """

    leaders: dict[int, int] = field(default_factory=dict)
    records: dict[int | None, dict[str, Any]] = field(default_factory=dict)
    handled: dict[int, int] = field(default_factory=dict)
    latest: dict[int, tuple[int, int]] = field(default_factory=dict)


class Receivers:
    """Controllers that decide and brokers that receive; judges lines one after the other.

    Parameters
    ----------
    hole_ms : int or None
        After a silence of this length a broker may have handled requests that no line shows.
    reason : str
        Why a value that no line before determines is unknown.
    """

    def __init__(self, hole_ms: int | None, reason: str = ABSENT) -> None:
        self.hole_ms = hole_ms
        self.reason = reason
        self.time = 0
        self.histories: defaultdict[Partition, PartitionHistory] = defaultdict(PartitionHistory)
        self.controllers: dict[int, int] = {}
        self.controller_histories: dict[tuple[int, int], ControllerHistory] = {}
        self.sizes: dict[tuple[int, Any, Any], int] = {}

    def facts(self, line: Statement, number: int) -> Iterator[Fact]:
        """What a line says, each value with its verdict; it is remembered for later lines."""
        fields = line.fields
        is_hole = self.hole_ms is not None and line.entry.time - self.time > self.hole_ms
        for history in self.histories.values() if is_hole else ():
            history.handled.clear()
        self.time = line.entry.time
        if line.kind == "process_started":
            started: Any = fields.get("broker", line.actor_id)
            for history in self.histories.values():
                history.handled.pop(started, None)
            return
        if line.actor_id is None:
            return
        if line.actor == "controller" and line.epoch is not None:
            sender = {"controller": line.actor_id, "controller_epoch": line.epoch}
            yield self._of_controller(sender, number)
        elif "controller_epoch" in fields and not fields.get("epoch_is_records"):
            yield self._of_controller(fields, number)
        if "n" in fields:
            key = line.actor_id, fields.get("request"), fields.get("correlation")
            size = self.sizes.pop(key, None) if line.kind == "finished" else None
            if line.kind == "handling":
                self.sizes[key] = fields["n"]
            yield self._judged(number, f"broker {line.actor_id}",
                          Check("partitions", fields["n"], size))
        controller = self._history_of(line)
        for subject, check in controller.checks(line) if controller is not None else ():
            yield self._judged(number, subject, check)
        for partition, about in subjects(line):
            for check in self._checks(line, about, partition, controller):
                yield self._judged(number, name_of(partition), check)
        if controller is not None:
            controller.follow(line)

    def _history_of(self, line: Statement) -> ControllerHistory | None:
        """What the controller that writes a line has decided; after a silence nothing is known."""
        if line.actor != "controller" or line.epoch is None or line.actor_id is None:
            return None
        key = line.actor_id, line.epoch
        known = self.controller_histories.get(key)
        if known is None or line.entry.time - known.line.entry.time > SILENCE_MS:
            known = self.controller_histories[key] = ControllerHistory(line)
        return known

    def _of_controller(self, fields: dict[str, Any], number: int) -> Fact:
        """An epoch has one controller."""
        epoch, controller = fields["controller_epoch"], fields.get("controller")
        known = self.controllers.setdefault(epoch, controller) if controller is not None else None
        if known != controller:
            check = Check("controller", controller, known)
            return self._judged(number, f"controller epoch {epoch}", check)
        return self._judged(number, "controller", Check("controller epoch", epoch, None))

    def _checks(
        self, line: Statement, about: dict[str, Any], partition: Partition,
        controller: ControllerHistory | None,
    ) -> Iterator[Check]:
        """What a line says of a partition beside what lines before it have said."""
        broker, history = line.actor_id, self.histories[partition]
        assert broker is not None
        record = about.get("record")
        values = record._asdict() if isinstance(record, Record) else dict(about)
        if line.kind == "became_leader":
            values["leader"] = broker
        epoch, version = values.get("leader_epoch"), values.get("version")
        if _is_made_again(line, values, history, broker):
            history = self.histories[partition] = PartitionHistory()
        known: dict[str, Any] = dict(history.records.get(version, {}))
        if epoch in history.leaders:
            known["leader"] = history.leaders[epoch]
        if controller is not None:
            known |= controller.first_record(line)
        handled = history.handled.get(broker)
        if line.kind == "same_epoch" and handled is not None:
            # Up to 2.5 no line says that a broker took the role that it has heard of since.
            heard, _ = history.latest.get(broker, (handled, 0))
            known["leader_epoch"] = handled if heard <= handled else None
        for name in NAMED:
            if values.get(name) is not None:
                yield Check(name, values[name], known.get(name))
        if line.kind in ROLES:
            if line.kind == "became_follower" and "previous_leader" in about:
                handled = epoch  # From 3.5 on followers say it when it is replaced.
            else:
                yield Check("higher leader epoch", True, bool(epoch > about["previous"]))
            yield Check("previous leader epoch", about["previous"], handled)
            if line.kind == "became_follower" and known.get("leader", -1) >= 0:
                is_leader = known["leader"] == broker
                yield Check("role", "follower", "leader" if is_leader else "follower")
        elif line.kind == "old_epoch":
            yield Check("current leader epoch", about["current"], handled)
        self._remember(line, values, history, broker)

    def _remember(
        self, line: Statement, values: dict[str, Any], history: PartitionHistory, broker: int
    ) -> None:
        leader, epoch, version = map(values.get, ("leader", "leader_epoch", "version"))
        if line.kind in ROLES or line.kind == "same_epoch":
            history.handled[broker] = values["leader_epoch"]
        elif line.kind == "stopping" and values.get("delete"):
            history.handled.pop(broker, None)
        if epoch is None or leader is None or leader < -1:
            return
        history.leaders.setdefault(epoch, leader)
        if version is not None:
            history.latest[broker] = epoch, version
            if values.get("isr") is not None:
                record = {name: values[name] for name in ("leader", "leader_epoch", "isr")}
                history.records.setdefault(version, record)

    def _judged(self, number: int, subject: str, check: Check) -> Fact:
        reason = self.reason if check.predicted is None else ""
        verdict = unpredicted(reason) if reason else PREDICTED if agrees(check) else CONTRADICTED
        kind = check.field.replace("_", " ")
        return Fact(number, kind, subject, check.logged, check.predicted, verdict, reason)


def _is_made_again(
    line: Statement, values: dict[str, Any], history: PartitionHistory, broker: int
) -> bool:
    """Whether a topic was made again: a broker knows it no more, or its counts have fallen.

    A broker that did not know it before begins with the first epoch of the new one.
    """
    leader, epoch, version = map(values.get, ("leader", "leader_epoch", "version"))
    if epoch is None or line.kind == "old_epoch":
        return False
    if line.fields.get("previous") == NEVER.leader_epoch:
        return broker in history.handled or (not epoch and max(history.leaders, default=0) > 0)
    last_epoch, last_version = history.latest.get(broker, (0, 0))
    if not epoch:
        return last_epoch > 0 or leader not in (None, history.leaders.get(0, leader))
    return version is not None and epoch < last_epoch and version < last_version
