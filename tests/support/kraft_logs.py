"""Random metadata logs: what the twin of the KRaft controller writes along a random sequence.

Source: docs/kraft.md, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kfast.state import metadata_records
from kfast.state.metadata_records import MetadataRecord
from tests.support.kraft_cases import given_record
from tests.support.kraft_random import RandomSequence
from tests.support.kraft_reference.state import ClusterState
from tests.support.metadata_writer import Logged


@dataclass
class RandomLog:
    """A log, and the twin's state at its end."""

    records: list[MetadataRecord]
    state: ClusterState

    def batches(self, seed: int) -> list[Logged]:
        """The log in batches of 1 to 5 records, a millisecond each."""
        rng, at, batches = np.random.default_rng(seed), 0, []
        while at < len(self.records):
            n = int(rng.integers(1, 6))
            batches.append((at, 1, at, self.records[at : at + n]))
            at += n
        return batches


def random_log(seed: int, profile: str, n_events: int = 60) -> RandomLog:
    """The records of a random sequence."""
    sequence = RandomSequence(seed, profile, 6, 6, 1 + 100 * (seed % 3 == 0))
    controller = sequence.run.controller
    written: list[MetadataRecord] = []

    def append(record: MetadataRecord) -> None:
        written.append(record)
        controller.state.replay(record, controller.next_offset)
        controller.next_offset += 1

    begun = controller.next_offset
    controller._append = append
    sequence.setup()
    for _ in range(n_events):
        if "fault" in sequence.run.run(sequence.draw()):
            break
    release = sequence.run.release
    given = [given_record(row, release) for row in sequence.case["given"]["records"]]
    assert len(given) == begun
    return RandomLog([*given, *written], controller.state)


def snapshot_records(state: ClusterState, versions: int) -> list[MetadataRecord]:
    """Records of a snapshot of the twin's state; `versions` is that of Partition records."""
    found: list[MetadataRecord] = [
        metadata_records.FeatureLevelRecord(0, name, level)
        for name, level in state.features.items()
    ]
    found += [
        metadata_records.RegisterBrokerRecord(
            3, broker.id, broker.incarnation_id, broker.epoch, broker.rack, broker.fenced,
            broker.in_controlled_shutdown, broker.directories, broker.features,
        )
        for broker in state.brokers.values()
    ]
    for topic in state.topics.values():
        found.append(metadata_records.TopicRecord(0, topic.name, topic.id))
        found += [
            metadata_records.PartitionRecord(
                versions, number, topic.id, p.replicas, p.isr, p.removing, p.adding,
                p.leader, p.recovery, p.leader_epoch, p.partition_epoch,
                p.directories if versions else None, p.elr or None, p.last_known_elr or None,
            )
            for number, p in topic.partitions.items()
        ]
    found += [
        metadata_records.ConfigRecord(0, kind, name, key, value)
        for (kind, name), values in state.configs.items() for key, value in values.items()
    ]
    return found
