"""A reassignment plan as batches that are executed one after another, within bounds for each.

Leaders move first, for that copies nothing. Then replicas move, those first that relieve brokers
which are over a limit. The simulated controller executes each batch before the next one is made; so
every batch begins with the leaders and the disks that the ones before leave behind.

Source: docs/capacity.md, section "A better placement"; Cruise Control, ExecutorConfig.java, for the
bounds on leaders and replicas.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kfast.analysis.plan_execution import Reassignment, execute_plan
from kfast.arguments import MAX_INT, check_instance, whole
from kfast.capacity.failures.broker_totals import TOTALS, Integers, broker_totals, replica_sizes
from kfast.capacity.failures.capacity_sweeps import prepare_capacity
from kfast.capacity.failures.cpu_models import MEASURED, CpuWeights
from kfast.capacity.loads.broker_capacities import BrokerCapacity
from kfast.capacity.loads.partition_loads import PartitionLoad
from kfast.capacity.loads.units import format_bytes, format_rate
from kfast.capacity.placements.placement_rules import BrokerLimits
from kfast.capacity.restorations.restoration_demand import Demand
from kfast.capacity.restorations.restoration_times import NO_LIMIT, SCALE, Ports, Restoration
from kfast.controllers import Reassignments, open_events
from kfast.controllers.reassignment_requests import as_table, being_reassigned
from kfast.errors import ArgumentError
from kfast.io.files import writing_folder
from kfast.io.kafka_tools.plan_json import write_reassignment
from kfast.schema import PLAN, PLAN_UNSCHEDULED
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text

__all__ = ["MOVES_PER_BROKER", "PlanBatches", "plan_batches"]

MOST_LEADERS, LEADERS_PER_BROKER = 1000, 250
"""Entries of a batch that move leaders alone, in all and of one broker.
Source: Cruise Control, ExecutorConfig.java, `num.concurrent.leader.movements`."""

MOST_REPLICAS, MOVES_PER_BROKER = 1250, 5
"""Replicas that a batch copies, in all and to or from one broker.
Source: Cruise Control, ExecutorConfig.java, `max.num.cluster.partition.movements` and
`num.concurrent.partition.movements.per.broker`."""

BASIS_POINTS = 10_000

ORDER = [("topic", "ascending"), ("partition", "ascending")]


@dataclass(frozen=True, eq=False)
class PlanBatches:
    """Batches of a plan, in the order in which they are to be executed.

    Attributes
    ----------
    batches : tuple of pa.Table
        topic, partition, replicas, sorted by topic and partition: what `kfast.check_plan` takes.
    throttles : tuple of (int or None)
        Of each batch the bytes a second for `kafka-reassign-partitions --throttle`: what every
        broker of the batch has left. None where nothing is copied, or nothing is known to limit it.
    alone : tuple of int
        Numbers of batches, from 1, of one entry that exceeds what a batch may copy.
    unscheduled : pa.Table
        `schema.PLAN_UNSCHEDULED`: entries that are in no batch, and why.
    plan, rollback : pa.Table
        All batches together, and what their partitions have now.
    """

    batches: tuple[pa.Table, ...]
    throttles: tuple[int | None, ...]
    alone: tuple[int, ...]
    unscheduled: pa.Table
    plan: pa.Table
    rollback: pa.Table

    @property
    def file_names(self) -> tuple[str, ...]:
        """The file of each batch."""
        return tuple(f"batch-{number:03}.json" for number in range(1, len(self.batches) + 1))

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write plan.json, rollback.json, batch-001.json and so on into a new folder.

        Each file is as `kafka-reassign-partitions` takes it. All are written, or none.

        Raises
        ------
        ArgumentError
            The folder is there already or cannot be made, or there is no batch.
        """
        if not self.batches:
            raise ArgumentError("there is no batch to write")
        files = {"plan.json": self.plan, "rollback.json": self.rollback,
                 **dict(zip(self.file_names, self.batches, strict=True))}
        with writing_folder(folder) as partial:
            for name, table in files.items():
                with (partial / name).open("wb") as file:
                    write_reassignment(table, file)

    def _summary(self) -> Summary:
        return "PlanBatches", {
            "batches": len(self.batches), "partitions": self.plan.num_rows,
            "alone": len(self.alone), "unscheduled": self.unscheduled.num_rows,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


@dataclass(frozen=True)
class Entry:
    """One entry of a plan, and its partition as it is before a batch. Brokers are rows.

    Attributes
    ----------
    key : tuple of str and int
    target : tuple of int
        Broker ids.
    leader : int
        Whom replicas are copied from; -1 for none.
    preferred : int
        The first replica of the target.
    added, removed : tuple of int
    size, live : int
        Bytes of a new replica, and bytes a second that producers write to it meanwhile.
    """

    key: tuple[str, int]
    target: tuple[int, ...]
    leader: int
    preferred: int
    added: tuple[int, ...]
    removed: tuple[int, ...]
    size: int
    live: int


@dataclass(frozen=True, eq=False)
class Bounds:
    """What a batch may do, by what brokers carry before it.

    Attributes
    ----------
    seconds, moves_per_broker : int
    sending, receiving : sequence of int
        Bytes a second that each broker has left for copies, or `NO_LIMIT`.
    disk, disk_limit : sequence of int, sequence of (int or None)
    overfull : frozenset of int
        Rows of brokers that are down or over a limit.
    broker_id : sequence of int
    """

    seconds: int
    moves_per_broker: int
    sending: Sequence[int]
    receiving: Sequence[int]
    disk: Sequence[int]
    disk_limit: Sequence[int | None]
    overfull: frozenset[int]
    broker_id: Sequence[int]

    def rate(self, entry: Entry) -> int:
        """Bytes a second that all brokers that copy an entry have left."""
        if not entry.size and not entry.live:
            return NO_LIMIT
        return min(self.sending[entry.leader], *(self.receiving[b] for b in entry.added))

    def priority(self, entry: Entry) -> tuple[bool, int, int, tuple[str, int]]:
        """Entries that relieve a broker come first, then fast ones, then large ones.

        One throttle is for all of a batch: a slow broker would slow down the others.
        """
        rate = self.rate(entry) if entry.added else NO_LIMIT
        return self.overfull.isdisjoint(entry.removed), -rate, -entry.size, entry.key

    def obstacle(self, entry: Entry) -> tuple[int | None, str] | None:
        """Why an entry cannot be executed now, even alone: a broker id, and the reason."""
        for broker in entry.added:
            limit, needed = self.disk_limit[broker], self.disk[broker] + entry.size
            if limit is not None and needed > limit:
                return self.broker_id[broker], (
                    f"its disk would hold {format_bytes(needed)} of at most {format_bytes(limit)}"
                )
        live = entry.live * len(entry.added)
        if not entry.added or self.rate(entry) > live:
            return None
        ports = [(self.sending[entry.leader], entry.leader)]
        free, broker = min(ports + [(self.receiving[b], b) for b in entry.added])
        return self.broker_id[broker], (
            f"its network leaves {format_rate(max(free, 0))} for copies, and producers write "
            f"{format_rate(live)} to the new replicas"
        )


@dataclass(eq=False)
class Batch:
    """Entries of a batch that is being made, and what they copy."""

    bounds: Bounds
    entries: list[Entry] = field(default_factory=list)
    rate: int = NO_LIMIT
    fullest: int = 0
    sent: Counter[int] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)
    bytes_sent: Counter[int] = field(default_factory=Counter)
    bytes_received: Counter[int] = field(default_factory=Counter)
    disk: Counter[int] = field(default_factory=Counter)

    def take(self, entry: Entry) -> bool:
        """Add an entry if the batch keeps its bounds with it."""
        bounds, n = self.bounds, len(entry.added)
        if not n:
            self.entries.append(entry)
            return True
        # Producers go on writing while a replica is copied: that takes a share of the network too.
        cost = entry.size + entry.live * bounds.seconds
        rate = min(self.rate, bounds.rate(entry))
        fullest = max(self.fullest, self.bytes_sent[entry.leader] + n * cost,
                      *(self.bytes_received[broker] + cost for broker in entry.added))
        if (
            self.sent.total() + n > MOST_REPLICAS
            or self.sent[entry.leader] + n > bounds.moves_per_broker
            or any(self.received[b] + 1 > bounds.moves_per_broker for b in entry.added)
            or (rate != NO_LIMIT and fullest > rate * bounds.seconds)
            or any(self._exceeds_disk(b, entry.size) for b in entry.added)
        ):
            return False
        self.add(entry)
        return True

    def _exceeds_disk(self, broker: int, size: int) -> bool:
        limit = self.bounds.disk_limit[broker]
        return limit is not None and self.bounds.disk[broker] + self.disk[broker] + size > limit

    def add(self, entry: Entry) -> None:
        """Add an entry, whatever it copies."""
        n, cost = len(entry.added), entry.size + entry.live * self.bounds.seconds
        self.entries.append(entry)
        self.rate = min(self.rate, self.bounds.rate(entry))
        self.sent[entry.leader] += n
        self.bytes_sent[entry.leader] += n * cost
        for broker in entry.added:
            self.received[broker] += 1
            self.bytes_received[broker] += cost
            self.disk[broker] += entry.size
        self.fullest = max(self.fullest, self.bytes_sent[entry.leader],
                           *(self.bytes_received[broker] for broker in entry.added))


def plan_batches(
    state: ClusterState, plan: Reassignments, load: PartitionLoad, capacity: BrokerCapacity, *,
    batch_seconds: int = 3600, moves_per_broker: int = MOVES_PER_BROKER,
    throttle: int | None = None, normal_limits: Mapping[str, float] | None = None,
    failed_limits: Mapping[str, float] | None = None, replicas_limit: int | None = None,
    weights: CpuWeights | None = None, cpu_model: str = MEASURED,
) -> PlanBatches:
    """Divide a plan into batches, each of which leaves every broker within bounds.

    Entries that only reorder replicas come first. A batch of others copies at most
    `moves_per_broker` replicas to and from each broker, and takes at most `batch_seconds`. No disk
    exceeds its limit while old and new replicas both exist.

    Parameters
    ----------
    state : ClusterState
        Not changed.
    plan : mapping of (topic, partition) to broker ids, or pa.Table
        As for `kfast.execute_plan`.
    load : PartitionLoad
        Of `state`.
    capacity : BrokerCapacity
        Of `state`.
    batch_seconds : int
        An entry that takes longer is a batch of its own.
    moves_per_broker : int
    throttle : int, optional
        Bytes a second that each broker may send to, and receive for, new replicas, at most.
    normal_limits, failed_limits, replicas_limit, weights, cpu_model
        As of `kfast.prepare_capacity`.

    Returns
    -------
    PlanBatches
        What no batch can execute is in `unscheduled`, with the reason.

    Raises
    ------
    ArgumentError
        An entry cancels a reassignment, or a partition stands twice; an argument is wrong.
    """
    check_instance("state", state, ClusterState)
    table = as_table(plan)
    _refuse_cancellations(table)
    check_instance("load", load, PartitionLoad)
    check_instance("capacity", capacity, BrokerCapacity)
    batch_seconds = whole("batch_seconds", batch_seconds, 1, MAX_INT)
    moves_per_broker = whole("moves_per_broker", moves_per_broker, 1, MOST_REPLICAS)
    copying = Restoration("replace", leader_throttle=throttle, follower_throttle=throttle)
    prepared = prepare_capacity(
        state, load, capacity, normal_limits=normal_limits, failed_limits=failed_limits,
        replicas_limit=replicas_limit, weights=weights, cpu_model=cpu_model,
    )
    started = state.copy()
    open_events(started, journal="off").start()
    sizes = replica_sizes(started, load, (state, replica_sizes(state, load)))
    totals = broker_totals(started, load, sizes, prepared.weights)
    limits = BrokerLimits(prepared, load, totals[:, TOTALS.index("work")])
    schedule = _Schedule(started, sizes, limits, copying, batch_seconds, moves_per_broker)
    schedule.run(table)
    return schedule.result(started)


class _Schedule:
    """Makes batch after batch, on a cluster that has executed the ones before."""

    def __init__(
        self, state: ClusterState, sizes: Integers, limits: BrokerLimits, copying: Restoration,
        seconds: int, moves_per_broker: int,
    ) -> None:
        self.state, self.sizes, self.limits, self.copying = state, sizes, limits, copying
        self.seconds, self.moves_per_broker = seconds, moves_per_broker
        self.batches: list[pa.Table] = []
        self.throttles: list[int | None] = []
        self.alone: list[int] = []
        self.unscheduled: list[dict[str, Any]] = []

    def run(self, table: pa.Table) -> None:
        """Schedule all entries of a plan."""
        waiting = self._executed(self._not_moving(table.sort_by(ORDER).to_pylist()))[1]
        while waiting:
            entries = self._entries(waiting)
            moved = [entry for entry in entries if entry.added or entry.removed]
            is_alone, rate = False, NO_LIMIT
            if len(moved) < len(entries):
                chosen = _leader_batch(entries)
            else:
                bounds = self._bounds()
                batch, is_alone = _replica_batch(bounds, moved)
                if not batch.entries:
                    self._refuse_all(waiting, moved, bounds)
                    return
                chosen, rate = batch.entries, batch.rate
            keys = {entry.key for entry in chosen}
            rows = [row for row in waiting if _key(row) in keys]
            after, completed = self._executed(rows)
            if len(completed) < len(rows):
                # What is left of the batch is made anew, for its bounds may allow more.
                keys -= {_key(row) for row in completed}
            else:
                self._append(rows, after, None if rate == NO_LIMIT else rate, is_alone=is_alone)
            waiting = [row for row in waiting if _key(row) not in keys]

    def result(self, first: ClusterState) -> PlanBatches:
        """All batches; `first` is the cluster before them."""
        parts = [PLAN.schema.empty_table(), *self.batches]
        plan = pa.concat_tables(parts).sort_by(ORDER)
        rows = _rows_of(first, plan.to_pylist())
        had = [list(first.assignment(row).replicas) for row in rows]
        rollback = PLAN.table({
            "topic": plan["topic"], "partition": plan["partition"],
            "replicas": pa.array(had, pa.list_(pa.int32())),
        })
        return PlanBatches(
            tuple(self.batches), tuple(self.throttles), tuple(self.alone),
            pa.Table.from_pylist(self.unscheduled, PLAN_UNSCHEDULED.schema), plan, rollback,
        )

    def _not_moving(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Entries of partitions that are not being reassigned."""
        is_moving = being_reassigned(self.state)
        not_moving = []
        for row, place in zip(rows, _rows_of(self.state, rows), strict=True):
            if place >= 0 and is_moving[place]:
                self._leave_out(row, None, "it is being reassigned already")
            else:
                not_moving.append(row)
        return not_moving

    def _executed(
        self, rows: Sequence[dict[str, Any]]
    ) -> tuple[ClusterState, list[dict[str, Any]]]:
        """The cluster after some entries, and those that the controller completes without harm."""
        table = _plan_table(rows)
        ended = execute_plan(self.state, table, elect_preferred=True, journal="off")
        faults = _worse(ended) | _not_completed(ended)
        if ended.under_way["newly_offline"] or ended.under_way["newly_under_min_isr"]:
            faults |= _worse(execute_plan(self.state, table, pending=True, journal="off"))
        for row in rows:
            if (reason := faults.get(_key(row))) is not None:
                self._leave_out(row, None, reason)
        return ended.state, [row for row in rows if _key(row) not in faults]

    def _leave_out(self, row: Mapping[str, Any], broker: int | None, reason: str) -> None:
        self.unscheduled.append({**row, "broker_id": broker, "reason": reason})

    def _refuse_all(
        self, waiting: Sequence[dict[str, Any]], entries: Sequence[Entry], bounds: Bounds
    ) -> None:
        """Name the obstacle of each entry that is left."""
        for row, entry in zip(waiting, entries, strict=True):
            broker, reason = bounds.obstacle(entry) or (None, "")
            self._leave_out(row, broker, reason)

    def _append(
        self, rows: Sequence[dict[str, Any]], after: ClusterState, throttle: int | None, *,
        is_alone: bool,
    ) -> None:
        """Add a batch, after which the cluster is as given."""
        self.sizes = replica_sizes(after, self.limits.load, (self.state, self.sizes))
        self.state = after
        self.batches.append(_plan_table(rows))
        self.throttles.append(throttle)
        if is_alone:
            self.alone.append(len(self.batches))

    def _entries(self, rows: Sequence[dict[str, Any]]) -> list[Entry]:
        """Entries of a plan as they are on the cluster now."""
        state, load = self.state, self.limits.load
        row_of = {broker: row for row, broker in enumerate(state.broker_id.tolist())}
        entries = []
        for row, place in zip(rows, _rows_of(state, rows), strict=True):
            now, target = state.assignment(place).replicas, tuple(row["replicas"])
            entries.append(Entry(
                _key(row), target, int(state.records["leader"][place]), row_of[target[0]],
                tuple(row_of[broker] for broker in target if broker not in now),
                tuple(row_of[broker] for broker in now if broker not in target),
                int(load.disk_bytes[place]), int(load.bytes_in[place]),
            ))
        return entries

    def _bounds(self) -> Bounds:
        """What the next batch may do."""
        prepared = self.limits.plan
        totals = broker_totals(self.state, self.limits.load, self.sizes, prepared.weights)
        none = np.zeros(0, np.int64)
        ports = Ports.of(
            prepared, self.copying, Demand(none, none, none, none, 0, none, none), totals
        )
        sending, receiving = (
            np.where(port == NO_LIMIT, NO_LIMIT, port // SCALE).tolist()
            for port in (ports.sending, ports.receiving)
        )
        points = self.limits.basis_points["disk"]
        over = self.limits.over(totals)
        overfull = [
            row for row, (names, is_up) in enumerate(zip(over, self.state.up, strict=True))
            if names or not is_up
        ]
        return Bounds(
            self.seconds, self.moves_per_broker, sending, receiving,
            totals[:, TOTALS.index("disk_bytes")].tolist(),
            [None if most is None else most * points // BASIS_POINTS
             for most in self.limits.capacities()["disk"]],
            frozenset(overfull), self.state.broker_id.tolist(),
        )


def _leader_batch(entries: Sequence[Entry]) -> list[Entry]:
    """The first entries that move leaders alone, as many as one batch may have."""
    chosen: list[Entry] = []
    of_broker: Counter[int] = Counter()
    for entry in entries:
        brokers = {entry.leader, entry.preferred}
        if entry.added or entry.removed or any(
            of_broker[broker] >= LEADERS_PER_BROKER for broker in brokers
        ):
            continue
        chosen.append(entry)
        of_broker.update(brokers)
        if len(chosen) == MOST_LEADERS:
            break
    return chosen


def _replica_batch(bounds: Bounds, entries: Sequence[Entry]) -> tuple[Batch, bool]:
    """The next batch of entries that move replicas, and whether it is one that is too large."""
    batch = Batch(bounds)
    for entry in sorted(entries, key=bounds.priority):
        if batch.sent.total() == MOST_REPLICAS:
            break
        if bounds.obstacle(entry) is not None or batch.take(entry):
            continue
        if not batch.entries:
            batch.add(entry)
            return batch, True
    return batch, False


def _not_completed(ended: Reassignment) -> dict[tuple[str, int], str]:
    """Entries that the controller refuses or cannot complete, and why."""
    table = ended.partitions.filter(pc.and_(
        ended.partitions["planned"], pc.not_equal(ended.partitions["status"], "completed")
    ))
    return {_key(row): f"{row['status']}: {row['reason']}" for row in table.to_pylist()}


def _worse(outcome: Reassignment) -> dict[tuple[str, int], str]:
    """Entries whose partition goes offline or falls under min ISR."""
    reasons: dict[tuple[str, int], str] = {}
    for metric, reason in (("under_min_isr", "it would fall under min ISR"),
                           ("offline", "it would go offline")):
        flags = outcome.after.flags(metric) & ~outcome.before.flags(metric)
        table = outcome.partitions.filter(outcome.partitions["planned"])
        rows = table.filter(pc.is_valid(table["partition_row"]))
        worse = rows.filter(pa.array(flags[rows["partition_row"].to_numpy()]))
        reasons |= {_key(row): reason for row in worse.to_pylist()}
    return reasons


def _key(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["topic"], row["partition"]


def _rows_of(state: ClusterState, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Partition rows, -1 where one is unknown."""
    lookup = state.lookup
    places: list[int] = lookup.rows(
        lookup.topics([row["topic"] for row in rows]),
        np.array([row["partition"] for row in rows], np.int32),
    ).tolist()
    return places


def _plan_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return PLAN.table({
        name: pa.array([row[name] for row in rows], PLAN.schema.field(name).type)
        for name in PLAN.schema.names
    })


def _refuse_cancellations(table: pa.Table) -> None:
    cancelled = table.filter(pc.is_null(table["replicas"])).slice(0, 1)
    for row in cancelled.to_pylist():
        raise ArgumentError(
            f"plan: {row['topic']}-{row['partition']} cancels a reassignment; right are replicas"
        )
