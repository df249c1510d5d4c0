"""How many brokers a load needs: bounds and placements beside plain Python."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity import CpuWeights
from kfast.capacity.failures.limits import FAILED_LIMITS, NORMAL_LIMITS
from kfast.capacity.planning.cluster_sizes import (
    Allowed,
    Demand,
    Failures,
    _assignments,
    _bounds,
    mean_use,
)
from kfast.errors import ArgumentError, InputError
from tests.capacity.test_cost import example
from tests.capacity.test_placement_search import capacity_of, load_of
from tests.support.long_tests import share_of
from tests.support.reference_sizes import fewest, fewest_brokers, mean_of_all, over_limits

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
    assert size.at_least <= size.suffices <= size.at_least + 3
    rack = dict(zip(size.placement.broker_id.tolist(), size.placement.rack.to_pylist(),
                    strict=True))
    assert sorted(rack.values()) == sorted(["a", "b", "c"] * (size.suffices // 3))
    rows = state.lookup.rows_of_table(size.assignments)
    assert sorted(rows.tolist()) == [*range(60)]
    partitions = [
        (replicas, int(load.bytes_in[row]), int(load.bytes_out[row]), int(load.disk_bytes[row]))
        for row, replicas in zip(rows, size.assignments["replicas"].to_pylist(), strict=True)
    ]
    assert all(len({rack[b] for b in replicas}) == 3 for replicas, *_ in partitions)
    failures = [*combinations(rack, 1)]
    failures += [tuple(b for b in rack if rack[b] == down) for down in "abc"]
    held = {"nw_in": 10**6, "nw_out": 10**6, "disk": 2 * 10**10}
    assert over_limits(partitions, rack, failures, held, NORMAL_LIMITS, FAILED_LIMITS) == []


@pytest.mark.parametrize("seed", range(6))
def test_the_plan_makes_the_placement_of_the_present_cluster(seed):
    """Once the new brokers are there; what it moves is added up in plain Python."""
    state, load, capacity = inputs(seed)
    factor = [20, 1, 10, 1, 12, 2][seed]
    load = replace(load, bytes_in=load.bytes_in * factor // 10,
                   bytes_out=load.bytes_out * factor // 10)
    size = kfast.capacity_size(state, load, capacity, every=1, each_rack=True)
    change = {row["broker_id"]: row["change"] for row in size.brokers.to_pylist()}
    present = state.broker_id.tolist()
    assert [b for b in change if change[b] != "added"] == present
    assert [b for b in change if change[b] != "removed"] == size.placement.broker_id.tolist()
    assert all(b > max(present) for b in change if change[b] == "added")
    brokers = pa.table({
        "broker_id": size.brokers["broker_id"], "rack": size.brokers["rack"].cast(pa.string())})
    extended = kfast.ClusterState.from_tables(brokers, None, state.to_tables().partitions,
                                              state.to_tables().cluster)
    after = kfast.execute_plan(extended, size.plan).state if size.plan.num_rows else extended
    assert _assignments(after) == size.assignments
    moved = sizes = 0
    for row, before, then in zip(
        state.lookup.rows_of_table(size.assignments), _assignments(state)["replicas"].to_pylist(),
        size.assignments["replicas"].to_pylist(), strict=True,
    ):
        moved += len({*then} - {*before})
        sizes += len({*then} - {*before}) * int(load.disk_bytes[row])
    assert (size.replicas_moved, size.bytes_moved) == (moved, sizes)


def test_replicas_that_share_a_rack_are_spread():
    """All replicas are in two of three racks: the placement has them in three."""
    state, load, capacity = inputs(4)
    racks = state.rack.to_pylist()
    inside = [b for b, rack in zip(state.broker_id.tolist(), racks, strict=True) if rack != "c"]
    table = _assignments(state)
    confined = pa.array([[inside[at % 4], inside[(at + 1) % 4], inside[(at + 2) % 4]]
                         for at in range(60)], pa.list_(pa.int32()))
    brokers = pa.table({"broker_id": state.broker_id, "rack": state.rack})
    state = kfast.ClusterState.from_tables(
        brokers, None,
        table.set_column(2, "replicas", confined).append_column("isr", confined)
        .append_column("leader", pa.array([row[0].as_py() for row in confined])), None)
    size = kfast.capacity_size(state, replace(load, topic=state.topic), capacity, each_rack=True)
    rack = dict(zip(size.placement.broker_id.tolist(), size.placement.rack.to_pylist(),
                    strict=True))
    assert size.suffices == size.at_least
    assert all(len({rack[b] for b in replicas}) == 3
               for replicas in size.assignments["replicas"].to_pylist())


def check_all_placements(seed):
    """The bound is no more than the fewest, which is no more than what suffices."""
    generator = Random(seed)
    racks = generator.choice([0, 0, 2, 3])
    k, each_rack = generator.choice([0, 1, 1, 2]), racks > 0 and generator.random() < 0.7
    n_brokers = max(racks, 3)
    partitions = [
        (generator.choice([1, 2, 2, 3]), generator.randint(0, 100), generator.randint(0, 200),
         generator.randint(0, 100)) for _ in range(generator.randint(1, 4 if k < 2 else 3))
    ]
    held = {name: generator.randint(120, 700) for name in ("nw_in", "nw_out", "disk")}
    replicas = [generator.sample(range(1, n_brokers + 1), n) for n, *_ in partitions]
    lists = pa.array(replicas, pa.list_(pa.int32()))
    state = kfast.ClusterState.from_tables(
        pa.table({
            "broker_id": pa.array(range(1, n_brokers + 1), pa.int32()),
            "rack": pa.array([f"r{b % racks}" if racks else None for b in range(n_brokers)],
                             pa.string()),
        }), None,
        pa.table({
            "topic": pa.array(["t"] * len(partitions)).dictionary_encode(),
            "partition": pa.array(range(len(partitions)), pa.int32()), "replicas": lists,
            "isr": lists, "leader": pa.array([row[0] for row in replicas], pa.int32()),
        }), None,
    )
    load = load_of(state, *zip(*(amounts for _, *amounts in partitions), strict=True))
    capacity = capacity_of(*([held[name]] * n_brokers for name in ("nw_in", "nw_out", "disk")))
    size = kfast.capacity_size(state, load, capacity, every=k, each_rack=each_rack)
    limits = {False: NORMAL_LIMITS, True: FAILED_LIMITS}
    fewest = fewest_brokers(partitions, held, limits, k, racks, each_rack, 5)
    if size.at_least is None:
        assert fewest is None
        return None
    assert size.at_least <= (fewest or size.suffices or 6) <= (size.suffices or 6), seed
    # Which placements outlast any two brokers a search does not see, the sweep alone.
    assert size.suffices is not None or k > 1, seed
    return fewest, size.suffices


def test_no_placement_on_fewer_brokers_than_the_bound_keeps_the_limits():
    """All placements on up to five brokers are tried, of one to four partitions."""
    results = [check_all_placements(seed) for seed in range(30)]
    known = [(fewest, suffices) for fewest, suffices in filter(None, results) if fewest]
    assert len(known) > 15
    assert sum(fewest == suffices for fewest, suffices in known) > 0.9 * len(known)


@pytest.mark.slow
@pytest.mark.parametrize("first", share_of(range(1000, 4000, 100)))
def test_no_placement_of_thousands_of_clusters_needs_fewer_than_the_bound(first):
    for seed in range(first, first + 100):
        check_all_placements(seed)


def test_bounds_without_a_failure_are_what_cruise_control_adds():
    """Used by all less what it allows, over what it allows of a typical broker, rounded up."""
    state, load, capacity = inputs(5)
    for factor in (1, 3, 10):
        heavy = replace(load, bytes_in=load.bytes_in * factor, bytes_out=load.bytes_out * factor)
        size = kfast.capacity_size(state, heavy, replace(capacity, nw_in=capacity.nw_in * 100,
                                                         nw_out=capacity.nw_out * 100))
        used = {"nw_in": 3 * int(heavy.bytes_in.sum()), "disk": 3 * int(heavy.disk_bytes.sum()),
                "nw_out": 2 * int(heavy.bytes_in.sum()) + int(heavy.bytes_out.sum())}
        held = {"nw_in": 10**8, "nw_out": 10**8, "disk": 2 * 10**10}
        bounds = {row["resource"]: row["brokers"] for row in size.bounds.to_pylist()}
        for name, units in used.items():
            allowed = Fraction(held[name] * NORMAL_LIMITS[name], 10_000)
            added = -((6 * allowed - units) // allowed)
            assert bounds[name] == max(6 + added, 3)


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


def test_a_class_is_measured_by_its_own_brokers():
    """The other brokers use ten times as much for as much work."""
    state, load, capacity = inputs(3, nw=10**9)
    cores = replace(capacity, cpu_microcores=np.full(6, 10**6),
                    price_class=("large", "large", "large", "old", "old", "old"))
    load = replace(load, cpu_microcores=np.array([10**5] * 3 + [10**6] * 3))
    needed = {}
    for name in ("large", "old"):
        size = kfast.capacity_size(state, load, cores, every=1, broker_class=name)
        needed[name] = {
            (row["resource"], row["failure"]): row["brokers"] for row in size.bounds.to_pylist()
        }["cpu", "normal"]
    assert needed["large"] == 3
    assert needed["old"] >= 8
    alone = kfast.capacity_size(
        state, replace(load, cpu_microcores=np.array([-1] * 3 + [10**6] * 3)), cores,
        broker_class="large",
    )
    assert "cpu" not in alone.bounds["resource"].to_pylist()


def test_new_brokers_keep_the_limit_of_their_processors():
    """Processors bind, and nothing is measured of brokers that are not there yet."""
    state, load, capacity = inputs(3, nw=10**9)
    cores = replace(capacity, cpu_microcores=np.full(6, 10**6))
    load = replace(load, cpu_microcores=np.full(6, 1_300_000))
    size = kfast.capacity_size(state, load, cores, every=1, each_rack=True)
    assert size.at_least > 9
    assert size.suffices == size.at_least
    assert all(row["change"] != "removed" for row in size.brokers.to_pylist())


def test_the_order_of_rows_changes_nothing():
    state, load, capacity = inputs(1)
    order = np.random.default_rng(1).permutation(60)
    tables = state.to_tables()
    other = kfast.ClusterState.from_tables(
        tables.brokers, None, tables.partitions.take(order), tables.cluster)
    rows = state.lookup.rows_of_table(_assignments(other).select(["topic", "partition"]))
    assert sorted(rows.tolist()) == [*range(60)]
    own = state.lookup.rows(
        state.lookup.topics(other.topic.to_pylist())[other.topic_row], other.partition)
    moved = replace(load, **{name: getattr(load, name)[own] for name in (
        "bytes_in", "bytes_out", "milli_msgs_in", "disk_bytes")}, topic=other.topic)
    first, second = (kfast.capacity_size(*each, capacity, every=1, each_rack=True)
                     for each in ((state, load), (other, moved)))
    assert first.plan == second.plan
    assert first.plan.num_rows > 0
    assert kfast.capacity_size(state, load, capacity, every=1, each_rack=True).plan == first.plan


def test_fewer_brokers_keep_what_they_hold():
    """Where half of the brokers suffice, the others give up their replicas."""
    state = kfast.generate(brokers=12, partitions=120, topics=6, racks=3, seed=1)
    _, load, _ = inputs(2)
    load = replace(load, topic=state.topic, **{
        name: np.resize(getattr(load, name), 120) // 2
        for name in ("bytes_in", "bytes_out", "milli_msgs_in", "disk_bytes")})
    text = b"broker_id,nw_in,nw_out,disk_bytes\n-1,1000000,1000000,20000000000\n"
    capacity = kfast.broker_capacity(state, kfast.read_capacity(("c.csv", text)))
    size = kfast.capacity_size(state, load, capacity, every=1, each_rack=True)
    assert (size.suffices, size.status) == (6, "OVER_PROVISIONED")
    change = {row["broker_id"]: row["change"] for row in size.brokers.to_pylist()}
    assert [b for b in change if change[b] == "stays"] == state.broker_id.tolist()[:6]
    removed = {b for b in change if change[b] == "removed"}
    leaving = sum(b in removed for row in _assignments(state)["replicas"].to_pylist() for b in row)
    assert leaving <= size.replicas_moved < 1.3 * leaving


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
    assert size.plan.num_rows == size.assignments.num_rows == size.brokers.num_rows == 0
    table = kfast.read_capacity(("c.csv", b"broker_id,cores,nw_in\n-1,0.01,9000000\n"))
    size = kfast.capacity_size(
        state, load, kfast.broker_capacity(state, table), cpu_model="write-equivalent")
    # 4 * 200 kB/s that are written and 200 kB/s that are sent, 80 of them a micro-core.
    assert size.too_large.to_pylist() == [{
        "topic": "log", "partition": 0, "resource": "cpu", "amount": 12_500, "allowed": 5000,
        "parts": 3,
    }]


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
    with pytest.raises(ArgumentError, match="more than 5000 brokers"):
        kfast.capacity_size(many, replace(load, **{
            name: np.zeros(6000, np.int64)
            for name in ("bytes_in", "bytes_out", "milli_msgs_in", "disk_bytes")
        }, topic=many.topic), small)
