"""What a task does with the shards it is dealt: read, let the events happen, write, and sum up.

What the driver needs of the shards is summed up in each task: a cluster of a thousand shards sends
back a few objects. A broker gets one request where many shards have something to tell it, so each
step has a key that is the same in every shard.

Sections are those of docs/controller.md. What a KRaft cluster has instead is `sharded_quorum`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfast.controllers import Controller
from kfast.controllers.zk.fused_events import ANNOUNCEMENT
from kfast.controllers.zk.leader_election import count_preferred, count_without_leadership
from kfast.io import SourceTables, gather
from kfast.io.file_systems import AnyPath, RemotePath, parse_path
from kfast.io.files import writing
from kfast.io.parquet import write_flat, write_parquet
from kfast.journal import Outcome
from kfast.journal.outcome import KINDS
from kfast.schema import (
    PREFERRED_LEADERS,
    SHARDED_BROKERS,
    SHARDED_ELECTIONS,
    SHARDED_RECORDS,
    SHARDED_REQUESTS,
    SHARDED_TRANSITIONS,
    AlterCode,
    ResultTable,
    columns_of,
)
from kfast.spark.dataset import FLAT, Dataset, check_token, digest_names, settings_of_shard
from kfast.spark.sharded_quorum import (
    ELECT,
    EventCounts,
    QuorumCall,
    call_events,
    changes_of,
    record_rows,
)
from kfast.state import ClusterState
from kfast.state.census import count_marks, mark_partitions
from kfast.state.compare import DigestParts, digest_parts
from kfast.state.controller_change import change_controller
from kfast.state.flat_table import can_be_flat, place_topics, to_flat
from kfast.state.from_tables import load
from kfast.state.metadata_records import ResourceType
from kfast.state.partition_rows import without_free_rows
from kfast.state.tables import small_tables

__all__ = [
    "FULL", "REBALANCE", "REQUESTS", "EventCall", "Run", "ShardSums", "add_by_broker",
    "count_after_events", "count_changes", "new_sums", "run_share", "with_told_controller",
]

REBALANCE = "rebalance_leaders"

FULL = {"transitions": SHARDED_TRANSITIONS, "elections": SHARDED_ELECTIONS}
"""Tables that are written, row by row, where the journal is `full`; KRaft has `records`."""

REQUESTS = pa.schema([
    *SHARDED_REQUESTS.schema,
    pa.field("alone", pa.bool_(), nullable=False), pa.field("shards", pa.int64(), nullable=False),
])
"""Requests of some shards. `alone`: those of each partition went out by themselves, as before Kafka
1.1."""

MOVES = re.compile(r"(U|[AB]\d): ")
"""Steps of reassignments: their actions begin with the phase (section 6.7)."""

STOPPED = "stop followed replicas"
"""Action of a controlled shutdown that sends StopReplica outside the machines' batches."""


@dataclass(frozen=True)
class EventCall:
    """One event: a method of `Controller`, and its argument.

    Attributes
    ----------
    counts, reassigned, without_leadership
        As the controller's method takes them.
    failed_groups : frozenset of int
        Ids of the failed brokers that have replicas in any shard: the order in which a controller
        takes them depends on all of them (docs/controller.md, section 2.3, step 3).
    """

    name: str
    argument: Any = None
    counts: pa.Table | None = None
    without_leadership: int | None = None
    reassigned: int | None = None
    failed_groups: frozenset[int] = frozenset()

    def call(self, controller: Controller) -> tuple[Outcome, list[int]]:
        """Let it happen; returns also which failed brokers had replicas, with those known."""
        groups = set(self.failed_groups)
        controller.replica_state_machine.failed_groups = groups
        options: dict[str, Any] = {}
        arguments = () if self.argument is None else (self.argument,)
        if self.name == ELECT:
            arguments, options = (), {
                **(self.argument or {}), "without_leadership": self.without_leadership
            }
        elif self.counts is not None:
            options = {"counts": self.counts, "reassigned": self.reassigned}
        outcome = getattr(controller, self.name)(*arguments, **options)
        return outcome, sorted(groups)


Call = TypeVar("Call", EventCall, QuorumCall)


@dataclass(frozen=True)
class Run(Generic[Call]):
    """All that a task must know; `controller` and `elr` as `kfast.spark.fail` takes them."""

    dataset: Dataset
    events: tuple[Call, ...]
    journal: str
    controller: str | None
    elr: bool | None
    folder: str
    form: str = FLAT
    token: str = ""

    @property
    def unclean_before(self) -> int:
        """The cluster's counter of unclean elections, which every shard begins with."""
        settings = self.dataset.cluster
        if settings is None or "unclean_elections" not in settings.column_names:
            return 0
        return settings["unclean_elections"][0].as_py() or 0

    def load_shards(self, task: int) -> Iterator[tuple[int, ClusterState]]:
        """Number and state of each shard of a task: its rows, and all brokers and settings."""
        for number in self.dataset.shares[task]:
            tables = gather(self.dataset.files[number])
            settings = settings_of_shard(self.dataset.cluster, tables)
            state = ClusterState()
            load(
                state, self.dataset.brokers, tables.topics, tables.partitions, settings,
                source=tables.source,
            )
            state.log_settings = tables.log_settings
            with_told_controller(state, self.controller, self.elr)
            state.scan_hosting()
            yield number, state


def with_told_controller(state: ClusterState, controller: str | None, elr: bool | None) -> None:
    """Let the controller that a caller names run a cluster, in place; None for its own."""
    if controller is not None or elr is not None:
        change_controller(state, controller or state.controller, elr=elr)


# --- what an event must know of all shards before it happens -----------------------------------


@dataclass
class ShardCounts:
    """Counts of the partitions of some shards after the events so far.

    Attributes
    ----------
    groups : list of (int, list of int)
        Of each event and shard, the failed brokers that the shard knew of.
    preferred : pa.Table
        Who should lead how much (`count_preferred`): what a rebalance asks.
    """

    groups: list[tuple[int, list[int]]]
    preferred: pa.Table
    reassigned: int = 0
    without_leadership: int = 0


def count_after_events(run: Run[EventCall], task: int) -> ShardCounts:
    """Let the events happen in some shards, write nothing, and count."""
    counts = ShardCounts([], PREFERRED_LEADERS.schema.empty_table())
    for _, shard in run.load_shards(task):
        controller = Controller(shard, journal="off", profile=shard.controller)
        counts.groups += [(at, event.call(controller)[1]) for at, event in enumerate(run.events)]
        preferred = [counts.preferred, count_preferred(shard)]
        counts.preferred = add_by_broker(preferred, PREFERRED_LEADERS.schema)
        counts.reassigned += shard.n_reassigned
        counts.without_leadership += count_without_leadership(shard)
    return counts


def count_changes(run: Run[QuorumCall], task: int) -> list[EventCounts]:
    """Let the events of a KRaft cluster happen in some shards, write nothing, and count."""
    counts = [EventCounts() for _ in run.events]
    for number, state in run.load_shards(task):
        for total, (_, counted) in zip(
            counts, call_events(run.events, state, number, "counts"), strict=False
        ):
            total.add(counted)
    return counts


def add_by_broker(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Tables of counts by broker in one; a shard may name brokers that others do not."""
    summed = pa.concat_tables(table.cast(schema) for table in tables).group_by("broker_id")
    columns = [(name, "sum") for name in schema.names[1:]]
    return summed.aggregate(columns).rename_columns(schema.names).cast(schema).sort_by("broker_id")


# --- the run -----------------------------------------------------------------------------------


@dataclass
class ShardSums:
    """What the shards of a task come to.

    Attributes
    ----------
    per_broker : pa.Table
        Leaders, replicas and replicas in sync of each broker.
    topics : dict of int to bytes
        Of each shard, digests of the names of its topics.
    errors : set of (int, str or None)
        Event, and why a shard refused it as a whole.
    deleting : set of int
        Shards in which topics were being deleted.
    groups
        As in `ShardCounts`.
    event_counts : list of EventCounts
        Of each event of a KRaft cluster.
    configurations : dict
        Those of a KRaft cluster's topics, as in `Quorum.configurations`.
    """

    partitions: int = 0
    digests: list[DigestParts] = field(default_factory=list)
    census: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    per_broker: pa.Table = field(default_factory=SHARDED_BROKERS.schema.empty_table)
    topics: dict[int, bytes] = field(default_factory=dict)
    errors: set[tuple[int, str | None]] = field(default_factory=set)
    deleting: set[int] = field(default_factory=set)
    groups: list[tuple[int, list[int]]] = field(default_factory=list)
    event_counts: list[EventCounts] = field(default_factory=list)
    configurations: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)

    def add(self, other: ShardSums) -> None:
        """Take in other shards."""
        self.partitions += other.partitions
        self.digests += other.digests
        self.census.update(other.census)
        self.counts.update(other.counts)
        self.per_broker = add_by_broker(
            [self.per_broker, other.per_broker], SHARDED_BROKERS.schema
        )
        self.topics |= other.topics
        self.errors |= other.errors
        self.deleting |= other.deleting
        self.groups += other.groups
        for total, counted in zip(self.event_counts, other.event_counts, strict=True):
            total.add(counted)
        self.configurations |= other.configurations


def run_share(run: Run[Any], task: int) -> ShardSums:
    """Let the events happen in some shards, write what becomes of them, and sum it up."""
    sums, folder = new_sums(run), parse_path(run.folder)
    requests: list[pa.Table] = []
    actions: dict[str, int] = {}
    written: list[AnyPath] = []
    for number, shard in run.load_shards(task):
        if shard.is_kraft:
            _run_quorum_shard(run, number, shard, sums)
        else:
            _run_shard(run, number, shard, sums, requests, actions)
        check_token(run.folder, run.token)
        state = without_free_rows(shard)
        names, _ = place_topics(state)
        sums.topics[number] = digest_names(names).tobytes()
        written.append(folder / "state" / f"shard-{number:06}.parquet")
        _finish(state, sums, run.form, written[-1])
        _drop_from_page_cache(written[-2:])
    joined = join_requests(requests, list(actions))
    _write(folder / "requests" / f"task-{task:06}.parquet", joined)
    return sums


def new_sums(run: Run[Any]) -> ShardSums:
    """Sums of no shard."""
    return ShardSums(event_counts=[EventCounts() for _ in run.events])


def _run_quorum_shard(
    run: Run[QuorumCall], number: int, state: ClusterState, sums: ShardSums
) -> None:
    """Let the events happen in a shard of a KRaft cluster, and count what they do."""
    rows: list[pa.Table] = [SHARDED_RECORDS.schema.empty_table()]
    full = run.journal == "full"
    happened = call_events(run.events, state, number, "full" if full else "counts")
    for at, (outcomes, counted) in enumerate(happened):
        sums.event_counts[at].add(counted)
        if outcomes:
            errors = (outcome.error for outcome in outcomes if outcome.error is not None)
            sums.errors.add((at, next(errors, None)))
        for outcome in outcomes:
            sums.counts.update(changes_of(at, run.events[at].name, outcome))
            if full:
                rows.append(record_rows(at, number, outcome))
    if full and run.events:
        path = parse_path(run.folder) / "records" / f"shard-{number:06}.parquet"
        _write(path, pa.concat_tables(rows))
    assert state.quorum is not None
    sums.configurations |= {
        (kind, name): values for (kind, name), values in state.quorum.configurations.items()
        if kind == ResourceType.TOPIC
    }


def _run_shard(
    run: Run[EventCall], number: int, state: ClusterState, sums: ShardSums,
    requests: list[pa.Table], actions: dict[str, int],
) -> None:
    """Let the events happen in a shard of a ZooKeeper-mode cluster, and count what they do."""
    controller = Controller(state, journal=run.journal, profile=state.controller)
    full: dict[str, list[pa.Table]] = {kind: [] for kind in FULL}
    for at, event in enumerate(run.events):
        deleting = state.any_queued
        outcome, groups = event.call(controller)
        sums.errors.add((at, outcome.error))
        sums.groups.append((at, groups))
        if (deleting or state.any_queued) and state.delete_topic_enabled:
            sums.deleting.add(number)
        for key, n in counts_of(at, outcome):
            sums.counts[key] += n
        each = controller.profile.batch_per_partition
        requests.append(requests_of(at, outcome, each, actions))
        if run.journal == "full":
            for kind, tables in full.items():
                tables.append(rows_of(FULL[kind], at, number, outcome, getattr(outcome, kind)))
    if run.journal == "full" and run.events:
        for kind, tables in full.items():
            path = parse_path(run.folder) / kind / f"shard-{number:06}.parquet"
            _write(path, pa.concat_tables(tables))


def _finish(state: ClusterState, sums: ShardSums, form: str, path: AnyPath) -> None:
    """Sum up a shard's state, and write it."""
    sums.partitions += state.n_partitions
    marks, per_broker = mark_partitions(state)
    sums.census.update(count_marks(marks))
    loads = [pa.array(state.broker_id), *(pa.array(part.copy()) for part in per_broker.T)]
    load = pa.table(loads, schema=SHARDED_BROKERS.schema)
    sums.per_broker = add_by_broker([sums.per_broker, load], SHARDED_BROKERS.schema)
    sums.digests.append(digest_parts(state))
    brokers, topics, cluster = small_tables(state)
    flat = form == FLAT and can_be_flat(state)
    partitions = to_flat(state) if flat else state.to_tables().partitions
    tables = SourceTables("", partitions, topics, brokers, cluster)
    with writing(path, durable=False) as file:
        (write_flat if flat else write_parquet)(tables, file)


def _drop_from_page_cache(files: Sequence[AnyPath]) -> None:
    """Let the page cache forget what was written, when it is on the disk.

    A run that writes more than the memory holds would otherwise take fresh pages all the time, and
    finding those can cost ten times the writing. The first call starts the disk, the next, after
    another shard, gives the pages back.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for path in files:
        if isinstance(path, RemotePath):
            continue
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _write(path: AnyPath, table: pa.Table) -> None:
    with writing(path, durable=False) as file:
        pq.write_table(table, file)


# --- what an outcome comes to, to be put together over shards ---------------------------------


def counts_of(at: int, outcome: Outcome) -> Iterator[tuple[tuple[int, str, str, str], int]]:
    """Counts of an outcome that are sums over partitions: event, name, kind, item."""
    counts = outcome.counts
    named: list[tuple[str, Mapping[str, int]]] = [
        ("transition", {f"{a} -> {b}": n for (a, b), n in counts.transitions.items()}),
        ("code", counts.codes),
        (
            "total",
            {
                "leaders_moved": counts.leaders_moved,
                "unclean_elections": counts.unclean_elections,
                "remaining": int(outcome.remaining.size),
            },
        ),
    ]
    if outcome.replies is not None:
        errors = pc.value_counts(pc.fill_null(outcome.replies["error"], "NONE")).to_pylist()
        named.append(("reply", {error["values"]: error["counts"] for error in errors}))
    if outcome.alter_codes.size:
        codes = np.bincount(outcome.alter_codes, minlength=len(AlterCode)).tolist()
        named.append(("reply", {code.name: codes[code] for code in AlterCode if codes[code]}))
    for kind, items in named:
        for item, n in items.items():
            yield (at, outcome.event, kind, item), n


def number_steps(outcome: Outcome) -> list[int]:
    """What tells each step from others of the same action, in whatever shard.

    In a rebalance each step is for one broker, and where brokers caught up each announcement is of
    one leader. Steps of reassignments are told apart by nothing: each partition has requests of its
    own, which add up. For any other step it is how often the action has been taken before.
    """
    if outcome.rebalanced:
        return list(outcome.rebalanced)
    seen: dict[str, int] = {}
    numbers = []
    senders = iter(outcome.senders)
    for action in outcome.actions:
        if outcome.senders and action == ANNOUNCEMENT:
            numbers.append(next(senders))
        elif MOVES.match(action):
            numbers.append(0)
        else:
            numbers.append(seen.get(action, 0))
            seen[action] = numbers[-1] + 1
    return numbers


def requests_of(
    at: int, outcome: Outcome, each: bool, actions: dict[str, int]
) -> pa.Table:
    """Requests by broker; `each` where a shutdown stops the replicas of each partition alone.

    Actions and kinds are numbers, by which Arrow groups ten times faster; `actions` grows.
    """
    counts = outcome.request_counts
    step = counts["step"].to_numpy()
    codes = [actions.setdefault(action, len(actions)) for action in outcome.actions]
    occurrences = np.asarray(number_steps(outcome), np.int32)
    alone = [totals.step for totals in outcome.totals if totals.per_partition]
    alone += [
        step for step, action in enumerate(outcome.actions)
        if MOVES.match(action) or (each and action == STOPPED)
    ]
    columns = {
        "event": np.full(step.size, at, np.int32),
        "step": np.asarray(codes, np.int32)[step],
        "occurrence": occurrences[step],
        "kind": pc.index_in(counts["kind"], pa.array(KINDS)),
        **{name: counts[name] for name in ("broker_id", "requests", "partitions")},
        "alone": np.isin(step, alone),
        "shards": np.ones(step.size, np.int64),
    }
    return pa.table(columns)


def join_requests(tables: Sequence[pa.Table], actions: Sequence[str]) -> pa.Table:
    """Requests of some shards: in one batch, all shards share one request to a broker.

    Where each partition has requests of its own (reassignments, and before Kafka 1.1 all moves),
    they add up. `actions` are those of the steps.
    """
    if not tables:
        return REQUESTS.empty_table()
    keys = ["event", "step", "occurrence", "kind", "broker_id"]
    # By one thread: the rows have the same order each time, so a task that is run again writes the
    # same bytes.
    joined = pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate([
        ("requests", "sum"), ("requests", "max"), ("partitions", "sum"), ("alone", "any"),
        ("shards", "sum"),
    ])
    columns = {key: joined[key] for key in keys}
    columns["action"] = pa.array(actions, pa.string()).take(joined["step"])
    columns["kind"] = pa.array(KINDS, pa.string()).take(joined["kind"])
    columns["requests"] = pc.if_else(
        joined["alone_any"], joined["requests_sum"], joined["requests_max"]
    )
    for name, made in (("partitions", "sum"), ("alone", "any"), ("shards", "sum")):
        columns[name] = joined[f"{name}_{made}"]
    return pa.table([columns[f.name].cast(f.type) for f in REQUESTS], schema=REQUESTS)


def rows_of(
    result: ResultTable, at: int, shard: int, outcome: Outcome, table: pa.Table
) -> pa.Table:
    """Rows of the journal of a shard, the step given by the event and the action."""
    columns = columns_of(table)
    steps = columns.pop("step")
    return result.table(columns | {
        "event": np.full(len(steps), at, np.int32), "shard": np.full(len(steps), shard, np.int32),
        "action": pa.array(outcome.actions, pa.string()).take(steps),
    })
