"""A sweep of a KRaft cluster in plain Python: brokers fenced one after another, then counted.

Nothing here knows failover orders: every scenario runs the twin's rules on the whole cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kfast.schema import NO_LEADER
from kfast.state.kraft_releases import UNCLEAN_LEADER_ELECTION
from kfast.state.metadata_records import MetadataRecord, PartitionChangeRecord
from kfast.state.registrations import PartitionRegistration
from tests.support.kraft_reference.broker_events import handle_broker_fenced
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.state import ClusterState, directory_of, is_online_dir

MakeState = Callable[[], ClusterState]
Partitions = dict[TopicIdPartition, PartitionRegistration]


def partitions_of(state: ClusterState) -> Partitions:
    """Every partition."""
    return {
        TopicIdPartition(topic.id, number): partition
        for topic in state.topics.values()
        for number, partition in topic.partitions.items()
    }


def fence_all(state: ClusterState, brokers: Iterable[int]) -> set[TopicIdPartition]:
    """Fence brokers one after another, by id; returns where the last election was unclean."""
    unclean: set[TopicIdPartition] = set()
    for broker in sorted(brokers):
        records: list[MetadataRecord] = []
        handle_broker_fenced(state, broker, records)
        for record in records:
            if isinstance(record, PartitionChangeRecord) and record.leader not in (None, NO_LEADER):
                place = TopicIdPartition(record.topic_id, record.partition_id)
                if is_clean(state.partition(place), record.leader, broker):
                    unclean.discard(place)
                else:
                    unclean.add(place)
            state.replay(record, 0)
    return {place for place in unclean if state.partition(place).leader != NO_LEADER}


def is_clean(before: PartitionRegistration, leader: int, fenced: int) -> bool:
    """Whether a leader was in sync or, where nobody else was, eligible."""
    isr = [broker for broker in before.isr if broker != fenced]
    return leader == before.leader or leader in (isr or before.elr)


def is_live(state: ClusterState, partition: PartitionRegistration, broker: int) -> bool:
    """Whether a replica is on an active broker and in a directory that is online."""
    return broker in partition.replicas and state.is_active(broker) and is_online_dir(
        state.brokers.get(broker), directory_of(partition, broker)
    )


@dataclass(frozen=True)
class TwinScenario:
    """What a scenario leaves behind.

    `offline_if_clean` are the partitions that nobody would lead if unclean election were off.
    """

    state: ClusterState
    unclean: set[TopicIdPartition]
    offline_if_clean: set[TopicIdPartition]

    @classmethod
    def of(cls, make: MakeState, brokers: Iterable[int]) -> TwinScenario:
        """Run a scenario twice, on states of its own."""
        state, clean = make(), make()
        for config in clean.configs.values():
            config.pop(UNCLEAN_LEADER_ELECTION, None)
        clean.static_config[UNCLEAN_LEADER_ELECTION] = "false"
        fence_all(clean, brokers)
        offline = {p for p, row in partitions_of(clean).items() if row.leader == NO_LEADER}
        return cls(state, fence_all(state, brokers), offline)

    def is_under(self, place: TopicIdPartition) -> bool:
        """Whether a partition is under min ISR: without a leader, or too few live in sync."""
        partition = self.state.partition(place)
        return partition.leader == NO_LEADER or self.margin(place) < 0

    def margin(self, place: TopicIdPartition) -> int:
        """Live in-sync replicas beyond min ISR, which brokers limit by the partition's replicas."""
        partition = self.state.partition(place)
        in_sync = sum(is_live(self.state, partition, broker) for broker in partition.isr)
        needed = self.state.min_isr(self.state.topics[place.topic_id])
        return in_sync - min(needed, len(partition.replicas))


def expected_row(make: MakeState, brokers: list[int]) -> dict[str, int]:
    """Counts of one scenario, as `kfast.sweep` names them."""
    before, after = partitions_of(make()), TwinScenario.of(make, brokers)
    partitions = partitions_of(after.state)
    leaders = dict.fromkeys(sorted(broker.id for broker in after.state.brokers.values()), 0)
    for partition in partitions.values():
        if partition.leader != NO_LEADER:
            leaders[partition.leader] = leaders.get(partition.leader, 0) + 1
    most = max(leaders.values(), default=0)
    return {
        "brokers_down": len(brokers),
        "offline": sum(row.leader == NO_LEADER for row in partitions.values()),
        "offline_if_clean": len(after.offline_if_clean),
        "no_live_replica": sum(
            not any(is_live(after.state, row, broker) for broker in row.replicas)
            for row in partitions.values()
        ),
        "under_min_isr": sum(map(after.is_under, partitions)),
        "at_min_isr": sum(
            row.leader != NO_LEADER and after.margin(place) == 0
            for place, row in partitions.items()
        ),
        "leaders_moved": sum(
            NO_LEADER not in (before[place].leader, row.leader)
            and before[place].leader != row.leader
            for place, row in partitions.items()
        ),
        "unclean": len(after.unclean),
        "fullest_broker": next((b for b, n in sorted(leaders.items()) if n == most and n), -1),
        "fullest_broker_leaders": most,
    }
