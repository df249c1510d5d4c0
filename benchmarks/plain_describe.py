"""Reading what `kafka-topics --describe` prints, as one would in a few lines of plain Python."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

LINE = re.compile(
    r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)"
)


def write(path: Path, state: Any) -> None:
    """Write a fresh cluster's description, in the form of Kafka 3.7: no ELR columns."""
    names = state.topic.to_pylist()
    ids = state.broker_id.astype(str).tolist()
    sizes = np.bincount(state.topic_row).tolist()
    rows = zip(
        state.topic_row.tolist(), state.partition.tolist(), state.replicas.tolist(), strict=True
    )
    with path.open("w") as text:
        for topic, partition, brokers in rows:
            name = names[topic]
            if partition == 0:
                counts = f"PartitionCount: {sizes[topic]}\tReplicationFactor: {len(brokers)}"
                text.write(f"Topic: {name}\tTopicId: {topic:022}\t{counts}\tConfigs: \n")
            listed = ",".join([ids[broker] for broker in brokers])
            lists = f"Leader: {ids[brokers[0]]}\tReplicas: {listed}\tIsr: {listed}"
            text.write(f"\tTopic: {name}\tPartition: {partition}\t{lists}\n")


def read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Partition number, leader id, replica ids and ISR ids of every partition line."""
    partitions, leaders, replicas, isrs = [], [], [], []
    with path.open() as text:
        for line in text:
            found = LINE.match(line)
            if found:
                _, partition, leader, replica_ids, isr_ids = found.groups()
                partitions.append(int(partition))
                leaders.append(int(leader))
                replicas.append([int(b) for b in replica_ids.split(",")])
                isrs.append([int(b) for b in isr_ids.split(",")])
    return np.array(partitions), np.array(leaders), np.array(replicas), np.array(isrs)
