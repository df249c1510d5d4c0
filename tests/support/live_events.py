"""Events of a live cluster, as its znodes and its controllers' logs tell them, run on kfast.

The format is that of ../shared/data/controller_logs/zk-3.9-live/README.md. Between the znodes
before an event and those after it stand all writes, in order. The controller's own writes are what
kfast is to give; its input is what its log says that it handled, what an admin asked for, and the
ISRs that leaders reported, each at its place among the writes.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from kfast import ClusterState, Controller, PartitionState, ReplicaState, Store
from kfast.controllers.zk.profiles import Profile

Partition = tuple[str, int]
IDS = pa.list_(pa.int32())
HANDLED = ("failover", "brokers", "shutdown", "topics", "deletion", "partitions_added")
"""Kinds of entries of `handled` that a controller acts upon here."""


def read_events(path: Path) -> list[dict[str, Any]]:
    """All events of a cluster, in order."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


# --- znodes and states -------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """What the znodes say of a partition; the order of an ISR does not count."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int | None
    isr: frozenset[int] | None
    leader_epoch: int | None
    version: int | None


def records_of(znodes: dict[str, Any]) -> dict[Partition, Record]:
    """The partitions of a picture of the cluster."""
    return {
        (topic, number): Record(
            tuple(replicas), tuple(adding), tuple(removing), leader,
            None if isr is None else frozenset(isr), leader_epoch, version,
        )
        for topic, number, replicas, adding, removing, leader, isr, leader_epoch, version, *_
        in znodes["partitions"]
    }


def state_of(znodes: dict[str, Any]) -> ClusterState:
    """The state of a controller that has been running since long, with these znodes."""
    live = {int(broker): node for broker, node in znodes["brokers"].items()}
    known = {b for row in znodes["partitions"] for b in row[2]} | set(live)
    brokers = pa.Table.from_pylist(
        [{"broker_id": b, "rack": live.get(b, {}).get("rack"), "registered": b in live,
          "epoch": live.get(b, {}).get("epoch", -1)} for b in sorted(known)],
        pa.schema([("broker_id", pa.int32()), ("rack", pa.string()), ("registered", pa.bool_()),
                   ("epoch", pa.int64())]),
    )
    cluster = pa.table({
        "controller_id": pa.array([znodes["controller"]], pa.int32()),
        "controller_epoch": pa.array([znodes["controller_epoch"]], pa.int32()),
        "epoch_store_version": pa.array([znodes["controller_epoch_version"]], pa.int32()),
        "default_unclean_leader_election": [is_unclean(znodes["default_config"]) or False],
        "delete_topic_enabled": [True],
        "leader_recovery_supported": [True],
    })
    topics = pa.table({
        "topic": pa.array(list(znodes["topics"]), pa.string()),
        "exists": [True] * len(znodes["topics"]),
        "unclean_leader_election": pa.array(
            [is_unclean(node["config"]) for node in znodes["topics"].values()], pa.bool_()
        ),
        "queued_for_deletion": pa.array(
            [node["deleting"] for node in znodes["topics"].values()], pa.bool_()
        ),
    })
    partitions = pa.Table.from_pylist(
        [partition_row(row, set(live)) for row in znodes["partitions"]], PARTITIONS
    )
    return ClusterState.from_tables(brokers, topics, partitions, cluster)


PARTITIONS = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("replicas", IDS), ("adding", IDS),
    ("removing", IDS), ("being_reassigned", pa.bool_()), ("has_leadership", pa.bool_()),
    ("leader", pa.int32()), ("isr", IDS), ("leader_epoch", pa.int32()), ("version", pa.int32()),
    ("controller_epoch", pa.int32()), ("recovery", pa.int8()), ("partition_state", pa.int8()),
    ("replica_state_broker_ids", IDS), ("replica_states", pa.list_(pa.int8())),
])


def partition_row(row: list[Any], live: set[int]) -> dict[str, Any]:
    """A partition and its states, as a controller has them that has brought it to rest."""
    names = ("topic", "partition", "replicas", "adding", "removing", "leader", "isr",
             "leader_epoch", "version", "controller_epoch", "recovery")
    known = dict(zip(names, row, strict=True))
    led = known["leader"] is not None
    state = PartitionState.NEW
    if led:
        state = PartitionState.ONLINE if known["leader"] in live else PartitionState.OFFLINE
    return known | {
        "has_leadership": led,
        "being_reassigned": bool(known["adding"] or known["removing"]),
        "partition_state": int(state),
        "replica_state_broker_ids": known["replicas"],
        "replica_states": [
            int(ReplicaState.ONLINE if b in live else ReplicaState.OFFLINE)
            for b in known["replicas"]
        ],
    }


def is_unclean(config: dict[str, str]) -> bool | None:
    """`unclean.leader.election.enable` of a configuration; None where it is not set."""
    value = config.get("unclean.leader.election.enable")
    return None if value is None else value == "true"


# --- one event ---------------------------------------------------------------------------------


@dataclass
class Write:
    """One write of the store."""

    zxid: int
    ms: int
    action: str
    path: str
    value: Any
    version: int

    @property
    def partition(self) -> Partition | None:
        """The partition whose state is written."""
        parts = self.path.split("/")
        if len(parts) == 7 and parts[2] == "topics" and parts[6] == "state":
            return parts[3], int(parts[5])
        return None


@dataclass
class Run:
    """One event, run on the state before it."""

    event: dict[str, Any]
    with_store: bool = True
    profile: str | Profile = "zk-3.9"
    steps: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        before = self.event["before"]
        self.state = state_of(before)
        self.store = Store(self.state) if self.with_store else None
        self.controller = Controller(
            self.state, store=self.store, journal="off", profile=self.profile
        )
        self.registered = {int(b): node["epoch"] for b, node in before["brokers"].items()}
        self.writes = [Write(*write) for write in self.event["writes"]]

    def run(self) -> dict[Partition, Record]:
        """Tell the controller everything; what the store and the assignments are then."""
        handled = [entry for entry in self.event["handled"] if entry[1] in HANDLED]
        led = {p: (r.leader, r.leader_epoch)
               for p, r in records_of(self.event["before"]).items()}
        for kind, *arguments in self.event["feed"]:
            self._ask(kind, *arguments)
        for write in self.writes:
            partition = write.partition
            leader = None if partition is None else (
                write.value["leader"], write.value["leader_epoch"]
            )
            is_report = leader is not None and led.get(partition) == leader
            while handled and handled[0][0] <= write.ms and not is_report:
                self._handle(*handled.pop(0))
            self._note_broker(write)
            if leader is not None:
                led[partition] = leader
            if is_report:
                self._report(partition, write)
        for entry in handled:
            self._handle(*entry)
        return self.records()

    def _note_broker(self, write: Write) -> None:
        """What the store says of a broker: its epoch is the transaction that registered it."""
        parts = write.path.split("/")
        if parts[1:3] == ["brokers", "ids"] and write.action == "create":
            self.registered[int(parts[3])] = write.zxid
        elif parts[1:3] == ["brokers", "ids"] and write.action == "delete":
            self.registered.pop(int(parts[3]), None)

    def _report(self, partition: Partition, write: Write) -> None:
        """A leader reports an ISR, which was taken: the write says so."""
        leader, isr = write.value["leader"], write.value["isr"]
        outcome = self.controller.alter_partition(
            leader, self.registered[leader], self.state.find_partitions([partition]),
            write.value["leader_epoch"], [isr], write.version - 1,
            write.value.get("leader_recovery_state", 0),
        )
        self.steps.append(f"{leader} reports {partition} {isr}: {outcome.alterations()}")

    def _ask(self, kind: str, *arguments: Any) -> None:
        """What an admin asked for; other kinds are told by what was handled."""
        if kind == "reassign":
            plan = {split(name): ids for name, ids in arguments[0].items()}
            self.controller.alter_partition_reassignments(plan)
        elif kind == "reassign_node":
            plan = {(topic, number): ids for topic, number, ids in arguments[0]}
            self.controller.reassign_partitions(plan)
        elif kind == "elect_node":
            partitions = [(topic, number) for topic, number in arguments[0]]
            self.controller.elect_leaders(partitions, type="preferred", trigger="ZkTriggered")
        elif kind == "elect":
            names = arguments[1]
            partitions = None if names is None else [split(name) for name in names]
            self.controller.elect_leaders(partitions, type=arguments[0])

    def _handle(self, _ms: int, kind: str, _controller: str, *words: str) -> None:
        """What a controller's log says that it handled."""
        self.steps.append(f"{kind} {words}")
        listed = [[item.strip() for item in word.split(",") if item.strip()] for word in words]
        if kind == "failover":
            live = set(self.state.broker_id[self.state.registered].tolist())
            self.state.remove_live_brokers(sorted(live - set(self.registered)))
            self.controller.on_controller_failover()
        elif kind == "brokers":
            started, failed, bounced = ([int(b) for b in ids] for ids in listed)
            self.controller.on_broker_change(
                {b: self.registered[b] for b in started},
                {b: self.registered[b] for b in bounced}, failed,
            )
        elif kind == "shutdown":
            self.controller.controlled_shutdown(int(words[0]))
        elif kind == "topics":
            self.controller.on_topic_change({name: self._assignments(name) for name in listed[0]})
        elif kind == "partitions_added":
            topic = next(item[1] for item in self.event["feed"] if item[0] == kind)
            known = {number for name, number in self.records() if name == topic}
            added = {n: ids for n, ids in self._assignments(topic).items() if n not in known}
            self.controller.on_partition_modifications(topic, added)
        elif kind == "deletion":
            self.controller.delete_topics(listed[0])
            self.controller.acknowledge_deletions()

    def _assignments(self, topic: str) -> dict[int, list[int]]:
        """Partitions of a topic's node, as the event wrote it first."""
        node = next(w.value for w in self.writes if w.path == f"/brokers/topics/{topic}")
        return {int(number): ids for number, ids in node["partitions"].items()}

    def records(self) -> dict[Partition, Record]:
        """What the store and the assignments say."""
        records = {}
        table = self.state.to_tables().partitions.select(["topic", "partition"])
        for topic, number in zip(*(column.to_pylist() for column in table.columns), strict=True):
            row = int(self.state.find_partitions([(topic, number)])[0])
            stored = (
                self.state.leadership(row) if self.store is None else self.store.get(topic, number)
            )
            led = (None,) * 4 if stored is None else (
                stored.leader, frozenset(stored.isr), stored.leader_epoch, stored.version
            )
            assigned = self.state.assignment(row)
            records[topic, number] = Record(
                assigned.replicas, assigned.adding, assigned.removing, *led
            )
        return records


def split(name: str) -> Partition:
    """A partition, of topic-number."""
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def differences(
    actual: dict[Partition, Record], expected: dict[Partition, Record]
) -> dict[Partition, tuple[Record | None, Record | None]]:
    """Partitions that differ: as kfast has them, and as the cluster had them."""
    return {
        p: (actual.get(p), expected.get(p))
        for p in sorted({*actual, *expected}) if actual.get(p) != expected.get(p)
    }
