"""Older controllers: the rows of section 8.1 that the machines decide, a test each.

A test says what each profile does; a profile that is not named does as zk-3.9.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from kfast import (
    ArgumentError,
    ClusterState,
    Code,
    Controller,
    PartitionState,
    PartitionStateMachine,
    ReplicaState,
    ReplicaStateMachine,
    Store,
    Strategy,
)
from kfast.controllers.zk.profiles import PROFILES, ZK_2_0, ZK_3_9, find_profile, valid_transitions
from kfast.testing.invariants import check_step
from kfast.testing.single_elections import elect
from tests.support.states import assert_reads, read_state

ROOT = Path(__file__).resolve().parents[2]
EVERY = tuple(PROFILES)
OLDEST = ("zk-0.10", "zk-1.0")
MIDDLE = ("zk-1.1", "zk-2.0")
NEW = ("zk-2.4", "zk-3.9")

LED = """
    partition  ar   isr  leader  epoch  state
    t-0        1,2  1,2  1       7      ONLINE
    t-1        1,2  1    1       7      ONLINE
"""
NEW_PARTITION = """
    partition  ar   isr  leader  epoch  state  replicas
    t-0        1,2  -    -       -      NEW    -
"""


def one_of(*names: str) -> pytest.MarkDecorator:
    """A test for these profiles."""
    return pytest.mark.parametrize("profile", names)


def move(state, profile, brokers, target, store=None):
    """Replicas on brokers to a state."""
    machine = ReplicaStateMachine(state, store, profile=profile)
    return machine.handle_state_changes(state.replicas_on_brokers(brokers), target)


def bring_online(state, profile, strategy=Strategy.OFFLINE, store=None):
    """All partitions to OnlinePartition."""
    machine = PartitionStateMachine(state, store, profile=profile)
    rows = range(state.n_partitions)
    return machine.handle_state_changes(list(rows), PartitionState.ONLINE, strategy)


def codes(outcome):
    """Names of the codes."""
    return [Code(code).name for code in outcome.codes]


def errors(outcome):
    """(code, class of error, logged target) of the error log."""
    return [(r["code"], r["error"], r["to_state"]) for r in outcome.refusals.to_pylist()]


def sent(outcome, kind):
    """Who is told of which partition."""
    return sorted(
        (r["broker_id"], f"{r['topic']}-{r['partition']}")
        for r in outcome.requests.to_pylist() if r["kind"] == kind
    )


# --- profiles are data --------------------------------------------------------------------------


def test_an_unknown_profile_names_the_known_ones():
    """And nothing is made."""
    with pytest.raises(ArgumentError, match=r"'zk-9' is unknown; allowed: zk-3\.9, zk-2\.4"):
        find_profile("zk-9")


def test_every_switch_differs_between_some_profiles():
    """A switch that is the same everywhere would be no difference between versions."""
    for field in fields(ZK_3_9):
        values = {str(getattr(profile, field.name)) for profile in PROFILES.values()}
        assert len(values) > 1 or field.name == "partition_previous", field.name


def test_every_switch_is_read_and_written_down():
    """Some module reads it, and the table of `docs/profiles.md` names it; and nothing else."""
    text = "".join(path.read_text("utf-8") for path in (ROOT / "kfast").rglob("*.py"))
    switches = {field.name for field in fields(ZK_3_9)} - {"name", "title"}
    assert [name for name in sorted(switches) if not re.search(rf"\.{name}\b", text)] == []
    page = (ROOT / "docs" / "profiles.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.count(" | ") == 2]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[3])} == switches
    assert set(re.findall(r"^\| `(zk-[\d.]+)`", page, re.M)) == set(PROFILES)


def test_a_profile_of_ones_own():
    """One switch of 2.0 in 3.9: the machines read the switch, not the name."""
    mine = replace(ZK_3_9, name="mine", without_leadership=ZK_2_0.without_leadership)
    state = read_state(NEW_PARTITION.replace("NEW    -", "NEW    1:ONLINE,2:ONLINE"))
    outcome = move(state, mine, [1], ReplicaState.OFFLINE)
    assert codes(outcome) == ["DROPPED"]
    assert Controller(state, profile=mine).profile is mine


# --- liveness, startup, matrix --------------------------------------------------------------------


@one_of("zk-0.10")
def test_offline_log_directories_are_unknown_before_1_0(profile):
    """Row "liveness": a broker is live or not; a state that says more is refused."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state   offline_dir
        t-0        1,2  1,2  2       7      ONLINE  1
    """)
    for kind in (Controller, ReplicaStateMachine, PartitionStateMachine):
        with pytest.raises(ArgumentError, match="offline log directories"):
            kind(state, profile=profile)
        kind(state, profile="zk-1.0")


@pytest.mark.parametrize("with_store", [False, True])
@one_of(*EVERY)
def test_dead_replicas_at_startup(profile, with_store):
    """Row "startup": before 2.3 they stay DelIneligible, in the ISR, and nobody elects first."""
    state = read_state(LED.replace("1    1", "2    2"), down=[2])
    store = Store(state) if with_store else None
    outcome = ReplicaStateMachine(state, store, profile=profile).startup()
    moved = profile in NEW
    wanted = ReplicaState.OFFLINE if moved else ReplicaState.DELETION_INELIGIBLE
    assert {state.replica_states_of(row)[2] for row in (0, 1)} == {wanted}
    assert [state.leadership(row).isr for row in (0, 1)] == [(1,) if moved else (1, 2), (2,)]
    assert ("replicas to OfflineReplica" in outcome.steps["action"].to_pylist()) == moved


@one_of(*EVERY)
def test_the_matrix(profile):
    """Row "matrix": 14 pairs, and before 2.3 Offline cannot become ineligible: 13."""
    found = find_profile(profile)
    pairs = valid_transitions(found.replica_previous)
    assert len(pairs) == (14 if profile in NEW else 13)
    assert (("OFFLINE", "DELETION_INELIGIBLE") in pairs) == (profile in NEW)
    state = read_state(LED)
    move(state, profile, [2], ReplicaState.OFFLINE)
    outcome = move(state, profile, [2], ReplicaState.DELETION_INELIGIBLE)
    assert set(codes(outcome)) == {"MOVED" if profile in NEW else "ILLEGAL_STATE"}


# --- NewReplica -----------------------------------------------------------------------------------


@one_of(*EVERY)
def test_a_new_replica_asks_the_store_before_1_1(profile):
    """Row "-> NewReplica": LeaderAndIsr says what the store says, UpdateMetadata what is cached."""
    state = read_state("""
        partition  ar     isr  leader  epoch  state   replicas
        t-0        1,2,3  1,2  1       7      ONLINE  1:ONLINE,2:ONLINE
    """)
    store = Store(state)
    store.put("t", 0, leader=2, isr=[2], leader_epoch=9, version=12, controller_epoch=3)
    outcome = move(state, profile, [3], ReplicaState.NEW, store)
    (told,) = outcome.requests.to_pylist()
    asked = profile in OLDEST
    assert (told["broker_id"], told["leader"], told["isr"], told["leader_epoch"]) == (
        (3, 2, [2], 9) if asked else (3, 1, [1, 2], 7)
    )
    assert told["is_new"] == (profile != "zk-0.10")
    assert outcome.update_metadata["leader_epoch"].to_pylist() == [7]
    assert state.leadership(0).leader == 1
    assert [call for call, _ in store.calls] == (["read"] if asked else [])
    assert codes(outcome) == ["MOVED"]


@one_of(*OLDEST)
def test_a_new_replica_that_leads_in_the_store(profile):
    """Row "-> NewReplica": refused, and logged with the target that was asked for."""
    state = read_state(NEW_PARTITION)
    store = Store(state)
    store.put("t", 0, leader=1, isr=[1], version=3)
    outcome = move(state, profile, [1, 2], ReplicaState.NEW, store)
    assert codes(outcome) == ["LEADER_IS_NEW_REPLICA", "MOVED"]
    assert errors(outcome) == [("LEADER_IS_NEW_REPLICA", "StateChangeFailed", "NewReplica")]
    assert sent(outcome, "LeaderAndIsr") == [(2, "t-0")]
    assert outcome.update_metadata.num_rows == 0


@one_of(*OLDEST)
@pytest.mark.parametrize(
    ("fault", "code", "calls"),
    [("NONODE", "MOVED", 2), ("NOAUTH", "STORE_ERROR", 2), ("throw", "STORE_ERROR", 2)],
)
def test_a_new_replica_reads_for_itself(profile, fault, code, calls):
    """Rows "unit of work", "-> NewReplica": a failed read fails one replica."""
    state = read_state(NEW_PARTITION)
    store = Store(state)
    store.fail("read_states", fault)
    outcome = move(state, profile, [1, 2], ReplicaState.NEW, store)
    assert codes(outcome) == [code, "MOVED"]
    assert len(store.calls) == calls
    assert outcome.counts.requests == {"LeaderAndIsr": 0, "UpdateMetadata": 0, "StopReplica": 0}


# --- OfflineReplica -------------------------------------------------------------------------------


@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize("queued", [False, True])
@one_of(*EVERY)
def test_offline_without_leadership(profile, queued, with_store):
    """Row "-> OfflineReplica, no cached leadership": StopReplica goes out in every version."""
    state = read_state(NEW_PARTITION.replace("NEW    -", "NEW    1:NEW,2:NEW"),
                       queued=["t"] if queued else [])
    outcome = move(state, profile, [1], ReplicaState.OFFLINE, Store(state) if with_store else None)
    moved, refused = profile in NEW, profile in OLDEST and not queued
    assert codes(outcome) == ["MOVED" if moved else "NO_RECORD" if refused else "DROPPED"]
    assert errors(outcome) == (
        [("NO_RECORD", "StateChangeFailed", "OfflineReplica")] if refused else []
    )
    after = ReplicaState.OFFLINE if moved else ReplicaState.NEW
    assert state.replica_states_of(0)[1] == after
    assert sent(outcome, "StopReplica") == [(1, "t-0")]
    assert outcome.counts.requests["UpdateMetadata"] == (2 if moved else 0)


@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize("unclean", [False, True])
@one_of(*EVERY)
def test_the_sole_isr_member_goes_offline(profile, unclean, with_store):
    """Row "ISR shrink, sole member": before 1.1 it stays only without unclean election."""
    state = read_state(LED, unclean={"t": unclean}, down=[1])
    before = state.copy()
    outcome = move(state, profile, [1], ReplicaState.OFFLINE, Store(state) if with_store else None)
    left = profile in OLDEST and unclean
    record = state.leadership(1)
    assert (record.leader, record.isr, record.leader_epoch) == (-1, () if left else (1,), 8)
    assert state.leadership(0).isr == (2,)
    check_step(before, state, outcome, profile=profile)
    if left:
        with pytest.raises(AssertionError, match="invariant 4"):
            check_step(before, state, outcome)


class Overtaken(Store):
    """Before the first write another controller writes t-0."""

    overtaken = False

    def update_states(self, rows, records, *, guarded=True):
        if not self.overtaken:
            self.overtaken = True
            self.put("t", 0, leader=2, isr=[2], leader_epoch=9, version=20, controller_epoch=9)
        return super().update_states(rows, records, guarded=guarded)


@one_of(*EVERY)
def test_a_shrink_that_loses_the_race(profile):
    """Row "ISR shrink, cache": before 1.1 the cache keeps what could not be written."""
    state = read_state(LED)
    outcome = move(state, profile, [1], ReplicaState.OFFLINE, Overtaken(state))
    assert codes(outcome) == ["NEWER_CONTROLLER", "MOVED"]
    lost = """
        partition  ar   isr  leader  epoch  version  state
        t-0        1,2  2    -       8      -1       ONLINE
        t-1        1,2  1    -       8      8        ONLINE
    """
    kept = lost.replace("2    -       8      -1", "1,2  1       7      7 ", 1)
    assert_reads(state, lost if profile in OLDEST else kept)
    store = Store(state)
    store.fail("update_states", "BADVERSION", [("t", 1)])
    assert codes(move(state, profile, [2], ReplicaState.OFFLINE, store))[1] == "MOVED"
    assert state.leadership(1).version == 8


@one_of(*EVERY)
def test_a_shrink_without_a_stored_record(profile):
    """Row "ISR shrink, record missing": refused, but silent where the topic is queued."""
    for queued, code in (([], "NO_RECORD"), (["t"], "DROPPED")):
        state = read_state(LED, queued=queued)
        store = Store(state)
        store.delete("t", 0)
        outcome = move(state, profile, [1], ReplicaState.OFFLINE, store)
        assert codes(outcome) == [code, "MOVED"]


@one_of(*EVERY)
def test_one_failed_call_before_1_1_fails_one_item(profile):
    """Row "unit of work": before 1.1 each replica and each partition has its own store calls."""
    alone = profile in OLDEST
    state = read_state(LED)
    store = Store(state)
    store.fail("read_states", "throw")
    assert codes(move(state, profile, [2], ReplicaState.OFFLINE, store)) == [
        "STORE_ERROR", "MOVED" if alone else "STORE_ERROR",
    ]
    store.fail("read_states", "throw")
    assert codes(bring_online(state, profile, store=store)) == [
        "STORE_ERROR", "ELECTED" if alone else "STORE_ERROR",
    ]


# --- initialisation -------------------------------------------------------------------------------


@one_of(*EVERY)
def test_a_record_that_exists_already(profile):
    """Row "initialisation, node exists": a StateChangeFailed before 1.1."""
    state = read_state(NEW_PARTITION)
    store = Store(state)
    store.put("t", 0, leader=2, isr=[2])
    outcome = bring_online(state, profile, store=store)
    wanted = "StateChangeFailed" if profile in OLDEST else "StoreError"
    assert errors(outcome) == [("NODE_EXISTS", wanted, "OnlinePartition")]
    assert state.leadership(0) is None


@one_of(*EVERY)
def test_a_failed_create_is_logged_with_its_target_before_1_1(profile):
    """Row "unit of work": an error is caught per item, which knows what was asked for."""
    state = read_state(NEW_PARTITION)
    store = Store(state)
    store.fail("create_states", "throw")
    outcome = bring_online(state, profile, store=store)
    target = "OnlinePartition" if profile in OLDEST else "NewPartition"
    assert errors(outcome) == [("CREATE_CALL_FAILED", "StoreError", target)]


@one_of(*EVERY)
def test_first_leaders(profile):
    """Row "is_new flag": there from 1.0 on; the records are the same everywhere."""
    state = read_state(NEW_PARTITION)
    outcome = bring_online(state, profile)
    assert_reads(state, """
        partition  ar   isr  leader  epoch  state   version  recovery
        t-0        1,2  1,2  1       0      ONLINE  0        0
    """)
    assert set(outcome.requests["is_new"].to_pylist()) == {profile != "zk-0.10"}


# --- writes that nobody guards --------------------------------------------------------------------


@one_of(*EVERY)
def test_writes_of_a_replaced_controller(profile):
    """Row "controller-epoch guard": before 2.1 a controller that was replaced still writes."""
    state = read_state(LED)
    store = Store(state)
    store.elect_controller()
    store.fail("update_states", "controller_moved")
    outcome = bring_online(state, profile, store=store)
    guarded = profile in NEW
    assert (outcome.failure == Code.CONTROLLER_MOVED) == guarded
    assert state.leadership(0).leader_epoch == (7 if guarded else 8)


# --- elections are in test_profile_elections ------------------------------------------------------


@one_of(*EVERY)
def test_recovery_of_an_unclean_leader(profile):
    """Row "leader recovery state": none before 3.2; a record that has it keeps it."""
    state: ClusterState = read_state(
        LED, down=[1], unclean={"t": True}, leader_recovery_supported=True
    )
    record = state.leadership(1)
    chosen = elect(state, 1, Strategy.OFFLINE, record=record, unclean_enabled=True,
                   profile=profile)
    assert chosen.unclean
    assert chosen.elected.recovery == (profile == "zk-3.9")
    bring_online(state, profile)
    assert state.leadership(1).recovery == (profile == "zk-3.9")
