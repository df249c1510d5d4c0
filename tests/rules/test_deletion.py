"""Topics are deleted: from the marker to the end, when nothing goes wrong.

Source: docs/controller.md, section 6.12.
"""

from __future__ import annotations

import numpy as np

from kfast import Controller, PartitionState, generate
from kfast.state.names import Lookup
from kfast.testing import invariants
from tests.support.readings import announced, lines, moves, sent
from tests.support.states import assert_reads, read_state

TOPICS = """
    partition  ar   isr  leader  epoch  state
    t-0        1,2  1,2  1       7      ONLINE
    t-1        2,3  2,3  2       5      ONLINE
    u-0        1,3  1,3  1       4      ONLINE
"""


def run(text=TOPICS, **options):
    """A controller of the cluster that a text describes, with a full journal."""
    return Controller(read_state(text, **options), journal="full")


def started():
    """The deletion of t is under way."""
    controller = run()
    controller.delete_topics(["t"])
    return controller


def states(state, row):
    """States of a partition's replicas, as a text has them."""
    return ",".join(f"{b}:{s.name}" for b, s in sorted(state.replica_states_of(row).items()))


# --- the whole of it ----------------------------------------------------------------------------


def test_a_deletion_takes_partitions_then_replicas():
    """Section 6.12, `enqueue` and `start`: the order of the steps."""
    controller = run()
    outcome = controller.delete_topics(["t"])
    assert outcome.actions == (
        "partitions to OfflinePartition", "partitions to NonExistentPartition",
        "announce the deletion", "replicas to OfflineReplica", "replicas to ReplicaDeletionStarted",
    )
    assert_reads(controller.state, """
        partition  ar   isr  leader  epoch  state         replicas
        t-0        1,2  2    -       9      NON_EXISTENT  1:DELETION_STARTED,2:DELETION_STARTED
        t-1        2,3  3    -       7      NON_EXISTENT  2:DELETION_STARTED,3:DELETION_STARTED
        u-0        1,3  1,3  1       4      ONLINE        1:ONLINE,3:ONLINE
    """)
    state = controller.state
    assert state.topic_queued_for_deletion.tolist() == [True, False]
    assert state.topic_deletion_started.tolist() == [True, False]
    assert not state.topic_ineligible.any()
    invariants.check(state)


def test_brokers_hear_of_a_deletion_by_two_markers():
    """Sections 5.2 and 6.12: leader -2, epoch 0 in UpdateMetadata; StopReplica says epoch -2.

    Nobody is told LeaderAndIsr; stopping and deleting are two batches.
    """
    outcome = run().delete_topics(["t"])
    assert announced(outcome) == lines("""
        announce the deletion to 1,2,3: t-0, leader -2, epoch 0, ISR 1,2
        announce the deletion to 1,2,3: t-1, leader -2, epoch 0, ISR 2,3
    """)
    assert sent(outcome) == lines("""
        StopReplica to 1,2: t-0, epoch -2
        StopReplica to 2,3: t-1, epoch -2
        StopReplica(delete) to 1,2: t-0, epoch -2
        StopReplica(delete) to 2,3: t-1, epoch -2
    """)
    assert outcome.counts.requests == {"LeaderAndIsr": 0, "UpdateMetadata": 3, "StopReplica": 6}


def test_a_topic_is_gone_when_every_replica_is_deleted():
    """Section 6.12, `complete_replicas` and `finish`, and rule 26 of section 9."""
    controller = run()
    controller.delete_topics(["t"])
    first = controller.acknowledge_deletions([2, 1])
    assert moves(first) == lines("""
        t-0/1 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        t-0/2 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        t-1/2 ReplicaDeletionStarted to ReplicaDeletionSuccessful
    """)
    assert controller.state.topic_exists.all()
    last = controller.acknowledge_deletions()
    assert moves(last) == lines("""
        t-1/3 ReplicaDeletionStarted to ReplicaDeletionSuccessful
        t-0/1 ReplicaDeletionSuccessful to NonExistentReplica
        t-0/2 ReplicaDeletionSuccessful to NonExistentReplica
        t-1/2 ReplicaDeletionSuccessful to NonExistentReplica
        t-1/3 ReplicaDeletionSuccessful to NonExistentReplica
    """)
    assert last.counts.requests == {"LeaderAndIsr": 0, "UpdateMetadata": 0, "StopReplica": 0}
    assert_reads(controller.state, """
        partition  ar   isr  leader  epoch
        u-0        1,3  1,3  1       4
    """)
    assert controller.acknowledge_deletions().actions == ()
    invariants.check(controller.state)


def test_the_gauges_follow_a_deletion():
    """Section 1.6, exported gauges, at every stage.

    The broker that comes back finds others being deleted; its replica waits for them
    (section 6.12).
    """
    controller = run()

    def seen():
        gauges = controller.gauges()
        return [gauges[name] for name in (
            "TopicsToDeleteCount", "ReplicasToDeleteCount", "ReplicasIneligibleToDeleteCount",
            "GlobalTopicCount", "GlobalPartitionCount", "OfflinePartitionsCount",
        )]

    assert seen() == [0, 0, 0, 2, 3, 0]
    controller.delete_topics(["t"])
    assert seen() == [1, 4, 0, 2, 3, 0]
    controller.acknowledge_deletions([2])
    assert seen() == [1, 2, 0, 2, 3, 0]
    controller.on_stop_replica_response(1, [0], failed=[0])
    assert seen() == [1, 2, 1, 2, 3, 0]
    controller.on_broker_change(bounced=[1])
    assert seen() == [1, 2, 0, 2, 3, 0]
    controller.acknowledge_deletions()
    assert seen() == [1, 1, 0, 2, 3, 0]
    controller.acknowledge_deletions()
    assert seen() == [0, 0, 0, 1, 1, 0]


def test_the_counters_forget_a_queued_topic():
    """Section 1.6: queueing subtracts the imbalanced; starting moves the offline count to zero."""
    controller = run("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1,2  2       7      ONLINE
        t-1        2,3  2    -       5      OFFLINE
        t-2        3,2  -    -       -      NEW
        u-0        1,3  1,3  3       4      ONLINE
        u-1        1,2  2    -       4      OFFLINE
    """)
    state = controller.state
    assert (state.preferred_imbalance_count, state.offline_partition_count) == (4, 2)
    outcome = controller.delete_topics(["t"])
    assert (state.preferred_imbalance_count, state.offline_partition_count) == (2, 1)
    assert "t-2 NewPartition to OfflinePartition" in moves(outcome)
    assert state.partition_state(1) == PartitionState.NON_EXISTENT
    invariants.check(state)
    controller.acknowledge_deletions()
    assert (state.preferred_imbalance_count, state.offline_partition_count) == (2, 1)
    invariants.check(state)


def test_topics_that_are_deleted_together_share_every_call():
    """Section 6.12, `start`: for all topics together one UpdateMetadata, three calls."""
    controller = run()
    outcome = controller.delete_topics(["u", "t", "u"])
    assert outcome.counts.requests == {"LeaderAndIsr": 0, "UpdateMetadata": 3, "StopReplica": 6}
    assert outcome.counts.request_partitions["StopReplica"] == 12
    assert outcome.notes == ()
    controller.acknowledge_deletions()
    assert not controller.state.topic_exists.any()
    assert controller.state.records["n_replicas"].tolist() == [0, 0, 0]


def test_asking_again_does_nothing_while_it_is_under_way():
    """Section 6.12: in progress, so neither retried nor started again; counted once.

    Source: section 1.6.
    """
    controller = run(TOPICS.replace("1       7", "2       7"))
    controller.delete_topics(["t"])
    before = controller.state.copy()
    assert controller.delete_topics(["t"]).actions == ()
    assert controller.state == before


def test_a_topic_without_replicas_is_gone_at_once():
    """Section 6.12, `resume_deletions`: all DelSuccessful, or no replicas."""
    controller = run(TOPICS + "        n-0  -  -  -  -  -\n")
    outcome = controller.delete_topics(["n"])
    assert outcome.actions == ()
    assert controller.state.topic_exists.tolist() == [True, True, False]
    assert controller.gauges()["TopicsToDeleteCount"] == 0


def test_unknown_topics_are_warned_about():
    """Section 6.12, deletion marker: the others are queued; a gone topic is unknown too."""
    controller = run()
    controller.on_topic_change(gone=["u"])
    outcome = controller.delete_topics(["n", "t", "u", "n"])
    assert outcome.notes == ("topic 'n' is unknown", "topic 'u' is unknown")
    assert controller.state.topic_deletion_started.tolist() == [True, False]
    assert controller.delete_topics(["n"]).actions == ()


# --- deletion is disabled -----------------------------------------------------------------------


def test_without_topic_deletion_nothing_is_queued():
    """Section 6.12: delete.topic.enable is false; the marker is removed."""
    controller = run(delete_topic_enabled=False)
    before = controller.state.copy()
    outcome = controller.delete_topics(["t", "n"])
    assert outcome.notes == (
        "topic 'n' is unknown", "topic deletion is disabled: nothing was queued",
    )
    assert (outcome.actions, controller.state.difference(before)) == ((), None)


def test_without_topic_deletion_a_new_controller_removes_the_markers():
    """Section 6.12, `init`: the topics are as any other, and count again."""
    controller = run("""
        partition  ar   isr  leader  epoch  state
        t-0        1,2  1,2  2       7      ONLINE
    """, started=["t"], ineligible=["t"], delete_topic_enabled=False)
    assert controller.on_controller_failover().error is None
    state = controller.state
    assert not (state.topic_queued_for_deletion | state.topic_deletion_started).any()
    assert not state.topic_ineligible.any()
    assert (state.preferred_imbalance_count, states(state, 0)) == (1, "1:ONLINE,2:ONLINE")
    invariants.check(state)


def test_what_is_gone_is_not_found_and_what_is_left_is():
    """Freeing keeps the sorted keys; a copy made before still finds everything."""
    state = generate(brokers=6, partitions=60, topics=6)
    controller = Controller(state)
    controller.on_controller_failover()
    names = state.topic.to_pylist()
    all_rows = [state.topic_partitions(name).tolist() for name in names]
    before = state.copy()
    for name in (names[1], names[4]):
        controller.delete_topics([name])
        controller.acknowledge_deletions()
    fresh = Lookup(state)
    for topic, name in enumerate(names):
        gone = name in (names[1], names[4])
        assert state.lookup.rows_of_topic(topic).tolist() == ([] if gone else all_rows[topic])
        assert fresh.rows_of_topic(topic).tolist() == state.lookup.rows_of_topic(topic).tolist()
        assert before.topic_partitions(name).tolist() == all_rows[topic]
        asked = np.full(11, topic, np.int32), np.arange(11, dtype=np.int32)
        assert state.lookup.rows(*asked).tolist() == fresh.rows(*asked).tolist()


def test_rows_that_moved_are_no_hints():
    """A state that is compacted without its controller: topics are looked at afresh."""
    controller = run("""
        partition  ar   isr  leader  epoch  state
        u-0        2    2    2       1      ONLINE
        a-0        1    1    1       1      ONLINE
        u-1        3    3    3       1      ONLINE
    """)
    controller.delete_topics(["a", "u"])
    controller.acknowledge_deletions([1])
    assert controller.state.compact().tolist() == [0, 2]
    controller.acknowledge_deletions([2, 3])
    assert not controller.state.any_queued
    invariants.check(controller.state)
