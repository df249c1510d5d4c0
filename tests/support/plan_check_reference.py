"""The check of a plan in plain Python: assignments replaced, bytes added up, failures tried out.

Partitions are dicts by (topic, number) with `replicas`, `isr` and `leader`. Which entries complete
and which are refused is Kafka's decision and comes from outside; here a completed entry simply
replaces the assignment. Holds for clusters whose live replicas are all in sync, and whose topics
allow no unclean election.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

from tests.support.capacity_reference import RESOURCES, Left, add_up

AMOUNTS = ("bytes_in", "bytes_out", "work", "disk_bytes", "leaders", "replicas")


class Placement:
    """Who holds and leads what, and what that means for brokers."""

    def __init__(
        self, partitions, up, racks, loads, capacity, weights, *, work_per_microcore=None
    ):
        """`loads` by partition: bytes in, out, disk; `capacity` by broker id and resource.

        `capacity` has also `used` (micro-cores or None) and `replicas_max` (or None). With
        `work_per_microcore` nothing measured counts.
        """
        self.work_per_microcore = work_per_microcore
        self.partitions, self.up, self.racks = partitions, up, racks
        self.loads, self.capacity, self.weights = loads, capacity, weights

    def replaced(self, changes):
        """The same with other partitions."""
        return Placement(
            {**self.partitions, **changes}, self.up, self.racks, self.loads, self.capacity,
            self.weights, work_per_microcore=self.work_per_microcore,
        )

    def measured_now(self, work_before):
        """The same after a plan, where the use of processors, rounded, is what is measured."""
        totals = self.totals()
        cores = self.uses(totals, work_before)["cpu"]
        capacity = {b: {**of, "used": cores[b]} for b, of in self.capacity.items()}
        now = Placement(
            self.partitions, self.up, self.racks, self.loads, capacity, self.weights,
            work_per_microcore=self.work_per_microcore,
        )
        return now, {broker: of["work"] for broker, of in totals.items()}

    def amounts_of(self, key, down=()):
        """What one partition adds to each broker, as dicts of `AMOUNTS`, where brokers fail."""
        partition, (_, _, size) = self.partitions[key], self.loads[key]
        leader = self.leader_of(partition, down)
        live = [b for b in partition["replicas"] if b in self.up and b not in down]
        left = {key: Left(leader, live, [], False, False)}
        columns = [{key: value} for value in self.loads[key]]
        sums = add_up(left, left, columns, self.racks)
        amounts = {b: dict.fromkeys(AMOUNTS, 0) for b in {*partition["replicas"], leader} - {None}}
        for broker, of in amounts.items():
            carried = sums.carried[broker]
            of["bytes_in"] = carried.leader_in + carried.follower_in
            of["bytes_out"] = carried.to_replicas + carried.to_consumers
            of["work"] = carried.work(self.weights)
            of["leaders"] = int(broker == leader)
            if broker in partition["replicas"]:
                of["disk_bytes"], of["replicas"] = size, 1
        return amounts

    def leader_of(self, partition, down):
        """The leader stays while it lives; else the first live in-sync replica in AR order."""
        alive = [b for b in partition["replicas"]
                 if b in partition["isr"] and b in self.up and b not in down]
        if partition["leader"] in alive:
            return partition["leader"]
        return alive[0] if alive and partition["leader"] is not None else None

    def totals(self, down=()):
        """What each broker carries."""
        totals = {broker: dict.fromkeys(AMOUNTS, 0) for broker in self.racks}
        for key in self.partitions:
            for broker, amounts in self.amounts_of(key, down).items():
                for name, amount in amounts.items():
                    totals[broker][name] += amount
        return totals

    def uses(self, totals, work_before):
        """Of each resource what each broker uses; None where it is not measured."""
        uses = {name: {} for name in RESOURCES}
        for broker, of in totals.items():
            used, then = self.capacity[broker]["used"], work_before[broker]
            if broker not in self.up:
                cores = None
            elif self.work_per_microcore:
                cores = round(Fraction(of["work"], self.work_per_microcore))
            elif used is None or not then:
                cores = used
            else:
                cores = round(Fraction(used * of["work"], then))
            for name, amount in zip(
                RESOURCES, (of["bytes_in"], of["bytes_out"], cores, of["disk_bytes"]), strict=True
            ):
                uses[name][broker] = amount
        return uses

    def shares(self, totals, work_before, basis_points, down=()):
        """Share of its limit that each live broker uses, by (broker, resource)."""
        return {
            (broker, name): Fraction(amount * 10_000, held * basis_points[name])
            for name, by_broker in self.uses(totals, work_before).items()
            for broker, amount in by_broker.items()
            if (held := self.capacity[broker][name]) and amount is not None
            and broker in self.up and broker not in down
        }


def most_meanwhile(accepted, ended):
    """The most that each broker carries while partitions go from one state to the other."""
    totals = {broker: dict.fromkeys(AMOUNTS, 0) for broker in accepted.racks}
    for key in accepted.partitions:
        both = [placement.amounts_of(key) for placement in (accepted, ended)]
        for broker in {*both[0], *both[1]}:
            for name in AMOUNTS:
                totals[broker][name] += max(of.get(broker, {}).get(name, 0) for of in both)
    return totals


def execute(placement, entries):
    """The placements under way and in the end; `entries` are (key, target, status)."""
    under_way, end = {}, {}
    for key, target, status in entries:
        if status == "refused":
            continue
        now = placement.partitions[key]
        union = [*target, *(b for b in now["replicas"] if b not in target)]
        under_way[key] = {**now, "replicas": union}
        replicas = union if status == "pending" else list(target)
        end[key] = {**now, "replicas": replicas}
        if now["leader"] is not None:  # there is somebody to copy from
            isr = [b for b in replicas if b in placement.up]
            leader = now["leader"] if now["leader"] in replicas else next(iter(isr), None)
            end[key] = {"replicas": replicas, "isr": isr, "leader": leader}
        if status == "completed" and set(target) <= set(now["replicas"]):
            under_way[key] = end[key]  # there is nothing to wait for
        if replicas[0] in end[key]["isr"]:  # it is the preferred replica, and is elected
            end[key] = {**end[key], "leader": replicas[0]}
    return placement.replaced(under_way), placement.replaced(end)


def moves_of(placement, entries):
    """Bytes and replicas by (source, destination)."""
    moves = Counter()
    for key, target, status in entries:
        now = placement.partitions.get(key)
        for broker in target if status != "refused" else ():
            if broker not in now["replicas"]:
                pair = now["leader"], broker
                moves[(*pair, "replicas")] += 1
                moves[(*pair, "bytes_moved")] += placement.loads[key][2]
                moves[(*pair, "bytes_in")] += placement.loads[key][0]
    return moves


def copy_time(placement, totals, moves, throttle):
    """Seconds that copying takes at least, as a Fraction; None where it never ends or is free."""
    debt, live, net = Counter(), Counter(), {}
    for (source, destination, name), amount in moves.items():
        if source is not None:
            for port in (("out", source), ("in", destination)):
                (debt if name == "bytes_moved" else live)[port] += amount * (name != "replicas")
    for end, broker in debt:
        of, held = totals[broker], placement.capacity[broker]
        capacity = held["nw_out" if end == "out" else "nw_in"] if broker in placement.up else 0
        used = of["bytes_out" if end == "out" else "bytes_in"]
        rates = [Fraction(9, 10) * (capacity - used)] if capacity else []
        rates += [throttle] if throttle else []
        net[end, broker] = min(rates) - live[end, broker] if rates else None
    pairs = [(("out", s), ("in", d)) for (s, d, name), amount in moves.items()
             if s is not None and name == "bytes_moved" and amount]
    if any(net[a] is None and net[b] is None for a, b in pairs):
        return None
    ports = {port for pair in pairs for port in pair if net[port] is not None}
    if any(net[port] <= 0 for port in ports):
        return None
    return max((Fraction(debt[port]) / net[port] for port in ports), default=Fraction(0))


def rack_of(placement, broker):
    rack = placement.racks[broker]
    return f"rack {rack}" if rack is not None else f"broker {broker}"


def missing_racks(placement):
    racks = {rack_of(placement, broker) for broker in placement.up}
    return sum(
        max(0, min(len(p["replicas"]), len(racks))
            - len({rack_of(placement, broker) for broker in p["replicas"]}))
        for p in placement.partitions.values()
    )


def broken_rules(placement, entries, excluded_topics, excluded_brokers, sets):
    """(rule, key, broker) of the rules that entries break."""
    known = placement.racks
    all_racks = {rack_of(placement, broker) for broker in placement.up}
    broken = []
    for key, target, _ in entries:
        if key not in placement.partitions:
            continue
        before = placement.partitions[key]["replicas"]
        if len(before) != len(target):
            broken.append(("replication_factor", key, None))
        broken += [("broker_twice", key, b) for b, n in Counter(target).items() if n > 1]
        for broker in dict.fromkeys(target):
            if broker in before:
                continue
            if broker not in known:
                broken.append(("broker_unknown", key, broker))
            elif broker not in placement.up:
                broken.append(("broker_down", key, broker))
            if broker in excluded_brokers:
                broken.append(("broker_excluded", key, broker))
        if key[0] in excluded_topics and list(target) != before:
            broken.append(("topic_excluded", key, None))

        def names(brokers):
            return {next((n for n, ids in sets.items() if b in ids), None) for b in brokers}

        if sets and (len(names(target)) > 1
                     or (len(names(before)) == 1 and names(before) != names(target))):
            broken.append(("broker_set", key, None))
        racks, racks_before = (
            len({rack_of(placement, b) for b in ids if b in known}) for ids in (target, before)
        )
        was_right = racks_before >= min(len(before), len(all_racks))
        if racks < min(len(target), len(all_racks)) and (was_right or racks < racks_before):
            broken.append(("racks", key, None))
    return broken


def over_limits(placement, totals, work_before, normal):
    """(broker, resource or "replicas") of what brokers that are up have too much of."""
    shares = placement.shares(totals, work_before, normal)
    return {pair for pair, share in shares.items() if share > 1} | {
        (broker, "replicas") for broker in placement.up
        if (most := placement.capacity[broker]["replicas_max"]) is not None
        and totals[broker]["replicas"] > most
    }


def broken_limits(placement, totals, work_before, normal):
    """(rule, resource, broker) of the limits that brokers break."""
    return [
        ("replicas_max", None, broker) if name == "replicas" else ("limit", name, broker)
        for broker, name in over_limits(placement, totals, work_before, normal)
    ]


def objective(placement, work_before, normal, failed, failures):
    """The elements that are about a placement, not about the way to it."""
    totals = placement.totals()
    rules = missing_racks(placement) + len(broken_limits(placement, totals, work_before, normal))
    rules += sum(
        broker not in placement.up
        for partition in placement.partitions.values() for broker in partition["replicas"]
    )
    shares = [*placement.shares(totals, work_before, normal).values()]
    for down in failures:
        after = placement.shares(placement.totals(down), work_before, failed, down)
        shares += after.values()
    worst = math.ceil(max(shares, default=Fraction(0)) * 1_000_000)
    uneven = 0
    uses = placement.uses(totals, work_before)
    for name in RESOURCES:
        of = {b: (u, placement.capacity[b][name]) for b, u in uses[name].items()
              if u is not None and placement.capacity[b][name] and b in placement.up}
        if not of:
            continue
        mean = Fraction(sum(u for u, _ in of.values()), sum(c for _, c in of.values()))
        for used, held in of.values():
            excess = math.floor(1000 * Fraction(used, held)) - math.floor(1100 * mean)
            uneven += max(0, excess) ** 2
    not_first = sum(
        p["leader"] is not None and p["leader"] != p["replicas"][0]
        for p in placement.partitions.values()
    )
    held, by_topic = Counter(), Counter()
    for (topic, _), partition in placement.partitions.items():
        by_topic[topic] += len(partition["replicas"])
        held.update((topic, broker) for broker in partition["replicas"])
    excess = 0
    for (topic, _), n in held.items():
        mean = Fraction(by_topic[topic], len(placement.up))
        excess += max(0, n - math.floor(mean + min(max(2 * mean, 2), 40)))
    return rules, min(worst, 2**63 - 1), min(uneven, 2**63 - 1), not_first, excess
