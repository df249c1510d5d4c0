"""Restoration in plain Python: the controller run, debts added up, ports shared by fractions.

Nothing here knows sequences, shapes or indexes: a copy of the cluster fails, and every replica that
a failed broker had is looked at. Brokers are ids; `inf` is a port without a known limit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf


@dataclass
class Demand:
    """What has to be copied after one failure, by (source, destination)."""

    debt: Counter = field(default_factory=Counter)
    live: Counter = field(default_factory=Counter)
    without_source: int = 0
    under_min_isr: list = field(default_factory=list)


def place_elsewhere(left, before, down, loads, assigned, racks, capacity, used):
    """Where the replicas of failed brokers are made without a plan.

    Targets by row, as `demand_of` takes them, and bytes for which no broker is left. By broker id:
    `racks` of those that are up, a `capacity` of nw_in and disk, 0 for none, and in `used` bytes in
    and bytes on disk. `assigned` are broker ids by row.
    """
    used = {broker: list(amounts) for broker, amounts in used.items()}
    held = [
        [most[name] or min((m[name] for m in capacity.values() if m[name]), default=1)
         for name in ("nw_in", "disk")] for most in capacity.values()
    ]
    held = dict(zip(capacity, held, strict=True))
    targets, homeless = {}, 0
    waiting = sorted(
        ((row, broker) for row, now in left.items() if now.leader is not None
         for broker in before[row].live if broker in down),
        key=lambda pair: -int(loads[2][pair[0]]),
    )
    for row, _ in waiting:
        more = int(loads[0][row]), int(loads[2][row])
        holders = [*left[row].live, *targets.get(row, ())]
        allowed = [broker for broker in racks if broker not in down
                   and broker not in holders and broker not in assigned[row]]
        taken = {racks[broker] for broker in holders}
        best = min(allowed, default=None, key=lambda broker: (
            racks[broker] in taken,
            max((use + add) / most for use, add, most in
                zip(used[broker], more, held[broker], strict=True)),
            broker,
        ))
        if best is None:
            homeless += more[1]
            continue
        used[best] = [use + add for use, add in zip(used[best], more, strict=True)]
        targets.setdefault(row, []).append(best)
    return targets, homeless


def demand_of(left, before, down, loads, mode, down_for, targets=None):
    """What the replicas of failed brokers lack; `left` and `before` as of `capacity_reference`.

    `targets` are broker ids by row: where replicas are made, for `redistribute`.
    """
    demand = Demand()
    for row, now in left.items():
        bytes_in, _, disk = (int(column[row]) for column in loads)
        debt = min(bytes_in * down_for, disk) if mode == "return" else disk
        if mode == "redistribute":
            brokers = [b for b in (targets or {}).get(row, ()) if b not in now.live]
        else:
            brokers = [broker for broker in before[row].live if broker in down]
        if now.leader is None:
            demand.without_source += debt * len(brokers) if mode != "return" else 0
            continue
        for broker in brokers:
            demand.debt[now.leader, broker] += debt
            demand.live[now.leader, broker] += bytes_in
        if now.is_under_min_isr and brokers:
            demand.under_min_isr.append((now.leader, brokers))
    demand.debt = +demand.debt
    return demand


def net_rates(demand, free_out, free_in, throttle_out, throttle_in):
    """What each port has for debt, by ("out" or "in", broker id); `free_*` are functions of it."""
    nets = {}
    for source, destination in demand.debt:
        for side, broker, free, throttle, at in (
            ("out", source, free_out, throttle_out, 0), ("in", destination, free_in, throttle_in, 1)
        ):
            live = sum(rate for pair, rate in demand.live.items() if pair[at] == broker)
            nets[side, broker] = min(throttle, free(broker)) - live
    return nets


def bound(demand, nets, caps):
    """The least time: of all ports and pairs the longest."""
    amount = Counter()
    for (source, destination), debt in demand.debt.items():
        amount["out", source] += debt
        amount["in", destination] += debt
    amount.update(demand.debt)
    return max((Fraction(amount[port]) / net for port, net in (nets | caps).items()
                if net != inf), default=Fraction(0))


def max_min_rates(pairs, nets, caps):
    """Rates of flows: the tightest port first, its flows alike; flows at a cap before."""
    ports = {port: [pair for pair in pairs if port in (("out", pair[0]), ("in", pair[1]))]
             for port in nets}
    left, rates = dict(nets), {}
    while len(rates) < len(pairs):
        shares = {
            port: Fraction(left[port]) / len(waiting)
            for port, flows in ports.items()
            if left[port] != inf and (waiting := [flow for flow in flows if flow not in rates])
        }
        waiting = [pair for pair in pairs if pair not in rates]
        lowest = min(waiting, key=lambda pair: caps[pair])
        level = min(shares.values(), default=inf)
        if caps[lowest] <= level:
            full, level = [lowest], caps[lowest]
        else:
            port = next(port for port, share in shares.items() if share == level)
            full = [flow for flow in ports[port] if flow not in rates]
        for flow in full:
            rates[flow] = level
            for port in ("out", flow[0]), ("in", flow[1]):
                left[port] -= level
    return rates


def fair_run(demand, nets, caps):
    """When each flow ends, and when half of all bytes are through, exactly."""
    rest = {pair: Fraction(debt) for pair, debt in demand.debt.items()}
    half = Fraction(sum(demand.debt.values()), 2)
    ends, now, sent, reached = {}, Fraction(0), Fraction(0), Fraction(0)
    while rest:
        rates = max_min_rates(list(rest), nets, caps)
        step = min(rest[pair] / rates[pair] for pair in rest)
        total = sum(rates.values())
        if sent < half <= sent + total * step:
            reached = now + (half - sent) / total
        sent += total * step
        now += step
        for pair in list(rest):
            rest[pair] -= rates[pair] * step
            if not rest[pair]:
                del rest[pair]
                ends[pair] = now
    return ends, reached


def stepped_run(demand, nets, step):
    """The seconds until all is through, in steps: rates are shared anew in each."""
    rest, now = {pair: Fraction(debt) for pair, debt in demand.debt.items()}, Fraction(0)
    caps = dict.fromkeys(rest, inf)
    while rest:
        rates = max_min_rates(list(rest), nets, caps)
        rest = {pair: debt - rates[pair] * step for pair, debt in rest.items()
                if debt > rates[pair] * step}
        now += step
    return now


def smallest_throttle(demand, nets_at, pair_rate):
    """The smallest throttle with which no broker is stuck; `nets_at` are net rates at a throttle.

    Each of these rates is that of producers and one byte more, somewhere.
    """
    if any(pair_rate <= demand.live[pair] for pair in demand.debt):
        return None
    rates = Counter()
    for (source, destination), live in demand.live.items():
        rates["out", source] += live
        rates["in", destination] += live
    return next((rate + 1 for rate in sorted({0, *rates.values()})
                 if all(net > 0 for net in nets_at(rate + 1).values())), None)


def expected_times(demand, nets, pair_rate=inf):
    """The columns of one scenario; `pair_rate` is what two brokers may have between them."""
    caps = {pair: pair_rate - demand.live[pair] for pair in demand.debt}
    stuck = sorted({broker for (_, broker), net in (nets | caps).items() if net <= 0})
    row = {
        "restore_bytes": sum(demand.debt.values()),
        "bytes_without_source": demand.without_source, "stuck_brokers": stuck,
    }
    times = dict.fromkeys(("restore_seconds_bound", "restore_seconds_fair", "restore_seconds_half",
                           "restore_seconds_min_isr"))
    if not stuck:
        ends, half = fair_run(demand, nets, caps)
        least = bound(demand, nets, caps)
        times = {
            "restore_seconds_bound": least,
            "restore_seconds_fair": max(ends.values(), default=Fraction(0)),
            "restore_seconds_half": half,
            "restore_seconds_min_isr": max(
                (min(ends.get((source, broker), 0) for broker in brokers)
                 for source, brokers in demand.under_min_isr), default=0),
        }
    return row | times
