"""What callers give that is no number, id, row or name: refused by name, before anything changes.

Every public function that takes numbers gets a fraction, digits, a truth value, NaN and what fits
no 64 bits: a `KfastError`, never another error, never the value cut to size. numpy's and Arrow's
integers are taken.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast import (
    ArgumentError,
    ClusterState,
    Controller,
    KfastError,
    PartitionState,
    ReplicaState,
    RowError,
    Store,
    arguments,
)

pytestmark = pytest.mark.kernels

NO_NUMBERS = [
    2.5, "3", True, np.bool_(True), None, float("nan"), float("inf"), 2.0, np.float64(2), [2],
    np.array([2]), b"1", 1j, (), {}, 2**70, -(2**70), 10**5000, object(),
]
NO_SHARES = ["0.5", True, None, float("nan"), -0.1, 1.1, 2**70, 10**5000, [0.5], 1j, float("inf")]
NO_IDS = [
    1.5, "1", None, 1, object(), [1.5], ["1"], [True], [None], [float("nan")], [2**70], [-(2**70)],
    np.array([1.5]), np.array([1.0]), np.array(["1"]), np.array([True]), np.array(1), [[1]],
    np.array([[1]]), np.array([2**63], np.uint64), pa.array([1.5]), pa.array([None], pa.int32()),
    [b"1"], b"\x01", {1.5: 0},
]
NO_ROWS = [
    1.5, "1", None, True, [1.5], ["1"], [None], [2**31], [2**32], [2**70], [-1], [0, 0], [99],
    np.array([0.0]), np.array([2**32]), np.array([True]), [[0]], [b"1"],
]
NO_PARTITIONS = [
    1, "t", [("t", 0.5)], [("t", "0")], [(1, 0)], [("t", True)], [("t", 2**32)], [("t", 2**70)],
    [("t",)], [("t", 0, 1)], [None], ["t"], [("t", None)], [(b"t", 0)],
]
NO_TOPICS = [1, "t", b"t", [1], [None], [b"t"], [["t"]], 2.5]


def cluster():
    """Five partitions on brokers 1 to 5; broker 6 hosts nothing."""
    ids = pa.list_(pa.int32())
    lists = [[n, n % 5 + 1, (n + 1) % 5 + 1] for n in range(1, 6)]
    return ClusterState.from_tables(
        brokers=pa.table({"broker_id": pa.array(range(1, 7), pa.int32()), "rack": list("abcabc")}),
        partitions=pa.table({
            "topic": ["t"] * 5, "partition": pa.array(range(5), pa.int32()),
            "replicas": pa.array(lists, ids),
        }),
    )


def led(call):
    """The same with a controller that has started."""

    def on_state(state, value):
        return call(state, value)

    on_state.with_controller = True
    return on_state


NUMBERS = {
    "find_replicas": lambda s, v: s.find_replicas([("t", 0, v)]),
    "assignment": lambda s, v: s.assignment(v),
    "leadership": lambda s, v: s.leadership(v),
    "replica_states_of": lambda s, v: s.replica_states_of(v),
    "set_assignment": lambda s, v: s.set_assignment(v, [1, 2]),
    "set_leadership row": lambda s, v: s.set_leadership(v, leader=1, isr=[1]),
    "set_leadership leader": lambda s, v: s.set_leadership(0, leader=v, isr=[1]),
    "set_leadership epoch": lambda s, v: s.set_leadership(0, leader=1, isr=[1], leader_epoch=v),
    "set_leadership version": lambda s, v: s.set_leadership(0, leader=1, isr=[1], version=v),
    "set_leadership recovery": lambda s, v: s.set_leadership(0, leader=1, isr=[1], recovery=v),
    "set_partition_state row": lambda s, v: s.set_partition_state(v, PartitionState.ONLINE),
    "set_partition_state": lambda s, v: s.set_partition_state(0, v),
    "set_replica_state row": lambda s, v: s.set_replica_state(v, 1, ReplicaState.ONLINE),
    "set_replica_state broker": lambda s, v: s.set_replica_state(0, v, ReplicaState.ONLINE),
    "set_replica_state": lambda s, v: s.set_replica_state(0, 1, v),
    "set_offline_dir": lambda s, v: s.set_offline_dir(v, np.array([0], np.int32)),
    "threads": lambda s, v: Controller(s, threads=v),
    "profile": lambda s, v: Controller(s, profile=v),
    "store put": lambda s, v: Store(s).put("t", 0, leader=v, isr=[1]),
    "store get": lambda s, v: Store(s).get("t", v),
    "store fail": lambda s, v: Store(s).fail("read_states", "throw", times=v),
    "every_broker": kfast.every_broker,
    "random_brokers k": lambda s, v: kfast.random_brokers(s, v, 5, 1),
    "random_brokers n": lambda s, v: kfast.random_brokers(s, 2, v, 1),
    "random_brokers seed": lambda s, v: kfast.random_brokers(s, 2, 5, v),
    "slice": lambda s, v: kfast.every_broker(s).slice(v, 4),
    "down": lambda s, v: kfast.every_broker(s).down(0, v),
    "sweep": lambda s, v: kfast.sweep(s, kfast.every_broker(s), threads=v),
    "sweep_partitions": lambda s, v: kfast.sweep_partitions(s, kfast.every_broker(s), threads=v),
    "risk scenarios": lambda s, v: kfast.risk(s, scenarios=v),
    "risk seed": lambda s, v: kfast.risk(s, seed=v),
    "worst": lambda s, v: kfast.risk(s).worst(k=v),
    "chance": lambda s, v: kfast.risk(s).chance(v),
    "loss_probability": lambda _, v: kfast.loss_probability(9, brokers=v, down=1),
    "may_restart": kfast.may_restart,
    "generate": lambda _, v: kfast.generate(brokers=v, partitions=9, replication_factor=1),
    "generate seed": lambda _, v: kfast.generate(brokers=3, partitions=9, seed=v),
    "shutdown": led(lambda c, v: c.controlled_shutdown(v)),
    "shutdown epoch": led(lambda c, v: c.controlled_shutdown(1, broker_epoch=v)),
    "started": led(lambda c, v: c.on_broker_change(started=[v])),
    "started epoch": led(lambda c, v: c.on_broker_change(started={9: v})),
    "bounced epoch": led(lambda c, v: c.on_broker_change(bounced={1: v})),
    "alter broker": led(lambda c, v: c.alter_partition(v, 0, [0], 0, [[1, 2]], 0)),
    "alter broker epoch": led(lambda c, v: c.alter_partition(1, v, [0], 0, [[1, 2]], 0)),
    "alter version": led(lambda c, v: c.alter_partition(1, 0, [0], 0, [[1, 2]], [v])),
    "alter leader epoch": led(lambda c, v: c.alter_partition(1, 0, [0], [v], [[1, 2]], 0)),
    "alter recovery": led(lambda c, v: c.alter_partition(1, 0, [0], 0, [[1, 2]], 0, [v])),
    "log dir": led(lambda c, v: c.on_log_dir_failure(v, [0])),
    "response": led(lambda c, v: c.on_leader_and_isr_response(v, offline=[0])),
    "stop replica": led(lambda c, v: c.on_stop_replica_response(v, [0])),
    "new partition": led(lambda c, v: c.on_topic_change(
        pa.table({"topic": ["new"], "partition": [0.5], "replicas": [[1]]})
        if v.__hash__ is None else {"new": {v: [1]}}
    )),
}
SHARES = {
    "independent_brokers": lambda s, v: kfast.independent_brokers(s, v, 5, 1),
    "independent_racks": lambda s, v: kfast.independent_racks(s, v, 5, 1),
    "bursts": lambda s, v: kfast.bursts(s, v, 5, 1),
    "risk": lambda s, v: kfast.risk(s, confidence=v),
    "generate": lambda _, v: kfast.generate(brokers=3, partitions=9, unclean_topics=v),
}
IDS = {
    "find_brokers": lambda s, v: s.find_brokers(v),
    "replicas_on_brokers": lambda s, v: s.replicas_on_brokers(v),
    "set_assignment": lambda s, v: s.set_assignment(0, v),
    "set_leadership": lambda s, v: s.set_leadership(0, leader=1, isr=v),
    "remove_live_brokers": lambda s, v: s.remove_live_brokers(v),
    "set_shutting_down": lambda s, v: s.set_shutting_down(v),
    "store put": lambda s, v: Store(s).put("t", 0, leader=1, isr=v),
    "fail_brokers": kfast.fail_brokers,
    "explain": lambda s, v: kfast.explain(s, v, [("t", 0)]),
    "lost": lambda s, v: kfast.risk(s).lost(v),
    "execute_plan": lambda s, v: kfast.execute_plan(s, {("t", 0): [4, 5]}, broker_ids=v),
    "delete_topics": lambda s, v: kfast.delete_topics(s, ["t"], broker_ids=v),
    "failure": led(lambda c, v: c.on_broker_failure(v)),
    "bounced": led(lambda c, v: c.on_broker_change(bounced=v)),
    "started": led(lambda c, v: c.on_broker_startup(v)),
    "modified": led(lambda c, v: c.on_broker_modification(v)),
    "created": led(lambda c, v: c.on_topic_change({"new": {0: v}})),
    "more": led(lambda c, v: c.on_partition_modifications("t", {7: v})),
    "node": led(lambda c, v: c.reassign_partitions({("t", 0): v})),
    "isr": led(lambda c, v: c.alter_partition(1, 0, [0], 0, [v], 0)),
    "catch_up": led(lambda c, v: c.catch_up(v)),
    "probe": led(lambda c, v: c.on_broker_log_dir_failure(v)),
}
ROWS = {
    "check_rows": lambda s, v: s.check_rows(v),
    "replicas_of": lambda s, v: s.replicas_of(v),
    "set_offline_dir": lambda s, v: s.set_offline_dir(1, v),
    "go on": led(lambda c, v: c.on_partition_reassignment(v)),
    "alter": led(lambda c, v: c.alter_partition(1, 0, v, 0, [[1, 2]], 0)),
    "log dir": led(lambda c, v: c.on_log_dir_failure(1, v)),
    "notification": led(lambda c, v: c.on_isr_change_notification(v)),
    "stop replica": led(lambda c, v: c.on_stop_replica_response(1, v)),
}
PARTITIONS = {
    "find_partitions": lambda s, v: s.find_partitions(v),
    "explain": lambda s, v: kfast.explain(s, [1], v),
    "elect": led(lambda c, v: c.elect_leaders(v)),
    "failover": led(lambda c, v: c.on_controller_failover(preferred_election=v)),
    "list": led(lambda c, v: c.list_partition_reassignments(v)),
}
TOPICS = {
    "find_topics": lambda s, v: s.find_topics(v),
    "queue": lambda s, v: s.queue_topic_deletion(v),
    "delete_topics": kfast.delete_topics,
    "deleted": led(lambda c, v: c.delete_topics(v)),
    "gone": led(lambda c, v: c.on_topic_change(gone=v)),
    "unclean": led(lambda c, v: c.enable_unclean_leader_election(v)),
}
KINDS = {
    "number": (NUMBERS, NO_NUMBERS), "share": (SHARES, NO_SHARES), "ids": (IDS, NO_IDS),
    "rows": (ROWS, NO_ROWS), "partitions": (PARTITIONS, NO_PARTITIONS),
    "topics": (TOPICS, NO_TOPICS),
}


def refuses(call, target, value):
    """Whether a call raises one of kfast's errors; any other comes through."""
    try:
        call(target, value)
    except KfastError:
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, (calls, _) in KINDS.items() for name in calls]
)
def test_what_is_none_is_refused(kind, name):
    """A `KfastError`, and the state is what it was."""
    calls, wrong = KINDS[kind]
    call = calls[name]
    for value in wrong:
        state = cluster()
        target = state
        if getattr(call, "with_controller", False):
            target = Controller(state)
            target.on_controller_failover()
        before = state.digest()
        assert refuses(call, target, value), f"{name} took {value!r}"
        assert state.digest() == before, (name, value)


@pytest.mark.parametrize("given", [
    [1, 3], (1, 3), {1: "a", 3: "b"}, np.array([1, 3], np.uint64), np.array([1, 3], np.int8),
    [np.int64(1), np.uint16(3)], pa.array([1, 3]), pa.chunked_array([[1], [3]]), iter([1, 3]),
    range(1, 4, 2), np.array([1, 3], object),
], ids=lambda given: f"{type(given).__name__} {getattr(given, 'dtype', '')}".strip())
def test_integers_of_every_kind_are_ids(given):
    """As Python's are."""
    assert cluster().find_brokers(given).tolist() == [0, 2]


def test_what_was_found_is_named():
    """The argument, the value, its place, and what is allowed."""
    state = cluster()
    for value, said in (([1, 1.5], r"broker_ids has 1\.5 \(item 2 of 2\)"), (["1"], "has '1'"),
                        ([2**70], "does not fit 64 bits"), ("1", "broker_ids is '1'")):
        with pytest.raises(ArgumentError, match=said):
            state.find_brokers(value)
    with pytest.raises(RowError, match="partition row is 5: from 0 to 4 is allowed"):
        state.leadership(5)
    with pytest.raises(RowError, match="partition row is -1"):
        state.set_replica_state(-1, 1, ReplicaState.ONLINE)
    with pytest.raises(ArgumentError, match=r"share is <.*\.\.\.: a number is needed"):
        arguments.number("share", Long(), 0, 1)


class Long:
    """A value that says too much of itself."""

    def __repr__(self):
        return f"<{'x' * 200}>"


@pytest.mark.parametrize("table", [
    {"topic": ["t"], "partition": [0.5], "replicas": [[1]]},
    {"topic": ["t"], "partition": ["0"], "replicas": [[1]]},
    {"topic": ["t"], "partition": [0], "replicas": [["1"]]},
    {"topic": ["t"], "partition": [0], "replicas": [[1.0]]},
    {"topic": ["t"], "partition": [0], "replicas": [[None]]},
    {"topic": ["t"], "partition": [0], "replicas": [[2**40]]},
    {"topic": ["t"], "partition": [2**40], "replicas": [[1]]},
    {"topic": [None], "partition": [0], "replicas": [[1]]},
    {"topic": ["t"], "partition": [0]},
], ids=str)
def test_a_table_of_assignments_has_whole_numbers(table):
    """Text of digits would be cast, and is refused like the rest."""
    state = cluster()
    controller = Controller(state)
    before = state.digest()
    for event in (controller.alter_partition_reassignments, controller.reassign_partitions,
                  controller.on_topic_change):
        with pytest.raises(ArgumentError):
            event(pa.table(table))
    with pytest.raises(ArgumentError):
        kfast.execute_plan(state, pa.table(table))
    assert state.digest() == before
