"""Capacities of a cluster too big for one machine: `kfast.spark.prepare_capacity`.

All that a capacity sweep knows of partitions are sums over them. So every task reads its shards,
brings the loads to their partitions, and sums up; the driver adds the sums, and the plan that comes
out sweeps as that of one machine does, with the same rows.

A load is checked and sorted by topic on the driver, and travels once to each executor, where tasks
map it and take the rows of their topics. Shards have whole topics, so a topic's total is dealt to
its partitions as on one machine.

Source: docs/capacity.md, "How it works"; docs/spark.md, "In bytes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kfast.arguments import MAX_INT, check_instance, whole
from kfast.capacity import BrokerCapacity, CapacityPlan, CpuWeights, broker_capacity, partition_load
from kfast.capacity.failures.capacity_sweeps import CapacitySettings, make_plan, sum_partitions
from kfast.capacity.failures.cpu_models import MEASURED
from kfast.capacity.failures.partition_sums import PartitionSums, add_sums
from kfast.capacity.loads.client_racks import LEADER, ConsumerRacks
from kfast.capacity.loads.partition_loads import (
    QUANTITIES,
    broker_cpu,
    check_total,
    replicated_total,
)
from kfast.capacity.loads.table_join import group_partitions, join_table, note_unknown_topics
from kfast.errors import ArgumentError, InputError
from kfast.io.loads import CapacityTable, LoadTable
from kfast.io.loads.tables import encoded
from kfast.spark.dataset import check_topics, digest_names, inspect_files
from kfast.spark.paths import check_tasks
from kfast.spark.sharded import check_deletions
from kfast.spark.sharded_tasks import Run, with_told_controller
from kfast.spark.sweep_tasks import open_sent, send
from kfast.spark.workers import gather
from kfast.state import ClusterState
from kfast.state.display import Summary, summary_html, summary_text
from kfast.sweeps import prepare_sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ShardedCapacity", "TopicLoads", "prepare_capacity", "sum_shards"]

SHOWN = 3
"""So many topics of a cluster a sentence names."""


@dataclass(frozen=True)
class ShardedCapacity:
    """A sharded cluster with its loads and capacities, made ready for sweeps.

    Attributes
    ----------
    plan : CapacityPlan
        For `kfast.spark.capacity_sweep` and `kfast.capacity_sweep`; what asks for single partitions
        refuses it.
    brokers : ClusterState
        The brokers alone, without partitions: what scenarios are made of.
    partitions : int
    warnings, assumptions : tuple of str
        As of `PartitionLoad`, by file, and of the capacities.
    """

    plan: CapacityPlan
    brokers: ClusterState
    partitions: int
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]

    def _summary(self) -> Summary:
        return "ShardedCapacity", {
            "brokers": self.brokers.n_brokers, "partitions": self.partitions,
            "warnings": len(self.warnings) or None, "assumptions": len(self.assumptions),
        }

    __repr__ = summary_text
    _repr_html_ = summary_html


def prepare_capacity(
    spark: SparkSession,
    dataset: str | Path,
    load: LoadTable | Iterable[LoadTable],
    capacity: CapacityTable,
    *,
    down: int | None = None,
    bytes_out_has_replication: bool = False,
    normal_limits: Mapping[str, float] | None = None,
    failed_limits: Mapping[str, float] | None = None,
    replicas_limit: int | None = None,
    weights: CpuWeights | None = None,
    cpu_model: str = MEASURED,
    fetch_from: str = LEADER,
    consumer_racks: Mapping[str, str] | None = None,
    controller: str | None = None,
    elr: bool | None = None,
    defaults: Mapping[str, object] | None = None,
    tasks: int | None = None,
) -> ShardedCapacity:
    """Make a cluster that lies in many files, each with whole topics, ready for capacity sweeps.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect. Driver and workers must see the files under the same names.
    dataset : path
        As for `kfast.spark.fail`.
    load : LoadTable or iterable of LoadTable
        What `kfast.read_load` or `kfast.spark.load_from_dataframe` gives, the most trusted first.
    capacity : CapacityTable
        What `kfast.read_capacity` or `kfast.spark.capacity_from_dataframe` gives.
    down : int, optional
        How many brokers fail together at most; by default any number. Of fewer, the plan is
        smaller.
    bytes_out_has_replication
        As for `kfast.partition_load`.
    normal_limits, failed_limits, replicas_limit, weights, cpu_model, fetch_from, consumer_racks
        As for `kfast.prepare_capacity`.
    controller, elr, defaults
        As for `kfast.spark.fail`.
    tasks : int, optional
        At most so many tasks; the results do not depend on it.

    Returns
    -------
    ShardedCapacity

    Raises
    ------
    ArgumentError
        As `kfast.prepare_capacity`; or there are so many brokers that terms of failures take too
        much memory.
    InputError
        As `kfast.partition_load` and `kfast.broker_capacity`; the files are not shards of one
        cluster, or topics in two of them are being deleted; or an exporter may have changed the
        names of topics, which are told apart by all topics of the cluster.

    Notes
    -----
    What brokers report of all their topics is not compared with the sum over topics.
    """
    check_tasks(tasks)
    settings = CapacitySettings.of(
        normal_limits, failed_limits, replicas_limit, weights, cpu_model
    )
    down = MAX_INT if down is None else whole("down", down, 1, MAX_INT)
    check_instance("capacity", capacity, CapacityTable)
    tables = _check_tables(load)
    shards = inspect_files(spark, dataset, tasks=tasks, defaults=defaults)
    brokers = ClusterState.from_tables(shards.brokers, None, None, shards.cluster)
    with_told_controller(brokers, controller, elr)
    held = broker_capacity(brokers, capacity)
    consumers = ConsumerRacks.of(brokers, fetch_from, consumer_racks)
    loads = [TopicLoads.of(table) for table in tables]
    run: Run[Any] = Run(shards, (), "off", controller, elr, "")
    share = partial(
        sum_shards, run, send(spark, loads), held, settings.weights, consumers, down,
        bytes_out_has_replication,
    )
    total = _Answers()
    for answers in gather(spark, len(shards.shares), share):
        total.add(answers)
    check_topics(shards.files, [total.topics[number] for number in range(len(shards.files))])
    check_deletions(shards.files, total.deleting)
    for name, amount in total.replicated.items():
        check_total(name, amount)
    notes = [note for table in tables for note in table.assumptions]
    for loaded, known in zip(loads, total.known, strict=True):
        if not known.all():
            notes.append(note_unknown_topics(
                loaded.table.source, loaded.topics, pa.array(known), total.examples
            ))
    of_brokers = [
        join_table(brokers, group_partitions(brokers), rows_without_topic(table))
        for table in tables
    ]
    plan = make_plan(
        prepare_sweep(brokers), None, add_sums(total.sums, down),
        broker_cpu(brokers.n_brokers, of_brokers), held, settings, None,
    )
    return ShardedCapacity(
        plan, brokers, total.partitions, _by_file(shards.files, total.warnings),
        (*notes, *(note for joined in of_brokers for note in joined.notes),
         *_by_file(shards.files, total.assumptions), *held.assumptions, *plan.disks.assumptions,
         *(() if consumers is None else consumers.assumptions)),
    )


def _check_tables(load: LoadTable | Iterable[LoadTable]) -> tuple[LoadTable, ...]:
    """Loads, none of which needs all topics of a cluster to find its own."""
    tables = (load,) if isinstance(load, LoadTable) else tuple(load)
    for table in tables:
        check_instance("load", table, LoadTable)
        if table.folds_names:
            raise InputError(
                f"{table.source}: an exporter may have replaced the dots in names of topics, which"
                " files that go their own way cannot find; give a load that has the topics' own"
                " names"
            )
    if not tables:
        raise ArgumentError("load: no load is given; right is at least one")
    return tables


def _by_file(files: Sequence[str], sentences: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    """Sentences of shards, each with its file."""
    return tuple(
        f"{Path(files[number]).name}: {sentence}"
        for number in sorted(sentences) for sentence in sentences[number]
    )


# --- loads topic by topic ----------------------------------------------------------------------


def rows_without_topic(table: LoadTable) -> LoadTable:
    """What a load says of brokers alone; its own assumptions are left out."""
    rows = table.rows
    if "topic" in rows.column_names:
        rows = rows.filter(pc.is_null(rows["topic"])).drop_columns("topic")
    return replace(table, rows=rows, assumptions=())


@dataclass(frozen=True)
class TopicLoads:
    """What a load says of topics, sorted by topic.

    Attributes
    ----------
    table : LoadTable
        Without the column of topics, and without its own assumptions.
    topics : pa.StringArray
        (n,) names.
    begins : (n + 1,) int64
        Where the rows of each begin.
    """

    table: LoadTable
    topics: pa.StringArray
    begins: npt.NDArray[np.int64]

    @classmethod
    def of(cls, table: LoadTable) -> TopicLoads:
        """Sort a load; rows of brokers alone are left out."""
        rows, own = table.rows, replace(table, assumptions=())
        if "topic" not in rows.column_names:
            rows = rows.append_column("topic", pa.nulls(rows.num_rows, pa.string()))
        names = encoded(rows["topic"])
        codes = pc.fill_null(names.indices, -1).to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        begins = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
        rows = rows.drop_columns("topic").take(pa.array(order)).combine_chunks()
        return cls(replace(own, rows=rows), names.dictionary, begins)

    def rows_of(
        self, topics: pa.StringArray
    ) -> tuple[LoadTable, npt.NDArray[np.bool_]]:
        """The load of some topics, and which of this load's topics they are."""
        known = pc.is_in(self.topics, value_set=topics).to_numpy(zero_copy_only=False)
        own = np.flatnonzero(known)
        counts = np.diff(self.begins)[own]
        first = self.begins[own] - np.cumsum(counts) + counts
        places = np.arange(int(counts.sum())) + np.repeat(first, counts)
        rows = self.table.rows.take(pa.array(places))
        column = pa.DictionaryArray.from_arrays(
            pa.array(np.repeat(np.arange(own.size, dtype=np.int32), counts)),
            self.topics.take(pa.array(own)),
        )
        return replace(self.table, rows=rows.append_column("topic", column)), known


# --- in a task ---------------------------------------------------------------------------------


@dataclass
class _Answers:
    """What some shards come to.

    Attributes
    ----------
    sums : list of PartitionSums
        Of a task one.
    partitions : int
    replicated : dict of str to int
        Sums over all replicas, which must stay below 2^63.
    topics : dict of int to bytes
        Of each shard, digests of the names of its topics.
    deleting : set of int
        Shards in which topics are being deleted.
    known : list of (n,) bool
        Of each load, topics of it that are in some of the shards.
    examples : list of str
        Some topics.
    warnings, assumptions : dict of int to tuple of str
        Of each shard.
    """

    sums: list[PartitionSums] = field(default_factory=list)
    partitions: int = 0
    replicated: dict[str, int] = field(default_factory=lambda: dict.fromkeys(QUANTITIES, 0))
    topics: dict[int, bytes] = field(default_factory=dict)
    deleting: set[int] = field(default_factory=set)
    known: list[npt.NDArray[np.bool_]] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    warnings: dict[int, tuple[str, ...]] = field(default_factory=dict)
    assumptions: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def add(self, other: _Answers) -> None:
        """Take in other shards."""
        self.sums += other.sums
        self.partitions += other.partitions
        for name in QUANTITIES:
            self.replicated[name] += other.replicated[name]
        self.topics |= other.topics
        self.deleting |= other.deleting
        self.known = [
            before | now for before, now in zip(self.known or other.known, other.known, strict=True)
        ]
        self.examples = (self.examples + other.examples)[:SHOWN]
        self.warnings |= other.warnings
        self.assumptions |= other.assumptions


def sum_shards(
    run: Run[Any], loads_name: str, capacity: BrokerCapacity, weights: CpuWeights,
    consumers: ConsumerRacks | None, down: int, bytes_out_has_replication: bool, task: int,
) -> _Answers:
    """Bring loads to the partitions of a task's shards, and sum up."""
    loads: Sequence[TopicLoads] = open_sent(loads_name)
    total = _Answers()
    for number, state in run.load_shards(task):
        counts = group_partitions(state).counts
        answers = _Answers(partitions=int(counts.sum()))
        topics = state.topic.filter(pa.array(counts > 0))
        tables, answers.known = map(
            list, zip(*(loaded.rows_of(topics) for loaded in loads), strict=True)
        )
        answers.examples = topics[:SHOWN].to_pylist()
        answers.topics[number] = digest_names(topics).tobytes()
        if state.any_queued and state.delete_topic_enabled:
            answers.deleting.add(number)
        load = partition_load(
            state, tables, bytes_out_has_replication=bytes_out_has_replication
        )
        answers.warnings[number], answers.assumptions[number] = load.warnings, load.assumptions
        answers.replicated = {
            name: replicated_total(state, getattr(load, name)) for name in QUANTITIES
        }
        sums = sum_partitions(prepare_sweep(state), load, capacity, weights, consumers)[1]
        total.add(answers)
        # Shard by shard, so that a task holds the terms of two.
        total.sums = [add_sums([*total.sums, sums], down)]
    return total
