"""Elections of older controllers: the rows of section 8.1 on choosing leaders, a test each.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import pytest

from kfast import (
    ArgumentError,
    Code,
    PartitionState,
    PartitionStateMachine,
    Store,
    Strategy,
)
from kfast.controllers.zk.profiles import PROFILES
from tests.rules.test_profiles import (
    EVERY,
    LED,
    MIDDLE,
    NEW,
    OLDEST,
    bring_online,
    codes,
    errors,
    one_of,
    sent,
)
from tests.support.states import assert_reads, read_state

BOTH = pytest.mark.parametrize("with_store", [False, True])
TWO = """
    partition  ar   isr  leader  epoch  state
    t-0        1,2  1,2  -       7      OFFLINE
    t-1        1,2  2    -       7      OFFLINE
"""


@BOTH
@pytest.mark.parametrize("strategy", [s for s in Strategy if not s.allows_unclean])
@one_of(*EVERY)
def test_nobody_is_eligible(profile, strategy, with_store):
    """Row "nobody eligible": NoReplicaOnline of Offline and Reassign before 1.1."""
    state = read_state(LED, down=[1, 2])
    outcome = bring_online(state, profile, strategy, Store(state) if with_store else None)
    if strategy is Strategy.PREFERRED_REPLICA and profile in OLDEST:
        assert codes(outcome) == ["MOVED", "MOVED"]
        return
    by_selector = strategy in (Strategy.OFFLINE, Strategy.REASSIGN) and profile in OLDEST
    error = "NoReplicaOnline" if by_selector else "StateChangeFailed"
    assert errors(outcome) == [("NO_ELIGIBLE_LEADER", error, "OnlinePartition")] * 2
    assert_reads(state, LED)


@BOTH
@one_of(*EVERY)
def test_the_preferred_replica_leads_already(profile, with_store):
    """Row "preferred already leads": before 1.1 the partition is put Online, and that is all."""
    state = read_state(LED.replace("7      ONLINE", "7      OFFLINE", 1))
    outcome = bring_online(
        state, profile, Strategy.PREFERRED_REPLICA, Store(state) if with_store else None
    )
    needed = profile not in OLDEST
    assert codes(outcome) == (["ELECTED"] * 2 if needed else ["MOVED"] * 2)
    assert_reads(state, LED.replace(" 7 ", " 8 ") if needed else LED)
    assert outcome.elections.num_rows == (2 if needed else 0)
    assert len(sent(outcome, "LeaderAndIsr")) == (4 if needed else 0)
    pairs = list(zip(outcome.transitions["from_state"].to_pylist(),
                     outcome.transitions["to_state"].to_pylist(), strict=True))
    assert pairs == [("OfflinePartition", "OnlinePartition"), ("OnlinePartition",) * 2]


@one_of(*OLDEST)
def test_the_preferred_leader_is_asked_of_the_cache(profile):
    """Row "preferred already leads": the record is read, but the cached leader decides."""
    state = read_state(LED)
    store = Store(state)
    store.put("t", 0, leader=2, isr=[1, 2], leader_epoch=8, version=8, controller_epoch=3)
    store.put("t", 1, leader=1, isr=[1], leader_epoch=8, version=8, controller_epoch=9)
    outcome = bring_online(state, profile, Strategy.PREFERRED_REPLICA, store)
    assert codes(outcome) == ["MOVED", "NEWER_CONTROLLER"]


@BOTH
@one_of(*EVERY)
def test_without_a_strategy(profile, with_store):
    """Row "election form": before 1.1 the NoOp selector writes the record back as it is."""
    state = read_state(LED, down=[1])
    outcome = bring_online(state, profile, None, Store(state) if with_store else None)
    if profile not in OLDEST:
        assert outcome.failure == Code.ILLEGAL_ARGUMENT
        assert_reads(state, LED)
        return
    assert outcome.failure is None
    assert codes(outcome) == ["ELECTED", "ELECTED"]
    assert_reads(state, """
        partition  ar   isr  leader  epoch  version  state
        t-0        1,2  1,2  1       7      8        ONLINE
        t-1        1,2  1    1       7      8        ONLINE
    """)
    assert sent(outcome, "LeaderAndIsr") == [(2, "t-0"), (2, "t-1")]


@one_of(*EVERY)
def test_unclean_election_by_argument(profile):
    """Row "election form": Offline has no argument before 2.4; nothing is changed."""
    state = read_state(TWO)
    machine = PartitionStateMachine(state, profile=profile)
    asked = [0, 1], PartitionState.ONLINE, Strategy.OFFLINE_ALLOW_UNCLEAN
    if profile in NEW:
        assert codes(machine.handle_state_changes(*asked)) == ["ELECTED", "ELECTED"]
        return
    with pytest.raises(ArgumentError, match="OFFLINE_ALLOW_UNCLEAN is unknown"):
        machine.handle_state_changes(*asked)
    assert_reads(state, TWO)


@one_of(*EVERY)
def test_one_conflict_makes_all_elections_run_again(profile):
    """Row "election retry": in 1.1 to 2.3 every partition of the call is elected again."""
    state = read_state(TWO)
    store = Store(state)
    store.fail("update_states", "BADVERSION", [("t", 0)])
    outcome = bring_online(state, profile, store=store)
    again = profile in MIDDLE
    assert codes(outcome) == ["ELECTED", "ELECTED"]
    assert state.leadership(0).leader_epoch == 8
    assert state.leadership(1).leader_epoch == (9 if again else 8)
    moves = [
        (r["partition"], r["from_state"], r["to_state"]) for r in outcome.transitions.to_pylist()
    ]
    assert moves == [(n, "OfflinePartition", "OnlinePartition") for n in (0, 1)] + (
        [(1, "OnlinePartition", "OnlinePartition")] if again else []
    )
    told = [r["leader_epoch"] for r in outcome.requests.to_pylist() if r["partition"] == 1]
    assert told == [state.leadership(1).leader_epoch] * 2


@one_of(*EVERY)
def test_a_failed_election_is_tried_again_with_the_others(profile):
    """Row "election retry": what failed is logged once a round; who won once stays Online."""
    state = read_state(TWO.replace("1,2  2  ", "3    3  "), down=[3])
    store = Store(state)
    store.fail("update_states", "BADVERSION", [("t", 0)], times=2)
    outcome = bring_online(state, profile, store=store)
    assert codes(outcome) == ["ELECTED", "NO_ELIGIBLE_LEADER"]
    assert len(errors(outcome)) == (3 if profile in MIDDLE else 1)


@one_of(*EVERY)
def test_an_undecodable_record(profile):
    """Row "undecodable record": in 1.1 to 2.3 it ends the call before anybody is elected."""
    state = read_state(TWO)
    store = Store(state)
    store.put_garbage("t", 1)
    outcome = bring_online(state, profile, store=store)
    if profile in MIDDLE:
        assert outcome.failure == Code.UNDECODABLE
        assert set(codes(outcome)) == {"UNDECODABLE"}
        assert outcome.refusals.num_rows == outcome.requests.num_rows == 0
        assert_reads(state, TWO)
    else:
        assert codes(outcome) == ["ELECTED", "NO_RECORD"]


@BOTH
@one_of(*EVERY)
def test_who_is_told_of_a_controlled_shutdown(profile, with_store):
    """Row "shutdown strategy live set": 1.1 and 2.0 leave out brokers that shut down."""
    state = read_state("""
        partition  ar       isr      leader  epoch  state
        t-0        1,2,3,4  1,2,3,4  1       7      ONLINE
    """, shutting_down=[1, 2])
    outcome = bring_online(
        state, profile, Strategy.CONTROLLED_SHUTDOWN, Store(state) if with_store else None
    )
    told = [b for b, _ in sent(outcome, "LeaderAndIsr")]
    assert told == ([3, 4] if profile in MIDDLE else [1, 2, 3, 4])
    assert (state.leadership(0).leader, state.leadership(0).isr) == (3, (3, 4))


@one_of(*EVERY)
def test_kernel_numbers_are_apart(profile):
    """Every election of a version has a number of its own."""
    version = PROFILES[profile]
    known = [None, *(s for s in Strategy if not s.allows_unclean)]
    numbers = [version.kernel_strategy(s) for s in known]
    assert len(set(numbers)) == len(known)
