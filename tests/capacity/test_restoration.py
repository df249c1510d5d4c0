"""How long restoration takes: against the controller, linear programs, and what hands compute."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import inf
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

import kfast
from kfast.capacity import CpuWeights
from kfast.capacity.failures.broker_disks import disk_by_broker
from kfast.capacity.failures.limits import NORMAL_LIMITS
from kfast.capacity.restorations import restoration_times
from kfast.errors import ArgumentError
from kfast.kernels import fair_sharing as kernel
from kfast.state.kraft_releases import RELEASES
from tests.capacity.test_capacity_sweep import kraft_cluster, prepare, random_loads, zk_cluster
from tests.support.capacity_reference import add_up
from tests.support.restoration_reference import (
    Demand,
    bound,
    demand_of,
    expected_times,
    fair_run,
    net_rates,
    place_elsewhere,
    smallest_throttle,
    stepped_run,
)

pytestmark = pytest.mark.kernels

SECONDS = tuple(f"restore_seconds_{name}" for name in ("bound", "fair", "half", "min_isr"))
RESTORED = ("nw_in_max_restored", "nw_out_max_restored", "disk_max_restored",
            "over_limit_restored")
RESPONSE_BYTES = 10_485_760


def link_capacities(generator, ids):
    """Networks and disks by broker id, some far too small; not all are known."""
    def rate():
        return generator.choice([generator.randint(1, 10**9), 10**11, 10**11, 10**12])

    with_disks = generator.random() < 0.3
    return {
        broker: {
            "nw_in": rate(), "nw_out": generator.choice([0, rate()]), "cpu": 0, "disk": 0,
            "used": 0, "replicas_max": -1,
            "disk_write": rate() if with_disks else 0, "disk_read": rate() if with_disks else 0,
        } for broker in ids
    }


def used_rates(sums):
    """Bytes in and out by broker id."""
    return {b: (c.leader_in + c.follower_in, c.to_replicas + c.to_consumers)
            for b, c in sums.carried.items()}


def random_settings(generator):
    """What `Restoration` takes, without a plan."""
    def throttle():
        return generator.choice([None, None, generator.randint(1, 10**10)])

    return {
        "mode": generator.choice(["return", "replace"]),
        "down_for_seconds": generator.choice([1, 600, generator.randint(1, 10**9)]),
        "leader_throttle": throttle(), "follower_throttle": throttle(),
        "spare_share": generator.choice([0.9, 1, generator.randint(1, 1000) / 1000]),
        "fetchers": generator.randint(1, 4),
        "round_trip_seconds": generator.choice([None, None, 0.0005, 0.25]),
    }


def twin_nets(demand, settings, capacity, used, throttle=None):
    """Net rates of all ports; `used` are bytes in and out by broker id.

    With `throttle`, every throttle that is set is this one.
    """
    share = Fraction(round(settings["spare_share"] * 1000), 1000)

    def free(broker, *pairs):
        return min((share * (capacity[broker][name] - busy) for name, busy in pairs
                    if capacity[broker][name]), default=inf)

    throttles = [settings[f"{side}_throttle"] and (throttle or settings[f"{side}_throttle"])
                 for side in ("leader", "follower")]
    return net_rates(
        demand,
        lambda b: free(b, ("nw_out", used[b][1]), ("disk_read", 0)),
        lambda b: free(b, ("nw_in", used[b][0]), ("disk_write", used[b][0])),
        *(rate or inf for rate in throttles),
    )


def check_row(row, demand, settings, capacity, used):
    """One row of the product against the twin; the bound, None where it never ends."""
    nets = twin_nets(demand, settings, capacity, used)
    pair_rate = inf
    if (trip := settings["round_trip_seconds"]) is not None:
        thousandths = Fraction(settings["fetchers"] * RESPONSE_BYTES * 1000) / Fraction(trip)
        pair_rate = Fraction(int(thousandths), 1000)
    expected = expected_times(demand, nets, pair_rate)
    least = expected.pop("restore_seconds_bound")
    assert row.pop("restore_seconds_bound") == (None if least is None else float(least)), settings
    for name in SECONDS[1:]:
        time = expected.pop(name)
        assert row.pop(name) == (None if time is None else pytest.approx(float(time), rel=1e-9)), (
            name, settings)
    expected["throttle_needed"] = None if least is not None else smallest_throttle(
        demand, lambda rate: twin_nets(demand, settings, capacity, used, rate), pair_rate)
    if settings["mode"] != "redistribute":
        expected["bytes_without_place"] = 0
        expected |= dict.fromkeys(RESTORED)
    assert {name: row[name] for name in expected} == expected, settings
    return least


def compare(seed, plan, left, generator):
    """Some failures of one cluster against `left`; numbers of destinations that were restored."""
    state = plan.cluster
    ids = state.broker_id.tolist()
    loads = random_loads(generator, state.n_partitions)
    capacity = link_capacities(generator, ids)
    _, prepared = prepare(plan, loads, capacity, CpuWeights(), None)
    settings = random_settings(generator)
    scenarios = kfast.independent_brokers(state, generator.choice([0.2, 0.5]), 4, seed)
    table = kfast.restoration(prepared, scenarios, kfast.Restoration(**settings))
    sweep = kfast.capacity_sweep(prepared, scenarios).to_pylist()
    before = left([])
    seen = Counter()
    for number, row in enumerate(table.to_pylist()):
        down = scenarios.brokers(number)
        after = left(down)
        sums = add_up(after, before, loads, ids)
        used = used_rates(sums)
        demand = demand_of(after, before, down, loads, settings["mode"],
                           settings["down_for_seconds"])
        assert {name: row.pop(name) for name in sweep[number]} == sweep[number]
        least = check_row(row, demand, settings, capacity, used)
        seen[len({to for _, to in demand.debt}) if least is not None else "stuck"] += 1
        seen["without source"] += demand.without_source > 0
        seen["throttled"] += row["throttle_needed"] is not None
        seen["under min ISR"] += bool(demand.under_min_isr) and least is not None
    return seen


def test_restoration_is_what_the_controller_leaves_behind():
    """Dead brokers, queued topics, reassignments, odd ISRs, unclean topics; RF 1 to 5.

    Kernels: `share_one_port`, `share_ports`.
    """
    seen = Counter()
    for seed in range(60):
        generator = Random(seed)
        if (cluster := zk_cluster(seed, generator)) is not None:
            seen += compare(seed, *cluster, generator)
    assert min(seen[kind] for kind in (
        0, 1, 2, "stuck", "throttled", "without source", "under min ISR")) > 2


@pytest.mark.parametrize("release", RELEASES)
def test_restoration_of_a_kraft_cluster(release):
    """ELR, reassignments that are complete, directories that are lost."""
    seen = Counter()
    for seed in range(8):
        seen += compare(seed, *kraft_cluster(seed, release), Random(seed))
    assert seen[1] + seen[2] > 0


def random_demand(generator, sources, destinations, most=10**12):
    """Debts between some brokers, no broker among both, and net rates of their ports."""
    pairs = [(s, 100 + d) for s in range(sources) for d in range(destinations)]
    debt = Counter({pair: generator.choice([0, 1000, generator.randint(1, most)])
                    for pair in pairs})
    rates = {port: generator.choice([50, generator.randint(1, 10**6)])
             for s, d in pairs for port in (("out", s), ("in", d))}
    demand = Demand(debt=+debt)
    return demand, {port: rate for port, rate in rates.items()
                    if any(port in (("out", s), ("in", d)) for s, d in demand.debt)}


def kernel_times(demand, nets, caps=None, one_port=False):
    """Times of the product's kernels: of each pair, and of half of all bytes."""
    pairs, end = list(demand.debt), np.empty(len(demand.debt))
    volume = np.array([demand.debt[pair] for pair in pairs], np.float64)
    cap = np.array([(caps or {}).get(pair, inf) for pair in pairs], np.float64)
    half = sum(demand.debt.values()) / 2
    if one_port:
        cap = np.minimum(cap, [float(nets["out", source]) for source, _ in pairs])
        rate = float(nets["in", pairs[0][1]])
        reached = kernel.share_one_port(
            volume, cap, rate, volume.argsort(), cap.argsort(), half, end)
    else:
        place = {port: at for at, port in enumerate(nets)}
        port = np.array([[place["out", s], place["in", d]] for s, d in pairs], np.int32)
        rates = np.array([float(net) for net in nets.values()])
        reached = kernel.share_ports(volume, cap, port.reshape(-1, 2), rates, half, end)
    return dict(zip(pairs, end.tolist(), strict=True)), reached


def restored_columns(demand, used, on_disk, capacity, surviving):
    """How full brokers are once all is made, and how many are over the limit without a failure."""
    more = {broker: [*used[broker], on_disk[broker]] for broker in surviving}
    for (source, destination), live in demand.live.items():
        more[destination][0] += live
        more[source][1] += live
    for (_, destination), debt in demand.debt.items():
        more[destination][2] += debt
    names = "nw_in", "nw_out", "disk"
    full = {name: [Fraction(more[b][at], capacity[b][name]) for b in surviving if capacity[b][name]]
            for at, name in enumerate(names)}
    over = sum(any(more[b][at] * 10_000 > capacity[b][name] * NORMAL_LIMITS[name] > 0
                   for at, name in enumerate(names)) for b in surviving)
    row = {f"{name}_max_restored": float(max(full[name])) if full[name] else None
           for name in names}
    return row | {"over_limit_restored": over}


def test_replicas_made_elsewhere_come_from_the_leader_after_the_failure():
    """A plan for all partitions, some targets of which have their replica already."""
    seen = Counter()
    for seed in range(60):
        generator = Random(seed)
        if (cluster := zk_cluster(seed, generator)) is None:
            continue
        plan, left = cluster
        state, loads = plan.cluster, random_loads(generator, plan.cluster.n_partitions)
        ids, up = state.broker_id.tolist(), state.broker_id[plan.up].tolist()
        scenarios = kfast.independent_brokers(state, 0.3, 1, seed)
        down = scenarios.brokers(1)
        surviving = [broker for broker in up if broker not in down]
        after = left(down)
        if not surviving or not after:
            continue
        capacity = link_capacities(generator, ids)
        _, prepared = prepare(plan, loads, capacity, CpuWeights(), None)
        rows = generator.sample(sorted(after), generator.randint(1, len(after)))
        targets = {row: generator.sample(surviving, generator.randint(1, min(3, len(surviving))))
                   for row in rows}
        names = state.topic.take(state.topic_row).to_pylist()
        new = kfast.NewReplicas.of(
            state, {(names[row], int(state.partition[row])): to for row, to in targets.items()}
        )
        settings = random_settings(generator) | {"mode": "redistribute"}
        rules = kfast.Restoration(**settings, new_replicas=new)
        row = kfast.restoration(prepared, scenarios.slice(1, 2), rules).to_pylist()[0]
        demand = demand_of(after, left([]), down, loads, "redistribute", 0, targets)
        used = used_rates(add_up(after, after, loads, ids))
        assert (row["scenario"], row["brokers_down"]) == (1, len(down))
        least = check_row(row, demand, settings, capacity, used)
        expected = restored_columns(demand, used, dict.fromkeys(ids, 0), capacity, surviving)
        assert {name: row[name] for name in RESTORED} == expected
        seen["stuck" if least is None else "copied" if least else "nothing"] += 1
        seen["without source"] += demand.without_source > 0
    assert min(seen[kind] for kind in ("stuck", "copied", "without source")) > 4, seen


def test_without_a_plan_replicas_are_made_where_most_room_is():
    """On brokers without the partition, in other racks where there are any, evenly."""
    seen = Counter()
    for seed in range(60):
        generator = Random(seed)
        if (cluster := zk_cluster(seed, generator)) is None:
            continue
        plan, left = cluster
        state, loads = plan.cluster, random_loads(generator, plan.cluster.n_partitions)
        ids = state.broker_id.tolist()
        up = state.broker_id[plan.up].tolist()
        capacity = link_capacities(generator, ids)
        for own in capacity.values():
            own["disk"] = generator.choice([0, 10**6, generator.randint(1, 10**13)])
        load, prepared = prepare(plan, loads, capacity, CpuWeights(), None)
        settings = random_settings(generator) | {"mode": "redistribute"}
        scenarios = kfast.independent_brokers(state, 0.3, 3, seed)
        rows = kfast.restoration(prepared, scenarios, kfast.Restoration(**settings)).to_pylist()
        assigned = [state.assignment(row).replicas for row in range(state.n_partitions)]
        on_disk = dict(zip(ids, disk_by_broker(state, load).tolist(), strict=True))
        racks = {b: rack or b for b, rack in zip(ids, state.rack.to_pylist(), strict=True)
                 if b in up}
        for number, row in enumerate(rows):
            down = scenarios.brokers(number)
            after = left(down)
            used = used_rates(add_up(after, after, loads, ids))
            targets, homeless = place_elsewhere(
                after, left([]), down, loads, assigned, racks,
                {b: capacity[b] for b in up}, {b: (used[b][0], on_disk[b]) for b in up},
            )
            demand = demand_of(after, left([]), down, loads, "redistribute", 0, targets)
            demand.without_source = demand_of(
                after, left([]), down, loads, "replace", 0).without_source
            least = check_row(row, demand, settings, capacity, used)
            assert row["bytes_without_place"] == homeless
            surviving = [b for b in up if b not in down]
            expected = restored_columns(demand, used, on_disk, capacity, surviving)
            assert {name: row[name] for name in RESTORED} == expected
            seen["copied" if least else "not"] += 1
            seen["without place"] += homeless > 0
            seen["over"] += row["over_limit_restored"] > 0
            seen["within"] += bool(surviving) and row["over_limit_restored"] == 0
    assert min(seen[kind] for kind in ("copied", "without place", "over", "within")) > 4, seen


DESCRIBE = b"""\
Topic: t PartitionCount: 2 ReplicationFactor: 2 Configs:
\tTopic: t Partition: 0 Leader: 1 Replicas: 1,2 Isr: 1,2
\tTopic: t Partition: 1 Leader: 1 Replicas: 1,3 Isr: 1,3
"""
MB = 10**6


def small(tmp_path, loads, capacities):
    """Three brokers and two partitions, which broker 1 leads."""
    path = tmp_path / "describe.txt"
    path.write_bytes(DESCRIBE)
    state = kfast.read(path)
    load = kfast.partition_load(state, kfast.read_load(("loads.csv", loads)))
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", capacities)))
    return state, kfast.prepare_capacity(state, load, capacity)


def one_failure(state, plan, broker, **settings):
    """The row of one failure."""
    scenarios = kfast.every_broker(state)
    number = next(n for n in range(1, len(scenarios)) if scenarios.brokers(n) == [broker])
    table = kfast.restoration(plan, scenarios.slice(number, number + 1),
                              kfast.Restoration(**settings))
    return table.to_pylist()[0]


LOAD = b"topic,partition,bytes_in,bytes_out,disk_bytes\nt,0,20000000,0,10000000000000\nt,1,0,0,0\n"


def test_ten_terabytes_at_a_hundred_megabytes_a_second(tmp_path):
    """Replaced: 100 000 s, whatever the share that a faster network leaves."""
    capacities = b"broker_id,nw_in,nw_out\n-1,1e9,1e9\n2,1.25e8,1e9\n"
    state, plan = small(tmp_path, LOAD.replace(b"20000000", b"0"), capacities)
    row = one_failure(state, plan, 2, mode="replace", spare_share=0.8)
    assert row["restore_bytes"] == 10**13
    assert [row[name] for name in SECONDS] == [100_000, 100_000, 50_000, 0]


def test_a_returning_broker_needs_more_than_what_producers_write(tmp_path):
    """Down for 3600 s at 20 MB/s: 72 GB; at 60 MB/s 1800 s, at 20 MB/s for ever."""
    state, plan = small(tmp_path, LOAD, b"broker_id,nw_in,nw_out\n-1,1e9,1e9\n")
    row = one_failure(state, plan, 2, down_for_seconds=3600, follower_throttle=60 * MB)
    assert row["restore_bytes"] == 72 * 10**9
    assert [row[name] for name in SECONDS] == [1800, 1800, 900, 0]
    for throttle, stuck in (("follower_throttle", [2]), ("leader_throttle", [1])):
        row = one_failure(state, plan, 2, down_for_seconds=3600, **{throttle: 20 * MB})
        assert row["stuck_brokers"] == stuck
        assert row["throttle_needed"] == 20 * MB + 1
        assert [row[name] for name in SECONDS] == [None] * 4
    assert one_failure(state, plan, 2, mode="return", down_for_seconds=10**9)[
        "restore_bytes"] == 10**13


def test_fetchers_count_with_a_round_trip_alone(tmp_path):
    """One fetcher has 10 MiB under way: 0.25 s apart it moves 41.9 MB/s, 20 of which are new."""
    state, plan = small(tmp_path, LOAD, b"broker_id,nw_in,nw_out\n-1,1e9,1e9\n")
    wide = one_failure(state, plan, 2, down_for_seconds=3600)
    assert wide == one_failure(state, plan, 2, down_for_seconds=3600, fetchers=8)
    one = one_failure(state, plan, 2, down_for_seconds=3600, round_trip_seconds=0.25)
    assert one["restore_seconds_bound"] == 72 * 10**9 / (4 * RESPONSE_BYTES - 20 * MB)
    assert one_failure(state, plan, 2, down_for_seconds=3600, round_trip_seconds=1)[
        "stuck_brokers"] == [2]


def test_without_a_leader_nothing_can_be_copied(tmp_path):
    """Brokers 1 and 2 come back with all that there is, or are replaced and it is gone."""
    state, plan = small(tmp_path, LOAD, b"broker_id,nw_in,nw_out\n-1,1e9,1e9\n")
    pairs = kfast.every_broker(state, 2)
    number = next(n for n in range(len(pairs)) if pairs.brokers(n) == [1, 2])
    some = pairs.slice(number, number + 1)
    for mode, lost in (("return", 0), ("replace", 2 * 10**13)):
        row = kfast.restoration(plan, some, kfast.Restoration(mode)).to_pylist()[0]
        assert (row["bytes_without_source"], row["restore_bytes"]) == (lost, 0)
        assert row["restore_seconds_fair"] == 0


def test_too_many_flows_have_a_bound_and_no_fair_time(tmp_path, monkeypatch):
    """Their shares would be computed anew as often as there are flows."""
    monkeypatch.setattr(restoration_times, "MOST_FLOWS", 0)
    state, plan = small(tmp_path, LOAD, b"broker_id,nw_in,nw_out\n-1,1e9,1e9\n")
    row = one_failure(state, plan, 2)
    assert row["restore_seconds_bound"] > 0
    assert [row[name] for name in SECONDS[1:]] == [None] * 3


@pytest.mark.parametrize(("settings", "words"), [
    ({"mode": "rebuild"}, "mode is 'rebuild'; allowed are return, replace, redistribute"),
    ({"down_for_seconds": 0}, "down_for_seconds is 0"),
    ({"down_for_seconds": 1.5}, "down_for_seconds is 1.5"),
    ({"leader_throttle": 0}, "leader_throttle is 0"),
    ({"follower_throttle": -5}, "follower_throttle is -5"),
    ({"spare_share": 0}, "spare_share is 0"),
    ({"spare_share": float("nan")}, "spare_share is nan"),
    ({"fetchers": 0}, "fetchers is 0"),
    ({"round_trip_seconds": 0}, "round_trip_seconds is 0"),
    ({"new_replicas": 5, "mode": "redistribute"}, "new_replicas is of type int"),
])
def test_settings_that_are_refused(settings, words):
    """One line that names the setting."""
    with pytest.raises(ArgumentError, match=words):
        kfast.Restoration(**settings)


@pytest.mark.parametrize(("reassignments", "words"), [
    ({("t", 0): [1, 3], ("u", 0): [1]}, "item 1 names a partition that the cluster does not have"),
    ({("t", 0): [1, 9]}, "the cluster does not have broker 9"),
])
def test_plans_that_are_refused(tmp_path, reassignments, words):
    """Before anything is computed."""
    state, _ = small(tmp_path, LOAD, b"broker_id,nw_in,nw_out\n-1,1e9,1e9\n")
    with pytest.raises(ArgumentError, match=words):
        kfast.NewReplicas.of(state, reassignments)


def test_a_plan_that_puts_a_replica_on_a_failing_broker_is_refused(tmp_path):
    """And nothing may be without a limit."""
    state, plan = small(tmp_path, LOAD, b"broker_id,nw_in,nw_out\n-1,1e9,1e9\n")
    new = kfast.NewReplicas.of(state, {("t", 0): [1, 3]})
    row = one_failure(state, plan, 2, mode="redistribute", new_replicas=new)
    assert row["restore_bytes"] == 10**13
    with pytest.raises(ArgumentError, match="t-0 is to have a replica on broker 3, which fails"):
        one_failure(state, plan, 3, mode="redistribute", new_replicas=new)
    _, without = small(tmp_path, LOAD, b"broker_id,disk_bytes\n-1,1e15\n")
    with pytest.raises(ArgumentError, match="how fast broker 2 copies from broker 1"):
        one_failure(state, without, 2)
    assert one_failure(state, without, 2, follower_throttle=60 * MB)["stuck_brokers"] == []
    assert one_failure(state, without, 2, round_trip_seconds=0.01)["stuck_brokers"] == []


def test_the_bound_is_the_optimum_of_a_linear_program():
    """Three periods of any length, any flows in each: nobody gets all across sooner."""
    generator, periods = Random(6), 3
    for _ in range(40):
        demand, nets = random_demand(generator, 6, 6, 10**6)
        pairs, ports = list(demand.debt), list(nets)
        n = len(pairs)
        moved = np.hstack([np.eye(n)] * periods + [np.zeros((n, periods))])
        limits = np.zeros((len(ports) * periods, n * periods + periods))
        for at, (side, broker) in enumerate(ports):
            for period in range(periods):
                row = limits[at * periods + period]
                for place, pair in enumerate(pairs):
                    row[period * n + place] = pair[side == "in"] == broker
                row[n * periods + period] = -nets[side, broker]
        best = linprog(
            np.r_[np.zeros(n * periods), np.ones(periods)], A_ub=limits,
            b_ub=np.zeros(len(limits)), A_eq=moved, b_eq=[demand.debt[pair] for pair in pairs],
        )
        assert best.fun == pytest.approx(float(bound(demand, nets, {})), rel=1e-6)


def test_fair_times_are_those_of_fractions_and_never_below_the_bound():
    """With caps of pairs and without; `share_one_port` is `share_ports` for one destination."""
    generator, seen = Random(7), Counter()
    for _ in range(150):
        destinations = generator.choice([1, 1, 2, 4])
        demand, nets = random_demand(generator, generator.randint(1, 6), destinations)
        caps = {pair: generator.choice([inf, generator.randint(1, 10**5)]) for pair in demand.debt}
        if not demand.debt:
            continue
        ends, half = fair_run(demand, nets, caps)
        least = bound(demand, nets, caps)
        assert max(ends.values()) >= least
        for one_port in {False, len({to for _, to in ends}) == 1}:
            times, reached = kernel_times(demand, nets, caps, one_port)
            assert times == {pair: pytest.approx(float(end)) for pair, end in ends.items()}
            assert reached == pytest.approx(float(half))
        seen["longer" if max(ends.values()) > least else "equal"] += 1
    assert min(seen.values()) > 20


def test_flows_that_share_one_full_port_need_what_the_bound_says():
    """One destination that is slower than each source, and one source slower than all."""
    generator = Random(8)
    for sources, destinations, port in ((8, 1, ("in", 100)), (1, 8, ("out", 0))):
        demand, nets = random_demand(generator, sources, destinations)
        nets = dict.fromkeys(nets, 10**9) | {port: 999}
        assert max(fair_run(demand, nets, dict.fromkeys(demand.debt, inf))[0].values()) == bound(
            demand, nets, {})


def test_fair_times_are_those_of_small_steps():
    """Rates shared anew every millisecond: at most a step longer for each flow that ends."""
    generator, step = Random(9), Fraction(1, 1000)
    for _ in range(6):
        demand, nets = random_demand(generator, 3, 3, 4000)
        nets = {port: rate % 900 + 2000 for port, rate in nets.items()}
        times, _ = kernel_times(demand, nets)
        late = float(stepped_run(demand, nets, step)) - max(times.values())
        assert -1e-9 <= late <= float(step) * len(times)
