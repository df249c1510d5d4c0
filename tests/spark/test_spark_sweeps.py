"""Sweeps over Spark: the rows of `kfast.sweep`, for any number of tasks."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pyarrow as pa
import pytest

import kfast
import kfast.spark
from tests.analysis.test_sweep_kraft import state_of
from tests.support.deadly import Deadly
from tests.support.kraft_clusters import RandomCluster
from tests.support.worker_memory import workers_with

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster():
    state = kfast.generate(
        brokers=12, partitions=3000, racks=3, seed=2, min_insync_replicas=2, unclean_topics=0.2
    )
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([4])
    return state


def same(seen, wanted, keys):
    """Whether two tables have the same rows, in any order, bit for bit."""
    order = [(key, "ascending") for key in keys]
    return (
        seen.sort_by(order).combine_chunks().cast(wanted.schema)
        .equals(wanted.sort_by(order).combine_chunks())
    )


def rows(frame):
    return frame.toArrow().sort_by("scenario").combine_chunks()


@pytest.mark.parametrize("tasks", [1, 2, 7, 16, None])
def test_the_rows_are_those_of_one_machine(spark, cluster, tasks):
    scenarios = kfast.random_brokers(cluster, k=3, n=5000, seed=6)
    wanted = kfast.sweep(cluster, scenarios).combine_chunks()
    seen = rows(kfast.spark.sweep(spark, cluster, scenarios, tasks=tasks))
    assert seen.cast(wanted.schema).equals(wanted)


@pytest.mark.parametrize(("most", "own"), [(13, 50), (500, 16_384), (10_000, 1000)])
def test_batches_of_any_size_have_the_same_rows(spark, cluster, monkeypatch, most, own):
    """Spark's limit cuts what comes to the driver, kfast's own what goes to the JVM."""
    from kfast.spark import sweeps

    scenarios = kfast.random_brokers(cluster, k=3, n=1300, seed=8)
    wanted = kfast.sweep(cluster, scenarios).combine_chunks()
    monkeypatch.setattr(sweeps, "BATCH_SCENARIOS", own)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(most))
    try:
        seen = kfast.spark.sweep(spark, cluster, scenarios, tasks=2).toArrow()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert max(batch.num_rows for batch in seen.to_batches()) == min(most, 651)
    assert seen.sort_by("scenario").combine_chunks().cast(wanted.schema).equals(wanted)


@pytest.mark.parametrize("own", [50, 700, 1000, 16_384])
def test_batches_are_merged_to_their_size(own):
    from kfast.spark.sweep_tasks import merge_batches

    rows = pa.table({"n": range(2301)})
    batches = list(merge_batches(rows.to_batches(max_chunksize=500), own))
    assert pa.Table.from_batches(batches).equals(rows)
    assert max(batch.num_rows for batch in batches) <= own
    assert len(batches) == {50: 47, 700: 5, 1000: 3, 16_384: 1}[own]


@pytest.mark.parametrize("vectors", [None, "words"])
def test_slices_counts_and_vectors_are_passed_on(spark, cluster, vectors):
    scenarios = kfast.every_broker(cluster, k=2).slice(3, 40)
    wanted = kfast.sweep(cluster, scenarios, counts=["unclean", "offline"])
    plan = kfast.prepare_sweep(cluster)
    frame = kfast.spark.sweep(
        spark, plan, scenarios, counts=["unclean", "offline"], vectors=vectors, tasks=3
    )
    assert rows(frame).cast(wanted.schema).equals(wanted.combine_chunks())


@pytest.mark.parametrize("tasks", [1, 2, 7, 16, None])
def test_partitions_and_brokers_are_counted_as_on_one_machine(spark, cluster, monkeypatch, tasks):
    from kfast.spark import sweeps

    monkeypatch.setattr(sweeps, "BLOCK_PARTITIONS", 1000)
    monkeypatch.setattr(sweeps, "BLOCK_BROKERS", 5)
    scenarios = kfast.independent_brokers(cluster, 0.3, 3000, seed=4).slice(1, 2901)
    wanted = kfast.sweep_partitions(cluster, scenarios)
    wanted = wanted.set_column(0, "topic", wanted["topic"].cast(pa.string()))
    seen = kfast.spark.sweep_partitions(spark, cluster, scenarios, tasks=tasks).toArrow()
    assert same(seen, wanted, ["topic", "partition"])
    assert sum(seen["scenarios_offline"].to_pylist()) > 0
    loads = kfast.spark.sweep_brokers(spark, cluster, scenarios, tasks=tasks).toArrow()
    assert same(loads, kfast.sweep_brokers(cluster, scenarios), ["broker_id"])
    assert loads["leaders_mean"].null_count == 1


def test_kraft_clusters_are_swept_as_on_one_machine(spark):
    """Failover orders with an ELR, and tables where the order of fencings decides."""
    state = state_of(RandomCluster(56, "kraft-4.3", elr=True))
    plan = kfast.prepare_sweep(state)
    assert plan.tables.size
    scenarios = kfast.independent_brokers(state, 0.4, 1000, seed=4)
    wanted = kfast.sweep(plan, scenarios).combine_chunks()
    assert rows(kfast.spark.sweep(spark, plan, scenarios, tasks=3)).cast(wanted.schema) == wanted
    partitions = kfast.sweep_partitions(plan, scenarios)
    partitions = partitions.set_column(0, "topic", partitions["topic"].cast(pa.string()))
    seen = kfast.spark.sweep_partitions(spark, plan, scenarios, tasks=3).toArrow()
    assert same(seen, partitions, ["topic", "partition"])
    loads = kfast.spark.sweep_brokers(spark, plan, scenarios, tasks=3).toArrow()
    assert same(loads, kfast.sweep_brokers(plan, scenarios), ["broker_id"])


def test_what_tasks_are_sent_grows_with_the_cluster(monkeypatch):
    """Names of partitions went to workers as slices, each of which took all names with it."""
    from kfast.spark import sweeps

    sent = []
    monkeypatch.setattr(sweeps, "send", lambda _, content: sent.append(content))
    monkeypatch.setattr(sweeps, "_sum_by_block", lambda *_: None)
    state = kfast.generate(brokers=6, partitions=3 * sweeps.BLOCK_PARTITIONS)
    sweeps.sweep_partitions(None, state, kfast.every_broker(state), tasks=1)
    names = sent[-1]
    buffers = []
    pickle.dumps(names, protocol=5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) < 1.1 * names.nbytes


def test_details_of_no_scenario_and_of_no_partition_are_there(spark, cluster):
    none = kfast.every_broker(cluster).slice(0, 0)
    wanted = kfast.sweep_brokers(cluster, none)
    assert same(kfast.spark.sweep_brokers(spark, cluster, none).toArrow(), wanted, ["broker_id"])
    tables = cluster.to_tables()
    empty = kfast.ClusterState.from_tables(
        tables.brokers, tables.topics.slice(0, 0), tables.partitions.slice(0, 0)
    )
    frame = kfast.spark.sweep_partitions(spark, empty, kfast.every_broker(empty), tasks=1)
    assert frame.toArrow().num_rows == 0


def test_a_path_is_read_and_scenarios_are_rows(spark, cluster, tmp_path):
    path = tmp_path / "cluster.arrow"
    kfast.write(cluster, path)
    frame = kfast.spark.sweep(spark, path, lambda state: kfast.every_rack(state))
    scenarios = kfast.every_rack(cluster)
    wanted = kfast.sweep(cluster, scenarios)
    assert rows(frame).cast(wanted.schema).equals(wanted.combine_chunks())
    listed = kfast.spark.scenario_rows(spark, scenarios, tasks=3).toArrow()
    order = [("scenario", "ascending"), ("broker", "ascending")]
    assert listed.sort_by(order).to_pylist() == scenarios.to_table().sort_by(order).to_pylist()


def test_a_worker_killed_in_mid_task_changes_nothing(spark, cluster, tmp_path, monkeypatch):
    from kfast.spark import sweeps

    plain = kfast.random_brokers(cluster, k=2, n=12_000, seed=9)
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    marker = tmp_path / "died"
    deadly = pickle.loads(pickle.dumps(Deadly(**fields, marker=str(marker))))
    monkeypatch.setattr(sweeps, "BATCH_SCENARIOS", 1000)
    seen = rows(kfast.spark.sweep(spark, cluster, deadly, tasks=2))
    assert marker.exists(), "no worker died"
    wanted = kfast.sweep(cluster, plain)
    assert seen.cast(wanted.schema).equals(wanted.combine_chunks())


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_worker_needs_little_memory_beside_what_all_share(spark):
    state = kfast.generate(brokers=300, partitions=300_000, racks=3, seed=1)
    scenarios = kfast.random_brokers(state, k=3, n=20_000, seed=1)
    plan = kfast.prepare_sweep(state)
    for ask in (kfast.spark.sweep, kfast.spark.sweep_brokers, kfast.spark.sweep_partitions):
        assert ask(spark, plan, scenarios, tasks=2).count()
        workers = workers_with("kfast-")
        assert workers
        for peak, mapped in workers.values():
            assert mapped > 4 * 3 * 300_000, "the brokers of all partitions are read where they lie"
            assert peak - mapped < 300e6


@pytest.mark.parametrize(
    ("question", "make"),
    [("every_rack", kfast.every_rack),
     (("every_broker", {"k": 2}), lambda state: kfast.every_broker(state, k=2))],
)
def test_a_sweep_takes_the_questions_of_a_fleet(cluster, question, make):
    """Without a session: what they are asked of is all that `_prepare` gives."""
    from kfast.spark.sweeps import _prepare

    _, scenarios = _prepare(None, cluster, question, None)
    assert scenarios.to_table().equals(make(cluster).to_table())


def test_wrong_arguments_are_named_before_anything_runs(cluster):
    scenarios = kfast.every_broker(cluster)
    for ask in (kfast.spark.sweep, kfast.spark.sweep_partitions, kfast.spark.sweep_brokers):
        for message, arguments in (
            ("'all_racks' are unknown; allowed: bursts", (cluster, "all_racks")),
            ("arguments are k", (cluster, ("every_broker", {"size": 2}))),
            ("k of every_broker is '2': a whole number", (cluster, ("every_broker", {"k": "2"}))),
            (r"scenarios is 7: right is the name of a maker", (cluster, 7)),
            (r"function that gave 12: it must give Scenarios", (cluster, lambda state: 12)),
            ("state is a kfast Combinations: a ClusterState, a Sweep", (scenarios, cluster)),
            ("state is a pyarrow Table: a ClusterState", (scenarios.to_table(), scenarios)),
            ("'every_rack', and the state a SweepPlan: make them",
             (kfast.prepare_sweep(cluster), "every_rack")),
        ):
            with pytest.raises(kfast.ArgumentError, match=message):
                ask(None, *arguments)
    with pytest.raises(kfast.ArgumentError, match="scenarios is 'x': Scenarios are needed"):
        kfast.spark.scenario_rows(None, "x")


def test_what_cannot_be_is_refused(spark, cluster):
    scenarios = kfast.every_broker(cluster)
    other = kfast.generate(brokers=3, partitions=5)
    for message, arguments in (
        ("of a cluster with 12 brokers", (other, scenarios)),
        ("the state a SweepPlan: make them", (kfast.prepare_sweep(cluster), len)),
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            kfast.spark.sweep(spark, *arguments)
    with pytest.raises(kfast.ArgumentError, match="tasks is 0"):
        kfast.spark.sweep(spark, cluster, scenarios, tasks=0)
    with pytest.raises(kfast.ArgumentError, match="tasks is 0"):
        kfast.spark.scenario_rows(spark, scenarios, tasks=0)
    with pytest.raises(kfast.ArgumentError, match="counts is"):
        kfast.spark.sweep(spark, cluster, scenarios, counts=["onfline"])


@pytest.mark.parametrize(
    ("seconds", "task_seconds", "tasks"),
    [(0, 2, 1), (0.2, 2, 1), (1, 2, 2), (4, 2, 8), (30, 2, 15), (100, 2, 50), (100, 10, 10)],
)
def test_no_task_is_short_and_none_is_long(seconds, task_seconds, tasks):
    from kfast.spark.workers import count_tasks

    assert count_tasks(seconds, task_seconds) == tasks


def test_arrays_that_are_sent_lie_aligned(spark):
    """A worker's views of the file are as aligned as arrays in memory; empty ones too."""
    from kfast.spark.sweep_tasks import open_sent, send

    arrays = [np.arange(n, dtype=dtype) for n in (0, 1, 7) for dtype in (np.uint8, np.int64)]
    received = open_sent(send(spark, arrays))
    for sent, array in zip(arrays, received, strict=True):
        assert array.flags.aligned
        assert array.tolist() == sent.tolist()
