"""Elections on demand, automatic rebalancing, unclean election by configuration.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import pytest

from kfast import ArgumentError, Controller, Store
from tests.support.states import assert_reads, read_state

CLUSTER = """
    partition  ar     isr    leader  epoch  state
    t-0        1,2,3  1,2,3  2       7      ONLINE
    t-1        1,2,3  1,2,3  1       7      ONLINE
    t-2        4,2,3  2,3    2       7      ONLINE
    t-3        4,2    4      -       7      OFFLINE
    t-4        1,2    1,2    2       7      NON_EXISTENT
    q-0        1,2    1,2    2       7      ONLINE
"""


def cluster(**options):
    """Broker 4 is down; topic q is queued."""
    return read_state(CLUSTER, down=[4], queued=["q"], **options)


def replies(outcome):
    """Reply by partition: a leader or an error."""
    return {
        f"{r['topic']}-{r['partition']}": r["leader"] if r["error"] is None else r["error"]
        for r in outcome.replies.to_pylist()
    }


def test_replies_to_a_preferred_election():
    """Section 6.8, pre-filter and reply; an illegal state is missing from it."""
    state = cluster()
    outcome = Controller(state).elect_leaders()
    assert replies(outcome) == {
        "t-0": 1, "t-1": "ELECTION_NOT_NEEDED", "t-2": "PREFERRED_LEADER_NOT_AVAILABLE",
        "t-3": "PREFERRED_LEADER_NOT_AVAILABLE", "q-0": "INVALID_TOPIC_EXCEPTION",
    }
    assert_reads(state, CLUSTER.replace("1,2,3  2       7", "1,2,3  1       8", 1))


def test_replies_to_an_unclean_election():
    """Section 6.8: a leader whose broker is live is enough."""
    state = cluster()
    asked = [("t", 0), ("t", 3), ("t", 9), ("x", 0), ("q", 0)]
    outcome = Controller(state).elect_leaders(asked, type="unclean")
    assert replies(outcome) == {
        "t-0": "ELECTION_NOT_NEEDED", "t-3": 2, "q-0": "INVALID_TOPIC_EXCEPTION",
        "t-9": "UNKNOWN_TOPIC_OR_PARTITION", "x-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert state.leadership(3).recovery == state.unclean_elections == 1


def test_only_the_admin_client_may_elect_unclean():
    """Section 6.8, core: any other trigger reads the topic's configuration."""
    for unclean, answer in ((False, "ELIGIBLE_LEADERS_NOT_AVAILABLE"), (True, 2)):
        state = cluster(unclean={"t": unclean})
        outcome = Controller(state).elect_leaders([("t", 3)], "unclean", "ZkTriggered")
        assert replies(outcome) == {"t-3": answer}


def test_a_partition_without_leadership_kills_the_event():
    """Section 6.8, note: the filter raises, nobody is elected."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1,2  2       7      ONLINE
        t-1        1,2  -    -       -      NEW
    """)
    before = state.copy()
    outcome = Controller(state).elect_leaders()
    assert (outcome.error, outcome.replies) == ("NoSuchElement", None)
    assert state == before


def test_the_store_may_fail_an_election():
    """Section 6.8, reply: the error is mapped from the exception."""
    state = cluster()
    store = Store(state)
    store.fail("update_states", "throw")
    outcome = Controller(state, store=store).elect_leaders([("t", 0)])
    assert replies(outcome) == {"t-0": "UNKNOWN_SERVER_ERROR"}


@pytest.mark.parametrize("options", [{"type": "any"}, {"trigger": "AutoTriggered"}])
def test_types_and_triggers_have_names(options):
    """A caller's mistake."""
    with pytest.raises(ArgumentError, match="is unknown; allowed: "):
        Controller(cluster()).elect_leaders(**options)


# --- automatic rebalancing ----------------------------------------------------------------------


def ten(bad: int) -> str:
    """Ten partitions that prefer broker 1, of which it does not lead some."""
    lines = [f"t-{i}  1,2  1,2  {2 if i < bad else 1}  7  ONLINE" for i in range(10)]
    return "\n".join(["partition ar isr leader epoch state", *lines])


@pytest.mark.parametrize(("bad", "percentage", "acts"), [
    (1, 10, False), (2, 10, True), (2, 20, False), (1, 9.9, True), (1, 0, True), (0, 0, False),
])
def test_the_imbalance_ratio_must_be_greater(bad, percentage, acts):
    """Section 6.8, auto, step 3: strictly."""
    state = read_state(ten(bad))
    outcome = Controller(state).rebalance_leaders(percentage)
    assert state.preferred_imbalance_count == (0 if acts else bad)
    assert outcome.imbalance.to_pylist() == [
        {"broker_id": 1, "preferred": 10, "led_by_others": bad, "ratio": bad / 10},
    ]


def test_who_is_given_back():
    """Section 6.8, auto: online, in the cached ISR, topic not queued and known."""
    state = read_state("""
        partition  ar   isr  leader  epoch  offline_dir  state
        t-0        1,2  1,2  2       7      -            ONLINE
        t-1        1,2  2    2       7      -            ONLINE
        t-2        1,2  1,2  2       7      1            ONLINE
        t-3        4,2  2,4  2       7      -            ONLINE
        q-0        1,2  1,2  2       7      -            ONLINE
        t-4        1,2  -    -       -      -            NEW
        t-5        3,2  2,3  2       7      -            ONLINE
    """, down=[4], queued=["q"])
    outcome = Controller(state, journal="full").rebalance_leaders()
    assert [(e["topic"], e["partition"], e["leader"]) for e in outcome.elections.to_pylist()] == [
        ("t", 0, 1), ("t", 5, 3),
    ]
    found = {r["broker_id"]: (r["led_by_others"], r["preferred"])
             for r in outcome.imbalance.to_pylist()}
    assert found == {1: (3, 4), 3: (1, 1), 4: (1, 1)}
    assert state.list_marked(state.pending).tolist() == [5], "only elections, no initialisation"


# --- unclean election by configuration ----------------------------------------------------------


OFFLINE = """
    partition  ar   isr  leader  epoch  state
    t-0        1,2  1    -       7      OFFLINE
    u-0        1,2  1    -       7      OFFLINE
    q-0        1,2  1    -       7      OFFLINE
    t-1        3,2  3    3       7      ONLINE
"""


def test_one_topic_may_elect_unclean():
    """Section 6.11: allow_unclean is false, permission comes from configuration."""
    state = read_state(OFFLINE, down=[1], queued=["q"])
    Controller(state).enable_unclean_leader_election(["t", "q"])
    assert_reads(state, """
        partition  ar   isr  leader  epoch  recovery  state
        t-0        1,2  2    2       8      1         ONLINE
        u-0        1,2  1    -       7      0         OFFLINE
        q-0        1,2  1    -       7      0         OFFLINE
        t-1        3,2  3    3       7      0         ONLINE
    """)


def test_the_default_does_not_beat_a_topic():
    """Section 4.2: a topic's override beats the broker default."""
    state = read_state(OFFLINE, down=[1], unclean={"t": False})
    Controller(state).enable_unclean_leader_election()
    assert state.leadership(0).leader == -1
    assert [state.leadership(row).leader for row in (1, 2)] == [2, 2]
    assert state.unclean_elections == 2


def test_without_recovery_an_unclean_leader_does_not_recover():
    """Section 4.1: inter-broker protocols before 3.2 keep the state."""
    state = read_state(OFFLINE, down=[1], leader_recovery_supported=False)
    Controller(state).enable_unclean_leader_election(["t"])
    assert (state.leadership(0).leader, state.leadership(0).recovery) == (2, 0)
