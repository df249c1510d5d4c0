"""Controlled shutdowns: the recurrences against the twin, published and live rows, the command.

Source: docs/timeline.md, section "Controlled shutdown".
"""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import kfast
from kfast.controllers import open_events
from kfast.errors import ArgumentError
from kfast.timelines.detection import draw
from kfast.timelines.parameters import Parameters
from kfast.timelines.settings import Settings
from kfast.timelines.shutdown_recording import record_shutdown
from kfast.timelines.shutdown_times import shutdown_times
from tests.support.cli_run import run
from tests.support.long_tests import share_of
from tests.support.shutdown_twin import QuorumShutdownTwin, ZooKeeperShutdownTwin

TELLS_NOBODY = "zk-1.1"
"""A release whose request for elections does not go to the broker that shuts down."""
CONTROLLERS = ["zk-3.9", "zk-1.1", "kraft-4.1", "kraft-3.5"]


def random_shutdown(seed, controller):
    """A random cluster, and who shuts down; some brokers may be down."""
    chance = random.Random(seed)
    brokers = chance.randint(3, 8)
    state = kfast.generate(
        brokers=brokers, partitions=chance.randint(1, 60), controller=controller, seed=seed,
        replication_factor=chance.randint(1, min(4, brokers)), placement="uniform",
    )
    if chance.random() < 0.4:
        state = kfast.fail_brokers(state, [chance.randrange(brokers)]).state
    up = state.broker_id[state.up].tolist()
    leaving = sorted(chance.sample(up, chance.randint(1, max(1, min(3, len(up) - 2)))))
    return state, leaving, chance.random() < 0.3


def compare(seed, controller):
    """Compare every sample of a random shutdown with the twin; returns what it had."""
    state, leaving, takes_over = random_shutdown(seed, controller)
    settings = Settings.of({"broker.heartbeat.interval.ms": 500})
    common = open_events(state.copy(), journal="full")
    common.start()
    shutdown = record_shutdown(
        common, state.find_brokers(leaving).tolist(), attempts=settings.shutdown_retries,
        takes_over=takes_over and not state.is_kraft,
    )
    values = draw(Parameters.of(), len(leaving), 4, seed=seed, scenario=0).values
    phases = np.random.default_rng(seed).random((5, state.n_brokers))
    found = shutdown_times(shutdown, values, settings, phases, serial=False)
    lost, recording = 0, shutdown.recording
    for at in range(5):
        one = {name: int(column[at]) for name, column in values.items()}
        twin = (
            QuorumShutdownTwin(shutdown, one, settings, phases[at].tolist()) if state.is_kraft
            else ZooKeeperShutdownTwin(shutdown, one, settings)
        )
        times, where = twin.run(), f"seed {seed} {controller} sample {at}"
        led = times.led()
        assert [int(p[at]) for p in found.times.published] == times.published, where
        assert int(found.times.led.total[at]) == len(led), where
        if led:
            assert int(found.times.led.first[at]) == led[0], where
            assert int(found.times.led.last[at]) == led[-1], where
        ids = state.broker_id[list(shutdown.brokers)].tolist()
        assert found.released[at].tolist() == [twin.released[one] for one in ids], where
        assert found.stopped[at].tolist() == [twin.stopped[one] for one in ids], where
        expected = twin.leaderless()
        if controller == TELLS_NOBODY and len(leaving) > 1:
            # Of the requests of another broker's shutdown an old leader may learn who leads.
            assert int(found.leaderless[at]) <= expected, where
        else:
            assert int(found.leaderless[at]) == expected, where
        lost = int(recording.lost.sum())
        assert len(led) + recording.offline_partitions == lost, where
    return len(recording.events), lost


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_recurrences_equal_a_heap_that_moves_every_partition(controller):
    found = [compare(seed, controller) for seed in range(25)]
    assert max(events for events, _ in found) > 2
    assert max(lost for _, lost in found) > 10


@pytest.mark.slow
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_recurrences_equal_the_heap_on_many_clusters(controller):
    for seed in share_of(range(1000, 3500)):
        compare(seed, controller)


def central(state, ids, **options):
    return kfast.timeline(state, ids, controlled=True, **options).summary.to_pylist()[0]


@pytest.mark.parametrize(("controller", "published"), [("zk-1.1", 3.0), ("zk-1.0", 30.0)])
def test_the_published_shutdowns_of_kafka_1_take_as_long(controller, published):
    """5 brokers, 25 000 topics with one partition, RF 2: without the log of every partition."""
    state = kfast.generate(
        brokers=5, partitions=25_000, topics=25_000, replication_factor=2, controller=controller
    )
    row = central(state, [2], samples=2)
    assert published / 1.6 <= row["released_us"] / 1e6 <= published * 1.6


def test_the_laboratory_of_two_million_partitions_is_consistent():
    """14 brokers and RF 3 are chosen, and that a smaller ISR raises no epoch in KRaft."""
    for controller, published in (("zk-2.8", 135.0), ("kraft-4.1", 32.0)):
        state = kfast.generate(
            brokers=14, partitions=2_000_000, controller=controller, placement="uniform"
        )
        row = central(state, [3], samples=1)
        assert published / 2 <= row["released_us"] / 1e6 <= published * 2, controller


@pytest.mark.parametrize(("requested", "fenced"), [(121, 2244), (144, 2231)])
def test_live_shutdowns_take_as_many_heartbeats(requested, fenced):
    """KRaft 4.1.2 with 5 brokers and 630 partitions on a slow disk, a heartbeat each second."""
    state = kfast.generate(brokers=5, partitions=630, controller="kraft-4.1")
    found = kfast.timeline(
        state, [2], controlled=True, samples=400, profile="live-2core",
        settings={"broker.heartbeat.interval.ms": 1000, "broker.session.timeout.ms": 6000},
    ).measures.values
    took = (found["released_us"] - found["publish_us"]) / 1000
    assert took.min() <= fenced - requested <= took.max()
    assert np.abs(took - (fenced - requested)).min() < 50


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_time_without_a_leader_is_that_of_the_partitions(controller):
    """And far less than after a failure; a broker that leads nothing takes nothing."""
    for seed in range(6):
        state, leaving, _ = random_shutdown(seed, controller)
        found = kfast.timeline(state, leaving, controlled=True, samples=9, seed=seed)
        values, partitions = found.measures.values, found.partitions
        without = partitions["leaderless_us"].combine_chunks()
        assert without.null_count == found.measures.offline_partitions
        assert sum(without.drop_null().to_pylist()) == int(values["leaderless_partition_s"][0])
        assert partitions.num_rows == found.measures.lost_partitions
        failure = kfast.timeline(state, leaving, samples=9, seed=seed).measures
        if found.measures.offline_partitions == failure.offline_partitions:
            most = failure.values["leaderless_partition_s"]
            assert (values["leaderless_partition_s"] <= most).all()
        assert (values["detect_us"] <= values["decide_us"]).all()
        assert (values["decide_us"] <= values["publish_us"]).all()
        assert (values["publish_us"] < values["released_us"]).all()
        assert (values["released_us"] <= values["stopped_us"]).all()
        for row in found.stages.to_pylist():
            assert row["begin_us"] <= row["end_us"], row


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_no_result_falls_when_a_cost_rises(controller):
    state = kfast.generate(brokers=6, partitions=200, controller=controller)
    before = central(state, [1], samples=1)
    for one in Parameters.of().by_name.values():
        after = central(state, [1], samples=1, params={one.name: f"{2 * one.value}{one.unit}"})
        for name in ("decide_us", "led_max_us", "released_us", "stopped_us", "served_p99_us"):
            assert after[name] >= before[name], (one.name, name)


def test_a_broker_that_leads_what_nobody_can_take_asks_again():
    state = kfast.generate(brokers=3, partitions=30, replication_factor=2, controller="zk-3.9")
    alone = kfast.fail_brokers(state, [0]).state
    settings = {"controlled.shutdown.max.retries": 2, "controlled.shutdown.retry.backoff.ms": 700}
    row = central(alone, [1], samples=1, settings=settings)
    assert row["offline_partitions"] > 0
    assert 1_400_000 < row["released_us"] < 1_600_000


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_text_json_and_python_say_the_same(tmp_path, controller):
    state = kfast.generate(brokers=6, partitions=60, racks=3, controller=controller)
    cluster = tmp_path / "cluster.arrow"
    kfast.write(state, cluster)
    row = central(state, [3], samples=20)
    asked = ["timeline", str(cluster), "--brokers", "3", "--controlled", "--samples", "20"]
    text = " ".join(run(*asked).output.split())
    assert f"{row['stopped_us'] / 1e6:.3f} s" in text
    assert "shuts down in order" in text
    document = json.loads(run(*asked, "--format", "json").output)
    assert document["summary"] == row
    assert document["controlled"] is True


@pytest.mark.parametrize(("controller", "ids", "options", "message"), [
    ("kraft-4.1", [], {}, "who shuts down"),
    ("kraft-4.1", [1], {"loss": "host"}, "controlled goes with process"),
    ("kraft-4.1", [0, 1, 2], {}, "nobody is left to lead"),
    ("kraft-4.1", [1], {"controller_fails": True}, "goes without controlled"),
])
def test_what_cannot_be_is_refused(controller, ids, options, message):
    state = kfast.generate(brokers=3, partitions=3, controller=controller)
    with pytest.raises(ArgumentError, match=message):
        kfast.timeline(state, ids, controlled=True, **options)
