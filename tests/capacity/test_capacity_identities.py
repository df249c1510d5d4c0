"""What must hold of bytes after any failure: worked examples, conservation, monotony, identities.

Source: docs/capacity.md, "What a broker carries" and "Sweeps".
"""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity import CapacityPlan
from kfast.capacity.failures.failure_terms import pass_over
from kfast.kernels import sweep as sweep_kernel
from tests.analysis.test_impact import random_cluster
from tests.analysis.test_sweep import starts

pytestmark = pytest.mark.kernels


def cluster(partitions, racks=()):
    """In-sync partitions of one topic each, by name the brokers; the first one leads."""
    brokers = sorted({broker for replicas in partitions.values() for broker in replicas})
    return kfast.ClusterState.from_tables(
        pa.table({
            "broker_id": pa.array(brokers, pa.int32()),
            "rack": pa.array(list(racks) or [None] * len(brokers), pa.string()),
        }),
        None,
        pa.table({
            "topic": pa.array(list(partitions)).dictionary_encode(),
            "partition": pa.array([0] * len(partitions), pa.int32()),
            "replicas": pa.array(list(partitions.values()), pa.list_(pa.int32())),
            "isr": pa.array(list(partitions.values()), pa.list_(pa.int32())),
            "leader": pa.array([replicas[0] for replicas in partitions.values()], pa.int32()),
        }),
        pa.table({"controller": ["kraft-4.1"]}),
    )


def prepare(state, loads):
    """A plan with the same capacity for all brokers; `loads` are bytes in and out by row."""
    columns = {
        "topic": state.topic.take(pa.array(state.topic_row)).to_pylist(),
        "partition": state.partition.tolist(), "bytes_in": loads[0], "bytes_out": loads[1],
    }
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(),
                                                                         strict=True))]
    load = kfast.partition_load(state, kfast.read_load(("load.csv", "\n".join(lines).encode())))
    capacity = b"broker_id,nw_in,nw_out\n-1,1000,1000\n"
    return kfast.prepare_capacity(
        state, load, kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", capacity)))
    )


def channels(plan: CapacityPlan, down):
    """Bytes as leader and follower, to replicas and to consumers, by broker; and the scalars."""
    failed = np.zeros(plan.broker_id.size + 1, np.uint8)
    failed[down] = 1
    by_broker, scalars = pass_over(plan.effects, plan.load, failed, bool(len(down)))
    return by_broker, scalars.tolist()


def nw_out(plan, state, brokers):
    """Bytes out of every broker after some have failed, by id."""
    rows = np.array([state.broker_row(broker) for broker in brokers], np.int32)
    offsets = np.array([0, rows.size], np.int64)
    (loads,) = {
        tuple(plan.broker_loads(offsets, rows, method)[0, :, 1].tolist())
        for method in ("pass", "terms")
    }
    return dict(zip(plan.broker_id.tolist(), loads, strict=True))


# --- the worked example of three partitions ------------------------------------------------------


PAY = cluster({"pay-0": [1, 2, 3], "pay-1": [2, 3, 4], "log-0": [3, 1]})
PAY_LOADS = [100, 60, 200], [300, 60, 0]


def test_the_worked_example_of_three_partitions():
    plan = prepare(PAY, PAY_LOADS)
    by_broker, scalars = channels(plan, [])
    assert by_broker.T.tolist() == [
        [100, 60, 200, 0], [200, 100, 160, 60], [200, 120, 200, 0], [300, 60, 0, 0],
    ]
    assert scalars[0] == 0
    assert nw_out(plan, PAY, []) == {1: 500, 2: 180, 3: 200, 4: 0}
    assert nw_out(plan, PAY, [1]) == {1: 0, 2: 580, 3: 0, 4: 0}
    assert nw_out(plan, PAY, [1, 2]) == {1: 0, 2: 0, 3: 420, 4: 0}


# --- conservation and monotony -------------------------------------------------------------------


def random_plan(seed):
    """A random cluster with random loads; None where its controller cannot start.

    A partition with an in-sync replica that is not assigned carries nothing: while that one lives,
    it keeps an unclean election from being tried, so that its failure brings a leader.
    """
    generator = Random(seed)
    state = random_cluster(seed)[1]
    if not starts(state):
        return None
    bytes_in, bytes_out = [], []
    for row in range(state.n_partitions):
        led, replicas = state.leadership(row), state.assignment(row).replicas
        carries = led is None or set(led.isr) <= set(replicas)
        bytes_in.append(generator.randint(0, 10**6) * carries)
        bytes_out.append(generator.randint(0, 10**6) * carries)
    return prepare(state, (bytes_in, bytes_out))


PLANS = [(seed, plan) for seed in range(40) if (plan := random_plan(seed)) is not None]


@pytest.mark.parametrize(("seed", "plan"), PLANS)
def test_what_leaders_send_is_what_followers_receive(seed, plan):
    """After every failure; and leaders receive what producers write, less the leaderless."""
    draw = Random(seed)
    brokers = np.flatnonzero(plan.up).tolist()
    before, lost = channels(plan, [])
    for down in [[], *(draw.sample(brokers, draw.randint(1, len(brokers))) for _ in range(20))]:
        by_broker, scalars = channels(plan, down)
        leader_in, follower_in, to_replicas, _ = by_broker.sum(axis=0).tolist()
        assert follower_in == to_replicas
        assert lost[0] == 0
        assert not by_broker[down].any()
        if down:
            returned = leader_in + scalars[0] - before[:, 0].sum()
            assert returned >= 0, "an election brings back what had no leader before, no more"
        else:
            assert leader_in == before[:, 0].sum()


@pytest.mark.parametrize(("seed", "plan"), PLANS)
def test_more_failures_leave_more_without_a_leader_and_nobody_receives_more(seed, plan):
    """Chains of failures, each with one broker more."""
    draw = Random(seed)
    brokers = np.flatnonzero(plan.up).tolist()
    for _ in range(5):
        draw.shuffle(brokers)
        leaderless, received = -1, None
        for n in range(1, len(brokers) + 1):
            by_broker, scalars = channels(plan, brokers[:n])
            nw_in = by_broker[:, :2].sum(axis=1)
            assert scalars[0] >= leaderless
            assert received is None or (nw_in <= received).all()
            leaderless, received = scalars[0], nw_in


# --- one byte per partition ----------------------------------------------------------------------


def degraded(min_isr):
    """A cluster of 2 000 partitions on 12 brokers, all of them led, some with partial ISRs."""
    state = kfast.generate(
        brokers=12, partitions=2_000, racks=3, seed=7, min_insync_replicas=min_isr,
        unclean_topics=0.3,
    )
    state.records["isr"][::7] = 1
    state.records["isr"][3::11] = 3
    return state


@pytest.mark.parametrize("min_isr", [1, 2, 3])
def test_one_byte_for_each_partition_counts_partitions(min_isr):
    """Refused bytes are partitions under min ISR, leaderless ones offline ones."""
    state = degraded(min_isr)
    plan = prepare(state, [[1] * state.n_partitions, [0] * state.n_partitions])
    for scenarios in (kfast.every_broker(state, 2), kfast.every_rack(state),
                      kfast.random_brokers(state, 5, 50, 3)):
        counts, sums = kfast.sweep(state, scenarios), kfast.capacity_sweep(plan, scenarios)
        assert counts["offline"].to_pylist() == sums["bytes_in_leaderless"].to_pylist()
        assert counts["under_min_isr"].to_pylist() == sums["bytes_in_refused"].to_pylist()
        assert max(sums["bytes_in_refused"].to_pylist()) > 0


def test_one_byte_for_each_partition_counts_leaders():
    """Bytes out to one consumer, without replication, are leaders: `kfast.sweep_brokers`."""
    state = degraded(1)
    plan = prepare(state, [[0] * state.n_partitions, [1] * state.n_partitions])
    scenarios = kfast.every_broker(state)
    loads = plan.broker_loads(*scenarios.down(0, len(scenarios)))[:, :, 1]
    expected = kfast.sweep_brokers(state, scenarios).to_pylist()
    for at, row in enumerate(expected):
        leaders = np.delete(loads[:, at], at + 1)
        assert row["leaders_most"] == leaders.max()
        assert row["leaders_mean"] == pytest.approx(leaders.mean())


# --- the same bits -------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [1, 4, 8])
def test_slices_and_widths_of_vectors_change_no_bit(words, monkeypatch):
    if words > sweep_kernel.widest():
        pytest.skip("this processor has no such vectors")
    state = degraded(2)
    draw = Random(1)
    plan = prepare(state, [[draw.randint(0, 10**9) for _ in range(2_000)] for _ in range(2)])
    scenarios = kfast.every_broker(state, 2)
    whole = kfast.capacity_sweep(plan, scenarios)
    monkeypatch.setattr(sweep_kernel, "widest", lambda: words)
    for method in ("terms", "pass"):
        pieces = [
            kfast.capacity_sweep(plan, scenarios.slice(start, min(start + 13, len(scenarios))),
                                 method=method)
            for start in range(0, len(scenarios), 13)
        ]
        assert pa.concat_tables(pieces).combine_chunks() == whole.combine_chunks()


def test_the_order_of_partitions_and_brokers_changes_no_bit():
    """Rows of partitions shuffled, and the ids of brokers dealt anew."""
    partitions = {f"t{n}": [1 + (n * k + k) % 7 for k in (1, 2, 4)] for n in range(40)}
    partitions = {name: r for name, r in partitions.items() if len(set(r)) == len(r)}
    loads = {name: (17 * n + 3, 23 * n) for n, name in enumerate(partitions)}
    tables = []
    for seed in range(3):
        names = list(partitions)
        Random(seed).shuffle(names)
        state = cluster({name: partitions[name] for name in names})
        by_row = state.topic.take(pa.array(state.topic_row)).to_pylist()
        plan = prepare(state, list(zip(*(loads[name] for name in by_row), strict=True)))
        tables.append(kfast.capacity_sweep(plan, kfast.every_broker(state, 2)))
    assert tables[0] == tables[1] == tables[2]


# --- identities of complete and of ring placements -----------------------------------------------


@pytest.mark.parametrize("k", [1, 2])
def test_a_complete_placement_shares_a_failure_among_all(k):
    """Every ordered set of 3 of 6 brokers: leaders of each survivor become u * N / (N - k)."""
    placement = permutations(range(1, 7), 3)
    state = cluster({f"t{n}": list(replicas) for n, replicas in enumerate(placement)})
    n = state.n_partitions
    plan = prepare(state, [[0] * n, [5] * n])
    before = nw_out(plan, state, [])
    assert set(before.values()) == {5 * n // 6}
    after = nw_out(plan, state, list(range(1, k + 1)))
    assert after == dict.fromkeys(range(1, k + 1), 0) | dict.fromkeys(
        range(k + 1, 7), 5 * n // 6 * 6 // (6 - k)
    )


def test_a_rack_of_three_adds_half():
    """Each partition on all three racks in every order: a rack's failure makes u to u * 3 / 2."""
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    placement = [order for one_each in product((1, 2), (3, 4), (5, 6))
                 for order in permutations(one_each)]
    state = cluster(
        {f"t{n}": list(replicas) for n, replicas in enumerate(placement)}, racks.values()
    )
    n = state.n_partitions
    plan = prepare(state, [[0] * n, [7] * n])
    (usual,) = set(nw_out(plan, state, []).values())
    assert nw_out(plan, state, [1, 2]) == {1: 0, 2: 0} | dict.fromkeys((3, 4, 5, 6), usual * 3 // 2)


def test_in_a_ring_the_next_broker_takes_all():
    """One broker's failure makes u to 2 u on its neighbour; the number of leaders hid it."""
    state = kfast.generate(brokers=10, partitions=1_000, placement="ring", seed=1)
    plan = prepare(state, [[0] * 1_000, [3] * 1_000])
    (usual,) = set(nw_out(plan, state, []).values())
    after = nw_out(plan, state, [4])
    assert sorted(after.values()) == [0, *[usual] * 8, 2 * usual]
