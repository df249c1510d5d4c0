"""Where kfast differs from Kafka on purpose: one test for each line of `docs/deviations.md`.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from kfast import (
    AlterCode,
    ArgumentError,
    ClusterState,
    Code,
    Controller,
    PartitionState,
    PartitionStateMachine,
    ReplicaState,
    ReplicaStateMachine,
    Store,
)
from tests.support.reference_replicas import bucket

pytestmark = pytest.mark.kernels

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deviations.md"


def cluster(*partitions, brokers=(1, 2, 3, 5), **columns):
    """A cluster of one topic from (replicas, isr) of each partition; the first of the ISR leads."""
    replicas, isrs = zip(*partitions, strict=True)
    ids = pa.list_(pa.int32())
    n = len(partitions)
    return ClusterState.from_tables(
        brokers=pa.table({"broker_id": pa.array(brokers, pa.int32())}),
        partitions=pa.table(
            {
                "topic": ["t"] * n,
                "partition": pa.array(range(n), pa.int32()),
                "replicas": pa.array(replicas, ids),
                "isr": pa.array(isrs, ids),
                "leader": pa.array([isr[0] for isr in isrs], pa.int32()),
                **columns,
            }
        ),
    )


def test_an_isr_is_a_set_in_ar_order():
    """Written in AR order; an AlterPartition that only reorders it changes nothing."""
    state = cluster(([1, 2, 3], [3, 1, 2]))
    assert state.leadership(0).isr == (1, 2, 3)
    controller = Controller(state)
    controller.on_controller_failover()
    record = state.leadership(0)
    outcome = controller.alter_partition(
        3, 0, [0], [record.leader_epoch], [[2, 3, 1]], [record.version], [0]
    )
    assert outcome.alterations() == [AlterCode.UNCHANGED]
    assert state.leadership(0) == record


def test_without_a_store_an_adopted_epoch_counts_as_stored():
    """The cache takes the new controller epoch, the store does not.

    Source: section 2.6, broker not in the ISR.
    """
    with_store, alone = (cluster(([1, 2], [1])) for _ in range(2))
    store = Store(with_store)
    for state, where in ((with_store, store), (alone, None)):
        controller = Controller(state, store=where)
        controller.on_controller_failover()
        controller.on_broker_failure([2])
        record = state.leadership(0)
        assert (record.isr, record.version) == ((1,), 0)
        assert record.controller_epoch == state.controller_epoch > 0
    assert store.get("t", 0).controller_epoch == 0


@pytest.mark.parametrize(("profile", "read"), [("zk-2.4", 0), ("zk-3.9", 1)])
def test_a_leader_that_writes_an_isr_keeps_the_epoch_that_made_it_the_leader(profile, read):
    """Before 2.7 leaders wrote ISRs: the request of an adopted epoch has told them nothing new."""
    state = cluster(([1, 2], [1]))
    controller = Controller(state, store=Store(state), profile=profile)
    controller.on_controller_failover()
    controller.on_broker_failure([2])
    assert state.leadership(0).controller_epoch == 1
    controller.on_broker_startup([2])
    controller.catch_up([2])
    record = state.leadership(0)
    assert (record.isr, record.leader_epoch, record.controller_epoch) == ((1, 2), 0, read)


def test_a_failed_call_clears_its_batch():
    """A call without a strategy fails as a whole; the next one finds an empty batch.

    Source: section 3.3.
    """
    state = cluster(([1, 2], [1, 2]), ([2, 1], [2, 1]))
    machine = PartitionStateMachine(state)
    machine.startup()
    assert machine.handle_state_changes([0, 1], PartitionState.ONLINE).failure is (
        Code.ILLEGAL_ARGUMENT
    )
    again = machine.handle_state_changes([0, 1], PartitionState.OFFLINE)
    assert again.failure is None
    assert [Code(code) for code in again.codes] == [Code.MOVED, Code.MOVED]


def test_brokers_of_one_bucket_go_in_ascending_id():
    """Two ids that share a bucket of the table from which Scala 2.12 fills a map of two."""
    assert bucket(10) == bucket(1)
    state = cluster(([10, 1], [10, 1]), brokers=(1, 2, 10))
    controller = Controller(state, profile="zk-2.4")
    controller.on_controller_failover()
    controller.on_broker_failure([10, 1])
    assert state.leadership(0).isr == (10,)


def test_before_1_1_replicas_of_a_partition_go_in_ascending_id():
    """A set of replicas has no order that a broker's id alone would tell."""
    state = cluster(([1, 5], [1, 5]))
    controller = Controller(state, profile="zk-1.0")
    controller.on_controller_failover()
    controller.on_broker_failure([5, 1])
    assert state.leadership(0).isr == (5,)


def test_an_emptied_assignment_goes_through():
    """NonExistentReplica for the only replica of a partition that is led (sections 2.4 and 1.6)."""
    state = cluster(([2], [2]), ([3], [3]))
    for row, broker in ((0, 2), (1, 3)):
        state.set_replica_state(row, broker, ReplicaState.DELETION_SUCCESSFUL)
    machine = ReplicaStateMachine(state)
    both = state.find_replicas([("t", 0, 2), ("t", 1, 3)])
    outcome = machine.handle_state_changes(both, ReplicaState.NON_EXISTENT)
    assert outcome.codes.tolist() == [Code.MOVED, Code.MOVED]
    assert [state.assignment(row).replicas for row in (0, 1)] == [(), ()]
    assert state.leadership(0).leader == 2
    assert state.preferred_imbalance_count == 0


def test_resignation_keeps_the_columns():
    """Kafka resets its context; kfast stops acting, and the columns can still be read."""
    state = cluster(([1, 2], [1, 2]), ([2, 1], [2, 1]))
    store = Store(state)
    controller = Controller(state, store=store)
    controller.on_controller_failover()
    store.elect_controller()
    assert controller.on_broker_failure([2]).failure is Code.CONTROLLER_MOVED
    assert not controller.active
    assert set(controller.gauges().values()) == {0}
    assert state.leadership(0).isr == (1, 2)
    before = state.digest()
    assert controller.on_broker_startup([2]).error == "NOT_CONTROLLER"
    assert state.digest() == before


def test_partitions_of_a_queued_topic_are_not_forgotten():
    """Section 6.4: a partition that never had a leader is still there for a later controller."""
    state = cluster(([1], [1]), ([2], [2]), brokers=(1,))
    controller = Controller(state)
    controller.on_controller_failover()
    controller.on_topic_change({"u": {0: [1, 2], 1: [2]}})
    controller.delete_topics(["u"])
    controller.on_partition_modifications("u", {2: [1]})
    controller.on_controller_failover()
    assert state.find_partitions([("u", 1)]).size == 1


@pytest.mark.parametrize("profile", ["zk-2.4", "zk-3.9"])
def test_a_queued_topic_leaves_the_queue_with_its_node(profile):
    """Up to 2.6 Kafka's queue is no part of the context that forgets a topic."""
    state = cluster(([1, 2], [1]), brokers=(1,))
    controller = Controller(state, profile=profile)
    controller.on_controller_failover()
    controller.delete_topics(["t"])
    assert state.topic_queued_for_deletion.tolist() == [True]
    controller.on_topic_change(gone=["t"])
    assert state.topic_queued_for_deletion.tolist() == [False]


def test_a_marker_that_is_removed_tells_nobody_that_there_is_another_controller():
    """Kafka removes the marker under its epoch, and resigns."""
    state = cluster(([1, 2], [1, 2]))
    state.delete_topic_enabled = False
    store = Store(state)
    controller = Controller(state, store=store)
    controller.on_controller_failover()
    store.elect_controller()
    assert controller.delete_topics(["t"]).failure is None
    assert controller.active


@pytest.mark.parametrize("listed", [[], None, [1, -2]])
def test_the_node_has_no_empty_lists(listed):
    """Section 6.7 checks no list of the node; kfast asks for one that can be an assignment."""
    controller = Controller(cluster(([1, 2], [1, 2])))
    controller.on_controller_failover()
    before = controller.state.digest()
    with pytest.raises(ArgumentError, match="null, empty or names a negative broker id"):
        controller.reassign_partitions({("t", 0): listed})
    assert controller.state.digest() == before


def test_many_reassignments_are_as_if_one_by_one():
    """The steps are phases over all partitions; each broker's requests are those of Kafka."""
    plan = {("t", 0): [3, 5], ("t", 1): [5, 1], ("t", 2): [2, 3]}
    together = cluster(*[([1, 2], [1, 2])] * 3)
    apart = together.copy()
    one, each = Controller(together, journal="full"), Controller(apart, journal="full")
    for controller in (one, each):
        controller.on_controller_failover()
    outcome = one.alter_partition_reassignments(plan)
    singles = [each.alter_partition_reassignments({p: to}) for p, to in plan.items()]
    assert together.digest() == apart.digest()
    assert len(outcome.actions) < sum(len(single.actions) for single in singles)
    for broker, requests in outcome.by_broker().items():
        assert requests == [r for single in singles for r in single.by_broker().get(broker, [])]


def test_an_older_epoch_bump_is_not_cached():
    """Kafka 2.0 wrote the epoch and kept the old record; without a store there is one copy."""
    for with_store, cached in ((True, 0), (False, 1)):
        state = cluster(([1, 2], [1, 2]))
        controller = Controller(state, store=Store(state) if with_store else None, profile="zk-2.0")
        controller.on_controller_failover()
        controller.reassign_partitions({("t", 0): [3, 2]})
        assert state.leadership(0).leader_epoch == cached
        if controller.store is not None:
            assert controller.store.get("t", 0).leader_epoch == 1


def test_the_page_names_every_test():
    """And every test that the page names is there."""
    here = Path(__file__).read_text()
    tests = set(re.findall(r"^def (test_\w+)", here, re.MULTILINE))
    tests -= {
        "test_the_page_names_every_test",
        "test_a_leader_that_writes_an_isr_keeps_the_epoch_that_made_it_the_leader",
    }
    page = PAGE.read_text().split("## KRaft")[0]
    assert set(re.findall(r"`(test_\w+)`", page)) == tests
