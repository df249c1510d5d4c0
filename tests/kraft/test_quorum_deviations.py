"""Where the KRaft controller differs from Kafka on purpose: one test a line of docs/deviations.md.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kfast
from kfast.controllers import ConfigChange, CreatableTopic
from kfast.controllers.kraft.hash_orders import ConcurrentTable
from kfast.kernels import partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.state.changes import Visited
from kfast.state.kraft_releases import ELR_VERSION, METADATA_VERSION, RELEASES
from kfast.state.metadata_records import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    ResourceType,
    TopicRecord,
    uuid_text,
)
from kfast.state.record_application import set_topic_id
from tests.kraft.test_elr_order import one_partition
from tests.support.kraft_kernels import KernelCluster
from tests.support.kraft_reference.broker_events import generate_leader_and_isr_updates
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.state import ClusterState

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deviations.md"


def cluster(**options):
    """A controller of brokers 0 to 5 and 40 partitions of two topics, with ELR on."""
    zk = kfast.generate(brokers=6, topics=2, partitions=40, min_insync_replicas=2, seed=3)
    state = kfast.with_controller(zk, "kraft-4.1", elr=True)
    for row in range(state.n_topics):
        set_topic_id(state, row, uuid_text(row + 1, 77 * row + 5))
    return kfast.QuorumController(state, journal="full", **options)


def changed(outcome):
    """Partitions whose change was recorded, in order."""
    return [
        (record.topic_id, record.partition_id)
        for record in outcome.metadata_records
        if isinstance(record, PartitionChangeRecord)
    ]


def test_records_come_by_ascending_row_unless_the_history_is_tracked():
    """The same partitions, in two orders."""
    plain, tracked = cluster(), cluster(tracks_history=True)
    outcomes = plain.fence_broker(2), tracked.fence_broker(2)
    rows = outcomes[0].records["partition_row"].to_pylist()[:-1]
    assert rows == sorted(rows)
    first, second = map(changed, outcomes)
    assert sorted(first) == sorted(second)
    assert first != second
    assert plain.state.digest() == tracked.state.digest()


def clear_elr(controller):
    """Change min.insync.replicas, which clears every ELR, and back."""
    for value in ("3", "2"):
        ops = [("min.insync.replicas", "set", value)]
        change = ConfigChange(ResourceType.BROKER, "", ops)
        assert controller.incremental_alter_configs([change]).response == ["NONE"]


def test_stale_entries_are_visited_where_the_history_is_tracked():
    """After ClearElr nobody is eligible, but Kafka's index still lists the partitions."""
    plain, tracked = cluster(), cluster(tracks_history=True)
    for controller in (plain, tracked):
        controller.fence_broker(0)
        controller.fence_broker(1)
    row = plain.state.broker_row(1)
    assert tracked.visits.in_elr(row)[0].size > 0
    for controller in (plain, tracked):
        clear_elr(controller)
    rows, visited = plain.visits.in_elr(row)
    elr = plain.state.quorum.elr
    assert not elr[rows].any()
    assert visited.name == "IN_ELR"
    assert tracked.visits.in_elr(row)[0].size > 0


def test_a_new_controller_knows_brokers_by_ascending_id():
    """The order of registrations, and with it that of sessions, is by id."""
    plain, tracked = cluster(), cluster(tracks_history=True)
    assert plain.visits.registrations() == [0, 1, 2, 3, 4, 5]
    assert sorted(tracked.visits.registrations()) == [0, 1, 2, 3, 4, 5]
    assert tracked.visits.registrations() != [0, 1, 2, 3, 4, 5]


def test_equal_hashes_of_a_tree_go_to_the_left():
    """Java asks for the addresses of the keys, which nobody knows; a new key is still first."""
    table = ConcurrentTable(lambda key: 0)
    for key in range(40):
        table.put(key, 0)
    (tree,) = [bucket.tree for bucket in table.buckets if bucket.tree is not None]
    nodes = [tree.root]
    while (left := nodes[-1].children[0]) is not None:
        nodes.append(left)
    assert nodes[-1].key == 39
    assert next(iter(table)) == 39


def test_trees_of_a_hash_set_keep_the_order_of_lists():
    """Eleven ids whose low six bits agree: in a JVM (OpenJDK 17) 256, the root, comes first."""
    ids = [64 * k for k in range(1, 12)]
    of_jvm = (256, 64, 128, 192, 320, 384, 448, 512, 576, 640)
    cluster, log = one_partition(ids[:9], ids[9:]), ChangeLog()
    (leaving,) = cluster.rows_of([640])
    partition_changes.update(
        cluster.columns, cluster.rules, np.zeros(1, np.int32), Visited.IN_ISR, leaving, -1, -1, log
    )
    assert cluster.record(log, 0).eligible_leader_replicas == tuple(ids[:10]) != of_jvm


def test_topics_are_not_placed_at_random():
    """Without assignments it is an error; ids follow from names and offsets."""
    controller = cluster()
    with pytest.raises(kfast.ArgumentError, match="at random"):
        controller.create_topics([CreatableTopic("new", num_partitions=3)])
    ids = []
    for controller in (cluster(), cluster()):
        outcome = controller.create_topics([CreatableTopic("new", [(0, [1, 2])])])
        assert outcome.response == {"new": "NONE"}
        ids.append(outcome.metadata_records[0].topic_id)
    assert ids[0] == ids[1]
    assert len(ids[0]) == 22


def test_catch_ups_of_many_leaders_are_one_event():
    """Unless a partition is being reassigned: then each leader's request is one."""
    controller = cluster()
    controller.fence_broker(2)
    controller.unfence_broker(2)
    other = kfast.QuorumController(controller.state.copy(), journal="full")
    outcomes = controller.catch_up([2])
    assert len(outcomes) == 1
    assert outcomes[0].n_records > 5
    row = int(other.state.replicas_on_brokers([2]).rows[0])
    partition = other.state.registration(row)
    others = [b for b in range(6) if b not in partition.replicas]
    topic = other.state.topic[int(other.state.topic_row[row])].as_py()
    plan = {(topic, int(other.state.partition[row])): [*partition.replicas, others[0]]}
    assert other.alter_partition_reassignments(plan).response == ["NONE"]
    outcomes = other.catch_up([2])
    assert len(outcomes) > 1
    assert {outcome.event for outcome in outcomes} == {"alter_partition"}


def test_an_isr_of_nobody_is_a_fault():
    """Broker 1 leads alone and stops uncleanly; the last known leader is -1 from before."""
    twin = ClusterState(RELEASES["kraft-4.0"])
    twin.replay(FeatureLevelRecord(0, METADATA_VERSION, 25), 0)
    twin.replay(FeatureLevelRecord(0, ELR_VERSION, 1), 0)
    for broker in (1, 2):
        twin.replay(RegisterBrokerRecord(3, broker, uuid_text(9, broker), 1, fenced=False), 0)
    twin.replay(TopicRecord(0, "t", uuid_text(1, 1)), 0)
    twin.replay(PartitionRecord(
        2, 0, uuid_text(1, 1), (1, 2), (1,), (), (), 1, 0, 0, 0, last_known_elr=(-1,)
    ), 0)
    records: list = []
    generate_leader_and_isr_updates(
        twin, records, [TopicIdPartition(uuid_text(1, 1), 0)], unclean_shutdown=1
    )
    assert (records[0].leader, records[0].isr) == (-1, (-1,))
    cluster, log = KernelCluster(twin), ChangeLog()
    assert partition_changes.update(
        cluster.columns, cluster.rules, np.zeros(1, np.int32), Visited.EVERY_ROW, -1, -1, 0, log
    ) == 0
    assert len(log) == 0


def test_every_line_of_the_page_has_its_test():
    """Each names a test of this module."""
    lines = PAGE.read_text(encoding="utf-8").split("## KRaft")[1].splitlines()
    named = [name for line in lines if line.startswith("| ") for name in re.findall(
        r"`(test_\w+)` \|$", line)]
    tests = {name for name in globals() if name.startswith("test_")}
    assert set(named) == tests - {"test_every_line_of_the_page_has_its_test"}
