"""Timelines over Spark: the rows of `kfast.timeline_sweep`, for any number of tasks."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest

import kfast
import kfast.spark
from kfast.schema import FLEET_TIMELINES, TIMELINE_SWEEP
from tests.timelines.test_refused_bytes import random_load

pytestmark = pytest.mark.spark

OPTIONS = {
    "samples": 9, "seed": 4, "params": {"epoch_sync": "800us,500us,2ms"},
    "settings": {"broker.session.timeout.ms": 6000}, "loss": "host",
}


@pytest.fixture(scope="module", params=["zk-3.9", "kraft-4.1"])
def cluster(request):
    return kfast.generate(
        brokers=8, partitions=150, replication_factor=2, racks=2, controller=request.param
    )


def rows_of(frame):
    return frame.toArrow().sort_by("scenario").to_pylist()


@pytest.mark.parametrize("tasks", [1, 3, 12, None])
def test_the_rows_are_those_of_one_machine(spark, cluster, tasks):
    digest = cluster.digest()
    for scenarios in (kfast.every_broker(cluster), kfast.every_rack(cluster).slice(1, 3)):
        wanted = kfast.timeline_sweep(cluster, scenarios, **OPTIONS).summary.to_pylist()
        found = kfast.spark.timeline_sweep(spark, cluster, scenarios, **OPTIONS, tasks=tasks)
        assert rows_of(found) == wanted
        assert found.columns == TIMELINE_SWEEP.schema.names
    assert cluster.digest() == digest


def test_bytes_are_those_of_one_machine(spark, cluster):
    load = random_load(cluster, 3)
    every = kfast.every_broker(cluster)
    wanted = kfast.timeline_sweep(cluster, every, samples=5, load=load).summary.to_pylist()
    found = kfast.spark.timeline_sweep(spark, cluster, every, samples=5, load=load, tasks=3)
    assert rows_of(found) == wanted
    assert all(row["leaderless_bytes"] > 0 for row in wanted)


def test_a_file_and_a_spec_give_the_same(spark, cluster, tmp_path):
    kfast.write(cluster, tmp_path / "cluster.arrow")
    scenarios = kfast.random_brokers(cluster, 2, 6, 3)
    wanted = kfast.timeline_sweep(cluster, scenarios, samples=5).summary.to_pylist()
    spec = ("random_brokers", {"k": 2, "n": 6, "seed": 3})
    found = kfast.spark.timeline_sweep(
        spark, str(tmp_path / "cluster.arrow"), spec, samples=5, tasks=2
    )
    assert rows_of(found) == wanted


def test_what_cannot_be_is_refused_before_anything_runs(spark, cluster):
    every = kfast.every_broker(cluster, cluster.n_brokers)
    with pytest.raises(kfast.ArgumentError, match="scenario 1: every broker that is up fails"):
        kfast.spark.timeline_sweep(spark, cluster, every)
    for options, refusal in (
        ({"params": {"epoch_sink": "1ms"}}, "parameter 'epoch_sink' is unknown"),
        ({"settings": {"ticktime": 5}}, "setting 'ticktime' is unknown"),
        ({"samples": 0}, "samples is 0"), ({"tasks": 0}, "tasks"),
    ):
        with pytest.raises(kfast.ArgumentError, match=refusal):
            kfast.spark.timeline_sweep(spark, cluster, "every_broker", **options)
        with pytest.raises(kfast.ArgumentError, match=refusal):
            kfast.spark.timeline_fleet(spark, ".", "every_broker", **options)


@pytest.mark.parametrize("tasks", [1, 5])
def test_every_cluster_of_a_fleet_has_its_rows(spark, tmp_path, tasks):
    states = {}
    for name, brokers in (("a", 4), ("b", 7)):
        states[name] = kfast.generate(
            brokers=brokers, partitions=60, racks=2, controller="kraft-4.1", seed=brokers
        )
        kfast.write(states[name], tmp_path / f"{name}.arrow")
    (tmp_path / "empty.txt").write_text("")
    one = kfast.generate(brokers=1, partitions=3, replication_factor=1, controller="zk-3.9")
    kfast.write(one, tmp_path / "one.arrow")
    frame = kfast.spark.timeline_fleet(spark, tmp_path, "every_broker", samples=5, tasks=tasks)
    table = frame.toArrow()
    assert table.schema.names == FLEET_TIMELINES.schema.names
    good = table.filter(pc.is_null(table["error"]))
    for name, state in states.items():
        source = str(tmp_path / f"{name}.arrow")
        wanted = kfast.timeline_sweep(state, kfast.every_broker(state), samples=5).summary
        rows = good.filter(pc.equal(good["source"], source)).sort_by("scenario")
        assert rows.drop_columns(["source", "error", "partitions"]).to_pylist() == (
            wanted.to_pylist()
        )
        assert set(rows["partitions"].to_pylist()) == {60}
    bad = {row["source"]: row for row in table.to_pylist() if row["error"] is not None}
    assert set(bad) == {str(tmp_path / "empty.txt"), str(tmp_path / "one.arrow")}
    assert "every broker that is up fails" in bad[str(tmp_path / "one.arrow")]["error"]
    assert all(value is None for row in bad.values() for name, value in row.items()
               if name not in ("source", "error"))


def test_a_fleet_may_be_a_frame(spark, cluster, tmp_path):
    path = tmp_path / "cluster.arrow"
    kfast.write(cluster, path)
    frame = spark.createDataFrame([("one", bytearray(path.read_bytes()))],
                                  "cluster string, content binary")
    table = kfast.spark.timeline_fleet(spark, frame, "every_rack", samples=5).toArrow()
    wanted = kfast.timeline_sweep(cluster, kfast.every_rack(cluster), samples=5).summary
    rows = table.sort_by("scenario")
    assert rows.drop_columns(["source", "error", "partitions"]).to_pylist() == wanted.to_pylist()
    assert set(rows["source"].to_pylist()) == {"one"}
