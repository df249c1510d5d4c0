"""Capacity sweeps against the controller, scenario by scenario, with bytes added up in Python."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import count
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity import BrokerCapacity, CpuWeights, PartitionLoad
from kfast.capacity.failures import broker_statistics
from kfast.capacity.failures.broker_disks import disk_by_broker
from kfast.capacity.failures.capacity_sweeps import Measured
from kfast.capacity.failures.limits import FAILED_LIMITS, NORMAL_LIMITS
from kfast.errors import ArgumentError
from kfast.kernels import capacity as kernel
from kfast.schema import TOPIC_UNCLEAN
from kfast.state.kraft_releases import RELEASES
from tests.analysis.test_impact import random_cluster
from tests.analysis.test_sweep import starts
from tests.analysis.test_sweep_kraft import state_of
from tests.support.capacity_reference import (
    RESOURCES,
    Consumers,
    add_up,
    added,
    expected_broker,
    expected_row,
    left_by_kraft,
    left_by_zk,
    moved_leadership,
    uses,
)
from tests.support.kraft_clusters import RandomCluster
from tests.support.long_tests import share_of
from tests.support.reference_profiles import PROFILES
from tests.support.twin_kraft_sweep import partitions_of
from tests.support.twin_sweep import partitions_of as assigned_rows

pytestmark = pytest.mark.kernels


def random_loads(generator, n):
    """Bytes in, bytes out and on disk of n partitions; some carry nothing, few carry much."""
    def column(most):
        return np.array([generator.choice([0, generator.randint(0, 9), generator.randint(0, most)])
                         for _ in range(n)], np.int64)
    return column(2 * 10**8), column(2 * 10**8), column(10**14)


def random_capacities(generator, ids):
    """Capacities by broker id; many are equal, some are missing."""
    sizes = {name: generator.randint(1, 6 * 10**8) for name in RESOURCES}
    lacking = {name for name in RESOURCES if generator.random() < 0.15}
    held = {}
    for broker in ids:
        own = {name: 0 if name in lacking or generator.random() < 0.1
               else generator.choice([most, generator.randint(1, most)])
               for name, most in sizes.items()}
        own["used"] = generator.randint(0, 10**7)
        own["replicas_max"] = generator.choice([-1, generator.randint(1, 30)])
        held[broker] = own
    return held


def random_consumers(generator, state):
    """Shares of consumers by rack as texts, and the twin's; None where they fetch from leaders.

    Brokers are given racks, some of them none.
    """
    if generator.random() < 0.4:
        return {}, None
    names = "abc"[: generator.randint(1, 3)]
    state.rack = pa.array(
        [generator.choice([*names, *names, None]) for _ in range(state.n_brokers - 1)] + ["b"]
    )
    racks = sorted({rack for rack in state.rack.to_pylist() if rack is not None})
    texts = None
    shares = dict.fromkeys(racks, Fraction(1, len(racks)))
    if generator.random() < 0.6:
        weights = {rack: generator.randint(0, 9) for rack in racks}
        weights[racks[0]] += 1
        total = sum(weights.values())
        shares = {rack: Fraction(weight, total) for rack, weight in weights.items()}
        texts = {rack: f"{weight}/{total}" for rack, weight in weights.items() if weight}
    rack_of = dict(zip(state.broker_id.tolist(), state.rack.to_pylist(), strict=True))
    return {"fetch_from": "nearest", "consumer_racks": texts}, Consumers(rack_of, shares)


def prepare(plan, loads, capacity, weights, replicas_limit, **fetching):
    """The product's plan from the columns of the twin."""
    def column(name):
        return np.array([held.get(name) or -1 for held in capacity.values()], np.int64)

    state = plan.cluster
    load = PartitionLoad(
        bytes_in=loads[0], bytes_out=loads[1], disk_bytes=loads[2],
        cpu_microcores=np.array([held["used"] for held in capacity.values()], np.int64),
        milli_msgs_in=np.zeros_like(loads[0]), replica_bytes=None, replica_log_dir=None,
        log_dirs=(), window=None, topic=state.topic, share_model=np.zeros((4, 0), np.int8),
        source_of=np.zeros((4, 0), np.int16), sources=(), topics_without_load=(), assumptions=(),
        warnings=(),
    )
    held = BrokerCapacity(
        nw_in=column("nw_in"), nw_out=column("nw_out"), disk_bytes=column("disk"),
        cpu_microcores=column("cpu"), disk_write=column("disk_write"),
        disk_read=column("disk_read"), replicas_max=column("replicas_max"),
        log_dirs=({},) * state.n_brokers, price_class=(None,) * state.n_brokers, source="test",
    )
    return load, kfast.prepare_capacity(
        plan, load, held, weights=weights, replicas_limit=replicas_limit,
        cpu_model="measured" if weights else "write-equivalent", **fetching,
    )


def compare_failure(failure, row, amounts, number, before, now, loads, consumers):
    """One failure in full against what is left of each partition."""
    state, plan = failure.cluster, failure.plan
    assert {"scenario": number, **failure.summary} == row
    topics = state.topic.take(state.topic_row).to_pylist()
    moved = {
        tuple(line[name] for name in ("topic", "from_broker", "to_broker")): [
            line[name] for name in ("partitions", "bytes_in", "bytes_out")]
        for line in failure.topics.to_pylist()
    }
    assert moved == moved_leadership(now, before, topics, loads)
    place = {key: n for n, key in enumerate(zip(topics, state.partition.tolist(), strict=True))}
    by_weight = plan.weights.leader_in, plan.weights.leader_out, plan.weights.follower_in
    for at, line in enumerate(failure.brokers.to_pylist()):
        broker, up = line["broker_id"], bool(plan.up[at])
        assert line["failed"] == (broker in failure.failed_brokers)
        if line["failed"] or not up:
            assert line["bytes_in_after"] is line["over_limit"] is None
            continue
        used = [amounts[moment, at].tolist() for moment in (0, number)]
        assert [[line[f"{name}_{when}"] for name in ("bytes_in", "bytes_out")]
                for when in ("before", "after")] == [both[:2] for both in used]
        parts = failure.explain(broker).to_pylist()
        names = ("bytes_in", "bytes_out") + ("cpu_microcores",) * bool(used[0][2])
        for column, name in enumerate(names):
            assert sum(part[name] for part in parts) == used[1][column] - used[0][column]
        by_partition = {}
        for part in parts:
            partition = place[part["topic"], part["partition"]]
            sums = by_partition.setdefault(partition, [0, 0])
            sums[0] += part["bytes_in"]
            sums[1] += part["bytes_out"]
            check_reason(part, before[partition], now[partition], broker,
                         failure.failed_brokers, consumers)
        for partition in before:
            *expected, _ = added(
                before[partition], now[partition], broker,
                *(int(column[partition]) for column in loads[:2]), by_weight, consumers,
            )
            assert by_partition.get(partition, [0, 0]) == expected


def check_reason(part, before, now, broker, down, consumers):
    """Whether the reason of a part is what happened to its partition."""
    failed = part["failed_broker"]
    if part["reason"] == "fewer_followers":
        assert before.leader == now.leader == broker
        gone = set(before.live) - set(now.live)
        assert failed in gone if failed in down else gone - set(down)
        return
    if part["reason"] in ("serves", "serves_no_more"):
        sources = [{None if left.leader is None else consumers.source(left, rack)
                    for rack in consumers.shares} for left in (before, now)]
        serves = part["reason"] == "serves"
        assert broker in sources[serves]
        assert part["bytes_in"] == 0
        assert (part["bytes_out"] > 0) == serves
        assert failed is None or failed in sources[0] & set(down)
        return
    follower_serves = consumers and part["reason"] == "leaderless" and part["bytes_out"] < 0
    if follower_serves and broker != before.leader:
        assert now.leader is None
        assert failed is None
        return
    assert failed == (before.leader if before.leader in down else None)
    assert now.leader != before.leader or part["reason"] == "follows_no_more"
    assert part["reason"] == (
        "leaderless" if now.leader is None else "leads" if now.leader == broker else
        "leads_no_more" if before.leader == broker else
        "follows" if part["bytes_in"] > 0 else "follows_no_more"
    )
    assert part["reason"] != "follows_no_more" or broker not in now.live
    assert part["reason"] != "follows" or before.leader is None


def compare(seed, plan, left, generator):
    """Some scenarios of one cluster by both methods against `left`: partitions after a failure."""
    state = plan.cluster
    ids, up = state.broker_id.tolist(), state.broker_id[plan.up].tolist()
    loads = random_loads(generator, state.n_partitions)
    capacity = random_capacities(generator, ids)
    weights = generator.choice(
        [CpuWeights(), CpuWeights(1, 0, 7), CpuWeights(701, 149, 150), None]
    )
    replicas_limit = generator.choice([None, generator.randint(1, 30)])
    fetching, consumers = random_consumers(generator, state)
    load, prepared = prepare(plan, loads, capacity, weights, replicas_limit, **fetching)
    scenarios = kfast.independent_brokers(
        state, generator.choice([0.1, 0.3, 0.6, 0.9]), 5, seed
    )
    table = kfast.capacity_sweep(prepared, scenarios, method="pass")
    assert kfast.capacity_sweep(prepared, scenarios, method="terms") == table, f"seed {seed}"
    before = left([])
    baseline = add_up(before, before, loads, ids, consumers)
    disk = dict(zip(ids, disk_by_broker(plan.cluster, load).tolist(), strict=True))
    placed = Counter(broker for row in range(state.n_partitions)
                     for broker in plan.cluster.assignment(row).replicas)
    for broker, own in capacity.items():
        own["replicas"] = placed[broker]
        own["replicas_most"] = [most for most in (own["replicas_max"], replicas_limit)
                                if most not in (-1, None)]
    by_weight = weights and (weights.leader_in, weights.leader_out, weights.follower_in)
    normal_limits = NORMAL_LIMITS if weights else {**NORMAL_LIMITS, "cpu": 5000}
    amounts = prepared.broker_loads(*scenarios.down(0, len(scenarios)), "pass")
    by_broker = {broker: {} for broker in ids}
    for number, row in enumerate(table.to_pylist()):
        down = scenarios.brokers(number)
        sums = add_up(left(down), before, loads, ids, consumers)
        still_up = [b for b in up if b not in down]
        used = uses(sums, baseline, still_up, capacity, by_weight)
        for broker in still_up:
            by_broker[broker][number] = used[broker]
        assert amounts[number].tolist() == [[*used.get(broker, (0, 0, 0))] for broker in ids]
        assert prepared.broker_loads(*scenarios.down(number, number + 1), "terms").tolist() == [
            amounts[number].tolist()], f"seed {seed}, brokers {down}"
        expected = expected_row(
            sums, baseline, still_up, disk, capacity, FAILED_LIMITS if down else normal_limits,
            by_weight,
        )
        if number == seed % len(scenarios):
            failure = kfast.capacity_of(prepared, down)
            compare_failure(
                failure, row, amounts, number, before, left(down), loads, consumers
            )
        headroom = expected.pop("headroom")
        assert row.pop("headroom") == (None if headroom is None else pytest.approx(headroom))
        assert row == {"scenario": number, "brokers_down": len(down), **expected}, (
            f"seed {seed}, brokers {down}")
    for method in ("pass", "terms"):
        rows = kfast.capacity_brokers(prepared, scenarios, method=method).to_pylist()
        assert rows == [
            expected_broker(broker, by_broker[broker], disk[broker], capacity[broker])
            for broker in ids
        ], f"seed {seed}"


def zk_cluster(seed, generator, profile="zk-3.9"):
    """A random ZooKeeper cluster, and what a failure leaves of it; None where it cannot start."""
    state = random_cluster(seed, generator.choice(["narrow", "wide"]), profile)[1]
    if not starts(state, profile):
        return None
    plan = kfast.prepare_sweep(state, profile=profile)
    return plan, lambda down: left_by_zk(plan.cluster, down, profile)


def compare_zk(seed, profile="zk-3.9"):
    """One random ZooKeeper cluster: what it has, or None where its controller cannot start."""
    generator = Random(seed)
    cluster = zk_cluster(seed, generator, profile)
    if cluster is None:
        return None
    compare(seed, *cluster, generator)
    return features(cluster[0].cluster)


def kraft_cluster(seed, release):
    """A random KRaft cluster, and what a failure leaves of it."""
    def twin_state():
        return RandomCluster(seed, release, None).controller().state

    state = state_of(RandomCluster(seed, release, None))
    names = {
        (t, p): row for row, (t, p) in enumerate(zip(
            state.topic.take(state.topic_row).to_pylist(), state.partition.tolist(), strict=True))
    }
    twin = twin_state()
    row_of = {
        place: names[twin.topics[place.topic_id].name, place.partition_id]
        for place in partitions_of(twin)
    }
    return kfast.prepare_sweep(state), lambda down: left_by_kraft(twin_state, down, row_of)


def compare_kraft(seed, release):
    """One random KRaft cluster: what it has."""
    plan, left = kraft_cluster(seed, release)
    compare(seed, plan, left, Random(seed))
    elr_on = RandomCluster(seed, release, None).elr_on
    return features(plan.cluster) | {"ELR on" if elr_on else "ELR off"}


def features(state):
    """What a cluster has that sweeps must take into account."""
    has = set()
    if not state.live.all():
        has.add("dead brokers")
    for row in assigned_rows(state):
        replicas, led = set(state.assignment(row).replicas), state.leadership(row)
        isr = set() if led is None else set(led.isr)
        flags = int(state.topic_flags[int(state.topic_row[row])])
        has.add(f"RF {len(replicas)}")
        has |= {name for name, holds in (
            ("partial ISR", isr < replicas), ("unassigned ISR member", isr - replicas),
            ("leaderless", led is None or led.leader < 0), ("unclean topic", flags & TOPIC_UNCLEAN),
            ("queued topic", state.topic_queued_for_deletion[int(state.topic_row[row])]),
        ) if holds}
    return has


def test_a_capacity_sweep_is_the_controller_run_scenario_by_scenario():
    """Dead brokers, queued topics, reassignments, odd ISRs, unclean topics; RF 1 to 5.

    All kernels together: `add_loads`, `add_single_terms`, `count_pair_terms`, `list_pair_terms`,
    `sweep_terms`, `measure_loads`, `list_loads`, `use_resources`,
    `add_statistics`, `count_bins`.
    """
    assert sum(compare_zk(seed) is not None for seed in range(24)) > 16


@pytest.mark.parametrize("release", RELEASES)
def test_a_capacity_sweep_of_a_kraft_cluster_fences_one_broker_after_another(release):
    """ELR, reassignments that are complete, directories that are lost."""
    for seed in range(3):
        compare_kraft(seed, release)


def test_amounts_that_doubles_do_not_hold_exactly_are_divided_as_doubles():
    """A broker of this cluster needs more than 2**53 micro-cores."""
    assert compare_kraft(383853541, "kraft-4.3")


def test_micro_cores_are_rounded_half_to_even():
    """`use_resources`: halves, quotients beside halves, and products beyond 2^64."""
    generator = Random(5)
    cases = [(1, half, 2) for half in range(1, 20, 2)]
    cases += [(2**30 + 1, half * 2**20, 2**21) for half in range(1, 20, 2)]
    for _ in range(2000):
        work = generator.randint(1, 2**52)
        cases.append((generator.randint(0, 2**33), generator.randint(0, work), work))
        whole = generator.randint(0, 2**22)
        cases.append((2 * whole + 1 + generator.choice([0, 2**31]), 2**30 - 1, 2**31))
    span, used, work = (np.array(column, np.int64) for column in zip(*cases, strict=True))
    n = len(cases)
    cpu = np.stack([np.full(n, 7), span, work], axis=1)
    none = np.zeros((n, 3), np.int64)
    limits = kernel.Limits(
        np.zeros(64), np.zeros(64), none, cpu, none.astype(np.float64), np.zeros(n, np.uint8)
    )
    loads = np.stack([used, used, used], axis=1)[None].copy()
    kernel.use_resources(limits, np.zeros(2, np.int64), np.zeros(1, np.int32), loads)
    assert loads[0, :, 2].tolist() == [7 + round(Fraction(s * u, w)) for s, u, w in cases]
    assert loads[0, :, :2].tolist() == [[u, u] for u in used.tolist()]


def test_micro_cores_are_rounded_before_brokers_are_compared():
    """2.45 of 10 micro-cores are 2, and 22.4 of 100 are 22: more, though the estimate is less."""
    capacity, cpu = np.zeros((2, 3), np.int64), np.array([[0, 245, 100], [0, 2240, 100]])
    capacity[:, 2] = 10, 100
    slope, offset, loads = np.zeros((3, 64))
    offset[:] = -1
    offset[[2, 6]], slope[[2, 6]], loads[[2, 6]] = 0, (0.245, 0.224), 1
    limits = kernel.Limits(
        slope, offset, capacity, cpu, np.full((2, 3), np.inf), np.zeros(2, np.uint8)
    )
    measured = Measured.empty(1)
    kernel.measure_loads(limits, np.zeros(0, np.int32), 1, loads, measured, 0)
    assert measured.fullest.tolist() == [[-1, -1, 1]]
    assert measured.most.tolist() == [[0, 0, 22]]


@pytest.mark.parametrize(("brokers", "is_exact"), [(8, False), (80, True)])
def test_sums_that_float64_may_not_hold_are_refused(brokers, is_exact):
    """What counts is the sum over the partitions of one broker, not over all."""
    state = kfast.generate(brokers=brokers, partitions=240, seed=5)
    generator, weights = Random(5), CpuWeights(7001, 1499, 1500)
    rates = np.full(240, 10**9)
    capacity = random_capacities(generator, state.broker_id.tolist())
    arguments = kfast.prepare_sweep(state), (rates, rates, rates), capacity, weights, None
    if is_exact:
        assert prepare(*arguments)[1].terms is not None
    else:
        with pytest.raises(ArgumentError, match="too much for exact sums"):
            prepare(*arguments)


MET_BY_ALL = (
    *(f"RF {n}" for n in range(1, 6)), "partial ISR", "dead brokers", "unclean topic", "leaderless",
)
RANDOM_CLUSTERS = 200
"""Clusters of each of 50 tests."""


def check_met(met, *names):
    """Each of them was met in one cluster of fifty or more."""
    assert all(met[name] * 50 >= RANDOM_CLUSTERS for name in (*MET_BY_ALL, *names)), met


@pytest.mark.slow
@pytest.mark.parametrize("part", share_of(range(30)))
def test_thousands_of_random_zookeeper_clusters(part):
    """Every column of five scenarios each is what the controller leaves."""
    profiles, met, compared = list(PROFILES), Counter(), 0
    seeds = count(1_000_000 * (part + 1))
    while compared < RANDOM_CLUSTERS:
        seed = next(seeds)
        has = compare_zk(seed, profiles[seed % len(profiles)])
        compared += has is not None
        met.update(has or ())
    check_met(met, "queued topic", "unassigned ISR member")


@pytest.mark.slow
@pytest.mark.parametrize("part", share_of(range(20)))
def test_a_thousand_random_kraft_clusters_and_more(part):
    """The same for every release, with ELR and without."""
    releases, met = list(RELEASES), Counter()
    for number in range(RANDOM_CLUSTERS):
        seed = 1_000_000 * (part + 1) + number
        met.update(compare_kraft(seed, releases[seed % len(releases)]))
    check_met(met, "ELR on", "ELR off")


def nearest_rank(values, percent):
    """The smallest value that no more than so many percent of the values exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]


@pytest.mark.parametrize("most_blocks", [0, 32])
@pytest.mark.parametrize("bin_bytes", [1, 1 << 20])
def test_statistics_do_not_depend_on_how_many_scenarios_are_held(
    monkeypatch, most_blocks, bin_bytes
):
    """Bins of one bit and of many; blocks held or computed again; slices of scenarios."""
    generator = Random(8)
    state = kfast.generate(brokers=9, partitions=300, topics=3, racks=3, seed=5)
    loads = random_loads(generator, state.n_partitions)
    capacity = random_capacities(generator, state.broker_id.tolist())
    plan = prepare(kfast.prepare_sweep(state), loads, capacity, CpuWeights(), None)[1]
    monkeypatch.setattr(broker_statistics, "BIN_BYTES", bin_bytes)
    monkeypatch.setattr(broker_statistics, "MOST_BLOCKS", most_blocks)
    monkeypatch.setattr(broker_statistics, "BLOCK_BYTES", 24 * 9 * 100)
    scenarios = kfast.random_brokers(state, 2, 700, 4).slice(1, 651)
    rows = kfast.capacity_brokers(plan, scenarios).to_pylist()
    offsets, down = scenarios.down(1, 651)
    amounts = plan.broker_loads(offsets, down)
    for broker, row in enumerate(rows):
        up = [n for n in range(650) if broker not in down[offsets[n] : offsets[n + 1]]]
        assert row["scenarios_up"] == len(up) < 650
        for at, name in enumerate(("bytes_in", "bytes_out", "cpu_microcores")):
            values = amounts[up, broker, at].tolist()
            assert row[f"{name}_mean"] == sum(values) / len(up)
            assert row[f"{name}_most"] == max(values)
            assert row[f"{name}_most_scenario"] == 1 + up[values.index(max(values))]
            for percent in (95, 99):
                assert row[f"{name}_p{percent}"] == nearest_rank(values, percent)


def test_a_broker_that_is_never_up_has_no_statistics():
    state = kfast.generate(brokers=4, partitions=40, topics=1, racks=2, seed=5)
    capacity = random_capacities(Random(1), [0, 1, 2, 3])
    plan = prepare(
        kfast.prepare_sweep(state), random_loads(Random(2), 40), capacity, CpuWeights(), None
    )[1]
    alone = kfast.every_broker(state).slice(2, 3)
    row = kfast.capacity_brokers(plan, alone).to_pylist()[1]
    assert {name for name, value in row.items() if value is not None} == {
        "broker_id", "scenarios_up"}
    assert (row["broker_id"], row["scenarios_up"]) == (1, 0)
