"""Brokers fail, start and bounce.

Source: docs/controller.md, section 6.2; Kafka 3.9, KafkaController.scala, `onBrokerFailure`,
`onBrokerStartup` and `processBrokerChange`.
"""

from __future__ import annotations

import pytest

from kfast import ArgumentError, Controller
from tests.support.states import QUIET, assert_reads, read_state


def requests(outcome, kind: str) -> list[tuple]:
    """(broker, topic, partition) of every request of a kind."""
    return [
        (r["broker_id"], r["topic"], r["partition"])
        for r in outcome.requests.to_pylist() if r["kind"] == kind
    ]


# --- failure ------------------------------------------------------------------------------------


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
    assert "announce the live brokers" in idle.actions
    assert "announce the live brokers" not in busy.actions


def test_requests_go_to_registered_brokers_only():
    """Section 5.3: StopReplica to the dead broker is dropped."""
    state = read_state(QUIET)
    outcome = Controller(state, journal="full").on_broker_failure([1])
    assert 1 in {b for to in outcome.additions.column("to").to_pylist() for b in to or ()}
    assert 1 not in outcome.requests.column("broker_id").to_pylist()
    assert 1 not in outcome.update_metadata_brokers.column("broker_id").to_pylist()


# --- start, bounce and new endpoints ------------------------------------------------------------


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
    assert outcome.actions[:2] == (
        "tell the others of the new brokers", "tell the new brokers of all leaders",
    )
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


def test_a_queued_replica_that_is_still_online_is_refused():
    """Section 6.12, note: Online to DeletionIneligible is not legal."""
    state = read_state(QUIET, queued=["u"])
    outcome = Controller(state, journal="full").on_broker_failure([3])
    refused = outcome.refusals.to_pylist()
    assert [(r["topic"], r["from_state"], r["to_state"], r["error"]) for r in refused] == [
        ("u", "OnlineReplica", "ReplicaDeletionIneligible", "IllegalState"),
    ]
