"""Rows whose topic was deleted: they are free, keep their place, and serve new partitions.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

import kfast
from kfast import ArgumentError, ClusterState, Controller, RowError, Store
from kfast.testing import invariants
from tests.rules.test_deletion import states
from tests.rules.test_reassignment import last_write_failed
from tests.support.kernel_calls import LAYOUTS
from tests.support.states import assert_reads, read_state

TOPICS = """
    partition  ar     isr    leader  epoch  state
    t-0        1,2    1,2    1       7      ONLINE
    u-0        1,3    1,3    1       4      ONLINE
    t-1        2,3,1  2,3,1  2       5      ONLINE
    v-0        3      3      3       2      ONLINE
"""


def delete(controller, *topics):
    """Delete some topics, to the end."""
    controller.delete_topics(list(topics))
    controller.acknowledge_deletions()
    assert not controller.state.any_queued
    invariants.check(controller.state)


@pytest.fixture(params=LAYOUTS)
def freed(request):
    """A controller whose topic t was deleted."""
    controller = Controller(read_state(TOPICS, layout=request.param))
    delete(controller, "t")
    return controller


# --- what a free row is -------------------------------------------------------------------------


def test_no_other_row_moves():
    """The rows of t are free; those of u and v are, byte for byte, what and where they were."""
    state = read_state(TOPICS)
    before = state.copy()
    delete(Controller(state), "t")
    assert sorted(state.free_rows.tolist()) == [0, 2]
    assert state.partition.tolist() == [-1, 0, -1, 0]
    for name in ("records", "replicas", "replica_state", "topic_row", "partition"):
        ours, theirs = getattr(state, name), getattr(before, name)
        assert ours[[1, 3]].tobytes() == theirs[[1, 3]].tobytes()
    assert state.n_partitions == 4


def test_a_free_row_says_nothing(freed):
    """It has no assignment, leadership, states or broker, and nobody finds it."""
    state = freed.state
    assert [state.assignment(row).replicas for row in (0, 2)] == [(), ()]
    assert [state.leadership(row) for row in (0, 2)] == [None, None]
    assert not state.replica_states_of(0)
    assert state.records["n_slots"][[0, 2]].tolist() == [0, 0]
    assert state.replicas_on_brokers([1, 2, 3]).rows.tolist() == [1, 3]
    assert state.topic_partitions("t").size == 0
    for partition in (("t", 0), ("t", 1)):
        with pytest.raises(ArgumentError, match=f"partition t-{partition[1]} is unknown"):
            state.find_partitions([partition])


def test_a_deleted_topic_is_not_known_by_name(freed):
    """Neither can it vanish, nor get partitions, nor be queued: `ArgumentError`."""
    before = freed.state.copy()
    for call in (
        lambda: freed.on_topic_change(gone=["t"]),
        lambda: freed.on_partition_modifications("t", {5: [1]}),
        lambda: freed.state.queue_topic_deletion(["t"]),
        lambda: freed.enable_unclean_leader_election(["t"]),
        lambda: freed.state.set_unclean_leader_election(True, ["t"]),
    ):
        with pytest.raises(ArgumentError, match="topic 't' is unknown"):
            call()
    assert freed.state == before
    assert freed.delete_topics(["t"]).notes == ("topic 't' is unknown",)


def test_a_free_row_is_no_argument(freed):
    """A caller's mistake, named: `RowError`, before anything changes."""
    before = freed.state.copy()
    calls = (
        freed.state.replicas_of, freed.on_isr_change_notification, freed.on_partition_reassignment,
        lambda rows: freed.on_stop_replica_response(1, rows),
        lambda rows: freed.alter_partition(1, 0, rows, 7, [[1]] * len(rows), 7),
        lambda rows: freed.on_leader_and_isr_response(1, offline=np.array(rows, np.int32)),
    )
    for call in calls:
        with pytest.raises(RowError, match=r"partition row 2 \(item [12] of [12]\) is free"):
            call([2])
        with pytest.raises(RowError, match="its topic was deleted; nothing was changed"):
            call([1, 2])
    assert freed.state == before


def test_tables_have_no_free_rows(freed):
    """`to_tables` and back: the same state without them, and the same digest."""
    tables = freed.state.to_tables()
    assert tables.partitions.column("topic").to_pylist() == ["u", "v"]
    assert tables.topics.column("topic").to_pylist() == ["u", "v"]
    again = ClusterState.from_tables(
        tables.brokers, tables.topics, tables.partitions, tables.cluster
    )
    assert (again.n_partitions, again.n_topics) == (2, 2)
    assert again.difference(freed.state) is None
    assert again.digest() == freed.state.digest()


# --- used again ---------------------------------------------------------------------------------


def test_new_partitions_take_the_free_rows_first(freed):
    """The table grows only when none is left; others stay where they are."""
    state = freed.state
    freed.on_topic_change({"n": {0: [3, 1]}})
    assert (state.n_partitions, state.free_rows.size) == (4, 1)
    freed.on_topic_change({"m": {0: [2], 1: [1, 2, 3], 2: [3]}})
    assert (state.n_partitions, state.free_rows.size) == (6, 0)
    assert state.find_partitions([("u", 0), ("v", 0)]).tolist() == [1, 3]
    assert set(state.find_partitions([("n", 0), ("m", 0)]).tolist()) == {0, 2}
    assert_reads(state, """
        partition  ar     isr    leader  epoch  state   replicas
        u-0        1,3    1,3    1       4      ONLINE  1:ONLINE,3:ONLINE
        v-0        3      3      3       2      ONLINE  3:ONLINE
        n-0        3,1    3,1    3       0      ONLINE  1:ONLINE,3:ONLINE
        m-0        2      2      2       0      ONLINE  2:ONLINE
        m-1        1,2,3  1,2,3  1       0      ONLINE  1:ONLINE,2:ONLINE,3:ONLINE
        m-2        3      3      3       0      ONLINE  3:ONLINE
    """)
    invariants.check(state)


def test_a_broker_is_found_in_a_row_that_is_used_again(freed):
    """The hosting index: neither what the row hosted before is found, nor anything twice."""
    state = freed.state
    freed.on_topic_change({"n": {0: [1, 4], 1: [3, 1]}})
    assert state.replicas_on_brokers([2]).rows.size == 0
    rows = state.replicas_on_brokers([1]).rows.tolist()
    assert sorted(rows) == sorted(set(rows)) == [0, 1, 2]
    freed.on_broker_failure([1])
    assert [state.leadership(row).leader for row in state.find_partitions(
        [("n", 0), ("n", 1), ("u", 0)]
    )] == [-1, 3, 3]
    invariants.check(state)


def test_a_topic_of_the_same_name_is_another_topic():
    """Unlike one that vanished (section 6.4) it meets no old states, overrides or id.

    Source: section 6.12.
    """
    first = read_state(TOPICS, unclean={"t": True}).to_tables()
    ids = pa.array(["abcdefghijklmnopqrstuA", None, None], pa.string())
    state = ClusterState.from_tables(
        first.brokers, first.topics.set_column(1, "topic_id", ids), first.partitions, first.cluster
    )
    controller = Controller(state)
    delete(controller, "t")
    controller.on_topic_change({"t": {0: [3, 2], 1: [1]}})
    rows = state.find_partitions([("t", 0), ("t", 1)])
    assert [(state.leadership(row).leader, state.leadership(row).leader_epoch) for row in rows] == [
        (3, 0), (1, 0),
    ]
    assert states(state, rows[0]) == "2:ONLINE,3:ONLINE"
    topic = next(t for t in state.to_tables().topics.to_pylist() if t["topic"] == "t")
    assert topic == {
        "topic": "t", "topic_id": None, "exists": True, "unclean_leader_election": None,
        "min_insync_replicas": None, "queued_for_deletion": False, "deletion_started": False,
        "ineligible": False,
    }
    delete(controller, "t")
    assert state.free_rows.size == 2


# --- rows that are not free ---------------------------------------------------------------------


def test_a_row_with_an_offline_directory_is_kept():
    """Section 1.4: the entry stays until the broker starts or fails, and is met again."""
    controller = Controller(read_state(TOPICS))
    state = controller.state
    controller.delete_topics(["v"])
    controller.acknowledge_deletions()
    controller.delete_topics(["t"])
    controller.acknowledge_deletions([1])
    controller.on_leader_and_isr_response(1, offline=np.array([0], np.int32))
    controller.acknowledge_deletions()
    assert (state.topic_exists[:1].tolist(), sorted(state.free_rows.tolist())) == ([False], [2, 3])
    invariants.check(state)
    before = state.digest()
    controller.compact()
    assert state.digest() == before
    controller.on_topic_change({"t": {0: [1, 2]}})
    assert state.leadership(int(state.find_partitions([("t", 0)])[0])).isr == (2,)


def test_an_assignment_that_was_not_written_goes_with_its_topic():
    """Section 6.12, `finish`: the topic node is deleted; a new controller finds nothing of it."""
    controller = last_write_failed()
    controller.delete_topics(["t"])
    controller.acknowledge_deletions()
    assert controller.on_controller_failover().error is None
    assert controller.state.assignment(0).replicas == ()
    assert controller.gauges()["GlobalPartitionCount"] == 0


# --- compacting ---------------------------------------------------------------------------------


def test_compacting_gives_the_space_back(freed):
    """Rows move up in their order, and forgotten topics go; digest, tables, look-ups stay."""
    state = freed.state
    before, digest = state.copy(), state.digest()
    freed.compact()
    assert (state.n_partitions, state.n_topics, state.free_rows.size) == (2, 2, 0)
    assert state.digest() == digest
    assert state == before
    assert state.find_partitions([("u", 0), ("v", 0)]).tolist() == [0, 1]
    assert state.replicas_on_brokers([3]).rows.tolist() == [0, 1]
    invariants.check(state)
    freed.on_broker_failure([1])
    assert state.leadership(0).leader == 3
    freed.on_topic_change({"t": {0: [2]}})
    assert state.find_partitions([("t", 0)]).tolist() == [2]


def test_compacting_keeps_what_is_under_way():
    """Reassignments, queued topics, counters and odd lists move with their rows."""
    controller = Controller(read_state("""
        partition  ar       adding  removing  isr  leader  epoch  state
        t-0        1,2      -       -         1,2  1       7      ONLINE
        u-0        3,1,2,4  4,3     2         1,2  2       4      ONLINE
        u-1        2,1      -       -         2    -       4      OFFLINE
        v-0        1,2      -       -         1,2  2       4      ONLINE
        w-0        1,2      -       -         1,2  1       4      ONLINE
    """))
    state = controller.state
    delete(controller, "t")
    controller.delete_topics(["w"])
    controller.acknowledge_deletions([1])
    before = state.copy()
    controller.compact()
    assert state == before
    assert state.digest() == before.digest()
    assert state.assignment(0).adding == (4, 3)
    assert (state.offline_partition_count, state.preferred_imbalance_count) == (1, 2)
    invariants.check(state)
    controller.acknowledge_deletions()
    assert state.topic_exists.tolist() == [True, True, False]
    controller.catch_up([3, 4])
    assert state.assignment(0).replicas == (3, 1, 4)


def test_compacting_keeps_what_is_not_written_yet():
    """An assignment that is stored but not cached is restored for its own partition."""
    controller = last_write_failed("""
        partition  ar     isr    leader  epoch  state
        d-0        1      1      1       7      ONLINE
        t-0        1,2,3  1,2,3  1       7      ONLINE
    """)
    delete(controller, "d")
    controller.compact()
    assert controller.state.unwritten_assignments[0].removing == (1,)
    assert controller.on_controller_failover().error is None
    assert controller.state.assignment(0).replicas == (2, 3)
    assert not controller.state.unwritten_assignments


def test_compacting_takes_the_store_along():
    """Records stay with their partitions."""
    state = read_state(TOPICS)
    store = Store(state)
    controller = Controller(state, store=store)
    delete(controller, "t")
    before = store.records()
    controller.compact()
    assert store.records() == before
    controller.on_broker_failure([1])
    assert store.get("u", 0).leader == state.leadership(0).leader == 3


@pytest.mark.parametrize("seed", range(6))
def test_compacting_now_and_then_changes_nothing(seed):
    """Topics come and go, brokers fail, partitions move: the same digest, compacted or not."""
    generator = Random(seed)
    one, other = (
        Controller(kfast.generate(partitions=12, brokers=5, replication_factor=2, topics=3))
        for _ in range(2)
    )
    for controller in (one, other):
        controller.on_controller_failover()
    for number in range(40):
        event = some_event(generator, one.state, number)
        for controller in (one, other):
            event(controller)
            invariants.check(controller.state)
        if generator.random() < 0.3:
            other.compact()
        assert one.state.digest() == other.state.digest()
    assert one.state == other.state
    assert one.state.n_partitions >= other.state.n_partitions


def some_event(generator, state, number):
    """What happens next; everything is named, as rows may differ."""
    exists = [t for t, e in zip(state.topic.to_pylist(), state.topic_exists, strict=True) if e]
    brokers = state.broker_id[state.registered].tolist()
    down = state.broker_id[~state.registered].tolist()
    topic = generator.choice(exists) if exists else f"n{number}"
    lists = [generator.sample(brokers, min(3, len(brokers))) for _ in range(3)]
    kind = generator.choice(("create", "delete", "delete", "answer", "answer", "move", "broker"))
    if kind == "create" or not exists:
        name = f"n{number % 9}" if f"n{number % 9}" not in exists else f"m{number}"
        return lambda c: c.on_topic_change({name: dict(enumerate(lists))})
    if kind == "delete":
        return lambda c: c.delete_topics([topic])
    if kind == "answer":
        return lambda c: c.acknowledge_deletions()
    if kind == "move":
        asked = {(topic, 0): lists[0], (topic, 1): None}
        return lambda c: (c.alter_partition_reassignments(asked), c.catch_up(brokers))
    if down:
        return lambda c: c.on_broker_startup(down)
    return lambda c: c.on_broker_failure(brokers[:1])
