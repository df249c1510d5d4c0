"""Bytes that are refused: rates times waits, partition by partition.

Source: docs/timeline.md, section "Loads".
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import kfast
from kfast.schema import REFUSED_BYTES
from kfast.timelines.parameters import Parameters
from kfast.timelines.refused_bytes import leaderless_bytes, refused_bytes
from tests.capacity.test_placement_search import load_of
from tests.support.cli_run import run
from tests.support.timeline_twin import up
from tests.timelines.test_shutdown import random_shutdown
from tests.timelines.test_twin import random_failure, samples_with_twins

CONTROLLERS = ["zk-3.9", "kraft-4.1", "kraft-3.5"]
RANGES = ("", "_low", "_high")
ALL_RANGES = [f"{name}{end}" for name in REFUSED_BYTES for end in RANGES]
FREE = dict.fromkeys(Parameters.of().by_name, "0us")
"""Nothing costs anything: partitions are led again when the failure is found."""


def random_load(state, seed):
    """A load of random bytes in, of a few bytes or of very many."""
    chance = np.random.default_rng(seed)
    bytes_in = (2.0 ** chance.uniform(0, 39, state.n_partitions)).astype(np.int64)
    return load_of(state, bytes_in, bytes_in, bytes_in)


def by_hand(rate, wait_us):
    """Bytes of one partition."""
    return (rate * wait_us + 500_000) // 1_000_000


def rates_of(state, load):
    """Bytes in of every partition."""
    rows = state.to_tables().partitions.select(["topic", "partition"]).to_pylist()
    return {(row["topic"], row["partition"]): rate
            for row, rate in zip(rows, load.bytes_in.tolist(), strict=True)}


@pytest.mark.parametrize("horizon", [10**13, 8_600_000])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_sample_is_that_of_a_heap_that_moves_every_partition(controller, horizon):
    """A rate for each leader: which of its partitions goes first then makes no difference."""
    total = 0
    for seed in range(12):
        for recording, times, at, twin in samples_with_twins(seed, controller):
            leader = recording.final_leader.astype(np.int64)
            bytes_in = np.zeros(recording.state.n_partitions, np.int64)
            bytes_in[recording.rows] = 1 + 99_991**2 * (leader + 1)
            expected = sum(
                by_hand(int(bytes_in[row]), min(one.led[1] + up(one.led[2]), horizon))
                for row, one in twin.partitions.items() if one.led
            )
            found = leaderless_bytes(bytes_in, recording, times, horizon)
            assert int(found[at]) == expected, (seed, at)
            total += expected
    assert total > 0


@pytest.mark.parametrize("controlled", [False, True])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_the_sum_over_partitions_is_that_of_the_summary(controller, controlled):
    n_refused = 0
    for seed in range(12):
        make = random_shutdown if controlled else random_failure
        state, failing, _ = make(seed, controller)
        load, digest = random_load(state, seed), state.digest()
        found = kfast.timeline(
            state, failing, samples=5, seed=seed, controlled=controlled, load=load
        )
        rates, refused = rates_of(state, load), 0
        for one in found.partitions.to_pylist():
            if one["leaderless_us"] is None:
                assert one["leaderless_bytes"] is None
                continue
            rate = rates[one["topic"], one["partition"]]
            assert one["leaderless_bytes"] == by_hand(rate, one["leaderless_us"])
            refused += one["leaderless_bytes"]
        [row] = found.summary.to_pylist()
        for name in REFUSED_BYTES:
            assert row[f"{name}_low"] <= row[name] <= row[f"{name}_high"]
        assert row["leaderless_bytes"] == refused
        assert found.measures.values["leaderless_bytes"].size == 6
        n_refused += refused > 0
        # Without loads all else is the same.
        without = kfast.timeline(state, failing, samples=5, seed=seed, controlled=controlled)
        assert without.summary.to_pylist() == [row | dict.fromkeys(ALL_RANGES)]
        assert without.partitions["leaderless_bytes"].null_count == without.partitions.num_rows
        assert state.digest() == digest
    assert n_refused > 5


@pytest.fixture
def state():
    """Replicas on 1, 2; on 2, 0; on 0, 1; on 1, 0: of broker 1 all but the second."""
    return kfast.generate(
        brokers=3, partitions=4, topics=1, replication_factor=2, min_insync_replicas=2,
        controller="kraft-4.1",
    )


@pytest.mark.parametrize(("horizon", "refused", "under_min"), [
    # Found gone after 8.5625 s: 8562.5 bytes, and 25.6875.
    ("1h", [8563, 26], 3600 * (1000 + 500 + 3)),
    ("5s", [5000, 15], 5 * (1000 + 500 + 3)),
])
def test_a_rate_times_a_wait_by_hand(state, horizon, refused, under_min):
    """Nothing has a cost, so that partitions are led again when the failure is found."""
    load = load_of(state, [1000, 70, 500, 3], [0] * 4, [0] * 4)
    found = kfast.timeline(state, [1], params=FREE, horizon=horizon, load=load)
    by_partition = {one["partition"]: one["leaderless_bytes"]
                    for one in found.partitions.to_pylist()}
    assert by_partition == dict(zip((0, 3), refused, strict=True))
    [row] = found.summary.to_pylist()
    assert row["leaderless_bytes"] == sum(refused)
    assert [row[f"under_min_bytes{end}"] for end in RANGES] == [under_min] * 3


def test_partitions_that_stay_offline_are_left_out(state):
    """As in `leaderless_partition_s`; under min ISR they count until the horizon."""
    alone = kfast.generate(
        brokers=3, partitions=3, topics=1, replication_factor=1, controller="kraft-4.1"
    )
    load = load_of(alone, [1000] * 3, [0] * 3, [0] * 3)
    found = kfast.timeline(alone, [1], load=load)
    [row] = found.summary.to_pylist()
    assert (row["offline_partitions"], row["leaderless_partition_s"]) == (1, 0)
    assert (row["leaderless_bytes"], row["under_min_bytes"]) == (0, 3_600_000)
    assert found.partitions["leaderless_bytes"].to_pylist() == [None]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_every_row_of_a_sweep_is_that_of_its_failure_alone(controller, threads):
    state = kfast.generate(brokers=6, partitions=60, racks=3, controller=controller)
    load = random_load(state, 1)
    sweep = kfast.timeline_sweep(
        state, kfast.every_rack(state), samples=12, load=load, threads=threads
    )
    for row in sweep.summary.to_pylist():
        alone = kfast.timeline(state, row["brokers"], samples=12, load=load).summary
        assert alone.to_pylist() == [row | {"scenario": 0}]
        assert row["leaderless_bytes"] > 0


def test_variants_differ_in_what_they_refuse(state):
    load = load_of(state, [1000, 70, 500, 3], [0] * 4, [0] * 4)
    found = kfast.timeline_compare(state, [1], params=FREE, samples=5, load=load)
    by_measure = {row["measure"]: row for row in found.differences.to_pylist()}
    row = by_measure["leaderless_bytes"]
    # ZooKeeper mode, the first, finds the failure after 16 s.
    assert (row["reference_value"], row["value"]) == (16 * 1003, 8563 + 26)
    assert row["difference"] == 8563 + 26 - 16 * 1003
    assert by_measure["under_min_bytes"]["difference"] == 0


def test_loads_that_do_not_fit_are_refused(state):
    other = kfast.generate(brokers=3, partitions=5, topics=1)
    with pytest.raises(kfast.ArgumentError, match="the load is of another cluster"):
        kfast.timeline(state, [1], load=load_of(other, [1] * 5, [0] * 5, [0] * 5))
    with pytest.raises(kfast.ArgumentError, match="load is of type int"):
        kfast.timeline(state, [1], load=3)
    load = load_of(state, [2**40 - 1] * 4, [0] * 4, [0] * 4)
    kfast.timeline(state, [1], load=load, samples=5)
    with pytest.raises(kfast.ArgumentError, match=r"bytes, and sums are below 2\^62"):
        kfast.timeline(state, [1], load=load, samples=5, horizon="2000000s")


def test_no_product_is_too_large():
    rate, wait = 2**40 - 1, 1_000_000 * 2**20 + 999_999
    found = refused_bytes(np.array([rate, 1]), np.array([[wait, wait], [0, 500_000]]))
    assert found.tolist() == [[by_hand(rate, wait), by_hand(1, wait)], [0, 1]]


def test_text_json_and_table_say_the_same(tmp_path, state):
    cluster, loads = tmp_path / "cluster.arrow", tmp_path / "loads.csv"
    kfast.write(state, cluster)
    loads.write_text("topic,partition,bytes_in\n" + "".join(
        f"topic-0,{partition},{rate}\n" for partition, rate in enumerate((10**6, 70, 500, 3000))
    ))
    asked = ["timeline", str(cluster), "--brokers", "1", "--horizon", "10s"]
    loaded = [*asked, "--load", str(loads)]
    row = json.loads(run(*loaded, "--format", "json").output)["summary"]
    assert row["under_min_bytes"] == 10 * (10**6 + 500 + 3000)
    csv = run(*loaded, "--table", "partitions", "--format", "csv").output.splitlines()
    place = csv[0].split(",").index('"leaderless_bytes"')
    assert sum(int(line.split(",")[place]) for line in csv[1:]) == row["leaderless_bytes"]
    text = run(*loaded).output
    assert "bytes refused under min ISR with acks=all, until the horizon" in text
    assert "refused" not in run(*asked).output
    assert "Partitions without a leader refuse 8.6 MB" in text
    run(*loaded, "--fail-on", "leaderless_bytes>1000", code=4)
    assert "--window goes with --load" in run(*asked, "--window", "p95", code=2).output
    every = run("timeline", str(cluster), "--every", "1", "--load", str(loads)).output
    assert "refused" in every
