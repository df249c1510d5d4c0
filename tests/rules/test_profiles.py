"""Older controllers: the rows of section 8.1, a test each.

The machines first, then how leaders are chosen, then requests and handlers. A test says what each
profile does; a profile that is not named does as zk-3.9.

Source: docs/controller.md, section 8.1.
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import kfast
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
    Strategy,
)
from kfast.cli.app import commands
from kfast.controllers.zk.profiles import PROFILES, ZK_2_0, ZK_3_9, find_profile
from kfast.testing.invariants import check, check_step
from kfast.testing.request_batch import RequestBatch
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
    text = "".join(path.read_text("utf-8") for path in Path(kfast.__file__).parent.rglob("*.py"))
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
    version = find_profile(profile)
    pairs = {(f.name, to.name) for to, froms in version.replica_previous.items() for f in froms}
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
    (request,) = outcome.requests.to_pylist()
    reads_store = profile in OLDEST
    assert (request["broker_id"], request["leader"], request["isr"], request["leader_epoch"]) == (
        (3, 2, [2], 9) if reads_store else (3, 1, [1, 2], 7)
    )
    assert request["is_new"] == (profile != "zk-0.10")
    assert outcome.update_metadata["leader_epoch"].to_pylist() == [7]
    assert state.leadership(0).leader == 1
    assert [call for call, _ in store.calls] == (["read"] if reads_store else [])
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
    unchanged = lost.replace("2    -       8      -1", "1,2  1       7      7 ", 1)
    assert_reads(state, lost if profile in OLDEST else unchanged)
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


# --- elections ------------------------------------------------------------------------------------


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
    arguments = [0, 1], PartitionState.ONLINE, Strategy.OFFLINE_ALLOW_UNCLEAN
    if profile in NEW:
        assert codes(machine.handle_state_changes(*arguments)) == ["ELECTED", "ELECTED"]
        return
    with pytest.raises(ArgumentError, match="OFFLINE_ALLOW_UNCLEAN is unknown"):
        machine.handle_state_changes(*arguments)
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
    epochs = [r["leader_epoch"] for r in outcome.requests.to_pylist() if r["partition"] == 1]
    assert epochs == [state.leadership(1).leader_epoch] * 2


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
    recipients = [b for b, _ in sent(outcome, "LeaderAndIsr")]
    assert recipients == ([3, 4] if profile in MIDDLE else [1, 2, 3, 4])
    assert (state.leadership(0).leader, state.leadership(0).isr) == (3, (3, 4))


BEFORE_2_2 = ("zk-0.10", "zk-1.0", "zk-1.1", "zk-2.0")
NAMES_DELETED = ("zk-0.10", "zk-1.0", "zk-1.1")
CLUSTER = """
    partition  ar     isr    leader  epoch  state
    t-0        1,2,3  1,2,3  1       7      ONLINE
    t-1        2,3    2,3    2       7      ONLINE
    q-0        1,2    1,2    1       7      ONLINE
    n-0        3      -      -       -      NEW
"""


def cluster(**options):
    """Topic q is queued for deletion."""
    return read_state(CLUSTER, **{"queued": ["q"], **options})


def metadata_entries(outcome, step=None):
    """Partitions and leaders that UpdateMetadata names, by step."""
    return [
        (r["topic"], r["partition"], r["leader"])
        for r in outcome.update_metadata.to_pylist() if step in (None, r["step"])
    ]


def metadata(outcome):
    """(who is told, partitions) of each UpdateMetadata."""
    brokers_of_step = {}
    for row in outcome.update_metadata_brokers.to_pylist():
        brokers_of_step.setdefault(row["step"], []).append(row["broker_id"])
    return [(ids, metadata_entries(outcome, step)) for step, ids in sorted(brokers_of_step.items())]


# --- UpdateMetadata -------------------------------------------------------------------------------


@one_of(*EVERY)
def test_metadata_of_no_partition(profile):
    """Row "UpdateMetadata with empty partition set": all with leadership, until 2.1."""
    outcome = Controller(cluster(), journal="full", profile=profile).on_broker_modification([1])
    everything = [("t", 0, 1), ("t", 1, 2), ("q", 0, -2)]
    assert metadata(outcome) == [([1, 2, 3], everything if profile in BEFORE_2_2 else [])]
    n = len(everything) * 3 if profile in BEFORE_2_2 else 0
    assert outcome.counts.request_partitions["UpdateMetadata"] == n


@pytest.mark.parametrize("journal", ["counts", "full"])
@BOTH
@one_of(*EVERY)
def test_metadata_names_what_is_to_be_deleted(profile, with_store, journal):
    """Row "UpdateMetadata extra content": always, with leader -2, until 1.1."""
    state = cluster()
    store = Store(state) if with_store else None
    controller = Controller(state, store=store, journal=journal, profile=profile)
    outcome = controller.controlled_shutdown(3)
    named = profile in NAMES_DELETED
    followed = 2
    if journal == "full":
        last = outcome.update_metadata["step"].to_pylist()[-1]
        deleted = [("q", 0, -2)] if named else []
        assert metadata_entries(outcome, last) == [("t", 0, 1), ("t", 1, 2), *deleted]
    batches = followed if profile in OLDEST else 1
    assert outcome.counts.requests["UpdateMetadata"] == 3 * batches
    extra = batches if named else 0
    assert outcome.counts.request_partitions["UpdateMetadata"] == 3 * (followed + extra)


@one_of(*EVERY)
def test_a_batch_by_itself(profile):
    """Rows "UpdateMetadata ..." and "is_new": of `RequestBatch` as well."""
    state = cluster()
    batch = RequestBatch(state, profile=profile)
    batch.add_update_metadata([1, 2], [])
    batch.add_leader_and_isr([3], 0, is_new=True)
    requests = batch.send().by_broker()
    named = {*requests[1][-1]["partitions"]}
    if profile in BEFORE_2_2:
        assert named == {"t-0", "t-1", "q-0"}
    else:
        assert named == {"t-0"}
    (leads,) = (r for r in requests[3] if r["kind"] == "LeaderAndIsr")
    assert leads["partitions"]["t-0"]["is_new"] == (profile != "zk-0.10")


@one_of(*EVERY)
def test_who_is_told_of_a_new_broker(profile):
    """Row "UM on new broker": one to all, then two, and until 2.6 with queued topics."""
    state = cluster(down=[3])
    outcome = Controller(state, journal="full", profile=profile).on_broker_startup([3])
    led = [("t", 0, 1), ("t", 1, 2)]
    everything = [*led, ("q", 0, -2)]
    first = metadata(outcome)[:2]
    if profile in BEFORE_2_2:
        assert first[0] == ([1, 2, 3], everything)
        assert first[1][1] != everything or profile in NAMES_DELETED
    else:
        assert first == [([1, 2], []), ([3], everything if profile == "zk-2.4" else led)]


# --- broker failure -------------------------------------------------------------------------------


@one_of(*EVERY)
def test_when_a_failure_is_announced_to_all(profile):
    """Row "final UM": before 3.1 it depends on leaders lost, not on who is elected."""
    for broker, lost, elected in ((3, False, False), (2, True, True)):
        state = read_state(CLUSTER)
        outcome = Controller(state, journal="full", profile=profile).on_broker_failure([broker])
        last = outcome.steps["action"].to_pylist()[-1]
        old = profile != "zk-3.9"
        assert (last == "announce the live brokers") == (not lost if old else False), elected


@one_of(*EVERY)
def test_whose_partitions_go_offline_with_a_broker(profile):
    """In 0.10 those that the dead broker led; since then all whose leader is not online."""
    state = read_state("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1    -       7      OFFLINE
        t-1        3,2  3,2  3       7      ONLINE
    """, down=[1])
    outcome = Controller(state, journal="full", profile=profile).on_broker_failure([3])
    offline = [r["partition"] for r in outcome.transitions.to_pylist()
            if r["to_state"] == "OfflinePartition"]
    assert offline == ([1] if profile == "zk-0.10" else [0, 1])
    assert state.leadership(1).leader == 2
    check(state)


@one_of(*EVERY)
def test_bounced_brokers(profile):
    """Row "broker-epoch checks, bounced brokers": not noticed before 2.2; a note says so."""
    state = read_state(CLUSTER, epochs={1: 5})
    before = state.copy()
    outcome = Controller(state, profile=profile).on_broker_change(bounced={1: 9})
    if profile in BEFORE_2_2:
        assert state.difference(before) is None
        assert "broker 1 bounced" in outcome.notes[0]
        assert not outcome.actions
    else:
        assert not outcome.notes
        assert state.leadership(0).leader_epoch == 8


# --- controlled shutdown --------------------------------------------------------------------------


@one_of(*EVERY)
def test_epochs_in_a_controlled_shutdown(profile):
    """Row "broker-epoch checks": before 2.2 there is nothing to compare."""
    state = read_state(CLUSTER, epochs={1: 5}, brokers=[9], down=[9])
    controller = Controller(state, profile=profile)
    older = profile in BEFORE_2_2
    assert controller.controlled_shutdown(9, 1).error == (
        "BrokerNotAvailable" if older else "NoSuchElement"
    )
    assert controller.controlled_shutdown(1, 4).error == (None if older else "StaleBrokerEpoch")


@one_of(*EVERY)
def test_queued_topics_in_a_controlled_shutdown(profile):
    """Row "controlled shutdown": until 2.0 queued topics are not left out, nor in the reply."""
    state = cluster()
    Controller(state, profile=profile).controlled_shutdown(1)
    row = int(state.find_partitions([("q", 0)])[0])
    older = profile in BEFORE_2_2
    assert state.leadership(row).leader == (2 if older else 1)
    alone = cluster(down=[2])
    outcome = Controller(alone, profile=profile).controlled_shutdown(1)
    assert outcome.remaining.tolist() == ([row] if older else [])


@BOTH
@pytest.mark.parametrize("journal", ["counts", "full"])
@one_of(*EVERY)
def test_batches_of_a_controlled_shutdown(profile, journal, with_store):
    """Row "controlled shutdown": partition by partition before 1.1, so one batch for each."""
    state = read_state("""
        partition  ar     isr    leader  epoch  state
        t-0        1,2,3  1,2,3  1       7      ONLINE
        t-1        1,2,3  1,2,3  1       7      ONLINE
        t-2        2,1    2,1    2       7      ONLINE
        t-3        2,1    2,1    2       7      ONLINE
    """)
    store = Store(state) if with_store else None
    controller = Controller(state, store=store, journal=journal, profile=profile)
    outcome = controller.controlled_shutdown(1)
    among = 2 if profile in MIDDLE else 3
    single = {"LeaderAndIsr": among + 1, "UpdateMetadata": 6, "StopReplica": 2}
    each = {"LeaderAndIsr": 8, "UpdateMetadata": 12, "StopReplica": 4}
    assert outcome.counts.requests == (each if profile in OLDEST else single)
    if journal == "full" and profile in OLDEST:
        names = [list(r["partitions"]) for r in outcome.by_broker()[2] if "partitions" in r]
        assert all(len(name) == 1 for name in names)


# --- elections on demand, rebalancing -------------------------------------------------------------


@one_of(*EVERY)
def test_elections_by_api(profile):
    """Row "AdminClient election": none before 2.4 (results from 2.2); the answer says so."""
    state = cluster()
    controller = Controller(state, profile=profile)
    for arguments in ({}, {"type": "unclean"}, {"type": "unclean", "trigger": "ZkTriggered"}):
        error = controller.elect_leaders([("t", 0)], **arguments).error
        assert error == ("UNSUPPORTED_VERSION" if profile in BEFORE_2_2 else None)
    assert_reads(state, CLUSTER)


@one_of(*EVERY)
def test_elections_by_node(profile):
    """Row "preferred already leads", of the event: until 2.1 only queued topics are left out."""
    state = cluster()
    outcome = Controller(state, journal="full", profile=profile).elect_leaders(
        [("t", 0), ("q", 0)], trigger="ZkTriggered"
    )
    again = profile in MIDDLE
    assert state.leadership(0).leader_epoch == (8 if again else 7)
    reply = {r["topic"]: r["error"] for r in outcome.replies.to_pylist()}
    assert reply == {
        "q": "INVALID_TOPIC_EXCEPTION", "t": None if again else "ELECTION_NOT_NEEDED",
    }
    unled = Controller(cluster(), profile=profile).elect_leaders([("n", 0)], trigger="ZkTriggered")
    assert unled.error == (None if profile in BEFORE_2_2 else "NoSuchElement")


IMBALANCED = """
    partition  ar     isr    leader  epoch  state
    t-0        1,2,3  1,2,3  2       7      ONLINE
    t-1        1,2,3  1,2,3  2       7      ONLINE
    t-2        1,2,3  2,3    2       7      ONLINE
    t-3        4,2    2      2       7      ONLINE
"""


@pytest.mark.parametrize("journal", ["counts", "full"])
@one_of(*EVERY)
def test_automatic_rebalancing(profile, journal):
    """Row "auto rebalance": the ISR is asked from 2.6 on; a batch each before 1.1."""
    state = read_state(IMBALANCED, down=[4])
    outcome = Controller(state, journal=journal, profile=profile).rebalance_leaders()
    assert [state.leadership(row).leader for row in range(4)] == [1, 1, 2, 2]
    if journal == "full":
        by_selector = [] if profile == "zk-3.9" else ["NO_ELIGIBLE_LEADER"]
        assert [code for code, _, _ in errors(outcome)] == by_selector
    batches = 2 if profile in OLDEST else 1
    assert outcome.counts.requests["UpdateMetadata"] == 3 * batches
    assert outcome.counts.requests["LeaderAndIsr"] == 3 * batches


@one_of(*EVERY)
def test_rebalancing_beside_a_reassignment(profile):
    """Row "auto rebalance": until 2.5 any reassignment holds it back."""
    state = read_state("""
        partition  ar     isr  leader  epoch  state   adding
        t-0        1,2    1,2  2       7      ONLINE  -
        t-1        1,2,3  1,2  1       7      ONLINE  3
    """)
    Controller(state, profile=profile).rebalance_leaders()
    assert state.leadership(0).leader == (1 if profile == "zk-3.9" else 2)


# --- what older versions do not have --------------------------------------------------------------


@one_of(*EVERY)
def test_isr_changes_by_request(profile):
    """Row "AlterPartition": before 2.7 leaders write ISRs themselves."""
    state = read_state(LED)
    outcome = Controller(state, profile=profile).alter_partition(1, 0, [1], 7, [[1, 2]], 7)
    if profile == "zk-3.9":
        assert outcome.alterations() == [AlterCode.WRITTEN]
        return
    assert outcome.error == "UNSUPPORTED_VERSION"
    assert_reads(state, LED)


@pytest.mark.parametrize("journal", ["counts", "full"])
@pytest.mark.parametrize(("release", "code"), [
    ("2.7", AlterCode.WRITTEN), ("3.2", AlterCode.WRITTEN),
    ("3.3", AlterCode.INELIGIBLE_REPLICA), ("3.9", AlterCode.INELIGIBLE_REPLICA),
])
def test_an_isr_may_be_asked_for_that_names_a_dead_broker(release, code, journal):
    """Row "AlterPartition": before 3.3. Seen on 2.8.2: a broker fetches before it registers again.

    Kafka 3.2, KafkaController.scala, `processAlterPartition`; 3.3, `tryProcessAlterPartition`.
    """
    before = """
        partition  ar     isr  leader  epoch  state
        t-0        1,2,3  1,3  1       7      ONLINE
        t-1        1,2,3  1    1       7      ONLINE
    """
    controller = Controller(read_state(before, down=[3]), journal=journal, profile=release)
    assert controller.catch_up([2]).alterations() == [code, AlterCode.WRITTEN]
    outcome = controller.alter_partition(1, 0, [1], 7, [[1, 2, 3]], 8)
    assert outcome.alterations() == [code]
    isr = (1, 2, 3) if code == AlterCode.WRITTEN else (1, 2)
    assert controller.state.leadership(1).isr == isr


@BOTH
@one_of(*EVERY)
def test_brokers_catch_up(profile, with_store):
    """Row "AlterPartition": the leader writes, a notification follows; versions rise alike."""
    state = read_state(LED)
    store = Store(state) if with_store else None
    controller = Controller(state, store=store, journal="full", profile=profile)
    outcome = controller.catch_up([2])
    assert outcome.alterations() == [AlterCode.WRITTEN]
    assert_reads(state, LED.replace("1,2  1    1", "1,2  1,2  1"))
    assert state.leadership(1).version == 8
    assert metadata(outcome) == [([1, 2], [("t", 1, 1)])]
    if store is not None:
        assert store.get("t", 1) == state.leadership(1)


@one_of(*BEFORE_2_2, "zk-2.4")
def test_the_version_that_a_leader_knows(profile):
    """It is the cached one, and the stored one before 2.4: there the cache may be behind (touch).

    A leader that cannot write leaves no notification, and nobody is told.
    """
    state = read_state(LED)
    store = Store(state)
    store.put("t", 1, leader=1, isr=[1], leader_epoch=7, version=9)
    controller = Controller(state, store=store, journal="full", profile=profile)
    outcome = controller.catch_up([2])
    if profile == "zk-2.4":
        assert outcome.alterations() == [AlterCode.INVALID_UPDATE_VERSION]
        assert metadata(outcome) == []
        assert_reads(state, LED)
    else:
        assert outcome.alterations() == [AlterCode.WRITTEN]
        assert state.leadership(1).version == 10


@one_of(*EVERY)
def test_log_directories(profile):
    """Row "liveness": 0.10 has no events of log directories."""
    state = read_state(LED)
    controller = Controller(state, profile=profile)
    wanted = "UNSUPPORTED_VERSION" if profile == "zk-0.10" else None
    assert controller.on_broker_log_dir_failure([1]).error == wanted
    assert controller.on_leader_and_isr_response(1, [0]).error == wanted
    assert controller.on_log_dir_failure(1, [1]).error == wanted
    assert state.any_offline_dir == (wanted is None)


# --- all together ---------------------------------------------------------------------------------


@one_of(*EVERY)
def test_the_command_line_takes_every_profile(profile, tmp_path):
    """`kfast fail --profile`: the answer and its explanation are that version's."""
    path = tmp_path / "describe.txt"
    path.write_text(
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: "
        "unclean.leader.election.enable=true\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    )
    arguments = ["fail", str(path), "--brokers", "1", "--up", "2", "--explain", "t-0",
             "--profile", profile, "--format", "json"]
    result = CliRunner().invoke(commands, arguments)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["controller"]["name"] == profile
    assert ("RECOVERING" in json.dumps(document["explanations"])) == (profile == "zk-3.9")


@one_of(*NEW, *MIDDLE, *OLDEST)
def test_the_imbalance_counter(profile):
    """Row "imbalance counter": older versions scan; the value is the same."""
    state = read_state(IMBALANCED)
    controller = Controller(state, profile=profile)
    for event in (lambda: controller.on_broker_failure([1]), controller.on_controller_failover,
                  lambda: controller.on_broker_startup([1]), lambda: controller.catch_up([1, 4]),
                  controller.rebalance_leaders):
        event()
        check(state)
    assert controller.gauges()["PreferredReplicaImbalanceCount"] == 0
