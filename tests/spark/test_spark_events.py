"""Random events over shards are the events on one machine; without a session.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

from random import Random

import pytest

import kfast
import kfast.spark
from tests.support.long_tests import only_whole, share_of
from tests.support.sharded import (
    Teller,
    alone,
    assert_same,
    joined_requests,
    requests_alone,
    split,
    without_session,
)

pytestmark = pytest.mark.spark
PROFILES = ("zk-3.9", "zk-2.4", "zk-2.0", "zk-1.0")


@pytest.fixture(autouse=True)
def hands(monkeypatch):
    """Let tasks run in this process."""
    without_session(monkeypatch)


def cluster(seed: int) -> kfast.ClusterState:
    """Give a small cluster with few replicas, so that much of it is gone when brokers are."""
    return kfast.generate(
        brokers=7, partitions=60, racks=3, topics=17, seed=seed, unclean_topics=0.3,
        replication_factor=2,
    )


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("shards", "tasks"),
    [(1, 1), (7, 2), pytest.param(16, 16, marks=[pytest.mark.slow, only_whole])],
)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in share_of(range(1, 8)))]
)
def test_random_events(tmp_path, profile, shards, tasks, seed):
    state = cluster(seed)
    teller = Teller(state, profile, seed)
    teller.tell(30)
    split(state, tmp_path / "in", shards)
    arguments = {"tasks": tasks, "controller": profile}
    folder, first = tmp_path / "in", 0
    if shards == 7:
        # What one run leaves is where the next begins.
        folder, first = tmp_path / "before", 15
        kfast.spark.fail(
            None, tmp_path / "in", events=teller.events[:first], output=folder, **arguments
        )
        folder /= "state"
    done = kfast.spark.fail(
        None, folder, events=teller.events[first:], output=tmp_path / "out", **arguments
    )
    assert_same(done, teller.state, teller.outcomes[first:])
    assert joined_requests(done) == requests_alone(teller.outcomes[first:])


def lonely(tmp_path, *deleted: str) -> tuple:
    """Give a cluster with topics of one replica, in files of their own; some are to be deleted."""
    state = kfast.generate(brokers=6, partitions=4, topics=2, seed=3)
    controller = kfast.Controller(state)
    controller.on_controller_failover()
    controller.on_topic_change({f"on-{broker}": {0: [broker]} for broker in range(6)})
    controller.on_broker_failure([0, 1])
    controller.delete_topics(list(deleted))
    split(state, tmp_path / "in", 8)
    return state, str(tmp_path / "in")


def test_the_order_of_brokers_that_fail_depends_on_all_files(tmp_path, monkeypatch):
    """Section 2.3, step 3: where a file lacks a broker, the events happen once more."""
    from kfast.spark import sharded

    learned = []
    share = sharded._learn_groups
    monkeypatch.setattr(
        sharded, "_learn_groups", lambda *groups: learned.append(share(*groups)) or learned[-1]
    )
    state, folder = lonely(tmp_path)
    events = [("on_broker_startup", [0, 1]), ("on_broker_failure", [2, 3, 4, 5])]
    after, outcomes = alone(state, events, "counts", "zk-3.9")
    done = kfast.spark.fail(None, folder, events=events, output=tmp_path / "out", tasks=2)
    assert_same(done, after, outcomes)
    assert [groups and groups[1].failed_groups for groups in learned] == [{2, 3, 4, 5}, None]


def test_a_rebalance_counts_what_shards_know_of_each_other(tmp_path):
    """Files without some of the brokers that failed: who leads depends on the order of all."""
    state = kfast.generate(
        brokers=16, partitions=40, topics=40, racks=3, seed=16, replication_factor=3
    )
    dead = sorted(Random(16).sample(state.broker_id.tolist(), 14))
    events = [
        "on_controller_failover", ("on_broker_failure", dead), ("on_broker_startup", dead[4:10]),
        ("catch_up", dead[4:10]), ("rebalance_leaders", 50),
    ]
    split(state, tmp_path / "in", 40)
    after, outcomes = alone(state, events, "counts", "zk-2.4")
    done = kfast.spark.fail(
        None, tmp_path / "in", events=events, output=tmp_path / "out", tasks=2, controller="zk-2.4"
    )
    assert outcomes[4].rebalanced
    assert done.digest == after.digest()


def test_queued_topics_do_not_wait_where_deletion_is_disabled(tmp_path):
    state = kfast.generate(brokers=7, partitions=60, topics=17, seed=3, replication_factor=2)
    state.delete_topic_enabled = False
    state.queue_topic_deletion(state.topic.take([0, 16]).to_pylist())
    split(state, tmp_path / "in", 7)
    events = ["on_controller_failover", ("on_broker_failure", [2])]
    after, _ = alone(state, events, "counts", "zk-3.9")
    done = kfast.spark.fail(
        None, tmp_path / "in", events=events, output=tmp_path / "out", tasks=2
    )
    assert not after.any_queued
    assert done.digest == after.digest()


def test_topics_of_one_file_may_be_deleted_beside_other_events(tmp_path):
    """Nothing in another file waits for them; which requests they add is not known."""
    state, folder = lonely(tmp_path, "on-0")
    events = ["on_controller_failover", ("on_broker_failure", [2]), ("on_broker_startup", [0])]
    after, outcomes = alone(state, events, "counts", "zk-3.9")
    done = kfast.spark.fail(None, folder, events=events, output=tmp_path / "out", tasks=2)
    assert_same(done, after, outcomes)
    assert done.deleting
    with pytest.raises(kfast.ArgumentError, match="requests are not known; run it on one machine"):
        _ = done.requests


def test_topics_of_two_files_that_are_deleted_are_refused(tmp_path):
    """Section 6.12: whatever resumes deletions takes up every topic that waits."""
    _, folder = lonely(tmp_path, "on-0", "on-1")
    with pytest.raises(kfast.InputError, match=r"are being deleted; .* run it on one machine"):
        kfast.spark.fail(None, folder, broker_ids=[2], output=tmp_path / "out")
    assert not (tmp_path / "out" / "state" / "_cluster.arrow").exists()


@pytest.mark.parametrize(
    "event",
    [
        ("on_topic_change", {"new": {0: [1]}}),
        ("on_topic_change", {}, {"t": {}}),
        ("on_partition_modifications", {"on-1": {1: [1]}}),
        ("delete_topics", ["on-1"]),
        "acknowledge_deletions",
        ("alter_partition_reassignments", {("on-1", 0): [2]}),
        ("reassign_partitions", {("on-1", 0): [2]}),
        ("elect_leaders", {"partitions": [("on-1", 0)]}),
        ("enable_unclean_leader_election", ["on-1"]),
    ],
)
def test_events_that_name_topics_are_refused_with_the_way_out(tmp_path, event):
    name = event if isinstance(event, str) else event[0]
    message = rf"event {name} names topics, .* one machine, which holds 100 M .*kfast\.Controller"
    with pytest.raises(kfast.ArgumentError, match=message):
        kfast.spark.fail(None, tmp_path / "in", events=[event], output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
