"""`elect` and `fail` on columns of KRaft partitions, against a controller of each row alone.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast.schema import Strategy
from kfast.state.kraft_releases import RELEASES

pytestmark = pytest.mark.spark

IDS = pa.list_(pa.int32())
TYPES = {
    "replicas": IDS, "isr": IDS, "live": IDS, "leader": pa.int32(), "leader_epoch": pa.int32(),
    "unclean": pa.bool_(), "elr": IDS, "last_known_elr": IDS, "min_insync_replicas": pa.int32(),
}
OF_ELR = ("elr", "last_known_elr", "min_insync_replicas")
BROKERS = range(7)
OTHER = 9
"""A broker that is no replica."""

FAILING = [1, 4]
SETTINGS = [
    (name, elr) for name, release in RELEASES.items() for elr in (False, True)[: 1 + release.elr]
]


def random_rows(n: int, elr: bool, seed: int = 1) -> list[dict]:
    """Partitions as a cluster may have them: live leaders, or nobody."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        replicas = rng.permutation(7)[: rng.integers(1, 5)].tolist()
        live = [b for b in BROKERS if rng.random() < 0.7]
        isr = [b for b in replicas if b in live and rng.random() < 0.6]
        if not isr and (not elr or rng.random() < 0.3):
            isr = [b for b in replicas if b in live][:1] or replicas[:1]
        rng.shuffle(isr)
        leaders = [b for b in isr if b in live]
        leader = int(rng.choice(leaders)) if leaders else -1
        rows.append({
            "replicas": replicas, "isr": isr, "live": live, "leader": leader,
            "leader_epoch": int(rng.integers(0, 9)), "unclean": bool(rng.random() < 0.4),
            "elr": [b for b in replicas if b not in isr and rng.random() < 0.4] if elr else [],
            "last_known_elr": [replicas[-1]] if elr and leader < 0 and rng.random() < 0.7 else [],
            "min_insync_replicas": int(rng.integers(1, 4)),
        })
    return rows


def columns_of(rows: list[dict], elr: bool) -> dict[str, pa.Array]:
    """Rows as columns; those of ELRs only where they are on."""
    return {
        name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()
        if elr or name not in OF_ELR
    }


def alone(row: dict, controller: str, elr: bool) -> kfast.QuorumController:
    """The controller of a cluster with one partition; brokers that are not live are fenced."""
    settings = kfast.with_controller(kfast.ClusterState.from_tables(), controller, elr=elr or None)
    cluster = settings.to_tables().cluster.drop_columns(["configurations"])
    brokers = pa.table({
        "broker_id": pa.array([*BROKERS, OTHER], pa.int32()),
        "fenced": [broker not in row["live"] for broker in [*BROKERS, OTHER]],
    })
    topics = pa.table({
        "topic": ["t"], "unclean_leader_election": [row["unclean"]],
        "min_insync_replicas": pa.array([row["min_insync_replicas"]], pa.int32()),
    })
    given = columns_of([row], elr)
    partition = {name: given[name] for name in ("replicas", "isr", "leader", "leader_epoch")}
    partition |= {name: given[name] for name in ("elr", "last_known_elr") if elr}
    partition |= {"topic": pa.array(["t"]), "partition": pa.array([0], pa.int32())}
    return kfast.QuorumController(
        kfast.ClusterState.from_tables(brokers, topics, pa.table(partition), cluster)
    )


def fields_of(controller: kfast.QuorumController, elr: bool) -> dict:
    """The fields that an answer should have."""
    [row] = controller.state.to_tables().partitions.to_pylist()
    names = ["leader", "leader_epoch", "isr", *(["elr", "last_known_elr"] if elr else [])]
    state = "OnlinePartition" if row["leader"] >= 0 else "OfflinePartition"
    return {name: row[name] for name in names} | {"state": state}


def after_failure(row: dict, controller: str, elr: bool) -> dict:
    """Brokers that are live fail one after another."""
    quorum = alone(row, controller, elr)
    quorum.activate()
    for broker in FAILING:
        if broker in row["live"]:
            quorum.fence_broker(broker)
    return fields_of(quorum, elr)


@pytest.mark.parametrize(("controller", "elr"), SETTINGS)
def test_fail_is_what_the_controller_of_each_row_does(controller, elr):
    from kfast.spark.functions import fail_batch

    rows = random_rows(40, elr)
    columns = columns_of(rows, elr)
    answers = fail_batch(columns, FAILING, controller).to_pylist()
    assert answers == [after_failure(row, controller, elr) for row in rows]
    assert {answer["state"] for answer in answers} == {"OnlinePartition", "OfflinePartition"}
    for size in (1, 13):
        parts = [
            fail_batch({n: c[at : at + size] for n, c in columns.items()}, FAILING, controller)
            for at in range(0, len(rows), size)
        ]
        assert [row for part in parts for row in part.to_pylist()] == answers


@pytest.mark.parametrize(("controller", "elr"), [
    ("kraft-3.3", False), ("kraft-4.0", True), ("kraft-4.1", False), ("kraft-4.1", True),
])
@pytest.mark.parametrize(
    "strategy", [Strategy.OFFLINE, Strategy.PREFERRED_REPLICA, Strategy.OFFLINE_ALLOW_UNCLEAN]
)
def test_elect_is_the_election_of_each_row(controller, elr, strategy):
    """When another broker is unfenced (section 6.2), or on demand (section 7.2)."""
    from kfast.spark.functions import elect_batch

    rows = [row | {"leader": -1, "leader_epoch": 0} for row in random_rows(60, elr)]
    columns = columns_of(rows, elr)
    answers = elect_batch(columns, strategy, controller).to_pylist()
    for row, answer in zip(rows, answers, strict=True):
        quorum = alone(row, controller, elr)
        quorum.activate()
        if strategy is Strategy.OFFLINE:
            quorum.unfence_broker(OTHER)
        else:
            preferred = strategy is Strategy.PREFERRED_REPLICA
            quorum.elect_leaders(type="preferred" if preferred else "unclean")
        assert answer == fields_of(quorum, elr), row
    assert 0 < sum(answer["leader"] >= 0 for answer in answers) < len(answers)


def test_more_rows_than_an_operation_may_write_are_elected():
    """A batch is no operation of a user: the limit of 10 000 records is not for it."""
    from kfast.spark.functions import elect_batch

    n = 10_001
    columns = {name: pa.array([[1, 2]] * n, IDS) for name in ("replicas", "isr", "live")}
    answer = elect_batch(columns, Strategy.PREFERRED_REPLICA, "kraft-4.1")
    assert answer.field("leader").unique().to_pylist() == [1]


def test_a_row_by_which_the_controller_fails_is_refused():
    """Its leader is no replica, for which Kafka asks in vain (section 3)."""
    from kfast.spark.functions import elect_batch, fail_batch

    columns = {
        "replicas": pa.array([[1, 2], [1, 2]], IDS), "isr": pa.array([[1, 2], [9, 1]], IDS),
        "leader": pa.array([1, 9], pa.int32()),
    }
    message = "partition row 1 cannot be built; the row has replicas .*1, 2"
    with pytest.raises(kfast.InputError, match=message.replace(", ", r",\s*")):
        fail_batch(columns, [1], "kraft-4.1")
    live = pa.array([[1, 2, 9], [2, 9]], IDS)
    electing = {"replicas": columns["replicas"], "isr": pa.array([[1], [9]], IDS), "live": live}
    answers = elect_batch(electing, Strategy.OFFLINE, "kraft-4.1").to_pylist()
    assert [answer["leader"] for answer in answers] == [1, -1]
    with pytest.raises(kfast.InputError, match="min_insync_replicas has 0; at least 1"):
        fail_batch(
            columns | {
                "elr": pa.array([[], []], IDS), "min_insync_replicas": pa.array([1, 0], pa.int32())
            },
            [1], "kraft-4.1",
        )


@pytest.mark.parametrize(("batch", "tasks"), [(13, 7), (10_000, 1)])
def test_columns_of_a_frame_are_what_the_controller_does(spark, batch, tasks):
    """The same for any batches: leaders, ISRs and ELRs after two failures, one after another."""
    from kfast.spark import to_dataframe
    from kfast.spark.functions import elect, fail

    state = kfast.generate(
        brokers=8, partitions=600, seed=9, min_insync_replicas=2, controller="kraft-4.1", elr=True
    )
    controller = kfast.QuorumController(state)
    for broker in (1, 6):
        controller.fence_broker(broker)
    partitions = state.to_tables().partitions
    failed = state.copy()
    for broker in (0, 2):
        kfast.QuorumController(failed).fence_broker(broker)
    names = ["leader", "leader_epoch", "isr", "elr", "last_known_elr"]
    wanted = {
        (row["topic"], row["partition"]): [row[name] for name in names]
        for row in failed.to_tables().partitions.to_pylist()
    }
    of_elr = {"elr": "elr", "last_known_elr": "last_known_elr", "min_insync_replicas": 2}
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
    try:
        frame = to_dataframe(spark, partitions).repartition(tasks)
        after = fail(
            "replicas", "isr", "leader", [2, 0], live=[0, 2, 3, 4, 5, 7],
            leader_epoch="leader_epoch", controller="kraft-4.1", **of_elr,
        )
        now = elect("replicas", "isr", [3, 4], controller="kraft-4.1", strategy="preferred_replica")
        seen = frame.select("topic", "partition", after.alias("after"), now.alias("now")).collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert {(r.topic, r.partition): [r.after[name] for name in names] for r in seen} == wanted
    assert {r.now.leader for r in seen} <= {-1, 3, 4}
    assert "elr" not in seen[0].now
