"""Events of older controllers: the rows of section 8.1 on requests and handlers, a test each.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kfast import AlterCode, Controller, Store
from kfast.cli.app import commands
from kfast.controllers.zk.profiles import PROFILES
from kfast.testing.invariants import check
from kfast.testing.request_batch import RequestBatch
from tests.rules.test_profiles import EVERY, LED, MIDDLE, NEW, OLDEST, errors, one_of
from tests.support.states import assert_reads, read_state

BOTH = pytest.mark.parametrize("with_store", [False, True])
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


def told(outcome, step=None):
    """Partitions and leaders that UpdateMetadata names, by step."""
    return [
        (r["topic"], r["partition"], r["leader"])
        for r in outcome.update_metadata.to_pylist() if step in (None, r["step"])
    ]


def metadata(outcome):
    """(who is told, partitions) of each UpdateMetadata."""
    found = {}
    for row in outcome.update_metadata_brokers.to_pylist():
        found.setdefault(row["step"], []).append(row["broker_id"])
    return [(brokers, told(outcome, step)) for step, brokers in sorted(found.items())]


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
        assert told(outcome, last) == [("t", 0, 1), ("t", 1, 2), *deleted]
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
    gone = [r["partition"] for r in outcome.transitions.to_pylist()
            if r["to_state"] == "OfflinePartition"]
    assert gone == ([1] if profile == "zk-0.10" else [0, 1])
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
def test_the_title_of_a_controller(profile):
    """What the answers of the command line call it."""
    title = Controller(read_state(LED), profile=profile).title
    assert title.startswith(f"Kafka {profile.removeprefix('zk-')}")


@one_of(*EVERY)
def test_the_command_line_takes_every_profile(profile, tmp_path):
    """`kfast fail --profile`: the answer and its explanation are that version's."""
    given = tmp_path / "describe.txt"
    given.write_text(
        "Topic: t\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: "
        "unclean.leader.election.enable=true\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    )
    asked = ["fail", str(given), "--brokers", "1", "--up", "2", "--explain", "t-0",
             "--profile", profile, "--format", "json"]
    found = CliRunner().invoke(commands, asked)
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["controller"] == PROFILES[profile].title
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
