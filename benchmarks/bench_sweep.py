"""Sweeps: how many scenarios of a cluster can be gone through in a second.

A rate is partitions times scenarios per second. The twins count fewer scenarios, as they take
long; their counts are compared with kfast's, and the ratios are printed at the end.
"""

from __future__ import annotations

import numpy as np
import pytest

import kfast
from kfast.kernels import sweep as kernel
from kfast.state.metadata_records import ResourceType
from kfast.sweeps.scenarios import Scenarios
from kfast.sweeps.sweep_plan import FIELDS

pytest.importorskip("numba")
from benchmarks import plain_sweep

THREE = ("offline", "under_min_isr", "leaders_moved")
SCENARIOS = 2048
BROKERS = 1000
DOWN = 5
ROUNDS = 5
VECTORS = [name for name, words in (("words", 1), ("avx2", 4), ("avx512", 8))
           if words <= kernel.widest()]
MIN_ISR = 2

RATES: dict[str, float] = {}


@pytest.fixture(scope="module")
def state(n_partitions):
    """RF 3 on 1000 brokers, fewer where there are few partitions; min ISR 2."""
    brokers = min(BROKERS, max(n_partitions // 100, 9))
    state = kfast.generate(brokers=brokers, partitions=n_partitions, replication_factor=3, seed=42)
    state.default_min_insync_replicas = MIN_ISR
    return state


@pytest.fixture(scope="module")
def plan(state):
    """The cluster, ready for sweeps."""
    return kfast.prepare_sweep(state)


@pytest.fixture(scope="module")
def scenarios(state):
    """Five brokers of all, at random."""
    return kfast.random_brokers(state, DOWN, SCENARIOS - 1, 1)


@pytest.fixture(scope="module")
def three_counts(plan, scenarios):
    """(3, 2048) what every way of counting must give."""
    table = kfast.sweep(plan, scenarios, counts=THREE, vectors="words")
    return np.stack([table[name].to_numpy() for name in THREE])


def note(benchmark, name, n_partitions, n_scenarios):
    """Keep a rate for the report."""
    if benchmark.stats is not None:
        rate = n_partitions * n_scenarios / benchmark.stats.stats.median
        RATES[name] = rate
        benchmark.extra_info.update(partition_scenarios_per_s=rate)


@pytest.mark.parametrize("vectors", VECTORS)
def test_three_counts(benchmark, plan, scenarios, three_counts, n_partitions, vectors):
    benchmark.group = "sweep, three counts"
    options = {"counts": THREE, "vectors": vectors, "method": "dense"}
    table = benchmark.pedantic(kfast.sweep, (plan, scenarios), options, rounds=ROUNDS)
    assert (np.stack([table[name].to_numpy() for name in THREE]) == three_counts).all()
    note(benchmark, vectors, n_partitions, SCENARIOS)


@pytest.mark.parametrize("vectors", VECTORS)
def test_leaders_per_broker(benchmark, plan, scenarios, n_partitions, vectors):
    benchmark.group = "sweep, three counts and leaders per broker"
    options = {"counts": (*THREE, "fullest_broker_leaders"), "vectors": vectors, "method": "dense"}
    benchmark.pedantic(kfast.sweep, (plan, scenarios), options, rounds=ROUNDS)
    note(benchmark, f"{vectors}, leaders", n_partitions, SCENARIOS)


@pytest.mark.parametrize(
    ("twin", "n"),
    [("count_numpy", 32), ("count_by_scenario", 128), ("count_by_partition", 256),
     ("count_in_bytes", 512)],
)
def test_twins(benchmark, state, scenarios, three_counts, n_partitions, twin, n):
    benchmark.group = "sweep, three counts"
    up = plain_sweep.up_matrix(*scenarios.down(0, n), state.n_brokers)
    count = getattr(plain_sweep, twin)
    replicas = state.replicas.astype(np.int32)
    found = count(replicas[:64], up, MIN_ISR)
    found = benchmark.pedantic(count, (replicas, up, MIN_ISR), rounds=2)
    assert (found == three_counts[:, :n]).all()
    note(benchmark, twin, n_partitions, n)


@pytest.fixture(scope="module", params=["ELR off", "ELR on"])
def kraft_plan(request, state):
    """The same placement in KRaft; with ELR on, one broker of 20 is back but not in sync again."""
    elr_on = request.param == "ELR on"
    started = kfast.with_controller(state, "kraft-4.1", elr=elr_on)
    if elr_on:
        quorum = started.quorum
        quorum.set_configuration(ResourceType.BROKER, "", "min.insync.replicas", "3")
        quorum.allocate_elr()
        leaders, brokers = started.records["leader"], started.replicas
        for slot in range(started.n_slots):
            left = (brokers[:, slot] % 20 == 0) & (brokers[:, slot] != leaders)
            started.records["isr"][left] &= ~np.uint8(1 << slot)
            quorum.elr[left] |= np.uint8(1 << slot)
    plan = kfast.prepare_sweep(started)
    assert bool(plan.groups[:, FIELDS.index("eligible")].any()) == elr_on
    return request.param, plan


@pytest.mark.parametrize("vectors", VECTORS)
def test_three_counts_of_kraft(benchmark, kraft_plan, scenarios, n_partitions, vectors):
    """A KRaft cluster takes at most 1.3 times as long as that of ZooKeeper."""
    benchmark.group = "sweep, three counts"
    kind, plan = kraft_plan
    options = {"counts": THREE, "vectors": vectors, "method": "dense"}
    benchmark.pedantic(kfast.sweep, (plan, scenarios), options, rounds=ROUNDS)
    note(benchmark, f"{vectors}, KRaft, {kind}", n_partitions, SCENARIOS)


def test_ratios(capsys):
    """Rates of one run beside each other; "numba" is the faster of the two scalar loops.

    `count_in_bytes` stands apart: it is laid out so that LLVM makes vectors of it.
    """
    if not RATES:
        return
    loops = max(RATES.get(name, 0.0) for name in ("count_by_scenario", "count_by_partition"))
    with capsys.disabled():
        print()
        for name, rate in RATES.items():
            over = f"{rate / loops:8.1f} x numba" if loops else ""
            also = f"{rate / RATES['count_numpy']:9.1f} x numpy" if "count_numpy" in RATES else ""
            if "KRaft" in name:
                also += f" {RATES[name.partition(',')[0]] / rate:6.2f} x the time of ZooKeeper"
            print(f"{name:>22} {rate:10.3g} partition-scenarios/s {over} {also}")


@pytest.mark.parametrize("method", ["dense", "sparse"])
def test_every_broker(benchmark, state, method):
    """From the state: the controller's start included."""
    benchmark.group = "sweep, every broker"
    singles = kfast.every_broker(state)
    options = {"counts": THREE, "method": method}
    table = benchmark.pedantic(kfast.sweep, (state, singles), options, rounds=3)
    assert table.num_rows == state.n_brokers + 1


def test_every_pair(benchmark, plan, state, n_partitions):
    """All pairs on two threads, three counts, streamed."""
    benchmark.group = "sweep, every pair"
    pairs = kfast.every_broker(state, 2)

    def run(scenarios: Scenarios) -> int:
        reader = kfast.sweep_reader(plan, scenarios, threads=2, counts=THREE)
        return sum(batch.num_rows for batch in reader)

    assert benchmark.pedantic(run, (pairs,), rounds=1) == len(pairs)
    note(benchmark, "pairs, 2 threads", n_partitions, len(pairs))


def test_random_scenarios(benchmark, state):
    """100 000 scenarios in which each broker fails with probability 1/2."""
    benchmark.group = "random scenarios"
    found = kfast.independent_brokers(state, 0.5, 100_000, seed=3)

    def draw() -> int:
        return sum(found.down(at, at + 2000)[1].size for at in range(1, 100_000, 2000))

    n = benchmark.pedantic(draw, rounds=1)
    assert n == pytest.approx(50_000 * state.n_brokers, rel=0.01)
