"""`kfast.timeline_sweep` gives of every failure what `kfast.timeline` gives of it alone.

Source: docs/timeline.md, section "Sweeps".
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import kfast
from kfast.schema import TIMES, TIMES_IN_SECONDS
from tests.support.cli_run import run

CONTROLLERS = ["zk-3.9", "kraft-4.1", "kraft-3.5"]


def cluster(controller):
    """A small cluster with one replica of some topics."""
    return kfast.generate(
        brokers=9, partitions=120, replication_factor=2, racks=3, controller=controller
    )


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_every_row_is_that_of_its_failure_alone(controller, threads):
    state = cluster(controller)
    digest = state.digest()
    for scenarios in (
        kfast.every_broker(state), kfast.every_rack(state), kfast.random_brokers(state, 2, 5, 3),
    ):
        found = kfast.timeline_sweep(state, scenarios, samples=12, seed=7, threads=threads)
        rows = found.summary.to_pylist()
        assert [row["scenario"] for row in rows] == list(range(1, len(scenarios)))
        for row in rows:
            assert row["brokers"] == scenarios.brokers(row["scenario"])
            alone = kfast.timeline(state, row["brokers"], samples=12, seed=7).summary
            assert alone.to_pylist() == [row | {"scenario": 0}]
    assert state.digest() == digest


@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_slice_gives_the_rows_of_its_numbers(controller):
    state = cluster(controller)
    scenarios = kfast.every_broker(state, 2)
    every = kfast.timeline_sweep(state, scenarios.slice(0, 20), samples=5).summary
    parts = [kfast.timeline_sweep(state, scenarios.slice(*part), samples=5).summary
             for part in ((0, 7), (7, 8), (8, 20))]
    assert pa.concat_tables(parts).equals(every)


def test_the_worst_are_those_with_the_most():
    state = cluster("kraft-4.1")
    found = kfast.timeline_sweep(state, kfast.every_broker(state), samples=5)
    rows = found.summary.to_pylist()
    for by in ("led_max_us", "leaderless_partition_s", "lost_partitions"):
        worst = found.worst(by, 3).to_pylist()
        assert worst == sorted(rows, key=lambda row: (-row[by], row["scenario"]))[:3]
    with pytest.raises(kfast.ArgumentError, match="by is 'binding'; right is a column of numbers"):
        found.worst("binding")


def test_where_nobody_fails_nothing_happens():
    state = cluster("zk-3.9")
    nobody = kfast.independent_brokers(state, 0.0, 2, 0)
    for row in kfast.timeline_sweep(state, nobody, samples=5).summary.to_pylist():
        assert row["brokers"] == []
        assert row["lost_partitions"] == 0
        assert all(row[name] is None for name in (*TIMES, *TIMES_IN_SECONDS))


def test_what_cannot_fail_is_refused_before_anything_is_timed():
    state = cluster("kraft-4.1")
    every = kfast.every_broker(state, state.n_brokers)
    with pytest.raises(kfast.ArgumentError, match="scenario 1: every broker that is up fails"):
        kfast.timeline_sweep(state, every)
    scenarios = kfast.every_broker(state)
    later = kfast.fail_brokers(state, [4]).state
    with pytest.raises(kfast.ArgumentError, match="scenario 5: broker 4 is down already"):
        kfast.timeline_sweep(later, scenarios)
    with pytest.raises(kfast.ArgumentError, match="make them from the same state"):
        kfast.timeline_sweep(kfast.generate(brokers=4, partitions=8), scenarios)


@pytest.mark.parametrize("controller", ["zk-3.9", "kraft-4.1"])
def test_text_json_and_arrow_say_the_same(tmp_path, controller):
    state = cluster(controller)
    path, file = tmp_path / "cluster.arrow", tmp_path / "rows.arrow"
    kfast.write(state, path)
    found = kfast.timeline_sweep(state, kfast.every_broker(state), samples=20)
    [worst] = found.worst().to_pylist()
    asked = ["timeline", str(path), "--every", "1", "--samples", "20"]
    text = run(*asked, "--threads", "2").output
    assert f"{worst['led_max_us'] / 1e6:.3f} s" in text
    assert f"scenario {worst['scenario']}: broker {worst['brokers'][0]}" in text
    document = json.loads(run(*asked, "--top", "2", "--format", "json").output)
    assert document["summary"]["led_max_us"] == worst["led_max_us"]
    assert [row["scenario"] for row in document["worst"]] == (
        found.worst(top=2)["scenario"].to_pylist()
    )
    run(*asked, "-o", str(file))
    with pa.OSFile(str(file)) as opened, pa.ipc.open_file(opened) as table:
        assert table.read_all().to_pylist() == found.summary.to_pylist()


def test_one_kind_of_failures_is_given(tmp_path):
    path = tmp_path / "cluster.arrow"
    kfast.write(cluster("kraft-4.1"), path)
    refused = run("timeline", str(path), "--every", "1", "--brokers", "3", code=2)
    assert "give what fails" in refused.output
    refused = run(
        "timeline", str(path), "--every", "1", "--table", "stages", "--format", "csv", code=2
    )
    assert "this answer has no table stages; it has: summary, parameters" in refused.output
