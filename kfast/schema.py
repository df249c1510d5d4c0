"""Every column and every code, said once.

Arrays, checks, Arrow and Spark schemas, the column reference that `kfast schema` prints and that of
the results (`docs/results.md`) are made from the tables below: first those of a cluster, then those
that kfast answers with. Kafka's own numbers are kept where Kafka has them (states, sentinels).

Source: Kafka 3.9, `ControllerContext`, `ReplicaState`, `PartitionState`; docs/controller.md,
section 1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kfast.errors import InvariantError

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

CONTROLLERS = (
    *(f"zk-{release}" for release in (
        "0.10", "0.11", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6", "2.7", "2.8",
        "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9",
    )),
    *(f"kraft-{release}" for release in (
        "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9", "4.0", "4.1", "4.2", "4.3",
    )),
)
"""Every controller that kfast knows: ZooKeeper mode, then KRaft, each with the oldest first."""
DEFAULT_CONTROLLER = "zk-3.9"
"""What runs a cluster of which nothing says it."""


class PartitionState(IntEnum):
    """States of a partition, with Kafka's bytes. Source: section 3.1."""

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
    """States of a replica, with Kafka's bytes. Source: section 2.1."""

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
    """How a leader is chosen. Source: section 4.1."""

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
    """A new partition got its first leader (section 3.5); it is Online, and in no result map."""
    ELECTED = 2
    """A leader was elected (section 3.6); the partition is Online."""
    ILLEGAL_STATE = 3
    """The matrix does not allow this transition."""
    LEADER_IS_NEW_REPLICA = 4
    """Section 2.4: the replica that should become New is the cached leader."""
    NEWER_CONTROLLER = 5
    """The record was written by a controller with a higher epoch."""
    NO_RECORD = 6
    """The store holds no record of the partition, or one that cannot be decoded."""
    DROPPED = 7
    """Section 2.6: no record, topic queued for deletion: silently left as it was. Before Kafka 2.3
    also what has no cached leadership (section 8.1)."""
    NO_ELIGIBLE_LEADER = 8
    """The strategy found nobody."""
    CONFIG_LOOKUP_FAILED = 9
    """Section 4.2: the topic's configuration could not be read, so nobody was elected."""
    NO_LIVE_REPLICA = 10
    """Section 3.5: no assigned replica of a new partition is online."""
    NODE_EXISTS = 11
    """Section 3.5: the store already holds a record of the new partition."""
    STORE_ERROR = 12
    """The store answered with another error."""
    APPENDED = 13
    """Section 2.4: Online from New, but not assigned: the broker was appended to the assignment."""
    ILLEGAL_ARGUMENT = 14
    """Section 3.3: the whole call failed because it named no strategy."""
    CONTROLLER_MOVED = 15
    """The whole call failed because another controller has taken over."""
    CREATE_CALL_FAILED = 16
    """The call that creates records failed as a whole; logged with NewPartition as target.

    Source: section 3.5.
    """
    NOT_ASKED = 17
    """The call failed as a whole before this one was looked at."""
    CONFIG_LOOKUP_LOGGED = 18
    """Section 4.2: the failed look-up was logged, and then the whole call failed."""
    UNDECODABLE = 19
    """Section 8.1: the whole call failed because a record cannot be decoded (Kafka 1.1 to 2.3)."""

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
    """What the controller answers to one partition of an AlterPartition request (section 6.10)."""

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
    """What the controller answers to the reassignment of one partition (section 6.7)."""

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
BROKER_REGISTERED = 1
BROKER_SHUTTING_DOWN = 2
BROKER_FENCED = 4
"""Bits of a broker's status. KRaft calls the second one `in_controlled_shutdown`."""
TOPIC_QUEUED = 1
TOPIC_STARTED = 2
TOPIC_INELIGIBLE = 4
TOPIC_EXISTS = 8
TOPIC_UNCLEAN = 16
"""Bits of a topic's flags: queued for deletion, deletion started, ineligible for it, known to the
controller, unclean election allowed."""
KIND_STOP = 1
KIND_LEADER_AND_ISR = 2
KIND_METADATA = 4
KIND_IS_NEW = 8
KIND_DELETE = 16
KIND_UNCLEAN = 32
KIND_ELECTION = 64
KIND_QUEUED = 128
"""Bits of an effect's kinds: what it added to the request batch, and what kind of change it was."""
TALLY_OFFLINE = 0
TALLY_IMBALANCE = 1
TALLY_UNCLEAN = 2
TALLY_METADATA = 3
TALLY_LEADERS_MOVED = 4
TALLY_ANNOUNCED = 5
TALLY_REASSIGNED = 6
TALLY_LED = 7
TALLY_CODES = 8
TALLY_CELLS = 40
TALLY_BROKERS = 104
"""Places of a tally's counts: changes of the gauges, partitions of UpdateMetadata, leaders moved,
announcements that name no partition, partitions reassigned and led; then a count per code, per cell
8 * from + to of a state machine, and per broker partitions of LeaderAndIsr and of StopReplica."""


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
    nullable : bool
        Whether the Arrow table that kfast gives may have nulls. In a table that kfast is given, a
        null says nothing in every column.
    """

    name: str
    dtype: str
    arrow: pa.DataType | None
    meaning: str
    null: object = None
    axes: tuple[str, ...] = ()
    nullable: bool = False


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
    Column(
        "controller", "arrow", pa.string(), "what runs the cluster: zk-3.9, kraft-4.1, ..."
    ),
)
_TEXTS = pa.list_(pa.string())
QUORUM_CLUSTER = (
    Column(
        "features", "arrow",
        pa.list_(pa.struct({"name": pa.string(), "level": pa.int16()})),
        "KRaft: finalized feature levels", nullable=True,
    ),
    Column(
        "configurations", "arrow",
        pa.list_(pa.struct({
            "resource_type": pa.int8(), "resource": pa.string(), "key": pa.string(),
            "value": pa.string(),
        })),
        "KRaft: dynamic configurations; resource_type is 2 for a topic, 4 for a broker, or for all "
        "where resource is empty",
        nullable=True,
    ),
    Column(
        "static_configuration", "arrow",
        pa.list_(pa.struct({"key": pa.string(), "value": pa.string()})),
        "KRaft: configuration file of the active controller", nullable=True,
    ),
)
"""What only KRaft has; null in tables of a ZooKeeper cluster."""


def _along(axes: tuple[str, ...], *columns: Column) -> tuple[Column, ...]:
    """Columns whose arrays are indexed by the same axes."""
    return tuple(replace(column, axes=axes) for column in columns)


BROKERS = _along(
    ("broker",),
    Column("broker_id", "int32", pa.int32(), "Kafka's broker id; the table is sorted by it"),
    Column("rack", "arrow", pa.string(), "broker.rack", nullable=True),
    Column(
        "registered", "bool", pa.bool_(), "its registration is in the store: live or shutting down"
    ),
    Column("shutting_down", "bool", pa.bool_(), "in controlled shutdown"),
    Column("epoch", "int64", pa.int64(), "registration epoch"),
)
QUORUM_BROKERS = _along(
    ("broker",),
    Column("fenced", "bool", pa.bool_(), "KRaft: registered, but fenced", nullable=True),
    Column(
        "in_controlled_shutdown", "bool", pa.bool_(), "KRaft: the same as shutting_down",
        nullable=True,
    ),
    Column(
        "incarnation_id", "arrow", pa.string(), "KRaft: 22 characters of URL-safe base64",
        nullable=True,
    ),
    Column("directories", "arrow", _TEXTS, "KRaft: ids of its log directories", nullable=True),
    Column(
        "cordoned", "arrow", _TEXTS, "KRaft: those that take no new replicas", nullable=True
    ),
    Column(
        "registration_offset", "int64", pa.int64(), "KRaft: offset of its last registration", -1,
        nullable=True,
    ),
    Column(
        "feature_ranges", "arrow",
        pa.list_(pa.struct({"name": pa.string(), "min": pa.int16(), "max": pa.int16()})),
        "KRaft: feature levels that it supports", nullable=True,
    ),
)

TOPICS = _along(
    ("topic",),
    Column("topic", "arrow", pa.string(), "name"),
    Column(
        "topic_id", "arrow", pa.string(), "22 characters of URL-safe base64", nullable=True
    ),
    Column("exists", "bool", pa.bool_(), "is among the controller's topics"),
    Column(
        "unclean_leader_election", "int8", pa.bool_(),
        "topic override of unclean.leader.election.enable", -1, nullable=True,
    ),
    Column(
        "min_insync_replicas", "int32", pa.int32(), "topic override of min.insync.replicas", -1,
        nullable=True,
    ),
    Column("queued_for_deletion", "bool", pa.bool_(), "deletion was asked for"),
    Column("deletion_started", "bool", pa.bool_(), "deletion has begun"),
    Column("ineligible", "bool", pa.bool_(), "deletion cannot go on for now"),
)

PARTITIONS = _along(
    ("partition",),
    Column("topic_row", "int32", None, "row of the topic; Arrow tables have its name in `topic`"),
    Column("partition", "int32", pa.int32(), "partition number within the topic"),
    Column(
        "leader", "int32", pa.int32(), "broker row of the leader; its id in Arrow tables", NO_LEADER
    ),
    Column(
        "leader_epoch", "int32", pa.int32(), "rises by 1 with every new leader or ISR shrink"
    ),
    Column(
        "version", "int32", pa.int32(), "version of the stored record; KRaft: the partition epoch"
    ),
    Column(
        "controller_epoch", "int32", pa.int32(), "epoch of the controller that wrote the record"
    ),
    Column("isr", "mask", _IDS, "slots in sync"),
    Column("adding", "mask", _IDS, "slots that a reassignment adds"),
    Column("removing", "mask", _IDS, "slots that a reassignment removes"),
    Column("offline_dir", "mask", _IDS, "slots whose log directory is offline"),
    Column("n_replicas", "uint8", None, "how many slots, from the first, are assigned replicas"),
    Column("n_slots", "uint8", None, "how many slots are in use"),
    Column(
        "partition_state", "int8", pa.int8(), "state, a `PartitionState`", PartitionState.NO_ENTRY
    ),
    Column(
        "flags", "uint8", None, "bits: assigned, has leadership, recovering, being reassigned"
    ),
)

REPLICAS = _along(
    ("partition", "slot"),
    Column(
        "replicas", "broker", _IDS,
        "broker rows: assigned replicas first, preferred replica in slot 0", -1, nullable=True,
    ),
    Column("replica_state", "uint8", None, "state, a `ReplicaState`", ReplicaState.NO_ENTRY),
)

FLAG_COLUMNS = _along(
    ("partition",),
    Column("has_leadership", "bool", pa.bool_(), "a leadership record is cached"),
    Column("recovery", "int8", pa.int8(), "leader recovery state: 0 recovered, 1 recovering"),
    Column("being_reassigned", "bool", pa.bool_(), "a reassignment is under way"),
    Column("replica_state_broker_ids", "int32", _IDS, "brokers that have a replica state"),
    Column(
        "replica_states", "int8", pa.list_(pa.int8()), "their states, a `ReplicaState` each"
    ),
)
"""Columns that only the Arrow table of partitions has: made from flags and the replica matrix."""

QUORUM_PARTITIONS = _along(
    ("partition",),
    Column("elr", "mask", _IDS, "KRaft: eligible leader replicas, in order", nullable=True),
    Column(
        "last_known_elr", "int32", _IDS, "KRaft: the last known leader, if there is one",
        nullable=True,
    ),
    Column(
        "directories", "int32", _TEXTS,
        "KRaft: directory of each assigned replica; null where all are MIGRATING", nullable=True,
    ),
)


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Arrow schema of a table as kfast is given it, without columns that Arrow tables lack.

    Every field is nullable: a null says nothing.
    """
    return pa.schema([pa.field(c.name, c.arrow) for c in columns if c.arrow is not None])


CLUSTER_SCHEMA = arrow_schema((*CLUSTER, *QUORUM_CLUSTER))
BROKERS_SCHEMA = arrow_schema((*BROKERS, *QUORUM_BROKERS))
TOPICS_SCHEMA = arrow_schema(TOPICS)
PARTITIONS_SCHEMA = pa.schema(
    [pa.field("topic", pa.string()), pa.field("partition", pa.int32()), pa.field("replicas", _IDS)]
    + [
        pa.field(c.name, c.arrow)
        for c in (*PARTITIONS[2:], *FLAG_COLUMNS, *QUORUM_PARTITIONS) if c.arrow is not None
    ]
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


# --- what kfast answers with -------------------------------------------------------------------


@dataclass(frozen=True)
class ResultColumn:
    """One column of a table that kfast gives.

    Parameters
    ----------
    name : str
    arrow : pa.DataType
        Its type, which Spark knows too.
    meaning : str
        One sentence; of a nullable column also what a null means.
    nullable : bool
        Whether there may be nulls.
    """

    name: str
    arrow: pa.DataType
    meaning: str
    nullable: bool = False

    @property
    def field(self) -> pa.Field:
        """The same for Arrow."""
        return pa.field(self.name, self.arrow, self.nullable)


@dataclass(frozen=True)
class ResultTable:
    """One table that kfast gives: what makes it, and its columns.

    Parameters
    ----------
    name : str
    source : str
        The call or attribute that gives it.
    rows : str
        What the rows are, and in which order.
    columns : tuple of ResultColumn
    """

    name: str
    source: str
    rows: str
    columns: tuple[ResultColumn, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema of the table."""
        return pa.schema([column.field for column in self.columns])

    def table(self, columns: Mapping[str, Any]) -> pa.Table:
        """Make the table of its columns, which may come in any order.

        Raises
        ------
        InvariantError
            They are not the columns of this table.
        """
        names = self.schema.names
        if set(columns) != set(names):
            raise InvariantError(f"{self.name} has the columns {names}, found {[*columns]}")
        return pa.table([columns[name] for name in names], schema=self.schema)


def columns_of(table: pa.Table | pa.RecordBatch) -> dict[str, Any]:
    """Columns of a table by name, to make another one of."""
    return dict(zip(table.schema.names, table.columns, strict=True))


CENSUS_METRICS: Mapping[str, str] = {
    "offline": "partitions without a live leader",
    "under_min_isr": "partitions with fewer live in-sync replicas than min.insync.replicas, "
    "offline ones included",
    "at_min_isr": "partitions with just as many live in-sync replicas as min.insync.replicas",
    "under_replicated": "partitions with fewer live in-sync replicas than assigned ones; those "
    "that a reassignment adds are not asked for",
    "no_live_replica": "partitions none of whose assigned replicas is live",
    "not_preferred": "partitions led by another than the preferred replica",
}
"""What a census counts, and what each count means."""

ELR_METRICS: Mapping[str, str] = {
    "with_elr": "partitions with eligible leader replicas",
    "isr_empty": "partitions whose ISR is empty: an eligible or the last known leader must return",
    "only_last_leader": "partitions whose ISR and ELR are empty, so that nobody is known to have "
    "every record",
}
"""What a census of a KRaft cluster counts besides."""

SWEEP_COUNTS = {
    "offline": "partitions without a leader afterwards",
    "offline_if_clean": "partitions none of whose in-sync replicas is live",
    "no_live_replica": "partitions none of whose assigned replicas is live",
    "under_min_isr": "partitions with fewer live in-sync replicas than min.insync.replicas, "
    "offline ones included",
    "at_min_isr": "partitions with just as many live in-sync replicas as min.insync.replicas",
    "leaders_moved": "partitions with a leader before and after, and they differ",
    "unclean": "leaders that were chosen outside the ISR",
    "fullest_broker_leaders": "partitions that the broker with the most leaders leads",
}
"""What a sweep counts per scenario; the first seven have the places of `kernels/sweep.h`."""

RISK_METRICS = {
    "offline_if_clean": "no member of the ISR is live: offline, unless the election is unclean",
    "no_live_replica": "no assigned replica is live",
    "under_min_isr": "fewer live ISR members than min ISR: producers with acks=all are refused",
}
"""What a failure may do to a partition."""

DIFF_PARTITION_CHANGES: Mapping[str, str] = {
    "replicas_changed": "other brokers are assigned",
    "replicas_reordered": "the same brokers are assigned, in another order",
    "reassignment_started": "it is being reassigned, and was not before",
    "reassignment_ended": "it was being reassigned before, and is not any more",
    "leader_changed": "it has another leader, none any more, or one again",
    "leader_epoch_changed": "its leader epoch differs",
    "isr_shrunk": "its ISR lost a member",
    "isr_expanded": "its ISR won a member",
    "elr_shrunk": "its ELR lost a member",
    "elr_expanded": "its ELR won a member",
}
"""What may differ between two moments of a partition."""

DIFF_METRICS: Mapping[str, str] = {
    "settings_changed": "settings of the cluster that differ",
    "brokers_gone": "brokers that are not known any more",
    "brokers_new": "brokers that were not known before",
    "brokers_down": "brokers that were up before, and are known and not up",
    "brokers_up": "brokers that were known and not up before, and are up",
    "racks_changed": "brokers in another rack",
    "topics_created": "topics that were not there before",
    "topics_deleted": "topics that are not there any more",
    "topics_recreated": "topics that have another topic id: deleted, and created again",
    "topics_changed": "topics with another number of partitions or replicas, or another setting",
    "partitions_created": "partitions that were not there before, those of new topics included",
    "partitions_deleted": "partitions that are not there any more",
    "partitions_changed": "partitions that were there before, and differ",
    **{
        name: f"partitions that were there before: {meaning}"
        for name, meaning in DIFF_PARTITION_CHANGES.items()
    },
    "leaders_moved": "partitions with a leader before and after, and they differ",
    "newly_offline": "partitions that are offline, and were not before",
    "back_online": "partitions that were offline before, and are not any more",
    "newly_under_min_isr": "partitions that are under min ISR, and were not before",
    "newly_fragile": "partitions that the failure of a single broker takes offline, or under min "
    "ISR, and that no such failure did that to before",
    "no_longer_fragile": "partitions that no single broker's failure takes offline or under min "
    "ISR, and that one did that to before",
    "worse": "measures of which less is better that are larger than before",
    "better": "measures of which less is better that are smaller than before",
}
"""What a diff counts."""

DIFF_MEASURES: Mapping[str, str] = {
    **CENSUS_METRICS,
    "any_broker_offline": "partitions that are offline, or would be if some single broker failed",
    "any_broker_under_min_isr": "partitions that are under min ISR, or would be if some single "
    "broker failed",
    "worst_broker_offline": "partitions that are offline after the failure of a "
    "single broker, at most",
    "worst_broker_under_min_isr": "partitions that are under min ISR after the failure of a "
    "single broker, at most",
    "worst_rack_offline": "partitions that are offline after the failure of a "
    "rack, at most",
    "worst_rack_under_min_isr": "partitions that are under min ISR after the failure of a "
    "rack, at most",
}
"""What a diff measures of both clusters."""

DIFF_UNJUDGED = ("at_min_isr", "not_preferred")
"""Measures of which less is not always better; the others say whether a cluster is better or worse
than before."""

CAUSES = {
    "replication_factor": "the partition has one replica",
    "min_insync_replicas": "min.insync.replicas is as large as the replication factor",
    "isr_margin": "the replication factor leaves less above min ISR than the margin asked for",
    "isr": "the ISR is not complete, or not live, at the moment; its members could be restarted "
    "once it is",
}
"""Why a partition allows no in-sync replica to restart; the first three last for ever."""

SURPRISE_KINDS = {
    "last_known_leader": "ISR and ELR were empty, so the last known leader is elected although "
    "unclean leader election is not allowed: what others had and it lacks is lost",
    "only_replica_unclean": "its only replica stopped uncleanly: it leads again, and the election "
    "counts as unclean, although no other replica had a record to lose",
    "elr_cleared": "no replica may lead any more, as after a change of min.insync.replicas, which "
    "clears the ELR: offline, whoever starts, until an unclean election "
    "(kafka-leader-election.sh --election-type unclean)",
    "waits_for_eligible": "a replica is live, but only members of ISR or ELR may lead: offline "
    "until a broker that the partition waits for starts, or until an unclean election, which may "
    "lose records",
    "waits_for_last_leader": "every replica that may lead is down without a known controlled "
    "shutdown: offline until all brokers that the partition waits for have started; then the last "
    "known leader is elected, uncleanly",
    "waits_for_only_replica": "the only replica is down without a known controlled shutdown: it "
    "leads again once its broker starts, and the election counts as unclean",
}
"""What partitions of a KRaft cluster do that operators do not expect."""

_BOOL, _INT8, _INT32, _INT64 = pa.bool_(), pa.int8(), pa.int32(), pa.int64()
_FLOAT, _TEXT, _TIME = pa.float64(), pa.string(), pa.timestamp("ms")


def _counts(*columns: tuple[str, str]) -> tuple[ResultColumn, ...]:
    """Columns that count something."""
    return tuple(ResultColumn(name, _INT64, meaning) for name, meaning in columns)


def _or_null(column: ResultColumn, when: str) -> ResultColumn:
    """A column that may be null, and when it is."""
    return replace(column, nullable=True, meaning=f"{column.meaning}; null {when}")


def _in_tables(columns: Collection[Column]) -> tuple[ResultColumn, ...]:
    """Columns of a cluster's Arrow table."""
    plain = [
        ResultColumn(column.name, column.arrow, column.meaning)
        for column in columns
        if column.arrow is not None
    ]
    nullable = {column.name for column in columns if column.nullable}
    return tuple(
        _or_null(column, "where there is none") if column.name in nullable else column
        for column in plain
    )


def _before(column: ResultColumn) -> ResultColumn:
    """The same at an earlier moment."""
    return replace(column, name=f"{column.name}_before", meaning=f"before: {column.meaning}")


_STEP = ResultColumn("step", _INT32, "number of the step, from 0, which `steps` names")
_EVENT = ResultColumn("event", _INT32, "number of the event, from 0")
_ACTION = ResultColumn("action", _TEXT, "what was done")
_TOPIC = ResultColumn("topic", _TEXT, "name of the topic")
_PARTITION = ResultColumn("partition", _INT32, "partition number within the topic")
_ROW = ResultColumn(
    "partition_row", _INT32, "row of the partition in the state: `state.partition[partition_row]`"
)
_KEY = (_TOPIC, _PARTITION, _ROW)
_REPLICAS = ResultColumn("replicas", _IDS, "ids of the assigned replicas, preferred replica first")
_ISR = ResultColumn("isr", _IDS, "ids of the in-sync replicas, in the order of the assigned ones")
_LEADER = ResultColumn("leader", _INT32, "id of the leader, -1 for none")
_LEADER_EPOCH = ResultColumn("leader_epoch", _INT32, "leader epoch")
_IN_IDS = {
    "leader": _LEADER.meaning,
    "isr": f"{_ISR.meaning}; KRaft: in their own order",
    "adding": "ids that a reassignment adds",
    "removing": "ids that a reassignment removes",
    "offline_dir": "ids of the brokers whose log directory of it is offline",
}
"""What columns of rows and slots mean where they are ids."""

_VERSION = ResultColumn("version", _INT32, "version of the stored record")
_CONTROLLER_EPOCH = ResultColumn(
    "controller_epoch", _INT32, "epoch of the controller that wrote the record"
)
_RECOVERY = ResultColumn("recovery", _INT8, "leader recovery state: 0 recovered, 1 recovering")
_BROKER_ID = ResultColumn("broker_id", _INT32, "id of the broker")
_RACK = _or_null(ResultColumn("rack", _TEXT, "broker.rack"), "where there is none")
_REGISTERED = ResultColumn("registered", _BOOL, "the broker is live or shutting down")
_PARTITIONS = ResultColumn("partitions", _INT64, "partitions of the topic")
_KIND = ResultColumn("kind", _TEXT, "LeaderAndIsr, UpdateMetadata or StopReplica")
_CODE = ResultColumn("code", _TEXT, "name of the outcome, a `Code`")

BROKERS_TABLE = ResultTable(
    "brokers", "state.to_tables().brokers", "every broker, by id",
    _in_tables((*BROKERS, *QUORUM_BROKERS)),
)
TOPICS_TABLE = ResultTable(
    "topics", "state.to_tables().topics", "every topic, by row", _in_tables(TOPICS)
)
PARTITIONS_TABLE = ResultTable(
    "partitions", "state.to_tables().partitions",
    "every partition, by row; rows that are free since a deletion are left out",
    (
        _TOPIC, _PARTITION, _or_null(_REPLICAS, "where there are none"),
        *(
            replace(column, meaning=_IN_IDS.get(column.name, column.meaning))
            for column in _in_tables((*PARTITIONS[2:], *FLAG_COLUMNS, *QUORUM_PARTITIONS))
        ),
    ),
)
CLUSTER_TABLE = ResultTable(
    "cluster", "state.to_tables().cluster", "one, for the whole cluster",
    _in_tables((*CLUSTER, *QUORUM_CLUSTER)),
)
PROVENANCE = ResultTable(
    "provenance", "state.provenance of kfast.read",
    "groups of columns and the sources of each, the one that counts first",
    (
        ResultColumn("columns", _TEXT, "group of columns, or all"),
        ResultColumn("source", _TEXT, "name of the file"),
        ResultColumn("kind", _TEXT, "the tool that printed it, or its format"),
        _or_null(ResultColumn("version", _TEXT, "version of that tool, or of Kafka"),
                 "where it is not said"),
        _or_null(ResultColumn("captured", _TIME, "when it was taken (UTC)"),
                 "where it is not said"),
        ResultColumn("values", _INT64, "values that were taken from it"),
        ResultColumn("contradictions", _INT64, "values in which it differs from what counts"),
    ),
)
PLAN = ResultTable(
    "plan", "kfast.read_plan(path)", "every partition of the plan, in its order",
    (
        _TOPIC, _PARTITION,
        ResultColumn(
            "replicas", _IDS, "ids of the replicas that are to be assigned; null cancels a "
            "reassignment", nullable=True,
        ),
    ),
)

LOAD = ResultTable(
    "load", "table.rows of kfast.read_load(path)",
    "what a file says of partitions, topics or brokers, in its order; a column that it says nothing"
    " of is left out",
    (
        _or_null(_TOPIC, "where a row speaks of a broker"),
        _or_null(_PARTITION, "where a row speaks of the whole topic"),
        ResultColumn(
            "broker_id", _INT32, "id of the broker that reported it; null where it is not known",
            nullable=True,
        ),
        *(
            _or_null(ResultColumn(name, kind, meaning), "where the source does not say")
            for name, kind, meaning in (
                ("log_dir", _TEXT, "directory of the replica"),
                ("bytes_in", _INT64, "bytes a second that producers write, compressed"),
                ("bytes_out", _INT64, "bytes a second that consumers fetch, without replication"),
                ("milli_msgs_in", _INT64, "thousandths of a message a second that are written"),
                ("cpu_microcores", _INT64, "millionths of a core that the broker uses"),
                ("disk_bytes", _INT64, (
                    "bytes of the log of one replica; of a whole topic the sum over its"
                    " partitions; of a broker the sum over its replicas"
                )),
                ("replicated_bytes", _INT64, "bytes of a topic on disk, all replicas together"),
            )
        ),
    ),
)
CAPACITY = ResultTable(
    "capacity", "table.rows of kfast.read_capacity(path)", "brokers, in the order of the file",
    (
        ResultColumn("broker_id", _INT32, "id of the broker, -1 for brokers that have no own row"),
        *(
            _or_null(ResultColumn(name, kind, meaning), "where the source does not say")
            for name, kind, meaning in (
                ("disk_bytes", _INT64, "bytes of all directories"),
                ("log_dirs", pa.map_(_TEXT, _INT64), "bytes of each directory"),
                ("nw_in", _INT64, "bytes a second that it can receive"),
                ("nw_out", _INT64, "bytes a second that it can send"),
                ("cpu_microcores", _INT64, "millionths of a core"),
                ("disk_write", _INT64, "bytes a second that its disks can write"),
                ("disk_read", _INT64, "bytes a second that its disks can read"),
                ("replicas_max", _INT64, "replicas that it may hold"),
                ("class", _TEXT, "name of its class in price lists"),
            )
        ),
    ),
)
LOAD_PROVENANCE = ResultTable(
    "load.provenance", "load.provenance of kfast.partition_load(state, tables)",
    "topics that have a load, for bytes in, bytes out, messages and disk in turn, by topic row",
    (
        _TOPIC, ResultColumn("quantity", _TEXT, "column of the load"),
        ResultColumn("share_model", _TEXT, (
            "how it came to the partitions: measured, offsets, leaders, sizes, equal; of disk also"
            " retention"
        )),
        _or_null(
            ResultColumn("source", _TEXT, "name of the file"), "where it is concluded from others"
        ),
    ),
)

# --- outcomes ---

TRANSITIONS = ResultTable(
    "outcome.transitions", "outcome.transitions (journal full)",
    "state changes that happened, step by step, by row and broker id",
    (
        _STEP, *_KEY, _or_null(_BROKER_ID, "where the partition itself changed its state"),
        ResultColumn("from_state", _TEXT, "Kafka's name of the state before"),
        ResultColumn("to_state", _TEXT, "Kafka's name of the state afterwards"),
    ),
)
ELECTIONS = ResultTable(
    "outcome.elections", "outcome.elections (journal full)",
    "elections and initialisations that were tried, step by step, by row",
    (
        _STEP, *_KEY, ResultColumn("strategy", _TEXT, "a `Strategy`, or INITIALIZATION"),
        _before(_LEADER), _LEADER, _before(_ISR), _ISR,
        _LEADER_EPOCH, _VERSION, _RECOVERY,
        ResultColumn("unclean", _BOOL, "the leader was chosen outside the ISR"), _CODE,
    ),
)
REFUSALS = ResultTable(
    "outcome.refusals", "outcome.refusals (journal full)",
    "what Kafka's error log says, step by step",
    (
        _STEP, *_KEY, _or_null(_BROKER_ID, "where the partition itself was refused"),
        ResultColumn("from_state", _TEXT, "Kafka's name of the state, which stays"),
        ResultColumn("to_state", _TEXT, "Kafka's name of the state that was refused"), _CODE,
        ResultColumn("error", _TEXT, "class of Kafka's error"),
    ),
)
_SENT_RECORD = (
    _or_null(_LEADER, "in StopReplica"), _LEADER_EPOCH, _or_null(_ISR, "in StopReplica"),
    _or_null(_RECOVERY, "in StopReplica"), _or_null(_VERSION, "in StopReplica"),
    _or_null(_CONTROLLER_EPOCH, "in StopReplica"), _or_null(_REPLICAS, "in StopReplica"),
    ResultColumn("adding", _IDS, "ids that a reassignment adds; null in StopReplica", True),
    ResultColumn("removing", _IDS, "ids that a reassignment removes; null in StopReplica", True),
    ResultColumn("is_new", _BOOL, "the replica is new; null in StopReplica", True),
    ResultColumn("delete", _BOOL, "the replica is deleted; null except in StopReplica", True),
)
ADDITIONS = ResultTable(
    "outcome.additions", "outcome.additions (journal full)",
    "what was added to the request batch, in order",
    (
        _STEP, _KIND, *_KEY,
        ResultColumn(
            "to", _IDS, "ids of the brokers that are to get it; null in UpdateMetadata, which goes "
            "to all registered brokers", True,
        ),
        *(
            replace(
                column, nullable=True,
                meaning=column.meaning.partition("; null")[0] + (
                    "; null except in StopReplica" if column.name == "delete"
                    else "; null in UpdateMetadata" if column.name == "leader_epoch"
                    else "; null except in LeaderAndIsr"
                ),
            )
            for column in _SENT_RECORD
        ),
    ),
)
REQUESTS = ResultTable(
    "outcome.requests", "outcome.requests (journal full)",
    "partitions in the LeaderAndIsr and StopReplica requests that were sent, by broker and row",
    (
        _STEP, _KIND, _BROKER_ID,
        ResultColumn("broker_epoch", _INT64, "registration epoch of the broker"), *_KEY,
        *_SENT_RECORD,
    ),
)
UPDATE_METADATA = ResultTable(
    "outcome.update_metadata", "outcome.update_metadata (journal full)",
    "partitions in the UpdateMetadata requests, once for all brokers of a step",
    (
        _STEP, *_KEY, _CONTROLLER_EPOCH,
        replace(_LEADER, meaning="id of the leader, -1 for none, -2 while it is being deleted"),
        _LEADER_EPOCH, _ISR, _VERSION, _REPLICAS,
        ResultColumn("offline_replicas", _IDS, "ids of the replicas that are not live"),
    ),
)
UPDATE_METADATA_BROKERS = ResultTable(
    "outcome.update_metadata_brokers", "outcome.update_metadata_brokers (journal full)",
    "brokers that are sent the UpdateMetadata of a step", (_STEP, _BROKER_ID),
)
STEPS = ResultTable("outcome.steps", "outcome.steps", "steps, in order", (_STEP, _ACTION))
ELECTION_REPLIES = ResultTable(
    "outcome.response", "outcome.response of QuorumController.elect_leaders",
    "partitions that the request asked about",
    (
        _TOPIC, _PARTITION, _or_null(_ROW, "where the partition is unknown"),
        ResultColumn("error", _TEXT, "Kafka's error code, NONE for an election"),
    ),
)
METADATA_RECORDS = ResultTable(
    "outcome.records", "outcome.records of QuorumController (journal full)",
    "metadata records, in the order in which the controller wrote them; a field is null where a "
    "record does not set it",
    (
        ResultColumn("offset", _INT64, "place in the metadata log"),
        ResultColumn("type", _TEXT, "class of the record: PartitionChangeRecord ..."),
        *(
            _or_null(column, "where the record does not set it") for column in (
                _TOPIC, _PARTITION, _ROW, _BROKER_ID,
                ResultColumn("leader", _INT32, "id of the leader, -1 for none"),
                ResultColumn("isr", _IDS, "ids of the in-sync replicas, in order"),
                _REPLICAS,
                ResultColumn("removing_replicas", _IDS, "ids that a reassignment removes"),
                ResultColumn("adding_replicas", _IDS, "ids that a reassignment adds"),
                ResultColumn("eligible_leader_replicas", _IDS, "ids of the ELR, in order"),
                ResultColumn("last_known_elr", _IDS, "id of the last known leader"),
                ResultColumn(
                    "leader_recovery_state", _INT8, "0 recovered, 1 recovering"
                ),
                ResultColumn("directories", _TEXTS, "directory of each assigned replica"),
                ResultColumn("leader_epoch", _INT32, "leader epoch after the record"),
                ResultColumn("partition_epoch", _INT32, "partition epoch after the record"),
                ResultColumn("detail", _TEXT, "all other fields, as JSON"),
            )
        ),
    ),
)
REQUEST_COUNTS = ResultTable(
    "outcome.request_counts", "outcome.request_counts",
    "steps, kinds of requests and brokers that get some",
    (
        _STEP, _KIND, _BROKER_ID,
        *_counts(("requests", "requests sent"), ("partitions", "partitions in them")),
    ),
)
REPLIES = ResultTable(
    "outcome.replies", "outcome.replies of Controller.elect_leaders",
    "partitions that the request asked about, unknown ones last",
    (
        _TOPIC, _PARTITION, _or_null(_ROW, "where the partition is unknown"),
        _or_null(_LEADER, "where there is an error"),
        ResultColumn("error", _TEXT, "Kafka's error; null where a leader was elected", True),
    ),
)
_PREFERRED = _counts(
    ("preferred", "partitions whose preferred replica is on the broker"),
    ("led_by_others", "of these, those that other brokers lead"),
)
IMBALANCE = ResultTable(
    "outcome.imbalance", "outcome.imbalance of Controller.rebalance_leaders",
    "brokers that are preferred somewhere, by id",
    (
        _BROKER_ID, *_PREFERRED,
        ResultColumn("ratio", _FLOAT, "led_by_others over preferred"),
    ),
)
PREFERRED_LEADERS = ResultTable(
    "sharded.imbalance", "kfast.spark.fail(...).imbalance",
    "brokers that are preferred somewhere, by id", (_BROKER_ID, *_PREFERRED),
)
REASSIGNMENTS = ResultTable(
    "reassignments", "Controller.list_partition_reassignments()",
    "partitions that are being reassigned",
    (
        *_KEY, _REPLICAS, ResultColumn("adding", _IDS, "ids that are being added"),
        ResultColumn("removing", _IDS, "ids that are being removed"),
    ),
)

# --- census, impact, plans, deletions ---

_CENSUS_COUNTS = _counts(*CENSUS_METRICS.items())
_CENSUS_FLAGS = tuple(
    ResultColumn(name, _BOOL, f"it is one of the {meaning}")
    for name, meaning in CENSUS_METRICS.items()
)
_LOAD = _counts(
    ("leaders", "partitions that the broker leads"), ("replicas", "replicas assigned to it"),
    ("in_sync", "of these, those that are in sync and live"),
)
_MIN_ISR = ResultColumn(
    "min_isr", _INT32, "min.insync.replicas, or the number of replicas where that is less"
)
CENSUS_TOPICS = ResultTable(
    "census.topics", "kfast.take_census(state).topics",
    "topics of which some metric holds, the worst first", (_TOPIC, _PARTITIONS, *_CENSUS_COUNTS),
)
CENSUS_BROKERS = ResultTable(
    "census.brokers", "kfast.take_census(state).brokers", "every broker, by id",
    (_BROKER_ID, _RACK, _REGISTERED, *_LOAD),
)
CENSUS_PARTITIONS = ResultTable(
    "census.partitions", "kfast.take_census(state).partitions", "every partition, by row",
    (*_KEY, _REPLICAS, _LEADER, _ISR, _MIN_ISR, *_CENSUS_FLAGS),
)
_ELR = ResultColumn("elr", _IDS, "ids of the eligible leader replicas, in AR order")
_LAST_KNOWN_ELR = ResultColumn("last_known_elr", _IDS, "id of the last known leader, or none")
CENSUS_PARTITIONS_KRAFT = replace(
    CENSUS_PARTITIONS, name="census.partitions of KRaft",
    columns=(*CENSUS_PARTITIONS.columns, _ELR, _LAST_KNOWN_ELR),
)
IMPACT_REQUESTS = ResultTable(
    "impact.requests", "kfast.fail_brokers(state, broker_ids).impact.requests; the same of "
    "execute_plan and delete_topics", "kinds of requests",
    (
        _KIND,
        *_counts(
            ("requests", "requests sent"), ("partitions", "partitions in them, over all brokers")
        ),
    ),
)
IMPACT_BROKERS = ResultTable(
    "impact.brokers", "kfast.fail_brokers(state, broker_ids).impact.brokers", "every broker, by id",
    (
        _BROKER_ID, _RACK, _before(_REGISTERED), _REGISTERED,
        *_counts(
            ("leaders_before", "partitions that the broker led before"),
            ("leaders", "partitions that it leads afterwards"),
            ("replicas", "replicas assigned to it afterwards"),
            ("in_sync_before", "replicas on it that were in sync and live before"),
            ("in_sync", "those that are afterwards"), ("requests", "requests sent to it"),
        ),
    ),
)
IMPACT_TOPICS = ResultTable(
    "impact.topics", "kfast.fail_brokers(state, broker_ids).impact.topics",
    "topics that are in trouble or changed, the worst first",
    (
        _TOPIC, _PARTITIONS, *_CENSUS_COUNTS,
        *_counts(
            ("newly_offline", "partitions that are offline, and were not before"),
            ("newly_under_min_isr", "partitions that are under min ISR, and were not before"),
            ("leaders_moved", "partitions with a leader before and after, and they differ"),
        ),
    ),
)
_LEADER_MOVED = ResultColumn(
    "leader_moved", _BOOL, "it has a leader before and after, and they differ"
)
IMPACT_PARTITIONS = ResultTable(
    "impact.partitions", "kfast.fail_brokers(state, broker_ids).impact.partitions",
    "every partition, by row",
    (
        *_KEY, _REPLICAS, _before(_LEADER), _LEADER, _before(_ISR), _ISR, _MIN_ISR,
        ResultColumn("offline_before", _BOOL, "it was offline before"),
        ResultColumn("under_min_isr_before", _BOOL, "it was under min ISR before"),
        _LEADER_MOVED, *_CENSUS_FLAGS,
    ),
)
IMPACT_PARTITIONS_KRAFT = replace(
    IMPACT_PARTITIONS, name="impact.partitions of KRaft",
    columns=(
        *IMPACT_PARTITIONS.columns, _before(_ELR), _ELR, _before(_LAST_KNOWN_ELR), _LAST_KNOWN_ELR,
    ),
)
SURPRISES = ResultTable(
    "surprises", "kfast.fail_brokers(state, broker_ids, then=steps).surprises",
    "partitions of a KRaft cluster that do what operators do not expect, as it happens",
    (
        *_KEY, ResultColumn("surprise", _TEXT, "what happened: one of `SURPRISE_KINDS`"),
        ResultColumn("leader", _INT32, "id of the leader afterwards, -1 for none"),
        ResultColumn("replicas", _IDS, "ids of the assigned replicas"),
        ResultColumn(
            "waits_for", _IDS, "ids of the brokers whose start brings it back: of `"
            "waits_for_eligible` any one of them, else all; empty where none does",
        ),
    ),
)
_UNKNOWN = "where the partition is unknown"
REASSIGNMENT_PARTITIONS = ResultTable(
    "reassignment.partitions", "kfast.execute_plan(state, plan).partitions",
    "partitions of the plan, in its order, then those that were being reassigned before",
    (
        _TOPIC, _PARTITION, _or_null(_ROW, _UNKNOWN),
        ResultColumn("planned", _BOOL, "it is in the plan"),
        ResultColumn(
            "target", _IDS, "ids that the plan asks for; null where it cancels, or says nothing",
            True,
        ),
        ResultColumn("status", _TEXT, "completed, pending or refused"),
        ResultColumn("error", _TEXT, "Kafka's error; null where it is not refused", True),
        *(
            _or_null(column, _UNKNOWN)
            for column in (
                _before(_REPLICAS), _REPLICAS, _before(_LEADER), _LEADER, _before(_ISR), _ISR,
                _before(_LEADER_EPOCH), _LEADER_EPOCH,
                ResultColumn("adding", _IDS, "ids that are still being added"),
                ResultColumn("removing", _IDS, "ids that are still being removed"),
                ResultColumn("waiting_for", _IDS, "ids that have to get in sync first"),
            )
        ),
        _or_null(
            ResultColumn("reason", _TEXT, "why it is pending or refused"), "where it is neither"
        ),
        _LEADER_MOVED, _CENSUS_FLAGS[-1],
    ),
)
REASSIGNMENT_BROKERS = ResultTable(
    "reassignment.brokers", "kfast.execute_plan(state, plan).brokers", "every broker, by id",
    (
        *IMPACT_BROKERS.columns,
        *_counts(
            ("replicas_before", "replicas assigned to the broker before"),
            ("added", "replicas that it has, and had not before"),
            ("removed", "replicas that it had, and has not any more"),
            ("preferred", "partitions whose preferred replica it holds"),
        ),
    ),
)
REASSIGNMENT_TOPICS = ResultTable(
    "reassignment.topics", "kfast.execute_plan(state, plan).topics",
    "topics of these partitions: most refused first, then pending, then moved",
    (
        _TOPIC,
        *_counts(
            ("partitions", "partitions of the topic that the plan, or an earlier one, speaks of"),
            ("refused", "those that are refused"), ("pending", "those that are still under way"),
            ("completed", "those that are complete"),
            ("leaders_moved", "those with a leader before and after, and they differ"),
            ("not_preferred", "those led by another than the preferred replica"),
        ),
    ),
)
DELETION_TOPICS = ResultTable(
    "deletion.topics", "kfast.delete_topics(state, topics).topics",
    "topics that were to be deleted, those marked before among them; those that wait come first",
    (
        _TOPIC, *_counts(("partitions", "its partitions"), ("replicas", "their replicas")),
        ResultColumn("status", _TEXT, "deleted, waiting or kept"),
        ResultColumn("waiting_for", _IDS, "ids of the brokers that it waits for"),
        ResultColumn("reason", _TEXT, "why it is not deleted; null where it is deleted", True),
    ),
)
DELETION_BROKERS = ResultTable(
    "deletion.brokers", "kfast.delete_topics(state, topics).brokers", "every broker, by id",
    (
        *IMPACT_BROKERS.columns,
        *_counts(
            ("replicas_before", "replicas assigned to the broker before"),
            ("told_to_delete", "replicas that it is told to delete"),
            ("waiting", "replicas that wait for it"),
        ),
    ),
)

# --- scenarios and sweeps ---

SCENARIOS = ResultTable(
    "scenarios", "scenarios.to_table(); kfast.spark.scenario_rows",
    "scenarios and brokers that fail in them; an empty scenario has none",
    (
        ResultColumn("scenario", _INT64, "number of the scenario; 0 is the empty one"),
        ResultColumn("broker", _INT32, "id of a broker that fails"),
    ),
)
SWEEP = ResultTable(
    "sweep", "kfast.sweep(state, scenarios); kfast.spark.sweep",
    "scenarios, in order; `counts` chooses among the columns",
    (
        ResultColumn("scenario", _INT64, "number of the scenario; 0 is the empty baseline"),
        ResultColumn("brokers_down", _INT32, "brokers that fail in it"),
        *_counts(*[*SWEEP_COUNTS.items()][:-1]),
        ResultColumn(
            "fullest_broker", _INT32, "id of the broker that leads most, the lowest of equals; -1 "
            "where nobody leads",
        ),
        *_counts(("fullest_broker_leaders", SWEEP_COUNTS["fullest_broker_leaders"])),
    ),
)
_NO_CAPACITY = "where no live broker has such a capacity"
CAPACITY_SWEEP = ResultTable(
    "capacity_sweep", "kfast.capacity_sweep(plan, scenarios)", "scenarios, in order",
    (
        ResultColumn("scenario", _INT64, "number of the scenario; 0 is the empty baseline"),
        ResultColumn("brokers_down", _INT32, "brokers that fail in it"),
        *(
            _or_null(column, _NO_CAPACITY)
            for name, meaning in (
                ("nw_in", "bytes in per second"), ("nw_out", "bytes out per second"),
                ("cpu", "micro-cores"), ("disk", "bytes on disk"),
            )
            for column in (
                ResultColumn(
                    f"{name}_max", pa.float64(),
                    f"highest share of its capacity that a live broker uses: {meaning}",
                ),
                ResultColumn(f"{name}_broker", _INT32, "its id, the lowest of equals"),
            )
        ),
        ResultColumn("over_limit", _INT64, "live brokers over any limit"),
        *_counts(*(
            (f"over_limit_{name}", f"live brokers over the limit of {name}")
            for name in ("nw_in", "nw_out", "cpu", "disk")
        ), ("over_limit_replicas", "live brokers with more replicas than they may hold")),
        ResultColumn(
            "binding", pa.string(), "the resource whose highest share is nearest to its limit",
            nullable=True,
        ),
        ResultColumn(
            "headroom", pa.float64(),
            "1 less the highest of share / limit over resources; negative where over",
            nullable=True,
        ),
        *_counts(
            ("bytes_in_leaderless", "bytes in per second of partitions that lost their leader"),
            ("bytes_out_leaderless", "bytes out per second of the same"),
            ("bytes_in_refused", "bytes in per second of partitions under min ISR or offline"),
            ("bytes_in_single", "bytes in per second of partitions with a single live ISR member"),
            ("disk_single", "bytes of one replica of each of the same"),
            ("bytes_unclean", "bytes of one replica of each partition with an unclean leader"),
        ),
    ),
)
_FAILED_TOO = "where the broker has failed or is down"
_NOT_MEASURED = ", or no use of its processor is measured"


def _use_of_failure(resource: str, used: str, meaning: str) -> Iterator[ResultColumn]:
    """What a broker uses of a resource before and after a failure."""
    for when, none in (("before", "where the broker is down"), ("after", _FAILED_TOO)):
        none += _NOT_MEASURED if resource == "cpu" else ""
        yield _or_null(ResultColumn(f"{used}_{when}", _INT64, f"{meaning} {when} it"), none)
        share = ResultColumn(f"{resource}_{when}", _FLOAT, "share of its capacity that this is")
        yield _or_null(share, f"{none}, or it has no such capacity")


CAPACITY_FAILURE_BROKERS = ResultTable(
    "capacity_of.brokers", "kfast.capacity_of(plan, brokers).brokers", "every broker, by id",
    (
        _BROKER_ID, _RACK, ResultColumn("failed", _BOOL, "whether it is one of those that fail"),
        *_use_of_failure("nw_in", "bytes_in", "bytes in per second"),
        *_use_of_failure("nw_out", "bytes_out", "bytes out per second"),
        *_use_of_failure("cpu", "cpu_microcores", "micro-cores"),
        ResultColumn("disk_bytes", _INT64, "bytes on disk, which no failure changes"),
        _or_null(
            ResultColumn("disk", _FLOAT, "share of its capacity that these are"),
            "where the broker is down, or it has no such capacity",
        ),
        _or_null(
            ResultColumn("over_limit", _TEXTS, "resources of which it is over the limit then"),
            _FAILED_TOO,
        ),
    ),
)
CAPACITY_FAILURE_TOPICS = ResultTable(
    "capacity_of.topics", "kfast.capacity_of(plan, brokers).topics",
    "topics and pairs of leaders, the most bytes in first",
    (
        _TOPIC,
        _or_null(ResultColumn("from_broker", _INT32, "who leads before"), "where nobody does"),
        _or_null(ResultColumn("to_broker", _INT32, "who leads after it"), "where nobody does"),
        *_counts(
            ("partitions", "partitions whose leader changes so"),
            ("bytes_in", "bytes per second that producers write to them"),
            ("bytes_out", "bytes per second that consumers fetch from them"),
        ),
    ),
)
CAPACITY_FAILURE_PARTS = ResultTable(
    "capacity_of.explain", "kfast.capacity_of(plan, brokers).explain(broker)",
    "parts of what a broker uses after a failure less what it uses before, the most bytes out "
    "first",
    (
        _or_null(
            ResultColumn("failed_broker", _INT32, "whose failure is the reason"),
            "where the former leader or follower has not failed, or nobody led",
        ),
        _TOPIC, _PARTITION,
        ResultColumn(
            "reason", _TEXT,
            "`leads`: the broker leads instead; `fewer_followers`: it sends to one follower less; "
            "`leaderless`: no leader is left; `leads_no_more`: another one leads, though this one "
            "has not failed; `follows`: there is a leader where there was none; `follows_no_more`: "
            "the failure completes a reassignment that takes the replica away; `serves`: consumers "
            "in a rack fetch from this broker instead; `serves_no_more`: they fetch from another "
            "one, though this one has not failed",
        ),
        *_counts(
            ("bytes_in", "bytes in per second that this adds"),
            ("bytes_out", "bytes out per second that this adds"),
        ),
        _or_null(
            ResultColumn(
                "cpu_microcores", _INT64, "micro-cores that this adds, by the largest remainder"
            ),
            "where no use of its processor is measured",
        ),
    ),
)
CAPACITY_FORECAST = ResultTable(
    "capacity_forecast", "kfast.capacity_forecast(state, load, capacity, scenarios, ...).months",
    "months from 0, and resources: nw_in, nw_out, cpu, disk",
    (
        ResultColumn("month", _INT32, "months of growth; 0 is the load as it is"),
        ResultColumn("resource", pa.string(), "nw_in, nw_out, cpu or disk"),
        *(
            _or_null(ResultColumn(name, kind, meaning), _NO_CAPACITY)
            for name, kind, meaning in (
                ("normal", pa.float64(), "highest share of its capacity that a broker uses"),
                ("normal_broker", _INT32, "its id, the lowest of equals"),
                ("failed", pa.float64(), "the highest share after any of the failures"),
                ("failed_broker", _INT32, "the broker that uses it"),
                ("scenario", _INT64, "number of that failure, the lowest of equals"),
            )
        ),
        ResultColumn(
            "over_limit", pa.bool_(), "whether a broker is over its limit, without a failure or "
            "after any",
        ),
    ),
)
_BATCH = ResultColumn("batch", _INT32, "number of the batch, from 1")
_NOT_OF_A_BROKER = "where it is not about a broker"
PLAN_RULES = ResultTable(
    "plan_check.broken_rules", "kfast.check_plan(state, plan, load, capacity).broken_rules",
    "hard rules that the plan breaks: entries in their order, then limits of brokers, by id",
    (
        ResultColumn("rule", _TEXT, "which rule: one of `kfast.capacity.HARD_RULES`"),
        _or_null(_BATCH, "where it is about the end of the plan"),
        _or_null(_TOPIC, "where it is about a broker alone"),
        _or_null(_PARTITION, "where it is about a broker alone"),
        _or_null(_BROKER_ID, _NOT_OF_A_BROKER),
        ResultColumn("resource", _TEXT, "nw_in, nw_out, cpu or disk; null of other rules", True),
        ResultColumn("amount", _TEXT, "what the plan makes of it"),
        ResultColumn("allowed", _TEXT, "what would keep the rule"),
        ResultColumn("broken_before", _BOOL, "the same broker broke it before the plan too"),
    ),
)
PLAN_PARTITIONS = ResultTable(
    "plan_check.partitions", "kfast.check_plan(state, plan, load, capacity).partitions",
    "what the controller makes of each entry: of each batch in its order the rows of "
    "reassignment.partitions",
    (_BATCH, *REASSIGNMENT_PARTITIONS.columns),
)
PLAN_BATCHES = ResultTable(
    "plan_check.batches", "kfast.check_plan(state, plan, load, capacity).batches",
    "batches, in order",
    (
        _BATCH,
        *_counts(
            ("partitions", "entries of the batch"),
            ("leadership_only", "those that ask for another order of the same replicas, or none"),
            ("refused", "those that the controller refuses"),
            ("completed", "partitions whose reassignment is complete in the end"),
            ("pending", "partitions whose reassignment is still under way in the end"),
            ("newly_offline", "partitions that go offline, under way or in the end"),
            ("newly_under_min_isr", "partitions that fall under min ISR, under way or in the end"),
            ("unclean", "leaders elected outside the ISR"),
            ("leaders_moved", "leaders that move"),
            ("replicas_added", "replicas that are copied to brokers"),
            ("most_replicas_of_a_broker", "most of them that one broker sends or receives"),
            ("bytes_moved", "bytes that are copied"),
            ("most_bytes_received", "most of them that one broker receives"),
            ("most_bytes_sent", "most of them that one broker sends"),
            ("brokers_over_limit", "brokers over any limit at some moment of the batch"),
        ),
        *(
            ResultColumn(
                f"seconds_{name}", pa.float64(), f"seconds that copying takes {how}; null where a "
                "broker is stuck, or nothing limits a pair of brokers", nullable=True,
            )
            for name, how in (
                ("bound", "at least: no pacing of the copies is faster"),
                ("fair", "if copies share networks fairly; null for over 1000 pairs too"),
            )
        ),
        ResultColumn(
            "stuck_brokers", _IDS, "ids of brokers that have nothing left for copying, so that it "
            "never ends",
        ),
        ResultColumn(
            "throttle", _INT64, "bytes a second that each broker may send and receive for copies; "
            "null without a throttle", True,
        ),
    ),
)
PLAN_BROKERS = ResultTable(
    "plan_check.brokers", "kfast.check_plan(state, plan, load, capacity).brokers",
    "every broker, by id",
    (
        _BROKER_ID, _RACK,
        *(
            ResultColumn(f"{name}_{when}", _INT64, f"{meaning} {moment}", name == "cpu_microcores")
            for name, meaning in (
                ("bytes_in", "bytes received per second"), ("bytes_out", "bytes sent per second"),
                ("cpu_microcores", "millionths of a core, null where not measured,"),
                ("disk_bytes", "bytes of its replicas"), ("leaders", "partitions that it leads"),
                ("replicas", "replicas assigned to it"),
            )
            for when, moment in (
                ("before", "before the plan"), ("during", "at the worst moment, without copying"),
                ("after", "after the plan"),
            )
        ),
        *_counts(
            ("bytes_received", "bytes of replicas that it receives"),
            ("bytes_sent", "bytes of replicas that it sends as their leader"),
        ),
        *(
            ResultColumn(f"over_limit_{when}", pa.list_(pa.string()), f"limits that it is over {m}")
            for when, m in (
                ("before", "before the plan"), ("during", "at the worst moment"),
                ("after", "after the plan"),
            )
        ),
    ),
)
PLAN_MOVES = ResultTable(
    "plan_check.moves", "kfast.check_plan(state, plan, load, capacity).moves",
    "replicas that are copied, summed up by batch, leader and broker that receives them",
    (
        _BATCH,
        ResultColumn(
            "source", _INT32, "id of the leader that they are copied from; null where there is "
            "none", True,
        ),
        ResultColumn("destination", _INT32, "id of the broker that receives them"),
        *_counts(
            ("replicas", "replicas that are copied"), ("bytes_moved", "their bytes"),
            ("bytes_in", "bytes per second that are written to them meanwhile"),
        ),
    ),
)
PLAN_FAILURES = ResultTable(
    "plan_check.failures", "kfast.check_plan(state, plan, load, capacity).failures",
    "failures after the plan, the least headroom first",
    (
        ResultColumn("brokers", _IDS, "ids of the brokers that fail"),
        ResultColumn("headroom_before", pa.float64(), "headroom before the plan", nullable=True),
        *CAPACITY_SWEEP.columns[1:],
    ),
)
PLAN_OBJECTIVE = ResultTable(
    "plan_check.objective", "kfast.check_plan(state, plan, load, capacity).objective",
    "elements of the objective, the one that counts most first; less is better",
    (
        ResultColumn("element", _TEXT, "its name"), ResultColumn("unit", _TEXT, "its unit"),
        *_counts(("before", "before the plan"), ("after", "after the plan")),
    ),
)
_IN_A_PLAN = (("before", "before the plan"), ("after", "after it"))
_GOAL_UNKNOWN = "where a broker that is up has no capacity, or its use is not known"
PLAN_GOALS = ResultTable(
    "plan_check.goals", "kfast.check_plan(state, plan, load, capacity).goals",
    "default goals of Cruise Control, in its order",
    (
        ResultColumn("goal", _TEXT, "its name"),
        ResultColumn("hard", _BOOL, "Cruise Control has to meet it"),
        ResultColumn("unit", _TEXT, "what breaks it: partitions, topics or brokers"),
        *(
            _or_null(ResultColumn(f"broken_{when}", _INT64, f"how many break it {moment}"),
                     _GOAL_UNKNOWN)
            for when, moment in _IN_A_PLAN
        ),
        *(
            _or_null(ResultColumn(
                f"worst_{when}", _INT64, "millionths of the bound by which the worst of them is "
                f"outside {moment}, rounded up"), _GOAL_UNKNOWN)
            for when, moment in _IN_A_PLAN
        ),
        *(
            _or_null(ResultColumn(f"satisfied_{when}", _BOOL, f"nobody breaks it {moment}"),
                     _GOAL_UNKNOWN)
            for when, moment in _IN_A_PLAN
        ),
        ResultColumn("asks", _TEXT, "what it asks for"),
    ),
)
PLAN_UNSCHEDULED = ResultTable(
    "plan_batches.unscheduled", "kfast.plan_batches(state, plan, load, capacity).unscheduled",
    "entries of the plan that are in no batch",
    (
        *PLAN.columns[:2],
        ResultColumn("replicas", _IDS, "ids that the plan asks for"),
        _or_null(_BROKER_ID, _NOT_OF_A_BROKER),
        ResultColumn("reason", _TEXT, "why no batch can execute it"),
    ),
)
_ENDLESS = "where it never ends"
_NO_FAIR_TIME = f"{_ENDLESS}, or has too many flows"
_NOT_MADE = "unless replicas are made elsewhere"
RESTORATION = ResultTable(
    "restoration", "kfast.restoration(plan, scenarios, settings)", "scenarios, in order",
    (
        *CAPACITY_SWEEP.columns,
        ResultColumn("restore_bytes", _INT64, "bytes that have to be copied from leaders"),
        *(
            _or_null(ResultColumn(f"restore_seconds_{name}", pa.float64(), meaning), null)
            for name, meaning, null in (
                ("bound", "seconds until all are copied, at least", _ENDLESS),
                ("fair", "the same where flows share ports fairly", _NO_FAIR_TIME),
                ("half", "seconds until half of the bytes are copied, likewise", _NO_FAIR_TIME),
                ("min_isr", "seconds until partitions under min ISR have a replica more, likewise",
                 _NO_FAIR_TIME),
            )
        ),
        ResultColumn(
            "bytes_without_source", _INT64,
            "bytes of the lost replicas of partitions that have no leader to copy from",
        ),
        ResultColumn(
            "bytes_without_place", _INT64,
            "bytes of the lost replicas for which no broker is left that does not hold the "
            "partition",
        ),
        ResultColumn(
            "stuck_brokers", _IDS,
            "ids of brokers that get no faster than producers write, so that it never ends",
        ),
        _or_null(
            ResultColumn(
                "throttle_needed", _INT64,
                "the smallest throttle with which it ends, in bytes per second",
            ),
            "where it ends as it is, or with no throttle",
        ),
        *(
            _or_null(
                ResultColumn(
                    f"{name}_max_restored", pa.float64(),
                    f"highest share of its capacity that a broker uses afterwards: {meaning}",
                ),
                f"{_NOT_MADE}, and {_NO_CAPACITY}",
            )
            for name, meaning in (
                ("nw_in", "bytes in per second"), ("nw_out", "bytes out per second"),
                ("disk", "bytes on disk"),
            )
        ),
        _or_null(
            ResultColumn(
                "over_limit_restored", _INT64,
                "live brokers that are then over the limit without a failure of any of the three",
            ),
            _NOT_MADE,
        ),
    ),
)
CAPACITY_BOUNDS = ResultTable(
    "capacity_size.bounds", "kfast.capacity_size(state, load, capacity, ...).bounds",
    "the replication factor, replicas, then resources by the number of brokers",
    (
        ResultColumn("resource", pa.string(), "replication_factor, replicas, nw_in, nw_out, cpu, "
                     "disk"),
        ResultColumn("failure", pa.string(), "normal (none), brokers or rack"),
        ResultColumn("brokers", _INT64, "fewer are too few, even if all carried the same"),
    ),
)
CAPACITY_TOO_LARGE = ResultTable(
    "capacity_size.too_large", "kfast.capacity_size(state, load, capacity, ...).too_large",
    "resources of which one partition needs more than a broker may use",
    (
        _TOPIC, _PARTITION, ResultColumn("resource", pa.string(), "nw_in, nw_out, cpu or disk"),
        ResultColumn("amount", _INT64, "what its leader needs, in B/s, micro-cores or bytes"),
        ResultColumn("allowed", _INT64, "what a broker may use"),
        ResultColumn("parts", _INT64, "partitions, at least, that it has to become"),
    ),
)
SIZE_BROKERS = ResultTable(
    "capacity_size.brokers", "kfast.capacity_size(state, load, capacity, ...).brokers",
    "every broker of the present cluster and of that which suffices, ascending",
    (
        _BROKER_ID, _RACK,
        ResultColumn("change", _TEXT, "stays, added or removed: removed brokers give up all "
                     "replicas"),
    ),
)
_NO_PRICE = "where no price is known"
CAPACITY_COST = ResultTable(
    "capacity_cost", "kfast.capacity_cost(state, load, capacity, ...).items",
    "brokers by class, disk, cross-rack bytes",
    (
        ResultColumn("item", pa.string(), "brokers, disk, or cross-rack and who moves the bytes"),
        _or_null(ResultColumn("class", pa.string(), "class of the brokers"), "for all else"),
        ResultColumn("quantity", _INT64, "how many, how much; a rate is rounded half to even"),
        ResultColumn("unit", pa.string(), "brokers, bytes or B/s"),
        _or_null(ResultColumn(
            "price", pa.decimal128(38, 9),
            "of a broker for a month, of 10^9 bytes for a month, of 10^9 bytes moved",
        ), _NO_PRICE),
        _or_null(ResultColumn(
            "cost", pa.decimal128(38, 2), "for a month of 2629800 seconds, rounded half to even"
        ), _NO_PRICE),
    ),
)
SWEEP_PARTITIONS = ResultTable(
    "sweep_partitions", "kfast.sweep_partitions(state, scenarios); kfast.spark.sweep_partitions",
    "every assigned partition, by row",
    (
        *_KEY, _REPLICAS,
        *_counts(
            ("scenarios_offline", "scenarios in which it is offline"),
            ("scenarios_under_min_isr", "scenarios in which it is under min ISR"),
        ),
    ),
)
_NEVER_UP = "where the broker is never up"


def _broker_use(resource: str, used: str, meaning: str) -> tuple[ResultColumn, ...]:
    """What a broker uses of a resource over many failures."""
    unmeasured = _NOT_MEASURED if resource == "cpu" else ""
    columns = (
        *_counts((f"{used}_baseline", f"{meaning} without a failure")),
        ResultColumn(f"{used}_mean", _FLOAT, f"{meaning} on average of its scenarios"),
        *_counts(
            (f"{used}_most", f"{meaning} at most"),
            (f"{used}_most_scenario", "number of that scenario, the lowest of equals"),
            (f"{used}_p95", f"{meaning}: it uses no more in 95 % of its scenarios"),
            (f"{used}_p99", f"{meaning}: it uses no more in 99 % of its scenarios"),
        ),
    )
    share = ResultColumn(f"{resource}_max", _FLOAT, f"share of its capacity that {used}_most is")
    return (
        *(_or_null(column, _NEVER_UP + unmeasured) for column in columns),
        _or_null(share, f"{_NEVER_UP}{unmeasured}, or it has no such capacity"),
    )


CAPACITY_BROKERS = ResultTable(
    "capacity_brokers", "kfast.capacity_brokers(plan, scenarios)", "every broker, by id",
    (
        _BROKER_ID, *_counts(("scenarios_up", "scenarios in which the broker is up")),
        *_broker_use("nw_in", "bytes_in", "bytes in per second"),
        *_broker_use("nw_out", "bytes_out", "bytes out per second"),
        *_broker_use("cpu", "cpu_microcores", "micro-cores"),
        _or_null(
            ResultColumn("disk_bytes", _INT64, "bytes on disk, which no failure changes"), _NEVER_UP
        ),
        _or_null(
            ResultColumn(
                "disk_max", _FLOAT,
                "share of its capacity that these are, or of that of its fullest directory",
            ),
            f"{_NEVER_UP}, or it has no such capacity",
        ),
    ),
)
SWEEP_BROKERS = ResultTable(
    "sweep_brokers", "kfast.sweep_brokers(state, scenarios); kfast.spark.sweep_brokers",
    "every broker, by id",
    (
        _BROKER_ID, _RACK, *_counts(("scenarios_up", "scenarios in which the broker is up")),
        *(
            _or_null(column, _NEVER_UP)
            for column in (
                ResultColumn("leaders_mean", _FLOAT, "partitions that it leads then, on average"),
                *_counts(
                    ("leaders_most", "partitions that it leads then, at most"),
                    ("leaders_p50", "it leads no more in half of these scenarios"),
                    ("leaders_p95", "it leads no more in 95 % of these scenarios"),
                    ("leaders_p99", "it leads no more in 99 % of these scenarios"),
                ),
            )
        ),
    ),
)

# --- comparisons ---

_ANSWER = ResultColumn("answer", _TEXT, "the settings that differ, or `as it is`")
_ANSWERING = (
    _ANSWER, ResultColumn("controller", _TEXT, "controller that was simulated"),
    ResultColumn("elr", _BOOL, "eligible leader replicas are on; null in ZooKeeper mode", True),
)
COMPARED_FAILURES = ResultTable(
    "comparison.table", "kfast.compare(state, broker_ids, settings=...).table",
    "answers, the cluster as it is first: what the failure does",
    (
        *_ANSWERING, *_CENSUS_COUNTS,
        *(column for column in IMPACT_TOPICS.columns if column.name.startswith("newly_")),
        *_counts(
            ("back_online", "partitions that were offline before, and are not any more"),
            ("leaders_moved", "partitions with a leader before and after, and they differ"),
            ("unclean", "leaders that were chosen outside the ISR"),
            ("isr_shrunk", "partitions whose ISR lost a member"),
        ),
    ),
)
COMPARED_SWEEPS = ResultTable(
    "comparison.table of sweeps", "kfast.compare(state, scenarios=..., settings=...).table",
    "answers, the cluster as it is first: the largest value of each count",
    (*_ANSWERING, *_counts(*SWEEP_COUNTS.items())),
)
COMPARED_PARTITIONS = ResultTable(
    "comparison.differences", "kfast.compare(state, broker_ids, settings=...).differences",
    "partitions whose leader or status differs in some answer, each with a row per answer",
    (_ANSWER, *IMPACT_PARTITIONS.columns),
)
COMPARED_SCENARIOS = ResultTable(
    "comparison.differences of sweeps",
    "kfast.compare(state, scenarios=..., settings=...).differences",
    "scenarios of which a count differs in some answer, each with a row per answer",
    (_ANSWER, *SWEEP.columns),
)

# --- the difference between two clusters ---

_UNTOLD = "where the cluster, or an export, does not tell it"
_STATUS = ResultColumn("status", _TEXT, "unknown, down, fenced, shutting down or up")
_TOPIC_STATES = (
    ResultColumn("partitions", _INT32, "its partitions; 0 where it does not exist"),
    _or_null(ResultColumn(
        "replication_factor", _INT32, "assigned replicas of the partition with the fewest"
    ), "where it has no partition"),
    _or_null(
        ResultColumn("min_insync_replicas", _INT32, "its own min.insync.replicas"),
        "where it has none",
    ),
    _or_null(
        ResultColumn(
            "unclean_leader_election", _BOOL, "its own unclean.leader.election.enable"
        ), "where it has none",
    ),
    _or_null(ResultColumn("topic_id", _TEXT, "its id"), _UNTOLD),
)
_DIFF_STATES = (
    _REPLICAS, ResultColumn("adding", _IDS, _IN_IDS["adding"]),
    ResultColumn("removing", _IDS, _IN_IDS["removing"]), _LEADER, _ISR, _ELR,
    _or_null(_LEADER_EPOCH, _UNTOLD),
    ResultColumn("offline", _BOOL, "it has no live leader"),
    ResultColumn("under_min_isr", _BOOL, "it has fewer live in-sync replicas than min ISR"),
)


def _twice(columns: tuple[ResultColumn, ...]) -> tuple[ResultColumn, ...]:
    """Each column at two moments."""
    return tuple(twin for column in columns for twin in (_before(column), column))


DIFF_SETTINGS = ResultTable(
    "diff.settings", "kfast.diff(old, new).settings",
    "settings of the cluster that differ, by name",
    (
        ResultColumn("setting", _TEXT, "the controller, a feature, a configuration or a default"),
        _or_null(ResultColumn("value_before", _TEXT, "before: its value"), "where there is none"),
        _or_null(ResultColumn("value", _TEXT, "its value"), "where there is none"),
    ),
)
DIFF_BROKERS = ResultTable(
    "diff.brokers", "kfast.diff(old, new).brokers",
    "brokers whose status or rack differs, by id",
    (
        _BROKER_ID, *_twice((_STATUS, _RACK)),
        *_counts(
            ("leaders_before", "partitions that the broker led before"),
            ("leaders", "partitions that it leads"),
            ("replicas_before", "replicas assigned to it before"),
            ("replicas", "replicas assigned to it"),
        ),
    ),
)
DIFF_TOPICS = ResultTable(
    "diff.topics", "kfast.diff(old, new).topics", "topics that differ, by name",
    (
        _TOPIC, ResultColumn("change", _TEXT, "created, deleted, recreated or changed"),
        *_twice(_TOPIC_STATES),
    ),
)
DIFF_PARTITIONS = ResultTable(
    "diff.partitions", "kfast.diff(old, new).partitions",
    "partitions that are in both clusters and differ: those that are newly offline, those that are "
    "newly under min ISR, then the others; each by topic and number",
    (
        *_KEY, *_twice(_DIFF_STATES),
        *(ResultColumn(name, _BOOL, text) for name, text in DIFF_PARTITION_CHANGES.items()),
    ),
)
DIFF_MEASURES_TABLE = ResultTable(
    "diff.measures", "kfast.diff(old, new).measures",
    "measures of both clusters, as they are and with single failures",
    (
        ResultColumn("measure", _TEXT, f"one of {', '.join(DIFF_MEASURES)}"),
        *_twice((_or_null(ResultColumn("partitions", _INT64, "how many partitions it counts"),
                          "where no broker, or no rack, could fail"),)),
    ),
)
DIFF_WORST = ResultTable(
    "diff.worst", "kfast.diff(old, new).worst",
    "kinds of failures: the worst single broker, and the worst rack where racks are known",
    (
        ResultColumn("kind", _TEXT, "broker or rack"),
        *_twice((
            _or_null(ResultColumn("rack", _TEXT, "the rack that fails"),
                     "where the kind is broker, or none could fail"),
            _or_null(ResultColumn("brokers", _IDS, "ids of the brokers that fail"),
                     "where none could fail"),
            *(_or_null(ResultColumn(name, _INT64, SWEEP_COUNTS[name]), "where none could fail")
              for name in ("offline", "under_min_isr", "unclean", "leaders_moved")),
        )),
    ),
)
DIFF_FRAGILE_BROKERS = ResultTable(
    "diff.fragile_brokers", "kfast.diff(old, new).fragile_brokers",
    "brokers whose failure alone takes newly fragile partitions down, the worst first",
    (
        _BROKER_ID,
        *_counts(
            ("newly_offline", "newly fragile partitions that its failure takes offline"),
            ("newly_under_min_isr", "those that it takes under min ISR"),
        ),
    ),
)
DIFF_FRAGILE = ResultTable(
    "diff.newly_fragile", "kfast.diff(old, new).newly_fragile",
    "partitions that a single broker's failure takes offline or under min ISR, and that none did "
    "that to before: those that go offline, then the others; each by topic and number",
    (
        *_KEY, ResultColumn("created", _BOOL, "it was not there before"), _REPLICAS, _ISR, _MIN_ISR,
        ResultColumn("newly_offline_by", _IDS, "ids of the brokers whose failure alone takes it "
                     "offline; empty where one did before"),
        ResultColumn("newly_under_min_isr_by", _IDS, "ids of the brokers whose failure alone takes "
                     "it under min ISR; empty where one did before"),
    ),
)

DIFF_ANSWERS = ResultTable(
    "diff.metrics", "kfast diff OLD.json NEW.json",
    "metrics of two answers of one command that differ, in the order of the answers",
    (
        ResultColumn("metric", _TEXT, "name of the metric; of a step or one of several answers, "
                     "with its name"),
        _or_null(ResultColumn("value_before", _FLOAT, "before: its value"),
                 "where the answer has none"),
        _or_null(ResultColumn("value", _FLOAT, "its value"), "where the answer has none"),
    ),
)

# --- restarts ---

_CAUSE = ResultColumn("cause", _TEXT, f"what makes it so: {', '.join(CAUSES)}")
_SETTING = (
    ResultColumn("min_insync_replicas", _INT32, "min.insync.replicas as it is set"),
    ResultColumn("set_by", _TEXT, "whose setting that is: topic or brokers"),
)
READINESS_BROKERS = ResultTable(
    "readiness.brokers", "kfast.may_restart(state).brokers", "every broker, by id",
    (
        _BROKER_ID, _RACK, ResultColumn("live", _BOOL, "it is registered and not shutting down"),
        ResultColumn("may_restart", _BOOL, "no partition forbids its restart"),
        *_counts(
            ("in_sync", "partitions of whose live ISR it is a member"),
            ("last_in_sync", "of these, those of which it is the only one"),
            ("forbidding", "partitions that forbid its restart"),
            *((f"forbidding_{name}", f"of these, those where {meaning}")
              for name, meaning in CAUSES.items()),
        ),
    ),
)
READINESS_PARTITIONS = ResultTable(
    "readiness.partitions", "kfast.may_restart(state).partitions; .forbidding(broker_id)",
    "partitions that allow no restart of their members, by row",
    (
        *_KEY, _REPLICAS, replace(_ISR, meaning="ids of the in-sync replicas that are live"),
        ResultColumn("in_sync", _INT32, "how many these are"), _MIN_ISR,
        *_SETTING, ResultColumn("spare", _INT32, "in_sync above min_isr"),
        replace(_CAUSE, meaning=f"{_CAUSE.meaning}; of several brokers in forbidding() also "
                "together: each alone could be restarted"),
    ),
)
READINESS_TOPICS = ResultTable(
    "readiness.topics", "kfast.may_restart(state).topics",
    "topics, causes and replication factors, most partitions first",
    (
        _TOPIC, _CAUSE, *_counts(("partitions", "partitions that allow no restart")),
        ResultColumn("replication_factor", _INT32, "replicas of each of these"), *_SETTING,
    ),
)
_NO_TIME = "where no time per broker was given"
_TIMES = (
    _or_null(ResultColumn("starts_after_s", _FLOAT, "when its batch begins, in seconds"), _NO_TIME),
    _or_null(ResultColumn("ends_after_s", _FLOAT, "when its batch is back in sync"), _NO_TIME),
)
RESTART_BATCHES = ResultTable(
    "restart.batches", "kfast.restart_plan(state).batches", "batches, in order",
    (
        ResultColumn("batch", _INT32, "number of the batch, from 1"),
        ResultColumn("n_brokers", _INT32, "brokers in it"),
        ResultColumn("brokers", _IDS, "their ids"),
        ResultColumn("racks", _TEXTS, "their racks, each once"),
        *_counts(
            ("newly_under_min_isr", "partitions that fall under min ISR while it is down"),
            ("newly_offline", "partitions that are left without a live ISR member meanwhile"),
        ),
        *_TIMES,
    ),
)
RESTART_BROKERS = ResultTable(
    "restart.brokers", "kfast.restart_plan(state).brokers",
    "every broker in the order of the batches, those that are not live last",
    (
        ResultColumn("batch", _INT32, "number of its batch, from 1; null if it is not live", True),
        *READINESS_BROKERS.columns, *_TIMES,
    ),
)

# --- risk ---

_NEWLY = _counts(*(
    (f"newly_{name}", f"partitions of which it becomes true: {meaning}")
    for name, meaning in RISK_METRICS.items()
))
RISK_COPYSETS = ResultTable(
    "risk.copysets", "kfast.risk(state).copysets", "replication factors",
    (
        ResultColumn("replication_factor", _INT32, "replicas of a partition"),
        *_counts(
            ("partitions", "partitions with so many"), ("copysets", "distinct sets of replicas")
        ),
        ResultColumn("possible_copysets", _FLOAT, "sets of so many of all brokers"),
    ),
)
RISK_BROKERS = ResultTable(
    "risk.brokers", "kfast.risk(state).brokers", "every broker, the worst to lose first",
    (
        _BROKER_ID, _RACK, ResultColumn("live", _BOOL, "it is registered and not shutting down"),
        *_counts(("partitions", "replicas on it"), ("copysets", "copysets that it is in")),
        ResultColumn("scatter_width", _INT32, "other brokers that it shares a partition with"),
        ResultColumn(
            "closest_broker_id", _INT32, "id of the broker that shares most with it; null where "
            "none does", True,
        ),
        *_counts(("closest_partitions", "partitions that the two share")), *_NEWLY,
    ),
)
RISK_PAIRS = ResultTable(
    "risk.pairs", "kfast.risk(state).pairs",
    "pairs of live brokers that share a partition or take one down, by id",
    (
        ResultColumn("broker_a", _INT32, "id of one broker"),
        ResultColumn("broker_b", _INT32, "id of the other, which is larger"),
        *_counts(("shared_partitions", "partitions assigned to both")), _NEWLY[0], _NEWLY[2],
    ),
)
RISK_WORST = ResultTable(
    "risk.worst", "kfast.risk(state).worst(k)", "groups of k live brokers, the worst first",
    (
        ResultColumn("brokers", _IDS, "their ids"),
        ResultColumn("racks", _TEXTS, "the rack of each, or null"), *_NEWLY,
        *_counts(*(
            (f"together_{name}", f"of newly_{name}, those that no fewer of them take down")
            for name in RISK_METRICS
        )),
    ),
)
RISK_LOST = ResultTable(
    "risk.lost", "kfast.risk(state).lost(broker_ids)",
    "partitions of which some metric becomes true if these brokers fail together, by row",
    (
        *_KEY, replace(_ISR, meaning="ids of the in-sync replicas that are live before"),
        ResultColumn("in_sync", _INT32, "how many of these are left"), _MIN_ISR,
        *(ResultColumn(name, _BOOL, f"becomes true: {meaning}")
          for name, meaning in RISK_METRICS.items()),
    ),
)
RISK_CHANCES = ResultTable(
    "risk.chances", "kfast.risk(state).chances(down)", "numbers of failed brokers, and metrics",
    (
        ResultColumn("brokers_down", _INT32, "how many live brokers fail, any of them"),
        ResultColumn("metric", _TEXT, f"what becomes true: {', '.join(RISK_METRICS)}"),
        ResultColumn("any_probability", _FLOAT, "that it becomes true of some partition"),
        ResultColumn("any_probability_low", _FLOAT, "lower end of its confidence interval"),
        ResultColumn("any_probability_high", _FLOAT, "upper end of its confidence interval"),
        ResultColumn("method", _TEXT, "exact or sampled"),
        *_counts(("scenarios", "scenarios that were drawn; 0 where it was counted")),
        ResultColumn(
            "random_probability", _FLOAT, "the same if every partition had brokers of its own "
            "choosing",
        ),
        ResultColumn("mean_partitions", _FLOAT, "partitions of which it becomes true on average"),
    ),
)

_IF_LOADED = "null without a load"
RISK_DURABILITY = ResultTable(
    "risk.durability", "kfast.durability(state, ...).copysets", "numbers of copies",
    (
        ResultColumn("copies", _INT32, "assigned replicas"),
        *_counts(
            ("copysets", "distinct sets of so many brokers"),
            ("partitions", "partitions with such a set"),
        ),
        ResultColumn("mttdl_years", _FLOAT, "mean time until one such set loses all copies"),
        ResultColumn("losses_per_year", _FLOAT, "sets that are lost in a year on average"),
        ResultColumn("loss_probability", _FLOAT, "chance that one is lost in a year"),
        ResultColumn(
            "bytes_lost_per_year", _FLOAT,
            f"bytes that are lost in a year on average; {_IF_LOADED}", True,
        ),
    ),
)
RISK_AVAILABILITY = ResultTable(
    "risk.availability", "kfast.durability(state, ...).availability",
    "numbers of replicas and min ISR",
    (
        ResultColumn("replicas", _INT32, "assigned replicas"),
        ResultColumn("min_isr", _INT32, "min ISR in force"),
        *_counts(("partitions", "partitions with these")),
        ResultColumn("leaderless_probability", _FLOAT, "share of time without a live replica"),
        ResultColumn("under_min_isr_probability", _FLOAT, "share of time under min ISR"),
        ResultColumn(
            "bytes_in_leaderless_per_year", _FLOAT,
            f"bytes that producers cannot write for want of a leader; {_IF_LOADED}", True,
        ),
        ResultColumn(
            "bytes_in_refused_per_year", _FLOAT,
            f"bytes that acks=all producers cannot write, those contained; {_IF_LOADED}", True,
        ),
    ),
)

# --- replay ---

_VERDICT = ResultColumn("verdict", _TEXT, "predicted, adopted, unknown, contradicted or missing")
_REASON = ResultColumn(
    "reason", _TEXT, "why it was adopted or is unknown; the event of a missing one; else empty"
)

FACTS = ResultTable(
    "replay.facts", "kfast.replay(path).facts", "facts, in the order of the log",
    (
        ResultColumn("time", _TIME, "of the line"),
        ResultColumn("file", _TEXT, "of the line; a missing one is due before it"),
        ResultColumn("line", _INT32, "its number, from 1"),
        ResultColumn("kind", _TEXT, "what is said"), ResultColumn("subject", _TEXT, "of what"),
        ResultColumn("logged", _TEXT, "the value in the log; empty where that lacks it"),
        ResultColumn("predicted", _TEXT, "the value that kfast predicts"), _VERDICT, _REASON,
    ),
)
METADATA_FACTS = ResultTable(
    "replay.metadata_facts", "kfast.replay_metadata(path).facts",
    "decisions of the controllers, in the order of the log",
    (
        ResultColumn("time", _TIME, "of the batch"),
        ResultColumn(
            "offset", _INT64, "of the record; of what is missing, that of the record before which "
            "it should be",
        ),
        ResultColumn("kind", _TEXT, "what is decided"),
        ResultColumn("cause", _TEXT, "the event that it belongs to"),
        ResultColumn("subject", _TEXT, "partition, broker or topic"),
        ResultColumn("logged", _TEXT, "what the log has, where that is contradicted", True),
        ResultColumn("predicted", _TEXT, "what kfast predicts instead; null where nothing", True),
        _VERDICT, _REASON,
    ),
)
TIMELINE = ResultTable(
    "replay.timeline", "kfast.replay(path).timeline", "events that changed anything, by time",
    (
        ResultColumn("time", _TIME, "of the event"),
        ResultColumn("cluster", _INT32, "number of the cluster"),
        ResultColumn("controller", _INT32, "id of the controller"),
        ResultColumn("controller_epoch", _INT32, "its epoch; null where no line says it", True),
        ResultColumn("event", _TEXT, "kind of the event"), ResultColumn("what", _TEXT, "in words"),
        ResultColumn("inferred", _BOOL, "no line says it: it follows from others"),
        ResultColumn("transitions", _INT32, "state changes"),
        ResultColumn("leaders_moved", _INT32, "partitions whose leader is another"),
        ResultColumn("isr_changes", _INT32, "partitions whose ISR is another"),
        ResultColumn("refused", _INT32, "replicas and partitions that were refused"),
        ResultColumn("became_leaderless", _TEXTS, "partitions that lost their leader"),
        ResultColumn("got_leader", _TEXTS, "partitions that have one again"),
        ResultColumn("leaderless", _INT32, "partitions without a leader afterwards"),
        ResultColumn(
            "longest_ms", _INT64, "the longest time that one of those in got_leader was without a "
            "leader; null where there is none", True,
        ),
    ),
)
UNCLEAN_ELECTION = "unclean election"
"""Event of a row of the timeline that is about one election outside the ISR."""

OUTAGES = ResultTable(
    "replay.outages", "kfast.replay(path).outages", "times without a leader, by their begin",
    (
        ResultColumn("partition", _TEXT, "topic and number of the partition, as Kafka prints it"),
        ResultColumn("since", _TIME, "when it lost its leader"),
        ResultColumn("until", _TIME, "when it got one; null where it had none at the end", True),
        ResultColumn("duration_ms", _INT64, "how long; null likewise", True),
        ResultColumn("cluster", _INT32, "number of the cluster"),
    ),
)

REPLAY_REASSIGNMENTS = ResultTable(
    "replay.reassignments", "kfast.replay(path).reassignments",
    "times during which a partition was reassigned, by their begin",
    (
        ResultColumn("partition", _TEXT, "topic and number of the partition, as Kafka prints it"),
        ResultColumn("since", _TIME, "when the plan was made; null where before the log", True),
        ResultColumn("until", _TIME, "when it ended or was cancelled; null where it did not", True),
        ResultColumn("duration_ms", _INT64, "how long; null where one of both is", True),
        ResultColumn("cluster", _INT32, "number of the cluster"),
    ),
)
BROKER_SESSIONS = ResultTable(
    "replay.broker_sessions", "kfast.replay(path).broker_sessions",
    "times during which a broker was up, as the controller saw it, by their begin",
    (
        _BROKER_ID,
        ResultColumn("since", _TIME, "when it came; null where before the log", True),
        ResultColumn("until", _TIME, "when it was gone; null where it was there at the end", True),
        ResultColumn("cluster", _INT32, "number of the cluster"),
    ),
)
CONTROLLER_TERMS = ResultTable(
    "replay.controller_terms", "kfast.replay(path).controller_terms",
    "times during which a controller was active, by their begin",
    (
        ResultColumn("controller", _INT32, "its id"),
        ResultColumn("controller_epoch", _INT32, "its epoch; null where no line says it", True),
        ResultColumn("since", _TIME, "when it became active, or the log has it so first"),
        ResultColumn(
            "until", _TIME, "when the next one became active or, where that one's log is missing, "
            "of its last line; null where it was active at the end", True,
        ),
        ResultColumn("cluster", _INT32, "number of the cluster"),
    ),
)

# --- Spark ---

SOURCE = ResultColumn("source", _TEXT, "file, or cluster, that the row is of")
"""The first column of the data source's tables."""

REPLICAS_TABLE = ResultTable(
    "replicas", 'spark.read.format("kfast").option("table", "replicas")',
    "every assigned replica, by row and place",
    (
        _TOPIC, _PARTITION, ResultColumn("place", _INT32, "0 is the preferred replica"), _BROKER_ID,
        ResultColumn("leads", _BOOL, "it is the leader"),
        ResultColumn("in_sync", _BOOL, "it is in the ISR"),
    ),
)
ASSUMPTIONS_TABLE = ResultTable(
    "assumptions", 'spark.read.format("kfast").option("table", "assumptions")',
    "assumptions, in order", (ResultColumn("assumption", _TEXT, "what a source does not say"),),
)
FLEET = ResultTable(
    "fleet", "kfast.spark.fleet(...); sweeps/NAME of the pipeline",
    "clusters and scenarios; an export that cannot be read has one, in which only source and error "
    "are not null",
    (
        SOURCE, ResultColumn("error", _TEXT, "why the export has no answer; else null", True),
        ResultColumn("partitions", _INT64, "partitions of the cluster", True),
        ResultColumn("brokers", _IDS, "ids of the brokers that fail", True),
        *(replace(column, nullable=True) for column in SWEEP.columns),
    ),
)
FLEET_CAPACITY = ResultTable(
    "fleet.capacity", "capacity/NAME of the pipeline", "scenarios, in order",
    (
        *FLEET.columns[:4],
        *(replace(column, nullable=True) for column in CAPACITY_SWEEP.columns),
    ),
)
_OCCURRENCE = ResultColumn("occurrence", _INT32, "what tells steps of one action apart")
SHARDED_REQUESTS = ResultTable(
    "sharded.requests", "kfast.spark.fail(...).requests",
    "events, steps, kinds of requests and brokers that get some",
    (
        _EVENT, _ACTION, _OCCURRENCE, _KIND, _BROKER_ID,
        *_counts(("requests", "requests sent"), ("partitions", "partitions in them")),
    ),
)
SHARDED_COUNTS = ResultTable(
    "sharded.counts", "kfast.spark.fail(...).counts", "events, kinds and items",
    (
        _EVENT, ResultColumn("name", _TEXT, "name of the event"),
        ResultColumn("kind", _TEXT, "transition, code, reply or total"),
        ResultColumn("item", _TEXT, "what is counted"), *_counts(("count", "how often")),
    ),
)
SHARDED_BROKERS = ResultTable(
    "sharded.brokers", "kfast.spark.fail(...).brokers", "every broker, by id", (_BROKER_ID, *_LOAD)
)
_SHARD = ResultColumn("shard", _INT32, "place of the partition's file among those of the dataset")
_SHARD_ROW = replace(_ROW, meaning="row of the partition in the cluster of that file alone")
_SHARD_KEY = (_TOPIC, _PARTITION, _SHARD, _SHARD_ROW)


def _of_shards(table: ResultTable, name: str) -> ResultTable:
    """Rows of the journal over shards: the event and the action stand for the step."""
    return ResultTable(
        f"sharded.{name}", f"kfast.spark.fail(..., journal='full').{name}", table.rows,
        (_EVENT, _ACTION, *_SHARD_KEY, *(c for c in table.columns if c not in (_STEP, *_KEY))),
    )


SHARDED_TRANSITIONS = _of_shards(TRANSITIONS, "transitions")
SHARDED_ELECTIONS = _of_shards(ELECTIONS, "elections")
SHARDED_RECORDS = ResultTable(
    "sharded.records", "kfast.spark.fail(..., journal='full').records",
    "changes of partitions of a KRaft cluster, by event and shard in the order in which they were "
    "written; a field is null where a record does not set it",
    (
        _EVENT, *_SHARD_KEY,
        *(
            column for column in METADATA_RECORDS.columns if column.name not in (
                "offset", "type", "broker_id", "detail", *(key.name for key in _SHARD_KEY)
            )
        ),
    ),
)
_WORST_CASE = (
    ResultColumn("worst", pa.float64(), "the metric in the worst scenario"),
    ResultColumn("worst_scenario", _INT64, "number of the first scenario that is so bad"),
    ResultColumn("worst_brokers", _IDS, "ids of the brokers that fail in it"),
)
PIPELINE_RUN = ResultTable(
    "pipeline", "kfast.spark.pipeline.run_pipeline(...)", "exports, by cluster and time of capture",
    (
        ResultColumn("cluster", _TEXT, "name of the cluster: the export's folder"),
        ResultColumn("captured", _TEXT, "the name of the export up to its first dot"),
        ResultColumn("source", _TEXT, "the export"),
        ResultColumn("fresh", _BOOL, "its results were made in this run"),
        ResultColumn("error", _TEXT, "why it has no results; null where it has", True),
        ResultColumn("warnings", _TEXTS, "what its loads lack, or contradict each other in"),
        ResultColumn("alerts", _TEXTS, "conditions that hold, in words"),
        ResultColumn("digest", _TEXT, "of the state; null where there is an error", True),
    ),
)
PIPELINE_SUMMARIES = ResultTable(
    "pipeline.summaries", "summaries of the pipeline", "sweeps and metrics",
    (
        ResultColumn("sweep", _TEXT, "name of the sweep"),
        ResultColumn("metric", _TEXT, "a count of the sweep, or a measure of the one in bytes"),
        ResultColumn(
            "baseline", pa.float64(), "the metric without a failure; null where it has none", True
        ),
        *_WORST_CASE,
    ),
)
PIPELINE_ALERTS = ResultTable(
    "pipeline.alerts", "alerts of the pipeline", "conditions that hold somewhere",
    (
        ResultColumn("sweep", _TEXT, "name of the sweep"),
        ResultColumn("condition", _TEXT, "the condition"),
        ResultColumn("scenarios", _INT64, "scenarios in which it holds"), *_WORST_CASE,
    ),
)

TIMES: Mapping[str, str] = {
    "detect_us": "the controller's first event begins",
    "decide_us": "the controller has taken its last decision",
    "publish_us": "its last requests are sent, or its last records committed",
    "first_led_us": "the first partition is led again",
    "led_p50_us": "half of those that are led again are led",
    "led_p99_us": "99 of 100 of them are led",
    "led_max_us": "all of them are led",
    "visible_max_us": "every broker answers clients with the new leaders",
    "served_p50_us": "clients that retry reach half of the new leaders",
    "served_p99_us": "clients that retry reach 99 of 100 of them",
    "isr_max_us": "no ISR has a member that failed",
    "released_us": "brokers that shut down in order may stop",
    "stopped_us": "they have stopped",
}
"""When what happens, in microseconds after the failure."""

WAITS = ("detection", "controller", "store", "queue", "disk")
"""What a partition without a leader waits for."""

TIMES_IN_SECONDS: Mapping[str, str] = {
    "leaderless_partition_s": "partition-seconds without a leader, where there is one in the end",
    "stalled_partition_s": "partition-seconds with a leader, and an ISR with a member that failed",
    "under_min_partition_s": "partition-seconds under min ISR until the horizon",
}
"""Sums over partitions, in whole seconds."""

REFUSED_BYTES: Mapping[str, str] = {
    "leaderless_bytes": "bytes refused without a leader, where there is one in the end",
    "under_min_bytes": "bytes refused under min ISR with acks=all, until the horizon",
}
"""What producers write to partitions that take none of it meanwhile; only with loads."""


def _with_range(
    name: str, meaning: str, none: str = "where it does not occur"
) -> tuple[ResultColumn, ...]:
    """A column, and the 5th and 95th percentile of its samples; `none` says when they are null."""
    return (
        ResultColumn(name, _INT64, f"{meaning}; null {none}", True),
        ResultColumn(f"{name}_low", _INT64, f"5th percentile of {name}, or {name} if less", True),
        ResultColumn(
            f"{name}_high", _INT64, f"95th percentile of {name}, or {name} if more", True
        ),
    )


TIMELINE_PARAMETERS = ResultTable(
    "timeline.parameters", "kfast.timeline(state, broker_ids).parameters", "parameters",
    (
        ResultColumn("name", _TEXT, "name of the parameter"),
        ResultColumn("unit", _TEXT, "us, or ns for each item"),
        *_counts(
            ("value", "central value"), ("low", "least value that is drawn"),
            ("high", "greatest value that is drawn"),
        ),
        ResultColumn("source", _TEXT, "where the value comes from"),
        ResultColumn("overridden", _BOOL, "it replaces the default"),
        ResultColumn("meaning", _TEXT, "what costs that"),
    ),
)
_INTERVAL = (
    ResultColumn("kind", _TEXT, "what took that long"),
    ResultColumn("start_broker", _INT32, "id of the node by whose clock it begins; null: the "
                 "writer of a metadata log", True),
    ResultColumn("end_broker", _INT32, "id of the node by whose clock it ends; null likewise",
                 True),
    ResultColumn("start_us", _INT64, "when it begins, in microseconds since 1970"),
    ResultColumn("end_us", _INT64, "when it ends, in microseconds since 1970"),
    ResultColumn("parameters", _TEXTS, "names of the parameters whose sum it is"),
    ResultColumn("counts", pa.list_(_INT64), "how often each of them is in it"),
    ResultColumn("log_level", _TEXT, "most verbose level of the logs that show it; empty of "
                 "records"),
    ResultColumn("file", _TEXT, "file of the line that ends it"),
    ResultColumn("line", _INT64, "number of that line; of records the offset"),
)
TIMELINE_INTERVALS = ResultTable(
    "timeline.intervals", "kfast.read_intervals(path)", "intervals that logs show, by their ends",
    _INTERVAL,
)
TIMELINE_FITTED_INTERVALS = ResultTable(
    "timeline.fitted_intervals", "kfast.fit_times(kfast.read_intervals(path)).intervals",
    "the intervals beside what the fitted parameters give",
    (
        *_INTERVAL,
        *_counts(
            ("predicted_us", "its length by the values of the parameters"),
            ("predicted_low_us", "its length by their low ends"),
            ("predicted_high_us", "its length by their high ends"),
        ),
        ResultColumn("left_out", _TEXT, "why it is not fitted: outlier, clocks or no parameter; "
                     "null where it is", True),
    ),
)
TIMELINE_FITTED = ResultTable(
    "timeline.fitted", "kfast.fit_times(kfast.read_intervals(path)).parameters", "every parameter",
    (
        ResultColumn("name", _TEXT, "name of the parameter"),
        ResultColumn("unit", _TEXT, "us, or ns for each item"),
        *_counts(
            ("value", "fitted value, or the default"), ("low", "least value that is drawn"),
            ("high", "greatest value that is drawn"),
            ("rows", "intervals that it was fitted on; 0: the default"),
        ),
        ResultColumn("source", _TEXT, "where the value comes from"),
        ResultColumn("log_level", _TEXT, "most verbose level of the logs of these intervals; null "
                     "without any", True),
    ),
)
TIMELINE_STAGES = ResultTable(
    "timeline.stages", "kfast.timeline(state, broker_ids).stages",
    "stages of the controller and of each broker, in their order",
    (
        ResultColumn("scenario", _INT64, "number of the failure, from 0"), _EVENT,
        ResultColumn("stage", _TEXT, "what is done"),
        ResultColumn("broker_id", _INT32, "who does it; null for the controller", True),
        *_with_range("begin_us", "microseconds after the failure"),
        *_with_range("end_us", "microseconds after the failure"),
        ResultColumn("items", _INT64, "how many partitions, replicas, requests or records"),
        ResultColumn("waits_for", _TEXT, "detection, controller, store, queue or disk"),
    ),
)
TIMELINE_PARTITIONS = ResultTable(
    "timeline.partitions", "kfast.timeline(state, broker_ids).partitions",
    "partitions that lose their leader, in the central sample: offline ones, then the last led",
    (
        _TOPIC, _PARTITION,
        ResultColumn("failed_leader", _INT32, "id of the leader that fails"),
        ResultColumn("leader", _INT32, "id of the leader in the end; null: none", True),
        ResultColumn("led_us", _INT64, "when that leader leads, in microseconds after the "
                     "failure; null: never", True),
        ResultColumn("leaderless_us", _INT64, "how long nobody leads it; null: for good", True),
        ResultColumn("leaderless_bytes", _INT64, "what producers write to it meanwhile, until the "
                     "horizon; null: it has no leader for good, or loads are not given", True),
        ResultColumn("visible_us", _INT64, "when the median broker shows that leader; null "
                     "likewise", True),
        ResultColumn("reachable_us", _INT64, "from when on a client's next attempt finds the "
                     "leader: the later one of both, and with loss host not before its timeout; "
                     "null likewise", True),
        ResultColumn("stalled_us", _INT64, "how long its ISR has a member that failed after it is "
                     "led: writes with acks=all wait; null likewise", True),
        ResultColumn("cause", _TEXT, "what it waits for most until it is led: detection, "
                     "controller, store, queue or disk; null likewise", True),
    ),
)
_REFUSED = tuple(
    column for name, meaning in REFUSED_BYTES.items()
    for column in _with_range(name, meaning, "where it does not occur, or loads are not given")
)
_TIMELINE = (
    ResultColumn("scenario", _INT64, "number of the failure: 0, or in a sweep that of its "
                 "scenario"),
    ResultColumn("brokers", _IDS, "ids of the brokers that fail"),
    *_counts(
        ("lost_partitions", "partitions whose leader fails"),
        ("offline_partitions", "those that have no leader in the end"),
        ("under_min_partitions", "partitions that fall under min ISR"),
    ),
    *(column for name, meaning in (*TIMES.items(), *TIMES_IN_SECONDS.items())
      for column in _with_range(name, meaning)),
    *_REFUSED,
    ResultColumn(
        "binding", _TEXT, "what the partition that is led last waits for most: detection, "
        "controller, store, queue or disk; null where none is led again", True,
    ),
    ResultColumn("slowest_broker", _INT32, "id of its leader; null where none is led again", True),
)
TIMELINE_SUMMARY = ResultTable(
    "timeline.summary", "kfast.timeline(state, broker_ids).summary", "one failure", _TIMELINE
)
TIMELINE_SWEEP = ResultTable(
    "timeline.sweep", "kfast.timeline_sweep(state, scenarios).summary",
    "failures, each by itself, in the order of their numbers", _TIMELINE
)
TIMELINE_LEADERLESS = ResultTable(
    "timeline.leaderless", "kfast.timeline(state, broker_ids).leaderless",
    "partitions without a leader over time, in steps: each count holds until the next instant",
    (
        ResultColumn("at_us", _INT64, "microseconds after the failure"),
        *_counts(
            ("leaderless", "partitions without a leader, in the central sample"),
            ("leaderless_low", "5th percentile of leaderless, or leaderless if less"),
            ("leaderless_high", "95th percentile of leaderless, or leaderless if more"),
        ),
    ),
)
TIMELINE_COMPARED = ResultTable(
    "timeline.compared", "kfast.timeline_compare(state, broker_ids).summary",
    "one failure under several variants, in their order",
    (
        ResultColumn("variant", _TEXT, "what differs, as it was given"),
        ResultColumn("controller", _TEXT, "the controller that was simulated"), *_TIMELINE,
    ),
)
TIMELINE_DIFFERENCES = ResultTable(
    "timeline.differences", "kfast.timeline_compare(state, broker_ids).differences",
    "every measure of every variant but the first; ranges of differences are made sample by sample",
    (
        ResultColumn("variant", _TEXT, "what differs, as it was given"),
        ResultColumn("reference", _TEXT, "the first variant"),
        ResultColumn("measure", _TEXT, "a column of timeline.compared: microseconds, or where it "
                     "ends with _s partition-seconds, with _bytes bytes"),
        *_with_range("reference_value", "of the first variant"),
        *_with_range("value", "of this variant"),
        *_with_range("difference", "by how much it is more than that of the first variant"),
        ResultColumn("samples", _INT64, "samples; null where either does not occur", True),
        ResultColumn("lower_samples", _INT64, "those in which it is less; null likewise", True),
    ),
)
FLEET_TIMELINES = ResultTable(
    "fleet.timelines", "kfast.spark.timeline_fleet(...)", "clusters and failures; an export that "
    "cannot be read has one, in which only source and error are not null",
    (*FLEET.columns[:3], *(replace(column, nullable=True) for column in _TIMELINE)),
)
_LEVERS = (
    ResultColumn("name", _TEXT, "name of the parameter or the setting; age or wait: how old the "
                 "last sign of life is, and how long until the next check"),
    ResultColumn("kind", _TEXT, "parameter, setting or phase"),
    ResultColumn("unit", _TEXT, "us, ns for each item, ms, controllers, attempts, or thousandths"),
    *_counts(
        ("value", "what led_max_us follows from"),
        ("low", "least value of a parameter or a phase, half a setting"),
        ("high", "greatest value of a parameter or a phase, twice a setting"),
        ("led_max_us", "when all are led, in the central sample"),
    ),
    *(ResultColumn(name, _INT64, f"led_max_us where this alone {what}; null where Kafka refuses "
                   "such settings", True)
      for name, what in (("led_max_us_at_low", "is low"), ("led_max_us_at_high", "is high"))),
    ResultColumn("effect_us", _INT64, "how far from led_max_us the farther one of both is"),
    ResultColumn("halves_at", _INT64, "greatest value below its own with which this alone halves "
                 "led_max_us; null where none does, and for phases", True),
)
TIMELINE_SENSITIVITY = ResultTable(
    "timeline.sensitivity", "kfast.timeline(state, broker_ids).sensitivity",
    "what led_max_us depends on, in the central sample: the greatest effect first", _LEVERS,
)
_PLANNED = (
    ResultColumn("controller", _TEXT, "the controller that was simulated"),
    ResultColumn("failure", _TEXT, "broker: one broker fails; controller: the active controller "
                 "fails too"),
    *_counts(
        ("n_brokers", "brokers"), ("replication_factor", "replicas of each partition"),
        ("topics", "topics"), ("partitions", "partitions"),
    ),
)
RESTART_TIMES: Mapping[str, str] = {
    "starts_us": "its brokers ask for their controlled shutdown",
    "released_us": "all of them may stop",
    "stopped_us": "all of them have stopped",
    "booted_us": "all of them have registered again",
    "recovered_us": "all of them serve again",
    "caught_up_us": "they lack nothing",
    "in_sync_us": "they are in every ISR again",
    "ends_us": "the next batch may begin",
}
"""When what happens in a batch of a rolling restart, in microseconds after the plan's begin."""

RESTART_SUMS: Mapping[str, str] = {
    "leaderless_partition_s": "partition-seconds without a leader, of partitions whose leader "
    "moves",
    "offline_partition_s": "partition-seconds without a leader, of partitions that have none until "
    "their brokers return",
    "under_min_partition_s": "partition-seconds under min ISR: writes with acks=all are refused",
}
"""Sums over partitions of a rolling restart, in whole seconds."""

_RESTART_COUNTS = _counts(
    ("moved_partitions", "partitions whose leader moves"),
    ("offline_partitions", "partitions without a leader until their brokers return"),
    ("under_min_partitions", "partitions that fall under min ISR"),
)
TIMELINE_RESTART = ResultTable(
    "timeline.restart", "kfast.timeline_restart(state).batches",
    "batches of a rolling restart, in order",
    (
        *_counts(("batch", "number of the batch, from 1")),
        ResultColumn("brokers", _IDS, "ids of its brokers"),
        ResultColumn("controller", _BOOL, "ZooKeeper mode: the controller is one of them"),
        *_RESTART_COUNTS,
        ResultColumn("restore_bytes", _INT64, "what its brokers lack when they return, by the "
                     "central values; null: loads are not given", True),
        *(column for name, meaning in (*RESTART_TIMES.items(), *RESTART_SUMS.items())
          for column in _with_range(name, meaning)),
        ResultColumn("binding", _TEXT, "the stage that lasts longest: shutdown, stop, boot, "
                     "recover, catch-up, ISR or settle"),
    ),
)
TIMELINE_RESTART_SUMMARY = ResultTable(
    "timeline.restart_summary", "kfast.timeline_restart(state).summary",
    "one rolling restart",
    (
        *_counts(
            ("batches", "batches of the plan"), ("brokers", "brokers in them"),
            ("refusing_batches", "batches in which any partition falls under min ISR"),
        ),
        *_RESTART_COUNTS,
        *_with_range("duration_us", "from its begin to the end of the last batch, in microseconds"),
        *(column for name, meaning in RESTART_SUMS.items()
          for column in _with_range(name, meaning)),
    ),
)
TIMELINE_GROWTH = ResultTable(
    "timeline.growth", "kfast.timeline_growth().table", "planned clusters, by controller, failure "
    "and size",
    (
        *_PLANNED,
        *_counts(*((f"{name}_us", f"how long the partition that is led last waits for: {name}")
                   for name in WAITS)),
        *(column for column in _TIMELINE
          if column.name not in ("scenario", "brokers") and column not in _REFUSED),
    ),
)
TIMELINE_GROWTH_SENSITIVITY = ResultTable(
    "timeline.growth_sensitivity", "kfast.timeline_growth().sensitivity",
    "what led_max_us depends on, of each planned cluster the greatest effect first",
    (*_PLANNED, *_LEVERS),
)

RESULTS = (
    BROKERS_TABLE, TOPICS_TABLE, PARTITIONS_TABLE, CLUSTER_TABLE, PROVENANCE, PLAN,
    LOAD_PROVENANCE,
    CENSUS_PARTITIONS,
    CENSUS_PARTITIONS_KRAFT, CENSUS_TOPICS, CENSUS_BROKERS, IMPACT_PARTITIONS,
    IMPACT_PARTITIONS_KRAFT, SURPRISES, IMPACT_TOPICS, IMPACT_BROKERS, IMPACT_REQUESTS,
    REASSIGNMENT_PARTITIONS, REASSIGNMENT_TOPICS, REASSIGNMENT_BROKERS, DELETION_TOPICS,
    DELETION_BROKERS, STEPS, REQUEST_COUNTS, METADATA_RECORDS, ELECTION_REPLIES, TRANSITIONS,
    ELECTIONS, REFUSALS, ADDITIONS, REQUESTS,
    UPDATE_METADATA, UPDATE_METADATA_BROKERS, REPLIES, IMBALANCE, REASSIGNMENTS, SCENARIOS, SWEEP,
    SWEEP_PARTITIONS, SWEEP_BROKERS, CAPACITY_SWEEP, CAPACITY_BROKERS, CAPACITY_FORECAST,
    CAPACITY_FAILURE_BROKERS, CAPACITY_FAILURE_TOPICS, CAPACITY_FAILURE_PARTS,
    PLAN_RULES, PLAN_PARTITIONS, PLAN_BATCHES, PLAN_BROKERS, PLAN_MOVES, PLAN_FAILURES,
    PLAN_OBJECTIVE, PLAN_GOALS, PLAN_UNSCHEDULED,
    CAPACITY_COST, CAPACITY_BOUNDS, CAPACITY_TOO_LARGE, SIZE_BROKERS, RESTORATION,
    COMPARED_FAILURES, COMPARED_PARTITIONS,
    COMPARED_SWEEPS,
    COMPARED_SCENARIOS, DIFF_SETTINGS, DIFF_BROKERS, DIFF_TOPICS, DIFF_PARTITIONS,
    DIFF_MEASURES_TABLE, DIFF_WORST, DIFF_FRAGILE, DIFF_FRAGILE_BROKERS, DIFF_ANSWERS,
    READINESS_BROKERS, READINESS_PARTITIONS, READINESS_TOPICS,
    RESTART_BATCHES, RESTART_BROKERS, RISK_COPYSETS, RISK_BROKERS, RISK_PAIRS, RISK_WORST,
    RISK_LOST, RISK_CHANCES, RISK_DURABILITY, RISK_AVAILABILITY, FACTS, METADATA_FACTS, TIMELINE,
    OUTAGES, REPLAY_REASSIGNMENTS, BROKER_SESSIONS, CONTROLLER_TERMS, REPLICAS_TABLE,
    ASSUMPTIONS_TABLE, FLEET, FLEET_CAPACITY, SHARDED_COUNTS, SHARDED_BROKERS, SHARDED_REQUESTS,
    PREFERRED_LEADERS, SHARDED_TRANSITIONS, SHARDED_ELECTIONS, SHARDED_RECORDS, PIPELINE_RUN,
    PIPELINE_SUMMARIES, PIPELINE_ALERTS, TIMELINE_SUMMARY, TIMELINE_SWEEP, TIMELINE_STAGES,
    TIMELINE_PARTITIONS, TIMELINE_PARAMETERS, TIMELINE_COMPARED, TIMELINE_DIFFERENCES,
    FLEET_TIMELINES, TIMELINE_LEADERLESS, TIMELINE_SENSITIVITY, TIMELINE_GROWTH,
    TIMELINE_GROWTH_SENSITIVITY, TIMELINE_RESTART, TIMELINE_RESTART_SUMMARY,
    TIMELINE_INTERVALS, TIMELINE_FITTED_INTERVALS, TIMELINE_FITTED,
)
"""Every table that kfast gives, in the order of `docs/results.md`."""
