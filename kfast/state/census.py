"""A census: how many partitions of a cluster are offline, under min ISR, led elsewhere.

The words mean what they mean in a sweep (docs/sweeps.md).

Source: docs/controller.md, sections 1.5 and 1.6; docs/kraft.md, section 1; Kafka 3.9,
`ReplicaManager`'s gauges of min ISR.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kfast.arguments import check_instance
from kfast.kernels import census as kernel
from kfast.schema import (
    CENSUS_BROKERS,
    CENSUS_METRICS,
    CENSUS_PARTITIONS,
    CENSUS_PARTITIONS_KRAFT,
    CENSUS_TOPICS,
    ELR_METRICS,
    FLAG_ASSIGNED,
    ResultTable,
)
from kfast.state import ClusterState
from kfast.state.arrays import first_slots
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.min_isr import partition_min_isr, topic_min_isr
from kfast.state.partition_rows import used_rows
from kfast.state.quorum import NO_LAST_KNOWN
from kfast.state.quorum_flat import last_known_lists
from kfast.state.records import Rows
from kfast.state.tables import broker_ids, id_lists, row_keys

__all__ = [
    "CENSUS_METRICS",
    "ELR_METRICS",
    "Census",
    "Elr",
    "Flags",
    "count_marks",
    "key_columns",
    "mark_partitions",
    "partition_table",
    "take_census",
    "topic_table",
]

_OFFLINE, _UNDER, _AT = 1, 2, 4
Marks = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Elr:
    """What the controller of a KRaft cluster knows of leaders outside the ISR, at one moment.

    Attributes
    ----------
    masks : (P,) uint8 or uint64
        Slots of the eligible leader replicas.
    last_known : (P,) int32
        Broker row of the last known leader; negative for none.
    """

    masks: npt.NDArray[Any]
    last_known: Rows

    @classmethod
    def of(cls, state: ClusterState) -> Elr | None:
        """That of a cluster as it is; None in ZooKeeper mode."""
        quorum = state.quorum
        if quorum is None:
            return None
        if quorum.elr is None or quorum.last_known_elr is None:
            none = np.zeros(state.n_partitions, state.records.dtype["isr"])
            return cls(none, np.full(state.n_partitions, NO_LAST_KNOWN, np.int32))
        return cls(quorum.elr.copy(), quorum.last_known_elr.copy())


@dataclass(frozen=True)
class Census:
    """A cluster counted at one moment; later changes of the state do not change it.

    Attributes
    ----------
    state : ClusterState
        Whose names and ids the rows below are.
    marks : (P,) uint8
        Bit k set: the k-th of `CENSUS_METRICS` holds for this partition.
    leader : (P,) int32
        Broker row of each leader, -1 for none.
    isr : (P,) uint8 or uint64
        Masks of the in-sync replicas.
    replicas : (P, S) uint16 or int32
        Broker row of each slot that the masks speak of.
    per_broker : (B, 3) int64
        Leaders, replicas, and replicas in sync and live.
    registered : (B,) bool
        Whether each broker is up: registered, and in KRaft not fenced.
    unclean_elections : int
        The cluster's counter.
    elr : Elr or None
        Of a KRaft cluster alone.
    """

    state: ClusterState
    marks: Marks
    leader: Rows
    isr: npt.NDArray[Any]
    replicas: npt.NDArray[Any]
    per_broker: npt.NDArray[np.int64]
    registered: Flags
    unclean_elections: int
    elr: Elr | None = None

    def flags(self, metric: str) -> Flags:
        """(P,) whether a metric of `CENSUS_METRICS`, or `ELR_METRICS`, holds for each partition."""
        if metric in ELR_METRICS:
            return self._elr_flags(metric)
        bit = list(CENSUS_METRICS).index(metric)
        return (self.marks >> np.uint8(bit) & np.uint8(1)).astype(np.bool_)

    def _elr_flags(self, metric: str) -> Flags:
        if self.elr is None:
            return np.zeros(self.marks.size, np.bool_)
        eligible: Flags = self.elr.masks != 0
        if metric == "with_elr":
            return eligible
        empty: Flags = (self.isr == 0) & ((self.state.records["flags"] & FLAG_ASSIGNED) != 0)
        return empty if metric == "isr_empty" else empty & ~eligible

    @property
    def leader_ids(self) -> pa.Array:
        """(P,) broker id of each leader, -1 for none."""
        return pa.array(broker_ids(self.state, self.leader))

    @property
    def isr_ids(self) -> pa.ListArray:
        """(P,) broker ids of each ISR, in AR order."""
        rows = np.arange(self.isr.size, dtype=np.int32)
        return id_lists(self.state, rows, self.isr, replicas=self.replicas)

    @property
    def elr_columns(self) -> dict[str, pa.ListArray]:
        """Columns elr and last_known_elr, (P,) lists of broker ids; none in ZooKeeper mode."""
        if self.elr is None:
            return {}
        rows = np.arange(self.isr.size, dtype=np.int32)
        return {
            "elr": id_lists(self.state, rows, self.elr.masks, replicas=self.replicas),
            "last_known_elr": last_known_lists(self.state, self.elr.last_known),
        }

    @property
    def counts(self) -> dict[str, int]:
        """How many partitions each metric holds for; of a KRaft cluster `ELR_METRICS` too."""
        of_kraft = {} if self.elr is None else ELR_METRICS
        return count_marks(self.marks) | {name: int(self.flags(name).sum()) for name in of_kraft}

    @property
    def topics(self) -> pa.Table:
        """Topics of which some metric holds: topic, partitions and one count per metric.

        The worst come first: most partitions offline, then most under min ISR, and so on.
        """
        return topic_table(
            CENSUS_TOPICS, self, {name: self.flags(name) for name in CENSUS_METRICS}
        )

    @property
    def brokers(self) -> pa.Table:
        """Every broker: broker_id, rack, registered, leaders, replicas, in_sync."""
        leaders, replicas, in_sync = (pa.array(c.copy()) for c in self.per_broker.T)
        return CENSUS_BROKERS.table(
            {
                "broker_id": pa.array(self.state.broker_id),
                "rack": self.state.rack,
                "registered": pa.array(self.registered),
                "leaders": leaders,
                "replicas": replicas,
                "in_sync": in_sync,
            }
        )

    @property
    def partitions(self) -> pa.Table:
        """Every partition: replicas, leader, isr, min_isr, and each metric as a bool; KRaft: elr.

        Its key is topic and partition, and `partition_row`, its row in `state`.
        """
        return partition_table(
            CENSUS_PARTITIONS if self.elr is None else CENSUS_PARTITIONS_KRAFT, self.state,
            {"leader": self.leader_ids, "isr": self.isr_ids} | self.elr_columns
            | {name: pa.array(self.flags(name)) for name in CENSUS_METRICS},
        )

    def _summary(self) -> Summary:
        sizes = {"brokers": self.registered.size, "partitions": self.marks.size}
        return "Census", {**sizes, **self.counts}

    __repr__ = summary_text
    _repr_html_ = summary_html


def take_census(state: ClusterState) -> Census:
    """Count a cluster as it is.

    The min ISR in force is that of `kfast.state.min_isr`. ISR members count where they are live; an
    offline partition counts as under min ISR, never as at it.
    """
    check_instance("state", state, ClusterState)
    marks, per_broker = mark_partitions(state)
    return Census(
        state,
        marks,
        state.records["leader"].copy(),
        state.records["isr"].copy(),
        state.replicas.copy(),
        per_broker,
        state.up,
        state.unclean_elections,
        Elr.of(state),
    )


def mark_partitions(state: ClusterState) -> tuple[Marks, npt.NDArray[np.int64]]:
    """`marks` and `per_broker` of a census."""
    marks = np.empty(state.n_partitions, np.uint8)
    per_broker = np.zeros((state.n_brokers, 3), np.int64)
    kernel.take_census(state.columns, topic_min_isr(state), marks, per_broker)
    offline = (marks & _OFFLINE) != 0
    marks[offline] = marks[offline] & np.uint8(255 - _AT) | np.uint8(_UNDER)
    return marks, per_broker


def count_marks(marks: Marks) -> dict[str, int]:
    """How many partitions each metric holds for."""
    counts = np.bincount(marks, minlength=1 << len(CENSUS_METRICS))
    values = np.arange(counts.size)
    return {
        name: int(counts @ (values >> bit & 1)) for bit, name in enumerate(CENSUS_METRICS)
    }


def topic_table(
    result: ResultTable, census: Census, columns: Mapping[str, Flags]
) -> pa.Table:
    """Topics that some column holds of, the worst first: in the order of the columns."""
    state = census.state
    counts = {name: _per_topic(state, flags) for name, flags in columns.items()}
    order = np.lexsort([-values for values in reversed(counts.values())])
    some = order[np.sum([values[order] for values in counts.values()], axis=0) > 0]
    partitions = _per_topic(state, state.partition >= 0)
    return result.table(
        {"topic": state.topic.take(pa.array(some)), "partitions": pa.array(partitions[some])}
        | {name: pa.array(values[some]) for name, values in counts.items()}
    )


def _per_topic(state: ClusterState, flags: Flags) -> npt.NDArray[np.int64]:
    """(T,) how many partitions of each topic a flag is set for."""
    return np.bincount(state.topic_row[flags], minlength=state.n_topics).astype(np.int64)


def partition_table(
    result: ResultTable, state: ClusterState, columns: Mapping[str, pa.Array]
) -> pa.Table:
    """Every partition, with columns of all rows; rows that are free are left out."""
    rows = np.arange(state.n_partitions, dtype=np.int32)
    keys = key_columns(state, rows) | {"min_isr": partition_min_isr(state, rows)}
    table = result.table(keys | dict(columns))
    return table.take(pa.array(used_rows(state))) if state.free_rows.size else table


def key_columns(state: ClusterState, rows: Rows) -> dict[str, Any]:
    """Columns topic, partition, partition_row and replicas of some rows."""
    assigned = first_slots(state.records["n_replicas"][rows])
    return {**row_keys(state, rows), "replicas": id_lists(state, rows, assigned)}
