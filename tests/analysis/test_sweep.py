"""Sweeps against the controller, scenario by scenario."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import kfast
from kfast import Controller
from kfast.controllers.zk.profiles import PROFILES
from kfast.errors import ArgumentError
from kfast.kernels import sweep as kernel
from kfast.sweeps import SWEEP_COUNTS, SWEEP_METHODS
from tests.analysis.test_impact import random_cluster
from tests.support.long_tests import share_of
from tests.support.twin_sweep import expected_row

pytestmark = pytest.mark.kernels

VECTORS = [name for name, words in (("words", 1), ("avx2", 4), ("avx512", 8))
           if words <= kernel.widest()]
"""`widest` says which vectors this machine has."""


def starts(state, profile="zk-3.9"):
    """Whether a controller can start: now and then a reassignment makes Kafka's own fail."""
    controller = Controller(state.copy(), profile=profile)
    controller.on_controller_failover()
    return controller.active


def compare(seed, profile="zk-3.9"):
    """Six scenarios of one random cluster; whether its controller could start at all."""
    generator = Random(seed)
    state = random_cluster(seed, generator.choice(["narrow", "wide"]), profile)[1]
    p = generator.choice([0.1, 0.3, 0.6, 0.9])
    scenarios = kfast.independent_brokers(state, p, 6, seed)
    if not starts(state, profile):
        with pytest.raises(ArgumentError, match="the controller cannot start on this state"):
            kfast.prepare_sweep(state, profile=profile)
        return False
    plan = kfast.prepare_sweep(state, profile=profile)
    table = kfast.sweep(plan, scenarios, vectors=generator.choice(VECTORS)).to_pylist()
    for number, row in enumerate(table):
        down = scenarios.brokers(number)
        expected = {"scenario": number, **expected_row(state, down, profile)}
        assert row == expected, f"seed {seed}, {profile}, brokers {down}"
    return True


def test_a_sweep_is_the_controller_run_scenario_by_scenario():
    """Clusters with dead brokers, queued topics, reassignments, newer records, odd ISRs.

    All kernels together: `find_shapes`, `write_sequences`, `count_dense`; `count_takeovers`,
    `list_takeovers`, `count_leaders`.
    """
    assert sum(compare(seed) for seed in range(120)) > 90


@pytest.mark.parametrize("profile", PROFILES)
def test_a_sweep_is_the_controller_of_each_version(profile):
    """Versions differ in what starts and shuts down do, not in who leads after a failure."""
    assert sum(compare(seed, profile) for seed in range(1000, 1040)) > 30


def even_cluster(factor, min_isr, down=(), partitions=75):
    """All in sync, first replicas lead: the shape that has code of its own."""
    state = kfast.generate(
        brokers=9, partitions=partitions, replication_factor=factor, racks=3, seed=factor
    )
    state.default_min_insync_replicas = min_isr
    state.broker_status[list(down)] = 0
    return state


@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("down", [(), (2, 5)], ids=["all up", "two down"])
@pytest.mark.parametrize(("factor", "min_isr"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (3, 3),
                                                 (4, 2), (4, 3), (5, 2), (5, 9)])
def test_common_shapes_are_counted_as_all_others(factor, min_isr, down, vectors):
    """Eight and more partitions of one shape; a few partitions are left over."""
    state = even_cluster(factor, min_isr, down)
    scenarios = kfast.independent_brokers(state, 0.4, 5, factor)
    table = kfast.sweep(state, scenarios, vectors=vectors)
    for number, row in enumerate(table.to_pylist()):
        assert row == {"scenario": number, **expected_row(state, scenarios.brokers(number))}
    three = ["offline", "under_min_isr", "leaders_moved"]
    few = kfast.sweep(state, scenarios, counts=three, vectors=vectors)
    assert few == table.select(["scenario", "brokers_down", *three])
    assert kfast.sweep(state, scenarios, counts=(), vectors=vectors).num_columns == 2


def test_the_result_is_the_same_in_every_way():
    """Threads, vectors, methods, slices, layouts, a plan made before, batches, any counts alone."""
    state = random_cluster(1, "narrow")[1]
    scenarios = kfast.random_brokers(state, 3, 5000, seed=9)
    expected = kfast.sweep(state, scenarios, vectors="words")
    assert expected["scenario"].to_pylist() == list(range(5001))
    done = []
    for options in (
        *({"vectors": name} for name in VECTORS), {"threads": 2}, {"threads": 5},
        *({"method": name} for name in SWEEP_METHODS),
        {"progress": lambda *seen: done.append(seen)},
    ):
        assert kfast.sweep(state, scenarios, **options) == expected, options
    assert done[-1] == (5001, 5001)
    assert kfast.sweep(random_cluster(1, "wide")[1], scenarios) == expected
    plan = kfast.prepare_sweep(state)
    pieces = [scenarios.slice(a, b) for a, b in ((0, 1), (1, 700), (700, 701), (701, 5001))]
    for method in SWEEP_METHODS:
        tables = [kfast.sweep(plan, piece, method=method) for piece in pieces]
        assert pa.concat_tables(tables) == expected
    assert kfast.sweep_reader(plan, scenarios, threads=2).read_all() == expected
    assert kfast.sweep(plan, scenarios.slice(7, 7)).num_rows == 0
    for name in SWEEP_COUNTS:
        alone = kfast.sweep(plan, scenarios, counts=[name])
        assert alone.column(name) == expected.column(name)


def test_the_reader_keeps_little():
    """Half a million scenarios: batches come one by one, never all."""
    state = even_cluster(3, 2)
    reader = kfast.sweep_reader(state, kfast.random_brokers(state, 2, 500_000, 1), threads=2)
    before = pa.total_allocated_bytes()
    n = 0
    for batch in reader:
        n += batch.num_rows
        assert pa.total_allocated_bytes() - before < 5_000_000
    assert n == 500_001


def test_nothing_changes_the_cluster():
    """Not the sweep, not the plan."""
    state = random_cluster(3)[1]
    before = state.digest()
    kfast.sweep(state, kfast.every_broker(state))
    assert state.digest() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counts": ["ofline"]}, "counts is .*; allowed are some of offline"),
        ({"counts": "offline"}, "counts is 'offline'"),
        ({"method": "quick"}, "method is 'quick'"),
        ({"threads": 0}, "threads is 0"),
        ({"vectors": "mmx"}, "vectors is 'mmx'; this machine has words"),
    ],
)
def test_a_bad_argument_is_refused_before_any_work(options, message):
    state = even_cluster(3, 2)
    with pytest.raises(ArgumentError, match=message):
        kfast.sweep_reader(state, kfast.every_broker(state), **options)


def test_scenarios_of_another_cluster_are_refused():
    other = kfast.generate(brokers=5, partitions=10, replication_factor=2, seed=1)
    with pytest.raises(ArgumentError, match="of a cluster with 5 brokers, this one has 9"):
        kfast.sweep(even_cluster(3, 2), kfast.every_broker(other))


def test_the_environment_chooses_the_vectors(monkeypatch):
    state = even_cluster(3, 2)
    monkeypatch.setenv("KFAST_VECTORS", "words")
    kfast.sweep(state, kfast.every_broker(state))
    monkeypatch.setenv("KFAST_VECTORS", "wide")
    with pytest.raises(ArgumentError, match="vectors is 'wide'"):
        kfast.sweep(state, kfast.every_broker(state))


def test_empty_clusters_have_sweeps_too():
    """No partitions; one broker."""
    brokers = pa.table({"broker_id": pa.array([4], pa.int32())})
    state = kfast.ClusterState.from_tables(brokers)
    rows = kfast.sweep(state, kfast.every_broker(state)).to_pylist()
    assert [row["brokers_down"] for row in rows] == [0, 1]
    assert [row["fullest_broker"] for row in rows] == [-1, -1]


@pytest.mark.slow
@pytest.mark.parametrize("start", share_of(range(0, 11_250, 450)))
def test_a_sweep_is_the_controller_on_thousands_of_clusters(start):
    """Of all seeds, 10 000 clusters and more whose controller starts; 60 000 scenarios."""
    assert sum(compare(seed) for seed in range(start, start + 450)) > 400


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_a_sweep_is_the_controller_of_each_version_on_hundreds_of_clusters(profile):
    seeds = share_of(range(20_000, 21_100))
    assert sum(compare(seed, profile) for seed in seeds) > len(seeds) * 9 // 11
