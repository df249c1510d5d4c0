"""A cluster in many files: events on every shard are the events on the whole, digest for digest.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import itertools
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import kfast
import kfast.spark
from kfast.io import SourceTables, read_tables, write
from kfast.state.census import take_census
from tests.support.long_tests import only_whole
from tests.support.sharded import (
    alone,
    counts_alone,
    joined,
    requests_alone,
    split,
)

pytestmark = pytest.mark.spark
EVENTS = [
    "on_controller_failover",
    ("controlled_shutdown", 2),
    ("on_broker_failure", [2]),
    ("on_broker_failure", [5, 9]),
    ("on_broker_startup", [2, 9]),
    ("rebalance_leaders", 5),
    "enable_unclean_leader_election",
    ("on_broker_startup", {5: 77}),
    ("on_broker_failure", [0]),
    ("rebalance_leaders", 10.0),
    ("catch_up", [2, 5, 9]),
    ("elect_leaders", {"type": "unclean"}),
    ("on_broker_failure", [3, 4]),
    ("catch_up", range(11)),
    ("elect_leaders", {"trigger": "ZkTriggered"}),
]


@pytest.fixture(scope="module")
def cluster():
    """Give a cluster that has been through something."""
    state = kfast.generate(
        brokers=11, partitions=900, racks=3, topics=40, seed=8, unclean_topics=0.4,
        min_insync_replicas=2,
    )
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([6, 7, 8])
    controller.on_broker_startup([6, 8])
    controller.on_broker_failure([0, 1, 2, 3, 4, 5])
    controller.on_broker_startup([0, 1, 2, 3, 4, 5])
    assert state.unclean_elections > 0
    return state


@pytest.mark.parametrize(
    ("shards", "tasks", "profile"),
    [
        (1, 1, "zk-3.9"), (7, 2, "zk-3.9"), (7, 7, "zk-2.4"), (5, 2, "zk-1.0"),
        pytest.param(16, 16, "zk-3.9", marks=[pytest.mark.slow, only_whole]),
    ],
)
def test_shards_end_as_the_whole(spark, cluster, tmp_path, shards, tasks, profile):
    if shards == tasks:
        kfast.spark.split(cluster, tmp_path / "in", shards=shards)
    else:
        split(cluster, tmp_path / "in", shards)
    after, outcomes = alone(cluster, EVENTS, "counts", profile)
    done = kfast.spark.fail(
        spark, tmp_path / "in", events=EVENTS, output=tmp_path / "out", tasks=tasks,
        controller=profile,
    )
    assert done.digest == after.digest()
    assert done.errors == tuple(outcome.error for outcome in outcomes)
    assert sum(outcome.altered.size for outcome in outcomes) > 0
    assert done.partitions == after.n_partitions
    census = take_census(after)
    assert done.census == census.counts
    assert [tuple(row.values()) for row in done.counts.to_pylist()] == counts_alone(outcomes)
    assert sorted(tuple(row) for row in done.requests.collect()) == requests_alone(outcomes)
    wanted = census.brokers.select(["broker_id", "leaders", "replicas", "in_sync"])
    assert done.brokers.to_pylist() == wanted.to_pylist()
    leaders = wanted["leaders"].to_numpy()
    assert done.fullest_broker == (int(leaders.argmax()), int(leaders.max()))
    for table, outcome in zip(done.imbalance, (outcomes[5], outcomes[9]), strict=True):
        assert table.to_pylist() == outcome.imbalance.drop_columns("ratio").to_pylist()
    assert joined(done.state).digest() == after.digest()


def test_the_new_state_is_a_dataset_and_full_keeps_every_row(spark, cluster, tmp_path):
    split(cluster, tmp_path / "in", 5)
    first = kfast.spark.fail(spark, tmp_path / "in", broker_ids=[3, 4], output=tmp_path / "one")
    events = [("on_broker_startup", [3]), ("on_broker_failure", [1, 6])]
    second = kfast.spark.fail(
        spark, first.state, events=events, output=tmp_path / "two", journal="full"
    )
    both = ["on_controller_failover", ("on_broker_failure", [3, 4]), *events]
    after, outcomes = alone(cluster, both, "full", "zk-3.9")
    assert second.digest == after.digest()
    for kind in ("transitions", "elections"):
        rows = getattr(second, kind).toArrow()
        for at, outcome in enumerate(outcomes[2:]):
            mine = rows.filter(pc.equal(rows["event"], at))
            own = getattr(outcome, kind)
            actions = [outcome.actions[step] for step in own["step"].to_pylist()]
            # A row of a shard is one of its own file: `test_spark_results.py`.
            names = [name for name in own.column_names if name not in ("step", "partition_row")]
            wanted = [
                (action, *(row[name] for name in names))
                for action, row in zip(actions, own.to_pylist(), strict=True)
            ]
            seen = [tuple(r[name] for name in ["action", *names]) for r in mine.to_pylist()]
            assert sorted(map(repr, seen)) == sorted(map(repr, wanted))


@pytest.mark.parametrize("form", ["parquet-flat", "parquet"])
def test_a_cluster_is_split_into_whole_topics(tmp_path, form):
    """Also one whose rows are in no order, and one that has lost topics."""
    state = kfast.generate(brokers=7, partitions=300, topics=12, seed=2)
    tables = state.to_tables()
    order = pa.array(range(299, -1, -1))
    mixed = kfast.ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions.take(order), tables.cluster
    )
    controller = kfast.Controller(mixed)
    controller.on_controller_failover()
    controller.delete_topics([mixed.topic[3].as_py()])
    controller.acknowledge_deletions()
    for number, (given, shards) in enumerate([(state, 1), (state, 5), (mixed, 4), (state, 99)]):
        files = kfast.spark.split(given, tmp_path / str(number), shards=shards, form=form)
        assert len(files) == min(shards, 12)
        assert joined(tmp_path / str(number)).digest() == given.digest()
        topics = [set(read_tables(name).partitions["topic"].to_pylist()) for name in files]
        assert sum(map(len, topics)) == len(set().union(*topics))
    for message, arguments in (
        ("is not empty", {"shards": 2}), ("shards is 0", {"shards": 0}),
        ("form 'csv' is unknown", {"shards": 2, "form": "csv"}),
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            kfast.spark.split(state, tmp_path / "0", **arguments)


def test_an_election_of_all_fails_for_a_partition_of_another_shard(spark, tmp_path):
    """Section 6.8, `filter` raises; and not when the partition has got a leader in the meantime."""
    state = kfast.generate(brokers=7, partitions=210, topics=21, seed=4)
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([3])
    controller.on_topic_change({"late": {0: [3]}})
    events = [
        ("on_broker_failure", [1]),
        ("on_broker_startup", [1]),
        ("catch_up", [1]),
        "elect_leaders",
        ("on_broker_startup", [3]),
        ("elect_leaders", {"type": "preferred"}),
    ]
    kfast.spark.split(state, tmp_path / "in", shards=7)
    after, outcomes = alone(state, events, "counts", "zk-3.9")
    done = kfast.spark.fail(
        spark, tmp_path / "in", events=events, output=tmp_path / "out", tasks=2
    )
    assert done.errors == (None, None, None, "NoSuchElement", None, None)
    assert done.digest == after.digest()
    assert [tuple(row.values()) for row in done.counts.to_pylist()] == counts_alone(outcomes)
    assert sorted(tuple(row) for row in done.requests.collect()) == requests_alone(outcomes)


def test_a_reassignment_in_another_shard_halts_a_rebalance(spark, tmp_path):
    """Kafka 2.4 rebalances nothing while any partition of the cluster is being reassigned."""
    state = kfast.generate(brokers=7, partitions=210, topics=21, seed=5)
    controller = kfast.Controller(state, profile="zk-2.4")
    controller.on_controller_failover()
    controller.on_broker_failure([1, 2])
    controller.on_broker_startup([1, 2])
    move = state.to_tables().partitions.slice(0, 1).to_pylist()[0]
    target = sorted(set(range(7)) - set(move["replicas"]))[:3]
    controller.reassign_partitions({(move["topic"], move["partition"]): target})
    events = [("catch_up", [1]), ("rebalance_leaders", 5), ("catch_up", range(7)),
              ("rebalance_leaders", 5)]
    kfast.spark.split(state, tmp_path / "in", shards=5)
    after, outcomes = alone(state, events, "counts", "zk-2.4")
    assert [outcome.counts.leaders_moved > 0 for outcome in outcomes[1::2]] == [False, True]
    done = kfast.spark.fail(
        spark, tmp_path / "in", events=events, output=tmp_path / "out", tasks=2, controller="zk-2.4"
    )
    assert done.digest == after.digest()
    assert [tuple(row.values()) for row in done.counts.to_pylist()] == counts_alone(outcomes)
    assert sorted(tuple(row) for row in done.requests.collect()) == requests_alone(outcomes)


def test_a_topic_in_two_shards_is_found_at_the_end_too(spark, cluster, tmp_path):
    """Where `_cluster.arrow` says what is common, shards are looked at only once."""
    files = kfast.spark.split(cluster, tmp_path / "in", shards=2)
    shutil.copy(files[0], tmp_path / "in" / "zzz.parquet")
    with pytest.raises(kfast.InputError, match=r"stands in .*0\.parquet and in .*zzz\.parquet"):
        kfast.spark.fail(spark, tmp_path / "in", broker_ids=[1], output=tmp_path / "out", tasks=2)
    assert not (tmp_path / "out" / "state" / "_cluster.arrow").exists()


def test_files_that_list_no_brokers_are_taken_together(spark, tmp_path):
    """Describe texts: a broker that seems down in one file is up where another shows it in sync."""
    state = kfast.generate(brokers=6, partitions=60, topics=6, seed=3)
    texts = tmp_path / "in"
    texts.mkdir()
    whole = tmp_path / "whole.txt"
    kfast.write(state, whole)
    lines = whole.read_text().splitlines(keepends=True)
    for number in range(6):
        name = f"topic-{number}"
        mine = [line for line in lines if name in line]
        (texts / f"{number}.txt").write_text("".join(mine))
    after, _ = alone(
        kfast.read(whole), ["on_controller_failover", ("on_broker_failure", [1])], "off", "zk-3.9"
    )
    done = kfast.spark.fail(spark, texts, broker_ids=[1], output=tmp_path / "out", tasks=3)
    assert done.digest == after.digest()


def test_what_cannot_be_is_refused_before_anything_runs(spark, cluster, tmp_path):
    split(cluster, tmp_path / "in", 2)
    (tmp_path / "busy").mkdir()
    (tmp_path / "busy" / "notes.txt").write_text("mine")

    def run(**arguments):
        given = {"output": tmp_path / "out", **arguments}
        kfast.spark.fail(spark, tmp_path / "in", **given)

    for message, arguments in (
        ("give the ids of brokers that fail, or events", {}),
        ("broker 7 is not registered", {"broker_ids": [7]}),
        ("'log_dirs' is not one of a sharded cluster", {"events": ["log_dirs"]}),
        ("controlled_shutdown takes int", {"events": [("controlled_shutdown", [1])]}),
        ("takes a dict of type, trigger;", {"events": [("elect_leaders", {"topics": []})]}),
        ("type 'best' is unknown", {"events": [("elect_leaders", {"type": "best"})]}),
        ("broker 99", {"events": [("catch_up", [99])]}),
        ("holds something else: notes.txt", {"broker_ids": [1], "output": tmp_path / "busy"}),
        ("holds the dataset", {"broker_ids": [1], "output": tmp_path / "in"}),
        ("journal 'all' is unknown", {"broker_ids": [1], "journal": "all"}),
        ("form 'csv' is unknown", {"broker_ids": [1], "form": "csv"}),
        ("tasks is 0", {"broker_ids": [1], "tasks": 0}),
    ):
        with pytest.raises(kfast.ArgumentError, match=message):
            run(**arguments)
    assert not (tmp_path / "out").exists()


def test_brokers_of_texts_are_up_as_in_one_text_of_all(tmp_path):
    """Shown in one file, taken for down in another, only being added in the third."""
    from kfast.spark import dataset

    files = {
        "added": "Replicas: 1,2,3,4\tIsr: 1\tAdding Replicas: 2,3,4\tRemoving Replicas: ",
        "lags": "Replicas: 1,2,3\tIsr: 1",
        "leads": "Replicas: 1,2\tIsr: 1,2",
    }
    texts = {name: f"Topic: {name}\tPartition: 0\tLeader: 1\t{files[name]}\n" for name in files}
    for names in itertools.permutations(texts):
        looked = []
        for name in names:
            (tmp_path / name).write_text(texts[name])
            looked.append(dataset._inspect(str(tmp_path / name)))
        merged = dataset._merge_brokers(looked)
        whole = read_tables(("all", "".join(texts.values()).encode())).brokers
        assert merged.to_pylist() == whole.to_pylist()
        assert whole["registered"].to_pylist() == [True, True, False, True]


def test_shards_of_different_clusters_are_refused(cluster, tmp_path):
    from kfast.spark import dataset

    split(cluster, tmp_path / "in", 2)
    files = sorted((tmp_path / "in").iterdir())

    def look():
        looked = [dataset._inspect(str(name)) for name in files]
        dataset.check_topics([str(name) for name in files], [one.topics for one in looked])
        dataset._merge_clusters(looked)
        return dataset._merge_brokers(looked)

    assert look().num_rows == 11
    tables = read_tables(files[1])
    epochs = pa.array([5] + [0] * 10, pa.int64())
    other = tables.brokers.set_column(4, "epoch", epochs)
    write(SourceTables("", tables.partitions, tables.topics, other, tables.cluster), files[1])
    with pytest.raises(kfast.InputError, match=r"broker 0 is .* must agree"):
        look()
    settings = tables.cluster.set_column(4, "default_min_insync_replicas", pa.array([2], "int32"))
    write(SourceTables("", tables.partitions, tables.topics, tables.brokers, settings), files[1])
    with pytest.raises(kfast.InputError, match=r"the cluster is .* must agree"):
        look()
    pq.write_table(pq.read_table(files[0]), files[1])
    with pytest.raises(kfast.InputError, match=r"stands in .*0\.parquet and in .*1\.parquet"):
        look()
