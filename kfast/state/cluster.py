"""ClusterState: a whole cluster as numpy columns.

The columns, their types and their meaning are in `schema.py`; the context that they hold is
docs/controller.md, section 1 (Kafka 3.9, `ControllerContext`).
"""

from __future__ import annotations

import copy as copying
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.arguments import check_topics
from kfast.kernels import census, hosting
from kfast.kernels.columns import ARRAYS, Columns, make_columns
from kfast.state import adding, freeing, mutators, names, queries, saving, survey
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.flat import is_flat
from kfast.state.hosting import HostingIndex
from kfast.state.records import Assignment, Replicas, Rows, Tables

BROKER_REGISTERED, BROKER_SHUTTING_DOWN = 1, 2
FIRST_ROOM = 16384
"""Marked rows that are listed in one pass over a bitmap; more take two."""

TOPIC_QUEUED, TOPIC_STARTED, TOPIC_INELIGIBLE, TOPIC_EXISTS, TOPIC_UNCLEAN = 1, 2, 4, 8, 16


def _has(words: npt.NDArray[np.uint8], flag: int) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (words & flag) != 0
    return found


class ClusterState:
    """A cluster: brokers, topics, partitions and replicas as columns, and the counters of 1.6.

    Make one with `from_tables`, `kfast.read` or `kfast.generate`. Rows are 0-based places in a
    table; broker rows are in the order of broker ids. The columns may be read freely; they are
    changed by the machines, the controller and the mutators of section 1.6 below, which keep the
    counters and bitmaps.
    """

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

    def __init__(self) -> None:
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
        self.odd_orders: dict[tuple[str, int], tuple[int, ...]] = {}
        self.free_rows: Rows = np.empty(0, np.int32)
        self.unwritten_assignments: dict[int, Assignment] = {}
        self.reassignment_targets: dict[int, tuple[int, ...]] = {}
        self.assumptions: tuple[str, ...] = ()
        self._columns: Columns | None = None
        self._index: HostingIndex | None = None
        self._lookup: names.Lookup | None = None
        self.survey: survey.Survey | None = None

    @classmethod
    def from_tables(
        cls,
        brokers: pa.Table | None = None,
        topics: pa.Table | None = None,
        partitions: pa.Table | None = None,
        cluster: pa.Table | None = None,
        *,
        source: str | None = None,
        notes: Sequence[str] = (),
        layout: Literal["narrow", "wide"] | None = None,
    ) -> ClusterState:
        """Make a cluster from Arrow tables with ids and list columns.

        Parameters
        ----------
        brokers, topics, partitions, cluster : pa.Table, optional
            Columns as `kfast schema` prints them, or partitions in the form of `kfast.state.flat`.
            Key columns must be there (broker_id; topic; topic and partition); any other may be
            missing or null, and gets Kafka's default.
            `partitions` may have a column `line` (int32): where the row stands in the source.
        source : str, optional
            Name of the file, for messages.
        notes : sequence of str
            What a reader assumed; put before what is assumed here.
        layout : {"narrow", "wide"}, optional
            Force a layout; by default the narrow one is taken where it fits.

        Returns
        -------
        ClusterState
            With every assumption listed in `assumptions`.

        Raises
        ------
        InputError
            A partition stands twice, a list names a broker twice, an id is negative, a partition
            names more than 64 brokers, a key is null, or a column has another type.
        """
        from kfast.state.loading import load

        if is_flat(partitions):
            from kfast.state.loading_flat import load as load_flat

            return load_flat(brokers, topics, partitions, cluster, source, notes, layout)
        return load(cls(), brokers, topics, partitions, cluster, source, notes, layout)

    @classmethod
    def from_assignment(
        cls,
        *,
        broker_id: Rows,
        rack: pa.StringArray | None,
        topic: pa.StringArray,
        topic_row: Rows,
        partition: Rows,
        replicas: npt.NDArray[Any],
        topic_min_insync_replicas: Rows | None = None,
        topic_unclean_leader_election: npt.NDArray[np.int8] | None = None,
    ) -> ClusterState:
        """Make a fresh cluster from an assignment: the first replica leads, all are in sync.

        Parameters
        ----------
        broker_id : (B,) int32
            Ids, ascending; all are registered.
        rack : (B,) string or None
        topic : (T,) string
        topic_row, partition : (P,) int32
        replicas : (P, RF) uint16 or int32
            Broker rows, all different within a row; uint16 makes the narrow layout.
        topic_min_insync_replicas : (T,) int32, optional
            -1 for the broker default.
        topic_unclean_leader_election : (T,) int8, optional
            -1 for the broker default.
        """
        from kfast.state.loading import fresh

        return fresh(
            cls(), broker_id, rack, topic, topic_row, partition, replicas,
            topic_min_insync_replicas, topic_unclean_leader_election,
        )

    def to_tables(self, *, flat: bool = False) -> Tables:
        """All of the state as Arrow tables with ids; `from_tables` makes the same state of them.

        With `flat`, the partitions have plain integers instead of lists (`kfast.state.flat`);
        `ArgumentError` where they cannot.
        """
        from kfast.state.tables import to_tables

        return to_tables(self, flat=flat)

    def copy(self) -> ClusterState:
        """Make an independent copy; immutable Arrow columns and the index are shared."""
        other = copying.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(other, name, value.copy())
        other.odd_orders = dict(self.odd_orders)
        other.unwritten_assignments = dict(self.unwritten_assignments)
        other.reassignment_targets = dict(self.reassignment_targets)
        other.survey = other._columns = None
        other._index = None if self._index is None else self._index.copy()
        return other

    def _summary(self) -> Summary:
        if "records" not in vars(self):
            return "ClusterState", {"without tables": True}
        return "ClusterState", {
            "brokers": self.n_brokers,
            "registered": int(self.registered.sum()),
            "racks": len(self.rack.unique().drop_null()),
            "topics": int(self.topic_exists.sum()),
            "partitions": self.n_partitions - self.free_rows.size,
            "assumptions": len(self.assumptions),
            "read-only": self.is_read_only,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterState) and self.difference(other) is None

    def difference(self, other: ClusterState) -> str | None:
        """Say which table, row and column differ first; None where the states are equal."""
        from kfast.state.compare import difference

        return difference(self, other)

    def digest(self) -> int:
        """One number (64 bits) for the whole state.

        It is the same on every machine, for every thread count, layout and order of partition
        rows; NonExistent states and missing entries count alike.
        """
        from kfast.state.compare import digest

        return digest(self)

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

    @property
    def layout(self) -> Literal["narrow", "wide"]:
        """Which of the two layouts holds the state."""
        return "narrow" if self.replicas.dtype == np.uint16 else "wide"

    @property
    def registered(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is registered."""
        return _has(self.broker_status[: self.n_brokers], BROKER_REGISTERED)

    @property
    def shutting_down(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is in controlled shutdown."""
        return _has(self.broker_status[: self.n_brokers], BROKER_SHUTTING_DOWN)

    def _topic_flag(self, flag: int) -> npt.NDArray[np.bool_]:
        return _has(self.topic_flags[: self.n_topics], flag)

    @property
    def topic_queued_for_deletion(self) -> npt.NDArray[np.bool_]:
        """(T,) whether deletion was asked for."""
        return self._topic_flag(TOPIC_QUEUED)

    @property
    def topic_deletion_started(self) -> npt.NDArray[np.bool_]:
        """(T,) whether deletion has begun."""
        return self._topic_flag(TOPIC_STARTED)

    @property
    def topic_ineligible(self) -> npt.NDArray[np.bool_]:
        """(T,) whether deletion cannot go on at the moment."""
        return self._topic_flag(TOPIC_INELIGIBLE)

    @property
    def topic_exists(self) -> npt.NDArray[np.bool_]:
        """(T,) whether the controller knows the topic."""
        return self._topic_flag(TOPIC_EXISTS)

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
        rows = np.empty(min(self.n_partitions, FIRST_ROOM), np.int32)
        n = hosting.list_marked(bits, self.topic_row, self.topic_flags, skip, rows)
        if n > rows.size:
            rows = np.empty(n, np.int32)
            hosting.list_marked(bits, self.topic_row, self.topic_flags, skip, rows)
        return rows[:n]

    @property
    def lookup(self) -> names.Lookup:
        """Where each topic and partition stands; made when it is first needed."""
        if self._lookup is None:
            self._lookup = names.Lookup(self)
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
        n = self.records["n_replicas"][ordered].astype(np.uint64)
        one = np.uint64(1)
        slots = np.where(n >= 64, ~np.uint64(0), (one << np.minimum(n, np.uint64(63))) - one)
        kept = slots != 0
        return Replicas(ordered[kept], slots[kept])

    def replicas_on(
        self, brokers: Rows, *, assigned_only: bool = True, refresh: bool = False
    ) -> Replicas:
        """Replicas on some broker rows; on request also where a broker is only tracked.

        With `refresh`, the bitmap of offline leaders is brought up to date for these rows: what
        follows a change of the brokers' liveness.
        """
        index = self.index_hosting()
        return index.select(self, brokers, assigned_only=assigned_only, refresh=refresh)

    def index_hosting(self, counts: npt.NDArray[np.int64] | None = None) -> HostingIndex:
        """The hosting index; made where there is none, or where too much was appended.

        `counts` as for `HostingIndex`, from a caller that has counted.
        """
        if self._index is None or self._index.is_stale:
            self._index = HostingIndex(self, counts)
        return self._index

    def scan_hosting(self) -> None:
        """Make no hosting index before many look-ups want one: for a state of few events."""
        self._index = HostingIndex.scanning()

    def replicas_on_brokers(self, broker_ids: Iterable[int]) -> Replicas:
        """All replicas assigned to some brokers (section 1.5, `replicas_on_brokers`)."""
        return self.replicas_on(self.find_brokers(broker_ids))

    # --- queries of section 1.5 -----------------------------------------------------------------

    check_rows = queries.check_rows
    check_row = queries.check_row
    find_topics = queries.find_topics
    find_brokers = queries.find_brokers
    broker_row = queries.broker_row
    broker_rows = queries.broker_rows
    ids_of = queries.ids_of
    is_replica_online = queries.is_replica_online
    assignment = queries.assignment
    leadership = queries.leadership
    stop_epochs = queries.stop_epochs
    partition_state = queries.partition_state
    replica_states_of = queries.replica_states_of

    # --- mutators of section 1.6 ----------------------------------------------------------------

    def recount(self) -> None:
        """Make the counters and both bitmaps afresh from the columns."""
        self.leader_offline, self.pending = self.new_bitmap(), self.new_bitmap()
        self.take_counts(census.recount(self.columns))

    def take_counts(self, counts: Sequence[int]) -> None:
        """Set the counters to what `census.recount` counted."""
        self.offline_partition_count, self.preferred_imbalance_count, self.n_led = counts[:3]
        self.any_offline_dir, self.n_reassigned = counts[3] > 0, counts[4]

    mark_led = survey.mark_led
    forget_survey = survey.forget_survey
    compact = freeing.compact
    save = saving.save
    find_replicas = mutators.find_replicas
    set_assignment = mutators.set_assignment
    set_leadership = mutators.set_leadership
    set_partition_state = mutators.set_partition_state
    set_replica_state = mutators.set_replica_state
    set_offline_dir = mutators.set_offline_dir
    add_live_brokers = mutators.add_live_brokers
    remove_live_brokers = mutators.remove_live_brokers
    set_shutting_down = mutators.set_shutting_down
    add_partitions = adding.add_partitions
    queue_topic_deletion = mutators.queue_topic_deletion
    clear_offline_dir = mutators.clear_offline_dir
    refresh_rows = mutators.refresh_rows
    mark_topics_ineligible = mutators.mark_topics_ineligible
    begin_topic_deletion = mutators.begin_topic_deletion
    set_unclean_leader_election = mutators.set_unclean_leader_election
