"""A snapshot of many partitions, in records of equal length as arrays; a log of many changes.

Replication factor 3, one directory a broker, all replicas in sync; the second replica leads every
tenth partition, whose ISR begins with it.

Source: docs/kraft.md, section 12.
"""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import kfast
from kfast import QuorumController
from kfast.io.metadata.schema import encode_batch, encode_record
from kfast.journal.quorum_outcome import QuorumOutcome
from kfast.kernels.metadata_log import checksum
from kfast.state.kraft_releases import find_release
from kfast.state.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    LeaderChangeRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    uuid_text,
)
from tests.support.metadata_writer import SNAPSHOT_FOOTER, SNAPSHOT_HEADER, log_bytes

RF = 3
PER_BATCH = 4096

PARTITION = np.dtype([
    ("length", "S2"), ("attributes", "S2"), ("offset_delta", "u1", 2), ("no_key", "S1"),
    ("value_length", "S2"), ("head", "S3"), ("partition", ">i4"), ("topic", "S16"),
    ("n_replicas", "S1"), ("replicas", ">i4", RF), ("n_isr", "S1"), ("isr", ">i4", RF),
    ("moving", "S2"), ("leader", ">i4"), ("leader_epoch", ">i4"), ("partition_epoch", ">i4"),
    ("n_directories", "S1"), ("directories", "S16", RF), ("tags", "S2"),
])
"""A framed Partition record; numbers of the frame take two bytes, whatever they are."""


def two_bytes(value: int) -> bytes:
    """A signed number of a frame in two bytes."""
    return bytes((value << 1 & 0x7F | 0x80, value >> 6))


def partition_records(
    topic_ids: list[bytes], per_topic: int, n_brokers: int, directories: npt.NDArray[Any]
) -> npt.NDArray[np.void]:
    """All partitions, topic after topic."""
    n = len(topic_ids) * per_topic
    rows = np.zeros(n, PARTITION)
    place = np.arange(n)
    value = PARTITION.itemsize - PARTITION.fields["head"][1] - 1
    rows["length"] = two_bytes(PARTITION.itemsize - 2)
    rows["value_length"] = two_bytes(value)
    delta = place % PER_BATCH
    rows["offset_delta"][:, 0] = delta << 1 & 0x7F | 0x80
    rows["offset_delta"][:, 1] = delta >> 6
    rows["no_key"], rows["head"] = b"\x01", b"\x01\x03\x02"
    rows["partition"] = place % per_topic
    rows["topic"] = np.repeat(np.array(topic_ids, "S16"), per_topic)
    first = (place * 7 + place // n_brokers) % n_brokers
    replicas = (first[:, None] + np.array([0, 1, n_brokers // 2])) % n_brokers
    rows["replicas"] = rows["isr"] = replicas
    rows["leader"] = replicas[:, 0]
    second = place % 10 == 0
    rows["isr"][second] = replicas[second][:, [1, 0, 2]]
    rows["leader"][second] = replicas[second, 1]
    rows["leader_epoch"] = place % 5
    rows["partition_epoch"] = place % 9
    rows["n_replicas"] = rows["n_isr"] = rows["n_directories"] = bytes((RF + 1,))
    rows["moving"] = b"\x01\x01"
    rows["directories"] = directories[replicas]
    return rows


def batch_of(offset: int, rows: npt.NDArray[np.void]) -> bytes:
    """A batch of framed records."""
    body = struct.pack(">hiqqqhii", 0, rows.size - 1, 0, 0, -1, -1, -1, rows.size) + rows.tobytes()
    return struct.pack(">qiibI", offset, len(body) + 9, 1, 2, checksum(body)) + body


def write_bulk_snapshot(
    folder: Path, n_topics: int, per_topic: int, n_brokers: int = 300, n_configs: int = 1000
) -> Path:
    """Write a snapshot; broker ids count from 0, no topic id or directory ends with a zero byte."""
    topic_ids = [struct.pack(">QQ", 2**62 + t, 2 * t + 1) for t in range(n_topics)]
    directories = np.array(
        [struct.pack(">QQ", 2**61 + b, 2 * b + 1) for b in range(n_brokers)], "S16"
    )
    records: list[MetadataRecord] = [FeatureLevelRecord(0, "metadata.version", 27)]
    for b in range(n_brokers):
        listed = (uuid_text(2**61 + b, 2 * b + 1),)
        incarnation = uuid_text(7, b)
        records.append(RegisterBrokerRecord(
            3, b, incarnation, b, f"rack-{b % 3}", False, False, listed
        ))
    names = [f"topic-{t:06d}" for t in range(n_topics)]
    for name, topic_id in zip(names, topic_ids, strict=True):
        text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
        records.append(TopicRecord(0, name, text))
    records += [
        ConfigRecord(0, 2, name, "min.insync.replicas", "2") for name in names[:n_configs]
    ]
    rows = partition_records(topic_ids, per_topic, n_brokers, directories)
    path = folder / f"{10**6:020d}-{1:010d}.checkpoint"
    with path.open("wb") as file:
        file.write(encode_batch(0, 1, 0, [struct.pack(">hqb", 0, 0, 0)], control=SNAPSHOT_HEADER))
        file.write(encode_batch(1, 1, 0, [encode_record(record) for record in records]))
        for start in range(0, rows.size, PER_BATCH):
            file.write(batch_of(start, rows[start : start + PER_BATCH]))
        file.write(encode_batch(0, 1, 0, [struct.pack(">hb", 0, 0)], control=SNAPSHOT_FOOTER))
    return path


class BulkLog:
    """A segment that is written batch by batch, a second each."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.n_bytes = path, 0, 0
        path.write_bytes(b"")

    def append(self, *records: MetadataRecord) -> None:
        """One batch."""
        if records:
            data = log_bytes([(self.offset, 1, 1000 * self.offset, records)])
            with self.path.open("ab") as file:
                self.n_bytes += file.write(data)
            self.offset += len(records)


def _begin(log: BulkLog, n_topics: int, per_topic: int, n_brokers: int, elr: bool) -> None:
    """Brokers and topics; each topic is created by a request of its own."""
    features = find_release("kraft-4.1").supported_features
    brokers = range(n_brokers)
    directory = {b: uuid_text(2**61 + b, 2 * b + 1) for b in brokers}
    log.append(LeaderChangeRecord(0, 9000))
    log.append(RegisterControllerRecord(0, 9000, uuid_text(8, 9000), False, (), features))
    log.append(FeatureLevelRecord(0, "metadata.version", 27))
    if elr:
        log.append(FeatureLevelRecord(0, "eligible.leader.replicas.version", 1))
    for b in brokers:
        epoch = log.offset
        log.append(RegisterBrokerRecord(
            3, b, uuid_text(7, b), epoch, f"rack-{b % 3}", log_dirs=(directory[b],),
            features=features,
        ))
        log.append(BrokerRegistrationChangeRecord(2, b, epoch, fenced=-1))
    for topic in range(n_topics):
        topic_id = uuid_text(2**62 + topic, 2 * topic + 1)
        partitions = []
        for partition in range(per_topic):
            place = topic * per_topic + partition
            first = (place * 7 + place // n_brokers) % n_brokers
            replicas = tuple((first + step) % n_brokers for step in (0, 1, n_brokers // 2))
            partitions.append(PartitionRecord(
                2, partition, topic_id, replicas, replicas, (), (), first, 0, 0, 0,
                tuple(directory[b] for b in replicas),
            ))
        log.append(TopicRecord(0, f"topic-{topic:06d}", topic_id), *partitions)


def write_bulk_log(
    folder: Path, n_topics: int, per_topic: int, n_brokers: int, n_bytes: int, *, elr: bool = True
) -> Path:
    """Write the log of brokers that restart one after another, until it has so many bytes.

    Each shuts down in order, is fenced, comes back, catches up, and leads again what it prefers.
    """
    log = BulkLog(folder / f"{0:020d}.log")
    _begin(log, n_topics, per_topic, n_brokers, elr)
    controller = QuorumController(kfast.read(log.path), journal="full")

    def append(*outcomes: QuorumOutcome) -> None:
        for outcome in outcomes:
            assert outcome.error is None, outcome.error
            log.append(*outcome.metadata_records)

    broker = 0
    while log.n_bytes < n_bytes:
        append(controller.begin_controlled_shutdown(broker))
        append(controller.fence_broker(broker))
        epoch = controller.epoch_of(controller.broker_row(broker))
        append(controller.register_broker(
            broker, previous_broker_epoch=epoch, expire_session=True
        ))
        append(controller.unfence_broker(broker))
        append(*controller.catch_up([broker]))
        append(controller.elect_leaders())
        broker = (broker + 1) % n_brokers
    return log.path
