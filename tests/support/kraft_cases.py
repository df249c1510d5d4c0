"""Run sequences of KRaft events on the plain Python twin and compare all that Kafka answered.

    python -m tests.support.kraft_cases FILE [FILE ...] [--most-differences N]

A file is one of `../shared/data/README.md`, section kraft_cases_executed.json, or lines of cases as
its oracle writes them. Every record with its fields in order, every response and every state must
be equal; a case passes only if all of its events do.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from kfast.controllers import AlterPartitionReply, ConfigChange, CreatableTopic
from kfast.state.kraft_releases import RELEASES, Release
from kfast.state.metadata_records import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    Recovery,
    RegisterBrokerRecord,
    ResourceType,
    uuid_halves,
    uuid_text,
)
from kfast.state.registrations import BrokerRegistration, PartitionRegistration
from tests.support.kraft_reference.broker_events import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from tests.support.kraft_reference.controller import Outcome, QuorumController
from tests.support.kraft_reference.errors import FaultError
from tests.support.kraft_reference.hash_orders import hash_of_string
from tests.support.kraft_reference.partition_requests import (
    AlterPartitionData,
    ReassignablePartition,
)

Json = dict[str, Any]

RESERVED = {"MIGRATING": MIGRATING, "UNASSIGNED": UNASSIGNED, "LOST": LOST}
RESERVED_LABELS = {uuid: label for label, uuid in RESERVED.items()}

NULLABLE = {("REGISTER_BROKER_RECORD", "rack"), ("CONFIG_RECORD", "value")}
"""Fields that are always there, and may be null."""


# ----------------------------------------------------------------------------------------- the ids


@cache
def directory_of(label: str) -> str:
    """The directory of a label; those of a broker sort by number, and brokers' by id."""
    if label in RESERVED:
        return RESERVED[label]
    broker, number = label.split("/")
    return uuid_text((int(broker) + 1) * 1000 + int(number), 77)


@cache
def label_of(directory: str) -> str:
    """The label of a directory."""
    if directory in RESERVED_LABELS:
        return RESERVED_LABELS[directory]
    high, _ = uuid_halves(directory)
    return f"{high // 1000 - 1}/{high % 1000}"


def incarnation_of(label: str) -> str:
    """The incarnation id of a label."""
    return uuid_text(4242, int(label[1:]))


@cache
def incarnation_label_of(incarnation_id: str) -> str:
    """The label of an incarnation id."""
    return f"i{uuid_halves(incarnation_id)[1]}"


def given_record(row: Json, release: Release) -> MetadataRecord:
    """A record that is applied before the start; brokers support what the release does."""
    if row["type"] == "FEATURE_LEVEL_RECORD":
        return FeatureLevelRecord(0, row["name"], row["featureLevel"])
    if row["type"] == "CONFIG_RECORD":
        resource = row["resourceType"], row["resourceName"]
        return ConfigRecord(0, *resource, row["name"], row["value"])
    if row["type"] == "REGISTER_BROKER_RECORD":
        return RegisterBrokerRecord(
            row["version"], row["brokerId"], incarnation_of(row["incarnation"]),
            row["brokerEpoch"], row["rack"], row["fenced"], row["inControlledShutdown"],
            tuple(map(directory_of, row.get("logDirs", ()))), release.supported_features,
        )
    raise ValueError(f"a case cannot give a {row['type']}")


# ---------------------------------------------------------------------------------- what was done


def camel(name: str) -> str:
    """A field's name as `kafka-dump-log` writes it."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def is_left_out(kind: str, name: str, value: Any) -> bool:
    """Whether the format leaves a field out: one that is not recorded, or at its tagged default."""
    if name in ("version", "features", "end_points", "is_migrating_zk_broker"):
        return True
    if value is None:
        return (kind, name) not in NULLABLE
    is_new_partition = kind == "PARTITION_RECORD" and name == "leader_recovery_state"
    return (is_new_partition and value == Recovery.RECOVERED) or (name == "log_dirs" and not value)


def describe_record(record: MetadataRecord, topics: dict[str, str]) -> Json:
    """A record as a case writes it."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(record).__name__).upper()
    out: Json = {"type": kind, "version": record.version}
    for item in fields(record):
        name, value = item.name, getattr(record, item.name)
        if is_left_out(kind, name, value):
            continue
        if name == "topic_id" and kind != "TOPIC_RECORD":
            out["topic"] = topics[value]
        elif name == "topic_id":
            out["topicId"] = value
        elif name == "incarnation_id":
            out["incarnation"] = incarnation_label_of(value)
        elif name in ("directories", "log_dirs"):
            out[camel(name)] = [label_of(directory) for directory in value]
        else:
            out[camel(name)] = list(value) if isinstance(value, tuple) else value
    return out


def describe_partition(partition: PartitionRegistration) -> Json:
    """State of a partition as a case writes it."""
    out: Json = {"replicas": list(partition.replicas)}
    for name in ("adding", "removing"):
        if getattr(partition, name):
            out[name] = list(getattr(partition, name))
    out["isr"] = list(partition.isr)
    for name in ("elr", "last_known_elr"):
        if getattr(partition, name):
            out[name] = list(getattr(partition, name))
    out["leader"] = partition.leader
    if partition.recovery == Recovery.RECOVERING:
        out["recovery"] = "RECOVERING"
    out["leader_epoch"] = partition.leader_epoch
    out["partition_epoch"] = partition.partition_epoch
    if any(directory != MIGRATING for directory in partition.directories):
        out["dirs"] = [label_of(directory) for directory in partition.directories]
    return out


def describe_broker(broker: BrokerRegistration, controller: QuorumController) -> Json:
    """State of a broker as a case writes it."""
    out: Json = {"epoch": broker.epoch, "incarnation": incarnation_label_of(broker.incarnation_id)}
    if broker.rack is not None:
        out["rack"] = broker.rack
    out["fenced"] = broker.fenced
    out["in_controlled_shutdown"] = broker.in_controlled_shutdown
    if broker.directories:
        out["dirs"] = [label_of(directory) for directory in broker.directories]
    heartbeats = controller.state.active_heartbeats
    if broker.id in heartbeats.states:
        state = heartbeats.states[broker.id]
        out["metadata_offset"] = state.metadata_offset
        out["shutdown_offset"] = state.shutdown_offset
    return out


# ------------------------------------------------------------------------------------ the twin runs


class TwinRun:
    """One case on the twin: runs its events, and says what each did, in the words of the format."""

    def __init__(self, case: Json, make: Callable[..., Any] = QuorumController) -> None:
        given = case["given"]
        self.release = RELEASES[case["profile"]]
        self.controller = make(
            case["profile"],
            records=[given_record(row, self.release) for row in given["records"]],
            controller_id=given["controller_id"],
            session_timeout_ms=given["session_timeout_ms"],
            max_elections=given["max_elections"],
            static_config=given["static_config"],
        )
        self.topic_names: dict[str, str] = {}
        self.last = self._state()

    def _state(self) -> dict[str, dict[str, Json]]:
        state = self.controller.state
        return {
            "partitions": {
                f"{topic.name}-{number}": describe_partition(partition)
                for topic in state.topics.values()
                for number, partition in topic.partitions.items()
            },
            "brokers": {
                str(broker.id): describe_broker(broker, self.controller)
                for broker in state.brokers.values()
            },
        }

    def full_state(self) -> Json:
        """The complete state as a case writes it."""
        return {**self._state(), "next_offset": self.controller.next_offset}

    def run(self, event: Json) -> Json:
        """Run one event and say what it did."""
        out = self.answer(event)
        if "fault" not in out:
            self.add_changes(out, self._state())
        return out

    def answer(self, event: Json) -> Json:
        """Run one event: its response and its records."""
        out: Json = {}
        try:
            outcome = getattr(self, f"_{event['op']}")(event)
        except FaultError as fault:
            return {"fault": str(fault), "records": []}
        if isinstance(outcome, Outcome) and outcome.error is not None:
            out["error"] = outcome.error
        elif isinstance(outcome, tuple):
            out["response"] = outcome[1]
            outcome = outcome[0]
        records = outcome.records if outcome is not None else []
        out["records"] = [describe_record(record, self.topic_names) for record in records]
        return out

    def add_changes(self, out: Json, now: dict[str, dict[str, Json]]) -> None:
        """Add what changed since the last event; null is what is gone."""
        for table, rows in now.items():
            last = self.last[table]
            changed: dict[str, Json | None]
            changed = {key: row for key, row in rows.items() if row != last.get(key)}
            changed |= {key: None for key in last if key not in rows}
            if changed:
                out[table] = changed
        self.last = now

    def _id_of(self, name: str) -> str:
        """The id of a topic, or one that no topic has."""
        topic = self.controller.state.topics_by_name.get(name)
        if topic is not None:
            return topic
        return uuid_text(0x5EED, hash_of_string(name) | 1 << 40)

    def _register_broker(self, event: Json) -> Any:
        features = event.get("features")
        outcome = self.controller.register_broker(
            BrokerRegistrationRequest(
                broker_id=event["broker"],
                incarnation_id=incarnation_of(event["incarnation"]),
                features=(
                    self.release.supported_features
                    if features is None
                    else {name: (low, high) for name, (low, high) in features.items()}
                ),
                log_dirs=tuple(map(directory_of, event.get("log_dirs", ()))),
                rack=event.get("rack"),
                previous_broker_epoch=event.get("previous_broker_epoch", -1),
                version=event.get("request_version", 4),
                same_cluster="cluster_id" not in event,
            )
        )
        return self._answer(outcome, {"broker_epoch": outcome.response})

    @staticmethod
    def _answer(outcome: Outcome[Any], response: Any) -> Any:
        return outcome if outcome.error is not None else (outcome, response)

    def _heartbeat(self, event: Json) -> Any:
        outcome = self.controller.process_broker_heartbeat(
            BrokerHeartbeatRequest(
                event["broker"],
                event["broker_epoch"],
                event["metadata_offset"],
                event.get("want_fence", False),
                event.get("want_shut_down", False),
                tuple(map(directory_of, event.get("offline_log_dirs", ()))),
            )
        )
        return self._answer(outcome, outcome.response and vars(outcome.response))

    def _advance_time(self, event: Json) -> None:
        self.controller.advance_time(event["ms"], event.get("contacts", ()))

    def _fence_stale(self, _event: Json) -> Any:
        return self._more(self.controller.maybe_fence_stale_broker())

    def _balance_leaders(self, _event: Json) -> Any:
        return self._more(self.controller.maybe_balance_partition_leaders())

    def _elect_unclean_leaders(self, _event: Json) -> Any:
        return self._more(self.controller.maybe_elect_unclean_leaders())

    def _more(self, outcome: Outcome[bool]) -> Any:
        return self._answer(outcome, {"more": outcome.response})

    def _failover(self, _event: Json) -> None:
        self.controller.activate()

    def _unregister_broker(self, event: Json) -> Any:
        return self.controller.unregister_broker(event["broker"])

    def _create_topics(self, event: Json) -> Any:
        wanted = [
            CreatableTopic(
                row["name"],
                [(number, tuple(replicas)) for number, replicas in row.get("assignments", ())],
                row.get("configs", {}),
                row.get("num_partitions", -1),
                row.get("replication_factor", -1),
                row["topic_id"],
            )
            for row in event["topics"]
        ]
        self.topic_names |= {row["topic_id"]: row["name"] for row in event["topics"]}
        outcome = self.controller.create_topics(wanted, event.get("validate_only", False))
        return self._answer(outcome, outcome.response)

    def _create_partitions(self, event: Json) -> Any:
        wanted = [
            (row["name"], row["count"], [tuple(replicas) for replicas in row["assignments"]])
            for row in event["topics"]
        ]
        outcome = self.controller.create_partitions(wanted)
        return self._answer(outcome, outcome.response)

    def _delete_topics(self, event: Json) -> Any:
        ids = {self._id_of(name): name for name in event["topics"]}
        outcome = self.controller.delete_topics(list(ids))
        codes = outcome.response or {}
        return self._answer(outcome, {ids[topic_id]: code for topic_id, code in codes.items()})

    def _alter_partition(self, event: Json) -> Any:
        version = event.get("request_version", 3)
        with_epochs = version >= 3
        wanted, names = [], []
        for topic in event["topics"]:
            for row in topic["partitions"]:
                names.append(f"{topic['topic']}-{row['partition']}")
                wanted.append(
                    AlterPartitionData(
                        self._id_of(topic["topic"]),
                        row["partition"],
                        row["leader_epoch"],
                        row["partition_epoch"],
                        tuple((b, epoch if with_epochs else -1) for b, epoch in row["isr"]),
                        row.get("recovery", 0),
                    )
                )
        outcome = self.controller.alter_partition(
            event["broker"], event["broker_epoch"], wanted, with_topic_ids=version >= 2
        )
        replies = map(describe_reply, outcome.response or ())
        return self._answer(outcome, dict(zip(names, replies, strict=False)))

    def _elect_leaders(self, event: Json) -> Any:
        outcome = self.controller.elect_leaders(event["type"], event["partitions"])
        codes = outcome.response or {}
        return self._answer(outcome, {f"{name}-{n}": code for (name, n), code in codes.items()})

    def _alter_partition_reassignments(self, event: Json) -> Any:
        targets = [
            ReassignablePartition(
                topic["topic"],
                row["partition"],
                None if row["replicas"] is None else tuple(row["replicas"]),
            )
            for topic in event["topics"]
            for row in topic["partitions"]
        ]
        outcome = self.controller.alter_partition_reassignments(
            targets, event.get("allow_rf_change", True)
        )
        names = [f"{target.topic}-{target.partition}" for target in targets]
        return self._answer(outcome, dict(zip(names, outcome.response or (), strict=True)))

    def _assign_replicas_to_dirs(self, event: Json) -> Any:
        assignments, names = [], []
        for row in event["dirs"]:
            for topic in row["topics"]:
                for number in topic["partitions"]:
                    names.append(f"{row['dir']}:{topic['topic']}-{number}")
                    assignments.append(
                        (directory_of(row["dir"]), self._id_of(topic["topic"]), number)
                    )
        outcome = self.controller.assign_replicas_to_dirs(
            event["broker"], event["broker_epoch"], assignments
        )
        return self._answer(outcome, dict(zip(names, outcome.response or (), strict=False)))

    def _incremental_alter_configs(self, event: Json) -> Any:
        types = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER}
        changes = [
            ConfigChange(types[row["type"]], row["name"], tuple(tuple(op) for op in row["ops"]))
            for row in event["resources"]
        ]
        outcome = self.controller.incremental_alter_configs(changes)
        names = [f"{row['type']}:{row['name']}" for row in event["resources"]]
        return self._answer(outcome, dict(zip(names, outcome.response or (), strict=False)))

    def _update_features(self, event: Json) -> Any:
        outcome = self.controller.update_features(event["updates"], event.get("types"))
        return self._answer(outcome, {"error": outcome.response})


def describe_reply(reply: AlterPartitionReply) -> Json:
    """An answer to AlterPartition as a case writes it."""
    if reply.error != "NONE":
        return {"error": reply.error}
    values = {item.name: getattr(reply, item.name) for item in fields(reply)}
    return {**values, "isr": list(reply.isr)}


# --------------------------------------------------------------------------------------- comparing


def differences(expected: Json, seen: Json) -> list[str]:
    """What differs in one event: one text for each key, records with their fields in order."""
    if "replay_fault" in expected:
        return [] if "fault" in seen else [f"a fault is expected, seen {seen}"]
    wrong = []
    for key in sorted({*expected, *seen}):
        if key == "fault" and key in expected and key in seen:
            continue  # the name of a Java class, and kfast's own words
        want, have = (
            json.dumps(side[key], sort_keys=key != "records") if key in side else "nothing"
            for side in (expected, seen)
        )
        if want != have:
            wrong.append(f"{key}: expected {want}, seen {have}")
    return wrong


def run_case(
    case: Json, make: Callable[..., Any] = QuorumController
) -> tuple[int, list[str]]:
    """Run one case: how many of its events are equal, and what differs.

    `make` makes the twin, or what takes its calls.
    """
    run = TwinRun(case, make)
    for event in case["setup"]:
        run.run(event)
    wrong = [f"start: {text}" for text in differences(case["start"], run.full_state())]
    equal = 0
    for number, step in enumerate(case["events"], start=1):
        found = differences(step["expect"], run.run(step["event"]))
        equal += not found
        wrong += [f"event {number} ({step['event']['op']}): {text}" for text in found]
        if "fault" in step["expect"]:
            return equal, wrong
    if "end" in case:
        wrong += [f"end: {text}" for text in differences(case["end"], run.full_state())]
    return equal, wrong


def load(path: Path) -> Iterator[Json]:
    """The cases of a file, or one of each of its lines."""
    if path.name.endswith(".jsonl.gz"):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)
    elif path.suffix == ".jsonl":
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
    else:
        yield from json.loads(path.read_text(encoding="utf-8"))["cases"]


def main(arguments: list[str] | None = None) -> int:
    """Run the files; 1 if an event differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.kraft_cases")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--most-differences", type=int, default=10, metavar="N")
    options = parser.parse_args(arguments)
    shown = failed = 0
    for path in options.files:
        n_cases = passed = events = equal = 0
        for case in load(path):
            n_equal, wrong = run_case(case)
            n_cases, passed = n_cases + 1, passed + (not wrong)
            events, equal = events + len(case["events"]), equal + n_equal
            for text in wrong[:1]:
                shown += 1
                if shown <= options.most_differences:
                    print(f"{case['id']} {case['profile']}: {text}")
        failed += n_cases - passed
        print(f"{path.name}: {passed} of {n_cases} cases, {equal} of {events} events are equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
