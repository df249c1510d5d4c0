"""Kafka's placement of new topics in plain Python, as slow and as close to its words as can be.

Source: Kafka 3.9, AdminUtils.java, `assignReplicasToBrokersRackAware`,
`assignReplicasToBrokersRackUnaware`, `getRackAlternatedBrokerList`, `replicaIndex`.
"""

from __future__ import annotations

from itertools import pairwise

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15


def mix(x: int) -> int:
    """One step of SplitMix64."""
    x = (x + GOLDEN) % WORD
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def random_below(seed: int, stream: int, i: int, bound: int) -> int:
    """Number i of a stream, spread over 0..bound-1."""
    word = mix((mix((seed + stream * GOLDEN) % WORD) + i * GOLDEN) % WORD)
    return (word >> 32) * bound >> 32


def number_partitions(topic_start: list[int]) -> list[tuple[int, int]]:
    """(topic row, partition number) of every row."""
    sizes = [end - start for start, end in pairwise(topic_start)]
    return [(topic, number) for topic, size in enumerate(sizes) for number in range(size)]


def alternate_racks(rack_of: dict[int, str]) -> list[int]:
    """Brokers with the racks alternating: the first of each rack, then the second of each, ..."""
    waiting = {rack: [] for rack in sorted(set(rack_of.values()))}
    for broker in sorted(rack_of):
        waiting[rack_of[broker]].append(broker)
    circle: list[int] = []
    while any(waiting.values()):
        circle += [brokers.pop(0) for brokers in waiting.values() if brokers]
    return circle


def replica_index(first: int, shift: int, replica: int, n_brokers: int) -> int:
    """Where in the circle a further replica goes: never where the first one is."""
    return (first + 1 + (shift + replica) % (n_brokers - 1)) % n_brokers


def place_kafka(
    brokers: list[int], n_partitions: int, n_replicas: int, start: int, shift: int
) -> list[list[int]]:
    """Assign the partitions of one topic, where no broker says its rack."""
    n = len(brokers)
    assigned = []
    for partition in range(n_partitions):
        if partition > 0 and partition % n == 0:
            shift += 1
        first = (partition + start) % n
        others = [brokers[replica_index(first, shift, j, n)] for j in range(n_replicas - 1)]
        assigned.append([brokers[first], *others])
    return assigned


def place_kafka_on_racks(
    rack_of: dict[int, str], n_partitions: int, n_replicas: int, start: int, shift: int
) -> list[list[int]]:
    """Assign the partitions of one topic, where every broker says its rack."""
    circle = alternate_racks(rack_of)
    n = len(circle)
    n_racks = len(set(rack_of.values()))
    assigned = []
    for partition in range(n_partitions):
        if partition > 0 and partition % n == 0:
            shift += 1
        first = (partition + start) % n
        replicas = [circle[first]]
        tried = 0
        while len(replicas) < n_replicas:
            broker = circle[replica_index(first, shift * n_racks, tried, n)]
            tried += 1
            racks = {rack_of[b] for b in replicas}
            rack_is_free = rack_of[broker] not in racks or len(racks) == n_racks
            if rack_is_free and broker not in replicas:
                replicas.append(broker)
        assigned.append(replicas)
    return assigned


def place_uniform(seed: int, stream: int, n_brokers: int, n_replicas: int) -> list[int]:
    """Brokers of one partition: draw until there are enough different ones."""
    replicas: list[int] = []
    drawn = 0
    while len(replicas) < n_replicas:
        broker = random_below(seed, stream, drawn, n_brokers)
        drawn += 1
        if broker not in replicas:
            replicas.append(broker)
    return replicas


def place_ring(row: int, n_brokers: int, n_replicas: int) -> list[int]:
    """Brokers of one row: it and the next ones round the ring."""
    return [(row + slot) % n_brokers for slot in range(n_replicas)]
