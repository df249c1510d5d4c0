"""Reading what `kafka-topics --describe` prints: in plain Python, in numpy, in a loop of numba.

None of them checks anything, and names of topics are left out: they are the least that a reader
must do.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numba
import numpy as np

LINE = re.compile(
    r"\tTopic: (\S+)\tPartition: (\d+)\tLeader: (\d+)\tReplicas: ([\d,]+)\tIsr: ([\d,]+)"
)


TAB, NEWLINE, COLON, COMMA, ZERO = b"\t\n:,0"
MOST_DIGITS = 9


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


def read_numpy(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `read`, for one replication factor: all lines at once, from where the numbers end."""
    data = np.fromfile(path, np.uint8)
    ends = np.flatnonzero(data == NEWLINE)
    begins = np.append(0, ends[:-1] + 1)
    ends = ends[data[begins] == TAB]
    # A line of a partition begins with a tab and has four more; a topic's line has four in all.
    before = np.append(NEWLINE, data[:-1])
    in_topic = np.repeat(data[begins] != TAB, np.diff(np.append(begins, data.size)))
    tabs = np.flatnonzero((data == TAB) & (before != NEWLINE) & ~in_topic).reshape(-1, 4)
    commas = np.flatnonzero((data == COMMA) & ~in_topic).reshape(ends.size, 2, -1)
    replicas = np.concatenate([commas[:, 0], tabs[:, 3:]], axis=1)
    isr = np.concatenate([commas[:, 1], ends[:, None]], axis=1)
    return tuple(_numbers(data, at) for at in (tabs[:, 1], tabs[:, 2], replicas, isr))


def _numbers(data: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The numbers whose last digits stand before some places."""
    values, inside = np.zeros(ends.shape, np.int32), np.ones(ends.shape, np.bool_)
    for digits in range(MOST_DIGITS):
        digit = data[ends - 1 - digits] - np.uint8(ZERO)
        inside &= digit < 10
        if not inside.any():
            break
        values += np.where(inside, digit, 0) * np.int32(10**digits)
    return values


def read_numba(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `read`, for one replication factor: one loop over the bytes."""
    data = np.fromfile(path, np.uint8)
    return _scan(data, *_sizes(data))


@numba.njit(nogil=True, cache=True)
def _sizes(data):
    """Lines of partitions, and brokers in each list: every line has two lists."""
    n = commas = 0
    inside, before = False, NEWLINE
    for at in range(data.size):
        if before == NEWLINE:
            inside = data[at] == TAB
            n += inside
        before = data[at]
        commas += inside and before == COMMA
    return n, commas // max(2 * n, 1) + 1


@numba.njit(nogil=True, cache=True)
def _scan(data, n, width):
    partition, leader = np.empty(n, np.int32), np.empty(n, np.int32)
    lists = np.empty((2, n, width), np.int32)
    at = row = 0
    while at < data.size:
        if data[at] != TAB:
            while data[at] != NEWLINE:
                at += 1
            at += 1
            continue
        at += 1
        while data[at] != TAB:
            at += 1
        for field in range(4):
            while data[at] != COLON:
                at += 1
            at += 2
            value = place = 0
            while True:
                byte = data[at]
                at += 1
                if byte >= ZERO:
                    value = value * 10 + (byte - ZERO)
                    continue
                if field == 0:
                    partition[row] = value
                elif field == 1:
                    leader[row] = value
                else:
                    lists[field - 2, row, place] = value
                value = 0
                place += 1
                if byte != COMMA:
                    break
        row += 1
    return partition, leader, lists[0], lists[1]
