"""A sweep of a cluster in many files has the rows of one machine."""

from __future__ import annotations

import numpy as np
import pytest

import kfast
import kfast.spark
from kfast.controllers import open_events
from kfast.spark.sharded_sweeps import is_dataset, prepare_dataset
from kfast.sweeps import prepare_sweep
from tests.support.sharded import split, without_session

pytestmark = pytest.mark.spark


def clusters():
    """Give states of both modes after a failure, with and without ELRs."""
    for seed in range(3):
        state = kfast.generate(
            brokers=12, partitions=400, topics=23, racks=3, seed=seed, placement="uniform",
            unclean_topics=0.3, min_insync_replicas=1 + seed % 2,
        )
        events = open_events(state, journal="off")
        events.start()
        events.brokers_failed([1, 2])
        yield state
    for elr in (False, True):
        state = kfast.generate(
            brokers=12, partitions=400, topics=23, racks=3, seed=7, controller="kraft-4.1", elr=elr,
            min_insync_replicas=2, unclean_topics=0.3,
        )
        events = open_events(state, journal="off")
        events.start()
        events.brokers_failed([1, 2])
        yield state


@pytest.mark.parametrize("shards", [1, 7])
def test_plans_of_shards_are_that_of_the_cluster(tmp_path, monkeypatch, shards):
    without_session(monkeypatch)
    monkeypatch.setattr(
        "kfast.spark.sharded_sweeps.gather", lambda _, n, run: [*map(run, range(n))]
    )
    for number, state in enumerate(clusters()):
        folder = tmp_path / str(number)
        split(state, folder, shards)
        assert is_dataset(folder)
        assert not is_dataset(folder / "0.parquet")
        plan, one = prepare_dataset(None, folder), prepare_sweep(state)
        assert (plan.n_partitions, plan.n_rows) == (one.n_partitions, one.n_rows)
        np.testing.assert_array_equal(plan.up, one.up)
        drawn = kfast.random_brokers(state, k=5, n=300, seed=1)
        for scenarios in (kfast.every_broker(state, 2), drawn):
            for method in ("dense", "sparse"):
                assert kfast.sweep(plan, scenarios, method=method).equals(
                    kfast.sweep(one, scenarios, method=method))
            assert kfast.sweep_brokers(plan, scenarios).equals(kfast.sweep_brokers(one, scenarios))


def test_a_folder_is_swept_by_tasks(spark, tmp_path):
    state = kfast.generate(brokers=12, partitions=400, topics=23, racks=3, seed=1)
    kfast.spark.split(state, tmp_path / "cluster", shards=5)
    scenarios = kfast.every_broker(state, 2)
    wanted = kfast.sweep(state, scenarios)
    for spec in (scenarios, ("every_broker", {"k": 2})):
        rows = kfast.spark.sweep(spark, tmp_path / "cluster", spec, tasks=3)
        rows = rows.orderBy("scenario").toArrow()
        assert rows.cast(wanted.schema).equals(wanted)
    with pytest.raises(kfast.ArgumentError, match="many files, of which a sweep by partition is"):
        kfast.spark.sweep_partitions(spark, str(tmp_path / "cluster"), scenarios)
