"""Offline partitions of a KRaft cluster: which stay so, why, and whose start brings them back.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import kfast
from kfast.analysis.surprises import stuck_partitions
from tests.support.cli_run import answer, run

pytestmark = pytest.mark.kernels
FOLDER = "kraft_live/metadata/__cluster_metadata-0"


def listed(state):
    """Of each partition that is listed, its kind and the brokers that it waits for."""
    return {
        (row["topic"], row["partition"]): (row["surprise"], frozenset(row["waits_for"]))
        for row in stuck_partitions(state).to_pylist()
    }


def leaderless(state):
    """Partitions without a leader of topics that do not allow unclean elections."""
    is_offline = (state.records["leader"] < 0) & (state.partition >= 0)
    is_offline &= ~state.quorum.unclean_leader_election[state.topic_row]
    rows = np.flatnonzero(is_offline).tolist()
    return {(state.topic[int(state.topic_row[r])].as_py(), int(state.partition[r])) for r in rows}


@pytest.fixture(scope="module")
def moments(shared_data):
    """Of each event of a live cluster its state afterwards, and the brokers that were unfenced."""
    folder = shared_data / "kraft_live"
    events = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    return {
        number: (kfast.read(shared_data / FOLDER, at=event["offset_after"]), event["unfenced"])
        for number, event in enumerate(events, 1) if number in (4, 7, 8, 11, 12, 13, 14, 15, 18,
                                                                19, 20, 21, 28, 29)
    }


@pytest.mark.parametrize(
    ("first", "later"),
    [(4, ()), (7, (8,)), (11, ()), (12, (13, 14, 15)), (13, (14, 15)), (14, (15,)),
     (18, (19,)), (19, (20, 21)), (20, (21,))],
)
def test_a_live_cluster_did_what_is_said(moments, first, later):
    """Kills (4 to 15) and controlled shutdowns (18 to 21): back once those named had started."""
    state, up = moments[first]
    said, offline = listed(state), leaderless(state)
    assert offline
    kinds = {kind for kind, _ in said.values()}
    if first < 18:
        assert set(said) == offline
        assert kinds <= {"waits_for_last_leader", "waits_for_only_replica"}
    else:
        assert kinds <= {"waits_for_eligible"}
    for number in later:
        after, up_then = moments[number]
        started, still = set(up_then) - set(up), leaderless(after)
        for key, (kind, awaited) in said.items():
            enough = any if kind == "waits_for_eligible" else all
            assert (key in still) == (not enough(b in started for b in awaited)), (key, number)


def test_a_cleared_elr_leaves_partitions_offline_for_ever(moments):
    """A change of min.insync.replicas (event 28): nobody brings them back."""
    for number in (28, 29):
        state = moments[number][0]
        assert listed(state) == dict.fromkeys(leaderless(state), ("elr_cleared", frozenset()))
        assert len(leaderless(state)) == 5


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("controlled", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_starts_bring_back_what_they_are_said_to(seed, controlled, elr):
    """Every subset of two brokers that are down, with the controller itself; a third is back."""
    state = kfast.generate(brokers=5, partitions=80, seed=seed, replication_factor=2 + seed % 2,
                           min_insync_replicas=1 if controlled else 2)
    state = kfast.with_controller(state, "kraft-4.1", elr=elr)
    first, *brokers = np.random.default_rng(seed).permutation(5)[:3].tolist()
    steps = [*(("fail", [broker]) for broker in brokers), ("start", [first])]
    down = kfast.fail_brokers(state, [first], controlled=controlled, then=steps).state
    said = listed(down)
    assert said
    assert set(said) <= leaderless(down)
    for started in ([brokers[0]], [brokers[1]], brokers):
        after = leaderless(kfast.fail_brokers(down, [], then=[("start", started)]).state)
        for key, (kind, awaited) in said.items():
            enough = any if kind == "waits_for_eligible" else all
            assert (key in after) == (not enough(b in started for b in awaited)), (key, started)


def test_an_only_member_that_died_before_elr_was_switched_on_never_leads_again():
    """Its registration empties the ISR, and nobody is noted as the last leader (b, event 29)."""
    state = kfast.with_controller(
        kfast.generate(brokers=3, partitions=30, seed=3, min_insync_replicas=2), "kraft-4.1",
        elr=False)
    down = kfast.fail_brokers(state, [0], then=[("fail", [1]), ("fail", [2])]).state
    assert {kind for kind, _ in listed(down).values()} <= {"waits_for_eligible"}
    down = kfast.with_controller(down, "kraft-4.1", elr=True)
    assert listed(down) == dict.fromkeys(leaderless(down), ("elr_cleared", frozenset()))
    after = kfast.fail_brokers(down, [], then=[("start", [0, 1, 2])]).state
    assert leaderless(after) == leaderless(down)


def test_zookeeper_mode_and_unclean_election_surprise_nobody():
    state = kfast.generate(brokers=3, partitions=9, replication_factor=1, seed=1)
    assert not stuck_partitions(kfast.fail_brokers(state, [1]).state).num_rows
    unclean = kfast.generate(
        brokers=3, partitions=9, replication_factor=1, seed=1, unclean_topics=1.0)
    unclean = kfast.with_controller(unclean, "kraft-4.1", elr=True)
    assert not stuck_partitions(kfast.fail_brokers(unclean, [1]).state).num_rows


def test_show_says_which_partitions_stay_offline_and_why(shared_data):
    folder = shared_data / FOLDER
    shown = answer("show", folder)
    assert shown["surprises_listed_of"] == 5
    assert [(row["surprise"], row["waits_for"]) for row in shown["surprises"]] == [
        ("elr_cleared", [])] * 5
    text = run("show", folder).stdout
    assert "5 partitions: no replica may lead any more" in text
    assert "g-rf1-0-3    none  2         nobody  elr_cleared" in text
    waiting = run("show", folder, "--at", "5547").stdout
    assert "a-rf3m2-0-11    none  1, 2, 3   2 and 3  waits_for_last_leader" in waiting


EXPORT = """\
Topic: orders\tTopicId: _hfDXqHlQz6I7rB-JbQSVw\tPartitionCount: 4\tReplicationFactor: 3\tConfigs:
\tTopic: orders\tPartition: 0\tLeader: none\tReplicas: 4,5,6\tIsr: 4
\tTopic: orders\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3,1
\tTopic: orders\tPartition: 2\tLeader: -1\tReplicas: 4,2,1\tIsr: 4
\tTopic: orders\tPartition: 3\tLeader: none\tReplicas: 4,2,1\tIsr: 4,2
"""


@pytest.mark.parametrize("elr", [True, False])
def test_an_export_with_dead_leaders_goes_on_as_a_migrated_cluster(elr):
    """The activation elects nobody (section 1.3), an unfencing where nobody leads (section 6.2).

    Broker 4, the ISR of orders-0 and orders-2, has died. With ELR on, its registration empties
    their ISRs and no last leader is noted, so they stay offline (section 6.7); else it leads again.
    """
    state = kfast.with_controller(kfast.read(("dead.txt", EXPORT.encode())), "kraft-4.1", elr=elr)
    gone, back = ("elr_cleared", frozenset()), ("waits_for_eligible", frozenset([4]))
    assert listed(state) == (
        {("orders", 0): gone, ("orders", 2): gone} if elr else {("orders", 2): back})
    failed = kfast.fail_brokers(state, [3])
    assert leaderless(failed.state) == {("orders", 0), ("orders", 2), ("orders", 3)}
    assert failed.impact.summary["newly_offline"] == 0
    unfenced = kfast.fail_brokers(state, [3], then=[("start", [3])]).state
    assert leaderless(unfenced) == {("orders", 0), ("orders", 2)}
    assert unfenced.broker_id[unfenced.records["leader"][3]] == 2
    returned = kfast.fail_brokers(state, [3], then=[("start", [4])]).state
    assert leaderless(returned) == ({("orders", 0), ("orders", 2)} if elr else set())
