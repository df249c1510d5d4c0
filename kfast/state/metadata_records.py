"""Records of KRaft's metadata log: what a controller writes, and what readers take from files.

A field that is None is absent from its record, which then leaves the value as it is. Ids of 128
bits are texts of 22 characters (URL-safe base64 without padding).

Source: docs/kraft.md, sections 2 and 12.2; Kafka 4.1, metadata/src/main/resources/common/
metadata/*.json, in whose order the fields stand.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType

from kfast.arguments import check_items, shown
from kfast.errors import ArgumentError

UUID_TEXT = re.compile(r"[A-Za-z0-9_-]{22}")
NO_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType({})

Brokers = tuple[int, ...]
"""Broker ids, in order."""

Directories = tuple[str, ...]
"""Directory ids, each as text."""


class ResourceType(IntEnum):
    """What a configuration belongs to. Source: ConfigResource.java, `Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Recovery(IntEnum):
    """Leader recovery state of a partition. Source: LeaderRecoveryState.java."""

    RECOVERED = 0
    RECOVERING = 1


class Fencing(IntEnum):
    """What a BrokerRegistrationChange record does to `fenced`.

    Source: BrokerRegistrationFencingChange.java.
    """

    UNFENCE = -1
    FENCE = 1


IN_CONTROLLED_SHUTDOWN = 1
"""Source: BrokerRegistrationInControlledShutdownChange.java."""


def uuid_text(high: int, low: int) -> str:
    """Text of a 128-bit id given as two signed halves. Source: Uuid.java, `toString`."""
    raw = b"".join(half.to_bytes(8, "big", signed=True) for half in (high, low))
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def uuid_halves(text: str) -> tuple[int, int]:
    """Signed halves of an id: ids sort by them. Source: Uuid.java, `fromString`, `compareTo`."""
    raw = base64.urlsafe_b64decode(text + "==")
    high, low = (int.from_bytes(raw[i : i + 8], "big", signed=True) for i in (0, 8))
    return high, low


def check_uuids(name: str, texts: Iterable[object]) -> Directories:
    """Return ids of 22 characters; `ArgumentError` where a text is none."""
    ids = check_items(name, texts)
    for text in ids:
        if not (isinstance(text, str) and UUID_TEXT.fullmatch(text)):
            raise ArgumentError(
                f"{name} has {shown(text)}: ids of 22 characters (URL-safe base64) are needed; "
                "nothing was changed"
            )
    return tuple(ids)


MIGRATING, UNASSIGNED, LOST = (uuid_text(0, low) for low in range(3))
"""Directory ids that name no directory. Source: DirectoryId.java."""

N_RESERVED_DIRECTORIES = 100


def is_reserved_directory(directory: str) -> bool:
    """Whether no real directory can have this id. Source: DirectoryId.java, `reserved`."""
    high, low = uuid_halves(directory)
    return high == 0 and 0 <= low < N_RESERVED_DIRECTORIES


def sorted_directories(directories: Directories) -> Directories:
    """Directories in the order of a registration. Source: docs/kraft.md, section 1.1."""
    return tuple(sorted(directories, key=uuid_halves))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker or controller listens."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord:
    """A broker has registered, or has registered again; `features` holds (lowest, highest)."""

    version: int
    broker_id: int
    incarnation_id: str
    broker_epoch: int
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool | None = None
    log_dirs: Directories = ()
    features: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: NO_FEATURES, hash=False
    )
    cordoned_log_dirs: Directories | None = None
    end_points: tuple[Endpoint, ...] = ()
    is_migrating_zk_broker: bool = False


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord:
    """A registration is gone."""

    version: int
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRegistrationChangeRecord:
    """A registration changes in the fields that are there."""

    version: int
    broker_id: int
    broker_epoch: int
    fenced: int | None = None
    in_controlled_shutdown: int | None = None
    log_dirs: Directories | None = None
    cordoned_log_dirs: Directories | None = None


@dataclass(frozen=True, slots=True)
class FenceBrokerRecord:
    """A broker is fenced; written below metadata version 3.3-IV2."""

    version: int
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class UnfenceBrokerRecord:
    """A broker is unfenced; written below metadata version 3.3-IV2."""

    version: int
    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic is there."""

    version: int
    name: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition is there, whatever it was before."""

    version: int
    partition_id: int
    topic_id: str
    replicas: Brokers
    isr: Brokers
    removing_replicas: Brokers
    adding_replicas: Brokers
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: Directories | None = None
    eligible_leader_replicas: Brokers | None = None
    last_known_elr: Brokers | None = None


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """A partition changes in the fields that are there; its partition epoch rises by one.

    A leader raises the leader epoch too, even the leader that it had before.
    """

    version: int
    partition_id: int
    topic_id: str
    isr: Brokers | None = None
    leader: int | None = None
    replicas: Brokers | None = None
    removing_replicas: Brokers | None = None
    adding_replicas: Brokers | None = None
    leader_recovery_state: int | None = None
    directories: Directories | None = None
    eligible_leader_replicas: Brokers | None = None
    last_known_elr: Brokers | None = None


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """A topic is gone, with its partitions and its configurations."""

    version: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class ClearElrRecord:
    """The ELRs of one topic are emptied, or those of all topics where the name is empty."""

    version: int
    topic_name: str = ""


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A configuration has a value; None deletes it."""

    version: int
    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """A feature is finalized at a level; 0 removes it."""

    version: int
    name: str
    feature_level: int


@dataclass(frozen=True, slots=True)
class RegisterControllerRecord:
    """A controller has registered."""

    version: int
    controller_id: int
    incarnation_id: str
    zk_migration_ready: bool = False
    end_points: tuple[Endpoint, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: NO_FEATURES, hash=False
    )


@dataclass(frozen=True, slots=True)
class ZkMigrationStateRecord:
    """How far a migration from ZooKeeper is."""

    version: int
    zk_migration_state: int


@dataclass(frozen=True, slots=True)
class NoOpRecord:
    """Nothing happened; it lets the log's end grow."""

    version: int


@dataclass(frozen=True, slots=True)
class BeginTransactionRecord:
    """The records that follow count only once the transaction ends."""

    version: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class EndTransactionRecord:
    """The records of the transaction count."""

    version: int


@dataclass(frozen=True, slots=True)
class AbortTransactionRecord:
    """The records of the transaction are void."""

    version: int
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class OtherRecord:
    """A record without cluster state: quotas, ACLs, tokens, credentials, producer ids."""

    version: int
    api_key: int


@dataclass(frozen=True, slots=True)
class LeaderChangeRecord:
    """The node that is the active controller from here on: a control record of the log."""

    version: int
    leader_id: int


MetadataRecord = (
    RegisterBrokerRecord | UnregisterBrokerRecord | BrokerRegistrationChangeRecord
    | FenceBrokerRecord | UnfenceBrokerRecord | TopicRecord | PartitionRecord
    | PartitionChangeRecord | RemoveTopicRecord | ClearElrRecord | ConfigRecord
    | FeatureLevelRecord | RegisterControllerRecord | ZkMigrationStateRecord | NoOpRecord
    | BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord | OtherRecord
    | LeaderChangeRecord
)
"""Any record of the log; the first twelve change the cluster's state (docs/kraft.md, section 2)."""

API_KEYS: Mapping[type, int] = MappingProxyType({
    RegisterBrokerRecord: 0,
    UnregisterBrokerRecord: 1,
    TopicRecord: 2,
    PartitionRecord: 3,
    ConfigRecord: 4,
    PartitionChangeRecord: 5,
    FenceBrokerRecord: 7,
    UnfenceBrokerRecord: 8,
    RemoveTopicRecord: 9,
    FeatureLevelRecord: 12,
    BrokerRegistrationChangeRecord: 17,
    NoOpRecord: 20,
    ZkMigrationStateRecord: 21,
    BeginTransactionRecord: 23,
    EndTransactionRecord: 24,
    AbortTransactionRecord: 25,
    RegisterControllerRecord: 27,
    ClearElrRecord: 28,
})
"""Key of each record in a log. Source: docs/kraft.md, section 12.2."""
