"""The columns of a cluster as numpy arrays, and what is read from them row by row.

The columns, their types and their meaning are in `schema.py`; questions about partitions are those
of docs/controller.md, section 1.5. `ClusterState` (cluster.py) adds what makes and changes them.
"""

from __future__ import annotations

import bisect
import copy as copying
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import arguments, schema
from kfast.arguments import check_topics, is_whole, whole, whole_numbers
from kfast.errors import ArgumentError, RowError
from kfast.kernels import census, hosting
from kfast.kernels.columns import ARRAYS, Columns, make_columns
from kfast.schema import PartitionState, ReplicaState
from kfast.state.hosting import HostingIndex
from kfast.state.lookup import NameLookup
from kfast.state.quorum import Quorum
from kfast.state.records import Assignment, Leadership, LeaderSurvey, Replicas, Rows, Slots

LISTED_ROWS = 16384
"""Rows that are listed in one pass; more take two."""
NAMED = (
    schema.TOPIC_QUEUED | schema.TOPIC_STARTED | schema.TOPIC_INELIGIBLE | schema.TOPIC_EXISTS
)
"""Flags of a topic that is not forgotten: queued, started, ineligible, exists."""
FEW = 8
"""Brokers that are looked up one by one: arrays would cost more to make."""


def first_slots(n_replicas: npt.NDArray[Any]) -> Slots:
    """Masks of the first n slots each."""
    n = n_replicas.astype(np.uint64)
    some = np.minimum(n, np.uint64(63))
    masks: Slots = (np.uint64(1) << some) - np.uint64(1)
    masks[n >= 64] = ~np.uint64(0)
    return masks


def _has(words: npt.NDArray[np.uint8], flag: int) -> npt.NDArray[np.bool_]:
    holds: npt.NDArray[np.bool_] = (words & flag) != 0
    return holds


def copied_array(values: npt.NDArray[Any], spent: object) -> npt.NDArray[Any]:
    """A copy of an array, in the memory of a spent one where that fits."""
    copied = np.empty(values.shape, values.dtype)
    if (
        isinstance(spent, np.ndarray) and spent.flags.writeable and spent.flags.c_contiguous
        and (spent.shape, spent.dtype) == (values.shape, values.dtype)
    ):
        copied = spent
    if values.flags.c_contiguous:
        # As bytes: numpy copies records field by field, in many times the time.
        np.copyto(copied.reshape(-1).view(np.uint8), values.reshape(-1).view(np.uint8))
    else:
        np.copyto(copied, values)
    return copied


class StateArrays:
    """Brokers, topics, partitions and replicas as columns, and the counters of section 1.6."""

    records: npt.NDArray[Any]
    """(P,) `schema.record_dtype`: the hot fields of each partition."""
    replicas: npt.NDArray[Any]
    """(P, S) broker rows: assigned replicas first."""
    replica_state: npt.NDArray[np.uint8]
    """(P, S) `schema.ReplicaState`."""
    topic_row: Rows
    partition: Rows
    broker_id: Rows
    rack: pa.StringArray
    broker_status: npt.NDArray[np.uint8]
    broker_epoch: npt.NDArray[np.int64]
    topic: pa.StringArray
    topic_id: pa.StringArray
    topic_flags: npt.NDArray[np.uint8]
    topic_unclean_leader_election: npt.NDArray[np.int8]
    topic_min_insync_replicas: Rows
    leader_offline: npt.NDArray[np.uint64]
    """Bitmap over partitions: leadership cached, leader not online."""
    pending: npt.NDArray[np.uint64]
    """Bitmap over partitions: New or Offline."""

    quorum: Quorum | None
    """What only a KRaft cluster has; None of a ZooKeeper cluster."""

    log_settings: Mapping[str, Mapping[str, str]]
    """Settings of topics that a describe text shows, and no controller reads: how large logs
    become. In memory alone; no digest has them."""

    provenance: pa.Table | None
    """`schema.PROVENANCE`: which file gave what; None where nothing was read.
    Arrow and Parquet files keep it, snapshots of `save` do not."""

    def __init__(self) -> None:
        self.controller = schema.DEFAULT_CONTROLLER
        self.quorum = None
        self.log_settings = {}
        self.provenance = None
        self.controller_id = -1
        self.controller_epoch = 0
        self.epoch_store_version = 0
        self.default_unclean_leader_election = False
        self.default_min_insync_replicas = 1
        self.delete_topic_enabled = True
        self.leader_recovery_supported = True
        self.unclean_elections = 0
        self.offline_partition_count = 0
        self.preferred_imbalance_count = 0
        self.any_queued = False
        self.any_offline_dir = False
        self.n_reassigned = 0
        self.n_led = 0
        self.list_orders: dict[tuple[str, int], tuple[int, ...]] = {}
        self.free_rows: Rows = np.empty(0, np.int32)
        self.unwritten_assignments: dict[int, Assignment] = {}
        self.reassignment_targets: dict[int, tuple[int, ...]] = {}
        self.assumptions: tuple[str, ...] = ()
        self._columns: Columns | None = None
        self._index: HostingIndex | None = None
        self._lookup: NameLookup | None = None
        self.survey: LeaderSurvey | None = None

    def copy(self) -> Self:
        """Make an independent copy; immutable Arrow columns and the index are shared."""
        return self._copied({})

    def copy_over(self, spent: Self) -> Self:
        """Make the same in the memory of an earlier copy, which must not be used any more.

        New memory costs several times what is copied into it: the system hands it out page by page.
        """
        return self._copied(vars(spent))

    def _copied(self, spent: Mapping[str, object]) -> Self:
        if self._index is not None:
            self.index_hosting()
        other = copying.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(other, name, copied_array(value, spent.get(name)))
        other.list_orders = dict(self.list_orders)
        other.unwritten_assignments = dict(self.unwritten_assignments)
        other.reassignment_targets = dict(self.reassignment_targets)
        other.survey = other._columns = None
        other.quorum = None if self.quorum is None else self.quorum.copy(other)
        other._index = None if self._index is None else self._index.copy()
        return other

    @property
    def n_brokers(self) -> int:
        """Number of brokers that are known, registered or not."""
        return int(self.broker_id.size)

    @property
    def n_topics(self) -> int:
        """Number of topics."""
        return len(self.topic)

    @property
    def n_partitions(self) -> int:
        """Number of partition rows, free ones included."""
        return int(self.records.size)

    @property
    def n_slots(self) -> int:
        """Width of the replica matrix."""
        return int(self.replicas.shape[1])

    @property
    def is_read_only(self) -> bool:
        """Whether the columns cannot be changed: those of `kfast.open` are shared."""
        return not self.records.flags.writeable

    def check_writable(self) -> None:
        """Raise where no controller can run on it, for every event changes it in place."""
        if self.is_read_only:
            raise ArgumentError(
                "the state is read-only: its columns are shared files; give a copy, state.copy()"
            )

    @property
    def layout(self) -> Literal["narrow", "wide"]:
        """Which of the two layouts holds the state."""
        return "narrow" if self.replicas.dtype == np.uint16 else "wide"

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft controller runs the cluster."""
        return self.quorum is not None

    @property
    def registered(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is registered."""
        return _has(self.broker_status[: self.n_brokers], schema.BROKER_REGISTERED)

    @property
    def shutting_down(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is in controlled shutdown."""
        return _has(self.broker_status[: self.n_brokers], schema.BROKER_SHUTTING_DOWN)

    @property
    def fenced(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is registered, but fenced: only KRaft fences."""
        return _has(self.broker_status[: self.n_brokers], schema.BROKER_FENCED)

    @property
    def up(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is registered and not fenced."""
        return self.registered & ~self.fenced

    @property
    def live(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker may lead: registered, not fenced and not shutting down."""
        return self.up & ~self.shutting_down

    def _topic_flag(self, flag: int) -> npt.NDArray[np.bool_]:
        return _has(self.topic_flags[: self.n_topics], flag)

    @property
    def topic_queued_for_deletion(self) -> npt.NDArray[np.bool_]:
        """(T,) whether deletion was asked for."""
        return self._topic_flag(schema.TOPIC_QUEUED)

    @property
    def topic_deletion_started(self) -> npt.NDArray[np.bool_]:
        """(T,) whether deletion has begun."""
        return self._topic_flag(schema.TOPIC_STARTED)

    @property
    def topic_ineligible(self) -> npt.NDArray[np.bool_]:
        """(T,) whether deletion cannot go on at the moment."""
        return self._topic_flag(schema.TOPIC_INELIGIBLE)

    @property
    def topic_exists(self) -> npt.NDArray[np.bool_]:
        """(T,) whether the controller knows the topic."""
        return self._topic_flag(schema.TOPIC_EXISTS)

    @property
    def columns(self) -> Columns:
        """The arrays as kernels take them; made anew wherever an array was replaced."""
        columns, arrays = self._columns, self.__dict__
        if columns is None or not columns.holds(arrays):
            values: list[Any] = [arrays.get(name) for name in ARRAYS]
            self._columns = columns = make_columns(*values)
        return columns

    def new_bitmap(self) -> npt.NDArray[np.uint64]:
        """Make an empty bitmap over partitions."""
        return np.zeros(max((self.n_partitions + 63) // 64, 1), np.uint64)

    def list_marked(self, bits: npt.NDArray[np.uint64], *, without_queued: bool = False) -> Rows:
        """Rows whose bit is set, ascending; on request without those of queued topics."""
        skip = without_queued and self.any_queued
        rows = np.empty(min(self.n_partitions, LISTED_ROWS), np.int32)
        n = hosting.list_marked(bits, self.topic_row, self.topic_flags, skip, rows)
        if n > rows.size:
            rows = np.empty(n, np.int32)
            hosting.list_marked(bits, self.topic_row, self.topic_flags, skip, rows)
        return rows[:n]

    @property
    def lookup(self) -> NameLookup:
        """Where each topic and partition stands; made when it is first needed."""
        if self._lookup is None:
            self._lookup = NameLookup(self.topic, self.topic_row, self.partition)
        return self._lookup

    def find_partitions(self, partitions: Iterable[tuple[str, int]]) -> Rows:
        """Rows of some (topic, partition) pairs; `ArgumentError` where one is unknown."""
        return self.lookup.partitions(partitions)

    def topic_partitions(self, topic: str) -> Rows:
        """Rows of a topic's partitions that have an assignment, ascending; empty if unknown."""
        row = self.lookup.topic_or_none(check_topics("topic", [topic])[0])
        if row is None:
            return np.empty(0, np.int32)
        assigned = (self.records["flags"] & schema.FLAG_ASSIGNED) != 0
        return np.flatnonzero((self.topic_row == row) & assigned).astype(np.int32)

    def replicas_of(self, rows: npt.ArrayLike) -> Replicas:
        """All assigned replicas of some partitions."""
        ordered = np.sort(self.check_rows(rows))
        slots = first_slots(self.records["n_replicas"][ordered])
        return Replicas(ordered[slots != 0], slots[slots != 0])

    def replicas_on(
        self, brokers: Rows, *, assigned_only: bool = True, refresh: bool = False
    ) -> Replicas:
        """Replicas on some broker rows; on request also where a broker is only tracked.

        With `refresh`, the bitmap of offline leaders is brought up to date for these rows: what
        follows a change of the brokers' liveness.
        """
        chosen = np.zeros(max(self.n_brokers, 1), np.uint8)
        chosen[brokers] = 1
        rows = self.rows_tracking(brokers)
        tracked = np.empty(rows.size, np.int32)
        slots = np.empty(rows.size, np.uint64)
        n = hosting.select_slots(
            self.columns, chosen, rows, assigned_only, refresh and not self.is_kraft, tracked,
            slots,
        )
        return Replicas(tracked[:n], slots[:n])

    def rows_tracking(self, brokers: Rows) -> Rows:
        """Rows, ascending, that may track one of some broker rows; the index only hints."""
        index = self.index_hosting()
        if not index.is_made:
            return self._scan_tracking(index, brokers)
        if brokers.size == 1 and not index.appended:
            return index.rows_of(int(brokers[0]))
        marked = self.new_bitmap()
        index.mark(brokers, marked)
        return self.list_marked(marked)

    def _scan_tracking(self, index: HostingIndex, brokers: Rows) -> Rows:
        """Rows, ascending, that track one of some broker rows, from all rows."""
        index.scans_left -= 1
        chosen = np.zeros(max(self.n_brokers, 1), np.uint8)
        chosen[brokers] = 1
        rows = np.empty(min(self.n_partitions, LISTED_ROWS), np.int32)
        n = hosting.find_tracking(self.columns, chosen, rows)
        if n > rows.size:
            rows = np.empty(n, np.int32)
            hosting.find_tracking(self.columns, chosen, rows)
        return rows[:n]

    def index_hosting(self, counts: npt.NDArray[np.int64] | None = None) -> HostingIndex:
        """The hosting index; made where there is none, or where too much was appended.

        `counts` as for `HostingIndex`, from a caller that has counted.
        """
        if self._index is None or self._index.is_stale:
            self._index = HostingIndex(self.columns, self.n_brokers, counts)
        return self._index

    def defer_hosting(self) -> None:
        """Make the hosting index when it is first needed, or when the state is first copied."""
        if self._index is None:
            self._index = HostingIndex.scanning(0)

    def scan_hosting(self) -> None:
        """Make no hosting index before many look-ups want one: for a state of few events."""
        self._index = HostingIndex.scanning()

    def replicas_on_brokers(self, broker_ids: Iterable[int]) -> Replicas:
        """All replicas assigned to some brokers (section 1.5, `replicas_on_brokers`)."""
        return self.replicas_on(self.find_brokers(broker_ids))

    def recount(self) -> None:
        """Make the counters and both bitmaps afresh from the columns."""
        self.leader_offline, self.pending = self.new_bitmap(), self.new_bitmap()
        if self.quorum is None:
            self.take_counts(census.recount(self.columns))
        else:
            self.quorum.recount()

    def take_counts(self, counts: Sequence[int]) -> None:
        """Set the counters to what `census.recount` counted."""
        self.offline_partition_count, self.preferred_imbalance_count, self.n_led = counts[:3]
        self.any_offline_dir, self.n_reassigned = counts[3] > 0, counts[4]

    def mark_led(self, rows: Rows) -> None:
        """Note that some rows may have another leader."""
        if self.survey is not None:
            hosting.mark_rows(rows, self.survey.bits)

    def forget_survey(self) -> None:
        """Note that assignments, leadership or topics changed in ways that nothing marks."""
        self.survey = None

    def refresh_unclean(self) -> None:
        """Make the flag that says whether unclean election is allowed for each topic."""
        override = self.topic_unclean_leader_election
        allowed = np.where(override < 0, self.default_unclean_leader_election, override > 0)
        flags, unclean = self.topic_flags[: override.size], schema.TOPIC_UNCLEAN
        flags[:] = np.where(allowed, flags | unclean, flags & (255 - unclean))

    def refresh_rows(self, rows: Rows) -> None:
        """Bring the bitmap of offline leaders up to date for some rows.

        In KRaft it is that of leaderless partitions, which no broker's liveness changes.
        """
        if not self.is_kraft:
            hosting.refresh_leader_offline(self.columns, rows)

    def check_rows(self, rows: npt.ArrayLike) -> Rows:
        """Rows as int32; `RowError` where one is outside the table or stands twice."""
        if not (isinstance(rows, np.ndarray) and rows.dtype == np.int32 and rows.ndim == 1):
            rows = whole_numbers("rows", [rows] if is_whole(rows) else rows, what="partition rows")
        outside = (rows < 0) | (rows >= self.n_partitions)
        if outside.any():
            item = int(np.flatnonzero(outside)[0])
            raise RowError(
                f"partition row {rows[item]} (item {item + 1} of {rows.size}) is outside "
                f"0..{self.n_partitions - 1}; nothing was changed"
            )
        checked = np.ascontiguousarray(rows, np.int32)
        if self.free_rows.size and (self.partition[checked] < 0).any():
            item = int(np.argmin(self.partition[checked]))
            raise RowError(
                f"partition row {checked[item]} (item {item + 1} of {checked.size}) is free: its "
                "topic was deleted; nothing was changed"
            )
        if checked.size > 1 and not (checked[1:] > checked[:-1]).all():
            order = np.sort(checked)
            twice = order[1:][order[1:] == order[:-1]]
            if twice.size:
                raise RowError(f"partition row {twice[0]} is listed twice; nothing was changed")
        return checked

    def check_row(self, row: int) -> int:
        """Return one row as an int; `RowError` where it is outside the table."""
        return whole("partition row", row, 0, self.n_partitions - 1, RowError)

    def is_replica_online(
        self, broker_id: int, row: int, include_shutting_down: bool = False
    ) -> bool:
        """Whether a replica would be online: liveness only, not assignment or ISR membership."""
        at, row = self.broker_row(broker_id), self.check_row(row)
        if at < 0:
            return False
        status = int(self.broker_status[at])
        if not status & schema.BROKER_REGISTERED or status & schema.BROKER_FENCED:
            return False
        if status & schema.BROKER_SHUTTING_DOWN and not include_shutting_down:
            return False
        return broker_id not in self.ids_of(row, int(self.records["offline_dir"][row]))

    def live_slots(self, rows: Rows) -> Slots:
        """(n,) slots of each row whose replica is online, as masks (`isReplicaOnline`)."""
        live = np.empty(rows.size, np.uint64)
        hosting.live_slots(self.columns, rows, live, np.empty_like(live))
        return live

    def ids_of(self, row: int, mask: int) -> tuple[int, ...]:
        """Broker ids of some slots of a partition, in slot order."""
        if not mask:
            return ()
        return tuple(
            int(self.broker_id[self.replicas[row, s]]) for s in range(self.n_slots) if mask >> s & 1
        )

    def assignment(self, row: int) -> Assignment:
        """Assignment of a partition; three empty lists where it has none."""
        row = self.check_row(row)
        record = self.records[row]
        assigned = (1 << int(record["n_replicas"])) - 1
        return Assignment(
            self.ids_of(row, assigned), self.ordered_ids(row, "adding"),
            self.ordered_ids(row, "removing"),
        )

    def ordered_ids(self, row: int, name: str) -> tuple[int, ...]:
        """Ids of an adding or removing list, in the order it was given.

        Without one they are in the order of the slots, in KRaft ascending, as its plans make them.
        """
        ids = self.ids_of(row, int(self.records[name][row]))
        if len(ids) < 2:
            return ids
        order = self.list_orders.get((name, row), sorted(ids) if self.is_kraft else ())
        return tuple(sorted(ids, key=lambda b: order.index(b) if b in order else len(order)))

    def leadership(self, row: int) -> Leadership | None:
        """Cached leadership of a partition, ISR in slot order; None where there is none."""
        row = self.check_row(row)
        record = self.records[row]
        if not int(record["flags"]) & schema.FLAG_HAS_LEADERSHIP:
            return None
        leader = int(record["leader"])
        return Leadership(
            int(self.broker_id[leader]) if leader >= 0 else leader,
            int(record["leader_epoch"]),
            self.ids_of(row, int(record["isr"])),
            int((int(record["flags"]) & schema.FLAG_RECOVERY) != 0),
            int(record["version"]),
            int(record["controller_epoch"]),
        )

    def stop_epochs(self, rows: Rows) -> Rows:
        """Leader epochs that StopReplica carries (`leader_epoch` of section 1.5)."""
        records = self.records.take(rows)
        led = (records["flags"] & schema.FLAG_HAS_LEADERSHIP) != 0
        epochs = np.where(led, records["leader_epoch"], schema.NO_EPOCH)
        epochs[self.topic_queued_for_deletion[self.topic_row[rows]]] = schema.EPOCH_DURING_DELETE
        return epochs.astype(np.int32)

    def partition_state(self, row: int) -> PartitionState:
        """State of a partition."""
        return PartitionState(int(self.records["partition_state"][self.check_row(row)]))

    def replica_states_of(self, row: int) -> dict[int, ReplicaState]:
        """States of a partition's replicas by broker id; brokers without an entry are left out."""
        row = self.check_row(row)
        n_slots = int(self.records["n_slots"][row])
        ids, states = self.broker_id[self.replicas[row, :n_slots]], self.replica_state[row]
        return {b: ReplicaState(int(states[s])) for s, b in enumerate(ids.tolist()) if states[s]}

    def broker_row(self, broker_id: int) -> int:
        """Row of a broker id; -1 where it is unknown, or no whole number."""
        if not is_whole(broker_id):
            return -1
        row = bisect.bisect_left(self.broker_id, broker_id)
        return row if row < self.n_brokers and self.broker_id[row] == broker_id else -1

    def broker_rows(self, broker_ids: npt.NDArray[np.integer]) -> Rows:
        """Rows of some broker ids; -1 where one is unknown."""
        if broker_ids.size <= FEW:
            return np.asarray([self.broker_row(b) for b in broker_ids.tolist()], np.int32)
        last = int(self.broker_id[-1]) if self.n_brokers else -1
        if last > 4 * broker_ids.size + 1024:
            at = np.searchsorted(self.broker_id, broker_ids).astype(np.int32)
            found = np.append(self.broker_id, -1)[at] == broker_ids
            return np.where(found & (at < self.n_brokers), at, -1).astype(np.int32)
        table = np.full(last + 2, -1, np.int32)
        table[self.broker_id] = np.arange(self.n_brokers)
        inside = (broker_ids >= 0) & (broker_ids <= last)
        rows: Rows = table[np.where(inside, broker_ids, last + 1)]
        return rows

    def find_topics(self, topics: Sequence[str]) -> Rows:
        """Rows of some topics; `ArgumentError` where one is unknown, or was deleted."""
        names = arguments.check_topics("topics", topics)
        rows = self.lookup.topics(names)
        for name, row in zip(names, rows.tolist(), strict=True):
            named = row >= 0 and self.topic_flags[row] & NAMED
            if not named and (row < 0 or not self.lookup.rows_of_topic(row).size):
                raise ArgumentError(f"topic {name!r} is unknown")
        return rows

    def find_brokers(self, broker_ids: Iterable[int]) -> Rows:
        """Rows of some brokers; `ArgumentError` where an id is unknown, or no whole number."""
        ids = arguments.broker_ids("broker_ids", broker_ids)
        rows = self.broker_rows(ids)
        if ids.size and rows.min() < 0:
            unknown = ids[rows < 0][:5].tolist()
            raise ArgumentError(
                f"broker{'s' * (len(unknown) > 1)} {', '.join(map(str, unknown))}"
                f" {'are' if len(unknown) > 1 else 'is'} unknown; the cluster has"
                f" {self._some_brokers()}; {how_to_add(unknown[0])}"
            )
        return rows

    def _some_brokers(self) -> str:
        if self.n_brokers == 0:
            return "no brokers"
        ids = ", ".join(map(str, self.broker_id[:12].tolist()))
        return f"brokers {ids}" + (f", ... {self.broker_id[-1]}" if self.n_brokers > 12 else "")


def how_to_add(broker_id: int) -> str:
    """Say how a broker that an export does not name comes into the cluster that is read from it."""
    return (
        "a broker that an export does not name comes by a brokers file, or by add_brokers"
        f" (--add-brokers {broker_id}:rack=RACK)"
    )
