"""Capacity sweeps over Spark: the rows of `kfast.capacity_sweep`, for any number of tasks."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

import kfast
import kfast.spark

pytestmark = pytest.mark.spark

MB = 10**6

LOAD = pa.table({
    "topic": pa.array(["topic-0", "topic-1", "topic-2"]),
    "bytes_in": pa.array([40_000_000, 1_234_567, 89], pa.int64()),
    "bytes_out": pa.array([90_000_000.5, 0.0, 12.0]),
    "disk_bytes": pa.array([None, 5_000_000_000, None], pa.int64()),
})
CAPACITY = pa.table({
    "broker_id": pa.array([-1, 3], pa.int32()),
    "nw_in": pa.array([50_000_000, 40_000_000], pa.int64()),
    "nw_out": pa.array([60_000_000, None], pa.int64()),
})


@pytest.fixture(scope="module")
def cluster():
    return kfast.generate(
        brokers=12, partitions=900, topics=3, racks=3, seed=5, min_insync_replicas=2
    )


@pytest.fixture(scope="module")
def plan(cluster):
    generator = np.random.default_rng(7)
    rows = pa.table({
        "topic": cluster.topic.take(pa.array(cluster.topic_row)),
        "partition": pa.array(cluster.partition),
        "bytes_in": pa.array(generator.integers(0, 10**6, cluster.n_partitions)),
        "bytes_out": pa.array(generator.integers(0, 10**6, cluster.n_partitions)),
    })
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    load = kfast.partition_load(
        cluster, kfast.read_load(("loads", sink.getvalue().to_pybytes()), window="mean")
    )
    rows = b"broker_id,nw_in,nw_out\n-1,300000000,400000000\n"
    capacity = kfast.broker_capacity(cluster, kfast.read_capacity(("brokers", rows)))
    return kfast.prepare_capacity(cluster, load, capacity)


def scenarios_of(name, cluster):
    return {
        "pairs": kfast.every_broker(cluster, 2),
        "racks": kfast.every_rack(cluster),
        "random": kfast.random_brokers(cluster, k=4, n=3000, seed=6),
    }[name]


@pytest.mark.parametrize("name", ["pairs", "racks", "random"])
@pytest.mark.parametrize(("tasks", "method"), [(1, "terms"), (7, "pass"), (None, None)])
def test_the_rows_are_those_of_one_machine(spark, cluster, plan, name, tasks, method):
    scenarios = scenarios_of(name, cluster)
    wanted = kfast.capacity_sweep(plan, scenarios).combine_chunks()
    seen = kfast.spark.capacity_sweep(spark, plan, scenarios, method=method, tasks=tasks)
    rows = seen.toArrow().sort_by("scenario").combine_chunks()
    assert rows.cast(wanted.schema).equals(wanted)


@pytest.mark.parametrize(("mode", "throttle"), [("return", 119 * MB), ("redistribute", 60 * MB)])
def test_times_of_restorations_are_those_of_one_machine(spark, cluster, plan, mode, throttle):
    """Stuck brokers and all; what is wrong is refused before anything runs."""
    scenarios = kfast.random_brokers(cluster, k=2, n=60, seed=6)
    settings = kfast.Restoration(mode, follower_throttle=throttle)
    wanted = kfast.restoration(plan, scenarios, settings).combine_chunks()
    assert 0 < wanted["throttle_needed"].null_count < wanted.num_rows
    seen = kfast.spark.capacity_sweep(spark, plan, scenarios, restoration=settings, tasks=3)
    rows = seen.toArrow().sort_by("scenario").combine_chunks()
    assert rows.cast(wanted.schema).equals(wanted)
    with pytest.raises(kfast.ArgumentError, match="restoration is of type str"):
        kfast.spark.capacity_sweep(spark, plan, scenarios, restoration=mode)


def test_a_plan_measures_the_same_after_it_travelled(cluster, plan):
    scenarios = scenarios_of("random", cluster)
    buffers = []
    head = pickle.dumps(plan, protocol=5, buffer_callback=buffers.append)
    travelled = pickle.loads(head, buffers=[bytes(buffer) for buffer in buffers])
    for method in ("terms", "pass"):
        assert kfast.capacity_sweep(travelled, scenarios, method=method).equals(
            kfast.capacity_sweep(plan, scenarios)
        )


def test_loads_and_capacities_may_be_dataframes(spark, cluster):
    frame = spark.createDataFrame(LOAD)
    tables = kfast.spark.load_from_dataframe(frame, window="p95 of 1 h")
    load = kfast.partition_load(cluster, tables)
    by_topic = np.bincount(cluster.topic_row, load.bytes_in, minlength=3).astype(np.int64)
    names = cluster.topic.to_pylist()
    assert dict(zip(names, by_topic.tolist(), strict=True)) == dict(
        zip(LOAD["topic"].to_pylist(), LOAD["bytes_in"].to_pylist(), strict=True)
    )
    assert load.window == "p95 of 1 h"
    table = kfast.spark.capacity_from_dataframe(spark.createDataFrame(CAPACITY))
    capacity = kfast.broker_capacity(cluster, table)
    at = cluster.broker_id.tolist().index(3)
    assert capacity.nw_in[at] == 40_000_000
    assert set(capacity.nw_out.tolist()) == {60_000_000}


def test_what_is_wrong_is_refused_before_anything_runs(spark, cluster, plan):
    scenarios = kfast.every_broker(cluster)
    with pytest.raises(kfast.ArgumentError, match="method is 'sum'; allowed are terms, pass"):
        kfast.spark.capacity_sweep(spark, plan, scenarios, method="sum")
    with pytest.raises(kfast.ArgumentError, match="tasks"):
        kfast.spark.capacity_sweep(spark, plan, scenarios, tasks=0)
    with pytest.raises(kfast.ArgumentError, match=r"frame is .*a DataFrame of Spark is needed"):
        kfast.spark.load_from_dataframe(LOAD)
    for at, name, column, message in (
        (1, "bytes_in", pa.array([1, -2, 3]), "load DataFrame: row 1: found bytes_in -2"),
        (2, "bytes_out", pa.array([1.0, 2.0, float("nan")]), "row 2: found bytes_out nan"),
        (0, "topic", pa.array(["a", None, "b"]), "row 1: found no topic; right is a topic"),
        (0, "name", LOAD["topic"], "load DataFrame: no column topic or broker_id; found "),
    ):
        wrong = spark.createDataFrame(LOAD.set_column(at, name, column))
        with pytest.raises(kfast.InputError, match=message):
            kfast.spark.load_from_dataframe(wrong)
