"""Random KRaft clusters as the records that make them: degraded, half fenced, half reassigned.

Partitions are drawn, not reached by events, so that states occur which need years in a real
cluster: a reassignment whose completion no release recorded, an ELR from before it was switched
off, in-sync replicas on brokers that are shutting down. Invariants of docs/kraft.md, section 13,
hold: ISR and ELR are disjoint, a leader is in the ISR.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from kfast.schema import NO_LEADER
from kfast.state.kraft_releases import (
    ELR_VERSION,
    METADATA_VERSION,
    MIN_INSYNC_REPLICAS,
    RELEASES,
    UNCLEAN_LEADER_ELECTION,
    MetadataVersion,
)
from kfast.state.metadata_records import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    Brokers,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    ResourceType,
    TopicRecord,
    uuid_text,
)
from tests.support.kraft_reference.controller import QuorumController

CONTROLLER_ID = 3000


@dataclass
class RandomCluster:
    """Draws one cluster; a seed always gives the same records.

    A tidy cluster has no in-sync replica on a broker that is down, and its leaders are in sync.
    """

    seed: int
    release: str = "kraft-4.1"
    elr: bool | None = None
    most_replicas: int = 5

    def __post_init__(self) -> None:
        self.random = Random(f"{self.release} {self.seed}")
        self.is_tidy = self.random.random() < 0.5
        release = RELEASES[self.release]
        levels = range(max(release.metadata_levels[0], 3), release.latest_metadata_version)
        self.level = release.latest_metadata_version
        if self.random.random() < 0.2:
            self.level = self.random.choice(levels)
        elr = self.random.random() < 0.6 if self.elr is None else self.elr
        self.elr_on = elr and release.elr and MetadataVersion(self.level).is_elr_supported
        self.ids = self.random.sample(range(1, 40), self.random.randint(2, 8))
        self.active: set[int] = set()
        self.directories = {
            broker: tuple(
                uuid_text(1000 * broker + n, 77) for n in range(self.random.randint(0, 2))
            )
            for broker in self.ids
        }

    def records(self) -> list[MetadataRecord]:
        """Features, brokers, configurations, topics with partitions: as in a snapshot."""
        records: list[MetadataRecord] = [FeatureLevelRecord(0, METADATA_VERSION, self.level)]
        if self.elr_on:
            records.append(FeatureLevelRecord(0, ELR_VERSION, 1))
        records += map(self._broker, self.ids)
        topics = [f"topic{number}" for number in range(self.random.randint(1, 3))]
        nodes = ["", str(CONTROLLER_ID), str(self.ids[0])]
        for resource in (
            *((ResourceType.BROKER, node) for node in nodes),
            *((ResourceType.TOPIC, name) for name in topics),
        ):
            if self.random.random() < 0.4:
                value = str(self.random.randint(1, 4))
                records.append(ConfigRecord(0, *resource, MIN_INSYNC_REPLICAS, value))
            if self.random.random() < 0.3:
                value = self.random.choice(["true", "TRUE", "false"])
                records.append(ConfigRecord(0, *resource, UNCLEAN_LEADER_ELECTION, value))
        for number, name in enumerate(topics):
            topic_id = uuid_text(self.seed + 1, 1000 + number)
            records.append(TopicRecord(0, name, topic_id))
            for partition in range(self.random.randint(1, 5)):
                records.append(self._partition(topic_id, partition))
        return records

    def controller(self) -> QuorumController:
        """The twin, active on this cluster."""
        return QuorumController(
            self.release, records=self.records(), controller_id=CONTROLLER_ID
        )

    def _broker(self, broker: int) -> RegisterBrokerRecord:
        fenced, stops = (self.random.random() < chance for chance in (0.2, 0.15))
        if not fenced and not stops:
            self.active.add(broker)
        return RegisterBrokerRecord(
            3, broker, uuid_text(4242, broker), 100 + broker,
            f"r{broker % 3}" if broker % 4 else None,
            fenced=fenced, in_controlled_shutdown=stops, log_dirs=self.directories[broker],
        )

    def _subset(self, brokers: Brokers, share: float) -> Brokers:
        members = [broker for broker in brokers if self.random.random() < share]
        self.random.shuffle(members)
        return tuple(members)

    def _partition(self, topic_id: str, number: int) -> PartitionRecord:
        draw = self.random
        known = [*self.ids, *([99] if draw.random() < 0.1 else [])]
        replicas = tuple(draw.sample(known, draw.randint(1, min(self.most_replicas, len(known)))))
        directories = tuple(map(self._directory, replicas))
        isr = self._subset(replicas, draw.choice([0.4, 0.8, 1.0]))
        if self.is_tidy:
            isr = tuple(b for b in isr if b in self.active)
        elr: Brokers = ()
        if self.elr_on or draw.random() < 0.1:
            elr = self._subset(tuple(b for b in replicas if b not in isr), 0.5)
        if not isr and not self.elr_on:
            isr, elr = replicas[:1], ()
        removing: Brokers = ()
        adding: Brokers = ()
        if draw.random() < 0.3:
            removing = tuple(sorted(self._subset(replicas[1:], 0.3)))
            adding = tuple(sorted(self._subset(tuple(set(replicas) - set(removing)), 0.4)))
        leader = draw.choice([NO_LEADER, *isr])
        if self.is_tidy:
            leader = next((b for b in replicas if b in isr and b in self.active), NO_LEADER)
        known_leader = (draw.choice(replicas),) if self.elr_on and leader == NO_LEADER else ()
        return PartitionRecord(
            0, number, topic_id, replicas, isr, removing, adding, leader, draw.randint(0, 1),
            draw.randint(0, 9), draw.randint(0, 9), directories, elr, known_leader,
        )

    def _directory(self, broker: int) -> str:
        if self.level < 17:
            return MIGRATING
        known = self.directories.get(broker, ())
        if self.is_tidy or self.random.random() < 0.85:
            return self.random.choice(known) if known else UNASSIGNED
        return self.random.choice([UNASSIGNED, MIGRATING, LOST, uuid_text(7, 7)])
