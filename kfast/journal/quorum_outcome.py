"""QuorumOutcome: what one event of a KRaft controller did.

Source: docs/kraft.md, sections 2 and 3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.errors import ArgumentError
from kfast.kernels.change_log import ChangeLog
from kfast.schema import METADATA_RECORDS
from kfast.state import ClusterState
from kfast.state.changes import Field
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.metadata_records import MetadataRecord, PartitionChangeRecord
from kfast.state.quorum import NO_LAST_KNOWN
from kfast.state.records import EMPTY_ROWS
from kfast.state.registrations import quorum_of

__all__ = ["EventRecords", "QuorumCounts", "QuorumOutcome"]

LIST_FIELDS = (
    ("isr", Field.ISR, "n_isr"),
    ("replicas", Field.REPLICAS, "n_replicas"),
    ("removing_replicas", Field.REMOVING, "n_removing"),
    ("adding_replicas", Field.ADDING, "n_adding"),
    ("eligible_leader_replicas", Field.ELR, "n_elr"),
    ("directories", Field.DIRECTORIES, "n_directories"),
)
"""Lists of a change in the order in which they stand in a log, and how many entries each has."""
WITHOUT_OFFSET = pa.schema([f for f in METADATA_RECORDS.schema if f.name != "offset"])
"""Columns that a record has before it is known where it stands."""
LISTS = (*(name for name, _, _ in LIST_FIELDS), "last_known_elr")


@dataclass(frozen=True)
class QuorumCounts:
    """Totals of one outcome; at journal level `off` all are zero.

    Attributes
    ----------
    records : mapping of str to int
        Records written, by the class of the record.
    changes : int
        Partition changes among them.
    elections : int
        Changes after which another broker leads.
    leaders_moved : int
        Those of them that replaced one leader by another.
    unclean_elections, elr_elections, last_known_leader_elections : int
        Those of them outside the ISR; a last known leader counts as unclean too.
    leaders_lost : int
        Changes after which nobody leads any more.
    isr_shrinks, isr_expansions : int
        Changes of the ISR that lose, or win, a member.
    reassignments_completed : int
    requests, request_partitions : mapping
        Empty: a KRaft controller sends no requests, brokers read the log.
    """

    records: Mapping[str, int] = field(default_factory=dict)
    changes: int = 0
    elections: int = 0
    leaders_moved: int = 0
    unclean_elections: int = 0
    elr_elections: int = 0
    last_known_leader_elections: int = 0
    leaders_lost: int = 0
    isr_shrinks: int = 0
    isr_expansions: int = 0
    reassignments_completed: int = 0
    requests: Mapping[str, int] = field(default_factory=dict)
    request_partitions: Mapping[str, int] = field(default_factory=dict)


class EventRecords:
    """Records of one event in Kafka's order: changes of partitions, and others between them.

    `others` has each other record with the number of changes before it.
    """

    def __init__(self, changes: ChangeLog) -> None:
        self.changes = changes
        self.others: list[tuple[int, MetadataRecord]] = []

    def __len__(self) -> int:
        return self.n_changes + len(self.others)

    @property
    def n_changes(self) -> int:
        """Changes of partitions, also those that were counted and not kept."""
        return len(self.changes) + self.changes.n_counted

    def add(self, records: Sequence[MetadataRecord]) -> None:
        """Add other records behind what was written so far."""
        before = self.n_changes
        self.others += [(before, record) for record in records]

    def clear(self) -> None:
        """Forget all of them."""
        self.changes.clear()
        self.others = []


class WrittenRecords:
    """Records of one event as they can be read later: rows and brokers may have moved by then.

    Parameters
    ----------
    records : EventRecords
    state : ClusterState
        After the event.
    version : int
        Of the PartitionChange records.
    """

    def __init__(self, records: EventRecords, state: ClusterState, version: int) -> None:
        self.others, self.version = records.others, version
        self.changes, self.lists = records.changes.changes, records.changes.lists
        rows = self.changes["row"]
        topics = pa.array(state.topic_row[rows])
        self.partition = state.partition[rows]
        self.topic, self.topic_id = state.topic.take(topics), state.topic_id.take(topics)
        self.broker_id = state.broker_id
        self.directory_ids = quorum_of(state).directory_ids

    def change_records(self) -> list[PartitionChangeRecord]:
        """Changes as the records that Kafka writes."""
        values: dict[str, list[Any]] = {}
        for name, column in self.columns().items():
            values[name] = column.to_pylist()
            if name in LISTS:
                values[name] = [None if v is None else tuple(v) for v in values[name]]
        ids = [topic_id or "" for topic_id in self.topic_id.to_pylist()]
        return [
            PartitionChangeRecord(
                version=self.version, partition_id=int(self.partition[at]), topic_id=ids[at],
                **{name: column[at] for name, column in values.items()},
            )
            for at in range(self.changes.size)
        ]

    def columns(self) -> dict[str, pa.Array]:
        """Fields of the changes as Arrow columns with ids; null where a record lacks one."""
        changes, ids = self.changes, np.append(self.broker_id, np.int32(schema.NO_LEADER))
        present = changes["fields"]
        start = changes["begin"].copy()
        columns: dict[str, pa.Array] = {}
        for name, field_bit, count in LIST_FIELDS:
            lengths = changes[count].astype(np.int64)
            values = self.lists[_places(start, lengths)]
            texts = name == "directories"
            columns[name] = _lists(
                pa.array(self.directory_ids).take(pa.array(values)) if texts
                else pa.array(ids[values]),
                lengths, (present & field_bit) == 0,
            )
            start += lengths
        known = changes["last_known"]
        columns["last_known_elr"] = _lists(
            pa.array(ids[known[known != NO_LAST_KNOWN]]),
            (known != NO_LAST_KNOWN).astype(np.int64), (present & Field.LAST_KNOWN) == 0,
        )
        columns["leader"] = pa.array(ids[changes["leader"]], mask=(present & Field.LEADER) == 0)
        columns["leader_recovery_state"] = pa.array(
            changes["recovery"], mask=(present & Field.RECOVERY) == 0
        )
        return columns

    def table(self, first_offset: int) -> pa.Table:
        """Every record, in Kafka's order."""
        n = self.changes.size
        table = pa.Table.from_pylist(
            [_table_row(record) for _, record in self.others], WITHOUT_OFFSET
        )
        if n:  # an event often changes no partition, and is then mostly what a table costs
            places = np.asarray([before for before, _ in self.others], np.int64)
            order = np.insert(np.arange(n), places, n + np.arange(len(self.others)))
            both = pa.concat_tables([self._changes_table(), table]).combine_chunks()
            table = both.take(pa.array(order))
        offsets = first_offset + np.arange(table.num_rows)
        return METADATA_RECORDS.table({"offset": offsets, **schema.columns_of(table)})

    def _changes_table(self) -> pa.Table:
        """Changes of partitions, without their offsets."""
        changes, n = self.changes, self.changes.size
        columns = {
            **self.columns(),
            "type": pa.repeat(PartitionChangeRecord.__name__, n),
            "topic": self.topic, "partition": self.partition, "partition_row": changes["row"],
            "leader_epoch": changes["leader_epoch"],
            "partition_epoch": changes["partition_epoch"],
        }
        return pa.table(
            [columns.get(column.name, pa.nulls(n, column.type)) for column in WITHOUT_OFFSET],
            schema=WITHOUT_OFFSET,
        )


def _places(start: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Any:
    """Places of the entries of lists, list after list."""
    ends = np.cumsum(lengths)
    return np.repeat(start - (ends - lengths), lengths) + np.arange(lengths.sum())


def _lists(
    values: pa.Array, lengths: npt.NDArray[np.int64], absent: npt.NDArray[np.bool_]
) -> pa.ListArray:
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(absent))


def _table_row(record: MetadataRecord) -> dict[str, Any]:
    """A record other than a change as a row: what has no column of its own is `detail`."""
    values: dict[str, Any] = {item.name: getattr(record, item.name) for item in fields(record)}
    row = {name: values.pop(name) for name in METADATA_RECORDS.schema.names if name in values}
    row["type"] = type(record).__name__
    row["broker_id"] = row.get("broker_id", values.pop("id", None))
    row["partition"] = values.pop("partition_id", None)
    detail = {name: value for name, value in values.items() if value not in (None, (), {})}
    row["detail"] = json.dumps(detail, default=dict)
    return row


class QuorumOutcome:
    """What happened: counts, the response, and at journal level `full` every record.

    Attributes
    ----------
    event : str
        Name of the event.
    level : str
        Journal level that it was recorded at.
    error : str or None
        Kafka's error code, where the request is refused as a whole.
    fault : str or None
        An unexpected exception inside Kafka: nothing was written, and the controller has resigned.
    response : object
        What the event answers; codes are Kafka's names, "NONE" for success.
    n_records : int
        How many records were written, at every journal level.
    first_offset : int
        Where the first of them stands in the log.
    counts : QuorumCounts
    metadata_records : list of MetadataRecord
        Every record in Kafka's order; only at level `full`.
    records : pa.Table
        The same as a table, one row each (`schema.METADATA_RECORDS`); only at level `full`.
    remaining : (n,) int32
        Of a controlled shutdown: partition rows that the broker still leads.
    notes : tuple of str
        What was left out.
    """

    request_counts = None
    """A KRaft controller sends no requests."""

    def __init__(self, event: str, level: str, first_offset: int = 0) -> None:
        self.event = event
        self.level = level
        self.first_offset = first_offset
        self.n_records = 0
        self.error: str | None = None
        self.fault: str | None = None
        self.response: Any = None
        self.remaining = EMPTY_ROWS
        self.notes: tuple[str, ...] = ()
        self.counts = QuorumCounts()
        self._written: WrittenRecords | None = None

    def keep(self, written: EventRecords, state: ClusterState, version: int) -> None:
        """Keep what was written, as far as the level asks; `version` is that of the changes."""
        self.n_records = len(written)
        if self.level == "off":
            return
        totals: dict[str, Any] = written.changes.counts()
        kinds: dict[str, int] = {}
        if totals["changes"]:
            kinds[PartitionChangeRecord.__name__] = totals["changes"]
        for _, record in written.others:
            name = type(record).__name__
            kinds[name] = kinds.get(name, 0) + 1
        self.counts = QuorumCounts(records=kinds, **totals)
        if self.level == "full":
            self._written = WrittenRecords(written, state, version)

    def _full(self) -> WrittenRecords:
        if self._written is None:
            raise ArgumentError(
                "records are kept at journal level 'full' only, and none of a refused event; "
                f"this was recorded at {self.level!r}"
            )
        return self._written

    @cached_property
    def metadata_records(self) -> list[MetadataRecord]:
        """Every record, in Kafka's order."""
        if self.level == "full" and not self.n_records:
            return []
        written = self._full()
        records: list[MetadataRecord] = [*written.change_records()]
        for at, (before, record) in enumerate(written.others):
            records.insert(at + before, record)
        return records

    @cached_property
    def records(self) -> pa.Table:
        """Table of every record, in Kafka's order."""
        if self.level == "full" and not self.n_records:
            return METADATA_RECORDS.schema.empty_table()
        return self._full().table(self.first_offset)

    def _summary(self) -> Summary:
        return f"Outcome of {self.event}", {
            "error": self.error,
            "fault": self.fault,
            "records": self.n_records,
            "leaders_moved": self.counts.leaders_moved,
            "leaders_lost": self.counts.leaders_lost,
            "unclean_elections": self.counts.unclean_elections,
            "journal": self.level,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html
