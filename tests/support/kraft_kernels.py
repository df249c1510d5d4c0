"""KRaft partitions in the arrays that kernels work on, beside the twin that has the same ones.

Cold arrays are allocated when `apply` finds them missing, as a state does, or from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kfast import schema
from kfast.kernels import partition_changes
from kfast.kernels.change_log import ChangeLog
from kfast.kernels.columns import make_columns
from kfast.kernels.quorum_columns import QuorumColumns
from kfast.kernels.quorum_rules import QuorumRules
from kfast.state.changes import Missing
from kfast.state.kraft_releases import LastKnownLeader
from kfast.state.metadata_records import LOST, MIGRATING, UNASSIGNED, PartitionChangeRecord
from kfast.state.quorum import NO_LAST_KNOWN
from kfast.state.registrations import PartitionRegistration
from tests.support.kraft_reference.hash_orders import TopicIdPartition
from tests.support.kraft_reference.state import ClusterState


class KernelCluster:
    """The partitions of a twin as arrays.

    Parameters
    ----------
    twin : ClusterState
    layout : str
        `narrow` or `wide`; it becomes wide when it must.
    allocated : bool
        Cold arrays are there from the start.
    """

    def __init__(self, twin: ClusterState, layout: str = "narrow", allocated: bool = False):
        self.twin = twin
        self.places = [
            TopicIdPartition(topic.id, number)
            for topic in twin.topics.values() for number in sorted(topic.partitions)
        ]
        partitions = [twin.partition(place) for place in self.places]
        named = {b for p in partitions for b in (*p.replicas, *p.isr, *p.elr, *p.last_known_elr)}
        named |= {b for p in partitions for b in (*p.removing, *p.adding, p.leader)}
        self.ids = sorted({*named, *twin.brokers} - {-1})
        self.directories: list[str] = [MIGRATING, UNASSIGNED, LOST]
        self.layout = layout
        self._allocate(4)
        if allocated:
            self._add(Missing.ELR | Missing.ORDERS | Missing.DIRECTORIES)
        log = ChangeLog()
        for row, partition in enumerate(partitions):
            self._append(log, row, partition)
        self.apply(log)
        for row, partition in enumerate(partitions):
            self.records["leader_epoch"][row] = partition.leader_epoch
            self.records["version"][row] = partition.partition_epoch

    # --------------------------------------------------------------------------------- the arrays

    def _allocate(self, n_slots: int) -> None:
        n, narrow = len(self.places), self.layout == "narrow"
        self.records = np.zeros(n, schema.record_dtype(narrow))
        self.records["leader"] = -1
        self.records["flags"] = schema.FLAG_ASSIGNED | schema.FLAG_HAS_LEADERSHIP
        null = schema.NARROW_BROKERS if narrow else -1
        self.replicas = np.full((n, n_slots), null, np.uint16 if narrow else np.int32)
        self.elr = self.last_known = self.orders = self.directory = None
        self.leader_offline = np.zeros((n + 63) // 64, np.uint64)

    def _grow(self, n_slots: int) -> None:
        """More slots; a wide layout where a narrow one has no room."""
        widens = self.layout == "narrow" and n_slots > schema.NARROW_SLOTS
        old, width = self.replicas, self.replicas.shape[1]
        records, elr = self.records, self.elr
        if widens:
            self.layout = "wide"
            self.records = np.zeros(len(records), schema.record_dtype(False))
            for name in records.dtype.names:
                self.records[name] = records[name]
            if elr is not None:
                self.elr = elr.astype(np.uint64)
        null = schema.NARROW_BROKERS if self.layout == "narrow" else -1
        dtype = np.uint16 if self.layout == "narrow" else np.int32
        self.replicas = np.full((len(records), n_slots), null, dtype)
        used = np.arange(width) < records["n_slots"][:, None]
        self.replicas[:, :width] = np.where(used, old.astype(np.int64), null)
        for name, null in (("orders", 255), ("directory", -1)):
            matrix = getattr(self, name)
            if matrix is not None:
                wider = np.full((len(records), n_slots), null, matrix.dtype)
                wider[:, :width] = matrix
                setattr(self, name, wider)

    def _add(self, missing: Missing) -> None:
        """Allocate what is missing, with what None stands for."""
        n, width = self.replicas.shape
        if missing & Missing.ELR:
            self.elr = np.zeros(n, self.records["isr"].dtype)
            self.last_known = np.full(n, NO_LAST_KNOWN, np.int32)
        if missing & Missing.ORDERS:
            self.orders = np.full((n, width), 255, np.uint8)
            for row in range(n):
                masks = [self.records["isr"][row], 0 if self.elr is None else self.elr[row]]
                slots = [s for mask in masks for s in range(width) if int(mask) >> s & 1]
                self.orders[row, : len(slots)] = slots
        if missing & Missing.DIRECTORIES:
            self.directory = np.where(
                np.arange(width) < self.records["n_replicas"][:, None], 0, -1
            ).astype(np.int32)

    @property
    def columns(self) -> QuorumColumns:
        """Columns of the arrays as they are now."""
        topics = list(self.twin.topics)
        topic_row = np.array([topics.index(p.topic_id) for p in self.places], np.int32)
        self.status = np.array([self._status(broker) for broker in self.ids], np.uint8)
        columns = make_columns(
            self.records, self.replicas, np.zeros(self.replicas.shape, np.uint8), self.status,
            topic_row, np.array([p.partition_id for p in self.places], np.int32),
            np.zeros(len(topics), np.uint8), self.leader_offline,
            np.zeros_like(self.leader_offline),
        )
        return QuorumColumns(
            columns, np.array(self.ids, np.int32), self.elr, self.last_known, self.orders,
            self.directory,
        )

    def _status(self, broker: int) -> int:
        known = self.twin.brokers.get(broker)
        if known is None:
            return 0
        return (
            schema.BROKER_REGISTERED | schema.BROKER_FENCED * known.fenced
            | schema.BROKER_SHUTTING_DOWN * known.in_controlled_shutdown
        )

    @property
    def rules(self) -> QuorumRules:
        """Rules of the twin's release, features and configurations as they are now."""
        twin, release, level = self.twin, self.twin.release, self.twin.metadata_version
        topics = list(twin.topics.values())
        begin, listed = [0], []
        for broker in self.ids:
            known = twin.brokers.get(broker)
            listed += [self.number_of(d) for d in known.directories] if known else []
            begin.append(len(listed))
        gate = level.is_leader_epoch_bump_required_on_isr_shrink
        min_insync = [int(twin.topic_config(t.name, "min.insync.replicas")) for t in topics]
        return QuorumRules(
            completion=release.completion,
            elr_on=twin.elr_on,
            knows_leader_of_empty_isr=release.last_known_leader is LastKnownLeader.EMPTY_ISR,
            last_known_must_be_acceptable=release.last_known_leader_must_be_acceptable,
            bumps_on_shrink=gate or release.shrink_bump_always,
            bumps_by_target=release.shrink_bump_by_target,
            recovery_supported=level.is_leader_recovery_supported,
            directories_on=level.is_directory_assignment_supported,
            min_insync=np.array(min_insync, np.int32),
            first_partition=np.array(
                [self.places.index(TopicIdPartition(t.id, 0)) for t in topics], np.int32
            ),
            unclean=np.array([twin.unclean(t) for t in topics], bool),
            directory_begin=np.array(begin, np.int32),
            directories=np.array(listed, np.int32),
        )

    # ------------------------------------------------------------------------------- ids and rows

    def number_of(self, directory: str) -> int:
        """Number of a directory, a new one where it has none."""
        if directory not in self.directories:
            self.directories.append(directory)
        return self.directories.index(directory)

    def rows_of(self, brokers: Sequence[int]) -> list[int]:
        """Rows of broker ids; the id -1 stays."""
        return [-1 if broker == -1 else self.ids.index(broker) for broker in brokers]

    def ids_of(self, rows: Sequence[int]) -> tuple[int, ...]:
        """Ids of broker rows."""
        return tuple(-1 if row == -1 else self.ids[row] for row in rows)

    def row_of(self, place: TopicIdPartition) -> int:
        """Row of a partition."""
        return self.places.index(place)

    # ---------------------------------------------------------------------------- changes, records

    def _append(self, log: ChangeLog, row: int, partition: PartitionRegistration) -> None:
        """All fields of a partition as a change."""
        known = self.rows_of(partition.last_known_elr)
        log.append(
            row, isr=self.rows_of(partition.isr), replicas=self.rows_of(partition.replicas),
            leader=self.rows_of([partition.leader])[0], recovery=partition.recovery,
            removing=self.rows_of(partition.removing), adding=self.rows_of(partition.adding),
            elr=self.rows_of(partition.elr), last_known=known[0] if known else NO_LAST_KNOWN,
            directories=[self.number_of(d) for d in partition.directories],
        )

    def apply(self, log: ChangeLog) -> None:
        """Apply all changes, allocating what is missing."""
        while missing := Missing(partition_changes.apply(self.columns, log)):
            if missing & Missing.SLOTS:
                self._grow(log.slots_needed)
            self._add(missing & ~Missing.SLOTS)

    def record(self, log: ChangeLog, index: int) -> PartitionChangeRecord:
        """The record that a change is."""
        fields = log.fields_of(index)
        place = self.places[log.changes["row"][index]]
        lists = {
            name: self.ids_of(fields[key]) if key in fields else None
            for name, key in (
                ("isr", "isr"), ("replicas", "replicas"), ("removing_replicas", "removing"),
                ("adding_replicas", "adding"), ("eligible_leader_replicas", "elr"),
            )
        }
        if "last_known" in fields:
            known = fields["last_known"]
            lists["last_known_elr"] = () if known == NO_LAST_KNOWN else self.ids_of([known])
        if "directories" in fields:
            lists["directories"] = tuple(self.directories[d] for d in fields["directories"])
        if "leader" in fields:
            lists["leader"] = self.ids_of([fields["leader"]])[0]
        return PartitionChangeRecord(
            self.twin.metadata_version.partition_record_version, place.partition_id,
            place.topic_id, leader_recovery_state=fields.get("recovery"), **lists,
        )

    def registration(self, row: int) -> PartitionRegistration:
        """A partition as the arrays have it."""
        record, slots = self.records[row], range(self.replicas.shape[1])
        n_replicas = int(record["n_replicas"])

        def members(mask: int, order: Sequence[int]) -> tuple[int, ...]:
            return self.ids_of([int(self.replicas[row, s]) for s in order if int(mask) >> s & 1])

        order = slots if self.orders is None else self.orders[row][self.orders[row] != 255].tolist()
        elr = 0 if self.elr is None else self.elr[row]
        n_isr = int(record["isr"]).bit_count() if self.orders is not None else None
        known = NO_LAST_KNOWN if self.last_known is None else int(self.last_known[row])
        directory = np.zeros(n_replicas, int) if self.directory is None else self.directory[row]
        return PartitionRegistration(
            replicas=self.ids_of(self.replicas[row, :n_replicas].tolist()),
            directories=tuple(self.directories[d] for d in directory[:n_replicas]),
            isr=members(record["isr"], order[:n_isr]),
            removing=tuple(sorted(members(record["removing"], slots))),
            adding=tuple(sorted(members(record["adding"], slots))),
            elr=members(elr, order if n_isr is None else order[n_isr:]),
            last_known_elr=() if known == NO_LAST_KNOWN else self.ids_of([known]),
            leader=self.ids_of([int(record["leader"])])[0],
            recovery=int(bool(record["flags"] & schema.FLAG_RECOVERY)),
            leader_epoch=int(record["leader_epoch"]),
            partition_epoch=int(record["version"]),
        )

    def check(self) -> None:
        """Raise where a partition, or what is derived from it, is not as the twin has it."""
        for row, place in enumerate(self.places):
            partition = self.twin.partition(place)
            assert self.registration(row) == partition, place
            offline = int(self.leader_offline[row >> 6]) >> (row & 63) & 1
            assert offline == (partition.leader == -1), place
            used = int(self.records["n_slots"][row])
            tracked = {*partition.replicas, *partition.isr, *partition.elr, partition.leader}
            tracked |= {*partition.removing, *partition.adding}
            assert sorted(self.ids_of(self.replicas[row, :used].tolist())) == sorted(
                tracked - {-1}
            ), place
