"""The metadata log of a real cluster, operation by operation, beside what the twin predicts.

`../shared/data/kraft_live/` names the cause of every operation. What somebody asked for (a
leader's new ISR, an administrator's plan) is read from the operation's own records; everything
else must follow from the state before it.

Source: docs/kraft.md, sections 2 and 5 to 8.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

from kfast.controllers import CreatableTopic
from kfast.state.kraft_releases import RELEASES
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    Fencing,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from tests.support.kraft_reference import broker_events, partition_requests, topics
from tests.support.kraft_reference.broker_events import BrokerRegistrationRequest, Records
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.heartbeats import Heartbeats
from tests.support.kraft_reference.partition_requests import (
    PREFERRED,
    AlterPartitionData,
    ReassignablePartition,
)
from tests.support.kraft_reference.settings import clear_elr_records
from tests.support.kraft_reference.state import ClusterState

Json = dict[str, Any]

STATE_RECORDS = {kind.__name__: kind for kind in get_args(MetadataRecord)[:12]}
"""Records that change the cluster's state, by name."""


def lines_of(path: Path) -> Iterator[Json]:
    """Objects of a file that has one on each line."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def snake_case(name: str) -> str:
    """A name of Kafka's as Python writes it."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda match: f"_{match[0]}", name).lower()


def parse_record(row: Json) -> MetadataRecord | None:
    """A record of the dump; None for one that holds no state of the cluster."""
    kind = STATE_RECORDS.get("".join(word.title() for word in row["type"].split("_")))
    if kind is None:
        return None
    values: Json = {}
    known = {item.name for item in dataclasses.fields(kind)}
    for key, value in row["data"].items():
        name = snake_case(key)
        if name not in known or name == "end_points":
            continue
        if name == "features":
            value = {
                f["name"]: (f["minSupportedVersion"], f["maxSupportedVersion"]) for f in value
            }
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    if kind is PartitionRecord:
        values.setdefault("leader_recovery_state", 0)
    record: MetadataRecord = kind(version=row["version"], **values)
    return record


@dataclass(frozen=True)
class Operation:
    """One write of the controller: its cause, its first offset, its records."""

    name: str
    first: int
    records: list[MetadataRecord]


def operations(folder: Path) -> Iterator[Operation]:
    """Operations in the order of the log; records of none of them stand alone, under no name."""
    rows = {row["offset"]: parse_record(row) for row in lines_of(folder / "records.jsonl.gz")}
    covered = 0
    for row in lines_of(folder / "operations.jsonl.gz"):
        for offset in range(covered, row["first"]):
            record = rows.get(offset)
            if record is not None:
                yield Operation("", offset, [record])
        covered = row["last"] + 1
        listed = [rows[offset] for offset in range(row["first"], covered)]
        yield Operation(row["name"], row["first"], [r for r in listed if r is not None])


# ---------------------------------------------------------------------------------- the prediction


class LivePrediction:
    """State of the cluster along the log, and what it lets the twin predict."""

    def __init__(self, release: str = "kraft-4.1", controller_id: int = 90) -> None:
        self.state = ClusterState(RELEASES[release], controller_id)
        self.state.heartbeats = Heartbeats(self.state.release, session_timeout_ms=-1)
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []

    def apply(self, operation: Operation) -> None:
        """Replay an operation's records."""
        for offset, record in enumerate(operation.records, start=operation.first):
            self.state.replay(record, offset)

    def compare(self, operation: Operation, in_order: bool) -> None:
        """Predict an operation and compare; adopt what nothing predicts."""
        predict = getattr(self, f"_{snake_case(operation.name)}", None)
        if predict is None or not operation.records:
            self.counts["adopted"] += len(operation.records)
            return
        predicted = predict(operation)
        wanted = operation.records
        same = predicted == wanted if in_order else Counter(predicted) == Counter(wanted)
        self.counts[operation.name if same else "contradicted"] += len(wanted)
        if not same:
            pairs = zip_longest(predicted, wanted)
            first, written = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
            self.differences.append(
                f"offset {operation.first} ({operation.name}): predicted {first}, "
                f"written {written}"
            )

    def _broker_changed(self, operation: Operation) -> BrokerRegistrationChangeRecord:
        return next(
            r for r in operation.records if isinstance(r, BrokerRegistrationChangeRecord)
        )

    def _process_broker_heartbeat(self, operation: Operation) -> Records:
        """The change of the registration says which of the three steps it was."""
        change, out = self._broker_changed(operation), Records()
        if change.in_controlled_shutdown:
            step = broker_events.handle_broker_in_controlled_shutdown
        elif change.fenced == Fencing.FENCE:
            step = broker_events.handle_broker_fenced
        else:
            step = broker_events.handle_broker_unfenced
        step(self.state, change.broker_id, out)
        return out

    def _maybe_fence_stale_broker(self, operation: Operation) -> Records:
        out = Records()
        broker_events.handle_broker_fenced(
            self.state, self._broker_changed(operation).broker_id, out
        )
        return out

    def _register_broker(self, operation: Operation) -> Records:
        """Clean is a restart after a controlled shutdown: then the broker knew its epoch."""
        wanted = operation.records[-1]
        assert isinstance(wanted, RegisterBrokerRecord)
        existing = self.state.brokers.get(wanted.broker_id)
        clean = existing is None or existing.in_controlled_shutdown
        request = BrokerRegistrationRequest(
            wanted.broker_id,
            wanted.incarnation_id,
            wanted.features,
            wanted.log_dirs,
            wanted.rack,
            previous_broker_epoch=(
                -1 if not clean else broker_events.NO_PREVIOUS_EPOCH if existing is None
                else existing.epoch
            ),
        )
        return broker_events.register_broker(self.state, request, operation.first)[0]

    def _unregister_broker(self, operation: Operation) -> Records:
        wanted = operation.records[-1]
        assert isinstance(wanted, UnregisterBrokerRecord)
        return broker_events.unregister_broker(self.state, wanted.broker_id)

    def _alter_partition(self, operation: Operation) -> Records:
        """The ISR is the leader's wish; those that a finished reassignment removes were in it."""
        out = Records()
        for record in operation.records:
            assert isinstance(record, PartitionChangeRecord)
            place = TopicIdPartition(record.topic_id, record.partition_id)
            partition = self.state.partition(place)
            isr = partition.isr if record.isr is None else record.isr
            if record.removing_replicas == () or record.adding_replicas == ():
                isr += tuple(b for b in partition.isr if b in partition.removing and b not in isr)
            recovery = record.leader_recovery_state
            data = AlterPartitionData(
                record.topic_id,
                record.partition_id,
                partition.leader_epoch,
                partition.partition_epoch,
                tuple((broker, -1) for broker in isr),
                partition.recovery if recovery is None else recovery,
            )
            leader = self.state.brokers[partition.leader]
            out += partition_requests.alter_partition(
                self.state, leader.id, leader.epoch, [data]
            )[0]
        return out

    def _elect_leaders(self, _operation: Operation) -> Records:
        """Those of this log that write something are preferred ones, of all partitions."""
        return partition_requests.elect_leaders(self.state, PREFERRED, None)[0]

    def _alter_partition_reassignments(self, operation: Operation) -> Records:
        targets = []
        for record in operation.records:
            assert isinstance(record, PartitionChangeRecord)
            partition = self.state.partition(
                TopicIdPartition(record.topic_id, record.partition_id)
            )
            replicas = partition.replicas if record.replicas is None else record.replicas
            removed = record.removing_replicas or ()
            targets.append(
                ReassignablePartition(
                    self.state.topics[record.topic_id].name,
                    record.partition_id,
                    tuple(broker for broker in replicas if broker not in removed),
                )
            )
        return partition_requests.alter_partition_reassignments(self.state, targets)[0]

    def _assign_replicas_to_dirs(self, operation: Operation) -> Records:
        """The broker whose directories change tells where its replicas lie."""
        assignments: list[tuple[int, tuple[str, str, int]]] = []
        for record in operation.records:
            assert isinstance(record, PartitionChangeRecord)
            place = TopicIdPartition(record.topic_id, record.partition_id)
            partition = self.state.partition(place)
            assert record.directories is not None
            changed = [
                (broker, (directory, *place))
                for broker, directory, was in zip(
                    partition.replicas, record.directories, partition.directories, strict=True
                )
                if directory != was
            ]
            assert len(changed) == 1
            assignments += changed
        (broker,) = {broker for broker, _ in assignments}
        return partition_requests.assign_replicas_to_dirs(
            self.state, broker, self.state.brokers[broker].epoch, [a for _, a in assignments]
        )[0]

    def _create_topics(self, operation: Operation) -> Records:
        """Assignments and configurations are asked for, or drawn; the rest follows."""
        wanted = []
        for topic in (r for r in operation.records if isinstance(r, TopicRecord)):
            configs = {
                r.name: r.value for r in operation.records
                if isinstance(r, ConfigRecord) and r.resource_name == topic.name
            }
            assignments = [
                (r.partition_id, r.replicas) for r in operation.records
                if isinstance(r, PartitionRecord) and r.topic_id == topic.topic_id
            ]
            wanted.append(CreatableTopic(
                topic.name, assignments, configs, topic_id=topic.topic_id
            ))
        return topics.create_topics(self.state, wanted)[0]

    def _create_partitions(self, operation: Operation) -> Records:
        added = [r for r in operation.records if isinstance(r, PartitionRecord)]
        topic = self.state.topics[added[0].topic_id]
        assignments = [record.replicas for record in added]
        count = len(topic.partitions) + len(added)
        out = Records()
        topics.create_partitions(self.state, topic.name, count, assignments, out)
        return out

    def _delete_topics(self, operation: Operation) -> Records:
        ids = [r.topic_id for r in operation.records if isinstance(r, RemoveTopicRecord)]
        return topics.delete_topics(self.state, ids)[0]

    def _incremental_alter_configs(self, operation: Operation) -> Records:
        configs: Records = [r for r in operation.records if isinstance(r, ConfigRecord)]
        return configs + clear_elr_records(self.state, configs)


def compare_capture(state: ClusterState, capture: Json) -> list[str]:
    """What differs between the state and one that the AdminClient captured."""
    wrong = []
    for row in capture["brokers"]:
        registration = state.brokers.get(row["id"])
        if registration is None or registration.fenced != row["fenced"]:
            wrong.append(f"broker {row['id']}")
    for name, described in capture["topics"].items():
        topic = state.topic_named(name)
        if topic is None or len(topic.partitions) != len(described["partitions"]):
            wrong.append(f"topic {name}")
            continue
        for row in described["partitions"]:
            partition = topic.partitions[row["partition"]]
            seen: Json = {
                key: list(getattr(partition, key))
                for key in ("replicas", "isr", "elr", "last_known_elr")
            }
            seen |= {"partition": row["partition"], "leader": partition.leader}
            if seen != row:
                wrong.append(f"{name}: {seen}, captured {row}")
    if {topic.name for topic in state.topics.values()} != set(capture["topics"]):
        wrong.append("other topics")
    return wrong
