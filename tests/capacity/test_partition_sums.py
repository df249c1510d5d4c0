"""Sums over partitions: those of random parts of a cluster add up to those of the whole."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, islice
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kfast
from kfast.capacity import BrokerCapacity, CpuWeights, PartitionLoad
from kfast.capacity.failures.capacity_sweeps import CapacitySettings, make_plan, sum_partitions
from kfast.capacity.failures.partition_sums import add_sums
from kfast.errors import ArgumentError
from tests.analysis.test_impact import random_cluster
from tests.analysis.test_sweep import starts
from tests.analysis.test_sweep_kraft import state_of
from tests.capacity.test_capacity_sweep import random_capacities, random_loads
from tests.support.kraft_clusters import RandomCluster

ANY_NUMBER = 12


def load_of(state, loads):
    """The product's load of a cluster, by the topic and number of each partition."""
    names = state.topic.take(pa.array(state.topic_row)).to_pylist()
    own = np.array(
        [loads.get(key, (0, 0, 0)) for key in zip(names, state.partition.tolist(), strict=True)],
        np.int64,
    ).reshape(-1, 3).T.copy()
    return PartitionLoad(
        bytes_in=own[0], bytes_out=own[1], disk_bytes=own[2], milli_msgs_in=np.zeros_like(own[0]),
        replica_bytes=None, replica_log_dir=None, log_dirs=(), cpu_microcores=None, window=None,
        topic=state.topic, share_model=np.zeros((4, 0), np.int8),
        source_of=np.zeros((4, 0), np.int16), sources=(), topics_without_load=(), assumptions=(),
        warnings=(),
    )


def capacity_of(state, generator):
    """Random capacities of a cluster's brokers."""
    held = random_capacities(generator, state.broker_id.tolist())

    def column(name):
        return np.array([own.get(name) or -1 for own in held.values()], np.int64)

    n = state.n_brokers
    return BrokerCapacity(
        nw_in=column("nw_in"), nw_out=column("nw_out"), disk_bytes=column("disk"),
        cpu_microcores=column("cpu"), disk_write=column("disk_write"),
        disk_read=column("disk_read"), replicas_max=column("replicas_max"), log_dirs=({},) * n,
        price_class=(None,) * n, source="test",
    )


def parts_of(state, n, generator):
    """A cluster's partitions dealt to so many clusters of the same brokers, some without any.

    Those of KRaft have whole topics, for a topic's min ISR follows from its first partition.
    """
    tables = state.to_tables()
    names = tables.partitions["topic"].to_pylist()
    unit = names if state.is_kraft else range(len(names))
    part_of = {one: generator.randrange(n) for one in dict.fromkeys(unit)}
    part = np.array([part_of[one] for one in unit], np.int64)
    for at in range(n):
        own = tables.partitions.filter(pa.array(part == at))
        topics = tables.topics.filter(pc.is_in(tables.topics["topic"], own["topic"]))
        yield kfast.ClusterState.from_tables(tables.brokers, topics, own, tables.cluster)


def compare(seed, state):
    """Rows of the whole cluster and of the sums of its parts, by a tree of additions."""
    generator = Random(seed)
    whole = kfast.prepare_sweep(state)
    started = whole.cluster
    names = started.topic.take(pa.array(started.topic_row)).to_pylist()
    loads = dict(zip(
        zip(names, started.partition.tolist(), strict=True),
        np.stack(random_loads(generator, started.n_partitions), axis=1).tolist(), strict=True,
    ))
    capacity, weights = capacity_of(state, generator), CpuWeights(701, 149, 150)
    options = {"cpu_model": "measured", "weights": weights}
    load = replace(
        load_of(started, loads), cpu_microcores=np.full(state.n_brokers, 4_000_000)
    )
    plan = kfast.prepare_capacity(whole, load, capacity, **options)
    parts = []
    for part in parts_of(started, generator.choice([1, 2, 5]), generator):
        own = kfast.prepare_sweep(part)
        parts.append(sum_partitions(own, load_of(own.cluster, loads), capacity, weights)[1])
    middle = generator.randint(1, len(parts))
    halves = [add_sums(half, ANY_NUMBER) for half in (parts[:middle], parts[middle:]) if half]
    added = make_plan(
        whole, None, add_sums(halves, ANY_NUMBER), load.cpu_microcores, capacity,
        CapacitySettings.of(None, None, None, weights, "measured"), None,
    )
    scenarios = kfast.independent_brokers(state, generator.choice([0.1, 0.3, 0.6]), 12, seed)
    expected = kfast.capacity_sweep(plan, scenarios, method="pass")
    assert kfast.capacity_sweep(added, scenarios).equals(expected), f"seed {seed}"
    by_broker = [kfast.capacity_brokers(each, scenarios) for each in (plan, added)]
    assert by_broker[0].equals(by_broker[1]), f"seed {seed}"
    return added, scenarios


def test_parts_of_zookeeper_clusters_add_up():
    """Topics that are being deleted wait for each other, so such clusters are left out."""
    clusters = ((seed, random_cluster(seed)[1]) for seed in count())
    fit = ((seed, state) for seed, state in clusters
           if not state.any_queued and starts(state, "zk-3.9"))
    for seed, state in islice(fit, 15):
        compare(seed, state)


@pytest.mark.parametrize("release", ["kraft-3.7", "kraft-4.1"])
def test_parts_of_kraft_clusters_add_up(release):
    for seed in range(15):
        compare(seed, state_of(RandomCluster(seed, release, None)))


@pytest.mark.parametrize("width", [1, 2, 5])
def test_terms_of_wide_partitions_add_up(width):
    state = kfast.generate(
        brokers=7, partitions=150, racks=3, seed=width, replication_factor=width,
        unclean_topics=0.5, placement="uniform",
    )
    compare(width, state)


def test_what_needs_partitions_is_refused_by_name():
    added, scenarios = compare(1, kfast.generate(brokers=5, partitions=40, seed=1))
    with pytest.raises(ArgumentError, match=r"method is 'pass', .*the plan has sums"):
        kfast.capacity_sweep(added, scenarios, method="pass")
    with pytest.raises(ArgumentError, match="what asks for partitions needs the cluster on one"):
        assert added.effects
    pairs = add_sums([added.sums], 1)
    alone = replace(added, sums=pairs)
    state = kfast.generate(brokers=5, partitions=40, seed=1)
    every = kfast.every_broker(state)
    assert kfast.capacity_sweep(alone, every).equals(kfast.capacity_sweep(added, every))
    with pytest.raises(ArgumentError, match=r"for at most 1 brokers .* 2 do; .* with down=2"):
        kfast.capacity_sweep(alone, kfast.every_broker(state, 2))


def test_sums_that_float64_may_not_hold_are_refused():
    """Each part alone may be exact."""
    state = kfast.generate(brokers=4, partitions=64, seed=3)
    plan, generator = kfast.prepare_sweep(state), Random(3)
    rows = range(state.n_partitions)
    names = [(state.topic[int(state.topic_row[row])].as_py(), int(state.partition[row]))
             for row in rows]
    load = load_of(state, dict.fromkeys(names, (10**10, 10**10, 0)))
    part = sum_partitions(
        plan, load, capacity_of(state, generator), CpuWeights(140, 30, 30)
    )[1]
    add_sums([part] * 2, ANY_NUMBER)
    with pytest.raises(ArgumentError, match=r"terms of broker row . add up to .*: too much for"):
        add_sums([part] * 500, ANY_NUMBER)
