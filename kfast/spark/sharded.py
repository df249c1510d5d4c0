"""Events of a cluster too big for one machine: `kfast.spark.fail`.

Elections and state changes are local to a partition, so every shard goes its own way. Some things
are not. A broker gets one request where many shards have something to tell it, the brokers are told
of each other only where no shard has told them already: this is put together afterwards. A
rebalance asks what share of a broker's partitions others lead, and an election fails where one
partition has no leadership: this is counted before. The order in which brokers that fail together
are taken depends on all that have replicas, in whatever shard: where a shard did not know of one,
the events happen again, with what was learned. Events that name topics are refused: one machine
does them. What a KRaft cluster asks of all shards is in `sharded_quorum`.

Source: docs/controller.md, sections 2.3, 5, 6.2, 6.7 and 6.8.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import functions

from kfast import arguments
from kfast.controllers import Controller, Profile, find_profile
from kfast.errors import ArgumentError, InputError, InvariantError
from kfast.io import SourceTables, write
from kfast.io.file_systems import parse_path
from kfast.journal import LEVELS
from kfast.schema import PREFERRED_LEADERS, SHARDED_COUNTS, SHARDED_RECORDS
from kfast.spark.dataset import (
    CLUSTER_FILE,
    FLAT,
    LISTS,
    check_token,
    check_topics,
    empty_folder,
    inspect_files,
    output_folder,
)
from kfast.spark.frames import parquet_frame
from kfast.spark.paths import check_tasks
from kfast.spark.sharded_quorum import (
    CAUGHT_UP,
    COUNTED_BEFORE,
    ELECT,
    RETURNED,
    SHUT_DOWN,
    EventCounts,
    QuorumCall,
    check_events,
    learn_endings,
    with_offsets,
)
from kfast.spark.sharded_tasks import (
    FULL,
    REBALANCE,
    REQUESTS,
    EventCall,
    Run,
    ShardSums,
    add_by_broker,
    count_after_events,
    count_changes,
    new_sums,
    run_share,
    with_told_controller,
)
from kfast.spark.workers import gather
from kfast.state import ClusterState
from kfast.state.census import CENSUS_METRICS
from kfast.state.compare import join_digests
from kfast.state.display import Summary, summary_html, summary_text
from kfast.state.registrations import quorum_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["EVENTS", "ShardedOutcome", "check_deletions", "fail", "parse_events"]

UNCLEAN = "enable_unclean_leader_election"
EVENTS = {
    "on_controller_failover": (None,),
    "on_broker_failure": (list,),
    "on_broker_startup": (list, dict),
    "controlled_shutdown": (int,),
    REBALANCE: (None, int, float),
    "catch_up": (list,),
    ELECT: (None, dict),
    UNCLEAN: (None,),
}
"""Events of a sharded cluster: methods of `Controller`, and what their argument may be."""

QUORUM_EVENTS = {
    "start": (None,),
    "brokers_failed": (list,),
    SHUT_DOWN: (list,),
    RETURNED: (list,),
    CAUGHT_UP: (list,),
    ELECT: (None, dict),
}
"""Those of a sharded KRaft cluster: the common events of all controllers, and elections."""

ONE_BY_ONE = (SHUT_DOWN, RETURNED)
"""Those that ask something of all shards for each broker."""

NAMING_TOPICS = (
    "on_topic_change", "on_partition_modifications", "delete_topics", "acknowledge_deletions",
    "alter_partition_reassignments", "reassign_partitions",
)
"""Events about topics by name, which shards refuse."""

ELECTION = ("type", "trigger")
"""What an election may be given, by name."""

LIVE_BROKERS = "announce the live brokers"
"""Action that a failure takes only where it has nothing else to tell."""


Event: TypeAlias = tuple[str, Any]
"""Name of an event, and its argument."""


@dataclass(frozen=True)
class ShardedOutcome:
    """What events did to a sharded cluster.

    Attributes
    ----------
    digest : int
        That of the whole cluster afterwards, as `ClusterState.digest` on one machine.
    partitions : int
    census : dict of str to int
        `kfast.state.census.CENSUS_METRICS` of the whole cluster afterwards.
    counts : pa.Table
        event (number), name, kind (transition, code, reply, total), item, count.
    errors : tuple of str or None
        Of each event, why it, or the first of its steps that was, was refused as a whole:
        `Outcome.error`.
    faults : tuple of str or None
        Of each event, by what fault a KRaft controller resigned: `QuorumOutcome.fault`.
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
        Every row, where the journal was `full`; of KRaft there are `records` instead.
    records : DataFrame or None
        Changes of partitions of a KRaft cluster, where the journal was `full`.
    spark, run, deleting
        What `requests` is read with, when it is first asked for.
    """

    digest: int
    partitions: int
    census: dict[str, int]
    counts: pa.Table
    errors: tuple[str | None, ...]
    faults: tuple[str | None, ...]
    imbalance: tuple[pa.Table, ...]
    brokers: pa.Table
    state: str
    transitions: DataFrame | None
    elections: DataFrame | None
    records: DataFrame | None
    spark: SparkSession
    run: Run[Any]
    deleting: bool

    @cached_property
    def requests(self) -> DataFrame:
        """Requests to every broker: in one batch, all shards share one request.

        Those of reassignments, and before Kafka 1.1 of all moves, go out for each partition alone,
        and add up.

        Raises
        ------
        ArgumentError
            Topics of one file were being deleted: which requests that adds beside those of the
            other files is not known.
        """
        if self.deleting and len(self.run.dataset.files) > 1:
            raise ArgumentError(
                "topics of one file were being deleted; over files that go their own way the"
                f" requests are not known; {ONE_MACHINE}"
            )
        return _read_requests(self.spark, self.run)

    @property
    def fullest_broker(self) -> tuple[int, int]:
        """Id of the broker that leads most (the lowest of equals), and how many it leads."""
        leaders = self.brokers["leaders"].to_numpy()
        at = int(leaders.argmax())
        return self.brokers["broker_id"][at].as_py(), int(leaders[at])

    def _summary(self) -> Summary:
        return "ShardedOutcome", {
            "events": len(self.errors),
            "refused": len(self.errors) - self.errors.count(None),
            "brokers": self.brokers.num_rows,
            "partitions": self.partitions,
            **self.census,
            "state": self.state,
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def fail(
    spark: SparkSession,
    dataset: str | Path,
    broker_ids: Iterable[int] = (),
    *,
    output: str | Path,
    events: Iterable[str | tuple[str, Any]] | None = None,
    journal: str = "counts",
    controller: str | None = None,
    elr: bool | None = None,
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
    broker_ids : iterable of int
        Brokers that fail together after the controller's start: short for the events
        `["on_controller_failover", ("on_broker_failure", broker_ids)]`, or for KRaft
        `["start", ("brokers_failed", broker_ids)]`.
    output : path
        Folder for what comes out; new or empty, or of an earlier run, which is replaced.
    events : iterable of str or (str, argument), optional
        Events instead: names of `EVENTS`, or for KRaft of `QUORUM_EVENTS`, with their argument.
        Events that name topics are refused.
    journal : {"off", "counts", "full"}
        With "full", every transition and election is written too, or of KRaft every change.
    controller, elr
        As for `kfast.with_controller`: which controller runs the cluster, whatever the files tell.
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
        An event names topics, or cannot be for these brokers; the output is in the way, or another
        run is at work there. Nothing was written.
    InputError
        The files are not shards of one cluster, topics in two of them are being deleted, or an
        event ended with an error in some of them only. This may come out at the end: what was
        written then has no `_cluster.arrow`.
    """
    check_tasks(tasks)
    if form not in (FLAT, LISTS):
        raise ArgumentError(f"form {form!r} is unknown; allowed: {FLAT}, {LISTS}")
    if journal not in LEVELS:
        raise ArgumentError(f"journal {journal!r} is unknown; allowed: {', '.join(LEVELS)}")
    with_told_controller(ClusterState.from_tables(), controller, elr)
    ids = arguments.broker_ids("broker_ids", broker_ids).tolist()
    if bool(ids) == (events is not None):
        raise ArgumentError("give the ids of brokers that fail, or events: one of the two")
    parsed = () if events is None else parse_events(events)
    shards = inspect_files(spark, dataset, tasks=tasks, defaults=defaults)
    # A cluster of the brokers alone: its controller checks the arguments of the events.
    common = ClusterState.from_tables(shards.brokers, None, None, shards.cluster)
    with_told_controller(common, controller, elr)
    if events is None:
        start, failure = list(QUORUM_EVENTS if common.is_kraft else EVENTS)[:2]
        parsed = parse_events([start, (failure, ids)])
    _check_events(common, parsed)
    with output_folder(output, dataset) as root:
        run: Run[Any] = Run(shards, (), journal, controller, elr, str(root), form)
        happen = _run_quorum if common.is_kraft else _run_zk
        run, sums = happen(spark, run, parsed, common)
        return _combine(spark, run, sums, common)


# --- events ------------------------------------------------------------------------------------

ONE_MACHINE = (
    "run it on one machine, which holds 100 M partitions:"
    " kfast.Controller(kfast.read(...)), or kfast.open(...).copy() of a saved state"
)
"""The way out of what shards refuse."""


def parse_events(events: Iterable[str | tuple[str, Any]]) -> tuple[Event, ...]:
    """Check the names and arguments of events, and refuse those that name topics."""
    parsed: list[Event] = []
    for item in events:
        if not item:
            raise ArgumentError(
                f"event {item!r} is empty; right is a name, or a name and its argument"
            )
        name, *rest = item if isinstance(item, tuple) else (item,)
        argument = rest[0] if rest else None
        partitions = isinstance(argument, dict) and argument.get("partitions") is not None
        if name in NAMING_TOPICS or (name == UNCLEAN and argument is not None) or (
            name == ELECT and partitions
        ):
            raise ArgumentError(
                f"event {name} names topics, which a cluster in many files does not take;"
                f" {ONE_MACHINE}"
            )
        if len(rest) > 1:
            raise ArgumentError(
                f"event {item!r} has {len(item)} parts; right is a name, or a name and its argument"
            )
        if name not in EVENTS and name not in QUORUM_EVENTS:
            raise ArgumentError(
                f"event {name!r} is not one of a sharded cluster; allowed: {', '.join(EVENTS)}; of "
                f"a KRaft cluster: {', '.join(QUORUM_EVENTS)}"
            )
        checked = _parse_argument(name, argument)
        if name in ONE_BY_ONE:
            parsed += [(name, [broker]) for broker in checked]
        else:
            parsed.append((name, checked))
    return tuple(parsed)


def _check_events(common: ClusterState, events: Sequence[Event]) -> None:
    """Refuse what the cluster's controller does not know, or cannot do with these brokers."""
    allowed = QUORUM_EVENTS if common.is_kraft else EVENTS
    for name, argument in events:
        if name not in allowed:
            raise ArgumentError(
                f"event {name} is not one of a cluster that {common.controller} runs; "
                f"allowed: {', '.join(allowed)}"
            )
        if common.is_kraft and name == ELECT and "trigger" in (argument or {}):
            raise ArgumentError(
                f"event {ELECT} has a trigger in ZooKeeper mode alone, and the cluster is run by "
                f"{common.controller}"
            )
    if common.is_kraft:
        check_events([QuorumCall(*event) for event in events], common.copy())
    else:
        _call_on_brokers(common.copy(), events)


def _call_on_brokers(common: ClusterState, events: Sequence[Event]) -> None:
    """Let events happen to a ZooKeeper-mode cluster of the brokers alone."""
    controller = Controller(common, journal="off", profile=common.controller)
    for event in events:
        EventCall(*event).call(controller)


def _parse_argument(name: str, argument: Any) -> Any:
    if isinstance(argument, (range, tuple, set, np.ndarray)):
        argument = list(argument)
    kinds = EVENTS[name] if name in EVENTS else QUORUM_EVENTS[name]
    if not any(argument is None if kind is None else isinstance(argument, kind) for kind in kinds):
        shown = " or ".join("nothing" if kind is None else kind.__name__ for kind in kinds)
        raise ArgumentError(f"event {name} takes {shown}; found {argument!r}")
    if name == ELECT and not set(argument or {}) <= {*ELECTION, "partitions"}:
        allowed = ", ".join(ELECTION)
        raise ArgumentError(f"event {ELECT} takes a dict of {allowed}; found {argument!r}")
    return arguments.broker_ids("brokers", argument).tolist() if (
        isinstance(argument, list)
    ) else argument


# --- before the run, and the run ---------------------------------------------------------------


def _run_zk(
    spark: SparkSession, run: Run[EventCall], events: Sequence[Event], common: ClusterState
) -> tuple[Run[EventCall], ShardSums]:
    """The run of a ZooKeeper-mode cluster, after the counts that its events need."""
    rules = find_profile(common.controller)
    for event in events:
        run = _add_event(spark, run, EventCall(*event), rules)
    _call_on_brokers(common, events)
    return _call_events(spark, replace(run, token=empty_folder(parse_path(run.folder))))


def _add_event(
    spark: SparkSession, run: Run[EventCall], event: EventCall, rules: Profile
) -> Run[EventCall]:
    """The run with one more event, and what that must know of all shards after those before it."""
    elects = event.name == ELECT and rules.filters_elections
    if elects or event.name == REBALANCE:
        while True:
            counts = gather(spark, len(run.dataset.shares), partial(count_after_events, run))
            events = _learn_groups(run.events, (g for part in counts for g in part.groups))
            if events is None:
                break
            run = replace(run, events=events)
        if elects:
            without_leadership = sum(part.without_leadership for part in counts)
            event = replace(event, without_leadership=without_leadership)
        else:
            preferred = [part.preferred for part in counts]
            event = replace(event, counts=add_by_broker(preferred, PREFERRED_LEADERS.schema))
            if not rules.rebalances_while_reassigning:
                event = replace(event, reassigned=sum(part.reassigned for part in counts))
    return replace(run, events=(*run.events, event))


def _call_events(
    spark: SparkSession, run: Run[EventCall]
) -> tuple[Run[EventCall], ShardSums]:
    """Let the events happen in every shard, until each knows what it must of the others."""
    while True:
        sums = _run_shards(spark, run)
        events = _learn_groups(run.events, sums.groups)
        if events is None:
            return run, sums
        run = replace(run, events=events)


def _run_quorum(
    spark: SparkSession, run: Run[QuorumCall], events: Sequence[Event], common: ClusterState
) -> tuple[Run[QuorumCall], ShardSums]:
    """The run of a KRaft cluster, again until each shard knows how events end in all of them."""
    calls = tuple(QuorumCall(*event) for event in events)
    run = replace(run, token=empty_folder(parse_path(run.folder)))
    limits_records = quorum_of(common).release.limits_records
    while True:
        run = replace(run, events=calls)
        files, n = run.dataset.files, len(run.dataset.shares)
        learned = None
        if any(call.name in COUNTED_BEFORE for call in calls):
            counts = [EventCounts() for _ in calls]
            for part in gather(spark, n, partial(count_changes, run)):
                for total, counted in zip(counts, part, strict=True):
                    total.add(counted)
            learned = learn_endings(calls, counts, files, limits_records)
            if learned is None:
                run = replace(run, events=with_offsets(calls, counts, common))
        if learned is None:
            sums = _run_shards(spark, run)
            learned = learn_endings(calls, sums.event_counts, files, limits_records)
        if learned is None:
            check_events(run.events, common)
            quorum_of(common).configurations |= sums.configurations
            return run, sums
        calls = learned
        check_events(calls, common.copy())


def _run_shards(spark: SparkSession, run: Run[Any]) -> ShardSums:
    """Let the events happen in every shard."""
    sums = new_sums(run)
    for part in gather(spark, len(run.dataset.shares), partial(run_share, run)):
        sums.add(part)
    return sums


def _learn_groups(
    events: Sequence[EventCall], groups: Iterable[tuple[int, list[int]]]
) -> tuple[EventCall, ...] | None:
    """Events with the brokers whose order depends on all shards; None where each shard knew them.

    The groups are, of each event and shard, the failed brokers that the shard knew of.
    """
    known: list[list[set[int]]] = [[] for _ in events]
    for at, brokers in groups:
        if brokers:
            known[at].append(set(brokers))
    for at, (event, shards) in enumerate(zip(events, known, strict=True)):
        every = set().union(*shards)
        if any(shard != every for shard in shards):
            if not event.failed_groups < every:
                raise InvariantError(f"shards learn of each other without end: {events}")
            # What follows may be another story.
            updated = replace(event, failed_groups=frozenset(every))
            return (*events[:at], updated, *events[at + 1 :])
    return None


def check_deletions(files: Sequence[str], deleting: Collection[int]) -> None:
    """Refuse topics of two files that are being deleted."""
    if len(deleting) > 1:
        first, other = (files[number] for number in sorted(deleting)[:2])
        raise InputError(
            f"topics in {first} and in {other} are being deleted; their deletions wait for each"
            f" other, which files that go their own way cannot do; {ONE_MACHINE}"
        )


def _combine(
    spark: SparkSession, run: Run[Any], sums: ShardSums, common: ClusterState
) -> ShardedOutcome:
    files = run.dataset.files
    check_topics(files, [sums.topics[number] for number in range(len(files))])
    check_deletions(files, sums.deleting)
    # Where folders cannot be locked, a run that came later may have taken this one.
    check_token(run.folder, run.token)
    errors = _join_errors(run, sums)
    digest = join_digests(sums.digests, run.unclean_before)
    common.unclean_elections = digest.unclean_elections
    folder = parse_path(run.folder)
    full = {} if run.journal != "full" or not run.events else (
        {"records": SHARDED_RECORDS} if common.is_kraft else FULL
    )
    tables = {
        name: parquet_frame(spark, folder / name, result.schema) for name, result in full.items()
    }
    rows = [(*key, sums.counts[key]) for key in sorted(sums.counts)]
    counts = SHARDED_COUNTS.schema
    outcome = ShardedOutcome(
        digest.together(),
        sums.partitions,
        {key: sums.census[key] for key in CENSUS_METRICS},
        pa.Table.from_pylist([dict(zip(counts.names, row, strict=True)) for row in rows], counts),
        errors,
        tuple(event.fault if isinstance(event, QuorumCall) else None for event in run.events),
        tuple(
            event.counts for event in run.events
            if isinstance(event, EventCall) and event.counts is not None
        ),
        sums.per_broker,
        str(folder / "state"),
        tables.get("transitions"),
        tables.get("elections"),
        tables.get("records"),
        spark,
        run,
        bool(sums.deleting),
    )
    # The last of all: what has no such file is not the end of a run.
    stored = common.to_tables()
    write(
        SourceTables("", stored.partitions, stored.topics, stored.brokers, stored.cluster),
        folder / "state" / CLUSTER_FILE,
    )
    return outcome


def _join_errors(run: Run[Any], sums: ShardSums) -> tuple[str | None, ...]:
    """The error of each event, which all shards must share: on one machine it ends the event."""
    errors_of: list[set[str | None]] = [set() for _ in run.events]
    for at, error in sums.errors:
        errors_of[at].add(error)
    for event, errors in zip(run.events, errors_of, strict=True):
        if len(errors) > 1:
            shown = ", ".join(sorted(str(error) for error in errors if error is not None))
            raise InputError(
                f"event {event.name} ended with {shown} in some files only; on one machine it"
                " ends there for the whole cluster, which files that go their own way cannot do"
            )
    return tuple(next(iter(errors), None) for errors in errors_of)


def _read_requests(spark: SparkSession, run: Run[Any]) -> DataFrame:
    """Requests of all tasks, put together as `sharded_tasks.join_requests` does."""
    keys = ["event", "action", "occurrence", "kind", "broker_id"]
    joined = functions.when(
        functions.bool_or("alone"), functions.sum("requests")
    ).otherwise(functions.max("requests"))
    rows = parquet_frame(spark, parse_path(run.folder) / "requests", REQUESTS)
    merged = rows.groupBy(*keys).agg(
        joined.alias("requests"),
        functions.sum("partitions").alias("partitions"),
        functions.sum("shards").alias("shards"),
    )
    every = merged["shards"] == len(run.dataset.files)
    return merged.where((merged["action"] != LIVE_BROKERS) | every).drop("shards")
