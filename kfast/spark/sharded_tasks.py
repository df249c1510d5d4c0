"""What a task does with the shards it is dealt: read, let the events happen, write, and sum up.

What the driver needs of the shards is summed over a hand where it is made: a cluster of a thousand
shards sends back a few rows.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from kfast.controllers.zk.leader_election import count_preferred
from kfast.controllers.zk.topic_deletion import would_resume
from kfast.io import SourceTables
from kfast.io.arrow import metadata_of
from kfast.io.flat_pages import PAGE_ROWS, StatePages
from kfast.io.parquet import write_parquet
from kfast.io.text import writing
from kfast.schema import (
    PREFERRED_LEADERS,
    SHARDED_BROKERS,
    SHARDED_ELECTIONS,
    SHARDED_TRANSITIONS,
)
from kfast.spark.dataset import digest_names
from kfast.spark.folders import check_turn
from kfast.spark.outcomes import counts_of, join_requests, requests_of, rows_of
from kfast.spark.parts import Part, part_of, said_of
from kfast.spark.resuming import BrokerGroups, Resumes, groups_of
from kfast.spark.shards import FLAT, EventCall, Run
from kfast.state import ClusterState
from kfast.state.census import CensusSums
from kfast.state.compare import DigestParts, RowDigest, join_digests
from kfast.state.flat import Arena, can_be_flat, place_topics, without_free_rows
from kfast.state.tables import small_tables

__all__ = [
    "BROKERS",
    "DONE",
    "NUMBER",
    "PLACES",
    "PREFERRED",
    "add_up",
    "count_hand",
    "known_hand",
    "run_hand",
    "sum_hand",
]

BROKERS, PREFERRED = SHARDED_BROKERS.schema, PREFERRED_LEADERS.schema
NUMBER = pa.schema([("partitions", pa.int64())])
PLACES = pa.schema([("place", pa.int64())])
DONE = pa.schema(
    [
        ("hand", pa.int32()),
        ("partitions", pa.int64()),
        ("said", pa.binary()),
        ("brokers", pa.binary()),
        ("topics", pa.list_(pa.binary())),
    ]
)
"""What a hand comes to; `topics` are digests of the names, shard by shard."""

FULL = {"transitions": SHARDED_TRANSITIONS, "elections": SHARDED_ELECTIONS}
"""Tables that are written, row by row, where the journal is `full`."""


@dataclass
class Sums:
    """What the shards of a hand come to, so far."""

    partitions: int = 0
    digests: list[DigestParts] = field(default_factory=list)
    census: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[int, str, str, str]] = field(default_factory=Counter)
    requests: list[pa.Table] = field(default_factory=list)
    steps: dict[tuple[str, str], int] = field(default_factory=dict)
    brokers: list[pa.Table] = field(default_factory=list)
    topics: list[bytes] = field(default_factory=list)
    errors: set[tuple[int, str | None]] = field(default_factory=set)
    parts: list[Part] = field(default_factory=list)
    resumes: list[Resumes] = field(default_factory=list)
    groups: list[BrokerGroups] = field(default_factory=list)
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


def known_hand(run: Run, event: EventCall, hand: int) -> Iterator[pa.RecordBatch]:
    """Which of the topics that an event names some shards know, after the events of the run."""
    shards = len(run.dataset.files)
    for number, state in zip(run.dataset.hands[hand], _states_after(run, hand), strict=True):
        _, known = part_of(event, state, number, shards)
        yield pa.RecordBatch.from_pydict({"place": known}, PLACES)


def _states_after(run: Run, hand: int) -> Iterator[ClusterState]:
    """Each shard after the events, until the next is asked for."""
    room = Arena()
    for number in run.dataset.hands[hand]:
        controller = run.controller(number, room)
        for event in run.events:
            part, _ = part_of(event, controller.state, number, len(run.dataset.files))
            part.happen(controller)
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
    said = {
        # The counter of unclean elections before is taken off by who joins the hands.
        "digest": msgspec.to_builtins(join_digests(sums.digests, run.unclean_before)),
        "census": sums.census,
        "counts": [[*key, n] for key, n in sums.counts.items()],
        "errors": list(sums.errors),
        "parts": sums.parts,
        "resumes": sums.resumes,
        "groups": sums.groups,
    }
    brokers = pa.BufferOutputStream()
    with pa.ipc.new_stream(brokers, BROKERS) as writer:
        writer.write_table(add_up(sums.brokers, BROKERS))
    row = {
        "hand": hand,
        "partitions": sums.partitions,
        "said": msgspec.json.encode(said),
        "brokers": bytes(brokers.getvalue()),
        "topics": sums.topics,
    }
    yield pa.RecordBatch.from_pylist([row], schema=DONE)


def _run_shard(run: Run, number: int, sums: Sums, room: Arena) -> None:
    controller = run.controller(number, room)
    state = controller.state
    full: dict[str, list[pa.Table]] = {kind: [] for kind in FULL}
    for at, event in enumerate(run.events):
        part, known = part_of(event, state, number, len(run.dataset.files))
        began = would_resume(controller)
        deleting = state.any_queued
        outcome = part.happen(controller)
        sums.errors.add((at, outcome.error))
        sums.parts += said_of(at, number, event, known, outcome)
        if deleting or state.any_queued:
            waits = began or would_resume(controller)
            sums.resumes.append(Resumes(at, waits, sorted(outcome.resumed)))
        sums.groups += groups_of(at, controller)
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
    """Sum up a shard's state and write it, visiting its rows while they are in the cache."""
    n = state.n_partitions
    census, digest = CensusSums(state), RowDigest(state)
    pages = StatePages(state, room) if form == FLAT and can_be_flat(state) else None
    # Of no rows too, so that the file has columns.
    for start in range(0, max(n, 1), PAGE_ROWS):
        stop = min(start + PAGE_ROWS, n)
        census.add(start, stop)
        digest.add(start, stop)
        if pages is not None:
            pages.add(start, stop)
    sums.partitions += n
    sums.census.update(census.counts)
    loads = [pa.array(column.copy()) for column in census.per_broker.T]
    sums.brokers.append(pa.table([pa.array(state.broker_id), *loads], schema=BROKERS))
    sums.digests.append(digest.parts())
    brokers, topics, cluster = small_tables(state)
    partitions = pa.table({}) if pages is not None else state.to_tables().partitions
    tables = SourceTables("", partitions, topics, brokers, cluster)
    with writing(sums.written[-1], durable=False) as file:
        if pages is None:
            write_parquet(tables, file)
        else:
            pages.write(file, metadata_of(tables))


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
