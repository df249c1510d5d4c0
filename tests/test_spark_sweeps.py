"""Sweeps over Spark: the rows of `kfast.sweep`, for any number of tasks."""

from __future__ import annotations

import pickle

import pytest

import kfast
from tests.deadly import Deadly

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


def rows(frame):
    return frame.toArrow().sort_by("scenario").combine_chunks()


@pytest.mark.parametrize("tasks", [1, 2, 7, 16, None])
def test_the_rows_are_those_of_one_machine(spark, cluster, tasks):
    import kfast.spark

    scenarios = kfast.random_brokers(cluster, k=3, n=5000, seed=6)
    wanted = kfast.sweep(cluster, scenarios).combine_chunks()
    seen = rows(kfast.spark.sweep(spark, cluster, scenarios, tasks=tasks))
    assert seen.cast(wanted.schema).equals(wanted)


@pytest.mark.parametrize("batch", ["13", "10000"])
def test_slices_counts_and_vectors_are_passed_on(spark, cluster, batch):
    import kfast.spark

    scenarios = kfast.every_broker(cluster, k=2).slice(3, 40)
    wanted = kfast.sweep(cluster, scenarios, counts=["unclean", "offline"])
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
    try:
        plan = kfast.sweeps.plan.prepare_sweep(cluster)
        frame = kfast.spark.sweep(
            spark, plan, scenarios, counts=["unclean", "offline"], vectors="words", tasks=3
        )
        assert rows(frame).cast(wanted.schema).equals(wanted.combine_chunks())
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_a_path_is_read_and_scenarios_are_rows(spark, cluster, tmp_path):
    import kfast.spark

    path = tmp_path / "cluster.arrow"
    kfast.write(cluster, path)
    frame = kfast.spark.sweep(spark, path, lambda state: kfast.every_rack(state))
    scenarios = kfast.every_rack(cluster)
    wanted = kfast.sweep(cluster, scenarios)
    assert rows(frame).cast(wanted.schema).equals(wanted.combine_chunks())
    listed = kfast.spark.scenario_rows(spark, scenarios, tasks=3).toArrow()
    order = [("scenario", "ascending"), ("broker", "ascending")]
    assert listed.sort_by(order).to_pylist() == scenarios.to_table().sort_by(order).to_pylist()


def test_a_worker_killed_in_mid_task_changes_nothing(spark, cluster, tmp_path):
    import kfast.spark

    plain = kfast.random_brokers(cluster, k=2, n=2000, seed=9)
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    marker = tmp_path / "died"
    deadly = pickle.loads(pickle.dumps(Deadly(**fields, marker=str(marker))))
    seen = rows(kfast.spark.sweep(spark, cluster, deadly, tasks=2))
    assert marker.exists()
    wanted = kfast.sweep(cluster, plain)
    assert seen.cast(wanted.schema).equals(wanted.combine_chunks())


def test_what_cannot_be_is_refused(spark, cluster):
    import kfast.spark

    scenarios = kfast.every_broker(cluster)
    other = kfast.generate(brokers=3, partitions=5)
    for message, arguments in (
        ("of a cluster with 12 brokers", (other, scenarios)),
        ("the cluster a SweepPlan: make them", (kfast.sweeps.plan.prepare_sweep(cluster), len)),
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            kfast.spark.sweep(spark, *arguments)
    with pytest.raises(kfast.ArgumentError, match="tasks is 0"):
        kfast.spark.sweep(spark, cluster, scenarios, tasks=0)
    with pytest.raises(kfast.ArgumentError, match="counts is"):
        kfast.spark.sweep(spark, cluster, scenarios, counts=["onfline"])
