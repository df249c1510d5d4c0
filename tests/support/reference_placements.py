"""Every placement of a small cluster, and the best of them, by plain sums.

Nothing here knows moves or differences: for each failure, each partition is looked at. All replicas
are in sync and the first live one leads. Shares are compared as integers over a common denominator.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations, product
from math import lcm

import numpy as np

RESOURCES = ("nw_in", "nw_out", "disk")
NORMAL = {"nw_in": 8000, "nw_out": 8000, "disk": 8000}
FAILED = {"nw_in": 9500, "nw_out": 9500, "disk": 8000}
"""Limits in basis points of the capacity."""


@dataclass
class SmallCluster:
    """Brokers 0..n-1, their racks and capacities, and partitions with their loads.

    `loads` has bytes in, bytes out and bytes on disk of each partition, `replicas` the brokers that
    hold it, in order; `capacities` by resource one number for each broker. Brokers in `removed` and
    those that are down must give up their replicas, unless they are in `kept`; those get none and
    give none. Partitions in `fixed` stay as they are, and so do those without a live replica.
    """

    racks: list[str | None]
    capacities: dict[str, list[int]]
    loads: list[tuple[int, int, int]]
    replicas: list[tuple[int, ...]]
    down: frozenset[int] = frozenset()
    removed: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()
    fixed: frozenset[int] = frozenset()

    @property
    def receivers(self):
        """Brokers that may get replicas."""
        return set(range(len(self.racks))) - self.down - self.removed - self.kept

    @property
    def leaving(self):
        """Brokers that must give up their replicas."""
        return (self.down | self.removed) - self.kept

    def failures(self, protect):
        """Sets of brokers: none, then each that is protected against."""
        brokers = [broker for broker in range(len(self.racks)) if broker not in self.down]
        sets = [frozenset()]
        if "every-broker" in protect:
            sets += [frozenset([broker]) for broker in brokers]
        if "every-rack" in protect:
            sets += [frozenset(b for b in brokers if self.racks[b] == rack)
                     for rack in sorted({self.racks[b] for b in brokers} - {None})]
        return sets


def carried(cluster, placement, failed):
    """By resource what each broker carries; -1 where it is down or has failed."""
    n, failed = len(cluster.racks), failed | cluster.down
    used = {resource: [0] * n for resource in RESOURCES}
    for (bytes_in, bytes_out, size), replicas in zip(cluster.loads, placement, strict=True):
        live = [broker for broker in replicas if broker not in failed]
        for broker in replicas:
            used["disk"][broker] += size
        for broker in live:
            used["nw_in"][broker] += bytes_in
        if live:
            used["nw_out"][live[0]] += bytes_in * (len(live) - 1) + bytes_out
    return {resource: [-1 if broker in failed else load for broker, load in enumerate(loads)]
            for resource, loads in used.items()}


def objective(cluster, placement, protect):
    """Replicas that must leave, by how much limits are exceeded, the highest share, a Fraction."""
    misplaced = sum(broker in cluster.leaving for replicas in placement for broker in replicas)
    over, highest = 0, Fraction(0)
    for failed in cluster.failures(protect):
        limits = FAILED if failed else NORMAL
        for resource, loads in carried(cluster, placement, failed).items():
            for load, capacity in zip(loads, cluster.capacities[resource], strict=True):
                if load < 0 or not capacity:
                    continue
                share = Fraction(load * 10_000, capacity * limits[resource])
                highest = max(highest, share)
                if not failed and share > 1:
                    over += -(-(share - 1) * 10_000 // 1)
    return misplaced, over, highest


def n_racks(cluster, brokers):
    """On how many racks brokers are; one without a rack is a rack of its own."""
    return len({cluster.racks[broker] or broker for broker in brokers})


def allowed(cluster, partition, leadership_only=False):
    """Every order of brokers that a partition may have instead of its own.

    While a target replica is not live, a reassignment to other brokers does not end.
    """
    before = cluster.replicas[partition]
    if partition in cluster.fixed or cluster.down.issuperset(before):
        return [before]
    if leadership_only:
        return list(permutations(before))
    kept = cluster.kept & set(before)
    fewest = min(n_racks(cluster, before), n_racks(cluster, cluster.receivers | kept))
    return [each for each in permutations(cluster.receivers | set(before), len(before))
            if n_racks(cluster, each) >= fewest and kept <= set(each)
            and (set(each) == set(before) or not cluster.down & set(each))]


def bytes_moved(cluster, partition, replicas):
    """Bytes that are copied if a partition gets these replicas."""
    return len(set(replicas) - set(cluster.replicas[partition])) * cluster.loads[partition][2]


def best_objective(cluster, protect, leadership_only=False, max_bytes=None):
    """The objective of the best of all placements, and the lowest share of all that misplace least.

    Loads of one partition in each of its orders are added up array by array: (failure, resource,
    broker) in units of a common denominator of all limits.
    """
    failures = cluster.failures(protect)
    limits = [[[capacity * (FAILED if failed else NORMAL)[resource] for capacity in
                cluster.capacities[resource]] for resource in RESOURCES] for failed in failures]
    common = lcm(*np.ravel(limits).tolist())
    factor = np.array([[[common // limit * 10_000 for limit in row] for row in rows]
                       for rows in limits], object)
    assert common < 2**40

    def loads_of(partition, replicas):
        alone = replace(cluster, loads=[cluster.loads[partition]], replicas=[replicas])
        loads = [[carried(alone, [replicas], failed)[resource] for resource in RESOURCES]
                 for failed in failures]
        return (np.maximum(np.array(loads, object), 0) * factor).astype(np.int64)

    def options_of(partition):
        """Loads, replicas that must leave, and bytes that are copied, of each order."""
        orders = allowed(cluster, partition, leadership_only)
        return (
            np.stack([loads_of(partition, each) for each in orders]),
            np.array([len(cluster.leaving.intersection(each)) for each in orders]),
            np.array([bytes_moved(cluster, partition, each) for each in orders]),
        )

    def both(first, second):
        """The sums of every two options."""
        return tuple(
            (a[:, None] + b[None]).reshape(-1, *a.shape[1:])
            for a, b in zip(first, second, strict=True)
        )

    options = [options_of(partition) for partition in range(len(cluster.replicas))]
    last = options.pop()
    if options:
        last = both(options.pop(), last)
    best, lowest = None, None
    for chosen in product(*[list(zip(*option, strict=True)) for option in options]):
        loads, misplaced, moved = (
            column + sum(one[at] for one in chosen) for at, column in enumerate(last)
        )
        fits = slice(None) if max_bytes is None else moved <= max_bytes
        loads, misplaced = loads[fits], misplaced[fits]
        if not misplaced.size:
            continue
        over = np.maximum(loads[:, 0] - common, 0)
        over = (-(-over * 10_000 // common)).sum(axis=(1, 2))
        share = loads.max(axis=(1, 2, 3))
        at = np.lexsort((share, over, misplaced))[0]
        value = int(misplaced[at]), int(over[at]), int(share[at])
        best = value if best is None else min(best, value)
        at = np.lexsort((share, misplaced))[0]
        value = int(misplaced[at]), int(share[at])
        lowest = value if lowest is None else min(lowest, value)
    return (*best[:2], Fraction(best[2], common)), Fraction(lowest[1], common)


def random_small_cluster(generator, n_brokers, n_partitions, replication_factor=2):
    """A cluster with few partitions, some of them heavy, whose placement is random."""
    n_racks = generator.choice([0, 0, 2, 3])
    racks = [f"r{broker % n_racks}" if n_racks else None for broker in range(n_brokers)]
    scale = generator.choice([1, 2, 3])
    capacities = {
        resource: [generator.choice([1000, 1000, 2000]) * scale for _ in range(n_brokers)]
        for resource in RESOURCES
    }
    loads = [
        (generator.randint(0, 300), generator.choice([0, generator.randint(0, 900)]),
         generator.randint(0, 600))
        for _ in range(n_partitions)
    ]
    replicas = [tuple(generator.sample(range(n_brokers), replication_factor))
                for _ in range(n_partitions)]
    return SmallCluster(racks, capacities, loads, replicas)


def restrict(generator, cluster):
    """The same cluster in which perhaps brokers are down, or leave, or stay as they are."""
    brokers = range(len(cluster.racks))

    def some(chance):
        return frozenset(broker for broker in brokers if generator.random() < chance)

    down = frozenset(generator.sample(brokers, generator.choice([0, 0, 0, 1])))
    kept = some(generator.choice([0, 0, 0.3]))
    removed = frozenset(generator.sample(brokers, generator.choice([0, 0, 1]))) - kept
    fixed = frozenset(row for row in range(len(cluster.loads)) if generator.random() < 0.15)
    return replace(cluster, down=down, kept=kept, removed=removed, fixed=fixed)
