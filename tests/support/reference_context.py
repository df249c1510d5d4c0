"""The controller context in plain Python: records, assignments, queries, mutators, counters.

Nothing here is fast and nothing here is shared with the kernels: it is the second statement of
docs/controller.md, section 1, which the kernels are compared with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

from kfast.schema import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    NO_LEADER,
    PartitionState,
    ReplicaState,
)
from tests.support.reference_profiles import ZK_3_9, Profile

Partition = tuple[str, int]
"""A topic and a partition number."""

Replica = tuple[Partition, int]
"""A partition and a broker id."""

RECOVERED, RECOVERING = 0, 1


@dataclass(frozen=True)
class Record:
    """A partition state record (section 1.2); the ISR keeps its order, and is compared as a set."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery: int = RECOVERED
    version: int = 0
    controller_epoch: int = 0

    def new_leader_and_isr(self, leader: int, isr: Iterable[int]) -> Record:
        """Section 1.2: another leader and ISR, one epoch later."""
        return replace(self, leader=leader, isr=tuple(isr), leader_epoch=self.leader_epoch + 1)

    def new_leader(self, leader: int) -> Record:
        """Section 1.2: another leader, one epoch later."""
        return self.new_leader_and_isr(leader, self.isr)

    def new_recovering(self, leader: int, isr: Iterable[int]) -> Record:
        """Section 1.2: another leader that has to recover, one epoch later."""
        return replace(self.new_leader_and_isr(leader, isr), recovery=RECOVERING)

    def during_delete(self) -> Record:
        """Section 1.2: what UpdateMetadata says of a partition whose topic is queued."""
        return replace(
            self, leader=LEADER_DURING_DELETE, leader_epoch=0, recovery=RECOVERED, version=0
        )


def initial_record(leader: int, isr: Iterable[int], controller_epoch: int) -> Record:
    """Section 1.2: the first record of a new partition."""
    return Record(leader, 0, tuple(isr), RECOVERED, 0, controller_epoch)


def same_allowing_stale_version(proposed: Record, current: Record) -> bool:
    """Section 1.2, with the ISRs compared as sets (a deviation of kfast)."""
    return (
        proposed.leader == current.leader
        and proposed.leader_epoch == current.leader_epoch
        and set(proposed.isr) == set(current.isr)
        and proposed.recovery == current.recovery
        and proposed.version <= current.version
    )


def without(listed: Iterable[int], dropped: Iterable[int]) -> tuple[int, ...]:
    """The listed ones that are not dropped, in order."""
    removed = set(dropped)
    return tuple(b for b in listed if b not in removed)


@dataclass(frozen=True)
class Assignment:
    """An assignment record (section 1.3)."""

    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def origin(self) -> tuple[int, ...]:
        """Section 1.3: the replicas that were there before the reassignment."""
        return without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """Section 1.3: the replicas that will be there after it."""
        return without(self.replicas, self.removing)

    @property
    def being_reassigned(self) -> bool:
        """Section 1.3: some replica is being added or removed."""
        return bool(self.adding or self.removing)

    def reassign_to(self, target: Iterable[int]) -> Assignment:
        """Section 1.3: targets first, then what is left of the origin."""
        target = tuple(target)
        full = tuple(dict.fromkeys(target + self.origin))
        return Assignment(full, without(full, self.origin), without(full, target))

    def remove(self, broker: int) -> Assignment:
        """Section 1.3: drop a broker from all three lists."""
        return Assignment(
            *(without(listed, [broker]) for listed in (self.replicas, self.adding, self.removing))
        )


@dataclass
class Context:
    """What the controller knows (section 1.4), with the counters that its mutators keep.

    Source: section 1.6.
    """

    controller_id: int = -1
    epoch: int = 0
    epoch_store_version: int = 0
    live_broker_epochs: dict[int, int] = field(default_factory=dict)
    shutting_down: set[int] = field(default_factory=set)
    offline_dir_replicas: dict[int, set[Partition]] = field(default_factory=dict)
    all_topics: set[str] = field(default_factory=set)
    assignments: dict[Partition, Assignment] = field(default_factory=dict)
    leadership: dict[Partition, Record] = field(default_factory=dict)
    being_reassigned: set[Partition] = field(default_factory=set)
    unwritten_assignments: dict[Partition, Assignment] = field(default_factory=dict)
    reassignment_targets: dict[Partition, tuple[int, ...]] = field(default_factory=dict)
    partition_states: dict[Partition, PartitionState] = field(default_factory=dict)
    replica_states: dict[Replica, ReplicaState] = field(default_factory=dict)
    topics_to_delete: set[str] = field(default_factory=set)
    topics_deletion_started: set[str] = field(default_factory=set)
    topics_ineligible: set[str] = field(default_factory=set)
    topic_unclean: dict[str, bool] = field(default_factory=dict)
    default_unclean: bool = False
    delete_topic_enabled: bool = True
    leader_recovery_supported: bool = True
    offline_partition_count: int = 0
    preferred_imbalance_count: int = 0
    unclean_elections: int = 0
    profile: Profile = ZK_3_9
    rule: Callable[[Context, Partition, Record, list[int]], int | None] | None = None
    """A user's rule: which of an election's candidates, broker ids in AR order, is to lead."""
    racks: dict[int, str] = field(default_factory=dict)
    led: Counter[int] = field(default_factory=Counter)
    """Racks by broker, and partitions led when the event began: only a rule asks for them."""

    def copy(self) -> Context:
        """An independent copy; records and assignments never change."""
        mine = {k: copy(v) if isinstance(v, dict | set) else v for k, v in vars(self).items()}
        dirs = {b: set(ps) for b, ps in self.offline_dir_replicas.items()}
        return Context(**{**mine, "offline_dir_replicas": dirs})

    # -- queries (section 1.5) ----------------------------------------------------------------

    @property
    def registered(self) -> list[int]:
        """Section 1.5: live or shutting down, in ascending id."""
        return sorted(self.live_broker_epochs)

    @property
    def live(self) -> set[int]:
        """Section 1.5: registered and not shutting down."""
        return set(self.live_broker_epochs) - self.shutting_down

    def is_replica_online(self, b: int, p: Partition, include_shutting_down: bool = False) -> bool:
        """Section 1.5: the broker is up and its log directory of p is not offline."""
        up = b in self.live_broker_epochs
        if not include_shutting_down:
            up = up and b not in self.shutting_down
        return up and p not in self.offline_dir_replicas.get(b, ())

    def is_queued(self, p: Partition) -> bool:
        """Whether the topic is queued for deletion."""
        return p[0] in self.topics_to_delete

    def assignment(self, p: Partition) -> Assignment:
        """Section 1.3: an unknown partition reads as three empty lists."""
        return self.assignments.get(p, Assignment())

    def assigned_replicas(self) -> Iterator[Replica]:
        """Every (p, b) with b in the replicas of p."""
        for p, assignment in self.assignments.items():
            for b in assignment.replicas:
                yield p, b

    def replicas_on_brokers(self, brokers: Iterable[int]) -> list[Replica]:
        """1.5."""
        wanted = set(brokers)
        return [(p, b) for p, b in self.assigned_replicas() if b in wanted]

    def replicas_for_topic(self, topic: str) -> list[Replica]:
        """1.5."""
        return [(p, b) for p, b in self.assigned_replicas() if p[0] == topic]

    def leader_epoch(self, p: Partition) -> int:
        """Section 1.5: what StopReplica says of the leader epoch."""
        if self.is_queued(p):
            return EPOCH_DURING_DELETE
        record = self.leadership.get(p)
        return NO_EPOCH if record is None else record.leader_epoch

    def partitions_with_leaders(self) -> list[Partition]:
        """Section 1.5: leader -1 counts."""
        return [p for p in self.leadership if not self.is_queued(p)]

    def partitions_with_offline_leader(self) -> list[Partition]:
        """Section 1.5: leader -1 qualifies."""
        return [
            p
            for p in self.partitions_with_leaders()
            if not self.is_replica_online(self.leadership[p].leader, p)
        ]

    def partition_leaders_on_broker(self, b: int) -> list[Partition]:
        """Section 1.5: partitions with more than one replica that b leads."""
        skips_queued = self.profile.shutdown_skips_queued
        return [
            p
            for p in (self.partitions_with_leaders() if skips_queued else self.leadership)
            if self.leadership[p].leader == b and len(self.assignment(p).replicas) > 1
        ]

    def has_preferred_leader(self, assignment: Assignment, record: Record) -> bool:
        """A first replica that is still being added makes the ISR count, not the leader.

        Source: section 1.6.
        """
        if not assignment.replicas:
            raise LookupError("no preferred replica: the assignment is empty")
        first = assignment.replicas[0]
        if assignment.being_reassigned and first in assignment.adding:
            return first not in record.isr
        return record.leader == first

    def is_imbalanced(self, p: Partition) -> bool:
        """Whether p counts as imbalanced now, if its topic is not queued."""
        record, assignment = self.leadership.get(p), self.assignments.get(p)
        if record is None or assignment is None:
            return False
        return not self.has_preferred_leader(assignment, record)

    def is_emptied(self, p: Partition) -> bool:
        """Whether p has lost its last replica; it counts as balanced (docs/deviations.md)."""
        return p in self.assignments and not self.assignments[p].replicas

    # -- mutators (section 1.6) ---------------------------------------------------------------

    def put_partition_state(self, p: Partition, new: PartitionState) -> None:
        """Section 1.6: started topics never move the offline count."""
        old = self.partition_states.get(p, PartitionState.NON_EXISTENT)
        self.partition_states[p] = new
        if p[0] not in self.topics_deletion_started:
            self.offline_partition_count += (new == PartitionState.OFFLINE) - (
                old == PartitionState.OFFLINE
            )

    def put_partition_state_if_absent(self, p: Partition) -> None:
        """Section 1.6: only ever NonExistentPartition, hence no effect on the count."""
        self.partition_states.setdefault(p, PartitionState.NON_EXISTENT)

    def unclean_allowed(self, topic: str) -> bool:
        """The topic's effective unclean.leader.election.enable."""
        return self.topic_unclean.get(topic, self.default_unclean)

    def set_assignment(self, p: Partition, assignment: Assignment) -> None:
        """Section 1.6: replace, and let the imbalance count follow."""
        queued = self.is_queued(p)
        before = False if queued else self.is_imbalanced(p)
        self.assignments[p] = assignment
        if not queued:
            self.preferred_imbalance_count += self.is_imbalanced(p) - before

    def put_leadership(self, p: Partition, record: Record) -> None:
        """Section 1.6: replace, and let the imbalance count follow."""
        queued = self.is_queued(p)
        before = False if queued else self.is_imbalanced(p)
        self.leadership[p] = record
        if not queued:
            self.preferred_imbalance_count += self.is_imbalanced(p) - before

    def queue_topic_deletion(self, topics: Iterable[str]) -> None:
        """Only topics that are not queued yet; their imbalanced partitions stop counting.

        Source: section 1.6.
        """
        for topic in set(topics) - self.topics_to_delete:
            self.preferred_imbalance_count -= sum(
                self.is_imbalanced(p) for p in self.assignments
                if p[0] == topic and not self.is_emptied(p)
            )
            self.topics_to_delete.add(topic)

    def begin_topic_deletion(self, topics: Iterable[str]) -> None:
        """Section 1.4: deletion of queued topics really begins."""
        self.topics_deletion_started |= set(topics)

    def remove_topic(self, topic: str) -> None:
        """Section 1.6: states of partitions and replicas, and topics_ineligible, are left alone."""
        listed = [p for p in self.assignments if p[0] == topic]
        if topic not in self.topics_to_delete:
            self.preferred_imbalance_count -= sum(map(self.is_imbalanced, listed))
        self.topics_to_delete.discard(topic)
        self.topics_deletion_started.discard(topic)
        self.all_topics.discard(topic)
        for p in listed:
            del self.assignments[p]
            self.unwritten_assignments.pop(p, None)
            self.leadership.pop(p, None)

    def gauges(self) -> dict[str, int]:
        """Section 1.6, exported gauges."""
        queued = [r for r in self.assigned_replicas() if self.is_queued(r[0])]
        states = [self.replica_states.get(r) for r in queued]
        return {
            "OfflinePartitionsCount": self.offline_partition_count,
            "PreferredReplicaImbalanceCount": self.preferred_imbalance_count,
            "GlobalTopicCount": len(self.all_topics),
            "GlobalPartitionCount": len(self.leadership),
            "TopicsToDeleteCount": len(self.topics_to_delete),
            "ReplicasToDeleteCount": sum(
                s != ReplicaState.DELETION_SUCCESSFUL for s in states
            ),
            "TopicsIneligibleToDeleteCount": len(self.topics_ineligible),
            "ReplicasIneligibleToDeleteCount": sum(
                s == ReplicaState.DELETION_INELIGIBLE for s in states
            ),
            "ActiveBrokerCount": len(self.live_broker_epochs),
        }


def leader_of(ctx: Context, p: Partition) -> int:
    """The cached leader, -1 where there is none or nothing is cached."""
    record = ctx.leadership.get(p)
    return NO_LEADER if record is None else record.leader
