"""`elect` and `fail` on columns, against the elections one by one and the controller."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.testing.single_elections import (
    controlled_shutdown_leader,
    offline_leader,
    preferred_leader,
)

pytestmark = pytest.mark.spark
KNOWN = {
    "offline": offline_leader,
    "preferred_replica": preferred_leader,
    "controlled_shutdown": lambda ar, isr, live: controlled_shutdown_leader(ar, isr, live, ()),
}


def lists(rng, n):
    """Random rows: replicas, isr, live, unclean."""
    rows = []
    for number in range(n):
        ar = rng.permutation(7)[: rng.integers(1, 5)].tolist()
        isr = [b for b in ar if rng.random() < 0.6]
        live = [b for b in range(9) if rng.random() < 0.5]
        rows.append((number, ar, isr, live, bool(rng.random() < 0.5)))
    return rows


@pytest.fixture(scope="module")
def rows():
    return lists(np.random.default_rng(3), 500)


@pytest.fixture(scope="module")
def frame(spark, rows):
    types = "n int, ar array<int>, isr array<int>, live array<int>, unclean boolean"
    return spark.createDataFrame([*rows, (500, None, [1], [1], False)], types).cache()


@pytest.mark.parametrize("batch", [13, 10_000])
@pytest.mark.parametrize("strategy", list(KNOWN))
def test_elect_is_the_election_of_each_row(spark, frame, rows, strategy, batch):
    from kfast.spark.functions import elect

    unclean = "unclean" if strategy == "offline" else None
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
    try:
        chosen = elect("ar", "isr", "live", unclean=unclean, strategy=strategy)
        seen = {r.n: r.e for r in frame.select("n", chosen.alias("e")).collect()}
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert seen.pop(500) is None
    for number, ar, isr, live, allowed in rows:
        near = [b for b in live if b in ar]
        extra = (allowed,) if strategy == "offline" else ()
        choice = KNOWN[strategy](ar, isr, near, *extra)
        got = seen[number]
        if choice.leader is None:
            assert (got.leader, got.leader_epoch, got.state) == (-1, 0, "OfflinePartition")
            assert got.isr == [b for b in ar if b in isr]
        else:
            stays = isr if strategy != "offline" else set(isr) & set(near)
            kept = [choice.leader] if choice.unclean else [b for b in ar if b in stays]
            assert (got.leader, got.leader_epoch, got.isr) == (choice.leader, 1, kept)
            assert got.state == "OnlinePartition"


@pytest.mark.parametrize(("batch", "tasks"), [(13, 7), (10_000, 1)])
def test_fail_is_what_the_controller_does(spark, batch, tasks):
    from kfast.spark import to_dataframe
    from kfast.spark.functions import fail

    state = kfast.generate(brokers=8, partitions=600, seed=9, unclean_topics=0.5)
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_broker_failure([1, 6])
    controller.on_broker_startup([6])
    tables = state.to_tables()
    unclean = {t["topic"]: t["unclean_leader_election"] for t in tables.topics.to_pylist()}
    flags = [unclean[topic] for topic in tables.partitions["topic"].to_pylist()]
    partitions = tables.partitions.append_column("unclean", pa.array(flags, pa.bool_()))
    up = pa.scalar([0, 2, 3, 4, 5, 6, 7], pa.list_(pa.int32()))
    partitions = partitions.append_column("live", pa.repeat(up, partitions.num_rows))
    controller.on_broker_failure([0, 6])
    wanted = {
        (p["topic"], p["partition"]): (p["leader"], p["leader_epoch"], p["isr"])
        for p in state.to_tables().partitions.to_pylist()
    }
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
    try:
        frame = to_dataframe(spark, partitions).repartition(tasks)
        after = fail(
            "replicas", "isr", "leader", [6, 0], live="live", leader_epoch="leader_epoch",
            unclean="unclean",
        )
        seen = frame.select("topic", "partition", after.alias("after")).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    got = {(r.topic, r.partition): (r.after.leader, r.after.leader_epoch, r.after.isr)
           for r in seen}
    assert got == wanted
    assert {r.after.state for r in seen} == {"OnlinePartition", "OfflinePartition"}


def test_without_live_all_are_up(spark):
    from kfast.spark.functions import fail

    frame = spark.createDataFrame(
        [([1, 2], [1, 2], 1), ([2, 1], [2], None)], "ar array<bigint>, isr array<int>, leader int"
    )
    rows = [r.f for r in frame.select(fail("ar", "isr", "leader", [2]).alias("f")).collect()]
    assert [(r.leader, r.leader_epoch, r.isr, r.state) for r in rows] == [
        (1, 1, [1], "OnlinePartition"),
        (-1, 1, [2], "OfflinePartition"),
    ]


def test_constants_stand_for_columns(spark):
    """Who is up, and whether unclean election is allowed, are often the same for all rows."""
    from kfast.spark.functions import elect, fail

    frame = spark.createDataFrame([([1, 2], [1], 1)], "ar array<int>, isr array<int>, leader int")
    columns = [
        elect("ar", "isr", [2, 9], unclean=True), elect("ar", "isr", {2}, unclean=False),
        elect("ar", "isr", []), fail("ar", "isr", "leader", [1], live=[1, 2], unclean=True),
        fail("ar", "isr", "leader", [9], live=range(3)),
    ]
    [row] = frame.select(*columns).collect()
    assert [answer.leader for answer in row] == [2, -1, -1, 2, 1]


def test_arrays_are_taken_as_arrow_may_hold_them(rows):
    """Slices, nulls with something under them, a null before the first list."""
    from kfast.schema import Strategy
    from kfast.spark.functions import elect_batch

    def run(*columns):
        names = ("replicas", "isr", "live", "unclean")
        given = dict(zip(names, columns, strict=True))
        return elect_batch(given, Strategy.OFFLINE, "zk-3.9").to_pylist()

    ids = pa.list_(pa.int32())
    columns = [pa.array(column, ids) for column in list(zip(*rows, strict=True))[1:4]]
    columns.append(pa.array([row[4] for row in rows]))
    whole = run(*columns)
    parts = [run(*(column[at : at + 7] for column in columns)) for at in range(0, 500, 7)]
    assert [row for part in parts for row in part] == whole
    odd = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 6], pa.int32()), pa.array([1, 2, None, 7, 3, 4], pa.int32()),
        mask=pa.array([False, True, False]),
    )
    nobody = pa.nulls(3, pa.bool_())
    first, none, last = run(odd, odd, odd, nobody)
    assert (first["isr"], none, last["isr"]) == ([1, 2], None, [3, 4])
    ar = pa.array([[1, 2], [5, 6], [3, 4]], ids)
    assert run(ar, odd, ar, nobody)[1]["isr"] == [5, 6]
    late = pa.array([[None], [5, 6]], ids)[1:]
    assert run(late, late, late, nobody[:1])[0]["leader"] == 5
    with pytest.raises(kfast.InputError, match="column isr names broker -3; broker ids are 0"):
        run(ar[:1], pa.array([[-3]], ids), ar[:1], nobody[:1])
    with pytest.raises(kfast.InputError, match="column replicas has an array with a null in it"):
        run(pa.array([[1, None]], ids), ar[:1], ar[:1], nobody[:1])
    with pytest.raises(kfast.InputError, match="live is null in some rows"):
        run(pa.array([None, [1]], ids), ar[:2], pa.array([[1], None], ids), nobody[:2])
    with pytest.raises(kfast.InputError, match="column replicas is int; right is array<int>"):
        run(pa.array([1], pa.int32()), ar[:1], ar[:1], nobody[:1])
    with pytest.raises(kfast.InputError, match=r"broker 1 twice.*; the row has replicas .*1"):
        run(pa.array([[1, 1]], ids), pa.array([[1]], ids), ar[:1], nobody[:1])


def test_wrong_arguments_are_refused(spark):
    """At once, by the driver."""
    from kfast.spark.functions import elect, fail

    with pytest.raises(kfast.ArgumentError, match=r"strategy 'best' is unknown to zk-3\.9; al"):
        elect("ar", "isr", "isr", strategy="best")
    with pytest.raises(kfast.ArgumentError, match="controller 'zk-9' is unknown"):
        elect("ar", "isr", "isr", controller="zk-9")
    with pytest.raises(kfast.ArgumentError, match=r"'reassign' is unknown to kraft-4\.1; allow"):
        elect("ar", "isr", "isr", strategy="reassign", controller="kraft-4.1")
    with pytest.raises(kfast.ArgumentError, match=r"zk-3\.9 has no eligible leader repl"):
        elect("ar", "isr", "isr", elr="elr")
    with pytest.raises(kfast.ArgumentError, match="are for clusters with ELRs, and elr is"):
        fail("ar", "isr", "leader", [1], controller="kraft-4.1", min_insync_replicas=2)
    with pytest.raises(kfast.ArgumentError, match="min_insync_replicas"):
        fail("ar", "isr", "leader", [1], controller="kraft-4.1", elr="e", min_insync_replicas=0)
    with pytest.raises(kfast.ArgumentError, match="broker_ids names -2"):
        fail("ar", "isr", "leader", [-2])
    with pytest.raises(kfast.ArgumentError, match="broker_ids is 3; right is a list"):
        fail("ar", "isr", "leader", 3)
    for given in (None, 3, ["a"], [1.5], [[1]], {"3": 1}):
        with pytest.raises(kfast.ArgumentError, match=r"broker_ids is .*; right is a list"):
            fail("ar", "isr", "leader", given)
    with pytest.raises(kfast.ArgumentError, match="broker_ids names 4294967296"):
        fail("ar", "isr", "leader", [1, 1 << 32])
    with pytest.raises(kfast.ArgumentError, match="replicas is None; right is a column"):
        elect(None, "isr", "isr")
    with pytest.raises(kfast.ArgumentError, match="live is 3; right is a column, its name, or a"):
        elect("ar", "isr", 3)
    with pytest.raises(kfast.ArgumentError, match=r"unclean is 1; right is .* True or False"):
        elect("ar", "isr", "isr", unclean=1)
