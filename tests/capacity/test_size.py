"""How many brokers a load needs: bounds and placements beside plain Python."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from random import Random

import numpy as np
import pytest

import kfast
from kfast.capacity import CpuWeights
from kfast.capacity.cluster_sizes import Allowed, Demand, Failures, _bounds, mean_use
from kfast.capacity.limits import FAILED_LIMITS, NORMAL_LIMITS
from kfast.errors import ArgumentError, InputError
from tests.capacity.test_cost import example
from tests.support.reference_sizes import fewest, mean_of_all, over_limits

WEIGHTS = CpuWeights()


def random_partitions(generator, n_brokers, factors=(1, 2, 3)):
    """Partitions on any brokers, as the twin takes them."""
    return [
        (generator.sample(range(n_brokers), min(generator.choice(factors), n_brokers)),
         generator.randint(0, 1000), generator.randint(0, 3000), generator.randint(0, 10**6))
        for _ in range(generator.randint(1, 8))
    ]


def demands_of(partitions):
    groups = {}
    for replicas, *amounts in partitions:
        groups.setdefault(len(replicas), []).append(amounts)
    return [Demand(n, len(rows), *(sum(column) for column in zip(*rows, strict=True)))
            for n, rows in sorted(groups.items())]


def allowed_of(normal, failed, replicas_max=None, per_work=Fraction(1, 7)):
    return Allowed(normal, failed, replicas_max, per_work, WEIGHTS)


@pytest.mark.parametrize("seed", range(60))
def test_the_mean_is_that_over_all_failures_of_any_placement(seed):
    generator = Random(seed)
    n_brokers = generator.randint(3, 7)
    partitions = random_partitions(generator, n_brokers)
    allowed = allowed_of({}, {})
    for k in range(n_brokers):
        mean = mean_of_all(partitions, n_brokers, k)
        mean["cpu"] = allowed.cpu_per_work * (
            WEIGHTS.leader_in * mean.pop("leader_in") + WEIGHTS.leader_out * mean["nw_out"]
            + WEIGHTS.follower_in * mean.pop("follower_in")
        )
        assert mean_use(demands_of(partitions), allowed, n_brokers, k) == mean


@pytest.mark.parametrize("seed", range(25))
def test_bounds_are_the_smallest_numbers_that_keep_the_mean(seed):
    generator = Random(seed)
    partitions = random_partitions(generator, 3)
    held = {name: generator.randint(int(max(total, 8)) // 8, int(max(total, 8)))
            for name, total in mean_of_all(partitions, 3, 0).items()
            if name in ("nw_in", "nw_out", "disk")}
    points = {True: FAILED_LIMITS, False: NORMAL_LIMITS}
    normal, failed = ({name: most * points[kind][name] for name, most in held.items()}
                      for kind in (False, True))
    k = generator.choice([1, 2])
    start = max(*(len(replicas) for replicas, *_ in partitions), k + 1, 0)
    packed = [([*range(len(replicas))], *amounts) for replicas, *amounts in partitions]
    rows, at_least = _bounds(
        demands_of(partitions), allowed_of(normal, failed), Failures(k, False, 0)
    )
    for row in rows:
        if row["resource"] in held:
            fail = k if row["failure"] == "brokers" else 0
            assert row["brokers"] == fewest(
                packed, start, fail, held[row["resource"]],
                points[bool(fail)][row["resource"]], row["resource"],
            )
    assert at_least >= max(row["brokers"] for row in rows)


def test_a_published_example_is_rounded_up():
    """200 MB/s, three replicas, seven days, 2 TB disks, 70 %: 259.2, printed as 259."""
    demand = Demand(3, 1000, 200_000_000, 0, 200_000_000 * 604_800)
    most = {"disk": 2 * 10**12 * 7000}
    rows, at_least = _bounds([demand], allowed_of(most, most), Failures(0, False, 0))
    assert at_least == 260
    assert {row["resource"]: row["brokers"] for row in rows} == {
        "replication_factor": 3, "disk": 260}
    assert _bounds([demand], allowed_of(most, most), Failures(0, False, 3))[1] == 261
    with_most = _bounds([demand], allowed_of({}, {}, replicas_max=7), Failures(0, False, 0))
    assert with_most[1] == -(-3000 // 7)


def test_means_of_racks_are_those_of_all_brokers():
    """Three racks, losing one: half as much again; 0.8 * 2 / 3 of the capacity at most."""
    demand = Demand(1, 300, 3000, 6000, 0)
    most = {"nw_out": 100 * 8000}
    _, at_least = _bounds([demand], allowed_of({}, most), Failures(0, True, 3))
    # A third of the partitions is lost with its rack: what is left is 6000 * 2/3 on 2/3.
    assert at_least == 75
    demand = Demand(3, 300, 0, 6000, 0)
    _, at_least = _bounds([demand], allowed_of({}, most), Failures(0, True, 3))
    assert at_least == 114
    assert Fraction(6000, 114 * 2 // 3) <= 80 < Fraction(6000, 111 * 2 // 3)


def inputs(seed, nw=10**6, racks=3):
    """A generated cluster with loads, and capacities of one class."""
    generator = np.random.default_rng(seed)
    state = kfast.generate(brokers=6, partitions=60, topics=6, racks=racks, seed=seed)
    _, load, _ = example()
    n = state.n_partitions
    load = replace(
        load, bytes_in=generator.integers(0, 30_000, n), bytes_out=generator.integers(0, 90_000, n),
        milli_msgs_in=np.zeros(n, np.int64), disk_bytes=generator.integers(0, 10**9, n),
        topic=state.topic,
    )
    text = f"broker_id,nw_in,nw_out,disk_bytes,class\n-1,{nw},{nw},20000000000,large\n"
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("c.csv", text.encode())))
    return state, load, capacity


@pytest.mark.parametrize("seed", range(8))
def test_what_suffices_keeps_all_limits(seed):
    """By a placement over racks whose every failure is added up in plain Python."""
    state, load, capacity = inputs(seed)
    size = kfast.capacity_size(state, load, capacity, every=1, each_rack=True, seed=seed)
    assert size.suffices >= size.at_least
    assert size.suffices % 3 == size.at_least % 3 == 0
    brokers = range(1, size.suffices + 1)
    by_key = {
        (state.topic[int(t)].as_py(), int(p)): row
        for row, (t, p) in enumerate(zip(state.topic_row, state.partition, strict=True))
    }
    partitions = []
    for row in size.plan.to_pylist():
        at = by_key.pop((row["topic"], row["partition"]))
        assert len({broker % 3 for broker in row["replicas"]}) == len(row["replicas"]) == 3
        partitions.append((row["replicas"], *(
            int(column[at]) for column in (load.bytes_in, load.bytes_out, load.disk_bytes))))
    assert not by_key
    failures = [*combinations(brokers, 1)]
    failures += [tuple(b for b in brokers if b % 3 == rack) for rack in range(3)]
    held = {"nw_in": 10**6, "nw_out": 10**6, "disk": 2 * 10**10}
    assert over_limits(partitions, brokers, failures, held, NORMAL_LIMITS, FAILED_LIMITS) == []


def test_fewer_than_the_bound_never_suffice():
    """No placement that Kafka makes keeps the limits on one broker fewer."""
    state, load, capacity = inputs(1, racks=0)
    size = kfast.capacity_size(state, load, capacity, every=1)
    for seed in range(20):
        fewer = kfast.generate(
            brokers=size.at_least - 1, partitions=60, topics=6, seed=seed)
        held = kfast.read_capacity(("c.csv", (
            b"broker_id,nw_in,nw_out,disk_bytes\n-1,1000000,1000000,20000000000\n")))
        plan = kfast.prepare_capacity(fewer, load, kfast.broker_capacity(fewer, held))
        table = kfast.capacity_sweep(plan, kfast.every_broker(fewer))
        assert max(table["over_limit"].to_pylist()) > 0


def test_status_words():
    state, load, capacity = inputs(2)
    heavy = replace(load, bytes_in=load.bytes_in * 2, bytes_out=load.bytes_out * 2)
    size = kfast.capacity_size(state, heavy, capacity, every=1)
    assert size.at_least > 6
    assert size.status == "UNDER_PROVISIONED"
    light = replace(load, bytes_in=load.bytes_in // 20, bytes_out=load.bytes_out // 20,
                    disk_bytes=load.disk_bytes // 20)
    size = kfast.capacity_size(state, light, capacity)
    assert (size.at_least, size.suffices, size.status) == (3, 3, "OVER_PROVISIONED")
    doubtful = replace(light, warnings=("a topic has no load",))
    assert kfast.capacity_size(state, doubtful, capacity).status == "UNDECIDED"
    three = kfast.capacity_size(size.placement, replace(light, topic=size.placement.topic),
                                replace(capacity, **{
                                    name: getattr(capacity, name)[:3] for name in (
                                        "nw_in", "nw_out", "disk_bytes", "cpu_microcores",
                                        "disk_write", "disk_read", "replicas_max")
                                }, log_dirs=capacity.log_dirs[:3],
                                    price_class=capacity.price_class[:3]))
    assert three.status == "RIGHT_SIZED"


def test_processors_are_those_of_the_work_of_the_class():
    """Measured use a unit of work; with ten times the use, processors decide."""
    state, load, capacity = inputs(3, nw=10**9)
    cores = replace(capacity, cpu_microcores=np.full(6, 10**6))
    idle = kfast.capacity_size(state, replace(
        load, cpu_microcores=np.full(6, 10**5)), cores, every=1)
    busy = kfast.capacity_size(state, replace(
        load, cpu_microcores=np.full(6, 10**6)), cores, every=1)
    bounds = {(row["resource"], row["failure"]): row["brokers"]
              for row in busy.bounds.to_pylist()}
    # Six cores are used, 0.7 of one is allowed: 8.57 brokers, three racks.
    assert bounds["cpu", "normal"] == 9
    assert busy.at_least == 9
    assert idle.at_least == 6
    assert busy.suffices >= 9
    equivalent = kfast.capacity_size(state, load, cores, cpu_model="write-equivalent")
    assert "cpu" in equivalent.bounds["resource"].to_pylist()


def test_a_partition_that_is_too_large_is_named():
    """Its leader sends 100 to each of two followers and 300 to consumers: 500 kB/s of 320."""
    state, load, _ = example()
    table = kfast.read_capacity(("c.csv", b"broker_id,nw_out,nw_in\n-1,400000,900000\n"))
    capacity = kfast.broker_capacity(state, table)
    size = kfast.capacity_size(state, load, capacity, every=1)
    assert size.too_large.to_pylist() == [{
        "topic": "pay", "partition": 0, "resource": "nw_out", "amount": 500_000,
        "allowed": 320_000, "parts": 2,
    }]
    assert (size.at_least, size.suffices, size.placement) == (None, None, None)
    assert size.status == "UNDER_PROVISIONED"
    assert size.plan.num_rows == 0


def test_what_is_refused():
    state, load, capacity = example(classes=("x", "y"))
    with pytest.raises(InputError, match="brokers are not alike"):
        kfast.capacity_size(state, load, capacity)
    with pytest.raises(InputError, match="no broker is of class 'z'; classes are x, y"):
        kfast.capacity_size(state, load, capacity, broker_class="z")
    one, load, capacity = inputs(1, racks=0)
    with pytest.raises(ArgumentError, match="each_rack: the cluster has 0 racks"):
        kfast.capacity_size(one, load, capacity, each_rack=True)
    small = replace(capacity, replicas_max=np.full(6, 1))
    many = kfast.generate(brokers=6, partitions=6000, topics=6)
    with pytest.raises(ArgumentError, match="more than 10000 brokers"):
        kfast.capacity_size(many, replace(load, **{
            name: np.zeros(6000, np.int64)
            for name in ("bytes_in", "bytes_out", "milli_msgs_in", "disk_bytes")
        }, topic=many.topic), small)
