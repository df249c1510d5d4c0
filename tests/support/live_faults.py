"""Logs of real controllers: a cluster of ZooKeeper mode under random faults, and its replay.

    python -m tests.support.live_faults --version 2.8.2 --seed 11 --level TRACE FOLDER

runs brokers for some minutes. They are killed, paused beyond their sessions, shut down and started
again, lose log directories and the controller; topics are made, get partitions, are reassigned,
deleted, balanced and elected for, by nodes in ZooKeeper and, from 2.4 on, by requests. Producers
write all the while, so that paused followers leave ISRs. FOLDER gets the logs of all brokers and
`story.txt`, what was done and when; then the logs are replayed. The same seed draws the same
faults, but no two runs of real brokers are the same.

Needs Java, Maven and the packages kafka-python and kazoo.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import KafkaError
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from kfast.log_replay import replay
from tests.support.kafka_brokers import KafkaBrokers

SESSION_MS = 4_000
LAG_MS = 1_500
PAUSES_S = (0.05, 0.3, 1.0, 2.0, 4.0)
"""Between two faults."""
WEIGHTS = {
    "create": 5, "delete": 3, "grow": 2, "kill": 3, "shut_down": 3, "start": 6, "bounce": 2,
    "stop_for_a_while": 4, "move_controller": 2, "reassign": 5, "cancel": 1, "elect": 3,
    "set_unclean": 1.5, "fail_directory": 1,
}
ROOT = "/kafka"


class LiveStory:
    """Random faults of a running cluster, by name of the method.

    Parameters
    ----------
    brokers : KafkaBrokers
    store : KazooClient
    rng : random.Random
    """

    def __init__(self, brokers: KafkaBrokers, store: KazooClient, rng: random.Random) -> None:
        self.brokers, self.store, self.rng = brokers, store, rng
        self.has_requests = tuple(map(int, brokers.version.split(".")[:2])) >= (2, 4)
        self.begun = time.monotonic()
        self.lines: list[str] = []
        self.paused: set[int] = set()
        self.deleted: list[str] = []
        self.n_topics = 0

    def say(self, *words: object) -> None:
        """Note what is done."""
        self.lines.append(f"{time.monotonic() - self.begun:.1f} {' '.join(map(str, words))}")

    def go(self, n_faults: int) -> None:
        """Draw faults one after the other; what the cluster refuses is noted."""
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        for name in ["create", "create", *self.rng.choices(names, weights, k=n_faults)]:
            try:
                getattr(self, name)()
            except (KazooException, KafkaError, OSError, RuntimeError) as error:
                self.say("  refused:", type(error).__name__, str(error)[:80])
            time.sleep(self.rng.choice(PAUSES_S))
        for broker in self.down():
            self.start_broker(broker)
        time.sleep(SESSION_MS / 1000 + 2)

    # --- what there is --------------------------------------------------------------------------

    def up(self) -> list[int]:
        """Brokers that run and are not paused."""
        return [b for b in self.brokers.ids if b not in self.down() and b not in self.paused]

    def down(self) -> list[int]:
        """Brokers whose process has ended."""
        processes = self.brokers.processes
        return [b for b in self.brokers.ids
                if b not in processes or processes[b].poll() is not None]

    def topics(self) -> dict[str, dict[str, list[int]]]:
        """Assignments of all topics but Kafka's own."""
        assignments = {}
        with contextlib.suppress(NoNodeError):  # Deleted meanwhile.
            for name in sorted(self.store.get_children(f"{ROOT}/brokers/topics")):
                if not name.startswith("__"):
                    content, _ = self.store.get(f"{ROOT}/brokers/topics/{name}")
                    assignments[name] = json.loads(content)["partitions"]
        return assignments

    def drawn(self, n: int) -> list[str]:
        """Some topics."""
        names = [*self.topics()]
        return self.rng.sample(names, min(n, len(names)))

    def put(self, path: str, content: object, *, sequence: bool = False) -> None:
        """Make a node."""
        self.store.create(ROOT + path, json.dumps(content).encode(), makepath=True,
                          sequence=sequence)

    def admin(self) -> KafkaAdminClient:
        """A client of the brokers that run."""
        addresses = [f"localhost:{self.brokers.ports[b]}" for b in self.up()]
        return KafkaAdminClient(bootstrap_servers=addresses, request_timeout_ms=8_000)

    def replicas(self, n: int) -> list[int]:
        """So many brokers in any order."""
        return self.rng.sample(list(self.brokers.ids), min(n, len(self.brokers.ids)))

    # --- topics ---------------------------------------------------------------------------------

    def create(self) -> None:
        """A topic comes, perhaps one that was deleted."""
        back = [name for name in self.deleted if name not in self.topics()]
        if back and self.rng.random() < 0.4:
            name = self.rng.choice(back)
        else:
            self.n_topics += 1
            name = f"t{self.n_topics}"
        n, n_replicas = self.rng.choice([1, 2, 3, 5]), self.rng.choice([1, 2, 2, 3, 3])
        assigned = {str(at): self.replicas(n_replicas) for at in range(n)}
        self.say("create", name, assigned)
        with contextlib.suppress(NodeExistsError):  # Of a topic that was deleted before.
            self.put(f"/config/topics/{name}", {"version": 1, "config": {}})
        self.put(f"/brokers/topics/{name}", {"version": 1, "partitions": assigned})

    def delete(self) -> None:
        """One topic goes, or two."""
        for name in self.drawn(self.rng.choice([1, 1, 2])):
            self.say("delete", name)
            self.deleted.append(name)
            self.put(f"/admin/delete_topics/{name}", None)

    def grow(self) -> None:
        """A topic gets one partition more, or two."""
        for name in self.drawn(1):
            path = f"{ROOT}/brokers/topics/{name}"
            raw, stat = self.store.get(path)
            content = json.loads(raw)
            partitions = content["partitions"]
            n_replicas = len(next(iter(partitions.values())))
            for at in range(len(partitions), len(partitions) + self.rng.choice([1, 2])):
                partitions[str(at)] = self.replicas(n_replicas)
            self.say("grow", name, len(partitions))
            self.store.set(path, json.dumps(content).encode(), version=stat.version)

    def reassign(self) -> None:
        """Some partitions are to have other replicas, or the same in another order."""
        targets: dict[tuple[str, int], list[int]] = {}
        for name in self.drawn(self.rng.choice([1, 1, 2, 3])):
            number, now = self.rng.choice([*self.topics()[name].items()])
            target = self.rng.sample(now, len(now)) if self.rng.random() < 0.15 else (
                self.replicas(max(1, len(now) + self.rng.choice([0, 0, 0, -1, 1]))))
            targets[name, int(number)] = target
        if self.has_requests and self.rng.random() < 0.6:
            self.say("reassign by request", targets)
            with self.admin() as admin:
                admin.alter_partition_reassignments({
                    TopicPartition(*partition): target for partition, target in targets.items()})
        elif targets:
            self.say("reassign by node", targets)
            self.put("/admin/reassign_partitions", {"version": 1, "partitions": [
                {"topic": name, "partition": number, "replicas": target}
                for (name, number), target in targets.items()]})

    def cancel(self) -> None:
        """Reassignments are called off."""
        if self.has_requests:
            with self.admin() as admin:
                moving = list(admin.list_partition_reassignments())
                self.say("cancel", moving)
                if moving:
                    admin.alter_partition_reassignments(dict.fromkeys(moving))

    def elect(self) -> None:
        """Preferred replicas are to lead, or any replica."""
        topics = self.topics()
        numbers = {name: [*map(int, topics[name])] for name in self.drawn(2)}
        if self.has_requests and self.rng.random() < 0.6:
            kind = self.rng.choice([0, 1])
            self.say("elect", ("preferred", "unclean")[kind], numbers)
            with self.admin() as admin:
                admin.elect_leaders(kind, numbers)
        elif numbers:
            self.say("elect preferred by node", numbers)
            self.put("/admin/preferred_replica_election", {"version": 1, "partitions": [
                {"topic": name, "partition": number} for name in numbers
                for number in numbers[name]]})

    def set_unclean(self) -> None:
        """Unclean elections are allowed to a topic, or forbidden again."""
        for name in self.drawn(1):
            value = self.rng.choice(["true", "true", "false"])
            self.say("unclean elections", name, value)
            self.store.set(f"{ROOT}/config/topics/{name}", json.dumps(
                {"version": 1, "config": {"unclean.leader.election.enable": value}}).encode())
            self.put("/config/changes/config_change_", {
                "version": 2, "entity_path": f"topics/{name}"}, sequence=True)

    # --- brokers --------------------------------------------------------------------------------

    def one_up(self) -> int | None:
        """A broker that runs, if it is not the last."""
        return self.rng.choice(self.up()) if len(self.up()) > 1 else None

    def start_broker(self, broker: int) -> None:
        """Start one."""
        self.say("start", broker)
        self.brokers.start(broker)

    def start(self) -> None:
        """Start one that is down, and perhaps wait for it."""
        if self.down():
            broker = self.rng.choice(self.down())
            self.start_broker(broker)
            time.sleep(self.rng.choice([0, 6, 6]))

    def kill(self) -> None:
        """A process ends at once."""
        if (broker := self.one_up()) is not None:
            self.say("kill", broker)
            self.brokers.kill(broker)

    def bounce(self) -> None:
        """A process ends and starts within its session."""
        if (broker := self.one_up()) is not None:
            self.say("bounce", broker)
            self.brokers.kill(broker)
            self.brokers.start(broker)
            time.sleep(5)

    def shut_down(self) -> None:
        """A process is told to end; sometimes nobody waits until it has moved its leaders."""
        if (broker := self.one_up()) is not None:
            self.say("shut down", broker)
            process = self.brokers.processes[broker]
            process.terminate()
            try:
                process.wait(self.rng.choice([0.5, 12, 12]))
            except subprocess.TimeoutExpired:
                self.say("  kill", broker)
                self.brokers.kill(broker)

    def stop_for_a_while(self) -> None:
        """A process is stopped, long enough to leave ISRs or to lose its session."""
        if (broker := self.one_up()) is None:
            return
        process = self.brokers.processes[broker]
        seconds = self.rng.choice([2.5, 3, SESSION_MS / 1000 + 2.5, SESSION_MS / 1000 + 5])
        self.say("stop for a while", broker, seconds)
        os.kill(process.pid, signal.SIGSTOP)
        self.paused.add(broker)

        def go_on() -> None:
            time.sleep(seconds)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
            self.paused.discard(broker)

        threading.Thread(target=go_on, daemon=True).start()
        time.sleep(self.rng.choice([0, seconds]))

    def move_controller(self) -> None:
        """The node of the controller is deleted: another one is elected."""
        self.say("move controller")
        self.store.delete(f"{ROOT}/controller")

    def fail_directory(self) -> None:
        """A log directory is replaced with a file."""
        if (broker := self.one_up()) is not None:
            directory = self.brokers.directories(broker)[-1]
            self.say("fail directory", directory.name)
            shutil.rmtree(directory, ignore_errors=True)
            if not directory.exists():
                directory.write_text("no directory")


def produce(story: LiveStory, is_over: threading.Event) -> None:
    """Write records to all partitions until it is over."""
    producer: Any = None
    while not is_over.is_set():
        try:
            if producer is None and story.up():
                producer = KafkaProducer(
                    bootstrap_servers=[f"localhost:{story.brokers.ports[b]}" for b in story.up()],
                    acks=1, retries=0, max_block_ms=800, request_timeout_ms=3_000,
                    metadata_max_age_ms=3_000,
                )
            for name, partitions in story.topics().items() if producer is not None else ():
                for number in partitions:
                    producer.send(name, b"record", partition=int(number))
        except (KafkaError, KazooException, OSError, AssertionError, ValueError):
            producer = None  # No leader, no broker, or a new partition: try another one.
        time.sleep(0.4)


def run(version: str, seed: int, level: str, n_faults: int, folder: Path) -> None:
    """Run a cluster under faults; the logs and the story are in a folder then."""
    rng = random.Random(f"{version} {seed}")
    properties = {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "replica.lag.time.max.ms": str(LAG_MS),
        "auto.leader.rebalance.enable": str(rng.random() < 0.6).lower(),
        "leader.imbalance.check.interval.seconds": "7",
        "unclean.leader.election.enable": str(rng.random() < 0.15).lower(),
        "delete.topic.enable": "true", "auto.create.topics.enable": "false",
        "log.flush.offset.checkpoint.interval.ms": "1000",
        "replica.high.watermark.checkpoint.interval.ms": "700",
    }
    n_brokers = rng.choice([3, 3, 4])
    with KafkaBrokers(version, n_brokers, properties, n_directories=rng.choice([1, 2]),
                      logs=(folder, level)) as brokers:
        store = KazooClient(f"localhost:{brokers.zookeeper_port}", timeout=30)
        store.start(timeout=90)
        story, is_over = LiveStory(brokers, store, rng), threading.Event()
        producing = threading.Thread(target=produce, args=(story, is_over), daemon=True)
        producing.start()
        try:
            story.go(n_faults)
        finally:
            is_over.set()
            (folder / "story.txt").write_text("\n".join([
                f"{version}, seed {seed}, {level}, {n_brokers} brokers, {properties}",
                *story.lines, ""]))
            store.stop()
            producing.join(30)


def main() -> None:
    """Run a cluster, and replay its logs."""
    parser = argparse.ArgumentParser(description="Run and replay a real cluster under faults.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", default="3.9.1")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--level", default="TRACE", choices=["TRACE", "INFO"])
    parser.add_argument("--faults", type=int, default=40)
    given = parser.parse_args()
    print(f"seed {given.seed}")
    run(given.version, given.seed, given.level, given.faults, given.folder)
    found = replay(given.folder)
    print(found.counts)
    for line in map(str, found.contradictions):
        print(line)


if __name__ == "__main__":
    main()
