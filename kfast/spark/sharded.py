"""Events of a cluster too big for one machine: `kfast.spark.fail`.

Elections and state changes are local to a partition, so every shard goes its own way. Four things
are not: a broker gets one request where many shards have something to tell it (and one of each
leader whose followers caught up); the brokers are told of each other only where no shard has told
them already; a rebalance asks what share of a broker's partitions others lead; and an election of
all partitions fails where one has no leadership. The first two are put together afterwards, the
others are counted before.

Source: specification, sections 5, 6.2 and 6.8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import functions

from kfast.census import CENSUS_METRICS
from kfast.controller import Controller
from kfast.errors import ArgumentError, InputError
from kfast.events.leader_election import count_reassigned, count_without_leadership
from kfast.io import SourceTables, write
from kfast.journal import LEVELS
from kfast.profiles import DEFAULT_PROFILE, Profile, find_profile
from kfast.spark.columns import spark_schema
from kfast.spark.dataset import CLUSTER_FILE, Dataset, check_topics, look_at, over_hands
from kfast.spark.folders import output_folder
from kfast.spark.hands import (
    BROKERS,
    DONE,
    NUMBER,
    PREFERRED,
    add_up,
    count_hand,
    run_hand,
    sum_hand,
)
from kfast.spark.outcomes import REQUESTS
from kfast.spark.paths import check_tasks
from kfast.spark.shards import ELECT, FLAT, LISTS, REBALANCE, Event, Run, parse_events
from kfast.state import ClusterState
from kfast.state.compare import DigestParts, join_digests

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ShardedOutcome", "fail"]

ANNOUNCEMENT = "announce the live brokers"
"""Action that a failure takes only where it has nothing else to tell."""

COUNTS = pa.schema(
    [
        ("event", pa.int32()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("item", pa.string()),
        ("count", pa.int64()),
    ]
)


@dataclass(frozen=True)
class ShardedOutcome:
    """What events did to a sharded cluster.

    Attributes
    ----------
    digest : int
        That of the whole cluster afterwards, as `ClusterState.digest` on one machine.
    partitions : int
    census : dict of str to int
        `kfast.census.CENSUS_METRICS` of the whole cluster afterwards.
    counts : pa.Table
        event (number), name, kind (transition, code, reply, total), item, count.
    errors : tuple of str or None
        Of each event, why it was refused as a whole: `Outcome.error`.
    imbalance : tuple of pa.Table
        Of each rebalance: what it was decided on, broker_id, preferred, led_by_others.
    brokers : pa.Table
        broker_id, leaders, replicas, in_sync afterwards.
    requests : DataFrame
        event, action, occurrence (in a rebalance: the broker that gets its partitions back; where
        brokers caught up: the leader that says so), kind, broker_id, requests, partitions.
    state : str
        Folder of the new state, which is a dataset again.
    transitions, elections : DataFrame or None
        Every row, where the journal was `full`.
    spark, run
        What `requests` is read with, when it is first asked for.
    """

    digest: int
    partitions: int
    census: dict[str, int]
    counts: pa.Table
    errors: tuple[str | None, ...]
    imbalance: tuple[pa.Table, ...]
    brokers: pa.Table
    state: str
    transitions: DataFrame | None
    elections: DataFrame | None
    spark: SparkSession = field(repr=False)
    run: Run = field(repr=False)

    @cached_property
    def requests(self) -> DataFrame:
        """Requests to every broker: in one batch, all shards share one request.

        Where the moves of each partition go out alone, before Kafka 1.1, their requests add up.
        While topics are being deleted, up to Kafka 2.4, they are not those of one machine.
        """
        return _requests(self.spark, self.run)

    @property
    def fullest_broker(self) -> tuple[int, int]:
        """Id of the broker that leads most (the lowest of equals), and how many it leads."""
        leaders = self.brokers["leaders"].to_numpy()
        at = int(leaders.argmax())
        return self.brokers["broker_id"][at].as_py(), int(leaders[at])


def fail(
    spark: SparkSession,
    dataset: str | Path,
    *,
    output: str | Path,
    brokers: Iterable[int] = (),
    events: Iterable[str | tuple[str, Any]] | None = None,
    journal: str = "counts",
    profile: str = DEFAULT_PROFILE,
    defaults: Mapping[str, object] | None = None,
    tasks: int | None = None,
    form: str = FLAT,
) -> ShardedOutcome:
    """Let events happen to a cluster that lies in many files, each with whole topics.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect. Driver and workers must see the files under the same names.
    dataset : path
        Folder or glob of Parquet, Arrow or describe files. It is only read.
    output : path
        Folder for what comes out; new or empty, or of an earlier run, which is replaced.
    brokers : iterable of int
        Brokers that fail together after the controller's start: short for the events
        `["on_controller_failover", ("on_broker_failure", brokers)]`.
    events : iterable of str or (str, argument), optional
        Events instead: names of `shards.EVENTS`, with their argument.
    journal : {"off", "counts", "full"}
        With "full", every transition and election is written too.
    profile : str
        Which controller is simulated.
    defaults : mapping, optional
        As for `kfast.read`.
    tasks : int, optional
        At most so many tasks; the results do not depend on it.
    form : {"parquet-flat", "parquet"}
        Of the new state's files: plain integers, which are read and written ten times faster, or
        lists (`docs/formats.md`). A shard that the first cannot hold is written in the second.

    Raises
    ------
    ArgumentError
        An event cannot be, for these brokers; the output is in the way, or another run is at work
        there. Nothing was run.
    InputError
        The files are not shards of one cluster, or an event ended with an error in some of them
        only. This may come out at the end: what was written then has no `_cluster.arrow`.
    """
    rules = find_profile(profile)
    check_tasks(tasks)
    if form not in (FLAT, LISTS):
        raise ArgumentError(f"form {form!r} is unknown; allowed: {FLAT}, {LISTS}")
    if journal not in LEVELS:
        raise ArgumentError(f"journal {journal!r} is unknown; allowed: {', '.join(LEVELS)}")
    ids = [int(broker) for broker in brokers]
    if bool(ids) == (events is not None):
        raise ArgumentError("give brokers that fail, or events: one of the two")
    wanted = parse_events(
        ["on_controller_failover", ("on_broker_failure", ids)] if events is None else events
    )
    whole = look_at(spark, dataset, tasks=tasks, defaults=defaults)
    common = _rehearse(whole, wanted, profile)
    with output_folder(output, dataset) as (folder, turn):
        decided: list[Event] = []
        for event in wanted:
            run = Run(whole, tuple(decided), "off", profile, folder, form)
            decided.append(_look_ahead(spark, run, event, rules))
        run = Run(whole, tuple(decided), journal, profile, folder, form, turn)
        done = over_hands(spark, len(whole.hands), partial(run_hand, run), DONE).toArrow()
        return _put_together(spark, run, done.sort_by("hand"), common)


def _rehearse(whole: Dataset, events: Iterable[Event], profile: str) -> ClusterState:
    """Let the events happen to the brokers alone: the controller then checks the arguments."""
    state = ClusterState.from_tables(whole.brokers, None, None, whole.cluster)
    controller = Controller(state, journal="off", profile=profile)
    for event in events:
        event.happen(controller)
    return state


def _look_ahead(spark: SparkSession, run: Run, event: Event, rules: Profile) -> Event:
    """An event with what it must know of the whole cluster, after the events of the run."""
    if event.name == REBALANCE:
        event = replace(event, counts=_count_preferred(spark, run))
        if not rules.rebalances_while_reassigning:
            event = replace(event, reassigned=_sum(spark, run, count_reassigned))
    elif event.name == ELECT and rules.filters_elections:
        event = replace(event, without_leadership=_sum(spark, run, count_without_leadership))
    return event


def _count_preferred(spark: SparkSession, run: Run) -> pa.Table:
    """Counts of all shards after the events so far, by broker."""
    counts = over_hands(spark, len(run.dataset.hands), partial(count_hand, run), PREFERRED)
    return add_up([counts.toArrow().cast(PREFERRED)], PREFERRED)


def _sum(spark: SparkSession, run: Run, count: Callable[[ClusterState], int]) -> int:
    """A count of partitions of all shards after the events so far."""
    counts = over_hands(spark, len(run.dataset.hands), partial(sum_hand, run, count), NUMBER)
    return sum(counts.toArrow()["partitions"].to_pylist())


def _put_together(
    spark: SparkSession, run: Run, done: pa.Table, common: ClusterState
) -> ShardedOutcome:
    said = [msgspec.json.decode(item) for item in done["said"].to_pylist()]
    topics = [item for hand in done["topics"].to_pylist() for item in hand]
    numbers = [number for hand in run.dataset.hands for number in hand]
    check_topics(run.dataset.files, [topics[at] for at in np.argsort(numbers).tolist()])
    errors = _join_errors(run, said)
    parts = [msgspec.convert(item["digest"], DigestParts) for item in said]
    digest = join_digests(parts, run.unclean_before)
    common.unclean_elections = digest.unclean_elections
    loads = [pa.ipc.open_stream(item).read_all() for item in done["brokers"].to_pylist()]
    full = run.journal == "full" and bool(run.events)
    folder = Path(run.folder)
    outcome = ShardedOutcome(
        digest.together(),
        sum(done["partitions"].to_pylist()),
        {key: sum(item["census"][key] for item in said) for key in CENSUS_METRICS},
        _sum_counts(said),
        errors,
        tuple(event.counts for event in run.events if event.counts is not None),
        add_up(loads, BROKERS),
        str(folder / "state"),
        spark.read.parquet(str(folder / "transitions")) if full else None,
        spark.read.parquet(str(folder / "elections")) if full else None,
        spark,
        run,
    )
    # The last of all: what has no such file is not the end of a run.
    tables = common.to_tables()
    write(
        SourceTables("", tables.partitions, tables.topics, tables.brokers, tables.cluster),
        folder / "state" / CLUSTER_FILE,
    )
    return outcome


def _join_errors(run: Run, said: Sequence[Mapping[str, Any]]) -> tuple[str | None, ...]:
    """The error of each event, which all shards must share: on one machine it ends the event."""
    found: list[set[str | None]] = [set() for _ in run.events]
    for hand in said:
        for at, error in hand["errors"]:
            found[at].add(error)
    for event, errors in zip(run.events, found, strict=True):
        if len(errors) > 1:
            shown = ", ".join(sorted(str(error) for error in errors if error is not None))
            raise InputError(
                f"event {event.name} ended with {shown} in some files only; on one machine it"
                " ends there for the whole cluster, which files that go their own way cannot do"
            )
    return tuple(error for errors in found for error in errors)


def _sum_counts(said: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Counts of all hands by event, name, kind and item."""
    summed: Counter[tuple[Any, ...]] = Counter()
    for hand in said:
        for *key, n in hand["counts"]:
            summed[tuple(key)] += n
    columns = zip(*((*key, summed[key]) for key in sorted(summed)), strict=True)
    return pa.table([*columns], schema=COUNTS) if summed else COUNTS.empty_table()


def _requests(spark: SparkSession, run: Run) -> DataFrame:
    """Requests of all hands, put together as `outcomes.join_requests` does."""
    keys = ["event", "action", "occurrence", "kind", "broker_id"]
    joined = functions.when(
        functions.bool_or("alone"), functions.sum("requests")
    ).otherwise(functions.max("requests"))
    rows = spark.read.schema(spark_schema(REQUESTS)).parquet(str(Path(run.folder) / "requests"))
    merged = rows.groupBy(*keys).agg(
        joined.alias("requests"),
        functions.sum("partitions").alias("partitions"),
        functions.sum("shards").alias("shards"),
    )
    every = merged["shards"] == len(run.dataset.files)
    return merged.where((merged["action"] != ANNOUNCEMENT) | every).drop("shards")
