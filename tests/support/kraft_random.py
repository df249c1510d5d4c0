"""Random sequences of KRaft events, in the form of the case files, answered by the twin.

    python -m tests.support.kraft_random OUT --profile kraft-4.1 --cases 100 --seed 1

A sequence is drawn by looking at the live state, so that most events are valid; one seed always
gives one sequence. Whatever else runs such events can be compared with the twin in every record.

Source: docs/kraft.md, sections 6 to 8.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kfast.state.kraft_releases import ELR_VERSION, METADATA_VERSION, RELEASES, Release
from kfast.state.kraft_releases import MIN_INSYNC_REPLICAS as MIN_ISR
from kfast.state.registrations import BrokerRegistration, PartitionRegistration
from tests.support.kraft_cases import Json, TwinRun, label_of
from tests.support.kraft_reference.state import Topic

KAFKA_OF = {
    "kraft-3.3": "3.3.2", "kraft-3.4": "3.4.1", "kraft-3.5": "3.5.2", "kraft-3.6": "3.6.2",
    "kraft-3.7": "3.7.2", "kraft-3.8": "3.8.1", "kraft-3.9": "3.9.1", "kraft-4.0": "4.0.2",
    "kraft-4.1": "4.1.2", "kraft-4.2": "4.2.0", "kraft-4.3": "4.3.1",
}
CONTROLLER_ID = 3000
UNCLEAN_KEY = "unclean.leader.election.enable"

WEIGHTS = {
    "heartbeat": 14, "expire": 8, "fence_stale": 8, "restart": 8, "shut_down": 6,
    "alter_partition": 22, "reassign": 10, "elect": 6, "balance": 4, "unclean": 3,
    "configure": 5, "features": 2, "create": 3, "grow": 2, "delete": 1, "assign_dirs": 4,
    "lose_dir": 2, "unregister": 1, "failover": 1,
}
"""How often each kind of event is drawn."""


class RandomSequence:
    """Draws events for a cluster that the twin runs."""

    weights = WEIGHTS

    def __init__(
        self, seed: int, profile: str, n_brokers: int, n_partitions: int, first_id: int = 1
    ) -> None:
        self.rng = random.Random(seed)
        self.ids = list(range(first_id, first_id + n_brokers))
        self.n_partitions = n_partitions
        self.n_incarnations = 0
        self.n_topics = 0
        self.case: Json = {
            "id": f"{profile}-{seed}", "profile": profile, "kafka": KAFKA_OF[profile],
            "seed": seed, "theme": "random", "given": self.given(RELEASES[profile]),
        }
        self.run = TwinRun(self.case)

    def given(self, release: Release) -> Json:
        """What the cluster starts from: the newest metadata version, ELR in most clusters."""
        level, elr = release.latest_metadata_version, self.rng.random() < 0.7
        return self.given_of(level, elr, str(self.rng.randint(1, 3)))

    def given_of(self, level: int, elr: bool, min_isr: str | None) -> Json:
        """The same, with what was drawn; without a min ISR the default of the cluster has none."""
        records: list[Json] = [
            {"type": "FEATURE_LEVEL_RECORD", "name": METADATA_VERSION, "featureLevel": level}
        ]
        if elr:
            records.append(
                {"type": "FEATURE_LEVEL_RECORD", "name": ELR_VERSION, "featureLevel": 1}
            )
        if min_isr is not None:
            records.append({
                "type": "CONFIG_RECORD", "resourceType": 4, "resourceName": "", "name": MIN_ISR,
                "value": min_isr,
            })
        return {
            "metadata_version": level, "elr": elr, "controller_id": CONTROLLER_ID,
            "session_timeout_ms": 9000, "max_elections": self.rng.choice([1000, 1000, 3]),
            "static_config": {}, "records": records,
        }

    # --------------------------------------------------------------------------- what is there

    @property
    def brokers(self) -> list[BrokerRegistration]:
        """Registered brokers by id."""
        return sorted(self.run.controller.state.brokers.values(), key=lambda b: b.id)

    @property
    def topics(self) -> list[Topic]:
        """Topics by name."""
        return sorted(self.run.controller.state.topics.values(), key=lambda topic: topic.name)

    def _partition(self) -> tuple[Topic, int, PartitionRegistration]:
        topic = self.rng.choice(self.topics)
        number = self.rng.randrange(len(topic.partitions))
        return topic, number, topic.partitions[number]

    # ------------------------------------------------------------------------------- the events

    def register(self, broker: int, clean: bool = False) -> Json:
        """A new incarnation of a broker."""
        self.n_incarnations += 1
        known = self.run.controller.state.brokers.get(broker)
        dirs = [f"{broker}/{number}" for number in range(1 + broker % 3)]
        return {
            "op": "register_broker", "broker": broker, "incarnation": f"i{self.n_incarnations}",
            "rack": f"r{broker % 3}", "log_dirs": dirs, "request_version": 4,
            "previous_broker_epoch": known.epoch if known is not None and clean else -1,
        }

    def heartbeat(self, broker: int, **wishes: Any) -> Json:
        """A heartbeat that knows all metadata."""
        known = self.run.controller.state.brokers.get(broker)
        return {
            "op": "heartbeat", "broker": broker, "broker_epoch": known.epoch if known else 0,
            "metadata_offset": self.run.controller.next_offset - 1, **wishes,
        }

    def create(self, n_partitions: int) -> Json:
        """A topic on registered brokers."""
        self.n_topics += 1
        ids = [broker.id for broker in self.brokers]
        factor = self.rng.randint(1, min(5, len(ids)))
        configs = {}
        if self.rng.random() < 0.3:
            configs[MIN_ISR] = str(self.rng.randint(1, 3))
        if self.rng.random() < 0.3:
            configs[UNCLEAN_KEY] = self.rng.choice(["true", "false"])
        raw = base64.urlsafe_b64encode(self.rng.randbytes(16)).decode()
        return {"op": "create_topics", "topics": [{
            "name": f"topic{self.n_topics}", "topic_id": raw.rstrip("="), "configs": configs,
            "assignments": [[n, self.rng.sample(ids, factor)] for n in range(n_partitions)],
        }]}

    def setup(self) -> list[Json]:
        """Register every broker, unfence it, create topics."""
        steps: list[Callable[[], Json]] = [
            *(partial(self.register, broker) for broker in self.ids),
            *(partial(self.heartbeat, broker) for broker in self.ids),
            *(partial(self.create, self.n_partitions) for _ in range(2)),
        ]
        events = []
        for step in steps:
            events.append(step())
            self.run.run(events[-1])
        return events

    def draw(self) -> Json:
        """The next event."""
        (kind,) = self.rng.choices(list(self.weights), list(self.weights.values()))
        event: Json = getattr(self, f"_{kind}")()
        return event

    def _heartbeat(self) -> Json:
        wishes = {"want_fence": True} if self.rng.random() < 0.15 else {}
        return self.heartbeat(self.rng.choice(self.ids), **wishes)

    def _expire(self) -> Json:
        silent = set(self.rng.sample(self.ids, self.rng.randint(1, min(3, len(self.ids)))))
        contacts = [broker for broker in self.ids if broker not in silent]
        return {"op": "advance_time", "ms": self.rng.choice([3000, 9001]), "contacts": contacts}

    def _fence_stale(self) -> Json:
        return {"op": "fence_stale"}

    def _restart(self) -> Json:
        return self.register(self.rng.choice(self.ids), clean=self.rng.random() < 0.4)

    def _shut_down(self) -> Json:
        return self.heartbeat(self.rng.choice(self.ids), want_shut_down=True)

    def _alter_partition(self) -> Json:
        """The leader's new ISR: mostly a member more, sometimes one less, some of it wrong."""
        topic, number, p = self._partition()
        brokers = self.run.controller.state.brokers
        members = list(p.isr)
        missing = [b for b in p.replicas if b not in p.isr and (
            self.run.controller.state.is_active(b) or self.rng.random() < 0.1)]
        if missing and self.rng.random() < 0.8:
            members += self.rng.sample(missing, self.rng.randint(1, len(missing)))
        elif len(members) > 1:
            members.remove(self.rng.choice([b for b in members if b != p.leader] or members))
        self.rng.shuffle(members)
        sender = brokers.get(p.leader) or self.rng.choice(self.brokers)
        late = int(self.rng.random() < 0.05)
        recovery = p.recovery if len(members) == 1 else 0
        return {
            "op": "alter_partition", "broker": sender.id, "broker_epoch": sender.epoch,
            "request_version": 3, "topics": [{"topic": topic.name, "partitions": [{
                "partition": number, "leader_epoch": p.leader_epoch - late,
                "partition_epoch": p.partition_epoch, "recovery": recovery,
                "isr": [[b, r.epoch if (r := brokers.get(b)) else -1] for b in members],
            }]}],
        }

    def _reassign(self) -> Json:
        topic, number, p = self._partition()
        ids = [broker.id for broker in self.brokers]
        target: list[int] | None = self.rng.sample(ids, self.rng.randint(1, min(4, len(ids))))
        if (p.removing or p.adding) and self.rng.random() < 0.5:
            target = None
        return {"op": "alter_partition_reassignments", "topics": [{
            "topic": topic.name, "partitions": [{"partition": number, "replicas": target}],
        }]}

    def _elect(self) -> Json:
        topic, number, _ = self._partition()
        listed = None if self.rng.random() < 0.3 else {topic.name: [number]}
        return {"op": "elect_leaders", "type": self.rng.randint(0, 1), "partitions": listed}

    def _balance(self) -> Json:
        return {"op": "balance_leaders"}

    def _unclean(self) -> Json:
        return {"op": "elect_unclean_leaders"}

    def _configure(self) -> Json:
        topic = self.rng.random() < 0.6
        key, value = self.rng.choice([
            (MIN_ISR, str(self.rng.randint(1, 3))), (UNCLEAN_KEY, "true"), (UNCLEAN_KEY, "false"),
        ])
        name = self.rng.choice(self.topics).name if topic else ""
        kind = "topic" if topic else "broker"
        delete = self.rng.random() < 0.2
        change = [key, "delete", None] if delete else [key, "set", value]
        return {"op": "incremental_alter_configs",
                "resources": [{"type": kind, "name": name, "ops": [change]}]}

    def _features(self) -> Json:
        level = 1 - int(self.run.controller.state.elr_on)
        types = {} if level else {"types": {ELR_VERSION: "safe_downgrade"}}
        return {"op": "update_features", "updates": {ELR_VERSION: level}, **types}

    def _create(self) -> Json:
        return self.create(self.rng.randint(1, 4))

    def _grow(self) -> Json:
        topic = self.rng.choice(self.topics)
        ids = [broker.id for broker in self.brokers]
        factor = len(topic.partitions[topic.partitions.order()[0]].replicas)
        added = [self.rng.sample(ids, min(factor, len(ids)))]
        return {"op": "create_partitions", "topics": [
            {"name": topic.name, "count": len(topic.partitions) + 1, "assignments": added}]}

    def _delete(self) -> Json:
        """Never the last topic."""
        gone = [self.rng.choice(self.topics).name] if len(self.topics) > 1 else ["none"]
        return {"op": "delete_topics", "topics": gone}

    def _assign_dirs(self) -> Json:
        topic, number, p = self._partition()
        broker = self.rng.choice(self.brokers)
        if self.rng.random() < 0.9 and (known := [b for b in self.brokers if b.id in p.replicas]):
            broker = self.rng.choice(known)
        labels = [*map(label_of, broker.directories), "LOST"]
        return {"op": "assign_replicas_to_dirs", "broker": broker.id, "broker_epoch": broker.epoch,
                "dirs": [{"dir": self.rng.choice(labels),
                          "topics": [{"topic": topic.name, "partitions": [number]}]}]}

    def _lose_dir(self) -> Json:
        broker = self.rng.choice(self.brokers)
        lost = [label_of(directory) for directory in broker.directories[:1]]
        return self.heartbeat(broker.id, offline_log_dirs=lost)

    def _unregister(self) -> Json:
        """Half of the brokers stay."""
        enough = len(self.brokers) > max(3, len(self.ids) // 2)
        return {"op": "unregister_broker",
                "broker": self.rng.choice(self.brokers).id if enough else 999}

    def _failover(self) -> Json:
        return {"op": "failover"}


def random_case(
    seed: int, profile: str = "kraft-4.1", *, n_brokers: int = 6, n_partitions: int = 6,
    n_events: int = 60, kind: type[RandomSequence] = RandomSequence,
) -> Json:
    """A sequence with all that the twin answers, in the form of the case files."""
    sequence = kind(seed, profile, n_brokers, n_partitions, 1 + 100 * (seed % 3 == 0))
    case = sequence.case
    case["setup"] = sequence.setup()
    case["start"] = sequence.run.full_state()
    case["events"] = []
    for _ in range(n_events):
        event = sequence.draw()
        expect = sequence.run.run(event)
        case["events"].append({"event": event, "expect": expect})
        if "fault" in expect:
            return case
    case["end"] = sequence.run.full_state()
    return case


def main(arguments: list[str] | None = None) -> int:
    """Write a file of random cases."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.kraft_random")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--profile", default="kraft-4.1", choices=sorted(KAFKA_OF))
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=6)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--events", type=int, default=60)
    options = parser.parse_args(arguments)
    cases = [
        random_case(
            seed, options.profile, n_brokers=options.brokers, n_partitions=options.partitions,
            n_events=options.events,
        )
        for seed in range(options.seed, options.seed + options.cases)
    ]
    options.out.write_text(json.dumps({"meta": {}, "cases": cases}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
