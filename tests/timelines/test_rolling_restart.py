"""Rolling restarts: against a plain twin, and what no plan may lose.

Source: docs/timeline.md, section "Rolling restarts".
"""

from __future__ import annotations

import json
import random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.capacity import Restoration
from kfast.controllers import open_events
from kfast.errors import ArgumentError
from kfast.schema import RESTART_SUMS, RESTART_TIMES
from kfast.state.min_isr import partition_min_isr
from kfast.timelines.detection import draw
from kfast.timelines.parameters import Parameters
from kfast.timelines.settings import Settings
from kfast.timelines.shutdown import heartbeat_phases
from kfast.timelines.shutdown_recording import record_shutdown
from tests.capacity.test_placement_search import capacity_of, load_of
from tests.support.cli_run import run
from tests.support.long_tests import share_of
from tests.support.restart_twin import live_members, restart_batch
from tests.support.shutdown_twin import QuorumShutdownTwin, ZooKeeperShutdownTwin

CONTROLLERS = ["zk-3.9", "kraft-4.1", "kraft-3.5"]


def random_plan(seed, controller):
    """A random cluster with a controller, and all its brokers in random batches."""
    chance = random.Random(seed)
    brokers = chance.randint(3, 7)
    state = kfast.generate(
        brokers=brokers, partitions=chance.randint(1, 50), controller=controller, seed=seed,
        replication_factor=chance.randint(1, min(4, brokers)), placement="uniform",
        min_insync_replicas=chance.randint(1, 2),
    )
    if controller.startswith("zk"):
        state.controller_id = chance.randrange(brokers)
    left, batches = chance.sample(range(brokers), brokers), []
    while left:
        size = chance.randint(1, min(3, brokers - 2))
        batches.append(sorted(left[:size]))
        left = left[size:]
    return state, batches


def compare(seed, controller):
    """Compare every sample of a random plan with the twin; returns its batches."""
    state, batches = random_plan(seed, controller)
    settle = seed % 3 * 1_000_000
    found = kfast.timeline_restart(state, batches, settle=f"{settle}us", samples=3, seed=seed)
    assert [list(batch.broker_ids) for batch in found.plan] == batches
    settings, question = Settings(), found.question
    values = draw(Parameters.of(), 0, 3, seed=seed, scenario=0).values
    common = open_events(state.copy(), journal="full")
    common.start()
    begin = [0] * 4
    for number, (ids, batch) in enumerate(zip(batches, found.plan, strict=True)):
        before, up = common.state.records.take(np.arange(state.n_partitions)), common.state.up
        need = dict(enumerate(partition_min_isr(
            common.state, np.arange(state.n_partitions, dtype=np.int32)).tolist()))
        shutdown = record_shutdown(
            common, state.find_brokers(ids).tolist(), attempts=3,
            takes_over=not state.is_kraft and state.controller_id in ids,
        )
        replicas = common.state.replicas.tolist()
        isr_before, isr_after = (
            live_members(before, replicas, alive.tolist()) for alive in (up, common.state.up)
        )
        phases = heartbeat_phases(question, number, state.n_brokers)
        for at in range(4):
            one = {name: int(column[at]) for name, column in values.items()}
            twin = (
                QuorumShutdownTwin(shutdown, one, settings, phases[at].tolist()) if state.is_kraft
                else ZooKeeperShutdownTwin(shutdown, one, settings)
            )
            twin.run()
            expected = restart_batch(twin, begin[at], settle, isr_before, isr_after, need)
            assert [int(batch.values[name][at]) for name in (*RESTART_TIMES, *RESTART_SUMS)] == [
                expected.begin, expected.released, expected.stopped, expected.booted,
                expected.recovered, expected.caught_up, expected.in_sync, expected.end,
                expected.leaderless, expected.offline, expected.under_min,
            ], f"seed {seed} {controller} batch {number} sample {at}"
            begin[at] = expected.end
        common.brokers_returned(ids)
        common.caught_up(ids)
    return found.plan


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_plans_equal_those_of_a_twin(controller):
    batches = [batch for seed in range(20) for batch in compare(seed, controller)]
    assert any(batch.offline_partitions for batch in batches)
    assert any(batch.under_min_partitions for batch in batches)
    assert any(batch.takes_over for batch in batches) == controller.startswith("zk")


@pytest.mark.slow
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_many_plans_equal_those_of_a_twin(controller):
    for seed in share_of(range(1000, 1600)):
        compare(seed, controller)


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_nothing_is_lost_between_batches(controller):
    for seed in range(10):
        state, batches = random_plan(seed, controller)
        digest = state.digest()
        found = kfast.timeline_restart(state, batches, samples=9, seed=seed, settle="7s")
        assert state.digest() == digest
        rows, [total] = found.batches.to_pylist(), found.summary.to_pylist()
        assert sorted(one for row in rows for one in row["brokers"]) == list(range(state.n_brokers))
        assert (found.plan[0].values["starts_us"] == 0).all()
        for one, following in zip(found.plan, found.plan[1:], strict=False):
            assert (one.values["ends_us"] == following.values["starts_us"]).all()
        for one in found.plan:
            instants = np.stack([one.values[name] for name in RESTART_TIMES])
            assert (np.diff(instants, axis=0) >= 0).all()
            assert (one.values["ends_us"] - one.values["in_sync_us"] == 7_000_000).all()
        durations = sum(one.values["ends_us"] - one.values["starts_us"] for one in found.plan)
        assert (found.plan[-1].values["ends_us"] == durations).all()
        assert total["duration_us"] == rows[-1]["ends_us"]
        for name in ("moved_partitions", "offline_partitions", "under_min_partitions"):
            assert total[name] == sum(row[name] for row in rows)
        for name in (*RESTART_TIMES, *RESTART_SUMS):
            for row in rows:
                assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"], name


def test_the_batch_of_the_controller_is_the_last():
    state = kfast.generate(brokers=6, partitions=60, controller="zk-3.9", min_insync_replicas=2)
    state.controller_id = 0
    plan = kfast.restart_plan(state)
    assert 0 in plan.batches["brokers"].to_pylist()[0]
    found = kfast.timeline_restart(state, plan, samples=1)
    assert [batch.takes_over for batch in found.plan] == [False] * (len(found.plan) - 1) + [True]
    # A controller's start is added there: half a second and more.
    last, other = (batch.values["in_sync_us"] - batch.values["caught_up_us"]
                   for batch in (found.plan[-1], found.plan[0]))
    assert last[0] >= other[0]
    slow = kfast.timeline_restart(state, plan, samples=1, params={"failover_fixed": "60s"})
    assert slow.plan[-1].values["in_sync_us"][0] - found.plan[-1].values["in_sync_us"][0] > 40e6


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_no_plan_ends_earlier_where_a_cost_rises(controller):
    state = kfast.generate(brokers=6, partitions=120, controller=controller)
    batches = [[number] for number in range(6)]
    before = kfast.timeline_restart(state, batches, samples=1).summary.to_pylist()[0]
    for one in Parameters.of().by_name.values():
        params = {one.name: f"{2 * one.value}{one.unit}"}
        after = kfast.timeline_restart(state, batches, samples=1, params=params)
        assert after.summary.to_pylist()[0]["duration_us"] >= before["duration_us"], one.name
        if one.name in ("stop", "boot", "recover", "isr_join"):
            assert after.summary.to_pylist()[0]["duration_us"] == (
                before["duration_us"] + 6 * one.value)


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_what_brokers_lack_follows_from_the_time_down(controller):
    """One topic of 20 MB/s, three replicas; 60 MB/s may be received: half of the time down."""
    state = kfast.generate(brokers=3, partitions=1, replication_factor=3, controller=controller)
    capacity = kfast.prepare_capacity(
        state, load_of(state, [20_000_000], [0], [10**15]),
        capacity_of([10**10] * 3, [10**10] * 3, [10**16] * 3),
    )
    batches = [[0], [1], [2]]
    found = kfast.timeline_restart(
        state, batches, capacity=capacity, samples=20,
        restore=Restoration(leader_throttle=60_000_000, follower_throttle=60_000_000),
    )
    for batch in found.plan:
        values = batch.values
        down = values["recovered_us"] - values["released_us"]
        took = values["caught_up_us"] - values["recovered_us"]
        assert (np.abs(2 * took - down) <= 2 + down // 1_000_000).all()
        assert batch.restore_bytes == 20 * int(down[0])
    none = kfast.timeline_restart(state, batches, samples=20)
    assert none.plan[0].restore_bytes is None
    assert "lack nothing" in " ".join(none.assumptions)
    more = found.plan[-1].values["ends_us"] - none.plan[-1].values["ends_us"]
    took = sum(b.values["caught_up_us"] - b.values["recovered_us"] for b in found.plan)
    assert (more == took).all()
    with pytest.raises(ArgumentError, match="never catch up; right is a throttle of 20000001 B/s"):
        kfast.timeline_restart(
            state, batches, capacity=capacity, restore=Restoration(follower_throttle=1_000_000))


def test_wrong_plans_are_refused():
    state = kfast.generate(brokers=4, partitions=8)
    other = kfast.generate(brokers=4, partitions=8)
    for plan, message in (
        ([], "no batch"), ([[]], "batch 1: it is empty"), ([[1], [2, 1]], "in an earlier one too"),
        ([[0, 1, 2, 3]], "nobody is left"), (kfast.restart_plan(other), "of another cluster"),
    ):
        with pytest.raises(ArgumentError, match=message):
            kfast.timeline_restart(state, plan)
    with pytest.raises(ArgumentError, match="restore goes with capacity"):
        kfast.timeline_restart(state, restore=Restoration())
    with pytest.raises(ArgumentError, match="settle is '5'"):
        kfast.timeline_restart(state, settle="5")
    with pytest.raises(ArgumentError, match="give shorter times"):
        kfast.timeline_restart(state, settle="999999999999h")


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_text_json_and_arrow_say_the_same(tmp_path, controller):
    state = kfast.generate(brokers=6, partitions=60, racks=3, controller=controller)
    cluster, rows = tmp_path / "cluster.arrow", tmp_path / "rows.arrow"
    kfast.write(state, cluster)
    found = kfast.timeline_restart(state, samples=20, settle="5s")
    [total] = found.summary.to_pylist()
    asked = ["timeline-restart", str(cluster), "--samples", "20", "--settle", "5s"]
    text = " ".join(run(*asked).output.split())
    assert f"which take {total['duration_us'] / 1e6:.3f} s" in text
    document = json.loads(run(*asked, "--format", "json").output)
    assert document["summary"] == total
    assert document["batches"] == found.batches.to_pylist()
    run(*asked, "-o", str(rows))
    with pa.OSFile(str(rows)) as file, pa.ipc.open_file(file) as table:
        assert table.read_all().to_pylist() == found.batches.to_pylist()
    alone = json.loads(run(*asked, "--one-by-one", "--format", "json").output)
    assert [row["brokers"] for row in alone["batches"]] == [[number] for number in range(6)]
    for wrong, message in (
        (["--throttle", "1MB/s"], "goes with --capacity"),
        (["--capacity", str(cluster)], "go together"),
        (["--one-by-one", "--by-rack"], "--by-rack goes without --one-by-one"),
    ):
        assert message in " ".join(run(*asked, *wrong, code=2).output.split())
