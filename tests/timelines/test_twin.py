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
from kfast.timelines.progressions import (
    Progressions,
    quantile,
    waiting_quantile,
)
from kfast.timelines.recording import Concerned, FailureRecorder
from kfast.timelines.settings import Settings
from kfast.timelines.zk_steps import controller_steps
from kfast.timelines.zk_times import zookeeper_times
from tests.support.long_tests import share_of
from tests.support.timeline_twin import QuorumTwin, ZooKeeperTwin, up

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


def samples_with_twins(seed, controller):
    """Every sample of a random failure: its recording, its times, its place, and its twin."""
    state, failing, fails = random_failure(seed, controller)
    draws = draw(Parameters.of(), len(failing), 4, seed=seed, scenario=0)
    settings = Settings.of({"zookeeper.session.timeout.ms": 6000, "tickTime": 1000})
    rows, recorder = state.find_brokers(failing).tolist(), FailureRecorder(state)
    concerned = Concerned.of(recorder.started, rows)
    for schedule in schedules(state, settings, draws, controller=0 if fails else None):
        groups = [[rows[place] for place in group] for group in schedule.groups]
        recording = recorder.record(
            concerned, groups, takes_over=fails and not state.is_kraft, journal="full"
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
            yield recording, times, at, twin


def compare(seed, controller):
    """Compare every sample of a random failure with the twin; returns how many events it had."""
    most = 0
    for recording, times, at, twin in samples_with_twins(seed, controller):
        most = max(most, len(recording.events))
        assert_equal(times, twin, at, f"seed {seed} {controller}")
        n_led = len(twin.led())
        assert n_led + recording.offline_partitions == int(recording.lost.sum())
    return most


def assert_equal(times, twin, at, where):
    """Every measure of one sample."""
    led, shrunk, later = times.led, times.shrunk, times.shrunk_later
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
    for seed in share_of(range(1000, 4334)):
        compare(seed, controller)


def random_progressions(chance):
    """Three samples of up to five progressions, each of which has one at least."""
    shape = (3, 5)
    n = chance.integers(0, 6, shape)
    n[:, 0] += 1
    columns = (
        chance.integers(0, 10_000, shape), chance.integers(0, 5_000_000, shape),
        chance.integers(0, 3_000_000, shape) * chance.integers(0, 2, shape), n,
        chance.integers(0, 30_000, shape), np.broadcast_to(np.arange(5), shape),
    )
    sample = np.repeat(np.arange(3), 5)
    return Progressions.by_sample(3, sample, [column.reshape(-1) for column in columns])


def nanoseconds(p, s):
    """Instants of one sample's partitions, and when they are visible: a list by progression."""
    return [
        ([1000 * base + offset + i * step for i in range(1, n + 1)], 1000 * visible)
        for base, offset, step, n, visible, _ in p.rows[p.begin[s] : p.begin[s + 1]].tolist()
    ]


def test_quantiles_equal_sorting():
    """Sums, extremes and quantiles of progressions, against every instant listed."""
    chance = np.random.default_rng(5)
    for _ in range(50):
        p = random_progressions(chance)
        horizon = int(chance.integers(1, 20_000))
        for s in range(3):
            by_row = [ready for ready, _ in nanoseconds(p, s)]
            instants = sorted(up(one) for ready in by_row for one in ready)
            assert (p.first[s], p.last[s], p.total[s]) == (instants[0], instants[-1], len(instants))
            for percent in (1, 50, 99, 100):
                place = -(-percent * len(instants) // 100) - 1
                assert quantile(p, percent)[s] == instants[place]
            cut = sum(up(sum(one for one in ready if one <= 1000 * horizon))
                      + horizon * sum(one > 1000 * horizon for one in ready) for ready in by_row)
            assert p.sum_until(horizon)[s] == cut
            assert p.sum_until(FAR)[s] == sum(up(sum(ready)) for ready in by_row)


def test_clients_are_served_as_their_waits_end():
    """The least instant at which so many waits have passed, each wait taken by itself."""
    chance = np.random.default_rng(6)
    late, wait = np.array([0, 700, 1500]), 9_000
    for _ in range(30):
        p = random_progressions(chance)
        for percent in (1, 50, 99, 100):
            found = waiting_quantile(p, percent, wait, late)
            for s in range(3):
                ready = [max(one, seen) for ready, seen in nanoseconds(p, s) for one in ready]

                def passed(x, ready=ready, s=s):
                    since = (1000 * (x - int(late[s])) - one for one in ready)
                    return sum(min(max(one, 0), 1000 * wait) for one in since)

                needed = percent * len(ready) * wait * 1000
                assert passed(int(found[s])) * 100 >= needed > passed(int(found[s]) - 1) * 100
