"""Partitions of one failure agree with the closed forms of its summary.

Source: docs/timeline.md, section "Partitions".
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import kfast
from kfast.controllers import open_events
from kfast.timelines.partition_stalls import shrunk_instants
from kfast.timelines.progressions import FAR, quantile
from tests.timelines.test_twin import random_failure


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1", "kraft-3.5"])
def test_partitions_have_the_instants_of_the_summary(controller):
    """Every instant has its partition, and every leader and partition is the controller's."""
    n_led = 0
    for seed in range(40):
        state, failing, fails = random_failure(seed, controller)
        found = kfast.timeline(
            state, failing, samples=5, seed=seed,
            controller_fails=fails and (state.is_kraft or len(failing) == 1),
        )
        [row] = found.summary.to_pylist()
        partitions = found.partitions.to_pylist()
        assert len(partitions) == row["lost_partitions"]
        offline = [one for one in partitions if one["led_us"] is None]
        assert len(offline) == row["offline_partitions"]
        assert partitions[: len(offline)] == offline
        instants = [one["led_us"] for one in partitions[len(offline):]]
        assert instants == sorted(instants, reverse=True)
        if instants:
            n_led += len(instants)
            assert (instants[-1], instants[0]) == (row["first_led_us"], row["led_max_us"])
            schedule, recording, times, _ = found.central
            [at] = (schedule.samples == 0).nonzero()[0].tolist()
            for percent in (1, 25, 50, 75, 90, 99):
                place = -(-percent * len(instants) // 100) - 1
                assert int(quantile(times.led, percent)[at]) == instants[::-1][place]
            values = found.measures.values["leaderless_partition_s"]
            assert sum(instants) == int(values[0])
            leaders = leaders_after(state, [event.group for event in recording.events])
            before = leaders_of(state)
            for one in partitions:
                key = one["topic"], one["partition"]
                assert before[key] == one["failed_leader"]
                assert one["failed_leader"] in failing
                if one["led_us"] is not None:
                    assert leaders[key] == one["leader"]
    assert n_led > 200


@pytest.mark.parametrize("loss", ["process", "host"])
def test_clients_of_a_host_that_is_lost_wait_for_their_timeout(loss):
    state = kfast.generate(brokers=6, partitions=60, controller="kraft-4.1")
    found = kfast.timeline(state, [3], samples=5, loss=loss)
    for one in found.partitions.to_pylist():
        known_from = 30_000_000 if loss == "host" else 0
        assert one["reachable_us"] == max(one["led_us"], one["visible_us"], known_from)


def leaders_of(state):
    """Leader of every partition."""
    rows = state.to_tables().partitions.select(["topic", "partition", "leader"]).to_pylist()
    return {(row["topic"], row["partition"]): row["leader"] for row in rows}


def leaders_after(state, groups):
    """Leader of every partition after groups of broker rows failed, one after another."""
    controller = open_events(state.copy())
    controller.start()
    for group in groups:
        controller.brokers_failed(state.broker_id[list(group)].tolist())
    return leaders_of(controller.state)


def test_a_controller_alone_takes_no_leader():
    state = kfast.generate(brokers=3, partitions=6, controller="kraft-4.1")
    found = kfast.timeline(state, controller_fails=True, samples=5)
    assert isinstance(found.partitions, pa.Table)
    assert found.partitions.num_rows == 0


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1", "kraft-3.5"])
def test_stalls_are_those_of_the_summary(controller):
    """Whoever was not led by a broker that fails is stalled from the failure on."""
    n_stalled = 0
    for seed in range(40):
        state, failing, fails = random_failure(seed, controller)
        found = kfast.timeline(
            state, failing, samples=5, seed=seed,
            controller_fails=fails and (state.is_kraft or len(failing) == 1),
        )
        schedule, recording, times, _ = found.central
        [at] = (schedule.samples == 0).nonzero()[0].tolist()
        shrunk = shrunk_instants(recording, times, at)
        followed = shrunk[~recording.lost & (shrunk >= 0)]
        stalls = [one["stalled_us"] for one in found.partitions.to_pylist()
                  if one["led_us"] is not None]
        assert all(stall >= 0 for stall in stalls)
        n_stalled += sum(stall > 0 for stall in stalls)
        total = int(found.measures.values["stalled_partition_s"][0])
        assert int(shrunk[shrunk >= 0].sum()) == int(times.shrunk.sum_until(FAR)[at])
        later = int((recording.lost & (shrunk >= 0)).sum())
        assert later == int(times.shrunk_later.total[at]) >= sum(stall > 0 for stall in stalls)
        # The closed form lets those whose ISR shrinks later be led first in their batch.
        assert int(followed.sum()) + sum(stalls) <= total, seed
        if later == len(stalls) or not later:
            assert int(followed.sum()) + sum(stalls) == total, seed
        if max(shrunk, default=0) > 0:
            assert max(shrunk.max(), times.led.last[at]) == found.measures.values["isr_max_us"][0]
    assert n_stalled > 0


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_the_cause_of_the_last_is_what_binds(controller):
    causes = set()
    for seed in range(20):
        state, failing, _ = random_failure(seed, controller)
        found = kfast.timeline(state, failing, samples=5, seed=seed, settings={
            "zookeeper.session.timeout.ms": 4000, "broker.session.timeout.ms": 2000,
        }, params={"epoch_sync": "900ms"})
        partitions = [one for one in found.partitions.to_pylist() if one["led_us"] is not None]
        if partitions:
            last = {one["cause"] for one in partitions
                    if one["led_us"] == partitions[0]["led_us"]}
            assert found.summary["binding"][0].as_py() in last
        causes |= {one["cause"] for one in partitions}
    assert {"detection", "disk"} <= causes
