"""What each partition of a cluster carries, from what files say of partitions, topics and brokers.

Tables are joined with the cluster by name. What a source has by topic is dealt to partitions by the
first share model that the data allow:

    measured    a value for each partition
    offsets     messages of each partition: a topic's bytes in proportion
    leaders     a value by topic and broker: equally over the partitions that the broker leads
    sizes       in proportion to the logs, for topics that are not compacted
    equal       equally

Parts of a total add up to it exactly. Later tables fill what earlier ones lack; where two differ by
more than 5 %, the earlier counts and both values are named.

Source: docs/capacity.md, section "From topics to partitions".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast import schema
from kfast.arguments import MAX_LONG, check_instance, plural
from kfast.capacity.loads.retention import Retention, retained_bytes, retention_of
from kfast.capacity.loads.shares import MAX_WEIGHTS, Amounts, deal, deal_equally, sums
from kfast.capacity.loads.table_join import Groups, JoinedTable, group_partitions, join_table
from kfast.capacity.loads.units import format_bytes, format_rate
from kfast.errors import ArgumentError, InputError
from kfast.io.files import abbreviate, quote
from kfast.io.loads import LoadTable
from kfast.io.loads.tables import LOAD_UNITS, PARTITION_BOUNDS, disagree
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows

__all__ = [
    "QUANTITIES", "RATES", "PartitionLoad", "ShareModel", "broker_cpu", "check_bounds",
    "check_total", "partition_load", "replicated_total",
]

RATES = ("bytes_in", "bytes_out", "milli_msgs_in")
QUANTITIES = (*RATES, "disk_bytes")
UNKNOWN = -1
MOST_WITHOUT_LOAD = 100
"""One in so many partitions may be without load, or of bytes on disk in one topic."""
SHOWN = 3
"""So many examples a sentence names."""


class ShareModel(IntEnum):
    """How a topic's load came to its partitions. Source: docs/capacity.md."""

    NONE = 0
    MEASURED = 1
    OFFSETS = 2
    LEADERS = 3
    SIZES = 4
    EQUAL = 5
    RETENTION = 6
    """Disk only: concluded from bytes in and the retention, of some partitions or all."""


@dataclass(frozen=True)
class PartitionLoad:
    """What each partition carries, by partition row; integers throughout.

    Parameters
    ----------
    bytes_in, bytes_out : (P,) int64
        Bytes a second that producers write, and that consumers fetch without replication.
    milli_msgs_in : (P,) int64
        Thousandths of a message a second.
    disk_bytes : (P,) int64
        Bytes of the log of one replica.
    replica_bytes : (P, S) int64 or None
        Bytes of the log of each assigned replica, `disk_bytes` where only that is known; 0 in slots
        without a replica. None where no source tells replicas apart: all have `disk_bytes`.
    replica_log_dir : (P, S) int32 or None
        Place in `log_dirs` of each replica's directory, -1 where it is not known.
    log_dirs : tuple of str
    cpu_microcores : (B,) int64 or None
        Millionths of a core that each broker used, -1 where it is not known; None where no source
        has any.
    window : str or None
        What the rates are: a percentile, a mean of some time.
    topic : pa.StringArray
        (T,) names, as `state.topic`.
    share_model : (4, T) int8
        `ShareModel` of bytes in, bytes out, messages and disk of each topic.
    source_of : (4, T) int16
        Place in `sources` of the file that each came from, -1 for none.
    sources : tuple of str
    topics_without_load : tuple of str
        Topics of which no source has bytes in.
    assumptions : tuple of str
        What was assumed, shared or left out: one sentence each.
    warnings : tuple of str
        What every answer that uses this load has to repeat: loads that are missing, sources that
        disagree.
    """

    bytes_in: Amounts
    bytes_out: Amounts
    milli_msgs_in: Amounts
    disk_bytes: Amounts
    replica_bytes: Amounts | None
    replica_log_dir: Rows | None
    log_dirs: tuple[str, ...]
    cpu_microcores: Amounts | None
    window: str | None
    topic: pa.StringArray
    share_model: npt.NDArray[np.int8]
    source_of: npt.NDArray[np.int16]
    sources: tuple[str, ...]
    topics_without_load: tuple[str, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    @cached_property
    def provenance(self) -> pa.Table:
        """Where each topic's load comes from: `schema.LOAD_PROVENANCE`."""
        n = len(self.topic)
        models = pa.array([model.name.lower() for model in ShareModel])
        columns = {
            "topic": pa.concat_arrays([self.topic] * len(QUANTITIES)),
            "quantity": pa.array(np.repeat(QUANTITIES, n), pa.string()),
            "share_model": models.take(pa.array(self.share_model.reshape(-1))),
            "source": pa.array([*self.sources, None], pa.string()).take(
                pa.array(self.source_of.reshape(-1) % (len(self.sources) + 1))
            ),
        }
        table = schema.LOAD_PROVENANCE.table(columns)
        return table.filter(pa.array(self.share_model.reshape(-1) != ShareModel.NONE))

    def _summary(self) -> Summary:
        return "PartitionLoad", {
            "in": format_rate(_total(self.bytes_in)), "out": format_rate(_total(self.bytes_out)),
            "disk of one replica each": format_bytes(_total(self.disk_bytes)),
            "partitions": self.bytes_in.size, "window": self.window,
            "sources": ", ".join(self.sources), "warnings": len(self.warnings) or None,
            "assumptions": len(self.assumptions),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def _total(values: Amounts) -> int:
    """An exact sum, which may have more than 63 bits."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFF_FFFF).sum())


def partition_load(
    state: ClusterState,
    tables: LoadTable | Iterable[LoadTable],
    *,
    bytes_out_has_replication: bool = False,
) -> PartitionLoad:
    """Bring loads to the partitions of a cluster.

    Parameters
    ----------
    state : ClusterState
    tables : LoadTable or iterable of LoadTable
        What `kfast.read_load` gives. Later ones fill what earlier ones lack.
    bytes_out_has_replication : bool, default False
        The bytes out of the sources contain what followers fetch: bytes in for each is taken off.

    Returns
    -------
    PartitionLoad
        With every assumption in `assumptions`, and what is missing or contradictory in `warnings`.

    Raises
    ------
    InputError
        A table is of another cluster, two have rates of different windows, a partition would reach
        2^40 B/s or 2^50 B, or a sum over the cluster 2^63.
    """
    check_instance("state", state, ClusterState)
    all_tables = (tables,) if isinstance(tables, LoadTable) else tuple(tables)
    for table in all_tables:
        check_instance("tables", table, LoadTable)
    if not all_tables:
        raise ArgumentError("tables: no load is given; right is at least one")
    groups = group_partitions(state)
    window = _window(all_tables)
    joined = [join_table(state, groups, table) for table in all_tables]
    return _Loads(state, groups, joined, bytes_out_has_replication).result(window)


def _window(tables: Sequence[LoadTable]) -> str | None:
    """What the rates of all tables are; a peak and a mean are never mixed."""
    named = {
        table.window: table.source for table in tables
        if table.window is not None and {*RATES} & {*table.rows.column_names}
    }
    if len(named) > 1:
        (first, source), (second, other) = [*named.items()][:2]
        raise InputError(
            f"{other}: rates are {quote(second or '')}, in {source} {quote(first or '')}; right is"
            " one window for all, which --window (window=) names"
        )
    return next(iter(named), None)


class _Loads:
    """Loads while they are brought together."""

    def __init__(
        self, state: ClusterState, groups: Groups, tables: Sequence[JoinedTable],
        bytes_out_has_replication: bool,
    ) -> None:
        self.state, self.groups, self.tables = state, groups, tables
        self.bytes_out_has_replication = bytes_out_has_replication
        self.assumptions = [note for table in tables for note in table.notes]
        self.warnings = [warning for table in tables for warning in table.warnings]
        self.model = np.zeros((len(QUANTITIES), state.n_topics), np.int8)
        self.source = np.full((len(QUANTITIES), state.n_topics), -1, np.int16)
        self.values: dict[str, Amounts] = {}
        self.measured: dict[str, Amounts] = {}
        self.retention: Retention | None = None

    def result(self, window: str | None) -> PartitionLoad:
        """Share everything out."""
        state, tables = self.state, self.tables
        replicas, log_dir, directories = self._measure_replicas()
        for number, name in enumerate(RATES):
            self.measured[name] = self._measure(number, name)
        sized = self._complete(self.measured["disk_bytes"])
        for number, name in enumerate(RATES):
            self.values[name] = self._share(number, name, sized)
        self._subtract_replication()
        disk = self.values["disk_bytes"] = self._disk()
        if replicas is not None:
            assigned = np.arange(state.n_slots) < state.records["n_replicas"][:, None]
            replicas = np.where(assigned, np.where(replicas < 0, disk[:, None], replicas), 0)
        cpu = broker_cpu(state.n_brokers, tables)
        check_bounds(state, self.values)
        self._compare_totals()
        without = self._without_load()
        return PartitionLoad(
            **self.values, replica_bytes=replicas, replica_log_dir=log_dir, log_dirs=directories,
            cpu_microcores=cpu, window=window, topic=state.topic, share_model=self.model,
            source_of=self.source, sources=tuple(table.source for table in tables),
            topics_without_load=without, assumptions=tuple(self.assumptions),
            warnings=tuple(self.warnings),
        )

    # --- what is measured

    def _measure(self, number: int, name: str) -> Amounts:
        """(P,) values that tables have by partition; what several brokers report is added up."""
        measured = np.full(self.state.n_partitions, UNKNOWN, np.int64)
        for place, table in enumerate(self.tables):
            rows = table.rows_with(name, partition=True)
            if not rows.size:
                continue
            partitions, values = table.partition[rows], table.values[name][rows]
            if (table.broker[rows] >= 0).any():
                total = np.zeros_like(measured)
                np.add.at(total, partitions, values)
                partitions = np.unique(partitions)
                values = total[partitions]
            self._fill(number, name, measured, place, partitions, values)
        return measured

    def _fill(
        self, number: int, name: str, measured: Amounts, place: int, partitions: Rows,
        values: Amounts,
    ) -> None:
        """Take values of partitions that have none yet, and name those that differ."""
        earlier = measured[partitions]
        new = earlier < 0
        if new.all():
            measured[partitions] = values
        else:
            self._report_conflicts(name, place, partitions[~new], earlier[~new], values[~new])
            partitions = partitions[new]
            measured[partitions] = values[new]
        filled = np.zeros(self.state.n_topics, np.bool_)
        filled[self.state.topic_row[partitions]] = True
        self.source[number, filled & (self.source[number] < 0)] = place

    def _report_conflicts(
        self, name: str, place: int, partitions: Rows, earlier: Amounts, later: Amounts
    ) -> None:
        differ = np.abs(earlier - later) * 20 > earlier
        if not differ.any():
            return
        topics, numbers = self.state.topic_row[partitions], self.state.partition[partitions]
        shown = [
            f"{self.state.topic[int(topics[i])]}-{numbers[i]}"
            f" {_with_unit(name, int(earlier[i]))}, there {_with_unit(name, int(later[i]))}"
            for i in np.flatnonzero(differ)[:SHOWN].tolist()
        ]
        self.warnings.append(
            f"{self.tables[place].source}: {name} of {plural(int(differ.sum()), 'partition')} is"
            f" more than 5 % from the files before, which count: {'; '.join(shown)}"
        )

    def _measure_replicas(
        self,
    ) -> tuple[Amounts | None, Rows | None, tuple[str, ...]]:
        """Sizes by replica, and from them by partition; directories."""
        state, number = self.state, QUANTITIES.index("disk_bytes")
        measured = np.full(state.n_partitions, UNKNOWN, np.int64)
        matrix: Amounts | None = None
        log_dir: Rows | None = None
        directories: dict[str, int] = {}
        for place, table in enumerate(self.tables):
            unplaced = table.rows_with("disk_bytes", partition=True, broker=False)
            if unplaced.size:
                self._fill(number, "disk_bytes", measured, place, table.partition[unplaced],
                           table.values["disk_bytes"][unplaced])
            rows = table.rows_with("disk_bytes", partition=True, broker=True)
            if not rows.size:
                continue
            if matrix is None:
                matrix = np.full((state.n_partitions, state.n_slots), UNKNOWN, np.int64)
            partitions, sizes = table.partition[rows], table.values["disk_bytes"][rows]
            slots = self._slots_of(partitions, table.broker[rows])
            if (slots < 0).any():
                self.assumptions.append(
                    f"{table.source}: left out: {plural(int((slots < 0).sum()), 'log')} on"
                    " brokers that are not assigned the partition"
                )
                assigned = slots >= 0
                rows, partitions, slots = rows[assigned], partitions[assigned], slots[assigned]
                sizes = sizes[assigned]
            unset = matrix[partitions, slots] < 0
            matrix[partitions[unset], slots[unset]] = sizes[unset]
            if table.log_dir is not None:
                if log_dir is None:
                    log_dir = np.full(matrix.shape, -1, np.int32)
                places = [directories.setdefault(name, len(directories))
                          for name in table.directories]
                codes = np.array([*places, -1], np.int32)[table.log_dir[rows]]
                log_dir[partitions[unset], slots[unset]] = codes[unset]
            largest = np.full(state.n_partitions, UNKNOWN, np.int64)
            np.maximum.at(largest, partitions, sizes)
            with_size = np.flatnonzero(largest >= 0).astype(np.int32)
            self._fill(number, "disk_bytes", measured, place, with_size, largest[with_size])
        self.measured["disk_bytes"] = measured
        return matrix, log_dir, tuple(directories)

    def _slots_of(self, partitions: Rows, brokers: Rows) -> Rows:
        """Slot of an assigned replica of each partition on a broker; -1 for none."""
        slots = np.full(partitions.size, -1, np.int32)
        n_replicas = self.state.records["n_replicas"][partitions]
        for slot in range(self.state.n_slots):
            matches = (self.state.replicas[partitions, slot] == brokers) & (slot < n_replicas)
            slots[matches] = slot
        return slots

    # --- what is shared

    def _complete(self, values: Amounts) -> npt.NDArray[np.bool_]:
        """(T,) whether every partition of a topic has a value, and there is one."""
        known = sums((values[self.groups.rows] >= 0).astype(np.int64), self.groups.starts)
        complete: npt.NDArray[np.bool_] = (known == self.groups.counts) & (known > 0)
        return complete

    def _topic_totals(self, number: int, name: str) -> tuple[Amounts, Amounts, Amounts, Amounts]:
        """What tables have by topic: (T,) totals, and (topic, broker, value) of brokers.

        Of each topic the first table counts that has it.
        """
        n = self.state.n_topics
        totals = np.full(n, UNKNOWN, np.int64)
        by_broker: list[npt.NDArray[np.int64]] = []
        for place, table in enumerate(self.tables):
            rows = table.rows_with(
                name, partition=False, broker=False if name == "disk_bytes" else None
            )
            if not rows.size:
                continue
            topic = table.topic[rows].astype(np.int64)
            broker, value = table.broker[rows].astype(np.int64), table.values[name][rows]
            of_table = np.full(n, UNKNOWN, np.int64)
            of_table[topic] = 0
            np.add.at(of_table, topic, value)
            repeated = np.flatnonzero((totals >= 0) & (of_table >= 0))
            self._report_totals(name, place, repeated, totals, of_table)
            new = (totals < 0) & (of_table >= 0)
            totals[new] = of_table[new]
            self.source[number, new & (self.source[number] < 0)] = place
            taken = new[topic] & (broker >= 0)
            by_broker.append(np.stack([topic[taken], broker[taken], value[taken]]))
        entries = np.concatenate([np.empty((3, 0), np.int64), *by_broker], axis=1)
        return totals, entries[0], entries[1], entries[2]

    def _report_totals(
        self, name: str, place: int, topics: Any, earlier: Amounts, later: Amounts
    ) -> None:
        """Name topics whose totals differ."""
        differ = [
            topic for topic in topics.tolist() if disagree(int(later[topic]), int(earlier[topic]))
        ]
        if differ:
            shown = [
                f"{self.state.topic[topic]} {_with_unit(name, int(earlier[topic]))}, there"
                f" {_with_unit(name, int(later[topic]))}" for topic in differ[:SHOWN]
            ]
            self.warnings.append(
                f"{self.tables[place].source}: {name} of {plural(len(differ), 'topic')} is more"
                f" than 5 % from what counts: {'; '.join(shown)}"
            )

    def _share(self, number: int, name: str, sized: npt.NDArray[np.bool_]) -> Amounts:
        """(P,) a rate of each partition, by the first model that each topic's data allow."""
        groups, measured = self.groups, self.measured[name]
        by_group = measured[groups.rows]
        n_known = sums((by_group >= 0).astype(np.int64), groups.starts)
        partial = (n_known > 0) & (n_known < groups.counts)
        if partial.any():
            topics = self.state.topic.take(pa.array(np.flatnonzero(partial))).to_pylist()
            self.assumptions.append(
                f"{name} of some partitions of these topics is not given, and 0 is taken:"
                f" {abbreviate(topics)}"
            )
        shares = np.maximum(by_group, 0)
        self.model[number, n_known > 0] = ShareModel.MEASURED
        totals, topic, broker, value = self._topic_totals(number, name)
        repeated = np.flatnonzero((totals >= 0) & (n_known > 0))
        if repeated.size:
            place = int(self.source[number, repeated[0]])
            self._report_totals(name, place, repeated, sums(shares, groups.starts), totals)
        open_ = (totals >= 0) & (n_known == 0) & (groups.counts > 0)
        if open_.any():
            self._deal(number, name, np.where(open_, totals, 0), open_, sized,
                       (topic, broker, value), shares)
        values = np.zeros(self.state.n_partitions, np.int64)
        values[groups.rows] = shares
        return values

    def _deal(
        self, number: int, name: str, totals: Amounts, open_: npt.NDArray[np.bool_],
        sized: npt.NDArray[np.bool_], by_broker: tuple[Amounts, Amounts, Amounts], shares: Amounts,
    ) -> None:
        """Deal topics' totals to partitions: fill `shares`, note the models."""
        groups = self.groups
        messages = self.measured["milli_msgs_in"][groups.rows]
        sizes = self.measured["disk_bytes"][groups.rows]
        has_brokers = np.zeros(open_.size, np.bool_)
        has_brokers[by_broker[0]] = True
        by_offsets = open_ & self._complete(self.measured["milli_msgs_in"])
        by_offsets &= self._has_weight(messages)
        by_leaders = open_ & has_brokers & ~by_offsets
        by_size = open_ & sized & self._has_weight(sizes) & ~by_offsets & ~by_leaders
        if by_size.any():
            by_size &= ~self._retention().compacted
        for model, topics, weights in (
            (ShareModel.OFFSETS, by_offsets, messages), (ShareModel.SIZES, by_size, sizes),
        ):
            if topics.any():
                self.model[number, topics] = model
                inside = topics[groups.topic]
                shares[inside] = deal(totals[topics], weights[inside], groups.counts[topics])
        if by_leaders.any():
            self.model[number, by_leaders] = ShareModel.LEADERS
            self._deal_to_leaders(name, np.where(by_leaders, totals, 0), by_broker, shares)
        equal = open_ & ~by_offsets & ~by_leaders & ~by_size
        if equal.any():
            self.model[number, equal] = ShareModel.EQUAL
            shares[equal[groups.topic]] = deal_equally(totals[equal], groups.counts[equal])

    def _has_weight(self, values: Amounts) -> npt.NDArray[np.bool_]:
        """(T,) whether the values of a topic, -1 for none, add up to more than 0."""
        total = sums(np.maximum(values, 0), self.groups.starts)
        if (total > MAX_WEIGHTS).any():
            name = self.state.topic[int(np.argmax(total))]
            raise InputError(
                f"topic {name}: messages or sizes of its partitions add up to {total.max()}; right"
                f" is at most {MAX_WEIGHTS}"
            )
        has_weight: npt.NDArray[np.bool_] = total > 0
        return has_weight

    def _deal_to_leaders(
        self, name: str, totals: Amounts, by_broker: tuple[Amounts, Amounts, Amounts],
        shares: Amounts,
    ) -> None:
        """Deal what a broker reports of a topic to the partitions of it that the broker leads."""
        state, groups = self.state, self.groups
        n_brokers = state.n_brokers + 1
        keys = groups.topic * n_brokers + state.records["leader"][groups.rows].clip(-1) + 1
        order = np.argsort(keys, kind="stable")
        led, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
        topic, broker, value = (column[totals[by_broker[0]] > 0] for column in by_broker)
        at = np.searchsorted(led, topic * n_brokers + broker + 1)
        has_leader = np.append(led, -1)[at] == topic * n_brokers + broker + 1
        places, of = at[has_leader], value[has_leader]
        rows = np.repeat(starts[places], counts[places]) + _ranges(counts[places])
        np.add.at(shares, order[rows], deal_equally(of, counts[places]))
        unassigned = totals.copy()
        np.subtract.at(unassigned, topic[has_leader], of)
        if unassigned.any():
            remaining = unassigned > 0
            shares[remaining[groups.topic]] += deal_equally(
                unassigned[remaining], groups.counts[remaining]
            )
            names = state.topic.take(pa.array(np.flatnonzero(remaining))).to_pylist()
            self.assumptions.append(
                f"{name} of topics that is reported by no leader of their partitions is dealt"
                f" equally: {_with_unit(name, _total(unassigned))} of {abbreviate(names)}"
            )

    def _subtract_replication(self) -> None:
        if not self.bytes_out_has_replication:
            return
        n_followers = np.maximum(self.state.records["n_replicas"].astype(np.int64) - 1, 0)
        rest = self.values["bytes_out"] - self.values["bytes_in"] * n_followers
        less = int((rest < 0).sum())
        if less:
            self.assumptions.append(
                f"0 bytes out are taken for {plural(less, 'partition')} whose bytes out are less"
                " than the replication"
            )
        self.values["bytes_out"] = np.maximum(rest, 0)

    # --- disk

    def _retention(self) -> Retention:
        if self.retention is None:
            self.retention = retention_of(self.state)
            self.assumptions += self.retention.assumptions
        return self.retention

    def _disk(self) -> Amounts:
        """(P,) bytes of one replica: measured, dealt, or concluded from the retention."""
        groups, number = self.groups, QUANTITIES.index("disk_bytes")
        measured = self.measured["disk_bytes"]
        by_group = measured[groups.rows]
        n_known = sums((by_group >= 0).astype(np.int64), groups.starts)
        self.model[number, n_known > 0] = ShareModel.MEASURED
        totals, *_ = self._topic_totals(number, "disk_bytes")
        self._add_replicated(number, totals)
        shares = np.maximum(by_group, 0)
        open_ = (totals >= 0) & (n_known == 0) & (groups.counts > 0)
        if open_.any():
            none = np.empty(0, np.int64)
            self._deal(number, "disk_bytes", np.where(open_, totals, 0), open_,
                       np.zeros(open_.size, np.bool_), (none, none, none), shares)
        unknown = (by_group < 0) & ~open_[groups.topic]
        if unknown.any():
            self._retain(number, unknown, shares)
        values = np.zeros(self.state.n_partitions, np.int64)
        values[groups.rows] = shares
        return values

    def _add_replicated(self, number: int, totals: Amounts) -> None:
        """Take sizes of all replicas of a topic, by topic or by broker, for one replica's share."""
        groups = self.groups
        n_replicas = sums(
            self.state.records["n_replicas"][groups.rows].astype(np.int64), groups.starts
        )
        for place, table in enumerate(self.tables):
            of_table: dict[int, int] = defaultdict(int)
            for name, broker in (("replicated_bytes", None), ("disk_bytes", True)):
                rows = table.rows_with(name, partition=False, broker=broker)
                for topic, row in zip(table.topic[rows].tolist(), rows.tolist(), strict=True):
                    of_table[topic] += int(table.values[name][row])
            for topic, value in of_table.items():
                if totals[topic] < 0 and n_replicas[topic]:
                    parts = value * int(groups.counts[topic])
                    totals[topic] = _divide(parts, int(n_replicas[topic]))
                    self.source[number, topic] = place

    def _retain(
        self, number: int, unknown: npt.NDArray[np.bool_], shares: Amounts
    ) -> None:
        """Conclude sizes from the retention, where nothing measured them."""
        groups, state, retention = self.groups, self.state, self._retention()
        rows = groups.rows[unknown]
        sizes = retained_bytes(
            self.values["bytes_in"][rows], state.topic_row[rows], retention
        )
        shares[unknown] = np.maximum(sizes, 0)
        topics = np.unique(groups.topic[unknown])
        self.model[number, topics] = ShareModel.RETENTION
        self.assumptions.append(
            f"disk of {plural(rows.size, 'partition')} is not measured: bytes in for the retention"
            " time and a segment are taken, at most retention.bytes and a segment"
        )
        unbounded = np.unique(state.topic_row[rows[sizes < 0]])
        if unbounded.size:
            names = state.topic.take(pa.array(unbounded)).to_pylist()
            self.warnings.append(
                "disk of topics that are compacted, or kept for ever, is not measured and counts as"
                f" 0: {abbreviate(names)}"
            )

    # --- checks

    def _compare_totals(self) -> None:
        """Compare what brokers report of all topics with the sum over topics of the same table."""
        leaders = self.state.records["leader"]
        for table in self.tables:
            for name in RATES:
                if name not in table.values:
                    continue
                known = (table.values[name] >= 0) & (table.broker >= 0)
                of_all = np.flatnonzero(known & (table.topic < 0))
                by_topic = np.flatnonzero(known & (table.topic >= 0))
                if not of_all.size:
                    continue
                sums_ = np.zeros(self.state.n_brokers, np.int64)
                if by_topic.size:
                    np.add.at(sums_, table.broker[by_topic], table.values[name][by_topic])
                else:
                    led = leaders >= 0
                    np.add.at(sums_, leaders[led], self.values[name][led])
                self._report_brokers(table, name, of_all, sums_, bool(by_topic.size))

    def _report_brokers(
        self, table: JoinedTable, name: str, rows: Any, over_topics: Amounts, of_topics: bool
    ) -> None:
        """Name brokers whose own total is not that over topics."""
        differing = [
            (int(self.state.broker_id[broker]), int(total), int(over_topics[broker]))
            for broker, total in zip(
                table.broker[rows].tolist(), table.values[name][rows].tolist(), strict=True
            )
            if disagree(int(over_topics[broker]), total)
        ]
        if differing:
            shown = [
                f"broker {broker} {_with_unit(name, total)}, over topics"
                f" {_with_unit(name, topic_sum)}" for broker, total, topic_sum in differing[:SHOWN]
            ]
            which = "its topics" if of_topics else "the partitions that it leads"
            self.warnings.append(
                f"{table.source}: {name} of {plural(len(differing), 'broker')} is more than 5 %"
                f" from the sum over {which}: {'; '.join(shown)}"
            )

    def _without_load(self) -> tuple[str, ...]:
        """Topics without bytes in, and a warning where they matter."""
        state, groups = self.state, self.groups
        has = (self.model[0] != ShareModel.NONE) | (groups.counts == 0)
        unknown = self.measured["bytes_in"][groups.rows] < 0
        partly = unknown & (self.model[0, groups.topic] == ShareModel.MEASURED)
        missing = int(groups.counts[~has].sum()) + int(partly.sum())
        names = tuple(state.topic.take(pa.array(np.flatnonzero(~has))).to_pylist())
        if missing * MOST_WITHOUT_LOAD > groups.rows.size:
            which = f": {plural(len(names), 'topic')} without any, {abbreviate(list(names), SHOWN)}"
            self.warnings.append(
                f"no load is known of {missing} of {plural(groups.rows.size, 'partition')}, which"
                f" count as 0{which if names else ''}"
            )
        disk = sums(self.values["disk_bytes"][groups.rows], groups.starts)
        disk_total = _total(disk)
        large = [
            name for name, size in zip(names, disk[~has].tolist(), strict=True)
            if size * MOST_WITHOUT_LOAD > disk_total
        ]
        if large:
            self.warnings.append(
                "topics with more than 1 % of all bytes on disk have no load:"
                f" {abbreviate(large, SHOWN)}"
            )
        return names


def broker_cpu(n_brokers: int, tables: Sequence[JoinedTable]) -> Amounts | None:
    """(B,) micro-cores that each broker used, -1 where it is not known; None without any."""
    cpu: Amounts | None = None
    for table in tables:
        if "cpu_microcores" not in table.values:
            continue
        rows = (table.values["cpu_microcores"] >= 0) & (table.topic < 0) & (table.broker >= 0)
        if not rows.any():
            continue
        if cpu is None:
            cpu = np.full(n_brokers, UNKNOWN, np.int64)
        new = cpu[table.broker[rows]] < 0
        cpu[table.broker[rows][new]] = table.values["cpu_microcores"][rows][new]
    return cpu


def check_bounds(state: ClusterState, columns: Mapping[str, Amounts]) -> None:
    """Refuse loads of partitions, by the names of their columns, that would overflow.

    Raises
    ------
    InputError
        A partition reaches its bound, or a sum over all replicas 2^63.
    """
    for name, values in columns.items():
        bound = PARTITION_BOUNDS[name]
        if values.size and values.max() >= bound:
            row = int(values.argmax())
            raise InputError(
                f"partition {state.topic[int(state.topic_row[row])]}-{state.partition[row]}:"
                f" {name} is {values[row]} {LOAD_UNITS[name].name} or more; right is less than"
                f" {bound} for one partition"
            )
    n_replicas = state.records["n_replicas"].astype(np.int64)
    for name, values in columns.items():
        if int(values.max(initial=0)) * int(n_replicas.sum()) > MAX_LONG:
            check_total(name, replicated_total(state, values))


def replicated_total(state: ClusterState, values: Amounts) -> int:
    """The exact sum over all replicas."""
    n_replicas = state.records["n_replicas"].astype(np.int64)
    # In two digits, for a product with the replicas may itself have more than 63 bits.
    of_one = values >> 20, values & 0xF_FFFF
    return sum(
        _total(part * n_replicas) << shift for part, shift in zip(of_one, (20, 0), strict=True)
    )


def check_total(name: str, total: int) -> None:
    """Refuse a sum over all replicas that has more than 63 bits."""
    if total > MAX_LONG:
        raise InputError(
            f"{name} of all replicas together is {total} {LOAD_UNITS[name].name}; right is at most"
            f" {MAX_LONG}"
        )


def _ranges(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0, 1, ... up to each count, one after the other."""
    places: npt.NDArray[np.int64] = np.arange(int(counts.sum())) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    return places


def _divide(a: int, b: int) -> int:
    """A quotient, rounded half to even."""
    quotient, rest = divmod(a, b)
    return quotient + (2 * rest > b or (2 * rest == b and quotient % 2 == 1))


def _with_unit(name: str, value: int) -> str:
    """A value of a column as messages show it."""
    if name == "milli_msgs_in":
        return f"{value / 1000:.0f} messages/s"
    return format_bytes(value) if name == "disk_bytes" else format_rate(value)
