"""`execute_plan` and `delete_topics`: whole changes, beside the controller's events one by one.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from kfast import (
    ClusterState,
    Controller,
    ReassignmentCode,
    delete_topics,
    execute_plan,
    generate,
    impact,
)
from kfast.analysis.plan_execution import REASSIGNMENT_METRICS
from kfast.analysis.topic_deletion import DELETION_METRICS
from kfast.controllers.zk.profiles import PROFILES
from kfast.errors import ArgumentError
from kfast.state.census import CENSUS_METRICS, take_census

pytestmark = pytest.mark.kernels


def cluster(rows, registered=()):
    """A cluster from (topic, partition, replicas[, ISR]); brokers 1 to 6, or only some, are up."""
    brokers = range(1, 7)
    up = [broker in (registered or brokers) for broker in brokers]
    lists = pa.list_(pa.int32())
    isr = [row[3] if len(row) > 3 else row[2] for row in rows]
    return ClusterState.from_tables(
        pa.table({"broker_id": pa.array(brokers, pa.int32()), "registered": pa.array(up)}),
        partitions=pa.table({
            "topic": pa.array([row[0] for row in rows]),
            "partition": pa.array([row[1] for row in rows], pa.int32()),
            "replicas": pa.array([row[2] for row in rows], lists),
            "isr": pa.array(isr, lists),
            "leader": pa.array([ids[0] if ids else -1 for ids in isr], pa.int32()),
        }),
    )


def row_of(found, topic="t", partition=0):
    """One row of the table of partitions."""
    rows = found.partitions.to_pylist()
    return next(r for r in rows if (r["topic"], r["partition"]) == (topic, partition))


def random_plan(generator, state):
    """Some partitions anywhere, a few of them nonsense."""
    ids = state.broker_id.tolist()
    names = state.topic.to_pylist()
    keys = [
        (names[t], p)
        for t, p in zip(state.topic_row.tolist(), state.partition.tolist(), strict=True)
    ]
    plan = {
        key: generator.sample(ids, generator.randint(1, 3))
        for key in generator.sample(keys, len(keys) // 2)
    }
    plan[(names[0], 10_000)] = [ids[0]]
    plan[generator.choice(keys)] = [ids[0], ids[0]]
    plan[generator.choice(keys)] = [999]
    return plan


def test_the_example_of_the_rules():
    """[1,2,3] to [3,4,5]: four epochs, leader 3, and what each broker won and lost.

    Source: section 6.7.
    """
    state = cluster([("t", 0, [1, 2, 3]), ("u", 0, [1, 2, 3])])
    found = execute_plan(state, {("t", 0): [3, 4, 5]})
    row = row_of(found)
    assert row["status"] == "completed"
    assert (row["replicas_before"], row["replicas"]) == ([1, 2, 3], [3, 4, 5])
    assert (row["leader_before"], row["leader"], row["leader_moved"]) == (1, 3, True)
    assert row["leader_epoch"] - row["leader_epoch_before"] == 4
    assert sorted(row["isr"]) == [3, 4, 5]
    summary = found.summary
    assert summary["leader_epoch_bumps"] == 4
    assert (summary["replicas_added"], summary["replicas_removed"]) == (2, 2)
    assert (summary["leaders_moved"], summary["completed"]) == (1, 1)
    brokers = {r["broker_id"]: r for r in found.brokers.to_pylist()}
    assert [brokers[b]["added"] for b in range(1, 7)] == [0, 0, 0, 1, 1, 0]
    assert [brokers[b]["removed"] for b in range(1, 7)] == [1, 1, 0, 0, 0, 0]
    assert [brokers[b]["preferred"] for b in range(1, 7)] == [1, 0, 1, 0, 0, 0]
    assert found.under_way["under_min_isr"] == 0
    assert not found.notes


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_plan_is_the_events_one_by_one(seed, pending, fails):
    """Where nothing lags elsewhere, the state is that of request, failure and `catch_up`."""
    generator = Random(seed)
    state = generate(brokers=8, partitions=60, replication_factor=3, topics=4, seed=seed)
    plan = random_plan(generator, state)
    dead = [generator.randrange(8)] if fails else []
    digest = state.digest()
    found = execute_plan(state, plan, broker_ids=dead, pending=pending)
    assert state.digest() == digest
    again = state.copy()
    controller = Controller(again)
    controller.on_controller_failover()
    before = take_census(again.copy())
    outcomes = [controller.alter_partition_reassignments(plan)]
    if dead:
        outcomes.append(controller.on_broker_failure(dead))
    way = impact(before, take_census(again))
    assert found.under_way == {
        **way.after.counts,
        **{f"newly_{name}": int(way.newly(name).sum()) for name in ("offline", "under_min_isr")},
    }
    if not pending:
        outcomes.append(controller.catch_up(again.broker_id[again.registered].tolist()))
    assert found.state.difference(again) is None
    assert found.before.counts == before.counts
    answers = [ReassignmentCode(code).name for code in outcomes[0].reassignment_codes]
    answers = [None if answer == "STARTED" else answer for answer in answers]
    assert found.partitions["error"].to_pylist()[: len(plan)] == answers
    summary = found.summary
    assert list(summary) == [*CENSUS_METRICS, *REASSIGNMENT_METRICS]
    sent = Counter()
    for outcome in outcomes:
        sent.update(outcome.counts.requests)
    assert summary["requests"] == sum(sent.values())
    assert {r["kind"]: r["requests"] for r in found.requests.to_pylist()} == dict(sent)
    assert sum(found.brokers["requests"].to_pylist()) == summary["requests"]
    check_the_tables(found)


def check_the_tables(found):
    """What the tables say of each partition, broker and topic agrees with the state."""
    won, lost, status = Counter(), Counter(), Counter()
    for row in found.partitions.to_pylist():
        status[row["status"]] += 1
        assert (row["error"] is not None) == (row["status"] == "refused")
        assert (row["reason"] is None) == (row["status"] == "completed")
        if row["replicas"] is None:
            continue
        at = found.state.find_partitions([(row["topic"], row["partition"])])[0]
        assignment, record = found.state.assignment(at), found.state.leadership(at)
        assert tuple(row["replicas"]) == assignment.replicas
        assert tuple(row["adding"]) == assignment.adding
        assert (row["leader"], row["leader_epoch"]) == (record.leader, record.leader_epoch)
        assert sorted(row["isr"]) == sorted(record.isr)
        if row["status"] == "pending":
            assert set(row["waiting_for"]) == {*assignment.target} - {*record.isr}
        if row["status"] == "completed":
            assert row["replicas"] == row["target"]
        won.update({*row["replicas"]} - {*row["replicas_before"]})
        lost.update({*row["replicas_before"]} - {*row["replicas"]})
    summary = found.summary
    assert {name: status[name] for name in ("refused", "completed", "pending")} == {
        name: summary[name] for name in ("refused", "completed", "pending")
    }
    for row in found.brokers.to_pylist():
        assert row["added"] == won[row["broker_id"]]
        assert row["removed"] == lost[row["broker_id"]]
        assert row["replicas"] == row["replicas_before"] + row["added"] - row["removed"]
    topics = found.topics.to_pylist()
    assert sum(row["refused"] for row in topics) == summary["refused"]
    assert [row["refused"] for row in topics] == sorted(
        (row["refused"] for row in topics), reverse=True
    )


def test_only_what_is_being_reassigned_catches_up():
    """Another partition's lagging replica on the same brokers stays out of its ISR."""
    state = cluster([("t", 0, [1, 2]), ("lags", 0, [1, 4], [1]), ("t", 1, [1, 3], [1])])
    found = execute_plan(state, {("t", 0): [1, 4], ("t", 1): [1, 3, 4]})
    assert found.summary["completed"] == 2
    lagging = int(state.find_partitions([("lags", 0)])[0])
    assert found.state.leadership(lagging).isr == (1,)
    assert row_of(found, "t", 1)["isr"] == [1, 3, 4]
    assert found.summary["under_replicated"] == 1


def test_why_a_partition_is_refused():
    """Each code of Kafka's, in words; the others of the plan go on."""
    state = cluster([("t", n, [1, 2]) for n in range(5)] + [("q", 0, [1, 2])], range(1, 6))
    state.queue_topic_deletion(["q"])
    plan = {
        ("t", 0): [3, 6], ("t", 1): [8, 9], ("t", 2): [1, 1], ("t", 3): [], ("t", 4): None,
        ("t", 9): [1], ("nope", 0): [1],
    }
    found = execute_plan(state, {**plan, ("q", 0): [2, 1]})
    assert {tuple(row.values()) for row in found.partitions.select(
        ["topic", "partition", "error", "reason"]
    ).to_pylist()} == {
        ("t", 0, "INVALID_REPLICA_ASSIGNMENT", "of those to be added, broker 6 is down"),
        ("t", 1, "INVALID_REPLICA_ASSIGNMENT", "of those to be added, brokers 8, 9 are unknown"),
        ("t", 2, "INVALID_REPLICA_ASSIGNMENT", "the list names broker 1 twice"),
        ("t", 3, "INVALID_REPLICA_ASSIGNMENT", "the list is empty"),
        ("t", 4, "NO_REASSIGNMENT_IN_PROGRESS", "it is not being reassigned"),
        ("t", 9, "UNKNOWN_TOPIC_OR_PARTITION", "the topic has 5 partitions"),
        ("nope", 0, "UNKNOWN_TOPIC_OR_PARTITION", "the topic is unknown"),
        ("q", 0, "UNKNOWN_TOPIC_OR_PARTITION", "the topic is marked for deletion"),
    }
    assert found.notes[0].startswith("brokers 6, 8, 9 are in the plan and not up; ")
    assert found.summary["refused"] == 8
    # The start begins to delete q; the plan does nothing.
    assert found.summary["requests"] == 0


def test_what_waits_says_for_whom():
    """A target that dies, a leader that dies, and replicas that have not caught up."""
    state = cluster([("t", 0, [1, 2]), ("t", 1, [3]), ("t", 2, [1, 2])])
    plan = {("t", 0): [1, 4], ("t", 1): [3, 5], ("t", 2): [2, 1]}
    found = execute_plan(state, plan, broker_ids=[3, 4])
    assert row_of(found)["reason"] == "broker 4 has to be in sync and is down"
    assert row_of(found)["waiting_for"] == [4]
    assert row_of(found, "t", 1)["reason"] == "it has no live leader that reports who is in sync"
    assert row_of(found, "t", 2)["status"] == "completed"
    waits = execute_plan(state, plan, pending=True)
    assert row_of(waits)["reason"] == "broker 4 has not caught up yet"
    assert row_of(waits, "t", 2)["status"] == "completed"
    assert waits.under_way == {name: waits.summary[name] for name in waits.under_way}
    both = execute_plan(state, {("t", 0): [1, 4, 5]}, pending=True)
    assert row_of(both)["reason"] == "brokers 4, 5 have not caught up yet"


def test_a_reassignment_under_way_goes_on_or_is_taken_back():
    """Those of the input are listed too; None cancels one."""
    first = execute_plan(
        cluster([("t", 0, [1, 2]), ("t", 1, [1, 2])]),
        {("t", 0): [1, 3], ("t", 1): [2, 3]}, pending=True,
    )
    on = execute_plan(first.state, {})
    assert on.partitions["planned"].to_pylist() == [False, False]
    assert on.summary["completed"] == 2
    assert not on.notes
    back = execute_plan(first.state, {("t", 0): None})
    assert "2 partitions are being reassigned already" in back.notes[0]
    assert row_of(back)["replicas"] == [1, 2]
    assert row_of(back, "t", 1)["replicas"] == [2, 3]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_plan_in_every_profile(profile):
    """Through the API or the node; what is in sync in the end is the same."""
    state = generate(brokers=6, partitions=30, replication_factor=2, seed=4)
    names = state.topic.to_pylist()
    plan = {}
    for row in range(0, 30, 3):
        first, last = state.assignment(row).replicas
        other = next(b for b in range(6) if b not in (first, last))
        plan[names[state.topic_row[row]], int(state.partition[row])] = [other, first]
    found = execute_plan(state, plan, profile=profile)
    assert (found.summary["completed"], found.summary["pending"]) == (10, 0)
    assert found.partitions["replicas"].to_pylist() == list(plan.values())
    assert found.summary["under_replicated"] == 0
    waits = execute_plan(state, plan, profile=profile, pending=True)
    assert waits.summary["pending"] == 10
    assert all("has not caught up" in text for text in waits.partitions["reason"].to_pylist())
    gone = delete_topics(state, names[:1], profile=profile)
    assert gone.summary["topics_deleted"] == 1
    if not PROFILES[profile].cancels_reassignments:
        key = next(iter(plan))
        with pytest.raises(ArgumentError, match="broker 77 is unknown"):
            execute_plan(state, {key: [77]}, profile=profile)


def test_who_cannot_fail_meanwhile():
    """An unknown broker, and one that is down; nothing changes."""
    state = cluster([("t", 0, [1, 2])], range(1, 6))
    for change in (lambda ids: execute_plan(state, {}, broker_ids=ids),
                   lambda ids: delete_topics(state, ["t"], broker_ids=ids)):
        with pytest.raises(ArgumentError, match="broker 77 is unknown"):
            change([77])
        with pytest.raises(ArgumentError, match="broker 6 is not registered"):
            change([6])


@pytest.mark.parametrize("seed", range(10))
def test_a_deletion_is_the_events_one_by_one(seed):
    """The state, what brokers are told, and what waits, beside the controller's own events."""
    generator = Random(seed)
    state = generate(brokers=8, partitions=60, replication_factor=2, topics=12, seed=seed)
    topics = generator.sample(state.topic.to_pylist(), 4)
    dead = [generator.randrange(8)] if seed % 2 else []
    digest = state.digest()
    found = delete_topics(state, topics, broker_ids=dead)
    assert state.digest() == digest
    again = state.copy()
    controller = Controller(again)
    controller.on_controller_failover()
    outcomes = [controller.delete_topics(topics)]
    if dead:
        outcomes.append(controller.on_broker_failure(dead))
    outcomes.append(controller.acknowledge_deletions())
    assert found.state.difference(again) is None
    hosts = {
        name: Counter(
            b for row in state.topic_partitions(name) for b in state.assignment(row).replicas
        )
        for name in topics
    }
    waiting = {name for name in topics if hosts[name].keys() & {*dead}}
    summary = found.summary
    assert list(summary) == list(DELETION_METRICS)
    assert summary["topics_waiting"] == len(waiting)
    assert summary["topics_deleted"] == 4 - len(waiting)
    told = sum(hosts.values(), Counter())
    assert summary["replicas_told"] == told.total()
    assert summary["requests"] == sum(sum(o.counts.requests.values()) for o in outcomes)
    for row in found.topics.to_pylist():
        assert row["replicas"] == hosts[row["topic"]].total()
        assert row["status"] == ("waiting" if row["topic"] in waiting else "deleted")
        assert row["waiting_for"] == (dead if row["topic"] in waiting else [])
        known = row["topic"] in found.state.to_tables().topics["topic"].to_pylist()
        assert known == (row["topic"] in waiting)
    for row in found.brokers.to_pylist():
        broker = row["broker_id"]
        assert row["told_to_delete"] == told[broker]
        held = sum(hosts[name][broker] for name in waiting) if broker in dead else 0
        assert row["waiting"] == held
        gone = sum(hosts[name][broker] for name in topics if name not in waiting)
        assert row["replicas"] == row["replicas_before"] - gone


def test_what_waits_is_deleted_when_its_broker_is_back():
    """The state of the answer is one to go on with."""
    state = cluster([("t", 0, [1, 2]), ("t", 1, [2, 3]), ("u", 0, [1, 3])])
    found = delete_topics(state, ["u", "t"], broker_ids=[2])
    assert found.topics.select(["topic", "status", "reason"]).to_pylist() == [
        {"topic": "t", "status": "waiting", "reason": "broker 2 is down"},
        {"topic": "u", "status": "deleted", "reason": None},
    ]
    controller = Controller(found.state)
    controller.on_controller_failover()
    controller.on_broker_startup([2])
    controller.acknowledge_deletions()
    assert found.state.to_tables().topics.num_rows == 0


def test_topics_that_cannot_be_deleted():
    """Unknown ones are an error that names them; where deletion is disabled nothing happens."""
    state = cluster([("t", 0, [1, 2]), ("u", 0, [1, 2])])
    with pytest.raises(ArgumentError, match="topic nope, neither is unknown"):
        delete_topics(state, ["t", "nope", "neither"])
    state.queue_topic_deletion(["u"])
    found = delete_topics(state, ["t"])
    assert found.topics["topic"].to_pylist() == ["t", "u"]
    assert found.notes == ("topics that were marked for deletion already: 1",)
    assert found.summary["topics_deleted"] == 2
    state.delete_topic_enabled = False
    found = delete_topics(state, ["t"])
    assert found.topics.to_pylist() == [{
        "topic": "t", "partitions": 1, "replicas": 2, "status": "kept", "waiting_for": [],
        "reason": "topic deletion is disabled",
    }]
    assert found.notes == ("topic deletion is disabled: nothing was queued",)
