"""The recurrences against a heap of events that moves every partition: equal to the microsecond.

Source: docs/timeline.md, section "Validation".
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import kfast
from kfast.timelines.detection import draw, schedules
from kfast.timelines.kraft_counts import take_counts
from kfast.timelines.kraft_times import quorum_times
from kfast.timelines.parameters import Parameters
from kfast.timelines.progressions import Progressions, quantile
from kfast.timelines.recording import record_failure
from kfast.timelines.settings import Settings
from kfast.timelines.zk_steps import controller_steps
from kfast.timelines.zk_times import zookeeper_times
from tests.support.timeline_twin import QuorumTwin, ZooKeeperTwin

FAR = 10**13


def random_failure(seed, controller):
    """A random cluster, who fails, and whether the controller is one of them."""
    chance = random.Random(seed)
    brokers = chance.randint(3, 8)
    state = kfast.generate(
        brokers=brokers, partitions=chance.randint(1, 60), controller=controller, seed=seed,
        replication_factor=chance.randint(1, min(4, brokers)), placement="uniform",
    )
    if chance.random() < 0.4:
        state = kfast.fail_brokers(state, [chance.randrange(brokers)]).state
    up = state.broker_id[state.up].tolist()
    failing = sorted(chance.sample(up, chance.randint(1, max(1, len(up) - 2))))
    return state, failing, chance.random() < 0.3


def compare(seed, controller):
    """Compare every sample of a random failure with the twin; returns how many events it had."""
    state, failing, fails = random_failure(seed, controller)
    draws = draw(Parameters.of(), len(failing), 4, seed=seed, scenario=0)
    settings = Settings.of({"zookeeper.session.timeout.ms": 6000, "tickTime": 1000})
    rows, most = state.find_brokers(failing), 0
    for schedule in schedules(state, settings, draws, controller=0 if fails else None):
        groups = [[int(rows[place]) for place in group] for group in schedule.groups]
        most = max(most, len(groups))
        recording = record_failure(
            state, groups, takes_over=fails and not state.is_kraft, journal="full"
        )
        values = {name: drawn[schedule.samples] for name, drawn in draws.values.items()}
        if state.is_kraft:
            times = quorum_times(
                recording, take_counts(recording), schedule.starts, values, voters=3
            )
        else:
            steps = controller_steps(recording)
            times = zookeeper_times(steps, schedule.starts, values, recording.live, serial=False)
        for at in range(schedule.samples.size):
            twin_of = QuorumTwin if state.is_kraft else ZooKeeperTwin
            twin = twin_of(
                recording, schedule.starts[at].tolist(),
                {name: int(column[at]) for name, column in values.items()},
            ).run()
            assert_equal(times, twin, at, schedule.samples.size, f"seed {seed} {controller}")
            n_led = len(twin.led())
            assert n_led + recording.offline_partitions == int(recording.lost.sum())
    return most


def assert_equal(times, twin, at, samples, where):
    """Every measure of one sample."""
    led = Progressions.join(times.led, samples)
    shrunk, later = (
        Progressions.join(part, samples) for part in (times.shrunk, times.shrunk_later)
    )
    expected = twin.led()
    assert int(led.total[at]) == len(expected), where
    assert [int(p[at]) for p in times.published] == twin.published, where
    if twin.visible:
        assert int(times.visible[-1].max(axis=1, initial=0)[at]) == max(twin.visible), where
    if expected:
        assert (int(led.first[at]), int(led.last[at])) == (expected[0], expected[-1]), where
        for percent in (50, 99):
            place = -(-percent * len(expected) // 100) - 1
            assert int(quantile(led, percent)[at]) == expected[place], f"{where} p{percent}"
    assert int(led.sum_until(FAR)[at]) == twin.leaderless(), where
    stalled = shrunk.sum_until(FAR) - later.sum_until(FAR)
    assert int(stalled[at]) == twin.stalled(), where


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1", "kraft-3.5"])
def test_recurrences_equal_a_heap_that_moves_every_partition(controller):
    events = [compare(seed, controller) for seed in range(25)]
    assert max(events) > 1


@pytest.mark.slow
@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1", "kraft-3.5"])
def test_recurrences_equal_the_heap_on_many_clusters(controller):
    for seed in range(1000, 4334):
        compare(seed, controller)


def test_quantiles_equal_sorting():
    """Counts, sums, extremes and quantiles of progressions, against every instant listed."""
    chance = np.random.default_rng(5)
    for _ in range(50):
        shape = (3, 5)
        p = Progressions(
            chance.integers(0, 10_000, shape), chance.integers(0, 5_000_000, shape),
            chance.integers(1, 3_000_000, shape), chance.integers(0, 6, shape),
            np.zeros(shape, np.int64),
        )
        p.n[:, 0] += 1
        for s in range(3):
            instants = sorted(
                p.base[s, m] + -(-(p.offset[s, m] + i * p.step[s, m]) // 1000)
                for m in range(5) for i in range(1, p.n[s, m] + 1)
            )
            assert (p.first[s], p.last[s], p.total[s]) == (instants[0], instants[-1], len(instants))
            for percent in (1, 50, 99, 100):
                place = -(-percent * len(instants) // 100) - 1
                assert quantile(p, percent)[s] == instants[place]
