"""Random sequences that reach every rule of the KRaft controller, and every refusal.

Beside what `kraft_random` draws: older metadata versions and their upgrade, brokers that register
again, configurations of nodes, and requests with one mistake each, of which Kafka's answer is
known.

Source: docs/kraft.md, sections 6 to 8 and 11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from kfast.state.kraft_releases import (
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    Release,
)
from kfast.state.kraft_releases import MIN_INSYNC_REPLICAS as MIN_ISR
from tests.support.kraft_cases import Json, incarnation_label_of, label_of
from tests.support.kraft_random import (
    CONTROLLER_ID,
    UNCLEAN_KEY,
    WEIGHTS,
    RandomSequence,
)

UNKNOWN_BROKER = 999
FIRST_ELR_LEVEL = 23
LONGEST_CONFIG = 32_767
SHARE_OF_MISTAKES = {"heartbeat": 0.05, "alter_partition": 0.15, "create_topics": 0.6}
"""How many of the requests have a mistake; of others 0.3."""


class EveryRuleSequence(RandomSequence):
    """Draws events of every kind, and mistakes."""

    weights: ClassVar = {
        **WEIGHTS, "register_again": 3, "configure": 8, "features": 6, "unclean": 10,
        "create": 8, "reassign": 14, "delete": 3, "fence_stale": 12,
    }

    def given(self, release: Release) -> Json:
        """An older metadata version in some clusters, and one without a cluster's min ISR."""
        rng = self.rng
        level = release.latest_metadata_version
        if rng.random() < (0.15 if release.elr else 0.5):
            level = rng.choice([release.metadata_levels[0], rng.randint(7, level)])
        elr = release.elr and level >= FIRST_ELR_LEVEL and rng.random() < 0.75
        given = self.given_of(level, elr, rng.choice(["1", "2", "2", "3", None]))
        if rng.random() < 0.3:
            given["static_config"] = {MIN_ISR: "2", UNCLEAN_KEY: rng.choice(["true", "false"])}
        given["max_elections"] = rng.choice([1000, 1000, 1])
        return given

    def create(self, n_partitions: int) -> Json:
        """A topic whose name can collide with another."""
        event = super().create(n_partitions)
        event["topics"][0]["name"] = f"topic_{self.n_topics}"
        return event

    def draw(self) -> Json:
        """The next event; some have a mistake."""
        event = super().draw()
        mistakes = MISTAKES.get(event["op"])
        if mistakes and self.rng.random() < SHARE_OF_MISTAKES.get(event["op"], 0.3):
            name = self.rng.choice(list(mistakes))
            spoil, _ = mistakes[name]
            spoil(self, event)
            event["mistake"] = name
        return event

    # --------------------------------------------------------------------------------- the events

    def _restart(self) -> Json:
        event = super()._restart()
        event["request_version"] = self.rng.choice([2, 3, 4, 4])
        return event

    def _register_again(self) -> Json:
        """The same incarnation."""
        broker = self.rng.choice(self.brokers)
        label = incarnation_label_of(broker.incarnation_id)
        return {**self.register(broker.id), "incarnation": label}

    def _alter_partition(self) -> Json:
        """Before 4.0 also requests without topic ids."""
        event = super()._alter_partition()
        if self.run.release.metadata_levels[0] == 1:
            event["request_version"] = self.rng.choice([1, 2, 3])
        return event

    def _expire(self) -> Json:
        """Sometimes nobody makes contact."""
        event = super()._expire()
        if self.rng.random() < 0.3:
            event |= {"ms": 9001, "contacts": []}
        return event

    def _eligible_without_replica(self) -> list[tuple[str, int, list[int]]]:
        """Partitions without ISR whose ELR has brokers that have no replica any more, and these."""
        return [
            (topic.name, number, sorted(set(partition.elr) - {*partition.replicas}))
            for topic in self.topics
            for number, partition in topic.partitions.items()
            if not partition.isr and set(partition.elr) - {*partition.replicas}
        ]

    def _heartbeat(self) -> Json:
        """Most often of a broker that is eligible where it has no replica."""
        eligible = self._eligible_without_replica()
        if not eligible:
            return super()._heartbeat()
        return self.heartbeat(self.rng.choice(self.rng.choice(eligible)[2]))

    def _reassign(self) -> Json:
        """Often a cancellation, a target of one, or one that only the ELR still has."""
        event = super()._reassign()
        row, chance = partition_row(event), self.rng.random()
        moving = [
            (topic.name, number)
            for topic in self.topics
            for number, partition in topic.partitions.items()
            if partition.removing or partition.adding
        ]
        eligible = self._eligible_without_replica()
        if eligible:
            event["topics"][0]["topic"], row["partition"], row["replicas"] = (
                self.rng.choice(eligible)
            )
        elif moving and chance < 0.5:
            event["topics"][0]["topic"], row["partition"] = self.rng.choice(moving)
            row["replicas"] = None
        elif chance > 0.8 and row["replicas"]:
            row["replicas"] = row["replicas"][:1]
        if self.rng.random() < 0.1:
            event["allow_rf_change"] = False
        return event

    def _delete(self) -> Json:
        """Most often one with an ELR, or an empty ISR, which leaves directories in an index."""
        event = super()._delete()
        emptied = [
            topic.name for topic in self.topics
            if any(not p.isr or p.elr for p in topic.partitions.values())
        ]
        if emptied and len(self.topics) > 1:
            event["topics"] = [self.rng.choice(emptied)]
        return event

    def _lose_dir(self) -> Json:
        """Most often one with an entry of a deleted topic."""
        state = self.run.controller.state
        stale = [
            (broker.id, label_of(directory))
            for broker in self.brokers for directory in broker.directories
            if any(
                place.topic_id not in state.topics
                for place in state.directory_index.partitions(directory)
            )
        ]
        if not stale or self.rng.random() < 0.5:
            return super()._lose_dir()
        broker, directory = self.rng.choice(stale)
        return self.heartbeat(broker, offline_log_dirs=[directory])

    def _configure(self) -> Json:
        event = super()._configure()
        (resource,) = event["resources"]
        if self.rng.random() < 0.3:
            operation = self.rng.choice(["append", "subtract", "delete"])
            value = None if operation == "delete" else self.rng.choice(["compact", "delete"])
            resource |= {"type": "topic", "name": self.rng.choice(self.topics).name}
            resource["ops"] = [["cleanup.policy", operation, value]]
        elif self.rng.random() < 0.3:
            nodes = [CONTROLLER_ID, *(broker.id for broker in self.brokers)]
            resource |= {"type": "broker", "name": str(self.rng.choice(nodes))}
        return event

    def _features(self) -> Json:
        """ELR on or off, another metadata version, or a feature without an effect here."""
        release, state = self.run.release, self.run.controller.state
        level = state.metadata_version.level
        kind = self.rng.random()
        if kind < 0.4 and release.elr and level >= FIRST_ELR_LEVEL:
            return super()._features()
        updates = {METADATA_VERSION: self.rng.randint(level, release.latest_metadata_version)}
        types = {}
        if kind > 0.9:
            updates = {KRAFT_VERSION: 1}
        elif kind > 0.7:
            updates = {METADATA_VERSION: level - 1}
            types = {METADATA_VERSION: self.rng.choice(["safe_downgrade", "unsafe_downgrade"])}
        return {"op": "update_features", "updates": updates, "types": types}

    def _create(self) -> Json:
        event = super()._create()
        event["validate_only"] = self.rng.random() < 0.1
        return event


# --------------------------------------------------------------------------------------- mistakes


def partition_row(event: Json) -> Json:
    """The one partition of a request."""
    row: Json = event["topics"][0]["partitions"][0]
    return row


def new_topic(event: Json) -> Json:
    """The one topic of a request."""
    row: Json = event["topics"][0]
    return row


def member(sequence: RandomSequence, broker: int) -> list[int]:
    """A member of an ISR with its broker epoch."""
    known = sequence.run.controller.state.brokers.get(broker)
    return [broker, -1 if known is None else known.epoch]


def spoil_isr(change: Callable[[RandomSequence, list[list[int]]], list[list[int]]]) -> Any:
    """A mistake that changes the ISR which a leader reports."""

    def spoil(sequence: RandomSequence, event: Json) -> None:
        row = partition_row(event)
        row["isr"] = change(sequence, row["isr"])

    return spoil


def every_replica(sequence: RandomSequence, event: Json) -> None:
    """Report an ISR of all replicas, of which one may be fenced."""
    row = partition_row(event)
    topic = sequence.run.controller.state.topic_named(event["topics"][0]["topic"])
    assert topic is not None
    row["isr"] = [member(sequence, b) for b in topic.partitions[row["partition"]].replicas]


def add_to(key: str, difference: int) -> Any:
    """A mistake that adds a number to a field of the one partition."""

    def spoil(_: RandomSequence, event: Json) -> None:
        partition_row(event)[key] += difference

    return spoil


def put(key: str, value: Any) -> Any:
    """A mistake that gives a request another value."""
    return lambda _, event: event.update({key: value})


def put_in(row_of: Callable[[Json], Json], **values: Any) -> Any:
    """A mistake that gives a part of a request other values."""
    return lambda _, event: row_of(event).update(values)


def put_topic(key: str, value: Any) -> Any:
    """A mistake that names another topic, or number, of the first topic of a request."""
    return lambda _, event: event["topics"][0].update({key: value})


def listed(brokers: Callable[[list[int]], list[int]]) -> Any:
    """A mistake in the replicas of the last of the assignments of a topic."""

    def spoil(_: RandomSequence, event: Json) -> None:
        assignments = event["topics"][0]["assignments"]
        if event["op"] == "create_topics":
            assignments[-1][1] = brokers(assignments[-1][1])
        else:
            assignments[-1] = brokers(assignments[-1])

    return spoil


def recovering(n: int) -> Any:
    """A mistake: RECOVERING of a partition with so many members in the ISR."""

    def spoil(sequence: RandomSequence, event: Json) -> None:
        row = partition_row(event)
        row["recovery"] = 1
        topic = sequence.run.controller.state.topic_named(event["topics"][0]["topic"])
        assert topic is not None
        partition = topic.partitions[row["partition"]]
        first = [b for b in partition.replicas if b == partition.leader]
        rest = [b for b in partition.replicas if b != partition.leader]
        row["isr"] = [member(sequence, b) for b in (first + rest)[:n]]

    return spoil


def directories_of_another(sequence: RandomSequence, event: Json) -> None:
    """Register the directories of another broker."""
    for broker in sequence.brokers:
        if broker.id != event["broker"]:
            event["log_dirs"] = [label_of(directory) for directory in broker.directories]


def features_without(*names: str) -> Any:
    """Register without some features."""

    def spoil(sequence: RandomSequence, event: Json) -> None:
        event["features"] = {
            name: list(levels)
            for name, levels in sequence.run.release.supported_features.items()
            if name not in names
        }

    return spoil


def old_metadata_version(sequence: RandomSequence, event: Json) -> None:
    """Register with a range of metadata versions that ended long ago."""
    ranges = sequence.run.release.supported_features
    event["features"] = {name: list(levels) for name, levels in ranges.items()}
    event["features"][METADATA_VERSION] = [0, 0]


def another_sender(sequence: RandomSequence, event: Json) -> None:
    """A broker reports an ISR that does not lead."""
    others = [broker for broker in sequence.brokers if broker.id != event["broker"]]
    sender = sequence.rng.choice(others)
    event["broker"], event["broker_epoch"] = sender.id, sender.epoch


def wrong_directories(change: Callable[[Json], None]) -> Any:
    """A mistake in the one topic of AssignReplicasToDirs."""
    return lambda _, event: change(event["dirs"][0]["topics"][0])


def sent_by_another(sequence: RandomSequence, event: Json) -> None:
    """A broker assigns a directory to a partition of which it has no replica."""
    row = event["dirs"][0]["topics"][0]
    topic = sequence.run.controller.state.topic_named(row["topic"])
    assert topic is not None
    replicas = topic.partitions[row["partitions"][0]].replicas
    for broker in sequence.brokers:
        if broker.id not in replicas:
            event["broker"], event["broker_epoch"] = broker.id, broker.epoch


def colliding_name(sequence: RandomSequence, event: Json) -> None:
    """Create a topic whose name is that of another but for a dot."""
    name = sequence.rng.choice(sequence.topics).name
    new_topic(event)["name"] = name.replace("_", ".")


def known_name(sequence: RandomSequence, event: Json) -> None:
    """Create a topic that is there."""
    new_topic(event)["name"] = sequence.rng.choice(sequence.topics).name


def placed_by_kafka(factor: int, count: int) -> Any:
    """Create a topic without assignments."""
    return put_in(new_topic, assignments=[], replication_factor=factor, num_partitions=count)


def config_op(kind: str, name: str, *op: str | None) -> Any:
    """Ask for one operation on a resource."""
    resource = {"type": kind, "name": name, "ops": [list(op)]}
    return put("resources", [resource])


def config_of_topic(*op: str | None) -> Any:
    """Ask for one operation on a topic that is there."""

    def spoil(sequence: RandomSequence, event: Json) -> None:
        name = sequence.rng.choice(sequence.topics).name
        event["resources"] = [{"type": "topic", "name": name, "ops": [list(op)]}]

    return spoil


def long_value(sequence: RandomSequence, event: Json) -> None:
    """Set a value that no record can hold; a shorter one where that would end the sequence."""
    is_refused = sequence.run.release.refuses_long_config_values
    config_of_topic("x", "set", "x" * (LONGEST_CONFIG + is_refused))(sequence, event)


def min_isr_of_broker(sequence: RandomSequence, event: Json) -> None:
    """Set min.insync.replicas of one broker, which is refused with ELR on."""
    name = str(sequence.rng.choice(sequence.brokers).id)
    event["resources"] = [{"type": "broker", "name": name, "ops": [[MIN_ISR, "set", "2"]]}]


def levels(direction: str | None, **values: int | str) -> Any:
    """Ask for a level of a feature: a number, or one relative to the level now."""
    ((kind, value),) = values.items()
    name = {"metadata": METADATA_VERSION, "elr": ELR_VERSION}.get(kind, kind)

    def spoil(sequence: RandomSequence, event: Json) -> None:
        now = sequence.run.controller.state.features.get(name, 0)
        event["updates"] = {name: now + int(value) if isinstance(value, str) else value}
        event["types"] = {} if direction is None else {name: direction}

    return spoil


INVALID_LIST = "INVALID_REPLICA_ASSIGNMENT"
INVALID_NAME = "INVALID_TOPIC_EXCEPTION"
REGISTRATION = "INVALID_REGISTRATION"
NO_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
STALE = "STALE_BROKER_EPOCH"
UPDATE = "INVALID_UPDATE_VERSION"

MISTAKES: dict[str, dict[str, tuple[Callable[[RandomSequence, Json], None], str]]] = {
    "register_broker": {
        "another cluster": (put("cluster_id", "another"), "INCONSISTENT_CLUSTER_ID"),
        "no directory": (put("log_dirs", []), REGISTRATION),
        "a reserved directory": (put("log_dirs", ["LOST"]), REGISTRATION),
        "a directory twice": (put("log_dirs", ["77/1", "77/1"]), REGISTRATION),
        "another broker's directories": (directories_of_another, REGISTRATION),
        "no metadata.version": (features_without(METADATA_VERSION), REGISTRATION),
        "an old metadata.version": (old_metadata_version, "UNSUPPORTED_VERSION"),
        "no finalized feature": (
            features_without(ELR_VERSION, KRAFT_VERSION), "UNSUPPORTED_VERSION",
        ),
    },
    "heartbeat": {
        "a broker that is not registered": (put("broker", UNKNOWN_BROKER), STALE),
        "an older epoch": (put("broker_epoch", -1), STALE),
    },
    "unregister_broker": {
        "a broker that is not registered": (
            put("broker", UNKNOWN_BROKER), "BROKER_ID_NOT_REGISTERED",
        ),
    },
    "alter_partition": {
        "an older broker epoch": (put("broker_epoch", -2), STALE),
        "an unknown topic": (put_topic("topic", "none"), "UNKNOWN_TOPIC_ID"),
        "an unknown partition": (put_in(partition_row, partition=99), NO_PARTITION),
        "a higher leader epoch": (add_to("leader_epoch", 1), "NOT_CONTROLLER"),
        "a higher partition epoch": (add_to("partition_epoch", 1), "NOT_CONTROLLER"),
        "a lower leader epoch": (add_to("leader_epoch", -1), "FENCED_LEADER_EPOCH"),
        "another sender": (another_sender, "INVALID_REQUEST"),
        "a lower partition epoch": (add_to("partition_epoch", -1), UPDATE),
        "a member twice": (spoil_isr(lambda _, isr: [*isr, *isr[:1]]), "INVALID_REQUEST"),
        "a negative member": (spoil_isr(lambda _, isr: [*isr, [-1, -1]]), "INVALID_REQUEST"),
        "a member without a replica": (
            spoil_isr(lambda _, isr: [*isr, [UNKNOWN_BROKER, -1]]), "INVALID_REQUEST",
        ),
        "no member": (spoil_isr(lambda *_: []), "INVALID_REQUEST"),
        "recovering with two members": (recovering(2), "INVALID_REQUEST"),
        "recovering after recovery": (recovering(1), "INVALID_REQUEST"),
        "a member of an older epoch": (
            spoil_isr(lambda _, isr: [[b, 1 << 40] for b, _ in isr]), "INELIGIBLE_REPLICA",
        ),
        "a member that is fenced": (every_replica, "INELIGIBLE_REPLICA"),
    },
    "elect_leaders": {
        "an unknown type": (put("type", 2), "INVALID_REQUEST"),
        "an unknown topic": (put("partitions", {"none": [0]}), NO_PARTITION),
        "an unknown partition": (put("partitions", {"topic_1": [99]}), NO_PARTITION),
    },
    "alter_partition_reassignments": {
        "an unknown topic": (put_topic("topic", "none"), NO_PARTITION),
        "an unknown partition": (put_in(partition_row, partition=99), NO_PARTITION),
        "no replica": (put_in(partition_row, replicas=[]), INVALID_LIST),
        "a replica twice": (put_in(partition_row, replicas=[1, 1]), INVALID_LIST),
        "an unknown broker": (put_in(partition_row, replicas=[UNKNOWN_BROKER]), INVALID_LIST),
        "nothing to cancel": (put_in(partition_row, replicas=None), "NO_REASSIGNMENT_IN_PROGRESS"),
    },
    "assign_replicas_to_dirs": {
        "an older broker epoch": (put("broker_epoch", -2), STALE),
        "an unknown topic": (
            wrong_directories(lambda row: row.update(topic="none")), "UNKNOWN_TOPIC_ID",
        ),
        "an unknown partition": (
            wrong_directories(lambda row: row.update(partitions=[99])), NO_PARTITION,
        ),
        "a broker without a replica": (sent_by_another, "NOT_LEADER_OR_FOLLOWER"),
    },
    "create_topics": {
        "more than 10 000 partitions": (placed_by_kafka(0, 10_001), "POLICY_VIOLATION"),
        "an empty name": (put_in(new_topic, name=""), INVALID_NAME),
        "two dots": (put_in(new_topic, name=".."), INVALID_NAME),
        "a space": (put_in(new_topic, name="a b"), INVALID_NAME),
        "250 characters": (put_in(new_topic, name="n" * 250), INVALID_NAME),
        "a name that collides": (colliding_name, INVALID_NAME),
        "a topic that is there": (known_name, "TOPIC_ALREADY_EXISTS"),
        "a configuration without value": (
            put_in(new_topic, configs={MIN_ISR: None}), "INVALID_CONFIG",
        ),
        "assignments and a factor": (put_in(new_topic, replication_factor=2), "INVALID_REQUEST"),
        "a number twice": (
            put_in(new_topic, assignments=[[0, [1]], [0, [1]]]), INVALID_LIST,
        ),
        "a number left out": (put_in(new_topic, assignments=[[1, [1]]]), INVALID_LIST),
        "no replica": (listed(lambda _: []), INVALID_LIST),
        "a replica twice": (listed(lambda brokers: [*brokers, brokers[0]]), INVALID_LIST),
        "an unknown broker": (listed(lambda _: [UNKNOWN_BROKER]), INVALID_LIST),
        "a factor of 0": (placed_by_kafka(0, 1), "INVALID_REPLICATION_FACTOR"),
        "0 partitions": (placed_by_kafka(1, 0), "INVALID_PARTITIONS"),
    },
    "create_partitions": {
        "an unknown topic": (put_topic("name", "none"), NO_PARTITION),
        "fewer partitions": (put_topic("count", 0), "INVALID_PARTITIONS"),
        "too few lists": (put_topic("count", 99), INVALID_LIST),
        "another factor": (listed(lambda brokers: brokers[:-1]), INVALID_LIST),
    },
    "delete_topics": {"an unknown topic": (put("topics", ["none"]), "UNKNOWN_TOPIC_ID")},
    "incremental_alter_configs": {
        "an unknown topic": (config_op("topic", "none", MIN_ISR, "set", "1"), NO_PARTITION),
        "an unknown broker": (
            config_op("broker", str(UNKNOWN_BROKER), UNCLEAN_KEY, "set", "true"),
            "BROKER_ID_NOT_REGISTERED",
        ),
        "append to a number": (config_of_topic(MIN_ISR, "append", "1"), "INVALID_CONFIG"),
        "a long value": (long_value, "INVALID_CONFIG"),
        "no min ISR of the cluster": (
            config_op("broker", "", MIN_ISR, "delete", None), "INVALID_CONFIG",
        ),
        "a min ISR of one broker": (min_isr_of_broker, "INVALID_CONFIG"),
    },
    "update_features": {
        "a negative level": (levels(None, elr=-1), UPDATE),
        "an unsupported level": (levels(None, metadata=99), UPDATE),
        "a lower level": (levels(None, metadata="-1"), UPDATE),
        "a higher level as a downgrade": (levels("safe_downgrade", metadata="+1"), UPDATE),
        "metadata that changed": (levels("unsafe_downgrade", metadata=7), UPDATE),
        "an unknown feature": (levels(None, unknown=0), UPDATE),
        "ELR before 4.0-IV1": (levels(None, elr=1), UPDATE),
    },
}
"""Mistakes of each request, and what Kafka answers where nothing else is wrong with it."""
