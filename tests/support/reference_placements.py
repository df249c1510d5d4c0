"""Every placement of a small cluster, and the best of them, by plain sums.

Nothing here knows moves or differences: for each failure, each partition is looked at. All replicas
are in sync and the first live one leads. Shares are compared as integers over a common denominator.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    hold it, in order; `capacities` by resource one number for each broker.
    """

    racks: list[str | None]
    capacities: dict[str, list[int]]
    loads: list[tuple[int, int, int]]
    replicas: list[tuple[int, ...]]

    def failures(self, protect):
        """Sets of brokers: none, then each that is protected against."""
        brokers = range(len(self.racks))
        sets = [frozenset()]
        if "every-broker" in protect:
            sets += [frozenset([broker]) for broker in brokers]
        if "every-rack" in protect:
            sets += [frozenset(b for b in brokers if self.racks[b] == rack)
                     for rack in sorted(set(self.racks) - {None})]
        return sets


def carried(cluster, placement, failed):
    """By resource what each broker carries; -1 where it has failed."""
    n = len(cluster.racks)
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
    """By how much normal limits are exceeded, and the highest share of a limit, a Fraction."""
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
    return over, highest


def n_racks(cluster, replicas):
    """On how many racks brokers are; one without a rack is a rack of its own."""
    return len({cluster.racks[broker] or broker for broker in replicas})


def allowed(cluster, replicas, leadership_only=False):
    """Every order of brokers that a partition may have instead of its own."""
    if leadership_only:
        return list(permutations(replicas))
    fewest = min(n_racks(cluster, replicas), len(replicas),
                 n_racks(cluster, range(len(cluster.racks))))
    return [each for each in permutations(range(len(cluster.racks)), len(replicas))
            if n_racks(cluster, each) >= fewest]


def best_objective(cluster, protect, leadership_only=False):
    """The objective of the best of all placements.

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
        alone = SmallCluster(
            cluster.racks, cluster.capacities, [cluster.loads[partition]], [replicas]
        )
        loads = [[carried(alone, [replicas], failed)[resource] for resource in RESOURCES]
                 for failed in failures]
        return (np.maximum(np.array(loads, object), 0) * factor).astype(np.int64)

    options = [np.stack([loads_of(p, each) for each in allowed(cluster, replicas, leadership_only)])
               for p, replicas in enumerate(cluster.replicas)]
    last = options.pop()
    if options:
        both = options.pop()[:, None] + last[None]
        last = both.reshape(-1, *last.shape[1:])
    best = None
    for chosen in product(*options):
        total = last + sum(chosen)
        over = np.maximum(total[:, 0] - common, 0)
        over = (-(-over * 10_000 // common)).sum(axis=(1, 2))
        share = total.max(axis=(1, 2, 3))
        at = np.lexsort((share, over))[0]
        value = int(over[at]), int(share[at])
        best = value if best is None else min(best, value)
    return best[0], Fraction(best[1], common)


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

