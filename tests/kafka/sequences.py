"""Random sequences for Kafka and kfast: of many sizes, each with its own mix of events.

What one event asks for is drawn by `kraft_random` and `kraft_every_rule`. Here several requests of
one kind become one, clusters may start with brokers that the log already has, and the weights of
events differ from sequence to sequence, so that an event is rare in one and frequent in another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from kfast.state.kraft_releases import Release
from tests.support.kraft_cases import Json
from tests.support.kraft_every_rule import EveryRuleSequence

ROWS = {
    "alter_partition": "topics", "alter_partition_reassignments": "topics",
    "assign_replicas_to_dirs": "dirs", "create_topics": "topics", "create_partitions": "topics",
    "delete_topics": "topics",
}
"""Requests that take several rows, and where these are."""

SENDERS = ("broker", "broker_epoch", "request_version", "validate_only", "allow_rf_change")
"""What must be equal where two requests become one."""


def keys_of(row: Any) -> set[Any]:
    """What a row of a request is about: a topic, a directory, or partitions."""
    if isinstance(row, str):
        return {row}
    if "topic" in row:
        return {(row["topic"], partition["partition"]) for partition in row["partitions"]}
    return {row["name"] if "name" in row else row["dir"]}


class LockstepSequence(EveryRuleSequence):
    """Draws the size of a cluster and its mix of events from the seed, then the events."""

    def __init__(self, seed: int, profile: str) -> None:
        rng = random.Random(f"size {seed}")
        n_brokers = rng.choice([2, 3, 4, 5, 6, 7, 8, 10, 12, rng.randint(13, 40)])
        super().__init__(
            seed, profile, n_brokers, rng.choice([1, 2, 3, 4, 6, 10]),
            first_id=rng.choice([1, 1, 1, 0, 13, 101]),
        )
        self.weights = {
            kind: weight * rng.lognormvariate(0, 0.8) * (rng.random() < 0.9)
            for kind, weight in EveryRuleSequence.weights.items()
        }
        self.share_merged = rng.uniform(0, 0.5)
        self.n_events = rng.choice([40, 80, 150, 300])

    def options(self) -> Json:
        """Layout and threads of kfast."""
        return {"wide": self.rng.random() < 0.3, "threads": self.rng.choice([1, 1, 1, 2])}

    def given(self, release: Release) -> Json:
        """Often with brokers that are registered and unfenced."""
        given = super().given(release)
        self.registered = self.rng.random() < 0.7
        if self.registered:
            level = given["metadata_version"]
            given["records"] += [
                self.registration(broker, len(given["records"]) + at, level, release)
                for at, broker in enumerate(self.ids)
            ]
        return given

    def registration(self, broker: int, offset: int, level: int, release: Release) -> Json:
        """A record of a broker that the log has."""
        self.n_incarnations += 1
        record: Json = {
            "type": "REGISTER_BROKER_RECORD", "version": 3 if level >= 17 else 2,
            "brokerId": broker, "incarnation": f"i{self.n_incarnations}", "brokerEpoch": offset,
            "rack": f"r{broker % 3}", "fenced": False, "inControlledShutdown": False,
        }
        if level >= 17:
            record["logDirs"] = [f"{broker}/{number}" for number in range(1 + broker % 3)]
        return record

    def events(self) -> Iterator[Json]:
        """Register and unfence brokers that are not there yet, create topics; then at random.

        Whoever takes an event runs it on `self.run` before taking the next.
        """
        if not self.registered:
            for broker in self.ids:
                yield self.register(broker)
            for broker in self.ids:
                yield self.heartbeat(broker)
        for _ in range(2):
            yield self.create(self.n_partitions)
        for _ in range(self.n_events):
            yield self.draw()

    def draw(self) -> Json:
        """The next event; some ask for several things at once, which may delete every topic."""
        if not self.topics:
            return self._create()
        event = super().draw()
        while event["op"] in ROWS and self.rng.random() < self.share_merged:
            other = super().draw()
            if other["op"] != event["op"]:
                break
            self.merge(event, other)
        return event

    def merge(self, event: Json, other: Json) -> None:
        """Add the rows of another request, where both can be one.

        The list of rows is made anew: that of a mistake belongs to every event that has it.
        """
        place = ROWS[event["op"]]
        if any(event.get(name) != other.get(name) for name in SENDERS):
            return
        present = set().union(*map(keys_of, event[place]))
        event[place] = [
            *event[place], *(row for row in other[place] if not keys_of(row) & present)
        ]
        if "mistake" in other:
            event["mistake"] = other["mistake"]

    def _heartbeat(self) -> Json:
        """Some heartbeats wish for several things, or come from a broker that is behind."""
        event = super()._heartbeat()
        for wish in ("want_fence", "want_shut_down"):
            if self.rng.random() < 0.1:
                event[wish] = True
        if self.rng.random() < 0.2:
            event["metadata_offset"] -= self.rng.randint(1, 30)
        return event

    def _reassign(self) -> Json:
        """Some plans are for what is moving already, and may not change its number of replicas."""
        event = super()._reassign()
        moving = [
            (topic.name, number, partition)
            for topic in self.topics for number, partition in topic.partitions.items()
            if partition.removing or partition.adding
        ]
        if moving and self.rng.random() < 0.3:
            name, number, partition = self.rng.choice(moving)
            staying = len({*partition.replicas} - {*partition.removing})
            ids = [broker.id for broker in self.brokers]
            size = min(self.rng.choice([staying, len(partition.replicas)]), len(ids))
            row = {"partition": number, "replicas": self.rng.sample(ids, size)}
            event |= {"topics": [{"topic": name, "partitions": [row]}]}
            event["allow_rf_change"] = self.rng.random() < 0.5
        return event

    def _elect(self) -> Json:
        """Some elections are for several topics."""
        event = super()._elect()
        if event["partitions"] is not None and self.rng.random() < 0.4:
            some = [topic for topic in self.topics if self.rng.random() < 0.6]
            event["partitions"] |= {
                topic.name: sorted(topic.partitions.order()) for topic in some
            }
        return event

    def _alter_partition(self) -> Json:
        """Some reports are of several partitions that one broker leads."""
        event = super()._alter_partition()
        if self.rng.random() > self.share_merged:
            return event
        for _ in range(self.rng.randint(1, 8)):
            self.merge(event, super()._alter_partition())
        return event
