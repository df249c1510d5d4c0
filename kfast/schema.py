"""Every column and every code, said once.

Arrays, checks, Arrow schemas and the column reference that `kfast schema` prints are made from the
tables below. Kafka's own numbers are kept where Kafka has them (states, sentinels).

Source: Kafka 3.9, `ControllerContext`, `ReplicaState`, `PartitionState`; specification, section 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa

NO_LEADER = -1
LEADER_DURING_DELETE = -2
NO_EPOCH = -1
EPOCH_DURING_DELETE = -2
UNKNOWN_BROKER_EPOCH = -1
MAX_SLOTS = 64
"""More brokers than this cannot be tracked by one partition: a mask has 64 bits."""

NARROW_SLOTS = 8
"""A narrow layout holds at most this many slots: its masks are uint8."""

NARROW_BROKERS = 65535
"""A narrow layout holds fewer brokers than this: its broker rows are uint16, the last a null."""


class PartitionState(IntEnum):
    """States of a partition, with Kafka's bytes. Source: specification, section 3.1."""

    NO_ENTRY = -1
    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return "" if self < 0 else PARTITION_STATE_NAMES[self]


class ReplicaState(IntEnum):
    """States of a replica, with Kafka's bytes. Source: specification, section 2.1."""

    NO_ENTRY = 0
    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7

    @property
    def label(self) -> str:
        """Kafka's name of the state."""
        return REPLICA_STATE_NAMES[self]


PARTITION_STATE_NAMES = (
    "NewPartition", "OnlinePartition", "OfflinePartition", "NonExistentPartition",
)
REPLICA_STATE_NAMES = (
    "",
    "NewReplica",
    "OnlineReplica",
    "OfflineReplica",
    "ReplicaDeletionStarted",
    "ReplicaDeletionSuccessful",
    "ReplicaDeletionIneligible",
    "NonExistentReplica",
)


class Strategy(IntEnum):
    """How a leader is chosen. Source: specification, section 4.1."""

    OFFLINE = 0
    OFFLINE_ALLOW_UNCLEAN = 1
    REASSIGN = 2
    PREFERRED_REPLICA = 3
    CONTROLLED_SHUTDOWN = 4

    @property
    def allows_unclean(self) -> bool:
        """Whether a leader outside the ISR is permitted whatever the configuration says."""
        return self is Strategy.OFFLINE_ALLOW_UNCLEAN


class Code(IntEnum):
    """What became of one replica or partition that was asked to change its state."""

    MOVED = 0
    """The state is the target now."""
    INITIALIZED = 1
    """A new partition got its first leader (3.5); it is Online, and in no result map."""
    ELECTED = 2
    """A leader was elected (3.6); the partition is Online."""
    ILLEGAL_STATE = 3
    """The matrix does not allow this transition."""
    LEADER_IS_NEW_REPLICA = 4
    """2.4: the replica that should become New is the cached leader."""
    NEWER_CONTROLLER = 5
    """The record was written by a controller with a higher epoch."""
    NO_RECORD = 6
    """The store holds no record of the partition, or one that cannot be decoded."""
    DROPPED = 7
    """2.6: no record, topic queued for deletion: silently left as it was. Before Kafka 2.3 also
    what has no cached leadership (8.1)."""
    NO_ELIGIBLE_LEADER = 8
    """The strategy found nobody."""
    CONFIG_LOOKUP_FAILED = 9
    """4.2: the topic's configuration could not be read, so nobody was elected."""
    NO_LIVE_REPLICA = 10
    """3.5: no assigned replica of a new partition is online."""
    NODE_EXISTS = 11
    """3.5: the store already holds a record of the new partition."""
    STORE_ERROR = 12
    """The store answered with another error."""
    APPENDED = 13
    """2.4: Online from New, but not assigned: the broker was appended to the assignment."""
    ILLEGAL_ARGUMENT = 14
    """3.3: the whole call failed because it named no strategy."""
    CONTROLLER_MOVED = 15
    """The whole call failed because another controller has taken over."""
    CREATE_CALL_FAILED = 16
    """3.5: the call that creates records failed as a whole; logged with NewPartition as target."""
    NOT_ASKED = 17
    """The call failed as a whole before this one was looked at."""
    CONFIG_LOOKUP_LOGGED = 18
    """4.2: the failed look-up was logged, and then the whole call failed."""
    UNDECODABLE = 19
    """8.1: the whole call failed because a record cannot be decoded (Kafka 1.1 to 2.3)."""

    @property
    def succeeded(self) -> bool:
        """Whether the state is the target now."""
        return self in (Code.MOVED, Code.INITIALIZED, Code.ELECTED, Code.APPENDED)

    @property
    def error(self) -> str | None:
        """The class of Kafka's error; None where Kafka logs none."""
        return _ERRORS.get(self)


_ERRORS = {
    Code.ILLEGAL_STATE: "IllegalState",
    Code.LEADER_IS_NEW_REPLICA: "StateChangeFailed",
    Code.NEWER_CONTROLLER: "StateChangeFailed",
    Code.NO_RECORD: "StateChangeFailed",
    Code.NO_ELIGIBLE_LEADER: "StateChangeFailed",
    Code.CONFIG_LOOKUP_FAILED: "StateChangeFailed",
    Code.CONFIG_LOOKUP_LOGGED: "StoreError",
    Code.NO_LIVE_REPLICA: "StateChangeFailed",
    Code.NODE_EXISTS: "StoreError",
    Code.STORE_ERROR: "StoreError",
    Code.ILLEGAL_ARGUMENT: "IllegalArgument",
    Code.CONTROLLER_MOVED: "ControllerMoved",
    Code.CREATE_CALL_FAILED: "StoreError",
    Code.UNDECODABLE: "NoSuchElement",
}


class AlterCode(IntEnum):
    """What the controller answers to one partition of an AlterPartition request (6.10)."""

    WRITTEN = 0
    UNCHANGED = 1
    UNKNOWN_TOPIC_OR_PARTITION = 2
    NOT_CONTROLLER = 3
    FENCED_LEADER_EPOCH = 4
    INVALID_UPDATE_VERSION = 5
    INVALID_REQUEST = 6
    INELIGIBLE_REPLICA = 7
    STORE_ERROR = 8
    STALE_BROKER_EPOCH = 9


class ReassignmentCode(IntEnum):
    """What the controller answers to the reassignment of one partition (6.7)."""

    STARTED = 0
    INVALID_REPLICA_ASSIGNMENT = 1
    NO_REASSIGNMENT_IN_PROGRESS = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    UNKNOWN_SERVER_ERROR = 4


FLAG_ASSIGNED = 1
FLAG_HAS_LEADERSHIP = 2
FLAG_RECOVERY = 4
FLAG_BEING_REASSIGNED = 8
"""Bits of the column `flags` of a partition."""


@dataclass(frozen=True)
class Column:
    """One column of one table.

    Parameters
    ----------
    name : str
        The name in arrays, Arrow tables and the column reference alike.
    dtype : str
        How the array holds it: a numpy type, or `mask` (uint8 narrow, uint64 wide), `broker` (a
        broker row: uint16 narrow, int32 wide), or `arrow` (held as an Arrow array).
    arrow : pa.DataType or None
        Its type in the Arrow table; None for a column that is made from others there.
    meaning : str
        One sentence.
    null : object
        The value that means "none"; None where there is no such value.
    axes : tuple of str
        What the array is indexed by.
    """

    name: str
    dtype: str
    arrow: pa.DataType | None
    meaning: str
    null: object = None
    axes: tuple[str, ...] = ()


_IDS = pa.list_(pa.int32())

CLUSTER = (
    Column("controller_id", "int32", pa.int32(), "broker that is the active controller", -1),
    Column("controller_epoch", "int32", pa.int32(), "rises by 1 with every controller election"),
    Column("epoch_store_version", "int32", pa.int32(), "version of the stored controller epoch"),
    Column(
        "default_unclean_leader_election", "bool", pa.bool_(),
        "broker default of unclean.leader.election.enable",
    ),
    Column("default_min_insync_replicas", "int32", pa.int32(), "default of min.insync.replicas"),
    Column("delete_topic_enabled", "bool", pa.bool_(), "delete.topic.enable"),
    Column(
        "leader_recovery_supported", "bool", pa.bool_(),
        "inter-broker protocol is 3.2 or later",
    ),
    Column("unclean_elections", "int64", pa.int64(), "leaders chosen outside the ISR so far"),
)

BROKERS = (
    Column(
        "broker_id", "int32", pa.int32(),
        "Kafka's broker id; the table is sorted by it", axes=("broker",),
    ),
    Column("rack", "arrow", pa.string(), "broker.rack", axes=("broker",)),
    Column(
        "registered", "bool", pa.bool_(),
        "its registration is in the store: live or shutting down", axes=("broker",),
    ),
    Column("shutting_down", "bool", pa.bool_(), "in controlled shutdown", axes=("broker",)),
    Column("epoch", "int64", pa.int64(), "registration epoch", axes=("broker",)),
)

TOPICS = (
    Column("topic", "arrow", pa.string(), "name", axes=("topic",)),
    Column("topic_id", "arrow", pa.string(), "22 characters of URL-safe base64", axes=("topic",)),
    Column("exists", "bool", pa.bool_(), "is among the controller's topics", axes=("topic",)),
    Column(
        "unclean_leader_election", "int8", pa.bool_(),
        "topic override of unclean.leader.election.enable", -1, ("topic",),
    ),
    Column(
        "min_insync_replicas", "int32", pa.int32(),
        "topic override of min.insync.replicas", -1, ("topic",),
    ),
    Column("queued_for_deletion", "bool", pa.bool_(), "deletion was asked for", axes=("topic",)),
    Column("deletion_started", "bool", pa.bool_(), "deletion has begun", axes=("topic",)),
    Column("ineligible", "bool", pa.bool_(), "deletion cannot go on for now", axes=("topic",)),
)

PARTITIONS = (
    Column(
        "topic_row", "int32", None,
        "row of the topic; Arrow tables have its name in `topic`", axes=("partition",),
    ),
    Column(
        "partition", "int32", pa.int32(),
        "partition number within the topic", axes=("partition",),
    ),
    Column(
        "leader", "int32", pa.int32(),
        "broker row of the leader; its id in Arrow tables", NO_LEADER, ("partition",),
    ),
    Column(
        "leader_epoch", "int32", pa.int32(),
        "rises by 1 with every new leader or ISR shrink", axes=("partition",),
    ),
    Column("version", "int32", pa.int32(), "version of the stored record", axes=("partition",)),
    Column(
        "controller_epoch", "int32", pa.int32(),
        "epoch of the controller that wrote the record", axes=("partition",),
    ),
    Column("isr", "mask", _IDS, "slots in sync", axes=("partition",)),
    Column("adding", "mask", _IDS, "slots that a reassignment adds", axes=("partition",)),
    Column("removing", "mask", _IDS, "slots that a reassignment removes", axes=("partition",)),
    Column(
        "offline_dir", "mask", _IDS,
        "slots whose log directory is offline", axes=("partition",),
    ),
    Column(
        "n_replicas", "uint8", None,
        "how many slots, from the first, are assigned replicas", axes=("partition",),
    ),
    Column("n_slots", "uint8", None, "how many slots are in use", axes=("partition",)),
    Column(
        "partition_state", "int8", pa.int8(),
        "state, a `PartitionState`", PartitionState.NO_ENTRY, ("partition",),
    ),
    Column(
        "flags", "uint8", None,
        "bits: assigned, has leadership, recovering, being reassigned", axes=("partition",),
    ),
)

REPLICAS = (
    Column(
        "replicas", "broker", _IDS,
        "broker rows: assigned replicas first, preferred replica in slot 0",
        -1, ("partition", "slot"),
    ),
    Column(
        "replica_state", "uint8", None,
        "state, a `ReplicaState`", ReplicaState.NO_ENTRY, ("partition", "slot"),
    ),
)

FLAG_COLUMNS = (
    Column(
        "has_leadership", "bool", pa.bool_(),
        "a leadership record is cached", axes=("partition",),
    ),
    Column(
        "recovery", "int8", pa.int8(),
        "leader recovery state: 0 recovered, 1 recovering", axes=("partition",),
    ),
    Column(
        "being_reassigned", "bool", pa.bool_(),
        "a reassignment is under way", axes=("partition",),
    ),
    Column(
        "replica_state_broker_ids", "int32", _IDS,
        "brokers that have a replica state", axes=("partition",),
    ),
    Column(
        "replica_states", "int8", pa.list_(pa.int8()),
        "their states, a `ReplicaState` each", axes=("partition",),
    ),
)
"""Columns that only the Arrow table of partitions has: made from flags and the replica matrix."""


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Arrow schema of a table's columns, in order; columns that Arrow tables lack are left out."""
    return pa.schema([pa.field(c.name, c.arrow) for c in columns if c.arrow is not None])


CLUSTER_SCHEMA = arrow_schema(CLUSTER)
BROKERS_SCHEMA = arrow_schema(BROKERS)
TOPICS_SCHEMA = arrow_schema(TOPICS)
PARTITIONS_SCHEMA = pa.schema(
    [pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("replicas", _IDS)]
    + [pa.field(c.name, c.arrow) for c in (*PARTITIONS[2:], *FLAG_COLUMNS) if c.arrow is not None]
)


def record_dtype(narrow: bool) -> np.dtype:
    """Numpy dtype of the hot record of a partition: 24 bytes narrow, 56 bytes wide.

    The same fields in the same order stand in `kernels/slots.pxd`; a test compares them.
    """
    mask = np.uint8 if narrow else np.uint64
    fields: list[tuple[str, type]] = [
        ("leader", np.int32),
        ("leader_epoch", np.int32),
        ("version", np.int32),
        ("controller_epoch", np.int32),
        ("isr", mask),
        ("adding", mask),
        ("removing", mask),
        ("offline_dir", mask),
        ("n_replicas", np.uint8),
        ("n_slots", np.uint8),
        ("partition_state", np.int8),
        ("flags", np.uint8),
    ]
    return np.dtype(fields, align=True)


def broker_dtype(narrow: bool) -> np.dtype:
    """Numpy dtype of a broker row in the replica matrix; its largest value, or -1, is the null."""
    return np.dtype(np.uint16 if narrow else np.int32)
