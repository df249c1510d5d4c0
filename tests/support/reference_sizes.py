"""Sizes of clusters in plain Python: every failure of a placement, one after the other."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations


def use_after(partitions, brokers, down):
    """By broker what it uses: bytes in, out, and work's parts (leader in, out, follower in).

    A partition is (replicas, bytes in, bytes out, bytes on disk); the first live replica leads.
    """
    use = {b: dict.fromkeys(("nw_in", "nw_out", "leader_in", "follower_in", "disk"), 0)
           for b in brokers if b not in down}
    for replicas, bytes_in, bytes_out, disk in partitions:
        live = [broker for broker in replicas if broker not in down]
        for broker in live:
            use[broker]["nw_in"] += bytes_in
            use[broker]["disk"] += disk
        if live:
            use[live[0]]["leader_in"] += bytes_in
            use[live[0]]["nw_out"] += bytes_in * (len(live) - 1) + bytes_out
        for broker in live[1:]:
            use[broker]["follower_in"] += bytes_in
    return use


def mean_of_all(partitions, n_brokers, k):
    """By resource what all survivors use together, the mean over all sets of k brokers."""
    sets = [*combinations(range(n_brokers), k)]
    totals = {}
    for down in sets:
        for own in use_after(partitions, range(n_brokers), down).values():
            for name, units in own.items():
                totals[name] = totals.get(name, 0) + units
    return {name: Fraction(total, len(sets)) for name, total in totals.items()}


def fewest(partitions, start, k, capacity, points, name):
    """The smallest number of brokers whose mean use keeps a limit of basis points."""
    n_brokers = start
    while True:
        mean = mean_of_all(partitions, n_brokers, k)[name] / (n_brokers - k)
        if mean * 10_000 <= capacity * points:
            return n_brokers
        n_brokers += 1


def over_limits(partitions, brokers, failures, capacity, normal, failed):
    """Failures, and none, that leave a broker over a limit."""
    over = []
    for down in [(), *failures]:
        limits = failed if down else normal
        for broker, own in use_after(partitions, brokers, down).items():
            over += [(down, broker, name) for name, most in capacity.items()
                     if own[name] * 10_000 > most * limits[name]]
    return over


def fewest_brokers(partitions, capacity, limits, k, racks, each_rack, most):
    """The fewest brokers on which some placement keeps all limits, by trying all placements.

    A partition is (number of replicas, bytes in, bytes out, bytes on disk). Numbers of brokers are
    multiples of the number of racks (0 for none); broker b is in rack b % racks. Where racks fail,
    replicas of a partition are in different ones, or in all. None if more than `most` are needed.
    """
    least = max([k + 1, *(n for n, *_ in partitions)])
    for n_brokers in range(1, most + 1):
        if n_brokers < least or (racks and n_brokers % racks):
            continue
        failures = [(), *combinations(range(n_brokers), k)] if k else [()]
        if each_rack:
            failures += [tuple(range(rack, n_brokers, racks)) for rack in range(racks)]
        spread = racks if each_rack else 1
        if _fits(partitions, n_brokers, failures, capacity, limits, spread):
            return n_brokers
    return None


def _fits(partitions, n_brokers, failures, capacity, limits, spread):
    """Whether replicas can be placed so that every failure leaves every broker within limits."""
    names = sorted(capacity)
    room = [capacity[name] * limits[bool(down)][name] // 10_000
            for down in failures for _ in range(n_brokers) for name in names]
    choices = []
    for n, *amounts in partitions:
        ways = []
        for replicas in permutations(range(n_brokers), n):
            if len({broker % spread for broker in replicas}) < min(n, spread):
                continue
            use = []
            for down in failures:
                own = use_after([(replicas, *amounts)], range(n_brokers), down)
                use += [own[b][name] if b in own else 0 for b in range(n_brokers) for name in names]
            ways.append(use)
        choices.append(ways)

    def place(at, left):
        return at == len(choices) or any(
            all(rest >= 0 for rest in less) and place(at + 1, less)
            for use in choices[at] for less in [[a - b for a, b in zip(left, use, strict=True)]]
        )

    return place(0, room)
