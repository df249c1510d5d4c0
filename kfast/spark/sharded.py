"""Events of a cluster too big for one machine: `kfast.spark.fail`.

Elections and state changes are local to a partition, so every shard goes its own way. Some things
are not. A broker gets one request where many shards have something to tell it, the brokers are told
of each other only where no shard has told them already, and what no shard knows is answered once:
this is put together afterwards. A rebalance asks what share of a broker's partitions others lead,
an election fails where one partition has no leadership, and up to Kafka 2.0 no reassignment begins
beside another: this is counted before. Topics that are to be deleted may wait for each other: where
they do, the events happen again, with what was learned.

Source: docs/controller.md, sections 5, 6.2, 6.7, 6.8 and 6.12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa

from kfast import arguments
from kfast.controllers import DEFAULT_PROFILE, Profile, find_profile
from kfast.controllers.zk.leader_election import count_reassigned, count_without_leadership
from kfast.errors import ArgumentError, InvariantError
from kfast.io import SourceTables, write
from kfast.journal import LEVELS
from kfast.spark.dataset import CLUSTER_FILE, check_topics, look_at
from kfast.spark.folders import empty_folder, output_folder
from kfast.spark.joining import join_errors, read_requests, sum_counts
from kfast.spark.parts import CHECKED, Part, Rehearsal, check_names, join_parts, rehearse
from kfast.spark.paths import check_tasks
from kfast.spark.resuming import BrokerGroups, Resumes, share_between_shards
from kfast.spark.sharded_tasks import (
    BROKERS,
    DONE,
    NUMBER,
    PLACES,
    PREFERRED,
    add_up,
    count_hand,
    known_hand,
    run_hand,
    sum_hand,
)
from kfast.spark.shards import (
    ELECT,
    FLAT,
    LISTS,
    REASSIGN,
    REBALANCE,
    EventCall,
    Run,
    parse_events,
)
from kfast.spark.tasks import over_hands
from kfast.spark.workers import collect
from kfast.state import ClusterState
from kfast.state.census import CENSUS_METRICS
from kfast.state.compare import DigestParts, join_digests
from kfast.state.display import Summary, summary_html, summary_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ShardedOutcome", "fail"]


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
        Of each event, why it was refused as a whole: `Outcome.error`.
    replies : tuple of pa.Table or None
        Of each event that names partitions, the answers: to an election as `Outcome.replies`, in
        the order of the files; to a reassignment topic, partition and error (null: started).
    notes : tuple of tuple of str
        Of each event that deletes topics, what was left out: `Outcome.notes`.
    imbalance : tuple of pa.Table
        Of each rebalance: what it was decided on, broker_id, preferred, led_by_others.
    brokers : pa.Table
        broker_id, leaders, replicas, in_sync afterwards.
    requests : DataFrame
        event, action, scope (the broker's answer, the topic or the phase of a deletion that it is
        for, where it is for one), occurrence (in a rebalance: the broker that gets its partitions
        back; where brokers caught up: the leader that says so), kind, broker_id, requests,
        partitions.
    state : str
        Folder of the new state, which is a dataset again.
    transitions, elections : DataFrame or None
        Every row, where the journal was `full`.
    spark, run, deleting
        What `requests` is read with, when it is first asked for.
    """

    digest: int
    partitions: int
    census: dict[str, int]
    counts: pa.Table
    errors: tuple[str | None, ...]
    replies: tuple[pa.Table | None, ...]
    notes: tuple[tuple[str, ...], ...]
    imbalance: tuple[pa.Table, ...]
    brokers: pa.Table
    state: str
    transitions: DataFrame | None
    elections: DataFrame | None
    spark: SparkSession
    run: Run
    deleting: bool

    @cached_property
    def requests(self) -> DataFrame:
        """Requests to every broker: in one batch, all shards share one request.

        Those of reassignments, and before Kafka 1.1 of all moves, go out for each partition alone,
        and add up.

        Raises
        ------
        ArgumentError
            Topics were being deleted, by a profile up to 1.1, which tells of all their partitions
            in every UpdateMetadata: what the others would have added is not known in a shard.
        """
        old = find_profile(self.run.profile).metadata_has_deleted
        if old and self.deleting and len(self.run.dataset.files) > 1:
            raise ArgumentError(
                f"profile {self.run.profile} names all partitions of topics that are to be deleted"
                " in every UpdateMetadata; over files that go their own way these requests are not"
                " known"
            )
        return read_requests(self.spark, self.run)

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
    broker_ids : iterable of int
        Brokers that fail together after the controller's start: short for the events
        `["on_controller_failover", ("on_broker_failure", broker_ids)]`.
    output : path
        Folder for what comes out; new or empty, or of an earlier run, which is replaced.
    events : iterable of str or (str, argument), optional
        Events instead: names of `shards.EVENTS`, with their argument. New topics of
        `on_topic_change` go to the file that the hash of their name says.
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
        An event cannot be, for these brokers or topics; the output is in the way, or another run
        is at work there. Nothing was written.
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
    ids = arguments.broker_ids("broker_ids", broker_ids).tolist()
    if bool(ids) == (events is not None):
        raise ArgumentError("give the ids of brokers that fail, or events: one of the two")
    wanted = parse_events(
        ["on_controller_failover", ("on_broker_failure", ids)] if events is None else events
    )
    whole = look_at(spark, dataset, tasks=tasks, defaults=defaults)
    state = ClusterState.from_tables(whole.brokers, None, None, whole.cluster)
    rehearsal = rehearse(state, wanted, rules)
    with output_folder(output, dataset) as root:
        folder = str(root)
        decided: list[EventCall] = []
        for event in wanted:
            run = Run(whole, tuple(decided), "off", profile, folder, form)
            decided.append(_look_ahead(spark, run, event, rules))
        turn = empty_folder(root)
        run = Run(whole, tuple(decided), journal, profile, folder, form, turn)
        return _put_together(spark, *_happen(spark, run), rehearsal)


def _happen(spark: SparkSession, run: Run) -> tuple[Run, pa.Table, list[dict[str, Any]]]:
    """Let the events happen in every shard, until each knows what it must of the others."""
    seen = []
    while True:
        done = collect(over_hands(spark, len(run.dataset.hands), partial(run_hand, run), DONE))
        done = done.sort_by("hand")
        said = [msgspec.json.decode(item) for item in done["said"].to_pylist()]
        resumes = msgspec.convert([r for hand in said for r in hand["resumes"]], list[Resumes])
        groups = msgspec.convert([g for hand in said for g in hand["groups"]], list[BrokerGroups])
        learned = share_between_shards(run.events, resumes, groups)
        if learned is None:
            return run, done, said
        if learned in seen:
            raise InvariantError(f"shards learn of each other without end: {learned}")
        seen.append(learned)
        run = replace(run, events=learned)


def _look_ahead(spark: SparkSession, run: Run, event: EventCall, rules: Profile) -> EventCall:
    """An event with what it must know of the whole cluster, after the events of the run."""
    if event.name == REBALANCE:
        event = replace(event, counts=_count_preferred(spark, run))
        if not rules.rebalances_while_reassigning:
            event = replace(event, reassigned=_sum(spark, run, count_reassigned))
    elif event.name == ELECT and rules.filters_elections:
        count = partial(count_without_leadership, partitions=event.argument.get("partitions"))
        event = replace(event, without_leadership=_sum(spark, run, count))
    elif event.name == REASSIGN and not rules.cancels_reassignments:
        event = replace(event, reassigned=_sum(spark, run, count_reassigned))
    elif event.name in CHECKED and event.argument is not None:
        hands = len(run.dataset.hands)
        known = collect(over_hands(spark, hands, partial(known_hand, run, event), PLACES))
        check_names(event, set(known["place"].to_pylist()))
    return event


def _count_preferred(spark: SparkSession, run: Run) -> pa.Table:
    """Counts of all shards after the events so far, by broker."""
    counts = over_hands(spark, len(run.dataset.hands), partial(count_hand, run), PREFERRED)
    return add_up([collect(counts)], PREFERRED)


def _sum(spark: SparkSession, run: Run, count: Callable[[ClusterState], int]) -> int:
    """A count of partitions of all shards after the events so far."""
    counts = over_hands(spark, len(run.dataset.hands), partial(sum_hand, run, count), NUMBER)
    return sum(collect(counts)["partitions"].to_pylist())


def _put_together(
    spark: SparkSession, run: Run, done: pa.Table, said: list[dict[str, Any]],
    rehearsal: Rehearsal,
) -> ShardedOutcome:
    common = rehearsal.state
    topics = [item for hand in done["topics"].to_pylist() for item in hand]
    numbers = [number for hand in run.dataset.hands for number in hand]
    check_topics(run.dataset.files, [topics[at] for at in np.argsort(numbers).tolist()])
    errors = join_errors(run, said)
    answers = msgspec.convert([part for hand in said for part in hand["parts"]], list[Part])
    wholes = join_parts(run.events, answers, rehearsal, errors)
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
        sum_counts(run, said, wholes),
        errors,
        tuple(whole.replies for whole in wholes),
        tuple(whole.notes for whole in wholes),
        tuple(event.counts for event in run.events if event.counts is not None),
        add_up(loads, BROKERS),
        str(folder / "state"),
        spark.read.parquet(str(folder / "transitions")) if full else None,
        spark.read.parquet(str(folder / "elections")) if full else None,
        spark,
        run,
        any(hand["resumes"] for hand in said),
    )
    # The last of all: what has no such file is not the end of a run.
    tables = common.to_tables()
    write(
        SourceTables("", tables.partitions, tables.topics, tables.brokers, tables.cluster),
        folder / "state" / CLUSTER_FILE,
    )
    return outcome
