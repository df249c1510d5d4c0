"""ClusterState: a whole cluster as numpy columns.

The columns, their types and their meaning are in `schema.py`; the context that they hold is
docs/controller.md, section 1 (Kafka 3.9, `ControllerContext`).
"""

from __future__ import annotations

import copy as copying
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.arguments import check_topics
from kfast.kernels import census, hosting
from kfast.kernels.columns import ARRAYS, Columns, make_columns
from kfast.schema import PartitionState, ReplicaState
from kfast.state import adding, freeing, mutators, names, queries, saving, survey
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.flat import is_flat
from kfast.state.hosting import HostingIndex
from kfast.state.records import Assignment, Leadership, Replicas, Rows, Tables

FIRST_ROOM = 16384
"""Marked rows that are listed in one pass over a bitmap; more take two."""


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
        return _has(self.broker_status[: self.n_brokers], schema.BROKER_REGISTERED)

    @property
    def shutting_down(self) -> npt.NDArray[np.bool_]:
        """(B,) whether each broker is in controlled shutdown."""
        return _has(self.broker_status[: self.n_brokers], schema.BROKER_SHUTTING_DOWN)

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

    def check_rows(self, rows: npt.ArrayLike) -> Rows:
        """Rows as int32; `RowError` where one is outside the table or stands twice."""
        return queries.check_rows(self, rows)

    def check_row(self, row: int) -> int:
        """Return one row as an int; `RowError` where it is outside the table."""
        return queries.check_row(self, row)

    def find_topics(self, topics: Sequence[str]) -> Rows:
        """Rows of some topics; `ArgumentError` where one is unknown, or was deleted."""
        return queries.find_topics(self, topics)

    def find_brokers(self, broker_ids: Iterable[int]) -> Rows:
        """Rows of some brokers; `ArgumentError` where an id is unknown, or no whole number."""
        return queries.find_brokers(self, broker_ids)

    def broker_row(self, broker_id: int) -> int:
        """Row of a broker id; -1 where it is unknown, or no whole number."""
        return queries.broker_row(self, broker_id)

    def broker_rows(self, broker_ids: npt.NDArray[np.integer]) -> Rows:
        """Rows of some broker ids; -1 where one is unknown."""
        return queries.broker_rows(self, broker_ids)

    def ids_of(self, row: int, mask: int) -> tuple[int, ...]:
        """Broker ids of some slots of a partition, in slot order."""
        return queries.ids_of(self, row, mask)

    def is_replica_online(
        self, broker_id: int, row: int, include_shutting_down: bool = False
    ) -> bool:
        """Whether a replica would be online: liveness only, not assignment or ISR membership."""
        return queries.is_replica_online(self, broker_id, row, include_shutting_down)

    def assignment(self, row: int) -> Assignment:
        """Assignment of a partition; three empty lists where it has none."""
        return queries.assignment(self, row)

    def leadership(self, row: int) -> Leadership | None:
        """Cached leadership of a partition, ISR in slot order; None where there is none."""
        return queries.leadership(self, row)

    def stop_epochs(self, rows: Rows) -> Rows:
        """Leader epochs that StopReplica carries (`leader_epoch` of section 1.5)."""
        return queries.stop_epochs(self, rows)

    def partition_state(self, row: int) -> PartitionState:
        """State of a partition."""
        return queries.partition_state(self, row)

    def replica_states_of(self, row: int) -> dict[int, ReplicaState]:
        """States of a partition's replicas by broker id; brokers without an entry are left out."""
        return queries.replica_states_of(self, row)

    # --- mutators of section 1.6 ----------------------------------------------------------------

    def recount(self) -> None:
        """Make the counters and both bitmaps afresh from the columns."""
        self.leader_offline, self.pending = self.new_bitmap(), self.new_bitmap()
        self.take_counts(census.recount(self.columns))

    def take_counts(self, counts: Sequence[int]) -> None:
        """Set the counters to what `census.recount` counted."""
        self.offline_partition_count, self.preferred_imbalance_count, self.n_led = counts[:3]
        self.any_offline_dir, self.n_reassigned = counts[3] > 0, counts[4]

    def mark_led(self, rows: Rows) -> None:
        """Note that some rows may have another leader."""
        survey.mark_led(self, rows)

    def forget_survey(self) -> None:
        """Note that assignments, leadership or topics changed in ways that nothing marks."""
        survey.forget_survey(self)

    def compact(self) -> Rows:
        """Give the space of free rows and forgotten topics back; rows move up.

        Returns
        -------
        rows : (P,) int32
            Where each row that is left was before.
        """
        return freeing.compact(self)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the whole state to a directory, which is replaced; or leave it as it was.

        Parameters
        ----------
        directory : path
            Where it goes. Its parent must be there; a directory of that name is replaced, but only
            if it holds a saved state or nothing.

        Raises
        ------
        InputError
            Something else is in the way. Nothing is changed.
        """
        saving.save(self, directory)

    def find_replicas(self, replicas: Iterable[tuple[str, int, int]]) -> Replicas:
        """Find (topic, partition, broker id) triples; a broker not tracked yet gets a slot.

        A triple that stands twice counts once. `ArgumentError` where a partition is unknown.
        """
        return mutators.find_replicas(self, replicas)

    def set_assignment(
        self, row: int, replicas: Iterable[int], adding: Iterable[int] = (),
        removing: Iterable[int] = (),
    ) -> None:
        """Replace a partition's assignment (`set_assignment` of section 1.6); ids are broker ids.

        `ArgumentError` where a list names a broker twice. Brokers that `adding` and `removing` name
        need not be assigned.
        """
        mutators.set_assignment(self, row, replicas, adding, removing)

    def set_leadership(
        self, row: int, *, leader: int, isr: Iterable[int], leader_epoch: int = 0, version: int = 0,
        controller_epoch: int | None = None, recovery: int = 0,
    ) -> None:
        """Replace a partition's cached leadership (`put_leadership` of section 1.6)."""
        mutators.set_leadership(
            self, row, leader=leader, isr=isr, leader_epoch=leader_epoch, version=version,
            controller_epoch=controller_epoch, recovery=recovery,
        )

    def set_partition_state(self, row: int, new: PartitionState) -> None:
        """Set a partition's state (`put_partition_state` of section 1.6)."""
        mutators.set_partition_state(self, row, new)

    def set_replica_state(self, row: int, broker_id: int, new: ReplicaState) -> None:
        """Set a replica's state; `ReplicaState.NO_ENTRY` removes it."""
        mutators.set_replica_state(self, row, broker_id, new)

    def set_offline_dir(self, broker_id: int, rows: Rows, offline: bool = True) -> None:
        """Note that a broker's log directories of some partitions are offline, or online again."""
        mutators.set_offline_dir(self, broker_id, rows, offline)

    def add_live_brokers(self, epochs: Mapping[int, int], *, find: bool = True) -> Replicas:
        """Register brokers with their epochs; unknown ones are added. Returns their replicas.

        With `find` false the caller visits their rows: none is returned, and the bitmap of offline
        leaders is left to that visit.
        """
        return mutators.add_live_brokers(self, epochs, find=find)

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> Replicas:
        """Unregister brokers; they stay known, and in the set of those shutting down.

        Returns the replicas assigned to them.
        """
        return mutators.remove_live_brokers(self, broker_ids)

    def set_shutting_down(self, broker_ids: Iterable[int], shutting_down: bool = True) -> Replicas:
        """Put brokers into the set of those in controlled shutdown, or take them out.

        Returns the replicas assigned to them.
        """
        return mutators.set_shutting_down(self, broker_ids, shutting_down)

    def add_partitions(
        self, topics: Sequence[str], partitions: Sequence[int], *, exists: bool = True
    ) -> Rows:
        """Rows of some partitions; unknown ones, and unknown topics, are added without assignment.

        With `exists` false, an added topic is not among the controller's topics.
        """
        return adding.add_partitions(self, topics, partitions, exists=exists)

    def queue_topic_deletion(self, topics: Sequence[str]) -> None:
        """Queue topics for deletion; their partitions no longer count as imbalanced."""
        mutators.queue_topic_deletion(self, topics)

    def clear_offline_dir(self, brokers: Rows) -> None:
        """Forget offline log directories of some broker rows."""
        mutators.clear_offline_dir(self, brokers)

    def refresh_rows(self, rows: Rows) -> None:
        """Bring the bitmap of offline leaders up to date for some rows."""
        mutators.refresh_rows(self, rows)

    def mark_topics_ineligible(self, topics: Rows) -> None:
        """Mark those of some topic rows that are queued as ineligible (section 6.12).

        Where topics cannot be deleted, none is marked.
        """
        mutators.mark_topics_ineligible(self, topics)

    def begin_topic_deletion(self, topics: Sequence[str]) -> None:
        """Mark queued topics as started; their partitions no longer move the offline count."""
        mutators.begin_topic_deletion(self, topics)

    def set_unclean_leader_election(
        self, allowed: bool | None, topics: Sequence[str] | None = None
    ) -> None:
        """Set unclean.leader.election.enable of some topics (None: no override), or the default."""
        mutators.set_unclean_leader_election(self, allowed, topics)
