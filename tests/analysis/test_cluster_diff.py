"""`kfast.diff`: two clusters matched by name, against plain Python and the controllers."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast import ArgumentError, ClusterState
from kfast.analysis.cluster_diff import DIFF_METRICS
from kfast.controllers import open_events
from kfast.schema import DIFF_MEASURES, DIFF_PARTITION_CHANGES
from kfast.state.kraft_releases import RELEASES
from kfast.state.mutators import widen
from kfast.sweeps.single_failures import SINGLE_FAILURE_METRICS, SingleFailures
from tests.analysis.test_impact import random_cluster
from tests.analysis.test_sweep_kraft import state_of as kraft_state_of
from tests.support.diff_reference import diff_of
from tests.support.kraft_clusters import RandomCluster

pytestmark = pytest.mark.kernels

TABLES = ("settings", "brokers", "topics", "partitions", "measures", "worst", "newly_fragile",
          "fragile_brokers")


def cluster(seed, kind):
    """A random cluster: one placed as Kafka places, of ZooKeeper or KRaft, or an odd one."""
    if kind == "odd":
        return random_cluster(seed)[1]
    state = kfast.generate(
        brokers=7, partitions=40, topics=6, racks=3, min_insync_replicas=2, seed=seed)
    state.topic_id = pa.array([f"{row:022}" for row in range(state.n_topics)])
    if kind == "kraft":
        release = sorted(RELEASES)[seed % len(RELEASES)]
        state = kfast.with_controller(state, release)
        state = kfast.with_controller(state, "kraft-4.2", elr=True) if seed % 2 else state
    return after_events(state, Random(seed)) if seed % 3 else state


def starts(state):
    """Whether a controller can start on the cluster."""
    return open_events(state.copy(), journal="off").start()[-1].outcome.error is None


def after_events(state, generator):
    """The cluster after some brokers failed and returned, and a plan began or was carried out."""
    state = state.copy()
    events = open_events(state, journal="off")
    events.start()
    up = state.broker_id[state.up].tolist()
    failing = generator.sample(up, generator.randint(0, min(2, len(up))))
    if failing:
        events.brokers_failed(tuple(failing))
    if failing[1:]:
        events.brokers_returned(tuple(failing[1:]))
        events.caught_up(failing[1:])
    ids = state.broker_id.tolist()
    plan = {
        (row["topic"], row["partition"]): generator.sample(ids, min(len(ids), 3))
        for row in state.to_tables().partitions.to_pylist()
        if row["replicas"] and generator.random() < 0.15
    }
    if plan:
        state = kfast.execute_plan(state, plan, pending=generator.random() < 0.5).state
    return state


def edited(state, generator):
    """The cluster with topics gone, new, recreated and grown, and rows in another order."""
    tables = state.to_tables()
    topics, partitions = tables.topics.to_pylist(), tables.partitions.to_pylist()
    gone, renamed, recreated = (generator.choice(topics)["topic"] for _ in range(3))
    if gone != renamed:
        topics = [row for row in topics if row["topic"] != gone]
        partitions = [row for row in partitions if row["topic"] != gone]
    for row in topics:
        if row["topic"] == recreated and row["topic_id"]:
            row["topic_id"] = "A" * 22
        if row["topic"] == renamed:
            row["topic_id"] = None
    for row in topics + partitions:
        if row["topic"] == renamed:
            row["topic"] = "renamed"
    generator.shuffle(topics)
    generator.shuffle(partitions)
    brokers = tables.brokers.to_pylist()
    for row in brokers:
        if generator.random() < 0.2:
            row["rack"] = "elsewhere"
    brokers.append({**brokers[-1], "broker_id": 99})
    cluster = tables.cluster.to_pylist()
    return ClusterState.from_tables(*(
        pa.Table.from_pylist(rows, schema=table.schema)
        for rows, table in ((brokers, tables.brokers), (topics, tables.topics),
                            (partitions, tables.partitions), (cluster, tables.cluster))
    ))


def check(old, new):
    """A diff says what plain Python says."""
    diff, expected = kfast.diff(old, new), diff_of(old, new)
    summary = diff.summary
    for name in DIFF_METRICS:
        if name not in ("settings_changed", "worse", "better"):
            assert summary[name] == expected["counts"][name], name
    rows = diff.partitions.to_pylist()
    assert {
        (row["topic"], row["partition"]): {n for n in DIFF_PARTITION_CHANGES if row[n]}
        for row in rows
    } == expected["changes"]
    assert {row["topic"]: row["change"] for row in diff.topics.to_pylist()} == expected["topics"]
    assert set(diff.brokers["broker_id"].to_pylist()) == expected["brokers"]
    newly = diff.newly_fragile.to_pylist()
    for name in SINGLE_FAILURE_METRICS:
        assert {
            (row["topic"], row["partition"]): row[f"newly_{name}_by"] for row in newly
            if row[f"newly_{name}_by"]
        } == expected["newly"][name]
        both = diff.before.measures, diff.after.measures
        assert [one[f"any_broker_{name}"] for one in both] == expected["any_broker"][name]
    assert [row["topic"] for row in diff.topics.to_pylist()] == sorted(expected["topics"])
    offline = [row["offline"] and not row["offline_before"] for row in rows]
    under = [row["under_min_isr"] and not row["under_min_isr_before"] for row in rows]
    keys = [(not o, not u, row["topic"].encode(), row["partition"])
            for o, u, row in zip(offline, under, rows, strict=True)]
    assert keys == sorted(keys)
    return diff


@pytest.mark.parametrize("kind", ["zk", "kraft", "odd"])
@pytest.mark.parametrize("seed", range(8))
def test_a_diff_says_what_plain_python_says(seed, kind):
    """After failures, returns and plans; then also with other topics, racks and orders of rows."""
    generator = Random(seed)
    old = cluster(seed, kind)
    new = after_events(old, generator)
    check(old, new)
    other = edited(new, generator)
    check(old, other)
    check(other, old)


@pytest.mark.parametrize("kind", ["zk", "kraft", "odd"])
def test_two_equal_clusters_have_no_difference(kind):
    """Whatever the order of rows and the layout."""
    old = cluster(1, kind)
    wide = old.copy()
    widen(wide)
    tables = old.to_tables()
    order = np.random.default_rng(1).permutation(tables.partitions.num_rows)
    shuffled = ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions.take(pa.array(order)), tables.cluster)
    for new in (old.copy(), wide, shuffled):
        diff = kfast.diff(old, new)
        assert diff.is_empty
        assert all(getattr(diff, name).num_rows == 0 for name in TABLES
                   if name not in ("measures", "worst"))
        measures = diff.measures
        assert measures["partitions_before"].equals(measures["partitions"])
        assert measures["measure"].to_pylist() == [*DIFF_MEASURES]


@pytest.mark.parametrize("is_kraft", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_a_shape_fails_as_each_of_its_partitions(seed, is_kraft):
    """`SingleFailures` counts what `kfast.sweep_partitions` counts (`count_partitions`)."""
    release = sorted(RELEASES)[seed % len(RELEASES)]
    state = (
        kraft_state_of(RandomCluster(seed, release, None)) if is_kraft else random_cluster(seed)[1])
    if not starts(state) or not state.up.any():
        return
    plan, scenarios = kfast.prepare_sweep(state), kfast.every_broker(state)
    failures = SingleFailures.of(plan)
    counts = kfast.sweep_partitions(plan, scenarios)
    rows = counts["partition_row"].to_numpy()
    for name in SINGLE_FAILURE_METRICS:
        holds, n = failures.holds(name)[rows], counts[f"scenarios_{name}"].to_numpy()
        ids = failures.broker_ids(name, rows, where=np.ones(rows.size, np.bool_))
        takers = np.array([len(brokers) for brokers in ids.to_pylist()], np.int64)
        # Where it holds anyway, a failure may also end it: the controller then elects again.
        assert takers.tolist() == np.where(holds, 0, n).tolist()
        assert (failures.fragile(name)[rows] == (takers > 0)).all()


def test_settings_of_the_cluster_are_compared():
    """Features, configurations of brokers, defaults and the controller."""
    old = kfast.with_controller(cluster(1, "zk"), "kraft-4.0", elr=False)
    new = kfast.with_controller(old, "kraft-4.1", elr=True)
    rows = {row["setting"]: (row["value_before"], row["value"])
            for row in kfast.diff(old, new).settings.to_pylist()}
    assert rows["controller"] == ("kraft-4.0", "kraft-4.1")
    assert "feature eligible.leader.replicas.version" in rows
    old = cluster(1, "zk")
    new = old.copy()
    new.default_min_insync_replicas = 3
    [row] = kfast.diff(old, new).settings.to_pylist()
    assert row == {
        "setting": "min.insync.replicas by default", "value_before": "1", "value": "3"}


def test_racks_that_one_cluster_does_not_tell_are_not_compared():
    """A describe text has none: that is no change."""
    old = cluster(1, "zk")
    tables = old.to_tables()
    at = tables.brokers.column_names.index("rack")
    brokers = tables.brokers.set_column(at, "rack", pa.nulls(old.n_brokers, pa.string()))
    new = ClusterState.from_tables(brokers, tables.topics, tables.partitions, tables.cluster)
    diff = kfast.diff(old, new)
    assert (diff.not_compared, diff.summary["racks_changed"]) == (["racks"], 0)
    worst = {row["kind"]: row for row in diff.worst.to_pylist()}
    assert (worst["rack"]["brokers"], worst["rack"]["rack"]) == (None, None)
    assert worst["rack"]["rack_before"] is not None
    assert diff.summary["worst_rack_offline"] is None


def test_a_cluster_that_is_down_has_no_failure_to_be_counted():
    """Nobody can fail; everything is offline."""
    old = kfast.generate(brokers=3, partitions=4, seed=1)
    new = kfast.fail_brokers(old, [0, 1, 2]).state
    diff = kfast.diff(old, new)
    assert (diff.summary["newly_offline"], diff.summary["worst_broker_offline"]) == (4, None)
    assert diff.summary["newly_fragile"] == diff.newly_fragile.num_rows == 0
    assert diff.worse[0] == "offline"


def test_two_clusters_that_are_not_one_are_refused():
    """Other controllers, other topics, no clusters."""
    old = cluster(1, "zk")
    with pytest.raises(ArgumentError, match=r"old is run by zk-3.9 and new by kraft-4.1"):
        kfast.diff(old, kfast.with_controller(old, "kraft-4.1"))
    tables = old.to_tables()
    names = [f"x-{name}" for name in tables.partitions["topic"].to_pylist()]
    other = ClusterState.from_tables(
        tables.brokers, None, tables.partitions.set_column(0, "topic", pa.array(names)))
    with pytest.raises(ArgumentError, match=r"no topic of old .6 topics, such as .* two clusters"):
        kfast.diff(old, other)
    with pytest.raises(ArgumentError, match="new"):
        kfast.diff(old, tables)


def test_threads_make_no_difference():
    """Every table is the same."""
    old = cluster(3, "zk")
    new = after_events(old, Random(3))
    one, two = kfast.diff(old, new), kfast.diff(old, new, threads=2)
    assert all(getattr(one, name).equals(getattr(two, name)) for name in TABLES)
    assert repr(one).startswith("<Diff: 7 partitions_changed, 7 replicas_changed, ")
