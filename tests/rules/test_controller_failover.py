"""A broker becomes controller, and one that was replaced resigns.

Source: docs/controller.md, sections 6.1, 6.0 and 1.6; Kafka 3.9, `onControllerFailover`.
"""

from __future__ import annotations

import numpy as np

from kfast import Code, Controller, Store
from tests.support.states import QUIET, assert_reads, read_state


def test_a_dead_leader_costs_two_epochs_at_failover():
    """Section 6.1, the worked consequence of step 8."""
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        8,6  8,6  8       4
    """, down=[8])
    outcome = Controller(state, journal="full").on_controller_failover()
    assert_reads(state, """
        partition  ar   isr  leader  epoch  controller  state   replicas
        t-0        8,6  6    6       6      4           ONLINE  6:ONLINE,8:OFFLINE
    """)
    assert state.controller_epoch == 4
    assert outcome.actions[0] == "announce the live brokers"
    elected = outcome.elections.to_pylist()
    assert [(e["leader_before"], e["leader"], e["leader_epoch"]) for e in elected] == [(-1, 6, 6)]


def test_a_new_controller_knows_only_what_is_stored():
    """Section 6.1, step 4: shutting-down and offline directories are forgotten."""
    state = read_state("""
        partition  ar   isr  leader  epoch  adding  offline_dir  state
        t-0        1,2  1,2  1       4      2       1            OFFLINE
        t-1        1,2  -    -       -      -       -            -
    """, shutting_down=[1])
    Controller(state).on_controller_failover()
    assert_reads(state, """
        partition  ar   isr  leader  epoch  adding  offline_dir  state
        t-0        1,2  1,2  1       5      -       -            ONLINE
        t-1        1,2  1,2  1       0      -       -            ONLINE
    """)
    assert not state.shutting_down.any()


def test_pending_preferred_elections_are_done_at_failover():
    """Section 6.1, step 11: gone topics and balanced partitions drop out.

    The queued topic drops out as well: its deletion has begun by then, at the cost of two epochs.
    """
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        1,2  1,2  2       4
        t-1        1,2  1,2  1       4
        q-0        1,2  1,2  2       4
    """, queued=["q"])
    pending = [("t", 0), ("t", 1), ("q", 0), ("gone", 3)]
    outcome = Controller(state, journal="full").on_controller_failover(pending)
    assert_reads(state, """
        partition  ar   isr  leader  epoch
        t-0        1,2  1,2  1       5
        t-1        1,2  1,2  1       4
        q-0        1,2  2    -       6
    """)
    assert outcome.elections.column("topic").to_pylist() == ["t"]


def test_a_pending_election_of_a_partition_without_leadership_ends_the_failover():
    """Section 6.1, step 11, note: the failover fails, and the controller resigns."""
    state = read_state("""
        partition  ar   isr  leader  epoch
        t-0        1,2  1,2  2       4
        t-1        3    -    -       -
    """, down=[3])
    controller = Controller(state)
    outcome = controller.on_controller_failover(preferred_election=[("t", 0), ("t", 1)])
    assert (outcome.error, controller.active) == ("NoSuchElement", False)
    assert state.leadership(0).leader == 2


def test_gauges_are_those_of_kafka():
    """Section 1.6, exported gauges."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state    replicas
        t-0        1,2  1    -       4      OFFLINE  1:OFFLINE,2:ONLINE
        t-1        1,2  1,2  2       4      ONLINE   1:OFFLINE,2:ONLINE
        t-2        1,2  -    -       -      NEW      -
        q-0        1,2  1,2  2       4      ONLINE   1:DELETION_INELIGIBLE,2:DELETION_SUCCESSFUL
    """, down=[1], queued=["q"], brokers=[3])
    state.mark_topics_ineligible(np.array([1]))
    controller = Controller(state)
    assert controller.gauges() == {
        "OfflinePartitionsCount": 1, "PreferredReplicaImbalanceCount": 2, "GlobalTopicCount": 2,
        "GlobalPartitionCount": 3, "TopicsToDeleteCount": 1, "ReplicasToDeleteCount": 1,
        "TopicsIneligibleToDeleteCount": 1, "ReplicasIneligibleToDeleteCount": 1,
        "ActiveBrokerCount": 2,
    }


def test_a_controller_that_was_replaced_resigns():
    """Section 6.0: ControllerMoved; afterwards nothing happens, gauges are zero."""
    state = read_state(QUIET)
    store = Store(state)
    controller = Controller(state, store=store)
    store.elect_controller()
    outcome = controller.on_broker_failure([1])
    assert (outcome.failure, controller.active) == (Code.CONTROLLER_MOVED, False)
    assert set(controller.gauges().values()) == {0}
    before = state.copy()
    rows = np.array([0], np.int32)
    for refused in (
        controller.on_broker_failure([2]), controller.on_broker_startup([8]),
        controller.on_broker_change(bounced=[2]), controller.on_broker_modification([2]),
        controller.elect_leaders(), controller.rebalance_leaders(), controller.catch_up([1]),
        controller.alter_partition(2, 0, rows, 7, [[2]], 7),
        controller.on_isr_change_notification(rows), controller.on_topic_change({"n": {0: [2]}}),
        controller.on_partition_modifications("t", {5: [2]}),
        controller.on_broker_log_dir_failure([2]), controller.on_log_dir_failure(2, rows),
        controller.on_leader_and_isr_response(2, rows),
        controller.alter_partition_reassignments({("t", 0): [1]}),
        controller.reassign_partitions({("t", 0): [1]}),
        controller.on_partition_reassignment(rows), controller.delete_topics(["t"]),
        controller.on_stop_replica_response(2, rows), controller.acknowledge_deletions(),
    ):
        assert refused.error == "NOT_CONTROLLER", refused.event
    assert controller.controlled_shutdown(2).error == "ControllerMoved"
    assert state == before
    controller.on_controller_failover()
    assert controller.active
    assert controller.on_broker_failure([2]).failure is None
