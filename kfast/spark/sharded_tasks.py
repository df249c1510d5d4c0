"""What a task does with the shards it is dealt: read, let the events happen, write, and sum up.

What the driver needs of the shards is summed up in each task: a cluster of a thousand shards sends
back a few rows. A broker gets one request where many shards have something to tell it, so each step
has a key that is the same in every shard.

Sections are those of docs/controller.md.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kfast.controllers import Controller
from kfast.controllers.zk.fused_events import ANNOUNCEMENT
from kfast.controllers.zk.leader_election import count_preferred
from kfast.io import SourceTables, gather
from kfast.io.files import writing
from kfast.io.parquet import write_flat, write_parquet
from kfast.journal import Outcome
from kfast.journal.outcome import KINDS
from kfast.schema import (
    PREFERRED_LEADERS,
    SHARDED_BROKERS,
    SHARDED_ELECTIONS,
    SHARDED_REQUESTS,
    SHARDED_TRANSITIONS,
    AlterCode,
    ResultTable,
    columns_of,
)
from kfast.spark.dataset import FLAT, Dataset, check_turn, digest_names
from kfast.state import ClusterState
from kfast.state.census import CensusSums
from kfast.state.compare import DigestParts, RowDigest, join_digests
from kfast.state.flat_table import (
    BLOCK_ROWS,
    Arena,
    can_be_flat,
    place_topics,
    to_flat,
)
from kfast.state.from_tables import load
from kfast.state.partition_rows import without_free_rows
from kfast.state.tables import small_tables

__all__ = [
    "BROKERS", "DONE", "ELECT", "GROUPS", "NUMBER", "PREFERRED", "REBALANCE", "REQUESTS",
    "EventCall", "Run", "add_up", "count_hand", "group_hand", "run_hand", "sum_hand",
]

REBALANCE, ELECT = "rebalance_leaders", "elect_leaders"

BROKERS, PREFERRED = SHARDED_BROKERS.schema, PREFERRED_LEADERS.schema
NUMBER = pa.schema([("partitions", pa.int64())])
GROUPS = pa.schema([("event", pa.int32()), ("brokers", pa.list_(pa.int32()))])
"""Failed brokers that one shard has replicas of, by event."""
DONE = pa.schema(
    [
        ("hand", pa.int32()),
        ("partitions", pa.int64()),
        ("summary", pa.binary()),
        ("brokers", pa.binary()),
        ("topics", pa.list_(pa.binary())),
    ]
)
"""What a hand comes to; `topics` are digests of the names, shard by shard."""

FULL = {"transitions": SHARDED_TRANSITIONS, "elections": SHARDED_ELECTIONS}
"""Tables that are written, row by row, where the journal is `full`."""

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
    """One event: a method of `Controller`, its argument, and what the whole cluster must tell.

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

    def happen(self, controller: Controller) -> tuple[Outcome, set[int]]:
        """Let it happen; returns also which failed brokers had replicas, with those known."""
        groups = set(self.failed_groups)
        controller.replica_state_machine.failed_groups = groups
        if self.name == ELECT:
            options = self.argument or {}
            outcome = controller.elect_leaders(
                **options, without_leadership=self.without_leadership
            )
            return outcome, groups
        method = getattr(controller, self.name)
        arguments = () if self.argument is None else (self.argument,)
        if self.counts is not None:
            return method(*arguments, counts=self.counts, reassigned=self.reassigned), groups
        return method(*arguments), groups


@dataclass(frozen=True)
class Run:
    """All that a task must know."""

    dataset: Dataset
    events: tuple[EventCall, ...]
    journal: str
    profile: str
    folder: str
    form: str = FLAT
    turn: str = ""

    @property
    def unclean_before(self) -> int:
        """The cluster's counter of unclean elections, which every shard begins with."""
        began = self.dataset.cluster
        if began is None or "unclean_elections" not in began.column_names:
            return 0
        return began["unclean_elections"][0].as_py() or 0

    def controller(self, number: int, room: Arena) -> Controller:
        """Read a shard: its rows, with the brokers and settings of the whole cluster.

        A flat one lies in `room`, and is overwritten by the next.
        """
        tables = gather(self.dataset.files[number])
        common = self.dataset.brokers, tables.topics, tables.partitions, self.dataset.cluster
        state = ClusterState()
        load(state, *common, source=tables.source, arena=room)
        state.scan_hosting()
        return Controller(state, journal=self.journal, profile=self.profile)


@dataclass
class Sums:
    """What the shards of a hand come to, so far."""

    partitions: int = 0
    digests: list[DigestParts] = field(default_factory=list)
    census: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    requests: list[pa.Table] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)
    brokers: list[pa.Table] = field(default_factory=list)
    topics: list[bytes] = field(default_factory=list)
    errors: set[tuple[int, str | None]] = field(default_factory=set)
    deleting: set[int] = field(default_factory=set)
    groups: list[tuple[int, list[int]]] = field(default_factory=list)
    written: list[Path] = field(default_factory=list)


def count_hand(run: Run, hand: int) -> Iterator[pa.RecordBatch]:
    """Who should lead how much after the events, over some shards: what a rebalance asks."""
    counted = [count_preferred(state).cast(PREFERRED) for state in _states_after(run, hand)]
    yield from add_up(counted, PREFERRED).to_batches()


def sum_hand(
    run: Run, count: Callable[[ClusterState], int], hand: int
) -> Iterator[pa.RecordBatch]:
    """A count of partitions after the events, over some shards."""
    n = sum(count(state) for state in _states_after(run, hand))
    yield pa.RecordBatch.from_pylist([{"partitions": n}], schema=NUMBER)


def group_hand(run: Run, hand: int) -> Iterator[pa.RecordBatch]:
    """The failed brokers that each event concerns, over some shards."""
    room = Arena()
    for number in run.dataset.hands[hand]:
        controller = run.controller(number, room)
        for at, event in enumerate(run.events):
            _, groups = event.happen(controller)
            row = {"event": at, "brokers": sorted(groups)}
            yield pa.RecordBatch.from_pylist([row], schema=GROUPS)


def _states_after(run: Run, hand: int) -> Iterator[ClusterState]:
    """Each shard after the events, until the next is asked for."""
    room = Arena()
    for number in run.dataset.hands[hand]:
        controller = run.controller(number, room)
        for event in run.events:
            event.happen(controller)
        yield controller.state


def add_up(tables: Sequence[pa.Table], wanted: pa.Schema) -> pa.Table:
    """Tables of counts by broker_id, in one."""
    names = [name for name in wanted.names if name != "broker_id"]
    whole = pa.concat_tables([wanted.empty_table(), *tables])
    summed = whole.group_by("broker_id").aggregate([(name, "sum") for name in names])
    summed = summed.select(["broker_id", *(f"{name}_sum" for name in names)])
    return summed.rename_columns(wanted.names).cast(wanted).sort_by("broker_id").combine_chunks()


def run_hand(run: Run, hand: int) -> Iterator[pa.RecordBatch]:
    """Let the events happen in some shards, write what becomes of them, and sum it up in a row."""
    sums, room = Sums(), Arena()
    for number in run.dataset.hands[hand]:
        _run_shard(run, number, sums, room)
        _give_back(sums.written[-2:])
    requests = join_requests(sums.requests, list(sums.steps))
    _write(Path(run.folder) / "requests" / f"hand-{hand:06}.parquet", requests)
    summary = {
        # The counter of unclean elections before is taken off by who joins the hands.
        "digest": msgspec.to_builtins(join_digests(sums.digests, run.unclean_before)),
        "census": sums.census,
        "counts": [[*key, n] for key, n in sums.counts.items()],
        "errors": list(sums.errors),
        "deleting": list(sums.deleting),
        "groups": sums.groups,
    }
    brokers = pa.BufferOutputStream()
    with pa.ipc.new_stream(brokers, BROKERS) as writer:
        writer.write_table(add_up(sums.brokers, BROKERS))
    row = {
        "hand": hand,
        "partitions": sums.partitions,
        "summary": msgspec.json.encode(summary),
        "brokers": bytes(brokers.getvalue()),
        "topics": sums.topics,
    }
    yield pa.RecordBatch.from_pylist([row], schema=DONE)


def _run_shard(run: Run, number: int, sums: Sums, room: Arena) -> None:
    controller = run.controller(number, room)
    state = controller.state
    full: dict[str, list[pa.Table]] = {kind: [] for kind in FULL}
    for at, event in enumerate(run.events):
        deleting = state.any_queued
        outcome, groups = event.happen(controller)
        sums.errors.add((at, outcome.error))
        sums.groups.append((at, sorted(groups)))
        if (deleting or state.any_queued) and state.delete_topic_enabled:
            sums.deleting.add(number)
        for key, n in counts_of(at, outcome):
            sums.counts[key] += n
        requests = requests_of(at, outcome, controller.profile.batch_per_partition, sums.steps)
        sums.requests.append(requests)
        if run.journal == "full":
            for kind, tables in full.items():
                tables.append(rows_of(FULL[kind], at, number, outcome, getattr(outcome, kind)))
    name, folder = f"shard-{number:06}.parquet", Path(run.folder)
    if run.journal == "full" and run.events:
        for kind, tables in full.items():
            _write(folder / kind / name, pa.concat_tables(tables))
    check_turn(run.folder, run.turn)
    state = without_free_rows(state)
    names, _ = place_topics(state)
    sums.topics.append(digest_names(names).tobytes())
    sums.written.append(folder / "state" / name)
    _finish(state, sums, run.form, room)


def _finish(state: ClusterState, sums: Sums, form: str, room: Arena) -> None:
    """Sum up a shard's state, visiting its rows while they are in the cache, and write it."""
    n = state.n_partitions
    census, digest = CensusSums(state), RowDigest(state)
    for start in range(0, n, BLOCK_ROWS):
        for part in (census, digest):
            part.add(start, min(start + BLOCK_ROWS, n))
    sums.partitions += n
    sums.census.update(census.counts)
    loads = [pa.array(column.copy()) for column in census.per_broker.T]
    sums.brokers.append(pa.table([pa.array(state.broker_id), *loads], schema=BROKERS))
    sums.digests.append(digest.parts())
    brokers, topics, cluster = small_tables(state)
    flat = form == FLAT and can_be_flat(state)
    partitions = to_flat(state, arena=room) if flat else state.to_tables().partitions
    tables = SourceTables("", partitions, topics, brokers, cluster)
    with writing(sums.written[-1], durable=False) as file:
        (write_flat if flat else write_parquet)(tables, file)


def _give_back(files: Sequence[Path]) -> None:
    """Let the page cache forget what was written, when it is on the disk.

    A run that writes more than the memory holds would otherwise take fresh pages all the time, and
    finding those can cost ten times the writing. The first call starts the disk, the next, after
    another shard, gives the pages back.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _write(path: Path, table: pa.Table) -> None:
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
    at: int, outcome: Outcome, each: bool, known: dict[str, int]
) -> pa.Table:
    """Requests by broker; `each` where a shutdown stops the replicas of each partition alone.

    Actions and kinds are numbers, by which Arrow groups ten times faster; `known`
    grows.
    """
    counts = outcome.request_counts
    step = counts["step"].to_numpy()
    codes = [known.setdefault(action, len(known)) for action in outcome.actions]
    numbers = np.asarray(number_steps(outcome), np.int32)
    alone = [totals.step for totals in outcome.totals if totals.each]
    alone += [
        step for step, action in enumerate(outcome.actions)
        if MOVES.match(action) or (each and action == STOPPED)
    ]
    columns = {
        "event": np.full(step.size, at, np.int32),
        "step": np.asarray(codes, np.int32)[step],
        "occurrence": numbers[step],
        "kind": pc.index_in(counts["kind"], pa.array(KINDS)),
        **{name: counts[name] for name in ("broker_id", "requests", "partitions")},
        "alone": np.isin(step, alone),
        "shards": np.ones(step.size, np.int64),
    }
    return pa.table(columns)


def join_requests(tables: Sequence[pa.Table], named: Sequence[str]) -> pa.Table:
    """Requests of some shards: in one batch, all shards share one request to a broker.

    Where each partition has requests of its own (reassignments, and before Kafka 1.1 all moves),
    they add up. `named` are the actions of the steps.
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
    columns["action"] = pa.array(named, pa.string()).take(joined["step"])
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
