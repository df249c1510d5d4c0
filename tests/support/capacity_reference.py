"""A capacity sweep in plain Python: the controller run scenario by scenario, bytes added up.

Nothing here knows sequences, shapes or terms: a copy of the cluster fails, and every partition that
is left is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from kfast import Controller
from kfast.schema import NO_LEADER, Code
from tests.support.twin_kraft_sweep import TwinScenario, is_live, partitions_of
from tests.support.twin_sweep import effective_min_isr, live_of, look
from tests.support.twin_sweep import partitions_of as rows_of


@dataclass(frozen=True)
class Left:
    """What a scenario leaves of one partition."""

    leader: int | None
    live: list[int]
    in_sync: list[int]
    is_under_min_isr: bool
    is_unclean: bool


@dataclass(frozen=True)
class Consumers:
    """Racks of brokers by id, None where one has none; shares of consumers by rack."""

    rack_of: dict[int, str | None]
    shares: dict[str, Fraction]

    def parts(self, bytes_out):
        """What consumers of each rack fetch, by the largest remainder, then the first rack."""
        exact = {rack: bytes_out * share for rack, share in sorted(self.shares.items())}
        parts = {rack: int(share) for rack, share in exact.items()}
        left = bytes_out - sum(parts.values())
        for rack in sorted(exact, key=lambda rack: (parts[rack] - exact[rack], rack))[:left]:
            parts[rack] += 1
        return parts

    def source(self, left, rack):
        """The broker from which consumers in a rack fetch a partition that is led."""
        in_rack = [b for b in left.live if b in left.in_sync and self.rack_of[b] == rack]
        return left.leader if self.rack_of[left.leader] == rack or not in_rack else in_rack[0]


def fetched(left, bytes_out, consumers):
    """By broker id what consumers fetch of a partition that is led; None: from its leader."""
    if consumers is None:
        return Counter({left.leader: bytes_out})
    by_broker = Counter()
    for rack, part in consumers.parts(bytes_out).items():
        by_broker[consumers.source(left, rack)] += part
    return by_broker


@dataclass
class Carried:
    """What one broker carries, in bytes per second."""

    leader_in: int = 0
    follower_in: int = 0
    to_replicas: int = 0
    to_consumers: int = 0

    def work(self, weights):
        """What these bytes cost."""
        leader_in, leader_out, follower_in = weights
        return (leader_in * self.leader_in + follower_in * self.follower_in
                + leader_out * (self.to_replicas + self.to_consumers))


@dataclass
class Sums:
    """By broker id what it carries; by column what is in danger."""

    carried: dict[int, Carried] = field(default_factory=dict)
    columns: Counter = field(default_factory=Counter)


def left_by_zk(started, down, profile):
    """Each assigned partition of a started ZooKeeper cluster after brokers failed in one event."""
    after = started.copy()
    unclean = set()
    if down:
        outcome = Controller(after, profile=profile, journal="full").on_broker_failure(down)
        for row in outcome.elections.to_pylist():
            if row["code"] == Code.ELECTED.name:
                (unclean.add if row["unclean"] else unclean.discard)(row["partition_row"])
    left = {}
    for row in rows_of(started):
        leader, in_sync, live = look(after, row)
        n_replicas = len(started.assignment(row).replicas)
        needed = min(effective_min_isr(started, int(started.topic_row[row])), n_replicas)
        assert live == live_of(after, row, after.assignment(row).replicas)
        left[row] = Left(
            leader, live, in_sync, leader is None or len(in_sync) < needed, row in unclean,
        )
    return left


def left_by_kraft(make, down, row_of):
    """Each partition of a KRaft cluster after brokers were fenced one after another."""
    after = TwinScenario.of(make, down)
    left = {}
    for place, partition in partitions_of(after.state).items():
        live = [b for b in partition.replicas if is_live(after.state, partition, b)]
        leader = None if partition.leader == NO_LEADER else partition.leader
        left[row_of[place]] = Left(
            leader, live, [b for b in partition.isr if is_live(after.state, partition, b)],
            after.is_under(place), place in after.unclean,
        )
    return left


def add_up(
    left: dict[int, Left], before: dict[int, Left], loads, brokers: Iterable[int],
    consumers: Consumers | None = None,
) -> Sums:
    """Bytes of all partitions; `loads` are bytes in, bytes out and bytes on disk by row."""
    sums = Sums({broker: Carried() for broker in brokers})
    columns, carried = sums.columns, sums.carried
    for row, now in left.items():
        bytes_in, bytes_out, disk = (int(column[row]) for column in loads)
        if now.leader is None and before[row].leader is not None:
            columns["bytes_in_leaderless"] += bytes_in
            columns["bytes_out_leaderless"] += bytes_out
        if now.is_under_min_isr:
            columns["bytes_in_refused"] += bytes_in
        if now.leader is not None and len(now.in_sync) == 1:
            columns["bytes_in_single"] += bytes_in
            columns["disk_single"] += disk
        if now.is_unclean:
            columns["bytes_unclean"] += disk
        if now.leader is None:
            continue
        followers = [broker for broker in now.live if broker != now.leader]
        carried[now.leader].leader_in += bytes_in
        for broker, part in fetched(now, bytes_out, consumers).items():
            carried[broker].to_consumers += part
        carried[now.leader].to_replicas += bytes_in * len(followers)
        for broker in followers:
            carried[broker].follower_in += bytes_in
    return sums


RESOURCES = ("nw_in", "nw_out", "cpu", "disk")
USED = {"nw_in": "bytes_in", "nw_out": "bytes_out", "cpu": "cpu_microcores"}
STATISTICS = ("baseline", "mean", "most", "most_scenario", "p95", "p99")


def added(before: Left, now: Left, broker, bytes_in, bytes_out, weights, consumers=None):
    """What one partition adds to a broker by a failure: bytes in, bytes out and work."""
    def carried(left):
        sums = Carried()
        followers = [b for b in left.live if b != left.leader]
        if left.leader == broker:
            sums = Carried(bytes_in, 0, bytes_in * len(followers))
        elif left.leader is not None and broker in followers:
            sums.follower_in = bytes_in
        if left.leader is not None:
            sums.to_consumers = fetched(left, bytes_out, consumers)[broker]
        return (sums.leader_in + sums.follower_in, sums.to_replicas + sums.to_consumers,
                sums.work(weights))
    return tuple(b - a for a, b in zip(carried(before), carried(now), strict=True))


def moved_leadership(left, before, topics, loads):
    """Partitions, bytes in and bytes out by topic, leader before and leader after."""
    moved = {}
    for row, now in left.items():
        if now.leader != before[row].leader:
            sums = moved.setdefault((topics[row], before[row].leader, now.leader), [0, 0, 0])
            for at, value in enumerate((1, int(loads[0][row]), int(loads[1][row]))):
                sums[at] += value
    return moved


def uses(sums, baseline, up, capacity, weights):
    """What each broker of `up` uses by its id: bytes in, bytes out, micro-cores.

    Without weights a core is worth 20 MB/s of what is written and a quarter of what is read.
    """
    amounts = {}
    for broker in up:
        now, measured = sums.carried[broker], capacity[broker]["used"]
        write, read = now.leader_in + now.follower_in, now.to_replicas + now.to_consumers
        if weights is None:
            cores = round((write + Fraction(read, 4)) / 20_000_000 * 1_000_000)
        elif before := baseline.carried[broker].work(weights):
            cores = round(Fraction(measured * now.work(weights), before))
        else:
            cores = measured
        amounts[broker] = write, read, cores
    return amounts


def expected_broker(broker, used, disk, held):
    """The row of one broker over all scenarios.

    `used` is what it uses by the number of each scenario in which it is up, the baseline 0 among
    them; `held` its capacities by resource.
    """
    row = {"broker_id": broker, "scenarios_up": len(used)}
    for at, (resource, name) in enumerate(USED.items()):
        values = sorted(amounts[at] for amounts in used.values())
        if not used:
            row |= dict.fromkeys(f"{name}_{what}" for what in STATISTICS)
            row[f"{resource}_max"] = None
            continue
        percentile = {p: next(
            value for value in values
            if sum(other <= value for other in values) * 100 >= p * len(values)
        ) for p in (95, 99)}
        row |= {
            f"{name}_baseline": used[0][at],
            f"{name}_mean": float(Fraction(sum(values), len(used))),
            f"{name}_most": values[-1],
            f"{name}_most_scenario": min(n for n in used if used[n][at] == values[-1]),
            f"{name}_p95": percentile[95], f"{name}_p99": percentile[99],
            f"{resource}_max": float(values[-1]) / held[resource] if held[resource] else None,
        }
    row["disk_bytes"] = disk if used else None
    row["disk_max"] = disk / held["disk"] if used and held["disk"] else None
    return row


def expected_row(sums, baseline, up, disk, capacity, basis_points, weights):
    """The columns of one scenario; `up` are the broker ids that live in it.

    `disk` are bytes by broker id; `capacity` by id the four capacities (0 for none) and the
    micro-cores that the broker uses without a failure, the replicas that it holds, and the numbers
    of replicas that it may not exceed. The highest share is of amounts as doubles, which those
    above 2**53 are not exactly.
    """
    shares = {name: {} for name in RESOURCES}
    for broker, amounts in uses(sums, baseline, up, capacity, weights).items():
        held = capacity[broker]
        for name, units in zip(RESOURCES, (*amounts, disk[broker]), strict=True):
            if held[name]:
                shares[name][broker] = Fraction(units, held[name])
    row, over, nearest = {}, set(), []
    for name, of in shares.items():
        most = max(of.values(), default=None)
        exceeding = {b for b, share in of.items() if share * 10_000 > basis_points[name]}
        over |= exceeding
        first = min((b for b in of if of[b] == most), default=None)
        row[f"{name}_broker"] = first
        row[f"{name}_max"] = None if first is None else (
            float(most * capacity[first][name]) / capacity[first][name]
        )
        row[f"over_limit_{name}"] = len(exceeding)
        if most is not None:
            nearest.append((most * 10_000 / basis_points[name], name))
    too_many = {b for b in up if any(capacity[b]["replicas"] > most
                                     for most in capacity[b]["replicas_most"])}
    over |= too_many
    row["over_limit_replicas"] = len(too_many)
    highest = max((share for share, _ in nearest), default=None)
    row["over_limit"] = len(over)
    row["binding"] = next((name for share, name in nearest if share == highest), None)
    row["headroom"] = None if highest is None else float(1 - highest)
    for name in ("bytes_in_leaderless", "bytes_out_leaderless", "bytes_in_refused",
                 "bytes_in_single", "disk_single", "bytes_unclean"):
        row[name] = sums.columns[name]
    return row
