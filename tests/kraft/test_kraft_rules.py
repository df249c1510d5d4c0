"""What surprises about a KRaft cluster, and rules that no case reaches: of kfast and of the twin.

Source: docs/kraft.md, sections 3, 6, 7 and 8; Kafka 4.1, PartitionChangeBuilder.java.
"""

from __future__ import annotations

import pytest

from kfast.controllers import ConfigChange, CreatableTopic
from kfast.state.kraft_releases import (
    ELR_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    RELEASES,
)
from kfast.state.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    Recovery,
    ResourceType,
    uuid_text,
)
from tests.support.kraft_kfast_run import KfastController
from tests.support.kraft_reference.broker_events import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
)
from tests.support.kraft_reference.controller import QuorumController
from tests.support.kraft_reference.errors import FaultError
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.partition_change import PartitionChangeBuilder
from tests.support.kraft_reference.partition_requests import (
    UNCLEAN,
    AlterPartitionData,
    ReassignablePartition,
)

TOPIC_ID = uuid_text(7, 7)
P = TopicIdPartition(TOPIC_ID, 0)


def register(controller, broker, incarnation, previous_epoch=-1):
    """Register a broker."""
    features = controller.state.release.supported_features
    outcome = controller.register_broker(BrokerRegistrationRequest(
        broker, uuid_text(broker, incarnation), features, (uuid_text(broker + 100, 1),),
        previous_broker_epoch=previous_epoch,
    ))
    assert outcome.error is None
    return outcome


def heartbeat(controller, broker, **wishes):
    """Send a heartbeat of a registered broker that knows all metadata."""
    epoch = controller.state.brokers[broker].epoch
    offset = controller.next_offset - 1
    return controller.process_broker_heartbeat(
        BrokerHeartbeatRequest(broker, epoch, offset, **wishes)
    )


def kill(controller, broker):
    """Let a broker vanish: its session expires."""
    others = [b for b in controller.state.brokers
              if b != broker and not controller.state.brokers[b].fenced]
    controller.advance_time(9001, others)
    assert controller.maybe_fence_stale_broker().records


@pytest.fixture(params=[QuorumController, KfastController])
def cluster(request):
    """Makes a controller, with brokers unfenced and one partition on them."""

    def make(replicas, *, release="kraft-4.1", elr=True, min_isr=2):
        level = RELEASES[release].latest_metadata_version
        records = [FeatureLevelRecord(0, METADATA_VERSION, level)]
        if elr:
            records.append(FeatureLevelRecord(0, ELR_VERSION, 1))
            default = (ResourceType.BROKER, "")
            records.append(ConfigRecord(0, *default, MIN_INSYNC_REPLICAS, str(min_isr)))
        controller = request.param(release, records=records)
        for broker in replicas:
            register(controller, broker, 1)
            heartbeat(controller, broker)
        topic = CreatableTopic("t", [(0, replicas)], topic_id=TOPIC_ID)
        created = controller.create_topics([topic])
        assert created.response == {"t": "NONE"}
        return controller

    return make


def partition(controller):
    """State of the partition: leader, ISR, ELR, last known leader."""
    p = controller.state.partition(P)
    return p.leader, p.isr, p.elr, p.last_known_elr


def test_brokers_that_vanish_leave_the_isr_for_the_elr(cluster):
    """Below min ISR the members become eligible; the last one leaves an empty ISR."""
    controller = cluster((1, 2, 3))
    kill(controller, 1)
    assert partition(controller) == (2, (2, 3), (), ())
    kill(controller, 2)
    assert partition(controller) == (3, (3,), (2,), ())
    kill(controller, 3)
    assert partition(controller) == (-1, (), (2, 3), (3,))
    heartbeat(controller, 2)
    assert partition(controller) == (2, (2,), (3,), ())
    assert controller.state.partition(P).recovery != Recovery.RECOVERING


def test_a_change_of_min_isr_leaves_a_partition_offline(cluster):
    """It clears the ELR and elects nobody, nor does a broker that returns; an administrator may."""
    controller = cluster((1, 2))
    kill(controller, 1)
    kill(controller, 2)
    assert partition(controller) == (-1, (), (1, 2), (2,))
    change = ConfigChange(ResourceType.BROKER, "", ((MIN_INSYNC_REPLICAS, "set", "1"),))
    assert len(controller.incremental_alter_configs([change]).records) == 2
    assert partition(controller) == (-1, (), (), ())
    heartbeat(controller, 1)
    heartbeat(controller, 2)
    assert partition(controller) == (-1, (), (), ())
    controller.elect_leaders(UNCLEAN, None)
    assert partition(controller) == (1, (1,), (), ())
    assert controller.state.partition(P).recovery == Recovery.RECOVERING


def test_one_replica_comes_back_as_unclean_after_a_crash(cluster):
    """Registering empties the ELR; the last known leader is elected, whatever is allowed."""
    controller = cluster((1,))
    kill(controller, 1)
    assert partition(controller) == (-1, (), (1,), (1,))
    register(controller, 1, 2)
    assert partition(controller) == (-1, (), (), (1,))
    heartbeat(controller, 1)
    assert partition(controller) == (1, (1,), (), ())
    assert controller.state.partition(P).recovery == Recovery.RECOVERING


def test_one_replica_comes_back_cleanly_after_an_orderly_stop(cluster):
    """A broker that knows the epoch of its last registration keeps its place in the ELR."""
    controller = cluster((1,))
    epoch = controller.state.brokers[1].epoch
    assert heartbeat(controller, 1, want_shut_down=True).response.in_controlled_shutdown
    kill(controller, 1)
    register(controller, 1, 2, previous_epoch=epoch)
    heartbeat(controller, 1)
    assert partition(controller) == (1, (1,), (), ())
    assert controller.state.partition(P).recovery != Recovery.RECOVERING


def test_without_elr_the_isr_keeps_its_last_member(cluster):
    """And nobody else is elected."""
    controller = cluster((1, 2), elr=False)
    kill(controller, 1)
    kill(controller, 2)
    assert partition(controller) == (-1, (2,), (), ())
    heartbeat(controller, 1)
    assert partition(controller) == (-1, (2,), (), ())


def test_an_entry_that_was_there_twice_leaves_partition_0_behind(cluster):
    """Section 9.3: ClearElr leaves the index as it is, so a return to the ELR is a second entry.

    Once the member is in sync again, partition 0 fills one of both places: there the broker's end
    finds an ELR that is due to go, because the feature is off.
    """
    controller, topic_id = cluster((1, 2, 3)), uuid_text(8, 8)
    topic = CreatableTopic("u", [(0, (1, 3)), (1, (1, 2))], topic_id=topic_id)
    assert controller.create_topics([topic]).response == {"u": "NONE"}
    kill(controller, 2)
    change = ConfigChange(ResourceType.TOPIC, "u", ((MIN_INSYNC_REPLICAS, "set", "2"),))
    assert len(controller.incremental_alter_configs([change]).records) == 2
    for is_second in (False, True):
        heartbeat(controller, 2)
        p = controller.state.partition(TopicIdPartition(topic_id, 1))
        assert p.elr == ((2,) if is_second else ())
        joined = AlterPartitionData(
            topic_id, 1, p.leader_epoch, p.partition_epoch, ((1, -1), (2, -1))
        )
        controller.alter_partition(1, controller.state.brokers[1].epoch, [joined])
        kill(controller, 3 if is_second else 2)
    assert controller.state.partition(TopicIdPartition(topic_id, 0)).elr == (3,)
    controller.update_features({ELR_VERSION: 0}, {ELR_VERSION: "safe_downgrade"})
    in_isr, in_elr, _ = controller.unregister_broker(2).records
    assert (in_isr.partition_id, in_isr.isr) == (1, (1,))
    assert (in_elr.partition_id, in_elr.eligible_leader_replicas) == (0, ())


@pytest.mark.parametrize("isr", [(), (1,)])
def test_a_topic_deleted_without_an_isr_stays_in_the_index_of_directories(cluster, isr):
    """Section 9.3: to lose its directory afterwards is a fault inside Kafka."""
    controller = cluster((1,))
    if not isr:
        kill(controller, 1)
    assert controller.state.partition(P).isr == isr
    assert controller.delete_topics([TOPIC_ID]).response == {TOPIC_ID: "NONE"}
    heartbeat(controller, 1)
    lost = (uuid_text(101, 1),)
    if isr:
        (change,) = heartbeat(controller, 1, offline_log_dirs=lost).records
        assert change.log_dirs == ()
        return
    with pytest.raises(FaultError):
        heartbeat(controller, 1, offline_log_dirs=lost)


@pytest.mark.parametrize(
    ("release", "adding"),
    [("kraft-3.7", ()), ("kraft-3.8", (3,)), ("kraft-4.1", (3,)), ("kraft-4.3", ())],
)
def test_a_dead_replica_that_stays_blocks_the_end_of_a_reassignment(cluster, release, adding):
    """From 3.8 to 4.2 all that remain must be in sync; otherwise all that are added."""
    controller = cluster((1, 2), release=release, elr=False)
    register(controller, 3, 1)
    heartbeat(controller, 3)
    kill(controller, 2)
    controller.alter_partition_reassignments([ReassignablePartition("t", 0, (1, 2, 3))])
    p = controller.state.partition(P)
    joined = AlterPartitionData(TOPIC_ID, 0, p.leader_epoch, p.partition_epoch, ((1, -1), (3, -1)))
    outcome = controller.alter_partition(1, controller.state.brokers[1].epoch, [joined])
    assert outcome.response[0].error == "NONE"
    assert controller.state.partition(P).adding == adding


@pytest.mark.parametrize("cluster", [QuorumController], indirect=True)
def test_the_true_last_known_elr(cluster):
    """The mode that only Kafka's unit tests switch on: those that left ISR and ELR uncleanly."""
    controller = cluster((1, 2, 3), min_isr=3)
    state = controller.state
    builder = PartitionChangeBuilder(
        state, P, state.partition(P), isr=(1,), uncleanly_shut_down=(2,),
        use_last_known_leader=False,
    )
    record = builder.build()
    assert record.eligible_leader_replicas == (3,)
    assert record.last_known_elr == (2,)


def test_alter_partition_without_topic_ids_has_codes_of_its_own(cluster):
    """Versions 0 and 1 of the request, up to 3.9."""
    controller = cluster((1, 2), release="kraft-3.9", elr=False)
    kill(controller, 2)
    epoch = controller.state.brokers[1].epoch
    wanted = [
        AlterPartitionData(TOPIC_ID, 0, 0, 1, ((1, -1), (2, -1))),
        AlterPartitionData(uuid_text(8, 8), 0, 0, 1, ((1, -1),)),
    ]
    for with_ids, codes in (
        (True, ["INELIGIBLE_REPLICA", "UNKNOWN_TOPIC_ID"]),
        (False, ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"]),
    ):
        outcome = controller.alter_partition(1, epoch, wanted, with_ids)
        assert [reply.error for reply in outcome.response] == codes


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (CreatableTopic("u", replication_factor=0), "INVALID_REPLICATION_FACTOR"),
        (CreatableTopic("u", num_partitions=0), "INVALID_PARTITIONS"),
        (CreatableTopic("u", [(0, (1,)), (0, (2,))]), "INVALID_REPLICA_ASSIGNMENT"),
        (CreatableTopic("u", [(1, (1,))]), "INVALID_REPLICA_ASSIGNMENT"),
        (CreatableTopic("u", [(0, (9,))]), "INVALID_REPLICA_ASSIGNMENT"),
        (CreatableTopic("t", [(0, (9,))], {"a": None}), "TOPIC_ALREADY_EXISTS"),
        (CreatableTopic("a b", [(0, (1,))]), "INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_topics_that_cannot_be_created(cluster, topic, code):
    """The first refusal that applies."""
    outcome = cluster((1, 2)).create_topics([topic])
    assert (outcome.records, outcome.response) == ([], {topic.name: code})


def test_an_operation_of_a_user_writes_ten_thousand_records(cluster):
    """What is created in one request has a limit of its own."""
    controller = cluster((1, 2))
    wanted = CreatableTopic("u", [(number, (1,)) for number in range(10_001)])
    assert controller.create_topics([wanted]).error == "POLICY_VIOLATION"
    outcome = controller.create_partitions([("t", 10_002, [(1, 2)] * 10_001)])
    assert outcome.response == {"t": "UNKNOWN_SERVER_ERROR"}
    assert len(outcome.records) == 10_000
    assert len(controller.state.topics[TOPIC_ID].partitions) == 10_001
