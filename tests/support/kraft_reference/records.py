"""Metadata records: what the controller writes, and what `replay` applies.

A field that is None is absent from the record, which then leaves the value as it is.

Source: docs/kraft.md, sections 2 and 12.2; Kafka 4.1, metadata/src/main/resources/common/
metadata/*.json, in whose order the fields stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tests.support.kraft_reference.hash_orders import Uuid

NO_LEADER = -1

RECOVERED = 0
RECOVERING = 1

TOPIC = 2
BROKER = 4
"""Resource types of configurations. Source: ConfigResource.java, `Type`."""

FENCE = 1
UNFENCE = -1
IN_CONTROLLED_SHUTDOWN = 1
"""What a BrokerRegistrationChange record changes. Source: BrokerRegistrationFencingChange.java."""

MIGRATING = Uuid(0, 0)
UNASSIGNED = Uuid(0, 1)
LOST = Uuid(0, 2)
"""Directories that are none. Source: DirectoryId.java."""

MAX_RECORDS_PER_USER_OP = 10_000
"""No operation of a user writes more. Source: QuorumController.java."""

NO_FEATURES: Mapping[str, tuple[int, int]] = MappingProxyType({})

Brokers = tuple[int, ...]
"""A list of broker ids, in order."""


def is_reserved(directory: Uuid) -> bool:
    """Whether no real directory can have this id. Source: DirectoryId.java, `reserved`."""
    return directory.high == 0 and 0 <= directory.low < 100


@dataclass(frozen=True)
class RegisterBrokerRecord:
    """A broker has registered, or has registered again."""

    version: int
    broker_id: int
    incarnation_id: Uuid
    broker_epoch: int
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool | None = None
    log_dirs: tuple[Uuid, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: NO_FEATURES, hash=False
    )
    cordoned_log_dirs: tuple[Uuid, ...] | None = None


@dataclass(frozen=True)
class UnregisterBrokerRecord:
    """A registration is gone."""

    version: int
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True)
class BrokerRegistrationChangeRecord:
    """A registration changes in the fields that are there."""

    version: int
    broker_id: int
    broker_epoch: int
    fenced: int | None = None
    in_controlled_shutdown: int | None = None
    log_dirs: tuple[Uuid, ...] | None = None


@dataclass(frozen=True)
class FenceBrokerRecord:
    """A broker is fenced; written below metadata version 3.3-IV2."""

    version: int
    id: int
    epoch: int


@dataclass(frozen=True)
class UnfenceBrokerRecord:
    """A broker is unfenced; written below metadata version 3.3-IV2."""

    version: int
    id: int
    epoch: int


@dataclass(frozen=True)
class TopicRecord:
    """A topic is there."""

    version: int
    name: str
    topic_id: Uuid


@dataclass(frozen=True)
class PartitionRecord:
    """A partition is there, whatever it was before."""

    version: int
    partition_id: int
    topic_id: Uuid
    replicas: Brokers
    isr: Brokers
    removing_replicas: Brokers
    adding_replicas: Brokers
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...] | None = None
    eligible_leader_replicas: Brokers | None = None
    last_known_elr: Brokers | None = None


@dataclass(frozen=True)
class PartitionChangeRecord:
    """A partition changes in the fields that are there; its partition epoch rises by one."""

    version: int
    partition_id: int
    topic_id: Uuid
    isr: Brokers | None = None
    leader: int | None = None
    replicas: Brokers | None = None
    removing_replicas: Brokers | None = None
    adding_replicas: Brokers | None = None
    leader_recovery_state: int | None = None
    directories: tuple[Uuid, ...] | None = None
    eligible_leader_replicas: Brokers | None = None
    last_known_elr: Brokers | None = None


@dataclass(frozen=True)
class RemoveTopicRecord:
    """A topic is gone, with its partitions and its configuration."""

    version: int
    topic_id: Uuid


@dataclass(frozen=True)
class ClearElrRecord:
    """The ELRs of one topic are emptied, or those of all where the name is empty."""

    version: int
    topic_name: str = ""


@dataclass(frozen=True)
class ConfigRecord:
    """A configuration has a value; None deletes it."""

    version: int
    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True)
class FeatureLevelRecord:
    """A feature is finalized at a level; 0 removes it."""

    version: int
    name: str
    feature_level: int


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | BrokerRegistrationChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | ClearElrRecord
    | ConfigRecord
    | FeatureLevelRecord
)


class UserRecords(list[MetadataRecord]):
    """Records of an operation of a user; one too many is an unexpected exception.

    Where Kafka catches those, an item fails with UNKNOWN_SERVER_ERROR and what was added before
    stays; elsewhere the operation fails as a whole with POLICY_VIOLATION.

    Source: BoundedList.java; section 7.5.
    """

    def __init__(self, limited: bool) -> None:
        super().__init__()
        self.limited = limited

    def append(self, record: MetadataRecord) -> None:
        """Add a record if there is room for it."""
        if self.limited and len(self) >= MAX_RECORDS_PER_USER_OP:
            raise TooManyRecordsError
        super().append(record)


class ApiError(Exception):
    """A request, or a part of it, is refused with this error code of Kafka's."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class FaultError(Exception):
    """An unexpected exception inside Kafka: the active controller resigns."""


class TooManyRecordsError(FaultError):
    """An operation of a user would write too many records."""
