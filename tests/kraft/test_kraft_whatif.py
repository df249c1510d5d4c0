"""What-ifs on KRaft clusters: as a real cluster went on, and as the plain Python twin does.

Sections are those of docs/kraft.md.
"""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random

import pytest

import kfast
from kfast.controllers import open_events
from kfast.controllers.kraft.fencing_order import count_order_dependent
from kfast.state.kraft_releases import RELEASES
from kfast.state.metadata_records import uuid_text
from kfast.state.settings import override_settings
from tests.support.kraft_clusters import RandomCluster
from tests.support.kraft_kfast_run import KfastController
from tests.support.kraft_reference import broker_events as twin
from tests.support.kraft_reference.controller import QuorumController
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.partition_change import PartitionChangeBuilder, without
from tests.support.kraft_reference.partition_requests import (
    AlterPartitionData,
    ReassignablePartition,
    automatic_election,
)
from tests.support.kraft_reference.state import merged

CREATED, STOPPED, BACK = (
    f"exports/describe_4x_elr_{name}.txt"
    for name in ("1_created", "2_broker3_stopped", "3_broker3_back")
)


def read(path, elr):
    """A describe text as a cluster of Kafka 4.1."""
    return kfast.with_controller(kfast.read(path), "kraft-4.1", elr=elr)


def told(state):
    """What kafka-topics --describe tells of each partition."""
    return [
        (part.leader, set(part.isr), part.elr, part.last_known_elr)
        for part in map(state.registration, range(state.n_partitions))
    ]


@pytest.mark.parametrize("elr", [True, False])
def test_a_controlled_shutdown_gives_the_describe_that_followed(elr, shared_data):
    state = read(shared_data / CREATED, elr)
    failure = kfast.fail_brokers(state, [3], controlled=True)
    assert told(failure.state) == told(read(shared_data / STOPPED, elr))
    assert failure.impact.partitions["elr"].to_pylist() == [[]] * 6


@pytest.mark.parametrize("elr", [True, False])
def test_a_return_gives_the_describe_that_followed(elr, shared_data):
    state = read(shared_data / STOPPED, elr)
    failure = kfast.fail_brokers(state, [], then=[("start", [3])])
    assert told(failure.state) == told(read(shared_data / BACK, elr))


# --- the twin ------------------------------------------------------------------------------------


class TwinEvents:
    """Brokers of a twin's controller fail and return."""

    def __init__(self, controller):
        self.controller = controller

    def _handle(self, handler, broker):
        records = []
        handler(self.controller.state, broker, records)
        for record in records:
            self.controller._append(record)

    def fence(self, brokers):
        for broker in brokers:
            self._handle(twin.handle_broker_fenced, broker)

    def shut_down(self, brokers):
        state = self.controller.state
        for broker in brokers:
            if any(
                partition.leader == broker
                for topic in state.topics.values()
                for partition in topic.partitions.values()
            ):
                self._handle(twin.handle_broker_in_controlled_shutdown, broker)
            self._handle(twin.handle_broker_fenced, broker)

    def start(self, brokers, clean):
        controller = self.controller
        controller.advance_time(10 * controller.session_timeout_ms)
        for broker in brokers:
            known = controller.state.brokers[broker]
            outcome = controller.register_broker(twin.BrokerRegistrationRequest(
                broker, uuid_text(9, controller.next_offset),
                controller.state.release.supported_features,
                known.directories or (uuid_text(broker + 1, 1),), known.rack,
                known.epoch if broker in clean else -1,
            ))
            assert outcome.error is None
            self._handle(twin.handle_broker_unfenced, broker)

    def catch_up(self):
        """Each active leader reports all that its reassignments wait for, and is active."""
        state, wanted = self.controller.state, {}
        for topic in state.topics.values():
            for number, part in topic.partitions.items():
                joining = [
                    broker for broker in part.replicas
                    if (part.adding or part.removing) and broker not in part.removing
                    and broker not in part.isr and state.is_active(broker)
                ]
                if joining and part.leader >= 0 and state.is_active(part.leader):
                    wanted.setdefault(part.leader, []).append(AlterPartitionData(
                        topic.id, number, part.leader_epoch, part.partition_epoch,
                        tuple((broker, -1) for broker in (*part.isr, *joining)), 0,
                    ))
        for leader in sorted(wanted):
            outcome = self.controller.alter_partition(
                leader, state.brokers[leader].epoch, wanted[leader]
            )
            assert outcome.error is None
            assert {reply.error for reply in outcome.response} <= {"NONE", "NEW_LEADER_ELECTED"}

    def partitions(self):
        return [
            (topic.name, number, partition)
            for topic in self.controller.state.topics.values()
            for number, partition in sorted(topic.partitions.items())
        ]


def assert_same(state, events):
    for name, number, expected in events.partitions():
        row = int(state.find_partitions([(name, number)])[0])
        found = state.registration(row)
        for field in ("replicas", "isr", "elr", "last_known_elr", "leader", "recovery",
                      "leader_epoch", "partition_epoch"):
            assert getattr(found, field) == getattr(expected, field), (name, number, field)


@pytest.mark.parametrize("release", sorted(RELEASES))
@pytest.mark.parametrize("elr", [True, False])
def test_plans_on_random_clusters_are_answered_and_completed_as_the_twin_does(release, elr):
    """Half of them with a broker that fails before anybody has caught up.

    Clusters are tidy: a leader cannot add to an ISR that has a broker which is down.
    """
    seen = Counter()
    for seed in range(24):
        cluster = RandomCluster(seed, release, elr)
        if not cluster.is_tidy:
            continue
        records = cluster.records()
        random = Random(seed)
        expected = TwinEvents(QuorumController(release, records=records))
        state = KfastController(release, records=records).kfast.state
        up = state.broker_id[state.up].tolist()
        failing = random.sample(up, min(len(up), seed % 2))
        known = [*state.broker_id.tolist(), 77]
        plan = {
            (name, number): random.choice([None, random.sample(known, random.randint(1, 3))])
            for name, number, _ in expected.partitions()
            if random.random() < 0.7
        }
        answer = kfast.execute_plan(state, plan, broker_ids=failing)
        outcome = expected.controller.alter_partition_reassignments([
            ReassignablePartition(*key, None if ids is None else tuple(ids))
            for key, ids in plan.items()
        ])
        expected.fence(failing)
        expected.catch_up()
        assert_same(answer.state, expected)
        assert answer.summary.keys() > answer.after.counts.keys() | {"records"}
        planned = answer.partitions.to_pylist()[: len(plan)]
        assert [row["error"] or "NONE" for row in planned] == outcome.response
        moving = {
            (name, number): bool(part.adding or part.removing)
            for name, number, part in expected.partitions()
        }
        for row in answer.partitions.to_pylist():
            if row["status"] != "refused":
                assert (row["status"] == "pending") == moving[row["topic"], row["partition"]]
                assert (row["reason"] is not None) == (row["status"] == "pending")
            seen[row["status"]] += 1
    assert min(seen[status] for status in ("refused", "pending", "completed")) > 0


@pytest.mark.parametrize("release", sorted(RELEASES))
@pytest.mark.parametrize("elr", [True, False])
def test_random_clusters_fail_and_restart_as_the_twin_does(release, elr):
    """Also in the order that is asked for, and after controlled shutdowns."""
    for seed in range(12):
        records = RandomCluster(seed, release, elr).records()
        random = Random(seed)
        expected = TwinEvents(QuorumController(release, records=records))
        state = KfastController(release, records=records).kfast.state
        stopped = set(state.broker_id[state.fenced & state.shutting_down].tolist())
        up = state.broker_id[state.up].tolist()
        failing = random.sample(up, random.randint(0, len(up)))
        order = random.sample(failing, len(failing)) if seed % 2 else None
        leaving = [broker for broker in up if broker not in failing][:2]
        events = open_events(state, order=order)
        events.start()
        events.brokers_failed(failing)
        expected.fence(sorted(failing) if order is None else order)
        assert_same(state, expected)
        events.brokers_shut_down_in_order(leaving)
        expected.shut_down(leaving)
        assert_same(state, expected)
        back = state.broker_id[state.registered & ~state.up].tolist()
        random.shuffle(back)
        clean = (stopped | set(leaving)) - set(failing)
        events.brokers_returned(back)
        expected.start(back, clean)
        assert_same(state, expected)


def test_the_order_matters_where_another_order_ends_otherwise():
    """Every order of up to four brokers, on whole clusters, against the count by kinds."""
    matters = 0
    for seed in range(60):
        records = RandomCluster(seed, "kraft-4.1", bool(seed % 2)).records()
        first = KfastController(records=records).kfast.state
        failing = first.broker_id[first.up].tolist()[:4]
        ends = []
        for order in permutations(failing):
            state = first.copy()
            controller = kfast.QuorumController(state)
            for broker in order:
                controller.fence_broker(broker)
            parts = map(state.registration, range(state.n_partitions))
            ends.append([(p.leader, set(p.isr), set(p.elr), p.last_known_elr) for p in parts])
        expected = sum(any(end[at] != ends[0][at] for end in ends) for at in range(len(ends[0])))
        digest = first.digest()
        events = open_events(first)
        assert count_order_dependent(first, failing) == expected, seed
        assert first.digest() == digest, seed
        events.brokers_failed(failing)
        assert events.order_matters == expected
        matters += expected
    assert matters > 20


def ends_of(cluster, place, failing):
    """What a partition of the twin comes to, by every order in which its brokers are fenced."""
    topic = cluster.topics[place.topic_id]
    first, ends = cluster.partition(place), set()
    election = automatic_election(cluster, topic)
    for order in permutations(failing):
        gone: set[int] = set()
        partition = first
        for broker in order:
            gone.add(broker)
            if broker not in partition.isr:
                continue
            topic.partitions[place.partition_id] = partition
            record = PartitionChangeBuilder(
                cluster, place, partition, election=election,
                isr=without(partition.isr, [broker]),
                can_lead=lambda b, gone=gone: b not in gone and cluster.is_active(b),
            ).build()
            partition = partition if record is None else merged(partition, record)
        ends.add((
            partition.leader, frozenset(partition.isr), frozenset(partition.elr),
            partition.last_known_elr,
        ))
        topic.partitions[place.partition_id] = first
    return ends


@pytest.mark.parametrize("n_failing", [5, 6, pytest.param(7, marks=pytest.mark.slow)])
def test_the_order_is_counted_for_many_failed_replicas_of_a_partition(n_failing):
    """Every order of up to seven, by the twin's rule."""
    matters = compared = 0
    for seed in range(24):
        cluster = RandomCluster(
            seed, ("kraft-4.1", "kraft-4.3")[seed % 2], True, most_replicas=8,
        )
        cluster.ids += range(50, 56)
        cluster.directories |= dict.fromkeys(range(50, 56), ())
        records, expected = cluster.records(), 0
        controller = QuorumController(cluster.release, records=records)
        up = [broker for broker in controller.state.brokers if controller.state.is_active(broker)]
        failing = sorted(up)[:n_failing]
        for topic in controller.state.topics.values():
            for number, partition in topic.partitions.items():
                hosted = [broker for broker in partition.replicas if broker in failing]
                compared += len(hosted) == n_failing
                place = TopicIdPartition(topic.id, number)
                expected += len(ends_of(controller.state, place, hosted)) > 1
        state = KfastController(cluster.release, records=records).kfast.state
        assert count_order_dependent(state, failing) == expected, seed
        matters += expected
    assert compared
    assert matters


# --- words ---------------------------------------------------------------------------------------


def explained(elr, **options):
    state = kfast.generate(brokers=6, partitions=60, racks=3, seed=1, min_insync_replicas=2)
    state = kfast.with_controller(state, "kraft-4.1", elr=elr)
    return str(kfast.explain(state, [0, 1, 2], [("topic-0", 11)], **options)[0])


def test_an_explanation_says_who_may_lead_and_why():
    """The replicas are 1, 0, 2."""
    text = explained(elr=True)
    assert "Broker 1 is fenced (fence_broker)" in text
    assert "leader is 2: the first replica that is live and in the ISR" in text
    assert "ELR none -> 1: the ISR has 1, min.insync.replicas 2 of the topic" in text
    assert "2 is noted as the last known leader" in text
    assert "leader none; ISR none; ELR 1,2; last known leader 2" in text
    assert "ISR 2 stays: without ELR its last members are kept" in explained(elr=False)
    assert "Broker 1 begins its controlled shutdown" in explained(elr=True, controlled=True)
    assert text.index("Broker 0 is") < text.index("Broker 2 is")
    reversed_text = explained(elr=True, order=[2, 1])
    assert reversed_text.index("Broker 2 is") < reversed_text.index("Broker 0 is")


def test_what_surprises_operators_is_listed_by_partition():
    state = kfast.generate(brokers=6, partitions=60, racks=3, seed=1, min_insync_replicas=2)
    state = kfast.with_controller(state, "kraft-4.1", elr=True)
    failure = kfast.fail_brokers(state, [0, 1, 2], then=[("start", [0]), ("start", [1, 2])])
    surprises = failure.surprises.to_pylist()
    assert len(surprises) == failure.steps[2].impact.summary["last_known_leader_elections"] == 8
    assert {row["surprise"] for row in surprises} == {"last_known_leader"}
    assert {row["leader"] for row in surprises} == {2}
    assert kfast.fail_brokers(
        state, [0, 1, 2], controlled=True, then=[("start", [0, 1, 2])]
    ).surprises.num_rows == 0


def test_a_single_replica_comes_back_uncleanly_with_elr_alone():
    state = kfast.generate(brokers=3, partitions=9, replication_factor=1, seed=1)
    for elr in (True, False):
        other = kfast.with_controller(state, "kraft-4.1", elr=elr)
        failure = kfast.fail_brokers(other, [1], then=[("start", [1])])
        assert failure.surprises["surprise"].to_pylist() == ["only_replica_unclean"] * (3 * elr)
        assert failure.impact.summary["offline"] == 0


def test_an_order_is_for_kraft_alone_and_names_each_broker_once():
    state = kfast.generate(brokers=3, partitions=9, seed=1)
    with pytest.raises(kfast.ArgumentError, match="it is for KRaft controllers"):
        kfast.fail_brokers(state, [1, 2], order=[2, 1])
    state = kfast.with_controller(state, "kraft-4.1")
    for order, message in (([1, 1], "twice"), ([7], "7")):
        with pytest.raises(kfast.ArgumentError, match=message):
            kfast.fail_brokers(state, [1, 2], order=order)
    with pytest.raises(kfast.ArgumentError, match="with_controller"):
        kfast.fail_brokers(state, [1], profile="zk-3.9")


def test_other_settings_are_configurations_and_clear_elrs():
    """What has no leader then stays offline until an unclean election (section 8.3)."""
    state = kfast.generate(brokers=6, partitions=60, racks=3, seed=1, min_insync_replicas=2)
    state = kfast.with_controller(state, "kraft-4.1", elr=True)
    down = kfast.fail_brokers(state, [0, 1, 2], controlled=True).state
    changed = override_settings(down, [(".*", "min.insync.replicas", 1)])
    assert changed.quorum.configurations[2, "topic-0"] == {"min.insync.replicas": "1"}
    assert "that clears the ELR of 30 partitions, and 8 of them stay offline" in " ".join(
        changed.assumptions
    )
    failure = kfast.fail_brokers(changed, [], then=[("start", [0, 1, 2])])
    assert failure.impact.summary["offline"] == 8
    assert failure.surprises["surprise"].to_pylist() == ["elr_cleared"] * 8
    unclean = override_settings(changed, [("topic-0", "unclean.leader.election.enable", "true")])
    failure = kfast.fail_brokers(unclean, [], then=[("start", [0, 1, 2])])
    assert failure.impact.summary["offline"] == 0
    assert failure.impact.summary["unclean"] == 8
    assert failure.surprises.num_rows == 0
