"""The examples of sections 6.7 and 6.12: the twin and kfast walk through them alike.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import pytest

from kfast.schema import ReassignmentCode, ReplicaState
from tests.support.kfast_run import KfastRun, Setting
from tests.support.reference import Assignment, CacheStore, Context, Record, TwinStore
from tests.support.reference_controller import Controller
from tests.support.twin_state import difference

P = ("t", 0)


def cluster(leader: int, with_store: bool) -> tuple[Controller, KfastRun]:
    """[1,2,3] with a leader at epoch 7, five brokers that are up, controllers that have started."""
    ctx = Context(controller_id=1, epoch=3, all_topics={"t"})
    ctx.live_broker_epochs = dict.fromkeys(range(1, 6), 10)
    ctx.assignments[P] = Assignment((1, 2, 3))
    ctx.leadership[P] = Record(leader, 7, (1, 2, 3), version=4, controller_epoch=3)
    ctx.preferred_imbalance_count = int(leader != 1)
    store = TwinStore(dict(ctx.leadership), 3) if with_store else None
    kfast = KfastRun(ctx, store, Setting())
    twin = Controller(ctx, CacheStore(ctx) if store is None else store)
    twin.on_controller_failover()
    kfast.controller.on_controller_failover()
    return twin, kfast


def reads(twin: Controller, kfast: KfastRun) -> tuple:
    """Replicas, adding, removing; leader, ISR, epochs since the start; kfast has the same."""
    assert difference(twin.ctx, kfast.state) is None
    assignment, record = twin.ctx.assignment(P), twin.ctx.leadership[P]
    lists = (assignment.replicas, assignment.adding, assignment.removing)
    return *lists, record.leader, record.isr, record.leader_epoch - 7


@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
@pytest.mark.parametrize("leader", [1, 3], ids=["leader goes", "leader stays"])
def test_the_example_of_a_reassignment(leader, with_store):
    """[1,2,3] becomes [3,4,5]: the epoch rises by 1, then by 3, whether the leader stays or not."""
    twin, kfast = cluster(leader, with_store)
    happened = twin.alter_partition_reassignments({P: [3, 4, 5]})
    kfast.controller.alter_partition_reassignments({P: [3, 4, 5]})
    assert happened.reassignment_codes == {P: ReassignmentCode.STARTED}
    moving = (3, 4, 5, 1, 2), (4, 5), (1, 2)
    assert reads(twin, kfast) == (*moving, leader, (1, 2, 3), 1)
    twin.catch_up([4, 5])
    kfast.controller.catch_up([4, 5])
    assert reads(twin, kfast) == ((3, 4, 5), (), (), 3, (3, 4, 5), 4)
    assert {b for _, b in twin.ctx.replica_states} == {3, 4, 5}
    assert twin.ctx.being_reassigned == set()


@pytest.mark.parametrize("with_store", [False, True], ids=["cache", "store"])
def test_the_life_of_a_deleted_topic(with_store):
    """A broker that is down holds the topic back; it starts again when the broker does."""
    twin, kfast = cluster(1, with_store)
    twin.on_broker_change(failed=[2])
    kfast.controller.on_broker_failure([2])
    twin.delete_topics(["t"])
    kfast.controller.delete_topics(["t"])
    assert reads(twin, kfast)[3:] == (-1, (3,), 3)
    assert twin.ctx.replica_states[P, 1] == ReplicaState.DELETION_STARTED
    assert twin.ctx.replica_states[P, 2] == ReplicaState.DELETION_INELIGIBLE
    twin.acknowledge_deletions()
    kfast.controller.acknowledge_deletions()
    assert twin.ctx.replica_states[P, 2] == ReplicaState.OFFLINE
    assert twin.ctx.topics_ineligible == {"t"}
    reads(twin, kfast)
    twin.on_broker_change(started={2: 11})
    kfast.controller.on_broker_startup({2: 11})
    reads(twin, kfast)
    twin.acknowledge_deletions()
    kfast.controller.acknowledge_deletions()
    assert difference(twin.ctx, kfast.state) is None
    assert twin.ctx.all_topics == set()
