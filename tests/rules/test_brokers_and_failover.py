"""The controller's events: failover, brokers that come and go, topics; one claim per test.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from kfast import ArgumentError, Code, Controller, ReplicaState, ReplicaStateMachine, Store
from tests.support.states import QUIET, assert_reads, read_state


def actions(outcome) -> list[str]:
    """What was done, in order."""
    return outcome.steps.column("action").to_pylist()


def requests(outcome, kind: str) -> list[tuple]:
    """(broker, topic, partition) of every request of a kind."""
    return [
        (r["broker_id"], r["topic"], r["partition"])
        for r in outcome.requests.to_pylist() if r["kind"] == kind
    ]


# --- broker failure (section 6.2) ---------------------------------------------------------------


def test_an_isr_of_one_outlives_its_broker():
    """Kafka 3.9, ReplicaStateMachine.scala, `doRemoveReplicasFromIsr`."""
    state = read_state("""
        partition  ar     isr  leader  epoch  state
        t-0        1,2,3  1    1       7      ONLINE
        t-1        1,2,3  1,2  1       7      ONLINE
    """)
    Controller(state).on_broker_failure([1])
    assert_reads(state, """
        partition  ar     isr  leader  epoch  state
        t-0        1,2,3  1    -       8      OFFLINE
        t-1        1,2,3  2    2       8      ONLINE
    """)


def test_taking_the_sole_isr_member_offline_again_bumps_the_epoch_again():
    """Section 2.6, note: every repetition, and leader -1 stays -1."""
    state = read_state("""
        partition  ar   isr  leader  epoch  version
        t-0        1,2  1    1       7      4
    """)
    machine = ReplicaStateMachine(state)
    for epoch in (8, 9, 10):
        machine.handle_state_changes(state.replicas_on_brokers([1]), ReplicaState.OFFLINE)
        assert_reads(state, f"""
            partition  ar   isr  leader  epoch    version
            t-0        1,2  1    -       {epoch}  {epoch - 3}
        """)


def test_typical_outcomes_when_a_broker_dies():
    """Section 6.2, the table at its end: one epoch bump each."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        a-0        9,1  9,1  9       4      ONLINE
        a-1        1,9  1,9  1       4      ONLINE
        a-2        9,1  9    9       4      ONLINE
        u-0        9,1  9    9       4      ONLINE
    """, unclean={"u": True})
    outcome = Controller(state, journal="full").on_broker_failure([9])
    assert_reads(state, """
        partition  ar   isr  leader  epoch  recovery  state
        a-0        9,1  1    1       5      0         ONLINE
        a-1        1,9  1    1       5      0         ONLINE
        a-2        9,1  9    -       5      0         OFFLINE
        u-0        9,1  1    1       5      1         ONLINE
    """)
    assert state.unclean_elections == outcome.counts.unclean_elections == 1
    assert outcome.counts.leaders_moved == 2
    assert requests(outcome, "LeaderAndIsr").count((1, "a", 0)) == 2
    assert requests(outcome, "StopReplica") == []


@pytest.mark.parametrize("with_store", [False, True])
def test_two_brokers_of_one_isr_leave_in_the_order_of_kafkas_map(with_store):
    """Section 2.3, step 3: 7 goes before 3, and the last one stays."""
    state = read_state("""
        partition  ar     isr  leader  epoch  state
        t-0        7,3,1  7,3  3       4      ONLINE
    """)
    Controller(state, store=Store(state) if with_store else None).on_broker_failure([3, 7])
    assert_reads(state, """
        partition  ar     isr  leader  epoch  state
        t-0        7,3,1  3    -       6      OFFLINE
    """)


@pytest.mark.parametrize("with_store", [False, True])
def test_who_stays_in_an_isr_may_lead_later(with_store):
    """AR and ISR 4,5 fail together: 4 stays, so 5 alone cannot lead, and 4 can."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        4,5  4,5  4       4      ONLINE
    """, brokers=[1])
    controller = Controller(state, store=Store(state) if with_store else None)
    controller.on_broker_failure([4, 5])
    assert state.leadership(0).isr == (4,)
    controller.on_broker_startup([5])
    assert state.leadership(0).leader == -1
    controller.on_broker_startup([4])
    assert state.leadership(0).leader == 4


def test_a_controller_that_starts_takes_dead_brokers_in_the_same_order():
    """Section 2.2: AR 4,5,3 and all of them dead; 4 stays."""
    state = read_state("""
        partition  ar     isr    leader  epoch
        t-0        4,5,3  4,5,3  4       4
    """, down=[3, 4, 5], brokers=[1])
    Controller(state).on_controller_failover()
    assert state.leadership(0).isr == (4,)


def test_offline_leaders_are_looked_for_in_the_whole_cluster():
    """Section 6.2, `replicas_become_offline`, step 2: not only on the dead broker.

    Broker 2 is shutting down, so what it leads has an offline leader.
    """
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,3  1,3  1       4      ONLINE
        t-1        2,3  2,3  2       4      ONLINE
    """, shutting_down=[2])
    Controller(state).on_broker_failure([1])
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state
        t-0        1,3  3    3       5      ONLINE
        t-1        2,3  3    3       5      ONLINE
    """)


def test_the_live_brokers_are_announced_only_where_nothing_else_was():
    """Section 6.2, `replicas_become_offline`, step 6."""
    state = read_state(QUIET, brokers=[4])
    controller = Controller(state, journal="full")
    idle = controller.on_broker_failure([4])
    assert idle.update_metadata_brokers.column("broker_id").to_pylist() == [1, 2, 3]
    assert idle.update_metadata.num_rows == 0
    assert idle.counts.requests == {"LeaderAndIsr": 0, "UpdateMetadata": 3, "StopReplica": 0}
    busy = controller.on_broker_failure([3])
    assert "announce the live brokers" in actions(idle)
    assert "announce the live brokers" not in actions(busy)


def test_an_election_elsewhere_announces_the_live_brokers_as_well():
    """Section 6.2, step 6: some entry of the results is a success."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1,2  1       4      ONLINE
    """, shutting_down=[1], brokers=[4])
    outcome = Controller(state, journal="full").on_broker_failure([4])
    assert state.leadership(0).leader == 2
    assert "announce the live brokers" not in actions(outcome)


def test_requests_go_to_registered_brokers_only():
    """Section 5.3: StopReplica to the dead broker is dropped."""
    state = read_state(QUIET)
    outcome = Controller(state, journal="full").on_broker_failure([1])
    assert 1 in {b for to in outcome.additions.column("to").to_pylist() for b in to or ()}
    assert 1 not in outcome.requests.column("broker_id").to_pylist()
    assert 1 not in outcome.update_metadata_brokers.column("broker_id").to_pylist()


# --- brokers that start, bounce and die ---------------------------------------------------------


def test_new_brokers_are_handled_while_dead_ones_look_alive():
    """Section 6.2, note; Kafka 3.9, `KafkaController.processBrokerChange`."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,3  -    -       -      NEW
    """, down=[3])
    Controller(state).on_broker_change(started=[3], failed=[1])
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state
        t-0        1,3  3    3       1      ONLINE
    """)


def test_a_broker_that_starts_is_told_of_all_leaders():
    """Section 6.2, `broker_startup`: the others first, then the new one.

    Of queued topics it hears nothing there; their deletion begins when all their brokers are up.
    """
    state = read_state("""
        partition  ar   isr  leader  epoch  offline_dir  state
        t-0        1,3  1    1       4      -            ONLINE
        t-1        3,1  3    -       4      3            OFFLINE
        q-0        1,3  1    1       4      -            ONLINE
    """, down=[3], queued=["q"])
    outcome = Controller(state, journal="full").on_broker_startup({3: 77})
    assert actions(outcome)[:2] == [
        "tell the others of the new brokers", "tell the new brokers of all leaders",
    ]
    told = outcome.update_metadata_brokers.to_pylist()
    assert [b["broker_id"] for b in told if b["step"] == 0] == [1]
    assert [b["broker_id"] for b in told if b["step"] == 1] == [3]
    entries = outcome.update_metadata.to_pylist()
    assert [(e["topic"], e["partition"]) for e in entries if e["step"] == 1] == [
        ("t", 0), ("t", 1),
    ]
    assert [e for e in entries if e["step"] == 0] == []
    assert {e["topic"] for e in entries if e["step"] == 1} == {"t"}
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state         replicas
        t-0        1,3  1    1       4      ONLINE        1:ONLINE,3:ONLINE
        t-1        3,1  3    3       5      ONLINE        1:ONLINE,3:ONLINE
        q-0        1,3  1    -       5      NON_EXISTENT  1:DELETION_STARTED,3:DELETION_STARTED
    """)
    assert not state.records["offline_dir"].any()
    assert state.broker_epoch.tolist() == [0, 77]


def test_a_bounced_broker_is_gone_and_back():
    """Section 6.2, step 3: it loses its leaders and its place in the ISRs."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1,2  1       4      ONLINE
        t-1        1    1    1       4      ONLINE
    """, epochs={1: 10})
    Controller(state).on_broker_change(bounced=[1])
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state   replicas
        t-0        1,2  2    2       5      ONLINE  1:ONLINE,2:ONLINE
        t-1        1    1    1       6      ONLINE  1:ONLINE
    """)
    assert state.broker_epoch.tolist() == [11, 0]


def test_a_broker_that_dies_is_no_longer_shutting_down():
    """Section 6.2, `broker_failure`, step 1."""
    state = read_state(QUIET, shutting_down=[1])
    controller = Controller(state)
    controller.on_broker_failure([1])
    controller.on_broker_startup([1])
    assert not state.shutting_down.any()


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"started": [1]}, "broker 1 is registered; only a broker that is not registered yet"),
        ({"failed": [9]}, "broker 9 is not registered; only a broker that is registered"),
        ({"failed": ["1"]}, "broker_ids has .1. .*broker ids"),
        ({"bounced": [4]}, "broker 4 is not registered"),
        ({"failed": [1, 1]}, "names a broker twice; nothing was changed"),
    ],
)
def test_a_broker_list_that_cannot_be_is_refused(lists, message):
    """A caller's mistake: raised before anything changes."""
    state = read_state(QUIET, down=[4])
    before = state.copy()
    with pytest.raises(ArgumentError, match=message):
        Controller(state).on_broker_change(**lists)
    assert state == before


def test_changed_endpoints_are_announced_to_all():
    """Section 6.2, endpoints or features changed."""
    state = read_state(QUIET, down=[4])
    outcome = Controller(state, journal="full").on_broker_modification([2])
    assert outcome.update_metadata_brokers.column("broker_id").to_pylist() == [1, 2, 3]


# --- queued topics ------------------------------------------------------------------------------


def test_no_leader_is_elected_for_a_queued_topic_when_a_broker_dies():
    """Sections 6.2 and 6.12: its replica is ineligible, and at once Offline again.

    Being reset shrinks the ISR, and nobody but the dead broker would be told.
    """
    state = read_state("""
        partition  ar   isr  leader  epoch  state   replicas
        q-0        1,2  1,2  1       4      ONLINE  1:OFFLINE,2:ONLINE
    """, queued=["q"])
    outcome = Controller(state, journal="full").on_broker_failure([1])
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state   replicas
        q-0        1,2  2    -       5      ONLINE  1:OFFLINE,2:ONLINE
    """)
    moved = [(t["from_state"], t["to_state"]) for t in outcome.transitions.to_pylist()]
    assert moved == [
        ("OfflineReplica", "ReplicaDeletionIneligible"),
        ("ReplicaDeletionIneligible", "OfflineReplica"),
    ]
    assert state.topic_ineligible.tolist() == [True]
    assert outcome.elections.num_rows == 0
    assert outcome.requests.num_rows == 0


def test_a_queued_replica_that_is_still_online_is_refused():
    """Section 6.12, note: Online to DeletionIneligible is not legal."""
    state = read_state(QUIET, queued=["u"])
    outcome = Controller(state, journal="full").on_broker_failure([3])
    refused = outcome.refusals.to_pylist()
    assert [(r["topic"], r["from_state"], r["to_state"], r["error"]) for r in refused] == [
        ("u", "OnlineReplica", "ReplicaDeletionIneligible", "IllegalState"),
    ]


def test_without_topic_deletion_the_failure_of_queued_replicas_says_nothing():
    """Section 6.12: every entry point is a no-op."""
    state = read_state(QUIET, queued=["u"], delete_topic_enabled=False)
    outcome = Controller(state, journal="full").on_broker_failure([3])
    assert outcome.refusals.num_rows == 0
    assert not state.topic_ineligible.any()


# --- becoming controller (section 6.1) ----------------------------------------------------------


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
    assert actions(outcome)[0] == "announce the live brokers"
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
