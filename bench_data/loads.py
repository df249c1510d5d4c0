"""Loads and capacities of the cluster in `describe.txt`, as its operators would export them.

Partitions of a topic differ, as keys do; what each of them carries is drawn here, and the files
have what each tool knows: kafka-log-dirs sizes of replicas, a JMX exporter rates by topic and
broker, a CSV rates by topic.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
from collections import defaultdict
from pathlib import Path

WINDOW = "p95 of 1 h, 2026-11"
DAY_SECONDS = 86_400
OLD_BROKER = 109
"""The slow broker, whose machine is older than the others."""

MB = 1_000_000
TEAM_MB_IN = {
    "billing": 3.8, "catalog": 5.9, "clicks": 21.4, "fraud": 9.9, "orders": 15.8, "payments": 11.8,
    "search": 14.6, "shipping": 6.9,
}
"""MB/s that producers write to a team's events."""

KINDS = {  # of a topic: its share of what its team's events are, and how many groups read it
    "events": (1.0, 6),
    "commands": (0.2, 2),
    "retries": (0.02, 1),
    "dead-letters": (0.002, 0),
    "snapshots": (0.1, 3),
    "audit": (0.15, 1),
    "metrics": (0.25, 2),
}
DAYS = 7
"""Days for which a team's topics are kept."""

OTHERS = {  # topic: MB/s in, groups that read it, days kept, GB of a partition if compacted
    "__consumer_offsets": (0.4, 0, 0, 0.05),
    "__transaction_state": (0.1, 0, 0, 0.01),
    "legacy-imports": (2.5, 2, 7, None),
    "legacy-sessions": (4.0, 3, 7, None),
    "scratch": (0.5, 1, 1 / 24, None),
}


class Partition:
    """A partition of the text, and what it carries."""

    def __init__(self, match: re.Match[str]) -> None:
        self.topic, self.number, self.leader = match[1], int(match[2]), int(match[3])
        self.replicas = [int(broker) for broker in match[4].split(",")]
        self.bytes_in = self.bytes_out = self.size = 0


def partitions(described: str, draw: random.Random) -> list[Partition]:
    """What each partition of a describe text carries."""
    pattern = r"Topic: (\S+)\tPartition: (\d+)\tLeader: (\d+)\tReplicas: ([\d,]+)"
    by_topic = defaultdict(list)
    for match in re.finditer(pattern, described):
        by_topic[match[1]].append(Partition(match))
    for topic, members in by_topic.items():
        rate, readers, days, compacted_gb = _kind(topic)
        weights = [draw.uniform(0.6, 1.4) for _ in members]
        for member, weight in zip(members, weights, strict=True):
            member.bytes_in = round(rate * MB * weight / sum(weights))
            member.bytes_out = member.bytes_in * readers
            kept = member.bytes_in * days * DAY_SECONDS * draw.uniform(0.85, 1.0)
            member.size = round(kept if compacted_gb is None else compacted_gb * 1e9 * weight)
    return [member for members in by_topic.values() for member in members]


def _kind(topic: str) -> tuple[float, int, float, float | None]:
    if topic in OTHERS:
        return OTHERS[topic]
    team, _, kind = topic.partition(".")
    share, readers = KINDS[kind]
    return TEAM_MB_IN[team] * share, readers, DAYS, None


def load_csv(members: list[Partition]) -> str:
    """Rates by topic."""
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for member in members:
        totals[member.topic][0] += member.bytes_in
        totals[member.topic][1] += member.bytes_out
    return _csv(["topic", "bytes_in", "bytes_out", "window"], [
        [topic, *rates, WINDOW] for topic, rates in totals.items()
    ])


def metrics(members: list[Partition]) -> str:
    """Rates by topic and broker, as Kafka's brokers count them and a JMX exporter prints them."""
    rates: dict[tuple[str, str, int], int] = defaultdict(int)
    for member in members:
        rates["BytesInPerSec", member.topic, member.leader] += member.bytes_in
        rates["BytesOutPerSec", member.topic, member.leader] += member.bytes_out
    lines = ["# TYPE kafka_server_BrokerTopicMetrics_OneMinuteRate untyped"]
    lines += [
        f'kafka_server_BrokerTopicMetrics_OneMinuteRate{{name="{name}",topic="{topic}",'
        f'broker="{broker}"}} {float(rate)}'
        for (name, topic, broker), rate in sorted(rates.items())
    ]
    return "\n".join(lines) + "\n"


def log_dirs(members: list[Partition]) -> str:
    """Sizes of replicas, as `kafka-log-dirs --describe` prints them."""
    held = defaultdict(list)
    for member in members:
        for broker in member.replicas:
            held[broker].append({
                "partition": f"{member.topic}-{member.number}", "size": member.size,
                "offsetLag": 0, "isFuture": False,
            })
    return json.dumps({"version": 1, "brokers": [
        {"broker": broker, "logDirs": [
            {"partitions": rows, "error": None, "logDir": "/var/lib/kafka/data"}
        ]} for broker, rows in sorted(held.items())
    ]}, separators=(",", ":")) + "\n"


def capacities() -> str:
    """What the brokers can carry: networks of 1 Gbit/s, and an older machine with less disk."""
    return _csv(["broker_id", "nw_in", "nw_out", "disk_bytes", "class"], [
        [-1, 125_000_000, 125_000_000, 36 * 10**12, "large"],
        [OLD_BROKER, 125_000_000, 125_000_000, 34 * 10**12, "old"],
    ])


def write_loads(described: str, folder: Path) -> None:
    """Write all files of loads and capacities to a folder."""
    members = partitions(described, random.Random(2026))
    (folder / "loads.csv").write_text(load_csv(members))
    (folder / "capacities.csv").write_text(capacities())
    for name, text in (("metrics.prom", metrics(members)), ("log-dirs.json", log_dirs(members))):
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def _csv(header: list[str], rows: list[list[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()
