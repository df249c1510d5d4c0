"""A better placement against all placements there are, and against what a sweep says of it."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity import BrokerCapacity, PartitionLoad
from kfast.capacity.placement_problem import (
    LAYOUT,
    UNIT,
    Freedom,
    PlacementProblem,
    SearchArrays,
)
from kfast.capacity.placement_search import measure_placement
from kfast.kernels.placement_search import Placement, layout
from kfast.state.kraft_releases import RELEASES
from tests.analysis.test_impact import random_cluster
from tests.analysis.test_sweep import starts
from tests.analysis.test_sweep_kraft import state_of as kraft_state
from tests.support.kraft_clusters import RandomCluster
from tests.support.reference_placements import (
    SmallCluster,
    allowed,
    best_objective,
    objective,
    random_small_cluster,
)

pytestmark = pytest.mark.kernels

PROTECTIONS = (("none",), ("every-broker",), ("every-rack",), ("every-broker", "every-rack"))


def state_of(cluster):
    """The cluster as kfast has it: topic t, broker ids from 1."""
    n = len(cluster.racks)
    return kfast.ClusterState.from_assignment(
        broker_id=np.arange(1, n + 1, dtype=np.int32),
        rack=None if None in cluster.racks else pa.array(cluster.racks),
        topic=pa.array(["t"]), topic_row=np.zeros(len(cluster.loads), np.int32),
        partition=np.arange(len(cluster.loads), dtype=np.int32),
        replicas=np.array(cluster.replicas, np.uint16),
    )


def load_of(state, bytes_in, bytes_out, disk_bytes, cpu_microcores=None):
    """A load by partition."""
    return PartitionLoad(
        bytes_in=np.array(bytes_in, np.int64), bytes_out=np.array(bytes_out, np.int64),
        disk_bytes=np.array(disk_bytes, np.int64), cpu_microcores=cpu_microcores,
        milli_msgs_in=np.zeros(len(bytes_in), np.int64), replica_bytes=None, replica_log_dir=None,
        log_dirs=(), window=None, topic=state.topic, share_model=np.zeros((4, 0), np.int8),
        source_of=np.zeros((4, 0), np.int16), sources=(), topics_without_load=(), assumptions=(),
        warnings=(),
    )


def capacity_of(nw_in, nw_out, disk, cpu=None, replicas_max=None):
    """Capacities by broker."""
    n = len(nw_in)
    none = np.full(n, -1)
    return BrokerCapacity(
        nw_in=np.array(nw_in, np.int64), nw_out=np.array(nw_out, np.int64),
        disk_bytes=np.array(disk, np.int64),
        cpu_microcores=none if cpu is None else np.array(cpu, np.int64), disk_write=none,
        disk_read=none,
        replicas_max=none if replicas_max is None else np.array(replicas_max, np.int64),
        log_dirs=({},) * n, price_class=(None,) * n, source="test",
    )


def arguments_of(cluster):
    """State, load and capacity of a small cluster."""
    state = state_of(cluster)
    return (state, load_of(state, *zip(*cluster.loads, strict=True)),
            capacity_of(*(cluster.capacities[name] for name in ("nw_in", "nw_out", "disk"))))


def placement_after(cluster, better):
    """Brokers of each partition with the plan, from 0."""
    placement = list(cluster.replicas)
    for row in better.plan.to_pylist():
        placement[row["partition"]] = tuple(broker - 1 for broker in row["replicas"])
    return placement


def check_best(seed, n_brokers, n_partitions):
    """The search finds a placement as good as the best of all, and measures it rightly."""
    generator = Random(seed)
    cluster = random_small_cluster(generator, n_brokers, n_partitions)
    protect = generator.choice([
        each for each in PROTECTIONS if "every-rack" not in each or None not in cluster.racks
    ])
    leadership_only = generator.random() < 0.25
    better = kfast.improve_placement(
        *arguments_of(cluster), protect=protect, leadership_only=leadership_only, gap=0
    )
    placement = placement_after(cluster, better)
    for now, then in zip(placement, cluster.replicas, strict=True):
        assert now in allowed(cluster, then, leadership_only)
    assert (better.after.over_limits, better.after.share) == objective(cluster, placement, protect)
    assert (better.before.over_limits, better.before.share) == objective(
        cluster, cluster.replicas, protect
    )
    best = best_objective(cluster, protect, leadership_only)
    assert (better.after.over_limits, better.after.share) == best, (seed, protect)
    assert better.bound <= better.after.share


@pytest.mark.parametrize("seed", range(60))
def test_it_finds_the_best_of_all_placements(seed):
    """The same values of what is compared first."""
    check_best(seed, *[(3, 5), (4, 4), (5, 3), (6, 3), (3, 4), (4, 5)][seed % 6])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_it_finds_the_best_of_all_placements_of_up_to_eight_partitions(seed):
    check_best(seed, *[(3, 8), (4, 6), (5, 5), (6, 4)][seed % 4])


# --- the kernel's sums ---------------------------------------------------------------------------


def random_problem(seed, n_brokers=7, n_partitions=40):
    """A problem with three racks, and what measures a placement of it by a sweep."""
    generator, protect = Random(seed), PROTECTIONS[3]
    replicas = [tuple(generator.sample(range(n_brokers), 3)) for _ in range(n_partitions)]
    loads = [tuple(generator.randint(0, 10**9) for _ in range(3)) for _ in range(n_partitions)]
    racks = [f"r{broker % 3}" for broker in range(n_brokers)]
    state = state_of(SmallCluster(racks, {}, loads, replicas))
    freedom = Freedom.of(state, False, [7], [], None)
    load = load_of(state, *zip(*loads, strict=True))
    capacity = capacity_of(
        *([generator.randint(10**10, 4 * 10**10) for _ in range(n_brokers)] for _ in range(3)),
        cpu=[generator.randint(10**8, 10**9) for _ in range(n_brokers)],
    )

    def prepare(state):
        return kfast.prepare_capacity(state, load, capacity, cpu_model="write-equivalent")

    def measure(replicas):
        state = state_of(SmallCluster(racks, {}, loads, replicas))
        return measure_placement(state, prepare(state), freedom, protect)

    problem = PlacementProblem.of(state, load, prepare(state), freedom, protect)
    problem.set_unit(Fraction(1, 3))
    return problem, measure


@pytest.mark.parametrize("seed", range(20))
def test_sums_that_are_changed_are_those_that_are_added_up(seed):
    """After brokers gave up replicas, a search, and replicas taken back: as from a new start."""
    problem, measure = random_problem(seed)
    arrays = SearchArrays.of(problem, problem.original)
    search = Placement(problem, arrays, seed)
    kinds = layout()["reorder"] | layout()["move"] | layout()["exchange"]
    rows = np.arange(40, dtype=np.int32)
    stay = search.relieve(rows, 0, 10**15)
    held = arrays.n_hosted.copy()
    assert stay == held[6] == 0
    search.search(UNIT // 2, 0, 0, 500, 4, kinds, 10**15)
    search.search(0, UNIT // 50, 100, 500, 1, kinds, 10**15)
    Random(seed).shuffle(order := rows.tolist())
    search.restore(np.array(order[:10], np.int32), UNIT)
    fresh_arrays = SearchArrays.of(problem, arrays.replicas)
    fresh = Placement(problem, fresh_arrays, 0)
    assert fresh.bytes_moved == search.bytes_moved
    for name in ("replicas", "base", "delta", "top", "share", "violation", "n_hosted"):
        assert np.array_equal(getattr(arrays, name), getattr(fresh_arrays, name)), name
    sweep = measure(arrays.replicas.tolist())
    assert abs(int(arrays.share.max()) - int(sweep.share * 3 * UNIT)) <= 1
    assert arrays.violation.sum() == sweep.over_limits
    for row, slot in np.ndindex(*arrays.replicas.shape):
        broker = arrays.replicas[row, slot]
        assert arrays.hosted[broker, arrays.place[row, slot]] == row


def test_a_search_keeps_to_the_bytes_it_may_move():
    problem, _ = random_problem(3)
    arrays = SearchArrays.of(problem, problem.original)
    search = Placement(problem, arrays, 5)
    most = 3 * int(problem.load[:, 2].max())
    search.search(0, UNIT, 10_000, 2000, 1, LAYOUT["move"], most)
    assert 0 < search.bytes_moved <= most


# --- any cluster ---------------------------------------------------------------------------------


def random_arguments(generator, state):
    """Load and capacity of a cluster, of which some brokers lack some."""
    n, n_partitions = state.n_brokers, state.n_partitions
    load = load_of(
        state, *([generator.choice([0, generator.randint(0, 10**6)]) for _ in range(n_partitions)]
                 for _ in range(3)),
        generator.choice([None, np.array([generator.randint(-1, 10**6) for _ in range(n)])]),
    )
    return load, capacity_of(
        *([generator.choice([-1, 10**6, generator.randint(10**5, 10**7)]) for _ in range(n)]
          for _ in range(3)),
        cpu=[generator.choice([-1, 10**6]) for _ in range(n)],
        replicas_max=[generator.choice([-1, -1, -1, 3]) for _ in range(n)],
    )


def check_any(state, generator):
    """Never worse than before, and never better than can be."""
    load, capacity = random_arguments(generator, state)
    racks = any(rack is not None and up for rack, up in
                zip(state.rack.to_pylist(), state.up.tolist(), strict=True))
    protect = generator.choice(PROTECTIONS if racks else PROTECTIONS[:2])
    digest = state.digest()
    better = kfast.improve_placement(
        state, load, capacity, protect=protect, gap=generator.choice([0, 0.1]),
        cpu_model=generator.choice(["measured", "write-equivalent"]),
    )
    assert state.digest() == digest
    assert better.after <= better.before
    assert (better.plan.num_rows == 0) == (better.after == better.before)
    assert better.bound <= better.after.share or better.after.replicas_misplaced
    return better


@pytest.mark.parametrize("seed", range(40))
def test_a_zookeeper_cluster_never_becomes_worse(seed):
    _, state = random_cluster(seed)
    if starts(state):
        check_any(state, Random(seed))


@pytest.mark.parametrize("release", sorted(RELEASES)[-2:])
@pytest.mark.parametrize("seed", range(20))
def test_a_kraft_cluster_never_becomes_worse(release, seed):
    check_any(kraft_state(RandomCluster(seed, release)), Random(seed))
