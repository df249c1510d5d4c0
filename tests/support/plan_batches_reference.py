"""Whether batches of a plan keep their rules, in plain Python: every rule is tried on every batch.

Placements are those of `plan_check_reference`; an entry is a pair of key and target. Nothing here
makes batches. It says what is wrong with some.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from tests.support.plan_check_reference import execute, over_limits

MOST_LEADERS, LEADERS_OF_A_BROKER, MOST_REPLICAS = 1000, 250, 1250


class BatchRules:
    """The rules of a batch that begins with a placement."""

    def __init__(
        self, placement, work_before, normal, *, seconds, moves_per_broker, throttle=None
    ):
        self.placement, self.normal = placement, normal
        self.seconds, self.moves_per_broker, self.throttle = seconds, moves_per_broker, throttle
        self.totals = placement.totals()
        over = over_limits(placement, self.totals, work_before, normal)
        self.overfull = {broker for broker, _ in over} | (set(placement.racks) - placement.up)

    def added(self, entry):
        key, target = entry
        return [b for b in target if b not in self.placement.partitions[key]["replicas"]]

    def moves_leader_alone(self, entry):
        key, target = entry
        return set(target) == set(self.placement.partitions[key]["replicas"])

    def relieves(self, entry):
        key, target = entry
        gone = set(self.placement.partitions[key]["replicas"]) - set(target)
        return bool(gone & self.overfull)

    def ports(self, entries):
        """(replicas, bytes, bytes a second that producers write) by direction and broker."""
        sums = {}
        for entry in entries:
            (written, _, size), leader = (
                self.placement.loads[entry[0]], self.placement.partitions[entry[0]]["leader"]
            )
            for broker in self.added(entry):
                for port in (("out", leader), ("in", broker)):
                    n, debt, live = sums.get(port, (0, 0, 0))
                    sums[port] = n + 1, debt + size, live + written
        return sums

    def free(self, port):
        """Bytes a second that copies may use of a network: 90 % of what is free; None: no limit."""
        direction, broker = port
        name = "nw_out" if direction == "out" else "nw_in"
        capacity = self.placement.capacity[broker][name]
        used = self.totals[broker]["bytes_out" if direction == "out" else "bytes_in"]
        rates = [Fraction(9, 10) * (capacity - used)] if capacity else []
        rates += [self.throttle] if self.throttle else []
        return min(rates) // 1 if rates else None

    def rate(self, entries):
        """The throttle that every broker of some entries has left."""
        loads = self.placement.loads
        copied = [entry for entry in entries if loads[entry[0]][2] or loads[entry[0]][0]]
        rates = [self.free(port) for port in self.ports(copied)]
        return min((rate for rate in rates if rate is not None), default=None)

    def faults(self, entries):
        """Rules that a batch breaks: of all, and those of batches that are not alone."""
        if all(map(self.moves_leader_alone, entries)):
            return self._leader_faults(entries)
        faults = {"disk": any(self._too_full(entries)), "stuck": self._is_stuck(entries)}
        ports, rate = self.ports(entries), self.rate(entries)
        sent = sum(n for (direction, _), (n, _, _) in ports.items() if direction == "out")
        faults["mixed"] = any(map(self.moves_leader_alone, entries))
        faults["cluster"] = sent > MOST_REPLICAS
        faults["broker"] = any(n > self.moves_per_broker for n, _, _ in ports.values())
        faults["bytes"] = rate is not None and any(
            debt > (rate - live) * self.seconds for _, debt, live in ports.values()
        )
        return {name for name, is_broken in faults.items() if is_broken}

    def _leader_faults(self, entries):
        of_broker = Counter(
            broker for key, target in entries
            for broker in {self.placement.partitions[key]["leader"], target[0]}
        )
        faults = {
            "leaders": len(entries) > MOST_LEADERS,
            "leaders of a broker": any(n > LEADERS_OF_A_BROKER for n in of_broker.values()),
        }
        return {name for name, is_broken in faults.items() if is_broken}

    def _too_full(self, entries):
        """Whether each receiver's disk is over its limit while old and new replicas exist."""
        for (direction, broker), (_, size, _) in self.ports(entries).items():
            capacity = self.placement.capacity[broker]["disk"]
            if direction == "in" and capacity:
                held = self.totals[broker]["disk_bytes"] + size
                yield held * 10_000 > capacity * self.normal["disk"]

    def _is_stuck(self, entries):
        rate = self.rate(entries)
        return rate is not None and any(
            rate <= live for _, _, live in self.ports(entries).values()
        )


def batch_faults(placement, batches, throttles, alone, obstructed, normal, **options):
    """What is wrong with batches, in words; `obstructed` are entries in none, for want of room."""
    totals = placement.totals()
    work = {broker: of["work"] for broker, of in totals.items()}
    leaders_only = True
    for number, batch in enumerate(batches, 1):
        rules = BatchRules(placement, work, normal, **options)
        faults, is_alone = rules.faults(batch), number in alone
        waiting = [entry for later in batches[number:] for entry in later] + obstructed
        if all(map(rules.moves_leader_alone, batch)):
            if not leaders_only:
                yield f"batch {number}: leaders move after replicas"
            waiting = [entry for entry in waiting if rules.moves_leader_alone(entry)]
        else:
            leaders_only = False
            if rules.rate(batch) != throttles[number - 1]:
                yield f"batch {number}: throttle {throttles[number - 1]}"
        if is_alone:
            if len(batch) != 1 or not faults:
                yield f"batch {number}: is not alone for a reason"
            faults -= {"bytes", "broker", "cluster"}
        yield from (f"batch {number}: {fault}" for fault in sorted(faults))
        relieving = [entry for entry in batch if rules.relieves(entry)]
        for entry in waiting:
            if not is_alone and not rules.faults([*batch, entry]):
                yield f"batch {number}: {entry} has room too"
            if len(relieving) < len(batch) and rules.relieves(entry):
                missing = rules.faults([*relieving, entry])
                if not missing or (is_alone and not missing & {"disk", "stuck"}):
                    yield f"batch {number}: {entry} would relieve a broker"
        placement = execute(placement, [(*entry, "completed") for entry in batch])[1]
    rules = BatchRules(placement, work, normal, **options)
    for entry in obstructed:
        if not rules.faults([entry]) & {"disk", "stuck"}:
            yield f"{entry} is in no batch"
