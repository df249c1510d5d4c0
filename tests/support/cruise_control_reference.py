"""Cruise Control's default goals in plain Python: each broker, partition and topic one by one.

A goal is a list of how far each of them is outside of what is allowed, as a part of the bound; 0
where it is within. None where something that counts is not known.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from tests.support.plan_check_reference import rack_of

LIMITS = {"disk": "0.8", "nw_in": "0.8", "nw_out": "0.8", "cpu": "0.7"}
NAMES = {"disk": "Disk", "nw_in": "NetworkInbound", "nw_out": "NetworkOutbound", "cpu": "Cpu"}
ORDER = [
    "RackAwareGoal", "MinTopicLeadersPerBrokerGoal", "ReplicaCapacityGoal", "DiskCapacityGoal",
    "NetworkInboundCapacityGoal", "NetworkOutboundCapacityGoal", "CpuCapacityGoal",
    "ReplicaDistributionGoal", "PotentialNwOutGoal", "DiskUsageDistributionGoal",
    "NetworkInboundUsageDistributionGoal", "NetworkOutboundUsageDistributionGoal",
    "CpuUsageDistributionGoal", "TopicReplicaDistributionGoal", "LeaderReplicaDistributionGoal",
    "LeaderBytesInDistributionGoal",
]
N_HARD = 7


def outside(amount, least, most):
    """How far an amount is outside, as a part of the bound."""
    if amount > most:
        return (Fraction(amount) - most) / most
    return (least - Fraction(amount)) / least if amount < least else Fraction(0)


def goals(placement, work_before):
    """Of each goal the distances, by its name."""
    up = sorted(placement.up)
    if not up:
        return dict.fromkeys(ORDER)
    totals = placement.totals()
    uses = placement.uses(totals, work_before)
    found = {
        "RackAwareGoal": [
            Fraction(n - len({rack_of(placement, b) for b in of["replicas"]}), n)
            for of in placement.partitions.values() if (n := len(of["replicas"]))
        ],
        "MinTopicLeadersPerBrokerGoal": [],
        "ReplicaCapacityGoal": [outside(totals[b]["replicas"], 0, 10_000) for b in up],
        "TopicReplicaDistributionGoal": topics(placement, up),
        "LeaderBytesInDistributionGoal": leader_bytes_in(placement, up),
    }
    for name, column in (("Replica", "replicas"), ("LeaderReplica", "leaders")):
        mean = Fraction(sum(of[column] for of in totals.values()), len(up))
        bounds = math.floor(mean * 9 / 10), math.ceil(mean * 11 / 10)
        found[f"{name}DistributionGoal"] = [outside(totals[b][column], *bounds) for b in up]
    for resource, name in NAMES.items():
        held = {b: placement.capacity[b][resource] for b in up}
        found[f"{name}CapacityGoal"] = capacity(uses[resource], held, LIMITS[resource])
        found[f"{name}UsageDistributionGoal"] = distribution(uses[resource], held)
    most = potential(placement)
    held = {b: placement.capacity[b]["nw_out"] for b in up}
    found["PotentialNwOutGoal"] = capacity(most, held, "0.8")
    return {name: found[name] for name in ORDER}


def capacity(used, held, limit):
    if any(used[b] is None or not most for b, most in held.items()):
        return None
    return [outside(used[b], 0, most * Fraction(limit)) for b, most in held.items()]


def distribution(used, held):
    if any(used[b] is None or not most for b, most in held.items()):
        return None
    mean = Fraction(sum(amount or 0 for amount in used.values()), sum(held.values()))
    return [outside(Fraction(used[b], most), mean * 9 / 10, mean * 11 / 10)
            for b, most in held.items()]


def potential(placement):
    """What each would send if it led all that it holds."""
    sent = dict.fromkeys(placement.racks, 0)
    for key, of in placement.partitions.items():
        bytes_in, bytes_out, _ = placement.loads[key]
        for broker in of["replicas"]:
            sent[broker] += bytes_out + bytes_in * (len(of["replicas"]) - 1)
    return sent


def leader_bytes_in(placement, up):
    led = Counter()
    for key, of in placement.partitions.items():
        led[of["leader"]] += placement.loads[key][0]
    mean = Fraction(sum(led[b] for b in up), len(up))
    return [outside(led[b], 0, mean * 11 / 10) for b in up]


def topics(placement, up):
    """The worst broker of each topic."""
    held = {}
    for (topic, _), of in placement.partitions.items():
        held.setdefault(topic, Counter()).update(of["replicas"])
    distances = []
    for counts in held.values():
        mean = Fraction(counts.total(), len(up))
        gap = min(max(2 * mean, 2), 40)
        distances.append(max(outside(counts[b], mean - gap, mean + gap) for b in up))
    return distances
