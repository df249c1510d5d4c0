"""Events that name topics, over shards, are the events on one machine; without a session.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import pytest

import kfast
from tests.support.sharded import (
    Teller,
    alone,
    assert_same,
    joined,
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
@pytest.mark.parametrize(("shards", "tasks"), [(1, 1), (7, 2), (16, 16)])
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_random_events(tmp_path, profile, shards, tasks, seed):
    import kfast.spark

    state = cluster(seed)
    teller = Teller(state, profile, seed)
    teller.tell(30)
    split(state, tmp_path / "in", shards)
    arguments = {"tasks": tasks, "profile": profile}
    folder, first = tmp_path / "in", 0
    if shards == 7 and profile in PROFILES[:2]:
        # What one run leaves is where the next begins; 2.0 forgets where partitions move.
        folder, first = tmp_path / "before", 15
        kfast.spark.fail(
            None, tmp_path / "in", events=teller.events[:first], output=folder, **arguments
        )
        folder /= "state"
    events, outcomes = teller.events[first:], teller.outcomes[first:]
    done = kfast.spark.fail(None, folder, events=events, output=tmp_path / "out", **arguments)
    assert_same(done, events, teller.state, outcomes)
    if profile == "zk-1.0" and shards > 1 and done.deleting:
        with pytest.raises(kfast.ArgumentError, match="requests are not known"):
            _ = done.requests
        return
    assert joined_requests(done) == requests_alone(outcomes)


def lonely(tmp_path, profile: str, shards: int, moving: str = "") -> tuple:
    """Give a cluster with topics of one replica, in files of their own; perhaps one moves to 3.

    That topic is marked for deletion, as it may be while no controller is there.
    """
    state = kfast.generate(brokers=5, partitions=4, topics=2, seed=3)
    controller = kfast.Controller(state, profile=profile)
    controller.on_controller_failover()
    controller.on_topic_change({f"on-{broker}": {0: [broker]} for broker in range(5)})
    if moving:
        controller.alter_partition_reassignments({(moving, 0): [3]})
        state.queue_topic_deletion([moving])
    split(state, tmp_path / "in", shards)
    return state, str(tmp_path / "in")


def compare(state, folder, events, tmp_path, profile):
    """Run events on shards and on one machine, and hold them against each other."""
    import kfast.spark

    after, outcomes = alone(state, events, "counts", profile)
    done = kfast.spark.fail(
        None, folder, events=events, output=tmp_path / "out", tasks=2, profile=profile
    )
    assert_same(done, events, after, outcomes)
    assert joined_requests(done) == requests_alone(outcomes)
    return done


@pytest.mark.parametrize("profile", ["zk-3.9", "zk-2.4", "zk-2.0"])
@pytest.mark.parametrize("shards", [3, 7])
def test_a_topic_waits_for_the_deletion_of_another_in_another_file(
    tmp_path, monkeypatch, profile, shards
):
    """Section 6.12: whatever resumes deletions takes every topic that waits up again."""
    from kfast.spark import sharded

    learned = []
    share = sharded.share_between_shards
    monkeypatch.setattr(
        sharded, "share_between_shards",
        lambda *said: learned.append(share(*said)) or learned[-1],
    )
    state, folder = lonely(tmp_path, profile, shards)
    deleting = [
        ("on_broker_failure", [0, 1]),
        ("delete_topics", ["on-0", "nothing"]),      # all its replicas are down: it waits
        ("delete_topics", ["on-2", "on-1"]),         # takes up on-0; now on-1 waits
        ("acknowledge_deletions", None),             # takes up on-1, at the answer of broker 2
        ("on_broker_startup", [1]),
        ("delete_topics", ["on-4", "on-3"]),
        ("on_broker_failure", [4]),
        ("on_broker_startup", [0, 4]),
        ("acknowledge_deletions", None),
    ]
    done = compare(state, folder, deleting, tmp_path, profile)
    assert done.partitions == 4
    assert learned.pop() is None
    if profile == "zk-2.0":
        # Nothing waits: replicas that are down never become ineligible (section 8.1).
        assert not any(event.resumed for events in learned for event in events)
    else:
        assert learned
        assert "answer of broker 2" in done.run.events[3].resumed


def test_a_reassignment_that_ends_while_others_wait_is_refused(tmp_path):
    """On one machine the topic that waits goes on between two partitions of the event."""
    import kfast.spark

    state, folder = lonely(tmp_path, "zk-3.9", 7, moving="on-2")
    events = [
        "on_controller_failover",
        ("on_broker_failure", [0]),
        ("delete_topics", ["on-0"]),
        ("catch_up", [3]),
        ("acknowledge_deletions", None),
    ]
    after, _ = alone(state, events, "off", "zk-3.9")
    assert after.topic_queued_for_deletion.sum() == 1
    with pytest.raises(kfast.InputError, match=r"of on-2-0, .* waits for its deletion"):
        kfast.spark.fail(None, folder, events=events, output=tmp_path / "out")
    assert not (tmp_path / "out" / "state" / "_cluster.arrow").exists()
    nobody_waits = [event for event in events if event[0] != "delete_topics"]
    compare(state, folder, nobody_waits, tmp_path, "zk-3.9")


def test_what_no_file_knows_is_answered_once(tmp_path):
    state, folder = lonely(tmp_path, "zk-3.9", 7)
    plan = {("on-1", 0): [2], ("no", 1): None, ("on-9", 0): [1, 1], ("on-2", 5): [3]}
    asked = [("on-3", 0), ("no", 0), ("on-3", 0), ("on-1", 9), ("on-0", 0)]
    events = [
        ("delete_topics", ["b", "a", "b", "on-4"]),
        ("elect_leaders", {"partitions": asked}),
        ("elect_leaders", {"partitions": []}),
        ("alter_partition_reassignments", plan),
        ("enable_unclean_leader_election", ["on-1", "on-2"]),
        ("on_topic_change", {"new": {0: [1], 1: [2, 3]}, "other": {0: [4]}}),
        ("on_partition_modifications", {"new": {1: [1], 2: [0]}}),
        ("delete_topics", ["new"]),
        ("acknowledge_deletions", [1, 2]),
        ("acknowledge_deletions", None),
        ("on_topic_change", {"new": {0: [0]}}),
    ]
    done = compare(state, folder, events, tmp_path, "zk-3.9")
    assert done.notes[0] == ("topic 'b' is unknown", "topic 'a' is unknown")
    assert [row["topic"] for row in done.replies[1].to_pylist()[-2:]] == ["no", "on-1"]
    assert done.replies[3]["error"].to_pylist() == [
        None, "NO_REASSIGNMENT_IN_PROGRESS", "INVALID_REPLICA_ASSIGNMENT",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (("on_topic_change", {"fresh": {0: [1]}, "on-1": {0: [2]}}), "'on-1' exists already"),
        (("on_partition_modifications", {"no": {0: [1]}}), "topic 'no' is unknown"),
        (("enable_unclean_leader_election", ["on-1", "no"]), "topic 'no' is unknown"),
    ],
)
def test_what_one_machine_refuses_is_refused_before_anything_is_written(tmp_path, event, message):
    """Also where earlier events made a topic, or took it away."""
    import kfast.spark

    state, folder = lonely(tmp_path, "zk-3.9", 3)
    before = kfast.spark.fail(None, folder, broker_ids=[1], output=tmp_path / "out")
    events = [("on_topic_change", {"x": {0: [2]}}), ("delete_topics", ["x"]), event]
    for some in ([event], events):
        with pytest.raises(kfast.ArgumentError, match=message):
            alone(state, some, "off", "zk-3.9")
        with pytest.raises(kfast.ArgumentError, match=message):
            kfast.spark.fail(None, folder, events=some, output=tmp_path / "out")
    assert joined(before.state).digest() == before.digest


def test_requests_of_1_1_are_refused_while_topics_are_deleted(tmp_path):
    """UpdateMetadata names every partition that is to be deleted, of whatever file.

    Source: section 8.1.
    """
    import kfast.spark

    _, folder = lonely(tmp_path, "zk-1.1", 7)
    for events, refused in (
        ([("on_broker_failure", [1])], False), ([("delete_topics", ["on-1"])], True),
    ):
        done = kfast.spark.fail(
            None, folder, events=events, output=tmp_path / "out", profile="zk-1.1"
        )
        assert done.deleting == refused
        if refused:
            with pytest.raises(kfast.ArgumentError, match=r"requests are not known"):
                _ = done.requests
