"""How long it takes to plan restarts, and to say how far failures reach."""

from __future__ import annotations

import numpy as np
import pytest

import kfast

ROUNDS = 3


@pytest.fixture(scope="session")
def scattered(n_partitions, n_brokers):
    """Replicas anywhere, min ISR 1: the hardest to plan, for every partition allows two."""
    return kfast.generate(
        brokers=n_brokers, partitions=n_partitions, placement="uniform", min_insync_replicas=1
    )


def planned(benchmark, state, by_rack=False):
    """Plan, and keep the plan, its bound, and what it is about."""
    plan = benchmark.pedantic(
        kfast.restart_plan, args=(state,), kwargs={"by_rack": by_rack}, rounds=ROUNDS
    )
    benchmark.extra_info.update(
        partitions=state.n_partitions, brokers=state.n_brokers, batches=plan.n_batches,
        lower_bound=plan.lower_bound,
    )
    assert plan.lower_bound <= plan.n_batches
    return plan


@pytest.mark.parametrize("by_rack", [False, True], ids=["any", "rack by rack"])
def test_restart_of_three_racks(benchmark, cluster, by_rack):
    """Rack-aware, min ISR 2 of 3: a rack may restart together."""
    state = cluster.copy()
    state.topic_min_insync_replicas[:] = 2
    benchmark.group = "restart plan"
    plan = planned(benchmark, state, by_rack)
    assert plan.n_batches == plan.lower_bound == 3


def test_restart_of_scattered_replicas(benchmark, scattered):
    """No structure helps: the search runs to its end."""
    benchmark.group = "restart plan"
    plan = planned(benchmark, scattered)
    in_batch = np.sort(plan.batch[scattered.replicas.astype(np.int64)], axis=1)
    assert (in_batch[:, 0] != in_batch[:, 2]).all()


def test_restart_where_any_two_share_a_partition(benchmark, n_partitions, n_brokers):
    """Replicas anywhere, min ISR 2: as good as any two brokers exclude one another."""
    state = kfast.generate(
        brokers=n_brokers, partitions=n_partitions, placement="uniform", min_insync_replicas=2
    )
    benchmark.group = "restart plan"
    planned(benchmark, state)


def test_readiness(benchmark, cluster):
    """Who may be restarted now."""
    benchmark.group = "may restart"
    ready = benchmark.pedantic(kfast.may_restart, args=(cluster,), rounds=ROUNDS)
    assert ready.counts["may_restart"] == cluster.n_brokers


@pytest.mark.parametrize("k", [1, 2, 3])
def test_worst(benchmark, scattered, k):
    """The ten worst brokers, pairs and triples of distinct sets that are nearly as many as rows."""
    benchmark.group = "risk"
    found = kfast.risk(scattered)
    found.worst(1)
    table = benchmark.pedantic(found.worst, args=(k, 10), rounds=ROUNDS)
    benchmark.extra_info.update(rows=table.num_rows)
    assert table.num_rows == (10 if k == 3 else 0)


@pytest.mark.parametrize("down", [3, 5], ids=["counted", "drawn"])
def test_chance(benchmark, scattered, n_brokers, down):
    """The chance that any partition goes offline; a small cluster is counted either way."""
    benchmark.group = "risk"
    found = kfast.risk(scattered, scenarios=1000)
    found.chance(1)
    chance = benchmark.pedantic(found.chance, args=(down,), rounds=ROUNDS)
    benchmark.extra_info.update(brokers=n_brokers, method=chance.method)
    assert chance.low <= chance.probability <= chance.high
