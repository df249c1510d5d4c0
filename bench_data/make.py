"""Write the files beside this one: `python -m bench_data.make` from the top of the tree.

A cluster as it might be found: most topics well spread, some older than the racks, one broker that
cannot keep up, a few leaders away from home. The same numbers come out every time.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from pathlib import Path

from bench_data.loads import write_loads
from tests.support.reference_placement import place_kafka, place_kafka_on_racks
from tests.support.replay_story import write_logs

HERE = Path(__file__).parent
RACK_OF = {broker: "abc"[(broker - 101) % 3] for broker in range(101, 113)}
SLOW_BROKER = 109
OUT_OF_SYNC = 0.15
"""How often the slow broker is missing from an ISR."""

AWAY_FROM_HOME = 0.02
"""How often the leader is not the preferred replica, although that is in sync."""

DOWN_BROKER = 105
"""Who is down a day later."""

NEW_TOPIC = """\
Topic: zones\tTopicId: bOFwl5xzQBuYmD1BTUkRwA\tPartitionCount: 2\tReplicationFactor: 1\tConfigs:
\tTopic: zones\tPartition: 0\tLeader: 106\tReplicas: 106\tIsr: 106\tElr: N/A\tLastKnownElr: N/A
\tTopic: zones\tPartition: 1\tLeader: 107\tReplicas: 107\tIsr: 107\tElr: N/A\tLastKnownElr: N/A
"""
"""A topic that is created meanwhile, with one replica."""

TEAMS = ("billing", "catalog", "clicks", "fraud", "orders", "payments", "search", "shipping")


def topics() -> list[tuple[str, int, int, str, bool]]:
    """(name, partitions, replication factor, configs, placed by rack) of every topic."""
    durable = "min.insync.replicas=2"
    found = [
        ("__consumer_offsets", 50, 3, f"{durable},cleanup.policy=compact,segment.bytes=104857600"),
        ("__transaction_state", 50, 3, f"{durable},cleanup.policy=compact,compression.type=none"),
    ]
    for team in TEAMS:
        found += [
            (f"{team}.commands", 12, 3, durable),
            (f"{team}.events", 48, 3, f"{durable},retention.ms=604800000"),
            (f"{team}.retries", 6, 3, durable),
            (f"{team}.dead-letters", 3, 3, ""),
            (f"{team}.snapshots", 12, 3, f"{durable},cleanup.policy=compact,delete"),
            (f"{team}.audit", 6, 4, "min.insync.replicas=3"),
            (f"{team}.metrics", 24, 2, "unclean.leader.election.enable=true"),
        ]
    by_rack = [(*topic, True) for topic in found]
    older = [
        ("legacy-imports", 16, 2, "", False),
        ("legacy-sessions", 24, 2, "unclean.leader.election.enable=true", False),
        ("scratch", 8, 1, "retention.ms=3600000", False),
    ]
    return sorted(by_rack + older)


def describe(draw: random.Random) -> str:
    """Text that `kafka-topics.sh --describe` of Kafka 3.9, ZooKeeper mode, prints."""
    lines = []
    for name, n_partitions, n_replicas, configs, by_rack in topics():
        shape = (n_partitions, n_replicas, draw.randrange(12), draw.randrange(12))
        placed = (
            place_kafka_on_racks(RACK_OF, *shape) if by_rack else place_kafka([*RACK_OF], *shape)
        )
        topic_id = base64.urlsafe_b64encode(draw.randbytes(16)).decode().rstrip("=")
        head = f"TopicId: {topic_id}\tPartitionCount: {n_partitions}"
        lines.append(f"Topic: {name}\t{head}\tReplicationFactor: {n_replicas}\tConfigs: {configs}")
        for partition, replicas in enumerate(placed):
            late = n_replicas > 1 and draw.random() < OUT_OF_SYNC
            isr = [b for b in replicas if not (late and b == SLOW_BROKER)]
            leader = isr[-1] if draw.random() < AWAY_FROM_HOME else isr[0]
            lists = f"Replicas: {_ids(replicas)}\tIsr: {_ids(isr)}"
            tail = "Elr: N/A\tLastKnownElr: N/A"
            lines.append(
                f"\tTopic: {name}\tPartition: {partition}\tLeader: {leader}\t{lists}\t{tail}"
            )
    return "\n".join(lines) + "\n"


def plan(described: str) -> str:
    """A reassignment plan: what stands in one rack gets a replica in the next."""
    moves = []
    pattern = r"Topic: (\S+)\tPartition: (\d+)\t.*\tReplicas: ([\d,]+)"
    for topic, partition, listed in re.findall(pattern, described):
        replicas = [int(broker) for broker in listed.split(",")]
        if len({RACK_OF[broker] for broker in replicas}) == 1:
            other = replicas[0] + 1 if replicas[0] + 1 in RACK_OF else min(RACK_OF)
            moved = [replicas[0], other]
            moves.append({"topic": topic, "partition": int(partition), "replicas": moved})
    return json.dumps({"version": 1, "partitions": moves}, separators=(",", ":")) + "\n"


def later(described: str, planned: str) -> str:
    """The same a day later: the plan is carried out, a broker is down, a topic is new."""
    targets = {
        (move["topic"], move["partition"]): move["replicas"]
        for move in json.loads(planned)["partitions"]
    }
    unclean = {name for name, _, _, configs, _ in topics() if "unclean" in configs}
    lines = []
    pattern = r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\d+)\tReplicas: (\S+)\tIsr: (\S+)(.*)"
    for line in described.splitlines():
        match = re.fullmatch(pattern, line)
        if match is None:
            # The plan gives every partition with one replica another one.
            lines.append(line.replace("ReplicationFactor: 1", "ReplicationFactor: 2"))
            continue
        topic, number, tail = match[1], int(match[2]), match[6]
        replicas, isr = (list(map(int, match[at].split(","))) for at in (4, 5))
        if (topic, number) in targets:
            replicas = isr = targets[topic, number]
        live = [broker for broker in isr if broker != DOWN_BROKER]
        if not live and topic in unclean:
            live = [broker for broker in replicas if broker != DOWN_BROKER]
        leader = int(match[3]) if int(match[3]) in live else live[0] if live else "none"
        lines.append(
            f"\tTopic: {topic}\tPartition: {number}\tLeader: {leader}\tReplicas: {_ids(replicas)}"
            f"\tIsr: {_ids(live or isr)}{tail}"
        )
    return "\n".join(lines) + "\n" + NEW_TOPIC


def _ids(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


if __name__ == "__main__":
    text = describe(random.Random(2024))
    (HERE / "describe.txt").write_text(text)
    (HERE / "plan.json").write_text(plan(text))
    packed = gzip.compress(later(text, plan(text)).encode(), mtime=0)
    (HERE / "describe_later.txt.gz").write_bytes(packed)
    rows = [f"{broker},{rack}" for broker, rack in RACK_OF.items()]
    brokers = "\n".join(["broker_id,rack", *rows]) + "\n"
    (HERE / "brokers.csv").write_text(brokers)
    write_loads(text, HERE)
    write_logs(HERE / "incident")
    for seed, cluster in enumerate(("east", "west")):
        place = HERE / "fleet" / cluster
        place.mkdir(parents=True, exist_ok=True)
        (place / "brokers.csv").write_text(brokers)
        for day in (20, 21):
            packed = gzip.compress(describe(random.Random(100 * seed + day)).encode(), mtime=0)
            (place / f"202611{day}T0600.txt.gz").write_bytes(packed)
