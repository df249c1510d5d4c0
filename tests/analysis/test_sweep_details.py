"""Sweeps by partition and by broker, and both methods, against plain Python."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import kfast
from kfast import Controller
from kfast.errors import ArgumentError
from kfast.kernels import sparse
from kfast.sweeps.sparse_counts import MOST_WIDTH
from tests.analysis.test_impact import random_cluster
from tests.analysis.test_sweep import VECTORS, even_cluster, starts
from tests.support.twin_sweep import effective_min_isr, look, partitions_of

pytestmark = pytest.mark.kernels


def after_each(state, scenarios):
    """The state after the controller's start and each scenario."""
    started = state.copy()
    Controller(started).on_controller_failover()
    for number in range(scenarios.start, scenarios.stop):
        after = started.copy()
        if down := scenarios.brokers(number):
            Controller(after).on_broker_failure(down)
        yield after


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("seed", range(8))
def test_partitions_and_brokers_are_counted_as_the_controller_leaves_them(seed, vectors, threads):
    """`sweep_partitions` and `sweep_brokers` (`count_partitions`), any vectors and threads."""
    state = random_cluster(seed)[1]
    if not starts(state):
        with pytest.raises(ArgumentError, match="cannot start"):
            kfast.sweep_brokers(state, kfast.every_broker(state))
        return
    scenarios = kfast.independent_brokers(state, 0.3, 12, seed).slice(1, 13)
    offline, under, loads = Counter(), Counter(), {b: [] for b in state.broker_id.tolist()}
    for after in after_each(state, scenarios):
        leaders = Counter()
        for row in partitions_of(after):
            leader, isr, _ = look(after, row)
            need = effective_min_isr(state, int(after.topic_row[row]))
            key = (after.topic[int(after.topic_row[row])].as_py(), int(after.partition[row]))
            offline[key] += leader is None
            n_replicas = len(after.assignment(row).replicas)
            under[key] += leader is None or len(isr) < min(need, n_replicas)
            leaders[leader] += 1
        for b, up in zip(after.broker_id.tolist(), after.registered.tolist(), strict=True):
            if up:
                loads[b].append(leaders[b])
    rows = kfast.sweep_partitions(state, scenarios, threads=threads, vectors=vectors).to_pylist()
    found = {(r["topic"], r["partition"]): r for r in rows}
    assert {key: r["scenarios_offline"] for key, r in found.items()} == dict(offline)
    assert {key: r["scenarios_under_min_isr"] for key, r in found.items()} == dict(under)
    for row in kfast.sweep_brokers(state, scenarios, threads=threads, vectors=vectors).to_pylist():
        load = sorted(loads[row["broker_id"]])
        assert row["scenarios_up"] == len(load)
        if not load:
            assert row["leaders_most"] is None
            continue
        assert row["leaders_mean"] == pytest.approx(sum(load) / len(load))
        assert row["leaders_most"] == load[-1]
        for percent in (50, 95, 99):
            at = math.ceil(len(load) * percent / 100) - 1
            assert row[f"leaders_p{percent}"] == load[at], percent


@pytest.mark.parametrize("seed", range(60))
def test_both_methods_count_alike(seed):
    """Dense and sparse (`count_hosts`, `list_hosts`, `count_sparse`) on odd clusters."""
    assert sparse.count_sparse is not None
    state = random_cluster(seed)[1]
    if not starts(state):
        return
    p = Random(seed).choice([0.1, 0.5])
    scenarios = kfast.independent_brokers(state, p, 150, seed)
    plan = kfast.prepare_sweep(state)
    dense = kfast.sweep(plan, scenarios, method="dense")
    assert kfast.sweep(plan, scenarios, method="sparse", threads=2) == dense


def test_long_sequences_are_counted_by_both_methods():
    """More replicas than a table of sets could hold."""
    state = kfast.generate(brokers=16, partitions=40, replication_factor=13, seed=3)
    state.default_min_insync_replicas = 9
    assert state.n_slots > MOST_WIDTH
    scenarios = kfast.random_brokers(state, 6, 500, seed=2)
    dense = kfast.sweep(state, scenarios, method="dense")
    assert kfast.sweep(state, scenarios, method="sparse") == dense
    assert max(dense["under_min_isr"].to_pylist()) > 0


def test_every_pair_and_triple_follows_from_the_placement():
    """RF 3: a triple takes its own partitions offline, a pair takes those that it hosts under."""
    state = even_cluster(3, 2, partitions=60)
    hosts = Counter(
        pair for row in state.replicas.tolist() for pair in itertools.combinations(sorted(row), 2)
    )
    triples = Counter(tuple(sorted(row)) for row in state.replicas.tolist())
    pairs = kfast.sweep(state, kfast.every_broker(state, 2)).to_pylist()[1:]
    for row, pair in zip(pairs, itertools.combinations(range(9), 2), strict=True):
        assert (row["under_min_isr"], row["offline"]) == (hosts[pair], 0)
    all_triples = kfast.sweep(state, kfast.every_broker(state, 3)).to_pylist()[1:]
    for row, triple in zip(all_triples, itertools.combinations(range(9), 3), strict=True):
        assert row["offline"] == triples[triple]


def placed(rows, n_brokers):
    """A cluster whose partitions have these replicas, min ISR 2."""
    partitions = pa.table({
        "topic": pa.array(["t"] * len(rows)),
        "partition": pa.array(range(len(rows)), pa.int32()),
        "replicas": pa.array(rows, pa.list_(pa.int32())),
    })
    brokers = pa.table({"broker_id": pa.array(range(n_brokers), pa.int32())})
    state = kfast.ClusterState.from_tables(brokers, None, partitions)
    state.default_min_insync_replicas = 2
    return state


def test_every_replica_set_once_gives_the_hypergeometric_law_exactly():
    """All C(n, 3) replica sets: every scenario of F brokers has the same, known, counts."""
    n, f = 12, 4
    state = placed(list(itertools.combinations(range(n), 3)), n)
    table = kfast.sweep(state, kfast.every_broker(state, f)).slice(1)
    assert set(table["offline"].to_pylist()) == {math.comb(f, 3)}
    under = math.comb(f, 2) * (n - f) + math.comb(f, 3)
    assert set(table["under_min_isr"].to_pylist()) == {under}


def test_the_figures_of_the_hypergeometric_law():
    """N = 100, F = 3, RF 3: offline 6.18429e-6, under min ISR 1.80581e-3; random sets agree."""
    n, f = 100, 3
    total = math.comb(n, 3)
    offline = math.comb(f, 3) / total
    under = (math.comb(f, 2) * (n - f) + math.comb(f, 3)) / total
    assert offline == pytest.approx(6.18429e-6, rel=1e-6)
    assert under == pytest.approx(1.80581e-3, rel=3e-6)
    assert 1 - (1 - offline) ** 10**6 == pytest.approx(0.997938, abs=1e-6)
    generator = Random(8)
    state = placed([generator.sample(range(n), 3) for _ in range(3000)], n)
    scenarios = kfast.random_brokers(state, f, 4000, seed=5)
    counts = kfast.sweep(state, scenarios, counts=["offline", "under_min_isr"]).slice(1)
    trials = 3000 * 4000
    for name, p in (("offline", offline), ("under_min_isr", under)):
        seen = sum(counts[name].to_pylist())
        assert abs(seen - trials * p) < 5 * math.sqrt(trials * p * 3), name


def test_a_ring_loses_a_partition_in_as_many_triples_as_brokers():
    """Ring placement: of C(100, 3) triples 100 take a partition offline: 6.184e-4."""
    n = 100
    state = placed([[i, (i + 1) % n, (i + 2) % n] for i in range(n)], n)
    table = kfast.sweep(state, kfast.every_broker(state, 3), counts=["offline"], threads=2)
    hit = sum(1 for value in table["offline"].to_pylist()[1:] if value)
    assert hit == n
    assert hit / math.comb(n, 3) == pytest.approx(6.184e-4, rel=1e-4)
