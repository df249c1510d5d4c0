"""What has to be copied after a failure, and from whom to whom.

The leader after the failure is the source of each replica that has to catch up: followers fetch
from the leader. Only partitions of failed brokers are looked at; an index lists those of each.

Source: docs/capacity.md, section "Restoration".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kfast.arguments import check_instance
from kfast.capacity.failures.failure_effects import UNDER_MIN_ISR, FailureEffects
from kfast.capacity.restorations.redistribution import Room
from kfast.controllers import Reassignments
from kfast.controllers.reassignment_requests import parse
from kfast.errors import ArgumentError
from kfast.io.files import abbreviate
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.records import Rows

__all__ = ["Demand", "HostedPartitions", "NewReplicas"]

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NewReplicas:
    """Where the replicas of some partitions are to be.

    Attributes
    ----------
    rows : (m,) int32
        Partition rows.
    owner : (t,) int64
        Place in `rows` of each replica.
    broker : (t,) int32
        Its broker row.
    names : tuple of str
        Of each of `rows`, for messages.
    broker_id : (t,) int32
        The id of `broker`, for messages.
    """

    rows: Rows
    owner: Integers
    broker: Rows
    names: tuple[str, ...]
    broker_id: Rows

    def _summary(self) -> Summary:
        return "NewReplicas", {"partitions": self.rows.size, "replicas": self.broker.size}

    __repr__ = summary_text
    _repr_html_ = summary_html

    @classmethod
    def of(cls, state: ClusterState, plan: Reassignments) -> NewReplicas:
        """Read a reassignment plan.

        Parameters
        ----------
        state : ClusterState
        plan : mapping of (topic, partition) to broker ids, or pa.Table
            What `kfast.read_plan` gives.

        Raises
        ------
        ArgumentError
            A partition stands twice, or the cluster has no such partition or broker.
        """
        check_instance("state", state, ClusterState)
        requests = parse(state, plan)
        if (requests.rows < 0).any():
            raise ArgumentError(
                f"plan: item {int((requests.rows < 0).argmax())} names a partition that the cluster"
                " does not have"
            )
        ids = requests.targets.broker_ids
        brokers = state.broker_rows(ids)
        if (brokers < 0).any():
            raise ArgumentError(
                "plan: the cluster does not have broker"
                f" {abbreviate(np.unique(ids[brokers < 0]).tolist())}"
            )
        topics = state.topic.take(state.topic_row[requests.rows]).to_pylist()
        numbers = state.partition[requests.rows].tolist()
        return cls(
            requests.rows,
            np.repeat(np.arange(requests.rows.size), np.diff(requests.targets.offsets)),
            brokers,
            tuple(f"{topic}-{number}" for topic, number in zip(topics, numbers, strict=True)),
            ids,
        )


@dataclass(frozen=True, eq=False)
class Demand:
    """What has to be copied after one failure, by pairs of source and destination.

    Attributes
    ----------
    source, destination : (f,) int64
        Broker rows; each pair once.
    debt, live : (f,) int64
        Bytes that the destination lacks, and bytes a second that producers write meanwhile.
    without_source, without_place : int
        Bytes of replicas of partitions that have no leader to copy from, and of those for which no
        broker is left.
    partition, pair : (u,) int64
        Of each replica of a partition under min ISR the partition, ascending, and the place of its
        pair.
    """

    source: Integers
    destination: Integers
    debt: Integers
    live: Integers
    without_source: int
    partition: Integers
    pair: Integers
    without_place: int = 0


@dataclass(frozen=True, eq=False)
class PartitionsAfter:
    """Some partitions after a failure.

    Attributes
    ----------
    sequence : (r, w) int32
        Their brokers; those that failed, and live replicas, as masks of its places.
    failed, live : (r,) int64
    leader : (r,) int64
        Broker row, or -1.
    under_min_isr : (r,) bool
    """

    sequence: Rows
    failed: Integers
    live: Integers
    leader: Integers
    under_min_isr: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class HostedPartitions:
    """The partitions of each broker.

    Attributes
    ----------
    effects : FailureEffects
    begin : (B + 1,) int64
        Where the rows of each broker begin.
    rows : (m,) int32
        Places among the rows of `effects`.
    sequences : (n, w) int32
        Brokers of each partition; B, the number of brokers, where there is none.
    cell_begin : (n,) int64
        Where the cells of its shape begin.
    width : (n,) int8
        Places of each sequence.
    live : (n,) uint16
        Places of live assigned replicas without a failure.
    """

    effects: FailureEffects
    begin: Integers
    rows: Rows
    sequences: Rows
    cell_begin: Integers
    width: npt.NDArray[np.int8]
    live: npt.NDArray[np.uint16]

    @classmethod
    def of(cls, effects: FailureEffects) -> HostedPartitions:
        """List the partitions of each broker."""
        n, n_brokers = effects.rows.size, effects.n_brokers
        widest = max(int(effects.width.max(initial=0)), 1)
        sequences = np.full((n, widest), n_brokers, np.int32)
        for shape, width in enumerate(effects.width.tolist()):
            sequences[effects.at(shape), :width] = effects[shape].sequences
        brokers = sequences.ravel()
        # A narrow type is sorted in linear time.
        order = np.argsort(brokers.astype(np.min_scalar_type(n_brokers)), kind="stable")
        counts = np.bincount(brokers, minlength=n_brokers + 1)[:n_brokers]
        cell_begin = np.repeat(effects.cell_begin, effects.partitions)
        width = np.repeat(effects.width, effects.partitions)
        return cls(
            effects, np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            (order[: int(counts.sum())] // widest).astype(np.int32), sequences, cell_begin,
            width.astype(np.int8), effects.cells["live"][cell_begin + (1 << width)],
        )

    def demand(
        self, down: Rows, failed: npt.NDArray[np.bool_], debts: Integers, live: Integers,
        *, replaced: bool,
    ) -> Demand:
        """What the failed brokers lack when they are back.

        Parameters
        ----------
        down : (k,) int32
            Broker rows that failed.
        failed : (B + 1,) bool
            The same.
        debts, live : (n,) int64
            Bytes that a replica of each partition lacks, and bytes in per second.
        replaced : bool
            They are back without data; otherwise a partition without a leader lacks nothing.
        """
        at, after, row, broker = self._restored(down, failed)
        return _demand(after, at, row, broker, debts, live, counts_lost=replaced)

    def demand_of_new(
        self, new: NewReplicas, places: Integers, failed: npt.NDArray[np.bool_], debts: Integers,
        live: Integers, *, any_failed: bool,
    ) -> Demand:
        """What replicas lack that a plan makes on other brokers.

        Parameters
        ----------
        new : NewReplicas
        places : (m,) int64
            Of each of its partitions the place among the rows of `effects`.
        failed, debts, live
            As for `demand`.
        any_failed : bool

        Raises
        ------
        ArgumentError
            A replica is to be on a broker that fails.
        """
        onto_failed = failed[new.broker]
        if onto_failed.any():
            at = int(onto_failed.argmax())
            raise ArgumentError(
                f"plan: {new.names[new.owner[at]]} is to have a replica on broker"
                f" {new.broker_id[at]}, which fails; right is a broker that survives"
            )
        after = self.after_failure(places, failed, any_failed=any_failed)
        holds = _bits(after.live, after.sequence.shape[1])
        has_it = ((after.sequence[new.owner] == new.broker[:, None]) & holds[new.owner]).any(axis=1)
        return _demand(
            after, places, new.owner[~has_it], new.broker[~has_it], debts, live, counts_lost=True
        )

    def demand_elsewhere(
        self, down: Rows, failed: npt.NDArray[np.bool_], debts: Integers, live: Integers,
        assigned: Rows, room: Room,
    ) -> Demand:
        """What the replicas of failed brokers lack when they are made where there is most room.

        Parameters
        ----------
        down, failed, debts, live
            As for `demand`.
        assigned : (n, S) int32
            Broker rows of the assigned replicas of each partition; B where there is none.
        room : Room
            What the other brokers carry; the replicas are added, the largest first.
        """
        at, after, row, _ = self._restored(down, failed)
        destination = np.full(row.size, -1, np.int64)
        holders = [
            after.sequence[place][bits].tolist()
            for place, bits in enumerate(_bits(after.live, after.sequence.shape[1]))
        ]
        led = np.flatnonzero(after.leader[row] >= 0)
        place = at[row[led]]
        order = np.lexsort((self.effects.rows[place], -debts[place]))
        for number, partition in zip(led[order].tolist(), place[order].tolist(), strict=True):
            held = holders[row[number]]
            broker = room.take(
                held, assigned[partition], int(live[partition]), int(debts[partition])
            )
            if broker >= 0:
                held.append(broker)
                destination[number] = broker
        has_place = (destination >= 0) | (after.leader[row] < 0)
        demand = _demand(
            after, at, row[has_place], destination[has_place], debts, live, counts_lost=True
        )
        return replace(demand, without_place=int(debts[at[row[~has_place]]].sum()))

    def _restored(
        self, down: Rows, failed: npt.NDArray[np.bool_]
    ) -> tuple[Rows, PartitionsAfter, Integers, Rows]:
        """Replicas that failed.

        The partitions of failed brokers, what becomes of them, and of each replica the place of its
        partition among these and its broker.
        """
        lists = [self.rows[self.begin[b] : self.begin[b + 1]] for b in down.tolist()]
        at: Rows = np.unique(np.concatenate([self.rows[:0], *lists]))
        after = self.after_failure(at, failed, any_failed=True)
        restored = _bits(after.failed & self.live[at], after.sequence.shape[1])
        row, place = (axis.astype(np.int64) for axis in np.nonzero(restored))
        return at, after, row, after.sequence[row, place]

    def after_failure(
        self, at: npt.NDArray[np.integer], failed: npt.NDArray[np.bool_], *, any_failed: bool
    ) -> PartitionsAfter:
        """What becomes of some partitions, places among the rows of `effects`."""
        sequence = self.sequences[at]
        masks = failed[sequence] @ (1 << np.arange(sequence.shape[1]))
        cell = self.cell_begin[at] + (masks if any_failed else 1 << self.width[at].astype(np.int64))
        cells = self.effects.cells[cell]
        leader = sequence[np.arange(at.size), cells["leader"]].astype(np.int64)
        return PartitionsAfter(
            sequence, masks, cells["live"].astype(np.int64),
            np.where(cells["leader"] >= 0, leader, -1), (cells["flags"] & UNDER_MIN_ISR) != 0,
        )


def _bits(masks: Integers, width: int) -> npt.NDArray[np.bool_]:
    bits: npt.NDArray[np.bool_] = (masks[:, None] >> np.arange(width) & 1).astype(np.bool_)
    return bits


def _demand(
    after: PartitionsAfter, at: npt.NDArray[np.integer], row: Integers,
    destination: npt.NDArray[np.integer], debts: Integers, live: Integers, *, counts_lost: bool,
) -> Demand:
    """Add up replicas by pairs; `row` is the place of each one's partition among `after`."""
    led = after.leader[row] >= 0
    lost = int(debts[at[row[~led]]].sum()) if counts_lost else 0
    row, destination = row[led], destination[led].astype(np.int64)
    n_brokers = int(max(destination.max(initial=0), after.leader.max(initial=0))) + 1
    keys, pair = np.unique(after.leader[row] * n_brokers + destination, return_inverse=True)
    sums = np.zeros((2, keys.size), np.int64)
    np.add.at(sums[0], pair, debts[at[row]])
    np.add.at(sums[1], pair, live[at[row]])
    under = after.under_min_isr[row]
    return Demand(
        keys // n_brokers, keys % n_brokers, sums[0], sums[1], lost, row[under], pair[under]
    )
