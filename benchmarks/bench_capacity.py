"""Capacity sweeps: bytes per broker after every failure, by terms, by passes, and by hand.

By hand means what a user would write without them: the controller run for one failure after
another, each state's leaders joined with the loads by numpy; or a script of loops over a list.
"""

from __future__ import annotations

import numpy as np
import pytest

import kfast

BROKERS = 1000
BY_HAND = 8
"""Failures that are run by hand; one takes as long as the next."""

SECONDS: dict[str, float] = {}
"""Seconds for each failure, by the way it was measured."""


@pytest.fixture(scope="module")
def state(n_partitions):
    """RF 3 on 1000 brokers, fewer where there are few partitions."""
    brokers = min(BROKERS, max(n_partitions // 100, 9))
    state = kfast.generate(
        brokers=brokers, partitions=n_partitions, replication_factor=3, racks=3, seed=42
    )
    return kfast.prepare_sweep(state).cluster


@pytest.fixture(scope="module")
def load(state):
    """Random bytes of every partition."""
    generator = np.random.default_rng(7)
    n = state.n_partitions
    rows = zip(
        state.topic.take(state.topic_row).to_pylist(), state.partition.tolist(),
        generator.integers(0, 10**6, n).tolist(), generator.integers(0, 3 * 10**6, n).tolist(),
        strict=True,
    )
    text = "topic,partition,bytes_in,bytes_out,disk_bytes\n" + "".join(
        f"{topic},{number},{bytes_in},{bytes_out},{bytes_in}\n"
        for topic, number, bytes_in, bytes_out in rows
    )
    return kfast.partition_load(state, kfast.read_load(("load.csv", text.encode())))


@pytest.fixture(scope="module")
def capacity(state):
    """The same network and disk for every broker."""
    rows = b"broker_id,nw_in,nw_out,disk_bytes\n-1,1250000000,1250000000,8000000000000\n"
    return kfast.broker_capacity(state, kfast.read_capacity(("capacity.csv", rows)))


@pytest.fixture(scope="module")
def sweep_plan(state):
    """The shapes of the partitions, which `kfast.sweep` needs too."""
    return kfast.prepare_sweep(state)


@pytest.fixture(scope="module")
def plan(sweep_plan, load, capacity):
    """Ready for sweeps of pairs."""
    plan = kfast.prepare_capacity(sweep_plan, load, capacity)
    plan.terms.levels(2)
    return plan


def note(benchmark, name, n_failures):
    """Keep the time of a failure for the report."""
    if benchmark.stats is not None:
        SECONDS[name] = benchmark.stats.stats.median / n_failures
        benchmark.extra_info.update(seconds_per_failure=SECONDS[name])


@pytest.mark.parametrize("fetch_from", ["leader", "nearest"])
def test_terms_of_singles_and_pairs(benchmark, sweep_plan, load, capacity, fetch_from):
    """From the shapes and the loads to all terms of one and two failed brokers."""
    benchmark.group = "capacity, terms"

    def prepare():
        prepared = kfast.prepare_capacity(sweep_plan, load, capacity, fetch_from=fetch_from)
        prepared.terms.levels(2)
        return prepared

    assert benchmark.pedantic(prepare, rounds=3).terms is not None


def test_every_broker(benchmark, plan, state):
    benchmark.group = "capacity, failures"
    singles = kfast.every_broker(state)
    table = benchmark.pedantic(kfast.capacity_sweep, (plan, singles), rounds=5)
    assert table.num_rows == state.n_brokers + 1
    note(benchmark, "every broker, by terms", state.n_brokers)


def test_every_pair(benchmark, plan, state):
    benchmark.group = "capacity, failures"
    pairs = kfast.every_broker(state, 2)

    def run():
        return sum(batch.num_rows for batch in plan.batches(pairs))

    assert benchmark.pedantic(run, rounds=3) == len(pairs)
    note(benchmark, "every pair, by terms", len(pairs))


def test_random_sets_of_five(benchmark, plan, state):
    benchmark.group = "capacity, failures"
    scenarios = kfast.random_brokers(state, 5, 10_000, 1)
    kfast.capacity_sweep(plan, scenarios.slice(0, 2))
    table = benchmark.pedantic(kfast.capacity_sweep, (plan, scenarios), rounds=3)
    assert table.num_rows == len(scenarios)
    note(benchmark, "five at random, by terms", len(scenarios))


def test_a_pass_for_each_failure(benchmark, plan, state):
    """All partitions are gone over for each failure, as a sweep that counts would."""
    benchmark.group = "capacity, failures"
    some = kfast.every_broker(state).slice(1, BY_HAND + 1)
    table = benchmark.pedantic(
        kfast.capacity_sweep, (plan, some), {"method": "pass"}, rounds=3
    )
    assert table == kfast.capacity_sweep(plan, some, method="terms")
    note(benchmark, "a pass for each failure", len(some))


def fail_by_hand(state, load, brokers):
    """(n, B, 2) bytes in and out of every broker after each failure."""
    used = np.zeros((len(brokers), state.n_brokers, 2), np.int64)
    for number, broker in enumerate(brokers):
        after = state.copy()
        kfast.Controller(after, journal="off").on_broker_failure([broker])
        leader = after.records["leader"]
        led = leader >= 0
        live = (after.replicas >= 0) & (state.broker_id[after.replicas] != broker)
        followers = (live.sum(axis=1) - 1)[led]
        bytes_in, bytes_out = load.bytes_in[led], load.bytes_out[led]
        for slot in range(after.n_slots):
            fetches = live[led, slot]
            used[number, :, 0] += np.bincount(
                after.replicas[led, slot][fetches], bytes_in[fetches], state.n_brokers
            ).astype(np.int64)
        used[number, :, 1] = np.bincount(
            leader[led], bytes_in * followers + bytes_out, state.n_brokers
        ).astype(np.int64)
    return used


def test_the_controller_for_each_failure(benchmark, plan, state, load):
    """What a user would write; the bytes are the same."""
    benchmark.group = "capacity, failures"
    brokers = state.broker_id[:BY_HAND].tolist()
    used = benchmark.pedantic(fail_by_hand, (state, load, brokers), rounds=3)
    rows = np.arange(BY_HAND, dtype=np.int32)
    expected = plan.broker_loads(np.arange(BY_HAND + 1), rows)[:, :, :2]
    assert (used == expected).all()
    note(benchmark, "the controller and numpy", BY_HAND)


def fail_plainly(partitions, n_brokers, brokers):
    """The same bytes, by a script: each failure goes over a list of partitions."""
    used = []
    for failed in brokers:
        after = [[0, 0] for _ in range(n_brokers)]
        for replicas, bytes_in, bytes_out in partitions:
            live = [broker for broker in replicas if broker != failed]
            if not live:
                continue
            for follower in live:
                after[follower][0] += bytes_in
            after[live[0]][1] += bytes_in * (len(live) - 1) + bytes_out
        used.append(after)
    return used


def test_a_script_for_each_failure(benchmark, plan, state, load):
    """What a user would write who has neither a controller nor numpy."""
    benchmark.group = "capacity, failures"
    replicas = [[b for b in row if b >= 0] for row in state.replicas.tolist()]
    partitions = list(
        zip(replicas, load.bytes_in.tolist(), load.bytes_out.tolist(), strict=True)
    )
    some = range(2)
    used = benchmark.pedantic(fail_plainly, (partitions, state.n_brokers, some), rounds=1)
    rows = np.arange(len(some), dtype=np.int32)
    expected = plan.broker_loads(np.arange(len(some) + 1), rows)[:, :, :2]
    assert (np.asarray(used) == expected).all()
    note(benchmark, "a script in plain Python", len(some))


def test_ratios(capsys):
    """Times of one run beside each other."""
    by_hand = SECONDS.get("the controller and numpy")
    if by_hand is None:
        return
    with capsys.disabled():
        print()
        for name, seconds in SECONDS.items():
            print(f"{name:>26} {seconds * 1e6:10.1f} us a failure {by_hand / seconds:10.1f} x")
